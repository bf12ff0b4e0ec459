"""Defines the interface of all sandboxes, in which the programs of one task run."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Protocol

from kakite.errors import ExternalError
from kakite.processes.process import OUTPUT_LIMIT

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

    from kakite.processes import CompletedProcess, OnOutput, ProcessSpec
    from kakite.sandbox.spec import Network

__all__ = ["OUTPUT_LIMIT", "Sandbox", "SandboxError"]


class SandboxError(ExternalError):
    """A sandbox could not be made or reached, or has no such folder. A program's failure is no such error.

    Codes: ``sandbox_missing`` (what makes it is not installed), ``sandbox_failed``, ``folder_missing`` (the
    folder to start a program in, or the project's), ``project_unfit`` (programs may not work in that folder),
    ``project_elsewhere`` (an engine on another machine cannot see it).
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

    @property
    def kakite(self) -> tuple[str, ...]:
        """The words that start Kakite inside: the repository's own modules never stand in for it."""
        ...

    @property
    def services(self) -> str:
        """The folder inside with a unix socket for each of the host's services, by its name."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What the person should know of their own folder in it, once it is prepared."""
        ...

    @property
    def sealed(self) -> tuple[str, ...]:
        """The paths of the person's own folder that programs in it can only read, once it is prepared."""
        ...

    async def prepare(self) -> None:
        """Make it ready. Safe to repeat.

        Raises:
            SandboxError: it cannot be made here.
        """
        ...

    def build_process_spec(
        self,
        argv: tuple[str, ...],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        network: Network | None = None,
    ) -> ProcessSpec:
        """Tell how to start a program inside over plain pipes, a server over stdio for one.

        ``env`` is added to the minimal environment; ``cwd`` is a path inside, relative to the project;
        ``network`` is what it may reach, if that is not what the spec says. It
        reaches it while ``allow_network`` is entered.
        """
        ...

    def allow_network(self) -> AbstractContextManager[None]:
        """Let programs reach what the spec's network allows, for as long as this is entered.

        For what was launched. A program of ``exec`` has its network as long as it runs; meanwhile each of
        the others can reach that too.
        """
        ...

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
        """Run a program inside to its end; nothing that it started is left after. As ``processes.run``.

        A program that is not there is a result with exit code 127, a file that is none one with 126, as in a
        shell.

        Raises:
            SandboxError: the sandbox does not work, or the folder is not there.
        """
        ...

    async def destroy(self) -> None:
        """Let go of all that it holds, the temporary files too; the project and the home stay."""
        ...


def resolve_cwd(project: str, cwd: str | None) -> str:
    """Return the folder to start in, which may be given relative to the project."""
    return str(PurePosixPath(project, cwd or ""))


def build_kakite_argv(python: str) -> tuple[str, ...]:
    """Return the words that start Kakite by this interpreter, and no module of the folder or the home."""
    return (python, "-I", "-m", "kakite")
