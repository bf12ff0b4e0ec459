"""The parts of a model's reply."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kakite.edit import Edit


@dataclass(frozen=True, slots=True)
class Said:
    """More of what the reply says to the person. All of these joined are the message."""

    text: str


@dataclass(frozen=True, slots=True)
class Asked:
    """An edit that is asked for, complete."""

    index: int
    """Which edit of the reply, from 0; those that cannot be read count too."""
    edit: Edit
    reason: str
    """What the reply says of it."""


@dataclass(frozen=True, slots=True)
class Broken:
    """An edit that cannot be read, and is left out."""

    index: int
    code: str
    """As of ``kakite.edit.FormatError``, or ``bad_json``."""
    message: str
    hint: str


Part = Said | Asked | Broken


def joined(parts: Iterable[Part]) -> list[Part]:
    """Return the same parts with pieces of the message that follow each other as one."""
    result: list[Part] = []
    for part in parts:
        last = result[-1] if result else None
        if isinstance(part, Said) and isinstance(last, Said):
            result[-1] = Said(last.text + part.text)
        elif part != Said(""):
            result.append(part)
    return result
