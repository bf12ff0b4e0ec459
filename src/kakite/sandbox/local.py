"""No isolation at all: programs run as the user who started Kakite.

They get the minimal environment and a home of their own, so that nothing is handed to them by accident.
What the user can read or change, they can as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kakite.processes import Completed, Launch, OnOutput, ProcessError, base_environment, run
from kakite.sandbox.folder import TaskFolder
from kakite.sandbox.sandbox import OUTPUT_LIMIT, SandboxError, inside

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class LocalSandbox:
    """Runs programs in the task's folder. Paths inside are the host's."""

    kind = "local"
    isolates = False

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self._folder = TaskFolder(folder.absolute())
        temporary = {"TMPDIR": str(self._folder.temporary)}
        self._env = base_environment(environ, str(self._folder.home)) | temporary

    @property
    def project(self) -> str:
        """The project's path on the host."""
        return str(self._folder.project)

    async def prepare(self) -> None:
        """Make the task's folders."""
        self._folder.make()

    def launch(
        self, argv: tuple[str, ...], *, env: Mapping[str, str] | None = None, cwd: str | None = None
    ) -> Launch:
        """Tell how to start a program with the minimal environment and ``env``."""
        return Launch(argv=argv, env={**self._env, **(env or {})}, cwd=inside(self.project, cwd))

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
        """Run a program to its end.

        Raises:
            SandboxError: the folder is not there, or the program cannot be started at all.
        """
        launch = self.launch(argv, env=env, cwd=cwd)
        try:
            return await run(launch, stdin=stdin, timeout=timeout, limit=limit, on_output=on_output)
        except ProcessError as error:
            if error.code == "program_missing":
                return Completed(exit_code=127, stdout=b"", stderr=f"{error}\n".encode(), duration=0.0)
            code = error.code if error.code == "folder_missing" else "sandbox_failed"
            raise SandboxError(error.message, hint=error.hint, code=code) from error

    async def destroy(self) -> None:
        """Delete the temporary files."""
        await self._folder.empty_temporary()
