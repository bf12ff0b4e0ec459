"""The tool ``find_in_files``: searches the contents of the workspace's files."""

from __future__ import annotations

import asyncio
import json
import os
import posixpath
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from functools import partial

from kakite.edit import SourceText
from kakite.tools.arguments import ToolError
from kakite.tools.call_context import report
from kakite.tools.function_toolset import FunctionTool
from kakite.tools.scope import Scope, is_binary
from kakite.tools.search.glob import GlobFilter
from kakite.tools.search.prefilter import (
    FIRST_ARGUMENTS,
    MAX_ARGUMENTS,
    Needles,
    RipgrepRun,
    can_prefilter,
    find_ripgrep,
)
from kakite.tools.search.regex_search import LfText, Pattern, SearchDeadline, SearchSpec, run_with_timeout
from kakite.tools.text_pages import escape_bytes, join_names, truncate_escaped, unescape_bytes
from kakite.tools.toolset import JsonObject, Tool, ToolResult
from kakite.workspace import WalkedFile, Workspace, WorkspaceError

HITS = 100  # in an answer, unless the model asks for another number
MAX_HITS = 1000
MAX_CONTEXT = 20
CHARACTERS = 40_000  # of an answer
LINE = 300  # characters that are shown of a line
BEFORE_HIT = 100  # characters of a long line that are shown before its hit
BEFORE_RIPGREP = 200  # files that are searched before it is asked: for a few it is not worth its start
FILES_NAMED = 20
_WIDEST = 4  # bytes of a character
_ARGUMENT = 11  # bytes that a path takes besides itself: what is before it, its end, a pointer
TOLD_EVERY = 0.25  # seconds
CALL_LIMIT = 10.0  # seconds, after which what was found so far is told

_PendingFile = tuple[str, Callable[[], bytes] | None]
"""A file that comes next, and how to read it; None says that it surely has no hit."""

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
            "context": {"type": "integer", "minimum": 0, "maximum": MAX_CONTEXT, "default": 0},
            "limit": {"type": "integer", "minimum": 1, "maximum": MAX_HITS, "default": HITS},
            "offset": {"type": "integer", "minimum": 0, "default": 0, "description": "hits to skip"},
            "after": {"type": "string", "description": "a file: search those behind it"},
        },
        "required": ["query"],
        "additionalProperties": False,
    },
    effect="read",
    idempotent=True,
)


def create_find_in_files_tool(scope: Scope) -> FunctionTool:
    """Return the tool, working in this scope."""

    async def perform(arguments: JsonObject) -> ToolResult:
        search = _Search(scope.workspace, arguments)
        loop = asyncio.get_running_loop()
        try:
            text = await run_with_timeout(lambda clock: search.run(loop, clock))
        except ToolError as error:
            if error.code != "too_slow" or not search.is_of_many:
                raise
            search.stop()
            text = search.give_up()
        finally:
            search.stop()
        return ToolResult(text=text)

    return FunctionTool(FIND_IN_FILES, perform)


@dataclass(slots=True)
class _SearchPage:
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
        """A phrase that says how much is shown."""
        lines = f"{self.shown} line{'' if self.shown == 1 else 's'}"
        return f"{lines} in {self.files} file{'' if self.files == 1 else 's'}"

    def accept_hits(self, hits: list[int]) -> list[int]:
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

    def add(self, path: str, block: _HitBlock, *, of: int) -> None:
        """Add what is shown of a file; of its hits so many were meant to be."""
        self.files += 1
        self.lines += [path, *block.lines, ""]
        self.size += sum(len(escape_bytes(line)) + 1 for line in (path, "", *block.lines))
        self.hits -= of - block.hits
        self.is_full |= block.hits < of or self.room <= 0


class _Search:
    """One search. Runs in a worker thread, until it is through or stopped."""

    def __init__(self, workspace: Workspace, arguments: JsonObject) -> None:
        self._workspace = workspace
        self._path: str = arguments.get("path", ".")
        self._wanted = SearchSpec(
            search=arguments["query"],
            is_regex=arguments.get("use_regex", False),
            ignore_case=arguments.get("ignore_case", False),
            whole_word=arguments.get("whole_word", False),
        )
        self._globs = GlobFilter(arguments.get("include", []), arguments.get("exclude", []))
        self._page = _SearchPage(
            arguments.get("limit", HITS), arguments.get("offset", 0), arguments.get("context", 0)
        )
        self._after = os.fsencode(self._to_inner_path(arguments.get("after", "")))
        self._stopped = threading.Event()
        self._at = ""
        """The file that is being searched."""
        self.is_of_many = False
        """Whether a folder is searched, not a single file that was named."""

    def give_up(self) -> str:
        """Return the answer without the file that is still being searched."""
        self._page.slow.append(self._at)
        self._page.stopped_after = self._page.slow[-1]
        return self._render_answer()

    def stop(self) -> None:
        """Let the search end before its next file."""
        self._stopped.set()

    def run(self, loop: asyncio.AbstractEventLoop, clock: SearchDeadline) -> str:
        """Search, and tell the loop now and then how many files are done."""
        told = time.monotonic()
        over = told + CALL_LIMIT
        pattern = Pattern(self._wanted, clock)
        last = ""
        for count, (path, read) in enumerate(self._iterate_files(pattern.needles), 1):
            if self._stopped.is_set() or self._page.is_full:
                break
            if last and time.monotonic() > over:
                self._page.stopped_after = last
                break
            if time.monotonic() - told > TOLD_EVERY:
                told = time.monotonic()
                with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                    loop.call_soon_threadsafe(report, count, f"searching {path}")
            self._at = path
            if read is not None:
                self._search_file(pattern, path, read)
            last = path
        return self._render_answer()

    def _to_inner_path(self, path: str) -> str:
        """Return a path, as answers show it, as it is below the searched folder."""
        if not path:
            return ""
        below = posixpath.relpath(
            self._workspace.canonicalize(self._resolve_shown_path(path)),
            self._workspace.canonicalize(self._path),
        )
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

    def _resolve_shown_path(self, path: str) -> str:
        """Return the path of the file that answers show as this one."""
        other = unescape_bytes(path)
        if other != path:
            with suppress(WorkspaceError):
                self._workspace.read(path)
                return path  # a file is called so, letter by letter
        return other

    def _iterate_files(self, needles: Needles) -> Iterator[_PendingFile]:
        if not self._workspace.is_folder(self._path):
            self._workspace.read(self._path)  # what is wrong with the one file that was named is told
            if not self._after:  # there is nothing behind it
                name = self._workspace.to_relative(self._workspace.canonicalize(self._path))
                yield name, partial(self._read_again, self._path)
            return
        self.is_of_many = True
        walked = self._walk()
        for count, file in enumerate(walked, 1):
            yield file.path, file.read
            if count == BEFORE_RIPGREP:
                break
        program = find_ripgrep(os.environ, self._workspace.roots) if can_prefilter(needles) else None
        if program is None:
            yield from ((file.path, file.read) for file in walked)
            return
        with self._workspace.open_folder(self._path) as folder:
            yield from self._prefilter(walked, lambda paths: RipgrepRun(program, folder, needles, paths))

    def _walk(self) -> Iterator[WalkedFile]:
        walked = self._workspace.walk_files(self._path)
        if self._after:
            walked = (file for file in walked if os.fsencode(file.below) > self._after)
        return (file for file in walked if self._globs.is_included(file.below)) if self._globs else walked

    def _prefilter(
        self, walked: Iterator[WalkedFile], sift: Callable[[list[str]], RipgrepRun]
    ) -> Iterator[_PendingFile]:
        """Yield the files that may have a hit, and the last one of each lot.

        While one lot is sifted, the next one is gathered. The first ones are small, so that it begins early.
        """
        with ExitStack() as begun:
            before: tuple[RipgrepRun, dict[str, str]] | None = None
            size = min(FIRST_ARGUMENTS, MAX_ARGUMENTS)
            while before is not None or not self._stopped.is_set():
                lot = _take_batch(walked, size)
                size = min(2 * size, MAX_ARGUMENTS)
                sifting = begun.enter_context(sift(list(lot))) if lot else None
                if before is not None:
                    yield from self._iterate_candidates(*before)
                if sifting is None:
                    return
                before = sifting, lot

    def _iterate_candidates(self, sifting: RipgrepRun, lot: dict[str, str]) -> Iterator[_PendingFile]:
        kept = sifting.collect_candidates()
        for below, path in lot.items():
            if below in kept:
                yield path, partial(self._read_again, path)
        yield list(lot.values())[-1], None

    def _read_again(self, path: str) -> bytes:
        return self._workspace.read(path).data

    def _search_file(self, pattern: Pattern, path: str, read: Callable[[], bytes]) -> None:
        try:
            data = read()
        except (OSError, WorkspaceError):
            return  # gone meanwhile, closed to us, or too large
        if not pattern.needles.can_match(data):
            return
        binary = is_binary(data)
        # Of a binary file only whether it has a hit is told: no need to find out what its bytes mean.
        text = data.decode(errors="surrogateescape") if binary else SourceText.from_bytes(data).text
        folded = LfText.of(text).text
        hits = self._find_hits(pattern, folded)
        if not hits or self._stopped.is_set():
            return
        if binary:
            self._page.binaries.append(path)
            return
        kept = self._page.accept_hits(list(hits))
        if kept:
            lines = folded.removesuffix("\n").split("\n")
            block = _build_block(lines, {at: hits[at] for at in kept}, self._page.context, self._page.room)
            self._page.add(path, block, of=len(kept))

    def _find_hits(self, pattern: Pattern, text: str) -> dict[int, int]:
        """Return the indices of the lines in which a hit begins, as far as the time reaches.

        With each comes where in the line its first hit begins.
        """
        lines: dict[int, int] = {}
        line = start = 0
        try:
            with closing(pattern.find(text)) as places:
                for found in places:
                    line += text.count("\n", start, found.start())
                    start = found.start()
                    if line not in lines:
                        lines[line] = start - (text.rfind("\n", 0, start) + 1)
                    if self._stopped.is_set() or len(lines) > self._page.offset + self._page.limit:
                        break
        except ToolError as error:
            if error.code != "too_slow" or not (lines or self.is_of_many):
                raise
            self._page.slow.append(self._at)
        return lines

    def _render_answer(self) -> str:
        page = self._page
        lines = list(page.lines)
        if page.binaries:
            lines.append(f"In binary files, not shown: {_format_paths(page.binaries)}")
        if page.slow:
            lines.append(f"Not searched to the end, since it took too long: {_format_paths(page.slow)}")
        if page.stopped_after:
            lines.append(
                f"{page.told}, and not all was searched in {CALL_LIMIT:g} s: "
                f"read on with after {json.dumps(escape_bytes(page.stopped_after), ensure_ascii=False)} "
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


def _format_paths(paths: list[str]) -> str:
    return join_names(paths, FILES_NAMED)


def _take_batch(walked: Iterator[WalkedFile], most: int) -> dict[str, str]:
    """Return files whose names take about so many bytes: their paths by those below the folder."""
    lot: dict[str, str] = {}
    size = 0
    for file in walked:
        lot[file.below] = file.path
        size += len(file.below) * (1 if file.below.isascii() else _WIDEST) + _ARGUMENT
        if size > most:
            break
    return lot


@dataclass(frozen=True, slots=True)
class _HitBlock:
    """The hits of one file, as they are shown."""

    lines: list[str]
    hits: int


def _build_block(lines: list[str], hits: dict[int, int], context: int, room: int) -> _HitBlock:
    """Return the lines around as many hits as begin within so many characters; at least the first."""
    block: list[str] = []
    shown_to = -1
    for count, hit in enumerate(hits):
        if block and room <= 0:
            return _HitBlock(block, count)
        first = max(hit - context, shown_to + 1, 0)
        if block and context and first > shown_to + 1:
            block.append("--")
        for at in range(first, min(hit + context, len(lines) - 1) + 1):
            shown = _truncate_around(lines[at], hits[at]) if at in hits else _truncate_line(lines[at])
            block.append(f"{at + 1}{':' if at in hits else '-'} {shown}")
            room -= len(escape_bytes(block[-1])) + 1
            shown_to = at
    return _HitBlock(block, len(hits))


def _truncate_line(line: str) -> str:
    start = truncate_escaped(line, LINE)
    return line if start == line else f"{start}… ({len(line) - len(start):,} more characters)"


def _truncate_around(line: str, start: int) -> str:
    """Return the line, or when it is very long, its part around a hit."""
    if truncate_escaped(line, LINE) == line:
        return line
    before = max(0, min(start - BEFORE_HIT, len(line) - LINE))
    if not before:
        return _truncate_line(line)
    window = truncate_escaped(line[before:], LINE)
    if start - before >= len(window):  # bytes that are no text take more room
        before, window = start, truncate_escaped(line[start:], LINE)
    behind = len(line) - before - len(window)
    told = f"; {behind:,} behind" if behind else ""
    return f"…{window}{'…' if behind else ''} ({before:,} characters before{told})"
