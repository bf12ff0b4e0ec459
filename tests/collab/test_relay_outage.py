"""A Redis that goes away, and an owner that stands still: nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kakite.collab.redis.cluster import ClusterNode, DocumentStream
from kakite.collab.store import DocumentWrite
from tests.collab.redis import OwnRedis, needs_redis, redis
from tests.collab.server import Server, Tab, on_disk, serving, signalled
from tests.collab.test_cluster import agree
from tests.collab.test_mcp import agent, call

pytestmark = [pytest.mark.anyio, pytest.mark.slow, needs_redis, pytest.mark.timeout(600)]


@asynccontextmanager
async def two_servers(tmp_path: Path, text: bytes) -> AsyncGenerator[tuple[OwnRedis, Server, Server, Path]]:
    pages = tmp_path / "pages"
    pages.mkdir()
    file = pages / "a.md"
    file.write_bytes(text)
    async with (
        redis(tmp_path) as own,
        serving(pages, "--redis", own.url, environ={"XDG_STATE_HOME": f"{tmp_path}/one"}) as one,
        serving(pages, "--redis", own.url, environ={"XDG_STATE_HOME": f"{tmp_path}/two"}) as two,
    ):
        yield own, one, two, file


def is_saved(tab: Tab) -> bool:
    return tab.state["file"] == {"saved": True, "problem": None}


@pytest.mark.parametrize("forgetting", [False, True], ids=["with its data", "without its data"])
async def test_redis_goes_and_comes_back_while_people_type(
    tmp_path: Path, forgetting: bool, proof: bool
) -> None:
    dice = random.Random(forgetting)
    async with two_servers(tmp_path, "始め\n".encode()) as (own, one, two, file):
        tabs = [Tab(server.url, "a.md", f"{at}") for at, server in enumerate((one, two, one, two))]
        for tab in tabs:
            await tab.join()
        async with agent(one) as client:
            told, failed = await call(client, "str_replace", "a.md", old_str="始め", new_str="初め")
            assert not failed, told
        marks: list[str] = []

        async def typed(count: int) -> None:
            for _ in range(count):
                tab = dice.choice(tabs)
                mark = f"<{len(marks)}日👍>"
                marks.append(mark)
                tab.insert(dice.randint(0, len(str(tab))), mark)
                await tab.settle()

        steps = 100 if proof else 30
        await typed(steps)
        await own.kill(forgetting=forgetting)
        await typed(steps)
        for tab in tabs:
            await tab.until(lambda tab=tab: "Redis" in (tab.state["file"]["problem"] or ""))
            assert not tab.state["file"]["saved"]
        async with one.client() as http:
            refused = await http.post("/api/pages/a.md/suggestions/accept")
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "relay_failed")
        await typed(steps)
        await own.begin()
        await typed(steps)
        await agree(tabs, file, marks)
        for tab in tabs:
            await tab.until(lambda tab=tab: is_saved(tab))
            assert len(tab.state["suggestions"]) == 1
        async with Tab(two.url, "a.md", "late") as late:
            assert str(late) == str(tabs[0])
        for tab in tabs:
            await tab.leave()


async def test_no_update_is_kept_from_the_owners_people(tmp_path: Path) -> None:
    async with (
        two_servers(tmp_path, b"one\n") as (_, one, two, _file),
        Tab(one.url, "a.md", "Ann") as ann,
        Tab(two.url, "a.md", "Ben") as ben,
    ):
        for _ in range(1_200):  # the owner joins what it heard to one after 500
            ben.insert(0, "x")
            await ben.settle()
        await ann.until(lambda: str(ann) == str(ben))


@pytest.mark.parametrize("seed", range(3))
async def test_whatever_goes_and_stands_still_nothing_is_lost_or_doubled(
    tmp_path: Path, seed: int, proof: bool
) -> None:
    dice = random.Random(seed)
    async with two_servers(tmp_path, "始め\n".encode()) as (own, one, two, file):
        tabs = [Tab(server.url, "a.md", f"{at}") for at, server in enumerate((one, two, one, two))]
        for tab in tabs:
            await tab.join()
        marks: list[str] = []
        stopped: set[Server] = set()
        is_there = True
        try:
            for _ in range(30 if proof else 10):
                what = dice.random()
                if what < 0.3 and is_there:
                    await own.kill(forgetting=dice.random() < 0.5)
                    is_there = False
                elif what < 0.6 and not is_there:
                    await own.begin()
                    is_there = True
                elif what < 0.8:
                    server = dice.choice((one, two))
                    signalled(server.program, signal.SIGCONT if server in stopped else signal.SIGSTOP)
                    stopped ^= {server}
                type_lines(dice, tabs, marks)
                await asyncio.sleep(dice.choice((0, 0.2, 1, 4)))  # outages shorter and longer than a lease
        finally:
            for server in stopped:
                signalled(server.program, signal.SIGCONT)
        if not is_there:
            await own.begin()
        for tab in tabs:  # who stands still for long loses connections
            await tab.leave()
            await tab.join()
        await agree(tabs, file, marks)
        for tab in tabs:
            await tab.leave()


def type_lines(dice: random.Random, tabs: list[Tab], marks: list[str]) -> None:
    for _ in range(dice.randrange(20)):
        tab = dice.choice(tabs)
        mark = f"<{len(marks)}日👍>\n"
        marks.append(mark)
        tab.insert(dice.randint(0, len(str(tab))), mark)


async def test_a_page_of_which_redis_holds_only_a_part_can_be_opened(tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "a.md").write_bytes(b"one\n")
    async with redis(tmp_path) as own:
        relay = ClusterNode(own.url, "http://gone/")
        part: dict[Any, Any] = {"k": "u", "d": b"\0\0", "p": "gone", "h": "forgotten"}
        await relay.redis.xadd("kakite:collab:page:a.md:stream", part, id="1-1")
        await relay.close()
        async with serving(pages, "--redis", own.url) as server, Tab(server.url, "a.md") as ann:
            assert str(ann) == "one\n"


async def test_what_was_typed_without_redis_outlives_both_processes(tmp_path: Path) -> None:
    async with two_servers(tmp_path, b"one\n") as (own, one, two, file):
        async with Tab(one.url, "a.md") as ann, Tab(two.url, "a.md") as ben:
            ann.insert(4, "two\n")
            await ben.until(lambda: str(ben) == "one\ntwo\n" and is_saved(ben))
            await own.kill()
            await ann.until(lambda: "Redis" in (ann.state["file"]["problem"] or ""))
            await ben.until(lambda: "Redis" in (ben.state["file"]["problem"] or ""))
            ann.insert(0, "Ann\n")
            ben.insert(8, "Ben\n")
            await ann.settle()
            await ben.settle()
        await asyncio.gather(one.end(), two.end())
        assert any("is kept for the next start" in line for line in one.said + two.said)
        await own.begin()
        pages = file.parent
        async with (
            serving(pages, "--redis", own.url, environ={"XDG_STATE_HOME": f"{tmp_path}/one"}),
            serving(pages, "--redis", own.url, environ={"XDG_STATE_HOME": f"{tmp_path}/two"}) as again,
            Tab(again.url, "a.md") as late,
        ):
            await late.until(lambda: str(late) == "Ann\none\ntwo\nBen\n")
            await on_disk(file, b"Ann\none\ntwo\nBen\n")


async def test_an_owner_that_stood_still_doubles_and_overwrites_nothing(tmp_path: Path) -> None:
    async with (
        two_servers(tmp_path, b"one\n") as (_, one, two, file),
        Tab(one.url, "a.md", "Ann") as ann,
        Tab(two.url, "a.md", "Ben") as ben,
    ):
        async with agent(one) as client:
            await suggested_one(client)
        await ben.until(lambda: len(ben.state["suggestions"]) == 1)
        ann.insert(4, "Ann's\n")
        await ben.until(lambda: str(ben) == "one\nAnn's\n")
        signalled(one.program, signal.SIGSTOP)
        try:
            ben.insert(10, "Ben's\n")
            await on_disk(file, b"one\nAnn's\nBen's\n")  # by the next owner
            async with two.client() as http:
                place = "/api/pages/a.md/suggestions"
                assert (await http.post(f"{place}/accept")).json()["accepted"]
            ann.insert(10, "more\n")  # waits in the socket
            await on_disk(file, b"1\nAnn's\nBen's\n")
        finally:
            signalled(one.program, signal.SIGCONT)
        whole = {"1\nAnn's\nmore\nBen's\n", "1\nAnn's\nBen's\nmore\n"}
        await ben.until(lambda: str(ben) in whole)
        await ann.until(lambda: str(ann) == str(ben) and not ann.state["suggestions"])
        await on_disk(file, str(ben).encode())
        await ben.until(lambda: is_saved(ben) and str(ben) in whole)
        assert not ben.state["suggestions"]


async def suggested_one(client: object) -> None:
    told, failed = await call(client, "str_replace", "a.md", old_str="one", new_str="1")  # pyright: ignore[reportArgumentType]
    assert not failed, told


async def test_what_only_the_owner_writes_is_refused_from_one_that_was(tmp_path: Path) -> None:
    async with redis(tmp_path) as own:
        first, second = ClusterNode(own.url, "http://one/"), ClusterNode(own.url, "http://two/")
        old, new = DocumentStream(first, "a.md"), DocumentStream(second, "a.md")
        try:
            for line in (old, new):
                line.history = "h"
                line.begin(Nobody())
            assert await old.try_to_own()
            old.save(
                "a.md", DocumentWrite(updates=(b"\0\0",), base=(b"old", "utf-8"), history="h", instead=True)
            )
            assert await old.flush()
            await first.redis.delete("kakite:collab:owner:a.md")  # as when its lease runs out
            assert await new.try_to_own()
            new.save("a.md", DocumentWrite(base=(b"new", "utf-8"), dirty=True))
            assert await new.flush()
            old.save("a.md", DocumentWrite(base=(b"old", "utf-8"), records={"old": 1}, dirty=False))
            old.publish_state({"old": 1})
            await old.flush()
            stored, shown = await new.load()
            assert stored is not None
            assert (stored.base, stored.records, shown) == (b"new", {}, {})
            assert await second.list_unsaved() == ["a.md"]
            assert not old.is_lease_valid
            assert not await old.renew()
            assert new.is_lease_valid
        finally:
            for line in (old, new):
                await line.end()
            await first.close()
            await second.close()


class Nobody:
    """Hears nothing."""

    def on_update(self, update: bytes) -> None:
        pass

    def on_awareness(self, update: bytes, process: str) -> None:
        pass

    def on_state(self, state: dict[str, object]) -> None:
        pass

    def on_awareness_query(self) -> None:
        pass

    def on_process_gone(self, process: str) -> None:
        pass

    def on_connection_change(self) -> None:
        pass

    def on_reset(self) -> None:
        pass

    def take_snapshot(self) -> DocumentWrite:
        return DocumentWrite()
