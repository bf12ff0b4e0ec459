"""Sends the webhooks of a fake forge: signed, in the order in which things happened."""

from __future__ import annotations

import hashlib
import hmac
import json
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

from kakite_testing.forges.store import WebhookEvent

_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """A webhook of a repository."""

    url: str
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One message that was sent, or could not be."""

    url: str
    headers: Mapping[str, str]
    body: bytes
    status: int
    """What was answered; 0 if nobody did."""


Describe = Callable[[WebhookEvent], tuple[str, dict[str, Any]] | None]
"""Returns the event's name and payload, None for what is not told."""
Sign = Callable[[str, str, bytes, str], dict[str, str]]
"""Takes the event, the delivery's id, the body and the secret; returns the headers."""


class WebhookSender:
    """Sends what happens to every hook, one message after the other."""

    def __init__(self, describe: Describe, sign: Sign) -> None:
        self.hooks: list[Webhook] = []
        self.deliveries: list[Delivery] = []
        self._describe = describe
        self._sign = sign
        self._sender = ThreadPoolExecutor(1, "fake-forge-hooks")

    def send(self, happening: WebhookEvent) -> None:
        """Send what happened; returns at once."""
        told = self._describe(happening) if self.hooks else None
        if told is None:
            return
        event, payload = told
        body = json.dumps(payload).encode()
        for hook in self.hooks:
            headers = self._sign(event, str(uuid.uuid4()), body, hook.secret)
            self._sender.submit(self._deliver, hook.url, headers, body)

    def redeliver(self, delivery: Delivery) -> None:
        """Send the very same message again, as forges do where an answer was late."""
        self._sender.submit(self._deliver, delivery.url, delivery.headers, delivery.body)

    def close(self) -> None:
        """Send what is left, and no more."""
        self._sender.shutdown()

    def _deliver(self, url: str, headers: Mapping[str, str], body: bytes) -> None:
        request = urllib.request.Request(url, body, dict(headers), method="POST")  # noqa: S310 - loopback
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310
                status = int(answer.status)
        except urllib.error.HTTPError as error:
            with error:
                status = error.code
        except OSError:
            status = 0
        self.deliveries.append(Delivery(url=url, headers=headers, body=body, status=status))


def sign_github(event: str, delivery: str, body: bytes, secret: str) -> dict[str, str]:
    """Return GitHub's headers."""
    digest = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return {
        "Content-Type": "application/json",
        "User-Agent": "GitHub-Hookshot/fake",
        "X-GitHub-Event": event,
        "X-GitHub-Delivery": delivery,
        "X-Hub-Signature-256": f"sha256={digest}",
    }


def sign_gitlab(event: str, delivery: str, _body: bytes, secret: str) -> dict[str, str]:
    """Return GitLab's headers: it sends the secret itself."""
    return {
        "Content-Type": "application/json",
        "User-Agent": "GitLab/fake",
        "X-Gitlab-Event": event,
        "X-Gitlab-Event-UUID": delivery,
        "Idempotency-Key": delivery,
        "X-Gitlab-Token": secret,
    }
