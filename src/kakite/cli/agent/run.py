"""``kakite agent run``, ``resume``, ``continue`` and ``list``: runs a task and pushes its branch."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from kakite.cli.agent import tasks as agent_tasks
from kakite.cli.agent.dashboard import web
from kakite.cli.agent.removal import rm
from kakite.cli.agent.tasks import export
from kakite.cli.agent.worker import Address as ServerAddress
from kakite.cli.agent.worker import Engine, check_engine, worker
from kakite.cli.console import escape_one_line
from kakite.cli.exit_codes import (
    INTERRUPTED,
    StorageError,
    is_interruption,
    run_until_signal,
    to_internal_error,
    to_known_error,
)
from kakite.cli.options import SANDBOX_HELP, Branch, GivenFlags, Json, add_setting_options
from kakite.errors import ExternalError, KakiteError, UsageError

if TYPE_CHECKING:
    from kakite.agent.git.sandbox_remote import SandboxRemote
    from kakite.agent.git.url import RepoUrl
    from kakite.agent.run.deps import RunDeps
    from kakite.agent.run.state import RunState, Task
    from kakite.agent.run.store import RunFolder
    from kakite.agent.run.task_container import TaskContainer
    from kakite.cli.agent.run_view import RunView
    from kakite.cli.settings import Settings
    from kakite.durable.client import WorkflowDescription
    from kakite.host import Mode
    from kakite.sandbox import Sandbox, SandboxSpec

T = TypeVar("T")

app = typer.Typer(help="Give a coding agent a task; it pushes its work as a branch.", no_args_is_help=True)
app.command("export")(export)
app.command("web")(web)

Stream = Annotated[
    bool | None,
    typer.Option(
        "--stream/--no-stream",
        metavar="",
        help="Show the model's text as it arrives. Default: only on a terminal.",
    ),
]

RunRepo = Annotated[
    str,
    typer.Option(
        metavar="PLACE",
        help="Path or address of the repository, or a folder inside it. Kakite pushes the branch there. "
        "Default: this folder; with --container, the container's code.",
    ),
]
ContainerName = Annotated[
    str,
    typer.Option(
        metavar="NAME|IMAGE",
        help="Run commands in a container of this image, or in a copy of this container. "
        "Without --repo, Kakite works on a copy of its own code.",
    ),
]
Workdir = Annotated[
    str,
    typer.Option(metavar="FOLDER", help="The folder with the code in the container. Default: the image's."),
]


@app.command("run")
@add_setting_options()
def run(
    task: Annotated[str, typer.Argument(help="What to do, in your words.")],
    repo: RunRepo = "",
    branch: Branch = None,
    *,
    push: Annotated[
        bool,
        typer.Option(
            "--push/--no-push",
            metavar="",
            help="Push the branch. With --no-push it stays in Kakite's own copy of the repository.",
        ),
    ] = True,
    patch: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write the change into this file, as a patch for `git apply`."),
    ] = None,
    container: ContainerName = "",
    workdir: Workdir = "",
    given: GivenFlags,
    stream: Stream = None,
    as_json: Json = False,
) -> None:
    """Clone the repository into a separate workspace, let the model work there, and push a branch."""
    from kakite.agent.run.store import RunStore
    from kakite.cli.agent.run_report import check_patch_file
    from kakite.cli.settings import load_settings
    from kakite.workspace import ensure_state_folder

    with _report_errors(as_json=as_json) as attempt:
        record = RunStore(ensure_state_folder(os.environ)).create_run()
        in_container = bool(container and not repo)
        attempt.address = _find_repository(str(record.source) if in_container else "", repo or ".")
        settings = load_settings(given, repository=attempt.address.url)
        _check_text(task)
        attempt.record = record
        begun = _build_task(task, record.id, attempt.address, branch, settings)
        begun = replace(begun, push=push and not in_container, patch=check_patch_file(patch))
        attempt.task = _set_container(begun, container, workdir, given)
        _execute_task(attempt.task, record, attempt.address, settings, stream=stream, as_json=as_json)


def _check_text(task: str) -> None:
    if not task.strip():
        raise UsageError("the task is empty")


def _find_repository(made: str, given: str) -> RepoUrl:
    """Return the repository that a person means; with ``made`` the one that the run makes."""
    from kakite.agent.git.url import RepoUrl, find_enclosing_repository, parse_repo_url

    return RepoUrl(made) if made else parse_repo_url(find_enclosing_repository(given))


def _set_container(task: Task, container: str, workdir: str, given: Mapping[str, object]) -> Task:
    """Return the task with the container that its commands run in.

    Raises:
        UsageError: the folder is none, or there is no container, or it is to have a network.
    """
    from kakite.sandbox.container.image_folder import check_workdir

    if not container:
        if workdir:
            raise UsageError("`--workdir` names a folder in a container", hint="give --container too")
        return task
    if given.get("network") not in {None, "off"}:
        raise UsageError("commands in your own container have no network", hint="leave --network out")
    # The image has what the project needs.
    return replace(task, container=container, workdir=check_workdir(workdir), network="off", setup=False)


def _build_task(text: str, run_id: str, address: RepoUrl, branch: str | None, settings: Settings) -> Task:
    from kakite.agent.run.state import Task
    from kakite.agent.run.store import choose_branch_name
    from kakite.cli.options import apply_limits
    from kakite.cli.settings import build_model_options

    task = Task(
        id=run_id,
        text=text,
        repository=address.url,
        branch=choose_branch_name(branch, text, run_id),
        model=settings.model,
        base_url=settings.base_url or None,
        sandbox=settings.sandbox,
        approve=settings.approve,
        max_turns=settings.max_turns,
        context_tokens=settings.context_tokens,
        tool_calls=settings.tool_calls,
        effort=settings.effort,
        model_options=build_model_options(settings),
        network=settings.network,
        hosts=settings.hosts,
        credentials=dict(settings.credentials),
        requests=settings.requests,
        setup=settings.setup == "auto",
    )
    return apply_limits(task, settings)


def _warn_uncommitted(address: RepoUrl) -> None:
    """Say what a run does not see: it works on what is committed."""
    from kakite.cli.agent.run_report import count_uncommitted

    count = count_uncommitted(address, os.environ)
    if count:
        files = "1 file" if count == 1 else f"{count} files"
        told = f"The run works on the last commit, without your uncommitted changes to {files}."
        typer.echo(told, err=True)


@app.command("resume")
@add_setting_options(
    defaults=False,
    model=Annotated[str | None, typer.Option(help="Continue with another model.")],
    base_url=Annotated[str | None, typer.Option(help="Continue with another address of the provider's API.")],
    sandbox=Annotated[
        str | None, typer.Option(help="Continue in another kind of sandbox. Default: the same one.")
    ],
)
def resume(
    run_id: Annotated[str, typer.Argument(metavar="ID", help="The run or the paused task.")],
    repo: Annotated[
        str | None, typer.Option(help="The repository's address again, if it contains credentials.")
    ] = None,
    *,
    given: GivenFlags,
    stream: Stream = None,
    engine: Engine = "embedded",
    address: ServerAddress = "",
    as_json: Json = False,
) -> None:
    """Continue a paused task, or a run that was interrupted, reached a limit or failed."""
    from kakite.cli.agent.tasks import find_run

    meant = find_run(run_id)
    if meant is None and (":" in run_id or "#" in run_id or agent_tasks.is_task(run_id, engine, address)):
        _check_not_given(run_id, {"repo": repo, **given, "stream": stream})
        task = agent_tasks.resume_task(run_id, engine, address)
        if as_json:
            typer.echo(json.dumps({"id": task}))
        return
    from kakite.agent.run.store import RunStore
    from kakite.cli.settings import load_settings
    from kakite.workspace import ensure_state_folder

    with _report_errors(as_json=as_json) as attempt:
        record = meant or RunStore(ensure_state_folder(os.environ)).find(run_id)
        stored = record.load()
        attempt.task, attempt.record = stored.task, record
        _check_is_run(stored)
        _check_has_not_ended(record, stored)
        attempt.address = _parse_address(stored.task, repo)
        attempt.task = _apply_flags(
            stored.task, {**given, "sandbox": given["sandbox"] or stored.sandbox or None}
        )
        settings = load_settings({}, repository=attempt.address.url)
        _execute_task(attempt.task, record, attempt.address, settings, stream=stream, as_json=as_json)


def _check_has_not_ended(record: RunFolder, stored: RunState) -> None:
    if stored.phase == "done":
        raise UsageError(
            f"run `{record.id}` has ended: {stored.status}",
            hint=f'to ask for more: kakite agent continue {record.id} "WHAT ELSE TO DO"',
            code="run_ended",
        )


@app.command("continue")
@add_setting_options(
    defaults=False,
    model=Annotated[str | None, typer.Option(help="Continue with another model.")],
    base_url=Annotated[str | None, typer.Option(help="Continue with another address of the provider's API.")],
    sandbox=Annotated[
        str | None, typer.Option(help="Continue in another kind of sandbox. Default: the same one.")
    ],
)
def continue_run(
    run_id: Annotated[str, typer.Argument(metavar="ID", help="The run.")],
    message: Annotated[str, typer.Argument(help="What else to do, in your words.")],
    repo: Annotated[
        str | None, typer.Option(help="The repository's address again, if it contains credentials.")
    ] = None,
    *,
    given: GivenFlags,
    stream: Stream = None,
    as_json: Json = False,
) -> None:
    """Ask a run that has ended or stopped for more: it keeps its conversation and its branch.

    This is a new round of the run. Its limits count from here. A limit that you leave out stays the same.
    """
    from kakite.agent.run.state_machine import get_round_task
    from kakite.cli.settings import load_settings

    with _report_errors(as_json=as_json) as attempt:
        if not message.strip():
            raise UsageError("the message is empty")
        record = _find_run_to_continue(run_id)
        stored = record.load()
        attempt.task, attempt.record = stored.task, record
        _check_is_run(stored)
        attempt.address = _parse_address(stored.task, repo)
        task = _apply_flags(
            get_round_task(stored), {**given, "sandbox": given["sandbox"] or stored.sandbox or None}
        )
        attempt.task = task
        settings = load_settings({}, repository=attempt.address.url)
        _execute_task(
            task, record, attempt.address, settings, message=message, stream=stream, as_json=as_json
        )


def _find_run_to_continue(given: str) -> RunFolder:
    """Return the record of the run that is meant.

    Raises:
        RunStoreError: there is none (``run_unknown``).
        UsageError: it is a worker's task (``worker_task``).
    """
    from kakite.agent.run.store import RunStore
    from kakite.cli.agent.tasks import find_run
    from kakite.workspace import ensure_state_folder

    if (found := find_run(given)) is not None:
        return found
    if agent_tasks.is_task(given, "embedded", ""):
        raise UsageError(
            f"`{given}` is a worker's task",
            hint="say it in a comment on its issue or its pull request: a worker goes on then",
            code="worker_task",
        )
    return RunStore(ensure_state_folder(os.environ)).find(given)


def _check_is_run(run: RunState) -> None:
    """Refuse a session, which works in a folder and has no branch.

    Raises:
        UsageError: it is one (``not_a_run``).
    """
    if run.task.workspace != "clone":
        raise UsageError(
            f"`{run.task.id}` is a session, not a run",
            hint=f"open it: kakite chat --resume {run.task.id}",
            code="not_a_run",
        )


def _parse_address(task: Task, repo: str | None) -> RepoUrl:
    """Return where a stored run's repository is, with the credentials that were given again.

    Raises:
        UsageError: another repository was given (``other_repository``).
    """
    from kakite.agent.git.url import RepoUrl, parse_repo_url

    if not repo and task.container and Path(task.repository).parent.name == task.id:
        return RepoUrl(task.repository)
    address = parse_repo_url(repo or task.repository)
    if address.url != task.repository:
        raise UsageError(
            f"run `{task.id}` works on `{task.repository}`, not on `{address.url}`",
            hint="give the same address, or start another run with `kakite agent run`",
            code="other_repository",
        )
    return address


def _check_not_given(task: str, flags: Mapping[str, object]) -> None:
    """Refuse flags that a worker's task would not take in.

    Raises:
        UsageError: one was given.
    """
    given = [f"--{name.replace('_', '-')}" for name, value in flags.items() if value is not None]
    if given:
        raise UsageError(
            f"`{task}` is a worker's task: it keeps the settings that it started with, so "
            f"{', '.join(given)} would change nothing",
            hint=f"to continue with the same settings: {format_resume_command(task, None)}\n"
            f"for other settings, cancel it (kakite agent cancel {quote(task)}) and start another task",
        )


def _apply_flags(task: Task, flags: Mapping[str, object]) -> Task:
    """Return the task with those settings that were given."""
    from kakite.cli.options import LIMIT_NAMES, OPTION_NAMES, add_model_options, apply_limits
    from kakite.cli.settings import check_flags

    given = {name: value for name, value in flags.items() if value is not None}
    settings = check_flags(given)
    limits = [name for name in given if name in LIMIT_NAMES]
    changes: dict[str, object] = {
        name: getattr(settings, name) for name in given if name not in {*LIMIT_NAMES, *OPTION_NAMES}
    }
    if "setup" in changes:
        changes["setup"] = changes["setup"] == "auto"
    task = replace(apply_limits(task, settings, limits), **changes)  # pyright: ignore[reportArgumentType] - by the fields' own names
    return add_model_options(task, settings)


@app.command("list")
def list_runs(engine: Engine = "embedded", address: ServerAddress = "", as_json: Json = False) -> None:
    """List your runs and the workers' tasks, newest first."""
    from kakite.agent.run.store import RunStore
    from kakite.cli.agent.run_report import format_table
    from kakite.workspace import ensure_state_folder

    tasks, damage = _list_readable_tasks(engine, address)
    runs = [(record, _try_load(record)) for record in RunStore(ensure_state_folder(os.environ)).list_runs()]
    if as_json:
        shapes = [_to_json(record, run) for record, run in runs]
        shapes += [{**agent_tasks.to_task_json(each), "updated": each.updated.isoformat()} for each in tasks]
        typer.echo(json.dumps(shapes, ensure_ascii=False))
        _report_damage(damage, as_json=True)
        return
    rows = [(each.updated, agent_tasks.format_task_row(each)) for each in tasks]
    rows += [(record.get_saved_at(), _format_row(record, run)) for record, run in runs]
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for line in format_table(rows, datetime.now(UTC), width):
        typer.echo(line)
    _report_damage(damage, as_json=False)


def _list_readable_tasks(engine: str, address: str) -> tuple[list[WorkflowDescription], KakiteError | None]:
    """Return the workers' tasks; where their journal is damaged none, and the error."""
    try:
        return agent_tasks.list_tasks(engine, address), None
    except KakiteError as error:
        if error.code != "journal_damaged":
            raise
        return [], error


def _report_damage(damage: KakiteError | None, *, as_json: bool) -> None:
    """Say that the list is not whole, and end with the error's exit code."""
    if damage is not None:
        damage.is_reported = as_json  # the list is the one document
        raise damage


def _to_json(record: RunFolder, run: RunState | None) -> dict[str, object]:
    from kakite.cli.agent.run_report import to_report_json

    known = to_report_json(run) if run else {"id": record.id, "status": "unreadable"}
    return {**known, "updated": record.get_saved_at().isoformat()}


def _try_load(record: RunFolder) -> RunState | None:
    try:
        return record.load()
    except (KakiteError, OSError):
        return None


def _format_row(record: RunFolder, run: RunState | None) -> tuple[str, str, str, str]:
    if run is None:
        return record.id, "unreadable", "", ""
    text = escape_one_line(run.task.text.strip().split("\n", 1)[0])
    pushed = run.pushed or any(step.kind == "push" for step in run.steps)
    return run.task.id, _format_state(record, run), run.task.branch if pushed else "", text


def _format_state(record: RunFolder, run: RunState) -> str:
    from kakite.agent.run.state import find_unverified_reason, format_status

    failure = record.load_failure()
    if run.status:
        state = format_status(run.status, find_unverified_reason(run))
    elif record.is_busy():
        state = f"going on ({run.phase})"
    else:
        state = f"failed: {failure}" if failure else f"interrupted ({run.phase})"
    return f"{state}, round {len(run.rounds) + 1}" if run.rounds else state


@app.command("demo")
def demo(
    sandbox: Annotated[str, typer.Option(help=SANDBOX_HELP)] = "auto",
    as_json: Json = False,
) -> None:
    """Show a whole task on a small real project. The model is scripted: you need no key and no network."""
    check_engine("embedded")
    from kakite.cli.agent.demo import run_demo

    raise typer.Exit(run_demo(sandbox=sandbox, as_json=as_json))


@dataclass(slots=True)
class RunHandle:
    """The run so far, for whatever ends the command."""

    task: Task | None = None
    record: RunFolder | None = None
    address: RepoUrl | None = None

    def load_run(self) -> RunState | None:
        """Return the run as it is stored, or as it would have begun."""
        from kakite.agent.run.state import RunState

        stored = _try_load(self.record) if self.record else None
        return stored or (RunState(task=self.task, base="") if self.task else None)

    @property
    def has_ended(self) -> bool:
        """Whether the run as it is stored has ended by itself, and cannot be resumed."""
        stored = _try_load(self.record) if self.record else None
        return stored is not None and stored.phase == "done"

    def forget(self) -> None:
        """Keep nothing of a run in which nothing was done, and which could not go on as it is."""
        run = self.load_run()
        if self.record is not None and run is not None and not run.base and not run.usage.requests:
            with suppress(OSError):  # what led here is told, not this
                self.record.remove()

    def get_resume_hint(self) -> str:
        """Return the command that goes on with it, nothing if it is not stored or has ended."""
        if self.record is None or not self.record.file.exists():
            return ""
        if self.has_ended:
            return ""  # a further round of it has not begun
        return f"Continue with: {format_resume_command(self.record.id, self.address)}"


def format_resume_command(run_id: str, address: RepoUrl | None) -> str:
    """Return the command that goes on with a run; credentials are not stored, so they are needed again."""
    secret = address and (address.username or address.password)
    return f"kakite agent resume {quote(run_id)}" + (" --repo ADDRESS-WITH-CREDENTIALS" if secret else "")


@contextmanager
def _report_errors(*, as_json: bool) -> Generator[RunHandle]:
    """Tell a person, and with ``as_json`` a program, of every end but the one that the run itself reports."""
    attempt = RunHandle()
    try:
        yield attempt
    except (typer.Exit, BrokenPipeError):
        raise
    except (Exception, KeyboardInterrupt, asyncio.CancelledError, BaseExceptionGroup) as error:
        if is_interruption(error):
            _print_interruption(attempt, as_json=as_json)
            raise typer.Exit(INTERRUPTED) from None
        ours = to_known_error(error, str(attempt.record.folder) if attempt.record else "")
        if isinstance(ours, StorageError):
            ours.hint = _STORAGE_HINT
        if isinstance(ours, ExternalError):
            _record_failure(attempt, ours)
        if as_json:
            _print_unfinished(attempt, "error", ours or to_internal_error(error))
        if ours is None:
            raise
        ours.is_reported = as_json
        raise ours from error


def _record_failure(attempt: RunHandle, error: ExternalError) -> None:
    """Keep what a run has failed with, and say how it can go on."""
    if error.code == "empty_repository":
        attempt.forget()
    how = attempt.get_resume_hint()
    if attempt.record is not None and not attempt.has_ended:
        attempt.record.note_failure(error.code)
    if how and attempt.task is not None:
        how += _suggest_options(attempt.task, error.code)
    another = "`--sandbox` names another kind" if error.code == "sandbox_missing" else ""
    error.hint = "\n".join(filter(None, [error.hint, how, another]))


def _suggest_options(task: Task, code: str) -> str:
    """Return those options of a run, as they were, that its failure may come from: to be changed and sent."""
    names = {"model_unreachable": ["base_url"], "model_unknown": ["model", "base_url"]}.get(code, [])
    given = {name.replace("_", "-"): value for name in names if (value := getattr(task, name))}
    if not given:
        return ""
    options = "".join(f" --{name} {quote(value)}" for name, value in given.items())
    return f"{options}\n(with another {' or '.join(given)}, if that one is wrong)"


_STORAGE_HINT = (
    "Kakite keeps runs below XDG_STATE_HOME, or else HOME: make that folder writable, and free some space"
)


def _print_interruption(attempt: RunHandle, *, as_json: bool) -> None:
    how = attempt.get_resume_hint()
    message = "Interrupted; nothing is lost." if how else "Interrupted before anything was done."
    typer.echo(f"\n{message} {how}".rstrip(), err=True)
    if as_json:
        _print_unfinished(attempt, "interrupted", KakiteError(message, hint=how, code="interrupted"))


def _print_unfinished(attempt: RunHandle, status: str, error: KakiteError) -> None:
    from kakite.cli.agent.run_report import to_unfinished_json

    told = {"code": error.code, "message": error.message, "hint": error.hint}
    typer.echo(json.dumps(to_unfinished_json(attempt.load_run(), status, told), ensure_ascii=False, indent=2))


def _execute_task(
    task: Task,
    record: RunFolder,
    address: RepoUrl,
    settings: Settings,
    *,
    message: str = "",
    stream: bool | None,
    as_json: bool,
) -> None:
    """Work on a task until it ends, and print the result; with a ``message``, in a further round."""
    from kakite.cli.agent.run_view import RunView

    terminal = RunView()
    streaming = (sys.stderr.isatty() and not as_json) if stream is None else stream
    _check_model_named(task)
    # What is wrong with the parts is said before we act.
    parts = _build_deps(task, record, address, terminal, settings, stream=streaming)
    _check_can_act(parts)
    if not record.file.exists() and address.url != str(record.source):  # a run that begins
        _warn_uncommitted(address)
    try:
        with record.lock():
            record.note_failure("")
            run = asyncio.run(run_until_signal(_run_traced(task, parts, message)))
    finally:
        terminal.close()
    raise typer.Exit(_print_result(run, record, address, as_json=as_json))


async def _run_traced(task: Task, parts: RunDeps, message: str) -> RunState:
    from kakite.agent.observe.otel import instrument
    from kakite.agent.run.runner import continue_task, run_task

    async with instrument(parts, task, os.environ) as seen:
        if message:
            task = await continue_task(task, seen, message)
        return await run_task(task, seen)


def _build_deps(
    task: Task, record: RunFolder, address: RepoUrl, terminal: RunView, settings: Settings, *, stream: bool
) -> RunDeps:
    from kakite.agent.git.mirror import Mirror
    from kakite.agent.git.sandbox_remote import SandboxRemote
    from kakite.agent.git.worktree import read_commit_author
    from kakite.agent.run.clean_check import build_clean_spec
    from kakite.agent.run.deps import RunDeps
    from kakite.agent.run.limits import DailyUsageStore
    from kakite.cli.agent.worker import open_task_model
    from kakite.cli.settings import build_tool_settings
    from kakite.host import MODES, DenyingApprover
    from kakite.sandbox import AUTO, open_sandbox
    from kakite.workspace import ensure_state_folder

    mirror = Mirror(record.mirror, address, os.environ)
    relay = SandboxRemote(mirror, task.branch, read_only=not task.push)
    container = _name_container(task, record)
    terms = _build_sandbox_spec(task, address, relay, container)
    sandbox = open_sandbox(task.sandbox, record.task, terms=terms)
    kind = sandbox.kind if task.sandbox == AUTO else task.sandbox
    terminal.where = lambda: _describe_sandbox(task, sandbox)
    return RunDeps(
        mirror=mirror,
        relay=relay,
        open_clean_sandbox=lambda folder: open_sandbox(kind, folder, terms=build_clean_spec(terms)),
        model=open_task_model(task),
        rules=MODES[_parse_mode(task.approve)],
        approver=terminal if _is_terminal() else DenyingApprover(),
        author=read_commit_author(os.environ),
        days=DailyUsageStore(ensure_state_folder(os.environ)),
        stream=stream,
        listener=terminal.show,
        sandbox=sandbox,
        limits=terms.limits,
        record=record,
        container=container,
        tooling=build_tool_settings(settings),
        retry_seconds=60 * settings.retry_minutes,
    )


def _name_container(task: Task, record: RunFolder) -> TaskContainer | None:
    from kakite.agent.run.task_container import TaskContainer
    from kakite.sandbox import ResourceLimits

    return TaskContainer(task, record, os.environ, ResourceLimits()) if task.container else None


def _build_sandbox_spec(
    task: Task, address: RepoUrl, relay: SandboxRemote, container: TaskContainer | None
) -> SandboxSpec:
    from kakite.agent.git.worktree import ORIGIN_SERVICE
    from kakite.sandbox import SandboxSpec
    from kakite.sandbox.container.command_container import SERVICE

    return SandboxSpec(
        network=task.network,
        hosts=task.hosts,
        credentials=task.credentials,
        requests=task.requests,
        services={ORIGIN_SERVICE: relay, **({SERVICE: container.serve} if container else {})},
        cache="" if container else address.url,
        checkout=address.local_path,
    )


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _check_model_named(task: Task) -> None:
    if not task.model:
        raise UsageError(
            "you named no model",
            hint="give one with --model PROVIDER:NAME; `kakite agent demo` works without one",
            code="model_missing",
        )


def _describe_sandbox(task: Task, sandbox: Sandbox) -> str:
    if task.container:
        return f"It runs in a container of its own, made of `{task.container}`, without a network."
    if not sandbox.isolates:
        return "It runs on this machine, without a sandbox."
    return f"It runs in the sandbox {sandbox.kind}, {_NETWORKS[task.network]}."


_NETWORKS: Mapping[str, str] = {
    "off": "without a network",
    "registries": "with access to package registries only",
    "open": "with access to the public network",
}


def _check_can_act(parts: RunDeps) -> None:
    """Refuse a run that could only look: every turn of it would be paid for in vain.

    Raises:
        UsageError: nobody is there to be asked, and no rule lets anything go that changes files.
    """
    from kakite.host import DenyingApprover
    from kakite.host.policy.approval import READ_ONLY_RULES

    if isinstance(parts.approver, DenyingApprover) and parts.rules == READ_ONLY_RULES:
        raise UsageError(
            "without a terminal Kakite cannot ask you, so the model could change nothing",
            hint="let it act without asking: `--approve edits` (changes to files) or `--approve all` "
            "(commands too)",
            code="nobody_to_ask",
        )


def _parse_mode(name: str) -> Mode:
    from kakite.cli.settings import check_settings

    return check_settings({"approve": name}).approve


def _print_result(run: RunState, record: RunFolder, address: RepoUrl, *, as_json: bool) -> int:
    from rich.console import Console

    from kakite.cli.agent.run_report import print_report, to_report_json
    from kakite.cli.options import format_raise_flags

    if as_json:
        typer.echo(json.dumps(to_report_json(run), ensure_ascii=False, indent=2))
    else:
        print_report(run, Console(highlight=False, soft_wrap=True), kept=str(record.mirror))
    if run.status in {"limit", "budget", "stuck"}:
        more = f" --max-turns {run.task.max_turns * 2}" if run.status == "limit" else format_raise_flags(run)
        typer.echo(f"Continue with: {format_resume_command(run.task.id, address)}{more}", err=True)
    return 0 if run.status == "done" else 1


app.command("worker")(worker)
app.command("submit")(agent_tasks.submit)
app.command("show")(agent_tasks.show)
app.command("pause")(agent_tasks.pause)
app.command("approve")(agent_tasks.approve)
app.command("cancel")(agent_tasks.cancel)
app.command("logs")(agent_tasks.logs)
app.command("rm")(rm)
