"""Documents that begin anew: who holds another history doubles nothing, and a page lives for ever."""

from __future__ import annotations

import asyncio
import shutil
import socket
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from kakite.collab.app import SERVER_LIMITS, create_collab_server
from kakite.collab.assistant.assistant import Assistant
from kakite.collab.auth.policy import AuthPolicy
from kakite.collab.realtime.room import RoomLimits
from kakite.collab.redis.cluster import ClusterNode
from kakite.collab.registry import DocumentRegistry
from kakite.collab.store import DocumentStore
from kakite.serve.streamable_http import serve_in_background
from kakite.workspace import Workspace
from tests.bounds import WITHIN
from tests.collab.redis import needs_redis, redis
from tests.collab.server import TOKEN, Tab, on_disk, serving
from tests.collab.test_mcp import agent, call

pytestmark = pytest.mark.anyio


async def come_back(tab: Tab, port: int) -> None:
    tab.url = f"ws://127.0.0.1:{port}/ws/{tab.page}"
    await tab.join()


def state_of(home: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(home)}


@pytest.mark.slow
async def test_a_restart_keeps_the_history(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"one\n")
    ann = Tab("http://127.0.0.1:0", "a.md")
    for text in ("one\n", "xone\n"):
        async with serving(tmp_path) as server:
            await come_back(ann, server.port)
            await ann.until(lambda text=text: str(ann) == text)
            assert ann.history
            assert ann.state["history"] == ann.history
            ann.insert(0, "x")
            await ann.settle()
            await server.end()
            await ann.leave()


@pytest.mark.slow
@pytest.mark.parametrize("older", [False, True], ids=["deleted", "put back from a copy"])
async def test_a_tab_of_a_store_that_is_gone_doubles_nothing(tmp_path: Path, older: bool) -> None:
    pages, home = tmp_path / "pages", tmp_path / "state"
    pages.mkdir()
    home.mkdir()
    file = pages / "a.md"
    file.write_bytes(b"one\n")
    ann = Tab("http://127.0.0.1:0", "a.md")
    async with serving(pages, environ=state_of(home)) as server:
        await come_back(ann, server.port)
        ann.insert(4, "two\n")
        await on_disk(file, b"one\ntwo\n")
        await server.end()
        await ann.leave()
    shutil.copytree(home, tmp_path / "copy")
    async with serving(pages, environ=state_of(home)) as server:
        await come_back(ann, server.port)
        ann.insert(8, "three\n")
        await on_disk(file, b"one\ntwo\nthree\n")
        await server.end()
        await ann.leave()
    shutil.rmtree(home)
    if older:
        shutil.copytree(tmp_path / "copy", home)
    else:
        home.mkdir()
    async with serving(pages, environ=state_of(home)) as server:
        await come_back(ann, server.port)
        await ann.until(lambda: ann.closed == 4409)
        async with Tab(server.url, "a.md") as ben:
            assert str(ben) == "one\ntwo\nthree\n"
            assert ben.history != ann.history
            assert file.read_bytes() == b"one\ntwo\nthree\n"


@pytest.mark.slow
async def test_what_others_wrote_while_nobody_served_keeps_suggestions(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"one\ntwo\n")
    async with serving(tmp_path) as server, agent(server) as client:
        await call(client, "str_replace", "a.md", old_str="two", new_str="2")
    (tmp_path / "a.md").write_bytes(b"zero\none\ntwo\n")
    async with serving(tmp_path) as server, server.client() as http:
        # The list knows of them before anybody opens the page.
        (row,) = (await http.get("/api/pages")).json()["pages"]
        assert row["pending"] == 1
        async with Tab(server.url, "a.md") as ann:
            await ann.until(lambda: [each["line"] for each in ann.state["suggestions"]] == [3])


@pytest.mark.slow
async def test_a_store_of_an_earlier_version_is_taken_over(tmp_path: Path) -> None:
    pages, home = tmp_path / "pages", tmp_path / "state"
    pages.mkdir()
    home.mkdir()
    (pages / "a.md").write_bytes(b"one\n")
    ann = Tab("http://127.0.0.1:0", "a.md")
    async with serving(pages, environ=state_of(home)) as server:
        await come_back(ann, server.port)
        await server.end()
        await ann.leave()
    (store,) = home.rglob("*.sqlite")
    with closing(sqlite3.connect(store)) as database:
        database.execute("ALTER TABLE page DROP COLUMN history")
        database.commit()
    ann.history = ""  # an earlier page tells none
    async with serving(pages, environ=state_of(home)) as server:
        await come_back(ann, server.port)
        await ann.until(lambda: str(ann) == "one\n" and bool(ann.history))
        await ann.leave()


@asynccontextmanager
async def small(folder: Path, redis_url: str = "") -> AsyncGenerator[str]:
    """A server of a document that is full soon, and its address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        limits = RoomLimits(document=64 * 1024, worn=8 * 1024)
        relay = ClusterNode(redis_url, f"http://127.0.0.1:{port}/") if redis_url else None
        pages = DocumentRegistry(Workspace([str(folder)]), DocumentStore(None), limits=limits, relay=relay)
        site = create_collab_server(pages, AuthPolicy(host="127.0.0.1", port=port, token=TOKEN), Assistant())
        await site.start()
        async with serve_in_background(site.app, listening, SERVER_LIMITS):
            yield f"http://127.0.0.1:{port}/"
            assert await site.close() == []


async def test_a_page_lives_longer_than_what_its_document_may_hold(tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_bytes("始め\r\n".encode())
    async with small(tmp_path) as url:
        text, lacked, histories = "始め\n", False, set[str]()
        while len(histories) < 3:
            async with Tab(url, "a.md", "Ann") as ann, Tab(url, "a.md", "Ben") as ben:
                assert str(ann) == str(ben)
                assert str(ann) == text or lacked
                histories.add(ann.history)
                await until_anew(ann, ben)
                text, lacked = str(ann), ann.lacks
        async with Tab(url, "a.md") as late:
            text = str(late)
        await on_disk(file, text.replace("\n", "\r\n").encode())


def write_much(tab: Tab) -> None:
    with tab.doc.transaction():
        for _ in range(200):  # each in front of the last: nothing of it can be joined
            tab.insert(0, "日")
        tab.delete(0, 200)
    tab.insert(0, "日")


async def until_anew(ann: Tab, ben: Tab) -> None:
    for _ in range(200):
        write_much(ann)
        await ann.settle()
        await ben.until(lambda: str(ben) == str(ann) or ben.closed is not None)
        if ben.closed is not None:
            await ann.until(lambda: ann.closed is not None)
            assert (ann.closed, ben.closed) == (4409, 4409)
            return
        assert ann.closed is None, ann.closed
    raise AssertionError("nothing began anew")


async def anew(tab: Tab, url: str) -> Tab:
    """Do what a page does that has to begin anew."""
    await tab.leave()
    other = Tab(url, tab.page, tab.name)
    await other.join()
    return other


@needs_redis
@pytest.mark.slow
async def test_with_several_processes_all_of_them_begin_anew(tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    file = pages / "a.md"
    file.write_bytes(b"one\n")
    async with redis(tmp_path) as own:
        async with serving(pages, "--redis", own.url) as one, Tab(one.url, "a.md") as ann:
            ann.insert(4, "two\n")
            await on_disk(file, b"one\ntwo\n")
            await one.end()
            await ann.leave()
        file.write_bytes(b"zero\none\ntwo\n")
        async with (
            serving(pages, "--redis", own.url) as one,
            serving(pages, "--redis", own.url) as two,
            Tab(one.url, "a.md") as ben,
        ):
            await come_back(ann, two.port)
            await ann.until(lambda: ann.closed == 4409)
            ann = await anew(ann, two.url)
            assert str(ann) == str(ben) == "zero\none\ntwo\n"
            assert ann.history == ben.history
            async with asyncio.timeout(WITHIN):
                ann.insert(0, "x")
                await ben.until(lambda: str(ben) == str(ann))
            await ann.leave()


@needs_redis
@pytest.mark.slow
async def test_what_people_of_another_process_type_meanwhile_is_in_the_document_that_begins_anew(
    tmp_path: Path,
) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    file = pages / "a.md"
    file.write_bytes(b"one\n")
    async with redis(tmp_path) as own, small(pages, own.url) as one, small(pages, own.url) as two:
        marks: list[str] = []
        histories: set[str] = set()
        while len(histories) < 3:
            async with Tab(one, "a.md", "Ann") as ann, Tab(two, "a.md", "Ben") as ben:
                await ann.until(lambda ann=ann: all(mark in str(ann) for mark in marks))
                assert all(str(ann).count(mark) == 1 for mark in marks), "something is there twice"
                await ben.until(lambda ann=ann, ben=ben: str(ben) == str(ann))
                histories |= {ann.history}
                await until_both_go(ann, ben, marks)
                if ben.lacks:  # it never arrived: a page would put it in again
                    marks.pop()
        async with Tab(two, "a.md") as late:
            await late.until(lambda: all(mark in str(late) for mark in marks))
            text = str(late)
        await on_disk(file, text.encode())


async def until_both_go(ann: Tab, ben: Tab, marks: list[str]) -> None:
    while ann.closed is None and ben.closed is None:
        write_much(ann)
        mark = f"<{len(marks)}>"
        marks.append(mark)
        ben.insert(len(str(ben)), mark)
        await ann.settle()
        await ben.settle()
        await ann.until(lambda mark=mark: mark in str(ann) or bool(ann.closed or ben.closed))
    await ann.until(lambda: ann.closed is not None)
    await ben.until(lambda: ben.closed is not None)
    assert (ann.closed, ben.closed) == (4409, 4409)
