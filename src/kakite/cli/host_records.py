"""What hosts keep, shown and changed: rules, the trace of calls, and what servers wrote to standard error."""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from kakite.cli.hosting import UnknownServerError, existing
from kakite.cli.screen import print_json, visible, visible_name
from kakite.errors import UsageError

if TYPE_CHECKING:
    from kakite.host.rules import SavedRule
    from kakite.tools.toolset import JsonObject

_LOOK_AGAIN = 0.2  # s
_CHUNK = 1024 * 1024  # bytes read from the end of a log


def list_rules(project: Path, *, every: bool, as_json: bool) -> None:
    """Print the saved rules that count in a project, or all."""
    from kakite.host.rules import SavedRules
    from kakite.host.session import host_state

    saved = SavedRules(host_state(os.environ)).all()
    here = {"", str(existing(project))}
    shown = [each for each in saved if every or each.project in here]
    elsewhere = len(saved) - len(shown)
    if as_json:
        print_json({"rules": [_rule_shape(each) for each in shown], "elsewhere": elsewhere})
        return
    if not shown:
        typer.echo("there are no rules: what the configuration does not allow is asked", err=True)
    for each in shown:
        typer.echo(_rule_line(each))
    if elsewhere:
        typer.echo(f"{elsewhere} more for other projects: --all shows them", err=True)


def add_rule(project: Path, decision: str, about: str, arguments: Sequence[str], *, everywhere: bool) -> None:
    """Save a rule."""
    from kakite.host.rules import SavedRules, parse_rule
    from kakite.host.session import host_state
    from kakite.host.trust import need_a_person

    need_a_person()
    told: JsonObject = {decision: about}
    if arguments:
        told["arguments"] = dict(map(_condition, arguments))
    folder = "" if everywhere else str(existing(project))
    added = SavedRules(host_state(os.environ)).add(parse_rule(told), project=folder)
    typer.echo(_rule_line(added))


def remove_rules(numbers: Sequence[int]) -> None:
    """Remove rules."""
    from kakite.host.rules import SavedRules
    from kakite.host.session import host_state
    from kakite.host.trust import need_a_person

    need_a_person()
    saved = SavedRules(host_state(os.environ))
    for removed in saved.remove(*numbers):
        typer.echo(f"removed: {_rule_line(removed)}", err=True)


def _condition(text: str) -> tuple[str, Any]:
    name, equals, wanted = text.partition("=")
    if not name or not equals:
        raise UsageError(
            f"`{text}` names no argument and what it has to be",
            hint="as in path=src/*, path=path:src/** or command=begins:git status",
        )
    kind, colon, value = wanted.partition(":")
    return name, {kind: value} if colon and kind in {"path", "begins"} else wanted


def _rule_shape(saved: SavedRule) -> JsonObject:
    from kakite.host.rules import written

    return {"number": saved.number, **written(saved.rule), "project": saved.project, "made": saved.made}


def _rule_line(saved: SavedRule) -> str:
    from kakite.host.rules import written

    told = json.dumps(written(saved.rule), ensure_ascii=False)
    where = f"in {visible_name(saved.project)}" if saved.project else "everywhere"
    return f"{saved.number:>3}  {visible_name(told)}  {where}  ({saved.made})"


def show_trace(*, follow: bool, lines: int, as_json: bool) -> int:
    """Print the last calls, then those that come, until interrupted."""
    from kakite.host.session import trace_file

    file = trace_file(os.environ)
    for line in _last_lines(file, lines, follow=follow, none="no calls were made yet"):
        typer.echo(line if as_json else _trace_line(line))
    return 0


def _trace_line(line: str) -> str:
    try:
        told: JsonObject = json.loads(line)
        when = str(told["time"])[:19].replace("T", " ")
        outcome = str(told["code"] or "error") if told["is_error"] else "ok"
        name = visible_name(f"{told['server']}  {told['tool']}")
        return f"{when}  {name}  {outcome}  {told['seconds']:.2f} s  by {visible_name(str(told['by']))}"
    except (ValueError, KeyError, TypeError):
        return visible_name(line)


def show_logs(project: Path, server: str | None, *, follow: bool, lines: int) -> int:
    """Print the end of a server's log; without a name, of every configured server's."""
    from kakite.host.config import load
    from kakite.host.logs import log_file
    from kakite.host.naming import meant_server
    from kakite.host.session import host_state

    names = [entry.name for entry in load(existing(project), os.environ).entries]
    state = host_state(os.environ)
    if server and server not in names and not log_file(state, server).exists():
        raise UnknownServerError(f"no server `{server}` is configured", hint=meant_server(server, names))
    if server is None and follow:
        raise UsageError("only one log can be followed", hint=f"name one of {', '.join(names) or 'none'}")
    for name in [server] if server else names:
        if server is None:
            typer.secho(visible_name(name), bold=True, err=True)
        none = f"{visible_name(name)} wrote nothing to standard error yet"
        for line in _last_lines(log_file(state, name), lines, follow=follow, none=none):
            typer.echo(visible(line))
    return 0


def _last_lines(file: Path, count: int, *, follow: bool, none: str) -> Iterator[str]:
    """Yield the last lines of a file, then those that are added to it; a new file by its name counts too."""
    try:
        with file.open("rb") as opened:
            opened.seek(max(0, opened.seek(0, os.SEEK_END) - _CHUNK))
            yield from deque((_text(line) for line in opened), maxlen=count)
            if follow:
                yield from _added(file, opened.tell(), os.fstat(opened.fileno()).st_ino)
    except FileNotFoundError:
        typer.echo(none, err=True)
        if follow:
            yield from _added(file, 0, 0)


def _added(file: Path, at: int, inode: int) -> Iterator[str]:
    while True:
        time.sleep(_LOOK_AGAIN)
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
                    yield _text(line)
        except FileNotFoundError:
            continue


def _text(line: bytes) -> str:
    return line.decode(errors="backslashreplace").rstrip("\r\n")
