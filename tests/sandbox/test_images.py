"""Images are really built, and do what they are for."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import zipfile
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.cli.program import kakite
from tests.engines import BASE, ROOT, Engine, build_image

from kakite import __version__
from kakite.errors import UsageError
from kakite.host import connect
from kakite.sandbox import SandboxSpec
from kakite.sandbox.backends import images
from kakite.sandbox.backends.container import ContainerSandbox
from kakite.sandbox.backends.engine import find
from kakite.tools.toolset import ToolCall

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # whoever is first builds the images
PACKAGES = ROOT / "tests" / "clients" / "node_modules"
SERVER = "@modelcontextprotocol/server-filesystem"
HELLO = {
    "go": """
printf 'module hello\ngo 1.19\n' > go.mod
printf 'package main\nimport "fmt"\nfunc main() { fmt.Println("hello") }\n' > main.go
printf 'package main\nimport "testing"\nfunc TestMain1(t *testing.T) { main() }\n' > main_test.go
go test ./... >&2
printf 'package main\n// int one() { return 1; }\nimport "C"\nvar one = C.one()\n' > one.go
go run .
""",
    "rust": """
cargo init --quiet --vcs none --name hello .
cargo test --offline --quiet >&2
cargo run --offline --quiet | sed 's/Hello, world!/hello/'
""",
    "java": """
printf 'class Hello { public static void main(String[] a) { System.out.println("hello"); } }' > Hello.java
printf '<project><modelVersion>4.0.0</modelVersion><groupId>a</groupId><artifactId>a</artifactId>' > pom.xml
printf '<version>1</version><packaging>pom</packaging></project>' >> pom.xml
mvn --offline --quiet validate >&2
javac Hello.java
java Hello
""",
}
"""What shows that a language works, without a network."""


def run(engine: Engine, image: str, *argv: str, folder: Path) -> str:
    async def run() -> str:
        sandbox = ContainerSandbox(folder, engine.environ, SandboxSpec(), image)
        await sandbox.prepare()
        try:
            done = await sandbox.exec(argv, timeout=120)
        finally:
            await sandbox.destroy()
        assert done.exit_code == 0, done.stderr
        return done.stdout.decode()

    return asyncio.run(run())


@pytest.fixture(scope="module")
def python(docker: Engine, tmp_path_factory: pytest.TempPathFactory) -> str:
    return build_image(docker, "python", BASE, tmp_path_factory.mktemp("person"))


@pytest.fixture(scope="module")
def node(docker: Engine, tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """The image for Node.js with a server of other people in it."""
    if not (PACKAGES / SERVER).exists():
        pytest.skip("other people's servers were not fetched; `make clients` does it")
    image = build_image(docker, "node", BASE, tmp_path_factory.mktemp("person"))
    context = tmp_path_factory.mktemp("context")
    for name in _closure(SERVER):
        shutil.copytree(PACKAGES / name, context / "node_modules" / name)
    (context / "Dockerfile").write_text(
        f"FROM {image}\nCOPY node_modules /opt/servers/node_modules\n", encoding="utf-8"
    )
    docker("build", "--tag", "kakite-test-node:1", str(context))
    yield "kakite-test-node:1"
    docker("rmi", "kakite-test-node:1")


def _closure(name: str) -> set[str]:
    found: set[str] = set()
    due = [name]
    while due:
        name = due.pop()
        if name not in found and (PACKAGES / name).exists():
            found.add(name)
            about = json.loads((PACKAGES / name / "package.json").read_bytes())
            due += about.get("dependencies", {})
    return found


def test_an_image_has_the_language_and_this_kakite_and_nothing_to_tell_where_it_came_from(
    docker: Engine, python: str, tmp_path: Path
) -> None:
    assert python == images.get_reference("python")
    script = (
        "set -e; python --version; python3 -m venv x; x/bin/pip --version; rg --version; kakite --version"
    )
    told = run(docker, "python", "sh", "-c", script, folder=tmp_path / "run")
    assert told.endswith(f"kakite {__version__}\n")
    settings = (
        "find / -xdev -name 'pip.conf' -o -xdev -name '.netrc' -o -xdev -name 'wheels' 2>/dev/null; true"
    )
    assert run(docker, "python", "sh", "-c", settings, folder=tmp_path / "run") == ""
    history = docker("history", "--no-trunc", "--format", "{{.CreatedBy}}", python)
    assert "http" not in history


async def _edit(engine: Engine, image: str, folder: Path) -> None:
    sandbox = ContainerSandbox(folder, engine.environ, SandboxSpec(), image)
    await sandbox.prepare()
    try:
        serve = ("kakite", "serve", "--root", sandbox.project, "--tools", "editor,shell")
        async with connect(sandbox.build_process_spec(serve), name="kakite", trusted=True) as server:
            assert [tool.name for tool in await server.list_tools()][:1] == ["text_editor"]
            create = {"command": "create", "path": "x.txt", "file_text": "one\n"}
            edit = {"command": "str_replace", "path": "x.txt", "old_str": "one", "new_str": "two"}
            for arguments in (create, edit):
                done = await server.call(ToolCall(id="1", name="text_editor", arguments=arguments))
                assert not done.is_error, done.text
            look = {"command": "cat x.txt; id -u"}
            done = await server.call(ToolCall(id="2", name="run_command", arguments=look))
            assert "\ntwo\n" in done.text
    finally:
        await sandbox.destroy()
    assert (folder / "project/x.txt").read_text(encoding="utf-8") == "two\n"


def test_set_up_of_a_project_in_python_has_what_it_needs_in_the_base_image(
    docker: Engine, tmp_path: Path
) -> None:
    made = run(
        docker,
        "base",
        "sh",
        "-c",
        "python3 -m venv ~/venv; ~/venv/bin/python -m pip --version",
        folder=tmp_path,
    )
    assert made.startswith("pip ")


def test_kakite_serves_from_the_image_for_python(docker: Engine, python: str, tmp_path: Path) -> None:
    asyncio.run(_edit(docker, "python", tmp_path / "run"))


def test_kakite_and_another_server_serve_from_the_image_for_node(
    docker: Engine, node: str, tmp_path: Path
) -> None:
    asyncio.run(_edit(docker, node, tmp_path / "run"))
    asyncio.run(_other_server(docker, node, tmp_path / "run"))


async def _other_server(engine: Engine, image: str, folder: Path) -> None:
    sandbox = ContainerSandbox(folder, engine.environ, SandboxSpec(), image)
    await sandbox.prepare()
    try:
        serve = ("node", f"/opt/servers/node_modules/{SERVER}/dist/index.js", sandbox.project)
        async with connect(sandbox.build_process_spec(serve), name="files") as server:
            read = {"path": f"{sandbox.project}/x.txt"}
            done = await server.call(ToolCall(id="1", name="read_text_file", arguments=read))
            assert done.text == "two\n"
            outside = {"path": "/etc/passwd"}
            assert (await server.call(ToolCall(id="2", name="read_text_file", arguments=outside))).is_error
    finally:
        await sandbox.destroy()


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", HELLO)
def test_the_other_languages_can_be_built_upon_plain_debian_and_work_without_a_network(
    name: str, docker: Engine, tmp_path: Path, proof: bool
) -> None:
    if not proof:
        pytest.skip("takes minutes; `make proof` does it")
    build_image(docker, name, images.get_reference("base"), tmp_path)
    assert run(docker, name, "sh", "-ec", HELLO[name], folder=tmp_path / "run") == "hello\n"


def test_a_build_that_fails_gives_the_engines_reason(docker: Engine, tmp_path: Path) -> None:
    outcome = kakite("sandbox", "build", "--base", "no-such/base:1", home=tmp_path, env={**docker.environ})
    assert outcome.code == 3
    assert "sandbox_failed" in outcome.stderr


def test_an_image_that_nobody_knows_is_wrong_usage(docker: Engine) -> None:
    with pytest.raises(UsageError) as caught:
        images.build(find(docker.environ), ["cobol"])
    assert caught.value.code == "unknown_image"


def test_the_command_lists_and_prunes(docker: Engine, tmp_path: Path) -> None:
    listed = kakite("sandbox", "list", "--json", home=tmp_path, env=docker.environ)
    assert images.get_reference("base") in listed.json["images"]
    assert listed.json["engine"] == "docker"
    assert images.get_reference("base") in kakite("sandbox", "list", home=tmp_path, env=docker.environ).stdout
    left = listed.json["volumes"]  # of other tests
    pruned = kakite("sandbox", "prune", "--all", "--json", home=tmp_path, env=docker.environ)
    assert (pruned.code, pruned.json["volumes"]) == (0, [volume["name"] for volume in left])
    listed = kakite("sandbox", "list", "--json", home=tmp_path, env=docker.environ)
    assert listed.json["volumes"] == []


def test_without_an_engine_the_command_says_how_to_get_one(tmp_path: Path) -> None:
    outcome = kakite("sandbox", "list", home=tmp_path, env={"PATH": str(tmp_path)})
    assert outcome.code == 3
    assert "sandbox_missing" in outcome.stderr


def test_the_wheel_of_kakite_is_the_same_for_the_same_files(tmp_path: Path) -> None:
    wheels: list[Path] = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        wheels.append(images.pack_kakite(tmp_path / name))
    assert wheels[0].read_bytes() == wheels[1].read_bytes()
    with zipfile.ZipFile(wheels[0]) as archive:
        assert archive.testzip() is None
        assert "kakite/sandbox/inside/init.py" in archive.namelist()


@pytest.mark.parametrize("name", images.NAMES)
def test_every_image_has_a_recipe_that_names_a_pinned_base(name: str) -> None:
    recipe = (ROOT / "docker" / "sandbox" / name / "Dockerfile").read_text(encoding="utf-8")
    (base,) = [line for line in recipe.splitlines() if line.startswith("ARG BASE=")]
    assert any(character.isdigit() for character in base.partition(":")[2])
    assert "USER kakite" in recipe


def test_the_demo_does_the_same_job_in_a_container(docker: Engine, tmp_path: Path) -> None:
    told = {}
    for sandbox in ("local", "container"):
        with_engine = {**docker.environ, "PATH": "/usr/bin:/bin"}
        outcome = kakite("agent", "demo", "--sandbox", sandbox, "--json", home=tmp_path, env=with_engine)
        assert outcome.code == 0, outcome.stderr
        steps = [(step["kind"], step["ok"], step["code"]) for step in outcome.json["steps"]]
        told[sandbox] = (outcome.json["status"], outcome.json["diff"], steps)
    assert told["container"] == told["local"]


def test_sh_scripts_of_the_recipes_are_right() -> None:
    scripts = list((ROOT / "docker" / "sandbox").glob("*.sh"))
    assert scripts
    for script in scripts:
        assert subprocess.run(["sh", "-n", str(script)], check=False).returncode == 0
