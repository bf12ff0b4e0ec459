"""What the host costs beside the bare client of the same SDK, and how fast many servers come up together.

    python benchmarks/host/measure.py [--json FILE] [--rounds N] [--turns N] [--only call|start]

What is compared takes turns with one and the same server program, so that whatever else the machine does
meets both: look at the ratios, not at the milliseconds. Beside them stands the load. Where others use the
machine, ten starts together get less of it than one alone, and the ratio of processor time says more.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import json
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from figures import Figure, write
from mcp import Client, StdioServerParameters

from kakite.host import Rule
from kakite.host.config.model import ServerEntry, SourceLocation, StdioServer, Timeouts
from kakite.host.open import HostOptions, open_host
from kakite.host.server.server import HostContext, Server, stop_all
from kakite.tools import ToolCall

BARE = Path(__file__).resolve().parent.parent / "serve" / "bare.py"
BLOCK = 10  # calls of one client before the other has its turn
SERVERS = 10
WAITS = "import time; time.sleep(1); import runpy, sys; runpy.run_path(sys.argv[1], run_name='__main__')"


def entry(name: str, *arguments: str) -> ServerEntry:
    program = StdioServer(command=sys.executable, args=arguments or (str(BARE),))
    origin = SourceLocation(file="benchmark", line=1, scope="user")
    return ServerEntry(name=name, reached=program, origin=origin, timeouts=Timeouts(start=60))


def surroundings(folder: str) -> HostContext:
    return HostContext(environ=os.environ, project=Path(folder), state=Path(folder))


async def calls(folder: str, rounds: int) -> dict[str, float]:
    """Measure a call of the whole host, of one server of it, and of the SDK's client alone: medians in ms."""
    call = ToolCall(id="1", name="echo", arguments={"text": "x" * 200})
    server = Server(entry("bare"), surroundings(folder))
    environ = {**os.environ, "XDG_CONFIG_HOME": folder, "XDG_STATE_HOME": folder}
    configured = Path(folder) / "kakite" / "mcp-servers.json"
    configured.parent.mkdir(exist_ok=True)
    configured.write_text(
        json.dumps({"servers": {"bare": {"command": sys.executable, "args": [str(BARE)]}}}), encoding="utf-8"
    )
    options = HostOptions(rules=(Rule(decision="allow", tool="bare__echo", after_outside="any"),))
    async with (
        Client(StdioServerParameters(command=sys.executable, args=[str(BARE)])) as client,
        open_host(Path(folder), options, environ=environ) as host,
    ):
        await server.start()
        await client.list_tools()
        await host.list_tools()
        ways: dict[str, Callable[[], Awaitable[object]]] = {
            "whole host": lambda: host.call(replace(call, name="bare__echo")),
            "one server": lambda: server.call(call),
            "bare client": lambda: client.call_tool("echo", call.arguments),
        }
        took: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(max(1, rounds // BLOCK)):
            for name, way in ways.items():
                for _ in range(BLOCK):
                    began = time.perf_counter()
                    await way()
                    took[name].append(time.perf_counter() - began)
        await server.stop()
    medians = {name: statistics.median(times) * 1000 for name, times in took.items()}
    bare = medians["bare client"]
    medians["load"] = os.getloadavg()[0]
    return {
        **medians,
        "ratio": medians["whole host"] / bare,
        "ratio of one server": medians["one server"] / bare,
    }


def used() -> float:
    """Return the seconds of processor time that ended children took."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


async def started(servers: list[Server]) -> float:
    began = time.perf_counter()
    await asyncio.gather(*(server.start() for server in servers))
    took = time.perf_counter() - began
    await stop_all(servers)
    return took


async def starts(folder: str, kind: ServerEntry, turns: int) -> dict[str, float]:
    """Measure servers alone and all together by turns: half of them alone, all together, the other half."""
    around = surroundings(folder)
    entries = [replace(kind, name=f"{kind.name}{number}") for number in range(SERVERS)]
    await started([Server(entries[0], around)])  # what is read from the disk the first time counts for nobody
    found = [await turn(entries, around) for _ in range(turns)]
    return {name: statistics.median(each[name] for each in found) for name in found[0]}


async def turn(entries: list[ServerEntry], around: HostContext) -> dict[str, float]:
    cpu = used()
    alone = [await started([Server(each, around)]) for each in entries[: SERVERS // 2]]
    work, cpu = used() - cpu, used()
    together = await started([Server(each, around) for each in entries])
    whole, cpu = used() - cpu, used()
    alone += [await started([Server(each, around)]) for each in entries[SERVERS // 2 :]]
    work += used() - cpu
    bound = max(*alone, work / (os.cpu_count() or 1))
    return {
        "together": together,
        "slowest alone": max(alone),
        "bound": bound,
        "ratio": together / bound,
        # Tells on a busy machine too whether anything was started twice.
        "processor time, together over alone": whole / work,
        "load": os.getloadavg()[0],
    }


async def measure(rounds: int, only: str, turns: int) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        if only != "start":
            found["call, ms"] = await calls(folder, rounds)
        if only != "call":
            found["start of ten that work, s"] = await starts(folder, entry("works"), turns)
            waits = entry("waits", "-c", WAITS, str(BARE))
            found["start of ten that wait, s"] = await starts(folder, waits, turns)
    return found


def figures_of(found: dict[str, dict[str, float]]) -> Iterator[Figure]:
    if calls_of := found.get("call, ms"):
        for name, ratio in (("whole host", "ratio"), ("one server", "ratio of one server")):
            yield Figure("a call", name, "time", calls_of[name], "ms", "the SDK's client", calls_of[ratio])
        yield Figure("a call", "the SDK's client", "time", calls_of["bare client"], "ms")
    for kind in ("work", "wait"):
        for name, value in found.get(f"start of ten that {kind}, s", {}).items():
            unit = "s" if name in {"together", "slowest alone", "bound"} else ""
            yield Figure("ten servers", f"servers that {kind}", name, value, unit)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=3, help="of starting alone and together")
    parser.add_argument("--only", choices=["call", "start"], default="")
    asked = parser.parse_args()
    found = asyncio.run(measure(asked.rounds, asked.only, asked.turns))
    if asked.json:
        write(asked.json, list(figures_of(found)), versions={"mcp": importlib.metadata.version("mcp")})
    for what, figures in found.items():
        print(f"{what:28}", "  ".join(f"{name} {value:.2f}" for name, value in figures.items()))


main()
