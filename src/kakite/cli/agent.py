"""``kakite agent``: a task in, a pushed branch out."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from kakite.errors import KakiteError, OutsideError, UsageError

if TYPE_CHECKING:
    from kakite.agent.record import Record
    from kakite.agent.run import Run, Task
    from kakite.agent.solve import Parts
    from kakite.cli.terminal import Terminal
    from kakite.host import Mode

app = typer.Typer(help="Give a task to a coding agent: a pushed branch comes out.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document to standard output.")]
Stream = Annotated[
    bool | None,
    typer.Option(
        "--stream/--no-stream", help="Show the model's text while it comes. Default: on a terminal."
    ),
]
MaxTurns = Annotated[
    int | None, typer.Option(help="Replies of the model after which the run stops, resumable.")
]
ApproveOption = Annotated[
    str | None, typer.Option(help="What goes without a question: ask (only looking), edits (files too), all.")
]


@app.command("run")
def run(
    task: Annotated[str, typer.Argument(help="What is to be done, in your words.")],
    repo: Annotated[str, typer.Option(help="Path or address of the repository. The branch is pushed to it.")],
    branch: Annotated[str | None, typer.Option(help="Branch to work on; made if it does not exist.")] = None,
    model: Annotated[
        str | None, typer.Option(help="PROVIDER:NAME, such as anthropic:claude-sonnet-4-5.")
    ] = None,
    base_url: Annotated[
        str | None, typer.Option(help="Address of a server that speaks the provider's API.")
    ] = None,
    sandbox: Annotated[str | None, typer.Option(help="Where commands run: auto, bubblewrap, local.")] = None,
    approve: ApproveOption = None,
    max_turns: MaxTurns = None,
    stream: Stream = None,
    as_json: Json = False,
) -> None:
    """Clone REPO into a workspace of its own, let the model work there, and push what it did as a branch."""
    from kakite.agent.record import Records, branch_name
    from kakite.agent.remote import parse_address
    from kakite.agent.run import Task
    from kakite.cli.settings import load_settings
    from kakite.workspace import state_folder

    settings = load_settings(
        {"model": model, "base_url": base_url, "sandbox": sandbox, "approve": approve, "max_turns": max_turns}
    )
    if not task.strip():
        raise UsageError("the task is empty")
    address = parse_address(repo)
    record = Records(state_folder(os.environ)).new()
    wanted = Task(
        id=record.id,
        text=task,
        repository=address.url,
        branch=branch_name(branch, task, record.id),
        model=settings.model,
        base_url=settings.base_url or None,
        sandbox=settings.sandbox,
        approve=settings.approve,
        max_turns=settings.max_turns,
    )
    _work(wanted, record, repo, stream=stream, as_json=as_json)


@app.command("resume")
def resume(
    run_id: Annotated[str, typer.Argument(metavar="ID", help="The run to go on with.")],
    repo: Annotated[
        str | None, typer.Option(help="The repository's address again, where it carries credentials.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Another model to go on with.")] = None,
    base_url: Annotated[str | None, typer.Option(help="Another address to go on with.")] = None,
    approve: ApproveOption = None,
    max_turns: MaxTurns = None,
    stream: Stream = None,
    as_json: Json = False,
) -> None:
    """Go on with a run that was interrupted, failed outside, or reached a limit."""
    from kakite.agent.record import Records
    from kakite.workspace import state_folder

    record = Records(state_folder(os.environ)).find(run_id)
    stored = record.load()
    if stored.phase == "done":
        raise UsageError(f"run `{run_id}` has ended: {stored.status}", code="run_ended")
    changes = {"model": model, "base_url": base_url, "approve": approve, "max_turns": max_turns}
    task = replace(stored.task, **{name: value for name, value in changes.items() if value is not None})
    _work(task, record, repo or task.repository, stream=stream, as_json=as_json)


@app.command("list")
def list_runs(as_json: Json = False) -> None:
    """List the runs that are kept, the latest first."""
    from kakite.agent.record import Records
    from kakite.cli.report import as_json as shape
    from kakite.workspace import state_folder

    runs = [record.load() for record in Records(state_folder(os.environ)).all()]
    if as_json:
        typer.echo(json.dumps([shape(stored) for stored in runs], ensure_ascii=False))
        return
    for stored in runs:
        state = stored.status or f"interrupted ({stored.phase})"
        typer.echo(
            f"{stored.task.id}  {state:<24} {stored.task.branch}  {stored.task.text.splitlines()[0][:60]}"
        )


@app.command("demo")
def demo(
    sandbox: Annotated[str, typer.Option(help="Where commands run: auto, bubblewrap, local.")] = "auto",
    as_json: Json = False,
) -> None:
    """Show the whole job on a small real project, with a scripted model: no key, no network."""
    from kakite.cli.demo import show

    raise typer.Exit(show(sandbox=sandbox, as_json=as_json))


def _work(task: Task, record: Record, repo: str, *, stream: bool | None, as_json: bool) -> None:
    from kakite.agent.solve import solve
    from kakite.cli.terminal import Terminal

    terminal = Terminal()
    streaming = (sys.stderr.isatty() and not as_json) if stream is None else stream
    parts = _parts(
        task, record, repo, terminal, stream=streaming
    )  # what is wrong with it is said before we act
    try:
        with record.locked():
            run = asyncio.run(_until_signalled(solve(task, parts)))
    except (KeyboardInterrupt, asyncio.CancelledError):
        terminal.close()
        typer.echo(f"\nInterrupted; nothing is lost. {_how_to_go_on(record)}", err=True)
        _print_unfinished(task, record, {"status": "interrupted"}, as_json=as_json)
        raise typer.Exit(130) from None
    except KakiteError as error:
        if isinstance(error, OutsideError):
            error.hint = "; ".join(filter(None, [error.hint, _how_to_go_on(record)]))
        told = {"code": error.code, "message": error.message, "hint": error.hint}
        _print_unfinished(task, record, {"status": "error", "error": told}, as_json=as_json)
        raise
    finally:
        terminal.close()
    raise typer.Exit(_report(run, as_json=as_json))


def _print_unfinished(task: Task, record: Record, how: dict[str, object], *, as_json: bool) -> None:
    from kakite.agent.run import Run
    from kakite.cli.report import as_json as shape

    if as_json:
        run = record.load() if record.file.exists() else Run(task=task, base="")
        typer.echo(json.dumps({**shape(run), **how}, ensure_ascii=False, indent=2))


def _how_to_go_on(record: Record) -> str:
    return f"Go on with: kakite agent resume {record.id}" if record.file.exists() else ""


def _parts(task: Task, record: Record, repo: str, terminal: Terminal, *, stream: bool) -> Parts:
    from kakite.agent.remote import Mirror, author, parse_address
    from kakite.agent.solve import Parts
    from kakite.host import MODES, NobodyToAsk
    from kakite.models.providers import open_model
    from kakite.sandbox import open_sandbox

    if not task.model:
        raise UsageError(
            "no model was named",
            hint="give one with --model PROVIDER:NAME; `kakite agent demo` works without one",
            code="model_missing",
        )
    asked_at_terminal = sys.stdin.isatty() and sys.stderr.isatty()
    return Parts(
        mirror=Mirror(record.mirror, parse_address(repo), os.environ),
        model=open_model(task.model, base_url=task.base_url, environ=os.environ),
        rules=MODES[_mode(task.approve)],
        approver=terminal if asked_at_terminal else NobodyToAsk(),
        author=author(os.environ),
        stream=stream,
        listener=terminal.show,
        sandbox=open_sandbox(task.sandbox, record.task),
        record=record,
    )


def _mode(name: str) -> Mode:
    from kakite.cli.settings import check_approve

    return check_approve(name)


async def _until_signalled(work: Coroutine[object, object, Run]) -> Run:
    me = asyncio.current_task()
    assert me is not None
    for number in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, me.cancel)
    return await work


def _report(run: Run, *, as_json: bool) -> int:
    from rich.console import Console

    from kakite.cli.report import as_json as shape
    from kakite.cli.report import print_report

    if as_json:
        typer.echo(json.dumps(shape(run), ensure_ascii=False, indent=2))
    else:
        print_report(run, Console(highlight=False, soft_wrap=True))
    if run.status == "limit":
        typer.echo(
            f"Go on with: kakite agent resume {run.task.id} --max-turns {run.task.max_turns * 2}", err=True
        )
    return 0 if run.status == "done" else 1
