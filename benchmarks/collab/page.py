"""What edits of a large shared page cost, beside the same edits of a plain string.

    python benchmarks/collab/page.py [--json FILE] [--size BYTES] [--rounds N]

For a page in English and one in Japanese: 100 edits in one transaction, 100 suggestions accepted at once,
one key that is pressed on another replica with 100 suggestions open, and the whole text replaced as one.
Times are the best of the rounds, in ms, by the clock and of processor; look at their ratio to
`str.replace`, which meets the same machine. Bytes are what every client is sent.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from figures import Figure, write

from kakite.collab.shared_text import SharedText
from kakite.collab.suggestions.store import Suggestions
from kakite.edit import Change, ChangeSet, Edit

EDITS = 100
LINES = {
    "english": "line {} of the page, with a few more words in it\n",
    "japanese": "第{}行の文には、もう少し言葉があります 👍\n",
}


def page_of(line: str, size: int) -> str:
    lines = []
    while size > 0:
        lines.append(line.format(len(lines)))
        size -= len(lines[-1].encode())
    return "".join(lines)


def begun(text: str) -> tuple[SharedText, list[int]]:
    shared = SharedText()
    shared.apply(ChangeSet.of(0, [Change(0, 0, text)]), "file")
    sent = []
    shared.doc.observe(lambda event: sent.append(len(event.update)))
    return shared, sent


def edits_of(text: str) -> list[tuple[str, str]]:
    lines = text.splitlines(keepends=True)
    chosen = lines[:: len(lines) // EDITS][:EDITS]
    return [(line, line.replace("words", "letters").replace("言葉", "文字")) for line in chosen]


class Spent(NamedTuple):
    """Seconds by the clock, and of processor time."""

    time: float
    processor: float


class Watch:
    """What has been spent since it was made."""

    def __init__(self) -> None:
        self._began = time.perf_counter(), time.process_time()

    def spent(self) -> Spent:
        return Spent(time.perf_counter() - self._began[0], time.process_time() - self._began[1])


def plain(text: str, edits: list[tuple[str, str]]) -> Spent:
    watch = Watch()
    for old, new in edits:
        text = text.replace(old, new, 1)
    return watch.spent()


def one_transaction(text: str, edits: list[tuple[str, str]]) -> tuple[Spent, list[int]]:
    shared, sent = begun(text)
    changes = [Change(text.index(old), text.index(old) + len(old), new).narrow(text) for old, new in edits]
    watch = Watch()
    shared.apply(ChangeSet.of(len(text), changes), "run:1", undoable=True)
    return watch.spent(), sent


def suggested(text: str, edits: list[tuple[str, str]]) -> tuple[dict[str, Spent], list[int]]:
    shared, sent = begun(text)
    suggestions = Suggestions(shared)
    times: dict[str, Spent] = {}
    watch = Watch()
    for old, new in edits:
        suggestions.propose(Edit(search=old, replace=new), run="1", by="A")
    times["propose 100"] = watch.spent()
    other = SharedText()
    other.doc.apply_update(shared.doc.get_update())
    other.apply(ChangeSet.of(len(text), [Change(len(text) // 2, len(text) // 2, "x")]), "person")
    update = other.doc.get_update(shared.doc.get_state())
    watch = Watch()
    shared.doc.apply_update(update)
    times["a key, 100 open"] = watch.spent()
    watch = Watch()
    [one.to_json(shared) for one in suggestions.list_pending()]
    times["show 100"] = watch.spent()
    sent.clear()
    watch = Watch()
    assert len(suggestions.accept_all().accepted) >= EDITS - 1
    times["accept 100 at once"] = watch.spent()
    return times, sent


def replaced(text: str, _: list[tuple[str, str]]) -> tuple[Spent, list[int]]:
    shared, sent = begun(text)
    watch = Watch()
    shared.apply(ChangeSet.of(len(text), [Change(0, len(text), text)]), "run:1")
    return watch.spent(), sent


def measured(text: str, rounds: int) -> dict[str, dict[str, float]]:
    edits = edits_of(text)
    times: dict[str, list[Spent]] = {}
    sizes: dict[str, list[int]] = {}
    for _ in range(rounds):
        times.setdefault("str.replace, 100 times", []).append(plain(text, edits))
        for name, measure in (("100 edits, one transaction", one_transaction), ("whole text", replaced)):
            took, sizes[name] = measure(text, edits)
            times.setdefault(name, []).append(took)
        several, sizes["accept 100 at once"] = suggested(text, edits)
        for name, took in several.items():
            times.setdefault(name, []).append(took)
    least = {name: Spent(*map(min, zip(*took, strict=True))) for name, took in times.items()}
    base = least["str.replace, 100 times"]
    return {
        name: {
            "ms": round(spent.time * 1000, 2),
            "ratio": round(spent.time / base.time, 2),
            "processor": round(spent.processor * 1000, 2),
            "transactions": len(sizes.get(name, [])),
            "bytes": sum(sizes.get(name, [])),
        }
        for name, spent in least.items()
    }


def figures_of(results: dict[str, dict[str, dict[str, float]]]) -> Iterator[Figure]:
    for language, rows in results.items():
        for what, row in rows.items():
            plain = what.startswith("str.replace")
            beside, ratio = ("", None) if plain else ("100 × str.replace", row["ratio"])
            yield Figure(language, what, "time", row["ms"], "ms", beside, ratio)
            yield Figure(language, what, "processor", row["processor"], "ms")
            if row["bytes"]:
                yield Figure(language, what, "sent to each", row["bytes"] / 1000, "kB")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--size", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    results = {name: measured(page_of(line, asked.size), asked.rounds) for name, line in LINES.items()}
    if asked.json:
        write(asked.json, list(figures_of(results)), bytes=asked.size, rounds=asked.rounds)
    for name, rows in results.items():
        print(f"\n{name}\n{'':28} {'ms':>9} {'ratio':>7} {'of processor':>12} {'sent in':>8} {'bytes':>10}")
        for what, row in rows.items():
            sent = f"{row['transactions'] or '':>8} {row['bytes'] or '':>10}"
            print(f"{what:28} {row['ms']:9} {row['ratio']:7} {row['processor']:12} {sent}")


if __name__ == "__main__":
    main()
