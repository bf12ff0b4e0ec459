"""The wheel in a fresh environment, as a stranger's `uvx`, `uv tool` and `pip` put it there."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from scripts.environment import follow
from scripts.wheels import locked

from tests.cli.program import environment
from tests.engines import ROOT, SYSTEM_PATH
from tests.packaging.building import FRESH, UV, WITHIN, copied, run

DOCS = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
HELPS = (
    "--help",
    "--version",
    "serve --help",
    "agent --help",
    "agent run --help",
    "collab --help",
    "host --help",
)
LIGHT = {"kakite", "typer", "rich", "markdown_it", "mdurl", "pygments", "shellingham", "annotated_doc"}
"""What a help text is made of."""
TYPES = {"pydantic", "pydantic_core", "annotated_types", "typing_extensions", "typing_inspection"}
"""What typer reads the options of one command with."""
OPTIONAL = {"attr", "IPython", "coverage", "sitecustomize", "_distutils_hack", "__main__", "usercustomize"}
"""What rich looks for and does without, and what the interpreter or the tests bring along."""


@pytest.mark.slow
@pytest.mark.parametrize("words", HELPS)
def test_a_help_text_loads_neither_the_agent_nor_a_library_that_it_does_not_show(words: str) -> None:
    code = (
        "import sys, atexit; sys.argv = ['kakite', *sys.argv[1:]]\n"
        "names = set(sys.modules)\n"
        "atexit.register(lambda: print(*sorted(set(sys.modules) - names), file=sys.stderr))\n"
        "from kakite.__main__ import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words.split()],
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=True,
    )
    loaded = set(done.stderr.split())
    known = LIGHT | OPTIONAL if words.startswith("--") else LIGHT | OPTIONAL | TYPES
    libraries = {name.partition(".")[0] for name in loaded} - set(sys.stdlib_module_names)
    assert {name for name in libraries if not name.startswith("_sysconfigdata")} <= known
    parts = {name.split(".")[1] for name in loaded if name.startswith("kakite.")}
    assert parts <= {"__main__", "cli", "errors", "installation", "terminal_text"} | (
        {"serve"} if words.startswith("serve") else set()
    )


def ours(wheels: Path) -> Path:
    (wheel,) = wheels.glob("kakite-*.whl")
    return wheel


def asked(
    command: list[str], env: Mapping[str, str], cwd: Path, call: Mapping[str, Any] | None = None
) -> set[str]:
    """Say hello to a server as an editor does, ask for its tools, and call one; return their names."""
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "a stranger", "version": "1"},
    }
    wanted = {2, 3} if call else {2}
    said = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        *([{"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": call}] if call else []),
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    with subprocess.Popen(
        command, env=dict(env), cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
    ) as server:
        assert server.stdin
        assert server.stdout
        late = threading.Timer(WITHIN, server.kill)
        late.start()
        for each in said:
            server.stdin.write(json.dumps(each) + "\n")
        server.stdin.flush()
        answers: dict[object, Any] = {}
        while not answers.keys() >= wanted and (line := server.stdout.readline()):
            told = json.loads(line)
            answers[told.get("id")] = told
        server.stdin.close()
        server.wait(WITHIN)
        late.cancel()
    assert answers.keys() >= wanted, answers
    assert not call or not answers[3]["result"].get("isError"), answers[3]
    return {tool["name"] for tool in answers[2]["result"]["tools"]}


@FRESH
@pytest.mark.slow
def test_a_tool_that_uv_installed_is_there_with_its_manual_page_and_goes_again(
    wheels: Path, fresh: Mapping[str, str], tmp_path: Path
) -> None:
    run(UV, "tool", "install", ours(wheels), cwd=tmp_path, **fresh)
    program = tmp_path / "TOOL_BIN" / "kakite"
    assert re.fullmatch(r"kakite \d+\.\d+\.\d+", run(program, "--version", cwd=tmp_path, **fresh).strip())
    assert (tmp_path / "TOOL" / "kakite" / "share" / "man" / "man1" / "kakite.1").is_file()
    assert "text_editor" in asked([str(program), "serve", "--root", "."], fresh, tmp_path)
    run(UV, "tool", "uninstall", "kakite", cwd=tmp_path, **fresh)
    assert not program.exists()


@pytest.fixture
def installed(fresh: Mapping[str, str], tmp_path: Path) -> Callable[[str], Path]:
    """Install a requirement into an environment of its own; return its folder of programs."""

    def install(requirement: str) -> Path:
        run(UV, "venv", "--quiet", tmp_path / "venv", cwd=tmp_path, **fresh)
        chosen = ("--python", tmp_path / "venv" / "bin" / "python")
        run(UV, "pip", "install", "--quiet", *chosen, requirement, cwd=tmp_path, **fresh)
        return tmp_path / "venv" / "bin"

    return install


@FRESH
@pytest.mark.slow
def test_the_base_alone_edits_serves_and_hosts_and_says_what_the_rest_needs(
    installed: Callable[[str], Path], fresh: Mapping[str, str], tmp_path: Path
) -> None:
    programs = installed("kakite")
    kakite = programs / "kakite"
    told = json.loads(run(kakite, "doctor", "--json", cwd=tmp_path, **fresh))
    found = {each["name"]: each for each in told["findings"]}
    assert told["ok"] is True
    assert found["Python"]["state"] == "ok"
    assert str(programs) in found["Python"]["told"]
    assert found["local"]["state"] == "ok"
    config = run(kakite, "serve", "--root", ".", "--print-config", "codex", cwd=tmp_path, **fresh)
    entry = {"command": str(kakite), "args": ["serve", "--root", str(tmp_path)]}
    assert tomllib.loads(config) == {"mcp_servers": {"kakite": entry}}
    run(kakite, "host", "tools", cwd=tmp_path, **fresh)
    (tmp_path / "a.txt").write_text("one\n", encoding="utf-8")
    reply = "a.txt\n<<<<<<< SEARCH\none\n=======\ntwo\n>>>>>>> REPLACE\n"
    edited = subprocess.run(
        [kakite, "edit", "a.txt"], input=reply, env=dict(fresh), cwd=tmp_path, encoding="utf-8", check=False
    )
    assert (edited.returncode, (tmp_path / "a.txt").read_text(encoding="utf-8")) == (0, "two\n")
    run("git", "init", "--quiet", cwd=tmp_path, **fresh)  # a wrong one is told before a missing library
    for words in (
        "agent demo",
        "agent web",
        "agent worker",
        "agent show x",
        "agent run x --repo . --model openai:x",
        "collab .",
    ):
        done = subprocess.run(
            [kakite, *words.split()],
            env={**fresh, "OPENAI_API_KEY": "x"},
            cwd=tmp_path,
            capture_output=True,
            encoding="utf-8",
            timeout=WITHIN,
            check=False,
        )
        extra = "collab" if "collab" in words else "agent"
        assert (done.returncode, f"kakite[{extra}]" in done.stderr, done.stdout) == (2, True, ""), done.stderr
    frozen = run(UV, "pip", "freeze", "--python", programs / "python", cwd=tmp_path, **fresh).splitlines()
    assert f"| base | {len(frozen)} |" in DOCS


@pytest.fixture
def beginning(wheels: Path, tmp_path: Path) -> Mapping[str, str]:
    """The environment of somebody new whose pip reaches nothing but folders with wheels."""
    if not shutil.which("pipx", path=SYSTEM_PATH):
        pytest.skip("pipx is not installed (`apt install pipx`)")
    # What pipx keeps for itself, and what a checkout is built with: Debian's pip makes an environment for it.
    built_with = {
        canonicalize_name(one.name) for _, one in follow(map(Requirement, ("hatchling", "editables")))
    }
    (tmp_path / "build.lock").write_text("\n".join(locked(built_with)), encoding="utf-8")
    fetch = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes")
    for each in (tmp_path / "build.lock", ROOT / "tests/packaging/pipx.lock"):
        run(*fetch, "--only-binary", ":all:", "--dest", tmp_path / "build", "-r", each, cwd=tmp_path)
    return {
        **environment(tmp_path / "home"),
        "PATH": f"{tmp_path}/home/.local/bin:{SYSTEM_PATH}",
        "PIP_NO_INDEX": "1",
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_FIND_LINKS": f"{wheels} {tmp_path}/build",
    }


@FRESH
@pytest.mark.slow
def test_the_readmes_lines_install_everything_and_its_demo_works(
    beginning: Mapping[str, str], tmp_path: Path
) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^\$ (pipx install .+?) +#", readme, re.MULTILINE)
    clone = copied(tmp_path / "clone")
    run("sh", "-c", line, cwd=clone, **beginning)
    found = json.loads(run("kakite", "doctor", "--json", cwd=tmp_path, **beginning))["findings"]
    assert {"Python", "git"} <= {each["name"] for each in found if each["state"] == "ok"}
    told = run("kakite", "agent", "demo", "--sandbox", "local", "--json", cwd=tmp_path, **beginning)
    assert json.loads(told)["status"] == "done"
    (page,) = re.findall(
        r'^\$ man ("\$\(pipx .+")$', (ROOT / "docs/install.md").read_text("utf-8"), re.MULTILINE
    )
    assert ".TH KAKITE 1" in run("sh", "-c", f"cat {page}", cwd=tmp_path, **beginning)
