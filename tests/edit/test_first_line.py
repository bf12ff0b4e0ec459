"""SEARCH and REPLACE that both lost indentation: their first lines all of it, or all lines a part of it."""

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


def list_known_columns(lines: list[str]) -> list[Slices]:
    """Return the slices whose first part is only at columns of lines above it, or of the next one."""
    return [
        (lines, one, two, end)
        for _, one, two, end in list_slices(lines)
        if two - one > 1 and {*map(depth, lines[one:two])} <= {*map(depth, [*lines[: one + 1], lines[two]])}
    ]


parts = st.lists(st.sampled_from("{};"), min_size=4, max_size=20).map(
    lambda steps: list_known_columns(write_code([";", *steps], "    "))
)


@given(parts.filter(bool).flatmap(st.sampled_from), st.integers(1, 3), st.booleans())
def test_lines_below_one_that_lacks_a_part_of_its_indentation_lack_it_too(
    cut: Slices, part: int, whole: bool
) -> None:
    lines, start, below, _ = cut
    new = lines[start:below]
    assume(all(depth(line) for line in new))
    sent = [line[part:] for line in new]
    text = text_of([*lines[: start + 1], *lines[below:]])
    try:
        result = apply(text, [Edit(search=text_of(sent[:1]), replace=text_of(sent), whole_lines=whole)])
    except EditError:
        return
    assert result.text == text_of(lines)
