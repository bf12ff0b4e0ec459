"""``kakite agent worker``: runs a worker, which turns issues into pull requests unattended.

A terminal shows the steps of its tasks as they are done; elsewhere they are plain lines.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kakite.cli.console import escape_control
from kakite.cli.exit_codes import INTERRUPTED, is_interruption, run_until_signal
from kakite.cli.options import GivenFlags, add_setting_options, complete_with
from kakite.errors import UsageError
from kakite.installation import get_extra_install_command

if TYPE_CHECKING:
    from kakite.agent.forges.base import Forge
    from kakite.agent.forges.labels import LabelConfig
    from kakite.agent.observe.events import RunEvent
    from kakite.agent.observe.task_logs import TaskLogs
    from kakite.agent.run.state import Task
    from kakite.agent.worker.activities import TaskActivities, WorkerDeps
    from kakite.agent.worker.loop import RepositoryConfig, WorkerLoop
    from kakite.cli.agent.run_view import RunView
    from kakite.cli.settings import Settings
    from kakite.durable.client import WorkflowClient
    from kakite.host import Mode
    from kakite.models.model import Model


class WorkerView:
    """One worker's lines, and on a terminal its tasks' steps."""

    def __init__(self) -> None:
        self._terminal = _open_run_view() if sys.stderr.isatty() else None
        self.at_once: Callable[[], int] = lambda: 1
        """How many tasks are under way."""
        self.begun: Callable[[str], None] = lambda _task: None
        """Is told of each task that this worker is at."""

    def say(self, line: str) -> None:
        """Print a line of the worker's own."""
        if self._terminal is None:
            typer.echo(escape_control(line), err=True)
        else:
            self._terminal.say(line)

    def on_event(self, task: str, event: RunEvent) -> None:
        """Show what happens in a task."""
        self.begun(task)
        if self._terminal is not None:
            from kakite.agent.worker.loop import shorten_task_id

            self._terminal.show(event, of=f"{shorten_task_id(task)} " if self.at_once() > 1 else "")

    def close(self) -> None:
        """Stop what moves on the screen."""
        if self._terminal is not None:
            self._terminal.close()


def _open_run_view() -> RunView:
    from kakite.cli.agent.run_view import RunView

    return RunView()


WEBHOOK_SECRET = "KAKITE_WEBHOOK_SECRET"  # noqa: S105 - a name

Engine = Annotated[
    str,
    typer.Option(
        metavar="embedded|temporal",
        autocompletion=complete_with("embedded", "temporal"),
        help="Where tasks are kept: embedded (in a folder) or temporal (on a Temporal server).",
    ),
]
Address = Annotated[str, typer.Option(metavar="HOST:PORT", help="Address of the Temporal server.")]
ForgeLocation = Annotated[
    tuple[str, str] | None,
    typer.Option(
        metavar="KIND PLACE",
        help="Where issues come from: local DIR, github OWNER/NAME or gitlab GROUP/NAME. Default: no "
        "issues, only submitted tasks.",
    ),
]
ForgeUrl = Annotated[str, typer.Option(help="Your own server: the address of GitHub's API, or of GitLab.")]
Labels = Annotated[
    list[str] | None,
    typer.Option(
        metavar="STATE=NAME",
        help="Use label NAME for STATE: waiting, processing, done, paused or stopped. May be repeated.",
    ),
]
Mention = Annotated[
    str | None, typer.Option(help="The NAME to which people write @NAME in a comment to start a task.")
]
OnAsk = Annotated[
    str,
    typer.Option(
        metavar="deny|pause",
        autocompletion=complete_with("deny", "pause"),
        help="What to do with a call that needs a person's approval: deny it, or pause the task.",
    ),
]
Draft = Annotated[
    str,
    typer.Option(
        metavar="early|late",
        autocompletion=complete_with("early", "late"),
        help="When to open a draft pull request: early (at the first change) or late (with the "
        "finished work).",
    ),
]
UntilIdle = Annotated[
    bool, typer.Option("--until-idle", help="End when no work is left. Default: work until you stop it.")
]
Concurrency = Annotated[int, typer.Option(min=1, help="How many tasks to work on at once.")]
Poll = Annotated[float, typer.Option(min=0.1, help="Seconds between two checks for new issues.")]
Webhooks = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="Listen on this address for the forge's webhooks, so that new issues need not wait for "
        "the next check; port 0 picks a free port. KAKITE_WEBHOOK_SECRET holds the secret.",
    ),
]


@add_setting_options()
def worker(
    *,
    forge: ForgeLocation = None,
    forge_url: ForgeUrl = "",
    label: Labels = None,
    mention: Mention = None,
    given: GivenFlags,
    on_ask: OnAsk = "deny",
    draft: Draft = "early",
    until_idle: UntilIdle = False,
    concurrency: Concurrency = 8,
    poll: Poll = 30.0,
    webhooks: Webhooks = None,
    engine: Engine = "embedded",
    address: Address = "",
) -> None:
    """Work through labelled issues and submitted tasks. You can run any number of workers."""
    from kakite.cli.settings import load_settings

    load = partial(load_settings, given)
    check_on_ask(on_ask)
    if draft not in {"early", "late"}:
        raise UsageError(f"--draft takes early or late, not `{draft}`")
    names = _parse_labels(label or [], mention)
    place = None if forge is None else _build_forge_location(*forge, forge_url)
    work = _run_worker_loop(
        load,
        names,
        place,
        asking={"on_ask": on_ask, "draft": draft},
        until_idle=until_idle,
        concurrency=concurrency,
        poll=min(poll, 1.0) if until_idle else poll,
        engine=engine,
        address=address,
        listening=_listen_for_webhooks(webhooks, place),
    )
    try:
        asyncio.run(run_until_signal(work))
    except (KeyboardInterrupt, asyncio.CancelledError, BaseExceptionGroup) as error:
        if not is_interruption(error):
            raise
        typer.echo("Ended. The next worker continues the unfinished tasks.", err=True)
        raise typer.Exit(INTERRUPTED) from None


async def _run_worker_loop(
    load: Callable[..., Settings],
    names: LabelConfig,
    place: Mapping[str, str] | None,
    *,
    asking: Mapping[str, str],
    until_idle: bool,
    concurrency: int,
    poll: float,
    engine: str,
    address: str,
    listening: socket.socket | None,
) -> None:
    from kakite.agent.issues.activities import ForgeActivities
    from kakite.agent.worker.activities import open_activities
    from kakite.agent.worker.loop import WorkerLoop
    from kakite.durable.blobs import BlobStore
    from kakite.redaction import build_redaction

    folder = ensure_agent_folder()
    blobs = BlobStore(folder / "blobs")
    redaction = build_redaction(os.environ)
    issues = ForgeActivities(lambda where: open_forge(where, os.environ), names, blobs, redaction)
    forge = None if place is None else open_forge(place, os.environ)
    view = WorkerView()
    settings = load(repository=(await _get_repository_address(forge)) if forge else "")
    if forge is not None:
        check_can_act(settings.approve, asking["on_ask"])
    post = _build_repository_config(settings, names, place, forge, asking) if place and forge else None
    if post is not None or settings.sandbox != "auto":  # what is submitted says itself where it is to run
        await check_sandbox(settings.sandbox)
    async with (
        open_activities(folder, _build_worker_deps(settings, issues, view)) as activities,
        open_worker(activities, folder, engine=engine, address=address, concurrency=concurrency) as client,
    ):
        sweep = activities.remove_orphans
        loop = WorkerLoop(client=client, forge_activities=issues, post=post, say=view.say, sweep=sweep)
        view.begun, view.at_once = loop.on_task_started, lambda: len(loop.under_way)
        async with _serve_webhooks(listening, post, loop):
            await loop.run(poll=poll, until_idle=until_idle)


def _listen_for_webhooks(webhooks: str | None, place: Mapping[str, str] | None) -> socket.socket | None:
    """Open the socket for webhooks, if they are wanted.

    Raises:
        UsageError: it is no address, the forge sends none, or there is no secret (``missing_secret``).
        ListenError: the address cannot be listened on.
    """
    from kakite.agent.forges.webhooks import VERIFIERS
    from kakite.serve.streamable_http import listen, parse_address

    if webhooks is None:
        return None
    where = parse_address(webhooks)
    if place is None or place["kind"] not in VERIFIERS:
        raise UsageError("--webhooks needs --forge github or gitlab", hint="a folder sends no webhooks")
    if not os.environ.get(WEBHOOK_SECRET, ""):
        raise UsageError(
            f"the variable {WEBHOOK_SECRET} holds no secret",
            hint="set it to the webhook's secret: without it, Kakite cannot know who sent a webhook",
            code="missing_secret",
        )
    return listen(where)


@asynccontextmanager
async def _serve_webhooks(
    listening: socket.socket | None, post: RepositoryConfig | None, shift: WorkerLoop
) -> AsyncGenerator[None]:
    """Let webhooks wake the worker as long as the block lasts, if they are wanted."""
    if listening is None or post is None:
        yield
        return
    from kakite.agent.forges.webhooks import WEBHOOK, WebhookConfig, create_webhook_app
    from kakite.serve.streamable_http import ServerLimits, serve_in_background

    doorbell = WebhookConfig(
        kind=post.place["kind"],
        path=post.place["path"],
        secret=os.environ[WEBHOOK_SECRET],
        bell=shift.bell,
        say=shift.say_once,
    )
    host, port = listening.getsockname()[:2]
    async with serve_in_background(create_webhook_app(doorbell), listening, ServerLimits(connections=64)):
        _print_line(f"listens for webhooks at http://{f'[{host}]' if ':' in host else host}:{port}{WEBHOOK}")
        yield


def _print_line(line: str) -> None:
    typer.echo(escape_control(line), err=True)


async def _get_repository_address(forge: Forge) -> str:
    """Return the address of a forge's repository, which the settings may say something about."""
    await forge.check()
    return (await forge.get_repository()).address


def _build_repository_config(
    settings: Settings, names: LabelConfig, place: Mapping[str, str], forge: Forge, asking: Mapping[str, str]
) -> RepositoryConfig:
    from kakite.agent.worker.loop import RepositoryConfig

    if not settings.model:
        raise build_model_missing_error()
    check_model_key(settings)
    return RepositoryConfig(
        forge=forge, place=place, names=names, settings=build_task_settings(settings), **asking
    )


def _build_worker_deps(settings: Settings, forge_activities: Any, view: WorkerView) -> WorkerDeps:
    from kakite.agent.git.worktree import read_commit_author
    from kakite.agent.run.limits import DailyUsageStore
    from kakite.agent.worker.activities import WorkerDeps
    from kakite.cli.settings import build_tool_settings
    from kakite.workspace import ensure_state_folder

    log = open_task_logs()

    def on_event(task: str, event: RunEvent) -> None:
        log.create_listener(task)(event)
        view.on_event(task, event)

    return WorkerDeps(
        environ=os.environ,
        open_model=open_task_model,
        author=read_commit_author(os.environ),
        forge_activities=forge_activities,
        tooling=build_tool_settings(settings),
        days=DailyUsageStore(ensure_state_folder(os.environ)),
        listener=on_event,
    )


def open_task_model(task: Task) -> Model:
    """Return the model that a task names, with keys from the environment.

    Raises:
        ModelConfigError: there is no such provider, or its key or library is missing.
    """
    from kakite.models.factory import open_model
    from kakite.models.options import ModelOptions
    from kakite.models.text_tool_calls import TextToolCallModel

    with suggest_demo():
        # Who asks tries again, and says so.
        model = open_model(
            task.model,
            base_url=task.base_url,
            environ=os.environ,
            max_retries=0,
            options=(*task.model_options, ModelOptions(effort=task.effort)),
        )
    return TextToolCallModel(model, task.tool_calls)


def check_model_key(settings: Settings) -> None:
    """Refuse a model that could not be asked: before an issue is taken up for it.

    Raises:
        ModelConfigError: as ``open_task_model``.
    """
    from kakite.cli.settings import build_model_options
    from kakite.models.factory import check_model

    with suggest_demo():
        check_model(
            settings.model,
            base_url=settings.base_url or None,
            environ=os.environ,
            options=build_model_options(settings),
        )


@contextmanager
def suggest_demo() -> Generator[None]:
    """Add to the error of a missing key that the agent can be seen at work without one."""
    from kakite.models.model import ModelConfigError

    try:
        yield
    except ModelConfigError as error:
        if error.code == "model_no_key":
            error.hint += "; `kakite agent demo` needs no key"
        raise


def build_task_settings(settings: Settings) -> dict[str, object]:
    """Return what a task is given of the settings."""
    from kakite.agent.run.state import Task
    from kakite.cli.options import apply_limits
    from kakite.cli.settings import build_model_options

    nothing = dict.fromkeys(("id", "text", "repository", "branch", "model", "sandbox", "approve"), "")
    limits = apply_limits(Task(**nothing, max_turns=1), settings)
    return {
        "budget": asdict(limits.budget),
        "daily": asdict(limits.daily),
        "model": settings.model,
        "base_url": settings.base_url or None,
        "sandbox": settings.sandbox,
        "approve": settings.approve,
        "max_turns": settings.max_turns,
        "context_tokens": settings.context_tokens,
        "tool_calls": settings.tool_calls,
        "effort": settings.effort,
        "model_options": [asdict(each) for each in build_model_options(settings)],
        "network": settings.network,
        "hosts": list(settings.hosts),
        "credentials": {name: list(hosts) for name, hosts in settings.credentials.items()},
        "requests": list(settings.requests),
        "setup": settings.setup == "auto",
    }


def check_on_ask(on_ask: str) -> None:
    """Refuse what `--on-ask` does not take.

    Raises:
        UsageError: it is neither deny nor pause.
    """
    if on_ask not in {"deny", "pause"}:
        raise UsageError(f"--on-ask takes deny or pause, not `{on_ask}`")


def check_can_act(approve: Mode, on_ask: str) -> None:
    """Refuse tasks that could only look: every turn of theirs would be paid for in vain.

    Raises:
        UsageError: what a person would be asked about is denied, and nothing that changes files goes unasked.
    """
    from kakite.host.policy.approval import MODES, READ_ONLY_RULES

    if on_ask == "deny" and MODES[approve] == READ_ONLY_RULES:
        raise UsageError(
            "Kakite denies every call that needs a person's approval, so the model could change nothing",
            hint="let it act without asking: `--approve edits` (changes to files) or `--approve all` "
            "(commands too); or let tasks wait for your answers: `--on-ask pause`",
            code="nobody_to_ask",
        )


async def check_sandbox(kind: str) -> None:
    """Refuse a kind of sandbox that cannot be made here: before anything is taken up that would need it.

    Raises:
        UsageError: what makes it is missing (``sandbox_missing``), or there is no such kind.
        SandboxError: it does not work for another reason.
    """
    from kakite.sandbox import SandboxError, try_out

    try:
        await try_out(kind)
    except SandboxError as error:
        if error.code != "sandbox_missing":
            raise
        hint = "\n".join(filter(None, [error.hint, "`--sandbox` names another kind"]))
        raise UsageError(error.message, hint=hint, code=error.code) from error


def build_model_missing_error() -> UsageError:
    """Return the error for a task without a model."""
    return UsageError("you named no model", hint="give one with --model PROVIDER:NAME", code="model_missing")


def ensure_agent_folder() -> Path:
    """Return the folder where tasks are kept, made if missing."""
    from kakite.workspace import ensure_state_folder

    folder = ensure_state_folder(os.environ) / "agent"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def open_task_logs() -> TaskLogs:
    """Return what this machine's workers write of their tasks."""
    from kakite.agent.observe.task_logs import TaskLogs
    from kakite.redaction import build_redaction

    return TaskLogs(ensure_agent_folder() / "logs", build_redaction(os.environ))


def open_forge(place: Mapping[str, Any], environ: Mapping[str, str]) -> Forge:
    """Return the forge at a place: kind, path and url.

    Raises:
        UsageError: there is no such kind, or a token or library is missing.
        ForgeError: there is no such folder.
    """
    match place["kind"]:
        case "local":
            from kakite.agent.forges.local.forge import LocalForge

            return LocalForge(
                Path(place["path"]), report=lambda error: _print_line(f"local: {error.message}")
            )
        case "github":
            from kakite.agent.forges.factory import open_github

            return open_github(place["path"], environ, api_url=place["url"])
        case "gitlab":
            from kakite.agent.forges.factory import open_gitlab

            return open_gitlab(place["path"], environ, url=place["url"])
        case kind:
            raise UsageError(f"there is no forge `{kind}`", hint="use local, github or gitlab")


@asynccontextmanager
async def open_workflow_client(engine: str, address: str) -> AsyncGenerator[WorkflowClient]:
    """Open where tasks are noted.

    Raises:
        UsageError: there is no such engine, or its library is missing (``missing_extra``).
        BackendUnavailableError: it cannot be used.
    """
    check_engine(engine, address)
    if engine == "temporal":
        from kakite.durable.temporal import open_temporal_client

        async with open_temporal_client(address) as client:
            yield client
    else:
        from kakite.durable.dbos.client import DbosWorkflowClient

        async with DbosWorkflowClient(ensure_agent_folder()) as client:
            yield client


@asynccontextmanager
async def open_worker(
    activities: TaskActivities, folder: Path, *, engine: str, address: str, concurrency: int
) -> AsyncGenerator[WorkflowClient]:
    """Tell the workflows of tasks as long as the block lasts.

    Raises:
        UsageError, BackendUnavailableError: as ``open_workflow_client``.
    """
    from kakite.agent.worker.workflow import TASK_WORKFLOW

    check_engine(engine, address)
    effects = activities.get_activities()
    if engine == "temporal":
        from kakite.durable import temporal

        far = temporal.TemporalWorkerOptions(concurrency=concurrency)
        async with temporal.open_temporal_client(address) as client:
            activities.snapshots.enable(client.iterate_activity_results)
            async with temporal.run_worker(address, [TASK_WORKFLOW], effects, far):
                yield client
    else:
        from kakite.durable.dbos import worker as dbos_worker

        near = dbos_worker.DbosWorkerOptions(concurrency=concurrency)
        async with (
            open_workflow_client(engine, "") as known,
            dbos_worker.run_worker(folder, [TASK_WORKFLOW], effects, near),
        ):
            yield known


def check_engine(engine: str, address: str = "") -> None:
    """Refuse an engine that there is none of, and one whose library is not installed.

    Raises:
        UsageError: for the latter ``missing_extra``.
    """
    import importlib.util

    if engine not in {"embedded", "temporal"}:
        raise UsageError(f"--engine takes embedded or temporal, not `{engine}`")
    if engine == "temporal" and not address:
        raise UsageError("--engine temporal needs --address HOST:PORT")
    library, extra = ("temporalio", "temporal") if engine == "temporal" else ("dbos", "agent")
    if importlib.util.find_spec(library) is None:
        raise UsageError(
            "the library that keeps tasks is not installed",
            hint=get_extra_install_command(extra),
            code="missing_extra",
        )


_LABEL_STATES = ("waiting", "processing", "done", "paused", "stopped")


def _build_forge_location(kind: str, path: str, url: str) -> dict[str, str]:
    return {"kind": kind, "path": str(Path(path).resolve()) if kind == "local" else path, "url": url}


def _parse_labels(labels: list[str], mention: str | None) -> LabelConfig:
    from pydantic import ValidationError

    from kakite.agent.forges.labels import LabelConfig

    given: dict[str, str] = {"mention": mention} if mention else {}
    for each in labels:
        state, _, name = each.partition("=")
        if state not in _LABEL_STATES:
            raise UsageError(
                f"--label: there is no state `{state}`", hint=f"use one of {', '.join(_LABEL_STATES)}"
            )
        given[state] = name
    try:
        return LabelConfig.model_validate(given)
    except ValidationError as error:
        raise UsageError(f"--label or --mention: {error.errors()[0]['msg']}") from error
