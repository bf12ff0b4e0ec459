"""Who may see the page: no page of a stranger, nobody without the token, and no other page's buttons."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kakite.serve.door import HEADERS, LOOKING, bearer, cookie, is_same, is_same_page, welcome
from kakite.serve.gate import Gate

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
}
"""Of every answer, besides what all our pages have."""

OPEN = frozenset(("/healthz", "/style.css"))
"""What anybody may ask for who reaches the server: neither tells of any task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """What a request must bring: beside ``serve``'s gate. A cookie will do, so pages are judged strictly."""

    host: str
    """The name or address that the server listens on."""
    port: int
    token: str = field(repr=False)

    @property
    def cookie(self) -> str:
        """The name of the cookie: browsers do not tell ports apart, so each server has its own."""
        return f"kakite-{self.port}"

    @property
    def pass_value(self) -> str:
        """What the cookie holds: it opens this door and does not tell the token."""
        return hmac.new(
            self.token.encode(), f"kakite agent web {self.port}".encode(), hashlib.sha256
        ).hexdigest()

    def opens(self, token: str) -> bool:
        """Tell whether this is the token, in the same time whatever is wrong with it."""
        return is_same(token, self.token)

    def refusal(self, method: str, path: str, headers: Mapping[str, str]) -> tuple[int, str] | None:
        """Return the status and the reason why a request is refused; None lets it in.

        Header names are lower case.
        """
        gate = Gate(host=self.host)  # whatever is known: first of all it has to be for us
        if refused := gate.refusal(headers):
            return refused
        if path in OPEN and method in LOOKING:
            return None
        by_header = self.opens(bearer(headers))
        if not (by_header or is_same(cookie(headers, self.cookie), self.pass_value)):
            return 401, "the token of this server is missing or wrong"
        if method not in LOOKING and not by_header and not is_same_page(headers):
            return 403, "this may only be asked for by the page itself"
        return None


def guarded(app: ASGIApp, door: Door, *, login: ASGIApp) -> ASGIApp:
    """Return the app behind the door; ``login`` answers who comes to the page itself without a token."""
    from starlette.datastructures import Headers, MutableHeaders, QueryParams
    from starlette.responses import PlainTextResponse, RedirectResponse

    async def enter(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return

        async def tell(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS | POLICY)
            await send(message)

        await choose(scope)(scope, receive, tell)

    def choose(scope: Scope) -> ASGIApp:
        path, headers = scope["path"], Headers(scope=scope)
        refused = door.refusal(scope["method"], path, headers)
        if refused and refused[0] == 401 and path == "/" and scope["method"] in LOOKING:
            given = QueryParams(scope["query_string"]).get("token")
            is_known = given is not None and door.opens(given)
            return welcome("/", door.cookie, door.pass_value) if is_known else login
        if refused:
            return PlainTextResponse(f"{refused[1]}\n", refused[0])
        if path == "/" and scope["query_string"]:
            return RedirectResponse("/", 303)  # who is known already: the token leaves the address
        return app

    return enter
