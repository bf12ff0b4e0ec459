"""Measure an edit engine on edits whose right result is known: how many end right, how many are refused, how
many write a wrong file, and how many that were refused end right after one more try.

    python benchmarks/drift/measure.py [--group NAME]… [--only WORD] [--count 4000] [--seed N] [--json FILE]
        [--command "kakite edit --jsonl"] [--keep-wrong DIR]
        [--files DIR]… [--history REPO]… [--recorded FILE]

Without ``--command`` the engine of this repository runs in the same process. A command is any program that
speaks the JSON lines of ``kakite edit --jsonl``. The report is a Markdown table for each group on standard
output; the count is for each group (three times as many for the largest), in equal parts for its kinds. All
engines beside each other: ``compare.py``. The exit code is 1 if a file is wrong and ``--strict`` is given.
"""

from __future__ import annotations

import argparse
import json
import random
import shlex
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

import reader
from asking import Answer, Ask, here, program
from cases import Case
from figures import Figure, write
from groups import GROUPS, Drawn, drawn_cases, names

ENDS = ("right", "refused", "wrong")


@dataclass
class Tally:
    """What became of the cases of one kind."""

    ends: Counter[str] = field(default_factory=Counter)
    again: Counter[str] = field(default_factory=Counter)
    """Of second tries where the place exists: right, refused, wrong."""
    astray: Counter[str] = field(default_factory=Counter)
    """The same of those whose place is not in the file."""
    codes: Counter[str] = field(default_factory=Counter)
    types: dict[str, Counter[str]] = field(default_factory=dict)
    seconds: float = 0
    slowest: float = 0

    @property
    def total(self) -> int:
        return self.ends.total()

    def share(self, end: str) -> float:
        return 100 * self.ends[end] / max(self.total, 1)

    def add(self, other: Tally) -> None:
        self.ends += other.ends
        self.again += other.again
        self.astray += other.astray
        self.codes += other.codes
        self.seconds += other.seconds
        self.slowest = max(self.slowest, other.slowest)
        for name, ends in other.types.items():
            self.types.setdefault(name, Counter()).update(ends)


def outcome(case: Case, told: Answer) -> str:
    """Return ``right``, ``refused`` or ``wrong``; an engine that breaks down is wrong."""
    if told.code.startswith("crash"):
        return "wrong"
    return case.end(told.written)


def second_outcome(ask: Ask, case: Case, told: Answer) -> tuple[str, bytes | None]:
    """Return what one more try comes to and writes, empty where none is asked for."""
    if told.written is not None or case.aim is None or case.text in case.also:
        return "", None  # it landed, or there is nothing to land
    written = reader.second(ask, case, told)
    if written is None:
        return "refused", None
    return "right" if written == case.aim or written in case.also else "wrong", written


class Keeper:
    """Writes cases that ended wrong (or otherwise, as asked) into a folder, to be looked at."""

    def __init__(self, folder: Path | None, *, ends: frozenset[str], most: int = 40) -> None:
        self.folder = folder
        self.ends = ends
        self.most = most
        self._count: Counter[tuple[str, str]] = Counter()

    def keep(self, kind: str, end: str, case: Case, told: Answer, again: bytes | None = None) -> None:
        if self.folder is None or end not in self.ends or self._count[kind, end] >= self.most:
            return
        self._count[kind, end] += 1
        self.folder.mkdir(parents=True, exist_ok=True)
        name = f"{end}-{kind}-{self._count[kind, end]:03}.json".replace(" ", "_").replace("/", "_")
        data = {
            "kind": kind,
            "about": case.about,
            "search": case.search,
            "replace": case.replace,
            "line": case.line,
            "all": case.every,
            "code": told.code,
            "expected": _text(case.expected),
            "also": [_text(each) for each in case.also],
            "wanted": _text(case.wanted),
            "written": _text(told.written),
            "suggested": _text(told.suggested),
            "again": _text(again),
            "text": _text(case.text),
        }
        (self.folder / name).write_text(json.dumps(data, ensure_ascii=False, indent=1), encoding="utf-8")


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "backslashreplace")


def tally(ask: Ask, kind: str, cases: Iterable[Case], keeper: Keeper, *, again: bool = True) -> Tally:
    """Put cases of one kind to an engine."""
    found = Tally()
    for case in cases:
        began = time.perf_counter()
        told = ask(case)
        took = time.perf_counter() - began
        found.seconds += took
        found.slowest = max(found.slowest, took)
        end = outcome(case, told)
        found.ends[end] += 1
        found.types.setdefault(case.about, Counter())[end] += 1
        if told.written is None:
            found.codes[told.code] += 1
        keeper.keep(kind, end, case, told)
        if again:
            then, written = second_outcome(ask, case, told)
            if then:
                (found.again if case.stands else found.astray)[then] += 1
                keeper.keep(kind, f"again-{then}", case, told, written)
    return found


def measure(
    ask: Ask, groups: Iterable[Drawn], keeper: Keeper, *, again: bool = True
) -> dict[str, dict[str, Tally]]:
    """Run the cases of all groups, kind by kind."""
    found: dict[str, dict[str, Tally]] = {}
    for group in groups:
        for kind, cases in group.kinds():
            found.setdefault(group.name, {})[kind] = tally(ask, kind, cases, keeper, again=again)
    return found


def report(name: str, kinds: dict[str, Tally], *, types: bool) -> str:
    """Return the results of a group as a Markdown table, its sum last."""
    rows = [
        f"### {name}\n",
        "| kind | edits | right % | refused % | wrong | second try right | of | wrong "
        "| no place: right | of | wrong | refused with |",
        "| --- | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --- |",
    ]
    every = Tally()
    for kind, found in kinds.items():
        every.add(found)
        rows.append(_row(kind.replace("_", " "), found))
    rows.append(_row(f"**{len(kinds)} kinds**", every))
    if types and len(every.types) > 1:
        rows += ["", "| type | edits | right % | refused % | wrong |", "| --- | --: | --: | --: | --: |"]
        for kind, ends in sorted(every.types.items()):
            one = Tally(ends=ends)
            shares = f"{one.share('right'):.2f} | {one.share('refused'):.2f} | {ends['wrong']}"
            rows.append(f"| {kind or 'other'} | {one.total} | {shares} |")
    told = f"\n{every.seconds:.1f} s, {1000 * every.seconds / max(every.total, 1):.2f} ms an edit"
    rows.append(f"{told}, the slowest {1000 * every.slowest:.0f} ms\n")
    return "\n".join(rows)


def _row(name: str, found: Tally) -> str:
    codes = ", ".join(f"{code} {count}" for code, count in found.codes.most_common(3))
    return (
        f"| {name} | {found.total} | {found.share('right'):.2f} | {found.share('refused'):.2f} "
        f"| {found.ends['wrong']} | {found.again['right']} | {found.again.total()} | {found.again['wrong']} "
        f"| {found.astray['right']} | {found.astray.total()} | {found.astray['wrong']} | {codes} |"
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--group", action="append", choices=list(GROUPS), default=[])
    parser.add_argument("--only", default="", help="measure the kinds whose name has this in it")
    parser.add_argument(
        "--count", "--edits", type=int, default=4000, help="edits of most groups; of some three times as many"
    )
    parser.add_argument("--seed", type=int, default=random.randrange(10**9))
    parser.add_argument("--command", default="")
    parser.add_argument("--keep-wrong", type=Path, help="keep wrong cases in this folder")
    parser.add_argument("--keep", action="append", default=["wrong"], help="keep those that end so, too")
    parser.add_argument("--files", type=Path, action="append", default=[], help="more files to draw from")
    parser.add_argument("--history", type=Path, action="append", default=[], help="a git repository")
    parser.add_argument("--recorded", type=Path, help="edits that were recorded")
    parser.add_argument("--types", action="store_true", help="tell each type of file, too")
    parser.add_argument("--strict", action="store_true", help="end with 1 if a file is wrong")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.set_defaults(peers=False)
    asked = parser.parse_args()
    ask = program(shlex.split(asked.command)) if asked.command else here()
    groups = drawn_cases(asked)
    print(f"Seed {asked.seed}\n")
    keeper = Keeper(asked.keep_wrong, ends=frozenset(asked.keep))
    results: dict[str, dict[str, Tally]] = {}
    for group in groups:
        results |= measure(ask, [group], keeper)
        print(report(group.name, results[group.name], types=asked.types), flush=True)
    if asked.json:
        write(asked.json, list(shares(results)), seed=asked.seed, histories=names(asked.history))
    wrong = sum(found.ends["wrong"] for kinds in results.values() for found in kinds.values())
    return 1 if wrong and asked.strict else 0


def shares(results: dict[str, dict[str, Tally]]) -> Iterator[Figure]:
    """Yield what a run came to, group by group and kind by kind."""
    for group, kinds in results.items():
        every = Tally()
        for kind, found in kinds.items():
            every.add(found)
            yield from _figures(f"{group} kinds", kind.replace("_", " "), found)
        yield from _figures("groups", group, every)


def _figures(table: str, of: str, found: Tally) -> Iterator[Figure]:
    yield Figure(table, of, "edits", found.total)
    for end in ("right", "refused", "unjudged"):
        yield Figure(table, of, end, found.share(end), "%")
    yield Figure(table, of, "wrong files", found.ends["wrong"])
    yield Figure(table, of, "second tries", found.again.total())
    for end in ENDS:
        yield Figure(table, of, f"second try {end}", found.again[end])
    yield Figure(table, of, "second tries without a place", found.astray.total())
    for end in ENDS:
        yield Figure(table, of, f"second try {end} without a place", found.astray[end])


if __name__ == "__main__":
    sys.exit(main())
