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

    loosest: Level = "line_numbers"
    """The loosest rung that may decide; ``exact`` forgives nothing."""
    preserve_indentation: bool = True
    """Whether SEARCH may stand in another indentation, which REPLACE then takes over
    (``preserveIndentation``). Otherwise the rung of indentation is off."""
    strip_line_numbers: bool = True
    """Whether copied line numbers are removed from SEARCH and REPLACE (``stripLineNumbers``)."""


DEFAULT = Settings()
