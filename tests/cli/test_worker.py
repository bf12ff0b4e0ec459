"""``kakite agent worker`` and what steers its tasks, as a person or a program runs them."""

from __future__ import annotations

import json
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from kakite.models.scripted_model import ScriptedTurn
from kakite_testing.forges import Webhook
from tests.agent.answering import Answering, answering
from tests.agent.forges.worlds import WORLDS
from tests.bounds import WITHIN
from tests.cli.program import Outcome, argv, environment, kakite
from tests.cli.terminal import Terminal
from tests.forking import popen
from tests.repositories import git, make_remote

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

T = TypeVar("T")
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


@dataclass
class Working:
    """A worker that goes on until the test is over."""

    lines: list[str]
    process: subprocess.Popen[str]

    def said(self, words: str) -> str:
        """Return the line that holds these words, once it was said."""

        def find() -> str:
            assert self.process.poll() is None or self.reading.is_alive(), self.lines
            return next((line for line in list(self.lines) if words in line), "")

        return waited(find)

    def __post_init__(self) -> None:
        self.reading = threading.Thread(target=self._read, daemon=True)
        self.reading.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as told:
            for line in told:
                self.lines.append(line.rstrip("\n"))


@contextmanager
def at_work(place: Path, model: Answering, *more: str, **env: str) -> Generator[Working]:
    settings = ("--model", "openai:scripted", "--base-url", model.url, "--sandbox", "local", "--setup", "off")
    process = popen(
        argv("agent", "worker", *settings, *more),
        env=environment(place / "h", OPENAI_API_KEY="x", **env),
        cwd=place / "h",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    worker = Working([], process)
    try:
        yield worker
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(WITHIN)
        finally:
            process.kill()
            process.wait()
            worker.reading.join(WITHIN)


def waited(condition: Callable[[], T]) -> T:
    """Return what a condition says once it is true, not waiting for ever."""
    ends = time.monotonic() + WITHIN
    while not (found := condition()):
        assert time.monotonic() < ends, "it did not come"
        time.sleep(0.02)
    return found


def looks(address: str) -> int:
    with urllib.request.urlopen(address.replace("/webhook", "/healthz"), timeout=WITHIN) as answer:
        return json.loads(answer.read())["looks"]


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
    assert all(f"takes up #{number} (label)" in done.stderr for number in (1, 2))
    assert "✓" not in done.stderr  # steps are for terminals
    branches = ("kakite/1-make-one", "kakite/2-make-two")
    shown = [git(forge / "repo.git", "show", f"{branch}:b") for branch in branches]
    assert shown == ["1", "2"]
    pulls = [page.read_text(encoding="utf-8") for page in sorted((forge / "pulls").glob("*.md"))]
    assert len(pulls) == 2
    assert all("draft: false" in page and "state: open" in page for page in pulls)
    assert all("kakite:done" in file.read_text(encoding="utf-8") for file in files)
    asked = len(model.asked)
    again = work(place, model, "--forge", "local", str(forge), "--approve", "all")
    assert (again.code, again.stderr) == (0, "")  # nor told again
    assert len(model.asked) == asked  # nothing is done again
    listed = run(place, "list", "--json").json
    assert [(each["status"], each["pushed"]) for each in listed] == [("done", True)] * 2
    ids = {each["issue"]: each["id"] for each in listed}
    for given in ("#2", ids[2].partition("@")[0]):
        shown = run(place, "show", given, "--json")
        assert shown.code == 0, shown.stderr
        assert shown.json["id"] == ids[2]
    assert "echo 3 > c" in run(place, "logs", "#2").stdout
    assert "echo 3 > c" in run(place, "export", "#2", "--jsonl", "-").stdout
    pasted = ids[2].replace("#", "#\u200b")  # as a comment at a forge has it
    assert run(place, "show", pasted, "--json").json["id"] == ids[2]
    assert "echo 3 > c" in run(place, "logs", pasted).stdout
    assert "(task_unknown)" in run(place, "show", "2").stderr  # too little to mean anything
    for command in (["cancel"], ["cancel", "--now"], ["pause"]):
        over = run(place, *command, ids[2])
        assert (over.code, "has ended: done" in over.stderr) == (2, True), over.stderr
        assert "(run_ended)" in over.stderr
    both = run(place, "cancel", ids[2].partition("@")[2])  # the last part, which is the same here
    assert (both.code, "ambiguous_id" in both.stderr) == (2, True)
    assert all(f"`{each}`" in both.stderr for each in ids.values())


def test_at_a_terminal_the_steps_of_each_task_are_shown(place: Path, model: Answering) -> None:
    forge = local_forge(place)
    issue(forge, 1, "Make one")
    settings = ("--model", "openai:scripted", "--base-url", model.url, "--sandbox", "local", "--setup", "off")
    more = ("--forge", "local", str(forge), "--approve", "all", "--until-idle")
    env = environment(place / "h", OPENAI_API_KEY="x")
    seen = Terminal(argv("agent", "worker", *settings, *more), env, place / "h")
    seen.expect("takes up #1")
    seen.expect("✓ run_command: echo 1 > b")
    seen.expect("✓ ")
    assert seen.wait() == 0
    assert "#1 ✓" not in seen.seen  # it is the only one
    issue(forge, 2, "Make two")
    issue(forge, 3, "Make one")
    seen = Terminal(argv("agent", "worker", *settings, *more), env, place / "h")
    assert seen.wait() == 0
    assert "#2 ✓ run_command: echo 2 > b" in seen.seen
    assert "#1" not in seen.seen


def test_a_draft_comes_with_the_work_where_that_is_wanted(place: Path) -> None:
    forge = local_forge(place)
    issue(forge, 1, "Make six")
    with answering({"Make six": script(*(f"echo {number} >> b" for number in range(6)))}) as model:
        options = ("--forge", "local", str(forge), "--approve", "all", "--draft", "late")
        done = work(place, model, *options)
    assert done.code == 0, done.stderr
    assert git(forge / "repo.git", "rev-list", "--count", "main..kakite/1-make-six") == "1"
    wrong = run(place, "worker", "--draft", "soon")
    assert (wrong.code, "--draft takes early or late" in wrong.stderr) == (2, True)


def test_what_the_person_says_of_a_repository_holds_for_workers_and_what_is_submitted(
    place: Path, model: Answering
) -> None:
    forge = local_forge(place)
    issue(forge, 1, "Make one")
    own = place / "h/.config/kakite/kakite.yaml"
    own.parent.mkdir(parents=True)
    section = {"approve": "all", "max_turns": 7, "budget_calls": 5, "daily_minutes": 9}
    own.write_text(json.dumps({"repositories": {f"{forge}/*": section}}), encoding="utf-8")
    done = work(place, model, "--forge", "local", str(forge))
    assert done.code == 0, done.stderr
    assert git(forge / "repo.git", "show", "kakite/1-make-one:b") == "1"
    assert submit(place, model, "Make two", forge / "repo.git").code == 0
    shown = run(place, "list", "--json").json
    assert [each["budget"]["calls"] for each in shown if each.get("title") == "Make one"] == [5]
    assert work(place, model).code == 0
    assert git(forge / "repo.git", "show", "topic:b") == "2"


def test_what_was_not_shown_to_be_right_is_not_told_as_plainly_done(place: Path) -> None:
    forge = local_forge(place)
    issue(forge, 1, "Make one")
    plan = {"say": PLAN["say"].replace('"check": ""', '"check": "test -f c"')}
    turns = [plan, command("echo 1 > b"), *({"say": "Done."} for _ in range(20))]
    with answering({"Make one": turns}) as model:
        done = work(place, model, "--forge", "local", str(forge), "--approve", "all")
    assert done.code == 0, done.stderr
    assert ": done, but the check failed (branch kakite/1-make-one)\n" in done.stderr
    assert "  done, but the check failed  kakite/1-make-one  " in run(place, "list").stdout
    task = run(place, "list", "--json").json[0]["id"]
    assert "has ended: done, but the check failed" in run(place, "pause", task).stderr


def test_a_branch_is_listed_once_something_was_pushed_to_it(place: Path, model: Answering) -> None:
    remote = make_remote(place, {"a": "1\n"})
    assert submit(place, model, "Make two", remote, "--approve", "all").code == 0
    assert "topic" not in run(place, "list").stdout
    assert work(place, model).code == 0
    assert "topic" in run(place, "list").stdout


def test_tasks_that_could_change_nothing_are_not_begun(place: Path, model: Answering) -> None:
    forge = local_forge(place)
    issue(forge, 1, "Make one")
    refused = work(place, model, "--forge", "local", str(forge))
    assert (refused.code, "(nobody_to_ask)" in refused.stderr) == (2, True), refused.stderr
    assert all(way in refused.stderr for way in ("--approve edits", "--approve all", "--on-ask pause"))
    kept = submit(place, model, "Make one", forge / "repo.git", "--on-ask", "deny")
    assert (kept.code, "(nobody_to_ask)" in kept.stderr) == (2, True), kept.stderr
    assert run(place, "list", "--json").json == []
    assert model.asked == []
    waits = work(place, model, "--forge", "local", str(forge), "--on-ask", "pause")
    assert (waits.code, "waits for a person (approval)" in waits.stderr) == (0, True), waits.stderr


def test_the_command_in_the_comment_that_asks_lets_the_call_go(place: Path, model: Answering) -> None:
    forge = local_forge(place)
    file = issue(forge, 1, "Make one")
    pausing = ("--forge", "local", str(forge), "--on-ask", "pause")
    waits = work(place, model, *pausing)
    task = run(place, "list", "--json").json[0]["id"]
    assert f"; see `kakite agent show {shlex.quote(task)}`\n" in waits.stderr
    asked = file.read_text(encoding="utf-8")
    said = next(line for line in asked.splitlines() if "kakite agent approve" in line)
    paused = run(place, "pause", task).stderr
    command = said[said.index("kakite agent approve") :].rstrip("`").replace("\u200b", "")
    assert command in paused.partition(f"kakite agent resume {shlex.quote(task)}")[0]
    assert "kakite agent approve" in run(place, "resume", task).stderr  # it still waits for the answer
    answered = run(place, *shlex.split(said.lstrip("> "))[2:])
    assert answered.code == 0, answered.stderr
    assert "echo 1 > b" in answered.stderr
    assert work(place, model, *pausing).code == 0
    assert git(forge / "repo.git", "show", "kakite/1-make-one:b") == "1"


@pytest.mark.parametrize("on_failure", ["continue", "fail"])
def test_an_editor_that_does_not_start_is_told_below_the_issue(
    place: Path, model: Answering, on_failure: str
) -> None:
    forge = local_forge(place)
    file = issue(forge, 1, "Make one")
    editor = f"{{on_failure: {on_failure}, mcp_server: {{command: [no-such-editor]}}}}"
    arguments = ("--forge", "local", str(forge), "--approve", "all")
    done = work(place, model, *arguments, KAKITE_TEXT_EDITOR_MCP=editor)
    assert done.code == 0, done.stderr
    told = file.read_text(encoding="utf-8")
    assert "no-such-editor" in told
    assert told.count("**The editor could not be started.**") == (on_failure == "continue")
    assert ("kakite:done" in told) == (on_failure == "continue")
    assert ("kakite:paused" in told) == (on_failure == "fail")


def test_half_a_character_that_a_model_writes_stops_no_task(place: Path, model: Answering) -> None:
    half = "\ud83d"
    plan = {"goal": f"a {half}", "steps": [half], "title": f"Make {half}", "check": ""}
    turns = [{"say": json.dumps(plan)}, command(f"echo 1 > b; echo {half}"), {"say": half}]
    model.scripts["Make half"] = [ScriptedTurn.model_validate(turn, strict=False) for turn in turns]
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
            blind = run(place, "approve", task)
            assert blind.code == 1
            assert "digest_missing" in blind.stderr
            for command in ("approve", "resume"):
                inside = run(place, command, task, KAKITE_RUN="1")
                assert (inside.code, "person_required" in inside.stderr) == (1, True), inside.stderr
            assert tool_call in blind.stderr
            assert run(place, "approve", task, "--digest", asks["digest"]).code == 0
        else:
            assert run(place, "approve", task, "--no", "--reason", "not c").code == 0
    done = work(place, model)
    assert done.code == 0, done.stderr
    assert f"{task}: continues with {task}\n" in done.stderr
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
    assert [each["arguments"]["command"] for each in kept if each["type"] == "call"][-1] == "echo 3 > c"
    assert "echo 3 > c" in run(place, "export", task, "--jsonl", "-").stdout
    nowhere = run(place, "logs", "task:nowhere")
    assert (nowhere.code, "task_unknown" in nowhere.stderr) == (2, True)


def test_a_submitted_task_keeps_the_limits_that_it_was_given(place: Path, model: Answering) -> None:
    remote = make_remote(place, {"a": "1\n"})
    limits = ("--approve", "all", "--budget-calls", "1", "--network", "registries", "--hosts", "a.example")
    task = submit(place, model, "Make two", remote, *limits).stdout.strip()
    assert work(place, model).code == 0
    shown = run(place, "show", task, "--json").json
    assert (shown["asks"]["kind"], shown["budget"]["calls"], shown["spent"]["calls"]) == ("budget", 1, 1)
    assert run(place, "submit", " ", "--repo", str(remote), "--model", "openai:x").code == 2
    assert "`--network`" in submit(place, model, "Make two", remote, "--network", "all").stderr


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


def without_a_sandbox(place: Path) -> str:
    """Return a PATH with all that a worker needs but what makes sandboxes."""
    folder = place / "bin"
    folder.mkdir()
    for name in ("git", "sh", "env", "python3"):
        (folder / name).symlink_to(shutil.which(name) or name)
    return str(folder)


def test_a_worker_whose_sandbox_cannot_be_made_takes_nothing_up(place: Path, model: Answering) -> None:
    forge = local_forge(place)
    file = issue(forge, 1, "Make one")
    before = file.read_text(encoding="utf-8")
    path = without_a_sandbox(place)
    for kind in ("auto", "bubblewrap"):
        options = ("--forge", "local", str(forge), "--approve", "all", "--sandbox", kind)
        refused = work(place, model, *options, PATH=path)
        assert (refused.code, "error (sandbox_missing)" in refused.stderr) == (2, True), refused.stderr
        assert "hint: " in refused.stderr
    left = submit(place, model, "Make one", forge / "repo.git", "--sandbox", "bubblewrap")
    assert left.code == 0
    refused = run(place, "submit", "x", "--repo", str(forge / "repo.git"), "--model", "openai:x", PATH=path)
    assert (refused.code, "sandbox_missing" in refused.stderr) == (2, True), refused.stderr
    assert file.read_text(encoding="utf-8") == before
    assert [each["id"] for each in run(place, "list", "--json").json] == [left.stdout.strip()]


def test_a_worker_without_the_key_of_its_model_takes_nothing_up(place: Path) -> None:
    forge = local_forge(place)
    file = issue(forge, 1, "Make one")
    before = file.read_text(encoding="utf-8")
    options = ("--forge", "local", str(forge), "--approve", "all", "--sandbox", "local", "--until-idle")
    refused = run(place, "worker", *options, "--model", "anthropic:claude-sonnet-5-5")
    assert (refused.code, "error (model_no_key)" in refused.stderr) == (2, True), refused.stderr
    assert "hint: set ANTHROPIC_API_KEY in the environment; `kakite agent demo`" in refused.stderr
    assert file.read_text(encoding="utf-8") == before
    assert run(place, "list", "--json").json == []


def test_other_settings_for_a_task_that_keeps_its_own_are_refused(place: Path, model: Answering) -> None:
    remote = make_remote(place, {"a": "1\n"})
    task = submit(place, model, "Make one", remote, "--approve", "all").stdout.strip()
    assert run(place, "pause", task).code == 0
    refused = run(place, "resume", task, "--model", "openai:other", "--base-url", "http://127.0.0.1:9/v1")
    assert (refused.code, "continues" in refused.stderr) == (2, False), refused.stderr
    assert "--model, --base-url would change nothing" in refused.stderr
    assert f"kakite agent resume {task}\n" in refused.stderr
    assert run(place, "show", task, "--json").json["state"] == "paused"
    gone_on = run(place, "resume", task, "--json")
    assert (gone_on.code, gone_on.json) == (0, {"id": task})


def test_tasks_and_runs_are_listed_together_the_latest_first(place: Path, model: Answering) -> None:
    remote = make_remote(place, {"a": "1\n"})
    nowhere = ("--model", "openai:x", "--base-url", "http://127.0.0.1:9/v1", "--sandbox", "local")
    begin = ("run", "Begin", "--repo", str(remote), *nowhere, "--approve", "all")
    assert run(place, *begin).code == 3
    assert submit(place, model, "Make one", remote).code == 0
    assert run(place, *begin).code == 3
    listed = [line.split()[-1] for line in run(place, "list").stdout.splitlines()]
    assert listed == ["Begin", "queued", "Begin"]


def test_a_worker_until_idle_does_what_was_resumed_before_it_began(place: Path, model: Answering) -> None:
    remote = make_remote(place, {"a": "1\n"})
    task = submit(place, model, "Make two", remote, "--approve", "all", "--max-turns", "2").stdout.strip()
    assert work(place, model).code == 0
    assert run(place, "show", task, "--json").json["asks"]["kind"] == "budget"
    gone_on = run(place, "resume", task)
    assert (gone_on.code, "the next free worker takes it" in gone_on.stderr) == (0, True)
    assert work(place, model).code == 0
    assert git(remote, "show", "topic:b") == "2"
    over = run(place, "resume", task)
    assert (over.code, "run_ended" in over.stderr) == (2, True)


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
    assert (listed[task], listed[given_up]) == ("done", "done")
    assert run(place, "show", given_up, "--json", *engine).json["status"] == "stopped"
    assert "calls run_command: echo 1 > b" in run(place, "logs", task, "--follow", *engine).stdout
    (place / "h2").mkdir()
    elsewhere = kakite("agent", "export", task, "--jsonl", "-", *engine, home=place / "h2")
    assert "echo 1 > b" in elsewhere.stdout, elsewhere.stderr


def test_the_end_of_a_command_leaves_the_threads_of_temporals_runtime_their_interpreter(
    place: Path, temporal_server: str
) -> None:
    """They abort the process (SIGABRT, now and then) in an interpreter that is being taken down."""
    taken_down = "# clear sys.audit hooks"
    told = {"PYTHONVERBOSE": "1"}
    assert taken_down in kakite("--version", home=place, env=told).stderr
    listed = run(place, "list", "--engine", "temporal", "--address", temporal_server, **told)
    assert (listed.code, taken_down in listed.stderr) == (0, False)


@pytest.mark.parametrize("kind", ["github", "gitlab"])
def test_the_same_worker_serves_github_and_gitlab(kind: str, place: Path, model: Answering) -> None:
    with WORLDS[kind](place) as world:
        fake: Any = world.fake
        url = fake.api_url if kind == "github" else fake.server
        opened = fake.state.open_issue("Make one", "Make one", by="ann")
        fake.state.label(opened, "kakite", by="ann")
        token = {f"KAKITE_{kind.upper()}_TOKEN": fake.token}
        done = work(place, model, "--forge", kind, fake.path, "--forge-url", url, "--approve", "all", **token)
        assert done.code == 0, done.stderr
        assert git(fake.repository.folder, "show", "kakite/1-make-one:b") == "1"


@pytest.mark.parametrize("kind", ["github", "gitlab"])
def test_a_webhook_leads_to_a_task_although_the_next_look_is_an_hour_away(
    kind: str, place: Path, model: Answering
) -> None:
    secret = "s3cret-of-the-hook"
    with WORLDS[kind](place) as world:
        fake: Any = world.fake
        url = fake.api_url if kind == "github" else fake.server
        told = ("--forge", kind, fake.path, "--forge-url", url, "--approve", "all", "--poll", "3600")
        env = {f"KAKITE_{kind.upper()}_TOKEN": fake.token, "KAKITE_WEBHOOK_SECRET": secret}
        with at_work(place, model, *told, "--webhooks", "127.0.0.1:0", **env) as worker:
            listens = worker.said("listens for webhooks at ")
            address = listens.rpartition(" ")[2]
            waited(lambda: looks(address) >= 1)
            fake.outbox.hooks.append(Webhook(url=address, secret=secret))
            opened = fake.state.open_issue("Make one", "Make one", by="ann")
            fake.state.label(opened, "kakite", by="ann")
            worker.said("takes up #1 (label by ann)")
            waited(lambda: "kakite:processing" in opened.labels)
            assert {each.status for each in list(fake.outbox.deliveries)} <= {200, 202}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--webhooks", "127.0.0.1:0"], "bad_usage"),
        (["--webhooks", "127.0.0.1:0", "--forge", "gitlab", "o/n"], "missing_secret"),
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
