"""What a model found in a change, and which of it holds: checked against the files as they are now. Pure.

A suggestion is an edit. The edit engine applies it to the file, and forgives nothing: what does not stand
there letter by letter, or stands there twice, is refused and never offered to be applied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from kakite.agent.review.diff import Diff, DiffFile
from kakite.edit import Edit, EditError, MatchOptions, Result, SourceText, apply, unified_diff
from kakite.terminal_text import replace_surrogates

Severity = Literal["high", "medium", "low"]
SEVERITIES: Final[tuple[Severity, ...]] = ("high", "medium", "low")
"""The worst first."""
Refusal = str
"""The engine's code, or ``repeats`` (what it adds stands there already), ``hidden_line`` or ``line_end``."""
DropReason = Literal["file_missing", "lines_missing"]
MAX_FINDINGS: Final = 50
"""In one answer."""
MARKER: Final = "<!-- kakite"
"""What hidden lines of comments of ours begin with: no suggestion may bring one along."""

SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["summary", "findings"],
    "properties": {
        "summary": {"type": "string", "description": "What the change does, and how it is; a few sentences"},
        "findings": {
            "type": "array",
            "maxItems": MAX_FINDINGS,
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["path", "start_line", "end_line", "severity", "title", "why"],
                "properties": {
                    "path": {
                        "type": "string",
                        "minLength": 1,
                        "description": "The file, from the top folder",
                    },
                    "start_line": {"type": "integer", "minimum": 1},
                    "end_line": {"type": "integer", "minimum": 1},
                    "severity": {"enum": list(SEVERITIES)},
                    "title": {"type": "string", "minLength": 1, "description": "What is wrong, in one line"},
                    "why": {"type": "string", "description": "What goes wrong, when, and how you know it"},
                    "suggestion": {
                        "type": "object",
                        "additionalProperties": False,
                        "required": ["search", "replace"],
                        "properties": {
                            "search": {"type": "string", "minLength": 1},
                            "replace": {"type": "string"},
                        },
                    },
                },
            },
        },
    },
}
"""The form of a model's answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something wrong, as the model said it."""

    path: str
    start: int
    """Lines of the new file, from 1."""
    end: int
    severity: Severity
    title: str
    why: str
    search: str = ""
    """Of its suggestion; empty: it has none."""
    replace: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """A change of whole lines that applies to the file as it is now."""

    start: int
    end: int
    """The lines that it replaces, from 1: one at least."""
    lines: tuple[str, ...]
    """What stands there instead, without line ends; empty: nothing."""
    diff: str
    """The same, as a unified diff."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedSuggestion:
    """A suggestion that does not apply exactly."""

    code: Refusal
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedFinding:
    """A finding at lines that are there."""

    finding: Finding
    in_diff: bool
    """Whether the diff shows any of its lines."""
    suggestion: Suggestion | RefusedSuggestion | None = None
    is_applicable: bool = False
    """Whether the suggestion applies and one part of the diff shows all of its lines: a page of a forge can
    apply it then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedFinding:
    """A finding at a file or lines that are not there."""

    finding: Finding
    reason: DropReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """What is left of a model's answer."""

    summary: str
    findings: tuple[CheckedFinding, ...] = ()
    """The worst first, and by their places."""
    dropped: tuple[DroppedFinding, ...] = ()


FileReader = Callable[[str], SourceText | None]
"""Returns a file as it is now; None: there is none of this path."""


def parse_findings(answer: object) -> tuple[str, tuple[Finding, ...]]:
    """Return the summary and the findings of an answer that fits ``SCHEMA``."""
    said = cast("dict[str, Any]", answer)
    return replace_surrogates(said["summary"]), tuple(map(_parse_finding, said["findings"]))


def _parse_finding(said: Mapping[str, Any]) -> Finding:
    suggestion: Mapping[str, str] = said.get("suggestion") or {}
    start, end = int(said["start_line"]), int(said["end_line"])
    path = said["path"]
    return Finding(
        path=replace_surrogates(path.removeprefix("./")),
        start=min(start, end),
        end=max(start, end),
        severity=said["severity"],
        title=replace_surrogates(said["title"]),
        why=replace_surrogates(said["why"]),
        search=replace_surrogates(suggestion.get("search", "")),
        replace=replace_surrogates(suggestion.get("replace", "")),
    )


def check_findings(summary: str, findings: Sequence[Finding], diff: Diff, read: FileReader) -> Review:
    """Return what holds of these findings. The same findings in the same files come out the same."""
    kept: list[CheckedFinding] = []
    dropped: list[DroppedFinding] = []
    for finding in findings:
        source = read(finding.path)
        if source is None:
            dropped.append(DroppedFinding(finding=finding, reason="file_missing"))
        elif finding.end > _count_lines(source.text):
            dropped.append(DroppedFinding(finding=finding, reason="lines_missing"))
        else:
            kept.append(_check_finding(finding, source, diff.find(finding.path)))
    kept.sort(key=_get_rank)
    return Review(summary=summary, findings=tuple(kept), dropped=tuple(dropped))


def _get_rank(checked: CheckedFinding) -> tuple[int, str, int]:
    finding = checked.finding
    return SEVERITIES.index(finding.severity), finding.path, finding.start


def _count_lines(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n"))


def _check_finding(finding: Finding, source: SourceText, changed: DiffFile | None) -> CheckedFinding:
    suggestion = _check_suggestion(finding, source) if finding.search else None
    shown = changed is not None and changed.shows(finding.start, finding.end)
    applicable = (
        isinstance(suggestion, Suggestion)
        and changed is not None
        and changed.find_hunk(suggestion.start, suggestion.end) is not None
    )
    return CheckedFinding(finding=finding, in_diff=shown, suggestion=suggestion, is_applicable=applicable)


def _check_suggestion(finding: Finding, source: SourceText) -> Suggestion | RefusedSuggestion:
    edit = Edit(search=finding.search, replace=finding.replace, line=finding.start, must_exist=True)
    if MARKER in finding.replace:
        return RefusedSuggestion(code="hidden_line", message="it brings a hidden line of Kakite's own along")
    try:
        result = apply(source, [edit], settings=MatchOptions(loosest="exact", strip_line_numbers=False))
    except EditError as error:
        first = error.failures[0]
        return RefusedSuggestion(code=first.code, message=first.message)
    if any(match.repeats for match in result.matches):
        return RefusedSuggestion(code="repeats", message="what it adds stands there already")
    return _to_lines(source.text, result, finding.path)


def _to_lines(text: str, result: Result, path: str) -> Suggestion | RefusedSuggestion:
    r"""Return a change as whole lines.

    Refused is what cannot be said so: lines that end in another way than by ``\n``, and a change of whether
    the last line has an end.
    """
    changes = result.changes.changes
    start = text.rfind("\n", 0, changes[0].start) + 1
    if start == len(text) > 0:  # lines come behind the last one
        start = text.rfind("\n", 0, len(text) - 1) + 1
    last = max(changes[-1].end, start + 1)
    cut = text.find("\n", last - 1) + 1
    end = cut or len(text)
    old = text[start:end]
    new = result.text[start : len(result.text) - (len(text) - end)]
    keeps_end = not new or old.endswith("\n") == new.endswith("\n")
    if "\r" in old + new or not keeps_end or (not new and not old.endswith("\n")):
        return RefusedSuggestion(code="line_end", message="it changes lines that end in another way")
    first = text.count("\n", 0, start) + 1
    return Suggestion(
        start=first,
        end=first + _count_lines(old) - 1,
        lines=tuple(new.removesuffix("\n").split("\n")) if new else (),
        diff=unified_diff(result.changes, text, path=path),
    )
