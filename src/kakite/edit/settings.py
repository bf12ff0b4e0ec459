"""How much the ladder forgives. No setting ever lets it forgive what means something else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kakite.edit.edits import Level


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of one batch. The defaults suit a coding agent as well as a page of prose.

    In brackets the name that seed 002, the assistant of a wiki, gave to a setting.
    """

    loosest: Level = "typo"
    """The loosest rung that may decide; ``exact`` forgives nothing."""
    similarity: float = 0.8
    """How similar a line with typos must be to the file's, 0 to 1 (``fuzzyThreshold``). It limits the last
    rung
    only; lowering it forgives no more kinds of difference."""
    buffer_lines: int = 40
    """A line number picks among equal places only up to this many lines away (``bufferLines``)."""
    preserve_indentation: bool = True
    """Whether SEARCH may stand in another indentation, which REPLACE then takes over
    (``preserveIndentation``). Otherwise the rung of indentation is off."""
    strip_line_numbers: bool = True
    """Whether copied line numbers are removed from SEARCH and REPLACE (``stripLineNumbers``)."""
    aggressive: bool = False
    """Whether several misspelt identifiers are forgiven in code, instead of one
    (``enableAggressiveMatching``)."""


DEFAULT = Settings()
