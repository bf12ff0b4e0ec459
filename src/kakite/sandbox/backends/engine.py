"""Calls the container engine, ``docker`` or ``podman``, and names the owner of each container.

The program gets the variables that it needs to find its engine and the person's settings of it, and nothing
else; what runs inside of a container gets none of them. Each call costs tens of milliseconds: callers ask for
as little as they can.

The owner of a container is in its name, so that what a dead Kakite left behind can be found and removed. An
owner is a process: its machine since the last start, its process namespace, its number and its start time. Of
owners elsewhere nothing is known, so their containers are left alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kakite.processes import ProcessSpec
from kakite.sandbox.base import SandboxError

if TYPE_CHECKING:
    from collections.abc import Mapping


HOW_TO_GET = (
    "install Docker or Podman (`apt install docker.io`, `apt install podman`), start it, and see "
    "`docker info`; or use `--sandbox bubblewrap`"
)
ANSWER = 3.0
"""Seconds in which an engine has to say that it is there."""
_NEEDED = (
    *("PATH", "HOME", "USER", "LANG", "TMPDIR", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME"),
    *("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS"),
    *("DOCKER_TLS_VERIFY", "DOCKER_API_VERSION", "DOCKER_BUILDKIT"),
    *("CONTAINER_HOST", "CONTAINER_SSHKEY", "CONTAINER_CONNECTION"),
    *("CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF", "STORAGE_DRIVER", "STORAGE_OPTS"),
    *("SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS"),  # an engine behind ssh; cgroups of a rootless one
)
_NAMES = ("docker", "podman")
_REMOTE = ("tcp://", "ssh://", "http://", "https://", "npipe://")
_GONE = ("cannot connect to", "error during connect", "is the docker daemon running", "unable to connect to")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerEngine:
    """A program that makes containers, and what it needs to know."""

    name: str
    """``docker`` or ``podman``."""
    program: str
    env: Mapping[str, str] = field(repr=False)
    remote: bool
    """Whether its engine may be on another machine, which sees no folder of this one."""

    def build_process_spec(self, *arguments: str) -> ProcessSpec:
        """Tell how to start the program. It is no parent of what runs in containers."""
        return ProcessSpec(argv=(self.program, *arguments), env=self.env, cwd="/", contained=True)

    def call(self, *arguments: str, timeout: float) -> str:
        """Run the program to its end and return what it printed. Blocks: call it in a thread.

        Raises:
            SandboxError: it failed, or did not end in time.
        """
        done = self.ask(*arguments, timeout=timeout)
        if done.returncode != 0:
            raise build_call_error(self.name, arguments[0], done.stderr)
        return done.stdout.decode(errors="backslashreplace").strip()

    def ask(self, *arguments: str, timeout: float) -> subprocess.CompletedProcess[bytes]:
        """Run the program to its end, whatever it says. Blocks: call it in a thread.

        Raises:
            SandboxError: it could not be started, or did not end in time.
        """
        try:
            return subprocess.run(
                [self.program, *arguments],
                env=dict(self.env),
                cwd="/",
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=timeout,
                check=False,
                start_new_session=True,
            )
        except subprocess.TimeoutExpired as error:
            raise SandboxError(
                f"`{self.name} {arguments[0]}` did not answer within {timeout:g} s",
                hint="check whether the engine works: `docker info`, `podman info`",
            ) from error
        except OSError as error:
            raise SandboxError(f"`{self.program}` could not be started: {error}") from error


def find(environ: Mapping[str, str]) -> ContainerEngine:
    """Return the program to use: docker, or podman where docker is not there or its engine does not answer.

    Where there is only one of them nothing is asked.

    Raises:
        SandboxError: neither is installed, code ``sandbox_missing``.
    """
    found = [
        (name, path) for name in _NAMES if (path := shutil.which(name, path=environ.get("PATH", os.defpath)))
    ]
    if not found:
        raise SandboxError("neither `docker` nor `podman` was found", hint=HOW_TO_GET, code="sandbox_missing")
    first = _build_engine(*found[0], environ)
    if len(found) == 1 or is_answering(first):
        return first
    return _build_engine(*found[1], environ)


def is_answering(containers: ContainerEngine) -> bool:
    """Tell whether its engine answers. Blocks."""
    try:
        done = containers.ask("version", "--format", "{{.Server.Version}}", timeout=ANSWER)
    except SandboxError:
        return False
    return done.returncode == 0


def has_image(containers: ContainerEngine, image: str) -> bool:
    """Tell whether its engine answers and has the image. Blocks."""
    try:
        done = containers.ask("image", "inspect", "--format", "{{.Id}}", image, timeout=ANSWER)
    except SandboxError:
        return False
    return done.returncode == 0


def build_call_error(name: str, what: str, stderr: bytes) -> SandboxError:
    """Return the error for a call of the program that failed: its own words, shortly."""
    words = stderr.decode(errors="backslashreplace").strip()
    if any(sign in words.lower() for sign in _GONE):
        return SandboxError(
            f"the engine of `{name}` does not answer: {_summarize_stderr(words)}",
            hint=HOW_TO_GET,
            code="sandbox_missing",
        )
    return SandboxError(f"`{name} {what}` failed: {_summarize_stderr(words)}")


def _summarize_stderr(words: str) -> str:
    told = [line for line in words.splitlines() if line.strip() and not line.startswith(("See '", "WARNING"))]
    return (told[-1] if told else "without a word").strip()[:500]


def _build_engine(name: str, program: str, environ: Mapping[str, str]) -> ContainerEngine:
    env = {variable: environ[variable] for variable in _NEEDED if variable in environ}
    host = _find_docker_host(program, env) if name == "docker" else env.get("CONTAINER_HOST", "")
    return ContainerEngine(name=name, program=program, env=env, remote=host.startswith(_REMOTE))


def _find_docker_host(program: str, env: Mapping[str, str]) -> str:
    """Return the address of docker's engine; nothing if it is the usual one of this machine."""
    if host := env.get("DOCKER_HOST"):
        return host
    context = env.get("DOCKER_CONTEXT") or _read_current_context(env)
    if context in {"", "default"}:
        return ""
    try:
        done = subprocess.run(
            [program, "context", "inspect", "--format", "{{.Endpoints.docker.Host}}", context],
            env=dict(env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=ANSWER,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace").strip()


def _read_current_context(env: Mapping[str, str]) -> str:
    folder = Path(env.get("DOCKER_CONFIG") or Path(env.get("HOME", "/"), ".docker"))
    try:
        settings = json.loads((folder / "config.json").read_bytes())
        return str(settings.get("currentContext") or "")
    except (OSError, ValueError, AttributeError):
        return ""


TASK = "kakite.task"
"""Label: the task, by a digest of its folder."""
OWNER = "kakite.owner"
"""Label: the user of the host who runs it."""
CACHE = "kakite.cache"
"""Label of a volume: the caches of package managers, kept over tasks."""
WORK = "kakite.work"
"""Label of a volume: the work of a task on an engine that is elsewhere."""
_NAME = re.compile(r"kakite-([0-9a-f]{12})-(\d+)-(\d+)-[0-9a-f]+")


@dataclass(frozen=True, slots=True)
class ProcessOwner:
    """A process that made containers."""

    place: str
    """The machine, since it was started, and the namespace of processes."""
    pid: int
    start: int
    """When it was started, in ticks of the kernel since the machine was."""

    def make_container_name(self) -> str:
        """Return a new name for a container of this owner."""
        return f"kakite-{self.place}-{self.pid}-{self.start}-{secrets.token_hex(6)}"

    def is_alive(self) -> bool:
        """Tell whether it may be alive: certainly dead is only who lived right here."""
        return self.place != _get_namespace_id() or _read_start_time(self.pid) == self.start


def get_current_owner() -> ProcessOwner:
    """Return this process as an owner."""
    return ProcessOwner(_get_namespace_id(), os.getpid(), _read_start_time(os.getpid()))


def parse_owner(name: str) -> ProcessOwner | None:
    """Return the owner of the container with this name, if the name is one of ours."""
    found = _NAME.fullmatch(name)
    return ProcessOwner(found[1], int(found[2]), int(found[3])) if found else None


def compute_digest(text: str) -> str:
    """Return a short name for something that has a long one, or one that is nobody's business."""
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:16]


def get_user_label() -> str:
    """Return the user on whose behalf we make things, as the label says it."""
    return f"{os.getuid()}@{_get_machine_id()}"


def _get_machine_id() -> str:
    return compute_digest(_read("/etc/machine-id") or os.uname().nodename)


def _get_namespace_id() -> str:
    try:
        namespace = os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - what it says is no path
    except OSError:
        namespace = ""
    return compute_digest(_read("/proc/sys/kernel/random/boot_id") + namespace)[:12]


def _read_start_time(pid: int) -> int:
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return 0
    return int(stat.rpartition(b")")[2].split()[19])


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
