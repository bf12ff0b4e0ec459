"""Replies: however they are cut, they say and ask for the same."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kakite.collab.assistant.reply_parser import (
    EditPart,
    InvalidEdit,
    ReplyFormat,
    ReplyPart,
    TextPart,
    create_parser,
    join_text_parts,
)

LINES = (
    *("<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE", "<<<<<<<", "<<<<<<<<< SEARCH"),
    *("------- SEARCH", "+++++++ REPLACE", "<<<<<<< HEAD", ":start_line:3", "-------", "\\======="),
    *("```", "```markdown", "~~~", "", " ", "> quoted", "- item", "# 見出し", "=======\r"),
    *("notes.md", "**notes.md**", "`日記 2026.md`", "<path>a.md</path>", "in other.md too"),
    *(
        "日本語の文です。",
        "word",
        "this is a sentence with words in it",
        "👨‍👩‍👧 e\u0301",
        "{",
        '{"search": "a"}',
    ),
)
replies = st.lists(st.sampled_from(LINES), max_size=16).flatmap(
    lambda lines: st.sampled_from(("\n", "\r\n")).map(lambda end: end.join(lines))
)
TOKENS = (
    *('{"contents": [', "]}", "[", "]", "{", "}", ",", '"', '", "', "\\n", '"}', "`", "\x00"),
    *(
        '"message": "',
        '"search": "',
        '"replace": "',
        '{"message": "',
        '"startLine": 3',
        '{"search": "a", "replace": ',
    ),
    *("日本", "👍", "\\u65e5", "\\ud83d", "\\udc4d", "\\", "\\q", "\n", " ", "text", "```json\n", "```\n"),
    *('{"search": "a", "replace": "b"}', '{"message": "hi 👍"}', '{"search": "a", "replace": '),
)
json_replies = st.lists(st.sampled_from(TOKENS), max_size=14).map("".join)


def whole(text: str, format_: ReplyFormat, *, several: bool = False) -> list[ReplyPart]:
    reply = create_parser(format_, several=several)
    return join_text_parts([*reply.feed(text), *reply.close()])


def piecemeal(text: str, cuts: list[int], format_: ReplyFormat, *, several: bool = False) -> list[ReplyPart]:
    reply = create_parser(format_, several=several)
    parts: list[ReplyPart] = []
    at = 0
    for cut in sorted({cut for cut in cuts if cut < len(text)}):
        parts += reply.feed(text[at:cut])
        at = cut
    return join_text_parts([*parts, *reply.feed(text[at:]), *reply.close()])


@given(replies, st.lists(st.integers(0, 400), max_size=12), st.booleans())
def test_blocks_are_the_same_however_they_are_cut(text: str, cuts: list[int], several: bool) -> None:
    expected = whole(text, "search_replace", several=several)
    assert piecemeal(text, cuts, "search_replace", several=several) == expected
    assert piecemeal(text, list(range(len(text))), "search_replace", several=several) == expected


@given(json_replies, st.lists(st.integers(0, 400), max_size=12))
@example('{"message": "a", "contents": [{"message": "b"}]}', [])
@example('{"message": "a", "message": "b"}', [])
@example('{"contents": [{"message": "say "hi" now"}, {"search": "a", "replace": "b"}]}', [])
@example('{"contents": [{"message": "\\ud83d\\udc4d"}]}', [])
def test_json_is_the_same_however_it_is_cut(text: str, cuts: list[int]) -> None:
    expected = whole(text, "json")
    assert piecemeal(text, cuts, "json") == expected
    assert piecemeal(text, list(range(len(text))), "json") == expected


strings = st.text(st.characters(codec="utf-8"), max_size=20)


@given(st.lists(st.tuples(strings, strings, strings), max_size=5))
def test_json_that_is_right_is_read_as_any_reader_would(contents: list[tuple[str, str, str]]) -> None:
    listed: list[dict[str, str]] = []
    for message, search, replace in contents:
        listed += [{"message": message}, {"search": search, "replace": replace}]
    for text in (
        json.dumps({"contents": listed}),
        json.dumps({"contents": listed}, ensure_ascii=False, indent=1),
    ):
        parts = whole(text, "json")
        assert said(parts) == "".join(message for message, _, _ in contents)
        assert asked(parts) == [(search, replace) for _, search, replace in contents]


def said(parts: list[ReplyPart]) -> str:
    return "".join(part.text for part in parts if isinstance(part, TextPart))


def asked(parts: list[ReplyPart]) -> list[tuple[str, str]]:
    return [(part.edit.search, part.edit.replace) for part in parts if isinstance(part, EditPart)]


def broken(parts: list[ReplyPart]) -> list[str]:
    return [part.code for part in parts if isinstance(part, InvalidEdit)]


REPLY = """\
I shorten the title.

The second line says the same twice,
so it goes.

notes.md
```markdown
<<<<<<< SEARCH
# 見出し
two
=======
# 題
>>>>>>> REPLACE
```

And the end:

<<<<<<< SEARCH
end
=======
END
>>>>>>> REPLACE

Done. 以上です。
"""


def test_edits_come_with_their_reason_and_prose_without_their_wrapping() -> None:
    parts = whole(REPLY, "search_replace")
    assert asked(parts) == [("# 見出し\ntwo\n", "# 題\n"), ("end\n", "END\n")]
    assert [part.reason for part in parts if isinstance(part, EditPart)] == [
        "The second line says the same twice,\nso it goes.",
        "And the end:",
    ]
    text = said(parts)
    assert "SEARCH" not in text
    assert "```" not in text
    assert "notes.md" not in text
    assert text.startswith("I shorten the title.\n\nThe second")
    assert text.endswith("Done. 以上です。\n")


def test_an_edit_is_given_as_soon_as_its_last_line_is_there() -> None:
    reply = create_parser("search_replace")
    block, rest = REPLY[: REPLY.index("```\n\nAnd")], REPLY[REPLY.index("```\n\nAnd") :]
    assert [part.index for part in reply.feed(block) if isinstance(part, EditPart)] == [0]
    assert [part.index for part in [*reply.feed(rest), *reply.close()] if isinstance(part, EditPart)] == [1]


def test_an_edit_in_json_is_given_as_soon_as_it_is_closed() -> None:
    reply = create_parser("json")
    assert asked(reply.feed('{"contents": [{"search": "a", "replace": "b"')) == []
    assert asked(reply.feed("}")) == [("a", "b")]
    assert [*reply.feed("]}"), *reply.close()] == []


def test_prose_streams_before_its_line_ends() -> None:
    reply = create_parser("search_replace")
    assert said(reply.feed("Let me look at this ")) == "Let me look at this "
    assert said(reply.feed("and that")) == "and that"
    assert said(reply.feed(".\n<<<<<")) == ".\n"
    reply = create_parser("search_replace")
    assert said(reply.feed("直しました。次")) == "直しました。次"


def test_a_message_in_json_streams_in_whole_characters() -> None:
    reply = create_parser("json")
    pieces = ['{"contents": [{"mess', 'age": "日', "\\u672", "c \\ud83d", "\\udc4d", ' end"}, {"sea']
    assert [said(reply.feed(piece)) for piece in pieces] == [
        "",
        "日",
        "",
        "本 ".replace("本", "\u672c"),
        "👍",
        " end",
    ]


def test_a_block_that_cannot_be_read_takes_no_other_with_it() -> None:
    text = (
        "<<<<<<< SEARCH\none\n=======\nONE\n>>>>>>> REPLACE\n"
        "<<<<<<< SEARCH\nno divider\n>>>>>>> REPLACE\n"
        "<<<<<<< SEARCH\ntwo\n=======\nno end\n"
        "<<<<<<< SEARCH\nthree\n=======\nTHREE\n>>>>>>> REPLACE\n"
        "text between\n"
        "<<<<<<< SEARCH\na\n=======\nb\n=======\nc\n>>>>>>> REPLACE\n"
        "<<<<<<< SEARCH\nlast, without an end\n=======\n"
    )
    parts = whole(text, "search_replace")
    assert asked(parts) == [("one\n", "ONE\n"), ("three\n", "THREE\n")]
    assert broken(parts) == ["marker_sequence"] * 4
    assert [part.index for part in parts if not isinstance(part, TextPart)] == list(range(6))
    assert said(parts) == "text between\n"
    assert all(part.hint and part.message for part in parts if isinstance(part, InvalidEdit))


def test_a_fence_and_a_heading_of_the_message_stay() -> None:
    text = "Title\n=======\n```python\nprint()\n```\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n"
    parts = whole(text, "search_replace")
    assert said(parts) == "Title\n=======\n```python\nprint()\n```\n"
    assert asked(parts) == [("a\n", "b\n")]


def test_pages_are_named_above_their_edits() -> None:
    block = "<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n"
    parts = whole(f"a.md\n{block}`日記 2.md`\n{block}{block}", "search_replace", several=True)
    assert [part.edit.path for part in parts if isinstance(part, EditPart)] == [
        "a.md",
        "日記 2.md",
        "日記 2.md",
    ]


@pytest.mark.parametrize(
    ("text", "codes", "pairs"),
    [
        (
            '{"contents": [{"search": "say "hi"", "replace": "x"}, {"search": "a", "replace": "b"}]}',
            1,
            [("a", "b")],
        ),
        ('{"contents": [{"search": "a", "replace": "b"}, {"search": "c", "repl', 1, [("a", "b")]),
        ('{"contents": [{"search": "a", "replace": "b"}', 0, [("a", "b")]),
        ('{"contents": [{"search": "a"}, {"search": "a", "replace": "b"}]}', 1, [("a", "b")]),
        ('{"contents": [{"search": "a", "replace": "b",},]}', 0, [("a", "b")]),
        ('{"contents": [{"search": "a\nb", "replace": "c"}]}', 0, [("a\nb", "c")]),
        ('{"contents": [{"search": "a", "replace": "\\ud83d"}]}', 1, []),
        ('{"contents": [{"search": "a", "replace": "b"]}', 1, []),
        ("{", 1, []),
        ("[", 1, []),
    ],
)
def test_json_that_is_broken_is_refused_and_not_repaired(
    text: str, codes: int, pairs: list[tuple[str, str]]
) -> None:
    parts = whole(text, "json")
    assert asked(parts) == pairs
    assert len(broken(parts)) == codes


def test_json_is_found_in_prose_and_a_fence() -> None:
    text = 'Here:\n\n```json\n{"contents": [{"message": "hi"}]}\n```\nThat is all.\n'
    assert said(whole(text, "json")) == "Here:\nhi\nThat is all.\n"


def test_what_is_no_json_at_all_is_a_message() -> None:
    assert said(whole("Nothing to\n\nchange. 何も。\n", "json")) == "Nothing to\n\nchange. 何も。\n"


def test_a_line_number_and_a_reason_are_taken_along() -> None:
    parts = whole('[{"search": "a", "replace": "b", "startLine": 7, "reason": "短い"}]', "json")
    assert [(part.edit.line, part.reason) for part in parts if isinstance(part, EditPart)] == [(7, "短い")]
