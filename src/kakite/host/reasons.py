"""Why a server is gone, in words that follow its name, without its secrets."""

from __future__ import annotations

import signal
import socket
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import cast
from urllib.parse import parse_qsl, urlsplit, urlunsplit

import httpx2

from kakite.host.cleaning import clean
from kakite.host.connection import Link
from kakite.host.entries import Address, Program, ServerEntry
from kakite.host.redaction import Redaction, asks_for_secret, names_secret, secret_spans

_HARMLESS = frozenset(
    (
        *("accept", "accept-encoding", "accept-language", "content-type", "user-agent"),
        *("mcp-protocol-version", "bearer", "basic", "digest"),
    )
)
"""Headers, and words in them, that are no secrets."""
_SHOWN = 500
_GARBAGE_SHOWN = 80
_LOOKED_AT = 64 * 1024  # characters of which some are shown, once no secret is in them


def ending(link: Link, redaction: Redaction) -> str:
    """Return how a server ended that did so by itself; empty when nothing tells."""
    garbage = _garbage(link, redaction)
    if link.wire.fault:
        return link.wire.fault + garbage
    if link.exit_code is not None:
        return f"ended by itself, {_exit(link.exit_code)}{garbage}"
    if link.wire.refused:
        return link.wire.refused
    return f"closed its output{garbage}" if link.wire.ended else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreachable:
    """Why a server that runs elsewhere cannot be used, and a way on."""

    code: str
    reason: str
    """Follows the server's name; names the address, without what may be secret in it."""
    hint: str


def unreachable(entry: ServerEntry, link: Link, fault: BaseException) -> Unreachable | None:
    """Return why a server at an address cannot be used; None where nothing of that kind went wrong."""
    if not isinstance(entry.reached, Address):
        return None
    where = shown_address(entry.reached.url)
    if link.wire.status >= 300:
        return _no(link.wire.status, link.wire.refused, where, entry.name)
    causes = list(_causes(fault))
    for kind, (code, what, hint) in _NO_WAY.items():
        if any(isinstance(cause, kind) for cause in causes):
            return Unreachable(code=code, reason=f"cannot be reached at `{where}`: {what}", hint=hint)
    return None


def shown_address(url: str) -> str:
    """Return an address without login, query and fragment, where secrets stand."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


_NO_WAY: Mapping[type[BaseException], tuple[str, str, str]] = {
    ssl.SSLError: (
        "tls_failed",
        "no protected connection came about",
        "is it `https://` that listens there, and is its certificate one that this machine trusts?",
    ),
    socket.gaierror: ("host_unknown", "its host is not known", "look at the address; is there a network?"),
    httpx2.ConnectTimeout: (
        "connect_timeout",
        "nothing answered",
        "look at host and port; something on the way may swallow what is sent",
    ),
    httpx2.ConnectError: (
        "connection_refused",
        "nobody listens there",
        "is the server running, and are host and port right?",
    ),
}
"""From the narrowest to the widest."""


def _no(status: int, said: str, where: str, name: str) -> Unreachable:
    code, hint = _HTTP.get(status, ("http_error", "look at the address, and into the logs of that server"))
    if status >= 500:
        code, hint = "http_server_error", "that server is broken or overloaded: try again later"
    elif status < 400:
        code, hint = "http_redirected", "write the address that it leads to: headers go to no other host"
    return Unreachable(code=code, reason=f"{said} at `{where}`", hint=hint.format(name=name))


_HTTP = {
    401: (
        "http_unauthorized",
        "does the header or the variable with the key still hold a valid one? Without an `Authorization` "
        "header, `kakite host login {name}` logs in",
    ),
    403: ("http_forbidden", "the key or the login is known there, and may not do this: ask for the rights"),
    404: (
        "http_not_found",
        "look at the path: many end in `/mcp`; an old server wants `/sse` and `type: sse`",
    ),
    405: (
        "http_not_found",
        "look at the path: many end in `/mcp`; an old server wants `/sse` and `type: sse`",
    ),
    429: ("http_too_many", "that server wants fewer calls: try again later"),
}


def _causes(fault: BaseException) -> Iterator[BaseException]:
    found: BaseException | None = innermost(fault)
    seen: list[BaseException] = []
    while found is not None and found not in seen:
        seen.append(found)
        yield found
        found = found.__cause__ or found.__context__


def start_failure(link: Link, fault: BaseException, waited: float, redaction: Redaction) -> str:
    """Return why a server did not come up."""
    if known := ending(link, redaction):
        return known
    if isinstance(fault, TimeoutError):
        heard = "" if link.wire.heard else ", and never said a word"
        return f"did not list its tools within {waited:g} s{heard}{_garbage(link, redaction)}"
    return f"failed while it started: {_words(fault, redaction)}{_garbage(link, redaction)}"


def fault_words(link: Link, fault: BaseException, redaction: Redaction) -> str:
    """Return why a connection broke."""
    return ending(link, redaction) or f"is not reachable any more: {_words(fault, redaction)}"


def secrets_of(entry: ServerEntry) -> set[str]:
    """Return the values in an expanded entry that nobody shall be told."""
    reached = entry.reached
    if isinstance(reached, Program):
        found = [value for name, value in reached.env.items() if names_secret(name)]
        words = (reached.command, *reached.args)
        found += [value for flag, value in pairwise(words) if asks_for_secret(flag, value)]
        shown = (*words, *reached.env.values())
        within = [text[start:end] for text in shown for start, end in secret_spans(text)]
        found += [*within, *(login.partition(":")[2] for login in within)]
    else:
        parts = urlsplit(reached.url)
        given = (reached.oauth.secret, parts.query, parts.username or "", parts.password or "")
        found = [value for name, value in reached.headers.items() if name.lower() not in _HARMLESS]
        found += [*given, *(value for _, value in parse_qsl(parts.query))]
        shown = (reached.url, reached.oauth.issuer, reached.oauth.metadata_url)
        found += [text[start:end] for text in shown for start, end in secret_spans(text)]
    words = {word for value in found for word in (value, *value.split())}
    return {*entry.secrets, *(word for word in words if word.lower() not in _HARMLESS)}


def _exit(code: int) -> str:
    if code <= 128:
        return f"with exit code {code}"
    try:
        return f"by {signal.Signals(code - 128).name}"
    except ValueError:
        return f"with exit code {code}"


def _garbage(link: Link, redaction: Redaction) -> str:
    if not link.wire.garbage:
        return ""
    line = link.wire.first_garbage.decode(errors="replace").strip()
    first = _told(line, redaction, _GARBAGE_SHOWN)
    return f" (it wrote {link.wire.garbage} lines to stdout that are no messages; the first: `{first}`)"


def innermost(fault: BaseException) -> BaseException:
    """Return what is wrong, out of the groups that it was raised in."""
    while isinstance(fault, BaseExceptionGroup):
        fault = cast("BaseExceptionGroup[BaseException]", fault).exceptions[0]
    return fault


def _words(fault: BaseException, redaction: Redaction) -> str:
    fault = innermost(fault)
    return _told(str(fault) or type(fault).__name__, redaction, _SHOWN)


def _told(text: str, redaction: Redaction, limit: int) -> str:
    """Return what is shown of a text. Cut last of all: half a secret is not recognised, and tells much."""
    return clean(redaction.text(clean(text, _LOOKED_AT)), limit).strip()
