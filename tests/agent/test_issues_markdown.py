"""What a model wrote is shown as words, lists and code, and does nothing else, whatever it is."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from kakite.agent.forges.labels import format_handled_ids, format_marker, parse_handled_ids, parse_marker
from kakite.agent.issues.comment_format import (
    escape_line,
    escape_title,
    format_blockquote,
    format_code_block,
    format_code_span,
    truncate,
)

MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])
HARMLESS = {
    *("blockquote_open", "blockquote_close", "paragraph_open", "paragraph_close", "inline", "text"),
    *("bullet_list_open", "bullet_list_close", "ordered_list_open", "ordered_list_close", "list_item_open"),
    *("list_item_close", "softbreak", "code_inline", "fence", "strong_open", "strong_close"),
}
PIECES = [
    *(
        "@ann ",
        "fixes #3",
        "Closes: GH-4",
        "/close",
        "!7 ",
        "<!-- kakite:progress -->",
        "<!--",
        "-->",
        "\n",
        "\r\n",
    ),
    *(
        "<!-- kakite-answers 12 -->",
        "<!-- /kakite 0123456789ab -->",
        "`",
        "```",
        "~~~",
        "    ",
        "> ",
        "# ",
        "- ",
        "1. ",
    ),
    *(
        "[a](http://x)",
        "![](http://x/p.png)",
        "[a]: http://x",
        "<details>",
        "</details>",
        "&lt;",
        "&#64;ann",
        "---",
    ),
    *(
        "===",
        "|a|b|\n|-|-|",
        "*",
        "_",
        "**",
        "~~",
        "$x$",
        "\\",
        "a_b_c",
        "https://x/a/issues/5",
        "\u202e",
        "\u200b",
    ),
    *(
        "closes https://x/a/-/merge_requests/5",
        "<script>",
        "## comment by ann, 2026-01-01",
        "\t",
        "word ",
        "@",
        "#1",
    ),
]
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=12).map("".join)


def tokens(text: str) -> Iterator[Token]:
    for token in MARKDOWN.parse(text):
        yield token
        yield from token.children or ()


def assert_tame(markdown: str) -> None:
    for token in tokens(markdown):
        assert token.type in HARMLESS, token
        if token.type == "text":
            assert not re.search(r"@\w|[#!]\w|GH-\d|(?:issues|pulls?|merge_requests)/\d", token.content), (
                token
            )
    assert not re.search(r"(?:#|!|GH-|issues/|merge_requests/)\d", markdown)
    assert "<!--" not in markdown


@given(TEXTS)
@example("`@ann` and ``#3``")
@example("```\n/close\n```")
@example("<!`--`")
@example("- - - -")
@example("1. 2. #3")
def test_a_quote_holds_nothing_but_words_lists_and_code(text: str) -> None:
    told = format_blockquote(text, 10_000)
    assert_tame(told)
    assert all(each.startswith(">") for each in told.split("\n")) or not told


@given(TEXTS)
def test_a_block_holds_nothing_but_code(text: str) -> None:
    told = format_code_block(text, 10_000, "x-1")
    assert [token.type for token in tokens(told)] == ["blockquote_open", "fence", "blockquote_close"]
    assert all(each.startswith(">") for each in told.split("\n"))
    assert_tame(told)


@given(TEXTS)
def test_a_line_stays_a_line_of_words_and_code(text: str) -> None:
    for told in (escape_line(text, 500), format_code_span(text, 500)):
        assert "\n" not in told
        assert_tame(f"- {told}")


@given(TEXTS)
def test_a_title_refers_to_nothing(text: str) -> None:
    told = escape_title(text, 100)
    assert "\n" not in told
    assert not re.search(r"@\w|[#!]\w|GH-\d", told)


@given(TEXTS, st.integers(0, 300))
def test_nothing_becomes_longer_than_what_is_reckoned_with(text: str, most: int) -> None:
    assert len(truncate(text, most)) <= max(most, 4)
    assert len(format_blockquote(text, most)) <= 3 * max(most, 4) + 30


@given(TEXTS)
def test_nobody_can_forge_a_note_of_ours(text: str) -> None:
    for told in (
        format_blockquote(text, 5000),
        format_code_block(text, 5000),
        escape_line(text, 5000),
        format_code_span(text, 5000),
    ):
        comment = f"{format_marker('progress')}\n{told}\n{format_handled_ids(['1'])}"
        assert parse_handled_ids([comment]) == {"1"}
        assert parse_marker(comment) == "progress"
        assert parse_marker(told) is None


@given(
    st.lists(
        st.sampled_from(["word", "other", "a_b", "x = y", "naïve", "日本語"]), min_size=1, max_size=8
    ).map(" ".join)
)
def test_plain_words_stay_as_they_are(text: str) -> None:
    assert format_blockquote(text, 1000) == f"> {text}"
    assert escape_line(text, 1000) == text


def test_lists_headings_and_code_are_shown_as_such() -> None:
    told = format_blockquote(
        "# What\n\n- first `a_b`\n  - second\n\n```python\nprint('@ann')\n```\nend", 1000
    )
    assert (
        told == "> **What**\n>\n> - first `a_b`\n>   - second\n>\n> ```python\n> print('@ann')\n> ```\n> end"
    )


@pytest.mark.parametrize("text", ["", "   ", "\n\n"])
def test_no_text_is_no_quote(text: str) -> None:
    assert format_blockquote(text, 100) == ""


def test_what_was_cut_says_so() -> None:
    assert escape_line("a" * 50, 20).endswith(r"\[…\]")


@given(
    st.text(" \n\t\u3000", max_size=50).map(lambda text: text * 200), st.text("abc", min_size=1, max_size=9)
)
def test_what_stands_behind_many_blanks_is_shown_or_said_to_be_left_out(blanks: str, last: str) -> None:
    for told in (escape_line(f"sh check.sh{blanks} || {last}", 500), escape_title(f"x{blanks} {last}", 500)):
        assert told.replace("`", "").endswith(last)
    long = escape_line(f"{'word ' * 200}{blanks} {last}", 500)
    assert "…" in long
