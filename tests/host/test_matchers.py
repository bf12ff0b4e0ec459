from __future__ import annotations

import posixpath
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.errors import UsageError
from kakite.host.policy.matchers import (
    ArgumentMatcher,
    CommandPrefix,
    MatchResult,
    PathContext,
    PathGlob,
    match_all,
    match_any,
)
from tests.bounds import little_work

parts = st.sampled_from(["src", "a", "b.py", ".", "..", "", "docs", ".git", "*"])
paths = st.lists(parts, min_size=1, max_size=6).map("/".join)
globs = st.lists(st.sampled_from(["src", "*", "**", "a", "*.py", "docs"]), min_size=1, max_size=4).map(
    "/".join
)


@given(path=paths)
def test_a_path_that_fits_a_glob_below_a_folder_lies_below_that_folder(path: str) -> None:
    if match_all(PathGlob("src/**"), path) is MatchResult.YES:
        plain = posixpath.normpath(path)
        assert plain == "src" or plain.startswith("src/")


@given(path=paths, project=st.sampled_from(["/home/me/project", "/p", "/home/me/[odd]*"]))
def test_with_a_project_a_path_is_judged_by_where_it_leads(path: str, project: str) -> None:
    whole = posixpath.normpath(posixpath.join(project, path))
    below = whole == f"{project}/src" or whole.startswith(f"{project}/src/")
    plain = bool(path) and "*" not in path  # a server may make other paths of that
    assert (match_all(PathGlob("src/**"), path, PathContext(project=project)) is MatchResult.YES) == (
        below and plain
    )


@given(glob=globs, path=paths)
def test_detours_in_a_path_change_nothing(glob: str, path: str) -> None:
    detour = f"./x/../{path}" if path and not path.startswith("/") else path
    assert match_all(PathGlob(glob), path or ".") == match_all(PathGlob(glob), detour or ".")


@pytest.mark.parametrize(
    ("glob", "path", "fit"),
    [
        ("src/**", "src/a/b.py", MatchResult.YES),
        ("src/**", "src", MatchResult.YES),
        ("src/*.py", "src/a.py", MatchResult.YES),
        ("src/*.py", "src/a/b.py", MatchResult.NO),
        ("**/*.py", "a.py", MatchResult.YES),
        ("**/*.py", "x/y/a.py", MatchResult.YES),
        ("src/**", "src/../secret", MatchResult.NO),
        ("src/**", "srcs/a", MatchResult.NO),
        ("**", "../x", MatchResult.PERHAPS),
        ("*/x", "../x", MatchResult.PERHAPS),
        ("../x", "../x", MatchResult.YES),
        ("src/**", "/project/src/a", MatchResult.PERHAPS),
        ("/project/**", "/project/src/a", MatchResult.YES),
        ("/project/**", "//project/src/a", MatchResult.YES),
        ("/project/**", "/project/../etc", MatchResult.NO),
        ("src/**", "~/src/a", MatchResult.PERHAPS),
        ("src/**", "file:///project/src/a", MatchResult.PERHAPS),
        ("src/**", "src\\..\\..\\x", MatchResult.PERHAPS),
        ("src/**", "src/a\nb", MatchResult.PERHAPS),
        ("src/**", "", MatchResult.PERHAPS),
        ("src/**", " src/a", MatchResult.PERHAPS),
        ("src/**", "src/a ", MatchResult.PERHAPS),
        ("src/**", 7, MatchResult.PERHAPS),
        ("src/**", None, MatchResult.NO),
    ],
)
def test_a_glob_names_what_a_reader_expects(glob: str, path: object, fit: MatchResult) -> None:
    assert match_any(PathGlob(glob), path) is fit
    assert match_all(PathGlob(glob), path) is (MatchResult.YES if fit is MatchResult.YES else MatchResult.NO)


def test_a_hostile_glob_takes_no_time() -> None:
    assert match_any(PathGlob("/".join(["**"] * 60) + "/x"), "/".join(["a"] * 500)) is MatchResult.PERHAPS


predicates = st.sampled_from([PathGlob("src/**"), "x*", PathGlob("**/*.py")])
values = st.one_of(
    paths, st.lists(paths, max_size=4), st.none(), st.integers(), st.lists(st.integers(), max_size=2)
)


@given(predicate=predicates, value=values)
def test_what_surely_fits_as_a_whole_fits_in_part(predicate: ArgumentMatcher, value: object) -> None:
    assert match_all(predicate, value) <= match_any(predicate, value)


@given(predicate=predicates, value=st.lists(paths, min_size=1, max_size=4), more=paths)
def test_a_longer_list_is_never_allowed_more_and_never_forbidden_less(
    predicate: ArgumentMatcher, value: list[str], more: str
) -> None:
    assert match_all(predicate, [*value, more]) <= match_all(predicate, value)
    assert match_any(predicate, [*value, more]) >= match_any(predicate, value)


@pytest.mark.parametrize(
    ("command", "allowed", "forbidden"),
    [
        ("git status", MatchResult.YES, MatchResult.YES),
        ("git status --short", MatchResult.YES, MatchResult.YES),
        (["git", "status"], MatchResult.YES, MatchResult.YES),
        ("git 'status'", MatchResult.YES, MatchResult.YES),
        ("git statuses", MatchResult.NO, MatchResult.NO),
        ("/usr/bin/git status", MatchResult.NO, MatchResult.YES),
        ("git status; rm -rf x", MatchResult.NO, MatchResult.YES),
        ("git status && ls", MatchResult.NO, MatchResult.YES),
        ("ls | git status", MatchResult.NO, MatchResult.YES),
        ("git status > x", MatchResult.NO, MatchResult.PERHAPS),
        ("git status $(rm x)", MatchResult.NO, MatchResult.PERHAPS),
        ("git status\nrm x", MatchResult.NO, MatchResult.PERHAPS),
        ("git status & rm x", MatchResult.NO, MatchResult.PERHAPS),
        ("sh -c 'git status'", MatchResult.NO, MatchResult.PERHAPS),
        ("ls", MatchResult.NO, MatchResult.NO),
        ("git status \u00e0", MatchResult.NO, MatchResult.YES),
        (["ls", "git status"], MatchResult.NO, MatchResult.PERHAPS),
        (["ls -l", "git status --short"], MatchResult.NO, MatchResult.PERHAPS),
        (["ls", "-l"], MatchResult.NO, MatchResult.NO),
        ([], MatchResult.NO, MatchResult.PERHAPS),
        (["git", 1], MatchResult.NO, MatchResult.PERHAPS),
        (["git", "status", ";", "rm", "x"], MatchResult.NO, MatchResult.YES),
        (["git", "status", "$(rm x)"], MatchResult.NO, MatchResult.YES),
        (["ls", ";", "git", "status"], MatchResult.NO, MatchResult.PERHAPS),
        (["ls", "&&", "git", "status"], MatchResult.NO, MatchResult.PERHAPS),
        (["ls", "$(git status)"], MatchResult.NO, MatchResult.PERHAPS),
        (["ls", "a\nb"], MatchResult.NO, MatchResult.PERHAPS),
        (["git", "status --short"], MatchResult.NO, MatchResult.PERHAPS),
        (["git", "status", "a b"], MatchResult.YES, MatchResult.YES),
        ("find . -exec git status +", MatchResult.NO, MatchResult.PERHAPS),
        ("python -c 'import os'", MatchResult.NO, MatchResult.PERHAPS),
        ("python -m x", MatchResult.NO, MatchResult.NO),
        ("git -c alias.x=!y x", MatchResult.NO, MatchResult.PERHAPS),
        ("awk 'BEGIN {system(0)}'", MatchResult.NO, MatchResult.PERHAPS),
        ("", MatchResult.NO, MatchResult.PERHAPS),
        (None, MatchResult.NO, MatchResult.NO),
    ],
)
def test_a_prefix_is_over_one_plain_command_and_forbids_any(
    command: object, allowed: MatchResult, forbidden: MatchResult
) -> None:
    assert match_all(CommandPrefix("git status"), command) is allowed
    assert match_any(CommandPrefix("git status"), command) is forbidden


def test_a_text_denied_as_a_whole_is_doubted_in_pieces() -> None:
    assert match_any("git push*", "git push origin") is MatchResult.YES
    assert match_any("git push*", ["git", "push", "origin"]) is MatchResult.PERHAPS
    assert match_any("git push*", ["git", "pull"]) is MatchResult.NO
    assert match_all("git push*", ["git", "push"]) is MatchResult.NO


@given(tail=st.text(max_size=20))
def test_no_tail_with_an_operator_is_allowed(tail: str) -> None:
    for operator in (";", "&", "|", "\n", "`", "$(", ">", "<"):
        assert match_all(CommandPrefix("git status"), f"git status {operator}{tail}") is MatchResult.NO
        assert (
            match_all(CommandPrefix("git status"), ["git", "status", f"{operator}{tail}"]) is MatchResult.NO
        )


words = st.sampled_from(["git", "status", "rm", "-rf", "x y", ";", "&&", "|", "a;b", "$(x)", "'", "-c"])


@given(given=st.lists(words, min_size=1, max_size=5))
def test_a_list_is_let_go_only_if_it_would_be_let_go_as_a_line_too(given: list[str]) -> None:
    prefix = CommandPrefix("git status")
    assert match_all(prefix, given) <= match_all(prefix, " ".join(given))
    assert match_any(prefix, given) >= min(MatchResult.PERHAPS, match_any(prefix, " ".join(given)))


@pytest.mark.parametrize(
    ("rule", "command", "forbidden"),
    [
        ("find ** -delete", "find . -name x -delete", MatchResult.YES),
        ("find ** -delete", "find -delete", MatchResult.YES),
        ("find ** -delete", "find . -del'ete'", MatchResult.YES),
        ("find ** -delete", ["find", ".", "-delete"], MatchResult.YES),
        ("find ** -delete", "find . -print", MatchResult.NO),
        ("find ** -exec*", "find . -execdir rm x +", MatchResult.YES),
        ("git ** --upload-pack*", "git fetch --upload-pack=x .", MatchResult.YES),
        ("git -c", "git -c a=b status", MatchResult.YES),
        ("git ** push", "git --no-pager push origin", MatchResult.YES),
    ],
)
def test_two_stars_stand_for_any_number_of_words(rule: str, command: object, forbidden: MatchResult) -> None:
    assert match_any(CommandPrefix(rule), command) is forbidden


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
    place = PathContext(project=project)
    for glob in ("secrets/**", "/p/**", "**"):
        assert match_any(PathGlob(glob), path, place) is MatchResult.PERHAPS
        assert match_all(PathGlob(glob), path, place) is MatchResult.NO


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
    place = PathContext(project=str(tmp_path))
    assert match_any(PathGlob(glob), path, place) is MatchResult.PERHAPS
    narrowing = PathContext(project=str(tmp_path), reaches=False)
    assert match_any(PathGlob(glob), path, narrowing) is MatchResult.NO


@pytest.mark.parametrize("path", ["src/a.py", "new.py", "src/new", "other"])
@pytest.mark.parametrize("glob", ["**/.env", "*/secrets/**", "secrets/**"])
def test_a_file_is_above_nothing(glob: str, path: str, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").touch()
    assert match_any(PathGlob(glob), path, PathContext(project=str(tmp_path))) is MatchResult.NO


def test_a_folder_fits_an_allow_only_with_all_that_is_beneath(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    place = PathContext(project=str(tmp_path))
    assert match_all(PathGlob("*"), "src", place) is MatchResult.NO
    assert match_all(PathGlob("src"), "src", place) is MatchResult.NO
    assert match_all(PathGlob("src/**"), "src", place) is MatchResult.YES
    assert match_all(PathGlob("*"), "a.py", place) is MatchResult.YES


def test_a_link_is_followed_as_it_is_now(tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "link").symlink_to("../secrets")
    place = PathContext(project=str(tmp_path))
    assert match_any(PathGlob("secrets/**"), "src/link/key", place) is MatchResult.PERHAPS
    assert match_all(PathGlob("src/**"), "src/link/key", place) is MatchResult.NO
    assert match_any(PathGlob("src/**"), "src/link/key", place) is MatchResult.YES
    assert match_any(PathGlob("key"), "src/link/../key", place) is MatchResult.PERHAPS


@pytest.mark.parametrize(
    ("folders", "path", "allowed", "forbidden"),
    [
        (("/p/a",), "secrets/key", MatchResult.YES, MatchResult.YES),
        (("/p/a", "/p"), "secrets/key", MatchResult.NO, MatchResult.YES),
        (("/p", "/p/a"), "secrets/key", MatchResult.NO, MatchResult.PERHAPS),
        (("",), "secrets/key", MatchResult.NO, MatchResult.PERHAPS),
        (("/p", ""), "x", MatchResult.NO, MatchResult.PERHAPS),
        (("",), "/p/a/secrets/key", MatchResult.YES, MatchResult.YES),
        (("/p/b", "/p"), "x", MatchResult.NO, MatchResult.NO),
    ],
)
def test_a_path_is_judged_from_every_folder_where_it_may_start(
    folders: tuple[str, ...], path: str, allowed: MatchResult, forbidden: MatchResult
) -> None:
    place = PathContext(project="/p", folders=folders)
    assert match_all(PathGlob("a/secrets/**"), path, place) is allowed
    assert match_any(PathGlob("a/secrets/**"), path, place) is forbidden


@pytest.mark.parametrize("path", ["secr*/key", "s?crets/key", "{secrets,x}/key", "[s]ecrets/key"])
def test_what_a_server_may_take_for_a_pattern_is_not_let_go_beside_a_deny(path: str, tmp_path: Path) -> None:
    place = PathContext(project=str(tmp_path))
    assert match_any(PathGlob("secrets/**"), path, place) is MatchResult.PERHAPS
    (tmp_path / path).parent.mkdir()
    (tmp_path / path).touch()
    assert match_any(PathGlob("secrets/**"), path, place) is MatchResult.NO


@pytest.mark.parametrize("value", ["a/" * 100_000, ["a/" * 4000] * 1000, ["x" * 1_000_000, "a"]], ids=len)
def test_paths_too_long_to_be_followed_are_neither_surely_allowed_nor_surely_free(value: Any) -> None:
    place = PathContext(project="/tmp")
    with little_work():
        assert match_any(PathGlob("secrets/**"), value, place) is MatchResult.PERHAPS
        assert match_all(PathGlob("**"), value, place) is MatchResult.NO


@pytest.mark.parametrize(
    "path",
    [
        "src/{a,../secrets/key}",
        "src/{a,{b,../../c}}",
        "src/{1..3}",
        "src/$HOME/x",
        "src/${X}",
        "src/*",
        "src/a?",
        "src/[ab]",
        "~/x",
    ],
)
def test_what_a_server_may_expand_is_let_go_by_no_rule_of_paths(path: str, tmp_path: Path) -> None:
    for place in (PathContext(), PathContext(project=str(tmp_path))):
        for value in (path, ["src/a", path]):
            assert match_all(PathGlob("src/**"), value, place) is MatchResult.NO


@pytest.mark.parametrize("name", ["[id].tsx", "$user.tsx", "a*b"])
def test_a_file_of_exactly_this_name_is_let_go_though_it_looks_like_a_pattern(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / "src").mkdir()
    place = PathContext(project=str(tmp_path))
    assert match_all(PathGlob("src/**"), f"src/{name}", place) is MatchResult.NO
    (tmp_path / "src" / name).touch()
    assert match_all(PathGlob("src/**"), f"src/{name}", place) is MatchResult.YES


def test_braces_that_leave_are_not_let_go_although_such_a_file_was_made(tmp_path: Path) -> None:
    (tmp_path / "src" / "{a,.." / "secrets").mkdir(parents=True)
    (tmp_path / "src" / "{a,.." / "secrets" / "key}").touch()
    path = "src/{a,../secrets/key}"
    assert match_all(PathGlob("src/**"), path, PathContext(project=str(tmp_path))) is MatchResult.NO


@pytest.mark.parametrize(
    ("command", "rule", "forbidden"),
    [
        ("git -C . push", "git push", MatchResult.YES),
        ("git --no-pager push origin", "git push", MatchResult.YES),
        (["git", "--git-dir", "x", "-C", "y", "push"], "git push", MatchResult.YES),
        ("ls && /usr/bin/git -C . push", "git push", MatchResult.YES),
        ("git -C push status", "git push", MatchResult.NO),
        ("git -C . status", "git push", MatchResult.NO),
        ("npm --silent publish", "npm publish", MatchResult.YES),
        ("kubectl -n prod delete pod x", "kubectl delete", MatchResult.PERHAPS),
        ("docker --context far push x", "docker push", MatchResult.PERHAPS),
        ("docker --context=far push x", "docker push", MatchResult.YES),
        ("kubectl -n prod get pods", "kubectl delete", MatchResult.NO),
        ("rm -r x", "rm -f", MatchResult.NO),
    ],
)
def test_options_before_the_word_do_not_hide_it_from_what_denies(
    command: object, rule: str, forbidden: MatchResult
) -> None:
    assert match_any(CommandPrefix(rule), command) is forbidden
