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
from pathlib import Path
from typing import Any

from kakite.agent import errands as errands_of
from kakite.agent import stage as stages
from kakite.agent import tale
from kakite.agent.day import Days
from kakite.agent.durable.blobs import Blobs
from kakite.agent.durable.embedded import EmbeddedLedger
from kakite.agent.durable.ledger import Ledger
from kakite.agent.durable.seam import Effect, Json
from kakite.agent.durable.worker import Pace, working
from kakite.agent.errands import Errands
from kakite.agent.forges.names import Names
from kakite.agent.run import Task
from kakite.agent.shift import Post, Shift
from kakite.agent.stage import Gear, Stage, staged
from kakite.agent.tale import SOLVE
from kakite.cli.agent_worker import open_forge
from kakite.host.redaction import Redaction
from kakite.models.model import Model
from kakite.models.providers import open_model

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


def gear_of(errands: Errands, environ: Mapping[str, str]) -> Gear:
    """Return what a worker of the tests brings along."""

    def model(task: Task) -> Model:
        return open_model(task.model, base_url=task.base_url, environ={"OPENAI_API_KEY": "x"}, max_retries=0)

    return Gear(environ=environ, open_model=model, author=("Kakite", "k@localhost"), errands=errands)


def say(line: str) -> None:
    """Tell the test."""
    sys.stderr.write(f"{line}\n")


class Deaths:
    """Where this process is to die, told by files so that each is died once."""

    def __init__(self, points: list[str], marks: Path) -> None:
        self._points = points
        self._marks = marks

    def watched(self, effects: Mapping[str, Effect]) -> dict[str, Effect]:
        """Return the effects, dying at the points."""
        return {kind: self._watched(kind, effect) for kind, effect in effects.items()}

    def _watched(self, kind: str, effect: Effect) -> Effect:
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
    kept = stages.IDLE, errands_of.BETWEEN, tale.PAUSES
    stages.IDLE, errands_of.BETWEEN = 5.0, 0.0  # pyright: ignore[reportConstantRedefinition]
    tale.PAUSES = tuple(told.get("pauses", tale.PAUSES))  # pyright: ignore[reportConstantRedefinition]
    try:
        yield
    finally:
        stages.IDLE, errands_of.BETWEEN, tale.PAUSES = kept  # pyright: ignore[reportConstantRedefinition]


async def main(told: Mapping[str, Any]) -> None:
    """Work until no work is left."""
    with hurried(told):
        await _work(told)


async def _work(told: Mapping[str, Any]) -> None:
    folder, names = Path(told["folder"]), Names()
    place = told["forge"]
    environ = {**os.environ, **told.get("environ", {})}
    errands = Errands(lambda where: open_forge(where, environ), names, Blobs(folder / "blobs"), Redaction())
    settings = settings_of(told["model"], sandbox=told.get("sandbox", "local")) | told.get("settings", {})
    forge = open_forge(place, environ)
    post = Post(forge=forge, place=place, names=names, settings=settings, on_ask="deny")
    deaths = Deaths(told.get("deaths", []), Path(told["marks"]))
    async with (
        staged(folder, replace(gear_of(errands, environ), days=Days(folder))) as stage,
        telling(told.get("engine", ""), folder, stage, deaths.watched(stage.effects())) as ledger,
    ):
        shift = Shift(ledger=ledger, errands=errands, post=post, say=say, sweep=stage.sweep)
        await shift.work(poll=0.2, until_idle=not told.get("stays", False))


@asynccontextmanager
async def telling(
    server: str, folder: Path, stage: Stage, effects: Mapping[str, Effect]
) -> AsyncGenerator[Ledger]:
    """Tell stories on either engine."""
    if server:
        from kakite.agent.durable import temporal

        async with temporal.temporal_ledger(server, heartbeat=HEARTBEAT) as far:
            stage.luggage.travel(far.recorded)
            async with temporal.working(server, [SOLVE], effects):
                yield far
    else:
        async with (
            EmbeddedLedger(folder) as near,
            working(folder, [SOLVE], effects, Pace(watch=0.3, rest=0.3)),
        ):
            yield near


def run(told: Mapping[str, Any]) -> None:
    """Work until no work is left, as a process."""
    asyncio.run(main(told))
