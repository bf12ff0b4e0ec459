"""What ``--json`` of ``kakite host`` says of servers, tools, agreements and problems."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kakite.host.config import Problem
    from kakite.host.consented import Offered
    from kakite.host.entries import ServerEntry
    from kakite.host.host import Agreed, Seen
    from kakite.tools.toolset import JsonObject


def seen_shape(one: Seen) -> JsonObject:
    """Return how a server stands, and what it offers."""
    shape: JsonObject = {
        "name": one.entry.name,
        "state": one.state,
        **origin_shape(one.entry),
        "tools": [tool_shape(tool) for tool in one.tools],
    }
    told = {"code": one.code, "reason": one.reason, "hint": one.hint, "diff": one.diff}
    return shape | {key: value for key, value in told.items() if value}


def tool_shape(tool: Offered) -> JsonObject:
    """Return one tool as it is offered."""
    from kakite.host.trust import Accepted

    return {
        "name": tool.definition.tool.name,
        "model_name": tool.name,
        "title": tool.definition.tool.title,
        "description": tool.definition.tool.description,
        "parameters": tool.definition.tool.parameters,
        "state": "ready" if isinstance(tool.standing, Accepted) else "quarantined",
    }


def agreed_shape(one: Agreed) -> JsonObject:
    """Return what a person agreed to."""
    started = one.failure is None and not one.entry.disabled
    shape: JsonObject = {"name": one.entry.name, "tools": list(one.tools), "started": started}
    if one.changes:
        shape["changes"] = one.changes
    if one.held:
        shape["held"] = list(one.held)
    if one.failure:
        shape |= {"code": one.failure.code, "reason": one.failure.message}
    return shape


def origin_shape(entry: ServerEntry) -> JsonObject:
    """Return where an entry was written."""
    return {"file": entry.origin.file, "line": entry.origin.line, "scope": entry.origin.scope}


def problem_shape(problem: Problem) -> JsonObject:
    """Return what is wrong in a configuration."""
    return {
        "file": str(problem.file),
        "line": problem.line,
        "message": problem.message,
        "hint": problem.hint,
        "fatal": problem.fatal,
    }
