"""Signs people in by OpenID Connect: their password stays at the issuer, a cookie of ours is set here."""

from __future__ import annotations

import logging
import secrets
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from kakite.collab.auth.policy import COOKIE_AGE, AuthPolicy

if TYPE_CHECKING:
    from starlette.types import Scope

log = logging.getLogger(__name__)

LOGIN_PATH = "/login"
CALLBACK_PATH = "/login/back"
_COOKIE = "kakite-collab-login"
_MAX_PENDING = 1_000  # that are on their way at once
_AGE = 600  # s for signing in


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcIssuer:
    """The issuer that signs people in."""

    url: str
    client: str
    secret: str = field(repr=False)
    claim: str = "email"
    """What a person is called by; an e-mail address only if the issuer says that it is theirs."""


class OidcLogin:
    """The way over the issuer and back."""

    def __init__(self, issuer: OidcIssuer, door: AuthPolicy) -> None:
        from authlib.integrations.starlette_client import OAuth  # pyright: ignore[reportMissingTypeStubs] - has none

        self._claim = issuer.claim
        self._door = door
        self._on_the_way: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._client: Any = cast("Any", OAuth()).register(
            name="oidc",
            client_id=issuer.client,
            client_secret=issuer.secret,
            server_metadata_url=f"{issuer.url.rstrip('/')}/.well-known/openid-configuration",
            client_kwargs={"scope": "openid profile email", "code_challenge_method": "S256"},
        )

    async def answer(self, scope: Scope) -> Response:
        """Lead a person to the issuer, or let in one who comes back."""
        request = Request(scope)
        known = request.cookies.get(_COOKIE, "")
        try:
            if scope["path"] == LOGIN_PATH:
                return await self._redirect_to_issuer(request)
            scope["session"] = self._on_the_way.pop(known, {})
            token = cast("dict[str, Any]", await self._client.authorize_access_token(request))
        except Exception as error:  # noqa: BLE001 - whatever the issuer or a stranger's link does
            log.warning("somebody could not sign in: %s", error)
            return HTMLResponse(_render_page("Signing in failed.", "/login", "Try again"), 403)
        name = self._extract_name(cast("dict[str, Any]", token.get("userinfo") or {}))
        if not name:
            return HTMLResponse(
                _render_page("The issuer does not say who you are.", "/login", "Try again"), 403
            )
        answer = HTMLResponse(_render_page("You are signed in.", "/", "Go on", go=True))
        answer.set_cookie(
            self._door.cookie,
            self._door.sign_cookie("oidc", name),
            max_age=COOKIE_AGE,
            httponly=True,
            samesite="strict",
            secure=self._door.is_public,
        )
        return answer

    async def _redirect_to_issuer(self, request: Request) -> Response:
        session: dict[str, Any] = {}
        request.scope["session"] = session
        home = self._door.origins[0] if self._door.origins else str(request.base_url).rstrip("/")
        answer = cast("Response", await self._client.authorize_redirect(request, f"{home}{CALLBACK_PATH}"))
        mark = secrets.token_urlsafe(24)
        self._on_the_way[mark] = session
        while len(self._on_the_way) > _MAX_PENDING:
            self._on_the_way.popitem(last=False)
        # Lax, since the issuer leads back.
        answer.set_cookie(
            _COOKIE, mark, max_age=_AGE, httponly=True, samesite="lax", secure=self._door.is_public
        )
        return answer

    def _extract_name(self, claims: dict[str, Any]) -> str:
        if self._claim == "email" and claims.get("email_verified") is False:
            return ""
        return str(claims.get(self._claim) or "")


def _render_page(told: str, where: str, words: str, *, go: bool = False) -> str:
    """Return a page of ours: led on from it, a browser sends our cookie, as from no other place."""
    refresh = f'<meta http-equiv="refresh" content="0;url={where}">' if go else ""
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">{refresh}<title>Kakite</title>'
        f'<link rel="stylesheet" href="/app.css"></head><body class="login"><main><h1>Kakite</h1>'
        f'<p>{told} <a href="{where}">{words}</a></p></main></body></html>'
    )
