r"""Searches text for a pattern in a thread, within a time limit.

Patterns see every line end as a line feed, so that ``$`` and ``\n`` mean the same in all files.
"""

from __future__ import annotations

import asyncio
import re
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from kakite.tools.arguments import ToolError
from kakite.tools.call_context import raise_if_cancelled
from kakite.tools.edit_plan import check_size
from kakite.tools.search.prefilter import extract_needles

if TYPE_CHECKING:
    import regex

TIME_LIMIT = 2.0  # seconds that one text may be searched
GRACE = 2.0  # seconds after which nobody waits any more for a search to notice that its time is over
MAX_PATTERN = 10_000  # characters
MAX_WEIGHT = 50_000  # of an expression, repeats written out; to compile it takes up to 30 MB and 0.1 s
MAX_FOUND = 100_000  # places in one text


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSpec:
    """The specification of a search."""

    search: str
    is_regex: bool = False
    ignore_case: bool = False
    whole_word: bool = False


class SearchDeadline:
    """The deadline of a search. Set by the thread that searches, seen by the one that waits."""

    def __init__(self) -> None:
        self.until = float("inf")
        """By ``time.monotonic``; infinity as long as nothing is searched."""

    def start(self) -> None:
        """Let the time of a search begin."""
        self.until = time.monotonic() + TIME_LIMIT

    def stop(self) -> None:
        """Let nothing count any more."""
        self.until = float("inf")

    @property
    def left(self) -> float:
        """Seconds."""
        return self.until - time.monotonic()


_Done = TypeVar("_Done")
_LOOKED_AT = 0.1  # s


async def run_with_timeout(work: Callable[[SearchDeadline], _Done]) -> _Done:
    """Do work that searches in a worker thread, and do not wait for it longer than its clock says.

    The library counts the processor time of the whole process: on a busy machine its own limit comes late. A
    search that nobody waits for any more ends by that limit.

    Raises:
        ToolError: ``too_slow``.
    """
    clock = SearchDeadline()
    working = asyncio.ensure_future(asyncio.to_thread(work, clock))
    working.add_done_callback(_forget)
    while not working.done():
        if clock.left < -GRACE:
            raise _build_timeout_error()
        await asyncio.wait({working}, timeout=_LOOKED_AT)
    return working.result()


def run_with_timeout_in_thread(work: Callable[[SearchDeadline], _Done]) -> _Done:
    """Do work that searches as ``run_with_timeout`` does, from a worker thread.

    Raises:
        ToolError: ``too_slow``.
        CallCancelledError: nobody waits for the call any more.
    """
    clock = SearchDeadline()
    working: Future[_Done] = Future()
    threading.Thread(target=_work, args=(work, clock, working), daemon=True).start()
    while not working.done():
        raise_if_cancelled()
        if clock.left < -GRACE:
            raise _build_timeout_error()
        wait([working], timeout=_LOOKED_AT)
    return working.result()


def _work(work: Callable[[SearchDeadline], _Done], clock: SearchDeadline, working: Future[_Done]) -> None:
    try:
        working.set_result(work(clock))
    except BaseException as error:  # noqa: BLE001 - whoever waits for it gets it
        working.set_exception(error)


def _forget(working: asyncio.Future[_Done]) -> None:
    with suppress(asyncio.CancelledError):
        working.exception()  # perhaps nobody asks any more: that is no news for the log


def _build_timeout_error() -> ToolError:
    return ToolError(
        f"the search took more than {TIME_LIMIT:g} s",
        hint="search fewer lines or files at once; an expression should be simple, without nested repeats",
        code="too_slow",
    )


def _build_too_many_error() -> ToolError:
    return ToolError(
        f"the search finds more than {MAX_FOUND:,} places",
        hint="search fewer lines at once, in steps (`start_line`, `end_line`), or for something rarer",
        code="too_slow",
    )


class Pattern:
    """A compiled search. Compile and use it in a worker thread."""

    def __init__(self, wanted: SearchSpec, clock: SearchDeadline) -> None:
        """Compile it.

        Raises:
            ToolError: ``bad_pattern``.
        """
        self._regex = _compile(wanted)
        self._clock = clock
        search = normalize_line_ends(wanted.search)
        self.needles = extract_needles(search, is_regex=wanted.is_regex, ignore_case=wanted.ignore_case)
        """What surely is in a file that has a hit."""

    @property
    def groups(self) -> frozenset[str]:
        """The names and numbers of the groups."""
        numbers = (str(number) for number in range(1, self._regex.groups + 1))
        return frozenset((*numbers, *self._regex.groupindex))

    def find(self, text: str, start: int = 0, end: int | None = None) -> Generator[regex.Match[str]]:
        """Yield the places, from left to right, without an empty one behind the last line end.

        Its time begins with the first; who does not take all of them has to close it.

        Raises:
            ToolError: ``too_slow``.
        """
        end = len(text) if end is None else end
        self._clock.start()
        try:
            for found in self._search(text, start, end):
                empty = found.start() == found.end()
                if not (empty and found.start() == len(text) and text.endswith("\n")):
                    yield found
        finally:
            self._clock.stop()

    def _search(self, text: str, start: int, end: int) -> Iterator[regex.Match[str]]:
        found = self._regex.finditer(text, start, end, timeout=TIME_LIMIT, concurrent=True)
        try:
            for count, each in enumerate(found, 1):
                if count > MAX_FOUND:
                    raise _build_too_many_error()
                if self._clock.left < 0:
                    raise TimeoutError
                yield each
        except TimeoutError as error:
            raise _build_timeout_error() from error


_UNREADABLE = (RecursionError, OverflowError, MemoryError, ValueError, LookupError)


def _compile(wanted: SearchSpec) -> regex.Pattern[str]:
    import regex  # at first use: a server that never searches starts faster without it

    if not wanted.search or len(wanted.search) > MAX_PATTERN:
        raise ToolError(f"the search text must have 1 to {MAX_PATTERN:,} characters", code="bad_pattern")
    search = normalize_line_ends(wanted.search)
    if wanted.is_regex:
        _check_bounded(search)
    source = search if wanted.is_regex else regex.escape(search)
    if wanted.whole_word:
        source = rf"(?<!\w)(?:{source})(?!\w)"
    flags = regex.MULTILINE | (regex.IGNORECASE if wanted.ignore_case else 0)
    try:
        return regex.compile(source, flags, cache_pattern=False)
    except (regex.error, *_UNREADABLE) as error:
        raise ToolError(
            f"the regular expression cannot be read: {str(error) or type(error).__name__}"[:300],
            hint="escape what is meant literally with a backslash, or search for plain text",
            code="bad_pattern",
        ) from error


_REPEAT = re.compile(r"(?<=(.))\{([0-9]+)(?:,[0-9]*)?\}", re.DOTALL)
_OF_MANY = frozenset(")}?*+")
"""What stands before a repeat that may be of more than one character: a group, or another repeat."""
_RECURSIVE = re.compile(r"\(\?(?:R|&|P>|[+-]?[0-9])")
_VERBOSE = re.compile(r"\(\?[a-zA-Z0-9]*x")


def _check_bounded(pattern: str) -> None:
    """Refuse what the library would spend all memory on before any time limit counts.

    It writes least repeats out, ``(ab){1000000}`` as two million characters, and recursion has no bound.
    """
    if _RECURSIVE.search(pattern) or _VERBOSE.search(pattern) or _estimate_weight(pattern) > MAX_WEIGHT:
        raise ToolError(
            f"the expression recurses, is verbose (`(?x)`), or may have more than {MAX_WEIGHT:,} characters "
            "with its least repeats written out",
            hint="write it plainly, with smaller numbers of repeats",
            code="bad_pattern",
        )


def _estimate_weight(pattern: str) -> int:
    """Return how many characters and sets the pattern has at most, its least repeats written out.

    Which repeat stands within which is not looked at, for whoever reads sets, comments and flags in another
    way than the library could be led astray: repeats of groups count as if each stood within the others.
    """
    weight, times = len(pattern), 1
    for before, least in _REPEAT.findall(pattern):
        if before in _OF_MANY:
            times = min(times * max(int(least[:9]), 1), MAX_WEIGHT + 1)
        else:
            weight += int(least[:9])
    return weight * times


@dataclass(frozen=True, slots=True)
class LfText:
    """A text with line feeds only, and the way back to the offsets of the original."""

    text: str
    _pairs: tuple[int, ...]
    """Where the line feeds stand that were two characters."""

    @classmethod
    def of(cls, text: str) -> LfText:
        """Fold the line ends of a text."""
        if "\r" not in text:
            return cls(text, ())
        pairs = tuple(found.start() - at for at, found in enumerate(re.finditer("\r\n", text)))
        return cls(normalize_line_ends(text), pairs)

    def to_original_offset(self, offset: int) -> int:
        """Return where an offset of the folded text lies in the original."""
        return offset + bisect_left(self._pairs, offset)


def normalize_line_ends(text: str) -> str:
    """Return the text with every line end as a line feed."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


_REFERENCE = re.compile(r"\$(\$|&|[0-9]{1,2}|<[^>]*>|\{[^}]*\})")
_FOREIGN = re.compile(r"\\(?:([0-9]{1,2})|g<([^>]*)>)")


def compile_replacement(replace: str, groups: frozenset[str], path: str) -> Callable[[regex.Match[str]], str]:
    """Return what a match becomes: ``$1``, ``$<name>`` and ``$&`` stand for what it found, ``$$`` for ``$``.

    Raises:
        ToolError: ``bad_replacement``: it names a group that the pattern has not, or in another dialect. What
            is returned raises ``too_large`` before it makes a text that no file may hold.
    """
    for number, name in _FOREIGN.findall(replace):
        if (number or name) in groups or number == "0":
            raise ToolError(
                "groups are written `$1` and `$<name>` here, not with a backslash",
                hint="to write a backslash and a digit literally, replace it with apply_diffs or text_editor",
                code="bad_replacement",
            )
    pieces = _REFERENCE.split(replace)
    named = [_resolve_group(piece, groups) for piece in pieces[1::2]]
    literal = pieces[0::2]

    def expand(found: regex.Match[str]) -> str:
        told = [each if isinstance(each, str) else found[each[0]] or "" for each in named]
        check_size(path, sum(map(len, told)))
        return literal[0] + "".join(a + b for a, b in zip(told, literal[1:], strict=True))

    return expand


def _resolve_group(reference: str, groups: frozenset[str]) -> str | tuple[str | int]:
    """Return literal text, or the group that a reference stands for."""
    if reference == "$":
        return "$"
    if reference == "&":
        return (0,)
    name = reference.strip("<>{}").lstrip("0") if not reference[0].isalpha() else reference
    if name not in groups:
        raise ToolError(
            f"`${reference}` names a group that the expression does not have",
            hint="write `$$` for a dollar sign",
            code="bad_replacement",
        )
    return (int(name) if name.isdigit() else name,)
