"""``kakite debate serve`` and ``runner`` for tests, with stub CLIs and nothing of the person's."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mcp_types
from mcp import Client, StdioServerParameters
from mcp.client._transport import Transport

from kakite_testing.fake_clis import build_stub_command
from tests.bounds import WITHIN
from tests.forking import popen
from tests.mcp_client import connect

ERAS = ("legacy", "2026-07-28")
MARK = "KAKITE_TEST_MARK"
"""A variable that all programs of a test have, so that they can be found."""

_GATE = """
import os, sys
sys.stdin.read()
with open(sys.argv[1], "w") as begun:
    begun.write(f"{os.getpid()} ")
with open(sys.argv[2]) as let:
    let.read()
print("Late, but mine.")
"""


def participants(**sides: tuple[str, ...] | str) -> str:
    """Return the setting ``debate_participants``: for each side a command, or the kind of a stub."""
    made: dict[str, object] = {}
    for name, side in sides.items():
        form = name if name in {"codex", "claude"} else "text"
        command = list(build_stub_command(form, side) if isinstance(side, str) else side)  # pyright: ignore[reportArgumentType] - just so
        made[name] = {"command": command, "reader": form if isinstance(side, str) else "text", "pass": [MARK]}
    return json.dumps(made)


@dataclass(frozen=True)
class Gate:
    """A side that says when it is asked, and answers when it is let."""

    folder: Path

    @property
    def command(self) -> tuple[str, ...]:
        return (sys.executable, "-I", "-c", _GATE, str(self.folder / "begun"), str(self.folder / "let"))

    def begun(self) -> int:
        """Wait until it is asked, and return the process."""
        descriptor = os.open(self.folder / "begun", os.O_RDONLY | os.O_NONBLOCK)
        try:
            assert select.select([descriptor], [], [], WITHIN)[0], "nobody was asked"
            return int(os.read(descriptor, 100).split()[0])
        finally:
            os.close(descriptor)

    def let(self) -> None:
        """Let it answer: it waits for that by now."""
        (self.folder / "let").write_text("", encoding="utf-8")


def gate(folder: Path) -> Gate:
    for name in ("begun", "let"):
        os.mkfifo(folder / name)
    return Gate(folder)


def environment(home: Path, **more: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    return {**kept, "HOME": str(home), "LANG": "C.UTF-8", MARK: str(home), **more}


def argv(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "kakite", "debate", *arguments]


def server(home: Path, *arguments: str, sides: str | None = None, **more: str) -> Transport:
    """Return a transport to the server with two stubs, or the sides that are given."""
    return connect(server_parameters(home, *arguments, sides=sides, **more))


def server_parameters(
    home: Path, *arguments: str, sides: str | None = None, **more: str
) -> StdioServerParameters:
    """Return how a client starts that server as a program of its own, which ``living`` finds."""
    sides = participants(codex="agrees", claude="objects") if sides is None else sides
    env = environment(home, KAKITE_DEBATE_PARTICIPANTS=sides, **more)
    command, *words = argv("serve", *arguments)
    return StdioServerParameters(command=command, args=words, env=env, cwd=home)


def read(result: mcp_types.CallToolResult) -> dict[str, Any]:
    """Return the one JSON object that a reply is."""
    (block,) = result.content
    assert isinstance(block, mcp_types.TextContent)
    assert result.structured_content is None
    said = json.loads(block.text)
    assert isinstance(said, dict)
    return said  # pyright: ignore[reportUnknownVariableType]


async def call(client: Client, name: str, **arguments: Any) -> dict[str, Any]:
    return read(await client.call_tool(name, arguments))


async def finished(client: Client, **arguments: Any) -> dict[str, Any]:
    """Wait until the turn is complete."""
    said: dict[str, Any] = {}
    for _ in range(20):
        said = await call(client, "wait", seconds=10, **arguments)
        if said["status"] != "running":
            return said
    raise AssertionError(said)


@dataclass
class Listening:
    """A program that listens."""

    urls: list[str]
    program: subprocess.Popen[str]
    stderr: Path

    @property
    def url(self) -> str:
        return self.urls[0]


@contextmanager
def listening(
    home: Path, *arguments: str, lines: int = 1, env: Mapping[str, str] | None = None
) -> Generator[Listening]:
    """Run ``kakite debate ARGUMENTS``, which prints so many addresses."""
    stderr = home / "stderr"
    with (
        stderr.open("w", encoding="utf-8") as errors,
        popen(
            argv(*arguments),
            env=environment(home, **(env or {})),
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            encoding="utf-8",
        ) as program,
    ):
        try:
            assert program.stdout is not None
            urls = [program.stdout.readline().strip() for _ in range(lines)]
            assert all(urls), stderr.read_text(encoding="utf-8")
            yield Listening(urls, program, stderr)
        finally:
            program.kill()


def living(home: Path) -> list[int]:
    """Return the processes of a test, other than this one: those with the mark of its home."""
    mark = f"{MARK}={home}".encode()
    found: list[int] = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdecimal() and mark in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def words_of(process: int) -> list[str]:
    """Return the command line of a process; none if it has ended."""
    try:
        return Path(f"/proc/{process}/cmdline").read_text(encoding="utf-8").split("\0")
    except OSError:
        return []
