"""The workflow of a task, with steps that do nothing: what it does next, whatever comes back.

Each telling is strict: dropped after every step and told again from its first word.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import anyio.lowlevel
import pytest

from kakite.agent.issues.triage import AcceptedTask
from kakite.agent.worker.loop import stop_task
from kakite.agent.worker.status import TaskOrigin
from kakite.agent.worker.workflow import RETRY_DELAYS, TASK_WORKFLOW
from kakite.durable.client import END_STATES, WorkflowDescription
from kakite.durable.workflow import make_error_value
from kakite_testing.in_memory_workflows import InMemoryWorkflowClient
from tests.durable.waiting import until

pytestmark = pytest.mark.anyio

START: dict[str, Any] = {
    "id": "local:x#1@1",
    "forge": {"kind": "local"},
    "trigger": {},
    "settings": {},
    "on_ask": "pause",
}
PUBLIC: dict[str, Any] = {
    "id": START["id"],
    "repository": "/r",
    "branch": "b",
    "phase": "act",
    "status": None,
    "turn": 1,
    "plan": None,
    "asks": None,
    "pushed": False,
    "commit": "",
    "error": None,
    "head": "h",
}
ORIGIN = TaskOrigin(id=START["id"], title="t", forge="local", issue=1, address="", started="")
ACCEPTED = AcceptedTask(
    issue=1,
    title="t",
    text="t",
    address="",
    repository="/r",
    default_branch="main",
    branch="b",
    base="main",
    request=None,
    ids=(),
    seen=(),
    asked_at="2026-01-01T00:00:00+00:00",
)
DOWN = {**make_error_value("forge_unavailable", "the forge is down"), "again": True, "after": None}
WRONG = {**make_error_value("model_auth", "a wrong key"), "again": False, "after": None}


def moved(head: str, status: str | None = None, **public: Any) -> dict[str, Any]:
    """Return what a step says that came to this head."""
    told = {**PUBLIC, "status": status, "head": head, **public}
    saved = {"head": head, "commit": "c", "on": "c"}
    return {"head": head, "public": told, "saved": saved, "finished": status}


DONE = moved("end", "done", pushed=True, commit="c", phase="done")
ENDLESS: dict[str, Any] = {}
QUIET: dict[str, Any] = {"text": "", "seen": [], "ids": [], "wish": "go_on", "why": ""}


@dataclass
class Steps:
    """What the steps say, in order; the last one again and again."""

    advance: list[Any]
    news: list[Any] = field(default_factory=lambda: [QUIET])
    close: list[Any] = field(default_factory=lambda: [{"request": {"number": 1, "address": "a"}}])
    begun: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    opened: list[Any] = field(default_factory=list[Any])
    announce: list[Any] = field(default_factory=lambda: [{"draft": "d"}])
    early: bool = False

    def effects(self) -> dict[str, Any]:
        accepted = {**asdict(ACCEPTED), "seen": ["s"]}
        opened = {
            "head": "first",
            "base": "base",
            "begun": asdict(ORIGIN),
            "public": PUBLIC,
            "accepted": accepted,
            "early": self.early,
        }
        said: dict[str, list[Any]] = {
            "open": self.opened or [opened],
            "advance": self.advance,
            "news": self.news,
            "close": self.close,
            "report": [{"reported": True}],
            "request": [{"number": 1, "address": "a"}],
            "announce": self.announce,
            "salvage": [{"commit": "s", "pushed": True}],
            "clean": [{}],
        }
        return {kind: self.effect(kind, values) for kind, values in said.items()}

    def of(self, kind: str) -> list[Any]:
        """Return what the steps of a kind were given."""
        return [value for each, value in self.begun if each == kind]

    def effect(self, kind: str, values: list[Any]) -> Any:
        async def effect(value: Any) -> Any:
            self.begun.append((kind, value))
            said = values.pop(0) if len(values) > 1 else values[0]
            if said is ENDLESS:
                await asyncio.Event().wait()
            return said

        return effect


@asynccontextmanager
async def told(steps: Steps) -> AsyncGenerator[InMemoryWorkflowClient]:
    client = InMemoryWorkflowClient(strict=True)
    async with client.run_worker([TASK_WORKFLOW], steps.effects()):
        await client.submit(START["id"], TASK_WORKFLOW.label, START)
        yield client


async def at_rest(client: InMemoryWorkflowClient) -> WorkflowDescription:
    """Return how the workflow stands once it waits for a person, or has ended."""

    async def rests() -> WorkflowDescription | None:
        standing = await client.describe(START["id"])
        if standing.state == "waiting" and standing.topic == "pause":
            client.advance(max(RETRY_DELAYS))
        asks = standing.state == "waiting" and standing.topic.startswith("answer-")
        return standing if asks or standing.state in END_STATES else None

    return await until(rests)


async def answered(client: InMemoryWorkflowClient, said: str, reason: str = "") -> dict[str, Any]:
    """Answer what the workflow asks; returns what that was."""
    standing = await at_rest(client)
    asks: Any = standing.published
    value = {"answer": said, "reason": reason, "by": "ann", "via": "terminal", "budget": None}
    await client.signal(START["id"], standing.topic, value)

    async def heard() -> bool:
        return (await client.describe(START["id"])).topic != standing.topic

    await until(heard)
    return asks["asks"]


async def result(client: InMemoryWorkflowClient) -> Any:
    standing = await at_rest(client)
    assert standing.state == "done", standing
    return await client.get_result(START["id"], 5)


async def test_each_step_is_given_the_head_that_the_one_before_came_to() -> None:
    steps = Steps(advance=[moved("1"), moved("2"), DONE])
    async with told(steps) as client:
        assert (await result(client))["status"] == "done"
    assert [value["head"] for value in steps.of("advance")] == ["first", "1", "2"]
    assert [value["saved"]["head"] for value in steps.of("advance")] == ["first", "1", "2"]
    assert len(steps.of("close")) == len(steps.of("clean")) == 1


async def test_what_fails_outside_is_tried_again_without_anybodys_help() -> None:
    steps = Steps(advance=[DOWN, DOWN, moved("1"), DONE], close=[DOWN, DOWN, {"request": None}])
    async with told(steps) as client:
        assert (await result(client))["status"] == "done"
    assert [value["head"] for value in steps.of("advance")] == ["first", "first", "first", "1"]


async def test_what_stays_down_pauses_the_task_and_an_answer_goes_on() -> None:
    steps = Steps(advance=[*([DOWN] * (len(RETRY_DELAYS) + 1)), DONE])
    async with told(steps) as client:
        asks = await answered(client, "yes")
        assert asks["kind"] == "paused"
        assert "the forge is down" in asks["text"]
        assert (await result(client))["status"] == "done"


async def test_what_cannot_go_well_by_itself_is_asked_at_once() -> None:
    steps = Steps(advance=[WRONG, DONE])
    async with told(steps) as client:
        await answered(client, "yes")
        assert (await result(client))["status"] == "done"
    assert len(steps.of("advance")) == 2


async def test_a_sandbox_that_goes_missing_pauses_the_task_with_the_true_reason() -> None:
    error = make_error_value("sandbox_missing", "`bwrap` was not found", "install bubblewrap")
    steps = Steps(advance=[{**error, "again": False, "after": None}, DONE])
    async with told(steps) as client:
        asks = await answered(client, "yes")
        assert asks["kind"] == "paused"
        assert asks["text"] == "`bwrap` was not found (sandbox_missing)\nWhat helps: install bubblewrap"
        assert (await result(client))["status"] == "done"
    told_with = [value["public"]["error"] for value in steps.of("report") if value["turn"] == "pause"]
    assert [each["code"] for each in told_with] == ["sandbox_missing"]


async def test_what_was_answered_is_given_to_the_very_next_step_alone() -> None:
    asks: dict[str, Any] = {"kind": "approval", "digest": "d1", "tool": "t", "arguments": {}, "text": ""}
    steps = Steps(advance=[moved("1", asks=asks), moved("2"), DONE])
    async with told(steps) as client:
        assert await answered(client, "no", "too much") == asks
        assert (await result(client))["status"] == "done"
    given = [value.get("answers") for value in steps.of("advance")]
    no = {"digest": "d1", "allowed": False, "reason": "the person said: too much"}
    assert given == [None, [no], None]


@pytest.mark.parametrize("status", ["limit", "budget", "stuck", "conflict", "refused"])
async def test_a_run_that_stopped_goes_on_if_a_person_says_so(status: str) -> None:
    steps = Steps(advance=[moved("1", status), DONE])
    async with told(steps) as client:
        await answered(client, "more")
        assert (await result(client))["status"] == "done"
    assert [bool(value.get("resume")) for value in steps.of("advance")] == [False, True]


async def test_a_task_that_is_given_up_leaves_what_there_is_and_says_so() -> None:
    steps = Steps(advance=[moved("1", "stuck")])
    async with told(steps) as client:
        await answered(client, "no")
        assert (await result(client))["status"] == "stopped"
    assert len(steps.of("salvage")) == len(steps.of("request")) == len(steps.of("close")) == 1
    assert not steps.of("clean")[0]["done"]  # what is kept aside is not removed


async def test_news_reach_the_run_and_a_wish_to_stop_is_followed() -> None:
    heard: dict[str, Any] = {
        "text": "also on Windows",
        "seen": ["s", "t"],
        "ids": ["t"],
        "wish": "go_on",
        "why": "",
    }
    stop = {**heard, "text": "", "wish": "stop", "why": "the issue was closed"}
    steps = Steps(advance=[moved("1", turn=6), moved("2", turn=12)], news=[heard, stop])
    async with told(steps) as client:
        assert (await result(client))["status"] == "stopped"
    assert [value.get("news") for value in steps.of("advance")] == [None, "also on Windows"]
    assert steps.of("close")[0]["ids"] == ["t", "t"]


async def test_people_are_heard_once_more_before_anything_is_committed() -> None:
    stop: dict[str, Any] = {**QUIET, "wish": "stop", "why": "the issue was closed"}
    steps = Steps(advance=[moved("1"), moved("2", phase="commit"), DONE], news=[stop])
    async with told(steps) as client:
        assert (await result(client))["status"] == "stopped"
    assert len(steps.of("advance")) == 2


async def test_a_forge_that_says_when_to_ask_again_is_not_asked_before() -> None:
    limited = {**DOWN, "after": 1000.0}
    steps = Steps(advance=[limited, DONE])
    async with told(steps) as client:

        async def waits() -> bool:
            return (await client.describe(START["id"])).topic == "pause"

        await until(waits)
        client.advance(999)
        for _ in range(50):
            await anyio.lowlevel.checkpoint()
        assert len(steps.of("advance")) == 1
        client.advance(1)
        assert (await result(client))["status"] == "done"


async def test_a_task_paused_at_the_forge_waits_and_goes_on() -> None:
    pause: dict[str, Any] = {**QUIET, "wish": "pause", "why": "the label was set"}
    steps = Steps(advance=[moved("1", turn=6), DONE], news=[pause, QUIET])
    async with told(steps) as client:
        assert (await answered(client, "yes"))["kind"] == "paused"
        assert (await result(client))["status"] == "done"
    assert [value["turn"] for value in steps.of("report")].count("pause") == 1


async def test_no_step_is_taken_for_a_report_that_would_do_nothing() -> None:
    quiet = [{**moved(str(number), turn=number * 6), "reports": False} for number in range(1, 9)]
    steps = Steps(advance=[*quiet, {**moved("9", turn=60), "reports": True}, DONE])
    async with told(steps) as client:
        await result(client)
    assert [value["public"]["turn"] for value in steps.of("report")] == [1, 60]


async def test_people_are_told_when_something_changes_and_not_at_each_step() -> None:
    steps = Steps(advance=[*(moved(str(number), turn=1) for number in range(9)), DONE])
    async with told(steps) as client:
        await result(client)
    assert len(steps.of("report")) == 1


async def test_an_issue_that_is_refused_is_not_worked_on() -> None:
    error = make_error_value("issue_changed", "mallory changed it")["error"]
    steps = Steps(advance=[DONE], opened=[{"refused": error}])
    async with told(steps) as client:
        assert (await result(client))["status"] == "refused"
    assert steps.of("advance") == []


async def test_a_request_is_opened_once_as_soon_as_something_was_pushed() -> None:
    steps = Steps(advance=[moved("1", pushed=True), moved("2", pushed=True), DONE])
    async with told(steps) as client:
        assert (await result(client))["request"] == {"number": 1, "address": "a"}
    assert len(steps.of("request")) == 1


def unchanged(head: str) -> dict[str, Any]:
    return {**moved(head), "saved": {"head": head, "commit": "base", "on": "base"}}


async def test_a_draft_is_opened_with_the_first_change_and_the_work_goes_on_top_of_it() -> None:
    steps = Steps(advance=[unchanged("1"), moved("2"), moved("3"), DONE], early=True)
    async with told(steps) as client:
        assert (await result(client))["request"] == {"number": 1, "address": "a"}
    kinds = [kind for kind, _ in steps.begun if kind in {"advance", "announce", "request"}]
    assert kinds == ["advance", "advance", "announce", "request", "advance", "advance"]
    assert [order.get("draft") for order in steps.of("advance")] == [None, None, "d", "d"]


async def test_what_this_machine_alone_has_is_a_change_too() -> None:
    here = {"head": "1", "commit": "c", "on": "c"}
    alone = {**unchanged("1"), "saved": {**unchanged("1")["saved"], "here": here}}
    steps = Steps(advance=[alone, DONE], early=True)
    async with told(steps) as client:
        await result(client)
    assert len(steps.of("announce")) == 1


async def test_a_draft_that_cannot_be_opened_delays_nothing_and_is_tried_again_later() -> None:
    moves = [moved(str(turn), turn=turn) for turn in range(1, 14)]
    steps = Steps(advance=[*moves, DONE], early=True, announce=[DOWN, DOWN, {"draft": "d"}])
    async with told(steps) as client:
        await result(client)
    turns = [len([1 for kind, _ in steps.begun[:at] if kind == "advance"]) for at in positions(steps)]
    assert turns == [1, 6, 11]
    assert len(steps.of("request")) == 1


def positions(steps: Steps) -> list[int]:
    return [at for at, (kind, _) in enumerate(steps.begun) if kind == "announce"]


async def test_a_branch_that_others_have_by_then_gets_no_draft_before_the_work() -> None:
    moves = [moved(str(turn), turn=turn) for turn in range(1, 9)]
    steps = Steps(advance=[*moves, moved("p", pushed=True), DONE], early=True, announce=[{"draft": ""}])
    async with told(steps) as client:
        await result(client)
    assert (len(steps.of("announce")), len(steps.of("request"))) == (1, 1)


async def test_without_drafts_before_the_work_nothing_is_announced() -> None:
    steps = Steps(advance=[moved("1"), moved("2"), DONE])
    async with told(steps) as client:
        await result(client)
    assert (steps.of("announce"), steps.of("request")) == ([], [])


async def cancelled(client: InMemoryWorkflowClient) -> Any:
    await stop_task(client, START["id"], by="ann", via="terminal")
    return await client.get_result(START["id"], 30)


async def test_a_cancelled_task_is_cut_short_pushed_told_and_tidied_up() -> None:
    steps = Steps(advance=[moved("1"), ENDLESS])
    async with told(steps) as client:
        await until(lambda: len(steps.of("advance")) == 2)
        assert await cancelled(client) == {
            "id": START["id"],
            "status": "stopped",
            "branch": "b",
            "commit": "s",
            "pushed": True,
            "request": {"number": 1, "address": "a"},
            "head": "1",
        }
        public: Any = (await client.describe(START["id"])).published
        assert (public["asks"], public["error"], public["phase"]) == (None, None, "done")
    assert [kind for kind, _ in steps.begun][-4:] == ["salvage", "request", "close", "clean"]


@pytest.mark.parametrize(
    "advance",
    [
        [moved("1", asks={"kind": "approval", "digest": "d", "tool": "t", "arguments": {}, "text": ""})],
        [moved("1", "stuck")],
        [moved("1"), WRONG],
        [moved("1"), DOWN],
    ],
    ids=["asks", "stuck", "wrong", "down"],
)
async def test_a_task_that_waits_is_cancelled_without_an_answer(advance: list[Any]) -> None:
    steps = Steps(advance=advance)
    async with told(steps) as client:

        async def waits() -> bool:
            return (await client.describe(START["id"])).state == "waiting"

        await until(waits)
        assert (await cancelled(client))["status"] == "stopped"
    assert len(steps.of("salvage")) == len(steps.of("close")) == len(steps.of("clean")) == 1


async def test_a_task_that_was_cancelled_before_it_began_is_told_and_not_worked_on() -> None:
    steps = Steps(advance=[DONE])
    client = InMemoryWorkflowClient(strict=True)
    await client.submit(START["id"], TASK_WORKFLOW.label, START)
    await client.pause(START["id"])
    await stop_task(client, START["id"], by="ann", via="terminal")
    async with client.run_worker([TASK_WORKFLOW], steps.effects()):
        assert (await result(client))["status"] == "stopped"
    assert [kind for kind, _ in steps.begun] == ["close", "clean"]
    assert steps.of("close")[0]["accepted"] is None


async def test_a_cancelled_task_whose_work_cannot_be_pushed_keeps_it_until_a_person_gives_it_up() -> None:
    steps = Steps(advance=[moved("1"), ENDLESS])
    refused = {**make_error_value("push_refused", "no"), "again": False, "after": None}
    effects = {**steps.effects(), "salvage": steps.effect("salvage", [refused])}
    client = InMemoryWorkflowClient(strict=True)
    await client.submit(START["id"], TASK_WORKFLOW.label, START)
    async with client.run_worker([TASK_WORKFLOW], effects):
        await until(lambda: len(steps.of("advance")) == 2)
        await stop_task(client, START["id"], by="ann", via="terminal")
        await at_rest(client)
        assert steps.of("clean") == []
        assert (await answered(client, "no"))["kind"] == "paused"
        assert (await result(client))["pushed"] is False
