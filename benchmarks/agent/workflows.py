"""What durable workflows cost: pick-up, overhead per step, memory: `workflows.py [temporal] [--json FILE]`.

Steps do nothing, so all that is measured is ours, the engine's and the disk's. With `temporal` the same is
done on a real server, which is started on the loopback for the time being.
"""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from contextlib import asynccontextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from figures import Figure, write

from kakite.durable.workflow import Workflow

STEPS, WORKFLOWS, TURNS = 120, 200, 10
RESULT = {"text": "x" * 8000}
moments: dict[str, list[float]] = {}
found: list[Figure] = []


def keep(of, **values):
    """Note figures of the engine that is measured; times in seconds are told in ms."""
    engine = "Temporal" if "temporal" in sys.argv[1:] else "SQLite"
    units = {"memory": "MB", "journal": "MB", "together": "s", "rate": "steps/s"}
    for name, value in values.items():
        unit = units.get(name, "ms")
        found.append(Figure(engine, of, name, value * (1000 if unit == "ms" else 1), unit))


def middle(values):
    """Return the median, and what 95 of 100 do not exceed."""
    values = sorted(values)
    return {"median": statistics.median(values), "p95": values[int(len(values) * 0.95) - 1]}


async def work(value):
    moments.setdefault(value["id"], []).append(time.monotonic())
    return RESULT if value.get("large") else value["n"]


async def run(context, start):
    for n in range(start["n"]):
        await context.execute_activity(
            "work", {"id": start["id"], "n": n, "large": start.get("large", False)}
        )
        if start.get("publish"):
            await context.publish({"at": n})
    return


WORKFLOW = Workflow(name="bench", tell=run)
ACTIVITIES = {"work": work}


def spread(values, unit=1000):
    values = sorted(value * unit for value in values)
    return f"median {statistics.median(values):.1f}, p95 {values[int(len(values) * 0.95) - 1]:.1f}"


def memory():
    with Path("/proc/self/statm").open(encoding="utf-8") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6


async def steps(client, name, **start):
    await client.submit(name, WORKFLOW.label, {"id": name, "n": STEPS, **start})
    before = time.process_time()
    await client.get_result(name, 300)
    spent = time.process_time() - before
    gaps = [b - a for a, b in zip(moments[name], moments[name][1:], strict=False)]
    keep(f"a step, {name}", **middle(gaps), processor=spent / STEPS)
    print(
        f"  step, {name}: {spread(gaps)} ms; the last 20: {spread(gaps[-20:])} ms; "
        f"processor {spent / STEPS * 1000:.1f} ms a step"
    )


async def pick_up(client, count=60):
    waits = []
    for n in range(count):
        name, at = f"pick-{n}", time.monotonic()
        await client.submit(name, WORKFLOW.label, {"id": name, "n": 1})
        submitted = time.monotonic()
        await client.get_result(name, 60)
        waits.append(moments[name][0] - submitted)
        del at
    keep("submitted to the first step", **middle(waits))
    print(f"  submitted to first step begun, {count} times, one at a time: {spread(waits)} ms")


async def load(client):
    names = [f"load-{n}" for n in range(WORKFLOWS)]
    began = time.monotonic()
    await asyncio.gather(
        *(
            client.submit(name, WORKFLOW.label, {"id": name, "n": TURNS, "publish": True})
            for name in names[:8]
        )
    )
    for name in names[8:]:
        await client.submit(name, WORKFLOW.label, {"id": name, "n": TURNS, "publish": True})
    sizes = []
    for n, name in enumerate(names):
        await client.get_result(name, 300)
        if (n + 1) % 25 == 0:
            sizes.append(memory())
    together = time.monotonic() - began
    rate = WORKFLOWS * TURNS / together
    keep(f"{WORKFLOWS} workflows of {TURNS} steps", together=together, rate=rate, memory=sizes[-1])
    print(
        f"  {WORKFLOWS} workflows of {TURNS} steps: {together:.1f} s, {rate:.0f} steps a second; "
        f"resident MB every 25: {' '.join(f'{size:.0f}' for size in sizes)}"
    )


async def replay(client, work):
    """Run a workflow with a long event history that is dropped for a wait, and replayed."""
    await client.submit("replay", "long@1", {"id": "replay", "n": STEPS})
    async with work():
        while (await client.describe("replay")).state != "waiting":  # noqa: ASYNC110 - a client sends no events
            await asyncio.sleep(0.02)
        began = time.monotonic()
        await client.signal("replay", "go", None)
        await client.get_result("replay", 60)
        keep(f"a signal to the end, after {STEPS} steps", median=time.monotonic() - began)
        print(f"  signal to end, after {STEPS} steps: {(time.monotonic() - began) * 1000:.0f} ms")


async def long(context, start):
    await run(context, start)
    return await context.wait_for_signal("go")


LONG = Workflow(name="long", tell=long)


async def measure(client, work):
    async with work():
        await pick_up(client)
        await steps(client, "small")
        await steps(client, "published", publish=True)
        await steps(client, "8kB", large=True)
        await load(client)
    await replay(client, work)


async def embedded():
    began = time.monotonic()
    from kakite.durable.dbos.client import DbosWorkflowClient
    from kakite.durable.dbos.worker import run_worker

    print(f"SQLite: import {time.monotonic() - began:.2f} s")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "workflows"
        async with DbosWorkflowClient(folder, poll=0.02) as client:
            await measure(client, lambda: run_worker(folder, [WORKFLOW, LONG], ACTIVITIES))
        size = sum(file.stat().st_size for file in folder.iterdir() if file.is_file())
        keep("all of these workflows", journal=size / 1e6)
        print(f"  journal {size / 1e6:.1f} MB")


@asynccontextmanager
async def server(told=lambda _: None):
    """A server of Temporal on the loopback; yields its address, and tells its process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    program = Path(sysconfig.get_path("scripts")) / "temporal"
    with tempfile.TemporaryDirectory() as home:
        started = subprocess.Popen(  # noqa: ASYNC220 - once, before anything is measured
            [
                program,
                "server",
                "start-dev",
                "--headless",
                "--ip",
                "127.0.0.1",
                "--port",
                str(port),
                "--log-level",
                "error",
            ],
            env={"HOME": home},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        told(started.pid)
        try:
            yield f"127.0.0.1:{port}"
        finally:
            started.kill()
            started.wait(30)


async def temporal():
    from kakite.durable.client import BackendUnavailableError
    from kakite.durable.temporal import open_temporal_client, run_worker

    print("Temporal")
    async with server() as address:
        for _ in range(100):
            try:
                async with open_temporal_client(address) as client:
                    await client.list_workflows()
                    break
            except BackendUnavailableError:
                await asyncio.sleep(0.1)
        async with open_temporal_client(address) as client:
            await measure(client, lambda: run_worker(address, [WORKFLOW, LONG], ACTIVITIES))


if __name__ == "__main__":
    asyncio.run(temporal() if "temporal" in sys.argv[1:] else embedded())
    print(f"  peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000:.0f} MB")
    if "--json" in sys.argv:
        write(Path(sys.argv[sys.argv.index("--json") + 1]), found)
