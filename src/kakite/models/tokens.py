"""Counts the tokens of a text."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from splintr import AnyTokenizer


def count_tokens(text: str) -> int:
    """Count with OpenAI's newest public vocabulary; others differ by a fifth or so, in any language."""
    return len(_load_tokenizer().encode(text.encode("utf-8", "replace").decode()))


@cache
def _load_tokenizer() -> AnyTokenizer:
    # Here, not above: it takes a tenth of a second, and only a run that asks a model needs it.
    from splintr import Tokenizer

    return Tokenizer.from_pretrained("o200k_base")
