"""What attempts to get out of a sandbox aim at on the host: things of our own, that nothing is lost with.

A secret in a file and in a process, sockets that somebody listens on, a process to hurt. ``harm`` looks
afterwards whether any of it was reached.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from kakite.sandbox.temporary import temporary_folder
from kakite.sandbox.terms import Limits

SECRET = "kakite-secret-"  # noqa: S105 - what the stage's own secrets begin with
RAN = "ran"
"""The file in the stage's folder that programs which the host was made to run would make."""
_PATIENCE = 5.0
_SETTINGS = ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hostname")


@dataclass(slots=True, kw_only=True)
class Stage:
    """One attempt's aims."""

    token: str
    text: bytes
    folder: Path
    victim: subprocess.Popen[bytes]
    listening: list[socket.socket]
    traces: tuple[str, ...]
    """Files that the attempt would make outside of the sandbox."""
    settings: list[str] = field(default_factory=list[str])

    def told(self, limits: Limits, project: str) -> dict[str, object]:
        """Return what an attempt is told about it: enough to find everything, without a secret."""
        return {
            "token": self.token,
            "project": project,
            "folder": str(self.folder),
            "secret": str(self.folder / "secret.txt"),
            "ran": str(self.folder / RAN),
            "victim": self.victim.pid,
            "socket": str(self.folder / "socket"),
            "abstract": f"\0{self.token}",
            "port": self.listening[0].getsockname()[1],
            "home": str(Path.home()),
            "names": [_digest(name.encode()) for name in _names(Path.home())],
            "shadow": _digest(_content("/etc/shadow")),
            "traces": list(self.traces),
            **asdict(limits),
        }

    async def harm(self) -> str:
        """Return what was reached, nothing if all is as it was; waits for processes to be gone."""
        found = [*self._left(), *self._connections(), *self._victim(), *self._files()]
        if not found and await asyncio.to_thread(self._lives):
            found.append("a process lives on")
        return "; ".join(found)

    def _left(self) -> list[str]:
        found = [path for path in self.traces if os.path.lexists(path)]
        for path in found:
            Path(path).unlink()
        return [f"{path} was made" for path in found]

    def _connections(self) -> list[str]:
        found: list[str] = []
        for server in self.listening:
            with suppress(BlockingIOError):
                server.accept()[0].close()
                found.append(f"{server.getsockname()!r} was reached")
        return found

    def _victim(self) -> list[str]:
        if self.victim.poll() is not None:
            return ["a process of the host was killed"]
        words = _content(f"/proc/{self.victim.pid}/stat").rpartition(b")")[2].split()
        if words and words[0] in {b"T", b"t"}:
            return ["a process of the host was stopped"]
        at_first = os.getpriority(os.PRIO_PROCESS, 0)  # it was begun with our own
        return ["a process of the host was slowed down"] if words and int(words[16]) != at_first else []

    def _files(self) -> list[str]:
        found = [f"{name} was made" for name in sorted(_names(self.folder) - {"secret.txt", "socket"})]
        found += self._secret()
        if [_digest(_content(path)) for path in _SETTINGS] != self.settings:
            found.append("a setting of the kernel was changed")
        return found

    def _secret(self) -> list[str]:
        try:
            text = (self.folder / "secret.txt").read_bytes()
        except OSError as error:
            return [f"a file cannot be read any more: {error.strerror}"]
        return [] if text == self.text else ["a file was written to"]

    def _lives(self) -> bool:
        end = time.monotonic() + _PATIENCE
        while any(self.token.encode() in _content(f"/proc/{pid}/cmdline") for pid in _pids()):
            if time.monotonic() > end:
                return True
            time.sleep(0.02)
        return False


@asynccontextmanager
async def staged(traces: Callable[[str], tuple[str, ...]]) -> AsyncGenerator[Stage]:
    """Set a stage up for one attempt, and take it down."""
    token = f"kakite-{secrets.token_hex(6)}"
    text = SECRET + secrets.token_hex(8)
    with temporary_folder("stage") as folder:
        (folder / "secret.txt").write_text(text, encoding="utf-8")
        listening = [
            _listening(socket.AF_INET, ("127.0.0.1", 0)),
            _listening(socket.AF_UNIX, str(folder / "socket")),
            *([_listening(socket.AF_UNIX, f"\0{token}")] if sys.platform == "linux" else []),
        ]
        try:
            with _victim(folder, text) as victim:
                yield Stage(
                    token=token,
                    text=text.encode(),
                    folder=folder,
                    victim=victim,
                    listening=listening,
                    traces=traces(token),
                    settings=[_digest(_content(path)) for path in _SETTINGS],
                )
        finally:
            for server in listening:
                server.close()


@contextmanager
def _victim(folder: Path, text: str) -> Generator[subprocess.Popen[bytes]]:
    """Start a process that waits as long as we live: its input ends with us, however we end."""
    environ = {"PATH": os.defpath, "HOLDS": text}
    with subprocess.Popen(["cat"], env=environ, cwd=folder, stdin=subprocess.PIPE) as victim:
        try:
            yield victim
        finally:
            victim.kill()


def _listening(family: int, address: str | tuple[str, int]) -> socket.socket:
    server = socket.socket(family, socket.SOCK_STREAM)
    server.bind(address)
    server.listen(8)
    server.setblocking(False)  # noqa: FBT003 - takes no keyword
    return server


def _names(folder: Path) -> set[str]:
    with suppress(OSError):
        return {path.name for path in folder.iterdir()}
    return set()


def _pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]


def _content(path: str) -> bytes:
    with suppress(OSError):
        return Path(path).read_bytes()
    return b""


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest() if content else ""
