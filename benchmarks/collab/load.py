"""Many people on many pages at once: how long until an edit is seen by the others, and what the server keeps.

    .venv/bin/python benchmarks/collab/load.py [SECONDS] [EDITORS] [PAGES] [--json FILE] [--redis URL]

Starts `kakite collab` on the loopback. Editors are asked for four keys a second on real websockets, each
with a replica of its own: one whose key was late presses the next when it would have. How many keys were
reached is told beside how many were asked for. One key in ten deletes. The time is from the keystroke until
another's replica has it. All run on the machine that measures.
"""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2]))

from figures import Figure, write
from tests.collab.server import Server, Tab, serving

PACE = 0.25  # s between two keystrokes of one person, on average
LETTERS = "abcdefghijklmnopqrstuvwxyz     \n日本語の文章👍"


class Editor:
    """Somebody who types, and sees what others type."""

    def __init__(self, url: str, page: str, number: int, sent: dict[str, float], seen: list[float]) -> None:
        self.tab = Tab(url, page, f"editor {number}")
        self._number = number
        self._sent, self._seen = sent, seen
        self._count = 0
        self.pressed = 0
        self.tab.text.observe(self._look)

    async def type_until(self, end: float) -> None:
        """Type until that time."""
        dice = random.Random(self._number)
        at = len(str(self.tab)) // 2
        due = time.monotonic()
        while (due := due + dice.expovariate(1 / PACE)) < end and time.monotonic() < end:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            self.pressed += 1
            if dice.random() < 0.02:
                at = dice.randint(0, len(str(self.tab)))
                await self.tab.tell_cursor({"anchor": at})
            if dice.random() < 0.1 and at > 2:
                self.tab.delete(at - 1, at)
                at -= 1
                continue
            self._count += 1
            # A private-use pair of characters, so that each keystroke is known again.
            mark = f"{chr(0xF0000 + self._number)}{chr(0x100000 + self._count)}"
            self._sent[mark] = time.monotonic()
            at = min(at, len(str(self.tab)))
            self.tab.insert(at, mark + dice.choice(LETTERS))
            at += 3

    def _look(self, event: object) -> None:
        now = time.monotonic()
        for step in event.delta:  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType, reportUnknownMemberType] - pycrdt's
            text = step.get("insert", "")
            if isinstance(text, str) and len(text) == 3 and ord(text[0]) != 0xF0000 + self._number:
                sent = self._sent.get(text[:2])
                if sent is not None:
                    self._seen.append(now - sent)


def memory(server: Server) -> float:
    """Return the megabytes that the server has in memory."""
    status = Path(f"/proc/{server.program.pid}/status").read_text(encoding="utf-8")
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def size(folder: Path) -> int:
    """Return the bytes of all files below a folder, once databases have taken their logs in."""
    for file in folder.rglob("*.sqlite"):
        with closing(sqlite3.connect(file)) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def processor(pid: int | str) -> float:
    """Return the seconds of processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def main(seconds: float, editors: int, pages: int, options: list[str]) -> list[Figure]:
    sent: dict[str, float] = {}
    seen: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "pages"
        root.mkdir()
        for number in range(pages):
            (root / f"{number}.md").write_text("# A page\n\n" + "Some text. 文章。\n" * 200, encoding="utf-8")
        environ = {"XDG_STATE_HOME": f"{folder}/state"}
        async with serving(root, *options, environ=environ) as server:
            alone = memory(server)
            crowd = [Editor(server.url, f"{at % pages}.md", at, sent, seen) for at in range(editors)]
            for each in crowd:
                await each.tab.join()
            print(f"{editors} editors on {pages} pages; the server has {memory(server):.0f} MB")
            end = time.monotonic() + seconds
            used = processor(server.program.pid), processor("self")
            typing = [asyncio.create_task(each.type_until(end)) for each in crowd]
            while time.monotonic() < end:
                before = len(seen)
                await asyncio.sleep(min(15, max(0.1, end - time.monotonic())))
                part = sorted(seen[before:]) or [0.0]
                print(f"  {memory(server):.0f} MB, {len(part)} sights, p99 {quantile(part, 0.99):.0f} ms")
            await asyncio.gather(*typing)
            now = processor(server.program.pid), processor("self")
            shares = [(late - early) / seconds for late, early in zip(now, used, strict=True)]
            print(f"  processors used: {shares[0]:.2f} by the server, {shares[1]:.2f} by the editors")
            full = memory(server)
            for number in range(pages):
                mine = [each.tab for each in crowd if each.tab.page == f"{number}.md"]
                for tab in mine:
                    await tab.until(lambda tab=tab, mine=mine: str(tab) == str(mine[0]))
            for each in crowd:
                await each.tab.leave()
        stored = size(Path(folder, "state"))
    pressed = sum(each.pressed for each in crowd)
    asked, reached = editors / PACE, pressed / seconds
    print(f"  keys a second: {asked:.0f} asked for, {reached:.0f} reached")
    seen.sort()
    print(f"{len(sent)} keystrokes, seen {len(seen)} times by others")
    print(
        f"p50 {statistics.median(seen) * 1000:.1f} ms, p95 {quantile(seen, 0.95):.1f} ms, "
        f"p99 {quantile(seen, 0.99):.1f} ms, most {seen[-1] * 1000:.0f} ms"
    )

    of = f"{editors} people on {pages} pages"
    values = [("p50", statistics.median(seen) * 1000, "ms"), ("p95", quantile(seen, 0.95), "ms")]
    values += [("p99", quantile(seen, 0.99), "ms"), ("processors", shares[0], "cores")]
    values += [
        ("processor a person", shares[0] / editors * 1000, "ms/s"),
        ("memory, nobody there", alone, "MB"),
    ]
    values += [
        ("people", editors, ""),
        ("pages", pages, ""),
        ("processor a key", shares[0] / reached * 1000, "ms"),
    ]
    values += [("memory", full, "MB"), ("keys asked for", asked, "1/s"), ("keys reached", reached, "1/s")]
    values += [("stored", stored / 1000, "kB"), ("stored a key", stored / pressed, "B")]
    return [Figure("people", of, *value) for value in values]


def quantile(ordered: list[float], share: float) -> float:
    """Return a quantile of times, in milliseconds."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000


if __name__ == "__main__":
    words = sys.argv[1:]
    kept = Path(words.pop(words.index("--json") + 1)) if "--json" in words else None
    words = [word for word in words if word != "--json"]
    at = words.index("--redis") if "--redis" in words else len(words)
    numbers = [float(word) for word in words[:at]]
    given = (numbers + [120.0, 100.0, 20.0][len(numbers) :])[:3]
    figures = asyncio.run(main(given[0], int(given[1]), int(given[2]), words[at:]))
    if kept:
        write(kept, figures, seconds_of_typing=given[0], redis="--redis" in words)
