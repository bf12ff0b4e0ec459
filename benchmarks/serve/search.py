"""How fast `kakite serve` searches a large folder, with ripgrep and without, beside plain rg and grep.

    python benchmarks/serve/search.py [--json FILE] [--files N] [--rounds N]

They take turns on the same files, so that whatever else the machine does meets all of them: look at the
ratios. A round of the server is one call of `find_in_files` that comes to all files.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from figures import Figure, write
from measure import Session

FILES = 50_000
NEEDLE = "needle_in_haystack"
IN_ONE_OF = 5000


def plant(root, count):
    """Make files of 10 to 60 lines, 25 in a folder; a few have the needle."""
    chance = random.Random(7)
    letters = "abcdefghijklmnopqrstuvwxyz_"
    words = ["".join(chance.choices(letters, k=chance.randint(3, 10))) for _ in range(2000)]
    for number in range(count):
        folder = root / f"pkg{number % 50:02}" / f"mod{number // 50 % 40:02}"
        folder.mkdir(parents=True, exist_ok=True)
        lines = ["    " + " ".join(chance.choices(words, k=6)) for _ in range(chance.randint(10, 60))]
        lines += [f"{NEEDLE} = 1"] if number % IN_ONE_OF == 17 else []
        (folder / f"file{number:05}.py").write_text("\n".join(lines) + "\n", encoding="ascii")
    (root / ".gitignore").write_text("*.pyc\nbuild/\n__pycache__/\nnode_modules/\n*.log\n", encoding="ascii")


def programs(root):
    """Return what searches from the command line, by its name."""
    asked = {"rg": ["rg", "-l", NEEDLE, "."], "grep": ["grep", "-rl", NEEDLE, "."]}
    return {
        name: lambda argv=argv: subprocess.run(argv, cwd=root, stdout=subprocess.DEVNULL, check=True)
        for name, argv in asked.items()
        if shutil.which(name)
    }


def serving(root, state, path):
    """Return a session with the server, where programs are looked for in these folders."""
    kakite = str(Path(sys.executable).with_name("kakite"))
    before = os.environ["PATH"]
    os.environ["PATH"] = path
    try:
        return Session([kakite, "serve", "--root", str(root)], state)
    finally:
        os.environ["PATH"] = before


def searching(session):
    def search():
        result = session.ask("tools/call", name="find_in_files", arguments={"query": NEEDLE})
        assert "that is all" in result["content"][0]["text"], result

    return search


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--files", type=int, default=FILES)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        root, state, empty = Path(name, "root"), Path(name, "state"), Path(name, "empty")
        for folder in (root, state, empty):
            folder.mkdir()
        plant(root, options.files)
        asked = programs(root)
        sessions = {"kakite": serving(root, state, str(empty))}
        if "rg" in asked:
            sessions["kakite with rg"] = serving(root, state, os.environ["PATH"])
        asked |= {of: searching(session) for of, session in sessions.items()}
        took = {of: [] for of in asked}
        for turn in range(options.rounds + 1):
            for of, search in asked.items():
                began = time.perf_counter()
                search()
                if turn:  # the first one warms up
                    took[of].append(time.perf_counter() - began)
        for session in sessions.values():
            session.end()
    base = next(iter(took))
    least = statistics.median(took[base])
    figures = []
    for of, times in took.items():
        median = statistics.median(times)
        ratio = None if of == base else median / least
        figures.append(Figure("search", of, "a search", median * 1000, "ms", base if ratio else "", ratio))
        print(f"{of}: {median * 1000:.0f} ms, {median / least:.2f} × {base}")
    if options.json:
        write(options.json, figures, files=options.files, rounds=options.rounds)


if __name__ == "__main__":
    main()
