"""Previews of edits by our own editor: which tools have them, what they show, what binds a call to one."""

from __future__ import annotations

from kakite.host.judging import Rule
from kakite.tools.toolset import JsonObject, Tool, ToolCall, ToolResult

_FAILS = "fails"
"""Binds a call to a preview that failed: what would do something by now, was never shown."""


def previews(tool: Tool) -> bool:
    """Return whether a tool can show what it would do, and is believed to do no more than that."""
    # Only of a tool whose effects we believe: another server might do the deed in spite of the word.
    properties: JsonObject = tool.parameters.get("properties", {})
    return tool.effect == "write" and "preview" in properties


def looks(tool: Tool, call: ToolCall) -> bool:
    """Return whether this call of a tool that can write only looks: our editor's ``view``."""
    return previews(tool) and call.arguments.get("command") == "view"


def shows(tool: Tool, call: ToolCall) -> bool:
    """Return whether a preview can show the person what the call would do."""
    return previews(tool) and not looks(tool, call)


def looking(call: ToolCall) -> JsonObject:
    """Return the arguments of the call that would look at what this one would change."""
    given = call.arguments
    return {**given, "command": "view"} if "command" in given else given


def guards(rule: Rule | None) -> bool:
    """Return whether it is this rule that keeps the call from going without a question."""
    return rule is not None and rule.decision != "allow"


def diff_of(preview: ToolResult | None) -> str:
    """Return what a preview shows the person; nothing of one that failed."""
    if preview is None or preview.is_error:
        return ""
    return str(preview.details.get("diff", "")) or preview.text


def bound_by(preview: ToolResult | None) -> str:
    """Return what binds a call to its preview."""
    if preview is None:
        return ""
    return _FAILS if preview.is_error else str(preview.details.get("bound", ""))
