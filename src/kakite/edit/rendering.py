"""Failures as text: for a model, bounded and to the point, and for a person."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from kakite.edit import japanese
from kakite.edit.failures import OR_LINE
from kakite.edit.folding import squeeze, squeezed_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kakite.edit.failures import Candidate, Failure, Suggestion

MODEL_LIMIT = 2048
"""Bytes that a model is shown at most, however many edits failed."""

_BEFORE, _AFTER = 20, 40
"""Characters of a line that are shown on both sides of what differs."""

_LINE_SHOWN = 240
"""Characters of a candidate's line: of a longer one the part around what differs is shown."""

_VISIBLE = str.maketrans({" ": "·", "\t": "→", "\u00a0": "⍽", "\u3000": "□", "\r": "␍"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What the model sent its edits in, so that a failure speaks of what it can change."""

    search: str = "SEARCH"
    replace: str = "REPLACE"
    takes_line: bool = True
    """Whether an edit can say on which line it starts."""
    accept: str = ""
    """What the model sends to accept a suggestion, with ``{id}`` for its id; empty if it cannot."""


WORDS = Words()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Room:
    """How much is shown."""

    lines: int
    """Of a candidate."""
    diff: int
    """Lines of a suggestion."""
    context: int = 0
    columns: int = 0


_ROOMS = (
    _Room(lines=12, diff=40, context=3, columns=200),
    _Room(lines=6, diff=24, context=3, columns=120),
    _Room(lines=3, diff=14, context=1, columns=100),
    _Room(lines=0, diff=8, context=0, columns=80),
    _Room(lines=0, diff=0),
)


def render_for_model(failures: Sequence[Failure], *, applied: int = 0, words: Words = WORDS) -> str:
    """Return what a model needs to repair its edits, in at most ``MODEL_LIMIT`` bytes of UTF-8.

    ``applied`` is how many other edits of the batch were applied; with 0 nothing was changed.
    """
    failures = [_worded(failure, words) for failure in _each_once(failures)]
    head = _summary(len(failures), applied)
    for room in _ROOMS:
        text = "\n".join([head, *(_for_model(failure, room, words) for failure in failures)])
        if len(text.encode("utf-8", "replace")) <= MODEL_LIMIT:
            return text
    return _bounded(head, [_for_model(failure, _ROOMS[-1], words) for failure in failures])


def _each_once(failures: Sequence[Failure]) -> list[Failure]:
    """Return the failures, each suggestion with the first one that has it."""
    seen: set[str] = set()
    told: list[Failure] = []
    for failure in failures:
        identity = failure.suggestion.id if failure.suggestion else ""
        told.append(replace(failure, suggestion=None) if identity in seen else failure)
        seen.add(identity)
    return told


def _worded(failure: Failure, words: Words) -> Failure:
    hint = failure.hint if words.takes_line else failure.hint.removesuffix(OR_LINE)
    # What is quoted of the text stands between the first backtick and the last one, and is not ours.
    before, tick, rest = failure.message.partition("`")
    quoted, last, after = rest.rpartition("`")
    message = f"{_in(before, words)}{tick}{quoted}{last}{_in(after, words)}"
    return replace(failure, message=message, hint=_in(hint, words))


def _in(ours: str, words: Words) -> str:
    return ours.replace("SEARCH", words.search).replace("REPLACE", words.replace)


def _summary(count: int, applied: int) -> str:
    failed = "1 edit failed" if count == 1 else f"{count} edits failed"
    if applied:
        others = "the other one was" if applied == 1 else f"the other {applied} were"
        return f"{failed}; {others} applied, do not send them again."
    return f"{failed}; nothing was changed."


def _bounded(head: str, blocks: Sequence[str]) -> str:
    lines = [head]
    left = MODEL_LIMIT - len(head) - 40
    for shown, block in enumerate(blocks):
        size = len(block.encode("utf-8", "replace")) + 1
        if size > left:
            room = block.encode("utf-8", "replace")[: max(left - 4, 0)].decode("utf-8", "ignore")
            rest = len(blocks) - shown
            return "\n".join([*lines, f"{room} …", *([f"… and {rest - 1} more."] if rest > 1 else [])])
        lines.append(block)
        left -= size
    return "\n".join(lines)


def _for_model(failure: Failure, room: _Room, words: Words) -> str:
    where = f"{failure.path}: " if failure.path else ""
    lines = [f"Edit {failure.index + 1}: {where}{failure.code}: {failure.message}."]
    if failure.found and failure.sent:
        lines += _difference(failure.found, failure.sent)
    if failure.suggestion is not None:
        lines += _suggested(failure.suggestion, room, words)
    elif room.lines and failure.candidates:
        few = failure.candidates[: 3 if failure.code == "ambiguous" else 1]
        each = max(room.lines // len(few), 1)
        for candidate in few:
            lines += numbered(candidate, each, failure)
    lines.append(f"  {failure.hint}.")
    return "\n".join(lines)


def render_suggestion(suggestion: Suggestion, words: Words = WORDS) -> str:
    """Return what accepting a suggestion would do and how to accept it, in at most ``MODEL_LIMIT`` bytes."""
    texts = ("\n".join(_suggested(suggestion, room, words)) for room in _ROOMS)
    return next(text for text in texts if len(text.encode("utf-8", "replace")) <= MODEL_LIMIT)


def _suggested(suggestion: Suggestion, room: _Room, words: Words) -> list[str]:
    """Return what accepting it would do, as far as that fits, and how to accept it."""
    lines: list[str] = []
    if room.diff:
        from kakite.edit.diff_cutting import cut_diff

        shown = cut_diff(suggestion.diff, context=room.context, columns=room.columns, lines=room.diff)
        lines = ["  Suggested:", *(f"  {line}" for line in shown)]
    if words.accept:
        what = "exactly this" if lines else f"what is suggested from line {suggestion.line} on"
        lines.append(f"  To land {what}, call {words.accept.replace('{id}', suggestion.id)}")
    return lines


def numbered(candidate: Candidate, most: int, failure: Failure) -> list[str]:
    """Return the lines of a candidate with their numbers, at most ``most``, long ones cut."""
    from kakite.edit.diff_cutting import cut_line  # what applies edits should not wait for it

    texts = candidate.text.split("\n")
    differs = _where_they_differ(failure.found, failure.sent)[0] if failure.found and failure.sent else 0
    places = {failure.line - candidate.line: differs}
    lines = [
        f"  {candidate.line + at:>5} | {cut_line(text, places.get(at, 0), _LINE_SHOWN)}"
        for at, text in enumerate(texts[:most])
    ]
    left = candidate.lines - len(lines)
    return [*lines, f"        | … {left} more lines"] if left > 0 else lines


def _difference(found: str, sent: str) -> list[str]:
    """Return both lines with blanks made visible, one above the other at what differs and is not forgiven."""
    columns = _where_they_differ(found, sent)
    before = [_shortly_before(line, column) for line, column in zip((found, sent), columns, strict=True)]
    width = max(map(len, before))
    # Blanks of the lines are drawn, so that these here cannot be taken for any of theirs.
    file, other = (
        before[at].rjust(width) + visible(line[columns[at] : columns[at] + _AFTER])
        for at, line in enumerate((found, sent))
    )
    return [f"  file: {file}", f"  sent: {other}", f"        {' ' * width}^ column {columns[0] + 1}"]


def _shortly_before(line: str, column: int) -> str:
    start = max(column - _BEFORE, 0)
    return ("…" if start else "") + visible(line[start:column])


def _where_they_differ(found: str, sent: str) -> tuple[int, int]:
    """Return the first column of each that differs beyond blanks and look-alikes, else at all."""
    there, here = squeeze(found), squeeze(sent)
    columns = squeezed_columns(found), squeezed_columns(sent)
    if there == here or columns[0] is None or columns[1] is None:
        at = _first_difference(found, sent)
        return at, at
    at = _first_difference(there, here)
    return (
        columns[0].span(at)[0] if at < len(there) else len(found.rstrip()),
        columns[1].span(at)[0] if at < len(here) else len(sent.rstrip()),
    )


def _first_difference(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def around_difference(found: str, sent: str) -> tuple[str, str]:
    """Return two lines, long ones cut to the part around the first difference."""
    if max(len(found), len(sent)) <= 120:
        return found, sent
    at = max(_first_difference(found, sent) - 40, 0)
    head = "…" if at else ""
    return f"{head}{found[at : at + 110]}", f"{head}{sent[at : at + 110]}"


def visible(text: str) -> str:
    """Return the text with its blanks made visible."""
    return text.translate(_VISIBLE)


def render_for_person(failures: Iterable[Failure], language: Literal["en", "ja"] = "en") -> str:
    """Return failures for a person at a terminal: one sentence each, and a hint below it."""
    blocks: list[str] = []
    for failure in failures:
        where = f"{failure.path}: " if failure.path else ""
        if language == "ja":
            message, hint = f"編集 {failure.index + 1}: {japanese.message(failure)}", japanese.hint(failure)
            label = "ヒント"
        else:
            message, hint, label = f"edit {failure.index + 1}: {failure.message}", failure.hint, "hint"
        lines = [f"{where}{message}"]
        if failure.found and failure.sent:
            lines += _difference(failure.found, failure.sent)
        for candidate in failure.candidates[:3]:
            lines += numbered(candidate, 4, failure)
        blocks.append("\n".join([*lines, "", f"{label}: {hint}"]))
    return "\n\n".join(blocks)
