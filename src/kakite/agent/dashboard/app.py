"""The web application of the dashboard: static files, a JSON API for tasks, health and metrics.

It reads and controls workflows through the workflow client alone, so it works while no worker runs.
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
from typing import TYPE_CHECKING, Literal, cast

from kakite.agent.dashboard.auth import DashboardAuth, require_auth
from kakite.agent.dashboard.local_runs import RUN_LABEL, SESSION_LABEL, LocalRuns
from kakite.agent.dashboard.views import (
    ANSWERS,
    LIMITS,
    QuestionKind,
    build_detail_view,
    build_list_item,
    compute_digest,
    find_pending_question,
    get_published,
    list_actions,
)
from kakite.agent.observe.event_log import build_event_log, redact_events
from kakite.agent.observe.renderers.page import render_page_events
from kakite.agent.run.state import RunState
from kakite.agent.session.mailbox import MAX_MESSAGE, MailAnswer, Mailbox, MailboxError
from kakite.agent.worker.loop import signal_answer, stop_task
from kakite.agent.worker.payloads import HumanAnswer
from kakite.durable.client import END_STATES, WorkflowClient, WorkflowDescription
from kakite.errors import ExternalError, KakiteError, UsageError
from kakite.http.security import render_login_page
from kakite.redaction import Redaction
from kakite.terminal_text import replace_surrogates_in_json
from kakite.tools.toolset import JsonObject

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

_FRESH = 0.3  # s for which the list is not asked of the client again, however many look
_BODY = 64 * 1024  # bytes
_BODY_TIME = 10  # s
_REASON = 2_000  # characters
_KEPT = 8  # tasks whose events are kept ready
_TYPES = {"css": "text/css", "js": "text/javascript", "html": "text/html", "svg": "image/svg+xml"}

LoadRun = Callable[[str], RunState]
"""Returns the run that a published ``head`` names; may read files. Raises KakiteError."""


class NothingPendingError(KakiteError):
    """The answer or action is not expected, or not possible, any more: ``not_asked``."""

    code = "not_asked"


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardConfig:
    """The settings of the dashboard: what it shows, and who answers on it."""

    client: WorkflowClient
    load_run: LoadRun
    by: str
    """The person's name, for the task's record."""
    redaction: Redaction
    runs: LocalRuns | None = None
    """The runs that no worker does, to be seen as well."""


def create_app(site: DashboardConfig, door: DashboardAuth) -> ASGIApp:
    """Return the web application, behind its door."""
    from starlette.applications import Starlette
    from starlette.routing import Route

    routes = _DashboardRoutes(site)
    told = _handle_errors
    routes = [
        Route("/", _serve_file("index.html")),
        Route("/style.css", _serve_file("style.css")),
        Route("/page.js", _serve_file("page.js")),
        Route("/icon.svg", _serve_file("icon.svg")),
        Route("/healthz", told(routes.check_health)),
        Route("/metrics", told(routes.get_metrics)),
        Route("/api/tasks", told(routes.list_tasks)),
        Route("/api/task", told(routes.get_task)),
        Route("/api/answer", told(routes.answer_question), methods=["POST"]),
        Route("/api/message", told(routes.send_message), methods=["POST"]),
        Route("/api/pause", told(routes.pause), methods=["POST"]),
        Route("/api/resume", told(routes.resume), methods=["POST"]),
        Route("/api/cancel", told(routes.cancel), methods=["POST"]),
    ]
    return require_auth(Starlette(routes=routes), door, login=_create_login_app())


Endpoint = Callable[["Request"], Awaitable["Response"]]


def _handle_errors(work: Endpoint) -> Endpoint:
    """Return what answers a request also when it fails."""
    from starlette.responses import JSONResponse

    async def handle(request: Request) -> Response:
        try:
            return await work(request)
        except KakiteError as error:
            told = {"code": error.code, "message": error.message, "hint": error.hint}
            return JSONResponse({"error": told}, _get_status_code(error))

    return handle


def _get_status_code(error: KakiteError) -> int:
    if error.code == "workflow_unknown":
        return 404
    if isinstance(error, NothingPendingError):
        return 409
    return 503 if isinstance(error, ExternalError) else 400


def _serve_file(name: str) -> Endpoint:
    from starlette.responses import Response

    content = (files("kakite.agent.dashboard") / "files" / name).read_bytes()

    async def handle(_request: Request) -> Response:
        return Response(content, media_type=_TYPES[name.rpartition(".")[2]])

    return handle


def _create_login_app() -> ASGIApp:
    from starlette.responses import Response

    content = render_login_page("kakite agent web", title="Kakite", style="/style.css")
    return Response(content, 401, media_type="text/html")


class _DashboardRoutes:
    """Answers to requests, and the little that is remembered between them."""

    def __init__(self, site: DashboardConfig) -> None:
        self._site = site
        self._listed: tuple[float, Sequence[WorkflowDescription]] = (-math.inf, ())
        self._listing = asyncio.Lock()
        self._reading = asyncio.Lock()
        self._ran: tuple[float, Sequence[WorkflowDescription]] = (-math.inf, ())
        self._events: OrderedDict[str, tuple[str, list[JsonObject]]] = OrderedDict()
        self._given: dict[str, str] = {}
        """What was answered here, until the worker has taken it."""
        self._stopping: set[str] = set()
        """The tasks that were told here to stop, until a worker has ended them."""

    async def check_health(self, _request: Request) -> Response:
        from starlette.responses import PlainTextResponse

        await self._list_workflows()
        return PlainTextResponse("ok\n")

    async def get_metrics(self, _request: Request) -> Response:
        from starlette.responses import Response

        from kakite.agent.dashboard.metrics import CONTENT_TYPE, render_metrics

        return Response(
            render_metrics(await self._list_workflows(), datetime.now(UTC)),
            headers={"content-type": CONTENT_TYPE},
        )

    async def list_tasks(self, request: Request) -> Response:
        found = sorted(
            (*await self._list_workflows(), *await self._list_runs()),
            key=lambda each: each.created,
            reverse=True,
        )
        rows = [build_list_item(standing, self._site.redaction) for standing in found]
        return _build_json_response(request, {"tasks": rows})

    async def get_task(self, request: Request) -> Response:
        standing = await self._find_task(request.query_params.get("id", ""))
        answered = self._given.get(_make_question_key(standing), "")
        if standing.state in END_STATES:
            self._stopping.discard(standing.id)
        stopping = standing.id in self._stopping
        shown = build_detail_view(standing, self._site.redaction, answered=answered, stopping=stopping)
        events, problem = await self._load_events(standing)
        known = request.query_params.get("known", "")
        count = _count_known(known, events)
        return _build_json_response(
            request,
            {
                "task": shown,
                "from": count,
                "events": events[count:],
                "known": f"{len(events)}:{compute_digest(events)}",
                "problem": problem,
            },
        )

    async def answer_question(self, request: Request) -> Response:
        body = await _read_body(request)
        standing = await self._find_answerable(_get_text(body, "id"))
        asks, digest, said = (
            find_pending_question(standing),
            _get_text(body, "digest"),
            _get_text(body, "answer"),
        )
        if asks is None or asks["digest"] != digest:
            raise NothingPendingError(
                "this question is no longer open", hint="look at the question that is open now"
            )
        key = _make_question_key(standing)
        if key in self._given:
            raise NothingPendingError(
                "this question already has an answer", hint="wait until a worker goes on with the task"
            )
        if said not in ANSWERS[cast("QuestionKind", asks["kind"])]:
            raise UsageError(f"`{said}` is not an answer to this question", code="bad_request")
        if standing.workflow == SESSION_LABEL:
            await self._answer_session(standing.id, digest, said, _get_text(body, "reason", most=_REASON))
            return _build_json_response(request, {"answered": said})
        value = HumanAnswer(
            answer=said,
            reason=_get_text(body, "reason", most=_REASON),
            by=self._site.by,
            via="web",
            budget=_parse_limits(body) if said == "more" else None,
        )
        await signal_answer(self._site.client, standing.id, asks, value)
        self._given[key] = said
        return _build_json_response(request, {"answered": said})

    async def send_message(self, request: Request) -> Response:
        """Leave a message for a session; whoever has it open takes it, or whoever opens it next."""
        body = await _read_body(request)
        text = _get_text(body, "text", most=MAX_MESSAGE)
        if not text.strip():
            raise UsageError("the message is empty", code="bad_request")
        mailbox = await self._find_mailbox(_get_text(body, "id"))
        await asyncio.to_thread(mailbox.put_message, text)
        return _build_json_response(request, {"sent": True})

    async def _answer_session(self, name: str, digest: str, said: str, reason: str) -> None:
        mailbox = await self._find_mailbox(name)
        answer = MailAnswer(answer=cast("Literal['yes', 'no', 'answer']", said), reason=reason)
        try:
            await asyncio.to_thread(mailbox.put_answer, digest, answer)
        except MailboxError as error:
            raise NothingPendingError(error.message, hint=error.hint) from error

    async def _find_mailbox(self, name: str) -> Mailbox:
        """Return the mailbox of a session.

        Raises:
            WorkflowError: there is no such task at all (``workflow_unknown``).
            NothingPendingError: it is no session.
        """
        if self._site.runs is not None:
            async with self._reading:
                found = await asyncio.to_thread(self._site.runs.find_mailbox, name)
            if found is not None:
                return found
        await self._site.client.describe(name)
        raise NothingPendingError("this is no session", hint="messages are for sessions")

    async def _find_answerable(self, name: str) -> WorkflowDescription:
        """Return a task of the workers, or a session: a run asks at its own terminal."""
        standing = await self._find_task(name)
        return standing if standing.workflow != RUN_LABEL else await self._site.client.describe(name)

    async def pause(self, request: Request) -> Response:
        return await self._control_task(request, "pause", self._site.client.pause)

    async def resume(self, request: Request) -> Response:
        return await self._control_task(request, "resume", self._site.client.resume)

    async def cancel(self, request: Request) -> Response:
        return await self._control_task(
            request, "cancel", lambda task: stop_task(self._site.client, task, by=self._site.by, via="web")
        )

    async def _control_task(
        self, request: Request, name: str, steer: Callable[[str], Awaitable[None]]
    ) -> Response:
        standing = await self._site.client.describe(_get_text(await _read_body(request), "id"))
        if name == "cancel" and standing.state in END_STATES:
            raise NothingPendingError("the task has ended", hint="nothing is left to cancel")
        if name != "cancel" and name not in list_actions(standing):
            raise NothingPendingError(f"the task is `{standing.state}`", hint="look at its state now")
        await steer(standing.id)
        if name == "cancel":
            self._stopping.add(standing.id)
        self._listed = (-math.inf, ())
        return _build_json_response(request, {"done": name})

    async def _list_workflows(self) -> Sequence[WorkflowDescription]:
        async with self._listing:
            if time.monotonic() - self._listed[0] > _FRESH:
                self._listed = (time.monotonic(), await self._site.client.list_workflows())
            return self._listed[1]

    async def _list_runs(self) -> Sequence[WorkflowDescription]:
        runs = self._site.runs
        if runs is None:
            return ()
        async with self._reading:
            if time.monotonic() - self._ran[0] > _FRESH:
                self._ran = (time.monotonic(), await asyncio.to_thread(runs.list_runs))
            return self._ran[1]

    async def _find_task(self, name: str) -> WorkflowDescription:
        """Return how a task of the workers stands, or a run."""
        if self._site.runs is not None:
            async with self._reading:
                found = await asyncio.to_thread(self._site.runs.find, name)
            if found is not None:
                return found
        return await self._site.client.describe(name)

    async def _load_events(self, standing: WorkflowDescription) -> tuple[list[JsonObject], str]:
        """Return what happened, and why that is not known."""
        head = get_published(standing).get("head")
        if not isinstance(head, str) or not head:
            return [], ""
        kept = self._events.get(standing.id)
        if kept is None or kept[0] != head:
            try:
                kept = (head, await asyncio.to_thread(self._read_events, head))
            except KakiteError as error:
                return [], error.message
            self._events[standing.id] = kept
            while len(self._events) > _KEPT:
                self._events.popitem(last=False)
        self._events.move_to_end(standing.id)
        return kept[1], ""

    def _read_events(self, head: str) -> list[JsonObject]:
        ours = self._site.runs.load(head) if self._site.runs else None
        events = build_event_log(ours or self._site.load_run(head))
        return render_page_events(redact_events(events, self._site.redaction))


def _make_question_key(standing: WorkflowDescription) -> str:
    """Return what one question is known by: the same call may be asked about again later."""
    public, asks = get_published(standing), find_pending_question(standing)
    return compute_digest([standing.id, asks and asks["digest"], public.get("turn"), public.get("head")])


def _count_known(known: str, events: Sequence[JsonObject]) -> int:
    """Return how many of the events the page has, by the number and digest that it was told with them."""
    number, _, digest = known.partition(":")
    count = int(number) if number.isascii() and number.isdecimal() and len(number) < 10 else 0
    return count if 0 < count <= len(events) and compute_digest(events[:count]) == digest else 0


def _build_json_response(request: Request, value: JsonObject) -> Response:
    """Return the value; or nothing, to who has it."""
    from starlette.responses import Response

    tag = f'"{compute_digest(value)}"'
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers={"etag": tag})
    return Response(json.dumps(value), media_type="application/json", headers={"etag": tag})


async def _read_body(request: Request) -> JsonObject:
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
    return cast("JsonObject", replace_surrogates_in_json(cast("object", found)))


def _get_text(body: JsonObject, name: str, *, most: int = 1_000) -> str:
    found = body.get(name, "")
    if not isinstance(found, str) or len(found) > most:
        raise UsageError(f"`{name}` must be a text of up to {most:,} characters", code="bad_request")
    return found


def _parse_limits(body: JsonObject) -> dict[str, float]:
    """Return how much more is allowed.

    Raises:
        UsageError: nothing, or something that is no amount.
    """
    found = body.get("budget")
    given = cast("dict[object, object]", found) if isinstance(found, dict) else {}
    more = {str(name): value for name, value in given.items() if value is not None}
    if not more or not set(more) <= set(LIMITS) or not all(map(_is_amount, more.values())):
        hint = f"give one or more of {', '.join(LIMITS)}, each a number above 0"
        raise UsageError("say how much more to allow", hint=hint, code="bad_request")
    return cast("dict[str, float]", more)


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e12
