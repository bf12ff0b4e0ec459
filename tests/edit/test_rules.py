"""The rules of the engine, in the order of docs/edit.md: for each a law, and a few cases that can be read.

The laws know nothing of the engine: what has to come out is worked out here, with ``str.replace``, ``re`` and
lines.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from tests.bounds import little_work

from kakite.edit import Edit, EditError, EditFailure, Result, accept, apply, parse
from kakite.edit.jsonl_protocol import answer_line


def outcome(text: str, edit: Edit) -> Result | EditFailure:
    """Return what an edit gives, or why it is refused."""
    try:
        return apply(text, [edit])
    except EditError as error:
        (failure,) = error.failures
        return failure


def written(text: str, search: str, replace: str, **fields: object) -> str:
    """Return the new text, or the code of the refusal in brackets."""
    found = outcome(text, Edit(search=search, replace=replace, **fields))  # pyright: ignore[reportArgumentType]
    return f"<{found.code}>" if isinstance(found, EditFailure) else found.text


WORDS = ("alpha", "beta", "gamma", "delta", "omega", "total", "index")


@dataclass(frozen=True)
class Program:
    """Lines of Python as a person would indent them, each with words of its own."""

    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        """The lines with their ends."""
        return "".join(f"{line}\n" for line in self.lines)


def grow(rng: random.Random, depth: int, count: int, unit: str) -> list[str]:
    """Return the lines of a block."""
    lines: list[str] = []
    for _ in range(count):
        name = f"{rng.choice(WORDS)}_{rng.randrange(10**6)}"
        if depth < 4 and rng.random() < 0.4:
            head = rng.choice(["if {}:", "for item in {}:", "def {}():", "while {}:"]).format(name)
            lines += [unit * depth + head, *grow(rng, depth + 1, rng.randrange(1, 4), unit)]
        else:
            lines.append(
                unit * depth + rng.choice(["{} = 1", "{}()", "call({}, 2)", "{} += [1, 2]"]).format(name)
            )
            lines += [""] * (rng.random() < 0.15)
    return lines


randoms = st.integers(0, 2**32).map(random.Random)


def program(rng: random.Random, unit: str = "    ") -> Program:
    """Return a random program."""
    return Program(tuple(grow(rng, 0, rng.randrange(2, 6), unit)))


# --- 1: an exact, unique SEARCH lands, and REPLACE is written literally


@given(randoms, st.data())
def test_an_exact_unique_fragment_is_replaced_as_a_string_is(rng: random.Random, data: st.DataObject) -> None:
    text = program(rng, rng.choice(["    ", "  ", "\t"])).text
    start = data.draw(st.integers(0, len(text) - 1))
    search = text[start : start + data.draw(st.integers(1, 120))]
    assume(search.strip() and text.count(search) == 1)
    new = program(random.Random(rng.random())).text
    replace = new if search.endswith("\n") else new[: data.draw(st.integers(1, len(new) - 1))].rstrip("\n")
    assume(replace.strip() and replace != search)
    found = outcome(text, Edit(search=search, replace=replace))
    assert isinstance(found, Result)
    at = text.index(search)
    before = text[text.rfind("\n", 0, at) + 1 : at]
    is_stripped_line = (
        before and not before.strip() and len(search.split()) and "\n" not in search.strip("\n")
    )
    literal = text.replace(search, replace)
    if not is_stripped_line or "\n" not in replace.strip("\n"):
        assert found.text == literal
        return
    first, *rest = replace.split("\n")
    relative = "\n".join([first, *(before + line if line else line for line in rest)])
    as_it_stands = replace.removeprefix(before)
    assert found.text in {literal, text.replace(search, relative), text.replace(search, as_it_stands)}


@pytest.mark.parametrize(
    ("text", "search", "replace"),
    [
        ("retries = 30\n", "retries = 3", "retries = 5"),
        ("return counter\n", "return count", "return total"),
        ("my_count = 0\n", "count = 0", "count = 1"),
        ("hostname: a\n", "name: a\n", "name: b\n"),
        ("x = a == b\n", "= b", "= c"),
        ("x = -1\n", "1", "2"),
        ("# x = 1\n", "x = 1\n", "x = 2\n"),
        ('<a data-id="1">\n', 'id="1"', 'id="2"'),
        ("def f():\n    return a + b\n", "def f():\n    return a", "def f():\n    return c"),
        ("    a\n        b\n", "a\n        b", "c\n        d"),
        ("f() {\n\tcat\n}\n", "cat\n", "cat <<EOF\nabc\nEOF\n"),
        ("def f():\n    a\n", "a\n", "a\n\n\ndef g():\n    b\n"),
        ("def f():\n    if x:\n        a()\n", "a()", "a()\n    b()"),
        ("def f():\n    if x:\n        a()\n", "a()", "b()\n        a()"),
    ],
)
def test_exact_fragments_land_whatever_their_form(text: str, search: str, replace: str) -> None:
    assert written(text, search, replace) == text.replace(search, replace)


def test_new_lines_with_all_blanks_stand_above_a_fragment_that_lost_some() -> None:
    text, search = "f()\n      a = 1\n", "     a = 1\n"
    assert written(text, search, f"      b = 2\n{search}") == "f()\n      b = 2\n      a = 1\n"


@pytest.mark.parametrize(
    ("text", "search", "new", "stands"),
    [
        # directives of make stand at the margin, whatever stands around them
        (
            "ifdef CLEAN\n\trm -rf $(CLEAN)\n\trm -rf $(more)\nendif\n",
            "rm -rf $(CLEAN)",
            "rm -rf $(CLEAN)\nendif\nifdef TEST",
            "literally",
        ),
        # the line below is a tag of the same kind, at the margin
        (
            '<ol id="x"><li>one</li>\n<li>three</li>\n</ol>\n'.replace("<ol", "  <ol", 1),
            '<ol id="x"><li>one</li>',
            '<ol id="x"><li>one</li>\n<li>two</li>',
            "literally",
        ),
        # a term at the column of the term above, with a deeper line below it
        (
            "``A::A``\n  The library.\n  .. versionadded:: 3.17\n",
            "The library.",
            "The library.\n``A::B``",
            "literally",
        ),
        # SEARCH's line comes last in REPLACE, at the column that it has in the file
        (
            '<fontconfig>\n  <match target="pattern">\n    <x/>\n',
            '<match target="pattern">',
            '<description>One</description>\n<!--  Two -->\n  <match target="pattern">',
            "literally",
        ),
        (
            "\tlet l:a = 1\n\tif l:lnum == 0\n\t\treturn 0\n\tendif\n",
            "if l:lnum == 0",
            'let l:lnum = v:lnum - 1\n\n\t" The first line:\n\tif l:lnum == 0',
            "literally",
        ),
        # below it is what it opens, which would be left behind if it moved
        (
            "on:\n  push:\n  schedule:\n    - x\n",
            "schedule:",
            "rule:\n  # c\n  schedule:",
            "literally",
        ),
        # REPLACE's first line has the indentation that SEARCH lost: it is not doubled
        (
            "if(A)\n  set(WINCE 1)\nelseif(B)\n  set(C 1)\nendif()\n",
            "set(WINCE 1)\nelseif(B)",
            "  set(WINCE 1)\nelseif(D)\n  set(E 1)\nelseif(B)",
            "as whole lines",
        ),
    ],
)
def test_new_lines_stay_at_the_columns_of_the_file(text: str, search: str, new: str, stands: str) -> None:
    expected = text.replace(search, new)
    if stands == "as whole lines":
        expected = text.replace(f"  {search}", new)
    assert written(text, search, new) == expected


@pytest.mark.parametrize(
    ("text", "search", "starts_inside", "ends_inside"),
    [
        ("retries = 30\n", "retries = 3", False, True),
        ("my_count = 0\n", "count = 0", True, False),
        ("a b c\n", "b", True, True),
        ("    a\n", "a", False, False),
        ("a\nb c\n", "a\nb", False, True),
        ("a  \n", "a", False, False),
    ],
)
def test_a_match_tells_that_it_begins_or_ends_inside_a_line(
    text: str, search: str, starts_inside: bool, ends_inside: bool
) -> None:
    (match,) = apply(text, [Edit(search=search, replace="new")]).matches
    assert (match.starts_inside, match.ends_inside) == (starts_inside, ends_inside)


@pytest.mark.parametrize(
    ("text", "search", "replace", "expected"),
    [
        # only from the first line on can the new lines stand
        (
            "def f():\n    x = 1\n    return x\n",
            "x = 1",
            "if y:\n    x = 1",
            "def f():\n    if y:\n        x = 1\n    return x\n",
        ),
        (
            "class A {\n  a();\n}\n",
            "a();",
            "if (b) {\n  a();\n}",
            "class A {\n  if (b) {\n    a();\n  }\n}\n",
        ),
        (
            "class A:\n\n    def g(self):\n        return 1\n",
            "def g(self):\n",
            "@property\ndef g(self):\n",
            "class A:\n\n    @property\n    def g(self):\n        return 1\n",
        ),
        (
            "class A {\n\tg() {\n\t\tb();\n\t}\n}\n",
            "g() {\n",
            "/**\n * Goes.\n */\ng() {\n",
            "class A {\n\t/**\n\t * Goes.\n\t */\n\tg() {\n\t\tb();\n\t}\n}\n",
        ),
        (
            "return {\n  cmd = { 'x' },\n}\n",
            "cmd = { 'x' },",
            "cmd = function(d)\n  local c = 1\nend,",
            "return {\n  cmd = function(d)\n    local c = 1\n  end,\n}\n",
        ),
        # whole lines, whose end REPLACE forgot; and whole lines that go
        ("a\nb\n", "a\n", "c", "c\nb\n"),
        ("a\n    b\nc\n", "b", "", "a\nc\n"),
    ],
)
def test_a_line_sent_without_its_indentation_may_show_where_the_others_are_meant(
    text: str, search: str, replace: str, expected: str
) -> None:
    assert written(text, search, replace) == expected


# --- 2: changed lines are written as sent, moved by one constant; the others keep the file's bytes


@dataclass(frozen=True)
class Move:
    """A stretch of a program that was sent further left or right, with lines that are new."""

    text: str
    search: str
    replace: str
    expected: str


def moved(rng: random.Random, ends: tuple[str, ...] = ("\n",)) -> Move | None:
    """Return a stretch that stands ``by`` columns elsewhere than in the file, and a new line in it."""
    lines = program(rng).lines
    first = rng.randrange(len(lines))
    last = min(first + rng.randrange(1, 7), len(lines))
    margin = min((len(line) - len(line.lstrip()) for line in lines[first:last] if line), default=0)
    if not lines[first] or not lines[last - 1]:
        return None
    by = rng.choice([-margin, -margin, 2, 4]) or 4

    def as_sent(line: str) -> str:
        return line and (" " * by + line if by > 0 else line[-by:])

    at = rng.randrange(first, last)
    depth = len(lines[at]) - len(lines[at].lstrip())
    new = " " * depth + f'added_{rng.randrange(10**9)}("a  b",   1)'
    if not lines[at]:
        return None
    text = "".join(line + rng.choice(ends) for line in lines)
    kept = text.splitlines(keepends=True)
    search = [as_sent(line) for line in lines[first:last]]
    replace = [*search[: at - first], as_sent(new), *search[at - first :]]
    expected = [*kept[:at], new + "\N{NULL}", *kept[at:]]
    return Move(
        text,
        "".join(f"{line}\n" for line in search),
        "".join(f"{line}\n" for line in replace),
        "".join(expected),
    )


@given(randoms, st.sampled_from([("\n",), ("\r\n",), ("\n", "\r\n")]))
def test_new_lines_move_by_one_constant_and_the_others_keep_their_bytes(
    rng: random.Random, ends: tuple[str, ...]
) -> None:
    case = moved(rng, ends)
    assume(case is not None)
    assert case is not None
    found = outcome(case.text, Edit(search=case.search, replace=case.replace))
    if isinstance(found, EditFailure):
        assert found.code in {"indentation_unclear", "ambiguous"}
        return
    assume(found.matches[0].level != "exact")  # what is sent without its blanks has a rule of its own
    before, _, after = case.expected.partition("\N{NULL}")
    assert found.text.startswith(before)
    assert re.fullmatch(r"\r\n|\n", found.text[len(before) : len(found.text) - len(after)])
    assert found.text.endswith(after)


@given(st.lists(st.sampled_from(["b", "    c", ""]), min_size=1, max_size=5), st.sampled_from(["\n", "\r\n"]))
def test_lines_behind_a_blank_one_that_the_end_of_the_file_lacks_keep_theirs(
    new: list[str], end: str
) -> None:
    assume(new[0] and new[-1])
    text = f"x{end}a{end}"
    replace = "\n".join(["a", "", *new, "", ""])
    assert written(text, "a\n\n", replace) == end.join(["x", "a", "", *new, ""])


def test_nearly_all_moved_lines_land() -> None:
    cases = [case for case in map(moved, map(random.Random, range(400))) if case is not None]
    landed = sum(
        isinstance(outcome(case.text, Edit(search=case.search, replace=case.replace)), Result)
        for case in cases
    )
    assert landed / len(cases) > 0.95


@pytest.mark.parametrize(
    ("text", "search", "replace", "expected"),
    [
        # the blanks of the new line are those that were sent
        ("\tx  =  1\n\ty = 2\n", "x = 1\ny = 2", "x = 1\ny   = 3", "\tx  =  1\n\ty   = 3\n"),
        ("f( a )\nb\n", "f(a)\nb", "f(a)\nc  ", "f( a )\nc  \n"),
        # tabs for blanks, by one unit
        (
            "if a:\n\tb()\n",
            "if a:\n    b()\n",
            "if a:\n    b()\n    if c:\n        d()\n",
            "if a:\n\tb()\n\tif c:\n\t\td()\n",
        ),
        # line ends of the file, mixed or not
        ("a\r\nb  \r\nc\r\n", "a\nb\nc\n", "a\nb\nd\ne\n", "a\r\nb  \r\nd\r\ne\r\n"),
        ("a\nb  \r\nc\n", "a\nb\nc\n", "a\nb\nd\n", "a\nb  \r\nd\n"),
        ("a\r\nb\nc\n", "a\r\nb\n", "a\r\nX\n", "a\r\nX\nc\n"),
    ],
)
def test_a_drifted_edit_writes_what_was_sent(text: str, search: str, replace: str, expected: str) -> None:
    assert written(text, search, replace) == expected


@pytest.mark.parametrize(
    ("text", "search", "replace"),
    [
        # no one constant leads from two columns to four
        ("def f():\n    if a:\n        b()\n", "def f():\n  if a:\n    b()\n", "def f():\n  c()\n"),
        # straight quotes for curly ones that differ; a character for several
        ("say “a now\n", 'say "a now\n', 'say "a" now\n'),
        ("go.…on\n", "go....on\n", "go..on\n"),
        # a here-document may not move
        ("if a\n\tb\nfi\n", "  if a\n  \tb\n  fi\n", "  if a\n  \tcat <<EOF\n  x\nEOF\n  fi\n"),
    ],
)
def test_what_no_constant_tells_is_refused(text: str, search: str, replace: str) -> None:
    assert written(text, search, replace) in {"<near_miss>", "<indentation_unclear>"}


STREAMS = (
    "y = 1 << n;",
    "std::cout << x;",
    "uri << request.x if add",
    "list <<item",
    "vector<<T>>",
    "cout <<X",
)


@given(st.sampled_from(STREAMS), st.integers(1, 8), st.booleans())
def test_a_sign_of_a_stream_or_a_shift_begins_no_here_document(line: str, depth: int, above: bool) -> None:
    blanks = " " * depth
    text = f"f() {{\n{blanks}first();\n{blanks}last();\n}}\n"
    new = ["first();", line, "added();"] if above else [line, "added();"]
    replace = "".join(f"{each}\n" for each in new)
    moved = "".join(f"{blanks}{each}\n" for each in new)
    assert written(text, "first();\nlast();\n", replace) == f"f() {{\n{moved}}}\n"


@pytest.mark.parametrize("blank", ["\u00a0", "\u2003", "\u3000"])
def test_other_blanks_than_usual_ones_are_forgiven_in_the_indentation_of_lines_that_stay(blank: str) -> None:
    odd = blank * 2
    text = f"if a {{\n  go();\n{odd}}}\n{odd}stop();\n}}\n"
    search = "  go();\n  }\n  stop();\n"
    expected = text.replace("go", "run")
    assert written(text, search, search.replace("go", "run")) == expected
    plain = search.replace("  ", "")
    assert written(text, plain, plain.replace("go", "run")) == expected
    text = text.replace("  ", odd)
    assert written(text, search, search.replace("go", "run")) == "<indentation_unclear>"


@given(st.sampled_from(["cat <<EOF", "cat <<-'end'", "cat << EOF", "run <<~Text"]), st.booleans())
def test_text_of_a_here_document_is_not_moved(line: str, is_closed: bool) -> None:
    word = line.split("<<")[1].strip("-~' ")
    new = [line, "  text", word] if is_closed else [line, "  text"]
    replace = "".join(f"{each}\n" for each in ["first", *new])
    text = f"f() {{\n  first\n  last\n}}\n{word}\n"
    assert written(text, "first\nlast\n", replace) == "<indentation_unclear>"


def test_characters_that_are_new_and_curly_are_written_as_sent() -> None:
    assert written('a = "b"\n', "a = “b”\n", 'a = "b"\nc = "“”"\n') == 'a = "b"\nc = "“”"\n'


@given(st.lists(st.integers(0, 3), min_size=1, max_size=6), st.data())
def test_blank_lines_that_search_left_out_are_not_written_twice(gaps: list[int], data: st.DataObject) -> None:
    """SEARCH has no blank line at all, REPLACE has those of the file and one line that is another."""
    lines = [f"value_{number} = make({number})" for number in range(len(gaps) + 1)]
    at = data.draw(st.integers(0, len(lines) - 1))
    changed = [*lines[:at], "other = 1", *lines[at + 1 :]]

    def join(each: list[str]) -> str:
        return "".join("\n" * gap + f"{line}\n" for gap, line in zip([0, *gaps], each, strict=True))

    assert written(join(lines), "".join(f"{line}\n" for line in lines), join(changed)) == join(changed)


@pytest.mark.parametrize(
    ("text", "search", "replace"),
    [
        ("def f():\n    1\n\n\ndef g():\n    2\n", "    1\ndef g():\n", "    1\n\n\ndef g(x):\n"),
        ("f()\n\ng()\n", "f()\ng()\n", "f()\n\nk()\n\ng()\n"),
        ("a = 1\n\nb = 2\n\nc = 3\n", "a = 1\nb = 2\nc = 3\n", "a = 1\n\nc = 3\n"),
    ],
)
def test_a_blank_line_above_what_comes_is_the_files(text: str, search: str, replace: str) -> None:
    expected = re.sub(r"\n+", "\n", text).replace(search, replace)
    assert written(text, search, replace) == expected


@pytest.mark.parametrize(("file", "sent"), [("NFD", "NFC"), ("NFC", "NFD")])
def test_a_changed_line_keeps_the_form_of_the_files_characters(
    file: Literal["NFC", "NFD"], sent: Literal["NFC", "NFD"]
) -> None:
    text, search, replace = "one é\ntwo\n", "one é\n", "other é\n"
    found = written(
        unicodedata.normalize(file, text),
        unicodedata.normalize(sent, search),
        unicodedata.normalize(sent, replace),
    )
    assert found == unicodedata.normalize(file, "other é\ntwo\n")


@given(
    words=st.lists(st.sampled_from(["un", "deux", "10", "%", "€", "«"]), min_size=3, max_size=6, unique=True),
    data=st.data(),
)
def test_a_changed_line_keeps_the_files_kinds_of_blanks(words: list[str], data: st.DataObject) -> None:
    """Where one word is another, or words come at an edge, it is plain which blank is which."""
    gaps = [data.draw(st.sampled_from(["\u00a0", "\u202f", "\u3000", " "])) for _ in words[1:]]
    at = data.draw(st.integers(0, len(words) - 1))
    other = [*words[:at], "sept", *words[at + 1 :]]
    before, new, after = data.draw(st.sampled_from([("", other, ""), ("et ", words, ""), ("", words, " et")]))

    def build(words: list[str], gaps: list[str]) -> str:
        return "".join(word + gap for word, gap in zip(words, [*gaps, ""], strict=True))

    line, expected = build(words, gaps), before + build(new, gaps) + after
    text = f"début\n{line}\nfin\n"
    found = written(text, " ".join(words) + "\n", before + " ".join(new) + after + "\n")
    assert found == text.replace(line, expected)


def test_a_word_between_two_kinds_of_blanks_is_not_guessed() -> None:
    assert written("10\u00a0% net\n", "10 % net\n", "10 to % net\n") == "<indentation_unclear>"


def test_a_typographic_character_that_the_file_has_elsewhere_stays() -> None:
    assert written("- a\n- d — e\n", "– a\n", "– a\n– b — c\n") == "- a\n- b — c\n- d — e\n"


# --- 3: no letter and no digit is forgiven


def letters(text: str) -> list[str]:
    """Return the letters and digits of a text, in order."""
    return [char for char in unicodedata.normalize("NFC", text) if char.isalnum()]


SIGNS = ["“", "’", "…", "\u00a0", "\t", "  ", "\u200b", "-", "–", "=", "", " ", "\n", "x", "7", "é"]


def drift(rng: random.Random, text: str) -> str:
    """Return a text with a few signs put in or taken out."""
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(text) + 1)
        text = text[:at] + rng.choice(SIGNS) + text[at + rng.randrange(3) :]
    return re.sub("^ {4}", rng.choice(["", "\t", "    ", "      "]), text, flags=re.MULTILINE)


@given(randoms)
def test_whatever_lands_has_the_letters_and_digits_of_search(rng: random.Random) -> None:
    lines = program(rng).lines
    text = "".join(f"{line}\n" for line in lines)
    first = rng.randrange(len(lines))
    search = drift(rng, "".join(f"{line}\n" for line in lines[first : first + rng.randrange(1, 6)]))
    assume(search.strip())
    found = outcome(text, Edit(search=search, replace="new\n"))
    if isinstance(found, Result):
        (match,) = found.matches
        assert letters(text[match.start : match.end]) == letters(search)


@given(randoms, st.data())
def test_another_letter_or_digit_is_refused(rng: random.Random, data: st.DataObject) -> None:
    lines = program(rng).lines
    first = rng.randrange(len(lines))
    sent = "".join(f"{line}\n" for line in lines[first : first + rng.randrange(1, 9)])
    at = data.draw(st.integers(0, len(sent) - 1))
    assume(sent[at].isalnum())
    search = sent[:at] + data.draw(st.sampled_from(["", "z", "0", sent[at] * 2])) + sent[at + 1 :]
    text = "".join(f"{line}\n" for line in lines)
    assume(search.strip() and search not in text)
    found = outcome(text, Edit(search=search, replace="new\n"))
    assert isinstance(found, EditFailure)
    assert found.code in {"near_miss", "not_found", "ambiguous"}


@pytest.mark.parametrize(
    ("text", "search", "replace", "suggested"),
    [
        (
            "def load():\n    a = open(p)\n    return a\n",
            "def laod():\n    a = open(p)\n    return a\n",
            "def laod():\n    a = open(p)\n    return None\n",
            "def load():\n    a = open(p)\n    return None\n",
        ),
        (
            "one = 1  # why\ntwo = 2\nthree = 3\n",
            "one = 1\ntwo = 2\nthree = 3\n",
            "one = 1\ntwo = 2\nthree = 4\n",
            "one = 1  # why\ntwo = 2\nthree = 4\n",
        ),
        (
            "3. third\n4. fourth\n5. fifth\n",
            "2. third\n3. fourth\n4. fifth\n",
            "2. third\n3. fourth one\n4. fifth\n",
            "3. third\n4. fourth one\n5. fifth\n",
        ),
    ],
)
def test_what_differs_in_letters_is_suggested_where_the_place_is_clear(
    text: str, search: str, replace: str, suggested: str
) -> None:
    found = outcome(text, Edit(search=search, replace=replace))
    assert isinstance(found, EditFailure)
    assert found.code == "near_miss"
    assert found.suggestion is not None
    assert accept(text, found.suggestion).text == suggested


@given(randoms, st.data())
def test_a_line_that_the_text_has_once_tells_the_place_from_a_longer_likeness(
    rng: random.Random, data: st.DataObject
) -> None:
    names = rng.sample(range(10**6), 8)
    blocks = [
        [f'"entry{name}": {{', '  "in": "token",', '  "out": "token",', '  "key": "items"', "},"]
        for name in names
    ]
    at = data.draw(st.integers(0, 7))
    sent = list(blocks[at])
    del blocks[at][data.draw(st.sampled_from([2, 3]))]
    replace = "".join(f"{line}\n" for line in [sent[0], "  added()", *sent[1:]])
    text = "".join(f"{line}\n" for block in blocks for line in block)
    found = outcome(text, Edit(search="".join(f"{line}\n" for line in sent), replace=replace))
    assert isinstance(found, EditFailure)
    if found.suggestion is not None:  # none if another place is about as much like it
        assert accept(text, found.suggestion).text == text.replace(f"{sent[0]}\n", f"{sent[0]}\n  added()\n")


@given(randoms, st.data())
def test_the_lines_that_an_edit_changes_are_found_whatever_stands_around_them(
    rng: random.Random, data: st.DataObject
) -> None:
    names = rng.sample(range(10**6), 30)
    lines = [f"call_{name}()" for name in names[:20]]
    at = data.draw(st.integers(1, 18))
    above, below = ([f"gone_{name}(with_more)" for name in part] for part in (names[20:25], names[25:]))
    changed = data.draw(st.booleans())
    kept = [lines[at]] if changed else lines[at : at + 2]
    new = ["new()"] if changed else [kept[0], "new()", kept[1]]
    search, replace = ("".join(f"{line}\n" for line in [*above, *each, *below]) for each in (kept, new))
    text = "".join(f"{line}\n" for line in lines)
    found = outcome(text, Edit(search=search, replace=replace))
    assert isinstance(found, EditFailure)
    assert found.suggestion is not None
    expected = [*lines[:at], *new, *lines[at + len(kept) :]]
    assert accept(text, found.suggestion).text == "".join(f"{line}\n" for line in expected)
    assert found.candidates[0].line == at + 1


@given(st.lists(st.sampled_from(["}", "})", "  }", "end"]), min_size=6, max_size=20))
def test_brackets_alone_tell_no_place(lines: list[str]) -> None:
    text = "".join(f"{line}\n" for line in ["first_line()", *lines, "last_line()"])
    search, replace = ("other_code(1)\n}\n" + each + "})\nsome_code(2)\n" for each in ("", "new()\n"))
    found = outcome(text, Edit(search=search, replace=replace))
    assert isinstance(found, EditFailure)
    assert found.suggestion is None


@pytest.mark.parametrize(
    ("text", "search", "replace", "suggested"),
    [
        pytest.param(
            'say("a")\nstop("b")\n',
            'say(\\"a\\")\\nstop(\\"b\\")',
            'say(\\"a\\")\\nstop(\\"c\\")',
            'say("a")\nstop("c")\n',
            id="escaped line ends and quotes",
        ),
        pytest.param(
            "user_list:\n  input: the token\n  limit: 1\n"
            "events:\n  input: the token\n  output: the token\n  limit: 1\n",
            "user_list:\n  input: the token\n  output: the token\n  limit: 1\n",
            "user_list:\n  added: 1\n  input: the token\n  output: the token\n  limit: 1\n",
            "user_list:\n  added: 1\n  input: the token\n  limit: 1\n"
            "events:\n  input: the token\n  output: the token\n  limit: 1\n",
            id="the place with a line that the text has once",
        ),
        pytest.param(
            "a_first()\nb_second()\n" + "other()\n" * 9 + "y_third()\nz_fourth()\n",
            "a_first()\nb_second()\n# ... existing code ...\ny_third()\nz_fourth()\n",
            "a_new()\nb_second()\n# ... existing code ...\ny_third()\nz_fourth()\n",
            "a_new()\nb_second()\n" + "other()\n" * 9 + "y_third()\nz_fourth()\n",
            id="lines left out",
        ),
        pytest.param(
            "proxy_nmae = find()\nreturn proxy_nmae\n",
            "proxy_name = find()\n",
            "renewed_name = find()\n",
            "renewed_nmae = find()\nreturn proxy_nmae\n",
            id="both changed parts of one word",
        ),
        pytest.param(
            "\nvar http = require('http')\nvar express = require('..')\n",
            "\nvar assert = require('assert')\nvar express = require('..')\n",
            "'use strict'\n\nvar assert = require('assert')\nvar express = require('..')\n",
            "'use strict'\n\nvar http = require('http')\nvar express = require('..')\n",
            id="above a blank line",
        ),
        pytest.param(
            "  @Override public int one() {\n    return a ? b : c;\n  }\n",
            "  @Override\n  public int one() {\n    return a ? b : c;\n  }\n",
            "  @Override\n  public int one() {\n    if (a) {\n      return b;\n    }\n    return c;\n  }\n",
            "  @Override public int one() {\n    if (a) {\n      return b;\n    }\n    return c;\n  }\n",
            id="another layout, but not of the lines that change",
        ),
        pytest.param(
            "steps:\n  - ps: |\n      node --version\n      npm --version\n  - npm run test\nlast: 1\n",
            "  - node --version\n  - npm --version\n  - npm run test\nlast: 1\n",
            "  - node --version\n  - npm --version\n  - npm run test\n  - npm run lint\nlast: 1\n",
            "steps:\n  - ps: |\n      node --version\n      npm --version\n"
            "  - npm run test\n  - npm run lint\nlast: 1\n",
            id="lines below one that has its indentation",
        ),
    ],
)
def test_the_edit_is_suggested_at_the_place_that_is_meant(
    text: str, search: str, replace: str, suggested: str
) -> None:
    found = outcome(text, Edit(search=search, replace=replace))
    assert isinstance(found, EditFailure)
    assert found.suggestion is not None
    assert accept(text, found.suggestion).text == suggested


@pytest.mark.parametrize(
    ("text", "search", "replace"),
    [
        (
            "first(1)\nchanged(2)\nthird_a(3)\nother()\nfirst_a(1)\nchanged(2)\nthird(3)\n",
            "first(1)\nchanged(2)\nthird(3)\n",
            "first(1)\nchanged(4)\nthird(3)\n",
        ),
        (
            "before()\n# call_it(1, 2)\n# stop_it(3)\nafter()\n",
            "call_it(1, 2)\nstop_it(3)\n",
            "call_it(1, 3)\nstop_it(3)\n",
        ),
        ("x\ncall(abc, def)\ny\n", "x\ncall(abc)\ny\n", "x\ncall()\ny\n"),
        ("x\ny = [a,\n]\n", "x\ny = [a]\n", "x\ny = []\n"),
        ("x\ny = [\n  a,\n]\n", "x\ny = [a]\n", "x\ny = []\n"),
    ],
    ids=[
        "two places that each lack a line",
        "a line that is commented out",
        "a comma with nothing before it",
        "a comma with nothing before it, in another layout",
        "a bracket that is closed twice",
    ],
)
def test_nothing_is_suggested_where_what_is_meant_may_not_be_there(
    text: str, search: str, replace: str
) -> None:
    found = outcome(text, Edit(search=search, replace=replace))
    assert isinstance(found, EditFailure)
    assert found.suggestion is None


def test_lines_to_take_off_that_still_stand_there_are_not_gone() -> None:
    text = "def f():\n    if ready:\n        first_step()\n        second_step()\n"
    search = "def f():\n  if ready:\n    first_step()\n    second_step()\n"
    found = outcome(text, Edit(search=search, replace=search.removeprefix("def f():\n")))
    assert isinstance(found, EditFailure)
    assert found.code == "near_miss"
    assert found.suggestion is not None


@pytest.mark.parametrize(
    ("search", "replace", "expected"),
    [
        ("2 | b\n3 | c\n", "2 | x\n3 | c\n", "a\nx\nc\n"),
        ("2: b\n", "x\n", "a\nx\nc\n"),
        ("     2\tb\n     3\tc\n", "     2\tx\n     3\tc\n", "a\nx\nc\n"),
        ("2\tb\n3\tc\n", "2\tx\n3\tc\n", "a\nx\nc\n"),
        # numbers that are not the file's own
        ("1 | b\n2 | c\n", "1 | x\n2 | c\n", None),
        ("7: b\n", "x\n", None),
        ("2 | b\n4 | c\n", "x\nc\n", None),
    ],
)
def test_only_the_files_own_line_numbers_are_taken_off(
    search: str, replace: str, expected: str | None
) -> None:
    found = outcome("a\nb\nc\n", Edit(search=search, replace=replace))
    assert (found.text if isinstance(found, Result) else None) == expected


@given(st.integers(1, 200), st.sampled_from(["", "    ", "\t"]), st.sampled_from([" | ", "→", ": ", "\t"]))
def test_new_lines_with_blanks_for_a_line_number_are_refused(number: int, indent: str, mark: str) -> None:
    """They are at the column that the line has behind its number, or much deeper: nothing tells which."""
    text = "other\n" * (number - 1) + f"{indent}old(1)\n"
    search = f"{number}{mark}{indent}old(1)\n"
    replace = " " * len(f"{number}{mark}") + f"{indent}new(1)\n"
    assert written(text, search, replace) in {"<near_miss>", "<indentation_unclear>"}
    assert written(text, search, f"{indent}new(1)\n") == "other\n" * (number - 1) + f"{indent}new(1)\n"


def test_line_numbers_pick_one_of_equal_lines() -> None:
    assert written("a\nb\na\nc\n", "3 | a\n", "3 | x\n") == "a\nb\nx\nc\n"


def test_numbers_that_the_text_has_are_text() -> None:
    assert written("1: a\n2: b\n", "2: b\n", "2: c\n") == "1: a\n2: c\n"
    assert written("2: b\n1: a\n", "1: b\n", "1: c\n") in {"<near_miss>", "<not_found>"}


# --- 4: what is there already is not applied again


@given(randoms, st.booleans())
def test_an_edit_that_adds_lines_does_not_land_twice_unseen(rng: random.Random, above: bool) -> None:
    case = program(rng)
    at = rng.randrange(len(case.lines))
    line = case.lines[at]
    assume(line and case.text.count(f"{line}\n") == 1 and not line.endswith(":"))
    new = f"{line[: len(line) - len(line.lstrip())]}added_line_{rng.randrange(10**9)}()"
    replace = f"{new}\n{line}\n" if above else f"{line}\n{new}\n"
    edit = Edit(search=f"{line}\n", replace=replace)
    first = apply(case.text, [edit])
    assert not first.matches[0].repeats
    again = outcome(first.text, edit)
    assert again.matches[0].repeats if isinstance(again, Result) else again.code == "already_applied"
    elsewhere = "".join(f"  {each}\n" for each in replace.splitlines())
    drifted = outcome(first.text, Edit(search=f"  {line}\n", replace=elsewhere))
    assert isinstance(drifted, EditFailure)
    assert drifted.code == "already_applied"


@given(randoms, st.sampled_from(["blanks", "depth"]), st.booleans())
def test_a_look_alike_of_search_is_left_where_replace_stands_elsewhere(
    rng: random.Random, drift: str, below: bool
) -> None:
    case = program(rng)
    number = rng.randrange(10**9)
    search, replace = (f"    call_of({number}, {word})\n" for word in ("former", "latter"))
    twin = search.replace(", ", ",  ") if drift == "blanks" else f"  {search}"
    text = f"{replace}{case.text}{twin}" if below else f"{twin}{case.text}{replace}"
    found = outcome(text, Edit(search=search, replace=replace, whole_lines=True))
    assert isinstance(found, EditFailure)
    assert found.code == "already_applied"
    assert found.line == text[: text.index(f"\n{replace}") + 1 if not below else 0].count("\n") + 1
    assert found.suggestion is not None
    alone = outcome(text.replace(replace, ""), Edit(search=search, replace=replace, whole_lines=True))
    assert isinstance(alone, Result)


def test_what_wraps_search_already_is_not_wrapped_again() -> None:
    text = "try:\n    a = compute(1)\n    b = compute(2)\nexcept ValueError:\n    pass\n"
    search = "a = compute(1)\nb = compute(2)\n"
    assert written(text, search, text) == "<already_applied>"
    deeper = "".join(f"    {line}\n" for line in text.splitlines())
    assert written(f"def f():\n{deeper}", search, text) == "<already_applied>"


# --- 5: with ``all``, whole occurrences


@given(
    st.lists(
        st.sampled_from(["count", "counts", "my_count", "a", " ", "\n", "(", "7", "é"]), max_size=20
    ).map("".join),
    st.sampled_from(["count", "a", "(", " count", "count(", "7"]),
)
@example("count counts", "count")
def test_all_leaves_what_cuts_a_word(text: str, search: str) -> None:
    whole = (r"(?<!\w)" if search[0].isalnum() else "") + re.escape(search)
    whole += r"(?!\w)" if search[-1].isalnum() else ""
    expected, count = re.subn(whole, "new", text)
    found = outcome(text, Edit(search=search, replace="new", all=True))
    if count:
        assert isinstance(found, Result)
        assert found.text == expected
        assert len(found.matches) == count
    else:
        assert isinstance(found, EditFailure) or found.matches[0].forgiven


@given(
    rows=st.lists(st.text(alphabet="-= a", max_size=7), min_size=1, max_size=4),
    search=st.sampled_from(["--", "---", "=="]),
)
def test_all_leaves_a_row_of_signs_that_is_a_part_of_a_longer_one(rows: list[str], search: str) -> None:
    text = "\n".join(rows)
    sign = re.escape(search[0])
    expected, count = re.subn(rf"(?<!{sign}){re.escape(search)}(?!{sign})", "new", text)
    found = outcome(text, Edit(search=search, replace="new", all=True))
    if count:
        assert isinstance(found, Result)
        assert found.text == expected
    else:
        assert isinstance(found, EditFailure)


def test_places_that_all_left_are_told() -> None:
    found = apply("counts = 1\ncount = 2\nmy_count = 3\n", [Edit(search="count", replace="sum", all=True)])
    assert found.text == "counts = 1\nsum = 2\nmy_count = 3\n"
    assert found.matches[0].left == (1, 3)


# --- 6: a line never outweighs the text


@given(st.lists(st.booleans(), min_size=1, max_size=12), st.integers(-1, 14))
def test_a_line_decides_only_if_it_names_one_of_the_equal_places(there: list[bool], line: int) -> None:
    lines = ["same()" if one else f"other_{nth}()" for nth, one in enumerate(there)]
    text = "".join(f"{each}\n" for each in lines)
    found = outcome(text, Edit(search="same()\n", replace="new()\n", line=line))
    if sum(there) == 0:
        assert isinstance(found, EditFailure)
    elif sum(there) == 1:
        assert isinstance(found, Result)
        assert found.text == text.replace("same()", "new()")
    elif 1 <= line <= len(there) and there[line - 1]:
        assert isinstance(found, Result)
        lines[line - 1] = "new()"
        assert found.text == "".join(f"{each}\n" for each in lines)
    else:
        assert isinstance(found, EditFailure)
        assert found.code == "ambiguous"


def test_a_line_with_two_equal_places_decides_nothing() -> None:
    assert written("a a\na\n", "a", "b", line=1) == "<ambiguous>"


# --- 7: placeholders are judged by what would be lost

CODE = "def f(x):\n    first = load(x)\n    second = mend(first)\n    third = second + 1\n    return third\n"


@pytest.mark.parametrize(
    "line",
    [
        "⋮",
        "...",
        "# ...",
        "# rest unchanged",
        "// rest unchanged",
        "# see original",
        "# 나머지 코드는 그대로",
        "# 기존 코드 유지",
        "# остальное без изменений",
        "// остальной код",
        "# der Rest bleibt gleich",
        "// wie bisher",
        "# le reste est inchangé",
        "# le reste ne change pas",
        "// phần còn lại không đổi",
        "// identical to before",
        "# continues as above",
        "# leave as is",
        "# no changes below",
        "# copy the rest from above",
        "<!-- more code -->",
        "# resto del código igual",
        "# 以下省略",
        "// 其余代码不变",
        "# باقي الكود كما هو",
        "/* same as before */",
        "-- omitted",
        "<!-- existing markup -->",
        "pass  # as above",
        "# (body as in the file)",
        "# ✂",
    ],
)
def test_a_comment_that_stands_for_code_is_refused_in_any_language(line: str) -> None:
    replace = f"def f(x, y):\n    {line}\n    return third\n"
    found = outcome(CODE, Edit(search=CODE, replace=replace))
    assert isinstance(found, EditFailure)
    assert found.code == "placeholder"
    assert found.suggestion is not None
    assert found.suggestion.is_loss
    assert accept(CODE, found.suggestion).text == replace


@given(st.integers(3, 9), st.data())
def test_a_placeholder_is_refused_with_the_lines_that_it_stands_for(count: int, data: st.DataObject) -> None:
    old = [f"    call_{nth}(value)" for nth in range(count)]
    low = data.draw(st.integers(1, count - 2))  # the line above the first one changes
    high = data.draw(st.integers(low + 2, count))
    new = [*old[:low], "    # ... existing code ...", *old[high:]]
    text, replace = ("".join(f"{line}\n" for line in ["def f(value):", *each]) for each in (old, new))
    found = outcome(
        "x = 1\n" + text, Edit(search=text, replace=replace.replace("f(value):", "f(value, other):"))
    )
    assert isinstance(found, EditFailure)
    assert found.code == "placeholder"
    (shown,) = found.candidates
    assert (shown.line, shown.text.split("\n")) == (low + 3, old[low:high])


@pytest.mark.parametrize("line", ["# before", "# above the fold", "# before the loop", "# more code here"])
def test_a_comment_that_says_where_it_stands_is_written(line: str) -> None:
    assert written("load()\ncheck()\n", "load()\ncheck()\n", f"{line}\nrun()\n") == f"{line}\nrun()\n"


def test_lines_that_cannot_be_shown_whole_are_not_shown_for_a_placeholder() -> None:
    lines = "".join(f"    call_{nth}({'x' * 300})\n" for nth in range(3))
    edit = Edit(search=f"def f():\n{lines}", replace="def f(x):\n    # ... existing code ...\n")
    found = outcome(f"def f():\n{lines}", edit)
    assert isinstance(found, EditFailure)
    assert (found.code, found.candidates) == ("placeholder", ())


comments = st.sampled_from(["# why it is so", "# TODO: the rest", "# existing users stay", "# 残りの日数"])


@given(randoms, comments)
def test_a_comment_that_comes_beside_code_that_stays_lands(rng: random.Random, comment: str) -> None:
    lines = program(rng).lines
    at = rng.randrange(len(lines))
    indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
    search = "".join(f"{line}\n" for line in lines)
    replace = "".join(f"{line}\n" for line in [*lines[:at], f"{indent}{comment}", *lines[at:]])
    assert written(search, search, replace) == replace


@pytest.mark.parametrize(
    ("search", "replace"),
    [
        ("a = 1\nb = 2\n", "# both at once\na, b = 1, 2\n"),
        ("a = 1\n", "# a = 1\n"),
        ("x = old(1)\ny = old(2)\n", "# the new way\nx = new(1)\ny = new(2)\n"),
        ("class A:\n    x: int\n", "class A:\n    x: int\n\n    def f(self):\n        ...\n"),
        ("def f():\n    pass\n", "def f(x):\n    ...\n"),
        ("call(a,\n     b)\n", "(rest, existing)\n"),
        ("one()\ntwo()\nthree()\n", "[...previous, item]\n"),
    ],
)
def test_honest_comments_and_code_with_dots_land(search: str, replace: str) -> None:
    assert written(search, search, replace) == replace


# --- 2: new lines may have lost blanks as well


@given(randoms, st.data())
def test_new_lines_that_may_have_lost_their_blanks_with_the_first_are_refused(
    rng: random.Random, data: st.DataObject
) -> None:
    lines = program(rng).lines
    at = data.draw(st.integers(0, len(lines) - 2))
    first, second = lines[at : at + 2]
    assume(first.startswith(" ") and second.startswith(" "))
    new = data.draw(st.sampled_from(["new()", "if new():\n  go()"]))
    text, bare = "".join(f"{line}\n" for line in lines), first.lstrip()
    assume(f"\n{bare}\n{second}\n" not in text)
    edit = {"search": f"{bare}\n{second}\n", "replace": f"{bare}\n{new}\n{second}\n", "whole_lines": True}
    assert written(text, **edit) in {"<indentation_unclear>", "<near_miss>"}  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("text", "search", "replace", "expected"),
    [
        # the others at the depth at which the first one was sent
        (
            "t(\n    a\n);\n\nu(\n    b\n",
            "  a\n);\n\nu(\n",
            "  a\n);\n\nv(\n  c\n);\n\nu(\n",
            "<indentation_unclear>",
        ),
        # a line of SEARCH is as deep
        ("f:\n    a\n  c\n", "a\n  c\n", "a\n  b\n  c\n", "f:\n    a\n  b\n  c\n"),
        # new lines above have their blanks, SEARCH has not
        ("f(\n  a,\n  c,\n)\n", " c,\n)\n", "  b,\n c,\n)\n", "f(\n  a,\n  b,\n  c,\n)\n"),
        ("f()\n      a = 1\n", "     a = 1\n", "      b = 2\n     a = 1\n", "<indentation_unclear>"),
        # all of SEARCH lost them, and the new line may have them
        ("x = [\n    a,\n    # b\n    d,\n", "a,\n# b\n", "a,\n# b\n    c,\n", "<indentation_unclear>"),
        ("f:\n    if a:\n    d\n", "if a:\n", "if a:\n    c\n", "f:\n    if a:\n        c\n    d\n"),
    ],
)
def test_new_lines_below_one_that_lost_blanks(text: str, search: str, replace: str, expected: str) -> None:
    assert written(text, search, replace, whole_lines=True) == expected


# --- 8: a SEARCH of whole lines that ends inside a line is stale


@pytest.mark.parametrize(
    ("text", "search", "replace"),
    [
        ("return {\n  cmd = { 'x' },\n}\n", "cmd = { 'x' },\n", "cmd = function(d)\n  local c = 1\nend,\n"),
        ("f {\n    one()\n}\n", "one()\n", "one()\n    two()\n"),
        ("f {\n    one()\n}\n", "one()\n", "zero()\n    one()\n"),
        ("f {\n    one()\n}\n", "one()\n", "if (b) {\n    one()\n}\n"),
        ("a:\n  - x\n  - z\n", "- x\n", "- x\n  - y\n"),
    ],
)
def test_one_line_of_a_block_without_its_indentation_is_read_as_a_fragment_is(
    text: str, search: str, replace: str
) -> None:
    edit = Edit(search=search, replace=replace, whole_lines=True)
    assert apply(text, [edit]).text == written(text, search, replace)


@given(randoms, st.data())
def test_a_block_that_ends_inside_a_line_is_refused(rng: random.Random, data: st.DataObject) -> None:
    lines = program(rng).lines
    first = rng.randrange(len(lines))
    last = min(first + rng.randrange(1, 5), len(lines) - 1)
    sent = "\n".join(lines[first : last + 1])
    cut = data.draw(st.integers(1, max(len(lines[last].lstrip()) - 1, 1)))
    search = sent[:-cut].rstrip()
    text = "".join(f"{line}\n" for line in lines)
    assume(lines[first] and lines[last].strip() and len(search) > len(sent) - len(lines[last].lstrip()))
    assume(f"{search}\n" not in text)
    found = outcome(text, Edit(search=search, replace="new()", whole_lines=True))
    assert isinstance(found, EditFailure)
    assert found.code in {"near_miss", "not_found"}


STALE = "def f():\n    return a + b\n"


@pytest.mark.parametrize(
    "reply",
    [
        "<<<<<<< SEARCH\ndef f():\n    return a\n=======\ndef f():\n    return c\n>>>>>>> REPLACE\n",
        "--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n def f():\n-    return a\n+    return c\n",
        "*** Begin Patch\n*** Update File: x.py\n@@\n def f():\n-    return a\n+    return c\n"
        "*** End Patch\n",
    ],
)
def test_a_format_of_lines_never_cuts_a_line(reply: str) -> None:
    with pytest.raises(EditError) as refused:
        apply(STALE, parse(reply))
    assert refused.value.failures[0].code == "near_miss"


def test_a_quote_may_end_inside_a_line() -> None:
    search, replace = "def f():\n    return a", "def f():\n    return c"
    assert written(STALE, search, replace) == "def f():\n    return c + b\n"


# --- 9: any input ends in an answer

ODD = ["a", "b = 1", "\r\n", "\r", "\n", "\u2028", "\u0085", "\x00", "\ud800", "\udc80", "\ufeff", "    "]
MARKS = ["\t", "...", "# ...", "1: ", "```", "“", "😀", "e\u0301", "\x0b"]
odd = st.lists(st.sampled_from([*ODD, *MARKS]), max_size=12).map("".join)


@given(odd, st.lists(st.tuples(odd, odd, st.booleans()), max_size=3))
@example("a\r\nb", [("a\r", "x", False)])
@example("a\r\nb", [("\nb", "x", False)])
@example("\u2028", [("\u2028", "", True)])
@example("\ud800a", [("a", "\udc00", False)])
@example("", [("3:", "", False)])
@example("\nV=", [("\nV=_", " \n", False)])
@example("\nif", [("\rifs\n", " \n\n", False)])
def test_any_text_and_edit_is_answered(text: str, edits: list[tuple[str, str, bool]]) -> None:
    asked = [{"search": search, "replace": replace, "all": every} for search, replace, every in edits]
    answer = json.loads(answer_line(json.dumps({"id": 1, "text": text, "edits": asked})))
    assert answer["id"] == 1
    assert answer["ok"] or all(failure["code"] for failure in answer["failures"])


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "replace")))
@example(b'{"text": "a", "edits": [{"search": "a", "replace": "\\ud800"}]}')
@example(b'{"text": "a", "reply": "\\u2028<<<<<<< SEARCH"}')
def test_any_bytes_are_answered(line: bytes) -> None:
    answer = json.loads(answer_line(line.decode("utf-8", "surrogateescape")))
    assert isinstance(answer["ok"], bool)


@given(odd, odd)
def test_any_reply_is_answered(text: str, reply: str) -> None:
    marked = f"<<<<<<< SEARCH\n{reply}\n=======\n{reply}x\n>>>>>>> REPLACE\n"
    for each in (reply, marked):
        answer = json.loads(answer_line(json.dumps({"text": text, "reply": each})))
        assert isinstance(answer["ok"], bool)


@pytest.mark.slow
@pytest.mark.parametrize("line", ["", "x", "    x = 1", "}"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_hundred_thousand_equal_lines_are_answered(line: str, end: str) -> None:
    text = (line + end) * 100_000
    for search in (f"{line}\n", f"{line}{end}" * 500, f"  {line}\n" * 50_000, f"{line}\ny\n", f"{line}z"):
        with little_work(60):
            found = outcome(text, Edit(search=search, replace="y\n"))
        assert isinstance(found, Result | EditFailure)


@pytest.mark.slow
def test_ten_thousand_edits_of_a_batch_are_answered() -> None:
    text = "".join(f"name_{nth} = {nth}\n" for nth in range(10_000))
    edits = [Edit(search=f" name_{nth} = {nth}\n", replace=f" new_{nth}\n") for nth in range(10_000)]
    with little_work(60):
        found = apply(text, edits, partial=True)
    assert len(found.matches) + len(found.failures) == 10_000
    assert all(failure.code == "too_much" for failure in found.failures)


@pytest.mark.slow
def test_the_fuzzer_finds_nothing_in_some_seconds() -> None:
    program = str(Path(__file__).with_name("fuzz.py"))
    done = subprocess.run([sys.executable, program, "4", "7"], capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def test_a_list_whose_numbers_run_on_after_a_deletion_is_no_copy_with_line_numbers() -> None:
    text = "416\tRange\n417\tFailed\n418\tTeapot\n"
    search = "417\tFailed\n418\tTeapot\n418\tTeapot\n"
    assert apply(search, [Edit(search=search, replace="417\tFailed\n418\tTeapot\n")]).text == text[10:]
    text = "416\tRange\n418\tTeapot\n417\tFailed\n"
    assert (
        apply(text, [Edit(search=text, replace="416\tRange\n417\tFailed\n")]).text
        == "416\tRange\n417\tFailed\n"
    )


@pytest.mark.parametrize(
    ("text", "search", "replace", "wanted"),
    [
        ("- uses: a-b@1\n", "– uses: a-b@1\n", "– uses: a-b@2\n", "- uses: a-b@2\n"),
        ('x = "a"\n', "x = “a“\n", "x = “b”\n", 'x = "b"\n'),
        ("# don't\nx = 1\n", "# don’t\nx = 1\n", "# don’t\nx = ‘2’\n", "# don't\nx = '2'\n"),
        ("say(“a”)\n", 'say("a")\n', "say(“b”)\n", "say(“b”)\n"),
        ("a – b\n", "a - b\n", "a - c\n", "a – c\n"),
    ],
)
def test_all_look_alikes_of_a_group_become_the_one_that_the_file_has(
    text: str, search: str, replace: str, wanted: str
) -> None:
    found = outcome(text, Edit(search=search, replace=replace))
    assert isinstance(found, Result)
    assert found.text == wanted


def test_curly_quotes_of_a_kind_that_search_shows_nothing_of_are_refused_beside_drifted_ones() -> None:
    found = outcome('x = "1"\n', Edit(search="x = “1”\n", replace="x = ‘2’\n"))
    assert isinstance(found, EditFailure)
    assert found.code == "indentation_unclear"


@given(
    st.sampled_from("-\"'"),
    st.sampled_from(["a", "b-c", "1", "x_y"]),
    st.data(),
)
def test_new_lines_never_mix_a_look_alike_into_a_file_that_has_one_character(
    plain: str, word: str, data: st.DataObject
) -> None:
    alikes = {"-": "‐‑‒–—−", '"': "“”„‟", "'": "‘’‚‛"}[plain]
    text = f"{plain}{word} {plain}\n"
    search, new = (
        f"{data.draw(st.sampled_from(alikes))}{word} {data.draw(st.sampled_from(alikes + plain))}\n"
        for _ in range(2)
    )
    found = outcome(text, Edit(search=search, replace=new.replace(word, word + "2")))
    assert isinstance(found, EditFailure) or found.text == text.replace(word, word + "2") or plain in new


@pytest.mark.parametrize(
    ("text", "search"),
    [
        ("x = split(s, '\t')\n", "x = split(s, ' ')\n"),
        ("IFS='\t'\n", "IFS=' '\n"),
        ("if (/a\tb/) go()\n", "if (/a b/) go()\n"),
        ("/a  b/\n", "/a b/\n"),
        ("/a\tb/\n", "/a b/\n"),
        ("a::b()\n", "a: :b()\n"),
        ("x := 1\n", "x : = 1\n"),
        ("  a;;\n", "  a; ;\n"),
        ("if a != b:\n", "if a ！= b:\n"),
        ("a ?? b\n", "a ？? b\n"),
    ],
)
def test_blanks_in_literals_and_parts_of_operators_are_not_forgiven(text: str, search: str) -> None:
    for file, sent in ((text, search), (search, text)):
        found = outcome(file, Edit(search=sent, replace="y = 1\n"))
        assert isinstance(found, EditFailure)
        assert found.code in {"near_miss", "not_found"}


@given(st.lists(st.lists(st.integers(0, 99), min_size=3, max_size=3), min_size=1, max_size=4), st.data())
def test_a_changed_row_keeps_its_tabs_or_is_refused_with_them_in_the_suggestion(
    rows: list[list[int]], data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(rows) - 1))
    changed = [*rows[:at], [*rows[at][:2], 100], *rows[at + 1 :]]
    text, wanted, search, replace = (
        "".join(between.join(map(str, row)) + "\n" for row in table)
        for between, table in (("\t", rows), ("\t", changed), (" ", rows), (" ", changed))
    )
    found = outcome("a\tb\n" + text, Edit(search=search, replace=replace))
    assert isinstance(found, EditFailure)
    assert found.code == "indentation_unclear"
    assert found.suggestion is not None
    assert accept("a\tb\n" + text, found.suggestion).text == "a\tb\n" + wanted


def test_a_row_with_tabs_that_stays_or_goes_is_no_reason_to_refuse() -> None:
    text = "a\tb\n1\t2\nc = 1\n"
    found = outcome(text, Edit(search="a b\n1 2\nc = 1\n", replace="a b\nc = 1\nd = 2\n"))
    assert isinstance(found, Result)
    assert found.text == "a\tb\nc = 1\nd = 2\n"


@pytest.mark.parametrize("mark", ["|", ": ", ":", " | ", "| ", "→", "\t", "│"])
@pytest.mark.parametrize("indent", ["", " ", "    ", "     "])
@pytest.mark.parametrize("numbered", [True, False])
def test_a_blank_behind_the_mark_of_a_line_number_is_the_lines_where_the_file_says_so(
    mark: str, indent: str, numbered: bool
) -> None:
    old, new = f"{indent}a = 1\n", f"{indent}a = 2\n{indent}    b = 3\n"
    lines = [f"{2 + at}{mark}{line}" for at, line in enumerate(new.splitlines(keepends=True))]
    found = outcome(
        f"first\n{old}", Edit(search=f"2{mark}{old}", replace="".join(lines) if numbered else new)
    )
    assert isinstance(found, Result)
    assert found.text == f"first\n{new}"


def test_new_lines_keep_their_depth_behind_marks_without_a_blank() -> None:
    text = "a\n" * 17 + "x\ny\n"
    found = outcome(text, Edit(search="18|x\n19|y", replace="18|x\n19|y\n20|    z"))
    assert isinstance(found, Result)
    assert found.text == text + "    z\n"
