"""Authentication of the dashboard: an access token, sent as a header or kept in a cookie, and CSRF checks."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kakite.http.security import (
    SAFE_METHODS,
    SECURITY_HEADERS,
    TransportSecurity,
    get_bearer_token,
    get_cookie,
    is_same_origin,
    is_same_secret,
    redirect_with_cookie,
)

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
}
"""Of every answer, besides what all our pages have."""

PUBLIC_PATHS = frozenset(("/healthz", "/style.css"))
"""What anybody may ask for who reaches the server: neither tells of any task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardAuth:
    """The authentication of requests. A cookie is enough, so hosts and origins are checked strictly."""

    host: str
    """The name or address that the server listens on."""
    port: int
    token: str = field(repr=False)

    @property
    def cookie_name(self) -> str:
        """The name of the cookie: browsers do not tell ports apart, so each server has its own."""
        return f"kakite-{self.port}"

    @property
    def cookie_value(self) -> str:
        """The value of the cookie: it is accepted here and does not reveal the token."""
        return hmac.new(
            self.token.encode(), f"kakite agent web {self.port}".encode(), hashlib.sha256
        ).hexdigest()

    def is_valid_token(self, token: str) -> bool:
        """Return whether this is the token, in the same time whatever is wrong with it."""
        return is_same_secret(token, self.token)

    def find_refusal(self, method: str, path: str, headers: Mapping[str, str]) -> tuple[int, str] | None:
        """Return the status and the reason why a request is refused; None lets it in.

        Header names are lower case.
        """
        gate = TransportSecurity(host=self.host)  # whatever is known: first of all it has to be for us
        if refused := gate.find_refusal(headers):
            return refused
        if path in PUBLIC_PATHS and method in SAFE_METHODS:
            return None
        by_header = self.is_valid_token(get_bearer_token(headers))
        if not (by_header or is_same_secret(get_cookie(headers, self.cookie_name), self.cookie_value)):
            return 401, "the token of this server is missing or wrong"
        if method not in SAFE_METHODS and not by_header and not is_same_origin(headers):
            return 403, "only the page itself may request this"
        return None


def require_auth(app: ASGIApp, door: DashboardAuth, *, login: ASGIApp) -> ASGIApp:
    """Return the app behind the door; ``login`` answers who comes to the page itself without a token."""
    from starlette.datastructures import Headers, MutableHeaders, QueryParams
    from starlette.responses import PlainTextResponse, RedirectResponse

    async def handle(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(SECURITY_HEADERS | POLICY)
            await send(message)

        await choose_app(scope)(scope, receive, send_with_headers)

    def choose_app(scope: Scope) -> ASGIApp:
        path, headers = scope["path"], Headers(scope=scope)
        refused = door.find_refusal(scope["method"], path, headers)
        if refused and refused[0] == 401 and path == "/" and scope["method"] in SAFE_METHODS:
            given = QueryParams(scope["query_string"]).get("token")
            is_known = given is not None and door.is_valid_token(given)
            return redirect_with_cookie("/", door.cookie_name, door.cookie_value) if is_known else login
        if refused:
            return PlainTextResponse(f"{refused[1]}\n", refused[0])
        if path == "/" and scope["query_string"]:
            return RedirectResponse("/", 303)  # who is known already: the token leaves the address
        return app

    return handle
