"""Writes a review as the texts that a forge's page shows, with suggestions to apply there. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kakite.agent.forges.reviews import ReviewComment
from kakite.agent.issues.comment_format import (
    escape_line,
    format_blockquote,
    format_code_block,
    format_code_span,
)
from kakite.agent.review.diff import Diff
from kakite.agent.review.findings import CheckedFinding, Review, Suggestion

Redact = Callable[[str], str]
"""Returns a text without secrets."""
FormatSuggestion = Callable[[int, int, Sequence[str]], str]
"""As ``ReviewApi.format_suggestion``."""
_TITLE = 200  # characters
_WHY = 4000
_SHORT = 500
_BLOCK = 20_000  # of a suggestion; of a longer one the page shows nothing to apply


def to_comments(
    review: Review, diff: Diff, redact: Redact, format_suggestion: FormatSuggestion
) -> tuple[ReviewComment, ...]:
    """Return what stands beside lines of the diff: findings there, and suggestions for lines there."""
    found: list[ReviewComment] = []
    for each in review.findings:
        place = _find_place(each, diff)
        if place is not None:
            text = _format_remark(each, redact, format_suggestion)
            found.append(_to_comment(each.finding.path, *place, text, diff))
    return tuple(found)


def _to_comment(path: str, start: int, end: int, text: str, diff: Diff) -> ReviewComment:
    file = diff.find(path)
    hunk = file.find_hunk(start, end) if file else None
    return ReviewComment(
        path=path,
        start=start,
        end=end,
        text=text,
        old_path=file.old_path if file else "",
        old_line=hunk.old_lines[end - hunk.start] if hunk else None,
        place=format_code_span(f"{path}:{start}", _TITLE),
    )


def format_review_text(review: Review, diff: Diff, redact: Redact) -> str:
    """Return the text of the whole: the summary, and the findings for which the diff has no lines."""
    others = [each for each in review.findings if _find_place(each, diff) is None]
    lines = [f"**Review by Kakite: {_count(len(review.findings), 'finding')}.**"]
    lines += ["", format_blockquote(redact(review.summary), _WHY)] if review.summary.strip() else []
    if others:
        lines += ["", "Outside of the change:", "", *_list_others(others, redact)]
    if review.dropped:
        left = _count(len(review.dropped), "finding")
        lines += ["", f"Left out: {left} at files or lines that are not there."]
    return "\n".join(lines)


def _list_others(findings: Sequence[CheckedFinding], redact: Redact) -> list[str]:
    lines: list[str] = []
    for each in findings:
        said = each.finding
        place = format_code_span(f"{said.path}:{said.start}", _TITLE)
        why = escape_line(redact(said.why), _SHORT)
        lines.append(f"- **{said.severity}** {place}: {escape_line(redact(said.title), _TITLE)}. {why}")
    return lines


def _find_place(checked: CheckedFinding, diff: Diff) -> tuple[int, int] | None:
    """Return the lines that a remark stands beside: all in one part of the diff."""
    said, file = checked.finding, diff.find(checked.finding.path)
    if checked.is_applicable and isinstance(checked.suggestion, Suggestion):
        return checked.suggestion.start, checked.suggestion.end
    hunks = file.hunks if file else ()
    hunk = next((each for each in hunks if each.start <= said.end and said.start <= each.end), None)
    return None if hunk is None else (max(said.start, hunk.start), min(said.end, hunk.end))


def _format_remark(checked: CheckedFinding, redact: Redact, format_suggestion: FormatSuggestion) -> str:
    said = checked.finding
    text = f"**{said.severity}**: {escape_line(redact(said.title), _TITLE)}"
    if said.why.strip():
        text += f"\n\n{format_blockquote(redact(said.why), _WHY)}"
    if not isinstance(checked.suggestion, Suggestion):
        return text
    suggested = checked.suggestion
    block = format_suggestion(suggested.start, suggested.end, suggested.lines)
    if checked.is_applicable and 0 < len(block) <= _BLOCK and redact(block) == block:
        return f"{text}\n\n{block}"
    diff = format_code_block(redact(checked.suggestion.diff), _WHY, "diff")
    return f"{text}\n\nA change to be made by hand:\n\n{diff}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
