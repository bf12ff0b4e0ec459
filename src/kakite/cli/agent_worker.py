"""``kakite agent worker``: issues become pushed branches with review pages, and nobody need be there."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kakite.cli.ending import INTERRUPTED, is_interruption, until_signalled
from kakite.cli.offered import words
from kakite.cli.screen import visible
from kakite.cli.task_flags import (
    Given,
    takes_settings,
)
from kakite.cli.worker_view import WorkerView
from kakite.errors import UsageError

if TYPE_CHECKING:
    from kakite.agent.durable.ledger import Ledger
    from kakite.agent.events import Event
    from kakite.agent.forges.forge import Forge
    from kakite.agent.forges.names import Names
    from kakite.agent.log import Log
    from kakite.agent.run import Task
    from kakite.agent.shift import Post, Shift
    from kakite.agent.stage import Gear, Stage
    from kakite.cli.settings import Settings
    from kakite.host import Mode
    from kakite.models.model import Model

WEBHOOK_SECRET = "KAKITE_WEBHOOK_SECRET"  # noqa: S105 - a name

Engine = Annotated[
    str,
    typer.Option(
        metavar="embedded|temporal",
        autocompletion=words("embedded", "temporal"),
        help="What keeps tasks: a folder, or a Temporal server.",
    ),
]
Address = Annotated[str, typer.Option(metavar="HOST:PORT", help="The Temporal server.")]
ForgePlace = Annotated[
    tuple[str, str] | None,
    typer.Option(
        metavar="KIND PLACE",
        help="Where issues come from: local DIR, github OWNER/NAME, gitlab GROUP/NAME. "
        "Without: only what was submitted.",
    ),
]
ForgeUrl = Annotated[str, typer.Option(help="A server of your own: GitHub's API, or GitLab's address.")]
Labels = Annotated[
    list[str] | None,
    typer.Option(
        metavar="STATE=NAME",
        help="Another label for a state: waiting, processing, done, paused, stopped. May be repeated.",
    ),
]
Mention = Annotated[str | None, typer.Option(help="Who is meant by @NAME in a comment.")]
OnAsk = Annotated[
    str,
    typer.Option(
        metavar="deny|pause",
        autocompletion=words("deny", "pause"),
        help="What becomes of a call that a person would be asked about: denied, or the task waits.",
    ),
]
Draft = Annotated[
    str,
    typer.Option(
        metavar="early|late",
        autocompletion=words("early", "late"),
        help="When the draft of a pull request is opened: with the first change, or with the work.",
    ),
]
UntilIdle = Annotated[
    bool, typer.Option("--until-idle", help="End when no work is left; else go on until ended.")
]
Concurrency = Annotated[int, typer.Option(min=1, help="Tasks at once.")]
Poll = Annotated[float, typer.Option(min=0.1, help="Seconds between two looks at the forge.")]
Webhooks = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="Listen there for the forge's webhooks, which wake the worker before its next look; port 0 "
        "takes a free one. The secret is taken from KAKITE_WEBHOOK_SECRET.",
    ),
]


@takes_settings()
def worker(
    *,
    forge: ForgePlace = None,
    forge_url: ForgeUrl = "",
    label: Labels = None,
    mention: Mention = None,
    given: Given,
    on_ask: OnAsk = "deny",
    draft: Draft = "early",
    until_idle: UntilIdle = False,
    concurrency: Concurrency = 8,
    poll: Poll = 30.0,
    webhooks: Webhooks = None,
    engine: Engine = "embedded",
    address: Address = "",
) -> None:
    """Work through the issues that carry the label, and what was submitted; any number of workers may."""
    from kakite.cli.settings import load_settings

    load = partial(load_settings, given)
    check_on_ask(on_ask)
    if draft not in {"early", "late"}:
        raise UsageError(f"--draft takes early or late, not `{draft}`")
    names = _names(label or [], mention)
    place = None if forge is None else _place(*forge, forge_url)
    work = _work(
        load,
        names,
        place,
        asking={"on_ask": on_ask, "draft": draft},
        until_idle=until_idle,
        concurrency=concurrency,
        poll=min(poll, 1.0) if until_idle else poll,
        engine=engine,
        address=address,
        listening=_listening(webhooks, place),
    )
    try:
        asyncio.run(until_signalled(work))
    except (KeyboardInterrupt, asyncio.CancelledError, BaseExceptionGroup) as error:
        if not is_interruption(error):
            raise
        typer.echo("Ended; what is not done yet, the next worker goes on with.", err=True)
        raise typer.Exit(INTERRUPTED) from None


async def _work(
    load: Callable[..., Settings],
    names: Names,
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
    from kakite.agent.durable.blobs import Blobs
    from kakite.agent.errands import Errands
    from kakite.agent.shift import Shift
    from kakite.agent.stage import staged
    from kakite.host.redaction import secrets_of

    folder = agent_folder()
    blobs = Blobs(folder / "blobs")
    redaction = secrets_of(os.environ)
    errands = Errands(lambda where: open_forge(where, os.environ), names, blobs, redaction)
    forge = None if place is None else open_forge(place, os.environ)
    view = WorkerView()
    settings = load(repository=(await _checked(forge)) if forge else "")
    if forge is not None:
        check_that_it_may_act(settings.approve, asking["on_ask"])
    post = _post(settings, names, place, forge, asking) if place and forge else None
    if post is not None or settings.sandbox != "auto":  # what is submitted says itself where it is to run
        await check_sandbox(settings.sandbox)
    async with (
        staged(folder, _gear(settings, errands, view)) as stage,
        working(stage, folder, engine=engine, address=address, concurrency=concurrency) as ledger,
    ):
        shift = Shift(ledger=ledger, errands=errands, post=post, say=view.say, sweep=stage.sweep)
        view.begun, view.at_once = shift.begins, lambda: len(shift.under_way)
        async with _heard(listening, post, shift):
            await shift.work(poll=poll, until_idle=until_idle)


def _listening(webhooks: str | None, place: Mapping[str, str] | None) -> socket.socket | None:
    """Open the socket for webhooks, if they are wanted.

    Raises:
        UsageError: it is no address, the forge sends none, or there is no secret (``missing_secret``).
        ListenError: the address cannot be listened on.
    """
    from kakite.agent.forges.doorbell import JUDGES
    from kakite.serve.web import listen, parse_address

    if webhooks is None:
        return None
    where = parse_address(webhooks)
    if place is None or place["kind"] not in JUDGES:
        raise UsageError("--webhooks needs --forge github or gitlab", hint="a folder sends no webhooks")
    if not os.environ.get(WEBHOOK_SECRET, ""):
        raise UsageError(
            f"the variable {WEBHOOK_SECRET} holds no secret",
            hint="set it to the secret that the webhook was set up with: nobody is believed without",
            code="missing_secret",
        )
    return listen(where)


@asynccontextmanager
async def _heard(listening: socket.socket | None, post: Post | None, shift: Shift) -> AsyncGenerator[None]:
    """Let webhooks wake the worker as long as the block lasts, if they are wanted."""
    if listening is None or post is None:
        yield
        return
    from kakite.agent.forges.doorbell import WEBHOOK, Doorbell, build_doorbell
    from kakite.serve.web import Limits, served

    doorbell = Doorbell(
        kind=post.place["kind"],
        path=post.place["path"],
        secret=os.environ[WEBHOOK_SECRET],
        bell=shift.bell,
        say=shift.say_once,
    )
    host, port = listening.getsockname()[:2]
    async with served(build_doorbell(doorbell), listening, Limits(connections=64)):
        _say(f"listens for webhooks at http://{f'[{host}]' if ':' in host else host}:{port}{WEBHOOK}")
        yield


def _say(line: str) -> None:
    typer.echo(visible(line), err=True)


async def _checked(forge: Forge) -> str:
    """Return the address of a forge's repository, which the settings may say something about."""
    await forge.check()
    return (await forge.repository()).address


def _post(
    settings: Settings, names: Names, place: Mapping[str, str], forge: Forge, asking: Mapping[str, str]
) -> Post:
    from kakite.agent.shift import Post

    if not settings.model:
        raise model_missing()
    return Post(forge=forge, place=place, names=names, settings=task_settings(settings), **asking)


def _gear(settings: Settings, errands: Any, view: WorkerView) -> Gear:
    from kakite.agent.author import author
    from kakite.agent.day import Days
    from kakite.agent.stage import Gear
    from kakite.cli.settings import tooling_of
    from kakite.workspace import state_folder

    log = open_log()

    def hear(task: str, event: Event) -> None:
        log.listener(task)(event)
        view.hear(task, event)

    return Gear(
        environ=os.environ,
        open_model=open_model_of,
        author=author(os.environ),
        errands=errands,
        tooling=tooling_of(settings),
        days=Days(state_folder(os.environ)),
        listener=hear,
    )


def open_model_of(task: Task) -> Model:
    """Return the model that a task names, with keys from the environment.

    Raises:
        ModelConfigError: there is no such provider, or its key or library is missing.
    """
    from kakite.models.fenced import FencedModel
    from kakite.models.providers import open_model

    model = open_model(task.model, base_url=task.base_url, environ=os.environ)
    return FencedModel(model, task.tool_calls)


def task_settings(settings: Settings) -> dict[str, object]:
    """Return what a task is given of the settings."""
    from kakite.agent.run import Task
    from kakite.cli.budgets import limited

    nothing = dict.fromkeys(("id", "text", "repository", "branch", "model", "sandbox", "approve"), "")
    limits = limited(Task(**nothing, max_turns=1), settings)
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
        "network": settings.network,
        "hosts": list(settings.hosts),
        "setup": settings.setup == "auto",
    }


def check_on_ask(on_ask: str) -> None:
    """Refuse what `--on-ask` does not take.

    Raises:
        UsageError: it is neither deny nor pause.
    """
    if on_ask not in {"deny", "pause"}:
        raise UsageError(f"--on-ask takes deny or pause, not `{on_ask}`")


def check_that_it_may_act(approve: Mode, on_ask: str) -> None:
    """Refuse tasks that could only look: every turn of theirs would be paid for in vain.

    Raises:
        UsageError: what a person would be asked about is denied, and nothing that changes files goes unasked.
    """
    from kakite.host.approval import LOOKING, MODES

    if on_ask == "deny" and MODES[approve] == LOOKING:
        raise UsageError(
            "what a person would be asked about is denied, so the model could change nothing",
            hint="let it act unasked: `--approve edits` (changes of files) or `--approve all` (commands), "
            "or let tasks wait for your answers: `--on-ask pause`",
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


def model_missing() -> UsageError:
    """Return the error for a task without a model."""
    return UsageError("no model was named", hint="give one with --model PROVIDER:NAME", code="model_missing")


def agent_folder() -> Path:
    """Return the folder where tasks are kept, made if missing."""
    from kakite.workspace import state_folder

    folder = state_folder(os.environ) / "agent"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def open_log() -> Log:
    """Return what this machine's workers write of their tasks."""
    from kakite.agent.log import Log
    from kakite.host.redaction import secrets_of

    return Log(agent_folder() / "logs", secrets_of(os.environ))


def open_forge(place: Mapping[str, Any], environ: Mapping[str, str]) -> Forge:
    """Return the forge at a place: kind, path and url.

    Raises:
        UsageError: there is no such kind, or a token or library is missing.
        ForgeError: there is no such folder.
    """
    match place["kind"]:
        case "local":
            from kakite.agent.forges.local import LocalForge

            return LocalForge(Path(place["path"]), report=lambda error: _say(f"local: {error.message}"))
        case "github":
            from kakite.agent.forges.opening import open_github

            return open_github(place["path"], environ, api_url=place["url"])
        case "gitlab":
            from kakite.agent.forges.opening import open_gitlab

            return open_gitlab(place["path"], environ, url=place["url"])
        case kind:
            raise UsageError(f"there is no forge `{kind}`", hint="known are local, github and gitlab")


@asynccontextmanager
async def opened_ledger(engine: str, address: str) -> AsyncGenerator[Ledger]:
    """Open where tasks are noted.

    Raises:
        UsageError: there is no such engine, or its library is missing (``missing_extra``).
        LedgerError: it cannot be used.
    """
    check_engine(engine, address)
    if engine == "temporal":
        from kakite.agent.durable.temporal import temporal_ledger

        async with temporal_ledger(address) as ledger:
            yield ledger
    else:
        from kakite.agent.durable.embedded import EmbeddedLedger

        async with EmbeddedLedger(agent_folder()) as ledger:
            yield ledger


@asynccontextmanager
async def working(
    stage: Stage, folder: Path, *, engine: str, address: str, concurrency: int
) -> AsyncGenerator[Ledger]:
    """Tell the stories of tasks as long as the block lasts.

    Raises:
        UsageError, LedgerError: as ``opened_ledger``.
    """
    from kakite.agent.tale import SOLVE

    check_engine(engine, address)
    effects = stage.effects()
    if engine == "temporal":
        from kakite.agent.durable import temporal

        far = temporal.Pace(concurrency=concurrency)
        async with temporal.temporal_ledger(address) as ledger:
            stage.luggage.travel(ledger.recorded)
            async with temporal.working(address, [SOLVE], effects, far):
                yield ledger
    else:
        from kakite.agent.durable import worker as embedded

        near = embedded.Pace(concurrency=concurrency)
        async with opened_ledger(engine, "") as known, embedded.working(folder, [SOLVE], effects, near):
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
            hint=f"pip install 'kakite[{extra}]', in the environment that has kakite",
            code="missing_extra",
        )


_STATES = ("waiting", "processing", "done", "paused", "stopped")


def _place(kind: str, path: str, url: str) -> dict[str, str]:
    return {"kind": kind, "path": str(Path(path).resolve()) if kind == "local" else path, "url": url}


def _names(labels: list[str], mention: str | None) -> Names:
    from pydantic import ValidationError

    from kakite.agent.forges.names import Names

    given: dict[str, str] = {"mention": mention} if mention else {}
    for each in labels:
        state, _, name = each.partition("=")
        if state not in _STATES:
            raise UsageError(f"--label: there is no state `{state}`", hint=f"known are {', '.join(_STATES)}")
        given[state] = name
    try:
        return Names.model_validate(given)
    except ValidationError as error:
        raise UsageError(f"--label or --mention: {error.errors()[0]['msg']}") from error
