"""Completes what is typed behind ``@``. Pure, but for ``list_paths``, which reads the folders."""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from kakite.agent.session.context.mention_syntax import format_mention
from kakite.agent.session.context.project import Project
from kakite.agent.session.context.secret_files import is_secret
from kakite.workspace import WorkspaceError

MAX_PATHS = 200_000
"""Files and folders that are looked at."""
_MOST_TYPED = 200  # characters


def list_paths(project: Project) -> tuple[str, ...]:
    """Return the files and folders of the session's folder that may be offered, sorted; folders end in ``/``.

    What git ignores is left out, and so are files that usually hold secrets. Never raises.
    """
    return tuple(sorted(islice(_walk(project), MAX_PATHS)))


def complete_mention(typed: str, paths: Sequence[str], *, limit: int = 20) -> list[str]:
    """Return what may have been meant, best first, as it is written behind ``@``.

    First come paths that begin as typed, then names that do, then those that have it in them, and then those
    in whose parts the typed letters stand in order: ``se/co`` finds ``src/session/context.py``.
    """
    query = typed.removeprefix('"').removeprefix("./").casefold()[:_MOST_TYPED]
    folded = [(path, path.casefold()) for path in paths]
    found: dict[str, None] = {}
    for is_match in _build_tests(query):
        if len(found) >= limit:
            break
        hits = (path for path, like in folded if is_match(like) and path not in found)
        found.update(dict.fromkeys(heapq.nsmallest(limit - len(found), hits, key=_rank)))
    return [format_mention(path)[1:] for path in found]


def _walk(project: Project) -> Iterator[str]:
    folders: set[str] = set()
    try:
        for file in project.workspace.walk_files(project.folder):
            path = file.below
            if not path.isprintable() or is_secret(path):
                continue
            folder = path.rpartition("/")[0]
            while folder and folder not in folders:
                folders.add(folder)
                yield f"{folder}/"
                folder = folder.rpartition("/")[0]
            yield path
    except WorkspaceError:
        return


def _rank(path: str) -> tuple[int, int, str]:
    return path.count("/", 0, -1), len(path), path


def _build_tests(query: str) -> Iterator[Callable[[str], bool]]:
    """Yield what a path must be like, the best likeness first."""
    if not query:
        yield lambda path: "/" not in path[:-1]
        return
    yield lambda path: path.startswith(query)
    yield lambda path: path.startswith(query, path.rfind("/", 0, -1) + 1)
    yield lambda path: query in path[path.rfind("/", 0, -1) + 1 :]
    yield lambda path: query in path
    # Most paths are ruled out by one expression.
    is_in_order = _build_subsequence_test(query)
    tests = [(part[:1], _build_subsequence_test(part)) for part in query.split("/")]
    yield lambda path: is_in_order(path) and _has_parts(path, tests)
    yield lambda path: is_in_order(path) and _has_parts(path, [("", test) for _, test in tests])


def _build_subsequence_test(letters: str) -> Callable[[str], bool]:
    """Return what tells whether a text has these letters in this order. The expression never goes back."""
    steps = (f"[^{re.escape(each)}]*+{re.escape(each)}" for each in letters)
    match = re.compile("".join(steps), re.DOTALL).match
    return lambda text: match(text) is not None


def _has_parts(path: str, tests: Sequence[tuple[str, Callable[[str], bool]]]) -> bool:
    """Return whether each typed part is found, with its beginning, in a part of the path behind the last."""
    left = iter(path.split("/"))
    return all(any(each.startswith(start) and test(each) for each in left) for start, test in tests)
