from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.host.config.load import (
    MAX_FILE_BYTES,
    Config,
    ConfigProblem,
    get_project_file,
    get_user_file,
    load_config,
)
from kakite.host.config.model import HttpServer, OAuthClient, ServerEntry, StdioServer, Timeouts
from kakite.host.config.parse import KEYS, EntryLocation, read_entry
from kakite.host.policy.matchers import PathGlob
from kakite.host.policy.rules import Rule
from tests.bounds import little_work
from tests.host.test_jsonc import values

PAGES = sorted((Path(__file__).parents[2] / "docs").glob("host*.md"))
DOCS = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)


def environ(folder: Path) -> dict[str, str]:
    return {"HOME": str(folder / "home"), "XDG_CONFIG_HOME": str(folder / "xdg")}


def loaded(folder: Path, **files: str) -> Config:
    """Load with these texts as the files ``shared``, ``user``, ``mcp`` and ``pi``."""
    places = {
        "shared": folder / "home/.config/mcp/mcp.json",
        "user": get_user_file(environ(folder)),
        "mcp": folder / "project/.mcp.json",
        "pi": get_project_file(folder / "project"),
    }
    for name, text in files.items():
        places[name].parent.mkdir(parents=True, exist_ok=True)
        places[name].write_text(text, encoding="utf-8")
    return load_config(folder / "project", environ(folder))


def read(raw: object, name: str = "s", scope: Any = "project") -> tuple[ServerEntry | None, list[str]]:
    entry, problems = read_entry(
        name, raw, EntryLocation(file="f", scope=scope, line=lambda path: 1 + len(path))
    )
    assert all(problem.hint and problem.line >= 1 for problem in problems)
    assert (entry is None) == any(problem.fatal for problem in problems)
    return entry, [problem.message for problem in problems]


def fine(raw: object, scope: Any = "project") -> ServerEntry:
    entry, problems = read(raw, scope=scope)
    assert entry is not None, problems
    assert problems == []
    return entry


SEED = """{
  "servers": {
    "server-name": {
      "command": "executable-command",
      "args": ["arg1", "arg2"],
      "env": {
        "ENV_VAR": "value"
      },
      "autoApprove": false,
      "disabled": false
    }
  }
}"""


def test_the_seeds_own_example_is_read_exactly(tmp_path: Path) -> None:
    found = loaded(tmp_path, pi=SEED)
    assert found.problems == ()
    (entry,) = found.entries
    assert entry.name == "server-name"
    assert entry.reached == StdioServer(
        command="executable-command", args=("arg1", "arg2"), env={"ENV_VAR": "value"}
    )
    assert (entry.auto_approve, entry.disabled, entry.lifecycle) == (False, False, "lazy")
    assert (entry.origin.scope, entry.origin.line) == ("project", 3)
    assert Path(entry.origin.file) == tmp_path / "project/.pi/mcp-servers.json"


def test_the_one_public_file_of_that_name_is_read_too() -> None:
    entry = fine(
        {"transport": "http", "url": "https://a.example/mcp", "headers": {"X-A": "b"}, "timeout_ms": 5000}
    )
    assert entry.reached == HttpServer(url="https://a.example/mcp", headers={"X-A": "b"})
    assert entry.timeouts.idle == 5
    assert fine({"transport": "stdio", "command": "x"}).reached == StdioServer(command="x")


def server(command: str) -> str:
    return json.dumps({"mcpServers": {"s": {"command": command}, command: {"command": command}}})


def test_the_project_overrules_the_person_and_each_its_lesser_file(tmp_path: Path) -> None:
    names = ["shared", "user", "mcp", "pi"]
    for count, name in enumerate(names, 1):
        found = loaded(tmp_path, **{name: server(name)})
        assert {entry.name for entry in found.entries} == {"s", *names[:count]}
        (winner,) = (entry for entry in found.entries if entry.name == "s")
        assert winner.reached == StdioServer(command=name)
        hidden = [problem for problem in found.problems if "hides" in problem.message]
        assert len(hidden) == (count == 3) + (count == 4)
        assert not any(problem.fatal for problem in found.problems)


def test_all_places_are_told_also_where_nothing_is(tmp_path: Path) -> None:
    found = loaded(tmp_path)
    assert found.entries == found.problems == ()
    assert [path.name for path in found.files] == [
        *("mcp.json", "mcp-servers.json", ".mcp.json", "mcp-servers.json")
    ]
    assert found.files[1] == tmp_path / "xdg/kakite/mcp-servers.json"
    elsewhere = load_config(tmp_path, {"HOME": str(tmp_path), "XDG_CONFIG_HOME": "relative"})
    assert elsewhere.files[1] == tmp_path / ".config/kakite/mcp-servers.json"


@pytest.mark.parametrize("file", ["shared", "user", "mcp", "pi"])
@pytest.mark.parametrize(
    "text",
    [
        '{"mcpServers": {"s": {"command": "x"}}}',
        '{"servers": {"s": {"command": "x"}}}',
        '{"mcp": {"servers": {"s": {"command": "x"}}}}',
        '{"mcp.servers": {"s": {"command": "x"}}}',
        '\ufeff// of VS Code\n{"inputs": [], "servers": {"s": {"command": ["x"],},},}',
    ],
)
def test_every_spelling_is_read_in_every_file(tmp_path: Path, file: str, text: str) -> None:
    found = loaded(tmp_path, **{file: text})
    assert [entry.reached for entry in found.entries] == [StdioServer(command="x")]
    assert found.problems == ()


def told(found: Config) -> list[tuple[int, bool]]:
    return [(problem.line, problem.fatal) for problem in found.problems]


def test_a_bad_entry_is_left_out_with_its_line_and_the_others_go_on(tmp_path: Path) -> None:
    text = """{
      "mcpServers": {
        "good": {"command": "x"},
        "bad": {
          "command": "x",
          "args": "not a list"
        },
        "also bad": 3,
        "": {"command": "x"},
        "late": {"url": "https://a.example"}
      }
    }"""
    found = loaded(tmp_path, mcp=text)
    assert [entry.name for entry in found.entries] == ["good", "late"]
    assert told(found) == [(6, True), (8, True), (9, True)]
    assert all(problem.file == str(tmp_path / "project/.mcp.json") for problem in found.problems)


def test_a_name_that_stands_twice_is_told(tmp_path: Path) -> None:
    one_section = '{"mcpServers": {\n"a": {"command": "x"},\n"a": {"command": "y"}}}'
    found = loaded(tmp_path, mcp=one_section)
    assert [entry.reached for entry in found.entries] == [StdioServer(command="y")]
    assert told(found) == [(3, False)]
    two_sections = '{"servers": {\n"a": {"command": "x"}},\n"mcpServers": {"a": {"command": "y"}}}'
    found = loaded(tmp_path, mcp=two_sections)
    assert [entry.reached for entry in found.entries] == [StdioServer(command="y")]
    assert told(found) == [(2, True)]


@pytest.mark.parametrize(
    ("text", "line"),
    [("", 1), ("no json", 1), ('{\n\n"mcpServers" {}}', 3), ("[]", 1), ("3", 1), ("\n\n{", 3)],
)
def test_what_is_no_configuration_at_all_is_one_problem(tmp_path: Path, text: str, line: int) -> None:
    found = loaded(tmp_path, mcp=text, user=server("kept"))
    assert told(found) == [(line, True)]
    assert len(found.entries) == 2


def test_bytes_that_are_no_text_are_one_problem(tmp_path: Path) -> None:
    place = tmp_path / "project/.mcp.json"
    place.parent.mkdir()
    place.write_bytes(b'{"mcpServers": {"\xff": {}}}')
    assert told(loaded(tmp_path)) == [(1, True)]


def test_keys_beside_the_servers_are_warned_of(tmp_path: Path) -> None:
    found = loaded(tmp_path, mcp='{"$schema": "x",\n"mcpServer": {},\n"mcpServers": 3,\n"mcp": 1}')
    assert told(found) == [(2, False), (3, True), (4, True)]


def test_what_is_no_regular_file_is_neither_waited_for_nor_read(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".pi/mcp-servers.json").mkdir(parents=True)
    os.mkfifo(project / ".mcp.json")
    user = get_user_file(environ(tmp_path))
    user.parent.mkdir(parents=True)
    user.symlink_to("/dev/zero")
    shared = tmp_path / "home/.config/mcp/mcp.json"
    shared.parent.mkdir(parents=True)
    shared.symlink_to(shared)
    found = loaded(tmp_path)
    assert [problem.fatal for problem in found.problems] == [True] * 4


def test_a_file_of_the_person_that_everybody_can_write_is_left_out(tmp_path: Path) -> None:
    loaded(tmp_path, user=server("x"), mcp=server("y"))
    get_user_file(environ(tmp_path)).chmod(0o666)
    (tmp_path / "project/.mcp.json").chmod(0o666)
    found = loaded(tmp_path)
    assert told(found) == [(1, True)]
    assert {entry.origin.scope for entry in found.entries} == {"project"}


def test_a_link_to_a_regular_file_is_followed(tmp_path: Path) -> None:
    (tmp_path / "dotfiles.json").write_text(server("x"), encoding="utf-8")
    user = get_user_file(environ(tmp_path))
    user.parent.mkdir(parents=True)
    user.symlink_to(tmp_path / "dotfiles.json")
    assert len(loaded(tmp_path).entries) == 2


@pytest.mark.slow
def test_a_file_has_a_limit_and_whatever_it_holds_is_read_in_bounded_time(tmp_path: Path) -> None:
    assert told(loaded(tmp_path, mcp=" " * MAX_FILE_BYTES + "{}")) == [(1, True)]
    keys = ",".join(f'"k{number}":1' for number in range(80_000))
    hostile = [
        f'{{"mcpServers":{{"a":{{{keys}}}}}}}',
        f'{{"mcpServers":{{{keys}}}}}',
        '{"mcpServers":{' + '"a":{"b":[1]},' * 60_000 + "}}",
        "/*" * 500_000,
        "//\n" * 300_000,
        "[" * 1_000_000,
    ]
    for text in hostile:
        with little_work(30):  # it is about a second
            found = loaded(tmp_path, mcp=text)
        assert found.problems


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"command": ["npx", "-y"], "args": ["x"]}, StdioServer(command="npx", args=("-y", "x"))),
        (
            {"type": "local", "command": "x", "environment": {"A": "b"}},
            StdioServer(command="x", env={"A": "b"}),
        ),
        (
            {"command": "x", "env_vars": ["A"], "cwd": "sub"},
            StdioServer(command="x", env={"A": "${A}"}, cwd="sub"),
        ),
        ({"type": "sse", "url": "http://h/sse"}, HttpServer(url="http://h/sse", sse=True)),
        ({"type": "streamable-http", "url": "http://h"}, HttpServer(url="http://h")),
        ({"serverUrl": "${URL}"}, HttpServer(url="${URL}")),
        ({"url": "http://h", "insecure": True}, HttpServer(url="http://h", insecure=True)),
        (
            {"url": "https://h", "bearerToken": "${T}"},
            HttpServer(url="https://h", headers={"Authorization": "Bearer ${T}"}),
        ),
        (
            {"url": "https://h", "bearer_token_env_var": "T", "http_headers": {"A": "b"}},
            HttpServer(url="https://h", headers={"A": "b", "Authorization": "Bearer ${T}"}),
        ),
        (
            {"url": "https://h", "env_http_headers": {"X-Key": "K"}},
            HttpServer(url="https://h", headers={"X-Key": "${K}"}),
        ),
    ],
)
def test_how_a_server_is_reached_is_read_in_everyones_words(raw: Any, expected: object) -> None:
    assert fine(raw).reached == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"timeout": 30}, Timeouts(idle=30)),
        ({"timeout": 30000}, Timeouts(idle=30)),
        ({"requestTimeoutMs": 500}, Timeouts(idle=0.5)),
        ({"tool_timeout_sec": 7200, "startup_timeout_sec": 20}, Timeouts(start=20, idle=7200, total=7200)),
        ({"startup_timeout_ms": 1500}, Timeouts(start=1.5)),
        ({"timeout": {"startup": 30000, "request": 90000}}, Timeouts(start=30, idle=90)),
        ({"timeouts": {"start": 1, "idle": 2, "total": 3}}, Timeouts(start=1, idle=2, total=3)),
        ({"timeouts": {"idle": 4000}}, Timeouts(idle=4000, total=4000)),
    ],
)
def test_time_outs_are_read_in_everyones_units(raw: Any, expected: Timeouts) -> None:
    assert fine({"command": "x", **raw}).timeouts == expected


def test_a_tool_has_time_outs_of_its_own() -> None:
    raw = {"command": "x", "timeouts": {"start": 3}, "toolTimeouts": {"build": {"total": 9}, "slow": 90}}
    assert fine(raw).tool_timeouts == {
        "build": Timeouts(start=3, total=9),
        "slow": Timeouts(start=3, idle=90),
    }


@pytest.mark.parametrize(
    ("raw", "field", "expected"),
    [
        ({"autoApprove": True}, "auto_approve", True),
        ({"autoApprove": ["read_*"]}, "auto_approve", ("read_*",)),
        ({"alwaysAllow": []}, "auto_approve", ()),
        (
            {"rules": [{"deny": "rm*"}, {"allow": "get", "arguments": {"path": {"path": "src/**"}}}]},
            "rules",
            (
                Rule(decision="deny", tool="rm*", server="s"),
                Rule(decision="allow", tool="get", server="s", arguments={"path": PathGlob("src/**")}),
            ),
        ),
        ({"enabled": False}, "disabled", True),
        ({"enabled": True, "disabled": True}, "disabled", True),
        ({"enabled": True}, "disabled", False),
        ({"lifecycle": "keep-alive"}, "lifecycle", "keep-alive"),
        ({"idleTimeout": 0}, "idle_stop", 0.0),
        ({"idleTimeoutMs": 2500}, "idle_stop", 2.5),
        ({"enabled_tools": []}, "include", ()),
        ({"includeTools": ["a*"]}, "include", ("a*",)),
        ({"exclude": ["b"]}, "exclude", ("b",)),
        ({"protocolVersion": "2025-11-25"}, "protocol", "2025-11-25"),
        ({"protocolVersion": "legacy"}, "protocol", "legacy"),
        ({"env": None}, "disabled", False),
    ],
)
def test_what_a_server_may_is_read_in_everyones_words(raw: Any, field: str, expected: object) -> None:
    assert getattr(fine({"command": "x", **raw}), field) == expected


def test_only_the_persons_own_files_can_say_that_a_server_is_trusted() -> None:
    assert fine({"command": "x", "trusted": True}, scope="user").trusted
    entry, problems = read({"command": "x", "trusted": True})
    assert entry
    assert not entry.trusted
    assert len(problems) == 1


SENSELESS: list[Any] = [
    *(None, [], "npx", {}, {"args": []}, {"command": ""}, {"command": []}, {"command": 3}),
    {"command": "x", "url": "https://h"},
    {"type": "http", "command": "x"},
    {"type": "stdio", "url": "https://h"},
    {"type": "carrier-pigeon", "command": "x"},
    *({"command": "x", "args": args} for args in ("a", [1], [None], ["a\0b"], ["\ud800"])),
    *({"command": "x", "env": env} for env in ([1], {"A": 1}, {"A=B": ""}, {"": ""}, {"A": "\0"})),
    {"command": "x", "env": {}, "environment": {}},
    {"command": "x", "env_vars": ["A B"]},
    {"command": "x", "cwd": 3},
    {"command": "x", "args": ["${input:token}"]},
    *({"url": url} for url in ("h", "ftp://h", "https://", "https://h/ x", "https://[", "file:///x", 3)),
    *({"url": "https://h", "headers": headers} for headers in ({"A": "b\nC: d"}, {"A:": "b"}, {"": ""})),
    {"url": "https://h", "headers": {"A": "b", "a": "c"}},
    {"url": "https://h", "bearerToken": "a", "bearerTokenEnv": "B"},
    {"url": "https://h", "bearerToken": "a", "headers": {"authorization": "b"}},
    {"url": "https://h", "bearerTokenEnv": "not a name"},
    *({"command": "x", "autoApprove": value} for value in ("yes", 1, [1], {"a": 1})),
    *(
        {"command": "x", "rules": value}
        for value in ({"allow": "x"}, ["x"], [{"allow": ""}], [{"never": "x"}])
    ),
    {"command": "x", "rules": [{"allow": "x", "server": "another"}]},
    *({"command": "x", "disabled": value} for value in ("yes", 1, 0)),
    *({"command": "x", "timeout": value} for value in (0, -1, True, "5", 1e300, [1], float("nan"))),
    {"command": "x", "timeouts": {"idel": 3}},
    {"command": "x", "toolTimeouts": {"a": "3"}},
    {"command": "x", "timeout": 3, "timeout_ms": 3000},
    {"command": "x", "lifecycle": "immortal"},
    {"command": "x", "lifecycle": []},
    {"command": "x", "include": "*"},
    {"command": "x", "protocolVersion": "newest"},
    {"command": "x", "trusted": "yes"},
]


@pytest.mark.parametrize("raw", SENSELESS)
def test_an_entry_that_makes_no_sense_is_left_out(raw: object) -> None:
    assert read(raw)[0] is None


@pytest.mark.parametrize("name", ["", " ", "a ", "a\nb", "a\x1b[2J", "a\u202eb", "a\u200bb", "n" * 129])
def test_a_name_that_could_mislead_is_refused_and_shown_safely(name: str) -> None:
    entry, problems = read({"command": "x"}, name=name)
    assert entry is None
    assert problems[0].isprintable()


def test_an_unknown_key_is_warned_of_with_the_nearest_known_one() -> None:
    place = EntryLocation(file="f", scope="user", line=lambda path: 7 if path == ("autoAprove",) else 1)
    entry, problems = read_entry("s", {"command": "x", "autoAprove": True, "description": "fine"}, place)
    assert entry is not None
    assert not entry.auto_approve
    (problem,) = problems
    assert isinstance(problem, ConfigProblem)
    assert (problem.line, problem.fatal) == (7, False)
    assert "`autoApprove`" in problem.hint


def test_who_we_are_to_an_authorization_server_is_read() -> None:
    told = {"clientId": "me", "secret": "${S}", "issuer": "https://i", "callbackPort": 8765}
    reached = fine({"url": "https://h", "oauth": told}).reached
    assert reached == HttpServer(
        url="https://h", oauth=OAuthClient(id="me", secret="${S}", issuer="https://i", port=8765)
    )
    assert "${S}" not in repr(reached)


@pytest.mark.parametrize("told", ["me", {"id": 1}, {"port": "1"}, {"port": 70000}, {"port": True}])
def test_what_cannot_be_who_we_are_is_refused(told: Any) -> None:
    entry, problems = read({"url": "https://h", "oauth": told})
    assert entry is None
    assert "oauth" in problems[0]


def test_a_key_of_oauth_that_is_not_read_is_told() -> None:
    entry, problems = read({"url": "https://h", "oauth": {"scopes": ["a"]}})
    assert entry
    assert "`oauth.scopes`" in problems[0]


json_object = st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=6), values, max_size=8)
near_misses = st.fixed_dictionaries(
    {"command": st.text() | st.lists(st.text(), max_size=3)},
    optional=dict.fromkeys(("args", "env", "timeout", "autoApprove", "toolTimeouts", "cwd"), values),
)


@given(raw=json_object | near_misses | values, name=st.text(max_size=10))
def test_any_json_in_an_entry_is_an_entry_or_a_problem_with_a_line(raw: Any, name: str) -> None:
    entry, problems = read(raw, name=name)
    assert all(problem.isprintable() for problem in problems)
    if entry is not None:
        assert entry.name == name
        assert entry.raw == raw


@given(data=st.dictionaries(st.sampled_from(["mcpServers", "servers", "mcp", "x"]), values, max_size=3))
def test_any_json_in_a_file_is_read_without_an_exception(
    tmp_path_factory: pytest.TempPathFactory, data: Any
) -> None:
    text = json.dumps(data, indent=1)
    found = loaded(tmp_path_factory.mktemp("any"), mcp=text)
    lines = range(1, text.count("\n") + 2)
    assert all(problem.line in lines for problem in found.problems)
    assert all(entry.origin.line in lines for entry in found.entries)


@pytest.mark.parametrize("key", KEYS)
def test_every_key_is_documented(key: str) -> None:
    assert f"`{key}`" in DOCS
