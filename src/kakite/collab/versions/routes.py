"""Versions over HTTP: listed, compared, named, restored.

They show what people have deleted, so only those see them who may write the page.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from dataclasses import asdict
from typing import Annotated, Literal

from fastapi import FastAPI, Request
from pydantic import BaseModel, Field

from kakite.collab.auth.authorize import get_user, open_authorized
from kakite.collab.file_sync import FileText, diff_texts
from kakite.collab.registry import DocumentRegistry, OpenDocument
from kakite.collab.suggestions.store import build_origin, get_line_number
from kakite.collab.versions.differences import find_differences
from kakite.collab.versions.named import MAX_NAME, NamedVersion, VersionError
from kakite.collab.versions.timeline import MAX_WRITES, FileVersion, list_file_versions

_MAX_SUGGESTIONS = 500
_NAMED = "n-"
"""What the ids of named versions begin with."""


class NameRequest(BaseModel):
    """A name for the page as it is now."""

    name: Annotated[str, Field(min_length=1, max_length=MAX_NAME)]


class RestoreRequest(BaseModel):
    """How to restore a version."""

    mode: Literal["review", "auto"] = "review"
    """As suggestions, or at once."""


def add_versions(app: FastAPI, pages: DocumentRegistry) -> None:
    """Add the routes."""
    one = "/api/pages/{page:path}/versions/{version}"

    @app.post(f"{one}/restore")
    async def restore(page: str, version: str, request: Request, how: RestoreRequest) -> dict[str, object]:  # pyright: ignore[reportUnusedFunction] - by its route
        """Suggest what makes the page this version again, or change it at once."""
        found = await open_authorized(pages, request, page, writes=True)
        return await _restore(pages, found, version, how.mode, by=get_user(request).name)

    @app.post(f"{one}/remove")
    async def remove(page: str, version: str, request: Request) -> dict[str, object]:  # pyright: ignore[reportUnusedFunction] - by its route
        """Remove a version's name, and its text with it."""
        found = await open_authorized(pages, request, page, writes=True)
        found.set_versions(found.versions.remove(version.removeprefix(_NAMED)))
        return {}

    @app.get(one)
    async def compare(page: str, version: str, request: Request) -> dict[str, object]:  # pyright: ignore[reportUnusedFunction] - by its route
        """A version's text, and how the page differs from it."""
        found = await open_authorized(pages, request, page, writes=True)
        then = await _load_text(pages, found, version)
        now = str(found.text)
        changes = await asyncio.to_thread(find_differences, now, then)
        differences = [
            {"line": get_line_number(now, each.start), "now": now[each.start : each.end], "then": each.insert}
            for each in changes
        ]
        return {"text": then, "differences": differences}

    _add_list(app, pages)


def _add_list(app: FastAPI, pages: DocumentRegistry) -> None:
    @app.get("/api/pages/{page:path}/versions")
    async def list_versions(page: str, request: Request) -> dict[str, object]:  # pyright: ignore[reportUnusedFunction] - by its route
        """All versions, the last one first."""
        found = await open_authorized(pages, request, page, writes=True)
        writes = await asyncio.to_thread(pages.workspace.list_writes, page, limit=MAX_WRITES)
        listed = [_to_version_json(each) for each in list_file_versions(writes)]
        listed += [_to_named_json(each) for each in found.versions.all]
        return {"versions": sorted(listed, key=_get_time, reverse=True), "now": time.time()}

    @app.post("/api/pages/{page:path}/versions", status_code=201)
    async def name_version(page: str, named: NameRequest, request: Request) -> dict[str, object]:  # pyright: ignore[reportUnusedFunction] - by its route
        """Keep the page as it is now under a name."""
        found = await open_authorized(pages, request, page, writes=True)
        versions = found.versions.add(str(found.text), name=named.name.strip(), by=get_user(request).name)
        found.set_versions(versions)
        return {"version": _to_named_json(versions.all[-1])}


def _get_time(listed: dict[str, object]) -> float:
    assert isinstance(listed["time"], float)
    return listed["time"]


def _to_version_json(version: FileVersion) -> dict[str, object]:
    return {**asdict(version), "name": ""}


def _to_named_json(version: NamedVersion) -> dict[str, object]:
    return {
        "id": f"{_NAMED}{version.id}",
        "name": version.name,
        "by": version.by,
        "time": version.time,
        "run": "",
    }


async def _load_text(pages: DocumentRegistry, page: OpenDocument, version: str) -> str:
    """Return the text of a version.

    Raises:
        VersionError: there is none.
    """
    if version.startswith(_NAMED):
        return page.versions.get(version.removeprefix(_NAMED)).text
    data = await asyncio.to_thread(pages.workspace.find_version, page.name, version, limit=MAX_WRITES)
    encoding = page.disk.base.source.encoding if page.disk.base is not None else ""
    file = None if data is None else FileText.from_bytes(data, encoding)
    if file is None or not file.is_text:
        raise VersionError(f"there is no version `{version}`", hint="ask for the list of versions")
    return file.text


async def _restore(
    pages: DocumentRegistry, page: OpenDocument, version: str, mode: Literal["review", "auto"], *, by: str
) -> dict[str, object]:
    then = await _load_text(pages, page, version)
    await page.disk.save()  # so that the page as it is now is a version as well
    run = f"restore-{secrets.token_hex(4)}"
    if mode == "auto":
        if changes := diff_texts(str(page.text), then):
            page.room.add_writer(by)
            page.text.apply(changes, build_origin(run), undoable=True)
        return {"run": run, "changes": len(changes.changes), "version": page.version}
    found = find_differences(str(page.text), then)
    if len(found) > _MAX_SUGGESTIONS:
        raise VersionError(
            f"they differ in {len(found)} places, which is too much to be suggested",
            hint="restore the version at once",
            code="too_large",
        )
    made = page.suggestions.propose_changes(found, run=run, by=by)
    return {"run": run, "changes": len(made), "version": page.version}
