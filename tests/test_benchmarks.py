"""The pages of figures say what the results say, and the one command that makes both works."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGES = ("performance.md", "scaling.md")
PICTURES = ("drift.svg", "growth.svg", "edit.svg", "overhead.svg")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a folder with a copy of the results and of the pages."""
    shutil.copytree(RESULTS, tmp_path / "results")
    (tmp_path / "docs" / "pictures").mkdir(parents=True)
    for page in PAGES:
        shutil.copy(ROOT / "docs" / page, tmp_path / "docs")
    return tmp_path


def bench(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    folders = ("--results", str(place / "results"), "--docs", str(place / "docs"))
    return subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "all.py"), *words, *folders],
        capture_output=True,
        encoding="utf-8",
        timeout=240,
        check=False,
    )


def test_the_pages_and_pictures_are_what_the_results_make(place: Path) -> None:
    done = bench(place, "--render")
    assert done.returncode == 0, done.stderr
    for name in (*PAGES, *(f"pictures/{picture}" for picture in PICTURES)):
        made = (place / "docs" / name).read_text(encoding="utf-8")
        assert made == (ROOT / "docs" / name).read_text(encoding="utf-8"), f"run `all.py --render` for {name}"


def test_every_table_of_the_pages_has_figures() -> None:
    for page in PAGES:
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        blocks = re.findall(r"<!-- figures: (\S+) -->\n(.*?)<!-- end -->", text, re.DOTALL)
        assert blocks
        assert [name for name, inside in blocks if "| --- |" not in inside] == []


def test_a_result_that_changes_changes_the_page(place: Path) -> None:
    for name, turns, seconds in (("worker-short", 5, 3.0), ("worker-long", 45, 7.0)):
        file = place / "results" / f"{name}.json"
        told = json.loads(file.read_text(encoding="utf-8"))
        for figure in told["figures"]:
            figure["value"] = {"turns of a task": turns, "processor a task": seconds}.get(
                figure["name"], figure["value"]
            )
        file.write_text(json.dumps(told), encoding="utf-8")
    assert bench(place, "--render").returncode == 0
    page = (place / "docs" / "scaling.md").read_text(encoding="utf-8")
    assert "| a task, begun and ended | 2.5 s |" in page
    assert "| each call of a tool in it | 0.10 s |" in page
    assert "| so a task of 45 calls | 7.0 s |" in page
    assert "| tasks of 45 calls a day | 24 686 |" in page


def test_what_was_not_measured_is_said(place: Path) -> None:
    (place / "results" / "serve.json").unlink()
    assert bench(place, "--render").returncode == 0
    page = (place / "docs" / "performance.md").read_text(encoding="utf-8")
    assert "Not measured: `serve` has no results." in page


def test_every_engine_is_named_in_the_picture_and_no_two_labels_collide() -> None:
    told = json.loads((RESULTS / "drift.json").read_text(encoding="utf-8"))
    engines = {figure["of"] for figure in told["figures"]}
    picture = Xml.fromstring((ROOT / "docs" / "pictures" / "drift.svg").read_text(encoding="utf-8"))
    labels = [
        (float(text.attrib["y"]), text.text)
        for text in picture.iter("{http://www.w3.org/2000/svg}text")
        if text.text in engines
    ]
    assert {name for _, name in labels} == engines
    heights = sorted(y for y, name in labels if name != "Kakite")
    assert all(below - above >= 15 for above, below in pairwise(heights))


def test_every_benchmark_can_be_asked_for_by_its_name(place: Path) -> None:
    names = bench(place, "--list").stdout.split()
    assert {file.stem for file in RESULTS.glob("*.json")} == set(names)
    assert bench(place, "--only", "no-such-one").returncode == 2


@pytest.mark.slow
def test_one_benchmark_runs_by_itself_and_keeps_what_it_found(place: Path) -> None:
    file = place / "results" / "page.json"
    file.unlink()
    done = bench(place, "--only", "page")
    assert done.returncode == 0, done.stderr
    told = json.loads(file.read_text(encoding="utf-8"))
    assert set(told) == {"benchmark", "conditions", "versions", "figures"}
    assert {"date", "processors", "load", "seconds"} <= set(told["conditions"])
    assert all(figure["value"] > 0 for figure in told["figures"])
    assert any(figure.get("baseline") and figure.get("ratio") for figure in told["figures"])
