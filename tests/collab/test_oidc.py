"""People who sign in at an issuer of OpenID Connect: a real one in all that we ask of it, on the loopback."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest
import yaml
from joserfc import jwt
from joserfc.jwk import RSAKey

from tests.bounds import WITHIN
from tests.collab.server import serving

pytestmark = pytest.mark.anyio


@contextmanager
def issuer(claims: dict[str, Any]) -> Generator[str]:
    """Serve an issuer that signs in whoever comes, with these claims."""
    key = RSAKey.generate_key(2048, {"kid": "k", "alg": "RS256", "use": "sig"}, auto_kid=True)
    asked: dict[str, dict[str, str]] = {}

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            place = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(place.query).items()}
            if place.path == "/authorize":
                asked["code"] = query
                back = urlencode({"code": "code", "state": query["state"]})
                self.send_response(302)
                self.send_header("Location", f"{query['redirect_uri']}?{back}")
                self.end_headers()
            elif place.path == "/keys":
                self._tell({"keys": [key.as_dict(private=False)]})
            else:
                names = ("authorize", "token", "keys")
                ends = [f"{url}/{name}" for name in names]
                told = dict(zip(("authorization_endpoint", "token_endpoint", "jwks_uri"), ends, strict=True))
                self._tell({"issuer": url, **told, "id_token_signing_alg_values_supported": ["RS256"]})

        def do_POST(self) -> None:
            body = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            query = asked["code"]
            digest = hashlib.sha256(body["code_verifier"][0].encode()).digest()
            assert urlsafe_b64encode(digest).rstrip(b"=").decode() == query["code_challenge"]
            now = int(time.time())
            said = {"iss": url, "sub": "1", "aud": "kakite", "iat": now, "exp": now + 60}
            token = jwt.encode({"alg": "RS256"}, {**said, "nonce": query["nonce"], **claims}, key)
            self._tell({"access_token": "a", "token_type": "Bearer", "id_token": token})

        def _tell(self, value: object) -> None:
            data = json.dumps(value).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's own name
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield url
        finally:
            server.shutdown()
            thread.join(WITHIN)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("claims", "status"),
    [({"email": "ann@example.org"}, 200), ({"email": "ann@example.org", "email_verified": False}, 403)],
)
async def test_a_person_signs_in_elsewhere_and_may_do_what_settings_say(
    tmp_path: Path, claims: dict[str, Any], status: int
) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "a.md").write_bytes(b"x\n")
    settings = tmp_path / "settings.yaml"
    with issuer(claims) as url:
        told = {
            "collab_oidc": {"issuer": url, "client": "kakite"},
            "collab_people": {"ann@example.org": {"*": "read"}},
        }
        settings.write_text(yaml.safe_dump(told), encoding="utf-8")
        environ = {"KAKITE_CONFIG": str(settings), "KAKITE_OIDC_SECRET": "s"}
        async with (
            serving(pages, environ=environ) as server,
            httpx.AsyncClient(base_url=server.url, follow_redirects=True) as browser,
            httpx.AsyncClient(base_url=server.url) as stranger,
        ):
            came = await browser.get("/")
            assert came.status_code == status, came.text
            if status == 200:
                me = (await browser.get("/api/me")).json()
                assert (me["name"], me["signed_in_by"]) == ("ann@example.org", "oidc")
                assert (await browser.get("/api/pages/a.md")).json()["writable"] is False
            else:
                assert (await browser.get("/api/me")).status_code == 401
            forged = await stranger.get("/login/back", params={"code": "code", "state": "x"})
            assert forged.status_code == 403
