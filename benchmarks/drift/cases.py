"""One edit of one file with its right outcome, and the groups of kinds that draw such cases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any


@dataclass(frozen=True, slots=True)
class Case:
    """One edit of one file. ``expected`` is None where the only right outcome is a refusal."""

    text: bytes
    search: str
    replace: str
    expected: bytes | None
    line: int | None = None
    every: bool = False
    """Whether each occurrence is to be replaced."""
    block: bool = False
    """Whether it is sent as a SEARCH/REPLACE block, which means whole lines."""
    also: tuple[bytes, ...] = ()
    """Other results that are right as well."""
    wanted: bytes | None = None
    """What a second try should come to, where the first is rightly refused but its place exists."""
    where: int | None = None
    """The line that is meant (1-based): whoever reads several places in an answer knows which one."""
    about: str = ""
    """The type of the file."""
    stands: bool = True
    """Whether the place that is meant is in the file (``standing.py``): a second try can come to it."""

    @property
    def aim(self) -> bytes | None:
        """What the model means, None if nothing in this file."""
        return self.expected if self.expected is not None else self.wanted

    def end(self, written: bytes | None) -> str:
        """Return ``right``, ``refused`` or ``wrong`` of what an engine wrote, None if it refused."""
        if written is None:
            return "right" if self.expected is None else "refused"
        return "right" if self.accepts(written) else "wrong"

    def accepts(self, written: bytes) -> bool:
        """Tell whether a written file is right."""
        return written == self.expected or written in self.also


def rightly_refused(case: Case | None, line: int) -> Case | None:
    """Return a case whose first try is to be refused; one more try comes to what was expected of it."""
    return case and replace(case, expected=None, wanted=case.expected, where=line)


def as_block(case: Case | None) -> Case | None:
    """Return a case as a SEARCH/REPLACE block has it: lines with their ends."""
    if case is None or not case.replace.strip():
        return None
    search, new = (text.removesuffix("\n") + "\n" for text in (case.search, case.replace))
    return replace(case, search=search, replace=new, block=True)


Kind = Callable[[Random, Any], Case | None]
"""Draws one case from the files of its group; None if what was drawn does not make one."""
GROUPS: dict[str, dict[str, Kind]] = {}
"""All kinds by group and name."""


def register(group: str, make: Kind, name: str = "") -> Kind:
    """Register a kind under its function's name."""
    GROUPS.setdefault(group, {})[name or make.__name__] = make
    return make


def in_group(group: str) -> Callable[[Kind], Kind]:
    """Register the kinds below this line in a group."""
    return lambda make: register(group, make)
