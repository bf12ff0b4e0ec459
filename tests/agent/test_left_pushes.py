"""What a command pushed or committed by itself: the report says so, whatever the work tree holds."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from kakite.agent.run import state_machine
from kakite.agent.run.runner import continue_task, open_run_session, run_task
from kakite.agent.run.state import RunState, build_run_result, get_check_result
from kakite.cli.agent.run_report import to_report_json
from tests.agent.test_clean_check import run_checked
from tests.agent.test_runner import BRANCH, DONE, command, parts_of, run_of
from tests.bounds import WITHIN
from tests.repositories import commit_file, git, make_remote

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

AS_MODEL = "git -c user.name=M -c user.email=m@l"
HIDE = (
    f"echo hidden > hidden; git add hidden; {AS_MODEL} commit -qm Hidden; "
    f"git push -q origin HEAD:{BRANCH}; git reset -q --keep HEAD~1; "
    f"git update-ref -d refs/remotes/origin/{BRANCH}"
)
PLAN = json.dumps({"goal": "g", "steps": ["edit"], "title": "Planned", "check": "true"})


@pytest.fixture
def place() -> Generator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def assert_told(run: RunState, remote: Path) -> None:
    told = to_report_json(run)
    tip = git(remote, "rev-parse", BRANCH)
    assert (told["pushed"], told["commit"], told["checked"]) == (True, tip, None)
    assert "+hidden" in run.diff
    assert "hidden" in build_run_result(run).diffstat
    assert [each.subject for each in run.commits] == ["Hidden"]


async def test_a_pushed_commit_that_the_work_tree_has_not_is_the_runs(place: Path) -> None:
    remote = make_remote(place, {"a": "1\n"})
    patch = place / "patch"
    task, parts = parts_of(place, remote, {"say": PLAN}, command(HIDE), DONE, DONE)
    run = await run_task(replace(task, patch=str(patch)), parts(None))
    assert run.status == "done"
    assert_told(run, remote)
    assert "pushed_by_command" in build_run_result(run).doubt
    assert b"+hidden" in patch.read_bytes()


@pytest.mark.parametrize("is_cloned_anew", [False, True])
async def test_so_it_is_at_a_limit_and_the_run_goes_on_from_there(place: Path, is_cloned_anew: bool) -> None:
    remote = make_remote(place, {"a": "1\n"})
    task, parts = parts_of(place, remote, {"say": PLAN}, command(HIDE))
    run = await run_task(replace(task, max_turns=2), parts(None))
    assert run.status == "limit"
    assert_told(run, remote)
    task, parts = parts_of(place, remote, command("echo 2 > a"), DONE)
    if is_cloned_anew:
        shutil.rmtree(parts(None).mirror.folder)
    run = await run_task(task, parts(None))
    assert (run.status, get_check_result(run)) == ("done", True)
    assert "+hidden" in run.diff
    assert [each.subject for each in run.commits] == ["Hidden", "Planned"]
    assert run.commit == git(remote, "rev-parse", BRANCH)


async def test_it_is_the_runs_as_soon_as_a_step_has_ended_the_run(place: Path) -> None:
    remote = make_remote(place, {"a": "1\n"})
    task, parts = parts_of(place, remote, {"say": PLAN}, command(HIDE), DONE, DONE)
    await parts(None).mirror.create()
    base = await parts(None).mirror.find_start_commit(BRANCH)
    run = replace(state_machine.create_run_state(task, ""), base=base)
    async with open_run_session(run, parts(None)) as session:
        run = session.run
        while run.status is None:  # as a worker does it: by the status alone
            run = await session.perform(run, state_machine.next_action(run))
    assert run.status == "done"
    assert_told(run, remote)


async def test_a_further_round_tells_what_its_commands_pushed(place: Path) -> None:
    remote = make_remote(place, {"a": "1\n"})
    task, parts = parts_of(place, remote, {"say": PLAN}, command("echo 2 > a"), DONE)
    first = await run_task(task, parts(None))
    task, parts = parts_of(place, remote, {"say": PLAN}, command(HIDE), DONE, DONE)
    run = await run_task(await continue_task(task, parts(None), "More"), parts(None))
    assert (run.status, run.base) == ("done", first.commit)
    assert_told(run, remote)


async def test_a_push_that_was_killed_on_its_way_is_told_and_not_taken_for_anothers(place: Path) -> None:
    remote = make_remote(place, {"a": "1\n"})
    reached, go = place / "reached", place / "go"
    hook = remote / "hooks" / "post-receive"
    hook.parent.mkdir(exist_ok=True)
    wait = "while ! test -e {}; do sleep 0.05; done"
    hook.write_text(f"#!/bin/sh\ntouch {reached}\n{wait.format(go)}\n", encoding="utf-8")
    hook.chmod(0o755)
    killed = (
        f"echo hidden > hidden; git add hidden; {AS_MODEL} commit -qm Hidden; "
        f"git push -q origin HEAD:{BRANCH} & p=$!; {wait.format(reached)}; kill -9 $p; wait; "
        f"touch {go}; git fetch -q origin; echo 2 > a"
    )
    with anyio.fail_after(WITHIN * 2):
        run = await run_of(place, remote, command(killed))
    assert run.status == "done"
    assert run.base == git(remote, "rev-parse", "main")
    assert "+hidden" in run.diff
    assert [each.subject for each in run.commits] == ["Hidden", "Make a 2"]
    assert [step.commit for step in run.steps if step.kind == "push"] == [
        git(remote, "rev-parse", f"{BRANCH}~1"),
        "",
    ]


async def test_what_others_pushed_to_the_branch_is_not_the_runs(place: Path) -> None:
    remote = make_remote(place, {"a": "1\n"})
    task, parts = parts_of(place, remote, {"say": PLAN}, command("git fetch"), DONE, DONE)
    commit_file(place, remote, "main", "b", "1\n")
    git(remote, "branch", BRANCH, "main")
    run = await run_task(task, parts(None))
    assert (run.status, run.pushed, run.commit, run.diff) == ("no_changes", False, "", "")


async def test_the_step_has_the_subject_of_the_commit_that_there_is(place: Path) -> None:
    remote = make_remote(place, {"a": "1\n"})
    own = f"echo 2 > a; {AS_MODEL} commit -qam 'Fix; closes #1' --author='Someone <s@l>'"
    run = await run_of(place, remote, command(own))
    (step,) = [step for step in run.steps if step.kind == "commit"]
    assert step.text == f"{run.commit[:10]} Fix; closes #1"
    assert to_report_json(run)["commits"] == [
        {"commit": run.commit, "subject": "Fix; closes #1", "author": "Someone <s@l>"}
    ]


async def test_a_file_that_came_and_went_is_in_the_commits(place: Path) -> None:
    remote = make_remote(place, {"a": "1\n"})
    commit = f"{AS_MODEL} commit -qm"
    line = f"echo x > x; git add x; {commit} Come; git rm -q x; {commit} Go; echo 2 > a"
    run = await run_of(place, remote, command(line))
    assert [each.subject for each in run.commits] == ["Come", "Go", "Make a 2"]
    assert [each.commit for each in run.commits] == git(
        remote, "rev-list", "--reverse", f"main..{BRANCH}"
    ).split()


async def test_a_check_that_fails_now_and_then_is_not_repeated_into_a_pass(place: Path) -> None:
    count = place / "count"  # outside of every sandbox: as chance is
    check = f"echo >> {count}; test $(wc -l < {count}) -ne 2"
    run = await run_checked(place, check, kind="local")
    assert (run.status, get_check_result(run)) == ("done", None)
    assert "check_flaky" in build_run_result(run).doubt
