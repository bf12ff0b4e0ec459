from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.host.config.jsonc import JsoncError, parse

values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@given(value=values, indent=st.sampled_from([None, 0, 2]), escaped=st.booleans())
def test_plain_json_is_read_as_the_standard_library_reads_it(
    value: Any, indent: int | None, escaped: bool
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=escaped)
    found = parse(text)
    assert repr(found.value) == repr(json.loads(text))
    assert found.repeated == ()


@given(text=st.text(alphabet='{}[]":,/*\n 1eE-.+tnfaulrse\\\u00e9', max_size=40))
def test_any_text_is_a_value_or_an_error_with_a_line_of_the_text(text: str) -> None:
    try:
        expected = json.loads(text)
    except (ValueError, RecursionError):
        expected = ...
    try:
        found = parse(text).value
    except JsoncError as error:
        found, line = ..., error.line
    else:
        line = 1
    assert 1 <= line <= text.count("\n") + 1
    assert expected is ... or repr(found) == repr(expected)


@given(value=values)
def test_comments_and_trailing_commas_change_nothing(value: Any) -> None:
    assert repr(parse(_decorated(value)).value) == repr(json.loads(json.dumps(value)))


def _decorated(value: Any) -> str:
    noise = '/* a } ] , " */ // b { [\r\n'
    if isinstance(value, dict):
        members = [
            f"{json.dumps(key)}{noise}:{noise}{_decorated(inner)}"
            for key, inner in cast("dict[str, Any]", value).items()
        ]
        return f"{noise}{{{noise}{f'{noise},{noise}'.join(members)}{f'{noise},' if members else ''}{noise}}}"
    if isinstance(value, list):
        inner = [_decorated(item) for item in cast("list[Any]", value)]
        return f"[{noise}{','.join(inner)}{',' if inner else ''}{noise}]"
    return json.dumps(value) + noise


@given(value=values)
def test_every_value_is_found_where_its_spot_says(value: Any) -> None:
    text = json.dumps(value, indent=2)
    found = parse(text)
    for path, spot in found.spots.items():
        inner = found.value
        for step in path:
            inner = inner[step]
        assert repr(json.loads(text[spot.start : spot.end])) == repr(inner)
        assert text[: spot.start].count("\n") + 1 == spot.line
    assert found.spots.keys() - {()} == set(_paths(value))


def _paths(value: Any) -> Iterator[tuple[str | int, ...]]:
    members: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        members = list(cast("dict[str | int, Any]", value).items())
    if isinstance(value, list):
        members = list(enumerate(cast("list[Any]", value)))
    for step, inner in members:
        yield (step,)
        yield from ((step, *rest) for rest in _paths(inner))


def test_a_key_is_on_the_line_of_its_name() -> None:
    found = parse('{\n  // one\n  "a":\n    1,\n  "b": {"c":\n [1]}}')
    lines = [found.get_line(path) for path in [("a",), ("b",), ("b", "c"), ("b", "c", 0), ("b", "x", "y")]]
    assert lines == [3, 5, 5, 6, 5]


def test_of_a_repeated_key_the_later_counts_and_both_are_told() -> None:
    found = parse('{"a": {"x": 1},\n"a": {"y": 2}}')
    assert found.value == {"a": {"y": 2}}
    assert found.repeated == ((("a",), 2),)
    assert ("a", "x") not in found.spots


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ("\n\n{", 3),
        ('{"a" 1}', 1),
        ('{\n"a": 1\n"b": 2}', 3),
        ("[1,,2]", 1),
        ("[,]", 1),
        ("{,}", 1),
        ("/* never closed", 1),
        ('\n"open', 2),
        ("NaN", 1),
        ("Infinity", 1),
        ("01", 1),
        ("1 2", 1),
        ("[" * 200 + "]" * 200, 1),
        ("[" * 100_000, 1),
        ("9" * 5000, 1),
        ("{'a': 1}", 1),
        ('"a\nb"', 1),
    ],
)
def test_what_is_no_json_is_refused_with_its_line(text: str, line: int) -> None:
    with pytest.raises(JsoncError) as raised:
        parse(text)
    assert raised.value.line == line


def test_a_byte_order_mark_is_no_error() -> None:
    assert parse("\ufeff{}").value == {}
