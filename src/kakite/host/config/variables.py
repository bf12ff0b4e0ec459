"""Expands variables in an entry: ``${NAME}``, ``${NAME:-default}``, ``${env:NAME}``, ``${workspaceFolder}``.

They stand in command, arguments, environment, folder, address and headers. ``$NAME`` is no variable, and what
looks like another program's expansion (``${name%.*}`` of a shell) is left alone. No error shows a value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from kakite.errors import UsageError
from kakite.host.config.model import HttpServer, OAuthClient, ServerEntry, ServerSandbox, StdioServer
from kakite.host.config.parse import VARIABLE_PATTERN, find_url_problem
from kakite.terminal_text import escape_one_line

WORKSPACE_VARIABLE = "workspaceFolder"
"""Stands for the project's folder. No variable of the environment with this name is ever looked at."""

_REFERENCE = re.compile(
    rf"\$\{{(?P<env>env:)?(?P<name>{VARIABLE_PATTERN})(?P<default>:-(?P<text>[^{{}}]*))?(?P<end>\}}|[^}}]*)"
)
_PUBLIC_VARIABLES = frozenset(("HOME", "LANG", "LOGNAME", "PATH", "PWD", "SHELL", "TMPDIR", "USER"))
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")

_Change = Callable[[str, str], str]
"""Gets a text of an entry and the name of its place."""


class ExpansionError(UsageError):
    """A variable of an entry has no value, or one that cannot be used there. Never shows the value.

    Codes: ``unset_variable``, ``bad_variable``.
    """

    code = "unset_variable"


def expand(entry: ServerEntry, environ: Mapping[str, str], *, project: Path | None = None) -> ServerEntry:
    """Return the entry with its variables replaced; ``raw`` stays as it is.

    ``${NAME:-default}`` gives the default where the variable is not set or empty.

    Raises:
        ExpansionError: a variable is not set and has no default, or its value cannot be used where it stands;
            ``${workspaceFolder}`` is used and no project is given.
    """

    def expand_text(text: str, place: str) -> str:
        value = _REFERENCE.sub(lambda found: _resolve_reference(found, entry, place, environ, project), text)
        if value != text and "\0" in value:
            raise _make_bad_value_error(entry, place, "a zero byte")
        return value

    reached = _transform_server(entry.reached, expand_text)
    if isinstance(reached, HttpServer):
        _check_http_server(entry, reached)
    return replace(entry, reached=reached, secrets=collect_variable_values(entry, environ))


def collect_variable_values(entry: ServerEntry, environ: Mapping[str, str]) -> frozenset[str]:
    """Return what an entry's variables stand for, but for those that are surely no secrets."""
    return frozenset(environ.get(name, "") for name in list_variables(entry) if name not in _PUBLIC_VARIABLES)


def list_variables(entry: ServerEntry) -> tuple[str, ...]:
    """Return the names of the host's variables that it would expand, each once, in order."""
    found: dict[str, None] = {}

    def collect(text: str, place: str) -> str:  # noqa: ARG001 - as every change
        found.update(dict.fromkeys(_find_names(text)))
        return text

    _transform_server(entry.reached, collect)
    return tuple(sorted(found))


def _find_names(text: str) -> Iterator[str]:
    for found in _REFERENCE.finditer(text):
        if found["end"] == "}" and not _is_workspace(found):
            yield found["name"]


def _is_workspace(found: re.Match[str]) -> bool:
    return found["name"] == WORKSPACE_VARIABLE and not found["env"]


def _transform_server(reached: StdioServer | HttpServer, change: _Change) -> StdioServer | HttpServer:
    if isinstance(reached, HttpServer):
        headers = {
            name: change(text, f"header `{escape_one_line(name)}`") for name, text in reached.headers.items()
        }
        return replace(
            reached,
            url=change(reached.url, "`url`"),
            headers=headers,
            oauth=_transform_oauth(reached.oauth, change),
        )
    return replace(
        reached,
        command=change(reached.command, "`command`"),
        args=tuple(change(text, f"`args[{index}]`") for index, text in enumerate(reached.args)),
        env={name: change(text, f"`env.{escape_one_line(name)}`") for name, text in reached.env.items()},
        cwd=change(reached.cwd, "`cwd`"),
        sandbox=_transform_sandbox(reached.sandbox, change) if reached.sandbox else None,
    )


def _transform_sandbox(sandbox: ServerSandbox, change: _Change) -> ServerSandbox:
    return replace(
        sandbox,
        read=tuple(change(text, f"`sandbox.read[{index}]`") for index, text in enumerate(sandbox.read)),
        write=change(sandbox.write, "`sandbox.write`"),
    )


def _transform_oauth(oauth: OAuthClient, change: _Change) -> OAuthClient:
    return replace(
        oauth,
        id=change(oauth.id, "`oauth.id`"),
        secret=change(oauth.secret, "`oauth.secret`"),
        issuer=change(oauth.issuer, "`oauth.issuer`"),
        metadata_url=change(oauth.metadata_url, "`oauth.metadataUrl`"),
    )


def _resolve_reference(
    found: re.Match[str], entry: ServerEntry, place: str, environ: Mapping[str, str], project: Path | None
) -> str:
    if found["end"] != "}":
        return _check_unfinished(found, entry, place)
    if _is_workspace(found):
        if project is None:
            raise _make_unset_error(
                entry, place, WORKSPACE_VARIABLE, "it means the project's folder, and there is none here"
            )
        return str(project)
    name = found["name"]
    value = environ.get(name)
    if found["default"] and not value:
        return found["text"]
    if value is None:
        hint = f"set it, or write ${{{name}:-}} if it may be empty"
        raise _make_unset_error(entry, place, name, hint)
    return value


def _check_unfinished(found: re.Match[str], entry: ServerEntry, place: str) -> str:
    """Leave alone what is somebody else's; refuse what was surely meant for us."""
    if found["default"]:
        raise ExpansionError(
            f"server `{escape_one_line(entry.name)}`: "
            f"in {place} the default of `{found['name']}` has braces in it",
            hint="a default is plain text, up to the first closing brace",
            code="bad_variable",
        )
    return found[0]


def _check_http_server(entry: ServerEntry, address: HttpServer) -> None:
    if find_url_problem(address.url) or address.url.startswith("${"):
        raise _make_bad_value_error(entry, "`url`", "something that is not an HTTP address")
    for name, value in address.headers.items():
        if _CONTROL.search(value):
            raise _make_bad_value_error(
                entry, f"header `{escape_one_line(name)}`", "a line end or another control character"
            )


def _make_unset_error(entry: ServerEntry, place: str, name: str, hint: str) -> ExpansionError:
    return ExpansionError(
        f"server `{escape_one_line(entry.name)}`: variable `{name}` in {place} is not set", hint=hint
    )


def _make_bad_value_error(entry: ServerEntry, place: str, what: str) -> ExpansionError:
    return ExpansionError(
        f"server `{escape_one_line(entry.name)}`: once its variables are expanded, {place} has {what}",
        hint="look at the values of the variables there",
        code="bad_variable",
    )
