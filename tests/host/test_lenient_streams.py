"""What is taken from servers although the SDK's client does not take it."""

from __future__ import annotations

from typing import Any

import anyio
import mcp_types as mcp
import pytest
from anyio.lowlevel import checkpoint
from mcp.shared.message import SessionMessage

from kakite.host.server.transport import open_lenient_streams
from tests.bounds import WITHIN

pytestmark = pytest.mark.anyio

MODERN = {"_meta": {mcp.PROTOCOL_VERSION_META_KEY: "2026-07-28"}}


class Pipes:
    """The two streams of a connection, with their other ends."""

    def __init__(self) -> None:
        self.server, self.reading = anyio.create_memory_object_stream[SessionMessage | Exception](9)
        self.writing, self.sent = anyio.create_memory_object_stream[SessionMessage](9)

    async def __aenter__(self) -> tuple[Any, Any]:
        await checkpoint()
        return self.reading, self.writing

    async def __aexit__(self, *error: object) -> None:
        for stream in (self.server, self.reading, self.writing, self.sent):
            stream.close()


def asked(params: dict[str, Any] | None) -> SessionMessage:
    return SessionMessage(mcp.JSONRPCRequest(jsonrpc="2.0", id=1, method="tools/call", params=params))


def answered(result: dict[str, Any]) -> SessionMessage:
    return SessionMessage(mcp.JSONRPCResponse(jsonrpc="2.0", id=1, result=result))


async def heard(params: dict[str, Any] | None, result: dict[str, Any]) -> dict[str, Any]:
    pipes = Pipes()
    async with open_lenient_streams(pipes) as (reading, writing):
        await writing.send(asked(params))
        assert pipes.sent.receive_nowait().message == asked(params).message
        await pipes.server.send(answered(result))
        with anyio.fail_after(WITHIN):
            message = await reading.receive()
        return message.message.result


async def test_a_result_without_a_kind_is_complete() -> None:
    assert await heard(MODERN, {"content": []}) == {"content": [], "resultType": "complete"}


async def test_a_result_with_a_kind_keeps_it() -> None:
    result = {"resultType": "input_required"}
    assert await heard(MODERN, dict(result)) == result


@pytest.mark.parametrize("params", [None, {}, {"_meta": {"progressToken": 1}}, {"_meta": None}])
async def test_results_of_older_revisions_are_left_alone(params: dict[str, Any] | None) -> None:
    assert await heard(params, {"content": []}) == {"content": []}


async def test_faults_and_the_end_are_passed_on() -> None:
    pipes = Pipes()
    fault = ValueError("broken")
    async with open_lenient_streams(pipes) as (reading, writing), writing, reading:
        await writing.send(asked(MODERN))
        await pipes.server.send(fault)
        pipes.server.close()
        assert [item async for item in reading] == [fault]
