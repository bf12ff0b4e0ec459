"""Bytes that an edit does not touch are the bytes that went in."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.edit import Change, ChangeSet, Edit, EditError, SourceText, apply

JAPANESE = "これは日本語の文章です。\n設定を読み込みます。\nvalue = 1\n" * 4
CHINESE = "这是一个中文的配置文件。\n请不要修改下面的内容。\nvalue = 1\n" * 4
WESTERN = "Der Schlüssel für die Tür.\nDéjà vu à l’hôtel.\nvalue = 1\n" * 4


@given(st.binary(max_size=200))
def test_any_bytes_come_back_unchanged(data: bytes) -> None:
    assert SourceText.from_bytes(data).to_bytes() == data


@given(st.binary(max_size=60), st.data())
def test_bytes_outside_of_a_change_are_identical(data: bytes, draws: st.DataObject) -> None:
    source = SourceText.from_bytes(data)
    start, end = sorted(draws.draw(st.tuples(*[st.integers(0, len(source.text))] * 2)))
    new = source.replace(ChangeSet.of(len(source.text), [Change(start, end, "x=1")])).to_bytes()
    inserted = "x=1".encode(source.encoding)
    assert new.startswith(source.bom)
    places = [at for at in range(len(new) + 1) if new[at : at + len(inserted)] == inserted]
    assert (
        any(data.startswith(new[:at]) and data.endswith(new[at + len(inserted) :]) for at in places)
        or start == end
    )


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-16", "utf-8-sig"])
@pytest.mark.parametrize("text", ["value = 1\n" * 4, WESTERN])
def test_unicode_encodings_survive(encoding: str, text: str) -> None:
    data = text.encode(encoding)
    result = apply(
        SourceText.from_bytes(data),
        [Edit(search="value = 1", replace="value = 2", line=3)]
        if text == WESTERN
        else [Edit(search="value = 1", replace="value = 2", line=1)],
    )
    line = 3 if text == WESTERN else 1
    lines = text.split("\n")
    lines[line - 1] = "value = 2"
    assert result.source.to_bytes() == "\n".join(lines).encode(encoding)


@pytest.mark.parametrize(
    ("encoding", "text", "search", "replace"),
    [
        ("cp932", JAPANESE, "設定を", "構成を"),
        ("euc_jp", JAPANESE, "設定を", "構成を"),
        ("gbk", CHINESE, "请不要", "不要"),
        ("big5", "這是一個設定檔案。\n請不要修改下面的內容。\n" * 4, "請不要", "不要"),
        ("cp1252", WESTERN, "Schlüssel", "Schloß"),
    ],
)
def test_legacy_encodings_are_edited_in_their_own_script(
    encoding: str, text: str, search: str, replace: str
) -> None:
    source = SourceText.from_bytes(text.encode(encoding))
    result = apply(source, [Edit(search=search, replace=replace, all=True)])
    assert result.source.to_bytes() == text.replace(search, replace).encode(encoding)


def test_a_character_that_the_encoding_cannot_hold_is_named() -> None:
    source = SourceText.from_bytes(JAPANESE.encode("cp932"))
    with pytest.raises(EditError) as refused:
        apply(source, [Edit(search="value = 1", replace="value = '😀'", all=True)])
    [failure] = refused.value.failures
    assert (failure.code, failure.found) == ("not_encodable", "😀")


def test_bytes_that_no_encoding_explains_are_kept() -> None:
    data = "name = 'é'\n".encode() + b"junk = '\xff\xfe\x00\x81'\nvalue = 1\n"
    result = apply(SourceText.from_bytes(data), [Edit(search="value = 1", replace="value = 2")])
    assert result.source.to_bytes() == data.replace(b"= 1", b"= 2")


def test_a_byte_order_mark_does_not_hide_the_first_line() -> None:
    data = codecs.BOM_UTF8 + b"first\nsecond\n"
    result = apply(SourceText.from_bytes(data), [Edit(search="first\n", replace="1st\n")])
    assert result.source.to_bytes() == codecs.BOM_UTF8 + b"1st\nsecond\n"


@pytest.mark.parametrize(
    ("text", "offset", "expected"),
    [
        ("a\nb", 2, "\n"),
        ("a\r\nb", 3, "\r\n"),
        ("a\r\nb\nc", 3, "\n"),
        ("a\rb", 0, "\r"),
        ("ab", 1, "\n"),
        ("a\r\n", 2, "\r\n"),
    ],
)
def test_the_line_end_in_force_is_the_lines_own(text: str, offset: int, expected: str) -> None:
    assert SourceText(text).find_line_end(offset) == expected


@pytest.mark.parametrize("data", [b"\xa4\n", b"price: 5 \xa4\n"])
def test_nothing_that_may_be_another_encoding_is_written_into_bytes_that_none_explains(data: bytes) -> None:
    source = SourceText.from_bytes(data)
    assert source.find_unencodable("\u00e9") == "\u00e9"
    assert source.find_unencodable("e") == ""
    assert source.to_bytes() == data


def test_damaged_utf8_takes_more_of_it() -> None:
    source = SourceText.from_bytes("\u00e9 ".encode() * 4 + b"\xff\xfe\xfd\n")
    assert (source.encoding, source.find_unencodable("\u00e8")) == ("utf-8", "")


@pytest.mark.parametrize("encoding", ["iso2022_jp", "iso2022_kr"])
def test_nothing_but_ascii_is_written_into_text_with_shifts(encoding: str) -> None:
    data = "# 漢\nvalue = 1\n".encode(encoding)
    source = SourceText.from_bytes(data)
    new = apply(source, [Edit(search="value = 1", replace="value = 2")]).source.to_bytes()
    assert new == data.replace(b"1\n", b"2\n")
    with pytest.raises(EditError) as refused:
        apply(source, [Edit(search="value = 1", replace="value = '漢'")])
    assert refused.value.failures[0].code == "not_encodable"
