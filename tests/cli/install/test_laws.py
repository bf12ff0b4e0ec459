"""Whatever a file holds: an entry is added and taken out, and nothing else changes by a byte."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kakite.cli.install.json_entries import (
    Entry,
    UnclearPlaceError,
    add_entry,
    find_items,
    get_value,
    remove_entry,
)
from kakite.cli.install.plan import InstallError
from kakite.cli.install.toml_block import TomlError, add_block, parse_toml, remove_block
from kakite.host.config import jsonc
from tests.cli.install.program import person

ENTRIES = (
    Entry(path=("mcpServers", "kakite"), value={"command": "kakite", "args": ["serve", "--root", "."]}),
    Entry(path=("tools", "edit"), value=False),
    Entry(path=("permissions", "deny"), value=["NotebookEdit", "Write", "Edit"], is_items=True),
)
KEYS = st.sampled_from(["mcpServers", "tools", "permissions", "deny", "allow", "other", "ü", "a b"])
BLANKS = st.text(" \t", max_size=2)


@st.composite
def gaps(draw: st.DrawFn, newline: str) -> str:
    """Blanks, line ends and comments, as people leave them between values."""
    pieces = st.sampled_from(
        ["", " ", newline, newline + "  ", f" // one, {{two}}{newline}", "/* ] */", "\t"]
    )
    return "".join(draw(st.lists(pieces, max_size=3)))


@st.composite
def values(draw: st.DrawFn, newline: str, depth: int = 0) -> str:
    if depth < 3 and draw(st.booleans()):
        return draw(objects(newline, depth))
    if depth < 3 and draw(st.booleans()):
        items = draw(st.lists(values(newline, depth + 1), max_size=3))
        return "[" + join(draw, items, newline) + "]"
    return draw(st.sampled_from(['"x"', '"Edit"', '"Write"', "1", "true", "null", '"// no comment"']))


@st.composite
def objects(draw: st.DrawFn, newline: str, depth: int = 0) -> str:
    keys = draw(st.lists(KEYS, unique=True, max_size=4))
    between = gaps(newline)
    members = [
        f"{json.dumps(key)}{draw(between)}:{draw(between)}{draw(values(newline, depth + 1))}" for key in keys
    ]
    return "{" + join(draw, members, newline) + "}"


def join(draw: st.DrawFn, members: list[str], newline: str) -> str:
    between = gaps(newline)
    text = ",".join(f"{draw(between)}{each}{draw(between)}" for each in members)
    trailing = f",{draw(between)}" if members and draw(st.booleans()) else ""
    return text + trailing + ("" if members else draw(between))


@st.composite
def jsonc_texts(draw: st.DrawFn) -> str:
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    bom = draw(st.sampled_from(["", "\ufeff"]))
    return bom + draw(gaps(newline)) + draw(objects(newline)) + draw(gaps(newline))


def is_added(text: str, entry: Entry) -> bool:
    try:
        found = get_value(jsonc.parse(text).value, entry.path)
    except LookupError:
        return False
    return find_items(found, entry.value) is not None if entry.is_items else True


def add_all(text: str) -> tuple[str, list[Entry]]:
    written: list[Entry] = []
    for entry in ENTRIES:
        if is_added(text, entry):
            continue
        try:
            change, done = add_entry(text, entry)
        except UnclearPlaceError:
            continue
        text = change.apply(text)
        written.append(done)
    return text, written


def is_subsequence(short: str, long: str) -> bool:
    rest = iter(long)
    return all(each in rest for each in short)


@given(jsonc_texts())
def test_what_is_there_stays_and_what_was_added_goes_again(text: str) -> None:
    added, written = add_all(text)
    assert is_subsequence(text, added)
    for entry in written:
        assert is_added(added, entry)
    for entry in reversed(written):
        added = remove_entry(added, entry).apply(added)
    assert added == text


@given(jsonc_texts(), st.sampled_from(ENTRIES))
def test_an_entry_is_added_as_json_says(text: str, entry: Entry) -> None:
    assume(not is_added(text, entry))
    try:
        change, _ = add_entry(text, entry)
    except UnclearPlaceError:
        return
    before, after = jsonc.parse(text).value, jsonc.parse(change.apply(text)).value
    found: Any = after
    for key in entry.path:
        found = found[key]
    assert (found[-len(entry.value) :] if entry.is_items else found) == entry.value
    assert all(after[key] == value for key, value in before.items() if key != entry.path[0])


@given(jsonc_texts(), BLANKS)
def test_what_others_changed_meanwhile_stays(text: str, blanks: str) -> None:
    assume(not text.startswith("\ufeff"))
    added, written = add_all(text)
    more = f"// of another person{blanks}\n"
    added = more + added
    for entry in reversed(written):
        added = remove_entry(added, entry).apply(added)
    assert added == more + text


@given(jsonc_texts())
def test_an_entry_in_a_file_that_was_rewritten_by_a_program_is_found_again(text: str) -> None:
    added, written = add_all(text)
    value = jsonc.parse(text).value
    added = json.dumps(jsonc.parse(added).value, indent=4)
    for entry in reversed(written):
        added = remove_entry(added, entry).apply(added)
    assert jsonc.parse(added).value == value


def to_windows(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


@given(jsonc_texts())
def test_an_entry_goes_whole_from_a_file_whose_line_ends_were_changed(text: str) -> None:
    """As git does with `core.autocrlf`, and editors."""
    added, written = add_all(text)
    added = to_windows(added)
    for entry in reversed(written):
        added = remove_entry(added, entry).apply(added)
    assert added == to_windows(text)


@given(jsonc_texts(), st.sampled_from([2, 4, "\t"]))
def test_no_line_of_blanks_is_left_in_a_file_that_was_formatted(text: str, indent: int | str) -> None:
    added, written = add_all(text)
    added = json.dumps(jsonc.parse(added).value, indent=indent)
    for entry in reversed(written):
        added = remove_entry(added, entry).apply(added)
    assert all(line.strip() for line in added.splitlines())


BLOCK = '# ours\n[mcp_servers.kakite]\ncommand = "kakite"\nargs = ["serve"]\n'
SERVER = ("mcp_servers", "kakite")


@st.composite
def toml_texts(draw: st.DrawFn) -> str:
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    tops = [
        "",
        "# a comment",
        'model = "x"  # mine',
        "  a.b=1",
        "list = [",
        "  1, # one",
        "]",
        "mcp_servers = {o = {}}",
    ]
    tables = [
        "[mcp_servers]",
        "[mcp_servers.other]",
        '[mcp_servers."a b"]',
        "[[x]]",
        'command="o"',
        "",
        "[profiles.p]",
    ]
    lines = draw(st.lists(st.sampled_from(tops), max_size=4)) + draw(
        st.lists(st.sampled_from(tables), max_size=5)
    )
    end = draw(st.sampled_from(["", newline, newline * 2]))
    return draw(st.sampled_from(["", "\ufeff"])) + newline.join(lines) + end


@given(toml_texts(), st.sampled_from(["", "# of another\n", "\n[later]\nkey = 1\n"]))
def test_a_block_is_added_to_toml_and_goes_again(text: str, more: str) -> None:
    try:
        before = parse_toml(text)
        change, written = add_block(text, BLOCK)
    except (TomlError, UnclearPlaceError):
        assume(False)
        raise
    added = change.apply(text)
    assert added.startswith(text)
    servers = tomllib.loads(added.removeprefix("\ufeff"))["mcp_servers"]
    assert servers.pop("kakite") == {"command": "kakite", "args": ["serve"]}
    assert servers == before.get("mcp_servers", {})
    left = remove_block(added, written, SERVER).apply(added)
    assert left == text
    if more:
        later = remove_block(added + more, written, SERVER).apply(added + more)
        assert later.startswith(text)
        assert later.endswith(more)


@given(toml_texts())
def test_a_block_goes_from_toml_whose_line_ends_were_changed(text: str) -> None:
    try:
        change, written = add_block(text, BLOCK)
    except (TomlError, UnclearPlaceError):
        assume(False)
        raise
    added = to_windows(change.apply(text))
    assert remove_block(added, written, SERVER).apply(added) == to_windows(text)


@pytest.mark.parametrize(
    ("text", "added"),
    [
        ('{\n  "a": 1 // one\n}\n', '{\n  "a": 1, // one\n  "tools": {\n    "edit": false\n  }\n}\n'),
        ('{"a": 1}', '{"a": 1, "tools": {"edit": false}}'),
        ("{}", '{\n  "tools": {\n    "edit": false\n  }\n}'),
        ('{\n\t"a": [],\n}', '{\n\t"a": [],\n\t"tools": {\n\t\t"edit": false\n\t},\n}'),
    ],
)
def test_an_entry_is_written_as_the_file_is(text: str, added: str) -> None:
    assert add_entry(text, ENTRIES[1])[0].apply(text) == added


FILES = (
    ("opencode", ".config/opencode/opencode.jsonc"),
    ("claude", ".claude/settings.json"),
    ("claude", ".claude.json"),
    ("gemini", ".gemini/settings.json"),
    ("zed", ".config/zed/settings.json"),
)


@settings(max_examples=40)
@given(
    st.one_of(
        st.tuples(st.sampled_from(FILES), jsonc_texts()),
        st.tuples(st.just(("codex", ".codex/config.toml")), toml_texts()),
    ),
    st.booleans(),
)
def test_a_persons_folder_is_as_it_was(case: tuple[tuple[str, str], str], steers: bool) -> None:
    (client, name), text = case
    with TemporaryDirectory() as folder:
        me = person(Path(folder))
        me.write(name, text)
        before = me.files()
        try:
            me.install(client, steers=steers)
        except InstallError:
            assert me.files() == before
            return
        installed = me.files()
        assert not me.install(client, steers=steers).changes
        assert me.files() == installed
        me.uninstall(client)
        assert me.files() == before
