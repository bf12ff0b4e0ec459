"""Measure an edit engine on drifted edits: how many end right, how many are refused, how many write a wrong
file.

    python benchmarks/drift/measure.py [--edits 20000] [--seed N] [--json FILE]
                                        [--command "kakite edit --jsonl"]

Without ``--command`` the engine of this repository runs in the same process. A command is any program that
speaks the JSON lines of ``kakite edit --jsonl``. The report is a Markdown table on standard output. All
engines beside each other: ``compare.py``.
"""

from __future__ import annotations

import argparse
import base64
import json
import random
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

import corpus
import kinds
import refusals  # noqa: F401  # registers its kinds
import reshaping  # noqa: F401  # registers its kinds
from figures import Figure, write

Answer = Callable[[str], str]
Judge = Callable[[Answer, kinds.Case], str]


def here() -> Answer:
    """Return the engine of this repository."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
    from kakite.edit.jsonl import answer_line

    return answer_line


def program(command: list[str]) -> Answer:
    """Return a program that answers one line with one line."""
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8", bufsize=1
    )

    def ask(line: str) -> str:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(line + "\n")
        process.stdin.flush()
        return process.stdout.readline()

    return ask


def outcome(ask: Answer, case: kinds.Case) -> str:
    """Return ``right``, ``refused`` or ``wrong``."""
    written = result(ask, case)
    if written is None:
        return "right" if case.expected is None else "refused"
    return "right" if written == case.expected else "wrong"


def result(ask: Answer, case: kinds.Case) -> bytes | None:
    """Return the file that an engine writes, or None if it refuses."""
    edit: dict[str, object] = {"search": case.search, "replace": case.replace}
    if case.line is not None:
        edit["line"] = case.line
    request = {"id": 1, "text_b64": base64.b64encode(case.text).decode(), "edits": [edit]}
    answer = json.loads(ask(json.dumps(request)))
    return base64.b64decode(answer["text_b64"]) if answer["ok"] else None


def drawn(rng: random.Random, make: kinds.Kind, sources: list[corpus.Source]) -> kinds.Case | None:
    """Return a case of a kind; a drift that does not fit a sample is tried on another one."""
    for _ in range(3000):
        case = make(rng, sources)
        if case is not None:
            return case
    return None


def measure(
    ask: Answer, *, edits: int, seed: int, only: str = "", save: Path | None = None, judge: Judge = outcome
) -> dict[str, Counter[str]]:
    """Run as many edits of every kind as make up ``edits`` together."""
    sources = corpus.load()
    chosen = {name: make for name, make in kinds.KINDS.items() if only in name}
    each = max(edits // len(chosen), 1)
    results: dict[str, Counter[str]] = {}
    for name, make in chosen.items():
        rng = random.Random(f"{seed} {name}")
        counts = results[name] = Counter()
        for _ in range(each):
            case = drawn(rng, make, sources)
            if case is None:
                break
            ended = judge(ask, case)
            counts[ended] += 1
            expects_refusal = case.expected is None
            if save is not None and ended != "right" and (ended == "wrong" or not expects_refusal):
                _save(save, name, ended, case)
    return results


def _save(folder: Path, name: str, result: str, case: kinds.Case) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    number = len(list(folder.iterdir()))
    expected = None if case.expected is None else case.expected.decode("latin-1")
    data = {
        "text": case.text.decode("latin-1"),
        "search": case.search,
        "replace": case.replace,
        "expected": expected,
        "line": case.line,
    }
    (folder / f"{result}-{name}-{number:04}.json").write_text(json.dumps(data), encoding="utf-8")


def report(results: dict[str, Counter[str]]) -> str:
    """Return the results as a Markdown table, the means over kinds last."""
    rows = ["| kind | edits | right % | refused % | wrong |", "| --- | --: | --: | --: | --: |"]
    shares: list[float] = []
    for kind, counts in results.items():
        total = counts.total()
        if total:
            shares.append(100 * counts["right"] / total)
            refused = 100 * counts["refused"] / total
            name = kind.replace("_", " ")
            rows.append(f"| {name} | {total} | {shares[-1]:.1f} | {refused:.1f} | {counts['wrong']} |")
    every = sum(results.values(), Counter[str]())
    mean = sum(shares) / len(shares)
    rows.append(
        f"| **all {len(shares)} kinds** | {every.total()} | **{mean:.2f}** (lowest {min(shares):.1f}) | "
        f"{100 * every['refused'] / every.total():.2f} | **{every['wrong']}** |"
    )
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--edits", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=random.randrange(10**9))
    parser.add_argument("--command", default="")
    parser.add_argument("--only", default="", help="measure the kinds whose name has this in it")
    parser.add_argument("--save", type=Path, help="keep the cases that did not end right in this folder")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    asked = parser.parse_args()
    ask = program(shlex.split(asked.command)) if asked.command else here()
    results = measure(ask, edits=asked.edits, seed=asked.seed, only=asked.only, save=asked.save)
    print(f"Seed {asked.seed}\n")
    print(report(results))
    if asked.json:
        edits = sum(counts.total() for counts in results.values())
        write(asked.json, list(shares(results)), seed=asked.seed, edits=edits, kinds=len(results))


def shares(results: dict[str, Counter[str]]) -> Iterator[Figure]:
    """Yield what a run came to: the mean shares, the lowest of a kind, and how many files are wrong."""
    right = {kind: 100 * counts["right"] / counts.total() for kind, counts in results.items() if counts}
    refused = [100 * counts["refused"] / counts.total() for counts in results.values() if counts]
    yield Figure("edits", "Kakite", "right", sum(right.values()) / len(right), "%")
    yield Figure("edits", "Kakite", "lowest kind", min(right.values()), "%")
    yield Figure("edits", "Kakite", "refused", sum(refused) / len(refused), "%")
    yield Figure("edits", "Kakite", "wrong files", sum(counts["wrong"] for counts in results.values()))
    for kind, share in right.items():
        yield Figure("kinds", kind.replace("_", " "), "right", share, "%")


if __name__ == "__main__":
    main()
