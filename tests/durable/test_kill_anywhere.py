"""A machine may be switched off at any moment: nothing is lost, nothing is done twice."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kakite.durable.client import WorkflowClient
from kakite.durable.dbos.client import DbosWorkflowClient
from kakite.durable.temporal import open_temporal_client
from tests.bounds import WITHIN
from tests.durable.workflows import start_worker

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

STEPS = 30
POINTS = [f"{number}-{when}" for number in range(STEPS) for when in ("before", "after")]
"""Inside each step: before its effect, which is right after the step before it was recorded, and after it."""


def points(proof: bool, seed: int) -> list[str]:
    """Return all points, or a tenth of them: another one each time that the seed is another."""
    return POINTS if proof else POINTS[seed % 10 :: 10]


async def check_killed_everywhere(
    client: WorkflowClient, where: object, folder: Path, deaths: Sequence[str]
) -> None:
    for group in [deaths[n : n + 10] for n in range(0, len(deaths), 10)]:
        workflow = f"test-{secrets.token_hex(6)}"
        file = folder / workflow
        start: Any = {"name": workflow, "n": STEPS, "file": str(file), "deaths": group}
        await client.submit(workflow, "count@1", start)
        ends = work_until_it_ends(where, workflow, len(group))
        assert ends == [-9] * len(group) + [0]
        result: Any = await client.get_result(workflow, 5)
        check_effects(file, workflow, result["said"], len(group))
        assert (await client.describe(workflow)).published == {"at": STEPS - 1}


def work_until_it_ends(where: object, workflow: str, deaths: int) -> list[int]:
    """Start a worker again and again until it ends by itself."""
    ends: list[int] = []
    while len(ends) <= deaths and ends[-1:] != [0]:
        with start_worker(where, {"until": [workflow]}) as worker:
            ends.append(worker.wait(WITHIN))
    return ends


def check_effects(file: Path, workflow: str, said: list[str], deaths: int) -> None:
    """Each effect is there once, in order, and each step saw what was recorded of the one before it."""
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert [line["key"] for line in lines] == [f"{workflow}-{number}" for number in range(STEPS)]
    assert [line["said"] for line in lines] == said
    assert [line["after"] for line in lines] == [said[max(0, n - 1) : n] for n in range(STEPS)]
    begun = file.with_name(file.name + ".log").read_text(encoding="utf-8").splitlines()
    assert len(begun) <= STEPS + deaths  # none but the one under way is begun again


async def test_killed_at_any_point_a_workflow_ends_the_same_on_sqlite(
    tmp_path: Path, proof: bool, seed: int
) -> None:
    where = tmp_path / "workflows"
    async with DbosWorkflowClient(where) as client:
        await check_killed_everywhere(client, where, tmp_path, points(proof, seed))


@pytest.mark.timeout(1200)
async def test_killed_at_any_point_a_workflow_ends_the_same_on_temporal(
    tmp_path: Path, proof: bool, seed: int, temporal_server: str
) -> None:
    async with open_temporal_client(temporal_server, heartbeat=1) as client:
        await check_killed_everywhere(client, temporal_server, tmp_path, points(proof, seed))
