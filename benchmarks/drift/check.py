"""Check an engine against what has to hold of it: edits of all groups, and inputs that are made to be slow.

    python benchmarks/drift/check.py [--count 2600] [--seed N] [--recorded FILE] [--history REPO]…
        [--files DIR]… [--keep-wrong DIR]

With the count that it has by itself these are more than 50 000 edits. Each line says what was asked and what
was found; the exit code is 1 if something does not hold.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from asking import here
from cases import Case
from groups import drawn_cases
from measure import Keeper, Tally, measure

EXACT = 99.5
"""Percent of exact fragments that have to end right."""
AGAIN = 95.0
"""Percent of refused edits whose place exists that have to end right after one more try."""
LONGEST, BATCH = 2.0, 10.0
"""Seconds that one edit and a batch of 10 000 may take."""


def holds(found: dict[str, dict[str, Tally]]) -> Iterator[tuple[bool, str]]:
    """Yield whether each demand on edits holds, and what was found."""
    again = Tally()
    for group, kinds in found.items():
        every = Tally()
        for kind, one in kinds.items():
            every.add(one)
            again.again.update(one.again)
            if one.ends["wrong"]:
                yield False, f"{group}, {kind}: {one.ends['wrong']} of {one.total} wrong"
        told = f"{group}: {every.share('right'):.2f} % of {every.total} right, {every.ends['wrong']} wrong"
        yield every.ends["wrong"] == 0 and (group != "exact" or every.share("right") >= EXACT), told
        yield every.slowest <= LONGEST, f"{group}: the slowest took {1000 * every.slowest:.0f} ms"
    share = 100 * again.again["right"] / max(again.again.total(), 1)
    told = f"second tries: {share:.1f} % of {again.again.total()} right, {again.again['wrong']} wrong"
    yield share >= AGAIN and not again.again["wrong"], told


def slow_inputs() -> Iterator[tuple[str, Case]]:
    """Yield edits that are made to take long."""
    rng = random.Random(1)
    lines = [f"    value_{rng.randrange(10**6)} = compute({n}, {rng.randrange(9)})\n" for n in range(20_000)]
    text = "".join(lines)

    def case(text: str, search: str, new: str, **more: bool) -> Case:
        return Case(text.encode("utf-8", "surrogatepass"), search, new, None, **more)

    block = "".join(lines[9_000:9_010])
    yield "exact, 20 000 lines", case(text, block, block.replace("compute", "renewed"))
    yield "dedented, 20 000 lines", case(text, block.replace("    ", ""), "renewed()\n")
    yield "absent, 20 000 lines", case(text, block.replace("compute", "absent"), "renewed()\n")
    yield "10^6 equal lines, all", case("x = 1\n" * 10**6, "x = 1\n", "x = 2\n", every=True)
    yield (
        "10^6 equal lines, all, drifted",
        case("    x = 1\n" * 10**6, "x  = 1\ny = 2\n", "x = 2\n", every=True),
    )
    yield "10^6 equal lines", case("x = 1\n" * 10**6, "  x = 1\n  x = 1\n", "x = 2\n")
    yield "a comment of 1 MB", case(text, block, "# " + "rest " * 200_000 + "\n")
    yield "half the file, dedented", case(text, "".join(lines[:10_000]).replace("    ", ""), "renewed()\n")
    yield "an elision", case(text, lines[3] + "...\n" + lines[19_990], lines[3] + "...\n")
    yield "a thousand elisions", case(text, "...\n".join(lines[:1000]), "...\n".join(lines[:999]))
    yield "one line of 10 MB", case("ab " * 3_500_000, "ab  ab cd", "x")
    yield "50 000 short lines", case("}\n" * 50_000, "{\n" * 20_000, "}\n")


def batch() -> float:
    """Return the seconds that 10 000 drifted edits of one text take."""
    from kakite.edit import Edit, EditError, apply

    lines = [f"    def name_{n}(self, first, second):\n        return first + {n}\n" for n in range(10_000)]
    edits = [
        Edit(search=line.replace("    ", "  ", 1).lstrip(), replace=f"def other_{n}(): pass\n")
        for n, line in enumerate(lines)
    ]
    began = time.monotonic()
    with suppress(EditError):
        apply("".join(lines), edits)
    return time.monotonic() - began


def times(report: Callable[[bool, str], None]) -> None:
    """Report how long the slow inputs take."""
    ask = here()
    for name, case in slow_inputs():
        began = time.monotonic()
        told = ask(case)
        took = time.monotonic() - began
        most = 0.02 if "20 000 lines" in name else LONGEST
        fine = took <= most and not told.code.startswith("crash")
        report(fine, f"{name}: {1000 * took:.1f} ms, {told.code or 'landed'}")
    took = batch()
    report(took <= BATCH, f"10 000 drifted edits: {took:.1f} s")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=2600)
    parser.add_argument("--seed", type=int, default=random.randrange(10**9))
    parser.add_argument("--group", action="append", default=[])
    parser.add_argument("--only", default="")
    parser.add_argument("--recorded", type=Path)
    parser.add_argument("--history", type=Path, action="append", default=[])
    parser.add_argument("--files", type=Path, action="append", default=[])
    parser.add_argument("--keep-wrong", type=Path)
    parser.set_defaults(peers=False)
    asked = parser.parse_args()
    failed = 0

    def report(fine: bool, told: str) -> None:
        nonlocal failed
        failed += not fine
        print("holds" if fine else "DOES NOT HOLD", told, sep="  ", flush=True)

    print(f"Seed {asked.seed}")
    keeper = Keeper(asked.keep_wrong, ends=frozenset({"wrong", "again-wrong"}))
    found = measure(here(), drawn_cases(asked), keeper)
    edits = sum(one.total for kinds in found.values() for one in kinds.values())
    for fine, told in holds(found):
        report(fine, told)
    report(edits >= 50_000, f"{edits} edits")
    times(report)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
