"""Being let in by a remote server (OAuth): with tokens that are kept, renewed, or asked for in a browser."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
from mcp.shared.auth import OAuthClientInformationFull

from kakite.host.callback import listening
from kakite.host.credentials import CredentialFile, Credentials, CredentialsError, without_login
from kakite.host.entries import Address, ServerEntry
from kakite.host.grants import (
    AuthorizationError,
    ForgottenError,
    Kept,
    Login,
    Page,
    Remote,
    Visitor,
    renew,
)

__all__ = [
    "PATIENCE",
    "Authorization",
    "AuthorizationError",
    "Page",
    "Visitor",
    "authorization_of",
    "logins",
]

PATIENCE = 300.0  # s that a person has for a login
RENEWAL_WAIT = 30.0  # s for another process that renews the same tokens


def logins(state: Path) -> Path:
    """Return the folder of what is remembered, below a state folder."""
    return state / "logins"


def authorization_of(
    entry: ServerEntry,
    folder: Path,
    *,
    visitor: Visitor | None = None,
    patience: float = PATIENCE,
    paused: Callable[[], AbstractContextManager[None]] = nullcontext,
    learn: Callable[[Iterable[str]], None] = lambda _: None,
) -> Authorization | None:
    """Return what lets the requests for an entry in: an ``httpx2`` authentication.

    None for a program, and for an address whose headers say already who we are. Tokens are kept below the
    ``folder``. Without a ``visitor`` nobody logs in: what is remembered is used and renewed. Inside of
    ``paused()`` a request waits for somebody else than its server, for ``patience`` seconds at most.
    What nobody shall be told is given to ``learn``, as soon as it is known.
    """
    address = entry.reached
    if not isinstance(address, Address) or any(name.lower() == "authorization" for name in address.headers):
        return None
    remote = Remote(name=entry.name, url=without_login(address.url), oauth=address.oauth)
    return Authorization(remote, folder, visitor=visitor, patience=patience, paused=paused, learn=learn)


class Authorization(httpx2.Auth):
    """The authentication of one server's requests.

    A token leaves only with requests to the server itself. Any number of requests, tasks and processes may
    use the same tokens: they are renewed once.

    Raises, from the request it serves: AuthorizationError; CredentialsError.
    """

    def __init__(
        self,
        remote: Remote,
        folder: Path,
        *,
        visitor: Visitor | None,
        patience: float,
        paused: Callable[[], AbstractContextManager[None]],
        learn: Callable[[Iterable[str]], None],
    ) -> None:
        self._remote = remote
        self._file = CredentialFile(folder, remote.url, remote.oauth.id)
        self._visitor = visitor
        self._patience = patience
        self._paused = paused
        self._learn = learn
        self._known: Credentials | None = None
        self._hopeless: set[str] = set()
        self.refusal: AuthorizationError | CredentialsError | None = None
        """Why the last request was not let in. The SDK tells its caller only that the connection is gone."""

    def __repr__(self) -> str:
        return f"Authorization({self._remote.name!r}, {self._remote.url!r})"

    @property
    def known(self) -> Credentials:
        """Return what is remembered."""
        return self._load() if self._known is None else self._known

    def _load(self) -> Credentials:
        self._known = self._file.load()
        self._learn(self._known.secrets)
        return self._known

    def forget(self) -> bool:
        """Forget the tokens, and how the server knows us; return whether there was anything."""
        self._known = Credentials()
        return self._file.forget()

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Let the request in: with what we have, then with what we get."""
        if not _is_same_place(httpx2.URL(self._remote.url), request.url):
            yield request
            return
        try:
            if self.known.bearer and not self.known.is_fresh():
                await self._renew(self.known.bearer)
            response = yield self._signed(request)
            for improve in (self._reread, self._refresh, self._log_in):
                if self._asks_for_more(response) and await improve(request, response):
                    response = yield self._signed(request)
            self._judge(response)
        except (AuthorizationError, CredentialsError) as error:
            self.refusal = error
            raise

    def _judge(self, response: httpx2.Response) -> None:
        self.refusal = None
        if self._asks_for_more(response):
            self._hopeless.add(_challenge(response))
            raise self._still_refused()

    def _signed(self, request: httpx2.Request) -> httpx2.Request:
        if self.known.bearer:
            request.headers["Authorization"] = f"Bearer {self.known.bearer}"
        return request

    def _asks_for_more(self, response: httpx2.Response) -> bool:
        # Whoever a redirect led to is not asked who we are to be.
        ours = _is_same_place(httpx2.URL(self._remote.url), response.url)
        too_little = response.status_code == 403 and "insufficient_scope" in _challenge(response)
        return ours and (response.status_code == 401 or too_little)

    async def _reread(self, request: httpx2.Request, _: httpx2.Response) -> bool:
        """Take what another process got meanwhile."""
        self._load()
        return self._has_other_than(_sent(request))

    async def _refresh(self, request: httpx2.Request, response: httpx2.Response) -> bool:
        # A token that allows too little is not mended by one that allows the same.
        return response.status_code == 401 and await self._renew(_sent(request))

    async def _renew(self, old: str) -> bool:
        """Renew the tokens with this bearer, unless somebody just did; return whether there are others."""
        with self._paused():
            async with self._file.locked(RENEWAL_WAIT):
                self._load()
                if self.known.bearer == old and (renewed := await renew(self._remote, self.known)):
                    self._remember(renewed)
        return self._has_other_than(old)

    async def _log_in(self, request: httpx2.Request, response: httpx2.Response) -> bool:
        if self._visitor is None:
            hint = f"run `kakite host login {self._remote.name}`"
            reason = "asks to log in, and nobody is here to do it"
            raise self._remote.failed(reason, code="authorization_required", hint=hint)
        if _challenge(response) in self._hopeless:
            raise self._still_refused()
        with self._paused():
            async with self._file.locked(self._patience):
                self._load()
                if not self._has_other_than(_sent(request)):
                    await self._visit(self._visitor, request, response)
        return True

    async def _visit(self, visitor: Visitor, request: httpx2.Request, response: httpx2.Response) -> None:
        """Send the person to the login; a second time if the server turns out to have forgotten us."""
        try:
            await self._visit_once(visitor, request, response)
        except ForgottenError:
            if self._remote.oauth.id:
                raise  # who we are is configured, not registered
            self._remember(Credentials())
            await self._visit_once(visitor, request, response)

    async def _visit_once(self, visitor: Visitor, request: httpx2.Request, response: httpx2.Response) -> None:
        oauth = self._remote.oauth
        client = self._remote.client(self.known)
        try:
            async with listening(port=oauth.port, preferred=_port(client)) as callback:
                if not oauth.id and _port(client) != callback.port:
                    client = None  # it knows us with another address: we register anew
                login = Login(
                    remote=self._remote, callback=callback, visitor=visitor, patience=self._patience
                )
                await self._log_in_with(login, Kept(self.known.tokens, client), request, response)
        except OSError as error:
            reason = f"cannot be logged in to: port {oauth.port} is taken"
            raise self._remote.failed(reason, hint="end what listens there") from error

    async def _log_in_with(
        self, login: Login, kept: Kept, request: httpx2.Request, response: httpx2.Response
    ) -> None:
        try:
            credentials = await login.perform(request, response, kept)
        except AuthorizationError as error:
            # To register once is enough, unless nobody came back: the page may have said that we are unknown.
            lost = error.code == "authorization_timeout" or isinstance(error, ForgottenError)
            self._remember(replace(self.known, client=None if lost else kept.client))
            raise
        self._remember(credentials)

    def _remember(self, credentials: Credentials) -> None:
        # Who we are by configuration is not ours to keep.
        self._learn(credentials.secrets)
        kept = replace(credentials, client=None) if self._remote.oauth.id else credentials
        self._known = kept
        self._file.save(kept)

    def _has_other_than(self, bearer: str) -> bool:
        return bool(self.known.bearer) and self.known.bearer != bearer

    def _still_refused(self) -> AuthorizationError:
        return self._remote.failed("still refuses after a login", code="authorization_denied")


def _is_same_place(ours: httpx2.URL, theirs: httpx2.URL) -> bool:
    if (ours.scheme, ours.host, ours.port) == (theirs.scheme, theirs.host, theirs.port):
        return True
    upgraded = (ours.scheme, theirs.scheme) == ("http", "https") and ours.port is theirs.port is None
    return upgraded and ours.host == theirs.host


def _challenge(response: httpx2.Response) -> str:
    return response.headers.get("WWW-Authenticate", "")


def _sent(request: httpx2.Request) -> str:
    return request.headers.get("Authorization", "").removeprefix("Bearer ")


def _port(client: OAuthClientInformationFull | None) -> int:
    """Return the port of the page to which we told an authorization server to send browsers; 0 if none."""
    uris = (client.redirect_uris if client else None) or ()
    return next((port for uri in uris if (port := urlsplit(str(uri)).port)), 0)
