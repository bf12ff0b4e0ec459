"""Tries to escape from a sandbox, or to use the machine up. The attempts are data (``cases.toml``).

Each runs inside, in an empty project, and aims at targets on the host that are made for it
(``open_host_targets``): a secret in a file and in a process, sockets that somebody listens on, a process to
hurt. It has escaped when it says so, or when ``find_harm`` sees afterwards that a target was reached.
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
import tomllib
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kakite.errors import KakiteError
from kakite.sandbox.base import SandboxError
from kakite.sandbox.files.temp import temporary_folder
from kakite.sandbox.inside import probe
from kakite.sandbox.spec import ResourceLimits

if TYPE_CHECKING:
    from kakite.processes import CompletedProcess
    from kakite.sandbox.base import Sandbox


SECRET = "kakite-secret-"  # noqa: S105 - what the targets' own secrets begin with
RAN = "ran"
"""The file in the targets' folder that programs which the host was made to run would make."""
_PATIENCE = 5.0
_SETTINGS = ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hostname")


@dataclass(slots=True, kw_only=True)
class HostTargets:
    """One attempt's aims."""

    token: str
    text: bytes
    folder: Path
    victim: subprocess.Popen[bytes]
    listening: list[socket.socket]
    traces: tuple[str, ...]
    """Files that the attempt would make outside of the sandbox."""
    settings: list[str] = field(default_factory=list[str])

    def build_probe_input(self, limits: ResourceLimits, project: str) -> dict[str, object]:
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
            "names": [_hash_content(name.encode()) for name in _list_names(Path.home())],
            "shadow": _hash_content(_read_bytes("/etc/shadow")),
            "traces": list(self.traces),
            **asdict(limits),
        }

    async def find_harm(self) -> str:
        """Return what was reached, nothing if all is as it was; waits for processes to be gone."""
        found = [*self._find_traces(), *self._find_connections(), *self._check_victim(), *self._check_files()]
        if not found and await asyncio.to_thread(self._has_survivor):
            found.append("a process lives on")
        return "; ".join(found)

    def _find_traces(self) -> list[str]:
        found = [path for path in self.traces if os.path.lexists(path)]
        for path in found:
            Path(path).unlink()
        return [f"{path} was made" for path in found]

    def _find_connections(self) -> list[str]:
        found: list[str] = []
        for server in self.listening:
            with suppress(BlockingIOError):
                server.accept()[0].close()
                found.append(f"{server.getsockname()!r} was reached")
        return found

    def _check_victim(self) -> list[str]:
        if self.victim.poll() is not None:
            return ["a process of the host was killed"]
        words = _read_bytes(f"/proc/{self.victim.pid}/stat").rpartition(b")")[2].split()
        if words and words[0] in {b"T", b"t"}:
            return ["a process of the host was stopped"]
        at_first = os.getpriority(os.PRIO_PROCESS, 0)  # it was begun with our own
        return ["a process of the host was slowed down"] if words and int(words[16]) != at_first else []

    def _check_files(self) -> list[str]:
        found = [f"{name} was made" for name in sorted(_list_names(self.folder) - {"secret.txt", "socket"})]
        found += self._check_secret()
        if [_hash_content(_read_bytes(path)) for path in _SETTINGS] != self.settings:
            found.append("a setting of the kernel was changed")
        return found

    def _check_secret(self) -> list[str]:
        try:
            text = (self.folder / "secret.txt").read_bytes()
        except OSError as error:
            return [f"a file cannot be read any more: {error.strerror}"]
        return [] if text == self.text else ["a file was written to"]

    def _has_survivor(self) -> bool:
        end = time.monotonic() + _PATIENCE
        while any(self.token.encode() in _read_bytes(f"/proc/{pid}/cmdline") for pid in _list_pids()):
            if time.monotonic() > end:
                return True
            time.sleep(0.02)
        return False


@asynccontextmanager
async def open_host_targets(traces: Callable[[str], tuple[str, ...]]) -> AsyncGenerator[HostTargets]:
    """Set up targets for one attempt, and take them down."""
    token = f"kakite-{secrets.token_hex(6)}"
    text = SECRET + secrets.token_hex(8)
    with temporary_folder("stage") as folder:
        (folder / "secret.txt").write_text(text, encoding="utf-8")
        listening = [
            _open_listener(socket.AF_INET, ("127.0.0.1", 0)),
            _open_listener(socket.AF_UNIX, str(folder / "socket")),
            *([_open_listener(socket.AF_UNIX, f"\0{token}")] if sys.platform == "linux" else []),
        ]
        try:
            with _start_victim(folder, text) as victim:
                yield HostTargets(
                    token=token,
                    text=text.encode(),
                    folder=folder,
                    victim=victim,
                    listening=listening,
                    traces=traces(token),
                    settings=[_hash_content(_read_bytes(path)) for path in _SETTINGS],
                )
        finally:
            for server in listening:
                server.close()


@contextmanager
def _start_victim(folder: Path, text: str) -> Generator[subprocess.Popen[bytes]]:
    """Start a process that waits as long as we live: its input ends with us, however we end."""
    environ = {"PATH": os.defpath, "HOLDS": text}
    with subprocess.Popen(["cat"], env=environ, cwd=folder, stdin=subprocess.PIPE) as victim:
        try:
            yield victim
        finally:
            victim.kill()


def _open_listener(family: int, address: str | tuple[str, int]) -> socket.socket:
    server = socket.socket(family, socket.SOCK_STREAM)
    server.bind(address)
    server.listen(8)
    server.setblocking(False)  # noqa: FBT003 - takes no keyword
    return server


def _list_names(folder: Path) -> set[str]:
    with suppress(OSError):
        return {path.name for path in folder.iterdir()}
    return set()


def _list_pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]


def _read_bytes(path: str) -> bytes:
    with suppress(OSError):
        return Path(path).read_bytes()
    return b""


def _hash_content(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest() if content else ""


HostAction = Callable[["Sandbox"], Awaitable[None]]
"""What the host does afterwards, where an attempt waits for it to stumble. It may fail with our errors."""

LIMITS = ResourceLimits(memory=256 << 20, processes=96, disk=48 << 20, files=3000, open_files=256)
"""Small limits for sandboxes that are tried out: to run into the usual ones takes long."""
TIMEOUT = 30.0
_EMPTY = """\
import os, shutil
for name in os.listdir("."):
    if os.path.isdir(name) and not os.path.islink(name):
        shutil.rmtree(name, ignore_errors=True)
    else:
        os.unlink(name)
print("empty")
"""
_SLOW = 15.0
"""Seconds that ending something may take beyond its time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EscapeCase:
    """One attempt, and how to tell that it succeeded."""

    name: str
    harm: str
    """Its kind: ``files``, ``links``, ``proc``, ``secrets``, ``sockets``, ``network``, ``processes``,
    ``mounts``, ``namespaces``, ``kernel``, ``devices``, ``cgroups``, ``privileges``, ``terminals``, ``git``,
    ``exhaustion``."""
    tries: str
    """What it tries, for people."""
    program: str
    """Python, run by ``inside.probe``."""
    traces: tuple[str, ...] = ()
    """Files outside of the sandbox that are there when it succeeded; ``{}`` is a name of its own."""
    act: str = ""
    """What the host has to do before it is judged: ``git``, working in the project as Kakite does."""
    timeout: float = TIMEOUT
    """Seconds after which it is ended."""
    endless: bool = False
    """Whether it never ends by itself, so that being ended in time is what it proves."""
    safe: bool = True
    """Whether it may be tried where nothing isolates, as root too, without harm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EscapeResult:
    """The result of an attempt."""

    name: str
    harm: str
    tries: str
    state: Literal["held", "escaped", "untried"]
    """``untried``: it did not even begin, or a mistake ended it, so that it proves nothing."""
    told: str
    """How it was refused, or what it reached."""
    seconds: float


@lru_cache(maxsize=1)
def load_cases() -> tuple[EscapeCase, ...]:
    """Return all of them; those that use something up come last."""
    table = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return tuple(_read(row, table["before"]) for row in table["attempt"])


def _read(row: dict[str, Any], before: dict[str, str]) -> EscapeCase:  # pyright: ignore[reportExplicitAny]
    program = before.get(row.pop("before", ""), "") + row.pop("program")
    return EscapeCase(program=program, traces=tuple(row.pop("traces", ())), **row)


async def attempt_all(
    sandbox: Sandbox,
    *,
    limits: ResourceLimits = LIMITS,
    acts: Mapping[str, HostAction] | None = None,
    chosen: Iterable[EscapeCase] | None = None,
    on_begin: Callable[[int, int, EscapeCase], None] | None = None,
) -> list[EscapeResult]:
    """Try every attempt in a prepared sandbox that holds nothing of worth: its project is emptied each time.

    ``limits`` are those on which it was opened. An attempt that needs an act which ``acts`` does not have is
    ``untried``. After each, an ordinary program has to run. ``on_begin`` is told of
    each before it is tried: its number from 1 on, how many there are, and which it is.
    """
    every = load_cases() if chosen is None else tuple(chosen)
    outcomes: list[EscapeResult] = []
    for number, attempt in enumerate(every, 1):
        if on_begin is not None:
            on_begin(number, len(every), attempt)
        outcomes.append(await _run_case(sandbox, attempt, limits, acts or {}))
    return outcomes


async def _run_case(
    sandbox: Sandbox, attempt: EscapeCase, limits: ResourceLimits, acts: Mapping[str, HostAction]
) -> EscapeResult:
    began = time.monotonic()
    try:
        state, told = await _perform_case(sandbox, attempt, limits, acts)
    except SandboxError as error:
        state, told = "untried", error.message
    return EscapeResult(
        name=attempt.name,
        harm=attempt.harm,
        tries=attempt.tries,
        state=state,
        told=told,
        seconds=round(time.monotonic() - began, 3),
    )


async def _perform_case(
    sandbox: Sandbox, attempt: EscapeCase, limits: ResourceLimits, acts: Mapping[str, HostAction]
) -> tuple[Literal["held", "escaped", "untried"], str]:
    if attempt.act and attempt.act not in acts:
        return "untried", f"needs somebody to do `{attempt.act}`"
    async with open_host_targets(
        lambda token: tuple(trace.format(token) for trace in attempt.traces)
    ) as stage:
        done = await _run(sandbox, attempt, stage, limits)
        if attempt.act:
            await _act(acts[attempt.act], sandbox)
        harm = await stage.find_harm()
    clean = await _run_python(sandbox, _EMPTY, timeout=TIMEOUT)
    reached = _find_report(done, probe.ESCAPED) or harm
    if reached:
        return "escaped", reached
    if clean.stdout.strip() != b"empty":
        return "escaped", f"afterwards nothing runs: {_get_last_line(clean)}"
    return _classify_result(attempt, done)


def _classify_result(
    attempt: EscapeCase, done: CompletedProcess
) -> tuple[Literal["held", "escaped", "untried"], str]:
    if not _find_report(done, probe.BEGAN) or _find_report(done, probe.BROKEN):
        return "untried", _find_report(done, probe.BROKEN) or _get_last_line(done)
    if done.duration > attempt.timeout + _SLOW:
        return "escaped", f"it could not be ended for {done.duration:.0f} s"
    if attempt.endless:
        return ("held", "ended in time") if done.limit else ("untried", "it ended by itself")
    if done.timed_out and not done.limit:
        return "untried", "it took too long"
    return "held", f"limit: {done.limit}" if done.limit else _find_refusal(done)


@lru_cache(maxsize=1)
def _read_probe() -> str:
    return Path(probe.__file__).read_text(encoding="utf-8")


async def _run(
    sandbox: Sandbox, attempt: EscapeCase, stage: HostTargets, limits: ResourceLimits
) -> CompletedProcess:
    given = stage.build_probe_input(limits, sandbox.project)
    program = f"{_read_probe()}\n\nrun_case({attempt.program!r}, {given!r})\n"
    return await _run_python(sandbox, program, timeout=attempt.timeout)


async def _run_python(sandbox: Sandbox, program: str, *, timeout: float) -> CompletedProcess:  # noqa: ASYNC109 - as exec
    # By its input: what stands in the arguments could be taken for a trace of it.
    start = (sandbox.kakite[0], "-I", "-S", "-c", "import sys; exec(sys.stdin.read())")
    return await sandbox.exec(start, stdin=program.encode(), timeout=timeout, limit=1 << 16)


async def _act(act: HostAction, sandbox: Sandbox) -> None:
    try:
        await act(sandbox)
    except KakiteError:
        return  # what an attempt left behind may well make it fail; what matters is what else it did


def _find_report(done: CompletedProcess, word: str) -> str:
    """Return what stands after the word on the first line that begins with it."""
    for line in done.stdout.decode(errors="replace").splitlines():
        if line.startswith(word):
            return line.removeprefix(word).strip() or "yes"
    return ""


def _find_refusal(done: CompletedProcess) -> str:
    told = done.stdout.decode(errors="replace").splitlines()[1:]
    lines = [line.removeprefix(probe.REFUSED).strip() for line in told]
    return next(
        (line for line in lines if line), f"exit code {done.exit_code}" if done.exit_code else "nothing"
    )


def _get_last_line(done: CompletedProcess) -> str:
    lines = (done.stdout + done.stderr).decode(errors="replace").strip().splitlines()
    return lines[-1][:200] if lines else f"exit code {done.exit_code}"
