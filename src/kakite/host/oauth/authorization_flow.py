"""Performs the OAuth flow with an authorization server. It stores nothing.

The protocol's steps (finding the authorization server, registering, exchanging the code) are the SDK's. This
module controls which addresses are contacted and how much is read, and keeps secrets out of errors. A
listener on loopback receives the browser's redirect; it knows no tokens.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import secrets
import ssl
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from ipaddress import ip_address
from typing import Final, Protocol, cast
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider, OAuthFlowError
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthMetadata, OAuthToken
from pydantic import AnyHttpUrl, AnyUrl, ValidationError

from kakite.errors import ExternalError
from kakite.host.clean_text import get_display_host
from kakite.host.config.model import OAuthClient
from kakite.host.oauth.token_store import OAuthCredentials

PATH: Final = "/callback"
_HOST: Final = "127.0.0.1"
_HEAD_LIMIT = 16 * 1024  # bytes of a request's head
_HEAD_WAIT = 10.0  # s for a request's head
_CONNECTIONS = 16  # at once: a browser opens a few ahead of need

_PAGE: Final = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Kakite</title>
<body style="font:16px/1.5 system-ui;max-width:32em;margin:4em auto">
<h1>{title}</h1><p>{text}</p></body></html>
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedirectResult:
    """The parameters that an authorization server sent back by the browser."""

    code: str = field(default="", repr=False)
    """To be exchanged for tokens; empty if it said no."""
    state: str = field(default="", repr=False)
    issuer: str | None = None
    """As it names itself (RFC 9207); None if it did not."""
    error: str = ""
    """Its code of an error, such as ``access_denied``."""


class RedirectListener:
    """A listener for one visit of a browser. Only who knows the ``state`` of the visit is believed."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._state = ""
        self._landed: asyncio.Future[RedirectResult] = asyncio.get_running_loop().create_future()
        self._places = asyncio.Semaphore(_CONNECTIONS)

    @property
    def address(self) -> str:
        """Return where the browser is to come back to."""
        return f"http://{_HOST}:{self.port}{PATH}"

    def expect_state(self, state: str) -> None:
        """Believe those who bring this state, and nobody else."""
        self._state = state

    async def wait_for_redirect(self, wait: float) -> RedirectResult:
        """Return what the browser brought.

        Raises:
            TimeoutError: nobody who knows the state came in this many seconds.
        """
        async with asyncio.timeout(wait):
            return await asyncio.shield(self._landed)

    async def handle_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection with a small page. Never raises."""
        try:
            async with self._places, asyncio.timeout(_HEAD_WAIT):
                line, _, _ = (await reader.readuntil(b"\r\n\r\n")).partition(b"\r\n")
                writer.write(self._build_response(line.decode("ascii", "replace")))
                await writer.drain()
        except (OSError, ValueError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # no browser, or none that goes on talking: nothing depends on it
        finally:
            writer.close()

    def _build_response(self, line: str) -> bytes:
        method, _, rest = line.partition(" ")
        target = urlsplit(rest.partition(" ")[0])
        if method != "GET" or target.path != PATH:
            return _format_response("404 Not Found", "Nothing is here", "This page is for a login only.")
        landing = _parse_redirect(target.query)
        if not self._state or not secrets.compare_digest(landing.state.encode(), self._state.encode()):
            text = "This answer does not belong to the login that Kakite waits for. Nothing was changed."
            return _format_response("400 Bad Request", "Refused", text)
        if not self._landed.done():
            self._landed.set_result(landing)
        if not landing.code:
            return _format_response(
                "200 OK", "Not logged in", "The login was refused. You can close this page."
            )
        return _format_response(
            "200 OK", "Thank you", "Kakite goes on in its terminal. You can close this page."
        )


@asynccontextmanager
async def open_redirect_listener(*, port: int = 0, preferred: int = 0) -> AsyncGenerator[RedirectListener]:
    """Listen on loopback: on that port, else on the preferred one if it is free, else on any.

    Raises:
        OSError: the port is taken.
    """
    callback = RedirectListener(port)
    try:
        server = await _listen(callback, port or preferred)
    except OSError:
        if port or not preferred:
            raise
        server = await _listen(callback, 0)
    async with server:
        callback.port = server.sockets[0].getsockname()[1]
        yield callback


async def _listen(callback: RedirectListener, port: int) -> asyncio.Server:
    return await asyncio.start_server(callback.handle_connection, _HOST, port, limit=_HEAD_LIMIT)


def _parse_redirect(query: str) -> RedirectResult:
    found = {name: values[0] for name, values in parse_qs(query, max_num_fields=32).items()}
    return RedirectResult(
        code=found.get("code", ""),
        state=found.get("state", ""),
        issuer=found.get("iss"),
        error=found.get("error", ""),
    )


def _format_response(status: str, title: str, text: str) -> bytes:
    body = _PAGE.format(title=title, text=text).encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
        "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'\r\n"
        "Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nX-Content-Type-Options: nosniff\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + body


CLIENT_NAME: Final = "Kakite"
_TIMEOUT = 30.0  # s for one answer of an authorization server
_ANSWER_LIMIT = 1 << 20  # bytes in it
_REASON = re.compile(r"[a-z_]{1,64}")
_TOKEN = re.compile(r"[\x21-\x7e]+")  # what may stand in a header


class AuthorizationError(ExternalError):
    """A server did not let us in.

    Codes: ``authorization_required`` nobody is there to log in; ``authorization_denied`` the person or the
    authorization server said no; ``authorization_timeout`` nobody came back from the page in time;
    ``authorization_failed`` the authorization server is broken, or not who it says it is.
    """

    code = "authorization_failed"


class UnregisteredClientError(AuthorizationError):
    """The authorization server does not know us any more: we have to register again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationPage:
    """A page that a person is asked to open, to log in there."""

    server: str
    """The name of the MCP server that is to be used."""
    address: str
    """In full: what is opened is what is shown."""

    @property
    def host(self) -> str:
        """Return whose page it is: what a person has to look at before typing a password."""
        return get_display_host(self.address)


class LoginPageOpener(Protocol):
    """Someone with a browser."""

    async def open_page(self, page: AuthorizationPage) -> None:
        """Show the page's host and address, and open it. Returns at once: the browser comes back."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectedResource:
    """A server that wants to know who we are."""

    name: str
    url: str
    oauth: OAuthClient

    def make_auth_error(self, reason: str, *, code: str | None = None, hint: str = "") -> AuthorizationError:
        """Return the error that says why we are not let in."""
        return AuthorizationError(f"the server `{self.name}` {reason}", hint=hint, code=code)

    def make_unregistered_error(self) -> UnregisteredClientError:
        """Return the error that says that we are unknown there."""
        return UnregisteredClientError(
            f"the server `{self.name}` has an authorization server that does not know Kakite",
            hint=f"is `{self.oauth.id}` still right?" if self.oauth.id else "",
        )

    def check_address(self, address: str) -> None:
        """Refuse addresses where a secret could be read on its way, or that are not this server's business.

        Raises:
            AuthorizationError: it is neither ``https`` nor, for a server on loopback, on loopback too.
        """
        parts = urlsplit(address)
        host = parts.hostname or ""
        on_loopback = _is_loopback(host) and _is_loopback(urlsplit(self.url).hostname or "")
        plain = address.isascii() and address.isprintable() and " " not in address
        if not plain or not (parts.scheme == "https" or (parts.scheme == "http" and on_loopback)):
            raise self.make_auth_error(
                f"wants its login at `{parts.scheme}://{host}`, which is not protected",
                hint="only `https` is used, or `http` between programs of this machine",
            )

    def get_client(self, known: OAuthCredentials) -> OAuthClientInformationFull | None:
        """Return who we are to the authorization server: as configured, else as it registered us."""
        if not self.oauth.id:
            return known.client
        return OAuthClientInformationFull(
            client_id=self.oauth.id,
            client_secret=self.oauth.secret or None,
            # Nobody but the one who gave the secret, or was shown it first, is ever shown it.
            issuer=self.oauth.issuer or known.issuer or None,
            token_endpoint_auth_method=None if self.oauth.secret else "none",
        )


async def refresh_tokens(remote: ProtectedResource, known: OAuthCredentials) -> OAuthCredentials | None:
    """Return credentials with new tokens, or without any if the old ones cannot be renewed; None: not tried.

    Raises:
        AuthorizationError: the authorization server does not work now.
    """
    request = _build_refresh_request(remote, known)
    if request is None:
        return None
    response = await _send_request(remote, request)
    if response.is_success:
        return known.replace_tokens(_parse_tokens(remote, response))
    reason = _parse_error_code(response)
    if not reason or response.status_code >= 500 or response.status_code == 429:
        raise remote.make_auth_error(
            f"has an authorization server that does not work (HTTP {response.status_code})"
        )
    return OAuthCredentials(
        client=None if reason == "invalid_client" else known.client, metadata=known.metadata
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginFlow:
    """One login of a person: from the answer that asks for it to tokens."""

    remote: ProtectedResource
    callback: RedirectListener
    visitor: LoginPageOpener
    patience: float
    """Seconds that the person has."""

    async def run(
        self, request: httpx2.Request, refusal: httpx2.Response, kept: InMemoryTokenStorage
    ) -> OAuthCredentials:
        """Return what came of it. What is learnt on the way, such as who we are, is left in ``kept``.

        Raises:
            AuthorizationError: UnregisteredClientError if we are to register again.
        """
        provider = self._build_provider(kept)
        flow = provider.async_auth_flow(request)
        try:
            async with aclosing(flow):
                await self._drive(flow, request, refusal)
        except OAuthFlowError as error:
            raise self.remote.make_auth_error(f"could not log us in: {_to_one_line(str(error))}") from error
        return _collect_credentials(provider, kept)

    async def _drive(
        self,
        flow: AsyncGenerator[httpx2.Request, httpx2.Response],
        request: httpx2.Request,
        refusal: httpx2.Response,
    ) -> None:
        """Send what the SDK's flow asks for, up to the repetition of the request, which is not ours."""
        await anext(flow)  # the request itself: we know the answer
        response = refusal
        while True:
            try:
                outgoing = await flow.asend(response)
            except StopAsyncIteration:
                return
            if outgoing is request:
                return
            response = await _send_request(self.remote, outgoing)
            if outgoing.method == "POST" and not response.has_redirect_location:
                _check_answer(self.remote, outgoing, response)

    def _build_provider(self, kept: InMemoryTokenStorage) -> OAuthClientProvider:
        # It logs with a traceback what it raises; we tell it, to whom it concerns, once.
        logging.getLogger("mcp.client.auth.oauth2").addFilter(_is_not_flow_error)
        told = self.remote.oauth.metadata_url
        if told and not (told.startswith("https://") and urlsplit(told).path.strip("/")):
            raise self.remote.make_auth_error("has a `metadataUrl` that is no `https` address with a path")
        provider = OAuthClientProvider(
            self.remote.url,
            OAuthClientMetadata(client_name=CLIENT_NAME, redirect_uris=[AnyUrl(self.callback.address)]),
            kept,
            client_metadata_url=told or None,
            callback_handler=self._wait_for_redirect,
        )

        async def on_redirect(address: str) -> None:
            await self._open_login_page(provider, address)

        provider.context.redirect_handler = on_redirect
        return provider

    async def _open_login_page(self, provider: OAuthClientProvider, address: str) -> None:
        metadata = provider.context.oauth_metadata
        if metadata is not None and "S256" not in (metadata.code_challenge_methods_supported or ()):
            raise self.remote.make_auth_error("has an authorization server without PKCE (`S256`)")
        _set_auth_method(provider.context.client_info, metadata)
        address = _fix_query(address, metadata)
        self.remote.check_address(address)
        self.callback.expect_state(parse_qs(urlsplit(address).query)["state"][0])
        await self.visitor.open_page(AuthorizationPage(server=self.remote.name, address=address))

    async def _wait_for_redirect(self) -> AuthorizationCodeResult:
        try:
            landing = await self.callback.wait_for_redirect(self.patience)
        except TimeoutError as error:
            reason = f"waited {self.patience:g} s for a login, and nobody came back from its page"
            raise self.remote.make_auth_error(
                reason, code="authorization_timeout", hint="try again"
            ) from error
        if landing.error in {"invalid_client", "unauthorized_client"}:
            raise self.remote.make_unregistered_error()
        if not landing.code:
            reason = landing.error if _REASON.fullmatch(landing.error) else "no reason given"
            raise self.remote.make_auth_error(f"let nobody log in ({reason})", code="authorization_denied")
        return AuthorizationCodeResult(code=landing.code, state=landing.state, iss=landing.issuer)


class InMemoryTokenStorage:
    """The tokens of the SDK's flow, in memory: they are written when all of them are known."""

    def __init__(self, tokens: OAuthToken | None, client: OAuthClientInformationFull | None) -> None:
        self.tokens = tokens
        self.client = client

    async def get_tokens(self) -> OAuthToken | None:
        """Return the tokens there are."""
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Take the tokens."""
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return who we are."""
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Take who we are."""
        self.client = client_info


def _collect_credentials(provider: OAuthClientProvider, kept: InMemoryTokenStorage) -> OAuthCredentials:
    context = provider.context
    bound = context.should_include_resource_param(context.protocol_version)
    new = OAuthCredentials(
        client=kept.client,
        metadata=context.oauth_metadata or _build_default_metadata(context.server_url),
        resource=context.get_resource_url() if bound else "",
    )
    return new.replace_tokens(kept.tokens) if kept.tokens else new


def _build_default_metadata(url: str) -> OAuthMetadata:
    """Return where a server of the first revisions, which does not tell, has its endpoints (2025-03-26)."""
    parts = urlsplit(url)
    origin = f"{parts.scheme}://{parts.netloc}"
    return OAuthMetadata(
        issuer=AnyHttpUrl(origin),
        authorization_endpoint=AnyHttpUrl(f"{origin}/authorize"),
        token_endpoint=AnyHttpUrl(f"{origin}/token"),
    )


def _build_refresh_request(remote: ProtectedResource, known: OAuthCredentials) -> httpx2.Request | None:
    """Return the request for new tokens: to who gave the old ones, and nobody else."""
    client = remote.get_client(known)
    if known.tokens is None or not known.tokens.refresh_token or known.metadata is None or client is None:
        return None
    data = {
        "grant_type": "refresh_token",
        "refresh_token": known.tokens.refresh_token,
        "client_id": client.client_id,
    }
    if known.resource:
        data["resource"] = known.resource
    provider = OAuthClientProvider(
        remote.url, OAuthClientMetadata(redirect_uris=None), InMemoryTokenStorage(None, client)
    )
    provider.context.client_info = client
    _set_auth_method(client, known.metadata)
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    data, headers = provider.context.prepare_token_auth(data, headers)
    return httpx2.Request("POST", str(known.metadata.token_endpoint), data=data, headers=headers)


async def _send_request(remote: ProtectedResource, request: httpx2.Request) -> httpx2.Response:
    """Send a request of ours, none of the server's headers with it; follow nothing, read a bounded answer."""
    remote.check_address(str(request.url))
    try:
        async with httpx2.AsyncClient(
            timeout=_TIMEOUT, trust_env=False, verify=_create_ssl_context()
        ) as client:
            response = await client.send(request, stream=True, follow_redirects=False)
            try:
                content = await _read_bounded(response)
            finally:
                await response.aclose()
    except httpx2.HTTPError as error:
        raise remote.make_auth_error(f"needs `{request.url.host}`, which does not answer: {error}") from error
    if content is None:
        raise remote.make_auth_error(f"needs `{request.url.host}`, which answers without an end")
    return _rebuild_response(response, content)


@cache
def _create_ssl_context() -> ssl.SSLContext:
    return httpx2.create_ssl_context(trust_env=False)  # once: it takes a tenth of a second


async def _read_bounded(response: httpx2.Response) -> bytes | None:
    content = bytearray()
    async for chunk in response.aiter_bytes():
        content += chunk
        if len(content) > _ANSWER_LIMIT:
            return None
    return bytes(content)


def _rebuild_response(response: httpx2.Response, content: bytes) -> httpx2.Response:
    skipped = {"content-encoding", "content-length", "transfer-encoding"}
    headers = [(name, value) for name, value in response.headers.multi_items() if name.lower() not in skipped]
    whole = httpx2.Response(response.status_code, headers=headers, content=content, request=response.request)
    whole.next_request = response.next_request
    return whole


def _check_answer(remote: ProtectedResource, request: httpx2.Request, response: httpx2.Response) -> None:
    """Refuse what the SDK would quote in its own error, secrets and all."""
    if not response.is_success:
        reason = _parse_error_code(response)
        if reason == "invalid_client":
            raise remote.make_unregistered_error()
        told = reason or "no reason given"
        raise remote.make_auth_error(f"could not log us in: HTTP {response.status_code}, {told}")
    if request.headers["Content-Type"] == "application/json":
        _parse_client_info(remote, response)
    else:
        _parse_tokens(remote, response)


def _parse_tokens(remote: ProtectedResource, response: httpx2.Response) -> OAuthToken:
    try:
        tokens = OAuthToken.model_validate_json(response.content)
    except ValidationError:
        tokens = None
    if tokens is None or not _TOKEN.fullmatch(tokens.access_token):
        # Not chained: the cause quotes the answer.
        raise remote.make_auth_error("has an authorization server whose tokens cannot be read") from None
    return tokens


def _parse_client_info(remote: ProtectedResource, response: httpx2.Response) -> OAuthClientInformationFull:
    try:
        return OAuthClientInformationFull.model_validate_json(response.content)
    except ValidationError:
        raise remote.make_auth_error(
            "has an authorization server whose registration cannot be read"
        ) from None


def _parse_error_code(response: httpx2.Response) -> str:
    """Return the code of an error (RFC 6749, 5.2); empty if there is none that can be shown."""
    try:
        found: object = json.loads(response.content)
    except ValueError:
        return ""
    reason = cast("dict[str, object]", found).get("error") if isinstance(found, dict) else None
    return reason if isinstance(reason, str) and _REASON.fullmatch(reason) else ""


def _choose_auth_method(metadata: OAuthMetadata | None) -> str:
    """Return how a secret is shown to this authorization server (RFC 8414: in the header by default)."""
    supported = metadata.token_endpoint_auth_methods_supported if metadata else None
    offered = [one for one in supported or () if one in {"client_secret_basic", "client_secret_post"}]
    return offered[0] if offered else "client_secret_basic"


def _set_auth_method(client: OAuthClientInformationFull | None, metadata: OAuthMetadata | None) -> None:
    # Only what is left open: the SDK would send no secret at all.
    if client is not None and client.client_secret and client.token_endpoint_auth_method is None:
        client.token_endpoint_auth_method = _choose_auth_method(metadata)


def _fix_query(address: str, metadata: OAuthMetadata | None) -> str:
    """Return the address with one question mark, where the authorization server's own has a query too."""
    endpoint = str(metadata.authorization_endpoint) if metadata else ""
    if "?" in endpoint and address.startswith(f"{endpoint}?"):
        return f"{endpoint}&{address[len(endpoint) + 1 :]}"
    return address


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _to_one_line(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)[:300]


def _is_not_flow_error(record: logging.LogRecord) -> bool:
    return record.msg != "OAuth flow error"
