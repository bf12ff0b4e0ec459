"""Connects to a host: resolves its addresses, checks them, and connects to one that was checked.

Where the person's own environment names a proxy, the connection goes through that, with its credentials,
which stay here: they are in no answer and no error.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, unquote, urlsplit

from kakite.sandbox.egress.policy import (
    AddressScope,
    AllowedHost,
    IPAddress,
    Target,
    classify_address,
    parse_address,
)

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter

Resolve = Callable[[str, int], Awaitable[Sequence[IPAddress]]]
"""Finds the addresses of a host, for a port. Raises OSError if there are none."""

_SETTINGS = frozenset(("http_proxy", "https_proxy", "all_proxy", "no_proxy"))
_EACH = 5.0  # s to try one address of several
_TOLD = {
    AddressScope.PRIVATE: "is at a private address",
    AddressScope.LOOPBACK: "is at an address of the machine itself",
    AddressScope.ANY: "is at an address that is not public",
}


class HostUnreachableError(Exception):  # an answer to the program, with its status
    """The host was not reached: ``status`` and ``reason`` are what the program is told."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class HostConnection:
    """A connection to a host."""

    reader: StreamReader
    writer: StreamWriter
    through_proxy: bool = False
    """Whether plain HTTP on it goes to a proxy, which wants the whole address of what is asked for."""
    authorization: str = field(default="", repr=False)
    """What that proxy wants in ``Proxy-Authorization``."""


class Connector:
    """Connects to hosts that were allowed."""

    def __init__(self, environ: Mapping[str, str], resolve: Resolve | None = None) -> None:
        # Sorted: of two spellings the one in lower case goes, as with curl.
        named = ((name.lower(), value) for name, value in sorted(environ.items()))
        self._settings = {name: value for name, value in named if value and name in _SETTINGS}
        self._pool: ThreadPoolExecutor | None = None
        self._resolve = resolve or self._ask_system

    def close(self) -> None:
        """Wait for no further answers."""
        if self._pool:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None

    async def connect(self, target: Target, allowed: AllowedHost, *, plain: bool = False) -> HostConnection:
        """Connect to a host, at an address that may be reached. ``plain`` if HTTP itself will be spoken.

        Raises:
            HostUnreachableError: the host has no address, none that may be reached, or does not answer.
        """
        upstream = None if self._is_bypassed(target) else self._find_proxy("http" if plain else "https")
        try:
            if upstream:
                await self._judge_if_known(target, allowed)
                return await _connect_through(upstream, target, plain=plain)
            return await self._connect_directly(target, allowed)
        except socket.gaierror as error:
            raise HostUnreachableError(502, f"{target.host}: the name has no address") from error
        except OSError as error:
            status = 504 if isinstance(error, TimeoutError) else 502
            raise HostUnreachableError(status, f"{target}: {_describe_error(error)}") from error

    async def _connect_directly(self, target: Target, allowed: AllowedHost) -> HostConnection:
        addresses = await self._resolve_allowed(target, allowed)
        failure: OSError = OSError("no answer")
        for address in addresses:
            try:
                async with asyncio.timeout(_EACH if len(addresses) > 1 else None):
                    reader, writer = await asyncio.open_connection(str(address), target.port)
            except OSError as error:  # TimeoutError is one
                failure = error
                continue
            _check_not_ourselves(target, allowed, writer)
            return HostConnection(reader=reader, writer=writer)
        raise failure

    async def _resolve_allowed(self, target: Target, allowed: AllowedHost) -> Sequence[IPAddress]:
        literal = parse_address(target.host)
        found = [literal] if literal else await self._resolve(target.host, target.port)
        good = [address for address in found if classify_address(address) <= allowed.trust]
        if not good:
            raise _build_refusal(target, min(map(classify_address, found), default=AddressScope.ANY))
        return good

    async def _judge_if_known(self, target: Target, allowed: AllowedHost) -> None:
        # Behind a company's proxy names of the outside often have no address here: the proxy finds them.
        with contextlib.suppress(socket.gaierror):
            await self._resolve_allowed(target, allowed)

    async def _ask_system(self, host: str, port: int) -> Sequence[IPAddress]:
        # Threads of its own: names that nobody answers for must not hold up the rest of Kakite.
        self._pool = self._pool or ThreadPoolExecutor(8, "kakite-names")
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(
            self._pool, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        )
        addresses = (parse_address(str(info[4][0]).partition("%")[0]) for info in found)
        return list(dict.fromkeys(address for address in addresses if address))

    def _find_proxy(self, scheme: str) -> SplitResult | None:
        address = self._settings.get(f"{scheme}_proxy") or self._settings.get("all_proxy")
        if not address:
            return None
        parts = _split(address if "://" in address else f"http://{address}")
        if not parts:
            raise HostUnreachableError(502, "the proxy of the machine is of a kind that Kakite cannot use")
        return parts

    def _is_bypassed(self, target: Target) -> bool:
        entries = (entry.strip().lower() for entry in self._settings.get("no_proxy", "").split(","))
        return any(_is_exempt(entry, target) for entry in entries if entry)


def _split(address: str) -> SplitResult | None:
    try:
        parts = urlsplit(address)
        _ = parts.port  # is looked at only now
    except ValueError:
        return None
    return parts if parts.scheme in {"http", "https"} and parts.hostname else None


def _is_exempt(entry: str, target: Target) -> bool:
    """Tell whether an entry of ``NO_PROXY`` is for this host: a name and all below it, or a network."""
    address = parse_address(target.host)
    if address and "/" in entry:
        with contextlib.suppress(ValueError):
            return address in ip_network(entry, strict=False)
    name, colon, port = entry.rpartition(":")
    if not colon or not port.isdecimal() or parse_address(entry):
        name, port = entry, ""
    if port and int(port) != target.port:
        return False
    name = name.strip("[]").removeprefix("*").removeprefix(".")
    return not name or target.host == name or target.host.endswith("." + name)


def _build_refusal(target: Target, trust: AddressScope) -> HostUnreachableError:
    way_on = "cannot be reached" if trust is AddressScope.ANY else "the setting hosts allows it"
    return HostUnreachableError(403, f"{target.host} {_TOLD.get(trust, 'cannot be reached')}; {way_on}")


def _check_not_ourselves(target: Target, allowed: AllowedHost, writer: StreamWriter) -> None:
    """Refuse the machine's own services at its public address: from there they are not public at all."""
    here, there = writer.get_extra_info("sockname"), writer.get_extra_info("peername")
    if allowed.trust < AddressScope.LOOPBACK and here[0] == there[0]:
        writer.transport.abort()
        raise _build_refusal(target, AddressScope.LOOPBACK)


def _describe_error(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "no answer"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    return error.strerror or "cannot be reached"


async def _connect_through(upstream: SplitResult, target: Target, *, plain: bool) -> HostConnection:
    secure = upstream.scheme == "https"
    try:
        port = upstream.port or (443 if secure else 80)
        context = ssl.create_default_context() if secure else None
        reader, writer = await asyncio.open_connection(upstream.hostname, port, ssl=context)
    except OSError as error:
        raise HostUnreachableError(502, "the proxy of the machine cannot be reached") from error
    authorization = _build_authorization(upstream)
    if plain:
        return HostConnection(reader=reader, writer=writer, through_proxy=True, authorization=authorization)
    try:
        await _ask_for_tunnel(reader, writer, target, authorization)
    except BaseException:
        writer.transport.abort()
        raise
    return HostConnection(reader=reader, writer=writer)


def _build_authorization(upstream: SplitResult) -> str:
    if upstream.username is None:
        return ""
    pair = f"{unquote(upstream.username)}:{unquote(upstream.password or '')}"
    return "Basic " + base64.b64encode(pair.encode()).decode("ascii")


async def _ask_for_tunnel(
    reader: StreamReader, writer: StreamWriter, target: Target, authorization: str
) -> None:
    credentials = f"Proxy-Authorization: {authorization}\r\n" if authorization else ""
    writer.write(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{credentials}\r\n".encode("ascii"))
    try:
        await writer.drain()
        # Not a byte more than the head: what follows is the host's.
        head = await reader.readuntil(b"\r\n\r\n")
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise HostUnreachableError(502, "the machine's proxy closed the connection") from error
    status = head.split(b"\r\n", 1)[0].split(b" ")[1:2]
    if not status or not status[0].startswith(b"2"):
        told = status[0].decode("ascii", errors="replace") if status else "nothing"
        raise HostUnreachableError(502, f"{target.host}: the proxy of the machine answered {told[:3]}")
