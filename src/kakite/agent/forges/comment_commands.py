"""Reads commands to a task from comments: answers to what it asks.

A command is a line of its own in prose that begins with the name, such as ``@kakite approve 3f9a…``; callers
check whether its author may give it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from kakite.agent.forges.mentions import extract_prose

Answer = Literal["yes", "no", "more"]
LimitKind = Literal["usd", "tokens", "seconds", "calls"]

_UNITS: dict[str, tuple[LimitKind, float]] = {
    "usd": ("usd", 1),
    "$": ("usd", 1),
    "tokens": ("tokens", 1),
    "calls": ("calls", 1),
    "s": ("seconds", 1),
    "seconds": ("seconds", 1),
    "min": ("seconds", 60),
    "minutes": ("seconds", 60),
    "h": ("seconds", 3600),
    "hours": ("seconds", 3600),
}
_DIGEST = r"`?(?P<digest>[0-9a-f]{12,128})`?"
_UNIT = "|".join(map(re.escape, sorted(_UNITS, key=len, reverse=True)))
_AMOUNT = rf"\+?\s*(?P<dollar>\$)?(?P<amount>\d{{1,12}}(?:\.\d{{1,6}})?)\s*(?P<unit>{_UNIT})?"
_SAID = (
    rf"(?:(?P<approve>approve)\s+{_DIGEST}"
    rf"|(?P<deny>deny)\s+{_DIGEST.replace('digest', 'denied')}(?:\s+(?P<reason>\S.*))?"
    rf"|(?P<budget>budget)\s+{_AMOUNT}"
    r"|(?P<go>continue)(?:\s+(?P<advice>\S.*))?)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One answer."""

    answer: Answer
    digest: str = ""
    """What it is an answer to, or its beginning; empty: to whatever is asked now."""
    reason: str = ""
    kind: LimitKind | None = None
    """Of what there may be more."""
    amount: float = 0.0
    """How much more; of time in seconds."""


def parse_commands(text: str, name: str) -> tuple[Command, ...]:
    """Return the commands in a comment, in their order."""
    bare = re.sub(r"`([0-9a-f]{12,128})`", r"\1", text)  # quoted as we have shown it
    found = (_compile_pattern(name).fullmatch(line) for line in extract_prose(bare).splitlines())
    return tuple(_parse_command(each) for each in found if each is not None)


def strip_commands(text: str, name: str) -> str:
    """Return a comment without the lines that are commands."""
    return "\n".join(line for line in text.splitlines() if not _compile_pattern(name).fullmatch(line))


def _compile_pattern(name: str) -> re.Pattern[str]:
    return re.compile(rf"\s{{0,3}}@{re.escape(name)}[,:]?\s+{_SAID}\s*[.!]?\s*", re.IGNORECASE)


def _parse_command(found: re.Match[str]) -> Command:
    if found["approve"]:
        return Command(answer="yes", digest=found["digest"].lower())
    if found["deny"]:
        return Command(answer="no", digest=found["denied"].lower(), reason=(found["reason"] or "").strip())
    if found["go"]:
        return Command(answer="yes", reason=(found["advice"] or "").strip())
    kind, factor = _UNITS[(found["unit"] or "usd").lower()]
    return Command(answer="more", kind=kind, amount=float(found["amount"]) * factor)
