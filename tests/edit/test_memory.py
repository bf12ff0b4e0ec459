"""An edit takes less memory than ten times the text, beside the texts that are given. Each line as a string
of its own, in each of the forms that are compared, would take twice that.
"""

from __future__ import annotations

import tracemalloc

import pytest

from kakite.edit import Edit, EditError, apply

PROMISED = 10
BLOCK = ("while waiting_{0}(value, number, {0}):", "    results_of_turn_{0}.append(value, number + {0})", "")
LINES = [line.format(n) for n in range(1000) for line in BLOCK]
TEXT = "\n".join(LINES)
HALF = LINES[750:2250]
MISSPELT = "\n".join(HALF).replace("results_of_turn_500", "reuslts_of_turn_500")
CHANGED = [*HALF[:500], "    added()", *HALF[500:]]


def deeper(lines: list[str]) -> str:
    """Return lines four columns further right."""
    return "\n".join(f"    {line}" if line else "" for line in lines)


def peak(text: str, edit: Edit) -> tuple[float, str]:
    """Return the most memory that an edit held, times the text, and how the edit ended."""
    tracemalloc.start()
    try:
        ended = apply(text, [edit]).matches[0].level
    except EditError as refused:
        ended = refused.failures[0].code
    finally:
        held = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return held / len(text), ended


@pytest.mark.parametrize(
    ("text", "search", "replace", "expected"),
    [
        pytest.param(TEXT, "\n".join(HALF), "\n".join(CHANGED), "exact", id="to the letter"),
        pytest.param(TEXT, MISSPELT, "replaced()", "near_miss", id="one letter off"),
        pytest.param(TEXT, deeper(HALF), deeper(CHANGED), "indentation", id="indented"),
        pytest.param(
            deeper(LINES), "\n".join(HALF), f"if wrapped:\n{deeper(HALF)}", "indentation", id="wrapped"
        ),
        pytest.param(
            TEXT.replace("\n", "\r\n"), "\n".join(HALF), "\n".join(CHANGED), "line_ends", id="line ends"
        ),
        pytest.param(TEXT, "\n".join(f"{line}x" for line in HALF), "x", "not_found", id="absent"),
    ],
)
def test_half_of_a_file_is_replaced_in_less_than_ten_times_its_size(
    text: str, search: str, replace: str, expected: str
) -> None:
    edit = Edit(search=search, replace=replace)
    apply(text, [edit], partial=True)  # what is imported when it is first needed is no part of it
    times, ended = peak(text, edit)
    assert (ended, times < PROMISED) == (expected, True), times
