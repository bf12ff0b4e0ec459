"""Why a server is gone, in words that follow its name, without its secrets."""

from __future__ import annotations

import re
import signal
from typing import cast
from urllib.parse import urlsplit

from kakite.host.cleaning import clean
from kakite.host.connection import Link
from kakite.host.entries import Program, ServerEntry

SAID = 4000
"""Characters of stderr in a message; the rest is in the log."""

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH|COOKIE", re.IGNORECASE)
_SHORTEST_SECRET = 6
_SHOWN = 500
_LOOKED_AT = 8000  # characters of stderr's end


def ending(link: Link) -> str:
    """Return how a server ended that did so by itself; empty when nothing tells."""
    garbage = _garbage(link)
    if link.wire.fault:
        return link.wire.fault + garbage
    if link.exit_code is not None:
        return f"ended by itself, {_exit(link.exit_code)}{garbage}"
    if link.wire.refused:
        return link.wire.refused
    return f"closed its output{garbage}" if link.wire.ended else ""


def start_failure(link: Link, fault: BaseException, waited: float) -> str:
    """Return why a server did not come up."""
    if known := ending(link):
        return known
    if isinstance(fault, TimeoutError):
        heard = "" if link.wire.heard else ", and never said a word"
        return f"did not list its tools within {waited:g} s{heard}{_garbage(link)}"
    return f"failed while it started: {_words(fault)}{_garbage(link)}"


def fault_words(link: Link, fault: BaseException) -> str:
    """Return why a connection broke."""
    return ending(link) or f"is not reachable any more: {_words(fault)}"


def without_secrets(text: str, entry: ServerEntry) -> str:
    """Return the text without values of headers, of variables that are named like a secret, and of ours."""
    for secret in sorted(_secrets(entry), key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def said(link: Link, entry: ServerEntry) -> str:
    """Return the end of what the server wrote to stderr, safe for a terminal."""
    return without_secrets(clean(link.stderr_tail()[-_LOOKED_AT:], _LOOKED_AT).strip()[-SAID:], entry)


def _exit(code: int) -> str:
    if code <= 128:
        return f"with exit code {code}"
    try:
        return f"by {signal.Signals(code - 128).name}"
    except ValueError:
        return f"with exit code {code}"


def _garbage(link: Link) -> str:
    if not link.wire.garbage:
        return ""
    first = clean(link.wire.first_garbage.decode(errors="replace"), _SHOWN).strip()
    return f" (it wrote {link.wire.garbage} lines to stdout that are no messages; the first: `{first}`)"


def innermost(fault: BaseException) -> BaseException:
    """Return what is wrong, out of the groups that it was raised in."""
    while isinstance(fault, BaseExceptionGroup):
        fault = cast("BaseExceptionGroup[BaseException]", fault).exceptions[0]
    return fault


def _words(fault: BaseException) -> str:
    fault = innermost(fault)
    return clean(str(fault) or type(fault).__name__, _SHOWN).strip()


def _secrets(entry: ServerEntry) -> set[str]:
    reached = entry.reached
    if isinstance(reached, Program):
        found = [value for name, value in reached.env.items() if _SECRET_NAME.search(name)]
    else:
        parts = urlsplit(reached.url)
        given = (reached.oauth.secret, parts.query, parts.username or "", parts.password or "")
        found = [*reached.headers.values(), *given]
    words = [*entry.secrets, *(word for value in found for word in (value, *value.split()))]
    return {word for word in words if len(word) >= _SHORTEST_SECRET}
