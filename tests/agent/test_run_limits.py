"""Limits hold, add up over tasks and processes, and are told in words."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kakite.agent.run.limits import (
    DailyUsageError,
    DailyUsageStore,
    RunUsage,
    UsageLimits,
    compute_usage,
    format_reached_limit,
)
from kakite.models.messages import Usage

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)
AMOUNTS = st.builds(
    RunUsage,
    usd=st.integers(0, 100).map(float),
    tokens=st.integers(0, 100),
    seconds=st.integers(0, 100).map(float),
    calls=st.integers(0, 100),
)
LIMIT = st.none() | st.integers(1, 100)
BUDGETS = st.builds(UsageLimits, usd=LIMIT, tokens=LIMIT, seconds=LIMIT, calls=LIMIT)


@given(BUDGETS, AMOUNTS, AMOUNTS)
def test_what_was_reached_stays_reached(budget: UsageLimits, spent: RunUsage, more: RunUsage) -> None:
    assert set(budget.find_reached(spent)) <= set(budget.find_reached(spent + more))


@given(AMOUNTS)
def test_no_limit_is_never_reached(spent: RunUsage) -> None:
    assert UsageLimits().find_reached(spent) == ()


@given(BUDGETS, AMOUNTS)
@example(UsageLimits(usd=1, tokens=2, seconds=3, calls=4), RunUsage(usd=1, tokens=2, seconds=3, calls=4))
def test_a_limit_is_reached_exactly_when_nothing_is_left(budget: UsageLimits, spent: RunUsage) -> None:
    for kind in ("usd", "tokens", "seconds", "calls"):
        most = budget.get_limit(kind)
        left = most is None or getattr(spent, kind) < most
        assert (kind not in budget.find_reached(spent)) == left


@given(BUDGETS, AMOUNTS)
def test_as_much_again_lets_a_run_go_on(budget: UsageLimits, spent: RunUsage) -> None:
    more = UsageLimits(usd=101, tokens=101, seconds=101, calls=101)
    assert budget.increase_by(more).find_reached(spent) == ()
    assert budget.increase_by(UsageLimits()) == budget


def test_an_unknown_price_is_no_money_and_stops_nothing() -> None:
    usage = Usage(requests=3, input_tokens=10, output_tokens=5, cost_usd=None)
    assert compute_usage(usage, seconds=1.0, calls=2) == RunUsage(usd=0.0, tokens=15, seconds=1.0, calls=2)


def test_a_person_is_told_how_much_of_what() -> None:
    spent, budget = RunUsage(usd=1.234, tokens=1_234_567), UsageLimits(usd=1, tokens=1_000_000)
    assert format_reached_limit("usd", budget, spent) == "1.23 of 1.00 USD are used up"
    assert format_reached_limit("tokens", budget, spent) == "1,234,567 of 1,000,000 tokens are used up"


@given(st.lists(AMOUNTS, max_size=5))
def test_a_day_is_the_sum_of_what_was_added(
    tmp_path_factory: pytest.TempPathFactory, parts: list[RunUsage]
) -> None:
    folder = tmp_path_factory.mktemp("day")
    days = DailyUsageStore(folder)
    total = RunUsage()
    for part in parts:
        total += part
        assert days.add(part, NOW) == total
    assert DailyUsageStore(folder).get_usage(NOW) == total


def test_days_are_those_of_utc_and_a_month_is_kept(tmp_path: Path) -> None:
    days = DailyUsageStore(tmp_path)
    evening = datetime(2026, 1, 2, 23, 30, tzinfo=timezone(-timedelta(hours=5)))
    days.add(RunUsage(calls=1), evening)
    assert days.get_usage(datetime(2026, 1, 3, tzinfo=UTC)).calls == 1
    assert days.get_usage(NOW) == RunUsage()
    for number in range(40):
        days.add(RunUsage(calls=1), NOW + timedelta(days=number))
    assert days.get_usage(NOW) == RunUsage()
    assert days.get_usage(NOW + timedelta(days=39)).calls == 1


def test_what_many_add_at_once_is_all_there(tmp_path: Path) -> None:
    def add(calls: int) -> None:
        DailyUsageStore(tmp_path).add(RunUsage(calls=calls), NOW)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, [1] * 40))
    assert DailyUsageStore(tmp_path).get_usage(NOW).calls == 40


@pytest.mark.parametrize("content", ["{", "[1]", '{"2026-01-02": 3}', '{"2026-01-02": {"unknown": 1}}'])
def test_a_broken_file_is_told_and_kept(tmp_path: Path, content: str) -> None:
    file = tmp_path / "spent.json"
    file.write_text(content, encoding="utf-8")
    file.chmod(0o600)
    for act in (
        lambda: DailyUsageStore(tmp_path).get_usage(NOW),
        lambda: DailyUsageStore(tmp_path).add(RunUsage(calls=1), NOW),
    ):
        with pytest.raises(DailyUsageError) as caught:
            act()
        assert caught.value.code == "day_unreadable"
    assert file.read_text(encoding="utf-8") == content


@pytest.mark.skipif(sys.platform == "win32", reason="modes of files")
def test_a_file_that_others_may_write_is_not_believed(tmp_path: Path) -> None:
    DailyUsageStore(tmp_path).add(RunUsage(calls=1), NOW)
    Path(tmp_path / "spent.json").chmod(0o666)
    with pytest.raises(DailyUsageError):
        DailyUsageStore(tmp_path).get_usage(NOW)
