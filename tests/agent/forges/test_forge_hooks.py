"""Which messages wake us, and which do not: by GitHub's own examples, and by what our fakes send."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.agent.forges.webhooks import (
    DeliveryLog,
    WebhookAccepted,
    WebhookIgnored,
    WebhookRejected,
    verify_github,
    verify_gitlab,
)
from kakite_testing.forges import Webhook, fake_github, fake_gitlab
from kakite_testing.forges.hooks import sign_github, sign_gitlab
from tests.bounds import WITHIN

EXAMPLES = (
    Path(__file__).parents[2] / "clients/node_modules/@octokit/webhooks-examples/api.github.com/index.json"
)
SECRET = "s3cret"

# What wakes us. Every other event and action of the examples is ignored.
ACCEPTED = {
    "issues": "assigned deleted edited labeled opened reopened transferred unassigned unlabeled",
    "issue_comment": "created deleted edited",
    "pull_request": "closed opened reopened",
    "pull_request_review": "dismissed submitted",
    "pull_request_review_comment": "created deleted edited",
}


def examples() -> list[Any]:
    if not EXAMPLES.exists():
        return []
    return json.loads(EXAMPLES.read_text(encoding="utf-8"))


@pytest.mark.client
@pytest.mark.skipif(not EXAMPLES.exists(), reason="`make clients` gets GitHub's examples")
def test_all_of_githubs_examples_are_accepted_or_ignored_as_the_table_says() -> None:
    accepted: dict[str, set[str]] = {}
    count = 0
    for event in examples():
        for payload in event["examples"]:
            count += 1
            body = json.dumps(payload).encode()
            verdict = verify_github(sign_github(event["name"], str(count), body, SECRET), body, SECRET)
            if isinstance(verdict, WebhookAccepted):
                accepted.setdefault(event["name"], set()).add(verdict.action)
                about = payload.get("pull_request") or payload["issue"]
                assert verdict.number == about["number"]
                assert verdict.repository == payload["repository"]["full_name"]
            else:
                assert isinstance(verdict, WebhookIgnored), (event["name"], verdict)
                reasons = {"ping": "ping"} | dict.fromkeys(ACCEPTED, "other_action")
                assert verdict.reason == reasons.get(event["name"], "other_event")
    assert count == 329
    assert {event: " ".join(sorted(actions)) for event, actions in accepted.items()} == ACCEPTED


@pytest.fixture
def inbox() -> Generator[tuple[str, Queue[tuple[dict[str, str], bytes]]]]:
    messages: Queue[tuple[dict[str, str], bytes]] = Queue()

    class Inbox(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            messages.put((dict(self.headers.items()), body))
            self.send_response(202)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's own name
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Inbox)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", messages
    finally:
        server.shutdown()
        server.server_close()
        thread.join(WITHIN)


@pytest.mark.parametrize("kind", ["github", "gitlab"])
def test_what_people_do_on_a_forge_wakes_us_once(
    kind: str, tmp_path: Path, inbox: tuple[str, Queue[tuple[dict[str, str], bytes]]]
) -> None:
    address, messages = inbox
    receive = verify_github if kind == "github" else verify_gitlab
    deliveries = DeliveryLog()
    with (fake_github if kind == "github" else fake_gitlab)(tmp_path) as fake:
        fake.outbox.hooks.append(Webhook(url=address, secret=SECRET))
        item = fake.state.open_issue("Bug", by="ann", labels=("kakite",))
        fake.state.comment(item, "@kakite please", by="ann")
        got = [messages.get(timeout=WITHIN) for _ in range(3)]
        verdicts = [receive(headers, body, SECRET) for headers, body in got]
        for verdict in verdicts:
            assert isinstance(verdict, WebhookAccepted)
            assert (verdict.repository, verdict.number) == (fake.path, 1)
            assert deliveries.is_new(verdict.delivery)
        fake.outbox.redeliver(fake.outbox.deliveries[0])
        again = receive(*messages.get(timeout=WITHIN), SECRET)
        assert isinstance(again, WebhookAccepted)
        assert not deliveries.is_new(again.delivery)


def messages_of(kind: str, body: bytes, secret: str = SECRET) -> dict[str, str]:
    if kind == "github":
        return sign_github("issues", "1", body, secret)
    return sign_gitlab("Issue Hook", "1", body, secret)


BODIES = {
    "github": b'{"action": "opened", "issue": {"number": 1}, "repository": {"full_name": "team/app"}}',
    "gitlab": (
        b'{"object_attributes": {"iid": 1, "action": "open"}, "project": {"path_with_namespace": "team/app"}}'
    ),
}
RECEIVE = {"github": verify_github, "gitlab": verify_gitlab}


@pytest.mark.parametrize("kind", ["github", "gitlab"])
def test_a_message_by_the_right_secret_is_accepted_in_any_spelling_of_its_headers(kind: str) -> None:
    headers = {name.upper(): value for name, value in messages_of(kind, BODIES[kind]).items()}
    assert isinstance(RECEIVE[kind](headers, BODIES[kind], SECRET), WebhookAccepted)


@pytest.mark.parametrize("kind", ["github", "gitlab"])
@pytest.mark.parametrize("secret", ["", "S3cret", "s3cret ", "s3cre", "ѕ3cret"])
def test_a_message_by_another_secret_is_refused(kind: str, secret: str) -> None:
    verdict = RECEIVE[kind](messages_of(kind, BODIES[kind], secret), BODIES[kind], SECRET)
    assert isinstance(verdict, WebhookRejected)
    assert (verdict.code, verdict.status) == ("bad_signature", 401)


@pytest.mark.parametrize("kind", ["github", "gitlab"])
def test_without_a_secret_nobody_is_believed(kind: str) -> None:
    verdict = RECEIVE[kind](messages_of(kind, BODIES[kind], ""), BODIES[kind], "")
    assert isinstance(verdict, WebhookRejected)
    assert verdict.code == "no_secret"


def test_a_message_larger_than_any_of_a_forges_is_refused() -> None:
    body = b" " * (25 * 1024 * 1024 + 1)
    verdict = verify_github(sign_github("issues", "1", body, SECRET), body, SECRET)
    assert isinstance(verdict, WebhookRejected)
    assert (verdict.code, verdict.status) == ("too_large", 413)


def test_a_single_changed_byte_breaks_githubs_signature() -> None:
    body = BODIES["github"]
    headers = messages_of("github", body)
    verdict = verify_github(headers, body.replace(b"1", b"2"), SECRET)
    assert isinstance(verdict, WebhookRejected)
    assert verdict.code == "bad_signature"


@pytest.mark.parametrize("kind", ["github", "gitlab"])
@pytest.mark.parametrize("name", ["event", "delivery", "idempotency"])
def test_a_message_that_does_not_say_what_it_is_is_refused(kind: str, name: str) -> None:
    told = messages_of(kind, BODIES[kind])
    headers = {key: value for key, value in told.items() if name not in key.lower()}
    verdict = RECEIVE[kind](headers, BODIES[kind], SECRET)
    assert isinstance(verdict, WebhookAccepted) == (headers == told or "X-Gitlab-Event-UUID" in headers)


@pytest.mark.parametrize("body", [b"", b"[]", b"payload=%7B%7D", b"{", b"\xff", b"[" * 100_000, b"{}"])
@pytest.mark.parametrize("kind", ["github", "gitlab"])
def test_a_body_in_another_form_is_refused_or_ignored(kind: str, body: bytes) -> None:
    verdict = RECEIVE[kind](messages_of(kind, body), body, SECRET)
    assert isinstance(verdict, WebhookRejected | WebhookIgnored)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
NAMES = ["action", "issue", "pull_request", "repository", "project", "object_attributes", "merge_request"]


@given(
    payload=st.dictionaries(st.sampled_from(NAMES), json_values),
    event=st.sampled_from(["issues", "pull_request", "issue_comment", "Issue Hook", "Note Hook", "x"]),
    kind=st.sampled_from(["github", "gitlab"]),
)
def test_any_payload_has_a_verdict(payload: dict[str, object], event: str, kind: str) -> None:
    body = json.dumps(payload).encode()
    signed = (sign_github if kind == "github" else sign_gitlab)(event, "1", body, SECRET)
    assert isinstance(RECEIVE[kind](signed, body, SECRET), WebhookAccepted | WebhookIgnored | WebhookRejected)


@pytest.mark.slow
@given(st.lists(st.integers(0, 30)), st.integers(1, 10))
def test_a_delivery_among_the_latest_is_never_new_twice(ids: list[int], most: int) -> None:
    deliveries = DeliveryLog(most)
    latest: list[int] = []
    for each in ids:
        assert deliveries.is_new(str(each)) == (each not in latest)
        latest = [*(other for other in latest if other != each), each][-most:]
