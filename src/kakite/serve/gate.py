"""Who may come in over HTTP: no page of a stranger, nobody without the token."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """What a request must bring to be let in."""

    host: str
    """The name or address that the server listens on."""
    token: str = field(default="", repr=False)
    """Empty: none is asked for."""

    def refusal(self, headers: Mapping[str, str]) -> tuple[int, str] | None:
        """Return the status and the reason why this request is refused; None lets it in.

        Header names are lower case.
        """
        host = headers.get("host", "")
        if not self._is_ours(host):
            return 421, "the Host header names another server"
        if not self._is_own_page(headers.get("origin"), host):
            return 403, "the Origin header names a page that may not use this server"
        if self.token and not self._is_known(headers.get("authorization", "")):
            return 401, "the Authorization header does not hold the token of this server"
        return None

    def _is_ours(self, host: str) -> bool:
        # A page of a stranger gets here by a name that it made lead here. It cannot do so with an address.
        name = _name(f"//{host}")
        if is_loopback(self.host):
            return is_loopback(name)
        return name == self.host.lower() or name == "localhost" or _is_address(name)

    def _is_own_page(self, origin: str | None, host: str) -> bool:
        if origin is None:
            return True
        if not origin.startswith(("http://", "https://")):
            return False
        same = origin.partition("://")[2] == host
        return bool(_name(origin)) and (same or (is_loopback(self.host) and is_loopback(_name(origin))))

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


def _name(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    # A name before the host is none that a browser sends.
    return "" if "@" in parts.netloc else parts.hostname or ""


def gated(app: ASGIApp, gate: Gate) -> ASGIApp:
    """Return the app behind the gate."""
    from starlette.datastructures import Headers

    async def enter(scope: Scope, receive: Receive, send: Send) -> None:
        refusal = gate.refusal(Headers(scope=scope)) if scope["type"] == "http" else None
        await (app if refusal is None else refuse(*refusal))(scope, receive, send)

    return enter


def refuse(status: int, reason: str, *, code: int = -32600, of: str | int | None = None) -> ASGIApp:
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
