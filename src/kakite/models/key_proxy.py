"""A proxy that holds the key of a model's provider, so that nobody who asks the model has it.

Whoever asks sends a token of the proxy's own, which no provider takes; the proxy puts the key in its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from kakite.http.security import is_same_secret
from kakite.models.factory import find_address
from kakite.models.model import ModelConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from httpx2 import Response as HttpResponse
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

_CONNECT: Final = 30.0  # s
_SILENCE: Final = 600.0  # s; a model may think for minutes
_KEY_HEADERS: Final = ("authorization", "x-api-key", "x-goog-api-key")
"""Where the formats of providers have the key."""
# Of one connection, not of what is asked (RFC 9110, 7.6.1); and the name of the server, which is another one.
_CONNECTION: Final = frozenset(
    (
        "connection",
        "host",
        "keep-alive",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    )
)


def find_upstream(model: str, base_url: str) -> str:
    """Return the address of the server that has ``PROVIDER:NAME``.

    Raises:
        ModelConfigError: there is no such provider, or its address is not known (``model_no_address``).
    """
    address = find_address(model, base_url)
    if not address:
        raise ModelConfigError(
            f"Kakite does not know the address of `{model.partition(':')[0]}`",
            hint="give it with --base-url, as the provider's documentation names it",
            code="model_no_address",
        )
    return address.rstrip("/")


def build_key_proxy(upstream: str, key: str, token: str) -> ASGIApp:
    """Return a web application that hands requests on to a provider, with the key instead of the token.

    Args:
        upstream: the provider's address. Nothing else is reached: no redirect is followed.
        key: the provider's key.
        token: who does not send it where a provider's client has its key is refused (401).
    """
    import httpx2
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    client = httpx2.AsyncClient(timeout=httpx2.Timeout(_SILENCE, connect=_CONNECT), follow_redirects=False)

    async def forward(request: Request) -> Response:
        headers = _replace_token(request.headers.items(), token, key)
        if headers is None:
            return JSONResponse({"error": {"message": "this is not the token of the proxy"}}, 401)
        query = f"?{request.url.query}" if request.url.query else ""
        address = upstream + request.scope["raw_path"].decode("ascii", "replace") + query
        asked = client.build_request(request.method, address, headers=headers, content=await request.body())
        try:
            return _stream(await client.send(asked, stream=True))
        except httpx2.HTTPError as error:
            said = f"{urlsplit(upstream).netloc} cannot be reached: {type(error).__name__}"
            return JSONResponse({"error": {"message": said}}, 502)

    return Starlette(routes=[Route("/{path:path}", forward, methods=["GET", "POST"])])


def _stream(answer: HttpResponse) -> Response:
    from starlette.background import BackgroundTask
    from starlette.responses import StreamingResponse

    kept = {name: value for name, value in answer.headers.items() if name.lower() not in _CONNECTION}
    end = BackgroundTask(answer.aclose)
    return StreamingResponse(answer.aiter_raw(), answer.status_code, kept, background=end)


def _replace_token(headers: Iterable[tuple[str, str]], token: str, key: str) -> Mapping[str, str] | None:
    """Return the headers with the key where the token was; None: it is nowhere."""
    found: dict[str, str] = {}
    is_known = False
    for name, value in headers:
        if name in _KEY_HEADERS:
            scheme = value[:7] if value[:7].lower() == "bearer " else ""
            if not is_same_secret(value[len(scheme) :].strip(), token):
                continue
            is_known, found[name] = True, f"{scheme}{key}"
        elif name not in _CONNECTION:
            found[name] = value
    return found if is_known else None
