"""Collects the findings of a review, and who supports which. Pure.

Each side reports what it finds without seeing the others. In every further round all see all findings, under
numbers and without names, and say of each whether it is a defect: what two sides find by themselves, or one
finds and the other confirms, is worth more than what only one believes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kakite.debate.answers import Finding, FindingVerdict, Severity
from kakite.debate.model import Debate

_SEVERITIES: tuple[Severity, ...] = ("high", "medium", "low")


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedFinding:
    """A finding as all sides are shown it."""

    number: int
    """Counts from 1 over the whole debate, and stays."""
    finding: Finding
    authors: tuple[str, ...]
    """Who reported it, in these words."""
    round: int
    """In which it was reported first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportedFinding:
    """A finding, and where the sides stand on it at last."""

    number: int
    finding: Finding
    supported_by: tuple[str, ...]
    rejected_by: tuple[str, ...]
    verdicts: tuple[tuple[str, FindingVerdict], ...]
    """What each side said of it last, its authors too if they did."""


def list_findings(debate: Debate, number: int) -> tuple[NumberedFinding, ...]:
    """Return what was reported before a round, in an order that tells nothing of who did.

    The same defect in other words is another finding.
    """
    found: dict[tuple[str, int | None, str], NumberedFinding] = {}
    for count, each in enumerate(debate.rounds[: number - 1], start=1):
        said = [(finding, side) for side, answer in each.answers.items() for finding in answer.findings]
        for finding, side in sorted(said, key=lambda item: _build_sort_key(item[0])):
            key = (finding.file, finding.line, " ".join(finding.problem.casefold().split()))
            known = found.get(key)
            if known is None:
                place = len(found) + 1
                found[key] = NumberedFinding(number=place, finding=finding, authors=(side,), round=count)
            elif side not in known.authors:
                found[key] = NumberedFinding(
                    number=known.number,
                    finding=known.finding,
                    authors=(*known.authors, side),
                    round=known.round,
                )
    return tuple(found.values())


def format_place(finding: Finding) -> str:
    """Return where a finding is, for a reader."""
    return f"{finding.file}:{finding.line}" if finding.line else finding.file or "(no file)"


def compute_support(debate: Debate) -> tuple[SupportedFinding, ...]:
    """Return all findings with their support, the best supported first, then the gravest."""
    found = list_findings(debate, len(debate.rounds) + 1)
    supported = [_compute_support(debate, each) for each in found]
    return tuple(sorted(supported, key=_build_rank))


def _compute_support(debate: Debate, numbered: NumberedFinding) -> SupportedFinding:
    latest: dict[str, FindingVerdict] = dict(_iter_verdicts(debate, numbered))
    stands = dict.fromkeys(numbered.authors, "confirm")
    stands |= {side: verdict.opinion for side, verdict in latest.items()}
    names = debate.terms.names
    return SupportedFinding(
        number=numbered.number,
        finding=numbered.finding,
        supported_by=tuple(name for name in names if stands.get(name) == "confirm"),
        rejected_by=tuple(name for name in names if stands.get(name) == "reject"),
        verdicts=tuple((name, latest[name]) for name in names if name in latest),
    )


def _iter_verdicts(debate: Debate, numbered: NumberedFinding) -> Iterator[tuple[str, FindingVerdict]]:
    """Yield what each side said of a finding once it was there; what it said last comes last."""
    for each in debate.rounds[numbered.round :]:
        for side, answer in each.answers.items():
            yield from ((side, verdict) for verdict in answer.support if verdict.on == numbered.number)


def _build_sort_key(finding: Finding) -> tuple[str, int, str]:
    return finding.file, finding.line or 0, finding.problem


def _build_rank(each: SupportedFinding) -> tuple[int, int, str, int, int]:
    finding = each.finding
    worth = len(each.supported_by) - len(each.rejected_by)
    return -worth, _SEVERITIES.index(finding.severity), finding.file, finding.line or 0, each.number
