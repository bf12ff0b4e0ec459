"""``kakite agent run --container``: the code and its tools are those of somebody's image or container."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kakite_testing.fake_providers import ScenarioServer, run_scenario_server
from tests.bounds import WITHIN
from tests.cli.program import Outcome, kakite
from tests.cli.test_agent_run import calls, done, edit, script
from tests.engines import Engine, import_tiny_image
from tests.repositories import git

pytestmark = pytest.mark.slow

PROGRAMS = ("sh", "cat", "grep", "ls", "ps", "sleep", "mkdir", "chmod", "chown", "touch", "id")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "person"
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def image(docker: Engine, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An image with a repository in ``/testbed``, in which something is built, and something changed."""
    folder = tmp_path_factory.mktemp("tiny")
    code = folder / "testbed"
    code.mkdir()
    git(code, "init", "--quiet")
    (code / "greet.py").write_text("def greet():\n    return 'hello'\n", encoding="utf-8")
    (code / ".gitignore").write_text("*.so\n", encoding="utf-8")
    git(code, "add", "--all")
    git(code, "commit", "--quiet", "--message=First")
    (code / "built.so").write_text("built\n", encoding="utf-8")
    (code / "setting").write_text("of the image\n", encoding="utf-8")
    (folder / "root").mkdir()
    (folder / "root/.profile").write_text("export MARK=login\n", encoding="utf-8")
    return import_tiny_image(docker, "tiny-code:1", folder, PROGRAMS)


def plan(check: str) -> dict[str, Any]:
    return {"say": json.dumps({"goal": "it greets", "steps": ["edit"], "title": "Greet", "check": check})}


def run(
    engine: Engine, home: Path, server: ScenarioServer, container: str, *more: str, sandbox: str = "local"
) -> Outcome:
    fixed = ("--model", "openai:scripted", "--base-url", server.openai_url, "--approve", "all", "--json")
    words = ("agent", "run", "Greet", "--container", container, "--sandbox", sandbox, *fixed, *more)
    return kakite(*words, home=home, env=only_engine(engine))


def only_engine(engine: Engine) -> Mapping[str, str]:
    return {"DOCKER_HOST": engine.environ["DOCKER_HOST"]}


def read_results(server: ScenarioServer) -> list[str]:
    """Return what the tools answered, as the model saw it in the end."""
    messages = json.loads(server.requests[-1].body)["messages"]
    return [str(message["content"]) for message in messages if message["role"] == "tool"]


def test_the_code_of_an_image_is_worked_on_where_it_is(docker: Engine, image: str, home: Path) -> None:
    before = docker.ours()
    patch = home / "work.patch"
    look = (
        "pwd; echo $MARK; cat greet.py built.so setting; ls .git/HEAD; touch ~/x /tmp/x; sleep 600 & exit 3"
    )
    turns = (
        plan("grep -q world greet.py && grep -q built built.so"),
        edit(path="/testbed/greet.py"),
        calls("run_command", {"command": look}, {"command": "ps -e; touch new"}, {"command": "id -u"}),
        calls("run_command", {"command": "sleep 600", "timeout": 1}),
        done(),
    )
    with run_scenario_server(script(*turns)) as server:
        more = ("--workdir", "/testbed", "--patch", str(patch))
        outcome = run(docker, home, server, image, *more, sandbox="container")
        _, looked, seen, user, stopped = read_results(server)
    assert outcome.code == 0, outcome.stderr
    report = outcome.json
    assert (report["status"], report["pushed"], report["checked"]) == ("done", False, True)
    # Nothing of standard error is there: the home can be written to.
    head, _, rest = looked.partition("\n")
    assert head.startswith("exit code 3")
    assert rest.strip() == (
        "/testbed\nlogin\ndef greet():\n    return 'hello, world'\nbuilt\nof the image\n.git/HEAD"
    )
    assert "sleep" not in seen  # what a command leaves behind is ended
    assert user.splitlines()[-1] == "59000"  # as in every container: nobody in particular
    assert "timed_out" in stopped
    # A patch of what was done, not of what lay there; it fits the repository that the image has.
    assert [
        line.split()[-1] for line in patch.read_text("utf-8").splitlines() if line.startswith("diff")
    ] == [
        "b/greet.py",
        "b/new",
    ]
    assert docker.ours() == before


def test_a_container_of_the_person_stays_as_it_is(docker: Engine, image: str, home: Path) -> None:
    name = "of-the-person"
    first = "echo more >> greet.py; echo first; while read -r _; do :; done"
    docker("create", "--name", name, "--interactive", "--workdir", "/testbed", image, "sh", "-c", first)
    with subprocess.Popen(
        ["docker", "start", "--attach", "--interactive", name],
        env=dict(docker.environ),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as running:
        try:
            assert running.stdout is not None
            assert running.stdout.readline() == b"first\n"
            turns = (plan("grep -q more greet.py && grep -q built built.so"), edit(), done())
            with run_scenario_server(script(*turns)) as server:
                outcome = run(docker, home, server, name, "--workdir", "/testbed")
            assert outcome.code == 0, outcome.stderr
            assert outcome.json["checked"] is True
            assert "world" not in docker("exec", name, "cat", "greet.py")
            assert not docker("images", "--quiet", "kakite/copy")
        finally:
            docker("rm", "--force", name)


def test_what_only_lies_in_the_work_tree_does_not_pass_the_last_check(
    docker: Engine, image: str, home: Path
) -> None:
    turns = (plan("ls made.so"), edit(), calls("run_command", {"command": "touch made.so"}), done(), done())
    with run_scenario_server(script(*turns)) as server:
        outcome = run(docker, home, server, image, "--workdir", "/testbed", "--max-turns", "5")
    assert (outcome.code, outcome.json["checked"]) == (1, False), outcome.stderr
    assert outcome.json["status"] == "limit"  # the model was told, and had no turn left to mend it


def test_a_repository_of_the_person_is_mounted_over_the_folder(
    docker: Engine, image: str, home: Path
) -> None:
    remote = home / "code"
    remote.mkdir()
    git(remote, "init", "--quiet")
    (remote / "greet.py").write_text("print('hello')\n", encoding="utf-8")
    git(remote, "add", "--all")
    git(remote, "commit", "--quiet", "--message=First")
    with run_scenario_server(script(plan("grep -q world greet.py"), edit(), done())) as server:
        outcome = run(
            docker, home, server, image, "--workdir", "/work", "--repo", str(remote), "--branch", "topic"
        )
    assert outcome.code == 0, outcome.stderr
    assert (outcome.json["pushed"], outcome.json["checked"]) == (True, True)
    assert "world" in git(remote, "show", "topic:greet.py")


def test_a_container_that_dies_stops_the_run_which_can_go_on(docker: Engine, image: str, home: Path) -> None:
    def kill() -> None:
        deadline = time.monotonic() + WITHIN
        while time.monotonic() < deadline:
            names = [name for name in docker("ps", "--format", "{{.Names}}").split() if "kakite" in name]
            if names and "sleep 300" in docker("top", names[0]):
                docker("kill", names[0])
                return

    killer = threading.Thread(target=kill)
    killer.start()
    turns = (plan("grep -q world greet.py"), edit(), calls("run_command", {"command": "sleep 300"}), done())
    with run_scenario_server(script(*turns)) as server:
        outcome = run(docker, home, server, image, "--workdir", "/testbed")
        killer.join(WITHIN)
        assert (outcome.code, outcome.json["error"]["code"]) == (3, "sandbox_failed"), outcome.stderr
    with run_scenario_server(script(done(), done())) as server:
        words = ("agent", "resume", outcome.json["id"], "--base-url", server.openai_url, "--json")
        again = kakite(*words, home=home, env=only_engine(docker))
    assert (again.code, again.json["checked"]) == (0, True), again.stderr


@pytest.mark.parametrize(
    ("container", "more", "code", "exit_code"),
    [
        ("tiny-code:1", ("--workdir", "/nowhere"), "folder_missing", 3),
        ("tiny-code:1", (), "bad_workdir", 2),
        ("tiny-code:1", ("--workdir", "/"), "bad_workdir", 2),
        ("tiny-code:1", ("--workdir", "/testbed", "--network", "open"), "bad_usage", 2),
        ("no-such:1", ("--workdir", "/testbed"), "sandbox_missing", 3),
        ("tiny-mute:1", ("--workdir", "/testbed"), "image_unfit", 3),
    ],
)
def test_what_cannot_be_is_said(
    docker: Engine,
    image: str,
    home: Path,
    tmp_path: Path,
    container: str,
    more: tuple[str, ...],
    code: str,
    exit_code: int,
) -> None:
    if container == "tiny-mute:1":
        (tmp_path / "mute/testbed").mkdir(parents=True)
        (tmp_path / "mute/testbed/a").touch()
        import_tiny_image(docker, container, tmp_path / "mute", ("cat",))
    with run_scenario_server(script(plan(""))) as server:
        outcome = run(docker, home, server, container, *more)
        assert server.requests == ()
    assert (outcome.code, outcome.json["error"]["code"]) == (exit_code, code), outcome.stderr
    assert image
