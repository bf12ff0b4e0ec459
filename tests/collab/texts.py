"""Texts that break whoever counts wrong, and changes of them."""

from __future__ import annotations

from hypothesis import strategies as st

from kakite.edit import Change, ChangeSet

PIECES = (
    *("a", "word", " ", "\n", "Zażółć", "one two", "3.14", "_", ".", "、", "。"),
    *("日", "本語", "東京", "カタカナ", "ー", "ひらがな", "한국어", "ไทย", "中文"),
    *("👍", "👍🏽", "👨‍👩‍👧", "🏳️‍🌈", "🇯🇵", "🇩🇪", "🇯", "𠮷", "𝒳"),
    *("é", "e\u0301", "\u0301", "か\u3099", "ｶﾞ", "각", "ᄀ", "\u200d", "\ufe0f", "\r\n", "\x00", "\u2028"),
)

texts = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
long_texts = st.lists(st.sampled_from(PIECES), min_size=4, max_size=60).map("".join)


@st.composite
def changes_of(draw: st.DrawFn, text: str, *, most: int = 4) -> ChangeSet:
    """Draw changes of a text."""
    places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=2 * most)))
    pairs = zip(places[::2], places[1::2], strict=False)
    return ChangeSet.of(len(text), [Change(start, end, draw(texts)) for start, end in pairs])
