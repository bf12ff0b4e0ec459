"""The repository is behind a git server that refuses, fails, or is away for a while."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kakite.agent.git.mirror import GitError
from kakite.agent.observe.events import RunEvent, RunListener
from kakite_testing.forges import BOT, FakeGitLab, Fault, fake_gitlab
from tests.agent.scenarios.scene import BRANCH, DONE, PLANNED, Scene, at_turn, command, heard

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

WORK = (PLANNED, command("echo 2 > a"), DONE)
PUSHES = "git-receive-pack"
FETCHES = "info/refs"


@pytest.fixture
def forge(place: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[FakeGitLab]:
    """A server whose token stands in the variable that is meant for it."""
    with fake_gitlab(place, files={"a": "1\n"}) as running:
        monkeypatch.setenv("KAKITE_GIT_TOKEN", running.token)
        yield running


@pytest.fixture
def scene(place: Path, forge: FakeGitLab) -> Scene:
    return Scene(place, forge.git_url)


def pushed_once(forge: FakeGitLab) -> bool:
    return (
        forge.repository.count_ahead(BRANCH, "main") == 1
        and forge.repository.git("show", f"{BRANCH}:a") == "2"
    )


async def refused(scene: Scene, listener: RunListener | None = None) -> GitError:
    with pytest.raises(GitError) as caught:
        await scene.play(*WORK, listener=listener)
    return caught.value


def no_trace(place: Path, secret: str, *also: str) -> bool:
    """Whether a secret stands in nothing that a run keeps, nor in these texts."""
    kept = (path for path in (place / "run").rglob("*") if path.is_file() and not path.is_symlink())
    return not any(secret.encode() in path.read_bytes() for path in kept) and secret not in "".join(also)


@pytest.mark.parametrize(
    ("status", "said"),
    [(401, "Authentication failed"), (403, "403"), (404, "not found"), (500, "500"), (503, "503")],
)
async def test_a_clone_that_is_refused_says_why_and_the_run_is_there_to_go_on_with(
    place: Path, scene: Scene, forge: FakeGitLab, status: int, said: str
) -> None:
    forge.fail(Fault(status=status, path=FETCHES, times=9))
    error = await refused(scene)
    assert error.code == "clone_failed"
    assert said in error.message
    assert error.hint
    forge.front.faults.clear()
    assert (await scene.play(*WORK)).status == "done"
    assert pushed_once(forge)
    assert no_trace(place, forge.token, error.message, error.hint)


@pytest.mark.parametrize("status", [401, 404, 502])
async def test_a_push_that_is_refused_keeps_the_work_and_goes_on_without_the_model(
    place: Path, scene: Scene, forge: FakeGitLab, status: int
) -> None:
    before = at_turn(3, lambda: forge.fail(Fault(status=status, path=r"\.git/", times=9)))
    error = await refused(scene, before)
    assert error.code == "push_failed"
    assert "kakite agent resume" in error.hint
    assert scene.stored().phase == "push"
    forge.front.faults.clear()
    run = await scene.play()
    assert (run.status, scene.turns_left) == ("done", 1)
    assert pushed_once(forge)
    assert no_trace(place, forge.token, error.message, error.hint)


async def test_a_token_that_ended_is_named_and_another_one_goes_on(
    scene: Scene, forge: FakeGitLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = at_turn(3, forge.access.expire)
    error = await refused(scene, before)
    assert (error.code, "Authentication failed" in error.message) == ("push_failed", True)
    monkeypatch.setenv("KAKITE_GIT_TOKEN", forge.access.grant(BOT))
    assert (await scene.play()).status == "done"
    assert pushed_once(forge)


async def test_one_who_may_only_read_is_told_so_at_the_push(scene: Scene, forge: FakeGitLab) -> None:
    def demote() -> None:
        forge.state.people[BOT] = "read"

    error = await refused(scene, at_turn(3, demote))
    assert (error.code, "403" in error.message) == ("push_failed", True)
    forge.state.people[BOT] = "write"
    assert (await scene.play()).status == "done"


async def test_an_answer_that_was_lost_after_the_push_is_no_second_push(
    scene: Scene, forge: FakeGitLab
) -> None:
    lost = Fault(method="POST", path=PUSHES, after=True, drop=True)
    error = await refused(scene, at_turn(3, lambda: forge.fail(lost)))
    assert error.code == "push_failed"
    assert pushed_once(forge)
    commit = forge.repository.get_head(BRANCH)
    run = await scene.play()
    assert (run.status, run.commit, forge.repository.get_head(BRANCH)) == ("done", commit, commit)


@pytest.mark.parametrize("meanwhile", ["nothing", "somebody-pushes"])
async def test_a_server_that_is_away_at_the_end_is_asked_again_when_it_is_back(
    scene: Scene, forge: FakeGitLab, meanwhile: str
) -> None:
    with ExitStack() as away:
        error = await refused(scene, at_turn(3, lambda: away.enter_context(forge.simulate_outage())))
        assert error.code == "push_failed"
        with pytest.raises(GitError) as caught:
            await scene.play()
        assert caught.value.code == "push_failed"
        if meanwhile == "somebody-pushes":
            forge.repository.commit({"b": "1\n"}, "Theirs", branch=BRANCH)
    run = await scene.play()
    assert (run.status, scene.turns_left) == ("done", 1)
    assert forge.repository.git("show", f"{BRANCH}:a") == "2"
    assert forge.repository.count_ahead(BRANCH, "main") == (2 if meanwhile == "somebody-pushes" else 1)


async def test_a_server_that_fails_in_a_fetch_of_the_models_tells_the_model(
    scene: Scene, forge: FakeGitLab
) -> None:
    def listen(event: RunEvent) -> None:
        at_turn(2, lambda: forge.fail(Fault(status=503, path=FETCHES, times=9)))(event)
        at_turn(3, forge.front.faults.clear)(event)

    run = await scene.play(PLANNED, command("git fetch origin; echo 2 > a"), DONE, listener=listen)
    assert run.status == "done"
    assert "503" in heard(run)[0]
    assert pushed_once(forge)
