"""Which task somebody asks for, and when it is the same one."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Generator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.agent.forges.base import Trigger
from kakite.agent.forges.local.forge import LocalForge
from kakite.agent.issues.thread import IssueThread
from kakite.agent.issues.triage import (
    AcceptedTask,
    RejectedTask,
    decode_trigger,
    encode_trigger,
    find_pending_tasks,
    make_branch_name,
    make_task_id,
)
from kakite.durable.workflow import check_id
from tests.agent.desks import KINDS, NAMES, Ground, found, ground_of, public_of


@pytest.fixture(params=KINDS)
def ground(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Ground]:
    with ground_of(request.param, tmp_path) as made:
        yield made


def accept(ground: Ground, number: int) -> tuple[str, AcceptedTask | RejectedTask]:
    task, trigger = found(ground.forge, number)
    return task, asyncio.run(IssueThread(ground.forge, NAMES, task).accept(trigger))


def end(ground: Ground, task: str, begun: AcceptedTask, **more: object) -> None:
    desk = IssueThread(ground.forge, NAMES, task, accepted=begun)
    asyncio.run(desk.close(public_of(task, begun, **{"status": "limit", **more})))


def test_everybody_who_looks_finds_the_same_task(ground: Ground) -> None:
    number = ground.issue()
    assert found(ground.forge, number)[0] == found(ground.once(), number)[0]


def test_an_id_can_be_a_workflows(ground: Ground) -> None:
    task, _ = found(ground.forge, ground.issue())
    assert check_id(task) == task
    assert re.fullmatch(rf"{ground.kind}:[\w./+-]+#1@[0-9a-f]{{12}}", task)


def test_a_label_that_is_set_again_is_another_task(ground: Ground) -> None:
    number = ground.issue()
    first, begun = accept(ground, number)
    assert isinstance(begun, AcceptedTask)
    end(ground, first, begun)
    asyncio.run(ground.forge.set_state_label(number, "stopped", NAMES))
    assert asyncio.run(find_pending_tasks(ground.forge, NAMES)) == []
    relabel(ground, number)
    second, again = accept(ground, number)
    assert isinstance(again, AcceptedTask)
    assert first != second
    assert again.branch == begun.branch


def relabel(ground: Ground, number: int) -> None:
    if ground.fake is not None:
        item = ground.fake.state.get_issue(number)
        for label in NAMES.labels:
            ground.fake.state.unlabel(item, label, by="ann")
        ground.fake.state.label(item, NAMES.waiting, by="ann")
    else:
        asyncio.run(ground.forge.set_state_label(number, "waiting", NAMES))


def test_an_issue_of_which_a_task_lives_is_left_to_that_task(ground: Ground) -> None:
    number = ground.issue()
    task, begun = accept(ground, number)
    assert isinstance(begun, AcceptedTask)
    asyncio.run(ground.forge.set_state_label(number, "paused", NAMES))
    ground.say(number, "@kakite also the logout")
    assert asyncio.run(find_pending_tasks(ground.forge, NAMES, {task: True})) == []
    [(other, trigger)] = asyncio.run(find_pending_tasks(ground.forge, NAMES, {task: False}))
    assert (other != task, trigger.kind) == (True, "mention")


def test_an_answer_to_a_question_asks_for_no_new_task(ground: Ground) -> None:
    number = ground.issue(labels=("kakite:paused",))
    ground.say(number, f"@kakite approve {'ab' * 8}")
    assert asyncio.run(find_pending_tasks(ground.forge, NAMES)) == []
    ground.say(number, "@kakite budget +5\n\n@kakite and do this")
    assert len(asyncio.run(find_pending_tasks(ground.forge, NAMES))) == 1


def test_what_was_taken_up_by_mention_is_not_taken_up_again(ground: Ground) -> None:
    number = ground.issue(text="@kakite do it", labels=())
    task, begun = accept(ground, number)
    assert isinstance(begun, AcceptedTask)
    end(ground, task, begun)
    assert asyncio.run(find_pending_tasks(ground.forge, NAMES)) == []


def test_a_task_whose_label_went_meanwhile_is_not_begun_and_tells_nobody(ground: Ground) -> None:
    number = ground.issue()
    task, trigger = found(ground.forge, number)
    asyncio.run(ground.forge.set_state_label(number, "stopped", NAMES))
    refused = asyncio.run(IssueThread(ground.forge, NAMES, task).accept(trigger))
    assert isinstance(refused, RejectedTask)
    assert (refused.code, ground.comments(number).texts) == ("not_asked", [])


def test_two_tasks_for_one_issue_do_not_both_begin(ground: Ground) -> None:
    number = ground.issue()
    task, trigger = found(ground.forge, number)
    begun = asyncio.run(IssueThread(ground.forge, NAMES, task).accept(trigger))
    again = asyncio.run(IssueThread(ground.once(), NAMES, task).accept(trigger))
    other = asyncio.run(IssueThread(ground.forge, NAMES, f"{task}0").accept(trigger))
    assert isinstance(begun, AcceptedTask)
    assert isinstance(again, AcceptedTask)
    assert replace(begun, text="") == replace(again, text="")  # a folder tells another time after each change
    assert isinstance(other, RejectedTask)
    assert other.code == "taken"


def test_a_branch_whose_request_was_closed_is_followed_by_another(ground: Ground) -> None:
    number = ground.issue()
    task, begun = accept(ground, number)
    assert isinstance(begun, AcceptedTask)
    assert begun.branch == f"kakite/{number}-fix-login"
    ground.branch(begun.branch)
    desk = IssueThread(ground.forge, NAMES, task, accepted=begun)
    request = asyncio.run(desk.open_pull_request(public_of(task, begun), draft=True))
    assert request is not None
    ground.close_request(request["number"])
    end(ground, task, begun)
    relabel(ground, number)
    _, again = accept(ground, number)
    assert isinstance(again, AcceptedTask)
    assert again.branch == f"kakite/{number}-fix-login-r2"


def test_a_changed_title_keeps_the_branch(ground: Ground) -> None:
    number = ground.issue()
    task, begun = accept(ground, number)
    assert isinstance(begun, AcceptedTask)
    end(ground, task, begun)
    retitle(ground, number)
    relabel(ground, number)
    _, again = accept(ground, number)
    assert isinstance(again, AcceptedTask)
    assert (again.title, again.branch) == ("Something else", begun.branch)


def retitle(ground: Ground, number: int) -> None:
    if ground.fake is not None:
        ground.fake.state.edit(ground.fake.state.get_issue(number), by="ann", title="Something else")
    else:
        [file] = (ground.folder / "issues").glob("*.md")
        file.write_text(
            file.read_text(encoding="utf-8").replace("Fix login", "Something else"), encoding="utf-8"
        )


# A folder does not know when a label was set


def test_saving_a_file_again_asks_for_no_second_task(tmp_path: Path) -> None:
    with ground_of("local", tmp_path) as ground:
        task, _ = found(ground.forge, ground.issue())
        [file] = (tmp_path / "issues").glob("*.md")
        os.utime(file, (time.time() - 50, time.time() - 50))
        assert found(ground.forge, 1)[0] == task
        ground.say(1, "And this")
        assert found(ground.forge, 1)[0] == task


def test_a_label_set_again_is_a_new_task_also_where_a_person_has_deleted_our_comments(tmp_path: Path) -> None:
    with ground_of("local", tmp_path) as ground:
        task, begun = accept(ground, ground.issue())
        assert isinstance(begun, AcceptedTask)
        end(ground, task, begun)
        [file] = (tmp_path / "issues").glob("*.md")
        whole = file.read_text(encoding="utf-8").partition("\n## comment by")[0]
        file.write_text(whole.replace("kakite:paused", "kakite"), encoding="utf-8")
        assert found(ground.forge, 1)[0] == task
        [(again, _)] = asyncio.run(find_pending_tasks(ground.forge, NAMES, {task: False}))
        assert again == f"{task}.2"


def test_folders_of_the_same_name_have_tasks_of_their_own(tmp_path: Path) -> None:
    ids: set[str] = set()
    for place in (tmp_path / "a" / "書き 手", tmp_path / "b" / "書き 手"):
        place.mkdir(parents=True)
        with ground_of("local", place) as ground:
            task, _ = found(ground.forge, ground.issue())
            ids.add(check_id(task))
    assert len(ids) == 2


# Pure


KINDS_OF_TRIGGERS = st.builds(
    Trigger,
    number=st.integers(1, 10**9),
    kind=st.sampled_from(["label", "mention", "review"]),
    actor=st.text(min_size=1, max_size=20),
    at=st.datetimes(min_value=datetime(2000, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001 - Hypothesis wants it so
    request=st.none() | st.integers(1, 100),
    comment=st.none() | st.text(max_size=20),
    asked=st.text(max_size=12),
)


@given(KINDS_OF_TRIGGERS)
def test_a_trigger_is_the_same_after_it_was_stored(trigger: Trigger) -> None:
    assert decode_trigger(encode_trigger(trigger)) == trigger


@given(st.integers(1, 10**9), st.text(max_size=200))
def test_a_branch_is_a_name_that_git_takes(number: int, title: str) -> None:
    assert re.fullmatch(rf"kakite/{number}(-[a-z0-9]+)*", make_branch_name(number, title))


def test_a_title_in_another_script_gives_a_branch_all_the_same() -> None:
    assert make_branch_name(7, "ログインできない") == "kakite/7"
    assert make_branch_name(7, "Größe: naïve café!") == "kakite/7-groe-naive-cafe"


def test_a_mention_that_was_edited_is_the_same_task(tmp_path: Path) -> None:
    forge = LocalForge(tmp_path)
    early, late = (
        Trigger(number=1, kind="mention", actor="ann", at=datetime(2026, 1, day, tzinfo=UTC), comment="7")
        for day in (1, 2)
    )
    assert make_task_id(forge, early) == make_task_id(forge, late)
    forge.close()
