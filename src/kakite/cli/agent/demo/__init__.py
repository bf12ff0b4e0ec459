"""``kakite agent demo``: a worker solves an issue of a small real project, with a scripted model."""

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

from kakite.agent.forges.labels import LabelConfig
from kakite.agent.forges.local.forge import LocalForge
from kakite.agent.issues.activities import ForgeActivities
from kakite.agent.issues.triage import make_branch_name
from kakite.agent.observe.events import RunEvent, RunStepEvent
from kakite.agent.run.state import RunState
from kakite.agent.worker.activities import WorkerDeps, open_activities
from kakite.agent.worker.loop import RepositoryConfig, WorkerLoop
from kakite.agent.worker.snapshots import load_run
from kakite.agent.worker.workflow import TASK_WORKFLOW
from kakite.cli.agent.run_report import print_report, to_report_json
from kakite.cli.agent.run_view import RunView
from kakite.cli.agent.worker import check_sandbox
from kakite.cli.console import escape_control
from kakite.durable.blobs import BlobStore
from kakite.durable.dbos.client import DbosWorkflowClient
from kakite.durable.dbos.worker import run_worker
from kakite.models.scripted_model import Scenario, ScenarioError, ScriptedModel
from kakite.redaction import build_redaction
from kakite.sandbox import SandboxError, open_sandbox

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
_BRANCH: Final = make_branch_name(1, _TITLE)

_INTRODUCTION: Final = """\
A worker takes its issues from a folder that acts as GitHub would: a Markdown file with a label \
is an issue, and becomes a pushed branch with a page to review. What is real: git, {sandbox}the MCP \
server, the edits, the tests, the push, and the journal, from which another worker would go on if \
this one were killed. \
[bold]What is not real: the model. Its replies are scripted.[/]

Watch for: an edit quoted with the wrong indentation that lands right; an ambiguous edit that \
is refused and repaired; someone else's push to the same branch, and the rebase onto it.

{file}: [italic]{title}. An impossible temperature must be named in its error.[/]"""


@dataclass(frozen=True, slots=True)
class _DemoFolders:
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


def run_demo(*, sandbox: str, as_json: bool) -> int:
    """Run the demo and return the exit code."""
    if sandbox != "auto":
        asyncio.run(check_sandbox(sandbox))
    terminal = RunView()
    with _make_folders() as world:
        kind, why = asyncio.run(_choose_sandbox(sandbox, world.place / "trial"))
        real = "" if kind == "local" else "the sandbox, "
        told = _INTRODUCTION.format(sandbox=real, file=_FILE, title=_TITLE)
        panel = Panel(told, title="Kakite demo (scripted model)", border_style="magenta")
        terminal.console.print(panel, soft_wrap=False)  # the frame is as wide as the terminal, its text too
        if why:
            terminal.console.print(f"[yellow]No sandbox works here ({escape(why)}): running without one.[/]")
        try:
            run = asyncio.run(_run_worker(world, terminal, kind))
        finally:
            terminal.close()
        return _print_result(run, world, as_json=as_json)


@contextmanager
def _make_folders() -> Generator[_DemoFolders]:
    folder = Path(tempfile.mkdtemp(prefix="kakite-demo-"))
    try:
        yield _set_up_project(_DemoFolders(folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _set_up_project(world: _DemoFolders) -> _DemoFolders:
    """Make a project with a history of its own, its forge, and an issue there."""
    project = world.place / "project"
    with as_file(files(__name__) / "project") as source:
        shutil.copytree(source, project, ignore=shutil.ignore_patterns("__pycache__"))
    (project / "gitignore").rename(project / ".gitignore")
    _run_git(project, "init", "--quiet", "--initial-branch=main")
    _run_git(project, "add", "--all")
    _run_git(project, "commit", "--quiet", "--message=Temperatures on three scales")
    world.agent.mkdir()
    (world.forge / _FILE).parent.mkdir(parents=True)
    (world.forge / _FILE).write_text(_ISSUE, encoding="utf-8")
    _run_git(world.place, "clone", "--quiet", "--bare", str(project), str(world.repository))
    return world


async def _run_worker(world: _DemoFolders, terminal: RunView, kind: str) -> RunState:
    """Let a worker go through the issues until none is left, and return the run of the only one."""
    model = ScriptedModel(Scenario.parse((files(__name__) / "script.yaml").read_text(encoding="utf-8")))
    blobs = BlobStore(world.agent / "blobs")
    post = RepositoryConfig(
        forge=LocalForge(world.forge),
        place={"kind": "local", "path": str(world.forge), "url": ""},
        names=LabelConfig(),
        settings={
            "model": model.name,
            "sandbox": kind,
            "approve": "all",
            "max_turns": 20,
        },
        on_ask="deny",
    )
    issues = ForgeActivities(lambda _place: post.forge, post.names, blobs, build_redaction(os.environ))
    gear = WorkerDeps(
        environ=os.environ,
        open_model=lambda _task: model,
        author=("Kakite", "kakite@localhost"),
        forge_activities=issues,
        listener=_make_rival_listener(terminal, world),
    )
    async with (
        open_activities(world.agent, gear) as activities,
        run_worker(world.agent, [TASK_WORKFLOW], activities.get_activities()),
        DbosWorkflowClient(world.agent) as client,
    ):
        loop = WorkerLoop(client=client, forge_activities=issues, post=post, say=_make_printer(terminal))
        await loop.run(poll=0.1, until_idle=True)
        (standing,) = await client.list_workflows()
    if model.playback.violations:
        raise ScenarioError("the demo went off its script: " + "; ".join(model.playback.violations))
    told: Any = standing.published
    return load_run(blobs, told["head"])


def _make_printer(terminal: RunView) -> Callable[[str], None]:
    return lambda line: terminal.console.print(escape_control(line), style="magenta", markup=False)


async def _choose_sandbox(kind: str, folder: Path) -> tuple[str, str]:
    """Return the kind of sandbox to use, with ``auto`` none at all where none works, and why none does."""
    if kind == "auto":
        try:
            await open_sandbox(kind, folder).prepare()
        except SandboxError as error:
            return "local", error.message
    return kind, ""


def _make_rival_listener(terminal: RunView, world: _DemoFolders) -> Callable[[str, RunEvent], None]:
    """Return a listener that lets somebody else push to the branch just when the agent has committed."""
    pushed: list[str] = []

    def listen(_task: str, event: RunEvent) -> None:
        terminal.show(event)
        if isinstance(event, RunStepEvent) and event.kind == "commit" and not pushed:
            pushed.append(_push_as_rival(world))
            terminal.console.print(f"[cyan]… meanwhile somebody else pushes {pushed[0]} to {_BRANCH}[/]")

    return listen


def _push_as_rival(world: _DemoFolders) -> str:
    other = world.place / "someone-else"
    _run_git(world.place, "clone", "--quiet", str(world.repository), str(other))
    draft = _run_git(other, "branch", "--remotes", "--list", f"origin/{_BRANCH}").strip()
    _run_git(other, "checkout", "--quiet", "-B", _BRANCH, draft or "HEAD")
    with (other / "README.md").open("a", encoding="utf-8") as readme:
        readme.write("\nKelvins have no degrees.\n")
    _run_git(other, "commit", "--quiet", "--all", "--message=Say a word on kelvins")
    _run_git(other, "push", "--quiet", "origin", _BRANCH)
    return _run_git(other, "rev-parse", "--short=10", "HEAD")


def _print_result(run: RunState, world: _DemoFolders, *, as_json: bool) -> int:
    if as_json:
        typer.echo(json.dumps(to_report_json(run), ensure_ascii=False, indent=2))
        return 0 if run.pushed else 1
    console = Console(highlight=False, soft_wrap=True)
    console.rule("The report")
    print_report(run, console)
    if run.pushed:
        console.rule(f"{_BRANCH} in forge/repo.git")
        console.print(
            _run_git(world.repository, "log", "--graph", "--oneline", "--decorate", _BRANCH), markup=False
        )
        for page in (
            _FILE,
            *sorted(each.relative_to(world.forge) for each in world.forge.glob("pulls/*.md")),
        ):
            console.rule(f"forge/{page}")
            text = (world.forge / page).read_text(encoding="utf-8").rstrip()
            console.print(escape_control(text), markup=False, style="dim")
    console.print("\n[bold]That was scripted.[/] With a real model, and issues in a folder DIR of yours:")
    console.print(
        "kakite agent worker --forge local DIR --model PROVIDER:NAME --approve all --until-idle", markup=False
    )
    return 0 if run.pushed else 1


def _run_git(folder: Path, *arguments: str) -> str:
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
