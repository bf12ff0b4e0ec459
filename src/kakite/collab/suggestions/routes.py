"""Suggestions over HTTP: listed, accepted, rejected."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import FastAPI, Path, Request
from pydantic import AfterValidator, BaseModel, Field

from kakite.collab.auth.authorize import get_shown_name, get_user, open_authorized
from kakite.collab.registry import DocumentRegistry, OpenDocument
from kakite.collab.shared_text import SharedText
from kakite.collab.suggestions.store import ResolutionResult, Suggestion
from kakite.collab.suggestions.typed import MAX_CONTEXT, TypedChange

TYPED: Final = "typed-"
"""What the run of suggestions begins with that a person types: no run of the assistant is called so."""
_MAX_CHANGES: Final = 500


def _require_whole(text: str) -> str:
    """Refuse half of a character, which no shared text can hold."""
    text.encode()
    return text


Whole = Annotated[str, AfterValidator(_require_whole)]
Context = Annotated[Whole, Field(max_length=MAX_CONTEXT)]


class TypedChangeRequest(BaseModel):
    """A change that a person types as a suggestion."""

    start: Annotated[int, Field(ge=0)]
    """Where it was in the text that the browser had, in UTF-16 units."""
    before: Context
    words: Whole
    """What it replaces."""
    after: Context
    insert: Whole


class TypedRequest(BaseModel):
    """All that a person has typed as suggestions since they began."""

    changes: Annotated[list[TypedChangeRequest], Field(max_length=_MAX_CHANGES)]
    name: Annotated[str, Field(max_length=40)] = ""
    """Who suggests, as the page shows them; not used of those who signed in by a name."""


class AcceptRequest(BaseModel):
    """A request to accept a suggestion."""

    candidate: bool = False
    """Whether, where people have changed the place, to take the candidate that the refusal offered."""


class SelectRequest(BaseModel):
    """Which suggestions are meant."""

    ids: Annotated[list[str], Field(max_length=1000)] | None = None
    """Without them, all."""


class ReopenRequest(BaseModel):
    """Which suggestions to reopen."""

    ids: Annotated[list[str], Field(min_length=1, max_length=1000)]


def add_suggestions(app: FastAPI, pages: DocumentRegistry) -> None:
    """Add the routes."""
    # Those of one suggestion first: a page's name may hold slashes.
    one = "/api/pages/{page:path}/suggestions/{suggestion}"

    @app.post(f"{one}/accept")
    async def accept(  # pyright: ignore[reportUnusedFunction] - by its route
        page: str, suggestion: str, request: Request, how: AcceptRequest | None = None
    ) -> dict[str, object]:
        """Put a suggestion into the text. 409 ``changed`` if people have changed its place since."""
        found = await open_authorized(pages, request, page, writes=True)
        found.suggestions.get(suggestion)
        await found.disk.save()  # so that the accepted change is a write of its own
        settled = found.suggestions.accept(suggestion, candidate=how is not None and how.candidate)
        return _to_suggestion_response(found, settled)

    @app.post(f"{one}/reject")
    async def reject(page: str, suggestion: str, request: Request) -> dict[str, object]:  # pyright: ignore[reportUnusedFunction] - by its route
        """Drop a suggestion; the text stays as it is."""
        found = await open_authorized(pages, request, page, writes=True)
        return _to_suggestion_response(found, found.suggestions.reject(suggestion))

    @app.get("/api/pages/{page:path}/suggestions")
    async def list_suggestions(page: str, request: Request) -> dict[str, object]:  # pyright: ignore[reportUnusedFunction] - by its route
        """All suggestions that are not settled, in the order of the text, and how many were."""
        found = await open_authorized(pages, request, page)
        pending = [each.to_json(found.text) for each in found.suggestions.list_pending()]
        counts = {"pending": len(pending), **found.suggestions.counts}
        return {"suggestions": pending, "counts": counts}

    _add_typed_route(app, pages)
    _add_batch_routes(app, pages)


def _add_typed_route(app: FastAPI, pages: DocumentRegistry) -> None:
    @app.put("/api/pages/{page:path}/suggestions/typed/{run}")
    async def put_typed(  # pyright: ignore[reportUnusedFunction] - by its route
        page: str,
        run: Annotated[str, Path(pattern=r"^[0-9a-f]{16}$")],
        request: Request,
        typed: TypedRequest,
    ) -> dict[str, object]:
        """Suggest what a person types, instead of what the same `run` suggested before."""
        found = await open_authorized(pages, request, page, writes=True)
        by = get_shown_name(get_user(request), typed.name)
        changes = [_to_typed_change(found.text, each) for each in typed.changes]
        made = found.suggestions.put_typed(TYPED + run, changes, by=by)
        await found.save_records()
        return {"suggestions": [each.to_json(found.text) for each in made], "version": found.version}


def _to_typed_change(text: SharedText, typed: TypedChangeRequest) -> TypedChange:
    return TypedChange(
        near=text.from_utf16(typed.start),
        before=typed.before,
        words=typed.words,
        after=typed.after,
        insert=typed.insert,
    )


def _add_batch_routes(app: FastAPI, pages: DocumentRegistry) -> None:
    @app.post("/api/pages/{page:path}/suggestions/accept")
    async def accept_all(  # pyright: ignore[reportUnusedFunction] - by its route
        page: str, request: Request, which: SelectRequest | None = None
    ) -> dict[str, object]:
        """Put all suggestions, or those named, into the text whose places are unchanged."""
        found = await open_authorized(pages, request, page, writes=True)
        await found.disk.save()
        done = found.suggestions.accept_all(which.ids if which else None)
        return _to_batch_response(found, done, "accepted")

    @app.post("/api/pages/{page:path}/suggestions/reject")
    async def reject_all(  # pyright: ignore[reportUnusedFunction] - by its route
        page: str, request: Request, which: SelectRequest | None = None
    ) -> dict[str, object]:
        """Drop all suggestions, or those named."""
        found = await open_authorized(pages, request, page, writes=True)
        done = found.suggestions.reject_all(which.ids if which else None)
        return _to_batch_response(found, done, "rejected")

    @app.post("/api/pages/{page:path}/suggestions/reopen")
    async def reopen(page: str, request: Request, which: ReopenRequest) -> dict[str, object]:  # pyright: ignore[reportUnusedFunction] - by its route
        """Undo how suggestions were settled. 409 ``not_revertable`` if that is too long ago."""
        found = await open_authorized(pages, request, page, writes=True)
        await found.disk.save()
        return {"reopened": found.suggestions.reopen(which.ids), "version": found.version}


def _to_suggestion_response(page: OpenDocument, suggestion: Suggestion) -> dict[str, object]:
    return {"suggestion": suggestion.to_json(page.text), "version": page.version}


def _to_batch_response(page: OpenDocument, settlement: ResolutionResult, which: str) -> dict[str, object]:
    told = settlement.to_json()
    return {which: told[which], "failed": told["failed"], "version": page.version}
