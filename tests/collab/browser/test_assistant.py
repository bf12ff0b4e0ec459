"""The assistant in the browser: it is asked, it answers while it thinks, and its edits come in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.collab.browser.browsing import Person, Room, room
from tests.collab.browser.model import edit

pytestmark = [pytest.mark.anyio, pytest.mark.browser]

PAGE = "garden.md"
TEXT = (
    "# The garden\n\nthe beans needs water.\n\n春に種をまく。秋に収穫。👩‍🌾\n\nNever water tomatos at noon.\n"
)
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


async def asked(made: Room) -> Person:
    """Let Ann ask, and wait until it is done."""
    ann = await made.person("Ann", PAGE)
    await ann.ask("Please correct it")
    await ann.answered()
    return ann


async def test_its_edits_come_as_suggestions_with_what_it_says(folder: Path) -> None:
    async with room(folder, model=True) as made:
        made.speaker.says = SAID
        ann = await asked(made)
        assert await ann.suggestions.count() == 3
        assert await ann.tab.locator(".answer").inner_text() == "Three small things."
        assert await ann.tab.locator(".edits li").count() == 3
        assert "1,834" in await ann.tab.locator(".turn .state").inner_text()
        assert await made.same(PAGE) == TEXT
        assert "Please correct it" in str(made.speaker.requests[-1])
        await ann.tab.locator("#review-accept-all").click()
        await ann.tab.locator("#review").wait_for(state="hidden")
        assert "tomatoes" in await made.same(PAGE)


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
        made.speaker.says = said
        ann = await asked(made)
        failure = ann.tab.locator(".failure")
        said = await failure.locator("summary").inner_text()
        assert said == "An edit was not made. The page has such words, but not quite these."
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
        made.speaker.says = f"{hostile}\n\n{edit(PAGE, '# The garden', f'# {hostile}')}"
        ann = await asked(made)
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
        made.forgiven.append("Failed to load resource")


# Lets the connection break after some of the first answer.
BREAKS = """() => {
  const real = window.fetch;
  let left = 4;
  window.fetch = async (...given) => {
    const answer = await real(...given);
    if (left <= 0 || !String(given[0]).endsWith("/assist")) return answer;
    const reader = answer.body.getReader();
    const pull = async (to) => {
      const { value, done } = await reader.read();
      if (done) return to.close();
      to.enqueue(value);
      if (--left > 0) return;
      reader.cancel();
      to.error(new TypeError("network error"));
    };
    return new Response(new ReadableStream({ pull }), answer);
  };
}"""


async def test_a_connection_that_breaks_in_the_middle_costs_nothing_of_the_answer(folder: Path) -> None:
    async with room(folder, model=True) as made:
        made.speaker.says = "One two three four five. " * 8 + SAID
        ann = await made.person("Ann")
        await ann.tab.add_init_script(f"({BREAKS})()")
        await ann.open(made.server, PAGE)
        await ann.ask("Please correct it")
        await ann.answered()
        said = await ann.tab.locator(".answer").inner_text()
        assert said == "One two three four five. " * 8 + "Three small things."
        assert await ann.tab.locator(".edits li").count() == await ann.suggestions.count() == 3


async def test_after_a_reload_an_answer_is_followed_and_stopped(folder: Path) -> None:
    async with room(folder, model=True) as made:
        made.speaker.says = "I think about it. " * 20
        made.speaker.holds.clear()
        ann = await made.person("Ann", PAGE)
        await ann.ask("Please correct it")
        answer = ann.tab.locator(".turn .answer")
        await ann.tab.locator(".answer", has_text="I think").wait_for()
        await ann.tab.reload()
        await ann.tab.locator(".turn .state.busy").wait_for()
        await ann.tab.locator(".answer", has_text="I think").wait_for()
        assert await ann.tab.locator(".turn .asked").all_inner_texts() == ["Please correct it"]
        await ann.tab.get_by_role("button", name="Stop").click()
        await ann.answered()
        assert await ann.tab.locator(".turn .state").inner_text() == "Stopped"
        heard = await answer.inner_text()
        await ann.tab.reload()
        await ann.answered()
        assert await ann.tab.locator(".turn .state").inner_text() == "Stopped"
        assert await answer.inner_text() == heard


async def test_two_people_see_what_the_other_asked_and_was_answered(folder: Path) -> None:
    async with room(folder, model=True) as made:
        made.speaker.says = SAID
        ann = await made.person("Ann", PAGE)
        ben = await made.person("Ben", PAGE)
        await ann.ask("Please correct it")
        await ann.answered()
        await ben.answered()
        made.speaker.says = "Yes."
        await ben.ask("All of it?")
        await ben.answered()
        carl = await made.person("Carl", PAGE)
        for person in (ann, ben, carl):
            turns = person.tab.locator(".turn")
            await turns.nth(1).locator(".answer", has_text="Yes.").wait_for()
            await person.answered()
            assert await person.tab.locator(".turn .who").all_inner_texts() == ["Ann", "Ben"]
            assert await person.tab.locator(".turn .asked").all_inner_texts() == [
                "Please correct it",
                "All of it?",
            ]
            assert await turns.first.locator(".answer").inner_text() == "Three small things."
            assert await turns.first.locator(".edits li").count() == 3
        assert "Three small things." in str(made.speaker.requests[-1]["messages"])
        carl.tab.once("dialog", lambda dialog: dialog.accept())
        await carl.tab.locator("#clear-talk").click()
        for person in (ann, ben, carl):
            await person.tab.locator(".turn").first.wait_for(state="detached")
            assert await person.tab.locator(".turn").count() == 0
