"""Says which requests may go to a host, and puts a person's secrets into them on the way.

Programs inside know a sentinel, a random text as long as the secret. The proxy puts the secret in its place,
in requests to the hosts that it is for, and the sentinel in the secret's place in their answers. Pure:
headers and bytes in, headers and bytes out.
"""

from __future__ import annotations

import base64
import binascii
import re
import secrets
import string
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING
from urllib.parse import unquote

from kakite.errors import UsageError
from kakite.sandbox.egress.policy import Target, read_target

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MIN_SECRET = 8
"""Characters that a secret has at least: a shorter one would be found in answers that do not hold it."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_KIND = re.compile(r"[A-Za-z]{2,10}[_-]")
"""How secrets of some services begin. Their programs look for it, so that the sentinel begins alike."""
_METHODS = re.compile(r"\*|[A-Z]{1,20}(?:,[A-Z]{1,20})*")
_OVERRIDES = frozenset((b"x-http-method", b"x-http-method-override", b"x-method-override"))
"""Headers by which a server takes another method than that of the request."""
_HEADERS_OF_OURS = frozenset((b"accept-encoding",))
_HTTPS = 443

Headers = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRule:
    """Requests that may go to a host."""

    target: Target
    methods: frozenset[str]
    """In upper case; empty: any."""
    path: str
    """A pattern, in which ``*`` stands for any text."""

    def match(self, method: str, path: str) -> bool:
        """Tell whether such a request may go."""
        return (not self.methods or method in self.methods) and fnmatchcase(path, self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """A secret for some hosts."""

    name: str
    """Of the variable that holds it here, and the sentinel inside."""
    targets: frozenset[Target]
    secret: bytes = field(repr=False)
    sentinel: bytes


@dataclass(frozen=True, slots=True)
class Inspection:
    """What the proxy looks for in requests to the hosts whose TLS it ends, as a value."""

    credentials: tuple[Credential, ...] = ()
    rules: tuple[RequestRule, ...] = ()

    @property
    def targets(self) -> frozenset[Target]:
        """The hosts that are meant."""
        ours = (target for credential in self.credentials for target in credential.targets)
        return frozenset((*ours, *(rule.target for rule in self.rules)))

    @property
    def sentinels(self) -> Mapping[str, str]:
        """What programs inside find in the variables of the secrets."""
        return {credential.name: credential.sentinel.decode() for credential in self.credentials}

    def has_rules(self, host: str) -> bool:
        """Return whether only some requests may go to this host, whatever the port."""
        return any(rule.target.host == host for rule in self.rules)

    def find_refusal(self, target: Target, method: bytes, path: bytes) -> str:
        """Return why a request may not go to a host; empty if it may."""
        rules = [rule for rule in self.rules if rule.target == target]
        if not rules:
            return ""
        named = method.decode("ascii", errors="replace")
        plain = _decode_path(path)
        if plain is None:
            return f"the path of this {named} request to {target.host} can be read in two ways"
        if any(rule.match(named, plain) for rule in rules):
            return ""
        return f"{named} {plain} is not among the requests to {target.host} that the setting requests allows"

    def fill_in(self, target: Target, headers: Headers) -> Headers:
        """Return the headers of a request with the secrets in it that are for this host."""
        ours = self._get_credentials(target)
        ruled = any(rule.target == target for rule in self.rules)
        kept = [pair for pair in headers if not (ruled and pair[0].lower() in _OVERRIDES)]
        if not ours:
            return kept
        # A secret that comes back is found in plain answers alone.
        kept = [pair for pair in kept if pair[0].lower() not in _HEADERS_OF_OURS]
        return [
            *((name, _fill_in_value(value, ours)) for name, value in kept),
            (b"Accept-Encoding", b"identity"),
        ]

    def fill_in_path(self, target: Target, path: bytes) -> bytes:
        """Return what is asked of a host with the secrets in its query that are for this host."""
        place, mark, query = path.partition(b"?")
        return place + mark + _replace(query, self._get_credentials(target))

    def create_mask(self, target: Target) -> Mask:
        """Return what hides the secrets in an answer of this host."""
        return Mask(self._get_credentials(target))

    def _get_credentials(self, target: Target) -> tuple[Credential, ...]:
        return tuple(each for each in self.credentials if target in each.targets)


class Mask:
    """Puts sentinels in the place of secrets in the pieces of an answer. Both are equally long."""

    def __init__(self, credentials: Sequence[Credential]) -> None:
        self._credentials = credentials
        self._held = b""
        self._longest = max((len(each.secret) for each in credentials), default=1)

    def hide(self, data: bytes) -> bytes:
        """Return the next piece, without its end, where a secret may begin."""
        whole = self.hide_text(self._held + bytes(data))
        cut = max(0, len(whole) - self._longest + 1)
        self._held = whole[cut:]
        return whole[:cut]

    def finish(self) -> bytes:
        """Return what is left."""
        held, self._held = self._held, b""
        return held

    def hide_headers(self, headers: Headers) -> Headers:
        """Return the headers without secrets."""
        return [(name, self.hide_text(value)) for name, value in headers]

    def hide_text(self, data: bytes) -> bytes:
        """Return a whole text without secrets."""
        for each in self._credentials:
            data = data.replace(each.secret, each.sentinel)
        return data


def build_inspection(
    credentials: Mapping[str, Sequence[str]], requests: Iterable[str], environ: Mapping[str, str]
) -> Inspection:
    """Return what to look for, with the secrets from the environment.

    Raises:
        UsageError: what is set makes no sense, code ``bad_credential`` or ``bad_request_rule``; or a secret
            is not there, code ``credential_missing``, or not fit to be one, code ``bad_credential``.
    """
    rules = tuple(parse_request_rule(text) for text in requests)
    found = [_read_credential(name, hosts, environ) for name, hosts in credentials.items()]
    # The longest first: one secret may be a part of another.
    return Inspection(tuple(sorted(found, key=lambda each: -len(each.secret))), rules)


def check_credentials(credentials: Mapping[str, Sequence[str]]) -> None:
    """Make sure that names and hosts are such.

    Raises:
        UsageError: code ``bad_credential``.
    """
    for name, hosts in credentials.items():
        if not _NAME.fullmatch(name):
            raise UsageError(
                "the name of a credential is no name of a variable",
                hint="write the name of the variable that holds it, and never the secret itself",
                code="bad_credential",
            )
        if not hosts:
            raise UsageError(
                f"`{name}` has no host",
                hint=f"name the hosts that it is for: `{name}: [api.example.com]`",
                code="bad_credential",
            )
        for host in hosts:
            _read_credential_target(name, host)


def parse_request_rule(text: str) -> RequestRule:
    """Return the rule that ``[METHOD[,METHOD…] ]HOST[:PORT][/PATH]`` stands for.

    Raises:
        UsageError: it is none, code ``bad_request_rule``.
    """
    methods, _, rest = text.strip().rpartition(" ")
    methods = methods.strip() or "*"
    host, slash, path = rest.partition("/")
    target = read_target(host, _HTTPS)
    if target is None or not _METHODS.fullmatch(methods):
        raise UsageError(
            f"`{text}` is not a rule for requests",
            hint="write it as `HOST/PATH` or `GET,POST HOST/PATH`, without `https://`; in the path `*` is "
            "any text",
            code="bad_request_rule",
        )
    allowed = frozenset[str]() if methods == "*" else frozenset(methods.split(","))
    return RequestRule(target=target, methods=allowed, path=f"/{path}" if slash else "/*")


def _read_credential(name: str, hosts: Sequence[str], environ: Mapping[str, str]) -> Credential:
    check_credentials({name: hosts})
    secret = environ.get(name, "")
    if not secret:
        raise UsageError(
            f"the setting `credentials` names `{name}`, but this variable is not set",
            hint=f"set it where you start Kakite, or take `{name}` out of `credentials`",
            code="credential_missing",
        )
    if len(secret) < MIN_SECRET or not secret.isascii() or not secret.isprintable() or " " in secret:
        raise UsageError(
            f"what `{name}` holds cannot be a credential",
            hint=f"it needs at least {MIN_SECRET} characters, all of them ASCII, without blanks",
            code="bad_credential",
        )
    return Credential(
        name=name,
        targets=frozenset(_read_credential_target(name, host) for host in hosts),
        secret=secret.encode(),
        sentinel=_create_sentinel(secret).encode(),
    )


def _read_credential_target(name: str, host: str) -> Target:
    target = read_target(host.strip(), _HTTPS)
    if target is None:
        raise UsageError(
            f"`{name}` is for `{host}`, which is not a host",
            hint="name each host in full, as `name` or `name:port`, without `https://` and without a path",
            code="bad_credential",
        )
    return target


def _create_sentinel(secret: str) -> str:
    kind = _KIND.match(secret)
    begin = kind[0] if kind and len(secret) - len(kind[0]) >= MIN_SECRET else ""
    letters = string.ascii_letters + string.digits
    return begin + "".join(secrets.choice(letters) for _ in range(len(secret) - len(begin)))


def _fill_in_value(value: bytes, credentials: Sequence[Credential]) -> bytes:
    scheme, blank, rest = value.partition(b" ")
    if scheme.lower() == b"basic" and blank:
        try:
            plain = base64.b64decode(rest.strip(), validate=True)
        except (binascii.Error, ValueError):
            return value
        filled = _replace(plain, credentials)
        return value if filled == plain else scheme + blank + base64.b64encode(filled)
    return _replace(value, credentials)


def _replace(data: bytes, credentials: Sequence[Credential]) -> bytes:
    for each in credentials:
        data = data.replace(each.sentinel, each.secret)
    return data


def _decode_path(path: bytes) -> str | None:
    """Return the path as a server reads it; None if servers would read it in different ways."""
    raw = path.partition(b"?")[0].decode("ascii", errors="replace")
    plain = unquote(raw, errors="replace")
    segments = plain.split("/")
    twice = unquote(plain) != plain
    hidden_slash = plain.count("/") != raw.count("/")
    odd = (
        any(segment in {".", ".."} or ";" in segment for segment in segments)
        or "\\" in plain
        or "//" in plain
    )
    return None if twice or hidden_slash or odd else plain
