"""Isolation by bubblewrap: namespaces of its own, the system read-only, everything else not there.

What programs inside see is built from nothing: the system's own folders, Kakite and its interpreter, all
read-only, and the task's three folders. No home, no ``/run``, no other run, no network but loopback, no
process of the host. ``docs/sandbox.md`` lists what this holds and what it does not.
"""

from __future__ import annotations

import os
import pwd
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from kakite.processes import Completed, Launch, ProcessError, base_environment, run
from kakite.sandbox import mounts
from kakite.sandbox.folder import TaskFolder
from kakite.sandbox.sandbox import OUTPUT_LIMIT, SandboxError, inside
from kakite.workspace import state_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kakite.processes import OnOutput

PROGRAM = "bwrap"
HOW_TO_GET = (
    "install bubblewrap 0.8 or newer (`apt install bubblewrap`), or use `--sandbox local`: no isolation"
)
_HOME = "/workspace/home"
_PROJECT = "/workspace/project"
_ISOLATION = (
    "--unshare-all",
    "--unshare-user",  # required, where --unshare-all only tries
    "--disable-userns",  # no namespaces within, in which the kernel would trust programs with more
    "--die-with-parent",
    "--new-session",
    "--hostname",
    "sandbox",
    "--cap-drop",
    "ALL",
)
_LOADED = ("LD_", "GLIBC_", "GCONV_", "LOCPATH", "MALLOC_", "NLSPATH", "LOCALDOMAIN", "RES", "HOSTALIASES")
"""Variables that would change bubblewrap itself, which runs outside: set by it, not inherited by it."""


class BubblewrapSandbox:
    """Runs each program in namespaces of its own that end with it."""

    kind = "bubblewrap"
    isolates = True
    project = _PROJECT

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self._folder = TaskFolder(folder.resolve())
        self._env = base_environment(environ, _HOME) | {"TMPDIR": "/tmp"}  # noqa: S108 - a path inside
        self._program = shutil.which(PROGRAM, path=environ.get("PATH")) or ""
        self._user_home = Path(environ.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir).resolve()
        self._state = state_path(environ).resolve()
        self._mounts: tuple[str, ...] = ()

    async def prepare(self) -> None:
        """Make the task's folders, look what to show and to hide, and try it.

        Raises:
            SandboxError: bubblewrap is not installed, too old, or not allowed here.
        """
        if not self._program:
            raise SandboxError("`bwrap` was not found", hint=HOW_TO_GET, code="sandbox_missing")
        self._folder.make()
        self._mounts = mounts.plan(self._folder, self._user_home, self._state, home=_HOME, project=_PROJECT)
        try:
            tried = await self.exec(("/bin/sh", "-c", "exit 42"), timeout=20)
        except SandboxError as error:
            raise SandboxError(error.message, hint=HOW_TO_GET, code="sandbox_missing") from error
        if tried.exit_code != 42:
            raise SandboxError("a shell does not run in bubblewrap here", hint=HOW_TO_GET)

    def launch(
        self, argv: tuple[str, ...], *, env: Mapping[str, str] | None = None, cwd: str | None = None
    ) -> Launch:
        """Tell how to start a program inside.

        Raises:
            SandboxError: ``prepare`` has not been awaited.
        """
        if not self._mounts:
            raise SandboxError("the sandbox was not prepared")
        env = {**self._env, **(env or {})}
        loaded = {name: value for name, value in env.items() if name.startswith(_LOADED)}
        setenv = [part for name, value in loaded.items() for part in ("--setenv", name, value)]
        chdir = ("--chdir", inside(_PROJECT, cwd))
        return Launch(
            argv=(self._program, *_ISOLATION, *self._mounts, *setenv, *chdir, "--", *argv),
            env={name: value for name, value in env.items() if name not in loaded},
            cwd="/",
            contained=True,
        )

    async def exec(
        self,
        argv: tuple[str, ...],
        *,
        stdin: bytes = b"",
        timeout: float | None,  # noqa: ASYNC109 - as processes.run
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        limit: int = OUTPUT_LIMIT,
        on_output: OnOutput | None = None,
    ) -> Completed:
        """Run a program inside to its end.

        Raises:
            SandboxError: bubblewrap failed, or the folder is not there.
        """
        launch = self.launch(argv, env=env, cwd=cwd)
        try:
            done = await run(launch, stdin=stdin, timeout=timeout, limit=limit, on_output=on_output)
        except ProcessError as error:
            raise SandboxError(error.message, hint=error.hint) from error
        return _judge(done)

    async def destroy(self) -> None:
        """Delete the temporary files. Namespaces and mounts are gone with each program."""
        await self._folder.empty_temporary()


def _judge(done: Completed) -> Completed:
    """Tell bubblewrap's own failures from those of the program.

    A program that imitates bubblewrap's messages fools only its own caller: an error it is either way.
    """
    if done.exit_code != 1 or not done.stderr.startswith(b"bwrap: "):
        return done
    message = done.stderr.decode(errors="backslashreplace").strip().removeprefix("bwrap: ")
    if message.startswith("execvp "):
        code = 127 if message.endswith("No such file or directory") else 126
        stderr = f"{message.removeprefix('execvp ')}\n".encode()
        return Completed(exit_code=code, stdout=b"", stderr=stderr, duration=done.duration)
    if message.startswith("Can't chdir to "):
        raise SandboxError(message, code="folder_missing")
    raise SandboxError(f"bubblewrap failed: {message}")
