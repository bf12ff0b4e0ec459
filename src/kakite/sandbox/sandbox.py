"""Where the programs of one task run: the seam, whatever is behind it."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Protocol

from kakite.errors import OutsideError
from kakite.processes.program import OUTPUT_LIMIT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kakite.processes import Completed, Launch, OnOutput

__all__ = ["OUTPUT_LIMIT", "Sandbox", "SandboxError"]


class SandboxError(OutsideError):
    """A sandbox could not be made or reached, or has no such folder. A program's failure is no such error.

    Codes: ``sandbox_missing`` (what makes it is not installed), ``sandbox_failed``, ``folder_missing`` (the
    folder to start a program in).
    """

    code = "sandbox_failed"


class Sandbox(Protocol):
    """A place of a task's own for its programs. The task's folder on the host outlives it.

    ``prepare``, then any number of programs, also at the same time, then ``destroy``.
    """

    @property
    def kind(self) -> str:
        """``bubblewrap``, ``local``: the name it was asked for by."""
        ...

    @property
    def isolates(self) -> bool:
        """Whether it keeps programs from what is outside."""
        ...

    @property
    def project(self) -> str:
        """The path of the project as programs inside see it."""
        ...

    async def prepare(self) -> None:
        """Make it ready. Safe to repeat.

        Raises:
            SandboxError: it cannot be made here.
        """
        ...

    def launch(
        self, argv: tuple[str, ...], *, env: Mapping[str, str] | None = None, cwd: str | None = None
    ) -> Launch:
        """Tell how to start a program inside over plain pipes, a server over stdio for one.

        ``env`` is added to the minimal environment; ``cwd`` is a path inside, relative to the project.
        """
        ...

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
        """Run a program inside to its end; nothing that it started is left after. As ``processes.run``.

        A program that is not there is a result with exit code 127, as in a shell.

        Raises:
            SandboxError: the sandbox does not work, or the folder is not there.
        """
        ...

    async def destroy(self) -> None:
        """Let go of all that it holds, the temporary files too; the project and the home stay."""
        ...


def inside(project: str, cwd: str | None) -> str:
    """Return the folder to start in, which may be given relative to the project."""
    return str(PurePosixPath(project, cwd or ""))
