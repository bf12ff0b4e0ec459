"""Each engine as a desk on which the same workflows are told."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kakite.durable import temporal
from kakite.durable.client import WorkflowClient
from kakite.durable.dbos.client import DbosWorkflowClient
from kakite.durable.dbos.worker import DbosWorkerOptions, run_worker
from kakite.durable.workflow import Workflow
from kakite_testing.in_memory_workflows import InMemoryWorkflowClient
from tests.bounds import WITHIN
from tests.durable.workflows import EFFECTS, STORIES


@dataclass(frozen=True, slots=True)
class Desk:
    """An engine: its client, and how to work."""

    client: WorkflowClient
    work: Callable[[Sequence[Workflow]], AbstractAsyncContextManager[object]]

    async def result(self, workflow: str) -> Any:
        return await self.client.get_result(workflow, WITHIN)

    def working(self, workflows: Sequence[Workflow] = STORIES) -> AbstractAsyncContextManager[object]:
        return self.work(workflows)


@asynccontextmanager
async def _memory() -> AsyncGenerator[Desk]:
    client = InMemoryWorkflowClient()

    def work(workflows: Sequence[Workflow]) -> AbstractAsyncContextManager[object]:
        return client.run_worker(workflows, EFFECTS)

    yield Desk(client, work)


@asynccontextmanager
async def _embedded(folder: Path) -> AsyncGenerator[Desk]:
    pace = DbosWorkerOptions(poll=0.05, watch=0.2)

    def work(workflows: Sequence[Workflow]) -> AbstractAsyncContextManager[object]:
        return run_worker(folder, workflows, EFFECTS, pace)

    async with DbosWorkflowClient(folder, poll=0.02) as client:
        yield Desk(client, work)


@asynccontextmanager
async def _temporal(address: str) -> AsyncGenerator[Desk]:
    def work(workflows: Sequence[Workflow]) -> AbstractAsyncContextManager[object]:
        return temporal.run_worker(address, workflows, EFFECTS)

    async with temporal.open_temporal_client(address, heartbeat=2) as client:
        yield Desk(client, work)


@pytest.fixture(params=["memory", "embedded", pytest.param("temporal", marks=pytest.mark.slow)])
async def desk(request: pytest.FixtureRequest, tmp_path: Path, anyio_backend: str) -> AsyncGenerator[Desk]:
    """Each engine in turn."""
    if request.param == "memory":
        opened = _memory()
    elif request.param == "embedded":
        opened = _embedded(tmp_path / "workflows")
    else:
        opened = _temporal(request.getfixturevalue("temporal_server"))
    async with opened as found:
        yield found
