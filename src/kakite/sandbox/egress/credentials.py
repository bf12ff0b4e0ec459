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
import unicodedata
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

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
_OVERRIDES = frozenset(
    (
        *(b"x-http-method", b"x-http-method-override", b"x-method-override", b"x-method"),
        *(b"x-original-method", b"x-forwarded-method", b"x-original-url", b"x-original-uri"),
        *(b"x-rewrite-url", b"x-forwarded-uri", b"x-forwarded-prefix"),
    )
)
"""Headers by which a server takes another method or path than that of the request."""
_FORMS = frozenset(
    (
        *(b"accept-encoding", b"range", b"if-range", b"request-range"),
        *(b"x-ms-range", b"x-amz-range", b"x-goog-range"),
    )
)
"""Headers by which a program would get an answer in a form, or in pieces, in which no secret is found."""
_RESERVED = re.compile(r"(?i:KAKITE_.*|LD_.*|DYLD_.*|PYTHON.*|(?:HTTPS?|NO|ALL)_PROXY|NODE_OPTIONS|.*_CA_.*)")
_RESERVED_NAMES = frozenset(("PATH", "HOME", "SHELL", "IFS", "ENV", "TMPDIR", "PIP_CERT", "SSL_CERT_FILE"))
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
        if self.methods and method not in self.methods:
            return False
        return re.fullmatch(".*".join(map(re.escape, self.path.split("*"))), path, re.DOTALL) is not None


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

    def is_closed(self, target: Target) -> bool:
        """Return whether rules are for this host, and none of them for this port."""
        ports = {rule.target.port for rule in self.rules if rule.target.host == target.host}
        return bool(ports) and target.port not in ports

    def find_refusal(self, target: Target, method: bytes, path: bytes) -> str:
        """Return why a request may not go to a host; empty if it may."""
        rules = [rule for rule in self.rules if rule.target == target]
        if not rules:
            return ""
        named = method.decode("ascii", errors="replace")
        plain = _decode_path(path)
        if plain is None:
            return f"the address of this {named} request to {target.host} can be read in two ways"
        if any(rule.match(named, plain) for rule in rules):
            return ""
        return f"{named} {plain} is not among the requests to {target.host} that the setting requests allows"

    def fill_in(self, target: Target, path: bytes, headers: Headers) -> tuple[bytes, Headers, Mask]:
        """Return what is asked of a host with the secrets for it, and what hides them in its answer."""
        ours = self._get_credentials(target)
        ruled = any(rule.target == target for rule in self.rules)
        left_out = (_OVERRIDES if ruled else frozenset[bytes]()) | (_FORMS if ours else frozenset[bytes]())
        # Some servers read `A_B` as `A-B`.
        kept = [pair for pair in headers if pair[0].lower().replace(b"_", b"-") not in left_out]
        if not ours:
            return path, kept, Mask({})
        filled = [(name, _fill_in_value(value, ours)) for name, value in kept]
        hidden = {each.secret: each.sentinel for each in ours}
        for each in ours:
            encoded = quote(each.secret, safe="").encode()
            hidden[encoded] = (each.sentinel * 3)[: len(encoded)]
        for (_, given), (_, sent) in zip(kept, filled, strict=True):
            if (form := _get_basic(sent)) and sent != given:
                hidden[form] = _get_basic(given)
        place, mark, query = path.partition(b"?")
        asked = place + mark + _replace(query, ours, encoded=True)
        return asked, [*filled, (b"Accept-Encoding", b"identity")], Mask(hidden)

    def _get_credentials(self, target: Target) -> tuple[Credential, ...]:
        return tuple(each for each in self.credentials if target in each.targets)


class Mask:
    """Puts other texts in the place of secrets in the pieces of an answer. Both are equally long."""

    def __init__(self, hidden: Mapping[bytes, bytes]) -> None:
        self._hidden = hidden
        found = sorted(hidden, key=len, reverse=True)  # one secret may begin with another
        self._pattern = re.compile(b"|".join(map(re.escape, found))) if found else None
        self._longest = len(found[0]) if found else 1
        self._held = b""

    def hide(self, data: bytes) -> bytes:
        """Return the next piece, without its end, where a secret may begin."""
        whole = self._held + bytes(data)
        end = max(0, len(whole) - self._longest + 1)
        told, at = list[bytes](), 0
        for found in self._pattern.finditer(whole) if self._pattern else ():
            if found.start() >= end:
                break
            told += whole[at : found.start()], self._hidden[found[0]]
            at = found.end()
        end = max(end, at)
        self._held = whole[end:]
        return b"".join((*told, whole[at:end]))

    def finish(self) -> bytes:
        """Return what is left."""
        held, self._held = self._held, b""
        return self.hide_text(held)

    def hide_headers(self, headers: Headers) -> Headers:
        """Return the headers without secrets."""
        return [(self.hide_text(name), self.hide_text(value)) for name, value in headers]

    def hide_text(self, data: bytes) -> bytes:
        """Return a whole text without secrets."""
        return self._pattern.sub(lambda found: self._hidden[found[0]], bytes(data)) if self._pattern else data


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
        if not _NAME.fullmatch(name) or _RESERVED.fullmatch(name) or name.upper() in _RESERVED_NAMES:
            raise UsageError(
                "the name of a credential is no name of a variable, or of one that programs need",
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
    basic = _get_basic(value)
    if not basic:
        return _replace(value, credentials)
    try:
        plain = base64.b64decode(basic, validate=True)
    except (binascii.Error, ValueError):
        return value
    filled = _replace(plain, credentials)
    return value if filled == plain else b"Basic " + base64.b64encode(filled)


def _get_basic(value: bytes) -> bytes:
    """Return what is behind ``Basic`` in such a value; empty if it is another one."""
    scheme, _, rest = value.partition(b" ")
    return rest.strip() if scheme.lower() == b"basic" else b""


def _replace(data: bytes, credentials: Sequence[Credential], *, encoded: bool = False) -> bytes:
    for each in credentials:
        secret = quote(each.secret, safe="").encode() if encoded else each.secret
        data = data.replace(each.sentinel, secret)
    return data


def _decode_path(path: bytes) -> str | None:
    """Return the path as a server reads it; None if servers read it, or the query, in different ways."""
    raw, _, query = path.decode("ascii", errors="replace").partition("?")
    try:
        plain = unquote(raw, errors="strict")
    except UnicodeDecodeError:
        return None
    segments = plain.split("/")
    odd = (
        "#" in raw + query,
        "_method=" in unquote(query).lower(),
        "%u" in raw.lower() or unquote(plain) != plain,
        any(mark in plain for mark in ("\\", "//", ";", "#", "?")) or plain.count("/") != raw.count("/"),
        any(segment.strip().rstrip(".") != segment for segment in segments),
        not plain.isprintable() or unicodedata.normalize("NFKC", plain) != plain,
    )
    return None if any(odd) else plain
