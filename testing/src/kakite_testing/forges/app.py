"""The ASGI application of a fake forge: authenticates requests, routes them, and fails on demand."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import unquote, urlencode

from starlette.requests import Request
from starlette.responses import Response

from kakite_testing.forges.repository import answer_git

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from kakite_testing.forges.store import ForgeState


PER_PAGE: Final = 30
_MAX_PER_PAGE: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgeRequest:
    """A request that came in."""

    method: str
    path: str
    """With the prefix of the API, without the query, still quoted."""
    query: Sequence[tuple[str, str]] = ()
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Names in lower case. What is kept afterwards has ``[redacted]`` for a secret."""
    body: bytes = b""
    status: int = 0
    """What it was answered with; 0 if the connection was dropped."""

    @property
    def json(self) -> Any:
        """The body, decoded; None if there is none."""
        return json.loads(self.body) if self.body else None

    def get_query(self, name: str, default: str = "") -> str:
        """Return the last value of a parameter of the query."""
        return dict(self.query).get(name, default)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgeResponse:
    """A response of a fake forge."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def etag(self) -> str:
        """A name of this very answer."""
        told = json.dumps([self.body, self.headers.get("link", "")], sort_keys=True)
        return f'W/"{hashlib.sha256(told.encode()).hexdigest()}"'


class ForgeRefusal(Exception):  # noqa: N818 - an answer of the forge, not an error of ours
    """The forge says no."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        errors: Sequence[Any] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.errors = list(errors)
        self.headers = dict(headers or {})


@dataclass(slots=True, kw_only=True)
class Fault:
    """Something that goes wrong on demand, with the next requests that fit."""

    status: int | None = None
    """What is answered instead; None: the connection is dropped, or with ``delay`` alone only late."""
    message: str = "made to fail"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    method: str = ""
    """Only requests of this method; empty: of any."""
    path: str = ""
    """Only requests whose path holds this expression."""
    times: int = 1
    delay: float = 0.0
    """Seconds before anything is answered."""
    after: bool = False
    """The request is carried out first, and only its answer is lost."""
    drop: bool = False
    """The connection ends in the middle of an answer."""
    body: bytes | None = None
    """Sent as it is, in place of JSON."""

    def matches(self, asked: ForgeRequest) -> bool:
        """Whether it is meant for this request."""
        return (
            self.times > 0
            and self.method in {"", asked.method}
            and re.search(self.path, asked.path) is not None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The identity of the client."""

    login: str
    app: int | None = None
    """The App that a signed token is of: it may ask about itself alone."""
    installation: bool = False
    """An App in a repository: it has no account to ask about."""
    read_only: bool = False


class Contract(Protocol):
    """The contract of the real forge: its rules for requests and responses."""

    def check_request(self, asked: ForgeRequest) -> str | None:
        """Return what is wrong with a request; None if nothing is."""
        ...

    def check_response(self, asked: ForgeRequest, reply: ForgeResponse) -> str | None:
        """Return what is wrong with an answer of the fake; None if nothing is."""
        ...


@dataclass(frozen=True, slots=True)
class Route:
    """A route: the handler of one operation."""

    method: str
    pattern: re.Pattern[str]
    answer: Callable[..., ForgeResponse]
    """Takes ``(who, asked)`` and the parts of the path by name."""
    level: str
    """What the one who asks has to be allowed: ``read``, ``write``, or ``app``."""


def build_route(template: str, answer: Callable[..., ForgeResponse], level: str = "read") -> Route:
    """Return a route from ``"get /a/{b}"``."""
    method, _, path = template.partition(" ")
    pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path)
    return Route(method.upper(), re.compile(f"{pattern}$"), answer, level)


def parse_path_parts(found: re.Match[str]) -> dict[str, str]:
    """Return the named parts of a path, without quotes."""
    return {name: unquote(value) for name, value in found.groupdict().items()}


def paginate(asked: ForgeRequest, items: Sequence[Any], base: str) -> tuple[list[Any], dict[str, str], int]:
    """Return one page of items, its ``ConnectionState`` header, and the number of pages."""
    size = min(max(int(asked.get_query("per_page", str(PER_PAGE))), 1), _MAX_PER_PAGE)
    page = max(int(asked.get_query("page", "1")), 1)
    last = max(-(-len(items) // size), 1)
    others = [(name, value) for name, value in asked.query if name not in {"page", "per_page"}]

    def build_link(number: int, relation: str) -> str:
        query = urlencode([*others, ("per_page", str(size)), ("page", str(number))])
        return f'<{base}{asked.path}?{query}>; rel="{relation}"'

    links = [build_link(page - 1, "prev")] if page > 1 else []
    links += [build_link(page + 1, "next"), build_link(last, "last")] if page < last else []
    headers = {"link": ", ".join(links)} if links else {}
    return list(items[(page - 1) * size : page * size]), headers, last


_SECRET_HEADERS: Final = frozenset({"authorization", "private-token", "cookie"})


class ForgeApi(Protocol):
    """The part of a fake forge that differs between forges."""

    prefix: str
    """Where the API begins."""
    routes: Sequence[Route]

    def identify(self, headers: Mapping[str, str]) -> Identity | None:
        """Return who asks the API; None if nobody that is known."""
        ...

    def identify_git(self, username: str, password: str) -> Identity | None:
        """Return who asks by git."""
        ...

    def refuse(self, refusal: ForgeRefusal) -> ForgeResponse:
        """Return the answer that says no."""
        ...

    def build_rate_headers(self, limit: RateLimit) -> Mapping[str, str]:
        """Return the headers that tell how much may be asked yet."""
        ...

    def build_rate_refusal(self, limit: RateLimit) -> ForgeRefusal:
        """Return what is said to one who asked too much."""
        ...


@dataclass(slots=True, kw_only=True)
class RateLimit:
    """The number of requests allowed in an hour."""

    limit: int = 5000
    used: int = 0
    reset: float = 0.0
    """When it begins anew, in seconds since the epoch."""

    @property
    def remaining(self) -> int:
        """The number of requests that are left."""
        if time.time() >= self.reset:
            self.used, self.reset = 0, time.time() + 3600
        return max(self.limit - self.used, 0)


class FakeForgeApp:
    """The application. Answers one request after the other, so that state needs no more than its lock."""

    def __init__(self, face: ForgeApi, state: ForgeState, root: Path, contract: Contract | None) -> None:
        self.rate = RateLimit()
        self.asked: list[ForgeRequest] = []
        """Every request so far, without secrets."""
        self.violations: list[str] = []
        """What went against the forge's contract, on either side. A test asserts that there is none."""
        self.faults: list[Fault] = []
        self.before_git: Callable[[], None] = lambda: None
        """Is called before git is answered."""
        self._face = face
        self._state = state
        self._root = root
        self._contract = contract

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return
        asked = await _read(Request(scope, receive))
        fault = self._take_fault(asked)
        response = await self._answer(asked, fault)
        self.asked.append(
            replace(
                asked,
                headers=_redact_headers(asked.headers),
                status=0 if response is None else response.status_code,
            )
        )
        if response is None:
            await _drop(send)
        else:
            await response(scope, receive, send)

    async def _answer(self, asked: ForgeRequest, fault: Fault | None) -> Response | None:
        """Return what is sent; None where the connection is to be dropped."""
        if fault is None:
            return await self._serve(asked)
        await asyncio.sleep(fault.delay)
        real = await self._serve(asked) if fault.after or _is_delay_only(fault) else None
        if fault.drop:
            return None
        if fault.body is not None:
            return Response(fault.body, fault.status or 200, dict(fault.headers), "application/json")
        if fault.status is None:
            return real
        return self._respond(
            self._face.refuse(ForgeRefusal(fault.status, fault.message, headers=fault.headers))
        )

    async def _serve(self, asked: ForgeRequest) -> Response:
        if asked.path.startswith(self._face.prefix + "/"):
            return self._respond(self._answer_api(asked))
        return await self._answer_git(asked)

    def _take_fault(self, asked: ForgeRequest) -> Fault | None:
        for fault in self.faults:
            if fault.matches(asked):
                fault.times -= 1
                return fault
        return None

    def _answer_api(self, asked: ForgeRequest) -> ForgeResponse:
        try:
            with self._state.lock:
                return self._handle_api(asked)
        except ForgeRefusal as refusal:
            return self._face.refuse(refusal)

    def _handle_api(self, asked: ForgeRequest) -> ForgeResponse:
        who = self._face.identify(asked.headers)
        if who is None:
            raise ForgeRefusal(401, "Bad credentials")
        if self._contract and (wrong := self._contract.check_request(asked)):
            self.violations.append(f"{asked.method} {asked.path}: {wrong}")
            raise ForgeRefusal(400, wrong)
        if self.rate.remaining == 0:
            raise self._face.build_rate_refusal(self.rate)
        reply = self._dispatch(asked, who)
        if self._contract and (wrong := self._contract.check_response(asked, reply)):
            self.violations.append(f"the fake's answer to {asked.method} {asked.path}: {wrong}")
        return self._count_request(asked, reply)

    def _count_request(self, asked: ForgeRequest, reply: ForgeResponse) -> ForgeResponse:
        if asked.method == "GET" and reply.status == 200:
            tagged = {**reply.headers, "etag": reply.etag}
            if asked.headers.get("if-none-match") == reply.etag:
                return ForgeResponse(
                    status=304, headers={**tagged, **self._face.build_rate_headers(self.rate)}
                )
            reply = replace(reply, headers=tagged)
        self.rate.used += 1
        return replace(reply, headers={**reply.headers, **self._face.build_rate_headers(self.rate)})

    def _dispatch(self, asked: ForgeRequest, who: Identity) -> ForgeResponse:
        path = asked.path.removeprefix(self._face.prefix)
        for each in self._face.routes:
            found = each.pattern.match(path)
            if each.method == asked.method and found:
                self._require(each, asked, who)
                return _call_route(each, asked, who, parse_path_parts(found))
        raise ForgeRefusal(404, "Not Found")

    def _require(self, wanted: Route, asked: ForgeRequest, who: Identity) -> None:
        if (who.app is not None) != (wanted.level == "app"):
            raise ForgeRefusal(401, "A JSON web token could not be decoded")
        if wanted.level == "app":
            return
        if self._state.get_level(who.login) == "none":
            raise ForgeRefusal(404, "Not Found")
        writes = asked.method != "GET"
        allowed = self._state.has_level(who.login, "write" if wanted.level == "write" else "read")
        if not allowed or (writes and who.read_only):
            raise ForgeRefusal(403, "Resource not accessible by personal access token")

    def _respond(self, reply: ForgeResponse) -> Response:
        headers = dict(reply.headers)
        if reply.body is None:
            return Response(b"", reply.status, headers)
        return Response(json.dumps(reply.body), reply.status, headers, "application/json; charset=utf-8")

    async def _answer_git(self, asked: ForgeRequest) -> Response:
        who = self._face.identify_git(*_parse_basic_auth(asked.headers))
        if who is None or self._state.get_level(who.login) == "none":
            return Response(b"", 401, {"www-authenticate": 'Basic realm="git"'})
        pushes = "git-receive-pack" in asked.path or asked.get_query("service") == "git-receive-pack"
        if pushes and (who.read_only or not self._state.has_level(who.login, "write")):
            return Response(b"this token may not write\n", 403)
        self.before_git()
        reply = await answer_git(
            self._root,
            method=asked.method,
            path=asked.path,
            query="&".join(f"{name}={value}" for name, value in asked.query),
            headers=asked.headers,
            body=asked.body,
            user=who.login,
        )
        return Response(reply.body, reply.status, dict(reply.headers))


def _call_route(wanted: Route, asked: ForgeRequest, who: Identity, parts: Mapping[str, Any]) -> ForgeResponse:
    try:
        return wanted.answer(who, asked, **parts)
    except LookupError:
        raise ForgeRefusal(404, "Not Found") from None


def _is_delay_only(fault: Fault) -> bool:
    return fault.status is None and fault.body is None and not fault.drop


async def _read(request: Request) -> ForgeRequest:
    return ForgeRequest(
        method=request.method,
        path=request.scope["raw_path"].decode().partition("?")[0],
        query=tuple(request.query_params.multi_items()),
        headers=dict(request.headers),
        body=await request.body(),
    )


async def _drop(send: Send) -> None:
    """Send less than was promised: the server then has nothing left but to close the connection."""
    headers = [(b"content-type", b"application/json"), (b"content-length", b"1000")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"{", "more_body": True})


def _redact_headers(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: "[redacted]" if name in _SECRET_HEADERS else value for name, value in headers.items()}


def _parse_basic_auth(headers: Mapping[str, str]) -> tuple[str, str]:
    kind, _, told = headers.get("authorization", "").partition(" ")
    if kind.lower() != "basic":
        return "", ""
    try:
        username, _, password = base64.b64decode(told).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    return username, password
