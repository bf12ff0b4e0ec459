"""How ``kakite serve`` ends, as a program with an open input."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.bounds import WITHIN

_UNSENDABLE = """
import asyncio
from kakite.serve import build_server, serve_stdio
from kakite.tools import FunctionTool, FunctionToolset, Tool, ToolResult
async def give(arguments):
    return ToolResult(text="", details={"what": object()})
tool = Tool(name="give", description="", parameters={"type": "object"})
asyncio.run(serve_stdio(build_server(FunctionToolset(FunctionTool(tool, give)))))
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
        assert select.select([self.program.stdout], [], [], WITHIN)[0], "no answer"
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


SERVE = ("-m", "kakite", "serve", "--root")
_PATIENT = """
from kakite.__main__ import main
from kakite.workspace import edit_log, locks
locks.WAIT = edit_log._WAIT_TO_WRITE = 3600
main()
"""
_ANSWERING = """
from kakite.__main__ import main
from kakite.serve import jsonrpc_lines
jsonrpc_lines._ANSWER_TIMEOUT = 3600
main()
"""


_HOLDING = """
import sys
from pathlib import Path
from kakite.workspace import open_edit_log
with open_edit_log(Path(sys.argv[1]), sys.argv[2]).locks.acquire(sys.argv[3:]):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def locked(state: Path, root: Path) -> Generator[None]:
    """Let another process hold the locks of the files that are written."""
    folder = state / "kakite"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    argv = [sys.executable, "-c", _HOLDING, str(folder), str(root), str(root / "x"), str(root / "y")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"held\n"
        yield
        program.communicate(timeout=WITHIN)


def edit(asking: Client, **arguments: Any) -> None:
    asking.ask("tools/call", name="text_editor", arguments=arguments)


@pytest.mark.slow
@pytest.mark.parametrize("end", ["signal", "input"])
def test_while_a_write_waits_for_others_the_server_answers_and_can_be_ended(tmp_path: Path, end: str) -> None:
    root, state = tmp_path / "root", tmp_path / "state"
    root.mkdir()
    (root / "x").write_bytes(b"a")
    serve = ("-c", _PATIENT, *SERVE[2:])  # which would wait for an hour
    with client(state, *serve, str(root)) as asking, locked(state, root):
        edit(asking, command="str_replace", path="x", old_str="a", new_str="b")
        for _ in range(10):
            edit(asking, command="create", path="y", file_text="")
        for _ in range(20):  # the write waits before the last of them, at the latest
            edit(asking, command="view", path="x")
            assert asking.answer()["result"]["content"][0]["text"] == "1\ta"
        asking.ask("ping")
        assert asking.answer()["result"] == {}
        _assert_ends(asking, end)
    assert (root / "x").read_bytes() == b"a"


def _assert_ends(asking: Client, how: str) -> None:
    if how == "signal":
        asking.program.send_signal(signal.SIGTERM)
    else:
        assert asking.program.stdin is not None
        asking.program.stdin.close()
    assert asking.program.wait(WITHIN) == (143 if how == "signal" else 0)


@pytest.mark.slow
def test_who_pipes_requests_in_and_closes_reads_every_answer(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "x").write_bytes(b"a\n")
    serve = ("-c", _ANSWERING, *SERVE[2:])  # which would wait for an hour
    with client(tmp_path / "state", *serve, str(root)) as asking:
        edit(asking, command="str_replace", path="x", old_str="a", new_str="b")
        assert asking.program.stdin is not None
        asking.program.stdin.close()
        assert "Edited `x`" in asking.answer()["result"]["content"][0]["text"]
        assert asking.program.wait(WITHIN) == 0
    assert (root / "x").read_bytes() == b"b\n"


@pytest.mark.slow
@pytest.mark.parametrize("end", ["signal", "input"])
def test_while_a_large_file_is_read_the_server_answers_and_can_be_ended(tmp_path: Path, end: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    for number in range(20):
        (root / str(number)).write_bytes(b"caf\xe9 cr\xe8me \xff\xfe\x81\n" * 1_500_000)
    with client(tmp_path / "state", *SERVE, str(root), "--resources") as asking:
        files = [str(number) for number in range(20)]
        asking.ask("tools/call", name="read_files", arguments={"path": files})
        edit(asking, command="view", path="0")
        asking.ask("ping")
        assert asking.answer()["result"] == {}
        _assert_ends(asking, end)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_server_that_waits_for_input(
    tmp_path: Path, number: signal.Signals, status: int
) -> None:
    with client(tmp_path / "state", "-m", "kakite", "serve", "--root", str(tmp_path)) as asking:
        asking.program.send_signal(number)
        assert asking.program.wait(WITHIN) == status


@pytest.mark.slow
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
        return bool(select.select([process], [], [], WITHIN)[0])
    finally:
        os.close(process)


@pytest.mark.slow
def test_a_server_whose_answers_nobody_can_read_ends(tmp_path: Path) -> None:
    with client(tmp_path / "state", "-m", "kakite", "serve", "--root", str(tmp_path)) as asking:
        assert asking.program.stdout is not None
        asking.program.stdout.close()
        asking.ask("tools/list")
        assert asking.program.wait(WITHIN) == 1


@pytest.mark.slow
def test_a_result_that_cannot_be_sent_is_an_error_or_the_end(tmp_path: Path) -> None:
    with client(tmp_path, "-c", _UNSENDABLE) as asking:
        asking.ask("tools/call", name="give", arguments={})
        assert asking.program.stdout is not None
        answer = asking.program.stdout.readline()
        assert "error" in json.loads(answer) if answer else asking.program.wait(WITHIN) == 1
