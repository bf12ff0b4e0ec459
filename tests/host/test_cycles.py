"""The proof: a thousand servers that misbehave, started and stopped, and nothing is left of any."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import resource
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from kakite.host.config.model import Timeouts
from kakite.host.server.server import Server, ServerError
from tests.host.making import call, marked, rough, surroundings

pytestmark = pytest.mark.anyio

AT_ONCE = 4
MEGABYTE = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Case:
    """How a server misbehaves, and what is told of it."""

    options: Mapping[str, Any]
    start: float = 30.0
    """Seconds that it gets to start."""
    fails: str = ""
    """Words of the reason why it does not start; empty when it starts."""
    asked: str = "echo"
    breaks: str = ""
    """Words of the result when the tool is asked; empty when it answers."""


CASES = [
    Case(options={"stubborn": ["eof"]}),
    Case(options={"stubborn": ["term"]}),
    Case(options={"stubborn": ["eof", "term"]}),
    Case(options={"child": "plain"}),
    Case(options={"child": "setsid"}),
    Case(options={"child": "setsid", "stubborn": ["eof", "term"]}),
    Case(options={"child": "setsid", "start": "die"}, fails="with exit code 7"),
    Case(options={"start": "flood"}),
    Case(options={"start": "flood", "stubborn": ["eof", "term"]}),
    Case(options={"start": "greet"}),
    Case(options={"start": "silent"}, start=0.5, fails="and never said a word"),
    Case(options={"start": "silent", "stubborn": ["eof", "term"]}, start=0.5, fails="never said a word"),
    Case(options={"start": "die"}, fails="with exit code 7"),
    Case(options={"start": "close"}, fails="closed its output"),
    Case(options={"start": "half"}, fails="in the middle of a message"),
    Case(options={"start": "huge"}, fails="more than 32 MiB"),
    Case(options={"era": "legacy", "discover": "die"}),
    Case(options={}, asked="die", breaks="with exit code 7"),
    Case(options={"child": "setsid"}, asked="die", breaks="with exit code 7"),
    Case(options={}, asked="half", breaks="in the middle of a message"),
    Case(options={"stubborn": ["eof", "term"]}, asked="huge", breaks="more than 32 MiB"),
]


async def cycle(case: Case, mark: str, folder: Path) -> None:
    """Start a server, ask it, stop it, and hold what is told against what is so."""
    entry = rough("odd", env={"MARK": mark}, **{"era": "both", **case.options})
    entry = replace(entry, timeouts=Timeouts(start=case.start))
    server = Server(entry, surroundings(folder), patience=0.1)
    try:
        reason = await failure(server)
        assert bool(reason) == bool(case.fails), (case, reason)
        assert case.fails in reason
        assert server.status.kind == ("failed" if case.fails else "ready")
        result = await server.call(call(case.asked))
        assert result.is_error == bool(case.fails or case.breaks), (case, result)
        assert (case.fails or case.breaks) in result.text, (case, result)
    finally:
        await server.stop()


async def failure(server: Server) -> str:
    """Return why it does not start; empty when it does."""
    try:
        await server.start()
    except ServerError as error:
        return error.message
    return ""


def memory() -> int:
    """Return the bytes of memory that we hold now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * resource.getpagesize()


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_of_a_thousand_servers_that_misbehave_nothing_is_left_and_each_is_named(
    tmp_path: Path, proof: bool
) -> None:
    mark = f"mark-{tmp_path.name}-{os.getpid()}"
    rounds = [CASES[number % len(CASES)] for number in range(1000 if proof else 100)]
    random.Random(4).shuffle(rounds)
    for case in CASES[:2]:  # what is loaded and opened once
        await cycle(case, mark, tmp_path)
    gc.collect()  # what other tests left behind must not hide what is left here
    tasks, files, before = len(asyncio.all_tasks()), open_files(), memory()
    turn = asyncio.Semaphore(AT_ONCE)

    async def take_turn(case: Case) -> None:
        async with turn:
            await cycle(case, mark, tmp_path)

    async with asyncio.TaskGroup() as group:
        for case in rounds:
            group.create_task(take_turn(case))
    assert marked(mark) == []
    gc.collect()
    assert len(asyncio.all_tasks()) == tasks
    assert open_files() == files
    assert memory() - before < 200 * MEGABYTE
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    assert peak < before + 800 * MEGABYTE
