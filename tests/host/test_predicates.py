from __future__ import annotations

import posixpath
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.errors import UsageError
from kakite.host.predicates import CommandPrefix, Fit, PathGlob, Place, Predicate, all_fit, any_fits

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
    assert (all_fit(PathGlob("src/**"), path, Place(project=project)) is Fit.YES) == (below and bool(path))


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
        ("src/**", " src/a", Fit.PERHAPS),
        ("src/**", "src/a ", Fit.PERHAPS),
        ("src/**", 7, Fit.PERHAPS),
        ("src/**", None, Fit.NO),
    ],
)
def test_a_glob_names_what_a_reader_expects(glob: str, path: object, fit: Fit) -> None:
    assert any_fits(PathGlob(glob), path) is fit
    assert all_fit(PathGlob(glob), path) is (Fit.YES if fit is Fit.YES else Fit.NO)


def test_a_hostile_glob_takes_no_time() -> None:
    assert any_fits(PathGlob("/".join(["**"] * 60) + "/x"), "/".join(["a"] * 500)) is Fit.PERHAPS


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
        (["git", "status", ";", "rm", "x"], Fit.NO, Fit.YES),
        (["git", "status", "$(rm x)"], Fit.NO, Fit.YES),
        (["ls", ";", "git", "status"], Fit.NO, Fit.PERHAPS),
        (["ls", "&&", "git", "status"], Fit.NO, Fit.PERHAPS),
        (["ls", "$(git status)"], Fit.NO, Fit.PERHAPS),
        (["ls", "a\nb"], Fit.NO, Fit.PERHAPS),
        (["git", "status --short"], Fit.NO, Fit.PERHAPS),
        (["git", "status", "a b"], Fit.YES, Fit.YES),
        ("find . -exec git status +", Fit.NO, Fit.PERHAPS),
        ("python -c 'import os'", Fit.NO, Fit.PERHAPS),
        ("python -m x", Fit.NO, Fit.NO),
        ("git -c alias.x=!y x", Fit.NO, Fit.PERHAPS),
        ("awk 'BEGIN {system(0)}'", Fit.NO, Fit.PERHAPS),
        ("", Fit.NO, Fit.PERHAPS),
        (None, Fit.NO, Fit.NO),
    ],
)
def test_a_prefix_is_over_one_plain_command_and_forbids_any(
    command: object, allowed: Fit, forbidden: Fit
) -> None:
    assert all_fit(CommandPrefix("git status"), command) is allowed
    assert any_fits(CommandPrefix("git status"), command) is forbidden


def test_a_text_denied_as_a_whole_is_doubted_in_pieces() -> None:
    assert any_fits("git push*", "git push origin") is Fit.YES
    assert any_fits("git push*", ["git", "push", "origin"]) is Fit.PERHAPS
    assert any_fits("git push*", ["git", "pull"]) is Fit.NO
    assert all_fit("git push*", ["git", "push"]) is Fit.NO


@given(tail=st.text(max_size=20))
def test_no_tail_with_an_operator_is_allowed(tail: str) -> None:
    for operator in (";", "&", "|", "\n", "`", "$(", ">", "<"):
        assert all_fit(CommandPrefix("git status"), f"git status {operator}{tail}") is Fit.NO
        assert all_fit(CommandPrefix("git status"), ["git", "status", f"{operator}{tail}"]) is Fit.NO


words = st.sampled_from(["git", "status", "rm", "-rf", "x y", ";", "&&", "|", "a;b", "$(x)", "'", "-c"])


@given(given=st.lists(words, min_size=1, max_size=5))
def test_a_list_is_let_go_only_if_it_would_be_let_go_as_a_line_too(given: list[str]) -> None:
    prefix = CommandPrefix("git status")
    assert all_fit(prefix, given) <= all_fit(prefix, " ".join(given))
    assert any_fits(prefix, given) >= min(Fit.PERHAPS, any_fits(prefix, " ".join(given)))


@pytest.mark.parametrize(
    ("rule", "command", "forbidden"),
    [
        ("find ** -delete", "find . -name x -delete", Fit.YES),
        ("find ** -delete", "find -delete", Fit.YES),
        ("find ** -delete", "find . -del'ete'", Fit.YES),
        ("find ** -delete", ["find", ".", "-delete"], Fit.YES),
        ("find ** -delete", "find . -print", Fit.NO),
        ("find ** -exec*", "find . -execdir rm x +", Fit.YES),
        ("git ** --upload-pack*", "git fetch --upload-pack=x .", Fit.YES),
        ("git -c", "git -c a=b status", Fit.YES),
        ("git ** push", "git --no-pager push origin", Fit.YES),
    ],
)
def test_two_stars_stand_for_any_number_of_words(rule: str, command: object, forbidden: Fit) -> None:
    assert any_fits(CommandPrefix(rule), command) is forbidden


@pytest.mark.parametrize("words", ["", "  ", "'"])
def test_a_prefix_without_words_is_refused(words: str) -> None:
    with pytest.raises(UsageError):
        CommandPrefix(words)


@pytest.mark.parametrize(
    "path",
    [
        "/proc/self/root/./p/secrets/key",
        "/proc/self/cwd/secrets/key",
        "/proc/1/fd/3",
        "/proc/self/root/../../p/x",
        "/dev/fd/3",
        "/dev/stdin",
        "../proc/self/cwd/secrets/key",
        "//proc/./self/cwd",
    ],
)
@pytest.mark.parametrize("project", ["", "/p"])
def test_a_path_through_what_leads_anywhere_is_never_sure(path: str, project: str) -> None:
    place = Place(project=project)
    for glob in ("secrets/**", "/p/**", "**"):
        assert any_fits(PathGlob(glob), path, place) is Fit.PERHAPS
        assert all_fit(PathGlob(glob), path, place) is Fit.NO


@pytest.mark.parametrize(
    ("glob", "path"),
    [
        ("secrets/**", "."),
        ("a/secrets/**", "a"),
        ("a/secrets/**", "a/"),
        ("secrets/**", ".."),
        ("secrets/**", "/"),
        ("**/.env", "."),
        ("**/.env", "src"),
        ("*/secrets/**", "src"),
        ("secrets/key", "secrets"),
    ],
)
def test_a_folder_above_what_is_denied_may_reach_it(glob: str, path: str, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    place = Place(project=str(tmp_path))
    assert any_fits(PathGlob(glob), path, place) is Fit.PERHAPS
    narrowing = Place(project=str(tmp_path), reaches=False)
    assert any_fits(PathGlob(glob), path, narrowing) is Fit.NO


@pytest.mark.parametrize("path", ["src/a.py", "new.py", "src/new", "other"])
@pytest.mark.parametrize("glob", ["**/.env", "*/secrets/**", "secrets/**"])
def test_a_file_is_above_nothing(glob: str, path: str, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").touch()
    assert any_fits(PathGlob(glob), path, Place(project=str(tmp_path))) is Fit.NO


def test_a_folder_fits_an_allow_only_with_all_that_is_beneath(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    place = Place(project=str(tmp_path))
    assert all_fit(PathGlob("*"), "src", place) is Fit.NO
    assert all_fit(PathGlob("src"), "src", place) is Fit.NO
    assert all_fit(PathGlob("src/**"), "src", place) is Fit.YES
    assert all_fit(PathGlob("*"), "a.py", place) is Fit.YES


def test_a_link_is_followed_as_it_is_now(tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "link").symlink_to("../secrets")
    place = Place(project=str(tmp_path))
    assert any_fits(PathGlob("secrets/**"), "src/link/key", place) is Fit.PERHAPS
    assert all_fit(PathGlob("src/**"), "src/link/key", place) is Fit.NO
    assert any_fits(PathGlob("src/**"), "src/link/key", place) is Fit.YES
    assert any_fits(PathGlob("key"), "src/link/../key", place) is Fit.PERHAPS


@pytest.mark.parametrize(
    ("folders", "path", "allowed", "forbidden"),
    [
        (("/p/a",), "secrets/key", Fit.YES, Fit.YES),
        (("/p/a", "/p"), "secrets/key", Fit.NO, Fit.YES),
        (("/p", "/p/a"), "secrets/key", Fit.NO, Fit.PERHAPS),
        (("",), "secrets/key", Fit.NO, Fit.PERHAPS),
        (("/p", ""), "x", Fit.NO, Fit.PERHAPS),
        (("",), "/p/a/secrets/key", Fit.YES, Fit.YES),
        (("/p/b", "/p"), "x", Fit.NO, Fit.NO),
    ],
)
def test_a_path_is_judged_from_every_folder_where_it_may_start(
    folders: tuple[str, ...], path: str, allowed: Fit, forbidden: Fit
) -> None:
    place = Place(project="/p", folders=folders)
    assert all_fit(PathGlob("a/secrets/**"), path, place) is allowed
    assert any_fits(PathGlob("a/secrets/**"), path, place) is forbidden


@pytest.mark.parametrize("path", ["secr*/key", "s?crets/key", "{secrets,x}/key", "[s]ecrets/key"])
def test_what_a_server_may_take_for_a_pattern_is_not_let_go_beside_a_deny(path: str, tmp_path: Path) -> None:
    place = Place(project=str(tmp_path))
    assert any_fits(PathGlob("secrets/**"), path, place) is Fit.PERHAPS
    (tmp_path / path).parent.mkdir()
    (tmp_path / path).touch()
    assert any_fits(PathGlob("secrets/**"), path, place) is Fit.NO


@pytest.mark.parametrize("value", ["a/" * 100_000, ["a/" * 4000] * 1000, ["x" * 1_000_000, "a"]], ids=len)
def test_paths_too_long_to_be_followed_are_neither_surely_allowed_nor_surely_free(value: Any) -> None:
    place = Place(project="/tmp")
    began = time.process_time()
    assert any_fits(PathGlob("secrets/**"), value, place) is Fit.PERHAPS
    assert all_fit(PathGlob("**"), value, place) is Fit.NO
    assert time.process_time() - began < 2
