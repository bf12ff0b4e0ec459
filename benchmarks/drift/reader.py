"""A mechanical reader of an answer: the second try of a refused edit.

It knows what the model knows (SEARCH, REPLACE, and which line was meant) and what the answer says, nothing
else: no file. If the answer has a suggestion, it is taken. Else the lines shown become the new SEARCH, and
the change from SEARCH to REPLACE is made to them, line by line or else word by word. Where both changed the
same words, it gives up. Of a placeholder it knows whether it was one: then the lines shown take its place in
REPLACE, else the loss is accepted.
"""

from __future__ import annotations

import re
from dataclasses import replace
from difflib import SequenceMatcher

from asking import Answer, Ask, Place
from cases import Case

WORD = re.compile(r"\w+|\n[ \t]*|\s+|.")


def second(ask: Ask, case: Case, told: Answer) -> bytes | None:
    """Return the file after the second try, None if it is refused or the answer gives none."""
    if told.suggested is not None:
        return told.suggested
    if told.code == "placeholder" and case.expected is not None:
        return told.loss
    place = _place(case, told)
    if place is None:
        return None
    shown = place.text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    if len(shown) < place.lines:
        # Of lines that are not all shown only their number is of use, if they are those of SEARCH.
        named = replace(case, line=place.line)
        return ask(named).written if told.code == "ambiguous" and named != case else None
    if told.code == "placeholder":
        full = case.replace.replace(told.sent, "\n".join(shown), 1)
        return ask(replace(case, replace=full, line=place.line)).written
    made = copied(case.search, case.replace, shown)
    if made is None:
        return None
    search, new = made
    again = replace(case, search=search, replace=new, line=place.line)
    return None if again == case else ask(again).written


def _place(case: Case, told: Answer) -> Place | None:
    if case.where is None or len(told.places) < 2:
        return told.places[0] if told.places else None
    covering = [one for one in told.places if one.line <= case.where < one.line + max(one.lines, 1)]
    return covering[0] if covering else None


def copied(search: str, new: str, shown: list[str]) -> tuple[str, str] | None:
    """Return the shown lines as SEARCH, and REPLACE as the same change of them, of words if not of lines."""
    old, wanted = _split(search), _split(new)
    old, wanted = _moved(old, wanted, shown)
    merged = merge(old, wanted, shown)
    end = "\n" if search.endswith("\n") or not search else ""
    if merged is not None:
        return "\n".join(shown) + end, "\n".join(merged) + end * bool(merged)
    words = merge(*(WORD.findall("\n".join(lines)) for lines in (old, wanted, shown)))
    return None if words is None else ("\n".join(shown) + end, "".join(words) + end)


def _moved(old: list[str], wanted: list[str], shown: list[str]) -> tuple[list[str], list[str]]:
    """Return SEARCH and REPLACE at the depth of the shown lines, or from the start of a line on."""
    if not old or not shown[0].endswith(old[0]):
        return old, wanted
    lost = shown[0].removesuffix(old[0])
    if lost.strip() or old[1:] == shown[1 : len(old)]:
        heads = ([lost + lines[0], *lines[1:]] if lines else [] for lines in (old, wanted))
        old, wanted = heads
        return old, wanted
    old, wanted = ([lost + line if line.strip() else line for line in lines] for lines in (old, wanted))
    return old, wanted


def _split(text: str) -> list[str]:
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n") if text else []


def merge(base: list[str], ours: list[str], theirs: list[str]) -> list[str] | None:
    """Merge two changes of lines; None where both change the same lines otherwise."""
    kept = {a + n: b + n for a, b, size in _equal(base, ours) for n in range(size)}
    shown = {a + n: b + n for a, b, size in _equal(base, theirs) for n in range(size)}
    merged: list[str] = []
    at = mine = yours = 0
    for stable in [*sorted(kept.keys() & shown.keys()), len(base)]:
        my_end, your_end = (kept[stable], shown[stable]) if stable < len(base) else (len(ours), len(theirs))
        was, my, your = base[at:stable], ours[mine:my_end], theirs[yours:your_end]
        both = _both(was, my, your)
        if both is None:
            return None
        merged += both
        if stable < len(base):
            merged.append(base[stable])
        at, mine, yours = stable + 1, my_end + 1, your_end + 1
    return merged


def _both(was: list[str], my: list[str], your: list[str]) -> list[str] | None:
    """Return what both make of some lines; lines that one only adds stand beside what the other made."""
    if my in (was, your):
        return your
    if your == was:
        return my
    size = len(was)
    for one, other in ((my, your), (your, my)):
        if size and one[:size] == was:
            return [*other, *one[size:]]
        if size and one[-size:] == was:
            return [*one[:-size], *other]
    return None


def _equal(one: list[str], two: list[str]) -> list[tuple[int, int, int]]:
    return [tuple(block) for block in SequenceMatcher(None, one, two, autojunk=False).get_matching_blocks()]
