"""How the page looks and is used: a telephone's width, the keyboard alone, light and dark, languages."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.agent.test_web_browser import CONTRAST
from tests.collab.browser.browsing import room
from tests.collab.browser.model import edit

pytestmark = [pytest.mark.anyio, pytest.mark.browser]

PAGE = "notes/garden.md"
TEXT = (
    "# The garden\n\n- [x] hose\n- [ ] gauge\n\nSee [the shed](shed.md) and `code`.\n\n"
    "| a | b |\n|---|---|\n| 1 | 2 |\n"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "pages"
    (made / "notes").mkdir(parents=True)
    (made / PAGE).write_text(TEXT, encoding="utf-8")
    (made / "notes/shed.md").write_text("# The shed\n", encoding="utf-8")
    return made


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_all_text_stands_out_and_nothing_is_wider_than_a_telephone(folder: Path, scheme: str) -> None:
    options = {"color_scheme": scheme, "viewport": {"width": 360, "height": 740}}
    async with room(folder, model=True) as made:
        edits = edit(PAGE, "- [x] hose", "- [x] the long green hose") + edit(PAGE, "nowhere", "x")
        made.speaker.says = f"A **change**.\n\n{edits}"
        ann = await made.person("Ann", PAGE, **options)
        await ann.tab.locator("#tabs button[data-pane=assistant]").click()
        await ann.ask("Change it")
        await ann.answered()
        for pane in ("pages", "assistant", "page"):
            await ann.tab.locator(f"#tabs button[data-pane={pane}]").click()
            assert await ann.tab.evaluate("document.documentElement.scrollWidth") <= 360
            assert await ann.tab.evaluate(CONTRAST) == []
        await ann.suggestions.get_by_role("button", name="Accept this suggestion").click()
        await ann.tab.locator("input[name=view][value=preview]").check(force=True)
        await ann.tab.locator("#preview-text", has_text="the long green hose").wait_for()
        assert await ann.tab.evaluate("document.documentElement.scrollWidth") <= 360
        assert await ann.tab.evaluate(CONTRAST) == []


@pytest.mark.parametrize(
    ("locale", "saved", "send"), [("ja-JP", "保存済み", "送信"), ("zh-CN", "已保存", "发送")]
)
async def test_it_speaks_the_language_of_the_browser_and_another_on_demand(
    folder: Path, locale: str, saved: str, send: str
) -> None:
    async with room(folder) as made:
        ann = await made.person("Ann", PAGE, locale=locale)
        await ann.tab.locator("#state", has_text=saved).wait_for()
        assert await ann.tab.locator("#send").inner_text() == send
        await ann.tab.locator("#me").click()
        await ann.tab.locator("#language").select_option("en")
        await ann.tab.locator("#settings-close").click()
        assert await ann.tab.locator("#send").inner_text() == "Send"
        await ann.tab.locator("#state", has_text="Saved").wait_for()
        await ann.tab.reload()
        await ann.tab.locator("#state", has_text="Saved").wait_for()


async def test_the_name_that_somebody_takes_is_seen_by_the_others_and_kept(folder: Path) -> None:
    async with room(folder) as made:
        ann = await made.person("Ann", PAGE)
        ben = await made.person("Ben", PAGE)
        await ben.tab.locator("#me").click()
        await ben.tab.locator("#my-name").fill("Benoît")
        await ben.tab.locator("#theme").select_option("dark")
        await ben.tab.keyboard.press("Escape")
        await ann.tab.locator("#people .initial[title='Benoît']").wait_for()
        dark = await ben.tab.evaluate("getComputedStyle(document.body).backgroundColor")
        assert dark != await ann.tab.evaluate("getComputedStyle(document.body).backgroundColor")


SMALL = """(selector) => [...document.querySelector(selector).querySelectorAll(
  "button, a, input, select, summary, textarea")].filter((each) => {
    if (!each.checkVisibility({ visibilityProperty: true })) return false;
    if (each.closest(".unseen, .skip, .prose")) return false;
    const { width, height } = (each.closest("label") ?? each).getBoundingClientRect();
    return width < 44 || height < 44;
}).map((each) => each.id || each.name || each.textContent)"""
"""What is too small for a finger."""


async def test_a_finger_hits_everything_on_a_telephone(folder: Path) -> None:
    options = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
    async with room(folder, model=True) as made:
        made.speaker.says = edit(PAGE, "- [x] hose", "- [x] long hose") + edit(PAGE, "nowhere", "x")
        async with made.server.client() as client:
            await client.post("/api/pages", json={"name": "b.md"})
            await client.post("/api/pages/b.md/remove")
        ann = await made.person("Ann", PAGE, **options)
        await ann.tab.locator("#tabs button[data-pane=assistant]").click()
        await ann.ask("Change it")
        await ann.answered()
        assert await ann.tab.evaluate(SMALL, "body") == []
        await ann.tab.locator("#tabs button[data-pane=pages]").click()
        await ann.tab.locator("#new-page summary").click()
        await ann.tab.locator("#removed summary").click()
        assert await ann.tab.evaluate(SMALL, "body") == []
        await ann.tab.locator("#tabs button[data-pane=page]").click()
        await ann.editor.press("Control+f")
        await ann.tab.locator(".cm-search").wait_for()
        assert await ann.tab.evaluate(SMALL, "body") == []
        assert await ann.tab.evaluate("document.documentElement.scrollWidth") <= 360
        for opening, dialog in (("#me", "#settings"), ("#history", "#versions"), ("#manage-page", "#manage")):
            await ann.tab.locator(opening).click()
            await ann.tab.locator(dialog).wait_for()
            assert await ann.tab.evaluate(SMALL, dialog) == []
            await ann.tab.keyboard.press("Escape")


async def test_finding_speaks_the_language_of_the_page(folder: Path) -> None:
    async with room(folder) as made:
        ann = await made.person("Ann", PAGE, locale="ja-JP")
        await ann.editor.press("Control+f")
        await ann.tab.locator(".cm-search").get_by_role("button", name="すべて置換").wait_for()
        text = await ann.tab.locator(".cm-search").inner_text()
        assert not any(each.isascii() and each.isalpha() for each in text)


async def test_a_page_is_found_opened_and_left_by_the_keyboard(folder: Path) -> None:
    async with room(folder) as made:
        ann = await made.person("Ann")
        await ann.tab.locator("#page-list a").first.wait_for()
        await ann.tab.locator("#filter").focus()
        await ann.write("SHED")
        await ann.tab.keyboard.press("Tab")  # to what makes a page
        await ann.tab.keyboard.press("Tab")
        await ann.tab.keyboard.press("Enter")
        await ann.editor.wait_for()
        assert await ann.text() == "# The shed\n"
        assert await ann.tab.title() == "notes/shed.md – Kakite"
        await ann.tab.go_back()
        await ann.tab.go_forward()
        await ann.reads("# The shed\n")


async def test_links_in_the_preview_lead_to_pages_without_leaving(folder: Path) -> None:
    async with room(folder) as made:
        ann = await made.person("Ann", PAGE)
        await ann.tab.locator("input[name=view][value=both]").check()
        boxes = await ann.tab.locator("#preview-text .task").all_inner_texts()
        assert [each.strip() for each in boxes] == ["☑ hose", "☐ gauge"]
        await ann.tab.locator("#preview-text a", has_text="the shed").click()
        await ann.reads("# The shed\n")
        assert ann.tab.url.endswith("/p/notes/shed.md")


async def test_a_large_page_is_written_with_a_warning(folder: Path) -> None:
    (folder / "large.md").write_text("# 日本語\n\n" + "words and words\n\n" * 20_000, encoding="utf-8")
    async with room(folder) as made:
        ann = await made.person("Ann", "large.md")
        await ann.tab.locator("#notice", has_text="256 KB").wait_for()
        await ann.put("# 日本語")
        await ann.write("です")
        await ann.saved()
    assert (folder / "large.md").read_text(encoding="utf-8").startswith("# 日本語です\n")


async def test_what_is_no_page_is_told(folder: Path) -> None:
    async with room(folder) as made:
        ann = await made.person("Ann")
        await ann.tab.goto(f"{made.server.url}p/nowhere.md")
        await ann.tab.get_by_text("There is no such page any more.").wait_for()
        made.forgiven.append("404")


def test_the_built_page_is_what_the_sources_say(tmp_path: Path) -> None:
    from tests.clients.conftest import environment
    from tests.collab.browser.building import SOURCES, node

    page = SOURCES.parent.parent / "src/kakite/collab/page"
    for command in (["build.mjs", tmp_path / "page"], ["node_modules/typescript/bin/tsc", "--noEmit"]):
        done = subprocess.run(
            [node(), *command],
            cwd=SOURCES,
            env=environment(tmp_path),
            capture_output=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    built = {each.name: each.read_bytes() for each in (tmp_path / "page").iterdir()}
    shipped = {each.name: each.read_bytes() for each in page.iterdir()}
    assert sorted(built) == sorted(shipped)
    stale = [name for name in built if built[name] != shipped[name]]
    assert stale == [], "run `npm run build` in web/collab"
