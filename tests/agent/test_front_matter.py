"""Settings at the top of a Markdown file, changed without touching what is around them."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from kakite.agent.front_matter import (
    FrontMatterError,
    find_line,
    format_front_matter,
    format_scalar,
    parse_front_matter,
    set_members,
    set_value,
    split_members,
)

WORDS = st.sampled_from(
    ["bug", "kakite", "kakite:done", "help wanted", "a: b", "yes", "12", "日本", "#x", "[", ""]
)
COMMENTS = st.sampled_from(["", "  # why", " # [a, b]"])
NEWLINES = st.sampled_from(["\n", "\r\n"])


@st.composite
def other_lines(draw: st.DrawFn, newline: str) -> str:
    """Draw settings that are nobody's business, with comments and blank lines."""
    lines = draw(
        st.lists(
            st.sampled_from(
                [
                    "title: 'Fix: it'  # as said",
                    "# a comment: [x]",
                    "",
                    "priority: [1, 2]",
                    "nested: {labels: [kakite]}",
                    "text: |",
                ]
            ),
            unique=True,
            max_size=4,
        )
    )
    lines = [each for line in lines for each in ([line, "  said", ""] if line == "text: |" else [line])]
    return "".join(line + newline for line in lines)


@st.composite
def written_labels(draw: st.DrawFn, newline: str) -> str:
    labels = [each for each in draw(st.lists(WORDS, unique=True, max_size=4)) if each]
    items = [format_scalar(label) for label in labels]
    match draw(st.sampled_from(["flow", "quoted", "block", "indented", "several", "empty", "none"])):
        case "flow":
            return f"labels: [{', '.join(items)}]{draw(COMMENTS)}{newline}"
        case "quoted":
            quoted = ", ".join(f"'{each}'" for each in labels)
            return f"labels: [ {quoted} ]{newline}"
        case "several":
            return f"labels: [{newline}" + "".join(f"  {item},{newline}" for item in items) + f"  ]{newline}"
        case "block" if items:
            return f"labels:{draw(COMMENTS)}{newline}" + "".join(
                f"- {item}{draw(COMMENTS)}{newline}" for item in items
            )
        case "indented" if items:
            return f"labels:{newline}" + "".join(f"  -  {item}{draw(COMMENTS)}{newline}" for item in items)
        case "empty":
            return f"labels:{draw(COMMENTS)}{newline}"
        case _:
            return ""


@given(st.data(), NEWLINES, st.sets(WORDS.filter(bool), max_size=3))
def test_a_change_of_labels_changes_nothing_else(data: st.DataObject, newline: str, wanted: set[str]) -> None:
    before = data.draw(other_lines(newline))
    after = data.draw(other_lines(newline)).replace("title", "title2").replace("priority", "p2")
    after = after.replace("nested", "n2").replace("text", "t2")
    labels = data.draw(written_labels(newline))
    text = before + labels + after
    assume(wanted or labels)
    changed = set_members(text, "labels", wanted, newline)
    expected = {name: value for name, value in parse_front_matter(text).items() if name != "labels"}
    found = parse_front_matter(changed)
    assert set(found.pop("labels", [])) == wanted
    assert found == expected
    assert changed.startswith(before)
    assert changed.endswith(after) if labels else changed.startswith(before + after)
    assert newline == "\n" or changed.count("\n") == changed.count("\r\n")
    assert set_members(changed, "labels", wanted, newline) == changed


@given(st.data(), NEWLINES)
def test_a_label_in_the_place_of_another_is_a_change_of_that_word(data: st.DataObject, newline: str) -> None:
    text = data.draw(written_labels(newline))
    labels = parse_front_matter(text).get("labels", [])
    assume(isinstance(labels, list) and labels)
    gone = data.draw(st.sampled_from(labels))
    changed = set_members(text, "labels", {*labels, "new"} - {gone}, newline)
    at = changed.index("new")
    head, tail = changed[:at], changed[at + len("new") :]
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(text) - len(head) - len(tail) <= len(format_scalar(gone)) + 2  # its quotes


@given(st.text(st.characters(codec="utf-8")))
def test_any_text_is_written_so_that_it_is_read_the_same(value: str) -> None:
    header = format_front_matter({"a": value, "b": [value, value], "c": "end"})
    assert parse_front_matter(header) == {"a": value, "b": [value, value], "c": "end"}
    assert parse_front_matter(set_value("a: x # y\nc: end\n", "a", value, "\n")) == {"a": value, "c": "end"}
    whole = yaml.safe_load(header)
    assert str(whole["a"]).lower() == value.lower() or value.isdigit()


@given(st.text(st.sampled_from("ab:[]{}-'\"#|>&*!%@`, \n\r\t?\x85\u2028\x07")) | st.text())
def test_any_text_is_read_or_told_with_its_line(text: str) -> None:
    try:
        values = parse_front_matter(text)
    except FrontMatterError as error:
        lines = [error.line]
    else:
        lines = [find_line(text, name) for name in values]
    assert all(0 <= line <= text.count("\n") for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("title: a\nlabels: b: c\n", 1),
        ("title: [a\nb: 1\n", 1),
        ("a: 1\na: 2\n", 1),
        ("- a\n", 0),
        ("just text\n", 0),
        ("a: 1\n\tb: 2\n", 1),
        ("a: 1\nb: \x07\n", 1),
        ("[" * 15_000, 0),
        ("a: " + "x" * 70_000, 0),
    ],
)
def test_what_is_wrong_is_told_with_its_line(text: str, line: int) -> None:
    with pytest.raises(FrontMatterError) as caught:
        parse_front_matter(text)
    assert caught.value.line == line


@pytest.mark.parametrize("text", ["a: &x [k]\nlabels: *x\n", "labels: &x [k]\na: *x\n", "{labels2: [k]}\n"])
def test_what_cannot_be_changed_alone_is_refused(text: str) -> None:
    with pytest.raises(FrontMatterError):
        set_members(text, "labels", {"new"}, "\n")


def test_labels_may_stand_in_one_text_between_commas() -> None:
    assert split_members("kakite,  bug ,") == ["kakite", "bug"]
    assert set_members("labels: kakite, bug\n", "labels", {"bug", "new"}, "\n") == "labels: [bug, new]\n"
    assert set_members("labels: kakite, bug\n", "labels", {"bug", "kakite"}, "\n") == "labels: kakite, bug\n"


def test_the_last_line_of_a_list_can_go() -> None:
    assert set_members("labels:\n- bug # x\na: 1\n", "labels", set(), "\n") == "labels:\na: 1\n"
    assert set_members("labels: [bug]\na: 1\n", "labels", set(), "\n") == "labels: []\na: 1\n"


def test_values_that_are_neither_text_nor_list_are_left_to_others() -> None:
    assert parse_front_matter("a: {b: 1}\nc: [[1]]\nd: ~\ne:\nf: 2026-11-22\n") == {"f": "2026-11-22"}
