"""The lines that the README tells to type do what it says: as they stand, in a shell, in a project's folder.

So do those of the pages that it sends a newcomer to for workers, debates and the demo.

The provider is a scripted model on the loopback (``KAKITE_BASE_URL``); nobody is there to be asked, so what
would be asked is let go (``KAKITE_APPROVE``), and commands run without isolation: not all machines have it.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kakite.models.scripted_model import Scenario
from kakite_testing.fake_clis import build_stub_command
from kakite_testing.fake_providers import ScenarioServer, run_scenario_server
from tests.bounds import WITHIN
from tests.cli.program import environment
from tests.repositories import git, make_remote

pytestmark = pytest.mark.docs

ROOT = Path(__file__).parent.parent
NOT_HERE: Mapping[str, str] = {
    "make demo": ".ci/run runs it; the command behind it is run below",
    "make test": ".ci/run runs it, as a part of make test-all",
    "pipx install": "tests/packaging/test_installing.py runs the line in a fresh environment",
    "uv tool install": "needs an index; tests/packaging/test_installing.py installs the same with pipx",
    "kakite doctor": "tests/packaging/test_installing.py runs it after pipx",
    "export ": "puts a real key into the environment",
    "kakite chat": "tests/cli/test_chat_terminal.py has the conversation, at a real terminal",
    "kakite install": "tests/clients/test_install.py installs for the real claude and codex, unasked",
}
"""Lines of the README, by how they begin, that are not run here, and why; what tests them instead."""

PLAN = '{"goal": "dates", "steps": ["edit"], "title": "Accept ISO dates", "check": ""}'
EDIT = {"command": "str_replace", "path": "dates.py", "old_str": "'%d.%m.%Y'", "new_str": "'%Y-%m-%d'"}
TURNS: tuple[dict[str, Any], ...] = (
    {"say": PLAN},
    {"calls": [{"tool": "text_editor", "arguments": EDIT}]},
    {"say": "--since takes ISO dates."},
)


def lines(page: str = "README.md") -> list[str]:
    """Return all that a page tells to type, in its order."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```console\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [line for block in blocks for line in re.findall(r"^\$ (.*)$", block, re.MULTILINE)]


def line_of(beginning: str, page: str = "README.md") -> str:
    """Return the one line of a page that begins so."""
    (line,) = (each for each in lines(page) if each.startswith(beginning))
    return line


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def project(tmp_path: Path, home: Path) -> Path:
    """Return a checkout of a small project."""
    remote = make_remote(tmp_path, {"dates.py": "FORM = '%d.%m.%Y'\n", "notes.md": "# Notes\n"})
    folder = tmp_path / "project"
    git(tmp_path, "clone", "--quiet", str(remote), str(folder))
    return folder


def surroundings(home: Path, **more: str) -> dict[str, str]:
    scripts = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**environment(home), "PATH": scripts, "KAKITE_SANDBOX": "local", "KAKITE_SETUP": "off", **more}


def asking(model: ScenarioServer) -> dict[str, str]:
    return {
        "ANTHROPIC_API_KEY": "none",
        "KAKITE_BASE_URL": model.anthropic_url,
        "KAKITE_APPROVE": "all",
    }


@contextmanager
def scripted() -> Generator[ScenarioServer]:
    with run_scenario_server(Scenario.parse(json.dumps({"title": "dates", "turns": TURNS}))) as model:
        yield model
        assert model.violations == ()


def type_in(line: str, home: Path, project: Path, **more: str) -> str:
    """Run a line as a person types it, and return what it printed."""
    done = subprocess.run(
        ["bash", "-c", line],
        cwd=project, env=surroundings(home, **more), stdin=subprocess.DEVNULL,
        capture_output=True, encoding="utf-8", timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def test_every_line_is_run_here_or_somewhere_else_for_a_reason() -> None:
    own = Path(__file__).read_text(encoding="utf-8")
    here = re.findall(r'line_of\(\s*"(.*?)"', own)
    for line in lines():
        assert sum(line.startswith(each) for each in (*here, *NOT_HERE)) == 1, line
    for beginning, why in NOT_HERE.items():
        assert any(line.startswith(beginning) for line in lines()), beginning
        for file in re.findall(r"tests/[\w/]+\.py", why):
            assert (ROOT / file).is_file()


def test_the_configuration_of_a_client_is_printed(home: Path, project: Path) -> None:
    told = type_in(line_of("kakite serve --root . --print-config"), home, project)
    entry = json.loads(told[: told.rindex("}") + 1])["mcpServers"]["kakite"]
    assert entry["args"][-2:] == ["--root", "${workspaceFolder}"]


def test_the_demo_needs_no_key_and_no_network(home: Path, project: Path) -> None:
    assert "scripted" in type_in(line_of("kakite agent demo", "docs/agent.md"), home, project)


def test_a_task_becomes_a_pushed_branch(home: Path, project: Path) -> None:
    with scripted() as model:
        type_in(line_of("kakite agent run"), home, project, **asking(model))
    (branch,) = git(project, "branch", "--list", "kakite/*", "--format=%(refname:short)").split()
    assert git(project, "show", f"{branch}:dates.py") == "FORM = '%Y-%m-%d'"
    assert (project / "dates.py").read_text(encoding="utf-8") == "FORM = '%d.%m.%Y'\n"  # yours is not touched


def test_a_worker_goes_through_issues(home: Path, project: Path) -> None:
    type_in(line_of("mkdir -p ../forge", "docs/agent.md"), home, project)
    type_in(line_of("printf -- ", "docs/agent.md"), home, project)
    with scripted() as model:
        type_in(line_of("kakite agent worker", "docs/agent.md"), home, project, **asking(model))
    (branch,) = git(
        project.parent / "forge/repo.git", "branch", "--list", "kakite/*", "--format=%(refname:short)"
    ).split()
    assert git(project.parent / "forge/repo.git", "show", f"{branch}:dates.py") == "FORM = '%Y-%m-%d'"
    assert (project.parent / "forge/pulls/001.md").is_file()


def test_a_shared_page_prints_a_link_that_opens_it(home: Path, project: Path) -> None:
    with socket.socket() as port:
        if port.connect_ex(("127.0.0.1", 8765)) == 0:
            pytest.skip("somebody else has the port that the page is at")
    serving = subprocess.Popen(
        ["bash", "-c", "exec " + line_of("kakite collab .")],
        cwd=project, env=surroundings(home, ANTHROPIC_API_KEY="none"), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8",
    )  # fmt: skip
    late = threading.Timer(90, serving.kill)
    late.start()
    try:
        assert serving.stdout is not None
        printed = next((line for line in serving.stdout if "?token=" in line), "")
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with browser.open(printed.split()[-1], timeout=WITHIN) as page:
            assert "<html" in page.read().decode()
    finally:
        late.cancel()
        serving.send_signal(signal.SIGINT)
        serving.communicate(timeout=WITHIN)


def test_a_debate_leaves_its_transcript(home: Path, project: Path) -> None:
    known = {
        "codex": {"command": [*build_stub_command("codex", "objects")], "reader": "codex"},
        "claude": {"command": [*build_stub_command("claude", "wavers")], "reader": "claude"},
    }
    settings = home / "settings.yaml"
    settings.write_text(json.dumps({"debate_participants": known}), encoding="utf-8")
    line = line_of('kakite debate "Should we split', "docs/debate.md")
    type_in(line, home, project, KAKITE_CONFIG=str(settings))
    assert [each for each in (project / "debates").iterdir() if each.suffix in {".md", ".html"}]
