"""What a task may cost: money, tokens, time and tool calls, alone or with the others of a day. Pure.

A budget is a limit that holds: it counts on over interruptions, and where it is reached the run stops with
all that was done, to be gone on with when somebody allows more. A model whose price nobody knows costs no
money here; that is told once, and the other limits hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeVar

from kakite.models.messages import Usage

N = TypeVar("N", int, float)
Kind = Literal["usd", "tokens", "seconds", "calls"]
_UNITS: dict[Kind, str] = {"usd": "USD", "tokens": "tokens", "seconds": "s", "calls": "tool calls"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What was used up so far."""

    usd: float = 0.0
    tokens: int = 0
    """Read and written, those from a provider's cache included."""
    seconds: float = 0.0
    """At work: the model's and the tools' time, not that of waiting for a person."""
    calls: int = 0

    def __add__(self, other: Spent) -> Spent:
        return Spent(
            usd=self.usd + other.usd,
            tokens=self.tokens + other.tokens,
            seconds=self.seconds + other.seconds,
            calls=self.calls + other.calls,
        )

    def __sub__(self, other: Spent) -> Spent:
        return Spent(
            usd=self.usd - other.usd,
            tokens=self.tokens - other.tokens,
            seconds=self.seconds - other.seconds,
            calls=self.calls - other.calls,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How much may be used up; None: as much as it takes."""

    usd: float | None = None
    tokens: int | None = None
    seconds: float | None = None
    calls: int | None = None

    def reached(self, spent: Spent) -> tuple[Kind, ...]:
        """Return which limits leave nothing, in a fixed order."""
        return tuple(kind for kind in _UNITS if self._is_reached(kind, spent))

    def _is_reached(self, kind: Kind, spent: Spent) -> bool:
        most = self.most(kind)
        return most is not None and _of(spent, kind) >= most

    def most(self, kind: Kind) -> float | None:
        """Return one of the limits."""
        return getattr(self, kind)

    def raised(self, by: Budget) -> Budget:
        """Return the budget once somebody has allowed more of some: what was no limit stays none."""
        return Budget(
            usd=_sum(self.usd, by.usd),
            tokens=_sum(self.tokens, by.tokens),
            seconds=_sum(self.seconds, by.seconds),
            calls=_sum(self.calls, by.calls),
        )


def spent_by(usage: Usage, *, seconds: float, calls: int) -> Spent:
    """Return what requests to a model and tool calls used up; a price that is not known counts as none."""
    tokens = usage.input_tokens + usage.output_tokens
    return Spent(usd=usage.cost_usd or 0.0, tokens=tokens, seconds=seconds, calls=calls)


def told(kind: Kind, budget: Budget, spent: Spent) -> str:
    """Return one line on a limit that was reached, for a person."""
    used, most = _amount(kind, _of(spent, kind)), _amount(kind, budget.most(kind) or 0)
    return f"{used} of {most} {_UNITS[kind]} are used up"


def _of(spent: Spent, kind: Kind) -> float:
    return getattr(spent, kind)


def _sum(present: N | None, more: N | None) -> N | None:
    return present if present is None or more is None else present + more


def _amount(kind: Kind, value: float) -> str:
    return f"{value:.2f}" if kind == "usd" else f"{value:,.0f}"
