"""The groups of edits, and what each draws from."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import corpus
import fragments  # noqa: F401  # registers its kinds
import kinds  # noqa: F401
import refusals  # noqa: F401
import reshaping  # noqa: F401
import typed
from cases import GROUPS as REGISTERED
from cases import Case, Kind

TRIES = 3000


class Asked(Protocol):
    """What the command line says."""

    group: list[str]
    only: str
    count: int
    seed: int
    files: list[Path]
    history: list[Path]
    recorded: Path | None


@dataclass(frozen=True)
class Drawn:
    """A group whose cases are made when they are asked for."""

    name: str
    kinds: Callable[[], Iterable[tuple[str, Iterable[Case]]]]


GROUPS = ("exact", "drift")
"""In the order in which they are told."""


def drawn_cases(asked: Asked) -> list[Drawn]:
    """Return the groups that are asked for, all of them if none is named."""
    return [_group(name, asked) for name in GROUPS if not asked.group or name in asked.group]


def _group(name: str, asked: Asked) -> Drawn:
    return Drawn(name, lambda: _kinds(name, asked))


def _kinds(name: str, asked: Asked) -> Iterator[tuple[str, Iterable[Case]]]:
    sources = corpus.load() if name == "drift" else typed.load(tuple(asked.files))
    chosen = {kind: make for kind, make in REGISTERED[name].items() if asked.only in kind}
    each = max(asked.count // max(len(chosen), 1), 1)
    for kind, make in chosen.items():
        rng = random.Random(f"{asked.seed} {kind}")
        yield kind, draw(rng, make, sources, each)


def draw(rng: random.Random, make: Kind, sources: Any, count: int) -> Iterator[Case]:
    """Yield so many cases of a kind; what does not fit a file is tried on another one."""
    for _ in range(count):
        case = next(filter(None, (make(rng, sources) for _ in range(TRIES))), None)
        if case is None:
            return
        yield case
