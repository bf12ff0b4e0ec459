"""The answer to ``initialize``, which is given before the protocol's library is imported."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from acp import PROTOCOL_VERSION, schema
from hypothesis import given
from hypothesis import strategies as st

from kakite.agent.acp import handshake
from kakite.agent.acp.agent import AcpAgent
from kakite.agent.acp.handshake import answer_handshake, build_initialize_answer, is_plain_initialize
from kakite.agent.acp.transport import LineTransport
from tests.bounds import WITHIN
from tests.cli.program import environment

SLOW = ("acp", "pydantic_ai", "httpx", "httpx2", "kakite.agent.session", "kakite.agent.run", "kakite.host")

VALUES: Any = (
    st.none() | st.booleans() | st.integers() | st.text() | st.dictionaries(st.text(), st.integers())
)
REQUESTS = st.fixed_dictionaries(
    {"id": st.integers() | st.text() | st.none(), "method": st.sampled_from(["initialize", "session/new"])},
    optional={
        "params": VALUES
        | st.fixed_dictionaries(
            {"protocolVersion": st.integers(-1, 70000) | VALUES},
            optional={
                "clientCapabilities": VALUES | st.just({"fs": {"readTextFile": True}}),
                "clientInfo": VALUES | st.just({"name": "editor", "version": "1"}),
            },
        )
    },
)


def test_the_answer_is_what_the_library_would_say() -> None:
    assert handshake.PROTOCOL_VERSION == PROTOCOL_VERSION
    factory: Any = None
    told = asyncio.run(AcpAgent(factory).initialize(protocol_version=1))
    whole = told.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True)
    assert whole == build_initialize_answer()


@given(REQUESTS)
def test_what_is_answered_early_is_a_request_that_the_library_takes(message: dict[str, Any]) -> None:
    if is_plain_initialize(message):
        schema.InitializeRequest.model_validate(message["params"])


class Lines:
    """A transport of the tests."""

    def __init__(self, *messages: dict[str, Any]) -> None:
        self.left, self.sent = list(messages), list[dict[str, Any]]()

    async def receive(self) -> dict[str, Any] | None:
        return self.left.pop(0) if self.left else None

    async def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    def give_again(self, message: dict[str, Any]) -> None:
        self.left.insert(0, message)


def test_whatever_else_comes_is_left_for_the_library() -> None:
    ask: dict[str, Any] = {"id": 1, "method": "initialize", "params": {"protocolVersion": 7}}
    able = {**ask, "id": "2", "params": {"protocolVersion": 1, "clientCapabilities": {"terminal": True}}}
    other: dict[str, Any] = {"id": 3, "method": "session/new", "params": {}}
    lines: Any = Lines(ask, able, other)
    calls: list[None] = []
    assert asyncio.run(answer_handshake(lines, lambda: calls.append(None))) == {"terminal": True}
    assert [each["id"] for each in lines.sent] == [1, "2"]
    assert lines.left == [other]
    assert len(calls) == 1
    nothing: Any = Lines(ask)
    assert asyncio.run(answer_handshake(nothing, lambda: None)) is None


def test_the_transport_gives_a_message_again() -> None:
    async def main() -> None:
        reader = asyncio.StreamReader()
        reader.feed_eof()
        nobody: Any = None
        transport = LineTransport(reader, nobody)
        transport.give_again({"id": 1})
        assert await transport.receive() == {"id": 1}
        assert await transport.receive() is None

    asyncio.run(main())


_LOADED = """
import sys
from kakite.agent.acp import handshake
told = handshake.build_initialize_answer
def answer():
    sys.stderr.write("loaded: " + " ".join(sys.modules) + "\\n")
    return told()
handshake.build_initialize_answer = answer
from kakite import __main__
sys.argv = ["kakite", "acp"]
__main__.main()
"""


@pytest.mark.slow
def test_nothing_slow_is_loaded_before_the_answer(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _LOADED],
        input='{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}\n',
        env=environment(tmp_path),
        capture_output=True,
        encoding="utf-8",
        timeout=WITHIN,
        check=True,
    )
    assert json.loads(done.stdout)["result"]["agentInfo"]["name"] == "kakite"
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("loaded: "))
    loaded = line.split()
    assert "kakite.agent.acp.transport" in loaded
    assert [name for name in SLOW if name in loaded] == []
