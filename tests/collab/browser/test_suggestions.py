"""The assistant's suggestions in the text: seen, accepted and rejected by people, who go on writing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.collab.browser.browsing import Person, Room, room
from tests.collab.browser.model import edit

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

PAGE = "garden.md"
TEXT = "# The garden\n\nthe beans needs water.\n\n春に種をまく。秋に収穫。👩‍🌾\n\nNever water tomatos at noon.\n"
SAID = "Three small things.\n\n" + "\n".join(
    [
        edit(PAGE, "the beans needs water.", "The beans need water."),
        edit(PAGE, "春に種をまく。秋に収穫。👩‍🌾", "春に種をまき、秋に収穫します。👩‍🌾"),
        edit(PAGE, "Never water tomatos at noon.", "Never water tomatoes at noon."),
    ]
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "pages"
    made.mkdir()
    (made / PAGE).write_text(TEXT, encoding="utf-8")
    return made


async def suggested(made: Room, said: str = SAID, edits: int = 3) -> Person:
    """Let Ann ask, and wait for what is suggested."""
    made.speaker.says = said
    ann = await made.person("Ann", PAGE)
    await ann.ask("Please correct it")
    await ann.answered()
    assert await ann.suggestions.count() == edits
    return ann


async def test_suggestions_stand_beside_the_text_until_one_is_accepted_by_mouse(folder: Path) -> None:
    async with room(folder, model=True) as made:
        ann = await suggested(made)
        ben = await made.person("Ben", PAGE)
        assert await ann.text() == await ben.text() == await made.on_server(PAGE) == TEXT
        struck = [await each.inner_text() for each in await ben.tab.locator(".cm-content del").all()]
        coming = [await each.inner_text() for each in await ben.tab.locator(".coming").all()]
        assert "tomatos" in struck
        assert "tomatoes" in coming
        assert await ann.tab.locator(".answer").inner_text() == "Three small things."
        await ben.suggestions.last.get_by_role("button", name="Accept this suggestion").click()
        await ann.reads(TEXT.replace("tomatos", "tomatoes"))
        await ann.suggestions.nth(1).get_by_role("button", name="Reject this suggestion").click()
        await ben.tab.wait_for_function("() => document.querySelectorAll('.settle').length === 1")
        assert await made.same(PAGE) == TEXT.replace("tomatos", "tomatoes")


async def test_suggestions_are_gone_through_by_the_keyboard(folder: Path) -> None:
    async with room(folder, model=True) as made:
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
            "# The garden\n\nThe beans need water.\n\n春に種をまき、秋に収穫します。👩‍🌾\n\nNever water tomatos at noon.\n"
        )
        # Where there is nothing to accept, Tab leads on as everywhere.
        await keys.press("Tab")
        assert not await ann.editor.evaluate("(each) => each.contains(document.activeElement)")


@pytest.mark.parametrize("how", ["accept", "reject"])
async def test_all_are_settled_at_once(folder: Path, how: str) -> None:
    async with room(folder, model=True) as made:
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
    async with room(folder, model=True) as made:
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
        ann.forgive("409")


async def test_auto_mode_writes_at_once_and_the_whole_run_is_taken_back_or_kept(folder: Path) -> None:
    async with room(folder, model=True) as made:
        made.speaker.says = SAID
        ann = await made.person("Ann", PAGE)
        ben = await made.person("Ben", PAGE)
        await ben.put("# The garden")
        await ben.write(" of Ben")
        await ann.ask("Please correct it", auto=True)
        await ann.answered()
        run = ann.tab.locator("#runs .run")
        await run.get_by_role("button", name="Revert").click()
        await run.wait_for(state="detached")
        await ben.reads(TEXT.replace("# The garden", "# The garden of Ben"))
        await ann.ask("Once more", auto=True)
        await ann.answered()
        await run.get_by_role("button", name="Keep").click()
        await run.wait_for(state="detached")
        text = await made.same(PAGE)
        assert "tomatoes" in text
        assert "garden of Ben" in text
        # One's own undo takes back what oneself wrote, and nothing of the assistant's.
        await ben.editor.focus()
        await ben.tab.keyboard.press("Control+z")
        await ben.reads(text.replace(" of Ben", ""))


async def test_an_edit_without_a_place_changes_nothing_and_is_shown_with_what_is_close(folder: Path) -> None:
    said = edit(PAGE, "Never water tomatos in the blazing sun.", "x")
    async with room(folder, model=True) as made:
        ann = await suggested(made, said, edits=0)
        failure = ann.tab.locator(".failure")
        await failure.locator("summary").click()
        await failure.locator("pre", has_text="Never water tomatos at noon.").wait_for()
        assert await made.same(PAGE) == TEXT


async def test_a_run_is_stopped(folder: Path) -> None:
    async with room(folder, model=True) as made:
        made.speaker.says = "I think about it. " * 20
        made.speaker.holds.clear()
        ann = await made.person("Ann", PAGE)
        await ann.ask("Please correct it")
        await ann.tab.locator(".answer", has_text="I think").wait_for()
        await ann.tab.get_by_role("button", name="Stop").click()
        await ann.answered()
        assert await ann.tab.locator(".turn .state").inner_text() == "Stopped"
        made.speaker.holds.set()
        made.speaker.says = "Yes."
        await ann.ask("Are you there?")
        await ann.tab.locator(".turn:last-of-type .answer", has_text="Yes.").wait_for()


async def test_what_the_assistant_says_and_the_text_holds_stays_text(folder: Path) -> None:
    hostile = "<img src=x onerror=\"document.title='owned'\"> [x](javascript:alert(1)) ![y](https://elsewhere.example/a.png)"
    async with room(folder, model=True) as made:
        ann = await suggested(made, f"{hostile}\n\n{edit(PAGE, '# The garden', f'# {hostile}')}", edits=1)
        await ann.tab.locator("input[name=view][value=both]").check()
        await ann.tab.locator("#review-accept-all").click()
        await ann.tab.locator("#preview-text h1", has_text="onerror").wait_for()
        assert await ann.tab.locator("img[src=x], #preview img, a[href^=javascript]").count() == 0
        assert await ann.tab.title() == f"{PAGE} – Kakite"


async def test_without_a_model_the_page_says_how_to_set_one(folder: Path) -> None:
    async with room(folder) as made:
        ann = await made.person("Ann", PAGE)
        await ann.ask("Please correct it")
        await ann.tab.locator(".turn .state", has_text="--model").wait_for()
        ann.forgive("Failed to load resource")
