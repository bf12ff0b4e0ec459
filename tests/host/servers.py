"""Servers for the tests: programs, started like any other. ``python servers.py NAME``."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from kakite.serve import build_server, serve_stdio
from kakite.tools import FunctionTool, FunctionToolset, JsonObject, Tool, ToolError, ToolResult


def law_toolset() -> FunctionToolset:
    """Return tools of every effect, with results of every form."""

    async def echo(arguments: JsonObject) -> ToolResult:
        return ToolResult(
            text=json.dumps(arguments, ensure_ascii=False, sort_keys=True), details={"seen": arguments}
        )

    async def refuse(arguments: JsonObject) -> ToolResult:
        raise ToolError("no", hint="never", code="refused")

    async def crash(arguments: JsonObject) -> ToolResult:
        raise RuntimeError("a secret of the inside")

    anything: JsonObject = {"type": "object", "properties": {"value": {}}, "additionalProperties": False}
    nothing: JsonObject = {"type": "object", "properties": {}, "additionalProperties": False}
    return FunctionToolset(
        FunctionTool(
            Tool(name="echo", title="Echo", description="Say it back 語", parameters=anything, effect="read"),
            echo,
        ),
        FunctionTool(
            Tool(name="refuse", description="Refuse", parameters=nothing, effect="write", idempotent=True),
            refuse,
        ),
        FunctionTool(Tool(name="crash", description="Crash", parameters=nothing, open_world=True), crash),
    )


def law() -> None:
    asyncio.run(serve_stdio(build_server(law_toolset())))


def dies_at_once() -> None:
    sys.stderr.write(f"my last words \x1b[31m{os.environ.get('API_TOKEN', '')}\n")
    sys.exit(7)


def dies_in_call() -> None:
    async def die(arguments: JsonObject) -> ToolResult:
        sys.stderr.write(f"dying now {os.environ.get('API_TOKEN', '')}\n")
        sys.stderr.flush()
        signal.raise_signal(signal.SIGKILL)
        return ToolResult(text="")

    nothing: JsonObject = {"type": "object", "properties": {}}
    asyncio.run(
        serve_stdio(
            build_server(
                FunctionToolset(FunctionTool(Tool(name="die", description="d", parameters=nothing), die))
            )
        )
    )


def stubborn() -> None:
    """Ignore SIGTERM and the end of input, and leave a grandchild of another session behind."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    grandchild = subprocess.Popen(["setsid", "sleep", "1000"])
    Path(sys.argv[2]).write_text(str(grandchild.pid), encoding="utf-8")
    asyncio.run(serve_stdio(build_server(law_toolset())))
    while True:
        signal.pause()


if __name__ == "__main__":
    {"law": law, "dies_at_once": dies_at_once, "dies_in_call": dies_in_call, "stubborn": stubborn}[
        sys.argv[1]
    ]()
