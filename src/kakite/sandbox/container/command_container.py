"""Runs commands, and nothing else, in a container of somebody's own image: all that it needs is a shell.

Its first process is a shell that reads our orders: it ends commands, and with its input the container ends.
Commands are started by the engine's ``exec``. Of the host they see the task's folder alone, in the place of
the image's own. They have no network, no capabilities, and no way to gain any.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from kakite.processes import (
    STOP_TIMEOUT,
    CompletedProcess,
    ManagedProcess,
    ProcessError,
    ProcessSpec,
    build_proxy_environment,
    run,
    start,
)
from kakite.processes.remote_command import EXIT, HEAD, STDERR, STDOUT
from kakite.sandbox.backends import container, engine
from kakite.sandbox.base import OUTPUT_LIMIT, SandboxError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping
    from pathlib import Path

    from kakite.processes import Stream
    from kakite.sandbox.container.image_folder import ImageFolder
    from kakite.sandbox.spec import ResourceLimits

SERVICE = "commands"
"""The name of the service by which the tools of a task have their commands run here."""
_START = 120.0
_CALL = 60.0
_ANSWER = 5.0
_PIECE = 64 * 1024
_MAX_WAITING = 16 << 20  # bytes of standard error that nobody has read yet
_OWN = "/run/kakite"
# Subshells collect what has ended: a shell that is the first process gets the orphans of all others.
_FIRST = """\
echo ready
while read -r what pid; do
  case $what in
    all) kill -s KILL -- -1 ;;
    *) kill -s "$what" -- "-$pid" ;;
  esac 2> /dev/null
  (:)
  echo done
done
"""
# As root, where commands are somebody else: the image's user has a home that they can use.
_PREPARE = """\
home= known=
while IFS=: read -r name _ uid _ _ place _; do
  if [ "$name" = "$1" ] || [ "$uid" = "$1" ]; then home=$place; fi
  if [ "$uid" = "$2" ]; then known=1; fi
done < /etc/passwd
home=${home:-/root}
mkdir -p "$home" /tmp && chmod 1777 /tmp
chown "$2:$3" "$home"
[ "$known" ] || echo "user:x:$2:$3::$home:/bin/sh" >> /etc/passwd
printf '%s\\n' "$home"
"""
# What a login shell sets holds for every command: tools that activate an environment rely on it.
_LOG_IN = """\
if [ -w . ]; then echo ready; fi
if command -v bash > /dev/null; then shell=bash; else shell=sh; fi
"$shell" -lc 'if [ "$BASH_VERSION" ]; then set -o posix; fi
unset PWD OLDPWD SHLVL _
export -p >&3' 3> "$1/env" > /dev/null
"""
_COMMAND = """\
echo $$
[ -r "$1/env" ] && . "$1/env"
cd -- "$2" || exit 126
shift 2
exec "$@"
"""


@dataclass(slots=True)
class _Execution:
    """A command that runs in the container."""

    pid: int = 0
    """In the container, where it leads a group of its own; 0: not known yet."""
    asked: bool = False
    """Whether it was asked to end."""
    begins: bytes = b""
    """What came of the first line."""


@dataclass(slots=True)
class _Running:
    """A container that runs."""

    name: str
    containers: engine.ContainerEngine
    user: str
    first: ManagedProcess
    home: str = "/"
    answers: int = 0
    """How many orders were obeyed."""
    orders: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class CommandContainer:
    """A container of an image, for the commands of one task. ``start``, any number of commands, ``close``."""

    def __init__(self, image: ImageFolder, environ: Mapping[str, str], limits: ResourceLimits) -> None:
        self._image = image
        self._environ = environ
        self._limits = limits
        self._project = ""
        self._running: _Running | None = None
        self._reader: asyncio.Task[None] | None = None
        self._active = 0
        self._cleaning = asyncio.Lock()

    @property
    def lost(self) -> bool:
        """Whether the container has ended by itself."""
        return self._reader is not None and self._reader.done()

    def check(self) -> None:
        """Make sure that it is there.

        Raises:
            SandboxError: it has ended by itself.
        """
        if self._running is None or self.lost:
            raise SandboxError(
                f"the container of `{self._image.image}` has ended",
                hint="read the engine's log (memory?), then go on: what lies in the project is kept",
            )

    async def start(self, folder: Path, project: str) -> None:
        """Start it over the task's project.

        Args:
            folder: the project on this machine; its owner is who the commands run as.
            project: its path as the task's tools see it.

        Raises:
            SandboxError: the engine does not start it, code ``image_unfit`` where it has no shell.
        """
        containers = await asyncio.to_thread(engine.find, self._environ)
        if containers.remote:
            raise SandboxError(
                f"the engine of `{containers.name}` is on another machine, without the task's folder",
                hint="use an engine on this machine (see `docker context ls`)",
                code="project_elsewhere",
            )
        with contextlib.suppress(SandboxError):
            await asyncio.to_thread(container.reap, containers)
        found = await asyncio.to_thread(folder.stat)
        self._project = project
        await self._open(containers, folder, f"{found.st_uid}:{found.st_gid}")
        writable = await self._prepare()
        if not writable and os.geteuid() != 0 and containers.name == "docker":
            await self.close()  # a rootless engine, whose root is the person
            await self._open(containers, folder, "0:0")
            writable = await self._prepare()
        if not writable:
            await self.close()
            raise SandboxError(f"commands in the container cannot write to `{folder}`")

    async def _open(self, containers: engine.ContainerEngine, folder: Path, user: str) -> None:
        name = engine.get_current_owner().make_container_name()
        arguments = self._build_run_args(containers, name, folder, user)
        try:
            first = await start(containers.build_process_spec(*arguments))
        except ProcessError as error:
            raise SandboxError(error.message, hint=error.hint) from error
        self._running = _Running(name, containers, user, first)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_START):
                if await first.stdout.readline():
                    self._reader = asyncio.create_task(self._read(self._running), name="commands")
                    return
                await first.wait()
        words = first.get_stderr_tail()
        await self.close()
        raise self._image.build_start_error(containers.name, words)

    def _build_run_args(
        self, containers: engine.ContainerEngine, name: str, folder: Path, user: str
    ) -> tuple[str, ...]:
        uid, gid = user.split(":")
        told = {**build_proxy_environment("off"), "KAKITE_RUN": "1"}
        env = [part for variable, value in told.items() for part in ("--env", f"{variable}={value}")]
        is_podman = containers.name == "podman"
        rootless = ("--userns", "keep-id") if is_podman and os.geteuid() != 0 else ()
        mode = "mode=1777" if is_podman else f"mode=0755,uid={uid},gid={gid}"
        # For the first process, which is root where commands are somebody else: they can never be that.
        given = () if uid == "0" else ("CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL")
        return (
            *("run", "--rm", "--interactive", "--pull", "never", "--name", name),
            *("--label", f"{engine.OWNER}={engine.get_user_label()}"),
            *("--log-driver", "none", "--hostname", "sandbox", "--network", "none", "--no-healthcheck"),
            *("--user", "0:0", *rootless, "--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
            *(part for each in given for part in ("--cap-add", each)),
            *container.build_resource_args(self._limits, containers.name),
            *container.build_no_proxy_args(containers.name),
            *("--tmpfs", f"{_OWN}:rw,nosuid,nodev,noexec,size=1m,{mode}"),
            *env,
            *("--mount", container.format_mount("bind", str(folder), self._image.workdir)),
            *("--workdir", self._image.workdir, "--entrypoint", "sh"),
            *(self._image.reference, "-c", _FIRST),
        )

    async def _prepare(self) -> bool:
        """Find the home, and what a login shell sets; tell whether commands can write to the project."""
        there = self._get_running()
        arguments = ("-c", _PREPARE, "sh", self._image.user, *there.user.split(":"))
        done = await asyncio.to_thread(
            there.containers.ask, "exec", "--user", "0", there.name, "sh", *arguments, timeout=_CALL
        )
        there.home = done.stdout.decode(errors="replace").strip() or there.home
        done = await asyncio.to_thread(
            there.containers.ask,
            *("exec", "--user", there.user, "--env", f"HOME={there.home}", there.name),
            *("sh", "-c", _LOG_IN, "sh", _OWN),
            timeout=_CALL,
        )
        return done.stdout.startswith(b"ready")

    async def exec(
        self,
        argv: tuple[str, ...],
        *,
        timeout: float | None,  # noqa: ASYNC109 - as processes.run
        limit: int = OUTPUT_LIMIT,
    ) -> CompletedProcess:
        """Run a command at the top of the project to its end; nothing that it started is left after.

        Raises:
            SandboxError: the container is gone.
        """
        async with self._count():
            execution = _Execution()

            def note(stream: Stream, data: bytes) -> None:
                if stream == "stdout" and not execution.pid:
                    execution.begins += data[:64]
                    execution.pid = _parse_pid(execution.begins)

            launch = self._build_spec(argv, self._image.workdir, execution)
            done = await run(launch, timeout=timeout, limit=limit, on_output=note)
        self.check()
        return replace(done, stdout=done.stdout.partition(b"\n")[2])

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Run the one command that a connection asks for; when that closes, the command is ended."""
        self.check()
        order = json.loads(await reader.readuntil(b"\n"))
        async with self._count():
            execution = _Execution()
            launch = self._build_spec(tuple(order["argv"]), self._map_folder(order["cwd"]), execution)

            def pass_on(_stream: Stream, data: bytes) -> None:
                if writer.transport.get_write_buffer_size() < _MAX_WAITING:
                    writer.write(HEAD.pack(STDERR, len(data)) + data)

            child = await start(launch, on_stderr=pass_on)
            passing = asyncio.create_task(_pass_output(child, execution, writer))
            leaving = asyncio.create_task(reader.read())
            try:
                await asyncio.wait((passing, leaving), return_when=asyncio.FIRST_COMPLETED)
            finally:
                # Asked to end, it is given a moment in which what it writes still arrives.
                if not passing.done():
                    self._end(execution)
                await child.stop()
                with contextlib.suppress(TimeoutError, ConnectionError):
                    await asyncio.wait_for(passing, STOP_TIMEOUT)
                leaving.cancel()
                await asyncio.gather(passing, leaving, return_exceptions=True)
        if not self.lost:
            code = str(child.returncode).encode()
            writer.write(HEAD.pack(EXIT, len(code)) + code)
            await writer.drain()

    async def end_commands(self) -> None:
        """Kill all that runs in the container but its first process."""
        async with self._cleaning:
            if self._running is not None and not self.lost:
                await self._obey(self._running, "all 0")

    async def close(self) -> None:
        """End the container with all that is in it. Does nothing the second time."""
        running, self._running = self._running, None
        if running is None:
            return
        await running.first.stop()
        if self._reader:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
            self._reader = None
        await asyncio.to_thread(container.remove_containers, running.containers, [running.name])

    # Commands

    def _get_running(self) -> _Running:
        self.check()
        assert self._running is not None
        return self._running

    def _map_folder(self, cwd: str) -> str:
        """Return the path inside of a folder of the project as the tools see it."""
        for top in (self._project, os.path.realpath(self._project)):
            if PurePosixPath(cwd).is_relative_to(top):
                return str(PurePosixPath(self._image.workdir, PurePosixPath(cwd).relative_to(top)))
        return self._image.workdir

    def _build_spec(self, argv: tuple[str, ...], cwd: str, execution: _Execution) -> ProcessSpec:
        there = self._get_running()
        started = there.containers.build_process_spec(
            *("exec", "--user", there.user, "--env", f"HOME={there.home}", there.name),
            *("sh", "-c", _COMMAND, "sh", _OWN, cwd, *argv),
        )
        return replace(started, end=lambda: self._end(execution))

    def _end(self, execution: _Execution) -> None:
        """Ask a command to end; the second time, and when it has ended, kill what is left of its group."""
        if execution.pid and self._running is not None:
            self._post(self._running, f"{'KILL' if execution.asked else 'TERM'} {execution.pid}")
        execution.asked = True

    @contextlib.asynccontextmanager
    async def _count(self) -> AsyncGenerator[None]:
        """Count a command; after the last one nothing that it has left behind lives on."""
        async with self._cleaning:
            self._active += 1
        try:
            yield
        finally:
            self._active -= 1
            async with self._cleaning:
                if not self._active and self._running is not None and not self.lost:
                    await self._obey(self._running, "all 0")

    def _post(self, running: _Running, order: str) -> None:
        if not self.lost:
            running.orders += 1
            running.first.stdin.write(f"{order}\n".encode())

    async def _obey(self, running: _Running, order: str) -> None:
        self._post(running, order)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_ANSWER):
                while running.answers < running.orders and not self.lost:
                    running.changed.clear()
                    await running.changed.wait()

    async def _read(self, running: _Running) -> None:
        try:
            while await running.first.stdout.readline():
                running.answers += 1
                running.changed.set()
        finally:
            running.changed.set()


async def _pass_output(child: ManagedProcess, execution: _Execution, writer: asyncio.StreamWriter) -> None:
    execution.pid = _parse_pid(await child.stdout.readline())
    while data := await child.stdout.read(_PIECE):
        writer.write(HEAD.pack(STDOUT, len(data)) + data)
        await writer.drain()
    await child.wait()


def _parse_pid(line: bytes) -> int:
    """Return the number in a whole line; 0 where there is none."""
    first, newline, _ = line.partition(b"\n")
    return int(first) if newline and first.isdigit() else 0
