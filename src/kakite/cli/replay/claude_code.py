"""Reads the transcripts of Claude Code: ``~/.claude/projects/**/*.jsonl``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kakite.cli.replay.json_values import Json, get_object, get_text, iter_objects, join_texts
from kakite.cli.replay.recorded_edit import KnownTexts, RecordedEdit, replay_hunks

_LOOKING = {"Read", "Grep", "Glob", "LS", "Edit", "Write", "TodoWrite", "WebFetch", "WebSearch"}
"""Tools that change no file, or only the one that their result tells of."""
_NO_PLACE = ("String to replace not found", "matches of the string to replace")


def is_claude_code(entry: Json) -> bool:
    """Return whether a line is from such a transcript."""
    return "sessionId" in entry and "type" in entry


def read_claude_code(entries: Iterable[Json]) -> Iterator[RecordedEdit]:
    """Yield the edits of a transcript in the order of their results."""
    texts, calls = KnownTexts(), dict[str, Json]()
    for entry in entries:
        if get_text(entry, "type") not in {"assistant", "user"}:
            continue  # what was sent to the model stands in other lines once more
        for block in iter_objects(get_object(entry, "message").get("content")):
            if block.get("type") == "tool_use":
                calls[get_text(block, "id")] = block
                _forget(texts, block)
            elif block.get("type") == "tool_result":
                call = calls.pop(get_text(block, "tool_use_id"), None)
                if call is not None:
                    yield from _read_result(texts, call, block, entry.get("toolUseResult"))


def _forget(texts: KnownTexts, call: Json) -> None:
    if get_text(call, "name") not in _LOOKING:
        texts.clear()


def _read_result(texts: KnownTexts, call: Json, block: Json, told: object) -> Iterator[RecordedEdit]:
    name, result = get_text(call, "name"), get_object(told)
    asked = get_object(call, "input")
    path = get_text(asked, "file_path")
    _forget(texts, call)
    if name == "Read":
        _learn(texts, get_object(result, "file"))
    elif name == "Write":
        texts.set(path, None if block.get("is_error") else get_text(asked, "content"))
    elif name == "Edit" and get_text(asked, "old_string"):
        yield _read_edit(texts, call, block, result)


def _learn(texts: KnownTexts, file: Json) -> None:
    """Remember a file that was read from its first line to its last."""
    if file.get("startLine") == 1 and file.get("numLines") == file.get("totalLines") is not None:
        texts.set(get_text(file, "filePath"), get_text(file, "content"))


def _read_edit(texts: KnownTexts, call: Json, block: Json, result: Json) -> RecordedEdit:
    from kakite.edit import Edit

    asked = get_object(call, "input")
    path = get_text(asked, "file_path")
    original = result.get("originalFile")
    before = original if isinstance(original, str) else texts.get(path)
    failed = bool(block.get("is_error"))
    told = join_texts(block.get("content"))
    after = None if failed or before is None else _apply_patch(before, result)
    if not failed:
        texts.set(path, after)
    return RecordedEdit(
        key=f"{get_text(call, 'id')}\0{asked}",
        operations=(
            Edit(
                search=get_text(asked, "old_string"),
                replace=get_text(asked, "new_string"),
                all=asked.get("replace_all") is True,
                path="file",
            ),
        ),
        before=None if before is None else {"file": before},
        after=None if after is None else {"file": after},
        ending="applied" if not failed else "failed" if any(s in told for s in _NO_PLACE) else "not_tried",
    )


def _apply_patch(before: str, result: Json) -> str | None:
    """Return the text that Claude Code wrote, as its own difference tells; None if a person changed it."""
    if result.get("userModified") is True:
        return None
    hunks: list[tuple[int, list[str]]] = []
    for hunk in iter_objects(result.get("structuredPatch")):
        start, lines = hunk.get("oldStart"), hunk.get("lines")
        if not isinstance(start, int) or not isinstance(lines, list):
            return None
        hunks.append((start, [str(line) for line in lines]))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return replay_hunks(before, hunks) if hunks else None
