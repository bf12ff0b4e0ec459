"""Reads the sessions of pi: ``~/.pi/agent/sessions/**/*.jsonl``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kakite.cli.replay.json_values import Json, get_object, get_text, iter_objects, join_texts
from kakite.cli.replay.recorded_edit import KnownTexts, RecordedEdit, replay_hunks
from kakite.cli.replay.unified_hunks import read_hunks

_LOOKING = {"read", "grep", "find", "ls", "edit", "write"}
_NO_PLACE = ("Could not find", "must be unique", "occurrences of")
_CUT = "\n\n["
"""What begins pi's own words below a text that it has cut."""


def is_pi(entry: Json) -> bool:
    """Return whether a line is from such a session."""
    return entry.get("type") == "session" and "version" in entry


def read_pi(entries: Iterable[Json]) -> Iterator[RecordedEdit]:
    """Yield the edits of a session in the order of their results."""
    texts, calls = KnownTexts(), dict[str, Json]()
    for entry in entries:
        message = get_object(entry, "message")
        if message.get("role") == "assistant":
            for block in iter_objects(message.get("content")):
                if block.get("type") == "toolCall":
                    calls[get_text(block, "id")] = block
                    _forget(texts, block)
        elif message.get("role") == "toolResult":
            call = calls.pop(get_text(message, "toolCallId"), None)
            if call is not None:
                yield from _read_result(texts, call, message)


def _forget(texts: KnownTexts, call: Json) -> None:
    if get_text(call, "name") not in _LOOKING:
        texts.clear()


def _read_result(texts: KnownTexts, call: Json, message: Json) -> Iterator[RecordedEdit]:
    name, asked = get_text(call, "name"), get_object(call, "arguments")
    path, told = get_text(asked, "path"), join_texts(message.get("content"))
    failed = message.get("isError") is True
    _forget(texts, call)
    if name == "read" and not failed and not asked.keys() & {"offset", "limit"} and _CUT not in told:
        texts.set(path, told)
    elif name == "write":
        texts.set(path, None if failed else get_text(asked, "content"))
    elif name == "edit":
        yield _read_edit(texts, call, message, told)


def _read_edit(texts: KnownTexts, call: Json, message: Json, told: str) -> RecordedEdit:
    from kakite.edit import Edit

    asked = get_object(call, "arguments")
    path = get_text(asked, "path")
    before = texts.get(path)
    failed = message.get("isError") is True
    hunks = None if failed else read_hunks(get_text(get_object(message, "details"), "patch"))
    after = replay_hunks(before, hunks) if before is not None and hunks else None
    if not failed:
        texts.set(path, after)
    edits = [*iter_objects(asked.get("edits"))] or [asked]
    return RecordedEdit(
        key=f"{get_text(call, 'id')}\0{asked}",
        operations=tuple(
            Edit(search=get_text(each, "oldText"), replace=get_text(each, "newText"), path="file")
            for each in edits
        ),
        before=None if before is None else {"file": before},
        after=None if after is None else {"file": after},
        ending="applied" if not failed else "failed" if any(s in told for s in _NO_PLACE) else "not_tried",
    )
