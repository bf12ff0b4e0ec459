"""``kakite agent worker`` and what steers its tasks, as a person or a program runs them."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from kakite.testing.script import Turn
from tests.agent.answering import Answering, answering
from tests.agent.forges.worlds import WORLDS
from tests.cli.program import Outcome, kakite
from tests.repositories import git, make_remote

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PLAN = {"say": '{"goal": "a is 2", "steps": ["edit"], "title": "Make a 2", "check": ""}'}


def command(line: str) -> dict[str, Any]:
    return {"calls": [{"tool": "run_command", "arguments": {"command": line}}]}


def script(*lines: str) -> list[dict[str, Any]]:
    return [PLAN, *map(command, lines), {"say": "Done."}]


@pytest.fixture
def place() -> Generator[Path]:
    """A folder with a short name: a socket's address has room for 107 bytes only."""
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "h").mkdir()
        yield Path(name)


@pytest.fixture
def model() -> Generator[Answering]:
    scripts = {"Make one": script("echo 1 > b"), "Make two": script("echo 2 > b", "echo 3 > c")}
    with answering(scripts) as known:
        yield known


def run(place: Path, *arguments: str, **env: str) -> Outcome:
    return kakite("agent", *arguments, home=place / "h", env={"OPENAI_API_KEY": "x", **env})


def work(place: Path, model: Answering, *more: str, **env: str) -> Outcome:
    settings = ("--model", "openai:scripted", "--base-url", model.url, "--sandbox", "local", "--setup", "off")
    return run(place, "worker", *settings, "--until-idle", *more, **env)


def submit(place: Path, model: Answering, text: str, remote: Path, *more: str) -> Outcome:
    settings = ("--model", "openai:scripted", "--base-url", model.url, "--sandbox", "local")
    return run(place, "submit", text, "--repo", str(remote), "--branch", "topic", *settings, *more)


def issue(forge: Path, number: int, text: str) -> Path:
    (forge / "issues").mkdir(exist_ok=True)
    file = forge / "issues" / f"00{number}-x.md"
    file.write_text(f"---\ntitle: {text}\nlabels: [kakite]\n---\n\n{text}\n", encoding="utf-8")
    return file


def local_forge(place: Path) -> Path:
    forge = place / "forge"
    forge.mkdir()
    make_remote(forge, {"a": "1\n"}, "repo.git")
    return forge


def test_labelled_issues_of_a_folder_become_branches_with_review_pages(place: Path, model: Answering) -> None:
    forge = local_forge(place)
    files = [issue(forge, 1, "Make one"), issue(forge, 2, "Make two")]
    done = work(place, model, "--forge", "local", str(forge), "--approve", "all")
    assert done.code == 0, done.stderr
    assert all(f"takes up #{number} (label by " in done.stderr for number in (1, 2))
    branches = ("kakite/1-make-one", "kakite/2-make-two")
    shown = [git(forge / "repo.git", "show", f"{branch}:b") for branch in branches]
    assert shown == ["1", "2"]
    pulls = [page.read_text(encoding="utf-8") for page in sorted((forge / "pulls").glob("*.md"))]
    assert len(pulls) == 2
    assert all("draft: false" in page and "state: open" in page for page in pulls)
    assert all("kakite:done" in file.read_text(encoding="utf-8") for file in files)
    asked = len(model.asked)
    assert work(place, model, "--forge", "local", str(forge), "--approve", "all").code == 0
    assert len(model.asked) == asked  # nothing is done again
    listed = run(place, "list", "--json").json
    assert [(each["status"], each["pushed"]) for each in listed] == [("done", True)] * 2


def test_half_a_character_that_a_model_writes_stops_no_task(place: Path, model: Answering) -> None:
    half = "\ud83d"
    plan = {"goal": f"a {half}", "steps": [half], "title": f"Make {half}", "check": ""}
    turns = [{"say": json.dumps(plan)}, command(f"echo 1 > b; echo {half}"), {"say": half}]
    model.scripts["Make half"] = [Turn.model_validate(turn, strict=False) for turn in turns]
    forge = local_forge(place)
    issue(forge, 1, "Make half")
    done = work(place, model, "--forge", "local", str(forge), "--approve", "all")
    assert done.code == 0, done.stderr
    assert git(forge / "repo.git", "show", "kakite/1-make-half:b") == "1"
    assert "state: open" in (forge / "pulls" / "001.md").read_text(encoding="utf-8")
    task = run(place, "list", "--json").json[0]["id"]
    assert run(place, "export", task, "--html", str(place / "page.html")).code == 0
    assert "calls run_command" in run(place, "logs", task).stdout


def test_a_call_waits_for_its_answer_and_only_for_its_own(place: Path, model: Answering) -> None:
    remote = make_remote(place, {"a": "1\n"})
    submitted = submit(place, model, "Make two", remote, "--json")
    assert submitted.code == 0, submitted.stderr
    task = submitted.json["id"]
    for tool_call in ("echo 2 > b", "echo 3 > c"):
        waits = work(place, model)
        assert (waits.code, "waits for a person (approval)" in waits.stderr) == (0, True), waits.stderr
        asks = run(place, "show", task, "--json").json["asks"]
        assert (asks["tool"], asks["arguments"]["command"]) == ("run_command", tool_call)
        wrong = run(place, "approve", task, "--digest", "0" * 16)
        assert (wrong.code, "other_digest" in wrong.stderr) == (1, True)
        if tool_call == "echo 2 > b":
            assert run(place, "approve", task, "--digest", asks["digest"]).code == 0
        else:
            assert run(place, "approve", task, "--no", "--reason", "not c").code == 0
    done = work(place, model)
    assert done.code == 0, done.stderr
    assert git(remote, "show", "topic:b") == "2"
    assert git(remote, "ls-tree", "--name-only", "topic").split() == ["a", "b"]
    assert run(place, "show", task, "--json").json["status"] == "done"
    again = run(place, "approve", task)
    assert (again.code, "nothing_asked" in again.stderr) == (1, True)
    told = run(place, "logs", task).stdout
    assert "calls run_command: echo 3 > c" in told
    assert run(place, "logs", task, "--follow").stdout == told
    kept = [json.loads(line) for line in run(place, "logs", task, "--json").stdout.splitlines()]
    assert {each["task"] for each in kept} == {task}
    assert [each["arguments"]["command"] for each in kept if each["event"] == "calling"][-1] == "echo 3 > c"
    assert "echo 3 > c" in run(place, "export", task, "--jsonl", "-").stdout
    nowhere = run(place, "logs", "task:nowhere")
    assert (nowhere.code, "story_unknown" in nowhere.stderr) == (1, True)


def test_what_is_paused_rests_and_goes_on(place: Path, model: Answering) -> None:
    remote = make_remote(place, {"a": "1\n"})
    settings = (
        "--model",
        "openai:scripted",
        "--base-url",
        model.url,
        "--sandbox",
        "local",
        "--approve",
        "all",
    )
    task = run(
        place, "submit", "Make one", "--repo", str(remote), "--branch", "topic", *settings
    ).stdout.strip()
    assert run(place, "pause", task).code == 0
    assert work(place, model).code == 0
    assert model.asked == []
    assert run(place, "resume", task).code == 0
    assert work(place, model).code == 0
    assert git(remote, "show", "topic:b") == "1"


def test_tasks_on_a_temporal_server_are_steered_by_the_same_commands(
    place: Path, model: Answering, temporal_server: str
) -> None:
    engine = ("--engine", "temporal", "--address", temporal_server)
    remote = make_remote(place, {"a": "1\n"})
    task = submit(place, model, "Make one", remote, *engine).stdout.strip()
    given_up = submit(place, model, "Make two", remote, *engine).stdout.strip()
    assert run(place, "cancel", given_up, *engine).code == 0
    assert run(place, "pause", task, *engine).code == 0
    waits = work(place, model, *engine)
    assert (waits.code, f"{task}: paused" in waits.stderr, model.asked) == (0, True, []), waits.stderr
    assert run(place, "resume", task, *engine).code == 0
    waits = work(place, model, *engine)
    assert "waits for a person (approval)" in waits.stderr, waits.stderr
    asks = run(place, "show", task, "--json", *engine).json["asks"]
    assert asks["arguments"]["command"] == "echo 1 > b"
    assert run(place, "approve", task, "--digest", asks["digest"], *engine).code == 0
    done = work(place, model, *engine)
    assert done.code == 0, done.stderr
    assert git(remote, "show", "topic:b") == "1"
    listed = {each["id"]: each["state"] for each in run(place, "list", "--json", *engine).json}
    assert (listed[task], listed[given_up]) == ("done", "cancelled")
    assert "calls run_command: echo 1 > b" in run(place, "logs", task, "--follow", *engine).stdout
    (place / "h2").mkdir()
    elsewhere = kakite("agent", "export", task, "--jsonl", "-", *engine, home=place / "h2")
    assert "echo 1 > b" in elsewhere.stdout, elsewhere.stderr


@pytest.mark.parametrize("kind", ["github", "gitlab"])
def test_the_same_worker_serves_github_and_gitlab(kind: str, place: Path, model: Answering) -> None:
    with WORLDS[kind](place) as world:
        fake: Any = world.fake
        url = fake.api_url if kind == "github" else fake.server
        opened = fake.ledger.open_issue("Make one", "Make one", by="ann")
        fake.ledger.label(opened, "kakite", by="ann")
        token = {f"KAKITE_{kind.upper()}_TOKEN": fake.token}
        done = work(place, model, "--forge", kind, fake.path, "--forge-url", url, "--approve", "all", **token)
        assert done.code == 0, done.stderr
        assert git(fake.repository.folder, "show", "kakite/1-make-one:b") == "1"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--forge", "svn", "x"], "bad_usage"),
        (["--forge", "github", "o/n"], "missing_token"),
        (["--engine", "temporal"], "bad_usage"),
        (["--label", "ready=x"], "bad_usage"),
        (["--on-ask", "never"], "bad_usage"),
    ],
)
def test_what_is_wrong_is_said_before_a_model_is_asked(
    arguments: list[str], code: str, place: Path, model: Answering
) -> None:
    found = work(place, model, *arguments)
    assert (found.code, f"({code})" in found.stderr) == (2, True), found.stderr
    assert model.asked == []
