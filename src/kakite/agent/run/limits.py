"""Usage limits of a task: cost, tokens, time and tool calls, alone or with the other tasks of a day.

Usage counts on over interruptions. A run that reaches a limit stops with all its work kept, and continues
when somebody raises the limit. A model of unknown price counts as costing nothing; that is reported once,
and the other limits hold. DailyUsageStore adds up the usage of all tasks of a person in one file.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeVar, cast

from kakite import state_files
from kakite.errors import KakiteError
from kakite.models.messages import Usage

N = TypeVar("N", int, float)
UsageKind = Literal["usd", "tokens", "seconds", "calls"]
_UNITS: dict[UsageKind, str] = {"usd": "USD", "tokens": "tokens", "seconds": "s", "calls": "tool calls"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunUsage:
    """The usage so far."""

    usd: float = 0.0
    tokens: int = 0
    """Read and written, those from a provider's cache included."""
    seconds: float = 0.0
    """At work: the model's and the tools' time, not that of waiting for a person."""
    calls: int = 0

    def __add__(self, other: RunUsage) -> RunUsage:
        return RunUsage(
            usd=self.usd + other.usd,
            tokens=self.tokens + other.tokens,
            seconds=self.seconds + other.seconds,
            calls=self.calls + other.calls,
        )

    def __sub__(self, other: RunUsage) -> RunUsage:
        return RunUsage(
            usd=self.usd - other.usd,
            tokens=self.tokens - other.tokens,
            seconds=self.seconds - other.seconds,
            calls=self.calls - other.calls,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageLimits:
    """The limits of usage; None: no limit."""

    usd: float | None = None
    tokens: int | None = None
    seconds: float | None = None
    calls: int | None = None

    def find_reached(self, spent: RunUsage) -> tuple[UsageKind, ...]:
        """Return which limits leave nothing, in a fixed order."""
        return tuple(kind for kind in _UNITS if self._is_reached(kind, spent))

    def _is_reached(self, kind: UsageKind, spent: RunUsage) -> bool:
        most = self.get_limit(kind)
        return most is not None and _get_used(spent, kind) >= most

    def get_limit(self, kind: UsageKind) -> float | None:
        """Return one of the limits."""
        return getattr(self, kind)

    def increase_by(self, by: UsageLimits) -> UsageLimits:
        """Return the budget once somebody has allowed more of some: what was no limit stays none."""
        return UsageLimits(
            usd=_add_limits(self.usd, by.usd),
            tokens=_add_limits(self.tokens, by.tokens),
            seconds=_add_limits(self.seconds, by.seconds),
            calls=_add_limits(self.calls, by.calls),
        )


def compute_usage(usage: Usage, *, seconds: float, calls: int) -> RunUsage:
    """Return what requests to a model and tool calls used up; a price that is not known counts as none."""
    tokens = usage.input_tokens + usage.output_tokens
    return RunUsage(usd=usage.cost_usd or 0.0, tokens=tokens, seconds=seconds, calls=calls)


def format_reached_limit(kind: UsageKind, budget: UsageLimits, spent: RunUsage) -> str:
    """Return one line on a limit that was reached, for a person."""
    used, most = (
        _format_amount(kind, _get_used(spent, kind)),
        _format_amount(kind, budget.get_limit(kind) or 0),
    )
    return f"{used} of {most} {_UNITS[kind]} are used up"


def _get_used(spent: RunUsage, kind: UsageKind) -> float:
    return getattr(spent, kind)


def _add_limits(present: N | None, more: N | None) -> N | None:
    return present if present is None or more is None else present + more


def _format_amount(kind: UsageKind, value: float) -> str:
    return f"{value:.2f}" if kind == "usd" else f"{value:,.0f}"


_MAX_BYTES = 64 * 1024
_LOCK_TIMEOUT = 5.0
_MAX_DAYS = 31
"""Days that are kept: what a month cost is a fair question."""


class DailyUsageError(KakiteError):
    """The day's sum cannot be read or written: without it no daily limit would hold.

    Code: ``day_unreadable``.
    """

    code = "day_unreadable"
    exit_code = 2


class DailyUsageStore:
    """The sums, by day (UTC)."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "spent.json"

    def get_usage(self, at: datetime) -> RunUsage:
        """Return what the day of this moment has used up so far.

        Raises:
            DailyUsageError: the file is no such file, or not the person's own.
        """
        return self._read().get(_format_day(at), RunUsage())

    def add(self, spent: RunUsage, at: datetime) -> RunUsage:
        """Add to the day of this moment; return its sum. Nothing is lost when several add at once.

        Raises:
            DailyUsageError: the file is no such file, or cannot be written.
        """
        try:
            with state_files.lock_file(self._file.with_suffix(".lock"), _LOCK_TIMEOUT):
                days = self._read()
                total = days[_format_day(at)] = days.get(_format_day(at), RunUsage()) + spent
                latest = dict(sorted(days.items())[-_MAX_DAYS:])
                data = json.dumps({day: asdict(each) for day, each in latest.items()}, indent=1)
                state_files.replace(self._file, data.encode())
        except OSError as error:
            raise self._to_error(error) from error
        return total

    def _read(self) -> dict[str, RunUsage]:
        try:
            data = state_files.read(self._file, _MAX_BYTES)
            found = cast("dict[str, dict[str, float]]", json.loads(data) if data else {})
            return {day: RunUsage(**values) for day, values in found.items()}  # pyright: ignore[reportArgumentType] - ours
        except OSError as error:
            raise self._to_error(error) from error
        except (ValueError, TypeError, AttributeError) as error:
            hint = "remove it: the day's usage then starts from zero"
            raise DailyUsageError(f"`{self._file}` is not a record of daily usage", hint=hint) from error

    def _to_error(self, error: OSError) -> DailyUsageError:
        reason, hint = state_files.explain_os_error(error, self._file)
        return DailyUsageError(f"`{self._file}`: {reason}", hint=hint)


def _format_day(at: datetime) -> str:
    return at.astimezone(UTC).date().isoformat()
