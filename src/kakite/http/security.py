"""Checks HTTP requests: no page of a stranger and nobody without the token gets in.

A page gets a cookie in exchange for a link with the token. Because a cookie is enough for a page, whatever
changes anything must come from the page itself.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send


SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Of every answer, besides the content security policy."""

SAFE_METHODS = frozenset(("GET", "HEAD"))
"""The methods that change nothing."""


def is_same_secret(given: str, known: str) -> bool:
    """Tell whether this is the secret, in the same time whatever is wrong with it."""
    return hmac.compare_digest(given.encode(errors="replace"), known.encode())


def get_bearer_token(headers: Mapping[str, str]) -> str:
    """Return the token that a program sent; empty if none. Header names are lower case."""
    scheme, _, given = headers.get("authorization", "").partition(" ")
    return given.strip() if scheme.lower() == "bearer" else ""


def get_cookie(headers: Mapping[str, str], name: str) -> str:
    """Return the value of a cookie; empty if there is none."""
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return found.value if found is not None else ""


def is_same_origin(headers: Mapping[str, str], origins: Sequence[str] = ()) -> bool:
    """Tell whether our own page asks: one of another port of this machine has our cookie too.

    ``origins`` are further addresses of ours.
    """
    origin = headers.get("origin", "")
    return bool(origin) and (origin in origins or origin.partition("://")[2] == headers.get("host", ""))


def redirect_with_cookie(
    path: str, name: str, value: str, *, age: int | None = None, secure: bool = False
) -> Response:
    """Lead on to a path of ours without what stood behind it, with a cookie that scripts cannot read.

    ``age`` is in seconds; None: until the browser ends.
    """
    from starlette.responses import RedirectResponse

    # A path that begins with two slashes would be another server's address.
    answer = RedirectResponse(f"/{quote(path.lstrip('/'))}", 303)
    answer.set_cookie(name, value, max_age=age, httponly=True, samesite="strict", path="/", secure=secure)
    return answer


def render_login_page(command: str, *, title: str, style: str) -> str:
    """Return the page that asks for the token; ``style`` is the path of its style sheet."""
    return f"""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<link rel="stylesheet" href="{escape(style)}">
</head>
<body class="login">
<main>
<h1>{escape(title)}</h1>
<p>Open the link that <code>{escape(command)}</code> printed, or give its token.</p>
<form method="get" action="/">
<label for="token">Token</label>
<input id="token" name="token" type="password" autocomplete="off" required autofocus>
<button class="main">Enter</button>
</form>
</main>
</body>
</html>
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportSecurity:
    """The checks that a request must pass."""

    host: str
    """The name or address that the server listens on."""
    token: str = field(default="", repr=False)
    """Empty: none is asked for."""

    def find_refusal(self, headers: Mapping[str, str]) -> tuple[int, str] | None:
        """Return the status and the reason why this request is refused; None lets it in.

        Header names are lower case.
        """
        host = headers.get("host", "")
        if not self._is_allowed_host(host):
            return 421, "the Host header names another server"
        if not self._is_own_page(headers.get("origin"), host):
            return 403, "the Origin header names a page that may not use this server"
        if self.token and not self._is_known(headers.get("authorization", "")):
            return 401, "the Authorization header does not contain this server's token"
        return None

    def _is_allowed_host(self, host: str) -> bool:
        # A page of a stranger gets here by a name that it made lead here. It cannot do so with an address.
        name = _get_hostname(f"//{host}")
        if is_loopback(self.host):
            return is_loopback(name)
        return name == self.host.lower() or name == "localhost" or _is_address(name)

    def _is_own_page(self, origin: str | None, host: str) -> bool:
        if origin is None:
            return True
        if not origin.startswith(("http://", "https://")):
            return False
        same = origin.partition("://")[2] == host
        return bool(_get_hostname(origin)) and (
            same or (is_loopback(self.host) and is_loopback(_get_hostname(origin)))
        )

    def _is_known(self, authorization: str) -> bool:
        scheme, _, given = authorization.partition(" ")
        same = hmac.compare_digest(given.strip().encode(errors="replace"), self.token.encode())
        return same and scheme.lower() == "bearer"


def is_loopback(name: str) -> bool:
    """Tell whether this name or address can only be reached from this machine."""
    return name.lower() == "localhost" or (_is_address(name) and ipaddress.ip_address(name).is_loopback)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _get_hostname(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    # A name before the host is none that a browser sends.
    return "" if "@" in parts.netloc else parts.hostname or ""


def add_transport_security(app: ASGIApp, gate: TransportSecurity) -> ASGIApp:
    """Return the app behind the security checks."""
    from starlette.datastructures import Headers

    async def enter(scope: Scope, receive: Receive, send: Send) -> None:
        refusal = gate.find_refusal(Headers(scope=scope)) if scope["type"] == "http" else None
        await (app if refusal is None else create_error_app(*refusal))(scope, receive, send)

    return enter


def create_error_app(status: int, reason: str, *, code: int = -32600, of: str | int | None = None) -> ASGIApp:
    """Return what answers a request with this status and, as a JSON-RPC error, the reason.

    ``of`` is the id of the message that is refused.
    """
    from starlette.responses import JSONResponse

    error = {"jsonrpc": "2.0", "id": of, "error": {"code": code, "message": reason}}
    return JSONResponse(error, status, _HEADERS.get(status))


_HEADERS = {
    401: {"WWW-Authenticate": "Bearer"},
    408: {"Connection": "close"},
    503: {"Connection": "close", "Retry-After": "5"},
}
