"""Which MCP servers speak for a forge. Pure; errs on the side of taking one for a forge's.

While the editor is on, the model works in its checkout and Kakite speaks with the forge: a server by which
the model could write there, past commits and their inspection, is not offered. Neither a server's name nor
where it comes from is enough to know one by (people rename, wrap and move them), so what it offers is looked
at as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

from kakite.host.entries import Program, ServerEntry
from kakite.tools.toolset import Tool

FORGES = ("github", "gitlab", "gitea", "forgejo", "codeberg", "bitbucket", "gogs")
"""Words that name a forge, wherever they stand in a server's entry or in a tool's name."""

_FORGE = re.compile("|".join(FORGES), re.IGNORECASE)
_SOURCE = re.compile(
    r"(?:git\+)?(?:https?|ssh|git)://(?:[^/@\s]*@)?(?:www\.)?(?:github\.com|gitlab\.com|codeberg\.org|bitbucket\.org)/"
    r"|\b(?:github|gitlab|bitbucket):(?!//)|\bgit@(?:github\.com|gitlab\.com|codeberg\.org|bitbucket\.org):",
    re.IGNORECASE,
)
"""Where a package is fetched from: half of all servers lie on a forge, and have nothing to do with it."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_PLURAL = re.compile(r"(?<=[a-z]{2})s\Z")

_DEEDS: tuple[frozenset[str], ...] = tuple(
    frozenset(words.split())
    for words in (
        *("pull request", "merge request", "push file", "create or update file", "fork repository"),
        *("fork repo", "fork project", "create repository", "pull req", "merge req"),
        *("create pr", "merge pr", "create mr", "merge mr", "list pr", "list mr"),
    )
)
"""Words in one tool's name, in any order, that only a forge's tools have."""

_ARGUMENTS: tuple[tuple[frozenset[str], frozenset[str]], ...] = (
    (frozenset({"owner", "repo"}), frozenset()),
    (frozenset({"owner", "repository"}), frozenset()),
    (
        frozenset({"projectid"}),
        frozenset({"mergerequestiid", "issueiid", "sourcebranch", "ref", "branch", "filepath", "iid"}),
    ),
    (frozenset({"mergerequestiid"}), frozenset()),
    (frozenset({"issueiid"}), frozenset()),
    (frozenset({"pullnumber"}), frozenset()),
)
"""Arguments that a tool of a forge takes: all of the first, and of the second, if there are any, one."""


def forge_by_entry(entry: ServerEntry) -> str:
    """Return what of an entry says that its server is a forge's; empty if nothing does.

    Looked at are the server's name, command, arguments, names of variables, and address. Of what is only the
    place that a package is fetched from, the forge's own address does not count.
    """
    return next((word for text in _texts(entry) if (word := _named(text))), "")


def forge_by_tools(tools: Iterable[Tool]) -> str:
    """Return the name of a tool that says that its server is a forge's; empty if none does."""
    return next((tool.name for tool in tools if _is_forges(tool)), "")


def _texts(entry: ServerEntry) -> Iterator[str]:
    yield entry.name
    reached = entry.reached
    if isinstance(reached, Program):
        yield from (_SOURCE.sub(" ", word) for word in (reached.command, *reached.args))
        yield from reached.env
        yield from reached.env.values()
        yield reached.cwd
    else:
        yield reached.url
        yield from reached.headers
        yield from reached.headers.values()


def _named(text: str) -> str:
    found = _FORGE.search(text)
    return found[0].lower() if found else ""


def _is_forges(tool: Tool) -> bool:
    if _named(tool.name) or _named(tool.title):
        return True
    words = _words(tool.name)
    return any(deed <= words for deed in _DEEDS) or _takes_a_forges(_arguments(tool))


def _words(name: str) -> frozenset[str]:
    return frozenset(_singular(word.lower()) for word in _WORD.findall(name))


def _singular(word: str) -> str:
    return f"{word[:-3]}y" if word.endswith("ies") else _PLURAL.sub("", word)


def _arguments(tool: Tool) -> frozenset[str]:
    properties: Any = tool.parameters.get("properties")
    names: Sequence[str] = list(cast("dict[str, Any]", properties)) if isinstance(properties, dict) else []
    return frozenset("".join(_WORD.findall(name)).lower() for name in names)


def _takes_a_forges(arguments: frozenset[str]) -> bool:
    return any(every <= arguments and (not some or bool(some & arguments)) for every, some in _ARGUMENTS)
