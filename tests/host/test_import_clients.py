from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.host.config import jsonc
from kakite.host.config.import_clients import (
    CLIENTS,
    InsertionError,
    InsertResult,
    UnknownClientError,
    import_from,
    insert,
)
from kakite.host.config.load import Config, get_project_file, load_config
from kakite.host.config.model import (
    HttpServer,
    OAuthClient,
    ServerEntry,
    SourceLocation,
    StdioServer,
    Timeouts,
)
from kakite.host.config.references import refer_to_values
from kakite.host.config.variables import expand
from kakite.host.policy.rules import Rule
from tests.host.test_jsonc import values


def imported(
    client: str,
    folder: Path,
    files: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Config:
    """Import with these texts as files, whose names begin with ``home`` or ``project``."""
    for name, text in (files or {}).items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    return import_from(client, folder / "home", folder / "project", environ or {})


def reached(found: Config) -> dict[str, StdioServer | HttpServer]:
    return {entry.name: entry.reached for entry in found.entries}


STDIO = '{"command": "npx", "args": ["-y", "x"], "env": {"A": "${A}"}}'
PROGRAM = StdioServer(command="npx", args=("-y", "x"), env={"A": "${A}"})


@pytest.mark.parametrize(
    ("client", "file", "scope"),
    [
        ("claude", "home/.claude.json", "user"),
        ("claude", "project/.mcp.json", "project"),
        ("claude-desktop", "home/.config/Claude/claude_desktop_config.json", "user"),
        ("cursor", "home/.cursor/mcp.json", "user"),
        ("cursor", "project/.cursor/mcp.json", "project"),
        ("windsurf", "home/.codeium/windsurf/mcp_config.json", "user"),
        ("pi", "home/.pi/agent/mcp.json", "user"),
        ("pi", "project/.pi/mcp.json", "project"),
        ("gemini", "home/.gemini/settings.json", "user"),
        ("gemini", "project/.gemini/settings.json", "project"),
        ("copilot", "home/.copilot/mcp-config.json", "user"),
    ],
)
def test_files_with_mcp_servers_are_read(tmp_path: Path, client: str, file: str, scope: str) -> None:
    found = imported(client, tmp_path, {file: f'{{"theme": 1,\n"mcpServers": {{\n"s": {STDIO}}}}}'})
    assert found.problems == ()
    (entry,) = found.entries
    assert (entry.name, entry.reached) == ("s", PROGRAM)
    assert entry.origin == SourceLocation(file=str(tmp_path / file), line=3, scope=scope)  # pyright: ignore[reportArgumentType]
    assert tmp_path / file in found.files


def test_what_claude_code_keeps_for_one_project_counts_most(tmp_path: Path) -> None:
    def one(command: str) -> dict[str, Any]:
        return {"s": {"command": command}}

    own: dict[str, Any] = {
        "mcpServers": one("everywhere"),
        "projects": {
            str(tmp_path / "project"): {"mcpServers": one("here"), "history": []},
            "/another": {"mcpServers": {"t": {"command": "there"}}},
        },
    }
    files = {"project/.mcp.json": json.dumps({"mcpServers": one("theirs")})}
    found = imported("claude", tmp_path, {**files, "home/.claude.json": json.dumps(own)})
    assert reached(found) == {"s": StdioServer(command="here")}
    assert found.entries[0].origin.scope == "user"


def test_claudes_folder_can_be_named(tmp_path: Path) -> None:
    environ = {"CLAUDE_CONFIG_DIR": str(tmp_path / "elsewhere")}
    text = f'{{"mcpServers": {{"s": {STDIO}}}}}'
    found = imported("claude", tmp_path, {"elsewhere/.claude.json": text}, environ)
    assert reached(found) == {"s": PROGRAM}


VSCODE = """{
  // servers of this project
  "inputs": [{"type": "promptString", "id": "key", "password": true}],
  "servers": {
    "fetch": {"type": "stdio", "command": "uvx", "args": ["fetch", "${workspaceFolder}"]},
    "remote": {
      "type": "http",
      "url": "https://api.example/mcp",
      "headers": {"Authorization": "Bearer ${input:key}"},
    },
    "home": {"command": "${userHome}/x", "env": {"A": "${env:B}"}},
  },
}"""


def test_vs_codes_files_are_read_and_what_it_would_ask_for_is_a_problem(tmp_path: Path) -> None:
    found = imported("vscode", tmp_path, {"project/.vscode/mcp.json": VSCODE})
    assert reached(found) == {
        "fetch": StdioServer(command="uvx", args=("fetch", "${workspaceFolder}")),
        "home": StdioServer(command="${HOME}/x", env={"A": "${env:B}"}),
    }
    (problem,) = found.problems
    assert (problem.line, problem.fatal) == (9, True)
    assert "${input:key}" in problem.message


def test_vs_codes_own_settings_are_read_and_overruled(tmp_path: Path) -> None:
    user = "home/.config/Code/User"
    settings = '{"editor.fontSize": 3, "mcp": {"servers": {"a": {"command": "1"}, "b": {"command": "1"}}}}'
    newer = '{"servers": {"b": {"command": "2"}}}'
    found = imported("vscode", tmp_path, {f"{user}/settings.json": settings, f"{user}/mcp.json": newer})
    assert reached(found) == {"a": StdioServer(command="1"), "b": StdioServer(command="2")}
    assert found.problems == ()


CODEX = """
model = "o9"
# [mcp_servers.fetch]

[mcp_servers.fetch]
command = "uvx"
args = ["fetch"]
env_vars = ["TOKEN"]
startup_timeout_sec = 20
tool_timeout_sec = 90.5
enabled_tools = ["get"]

[mcp_servers.fetch.env]
A = "b"

[mcp_servers."with.dot"]
url = "https://h/mcp"
bearer_token_env_var = "KEY"
http_headers = { X-A = "b" }
enabled = false

[mcp_servers.bad]
command = "x"
args = "y"

[mcp_servers]
inline = { command = "z" }
"""


def test_codexs_tables_are_read_with_their_lines(tmp_path: Path) -> None:
    found = imported("codex", tmp_path, {"home/.codex/config.toml": CODEX})
    assert reached(found) == {
        "fetch": StdioServer(command="uvx", args=("fetch",), env={"A": "b", "TOKEN": "${TOKEN}"}),
        "with.dot": HttpServer(url="https://h/mcp", headers={"X-A": "b", "Authorization": "Bearer ${KEY}"}),
        "inline": StdioServer(command="z"),
    }
    assert [entry.origin.line for entry in found.entries] == [5, 16, 27]
    fetch, dotted, _ = found.entries
    assert fetch.timeouts == Timeouts(start=20, idle=90.5)
    assert fetch.include == ("get",)
    assert dotted.disabled
    (problem,) = found.problems
    assert (problem.line, problem.fatal) == (24, True)


def test_codexs_folder_can_be_named_and_its_mistakes_have_a_line(tmp_path: Path) -> None:
    environ = {"CODEX_HOME": str(tmp_path / "elsewhere")}
    found = imported("codex", tmp_path, {"elsewhere/config.toml": 'a = 1\nb = = "x"\n'}, environ)
    (problem,) = found.problems
    assert (problem.line, problem.fatal) == (2, True)


OPENCODE = """{
  "$schema": "x",
  "mcp": {
    "old": {"type": "local", "command": ["npx", "x"], "environment": {"A": "{env:B}"}, "enabled": false},
    "far": {"type": "remote", "url": "https://h", "headers": {"Authorization": "Bearer {env:T}"}},
    "servers": {
      "new": {"type": "local", "command": ["bun", "x"], "timeout": {"startup": 20000, "request": 3000}}
    }
  }
}"""


def test_opencodes_files_are_read_in_both_forms(tmp_path: Path) -> None:
    found = imported("opencode", tmp_path, {"home/.config/opencode/opencode.jsonc": OPENCODE})
    assert found.problems == ()
    assert reached(found) == {
        "old": StdioServer(command="npx", args=("x",), env={"A": "${B}"}),
        "far": HttpServer(url="https://h", headers={"Authorization": "Bearer ${T}"}),
        "new": StdioServer(command="bun", args=("x",)),
    }
    assert found.entries[0].disabled
    assert found.entries[2].timeouts == Timeouts(start=20, idle=3)
    named = imported(
        "opencode", tmp_path, {"project/opencode.json": '{"mcp": {"servers": {"command": "x"}}}'}
    )
    assert named.entries[-1].name == "servers"


@given(data=values, client=st.sampled_from(CLIENTS))
def test_whatever_another_hosts_files_hold_importing_raises_nothing(
    tmp_path_factory: pytest.TempPathFactory, data: Any, client: str
) -> None:
    folder = tmp_path_factory.mktemp("any")
    text = json.dumps({"mcpServers": data, "servers": data, "mcp": data, "projects": {str(folder): data}})
    for place in imported(client, folder).files:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    assert all(problem.line >= 1 for problem in imported(client, folder).problems)


def test_what_pi_gemini_copilot_and_zed_write_in_their_own_way_is_read(tmp_path: Path) -> None:
    def servers(client: str, file: str, section: str, **entries: Any) -> Config:
        return imported(client, tmp_path, {file: json.dumps({section: entries})})

    pi = {
        "a": {"command": "~/bin/x", "args": ["~/y", "~z"]},
        "b": {"url": "https://h", "headers": {"A": "!secret-tool get x"}},
    }
    found = servers("pi", "home/.pi/agent/mcp.json", "mcpServers", **pi)
    assert reached(found) == {"a": StdioServer(command="${HOME}/bin/x", args=("${HOME}/y", "~z"))}
    assert [(problem.fatal, "`b`" in problem.message) for problem in found.problems] == [(True, True)]
    gemini = {
        "a": {"command": "x", "env": {"K": "$KEY", "L": "${KEY}"}, "timeout": 30000},
        "b": {"url": "https://h/sse"},
        "c": {"httpUrl": "https://h/mcp"},
        "d": {"url": "https://h/mcp", "type": "http"},
    }
    found = servers("gemini", "home/.gemini/settings.json", "mcpServers", **gemini)
    assert reached(found) == {
        "a": StdioServer(command="x", env={"K": "${KEY}", "L": "${KEY}"}),
        "b": HttpServer(url="https://h/sse", sse=True),
        "c": HttpServer(url="https://h/mcp"),
        "d": HttpServer(url="https://h/mcp"),
    }
    one = {"type": "local", "command": "x", "tools": ["get_*"]}
    found = servers("copilot", "home/.copilot/mcp-config.json", "mcpServers", a=one)
    assert [entry.include for entry in found.entries] == [("get_*",)]
    assert found.problems == ()
    zed = {
        "old": {"command": {"path": "x", "args": ["1"], "env": {"A": "b"}}},
        "new": {"source": "custom", "command": "x", "args": ["1"], "env": {"A": "b"}},
        "far": {"url": "https://h"},
    }
    found = servers("zed", "project/.zed/settings.json", "context_servers", **zed)
    same = StdioServer(command="x", args=("1",), env={"A": "b"})
    assert reached(found) == {"old": same, "new": same, "far": HttpServer(url="https://h")}
    assert found.problems == ()


@pytest.mark.parametrize("key", ["envFile", "auth", "scopes", "trust", "exposure"])
def test_what_is_left_out_of_an_entry_is_said(tmp_path: Path, key: str) -> None:
    text = json.dumps({"mcpServers": {"s": {"command": "x", key: "y"}}})
    found = imported("cursor", tmp_path, {"home/.cursor/mcp.json": text})
    (problem,) = found.problems
    assert (problem.fatal, f"`{key}` is left out" in problem.message) == (False, True)
    assert reached(found) == {"s": StdioServer(command="x")}


# No value of a person's own file in a project's


def taken_over(tmp_path: Path, servers: Mapping[str, Any], *, user: bool = False) -> tuple[str, InsertResult]:
    found = imported("claude", tmp_path, {"home/.claude.json": json.dumps({"mcpServers": servers})})
    project = tmp_path / "project"
    project.mkdir(exist_ok=True)
    file = tmp_path / "own.json" if user else get_project_file(project)
    done = insert(file, found.entries, within=None if user else project)
    return file.read_text(encoding="utf-8"), done


def test_a_persons_keys_stay_in_their_own_file_and_the_variables_to_set_are_named(tmp_path: Path) -> None:
    key = "sk-0123456789abcdef0123456789abcdef"
    servers = {
        "files": {
            "command": "x",
            "args": ["--api-key", key, f"--token={key}2", "plain"],
            "env": {"API_KEY": key},
        },
        "other": {"command": "x", "env": {"API_KEY": f"{key}3", "KEEP": "${KEPT}", "D": f"${{E:-{key}}}"}},
        "far": {
            "url": f"https://h/mcp?api_key={key}",
            "headers": {"Authorization": f"Bearer {key}", "X-Team": "red", "B": "Bearer ${KEPT}"},
            "oauth": {"id": "me", "secret": key},
        },
    }
    text, done = taken_over(tmp_path, servers)
    assert key not in text
    written = json.loads(text)["mcpServers"]
    assert written["files"]["args"] == ["--api-key", "${API_KEY}", "--token=${TOKEN}", "plain"]
    assert written["files"]["env"] == {"API_KEY": "${API_KEY}"}
    assert written["other"]["env"] == {"API_KEY": "${OTHER_API_KEY}", "KEEP": "${KEPT}", "D": "${D}"}
    assert written["far"]["headers"] == {
        "Authorization": "Bearer ${FAR_AUTHORIZATION}",
        "X-Team": "${FAR_X_TEAM}",
        "B": "Bearer ${KEPT}",
    }
    assert written["far"]["url"] == "https://h/mcp?api_key=${FAR_URL_KEY}"
    assert done.variables["files"] == ("API_KEY", "TOKEN")
    assert done.variables["other"] == ("OTHER_API_KEY", "D")
    own, kept = taken_over(tmp_path, servers, user=True)
    assert (key in own, kept.variables) == (True, {})


literals = st.text("abz09", min_size=6).map(lambda text: f"v{text}")


@given(
    st.dictionaries(st.sampled_from(["one", "two", "3"]), st.dictionaries(st.sampled_from("ABC"), literals))
)
def test_no_variable_stands_for_two_values_and_set_as_told_all_are_as_they_were(
    servers: dict[str, dict[str, str]],
) -> None:
    place = SourceLocation(file="f", line=1, scope="user")
    before = [
        ServerEntry(name=name, reached=StdioServer(command="x", env=env), origin=place)
        for name, env in servers.items()
    ]
    after, needed = refer_to_values(before)
    values: dict[str, str] = {}
    for one, other in zip(before, after, strict=True):
        assert isinstance(one.reached, StdioServer)
        assert isinstance(other.reached, StdioServer)
        for name, value in one.reached.env.items():
            variable = other.reached.env[name].removeprefix("${").removesuffix("}")
            assert variable in needed[one.name]
            assert values.setdefault(variable, value) == value
    assert [expand(entry, values).reached for entry in after] == [entry.reached for entry in before]


def test_a_client_that_is_not_known_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownClientError) as raised:
        imported("netscape", tmp_path)
    assert raised.value.code == "unknown_client"
    assert "codex" in raised.value.hint


# Taking over


def entry(name: str, **more: Any) -> ServerEntry:
    fields: dict[str, Any] = {"reached": PROGRAM, **more}
    return ServerEntry(name=name, origin=SourceLocation(file="f", line=1, scope="user"), **fields)


ENTRIES = [
    entry("plain"),
    entry("none", include=(), idle_stop=0.0, lifecycle="eager", protocol="legacy", disabled=True),
    entry("some", include=("a",), exclude=("b",), timeouts=Timeouts(idle=7, total=90)),
    entry("tools", tool_timeouts={"slow": Timeouts(start=1, idle=2, total=3)}),
    entry("far", reached=HttpServer(url="https://h", headers={"A": "${B}"}, sse=True, insecure=True)),
    entry(
        "login",
        reached=HttpServer(
            url="https://h",
            oauth=OAuthClient(
                id="me", secret="${S}", issuer="https://i", metadata_url="https://m/x", port=87
            ),
        ),
    ),
    entry("here", reached=StdioServer(command="書く", args=("\u202e",), cwd="sub")),
]


def test_what_is_taken_over_is_read_back_as_it_was(tmp_path: Path) -> None:
    file = get_project_file(tmp_path)
    assert insert(file, ENTRIES).added == tuple(entry.name for entry in ENTRIES)
    assert file.stat().st_mode & 0o777 == 0o600
    found = load_config(tmp_path, {"HOME": str(tmp_path / "home")})
    assert found.problems == ()
    plain = SourceLocation(file="", line=1, scope="user")
    assert [replace(entry, origin=plain, raw={}) for entry in found.entries] == [
        replace(entry, origin=plain) for entry in ENTRIES
    ]


COMMENTED = """// mine
{
  "servers": { // first
    "a": {"command": "1"} // no comma here
    /* the end */
  }, // after
  "x": [1,],
}
// end
"""


@pytest.mark.parametrize(
    "text",
    [
        COMMENTED,
        "{}",
        "{\n}\n",
        '{"mcpServers": {}}',
        '{"mcpServers": {"a": {}}}',
        '{\n  "mcpServers": {\n    "a": {},\n  },\n}',
        '{\r\n  "mcpServers": {\r\n    "a": {}\r\n  }\r\n}\r\n',
        '{"mcp": {"servers": {"a": 1 /* , */ }, "z": 1}}',
        '{"mcp.servers": {"a": 1, // ,\n}}',
        '{"x": 1 // c\u00a0\n}',
        '\ufeff{"mcpServers": {"b": 1, "a": {"new": {}}}}',
    ],
)
def test_taking_over_keeps_everything_that_is_there(tmp_path: Path, text: str) -> None:
    file = tmp_path / "f.json"
    file.write_text(text, encoding="utf-8", newline="")
    file.chmod(0o640)
    assert insert(file, [entry("new"), entry("newer")]) == InsertResult(
        added=("new", "newer"), present=(), file=file
    )
    with file.open(encoding="utf-8", newline="") as opened:
        written = opened.read()
    left = iter(written)
    assert all(character in left for character in text)  # nothing was removed, and the order is the same
    assert file.stat().st_mode & 0o777 == 0o640
    assert "\r\n" not in text or written.count("\n") == written.count("\r\n")
    assert insert(file, [entry("new", disabled=True)]) == InsertResult(added=(), present=("new",), file=file)
    assert file.read_bytes() == written.encode()


names = st.text(min_size=1, max_size=5)


@given(
    present=st.dictionaries(names, values, max_size=3),
    beside=values,
    new=names,
    indent=st.sampled_from([None, 1, 4]),
)
def test_any_file_keeps_what_it_holds_and_no_name_is_overwritten(
    tmp_path_factory: pytest.TempPathFactory, present: Any, beside: Any, new: str, indent: int | None
) -> None:
    file = tmp_path_factory.mktemp("any") / "f.json"
    before = {"mcpServers": present, "beside": beside}
    file.write_text(json.dumps(before, indent=indent), encoding="utf-8")
    done = insert(file, [entry(new)])
    after = jsonc.parse(file.read_text(encoding="utf-8")).value
    assert after["beside"] == beside
    assert {**after["mcpServers"], **present} == after["mcpServers"]
    assert set(after["mcpServers"]) == {*present, new}
    assert (done.present == (new,)) == (new in present)


@pytest.mark.parametrize("text", ["no json", "[]", '{"mcpServers": []}', '{"mcpServers": {"a": 1}'])
def test_a_file_that_is_not_understood_is_left_as_it_is_and_the_text_is_given(
    tmp_path: Path, text: str
) -> None:
    file = tmp_path / "f.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InsertionError) as raised:
        insert(file, [entry("new")])
    assert raised.value.code == "not_inserted"
    assert json.loads(raised.value.hint.partition("\n")[2])["mcpServers"]["new"]["command"] == "npx"
    assert file.read_text(encoding="utf-8") == text


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    (tmp_path / "dotfiles/real.json").write_text("{}", encoding="utf-8")
    (tmp_path / "f.json").symlink_to("dotfiles/real.json")
    insert(tmp_path / "f.json", [entry("new")])
    assert (tmp_path / "f.json").is_symlink()
    assert "new" in (tmp_path / "dotfiles/real.json").read_text(encoding="utf-8")


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(InsertionError):
        insert(tmp_path / "file/f.json", [entry("new")])


ALLOWING = Rule(decision="allow", tool="x", server="new")
DENYING = Rule(decision="deny", tool="y", server="new")


@pytest.mark.parametrize(
    ("more", "dropped"),
    [
        ({"trusted": True}, ("trusted",)),
        ({"auto_approve": True}, ("autoApprove",)),
        ({"auto_approve": ("*",), "rules": (ALLOWING, DENYING)}, ("autoApprove", "rules that allow")),
        ({"rules": (DENYING,)}, ()),
    ],
)
def test_trust_is_never_taken_over(tmp_path: Path, more: Any, dropped: tuple[str, ...]) -> None:
    done = insert(get_project_file(tmp_path), [entry("new", **more)])
    assert done.dropped == ({"new": dropped} if dropped else {})
    [found] = load_config(tmp_path, {"HOME": str(tmp_path / "home")}).entries
    assert (found.trusted, found.auto_approve) == (False, False)
    assert [rule.decision for rule in found.rules] == (["deny"] if "rules" in more else [])


@pytest.mark.parametrize("link", [".pi", ".pi/mcp-servers.json"])
def test_no_link_leads_what_is_taken_over_out_of_the_project(tmp_path: Path, link: str) -> None:
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    (project / link).parent.mkdir(parents=True, exist_ok=True)
    elsewhere.mkdir()
    target = elsewhere if link == ".pi" else elsewhere / "mcp.json"
    if target != elsewhere:
        target.write_text("{}", encoding="utf-8")
    (project / link).symlink_to(target)
    before = sorted(elsewhere.iterdir())
    with pytest.raises(InsertionError) as raised:
        insert(get_project_file(project), [entry("new")], within=project)
    assert str(elsewhere) in raised.value.message
    assert sorted(elsewhere.iterdir()) == before
    assert target == elsewhere or target.read_text(encoding="utf-8") == "{}"


def test_a_link_within_the_project_is_followed_and_told(tmp_path: Path) -> None:
    (tmp_path / ".pi").mkdir()
    (tmp_path / "servers.json").write_text("{}", encoding="utf-8")
    get_project_file(tmp_path).symlink_to("../servers.json")
    assert (
        insert(get_project_file(tmp_path), [entry("new")], within=tmp_path).file == tmp_path / "servers.json"
    )


def test_what_is_to_be_pasted_shows_no_secret(tmp_path: Path) -> None:
    (tmp_path / "f.json").write_text("[]", encoding="utf-8")
    secretive = [
        entry(
            "a", reached=StdioServer(command="x", args=("--token", "s3cr3t-1"), env={"API_KEY": "s3cr3t-2"})
        ),
        entry("b", reached=HttpServer(url="https://u:s3cr3t-3@h", headers={"X": "s3cr3t-4"})),
        entry("c", reached=HttpServer(url="https://h", oauth=OAuthClient(id="i", secret="s3cr3t-5"))),
    ]
    with pytest.raises(InsertionError) as raised:
        insert(tmp_path / "f.json", secretive)
    assert "s3cr3t" not in raised.value.message + raised.value.hint
