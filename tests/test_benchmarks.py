"""The pages of figures say what the results say, and the one command that makes both works."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest

pytestmark = pytest.mark.docs

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGES = ("performance.md", "scaling.md", "install.md")
READMES = ("README.md", "README.ja.md", "README.zh.md")
BASELINE = "one exact occurrence, or nothing"
REAL = ("recorded", "history", "exact")
BLOCK = re.compile(r"<!-- figures: (\S+) -->\n(.*?)<!-- end -->", re.DOTALL)
PICTURES = ("drift.svg", "growth.svg", "edit.svg", "overhead.svg")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a folder with a copy of the results and of the pages."""
    shutil.copytree(RESULTS, tmp_path / "results")
    (tmp_path / "docs" / "pictures").mkdir(parents=True)
    for page in PAGES:
        shutil.copy(ROOT / "docs" / page, tmp_path / "docs")
    for readme in READMES:
        shutil.copy(ROOT / readme, tmp_path)
    return tmp_path


def bench(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    folders = ("--results", str(place / "results"), "--root", str(place))
    return subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "all.py"), *words, *folders],
        capture_output=True,
        encoding="utf-8",
        timeout=240,
        check=False,
    )


def told(place: Path, name: str) -> dict[str, Any]:
    return json.loads((place / "results" / f"{name}.json").read_text(encoding="utf-8"))


def changed(place: Path, name: str, change: Callable[[dict[str, Any]], object]) -> None:
    """Change what a benchmark found."""
    result = told(place, name)
    change(result)
    (place / "results" / f"{name}.json").write_text(json.dumps(result), encoding="utf-8")


def value(place: Path, name: str, of: str, figure: str, table: str = "") -> float:
    (found,) = (
        each["value"]
        for each in told(place, name)["figures"]
        if (each["of"], each["name"]) == (of, figure) and table in {"", each["table"]}
    )
    return found


def test_the_pages_and_pictures_are_what_the_results_make(place: Path) -> None:
    done = bench(place, "--render", "--mixed")
    assert done.returncode == 0, done.stderr
    docs = [*PAGES, *(f"pictures/{picture}" for picture in PICTURES)]
    for name in (*READMES, *(f"docs/{each}" for each in docs)):
        made = (place / name).read_text(encoding="utf-8")
        assert made == (ROOT / name).read_text(encoding="utf-8"), f"run `all.py --render` for {name}"


def test_every_block_of_the_pages_has_figures() -> None:
    for page in PAGES:
        blocks = BLOCK.findall((ROOT / "docs" / page).read_text(encoding="utf-8"))
        assert blocks
        assert [name for name, inside in blocks if "Not measured: " in inside or not inside.strip()] == []


def one_run(place: Path) -> None:
    """Let all results be of one run."""
    run = {"id": "a", "start": "2026-01-02T03:04:05+00:00", "load": 0.1, "nice": 0}
    for file in (place / "results").glob("*.json"):
        changed(place, file.stem, lambda found: found.update(run=run))
        changed(place, file.stem, lambda found: found["conditions"].update(nice=0))


def test_results_of_several_runs_make_no_page_unless_that_is_wanted_and_said(place: Path) -> None:
    one_run(place)
    assert bench(place, "--render").returncode == 0
    page = place / "docs" / "performance.md"
    assert "All of one run, `a`, begun at 2026-01-02T03:04:05+00:00" in page.read_text(encoding="utf-8")
    for part, other in (("run", {"id": "another"}), ("conditions", {"nice": -5})):
        one_run(place)
        before = page.read_text(encoding="utf-8")
        changed(place, "serve", lambda found, part=part, other=other: found[part].update(other))
        done = bench(place, "--render")
        assert done.returncode == 1
        assert "serve" in done.stderr.splitlines()[-2]
        assert page.read_text(encoding="utf-8") == before
    assert bench(place, "--render", "--mixed").returncode == 0
    assert "**These figures come from several runs**" in page.read_text(encoding="utf-8")


def runs_block(place: Path) -> str:
    return dict(BLOCK.findall((place / "docs" / "performance.md").read_text(encoding="utf-8")))["runs"]


@pytest.mark.parametrize("words", [(), ("--mixed",)])
def test_what_is_of_another_run_than_the_times_stands_with_that_run(
    place: Path, words: tuple[str, ...]
) -> None:
    one_run(place)
    other = {"id": "another", "start": "2020-02-02T02:02:02+00:00", "load": 3.5}
    for name in ("drift", "drift-alone"):
        changed(place, name, lambda found: found["run"].update(other))
    changed(place, "install", lambda found: found["run"].update(id="third"))
    changed(place, "install", lambda found: found["conditions"].update(date="2020-02-02"))
    assert bench(place, "--render", *words).returncode == 0
    said = runs_block(place)
    assert "All of one run, `a`, begun at 2026-01-02T03:04:05+00:00 at a load of 0.1, nice 0, but for" in said
    assert "| `another` | 2020-02-02T02:02:02+00:00 | 3.5 | 0 | `drift-alone`, `drift` |" in said
    assert "| `third` | 2026-01-02T03:04:05+00:00 | 0.1 | 0 | `install` |" in said
    assert "*2020-02-02, " in (place / "docs" / "install.md").read_text(encoding="utf-8")


def test_the_page_names_the_run_of_every_result(place: Path) -> None:
    assert bench(place, "--render", "--mixed").returncode == 0
    said = runs_block(place)
    assert {told(place, file.stem)["run"]["id"] for file in RESULTS.glob("*.json")} == {
        *re.findall(r"`(\d{8}-\d{4}-\w{6})`", said)
    }
    changed(place, "serve", lambda found: found["run"].update(id="20200202-0202-abcdef"))
    assert bench(place, "--render", "--mixed").returncode == 0
    assert {told(place, file.stem)["run"]["id"] for file in RESULTS.glob("*.json")} == {
        *re.findall(r"`(\d{8}-\d{4}-\w{6})`", runs_block(place))
    }


def figure(place: Path, name: str, table: str, of: str, figure: str) -> float:
    (found,) = (
        each["value"]
        for each in told(place, name)["figures"]
        if (each["table"], each["of"], each["name"]) == (table, of, figure)
    )
    return found


def rows_about_edits(readme: Path) -> list[str]:
    return [line for line in readme.read_text(encoding="utf-8").splitlines() if "`make bench` |" in line]


def groups(place: Path, name: str) -> list[str]:
    return list(
        dict.fromkeys(each["of"] for each in told(place, name)["figures"] if each["table"] == "groups")
    )


def wrong(place: Path, group: str, engine: str) -> float:
    return sum(figure(place, "drift", group, engine, each) for each in ("wrong form", "wrong content"))


def test_the_readmes_say_of_each_real_group_what_was_measured(place: Path) -> None:
    measured = told(place, "drift")["figures"]
    engines = {each["of"] for each in measured if each["table"] in groups(place, "drift")} - {
        "Kakite",
        BASELINE,
    }
    real = [group for group in REAL if group in groups(place, "drift")]
    for name in READMES:
        rows = rows_about_edits(ROOT / name)
        assert len(rows) == len(real) + 1, name
        for group, row in zip(real, rows, strict=False):
            right = figure(place, "drift-alone", "groups", group, "right")
            edits = int(figure(place, "drift-alone", "groups", group, "edits"))
            files = int(figure(place, "drift-alone", "groups", group, "wrong files"))
            rights = [figure(place, "drift", group, engine, "right") for engine in engines]
            wrongs = [
                wrong(place, group, each) + figure(place, "drift", group, each, "unjudged")
                for each in engines
            ]
            said = [f"{int(right * 10) / 10:.1f}".removesuffix(".0") + " %", f"{edits:,}".replace(",", " ")]
            said += [f"{max(rights):.0f} %", f"{max(wrongs):.{0 if max(wrongs) >= 10 else 1}f} %"]
            assert [each for each in said if each not in row] == [], (name, group)
            if name == "README.md":
                assert f" {files:,} wrong file{'s' if files != 1 else ''}".replace(",", " ") in row


def test_the_readmes_sum_up_nothing_of_the_groups_of_our_own_making(place: Path) -> None:
    own = [group for group in groups(place, "drift") if group not in REAL]
    bad = [group for group in own if figure(place, "drift-alone", "groups", group, "wrong files")]
    row = rows_about_edits(ROOT / "README.md")[-1]
    assert "of our own making" in row
    assert f" in {len(own)} groups: wrong files in {len(bad)} of the groups" in row


def test_a_group_that_was_not_measured_has_no_row(place: Path) -> None:
    def without_recorded(found: dict[str, Any]) -> None:
        found["figures"] = [
            each
            for each in found["figures"]
            if each["of"] != "recorded" and not each["table"].startswith("recorded")
        ]

    for name in ("drift", "drift-alone"):
        changed(place, name, without_recorded)
    before = {name: len(rows_about_edits(place / name)) for name in READMES}
    assert bench(place, "--render", "--mixed").returncode == 0
    assert {name: len(rows_about_edits(place / name)) + 1 for name in READMES} == before
    assert "sent" not in rows_about_edits(place / "README.md")[0]


def test_a_peer_that_did_not_install_is_named_as_not_measured(place: Path) -> None:
    def without_pi(found: dict[str, Any]) -> None:
        found["figures"] = [each for each in found["figures"] if each["of"] != "pi, edit"]
        found["conditions"]["left_out"] = "pi, edit"

    changed(place, "drift", without_pi)
    assert bench(place, "--render", "--mixed").returncode == 0
    page = (place / "docs" / "performance.md").read_text(encoding="utf-8")
    assert "**Not measured**, because it could not be installed: pi, edit." in page
    assert "in 6 other programs" in (place / "README.md").read_text(encoding="utf-8")


def cells(text: str, row: str) -> list[str]:
    (line,) = (line for line in text.splitlines() if line.startswith(f"| {row}"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_scaling_page_is_the_arithmetic_of_the_results(place: Path) -> None:
    """The page is computed here a second time, from the results alone."""
    page = (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")

    def loads(name: str) -> dict[str, float]:
        return {each["name"]: each["value"] for each in told(place, name)["figures"]}

    for engine, suffix in (("SQLite", ""), ("Temporal", "-temporal")):
        short, long = loads(f"worker-short{suffix}"), loads(f"worker-long{suffix}")
        turns = long["turns of a task"] - short["turns of a task"]
        each = (long["processor a task"] - short["processor a task"]) / turns
        whole = short["processor a task"] + (45 - short["turns of a task"]) * each
        programs = max(one["programs of the tasks"] / one["at once"] for one in (short, long))
        worker = max(short["worker"], long["worker"])
        hands = max(count for count in range(1, 500) if count * programs + -(-count // 8) * worker <= 8000)
        turn = value(place, f"worker-turns{suffix}", "a turn of the worker", "own, median") / 1000
        lasting = 47 * (10 + turn)
        assert float(cells(page, f"so a task of 45 calls, {engine}")[1].split()[0]) == pytest.approx(
            whole, abs=0.06
        )
        if engine == "SQLite":
            assert int(cells(page, "tasks in hand, on")[1]) == hands
            assert plain(cells(page, "tasks of 45 calls a day")[1]) == 2 * 86400 // whole
        columns = {"SQLite": {1: 10, 2: 1000}, "Temporal": {3: 1000, 4: 100_000}}[engine]
        for column, tasks in columns.items():
            held = math.ceil(tasks * 3 * lasting / 86400)
            busy = tasks * 3 * whole / 86400
            assert plain(cells(page, "tasks in hand, at the peak")[column]) == held
            assert plain(cells(page, "workers of 8")[column]) == -(-held // 8)
            machines = max(math.ceil(busy / 2), -(-held // hands))
            assert plain(cells(page, "machines of 2")[column].partition(",")[0]) == machines
            assert plain(cells(page, "requests to the model, a day")[column]) == tasks * 47
        (rate,) = (
            one["value"] for one in told(place, f"workflows{suffix}")["figures"] if one["name"] == "rate"
        )
        assert plain(cells(page, f"steps of workflows a second, one worker on {engine}")[1]) == int(rate)
    reached = value(place, "people-100", "100 people on 20 pages", "keys reached")
    assert plain(cells(page, "people who type at once")[1]) == min(100, reached // 4)
    accepted = max(
        value(place, "page", "accept 100 at once", "processor", each) for each in ("english", "japanese")
    )
    assert cells(page, "100 accepted suggestions")[1] == f"{shown(accepted)} ms"


def plain(text: str) -> float:
    return float(text.replace(" ", ""))


def shown(number: float) -> str:
    return f"{number:.0f}" if number >= 100 or number == int(number) else f"{number:.1f}"


def test_no_number_of_the_scaling_page_is_typed() -> None:
    """But for those of the title's question, and sizes that the benchmarks are named after."""
    text = (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")
    prose = re.sub(r"\]\([^)]*\)", "", BLOCK.sub("", text))
    assert set(re.findall(r"\d+(?: \d{3})*", prose)) <= {"10", "1 000", "100 000"}


def test_a_result_that_changes_changes_the_page(place: Path) -> None:
    for name, turns, seconds in (("worker-short", 5, 3.0), ("worker-long", 45, 7.0)):
        file = place / "results" / f"{name}.json"
        told = json.loads(file.read_text(encoding="utf-8"))
        for figure in told["figures"]:
            figure["value"] = {"turns of a task": turns, "processor a task": seconds}.get(
                figure["name"], figure["value"]
            )
        file.write_text(json.dumps(told), encoding="utf-8")
    assert bench(place, "--render", "--mixed").returncode == 0
    page = (place / "docs" / "scaling.md").read_text(encoding="utf-8")
    assert "| a task on SQLite, begun and ended | 2.5 s |" in page
    assert "| each call of a tool in it, SQLite | 0.10 s |" in page
    assert "| so a task of 45 calls, SQLite | 7.0 s |" in page
    assert "| tasks of 45 calls a day, on SQLite | 24 685 |" in page


def test_what_was_not_measured_is_said(place: Path) -> None:
    (place / "results" / "serve.json").unlink()
    assert bench(place, "--render", "--mixed").returncode == 0
    page = (place / "docs" / "performance.md").read_text(encoding="utf-8")
    assert "Not measured: `serve` has no results." in page


def test_every_engine_and_group_is_in_the_picture_with_a_bar_for_each() -> None:
    found = json.loads((RESULTS / "drift.json").read_text(encoding="utf-8"))["figures"]
    tables = {each["of"] for each in found if each["table"] == "groups"}
    engines = {each["of"] for each in found if each["table"] in tables}
    picture = Xml.fromstring((ROOT / "docs" / "pictures" / "drift.svg").read_text(encoding="utf-8"))
    texts = [text.text or "" for text in picture.iter("{http://www.w3.org/2000/svg}text")]
    heads = [text for text in texts if any(engine.partition(",")[0].startswith(text) for engine in engines)]
    assert {"Kakite", "aider", "pi", "codex", "gemini-cli"} <= set(heads)
    grounds = [
        rect
        for rect in picture.iter("{http://www.w3.org/2000/svg}rect")
        if rect.attrib["height"] == "16" and rect.attrib["width"] == "78"
    ]
    assert len(grounds) >= len(tables) * len(engines)
    assert sum(text.endswith(" edits") for text in texts) == len(tables)


def test_every_benchmark_can_be_asked_for_by_its_name(place: Path) -> None:
    names = bench(place, "--list").stdout.split()
    assert {file.stem for file in RESULTS.glob("*.json")} == set(names)
    assert bench(place, "--only", "no-such-one").returncode == 2


@pytest.mark.slow
def test_one_benchmark_runs_by_itself_and_keeps_what_it_found(place: Path) -> None:
    file = place / "results" / "page.json"
    file.unlink()
    done = bench(place, "--only", "page", "--mixed")
    assert done.returncode == 0, done.stderr
    told = json.loads(file.read_text(encoding="utf-8"))
    assert set(told) == {"benchmark", "run", "conditions", "versions", "figures"}
    assert set(told["run"]) == {"id", "start", "load", "nice"}
    assert told["conditions"]["nice"] == told["run"]["nice"]
    assert {"date", "processors", "load", "seconds"} <= set(told["conditions"])
    assert all(figure["value"] > 0 for figure in told["figures"])
    assert any(figure.get("baseline") and figure.get("ratio") for figure in told["figures"])


@pytest.mark.slow
@pytest.mark.parametrize("words", ["turns 2 --think 0", "turns --engine temporal 2 --think 0"])
def test_a_worker_is_measured_by_what_it_is_made_of(words: str, tmp_path: Path, proof: bool) -> None:
    if not proof:
        pytest.skip("takes minutes; `make proof` does it")
    script = ROOT / "benchmarks" / "agent" / "worker.py"
    found = tmp_path / "found.json"
    ran = subprocess.run(
        [sys.executable, script, *words.split(), "--json", found],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=240,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    assert json.loads(found.read_text(encoding="utf-8"))["figures"]


@pytest.mark.slow
def test_a_session_is_measured_behind_each_of_its_fronts(tmp_path: Path, proof: bool) -> None:
    if not proof:
        pytest.skip("takes minutes; `make proof` does it")
    found = tmp_path / "found.json"
    words = ["--turns", "8", "--files", "30", "--sandbox", "local", "--json", str(found)]
    ran = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "agent" / "session.py"), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=600,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    figures = json.loads(found.read_text(encoding="utf-8"))["figures"]
    assert {figure["table"] for figure in figures} == {"a turn", "checkpoint", "start", "memory"}
