"""What servers of pages share: a link with the token is changed for a cookie, and foreign pages are refused.

Beside the gate: a cookie will do for a page, so whatever changes anything must come from the page itself.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from html import escape
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from starlette.responses import Response

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Of every answer, besides the content security policy."""

LOOKING = frozenset(("GET", "HEAD"))
"""The methods that change nothing."""


def is_same(given: str, known: str) -> bool:
    """Tell whether this is the secret, in the same time whatever is wrong with it."""
    return hmac.compare_digest(given.encode(errors="replace"), known.encode())


def bearer(headers: Mapping[str, str]) -> str:
    """Return the token that a program sent; empty if none. Header names are lower case."""
    scheme, _, given = headers.get("authorization", "").partition(" ")
    return given.strip() if scheme.lower() == "bearer" else ""


def cookie(headers: Mapping[str, str], name: str) -> str:
    """Return the value of a cookie; empty if there is none."""
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return found.value if found is not None else ""


def is_same_page(headers: Mapping[str, str], origins: Sequence[str] = ()) -> bool:
    """Tell whether our own page asks: one of another port of this machine has our cookie too.

    ``origins`` are further addresses of ours.
    """
    origin = headers.get("origin", "")
    return bool(origin) and (origin in origins or origin.partition("://")[2] == headers.get("host", ""))


def welcome(path: str, name: str, value: str, *, age: int | None = None, secure: bool = False) -> Response:
    """Lead on to a path of ours without what stood behind it, with a cookie that scripts cannot read.

    ``age`` is in seconds; None: until the browser ends.
    """
    from starlette.responses import RedirectResponse

    # A path that begins with two slashes would be another server's address.
    answer = RedirectResponse(f"/{quote(path.lstrip('/'))}", 303)
    answer.set_cookie(name, value, max_age=age, httponly=True, samesite="strict", path="/", secure=secure)
    return answer


def login_page(command: str, *, title: str, style: str) -> str:
    """Return the page that asks for the token; ``style`` is the path of its style sheet."""
    return f"""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<link rel="stylesheet" href="{escape(style)}">
</head>
<body class="login">
<main>
<h1>{escape(title)}</h1>
<p>Open the link that <code>{escape(command)}</code> printed, or give its token.</p>
<form method="get" action="/">
<label for="token">Token</label>
<input id="token" name="token" type="password" autocomplete="off" required autofocus>
<button class="main">Enter</button>
</form>
</main>
</body>
</html>
"""
