"""The groups of edits, and what each draws from. What is above this folder has to be on the path."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import corpus
import endings  # noqa: F401  # registers its kinds, as others do
import fragments  # noqa: F401
import histories
import kinds  # noqa: F401
import layouts  # noqa: F401
import placeholders  # noqa: F401
import recorded
import reformatted  # noqa: F401
import refusals  # noqa: F401
import reshaping  # noqa: F401
import stale  # noqa: F401
import twins  # noqa: F401
import typed
from cases import GROUPS as REGISTERED
from cases import Case, Kind
from edit_groups import ONLY_OURS, TITLES, WEIGHTS

TRIES = 3000


class Asked(Protocol):
    """What the command line says."""

    group: list[str]
    only: str
    peers: bool
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


GROUPS = tuple(TITLES)


def drawn_cases(asked: Asked) -> list[Drawn]:
    """Return the groups that are asked for, all of them if none is named."""
    wanted = [name for name in GROUPS if not asked.group or name in asked.group]
    left_out = {"recorded" if not asked.recorded else "", *(ONLY_OURS if asked.peers else ())}
    return [_group(name, asked) for name in wanted if name not in left_out]


def names(repos: list[Path]) -> str:
    """Return the names of the repositories whose histories are taken."""
    own = Path(__file__).parents[2]
    found = ("this repository" if repo.resolve() == own else _name(repo.resolve()) for repo in repos)
    return ", ".join(found) or "this repository"


def _name(repo: Path) -> str:
    """Return the last part of a path that says something, and of `OWNER+NAME` the name."""
    parts = [part for part in repo.parts if part not in {"repo", ".git"}]
    return parts[-1].rpartition("+")[2].removesuffix(".git")


def _group(name: str, asked: Asked) -> Drawn:
    return Drawn(name, lambda: _kinds(name, asked))


def _kinds(name: str, asked: Asked) -> Iterator[tuple[str, Iterable[Case]]]:
    if name == "recorded":
        assert asked.recorded is not None
        yield from recorded.cases(recorded.read(asked.recorded))
        return
    sources = _sources(name, asked)
    left_out = ONLY_OURS if asked.peers else set[str]()
    chosen = {k: make for k, make in REGISTERED[name].items() if asked.only in k and k not in left_out}
    each = max(asked.count * WEIGHTS.get(name, 1) // max(len(chosen), 1), 1)
    for kind, make in chosen.items():
        rng = random.Random(f"{asked.seed} {kind}")
        yield kind, draw(rng, make, sources, each)


def _sources(name: str, asked: Asked) -> Any:
    if name == "drift":
        return corpus.load()
    if name in {"history", "history drift", "one line"}:
        return histories.load(tuple(asked.history))
    return typed.load(tuple(asked.files))


def draw(rng: random.Random, make: Kind, sources: Any, count: int) -> Iterator[Case]:
    """Yield so many cases of a kind; what does not fit a file is tried on another one."""
    for _ in range(count):
        case = next(filter(None, (make(rng, sources) for _ in range(TRIES))), None)
        if case is None:
            return
        yield case
