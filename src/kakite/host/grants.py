"""What an authorization server is asked for, and what it may answer. Remembers nothing.

The protocol's steps (who the authorization server is, registering, exchanging the code) are the SDK's. Ours
is what happens around them: which addresses are talked to, how much is read, that no error holds a secret.
"""

from __future__ import annotations

import json
import logging
import re
import ssl
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from functools import cache
from ipaddress import ip_address
from typing import Final, Protocol, cast
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider, OAuthFlowError
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthMetadata, OAuthToken
from pydantic import AnyHttpUrl, AnyUrl, ValidationError

from kakite.errors import OutsideError
from kakite.host.callback import Callback
from kakite.host.cleaning import host_of
from kakite.host.credentials import Credentials
from kakite.host.entries import OAuthClient

NAME: Final = "Kakite"
_TIMEOUT = 30.0  # s for one answer of an authorization server
_ANSWER_LIMIT = 1 << 20  # bytes in it
_REASON = re.compile(r"[a-z_]{1,64}")
_TOKEN = re.compile(r"[\x21-\x7e]+")  # what may stand in a header


class AuthorizationError(OutsideError):
    """A server did not let us in.

    Codes: ``authorization_required`` nobody is there to log in; ``authorization_denied`` the person or the
    authorization server said no; ``authorization_timeout`` nobody came back from the page in time;
    ``authorization_failed`` the authorization server is broken, or not who it says it is.
    """

    code = "authorization_failed"


class ForgottenError(AuthorizationError):
    """The authorization server does not know us any more: we have to register again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page that a person is asked to open, to log in there."""

    server: str
    """The name of the MCP server that is to be used."""
    address: str
    """In full: what is opened is what is shown."""

    @property
    def host(self) -> str:
        """Return whose page it is: what a person has to look at before typing a password."""
        return host_of(self.address)


class Visitor(Protocol):
    """Someone with a browser."""

    async def visit(self, page: Page) -> None:
        """Show the page's host and address, and open it. Returns at once: the browser comes back."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """A server that wants to know who we are."""

    name: str
    url: str
    oauth: OAuthClient

    def failed(self, reason: str, *, code: str | None = None, hint: str = "") -> AuthorizationError:
        """Return the error that says why we are not let in."""
        return AuthorizationError(f"the server `{self.name}` {reason}", hint=hint, code=code)

    def forgot(self) -> ForgottenError:
        """Return the error that says that we are unknown there."""
        return ForgottenError(
            f"the server `{self.name}` has an authorization server that does not know us",
            hint=f"is `{self.oauth.id}` still right?" if self.oauth.id else "",
        )

    def check(self, address: str) -> None:
        """Refuse addresses where a secret could be read on its way, or that are not this server's business.

        Raises:
            AuthorizationError: it is neither ``https`` nor, for a server on loopback, on loopback too.
        """
        parts = urlsplit(address)
        host = parts.hostname or ""
        on_loopback = _is_loopback(host) and _is_loopback(urlsplit(self.url).hostname or "")
        plain = address.isascii() and address.isprintable() and " " not in address
        if not plain or not (parts.scheme == "https" or (parts.scheme == "http" and on_loopback)):
            raise self.failed(
                f"wants its login at `{parts.scheme}://{host}`, which is not protected",
                hint="only `https` is used, or `http` between programs of this machine",
            )

    def client(self, known: Credentials) -> OAuthClientInformationFull | None:
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


async def renew(remote: Remote, known: Credentials) -> Credentials | None:
    """Return credentials with new tokens, or without any if the old ones cannot be renewed; None: not tried.

    Raises:
        AuthorizationError: the authorization server does not work now.
    """
    request = _renewal(remote, known)
    if request is None:
        return None
    response = await _ask(remote, request)
    if response.is_success:
        return known.renewed(_tokens(remote, response))
    reason = _reason(response)
    if not reason or response.status_code >= 500 or response.status_code == 429:
        raise remote.failed(f"has an authorization server that does not work (HTTP {response.status_code})")
    return Credentials(client=None if reason == "invalid_client" else known.client, metadata=known.metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """One login of a person: from the answer that asks for it to tokens."""

    remote: Remote
    callback: Callback
    visitor: Visitor
    patience: float
    """Seconds that the person has."""

    async def perform(self, request: httpx2.Request, refusal: httpx2.Response, kept: Kept) -> Credentials:
        """Return what came of it. What is learnt on the way, such as who we are, is left in ``kept``.

        Raises:
            AuthorizationError: ForgottenError if we are to register again.
        """
        provider = self._provider(kept)
        flow = provider.async_auth_flow(request)
        try:
            async with aclosing(flow):
                await self._drive(flow, request, refusal)
        except OAuthFlowError as error:
            raise self.remote.failed(f"could not log us in: {_one_line(str(error))}") from error
        return _credentials(provider, kept)

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
            response = await _ask(self.remote, outgoing)
            if outgoing.method == "POST" and not response.has_redirect_location:
                _check_answer(self.remote, outgoing, response)

    def _provider(self, kept: Kept) -> OAuthClientProvider:
        # It logs with a traceback what it raises; we tell it, to whom it concerns, once.
        logging.getLogger("mcp.client.auth.oauth2").addFilter(_is_not_told_by_us)
        told = self.remote.oauth.metadata_url
        if told and not (told.startswith("https://") and urlsplit(told).path.strip("/")):
            raise self.remote.failed("has a `metadataUrl` that is no `https` address with a path")
        provider = OAuthClientProvider(
            self.remote.url,
            OAuthClientMetadata(client_name=NAME, redirect_uris=[AnyUrl(self.callback.address)]),
            kept,
            client_metadata_url=told or None,
            callback_handler=self._come_back,
        )

        async def leave(address: str) -> None:
            await self._leave(provider, address)

        provider.context.redirect_handler = leave
        return provider

    async def _leave(self, provider: OAuthClientProvider, address: str) -> None:
        metadata = provider.context.oauth_metadata
        if metadata is not None and "S256" not in (metadata.code_challenge_methods_supported or ()):
            raise self.remote.failed("has an authorization server without PKCE (`S256`)")
        _settle_method(provider.context.client_info, metadata)
        address = _with_query(address, metadata)
        self.remote.check(address)
        self.callback.expect(parse_qs(urlsplit(address).query)["state"][0])
        await self.visitor.visit(Page(server=self.remote.name, address=address))

    async def _come_back(self) -> AuthorizationCodeResult:
        try:
            landing = await self.callback.landing(self.patience)
        except TimeoutError as error:
            reason = f"waited {self.patience:g} s for a login, and nobody came back from its page"
            raise self.remote.failed(reason, code="authorization_timeout", hint="try again") from error
        if landing.error in {"invalid_client", "unauthorized_client"}:
            raise self.remote.forgot()
        if not landing.code:
            reason = landing.error if _REASON.fullmatch(landing.error) else "no reason given"
            raise self.remote.failed(f"let nobody log in ({reason})", code="authorization_denied")
        return AuthorizationCodeResult(code=landing.code, state=landing.state, iss=landing.issuer)


class Kept:
    """What the SDK's flow stores, in memory: it is written when all of it is known."""

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


def _credentials(provider: OAuthClientProvider, kept: Kept) -> Credentials:
    context = provider.context
    bound = context.should_include_resource_param(context.protocol_version)
    new = Credentials(
        client=kept.client,
        metadata=context.oauth_metadata or _usual_places(context.server_url),
        resource=context.get_resource_url() if bound else "",
    )
    return new.renewed(kept.tokens) if kept.tokens else new


def _usual_places(url: str) -> OAuthMetadata:
    """Return where a server of the first revisions, which does not tell, has its endpoints (2025-03-26)."""
    parts = urlsplit(url)
    origin = f"{parts.scheme}://{parts.netloc}"
    return OAuthMetadata(
        issuer=AnyHttpUrl(origin),
        authorization_endpoint=AnyHttpUrl(f"{origin}/authorize"),
        token_endpoint=AnyHttpUrl(f"{origin}/token"),
    )


def _renewal(remote: Remote, known: Credentials) -> httpx2.Request | None:
    """Return the request for new tokens: to who gave the old ones, and nobody else."""
    client = remote.client(known)
    if known.tokens is None or not known.tokens.refresh_token or known.metadata is None or client is None:
        return None
    data = {
        "grant_type": "refresh_token",
        "refresh_token": known.tokens.refresh_token,
        "client_id": client.client_id,
    }
    if known.resource:
        data["resource"] = known.resource
    provider = OAuthClientProvider(remote.url, OAuthClientMetadata(redirect_uris=None), Kept(None, client))
    provider.context.client_info = client
    _settle_method(client, known.metadata)
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    data, headers = provider.context.prepare_token_auth(data, headers)
    return httpx2.Request("POST", str(known.metadata.token_endpoint), data=data, headers=headers)


async def _ask(remote: Remote, request: httpx2.Request) -> httpx2.Response:
    """Send a request of ours, none of the server's headers with it; follow nothing, read a bounded answer."""
    remote.check(str(request.url))
    try:
        async with httpx2.AsyncClient(timeout=_TIMEOUT, trust_env=False, verify=_trusted()) as client:
            response = await client.send(request, stream=True, follow_redirects=False)
            try:
                content = await _bounded(response)
            finally:
                await response.aclose()
    except httpx2.HTTPError as error:
        raise remote.failed(f"needs `{request.url.host}`, which does not answer: {error}") from error
    if content is None:
        raise remote.failed(f"needs `{request.url.host}`, which answers without an end")
    return _whole(response, content)


@cache
def _trusted() -> ssl.SSLContext:
    return httpx2.create_ssl_context(trust_env=False)  # once: it takes a tenth of a second


async def _bounded(response: httpx2.Response) -> bytes | None:
    content = bytearray()
    async for chunk in response.aiter_bytes():
        content += chunk
        if len(content) > _ANSWER_LIMIT:
            return None
    return bytes(content)


def _whole(response: httpx2.Response, content: bytes) -> httpx2.Response:
    skipped = {"content-encoding", "content-length", "transfer-encoding"}
    headers = [(name, value) for name, value in response.headers.multi_items() if name.lower() not in skipped]
    whole = httpx2.Response(response.status_code, headers=headers, content=content, request=response.request)
    whole.next_request = response.next_request
    return whole


def _check_answer(remote: Remote, request: httpx2.Request, response: httpx2.Response) -> None:
    """Refuse what the SDK would quote in its own error, secrets and all."""
    if not response.is_success:
        reason = _reason(response)
        if reason == "invalid_client":
            raise remote.forgot()
        told = reason or "no reason given"
        raise remote.failed(f"could not log us in: HTTP {response.status_code}, {told}")
    if request.headers["Content-Type"] == "application/json":
        _client_info(remote, response)
    else:
        _tokens(remote, response)


def _tokens(remote: Remote, response: httpx2.Response) -> OAuthToken:
    try:
        tokens = OAuthToken.model_validate_json(response.content)
    except ValidationError:
        tokens = None
    if tokens is None or not _TOKEN.fullmatch(tokens.access_token):
        # Not chained: the cause quotes the answer.
        raise remote.failed("has an authorization server whose tokens cannot be read") from None
    return tokens


def _client_info(remote: Remote, response: httpx2.Response) -> OAuthClientInformationFull:
    try:
        return OAuthClientInformationFull.model_validate_json(response.content)
    except ValidationError:
        raise remote.failed("has an authorization server whose registration cannot be read") from None


def _reason(response: httpx2.Response) -> str:
    """Return the code of an error (RFC 6749, 5.2); empty if there is none that can be shown."""
    try:
        found: object = json.loads(response.content)
    except ValueError:
        return ""
    reason = cast("dict[str, object]", found).get("error") if isinstance(found, dict) else None
    return reason if isinstance(reason, str) and _REASON.fullmatch(reason) else ""


def _method(metadata: OAuthMetadata | None) -> str:
    """Return how a secret is shown to this authorization server (RFC 8414: in the header by default)."""
    supported = metadata.token_endpoint_auth_methods_supported if metadata else None
    offered = [one for one in supported or () if one in {"client_secret_basic", "client_secret_post"}]
    return offered[0] if offered else "client_secret_basic"


def _settle_method(client: OAuthClientInformationFull | None, metadata: OAuthMetadata | None) -> None:
    # Only what is left open: the SDK would send no secret at all.
    if client is not None and client.client_secret and client.token_endpoint_auth_method is None:
        client.token_endpoint_auth_method = _method(metadata)


def _with_query(address: str, metadata: OAuthMetadata | None) -> str:
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


def _one_line(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)[:300]


def _is_not_told_by_us(record: logging.LogRecord) -> bool:
    return record.msg != "OAuth flow error"
