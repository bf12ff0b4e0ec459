"""What an installation costs, and how soon the program answers.

    python benchmarks/install/measure.py [--json FILE]

Each choice of extras goes into a fresh environment, from the wheel of this checkout and the index that pip
and uv find. Installing is one run of uv with what it keeps between runs, so that the network does not
count, and compiles the modules, as pip does. Of starting, the fastest of 15 is told and the least processor
time, which others on the machine hardly change; in turns with the bare interpreter and a typer program of
one command. Where no index is reached it ends with 75, and measures nothing.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from figures import Figure, write

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).parent / "uv"
CHOICES = ("", "debate", "collab", "agent", "agent,temporal", "all")
RUNS = 15
NO_INDEX = 75
TYPER = "a typer program of one command"
HELPS = ("--help", "--version", "agent run --help", "serve --help")
BARE = "import typer\napp = typer.Typer()\n@app.command()\ndef hello() -> None:\n    'Say hello.'\napp()\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        if not index_answers(place / "probe"):
            return NO_INDEX
        found = list(installed(place))
        found += started(place)
    for each in found:
        print(f"{each.of:32} {each.name:20} {each.value:.2f} {each.unit}")
    if asked.json:
        write(asked.json, found, runs=RUNS)
    return 0


def index_answers(venv: Path) -> bool:
    """Tell whether a package index is reached from here, whatever uv keeps from earlier."""
    run(UV, "venv", "--quiet", "--python", sys.executable, venv)
    words = ("pip", "install", "--quiet", "--no-cache", "--no-deps", "--python", venv / "bin" / "python")
    done = subprocess.run([UV, *words, "typer"], check=False, timeout=120)
    return done.returncode == 0


def installed(place: Path) -> Iterator[Figure]:
    """Yield what each choice of extras takes."""
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place), cwd=ROOT)
    (wheel,) = place.glob("*.whl")
    yield Figure("wheel", "the wheel", "size", wheel.stat().st_size / 1e6, "MB")
    for extras in CHOICES:
        yield from choice(place / (extras.replace(",", "-") or "base"), wheel, extras)


def choice(venv: Path, wheel: Path, extras: str) -> Iterator[Figure]:
    run(UV, "venv", "--quiet", "--python", sys.executable, venv)
    requirement = f"kakite[{extras}] @ {wheel.as_uri()}" if extras else str(wheel)
    chosen = ("--link-mode=copy", "--compile-bytecode", "--python", venv / "bin" / "python", requirement)
    install = (UV, "pip", "install", "--quiet", *chosen)
    run(*install)  # whatever is not kept yet is fetched
    run(UV, "venv", "--quiet", "--clear", "--python", sys.executable, venv)
    began = time.perf_counter()
    run(*install)
    seconds = time.perf_counter() - began
    packages = len(list((venv / "lib").glob("*/site-packages/*.dist-info")))
    files = [file for file in venv.rglob("*") if file.is_file() and not file.is_symlink()]
    size = sum(file.stat().st_size for file in files if file.suffix != ".pyc") / 1e6
    for name, value, unit in (("packages", packages, ""), ("size", size, "MB"), ("installing", seconds, "s")):
        yield Figure("extras", extras or "base", name, value, unit)


def started(place: Path) -> Iterator[Figure]:
    """Yield how soon the program of the base answers, beside the interpreter and a small program."""
    programs = place / "base" / "bin"
    (place / "bare.py").write_text(BARE, encoding="utf-8")
    commands = {
        "Python alone": (programs / "python", "-c", "pass"),
        TYPER: (programs / "python", place / "bare.py", "--help"),
        **{f"kakite {words}": (programs / "kakite", *words.split()) for words in HELPS},
    }
    found = fastest(commands)
    for what, spent in found.items():
        for name, took, base in zip(("time", "processor"), spent, found[TYPER], strict=True):
            ours = what.startswith("kakite")
            told = (TYPER, took / base) if ours else ("", None)
            yield Figure("starting", what, name, took * 1000, "ms", *told)


def fastest(commands: Mapping[str, Sequence[str | Path]]) -> dict[str, tuple[float, float]]:
    """Return of each command the shortest time and the least processor time, in seconds."""
    found: dict[str, tuple[float, float]] = {}
    for _ in range(RUNS):
        for what, command in commands.items():
            began, before = time.perf_counter(), processor()
            run(*command)
            wall, used = time.perf_counter() - began, processor() - before
            shortest, least = found.get(what, (wall, used))
            found[what] = min(shortest, wall), min(least, used)
    return found


def processor() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(*command: str | Path, cwd: Path | None = None) -> None:
    subprocess.run(
        [*map(str, command)],
        check=True,
        stdout=subprocess.DEVNULL,
        cwd=cwd,
        env={**os.environ, "COLUMNS": "80", "PYTHONDONTWRITEBYTECODE": ""},
    )


if __name__ == "__main__":
    sys.exit(main())
