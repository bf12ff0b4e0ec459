"""Reads the rollouts of codex: ``~/.codex/sessions/**/rollout-*.jsonl``."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from dataclasses import replace as with_fields
from typing import TYPE_CHECKING, cast

from kakite.cli.replay.json_values import Json, get_object, get_text, join_texts
from kakite.cli.replay.recorded_edit import Ending, KnownTexts, RecordedEdit, replay_hunks
from kakite.cli.replay.unified_hunks import read_hunks

if TYPE_CHECKING:
    from kakite.edit import Operation

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
            rollout.folder = get_text(payload, "cwd") or rollout.folder
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
            rollout.texts.clear()


@dataclass
class _Rollout:
    """What was read so far."""

    folder: str = "/"
    texts: KnownTexts = field(default_factory=KnownTexts)
    patches: dict[str, str] = field(default_factory=dict[str, str])
    changes: dict[str, Json] = field(default_factory=dict[str, Json])

    def add_call(self, call: str, payload: Json) -> None:
        if get_text(payload, "name") == "apply_patch":
            self.patches[call] = get_text(payload, "input")
        else:
            self.texts.clear()  # how codex reads files too: any program may have run

    def end_patch(self, call: str, payload: Json) -> Iterator[RecordedEdit]:
        from kakite.edit import CreateFile

        patch, changes = self.patches.pop(call), self.changes.pop(call, {})
        operations = self._parse(patch)
        ending = _read_ending(payload)
        edited = {each.path for each in operations if not isinstance(each, CreateFile)}
        before = {path: text for path in edited if (text := self.texts.get(f"/{path}")) is not None}
        known = before if len(before) == len(edited) else None
        after = self._learn(changes) if ending == "applied" else None
        if edited or not operations:
            yield RecordedEdit(
                key=f"{call}\0{patch}", operations=operations, before=known, after=after, ending=ending
            )

    def _parse(self, patch: str) -> tuple[Operation, ...]:
        from kakite.edit import FormatError, MoveFile, parse

        try:
            operations = parse(patch, "apply_patch")
        except FormatError:
            return ()
        return tuple(
            with_fields(each, path=self._name(each.path), to=self._name(each.to))
            if isinstance(each, MoveFile)
            else with_fields(each, path=self._name(each.path))
            for each in operations
        )

    def _name(self, path: str) -> str:
        """Return a path from the root on, without its slash: the engine takes relative ones alone."""
        return posixpath.normpath(posixpath.join(self.folder, path)).lstrip("/")

    def _learn(self, changes: Json) -> dict[str, str] | None:
        """Remember the files that a patch has written, and return them; None if one is not known."""
        after: dict[str, str | None] = {}
        for path, told in changes.items():
            change = get_object(told)
            moved = get_text(change, "move_path")
            if get_text(change, "type") == "delete":
                text = None
            elif get_text(change, "type") == "add":
                text = get_text(change, "content")
            else:
                old, hunks = self.texts.get(path), read_hunks(get_text(change, "unified_diff"))
                text = replay_hunks(old, hunks) if old is not None and hunks else None
            self.texts.set(path, None)
            self.texts.set(moved or path, text)
            if get_text(change, "type") != "delete":
                after[self._name(moved or path)] = text
        return cast("dict[str, str]", after) if changes and None not in after.values() else None


def _read_ending(payload: Json) -> Ending:
    told = join_texts(payload.get("output"))
    if "Success. Updated the following files" in told:
        return "applied"
    return "failed" if "apply_patch verification failed" in told else "not_tried"
