"""The websocket: who is let in, late joiners, clients that send nonsense, too much or too fast."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pycrdt import Doc, Text
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from kakite.collab.realtime import protocol
from tests.bounds import WITHIN
from tests.collab.server import TOKEN, Tab, serving

pytestmark = pytest.mark.anyio

BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.mark.slow
async def test_one_who_comes_late_sees_cursors_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"x\n")
    async with serving(tmp_path) as server, Tab(server.url, "a.md", "千") as ann:
        await ann.tell_cursor({"anchor": 1})
        async with Tab(server.url, "a.md", "Ben") as ben:
            await ben.until(lambda: "千" in ben.names())
            assert ben.state["file"] == {"saved": True, "problem": None}
            assert ben.state["suggestions"] == ben.state["runs"] == []
            await ann.until(lambda: "Ben" in ann.names())
        await ann.until(lambda: "Ben" not in ann.names())


@pytest.mark.slow
async def test_who_sends_what_others_have_removed_already_hears_of_that(tmp_path: Path) -> None:
    """The server was away, and Ann's removal of Ben's words comes to it before his words do."""
    (tmp_path / "a.md").write_bytes(b"x\n")
    async with serving(tmp_path) as server:
        ben = Tab(server.url, "a.md", "Ben")
        await ben.join()
        await ben.leave()
        ben.insert(0, "new ")
        ann: Doc[Text] = Doc()
        text = ann.get("text", type=Text)
        ann.apply_update(ben.doc.get_update())
        removals: list[bytes] = []
        ann.observe(lambda event: removals.append(event.update))
        del text[0:4]
        place = f"{server.url.replace('http', 'ws', 1)}ws/a.md"
        async with connect(place, additional_headers=BEARER, open_timeout=WITHIN) as socket:
            await socket.send(protocol.create_sync_message(protocol.UPDATE, removals[-1]))
            await ben.join()
            await ben.until(lambda: str(ben) == "x\n")
        await ben.leave()


@pytest.mark.slow
async def test_strangers_are_not_let_in(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"x\n")
    async with serving(tmp_path) as server:
        async with server.client() as client, Tab(server.url, "a.md", token="wrong") as stranger:
            assert stranger.closed == 4401
            cookie = (await client.get("/", params={"token": TOKEN})).headers["set-cookie"].partition(";")[0]
        place = server.url.replace("http", "ws", 1)
        home = server.url.rstrip("/")
        for headers, code in (
            ({"Cookie": cookie, "Origin": home}, None),
            ({"Cookie": cookie, "Origin": "http://stranger.example"}, 4403),
            ({"Cookie": cookie}, 4403),
        ):
            assert await closed_with(f"{place}ws/a.md", headers) == code, headers
        assert await closed_with(f"{place}ws/none.md", BEARER) == 4404
        assert await closed_with(f"{place}ws/..%2Fa.md", BEARER) == 4404


async def closed_with(url: str, headers: dict[str, str]) -> int | None:
    try:
        async with connect(url, additional_headers=headers, open_timeout=WITHIN) as socket:
            try:
                await socket.recv()
            except ConnectionClosed as closed:
                return closed.rcvd.code if closed.rcvd else 0
            return None
    except InvalidStatus as refused:
        return refused.response.status_code


@pytest.mark.slow
async def test_one_with_the_link_for_readers_reads_and_does_not_write(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"x\n")
    async with serving(tmp_path) as server:
        token = server.reading_token
        async with Tab(server.url, "a.md", token=token) as reader, Tab(server.url, "a.md") as ann:
            ann.insert(0, "new ")
            await reader.until(lambda: str(reader) == "new x\n")
            reader.insert(0, "no ")
            await reader.until(lambda: reader.closed == 4403)
            assert str(ann) == "new x\n"
        async with server.client(Authorization=f"Bearer {token}") as client:
            assert (await client.get("/api/pages/a.md")).json()["writable"] is False
            refused = await client.post("/api/pages/a.md/suggestions/accept")
            assert (refused.status_code, refused.json()["error"]["code"]) == (403, "not_allowed")


NONSENSE: list[bytes | str] = [
    b"",
    b"\x00",
    b"\x00\x02\xff\xff",
    b"\x00\x02" + protocol.write_var_bytes(b"\xff" * 30),
    b"\x00\x00" + protocol.write_var_bytes(b"\xff" * 30),
    b"\x00\x09" + protocol.write_var_bytes(b""),
    b"\x01" + protocol.write_var_bytes(b"\x05garbage"),
    b"\x00\x01" + random.Random(1).randbytes(1000),
    "text",
]


@pytest.mark.slow
async def test_nonsense_ends_one_connection_and_nobody_else_notices(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"x\n")
    async with serving(tmp_path) as server, Tab(server.url, "a.md") as ann:
        for nonsense in NONSENSE:
            async with Tab(server.url, "a.md", "bad") as bad:
                await bad.send(nonsense)
                await bad.until(lambda bad=bad: bad.closed == 4400)
        ann.insert(0, "still ")
        async with Tab(server.url, "a.md") as ben:
            await ben.until(lambda: str(ben) == "still x\n")


@pytest.mark.slow
async def test_random_changes_of_real_messages_harm_nobody(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes("日本語\n".encode())
    dice = random.Random(7)
    async with serving(tmp_path) as server, Tab(server.url, "a.md") as ann:
        real = protocol.create_sync_message(protocol.UPDATE, ann.doc.get_update())
        for _ in range(40):
            async with Tab(server.url, "a.md", "bad") as bad:
                for _ in range(5):
                    message = bytearray(real)
                    for _ in range(dice.randint(1, 4)):
                        message[dice.randrange(len(message))] = dice.randrange(256)
                    if bad.is_connected:
                        try:
                            await bad.send(bytes(message))
                        except ConnectionClosed:
                            break
        async with Tab(server.url, "a.md") as ben:
            ann.insert(0, "still ")
            await ben.until(lambda: str(ben).startswith("still "))
            await ann.until(lambda: str(ann) == str(ben))


@pytest.mark.slow
async def test_too_large_and_too_fast_ends_a_connection(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"x\n")
    async with serving(tmp_path) as server, Tab(server.url, "a.md", "bad") as bad:
        await bad.send(b"\x00\x02" + protocol.write_var_bytes(b"\x00" * (4 * 1024 * 1024 + 1)))
        await bad.until(lambda: bad.closed == 4413)
        await bad.join()
        try:
            for _ in range(5000):
                await bad.send(b"\x03")
        except ConnectionClosed:
            pass
        await bad.until(lambda: bad.closed == 4429)
        async with Tab(server.url, "a.md") as ben:
            assert str(ben) == "x\n"
