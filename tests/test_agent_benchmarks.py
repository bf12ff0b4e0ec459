"""The adapters to benchmarks of coding agents, each on three small instances of its own form."""

from __future__ import annotations

import asyncio
import importlib.metadata
import importlib.util
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from acp.helpers import text_block
from acp.stdio import spawn_agent_process
from packaging.requirements import Requirement
from scripts.environment import follow

from kakite_testing.fake_providers import ScenarioServer, run_scenario_server
from tests.bounds import WITHIN
from tests.cli.program import environment
from tests.cli.test_acp import Editor
from tests.cli.test_agent_run import calls, done, edit, script
from tests.conftest import image_name
from tests.engines import ROOT, Engine, import_tiny_image
from tests.packaging.index import pack
from tests.repositories import git

pytestmark = pytest.mark.slow

AGENT = Path(__file__).parents[1] / "benchmarks" / "agent"
PROGRAMS = ("sh", "cat", "grep", "ls", "ps", "sleep", "mkdir", "chmod", "chown", "touch", "id")
PLAN = {
    "say": '{"goal": "it greets", "steps": ["edit"], "title": "Greet", "check": "grep -q world greet.py"}'
}
SOLVED = (PLAN, edit(), done())
NAMES = ("Tiny__greet-1", "Tiny__greet-2", "Tiny__greet-3")


def start(name: str, *words: str, home: Path, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(AGENT / name), *words],
        env=environment(home, OPENAI_API_KEY="key", **(env or {})),
        cwd=home,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


def bench(name: str, *words: str, home: Path, env: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Run a benchmark to its end; return its exit code, and what it printed."""
    with start(name, *words, home=home, env=env) as running:
        out, err = running.communicate(timeout=600)
    return running.returncode, out + err


def read_lines(file: Path, key: str = "instance_id") -> dict[str, Any]:
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return {each[key]: each for each in lines}


def write_lines(file: Path, lines: Iterable[object]) -> Path:
    file.write_text("".join(json.dumps(each) + "\n" for each in lines), encoding="utf-8")
    return file


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "person"
    folder.mkdir()
    return folder


def make_code(folder: Path) -> str:
    """Make a repository that does not greet the world; return its commit."""
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet")
    (folder / "greet.py").write_text("def greet():\n    return 'hello'\n", encoding="utf-8")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=First")
    return git(folder, "rev-parse", "HEAD")


def instances(file: Path, repo: str, commit: str) -> Path:
    told = "The greeting does not name the world."
    made = [{"repo": repo, "base_commit": commit, "problem_statement": f"{told} {name}"} for name in NAMES]
    return write_lines(file, [{"instance_id": name, **each} for name, each in zip(NAMES, made, strict=True)])


def applies(patch: str, code: Path) -> str:
    """Return the file of the code once the patch is applied, as SWE-bench's harness does it."""
    file = code.parent / "patch"
    file.write_text(patch, encoding="utf-8")
    git(code, "apply", str(file))
    try:
        return (code / "greet.py").read_text(encoding="utf-8")
    finally:
        git(code, "reset", "--quiet", "--hard")


def test_instances_in_their_images_become_predictions_and_a_broken_one_stops_no_other(
    docker: Engine, home: Path, tmp_path: Path
) -> None:
    commit = make_code(tmp_path / "tiny" / "testbed")
    import_tiny_image(docker, "tiny-swe:1", tmp_path / "tiny", PROGRAMS)
    for name in (NAMES[0], NAMES[2]):
        docker("tag", "tiny-swe:1", f"tiny/{name.replace('__', '_1776_').lower()}:1")
    listed = instances(tmp_path / "instances.jsonl", "tiny/greet", commit)
    out = tmp_path / "out"
    engine = {"DOCKER_HOST": docker.environ["DOCKER_HOST"]}

    def predict(server: ScenarioServer) -> tuple[int, str]:
        told = ("--model", "openai:scripted", "--image", "tiny/{id}:1", "--out", str(out))
        more = ("--base-url", server.openai_url, "--sandbox", "local")
        return bench("swebench.py", str(listed), *told, "--", *more, home=home, env=engine)

    with run_scenario_server(script(*SOLVED, *SOLVED)) as server:
        code, told = predict(server)
        assert server.violations == ()
    assert code == 1, told
    predictions = read_lines(out / "predictions.jsonl")
    assert [*predictions] == [NAMES[0], NAMES[2]], told
    for name, each in predictions.items():
        assert each == {**each, "instance_id": name, "model_name_or_path": "kakite+openai:scripted"}
        assert applies(each["model_patch"], tmp_path / "tiny" / "testbed").endswith("'hello, world'\n")
    results = read_lines(out / "results.jsonl")
    assert [results[name]["status"] for name in (NAMES[0], NAMES[2])] == ["done", "done"]
    trajectory = json.loads((out / "trajectories" / f"{NAMES[0]}.json").read_text(encoding="utf-8"))
    assert (trajectory["extra"]["status"], trajectory["extra"]["doubt"]) == ("done", "")
    assert not [*(out / "state").rglob("mirror.git")]  # nothing of a run is kept besides

    # The image is there now: this one alone is run.
    docker("tag", "tiny-swe:1", f"tiny/{NAMES[1].replace('__', '_1776_').lower()}:1")
    with run_scenario_server(script(*SOLVED)) as server:
        code, told = predict(server)
        assert len(server.requests) == 3
    assert code == 0, told
    assert {*read_lines(out / "predictions.jsonl")} == {*NAMES}


def test_instances_without_an_image_are_cloned_at_their_commit_and_go_on_after_an_interruption(
    home: Path, tmp_path: Path
) -> None:
    code = tmp_path / "greet"
    commit = make_code(code)
    (code / "greet.py").write_text("the solution of tomorrow\n", encoding="utf-8")
    git(code, "commit", "--quiet", "--all", "--message=Second")
    listed = instances(tmp_path / "instances.jsonl", str(code), commit)
    out = tmp_path / "out"

    def words(server: ScenarioServer) -> tuple[str, ...]:
        told = ("--clone", "--model", "openai:scripted", "--out", str(out))
        return str(listed), *told, "--", "--base-url", server.openai_url, "--sandbox", "local"

    look = calls("run_command", {"command": "git log --all --format=%s; git fsck --lost-found"})
    hangs = {**done(), "pause": WITHIN}
    with run_scenario_server(script(PLAN, look, edit(), done(), PLAN, hangs)) as server:
        with start("swebench.py", *words(server), home=home) as running:
            assert running.stdout is not None
            while NAMES[0] not in (line := running.stdout.readline()):
                assert line, running.communicate(timeout=WITHIN)[1]
            running.send_signal(signal.SIGTERM)
            told = running.communicate(timeout=WITHIN)[1]
            assert "begin again" in told
            assert running.returncode == 1
        seen = json.loads(server.requests[2].body)["messages"]
    [looked] = [each["content"] for each in seen if each["role"] == "tool"]
    assert NAMES[0] in looked  # the one commit that there is
    assert "Second" not in looked
    assert [*read_lines(out / "predictions.jsonl")] == [NAMES[0]]
    with (out / "predictions.jsonl").open("a", encoding="utf-8") as stream:
        stream.write('{"instance_id": "Tiny__gr')  # as power fails
    with run_scenario_server(script(*SOLVED, *SOLVED)) as server:
        code_of, told = bench("swebench.py", *words(server), home=home)
        assert len(server.requests) == 6
    assert code_of == 0, told
    predictions = read_lines(out / "predictions.jsonl")
    assert [*predictions] == [*NAMES]
    git(code, "checkout", "--quiet", commit)
    for each in predictions.values():
        assert applies(each["model_patch"], code).endswith("'hello, world'\n")


def test_a_line_that_is_no_instance_is_named(home: Path, tmp_path: Path) -> None:
    listed = write_lines(tmp_path / "instances.jsonl", [{"instance_id": "a__b-1"}])
    code, told = bench("swebench.py", str(listed), "--out", "o", "--model", "openai:m", home=home)
    assert code == 1
    assert "instance 1 has no problem_statement" in told


TESTS_OF_EXERCISE = """\
import unittest

from {name} import add


class AddTest(unittest.TestCase):
    def test_numbers(self):
        self.assertEqual(add(1, 2), 3)

    def test_words(self):
        self.assertEqual(add("a", "b"), "a b")
"""
RIGHT = "def add(a, b):\n    return a + b if isinstance(a, int) else f'{a} {b}'\n"


def make_exercise(root: Path, name: str) -> None:
    """Make an exercise in the form of aider's benchmark."""
    folder = root / "python/exercises/practice" / name
    files = {
        ".docs/instructions.md": f"# Instructions\n\nAdd two things in {name}.\n",
        ".docs/instructions.append.md": "# More\n\nWords have a blank between them.\n",
        ".meta/config.json": json.dumps(
            {
                "files": {
                    "solution": [f"{name}.py"],
                    "test": [f"{name}_test.py"],
                    "example": [".meta/example.py"],
                }
            }
        ),
        ".meta/example.py": RIGHT,
        f"{name}.py": "def add(a, b):\n    pass\n",
        f"{name}_test.py": TESTS_OF_EXERCISE.format(name=name),
    }
    for path, text in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def solve(name: str, new: str) -> dict[str, Any]:
    return edit("def add(a, b):\n    pass\n", new, f"{name}.py")


def test_exercises_are_tried_twice_with_tests_that_the_model_sees_only_when_they_fail(
    docker: Engine, home: Path, tmp_path: Path
) -> None:
    for name in ("first", "second", "third"):
        make_exercise(tmp_path / "exercises", name)
    plan = {"say": '{"goal": "it adds", "steps": ["edit"], "title": "Add", "check": ""}'}
    half = "def add(a, b):\n    return a + b\n"
    cheat = {"command": "create", "path": "third_test.py", "file_text": "", "overwrite": True}
    looked = calls("run_command", {"command": "ls -A; ls -A /; git log --format=%s"})
    turns = [
        *(plan, solve("first", RIGHT), done()),
        *(plan, looked, edit("no such text", "x", "second.py"), solve("second", half), done()),
        {"expect": {"last_contains": ["AssertionError: 'ab' != 'a b'"]}, **plan},
        *(edit(half, RIGHT, "second.py"), done()),
        *(plan, solve("third", half), done()),
        *(plan, calls("text_editor", cheat), done()),
    ]
    before = docker.ours()
    out = tmp_path / "out"
    words = (str(tmp_path / "exercises"), "--out", str(out), "--model", "openai:scripted")
    with run_scenario_server(script(*turns)) as server:
        more = ("--", "--base-url", server.openai_url, "--sandbox", "local")
        code, told = bench(
            "polyglot.py",
            *(*words, "--image", image_name("base"), *more),
            home=home,
            env={"DOCKER_HOST": docker.environ["DOCKER_HOST"]},
        )
        assert server.violations == (), told
        asked = [request.json["messages"] for request in server.requests]
    assert code == 0, told
    results = read_lines(out / "results.jsonl", "exercise")
    assert {
        name: (each["passed"], each["edits"], each["malformed_edits"]) for name, each in results.items()
    } == {
        "python/first": ([True], 1, 0),
        "python/second": ([False, True], 3, 1),
        "python/third": ([False, False], 2, 0),
    }
    assert [each["requests"] for each in results.values()] == [3, 8, 6]
    for line in (
        *("exercises:              3", "passed in try 1:        33.3%", "passed in try 1 or 2:   66.7%"),
        *("all edits well-formed:  66.7% of the exercises", "well-formed edits:      83.3% of 6"),
    ):
        assert line in told
    assert "Words have a blank between them." in str(asked[0])
    [seen] = [each["content"] for each in asked[5] if each["role"] == "tool"]
    assert "second.py" in seen
    assert not {word for word in ("second_test", ".meta", ".docs") if word in seen}
    assert json.loads((out / "trajectories/python-second.json").read_text(encoding="utf-8"))["steps"]
    assert docker.ours() == before

    # All is done: nothing is run again.
    code, told = bench("polyglot.py", *words, "--image", "none", home=home)
    assert (code, "3 of them done already" in told) == (0, True), told


def test_a_folder_without_exercises_is_refused(home: Path, tmp_path: Path) -> None:
    words = ("--out", "o", "--model", "openai:m", "--image", "i")
    for more in ((), ("--languages", "cobol")):
        code, told = bench("polyglot.py", str(tmp_path), *words, *more, home=home)
        assert code == 2
        assert "has no exercises" in told or "no tests are known for cobol" in told


def harbor_commands() -> Any:
    """Return the module of the command lines for Harbor, as Harbor finds it: by its file."""
    spec = importlib.util.spec_from_file_location("harbor_commands", AGENT / "harbor_commands.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make_wheels(folder: Path) -> str:
    """Put this checkout's wheel into a folder, and what it needs, as it is installed here."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=300)
    (ours,) = folder.glob("kakite-*.whl")
    for _, one in follow([Requirement("kakite[agent,acp]")]):
        if one.name != "kakite":
            pack(folder, one.name, importlib.metadata.version(one.name), whole=True)
    return ours.name


def make_task(folder: Path, instruction: str, base: str, setup: str, judge: str) -> Path:
    """Make a task in Harbor's form."""
    files = {
        "task.toml": 'version = "1.0"\n\n[agent]\ntimeout_sec = 120.0\n',
        "instruction.md": instruction,
        "environment/Dockerfile": f"FROM {base}\nUSER root\nWORKDIR /app\nRUN {setup}\n",
        "tests/test.sh": f"cd /app; if {judge}; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n",
    }
    for path, text in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return folder


@dataclass(frozen=True)
class HarborTrial:
    """A container of a task in which commands are run as Harbor runs them."""

    engine: Engine
    name: str

    def exec(self, command: str, *options: str) -> str:
        return self.engine("exec", *options, self.name, "sh", "-c", command)


@contextmanager
def harbor_trial(engine: Engine, image: str) -> Generator[HarborTrial]:
    name = f"trial-{image.partition(':')[0].replace('/', '-')}"
    keep = ("--entrypoint", "sh", image, "-c", "while read -r _; do :; done")
    host = ("--user", "root", "--network", "host")
    engine("run", "--detach", "--interactive", *host, "--name", name, *keep)
    try:
        yield HarborTrial(engine, name)
    finally:
        engine("rm", "--force", name)


@pytest.fixture(scope="module")
def harbor_base(docker: Engine, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An image in which Kakite is installed as its agent of Harbor does it."""
    wheels = tmp_path_factory.mktemp("wheels")
    ours = make_wheels(wheels)
    # With an index pip takes versions that fit Debian's Python; here are those of this environment alone.
    settings = ("PIP_NO_INDEX=1", "PIP_FIND_LINKS=/installed-agent", "PIP_IGNORE_REQUIRES_PYTHON=1")
    offline = [word for each in settings for word in ("--env", each)]
    requirement = f"kakite[agent,acp] @ file:///installed-agent/{ours}"
    with harbor_trial(docker, image_name("base")) as trial:
        docker("cp", f"{wheels}/.", f"{trial.name}:/installed-agent")
        told = trial.exec(harbor_commands().build_install_command(requirement), *offline)
        assert importlib.metadata.version("kakite") in told
        docker("commit", trial.name, "harbor-base:1")
    return "harbor-base:1"


def install_agent(trial: HarborTrial, instruction: str, environ: Sequence[str]) -> None:
    """Work on a task as `harbor_agent.py` does, which also leaves a trajectory."""
    commands = harbor_commands()
    trial.exec(commands.build_run_command(instruction, "openai/scripted"), *environ)
    trajectory = json.loads(trial.exec("cat /logs/agent/trajectory.json"))
    assert instruction in trajectory["steps"][0]["message"]
    used = commands.read_usage(trajectory)
    assert (used["n_input_tokens"], used["n_output_tokens"]) in {(900, 30), (0, 0)}
    assert "turn_ended" in trial.exec("cat /logs/agent/kakite.jsonl")


def speak_acp(trial: HarborTrial, instruction: str, environ: Sequence[str]) -> None:
    """Work on a task as Harbor's client of ACP does, by the entry that the page shows."""
    page = (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8")
    local = json.loads(page.partition("```json\n")[2].partition("```")[0])["distribution"]["local"]
    words = ["openai:scripted" if ":" in word else word for word in local["args"]]

    async def prompt() -> None:
        client: Any = Editor()
        path = f"PATH={harbor_commands().HOME}/bin:/usr/bin:/bin"
        command = ("exec", "--interactive", *environ, "--env", path, trial.name, local["cmd"], *words)
        async with (
            asyncio.timeout(WITHIN),
            spawn_agent_process(client, "/usr/bin/docker", *command, env=dict(trial.engine.environ)) as (
                connection,
                _,
            ),
        ):
            await connection.initialize(protocol_version=1)
            session = await connection.new_session(cwd="/app", mcp_servers=[])
            await connection.prompt(session_id=session.session_id, prompt=[text_block(instruction)])

    asyncio.run(prompt())


@pytest.mark.parametrize("work", [install_agent, speak_acp])
def test_tasks_of_harbor_are_worked_on_by_an_installed_agent_and_by_acp(
    work: Callable[[HarborTrial, str, Sequence[str]], None], docker: Engine, harbor_base: str, tmp_path: Path
) -> None:
    greeting = 'It\'s to greet the world: $(see) "greet.py".'
    prepared = "echo \"hello = 'hello'\" > greet.py && git init -q"
    tasks = [
        make_task(
            tmp_path / "hello", "Write it to hello.txt.", harbor_base, "true", "grep -qx hello hello.txt"
        ),
        make_task(tmp_path / "greet", greeting, harbor_base, prepared, "grep -q 'hello, world' greet.py"),
        make_task(tmp_path / "hard", "-- Prove it.", harbor_base, "true", "test -e proof"),
    ]
    created = {"command": "create", "path": "hello.txt", "file_text": "hello\n"}
    turns = [
        *(calls("text_editor", created), done(usage={"input": 900, "output": 30})),
        {"expect": {"last_contains": [greeting]}, **edit()},
        *(calls("run_command", {"command": "cat greet.py; pwd; echo $OPENAI_API_KEY"}), done()),
        {"say": "I cannot prove it."},
    ]
    rewards: list[str] = []
    with run_scenario_server(script(*turns)) as server:
        told = ("OPENAI_API_KEY=key-of-a-person", f"KAKITE_BASE_URL={server.openai_url}")
        environ = [word for each in told for word in ("--env", each)]
        for task in tasks:
            image = f"harbor-{task.name}:1"
            docker("build", "--tag", image, str(task / "environment"))
            instruction = (task / "instruction.md").read_text(encoding="utf-8")
            with harbor_trial(docker, image) as trial:
                trial.exec("mkdir -p /logs/agent /logs/verifier")
                work(trial, instruction, environ)
                docker("cp", str(task / "tests"), f"{trial.name}:/tests")
                trial.exec("sh /tests/test.sh")
                rewards.append(trial.exec("cat /logs/verifier/reward.txt"))
        assert server.violations == ()
        assert "key-of-a-person" not in str([request.json for request in server.requests])
    assert rewards == ["1", "1", "0"]


def test_what_fails_from_outside_is_an_error_for_harbor(docker: Engine, harbor_base: str) -> None:
    line = harbor_commands().build_run_command("Greet", "nobody/nothing")
    with harbor_trial(docker, harbor_base) as trial:
        said = trial.exec(f"(\n{line}) 2>&1; echo code $?").splitlines()
    assert said[-1] == "code 2"
    assert "nobody" in "".join(said)


def test_models_are_named_as_harbor_or_kakite_does() -> None:
    commands = harbor_commands()
    assert commands.name_model("openrouter/qwen/qwen3") == "openrouter:qwen/qwen3"
    assert commands.name_model("openai:gpt-5") == "openai:gpt-5"
    assert commands.name_keys("google/gemini-3") == ("GOOGLE_API_KEY", "GEMINI_API_KEY")
