"""Puts the events of a session into the updates of the Agent Client Protocol. Pure, but for ``EditedFiles``.

An edit is shown with the whole old and new text of its file, which that reads in the project.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from acp import schema

from kakite.agent.acp.edited_files import EditedFiles, ToolContent, text_content
from kakite.agent.observe import events
from kakite.agent.run.checklist import ChecklistStep
from kakite.agent.run.state_machine import describe
from kakite.tools.toolset import JsonObject, ToolCall

Update = (
    schema.UserMessageChunk
    | schema.AgentMessageChunk
    | schema.AgentThoughtChunk
    | schema.ToolCallStart
    | schema.ToolCallProgress
    | schema.AgentPlanUpdate
    | schema.UsageUpdate
    | schema.SessionInfoUpdate
    | schema.AvailableCommandsUpdate
    | schema.ConfigOptionUpdate
    | schema.CurrentModeUpdate
)
_KINDS: Mapping[str, schema.ToolKind] = {
    "text_editor": "edit",
    "edit_lines": "edit",
    "apply_patch": "edit",
    "accept_suggestion": "edit",
    "apply_diffs": "edit",
    "insert_contents": "edit",
    "search_and_replace": "edit",
    "write_files": "edit",
    "delete_file": "delete",
    "move_file": "move",
    "read_files": "read",
    "list_files": "read",
    "glob": "search",
    "find_in_files": "search",
    "run_command": "execute",
    "poll_command": "execute",
    "stop_command": "execute",
    "fetch_page": "fetch",
    "ask_person": "think",
    "update_plan": "think",
}


def get_tool_kind(tool: str, arguments: JsonObject | None) -> schema.ToolKind:
    """Return what kind of call this is, for an icon."""
    if tool == "text_editor" and (arguments or {}).get("command") == "view":
        return "read"
    return _KINDS.get(tool, "other")


def list_edited_paths(tool: str, arguments: JsonObject | None) -> list[str]:
    """Return the paths that a call may change, as the model named them."""
    given = arguments or {}
    if get_tool_kind(tool, given) not in {"edit", "delete", "move"}:
        return []
    paths = [given.get(name) for name in ("path", "source", "destination")]
    edits: Any = given.get("edits")
    if isinstance(edits, list):
        several = cast("list[Any]", edits)
        paths += [cast("JsonObject", each).get("path") for each in several if isinstance(each, dict)]
    patch = given.get("patch")
    if isinstance(patch, str):
        paths += re.findall(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+)$", patch, re.MULTILINE)
        paths += re.findall(r"^\+\+\+ (?:b/)?(\S+)", patch, re.MULTILINE)
    return list(dict.fromkeys(path for path in paths if isinstance(path, str) and path))


def list_locations(files: EditedFiles, arguments: JsonObject | None) -> list[schema.ToolCallLocation]:
    """Return where a call looks or works, so that an editor can follow it."""
    given = arguments or {}
    path = given.get("path")
    if not isinstance(path, str):
        return []
    line: Any = given.get("insert_line")
    span: Any = given.get("view_range")
    if isinstance(span, list) and span and isinstance(span[0], int):
        line = span[0]
    at = line if isinstance(line, int) and line > 0 else None
    return [schema.ToolCallLocation(path=files.to_host_path(path), line=at)]


def to_tool_call(event: events.ToolCallEvent, files: EditedFiles) -> schema.ToolCallStart:
    """Return the update that shows a call before it is made."""
    call = ToolCall(id=event.id, name=event.tool, arguments=event.arguments or {})
    return schema.ToolCallStart(
        session_update="tool_call",
        tool_call_id=event.id,
        title=describe(call),
        kind=get_tool_kind(event.tool, event.arguments),
        status="pending",
        locations=list_locations(files, event.arguments),
        raw_input=event.arguments if event.arguments is not None else event.raw,
    )


def to_tool_result(event: events.ToolResultEvent, diffs: list[ToolContent]) -> schema.ToolCallProgress:
    """Return the update that shows what came of a call."""
    failed = not event.ok or bool(event.exit_code)
    return schema.ToolCallProgress(
        session_update="tool_call_update",
        tool_call_id=event.id,
        status="failed" if failed else "completed",
        content=diffs or [text_content(event.text)],
        raw_output={"text": event.text, "code": event.code, "exit_code": event.exit_code},
    )


def _to_progress(event: events.ToolCallStarted | events.ToolCallOutput) -> schema.ToolCallProgress:
    """Return the update that shows that a call is being made, and what its command has printed."""
    return schema.ToolCallProgress(
        session_update="tool_call_update",
        tool_call_id=event.id,
        status="in_progress",
        content=[text_content(event.text)] if isinstance(event, events.ToolCallOutput) else None,
    )


def _to_note(event: events.ResourceMissing | events.ModelRequestRetried) -> schema.AgentMessageChunk:
    """Return the update that tells, within the model's message, what went wrong."""
    if isinstance(event, events.ModelRequestRetried):
        return message_chunk(f"\n\n[{event.describe()}]\n\n")
    told = f"`{event.what}` is not there, and the session goes on without it: {event.message}"
    return message_chunk(f"{told}\n\n")


def to_plan(steps: Sequence[ChecklistStep]) -> schema.AgentPlanUpdate:
    """Return the update that shows the checklist."""
    entries = [schema.PlanEntry(content=each.text, priority="medium", status=each.status) for each in steps]
    return schema.AgentPlanUpdate(session_update="plan", entries=entries)


def message_chunk(text: str) -> schema.AgentMessageChunk:
    """Return the update that adds text to the model's message."""
    block = schema.TextContentBlock(type="text", text=text)
    return schema.AgentMessageChunk(session_update="agent_message_chunk", content=block)


def iter_updates(event: events.RunEvent, files: EditedFiles) -> Iterator[Update]:
    """Yield the updates that a live event stands for, often none."""
    match event:
        case events.ModelTextDelta(text=text):
            yield message_chunk(text)
        case events.ModelThoughtDelta(text=text):
            block = schema.TextContentBlock(type="text", text=text)
            yield schema.AgentThoughtChunk(session_update="agent_thought_chunk", content=block)
        case events.ToolCallEvent():
            files.note(event.id, list_edited_paths(event.tool, event.arguments))
            yield to_tool_call(event, files)
        case events.ToolCallStarted() | events.ToolCallOutput():
            yield _to_progress(event)
        case events.ToolResultEvent():
            yield to_tool_result(event, files.show_result(event.id, event.diff))
        case events.ResourceMissing() | events.ModelRequestRetried():
            yield _to_note(event)
        case events.PlanUpdated(steps=steps):
            yield to_plan(steps)
        case events.SubagentEvent():
            yield from _iter_subagent_updates(event, files)
        case events.TurnEnded(context_tokens=used, context_window=window, usage=usage):
            cost = schema.Cost(amount=usage.cost_usd, currency="USD") if usage.cost_usd else None
            yield schema.UsageUpdate(session_update="usage_update", used=used, size=window, cost=cost)
        case _:
            return


def _iter_subagent_updates(event: events.SubagentEvent, files: EditedFiles) -> Iterator[Update]:
    """Yield the updates for the calls of a sub-agent: calls like others, whose titles name its task."""
    match event.event:
        case events.ToolCallEvent() as call:
            shown = to_tool_call(replace(call, id=f"{event.task}/{call.id}"), files)
            yield shown.model_copy(update={"title": f"{event.description}: {shown.title}"})
        case events.ToolResultEvent() as result:
            yield to_tool_result(replace(result, id=f"{event.task}/{result.id}"), [])
        case _:
            return


def iter_replay(stored: list[events.StoredEvent], files: EditedFiles) -> Iterator[Update]:
    """Yield the updates that show a stored session again, from its first message on."""
    for event in stored:
        match event:
            case events.UserMessageEvent(text=text, from_person=True):
                block = schema.TextContentBlock(type="text", text=text)
                yield schema.UserMessageChunk(session_update="user_message_chunk", content=block)
            case events.ModelReplyEvent(text=text) if text:
                yield message_chunk(text)
            case events.ToolCallEvent():
                yield to_tool_call(event, files)
            case events.ToolResultEvent(diff=diff):
                yield to_tool_result(event, [text_content(f"```diff\n{diff}\n```")] if diff else [])
            case events.PlanUpdated(steps=steps):
                yield to_plan(steps)
            case _:
                continue
