"""``kakite agent demo``: a worker takes up an issue of a small real project, with a scripted model."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Final

import typer
from rich.console import Console
from rich.markup import escape
from rich.panel import Panel

from kakite.agent.durable.blobs import Blobs
from kakite.agent.durable.embedded import EmbeddedLedger
from kakite.agent.durable.worker import working
from kakite.agent.errands import Errands
from kakite.agent.events import Event, Progressed
from kakite.agent.forges.local import LocalForge
from kakite.agent.forges.names import Names
from kakite.agent.intake import branch_name
from kakite.agent.run import Run
from kakite.agent.saved import load_run
from kakite.agent.shift import Post, Shift
from kakite.agent.stage import Gear, staged
from kakite.agent.tale import SOLVE
from kakite.cli.agent_worker import check_sandbox
from kakite.cli.report import as_json as shape
from kakite.cli.report import print_report
from kakite.cli.screen import visible
from kakite.cli.terminal import Terminal
from kakite.host.redaction import secrets_of
from kakite.models.providers import open_model
from kakite.sandbox import SandboxError, open_sandbox
from kakite.testing.script import Script, ScriptError
from kakite.testing.wire import serve_script

_TITLE: Final = "Make the failing tests pass"
_ISSUE: Final = f"""\
---
title: {_TITLE}
labels: [kakite]
state: open
author: you
---

Make the failing tests pass. An impossible temperature must be named in its error.
"""
_FILE: Final = Path("issues", "001-failing-tests.md")
_BRANCH: Final = branch_name(1, _TITLE)

_INTRODUCTION: Final = """\
A worker looks after a forge that is no more than a folder: a Markdown file with a label is an issue, and \
becomes a pushed branch with a page to review. What is real: git, {sandbox}the MCP server, the edits, \
the tests, the push, and the journal from which another worker would go on, were this one killed. \
[bold]What is not: the model. Its replies are scripted[/] and come over the wire from 127.0.0.1.

Watch for: an edit quoted with the wrong indentation that lands right; an ambiguous edit that \
is refused and repaired; someone else's push to the same branch, and the rebase onto it.

{file}: [italic]{title}. An impossible temperature must be named in its error.[/]"""


@dataclass(frozen=True, slots=True)
class _World:
    """A folder with a forge, and one where a worker keeps its tasks."""

    place: Path

    @property
    def forge(self) -> Path:
        return self.place / "forge"

    @property
    def repository(self) -> Path:
        return self.forge / "repo.git"

    @property
    def agent(self) -> Path:
        return self.place / "agent"


def show(*, sandbox: str, as_json: bool) -> int:
    """Run the demo and return the exit code."""
    if sandbox != "auto":
        asyncio.run(check_sandbox(sandbox))
    terminal = Terminal()
    with _world() as world:
        kind, why = asyncio.run(_sandbox(sandbox, world.place / "trial"))
        real = "" if kind == "local" else "the sandbox, "
        told = _INTRODUCTION.format(sandbox=real, file=_FILE, title=_TITLE)
        panel = Panel(told, title="Kakite demo (scripted model)", border_style="magenta")
        terminal.console.print(panel, soft_wrap=False)  # the frame is as wide as the terminal, its text too
        if why:
            terminal.console.print(f"[yellow]No sandbox works here ({escape(why)}): running without one.[/]")
        try:
            run = asyncio.run(_worked(world, terminal, kind))
        finally:
            terminal.close()
        return _tell(run, world, as_json=as_json)


@contextmanager
def _world() -> Generator[_World]:
    folder = Path(tempfile.mkdtemp(prefix="kakite-demo-"))
    try:
        yield _furnished(_World(folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _furnished(world: _World) -> _World:
    """Make a project with a history of its own, its forge, and an issue there."""
    project = world.place / "project"
    with as_file(files("kakite.testing") / "demo" / "project") as source:
        shutil.copytree(source, project, ignore=shutil.ignore_patterns("__pycache__"))
    (project / "gitignore").rename(project / ".gitignore")
    _git(project, "init", "--quiet", "--initial-branch=main")
    _git(project, "add", "--all")
    _git(project, "commit", "--quiet", "--message=Temperatures on three scales")
    world.agent.mkdir()
    (world.forge / _FILE).parent.mkdir(parents=True)
    (world.forge / _FILE).write_text(_ISSUE, encoding="utf-8")
    _git(world.place, "clone", "--quiet", "--bare", str(project), str(world.repository))
    return world


async def _worked(world: _World, terminal: Terminal, kind: str) -> Run:
    """Let a worker go through the issues until none is left, and return the run of the only one."""
    script = Script.parse((files("kakite.testing") / "demo" / "script.yaml").read_text(encoding="utf-8"))
    blobs = Blobs(world.agent / "blobs")
    async with serve_script(script) as server:
        post = Post(
            forge=LocalForge(world.forge),
            place={"kind": "local", "path": str(world.forge), "url": ""},
            names=Names(),
            settings={
                "model": "openai:scripted",
                "base_url": server.openai_url,
                "sandbox": kind,
                "approve": "all",
                "max_turns": 20,
            },
            on_ask="deny",
        )
        errands = Errands(lambda _place: post.forge, post.names, blobs, secrets_of(os.environ))
        gear = Gear(
            environ=os.environ,
            open_model=lambda task: open_model(
                task.model, base_url=task.base_url, environ={"OPENAI_API_KEY": "scripted"}
            ),
            author=("Kakite", "kakite@localhost"),
            errands=errands,
            listener=_with_a_rival(terminal, world),
        )
        async with (
            staged(world.agent, gear) as stage,
            working(world.agent, [SOLVE], stage.effects()),
            EmbeddedLedger(world.agent) as ledger,
        ):
            say = _saying(terminal)
            await Shift(ledger=ledger, errands=errands, post=post, say=say).work(poll=0.1, until_idle=True)
            (standing,) = await ledger.list()
        if server.violations:
            raise ScriptError("the demo went off its script: " + "; ".join(server.violations))
    told: Any = standing.published
    return load_run(blobs, told["head"])


def _saying(terminal: Terminal) -> Callable[[str], None]:
    return lambda line: terminal.console.print(visible(line), style="magenta", markup=False)


async def _sandbox(kind: str, folder: Path) -> tuple[str, str]:
    """Return the kind of sandbox to use, with ``auto`` none at all where none works, and why none does."""
    if kind == "auto":
        try:
            await open_sandbox(kind, folder).prepare()
        except SandboxError as error:
            return "local", error.message
    return kind, ""


def _with_a_rival(terminal: Terminal, world: _World) -> Callable[[str, Event], None]:
    """Return a listener that lets somebody else push to the branch just when the agent has committed."""
    pushed: list[str] = []

    def listen(_task: str, event: Event) -> None:
        terminal.show(event)
        if isinstance(event, Progressed) and event.step.kind == "commit" and not pushed:
            pushed.append(_push_as_rival(world))
            terminal.console.print(f"[cyan]… meanwhile somebody else pushes {pushed[0]} to {_BRANCH}[/]")

    return listen


def _push_as_rival(world: _World) -> str:
    other = world.place / "someone-else"
    _git(world.place, "clone", "--quiet", str(world.repository), str(other))
    draft = _git(other, "branch", "--remotes", "--list", f"origin/{_BRANCH}").strip()
    _git(other, "checkout", "--quiet", "-B", _BRANCH, draft or "HEAD")
    with (other / "README.md").open("a", encoding="utf-8") as readme:
        readme.write("\nKelvins have no degrees.\n")
    _git(other, "commit", "--quiet", "--all", "--message=Say a word on kelvins")
    _git(other, "push", "--quiet", "origin", _BRANCH)
    return _git(other, "rev-parse", "--short=10", "HEAD")


def _tell(run: Run, world: _World, *, as_json: bool) -> int:
    if as_json:
        typer.echo(json.dumps(shape(run), ensure_ascii=False, indent=2))
        return 0 if run.pushed else 1
    console = Console(highlight=False, soft_wrap=True)
    console.rule("The report")
    print_report(run, console)
    if run.pushed:
        console.rule(f"{_BRANCH} in forge/repo.git")
        console.print(
            _git(world.repository, "log", "--graph", "--oneline", "--decorate", _BRANCH), markup=False
        )
        for page in (
            _FILE,
            *sorted(each.relative_to(world.forge) for each in world.forge.glob("pulls/*.md")),
        ):
            console.rule(f"forge/{page}")
            text = (world.forge / page).read_text(encoding="utf-8").rstrip()
            console.print(visible(text), markup=False, style="dim")
    console.print("\n[bold]That was scripted.[/] With a model of your own, on a forge of your own:")
    console.print(
        "kakite agent worker --forge local DIR --model PROVIDER:NAME --approve all --until-idle", markup=False
    )
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
