"""What a server asks of a person, when it may: while a call of ours waits for it, and at no other time."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from kakite.host.config.model import ServerEntry, StdioServer, Timeouts
from kakite.host.server.client_features import Elicitation, ElicitationResult, to_safe_url
from kakite.tools.call_context import CallContext, bind_call
from tests.bounds import WITHIN
from tests.host.making import ORIGIN, call, serving
from tests.host.project import TOLD, Project, tool

pytestmark = pytest.mark.anyio

ASKING = """
import json, sys

def send(**message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\\n")
    sys.stdout.flush()

def receive():
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)

def ask(number):
    asked = {"message": "Your password?", "requestedSchema": {"type": "object", "properties": {}}}
    send(id=number, method="elicitation/create", params=asked)
    while (message := receive()).get("id") != number:
        pass
    return message["result"]["action"]

unasked = ""
while True:
    message = receive()
    method, number = message.get("method"), message.get("id")
    if method == "initialize":
        version = message["params"]["protocolVersion"]
        about = {"name": "x", "version": "1"}
        result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
        send(id=number, result=result)
    elif method == "tools/list":
        unasked = ask("while it lists")
        send(id=number, result={"tools": [{"name": "say", "inputSchema": {"type": "object"}}]})
    elif method == "tools/call":
        told = json.dumps([unasked, ask("while it is called")])
        send(id=number, result={"content": [{"type": "text", "text": told}]})
    elif method and number is not None:
        send(id=number, error={"code": -32601, "message": "no"})
"""


class Person:
    """Says yes to whatever is asked."""

    def __init__(self) -> None:
        self.asked: list[Elicitation] = []

    async def elicit(self, asked: Elicitation) -> ElicitationResult:
        self.asked.append(asked)
        return ElicitationResult(action="accept")


async def test_without_a_call_nobody_is_asked_and_the_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    program = tmp_path / "asking.py"
    program.write_text(ASKING, encoding="utf-8")
    reached = StdioServer(command=sys.executable, args=("-I", "-S", str(program)))
    entry = ServerEntry(name="curious", reached=reached, origin=ORIGIN, timeouts=Timeouts(start=20))
    person = Person()
    with caplog.at_level(logging.WARNING, "kakite.host.server.client_features"):
        async with serving(entry, tmp_path, elicit=person) as server:
            await server.list_definitions()
            assert person.asked == []
            assert [record.args for record in caplog.records] == [("curious", "without being called")]
            result = await server.call(call("say"))
    assert json.loads(result.text) == ["cancel", "accept"]
    assert len(person.asked) == 1


async def test_while_clients_of_two_sessions_call_nobody_is_asked(tmp_path: Path) -> None:
    project, person = Project(tmp_path), Person()
    waiting = tmp_path / "waiting"
    form: dict[str, Any] = {"type": "object", "properties": {}}
    does = {"ask": {"elicit": {"message": "Sure?", "requestedSchema": form}}, "wait": {"wait": str(waiting)}}
    project.tell("x", tool("ask"), tool("wait"), does=does)
    reached = StdioServer(
        command=sys.executable, args=("-I", "-S", str(TOLD), str(project.scripts / "x.json"))
    )
    entry = ServerEntry(name="x", reached=reached, origin=ORIGIN, timeouts=Timeouts(start=20))
    one, other = CallContext().session_key, type("Session", (), {})()
    async with serving(entry, tmp_path, elicit=person) as server:
        with bind_call(session=other):
            long = asyncio.create_task(server.call(call("wait")))
        with anyio.fail_after(WITHIN):
            while not waiting.exists():
                await anyio.lowlevel.checkpoint()
        with bind_call(session=one):
            assert "cancel" in (await server.call(call("ask"))).text
        assert person.asked == []
        with bind_call(session=other):
            assert "accept" in (await server.call(call("ask"))).text
        long.cancel()
        await asyncio.wait([long])


@pytest.mark.parametrize("answers", [{}, {"prompts/list": {"prompts": [{"name": 5}]}}])
async def test_a_server_without_its_prompts_has_its_tools_and_the_log_says_so(
    answers: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    project = Project(tmp_path)
    project.tell("x", tool("say"), capabilities={"prompts": {}}, answers=answers)
    reached = StdioServer(
        command=sys.executable, args=("-I", "-S", str(TOLD), str(project.scripts / "x.json"))
    )
    entry = ServerEntry(name="x", reached=reached, origin=ORIGIN, timeouts=Timeouts(start=20))
    with caplog.at_level(logging.WARNING, "kakite.host.server.tools"):
        async with serving(entry, tmp_path) as server:
            assert [each.tool.name for each in await server.list_definitions()] == ["say"]
    (record,) = caplog.records
    assert record.args
    assert "x" in record.args


@pytest.mark.parametrize(
    "address",
    [
        "https://shop.example@evil.example/",
        "https://evil.example\\@shop.example/",
        "https://evil.example\\.shop.example/",
        "https://shop.example:99999/",
        "https://[::1",
        "https:///path",
        "javascript:alert(1)",
        "https://shop.example/ a",
        f"https://shop.example/{'x' * 8000}",
    ],
)
def test_an_address_that_can_be_read_in_two_ways_is_visited_by_nobody(address: str) -> None:
    assert to_safe_url(address) == ""


@pytest.mark.parametrize(
    "address", ["https://shop.example:8443/a?b=c@d#e", "http://[::1]:80/", "https://bücher.example/"]
)
def test_an_address_of_the_web_stays_as_it_is(address: str) -> None:
    assert to_safe_url(address) == address
