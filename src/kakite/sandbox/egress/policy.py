"""Decides which hosts and addresses programs may reach. Pure: names and addresses in, a verdict out.

A host is judged twice: by its name, before anybody is asked for its address, and by each address that the
name has. Only an address that was judged is connected to: a name that changes its address gains nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING

from kakite.errors import UsageError
from kakite.sandbox.egress.registries import REGISTRY_HOSTS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kakite.sandbox.spec import Network

IPAddress = IPv4Address | IPv6Address

WEB_PORTS = frozenset((80, 443))
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_NUMERIC = re.compile(r"[0-9]+|0x[0-9a-f]*")

_NOT_PUBLIC = tuple(
    map(
        IPv4Network,
        (
            *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
            *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15"),
            *("198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
            "168.63.129.16/32",  # what virtual machines at Azure are told their secrets by
        ),
    )
)
_PRIVATE = tuple(map(IPv4Network, ("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16")))
_GLOBAL_6 = IPv6Network("2000::/3")
_NOT_PUBLIC_6 = tuple(
    map(
        IPv6Network,
        # Teredo (in the first) and 6to4 carry any IPv4 address past the rules for those.
        ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"),
    )
)
_PRIVATE_6 = IPv6Network("fc00::/7")
_METADATA_6 = IPv6Network("fd00:ec2::/32")
_NAT64 = IPv6Network("64:ff9b::/96")
_METADATA_NAMES = frozenset(("metadata.google.internal", "metadata.goog", "instance-data"))


class AddressScope(IntEnum):
    """The nearness that an address may have; each allows what the one before does."""

    PUBLIC = 0
    PRIVATE = 1
    """Besides, the private ranges: a company's own mirror."""
    LOOPBACK = 2
    """Besides, the machine that Kakite runs on: only for a host that the person named by itself."""
    ANY = 3
    """Whatever it is: only for an address that the person named as such."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A host and a port, in the one form in which they are judged and connected to."""

    host: str
    """In lower case, without a dot at the end; an IPv6 address without its brackets."""
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedHost:
    """A host that may be tried."""

    trust: AddressScope
    only_tls: bool = False
    """Whether through a tunnel nothing but TLS for this very name may be said to it. Behind one address of a
    content network are many hosts, and the greeting, not the address, tells it which one is meant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeniedHost:
    """A host that may not be reached, and why, for whoever reads what a package manager says."""

    reason: str
    askable: bool = False
    """Whether the person may allow it when asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _HostPattern:
    name: str
    below: bool = False
    port: int | None = None

    def match(self, target: Target) -> bool:
        if target.port != self.port if self.port else target.port not in WEB_PORTS:
            return False
        return target.host.endswith("." + self.name) if self.below else target.host == self.name

    @property
    def trust(self) -> AddressScope:
        if self.below:
            return AddressScope.PRIVATE
        return AddressScope.LOOPBACK if parse_address(self.name) is None else AddressScope.ANY


@dataclass(frozen=True, slots=True)
class EgressPolicy:
    """The rules for what may be reached with which network, as a value."""

    named: tuple[_HostPattern, ...]
    registries: tuple[_HostPattern, ...]

    def evaluate(self, network: Network, target: Target) -> AllowedHost | DeniedHost:
        """Tell whether this host may be tried by programs with this network."""
        if network == "off":
            return DeniedHost(
                reason=f"{target.host}: no program with a network runs; see the setting network"
            )
        if named := [pattern for pattern in self.named if pattern.match(target)]:
            only_tls = network == "registries" and not any(pattern.port for pattern in named)
            return AllowedHost(trust=max(pattern.trust for pattern in named), only_tls=only_tls)
        if target.host in _METADATA_NAMES:
            return DeniedHost(reason=f"{target.host} gives out the machine's secrets, so Kakite blocks it")
        if target.port not in WEB_PORTS:
            return DeniedHost(reason=_describe_closed_port(target), askable=_is_askable(target))
        if any(pattern.match(target) for pattern in self.registries):
            return AllowedHost(trust=AddressScope.PUBLIC, only_tls=network == "registries")
        if network == "open":
            return AllowedHost(trust=AddressScope.PUBLIC)
        reason = f"{target.host} is not a package registry; the setting hosts allows it"
        return DeniedHost(reason=reason, askable=_is_askable(target))


def _is_askable(target: Target) -> bool:
    """Return whether a yes would do: an address that is not public has to be named by a setting."""
    address = parse_address(target.host)
    return address is None or classify_address(address) is AddressScope.PUBLIC


def _describe_closed_port(target: Target) -> str:
    return f"port {target.port} is closed; the setting hosts allows it as {target}"


def build_policy(hosts: Iterable[str] = (), *, registries: bool = True) -> EgressPolicy:
    """Return the rules with these hosts allowed besides the registries, or without those.

    Each is ``name``, ``*.name`` for all below it, or an address; ``:port`` behind it allows that port in
    place of 80 and 443.

    Raises:
        UsageError: one of them is no host, code ``bad_host``.
    """
    named = tuple(_read(host) for host in hosts)
    return EgressPolicy(named, tuple(map(_read, REGISTRY_HOSTS if registries else ())))


def _read(text: str) -> _HostPattern:
    name = text.strip()
    below = name.startswith("*.")
    name = name.removeprefix("*.")
    if parse_address(name) is None:
        try:
            name = name.encode("idna").decode("ascii") if not name.isascii() else name
        except UnicodeError:
            name = ""
    literal = f"[{name}]" if ":" in name and parse_address(name) else name
    target = read_target(literal, None)
    if target is None or (below and parse_address(target.host)):
        raise UsageError(
            f"`{text}` is not a host",
            hint="name it as `name`, `*.name` or `name:port`, without `https://` and without a path",
            code="bad_host",
        )
    return _HostPattern(name=target.host, below=below, port=target.port or None)


def read_target(authority: str, port: int | None) -> Target | None:
    """Return the host and port of ``host[:port]``; None if it is no such thing, or is written in an odd way.

    ``port`` is what stands for one that is left out; with None it counts as 0. A name in numbers has to be an
    address as everybody writes it: ``127.1``, ``0x7f000001`` and ``2130706433`` mean loopback to some
    resolvers, and nothing to us.
    """
    host, colon, digits = authority.rpartition(":")
    if not colon or authority.endswith("]"):
        host, digits = authority, ""
    if colon and host != authority and not (digits.isascii() and digits.isdecimal() and len(digits) <= 5):
        return None
    number = int(digits) if digits else port or 0
    host = _read_host(host)
    if not host or not number <= 65535 or (digits and not number):
        return None
    return Target(host=host, port=number)


def _read_host(host: str) -> str:
    if host.startswith("[") and host.endswith("]"):
        inner = parse_address(host[1:-1])
        return str(inner) if inner and inner.version == 6 else ""
    name = host.lower().removesuffix(".")
    labels = name.split(".")
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        return ""
    return name if not _NUMERIC.fullmatch(labels[-1]) or parse_address(name) else ""


def parse_address(text: str) -> IPAddress | None:
    """Return the address that this is, in its usual notation and without a zone; None for a name."""
    if "%" in text:
        return None
    try:
        return ip_address(text)
    except ValueError:
        return None


def classify_address(address: IPAddress) -> AddressScope:
    """Return how much trust it takes to connect to this address."""
    if isinstance(address, IPv6Address):
        inner = _extract_ipv4(address)
        return classify_address(inner) if inner else _classify_ipv6(address)
    if not any(address in network for network in _NOT_PUBLIC):
        return AddressScope.PUBLIC
    if address == IPv4Address("100.100.100.200"):  # the metadata of Alibaba's cloud
        return AddressScope.ANY
    if any(address in network for network in _PRIVATE):
        return AddressScope.PRIVATE
    return AddressScope.LOOPBACK if address.is_loopback else AddressScope.ANY


def _classify_ipv6(address: IPv6Address) -> AddressScope:
    if address.is_loopback:
        return AddressScope.LOOPBACK
    if address in _PRIVATE_6:
        return AddressScope.ANY if address in _METADATA_6 else AddressScope.PRIVATE
    if address not in _GLOBAL_6 or any(address in network for network in _NOT_PUBLIC_6):
        return AddressScope.ANY
    # ISATAP: the last half of the address carries an IPv4 address.
    is_carrier = (int(address) >> 32) & 0xFDFFFFFF == 0x5EFE
    return AddressScope.ANY if is_carrier else AddressScope.PUBLIC


def _extract_ipv4(address: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address that packets to this one end up at."""
    if address.ipv4_mapped:
        return address.ipv4_mapped
    return IPv4Address(int(address) & 0xFFFFFFFF) if address in _NAT64 else None
