"""Implements ``kakite host accept``: nothing is agreed to that the person did not see."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import typer

from kakite.cli.console import escape_one_line, print_json
from kakite.cli.host.actions import (
    build_unknown_error,
    is_unreadable,
    print_problem,
    resolve_project,
    run,
)
from kakite.cli.host.output import print_accepted, render_server_rows, to_accepted_json
from kakite.cli.prompts import TerminalPrompter, is_interactive
from kakite.errors import UsageError

if TYPE_CHECKING:
    from kakite.host.host import ConsentResult, Host, ServerInfo

_START_CHOICES = {
    "y": "yes: save your answer now, start it, and show you its tools",
    "n": "no: do not start it; `kakite host accept` asks you again",
    "Ctrl-C": "stop here; Kakite keeps the answers that you gave",
}
_TOOLS_CHOICES = {
    "y": "yes: these tools may be offered, exactly as you saw them",
    "n": "no: they wait; `kakite host accept` asks you again",
    "Ctrl-C": "stop here; Kakite keeps the answers that you gave",
}
_NAMED_TOOLS = 8  # names in the question; more are counted


class Confirmer(Protocol):
    """Who is asked."""

    async def show_pages(self, rows: Iterable[str]) -> bool:
        """Show rows; say whether the person saw all."""
        ...

    async def confirm(self, text: str, meaning: Mapping[str, str]) -> bool:
        """Ask for yes or no; ``meaning`` explains the answers."""
        ...


class DigestRequiredError(UsageError):
    """Nobody can be asked, and nothing says what the person saw. Code: ``digest_required``."""

    code = "digest_required"


def accept(project: Path, names: Sequence[str], digest: str, *, every: bool, as_json: bool) -> int:
    """Record consent; 0 once it is recorded or nothing waits for it, 1 if the person agreed to nothing."""
    if digest and (every or len(names) != 1):
        raise UsageError("--digest is for one server", hint="name the server that you looked at")
    told: Callable[[ConsentResult], None] = (lambda _: None) if as_json else print_accepted
    agreed = run(_accept(resolve_project(project), names, digest, told, every=every))
    if as_json:
        print_json({"accepted": list(map(to_accepted_json, agreed or ()))})
    return 0 if agreed is None or any(one.recorded for one in agreed) else 1


async def _accept(
    project: Path, names: Sequence[str], digest: str, told: Callable[[ConsentResult], None], *, every: bool
) -> Sequence[ConsentResult] | None:
    """Return what the person agreed to, each told as soon as it is recorded; None if nothing waits."""
    from kakite.host.consent.store import require_user
    from kakite.host.open import open_host

    require_user()
    async with open_host(project) as opened:
        host = opened.host
        for problem in host.problems:
            print_problem(problem)
        known = [entry.name for entry in host.entries]
        for name in names:
            if name not in known:
                raise build_unknown_error(name, known)
        if digest:
            agreed = await host.accept({names[0]: digest})
            told(agreed[0])
            return agreed
        waiting = _select_waiting(await host.inspect_servers(names=names or None), names, every=every)
        if not waiting and is_unreadable(known, host.problems):
            return ()
        if not waiting:
            typer.echo("nothing waits for your consent", err=True)
            return None
        return await _ask_for_each(host, waiting, told)


def _select_waiting(seen: Sequence[ServerInfo], names: Collection[str], *, every: bool) -> list[ServerInfo]:
    also = every or bool(names)
    states = ("needs_consent", "quarantined", "disabled") if also else ("needs_consent", "quarantined")
    return [one for one in seen if one.state in states]


async def _ask_for_each(
    host: Host, waiting: Sequence[ServerInfo], told: Callable[[ConsentResult], None]
) -> Sequence[ConsentResult]:
    """Ask for each server, and record each yes before the next question: who stops here keeps it."""
    if not is_interactive():
        names = " ".join(one.entry.name for one in waiting)
        raise DigestRequiredError(
            f"these wait for consent, and without a terminal Kakite cannot ask you: {escape_one_line(names)}",
            hint="look at them with `kakite host tools`, which says how to accept what it shows: "
            "`kakite host accept SERVER --digest DIGEST`",
        )
    asker = TerminalPrompter(session=False)
    agreed: list[ConsentResult] = []
    try:
        for one in waiting:
            await ask_for_server(host, one, asker, agreed, told)
    except asyncio.CancelledError:
        yes = dict.fromkeys(one.entry.name for one in agreed if one.recorded)
        recorded = escape_one_line(", ".join(yes)) or "nothing"
        typer.echo(f"\nStopped. Recorded: {recorded}", err=True)
        raise
    return agreed


async def ask_for_server(
    host: Host,
    one: ServerInfo,
    asker: Confirmer,
    agreed: list[ConsentResult],
    told: Callable[[ConsentResult], None],
) -> None:
    """Ask whether it may start, then about its tools; again about tools that changed meanwhile."""
    look: ServerInfo | None = one
    while look is not None:
        if not await asker.show_pages(render_server_rows(look, err=True)):
            return
        if not await asker.confirm(_format_question(look), _TOOLS_CHOICES if look.tools else _START_CHOICES):
            return
        (done,) = await host.accept({look.entry.name: look.digest})
        agreed.append(done)
        told(done)
        look = done.look


def _format_question(look: ServerInfo) -> str:
    from kakite.host.host import list_waiting_tools

    name = look.entry.name
    if not look.tools:
        return f"Agree to {name} as it is now?"
    tools = [escape_one_line(tool.definition.tool.name) for tool in list_waiting_tools(look)]
    more = f" and {len(tools) - _NAMED_TOOLS} more" if len(tools) > _NAMED_TOOLS else ""
    return f"Accept these tools of {name} as shown: {', '.join(tools[:_NAMED_TOOLS])}{more}?"
