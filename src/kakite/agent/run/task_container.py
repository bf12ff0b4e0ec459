"""The container whose image a run's commands work in, and from which its code may come.

What a person's image or container holds is copied once, and kept beside the run. Git and the editor work on
the copy in the run's sandbox; commands do in a container of the image, which shows it in the image's place.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from kakite.agent.git.mirror import GitError, Mirror, pipe_processes
from kakite.agent.git.url import RepoUrl
from kakite.agent.git.worktree import BINARY_ATTRIBUTES, EXCLUDE_PATTERNS, TIMEOUT
from kakite.agent.run.state import Task
from kakite.agent.run.store import RunFolder
from kakite.processes import COMMANDS
from kakite.sandbox import ResourceLimits, Sandbox
from kakite.sandbox.backends import engine
from kakite.sandbox.container.command_container import SERVICE, CommandContainer
from kakite.sandbox.container.image_folder import (
    ImageFolder,
    find_image_folder,
    remove_copy,
    save_folder,
    unpack_into,
)

_SOURCE_BRANCH = "refs/heads/main"
_GIT = (
    *("git", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.autocrlf=false"),
    *("-c", "core.attributesFile=/dev/null", "-c", "core.excludesFile=/dev/null"),
)
_ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    **{
        f"GIT_{role}_{key}": value
        for role in ("AUTHOR", "COMMITTER")
        for key, value in (("NAME", "Kakite"), ("EMAIL", "kakite@localhost"))
    },
}
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
# A history that is only here in part cannot be handed on, and what git is told by a link leads elsewhere.
_SNAPSHOT = """\
exclude=$1 attributes=$2
shift 2
if test ! -d .git || test -s .git/objects/info/alternates ||
  test "$("$@" rev-parse --is-shallow-repository)" != false ||
  "$@" config --get-regexp 'extensions\\.partialclone|remote\\..*\\.promisor' ||
  ! "$@" rev-parse --verify 'HEAD^{commit}'
then rm -rf .git; "$@" init --quiet || exit; fi > /dev/null 2>&1
mkdir -p .git/info && printf %s "$exclude" > .git/info/exclude || exit
printf %s "$attributes" > .git/info/attributes || exit
export GIT_INDEX_FILE=.git/kakite-index
"$@" add --all -- . && tree=$("$@" write-tree) || exit
alone=$("$@" commit-tree "$tree" -m 'The code in the container') || exit
head=$("$@" rev-parse --verify --quiet 'HEAD^{commit}') || head=
if test -z "$head"; then base=$alone
elif test "$tree" = "$("$@" rev-parse 'HEAD^{tree}')"; then base=$head
else base=$("$@" commit-tree "$tree" -p "$head" -m 'The code in the container, as it is') || exit; fi
echo "$("$@" rev-parse --show-object-format) $base $alone"
"""


class TaskContainer:
    """The image or container that a person named for a run, ``--container``."""

    def __init__(
        self, task: Task, record: RunFolder, environ: Mapping[str, str], limits: ResourceLimits
    ) -> None:
        self._task = task
        self._record = record
        self._environ = environ
        self._limits = limits
        self._folder: ImageFolder | None = None
        self._commands: CommandContainer | None = None

    @property
    def workdir(self) -> str:
        """The project's path as commands see it; only once the code is there, or commands run."""
        assert self._folder is not None
        return self._folder.workdir

    @property
    def has_code(self) -> bool:
        """Whether the run's code is that of the container, and not of a repository of the person's."""
        return self._task.repository == str(self._record.source)

    def build_environment(self, sandbox: Sandbox) -> dict[str, str]:
        """Return the variables by which the tools of the sandbox have commands run in the container."""
        return {COMMANDS: f"{sandbox.services}/{SERVICE}", "KAKITE_ROOT_ALIAS": self.workdir}

    async def import_code(self, sandbox: Sandbox) -> None:
        """Copy the folder with the code, and make a repository of what git does not ignore. Safe to repeat.

        Raises:
            SandboxError: there is no such container or folder, or it cannot be copied.
            GitError: git cannot take what lies in it.
        """
        folder, containers = await self._find()
        if not self.has_code:
            return
        if not self._record.code.exists():
            await save_folder(containers, folder, self._record.code, size=self._limits.disk)
        if (self._record.source / "refs/heads/main").exists():
            return
        await sandbox.prepare()
        try:
            # What a process that was killed has left.
            await sandbox.exec(("find", ".", "-mindepth", "1", "-delete"), timeout=TIMEOUT)
            await unpack_into(sandbox, self._record.code)
            await self._commit_code(sandbox)
        finally:
            await sandbox.destroy()

    async def _commit_code(self, sandbox: Sandbox) -> None:
        words = ("sh", "-c", _SNAPSHOT, "sh", EXCLUDE_PATTERNS, BINARY_ATTRIBUTES, *_GIT)
        done = await sandbox.exec(words, timeout=TIMEOUT, env=_ENVIRONMENT)
        told = done.stdout.decode(errors="replace").split()
        if done.exit_code != 0 or len(told) != 3 or not all(map(_COMMIT.fullmatch, told[1:])):
            said = done.stderr.decode(errors="replace").strip().splitlines() or ["no commit"]
            raise GitError(f"git cannot take the code of the container: {said[-1]}")
        object_format, base, alone = told
        await asyncio.to_thread(_init_repository, self._record.source, object_format, self._environ)
        source = Mirror(self._record.source, RepoUrl(str(self._record.source)), self._environ)
        try:
            await _send(sandbox, source, base)
        except GitError:  # an old history may hold what git does not take today: the files count
            base = alone
            await _send(sandbox, source, base)
        await sandbox.exec(("rm", "-rf", ".git"), timeout=TIMEOUT)
        await source.update_ref(base, _SOURCE_BRANCH)

    async def seed(self, sandbox: Sandbox) -> None:
        """Put all that the folder of the image holds into a sandbox's project, without its repository.

        Raises:
            SandboxError: it does not fit.
        """
        if self.has_code:
            await unpack_into(sandbox, self._record.code)
            await sandbox.exec(("rm", "-rf", ".git"), timeout=TIMEOUT)

    @asynccontextmanager
    async def open_commands(self, project: Path, inside: str) -> AsyncGenerator[CommandContainer]:
        """Start a new container over a project, which commands of the sandbox's tools may run in too.

        Args:
            project: the project on this machine.
            inside: its path in the sandbox.

        Raises:
            SandboxError: it cannot be started.
        """
        folder, _ = await self._find()
        commands = CommandContainer(folder, self._environ, self._limits)
        await commands.start(project, inside)
        try:
            yield commands
        finally:
            await commands.close()

    @asynccontextmanager
    async def serve_commands(self, project: Path, inside: str) -> AsyncGenerator[None]:
        """Have the commands of the sandbox's tools run in a container, until the end.

        Raises:
            SandboxError: it cannot be started.
        """
        async with self.open_commands(project, inside) as commands:
            self._commands = commands
            try:
                yield
            finally:
                self._commands = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection of the tools: one command."""
        if self._commands is not None:
            await self._commands.serve(reader, writer)

    async def end_commands(self) -> None:
        """End all that runs in the container of the tools' commands; what was installed there stays."""
        if self._commands is not None:
            await self._commands.end_commands()

    def check(self) -> None:
        """Make sure that the container in which commands run is there.

        Raises:
            SandboxError: it has ended by itself.
        """
        if self._commands is not None:
            self._commands.check()

    async def discard(self) -> None:
        """Remove what was copied for a run that needs it no more."""
        self._record.code.unlink(missing_ok=True)
        if self._folder is not None:
            containers = await asyncio.to_thread(engine.find, self._environ)
            await asyncio.to_thread(remove_copy, containers, self._folder)

    async def _find(self) -> tuple[ImageFolder, engine.ContainerEngine]:
        containers = await asyncio.to_thread(engine.find, self._environ)
        if self._folder is None:
            task = self._task
            self._folder = await asyncio.to_thread(
                find_image_folder, containers, task.container, task.workdir, str(self._record.folder)
            )
        return self._folder, containers


async def _send(sandbox: Sandbox, source: Mirror, commit: str) -> None:
    packing = ("pack-objects", "--revs", "--stdout", "--delta-base-offset", "-q")
    spec = sandbox.build_process_spec((*_GIT, *packing), env=_ENVIRONMENT)
    await pipe_processes(spec, source.build_index_pack_spec(), stdin=f"{commit}\n".encode(), timeout=TIMEOUT)
    await source.update_ref(commit, "refs/kakite/code")


def _init_repository(folder: Path, object_format: str, environ: Mapping[str, str]) -> None:
    """Make an empty repository, where there is none."""
    words = ("git", "init", "--quiet", "--bare", "--initial-branch=main", f"--object-format={object_format}")
    done = subprocess.run(
        [*words, str(folder)],
        env={
            "PATH": environ.get("PATH", os.defpath),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        raise GitError(f"`git init` failed: {done.stderr.decode(errors='replace').strip()}")
