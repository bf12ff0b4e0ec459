"""Everybody can use the page: by keyboard, by a screen reader's names, on a telephone, or only reading."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.collab.browser.browsing import Person, Room, room
from tests.collab.browser.building import SOURCES
from tests.collab.browser.model import edit
from tests.collab.browser.test_writing import LOST
from tests.collab.server import TOKEN, serving

pytestmark = [pytest.mark.anyio, pytest.mark.browser]

PAGE = "garden.md"
TEXT = (
    "# The garden\n\nthe beans needs water.\n\n春に種をまく。秋に収穫。👩‍🌾\n\nNever water tomatos at noon.\n"
)
AXE = SOURCES / "node_modules/axe-core/axe.min.js"
SAID = "Three **small** things.\n\n" + "\n".join(
    [
        edit(PAGE, "the beans needs water.", "The beans need water."),
        edit(PAGE, "春に種をまく。秋に収穫。👩‍🌾", "春に種をまき、秋に収穫します。👩‍🌾"),
        edit(PAGE, "Never water tomatos at noon.", "Never water tomatoes at noon."),
        edit(PAGE, "This is nowhere on the page, whatever one looks for", "x"),
    ]
)
NAMELESS = """() => [...document.querySelectorAll("button, a[href], input, textarea, select, summary")]
  .filter((each) => each.checkVisibility())
  .filter((each) => !(each.getAttribute("aria-label") || each.textContent.trim() || each.labels?.length
    || each.getAttribute("aria-labelledby")))
  .map((each) => each.outerHTML)"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "pages"
    made.mkdir()
    (made / PAGE).write_text(TEXT, encoding="utf-8")
    (made / "shed.md").write_text("# The shed\n", encoding="utf-8")
    return made


async def names_fade(person: Person) -> None:
    """Wait until the names at carets have faded: for a moment they have too little contrast."""
    faded = "(each) => getComputedStyle(each).opacity === '0'"
    await person.tab.wait_for_function(f"() => [...document.querySelectorAll('.peer-name')].every({faded})")


async def faults(person: Person) -> list[str]:
    """What axe finds wrong, and what has no name."""
    if not await person.tab.evaluate("() => 'axe' in window"):
        await person.tab.evaluate(AXE.read_text(encoding="utf-8"))
    found = await person.tab.evaluate("() => axe.run(document)")
    told = [
        f"{each['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
        for each in found["violations"]
        for node in each["nodes"]
    ]
    return told + await person.tab.evaluate(NAMELESS)


async def asked(made: Room, **options: Any) -> Person:
    """Let Ann ask, and wait until three suggestions are there."""
    made.speaker.says = SAID
    ann = await made.person("Ann", PAGE, **options)
    if await ann.tab.locator("#tabs").is_visible():
        await ann.tab.locator("#tabs button[data-pane=assistant]").click()
    await ann.ask("Please correct it")
    await ann.answered()
    return ann


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
async def test_axe_finds_nothing_wrong(folder: Path, width: int, scheme: str) -> None:
    if not AXE.is_file():
        pytest.skip("axe-core is not installed: run `make clients`")
    options: dict[str, Any] = {"viewport": {"width": width, "height": 844}, "color_scheme": scheme}
    told: list[str] = []
    async with room(folder, model=True) as made:
        first = await made.person("Cem", **options)
        await first.tab.locator("#page-list a").first.wait_for(state="attached")
        told += await faults(first)
        ann = await asked(made, **options)
        ben = await made.person("Ben", PAGE)
        await ben.put("# The garden")
        await ben.write(" of Ben")
        await ann.reads(TEXT.replace("# The garden", "# The garden of Ben"))
        for pane in ("page", "assistant", "pages") if width < 900 else ("page",):
            await ann.tab.evaluate(
                "(pane) => document.querySelector(`#tabs [data-pane=${pane}]`).click()", pane
            )
            told += await faults(ann)
            if await ann.tab.evaluate("document.documentElement.scrollWidth") > width:
                told.append(f"{pane} is wider than the screen")
        await ann.tab.locator("#me").click()
        told += await faults(ann)
    assert not told, "\n".join(dict.fromkeys(told))


async def test_all_is_done_by_the_keyboard(folder: Path) -> None:
    async with room(folder, model=True) as made:
        made.speaker.says = SAID
        ann = await made.person("Ann", PAGE)
        keys = ann.tab.keyboard
        await keys.press("Control+Home")
        # Ask, stop, and ask again.
        made.speaker.holds.clear()
        await ann.tab.locator("#message").focus()
        await ann.write("Please correct it", delay=0)
        await keys.press("Control+Enter")
        await ann.tab.get_by_role("button", name="Stop").focus()
        await ann.tab.locator(".answer", has_text="Three small things").wait_for()
        await keys.press("Enter")
        await ann.tab.locator(".turn .state", has_text="Stopped").wait_for()
        made.speaker.holds.set()
        await ann.tab.locator("#review-reject-all").focus()
        await keys.press("Enter")
        await ann.tab.locator("#review").wait_for(state="hidden")
        await ann.tab.locator("#message").focus()
        await ann.write("Please correct it", delay=0)
        await keys.press("Control+Enter")
        await ann.tab.locator(".turn:last-of-type .state:not(.busy)").wait_for()
        # Into the text by the link for it, and through the suggestions both ways.
        await ann.tab.locator(".skip").first.focus()
        await keys.press("Enter")
        assert await ann.editor.evaluate("(each) => each.contains(document.activeElement)")
        count = ann.tab.locator("#review-count")
        for key, place in (
            ("F8", 1),
            ("F8", 2),
            ("F8", 3),
            ("F8", 1),
            ("Shift+F8", 3),
            ("Alt+p", 2),
            ("Alt+n", 3),
        ):
            await keys.press(key)
            assert await count.inner_text() == f"{place} of 3", key
        await keys.press("Tab")
        await ann.reads(TEXT.replace("tomatos", "tomatoes"))
        await keys.press("F8")
        await keys.press("Escape")
        await ann.tab.wait_for_function("() => document.querySelectorAll('.settle').length === 1")
        await keys.press("F8")
        # The caret is where one reads, and the keyboard is still in the text.
        await keys.press("Tab")
        await ann.tab.locator("#review").wait_for(state="hidden")
        text = await made.same(PAGE)
        assert "tomatoes" in text
        assert ("beans need water" in text) != ("まき、" in text)


async def test_a_screen_reader_is_told_what_each_button_settles_and_what_came_of_it(folder: Path) -> None:
    async with room(folder, model=True) as made:
        ann = await asked(made)
        assert await ann.tab.evaluate(NAMELESS) == []
        for where in (ann.editor, ann.tab.locator("#suggestion-list")):
            names = [
                await each.get_attribute("aria-label")
                for each in await where.get_by_role("button", name="Accept this suggestion").all()
            ]
            assert len(set(names)) == 3
            assert "Accept this suggestion: replace “tomatos” by “tomatoes”" in names
        await ann.tab.get_by_role("region", name="Preview").wait_for()
        await ann.tab.get_by_role("textbox", name=f"Text of {PAGE}").wait_for()
        news = ann.tab.locator("#news")
        assert await news.get_attribute("aria-live") == "polite"
        await ann.tab.locator("#review-next").press("Enter")
        await news.filter(has_text="Suggestion 1 of 3: replace").wait_for(state="attached")
        await ann.tab.keyboard.press("Tab")
        await news.filter(has_text="Accepted").wait_for(state="attached")


@pytest.mark.parametrize("how", ["command", "link"])
async def test_who_may_only_read_is_shown_nothing_that_would_write(folder: Path, how: str) -> None:
    options = ["--read-only"] if how == "command" else []
    async with room(folder, model=True) as made:
        await (await asked(made)).saved()  # three suggestions are there
        await made.server.end()
        async with serving(folder, *options, port=made.server.port) as server:
            token = TOKEN if how == "command" else server.reading_token
            cem = await made.person("Cem")
            await cem.tab.context.clear_cookies()
            await cem.tab.goto(f"{server.url}?token={token}")
            await cem.open(server, PAGE)
            await cem.tab.locator("#review-count", has_text="3 suggestions").wait_for()
            assert await cem.tab.locator(".cm-content del").count() > 0
            await cem.tab.locator("#review-next").click()
            assert await cem.tab.locator(".settle, #suggestion-list .yes, #suggestion-list .no").count() == 0
            shown = await cem.tab.evaluate(
                "() => [...document.querySelectorAll('button, textarea, summary')]"
                ".filter((each) => each.checkVisibility())"
                ".map((each) => each.id || each.className || each.closest('[class]').className)"
            )
            # The conversation, too, is there to be read: its links go to places, and what failed opens.
            places = ["link", "link", "link", "place", "place", "place"]
            assert sorted(shown) == [
                "authors",
                "failure",
                *places[:3],
                "manage-page",
                "me",
                *places[3:],
                "review-next",
                "review-previous",
            ]
            assert await cem.tab.locator(".turn .asked").count() == 1
            await cem.tab.keyboard.press("Tab")
            await cem.tab.keyboard.press("Escape")
            await cem.put("# The garden")
            await cem.write("x")
            assert await cem.text() == TEXT
            assert await cem.suggestions.count() == 0
        made.forgiven.append(LOST)


async def test_on_a_telephone_one_settles_asks_and_comes_back(folder: Path) -> None:
    phone: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
    async with room(folder, model=True) as made:
        ann = await asked(made, **phone)
        pressed = ann.tab.locator("#tabs button[aria-pressed=true]")
        await ann.tab.locator("#suggestion-list .place").last.tap()
        assert await pressed.inner_text() == "Text"
        await ann.tab.locator("#review-accept").tap()
        await ann.reads(TEXT.replace("tomatos", "tomatoes"))
        # All that is for one's finger is big enough, and nothing lies over it.
        small = await ann.tab.evaluate(
            "() => [...document.querySelectorAll('button')].filter((each) => each.checkVisibility())"
            ".map((each) => [each.id || each.className, each.getBoundingClientRect()])"
            ".filter(([, { width, height }]) => width < 44 || height < 44).map(([name]) => name)"
        )
        assert small == []
        # Read at once: the page may still move between two looks.
        assert (
            await ann.tab.evaluate(
                "() => new Set(['accept-all', 'reject-all'].map((each) =>"
                " document.getElementById(`review-${each}`).getBoundingClientRect().y)).size"
            )
            == 1
        )
        # Somebody else changes a place: the decision about it comes up where it can be seen.
        ben = await made.person("Ben", PAGE)
        await ben.put("the beans ")
        await ben.write("dearly ")
        await made.same(PAGE)
        await ann.suggestions.first.get_by_role("button", name="Accept this suggestion").tap()
        await ann.tab.get_by_role("button", name="Apply it here").wait_for()
        assert await pressed.inner_text() == "Assistant"
        made.forgiven.append("409")
