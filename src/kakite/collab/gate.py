"""Who may come in: no page of a stranger, nobody unknown; and what browsers may do with our page.

A link with the token is changed for a cookie; programs send the token as ``Authorization: Bearer``. A proxy
that signs people in may name them in a header, if it comes from an address that was configured.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from kakite.collab.people import ALL, READING, Person, Right, rights_of
from kakite.serve.door import LOOKING, bearer, cookie, is_same, is_same_page
from kakite.serve.gate import Gate as Names

OPEN = frozenset(("/health", "/app.css"))
"""What anybody may ask for who reaches the server: neither tells of any page."""

COOKIE_AGE = 30 * 24 * 3600
"""Seconds for which a browser is known."""

Address = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """A reverse proxy that signs people in."""

    header: str
    """Lower case; holds the person's name."""
    addresses: tuple[Address, ...]
    """From where it comes. From anywhere else the header says nothing."""

    def names(self, client: str, headers: Mapping[str, str]) -> str:
        """Return who the proxy says it is; empty if it is no proxy of ours, or says nothing."""
        try:
            address = ipaddress.ip_address(client)
        except ValueError:
            return ""
        known = any(address in each for each in self.addresses)
        return headers.get(self.header, "").strip() if known else ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why somebody is not let in."""

    status: int
    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """What a request must bring."""

    host: str
    """The name or address that the server listens on."""
    port: int
    token: str = field(repr=False)
    origins: tuple[str, ...] = ()
    """Further addresses that people reach the server by, as ``https://notes.example.org``."""
    is_shared: bool = False
    """Whether other processes serve the same pages: then a cookie of one opens all."""
    proxy: Proxy | None = None
    rights: Mapping[str, Mapping[str, Right]] = field(default_factory=dict[str, Mapping[str, Right]])
    """By people's names, ``*`` for all others, then by patterns of pages. Only of people with names."""

    @property
    def cookie(self) -> str:
        """The name of the cookie: browsers do not tell ports apart, so each server has its own."""
        return f"kakite-collab-{self._place}"

    @property
    def reading_token(self) -> str:
        """A token with which pages can only be read."""
        return hmac.new(self.token.encode(), b"kakite collab read", hashlib.sha256).hexdigest()[:32]

    @property
    def is_public(self) -> bool:
        """Whether people reach the server by an address that is encrypted."""
        return any(origin.startswith("https://") for origin in self.origins)

    def by_token(self, token: str) -> Right | None:
        """Return what this token lets one do; None if it is none of ours."""
        if is_same(token, self.token):
            return "write"
        return "read" if is_same(token, self.reading_token) else None

    def credentials(self, person: Person, address: str) -> dict[str, str]:
        """Return the headers with which a process asks another, at this address, in the name of a person."""
        if person.signed_in_by == "token":
            token = self.token if person.rights == ALL else self.reading_token
            return {"Authorization": f"Bearer {token}"}
        kind = "oidc"
        if person.signed_in_by == "link":
            kind = "write" if person.rights == ALL else "read"
        parts = urlsplit(address)
        value = f"{self.cookie}={self.pass_of(kind, person.name)}"
        return {"Cookie": value, "Origin": f"{parts.scheme}://{parts.netloc}"}

    def pass_of(self, kind: str, name: str) -> str:
        """Return a cookie's value for somebody: whoever has it is known without the token."""
        body = f"{kind}.{name.encode().hex()}"
        return f"{body}.{self._seal(body)}"

    def enter(
        self, method: str, headers: Mapping[str, str], client: str, *, is_socket: bool = False
    ) -> Person | Refusal:
        """Let somebody in, or tell why not. Header names are lower case."""
        if refusal := self.misled(headers):
            return refusal
        if person := self._by_header(headers):
            return person
        person = self._by_proxy(headers, client) or self._by_cookie(headers)
        if person is None:
            return Refusal(401, "not_signed_in", "open the link that the server printed, or send its token")
        if (method not in LOOKING or is_socket) and not is_same_page(headers, self.origins):
            return Refusal(403, "foreign_page", "this may only be asked for by the page itself")
        return person

    def misled(self, headers: Mapping[str, str]) -> Refusal | None:
        """Tell why a request is not meant for us, or comes from a stranger's page."""
        if self._origin_is_public(headers):
            return None
        refused = Names(host=self.host).refusal(headers)
        return (
            Refusal(refused[0], "foreign_page" if refused[0] == 403 else "wrong_host", refused[1])
            if refused
            else None
        )

    def _origin_is_public(self, headers: Mapping[str, str]) -> bool:
        hosts = {urlsplit(origin).netloc for origin in self.origins}
        origin = headers.get("origin")
        return headers.get("host", "") in hosts and (origin is None or origin in self.origins)

    def _by_header(self, headers: Mapping[str, str]) -> Person | None:
        right = self.by_token(bearer(headers))
        if right is None:
            return None
        return Person(name="API", signed_in_by="token", rights=ALL if right == "write" else READING)

    def _by_proxy(self, headers: Mapping[str, str], client: str) -> Person | None:
        name = self.proxy.names(client, headers) if self.proxy is not None else ""
        return Person(name=name, signed_in_by="proxy", rights=rights_of(name, self.rights)) if name else None

    def _by_cookie(self, headers: Mapping[str, str]) -> Person | None:
        body, _, seal = cookie(headers, self.cookie).rpartition(".")
        if not is_same(seal, self._seal(body)):
            return None
        kind, _, encoded = body.partition(".")
        name = bytes.fromhex(encoded).decode()
        if kind == "oidc":
            return Person(name=name, signed_in_by="oidc", rights=rights_of(name, self.rights))
        return Person(name=name, signed_in_by="link", rights=ALL if kind == "write" else READING)

    @property
    def _place(self) -> str:
        """What tells this server from others of one address; those behind one proxy are the same."""
        if self.origins:
            return hashlib.sha256(self.origins[0].encode()).hexdigest()[:8]
        return "shared" if self.is_shared else str(self.port)

    def _seal(self, body: str) -> str:
        key = hashlib.sha256(f"kakite collab {self._place} {self.token}".encode()).digest()
        return hmac.new(key, body.encode(errors="replace"), hashlib.sha256).hexdigest()


_GUESTS = [
    "Avocet",
    "Bunting",
    "Curlew",
    "Dipper",
    "Egret",
    "Finch",
    "Godwit",
    "Heron",
    "Ibis",
    "Jay",
    "Kestrel",
    "Lark",
    "Martin",
    "Nuthatch",
    "Osprey",
    "Plover",
    "Quail",
    "Robin",
    "Siskin",
    "Teal",
    "Umbrette",
    "Veery",
    "Wagtail",
    "Xenops",
    "Yellowhammer",
    "Zebrafinch",
]


def guest() -> str:
    """Return a name for somebody whom nobody named: of 26 first letters, for a page has room for one only."""
    return f"{secrets.choice(_GUESTS)} {secrets.randbelow(90) + 10}"


def policy(host: str, nonce: str) -> str:
    """Return the content security policy of our page, reached by this ``Host``."""
    sockets = f" ws://{host} wss://{host}" if host and not set(host) - _HOST_SIGNS else ""
    style = f" 'nonce-{nonce}'" if nonce else ""
    return (
        f"default-src 'none'; script-src 'self'; style-src 'self'{style}; connect-src 'self'{sockets}; "
        "img-src 'self' data:; font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )


_HOST_SIGNS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:[]")


def networks(texts: Sequence[str]) -> tuple[Address, ...]:
    """Read addresses or networks.

    Raises:
        ValueError: one is none.
    """
    return tuple(ipaddress.ip_network(text, strict=False) for text in texts)
