"""Inputs made to be slow end within a budget of work, with a clear answer.

Each of them took minutes, or for ever, with a careless way of searching; here each gets one bounded wait.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, ClassVar, SupportsIndex

import pytest
from tests.bounds import little_work

from kakite.edit import Edit, EditError, FormatError, Parser, apply, parse, unified_diff
from kakite.edit.matching.chain import LocatedMatch, find_match
from kakite.edit.matching.location import TextBlock
from kakite.edit.matching.text_search import TextSearcher
from kakite.edit.text_index import IndexedText, Lines
from kakite.edit.types import MatchOptions
from kakite.edit.work_budget import PER_PLACE, WorkBudget

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence


@pytest.fixture(autouse=True)
def bound() -> Generator[None]:
    """Let no test here take minutes: what grows faster than its input would."""
    with little_work(60):
        yield


TINY = "a\n" * 100_000
BRACES = "{\n}\n" * 30_000
LONG_LINE = "abcdefghij " * 300_000
NEAR = "".join(f"    value_{n % 50} = compute(value_{n % 50}, {n % 7})\n" for n in range(20_000))


def outcome(text: str, *edits: Edit) -> str:
    """Return the level of the first match, or the code of the first failure."""
    try:
        return apply(text, edits).matches[0].level
    except EditError as refused:
        return refused.failures[0].code


@pytest.mark.parametrize(
    ("text", "search", "line", "expected"),
    [
        pytest.param("x = 1\n" * 50_000, "  x = 1\n" * 2, None, "ambiguous", id="all lines equal"),
        pytest.param(TINY, "a\n" * 50_000, None, "ambiguous", id="half of a file of equal tiny lines"),
        pytest.param(TINY, "  a\n" * 50_000, None, "ambiguous", id="the same, indented"),
        pytest.param(TINY, "a\n" * 10_000 + "b\n", None, "not_found", id="10 000 tiny lines and another"),
        pytest.param(
            TINY * 5, "a\n" * 50_000 + "b\n" + "a\n" * 50_000, 499_000, "not_found", id="searched backwards"
        ),
        pytest.param("a" * 1_000_000, "a" * 500_000, None, "ambiguous", id="one word of 1 MB"),
        pytest.param(LONG_LINE, "abcdefghij  abcdefghij", None, None, id="one long line, drifted"),
        pytest.param(LONG_LINE, "abcdefghik " * 500, None, "not_found", id="one long line, absent"),
        pytest.param(LONG_LINE * 3, "abcdefghij " * 900_001, None, "not_found", id="one line of 10 MB"),
        pytest.param(BRACES, "  {\n  }\n" * 100, None, None, id="a file of braces"),
        pytest.param("x" + " " * 3_000_000 + "y\n", "x" + " " * 3_000_000 + "z", None, None, id="blanks"),
        pytest.param((" " * 1000 + "\n") * 3000, "\n" * 3000 + "x", None, "not_found", id="blank lines"),
        pytest.param(NEAR, NEAR[:200_000].replace("compute", "copmute"), None, None, id="near everywhere"),
        pytest.param("\"' " * 100_000, "'\" " * 3000, None, None, id="quotes and blanks"),
        pytest.param("e\u0301" * 300_000, "\u00e9" * 500 + "x", None, "not_found", id="combining marks"),
    ],
)
def test_an_input_made_to_be_slow_ends(
    text: str, search: str, line: int | None, expected: str | None
) -> None:
    found = outcome(text, Edit(search=search, replace="replaced()\n", line=line))
    assert found == expected if expected else found in {"near_miss", "not_found", "too_much"}


@pytest.mark.slow
@pytest.mark.parametrize("end", ["", "\r\n"])
def test_every_hit_of_a_long_line_is_replaced_in_linear_time(end: str) -> None:
    text = f"first{end}" + "ab ab " * 20_000
    result = apply(text, [Edit(search="ab ", replace="c ", all=True)])
    cut = "" if end else "ab "  # the first one is a part of a word then
    assert result.text == f"first{end}{cut}" + text[len(f"first{end}{cut}") :].replace("ab ", "c ")


def test_rewriting_many_lines_takes_linear_time() -> None:
    count = 150_000
    text = "".join(f"{n} \n" for n in range(count))
    result = apply(text, [Edit(search=text.replace(" ", ""), replace="a\n" * count)])
    assert result.text == "a\n" * count


def test_wrapping_half_of_a_file_takes_linear_time() -> None:
    text = "".join(f"    v{n}\n" for n in range(80_000))
    half = [f"v{n}\n" for n in range(40_000)]
    edit = Edit(search="".join(half), replace="if x:\n" + "".join(f"    {line}" for line in half))
    assert apply(text, [edit]).text.count("\n        v") == 40_000


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(" " * 3_000_000 + "x", id="blanks"),
        pytest.param("[" + " " * 3_000_000 + "x", id="blanks in a bracket"),
        pytest.param("x" * 3_000_000, id="one line"),
        pytest.param("\n" * 300_000, id="blank lines"),
    ],
)
def test_a_reply_without_edits_is_read_in_linear_time_while_it_streams(reply: str) -> None:
    parser = Parser()
    for at in range(0, len(reply), 50):
        assert parser.feed(reply[at : at + 50]) == []
    with pytest.raises(FormatError) as refused:
        parser.close()
    assert refused.value.code in {"no_edits", "marker_sequence"}


@pytest.mark.slow
def test_replacing_what_touches_takes_linear_time() -> None:
    assert apply("+" * 50_000, [Edit(search="+", replace="bc", all=True)]).text == "bc" * 50_000


@pytest.mark.slow
def test_a_thousand_edits_of_one_batch_end() -> None:
    lines = [f"name_{n} = {n}" for n in range(20_000)]
    edits = [Edit(search=f"  name_{n} = {n}\n", replace=f"new_{n}\n") for n in range(0, 20_000, 20)]
    result = apply("\n".join(lines) + "\n", edits)
    assert len(result.matches) == 1000
    absent = (Edit(search=f"no_{n}()", replace="y") for n in range(1000))
    assert outcome("\n".join(lines), *absent) == "not_found"


def test_a_hint_costs_nothing_that_one_place_does_not_need() -> None:
    assert apply("b\na\nb\n" * 2 + "once\n", [Edit(search="once", replace="x", line=1)]).matches[0].line == 7


@pytest.mark.parametrize("text", ["x = 3\n4 apples\n", "x = 3\r\n4 apples\r\n", "row 1.\n4 apples\n"])
def test_a_number_below_a_line_that_ends_with_one_is_not_cut(text: str) -> None:
    assert apply(text, [Edit(search="4 apples", replace="5 pears")]).matches[0].level == "exact"


def test_an_answer_does_not_depend_on_the_seed_of_hashes() -> None:
    program = """if True:
        from kakite.edit import Edit, EditError, FormatError, Parser, apply
        text = "        read until the end\\n        of the chunk.\\n"
        search = "      \\xa0 read until the end\\n        of the chunk."
        try:
            print(apply(text, [Edit(search=search, replace="        read all\\n        ...x")]).text)
        except EditError as refused:
            print(refused.failures[0].code)
    """
    answers = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in range(8)
    }
    assert len(answers) == 1


def test_applying_edits_loads_no_more_than_it_needs() -> None:
    program = "import sys; from kakite.edit import Edit, apply; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, timeout=60, encoding="utf-8"
    ).stdout.split()
    assert "kakite.edit.edit_batch" in loaded
    for late in ("kakite.edit.formats.parser", "kakite.edit.multi_file", "rapidfuzz", "difflib", "json"):
        assert late not in loaded


EQUAL = "a = 1\n" * 60_000


class Counted(str):
    """A text that counts how many characters are looked through."""

    __slots__ = ()
    looked_at: ClassVar[int] = 0

    def count(self, sub: str, start: SupportsIndex | None = 0, end: SupportsIndex | None = None) -> int:
        """Count what lies between the two ends."""
        Counted.looked_at += (len(self) if end is None else int(end)) - int(start or 0)
        return super().count(sub, start, end)

    def rfind(self, sub: str, start: SupportsIndex | None = 0, end: SupportsIndex | None = None) -> int:
        """Count what lies between the hit and the end."""
        at = super().rfind(sub, start, end)
        Counted.looked_at += (len(self) if end is None else int(end)) - (at if at >= 0 else int(start or 0))
        return at

    def find(self, sub: str, start: SupportsIndex | None = 0, end: SupportsIndex | None = None) -> int:
        """Count what lies between the start and the hit."""
        at = super().find(sub, start, end)
        last = len(self) if end is None else int(end)
        Counted.looked_at += (at if at >= 0 else last) - int(start or 0)
        return at


def work_of(text: str, edits: Sequence[Edit]) -> tuple[int, list[str]]:
    """Return what a batch took of its budget, and the codes of its failures."""
    budget = WorkBudget()
    view = IndexedText(text, budget)
    codes: list[str] = []
    for edit in edits:
        budget.begin()
        located = find_match(view, edit, TextBlock.of(edit.search), MatchOptions())
        codes += [] if isinstance(located, LocatedMatch) else [type(located).__name__]
    return budget.spent, codes


def test_a_line_is_found_whatever_the_number_of_places() -> None:
    for search in ("a = 1\n", "  a = 1\n", "a = 1\na = 1\n", "  a = 1\n  a = 1\n"):
        result = apply(EQUAL, [Edit(search=search, replace=search.replace("1", "2"), line=58_999)])
        assert [match.line for match in result.matches] == [58_999]


def test_the_places_of_one_search_are_found_once_a_batch() -> None:
    edits = [Edit(search="a = 1\n", replace="b\n", line=1 + n) for n in range(3000)]
    one, _ = work_of(EQUAL, edits[:1])
    all_of_them, missed = work_of(EQUAL, edits)
    assert not missed
    assert all_of_them < one + 3000 * 3 * PER_PLACE


def test_many_strings_are_found_without_a_look_at_all_of_the_text() -> None:
    text = Counted("".join(f"name_{n} = compute({n})\n" for n in range(20_000)))
    searched, before = TextSearcher(text, WorkBudget()), Counted.looked_at
    found = [len(list(searched.find_offsets(f"name_{n} = compute({n})\n"))) for n in range(0, 20_000, 10)]
    assert found == [1] * 2000
    assert Counted.looked_at - before < 30 * len(text)


def places_of(string: str, text: str, step: int) -> list[int]:
    """Return where a string stands, found one by one."""
    found: list[int] = []
    at = text.find(string)
    while at >= 0:
        found.append(at)
        at = text.find(string, at + step)
    return found


@pytest.mark.parametrize("apart", [False, True])
def test_an_index_finds_what_a_look_at_all_of_the_text_does(*, apart: bool) -> None:
    text = "ab\nabab" * 3000 + "".join(f"name_{n} = {n}\n" for n in range(5000))
    indexed = TextSearcher(text, WorkBudget())
    for _ in range(30):
        list(indexed.find_offsets("name_4999 = 4999\nx"))
    for at in range(0, len(text) - 80, 997):
        for size in (15, 16, 23, 40, 79):
            string = text[at : at + size]
            expected = places_of(string, text, size if apart else 1)
            assert list(indexed.find_offsets(string, apart=apart)) == expected


def test_edits_that_all_collide_end() -> None:
    edits = [Edit(search="b\n", replace=f"c{n}\n") for n in range(3000)]
    refused = apply("a\nb\n", edits, partial=True).failures
    assert {failure.code for failure in refused} == {"overlap"}
    assert len(refused) == 2999


@pytest.mark.slow
def test_a_batch_that_is_too_much_is_refused_from_the_same_edit_on() -> None:
    edits = [Edit(search="a", replace=f"b{n}", all=True) for n in range(60)]
    ended = [apply("a = 1\n" * 20_000, edits, partial=True).failures for _ in range(2)]
    assert ended[0] == ended[1]
    assert ended[0][-1].code == "too_much"


@pytest.mark.slow
def test_every_whole_word_of_very_many_is_replaced_in_linear_time() -> None:
    assert apply("a = 1\n" * 50_000, [Edit(search="a", replace="b", all=True)]).text == "b = 1\n" * 50_000


@pytest.mark.slow
def test_a_long_reply_is_read_at_once_in_linear_time() -> None:
    block = "a.py\n<<<<<<< SEARCH\nname_{0} = compute({0})\n=======\nname_{0} = 0\n>>>>>>> REPLACE\n"
    assert len(parse("".join(block.format(n) for n in range(40_000)))) == 40_000


@pytest.mark.parametrize(
    ("text", "edit", "wanted"),
    [
        # each took from five seconds to minutes
        ("src = []\n", Edit(search="src = []", replace="src = [" + "'src/*'," * 32_000 + "]"), "exact"),
        ("x\n", Edit(search="x", replace="a " + "/* " * 64_000), "exact"),
        ("x\n", Edit(search="x", replace="<!-- " * 64_000), "exact"),
        (" " * 1_000_000, Edit(search=" ", replace="x", all=True), "empty_search"),
        (" " * 1_000_000, Edit(search=" ", replace="x"), "empty_search"),
        (
            "".join(f"call_{n}(a)\n" for n in range(700)),
            Edit(
                search="".join(f"call_{n}(a)\n" for n in range(700)),
                replace="".join(f"other_{n}(b)  # rest of code\n" for n in range(700)),
            ),
            "exact",
        ),
    ],
    ids=["globs", "comments", "markup", "all blanks", "blanks", "many comments"],
)
def test_long_lines_and_blanks_take_no_time(text: str, edit: Edit, wanted: str) -> None:
    with little_work(4):
        assert outcome(text, edit) == wanted


def test_lines_of_thousands_of_levels_are_answered_with_little_work() -> None:
    lines = [" " * n + "if a:" for n in range(3_000)]
    edit = Edit(search="\n".join(lines[::2]), replace="q")
    with little_work():
        assert outcome("\n".join([*lines, ""]), edit) == "too_much"


def look_at(text: str, edit: Edit) -> int:
    """Return how many characters of a text are looked through to apply an edit and to show what it does."""
    counted = Counted(text)
    before = Counted.looked_at
    unified_diff(apply(counted, [edit]).changes, counted)
    return Counted.looked_at - before


@pytest.mark.parametrize("replace", ["hat", "hit again", ""], ids=["replaced", "inserted", "deleted"])
@pytest.mark.parametrize("end", ["", "\nlast\n"], ids=["one line", "two lines"])
def test_twice_the_hits_of_one_long_line_are_twice_the_work(replace: str, end: str) -> None:
    few, many = (
        look_at(f"{'x' * 190} hit " * count + end, Edit(search="hit", replace=replace, all=True))
        for count in (500, 1000)
    )
    assert few > 500
    assert many < 2.2 * few


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_number_of_a_long_line_is_found_without_a_look_at_all_of_it(end: str) -> None:
    text = Counted(f"first{end}{'x' * 1_000_000}{end}last")
    lines = Lines(text)
    before = Counted.looked_at
    found = [lines.find_line(at) for at in range(10, 1_000_000, 10_000)]
    assert found == [1] * 100
    assert Counted.looked_at - before < 2 * len(text)
    assert lines.find_line(len(text) - 1) == 2


def test_a_deep_place_on_a_long_line_keeps_its_indentation() -> None:
    for blanks, is_inside in ((1000, False), (1001, True)):
        result = apply(f"a\n{' ' * blanks}b = 1\n", [Edit(search="b = 1", replace="b = 2")])
        assert result.text == f"a\n{' ' * blanks}b = 2\n"
        assert result.matches[0].starts_inside is is_inside


def spend(text: str, edits: Sequence[Edit]) -> int:
    """Return what a batch takes of its budget when it is applied."""
    budget = WorkBudget()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kakite.edit.text_index.WorkBudget", lambda: budget)
        assert apply(text, edits).text != text
    assert budget.spent
    return budget.spent


def test_an_edit_pays_for_the_lines_above_that_tell_its_columns() -> None:
    text = "".join(f"    name_{n} = {n}\n" for n in range(5000))
    as_sent, moved = (
        spend(text, [Edit(search=f"{blanks}name_4000 = 4000\n", replace=f"{blanks}x = 1\n")])
        for blanks in ("    ", "      ")
    )
    assert moved > as_sent + 1_000_000


BLOCKS_OF_CODE = {
    "at one depth": "    name_{0} = {0}\n",
    "nested": "class C{0}:\n    def m{0}(self):\n        name_{0} = {0}\n        return name_{0}\n\n",
}


def moved_edits(block: str, numbers: range) -> list[Edit]:
    """Return edits that move along a line and what comes below it."""
    depth = next(line for line in block.split("\n") if "name_" in line).index("name")
    deeper = " " * (depth + 2)
    return [
        Edit(search=f"{deeper}name_{n} = {n}\n", replace=f"{deeper}name_{n} = 1\n{deeper}log(name_{n})\n")
        for n in numbers
    ]


@pytest.mark.parametrize("block", BLOCKS_OF_CODE.values(), ids=BLOCKS_OF_CODE)
def test_ten_thousand_moved_edits_take_less_than_a_batch_may(block: str) -> None:
    text = "".join(block.format(n) for n in range(20_000))
    one, more = (spend(text, moved_edits(block, range(5_000, 5_000 + count))) for count in (100, 500))
    assert one + 9_900 * (more - one) // 400 < 6_000_000_000


@pytest.mark.slow
@pytest.mark.parametrize("block", BLOCKS_OF_CODE.values(), ids=BLOCKS_OF_CODE)
def test_thousands_of_moved_edits_land(block: str, proof: bool) -> None:
    count = 10_000 if proof else 1_000
    text = "".join(block.format(n) for n in range(2 * count))
    result = apply(text, moved_edits(block, range(0, 2 * count, 2)))
    assert result.text.count("log(") == len(result.matches) == count


def test_a_search_that_replace_repeats_pays_for_each_of_them() -> None:
    once, often = (spend("x + b", [Edit(search="+", replace="+" * count)]) for count in (2, 2000))
    assert often > once + 2 * 2000 * 1000


def test_a_line_end_that_every_place_looks_for_is_paid_for() -> None:
    edit = Edit(search="hit", replace="hat", all=True)
    near, far = (spend(text, [edit]) for text in ("\r\n" + "hit " * 5000, "hit " * 5000 + "\r\n"))
    assert far > near + 5000 * 20_000
