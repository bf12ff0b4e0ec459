"""What all tasks of a person have used up today, in one small file that every process adds to."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from kakite.agent.budget import Spent
from kakite.errors import KakiteError
from kakite.workspace import records

_MOST = 64 * 1024
_WAIT = 5.0
_KEPT = 31
"""Days that are kept: what a month cost is a fair question."""


class DayError(KakiteError):
    """The day's sum cannot be read or written: without it no daily limit would hold.

    Code: ``day_unreadable``.
    """

    code = "day_unreadable"
    exit_code = 2


class Days:
    """The sums, by day (UTC)."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "spent.json"

    def spent(self, at: datetime) -> Spent:
        """Return what the day of this moment has used up so far.

        Raises:
            DayError: the file is no such file, or not the person's own.
        """
        return self._read().get(_day(at), Spent())

    def add(self, spent: Spent, at: datetime) -> Spent:
        """Add to the day of this moment; return its sum. Nothing is lost when several add at once.

        Raises:
            DayError: the file is no such file, or cannot be written.
        """
        try:
            with records.locked(self._file.with_suffix(".lock"), _WAIT):
                days = self._read()
                total = days[_day(at)] = days.get(_day(at), Spent()) + spent
                latest = dict(sorted(days.items())[-_KEPT:])
                data = json.dumps({day: asdict(each) for day, each in latest.items()}, indent=1)
                records.replace(self._file, data.encode())
        except OSError as error:
            raise self._trouble(error) from error
        return total

    def _read(self) -> dict[str, Spent]:
        try:
            data = records.read(self._file, _MOST)
            found = cast("dict[str, dict[str, float]]", json.loads(data) if data else {})
            return {day: Spent(**values) for day, values in found.items()}  # pyright: ignore[reportArgumentType] - ours
        except OSError as error:
            raise self._trouble(error) from error
        except (ValueError, TypeError, AttributeError) as error:
            hint = "remove it: then the day begins at nothing"
            raise DayError(f"`{self._file}` does not hold what days have used up", hint=hint) from error

    def _trouble(self, error: OSError) -> DayError:
        reason, hint = records.trouble(error, self._file)
        return DayError(f"`{self._file}`: {reason}", hint=hint)


def _day(at: datetime) -> str:
    return at.astimezone(UTC).date().isoformat()
