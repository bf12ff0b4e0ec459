"""``docker/kakite``: the images and the compose file on a real engine, as a person builds and starts them."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
import yaml
from scripts import reference
from scripts.packages import load_facts

from kakite import __version__
from tests.agent.answering import answering
from tests.engines import BASE, GATEWAY, ROOT, SYSTEM_PATH, Engine
from tests.packaging.test_installing import asked

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
FOLDER = ROOT / "docker" / "kakite"
TARGETS = ("serve", "worker", "temporal", "redis", "engine")
NETWORKS = {"tasks": f"{GATEWAY}/24", "engine": "10.213.78.0/24", "pages": "10.213.79.0/24"}
"""The engine of the tests has no address left for a second network of its own choice."""
WITHIN = 180  # s
PLAN = {"say": '{"goal": "b is 1", "steps": ["write"], "title": "Make b", "check": ""}'}
SCRIPT = [PLAN, {"calls": [{"tool": "run_command", "arguments": {"command": "id -u > b"}}]}, {"say": "Done."}]
TEMPORAL = ("--engine", "temporal", "--address", "temporal:7233")
REPOSITORY = """
git init -q --bare -b main /home/kakite/repo.git
git clone -q /home/kakite/repo.git /home/kakite/work 2>/dev/null
cd /home/kakite/work && git checkout -q -b main && echo 1 > a && git add a
git -c user.name=a -c user.email=a@b commit -q -m a && git push -q origin main
"""


@pytest.fixture(scope="module")
def images(docker: Engine, wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Generator[Engine]:
    """The engine with all images, which are gone afterwards."""
    context = tmp_path_factory.mktemp("context")
    shutil.copyfile(FOLDER / "Dockerfile", context / "Dockerfile")
    shutil.copytree(wheels, context / "wheels", copy_function=os.link)
    for target in TARGETS:
        docker(
            *("build", "--quiet", "--network", "host", "--build-arg", f"BASE={BASE}"),
            *("--build-arg", f"MCP_NAME={load_facts().mcp_name}"),
            *("--target", target, "--tag", name_of(target), str(context)),
            timeout=1200,
        )
    yield docker
    docker("rmi", "--force", *map(name_of, TARGETS))


def name_of(target: str) -> str:
    return f"kakite/{target}:{__version__}"


def test_the_image_says_whose_it_is_in_the_mcp_registry(images: Engine) -> None:
    (told,) = json.loads(images("image", "inspect", name_of("serve")))
    assert told["Config"]["Labels"]["io.modelcontextprotocol.server.name"] == load_facts().mcp_name


def test_the_image_serves_the_folder_that_is_mounted_to_an_editor(images: Engine, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_text("one\n", encoding="utf-8")
    command = ["/usr/bin/docker", "run", "--rm", "--interactive", "--network", "none", "--read-only"]
    command += ["--user", f"{os.getuid()}:{os.getgid()}", "--tmpfs", "/home/kakite"]
    command += ["--volume", f"{folder}:/workspace", name_of("serve")]
    call = {
        "name": "text_editor",
        "arguments": {"command": "str_replace", "path": "a.txt", "old_str": "one", "new_str": "two"},
    }
    assert "text_editor" in asked(command, images.environ, tmp_path, call)
    assert (folder / "a.txt").read_text(encoding="utf-8") == "two\n"


@pytest.fixture
def compose(images: Engine, tmp_path: Path) -> Generator[Callable[..., str]]:
    """Start what the compose file says, as a project of our own; call Compose, and end it all."""
    program = shutil.which("docker-compose", path=SYSTEM_PATH)
    if program is None:
        pytest.skip("no Compose: `apt install docker-compose`")
    networks = {name: {"ipam": {"config": [{"subnet": subnet}]}} for name, subnet in NETWORKS.items()}
    (tmp_path / "networks.json").write_text(
        json.dumps({"version": "3.7", "networks": networks}), encoding="utf-8"
    )
    (tmp_path / "worker.env").write_text("OPENAI_API_KEY=a-key\n", encoding="utf-8")
    (tmp_path / "pages.env").write_text("KAKITE_TOKEN=of-the-pages\n", encoding="utf-8")
    environ = {
        **images.environ,
        "KAKITE_ENGINE_SOCKET": images.environ["DOCKER_HOST"].removeprefix("unix://"),
        "KAKITE_WORKER_ENV": str(tmp_path / "worker.env"),
        "KAKITE_PAGES_ENV": str(tmp_path / "pages.env"),
        "KAKITE_PORT": str(free_port()),
    }
    files = ["--file", str(FOLDER / "compose.yaml"), "--file", str(tmp_path / "networks.json")]

    def call(*arguments: str) -> str:
        done = subprocess.run(
            [program, *files, "--project-name", f"kks{os.getpid()}", *arguments],
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=WITHIN,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    try:
        images("network", "create", "kks-probe")
        images("network", "rm", "kks-probe")
    except AssertionError as refused:
        pytest.skip(f"no network: this machine lets an engine make none: {refused}")
    try:
        call("up", "--detach")
        yield call
    finally:
        call("down", "--volumes")
        assert not [name for name in images.ours() if name.startswith("kks")]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


def until(found: Callable[[], Any]) -> Any:
    """Return what is found, asking again where nothing is or nobody answers."""
    last, end = "", time.monotonic() + WITHIN
    while time.monotonic() < end:
        try:
            if value := found():
                return value
        except (OSError, AssertionError) as error:
            last = str(error)
    pytest.fail(f"not within {WITHIN} s: {last[-2000:]}")


def test_a_worker_does_a_task_from_temporal_in_a_container_beside_it(
    compose: Callable[..., str], images: Engine
) -> None:
    def kakite(*words: str) -> str:
        return compose("exec", "-T", "worker", "kakite", "agent", *words, *TEMPORAL)

    until(lambda: kakite("list", "--json"))
    compose("exec", "-T", "worker", "sh", "-ec", REPOSITORY)
    with answering({"Make b": SCRIPT}, host=GATEWAY) as model:
        about = ("--repo", "/home/kakite/repo.git", "--branch", "topic", "--approve", "all", "--setup", "off")
        task = kakite("submit", "Make b", *about, "--model", "openai:x", "--base-url", model.url).strip()
        until(lambda: '"done"' in json.dumps(json.loads(kakite("show", task, "--json"))["status"]))
    shown = compose("exec", "-T", "worker", "git", "-C", "/home/kakite/repo.git", "show", "topic:b")
    assert shown.strip() == "59000", "the sandbox's user"
    # The task's own container goes with it; what it installed is kept for the next.
    until(lambda: "kakite-" not in images("ps", "--all", "--format", "{{.Names}}"))


def test_pages_are_kept_in_redis_and_reach_no_engine(compose: Callable[..., str]) -> None:
    port = re.search(r"127\.0\.0\.1:(\d+)", compose("port", "pages", "8765"))
    assert port, "published to this machine alone"

    def asked_for(path: str, **body: str) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{port[1]}/api/{path}",
            data=json.dumps(body).encode() if body else None,
            headers={"Authorization": "Bearer of-the-pages", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=WITHIN) as answer:
            return json.loads(answer.read())

    until(lambda: asked_for("me"))
    before = int(compose("exec", "-T", "redis", "redis-cli", "dbsize"))
    asked_for("pages", name="plan.md", text="# A plan\n")
    assert asked_for("pages/plan.md")["text"] == "# A plan\n"
    assert int(compose("exec", "-T", "redis", "redis-cli", "dbsize")) > before
    lookup = "import socket\ntry:\n  print(socket.gethostbyname('{}'))\nexcept OSError:\n  print('unknown')"
    found = [
        compose("exec", "-T", "pages", "python3", "-c", lookup.format(name)).strip()
        for name in ("engine", "temporal", "redis")
    ]
    assert found[:2] == ["unknown", "unknown"]
    assert found[2].startswith("10.213.79.")


def test_whatever_stands_in_the_two_files_reaches_its_service_and_nothing_of_one_the_other(
    tmp_path: Path,
) -> None:
    """The examples with a value behind each name, as Compose reads them; no engine is asked."""
    program = shutil.which("docker-compose", path=SYSTEM_PATH)
    if program is None:
        pytest.skip("no Compose: `apt install docker-compose`")
    known = reference.setting_page()
    wanted: dict[str, dict[str, str]] = {}
    for service in ("worker", "pages"):
        example = (FOLDER / f"{service}.env.example").read_text(encoding="utf-8")
        names = re.findall(r"^#?([A-Z_]+)=", example, re.MULTILINE)
        assert {name for name in names if name.startswith("KAKITE_")} <= set(re.findall(r"KAKITE_\w+", known))
        wanted[service] = {name: f"{service} {name}" for name in names}
        lines = [f"{name}={value}" for name, value in wanted[service].items()]
        (tmp_path / f"{service}.env").write_text("\n".join(lines), encoding="utf-8")
    files = {f"KAKITE_{each.upper()}_ENV": str(tmp_path / f"{each}.env") for each in wanted}
    done = subprocess.run(
        [program, "--file", str(FOLDER / "compose.yaml"), "config"],
        env={"PATH": SYSTEM_PATH, "HOME": str(tmp_path), "OPENAI_API_KEY": "of the shell", **files},
        capture_output=True,
        encoding="utf-8",
        timeout=WITHIN,
        check=True,
    )
    services = yaml.safe_load(done.stdout)["services"]
    assert services["worker"]["environment"] == {**wanted["worker"], "DOCKER_HOST": "tcp://engine:2375"}
    assert services["pages"]["environment"] == wanted["pages"]
    keys = {"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"}
    assert all(keys <= each.keys() for each in wanted.values())
    assert not [name for name in wanted["pages"] if "GIT" in name]


def test_the_recipes_are_of_this_version_and_publish_to_this_machine_alone() -> None:
    text = (FOLDER / "compose.yaml").read_text(encoding="utf-8")
    assert set(re.findall(r"image: (\S+)", text)) == {name_of(each) for each in TARGETS if each != "serve"}
    assert re.findall(r'^ +- "(.*):8765"$', text, re.MULTILINE) == ["127.0.0.1:${KAKITE_PORT:-8765}"]
    stages = re.findall(
        r"^FROM \S+ AS (\S+)$", (FOLDER / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert set(TARGETS) <= set(stages)
