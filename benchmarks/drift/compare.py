"""All engines on the same edits: Kakite, and every peer that is installed (`engines.py`).

    python benchmarks/drift/compare.py [--group NAME]… [--count 150] [--seed N] [--json FILE]
        [--files DIR]… [--history REPO]… [--recorded FILE]

Beside them stands a baseline of ours, which replaces one exact occurrence. The
order of engines does not matter: the cases follow from the seed alone. A file that is not as it should be
to the byte is wrong; where it is so only in its form (blanks at the end of lines, blank lines, look-alike
characters such as quotes), that is told apart.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import unicodedata
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

import figures
from asking import Answer, Ask, here, program
from cases import Case
from groups import GROUPS, Drawn, drawn_cases, names

from engines import BASELINE, PEERS

ENDS = ("right", "refused", "wrong form", "wrong content", "unjudged")
ALIKE = str.maketrans(
    {**dict.fromkeys("‘’‚‛′", "'"), **dict.fromkeys("“”„‟″", '"'), **dict.fromkeys("‐‑‒–—―−", "-")}
)


def judged(case: Case, told: Answer) -> str:
    """Return ``right``, ``refused``, ``wrong form`` or ``wrong content``."""
    end = case.end(told.written)
    if end != "wrong" or told.written is None:
        return end
    same = case.expected is not None and meant(told.written) == meant(case.expected)
    return "wrong form" if same else "wrong content"


def meant(data: bytes) -> list[str]:
    """Return what a text says, whatever its form."""
    text = unicodedata.normalize("NFKC", data.decode("utf-8", "surrogateescape").translate(ALIKE))
    return [line.rstrip() for line in text.split("\n") if line.strip()]


def ends_of(ask: Ask, group: Drawn) -> dict[str, Counter[str]]:
    """Return how the cases of a group ended, kind by kind."""
    return {kind: Counter(judged(case, ask(case)) for case in cases) for kind, cases in group.kinds()}


def shares(results: dict[str, Counter[str]]) -> dict[str, float]:
    """Return the shares of a group's edits, in percent, and the lowest share of a kind that is right."""
    kinds = [counts for counts in results.values() if counts]
    every = sum(kinds, Counter[str]())
    found = {end: 100 * every[end] / max(every.total(), 1) for end in ENDS}
    lowest = min((100 * counts["right"] / counts.total() for counts in kinds), default=0.0)
    return found | {"lowest kind": lowest}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--group", action="append", choices=list(GROUPS), default=[])
    parser.add_argument("--only", default="", help="measure the kinds whose name has this in it")
    told = "edits of most groups; of some three times as many"
    parser.add_argument("--count", "--edits", type=int, default=150, help=told)
    parser.add_argument("--seed", type=int, default=random.randrange(10**9))
    parser.add_argument("--files", type=Path, action="append", default=[], help="more files to draw from")
    parser.add_argument("--history", type=Path, action="append", default=[], help="a git repository")
    parser.add_argument("--recorded", type=Path, help="edits that were recorded")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.set_defaults(peers=True)
    asked = parser.parse_args()
    left_out = [peer for peer in PEERS if not peer.there()]
    for peer in left_out:
        print(f"{peer.name} is left out: `python benchmarks/drift/engines.py {peer.folder.name}`")
    engines = [("Kakite", here())]
    engines += [(peer.name, program(peer.command())) for peer in (BASELINE, *PEERS) if peer.there()]
    found: list[figures.Figure] = []
    for group in drawn_cases(asked):
        counted = 0
        for name, ask in engines:
            began = time.monotonic()
            results = ends_of(ask, group)
            ends = shares(results)
            counted = sum(counts.total() for counts in results.values())
            told = (f"{end} {share:.2f} %" for end, share in ends.items())
            print(f"{group.name}, {counted} edits: {name}", *told, sep="  ", flush=True)
            found += [figures.Figure(group.name, name, end, share, "%") for end, share in ends.items()]
            found.append(figures.Figure(group.name, name, "time", time.monotonic() - began, "s"))
        kinds = float(len(results))
        found += [figures.Figure("groups", group.name, "edits", counted)]
        found += [figures.Figure("groups", group.name, "kinds", kinds)]
    if asked.json:
        versions = {peer.name: peer.version for peer in PEERS if peer.there() and peer.version}
        missing = ", ".join(peer.name for peer in left_out) or "nothing"
        told = {"seed": asked.seed, "left_out": missing, "histories": names(asked.history)}
        figures.write(asked.json, found, versions=versions, **told)


if __name__ == "__main__":
    main()
