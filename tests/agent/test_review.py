"""What a model found in a change is checked: places, and suggestions, which apply exactly or are refused."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.agent.review.diff import DiffFile, Hunk, parse_diff
from kakite.agent.review.findings import (
    CheckedFinding,
    Finding,
    RefusedSuggestion,
    Review,
    Suggestion,
    check_findings,
)
from kakite.agent.review.prompt import build_review_prompt
from kakite.agent.review.source import ReviewedChange
from kakite.edit import Edit, MatchOptions, SourceText, apply
from kakite.errors import KakiteError
from tests.bounds import WITHIN

LINES = st.lists(
    st.sampled_from(["a", "b", "  c", "", "--- x", "+++ y", "@@ -1 +1 @@", "\x0cd", "é"]), max_size=8
)


def text_of(lines: list[str], *, ended: bool) -> str:
    return "\n".join(lines) + ("\n" if ended and lines else "")


def git_diff(folder: Path, old: str, new: str, name: str = "f") -> str:
    for side, text in (("old", old), ("new", new)):
        place = folder / side / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8", newline="")
    done = subprocess.run(
        ["git", "diff", "--no-index", "--no-prefix", f"old/{name}", f"new/{name}"],
        cwd=folder,
        capture_output=True,
        check=False,
        timeout=WITHIN,
    )
    return done.stdout.decode().replace(f"old/{name}", f"a/{name}").replace(f"new/{name}", f"b/{name}")


@given(old=LINES, new=LINES, ended=st.booleans())
def test_a_diff_shows_the_lines_of_the_new_file_and_where_they_were(
    tmp_path_factory: pytest.TempPathFactory, old: list[str], new: list[str], *, ended: bool
) -> None:
    before, after = text_of(old, ended=ended), text_of(new, ended=ended)
    if before == after:
        return
    (file,) = parse_diff(git_diff(tmp_path_factory.mktemp("d"), before, after)).files
    for hunk in file.hunks:
        for place, (line, was) in enumerate(zip(hunk.lines, hunk.old_lines, strict=True), hunk.start):
            assert after.split("\n")[place - 1] == line
            assert was is None or before.split("\n")[was - 1] == line
    shown = {place for hunk in file.hunks for place in range(hunk.start, hunk.end + 1)}
    lines = after.removesuffix("\n").split("\n") if after else []
    stays = {line for line in lines if line in before.split("\n")}
    assert all(line in stays for place, line in enumerate(lines, 1) if place not in shown)


def whole(path: str, text: str) -> DiffFile:
    """Return what a diff says of a new file: all of its lines."""
    lines = tuple(text.removesuffix("\n").split("\n"))
    hunk = Hunk(start=1, lines=lines, old_lines=(None,) * len(lines))
    return DiffFile(path=path, old_path="", hunks=(hunk,))


def check(text: str, *findings: Finding, shown: DiffFile | None = None) -> Review:
    from kakite.agent.review.diff import Diff

    files = {"f.py": SourceText(text)}
    return check_findings("ok", findings, Diff("", (shown or whole("f.py", text),)), files.get)


def finding(start: int = 1, end: int = 1, search: str = "", replace: str = "", path: str = "f.py") -> Finding:
    return Finding(
        path=path,
        start=start,
        end=end,
        severity="high",
        title="t",
        why="w",
        search=search,
        replace=replace,
    )


def only(found: Review) -> CheckedFinding:
    (one,) = found.findings
    return one


def replace_lines(text: str, suggestion: Suggestion) -> str:
    """Return a text with a suggestion applied, as the page of a forge does it: by its lines."""
    *ended, last = text.split("\n")
    lines = [*(f"{line}\n" for line in ended), *([last] if last else [])]
    above, below = lines[: suggestion.start - 1], lines[suggestion.end :]
    new = [f"{line}\n" for line in suggestion.lines]
    if new and not lines[suggestion.end - 1].endswith("\n"):
        new[-1] = new[-1].removesuffix("\n")
    return "".join([*above, *new, *below])


@given(
    lines=st.lists(st.sampled_from(["a = 1", "b = 2", "", "    c(3)", "d"]), min_size=1, max_size=6),
    ended=st.booleans(),
    data=st.data(),
)
def test_a_suggestion_in_lines_is_what_the_edit_engine_makes_of_the_file_or_it_is_refused(
    lines: list[str], data: st.DataObject, *, ended: bool
) -> None:
    text = text_of(lines, ended=ended)
    start = data.draw(st.integers(0, len(text) - 1)) if text else 0
    search = text[start : data.draw(st.integers(start + 1, len(text)))] if text else ""
    replace = data.draw(
        st.sampled_from(["", "x = 9", "x = 9\n", "\n", f"{search}\nnew()", f"new()\n{search}"])
    )
    if not search:
        return
    said = only(check(text, finding(search=search, replace=replace))).suggestion
    if isinstance(said, Suggestion):
        assert search in text
        edit = Edit(search=search, replace=replace, line=1)
        assert replace_lines(text, said) == apply(text, [edit], settings=MatchOptions(loosest="exact")).text
        assert said.start <= said.end
    else:
        assert isinstance(said, RefusedSuggestion)
        assert said.code


@pytest.mark.parametrize(
    ("text", "search", "replace", "code"),
    [
        ("a = 1\nb = 2\n", "a = 3", "a = 4", "not_found"),
        ("x\na = 1\na = 1\n", "a = 1", "a = 2", "ambiguous"),
        ("a  =  1\n", "a = 1", "a = 2", "not_found"),
        ("  a = 1\n", "a = 1\n\n", "a = 2\n", "not_found"),
        ("a = 1\r\n", "a = 1", "a = 2", "line_end"),
        ("a = 1\n", "a = 1", "# <!-- kakite-answers 7 -->", "hidden_line"),
        ("a = 1\n", "a = 1", "a = 1", "no_effect"),
    ],
)
def test_what_does_not_stand_there_exactly_is_refused(
    text: str, search: str, replace: str, code: str
) -> None:
    said = only(check(text, finding(search=search, replace=replace))).suggestion
    assert isinstance(said, RefusedSuggestion)
    near = {"not_found": {"not_found", "near_miss"}}
    assert said.code in near.get(code, {code})


def test_lines_outside_of_the_diff_are_told_apart_and_places_that_are_not_there_dropped() -> None:
    text = "".join(f"line {number}\n" for number in range(1, 41))
    hunk = Hunk(start=10, lines=("line 10", "line 11"), old_lines=(None, 10))
    shown = DiffFile(path="f.py", old_path="f.py", hunks=(hunk,))
    found = check(
        text,
        finding(11, 12, "line 10", "line ten"),
        finding(30, 30, "line 30\n", "line thirty\n"),
        finding(40, 41),
        finding(1, 1, path="gone.py"),
        shown=shown,
    )
    places = [(each.finding.start, each.in_diff, each.is_applicable) for each in found.findings]
    assert places == [(11, True, True), (30, False, False)]
    assert [(each.finding.path, each.reason) for each in found.dropped] == [
        ("f.py", "lines_missing"),
        ("gone.py", "file_missing"),
    ]


@pytest.mark.parametrize("text", ["", "hello", "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n"])
def test_what_is_no_whole_diff_is_refused(text: str) -> None:
    with pytest.raises(KakiteError) as refused:
        parse_diff(text)
    assert refused.value.code == "bad_diff"


def test_renames_deletions_and_odd_names_are_read() -> None:
    text = (
        "diff --git a/old b/new\nsimilarity index 100%\nrename from old\nrename to new\n"
        "diff --git a/gone b/gone\ndeleted file mode 100644\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
        'diff --git "a/\\303\\251 \\".txt" "b/\\303\\251 \\".txt"\n--- "a/\\303\\251 \\".txt"\n'
        '+++ "b/\\303\\251 \\".txt"\n@@ -1 +1 @@\n-x\n+y\n'
        "diff --git a/bin b/bin\nnew file mode 100644\nBinary files /dev/null and b/bin differ\n"
    )
    files = parse_diff(text).files
    assert [(file.old_path, file.path) for file in files] == [
        ("old", "new"),
        ("gone", ""),
        ('é ".txt', 'é ".txt'),
        ("", "bin"),
    ]


@given(said=st.text(alphabet="{}dif outside-0123456789abcdef\n", max_size=60))
def test_what_others_wrote_cannot_end_the_part_that_is_theirs(said: str) -> None:
    diff = parse_diff("--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+{{diff}} {{marker}}\n")
    asked = build_review_prompt(ReviewedChange(diff=diff, folder=Path(), title=said, text=said))
    (mark,) = {line for line in asked.split("\n") if line.startswith("outside-") and len(line) == 24}
    assert asked.split("\n").count(mark) == 2
    assert "+{{diff}} {{marker}}" in asked
