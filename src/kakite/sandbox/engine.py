"""The program that makes containers, ``docker`` or ``podman``: which one, where its engine is, calling it.

It gets the variables that it needs to find its engine and the person's settings of it, and nothing else;
what runs inside of a container gets none of them. Each call costs tens of milliseconds: callers ask for as
little as they can.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kakite.processes import Launch
from kakite.sandbox.sandbox import SandboxError

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
class Containers:
    """A program that makes containers, and what it needs to know."""

    name: str
    """``docker`` or ``podman``."""
    program: str
    env: Mapping[str, str] = field(repr=False)
    remote: bool
    """Whether its engine may be on another machine, which sees no folder of this one."""

    def launch(self, *arguments: str) -> Launch:
        """Tell how to start the program. It is no parent of what runs in containers."""
        return Launch(argv=(self.program, *arguments), env=self.env, cwd="/", contained=True)

    def call(self, *arguments: str, timeout: float) -> str:
        """Run the program to its end and return what it printed. Blocks: call it in a thread.

        Raises:
            SandboxError: it failed, or did not end in time.
        """
        done = self.ask(*arguments, timeout=timeout)
        if done.returncode != 0:
            raise failed(self.name, arguments[0], done.stderr)
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
                hint="see whether the engine works: `docker info`, `podman info`",
            ) from error
        except OSError as error:
            raise SandboxError(f"`{self.program}` could not be started: {error}") from error


def find(environ: Mapping[str, str]) -> Containers:
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
    first = _containers(*found[0], environ)
    if len(found) == 1 or answers(first):
        return first
    return _containers(*found[1], environ)


def answers(containers: Containers) -> bool:
    """Tell whether its engine answers. Blocks."""
    try:
        done = containers.ask("version", "--format", "{{.Server.Version}}", timeout=ANSWER)
    except SandboxError:
        return False
    return done.returncode == 0


def has_image(containers: Containers, image: str) -> bool:
    """Tell whether its engine answers and has the image. Blocks."""
    try:
        done = containers.ask("image", "inspect", "--format", "{{.Id}}", image, timeout=ANSWER)
    except SandboxError:
        return False
    return done.returncode == 0


def failed(name: str, what: str, stderr: bytes) -> SandboxError:
    """Return the error for a call of the program that failed: its own words, shortly."""
    words = stderr.decode(errors="backslashreplace").strip()
    if any(sign in words.lower() for sign in _GONE):
        return SandboxError(
            f"the engine of `{name}` does not answer: {_shortly(words)}",
            hint=HOW_TO_GET,
            code="sandbox_missing",
        )
    return SandboxError(f"`{name} {what}` failed: {_shortly(words)}")


def _shortly(words: str) -> str:
    told = [line for line in words.splitlines() if line.strip() and not line.startswith(("See '", "WARNING"))]
    return (told[-1] if told else "without a word").strip()[:500]


def _containers(name: str, program: str, environ: Mapping[str, str]) -> Containers:
    env = {variable: environ[variable] for variable in _NEEDED if variable in environ}
    host = _docker_host(program, env) if name == "docker" else env.get("CONTAINER_HOST", "")
    return Containers(name=name, program=program, env=env, remote=host.startswith(_REMOTE))


def _docker_host(program: str, env: Mapping[str, str]) -> str:
    """Return the address of docker's engine; nothing if it is the usual one of this machine."""
    if host := env.get("DOCKER_HOST"):
        return host
    context = env.get("DOCKER_CONTEXT") or _chosen_context(env)
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


def _chosen_context(env: Mapping[str, str]) -> str:
    folder = Path(env.get("DOCKER_CONFIG") or Path(env.get("HOME", "/"), ".docker"))
    try:
        settings = json.loads((folder / "config.json").read_bytes())
        return str(settings.get("currentContext") or "")
    except (OSError, ValueError, AttributeError):
        return ""
