"""``kakite agent submit``, ``show``, ``pause``, ``approve``, ``cancel``, ``logs``: tasks of the workers."""

from __future__ import annotations

import asyncio
import json
import math
import os
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

import typer

from kakite.cli.agent_worker import (
    Address,
    Engine,
    check_on_ask,
    check_sandbox,
    check_that_it_may_act,
    model_missing,
    open_log,
    opened_ledger,
    task_settings,
)
from kakite.cli.screen import visible, visible_name
from kakite.cli.task_flags import (
    Branch,
    Given,
    Json,
    Repo,
    takes_settings,
)
from kakite.errors import UsageError
from kakite.visible import whole, whole_values

if TYPE_CHECKING:
    from kakite.agent.durable.ledger import Ledger, Standing
    from kakite.agent.durable.temporal import TemporalLedger
    from kakite.agent.record import Record
    from kakite.agent.run import Run
    from kakite.cli.settings import Settings

T = TypeVar("T")
_LOOK = 0.5  # s between two looks whether a task has ended

Task = Annotated[
    str,
    typer.Argument(
        metavar="ID", help="The task: its id or how it begins, #NUMBER of its issue, or the last part of it."
    ),
]


@takes_settings()
def submit(
    task: Annotated[str, typer.Argument(help="What is to be done, in your words.")],
    repo: Repo,
    branch: Branch = None,
    *,
    given: Given,
    on_ask: Annotated[
        str, typer.Option(metavar="deny|pause", help="What becomes of a call that would be asked about.")
    ] = "pause",
    engine: Engine = "embedded",
    address: Address = "",
    as_json: Json = False,
) -> None:
    """Leave a task to the workers, without an issue. Prints its id."""
    from kakite.agent.address import parse_address
    from kakite.agent.tale import SOLVE
    from kakite.cli.settings import load_settings

    repository = parse_address(repo).url
    settings = load_settings(given, repository=repository)
    # An argument may have bytes that are no letters.
    start = cast("dict[str, Any]", whole_values(_start(task, repository, branch, settings, on_ask)))
    if engine == "embedded":  # else the workers are on other machines
        asyncio.run(check_sandbox(settings.sandbox))
    _with(engine, address, lambda ledger: ledger.submit(start["id"], SOLVE.label, start))
    typer.echo(json.dumps({"id": start["id"]}) if as_json else start["id"])


def _start(task: str, repository: str, branch: str | None, settings: Settings, on_ask: str) -> dict[str, Any]:
    from kakite.agent.record import branch_name

    if not task.strip():
        raise UsageError("the task is empty")
    if not settings.model:
        raise model_missing()
    check_on_ask(on_ask)
    check_that_it_may_act(settings.approve, on_ask)
    name = secrets.token_hex(4)
    return {
        "id": f"task:{name}",
        "forge": {"kind": "none"},
        "trigger": None,
        "title": task.strip().splitlines()[0][:200],
        "text": task,
        "repository": repository,
        "branch": branch_name(branch, task, name),
        "settings": task_settings(settings),
        "on_ask": on_ask,
    }


def show(task: Task, engine: Engine = "embedded", address: Address = "", as_json: Json = False) -> None:
    """Show how a task or a run stands."""
    from kakite.cli.agent_ids import only, run_of

    async def look(ledger: Ledger) -> Standing | None:
        known = await ledger.list()
        found = only(task, [each.id for each in known])
        return next((each for each in known if each.id == found), None)

    standing = None
    if (run := run_of(task)) is None or run.id != task:
        standing = _with(engine, address, look)
    shape = shape_of(standing) if standing else _shape_of_run(task, run)
    if as_json:
        typer.echo(json.dumps(shape, ensure_ascii=False, indent=2))
        return
    for name, value in shape.items():
        if value not in (None, "", {}, []):
            told = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            typer.echo(f"{name:<11}{visible(told)}")


def pause(task: Task, engine: Engine = "embedded", address: Address = "") -> None:
    """Let a task rest at its next step."""

    async def rest(ledger: Ledger, task: str) -> None:
        await _check_that_it_lives(ledger, task)
        await ledger.pause(task)

    task = _with_task(engine, address, task, rest)
    typer.echo(f"`{task}` rests from its next step on. Go on with: kakite agent resume {task}", err=True)


def approve(
    task: Task,
    digest: Annotated[
        str | None,
        typer.Option(
            help="What is answered, as `kakite agent show ID` names it: nothing happens if the task asks "
            "something else. Needed to let a call go."
        ),
    ] = None,
    no: Annotated[bool, typer.Option("--no", help="Say no.")] = False,
    reason: Annotated[str, typer.Option(help="For the model, with --no.")] = "",
    engine: Engine = "embedded",
    address: Address = "",
) -> None:
    """Answer what a task asks: let the call go, or go on; with --no, not."""
    from kakite.agent.shift import answer

    _need_a_person()
    said = said_of("no" if no else "yes", reason)
    asked: Any = {}

    async def tell(ledger: Ledger, task: str) -> None:
        asked.update(await answer(ledger, task, said, digest=digest))

    _with_task(engine, address, task, tell)
    typer.echo(f"Answered {'no' if no else 'yes'}: {visible(_about(asked))}", err=True)


def cancel(
    task: Task,
    now: Annotated[
        bool, typer.Option("--now", help="Leave everything as it is: nothing is pushed, nobody is told.")
    ] = False,
    engine: Engine = "embedded",
    address: Address = "",
) -> None:
    """End a task: what is under way is cut short, what there is is pushed, and its issue is told."""
    from kakite.agent.shift import stop

    async def end(ledger: Ledger, task: str) -> None:
        await _check_that_it_lives(ledger, task)
        if now:
            await ledger.cancel(task)
        else:
            await stop(ledger, task, by=os.environ.get("USER", ""), via="terminal")

    task = _with_task(engine, address, task, end)
    if now:
        return
    typer.echo(f"`{visible(task)}` ends as soon as a worker has pushed what there is.", err=True)


def logs(
    task: Task,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the task has ended.")] = False,
    engine: Engine = "embedded",
    address: Address = "",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the lines as they are kept, as JSON.")
    ] = False,
) -> None:
    """Print what happened in a task on this machine, a line for each event."""
    from kakite.agent.durable.ledger import ENDS, ended
    from kakite.agent.log import spoken

    async def tell(ledger: Ledger, task: str) -> None:
        over = (await ledger.status(task)).state in ENDS or not follow
        watching = asyncio.create_task(ended(ledger, task, math.inf, _LOOK))
        try:
            async for line in open_log().follow(task, lambda: over or watching.done()):
                typer.echo(json.dumps(line, ensure_ascii=False) if as_json else visible(spoken(line)))
        finally:
            watching.cancel()
            await asyncio.wait([watching])

    _with_task(engine, address, task, tell)


def resume_task(task: str, engine: str, address: str) -> None:
    """Let a task of the workers go on: one that was paused, or that waits for a person.

    Raises:
        KakiteError: there is none, or it asks for an approval.
    """
    from kakite.agent.letters import approval_of
    from kakite.agent.shift import asks_of, signal_answer

    _need_a_person()

    async def go_on(ledger: Ledger, task: str) -> None:
        await _check_that_it_lives(ledger, task)
        await ledger.resume(task)
        asks = asks_of(await ledger.status(task))
        if asks is not None and asks["kind"] == "approval":
            how = approval_of(task, str(asks["digest"]))
            raise UsageError(f"`{task}` waits for an answer", hint=f"`{how}`, or with --no")
        if asks is not None:
            await signal_answer(ledger, task, asks, said_of("more", ""))

    _with_task(engine, address, task, go_on)
    typer.echo(f"`{visible(task)}` goes on: the next worker takes it up.", err=True)


async def _check_that_it_lives(ledger: Ledger, task: str) -> None:
    """Refuse to steer a task that is over.

    Raises:
        UsageError: it is (``run_ended``).
    """
    from kakite.agent.durable.ledger import ENDS

    standing = await ledger.status(task)
    if standing.state not in ENDS:
        return
    public = cast("dict[str, Any]", standing.published or {})
    told = _end_of(public) if standing.state == "done" else ""
    raise UsageError(
        f"`{task}` has ended: {told or standing.state}",
        hint=f"`kakite agent show {task}` tells what came of it",
        code="run_ended",
    )


def _end_of(public: Mapping[str, Any]) -> str:
    from kakite.agent.outcome import told_end

    return told_end(public.get("status") or "", public.get("doubt") or "")


def tasks(engine: str = "embedded", address: str = "") -> list[Standing]:
    """Return the workers' tasks, the latest first; on this machine none where there never was one."""
    from kakite.workspace import state_path

    journal = state_path(os.environ) / "agent" / "journal.sqlite"
    if engine == "embedded" and not journal.exists():
        return []
    return list(_with(engine, address, lambda ledger: ledger.list()))


def is_task(given: str, engine: str, address: str) -> bool:
    """Tell whether a task of the workers is meant.

    Raises:
        UsageError: several may be meant.
    """
    from kakite.cli.agent_ids import only

    return only(given, [each.id for each in tasks(engine, address)]) is not None


def run_of_task(given: str, engine: str, address: str) -> Run | None:
    """Return the run of a task as it was last published; None if there is no such task, or it never began.

    Raises:
        UsageError: several tasks may be meant.
    """
    from kakite.agent.durable.blobs import Blobs
    from kakite.agent.luggage import Luggage
    from kakite.cli.agent_ids import only
    from kakite.cli.agent_worker import agent_folder

    standings = {each.id: each for each in tasks(engine, address)}
    task = only(given, standings) or ""
    standing = standings.get(task)
    published = cast("dict[str, Any]", standing.published or {}) if standing else {}
    head = published.get("head")
    if not head:
        return None
    luggage = Luggage(Blobs(agent_folder() / "blobs"))

    async def load(ledger: Ledger) -> Run:
        if engine == "temporal":
            luggage.travel(cast("TemporalLedger", ledger).recorded)
        return await luggage.load(task, head)

    return _with(engine, address, load)


_OURS = {"id", "start", "accepted", "seen"}


def shape_of(standing: Standing) -> dict[str, Any]:
    """Return the documented shape of a task (docs/agent.md)."""
    published = cast("dict[str, Any]", standing.published or {})
    return {
        "id": standing.id,
        "state": standing.state,
        **{name: value for name, value in published.items() if name not in _OURS},
        "reason": standing.error,
    }


def row_of(standing: Standing) -> tuple[str, str, str, str]:
    """Return a task for a list: id, state, the branch if something was pushed to it, title."""
    public = cast("dict[str, Any]", standing.published or {})
    asks = public.get("asks") if standing.state == "waiting" else None
    state = f"waits: {asks['kind']}" if asks else _end_of(public) or standing.state
    title = visible_name(str(public.get("title", ""))[:60])
    branch = str(public.get("branch", "")) if public.get("pushed") else ""
    return standing.id, state.replace("_", " "), visible_name(branch), title


def said_of(answer: str, reason: str) -> dict[str, Any]:
    """Return an answer as a story takes it."""
    by = os.environ.get("USER", "")
    return {"answer": answer, "reason": whole(reason), "by": by, "via": "terminal", "budget": None}


def _need_a_person() -> None:
    from kakite.host.trust import NotAPersonError
    from kakite.processes import inside_a_run

    if inside_a_run():
        raise NotAPersonError(
            "only a person can answer what a task asks, and this is a program that Kakite runs",
            hint="ask the person to answer in a terminal of their own, on the page, or below the issue",
        )


def _about(asked: Any) -> str:
    return (
        f"{asked['tool']} {json.dumps(asked['arguments'], ensure_ascii=False)}"
        if asked["tool"]
        else asked["text"]
    )


def _shape_of_run(given: str, record: Record | None) -> dict[str, Any]:
    """Return what is known of a run of ``kakite agent run``.

    Raises:
        KakiteError: there is none (``task_unknown``).
    """
    from kakite.cli.agent_ids import unknown
    from kakite.cli.report import as_json as shape

    if record is None:
        raise unknown(given)
    run = record.load()
    known = {"id": run.task.id, "task": run.task.text, "phase": run.phase, "failed": record.failure()}
    return {**known, **{name: value for name, value in shape(run).items() if name not in _LONG}}


_LONG = {"steps", "diff", "plan"}


def _with_task(engine: str, address: str, given: str, use: Callable[[Ledger, str], Awaitable[object]]) -> str:
    """Do something with the task that is meant, and return its id."""
    from kakite.cli.agent_ids import task_of

    async def run(ledger: Ledger) -> str:
        task = await task_of(ledger, given)
        await use(ledger, task)
        return task

    return _with(engine, address, run)


def _with(engine: str, address: str, use: Callable[[Ledger], Awaitable[T]]) -> T:
    async def run() -> T:
        async with opened_ledger(engine, address) as ledger:
            return await use(ledger)

    return asyncio.run(run())
