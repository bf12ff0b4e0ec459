"""``kakite agent``: a task in, a pushed branch out."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from kakite.cli.ending import INTERRUPTED, StorageError, is_interruption, known
from kakite.cli.screen import visible_name
from kakite.errors import KakiteError, OutsideError, UsageError

if TYPE_CHECKING:
    from kakite.agent.record import Record
    from kakite.agent.remote import Address
    from kakite.agent.run import Run, Task
    from kakite.agent.solve import Parts
    from kakite.cli.terminal import Terminal
    from kakite.host import Mode

T = TypeVar("T")

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

    with _told(as_json=as_json) as attempt:
        settings = load_settings(
            {
                "model": model,
                "base_url": base_url,
                "sandbox": sandbox,
                "approve": approve,
                "max_turns": max_turns,
            }
        )
        if not task.strip():
            raise UsageError("the task is empty")
        attempt.address = parse_address(repo)
        attempt.record = Records(state_folder(os.environ)).new()
        attempt.task = Task(
            id=attempt.record.id,
            text=task,
            repository=attempt.address.url,
            branch=branch_name(branch, task, attempt.record.id),
            model=settings.model,
            base_url=settings.base_url or None,
            sandbox=settings.sandbox,
            approve=settings.approve,
            max_turns=settings.max_turns,
        )
        _work(attempt.task, attempt.record, attempt.address, stream=stream, as_json=as_json)


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
    from kakite.agent.remote import parse_address
    from kakite.workspace import state_folder

    with _told(as_json=as_json) as attempt:
        record = Records(state_folder(os.environ)).find(run_id)
        stored = record.load()
        attempt.task, attempt.record = stored.task, record
        if stored.phase == "done":
            raise UsageError(f"run `{run_id}` has ended: {stored.status}", code="run_ended")
        attempt.address = parse_address(repo or stored.task.repository)
        if attempt.address.url != stored.task.repository:
            raise UsageError(
                f"run `{run_id}` works on `{stored.task.repository}`, not on `{attempt.address.url}`",
                hint="give the same address, or begin another run with `kakite agent run`",
                code="other_repository",
            )
        changes = {"model": model, "base_url": base_url, "approve": approve, "max_turns": max_turns}
        given = {name: value for name, value in changes.items() if value is not None}
        attempt.task = replace(stored.task, **given)
        _work(attempt.task, record, attempt.address, stream=stream, as_json=as_json)


@app.command("list")
def list_runs(as_json: Json = False) -> None:
    """List the runs that are kept, the latest first."""
    from kakite.agent.record import Records
    from kakite.workspace import state_folder

    runs = [(record.id, _readable(record)) for record in Records(state_folder(os.environ)).all()]
    if as_json:
        from kakite.cli.report import as_json as shape

        shapes = [shape(run) if run else {"id": run_id, "status": "unreadable"} for run_id, run in runs]
        typer.echo(json.dumps(shapes, ensure_ascii=False))
        return
    for run_id, run in runs:
        typer.echo(_line(run) if run else f"{run_id}  unreadable")


def _readable(record: Record) -> Run | None:
    try:
        return record.load()
    except (KakiteError, OSError):
        return None


def _line(run: Run) -> str:
    state = run.status or f"interrupted ({run.phase})"
    text = visible_name(run.task.text.strip().split("\n", 1)[0][:60])
    return f"{run.task.id}  {state:<24} {run.task.branch}  {text}"


@app.command("demo")
def demo(
    sandbox: Annotated[str, typer.Option(help="Where commands run: auto, bubblewrap, local.")] = "auto",
    as_json: Json = False,
) -> None:
    """Show the whole job on a small real project, with a scripted model: no key, no network."""
    from kakite.cli.demo import show

    raise typer.Exit(show(sandbox=sandbox, as_json=as_json))


@dataclass(slots=True)
class Attempt:
    """What is known of a run so far, for whatever ends the command."""

    task: Task | None = None
    record: Record | None = None
    address: Address | None = None

    def run(self) -> Run | None:
        """Return the run as it is stored, or as it would have begun."""
        from kakite.agent.run import Run

        stored = _readable(self.record) if self.record else None
        return stored or (Run(task=self.task, base="") if self.task else None)

    def how_to_go_on(self) -> str:
        """Return the command that goes on with it, nothing if it is not stored."""
        if self.record is None or not self.record.file.exists():
            return ""
        return f"Go on with: {resume_command(self.record.id, self.address)}"


def resume_command(run_id: str, address: Address | None) -> str:
    """Return the command that goes on with a run; credentials are not stored, so they are needed again."""
    secret = address and (address.username or address.password)
    return f"kakite agent resume {run_id}" + (" --repo ADDRESS-WITH-CREDENTIALS" if secret else "")


@contextmanager
def _told(*, as_json: bool) -> Generator[Attempt]:
    """Tell a person, and with ``as_json`` a program, of every end but the one that the run itself reports."""
    attempt = Attempt()
    try:
        yield attempt
    except (typer.Exit, BrokenPipeError):
        raise
    except (Exception, KeyboardInterrupt, asyncio.CancelledError, BaseExceptionGroup) as error:
        if is_interruption(error):
            _tell_interruption(attempt, as_json=as_json)
            raise typer.Exit(INTERRUPTED) from None
        ours = known(error, str(attempt.record.folder) if attempt.record else "")
        if isinstance(ours, StorageError):
            ours.hint = _STORAGE_HINT
        if isinstance(ours, OutsideError):
            ours.hint = "; ".join(filter(None, [ours.hint, attempt.how_to_go_on()]))
        if as_json:
            _print_unfinished(attempt, "error", ours or _defect(error))
        if ours is None:
            raise
        raise ours from error


_STORAGE_HINT = (
    "runs are kept below XDG_STATE_HOME, or else HOME: that folder must be writable, and have room"
)


def _tell_interruption(attempt: Attempt, *, as_json: bool) -> None:
    how = attempt.how_to_go_on()
    message = "Interrupted; nothing is lost." if how else "Interrupted before anything was done."
    typer.echo(f"\n{message} {how}".rstrip(), err=True)
    if as_json:
        _print_unfinished(attempt, "interrupted", KakiteError(message, hint=how, code="interrupted"))


def _defect(error: BaseException) -> KakiteError:
    return KakiteError(f"{type(error).__name__}: {error}", hint="this is a defect of Kakite", code="internal")


def _print_unfinished(attempt: Attempt, status: str, error: KakiteError) -> None:
    from kakite.cli.report import unfinished

    told = {"code": error.code, "message": error.message, "hint": error.hint}
    typer.echo(json.dumps(unfinished(attempt.run(), status, told), ensure_ascii=False, indent=2))


def _work(task: Task, record: Record, address: Address, *, stream: bool | None, as_json: bool) -> None:
    from kakite.agent.solve import solve
    from kakite.cli.terminal import Terminal

    terminal = Terminal()
    streaming = (sys.stderr.isatty() and not as_json) if stream is None else stream
    # What is wrong with the parts is said before we act.
    parts = _parts(task, record, address, terminal, stream=streaming)
    try:
        with record.locked():
            run = asyncio.run(until_signalled(solve(task, parts)))
    finally:
        terminal.close()
    raise typer.Exit(_report(run, address, as_json=as_json))


def _parts(task: Task, record: Record, address: Address, terminal: Terminal, *, stream: bool) -> Parts:
    from kakite.agent.remote import Mirror, author
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
        mirror=Mirror(record.mirror, address, os.environ),
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


async def until_signalled(work: Coroutine[object, object, T]) -> T:
    """Await the work; a signal that ends programs cancels it, unless we were started deaf to it."""
    me = asyncio.current_task()
    assert me is not None
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup does
            asyncio.get_running_loop().add_signal_handler(number, me.cancel)
    return await work


def _report(run: Run, address: Address, *, as_json: bool) -> int:
    from rich.console import Console

    from kakite.cli.report import as_json as shape
    from kakite.cli.report import print_report

    if as_json:
        typer.echo(json.dumps(shape(run), ensure_ascii=False, indent=2))
    else:
        print_report(run, Console(highlight=False, soft_wrap=True))
    if run.status == "limit":
        again = resume_command(run.task.id, address)
        typer.echo(f"Go on with: {again} --max-turns {run.task.max_turns * 2}", err=True)
    return 0 if run.status == "done" else 1
