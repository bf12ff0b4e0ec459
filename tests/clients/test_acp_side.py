"""An agent that somebody else wrote, of the protocol's own library for Node, takes part in a debate."""

from __future__ import annotations

import asyncio

import pytest

from kakite.debate.answers import Answer
from kakite.debate.participants.factory import create_participant
from tests.bounds import WITHIN
from tests.clients.conftest import PACKAGES, Node, environment

pytestmark = [pytest.mark.client, pytest.mark.slow, pytest.mark.anyio]


async def test_the_agent_of_the_protocol_s_own_library_answers_and_may_edit_nothing(node: Node) -> None:
    example = PACKAGES / "@agentclientprotocol/sdk/dist/examples/agent.js"
    side = create_participant("example", environment(node.folder), {"acp": [str(node.program), str(example)]})
    async with asyncio.timeout(WITHIN):
        reply = await side.ask("Why?")
    assert isinstance(reply, Answer), reply
    assert reply.text.startswith("I'll help you with that.")
    assert reply.notes == ("1 calls of tools were denied",)
