"""What a session has used, and what fills its model's context, as lines for a person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kakite.agent.session.session import Session


async def format_cost(session: Session) -> Sequence[str]:
    """Return tokens, cost and time."""
    usage, spent = session.run.usage, session.run.spent
    cost = "unknown" if usage.cost_usd is None else f"${usage.cost_usd:.4f}"
    used, window = await session.count_context_tokens()
    read = f"{usage.input_tokens:,} in ({usage.cache_read_tokens:,} cached)"
    return (
        f"requests   {usage.requests}",
        f"tokens     {read}, {usage.output_tokens:,} out",
        f"cost       {cost}",
        f"at work    {spent.seconds:.0f} s, {spent.calls} calls",
        f"context    {used:,} of {window:,} tokens",
    )


async def format_context(session: Session) -> Sequence[str]:
    """Return how many tokens each part of the next request takes."""
    parts, (used, window) = await session.describe_context(), await session.count_context_tokens()
    rows = (
        ("instructions", parts.instructions),
        ("tools", parts.tools),
        ("messages", parts.messages),
        ("replies", parts.replies),
        ("results", parts.results),
    )
    return (
        *(f"{name:12} {tokens:9,}  {tokens * 100 // window:3} %" for name, tokens in rows),
        f"{'in all':12} {used:9,}  {used * 100 // window:3} % of {window:,} tokens",
    )
