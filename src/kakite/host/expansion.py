"""Variables in an entry: ``${NAME}``, ``${NAME:-default}``, ``${env:NAME}``, and ``${workspaceFolder}``.

They stand in command, arguments, environment, folder, address and headers. ``$NAME`` is no variable, and
what looks like another program's expansion (``${name%.*}`` of a shell) is left alone. No error shows a value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from kakite.errors import UsageError
from kakite.host.entries import Address, OAuthClient, Program, ServerEntry
from kakite.host.fields import VARIABLE, bad_url
from kakite.visible import visible_name as visible

WORKSPACE = "workspaceFolder"
"""Stands for the project's folder. No variable of the environment with this name is ever looked at."""

_REFERENCE = re.compile(
    rf"\$\{{(?P<env>env:)?(?P<name>{VARIABLE})(?P<default>:-(?P<text>[^{{}}]*))?(?P<end>\}}|[^}}]*)"
)
_NO_SECRETS = frozenset(("HOME", "LANG", "LOGNAME", "PATH", "PWD", "SHELL", "TMPDIR", "USER"))
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

    def expanded(text: str, place: str) -> str:
        value = _REFERENCE.sub(lambda found: _value(found, entry, place, environ, project), text)
        if value != text and "\0" in value:
            raise _bad(entry, place, "a zero byte")
        return value

    reached = _changed(entry.reached, expanded)
    if isinstance(reached, Address):
        _check_address(entry, reached)
    return replace(entry, reached=reached, secrets=values_of(entry, environ))


def values_of(entry: ServerEntry, environ: Mapping[str, str]) -> frozenset[str]:
    """Return what an entry's variables stand for, but for those that are surely no secrets."""
    return frozenset(environ.get(name, "") for name in variables(entry) if name not in _NO_SECRETS)


def variables(entry: ServerEntry) -> tuple[str, ...]:
    """Return the names of the host's variables that it would expand, each once, in order."""
    found: dict[str, None] = {}

    def note(text: str, place: str) -> str:  # noqa: ARG001 - as every change
        found.update(dict.fromkeys(_names(text)))
        return text

    _changed(entry.reached, note)
    return tuple(sorted(found))


def _names(text: str) -> Iterator[str]:
    for found in _REFERENCE.finditer(text):
        if found["end"] == "}" and not _is_workspace(found):
            yield found["name"]


def _is_workspace(found: re.Match[str]) -> bool:
    return found["name"] == WORKSPACE and not found["env"]


def _changed(reached: Program | Address, change: _Change) -> Program | Address:
    if isinstance(reached, Address):
        headers = {name: change(text, f"header `{visible(name)}`") for name, text in reached.headers.items()}
        return replace(
            reached, url=change(reached.url, "`url`"), headers=headers, oauth=_oauth(reached.oauth, change)
        )
    return replace(
        reached,
        command=change(reached.command, "`command`"),
        args=tuple(change(text, f"`args[{index}]`") for index, text in enumerate(reached.args)),
        env={name: change(text, f"`env.{visible(name)}`") for name, text in reached.env.items()},
        cwd=change(reached.cwd, "`cwd`"),
    )


def _oauth(oauth: OAuthClient, change: _Change) -> OAuthClient:
    return replace(
        oauth,
        id=change(oauth.id, "`oauth.id`"),
        secret=change(oauth.secret, "`oauth.secret`"),
        issuer=change(oauth.issuer, "`oauth.issuer`"),
        metadata_url=change(oauth.metadata_url, "`oauth.metadataUrl`"),
    )


def _value(
    found: re.Match[str], entry: ServerEntry, place: str, environ: Mapping[str, str], project: Path | None
) -> str:
    if found["end"] != "}":
        return _unfinished(found, entry, place)
    if _is_workspace(found):
        if project is None:
            raise _unset(
                entry, place, WORKSPACE, "it stands for the project's folder, and there is none here"
            )
        return str(project)
    name = found["name"]
    value = environ.get(name)
    if found["default"] and not value:
        return found["text"]
    if value is None:
        hint = f"set it, or write ${{{name}:-}} if it may be empty"
        raise _unset(entry, place, name, hint)
    return value


def _unfinished(found: re.Match[str], entry: ServerEntry, place: str) -> str:
    """Leave alone what is somebody else's; refuse what was surely meant for us."""
    if found["default"]:
        raise ExpansionError(
            f"server `{visible(entry.name)}`: in {place} the default of `{found['name']}` has braces in it",
            hint="a default is plain text, up to the first closing brace",
            code="bad_variable",
        )
    return found[0]


def _check_address(entry: ServerEntry, address: Address) -> None:
    if bad_url(address.url) or address.url.startswith("${"):
        raise _bad(entry, "`url`", "something that is no address of HTTP")
    for name, value in address.headers.items():
        if _CONTROL.search(value):
            raise _bad(entry, f"header `{visible(name)}`", "a line end or another control character")


def _unset(entry: ServerEntry, place: str, name: str, hint: str) -> ExpansionError:
    return ExpansionError(
        f"server `{visible(entry.name)}`: variable `{name}` in {place} is not set", hint=hint
    )


def _bad(entry: ServerEntry, place: str, what: str) -> ExpansionError:
    return ExpansionError(
        f"server `{visible(entry.name)}`: once its variables are expanded, {place} has {what}",
        hint="look at the values of the variables there",
        code="bad_variable",
    )
