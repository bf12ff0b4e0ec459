"""Lists the models that providers offer, by a list of prices that is installed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo

_LISTED_AS: Final = {"bedrock": "aws", "openai-responses": "openai", "vertex": "google", "xai": "x-ai"}
"""Providers that the price list calls otherwise."""

DEFAULT_CONTEXT_WINDOW: Final = 128_000
"""Tokens that a model is taken to be able to take when nobody says how many."""
_SELF_HOSTED: Final = frozenset({"ollama", "vllm"})


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownModel:
    """A model that can be named."""

    name: str
    """``PROVIDER:NAME``."""
    context_window: int | None = None
    """Tokens; None: not known."""
    input_price: float | None = None
    """US dollars for a million tokens read; None: not known."""
    output_price: float | None = None
    """US dollars for a million tokens written; None: not known."""


def list_priced_models(provider: str) -> list[KnownModel]:
    """Return a provider's models that have a price, by name. The list is installed, and asks no network."""
    from genai_prices.data_snapshot import get_snapshot

    listed = _LISTED_AS.get(provider, provider)
    found = next((each for each in get_snapshot().providers if each.id == listed), None)
    offered = [_to_known_model(provider, each) for each in (found.models if found else ())]
    known = [each for each in offered if each is not None]
    # Where the list has windows at all, those that it has none of are old, or write no text.
    current = [each for each in known if each.context_window] or known
    return sorted(current, key=lambda each: each.name)


def find_context_window(spec: str, *, own_server: bool = False) -> int:
    """Return how many tokens ``PROVIDER:NAME`` can take, read and written; what is not known is a guess."""
    provider, _, name = spec.partition(":")
    if own_server or provider in _SELF_HOSTED:
        return DEFAULT_CONTEXT_WINDOW
    return _find_listed_window(provider, name) or DEFAULT_CONTEXT_WINDOW


def _find_listed_window(provider: str, name: str) -> int | None:
    """Return the tokens that a model can take, by the list; None: it is not in there, or has none."""
    from genai_prices.data_snapshot import get_snapshot

    # A deployment on Azure is mostly called like OpenAI's model that is in it.
    for listed in (_LISTED_AS.get(provider, provider), *(["openai"] if provider == "azure" else [])):
        try:
            _, model = get_snapshot().find_provider_model(name, None, listed, None)
        except LookupError:
            continue
        if model.context_window:
            return model.context_window
    return None


def suggest_model(spec: str) -> str:
    """Return the model of the same provider whose name is most like ``PROVIDER:NAME``; empty: none is."""
    from rapidfuzz import process

    names = [each.name for each in list_priced_models(spec.partition(":")[0])]
    nearest = process.extractOne(spec, names, score_cutoff=80)
    return nearest[0] if nearest and nearest[0] != spec else ""


def _to_known_model(provider: str, model: ModelInfo) -> KnownModel | None:
    """Return a model that is still offered, and writes text."""
    prices: Any = model.prices[-1].prices if isinstance(model.prices, list) else model.prices
    written = _get_base_price(prices.output_mtok)
    if model.deprecated or (model.description or "").startswith("Retired") or written is None:
        return None
    return KnownModel(
        name=f"{provider}:{model.id}",
        context_window=model.context_window,
        input_price=_get_base_price(prices.input_mtok),
        output_price=written,
    )


def _get_base_price(price: Any) -> float | None:
    """Return what the first tokens cost: for long requests many ask more."""
    base = getattr(price, "base", price)
    return None if base is None else float(base)
