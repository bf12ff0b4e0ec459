"""Finds the places of a text that are most similar to SEARCH, for messages and suggestions.

Lines that SEARCH and the text share vote for where SEARCH starts; where none is shared, the line most similar
to its longest one decides. Reordered lines, keys or arguments are recognised as well. Nothing is applied from
this.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass
from itertools import compress, count, pairwise
from typing import TYPE_CHECKING

from kakite.edit.errors.long_lines import cut_around
from kakite.edit.errors.model import Candidate
from kakite.edit.matching.confusables import build_column_map
from kakite.edit.rewrite.elision import is_comment_like, is_elision

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kakite.edit.errors.long_lines import LinePart
    from kakite.edit.matching.location import MatchLocation, TextBlock
    from kakite.edit.text_index import IndexedText


_MAX_LINES = 60
_WORD = re.compile(r"\w+|[^\w\s]")


def find_reordered_lines(view: IndexedText, search: TextBlock, best: SimilarRegion) -> tuple[int, int] | None:
    """Return the first and the last line (indices) that are those of SEARCH in another order."""
    wanted = [key.rstrip(",") for key in search.solid[1]]
    size = len(wanted)
    if not 2 <= size <= _MAX_LINES:
        return None
    near = bisect_left(view.solid, best.first)
    counts = Counter(wanted)
    for start in range(max(near - size, 0), near + size + 1):
        there = [key.rstrip(",") for key in view.solid_keys[start : start + size]]
        if Counter(there) == counts and there != wanted:
            return view.solid[start], view.solid[start + size - 1]
    return None


def is_reordered(found: str, sent: str) -> bool:
    """Tell whether two lines have the same words and signs in different orders."""
    one, other = _WORD.findall(found), _WORD.findall(sent)
    return len(one) > 2 and one != other and Counter(one) == Counter(other)


_MAX_VOTES = 20_000
_MAX_SEEDS = 64
_MAX_SAMPLED = 512
_MAX_WINDOWS = 8
_LONGEST_LINE = 10_000
_LONGEST_ALIGNED = 600
"""Up to how many lines SEARCH is laid beside the text with all lines that either lacks."""
_MAX_NOTED = 24
_SLACK = 6
_ELIDED = 120
"""How many lines more are looked at where SEARCH leaves lines out."""
_ALIKE = 60
_TELLING = 6
"""How many characters without blanks a line has that tells something."""
_LIKE = 0.4
_SHOWN_LINES = 12
_SHOWN_CHARACTERS = 200
_MAX_CANDIDATES = 20
_MAX_SIMILAR = 2
_MAX_STRETCHES = 40
_TELLING_STRETCH = 12
"""How many characters without blanks the lines that an edit adds lines between, and what is the same around
them, have at least to tell a place.
"""
_LITTLE = 0.1
"""How much less alike a stretch may be than one that it has in it, if it has more lines of SEARCH."""
_WEIGHT_OF_ONE = 3
"""How much a line of SEARCH counts that the text has just once, where places are told apart."""
_PER_CANDIDATE = 40_000


@dataclass(frozen=True, slots=True)
class SimilarRegion:
    """A stretch of the text that resembles SEARCH."""

    first: int
    """Index of its first line."""
    last: int
    """Index of its last line."""
    score: float
    """How much of SEARCH and of the stretch is the same, 0 to 1."""
    pairs: Mapping[int, int]
    """For lines of SEARCH (indices) the lines of the text that they stand beside, both in order."""
    differing: tuple[tuple[int | None, int | None], ...]
    """What differs, in order: lines of SEARCH and of the text, None for one that is missing."""
    rank: float = 0.0
    """The same, where lines of SEARCH that the text has just once count more: they tell places apart."""
    same: frozenset[int] = frozenset()
    """Lines of SEARCH (indices) that it has, but for blanks."""
    telling: frozenset[int] = frozenset()
    """Those of them that the text has just once."""
    has_all: bool = False
    """Whether several lines of SEARCH stand there one below the other, each alone or within a longer line."""


def find_similar(view: IndexedText, search: TextBlock) -> list[SimilarRegion]:
    """Return the stretches that resemble SEARCH, the most alike first."""
    solid, keys = search.solid
    if not solid:
        return []
    wanted = set(keys)
    counts = Counter(filter(wanted.__contains__, view.solid_keys))
    votes = _vote_for_starts(view, keys, counts).most_common(_MAX_WINDOWS + 1)
    starts = [start for start, _ in votes[:_MAX_WINDOWS]]
    if (
        not votes
        or votes[0][1] * 4 < len(keys)
        or (len(votes) > _MAX_WINDOWS and votes[-1][1] * 2 > votes[0][1])
    ):
        # Lines that stand everywhere vote for as many places; the one that is meant may not be among them.
        starts = list(dict.fromkeys([*starts, *_find_similar_starts(view, keys)]))[: 2 * _MAX_WINDOWS]
    if len(keys) > _LONGEST_ALIGNED:
        starts = starts[: 1 if votes else 0]
    elif len(keys) > 1:
        starts = list(dict.fromkeys([*starts, *_find_containing_starts(view, keys)]))
    weights = _weigh_lines(search, counts)
    found: dict[tuple[int, int], SimilarRegion] = {}
    for one in (each for start in starts for each in _align_from(view, search, start, weights)):
        other = found.get((one.first, one.last))
        if other is None or one.rank > other.rank:
            found[one.first, one.last] = one
    ranked = sorted(found.values(), key=lambda one: (-one.has_all, -one.rank, one.first))
    whole = next((one for one in ranked[1:] if _has_more(one, ranked[0])), None)
    return [whole, *(one for one in ranked if one is not whole)] if whole else ranked


def _has_more(one: SimilarRegion, best: SimilarRegion) -> bool:
    """Tell whether a stretch has the best one in it, and more lines of SEARCH with others between them."""
    is_around = one.first <= best.first and best.last <= one.last
    return is_around and one.score >= best.score - _LITTLE and best.same < one.same


def _weigh_lines(search: TextBlock, counts: Counter[str]) -> list[int]:
    """Return how much each line of SEARCH counts where places are told apart; one that stands for others has
    nothing to say.
    """
    keys = search.solid[1]
    if len(keys) > _LONGEST_ALIGNED:
        return [1] * len(keys)
    return [
        0
        if not counts[key] and is_elision(search.lines[at])
        else _WEIGHT_OF_ONE
        if counts[key] == 1 and len(key) >= _TELLING
        else 1
        for at, key in zip(search.solid[0], keys, strict=True)
    ]


def _vote_for_starts(view: IndexedText, keys: Sequence[str], counts: Counter[str]) -> Counter[int]:
    """Return where SEARCH would start, and by how many of its rarest lines that the text has."""
    wanted: dict[str, list[int]] = {}
    step = max(len(keys) // _MAX_SAMPLED, 1)
    for at in range(0, len(keys), step):
        if len(keys[at]) > 2:
            wanted.setdefault(keys[at], []).append(at)
    votes: Counter[int] = Counter()
    for key, numbers in _find_rare_lines(view, wanted, counts).items():
        votes.update(number - at for at in wanted[key] for number in numbers)
    return votes


def _find_rare_lines(
    view: IndexedText, wanted: Mapping[str, Sequence[int]], counts: Counter[str]
) -> dict[str, list[int]]:
    """Return where the text has the rarest of the wanted lines, the rarest first."""
    seeds = sorted((key for key in wanted if key in counts), key=lambda key: counts[key] * len(wanted[key]))
    positions: dict[str, list[int]] = {}
    cast = 0
    for nth, key in enumerate(seeds):
        cast += counts[key] * len(wanted[key])
        if cast > _MAX_VOTES or (nth >= _MAX_SEEDS and nth * 4 >= len(seeds)):
            break
        positions[key] = []
    if positions:
        for number in compress(count(), map(positions.__contains__, view.solid_keys)):
            positions[view.solid_keys[number]].append(number)
    return positions


def _find_similar_starts(view: IndexedText, keys: Sequence[str]) -> list[int]:
    """Return where SEARCH would start by the lines most like its longest one."""
    from rapidfuzz import fuzz, process  # slow to import, and most edits never come here

    at, key = max(enumerate(keys), key=lambda pair: len(pair[1]) if len(pair[1]) <= _LONGEST_LINE else 0)
    if not 3 <= len(key) <= _LONGEST_LINE or len(view.normalized) * len(key) > 400_000_000:
        return []
    found = process.extract(key, view.solid_keys, scorer=fuzz.ratio, score_cutoff=_ALIKE, limit=_MAX_WINDOWS)
    return list(dict.fromkeys(number - at for _, _, number in found))


def _find_containing_starts(view: IndexedText, keys: Sequence[str]) -> list[int]:
    """Return where SEARCH would start by the lines that have its longest one in them."""
    at, key = max(enumerate(keys), key=lambda pair: len(pair[1]))
    offsets: list[int] = []
    while len(key) >= _TELLING and len(offsets) <= _MAX_WINDOWS:
        found = view.solid_text.find(key, offsets[-1] + 1 if offsets else 0)
        if found < 0:
            return [view.find_solid_line(offset) - at for offset in offsets]
        offsets.append(found)
    return []


def _align_from(
    view: IndexedText, search: TextBlock, start: int, weights: Sequence[int]
) -> Iterator[SimilarRegion]:
    """Lay SEARCH beside the text around its solid line ``start``, in wide windows and in narrow ones.

    A wide one has lines that were added; in it, lines like those of SEARCH that stand further off can draw it
    apart, or hide a place.
    """
    if len(weights) > _LONGEST_ALIGNED:
        slacks: tuple[int, ...] = (0,)
    elif any(map(is_comment_like, search.lines)):
        slacks = (_ELIDED, _SLACK, 1, 0)
    else:
        slacks = (_SLACK, 1, 0)
    for slack in slacks:
        around_it = _align_at(view, search, start, slack, weights)
        if around_it:
            yield around_it


def _align_at(
    view: IndexedText, search: TextBlock, start: int, slack: int, weights: Sequence[int]
) -> SimilarRegion | None:
    """Lay SEARCH beside the text from its solid line ``start`` on."""
    solid, keys = search.solid
    if len(keys) > _LONGEST_ALIGNED:
        return _align_long(view, search, start)
    low = max(start - slack, 0)
    there = view.solid_keys[low : max(start + len(keys) + slack, 0)]
    pairs = _pair(keys, there)
    if not pairs:
        return None
    first, last = low + pairs[0][1], low + pairs[-1][1]
    numbers = view.solid[low : low + len(there)]
    same = [(one, other) for one, other in pairs if keys[one] == there[other]]
    return SimilarRegion(
        first=numbers[pairs[0][1]],
        last=numbers[pairs[-1][1]],
        score=_score(keys, there, pairs, [min(weight, 1) for weight in weights]),
        rank=_score(keys, there, pairs, weights),
        pairs={solid[one]: numbers[other] for one, other in pairs},
        same=frozenset(solid[one] for one, _ in same),
        telling=frozenset(solid[one] for one, _ in same if weights[one] > 1),
        differing=tuple(
            (None if one is None else solid[one], None if other is None else numbers[other])
            for one, other in _list_differences(keys, there, pairs)
        ),
        has_all=len(keys) > 1
        and len(pairs) == len(keys) == last - first + 1
        and all(keys[one] in there[other] for one, other in pairs),
    )


def _score(
    keys: Sequence[str], there: Sequence[str], pairs: Sequence[tuple[int, int]], weights: Sequence[int]
) -> float:
    """Return how much of SEARCH and of the stretch between the outermost pairs is the same.

    A line that counts more stands somewhere to the letter: one only like it counts no more than others.
    """
    alike = 0.0
    for one, other in pairs:
        if keys[one] == there[other]:
            alike += weights[one] * 2 * len(keys[one])
        elif weights[one]:
            alike += _score_similarity(keys[one], there[other])
    size = sum(weight * len(key) for weight, key in zip(weights, keys, strict=True))
    beside = {other: weights[one] for one, other in pairs}
    elided = {
        at
        for (one, low), (two, high) in pairwise(pairs)
        if two > one + 1 and not any(weights[one + 1 : two])
        for at in range(low + 1, high)
    }
    between = max(weights)  # lines in between do not get lighter beside those that count more
    size += sum(
        beside.get(at, between) * len(there[at])
        for at in range(pairs[0][1], pairs[-1][1] + 1)
        if at not in elided
    )
    return round(alike / max(size, 1), 3)


def _align_long(view: IndexedText, search: TextBlock, start: int) -> SimilarRegion | None:
    """Lay a long SEARCH beside the text line by line, and note few differences: it takes little memory."""
    solid, keys = search.solid
    low = max(start, 0)
    count = min(len(keys), len(view.solid_keys) - low)
    if count <= 0:
        return None
    differing = [at for at in range(count) if keys[at] != view.solid_keys[low + at]]
    numbers = view.solid[low : low + count]
    return SimilarRegion(
        first=numbers[0],
        last=numbers[count - 1],
        score=(score := round(1 - len(differing) / len(keys), 3)),
        rank=score,
        pairs={},
        differing=tuple((solid[at], numbers[at]) for at in differing[:_MAX_NOTED] or [0]),
    )


def _pair(keys: Sequence[str], there: Sequence[str]) -> list[tuple[int, int]]:
    """Return which lines stand beside each other: equal ones, and between these such as are alike."""
    from difflib import SequenceMatcher  # only failures come here

    pairs: list[tuple[int, int]] = []
    for kind, a, b, c, d in SequenceMatcher(None, list(keys), list(there), autojunk=False).get_opcodes():
        if kind == "equal":
            pairs += zip(range(a, b), range(c, d), strict=True)
        elif kind == "replace":
            pairs += _pair_alike(keys, there, range(a, b), range(c, d))
    return pairs


def _pair_alike(
    keys: Sequence[str], there: Sequence[str], sent: range, file: range
) -> Iterator[tuple[int, int]]:
    at = file.start
    for one in sent:
        scored = [
            (_score_similarity(keys[one], there[other]), -other)
            for other in range(at, min(file.stop, at + 40))
            if _is_alike(keys[one], there[other])
        ]
        if scored:
            _, other = max(scored)
            yield one, -other
            at = -other + 1


def _is_alike(one: str, other: str) -> bool:
    """Tell whether two lines are alike, or one has the other in it."""
    if min(len(one), len(other)) >= _TELLING and (one in other or other in one):
        return True
    size = len(one) + len(other)
    return size > 0 and _score_similarity(one, other) * 100 >= _ALIKE * size


def _score_similarity(one: str, other: str) -> float:
    """Return how many characters of both are the same."""
    from rapidfuzz import fuzz  # slow to import, and only failures come here

    return fuzz.ratio(one[:2000], other[:2000]) / 100 * (len(one) + len(other))


def _list_differences(
    keys: Sequence[str], there: Sequence[str], pairs: Sequence[tuple[int, int]]
) -> Iterator[tuple[int | None, int | None]]:
    one, other = 0, pairs[0][1]
    for sent, file in pairs:
        yield from ((at, None) for at in range(one, sent))
        yield from ((None, at) for at in range(other, file))
        if keys[sent] != there[file]:
            yield sent, file
        one, other = sent + 1, file + 1
    yield from ((at, None) for at in range(one, len(keys)))


def find_changed_lines(view: IndexedText, search: TextBlock, replace: TextBlock) -> SimilarRegion | None:
    """Return the one place with the lines that the edit changes, whatever stands around them.

    Where it only adds lines, they are those that it adds them between. What else is the same above and below
    tells places apart.
    """
    solid, keys = search.solid
    if not 1 < len(keys) <= _LONGEST_ALIGNED:
        return None
    low, high = _find_change(keys, replace.solid[1])
    needs_below = low == high  # lines are added only
    first, after = max(low - needs_below, 0), min(high + needs_below, len(keys))
    found = sorted(_find_stretches(view, keys, first, after), key=lambda one: -one[0])
    if not found or found[0][0] < (_TELLING_STRETCH if needs_below else _TELLING):
        return None
    if len(found) > 1 and found[0][0] < found[1][0] + _TELLING:
        return None
    size, one, other, count_ = found[0]
    rows = view.solid[other : other + count_]
    pairs = dict(zip(solid[one : one + count_], rows, strict=True))
    differing = tuple((at, None) for at in solid if at not in pairs)
    return SimilarRegion(
        first=rows[0],
        last=rows[-1],
        score=round(size / sum(map(len, keys)), 3),
        pairs=pairs,
        differing=differing,
    )


def _find_change(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """Return from which line of the old ones to which a change reaches, half-open."""
    room = min(len(old), len(new))
    head = next((at for at in range(room) if old[at] != new[at]), room)
    tail = next((at for at in range(room - head) if old[-1 - at] != new[-1 - at]), room - head)
    return head, len(old) - tail


def _find_stretches(
    view: IndexedText, keys: Sequence[str], first: int, after: int
) -> Iterator[tuple[int, int, int, int]]:
    """Yield where the lines ``first`` to ``after`` of SEARCH stand, with all around that is the same: its
    size, its first line in SEARCH and in the text, and how many lines it has.
    """
    core = "\n" + "".join(f"{key}\n" for key in keys[first:after])
    text, there = view.solid_text_framed, view.solid_keys
    at, seen = text.find(core), 0
    while at >= 0 and seen <= _MAX_STRETCHES:
        row = view.find_solid_line(at)
        up, down = 0, 0
        while up < min(first, row) and keys[first - 1 - up] == there[row - 1 - up]:
            up += 1
        end = row + after - first
        while down < min(len(keys) - after, len(there) - end) and keys[after + down] == there[end + down]:
            down += 1
        yield (
            sum(map(len, keys[first - up : after + down])),
            first - up,
            row - up,
            after - first + up + down,
        )
        at, seen = text.find(core, at + 1), seen + 1


def as_candidates(
    view: IndexedText, search: TextBlock, nearby: Sequence[SimilarRegion]
) -> tuple[Candidate, ...]:
    """Return the most alike stretches as candidates, long lines around what differs."""
    likely: list[SimilarRegion] = []
    for one in nearby:
        is_apart = all(one.first > other.last or one.last < other.first for other in likely)
        if one.score >= _LIKE and is_apart and len(likely) < _MAX_SIMILAR:
            likely.append(one)
    return tuple(
        build_candidate(
            view, one.first, one.last - one.first + 1, one.score, _find_columns(view, search, one)
        )
        for one in likely
    )


def _find_columns(view: IndexedText, search: TextBlock, one: SimilarRegion) -> dict[int, int]:
    """Return for lines of the text (indices) the column where SEARCH begins to differ from them."""
    pairs = ((other, sent) for sent, other in one.differing if sent is not None and other is not None)
    return {
        other: _find_difference(view.lines[other], search.lines[sent])
        for other, sent in pairs
        if len(view.lines[other]) > _SHOWN_CHARACTERS
    }


def _find_difference(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def build_candidate(
    view: IndexedText, line: int, lines: int, score: float, columns: Mapping[int, int] | None = None
) -> Candidate:
    """Return a place of the text as a candidate; ``line`` is an index, ``columns`` are what to show."""
    shown = range(line, min(line + min(lines, _SHOWN_LINES), len(view.lines)))
    places = columns or {}
    text = "\n".join(cut_around(view.lines[at], places.get(at, 0), _SHOWN_CHARACTERS) for at in shown)
    return Candidate(line=line + 1, lines=lines, score=round(score, 3), text=text)


def build_complete_candidate(view: IndexedText, rows: range) -> Candidate | None:
    """Return lines of the text as a candidate, None if it would not show all of them."""
    is_short = len(rows) <= _SHOWN_LINES and all(len(view.lines[at]) <= _SHOWN_CHARACTERS for at in rows)
    return build_candidate(view, rows[0], len(rows), 1.0) if rows and is_short else None


def build_part_candidate(view: IndexedText, part: LinePart) -> Candidate:
    """Return a part of a line as a candidate."""
    return build_candidate(view, part.line, 1, part.score, {part.line: part.start})


def build_location_candidates(
    view: IndexedText, places: Sequence[MatchLocation], lines: int
) -> tuple[Candidate, ...]:
    """Return found places as candidates; of very many edits the first ones get some."""
    if not view.budget.spend_on_message(_PER_CANDIDATE * min(len(places), _MAX_CANDIDATES)):
        return ()
    return tuple(
        build_candidate(
            view, place.line, lines, 1.0, {place.line: place.start - view.lines.get_line_start(place.line)}
        )
        for place in places[:_MAX_CANDIDATES]
    )


def find_candidate_inside_line(view: IndexedText, search: TextBlock) -> tuple[Candidate, ...]:
    """Look for pieces of SEARCH inside of lines that are longer than its own."""
    key = max(search.solid[1], key=len, default="")
    size = max(len(key) // 8, 12)
    for at in range(0, len(key) - size + 1, size):
        offset = view.normalized.find(key[at : at + size])
        if offset >= 0:
            number = view.normalized.count("\n", 0, offset)
            if len(view.keys[number]) <= len(key):
                continue
            squeezed = offset - (view.normalized.rfind("\n", 0, offset) + 1)
            columns = build_column_map(view.lines[number])
            column = 0 if columns is None else columns.get_span(squeezed)[0]
            return (build_candidate(view, number, 1, round(size / len(key), 3), {number: column}),)
    return ()
