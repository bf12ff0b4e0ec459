"""The host's side of git: addresses, credentials, the mirror."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.agent.git.mirror import GitError, Mirror
from kakite.agent.git.url import RepoUrl, build_git_environment, parse_repo_url
from kakite.agent.run.store import choose_branch_name
from kakite.errors import UsageError
from tests.repositories import commit_file, git, make_remote

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("given", "url", "username", "password"),
    [
        ("https://u:p%40ss@host/x.git", "https://host/x.git", "u", "p@ss"),
        ("https://token@host:8443/x.git", "https://host:8443/x.git", "token", ""),
        ("https://host/x.git", "https://host/x.git", "", ""),
        ("https://u:p@w@host/x.git", "https://host/x.git", "u", "p@w"),
        ("https://host/@scope/a@b.git", "https://host/@scope/a@b.git", "", ""),
        ("file:///srv/a@b.git", "file:///srv/a@b.git", "", ""),
        ("ssh://git@host/x.git", "ssh://git@host/x.git", "", ""),
        ("git@host:team/x.git", "git@host:team/x.git", "", ""),
    ],
)
def test_credentials_are_set_apart_from_an_address(
    given: str, url: str, username: str, password: str
) -> None:
    address = parse_repo_url(given)
    assert (address.url, address.username, address.password) == (url, username, password)
    assert not password or password not in repr(address)


_BREAKING = "/?#[]@: %é"
_PART = st.text(f"ab1{_BREAKING}", max_size=6)


@given(
    st.sampled_from(["https", "HTTP", "ssh", "git", "ftp", "hg::https", " https", "-u https", "1", ""]),
    st.tuples(_PART, _PART),
    st.sampled_from(["host", "host:81", "127.0.0.1:port", "[::1]", "[::1", "host:99999999", ""]),
)
def test_no_character_of_a_password_brings_it_to_light(
    scheme: str, around: tuple[str, str], host: str
) -> None:
    address = f"{scheme}://user:{around[0]}S3CRET{around[1]}@{host}/x.git"
    try:
        said = repr(parse_repo_url(address))
    except UsageError as error:
        said = f"{error} {error.hint} {error.__cause__}"
    assert "S3CRET" not in said


@pytest.mark.parametrize(
    "given",
    [
        "https://user:S3/a@host/x.git",
        "https://user:1/S3@host/x.git",
        "https://user:p@S3/a@host/x.git",
        "https://t@S3/a@host/x.git",
        "https://user:S3#a@host/x.git",
        "https://user:S3?a@host/x.git",
        "https://user:p@[::1/x.git",
        "https://user:S3@host:port/x.git",
        "https://user:S3\u2100@host/x.git",
        "https://host/x.git?token=a@S3",
        "hg::https://user:S3@host/x",
        "-u https://user:S3@host/x",
    ],
)
def test_an_address_that_may_be_read_in_two_ways_is_refused_unseen(given: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_repo_url(given)
    told = f"{caught.value} {caught.value.hint} {caught.value.__cause__}"
    assert (caught.value.code, "S3" in told) == ("bad_repository", False)


@pytest.mark.parametrize("password", ["S3CRET", "S3/CRET", "S3?CRET", "S3#CRET", "S3@CRET", "a:S3/://CRET"])
async def test_no_password_of_the_persons_settings_is_told(tmp_path: Path, password: str) -> None:
    settings = f'[url "https://tok:{password}@127.0.0.1:1/"]\n\tinsteadOf = "https://git.example/"\n'
    (tmp_path / ".gitconfig").write_text(settings, encoding="utf-8")
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    mirror = Mirror(tmp_path / "m", parse_repo_url("https://git.example/x.git"), environ)
    with pytest.raises(GitError) as caught:
        await mirror.create()
    assert "127.0.0.1" in str(caught.value)
    assert not {"S3", "CRET"} & set(re.findall("S3|CRET", str(caught.value)))


def test_a_folder_without_a_repository_is_told_from_one_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="without a git repository") as caught:
        parse_repo_url(str(tmp_path))
    assert "git init" in caught.value.hint
    git(tmp_path, "init", "--quiet")
    assert parse_repo_url(str(tmp_path)).url == str(tmp_path.resolve())
    (tmp_path / "inner").mkdir()
    with pytest.raises(UsageError) as caught:
        parse_repo_url(str(tmp_path / "inner"))
    assert str(tmp_path.resolve()) in caught.value.hint


def test_what_is_neither_folder_nor_address_is_refused() -> None:
    for text in ("no/such/folder", "--upload-pack=evil", ""):
        with pytest.raises(UsageError):
            parse_repo_url(text)


def test_git_is_given_credentials_by_its_environment_alone() -> None:
    environment = build_git_environment(
        parse_repo_url("https://u:secret@host/x.git"), {"PATH": os.environ["PATH"]}
    )
    asked = subprocess.run(
        ["git", "credential", "fill"],
        input="protocol=https\nhost=host\n\n",
        env=environment,
        capture_output=True,
        check=True,
        encoding="utf-8",
    )
    assert "username=u\npassword=secret\n" in asked.stdout


@pytest.mark.parametrize(
    "branch", ["a..b", "-x", "x y", "x.lock", "@{x}", "", "a//b", "HEAD", "x/", "/x", "x.", "a/.b"]
)
def test_a_name_that_git_would_not_take_for_a_branch_is_refused(branch: str) -> None:
    with pytest.raises(UsageError) as caught:
        choose_branch_name(branch, "t", "1")
    assert caught.value.code == "bad_branch"


@pytest.mark.parametrize("text", ["Fix the thing!", "直して", "a" * 500, "", "../../x", "-rf"])
def test_a_branch_made_of_any_task_is_one_that_git_takes(text: str, tmp_path: Path) -> None:
    name = choose_branch_name(None, text, "1a2b3c4d")
    subprocess.run(
        ["git", "check-ref-format", "--branch", name], check=True, capture_output=True, cwd=tmp_path
    )
    assert "1a2b3c4d" in name


async def test_a_mirror_starts_at_the_branch_if_it_exists_and_else_at_the_default(tmp_path: Path) -> None:
    remote = make_remote(tmp_path, {"a": "1"})
    main = git(remote, "rev-parse", "main")
    other = commit_file(tmp_path, remote, "topic", "b", "2")
    mirror = Mirror(tmp_path / "mirror.git", parse_repo_url(str(remote)), os.environ)
    await mirror.create()
    assert await mirror.find_start_commit("topic") == other
    assert await mirror.find_start_commit("new") == main


async def test_an_empty_repository_is_named_so(tmp_path: Path) -> None:
    git(tmp_path, "init", "--bare", "--quiet", "empty.git")
    mirror = Mirror(tmp_path / "mirror.git", parse_repo_url(str(tmp_path / "empty.git")), os.environ)
    await mirror.create()
    with pytest.raises(GitError) as caught:
        await mirror.find_start_commit("b")
    assert caught.value.code == "empty_repository"


async def test_what_cannot_be_cloned_is_named_and_leaves_nothing_half_made(tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    # As where a repository went away after it was named.
    mirror = Mirror(tmp_path / "mirror.git", RepoUrl(str(tmp_path / "nothing")), os.environ)
    with pytest.raises(GitError) as caught:
        await mirror.create()
    assert caught.value.code == "clone_failed"
    assert not mirror.folder.exists()


LOCKS = ["refs/heads/ours.lock", "refs/kakite/wip/t.lock", "packed-refs.lock"]


async def moved_with(remote: Path, lock: str, folder: Path) -> bool:
    """Push a branch and work in progress, and take that away again, where a lock was left; False: in vain."""
    mirror = Mirror(folder / "mirror.git", parse_repo_url(str(remote)), os.environ)
    await mirror.create()
    ours = commit_file(folder, mirror.folder, "ours", "a", "ours")
    git(mirror.folder, "update-ref", "refs/kakite/out", ours)
    (remote / lock).parent.mkdir(parents=True, exist_ok=True)
    (remote / lock).touch()
    try:
        pushed = await mirror.push("ours")
        await mirror.push_checkpoint_refs({"refs/kakite/wip/t": ours})
        await mirror.delete_checkpoint_refs("refs/kakite/wip/t")
    except GitError:
        return False
    return pushed


@pytest.mark.parametrize("lock", LOCKS)
async def test_a_lock_that_a_killed_push_left_in_a_repository_of_this_machine_is_in_nobodys_way(
    tmp_path: Path, lock: str
) -> None:
    remote = make_remote(tmp_path, {"a": "1"})
    assert await moved_with(remote, lock, tmp_path)
    left = git(remote, "for-each-ref", "--format=%(refname)").splitlines()
    assert (left, (remote / lock).exists()) == (["refs/heads/main", "refs/heads/ours"], False)


@pytest.mark.parametrize("lock", LOCKS)
async def test_a_lock_stays_as_long_as_git_is_at_work_in_that_repository(tmp_path: Path, lock: str) -> None:
    remote = make_remote(tmp_path, {"a": "1"})
    at_work = await asyncio.create_subprocess_exec(
        *("git", "-C", str(remote), "cat-file", "--batch"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert not await moved_with(remote, lock, tmp_path)
    finally:
        at_work.kill()
        await at_work.communicate()
    assert (remote / lock).exists()


async def test_a_push_is_never_forced(tmp_path: Path) -> None:
    remote = make_remote(tmp_path, {"a": "1"})
    mirror = Mirror(tmp_path / "mirror.git", parse_repo_url(str(remote)), os.environ)
    await mirror.create()
    theirs = commit_file(tmp_path, remote, "main", "a", "theirs")
    git(mirror.folder, "update-ref", "refs/kakite/out", "refs/heads/main")
    ours = commit_file(tmp_path, mirror.folder, "ours", "a", "ours")
    git(mirror.folder, "update-ref", "refs/kakite/out", ours)
    assert not await mirror.push("main")
    assert git(remote, "rev-parse", "main") == theirs
    assert await mirror.push("free")
    assert git(remote, "rev-parse", "free") == ours
