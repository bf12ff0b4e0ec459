"""A run that edits several pages at once is seen on each of them, and kept or reverted as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.collab.browser.browsing import Person, Room, room
from tests.collab.browser.model import edit

pytestmark = [pytest.mark.anyio, pytest.mark.browser]

PAGE, OTHER = "garden.md", "shed.md"
TEXT, OTHER_TEXT = "# The garden\n\nthe beans needs water.\n", "# The shed\n\nthe rake are here.\n"
NEW, OTHER_NEW = "# The garden\n\nThe beans need water.\n", "# The shed\n\nThe rake is here.\n"
SAID = "Two pages.\n\n" + "\n".join(
    [
        edit(PAGE, "the beans needs water.", "The beans need water."),
        edit(OTHER, "the rake are here.", "The rake is here."),
    ]
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "pages"
    made.mkdir()
    (made / PAGE).write_text(TEXT, encoding="utf-8")
    (made / OTHER).write_text(OTHER_TEXT, encoding="utf-8")
    (made / "elsewhere.md").write_text("# Elsewhere\n", encoding="utf-8")
    return made


async def ran(made: Room) -> tuple[Person, Person]:
    """Let Ann ask on one page about another, too, which Ben is on; return both when it is done."""
    made.speaker.says = SAID
    ann = await made.person("Ann", PAGE)
    ben = await made.person("Ben", OTHER)
    await ann.tab.locator("#more-pages summary").click()
    await ann.tab.get_by_role("checkbox", name=OTHER).check()
    await ann.ask("Correct both", auto=True)
    await ann.answered()
    await ann.reads(NEW)
    await ben.reads(OTHER_NEW)
    return ann, ben


async def test_a_run_over_two_pages_shows_on_both_and_is_reverted_from_either(folder: Path) -> None:
    async with room(folder, model=True) as made:
        ann, ben = await ran(made)
        for person, other in ((ann, OTHER), (ben, PAGE)):
            run = person.tab.locator("#runs .run")
            assert "changed 2 places" in await run.inner_text()
            await run.get_by_role("button", name=other).wait_for()
        cem = await made.person("Cem", "elsewhere.md")
        await cem.saved()
        assert await cem.tab.locator("#runs .run").count() == 0
        await ben.tab.locator("#runs .run").get_by_role("button", name="Revert on 2 pages").click()
        await ben.reads(OTHER_TEXT)
        await ann.reads(TEXT)
        for person in (ann, ben):
            await person.tab.locator("#runs .run").wait_for(state="detached")


async def test_a_run_over_two_pages_is_kept_from_the_page_that_it_was_not_asked_on(folder: Path) -> None:
    async with room(folder, model=True) as made:
        ann, ben = await ran(made)
        await ben.tab.locator("#runs .run").get_by_role("button", name=PAGE).click()
        await ben.reads(NEW)
        await ben.tab.locator("#runs .run").get_by_role("button", name="Keep").click()
        for person in (ann, ben):
            await person.tab.locator("#runs .run").wait_for(state="detached")
        assert await made.on_server(OTHER) == OTHER_NEW
