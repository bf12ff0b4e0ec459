"""Prices a model's reply."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse


def calculate_cost(response: ModelResponse) -> float | None:
    """Price the response from the list that genai-prices brings along; it never asks the network for this."""
    if not response.model_name:
        return None
    try:
        return float(response.cost().total_price)
    except (LookupError, ValueError):
        return None
