"""Search for a case that breaks a promise, guided by coverage: ``make fuzz TARGET=parser SECONDS=600``.

Needs atheris, which `make fuzz` installs beside the environment. It ends with the case where there is one, in
a file `crash-…` of the current folder; what it found on its way stays in `.cache/fuzz` for the next time.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def main(target: str, seconds: str) -> None:
    sys.path.insert(0, str(ROOT))
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["kakite"]):
        targets: Any = importlib.import_module("tests.fuzz.targets")
    kept = ROOT / ".cache" / "fuzz" / target
    kept.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(targets.SEEDS[target]):
        (kept / f"seed-{number}").write_bytes(seed)
    state = tempfile.TemporaryDirectory(prefix="kakite-fuzz-state-")
    os.environ["XDG_STATE_HOME"] = (
        state.name
    )  # what is written is noted in a journal: not in the person's own
    limits = [f"-max_total_time={seconds}", "-max_len=4096", "-rss_limit_mb=4096", "-timeout=30"]
    atheris.Setup([sys.argv[0], *limits, str(kept)], targets.TARGETS[target])
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:3])
