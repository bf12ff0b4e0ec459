from __future__ import annotations

import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.errors import UsageError
from kakite.host.predicates import CommandPrefix, Fit, PathGlob, Predicate, all_fit, any_fits

parts = st.sampled_from(["src", "a", "b.py", ".", "..", "", "docs", ".git", "*"])
paths = st.lists(parts, min_size=1, max_size=6).map("/".join)
globs = st.lists(st.sampled_from(["src", "*", "**", "a", "*.py", "docs"]), min_size=1, max_size=4).map(
    "/".join
)


@given(path=paths)
def test_a_path_that_fits_a_glob_below_a_folder_lies_below_that_folder(path: str) -> None:
    if all_fit(PathGlob("src/**"), path) is Fit.YES:
        plain = posixpath.normpath(path)
        assert plain == "src" or plain.startswith("src/")


@given(path=paths, project=st.sampled_from(["/home/me/project", "/p", "/home/me/[odd]*"]))
def test_with_a_project_a_path_is_judged_by_where_it_leads(path: str, project: str) -> None:
    whole = posixpath.normpath(posixpath.join(project, path))
    below = whole == f"{project}/src" or whole.startswith(f"{project}/src/")
    assert (all_fit(PathGlob("src/**"), path, project) is Fit.YES) == (below and bool(path))


@given(glob=globs, path=paths)
def test_detours_in_a_path_change_nothing(glob: str, path: str) -> None:
    detour = f"./x/../{path}" if path and not path.startswith("/") else path
    assert all_fit(PathGlob(glob), path or ".") == all_fit(PathGlob(glob), detour or ".")


@pytest.mark.parametrize(
    ("glob", "path", "fit"),
    [
        ("src/**", "src/a/b.py", Fit.YES),
        ("src/**", "src", Fit.YES),
        ("src/*.py", "src/a.py", Fit.YES),
        ("src/*.py", "src/a/b.py", Fit.NO),
        ("**/*.py", "a.py", Fit.YES),
        ("**/*.py", "x/y/a.py", Fit.YES),
        ("src/**", "src/../secret", Fit.NO),
        ("src/**", "srcs/a", Fit.NO),
        ("**", "../x", Fit.PERHAPS),
        ("*/x", "../x", Fit.PERHAPS),
        ("../x", "../x", Fit.YES),
        ("src/**", "/project/src/a", Fit.PERHAPS),
        ("/project/**", "/project/src/a", Fit.YES),
        ("/project/**", "//project/src/a", Fit.YES),
        ("/project/**", "/project/../etc", Fit.NO),
        ("src/**", "~/src/a", Fit.PERHAPS),
        ("src/**", "file:///project/src/a", Fit.PERHAPS),
        ("src/**", "src\\..\\..\\x", Fit.PERHAPS),
        ("src/**", "src/a\nb", Fit.PERHAPS),
        ("src/**", "", Fit.PERHAPS),
        ("src/**", 7, Fit.PERHAPS),
        ("src/**", None, Fit.NO),
    ],
)
def test_a_glob_names_what_a_reader_expects(glob: str, path: object, fit: Fit) -> None:
    assert any_fits(PathGlob(glob), path) is fit
    assert all_fit(PathGlob(glob), path) is (Fit.YES if fit is Fit.YES else Fit.NO)


def test_a_hostile_glob_takes_no_time() -> None:
    assert any_fits(PathGlob("/".join(["**"] * 60) + "/x"), "/".join(["a"] * 500)) is Fit.NO


predicates = st.sampled_from([PathGlob("src/**"), "x*", PathGlob("**/*.py")])
values = st.one_of(
    paths, st.lists(paths, max_size=4), st.none(), st.integers(), st.lists(st.integers(), max_size=2)
)


@given(predicate=predicates, value=values)
def test_what_surely_fits_as_a_whole_fits_in_part(predicate: Predicate, value: object) -> None:
    assert all_fit(predicate, value) <= any_fits(predicate, value)


@given(predicate=predicates, value=st.lists(paths, min_size=1, max_size=4), more=paths)
def test_a_longer_list_is_never_allowed_more_and_never_forbidden_less(
    predicate: Predicate, value: list[str], more: str
) -> None:
    assert all_fit(predicate, [*value, more]) <= all_fit(predicate, value)
    assert any_fits(predicate, [*value, more]) >= any_fits(predicate, value)


@pytest.mark.parametrize(
    ("command", "allowed", "forbidden"),
    [
        ("git status", Fit.YES, Fit.YES),
        ("git status --short", Fit.YES, Fit.YES),
        (["git", "status"], Fit.YES, Fit.YES),
        ("git 'status'", Fit.YES, Fit.YES),
        ("git statuses", Fit.NO, Fit.NO),
        ("/usr/bin/git status", Fit.NO, Fit.YES),
        ("git status; rm -rf x", Fit.NO, Fit.YES),
        ("git status && ls", Fit.NO, Fit.YES),
        ("ls | git status", Fit.NO, Fit.YES),
        ("git status > x", Fit.NO, Fit.PERHAPS),
        ("git status $(rm x)", Fit.NO, Fit.PERHAPS),
        ("git status\nrm x", Fit.NO, Fit.PERHAPS),
        ("git status & rm x", Fit.NO, Fit.PERHAPS),
        ("sh -c 'git status'", Fit.NO, Fit.PERHAPS),
        ("ls", Fit.NO, Fit.NO),
        ("git status \u00e0", Fit.NO, Fit.YES),
        (["ls", "git status"], Fit.NO, Fit.PERHAPS),
        (["ls -l", "git status --short"], Fit.NO, Fit.PERHAPS),
        (["ls", "-l"], Fit.NO, Fit.NO),
        ([], Fit.NO, Fit.PERHAPS),
        (["git", 1], Fit.NO, Fit.PERHAPS),
        ("", Fit.NO, Fit.PERHAPS),
        (None, Fit.NO, Fit.NO),
    ],
)
def test_a_prefix_is_over_one_plain_command_and_forbids_any(
    command: object, allowed: Fit, forbidden: Fit
) -> None:
    assert all_fit(CommandPrefix("git status"), command) is allowed
    assert any_fits(CommandPrefix("git status"), command) is forbidden


@given(tail=st.text(max_size=20))
def test_no_tail_with_an_operator_is_allowed(tail: str) -> None:
    for operator in (";", "&", "|", "\n", "`", "$(", ">", "<"):
        assert all_fit(CommandPrefix("git status"), f"git status {operator}{tail}") is Fit.NO


@pytest.mark.parametrize("words", ["", "  ", "'"])
def test_a_prefix_without_words_is_refused(words: str) -> None:
    with pytest.raises(UsageError):
        CommandPrefix(words)
