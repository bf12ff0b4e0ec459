"""Parses a participant's reply into an Answer or a ParticipantFailure, with the block in an answer. Pure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal, cast

from kakite.terminal_text import replace_surrogates, replace_surrogates_in_json

Opinion = Literal["accept", "accept_with_changes", "reject"]
"""What one participant says of another's answer."""

Severity = Literal["high", "medium", "low"]
"""How much harm a defect does."""
Judgement = Literal["confirm", "reject", "unsure"]
"""What a participant says of a finding: it is a defect, it is none, or that cannot be told."""

FailureCode = Literal[
    "not_installed",  # there is no such program
    "not_logged_in",  # the CLI has no login, or the provider refuses it
    "bad_command",  # the command line is not what this version of the CLI takes
    "needs_terminal",  # it asked on a terminal; there is none
    "http_error",  # the provider refused or failed
    "rate_limited",  # the provider, or the subscription, allows no more now
    "stream_cut",  # the answer broke off
    "empty_answer",  # it ended well and said nothing
    "half_json",  # what it printed is not, or only half, what the reader expects
    "too_long",  # it printed more than is kept
    "timed_out",  # it took longer than it may in all
    "silent",  # it printed nothing for longer than it may
    "killed",  # a signal ended it, not ours
    "exited",  # it ended with an exit code and none of the reasons above
    "unreachable",  # the runner on the host, or the model's provider, is not to be reached
    "no_files",  # the files that the debate is about cannot be read any more
    "broken",  # a mistake of ours
]
"""Why there is no answer. Stable: part of the interface."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """An answer's verdict on one of the answers that its author was shown."""

    on: str
    """As read: the letter under which it was shown. In a debate: the name of the participant that gave it."""
    opinion: Opinion
    issues: tuple[str, ...] = ()
    """What is wrong with it, each in a sentence."""
    strongest: str = ""
    """The best point in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A defect that a review reports."""

    file: str
    """Its path, as the participant was shown it; empty if it is in no file."""
    line: int | None = None
    severity: Severity = "medium"
    problem: str
    fix: str = ""
    """What to do about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingVerdict:
    """A verdict on a finding of a review."""

    on: int
    """The number of the finding."""
    opinion: Judgement
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A participant's answer. All but the text is empty when it wrote no block that can be read."""

    type: Literal["answer"] = "answer"
    text: str
    """The answer for a reader, without the block. Never empty."""
    claim: str = ""
    """The answer in one sentence."""
    confidence: int | None = None
    """From 0 to 100."""
    key_points: tuple[str, ...] = ()
    would_change_my_mind: str = ""
    verdicts: tuple[Verdict, ...] = ()
    """On the answers that it was shown; its own may be among them."""
    position: str = ""
    """Which of those it now agrees with (as in ``Verdict.on``), ``new`` for none, empty if not said."""
    because: str = ""
    """What decided that."""
    ranking: tuple[str, ...] = ()
    """The answers that it was shown (as in ``Verdict.on``), the best one first; among three or more."""
    findings: tuple[Finding, ...] = ()
    """In a review: what it has found."""
    support: tuple[FindingVerdict, ...] = ()
    """In a review: its verdicts on the findings of all."""
    seconds: float = 0.0
    input_tokens: int = 0
    """0 as well where the participant does not tell."""
    output_tokens: int = 0
    cost_usd: float | None = None
    """What the participant believes that it costs; with a subscription it is no bill."""
    exit_code: int | None = None
    stderr_tail: str = ""
    notes: tuple[str, ...] = ()
    """Warnings that came with it, each a line."""
    version: str = ""
    """What answered, as it names its version, or which model; empty where that is not known."""

    @property
    def tokens(self) -> int:
        """All tokens, read and written."""
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class ParticipantFailure:
    """The reason why a participant gave no answer."""

    type: Literal["failure"] = "failure"
    code: FailureCode
    message: str
    """What happened, for a person, in a sentence."""
    hint: str = ""
    """What to do next."""
    partial: str = ""
    """What it had said before it failed."""
    stderr_tail: str = ""
    """The last that it wrote to standard error."""
    exit_code: int | None = None
    """128 + n when signal n ended it; None when it did not run, or we ended it."""
    seconds: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    version: str = ""

    @property
    def tokens(self) -> int:
        """All tokens, read and written."""
        return self.input_tokens + self.output_tokens


Reply = Answer | ParticipantFailure

_MAX_ITEMS = 20
_MAX_CHARACTERS = 2_000
_KEYS = frozenset(
    {
        "findings",
        "support",
        "claim",
        "confidence",
        "key_points",
        "would_change_my_mind",
        "verdicts",
        "position",
        "ranking",
    }
)
_FENCE = re.compile(r"[ \t]*```[ \t]*(.*?)[ \t]*\n?")
_FENCES = 20
"""Fenced blocks of a text that are looked at, from the end."""
_TRAILING_COMMA = re.compile(r",(?=\s*[}\]])")
_OPENINGS = 100
"""Places of a text at which a bare object is looked for, from the end."""
_MAX_FINDINGS = 50
_SEVERITIES: dict[str, Severity] = {
    "high": "high",
    "critical": "high",
    "blocker": "high",
    "major": "high",
    "low": "low",
    "minor": "low",
    "nit": "low",
}
_JUDGEMENTS: dict[str, Judgement] = {
    "confirm": "confirm",
    "confirmed": "confirm",
    "accept": "confirm",
    "agree": "confirm",
    "reject": "reject",
    "rejected": "reject",
    "disagree": "reject",
    "unsure": "unsure",
}
_OPINIONS: dict[str, Opinion] = {
    "accept": "accept",
    "accepted": "accept",
    "agree": "accept",
    "acceptwithchanges": "accept_with_changes",
    "acceptwithchange": "accept_with_changes",
    "reject": "reject",
    "rejected": "reject",
    "disagree": "reject",
}


def read_block(text: str) -> Answer:
    """Read what a participant said: its block if there is one that makes sense, and the text around it.

    The block is the last JSON object with one of the names that were asked for, in a fence or bare. It is
    read leniently: a field in another form is taken where its meaning is plain, and is left out otherwise.
    Without a block the whole text is the answer. Never raises; the text must not be blank.
    """
    text = replace_surrogates(text).strip()
    block, rest = _find_block(text)
    rest = rest.strip()
    points = _read_texts(block.get("key_points"))
    claim = _read_text(block.get("claim"))
    return Answer(
        text=rest or "\n".join(filter(None, (claim, *(f"- {point}" for point in points)))) or text,
        claim=claim,
        confidence=_read_percent(block.get("confidence")),
        key_points=points,
        would_change_my_mind=" ".join(_read_texts(block.get("would_change_my_mind"))),
        verdicts=tuple(_read_verdicts(block.get("verdicts"))),
        position=_read_letter(block.get("position")),
        because=_read_text(block.get("because")),
        ranking=_read_ranking(block.get("ranking")),
        findings=tuple(_read_findings(block.get("findings"))),
        support=tuple(_read_support(block.get("support"))),
    )


def _find_block(text: str) -> tuple[Mapping[str, object], str]:
    """Return the block and the text without it."""
    for start, inside, until, end in islice(_iter_fenced_blocks(text), _FENCES):
        if block := _parse_block(text[inside:until]):
            return block, text[:start] + text[end:]
    best: tuple[Mapping[str, object], str] = {}, text
    for start in islice(
        _iter_openings(text), _OPENINGS
    ):  # from the inside out: what holds the last one is the block
        if read := _parse_bare_object(text, start):
            block, end = read
            best = block, text[:start] + text[end:]
        elif best[0]:
            break
    return best


def _iter_fenced_blocks(text: str) -> Iterator[tuple[int, int, int, int]]:
    """Yield where each block between fences starts with its fence, inside, is over, and ends; the last first.

    In one pass over the lines: a text may be nothing but fences.
    """
    end, closing = len(text), None
    for line in reversed(text.splitlines(keepends=True)):
        start = end - len(line)
        if line.lstrip(" \t").startswith("```") and (found := _FENCE.fullmatch(line)):
            language = found[1].casefold()
            if closing and language in {"", "json"}:
                yield start, end, *closing
            closing = None if language else (start, end)
        end = start


def _iter_openings(text: str) -> Iterator[int]:
    place = len(text)
    while (place := text.rfind("{", 0, place)) >= 0:
        yield place


def _parse_bare_object(text: str, start: int) -> tuple[Mapping[str, object], int] | None:
    try:
        value, end = _DECODER.raw_decode(text, start)
        block = _filter_block(value)
    except (ValueError, RecursionError):
        return None
    return (block, end) if block else None


def _parse_block(text: str) -> Mapping[str, object] | None:
    for each in (text, _TRAILING_COMMA.sub("", text)):
        try:
            return _filter_block(_DECODER.decode(each.strip()))
        except (ValueError, RecursionError):
            continue
    return None


def _filter_block(value: object) -> Mapping[str, object] | None:
    if not isinstance(value, dict):
        return None
    block = cast("dict[str, object]", replace_surrogates_in_json(cast("object", value)))
    return block if _KEYS.intersection(block) else None


_DECODER = json.JSONDecoder(strict=False)  # raw newlines in strings are what models write


def _read_text(value: object) -> str:
    """Return the value as a line of text, if it is one."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    return " ".join(value.split())[:_MAX_CHARACTERS] if isinstance(value, str) else ""


def _read_texts(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        value = value.splitlines()
    if isinstance(value, Mapping):
        value = list(cast("Mapping[str, object]", value).values())
    if not isinstance(value, list):
        return ()
    texts = (_read_text(each).removeprefix("- ") for each in cast("list[object]", value)[:_MAX_ITEMS])
    return tuple(filter(None, texts))


def _read_percent(value: object) -> int | None:
    if isinstance(value, str):
        found = re.search(r"\d+(?:\.\d+)?", value)
        value = float(found[0]) if found else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float):
        if math.isnan(value):
            return None
        value = value * 100 if 0 < value < 1 else value  # a share
    return round(max(0, min(100, value)))


def _read_verdicts(value: object) -> Iterator[Verdict]:
    """Yield one for each letter: ``{"A": {…}}``, ``{"A": "accept"}`` or ``[{"on": "A", …}]``."""
    seen: set[str] = set()
    for on, said in _iter_verdict_items(value):
        letter = _read_letter(on)
        fields: Mapping[str, object] = (
            cast("Mapping[str, object]", said) if isinstance(said, Mapping) else {"verdict": said}
        )
        opinion = _read_opinion(fields.get("verdict", fields.get("opinion")))
        if opinion and letter not in {"", "new", *seen}:
            seen.add(letter)
            yield Verdict(
                on=letter,
                opinion=opinion,
                issues=_read_texts(fields.get("issues")),
                strongest=_read_text(fields.get("strongest")),
            )


def _iter_verdict_items(value: object) -> Iterator[tuple[object, object]]:
    if isinstance(value, Mapping):
        yield from cast("Mapping[str, object]", value).items()
    elif isinstance(value, list):
        for each in cast("Sequence[object]", value):
            if isinstance(each, Mapping):
                fields = cast("Mapping[str, object]", each)
                yield fields.get("on", fields.get("answer", fields.get("letter"))), fields


def _read_findings(value: object) -> Iterator[Finding]:
    for each in cast("Sequence[object]", value)[:_MAX_FINDINGS] if isinstance(value, list) else ():
        fields = cast("Mapping[str, object]", each) if isinstance(each, Mapping) else {"problem": each}
        problem = _read_text(fields.get("problem"))
        if problem:
            severity = _SEVERITIES.get(_read_text(fields.get("severity")).casefold(), "medium")
            file, _, behind = _read_text(fields.get("file")).partition(":")
            line = _read_number(fields.get("line", behind))
            fix = _read_text(fields.get("fix"))
            yield Finding(file=file, line=line, severity=severity, problem=problem, fix=fix)


def _read_support(value: object) -> Iterator[FindingVerdict]:
    """Yield one for each number: ``{"F1": {"verdict": "confirm", "reason": …}}`` or ``{"F1": "confirm"}``."""
    given: Mapping[str, object] = (
        cast("Mapping[str, object]", value) if isinstance(value, Mapping) else dict[str, object]()
    )
    seen: set[int] = set()
    for on, said in given.items():
        number = _read_number(on)
        fields: Mapping[str, object] = (
            cast("Mapping[str, object]", said) if isinstance(said, Mapping) else {"verdict": said}
        )
        opinion = _JUDGEMENTS.get(_read_text(fields.get("verdict")).casefold())
        if number and opinion and number not in seen:
            seen.add(number)
            yield FindingVerdict(on=number, opinion=opinion, reason=_read_text(fields.get("reason")))


def _read_number(value: object) -> int | None:
    """Return the first whole number in a value, if it is one that counts something."""
    found = re.search(r"(?<![\d.])\d{1,7}(?![\d.])", _read_text(value))
    return int(found[0]) or None if found else None


def _read_ranking(value: object) -> tuple[str, ...]:
    letters = map(_read_letter, _read_texts(value.split(">") if isinstance(value, str) else value))
    return tuple(dict.fromkeys(letter for letter in letters if letter not in {"", "new"}))


def _read_opinion(value: object) -> Opinion | None:
    letters = re.sub(r"[^a-z]", "", value.casefold()) if isinstance(value, str) else ""
    return _OPINIONS.get(letters)


def _read_letter(value: object) -> str:
    """Return ``A`` for ``A``, ``[a]`` or ``Answer A``; ``new`` for ``new``; nothing for anything else."""
    said = re.sub(r"[^a-z ]", " ", value.casefold()).split() if isinstance(value, str) else []
    last = said[-1] if said else ""
    if last == "new":
        return "new"
    return last.upper() if len(last) == 1 and set(said[:-1]) <= {"answer"} else ""
