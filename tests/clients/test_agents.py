"""Real codex, claude and pi use our server; only their model is scripted, on the loopback.

They are large: `make clis` installs them, or they are found on the PATH.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kakite.cli.client_setup import build_client_setup
from kakite.cli.serve_options import ServeOptions
from tests.clients.conftest import CLIS, TIMEOUT, Node, environment, server_argv
from tests.clients.model import Json, Loopback, Model, serving

pytestmark = [pytest.mark.client, pytest.mark.usefixtures("clis")]

EDIT = {"command": "str_replace", "path": "x.txt", "old_str": "two", "new_str": "2"}
PROMPT = "Write 2 instead of two in x.txt."
EDITED = "one\n2\n"
PAGE = Path(__file__).parents[2] / "docs/clients.md"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def found(name: str) -> str:
    program = shutil.which(name)
    if program is None:
        pytest.skip(f"`{name}` is not installed: `make clis` does it")
    return program


def run(argv: list[str], home: Path, folder: Path, prompt: str = "", **more: str) -> str:
    """Run a foreign program with nothing of this person's, and return what it printed."""
    done = subprocess.run(
        argv,
        cwd=folder,
        env={**environment(home), **more},
        input=prompt,
        capture_output=True,
        encoding="utf-8",
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def claude_environment(model: Loopback) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": model.url,
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_MAX_RETRIES": "0",
        "ENABLE_TOOL_SEARCH": "false",  # else a model has to ask for the tools first
    }


def codex_settings(model: Model) -> str:
    return f"""
model = "scripted"
model_provider = "loopback"

[model_providers.loopback]
name = "loopback"
base_url = "{model.url}/v1"
env_key = "LOOPBACK_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
"""


def added(client: str, root: Path) -> list[str]:
    """Return the command that `--print-config` prints for this client."""
    return shlex.split(build_client_setup(client, ServeOptions(root=(str(root),))).command)


def test_claude_edits_through_the_configuration_that_we_print(home: Path, root: Path) -> None:
    claude = found("claude")
    config = home / "mcp.json"
    config.write_text(
        build_client_setup("claude-code", ServeOptions(root=(str(root),))).text, encoding="utf-8"
    )
    with serving(Model("kakite", "text_editor", EDIT)) as model:
        settings = ["--mcp-config", str(config), "--strict-mcp-config", "--setting-sources", ""]
        allowed = ["--allowedTools", "mcp__kakite__text_editor", "--output-format", "json"]
        said = run([claude, "-p", *settings, *allowed], home, root, PROMPT, **claude_environment(model))
    assert json.loads(said)["is_error"] is False
    assert "mcp__kakite__text_editor" in model.offered
    assert "mcp__kakite__apply_diffs" in model.offered
    assert "Edited `x.txt`" in model.told
    assert (root / "x.txt").read_text(encoding="utf-8") == EDITED


def test_codex_edits_through_the_configuration_that_we_print(home: Path, root: Path) -> None:
    codex = found("codex")
    with serving(Model("kakite", "text_editor", EDIT)) as model:
        text = build_client_setup("codex", ServeOptions(root=(str(root),))).text
        # Else it asks its model before the server has started, and would ask a person before the edit.
        approved = 'required = true\ndefault_tools_approval_mode = "approve"\n'
        (home / ".codex").mkdir()
        settings = codex_settings(model) + "\n" + text + approved
        (home / ".codex" / "config.toml").write_text(settings, encoding="utf-8")
        argv = [codex, "exec", "--json", "--ephemeral", "--skip-git-repo-check", "-s", "read-only", "-"]
        run(argv, home, root, PROMPT, LOOPBACK_KEY="none")
    assert "text_editor" in model.offered
    assert "apply_diffs" in model.offered
    assert "Edited `x.txt`" in model.told
    assert (root / "x.txt").read_text(encoding="utf-8") == EDITED


def page_argv(client: str) -> list[str]:
    (line,) = re.findall(
        rf"^\$ ({client} mcp add .*?)(?: +#.*)?$", PAGE.read_text(encoding="utf-8"), re.MULTILINE
    )
    return [found(client), *shlex.split(line)[1:]]


def with_kakite() -> dict[str, str]:
    return {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def test_the_pages_line_adds_the_server_to_claude(home: Path, root: Path) -> None:
    run(page_argv("claude"), home, root, **with_kakite())
    assert "Connected" in run([found("claude"), "mcp", "list"], home, root, **with_kakite())


def test_the_pages_line_makes_codex_edit_in_the_folder_that_it_is_started_in(home: Path, root: Path) -> None:
    with serving(Model("kakite", "text_editor", EDIT)) as model:
        (home / ".codex").mkdir()
        (home / ".codex" / "config.toml").write_text(codex_settings(model), encoding="utf-8")
        run(page_argv("codex"), home, home, **with_kakite())
        argv = [
            found("codex"),
            "exec",
            "--json",
            "--ephemeral",
            "--skip-git-repo-check",
            "-s",
            "read-only",
            "-",
        ]
        for setting in ("required=true", 'default_tools_approval_mode="approve"'):
            argv += ["-c", f"mcp_servers.kakite.{setting}"]
        run(argv, home, root, PROMPT, LOOPBACK_KEY="none", **with_kakite())
    assert (root / "x.txt").read_text(encoding="utf-8") == EDITED


def test_the_command_that_we_print_adds_the_server_to_claude(home: Path, root: Path) -> None:
    claude, *argv = added("claude-code", root)
    run([found(claude), *argv], home, root)
    assert "Connected" in run([found(claude), "mcp", "list"], home, root)


def test_the_command_that_we_print_adds_the_server_to_codex(home: Path, root: Path) -> None:
    codex, *argv = added("codex", root)
    run([found(codex), *argv], home, root)
    (listed,) = json.loads(run([found(codex), "mcp", "list", "--json"], home, root))
    transport = listed["transport"]
    assert [transport["command"], *transport["args"]][-3:] == server_argv(root)[-3:]


class ByAdapter(Model):
    """Calls the one tool by which pi's adapter offers all tools of all servers."""

    def messages(self, request: Json) -> Iterator[Json]:
        for event in super().messages(request):
            if event.get("content_block", {}).get("type") == "tool_use":
                event["content_block"]["name"] = self.tool
            yield event


def test_pi_edits_through_the_configuration_that_we_print(node: Node, root: Path) -> None:
    pi = CLIS / "@earendil-works/pi-coding-agent/dist/bundle/cli.js"
    if not pi.exists():
        pytest.skip("`pi` is not installed: `make clis` does it")
    (root / ".pi").mkdir()
    (root / ".pi/mcp.json").write_text(
        build_client_setup("pi", ServeOptions(root=(str(root),))).text, encoding="utf-8"
    )
    call = {"tool": "kakite_text_editor", "args": json.dumps(EDIT)}
    with serving(ByAdapter("kakite", "mcp", call)) as model:
        entry: Json = {"baseUrl": model.url, "api": "anthropic-messages", "apiKey": "none"}
        entry["models"] = [{"id": "scripted"}]
        home = node.folder
        (home / ".pi/agent").mkdir(parents=True)
        told = json.dumps({"providers": {"loopback": entry}})
        (home / ".pi/agent/models.json").write_text(told, encoding="utf-8")
        argv = [str(node.program), str(pi), "--print", "--offline", "--approve", "--no-session"]
        argv += ["--extension", str(CLIS / "pi-mcp-adapter/index.ts"), "--model", "loopback/scripted", PROMPT]
        run(argv, home, root)
    assert "Edited `x.txt`" in model.told
    assert (root / "x.txt").read_text(encoding="utf-8") == EDITED
