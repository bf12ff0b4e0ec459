"""Removes pages, brings them back, and renames them, with all that is known of them.

The file of a removed page is gone; its document, suggestions, conversation and named versions stay in the
store, and its content in the edit log, until somebody brings it back.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Annotated

from fastapi import FastAPI, Request
from pydantic import BaseModel, Field

from kakite.collab.auth.authorize import NotAllowedError, get_user, require
from kakite.collab.registry import DocumentBusyError, DocumentNotFoundError, is_document
from kakite.collab.store import Departure
from kakite.workspace import Author, FileWrite, Workspace, WorkspaceError

if TYPE_CHECKING:
    from kakite.collab.auth.policy import User
    from kakite.collab.registry import DocumentRegistry

_MAX_LISTED = 200


class DocumentGoneError(DocumentNotFoundError):
    """There is no page of this name any more, and it is known what became of it."""

    def __init__(self, gone: Departure) -> None:
        super().__init__(
            f"there is no page `{gone.name}` any more",
            hint=f"it is `{gone.target}` now" if gone.target else "bring it back from the removed pages",
        )
        self.data: dict[str, object] = (
            {"renamed": gone.target} if gone.target else {"removed": {"by": gone.by, "time": gone.time}}
        )
        """As clients see it."""


class RenameRequest(BaseModel):
    """Another name for a page."""

    name: Annotated[str, Field(min_length=1, max_length=500)]


def add_lifecycle(app: FastAPI, pages: DocumentRegistry) -> None:
    """Add the routes."""

    @app.get("/api/removed")
    async def list_removed(request: Request) -> dict[str, object]:  # pyright: ignore[reportUnusedFunction] - by its route
        """The pages that were removed and can be brought back, the last one first."""
        person = get_user(request)
        found = [each for each in await _list_removed(pages) if _may_write(pages, person, each.name)]
        return {"pages": [{"name": each.name, "by": each.by, "time": each.time} for each in found]}

    @app.post("/api/pages/{page:path}/remove")
    async def remove(page: str, request: Request) -> dict[str, object]:  # pyright: ignore[reportUnusedFunction] - by its route
        """Remove a page. It can be brought back."""
        require(pages, get_user(request), page, writes=True)
        await remove_document(pages, page, by=get_user(request).name)
        return {}

    @app.post("/api/pages/{page:path}/rename")
    async def rename(page: str, wanted: RenameRequest, request: Request) -> dict[str, object]:  # pyright: ignore[reportUnusedFunction] - by its route
        """Give a page another name; who is on it comes along."""
        person = get_user(request)
        require(pages, person, page, writes=True)
        if not person.rights.is_allowed(wanted.name, "write"):
            raise NotAllowedError(f"`{wanted.name}` may not be written")
        await rename_document(pages, page, wanted.name, by=person.name)
        return {"name": wanted.name}

    @app.post("/api/pages/{page:path}/restore")
    async def restore(page: str, request: Request) -> dict[str, object]:  # pyright: ignore[reportUnusedFunction] - by its route
        """Bring a removed page back."""
        if not _may_write(pages, get_user(request), page):
            raise NotAllowedError(f"`{page}` may not be written")
        await restore_document(pages, page)
        return {"name": page}


def explain_absence(pages: DocumentRegistry, person: User, name: str) -> DocumentGoneError | None:
    """Return what became of a page that is not there, as far as this person may know it."""
    for gone in pages.store.list_departures(name):
        may_know = (
            person.rights.is_allowed(gone.target, "read") if gone.target else _may_write(pages, person, name)
        )
        return DocumentGoneError(gone) if may_know else None
    return None


async def remove_document(pages: DocumentRegistry, name: str, *, by: str) -> None:
    """Remove a page. Who is on it is told.

    Raises:
        DocumentBusyError: not now.
        KakiteError: as ``DocumentRegistry.open``; ``stale``, ``write_denied``, …
    """
    _require_alone(pages)
    async with pages.keep_closed(name):
        file = await asyncio.to_thread(pages.workspace.read, name)
        pages.store.save_departure(Departure(name=name, by=by, time=time.time()))
        try:
            await asyncio.to_thread(pages.workspace.remove, name, expected=file.version, by=_build_author(by))
        except BaseException:
            pages.store.forget_departure(name)
            raise


async def rename_document(pages: DocumentRegistry, name: str, new: str, *, by: str) -> None:
    """Give a page another name; its document, suggestions, conversation and named versions go along.

    Raises:
        DocumentBusyError: not now.
        WorkspaceError: ``bad_path``, ``file_exists``, ``write_denied``, …
        KakiteError: as ``DocumentRegistry.open``.
    """
    _require_alone(pages)
    if not is_document(new):
        raise WorkspaceError("bad_path", new, f"`{new}` cannot be a page", hint="end it with .md or .txt")
    if any(not gone.target for gone in pages.store.list_departures(new)):
        hint = "bring that page back, or choose another name"
        raise WorkspaceError("file_exists", new, f"a removed page is called `{new}`", hint=hint)
    async with pages.keep_closed(name, new):
        file = await asyncio.to_thread(pages.workspace.read, name)
        mode = await asyncio.to_thread(pages.workspace.get_mode, name)
        writes = [
            FileWrite(path=name, data=None, expected=file.version),
            FileWrite(path=new, data=file.data, expected=None, mode=mode),
        ]
        await asyncio.to_thread(pages.workspace.write_all, writes, by=_build_author(by))
        pages.store.save_departure(Departure(name=name, target=new, by=by, time=time.time()))


async def restore_document(pages: DocumentRegistry, name: str) -> None:
    """Bring a removed page back.

    Raises:
        DocumentNotFoundError: none of this name was removed.
        WorkspaceError: ``nothing_to_undo``, ``stale``, …
    """
    if not any(gone.name == name for gone in await _list_removed(pages)):
        raise DocumentNotFoundError(f"no page `{name}` was removed", hint="ask for the removed pages")
    await asyncio.to_thread(pages.workspace.undo, name)
    pages.store.forget_departure(name)


async def _list_removed(pages: DocumentRegistry) -> list[Departure]:
    """Return the removed pages whose removal can be undone, the last ones first."""
    gone = [each for each in pages.store.list_departures() if not each.target]
    return await asyncio.to_thread(
        lambda: [each for each in gone[:_MAX_LISTED] if _is_removed(pages.workspace, each.name)]
    )


def _is_removed(workspace: Workspace, name: str) -> bool:
    try:
        last = workspace.list_writes(name, limit=1)
        return bool(last) and last[0].after is None and workspace.find(name) is None
    except WorkspaceError:
        return False


def _may_write(pages: DocumentRegistry, person: User, name: str) -> bool:
    return person.rights.is_allowed(name, "write") and pages.is_writable(name)


def _require_alone(pages: DocumentRegistry) -> None:
    if pages.relay is not None:
        hint = "end the other processes, and serve the folder without --redis"
        raise DocumentBusyError("with several processes pages keep their names", hint=hint)


def _build_author(by: str) -> Author:
    return Author(tool=f"collab: {by}" if by else "collab")
