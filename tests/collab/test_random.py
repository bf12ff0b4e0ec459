"""People who type, suggest and comment anywhere, and lose their connections and their server: all agree."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
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


@dataclass
class Story:
    """What people did to a page. No two pieces of what they wrote can become another one."""

    typed: list[str] = field(default_factory=list[str])
    suggested: list[str] = field(default_factory=list[str])
    deleted: list[str] = field(default_factory=list[str])
    """What may be gone."""
    settled: list[str] = field(default_factory=list[str])
    """Ids of suggestions."""
    authors: dict[str, str] = field(default_factory=dict[str, str])
    """Who wrote which piece."""

    def mark(self, to: list[str], by: str) -> str:
        """Return the mark of a piece that is written now."""
        to.append(chr(0xE000 + len(self.typed) + len(self.suggested)))
        self.authors[to[-1]] = by
        return to[-1]


async def one_run(site: Site, page: Path, seed: int) -> None:
    dice = random.Random(seed)
    page.write_bytes(dice.choice(STARTS))
    assert site.server is not None
    tabs = [Tab(site.server.url, page.name, name) for name in ("Ann", "Ben", "千", "Dan")]
    for tab in tabs:
        await tab.join()
    story = Story()
    restart = dice.randrange(STEPS) if seed % 4 == 0 else -1
    for step in range(STEPS):
        if step == restart:
            await site.begin(dice.choice((signal.SIGTERM, signal.SIGKILL)))
            for tab in tabs:
                await tab.leave()
        if dice.random() < 0.3:
            async with site.server.client() as client:
                await beside(dice, dice.choice(tabs), client, story)
        else:
            await one_step(dice, dice.choice(tabs), story)
    for tab in tabs:
        if not tab.is_connected:
            await tab.join()
        await tab.settle()
    async with site.server.client() as client:
        await agree(tabs, page, story, client)


async def beside(dice: random.Random, tab: Tab, client: httpx.AsyncClient, story: Story) -> None:
    """Suggest, decide, undo that, or comment."""
    at = f"/api/pages/{quote(tab.page)}"
    match dice.randrange(8):
        case 0 | 1 | 2:
            body = {"changes": type_suggestions(dice, tab, story), "name": tab.name}
            run = f"{tab.name.encode().hex():0>15}"[:15] + dice.choice("ab")
            answer = await client.put(f"{at}/suggestions/typed/{run}", json=body)
            assert answer.status_code in {200, 409}, answer.text
        case 3 | 4:
            await decide(dice, at, client, story)
        case 5 if story.settled:
            ids = dice.sample(story.settled, min(2, len(story.settled)))
            answer = await client.post(f"{at}/suggestions/reopen", json={"ids": ids})
            assert answer.status_code in {200, 409}, answer.text
        case _:
            await comment(dice, tab, at, client)


def type_suggestions(dice: random.Random, tab: Tab, story: Story) -> list[dict[str, Any]]:
    """Return what somebody suggests who sees this tab: the text may have been another one for long."""
    text = str(tab)
    places = sorted(dice.sample(range(len(text) + 1), min(len(text) + 1, dice.choice((0, 2, 4)))))
    changes: list[dict[str, Any]] = []
    for start, end in zip(places[::2], places[1::2], strict=False):
        last = dice.choice((start, min(end, start + 8)))
        story.deleted.append(text[start:last])
        changes.append(
            {
                "start": len(text[:start].encode("utf-16-le")) // 2,
                "before": text[max(0, start - 10) : start],
                "words": text[start:last],
                "after": text[last : last + 10],
                "insert": story.mark(story.suggested, tab.name) + dice.choice(WORDS),
            }
        )
    return changes


async def decide(dice: random.Random, at: str, client: httpx.AsyncClient, story: Story) -> None:
    """Accept or reject one suggestion, or all."""
    told = (await client.get(f"{at}/suggestions")).json()["suggestions"]
    how = dice.choice(("accept", "accept", "reject"))
    if told and dice.random() < 0.7:
        one = dice.choice(told)["id"]
        answer = await client.post(
            f"{at}/suggestions/{one}/{how}", json={"candidate": True} if how == "accept" else None
        )
        done = [one] if answer.status_code == 200 else []
    else:
        answer = await client.post(f"{at}/suggestions/{how}")
        done = answer.json()[f"{how}ed"]
    assert answer.status_code in {200, 409}, answer.text
    story.settled += done


async def comment(dice: random.Random, tab: Tab, at: str, client: httpx.AsyncClient) -> None:
    """Comment on some words, or resolve a thread."""
    text = str(tab)
    threads = (await client.get(f"{at}/comments")).json()["threads"]
    if threads and dice.random() < 0.5:
        one = dice.choice(threads)["id"]
        path, body = dice.choice(
            (("reply", {"text": "Yes"}), ("resolve", {}), ("reopen", {}), ("delete", {}))
        )
        answer = await client.post(f"{at}/comments/{one}/{path}", json=body)
    elif text:
        start = dice.randrange(len(text))
        words = text[start : start + 6]
        low, high = (len(text[:each].encode("utf-16-le")) // 2 for each in (start, start + len(words)))
        body = {"range": {"start": low, "end": high}, "words": words, "text": "Why?", "name": tab.name}
        answer = await client.post(f"{at}/comments", json=body)
    else:
        return
    assert answer.status_code in {200, 201, 409}, answer.text


async def one_step(dice: random.Random, tab: Tab, story: Story) -> None:
    text = str(tab)
    match dice.randrange(10):
        case 0:
            await tab.leave()
        case 1 | 2 if not tab.is_connected:
            await tab.join(wait=dice.random() < 0.5)
        case 3 | 4 if text:
            start = dice.randrange(len(text))
            end = min(len(text), start + dice.randrange(1, 12))
            story.deleted.append(text[start:end])
            tab.delete(start, end)
        case 5 if tab.is_connected:
            await tab.tell_cursor({"anchor": dice.randrange(100)})
        case _:
            mark = story.mark(story.typed, tab.name)
            tab.insert(dice.randint(0, len(text)), f"{mark}{dice.choice(WORDS)}")
    if dice.random() < 0.3:
        await asyncio.sleep(0)


async def agree(tabs: list[Tab], page: Path, story: Story, client: httpx.AsyncClient) -> None:
    """All replicas are what Yjs makes of what all of them hold, a newcomer's and the file's too."""
    control: Doc[Text] = Doc()
    for tab in tabs:
        control.apply_update(tab.doc.get_update())
    text = str(control.get("text", type=Text))
    async with Tab(tabs[0].url.rpartition("/ws/")[0].replace("ws", "http", 1), page.name, "late") as late:
        for tab in (*tabs, late):
            await tab.until(lambda tab=tab: str(tab) == text)
        await late.until(lambda: late.names() >= {tab.name for tab in tabs})
        taken = "".join(story.deleted)
        for mark in (*story.typed, *story.suggested):
            assert text.count(mark) <= 1, "what was typed once is there twice"
        for mark in story.typed:
            assert mark in text or mark in taken, "what nobody deleted is lost"
        await in_place(late, text, client)
        await by_authors(late, text, story, client)
        async with asyncio.timeout(WITHIN):
            while FileText.from_bytes(page.read_bytes()).text != text:  # noqa: ASYNC110 - a file tells nobody
                await asyncio.sleep(0.05)
    for tab in tabs:
        await tab.leave()


async def in_place(tab: Tab, text: str, client: httpx.AsyncClient) -> None:
    """What stands beside the text is told alike, and is where it says."""
    at = f"/api/pages/{quote(tab.page)}"
    listed = (await client.get(f"{at}/suggestions")).json()["suggestions"]
    await tab.until(lambda: tab.state["suggestions"] == listed)
    threads = (await client.get(f"{at}/comments")).json()["threads"]
    units = text.encode("utf-16-le")
    for each in [*listed, *threads]:
        words = units[each["range"]["start"] * 2 : each["range"]["end"] * 2].decode("utf-16-le")
        if "words" in each:
            assert words == ("" if each["detached"] else each["words"])
        else:
            assert (words == each["search"]) == (each["status"] == "pending")


async def by_authors(tab: Tab, text: str, story: Story, client: httpx.AsyncClient) -> None:
    """All of the text is in the passages, and nothing is said to be by somebody who did not write it."""
    told = (await client.get(f"/api/pages/{quote(tab.page)}/authors")).json()
    assert "".join(each["text"] for each in told["passages"]) == text
    for each in told["passages"]:
        if each["author"] is not None and told["authors"][each["author"]]["kind"] == "person":
            name = told["authors"][each["author"]]["name"]
            assert {story.authors[mark] for mark in each["text"] if mark in story.authors} <= {name}


async def test_random_people_agree(tmp_path: Path, proof: bool) -> None:
    runs = 200 if proof else 20
    for first in range(0, runs, RUNS_OF_ONE_SERVER):
        async with restarting(tmp_path) as site:
            for seed in range(first, first + RUNS_OF_ONE_SERVER):
                await one_run(site, tmp_path / f"page {seed}.md", seed)
