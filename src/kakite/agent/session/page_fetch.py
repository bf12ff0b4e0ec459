"""Fetches a page of the web as text, by the rules that the proxy of a sandbox has.

Each connection is judged by itself, those of redirects too, and leads to the address that was judged.
"""

from __future__ import annotations

import asyncio
import ssl
import zlib
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

import httpcore2

from kakite import __version__
from kakite.errors import KakiteError
from kakite.processes import Network
from kakite.sandbox.egress.connect import Connector, HostUnreachableError, Resolve
from kakite.sandbox.egress.credentials import Inspection, parse_request_rule
from kakite.sandbox.egress.policy import DeniedHost, EgressPolicy, Target, build_policy, read_target
from kakite.terminal_text import replace_surrogates

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter

MAX_PAGE_BYTES = 2 << 20
"""Bytes of a page, unpacked."""
MAX_REDIRECTS = 5
FETCH_TIMEOUT = 30.0
"""Seconds for a page with all its redirects."""
_PIECE = 64 * 1024
_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_HEADERS = (("Accept", "text/markdown, text/html, text/plain;q=0.9, */*;q=0.5"), ("Accept-Encoding", "gzip"))
_Headers = Mapping[str, str]


class PageError(KakiteError):
    """A page was not fetched.

    Codes: ``bad_url``, ``host_denied``, ``host_unreachable``, ``page_failed`` (what the server answered),
    ``page_too_large``, ``not_text``.
    """

    code = "page_failed"
    exit_code = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedPage:
    """A page as it came."""

    url: str
    """Where it was, after all redirects."""
    kind: str
    """Its media type, in lower case, without parameters."""
    charset: str
    """As the server says; empty: it does not."""
    data: bytes


class PageFetcher:
    """Fetches pages that a network may reach."""

    def __init__(
        self,
        network: Network,
        hosts: Iterable[str],
        environ: Mapping[str, str],
        *,
        requests: Iterable[str] = (),
        resolve: Resolve | None = None,
    ) -> None:
        """Take the rules.

        Args:
            network: what may be reached.
            hosts: what is allowed besides.
            environ: where a proxy of the machine's own is named.
            requests: what may be asked of some hosts, as the setting of that name has it.
            resolve: finds addresses in place of the system.
        """
        self._network: Network = network
        self._inspection = Inspection(rules=tuple(map(parse_request_rule, requests)))
        self._policy = build_policy((*hosts, *map(str, self._inspection.targets)))
        self._environ = environ
        self._resolve = resolve

    async def fetch(self, url: str) -> FetchedPage:
        """Fetch the page at this address, or where that leads to.

        Raises:
            PageError: it may not be reached, did not answer with a page, or is too large.
        """
        with closing(Connector(self._environ, self._resolve)) as connector:
            backend = _JudgedBackend(self._policy, self._network, connector)
            try:
                async with asyncio.timeout(FETCH_TIMEOUT):
                    return await self._follow(url, backend)
            except TimeoutError as error:
                raise PageError(f"no answer within {FETCH_TIMEOUT:.0f} s", code="host_unreachable") from error
            except HostUnreachableError as error:
                code = "host_denied" if error.status == 403 else "host_unreachable"
                raise PageError(error.reason, code=code) from error
            except (OSError, httpcore2.NetworkError, httpcore2.ProtocolError) as error:
                raise PageError(f"the connection failed: {error}", code="host_unreachable") from error

    async def _follow(self, url: str, backend: _JudgedBackend) -> FetchedPage:
        for _ in range(MAX_REDIRECTS + 1):
            address = _check_url(url)
            self._check_request(address)
            found = await _get(address, backend)
            if isinstance(found, FetchedPage):
                return found
            url = urljoin(url, found)
        raise PageError(f"it redirects more than {MAX_REDIRECTS} times")

    def _check_request(self, url: str) -> None:
        """Make sure that the page may be asked for.

        Raises:
            PageError: no rule for its host allows that, code ``host_denied``.
        """
        parts = urlsplit(url)
        target = read_target(parts.netloc, 443 if parts.scheme == "https" else 80)
        if target is None:
            return  # it is refused when it is connected to
        path = parts._replace(scheme="", netloc="").geturl()
        why = self._inspection.find_refusal(target, b"GET", path.encode())
        if self._inspection.is_closed(target):
            why = f"no rule of the setting requests is for {target}"
        if why:
            raise PageError(why, code="host_denied")


def _check_url(url: str) -> str:
    """Return the address as it is asked for: without a fragment, and in ASCII."""
    try:
        parts = urlsplit(url.strip())
        odd = parts.scheme not in {"http", "https"} or not parts.hostname or "@" in parts.netloc
        _ = parts.port  # is looked at only now
        host = (parts.hostname or "").encode("idna").decode("ascii")
    except ValueError:  # UnicodeError is one
        odd, parts, host = True, urlsplit(""), ""
    if odd or read_target(f"[{host}]" if ":" in host else host, None) is None:
        raise PageError(
            f"`{url[:200]}` is not the address of a page",
            hint="it begins with https:// or http://, and has no user name in it",
            code="bad_url",
        )
    name = f"[{host}]" if ":" in host else host
    netloc = f"{name}:{parts.port}" if parts.port else name
    return _to_ascii(parts._replace(netloc=netloc, fragment="", path=parts.path or "/").geturl())


def _to_ascii(url: str) -> str:
    """Return an address with what is no ASCII, and blanks, as escapes."""
    data = url.encode("utf-8", "replace")
    return "".join(chr(byte) if 0x20 < byte < 0x7F else f"%{byte:02X}" for byte in data)


async def _get(url: str, backend: _JudgedBackend) -> FetchedPage | str:
    """Return the page, or where it has moved to."""
    headers = [*_HEADERS, ("User-Agent", f"kakite/{__version__}")]
    async with (
        httpcore2.AsyncConnectionPool(
            ssl_context=ssl.create_default_context(), network_backend=backend
        ) as pool,
        pool.stream("GET", url, headers=headers) as response,
    ):
        told = {
            name.decode("ascii", "replace").lower(): value.decode("latin-1")
            for name, value in response.headers
        }
        if response.status in _REDIRECTS and "location" in told:
            return told["location"]
        if response.status != 200:
            raise PageError(f"the server answered {response.status}")
        kind, charset = _parse_content_type(told)
        data = await _read_limited(response.aiter_stream(), told.get("content-encoding", ""))
        return FetchedPage(url=url, kind=kind, charset=charset, data=data)


def _parse_content_type(headers: _Headers) -> tuple[str, str]:
    kind, _, parameters = headers.get("content-type", "text/plain").partition(";")
    kind = kind.strip().lower()
    textual = kind.startswith("text/") or kind.endswith(("+json", "+xml"))
    if not (textual or kind in {"application/json", "application/xml", "application/javascript"}):
        raise PageError(f"it is no text, but `{kind[:100]}`", code="not_text")
    named = (each.partition("=") for each in parameters.split(";"))
    charset = next((value for name, _, value in named if name.strip().lower() == "charset"), "")
    return kind, charset.strip(" \"'")


async def _read_limited(stream: Any, encoding: str) -> bytes:
    """Return what comes, unpacked; no more of it is unpacked than may be kept."""
    packed = encoding.strip().lower()
    if packed not in {"", "identity", "gzip", "x-gzip"}:
        raise PageError(f"it is packed as `{packed[:50]}`, which was not asked for")
    unpack = zlib.decompressobj(zlib.MAX_WBITS | 16) if packed.endswith("gzip") else None
    data = bytearray()
    async for piece in stream:
        room = MAX_PAGE_BYTES + 1 - len(data)
        try:
            data += unpack.decompress(piece, room) if unpack else piece
        except zlib.error as error:
            raise PageError(f"it cannot be unpacked: {error}") from error
        if len(data) > MAX_PAGE_BYTES:
            raise PageError(f"it has more than {MAX_PAGE_BYTES >> 20} MiB", code="page_too_large")
    return bytes(data)


class _JudgedBackend(httpcore2.AsyncNetworkBackend):
    """Opens the connections of an HTTP client, those that the rules allow."""

    def __init__(self, policy: EgressPolicy, network: Network, connector: Connector) -> None:
        self._policy = policy
        self._network: Network = network
        self._connector = connector

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ARG002, ASYNC109 - the library's
        local_address: str | None = None,  # noqa: ARG002 - the library's
        socket_options: Iterable[Any] | None = None,  # noqa: ARG002 - the library's
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to a host, if it is allowed, at an address that is.

        Raises:
            HostUnreachableError: it is not, or does not answer.
        """
        name = f"[{host}]" if ":" in host and not host.startswith("[") else host
        target: Target | None = read_target(name, port)
        if target is None:
            raise HostUnreachableError(403, f"`{host[:200]}` is not a host")
        verdict = self._policy.evaluate(self._network, target)
        if isinstance(verdict, DeniedHost):
            raise HostUnreachableError(403, verdict.reason)
        way = await self._connector.connect(target, verdict)
        return _StreamAdapter(way.reader, way.writer)


class _StreamAdapter(httpcore2.AsyncNetworkStream):
    """A connection of asyncio, as the HTTP client takes it. Time is limited around all of it."""

    def __init__(self, reader: StreamReader, writer: StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002, ASYNC109 - the library's
        """Read some bytes; none at the end."""
        return await self._reader.read(min(max_bytes, _PIECE))

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002, ASYNC109 - the library's
        """Write all of it."""
        self._writer.write(buffer)
        await self._writer.drain()

    async def aclose(self) -> None:
        """Break it off: nothing more is wanted of it."""
        self._writer.transport.abort()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ARG002, ASYNC109 - the library's
    ) -> httpcore2.AsyncNetworkStream:
        """Encrypt it from here on."""
        await self._writer.start_tls(ssl_context, server_hostname=server_hostname)
        return self

    def get_extra_info(self, info: str) -> Any:
        """Return what is known of the connection."""
        names = {"client_addr": "sockname", "server_addr": "peername"}
        return self._writer.get_extra_info(names.get(info, info))


def extract_text(page: FetchedPage) -> str:
    """Return a page as Markdown, where it is HTML; else its text. May take a second: for a thread."""
    if page.kind not in {"text/html", "application/xhtml+xml"}:
        return _decode(page.data, page.charset)
    import bs4
    import markdownify
    from bs4.dammit import EncodingDetector

    declared = EncodingDetector.find_declared_encoding(page.data, is_html=True)
    soup = bs4.BeautifulSoup(_decode(page.data, page.charset or declared or ""), "html.parser")
    for each in soup(["script", "style", "template", "noscript", "svg", "iframe", "head"]):
        each.decompose()
    try:
        text = markdownify.MarkdownConverter(heading_style="ATX", strip=["img"]).convert_soup(soup)
    except RecursionError:  # tags within tags, by the thousand
        text = soup.get_text("\n")
    return "\n".join(_squeeze(text))


def _decode(data: bytes, charset: str) -> str:
    try:
        text = data.decode(charset or "utf-8", "replace")
    except (LookupError, ValueError):  # no such encoding, or no encoding of texts
        text = data.decode("utf-8", "replace")
    return replace_surrogates(text)


def _squeeze(text: str) -> Iterable[str]:
    """Yield the lines without blanks at their ends, and one empty line for several."""
    empty = True
    for line in text.splitlines():
        if line.strip() or not empty:
            yield line.rstrip()
        empty = not line.strip()
