"""A file as its page shows it, and back: what was not edited keeps its bytes."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kakite.collab.file_sync import (
    REPLACEMENT_CHARACTER,
    FileText,
    UnwritableError,
    diff_texts,
    merge_three_way,
    to_document_text,
)

PIECES = st.sampled_from(
    [
        "a",
        "b",
        " ",
        "\n",
        "\r\n",
        "\r",
        "日本",
        "👍",
        "e\u0301",
        "line one",
        "x\n",
        "\n\n",
        "\r\r\n",
        "\udc80",
        "\ufeff",
    ]
)
TEXTS = st.lists(PIECES, max_size=12).map("".join)
LINES = st.lists(st.sampled_from(["one\n", "two\n", "三\n", "\n", "four"]), max_size=10).map("".join)


def data_of(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


@given(TEXTS, st.data())
@example("a\rb\n", None)
def test_what_is_written_is_what_the_page_shows_and_the_rest_keeps_its_bytes(
    text: str, draw: st.DataObject | None
) -> None:
    file = FileText.from_bytes(data_of(text))
    start = draw.draw(st.integers(0, len(file.text))) if draw else 2
    end = draw.draw(st.integers(start, len(file.text))) if draw else 2
    insert = (
        draw.draw(TEXTS.map(to_document_text).map(lambda each: each.replace(REPLACEMENT_CHARACTER, "?")))
        if draw
        else "\n"
    )
    edited = file.text[:start] + insert + file.text[end:]
    try:
        written = file.replace_text(edited)
    except UnwritableError as refused:
        assert refused.character in insert  # noqa: PT017 - most texts can be written
        return
    assert written.text == edited
    assert to_document_text(written.source.text) == edited
    new = written.source.to_bytes()
    assert new.startswith(file.source.bom)
    at = len(file.source.bom)
    kept_from = 0
    for change in (*diff_texts(file.text, edited).changes, None):
        kept = _source(file.source.text, kept_from, change.start if change else len(file.text))
        piece = kept.encode(file.source.encoding, "surrogateescape")
        at = new.index(piece, at) + len(piece)
        kept_from = change.end if change else 0


def _source(text: str, start: int, end: int) -> str:
    """Return what stands in the file for a piece of what is shown."""
    at = first = 0
    for count in range(end):
        first = at if count == start else first
        at += 2 if text.startswith("\r\n", at) else 1
    return text[first:at] if start < end else ""


JAPANESE = "日本語の文章です。\r\n次の行。\r\n"


@pytest.mark.parametrize(
    ("data", "old", "new", "expected"),
    [
        (b"\xef\xbb\xbfa\r\nb\r\n", "b", "b\nc", b"\xef\xbb\xbfa\r\nb\r\nc\r\n"),
        (b"a\r\nb\nc\r\n", "b", "B\nB", b"a\r\nB\nB\nc\r\n"),
        (JAPANESE.encode("shift_jis"), "次", "次々", JAPANESE.replace("次", "次々").encode("shift_jis")),
        (b"\xff\xfea\0\r\0\n\0", "a", "\xe9", b"\xff\xfe\xe9\0\r\0\n\0"),
        (b"ok \x80 bad\n", "ok", "OK", b"OK \x80 bad\n"),
    ],
)
def test_encodings_marks_and_line_ends_stay(data: bytes, old: str, new: str, expected: bytes) -> None:
    file = FileText.from_bytes(data)
    assert file.replace_text(file.text.replace(old, new)).source.to_bytes() == expected


def test_a_character_that_the_encoding_lacks_is_told() -> None:
    file = FileText.from_bytes("日本語の文章です。次の行もあります。\n".encode("shift_jis"))
    with pytest.raises(UnwritableError) as refused:
        file.replace_text(file.text + "👍")
    assert refused.value.character == "👍"


@given(TEXTS, TEXTS)
def test_differences_lead_from_one_text_to_the_other(old: str, new: str) -> None:
    assert diff_texts(old, new).apply(old) == new


@given(LINES, LINES)
def test_a_text_that_only_one_side_changed_becomes_that_sides(base: str, other: str) -> None:
    assert merge_three_way(base, base, other).apply(base) == other
    assert merge_three_way(base, other, base).apply(other) == other
    assert merge_three_way(base, other, other).apply(other) == other


@given(LINES, st.data())
def test_nothing_that_either_side_wrote_is_lost(base: str, draw: st.DataObject) -> None:
    ours, theirs = base, base
    written: list[str] = []
    for count, side in enumerate(("ours", "theirs", "ours", "theirs")):
        text = ours if side == "ours" else theirs
        at = draw.draw(st.integers(0, len(text)))
        mark = f"<{count}>"
        written.append(mark)
        text = text[:at] + mark + text[at:]
        ours, theirs = (text, theirs) if side == "ours" else (ours, text)
    result = merge_three_way(base, ours, theirs).apply(ours)
    assert all(_holds(result, mark) for mark in written)


def _holds(text: str, mark: str) -> bool:
    letters = iter(text)
    return all(letter in letters for letter in mark)
