"""Comments in the page: written on a passage, answered, resolved, and kept beside words that move."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.collab.browser.browsing import Person, room
from tests.collab.browser.model import edit
from tests.collab.browser.test_access import faults, names_fade

pytestmark = [pytest.mark.anyio, pytest.mark.browser]

PAGE = "garden.md"
TEXT = "# The garden\n\nThe beans needs water.\n\n春に種をまく。\n"
MARKED = """() => {
  const walker = document.createTreeWalker(document.querySelector(".cm-content"), NodeFilter.SHOW_TEXT);
  let marked = "";
  for (let node; (node = walker.nextNode());) {
    const above = node.parentElement;
    if (above.closest(".commented") && !above.closest(".peer-caret")) marked += node.data;
  }
  return marked;
}"""
"""The marked words, without the names of others whose carets stand in them."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "pages"
    made.mkdir()
    (made / PAGE).write_text(TEXT, encoding="utf-8")
    return made


async def comment(person: Person, words: str, text: str) -> None:
    """Comment on some words, by keyboard alone."""
    await person.put(words)
    for _ in words:
        await person.tab.keyboard.press("Shift+ArrowLeft")
    await person.tab.keyboard.press("Control+Alt+m")
    await person.tab.locator("#comment-text:focus").wait_for()
    await person.tab.keyboard.type(text)
    await person.tab.keyboard.press("Control+Enter")
    await person.tab.locator("#new-comment").wait_for(state="hidden")


async def marked(person: Person, words: str) -> None:
    """Wait until these words are marked, and no others."""
    try:
        await person.tab.wait_for_function(f"(words) => ({MARKED})() === words", arg=words)
    except Exception:
        assert (found := await person.tab.evaluate(MARKED)) == words, found
        raise


async def test_a_passage_is_discussed_and_resolved_by_keyboard_and_mouse(folder: Path) -> None:
    async with room(folder) as made:
        ann, ben = await made.person("Ann", PAGE), await made.person("Ben", PAGE)
        await comment(ann, "needs", "<b>need</b>, not needs? @Ben")
        for person in (ann, ben):
            await marked(person, "needs")
        card = ben.tab.locator("#comment-list > li")
        await card.locator(".words strong", has_text="@Ben").wait_for()
        assert "<b>need</b>, not needs?" in await card.locator(".words").inner_text()
        assert await ben.tab.locator("#comment-list > li.mentions").count() == 1
        assert "mentioned you" in (await ben.tab.locator("#news").text_content() or "")
        await ben.put("# The")
        await ben.write(" old")
        await marked(ann, "needs")
        await card.get_by_role("button", name="needs").click()
        await ben.tab.locator("#comment-list > li.chosen").wait_for()
        await ben.tab.locator(".commented.chosen").first.wait_for()
        await card.get_by_role("textbox", name="Reply").fill("Yes.\nMend it.")
        await ben.tab.keyboard.press("Control+Enter")
        await ann.tab.locator("#comment-list .said > li", has_text="Mend it.").wait_for()
        assert not await faults(ann)
        await ann.tab.get_by_role("button", name="Resolve").click()
        for person in (ann, ben):
            await marked(person, "")
            await person.tab.locator("#resolved-count", has_text="Resolved (1)").wait_for()
        await ben.tab.locator("#resolved summary").click()
        await ben.tab.get_by_text("Resolved by Ann").wait_for()
        await ben.tab.get_by_role("button", name="Reopen").click()
        await marked(ann, "needs")
        await ann.tab.get_by_role("button", name="Resolve").click()
        await ben.tab.get_by_role("button", name="Remove", exact=True).click()
        await ann.tab.locator("#comments").wait_for(state="hidden")
        assert await made.same(PAGE) == TEXT.replace("The garden", "The old garden")


async def test_people_edit_their_own_comments_and_nobody_elses(folder: Path) -> None:
    async with room(folder) as made:
        ann, ben = await made.person("Ann", PAGE), await made.person("Ben", PAGE)
        await comment(ann, "beans", "Witch?")
        said = ben.tab.locator("#comment-list .said .words")
        await said.get_by_text("Witch?").wait_for()
        assert not await ben.tab.locator("#comment-list .edit-comment").count()
        edit = ann.tab.locator("#comment-list .edit-comment")
        await edit.focus()
        await ann.tab.keyboard.press("Enter")
        field = ann.tab.locator("#comment-list").get_by_role("textbox", name="Edit")
        await field.fill("Which <b>ones</b>?")
        await ben.tab.locator("#comment-list").get_by_role("textbox", name="Reply").fill("All")
        await ben.tab.keyboard.press("Control+Enter")
        await ann.tab.locator("#comment-list .words", has_text="All").wait_for()
        assert await field.input_value() == "Which <b>ones</b>?"  # what one is writing stays
        assert await field.evaluate("(each) => each === document.activeElement")
        await names_fade(ann)
        assert not await faults(ann)
        await ann.tab.keyboard.press("Control+Enter")
        await said.get_by_text("Which <b>ones</b>?").wait_for()
        await ben.tab.locator("#comment-list .by", has_text="edited").wait_for()
        await ann.tab.locator("#comment-list .edit-comment:focus").wait_for()
        await ann.tab.keyboard.press("Enter")
        await field.press("Escape")
        assert await said.all_inner_texts() == ["Which <b>ones</b>?", "All"]


async def test_words_that_are_removed_and_brought_back_have_their_comment_again(folder: Path) -> None:
    async with room(folder) as made:
        ann = await made.person("Ann", PAGE)
        await comment(ann, "種をまく", "When?")
        await marked(ann, "種をまく")
        await ann.put("種をまく")
        for _ in "に種をまく":
            await ann.tab.keyboard.press("Backspace")
        card = ann.tab.locator("#comment-list > li")
        await card.get_by_text("no longer in the text").wait_for()
        assert "種をまく" in await card.inner_text()
        await marked(ann, "")
        await ann.tab.locator("#undo").click()
        await ann.reads(TEXT)
        await marked(ann, "種をまく")


async def test_what_one_is_writing_stays_while_others_comment_and_type(folder: Path) -> None:
    async with room(folder) as made:
        ann, ben = await made.person("Ann", PAGE), await made.person("Ben", PAGE)
        await comment(ann, "beans", "Which?")
        reply = ann.tab.locator("#comment-list").get_by_role("textbox", name="Reply").first
        await reply.fill("I mean that")
        await comment(ben, "garden", "Whose?")
        await ann.tab.locator("#comment-list > li").nth(1).wait_for()
        assert await ann.tab.locator("#comment-list > li q").first.inner_text() == "garden"
        field = ann.tab.locator("#comment-list > li", has_text="Which?").get_by_role("textbox", name="Reply")
        assert await field.input_value() == "I mean that"
        assert await field.evaluate("(each) => each === document.activeElement")
        await ben.put("water")
        await ben.tab.keyboard.press("Control+Alt+m")
        await ann.put("beans")
        await ann.write(" there")
        await ben.reads(TEXT.replace("beans", "beans there"))
        assert await ben.tab.evaluate(MARKED) == "gardenThe beans there needs water."
        await ben.tab.keyboard.press("Escape")
        await marked(ben, "gardenbeans")


async def test_the_assistant_answers_below_the_comment_that_mentions_it(folder: Path) -> None:
    async with room(folder, model=True) as made:
        made.speaker.says = "It should be **need**.\n\n" + edit(PAGE, "The beans needs", "The beans need")
        ann = await made.person("Ann", PAGE)
        await comment(ann, "needs", "@assistant right?")
        answer = ann.tab.locator("#comment-list .said .answer")
        await answer.locator("strong", has_text="need").wait_for()
        await ann.suggestions.first.wait_for()
        assert await ann.tab.locator(".turn").count() == 1  # it stands in the conversation as well
        assert not await faults(ann)


async def test_readers_see_comments_and_cannot_write_any(folder: Path) -> None:
    async with room(folder) as made:
        ann = await made.person("Ann", PAGE)
        await comment(ann, "beans", "Which?")
        context = await made.browser.new_context()
        reader = Person(await context.new_page())
        await reader.tab.goto(f"{made.server.url}?token={made.server.reading_token}")
        await reader.open(made.server, PAGE)
        await reader.tab.locator("#comment-list .words", has_text="Which?").wait_for()
        assert not await reader.tab.get_by_role("button", name="Comment on").is_visible()
        assert not await reader.tab.locator("#comment-list").get_by_role("textbox").is_visible()
        assert not await reader.tab.get_by_role("button", name="Resolve").is_visible()
