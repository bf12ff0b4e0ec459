"""Finds the user of a request, checks their permission for a document, and turns failures into answers."""

from __future__ import annotations

from typing import cast

from fastapi import Request, WebSocket
from fastapi.responses import JSONResponse

from kakite.collab.auth.policy import User
from kakite.collab.registry import DocumentNotFoundError, DocumentRegistry, OpenDocument
from kakite.errors import ExternalError, KakiteError


class NotAllowedError(KakiteError):
    """The person may not do this: ``not_allowed``."""

    code = "not_allowed"


_STATUS = {
    "no_such_page": 404,
    "no_such_suggestion": 404,
    "no_such_run": 404,
    "no_such_version": 404,
    "no_such_thread": 404,
    "no_such_comment": 404,
    "too_many_comments": 409,
    "too_many_versions": 409,
    "not_allowed": 403,
    "changed": 409,
    "settled": 409,
    "elsewhere": 409,
    "busy": 409,
    "nothing_to_undo": 409,
    "stale": 409,
    "file_exists": 409,
    "write_denied": 403,
    "too_large": 413,
    "not_text": 415,
    "too_many_requests": 429,
    "no_model": 503,
    "not_revertable": 409,
    "bad_request": 422,
}


def get_user(connection: Request | WebSocket) -> User:
    """Return who asks."""
    return cast("User", connection.scope["person"])


def get_shown_name(person: User, name: str) -> str:
    """Return what the others see of a person who calls themselves ``name``.

    Who signed in by a name has that one.
    """
    return ("" if is_named(person) else " ".join(name.split())) or person.name


def is_named(person: User) -> bool:
    """Tell whether somebody signed in by a name; others call themselves what they want."""
    return person.signed_in_by not in {"link", "token"}


async def open_authorized(
    pages: DocumentRegistry, request: Request, name: str, *, writes: bool = False
) -> OpenDocument:
    """Return the page that is asked for, if this person may so much.

    Raises:
        NotAllowedError: they may read it, and no more.
        KakiteError: as ``DocumentRegistry.open``; a page that they may not read is not there.
    """
    require(pages, get_user(request), name, writes=writes)
    return await pages.open(name)


def require(pages: DocumentRegistry, person: User, name: str, *, writes: bool) -> None:
    """Raise unless this person may so much with the page."""
    if not person.rights.is_allowed(name, "read"):
        raise DocumentNotFoundError(f"there is no page `{name}`", hint="ask for the list of pages")
    if writes and not can_write(pages, person, name):
        raise NotAllowedError(f"`{name}` may only be read")


def can_write(pages: DocumentRegistry, person: User, name: str) -> bool:
    """Tell whether this person may write the page."""
    return person.rights.is_allowed(name, "write") and pages.is_writable(name)


def to_error_response(error: KakiteError) -> JSONResponse:
    """Return an error as an answer."""
    said = {"code": error.code, "message": error.message, "hint": error.hint, **getattr(error, "data", {})}
    status = _STATUS.get(error.code, 503 if isinstance(error, ExternalError) else 400)
    return JSONResponse({"error": said}, status)
