"""``kakite acp``, by raw lines of JSON: what is wrong is told, and an editor that goes takes all with it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kakite_testing.fake_providers import run_scenario_server
from tests.bounds import WITHIN
from tests.cli.program import environment, skip_without
from tests.cli.test_chat import KEY, script
from tests.durable.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.anyio]

GONE_WITHIN = 5  # s
"""What is promised: an editor that goes ends all of it in this time."""

EDITOR = """
import asyncio, sys
from typing import Any
from acp.helpers import text_block
from acp.stdio import spawn_agent_process

class Editor:
    async def session_update(self, session_id, update, **more): pass
    def on_connect(self, conn): pass

async def main(project, *words):
    client: Any = Editor()
    async with spawn_agent_process(client, sys.executable, "-m", "kakite", "acp", *words) as (conn, process):
        await conn.initialize(protocol_version=1)
        session = await conn.new_session(cwd=project, mcp_servers=[])
        print(process.pid, flush=True)
        await conn.prompt(session_id=session.session_id, prompt=[text_block("wait")])

asyncio.run(main(*sys.argv[1:]))
"""


class Agent:
    """A ``kakite acp``, and the lines that it says."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin
        assert process.stdout
        self.process = process
        self.stdin, self.stdout = process.stdin, process.stdout

    async def say(self, line: str) -> Any:
        """Send a line, and return the next answer."""
        self.stdin.write(line.encode() + b"\n")
        await self.stdin.drain()
        return await self.listen()

    async def listen(self) -> Any:
        while True:
            told = json.loads(await self.stdout.readline())
            if "id" in told:
                return told

    async def ask(self, method: str, **params: Any) -> Any:
        return await self.say(request(method, **params))


def request(method: str, request_id: Any = 1, **params: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})


@asynccontextmanager
async def started(home: Path, *words: str, **env: str) -> AsyncGenerator[Agent]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "kakite", "acp", "--sandbox", "local", *words),
        env=environment(home, **env),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 24,
    )
    agent = Agent(process)
    try:
        async with asyncio.timeout(WITHIN):
            yield agent
            agent.stdin.close()
            assert await process.wait() == 0
            assert await agent.stdout.read() == b""  # nothing but the protocol, to the end
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "person"
    folder.mkdir()
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


async def test_what_is_no_message_is_told_so_and_the_next_one_is_answered(home: Path) -> None:
    wrong = {
        "{": -32700,
        "\ufffd\u0000": -32700,
        "[" * 100_000: -32700,
        "[]": -32600,
        "3": -32600,
        '{"jsonrpc": "2.0"}': -32600,
        '{"id": 1, "method": "initialize"}': -32600,
        '{"jsonrpc": "2.0", "id": [], "method": "initialize"}': -32600,
        '{"jsonrpc": "2.0", "id": 1, "method": 3}': -32600,
        '{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": "x"}': -32600,
        '{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": []}': -32602,
        '{"jsonrpc": "2.0", "id": 1, "method": "initialize"}': -32602,
        '{"jsonrpc": "2.0", "id": 1, "method": "session/nothing"}': -32601,
        '{"jsonrpc": "2.0", "id": 1, "method": "_own/thing"}': -32601,
    }
    async with started(home) as agent:
        for line, code in wrong.items():
            told = await agent.say(line)
            assert (line[:60], told["error"]["code"]) == (line[:60], code)
        agent.stdin.write(
            b'\n\n{"jsonrpc": "2.0", "method": "nobody/listens"}\n'
        )  # notifications have no answer
        for version in (0, 1, 2, 99):
            told = await agent.ask("initialize", protocolVersion=version)
            assert told["result"]["protocolVersion"] == 1
        agent.stdin.write(b'{"jsonrpc": "2.0", "id": 2, "meth')  # and the editor goes in the middle of a line


async def test_a_line_without_an_end_is_refused_and_forgotten(home: Path) -> None:
    async with started(home) as agent:
        told = await agent.say(json.dumps({"x": "y" * (51 << 20)}))
        assert (told["id"], told["error"]["code"]) == (None, -32600)
        assert (await agent.ask("initialize", protocolVersion=1))["result"]["protocolVersion"] == 1


async def test_wrong_requests_get_the_codes_of_the_specification(home: Path, project: Path) -> None:
    words = ("--model", "openai:scripted", "--base-url", "http://127.0.0.1:9/v1")
    async with started(home, *words, OPENAI_API_KEY=KEY) as agent:
        assert (await agent.ask("initialize", protocolVersion=1))["result"]["authMethods"]
        assert "result" in await agent.ask("authenticate", methodId="environment")

        async def get_code(method: str, **params: Any) -> int:
            return (await agent.ask(method, **params))["error"]["code"]

        assert await get_code("authenticate", methodId="x") == -32602
        assert await get_code("session/new", cwd="relative", mcpServers=[]) == -32602
        assert await get_code("session/new") == -32602
        assert await get_code("session/prompt", sessionId="none", prompt=[]) == -32602
        assert await get_code("session/set_mode", sessionId="none", modeId="ask") == -32602
        assert await get_code("session/load", sessionId="none", cwd="/", mcpServers=[]) == -32002
        assert await get_code("session/resume", sessionId="../x", cwd="/", mcpServers=[]) == -32002
        made = await agent.ask("session/new", cwd=str(project), mcpServers=[])
        session = made["result"]["sessionId"]
        assert await get_code("session/prompt", sessionId=session, prompt=[]) == -32602
        assert await get_code("session/set_mode", sessionId=session, modeId="x") == -32602
        assert (
            await get_code("session/set_config_option", sessionId=session, configId="x", value="y") == -32602
        )
        hello = [{"type": "text", "text": "hi"}]
        failed = await agent.ask("session/prompt", sessionId=session, prompt=hello)
        assert failed["error"]["data"]["code"] == "model_unreachable"
        assert await get_code("session/load", sessionId=session, cwd=str(home), mcpServers=[]) == -32602


async def test_without_a_key_the_editor_is_told_to_authenticate(home: Path, project: Path) -> None:
    async with started(home, "--model", "openai:scripted") as agent:
        methods = (await agent.ask("initialize", protocolVersion=1))["result"]["authMethods"]
        assert [each["id"] for each in methods] == ["environment"]
        told = await agent.ask("session/new", cwd=str(project), mcpServers=[])
        assert (told["error"]["code"], told["error"]["data"]["code"]) == (-32000, "model_no_key")
        assert (await agent.ask("authenticate", methodId="environment"))["error"]["code"] == -32000


@asynccontextmanager
async def waiting_turn(home: Path, project: Path, answer: dict[str, Any]) -> AsyncGenerator[WaitingTurn]:
    """Yield an agent whose turn ``first`` waits for a command; the model's second step is ``answer``."""
    waits = {"calls": [{"tool": "run_command", "arguments": {"command": "cat gate"}}]}
    os.mkfifo(project / "gate")
    with run_scenario_server(script(waits, answer)) as server:
        words = ("--model", "openai:scripted", "--base-url", server.openai_url, "--approve", "all")
        async with started(home, *words, OPENAI_API_KEY=KEY) as agent:
            made = await agent.ask("session/new", cwd=str(project), mcpServers=[])
            turn = WaitingTurn(agent, made["result"]["sessionId"])
            agent.stdin.write(turn.request("first", "hi").encode() + b"\n")
            gate = await asyncio.to_thread(os.open, project / "gate", os.O_WRONLY)  # once it is being read
            turn.gate = gate
            yield turn
        assert server.violations == ()


@dataclass
class WaitingTurn:
    """A turn whose command waits for ``gate`` to be closed."""

    agent: Agent
    session: str
    gate: int = -1

    def request(self, name: str, text: str, method: str = "session/prompt") -> str:
        return request(method, name, sessionId=self.session, prompt=[{"type": "text", "text": text}])


async def test_a_second_prompt_while_a_turn_runs_steers_it_and_both_are_told_of_its_end(
    home: Path, project: Path
) -> None:
    steered = {"say": "Done, in blue.", "expect": {"last_contains": ["in blue, please"]}}
    async with waiting_turn(home, project, steered) as turn:
        turn.agent.stdin.write(turn.request("second", "in blue, please").encode() + b"\n")
        # Requests are begun in their order: once this one is answered, the one before has been taken.
        told = await turn.agent.say(turn.request("third", "/compact"))
        assert (told["id"], told["error"]["code"]) == ("third", -32600)
        os.close(turn.gate)
        ends = [await turn.agent.listen() for _ in range(2)]
    assert {each["id"]: each["result"]["stopReason"] for each in ends} == {
        "first": "end_turn",
        "second": "end_turn",
    }


async def test_a_message_by_the_method_of_other_agents_steers_the_turn_or_asks_for_a_prompt(
    home: Path, project: Path
) -> None:
    steered = {"say": "Done, in blue.", "expect": {"last_contains": ["in blue, please"]}}
    async with waiting_turn(home, project, steered) as turn:
        agent, method = turn.agent, "_session/steering"
        told = await agent.say(turn.request("steer", "in blue, please", method))
        assert told["result"] == {"outcome": "injected"}
        wrong = await agent.say(request(method, "wrong", sessionId=turn.session, prompt="blue"))
        assert wrong["error"]["code"] == -32602
        os.close(turn.gate)
        assert (await agent.listen())["result"]["stopReason"] == "end_turn"
        late = await agent.say(turn.request("late", "in red", method))
        assert late["result"] == {"outcome": "promptRequired", "reason": "noRunningTurn"}
        unknown = await agent.say(turn.request("other", "x", "_session/other"))
        assert unknown["error"]["code"] == -32601


async def test_a_command_that_comes_while_a_turn_runs_is_none_for_the_model(
    home: Path, project: Path
) -> None:
    asked = {"say": "Done.", "expect": {"last_contains": ["Commit what you"], "last_lacks": ["/co"]}}
    async with waiting_turn(home, project, asked) as turn:
        agent, method = turn.agent, "_session/steering"
        for line in ("/cost", "/context", "/cots", "/rename Blue paint"):
            told = await agent.say(turn.request("steer", line, method))
            assert told["result"] == {"outcome": "injected"}
        refused = await agent.say(turn.request("steer", "/compact", method))
        assert (refused["error"]["code"], refused["error"]["data"]["code"]) == (-32600, "turn_running")
        told = await agent.say(turn.request("steer", "/commit", method))
        assert told["result"] == {"outcome": "injected"}
        os.close(turn.gate)
        assert (await agent.listen())["result"]["stopReason"] == "end_turn"
        listed = await agent.ask("session/list", cwd=str(project))
        assert [each["title"] for each in listed["result"]["sessions"]] == ["Blue paint"]


@pytest.mark.parametrize("sandbox", ["local", "bubblewrap"])
async def test_an_editor_that_is_killed_takes_all_with_it(home: Path, project: Path, sandbox: str) -> None:
    await asyncio.to_thread(skip_without, sandbox)
    length = f"{100000 + os.getpid()}.{len(sandbox)}"  # seconds that nobody else sleeps
    waits = {"calls": [{"tool": "run_command", "arguments": {"command": f"sleep {length}"}}]}
    with run_scenario_server(script(waits)) as server:
        words = ("--model", "openai:scripted", "--base-url", server.openai_url, "--approve", "all")
        editor = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", EDITOR, str(project), *words, "--sandbox", sandbox),
            env=environment(home, OPENAI_API_KEY=KEY),
            stdout=asyncio.subprocess.PIPE,
        )
        assert editor.stdout
        async with asyncio.timeout(WITHIN):
            agent = int(await editor.stdout.readline())
            await until(lambda: list_processes("sleep", length))
        try:
            async with asyncio.timeout(GONE_WITHIN):
                editor.send_signal(signal.SIGKILL)
                await until(lambda: not list_processes("sleep", length))
                await until(lambda: not list_processes("kakite", "acp", server.openai_url))
        finally:
            await editor.wait()
            if list_processes("kakite", "acp", server.openai_url):
                os.kill(agent, signal.SIGKILL)


def list_processes(*words: str) -> list[int]:
    """Return the processes whose command has all of these words."""
    found: list[int] = []
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            try:
                command = (each / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if all(word.encode() in command for word in words):
                found.append(int(each.name))
    return found
