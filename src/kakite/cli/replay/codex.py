"""Reads the rollouts of codex: ``~/.codex/sessions/**/rollout-*.jsonl``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kakite.cli.replay.json_values import Json, get_object, get_text, join_texts
from kakite.cli.replay.patched_files import FileChange, PatchedFiles
from kakite.cli.replay.recorded_edit import Ending, RecordedEdit

_OUTPUTS = {"custom_tool_call_output", "function_call_output"}
_CALLS = {"custom_tool_call", "function_call", "local_shell_call"}


def is_codex(entry: Json) -> bool:
    """Return whether a line is from such a rollout."""
    return entry.get("type") == "session_meta" and "payload" in entry


def read_codex(entries: Iterable[Json]) -> Iterator[RecordedEdit]:
    """Yield the patches of a rollout in the order of their results."""
    rollout = _Rollout()
    for entry in entries:
        payload = get_object(entry, "payload")
        kind, call = get_text(payload, "type"), get_text(payload, "call_id")
        if get_text(entry, "type") in {"session_meta", "turn_context"}:
            rollout.files.folder = get_text(payload, "cwd") or rollout.files.folder
        elif kind in _CALLS:
            rollout.add_call(call, payload)
        elif kind == "item_completed":
            item = get_object(payload, "item")
            rollout.changes[get_text(item, "id")] = get_object(item, "changes")
        elif kind == "patch_apply_end":
            rollout.changes[call] = get_object(payload, "changes")
        elif kind in _OUTPUTS and call in rollout.patches:
            yield from rollout.end_patch(call, payload)
        elif kind in _OUTPUTS:
            rollout.files.texts.clear()


@dataclass
class _Rollout:
    """What was read so far."""

    files: PatchedFiles = field(default_factory=PatchedFiles)
    patches: dict[str, str] = field(default_factory=dict[str, str])
    changes: dict[str, Json] = field(default_factory=dict[str, Json])

    def add_call(self, call: str, payload: Json) -> None:
        if get_text(payload, "name") == "apply_patch":
            self.patches[call] = get_text(payload, "input")
        else:
            self.files.texts.clear()  # how codex reads files too: any program may have run

    def end_patch(self, call: str, payload: Json) -> Iterator[RecordedEdit]:
        patch, changes = self.patches.pop(call), self.changes.pop(call, {})
        told = [_to_change(path, get_object(change)) for path, change in changes.items()]
        return self.files.replay(call, patch, told, _read_ending(payload))


def _to_change(path: str, change: Json) -> FileChange:
    return FileChange(
        path=path,
        moved=get_text(change, "move_path"),
        is_gone=get_text(change, "type") == "delete",
        text=get_text(change, "content") if get_text(change, "type") == "add" else None,
        diff=get_text(change, "unified_diff"),
    )


def _read_ending(payload: Json) -> Ending:
    told = join_texts(payload.get("output"))
    if "Success. Updated the following files" in told:
        return "applied"
    return "failed" if "apply_patch verification failed" in told else "not_tried"
