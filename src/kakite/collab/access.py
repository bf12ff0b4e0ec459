"""Who asks for which page, whether they may, and how a failure is told."""

from __future__ import annotations

from typing import cast

from fastapi import Request, WebSocket
from fastapi.responses import JSONResponse

from kakite.collab.pages import NoSuchPageError, Page, Pages
from kakite.collab.people import Person
from kakite.errors import KakiteError, OutsideError


class NotAllowedError(KakiteError):
    """The person may not do this: ``not_allowed``."""

    code = "not_allowed"


_STATUS = {
    "no_such_page": 404,
    "no_such_suggestion": 404,
    "no_such_run": 404,
    "not_allowed": 403,
    "changed": 409,
    "settled": 409,
    "elsewhere": 409,
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


def person_of(connection: Request | WebSocket) -> Person:
    """Return who asks."""
    return cast("Person", connection.scope["person"])


async def page_for(pages: Pages, request: Request, name: str, *, writes: bool = False) -> Page:
    """Return the page that is asked for, if this person may so much.

    Raises:
        NotAllowedError: they may read it, and no more.
        KakiteError: as ``Pages.open``; a page that they may not read is not there.
    """
    require(pages, person_of(request), name, writes=writes)
    return await pages.open(name)


def require(pages: Pages, person: Person, name: str, *, writes: bool) -> None:
    """Raise unless this person may so much with the page."""
    if not person.rights.may(name, "read"):
        raise NoSuchPageError(f"there is no page `{name}`", hint="ask for the list of pages")
    if writes and not may_write(pages, person, name):
        raise NotAllowedError(f"`{name}` may only be read")


def may_write(pages: Pages, person: Person, name: str) -> bool:
    """Tell whether this person may write the page."""
    return person.rights.may(name, "write") and pages.is_writable(name)


def told(error: KakiteError) -> JSONResponse:
    """Return an error as an answer."""
    said = {"code": error.code, "message": error.message, "hint": error.hint, **getattr(error, "data", {})}
    status = _STATUS.get(error.code, 503 if isinstance(error, OutsideError) else 400)
    return JSONResponse({"error": said}, status)
