"""Runs programs without isolation, as the user who started Kakite.

They get the minimal environment and a home of their own, so that nothing is handed to them by accident. What
the user can read or change, they can as well.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from kakite.processes import (
    CompletedProcess,
    OnOutput,
    ProcessError,
    ProcessSpec,
    build_base_environment,
    build_import_environment,
    run,
)
from kakite.sandbox.backends.editable_installs import find_import_roots
from kakite.sandbox.base import OUTPUT_LIMIT, SandboxError, build_kakite_argv, resolve_cwd
from kakite.sandbox.files.task_folder import TaskFolder
from kakite.sandbox.services import ServiceSockets, check_names

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

    from kakite.sandbox.spec import Network, SandboxSpec


_SOCKET_PATH = 107 if sys.platform == "linux" else 103
"""Bytes that the path of a socket may have."""

_NOT_STARTED = {"program_missing": 127, "not_executable": 126}
"""What a shell says for an error."""


class LocalSandbox:
    """Runs programs in the task's folder. Paths inside are the host's."""

    kind = "local"
    isolates = False
    kakite = build_kakite_argv(sys.executable)
    notes = ()

    def __init__(
        self, folder: Path, environ: Mapping[str, str], terms: SandboxSpec, *, project: Path | None = None
    ) -> None:
        check_names(terms.services)
        self._folder = TaskFolder(folder.absolute())
        self._project = project.resolve() if project else self._folder.project
        self._services = _shorten_path(self._folder.services, max(map(len, terms.services), default=0))
        self._listeners = ServiceSockets()
        self._terms = terms
        temporary = {"TMPDIR": str(self._folder.temporary)}
        self._environ = environ
        self._env = build_base_environment(environ, str(self._folder.home)) | temporary

    @property
    def project(self) -> str:
        """The project's path on the host."""
        return str(self._project)

    @property
    def sealed(self) -> tuple[str, ...]:
        """Nothing: programs can do what the person can."""
        return ()

    @property
    def services(self) -> str:
        """A folder beside the project; one with a shorter path where a socket's would be too long."""
        return str(self._services)

    async def prepare(self) -> None:
        """Make the task's folders and the sockets of the services.

        Raises:
            SandboxError: a socket cannot be made; or the task's folders are another user's, code
                ``folder_not_yours``; or there is no project, code ``folder_missing``.
        """
        self._folder.make()
        if not self._project.is_dir():
            raise SandboxError(f"there is no folder `{self._project}`", code="folder_missing")
        await self._folder.take_ownership()
        if self._terms.checkout is not None:
            roots = await asyncio.to_thread(find_import_roots, self._terms.checkout, self._environ)
            self._env |= build_import_environment(
                os.pathsep.join(str(self._project / root) for root in roots)
            )
        await self._listeners.open(self._services, self._terms.services)

    def build_process_spec(
        self,
        argv: tuple[str, ...],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        network: Network | None = None,  # noqa: ARG002 - no network is withheld here
    ) -> ProcessSpec:
        """Tell how to start a program with the minimal environment and ``env``."""
        return ProcessSpec(argv=argv, env={**self._env, **(env or {})}, cwd=resolve_cwd(self.project, cwd))

    def allow_network(self) -> AbstractContextManager[None]:
        """Do nothing: no network is withheld here."""
        return nullcontext()

    async def exec(  # noqa: PLR0913 - what launch takes and what processes.run takes
        self,
        argv: tuple[str, ...],
        *,
        stdin: bytes = b"",
        timeout: float | None,  # noqa: ASYNC109 - as processes.run
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        network: Network | None = None,
        limit: int = OUTPUT_LIMIT,
        on_output: OnOutput | None = None,
    ) -> CompletedProcess:
        """Run a program to its end.

        Raises:
            SandboxError: the folder is not there, or the program cannot be started at all.
        """
        launch = self.build_process_spec(argv, env=env, cwd=cwd, network=network)
        try:
            return await run(launch, stdin=stdin, timeout=timeout, limit=limit, on_output=on_output)
        except ProcessError as error:
            if exit_code := _NOT_STARTED.get(error.code):
                return CompletedProcess(
                    exit_code=exit_code, stdout=b"", stderr=f"{error}\n".encode(), duration=0.0
                )
            code = error.code if error.code == "folder_missing" else "sandbox_failed"
            raise SandboxError(error.message, hint=error.hint, code=code) from error

    async def destroy(self) -> None:
        """Delete the temporary files and the sockets."""
        await self._listeners.close()
        if self._services != self._folder.services:
            await asyncio.to_thread(shutil.rmtree, self._services, ignore_errors=True)
        await self._folder.empty_temporary()


def _shorten_path(folder: Path, name: int) -> Path:
    """Return the folder, or another of this user's whose path leaves room for the name of a socket."""
    if len(os.fsencode(folder)) + 1 + name <= _SOCKET_PATH:
        return folder
    digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    return Path(tempfile.gettempdir(), f"kakite-{os.getuid()}-{digest}")
