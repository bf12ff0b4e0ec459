"""Decides who may come in, what they may do with which document, and what a browser may do with our page.

A link with the token is exchanged for a cookie; programs send the token as ``Authorization: Bearer``. A proxy
that signs people in may name them in a header, if it connects from an address that was configured.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal, get_args
from urllib.parse import urlsplit

from kakite.http.security import (
    SAFE_METHODS,
    TransportSecurity,
    get_bearer_token,
    get_cookie,
    is_same_origin,
    is_same_secret,
)

AccessLevel = Literal["none", "read", "write"]
"""What somebody may do with a page; the later ones hold the earlier."""

ACCESS_LEVELS: tuple[AccessLevel, ...] = get_args(AccessLevel)
WILDCARD = "*"
"""Stands for every name, and every page."""

_COLORS = ("#30bced", "#6eeb83", "#ffbc42", "#e5566d", "#8acb88", "#1be7ff", "#a06cd5", "#ee6352", "#3d9970")


@dataclass(frozen=True, slots=True, kw_only=True)
class Permissions:
    """A person's permissions: of the patterns that a page's name fits, the longest decides."""

    pages: tuple[tuple[str, AccessLevel], ...] = ((WILDCARD, "write"),)

    def get_level(self, page: str) -> AccessLevel:
        """Return what may be done with this page."""
        longest, found = -1, ACCESS_LEVELS[0]
        for pattern, right in self.pages:
            if len(pattern) > longest and _matches_pattern(page, pattern):
                longest, found = len(pattern), right
        return found

    def is_allowed(self, page: str, right: AccessLevel) -> bool:
        """Tell whether so much may be done with this page."""
        return ACCESS_LEVELS.index(self.get_level(page)) >= ACCESS_LEVELS.index(right)

    @property
    def highest_level(self) -> AccessLevel:
        """The most that may be done with any page."""
        given = [right for _, right in self.pages]
        return ACCESS_LEVELS[max((ACCESS_LEVELS.index(right) for right in given), default=0)]


FULL_ACCESS = Permissions()
READ_ONLY = Permissions(pages=((WILDCARD, "read"),))


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """Somebody who was let in."""

    name: str
    signed_in_by: Literal["link", "token", "proxy", "oidc"]
    rights: Permissions = field(default_factory=Permissions)

    @property
    def color(self) -> str:
        """The colour of their cursor: always the same for one name."""
        return _COLORS[hashlib.sha256(self.name.encode(errors="replace")).digest()[0] % len(_COLORS)]


def resolve_permissions(name: str, told: Mapping[str, Mapping[str, AccessLevel]]) -> Permissions:
    """Return the rights of a person by settings: theirs, or else everybody's, or else all."""
    if not told:
        return FULL_ACCESS
    own = told.get(name, told.get(WILDCARD, {}))
    return Permissions(pages=tuple(own.items()))


def _matches_pattern(page: str, pattern: str) -> bool:
    return pattern == WILDCARD or fnmatchcase(page, pattern) or page.startswith(f"{pattern.rstrip('/')}/")


PUBLIC_PATHS = frozenset(("/health", "/app.css"))
"""What anybody may ask for who reaches the server: neither tells of any page."""

COOKIE_AGE = 30 * 24 * 3600
"""Seconds for which a browser is known."""

IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedProxy:
    """A reverse proxy that signs people in."""

    header: str
    """Lower case; holds the person's name."""
    addresses: tuple[IpNetwork, ...]
    """From where it comes. From anywhere else the header says nothing."""

    def find_user_name(self, client: str, headers: Mapping[str, str]) -> str:
        """Return who the proxy says it is; empty if it is no proxy of ours, or says nothing."""
        try:
            address = ipaddress.ip_address(client)
        except ValueError:
            return ""
        known = any(address in each for each in self.addresses)
        return headers.get(self.header, "").strip() if known else ""


@dataclass(frozen=True, slots=True)
class Denial:
    """The reason why somebody is not let in."""

    status: int
    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthPolicy:
    """The checks that a request must pass."""

    host: str
    """The name or address that the server listens on."""
    port: int
    token: str = field(repr=False)
    origins: tuple[str, ...] = ()
    """Further addresses that people reach the server by, as ``https://notes.example.org``."""
    is_shared: bool = False
    """Whether other processes serve the same pages: then a cookie of one opens all."""
    proxy: TrustedProxy | None = None
    rights: Mapping[str, Mapping[str, AccessLevel]] = field(
        default_factory=dict[str, Mapping[str, AccessLevel]]
    )
    """By people's names, ``*`` for all others, then by patterns of pages. Only of people with names."""

    @property
    def cookie(self) -> str:
        """The name of the cookie: browsers do not tell ports apart, so each server has its own."""
        return f"kakite-collab-{self._instance_id}"

    @property
    def reading_token(self) -> str:
        """A token with which pages can only be read."""
        return hmac.new(self.token.encode(), b"kakite collab read", hashlib.sha256).hexdigest()[:32]

    @property
    def is_public(self) -> bool:
        """Whether people reach the server by an address that is encrypted."""
        return any(origin.startswith("https://") for origin in self.origins)

    def check_token(self, token: str) -> AccessLevel | None:
        """Return what this token lets one do; None if it is none of ours."""
        if is_same_secret(token, self.token):
            return "write"
        return "read" if is_same_secret(token, self.reading_token) else None

    def build_credentials(self, person: User, address: str) -> dict[str, str]:
        """Return the headers with which a process asks another, at this address, in the name of a person."""
        if person.signed_in_by == "token":
            token = self.token if person.rights == FULL_ACCESS else self.reading_token
            return {"Authorization": f"Bearer {token}"}
        kind = "oidc"
        if person.signed_in_by == "link":
            kind = "write" if person.rights == FULL_ACCESS else "read"
        parts = urlsplit(address)
        value = f"{self.cookie}={self.sign_cookie(kind, person.name)}"
        return {"Cookie": value, "Origin": f"{parts.scheme}://{parts.netloc}"}

    def sign_cookie(self, kind: str, name: str) -> str:
        """Return a cookie's value for somebody: whoever has it is known without the token."""
        body = f"{kind}.{name.encode().hex()}"
        return f"{body}.{self._sign(body)}"

    def authenticate(
        self, method: str, headers: Mapping[str, str], client: str, *, is_socket: bool = False
    ) -> User | Denial:
        """Let somebody in, or tell why not. Header names are lower case."""
        if refusal := self.check_origin(headers):
            return refusal
        if person := self._authenticate_header(headers):
            return person
        person = self._authenticate_proxy(headers, client) or self._authenticate_cookie(headers)
        if person is None:
            return Denial(401, "not_signed_in", "open the link that the server printed, or send its token")
        if (method not in SAFE_METHODS or is_socket) and not is_same_origin(headers, self.origins):
            return Denial(403, "foreign_page", "this may only be asked for by the page itself")
        return person

    def check_origin(self, headers: Mapping[str, str]) -> Denial | None:
        """Tell why a request is not meant for us, or comes from a stranger's page."""
        if self._is_public_origin(headers):
            return None
        refused = TransportSecurity(host=self.host).find_refusal(headers)
        return (
            Denial(refused[0], "foreign_page" if refused[0] == 403 else "wrong_host", refused[1])
            if refused
            else None
        )

    def _is_public_origin(self, headers: Mapping[str, str]) -> bool:
        hosts = {urlsplit(origin).netloc for origin in self.origins}
        origin = headers.get("origin")
        return headers.get("host", "") in hosts and (origin is None or origin in self.origins)

    def _authenticate_header(self, headers: Mapping[str, str]) -> User | None:
        right = self.check_token(get_bearer_token(headers))
        if right is None:
            return None
        return User(name="API", signed_in_by="token", rights=FULL_ACCESS if right == "write" else READ_ONLY)

    def _authenticate_proxy(self, headers: Mapping[str, str], client: str) -> User | None:
        name = self.proxy.find_user_name(client, headers) if self.proxy is not None else ""
        return (
            User(name=name, signed_in_by="proxy", rights=resolve_permissions(name, self.rights))
            if name
            else None
        )

    def _authenticate_cookie(self, headers: Mapping[str, str]) -> User | None:
        body, _, seal = get_cookie(headers, self.cookie).rpartition(".")
        if not is_same_secret(seal, self._sign(body)):
            return None
        kind, _, encoded = body.partition(".")
        name = bytes.fromhex(encoded).decode()
        if kind == "oidc":
            return User(name=name, signed_in_by="oidc", rights=resolve_permissions(name, self.rights))
        return User(name=name, signed_in_by="link", rights=FULL_ACCESS if kind == "write" else READ_ONLY)

    @property
    def _instance_id(self) -> str:
        """The id that tells this server from others of one address; those behind one proxy are the same."""
        if self.origins:
            return hashlib.sha256(self.origins[0].encode()).hexdigest()[:8]
        return "shared" if self.is_shared else str(self.port)

    def _sign(self, body: str) -> str:
        key = hashlib.sha256(f"kakite collab {self._instance_id} {self.token}".encode()).digest()
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


def create_guest_name() -> str:
    """Return a name for somebody whom nobody named: of 26 first letters, for a page has room for one only."""
    return f"{secrets.choice(_GUESTS)} {secrets.randbelow(90) + 10}"


def build_csp(host: str, nonce: str) -> str:
    """Return the content security policy of our page, reached by this ``Host``."""
    sockets = f" ws://{host} wss://{host}" if host and not set(host) - _HOST_SIGNS else ""
    style = f" 'nonce-{nonce}'" if nonce else ""
    return (
        f"default-src 'none'; script-src 'self'; style-src 'self'{style}; connect-src 'self'{sockets}; "
        "img-src 'self' data:; font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )


_HOST_SIGNS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:[]")


def parse_networks(texts: Sequence[str]) -> tuple[IpNetwork, ...]:
    """Read addresses or networks.

    Raises:
        ValueError: one is none.
    """
    return tuple(ipaddress.ip_network(text, strict=False) for text in texts)
