"""The page on loopback to which a browser comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kakite.host.oauth.authorization_flow import RedirectListener, open_redirect_listener
from tests.bounds import WITHIN
from tests.lanes import examples

pytestmark = pytest.mark.anyio


@pytest.fixture
async def callback() -> AsyncIterator[RedirectListener]:
    async with open_redirect_listener() as callback:
        callback.expect_state("right")
        yield callback


async def send(callback: RedirectListener, data: bytes) -> bytes:
    async with asyncio.timeout(WITHIN):
        reader, writer = await asyncio.open_connection("127.0.0.1", callback.port)
        writer.write(data)
        writer.write_eof()
        try:
            return await reader.read()
        except ConnectionError:
            return b""
        finally:
            writer.close()


def get(**query: str) -> bytes:
    return f"GET /callback?{urlencode(query)} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


@given(st.binary(max_size=300))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(50))
async def test_whatever_is_sent_the_right_visit_is_still_awaited(
    callback: RedirectListener, data: bytes
) -> None:
    await send(callback, data)
    await send(callback, b"GET /callback?code=theirs&state=" + data.hex().encode() + b" HTTP/1.1\r\n\r\n")
    with pytest.raises(TimeoutError):
        await callback.wait_for_redirect(0)


async def test_the_right_visit_brings_what_it_was_given(callback: RedirectListener) -> None:
    answer = await send(callback, get(code="a b", state="right", iss="https://login.example"))
    assert answer.startswith(b"HTTP/1.1 200 OK")
    landing = await callback.wait_for_redirect(5)
    assert (landing.code, landing.issuer, landing.error) == ("a b", "https://login.example", "")
    assert "a b" not in repr(landing)


async def test_only_the_first_visit_counts(callback: RedirectListener) -> None:
    await send(callback, get(code="first", state="right"))
    await send(callback, get(code="second", state="right"))
    assert (await callback.wait_for_redirect(5)).code == "first"


async def test_nothing_that_was_sent_is_in_the_page(callback: RedirectListener) -> None:
    for state in ("right", "wrong"):
        answer = await send(callback, get(code="<b>x", state=state, error="<b>y"))
        assert b"<b>" not in answer
        assert b"default-src 'none'" in answer


async def test_before_it_expects_somebody_nobody_is_believed() -> None:
    async with open_redirect_listener() as callback:
        assert b"400" in await send(callback, get(code="x", state=""))


async def test_it_is_there_for_this_machine_alone(callback: RedirectListener) -> None:
    assert callback.address == f"http://127.0.0.1:{callback.port}/callback"


async def test_a_taken_port_is_only_insisted_on_when_it_was_asked_for(callback: RedirectListener) -> None:
    async with open_redirect_listener(preferred=callback.port) as other:
        assert other.port != callback.port
    with pytest.raises(OSError, match="already in use"):
        async with open_redirect_listener(port=callback.port):
            pass
