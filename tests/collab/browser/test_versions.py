"""Earlier versions of a page, seen and brought back in the page itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.collab.browser.browsing import room

pytestmark = [pytest.mark.anyio, pytest.mark.browser]

PAGE = "garden.md"
TEXT = "# The garden\n\nBeans need water.\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "pages"
    made.mkdir()
    (made / PAGE).write_text(TEXT, encoding="utf-8")
    return made


async def test_a_named_version_is_compared_suggested_and_restored_by_keyboard_alone(folder: Path) -> None:
    async with room(folder) as made:
        ann = await made.person("Ann", PAGE)
        ben = await made.person("Ben", PAGE)
        tab = ann.tab
        await tab.get_by_role("button", name="Earlier versions").focus()
        await tab.keyboard.press("Enter")
        dialog = tab.get_by_role("dialog", name="Earlier versions")
        await dialog.get_by_text("There is no earlier version yet.").wait_for()
        await dialog.get_by_role("textbox").fill("Spring <b>")
        await tab.keyboard.press("Enter")
        await dialog.get_by_role("button", name="Spring <b>").wait_for()
        await tab.keyboard.press("Escape")
        await ben.put("Beans need ")
        await ben.write("more ")
        await ann.reads(TEXT.replace("need", "need more"))
        await ann.saved()
        await tab.get_by_role("button", name="Earlier versions").click()
        await dialog.get_by_role("button", name="Spring <b>").click()
        assert await dialog.locator("#version-shown del").inner_text() == "more "
        await dialog.get_by_role("button", name="Suggest these changes").click()
        await ann.suggestions.first.wait_for()
        assert await made.on_server(PAGE) == TEXT.replace("need", "need more")
        await tab.get_by_role("button", name="Reject all").click()
        await ann.suggestions.first.wait_for(state="detached")
        await tab.get_by_role("button", name="Earlier versions").click()
        await dialog.get_by_role("button", name="Spring <b>").click()
        await dialog.get_by_role("button", name="Restore at once").click()
        for person in (ann, ben):
            await person.reads(TEXT)
        await ann.saved()
        await tab.get_by_role("button", name="Earlier versions").click()
        await dialog.get_by_role("button", name="Spring <b>").click()
        await dialog.get_by_text("The page is the same as this version.").wait_for()
        newest = dialog.get_by_role("listitem").filter(has_text="by").nth(0)
        await newest.wait_for()


async def test_who_may_only_read_has_no_button_for_it(folder: Path) -> None:
    async with room(folder, ["--read-only"]) as made:
        ann = await made.person("Ann", PAGE)
        assert not await ann.tab.get_by_role("button", name="Earlier versions").is_visible()
