"""The tool ``glob``, and the patterns that it takes.

Patterns over paths have ``*``, ``?`` and sets within a name, ``**`` for any folders, ``{a,b}`` for either.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from fnmatch import translate

from kakite.tools.arguments import ToolError
from kakite.tools.call_context import raise_if_cancelled
from kakite.tools.function_toolset import FunctionTool
from kakite.tools.scope import Scope
from kakite.tools.text_pages import CHARACTERS_SHOWN, escape_bytes
from kakite.tools.toolset import JsonObject, Tool, ToolResult
from kakite.tools.worker_threads import wrap_in_thread
from kakite.workspace import Workspace

MAX_GLOBS = 100  # that one glob with braces may stand for

_SegmentMatcher = Callable[[str], object] | None
"""Whether a glob's part matches a name; None stands for ``**``."""
_BRACES = re.compile(r"\{([^{}]*)\}")


class Glob:
    """One glob, without braces."""

    def __init__(self, glob: str) -> None:
        """Read it."""
        self._is_bound = glob.startswith(("/", "./"))
        names = glob.removeprefix("./").strip("/").split("/")
        self._parts: list[_SegmentMatcher] = [
            None if name == "**" else _compile_segment(name) for name in names
        ]

    def matches_prefix(self, parts: Sequence[str]) -> bool:
        """Return whether it names a path, or a folder on its way, as ``.gitignore`` would."""
        (first, *more) = self._parts
        if not more and first is not None and not self._is_bound:
            return any(map(first, parts))
        reached = {0}
        for part in parts:
            reached = self._advance(reached, part)
            if len(self._parts) in reached:
                return True
        return False

    def matches(self, parts: Sequence[str]) -> bool:
        """Return whether it names just this path; without a slash it names files at any depth."""
        (first, *more) = self._parts
        if not more and first is not None and not self._is_bound:
            return bool(first(parts[-1]))
        reached = {0}
        for part in parts:
            reached = self._advance(reached, part)
        return len(self._parts) in reached

    def _advance(self, reached: set[int], part: str) -> set[int]:
        """Return how far into the glob one can be after one more part of the path."""
        following: set[int] = set()
        for at in self._skip_double_stars(reached):
            if at < len(self._parts):
                matching = self._parts[at]
                if matching is None:
                    following |= {at, at + 1} if at + 1 == len(self._parts) else {at}
                elif matching(part):
                    following.add(at + 1)
        return following

    def _skip_double_stars(self, reached: set[int]) -> set[int]:
        """Return the same with ``**`` standing for no folder at all, too."""
        found = set(reached)
        for at, part in enumerate(self._parts):
            if part is None and at in found:
                found.add(at + 1)
        return found


class GlobFilter:
    """A filter for files, by their paths below a folder."""

    def __init__(self, include: Iterable[str], exclude: Iterable[str]) -> None:
        """Read them; without any to include, all are meant."""
        self._include = parse_globs(include)
        self._exclude = parse_globs(exclude)

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self._include or self._exclude)

    def is_included(self, path: str) -> bool:
        """Return whether this path is meant."""
        parts = path.split("/")
        if any(glob.matches_prefix(parts) for glob in self._exclude):
            return False
        return not self._include or any(glob.matches_prefix(parts) for glob in self._include)


def parse_globs(globs: Iterable[str]) -> tuple[Glob, ...]:
    """Read globs that may have braces.

    Raises:
        ToolError: they stand for too many.
    """
    return tuple(Glob(each) for glob in globs for each in _expand_braces(glob))


def _compile_segment(name: str) -> Callable[[str], object]:
    if not any(sign in name for sign in "*?["):
        return name.__eq__
    return re.compile(translate(name)).match


def _expand_braces(glob: str) -> list[str]:
    """Write braces out: ``*.{ts,tsx}`` as two globs. The innermost come first; one without comma is text."""
    waiting, done = [glob], list[str]()
    while waiting:
        each = waiting.pop(0)
        found = next((found for found in _BRACES.finditer(each) if "," in found[1]), None)
        if found is None:
            done.append(each)
            continue
        waiting += [each[: found.start()] + name + each[found.end() :] for name in found[1].split(",")]
        if len(waiting) + len(done) > MAX_GLOBS:
            raise ToolError(
                f"a glob stands for more than {MAX_GLOBS} others with its braces written out",
                hint="give several globs, or a wider one",
            )
    return done


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


def create_glob_tool(scope: Scope) -> FunctionTool:
    """Return the tool, working in this scope."""

    def perform(arguments: JsonObject) -> ToolResult:
        return ToolResult(text=_find_paths(scope.workspace, arguments["pattern"], arguments.get("path", ".")))

    return FunctionTool(GLOB, wrap_in_thread(perform))


def _find_paths(workspace: Workspace, pattern: str, path: str) -> str:
    matches = _build_matcher(workspace, pattern, path)
    began = time.monotonic()
    paths: list[str] = []
    room, left_out, is_over = CHARACTERS_SHOWN, 0, False
    for count, file in enumerate(workspace.walk_files(path), 1):
        if count % _LOOKED_AFTER == 0:
            raise_if_cancelled()
            is_over = time.monotonic() - began > CALL_LIMIT
            if is_over:
                break
        if not matches(file.below.split("/")):
            continue
        room -= len(escape_bytes(file.path)) + 1
        if left_out or room < 0 or len(paths) == PATHS_SHOWN:
            left_out += 1
        else:
            paths.append(file.path)
    told = _format_rest(len(paths), left_out, is_over=is_over)
    return "\n".join([*paths, *told, *([] if paths else _describe_pattern_problems(pattern))])


def _format_rest(shown: int, left_out: int, *, is_over: bool) -> list[str]:
    if is_over:
        return [
            f"… {shown:,} shown, {left_out:,} left out, and not all was looked at in {CALL_LIMIT:g} s: "
            "give the `path` of a folder below"
        ]
    if left_out:
        return [f"… {shown:,} shown, {left_out:,} left out: narrow the pattern, or give a `path`"]
    return [] if shown else ["Nothing was found"]


def _describe_pattern_problems(pattern: str) -> list[str]:
    """Return what is told of a pattern that found nothing and is hardly what was meant."""
    for opening, closing in ("[]", "{}"):
        if pattern.count(opening) > pattern.count(closing):
            told = f"its `{opening}` has no `{closing}`, and was taken as a letter of the name"
            return [f"The pattern is not valid: {told}"]
    return []


def _build_matcher(workspace: Workspace, pattern: str, path: str) -> Callable[[Sequence[str]], bool]:
    folder = workspace.canonicalize(path).rstrip("/")
    below = pattern.removeprefix(f"{folder}/")  # some give the pattern as an absolute path
    if below == pattern and pattern.startswith("/"):
        raise ToolError(
            f"`pattern` begins with `/` and does not lie below `{path}`",
            hint="give it from the folder `path` on, without a slash before it",
        )
    if below != pattern:
        below = f"./{below}"
    globs = parse_globs([f"{below}**" if below.endswith("/") else below])
    return lambda parts: any(each.matches(parts) for each in globs)
