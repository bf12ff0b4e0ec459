"""A protected server and its authorization server on loopback, speaking the true wire format.

It holds to the letter what a client could get wrong: PKCE, the page that was registered, one use of a code,
and refresh tokens that are exchanged at each use (using an old one again ends them all).
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.bounds import WITHIN

Answer = tuple[int, dict[str, str], bytes]


@dataclass(frozen=True)
class Seen:
    """A request, as it came."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def form(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(self.body.decode()).items()}

    @property
    def query(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(urlsplit(self.target).query).items()}


Answerer = Callable[[Seen], Answer]


def always(answer: Answer) -> Answerer:
    return lambda _: answer


@dataclass
class Site:
    """What listens at one address, and everything that it was asked."""

    answer: Answerer
    url: str = ""
    seen: list[Seen] = field(default_factory=list[Seen])
    instead: dict[str, Answerer] = field(default_factory=dict[str, Answerer])
    """By path: what is answered in place of the truth."""

    def asked(self, path: str) -> list[Seen]:
        return [seen for seen in self.seen if seen.path == path]


def told(status: int, content: Any, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return status, {"Content-Type": "application/json", **named}, json.dumps(content).encode()


@contextmanager
def listening(site: Site) -> Generator[Site]:
    class Listener(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            seen = Seen(self.command, self.path, headers, self.rfile.read(length))
            site.seen.append(seen)
            status, fields, body = site.instead.get(seen.path, site.answer)(seen)
            self.send_response(status)
            for name, value in {**fields, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = _answer  # noqa: N815 - the library's names

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Listener)
    server.daemon_threads = True
    site.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join(WITHIN)


def answered(message: dict[str, Any]) -> dict[str, Any] | None:
    """Return what a server of the older era says to a message; None to a notification."""
    if "id" not in message:
        return None
    info = {"name": "there", "version": "1"}
    results: dict[str, Any] = {
        "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info},
        "tools/list": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": "here"}]},
    }
    told = {"jsonrpc": "2.0", "id": message["id"]}
    if message["method"] not in results:
        return {**told, "error": {"code": -32601, "message": "Method not found"}}
    return {**told, "result": results[message["method"]]}


class Authority:
    """Who gives tokens, and the server that wants them at ``/mcp``."""

    def __init__(self) -> None:
        self.issuer = Site(self._issue)
        self.server = Site(self._serve)
        self.lifetime: int | None = 3600
        self.scope = "read"
        """What the server wants."""
        self.metadata: dict[str, Any] = {}
        """What is told besides, or instead."""
        self.clients: dict[str, dict[str, Any]] = {}
        self.codes: dict[str, dict[str, str]] = {}
        self.access: dict[str, str] = {}
        """Tokens that are good, with their scopes."""
        self.refresh: dict[str, dict[str, str]] = {}
        self.secrets: set[str] = set()
        """Everything that must never be seen in an error, a log or a trace."""
        self._guard = threading.Lock()

    @property
    def url(self) -> str:
        return f"{self.server.url}/mcp"

    def secret(self, kind: str) -> str:
        made = f"{kind}-{secrets.token_hex(12)}"
        self.secrets.add(made)
        return made

    def _serve(self, seen: Seen) -> Answer:
        if seen.path == "/.well-known/oauth-protected-resource/mcp":
            return told(200, {"resource": self.url, "authorization_servers": [self.issuer.url]})
        token = seen.headers.get("authorization", "").removeprefix("Bearer ")
        where = f'resource_metadata="{self.server.url}/.well-known/oauth-protected-resource/mcp"'
        if token not in self.access:
            return told(401, {}, WWW_Authenticate=f'Bearer {where}, scope="{self.scope}"')
        if not set(self.scope.split()) <= set(self.access[token].split()):
            challenge = f'Bearer error="insufficient_scope", scope="{self.scope}", {where}'
            return told(403, {}, WWW_Authenticate=challenge)
        message = json.loads(seen.body or b"{}")
        if "method" not in message:
            return told(200, {"scope": self.access[token]})
        answer = answered(message)
        return told(200, answer) if answer else (202, {}, b"")

    def _issue(self, seen: Seen) -> Answer:
        match seen.path:
            case "/.well-known/oauth-authorization-server":
                return told(200, self._described())
            case "/register":
                return self._register(json.loads(seen.body))
            case "/authorize":
                return self._authorize(seen.query)
            case "/token":
                with self._guard:
                    return self._exchange(seen)
            case _:
                return told(404, {})

    def _described(self) -> dict[str, Any]:
        url = self.issuer.url
        return {
            "issuer": url,
            "authorization_endpoint": f"{url}/authorize",
            "token_endpoint": f"{url}/token",
            "registration_endpoint": f"{url}/register",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
            **self.metadata,
        }

    def _register(self, wanted: dict[str, Any]) -> Answer:
        client = {
            "client_id": f"client-{len(self.clients)}",
            "client_secret": self.secret("secret"),
            "token_endpoint_auth_method": "client_secret_post",
            **{name: value for name, value in wanted.items() if name != "token_endpoint_auth_method"},
        }
        self.clients[client["client_id"]] = client
        return told(201, client)

    def _authorize(self, query: dict[str, str]) -> Answer:
        client = self.clients.get(query["client_id"])
        if client is None or query["redirect_uri"] not in client["redirect_uris"]:
            return 400, {}, b"unknown client or address"  # as they do: nobody is sent anywhere
        code = self.secret("code")
        self.codes[code] = query
        brought = {"code": code, "state": query["state"], "iss": self.issuer.url}
        return 302, {"Location": f"{query['redirect_uri']}?{urlencode(brought)}"}, b""

    def _exchange(self, seen: Seen) -> Answer:
        form = seen.form
        client = self.clients.get(form.get("client_id", ""))
        if client is None or form.get("client_secret") != client["client_secret"]:
            return told(401, {"error": "invalid_client", "error_description": form.get("client_secret")})
        if form["grant_type"] == "refresh_token":
            return self._renew(form)
        asked = self.codes.pop(form["code"], None)
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        right = asked and asked["code_challenge"] == challenge
        if not asked or not right or asked["redirect_uri"] != form["redirect_uri"]:
            return told(400, {"error": "invalid_grant", "error_description": form["code"]})
        return self._tokens(asked.get("scope", ""), form["client_id"])

    def _renew(self, form: dict[str, str]) -> Answer:
        known = self.refresh.pop(form["refresh_token"], None)
        if known is None or known["client"] != form["client_id"]:
            self.refresh.clear()
            self.access.clear()
            return told(400, {"error": "invalid_grant", "error_description": form["refresh_token"]})
        return self._tokens(known["scope"], form["client_id"])

    def _tokens(self, scope: str, client: str) -> Answer:
        access, refresh = self.secret("access"), self.secret("refresh")
        self.access[access] = scope
        self.refresh[refresh] = {"scope": scope, "client": client}
        tokens = {"access_token": access, "refresh_token": refresh, "token_type": "Bearer", "scope": scope}
        return told(200, tokens if self.lifetime is None else {**tokens, "expires_in": self.lifetime})


@contextmanager
def running() -> Generator[Authority]:
    authority = Authority()
    with listening(authority.issuer), listening(authority.server):
        yield authority
