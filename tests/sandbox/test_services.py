"""Services of the host, as programs inside reach them: the same in every kind that has sockets."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.bounds import WITHIN

from kakite.errors import UsageError
from kakite.sandbox import Sandbox, SandboxError, SandboxSpec, open_sandbox
from kakite.sandbox.services import CONNECTIONS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from kakite.processes import CompletedProcess
    from kakite.sandbox import Service


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer with what came, once all of it has come."""
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    writer.write(b"end")
    writer.write_eof()


async def fail(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read(1)
    raise RuntimeError("a secret that nobody must see")


async def hang(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()
    await asyncio.Event().wait()


def within(
    kind: str,
    folder: Path,
    scene: Callable[[Sandbox], Awaitable[CompletedProcess]],
    services: Mapping[str, Service] | None = None,
) -> CompletedProcess:
    """Play a scene in a sandbox with services, on one loop, and take the sandbox down."""

    async def play() -> CompletedProcess:
        sandbox = open_sandbox(
            kind, folder, terms=SandboxSpec(services=services or {"echo": echo, "fail": fail})
        )
        try:
            await sandbox.prepare()
        except SandboxError as error:
            pytest.skip(f"{kind} does not work here: {error}")
        try:
            return await scene(sandbox)
        finally:
            await sandbox.destroy()

    return asyncio.run(asyncio.wait_for(play(), WITHIN))


def python(script: str, **how: object) -> Callable[[Sandbox], Awaitable[CompletedProcess]]:
    async def scene(sandbox: Sandbox) -> CompletedProcess:
        argv = (sys.executable, "-I", "-S", "-c", CLIENT + script, sandbox.services)
        return await sandbox.exec(argv, **{"timeout": 90, **how})  # pyright: ignore[reportArgumentType]

    return scene


CLIENT = """
import os, socket, sys, threading
def connect(name):
    client = socket.socket(socket.AF_UNIX); client.settimeout(60)
    client.connect(f"{sys.argv[1]}/{name}")
    return client
def rest(client):
    parts = []
    while part := client.recv(1 << 16): parts.append(part)
    return b"".join(parts)
"""

kinds = pytest.mark.parametrize("kind", ["bubblewrap", "local"])


@kinds
def test_any_bytes_go_both_ways_and_each_end_closes_by_itself(tmp_path: Path, kind: str) -> None:
    done = within(
        kind,
        tmp_path / "run",
        python("""
for data in (b"", b"x", bytes(range(256)) * 300, os.urandom(70000)):
    client = connect("echo")
    sender = threading.Thread(target=lambda: (client.sendall(data), client.shutdown(1)))
    sender.start(); assert rest(client) == data + b"end"; sender.join()
print("fine")
"""),
    )
    assert done.stdout == b"fine\n", done.stderr


@kinds
def test_a_hundred_connections_are_served_at_once(tmp_path: Path, kind: str) -> None:
    done = within(
        kind,
        tmp_path / "run",
        python("""
clients = [connect("echo") for _ in range(100)]
for number, client in enumerate(clients): client.sendall(b"%d" % number)
for number, client in reversed(list(enumerate(clients))): assert client.recv(9) == b"%d" % number
print("fine")
"""),
    )
    assert done.stdout == b"fine\n", done.stderr


@kinds
def test_fifty_mebibytes_get_through_whole(tmp_path: Path, kind: str) -> None:
    done = within(
        kind,
        tmp_path / "run",
        python("""
import hashlib
client = connect("echo"); there, back, piece = hashlib.sha256(), hashlib.sha256(), os.urandom(1 << 20)
def send():
    for _ in range(50): there.update(piece); client.sendall(piece)
    client.shutdown(1)
sender = threading.Thread(target=send); sender.start()
while part := client.recv(1 << 16): back.update(part)
sender.join(); there.update(b"end"); print(there.digest() == back.digest())
"""),
    )
    assert done.stdout == b"True\n", done.stderr


@kinds
def test_a_service_that_fails_ends_its_connection_alone_and_tells_nobody(
    tmp_path: Path, kind: str, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    done = within(
        kind,
        tmp_path / "run",
        python("""
other = connect("echo"); client = connect("fail"); client.sendall(b"x"); print(rest(client))
other.sendall(b"on"); print(other.recv(9))
"""),
    )
    assert done.stdout == b"b''\nb'on'\n", done.stderr
    said = capfd.readouterr()
    assert "secret" not in said.out + said.err + caplog.text


@kinds
def test_sockets_are_gone_after_destroy_also_when_somebody_is_connected(tmp_path: Path, kind: str) -> None:
    async def scene(sandbox: Sandbox) -> CompletedProcess:
        folder = Path(sandbox.services if kind == "local" else tmp_path / "run/services")
        assert [stat.S_IMODE((folder / name).stat().st_mode) for name in ("", "hang")] == [0o700, 0o600]
        _, writer = await asyncio.open_unix_connection(str(folder / "hang"))
        await sandbox.destroy()
        assert not folder.exists() or not list(folder.iterdir())
        writer.close()
        await sandbox.prepare()
        assert (folder / "hang").exists()
        return await sandbox.exec(("true",), timeout=WITHIN)

    assert within(kind, tmp_path / "run", scene, {"hang": hang}).exit_code == 0


@kinds
def test_the_path_of_the_folder_may_be_of_any_length(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / ("long" * 20) / ("path" * 20) / "run"
    done = within(kind, folder, python("c = connect('echo'); c.sendall(b'x'); print(c.recv(1))"))
    assert done.stdout == b"b'x'\n", done.stderr


def test_a_program_can_neither_remove_nor_replace_a_socket(tmp_path: Path) -> None:
    async def scene(sandbox: Sandbox) -> CompletedProcess:
        script = 'rm -f "$1/echo"; touch "$1/x"; ls "$1"'
        return await sandbox.exec(("sh", "-c", script, "sh", sandbox.services), timeout=WITHIN)

    assert within("bubblewrap", tmp_path / "run", scene).stdout == b"echo\nfail\nproxy\n"


@pytest.mark.parametrize("name", ["", "../x", "a/b", "A", "a" * 40])
def test_a_name_that_is_none_is_wrong_usage(tmp_path: Path, name: str) -> None:
    for kind in ("bubblewrap", "local"):
        with pytest.raises(UsageError) as caught:
            open_sandbox(kind, tmp_path, terms=SandboxSpec(services={name: echo}))
        assert caught.value.code == "bad_service"


# The network in force


def test_local_says_nothing_of_a_network(tmp_path: Path) -> None:
    async def scene(sandbox: Sandbox) -> CompletedProcess:
        return await sandbox.exec(("sh", "-c", "echo ${KAKITE_NETWORK-unset}"), timeout=9)

    assert within("local", tmp_path / "run", scene).stdout == b"unset\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a folder somebody else's")
def test_a_folder_of_somebody_else_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "run/services").mkdir(parents=True)
    os.chown(tmp_path / "run/services", 65534, 65534)
    with pytest.raises(SandboxError):
        asyncio.run(
            open_sandbox("local", tmp_path / "run", terms=SandboxSpec(services={"echo": echo})).prepare()
        )


@kinds
def test_one_sandbox_does_not_take_the_open_files_that_others_need(tmp_path: Path, kind: str) -> None:
    served: set[int] = set()
    most = 0

    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal most
        served.add(id(writer))
        most = max(most, len(served))
        writer.write(b"!")
        await writer.drain()
        await reader.read()
        served.discard(id(writer))

    script = """
clients = []
for _ in range(240):
    client = connect("count"); clients.append(client)
for client in clients:  # each has its turn, once those before it are done
    assert client.recv(1) == b"!"; client.close()
print("fine")
"""
    done = within(kind, tmp_path / "run", python(script), {"count": count})
    assert (done.exit_code, done.stdout) == (0, b"fine\n"), done.stderr.decode()
    assert 1 < most <= CONNECTIONS < 240
