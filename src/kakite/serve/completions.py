"""Completes paths: in arguments of prompts and in the addresses of resources."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import PurePosixPath

import mcp_types as mcp
from mcp.shared.exceptions import MCPError

from kakite.serve.server import Context, McpServer, Prompt
from kakite.tools.call_context import current_call
from kakite.workspace import Workspace, WorkspaceError

MOST = 100  # values of one answer, as the protocol has it
LOOKED = 20_000  # files that one answer looks at


def add_completions(
    server: McpServer,
    workspace: Workspace | None,
    *,
    prompts: Sequence[Prompt] = (),
    templates: Sequence[str] = (),
    argument: str = "path",
) -> None:
    """Let the server complete the paths of files: never one that tools may not write, or that is not listed.

    Args:
        server: which.
        workspace: whose files; without one, those of the workspace that the request brings (``bind_call``).
        prompts: whose argument of the name ``argument`` is the path of a file.
        templates: addresses of resources in which ``{+path}`` stands for an absolute path.
        argument: the name of what is completed; all others have no values.
    """
    known: Mapping[str, Sequence[str]] = {each.name: tuple(each.arguments) for each in prompts}

    async def complete(_context: Context, params: mcp.CompleteRequestParams) -> mcp.CompleteResult:
        ref, name = params.ref, params.argument.name
        of_prompt = isinstance(ref, mcp.PromptReference)
        arguments = known.get(ref.name) if of_prompt else (argument,) if ref.uri in templates else None
        if arguments is None or name not in arguments:
            told = f"there is no `{name[:100]}` to complete in this prompt or template"
            raise MCPError(mcp.INVALID_PARAMS, told)
        found = current_call().workspace or workspace
        if found is None or name != argument:
            return _to_result([])
        return await asyncio.to_thread(_complete, found, params.argument.value, addresses=not of_prompt)

    server.add_request_handler("completion/complete", mcp.CompleteRequestParams, complete)


def _complete(workspace: Workspace, begun: str, *, addresses: bool) -> mcp.CompleteResult:
    """Return the paths that begin so: as tools are told them, or as they stand in an address."""
    if addresses:
        paths = (path[1:] for path in _find_files(workspace, f"/{begun}"))
    elif begun.startswith("/"):
        paths = _find_files(workspace, begun)
    else:
        first = _end(workspace.roots[0])
        full = first + begun.removeprefix("./") if begun else "/"
        paths = (path.removeprefix(first) for path in _find_files(workspace, full))
    return _to_result(list(islice(paths, MOST + 1)))


def _to_result(values: Sequence[str]) -> mcp.CompleteResult:
    more = len(values) > MOST
    completion = mcp.Completion(
        values=list(values[:MOST]), total=None if more else len(values), has_more=more
    )
    return mcp.CompleteResult(completion=completion)


def _end(folder: str) -> str:
    return folder.rstrip("/") + "/"


def _find_files(workspace: Workspace, begun: str) -> Iterator[str]:
    """Yield the absolute paths of the files that begin so, sorted in each root."""
    every = chain.from_iterable(_walk(workspace, root, begun) for root in map(_end, workspace.roots))
    found = (path for path in islice(every, LOOKED) if path.startswith(begun))
    seen: set[str] = set()  # one root may be in another
    for path in found:
        if path not in seen and _is_offered(workspace, path):
            seen.add(path)
            yield path


def _walk(workspace: Workspace, root: str, begun: str) -> Iterator[str]:
    """Yield the files of a root that may begin so."""
    if root.startswith(begun):
        folder = root
    elif begun.startswith(root):
        folder = begun.rpartition("/")[0]
    else:
        return
    with suppress(WorkspaceError):  # it is not there
        for file in workspace.find_files(folder):
            yield str(PurePosixPath(workspace.roots[0], file.path))


def _is_offered(workspace: Workspace, path: str) -> bool:
    """Tell whether a path can be sent as text, and may be written."""
    try:
        os.fsencode(path).decode()
        workspace.check_writable(path)
    except (UnicodeDecodeError, WorkspaceError):
        return False
    return True
