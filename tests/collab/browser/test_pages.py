"""Around one page: the list, pages that are made, addresses, and what a failed request leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.collab.browser.browsing import Person, room
from tests.collab.browser.test_unsent import again, kept, leave

pytestmark = [pytest.mark.anyio, pytest.mark.browser]

PAGE = "garden.md"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "pages"
    made.mkdir()
    (made / PAGE).write_text("# The garden\n", encoding="utf-8")
    return made


async def test_a_page_is_made_and_written(folder: Path) -> None:
    async with room(folder) as made:
        ann = await made.person("Ann")
        await ann.tab.locator("#new-page summary").click()
        for name, told in ((PAGE, "exists"), ("picture.png", ".md")):
            await ann.tab.locator("#new-name").fill(name)
            await ann.tab.keyboard.press("Enter")
            await ann.tab.locator("#new-trouble", has_text=told).wait_for()
        await ann.tab.locator("#new-name").fill("notes/計画")
        await ann.tab.keyboard.press("Enter")
        await ann.editor.wait_for()
        assert await ann.tab.title() == "notes/計画.md – Kakite"
        await ann.editor.focus()
        await ann.write("# 計画")
        await ann.saved()
        assert (folder / "notes/計画.md").read_text(encoding="utf-8") == "# 計画"
        made.forgiven.append("409|422|400")


async def test_one_goes_back_to_the_list_and_nobody_is_seen_on_the_page_any_more(folder: Path) -> None:
    async with room(folder) as made:
        ann = await made.person("Ann")
        ben = await made.person("Ben", PAGE)
        await ann.tab.locator("#page-list a").first.click()
        await ben.tab.locator("#people .initial[title=Ann]").wait_for()
        await ann.tab.go_back()
        await ann.tab.get_by_text("Choose a page to write in.").wait_for()
        assert await ann.editor.count() == 0
        await ben.tab.locator("#people .initial[title=Ann]").wait_for(state="detached")
        await ann.tab.go_forward()
        await ann.reads("# The garden\n")


async def test_an_address_names_its_page_however_it_is_written(folder: Path) -> None:
    (folder / "a+b (c), d@e.md").write_text("# Here\n", encoding="utf-8")
    async with room(folder) as made:
        ann = await made.person("Ann")
        for address in ("a+b%20(c),%20d@e.md", "a%2Bb%20%28c%29%2C%20d%40e.md"):
            await ann.tab.goto(f"{made.server.url}p/{address}")
            await ann.editor.wait_for()
            await ann.reads("# Here\n")


async def test_an_address_that_is_none_is_told(folder: Path) -> None:
    async with room(folder) as made:
        ann = await made.person("Ann")
        await ann.tab.goto(f"{made.server.url}p/100%")
        await ann.tab.get_by_text("There is no such page any more.").wait_for()
        made.forgiven.append("404")


async def test_ctrl_s_saves_no_picture_of_the_page(folder: Path) -> None:
    async with room(folder) as made:
        ann = await made.person("Ann", PAGE)
        await ann.saved()
        await ann.tab.evaluate(
            "() => addEventListener('keydown', (event) => { window.prevented = event.defaultPrevented; })"
        )
        await ann.editor.press("Control+s")
        assert await ann.tab.evaluate("window.prevented") is True
        await ann.tab.locator("#news", has_text="Saved").wait_for(state="attached")


async def test_a_request_that_nobody_heard_need_not_be_typed_again(folder: Path) -> None:
    async with room(folder) as made:
        ann = await made.person("Ann", PAGE)
        await ann.ask("Please correct it")
        await ann.tab.locator(".turn .state", has_text="--model").wait_for()
        assert await ann.tab.locator("#message").input_value() == "Please correct it"
        made.forgiven.append("Failed to load resource")


async def manage(person: Person) -> None:
    await person.tab.locator("#manage-page").click()
    await person.tab.locator("#manage").wait_for()


async def test_a_page_is_renamed_and_all_who_are_on_it_come_along(folder: Path) -> None:
    (folder / "taken.md").write_text("Other\n", encoding="utf-8")
    async with room(folder) as made:
        ann = await made.person("Ann", PAGE)
        ben = await made.person("Ben", PAGE)
        await ben.put("# The")
        await ben.write(" green")
        await ben.saved()
        await manage(ann)
        for name, told in (("taken.md", "has this name"), ("picture.png", "cannot be called so")):
            await ann.tab.locator("#rename-name").fill(name)
            await ann.tab.keyboard.press("Enter")
            await ann.tab.locator("#manage-trouble", has_text=told).wait_for()
        await ann.tab.locator("#rename-name").fill("plans/春")
        await ann.tab.keyboard.press("Enter")
        for person in (ann, ben):
            await person.tab.locator("#page-title", has_text="plans/春.md").wait_for()
            await person.reads("# The green garden\n")
        await ben.saved()
        await ben.write("ish")  # the caret is where it was
        await ben.saved()
        assert await made.same("plans/春.md") == "# The greenish garden\n"
        assert (folder / "plans/春.md").read_text(encoding="utf-8") == "# The greenish garden\n"
        assert not (folder / PAGE).exists()
        await ann.tab.goto(f"{made.server.url}p/{PAGE}")  # an old link
        await ann.tab.locator("#page-title", has_text="plans/春.md").wait_for()
        made.forgiven.append("404|409|400")


async def test_a_page_is_removed_once_that_is_confirmed_and_is_brought_back_whole(folder: Path) -> None:
    async with room(folder) as made:
        ann = await made.person("Ann", PAGE)
        ben = await made.person("Ben", PAGE)
        await ben.put("# The")
        await ben.write(" green")
        await ben.saved()
        asked: list[str] = []
        ann.tab.once("dialog", lambda dialog: (asked.append(dialog.message), dialog.dismiss())[1])
        await manage(ann)
        await ann.tab.locator("#remove-page").click()
        assert PAGE in asked[0]
        assert (folder / PAGE).exists()
        ann.tab.once("dialog", lambda dialog: dialog.accept())
        await ann.tab.locator("#remove-page").click()
        for person in (ann, ben):
            await person.tab.locator("#nothing", has_text=f"{PAGE} was removed").wait_for()
        assert not (folder / PAGE).exists()
        await ben.tab.locator("#removed summary").click()
        await ben.tab.get_by_role("button", name=f"Bring {PAGE} back").click()
        await ben.reads("# The green garden\n")
        await ben.tab.locator("#removed").wait_for(state="hidden")
        await ann.tab.locator("#page-list a").first.click()
        await ann.reads("# The green garden\n")
        await manage(ann)
        ann.tab.once("dialog", lambda dialog: dialog.accept())
        await ann.tab.locator("#remove-page").click()
        await ann.tab.locator("#nothing").get_by_role("button", name="Bring it back").click()
        await ann.reads("# The green garden\n")
        assert await made.on_server(PAGE) == "# The green garden\n"
        made.forgiven.append("404")


async def test_what_is_unsent_comes_along_to_the_new_name(folder: Path) -> None:
    async with room(folder) as made:
        ann = await made.person("Ann", PAGE)
        await ann.saved()
        await made.server.end()
        await ann.tab.locator("#state.bad").wait_for()
        await ann.put("# The")
        await ann.write(" green")
        await kept(ann)
        await leave(ann)
        await again(made)
        async with made.server.client() as client:
            await client.post(f"/api/pages/{PAGE}/rename", json={"name": "plans.md"})
        await ann.open(made.server, PAGE)
        await ann.reads("# The green garden\n")
        await ann.saved()
        assert await made.on_server("plans.md") == "# The green garden\n"
        made.forgiven.append("404")


async def test_who_may_only_read_is_offered_neither_a_new_name_nor_removal(folder: Path) -> None:
    async with room(folder, ["--read-only"]) as made:
        ann = await made.person("Ann", PAGE)
        await ann.tab.locator("#manage-page").click()
        await ann.tab.locator("#export-text").wait_for()
        assert await ann.tab.locator("#rename").is_hidden()
        assert await ann.tab.locator("#removed").is_hidden()
