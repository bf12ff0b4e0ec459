"""Undo takes back what oneself wrote, and a run is taken back as a whole: nothing that others wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.collab.browser.browsing import Person, Room, room
from tests.collab.browser.model import edit

pytestmark = [pytest.mark.anyio, pytest.mark.browser]

PAGE = "garden.md"
TEXT = "# The garden\n\nthe beans needs water.\n\n春に種をまく。秋に収穫。\n\nAnn: \nBen: \n"
NEW = TEXT.replace("the beans needs", "The beans need").replace(
    "春に種をまく。秋に収穫。", "春に種をまき、秋に収穫します。"
)
SAID = "Two.\n\n" + "\n".join(
    [
        edit(PAGE, "the beans needs water.", "The beans need water."),
        edit(PAGE, "春に種をまく。秋に収穫。", "春に種をまき、秋に収穫します。"),
    ]
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "pages"
    made.mkdir()
    (made / PAGE).write_text(TEXT, encoding="utf-8")
    return made


async def both(made: Room) -> tuple[Person, Person]:
    made.speaker.says = SAID
    return await made.person("Ann", PAGE), await made.person("Ben", PAGE)


async def undone(person: Person, times: int = 12) -> None:
    """Undo all there is, and more often than that."""
    await person.editor.focus()
    for _ in range(times):
        await person.tab.keyboard.press("Control+z")


async def test_undoing_everything_takes_nothing_of_others_and_of_the_assistant(folder: Path) -> None:
    async with room(folder, model=True) as made:
        ann, ben = await both(made)
        await ann.put("Ann: ")
        await ann.write("mine 山")
        await ben.put("Ben: ")
        await ben.write("his 川")
        await made.same(PAGE)
        await ben.put("mine")  # in the middle of Ann's words
        await ben.write(" and Ben's")
        await made.same(PAGE)
        await ann.ask("Correct it", auto=True)
        await ann.answered()
        await ann.put("The beans need")  # in the middle of the assistant's
        await ann.write("ed much")
        assert "The beans needed much water." in await made.same(PAGE)
        await undone(ann)
        expected = NEW.replace("Ann: ", "Ann:  and Ben's").replace("Ben: ", "Ben: his 川")
        await ann.reads(expected)
        assert await made.same(PAGE) == expected
        await ann.tab.keyboard.press("Control+Shift+Z")
        await ann.tab.keyboard.press("Control+Shift+Z")
        await undone(ben)
        assert "Ben: \n" in await made.same(PAGE)
        assert "and Ben's" not in await ann.text()
        assert "The beans need" in await ann.text()


async def test_what_one_person_deleted_of_anothers_comes_back_by_their_own_undo_only(folder: Path) -> None:
    async with room(folder) as made:
        ann, ben = await both(made)
        await ben.put("Ben: ")
        await ben.write("his words")
        await made.same(PAGE)
        await ann.put("his words")
        for _ in range(len(" words")):
            await ann.tab.keyboard.press("Backspace")
        await ben.reads(TEXT.replace("Ben: ", "Ben: his"))
        await undone(ann, 3)
        await ben.reads(TEXT.replace("Ben: ", "Ben: his words"))
        await made.same(PAGE)


async def test_a_run_is_undone_at_once_and_only_the_run(folder: Path) -> None:
    async with room(folder, model=True) as made:
        ann, ben = await both(made)
        await ann.ask("Correct it", auto=True)
        await ann.answered()
        await ben.put("The beans need")
        await ben.write("ed 川")
        await made.same(PAGE)
        await ann.put("Ann: ")
        await ann.write("mine")
        await made.same(PAGE)
        await ben.tab.locator("#runs").get_by_role("button", name="Revert").click()
        await ben.tab.locator("#runs .run").wait_for(state="detached")
        text = await made.same(PAGE)
        assert "春に種をまく。秋に収穫。" in text
        assert "Ann: mine\n" in text
        assert "ed 川" in text
        assert text.replace("ed 川", "").replace("mine", "") == TEXT
        await undone(ann)
        assert (await made.same(PAGE)).replace("ed 川", "") == TEXT


async def test_what_was_accepted_of_an_answer_is_taken_back_as_a_whole(folder: Path) -> None:
    async with room(folder, model=True) as made:
        ann, ben = await both(made)
        await ann.ask("Correct it")
        await ann.answered()
        assert not await ann.tab.get_by_role("button", name="Take it back").count()  # nothing is accepted yet
        await ann.suggestions.first.get_by_role("button", name="Accept this suggestion").click()
        await ann.tab.locator(".turn .state", has_text="1 accepted").wait_for()
        await ben.reads(TEXT.replace("the beans needs", "The beans need"))
        await ben.put("Ben: ")
        await ben.write("his")
        await made.same(PAGE)
        await ann.tab.locator(".turn").get_by_role("button", name="Take it back").click()
        await ann.tab.locator(".turn .state", has_text="Reverted").wait_for()
        await ann.tab.locator("#review").wait_for(state="hidden")
        assert await made.same(PAGE) == TEXT.replace("Ben: ", "Ben: his")


async def test_undo_after_accepting_takes_back_the_acceptance_and_then_what_was_typed(folder: Path) -> None:
    async with room(folder, model=True) as made:
        ann, ben = await both(made)
        await ann.ask("Correct it")
        await ann.answered()
        await ann.put("Ann: ")
        await ann.write("mine")
        await ann.saved()
        accept = ann.suggestions.first.get_by_role("button", name="Accept this suggestion")
        await accept.click()
        corrected = TEXT.replace("the beans needs", "The beans need")
        await ben.reads(corrected.replace("Ann: ", "Ann: mine"))
        await ben.put("The beans need")
        await ben.write(" much")
        await made.same(PAGE)
        await ann.editor.focus()
        await ann.tab.keyboard.press("Control+z")
        expected = TEXT.replace("the beans needs", "the beans needs much").replace("Ann: ", "Ann: mine")
        await ann.reads(expected)
        await ann.tab.locator("#review-count", has_text="2").wait_for()
        await ann.tab.keyboard.press("Control+z")
        await ann.reads(expected.replace("mine", ""))
        await ann.tab.keyboard.press("Control+Shift+Z")
        await ann.reads(expected)
        assert await made.same(PAGE) == expected


async def test_undo_and_redo_go_through_typing_accepting_and_rejecting_in_turn(folder: Path) -> None:
    async with room(folder, model=True) as made:
        ann, _ = await both(made)
        await ann.ask("Correct it")
        await ann.answered()
        await ann.put("Ann: ")
        await ann.write("one")
        await ann.saved()
        await ann.tab.locator("#review-accept-all").click()
        await ann.tab.locator("#review").wait_for(state="hidden")
        await ann.put("one")
        await ann.write(", two")
        one, two = NEW.replace("Ann: ", "Ann: one"), NEW.replace("Ann: ", "Ann: one, two")
        await ann.reads(two)
        undo, redo = ann.tab.locator("#undo"), ann.tab.locator("#redo")
        steps = [one, TEXT.replace("Ann: ", "Ann: one"), TEXT]
        for expected in steps:
            await undo.click()
            await ann.reads(expected)
        for expected in [*reversed(steps[:-1]), two]:
            await redo.click()
            await ann.reads(expected)
        for expected in steps[:2]:
            await undo.click()
            await ann.reads(expected)
        await ann.suggestions.first.get_by_role("button", name="Reject this suggestion").click()
        await ann.tab.locator(".settle").nth(1).wait_for(state="detached")
        await undo.click()
        await ann.tab.locator(".settle").nth(1).wait_for()
        assert await made.same(PAGE) == steps[1]
