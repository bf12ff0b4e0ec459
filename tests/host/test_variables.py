from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.host.config.model import HttpServer, OAuthClient, ServerEntry, SourceLocation, StdioServer
from kakite.host.config.variables import ExpansionError, expand, list_variables

SECRET = "s3cr3t-value"
ORIGIN = SourceLocation(file="f", line=1, scope="project")


def program(*args: str, **more: Any) -> ServerEntry:
    return ServerEntry(name="s", origin=ORIGIN, reached=StdioServer(command="x", args=args, **more))


def address(url: str, **headers: str) -> ServerEntry:
    return ServerEntry(name="s", origin=ORIGIN, reached=HttpServer(url=url, headers=headers))


def expanded(text: str, **environ: str) -> str:
    found = expand(program(text), environ, project=Path("/the/project")).reached
    assert isinstance(found, StdioServer)
    return found.args[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${A}", "1"),
        ("x${A}y${A}z", "x1y1z"),
        ("${env:A}", "1"),
        ("${A:-d}", "1"),
        ("${NO:-d e:-f$}", "d e:-f$"),
        ("${env:NO:-d}", "d"),
        ("${NO:-}", ""),
        ("${EMPTY:-d}", "d"),
        ("${EMPTY}", ""),
        ("${workspaceFolder}/x", "/the/project/x"),
        ("$A $$ $", "$A $$ $"),
        ("$${A}", "$1"),
        ("${A%.*} ${#A} ${1} ${} ${A", "${A%.*} ${#A} ${1} ${} ${A"),
        ("{env:A}", "{env:A}"),
        ("${LOOKS}", "${A}"),
    ],
)
def test_a_reference_becomes_its_value_and_nothing_else_changes(text: str, expected: str) -> None:
    assert expanded(text, A="1", EMPTY="", LOOKS="${A}", workspaceFolder="elsewhere") == expected


def test_every_place_of_an_entry_is_expanded() -> None:
    entry = ServerEntry(
        name="s",
        origin=ORIGIN,
        raw={"command": "${A}"},
        reached=StdioServer(command="${A}", args=("${B}",), env={"N": "${C}"}, cwd="${D}"),
    )
    values = dict(zip("ABCD", "1234", strict=True))
    found = expand(entry, values)
    assert found.reached == StdioServer(command="1", args=("2",), env={"N": "3"}, cwd="4")
    assert found.raw == entry.raw
    assert list_variables(entry) == ("A", "B", "C", "D")
    remote = address("https://${H}/", Authorization="Bearer ${T}")
    assert expand(remote, {"H": "h", "T": "t"}).reached == HttpServer(
        url="https://h/", headers={"Authorization": "Bearer t"}
    )
    assert list_variables(remote) == ("H", "T")
    oauth = OAuthClient(id="${A}", secret="${B}", issuer="${C}", metadata_url="${D}", port=1)
    known = replace(remote, reached=HttpServer(url="https://h/", oauth=oauth))
    assert expand(known, values).reached == HttpServer(
        url="https://h/", oauth=OAuthClient(id="1", secret="2", issuer="3", metadata_url="4", port=1)
    )
    assert list_variables(known) == ("A", "B", "C", "D")


@pytest.mark.parametrize(
    ("entry", "place"),
    [
        (program("a", "${MISSING}"), "args[1]"),
        (program(cwd="${MISSING}"), "cwd"),
        (program(env={"N": "${env:MISSING}"}), "env.N"),
        (address("https://${MISSING}/"), "url"),
        (address("https://h", Authorization="${MISSING}"), "Authorization"),
    ],
)
def test_a_variable_that_is_not_set_is_refused_by_name_and_place(entry: ServerEntry, place: str) -> None:
    with pytest.raises(ExpansionError) as raised:
        expand(entry, {"OTHER": SECRET})
    assert raised.value.code == "unset_variable"
    assert "`MISSING`" in raised.value.message
    assert place in raised.value.message
    assert raised.value.hint


@pytest.mark.parametrize(
    "entry",
    [
        program("${NO:-${OTHER}}"),
        program("${NO:-open"),
        program("${ZERO}"),
        address("https://h", A="${LINES}"),
        address("${SECRET}"),
        address("https://h/${BLANK}"),
        address("${SHEME}://h"),
    ],
)
def test_what_a_value_would_break_is_refused_without_showing_it(entry: ServerEntry) -> None:
    environ = {
        "SECRET": SECRET,
        "ZERO": f"{SECRET}\0",
        "LINES": f"{SECRET}\r\nHost: x",
        "BLANK": f"{SECRET} x",
        "OTHER": SECRET,
    }
    with pytest.raises(ExpansionError) as raised:
        expand(entry, environ)
    assert SECRET not in f"{raised.value!r}{raised.value.hint}{raised.value.__cause__}"


def test_the_projects_folder_is_needed_where_it_is_named() -> None:
    with pytest.raises(ExpansionError):
        expand(program("${workspaceFolder}"), {"workspaceFolder": "/x"})
    assert list_variables(program("${workspaceFolder} ${env:workspaceFolder}")) == ("workspaceFolder",)


def test_no_value_is_in_what_python_prints_of_an_entry() -> None:
    entries = [
        program("--token=${S}", env={"A": "${S}"}, cwd="${S}"),
        ServerEntry(name="s", origin=ORIGIN, reached=StdioServer(command="${S}")),
        address("https://h/${S}", A="${S}"),
    ]
    for entry in entries:
        assert SECRET not in repr(expand(entry, {"S": SECRET}))


pieces = st.sampled_from(["$", "{", "}", ":-", "env:", "A", "B", "%", "x ", "workspaceFolder", "${A}", "${"])


@given(
    text=st.lists(pieces, max_size=12).map("".join), environ=st.dictionaries(st.sampled_from("AB"), st.text())
)
def test_exactly_the_variables_that_are_named_are_looked_at(text: str, environ: dict[str, str]) -> None:
    entry = program(text)
    seen: set[str] = set()

    class Watched(dict[str, str]):
        def get(self, key: str, default: Any = None) -> Any:
            seen.add(key)
            return super().get(key, default)

    try:
        expand(entry, Watched(environ), project=Path("/p"))
    except ExpansionError:
        assert seen <= set(list_variables(entry))
    else:
        assert seen == set(list_variables(entry))
