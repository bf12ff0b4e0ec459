"""What is plainly wrong with a change is found in good time and told short; what looks like it is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.agent.git.worktree import MAX_FINDINGS, lint_diff
from tests.bounds import little_work


def diff(*added: str) -> str:
    lines = "".join(f"+{line}\n" for line in added)
    return f"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -0,0 +1 @@\n{lines}"


@pytest.mark.parametrize(
    "line",
    [
        "# ... rest of the code",
        "// …the rest of the file stays as it was",
        "    # ...existing code...",
        "/* ... other lines unchanged ... */",
        "# ... existing implementation",
        "# rest of the file unchanged ...",
        "// ...remaining code here",
        "<<<<<<< HEAD",
        ">>>>>>> theirs",
        "||||||| base",
        "<<<<<<< HEAD\r",
        f"Subproject commit {'a' * 40}",
    ],
)
def test_what_is_no_code_is_found_with_its_file(line: str) -> None:
    (found,) = lint_diff(diff("a = 1", line))
    assert found.startswith("`x` ")
    assert line.strip() in found


@pytest.mark.parametrize(
    "line",
    [
        "const { name, ...rest } = file;",
        "setState({ ...previous, lines });",
        "return merge(...other, code)",
        "the rest of the day",
        "def f(x): ...",
        "x = a[..., other_file]",
        "=======",
        "<<<<<<<<",
        "the code is unchanged",
        "print('...')  # no other file",
    ],
)
def test_what_only_looks_like_it_is_not(line: str) -> None:
    assert lint_diff(diff(line)) == ()


@given(st.sampled_from(["\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\r"]))
def test_a_line_ends_where_git_ends_it(other: str) -> None:
    assert len(lint_diff(diff(f"a{other}# ... rest of the code"))) == 1
    assert lint_diff(diff(f"a{other}+<<<<<<< x")) == ()


def test_what_is_taken_away_or_was_there_is_nobodys_finding() -> None:
    assert lint_diff("--- a/x\n+++ b/x\n-<<<<<<< a\n <<<<<<< b\n") == ()


@pytest.mark.parametrize(
    "piece", ["...rest ", "... rest ", "existing code ", "…", "... ", "rest of the code ", "...rest a "]
)
def test_a_file_of_one_long_line_takes_no_time(piece: str) -> None:
    with little_work():
        lint_diff(diff(piece * (300_000 // len(piece))))


def test_many_findings_and_long_lines_are_told_short() -> None:
    found = lint_diff(diff("x" * 10**6 + " ... rest of the code " + "y" * 10**6))
    assert "... rest of the code" in found[0]
    assert len(found[0]) < 400
    found = lint_diff(diff(*["<<<<<<< a"] * (MAX_FINDINGS + 2345)))
    assert len(found) == MAX_FINDINGS + 1
    assert found[-1] == "and 2,345 more like these"
