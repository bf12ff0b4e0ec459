"""People who type anywhere, lose their connections and their server: all replicas and the file agree."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from pycrdt import Doc, Text

from kakite.collab.file_sync import FileText
from tests.bounds import WITHIN
from tests.collab.server import Server, Tab, serving

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(1800)]

RUNS_OF_ONE_SERVER = 5
STEPS = 40
WORDS = ("日本語", "👍🏽", "e\u0301", "한국어", "word", "葛\U000e0100", "👨‍👩‍👧", "\n", "ก็", " ", "— ")
STARTS = (
    b"",
    b"one\ntwo\n",
    "見出し\r\n本文\r\n".encode(),
    "\ufeff始め\r\n".encode(),
    b"mixed\r\nends\nhere\rlast",
)


class Site:
    """A server that may end and come back at the same address."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = AsyncExitStack()
        self.server: Server | None = None

    async def begin(self, number: int = signal.SIGTERM) -> Server:
        port = 0
        if self.server is not None:
            port = self.server.port
            await self.server.end(number)
            await self._stack.aclose()
        self.server = await self._stack.enter_async_context(serving(self._folder, port=port))
        return self.server

    async def end(self) -> None:
        await self._stack.aclose()


@asynccontextmanager
async def restarting(folder: Path) -> AsyncGenerator[Site]:
    site = Site(folder)
    try:
        await site.begin()
        yield site
    finally:
        await site.end()


async def one_run(site: Site, page: Path, seed: int) -> None:
    dice = random.Random(seed)
    page.write_bytes(dice.choice(STARTS))
    assert site.server is not None
    tabs = [Tab(site.server.url, page.name, name) for name in ("Ann", "Ben", "千")]
    for tab in tabs:
        await tab.join()
    typed: list[str] = []
    deleted: list[str] = []
    restart = dice.randrange(STEPS) if seed % 4 == 0 else -1
    for step in range(STEPS):
        if step == restart:
            await site.begin(dice.choice((signal.SIGTERM, signal.SIGKILL)))
            for tab in tabs:
                await tab.leave()
        await one_step(dice, dice.choice(tabs), typed, deleted)
    for tab in tabs:
        if not tab.is_connected:
            await tab.join()
        await tab.settle()
    await agree(tabs, page, typed, deleted)


async def one_step(dice: random.Random, tab: Tab, typed: list[str], deleted: list[str]) -> None:
    text = str(tab)
    match dice.randrange(10):
        case 0:
            await tab.leave()
        case 1 | 2 if not tab.is_connected:
            await tab.join(wait=dice.random() < 0.5)
        case 3 | 4 if text:
            start = dice.randrange(len(text))
            end = min(len(text), start + dice.randrange(1, 12))
            deleted.append(text[start:end])
            tab.delete(start, end)
        case 5 if tab.is_connected:
            await tab.tell_cursor({"anchor": dice.randrange(100)})
        case _:
            mark = chr(0xE000 + len(typed))  # no two pieces of others can become this one
            typed.append(mark)
            tab.insert(dice.randint(0, len(text)), f"{mark}{dice.choice(WORDS)}")
    if dice.random() < 0.3:
        await asyncio.sleep(0)


async def agree(tabs: list[Tab], page: Path, typed: list[str], deleted: list[str]) -> None:
    """All replicas are what Yjs makes of what all of them hold, a newcomer's and the file's too."""
    control: Doc[Text] = Doc()
    for tab in tabs:
        control.apply_update(tab.doc.get_update())
    text = str(control.get("text", type=Text))
    async with Tab(tabs[0].url.rpartition("/ws/")[0].replace("ws", "http", 1), page.name, "late") as late:
        for tab in (*tabs, late):
            await tab.until(lambda tab=tab: str(tab) == text)
        await late.until(lambda: late.names() >= {tab.name for tab in tabs})
        taken = "".join(deleted)
        for mark in typed:
            assert text.count(mark) <= 1, "what was typed once is there twice"
            assert mark in text or mark in taken, "what nobody deleted is lost"
        async with asyncio.timeout(WITHIN):
            while FileText.from_bytes(page.read_bytes()).text != text:  # noqa: ASYNC110 - a file tells nobody
                await asyncio.sleep(0.05)
    for tab in tabs:
        await tab.leave()


async def test_random_people_agree(tmp_path: Path, proof: bool) -> None:
    runs = 200 if proof else 20
    for first in range(0, runs, RUNS_OF_ONE_SERVER):
        async with restarting(tmp_path) as site:
            for seed in range(first, first + RUNS_OF_ONE_SERVER):
                await one_run(site, tmp_path / f"page {seed}.md", seed)
