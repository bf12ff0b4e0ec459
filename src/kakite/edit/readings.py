"""In whose indentation REPLACE is written: as it was sent, as the text has it, or below its first line.

Which reading is right is asked of the lines around the place (``columns``) and of the lines that SEARCH and
REPLACE share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kakite.edit.aligning import align
from kakite.edit.columns import can_stand, leaves_open
from kakite.edit.folding import BLANKS
from kakite.edit.indentation import column, split_indent
from kakite.edit.source_text import LINE_END, split_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kakite.edit.indentation import Shift
    from kakite.edit.places import Block, Place
    from kakite.edit.view import TextView

_ABOVE = 64_000
"""How many characters above a place are looked at for the columns of the blocks around it."""


def read_whole(view: TextView, place: Place, search: Block, text: str) -> str | None:
    """Return REPLACE as whole lines, for a SEARCH that begins behind the indentation of its line.

    None if REPLACE goes behind the indentation as it was sent: unless its lines cannot stand at the columns
    that they have then, and can in another reading.
    """
    lines, missing = split_lines(text), place.missing
    sent, of = search.text.strip(), missing + split_lines(search.text)[0]
    first = _reading_of_first(search, missing, lines)
    begins_blank = bool(lines[0]) and not lines[0].strip(BLANKS)
    if not sent or begins_blank or first == "moved" or _ends_in_indentation(search):
        return None
    # What SEARCH quotes stays in its block, if it stays.
    leaves = lines[0].strip() != sent and any(
        line.strip() == sent and column(search.text) <= column(line) < column(of) for line in lines[1:]
    )
    further = [column(line) for line in lines[1:] if line.strip(BLANKS)]
    # Whether the further lines have as little of the indentation as the first one has.
    is_relative = max(further, default=0) <= column(lines[0]) or (
        leaves_open(lines[0]) and further[0] <= column(of)
    )
    is_indented = search.text[0] in BLANKS and is_relative and all(line[:1] in BLANKS for line in lines)
    literal, there = [missing + lines[0], *lines[1:]], [of, *split_lines(search.text)[1:]]
    if first == "whole" and lines != there and fits(view, place, lines, of):
        return "\n".join(lines)
    if not (leaves or is_indented) and fits(view, place, literal, of):
        return None
    readings = _readings(place, search, lines)
    fitting = [
        reading for reading in readings if reading not in (literal, there) and fits(view, place, reading, of)
    ]
    return "\n".join(fitting[0]) if len(fitting) == 1 else None


def _reading_of_first(search: Block, missing: str, lines: Sequence[str]) -> str:
    """Return what the blanks that REPLACE begins with are: ``moved``, if they move the first line of SEARCH
    as the next one is moved; ``whole``, if they are those that SEARCH lost; empty if that cannot be told.
    """
    sent, new = ([line for line in each if line.strip(BLANKS)] for each in (search.lines, lines))
    first = sent[0].strip(BLANKS) if sent else ""
    bodies = [line.strip(BLANKS) for line in new]
    if len(sent) < 2 or len(new) < 2:
        return ""
    following = sent[1].strip(BLANKS)
    if not new[0].startswith(missing) or split_indent(new[0])[0] == split_indent(sent[0])[0]:
        return ""
    is_below = bodies[1:].count(first) >= [line.strip(BLANKS) for line in sent].count(first)
    if is_below or leaves_open(new[0]) != leaves_open(first):
        return ""
    was = column(missing + sent[0])
    as_sent, whole = column(missing + new[0]) - was, column(new[0]) - was
    if following in bodies[1:]:
        moved = column(new[bodies.index(following, 1)]) - column(sent[1])
        return "moved" if abs(as_sent - moved) < abs(whole - moved) else "whole"
    moved = column(new[1]) - column(sent[1])
    return "" if moved not in {as_sent, whole} else "moved" if moved == as_sent else "whole"


def _ends_in_indentation(search: Block) -> bool:
    """Tell whether SEARCH ends within the indentation of a line: it was cut out of the file."""
    return not search.closed and len(search.lines) > 1 and not search.lines[-1].strip(BLANKS)


def _readings(place: Place, search: Block, lines: Sequence[str]) -> Iterator[list[str]]:
    """Yield what REPLACE may mean, other than lines of the file but for the first indentation."""
    missing, first = place.missing, split_lines(search.text)[0]
    is_one = len(search.solid[0]) == 1
    is_there = not is_one and lines[0] != first and missing + first in lines[1:]
    if is_there or (lines[0].startswith(missing) and not first.startswith(missing)):
        yield list(lines)  # SEARCH alone lost the indentation
    if is_one:  # further lines of SEARCH show the columns that are meant
        yield [missing + line if line else line for line in lines]
    elif first in lines[1:]:  # what comes before the first line of SEARCH is indented as that is
        last = lines.index(first)
        yield [missing + line if line and at <= last else line for at, line in enumerate(lines)]


def fits(view: TextView, place: Place, lines: Sequence[str], of: str) -> bool:
    """Tell whether lines can stand in place of ``of``."""
    above, (*blank, below) = _around(view.text, place)
    return can_stand(above, [*_with_rest(lines, view.text, place), *blank], below, of=of)


def _around(text: str, place: Place) -> tuple[list[str], list[str]]:
    """Return lines above a place, and those below it down to the next one that is not blank."""
    start = place.start - len(place.missing)
    low = max(start - _ABOVE, 0)
    above = split_lines(text[low:start])[1 if low else 0 : -1]
    behind = LINE_END.search(text, place.end - (text[place.end - 1] in "\r\n"))
    rest = split_lines(text[behind.end() : behind.end() + _ABOVE] if behind else "")
    last = next((at for at, line in enumerate(rest) if line.strip(BLANKS)), len(rest) - 1)
    return above, rest[: last + 1] or [""]


def _with_rest(lines: Sequence[str], text: str, place: Place) -> Sequence[str]:
    """Return the lines with what stands behind the place on its last line."""
    if not place.ends_inside:
        return lines[:-1] if len(lines) > 1 and not lines[-1] else lines
    behind = LINE_END.search(text, place.end)
    return [*lines[:-1], lines[-1] + text[place.end : behind.start() if behind else len(text)]]


def find_form(
    view: TextView, place: Place, sent: Sequence[str], new: Sequence[str], moved: list[str] | None
) -> str | None:
    """Return whose indentation REPLACE has: ``sent`` or ``file``; None if it cannot be told."""
    shift = place.shift
    solid = [line for line in new if line.strip(BLANKS)]
    first = next(line for line in sent if line.strip(BLANKS))
    is_at_margin = shift.kind == "add" and not all(line.startswith(shift.blanks) for line in solid)
    if is_at_margin and split_indent(solid[0])[0] == split_indent(first)[0]:
        return "sent"
    votes = _votes(shift, sent, solid)
    is_sent = _is_likely_as_sent(shift, sent, solid, votes)
    if is_sent is None:
        return None
    of = shift.apply(first) or ""
    if moved is None:
        return "file" if not is_sent and fits(view, place, new, of) else None
    if not is_sent and votes.is_torn:
        return None
    if not is_sent and shift.kind == "add" and votes == (False, True, False):
        return "file"
    likely, lines, others = ("sent", moved, new) if is_sent else ("file", new, moved)
    stands, would_stand = (fits(view, place, each, of) for each in (lines, others))
    if not is_sent and shift.kind == "remove" and (would_stand or votes.file or not votes.sent):
        return None  # SEARCH was sent deeper than the file has it, and REPLACE was not
    if is_sent and would_stand and votes.file and not votes.sent and _begins_alike(solid, sent):
        return None  # what is unwrapped stands as it does in the file
    return likely if stands or not would_stand else None


class _Votes(NamedTuple):
    """What the lines say that SEARCH and REPLACE share."""

    sent: bool
    """Whether one stands in REPLACE as it was sent."""
    file: bool
    """Whether one stands in REPLACE as the file has it."""
    is_torn: bool
    """Whether it can be seen that each is true of some lines."""


def _votes(shift: Shift, sent: Sequence[str], new: Sequence[str]) -> _Votes:
    wanted = set(new)
    votes = any(line in wanted for line in sent), any(shift.apply(line) in wanted for line in sent)
    if not all(votes):
        return _Votes(*votes, is_torn=False)
    if _is_torn(shift, sent, new):
        return _Votes(sent=True, file=True, is_torn=True)
    quotes = wanted.issubset(sent), wanted.issubset(map(shift.apply, sent))
    # Lines of one depth only are quoted by chance in the other.
    return _Votes(*(quotes if any(quotes) and not all(quotes) else votes), is_torn=False)


def _is_likely_as_sent(shift: Shift, sent: Sequence[str], new: Sequence[str], votes: _Votes) -> bool | None:
    """Tell whether REPLACE likely has the indentation of SEARCH, not the file's; None if nothing tells."""
    first = next(line for line in sent if line.strip(BLANKS))
    own, file = (split_indent(line)[0] for line in (first, shift.apply(first) or ""))
    begins, is_alike = split_indent(new[0])[0], _begins_alike(new, sent)
    # A new first line may be one that the others were put below: it tells more than they do.
    is_above = not is_alike and _is_less_deep(new, sent)
    if votes.sent and not votes.file and (begins != file or not is_above):
        return True
    if votes.file and not votes.sent and (begins != own or (is_alike and shift.kind == "add")):
        return False
    return begins == own if begins in {own, file} else None


def _begins_alike(new: Sequence[str], sent: Sequence[str]) -> bool:
    """Tell whether the first new line is one of SEARCH, at whatever depth."""
    return new[0].strip(BLANKS) in {line.strip(BLANKS) for line in sent}


def _is_less_deep(new: Sequence[str], sent: Sequence[str]) -> bool:
    """Tell whether new lines begin less deep than those that SEARCH has too."""
    known = {line.strip(BLANKS) for line in sent}
    return all(column(new[0]) < column(line) for line in new[1:] if line.strip(BLANKS) in known)


def _is_torn(shift: Shift, sent: Sequence[str], new: Sequence[str]) -> bool:
    """Tell whether some lines of SEARCH stand in REPLACE as they were sent, others as the text has them."""
    old = [line for line in sent if line.strip(BLANKS)]
    bodies = ([line.strip(BLANKS) for line in lines] for lines in (old, new))
    found = {
        (one == two, shift.apply(one) == two)
        for step in align(*bodies)
        if step.kind == "equal"
        for one, two in zip(
            old[step.old_start : step.old_end], new[step.new_start : step.new_end], strict=True
        )
    }
    return {(True, False), (False, True)} <= found
