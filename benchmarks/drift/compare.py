"""All engines on the same drifted edits: Kakite, and every peer that is installed (`engines.py`).

    python benchmarks/drift/compare.py [--edits 2000] [--seed N] [--json FILE]

Beside them stands a baseline of ours, which replaces one exact occurrence. Each kind counts the same. The
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
import kinds
import measure

from engines import BASELINE, PEERS

TABLE = "engines"
ENDS = ("right", "refused", "wrong form", "wrong content")
ALIKE = str.maketrans(
    {**dict.fromkeys("‘’‚‛′", "'"), **dict.fromkeys("“”„‟″", '"'), **dict.fromkeys("‐‑‒–—―−", "-")}
)


def judged(ask: measure.Answer, case: kinds.Case) -> str:
    """Return ``right``, ``refused``, ``wrong form`` or ``wrong content``."""
    written = measure.result(ask, case)
    if written is None:
        return "right" if case.expected is None else "refused"
    if written == case.expected:
        return "right"
    same = case.expected is not None and meant(written) == meant(case.expected)
    return "wrong form" if same else "wrong content"


def meant(data: bytes) -> list[str]:
    """Return what a text says, whatever its form."""
    text = unicodedata.normalize("NFKC", data.decode("utf-8", "surrogateescape").translate(ALIKE))
    return [line.rstrip() for line in text.split("\n") if line.strip()]


def shares(results: dict[str, Counter[str]]) -> dict[str, float]:
    """Return the mean shares over the kinds, in percent, and the lowest share that is right."""
    kinds = [counts for counts in results.values() if counts]
    every = {end: [100 * counts[end] / counts.total() for counts in kinds] for end in ENDS}
    means = {end: sum(each) / len(each) for end, each in every.items()}
    return means | {"lowest kind": min(every["right"])}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--edits", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=random.randrange(10**9))
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    asked = parser.parse_args()
    left_out = [peer for peer in PEERS if not peer.there()]
    for peer in left_out:
        print(f"{peer.name} is left out: `python benchmarks/drift/engines.py {peer.folder.name}`")
    engines = [("Kakite", measure.here())]
    engines += [(peer.name, measure.program(peer.command())) for peer in (BASELINE, *PEERS) if peer.there()]
    found: list[figures.Figure] = []
    edits = 0
    for name, ask in engines:
        began = time.monotonic()
        results = measure.measure(ask, edits=asked.edits, seed=asked.seed, judge=judged)
        edits = sum(counts.total() for counts in results.values())
        ends = shares(results)
        print(name, *(f"{end} {share:.2f} %" for end, share in ends.items()), sep="  ", flush=True)
        found += [figures.Figure(TABLE, name, end, share, "%") for end, share in ends.items()]
        found.append(figures.Figure(TABLE, name, "time", time.monotonic() - began, "s"))
    if asked.json:
        versions = {peer.name: peer.version for peer in PEERS if peer.there() and peer.version}
        missing = ", ".join(peer.name for peer in left_out) or "nothing"
        figures.write(
            asked.json,
            found,
            versions=versions,
            seed=asked.seed,
            edits=edits,
            kinds=len(kinds.KINDS),
            left_out=missing,
        )


if __name__ == "__main__":
    main()
