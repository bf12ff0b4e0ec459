"""People type while a model's edits stream in, at random: nobody loses a character, and all read the same."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.async_api import Error as PlaywrightError

from tests.collab.browser.browsing import Person, Room, room
from tests.collab.browser.model import edit
from tests.collab.server import serving

pytestmark = [pytest.mark.anyio, pytest.mark.browser, pytest.mark.timeout(3600)]

PAGE = "page.md"
KEYS = {"Ann": "жзийклмнопрс", "Ben": "αβγδεζηθικλμ"}
"""What each of them types, and nobody else: whose character is missing is seen from it."""
PARTS = 6
WORDS = 14
BEFORE = ("the bean needs it", "春に種をまく。", "cafe\u0301 au lait", "👩‍🌾 and 👍🏽")
AFTER = ("The beans need it", "春に種をまき、秋を待つ。", "café crème", "👩‍🌾, 👍🏽 and 🌱")
LOST = r"WebSocket connection|Failed to load resource|ERR_CONNECTION_REFUSED|ERR_INTERNET_DISCONNECTED"


def text_of(dice: random.Random, line_end: str) -> str:
    """Return a page on which each person has lines of their own, around those that the model edits."""
    lines = ["# Page 頁", ""]
    for part in range(PARTS):
        lines += [f"Ann{part}: ", f"{part}. {dice.choice(BEFORE)}", f"Ben{part}: ", ""]
    return line_end.join(lines)


def edits_of(dice: random.Random, text: str) -> str:
    """Return what the model says: edits of some of its lines, and one that has no place."""
    said = ["I look at it. 見ました。\n"]
    lines = text.splitlines()
    for part in sorted(dice.sample(range(PARTS), k=4)):
        line = next(each for each in lines if each.startswith(f"{part}. "))
        said.append(edit(PAGE, line, f"{part}. {AFTER[BEFORE.index(line[3:])]}"))
    said.insert(2, edit(PAGE, "This line is nowhere at all on the page, whatever one looks for", "x"))
    return "\n".join(said)


@dataclass
class Scene:
    """What goes on at once, and how far it is."""

    under_way: asyncio.Event = field(default_factory=asyncio.Event)
    """Some words are written."""
    written: asyncio.Event = field(default_factory=asyncio.Event)
    """All words are, and the assistant is done."""


async def type_at_random(person: Person, name: str, seed: int, scene: Scene) -> Counter[str]:
    """Type words at random ends of one's own lines; return all characters that were typed."""
    dice = random.Random(f"{seed} {name}")
    typed: Counter[str] = Counter()
    for number in range(WORDS):
        word = "".join(dice.choices(KEYS[name], k=dice.randint(1, 5)))
        await person.put(f"{name}{dice.randrange(PARTS)}: ")
        await person.write(word, delay=dice.choice((2, 12, 25)))
        typed.update(word)
        if number == WORDS // 3:
            scene.under_way.set()
    return typed


async def settle_at_random(person: Person, dice: random.Random, scene: Scene) -> None:
    """Accept and reject what is suggested while it comes, until nothing more comes and nothing is left."""
    while not scene.written.is_set() or await person.suggestions.count():
        if await person.suggestions.count():
            label = dice.choice(("Accept this suggestion", "Reject this suggestion"))
            with suppress(PlaywrightError):  # it was just settled, or the server is away
                await person.suggestions.first.get_by_role("button", name=label).dispatch_event(
                    "click", timeout=500
                )
        await person.tab.evaluate("() => new Promise((done) => requestAnimationFrame(done))")


async def disturb(made: Room, person: Person, trouble: str, scene: Scene) -> None:
    """Take away a connection, or the server, while everybody writes."""
    await scene.under_way.wait()
    if trouble == "line":
        await person.tab.evaluate("() => dispatchEvent(new Event('kakite-lose-line'))")
    elif trouble == "server":
        await made.server.end()
        again = serving(
            made.folder, *made.speaker.options, port=made.server.port, environ=made.speaker.environ
        )
        made.server = await made.further.enter_async_context(again)


async def writing(made: Room, seed: int, scene: Scene) -> tuple[Counter[str], Counter[str]]:
    """Let Ann and Ben type, and wait for the assistant."""
    ann, ben, *_ = made.people
    typed = await asyncio.gather(
        type_at_random(ann, "Ann", seed, scene), type_at_random(ben, "Ben", seed, scene)
    )
    await ann.answered()
    scene.written.set()
    return typed


# Closes the websockets of a page when the test says so.
LINES = """() => {
  const Real = WebSocket;
  window.WebSocket = class extends Real {
    constructor(...given) {
      super(...given);
      addEventListener("kakite-lose-line", () => this.close());
    }
  };
}"""


async def test_nobody_loses_a_character_and_all_read_the_same(tmp_path: Path, proof: bool) -> None:
    for seed in range(20 if proof else 2):
        folder = tmp_path / f"pages{seed}"
        folder.mkdir()
        await one_run(folder, seed)


async def one_run(folder: Path, seed: int) -> None:
    dice = random.Random(seed)
    trouble = ("line", "server", "none")[seed % 3]
    auto = seed % 2 == 1
    line_end = dice.choice(("\n", "\r\n"))
    text = text_of(dice, line_end)
    (folder / PAGE).write_bytes(text.encode())
    scene = Scene()
    async with room(folder, model=True) as made:
        made.speaker.says = edits_of(dice, text)
        made.speaker.bit = dice.choice((1, 3, 40))
        for name in ("Ann", "Ben", "Cem"):
            person = await made.person(name)
            await person.tab.add_init_script(f"({LINES})()")
            await person.open(made.server, PAGE)
        ann, _, cem = made.people
        await ann.ask("Improve it", auto=auto)
        async with asyncio.timeout(240):
            typed, _, _ = await asyncio.gather(
                writing(made, seed, scene),
                settle_at_random(cem, dice, scene),
                disturb(made, ann, trouble, scene),
            )
        found = await made.same(PAGE)
        for each, keys in zip(typed, (KEYS["Ann"], KEYS["Ben"]), strict=True):
            assert Counter(sign for sign in found if sign in keys) == each, (seed, trouble, auto)
        # And of all else every line stands once, as it was or as the model wanted it.
        own = "".join(sign for sign in found if sign not in KEYS["Ann"] + KEYS["Ben"]).split("\n")
        for line, before in zip(own, text.splitlines() + [""] * text.endswith(line_end), strict=True):
            assert line in wanted(before), (seed, trouble, auto)
        made.forgiven.append(LOST)
        await made.server.end()
        assert (folder / PAGE).read_bytes() == found.replace("\n", line_end).encode()


def wanted(before: str) -> tuple[str, ...]:
    number, dot, line = before.partition(". ")
    return (before, number + dot + AFTER[BEFORE.index(line)]) if line in BEFORE else (before,)
