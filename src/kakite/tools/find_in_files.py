"""The tool ``find_in_files``: where in the workspace something is written."""

from __future__ import annotations

import asyncio
import json
import os
import posixpath
import threading
import time
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import accumulate

from kakite.edit import SourceText
from kakite.tools.arguments import ToolError
from kakite.tools.listing import named
from kakite.tools.offers import Offer
from kakite.tools.patterns import Clock, Folded, Pattern, Wanted, in_time
from kakite.tools.progress import report
from kakite.tools.scope import Scope, is_binary
from kakite.tools.spelling import fitting_start, spelled, unspelled
from kakite.tools.toolset import JsonObject, Tool, ToolResult
from kakite.workspace import WorkspaceError

HITS = 100  # in an answer, unless the model asks for another number
HITS_MOST = 1000
CONTEXT_MOST = 20
CHARACTERS = 40_000  # of an answer
LINE = 300  # characters that are shown of a line
BRACES_MOST = 20
FILES_NAMED = 20
TOLD_EVERY = 0.25  # seconds
CALL_LIMIT = 10.0  # seconds, after which what was found so far is told

_GLOBS: JsonObject = {"type": "array", "items": {"type": "string"}, "maxItems": 50}

FIND_IN_FILES = Tool(
    name="find_in_files",
    title="Find in files",
    description=(
        "Find lines in the files below a folder (or in one file), except what .gitignore names. "
        "Answers `12: hit` and `13- context`, by file."
    ),
    parameters={
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "path": {"type": "string", "default": "."},
            "use_regex": {"type": "boolean", "default": False},
            "ignore_case": {"type": "boolean", "default": False},
            "whole_word": {"type": "boolean", "default": False},
            "include": {**_GLOBS, "description": "globs, e.g. *.py or src/**"},
            "exclude": _GLOBS,
            "context": {"type": "integer", "minimum": 0, "maximum": CONTEXT_MOST, "default": 0},
            "limit": {"type": "integer", "minimum": 1, "maximum": HITS_MOST, "default": HITS},
            "offset": {"type": "integer", "minimum": 0, "default": 0, "description": "hits to skip"},
            "after": {"type": "string", "description": "a file: search those behind it"},
        },
        "required": ["query"],
        "additionalProperties": False,
    },
    effect="read",
    idempotent=True,
)


def find_in_files(scope: Scope) -> Offer:
    """Return the tool, working in this scope."""

    async def perform(arguments: JsonObject) -> ToolResult:
        search = _Search(scope, arguments)
        loop = asyncio.get_running_loop()
        try:
            text = await in_time(lambda clock: search.run(loop, clock))
        except ToolError as error:
            if error.code != "too_slow" or not search.is_of_many:
                raise
            search.stop()
            text = search.given_up()
        finally:
            search.stop()
        return ToolResult(text=text)

    return Offer(FIND_IN_FILES, perform)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Globs:
    """Which files are searched, by their paths below the folder."""

    include: tuple[str, ...]
    exclude: tuple[str, ...]

    def take(self, path: str) -> bool:
        parts = path.split("/")
        if any(_names(glob, parts) for glob in self.exclude):
            return False
        return not self.include or any(_names(glob, parts) for glob in self.include)


@dataclass(slots=True)
class _Page:
    """The answer, as far as it has come."""

    limit: int
    offset: int
    context: int
    lines: list[str] = field(default_factory=list[str])
    size: int = 0
    hits: int = 0
    """That were found so far, those that were skipped too."""
    files: int = 0
    """That have hits on this page."""
    is_full: bool = False
    stopped_after: str = ""
    """The last file that was searched, when the time was over then."""
    binaries: list[str] = field(default_factory=list[str])
    slow: list[str] = field(default_factory=list[str])
    """Files that were not searched to the end, since that took too long."""

    @property
    def shown(self) -> int:
        return max(0, self.hits - self.offset)

    @property
    def told(self) -> str:
        """How much is shown, in words."""
        lines = f"{self.shown} line{'' if self.shown == 1 else 's'}"
        return f"{lines} in {self.files} file{'' if self.files == 1 else 's'}"

    def take(self, hits: list[int]) -> list[int]:
        """Count these hits and return those that belong on this page."""
        fresh = hits[max(0, self.offset - self.hits) :]
        room = self.limit - self.shown
        if len(fresh) > room:
            self.is_full = True
            fresh = fresh[:room]
            self.hits = self.offset + self.limit
        else:
            self.hits += len(hits)
        return fresh

    @property
    def room(self) -> int:
        """Characters that are left; the first hit is shown in any case."""
        return CHARACTERS - self.size

    def add(self, path: str, block: _Block, *, of: int) -> None:
        """Add what is shown of a file; of its hits so many were meant to be."""
        self.files += 1
        self.lines += [path, *block.lines, ""]
        self.size += sum(len(spelled(line)) + 1 for line in (path, "", *block.lines))
        self.hits -= of - block.hits
        self.is_full |= block.hits < of or self.room <= 0


class _Search:
    """One search. Runs in a worker thread, until it is through or stopped."""

    def __init__(self, scope: Scope, arguments: JsonObject) -> None:
        self._scope = scope
        self._path: str = arguments.get("path", ".")
        self._wanted = Wanted(
            search=arguments["query"],
            is_regex=arguments.get("use_regex", False),
            ignore_case=arguments.get("ignore_case", False),
            whole_word=arguments.get("whole_word", False),
        )
        self._globs = _Globs(
            include=_expanded(arguments.get("include", [])), exclude=_expanded(arguments.get("exclude", []))
        )
        self._page = _Page(
            arguments.get("limit", HITS), arguments.get("offset", 0), arguments.get("context", 0)
        )
        self._after = os.fsencode(self._inner(arguments.get("after", "")))
        self._stopped = threading.Event()
        self._at = ""
        """The file that is being searched."""
        self.is_of_many = False
        """Whether a folder is searched, not a single file that was named."""

    def given_up(self) -> str:
        """Return the answer without the file that is still being searched."""
        self._page.slow.append(self._scope.shown(self._at))
        self._page.stopped_after = self._page.slow[-1]
        return self._answer()

    def stop(self) -> None:
        """Let the search end before its next file."""
        self._stopped.set()

    def run(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> str:
        """Search, and tell the loop now and then how many files are done."""
        told = time.monotonic()
        over = told + CALL_LIMIT
        pattern = Pattern(self._wanted, clock)
        last = ""
        for count, path in enumerate(self._files(), 1):
            if self._stopped.is_set() or self._page.is_full:
                break
            if last and time.monotonic() > over:
                self._page.stopped_after = self._scope.shown(last)
                break
            if time.monotonic() - told > TOLD_EVERY:
                told = time.monotonic()
                with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                    loop.call_soon_threadsafe(report, count, f"searching {self._scope.shown(path)}")
            self._at = path
            self._search_file(pattern, path)
            last = path
        return self._answer()

    def _inner(self, path: str) -> str:
        """Return a path, as answers show it, as it is below the searched folder."""
        if not path:
            return ""
        below = posixpath.relpath(self._scope.identity(self._named(path)), self._scope.identity(self._path))
        if below == ".." or below.startswith("../"):
            told = f"`after` names `{path}`, which does not lie below the searched `{self._path}`"
            raise ToolError(told, hint="give it as the answer before named it, with the same `path`")
        try:
            below.encode(errors="surrogateescape")
        except UnicodeEncodeError as error:
            raise ToolError(
                "`after` holds half of a character", hint="give it as the answer named it"
            ) from error
        return below

    def _named(self, path: str) -> str:
        """Return the path of the file that answers show as this one."""
        other = unspelled(path)
        if other != path:
            with suppress(WorkspaceError):
                self._scope.read(path)
                return path  # a file is called so, letter by letter
        return other

    def _files(self) -> Iterator[str]:
        if not self._scope.is_folder(self._path):
            self._scope.read(self._path)  # what is wrong with the one file that was named is told
            if not self._after:  # there is nothing behind it
                yield self._scope.full(self._path)
            return
        self.is_of_many = True
        for found, below in self._scope.files(self._path):
            if os.fsencode(below) > self._after and self._globs.take(below):
                yield found

    def _search_file(self, pattern: Pattern, path: str) -> None:
        try:
            data = self._scope.workspace.read(path).data
        except WorkspaceError:
            return  # gone meanwhile, closed to us, or too large
        binary = is_binary(data)
        # Of a binary file only whether it has a hit is told: no need to find out what its bytes mean.
        text = data.decode(errors="surrogateescape") if binary else SourceText.from_bytes(data).text
        folded = Folded.of(text).text
        lines = folded.removesuffix("\n").split("\n")
        starts = [0, *accumulate(len(line) + 1 for line in lines)]
        hits = self._hits(pattern, folded, starts)
        if not hits or self._stopped.is_set():
            return
        if binary:
            self._page.binaries.append(self._scope.shown(path))
            return
        kept = self._page.take(hits)
        if kept:
            block = _block(lines, kept, self._page.context, self._page.room)
            self._page.add(self._scope.shown(path), block, of=len(kept))

    def _hits(self, pattern: Pattern, text: str, starts: list[int]) -> list[int]:
        """Return the indices of the lines in which a hit begins, as far as the time reaches."""
        lines: dict[int, None] = {}
        try:
            with closing(pattern.find(text)) as places:
                for found in places:
                    lines.setdefault(bisect_right(starts, found.start()) - 1)
                    if self._stopped.is_set() or len(lines) > self._page.offset + self._page.limit:
                        break
        except ToolError as error:
            if error.code != "too_slow" or not (lines or self.is_of_many):
                raise
            self._page.slow.append(self._scope.shown(self._at))
        return list(lines)

    def _answer(self) -> str:
        page = self._page
        lines = list(page.lines)
        if page.binaries:
            lines.append(f"In binary files, not shown: {_some(page.binaries)}")
        if page.slow:
            lines.append(f"Not searched to the end, since it took too long: {_some(page.slow)}")
        if page.stopped_after:
            lines.append(
                f"{page.told}, and not all was searched in {CALL_LIMIT:g} s: "
                f"read on with after {json.dumps(spelled(page.stopped_after), ensure_ascii=False)} "
                "and no offset, or narrow the search"
            )
        elif page.is_full:
            lines.append(
                f"{page.told}, and there may be more: read on with offset {page.hits}, or narrow the search"
            )
        elif page.shown:
            rest = "more may be in those not searched to the end" if page.slow else "that is all"
            lines.append(f"{page.told}; {rest}")
        else:
            lines.append("Nothing more was found" if page.offset or self._after else "Nothing was found")
        return "\n".join(lines)


def _some(paths: list[str]) -> str:
    return named(paths, FILES_NAMED)


@dataclass(frozen=True, slots=True)
class _Block:
    """What is shown of one file."""

    lines: list[str]
    hits: int


def _block(lines: list[str], hits: list[int], context: int, room: int) -> _Block:
    """Return the lines around as many hits as begin within so many characters; at least the first."""
    block: list[str] = []
    marked = set(hits)
    shown_to = -1
    for count, hit in enumerate(hits):
        if block and room <= 0:
            return _Block(block, count)
        first = max(hit - context, shown_to + 1, 0)
        if block and context and first > shown_to + 1:
            block.append("--")
        for at in range(first, min(hit + context, len(lines) - 1) + 1):
            block.append(f"{at + 1}{':' if at in marked else '-'} {_shown(lines[at])}")
            room -= len(spelled(block[-1])) + 1
            shown_to = at
    return _Block(block, len(hits))


def _shown(line: str) -> str:
    start = fitting_start(line, LINE)
    return line if start == line else f"{start}… ({len(line) - len(start):,} more characters)"


def _expanded(globs: list[str]) -> tuple[str, ...]:
    """Write braces out: ``*.{ts,tsx}`` as two globs."""
    expanded: list[str] = []
    for glob in globs:
        before, brace, rest = glob.partition("{")
        inner, closed, after = rest.partition("}")
        names = inner.split(",")[:BRACES_MOST] if brace and closed else []
        expanded += [f"{before}{name}{after}" for name in names] or [glob]
    return tuple(expanded)


def _names(glob: str, parts: list[str]) -> bool:
    """Return whether a glob names a path, or a folder on its way, as ``.gitignore`` would."""
    wanted = (
        glob.removeprefix(".").strip("/").split("/") if glob.startswith("./") else glob.strip("/").split("/")
    )
    if len(wanted) == 1 and not glob.startswith(("/", "./")):
        return any(fnmatchcase(part, wanted[0]) for part in parts)
    reached = {0}
    for part in parts:
        reached = _after(reached, wanted, part)
        if len(wanted) in reached:
            return True
    return False


def _after(reached: set[int], wanted: list[str], part: str) -> set[int]:
    """Return how far into the glob one can be after one more part of the path."""
    following: set[int] = set()
    for at in _skipping(reached, wanted):
        if at < len(wanted):
            if wanted[at] == "**":
                following |= {at, at + 1} if at + 1 == len(wanted) else {at}
            elif fnmatchcase(part, wanted[at]):
                following.add(at + 1)
    return following


def _skipping(reached: set[int], wanted: list[str]) -> set[int]:
    """Return the same with ``**`` standing for no folder at all, too."""
    found = set(reached)
    for at in range(len(wanted)):
        if at in found and wanted[at] == "**":
            found.add(at + 1)
    return found
