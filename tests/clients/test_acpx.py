"""A real ACP client that somebody else wrote, acpx, drives ``kakite acp``; only the model is scripted.

It offers its file system, answers our questions, cancels, and goes on with a session in another process.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kakite_testing.fake_providers import ScenarioServer, run_scenario_server
from tests.bounds import WITHIN
from tests.cli.test_acp_lines import list_processes
from tests.cli.test_chat import KEY, edit, script
from tests.clients.conftest import PACKAGES, Node, environment
from tests.durable.waiting import until

pytestmark = [pytest.mark.client, pytest.mark.slow, pytest.mark.anyio]

_PROGRAM = PACKAGES / "acpx/dist/cli.js"


@dataclass(frozen=True)
class Acpx:
    """The client, and what it starts: one ``kakite acp`` of this server's model."""

    node: Node
    project: Path
    server: ScenarioServer

    async def start(self, *words: str) -> asyncio.subprocess.Process:
        agent = [sys.executable, "-m", "kakite", "acp", "--sandbox", "local"]
        agent += ["--model", "openai:scripted", "--base-url", self.server.openai_url]
        fixed = ["--agent", shlex.join(agent), "--cwd", str(self.project), "--format", "json", "--ttl", "1"]
        return await asyncio.create_subprocess_exec(
            *(self.node.program, _PROGRAM, *fixed, *words),
            cwd=self.project,
            env={**environment(self.node.folder), "OPENAI_API_KEY": KEY},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
        )

    async def run(self, *words: str, code: int = 0) -> list[Any]:
        return await read_messages(await self.start(*words), code)

    async def wait_until_gone(self) -> None:
        """Wait until neither the agent nor the process that kept it is there: that one takes the next prompt
        with the permissions of the first, or refuses it where it is about to end.
        """
        await until(lambda: not (list_processes("acp", self.server.openai_url) or self._list_owners()))

    def _list_owners(self) -> list[int]:
        return [each for each in list_processes("__queue-owner") if self._is_own(each)]

    def _is_own(self, process: int) -> bool:
        with suppress(OSError):  # it may have ended meanwhile
            return os.fsencode(self.node.folder) in Path(f"/proc/{process}/environ").read_bytes()
        return False


async def read_messages(process: asyncio.subprocess.Process, code: int = 0) -> list[Any]:
    """Return the messages that a program printed, once it has ended with this exit code."""
    async with asyncio.timeout(WITHIN):
        printed, _ = await process.communicate()
    assert process.returncode == code, printed
    return [json.loads(line) for line in printed.splitlines() if line.startswith(b"{")]


def list_methods(messages: Sequence[Any]) -> list[str]:
    return [each["method"] for each in messages if "method" in each]


async def test_acpx_edits_by_its_own_file_system_and_goes_on_in_another_process(
    node: Node, root: Path
) -> None:
    (root / "a.py").write_text("a = 1\n", encoding="utf-8")
    with run_scenario_server(script(edit(), {"say": "It is 2."}, {"say": "You asked for 2."})) as server:
        acpx = Acpx(node, root, server)
        await acpx.run("sessions", "new")
        first = await acpx.run("--approve-all", "prompt", "make a 2")
        assert {"session/request_permission", "fs/read_text_file", "fs/write_text_file"} <= {
            *list_methods(first)
        }
        assert (root / "a.py").read_text(encoding="utf-8") == "a = 2\n"
        assert first[-1]["result"]["stopReason"] == "end_turn"
        await acpx.wait_until_gone()
        second = await acpx.run("--approve-all", "prompt", "what did I ask for?")
        assert "session/resume" in list_methods(second)
        assert second[-1]["result"]["stopReason"] == "end_turn"
        assert server.violations == ()
        await acpx.wait_until_gone()


async def test_acpx_cancels_a_command_and_a_refusal_changes_nothing(node: Node, root: Path) -> None:
    os.mkfifo(root / "gate")
    waits = {"calls": [{"tool": "run_command", "arguments": {"command": "cat gate"}}]}
    (root / "a.py").write_text("a = 1\n", encoding="utf-8")
    with run_scenario_server(script(waits, edit(), {"say": "Then not."})) as server:
        acpx = Acpx(node, root, server)
        await acpx.run("sessions", "new")
        turn = await acpx.start("--approve-all", "prompt", "wait")
        gate = await asyncio.to_thread(os.open, root / "gate", os.O_WRONLY)  # once it is being read
        await acpx.run("cancel")
        messages = await read_messages(turn)
        assert messages[-1]["result"]["stopReason"] == "cancelled"
        os.close(gate)
        await acpx.wait_until_gone()
        refused = await acpx.run("--deny-all", "prompt", "make a 2", code=5)  # all was denied
        assert refused[-1]["result"]["stopReason"] == "end_turn"
        assert (root / "a.py").read_text(encoding="utf-8") == "a = 1\n"
        await acpx.wait_until_gone()


async def test_acpx_rewinds_what_another_process_has_done(node: Node, root: Path) -> None:
    (root / "a.py").write_text("a = 1\n", encoding="utf-8")
    with run_scenario_server(script(edit(), {"say": "It is 2."}, {"say": "You said hello."})) as server:
        acpx = Acpx(node, root, server)
        await acpx.run("sessions", "new")
        await acpx.run("--approve-all", "prompt", "make a 2")
        assert (root / "a.py").read_text(encoding="utf-8") == "a = 2\n"
        await acpx.wait_until_gone()
        shown = await acpx.run("prompt", "/rewind 1")
        assert "changed: `a.py`" in json.dumps(shown)
        assert (root / "a.py").read_text(encoding="utf-8") == "a = 2\n"
        await acpx.wait_until_gone()
        await acpx.run("prompt", "/rewind 1 both")
        assert (root / "a.py").read_text(encoding="utf-8") == "a = 1\n"
        await acpx.wait_until_gone()
        await acpx.run("prompt", "hello")
        assert b"make a 2" not in server.requests[-1].body
        await acpx.wait_until_gone()
