"""The change that an edit asks for, carried over to the file's own lines.

SEARCH is compared with REPLACE line by line. Lines that are in both keep the bytes of the file; the others
are
written in the file's indentation, line ends and characters.
"""

from __future__ import annotations

import re
from dataclasses import replace as with_fields
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from kakite.edit.aligning import align
from kakite.edit.changes import Change
from kakite.edit.comparing import ELISION, INNER_BLANKS, LOOK_ALIKES, TRAILING_BLANKS
from kakite.edit.elided_depth import Around, moves
from kakite.edit.folding import BLANKS
from kakite.edit.framing import reindent
from kakite.edit.indentation import split_indent
from kakite.edit.lines import Lines
from kakite.edit.placeholders import is_elision
from kakite.edit.places import Block, Place, Row, Rows
from kakite.edit.retyping import MAX_PAIRED_LENGTH, MAX_PAIRS, Habits, pair_lines, retype
from kakite.edit.source_text import LINE_END, line_ends_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kakite.edit.view import TextView


def transplant(view: TextView, place: Place, sent: Block, new: Block) -> list[Change]:
    """Return the changes of the text that do at ``place`` what SEARCH → REPLACE asks for.

    Raises:
        UnclearError: the indentation of REPLACE cannot be told.
    """
    one_by_one = len(sent.lines) == len(new.lines) == 1
    is_mixed = len(line_ends_of(sent.text)) > 1
    rows = place.rows
    if rows is None and not is_mixed and (place.first is None or one_by_one):
        return [_spliced(view, place, sent, new)]
    if rows is None:
        place, rows = _with_rows(view, place, sent)
    if not sent.closed and not new.text and place.whole_lines:
        place, rows = _to_line_end(view, place, rows)
    return _Transplant(view, place, rows, sent, new).changes()


def _spliced(view: TextView, place: Place, sent: Block, new: Block) -> Change:
    """Replace an exact hit to the letter, but for line ends."""
    start, end, text = place.start, place.end, new.text
    if sent.text != text and LINE_END.sub("\n", sent.text) == LINE_END.sub("\n", text):
        return Change(start, end, text)
    if place.first and split_indent(text)[0] == place.first[1] and split_indent(text)[0] != place.first[0]:
        text = text[len(place.first[1]) - len(place.first[0]) :]
    line_end = view.line_end_at(start)
    if line_end != "\n" or "\r" in text:
        text = text.replace("\r\n", "\n").replace("\n", line_end)
    if place.whole_lines and sent.closed and text and not new.closed:
        text += line_end
    if place.whole_lines and not text:
        start -= len(place.first[1]) - len(place.first[0]) if place.first else 0
        found = None if sent.closed else _REST_OF_LINE.match(view.text, end)
        end = found.end() if found else end
    return Change(start, end, text)


def _with_rows(view: TextView, place: Place, sent: Block) -> tuple[Place, Rows]:
    """Return an exact hit as a place of lines; one that begins within leading blanks starts before them."""
    start = place.start
    if place.first is not None:
        start -= len(place.first[1]) - len(place.first[0])
    numbers = range(place.line, place.line + len(sent.lines))
    first, last = (_row(view, number, start, place.end) for number in (numbers[0], numbers[-1]))
    if not sent.closed:
        last = last._replace(end="")
    rows = Rows(view, numbers, last if len(numbers) == 1 else first, last)
    others = (split_indent(line)[0] for line in islice(sent.lines, 1, None) if line.strip(BLANKS))
    with_rows = with_fields(
        place,
        start=start,
        rows=rows,
        pairs=range(len(rows)),
        indents=tuple((indent, indent) for indent in dict.fromkeys(others)),
        starts_inside=place.first is None and start > view.lines.start_of(place.line),
    )
    return with_rows, rows


def _row(view: TextView, number: int, start: int, end: int) -> Row:
    """Return what a line has between two offsets."""
    at = view.lines.start_of(number)
    stop = min(at + len(view.lines[number]), end)
    at = max(at, start)
    return Row(at, view.text[at:stop], view.line_end(number))


_REST_OF_LINE = re.compile(r"[ \t]*(?:\r\n|\r|\n|\Z)")


class ElisionError(Exception):
    """SEARCH leaves lines out, and REPLACE does not leave out the same ones."""

    def __init__(self, line: str) -> None:
        super().__init__(line)
        self.line = line


class MovedElisionError(ElisionError):
    """REPLACE has the line that leaves lines out at another depth."""


class _New(NamedTuple):
    """A new line of the result."""

    text: str
    end: str


class _Transplant:
    """One edit at one place, line by line."""

    def __init__(self, view: TextView, place: Place, rows: Rows, sent: Block, new: Block) -> None:
        self._view = view
        self._place = place
        self._sent = sent
        self._new = _new_lines(place, sent, new)
        self._rows = rows
        self._lines: list[_New | range] = []
        """The result: new lines, and runs of rows that are kept."""
        self._cursor = 0
        self._first_solid = next(at for at, line in enumerate(sent.lines) if line.strip(BLANKS))
        self._moves = place.first is not None or any(sent != file for sent, file in place.indents)

    def changes(self) -> list[Change]:
        """Return the changes, from left to right."""
        old, new = self._versions()
        habits = Habits.of(self._sent, self._new, self._rows, self._place)
        for step in align(old, new):
            if step.kind == "equal":
                self._keep(range(step.old_start, step.old_end))
            else:
                dropped = self._drop(range(step.old_start, step.old_end))
                texts = new[step.new_start : step.new_end]
                is_before_mark = _holds_mark(old[step.old_start : step.old_start + 1])
                if not dropped and texts and not texts[-1].strip(BLANKS) and not is_before_mark:
                    self._keep_extra(step.old_start)
                if self._is_after_sent_blank(step.old_start, texts):
                    texts = ["", *texts]
                self._write(range(step.old_start, step.old_end), texts, dropped, habits)
        self._keep_rows(len(self._rows))
        return self._as_changes()

    def _is_after_sent_blank(self, sent: int, texts: Sequence[str]) -> bool:
        """Tell whether new lines with blank ones around them follow one that only SEARCH and REPLACE have.

        Not where SEARCH begins or ends with such lines: those are around it by accident.
        """
        inside = self._first_solid < sent < len(self._sent.lines)
        if not inside or not texts or not texts[0].strip(BLANKS) or texts[-1].strip(BLANKS):
            return False
        return not self._sent.lines[sent - 1].strip(BLANKS) and self._place.pairs[sent - 1] is None

    def _versions(self) -> tuple[Sequence[str], Sequence[str]]:
        """Return SEARCH and REPLACE as the file indents them, with a mark for each elision."""
        marks = list(self._sent.elisions) if self._place.mask & ELISION else []
        others = [at for at, line in enumerate(self._new) if marks and is_elision(line)]
        if len(marks) != len(others):
            raise ElisionError(self._sent.lines[marks[0]])
        bare = ["" if at in others else line for at, line in enumerate(self._new)] if marks else self._new
        new = reindent(self._view, self._place, self._sent, bare)
        sent = self._sent.lines
        old = [self._in_file_form(at) for at in range(len(sent))] if self._moves else sent
        return self._marked(old, new, list(zip(marks, others, strict=True))) if marks else (old, new)

    def _marked(
        self, old: Sequence[str], new: Sequence[str], marks: Sequence[tuple[int, int]]
    ) -> tuple[Sequence[str], Sequence[str]]:
        """Return both versions with a mark for each elision."""
        self._check_depths(old, new, marks)
        old, new = list(old), list(new)
        for nth, (one, two) in enumerate(marks):
            old[one] = new[two] = f"\0{nth}"
        if any(
            step.kind == "change" and _holds_mark(old[step.old_start : step.old_end])
            for step in align(old, new)
        ):
            raise ElisionError(self._sent.lines[marks[0][0]])
        return old, new

    def _check_depths(self, old: Sequence[str], new: Sequence[str], marks: Sequence[tuple[int, int]]) -> None:
        """Refuse elided lines that would have to move: they may hold strings that must not."""
        bare = list(old)
        for one, _ in marks:
            bare[one] = ""
        for one, two in marks:
            before = Around(sent=self._sent.lines, file=bare, mark=one)
            after = Around(sent=self._new, file=new, mark=two)
            if moves(before, after, self._elided(one)):
                raise MovedElisionError(self._new[two])

    def _elided(self, mark: int) -> list[str]:
        """Return the lines of the file that a line of SEARCH leaves out."""
        pairs = self._place.pairs
        before = next((row for row in reversed(pairs[:mark]) if row is not None), -1)
        after = next((row for row in pairs[mark + 1 :] if row is not None), len(self._rows))
        return [self._rows.content(row) for row in range(before + 1, after)]

    def _in_file_form(self, at: int) -> str:
        """Return a line of SEARCH with the indentation that the file gives it."""
        line = self._sent.lines[at]
        if not self._moves:
            return line
        row = self._place.pairs[at]
        body = split_indent(line)[1]
        if not body:
            return ""
        if row is None or (self._place.starts_inside and at == self._first_solid):
            return line
        return split_indent(self._rows.content(row))[0] + body

    def _keep(self, sent: range) -> None:
        for at in sent:
            row = self._place.pairs[at]
            if row is not None:
                self._keep_rows(row + 1)

    def _keep_rows(self, until: int) -> None:
        if self._cursor >= until:
            return
        start = self._cursor
        if self._lines and isinstance(run := self._lines[-1], range) and run.stop == start:
            start = run.start
            self._lines.pop()
        self._lines.append(range(start, until))
        self._cursor = until

    def _keep_extra(self, sent: int) -> None:
        """Keep blank lines that only the file has, before what is inserted in front of a line of SEARCH."""
        row = self._place.pairs[sent] if sent < len(self._place.pairs) else None
        if row is not None:
            self._keep_rows(row)

    def _drop(self, sent: range) -> range:
        rows = [row for at in sent if (row := self._place.pairs[at]) is not None]
        if not rows:
            return range(0)
        self._keep_rows(rows[0])
        self._cursor = rows[-1] + 1
        return range(rows[0], rows[-1] + 1)

    def _write(self, sent: range, texts: Sequence[str], dropped: range, habits: Habits) -> None:
        drifted = self._place.mask & (LOOK_ALIKES | INNER_BLANKS | TRAILING_BLANKS) or self._place.words
        few = drifted and len(sent) * len(texts) <= MAX_PAIRS and sum(map(len, texts)) <= MAX_PAIRED_LENGTH
        partners = pair_lines([self._in_file_form(at) for at in sent], texts) if few else {}
        ends = self._ends_for(len(texts), dropped)
        for nth, (text, end) in enumerate(zip(texts, ends, strict=True)):
            partner = partners.get(nth)
            row = None if partner is None else self._place.pairs[sent[partner]]
            if row is None or partner is None:
                typed = habits.apply_to_line(text)
            else:
                typed = retype(self._rows.content(row), self._in_file_form(sent[partner]), text, habits)
            self._lines.append(_New(typed, end))

    def _ends_for(self, count: int, dropped: range) -> Iterator[str]:
        """Yield the line ends in force for new lines: of the lines they replace, or of those beside."""
        around = self._rows[max(self._cursor - 1, 0) : self._cursor + 1]
        beside = next((row.end for row in around if row.end), "")
        end = ""
        for nth in range(count):
            if nth < len(dropped):
                end = self._rows[dropped[nth]].end or end
            yield end or beside or self._view.line_end_at(self._place.start)

    def _as_changes(self) -> list[Change]:
        changes: list[Change] = []
        at = self._place.start
        pending: list[str] = []
        last_end = self._rows[-1].end
        for nth, line in enumerate(self._lines):
            is_last = nth == len(self._lines) - 1
            if isinstance(line, _New):
                pending += (line.text, last_end if is_last else line.end or self._view.line_end_at(at))
                continue
            first, last = self._rows[line[0]], self._rows[line[-1]]
            if pending or at < first.start:
                changes.append(Change(at, first.start, "".join(pending)))
                pending = []
            before = last.start if len(line) > 1 else at
            end = last_end if is_last else last.end or self._view.line_end_at(before)
            after = last.start + len(last.content)
            at = after + len(last.end)
            if end != last.end:
                changes.append(Change(after, at, end))
        changes.append(Change(at, self._place.end, "".join(pending)))
        return [change for change in changes if change.insert != self._view.text[change.start : change.end]]


def _holds_mark(lines: Sequence[str]) -> bool:
    return any(line.startswith("\0") for line in lines)


def _to_line_end(view: TextView, place: Place, rows: Rows) -> tuple[Place, Rows]:
    """Return the place with the line end of its last line."""
    last = rows[-1]
    found = LINE_END.match(view.text, place.end)
    if last.end or found is None:
        return place, rows
    rows = rows.with_last(last._replace(end=found.group()))
    return with_fields(place, rows=rows, end=found.end()), rows


def _new_lines(place: Place, sent: Block, new: Block) -> Sequence[str]:
    """Return the lines of REPLACE, with an end on the last line exactly if SEARCH has one."""
    if not new.text and (sent.closed or place.whole_lines):
        return ()
    ends_in_forgiven_blanks = not sent.lines[-1].strip() and bool(place.pairs) and place.pairs[-1] is None
    if new.closed and not sent.closed and not ends_in_forgiven_blanks:
        return Lines(new.text)
    return new.lines
