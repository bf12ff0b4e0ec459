"""Other people push, delete and rewrite branches while a run is at work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kakite.agent.git.mirror import GitError
from tests.agent.scenarios.scene import BRANCH, DONE, PLANNED, Scene, at_turn, command, told
from tests.repositories import commit_file, git, make_remote

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

LINES = "".join(f"line {number}\n" for number in range(12))


def push(remote: Path, line: str, *, branch: str = BRANCH, start: str = "main") -> str:
    """Change a clone by a line of shell as somebody else, push it by force as a branch, return the commit."""
    work = remote.parent / f"rival-{branch}-{len(list(remote.parent.iterdir()))}"
    git(remote.parent, "clone", "--quiet", str(remote), str(work))
    git(work, "checkout", "--quiet", "-B", branch, f"origin/{start}")
    (work / ".git" / "deed").write_text(line, encoding="utf-8")
    git(work, "-c", f"alias.deed=!sh -e {work}/.git/deed", "deed")
    git(work, "add", "--all")
    git(work, "commit", "--quiet", "--allow-empty", "--message=Theirs")
    git(work, "push", "--quiet", "--force", "origin", branch)
    return git(work, "rev-parse", "HEAD")


@pytest.mark.parametrize(
    ("theirs", "ours", "mend", "holds"),
    [
        ("printf 'theirs\\0' > a", "printf 'ours\\0' > a", "printf 'both\\0' > a", {"a": "both\0"}),
        ("git rm -q a", "echo 2 > a", "git add a", {"a": "2"}),
        ("echo 3 > a", "git rm -q a", "echo 2 > a", {"a": "2"}),
        ("echo 3 > new", "echo 2 > new", "printf '3\\n2\\n' > new", {"new": "3\n2"}),
        ("git mv a theirs", "git mv a ours", "git add -A", {"ours": "1", "theirs": "1"}),
    ],
    ids=["binary", "they-deleted", "we-deleted", "both-added", "both-renamed"],
)
async def test_a_conflict_that_the_model_resolves_is_pushed_on_top_of_theirs(
    place: Path, theirs: str, ours: str, mend: str, holds: dict[str, str]
) -> None:
    remote = make_remote(place, {"a": "1\n", "other": "1\n"})
    pushed: list[str] = []
    rival = at_turn(3, lambda: pushed.append(push(remote, theirs)))
    run = await Scene(place, remote).play(PLANNED, command(ours), DONE, command(mend), DONE, listener=rival)
    assert run.status == "done"
    assert git(remote, "rev-parse", f"{BRANCH}~1") == pushed[0]
    assert {name: git(remote, "show", f"{BRANCH}:{name}") for name in holds} == holds


async def test_a_conflict_in_which_the_model_keeps_theirs_is_no_change(place: Path) -> None:
    remote = make_remote(place, {"a": "1\n"})
    theirs: list[str] = []
    rival = at_turn(3, lambda: theirs.append(push(remote, "echo 3 > a")))
    keep = command("git add a")
    run = await Scene(place, remote).play(PLANNED, command("git rm -q a"), DONE, keep, DONE, listener=rival)
    assert (run.status, run.diff) == ("no_changes", "")
    assert git(remote, "rev-parse", BRANCH) == theirs[0]


@pytest.mark.parametrize(
    ("theirs", "holds"),
    [
        ("git mv a moved", {"moved": "ours\n" + LINES.rstrip()}),
        ("echo theirs >> a", {"a": "ours\n" + LINES + "theirs"}),
        ("mkdir d; git mv other d/other", {"a": "ours\n" + LINES.rstrip(), "d/other": "1"}),
        ("chmod +x a", {"a": "ours\n" + LINES.rstrip()}),
    ],
    ids=["renamed", "the-other-end", "another-folder", "mode"],
)
async def test_what_does_not_meet_is_put_together_without_the_model(
    place: Path, theirs: str, holds: dict[str, str]
) -> None:
    remote = make_remote(place, {"a": LINES, "other": "1\n"})
    rival = at_turn(3, lambda: push(remote, theirs))
    scene = Scene(place, remote)
    run = await scene.play(PLANNED, command("sed -i '1i ours' a"), DONE, listener=rival)
    assert (run.status, scene.turns_left) == ("done", 0)
    assert {name: git(remote, "show", f"{BRANCH}:{name}") for name in holds} == holds


async def test_what_they_took_back_by_a_forced_push_does_not_come_back(place: Path) -> None:
    remote = make_remote(place, {"a": "1\n"})
    commit_file(place, remote, BRANCH, "secret", "S3CRET\n")
    theirs: list[str] = []
    rival = at_turn(3, lambda: theirs.append(push(remote, "echo kept > kept")))
    run = await Scene(place, remote).play(PLANNED, command("echo 2 > a"), DONE, listener=rival)
    assert run.status == "done"
    assert git(remote, "rev-parse", f"{BRANCH}~1") == theirs[0]
    assert git(remote, "ls-tree", "--name-only", BRANCH).split() == ["a", "kept"]
    assert "secret" not in run.diff


async def test_what_they_took_back_by_moving_the_branch_back_does_not_come_back(place: Path) -> None:
    remote = make_remote(place, {"a": "1\n"})
    commit_file(place, remote, BRANCH, "secret", "S3CRET\n")
    rival = at_turn(3, lambda: git(remote, "update-ref", f"refs/heads/{BRANCH}", "main"))
    run = await Scene(place, remote).play(PLANNED, command("echo 2 > a"), DONE, listener=rival)
    assert run.status == "done"
    assert git(remote, "rev-parse", f"{BRANCH}~1") == git(remote, "rev-parse", "main")
    assert git(remote, "ls-tree", "--name-only", BRANCH).split() == ["a"]


async def test_a_forced_push_of_the_default_branch_does_not_touch_a_run_on_its_own(place: Path) -> None:
    remote = make_remote(place, {"a": "1\n"})
    began = git(remote, "rev-parse", "main")
    rival = at_turn(3, lambda: push(remote, "git checkout -q --orphan o; echo 9 > a", branch="main"))
    run = await Scene(place, remote).play(PLANNED, command("echo 2 > a"), DONE, listener=rival)
    assert (run.status, run.base) == ("done", began)
    assert git(remote, "rev-parse", f"{BRANCH}~1") == began


async def test_a_branch_that_was_deleted_meanwhile_is_there_again_with_all_of_it(place: Path) -> None:
    remote = make_remote(place, {"a": "1\n"})
    before = commit_file(place, remote, BRANCH, "b", "1\n")
    rival = at_turn(3, lambda: git(remote, "branch", "-D", BRANCH))
    run = await Scene(place, remote).play(PLANNED, command("echo 2 > a"), DONE, listener=rival)
    assert run.status == "done"
    assert git(remote, "rev-parse", f"{BRANCH}~1") == before


@pytest.mark.parametrize("deed", ["main", "remote"])
async def test_a_remote_that_is_gone_or_renamed_its_branch_keeps_the_work(place: Path, deed: str) -> None:
    remote = make_remote(place, {"a": "1\n"})
    gone = place / "elsewhere.git"
    deeds: dict[str, Callable[[], object]] = {
        "main": lambda: git(remote, "branch", "-m", "main", "trunk"),
        "remote": lambda: remote.rename(gone),
    }
    scene = Scene(place, remote)
    rival = at_turn(3, deeds[deed])
    if deed == "remote":
        with pytest.raises(GitError) as caught:
            await scene.play(PLANNED, command("echo 2 > a"), DONE, listener=rival)
        assert caught.value.code == "push_failed"
        gone.rename(remote)
        run = await scene.play()
    else:
        run = await scene.play(PLANNED, command("echo 2 > a"), DONE, listener=rival)
    assert run.status == "done"
    assert git(remote, "show", f"{BRANCH}:a") == "2"


async def test_a_hook_that_refuses_is_heard_and_the_push_goes_on_once_it_does_not(place: Path) -> None:
    remote = make_remote(place, {"a": "1\n"})
    hook = remote / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho 'topic is protected: ask Ann' >&2\nexit 1\n", encoding="utf-8")
    hook.chmod(0o755)
    scene = Scene(place, remote)
    with pytest.raises(GitError) as caught:
        await scene.play(PLANNED, command("echo 2 > a"), DONE)
    assert caught.value.code == "push_failed"
    assert "topic is protected: ask Ann" in caught.value.message
    assert "kakite agent resume" in caught.value.hint
    hook.unlink()
    run = await scene.play()  # with a model that nobody asks
    assert (run.status, scene.turns_left) == ("done", 1)
    assert git(remote, "show", f"{BRANCH}:a") == "2"


async def test_somebody_who_always_is_faster_ends_the_run_with_the_work_kept(place: Path) -> None:
    remote = make_remote(place, {"a": "1\n"})
    hook = remote / "hooks" / "pre-receive"  # moves the branch away under every push of ours
    mine = "-c user.name=R -c user.email=r@l"
    hook.write_text(
        "#!/bin/sh\nunset GIT_QUARANTINE_PATH GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES\n"
        f"tip=$(git rev-parse -q --verify refs/heads/{BRANCH} || git rev-parse main)\n"
        f'next=$(git {mine} commit-tree -p $tip -m x "$tip^{{tree}}")\n'
        f"git update-ref refs/heads/{BRANCH} $next\n",
        encoding="utf-8",
    )
    hook.chmod(0o755)
    scene = Scene(place, remote)
    run = await scene.play(PLANNED, command("echo 2 > a"), DONE)
    assert (run.status, run.pushed) == ("conflict", False)
    hook.unlink()
    run = await scene.play()
    assert run.status == "done"
    assert git(remote, "show", f"{BRANCH}:a") == "2"
    assert not any("conflict" in text for text in told(run))
