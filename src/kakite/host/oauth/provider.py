"""Authenticates requests to a remote server with OAuth tokens: stored, refreshed, or asked in a browser."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
from mcp.shared.auth import OAuthClientInformationFull

from kakite.host.config.model import HttpServer, ServerEntry
from kakite.host.oauth.authorization_flow import (
    AuthorizationError,
    AuthorizationPage,
    InMemoryTokenStorage,
    LoginFlow,
    LoginPageOpener,
    ProtectedResource,
    UnregisteredClientError,
    open_redirect_listener,
    refresh_tokens,
)
from kakite.host.oauth.token_store import CredentialsError, OAuthCredentials, TokenFile, strip_userinfo

__all__ = [
    "LOGIN_TIMEOUT",
    "AuthorizationError",
    "AuthorizationPage",
    "LoginPageOpener",
    "OAuthAuth",
    "create_auth",
    "get_login_folder",
]

LOGIN_TIMEOUT = 300.0  # s that a person has for a login
REFRESH_LOCK_TIMEOUT = 30.0  # s for another process that renews the same tokens


def get_login_folder(state: Path) -> Path:
    """Return the folder of what is remembered, below a state folder."""
    return state / "logins"


def create_auth(
    entry: ServerEntry,
    folder: Path,
    *,
    visitor: LoginPageOpener | None = None,
    patience: float = LOGIN_TIMEOUT,
    paused: Callable[[], AbstractContextManager[None]] = nullcontext,
    learn: Callable[[Iterable[str]], None] = lambda _: None,
) -> OAuthAuth | None:
    """Return what lets the requests for an entry in: an ``httpx2`` authentication.

    None for a program, and for an address whose headers say already who we are. Tokens are kept below the
    ``folder``. Without a ``visitor`` nobody logs in: what is remembered is used and renewed. Inside of
    ``paused()`` a request waits for somebody else than its server, for ``patience`` seconds at most.
    What nobody shall be told is given to ``learn``, as soon as it is known.
    """
    address = entry.reached
    if not isinstance(address, HttpServer) or any(
        name.lower() == "authorization" for name in address.headers
    ):
        return None
    remote = ProtectedResource(name=entry.name, url=strip_userinfo(address.url), oauth=address.oauth)
    return OAuthAuth(remote, folder, visitor=visitor, patience=patience, paused=paused, learn=learn)


class OAuthAuth(httpx2.Auth):
    """The authentication of one server's requests.

    A token leaves only with requests to the server itself. Any number of requests, tasks and processes may
    use the same tokens: they are renewed once.

    Raises, from the request it serves: AuthorizationError; CredentialsError.
    """

    def __init__(
        self,
        remote: ProtectedResource,
        folder: Path,
        *,
        visitor: LoginPageOpener | None,
        patience: float,
        paused: Callable[[], AbstractContextManager[None]],
        learn: Callable[[Iterable[str]], None],
    ) -> None:
        self._remote = remote
        self._file = TokenFile(folder, remote.url, remote.oauth.id)
        self._visitor = visitor
        self._patience = patience
        self._paused = paused
        self._learn = learn
        self._known: OAuthCredentials | None = None
        self._hopeless: set[str] = set()
        self.refusal: AuthorizationError | CredentialsError | None = None
        """Why the last request was not let in. The SDK tells its caller only that the connection is gone."""

    def __repr__(self) -> str:
        return f"Authorization({self._remote.name!r}, {self._remote.url!r})"

    @property
    def credentials(self) -> OAuthCredentials:
        """Return what is remembered."""
        return self._load() if self._known is None else self._known

    def _load(self) -> OAuthCredentials:
        self._known = self._file.load()
        self._learn(self._known.secrets)
        return self._known

    def forget(self) -> bool:
        """Forget the tokens, and how the server knows us; return whether there was anything."""
        self._known = OAuthCredentials()
        return self._file.forget()

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Let the request in: with what we have, then with what we get."""
        if not _is_same_origin(httpx2.URL(self._remote.url), request.url):
            yield request
            return
        try:
            if self.credentials.bearer and not self.credentials.is_fresh():
                await self._refresh_tokens(self.credentials.bearer)
            response = yield self._sign(request)
            for improve in (self._reload, self._refresh, self._log_in):
                if self._is_refused(response) and await improve(request, response):
                    response = yield self._sign(request)
            self._check_response(response)
        except (AuthorizationError, CredentialsError) as error:
            self.refusal = error
            raise

    def _check_response(self, response: httpx2.Response) -> None:
        self.refusal = None
        if self._is_refused(response):
            self._hopeless.add(_get_challenge(response))
            raise self._make_denied_error()

    def _sign(self, request: httpx2.Request) -> httpx2.Request:
        if self.credentials.bearer:
            request.headers["Authorization"] = f"Bearer {self.credentials.bearer}"
        return request

    def _is_refused(self, response: httpx2.Response) -> bool:
        # Whoever a redirect led to is not asked who we are to be.
        ours = _is_same_origin(httpx2.URL(self._remote.url), response.url)
        too_little = response.status_code == 403 and "insufficient_scope" in _get_challenge(response)
        return ours and (response.status_code == 401 or too_little)

    async def _reload(self, request: httpx2.Request, _: httpx2.Response) -> bool:
        """Take what another process got meanwhile."""
        self._load()
        return self._has_other_token(_get_sent_token(request))

    async def _refresh(self, request: httpx2.Request, response: httpx2.Response) -> bool:
        # A token that allows too little is not mended by one that allows the same.
        return response.status_code == 401 and await self._refresh_tokens(_get_sent_token(request))

    async def _refresh_tokens(self, old: str) -> bool:
        """Renew the tokens with this bearer, unless somebody just did; return whether there are others."""
        with self._paused():
            async with self._file.lock(REFRESH_LOCK_TIMEOUT):
                self._load()
                if self.credentials.bearer == old and (
                    renewed := await refresh_tokens(self._remote, self.credentials)
                ):
                    self._save(renewed)
        return self._has_other_token(old)

    async def _log_in(self, request: httpx2.Request, response: httpx2.Response) -> bool:
        if self._visitor is None:
            hint = f"run `kakite host login {self._remote.name}`"
            reason = "asks to log in, and nobody is here to do it"
            raise self._remote.make_auth_error(reason, code="authorization_required", hint=hint)
        if _get_challenge(response) in self._hopeless:
            raise self._make_denied_error()
        with self._paused():
            async with self._file.lock(self._patience):
                self._load()
                if not self._has_other_token(_get_sent_token(request)):
                    await self._run_login(self._visitor, request, response)
        return True

    async def _run_login(
        self, visitor: LoginPageOpener, request: httpx2.Request, response: httpx2.Response
    ) -> None:
        """Send the person to the login; a second time if the server turns out to have forgotten us."""
        try:
            await self._run_login_once(visitor, request, response)
        except UnregisteredClientError:
            if self._remote.oauth.id:
                raise  # who we are is configured, not registered
            self._save(OAuthCredentials())
            await self._run_login_once(visitor, request, response)

    async def _run_login_once(
        self, visitor: LoginPageOpener, request: httpx2.Request, response: httpx2.Response
    ) -> None:
        oauth = self._remote.oauth
        client = self._remote.get_client(self.credentials)
        try:
            async with open_redirect_listener(
                port=oauth.port, preferred=_get_redirect_port(client)
            ) as callback:
                if not oauth.id and _get_redirect_port(client) != callback.port:
                    client = None  # it knows us with another address: we register anew
                login = LoginFlow(
                    remote=self._remote, callback=callback, visitor=visitor, patience=self._patience
                )
                await self._run_login_flow(
                    login, InMemoryTokenStorage(self.credentials.tokens, client), request, response
                )
        except OSError as error:
            reason = f"cannot be logged in to: port {oauth.port} is taken"
            raise self._remote.make_auth_error(reason, hint="stop the program that uses that port") from error

    async def _run_login_flow(
        self, login: LoginFlow, kept: InMemoryTokenStorage, request: httpx2.Request, response: httpx2.Response
    ) -> None:
        try:
            credentials = await login.run(request, response, kept)
        except AuthorizationError as error:
            # To register once is enough, unless nobody came back: the page may have said that we are unknown.
            lost = error.code == "authorization_timeout" or isinstance(error, UnregisteredClientError)
            self._save(replace(self.credentials, client=None if lost else kept.client))
            raise
        self._save(credentials)

    def _save(self, credentials: OAuthCredentials) -> None:
        # Who we are by configuration is not ours to keep.
        self._learn(credentials.secrets)
        kept = replace(credentials, client=None) if self._remote.oauth.id else credentials
        self._known = kept
        self._file.save(kept)

    def _has_other_token(self, bearer: str) -> bool:
        return bool(self.credentials.bearer) and self.credentials.bearer != bearer

    def _make_denied_error(self) -> AuthorizationError:
        return self._remote.make_auth_error("still refuses after a login", code="authorization_denied")


def _is_same_origin(ours: httpx2.URL, theirs: httpx2.URL) -> bool:
    if (ours.scheme, ours.host, ours.port) == (theirs.scheme, theirs.host, theirs.port):
        return True
    upgraded = (ours.scheme, theirs.scheme) == ("http", "https") and ours.port is theirs.port is None
    return upgraded and ours.host == theirs.host


def _get_challenge(response: httpx2.Response) -> str:
    return response.headers.get("WWW-Authenticate", "")


def _get_sent_token(request: httpx2.Request) -> str:
    return request.headers.get("Authorization", "").removeprefix("Bearer ")


def _get_redirect_port(client: OAuthClientInformationFull | None) -> int:
    """Return the port of the page to which we told an authorization server to send browsers; 0 if none."""
    uris = (client.redirect_uris if client else None) or ()
    return next((port for uri in uris if (port := urlsplit(str(uri)).port)), 0)
