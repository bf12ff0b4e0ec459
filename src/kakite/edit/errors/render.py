"""Renders failures as text: short and bounded for a model, and in full for a person."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from kakite.edit.errors import person_messages
from kakite.edit.errors.model import OR_LINE
from kakite.edit.matching.confusables import build_column_map, normalize_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kakite.edit.errors.model import Candidate, EditFailure, EditSuggestion

MODEL_LIMIT = 2048
"""Bytes that a model is shown at most, however many edits failed."""

_BEFORE, _AFTER = 20, 40
"""Characters of a line that are shown on both sides of what differs."""

_LINE_SHOWN = 240
"""Characters of a candidate's line: of a longer one the part around what differs is shown."""

_VISIBLE = str.maketrans({" ": "·", "\t": "→", "\u00a0": "⍽", "\u3000": "□", "\r": "␍"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldNames:
    """The fields in which the model sent its edits, so that a failure names what it can change."""

    search: str = "SEARCH"
    replace: str = "REPLACE"
    takes_line: bool = True
    """Whether an edit can say on which line it starts."""
    accept: str = ""
    """What the model sends to accept a suggestion, with ``{id}`` for its id; empty if it cannot."""


DEFAULT_FIELD_NAMES = FieldNames()


@dataclass(frozen=True, slots=True, kw_only=True)
class _RenderLimits:
    """The limits of a rendered failure."""

    lines: int
    """Of a candidate."""
    diff: int
    """Lines of a suggestion."""
    context: int = 0
    columns: int = 0


_RENDER_LIMITS = (
    _RenderLimits(lines=12, diff=40, context=3, columns=200),
    _RenderLimits(lines=6, diff=24, context=3, columns=120),
    _RenderLimits(lines=3, diff=14, context=1, columns=100),
    _RenderLimits(lines=0, diff=8, context=0, columns=80),
    _RenderLimits(lines=0, diff=0),
)


def render_for_model(
    failures: Sequence[EditFailure], *, applied: int = 0, words: FieldNames = DEFAULT_FIELD_NAMES
) -> str:
    """Return what a model needs to repair its edits, in at most ``MODEL_LIMIT`` bytes of UTF-8.

    ``applied`` is how many other edits of the batch were applied; with 0 nothing was changed.
    """
    failures = [_apply_field_names(failure, words) for failure in _drop_repeated_suggestions(failures)]
    head = _format_summary(len(failures), applied)
    for room in _RENDER_LIMITS:
        text = "\n".join([head, *(_format_failure(failure, room, words) for failure in failures)])
        if len(text.encode("utf-8", "replace")) <= MODEL_LIMIT:
            return text
    return _truncate_blocks(
        head, [_format_failure(failure, _RENDER_LIMITS[-1], words) for failure in failures]
    )


def _drop_repeated_suggestions(failures: Sequence[EditFailure]) -> list[EditFailure]:
    """Return the failures, each suggestion with the first one that has it."""
    seen: set[str] = set()
    told: list[EditFailure] = []
    for failure in failures:
        identity = failure.suggestion.id if failure.suggestion else ""
        told.append(replace(failure, suggestion=None) if identity in seen else failure)
        seen.add(identity)
    return told


def _apply_field_names(failure: EditFailure, words: FieldNames) -> EditFailure:
    hint = failure.hint if words.takes_line else failure.hint.removesuffix(OR_LINE)
    # What is quoted of the text stands between the first backtick and the last one, and is not ours.
    before, tick, rest = failure.message.partition("`")
    quoted, last, after = rest.rpartition("`")
    message = f"{_substitute_names(before, words)}{tick}{quoted}{last}{_substitute_names(after, words)}"
    return replace(failure, message=message, hint=_substitute_names(hint, words))


def _substitute_names(ours: str, words: FieldNames) -> str:
    return ours.replace("SEARCH", words.search).replace("REPLACE", words.replace)


def _format_summary(count: int, applied: int) -> str:
    failed = "1 edit failed" if count == 1 else f"{count} edits failed"
    if applied:
        others = "the other one was" if applied == 1 else f"the other {applied} were"
        return f"{failed}; {others} applied, do not send them again."
    return f"{failed}; nothing was changed."


def _truncate_blocks(head: str, blocks: Sequence[str]) -> str:
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


def _format_failure(failure: EditFailure, room: _RenderLimits, words: FieldNames) -> str:
    where = f"{failure.path}: " if failure.path else ""
    lines = [f"Edit {failure.index + 1}: {where}{failure.code}: {failure.message}."]
    if failure.found and failure.sent:
        lines += _format_difference(failure.found, failure.sent)
    suggestion = failure.suggestion
    is_loss = suggestion is not None and suggestion.is_loss
    if suggestion is not None and not is_loss:
        lines += _format_suggestion(suggestion, room, words)
    elif room.lines and failure.candidates:
        few = failure.candidates[: 3 if failure.code == "ambiguous" else 1]
        each = max(room.lines // len(few), 1)
        for candidate in few:
            lines += format_candidate(candidate, each, failure)
    lines.append(f"  {failure.hint}.")
    if suggestion is not None and is_loss and words.accept:
        lines.append(f"  If the loss is meant, call {words.accept.replace('{id}', suggestion.id)}")
    return "\n".join(lines)


def render_suggestion(suggestion: EditSuggestion, words: FieldNames = DEFAULT_FIELD_NAMES) -> str:
    """Return what accepting a suggestion would do and how to accept it, in at most ``MODEL_LIMIT`` bytes."""
    texts = ("\n".join(_format_suggestion(suggestion, room, words)) for room in _RENDER_LIMITS)
    return next(text for text in texts if len(text.encode("utf-8", "replace")) <= MODEL_LIMIT)


def _format_suggestion(suggestion: EditSuggestion, room: _RenderLimits, words: FieldNames) -> list[str]:
    """Return what accepting it would do, as far as that fits, and how to accept it."""
    lines: list[str] = []
    if room.diff:
        from kakite.edit.diff_output import cut_diff

        shown = cut_diff(suggestion.diff, context=room.context, columns=room.columns, lines=room.diff)
        lines = ["  Suggested:", *(f"  {line}" for line in shown)]
    if words.accept:
        what = "exactly this" if lines else f"what is suggested from line {suggestion.line} on"
        lines.append(f"  To land {what}, call {words.accept.replace('{id}', suggestion.id)}")
    return lines


def format_candidate(candidate: Candidate, most: int, failure: EditFailure) -> list[str]:
    """Return the lines of a candidate with their numbers, at most ``most``, long ones cut."""
    from kakite.edit.diff_output import cut_line  # what applies edits should not wait for it

    texts = candidate.text.split("\n")
    differs = _find_differing_columns(failure.found, failure.sent)[0] if failure.found and failure.sent else 0
    places = {failure.line - candidate.line: differs}
    lines = [
        f"  {candidate.line + at:>5} | {cut_line(text, places.get(at, 0), _LINE_SHOWN)}"
        for at, text in enumerate(texts[:most])
    ]
    left = candidate.lines - len(lines)
    return [*lines, f"        | … {left} more lines"] if left > 0 else lines


def _format_difference(found: str, sent: str) -> list[str]:
    """Return both lines with blanks made visible, one above the other at what differs and is not forgiven."""
    columns = _find_differing_columns(found, sent)
    before = [_excerpt_before(line, column) for line, column in zip((found, sent), columns, strict=True)]
    width = max(map(len, before))
    # Blanks of the lines are drawn, so that these here cannot be taken for any of theirs.
    file, other = (
        before[at].rjust(width) + show_blanks(line[columns[at] : columns[at] + _AFTER])
        for at, line in enumerate((found, sent))
    )
    return [f"  file: {file}", f"  sent: {other}", f"        {' ' * width}^ column {columns[0] + 1}"]


def _excerpt_before(line: str, column: int) -> str:
    start = max(column - _BEFORE, 0)
    return ("…" if start else "") + show_blanks(line[start:column])


def _find_differing_columns(found: str, sent: str) -> tuple[int, int]:
    """Return the first column of each that differs beyond blanks and look-alikes, else at all."""
    there, here = normalize_text(found), normalize_text(sent)
    columns = build_column_map(found), build_column_map(sent)
    if there == here or columns[0] is None or columns[1] is None:
        at = _find_difference(found, sent)
        return at, at
    at = _find_difference(there, here)
    return (
        columns[0].get_span(at)[0] if at < len(there) else len(found.rstrip()),
        columns[1].get_span(at)[0] if at < len(here) else len(sent.rstrip()),
    )


def _find_difference(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def cut_around_difference(found: str, sent: str) -> tuple[str, str]:
    """Return two lines, long ones cut to the part around the first difference."""
    if max(len(found), len(sent)) <= 120:
        return found, sent
    at = max(_find_difference(found, sent) - 40, 0)
    head = "…" if at else ""
    return f"{head}{found[at : at + 110]}", f"{head}{sent[at : at + 110]}"


def show_blanks(text: str) -> str:
    """Return the text with its blanks made visible."""
    return text.translate(_VISIBLE)


def render_for_person(failures: Iterable[EditFailure], language: Literal["en", "ja"] = "en") -> str:
    """Return failures for a person at a terminal: one sentence each, and a hint below it."""
    blocks: list[str] = []
    for failure in failures:
        where = f"{failure.path}: " if failure.path else ""
        if language == "ja":
            message, hint = (
                f"編集 {failure.index + 1}: {person_messages.format_message_ja(failure)}",
                person_messages.format_hint_ja(failure),
            )
            label = "ヒント"
        else:
            message, hint, label = (
                f"edit {failure.index + 1}: {failure.message}",
                person_messages.format_person_hint(failure),
                "hint",
            )
        lines = [f"{where}{message}"]
        if failure.found and failure.sent:
            lines += _format_difference(failure.found, failure.sent)
        for candidate in failure.candidates[:3]:
            lines += format_candidate(candidate, 4, failure)
        blocks.append("\n".join([*lines, "", f"{label}: {hint}"]))
    return "\n\n".join(blocks)
