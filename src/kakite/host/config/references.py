"""Replaces literal values of a person's own entry by references, so that a project's file can have it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count

from kakite.host.config.model import HttpServer, ServerEntry, StdioServer
from kakite.host.config.variables import list_variables
from kakite.host.consent.canonical import mask_command, mask_secret, mask_text

_MASK = re.compile(r"\(hidden, sha256 [0-9a-f]*\)?")
_ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REFERENCE = re.compile(r"\$\{(?:env:)?[A-Za-z_][A-Za-z0-9_]*\}")
"""Without a default: that would be a value."""
_SCHEME = re.compile(r"(?i)(?:bearer|basic|token|digest)\s+")
_FLAG = re.compile(r"-{1,2}([\w.-]+)")


def refer_to_values(
    entries: Sequence[ServerEntry],
) -> tuple[tuple[ServerEntry, ...], Mapping[str, tuple[str, ...]]]:
    """Return the entries without values, and by server the variables that the person has to set.

    Of an environment and of headers every literal value goes; of arguments and addresses what is a secret.
    One variable never stands for two values.
    """
    names = _VariableNames(entries)
    found: list[ServerEntry] = []
    needed: dict[str, tuple[str, ...]] = {}
    for entry in entries:
        replacing = _EntryReplacer(entry.name, names)
        found.append(replace(entry, reached=replacing.replace(entry.reached)))
        if replacing.used:
            needed[entry.name] = tuple(dict.fromkeys(replacing.used))
    return tuple(found), needed


class _VariableNames:
    """The names in use, each with what it stands for."""

    def __init__(self, entries: Sequence[ServerEntry]) -> None:
        # What an entry refers to already is the person's variable: nothing else may be called so.
        self._values: dict[str, str] = {
            name: f"${{{name}}}" for entry in entries for name in list_variables(entry)
        }

    def take(self, wished: str, server: str, value: str) -> str:
        own = _to_name(f"{server}_{wished}")
        plain = wished if _ENVIRONMENT_NAME.fullmatch(wished) else _to_name(wished)
        for name in (plain, own, *(f"{own}_{number}" for number in range(2, 100))):
            if self._values.setdefault(name, value) == value:
                return name
        return next(name for n in count(100) if self._values.setdefault(name := f"{own}_{n}", value) == value)


class _EntryReplacer:
    """Replaces the values of one entry."""

    def __init__(self, server: str, names: _VariableNames) -> None:
        self.used: list[str] = []
        self._server = server
        self._names = names

    def replace(self, reached: StdioServer | HttpServer) -> StdioServer | HttpServer:
        if isinstance(reached, HttpServer):
            return self._replace_http(reached)
        words = (reached.command, *reached.args)
        shown = mask_command(words)
        args = [
            self._fill(text, masked, _find_flag(before, text))
            for before, text, masked in zip(words, words[1:], shown[1:], strict=False)
        ]
        env = {name: self._replace_value(text, name) for name, text in reached.env.items()}
        return replace(reached, args=tuple(args), env=env)

    def _replace_http(self, reached: HttpServer) -> HttpServer:
        of_server = f"{_to_name(self._server)}_"
        headers = {
            name: self._replace_value(text, of_server + _to_name(name))
            for name, text in reached.headers.items()
        }
        oauth = reached.oauth
        secret = self._fill(oauth.secret, mask_secret(oauth.secret), f"{of_server}OAUTH_SECRET")
        url = self._fill(reached.url, mask_text(reached.url), f"{of_server}URL_KEY")
        return replace(reached, url=url, headers=headers, oauth=replace(oauth, secret=secret))

    def _replace_value(self, text: str, wished: str) -> str:
        """Return a value without anything literal, but for the word before a token."""
        scheme = _SCHEME.match(text)
        head = scheme[0] if scheme else ""
        literal = _REFERENCE.sub("", text[len(head) :])
        return head + self._refer(text[len(head) :], wished) if literal.strip() else text

    def _fill(self, text: str, masked: str, wished: str) -> str:
        """Return a text with references in place of what is masked."""
        if masked == text:
            return text
        pieces = _MASK.split(masked)
        # A reference with a secret default is one value: two references cannot stand within each other.
        if len(pieces) != 2 or ":-" in pieces[0]:
            return self._refer(text, wished)
        start, end = len(pieces[0]), len(text) - len(pieces[1])
        return f"{pieces[0]}{self._refer(text[start:end], wished)}{pieces[1]}"

    def _refer(self, value: str, wished: str) -> str:
        name = self._names.take(wished, self._server, value)
        self.used.append(name)
        return f"${{{name}}}"


def _find_flag(before: str, text: str) -> str:
    """Return what an argument is named by: itself, before its ``=``, or the option before it."""
    own = _FLAG.match(text) or re.match(r"([\w.-]+)=", text) or _FLAG.fullmatch(before)
    return _to_name(own[1] if own else "argument")


def _to_name(text: str) -> str:
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_").upper()
    return name if _ENVIRONMENT_NAME.fullmatch(name) else f"KEY_{name}"
