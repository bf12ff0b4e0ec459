"""How many tokens a text is, and how many a model can take."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from splintr import AnyTokenizer

UNKNOWN_WINDOW: Final = 128_000
"""Tokens that a model is taken to be able to take when nobody says how many."""
_OWN_SERVER: Final = frozenset({"ollama", "vllm"})


def count_tokens(text: str) -> int:
    """Count with OpenAI's newest public vocabulary; others differ by a fifth or so, in any language."""
    return len(_tokenizer().encode(text.encode("utf-8", "replace").decode()))


def window_of(spec: str, *, own_server: bool = False) -> int:
    """Return how many tokens ``PROVIDER:NAME`` can take, read and written; what is not known is a guess."""
    provider, _, name = spec.partition(":")
    if own_server or provider in _OWN_SERVER:
        return UNKNOWN_WINDOW
    from genai_prices.data_snapshot import get_snapshot

    try:
        _, model = get_snapshot().find_provider_model(name, None, provider, None)
    except LookupError:
        return UNKNOWN_WINDOW
    return model.context_window or UNKNOWN_WINDOW


@cache
def _tokenizer() -> AnyTokenizer:
    # Here, not above: it takes a tenth of a second, and only a run that asks a model needs it.
    from splintr import Tokenizer

    return Tokenizer.from_pretrained("o200k_base")
