"""What a command of the model starts cannot answer for the server that started it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.answers import read_answer
from tests.bounds import WITHIN
from tests.engines import Engine
from tests.sandbox.conftest import PATH

from kakite.host import connect
from kakite.sandbox import SandboxError, open_sandbox
from kakite.tools import ToolCall

pytestmark = pytest.mark.slow

FORGING = Path(__file__).with_name("forging.py")
ROUNDS = 20


@dataclass(frozen=True)
class Kind:
    """A kind of sandbox, and the environment that opens it."""

    name: str
    environ: dict[str, str]


@pytest.fixture(params=["bubblewrap", "docker", "podman"])
def kind(tmp_path: Path, request: pytest.FixtureRequest) -> Kind:
    if request.param == "bubblewrap":
        return Kind("bubblewrap", {"HOME": str(tmp_path), "PATH": PATH})
    engine: Engine = request.getfixturevalue(request.param)
    return Kind("container", {**engine.environ, "HOME": str(tmp_path)})


class Commands:
    """Runs commands as a model does, by the server in a sandbox."""

    def __init__(self, kind: Kind, folder: Path) -> None:
        self._sandbox = open_sandbox(kind.name, folder / "task", environ=kind.environ)
        self._project = folder / "task/project"

    async def __aenter__(self) -> Commands:
        try:
            await self._sandbox.prepare()
        except SandboxError as error:
            if error.code != "sandbox_missing":
                raise
            pytest.skip(f"bubblewrap does not work here: {error}")
        (self._project / "forging.py").write_bytes(FORGING.read_bytes())
        words = ("serve", "--root", self._sandbox.project, "--tools", "editor,shell")
        spec = self._sandbox.build_process_spec((*self._sandbox.kakite, *words))
        self._connection = connect(spec, name="kakite", trusted=True)
        self._server = await self._connection.__aenter__()
        await self._server.list_tools()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._connection.__aexit__(None, None, None)
        await self._sandbox.destroy()

    async def run(self, command: str, *, background: bool = False) -> dict[str, Any]:
        arguments = {"command": command, "background": background}
        call = ToolCall(id="1", name="run_command", arguments=arguments)
        return read_answer(await self._server.call(call, within=WITHIN))


def at_work(kind: Kind, folder: Path, work: Any) -> Any:
    async def run() -> Any:
        async with Commands(kind, folder) as commands:
            return await work(commands)

    return asyncio.run(run())


def test_a_command_finds_no_way_into_another_process(kind: Kind, tmp_path: Path) -> None:
    async def look(commands: Commands) -> str:
        return (await commands.run("python3 forging.py reach"))["stdout"]

    said = at_work(kind, tmp_path, look)
    assert [line for line in said.splitlines() if line.startswith("REACHED")] == []
    assert (
        int(said.rpartition("TRIED ")[2]) >= 3
    )  # the first process, the server, what supervises the command


def test_answers_that_a_program_in_the_background_writes_are_never_taken(kind: Kind, tmp_path: Path) -> None:
    async def work(commands: Commands) -> list[int]:
        await commands.run("exec python3 forging.py answer > began 2>&1", background=True)
        await commands.run("until [ -s began ]; do sleep 0.01; done")
        # It can write into the output of a command that runs beside it, as both are one user's.
        codes = [(await commands.run("exit 3"))["exit_code"] for _ in range(ROUNDS)]
        assert (await commands.run("read pid < began; kill -0 $pid"))["exit_code"] == 0
        return codes

    assert at_work(kind, tmp_path, work) == [3] * ROUNDS
