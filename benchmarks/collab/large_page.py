"""How a browser bears a page of a megabyte: 100 edits that come at once, a key, and opening it.

`.venv/bin/python -m benchmarks.collab.large_page [--json FILE]`; nothing else should run meanwhile.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.figures import Figure, write
from tests.collab.browser.browsing import room
from tests.collab.server import Tab

if TYPE_CHECKING:
    from playwright.async_api import Page

LINES = 14_000
ROUNDS = 5
# Notes when bytes arrive, and when what they changed is drawn.
WATCH = """() => {
  const Real = WebSocket;
  window.arrived = [];
  window.WebSocket = class extends Real {
    constructor(...given) {
      super(...given);
      this.addEventListener("message", ({ data }) => {
        if (data.byteLength < 1000) return;
        const began = performance.now();
        requestAnimationFrame(() => setTimeout(() => window.arrived.push(performance.now() - began)));
      });
    }
  };
}"""
KEY = """() => new Promise((done) => {
  const began = performance.now();
  document.execCommand("insertText", false, "x");
  requestAnimationFrame(() => setTimeout(() => done(performance.now() - began)));
})"""


def line(number: int) -> str:
    return f"Line {number}: the quick brown fox jumps over the lazy dog, 素早い茶色の狐。\n"


async def edits(tab: Page, other: Tab) -> float:
    """Return the ms from the arrival of 100 edits in one transaction to their being drawn."""
    await tab.evaluate("window.arrived.length = 0")
    text = str(other).encode()
    places = [text.index(f"Line {number}:".encode()) for number in range(0, LINES, LINES // 100)]
    with other.doc.transaction():
        for place in reversed(places):
            other.text.insert(place, "A new line, ein neuer, 新しい行\n")
    await tab.wait_for_function("() => window.arrived.length > 0", polling=20)
    return (await tab.evaluate("window.arrived"))[0]


async def measure(folder: Path) -> dict[str, Any]:
    text = "".join(map(line, range(LINES)))
    (folder / "large.md").write_text(text, encoding="utf-8")
    found: dict[str, Any] = {"bytes": len(text.encode())}
    async with room(folder) as made:
        ann = await made.person("Ann")
        await ann.tab.add_init_script(f"({WATCH})()")
        opened: list[float] = []
        batches: list[float] = []
        for _ in range(ROUNDS):
            await ann.open(made.server, "large.md")
            opened.append(await ann.tab.evaluate("performance.now()"))
        await ann.editor.click()
        keys = [await ann.tab.evaluate(KEY) for _ in range(20)]
        for _ in range(ROUNDS):
            async with Tab(made.server.url, "large.md", "Ben") as other:
                batches.append(await edits(ann.tab, other))
        await ann.tab.locator("input[name=view][value=both]").check()
        both = [await ann.tab.evaluate(KEY) for _ in range(20)]
    for name, times in (("open", opened), ("100 edits", batches), ("key", keys), ("key with preview", both)):
        found[name] = (statistics.median(times), max(times))
    return found


def figures_of(found: dict[str, Any]) -> list[Figure]:
    of = f"a page of {found['bytes'] / 1e6:.1f} MB"
    times = {name: value for name, value in found.items() if name != "bytes"}
    return [
        Figure("a browser", of, f"{name}, {what}", value, "ms")
        for name, both in times.items()
        for what, value in zip(("median", "most"), both, strict=True)
    ]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        found = asyncio.run(measure(Path(place)))
    for name, value in found.items():
        print(
            f"{name}: "
            + (f"{value}" if name == "bytes" else f"median {value[0]:.0f} ms, most {value[1]:.0f} ms")
        )
    if "--json" in sys.argv:
        write(Path(sys.argv[sys.argv.index("--json") + 1]), figures_of(found))
