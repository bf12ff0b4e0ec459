"""``docker/debate``: the server in a container by a real engine and Compose, the CLIs on this machine."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.bounds import WITHIN
from tests.conftest import image_name
from tests.debate.serving import call, finished, listening, participants
from tests.engines import GATEWAY, ROOT, SYSTEM_PATH, Engine

pytestmark = pytest.mark.slow
FOLDER = ROOT / "docker" / "debate"
TOKENS = {"KAKITE_TOKEN": "of-the-editor", "KAKITE_DEBATE_TOKEN": "of-the-runner"}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def compose(environ: Mapping[str, str], *arguments: str) -> str:
    program = shutil.which("docker-compose", path=SYSTEM_PATH)
    if program is None:
        pytest.skip("no Compose: `apt install docker-compose`")
    project = ["--file", str(FOLDER / "compose.yaml"), "--project-name", f"kkt{os.getpid()}"]
    done = subprocess.run(
        [program, *project, *arguments],
        env={**environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


@contextmanager
def composed(docker: Engine) -> Generator[tuple[str, Mapping[str, str]]]:
    """Do what the documentation says, and return the address of the server."""
    port = str(free_port())
    environ = {**docker.environ, **TOKENS, "KAKITE_DEBATE_PORT": port}
    try:
        docker("network", "create", "kkt-probe")
        docker("network", "rm", "kkt-probe")
    except AssertionError as refused:
        pytest.skip(f"no network: this machine lets an engine make none: {refused}")
    try:
        compose(environ, "up", "--detach", "--build")
        yield f"http://127.0.0.1:{port}/mcp", environ
    finally:
        compose(environ, "down", "--volumes")


async def debated(url: str) -> dict[str, object]:
    headers = {"Authorization": f"Bearer {TOKENS['KAKITE_TOKEN']}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=WITHIN) as web,
        Client(streamable_http_client(url, http_client=web), mode="legacy") as client,
    ):
        await call(client, "start_debate", initial_prompt="Why?")
        said = await finished(client)
        await call(client, "stop")
        return said


async def up(url: str) -> None:
    """Wait until the server answers."""
    async with httpx2.AsyncClient() as web:
        while not await answers(web, url):
            pass


async def answers(web: httpx2.AsyncClient, url: str) -> bool:
    try:
        return (await web.post(url, json={})).status_code == 401
    except httpx2.HTTPError:
        return False


@pytest.mark.anyio
async def test_a_server_in_a_container_debates_by_the_clis_of_this_machine(
    docker: Engine, home: Path
) -> None:
    with composed(docker) as (url, environ):
        with anyio.fail_after(WITHIN):
            await up(url)
            failed = await debated(url)
        assert failed["status"] == "error", "nobody runs the runner yet"
        assert "unreachable" in str(failed["failures"])
        sides = {"KAKITE_DEBATE_PARTICIPANTS": participants(codex="agrees", claude="http_500")}
        more = {**sides, "KAKITE_DEBATE_TOKEN": TOKENS["KAKITE_DEBATE_TOKEN"]}
        with listening(home, "runner", "--host", GATEWAY, lines=2, env=more) as runner:
            assert runner.urls == [f"http://{GATEWAY}:9001/codex", f"http://{GATEWAY}:9002/claude"]
            with anyio.fail_after(WITHIN):
                said = await debated(url)
        assert said["status"] == "degraded"
        assert said["turn"]["codex_output"] == "It depends."  # pyright: ignore[reportIndexIssue]
        assert "http_error" in str(said["failures"])
        assert all(token not in compose(environ, "logs") for token in TOKENS.values())
    assert not [name for name in docker.ours() if name.startswith("kkt")]


def test_the_recipe_builds_upon_the_image_of_this_version_and_publishes_to_this_machine_alone() -> None:
    (base,) = re.findall(
        r"^ARG BASE=(.*)$", (FOLDER / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert base == image_name("base")
    text = (FOLDER / "compose.yaml").read_text(encoding="utf-8")
    assert '"127.0.0.1:${KAKITE_DEBATE_PORT:-8080}:8080"' in text
