"""Builds tool names that every model provider accepts, and maps them back."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from kakite.tools.arguments import suggest_name

MAX_NAME_CHARS = 64  # characters

_ILLEGAL_CHARACTER = re.compile(r"[^A-Za-z0-9_-]")
_HASH_SUFFIX = re.compile(r"_[0-9a-f]{8,}\Z")


def assign_tool_names(pairs: Sequence[tuple[str, str]]) -> Mapping[str, tuple[str, str]]:
    """Return a name for each pair of server and tool, in order: ``^[a-zA-Z0-9_-]{1,64}$``, all different.

    It is ``server__tool`` where that says just this pair. Where it does not (an odd character, too long, two
    pairs that would read the same) it is cut and ends with ``_`` and eight digits of a hash of the pair. So a
    name depends on its pair alone, and stays when other tools come or go; only where even the hashes of two
    pairs agree, both get a longer one.
    """
    different = list(dict.fromkeys(pairs))
    first = {pair: _build_name(pair, 8) for pair in different}
    often = Counter(first.values())
    names = {pair: name if often[name] == 1 else _build_name(pair, 32) for pair, name in first.items()}
    found = {name: pair for pair, name in names.items()}
    if len(found) != len(names):
        raise AssertionError("two pairs have one SHA-256")
    return found


def get_server_prefix(server: str) -> str:
    """Return what the legal names of a server's tools begin with, unless they are cut before that."""
    return f"{_ILLEGAL_CHARACTER.sub('_', server)}__"


def suggest_server(name: str, configured: Iterable[str]) -> str:
    """Return a hint for a server that is not configured: which was meant, or how one comes to be."""
    none = "none is configured: write `.mcp.json`, or take over those of a client by `kakite host import`"
    return suggest_name(name, configured, none=none)


def _build_name(pair: tuple[str, str], digits: int) -> str:
    server, tool = pair
    name = f"{server}__{tool}"
    if _is_plain(name, pair):
        return name
    # An error handler for lone surrogates: JSON escapes them.
    mark = hashlib.sha256(json.dumps(pair).encode()).hexdigest()[:digits]
    return f"{_ILLEGAL_CHARACTER.sub('_', name)[: MAX_NAME_CHARS - digits - 1]}_{mark}"


def _is_plain(name: str, pair: tuple[str, str]) -> bool:
    """Return whether the name can be read in one way only, and cannot be mistaken for one with a hash."""
    read = name.partition("__")
    is_read_so = (read[0], read[2]) == pair and all(pair)
    return (
        is_read_so
        and len(name) <= MAX_NAME_CHARS
        and not _ILLEGAL_CHARACTER.search(name)
        and not _HASH_SUFFIX.search(name)
    )
