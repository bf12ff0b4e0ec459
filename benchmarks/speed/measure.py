"""Measure how long single edits take, as ratios to a plain ``str.find`` of the same SEARCH in the same text.

    python benchmarks/speed/measure.py [--growth] [--memory] [--json FILE]

Each row is the best of several runs. ``--growth`` edits files of 1 000 to 1 000 000 lines, ``--memory``
prints the
peak of memory against the size of the text. All texts are made from the standard library of the running
Python.
"""

from __future__ import annotations

import argparse
import re
import sys
import sysconfig
import time
import tracemalloc
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
sys.path.insert(0, str(Path(__file__).parents[1]))

from typing import TYPE_CHECKING, NamedTuple

from figures import Figure, write

from kakite.edit import Edit, EditError, apply

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LINES = 20_000
FUNCTION = (
    "def function_{0}(one, two):",
    "    if one > {0}:",
    "        call_{0}(one, [two, {0}])",
    "",
    "    return one + {0}",
)


def library(count: int) -> list[str]:
    """Return lines of the standard library, over and over with other names if it is too short."""
    lines: list[str] = []
    paths = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    turn = 0
    while len(lines) < count:
        for path in paths:
            text = path.read_bytes().decode("utf-8", "ignore")
            lines += (f"{line}  # {turn}" if turn and line else line for line in text.splitlines())
            if len(lines) >= count:
                break
        turn += 1
    return lines[:count]


def block(lines: list[str], at: int, size: int) -> list[str]:
    """Return lines that start at the first line at or after ``at`` with a long word to mistype."""
    while not re.match(r"[\s\w=.]+\.[a-z]{6,}\(", lines[(at + size // 2) % len(lines)]):
        at = (at + 1) % (len(lines) - size)
    return lines[at : at + size]


def mistyped(lines: list[str]) -> list[str]:
    """Swap two letters of a word in the middle line."""
    middle = len(lines) // 2
    typed = re.sub(r"\.([a-z]{3})([a-z])([a-z])([a-z]{2,}\()", r".\1\3\2\4", lines[middle], count=1)
    return [*lines[:middle], typed, *lines[middle + 1 :]]


def respaced(lines: list[str]) -> list[str]:
    """Write one line near the middle with more blanks around a sign."""
    at = next(at for at in range(len(lines) // 2, len(lines)) if re.match(r"\s*\w+ = \w", lines[at]))
    return [*lines[:at], lines[at].replace(" = ", "  =  ", 1), *lines[at + 1 :]]


def deeper(lines: list[str]) -> list[str]:
    """Indent lines by four blanks."""
    return [f"    {line}" if line else "" for line in lines]


def cases() -> Iterator[tuple[str, str, str, str]]:
    """Yield name, text, SEARCH and REPLACE."""
    lines = library(LINES)
    text = "\n".join(lines)
    late, middle = block(lines, LINES * 19 // 20, 10), block(lines, LINES * 3 // 4, 10)
    absent = [f"never_written_{nth}(value, {nth})" for nth in range(500)]
    equal = ["    value = compute(value)"] * LINES
    near = [*equal[:9], "    value = compute(valve)"]
    anchors = [equal[0], *absent[:8], equal[0]]
    long_line = ",".join(f"name{nth % 977}({nth})" for nth in range(80_000))[:1_000_000]
    part = long_line[600_000:605_000]
    yield "exact", text, "\n".join(late), "\n".join([*late, "added()"])
    yield "one typo in 10 lines", text, "\n".join(mistyped(middle)), "replaced()"
    yield (
        "10 lines indented",
        text,
        "\n".join(deeper(middle)),
        "\n".join([*deeper(middle[:-1]), "    replaced()"]),
    )
    yield "10 lines absent", text, "\n".join(absent[:10]), "replaced()"
    yield "60 lines absent", text, "\n".join(absent[:60]), "replaced()"
    yield "repetitive file, near miss", "\n".join(equal), "\n".join(near), "replaced()"
    yield "repetitive file, anchors only", "\n".join(equal), "\n".join(anchors), "replaced()"
    yield "one line of 1 MB, near miss", long_line, part.replace("name7", "nome7", 1), "replaced()"
    yield "500 lines absent", text, "\n".join(absent), "replaced()"
    half = block(lines, LINES // 4, LINES // 2)
    yield "half the file, one typo", text, "\n".join(mistyped(half)), "replaced()"
    changed = [*half[:5000], "added()", *half[5000:]]
    yield "half the file, one line added", text, "\n".join(half), "\n".join(changed)
    yield "half the file, indented", text, "\n".join(deeper(half)), "\n".join(deeper(changed))
    spaced = respaced(half)
    yield "half the file, one line respaced", text, "\n".join(spaced), "\n".join([*spaced, "added()"])
    code = [line.format(nth) for nth in range(LINES // 5) for line in FUNCTION]
    part = code[LINES // 4 : LINES * 3 // 4]
    yield (
        "half a file of code, indented",
        "\n".join(code),
        "\n".join(deeper(part)),
        "\n".join(deeper([*part, "added()"])),
    )
    wrapped = ["if wrapped:", *deeper(half)]
    yield "wrapping half the file, dedented", "\n".join(deeper(lines)), "\n".join(half), "\n".join(wrapped)
    yield "CRLF file", text.replace("\n", "\r\n"), "\n".join(late), "replaced()"


def adversarial() -> Iterator[tuple[str, str, list[Edit]]]:
    """Yield inputs made to be slow."""
    equal = "    value = compute(value)\n" * 100_000
    yield (
        "100 000 equal lines, another depth",
        equal,
        [Edit(search="value = compute(value)\n" * 2, replace="x")],
    )
    yield (
        "100 000 equal lines, 5 000 of them",
        equal,
        [Edit(search="  value = compute(value)\n" * 5000, replace="x")],
    )
    line = "abcdefghij " * 1_000_000
    yield "one line of 10 MB, ambiguous", line, [Edit(search="abcdefghij  abcdefghij", replace="x")]
    yield "one line of 10 MB, absent", line, [Edit(search="abcdefghik " * 500, replace="x")]
    lines = [f"{line}  # {number}" if line else "" for number, line in enumerate(library(LINES))]
    blocks = [lines[at : at + 3] for at in range(0, LINES, 12) if all(lines[at : at + 3])][:1000]
    many = [Edit(search="\n".join(block), replace="\n".join([*block[:2], "new()"])) for block in blocks]
    yield "1 000 edits", "\n".join(lines), many
    drifted = [
        Edit(search="\n".join(deeper(block)), replace="\n".join(deeper([*block, "new()"])))
        for block in blocks
    ]
    yield "1 000 drifted edits", "\n".join(lines), drifted
    names = [f"    name_{n} = {n}" for n in range(LINES)]
    moved = [
        Edit(search=f"      {name.strip()}\n", replace=f"      {name.strip()}\n      new_{n}()\n")
        for n, name in enumerate(names[::2])
    ]
    yield "10 000 moved edits", "\n".join(names), moved
    yield (
        "1 000 absent edits",
        "\n".join(lines),
        [Edit(search=f"absent_{n} = 1\nx{n}\n", replace="y") for n in range(1000)],
    )
    yield "quotes and blanks", "\"' " * 300_000, [Edit(search="'\" " * 3000, replace="x")]
    yield (
        "elisions",
        "a\nb\n" * 5000,
        [Edit(search="a\n...\nb\n...\na\n...\nb\n", replace="a\n...\nb\n...\na\n...\nc\n")],
    )
    yield (
        "elisions without an end",
        "zzz\n" + "a\n" * 5000,
        [Edit(search="a\n...\na\n...\na\n...\nzzz\n", replace="b\n")],
    )
    yield "combining marks", "e\u0301" * 300_000, [Edit(search="\u00e9" * 500 + "x", replace="x")]
    tiny = "a\n" * 100_000
    yield "tiny equal lines, half of them indented", tiny, [Edit(search="  a\n" * 50_000, replace="x")]
    yield "10 000 tiny equal lines and another", tiny, [Edit(search="a\n" * 10_000 + "b\n", replace="x")]
    odd = "a\n" * 10_000 + "b\n" + "a\n" * 10_000
    yield "tiny lines, searched backwards", tiny, [Edit(search=odd, replace="x", line=90_000)]
    yield "elided tiny lines", tiny, [Edit(search="a\n...\n" + "a\n" * 5000 + "...\nb\n", replace="x")]
    yield "only braces", "{\n}\n" * 50_000, [Edit(search="  {\n  }\n" * 100, replace="x")]
    blanks = ("x" + " " * 100_000 + "y\n") * 50
    yield "long lines of blanks", blanks, [Edit(search="x" + " " * 50_000 + "z", replace="x")]
    yield "one word of 1 MB", "a" * 1_000_000, [Edit(search="a" * 500_000, replace="x", line=1)]
    yield (
        "one line of 10 MB, 50 000 hits",
        line[:550_000] + line[:9_000_000].replace("a", "b"),
        [Edit(search="abcdefghij ", replace="x ", all=True)],
    )
    near = [f"    value_{n % 50} = compute(value_{n % 50}, {n % 7})" for n in range(50_000)]
    wrong = "\n".join(near[:5000]).replace("compute", "copmute")
    yield "near misses everywhere", "\n".join(near), [Edit(search=wrong, replace="x")]


class Timed(NamedTuple):
    """The best time and least processor time of several runs, in milliseconds, and how the last ended."""

    time: float
    processor: float
    ended: str


def timed(run: Callable[[], object], runs: int = 15) -> Timed:
    best, least, ended = float("inf"), float("inf"), ""
    for _ in range(runs):
        start, used = time.perf_counter(), time.process_time()
        try:
            ended = getattr(run(), "matches", (None,))[0]
            ended = ended.level if ended is not None and hasattr(ended, "level") else "done"
        except EditError as error:
            ended = error.failures[0].code
        best, least = min(best, time.perf_counter() - start), min(least, time.process_time() - used)
    return Timed(best * 1000, least * 1000, str(ended))


def print_columns() -> Iterator[Figure]:
    print("| case | ms | times `str.find` | ended as |\n| --- | --: | --: | --- |")
    for name, text, search, replace in cases():
        found = timed(lambda text=text, search=search: text.find(search)).time
        took, used, ended = timed(lambda t=text, s=search, r=replace: apply(t, [Edit(search=s, replace=r)]))
        print(f"| {name} | {took:.1f} | {took / found:.0f} | {ended} |")
        yield Figure("one edit", name, "time", took, "ms", "str.find", took / found)
        yield Figure("one edit", name, "processor", used, "ms")


def print_adversarial() -> Iterator[Figure]:
    print("\n| input made to be slow | ms | ended as |\n| --- | --: | --- |")
    for name, text, edits in adversarial():
        took, _, ended = timed(lambda text=text, edits=edits: apply(text, edits), runs=1)
        print(f"| {name} | {took:.0f} | {ended} |")
        yield Figure("made to be slow", name, "time", took, "ms")


def print_growth() -> Iterator[Figure]:
    print("\n| lines | MB | exact ms | indented ms | absent ms | absent ms per MB |")
    print("| --: | --: | --: | --: | --: | --: |")
    everything = library(1_000_000)
    for count in (1_000, 10_000, 100_000, 1_000_000):
        lines = everything[:count]
        text = "\n".join(lines)
        there = block(lines, count * 3 // 4, 10)
        searches = (
            "\n".join(there),
            "\n".join(f"  {line}" for line in there),
            "never_written(1)\nnor_this(2)",
        )
        times = [
            timed(lambda t=text, s=s: apply(t, [Edit(search=s, replace="x")]), runs=3).time for s in searches
        ]
        size = len(text) / 1e6
        for name, took in zip(("exact", "indented", "absent"), times, strict=True):
            yield Figure("growth", f"{count}", name, took, "ms")
        yield Figure("growth", f"{count}", "size", size, "MB")
        print(
            f"| {count} | {size:.1f} | "
            + " | ".join(f"{took:.1f}" for took in times)
            + f" | {times[2] / size:.1f} |"
        )


def print_memory() -> Iterator[Figure]:
    print("\n| case | text MB | peak times the text |\n| --- | --: | --: |")
    for name, text, search, replace in cases():
        tracemalloc.start()
        timed(lambda t=text, s=search, r=replace: apply(t, [Edit(search=s, replace=r)]), runs=1)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        print(f"| {name} | {len(text) / 1e6:.1f} | {peak / len(text):.1f} |")
        yield Figure("memory", name, "peak", peak / 1e6, "MB", "the text", peak / len(text))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    asked = parser.parse_args()
    found = [*print_columns(), *print_adversarial()]
    if asked.growth:
        found += print_growth()
    if asked.memory:
        found += print_memory()
    if asked.json:
        write(asked.json, found)


if __name__ == "__main__":
    main()
