"""A worker for the tests that dies where the test says.

It is told: folder, engine (a Temporal server's address; empty: the folder), forge (kind, path, url), model's
url, sandbox, deaths (points, each dies once), marks (a folder where deaths are noted). A point is ``EFFECT N
before|inside|after``: the N-th time, over all processes, that the effect is begun. With pauses (seconds) what
fails outside is tried again after these; with stays, it works until it is ended; with settings, tasks
have these.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from kakite.agent.forges.labels import LabelConfig
from kakite.agent.issues import activities as forge_activities_of
from kakite.agent.issues.activities import ForgeActivities
from kakite.agent.run.limits import DailyUsageStore
from kakite.agent.run.state import Task
from kakite.agent.worker import activities as stages
from kakite.agent.worker import workflow
from kakite.agent.worker.activities import TaskActivities, WorkerDeps, open_activities
from kakite.agent.worker.loop import RepositoryConfig, WorkerLoop
from kakite.agent.worker.workflow import TASK_WORKFLOW
from kakite.cli.agent.worker import open_forge
from kakite.durable.blobs import BlobStore
from kakite.durable.client import WorkflowClient
from kakite.durable.dbos.client import DbosWorkflowClient
from kakite.durable.dbos.worker import DbosWorkerOptions, run_worker
from kakite.durable.workflow import ActivityFunction, Json
from kakite.models.factory import open_model
from kakite.models.model import Model
from kakite.redaction import Redaction

HEARTBEAT = 2.0
"""Seconds after which a worker on Temporal is taken for dead: busy machines stand still for a while."""


def settings_of(
    url: str, *, sandbox: str = "local", approve: str = "all", turns: int = 100
) -> dict[str, Any]:
    """Return what each task is given."""
    return {
        "model": "openai:scripted",
        "base_url": url,
        "sandbox": sandbox,
        "approve": approve,
        "max_turns": turns,
        "network": "off",
        "hosts": [],
        "setup": False,
    }


def gear_of(forge_activities: ForgeActivities, environ: Mapping[str, str]) -> WorkerDeps:
    """Return what a worker of the tests brings along."""

    def model(task: Task) -> Model:
        return open_model(task.model, base_url=task.base_url, environ={"OPENAI_API_KEY": "x"}, max_retries=0)

    return WorkerDeps(
        environ=environ, open_model=model, author=("Kakite", "k@localhost"), forge_activities=forge_activities
    )


def say(heard: Path, line: str) -> None:
    """Note what a worker says."""
    sys.stderr.write(f"{line}\n")
    with heard.open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


class Deaths:
    """Where this process is to die, told by files so that each is died once."""

    def __init__(self, points: list[str], marks: Path) -> None:
        self._points = points
        self._marks = marks

    def watched(self, effects: Mapping[str, ActivityFunction]) -> dict[str, ActivityFunction]:
        """Return the effects, dying at the points."""
        return {kind: self._watched(kind, effect) for kind, effect in effects.items()}

    def _watched(self, kind: str, effect: ActivityFunction) -> ActivityFunction:
        async def perform(value: Json) -> Json:
            number = self._count(kind)
            self._die(f"{kind} {number} before")
            doing = asyncio.ensure_future(effect(value))
            if self._due(f"{kind} {number} inside"):
                await asyncio.wait([doing], timeout=random.Random(number).uniform(0, 0.15))
                self._die(f"{kind} {number} inside")
            try:
                result = await doing
            except asyncio.CancelledError:
                doing.cancel()
                await asyncio.wait([doing])
                raise
            self._die(f"{kind} {number} after")
            return result

        return perform

    def _count(self, kind: str) -> int:
        """Count what was begun for the first time: a step that is begun again has the number it had."""
        done = self._marks / f"{kind}.count"
        number = done.stat().st_size if done.exists() else 0
        with done.open("a", encoding="utf-8") as opened:
            opened.write(".")
        return number

    def _due(self, point: str) -> bool:
        return point in self._points and not (self._marks / f"{point}.died").exists()

    def _die(self, point: str) -> None:
        if self._due(point):
            (self._marks / f"{point}.died").touch()
            os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def hurried(told: Mapping[str, Any]) -> Generator[None]:
    """Have no times to wait for, so that there are reports to die at. The process may go on afterwards."""
    kept = stages.IDLE, forge_activities_of.MIN_REPORT_INTERVAL, workflow.RETRY_DELAYS
    stages.IDLE, forge_activities_of.MIN_REPORT_INTERVAL = 5.0, 0.0  # pyright: ignore[reportConstantRedefinition]
    workflow.RETRY_DELAYS = tuple(told.get("pauses", workflow.RETRY_DELAYS))  # pyright: ignore[reportConstantRedefinition]
    try:
        yield
    finally:
        stages.IDLE, forge_activities_of.MIN_REPORT_INTERVAL, workflow.RETRY_DELAYS = kept  # pyright: ignore[reportConstantRedefinition]


async def main(told: Mapping[str, Any]) -> None:
    """Work until no work is left."""
    with hurried(told):
        await _work(told)


async def _work(told: Mapping[str, Any]) -> None:
    folder, names = Path(told["folder"]), LabelConfig()
    place = told["forge"]
    environ = {**os.environ, **told.get("environ", {})}
    forge_activities = ForgeActivities(
        lambda where: open_forge(where, environ), names, BlobStore(folder / "blobs"), Redaction()
    )
    settings = settings_of(told["model"], sandbox=told.get("sandbox", "local")) | told.get("settings", {})
    forge = open_forge(place, environ)
    post = RepositoryConfig(forge=forge, place=place, names=names, settings=settings, on_ask="deny")
    deaths = Deaths(told.get("deaths", []), Path(told["marks"]))
    async with (
        open_activities(
            folder, replace(gear_of(forge_activities, environ), days=DailyUsageStore(folder))
        ) as activities,
        telling(
            told.get("engine", ""), folder, activities, deaths.watched(activities.get_activities())
        ) as client,
    ):
        shift = WorkerLoop(
            client=client,
            forge_activities=forge_activities,
            post=post,
            say=partial(say, Path(told["marks"]) / "said"),
            sweep=activities.remove_orphans,
        )
        await shift.run(poll=0.2, until_idle=not told.get("stays", False))


@asynccontextmanager
async def telling(
    server: str, folder: Path, activities: TaskActivities, effects: Mapping[str, ActivityFunction]
) -> AsyncGenerator[WorkflowClient]:
    """Tell workflows on either engine."""
    if server:
        from kakite.durable import temporal

        async with temporal.open_temporal_client(server, heartbeat=HEARTBEAT) as far:
            activities.snapshots.enable(far.iterate_activity_results)
            async with temporal.run_worker(server, [TASK_WORKFLOW], effects):
                yield far
    else:
        async with (
            DbosWorkflowClient(folder) as near,
            run_worker(folder, [TASK_WORKFLOW], effects, DbosWorkerOptions(watch=0.3, rest=0.3)),
        ):
            yield near


def run(told: Mapping[str, Any]) -> None:
    """Work until no work is left, as a process."""
    asyncio.run(main(told))
