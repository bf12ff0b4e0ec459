from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.host.clean_text import clean, clean_line, clean_tool, get_display_host
from kakite.tools import Tool

odd = st.sampled_from(
    [
        "\x1b[31m",
        "\x1b]0;title\x07",
        "\u202e",
        "\u200b",
        "\ufeff",
        "\r\n",
        "\x07",
        "\u2028",
        "\U000e0041",
        "\x9b2J",
    ]
)
texts = st.lists(st.one_of(st.text(max_size=6), odd), max_size=10).map("".join)


@given(text=texts, limit=st.integers(0, 40))
def test_what_is_clean_is_short_shows_all_that_it_holds_and_stays_as_it_is(text: str, limit: int) -> None:
    cleaned = clean(text, limit)
    assert len(cleaned) <= limit
    assert all(each in "\n\t" or unicodedata.category(each) not in {"Cc", "Cf", "Cs"} for each in cleaned)
    assert clean(cleaned, limit) == cleaned


UNSEEN = "\u2028\u2029\u3164\u115f\u1160\uffa0\u17b4\u17b5"
plain = st.text(st.characters(categories=["L", "N", "P", "Z"], exclude_characters=UNSEEN))


@given(plain)
def test_ordinary_text_is_kept(text: str) -> None:
    assert clean(text, 10_000) == text


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("a\x1b[31mred\x1b[0m", "ared"),
        ("a\x1b]8;;http://evil\x07link\x1b]8;;\x07", "alink"),
        ("dele\u200bte \u202etxt.exe", "delete txt.exe"),
        ("hi\U000e0068\U000e0069dden", "hidden"),
        ("one\r\ntwo\tthree", "one\ntwo\tthree"),
        ("\ud800", ""),
    ],
)
def test_what_is_not_seen_goes(text: str, cleaned: str) -> None:
    assert clean(text, 100) == cleaned


def test_a_long_text_is_cut_and_says_so() -> None:
    assert clean("x" * 100, 10) == "x" * 9 + "…"
    assert clean_line("a\nb", 10) == "a b"


def test_the_texts_of_a_tool_are_cleaned_and_the_names_of_its_arguments_stay() -> None:
    schema = {
        "type": "object",
        "properties": {
            "description": {"type": "string", "description": "x\u202ey"},
            "odd\u200b": {"enum": ["\u200b"]},
        },
    }
    tool = clean_tool(Tool(name="t", title="a\nb", description="d\x1b[2J" + "x" * 20_000, parameters=schema))
    assert tool.title == "a b"
    assert len(tool.description) == 16_384
    assert tool.parameters["properties"] == {
        "description": {"type": "string", "description": "xy"},
        "odd\u200b": {"enum": ["\u200b"]},
    }


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("https://shop.example/path", "shop.example"),
        ("https://shop.example:8443/", "shop.example:8443"),
        ("https://shop.example@evil.example/", "evil.example"),
        ("https://\u0430pple.example/", "xn--pple-43d.example"),
        ("https://[::1]:80/", "[::1]:80"),
    ],
)
def test_a_person_sees_whose_an_address_is_and_not_what_it_looks_like(address: str, host: str) -> None:
    assert get_display_host(address) == host
