"""Access control of the fake forges: tokens of people, and Apps with signed tokens and installations."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from kakite_testing.forges.app import Identity

_LONGEST_JWT: Final = 600 + 60  # s; ten minutes, and the minute that clocks may differ


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledApp:
    """An App that is installed in the repository."""

    id: int
    slug: str
    installation: int
    private_key: str
    """PEM. What its owner downloads, and keeps in a file."""

    @property
    def login(self) -> str:
        """The account name under which it writes."""
        return f"{self.slug}[bot]"


@dataclass(frozen=True, slots=True, kw_only=True)
class _TokenGrant:
    identity: Identity
    expires: float | None


class Access:
    """The tokens of a server. Those that were given out can be made to expire."""

    def __init__(self, prefix: str = "ghp_") -> None:
        self._prefix = prefix
        self.token_seconds = 3600.0
        """How long a token of an App holds."""
        self.app_rights = dict.fromkeys(("contents", "issues", "pull_requests"), "write")
        """What Apps have been allowed to do."""
        self._grants: dict[str, _TokenGrant] = {}
        self._apps: dict[int, tuple[InstalledApp, Any]] = {}

    def grant(self, login: str, *, read_only: bool = False, installation: bool = False) -> str:
        """Return a new token."""
        token = f"{'ghs_' if installation else self._prefix}{secrets.token_hex(18)}"
        expires = time.time() + self.token_seconds if installation else None
        identity = Identity(login=login, read_only=read_only, installation=installation)
        self._grants[token] = _TokenGrant(identity=identity, expires=expires)
        return token

    def expire(self) -> None:
        """Let all tokens that were given out so far hold no longer."""
        self._grants = {token: replace(each, expires=0.0) for token, each in self._grants.items()}

    def install(self, slug: str) -> InstalledApp:
        """Return a new App, installed in the repository."""
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        pem = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
        number = 100 + len(self._apps)
        app = InstalledApp(id=number, slug=slug, installation=number + 1000, private_key=pem.decode())
        self._apps[number] = (app, key.public_key())
        return app

    def uninstall(self) -> None:
        """Take all Apps out of the repository."""
        self._apps.clear()

    def app(self, number: int) -> InstalledApp:
        """Return an App."""
        return self._apps[number][0]

    def format_expiry(self, token: str) -> str:
        """Return until when a token holds, as GitHub writes it."""
        expires = self._grants[token].expires or 0.0
        return datetime.fromtimestamp(expires, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def identify(self, headers: Mapping[str, str]) -> Identity | None:
        """Return whose token a request carries."""
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and token.count(".") == 2:
            return self._verify_jwt(token)
        return self.find_identity(token) if kind.lower() in {"bearer", "token"} else None

    def find_identity(self, token: str) -> Identity | None:
        """Return whose token it is; None if nobody's, or if it has expired."""
        grant = self._grants.get(token)
        if grant is None or (grant.expires is not None and time.time() >= grant.expires):
            return None
        return grant.identity

    def _verify_jwt(self, token: str) -> Identity | None:
        for app, key in self._apps.values():
            try:
                claims = jwt.decode(token, key, algorithms=["RS256"], issuer=str(app.id))
            except jwt.InvalidTokenError:
                continue
            if claims["exp"] - claims["iat"] <= _LONGEST_JWT:
                return Identity(login=app.login, app=app.id)
        return None
