"""Implements ``kakite host rules``, ``trace`` and ``logs``."""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from kakite.cli.console import escape_control, escape_one_line, print_json
from kakite.cli.host.actions import UnknownServerError, resolve_project
from kakite.errors import UsageError

if TYPE_CHECKING:
    from kakite.host.policy.rules import SavedRule
    from kakite.tools.toolset import JsonObject

_POLL_INTERVAL = 0.2  # s
_CHUNK = 1024 * 1024  # bytes read from the end of a log


def list_rules(project: Path, *, every: bool, as_json: bool) -> None:
    """Print the saved rules that count in a project, or all."""
    from kakite.host.open import ensure_host_folder
    from kakite.host.policy.rules import RuleStore

    saved = RuleStore(ensure_host_folder(os.environ)).list_rules()
    here = {"", str(resolve_project(project))}
    shown = [each for each in saved if every or each.project in here]
    elsewhere = len(saved) - len(shown)
    if as_json:
        print_json({"rules": [_to_rule_json(each) for each in shown], "elsewhere": elsewhere})
        return
    if not shown:
        typer.echo(
            "there are no rules: Kakite asks you about all that the configuration does not allow", err=True
        )
    for each in shown:
        typer.echo(_format_rule(each))
    if elsewhere:
        typer.echo(f"{elsewhere} more for other projects: --all shows them", err=True)


def add_rule(project: Path, decision: str, about: str, arguments: Sequence[str], *, everywhere: bool) -> None:
    """Save a rule."""
    from kakite.host.consent.store import require_user
    from kakite.host.open import ensure_host_folder
    from kakite.host.policy.rules import RuleStore, parse_rule

    require_user()
    told: JsonObject = {decision: about}
    if arguments:
        told["arguments"] = dict(map(_parse_condition, arguments))
    folder = "" if everywhere else str(resolve_project(project))
    added = RuleStore(ensure_host_folder(os.environ)).add(parse_rule(told), project=folder)
    typer.echo(_format_rule(added))


def remove_rules(numbers: Sequence[int]) -> None:
    """Remove rules."""
    from kakite.host.consent.store import require_user
    from kakite.host.open import ensure_host_folder
    from kakite.host.policy.rules import RuleStore

    require_user()
    saved = RuleStore(ensure_host_folder(os.environ))
    for removed in saved.remove(*numbers):
        typer.echo(f"removed: {_format_rule(removed)}", err=True)


def _parse_condition(text: str) -> tuple[str, Any]:
    name, equals, wanted = text.partition("=")
    if not name or not equals:
        raise UsageError(
            f"`{text}` is not ARGUMENT=GLOB",
            hint="write it like path=src/*, path=path:src/** or command=begins:git status",
        )
    kind, colon, value = wanted.partition(":")
    return name, {kind: value} if colon and kind in {"path", "begins"} else wanted


def _to_rule_json(saved: SavedRule) -> JsonObject:
    from kakite.host.policy.rules import serialize_rule

    return {
        "number": saved.number,
        **serialize_rule(saved.rule),
        "project": saved.project,
        "made": saved.made,
    }


def _format_rule(saved: SavedRule) -> str:
    from kakite.host.policy.rules import serialize_rule

    told = json.dumps(serialize_rule(saved.rule), ensure_ascii=False)
    where = f"in {escape_one_line(saved.project)}" if saved.project else "everywhere"
    return f"{saved.number:>3}  {escape_one_line(told)}  {where}  ({saved.made})"


def show_trace(*, follow: bool, lines: int, as_json: bool) -> int:
    """Print the last calls, then those that come, until interrupted."""
    from kakite.host.open import get_audit_log_file

    file = get_audit_log_file(os.environ)
    for line in _read_last_lines(file, lines, follow=follow, none="there were no calls yet"):
        typer.echo(line if as_json else _format_trace(line))
    return 0


def _format_trace(line: str) -> str:
    try:
        told: JsonObject = json.loads(line)
        when = str(told["time"])[:19].replace("T", " ")
        outcome = str(told["code"] or "error") if told["is_error"] else "ok"
        name = escape_one_line(f"{told['server']}  {told['tool']}")
        return f"{when}  {name}  {outcome}  {told['seconds']:.2f} s  by {escape_one_line(str(told['by']))}"
    except (ValueError, KeyError, TypeError):
        return escape_one_line(line)


def show_logs(project: Path, server: str | None, *, follow: bool, lines: int) -> int:
    """Print the end of a server's log; without a name, of every configured server's."""
    from kakite.host.config.load import load_config
    from kakite.host.open import ensure_host_folder
    from kakite.host.server.stderr_log import get_log_file
    from kakite.host.tool_names import suggest_server

    names = [entry.name for entry in load_config(resolve_project(project), os.environ).entries]
    state = ensure_host_folder(os.environ)
    if server and server not in names and not get_log_file(state, server).exists():
        raise UnknownServerError(f"no server `{server}` is configured", hint=suggest_server(server, names))
    if server is None and follow:
        raise UsageError("you can follow only one log", hint=f"name one of {', '.join(names) or 'none'}")
    for name in [server] if server else names:
        if server is None:
            typer.secho(escape_one_line(name), bold=True, err=True)
        none = f"{escape_one_line(name)} wrote nothing to standard error yet"
        for line in _read_last_lines(get_log_file(state, name), lines, follow=follow, none=none):
            typer.echo(escape_control(line))
    return 0


def _read_last_lines(file: Path, count: int, *, follow: bool, none: str) -> Iterator[str]:
    """Yield the last lines of a file, then those that are added to it; a new file by its name counts too."""
    try:
        with file.open("rb") as opened:
            opened.seek(max(0, opened.seek(0, os.SEEK_END) - _CHUNK))
            yield from deque((_decode_line(line) for line in opened), maxlen=count)
            if follow:
                yield from _follow_file(file, opened.tell(), os.fstat(opened.fileno()).st_ino)
    except FileNotFoundError:
        typer.echo(none, err=True)
        if follow:
            yield from _follow_file(file, 0, 0)


def _follow_file(file: Path, at: int, inode: int) -> Iterator[str]:
    while True:
        time.sleep(_POLL_INTERVAL)
        try:
            with file.open("rb") as opened:
                about = os.fstat(opened.fileno())
                if about.st_ino != inode or about.st_size < at:
                    at, inode = 0, about.st_ino
                opened.seek(at)
                for line in opened:
                    if not line.endswith(b"\n"):
                        break  # the rest comes
                    at += len(line)
                    yield _decode_line(line)
        except FileNotFoundError:
            continue


def _decode_line(line: bytes) -> str:
    return line.decode(errors="backslashreplace").rstrip("\r\n")
