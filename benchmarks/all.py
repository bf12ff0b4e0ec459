"""Every benchmark of this repository that runs here, one after another, and the pages made of what they find.

    python benchmarks/all.py [--only NAME]… [--again] [--render] [--mixed] [--list]

One run: the peers that are missing are installed, then each benchmark writes
`benchmarks/results/NAME.json`, all as nice as this program. Then the tables of the pages, the pictures in
`docs/pictures` and the rows of the READMEs are made anew of all results, if all times are of one run;
`--mixed` makes them of several. The pages name the runs. What fails is tried once more, then told: its last
results stay, and the exit code is 1. `--again` goes on with the last run: it measures what is not of it.
`--render` measures nothing. All of it takes about half an hour on two processors that do nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from figures import RUN, Run, read
from pages import MixedError, render

HERE = Path(__file__).parent
ROOT = HERE.parent
PEERS = "benchmarks/drift/engines.py"
RECORDED = ROOT / ".cache" / "recorded.json.xz"
"""Recorded edits, where `benchmarks/drift/transcripts.py` put them; without them that group is left out."""
MINI = ROOT / ".cache" / "peers" / "mini"
WITHIN = 1200.0
"""Seconds for one benchmark; all take less also where others keep the machine busy."""
NO_INDEX = 75
"""How a benchmark ends that needs a package index and reaches none."""


@dataclass(frozen=True)
class Benchmark:
    """A script with its arguments, and the programs that it needs."""

    name: str
    words: str
    needs: tuple[str, ...] = ()


LOAD = "benchmarks/agent/worker.py load --concurrency 4 --sandbox bubblewrap"
SHORT, LONG, TEMPORAL = "--turns 3 12", "--turns 43 6", "--engine temporal"
DRIFT = ("drift", "drift-alone")
BENCHMARKS = (
    Benchmark("page", "benchmarks/collab/page.py --rounds 3"),
    Benchmark("drift", "benchmarks/drift/compare.py --count 100"),
    Benchmark("drift-alone", "benchmarks/drift/measure.py --count 4000"),
    Benchmark("speed", "benchmarks/speed/measure.py --growth --memory"),
    Benchmark("install", "benchmarks/install/measure.py"),
    Benchmark("serve", "benchmarks/serve/measure.py --rounds 5 --edits 200"),
    Benchmark("search", "benchmarks/serve/search.py"),
    Benchmark("host", "benchmarks/host/measure.py --rounds 400 --turns 1"),
    Benchmark("sandbox", "benchmarks/sandbox/measure.py --rounds 10 --kinds bubblewrap,local", ("bwrap",)),
    Benchmark("workflows", "benchmarks/agent/workflows.py"),
    Benchmark("workflows-temporal", "benchmarks/agent/workflows.py temporal"),
    Benchmark("turns", "benchmarks/agent/turns.py 10 60 120"),
    Benchmark("tokens", "benchmarks/agent/tokens.py"),
    Benchmark("session", "benchmarks/agent/session.py", ("bwrap",)),
    Benchmark("worker-turns", "benchmarks/agent/worker.py turns 60"),
    Benchmark("worker-turns-temporal", f"benchmarks/agent/worker.py turns {TEMPORAL} 60"),
    Benchmark("worker-pickup", "benchmarks/agent/worker.py pickup 40"),
    Benchmark("worker-short", f"{LOAD} {SHORT}", ("bwrap",)),
    Benchmark("worker-short-temporal", f"{LOAD} {TEMPORAL} {SHORT}", ("bwrap",)),
    Benchmark("worker-long", f"{LOAD} {LONG}", ("bwrap",)),
    Benchmark("worker-long-temporal", f"{LOAD} {TEMPORAL} {LONG}", ("bwrap",)),
    Benchmark("large-page", "-m benchmarks.collab.large_page", ("chromium",)),
    Benchmark("people-20", "benchmarks/collab/load.py 30 20 4"),
    Benchmark("people-40", "benchmarks/collab/load.py 30 40 20"),
    Benchmark("people-100", "benchmarks/collab/load.py 30 100 20"),
)


def measure(benchmark: Benchmark, run: Run, results: Path, histories: list[Path]) -> bool:
    """Measure one, and tell whether it ended well. What cannot be measured here did."""
    missing = [program for program in benchmark.needs if shutil.which(program) is None]
    if missing:
        print(f"{benchmark.name} is left out: {', '.join(missing)} is missing", flush=True)
        return True
    words = [*benchmark.words.split(), "--json", str(results / f"{benchmark.name}.json")]
    if benchmark.name in DRIFT:
        words += ["--recorded", str(RECORDED)] if RECORDED.exists() else []
        repos = [ROOT, *histories] if histories else []
        words += [word for repo in repos for word in ("--history", str(repo))]
    if benchmark.name in {"turns", "tokens"} and (MINI / ".installed").exists():
        words += ["--mini", str(MINI / "bin" / "python")]
    print(f"== {benchmark.name}: {benchmark.words}", flush=True)
    began = time.monotonic()
    code = ended(
        [sys.executable, *words], {**os.environ, "PYTHONDONTWRITEBYTECODE": "", RUN: json.dumps(asdict(run))}
    )
    print(f"== {benchmark.name}: {time.monotonic() - began:.0f} s, exit {code}", flush=True)
    if code == NO_INDEX:
        print(f"{benchmark.name} is left out: no package index is reached; its last results stay")
    return code in {0, NO_INDEX}


def ended(words: list[str], env: dict[str, str]) -> int:
    """Return the exit code of a program; one that takes too long is killed with all that it started."""
    with subprocess.Popen(words, cwd=ROOT, env=env, start_new_session=True) as started:
        try:
            return started.wait(WITHIN)
        except subprocess.TimeoutExpired:
            print(f"killed after {WITHIN:.0f} s", flush=True)
            return 1
        finally:
            if started.poll() is None:
                os.killpg(started.pid, signal.SIGKILL)


def newest(results: Path) -> Run | None:
    """Return the run that began last of those whose results are there."""
    runs = [read(file.stem, results).run for file in results.glob("*.json")]
    return max((run for run in runs if run), key=lambda run: run.start, default=None)


def lacking(run: Run, results: Path) -> Iterable[Benchmark]:
    """Yield what is not measured in a run."""
    for benchmark in BENCHMARKS:
        there = (results / f"{benchmark.name}.json").exists()
        if not there or read(benchmark.name, results).run != run:
            yield benchmark


def measured(chosen: list[Benchmark], run: Run, results: Path, histories: list[Path]) -> list[str]:
    """Measure several, those that fail once more; return the names of those that failed again."""
    print(f"run {run.id}: load {run.load}, nice {run.nice}", flush=True)
    if any(benchmark.name in {"drift", "turns"} for benchmark in chosen):
        subprocess.run([sys.executable, PEERS, "--missing"], cwd=ROOT, check=False)
    failed = [benchmark for benchmark in chosen if not measure(benchmark, run, results, histories)]
    return [benchmark.name for benchmark in failed if not measure(benchmark, run, results, histories)]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [benchmark.name for benchmark in BENCHMARKS]
    parser.add_argument("--only", action="append", choices=names, default=[], metavar="NAME")
    parser.add_argument("--again", action="store_true", help="go on with the last run")
    told = "a git repository whose edits are taken as well as this one's"
    parser.add_argument("--history", type=Path, action="append", default=[], help=told)
    parser.add_argument("--list", action="store_true", help="only list the names")
    parser.add_argument("--render", action="store_true", help="only make pages and pictures anew")
    parser.add_argument("--mixed", action="store_true", help="make pages also of results of several runs")
    parser.add_argument("--results", type=Path, default=HERE / "results", help=argparse.SUPPRESS)
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.list:
        print(*names, sep="\n")
        return 0
    results = asked.results.resolve()
    failed: list[str] = []
    if not asked.render:
        run = (newest(results) if asked.again else None) or Run.begin()
        if run.nice != os.nice(0):
            print(f"run {run.id} was at nice {run.nice}, this program is at {os.nice(0)}", file=sys.stderr)
            return 2
        every = list(lacking(run, results)) if asked.again else list(BENCHMARKS)
        chosen = [one for one in every if not asked.only or one.name in asked.only]
        failed = measured(chosen, run, results, asked.history)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    try:
        render(results, asked.root, mixed=asked.mixed)
    except MixedError as told:
        print(f"{told}\nNo page was made; `--mixed` makes them, and says so on them.", file=sys.stderr)
        return 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
