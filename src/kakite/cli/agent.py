"""``kakite agent``: a task in, a pushed branch out."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from kakite.cli import agent_tasks
from kakite.cli.agent_export import export
from kakite.cli.agent_web import web
from kakite.cli.agent_worker import Address as ServerAddress
from kakite.cli.agent_worker import Engine, check_engine, worker
from kakite.cli.ending import INTERRUPTED, StorageError, is_interruption, known, until_signalled
from kakite.cli.screen import visible_name
from kakite.cli.task_flags import (
    SANDBOX_HELP,
    Branch,
    Given,
    Json,
    Repo,
    takes_settings,
)
from kakite.errors import KakiteError, OutsideError, UsageError

if TYPE_CHECKING:
    from kakite.agent.address import Address
    from kakite.agent.parts import Parts
    from kakite.agent.record import Record
    from kakite.agent.run import Run, Task
    from kakite.agent.tooling import Tooling
    from kakite.cli.terminal import Terminal
    from kakite.host import Mode
    from kakite.sandbox import Sandbox

T = TypeVar("T")

app = typer.Typer(help="Give a task to a coding agent: a pushed branch comes out.", no_args_is_help=True)
app.command("export")(export)
app.command("web")(web)

Stream = Annotated[
    bool | None,
    typer.Option(
        "--stream/--no-stream",
        metavar="",
        help="Show the model's text while it comes. Default: on a terminal.",
    ),
]


@app.command("run")
@takes_settings()
def run(
    task: Annotated[str, typer.Argument(help="What is to be done, in your words.")],
    repo: Repo,
    branch: Branch = None,
    *,
    given: Given,
    stream: Stream = None,
    as_json: Json = False,
) -> None:
    """Clone REPO into a workspace of its own, let the model work there, and push what it did as a branch."""
    from kakite.agent.address import parse_address
    from kakite.agent.record import Records, branch_name
    from kakite.agent.run import Task
    from kakite.cli.budgets import limited
    from kakite.cli.settings import load_settings, tooling_of
    from kakite.workspace import state_folder

    with _told(as_json=as_json) as attempt:
        attempt.address = parse_address(repo)
        settings = load_settings(given, repository=attempt.address.url)
        if not task.strip():
            raise UsageError("the task is empty")
        attempt.record = Records(state_folder(os.environ)).new()
        begun = Task(
            id=attempt.record.id,
            text=task,
            repository=attempt.address.url,
            branch=branch_name(branch, task, attempt.record.id),
            model=settings.model,
            base_url=settings.base_url or None,
            sandbox=settings.sandbox,
            approve=settings.approve,
            max_turns=settings.max_turns,
            context_tokens=settings.context_tokens,
            tool_calls=settings.tool_calls,
            network=settings.network,
            hosts=settings.hosts,
            setup=settings.setup == "auto",
        )
        attempt.task = limited(begun, settings)
        _work(
            attempt.task,
            attempt.record,
            attempt.address,
            tooling_of(settings),
            stream=stream,
            as_json=as_json,
        )


@app.command("resume")
@takes_settings(
    defaults=False,
    model=Annotated[str | None, typer.Option(help="Another model to go on with.")],
    base_url=Annotated[str | None, typer.Option(help="Another address to go on with.")],
    sandbox=Annotated[
        str | None, typer.Option(help="Another kind of sandbox to go on in. Default: the same one.")
    ],
)
def resume(
    run_id: Annotated[str, typer.Argument(metavar="ID", help="The run to go on with.")],
    repo: Annotated[
        str | None, typer.Option(help="The repository's address again, where it carries credentials.")
    ] = None,
    *,
    given: Given,
    stream: Stream = None,
    engine: Engine = "embedded",
    address: ServerAddress = "",
    as_json: Json = False,
) -> None:
    """Go on with a run that was interrupted, failed outside, or reached a limit; or with a paused task."""
    from kakite.cli.agent_ids import run_of

    meant = run_of(run_id)
    if meant is None and (":" in run_id or "#" in run_id or agent_tasks.is_task(run_id, engine, address)):
        agent_tasks.resume_task(run_id, engine, address)
        return
    from kakite.agent.address import parse_address
    from kakite.agent.record import Records
    from kakite.cli.settings import load_settings, tooling_of
    from kakite.workspace import state_folder

    with _told(as_json=as_json) as attempt:
        record = meant or Records(state_folder(os.environ)).find(run_id)
        run_id = record.id
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
        attempt.task = _changed(stored.task, {**given, "sandbox": given["sandbox"] or stored.sandbox or None})
        tooling = tooling_of(load_settings({}, repository=attempt.address.url))
        _work(attempt.task, record, attempt.address, tooling, stream=stream, as_json=as_json)


def _changed(task: Task, flags: Mapping[str, object]) -> Task:
    """Return the task with those settings that were given."""
    from kakite.cli.budgets import NAMES, limited
    from kakite.cli.settings import check_flags

    given = {name: value for name, value in flags.items() if value is not None}
    settings = check_flags(given)
    limits = [name for name in given if name in NAMES]
    changes: dict[str, object] = {name: getattr(settings, name) for name in given if name not in NAMES}
    if "setup" in changes:
        changes["setup"] = changes["setup"] == "auto"
    return replace(limited(task, settings, limits), **changes)  # pyright: ignore[reportArgumentType] - by the fields' own names


@app.command("list")
def list_runs(engine: Engine = "embedded", address: ServerAddress = "", as_json: Json = False) -> None:
    """List the runs that are kept and the workers' tasks, the latest first."""
    from kakite.agent.record import Records
    from kakite.workspace import state_folder

    tasks = agent_tasks.tasks(engine, address)
    runs = [(record, _readable(record)) for record in Records(state_folder(os.environ)).all()]
    if as_json:
        from kakite.cli.report import as_json as shape

        shapes = [shape(run) if run else {"id": record.id, "status": "unreadable"} for record, run in runs]
        typer.echo(json.dumps([*shapes, *map(agent_tasks.shape_of, tasks)], ensure_ascii=False))
        return
    rows = [*map(agent_tasks.row_of, tasks), *(_row(record, run) for record, run in runs)]
    if rows and sys.stdout.isatty():
        rows.insert(0, ("ID", "STATE", "BRANCH", "TASK"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        typer.echo("  ".join(map(str.ljust, row, widths)).rstrip())


def _readable(record: Record) -> Run | None:
    try:
        return record.load()
    except (KakiteError, OSError):
        return None


def _row(record: Record, run: Run | None) -> tuple[str, str, str, str]:
    if run is None:
        return record.id, "unreadable", "", ""
    text = visible_name(run.task.text.strip().split("\n", 1)[0][:60])
    pushed = run.pushed or any(step.kind == "push" for step in run.steps)
    return run.task.id, _state(record, run), run.task.branch if pushed else "", text


def _state(record: Record, run: Run) -> str:
    from kakite.agent.outcome import doubt, told_end

    if run.status:
        return told_end(run.status, doubt(run))
    if record.busy():
        return f"going on ({run.phase})"
    failure = record.failure()
    return f"failed: {failure}" if failure else f"interrupted ({run.phase})"


@app.command("demo")
def demo(
    sandbox: Annotated[str, typer.Option(help=SANDBOX_HELP)] = "auto",
    as_json: Json = False,
) -> None:
    """Show the whole job on a small real project, with a scripted model: no key, no network."""
    check_engine("embedded")
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

    def forget(self) -> None:
        """Keep nothing of a run in which nothing was done, and which could not go on as it is."""
        run = self.run()
        if self.record is not None and run is not None and not run.base and not run.usage.requests:
            self.record.remove()

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
            _note(attempt, ours)
        if as_json:
            _print_unfinished(attempt, "error", ours or _defect(error))
        if ours is None:
            raise
        raise ours from error


def _note(attempt: Attempt, error: OutsideError) -> None:
    """Keep what a run has failed with, and say how it can go on."""
    if error.code == "empty_repository":
        attempt.forget()
    how = attempt.how_to_go_on()
    if attempt.record is not None:
        attempt.record.note_failure(error.code)
    if how and error.code == "model_unreachable":
        how += " --base-url URL"
    another = "`--sandbox` names another kind" if error.code == "sandbox_missing" else ""
    error.hint = "\n".join(filter(None, [error.hint, how, another]))


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


def _work(
    task: Task, record: Record, address: Address, tooling: Tooling, *, stream: bool | None, as_json: bool
) -> None:
    from kakite.cli.terminal import Terminal

    terminal = Terminal()
    streaming = (sys.stderr.isatty() and not as_json) if stream is None else stream
    # What is wrong with the parts is said before we act.
    parts = _parts(task, record, address, terminal, tooling, stream=streaming)
    _check_that_it_may_act(parts)
    try:
        with record.locked():
            record.note_failure("")
            run = asyncio.run(until_signalled(_solved(task, parts)))
    finally:
        terminal.close()
    raise typer.Exit(_report(run, address, as_json=as_json))


async def _solved(task: Task, parts: Parts) -> Run:
    from kakite.agent.solve import solve
    from kakite.agent.telemetry import traced

    async with traced(parts, task, os.environ) as seen:
        return await solve(task, seen)


def _parts(
    task: Task, record: Record, address: Address, terminal: Terminal, tooling: Tooling, *, stream: bool
) -> Parts:
    from kakite.agent.author import author
    from kakite.agent.checkout import RELAY
    from kakite.agent.day import Days
    from kakite.agent.parts import Parts
    from kakite.agent.relay import Relay
    from kakite.agent.remote import Mirror
    from kakite.cli.agent_worker import open_model_of
    from kakite.host import MODES, NobodyToAsk
    from kakite.sandbox import Terms, open_sandbox
    from kakite.workspace import state_folder

    if not task.model:
        raise UsageError(
            "no model was named",
            hint="give one with --model PROVIDER:NAME; `kakite agent demo` works without one",
            code="model_missing",
        )
    asked_at_terminal = sys.stdin.isatty() and sys.stderr.isatty()
    mirror = Mirror(record.mirror, address, os.environ)
    relay = Relay(mirror, task.branch)
    terms = Terms(network=task.network, hosts=task.hosts, services={RELAY: relay}, cache=address.url)
    sandbox = open_sandbox(task.sandbox, record.task, terms=terms)
    terminal.where = lambda: _told_where(task, sandbox)
    return Parts(
        mirror=mirror,
        relay=relay,
        model=open_model_of(task),
        rules=MODES[_mode(task.approve)],
        approver=terminal if asked_at_terminal else NobodyToAsk(),
        author=author(os.environ),
        days=Days(state_folder(os.environ)),
        stream=stream,
        listener=terminal.show,
        sandbox=sandbox,
        limits=terms.limits,
        record=record,
        tooling=tooling,
    )


def _told_where(task: Task, sandbox: Sandbox) -> str:
    if not sandbox.isolates:
        return "It runs on this machine, without a sandbox."
    return f"It runs in the sandbox {sandbox.kind}, {_NETWORKS[task.network]}."


_NETWORKS: Mapping[str, str] = {
    "off": "no network",
    "registries": "with the registries of packages as its network",
    "open": "with the public network",
}


def _check_that_it_may_act(parts: Parts) -> None:
    """Refuse a run that could only look: every turn of it would be paid for in vain.

    Raises:
        UsageError: nobody is there to be asked, and no rule lets anything go that changes files.
    """
    from kakite.host import NobodyToAsk
    from kakite.host.approval import LOOKING

    if isinstance(parts.approver, NobodyToAsk) and parts.rules == LOOKING:
        raise UsageError(
            "nobody is here to be asked (no terminal), so the model could change nothing",
            hint="let it act unasked: `--approve edits` (changes of files) or `--approve all` (commands too)",
            code="nobody_to_ask",
        )


def _mode(name: str) -> Mode:
    from kakite.cli.settings import check_settings

    return check_settings({"approve": name}).approve


def _report(run: Run, address: Address, *, as_json: bool) -> int:
    from rich.console import Console

    from kakite.cli.budgets import raising
    from kakite.cli.report import as_json as shape
    from kakite.cli.report import print_report

    if as_json:
        typer.echo(json.dumps(shape(run), ensure_ascii=False, indent=2))
    else:
        print_report(run, Console(highlight=False, soft_wrap=True))
    if run.status in {"limit", "budget", "stuck"}:
        more = f" --max-turns {run.task.max_turns * 2}" if run.status == "limit" else raising(run)
        typer.echo(f"Go on with: {resume_command(run.task.id, address)}{more}", err=True)
    return 0 if run.status == "done" else 1


app.command("worker")(worker)
app.command("submit")(agent_tasks.submit)
app.command("show")(agent_tasks.show)
app.command("pause")(agent_tasks.pause)
app.command("approve")(agent_tasks.approve)
app.command("cancel")(agent_tasks.cancel)
app.command("logs")(agent_tasks.logs)
