"""Implements the commands of ``kakite host``, and opens a browser for servers that need a login."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
import webbrowser
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import typer

from kakite.cli.console import escape_control, escape_one_line, print_json
from kakite.cli.exit_codes import INTERRUPTED, InputEndedError
from kakite.cli.host.output import (
    print_server,
    to_origin_json,
    to_problem_json,
    to_server_json,
)
from kakite.cli.prompts import TerminalPrompter, is_interactive
from kakite.errors import ExternalError, KakiteError, UsageError
from kakite.host.oauth.provider import AuthorizationPage

if TYPE_CHECKING:
    from kakite.host.config.import_clients import InsertResult
    from kakite.host.config.load import ConfigProblem
    from kakite.host.config.model import ServerEntry
    from kakite.host.consent.gate import GatedTool
    from kakite.host.host import ServerInfo
    from kakite.host.oauth.login import LoginStatus
    from kakite.host.open import HostToolset
    from kakite.host.server.client_features import HostContext
    from kakite.tools.toolset import JsonObject, ToolResult


class BrowserOpener:
    """Tells the person the address of the page, and opens it where there is a display."""

    def __init__(self, tell: Callable[[str], None], environ: Mapping[str, str]) -> None:
        """``tell`` writes a line for the person, never to where results go."""
        self._tell = tell
        self._environ = environ

    async def open_page(self, page: AuthorizationPage) -> None:
        """Show the page's host and address in full, and open it. What is opened is what is shown."""
        self._tell(f"`{page.server}` wants you to log in at {page.host}:")
        self._tell(f"  {page.address}")
        if self._has_display():
            await asyncio.to_thread(_open_browser, page.address)

    def _has_display(self) -> bool:
        # Without one a browser would be a program in this terminal, which is not its to use.
        named = any(self._environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
        return named or sys.platform in {"darwin", "win32"}


def _open_browser(address: str) -> None:
    try:
        webbrowser.open(address)
    except (webbrowser.Error, OSError):
        return  # the person has the address


_LIST_DEADLINE = 18.0  # s after its start at which the list of tools is due
_STOP_DEADLINE = 21.0  # s after its start at which the servers are killed; it ends before 30
_SERVER_FAILURES = {
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


_Result = TypeVar("_Result")


class UnknownServerError(UsageError):
    """No server of this name is configured. Code: ``unknown_server``."""

    code = "unknown_server"


class CallError(KakiteError):
    """A call gave no result that can be used. Its code is the result's."""


class ServerCallError(ExternalError):
    """A server failed in a call. Its code is the result's."""


def show_tools(project: Path, *, as_json: bool) -> int:
    """List every server's state and tools; 1 if files that could not be read left nothing to list."""
    seen, problems = run(_inspect_servers(resolve_project(project)))
    if as_json:
        shape = {"servers": list(map(to_server_json, seen)), "problems": list(map(to_problem_json, problems))}
        print_json(shape)
        return int(is_unreadable(seen, problems))
    for problem in problems:
        print_problem(problem)
    if not seen and not is_unreadable(seen, problems):
        typer.echo(
            "no servers are configured: write .pi/mcp-servers.json, or run `kakite host import`", err=True
        )
    for one in seen:
        print_server(one)
    return int(is_unreadable(seen, problems))


def is_unreadable(found: Collection[object], problems: Sequence[ConfigProblem]) -> bool:
    """Return whether nothing was found because what is configured could not be read."""
    return not found and any(problem.fatal for problem in problems)


async def _inspect_servers(project: Path) -> tuple[tuple[ServerInfo, ...], tuple[ConfigProblem, ...]]:
    from kakite.host.host import INSPECT_TIMEOUT
    from kakite.host.open import open_host

    async with open_host(project) as opened:
        seen = await opened.host.inspect_servers(
            min(INSPECT_TIMEOUT, max(_LIST_DEADLINE - _get_process_age(), 1))
        )
        await opened.host.close(within=max(_STOP_DEADLINE - _get_process_age(), 1))
        return seen, opened.host.problems


def _get_process_age() -> float:
    """Return the seconds since this program was started: loading it counts for who waits."""
    try:
        told = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace")
        began = int(told.rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
        return max(time.clock_gettime(time.CLOCK_BOOTTIME) - began, 0.0)
    except (OSError, ValueError, IndexError, AttributeError):
        return 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOptions:
    """The options of a call."""

    yes: bool = False
    """Whether it goes without a question, unless a rule forbids it."""
    trace_arguments: bool = False
    """Whether its arguments are noted in the trace."""


def call(project: Path, server: str, tool: str, arguments: str, how: CallOptions, *, as_json: bool) -> int:
    """Call a tool; print its text; return 0 if it worked, 1 if not, 3 if the server failed.

    A terminal gets the text with control characters made visible, a file or a pipe exactly as it is. What
    went wrong is for a person, and always made visible.
    """
    from kakite.host.consent.store import require_user

    if how.yes:
        require_user()
    given = _parse_arguments(arguments)
    try:
        result = run(_call_tool(resolve_project(project), server, tool, given, how))
    except (CallError, ServerCallError) as error:
        if not as_json:
            raise
        _print_result(ok=False, code=error.code, text=error.message, details={"hint": error.hint})
        return error.exit_code
    if result.code == "approval_required" and not as_json:
        raise _build_unapproved_error(result, server, tool)
    if as_json:
        images = [asdict(each) for each in result.images]
        _print_result(
            ok=not result.is_error, code=result.code, text=result.text, details=result.details, images=images
        )
    elif result.is_error:
        said = result.text if f"({result.code})" in result.text else f"error ({result.code}): {result.text}"
        typer.echo(escape_control(said), err=True)
    elif sys.stdout.isatty():
        typer.echo(escape_control(result.text))
    else:  # not by typer, which would leave out what colours a terminal
        sys.stdout.buffer.write(f"{result.text}\n".encode(errors="backslashreplace"))
        sys.stdout.buffer.flush()
    return _get_exit_code(result)


def _print_result(
    *, ok: bool, code: str, text: str, details: JsonObject, images: Sequence[JsonObject] = ()
) -> None:
    print_json({"ok": ok, "code": code, "text": text, "details": details, "images": list(images)})


def _get_exit_code(result: ToolResult) -> int:
    if not result.is_error:
        return 0
    return 3 if result.code in _SERVER_FAILURES else 1


def _build_unapproved_error(result: ToolResult, server: str, tool: str) -> CallError:
    if "rule" not in result.details:  # the person said no
        told = result.text.partition("\n")[0].removeprefix(f"Error ({result.code}): ")
        return CallError(told, code=result.code)
    hint = f"`--yes` allows this call, `kakite host rules add allow {server}__{tool}` all of them"
    told = (
        f"no rule allows `{tool}` of `{server}`, and without a terminal Kakite cannot ask you; it did nothing"
    )
    return CallError(told, hint=hint, code=result.code)


async def _call_tool(
    project: Path, server: str, tool: str, arguments: JsonObject, how: CallOptions
) -> ToolResult:
    from kakite.cli.progress import ProgressLine, ProgressPausingPrompter
    from kakite.host.open import HostOptions, open_host
    from kakite.host.policy.approval import READ_ONLY_RULES, DenyingApprover
    from kakite.host.policy.rules import make_exact_rule
    from kakite.tools.toolset import ToolCall

    line = ProgressLine(sys.stderr, f"{server} {tool}")
    asker = ProgressPausingPrompter(TerminalPrompter(session=False), line) if is_interactive() else None
    rules = (make_exact_rule("allow", server, tool), *READ_ONLY_RULES) if how.yes else READ_ONLY_RULES
    options = HostOptions(
        approver=asker or DenyingApprover(),
        elicit=asker,
        rules=rules,
        tokens=sys.maxsize,
        trace_arguments=how.trace_arguments,
        only=(server,),
    )
    async with open_host(project, options) as opened:
        name = await _find_tool_name(opened, server, tool)
        try:
            return await opened.call(
                ToolCall(id="1", name=name, arguments=arguments), on_progress=line.update
            )
        finally:
            line.close()


async def _find_tool_name(opened: HostToolset, server: str, tool: str) -> str:
    """Return what a model calls a tool by, if it may be used."""
    from kakite.host.consent.store import ConsentGranted

    found = next(iter(await opened.host.inspect_servers()), None)
    if found is None:
        raise build_unknown_error(server, opened.host.configured)
    named = next((each for each in found.tools if each.definition.tool.name == tool), None)
    if named is not None and isinstance(named.standing, ConsentGranted):
        await opened.list_tools()
        return named.name
    raise _build_unusable_error(found, named, tool)


def _build_unusable_error(found: ServerInfo, named: GatedTool | None, tool: str) -> KakiteError:
    from kakite.tools.arguments import suggest_name

    name = found.entry.name
    if found.state == "failed":
        return ServerCallError(found.reason, hint=found.hint, code=found.code or "server_not_started")
    if named is not None or (found.state in {"needs_consent", "quarantined", "disabled"} and not found.tools):
        state = "quarantined" if named is not None else found.state
        return CallError(f"`{name}` may not start ({state}): {found.reason}", hint=found.hint, code=state)
    known = [each.definition.tool.name for each in found.tools]
    return CallError(f"`{name}` has no tool `{tool}`", hint=suggest_name(tool, known), code="unknown_tool")


def check(project: Path, *, as_json: bool) -> int:
    """Check the configuration; 1 if something in it cannot be used."""
    from kakite.host.config.load import load_config

    config = load_config(resolve_project(project), os.environ)
    if as_json:
        shape = {
            "servers": [{"name": entry.name, **to_origin_json(entry)} for entry in config.entries],
            "problems": list(map(to_problem_json, config.problems)),
            "files": [{"file": str(file), "there": file.exists()} for file in config.files],
        }
        print_json(shape)
    else:
        for problem in config.problems:
            print_problem(problem)
        for entry in config.entries:
            state = " (disabled)" if entry.disabled else ""
            typer.echo(
                f"{escape_one_line(entry.name)}{state}  "
                f"{escape_one_line(entry.origin.file)}:{entry.origin.line}"
            )
    return 1 if any(problem.fatal for problem in config.problems) else 0


def import_servers(
    project: Path, client: str, names: Sequence[str], *, every: bool, user: bool, as_json: bool
) -> int:
    """Show another program's servers, take over those that are named."""
    from kakite.host.config.import_clients import InsertResult, import_from, insert
    from kakite.host.config.load import get_project_file, get_user_file
    from kakite.host.consent.store import describe, require_user

    if names or every:
        require_user()
    folder = resolve_project(project)
    home = Path(os.environ.get("HOME") or Path.home())
    config = import_from(client, home, folder, os.environ)
    entries = {entry.name: entry for entry in config.entries}
    for problem in config.problems:
        print_problem(problem)
    for name in names:
        if name not in entries:
            raise build_unknown_error(name, entries)
    chosen = [entries[name] for name in (entries if every else dict.fromkeys(names))]
    file = get_user_file(os.environ) if user else get_project_file(folder)
    within = None if user else folder
    done = insert(file, chosen, within=within) if chosen else InsertResult(added=(), present=())
    if as_json:
        told = {
            "added": done.added,
            "present": done.present,
            "dropped": done.dropped,
            "variables": done.variables,
        }
        print_json({"servers": sorted(entries), **told, "file": str(file)})
        return 0
    for entry in chosen or entries.values():
        typer.echo(describe(entry))
    _print_insertion(done, file, client, found=bool(entries))
    if done.added and not user:
        typer.echo("next: kakite host accept", err=True)
    return 0


def _print_insertion(done: InsertResult, file: Path, client: str, *, found: bool) -> None:
    if not found:
        typer.echo(f"{client} has no servers", err=True)
    elif not done.added and not done.present:
        typer.echo("copied nothing: name servers, or give --all", err=True)
    if done.present:
        typer.echo(f"left unchanged, since the file already has them: {', '.join(done.present)}", err=True)
    if done.added:
        typer.echo(f"written to {escape_one_line(str(done.file or file))}: {', '.join(done.added)}", err=True)
    for name, variables in done.variables.items():
        told = f"{name}: set {', '.join(variables)}; the values stay in your own file of {client}"
        typer.echo(escape_control(told), err=True)
    for name, keys in done.dropped.items():
        told = f"{name}: {', '.join(keys)} not copied: only you decide what runs without asking"
        typer.echo(escape_control(told), err=True)


def login(project: Path, server: str) -> int:
    """Log in to a remote server."""
    done = run(_login(project, server))
    who = escape_one_line(done.issuer) if done.issuer else ""
    if not who:
        typer.echo(f"{escape_one_line(server)} needs no login")
        return 0
    scopes = f", for {escape_one_line(' '.join(done.scopes))}" if done.scopes else ""
    typer.echo(f"{escape_one_line(server)}: logged in by {who}{scopes}")
    return 0


def logout(project: Path, server: str) -> int:
    """Forget what is remembered of a login."""
    there_was = run(_logout(project, server))
    typer.echo(f"{escape_one_line(server)}: {'logged out' if there_was else 'there was no login'}")
    return 0


async def _logout(project: Path, server: str) -> bool:
    from kakite.host.consent.store import require_user
    from kakite.host.oauth.login import log_out

    require_user()
    return log_out(*await _find_remote(project, server))


async def _login(project: Path, server: str) -> LoginStatus:
    from kakite.host.consent.store import require_user
    from kakite.host.oauth.login import log_in

    require_user()
    browsing = BrowserOpener(lambda line: typer.echo(escape_control(line), err=True), os.environ)
    entry, surroundings = await _find_remote(project, server)
    return await log_in(entry, replace(surroundings, visitor=browsing), anew=True)


async def _find_remote(project: Path, server: str) -> tuple[ServerEntry, HostContext]:
    from kakite.host.open import HostOptions, open_host

    async with open_host(resolve_project(project), HostOptions(only=(server,))) as opened:
        member = await opened.host.get_server(server)
        if member is None:
            raise build_unknown_error(server, opened.host.configured)
        return member.expand_entry()


def resolve_project(project: Path) -> Path:
    """Return the project's folder without links.

    Raises:
        UsageError: there is none.
    """
    folder = Path(os.path.realpath(project))
    if not folder.is_dir():
        raise UsageError(
            f"the project `{project}` is not a folder", hint="give an existing folder with --project"
        )
    return folder


def build_unknown_error(name: str, known: Iterable[str]) -> UnknownServerError:
    """Return that no server has this name, with the nearest of those that there are."""
    from kakite.host.tool_names import suggest_server

    return UnknownServerError(f"no server `{name}` is configured", hint=suggest_server(name, known))


def print_problem(problem: ConfigProblem) -> None:
    """Print what is wrong in a configuration, with its place."""
    colour, kind = (typer.colors.RED, "error") if problem.fatal else (typer.colors.YELLOW, "warning")
    where = f"{escape_one_line(str(problem.file))}:{problem.line}"
    typer.secho(f"{where}: {kind}: {escape_control(problem.message)}", err=True, fg=colour)
    if problem.hint:
        typer.echo(f"hint: {escape_control(problem.hint)}", err=True)


def _read_piped_arguments() -> str:
    """Return all of standard input. What is asked then is asked at the terminal, if there is one."""
    given = sys.stdin.read()
    if not sys.stdin.isatty() and sys.stderr.isatty():
        with suppress(OSError):
            sys.stdin = Path("/dev/tty").open(encoding="utf-8", errors="replace")  # noqa: SIM115 - until we end
    return given


def _parse_arguments(text: str) -> JsonObject:
    given = _read_piped_arguments() if text == "-" else text
    try:
        value: Any = json.loads(given)
    except ValueError as error:
        raise UsageError(
            f"--args is not JSON: {error}", hint='give an object, such as {"path": "a"}'
        ) from error
    if not isinstance(value, dict):
        raise UsageError("--args is not a JSON object", hint='give an object, such as {"path": "a"}')
    return cast("JsonObject", value)


def run(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Run to the end; where the input ended at a question, the command ends as if interrupted."""
    try:
        return asyncio.run(work)
    except InputEndedError:
        raise typer.Exit(INTERRUPTED) from None
