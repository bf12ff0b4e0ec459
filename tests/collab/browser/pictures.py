"""Take the pictures of the docs anew: `.venv/bin/python -m tests.collab.browser.pictures`.

It needs Chromium and a font with Japanese, such as Debian's fonts-noto-cjk.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from tests.collab.browser.browsing import Person, Room, room
from tests.collab.browser.model import edit
from tests.collab.browser.test_comments import comment

PICTURES = Path(__file__).parents[3] / "docs" / "pictures"
PAGE = "garden.md"
COMPOST = "compost.md"
HANDBOOK = "庭の手帖.md"
TEXT = """\
# The garden book

We plant in spring and we harvest in autumn. The rows are marked by small wooden signs, and the tools are \
hung in the shed behind the house.

## Watering

Water the beds early in the morning, before the sun is strong. In dry weeks we water twice; the beans needs \
it most. Never water the leaves of tomatos.

- [x] Mend the hose
- [ ] Buy a rain gauge
- [ ] Ask Ben about the [compost](compost.md)

| Bed | Plant | Sown |
| --- | --- | --- |
| 1 | Beans | April |
| 2 | Tomatoes | May |
"""
LINES = TEXT.splitlines()
EDITS = (
    (
        LINES[2],
        "We plant in spring and we harvest in autumn. Small wooden signs mark the rows; the tools hang "
        "in the shed behind the house.",
    ),
    (LINES[6], LINES[6].replace("beans needs", "beans need").replace("tomatos", "tomatoes")),
    ("- [ ] Buy a rain gauge", "- [ ] Buy a rain gauge and a second hose"),
)
JAPANESE = """\
# 庭の手帖

春に種をまき、秋に収穫します。畝には小さな木の札を立て、道具は家の裏の納屋にかけておきます。

## 水やり

朝早く、日ざしが強くなる前に水をあたえること。雨の少ない週は二回。とくに豆は水を多く必要とします。
トマトの葉に水をかけてはいけない。

- [x] ホースを直す
- [ ] 雨量計を買う
"""
JAPANESE_EDITS = (
    (
        "朝早く、日ざしが強くなる前に水をあたえること。雨の少ない週は二回。とくに豆は水を多く必要とします。",
        "朝早く、日ざしが強くなる前に水をやります。雨の少ない週は二回です。とくに豆は水を多く必要とします。",
    ),
    ("トマトの葉に水をかけてはいけない。", "トマトの葉には水をかけません。"),
)
SIZE = {"width": 1320, "height": 800}
PHONE = {"width": 390, "height": 760}


def reply(said: str, page: str, edits: tuple[tuple[str, str], ...]) -> str:
    return f"{said}\n\n" + "\n".join(edit(page, *each) for each in edits)


async def take(person: Person, name: str) -> None:
    """Take a picture once nothing moves."""
    await person.tab.evaluate("() => document.fonts.ready")
    await person.tab.screenshot(path=PICTURES / f"{name}.png", animations="disabled", caret="initial")


async def main(folder: Path) -> None:
    (folder / PAGE).write_text(TEXT, encoding="utf-8")
    (folder / COMPOST).write_text("# Compost\n\nTurn it monthly.\n", encoding="utf-8")
    (folder / HANDBOOK).write_text(JAPANESE, encoding="utf-8")
    (folder / "notes").mkdir()
    (folder / "notes/seeds.md").write_text("# Seeds\n", encoding="utf-8")
    PICTURES.mkdir(exist_ok=True)
    async with room(folder, model=True) as made:
        ann = await together(made)
        await changed(made, ann)
        await at_once(made, ann)
        await commented(made, ann)
        await suggesting(made, ann)
        await in_japanese(made)


async def together(made: Room) -> Person:
    """Two people and the assistant on one page."""
    ann = await made.person("Ann", PAGE, viewport=SIZE, color_scheme="light")
    ben = await made.person("Ben", PAGE, viewport=SIZE, color_scheme="dark")
    await ben.put("Buy a rain gauge")
    await made.same(PAGE)
    made.speaker.says = reply("I corrected the spelling and made one sentence **active**.", PAGE, EDITS)
    await ann.ask("Correct the mistakes, please, and make it a bit livelier.")
    await ann.answered()
    await ann.tab.locator("#review-next").click()
    await ann.tab.locator("#review-next").click()
    await ann.tab.locator("#page-list .badge", has_text="3").wait_for()
    await take(ann, "collab-light")
    return ann


async def changed(made: Room, ann: Person) -> None:
    """Somebody wrote where something was suggested."""
    await ann.put("before the sun is ")
    await ann.write("too ")
    await ann.tab.locator("#review-accept").click()
    await ann.tab.get_by_role("button", name="Apply it here").wait_for()
    await take(ann, "collab-changed")
    made.forgiven.append("409")
    await ann.tab.locator("#review-reject-all").click()
    await ann.tab.locator("#review").wait_for(state="hidden")


async def at_once(made: Room, ann: Person) -> None:
    """A run that changed two pages at once."""
    made.speaker.says = reply("Done, on both pages.", PAGE, EDITS[::2]) + edit(
        COMPOST, "monthly", "every month"
    )
    await ann.tab.locator("#more-pages summary").click()
    await ann.tab.get_by_role("checkbox", name=COMPOST).check()
    await ann.ask("Once more, on the compost page, too.", auto=True)
    await ann.answered()
    await ann.tab.locator("#runs .run").wait_for()
    await ann.tab.locator("#more-pages summary").click()
    await ann.saved()
    await ann.tab.locator("#page-list .badge").wait_for(state="detached")
    await take(ann, "collab-auto")


async def commented(made: Room, ann: Person) -> None:
    """People and the assistant discuss a passage."""
    ben = made.people[1]
    await ann.tab.get_by_role("button", name="Keep").click()
    await comment(ann, "rain gauge", "Do we need one, @Ben?")
    await ben.tab.locator("#comment-list").get_by_role("textbox", name="Reply").fill("For the dry weeks.")
    await ben.tab.keyboard.press("Control+Enter")
    await ann.tab.locator("#comment-list .said > li").nth(1).wait_for()
    made.speaker.says = (
        "A glass with lines does as well: rain collects in it, and you read the **millimetres**."
    )
    await (
        ann.tab.locator("#comment-list")
        .get_by_role("textbox", name="Reply")
        .fill("@assistant is there a cheap way?")
    )
    await ann.tab.keyboard.press("Control+Enter")
    await ann.tab.locator("#comment-list .said .answer strong").wait_for()
    await ann.tab.locator("#comment-list > li .place").click()
    await ann.tab.locator(".commented.chosen").first.wait_for()
    await take(ann, "collab-comments")


async def suggesting(made: Room, ann: Person) -> None:
    """A person suggests, and somebody looks who wrote what."""
    ben = made.people[1]
    await ben.tab.locator("#suggesting").click()
    await ben.put("In dry weeks we water ")
    await ben.write("them ")
    await ben.put("Never water the leaves of")
    for _ in "the leaves of":
        await ben.tab.keyboard.press("Backspace")
    await ben.write("leaves: they burn, even those of")
    await ann.tab.locator("#page-list .badge", has_text="2").wait_for()
    await take(ben, "collab-suggesting")
    await ann.tab.locator("#review-accept-all").click()
    await ann.tab.locator("#review").wait_for(state="hidden")
    await ann.tab.locator("#authors").click()
    await ann.tab.locator(".cm-content .author").first.wait_for()
    await ann.put("they burn")
    await ann.tab.locator("#authors-here", has_text="Ben").wait_for()
    await ann.saved()
    await ann.tab.locator("#page-list .badge").wait_for(state="detached")
    await take(ann, "collab-authors")


async def in_japanese(made: Room) -> None:
    """In Japanese, dark, and on a telephone."""
    kenta = await made.person("健太", HANDBOOK, viewport=SIZE, color_scheme="dark", locale="ja-JP")
    await kenta.tab.locator("input[name=view][value=text]").check()
    made.speaker.says = reply("文体を「です・ます」に**そろえました**。", HANDBOOK, JAPANESE_EDITS)
    await kenta.ask("文体をそろえてください。")
    await kenta.answered()
    await kenta.tab.locator("#review-next").click()
    await take(kenta, "collab-dark")
    phone = await made.person("陽子", HANDBOOK, viewport=PHONE, color_scheme="dark", locale="ja-JP")
    await phone.suggestions.first.wait_for()
    await take(phone, "collab-phone")
    await phone.tab.locator("#tabs button[data-pane=pages]").click()
    await phone.tab.locator("#page-list .badge").first.wait_for()
    await take(phone, "collab-pages")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(main(Path(place)))
