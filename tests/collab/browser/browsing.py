"""People in front of the page: real browsers, with all that they complain of."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from tests.agent.pages import chromium
from tests.bounds import WITHIN
from tests.collab.browser.model import Speaker, speaking
from tests.collab.server import TOKEN, Server, serving

if TYPE_CHECKING:
    from playwright.async_api import Browser, Locator, Page

ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
    # A tab behind another one works as if it were in front.
    *("--disable-background-timer-throttling", "--disable-renderer-backgrounding"),
    "--disable-backgrounding-occluded-windows",
]
SIZE: dict[str, Any] = {"viewport": {"width": 1360, "height": 1400}}
TEXT = """() => [...document.querySelectorAll(".cm-line")].map((line) => {
  const own = line.cloneNode(true);
  const beside = own.querySelectorAll(".coming, .settle, .gone, .peer-caret, .cm-widgetBuffer");
  beside.forEach((each) => each.remove());
  return own.textContent;
}).join("\\n")"""
"""The text that stands in the editor, without what only stands beside it. Short pages are drawn whole."""


@dataclass
class Person:
    """Somebody in front of the page, in a browser of their own."""

    tab: Page
    complaints: list[str] = field(default_factory=list[str])
    """All that the browser complained of: errors, and what the policy of the page forbids."""

    @property
    def editor(self) -> Locator:
        return self.tab.locator(".cm-content")

    @property
    def suggestions(self) -> Locator:
        """The buttons at the suggestions in the text."""
        return self.tab.locator(".settle")

    async def text(self) -> str:
        """The text in the editor."""
        return await self.tab.evaluate(TEXT)

    async def open(self, server: Server, page: str, token: str = "") -> None:
        """Open a page by its address, or by a link to it."""
        await self.tab.goto(f"{server.url}p/{quote(page)}{token and f'?token={token}'}")
        await self.editor.wait_for()

    async def put(self, after: str) -> None:
        """Put the caret behind some text."""
        await self.tab.wait_for_function(CARET, arg=after)

    async def write(self, text: str, delay: float = 8) -> None:
        """Type where the caret is."""
        await self.tab.keyboard.type(text, delay=delay)

    async def reads(self, expected: str) -> None:
        """Wait until the editor reads so."""
        try:
            await self.tab.wait_for_function(f"(expected) => ({TEXT})() === expected", arg=expected)
        except Exception:
            assert (text := await self.text()) == expected, text
            raise

    async def saved(self) -> None:
        """Wait until the page says that all is on disk."""
        await self.tab.locator("#state[data-text=saved]").wait_for()

    async def ask(self, message: str, *, auto: bool = False) -> None:
        """Ask the assistant."""
        if auto:
            await self.tab.locator("input[name=mode][value=auto]").check()
        await self.tab.locator("#message").fill(message)
        await self.tab.locator("#send").click()

    async def answered(self) -> None:
        """Wait until the assistant is done with the last message."""
        await self.tab.locator("#send").wait_for()
        await self.tab.locator(".turn:last-of-type .state:not(.busy)").wait_for()


CARET = """(after) => {
  const content = document.querySelector(".cm-content");
  content.focus();
  const walker = document.createTreeWalker(content, NodeFilter.SHOW_TEXT);
  const nodes = [];
  let whole = "";
  for (let node; (node = walker.nextNode());) {
    if (node.parentElement.closest(".coming, .settle, .gone, .peer-caret")) continue;
    nodes.push([whole.length, node]);
    whole += node.data;
  }
  const at = whole.indexOf(after);
  if (at < 0) throw new Error(`${after} is not in ${whole}`);
  const [start, node] = nodes.findLast(([start]) => start < at + after.length);
  const offset = at + after.length - start, selection = getSelection();
  if (selection.isCollapsed && selection.anchorNode === node && selection.anchorOffset === offset) {
    return (window.caretFrames = (window.caretFrames ?? 0) + 1) > 2;
  }
  window.caretFrames = 0;
  selection.collapse(node, offset);
  return false;
}"""
"""Asked at each frame: the caret is there once it has stayed for some. What others write at that moment draws
the text anew, with the caret where the editor last saw it.
"""


@dataclass
class Room:
    """A server, a model, and a browser for people to come in."""

    server: Server
    speaker: Speaker
    browser: Browser
    folder: Path
    further: AsyncExitStack
    """What else is to be ended with it, such as further servers."""
    people: list[Person] = field(default_factory=list[Person])
    forgiven: list[str] = field(default_factory=list[str])
    """Patterns of complaints that the test provokes."""

    def complaints(self) -> list[str]:
        """Return what browsers complained of and should not have."""
        told = [each for person in self.people for each in person.complaints]
        return [each for each in told if not any(re.search(pattern, each) for pattern in self.forgiven)]

    async def person(self, name: str, page: str = "", **options: Any) -> Person:
        """Let somebody open the link, and a page; ``options`` are those of the browser's context."""
        context = await self.browser.new_context(**{**SIZE, **options})
        context.set_default_timeout(WITHIN * 1000)
        tab = await context.new_page()
        await tab.add_init_script(f"localStorage.setItem('kakite.name', {name!r})")
        person = Person(tab)
        tab.on("console", lambda message: person.complaints.append(message.text))
        tab.on("pageerror", lambda error: person.complaints.append(str(error)))
        if page:
            await person.open(self.server, page, TOKEN)
        else:
            await tab.goto(f"{self.server.url}?token={TOKEN}")
        self.people.append(person)
        return person

    async def on_server(self, page: str) -> str:
        """The text as the server has it."""
        async with self.server.client() as client:
            answer = await client.get(f"/api/pages/{quote(page, safe='')}")
            return answer.json()["text"]

    async def same(self, page: str) -> str:
        """Wait until everybody reads what the server has; return it."""
        texts: list[str] = []
        try:
            async with asyncio.timeout(WITHIN):
                while len(set(texts)) != 1:
                    for person in self.people:
                        await person.tab.evaluate("() => new Promise((done) => requestAnimationFrame(done))")
                    texts = [await self.on_server(page), *[await each.text() for each in self.people]]
        except TimeoutError:
            raise AssertionError(texts) from None
        return texts[0]


@asynccontextmanager
async def room(
    folder: Path, options: Sequence[str] = (), *, model: bool = False, quiet: bool = True
) -> AsyncGenerator[Room]:
    """Serve a folder and start a browser. At the end nobody may have complained.

    Args:
        folder: what is served.
        options: further ones of the command.
        model: let it have a model.
        quiet: whether complaints fail the test.
    """
    program = chromium()
    if program is None:
        pytest.skip("there is no Chromium on this system: apt install chromium")
    from playwright.async_api import async_playwright

    with speaking() as speaker:
        given = [*options, *(speaker.options if model else [])]
        async with (
            serving(folder, *given, environ=speaker.environ) as server,
            AsyncExitStack() as further,
            async_playwright() as driver,
        ):
            browser = await driver.chromium.launch(executable_path=program, args=ARGUMENTS)
            try:
                made = Room(server, speaker, browser, folder, further)
                yield made
                if quiet:
                    assert not made.complaints(), made.complaints()
            finally:
                await browser.close()
