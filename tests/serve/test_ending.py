"""How ``kakite serve`` ends, as a program with an open input."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

WITHIN = 2  # seconds
_UNSENDABLE = """
import asyncio
from kakite.serve import build_server, serve_stdio
from kakite.tools import Offer, Offers, Tool, ToolResult
async def give(arguments):
    return ToolResult(text="", details={"what": object()})
tool = Tool(name="give", description="", parameters={"type": "object"})
asyncio.run(serve_stdio(build_server(Offers(Offer(tool, give)))))
"""


class Client:
    """A client by hand, to see the server's own end."""

    def __init__(self, program: subprocess.Popen[str]) -> None:
        self.program = program
        client = {"name": "test", "version": "0"}
        self.ask("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=client)
        assert "result" in self.answer()
        self._send(method="notifications/initialized")

    def ask(self, method: str, **params: Any) -> None:
        self._send(id=1, method=method, params=params)

    def answer(self) -> dict[str, Any]:
        assert self.program.stdout is not None
        return json.loads(self.program.stdout.readline())

    def _send(self, **message: Any) -> None:
        assert self.program.stdin is not None
        self.program.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.program.stdin.flush()


@contextmanager
def client(state: Path, *argv: str) -> Generator[Client]:
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    environment = {**kept, "XDG_STATE_HOME": str(state)}
    with subprocess.Popen(
        [sys.executable, *argv],
        env=environment,
        encoding="utf-8",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as program:
        try:
            yield Client(program)
        finally:
            program.kill()


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_server_that_waits_for_input(
    tmp_path: Path, number: signal.Signals, status: int
) -> None:
    with client(tmp_path / "state", "-m", "kakite", "serve", "--root", str(tmp_path)) as asking:
        asking.program.send_signal(number)
        assert asking.program.wait(WITHIN) == status


def test_a_signal_ends_the_commands_that_still_run_too(tmp_path: Path) -> None:
    told = tmp_path / "pid"
    os.mkfifo(told)
    serve = ("-m", "kakite", "serve", "--root", str(tmp_path), "--tools", "shell")
    with client(tmp_path / "state", *serve) as asking:
        command = "trap '' TERM INT; echo $$ > pid; while :; do sleep 100; done"
        asking.ask("tools/call", name="run_command", arguments={"command": command})
        process = os.pidfd_open(int(told.read_text(encoding="ascii")))
        asking.program.send_signal(signal.SIGINT)
        assert asking.program.wait(WITHIN) == 130
    assert _ended(process)


def _ended(process: int) -> bool:
    import select

    try:
        return bool(select.select([process], [], [], 5)[0])
    finally:
        os.close(process)


def test_a_server_whose_answers_nobody_can_read_ends(tmp_path: Path) -> None:
    with client(tmp_path / "state", "-m", "kakite", "serve", "--root", str(tmp_path)) as asking:
        assert asking.program.stdout is not None
        asking.program.stdout.close()
        asking.ask("tools/list")
        assert asking.program.wait(WITHIN) == 1


def test_a_result_that_cannot_be_sent_is_an_error_or_the_end(tmp_path: Path) -> None:
    with client(tmp_path, "-c", _UNSENDABLE) as asking:
        asking.ask("tools/call", name="give", arguments={})
        assert asking.program.stdout is not None
        answer = asking.program.stdout.readline()
        assert "error" in json.loads(answer) if answer else asking.program.wait(WITHIN) == 1
