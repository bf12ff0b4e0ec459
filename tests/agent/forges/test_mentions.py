"""Who is spoken to in a text of Markdown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.agent.forges.mentions import has_mention
from tests.bounds import little_work

SAID = st.lists(
    st.sampled_from(
        ["@kakite", "fix it", "`", "``", "> x", "", "- a", "    b", "[", "](x)", "<!--", "-->", "```"]
    )
).map("\n".join)


@pytest.mark.parametrize(
    "text",
    [
        "@kakite fix this",
        "Could you look, @Kakite?",
        "(@kakite)",
        "お願いします@kakiteさん",
        "- [ ] @kakite does it",
        "1. a\n    - @kakite b",
        "`x` @kakite `y`",
        "a ` @kakite",
        "```\ncode\n```\n@kakite",
        "> quoted\n\n@kakite",
        "<code>x</code> @kakite",
        "the tag <code> is open, @kakite",
        "@kakite.",
        "@kakite's turn",
        "[@kakite] please",
        "*@kakite*",
    ],
)
def test_a_name_that_is_called_is_a_mention(text: str) -> None:
    assert has_mention(text, "kakite")


@pytest.mark.parametrize(
    "text",
    [
        "kakite",
        "me@kakite",
        "me@kakite.org",
        "@kakite.org",
        "@kakite-bot",
        "@kakite2",
        "@kakite/team",
        "@@kakite",
        "\\@kakite",
        "`@kakite`",
        "`` a ` @kakite ``",
        "`a\n@kakite`",
        "```\n@kakite\n```",
        "~~~ text\n@kakite",
        "````\n```\n@kakite\n````",
        "    @kakite",
        "> @kakite",
        "> quoted\n@kakite goes on with the quote",
        "[@kakite](https://host/kakite)",
        "[see](https://host/@kakite)",
        "[@kakite][1]",
        "[![@kakite](a.png)](b)",
        "https://host/@kakite",
        "<https://host/@kakite>",
        '<a title="@kakite">x</a>',
        "<a href='x'>@kakite</a>",
        "<pre>\n@kakite\n</pre>",
        "<blockquote>@kakite</blockquote>",
        "<!-- @kakite -->",
        "<!-- never ended @kakite",
    ],
)
def test_a_name_in_code_a_quote_or_a_link_is_no_mention(text: str) -> None:
    assert not has_mention(text, "kakite")


@given(SAID)
def test_a_quote_of_any_text_mentions_nobody(text: str) -> None:
    assert not has_mention("\n".join(f"> {line}" for line in text.split("\n")), "kakite")


@given(SAID)
def test_a_block_of_code_with_any_text_mentions_nobody(text: str) -> None:
    assert not has_mention(f"~~~\n{text}\n~~~", "kakite")


@given(SAID)
def test_a_mention_after_any_text_that_ends_what_it_began_is_found(text: str) -> None:
    closed = text.replace("<!--", "").replace("```", "")
    assert has_mention(f"{closed}\n\n@kakite", "kakite")


@pytest.mark.parametrize(
    "piece",
    ["`", "``` ", "<a ", "<!--", "<pre>", "[", "![x](", "> ", "@kakite-", "`" * 3 + "x\n", "</a><a>", "www."],
)
def test_no_text_takes_longer_than_its_length(piece: str) -> None:
    text = piece * (400_000 // len(piece)) + "@kakite-"
    with little_work():
        has_mention(text, "kakite")
