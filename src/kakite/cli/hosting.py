"""What the commands of ``kakite host`` do."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import typer

from kakite.cli.asking import Asker, interactive
from kakite.cli.ending import INTERRUPTED, InputEndedError
from kakite.cli.host_seen import print_agreed, print_seen
from kakite.cli.host_shapes import agreed_shape, origin_shape, problem_shape, seen_shape
from kakite.cli.screen import print_json, visible, visible_name
from kakite.errors import KakiteError, OutsideError, UsageError

if TYPE_CHECKING:
    from kakite.host.config import Problem
    from kakite.host.consented import Offered
    from kakite.host.entries import ServerEntry
    from kakite.host.host import Agreed, Host, Seen
    from kakite.host.importing import Insertion
    from kakite.host.login import LoggedIn
    from kakite.host.requests import Surroundings
    from kakite.host.session import HostToolset
    from kakite.tools.toolset import JsonObject, ToolResult

_LOOKED = 18.0  # s after its start at which the list of tools is due
_STOPPED = 21.0  # s after its start at which the servers are killed; it ends before 30
_BROKEN = {
    "authorization_required",
    "bad_variable",
    "call_timed_out",
    "connect_timeout",
    "connection_refused",
    "host_unknown",
    "http_error",
    "http_forbidden",
    "http_not_found",
    "http_redirected",
    "http_server_error",
    "http_too_many",
    "http_unauthorized",
    "invalid_result",
    "server_failed",
    "server_not_started",
    "server_resting",
    "server_stopped",
    "tls_failed",
    "unset_variable",
}


_AGREEING = {
    "y": "yes: record it now, start it, and take its tools as they are",
    "n": "no: it is not started; `kakite host accept` asks again",
    "Ctrl-C": "stop here; what you said yes to stays recorded",
}

_Result = TypeVar("_Result")


class UnknownServerError(UsageError):
    """No server of this name is configured. Code: ``unknown_server``."""

    code = "unknown_server"


class CallError(KakiteError):
    """A call gave no result that can be used. Its code is the result's."""


class BrokenServerError(OutsideError):
    """A server failed in a call. Its code is the result's."""


def show_tools(project: Path, *, as_json: bool) -> None:
    """List every server's state and tools."""
    seen, problems = _run(_look(existing(project)))
    if as_json:
        shape = {"servers": list(map(seen_shape, seen)), "problems": list(map(problem_shape, problems))}
        print_json(shape)
        return
    for problem in problems:
        _print_problem(problem)
    if not seen:
        typer.echo("no servers are configured: write .pi/mcp-servers.json, or `kakite host import`", err=True)
    for one in seen:
        print_seen(one)


async def _look(project: Path) -> tuple[tuple[Seen, ...], tuple[Problem, ...]]:
    from kakite.host.host import LOOK_LIMIT
    from kakite.host.session import open_host

    async with open_host(project) as opened:
        seen = await opened.host.look(min(LOOK_LIMIT, max(_LOOKED - _age(), 1)))
        await opened.host.close(within=max(_STOPPED - _age(), 1))
        return seen, opened.host.problems


def _age() -> float:
    """Return the seconds since this program was started: loading it counts for who waits."""
    try:
        told = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace")
        began = int(told.rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
        return max(time.clock_gettime(time.CLOCK_BOOTTIME) - began, 0.0)
    except (OSError, ValueError, IndexError, AttributeError):
        return 0.0


def accept(project: Path, names: Sequence[str], *, every: bool, as_json: bool) -> int:
    """Record consent; 0 once it is recorded or nothing waits for it, 1 if the person agreed to nothing."""
    told: Callable[[Agreed], None] = (lambda _: None) if as_json else print_agreed
    agreed = _run(_accept(existing(project), names, told, every=every))
    if as_json:
        print_json({"accepted": list(map(agreed_shape, agreed or ()))})
    return 0 if agreed or agreed is None or every else 1


async def _accept(
    project: Path, names: Sequence[str], told: Callable[[Agreed], None], *, every: bool
) -> Sequence[Agreed] | None:
    """Return what the person agreed to, each told as soon as it is recorded; None if nothing waits."""
    from kakite.host.session import open_host
    from kakite.host.trust import need_a_person

    need_a_person()
    async with open_host(project) as opened:
        await opened.host.reload()
        entries = {entry.name: entry for entry in opened.host.entries}
        for problem in opened.host.problems:
            _print_problem(problem)
        for name in names:
            if name not in entries:
                raise _unknown(name, entries)
        if every or names:
            chosen = list(entries) if every else list(dict.fromkeys(names))
            for name in chosen:
                typer.echo(opened.host.described(entries[name]), err=True)
                if diff := opened.host.difference(name):
                    typer.echo(visible(diff), err=True)
            agreed = await opened.host.accept(chosen, entries=list(entries.values()))
            for one in agreed:
                told(one)
            return agreed
        waiting = [one for one in await opened.host.look() if one.state in {"needs_consent", "quarantined"}]
        if not waiting:
            typer.echo("nothing waits for your consent", err=True)
            return None
        return await _ask_for_each(opened.host, waiting, told)


async def _ask_for_each(
    host: Host, waiting: Sequence[Seen], told: Callable[[Agreed], None]
) -> Sequence[Agreed]:
    """Ask for each server, and record each yes before the next question: who stops here keeps it."""
    if not interactive():
        names = " ".join(one.entry.name for one in waiting)
        raise UsageError(
            f"these wait for consent: {visible_name(names)}",
            hint="name them, or give --all, to agree to them",
        )
    asker = Asker(session=False)
    agreed: list[Agreed] = []
    yes: list[str] = []
    try:
        for one in waiting:
            name = one.entry.name
            print_seen(one, err=True)
            if await asker.confirm(f"Agree to {name} as it is now?", _AGREEING):
                yes.append(name)
                shown = {name: [tool.digest for tool in one.tools]} if one.tools else {}
                agreed += await host.accept([name], shown, entries=[one.entry])
                told(agreed[-1])
    except asyncio.CancelledError:
        recorded = visible_name(", ".join(yes)) or "nothing"
        typer.echo(f"\nStopped. Recorded: {recorded}", err=True)
        raise
    return agreed


@dataclass(frozen=True, slots=True, kw_only=True)
class Calling:
    """How a call is made."""

    yes: bool = False
    """Whether it goes without a question, unless a rule forbids it."""
    trace_arguments: bool = False
    """Whether its arguments are noted in the trace."""


def call(project: Path, server: str, tool: str, arguments: str, how: Calling, *, as_json: bool) -> int:
    """Call a tool; print its text; return 0 if it worked, 1 if not, 3 if the server failed.

    A terminal gets the text with control characters made visible, a file or a pipe exactly as it is. What
    went wrong is for a person, and always made visible.
    """
    from kakite.host.trust import need_a_person

    if how.yes:
        need_a_person()
    given = _arguments(arguments)
    try:
        result = _run(_call(existing(project), server, tool, given, how))
    except (CallError, BrokenServerError) as error:
        if not as_json:
            raise
        _print_result(ok=False, code=error.code, text=error.message, details={"hint": error.hint})
        return error.exit_code
    if result.code == "approval_required" and not as_json:
        raise _unapproved(result, server, tool)
    if as_json:
        _print_result(ok=not result.is_error, code=result.code, text=result.text, details=result.details)
    elif result.is_error:
        said = result.text if f"({result.code})" in result.text else f"error ({result.code}): {result.text}"
        typer.echo(visible(said), err=True)
    elif sys.stdout.isatty():
        typer.echo(visible(result.text))
    else:  # not by typer, which would leave out what colours a terminal
        sys.stdout.buffer.write(f"{result.text}\n".encode(errors="backslashreplace"))
        sys.stdout.buffer.flush()
    return _exit_code(result)


def _print_result(*, ok: bool, code: str, text: str, details: JsonObject) -> None:
    print_json({"ok": ok, "code": code, "text": text, "details": details})


def _exit_code(result: ToolResult) -> int:
    if not result.is_error:
        return 0
    return 3 if result.code in _BROKEN else 1


def _unapproved(result: ToolResult, server: str, tool: str) -> CallError:
    if "rule" not in result.details:  # the person said no
        told = result.text.partition("\n")[0].removeprefix(f"Error ({result.code}): ")
        return CallError(told, code=result.code)
    hint = f"`--yes` allows this call, `kakite host rules add allow {server}__{tool}` all of them"
    told = f"no rule allows `{tool}` of `{server}`, and nobody is here to be asked; nothing was done"
    return CallError(told, hint=hint, code=result.code)


async def _call(project: Path, server: str, tool: str, arguments: JsonObject, how: Calling) -> ToolResult:
    from kakite.cli.progress_line import ProgressLine, QuietAsker
    from kakite.host.approval import LOOKING, NobodyToAsk
    from kakite.host.rules import exactly
    from kakite.host.session import HostOptions, open_host
    from kakite.tools.toolset import ToolCall

    line = ProgressLine(sys.stderr, f"{server} {tool}")
    asker = QuietAsker(Asker(session=False), line) if interactive() else None
    rules = (exactly("allow", server, tool), *LOOKING) if how.yes else LOOKING
    options = HostOptions(
        approver=asker or NobodyToAsk(),
        elicit=asker,
        rules=rules,
        tokens=sys.maxsize,
        trace_arguments=how.trace_arguments,
        only=(server,),
    )
    async with open_host(project, options) as opened:
        name = await _name(opened, server, tool)
        try:
            return await opened.call(ToolCall(id="1", name=name, arguments=arguments), on_progress=line.told)
        finally:
            line.close()


async def _name(opened: HostToolset, server: str, tool: str) -> str:
    """Return what a model calls a tool by, if it may be used."""
    from kakite.host.trust import Accepted

    found = next(iter(await opened.host.look()), None)
    if found is None:
        raise _unknown(server, opened.host.configured)
    named = next((each for each in found.tools if each.definition.tool.name == tool), None)
    if named is not None and isinstance(named.standing, Accepted):
        await opened.tools()
        return named.name
    raise _unusable(found, named, tool)


def _unusable(found: Seen, named: Offered | None, tool: str) -> KakiteError:
    from kakite.tools.arguments import nearest

    name = found.entry.name
    if found.state == "failed":
        return BrokenServerError(found.reason, hint=found.hint, code=found.code or "server_not_started")
    if named is not None or (found.state in {"needs_consent", "quarantined", "disabled"} and not found.tools):
        state = "quarantined" if named is not None else found.state
        return CallError(f"`{name}` is not let in ({state}): {found.reason}", hint=found.hint, code=state)
    known = [each.definition.tool.name for each in found.tools]
    return CallError(f"`{name}` has no tool `{tool}`", hint=nearest(tool, known), code="unknown_tool")


def check(project: Path, *, as_json: bool) -> int:
    """Check the configuration; 1 if something in it cannot be used."""
    from kakite.host.config import load

    config = load(existing(project), os.environ)
    if as_json:
        shape = {
            "servers": [{"name": entry.name, **origin_shape(entry)} for entry in config.entries],
            "problems": list(map(problem_shape, config.problems)),
            "files": [{"file": str(file), "there": file.exists()} for file in config.files],
        }
        print_json(shape)
    else:
        for problem in config.problems:
            _print_problem(problem)
        for entry in config.entries:
            state = " (disabled)" if entry.disabled else ""
            typer.echo(
                f"{visible_name(entry.name)}{state}  {visible_name(entry.origin.file)}:{entry.origin.line}"
            )
    return 1 if any(problem.fatal for problem in config.problems) else 0


def import_servers(
    project: Path, client: str, names: Sequence[str], *, every: bool, user: bool, as_json: bool
) -> int:
    """Show another program's servers, take over those that are named."""
    from kakite.host.config import project_file, user_file
    from kakite.host.importing import Insertion, import_from, insert
    from kakite.host.trust import describe, need_a_person

    if names or every:
        need_a_person()
    folder = existing(project)
    home = Path(os.environ.get("HOME") or Path.home())
    config = import_from(client, home, folder, os.environ)
    entries = {entry.name: entry for entry in config.entries}
    for problem in config.problems:
        _print_problem(problem)
    for name in names:
        if name not in entries:
            raise _unknown(name, entries)
    chosen = [entries[name] for name in (entries if every else dict.fromkeys(names))]
    file = user_file(os.environ) if user else project_file(folder)
    within = None if user else folder
    done = insert(file, chosen, within=within) if chosen else Insertion(added=(), present=())
    if as_json:
        told = {"added": done.added, "present": done.present, "dropped": done.dropped}
        print_json({"servers": sorted(entries), **told, "file": str(file)})
        return 0
    for entry in chosen or entries.values():
        typer.echo(describe(entry))
    _print_insertion(done, file, client, found=bool(entries))
    if done.added and not user:
        typer.echo("next: kakite host accept", err=True)
    return 0


def _print_insertion(done: Insertion, file: Path, client: str, *, found: bool) -> None:
    if not found:
        typer.echo(f"{client} has no servers", err=True)
    elif not done.added and not done.present:
        typer.echo("nothing was taken over: name servers, or give --all", err=True)
    if done.present:
        typer.echo(f"left as they are, since the file has them: {', '.join(done.present)}", err=True)
    if done.added:
        typer.echo(f"written to {visible_name(str(done.file or file))}: {', '.join(done.added)}", err=True)
    for name, keys in done.dropped.items():
        told = f"{name}: {', '.join(keys)} not taken over: what goes without a question, you say yourself"
        typer.echo(visible(told), err=True)


def login(project: Path, server: str) -> int:
    """Log in to a remote server."""
    done = _run(_login(project, server))
    who = visible_name(done.issuer) if done.issuer else ""
    if not who:
        typer.echo(f"{visible_name(server)} wants no login")
        return 0
    scopes = f", for {visible_name(' '.join(done.scopes))}" if done.scopes else ""
    typer.echo(f"{visible_name(server)}: logged in by {who}{scopes}")
    return 0


def logout(project: Path, server: str) -> int:
    """Forget what is remembered of a login."""
    there_was = _run(_logout(project, server))
    typer.echo(f"{visible_name(server)}: {'logged out' if there_was else 'there was no login'}")
    return 0


async def _logout(project: Path, server: str) -> bool:
    from kakite.host.login import log_out
    from kakite.host.trust import need_a_person

    need_a_person()
    return log_out(*await _remote(project, server))


async def _login(project: Path, server: str) -> LoggedIn:
    from kakite.cli.visitor import Browsing
    from kakite.host.login import log_in
    from kakite.host.trust import need_a_person

    need_a_person()
    browsing = Browsing(lambda line: typer.echo(visible(line), err=True), os.environ)
    entry, surroundings = await _remote(project, server)
    return await log_in(entry, replace(surroundings, visitor=browsing), anew=True)


async def _remote(project: Path, server: str) -> tuple[ServerEntry, Surroundings]:
    from kakite.host.session import HostOptions, open_host

    async with open_host(existing(project), HostOptions(only=(server,))) as opened:
        member = await opened.host.member(server)
        if member is None:
            raise _unknown(server, opened.host.configured)
        return member.expanded()


def existing(project: Path) -> Path:
    """Return the project's folder without links.

    Raises:
        UsageError: there is none.
    """
    folder = Path(os.path.realpath(project))
    if not folder.is_dir():
        raise UsageError(f"the project `{project}` is no folder", hint="give one that is there by --project")
    return folder


def _unknown(name: str, known: Iterable[str]) -> UnknownServerError:
    from kakite.host.naming import meant_server

    return UnknownServerError(f"no server `{name}` is configured", hint=meant_server(name, known))


def _print_problem(problem: Problem) -> None:
    colour, kind = (typer.colors.RED, "error") if problem.fatal else (typer.colors.YELLOW, "warning")
    where = f"{visible_name(str(problem.file))}:{problem.line}"
    typer.secho(f"{where}: {kind}: {visible(problem.message)}", err=True, fg=colour)
    if problem.hint:
        typer.echo(f"hint: {visible(problem.hint)}", err=True)


def _arguments(text: str) -> JsonObject:
    given = sys.stdin.read() if text == "-" else text
    try:
        value: Any = json.loads(given)
    except ValueError as error:
        raise UsageError(f"--args is not JSON: {error}", hint='give an object, as {"path": "a"}') from error
    if not isinstance(value, dict):
        raise UsageError("--args is not a JSON object", hint='give an object, as {"path": "a"}')
    return cast("JsonObject", value)


def _run(work: Coroutine[Any, Any, _Result]) -> _Result:
    try:
        return asyncio.run(work)
    except InputEndedError:
        raise typer.Exit(INTERRUPTED) from None
