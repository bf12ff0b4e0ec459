"""Limits hold, add up over tasks and processes, and are told in words."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kakite.agent.budget import Budget, Spent, spent_by, told
from kakite.agent.day import DayError, Days
from kakite.models.messages import Usage

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)
AMOUNTS = st.builds(
    Spent,
    usd=st.integers(0, 100).map(float),
    tokens=st.integers(0, 100),
    seconds=st.integers(0, 100).map(float),
    calls=st.integers(0, 100),
)
LIMIT = st.none() | st.integers(1, 100)
BUDGETS = st.builds(Budget, usd=LIMIT, tokens=LIMIT, seconds=LIMIT, calls=LIMIT)


@given(BUDGETS, AMOUNTS, AMOUNTS)
def test_what_was_reached_stays_reached(budget: Budget, spent: Spent, more: Spent) -> None:
    assert set(budget.reached(spent)) <= set(budget.reached(spent + more))


@given(AMOUNTS)
def test_no_limit_is_never_reached(spent: Spent) -> None:
    assert Budget().reached(spent) == ()


@given(BUDGETS, AMOUNTS)
@example(Budget(usd=1, tokens=2, seconds=3, calls=4), Spent(usd=1, tokens=2, seconds=3, calls=4))
def test_a_limit_is_reached_exactly_when_nothing_is_left(budget: Budget, spent: Spent) -> None:
    for kind in ("usd", "tokens", "seconds", "calls"):
        most = budget.most(kind)
        left = most is None or getattr(spent, kind) < most
        assert (kind not in budget.reached(spent)) == left


@given(BUDGETS, AMOUNTS)
def test_as_much_again_lets_a_run_go_on(budget: Budget, spent: Spent) -> None:
    more = Budget(usd=101, tokens=101, seconds=101, calls=101)
    assert budget.raised(more).reached(spent) == ()
    assert budget.raised(Budget()) == budget


def test_an_unknown_price_is_no_money_and_stops_nothing() -> None:
    usage = Usage(requests=3, input_tokens=10, output_tokens=5, cost_usd=None)
    assert spent_by(usage, seconds=1.0, calls=2) == Spent(usd=0.0, tokens=15, seconds=1.0, calls=2)


def test_a_person_is_told_how_much_of_what() -> None:
    spent, budget = Spent(usd=1.234, tokens=1_234_567), Budget(usd=1, tokens=1_000_000)
    assert told("usd", budget, spent) == "1.23 of 1.00 USD are used up"
    assert told("tokens", budget, spent) == "1,234,567 of 1,000,000 tokens are used up"


@given(st.lists(AMOUNTS, max_size=5))
def test_a_day_is_the_sum_of_what_was_added(
    tmp_path_factory: pytest.TempPathFactory, parts: list[Spent]
) -> None:
    folder = tmp_path_factory.mktemp("day")
    days = Days(folder)
    total = Spent()
    for part in parts:
        total += part
        assert days.add(part, NOW) == total
    assert Days(folder).spent(NOW) == total


def test_days_are_those_of_utc_and_a_month_is_kept(tmp_path: Path) -> None:
    days = Days(tmp_path)
    evening = datetime(2026, 1, 2, 23, 30, tzinfo=timezone(-timedelta(hours=5)))
    days.add(Spent(calls=1), evening)
    assert days.spent(datetime(2026, 1, 3, tzinfo=UTC)).calls == 1
    assert days.spent(NOW) == Spent()
    for number in range(40):
        days.add(Spent(calls=1), NOW + timedelta(days=number))
    assert days.spent(NOW) == Spent()
    assert days.spent(NOW + timedelta(days=39)).calls == 1


def test_what_many_add_at_once_is_all_there(tmp_path: Path) -> None:
    def add(calls: int) -> None:
        Days(tmp_path).add(Spent(calls=calls), NOW)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, [1] * 40))
    assert Days(tmp_path).spent(NOW).calls == 40


@pytest.mark.parametrize("content", ["{", "[1]", '{"2026-01-02": 3}', '{"2026-01-02": {"unknown": 1}}'])
def test_a_broken_file_is_told_and_kept(tmp_path: Path, content: str) -> None:
    file = tmp_path / "spent.json"
    file.write_text(content, encoding="utf-8")
    file.chmod(0o600)
    for act in (lambda: Days(tmp_path).spent(NOW), lambda: Days(tmp_path).add(Spent(calls=1), NOW)):
        with pytest.raises(DayError) as caught:
            act()
        assert caught.value.code == "day_unreadable"
    assert file.read_text(encoding="utf-8") == content


@pytest.mark.skipif(sys.platform == "win32", reason="modes of files")
def test_a_file_that_others_may_write_is_not_believed(tmp_path: Path) -> None:
    Days(tmp_path).add(Spent(calls=1), NOW)
    Path(tmp_path / "spent.json").chmod(0o666)
    with pytest.raises(DayError):
        Days(tmp_path).spent(NOW)
