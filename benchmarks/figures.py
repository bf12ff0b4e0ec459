"""What a benchmark found, in one form for all of them: `benchmarks/results/NAME.json`.

A script that is given `--json FILE` writes `{"benchmark", "run", "conditions", "versions", "figures"}`. A
figure is `{"table", "of", "name", "value", "unit"}`, and where it stands beside something else in the same
run `"baseline"` (what) and `"ratio"` (how many times that). `run` is what `all.py` began: its id, when, how
busy the machine was then, and how nice its programs are. A script that is started by itself is a run of its
own.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
import secrets
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
RUN = "KAKITE_BENCHMARK_RUN"
"""The variable in which `all.py` tells each benchmark which run it belongs to."""
_BEGAN = time.monotonic()


@dataclass(frozen=True)
class Figure:
    """One number: `name` of `of`, in `unit`; `table` says which figures belong together."""

    table: str
    of: str
    name: str
    value: float
    unit: str = ""
    baseline: str = ""
    ratio: float | None = None


@dataclass(frozen=True)
class Run:
    """What was measured together: `start` is an ISO time in UTC, `load` that of the minute before it."""

    id: str
    start: str
    load: float
    nice: int

    @classmethod
    def begin(cls) -> Run:
        """Return a run that begins now."""
        now = datetime.datetime.now(tz=datetime.UTC)
        name = f"{now:%Y%m%d-%H%M}-{secrets.token_hex(3)}"
        return cls(name, now.isoformat(timespec="seconds"), round(os.getloadavg()[0], 1), os.nice(0))

    @classmethod
    def current(cls, environ: Mapping[str, str] = os.environ) -> Run:
        """Return the run that this program was started for, or one of its own."""
        return cls(**json.loads(environ[RUN])) if RUN in environ else cls.begin()


@dataclass(frozen=True)
class Result:
    """All that one run of a benchmark found, and under which conditions."""

    benchmark: str
    conditions: dict[str, str | float]
    versions: dict[str, str]
    figures: list[Figure]
    run: Run | None = field(default=None)
    """None if it is older than runs are told."""

    @property
    def nice(self) -> int:
        """How nice the benchmark was to other programs."""
        return int(self.conditions.get("nice", 0))

    def of(self, table: str) -> list[Figure]:
        """Return the figures of a table, in the order in which they were found."""
        return [figure for figure in self.figures if figure.table == table]

    def value(self, table: str, of: str, name: str) -> float:
        """Return one value. Raises KeyError if it was not measured."""
        return self.figure(table, of, name).value

    def figure(self, table: str, of: str, name: str) -> Figure:
        """Return one figure. Raises KeyError if it was not measured."""
        for figure in self.of(table):
            if (figure.of, figure.name) == (of, name):
                return figure
        raise KeyError(f"{self.benchmark}: {table}, {of}, {name}")


def write(
    path: Path,
    figures: list[Figure],
    *,
    versions: dict[str, str] | None = None,
    **conditions: str | float,
) -> None:
    """Write what was found. What machine it was, how busy and since when is added here."""
    around: dict[str, str | float] = {
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "processors": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 1),
        "seconds": round(time.monotonic() - _BEGAN),
        "nice": os.nice(0),
    }
    used = {"python": platform.python_version(), "kakite": importlib.metadata.version("kakite")}
    found = {
        "benchmark": path.stem,
        "run": asdict(Run.current()),
        "conditions": around | conditions,
        "versions": used | (versions or {}),
        "figures": [_kept(figure) for figure in figures],
    }
    head, _, _ = json.dumps(found | {"figures": []}, indent=1, ensure_ascii=False).rpartition("[]")
    rows = ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in found["figures"])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{head}[\n  {rows}\n ]\n}}\n", encoding="utf-8")


def _kept(figure: Figure) -> dict[str, object]:
    rounded = {**asdict(figure), "value": _rounded(figure.value)}
    if figure.ratio is not None:
        rounded["ratio"] = _rounded(figure.ratio)
    return {name: value for name, value in rounded.items() if value not in ("", None)}


def _rounded(value: float) -> float:
    """Four digits are more than any of these figures deserves."""
    return float(f"{value:.4g}") if abs(value) < 1000 else round(value)


def read(name: str, folder: Path = RESULTS) -> Result:
    """Return what the last run of a benchmark found. Raises FileNotFoundError if there was none."""
    told = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    figures = [Figure(**figure) for figure in told["figures"]]
    run = Run(**told["run"]) if "run" in told else None
    return Result(told["benchmark"], told["conditions"], told["versions"], figures, run)
