"""The last rung: SEARCH stands in one place, but for a typo; and where it nearly stands, for the messages.

Lines that SEARCH and the text share vote for where SEARCH starts. A window is a stretch of lines of the
text that
are laid beside the lines of SEARCH, both without blank lines.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from dataclasses import dataclass
from itertools import compress, count
from typing import TYPE_CHECKING

from kakite.edit.comparing import NEVER, TYPO, Mask, compare_lines
from kakite.edit.fitting import Fitting
from kakite.edit.spelling import Misspelling, misspellings, stands_elsewhere

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kakite.edit.places import Block, Place
    from kakite.edit.settings import Settings
    from kakite.edit.view import TextView

_MAX_VOTES = 20_000
_MAX_SEEDS = 64
_MAX_SAMPLED = 512
_MAX_WINDOWS = 12
_MAX_DIFFERING = 24
_LONGEST_LINE = 10_000
_SHORTEST_SEARCH = 10
_WITNESSES = 2
"""How many equal lines vouch for a slip at a word's edge: ``page`` and ``age`` are both words."""
_WORDS = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of lines that resembles SEARCH. All are indices of lines that are not blank."""

    start: int
    """Where it starts in the text; SEARCH may begin before the text does, then it is negative."""
    differing: tuple[int, ...]
    """Which lines of SEARCH differ, some only if there are many."""
    equal: int
    """How many lines are equal."""


def windows(view: TextView, search: Block) -> list[Window]:
    """Return the windows that resemble SEARCH, the most equal ones first."""
    keys = tuple(search.solid[1])
    if not keys:
        return []
    votes = _votes(view, keys).most_common(_MAX_WINDOWS + 1)
    starts = [start for start, _ in votes[:_MAX_WINDOWS]]
    if not votes or (len(votes) > _MAX_WINDOWS and votes[-1][1] * 2 > votes[0][1]):
        # Lines that stand everywhere vote for as many places; the one that is meant may not be among them.
        starts = list(dict.fromkeys([*starts, *_similar(view, keys)]))
    found = [_window(view, keys, start) for start in starts]
    return sorted(found, key=lambda window: (-window.equal, window.start))


def _votes(view: TextView, keys: Sequence[str]) -> Counter[int]:
    """Return where SEARCH would start, and by how many of its rarest lines that the text has."""
    wanted: dict[str, list[int]] = {}
    step = max(len(keys) // _MAX_SAMPLED, 1)
    for at in range(0, len(keys), step):
        if len(keys[at]) > 2:
            wanted.setdefault(keys[at], []).append(at)
    votes: Counter[int] = Counter()
    for key, numbers in _positions(view, wanted).items():
        votes.update(number - at for at in wanted[key] for number in numbers)
    return votes


def _positions(view: TextView, wanted: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
    """Return where the text has the rarest of the wanted lines, the rarest first."""
    numbers = array("q", compress(count(), map(wanted.__contains__, view.solid_keys)))
    counts = Counter(map(view.solid_keys.__getitem__, numbers))
    seeds = sorted((key for key in wanted if key in counts), key=lambda key: counts[key] * len(wanted[key]))
    positions: dict[str, list[int]] = {}
    cast = 0
    for nth, key in enumerate(seeds):
        cast += counts[key] * len(wanted[key])
        if cast > _MAX_VOTES or (nth >= _MAX_SEEDS and nth * 4 >= len(seeds)):
            break
        positions[key] = []
    for number in numbers if positions else ():
        if view.solid_keys[number] in positions:
            positions[view.solid_keys[number]].append(number)
    return positions


def _similar(view: TextView, keys: Sequence[str]) -> list[int]:
    """Return where SEARCH would start by the lines most like its longest one."""
    from rapidfuzz import fuzz, process  # slow to import, and most edits never come here

    at, key = max(enumerate(keys), key=lambda pair: len(pair[1]) if len(pair[1]) <= _LONGEST_LINE else 0)
    if not 3 <= len(key) <= _LONGEST_LINE or len(view.squeezed) * len(key) > 400_000_000:
        return []
    found = process.extract(key, view.solid_keys, scorer=fuzz.ratio, score_cutoff=60, limit=_MAX_WINDOWS)
    return list(dict.fromkeys(number - at for _, _, number in found))


def _window(view: TextView, keys: tuple[str, ...], start: int) -> Window:
    differing: list[int] = []
    there = view.solid_keys[max(start, 0) : max(start + len(keys), 0)]
    padded = ("",) * -min(start, 0) + tuple(there)
    padded += ("",) * (len(keys) - len(padded))
    left = _collect(padded, keys, 0, len(keys), differing)
    return Window(start, tuple(differing), len(keys) - len(differing) - left)


def _collect(there: tuple[str, ...], keys: tuple[str, ...], low: int, high: int, differing: list[int]) -> int:
    """Collect the indices that differ, by halving; return how many lines were left unseen when there are
    too many.
    """
    if there[low:high] == keys[low:high]:
        return 0
    if len(differing) >= _MAX_DIFFERING:
        return high - low
    if high - low == 1:
        differing.append(low)
        return 0
    middle = (low + high) // 2
    return _collect(there, keys, low, middle, differing) + _collect(there, keys, middle, high, differing)


def place_with_typos(
    view: TextView, search: Block, found: Sequence[Window], settings: Settings
) -> Place | None:
    """Return the one place where SEARCH stands but for typos; None if there is none, or a rival to it."""
    keys = search.solid[1]
    if sum(map(len, keys)) < _SHORTEST_SEARCH:
        return None
    places: list[tuple[Window, Place]] = []
    for window in found:
        place = _with_typos(view, search, window, settings)
        if place is not None:
            places.append((window, place))
    if len(places) != 1:
        return None
    window, place = places[0]
    rival = any(_resembles(view, keys, other) for other in found if other.start != window.start)
    return None if rival else place


def _with_typos(view: TextView, search: Block, window: Window, settings: Settings) -> Place | None:
    solid, keys = search.solid
    inside = window.start >= 0 and window.start + len(keys) <= len(view.solid_keys)
    if not inside or not window.differing or len(window.differing) > _MAX_DIFFERING:
        return None
    if len(window.differing) + window.equal < len(keys):
        return None
    if not all(_may_be_misspelt(view.solid_keys[window.start + at], keys[at]) for at in window.differing):
        return None
    typos: list[Misspelling] = []
    there = view.solid_lines(window.start, len(keys))
    for at in window.differing:
        found = misspellings(view.lines[there[at]], search.lines[solid[at]])
        if found is None or not _similar_enough(view, keys, window, at, settings):
            return None
        typos += found
    alone = len(keys) - len(window.differing) < _WITNESSES
    if (alone and any(typo.at_edge for typo in typos)) or not _forgivable(view, typos, settings):
        return None
    place = Fitting(view, search, compare_with_typos).place(dict(zip(solid, there, strict=True)))
    return place and place.with_words(tuple((typo.sent, typo.file) for typo in typos))


def _may_be_misspelt(file: str, sent: str) -> bool:
    """Tell whether two squeezed lines differ in words only. A quick no, before words are compared."""
    return _WORDS.sub("", file) == _WORDS.sub("", sent)


def compare_with_typos(file: str, sent: str) -> Mask:
    """Return what must be forgiven for ``sent`` to stand for ``file``, typos included."""
    mask = compare_lines(file, sent)
    if mask != NEVER:
        return mask
    return NEVER if misspellings(file, sent) is None else compare_lines(file, file.rstrip()) | TYPO


def _similar_enough(view: TextView, keys: Sequence[str], window: Window, at: int, settings: Settings) -> bool:
    from rapidfuzz import fuzz  # slow to import, and most edits never come here

    return fuzz.ratio(view.solid_keys[window.start + at], keys[at]) / 100 >= settings.similarity


def _forgivable(view: TextView, typos: Sequence[Misspelling], settings: Settings) -> bool:
    in_code = {(typo.sent, typo.file) for typo in typos if not typo.in_prose}
    if len(in_code) > (3 if settings.aggressive else 1) or len({typo.sent for typo in typos}) > 3:
        return False
    return not any(stands_elsewhere(typo.sent, view.text) for typo in typos)


def _resembles(view: TextView, keys: Sequence[str], window: Window) -> bool:
    """Tell whether a window could be meant as well: its lines that differ are much like SEARCH's."""
    from rapidfuzz import fuzz  # slow to import, and most edits never come here

    if (
        window.start < 0
        or window.start + len(keys) > len(view.solid_keys)
        or (len(keys) > 1 and len(window.differing) >= len(keys))
    ):
        return False
    if window.equal + len(window.differing) < len(keys):
        return False
    ratios = (fuzz.ratio(view.solid_keys[window.start + at], keys[at]) for at in window.differing)
    return all(ratio >= 75 for ratio in ratios)
