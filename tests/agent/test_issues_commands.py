"""What a person answers at a forge reaches the task that asks, once, with the words that go with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kakite.agent.issues.activities import MIN_REPORT_INTERVAL, ForgeActivities
from kakite.agent.issues.triage import AcceptedTask, encode_trigger
from kakite.agent.worker.loop import WorkerLoop
from kakite.agent.worker.payloads import TaskInput, from_payload
from kakite.agent.worker.workflow import TASK_WORKFLOW
from kakite.durable.blobs import BlobStore
from kakite.durable.client import END_STATES, WorkflowDescription
from kakite.redaction import Redaction
from kakite_testing.in_memory_workflows import InMemoryWorkflowClient
from tests.agent.desks import NAMES, Ground, finding, ground_of
from tests.agent.test_workflow import DONE, ORIGIN, PUBLIC, moved
from tests.durable.waiting import until

pytestmark = pytest.mark.anyio


@dataclass
class Asked:
    """A task that works on issue 1, as far as its forge is concerned; the model's part is a list."""

    ground: Ground
    advance: list[Any]
    folder: Path
    client: InMemoryWorkflowClient = field(default_factory=InMemoryWorkflowClient)
    given: list[Any] = field(default_factory=list[Any])
    task: str = ""
    now: float = 0.0
    begun: Callable[[], Any] | None = None
    """Is done before the first step of the model."""

    def __post_init__(self) -> None:
        forge = self.ground.forge
        self.forge_activities = ForgeActivities(
            lambda _place: forge, NAMES, BlobStore(self.folder), Redaction(), lambda: self.now
        )

    @asynccontextmanager
    async def told(self) -> AsyncGenerator[None]:
        self.task, trigger = await finding(self.ground.forge, 1)
        place = {"kind": "local", "path": "", "url": ""}
        start: dict[str, Any] = {"id": self.task, "forge": place, "trigger": encode_trigger(trigger)}
        effects: dict[str, Callable[[Any], Any]] = {
            "open": self._open,
            "advance": self._advance,
            "news": self.forge_activities.get_activities()["news"],
            "report": self.forge_activities.get_activities()["report"],
            "close": self._nothing,
            "clean": self._nothing,
            "salvage": self._nothing,
            "request": self._nothing,
        }
        async with self.client.run_worker([TASK_WORKFLOW], effects):
            await self.client.submit(
                self.task, TASK_WORKFLOW.label, {**start, "settings": {}, "on_ask": "pause"}
            )
            yield

    async def question(self, after: str = "") -> dict[str, Any]:
        """Return what the task asks, once that is another question."""

        async def asks() -> Any:
            standing = await self.client.describe(self.task)
            published: Any = standing.published
            found: dict[str, Any] | None = published["asks"] if published else None
            if standing.state != "waiting" or found is None:
                return None
            return found if found["digest"] != after else None

        return await until(asks)

    async def rests(self) -> WorkflowDescription:
        async def ended() -> WorkflowDescription | None:
            standing = await self.client.describe(self.task)
            return standing if standing.state in END_STATES else None

        return await until(ended)

    async def heard(self) -> None:
        """Let a worker look once what people have answered."""
        shift = WorkerLoop(
            client=self.client, forge_activities=self.forge_activities, post=None, say=lambda _: None
        )
        await shift.run(poll=0.01, until_idle=True)

    async def _open(self, value: Any) -> Any:
        accepted = await self.forge_activities.accept(from_payload(TaskInput, value["start"]))
        assert isinstance(accepted, AcceptedTask)
        public = {**PUBLIC, "id": self.task, "issue": 1}
        return {
            "head": "h0",
            "base": "b",
            "begun": asdict(ORIGIN),
            "public": public,
            "accepted": asdict(accepted),
        }

    async def _advance(self, value: Any) -> Any:
        self.given.append(value)
        if self.begun is not None:
            await self.begun()
            self.begun = None
        told = self.advance.pop(0)
        return {**told, "public": {**told["public"], "id": self.task, "issue": 1}}

    async def _nothing(self, _value: Any) -> Any:
        return {"request": None}


@pytest.fixture
async def ground(tmp_path: Path) -> AsyncGenerator[Ground]:
    entered = ground_of("local", tmp_path)
    made = await asyncio.to_thread(entered.__enter__)
    await asyncio.to_thread(made.issue)
    yield made
    await asyncio.to_thread(entered.__exit__, None, None, None)


@pytest.mark.parametrize(
    ("status", "said"),
    [("budget", "@kakite budget +5"), ("stuck", "@kakite continue"), ("limit", "@kakite budget +5 usd")],
)
async def test_what_answered_one_question_answers_no_other(
    ground: Ground, tmp_path: Path, status: str, said: str
) -> None:
    asked = Asked(ground, [moved("h1", status), moved("h2", status), DONE], tmp_path / "blobs")
    async with asked.told():
        first = await asked.question()
        ground.say(1, said, by="bob")
        await asked.heard()
        second = await asked.question(first["digest"])
        await asked.heard()
        await asked.heard()
        assert (await asked.question())["digest"] == second["digest"]
        ground.say(1, f"Once more.\n\n{said}", by="bob")
        await asked.heard()
        assert (await asked.rests()).state == "done"


async def test_a_report_is_due_at_first_and_after_a_while_and_for_a_lost_editor(
    ground: Ground, tmp_path: Path
) -> None:
    asked = Asked(ground, [DONE], tmp_path / "blobs")
    public = {**PUBLIC, "editor": {"code": "server_failed", "message": "it ended"}}
    async with asked.told():
        assert asked.forge_activities.is_report_due(asked.task, PUBLIC)
        await asked.rests()
        assert not asked.forge_activities.is_report_due(asked.task, PUBLIC)
        assert asked.forge_activities.is_report_due(asked.task, public)
        asked.now += MIN_REPORT_INTERVAL
        assert asked.forge_activities.is_report_due(asked.task, PUBLIC)


async def test_a_failure_that_stays_is_asked_about_again_though_continue_was_said_before(
    ground: Ground, tmp_path: Path
) -> None:
    wrong = {"error": {"code": "model_auth", "message": "a wrong key", "hint": ""}, "again": False}

    class Failing(Asked):
        async def _advance(self, value: Any) -> Any:
            self.given.append(value)
            return wrong

    asked = Failing(ground, [], tmp_path / "blobs")
    async with asked.told():
        first = await asked.question()
        ground.say(1, "@kakite continue", by="bob")
        await asked.heard()
        second = await asked.question(first["digest"])
        for _ in range(3):
            await asked.heard()
        assert (await asked.question())["digest"] == second["digest"]
    assert len(asked.given) == 2


async def test_the_words_of_an_answer_and_what_was_written_meanwhile_reach_the_model(
    ground: Ground, tmp_path: Path
) -> None:
    asked = Asked(ground, [moved("h1", "stuck"), moved("h2"), DONE], tmp_path / "blobs")
    async with asked.told():
        await asked.question()
        ground.say(1, "The old one is in `legacy.py`.", by="ann")
        ground.say(1, "@kakite continue with the old API", by="bob")
        await asked.heard()
        assert (await asked.rests()).state == "done"
    told = asked.given[1]["news"]
    assert "with the old API" in told
    assert "legacy.py" in told
    assert told.count("old API") == 1


async def test_a_task_paused_by_its_label_says_how_to_go_on_and_that_works(
    ground: Ground, tmp_path: Path
) -> None:
    asked = Asked(ground, [moved("h1", turn=6), DONE], tmp_path / "blobs")
    asked.begun = lambda: ground.forge.set_state_label(1, "paused", NAMES)
    async with asked.told():
        await asked.question()
        [letter] = ground.comments(1).with_key("ask/")
        line = next(line for line in letter.splitlines() if "@kakite" in line).lstrip("> ").strip()
        assert "continue" in line
        ground.say(1, line, by="bob")
        await asked.heard()
        assert (await asked.rests()).state == "done"
