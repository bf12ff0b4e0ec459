"""Kakite's own editor in this process, for a session whose files a person's editor has open.

Programs in the sandbox cannot reach that editor, and see what is on the disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from kakite.errors import KakiteError
from kakite.host import ServerError
from kakite.tools.editor.edit_formats import EditorOptions
from kakite.tools.function_toolset import FunctionToolset
from kakite.tools.toolset import JsonObject, Tool, ToolCall, ToolResult
from kakite.tools.toolset_factory import open_toolset
from kakite.workspace import DEFAULT_DENYLIST, Buffers, Workspace, ensure_state_folder, open_edit_log


class BufferEditor:
    """The tools that edit, on the files as a person's editor has them. Used like a ``SupervisedServer``."""

    def __init__(
        self,
        project: Path,
        inside: str,
        buffers: Buffers,
        options: EditorOptions,
        environ: Mapping[str, str],
        sealed: Sequence[str] = (),
    ) -> None:
        """Take what it works on.

        Args:
            project: the person's folder.
            inside: the path that commands have of it.
            buffers: its files as the person's editor has them.
            options: how the tools are offered.
            environ: where the user's state folder is looked up, which has the edit log.
            sealed: the paths that commands can only read: this editor works outside of their sandbox.
        """
        self._project = project
        self._inside = inside
        self._buffers = buffers
        self._options = options
        self._environ = environ
        self._sealed = sealed
        self._workspace: Workspace | None = None
        self._tools = FunctionToolset()

    async def start(self) -> None:
        """Open the folder.

        Raises:
            ServerError: it cannot be opened.
        """
        try:
            self._workspace = await asyncio.to_thread(self._open)
        except KakiteError as error:
            raise ServerError(error.message, hint=error.hint, code="server_failed") from error
        self._tools = open_toolset(self._workspace, ("editor",), editor=self._options)

    def _open(self) -> Workspace:
        root = str(self._project.resolve())
        history = open_edit_log(ensure_state_folder(self._environ), root)
        workspace = Workspace([root], denied=(*DEFAULT_DENYLIST, *self._sealed), history=history)
        workspace.buffers = self._buffers
        return workspace

    def pause(self, *, paused: bool) -> None:
        """Say whether the person's editor is not to be asked now."""
        self._buffers.is_paused = paused

    async def stop(self) -> None:
        """Close the folder."""
        if self._workspace is not None:
            await asyncio.to_thread(self._workspace.close)
            self._workspace = None

    async def list_tools(self) -> tuple[Tool, ...]:
        """Return the tools."""
        return await self._tools.list_tools()

    async def call(self, call: ToolCall) -> ToolResult:
        """Call a tool."""
        return await self._tools.call(replace(call, arguments=self._to_own_paths(call.arguments)))

    def _to_own_paths(self, arguments: JsonObject) -> JsonObject:
        """Return arguments whose paths are ours where they were those of commands."""
        changed = {name: self._to_own_path(arguments[name]) for name in ("path",) if name in arguments}
        edits = arguments.get("edits")
        if isinstance(edits, list):
            several = cast("list[Any]", edits)
            changed["edits"] = [
                self._to_own_paths(cast("JsonObject", each)) if isinstance(each, dict) else each
                for each in several
            ]
        return {**arguments, **changed}

    def _to_own_path(self, path: Any) -> Any:
        if not isinstance(path, str) or not path.startswith("/"):
            return path
        return path.removeprefix(self._inside).removeprefix("/") or "." if self._is_inside(path) else path

    def _is_inside(self, path: str) -> bool:
        return path == self._inside or path.startswith(f"{self._inside}/")
