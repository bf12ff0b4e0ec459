"""One call of a tool: checked before, timed while it runs, checked after."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, cast

import anyio
import mcp_types as mcp
from mcp import Client, MCPError

from kakite.host.cleaning import clean
from kakite.host.clock import Deadline
from kakite.host.convert import to_meta, to_result
from kakite.host.definitions import Offered
from kakite.host.requests import visitable
from kakite.tools.arguments import ToolError, failed, nearest
from kakite.tools.progress import Progress
from kakite.tools.toolset import JsonObject, ToolCall, ToolResult

_SHOWN = 2000  # characters of a server's refusal
_DATA_SHOWN = 500  # characters of what a server adds to that
_NAME = 100  # characters of an argument's name
_VISITS = 5  # addresses that are told
_HINTS = {
    mcp.INVALID_PARAMS: "look at the arguments once more: they fit its schema, but not what it wants",
    mcp.METHOD_NOT_FOUND: "it does not know the tool, or calls at all",
    mcp.MISSING_REQUIRED_CLIENT_CAPABILITY: "it wants to ask what nobody here answers: go on without it",
}
"""By the codes of JSON-RPC and MCP."""


class ConnectionLostError(Exception):
    """The server was gone before it answered; or it says so itself, with the same number."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def misfit(offered: Offered, call: ToolCall) -> ToolResult | None:
    """Return what is wrong with a call's arguments; None when they fit what the tool takes."""
    where, expected = offered.takes.misfit(_given(call, offered))
    if not expected:
        return None
    known = list(cast("JsonObject", offered.definition.tool.parameters.get("properties") or {}))
    unknown = next((name for name in call.arguments if known and name not in known), "")
    hint = f"`{call.name}` takes {', '.join(known) or 'nothing'}"
    if unknown:  # named, too: what is told may be that the one meant is missing
        hint = f"it takes no `{unknown[:_NAME]}`: {nearest(unknown, known)}"
    place = f" at `{where}`" if where else ""
    return failed(
        ToolError(f"`{call.name}` was not called{place}: {expected}", hint=hint, code="invalid_arguments")
    )


def _given(call: ToolCall, offered: Offered) -> JsonObject:
    """Return the arguments without those that are left out by saying ``null``, as many models do."""
    told: Any = offered.definition.tool.parameters.get("required")
    required = cast("list[Any]", told) if isinstance(told, list) else []
    return {name: value for name, value in call.arguments.items() if value is not None or name in required}


def _sent(call: ToolCall, offered: Offered) -> JsonObject:
    """Return the arguments as they were given, if they fit; else without those left out by ``null``."""
    fits = None not in call.arguments.values() or not offered.takes.misfit(call.arguments)[1]
    return call.arguments if fits else _given(call, offered)


async def perform(
    client: Client, offered: Offered, call: ToolCall, deadline: Deadline, on_progress: Progress | None
) -> ToolResult:
    """Call the tool and wait for its end, as long as the deadline says; the server is told when we give up.

    Raises:
        ConnectionLostError: the server was gone before it answered.
    """

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        deadline.heard()
        if on_progress:
            on_progress(progress, total, clean(message or "", _SHOWN))

    try:
        async with deadline:
            result = await client.call_tool(
                call.name, _sent(call, offered), progress_callback=progressed, meta=to_meta(call)
            )
    except TimeoutError:
        return _timed_out(call, deadline)
    except (anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
        raise ConnectionLostError(str(error) or "the connection is closed") from error
    except MCPError as error:
        if error.code == mcp.CONNECTION_CLOSED:
            raise ConnectionLostError(error.message) from error
        return _visit(call, error) if error.code == mcp.URL_ELICITATION_REQUIRED else _no(call, error)
    except (ValueError, RuntimeError) as error:  # no result of the protocol; or it asks for input without end
        return _invalid(call, clean(str(error), _SHOWN), "")
    return _checked(offered, call, result)


def _checked(offered: Offered, call: ToolCall, result: mcp.CallToolResult) -> ToolResult:
    ours = to_result(result)
    if offered.definition.output_schema is not None and not result.is_error:
        if "structured_content" not in result.model_fields_set:
            return _invalid(call, "it has no structured content", ours.text)
        where, expected = offered.gives.misfit(result.structured_content)
        if expected:
            return _invalid(call, f"`{where}`: {expected}" if where else expected, ours.text)
    return _noted(offered, ours)


def _noted(offered: Offered, result: ToolResult) -> ToolResult:
    gives = offered.gives.problem if offered.definition.output_schema is not None else ""
    problems = {"arguments": offered.takes.problem, "result": gives}
    notes = [f"the schema of the {of} is broken: {why}" for of, why in problems.items() if why]
    return replace(result, details={**result.details, "notes": notes}) if notes else result


def _timed_out(call: ToolCall, deadline: Deadline) -> ToolResult:
    took = "took too long in all" if deadline.expired == "total" else "gave no sign of life for too long"
    seconds = deadline.timeouts.total if deadline.expired == "total" else deadline.timeouts.idle
    return failed(
        ToolError(
            f"`{call.name}` {took} ({seconds:g} s); the server was told to stop",
            hint="look at what is there before you try again: it may have done a part or all of it",
            code="call_timed_out",
        )
    )


def refused(call: ToolCall, told: str, hint: str = "") -> ToolResult:
    """Return the server's no to a call."""
    said = clean(told, _SHOWN)
    return failed(
        ToolError(f"the server refused the call of `{call.name}`: {said}", hint=hint, code="call_refused")
    )


def _no(call: ToolCall, error: MCPError) -> ToolResult:
    """Return an error of the protocol: what the server says, and adds to that."""
    data: Any = error.data
    added = "" if data is None else f" ({clean(json.dumps(data, ensure_ascii=False), _DATA_SHOWN)})"
    said = clean(error.message, _SHOWN).strip() or "it does not say why"
    result = refused(call, f"{said}{added}", _HINTS.get(error.code, ""))
    return replace(result, details={"rpc_code": error.code})


def _visit(call: ToolCall, error: MCPError) -> ToolResult:
    """Return what a person has to do before the call: nothing was done, and nothing is opened by itself."""
    visits = _visits(error.data)
    told = "; ".join(f"{each['url']} ({each['message']})" for each in visits)
    said = clean(error.message, _SHOWN)
    return replace(
        failed(
            ToolError(
                f"`{call.name}` was not called: a person has to visit an address first: {told or said}",
                hint="show the person the whole address, and call again once they say that it is done",
                code="visit_required",
            )
        ),
        details={"rpc_code": error.code, "visits": visits},
    )


def _visits(data: Any) -> list[JsonObject]:
    try:
        needed = mcp.ElicitationRequiredErrorData.model_validate(data).elicitations
    except ValueError:
        return []
    return [
        {"url": url, "message": clean(each.message, _SHOWN)}
        for each in needed[:_VISITS]
        if (url := visitable(each.url))
    ]


def _invalid(call: ToolCall, why: str, text: str) -> ToolResult:
    said = f"\nwhat it said:\n{text}" if text else ""
    told = f"Error (invalid_result): `{call.name}` ran, but its result is not what the server promised: {why}"
    return ToolResult(text=told + said, is_error=True, code="invalid_result")
