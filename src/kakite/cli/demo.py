"""``kakite agent demo``: the real job on a small real project, with a scripted model."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path

import typer
from rich.console import Console
from rich.markup import escape
from rich.panel import Panel

from kakite.agent.address import parse_address
from kakite.agent.checkout import RELAY
from kakite.agent.events import Event, Listener, Progressed
from kakite.agent.parts import Parts
from kakite.agent.record import Records
from kakite.agent.relay import Relay
from kakite.agent.remote import Mirror
from kakite.agent.run import Run, Task
from kakite.agent.solve import solve
from kakite.cli.report import as_json as shape
from kakite.cli.report import print_report
from kakite.cli.terminal import Terminal
from kakite.host import MODES, NobodyToAsk
from kakite.models.providers import open_model
from kakite.sandbox import Sandbox, SandboxError, Terms, open_sandbox
from kakite.testing.script import Script, ScriptError
from kakite.testing.wire import serve_script

TASK = "Make the failing tests pass. An impossible temperature must be named in its error."
BRANCH = "kakite/demo"

_INTRODUCTION = f"""\
A real agent works on a small real project with failing tests. What is real:
git, the repository and its remote, the sandbox, the MCP server, the edits, the tests, the push.
[bold]What is not: the model. Its replies are scripted[/] and come over the wire from 127.0.0.1.

Watch for: an edit quoted with the wrong indentation that lands right; an ambiguous edit that
is refused and repaired; someone else's push to the same branch, and the rebase onto it.

Task: [italic]{TASK}[/]"""


def show(*, sandbox: str, as_json: bool) -> int:
    """Run the demo and return the exit code."""
    terminal = Terminal()
    terminal.console.print(Panel(_INTRODUCTION, title="Kakite demo (scripted model)", border_style="magenta"))
    with _place() as place:
        remote = _make_remote(place)
        try:
            run = asyncio.run(_solve(place, remote, terminal, sandbox))
        finally:
            terminal.close()
        return _tell(run, remote, as_json=as_json)


@contextmanager
def _place() -> Generator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="kakite-demo-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _make_remote(place: Path) -> Path:
    """Make a project with a history of its own, and the bare repository that it is pushed to."""
    project, remote = place / "project", place / "remote.git"
    with as_file(files("kakite.testing") / "demo" / "project") as source:
        shutil.copytree(source, project, ignore=shutil.ignore_patterns("__pycache__"))
    (project / "gitignore").rename(project / ".gitignore")
    _git(project, "init", "--quiet", "--initial-branch=main")
    _git(project, "add", "--all")
    _git(project, "commit", "--quiet", "--message=Temperatures on three scales")
    _git(place, "clone", "--quiet", "--bare", str(project), str(remote))
    return remote


async def _solve(place: Path, remote: Path, terminal: Terminal, sandbox: str) -> Run:
    record = Records(place).new()
    script = Script.parse((files("kakite.testing") / "demo" / "script.yaml").read_text(encoding="utf-8"))
    async with serve_script(script) as server:
        task = Task(
            id=record.id,
            text=TASK,
            repository=str(remote),
            branch=BRANCH,
            model="openai:scripted",
            base_url=server.openai_url,
            sandbox=sandbox,
            approve="all",
            max_turns=20,
        )
        mirror = Mirror(record.mirror, parse_address(str(remote)), os.environ)
        relay = Relay(mirror, task.branch)
        terms = Terms(services={RELAY: relay})
        parts = Parts(
            record=record,
            mirror=mirror,
            relay=relay,
            sandbox=await _sandbox(sandbox, record.task, terminal, terms),
            limits=terms.limits,
            model=open_model(task.model, base_url=task.base_url, environ={"OPENAI_API_KEY": "scripted"}),
            rules=MODES["all"],
            approver=NobodyToAsk(),
            author=("Kakite", "kakite@localhost"),
            stream=terminal.console.is_terminal,
            listener=_with_a_rival(terminal, place, remote),
        )
        with record.locked():
            run = await solve(task, parts)
        if server.violations:
            raise ScriptError("the demo went off its script: " + "; ".join(server.violations))
        return run


async def _sandbox(kind: str, folder: Path, terminal: Terminal, terms: Terms) -> Sandbox:
    sandbox = open_sandbox(kind, folder, terms=terms)
    if kind == "auto":
        try:
            await sandbox.prepare()
        except SandboxError as error:
            terminal.console.print(
                f"[yellow]No sandbox works here ({escape(error.message)}): running without one.[/]"
            )
            return open_sandbox("local", folder, terms=terms)
    return sandbox


def _with_a_rival(terminal: Terminal, place: Path, remote: Path) -> Listener:
    """Return a listener that lets somebody else push to the branch just when the agent has committed."""
    pushed: list[str] = []

    def listen(event: Event) -> None:
        terminal.show(event)
        if isinstance(event, Progressed) and event.step.kind == "commit" and not pushed:
            pushed.append(_push_as_rival(place, remote))
            terminal.console.print(f"[cyan]… meanwhile somebody else pushes {pushed[0]} to {BRANCH}[/]")

    return listen


def _push_as_rival(place: Path, remote: Path) -> str:
    other = place / "someone-else"
    _git(place, "clone", "--quiet", str(remote), str(other))
    _git(other, "checkout", "--quiet", "-b", BRANCH)
    with (other / "README.md").open("a", encoding="utf-8") as readme:
        readme.write("\nKelvins have no degrees.\n")
    _git(other, "commit", "--quiet", "--all", "--message=Say a word on kelvins")
    _git(other, "push", "--quiet", "origin", BRANCH)
    return _git(other, "rev-parse", "--short=10", "HEAD")


def _tell(run: Run, remote: Path, *, as_json: bool) -> int:
    if as_json:
        typer.echo(json.dumps(shape(run), ensure_ascii=False, indent=2))
        return 0 if run.pushed else 1
    console = Console(highlight=False, soft_wrap=True)
    console.rule("The report")
    print_report(run, console)
    if run.pushed:
        console.rule(f"{BRANCH} in the bare remote")
        console.print(_git(remote, "log", "--graph", "--oneline", "--decorate", BRANCH), markup=False)
    console.print("\n[bold]That was scripted.[/] With a model of your own: kakite agent run --help")
    return 0 if run.pushed else 1


def _git(folder: Path, *arguments: str) -> str:
    nobody = {"NAME": "Somebody else", "EMAIL": "somebody@localhost"}
    identity = {
        f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in nobody.items()
    }
    quiet = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", **identity}
    done = subprocess.run(
        ["git", *arguments],
        cwd=folder,
        env={**os.environ, **quiet},
        check=True,
        capture_output=True,
        encoding="utf-8",
    )
    return done.stdout.strip()
