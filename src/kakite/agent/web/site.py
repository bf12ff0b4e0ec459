"""What the server answers: the page and its files, tasks as JSON, what people say to them, health, numbers.

It reads and steers stories through the ledger alone, so it works while no worker lives.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from typing import TYPE_CHECKING, cast

from kakite.agent.durable.ledger import ENDS, Ledger, Standing
from kakite.agent.run import Run
from kakite.agent.shift import stop
from kakite.agent.trajectory import as_json, events_of
from kakite.agent.web.door import Door, guarded
from kakite.agent.web.runs import Runs
from kakite.agent.web.shown import (
    ANSWERS,
    LIMITS,
    Kind,
    actions_of,
    ask_of,
    digest_of,
    event_of,
    published_of,
    row_of,
    task_of,
)
from kakite.errors import KakiteError, OutsideError, UsageError
from kakite.host.redaction import Redaction
from kakite.serve.door import login_page
from kakite.tools.toolset import JsonObject
from kakite.visible import whole_values

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

_FRESH = 0.3  # s for which the list is not asked of the ledger again, however many look
_BODY = 64 * 1024  # bytes
_BODY_TIME = 10  # s
_REASON = 2_000  # characters
_KEPT = 8  # tasks whose events are kept ready
_TYPES = {"css": "text/css", "js": "text/javascript", "html": "text/html", "svg": "image/svg+xml"}

LoadRun = Callable[[str], Run]
"""Returns the run that a published ``head`` names; may read files. Raises KakiteError."""


class NotAskedError(KakiteError):
    """What was to be answered or done is not asked for, or not possible, any more: ``not_asked``."""

    code = "not_asked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What the page shows, and who answers on it."""

    ledger: Ledger
    load_run: LoadRun
    by: str
    """The person's name, for the task's record."""
    redaction: Redaction
    runs: Runs | None = None
    """The runs that no worker does, to be seen as well."""


def build_site(site: Site, door: Door) -> ASGIApp:
    """Return the web application, behind its door."""
    from starlette.applications import Starlette
    from starlette.routing import Route

    desk = _Answers(site)
    told = _told
    routes = [
        Route("/", _file("index.html")),
        Route("/style.css", _file("style.css")),
        Route("/page.js", _file("page.js")),
        Route("/icon.svg", _file("icon.svg")),
        Route("/healthz", told(desk.health)),
        Route("/metrics", told(desk.metrics)),
        Route("/api/tasks", told(desk.tasks)),
        Route("/api/task", told(desk.task)),
        Route("/api/answer", told(desk.answer), methods=["POST"]),
        Route("/api/pause", told(desk.pause), methods=["POST"]),
        Route("/api/resume", told(desk.resume), methods=["POST"]),
        Route("/api/cancel", told(desk.cancel), methods=["POST"]),
    ]
    return guarded(Starlette(routes=routes), door, login=_login())


Answer = Callable[["Request"], Awaitable["Response"]]


def _told(work: Answer) -> Answer:
    """Return what answers a request also when it fails."""
    from starlette.responses import JSONResponse

    async def answer(request: Request) -> Response:
        try:
            return await work(request)
        except KakiteError as error:
            told = {"code": error.code, "message": error.message, "hint": error.hint}
            return JSONResponse({"error": told}, _status(error))

    return answer


def _status(error: KakiteError) -> int:
    if error.code == "story_unknown":
        return 404
    if isinstance(error, NotAskedError):
        return 409
    return 503 if isinstance(error, OutsideError) else 400


def _file(name: str) -> Answer:
    from starlette.responses import Response

    content = (files("kakite.agent.web") / "files" / name).read_bytes()

    async def answer(_request: Request) -> Response:
        return Response(content, media_type=_TYPES[name.rpartition(".")[2]])

    return answer


def _login() -> ASGIApp:
    from starlette.responses import Response

    content = login_page("kakite agent web", title="Kakite", style="/style.css")
    return Response(content, 401, media_type="text/html")


class _Answers:
    """Answers to requests, and the little that is remembered between them."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._listed: tuple[float, Sequence[Standing]] = (-math.inf, ())
        self._listing = asyncio.Lock()
        self._reading = asyncio.Lock()
        self._ran: tuple[float, Sequence[Standing]] = (-math.inf, ())
        self._events: OrderedDict[str, tuple[str, list[JsonObject]]] = OrderedDict()
        self._given: dict[str, str] = {}
        """What was answered here, until the worker has taken it."""
        self._stopping: set[str] = set()
        """The tasks that were told here to stop, until a worker has ended them."""

    async def health(self, _request: Request) -> Response:
        from starlette.responses import PlainTextResponse

        await self._all()
        return PlainTextResponse("ok\n")

    async def metrics(self, _request: Request) -> Response:
        from starlette.responses import Response

        from kakite.agent.web.numbers import CONTENT_TYPE, as_metrics

        return Response(
            as_metrics(await self._all(), datetime.now(UTC)), headers={"content-type": CONTENT_TYPE}
        )

    async def tasks(self, request: Request) -> Response:
        found = sorted((*await self._all(), *await self._runs()), key=lambda each: each.created, reverse=True)
        rows = [row_of(standing, self._site.redaction) for standing in found]
        return _json(request, {"tasks": rows})

    async def task(self, request: Request) -> Response:
        standing = await self._standing(request.query_params.get("id", ""))
        answered = self._given.get(_question_key(standing), "")
        if standing.state in ENDS:
            self._stopping.discard(standing.id)
        stopping = standing.id in self._stopping
        shown = task_of(standing, self._site.redaction, answered=answered, stopping=stopping)
        events, problem = await self._events_of(standing)
        known = request.query_params.get("known", "")
        count = _count(known, events)
        return _json(
            request,
            {
                "task": shown,
                "from": count,
                "events": events[count:],
                "known": f"{len(events)}:{digest_of(events)}",
                "problem": problem,
            },
        )

    async def answer(self, request: Request) -> Response:
        body = await _body(request)
        standing = await self._site.ledger.status(_text(body, "id"))
        asks, digest, said = ask_of(standing), _text(body, "digest"), _text(body, "answer")
        if asks is None or asks["digest"] != digest:
            raise NotAskedError("this is not asked any more", hint="look at what is asked now")
        key = _question_key(standing)
        if key in self._given:
            raise NotAskedError("this was answered already", hint="wait until a worker goes on with the task")
        if said not in ANSWERS[cast("Kind", asks["kind"])]:
            raise UsageError(f"`{said}` is no answer to this", code="bad_request")
        value = {
            "answer": said,
            "reason": _text(body, "reason", most=_REASON),
            "by": self._site.by,
            "via": "web",
            "budget": _budget(body) if said == "more" else None,
        }
        await self._site.ledger.signal(standing.id, f"answer-{digest}", value, key=digest)
        self._given[key] = said
        return _json(request, {"answered": said})

    async def pause(self, request: Request) -> Response:
        return await self._steered(request, "pause", self._site.ledger.pause)

    async def resume(self, request: Request) -> Response:
        return await self._steered(request, "resume", self._site.ledger.resume)

    async def cancel(self, request: Request) -> Response:
        return await self._steered(
            request, "cancel", lambda task: stop(self._site.ledger, task, by=self._site.by, via="web")
        )

    async def _steered(
        self, request: Request, name: str, steer: Callable[[str], Awaitable[None]]
    ) -> Response:
        standing = await self._site.ledger.status(_text(await _body(request), "id"))
        if name == "cancel" and standing.state in ENDS:
            raise NotAskedError("the task has ended", hint="nothing is left to cancel")
        if name != "cancel" and name not in actions_of(standing):
            raise NotAskedError(f"the task is `{standing.state}`", hint="look at how it stands now")
        await steer(standing.id)
        if name == "cancel":
            self._stopping.add(standing.id)
        self._listed = (-math.inf, ())
        return _json(request, {"done": name})

    async def _all(self) -> Sequence[Standing]:
        async with self._listing:
            if time.monotonic() - self._listed[0] > _FRESH:
                self._listed = (time.monotonic(), await self._site.ledger.list())
            return self._listed[1]

    async def _runs(self) -> Sequence[Standing]:
        runs = self._site.runs
        if runs is None:
            return ()
        async with self._reading:
            if time.monotonic() - self._ran[0] > _FRESH:
                self._ran = (time.monotonic(), await asyncio.to_thread(runs.all))
            return self._ran[1]

    async def _standing(self, name: str) -> Standing:
        """Return how a task of the workers stands, or a run."""
        if self._site.runs is not None:
            async with self._reading:
                found = await asyncio.to_thread(self._site.runs.find, name)
            if found is not None:
                return found
        return await self._site.ledger.status(name)

    async def _events_of(self, standing: Standing) -> tuple[list[JsonObject], str]:
        """Return what happened, and why that is not known."""
        head = published_of(standing).get("head")
        if not isinstance(head, str) or not head:
            return [], ""
        kept = self._events.get(standing.id)
        if kept is None or kept[0] != head:
            try:
                kept = (head, await asyncio.to_thread(self._read, head))
            except KakiteError as error:
                return [], error.message
            self._events[standing.id] = kept
            while len(self._events) > _KEPT:
                self._events.popitem(last=False)
        self._events.move_to_end(standing.id)
        return kept[1], ""

    def _read(self, head: str) -> list[JsonObject]:
        ours = self._site.runs.load(head) if self._site.runs else None
        told = as_json(events_of(ours or self._site.load_run(head)), self._site.redaction)
        return [event_of(event) for event in told]


def _question_key(standing: Standing) -> str:
    """Return what one question is known by: the same call may be asked about again later."""
    public, asks = published_of(standing), ask_of(standing)
    return digest_of([standing.id, asks and asks["digest"], public.get("turn"), public.get("head")])


def _count(known: str, events: Sequence[JsonObject]) -> int:
    """Return how many of the events the page has, by the number and digest that it was told with them."""
    number, _, digest = known.partition(":")
    count = int(number) if number.isascii() and number.isdecimal() and len(number) < 10 else 0
    return count if 0 < count <= len(events) and digest_of(events[:count]) == digest else 0


def _json(request: Request, value: JsonObject) -> Response:
    """Return the value; or nothing, to who has it."""
    from starlette.responses import Response

    tag = f'"{digest_of(value)}"'
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers={"etag": tag})
    return Response(json.dumps(value), media_type="application/json", headers={"etag": tag})


async def _body(request: Request) -> JsonObject:
    """Return the JSON object that was sent.

    Raises:
        UsageError: ``bad_request``.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    received = bytearray()
    try:
        async with asyncio.timeout(_BODY_TIME):
            async for chunk in request.stream():
                received += chunk
                if len(received) > _BODY:
                    raise UsageError("the request is too large", code="bad_request")
        found = json.loads(received) if kind == "application/json" else None
    except (TimeoutError, ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise UsageError("the request must be a JSON object", code="bad_request")
    return cast("JsonObject", whole_values(cast("object", found)))


def _text(body: JsonObject, name: str, *, most: int = 1_000) -> str:
    found = body.get(name, "")
    if not isinstance(found, str) or len(found) > most:
        raise UsageError(f"`{name}` must be a text of up to {most:,} characters", code="bad_request")
    return found


def _budget(body: JsonObject) -> dict[str, float]:
    """Return how much more is allowed.

    Raises:
        UsageError: nothing, or something that is no amount.
    """
    found = body.get("budget")
    given = cast("dict[object, object]", found) if isinstance(found, dict) else {}
    more = {str(name): value for name, value in given.items() if value is not None}
    if not more or not set(more) <= set(LIMITS) or not all(map(_is_amount, more.values())):
        hint = f"give one or more of {', '.join(LIMITS)}, each a number above 0"
        raise UsageError("it must be said how much more", hint=hint, code="bad_request")
    return cast("dict[str, float]", more)


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e12
