"""Receives webhooks from forges: verifies each delivery and wakes the worker.

A webhook is only a hint: whatever it reports is looked up again by polling. The signature is its only
authentication. A valid one makes the worker poll the forge, never twice at once.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp


MAX_BYTES: Final = 25 * 1024 * 1024
"""GitHub sends no more, GitLab neither."""

RejectedCode = Literal["no_secret", "bad_signature", "too_large", "no_event", "bad_body"]
IgnoredReason = Literal["ping", "other_event", "other_action"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookAccepted:
    """Something happened that may be for us: look."""

    delivery: str
    """The same for every attempt to deliver the message."""
    event: str
    action: str
    repository: str
    """``owner/name``."""
    number: int
    """The issue or pull request that it is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookIgnored:
    """It is from the forge, and changes nothing for us."""

    reason: IgnoredReason
    event: str
    action: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookRejected:
    """It is not from the forge, or cannot be understood. Nothing of it is to be believed."""

    code: RejectedCode
    message: str
    """What is wrong, for the one who sets the webhook up. Without secrets."""

    @property
    def status(self) -> int:
        """The HTTP status to answer with."""
        statuses = {"no_secret": 503, "bad_signature": 401, "too_large": 413}
        return statuses.get(self.code, 400)


WebhookResult = WebhookAccepted | WebhookIgnored | WebhookRejected

_COMMENTS: Final = frozenset({"created", "edited", "deleted"})
_GITHUB: Final[Mapping[str, frozenset[str]]] = {
    "issues": frozenset(
        {
            *("opened", "edited", "deleted", "transferred", "closed", "reopened"),
            *("labeled", "unlabeled", "assigned", "unassigned"),
        }
    ),
    "issue_comment": _COMMENTS,
    "pull_request": frozenset({"opened", "edited", "closed", "reopened"}),
    "pull_request_review": frozenset({"submitted", "edited", "dismissed"}),
    "pull_request_review_comment": _COMMENTS,
}
_GITLAB: Final[Mapping[str, str]] = {
    "Issue Hook": "issue",
    "Confidential Issue Hook": "issue",
    "Note Hook": "note",
    "Confidential Note Hook": "note",
    "Merge Request Hook": "merge_request",
}


class DeliveryLog:
    """The messages that came lately: forges send one again where an answer was late."""

    def __init__(self, most: int = 10_000) -> None:
        self._most = most
        self._seen: OrderedDict[str, None] = OrderedDict()

    def is_new(self, delivery: str) -> bool:
        """Return whether a message has not come before, and remember it."""
        if delivery in self._seen:
            self._seen.move_to_end(delivery)
            return False
        self._seen[delivery] = None
        if len(self._seen) > self._most:
            self._seen.popitem(last=False)
        return True


def verify_github(headers: Mapping[str, str], body: bytes, secret: str) -> WebhookResult:
    """Judge a message that claims to be from GitHub. Never raises.

    Args:
        headers: of the request, names in any case.
        body: the very bytes that came: the signature is over them.
        secret: what the webhook was set up with.
    """
    told = {name.lower(): value for name, value in headers.items()}
    wrong = _check_size_and_secret(body, secret)
    if wrong is not None:
        return wrong
    digest = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    if not _is_equal(told.get("x-hub-signature-256", ""), f"sha256={digest}"):
        return WebhookRejected(
            code="bad_signature", message="`X-Hub-Signature-256` is missing, or was not made with our secret"
        )
    event, delivery = told.get("x-github-event", ""), told.get("x-github-delivery", "")
    if not event or not delivery:
        return WebhookRejected(code="no_event", message="`X-GitHub-Event` or `X-GitHub-Delivery` is missing")
    payload = _decode(body)
    if payload is None:
        return WebhookRejected(
            code="bad_body", message="set the webhook's content type to `application/json`"
        )
    return _classify_github(event, delivery, payload)


def verify_gitlab(headers: Mapping[str, str], body: bytes, secret: str) -> WebhookResult:
    """Judge a message that claims to be from GitLab, like ``verify_github``. Never raises."""
    told = {name.lower(): value for name, value in headers.items()}
    wrong = _check_size_and_secret(body, secret)
    if wrong is not None:
        return wrong
    if not _is_equal(told.get("x-gitlab-token", ""), secret):
        return WebhookRejected(code="bad_signature", message="`X-Gitlab-Token` is missing or not our secret")
    event = told.get("x-gitlab-event", "")
    delivery = told.get("idempotency-key") or told.get("x-gitlab-event-uuid", "")
    if not event or not delivery:
        return WebhookRejected(code="no_event", message="`X-Gitlab-Event` or `Idempotency-Key` is missing")
    payload = _decode(body)
    if payload is None:
        return WebhookRejected(code="bad_body", message="the message is not a JSON object")
    return _classify_gitlab(event, delivery, payload)


def _classify_github(event: str, delivery: str, payload: dict[str, Any]) -> WebhookResult:
    action = _text(payload.get("action"))
    if event == "ping":
        return WebhookIgnored(reason="ping", event=event)
    if event not in _GITHUB:
        return WebhookIgnored(reason="other_event", event=event)
    if action not in _GITHUB[event]:
        return WebhookIgnored(reason="other_action", event=event, action=action)
    about = payload.get("pull_request") or payload.get("issue")
    return _accept(event, delivery, action, (payload.get("repository"), "full_name"), (about, "number"))


def _classify_gitlab(event: str, delivery: str, payload: dict[str, Any]) -> WebhookResult:
    kind = _GITLAB.get(event)
    attributes = payload.get("object_attributes")
    if kind is None:
        return WebhookIgnored(reason="other_event", event=event)
    if kind == "note":
        about = payload.get("issue") or payload.get("merge_request")
        if about is None:  # on a commit, or a snippet
            return WebhookIgnored(reason="other_action", event=event)
    else:
        about = attributes
    action = _text(_field(attributes, "action")) or "created"
    project = (payload.get("project"), "path_with_namespace")
    return _accept(event, delivery, action, project, (about, "iid"))


def _accept(
    event: str, delivery: str, action: str, repository: tuple[Any, str], about: tuple[Any, str]
) -> WebhookResult:
    name, number = _field(*repository), _field(*about)
    if not isinstance(name, str) or not isinstance(number, int):
        return WebhookRejected(code="bad_body", message=f"`{event}` does not say which issue it is about")
    return WebhookAccepted(delivery=delivery, event=event, action=action, repository=name, number=number)


def _check_size_and_secret(body: bytes, secret: str) -> WebhookRejected | None:
    if not secret:  # else anybody who sends an empty one would be believed
        return WebhookRejected(code="no_secret", message="no secret is set up for webhooks")
    if len(body) > MAX_BYTES:
        return WebhookRejected(code="too_large", message=f"a message has at most {MAX_BYTES} bytes")
    return None


def _is_equal(told: str, wanted: str) -> bool:
    return hmac.compare_digest(told.encode("utf-8", "surrogateescape"), wanted.encode())


def _decode(body: bytes) -> dict[str, Any] | None:
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return _as_dict(told) if isinstance(told, dict) else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _field(value: Any, name: str) -> Any:
    return _as_dict(value).get(name) if isinstance(value, dict) else None


def _as_dict(value: Any) -> dict[str, Any]:
    return value


WEBHOOK: Final = "/webhook"
HEALTH: Final = "/healthz"
_MIN_INTERVAL: Final = 0.5  # s between two looks, however often it rings
_MAX_CONCURRENT: Final = 4  # messages that are read; more wait for these
_BODY_TIMEOUT: Final = 10.0  # in which a message has to be there
_SIGNATURES: Final[Mapping[str, str]] = {"github": "x-hub-signature-256", "gitlab": "x-gitlab-token"}

WebhookVerifier = Callable[[Mapping[str, str], bytes, str], WebhookResult]
VERIFIERS: Final[Mapping[str, WebhookVerifier]] = {"github": verify_github, "gitlab": verify_gitlab}
"""By the forge's kind. Others send no webhooks."""


class WakeEvent:
    """Wakes one who sleeps between two looks. Ringing it again before it is heard changes nothing."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()
        self._heard = -_MIN_INTERVAL
        self.looks = 0
        """How often one has come to the end of a look."""

    def wake(self) -> None:
        """Wake: at once, or after the look that is under way."""
        self._rung.set()

    async def wait(self, seconds: float) -> None:
        """Return when it has rung since the last time, or after so many seconds."""
        self.looks += 1
        try:
            async with asyncio.timeout(seconds):
                await self._rung.wait()
                await asyncio.sleep(self._heard + _MIN_INTERVAL - time.monotonic())
        except TimeoutError:
            pass
        self._rung.clear()
        self._heard = time.monotonic()


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookConfig:
    """The webhooks that are accepted."""

    kind: str
    """``github`` or ``gitlab``."""
    path: str
    """The repository: what happens in others is not for us."""
    secret: str = field(repr=False)
    bell: WakeEvent
    say: Callable[[str], None] = lambda _line: None
    """Is told why a message is refused: who sets the webhook up should see it."""


def create_webhook_app(doorbell: WebhookConfig) -> ASGIApp:
    """Return the web application: ``POST /webhook`` for the forge, ``GET /healthz`` for who watches us."""
    from starlette.applications import Starlette
    from starlette.routing import Route

    listener = _WebhookRoutes(doorbell)
    return Starlette(
        routes=[
            Route(WEBHOOK, listener.receive, methods=["POST"]),
            Route(HEALTH, listener.health),
        ]
    )


class _TooLargeError(Exception):
    pass


class _WebhookRoutes:
    def __init__(self, doorbell: WebhookConfig) -> None:
        self._doorbell = doorbell
        self._deliveries = DeliveryLog()
        self._reading = asyncio.Semaphore(_MAX_CONCURRENT)

    async def health(self, _request: Request) -> Response:
        return _build_response(200, {"status": "ok", "looks": self._doorbell.bell.looks})

    async def receive(self, request: Request) -> Response:
        verdict = await self._verify_request(request)
        match verdict:
            case WebhookRejected():
                self._doorbell.say(f"webhook refused: {verdict.message} ({verdict.code})")
                return _build_response(verdict.status, {"refused": verdict.code, "message": verdict.message})
            case WebhookIgnored():
                return _build_response(200, {"ignored": verdict.reason})
            case WebhookAccepted():
                return self._handle_accepted(verdict)

    def _handle_accepted(self, message: WebhookAccepted) -> Response:
        if message.repository.casefold() != self._doorbell.path.casefold():
            return _build_response(200, {"ignored": "other_repository"})
        if not self._deliveries.is_new(message.delivery):
            return _build_response(200, {"ignored": "came_before"})
        self._doorbell.bell.wake()
        return _build_response(202, {"accepted": message.event})

    async def _verify_request(self, request: Request) -> WebhookResult:
        door = self._doorbell
        judge = VERIFIERS[door.kind]
        if not door.secret or _SIGNATURES[door.kind] not in request.headers:
            return judge(request.headers, b"", door.secret)  # no byte of a stranger's is taken in
        try:
            async with asyncio.timeout(_BODY_TIMEOUT), self._reading:
                body = await _read_body(request)
        except TimeoutError:
            return WebhookRejected(
                code="bad_body", message=f"the message did not come within {_BODY_TIMEOUT:g} s"
            )
        except _TooLargeError:
            return WebhookRejected(code="too_large", message=f"a message has at most {MAX_BYTES} bytes")
        return judge(request.headers, body, door.secret)


async def _read_body(request: Request) -> bytes:
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared[:20]) > MAX_BYTES:
        raise _TooLargeError
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BYTES:
            raise _TooLargeError
    return bytes(body)


def _build_response(status: int, value: Mapping[str, object]) -> Response:
    from starlette.responses import Response

    # Who is refused may still be sending: the connection is of no use to the next message.
    headers = {"connection": "close"} if status >= 400 else {}
    return Response(json.dumps(value), status, headers, "application/json")
