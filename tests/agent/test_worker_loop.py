"""A worker that works until it is idle sees also what another worker takes up at that moment."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kakite.agent.forges.base import Forge
from kakite.agent.forges.labels import LabelConfig
from kakite.agent.issues.activities import ForgeActivities
from kakite.agent.worker.loop import RepositoryConfig, WorkerLoop
from kakite.agent.worker.workflow import TASK_WORKFLOW
from kakite.durable.blobs import BlobStore
from kakite.durable.workflow import Json, Workflow, WorkflowContext
from kakite.redaction import Redaction
from kakite_testing.in_memory_workflows import InMemoryWorkflowClient
from tests.agent.desks import NAMES, finding, ground_of

pytestmark = pytest.mark.anyio


@dataclass
class TakenAtOnce:
    """A forge whose issue another worker takes up right before one looks."""

    forge: Forge
    client: InMemoryWorkflowClient
    taken: bool = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.forge, name)

    async def find_triggers(self, names: LabelConfig) -> Any:
        if not self.taken:
            self.taken = True
            task, _ = await finding(self.forge, 1)
            await self.client.submit(task, TASK_WORKFLOW.label, {})
            await self.forge.set_state_label(1, "processing", names)
        return await self.forge.find_triggers(names)


async def test_what_another_worker_takes_up_while_one_looks_is_waited_for(tmp_path: Path) -> None:
    async def work(context: WorkflowContext, _start: Json) -> Json:
        return await context.execute_activity("advance", None)

    async def advance(_value: Json) -> Json:
        await asyncio.sleep(0)
        return None

    entered = ground_of("local", tmp_path)
    ground = await asyncio.to_thread(entered.__enter__)
    try:
        await asyncio.to_thread(ground.issue)
        client = InMemoryWorkflowClient()
        forge: Any = TakenAtOnce(ground.forge, client)
        activities = ForgeActivities(
            lambda _place: ground.forge, NAMES, BlobStore(tmp_path / "blobs"), Redaction()
        )
        place = {"kind": "local", "path": str(tmp_path), "url": ""}
        post = RepositoryConfig(forge=forge, place=place, names=NAMES, settings={}, on_ask="deny")
        said: list[str] = []
        loop = WorkerLoop(client=client, forge_activities=activities, post=post, say=said.append)
        solve = Workflow(name=TASK_WORKFLOW.name, version=TASK_WORKFLOW.version, tell=work)
        async with client.run_worker([solve], {"advance": advance}):
            await loop.run(poll=0.01, until_idle=True)
            [standing] = await client.list_workflows()
            assert standing.state == "done"
        assert any(standing.id in line for line in said)
    finally:
        await asyncio.to_thread(entered.__exit__, None, None, None)
