"""Usage adds up, and never turns an unknown price into a known one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kakite.models.messages import Usage

costs = st.none() | st.integers(0, 1000).map(float)
usages = st.builds(
    Usage,
    requests=st.integers(0, 9),
    input_tokens=st.integers(0, 99),
    output_tokens=st.integers(0, 99),
    cache_read_tokens=st.integers(0, 99),
    cost_usd=costs,
)


@given(usages, usages, usages)
def test_adding_is_associative_and_starts_from_nothing(a: Usage, b: Usage, c: Usage) -> None:
    assert (a + b) + c == a + (b + c)
    assert Usage() + a == a == a + Usage()


@given(usages, usages)
def test_one_unknown_price_makes_the_sum_unknown(a: Usage, b: Usage) -> None:
    assert ((a + b).cost_usd is None) == (a.cost_usd is None or b.cost_usd is None)
