"""What an installation costs, and how soon the program answers: ``make bench-install``.

Each choice of extras goes into a fresh environment, from the wheel of this checkout and the index that pip
and uv find. Installing is one run of uv with what it keeps between runs, so that the network does not count.
Of starting, the fastest of 15 is told and the least processor time, which others on the machine hardly
change; in turns with the bare interpreter and a typer program of one command.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).parent / "uv"
CHOICES = ("", "debate", "collab", "agent", "agent,temporal", "all")
RUNS = 15
HELPS = ("--help", "--version", "agent run --help", "serve --help")
BARE = "import typer\napp = typer.Typer()\n@app.command()\ndef hello() -> None:\n    'Say hello.'\napp()\n"


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place), cwd=ROOT)
        (wheel,) = place.glob("*.whl")
        print(f"the wheel: {wheel.stat().st_size / 1e6:.1f} MB\n")
        print("| extras | packages | MB | seconds to install |\n| --- | --- | --- | --- |")
        for extras in CHOICES:
            print(row(place / (extras.replace(",", "-") or "base"), wheel, extras), flush=True)
        programs = place / "base" / "bin"
        (place / "bare.py").write_text(BARE, encoding="utf-8")
        started = {
            "Python alone": (programs / "python", "-c", "pass"),
            "a typer program of one command": (programs / "python", place / "bare.py", "--help"),
            **{f"`kakite {words}`": (programs / "kakite", *words.split()) for words in HELPS},
        }
        print("\n| | seconds | of processor |\n| --- | --- | --- |")
        for what, (wall, used) in fastest(started).items():
            print(f"| {what} | {wall:.2f} | {used:.2f} |")


def row(venv: Path, wheel: Path, extras: str) -> str:
    run(UV, "venv", "--quiet", "--python", sys.executable, venv)
    requirement = f"kakite[{extras}] @ {wheel.as_uri()}" if extras else str(wheel)
    install = (
        UV,
        "pip",
        "install",
        "--quiet",
        "--link-mode=copy",
        "--python",
        venv / "bin" / "python",
        requirement,
    )
    run(*install)  # whatever is not kept yet is fetched
    run(UV, "venv", "--quiet", "--clear", "--python", sys.executable, venv)
    began = time.perf_counter()
    run(*install)
    seconds = time.perf_counter() - began
    packages = len(list((venv / "lib").glob("*/site-packages/*.dist-info")))
    files = [file for file in venv.rglob("*") if file.is_file() and not file.is_symlink()]
    size = sum(file.stat().st_size for file in files if file.suffix != ".pyc") / 1e6
    return f"| {extras or 'base'} | {packages} | {size:.0f} | {seconds:.1f} |"


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
        env={**os.environ, "COLUMNS": "80"},
    )


if __name__ == "__main__":
    main()
