"""Suggestions in the text: seen, accepted and rejected by people, who go on writing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.collab.browser.browsing import Person, Room, room
from tests.collab.test_mcp import agent, call

pytestmark = [pytest.mark.anyio, pytest.mark.browser]

PAGE = "garden.md"
TEXT = (
    "# The garden\n\nthe beans needs water.\n\n春に種をまく。秋に収穫。👩‍🌾\n\nNever water tomatos at noon.\n"
)
EDITS = (
    ("the beans needs water.", "The beans need water."),
    ("春に種をまく。秋に収穫。👩‍🌾", "春に種をまき、秋に収穫します。👩‍🌾"),
    ("Never water tomatos at noon.", "Never water tomatoes at noon."),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "pages"
    made.mkdir()
    (made / PAGE).write_text(TEXT, encoding="utf-8")
    return made


async def suggested(made: Room, edits: tuple[tuple[str, str], ...] = EDITS) -> Person:
    """Let an agent suggest, and wait until Ann sees it."""
    ann = await made.person("Ann", PAGE)
    async with agent(made.server) as client:
        for search, replace in edits:
            more = {"old_str": search, "new_str": replace, "description": "Better so"}
            assert not (await call(client, "str_replace", PAGE, **more))[1]
    await ann.tab.wait_for_function(
        "(wanted) => document.querySelectorAll('.settle').length === wanted", arg=len(edits)
    )
    return ann


async def test_suggestions_stand_beside_the_text_until_one_is_accepted_by_mouse(folder: Path) -> None:
    async with room(folder) as made:
        ann = await suggested(made)
        ben = await made.person("Ben", PAGE)
        assert await ann.text() == await ben.text() == await made.on_server(PAGE) == TEXT
        struck = [await each.inner_text() for each in await ben.tab.locator(".cm-content del").all()]
        coming = [await each.inner_text() for each in await ben.tab.locator(".coming").all()]
        assert "tomatos" in struck
        assert "tomatoes" in coming
        await ben.tab.locator("#review-list .reason", has_text="Better so").first.wait_for()
        await ben.suggestions.last.get_by_role("button", name="Accept this suggestion").click()
        await ann.reads(TEXT.replace("tomatos", "tomatoes"))
        await ann.suggestions.nth(1).get_by_role("button", name="Reject this suggestion").click()
        await ben.tab.wait_for_function("() => document.querySelectorAll('.settle').length === 1")
        assert await made.same(PAGE) == TEXT.replace("tomatos", "tomatoes")


async def test_suggestions_are_gone_through_by_the_keyboard(folder: Path) -> None:
    async with room(folder) as made:
        ann = await suggested(made)
        keys = ann.tab.keyboard
        await ann.put("# The ")
        await keys.press("Alt+n")
        assert await ann.tab.locator("#review-count").inner_text() == "1 of 3"
        await ann.tab.locator("#news", has_text="Tab accepts").wait_for(state="attached")
        await keys.press("Tab")
        await ann.reads(TEXT.replace("the beans needs", "The beans need"))
        await keys.press("Alt+n")
        await keys.press("Alt+n")
        await keys.press("Escape")
        await ann.tab.wait_for_function("() => document.querySelectorAll('.settle').length === 1")
        await keys.press("Alt+p")
        await keys.press("Tab")
        await ann.tab.locator("#review").wait_for(state="hidden")
        assert await made.same(PAGE) == (
            "# The garden\n\nThe beans need water.\n\n"
            "春に種をまき、秋に収穫します。👩‍🌾\n\nNever water tomatos at noon.\n"
        )
        # Where there is nothing to accept, Tab leads on as everywhere.
        await keys.press("Tab")
        assert not await ann.editor.evaluate("(each) => each.contains(document.activeElement)")


@pytest.mark.parametrize("how", ["accept", "reject"])
async def test_all_are_settled_at_once(folder: Path, how: str) -> None:
    async with room(folder) as made:
        ann = await suggested(made)
        await ann.tab.locator(f"#review-{how}-all").click()
        await ann.tab.locator("#review").wait_for(state="hidden")
        expected = (
            "# The garden\n\nThe beans need water.\n\n春に種をまき、秋に収穫します。👩‍🌾\n\n"
            "Never water tomatoes at noon.\n"
        )
        assert await made.same(PAGE) == (expected if how == "accept" else TEXT)


async def test_somebody_writes_where_something_is_suggested_and_decides_about_what_it_became(
    folder: Path,
) -> None:
    async with room(folder) as made:
        ann = await suggested(made)
        await ann.put("Never water ")
        await ann.write("the ")
        await made.same(PAGE)
        await ann.suggestions.last.get_by_role("button", name="Accept this suggestion").click()
        card = ann.tab.locator("#suggestion-list li.changed", has_text="This place has changed since")
        await card.get_by_role("button", name="Apply it here").click()
        await ann.tab.wait_for_function("() => document.querySelectorAll('.settle').length === 2")
        text = await made.same(PAGE)
        assert "tomatoes" in text
        assert "the " in text.split("Never water ")[1]
        made.forgiven.append("409")
