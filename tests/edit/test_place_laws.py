"""Where an edit lands is where SEARCH says: judged by a few lines of code that know nothing of the engine."""

from __future__ import annotations

import re

from hypothesis import assume, given
from hypothesis import strategies as st

from kakite.edit import Edit, EditError, Match, apply

bodies = st.sampled_from(
    ["a = 1", "a = 2", "b(a)", "if a:", "x  y", "x y", "", "}", "{", "- a", "b( a )", "return a"]
)
indents = st.sampled_from(["", "  ", "    ", "\t", "        "])


def line_of(indent: str, body: str) -> str:
    return indent + body if body else ""


def text_of(all_lines: list[str]) -> str:
    return "\n".join([*all_lines, ""])


lines = st.builds(line_of, indents, bodies)
texts = st.lists(lines, min_size=1, max_size=7).map(text_of)


def solid(all_lines: list[str]) -> list[str]:
    return [line for line in all_lines if line.strip()]


def indent_of(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def squeezed(line: str) -> str:
    return re.sub(r"\s", "", line)


def order_of_depths(all_lines: list[str], tab: int) -> list[list[int]]:
    widths = [len(indent_of(line).expandtabs(tab)) for line in all_lines]
    return [[(one > two) - (one < two) for one in widths] for two in widths]


def same_blocks(there: list[str], sent: list[str]) -> bool:
    return any(order_of_depths(there, tab) == order_of_depths(sent, tab) for tab in (4, 8))


def lines_of(text: str, match: Match) -> list[str]:
    start = match.start if text[match.start] == "\n" else text.rfind("\n", 0, match.start) + 1
    return solid(text[start : match.end].rstrip("\n").split("\n"))


@given(texts, st.lists(lines, min_size=1, max_size=4), st.booleans())
def test_the_lines_of_the_place_are_those_of_search_in_the_same_blocks(
    text: str, sent: list[str], closed: bool
) -> None:
    search = "\n".join(sent) + "\n" * closed
    try:
        [match] = apply(text, [Edit(search=search, replace="NEW" + "\n" * closed)]).matches
    except EditError:
        return
    if match.level == "exact":
        assert text[match.start : match.end] == search
        return
    there, wanted = lines_of(text, match), solid(sent)
    whole = 0 if closed else 1
    assert len(there) == len(wanted)
    assert squeezed(there[0]).endswith(squeezed(wanted[0]))
    assert [squeezed(line) for line in there[whole:]] == [squeezed(line) for line in wanted[whole:]]
    was_stripped = not indent_of(sent[0]) and bool(sent[0])
    assert same_blocks(there, wanted) or (was_stripped and same_blocks(there[1:], wanted[1:]))


@given(texts, st.lists(lines, min_size=1, max_size=3), st.integers(0, 2))
def test_a_new_line_stands_at_the_depth_of_the_line_that_it_follows(
    text: str, sent: list[str], after: int
) -> None:
    assume(after < len(sent) and sent[after].strip())
    new = [*sent[: after + 1], indent_of(sent[after]) + "NEW", *sent[after + 1 :]]
    try:
        result = apply(text, [Edit(search=text_of(sent), replace=text_of(new))])
    except EditError:
        return
    if result.matches[0].level == "exact":
        return  # REPLACE is written as it was sent then
    written = result.text.split("\n")
    if not indent_of(sent[0]) and indent_of(written[result.matches[0].line - 1]):
        return  # the first line had lost its indentation: the others stand as they were sent
    at = next(nth for nth, line in enumerate(written) if line.endswith("NEW"))
    before = next(line for line in reversed(written[:at]) if line.strip())
    assert squeezed(before) == squeezed(sent[after])
    assert indent_of(written[at]) == indent_of(before)
    assert solid([*written[:at], *written[at + 1 :]]) == solid(text.split("\n"))
