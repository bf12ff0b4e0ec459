"""The front of a fake forge: an ASGI application that checks who asks for what, and fails on demand."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from starlette.requests import Request
from starlette.responses import Response

from kakite.testing.forges.repository import answer_git
from kakite.testing.forges.wire import Asked, Contract, Fault, Identity, Refusal, Reply, Route, parts_of

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from kakite.testing.forges.state import Ledger

_SECRET_HEADERS: Final = frozenset({"authorization", "private-token", "cookie"})


class Face(Protocol):
    """What differs between the forges."""

    prefix: str
    """Where the API begins."""
    routes: Sequence[Route]

    def identify(self, headers: Mapping[str, str]) -> Identity | None:
        """Return who asks the API; None if nobody that is known."""
        ...

    def identify_git(self, username: str, password: str) -> Identity | None:
        """Return who asks by git."""
        ...

    def refuse(self, refusal: Refusal) -> Reply:
        """Return the answer that says no."""
        ...

    def rate(self, limit: Rate) -> Mapping[str, str]:
        """Return the headers that tell how much may be asked yet."""
        ...

    def exhausted(self, limit: Rate) -> Refusal:
        """Return what is said to one who asked too much."""
        ...


@dataclass(slots=True, kw_only=True)
class Rate:
    """How much may be asked in an hour."""

    limit: int = 5000
    used: int = 0
    reset: float = 0.0
    """When it begins anew, in seconds since the epoch."""

    @property
    def remaining(self) -> int:
        """How many more there may be."""
        if time.time() >= self.reset:
            self.used, self.reset = 0, time.time() + 3600
        return max(self.limit - self.used, 0)


class Front:
    """The application. Answers one request after the other, so that state needs no more than its lock."""

    def __init__(self, face: Face, ledger: Ledger, root: Path, contract: Contract | None) -> None:
        self.rate = Rate()
        self.asked: list[Asked] = []
        """Every request so far, without secrets."""
        self.violations: list[str] = []
        """What went against the forge's contract, on either side. A test asserts that there is none."""
        self.faults: list[Fault] = []
        self._face = face
        self._ledger = ledger
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
                headers=_redacted(asked.headers),
                status=0 if response is None else response.status_code,
            )
        )
        if response is None:
            await _drop(send)
        else:
            await response(scope, receive, send)

    async def _answer(self, asked: Asked, fault: Fault | None) -> Response | None:
        """Return what is sent; None where the connection is to be dropped."""
        if fault is None:
            return await self._serve(asked)
        await asyncio.sleep(fault.delay)
        real = await self._serve(asked) if fault.after or _only_late(fault) else None
        if fault.drop:
            return None
        if fault.body is not None:
            return Response(fault.body, fault.status or 200, dict(fault.headers), "application/json")
        if fault.status is None:
            return real
        return self._respond(self._face.refuse(Refusal(fault.status, fault.message, headers=fault.headers)))

    async def _serve(self, asked: Asked) -> Response:
        if asked.path.startswith(self._face.prefix + "/"):
            return self._respond(self._api(asked))
        return await self._git(asked)

    def _take_fault(self, asked: Asked) -> Fault | None:
        for fault in self.faults:
            if fault.fits(asked):
                fault.times -= 1
                return fault
        return None

    def _api(self, asked: Asked) -> Reply:
        try:
            with self._ledger.lock:
                return self._checked(asked)
        except Refusal as refusal:
            return self._face.refuse(refusal)

    def _checked(self, asked: Asked) -> Reply:
        who = self._face.identify(asked.headers)
        if who is None:
            raise Refusal(401, "Bad credentials")
        if self._contract and (wrong := self._contract.question(asked)):
            self.violations.append(f"{asked.method} {asked.path}: {wrong}")
            raise Refusal(400, wrong)
        if self.rate.remaining == 0:
            raise self._face.exhausted(self.rate)
        reply = self._carry_out(asked, who)
        if self._contract and (wrong := self._contract.answer(asked, reply)):
            self.violations.append(f"the fake's answer to {asked.method} {asked.path}: {wrong}")
        return self._counted(asked, reply)

    def _counted(self, asked: Asked, reply: Reply) -> Reply:
        if asked.method == "GET" and reply.status == 200:
            tagged = {**reply.headers, "etag": reply.etag}
            if asked.headers.get("if-none-match") == reply.etag:
                return Reply(status=304, headers={**tagged, **self._face.rate(self.rate)})
            reply = replace(reply, headers=tagged)
        self.rate.used += 1
        return replace(reply, headers={**reply.headers, **self._face.rate(self.rate)})

    def _carry_out(self, asked: Asked, who: Identity) -> Reply:
        path = asked.path.removeprefix(self._face.prefix)
        for each in self._face.routes:
            found = each.pattern.match(path)
            if each.method == asked.method and found:
                self._require(each, asked, who)
                return _looked_up(each, asked, who, parts_of(found))
        raise Refusal(404, "Not Found")

    def _require(self, wanted: Route, asked: Asked, who: Identity) -> None:
        if (who.app is not None) != (wanted.level == "app"):
            raise Refusal(401, "A JSON web token could not be decoded")
        if wanted.level == "app":
            return
        if self._ledger.level(who.login) == "none":
            raise Refusal(404, "Not Found")
        writes = asked.method != "GET"
        allowed = self._ledger.may(who.login, "write" if wanted.level == "write" else "read")
        if not allowed or (writes and who.read_only):
            raise Refusal(403, "Resource not accessible by personal access token")

    def _respond(self, reply: Reply) -> Response:
        headers = dict(reply.headers)
        if reply.body is None:
            return Response(b"", reply.status, headers)
        return Response(json.dumps(reply.body), reply.status, headers, "application/json; charset=utf-8")

    async def _git(self, asked: Asked) -> Response:
        who = self._face.identify_git(*_basic(asked.headers))
        if who is None or self._ledger.level(who.login) == "none":
            return Response(b"", 401, {"www-authenticate": 'Basic realm="git"'})
        pushes = "git-receive-pack" in asked.path or asked.value("service") == "git-receive-pack"
        if pushes and (who.read_only or not self._ledger.may(who.login, "write")):
            return Response(b"this token may not write\n", 403)
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


def _looked_up(wanted: Route, asked: Asked, who: Identity, parts: Mapping[str, Any]) -> Reply:
    try:
        return wanted.answer(who, asked, **parts)
    except LookupError:
        raise Refusal(404, "Not Found") from None


def _only_late(fault: Fault) -> bool:
    return fault.status is None and fault.body is None and not fault.drop


async def _read(request: Request) -> Asked:
    return Asked(
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


def _redacted(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: "[redacted]" if name in _SECRET_HEADERS else value for name, value in headers.items()}


def _basic(headers: Mapping[str, str]) -> tuple[str, str]:
    kind, _, told = headers.get("authorization", "").partition(" ")
    if kind.lower() != "basic":
        return "", ""
    try:
        username, _, password = base64.b64decode(told).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    return username, password
