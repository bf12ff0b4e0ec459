"""Reads and writes files as the editor has them, by the protocol's ``fs`` methods."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, Protocol, TypeVar

from acp import RequestError, schema

from kakite.workspace import make_buffer_error

FILE_TIMEOUT = 10.0
"""Seconds that the editor has for one file: others wait for their turn at it meanwhile."""
AnswerT = TypeVar("AnswerT")


class FileClient(Protocol):
    """What we ask of an editor that offers its files."""

    async def read_text_file(self, session_id: str, path: str, **kwargs: Any) -> schema.ReadTextFileResponse:
        """Return a file's text, unsaved changes included."""
        ...

    async def write_text_file(self, session_id: str, path: str, content: str, **kwargs: Any) -> Any:
        """Take a file's new text."""
        ...


@dataclass(kw_only=True)
class EditorBuffers:
    """The files of one session. Buffers of a workspace: asked in worker threads."""

    client: FileClient
    project: Path
    """The session's folder as the editor names it."""
    can_write: bool
    loop: asyncio.AbstractEventLoop
    session_id: str = ""
    timeout: float = FILE_TIMEOUT
    is_paused: bool = False
    """While a command runs in the background, which could put a link in a file's place meanwhile."""
    known: dict[str, str] = field(default_factory=dict[str, str])
    """The text of each file as it was last read or written, by the editor's own paths."""
    replaced: dict[str, str] = field(default_factory=dict[str, str])
    """What files were before they were written to, until somebody has taken note of it."""
    _root: str = ""

    def __post_init__(self) -> None:
        """Look where the folder really is: paths without links are what we are asked for."""
        self._root = str(self.project.resolve())

    def to_editor_path(self, path: str) -> str:
        """Return a file's path as the editor names it."""
        try:
            return str(self.project / PurePath(path).relative_to(self._root))
        except ValueError:
            return path

    def read(self, path: str) -> str:
        """Return the text of a file as the editor has it.

        Raises:
            WorkspaceError: ``buffer_failed``.
        """
        named = self.to_editor_path(path)
        answer = self._wait(named, "read", self.client.read_text_file(self.session_id, named))
        self.known[named] = answer.content
        return answer.content

    def write(self, path: str, text: str) -> None:
        """Give the editor the new text of a file.

        Raises:
            WorkspaceError: ``buffer_failed``.
        """
        named = self.to_editor_path(path)
        self._wait(named, "write", self.client.write_text_file(self.session_id, named, text))
        if named in self.known:
            self.replaced.setdefault(named, self.known[named])
        self.known[named] = text

    def _wait(self, path: str, what: str, asking: Coroutine[Any, Any, AnswerT]) -> AnswerT:
        """Return what the editor answers, in a thread that is not the event loop's."""
        future = asyncio.run_coroutine_threadsafe(asyncio.wait_for(asking, self.timeout), self.loop)
        try:
            return future.result(self.timeout + 1)
        except TimeoutError:
            future.cancel()
            told = f"did not {what} `{path}` within {self.timeout:.0f} s"
            raise make_buffer_error(path, told) from None
        except RequestError as error:
            raise make_buffer_error(path, f"could not {what} `{path}`: {_describe(error)}") from error
        except Exception as error:  # gone, or an answer that is none
            raise make_buffer_error(path, f"could not be asked to {what} `{path}`: {error}") from error


def _describe(error: RequestError) -> str:
    details: Any = error.data
    return f"{error} ({details})" if details else str(error)
