"""What a forge's webhook may do: wake us, if it is really from there. Pure.

A webhook is a hint and no more: whatever it tells is looked up again by polling. So little of it is read, and
what is read decides nothing but whether to look.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

MOST_BYTES: Final = 25 * 1024 * 1024
"""GitHub sends no more, GitLab neither."""

RefusedCode = Literal["no_secret", "bad_signature", "too_large", "no_event", "bad_body"]
IgnoredReason = Literal["ping", "other_event", "other_action"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
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
class Ignored:
    """It is from the forge, and changes nothing for us."""

    reason: IgnoredReason
    event: str
    action: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """It is not from the forge, or cannot be understood. Nothing of it is to be believed."""

    code: RefusedCode
    message: str
    """What is wrong, for the one who sets the webhook up. Without secrets."""

    @property
    def status(self) -> int:
        """The HTTP status to answer with."""
        statuses = {"no_secret": 503, "bad_signature": 401, "too_large": 413}
        return statuses.get(self.code, 400)


Verdict = Accepted | Ignored | Refused

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


class Deliveries:
    """The messages that came lately: forges send one again where an answer was late."""

    def __init__(self, most: int = 10_000) -> None:
        self._most = most
        self._seen: OrderedDict[str, None] = OrderedDict()

    def is_new(self, delivery: str) -> bool:
        """Tell whether a message has not come before, and remember it."""
        if delivery in self._seen:
            self._seen.move_to_end(delivery)
            return False
        self._seen[delivery] = None
        if len(self._seen) > self._most:
            self._seen.popitem(last=False)
        return True


def receive_github(headers: Mapping[str, str], body: bytes, secret: str) -> Verdict:
    """Judge a message that claims to be from GitHub. Never raises.

    Args:
        headers: of the request, names in any case.
        body: the very bytes that came: the signature is over them.
        secret: what the webhook was set up with.
    """
    told = {name.lower(): value for name, value in headers.items()}
    wrong = _size_or_secret(body, secret)
    if wrong is not None:
        return wrong
    digest = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    if not _equal(told.get("x-hub-signature-256", ""), f"sha256={digest}"):
        return Refused(code="bad_signature", message="`X-Hub-Signature-256` is missing or not by our secret")
    event, delivery = told.get("x-github-event", ""), told.get("x-github-delivery", "")
    if not event or not delivery:
        return Refused(code="no_event", message="`X-GitHub-Event` or `X-GitHub-Delivery` is missing")
    payload = _decode(body)
    if payload is None:
        return Refused(code="bad_body", message="set the webhook's content type to `application/json`")
    return _judge_github(event, delivery, payload)


def receive_gitlab(headers: Mapping[str, str], body: bytes, secret: str) -> Verdict:
    """Judge a message that claims to be from GitLab, like ``receive_github``. Never raises."""
    told = {name.lower(): value for name, value in headers.items()}
    wrong = _size_or_secret(body, secret)
    if wrong is not None:
        return wrong
    if not _equal(told.get("x-gitlab-token", ""), secret):
        return Refused(code="bad_signature", message="`X-Gitlab-Token` is missing or not our secret")
    event = told.get("x-gitlab-event", "")
    delivery = told.get("idempotency-key") or told.get("x-gitlab-event-uuid", "")
    if not event or not delivery:
        return Refused(code="no_event", message="`X-Gitlab-Event` or `Idempotency-Key` is missing")
    payload = _decode(body)
    if payload is None:
        return Refused(code="bad_body", message="the message is no JSON object")
    return _judge_gitlab(event, delivery, payload)


def _judge_github(event: str, delivery: str, payload: dict[str, Any]) -> Verdict:
    action = _text(payload.get("action"))
    if event == "ping":
        return Ignored(reason="ping", event=event)
    if event not in _GITHUB:
        return Ignored(reason="other_event", event=event)
    if action not in _GITHUB[event]:
        return Ignored(reason="other_action", event=event, action=action)
    about = payload.get("pull_request") or payload.get("issue")
    return _accept(event, delivery, action, (payload.get("repository"), "full_name"), (about, "number"))


def _judge_gitlab(event: str, delivery: str, payload: dict[str, Any]) -> Verdict:
    kind = _GITLAB.get(event)
    attributes = payload.get("object_attributes")
    if kind is None:
        return Ignored(reason="other_event", event=event)
    if kind == "note":
        about = payload.get("issue") or payload.get("merge_request")
        if about is None:  # on a commit, or a snippet
            return Ignored(reason="other_action", event=event)
    else:
        about = attributes
    action = _text(_field(attributes, "action")) or "created"
    project = (payload.get("project"), "path_with_namespace")
    return _accept(event, delivery, action, project, (about, "iid"))


def _accept(
    event: str, delivery: str, action: str, repository: tuple[Any, str], about: tuple[Any, str]
) -> Verdict:
    name, number = _field(*repository), _field(*about)
    if not isinstance(name, str) or not isinstance(number, int):
        return Refused(code="bad_body", message=f"`{event}` does not say which issue it is about")
    return Accepted(delivery=delivery, event=event, action=action, repository=name, number=number)


def _size_or_secret(body: bytes, secret: str) -> Refused | None:
    if not secret:  # else anybody who sends an empty one would be believed
        return Refused(code="no_secret", message="no secret is set up for webhooks")
    if len(body) > MOST_BYTES:
        return Refused(code="too_large", message=f"a message has at most {MOST_BYTES} bytes")
    return None


def _equal(told: str, wanted: str) -> bool:
    return hmac.compare_digest(told.encode("utf-8", "surrogateescape"), wanted.encode())


def _decode(body: bytes) -> dict[str, Any] | None:
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return _mapped(told) if isinstance(told, dict) else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _field(value: Any, name: str) -> Any:
    return _mapped(value).get(name) if isinstance(value, dict) else None


def _mapped(value: Any) -> dict[str, Any]:
    return value
