"""Every benchmark of this repository that runs here, one after another, and the pages made of what they find.

    python benchmarks/all.py [--only NAME]… [--render] [--list]

Each writes `benchmarks/results/NAME.json`; then the tables of `docs/performance.md` and `docs/scaling.md` and
the pictures in `docs/pictures` are made anew of all results. `--render` measures nothing. Peers are installed
by `benchmarks/drift/engines.py`; what is missing is left out and told in the results. One that fails is told,
its last results stay, and the exit code is 1. All of it takes some thirty minutes on two processors.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from pages import render

HERE = Path(__file__).parent
ROOT = HERE.parent
MINI = ROOT / ".cache" / "peers" / "mini"


@dataclass(frozen=True)
class Benchmark:
    """A script with its arguments, and the programs that it needs."""

    name: str
    words: str
    needs: tuple[str, ...] = ()


BENCHMARKS = (
    Benchmark("page", "benchmarks/collab/page.py --rounds 3"),
    Benchmark("drift", "benchmarks/drift/compare.py --edits 2000"),
    Benchmark("speed", "benchmarks/speed/measure.py --growth --memory"),
    Benchmark("serve", "benchmarks/serve/measure.py --rounds 5 --edits 200"),
    Benchmark("host", "benchmarks/host/measure.py --rounds 400 --turns 1"),
    Benchmark("sandbox", "benchmarks/sandbox/measure.py --rounds 10"),
    Benchmark("stories", "benchmarks/agent/stories.py"),
    Benchmark("stories-temporal", "benchmarks/agent/stories.py temporal"),
    Benchmark("turns", "benchmarks/agent/turns.py 10 60"),
    Benchmark("worker-turns", "benchmarks/agent/worker.py turns 60"),
    Benchmark("worker-pickup", "benchmarks/agent/worker.py pickup 40"),
    Benchmark(
        "worker-short",
        "benchmarks/agent/worker.py load --turns 3 --concurrency 4 --sandbox bubblewrap 12",
        ("bwrap",),
    ),
    Benchmark(
        "worker-long",
        "benchmarks/agent/worker.py load --turns 43 --concurrency 4 --sandbox bubblewrap 6",
        ("bwrap",),
    ),
    Benchmark("large-page", "-m benchmarks.collab.large_page", ("chromium",)),
    Benchmark("people-20", "benchmarks/collab/load.py 30 20 4"),
    Benchmark("people-40", "benchmarks/collab/load.py 30 40 20"),
    Benchmark("people-100", "benchmarks/collab/load.py 30 100 20"),
)


def run(benchmark: Benchmark, results: Path) -> bool:
    """Run one, and tell whether it ended well."""
    missing = [program for program in benchmark.needs if shutil.which(program) is None]
    if missing:
        print(f"{benchmark.name} is left out: {', '.join(missing)} is missing", flush=True)
        return True
    words = [*benchmark.words.split(), "--json", str(results / f"{benchmark.name}.json")]
    if benchmark.name == "turns" and (MINI / ".installed").exists():
        words += ["--mini", str(MINI / "bin" / "python")]
    print(f"== {benchmark.name}: {' '.join(words[:-2])}", flush=True)
    return subprocess.run([sys.executable, *words], cwd=ROOT, check=False).returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [benchmark.name for benchmark in BENCHMARKS]
    parser.add_argument("--only", action="append", choices=names, default=[], metavar="NAME")
    parser.add_argument("--list", action="store_true", help="only list the names")
    parser.add_argument("--render", action="store_true", help="only make pages and pictures anew")
    parser.add_argument("--results", type=Path, default=HERE / "results", help=argparse.SUPPRESS)
    parser.add_argument("--docs", type=Path, default=ROOT / "docs", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.list:
        print(*names, sep="\n")
        return 0
    chosen = (
        [] if asked.render else [each for each in BENCHMARKS if not asked.only or each.name in asked.only]
    )
    failed = [benchmark.name for benchmark in chosen if not run(benchmark, asked.results.resolve())]
    if failed:
        print(f"failed: {', '.join(failed)}")
    render(asked.results, asked.docs)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
