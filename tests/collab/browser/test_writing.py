"""People write one page together, in real browsers."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.collab.browser.browsing import room
from tests.collab.server import serving, signalled

pytestmark = [pytest.mark.anyio, pytest.mark.browser]

LOST = r"WebSocket connection|Failed to load resource|ERR_CONNECTION_REFUSED|ERR_INTERNET_DISCONNECTED"

NO_INTERVALS = "() => { for (let each = setInterval(() => {}, 1e9); each > 0; each--) clearInterval(each); }"
"""Lets a tab say nothing again by itself, as it does of its cursor after some seconds."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "pages"
    made.mkdir()
    return made


def written(folder: Path, text: str, name: str = "page.md") -> str:
    (folder / name).write_text(text, encoding="utf-8", newline="")
    return name


async def test_two_people_write_one_text_and_see_each_other(folder: Path) -> None:
    page = written(folder, "# 庭\n\nAnn: \n\nBen: \n")
    async with room(folder) as made:
        ann = await made.person("Ann", page)
        ben = await made.person("健", page)
        await ann.put("Ann: ")
        await ann.write("春に種をまく 👩‍🌾 é e\u0301")
        await ben.put("Ben: ")
        await ben.write("in autumn we harvest")
        text = await made.same(page)
        assert text == "# 庭\n\nAnn: 春に種をまく 👩‍🌾 é e\u0301\n\nBen: in autumn we harvest\n"
        await ann.tab.locator(".peer-name", has_text="健").wait_for(state="attached")
        await ben.tab.locator(".peer-name", has_text="Ann").wait_for(state="attached")
        # A moment after somebody wrote the name no longer covers the line above.
        await ben.tab.wait_for_function(
            "() => getComputedStyle(document.querySelector('.peer-name')).opacity === '0'"
        )
        await ann.tab.locator("#people .initial[title='健']").wait_for()


async def test_who_comes_later_sees_all_cursors_at_once(folder: Path) -> None:
    page = written(folder, "one\ntwo\n")
    async with room(folder) as made:
        ann = await made.person("Ann", page)
        await ann.put("one")
        await ann.write("!")
        await ann.tab.evaluate(NO_INTERVALS)
        ben = await made.person("Ben", page)
        await ben.tab.locator(".peer-name", has_text="Ann").wait_for(state="attached")


async def test_a_file_with_carriage_returns_keeps_them_and_nobody_sees_them(folder: Path) -> None:
    page = written(folder, "one\r\ntwo\r\nthree\r\n", "page.txt")
    async with room(folder) as made:
        ann = await made.person("Ann", page)
        await ann.put("two")
        await ann.write(" and")
        await ann.tab.keyboard.press("Enter")
        await ann.write("a half")
        await ann.reads("one\ntwo and\na half\nthree\n")
        await ann.saved()
        assert await made.same(page) == "one\ntwo and\na half\nthree\n"
        # Text from elsewhere brings its own line ends.
        await ann.tab.evaluate(PASTE, "x\r\ny\rz")
        await ann.reads("one\ntwo and\na halfx\ny\nz\nthree\n")
        await made.same(page)
    assert (folder / page).read_bytes() == b"one\r\ntwo and\r\na halfx\r\ny\r\nz\r\nthree\r\n"


PASTE = """(text) => {
  const data = new DataTransfer();
  data.setData("text/plain", text);
  const event = new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true });
  document.querySelector(".cm-content").dispatchEvent(event);
}"""


async def test_what_is_written_without_a_connection_comes_in_when_it_is_back(folder: Path) -> None:
    page = written(folder, "Ann: \nBen: \n")
    async with room(folder) as made:
        ann = await made.person("Ann", page)
        ben = await made.person("Ben", page)
        await made.server.end()
        await ann.tab.locator("#state.bad").wait_for()
        await ann.tab.context.set_offline(True)
        await ann.put("Ann: ")
        await ann.write("in the tunnel 山")
        made.server = await made.further.enter_async_context(serving(folder, port=made.server.port))
        await ben.saved()
        await ben.put("Ben: ")
        await ben.write("at home")
        await ann.tab.context.set_offline(False)
        await ann.saved()
        assert await made.same(page) == "Ann: in the tunnel 山\nBen: at home\n"
        made.forgiven.append(LOST)


LATENCY = """() => new Promise((told) => {
  const state = document.getElementById("state");
  let since = 0;
  new MutationObserver(() => {
    if (state.dataset.text === "saving") since ||= performance.now();
    if (state.classList.contains("bad")) told(performance.now() - since);
  }).observe(state, { attributes: true });
  window.watching = true;
})"""
"""Returns the ms for which the page says that it saves, until it says that something is wrong."""


async def test_a_connection_that_dies_without_a_word_is_told_and_begun_anew(folder: Path) -> None:
    page = written(folder, "Hello page\n")
    async with room(folder) as made:
        ann = await made.person("Ann", page)
        await ann.put("Hello page")
        await ann.saved()
        told = asyncio.create_task(ann.tab.evaluate(LATENCY))
        await ann.tab.wait_for_function("() => window.watching === true")
        signalled(made.server.program, signal.SIGSTOP)  # it says nothing, and does not hang up
        try:
            await ann.write(", still here")
            assert await told < 5_000  # the system takes a minute and more
        finally:
            signalled(made.server.program, signal.SIGCONT)
        await ann.saved()
        await made.same(page)
        assert await ann.text() == "Hello page, still here\n"
        made.forgiven.append(LOST)


async def test_a_server_that_is_started_again_doubles_nothing(folder: Path) -> None:
    page = written(folder, "Hello page\n")
    async with room(folder) as made:
        ann = await made.person("Ann", page)
        await ann.put("Hello page")
        await ann.write(", again")
        await made.same(page)
        for _ in range(2):
            assert await made.server.end() == 143
            await ann.tab.locator("#state.bad").wait_for()
            made.server = await made.further.enter_async_context(serving(folder, port=made.server.port))
            await ann.saved()
            await ann.write("!")
            await made.same(page)
        assert await ann.text() == "Hello page, again!!\n"
        await made.server.end()
        assert (folder / page).read_text(encoding="utf-8") == "Hello page, again!!\n"
        made.forgiven.append(LOST)


async def test_undo_takes_back_what_oneself_wrote(folder: Path) -> None:
    page = written(folder, "Ann: \nBen: \n")
    async with room(folder) as made:
        ann = await made.person("Ann", page)
        ben = await made.person("Ben", page)
        await ann.put("Ann: ")
        await ann.write("mine", delay=0)
        await ben.put("Ben: ")
        await ben.write("his", delay=0)
        await made.same(page)
        await ann.tab.keyboard.press("Control+z")
        await ann.reads("Ann: \nBen: his\n")
        await ann.tab.locator("#redo").click()
        await ann.reads("Ann: mine\nBen: his\n")
        await made.same(page)


async def test_the_input_method_of_one_is_not_broken_by_what_another_writes(folder: Path) -> None:
    page = written(folder, "日記: \n\nBen: \n")
    async with room(folder) as made:
        ann = await made.person("Ann", page)
        ben = await made.person("Ben", page)
        await ann.put("日記: ")
        await ben.put("Ben: ")
        keyboard: Any = await ann.tab.context.new_cdp_session(ann.tab)
        for reading in ("h", "は", "はr", "はる"):
            place = {"text": reading, "selectionStart": len(reading), "selectionEnd": len(reading)}
            await keyboard.send("Input.imeSetComposition", place)
            await ben.write("x")
        await keyboard.send("Input.insertText", {"text": "春"})
        assert await made.same(page) == "日記: 春\n\nBen: xxxx\n"


@pytest.mark.parametrize(
    ("put", "keys", "expected"),
    [
        ("Ben", "x", "Benx: 日記: 春\nEnd\n"),  # in front of the composition, in its line
        ("日記", "x", "Ben: 日記x: 春\nEnd\n"),
        ("日記", "\b", "Ben: 日: 春\nEnd\n"),
        ("Ben: ", "\n", "Ben: \n日記: 春\nEnd\n"),
    ],
)
async def test_half_a_composition_never_stays_where_another_writes_in_its_line(
    folder: Path, put: str, keys: str, expected: str
) -> None:
    page = written(folder, "Ben: 日記: \nEnd\n")
    async with room(folder) as made:
        ann = await made.person("Ann", page)
        ben = await made.person("Ben", page)
        await ann.put("日記: ")
        await ben.put(put)
        keyboard: Any = await ann.tab.context.new_cdp_session(ann.tab)
        for number, reading in enumerate(("k", "か", "かn", "はる")):
            place = {"text": reading, "selectionStart": len(reading), "selectionEnd": len(reading)}
            await keyboard.send("Input.imeSetComposition", place)
            await ben.tab.wait_for_function("(it) => document.body.textContent.includes(it)", arg=reading)
            if number == 0:
                await ben.tab.keyboard.press({"\b": "Backspace", "\n": "Enter"}.get(keys, keys))
                await ben.saved()
                await ben.put("End")
                await ben.write("!")
                await ben.saved()
                await ben.tab.keyboard.press("Backspace")
        await keyboard.send("Input.insertText", {"text": "春"})
        await ann.reads(expected)
        assert await made.same(page) == expected


async def test_the_caret_stays_right_when_others_wrote_during_a_composition(folder: Path) -> None:
    page = written(folder, "Ben: 日記: \n")
    async with room(folder) as made:
        ann = await made.person("Ann", page)
        ben = await made.person("Ben", page)
        await ann.put("日記: ")
        await ben.put("Ben")
        keyboard: Any = await ann.tab.context.new_cdp_session(ann.tab)
        await keyboard.send("Input.imeSetComposition", {"text": "は", "selectionStart": 1, "selectionEnd": 1})
        await ben.write("oît")
        await keyboard.send("Input.insertText", {"text": "春"})
        await ann.reads("Benoît: 日記: 春\n")
        await ann.write("!")
        await ben.write("?")
        assert await made.same(page) == "Benoît?: 日記: 春!\n"
        await ann.tab.keyboard.press("Control+z")
        assert "Benoît?" in await made.same(page)


async def test_somebody_who_may_only_read_reads(folder: Path) -> None:
    page = written(folder, "# Title\n\nText\n")
    async with room(folder, ["--read-only"]) as made:
        ann = await made.person("Ann", page)
        await ann.put("Text")
        await ann.write("x")
        assert await ann.text() == "# Title\n\nText\n"
        await ann.tab.locator("#state", has_text="Read only").wait_for()
        await ann.tab.locator("#pages #read-only", has_text="Read only").wait_for()  # once, not at each page
        assert not await ann.tab.locator("#page-list", has_text="Read only").count()
        assert await ann.tab.locator("#me").get_attribute("title") == "Ann: you and this page"
