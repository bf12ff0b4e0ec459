"""Workflows and steps for the tests; run as a program, a worker that tells them until none is left.

``workflows.py FOLDER|HOST:PORT PACE``: PACE is JSON, the fields of the engine's ``Pace`` and ``until`` (ids
of workflows; without, the worker stays until it is ended) and ``attempts`` (how many workers may die of a
workflow in a folder). It says ``ready`` and its name when it works.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from kakite.cli.exit_codes import run_and_exit
from kakite.durable.workflow import Json, Workflow, WorkflowContext, is_stopped
from kakite.errors import ExternalError

sys.path.insert(0, str(Path(__file__).parents[2]))  # when run as a program
from tests.durable.waiting import until


async def count(context: WorkflowContext, start: Any) -> Json:
    """Steps with effects in a file, each of which must see what the one before it said."""
    said: list[Any] = []
    for number in range(start["n"]):
        value = {**start, "key": f"{start['name']}-{number}", "number": number, "after": said[-1:]}
        said.append(await context.execute_activity("append", value))
        await context.publish({"at": number})
    return {"said": said}


async def ask(context: WorkflowContext, start: Any) -> Json:
    """Waits for an answer, and then for nothing."""
    await context.publish({"asks": start["question"]})
    answer = await context.wait_for_signal("answer")
    first = await context.execute_activity("double", answer)
    nothing = await context.wait_for_signal("more", start.get("seconds", 0))
    return {"answer": first, "nothing": nothing}


async def fail(context: WorkflowContext, start: Any) -> Json:
    """Steps that fail in every way."""
    return [await context.execute_activity(kind, None) for kind in ("refuse", "break", "missing")]


async def stumble(context: WorkflowContext, start: Any) -> Json:
    """Has a fault of its own."""
    await context.execute_activity("double", 1)
    raise KeyError("a secret")


async def child(context: WorkflowContext, start: Any) -> Json:
    """Starts a program and waits for its end, which does not come."""
    return await context.execute_activity("run", start)


async def hold(context: WorkflowContext, start: Any) -> Json:
    """Two steps, of which the first lasts until a file is there."""
    held = await context.execute_activity("hold", start)
    return [
        held,
        await context.execute_activity("append", {**start, "key": "second", "after": [], "number": 1}),
    ]


async def heed(context: WorkflowContext, start: Any) -> Json:
    """Does, waits and rests until it is asked to stop; then tidies up."""
    done = [await context.execute_activity(kind, start, unless="stop") for kind in start["kinds"]]
    answer = (
        await context.wait_for_signal("answer", start.get("seconds"), unless="stop")
        if start["asks"]
        else "unasked"
    )
    after = await context.execute_activity("double", 2, unless="stop")
    tidied = await context.execute_activity("double", 1)
    return {"done": [*map(is_stopped, done)], "answer": answer, "after": is_stopped(after), "tidied": tidied}


async def crash(context: WorkflowContext, start: Any) -> Json:
    """Ends its worker, whichever that is."""
    return await context.execute_activity("die", None)


async def die(value: Json) -> Json:
    os.kill(os.getpid(), signal.SIGKILL)
    return value


async def double(value: Any) -> Json:
    return value * 2 if isinstance(value, int | str) else value


async def refuse(value: Json) -> Json:
    raise ExternalError("the forge is down", hint="try again", code="forge_unavailable")


async def broken(value: Json) -> Json:
    raise ValueError("password=1234")


async def append(value: Any) -> Json:
    """Add a line with this key unless there is one; die where the test says so."""
    _die(value, "before")
    file = Path(value["file"])
    if value.get("hold") == value["number"]:
        Path(value["file"] + ".held").touch()
        await until(Path(value["file"] + ".go").exists)
    _add(Path(value["file"] + ".log"), value["key"])
    lines = (
        [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []
    )
    known = {line["key"]: line for line in lines}
    if value["key"] not in known:
        known[value["key"]] = {"key": value["key"], "after": value["after"], "said": secrets.token_hex(8)}
        _add(file, json.dumps(known[value["key"]]))
    _die(value, "after")
    return known[value["key"]]["said"]


def _add(file: Path, line: str) -> None:
    with file.open("a", encoding="utf-8") as opened:
        opened.write(line + "\n")


def _die(value: Any, when: str) -> None:
    """Die at this point if the test wants it, and only once."""
    point = f"{value['number']}-{when}"
    if point in value.get("deaths", ()):
        died = Path(f"{value['file']}.{point}.died")
        if not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)


async def run(value: Any) -> Json:
    program = await asyncio.create_subprocess_exec("sleep", "1000")
    Path(value["file"]).write_text(str(program.pid), encoding="utf-8")
    try:
        return await program.wait()
    finally:
        if program.returncode is None:
            program.kill()
            await program.wait()


async def hold_step(value: Any) -> Json:
    """Say who holds, stop this whole process if told so, and wait for a file."""
    me = str(os.getpid())
    Path(f"{value['file']}.held-{me}").touch()
    stop = Path(f"{value['file']}.stop-{me}")
    go = Path(f"{value['file']}.go")

    def gone() -> bool:
        if stop.exists():
            stop.unlink()
            os.kill(os.getpid(), signal.SIGSTOP)
        return go.exists()

    await until(gone)
    return me


STORIES = [
    Workflow(name="count", tell=count),
    Workflow(name="ask", tell=ask),
    Workflow(name="fail", tell=fail),
    Workflow(name="stumble", tell=stumble),
    Workflow(name="child", tell=child),
    Workflow(name="hold", tell=hold),
    Workflow(name="heed", tell=heed),
    Workflow(name="crash", tell=crash),
]
EFFECTS = {
    "append": append,
    "double": double,
    "refuse": refuse,
    "break": broken,
    "run": run,
    "hold": hold_step,
    "die": die,
}


async def main(where: str, pace: dict[str, Any]) -> None:
    until, attempts = pace.pop("until", []), pace.pop("attempts", 0)
    async with AsyncExitStack() as stack:
        client: Any
        if ":" in where:
            from kakite.durable import temporal

            client = await stack.enter_async_context(temporal.open_temporal_client(where))
            await stack.enter_async_context(
                temporal.run_worker(where, STORIES, EFFECTS, temporal.TemporalWorkerOptions(**pace))
            )
            print("ready", flush=True)  # noqa: T201 - told to the test
        else:
            from kakite.durable.dbos import client, worker

            worker.ATTEMPTS = attempts or worker.ATTEMPTS  # pyright: ignore[reportConstantRedefinition]
            client = await stack.enter_async_context(client.DbosWorkflowClient(Path(where)))
            works = await stack.enter_async_context(
                worker.run_worker(Path(where), STORIES, EFFECTS, worker.DbosWorkerOptions(**pace))
            )
            print("ready", works.name, flush=True)  # noqa: T201 - told to the test
        for workflow in until:
            await client.get_result(workflow, 120)
        if not until:
            await asyncio.Event().wait()


def start_worker(where: object, pace: dict[str, Any] | None = None) -> subprocess.Popen[str]:
    """Start a worker and wait until it works."""
    program = subprocess.Popen(
        [sys.executable, __file__, str(where), json.dumps(pace or {})],
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    assert program.stdout is not None
    assert program.stdout.readline().startswith("ready")
    return program


if __name__ == "__main__":
    # Ended as the command is: the threads of Temporal's runtime must not meet an interpreter that goes down.
    run_and_exit(lambda: sys.exit(asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))))
