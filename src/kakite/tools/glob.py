"""The tool ``glob``: which files have a name like this."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from kakite.tools.arguments import ToolError
from kakite.tools.globs import read_globs
from kakite.tools.listing import CHARACTERS_SHOWN
from kakite.tools.offers import Offer
from kakite.tools.scope import Scope
from kakite.tools.spelling import spelled
from kakite.tools.threads import check_wanted, threaded
from kakite.tools.toolset import JsonObject, Tool, ToolResult

PATHS_SHOWN = 1000
CALL_LIMIT = 10.0  # seconds, after which what was found so far is told
_LOOKED_AFTER = 500  # files

GLOB = Tool(
    name="glob",
    title="Find files by name",
    description="Find files by a glob (`*.py`, `src/**/a?.{c,h}`), except what .gitignore names. "
    "Without a `/` it counts at any depth.",
    parameters={
        "type": "object",
        "properties": {
            "pattern": {"type": "string", "minLength": 1},
            "path": {"type": "string", "default": "."},
        },
        "required": ["pattern"],
        "additionalProperties": False,
    },
    effect="read",
    idempotent=True,
)


def glob(scope: Scope) -> Offer:
    """Return the tool, working in this scope."""

    def perform(arguments: JsonObject) -> ToolResult:
        return ToolResult(text=_found(scope, arguments["pattern"], arguments.get("path", ".")))

    return Offer(GLOB, threaded(perform))


def _found(scope: Scope, pattern: str, path: str) -> str:
    matches = _matching(scope, pattern, path)
    began = time.monotonic()
    paths: list[str] = []
    room, left_out, is_over = CHARACTERS_SHOWN, 0, False
    for count, file in enumerate(scope.files(path), 1):
        if count % _LOOKED_AFTER == 0:
            check_wanted()
            is_over = time.monotonic() - began > CALL_LIMIT
            if is_over:
                break
        if not matches(file.below.split("/")):
            continue
        shown = scope.shown(file.path)
        room -= len(spelled(shown)) + 1
        if left_out or room < 0 or len(paths) == PATHS_SHOWN:
            left_out += 1
        else:
            paths.append(shown)
    told = _rest(len(paths), left_out, is_over=is_over)
    return "\n".join([*paths, *told, *([] if paths else _doubts(pattern))])


def _rest(shown: int, left_out: int, *, is_over: bool) -> list[str]:
    if is_over:
        return [
            f"… {shown:,} shown, {left_out:,} left out, and not all was looked at in {CALL_LIMIT:g} s: "
            "give the `path` of a folder below"
        ]
    if left_out:
        return [f"… {shown:,} shown, {left_out:,} left out: narrow the pattern, or give a `path`"]
    return [] if shown else ["Nothing was found"]


def _doubts(pattern: str) -> list[str]:
    """Return what is told of a pattern that found nothing and is hardly what was meant."""
    for opening, closing in ("[]", "{}"):
        if pattern.count(opening) > pattern.count(closing):
            told = f"its `{opening}` has no `{closing}`, and was taken as a letter of the name"
            return [f"The pattern is not valid: {told}"]
    return []


def _matching(scope: Scope, pattern: str, path: str) -> Callable[[Sequence[str]], bool]:
    folder = scope.identity(path).rstrip("/")
    below = pattern.removeprefix(f"{folder}/")  # some give the pattern as an absolute path
    if below == pattern and pattern.startswith("/"):
        raise ToolError(
            f"`pattern` begins with `/` and does not lie below `{path}`",
            hint="give it from the folder `path` on, without a slash before it",
        )
    if below != pattern:
        below = f"./{below}"
    globs = read_globs([f"{below}**" if below.endswith("/") else below])
    return lambda parts: any(each.matches(parts) for each in globs)
