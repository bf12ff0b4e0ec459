"""People suggest: what they type or delete becomes suggestions in their name, and is in nobody's text."""

from __future__ import annotations

import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.collab.browser.browsing import Person, Room, room
from tests.collab.browser.test_access import faults, names_fade
from tests.collab.browser.test_writing import LOST, PASTE
from tests.collab.server import serving

pytestmark = [pytest.mark.anyio, pytest.mark.browser]

PAGE = "garden.md"
TEXT = "# The garden\n\nThe beans needs water.\n\n春に種をまく。👩‍🌾\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "pages"
    made.mkdir()
    (made / PAGE).write_text(TEXT, encoding="utf-8")
    return made


@asynccontextmanager
async def two(folder: Path) -> AsyncGenerator[tuple[Room, Person, Person]]:
    async with room(folder) as made:
        ann, ben = await made.person("Ann", PAGE), await made.person("Ben", PAGE)
        await begin(ann)
        yield made, ann, ben


async def begin(person: Person) -> None:
    """Suggest from now on, by the key."""
    await person.editor.focus()
    await person.tab.keyboard.press("Control+Shift+E")
    await person.tab.locator("#suggesting[aria-pressed=true]").wait_for()


async def pending(person: Person, *wanted: tuple[str, str]) -> None:
    """Wait until these are suggested, as a person sees them: what goes and what comes."""
    await person.tab.wait_for_function(
        """(wanted) => {
          const cards = [...document.querySelectorAll("#suggestion-list .change")];
          const read = (each) => each.textContent;
          const words = (card, sign) => [...card.querySelectorAll(sign)].map(read).join("");
          const found = cards.map((card) => [words(card, "del"), words(card, "ins")]);
          return JSON.stringify(found) === JSON.stringify(wanted);
        }""",
        arg=[list(each) for each in wanted],
    )


async def done(person: Person) -> None:
    """Let a person be done with what they are suggesting."""
    await person.tab.keyboard.press("Escape")
    await person.tab.locator(".typed, .gone").first.wait_for(state="detached")


async def test_what_is_typed_and_deleted_is_suggested_in_ones_name_and_decided_by_others(
    folder: Path,
) -> None:
    async with two(folder) as (made, ann, ben):
        assert "becomes a suggestion" in (await ann.tab.locator("#news").text_content() or "")
        await ann.put("The beans ")
        await ann.write("always ")
        await ann.put("water")
        for _ in range(5):
            await ann.tab.keyboard.press("Backspace")
        await ann.write("rain")
        assert await ann.text() == TEXT.replace("beans needs water", "beans always needs rain")
        assert await ann.tab.locator(".gone").inner_text() == "water"
        await pending(ben, ("", "always "), ("water", "rain"))
        assert await ben.tab.locator("#suggestion-list .place", has_text="Ann").count() == 2
        assert await ben.text() == TEXT == await made.on_server(PAGE)
        await done(ann)
        await pending(ann, ("", "always "), ("water", "rain"))
        assert await ann.text() == TEXT
        await names_fade(ann)
        assert not await faults(ann)
        await ben.suggestions.first.get_by_role("button", name="Accept this suggestion").click()
        await ben.suggestions.last.get_by_role("button", name="Reject this suggestion").click()
        await pending(ann)
        expected = TEXT.replace("beans needs", "beans always needs")
        await ann.reads(expected)
        assert await made.same(PAGE) == expected
        await ben.tab.locator("#undo").click()
        await ben.tab.locator("#undo").click()
        await pending(ann, ("", "always "), ("water", "rain"))
        assert await made.same(PAGE) == TEXT
        await made.server.end()
        assert (folder / PAGE).read_text(encoding="utf-8") == TEXT
        made.forgiven.append(LOST)


async def test_undo_goes_through_what_one_is_suggesting_and_then_withdraws_what_one_suggested(
    folder: Path,
) -> None:
    async with two(folder) as (made, ann, ben):
        await ann.put("# The ")
        await ann.write("old ", delay=0)
        await done(ann)
        await ann.put("needs ")
        await ann.write("much ", delay=0)
        await pending(
            ben, ("", "old "), ("", "much ")
        )  # so long after the last key that it is a step of its own
        await ann.write("more ", delay=0)
        undo, redo = ann.tab.locator("#undo"), ann.tab.locator("#redo")
        await ann.reads(TEXT.replace("needs ", "needs much more "))
        await ann.tab.keyboard.press("Control+z")
        await ann.reads(TEXT.replace("needs ", "needs much "))
        await pending(ben, ("", "old "), ("", "much "))
        await ann.tab.keyboard.press("Control+z")
        await ann.reads(TEXT)
        await pending(ben, ("", "old "))
        await ann.tab.keyboard.press("Control+Shift+Z")
        await pending(ben, ("", "old "), ("", "much "))
        await done(ann)
        for left in ([("", "old ")], []):
            await undo.click()
            await pending(ben, *left)
        for left in ([("", "old ")], [("", "old "), ("", "much ")]):
            await redo.click()
            await pending(ben, *left)
        assert await made.same(PAGE) == TEXT


async def test_an_input_method_and_the_clipboard_suggest_as_keys_do(folder: Path) -> None:
    async with two(folder) as (made, ann, ben):
        await ann.put("春に")
        await ben.put("water")
        keyboard: Any = await ann.tab.context.new_cdp_session(ann.tab)
        for reading in ("h", "は", "はy", "はや", "はやく"):
            place = {"text": reading, "selectionStart": len(reading), "selectionEnd": len(reading)}
            await keyboard.send("Input.imeSetComposition", place)
            await ben.write("x")
        await keyboard.send("Input.insertText", {"text": "早く"})
        await pending(ben, ("", "早く"))
        await done(ann)
        await ann.put("The garden")
        await ann.tab.evaluate(PASTE, " 庭\r\nand 👩‍🌾 more")
        await pending(ben, ("", " 庭\nand 👩‍🌾 more"), ("", "早く"))
        await done(ann)
        expected = TEXT.replace("water", "waterxxxxx")
        assert await made.same(PAGE) == expected
        await ben.tab.locator("#review-accept-all").click()
        expected = expected.replace("春に", "春に早く").replace("garden", "garden 庭\nand 👩‍🌾 more")
        await ann.reads(expected)
        assert await made.same(PAGE) == expected


async def test_escape_ends_ones_own_suggestion_and_rejects_nobody_elses(folder: Path) -> None:
    async with two(folder) as (made, ann, ben):
        await begin(ben)
        await ben.put("The beans needs")
        await ben.write("!")
        await done(ben)
        await pending(ann, ("", "!"))
        await ann.put("The beans needs")
        await ann.tab.keyboard.press("ArrowLeft")
        await ann.write("x")
        await pending(ben, ("", "x"), ("", "!"))
        await done(ann)
        await pending(ann, ("", "x"), ("", "!"))
        assert await made.same(PAGE) == TEXT


async def test_two_suggest_in_one_line_in_which_a_third_writes(folder: Path) -> None:
    async with two(folder) as (made, ann, ben):
        cem = await made.person("Cem", PAGE)
        await begin(ben)
        await ann.put("The beans ")
        await ben.put("needs")
        await cem.put("water")
        for sign in "abc":
            await ann.write(sign)
            await ben.write(sign.upper())
            await cem.write("!")
        await pending(cem, ("", "abc"), ("", "ABC"))
        await ann.reads(TEXT.replace("beans needs water", "beans abcneeds water!!!"))
        await done(ann)
        await done(ben)
        await made.same(PAGE)
        await cem.tab.locator("#review-accept-all").click()
        expected = TEXT.replace("beans needs water", "beans abcneedsABC water!!!")
        await ann.reads(expected)
        assert await made.same(PAGE) == expected


async def test_what_somebody_decides_while_one_goes_on_typing_is_not_there_twice(folder: Path) -> None:
    async with two(folder) as (made, ann, ben):
        await ann.put("The beans ")
        await ann.write("always ")
        await pending(ben, ("", "always "))
        accept = ben.suggestions.first.get_by_role("button", name="Accept this suggestion")
        await ann.write("and ", delay=0)
        await accept.click()
        await ann.write("ever ")
        await ben.reads(TEXT.replace("beans ", "beans always "))
        await ann.reads(TEXT.replace("beans ", "beans always and ever "))
        await pending(ben, ("", "and ever "))
        await done(ann)
        await ben.tab.locator("#review-accept-all").click()
        await ann.reads(TEXT.replace("beans ", "beans always and ever "))
        await made.same(PAGE)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_what_is_suggested_while_the_server_is_away_is_suggested_when_it_is_back(
    folder: Path, number: int
) -> None:
    async with two(folder) as (made, ann, ben):
        made.forgiven.append(LOST)
        await ann.put("The beans ")
        await ann.write("always ")
        await pending(ben, ("", "always "))
        await made.server.end(number)
        await ann.tab.locator("#state.bad").wait_for()
        await ann.write("and ever ")
        made.server = await made.further.enter_async_context(
            serving(folder, port=made.server.port, environ=made.speaker.environ)
        )
        await pending(ben, ("", "always and ever "))
        await done(ann)
        await pending(ann, ("", "always and ever "))
        assert await made.same(PAGE) == TEXT


async def test_suggesting_ends_and_stays_as_the_person_says(folder: Path) -> None:
    async with two(folder) as (made, ann, ben):
        await ann.tab.reload()
        await ann.tab.locator("#suggesting[aria-pressed=true]").wait_for()
        await ann.put("The beans ")
        await ann.write("always ")
        await ann.tab.locator("#suggesting").click()
        await ann.tab.locator("#suggesting[aria-pressed=false]").wait_for()
        await pending(ben, ("", "always "))
        await ann.put("# The garden")
        await ann.write("!")
        expected = TEXT.replace("garden", "garden!")
        await ben.reads(expected)
        assert await made.same(PAGE) == expected


async def test_a_telephone_has_room_for_it(folder: Path) -> None:
    async with room(folder) as made:
        ann = await made.person("Ann", PAGE, viewport={"width": 390, "height": 844}, has_touch=True)
        await ann.tab.locator("#suggesting").tap()
        await ann.put("The beans ")
        await ann.write("always ")
        await ann.tab.locator(".typed").wait_for()
        assert await ann.tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert not await faults(ann)
