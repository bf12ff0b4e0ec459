"""Logging in to a server, and out, because a person says so."""

from __future__ import annotations

from dataclasses import dataclass

from kakite.errors import UsageError
from kakite.host.authorization import Authorization, authorization_of, logins
from kakite.host.entries import ServerEntry
from kakite.host.requests import Surroundings
from kakite.host.server import Server


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedIn:
    """How a login stands."""

    issuer: str
    """Who let us in; empty: the server wants no login."""
    scopes: tuple[str, ...]
    """What we may."""
    expires_at: float | None
    """When the token ends, in seconds since the epoch; it is renewed then. None: nobody said."""


async def log_in(entry: ServerEntry, surroundings: Surroundings, *, anew: bool = False) -> LoggedIn:
    """Start the server, with ``surroundings.visitor`` to log in where it wants that, and stop it again.

    Args:
        entry: expanded, and agreed to.
        surroundings: of the host that will use the login.
        anew: also where there is a login already.

    Raises:
        UsageError: ``no_login``: it is no server that one logs in to.
        ServerError: it could not be started; with the code of the refusal if nobody was let in.
    """
    authorization = _authorization(entry, surroundings)
    if anew:
        authorization.forget()
    server = Server(entry, surroundings)
    try:
        await server.start()
    finally:
        await server.stop()
    known = _authorization(entry, surroundings).known
    scope = (known.tokens.scope or "") if known.tokens else ""
    return LoggedIn(issuer=known.issuer, scopes=tuple(scope.split()), expires_at=known.expires_at)


def log_out(entry: ServerEntry, surroundings: Surroundings) -> bool:
    """Forget the login on this machine; return whether there was one.

    Raises:
        UsageError: ``no_login``.
        CredentialsError: it cannot be removed.
    """
    return _authorization(entry, surroundings).forget()


def _authorization(entry: ServerEntry, surroundings: Surroundings) -> Authorization:
    authorization = authorization_of(entry, logins(surroundings.state))
    if authorization is None:
        raise UsageError(
            f"nobody logs in to the server `{entry.name}`",
            hint="it is a program, or its `headers` say who you are",
            code="no_login",
        )
    return authorization
