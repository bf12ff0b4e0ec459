"""SEARCH and REPLACE that both were stripped: only their first lines lack their indentation."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from kakite.edit import Edit, EditError, apply

Slices = tuple[list[str], int, int, int]


def write_code(steps: list[str], unit: str) -> list[str]:
    """Return the lines of statements and blocks, no two alike but for the ends of blocks."""
    lines: list[str] = ["s {"]
    depth = 1
    for step in steps:
        if step == "}" and depth > 1:
            depth -= 1
            lines.append(f"{unit * depth}}}")
        else:
            lines.append(f"{unit * depth}s{len(lines)}{' {' if step == '{' else ';'}")
            depth += step == "{"
    return [*lines, *(f"{unit * at}}}" for at in range(depth - 1, -1, -1))]


codes = st.builds(
    write_code,
    st.lists(st.sampled_from("{};"), min_size=4, max_size=20),
    st.sampled_from(["  ", "    ", "\t"]),
)


def list_slices(lines: list[str]) -> list[Slices]:
    """Return where lines can be cut twice, the first line of both parts a statement with an indentation."""
    rows = [at for at, line in enumerate(lines) if line.strip() != "}" and depth(line)]
    return [
        (lines, one, two, end)
        for one in rows
        for two in range(one + 1, len(lines) - 1)
        for end in range(two + 1, min(two + 6, len(lines)))
    ]


slices = codes.flatmap(lambda lines: st.sampled_from(list_slices(lines)))


def text_of(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def stripped(lines: list[str]) -> str:
    return "\n".join(lines).strip()


def depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def is_whole(lines: list[str]) -> bool:
    """Tell whether lines are statements with all of their blocks."""
    opened = [line.count("{") - line.count("}") for line in lines]
    return sum(opened) == 0 and all(sum(opened[:at]) >= 0 for at in range(len(lines)))


@given(slices, st.booleans())
def test_lines_of_search_that_stay_stand_where_they_did(cut: Slices, whole: bool) -> None:
    lines, start, stay, end = cut
    assume(lines[stay].strip() != "}" and (end - stay > 1 or depth(lines[stay]) < depth(lines[start])))
    edit = Edit(search=stripped(lines[start:end]), replace=stripped(lines[stay:end]), whole_lines=whole)
    assert apply(text_of(lines), [edit]).text == text_of([*lines[:start], *lines[stay:]])


@given(slices)
def test_whole_statements_above_stand_where_they_belong_or_nowhere(cut: Slices) -> None:
    lines, start, below, end = cut
    assume(is_whole(lines[start:below]) and depth(lines[below]))
    text = text_of([*lines[:start], *lines[below:]])
    search = stripped(lines[below:end])
    assume(text.count(search) == 1)
    try:
        result = apply(text, [Edit(search=search, replace=stripped(lines[start:end]), whole_lines=True)])
    except EditError:
        return
    assert result.text == text_of(lines)
