"""Takes the folders that the client names, its roots, for those that tools may use."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import mcp_types as mcp
from mcp.server.lowlevel.server import RequestHandler
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ValidationError

from kakite.errors import KakiteError
from kakite.serve.file_uris import parse_file_uri
from kakite.serve.server import Context, McpServer
from kakite.serve.to_mcp import to_mcp_result
from kakite.tools import bind_call
from kakite.tools.toolset import ToolResult
from kakite.workspace import Workspace, WorkspaceError

MAX_ROOTS = 100
ANSWER_TIME = 30  # s in which a client has to say what its roots are
_KEY = "roots"
_Identity = tuple[int, int]
_HINT = "let the person open a folder in the client, or start the server with one: --root DIR"


def add_client_roots(server: McpServer, open_workspace: Callable[[Sequence[str]], Workspace]) -> None:
    """Let all that the server offers by now work in the folders of its only client, and nowhere else.

    Args:
        server: which; over standard input and output.
        open_workspace: opens folders, given by their absolute paths. It is called in another thread.
    """
    roots = _ClientRoots(open_workspace)
    for method in ("tools/call", "resources/read", "prompts/get", "resources/list", "completion/complete"):
        if entry := server.get_request_handler(method):
            server.add_request_handler(method, entry.params_type, _bind_roots(roots, method, entry.handler))

    async def forget(_context: Context, _params: mcp.NotificationParams) -> None:
        roots.forget()

    server.add_notification_handler("notifications/roots/list_changed", mcp.NotificationParams, forget)


def _bind_roots(
    roots: _ClientRoots, method: str, handler: RequestHandler[dict[str, Any], Any]
) -> RequestHandler[dict[str, Any], Any]:
    """Return the handler, for requests that may use the client's folders."""

    async def handle(context: Context, params: Any) -> Any:
        try:
            found = await roots.find(context, getattr(params, "input_responses", None))
        except WorkspaceError as error:
            return await _refuse(method, handler, context, params, error)
        if isinstance(found, Workspace):
            with bind_call(workspace=found):
                return await handler(context, params)
        # A list cannot wait for an answer of the client: it is empty.
        return found if method in _CAN_ASK else await handler(context, params)

    return handle


_CAN_ASK = {"tools/call", "resources/read", "prompts/get"}
"""What may be answered by a question in the newer era."""


async def _refuse(
    method: str,
    handler: RequestHandler[dict[str, Any], Any],
    context: Context,
    params: Any,
    error: WorkspaceError,
) -> Any:
    if method == "tools/call":
        told = f"Error ({error.code}): {error.message}\n{error.hint}"
        return to_mcp_result(ToolResult(text=told, is_error=True, code=error.code))
    if method in _CAN_ASK:
        raise MCPError(mcp.INVALID_PARAMS, error.message, {"code": error.code}) from error
    return await handler(context, params)


class _Root(BaseModel):
    uri: str


class _RootsResult(BaseModel):
    """What ``roots/list`` answers, whatever kinds of addresses it has."""

    roots: list[_Root]


class _ClientRoots:
    """The roots of the only client, and the workspace that they are."""

    def __init__(self, open_workspace: Callable[[Sequence[str]], Workspace]) -> None:
        self._open_workspace = open_workspace
        self._turn = asyncio.Lock()
        self._changes = 0
        self._told: tuple[int, Workspace] | None = None
        """What the client said last, after how many changes."""
        self._opened: tuple[dict[str, _Identity], Workspace] | None = None
        self._places: dict[str, str] = {}
        """Where each root was when it was named first. A link that is swapped later makes nothing wider."""

    def forget(self) -> None:
        """Ask the client anew before the next request."""
        self._changes += 1

    async def find(
        self, context: Context, answers: Mapping[str, object] | None
    ) -> Workspace | mcp.InputRequiredResult:
        """Return the folders, or what the client has to be asked first.

        Raises:
            WorkspaceError: ``no_root``.
        """
        able = context.session.client_capabilities
        if able is None or able.roots is None:
            raise _make_error("no folder is open, and this client has no roots")
        if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            async with self._turn:
                return await self._ask(context)
        if answers is None:
            return mcp.InputRequiredResult(input_requests={_KEY: mcp.ListRootsRequest()})
        answer = answers.get(_KEY)
        if not isinstance(answer, mcp.ListRootsResult):
            raise _make_error("the client did not say what its roots are")
        async with self._turn:
            return await self._open([str(root.uri) for root in answer.roots])

    async def _ask(self, context: Context) -> Workspace:
        try:
            async with asyncio.timeout(ANSWER_TIME):
                while self._told is None or self._told[0] != self._changes:
                    changes = self._changes
                    answer = await context.session.send_request(mcp.ListRootsRequest(), _RootsResult)
                    self._told = (changes, await self._open([root.uri for root in answer.roots]))
        except (MCPError, ValidationError, TimeoutError) as error:
            raise _make_error("the client did not say what its roots are") from error
        return self._told[1]

    async def _open(self, uris: Sequence[str]) -> Workspace:
        if len(uris) > MAX_ROOTS:
            raise _make_error(f"the client has more than {MAX_ROOTS} roots")
        folders = await asyncio.to_thread(self._settle, uris)
        if not folders:
            raise _make_error("none of the client's roots is a folder here")
        if self._opened is None or list(self._opened[0].items()) != list(folders.items()):
            self._opened = None
            try:
                workspace = await asyncio.to_thread(self._open_workspace, tuple(folders))
            except KakiteError as error:
                raise _make_error(f"the client's roots cannot be opened: {error.message}") from error
            if workspace.roots != tuple(self._places[each] for each in folders):
                raise _make_error("a root of the client was replaced just now")
            self._opened = (folders, workspace)
        return self._opened[1]

    def _settle(self, uris: Sequence[str]) -> dict[str, _Identity]:
        """Return the roots that are folders, where they were first; never ``/``, which is no project."""
        settled: dict[str, _Identity] = {}
        for uri in uris:
            path = parse_file_uri(uri)
            if path is None or "\0" in path:
                continue
            path = os.path.normpath("/" + path.lstrip("/"))
            place, identity = _locate(path)
            if identity is not None and self._places.setdefault(path, place) == place:
                settled[path] = identity
        return settled


def _locate(path: str) -> tuple[str, _Identity | None]:
    """Return where a path leads, and which folder that is; None if it is none that can be a project."""
    try:
        place = Path(path).resolve()
        status = place.stat()
    except (OSError, RuntimeError):  # nothing is there, it is too long, or links lead in a circle
        return path, None
    usable = stat.S_ISDIR(status.st_mode) and os.access(place, os.R_OK | os.X_OK) and place != Path("/")
    return str(place), (status.st_dev, status.st_ino) if usable else None


def _make_error(message: str) -> WorkspaceError:
    return WorkspaceError("no_root", "", message, hint=_HINT)
