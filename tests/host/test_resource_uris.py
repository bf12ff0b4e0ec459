"""Addresses of resources of several servers: each leads back to one server and its own address."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.host.resource_uris import add_label, assign_labels, split_label

NAMES = st.lists(st.text(min_size=1, max_size=8) | st.sampled_from(["a", "A", "a b", "a-b", "ß", "ss"]))


@given(NAMES, st.text(max_size=30) | st.from_regex(r"[a-z]{1,5}:/{0,3}[a-z/:]{0,9}", fullmatch=True))
def test_each_address_leads_back_to_its_server_and_no_two_are_equal(names: list[str], uri: str) -> None:
    labels = assign_labels(names)
    assert sorted(labels.values()) == sorted(set(names))
    made = {add_label(label, uri): server for label, server in labels.items()}
    assert len(made) == len(labels)
    for whole, server in made.items():
        label, own = split_label(whole)
        assert labels[label] == server
        assert own == uri


@given(NAMES, st.text(min_size=1, max_size=8))
def test_a_label_depends_on_the_other_servers_only_where_they_look_like_it(
    names: list[str], more: str
) -> None:
    def look(name: str) -> str:
        return next(iter(assign_labels([name]))).partition("-")[0]

    before = {server: label for label, server in assign_labels(names).items()}
    after = {server: label for label, server in assign_labels([*names, more]).items()}
    assert {name for name in before if before[name] != after[name] and look(name) != look(more)} == set()


@given(NAMES)
def test_no_server_can_have_the_name_that_stands_for_another(names: list[str]) -> None:
    named = [*names, *assign_labels(names)]
    assert sorted(assign_labels(named).values()) == sorted(set(named))


@pytest.mark.parametrize(
    ("uri", "whole"),
    [
        ("file:///a/b", "file://notes//a/b"),
        ("https://example.com/x?y#z", "https://notes/example.com/x?y#z"),
        ("urn:isbn:1", "urn:notes/isbn:1"),
        ("demo://item/{id}", "demo://notes/item/{id}"),
    ],
)
def test_the_server_stands_behind_the_scheme(uri: str, whole: str) -> None:
    assert add_label("notes", uri) == whole
    assert split_label(whole.replace("notes", "Notes")) == ("notes", uri)
