"""Logs in to a server, and out, when a person asks for it."""

from __future__ import annotations

from dataclasses import dataclass

from kakite.errors import UsageError
from kakite.host.config.model import ServerEntry
from kakite.host.oauth.provider import OAuthAuth, create_auth, get_login_folder
from kakite.host.server.client_features import HostContext
from kakite.host.server.server import Server


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginStatus:
    """The status of a login."""

    issuer: str
    """Who let us in; empty: the server wants no login."""
    scopes: tuple[str, ...]
    """What we may."""
    expires_at: float | None
    """When the token ends, in seconds since the epoch; it is renewed then. None: nobody said."""


async def log_in(entry: ServerEntry, surroundings: HostContext, *, anew: bool = False) -> LoginStatus:
    """Start the server, with ``surroundings.visitor`` to log in where it wants that, and stop it again.

    Args:
        entry: expanded, and agreed to.
        surroundings: of the host that will use the login.
        anew: also where there is a login already.

    Raises:
        UsageError: ``no_login``: it is no server that one logs in to.
        ServerError: it could not be started; with the code of the refusal if nobody was let in.
    """
    authorization = _require_auth(entry, surroundings)
    if anew:
        authorization.forget()
    server = Server(entry, surroundings)
    try:
        await server.start()
    finally:
        await server.stop()
    known = _require_auth(entry, surroundings).credentials
    scope = (known.tokens.scope or "") if known.tokens else ""
    return LoginStatus(issuer=known.issuer, scopes=tuple(scope.split()), expires_at=known.expires_at)


def log_out(entry: ServerEntry, surroundings: HostContext) -> bool:
    """Forget the login on this machine; return whether there was one.

    Raises:
        UsageError: ``no_login``.
        CredentialsError: it cannot be removed.
    """
    return _require_auth(entry, surroundings).forget()


def _require_auth(entry: ServerEntry, surroundings: HostContext) -> OAuthAuth:
    authorization = create_auth(entry, get_login_folder(surroundings.state))
    if authorization is None:
        raise UsageError(
            f"nobody logs in to the server `{entry.name}`",
            hint="it is a program, or its `headers` say who you are",
            code="no_login",
        )
    return authorization
