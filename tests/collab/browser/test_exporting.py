"""A page is saved as its text and as HTML, and printed: by readers, too."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.collab.browser.browsing import Person, room
from tests.collab.browser.test_access import faults

pytestmark = [pytest.mark.anyio, pytest.mark.browser]

PAGE = "notes/<b>garden.md"
TEXT = "# The garden 庭\n\n<script>alert(1)</script> [x](javascript:alert(2)) & **bold**\n\n- [x] hose\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "pages"
    (made / "notes").mkdir(parents=True)
    (made / PAGE).write_text(TEXT, encoding="utf-8")
    (made / "plain.txt").write_text("# no heading\n<b>\n", encoding="utf-8")
    return made


async def saved_as(person: Person, button: str, place: Path) -> tuple[str, str]:
    """Press a button of the dialog; return the name and content of the file that comes."""
    if not await person.tab.locator("#manage").is_visible():
        await person.tab.locator("#manage-page").click()
    async with person.tab.expect_download() as coming:
        await person.tab.locator(button).click()
    file = place / "download"
    await (await coming.value).save_as(file)
    return (await coming.value).suggested_filename, file.read_text(encoding="utf-8")


async def test_a_reader_saves_the_text_and_html_that_runs_nothing(folder: Path, tmp_path: Path) -> None:
    async with room(folder) as made:
        context = await made.browser.new_context(viewport={"width": 390, "height": 844})
        ann = Person(await context.new_page())
        await ann.tab.goto(f"{made.server.url}?token={made.server.reading_token}")
        await ann.open(made.server, PAGE)
        _, text = await saved_as(ann, "#export-text", tmp_path)
        assert text == TEXT
        assert not await ann.tab.locator("#rename").is_visible()
        assert not await faults(ann)
        _, html = await saved_as(ann, "#export-html", tmp_path)
        assert re.search(r"<h1>The garden 庭</h1>", html)
        assert "<strong>bold</strong>" in html
        assert "<script" not in html
        assert 'href="javascript' not in html
        assert "☑ hose" in html
        assert "&lt;b&gt;garden.md</title>" in html
        await ann.open(made.server, "plain.txt")
        name, html = await saved_as(ann, "#export-html", tmp_path)
        assert name == "plain.html"
        assert "# no heading\n&lt;b&gt;" in html


async def test_what_is_printed_is_the_page_and_nothing_around_it(folder: Path) -> None:
    async with room(folder) as made:
        ann = await made.person("Ann", PAGE)
        await ann.tab.locator("input[name=view][value=text]").check()
        await ann.put("# The garden")
        await ann.write(" now")
        await ann.tab.evaluate("() => { window.print = () => dispatchEvent(new Event('beforeprint')); }")
        await ann.tab.locator("#manage-page").click()
        await ann.tab.locator("#export-print").click()
        await ann.tab.locator("#manage").wait_for(state="hidden")
        await ann.tab.emulate_media(media="print")
        await ann.tab.locator("#preview-text h1", has_text="The garden now 庭").wait_for()
        for around in ("#top", "#pages", "#assistant", ".tools", "#editor"):
            assert not await ann.tab.locator(around).is_visible()
