"""``kakite agent submit``, ``show``, ``pause``, ``approve``, ``cancel``, ``logs``, ``export``: manage tasks.

A task or run is found by its id, by the beginning or end of it, or by ``#NUMBER`` of its issue.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import math
import os
import re
import secrets
import sys
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

import typer

from kakite.cli.agent.worker import (
    Address,
    Engine,
    build_model_missing_error,
    build_task_settings,
    check_can_act,
    check_on_ask,
    check_sandbox,
    open_task_logs,
    open_workflow_client,
)
from kakite.cli.console import escape_control, escape_one_line
from kakite.cli.options import Branch, GivenFlags, Json, Repo, add_setting_options
from kakite.errors import KakiteError, UsageError
from kakite.installation import get_extra_install_command
from kakite.terminal_text import replace_surrogates, replace_surrogates_in_json

if TYPE_CHECKING:
    from kakite.agent.observe.events import StoredEvent
    from kakite.agent.run.state import RunState
    from kakite.agent.run.store import RunFolder
    from kakite.agent.worker.payloads import HumanAnswer, TaskInput
    from kakite.cli.settings import Settings
    from kakite.durable.client import WorkflowClient, WorkflowDescription
    from kakite.durable.temporal import TemporalWorkflowClient


async def find_task_id(client: WorkflowClient, given: str) -> str:
    """Return the id of the task that is meant.

    Raises:
        UsageError: several may be meant (``ambiguous_id``), or it is a run and no task (``no_task``).
        KakiteError: there is none (``task_unknown``).
    """
    from kakite.durable.client import WorkflowError

    given = normalize_id(given)
    try:
        return (await client.describe(given)).id
    except (WorkflowError, UsageError):  # the latter: no id at all
        known = [each.id for each in await client.list_workflows()]
    found = match_id(given, known)
    if found is not None:
        return found
    if (run := find_run(given)) is not None:
        raise UsageError(
            f"`{run.id}` is a run of `kakite agent run`, not a workers' task",
            hint=f"`kakite agent show {run.id}` shows its state, `kakite agent resume {run.id}` continues "
            f"it, `kakite agent export {run.id} --html FILE` writes all that happened",
            code="no_task",
        )
    raise build_not_found_error(given)


def find_run(given: str) -> RunFolder | None:
    """Return the run of this machine that is meant; None if there is none.

    Raises:
        UsageError: several may be meant.
    """
    from kakite.agent.run.store import RunStore
    from kakite.workspace import ensure_state_folder

    runs = {record.id: record for record in RunStore(ensure_state_folder(os.environ)).list_runs()}
    found = match_id(given, runs)
    return None if found is None else runs[found]


def normalize_id(given: str) -> str:
    """Return an id as it is: in comments at a forge, something that cannot be seen parts its number."""
    from kakite.agent.issues.comment_format import ZERO_WIDTH_SPACE

    return given.replace(ZERO_WIDTH_SPACE, "").strip()


def match_id(given: str, known: Collection[str]) -> str | None:
    """Return the one id that is meant, None if there is none.

    Raises:
        UsageError: there are several (``ambiguous_id``). The message lists them.
    """
    given = normalize_id(given)
    if given in known:
        return given
    found = list(_find_matches(given, known))
    if len(found) > 1:
        shown = ", ".join(f"`{each}`" for each in found[:_MAX_SHOWN])
        more = f" and {len(found) - _MAX_SHOWN} more" if len(found) > _MAX_SHOWN else ""
        raise UsageError(
            f"`{given}` could mean {shown}{more}", hint="give more characters of the id", code="ambiguous_id"
        )
    return found[0] if found else None


def build_not_found_error(given: str) -> KakiteError:
    """Return the error for an id that nothing has."""
    return UsageError(
        f"there is no task or run `{given}`",
        hint="`kakite agent list` shows them all",
        code="task_unknown",
    )


_MAX_SHOWN = 10
_MIN_PREFIX = 4  # characters of an id's part: `3` is the number of some issue, and no run


def _find_matches(given: str, known: Iterable[str]) -> Iterable[str]:
    from kakite.agent.worker.loop import shorten_task_id

    if len(given) < _MIN_PREFIX:
        return (each for each in known if given == shorten_task_id(each))
    return (
        each
        for each in known
        if each.startswith(given)
        or given == shorten_task_id(each)
        or re.split("[:@]", each)[-1].startswith(given)
    )


def export(
    run_id: Annotated[str, typer.Argument(metavar="ID", help="The run or the workers' task.")],
    jsonl: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Write the events to FILE, each as a line of JSON; - means standard output."
        ),
    ] = None,
    html: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write a web page to FILE; - means standard output.")
    ] = None,
    markdown: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write Markdown to FILE; - means standard output.")
    ] = None,
    atif: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Write a trajectory in Harbor's ATIF to FILE; - means standard output."
        ),
    ] = None,
    engine: Engine = "embedded",
    address: Address = "",
) -> None:
    """Write everything that happened in a run, without secrets: messages, calls, answers, changes, cost."""
    from kakite.agent.observe.event_log import build_event_log, redact_events
    from kakite.redaction import build_redaction

    files = _check_files({"jsonl": jsonl, "html": html, "markdown": markdown, "atif": atif})
    run = _load_run(run_id, engine, address)
    happened = redact_events(build_event_log(run), build_redaction(os.environ))
    texts = {kind: _render(kind, happened) for kind in files}
    for kind, text in texts.items():
        _write(files[kind], text)


def _check_files(wanted: Mapping[str, str | None]) -> dict[str, str]:
    """Return what is to be written, and where to.

    Raises:
        UsageError: it is nothing, or cannot be done.
    """
    files = {kind: name for kind, name in wanted.items() if name is not None}
    if not files:
        raise UsageError(
            "you did not say what to write",
            hint="give --jsonl FILE, --html FILE, --markdown FILE or --atif FILE; - means standard output",
        )
    if len({*files.values()}) < len(files):
        raise UsageError("two exports would go to one file", hint="name another file for each")
    if not {"html", "markdown"}.isdisjoint(files):
        _check_templates()
    return files


def _check_templates() -> None:
    """Refuse a page or Markdown where the library that makes them is not installed.

    Raises:
        UsageError: it is not (``missing_extra``).
    """
    if importlib.util.find_spec("jinja2") is None:
        raise UsageError(
            "the library that makes pages and Markdown is not installed",
            hint=get_extra_install_command("agent"),
            code="missing_extra",
        )


def _render(kind: str, events: Sequence[StoredEvent]) -> str:
    from kakite.agent.observe.renderers.atif import render_atif
    from kakite.agent.observe.renderers.html import render_html
    from kakite.agent.observe.renderers.jsonl import render_json_lines
    from kakite.agent.observe.renderers.markdown import render_markdown

    match kind:
        case "jsonl":
            return "".join(render_json_lines(events))
        case "atif":
            return render_atif(events)
        case "html":
            return render_html(events)
        case _:
            return render_markdown(events)


def _load_run(run_id: str, engine: str, address: str) -> RunState:
    from kakite.agent.run.store import RunStore
    from kakite.workspace import ensure_state_folder

    if (record := find_run(run_id)) is not None:
        return record.load()
    if (run := load_task_run(run_id, engine, address)) is not None:
        return run
    return RunStore(ensure_state_folder(os.environ)).find(run_id).load()


def _write(name: str, text: str) -> None:
    data = text.encode("utf-8", errors="backslashreplace")
    if name == "-":
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    file = Path(name)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)  # a task is nobody else's
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)
    typer.echo(f"wrote {file}", err=True)


T = TypeVar("T")
_POLL_INTERVAL = 0.5  # s between two looks whether a task has ended

TaskId = Annotated[
    str,
    typer.Argument(
        metavar="ID", help="The task: its id, the start or the last part of its id, or #NUMBER of its issue."
    ),
]


@add_setting_options()
def submit(
    task: Annotated[str, typer.Argument(help="What to do, in your words.")],
    repo: Repo = ".",
    branch: Branch = None,
    *,
    given: GivenFlags,
    on_ask: Annotated[
        str, typer.Option(metavar="deny|pause", help="What to do with a call that needs your approval.")
    ] = "pause",
    engine: Engine = "embedded",
    address: Address = "",
    as_json: Json = False,
) -> None:
    """Give the workers a task without an issue, and print the task's id."""
    from kakite.agent.git.url import find_enclosing_repository, parse_repo_url
    from kakite.agent.worker.payloads import to_payload
    from kakite.agent.worker.workflow import TASK_WORKFLOW
    from kakite.cli.settings import load_settings

    repository = parse_repo_url(find_enclosing_repository(repo)).url
    settings = load_settings(given, repository=repository)
    given_task = _build_task_input(task, repository, branch, settings, on_ask)
    # An argument may have bytes that are no letters.
    start = cast("dict[str, object]", replace_surrogates_in_json(to_payload(given_task)))
    if engine == "embedded":  # else the workers are on other machines
        asyncio.run(check_sandbox(settings.sandbox))
    _run_with_client(engine, address, lambda client: client.submit(given_task.id, TASK_WORKFLOW.label, start))
    typer.echo(json.dumps({"id": given_task.id}) if as_json else given_task.id)


def _build_task_input(
    task: str, repository: str, branch: str | None, settings: Settings, on_ask: str
) -> TaskInput:
    from kakite.agent.run.store import choose_branch_name
    from kakite.agent.worker.payloads import TaskInput

    if not task.strip():
        raise UsageError("the task is empty")
    if not settings.model:
        raise build_model_missing_error()
    check_on_ask(on_ask)
    check_can_act(settings.approve, on_ask)
    name = secrets.token_hex(4)
    return TaskInput(
        id=f"task:{name}",
        forge={"kind": "none"},
        title=task.strip().splitlines()[0][:200],
        text=task,
        repository=repository,
        branch=choose_branch_name(branch, task, name),
        settings=build_task_settings(settings),
        on_ask=on_ask,
    )


def show(task: TaskId, engine: Engine = "embedded", address: Address = "", as_json: Json = False) -> None:
    """Show the state of a task or a run."""

    async def find_status(client: WorkflowClient) -> WorkflowDescription | None:
        known = await client.list_workflows()
        found = match_id(task, [each.id for each in known])
        return next((each for each in known if each.id == found), None)

    standing = None
    if (run := find_run(task)) is None or run.id != task:
        standing = _run_with_client(engine, address, find_status)
    shape = to_task_json(standing) if standing else _to_run_json(task, run)
    if as_json:
        typer.echo(json.dumps(shape, ensure_ascii=False, indent=2))
        return
    for name, value in shape.items():
        if value not in (None, "", {}, []):
            told = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            typer.echo(f"{name:<11}{escape_control(told)}")


def pause(task: TaskId, engine: Engine = "embedded", address: Address = "") -> None:
    """Pause a task at its next step."""
    from kakite.agent.issues.comment_format import format_approve_command
    from kakite.agent.worker.loop import find_pending_question

    first: list[str] = []

    async def pause_task(client: WorkflowClient, task: str) -> None:
        await _check_not_ended(client, task)
        asks = find_pending_question(await client.describe(task))  # before: paused, none shows
        await client.pause(task)
        if asks is not None and asks["kind"] == "approval":
            first.append(format_approve_command(task, str(asks["digest"])))

    task = _run_with_task(engine, address, task, pause_task)
    then = f"kakite agent resume {quote(task)}"
    told = f"`{task}` pauses at its next step. Continue with: {then}"
    if first:
        told = f"`{task}` waits for your answer, and pauses after it. Answer with: {first[0]} (or --no)\n"
        told += f"Then continue with: {then}"
    typer.echo(told, err=True)


def approve(
    task: TaskId,
    digest: Annotated[
        str | None,
        typer.Option(
            help="The question that you answer, as `kakite agent show ID` names it. If the task asks "
            "something else by now, nothing happens. Required to allow a call."
        ),
    ] = None,
    no: Annotated[bool, typer.Option("--no", help="Answer no.")] = False,
    reason: Annotated[str, typer.Option(help="With --no: your reason, which the model reads.")] = "",
    engine: Engine = "embedded",
    address: Address = "",
) -> None:
    """Answer yes to a task's question: allow the call, or let the task continue. With --no: answer no."""
    from kakite.agent.worker.loop import answer_question

    _require_user()
    said = build_answer("no" if no else "yes", reason)
    asked: Any = {}

    async def submit_answer(client: WorkflowClient, task: str) -> None:
        asked.update(await answer_question(client, task, said, digest=digest))

    _run_with_task(engine, address, task, submit_answer)
    typer.echo(f"Answered {'no' if no else 'yes'}: {escape_control(_describe_request(asked))}", err=True)


def cancel(
    task: TaskId,
    now: Annotated[bool, typer.Option("--now", help="End at once: push nothing, comment nowhere.")] = False,
    engine: Engine = "embedded",
    address: Address = "",
) -> None:
    """End a task: Kakite stops its current step, pushes the work so far, and comments on its issue."""
    from kakite.agent.worker.loop import stop_task

    async def cancel_task(client: WorkflowClient, task: str) -> None:
        await _check_not_ended(client, task)
        if now:
            await client.cancel(task)
        else:
            await stop_task(client, task, by=os.environ.get("USER", ""), via="terminal")

    task = _run_with_task(engine, address, task, cancel_task)
    if now:
        return
    typer.echo(f"`{escape_control(task)}` ends as soon as a worker has pushed the work so far.", err=True)


def logs(
    task: TaskId,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep printing until the task ends.")
    ] = False,
    engine: Engine = "embedded",
    address: Address = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print each event as a line of JSON.")] = False,
) -> None:
    """Print what happened in a task on this machine, one line for each event."""
    from kakite.agent.observe.renderers.terminal import format_log_line
    from kakite.durable.client import END_STATES, wait_until_ended

    async def print_log(client: WorkflowClient, task: str) -> None:
        over = (await client.describe(task)).state in END_STATES or not follow
        watching = asyncio.create_task(wait_until_ended(client, task, math.inf, _POLL_INTERVAL))
        try:
            async for line in open_task_logs().follow(task, lambda: over or watching.done()):
                typer.echo(
                    json.dumps(line, ensure_ascii=False) if as_json else escape_control(format_log_line(line))
                )
        finally:
            watching.cancel()
            await asyncio.wait([watching])

    _run_with_task(engine, address, task, print_log)


def resume_task(task: str, engine: str, address: str) -> str:
    """Let a task of the workers go on, one that was paused or that waits for a person, and return its id.

    Raises:
        KakiteError: there is none, or it asks for an approval.
    """
    from kakite.agent.issues.comment_format import format_approve_command
    from kakite.agent.worker.loop import find_pending_question, signal_answer

    _require_user()

    async def resume_and_answer(client: WorkflowClient, task: str) -> None:
        await _check_not_ended(client, task)
        await client.resume(task)
        asks = find_pending_question(await client.describe(task))
        if asks is not None and asks["kind"] == "approval":
            how = format_approve_command(task, str(asks["digest"]))
            raise UsageError(f"`{task}` waits for an answer", hint=f"`{how}`, or with --no")
        if asks is not None:
            await signal_answer(client, task, asks, build_answer("more", ""))

    task = _run_with_task(engine, address, task, resume_and_answer)
    typer.echo(f"`{escape_control(task)}` continues: the next free worker takes it.", err=True)
    return task


async def _check_not_ended(client: WorkflowClient, task: str) -> None:
    """Refuse to steer a task that is over.

    Raises:
        UsageError: it is (``run_ended``).
    """
    from kakite.durable.client import END_STATES

    standing = await client.describe(task)
    if standing.state not in END_STATES:
        return
    public = cast("dict[str, Any]", standing.published or {})
    told = _format_end(public) if standing.state == "done" else ""
    raise UsageError(
        f"`{task}` has ended: {told or standing.state}",
        hint=f"`kakite agent show {task}` shows its result",
        code="run_ended",
    )


def _format_end(public: Mapping[str, Any]) -> str:
    from kakite.agent.run.state import format_status

    return format_status(public.get("status") or "", public.get("doubt") or "")


def list_tasks(engine: str = "embedded", address: str = "") -> list[WorkflowDescription]:
    """Return the workers' tasks, the latest first; on this machine none where there never was one."""
    from kakite.workspace import get_state_path

    journal = get_state_path(os.environ) / "agent" / "journal.sqlite"
    if engine == "embedded" and not journal.exists():
        return []
    return list(_run_with_client(engine, address, lambda client: client.list_workflows()))


def is_task(given: str, engine: str, address: str) -> bool:
    """Return whether a task of the workers is meant.

    Raises:
        UsageError: several may be meant.
    """
    return match_id(given, [each.id for each in list_tasks(engine, address)]) is not None


def load_task_run(given: str, engine: str, address: str) -> RunState | None:
    """Return the run of a task as it was last published; None if there is no such task, or it never began.

    Raises:
        UsageError: several tasks may be meant.
    """
    from kakite.agent.worker.snapshots import SnapshotReplicator
    from kakite.cli.agent.worker import ensure_agent_folder
    from kakite.durable.blobs import BlobStore

    standings = {each.id: each for each in list_tasks(engine, address)}
    task = match_id(given, standings) or ""
    standing = standings.get(task)
    published = cast("dict[str, Any]", standing.published or {}) if standing else {}
    head = published.get("head")
    if not head:
        return None
    snapshots = SnapshotReplicator(BlobStore(ensure_agent_folder() / "blobs"))

    async def load(client: WorkflowClient) -> RunState:
        if engine == "temporal":
            snapshots.enable(cast("TemporalWorkflowClient", client).iterate_activity_results)
        return await snapshots.load(task, head)

    return _run_with_client(engine, address, load)


_HIDDEN_FIELDS = {"id", "start", "accepted", "seen"}


def to_task_json(standing: WorkflowDescription) -> dict[str, Any]:
    """Return the documented shape of a task (docs/agent-reference.md)."""
    published = cast("dict[str, Any]", standing.published or {})
    return {
        "id": standing.id,
        "state": standing.state,
        **{name: value for name, value in published.items() if name not in _HIDDEN_FIELDS},
        "reason": standing.error,
    }


def format_task_row(standing: WorkflowDescription) -> tuple[str, str, str, str]:
    """Return a task for a list: id, state, the branch if something was pushed to it, title."""
    public = cast("dict[str, Any]", standing.published or {})
    asks = public.get("asks") if standing.state == "waiting" else None
    state = f"waits: {asks['kind']}" if asks else _format_end(public) or standing.state
    title = escape_one_line(str(public.get("title", "")))
    branch = str(public.get("branch", "")) if public.get("pushed") else ""
    return standing.id, state.replace("_", " "), escape_one_line(branch), title


def build_answer(answer: str, reason: str) -> HumanAnswer:
    """Return the answer of the person at this terminal."""
    from kakite.agent.worker.payloads import HumanAnswer

    by = os.environ.get("USER", "")
    return HumanAnswer(answer=answer, reason=replace_surrogates(reason), by=by, via="terminal", budget=None)


def _require_user() -> None:
    from kakite.host.consent.store import UserRequiredError
    from kakite.processes import is_run_by_kakite

    if is_run_by_kakite():
        raise UserRequiredError(
            "only a person can answer a task's question, and Kakite itself started this program",
            hint="ask the person to answer in their own terminal, on the page, or below the issue",
        )


def _describe_request(asked: Any) -> str:
    return (
        f"{asked['tool']} {json.dumps(asked['arguments'], ensure_ascii=False)}"
        if asked["tool"]
        else asked["text"]
    )


def _to_run_json(given: str, record: RunFolder | None) -> dict[str, Any]:
    """Return what is known of a run of ``kakite agent run``.

    Raises:
        KakiteError: there is none (``task_unknown``).
    """
    from kakite.cli.agent.run_report import to_report_json

    if record is None:
        raise build_not_found_error(given)
    run = record.load()
    known = {"id": run.task.id, "task": run.task.text, "phase": run.phase, "failed": record.load_failure()}
    return {
        **known,
        **{name: value for name, value in to_report_json(run).items() if name not in _LONG_FIELDS},
    }


_LONG_FIELDS = {"steps", "diff", "plan"}


def _run_with_task(
    engine: str, address: str, given: str, use: Callable[[WorkflowClient, str], Awaitable[object]]
) -> str:
    """Do something with the task that is meant, and return its id."""

    async def run(client: WorkflowClient) -> str:
        task = await find_task_id(client, given)
        await use(client, task)
        return task

    return _run_with_client(engine, address, run)


def _run_with_client(engine: str, address: str, use: Callable[[WorkflowClient], Awaitable[T]]) -> T:
    async def run() -> T:
        async with open_workflow_client(engine, address) as client:
            return await use(client)

    try:
        return asyncio.run(run())
    except KakiteError as error:
        if error.code == "journal_damaged":
            error.hint = _describe_damage()
        raise


def _describe_damage() -> str:
    """Return what is left where the journal of the workers' tasks is damaged, and how to begin a new one."""
    from kakite.workspace import get_state_path

    folder = get_state_path(os.environ) / "agent"
    aside = quote(f"{folder}.damaged-{datetime.now(UTC):%Y%m%d%H%M%S}")
    return (
        "the runs of `kakite agent run` are not in it: `kakite agent list` still lists them.\n"
        "What tasks have pushed, their pull requests and their issues are at the forge.\n"
        "To begin a new journal, stop all "
        f"workers and set this one aside: mv {quote(str(folder))} {aside}"
    )
