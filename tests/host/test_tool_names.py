from __future__ import annotations

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kakite.host.tool_names import assign_tool_names

LEGAL = re.compile(r"[a-zA-Z0-9_-]{1,64}")

words = st.one_of(
    st.text("ab_-.", max_size=6),
    st.text(max_size=5),
    st.text("x_", min_size=20, max_size=90),
    st.just("a_0123abcd"),
)
pairs = st.tuples(words, words)


@given(st.lists(pairs, max_size=8))
def test_all_names_are_legal_and_lead_back(given_pairs: list[tuple[str, str]]) -> None:
    names = assign_tool_names(given_pairs)
    assert all(LEGAL.fullmatch(name) for name in names)
    assert list(names.values()) == list(dict.fromkeys(given_pairs))


@given(st.lists(pairs, max_size=8), st.lists(pairs, max_size=8))
def test_a_name_stays_when_other_tools_come_or_go(
    some: list[tuple[str, str]], others: list[tuple[str, str]]
) -> None:
    alone = {pair: name for name, pair in assign_tool_names(some).items()}
    together = {pair: name for name, pair in assign_tool_names([*others, *some]).items()}
    assert all(together[pair] == name for pair, name in alone.items())


@given(pairs, pairs)
def test_two_tools_never_have_one_name(one: tuple[str, str], other: tuple[str, str]) -> None:
    assume(one != other)
    (first,), (second,) = assign_tool_names([one]), assign_tool_names([other])
    assert first != second


@pytest.mark.parametrize(
    ("pair", "name"),
    [
        (("files", "read"), "files__read"),
        (("files", "read__all"), "files__read__all"),
        (("my-server", "do_it"), "my-server__do_it"),
    ],
)
def test_an_ordinary_name_says_server_and_tool(pair: tuple[str, str], name: str) -> None:
    assert assign_tool_names([pair]) == {name: pair}


@pytest.mark.parametrize(
    ("pair", "begins"),
    [
        (("files", "read.all"), "files__read_all_"),
        (("files__read", "all"), "files__read__all_"),
        (("files_", "all"), "files___all_"),
        (("files", "t" * 100), "files__ttt"),
        (("files", "export_20240101"), "files__export_20240101_"),
        (("日本", "語"), "_____"),
        (("", "x"), "__x_"),
    ],
)
def test_any_other_ends_with_a_hash(pair: tuple[str, str], begins: str) -> None:
    (name,) = assign_tool_names([pair])
    assert name.startswith(begins)
    assert re.search(r"_[0-9a-f]{8}$", name)


def test_pairs_whose_hashes_agree_get_longer_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    import hashlib

    real = hashlib.sha256

    class Weak:
        def __init__(self, data: bytes) -> None:
            self._data = data

        def hexdigest(self) -> str:
            return "0" * 8 + real(self._data).hexdigest()

    monkeypatch.setattr("kakite.host.tool_names.hashlib.sha256", Weak)
    names = assign_tool_names([("a", "b.c"), ("a", "b,c")])
    assert len(names) == 2
    assert all(len(name.rpartition("_")[2]) == 32 for name in names)
