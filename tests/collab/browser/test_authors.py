"""Who wrote what is shown when somebody wants to see it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.collab.browser.browsing import Person, room
from tests.collab.browser.model import edit
from tests.collab.browser.test_access import faults
from tests.collab.browser.test_writing import LOST
from tests.collab.server import serving

pytestmark = [pytest.mark.anyio, pytest.mark.browser]

PAGE = "garden.md"
TEXT = "# The garden\n\nthe beans needs water.\n\nAnn: \nBen: \n"
MARKED = """(name) => [...document.querySelectorAll(".cm-content .author")]
  .filter((each) => each.title === name)
  .map((each) => {
    const own = each.cloneNode(true);
    own.querySelectorAll(".peer-caret").forEach((caret) => caret.remove());
    return own.textContent;
  }).join("")"""
"""The words that are marked as somebody's, without the names of others whose carets stand in them."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "pages"
    made.mkdir()
    (made / PAGE).write_text(TEXT, encoding="utf-8")
    return made


async def marked(person: Person, name: str, words: str) -> None:
    """Wait until these words, and no others, are marked as somebody's."""
    asked = f"([name, words]) => ({MARKED})(name) === words"
    await person.tab.wait_for_function(asked, arg=[name, words])


async def test_everybody_sees_who_wrote_what_and_it_is_known_after_a_restart(folder: Path) -> None:
    async with room(folder, model=True) as made:
        made.forgiven.append(LOST)
        made.speaker.says = edit(PAGE, "the beans needs water.", "The beans need water.")
        ann, ben = await made.person("Ann", PAGE), await made.person("Ben", PAGE)
        await ann.put("Ann: ")
        await ann.write("mine 山")
        await ben.put("Ben: ")
        await ben.write("<b>his</b>")
        await ben.ask("Correct it", auto=True)
        await ben.answered()
        await made.same(PAGE)
        await ann.editor.focus()
        await ann.tab.keyboard.press("Control+Alt+w")
        await marked(ann, "Ann", "mine 山")
        await marked(ann, "Ben", "<b>his</b>")
        names = ann.tab.locator("#authors-list li")
        assert {"Ann", "Ben", "the file"} <= {*await names.all_inner_texts()}
        await names.get_by_text("Assistant (").wait_for()
        assert "Authors are shown" in (await ann.tab.locator("#news").text_content() or "")
        await ann.put("<b>hi")
        await ann.tab.locator("#authors-here", has_text="Ben").wait_for()
        await ann.put("# The")
        await ann.tab.locator("#authors-here", has_text="the file").wait_for()
        await ben.put("his")
        await ben.write("!")
        await marked(ann, "Ben", "<b>his!</b>")
        assert not await faults(ann)
        async with ann.tab.expect_download() as coming:
            await ann.tab.locator("#authors-save").click()
        assert (await coming.value).suggested_filename == "garden.md.authors.json"
        await ann.saved()
        await made.server.end()
        made.server = await made.further.enter_async_context(
            serving(folder, port=made.server.port, environ=made.speaker.environ)
        )
        await ann.tab.reload()
        await ann.editor.wait_for()
        await ann.tab.locator("#authors").click()
        await marked(ann, "Ann", "mine 山")
        await marked(ann, "Ben", "<b>his!</b>")
        await ann.tab.locator("#authors").click()
        await ann.tab.locator(".cm-content .author").first.wait_for(state="detached")


async def test_readers_see_it_on_a_telephone(folder: Path) -> None:
    async with room(folder) as made:
        ann = await made.person("Ann", PAGE)
        await ann.put("Ann: ")
        await ann.write("mine")
        await ann.saved()
        context = await made.browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True)
        reader = Person(await context.new_page())
        await reader.tab.goto(f"{made.server.url}?token={made.server.reading_token}")
        await reader.open(made.server, PAGE)
        await reader.tab.locator("#authors").tap()
        await marked(reader, "Ann", "mine")
        assert not await reader.tab.locator("#undo").is_visible()
        assert await reader.tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert not await faults(reader)
