"""Webhooks wake the one who looks: messages of the fake forges, over HTTP, to a worker's listener."""

from __future__ import annotations

import asyncio
import http.client
import json
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kakite.agent.forges.base import Forge, Trigger
from kakite.agent.forges.labels import LabelConfig
from kakite.agent.forges.webhooks import MAX_BYTES, WakeEvent, WebhookConfig, create_webhook_app
from kakite.agent.issues.activities import ForgeActivities
from kakite.agent.worker.loop import RepositoryConfig, WorkerLoop
from kakite.durable.blobs import BlobStore
from kakite.redaction import Redaction
from kakite.serve.streamable_http import BindAddress, listen, serve_in_background
from kakite_testing.forges import Webhook
from kakite_testing.forges.hooks import sign_github, sign_gitlab
from kakite_testing.in_memory_workflows import InMemoryWorkflowClient
from tests.agent.forges.worlds import WORLDS, World
from tests.bounds import WITHIN
from tests.durable.waiting import until

pytestmark = pytest.mark.anyio

SECRET = "s3cret-of-the-hook"
HOUR = 3600.0
SIGN = {"github": sign_github, "gitlab": sign_gitlab}
ISSUES = {"github": "issues", "gitlab": "Issue Hook"}


@pytest.fixture(params=["github", "gitlab"])
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def world(kind: str, tmp_path: Path) -> Generator[World]:
    with WORLDS[kind](tmp_path) as made:
        yield made


@dataclass
class Looking:
    """A forge that notes how many look at it, and how many at once."""

    forge: Forge
    now: int = 0
    most: int = 0
    times: list[float] = field(default_factory=list[float])

    def __getattr__(self, name: str) -> Any:
        return getattr(self.forge, name)

    async def find_triggers(self, names: LabelConfig) -> Any:
        self.now += 1
        self.most = max(self.most, self.now)
        self.times.append(time.monotonic())
        found: list[Trigger] = list(await self.forge.find_triggers(names))
        self.now -= 1
        return found


@dataclass
class Worker:
    """One who sleeps an hour between two looks, and whom webhooks wake."""

    forge: Looking
    client: InMemoryWorkflowClient
    bell: WakeEvent
    port: int
    said: list[str]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/webhook"

    async def ask(
        self, method: str, path: str, headers: dict[str, str], body: bytes = b""
    ) -> tuple[int, Any]:
        def send() -> tuple[int, Any]:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WITHIN)
            try:
                connection.request(method, path, body, headers)
                answer = connection.getresponse()
                return answer.status, json.loads(answer.read())
            finally:
                connection.close()

        return await asyncio.to_thread(send)


@asynccontextmanager
async def working(world: World, kind: str, tmp_path: Path, secret: str = SECRET) -> AsyncGenerator[Worker]:
    client, looking, said = InMemoryWorkflowClient(), Looking(world.forge), list[str]()
    names = LabelConfig()
    forge_activities = ForgeActivities(
        lambda _place: world.forge, names, BlobStore(tmp_path / "blobs"), Redaction()
    )
    place = {"kind": kind, "path": world.fake.path, "url": ""}
    forge: Any = looking
    post = RepositoryConfig(forge=forge, place=place, names=names, settings={}, on_ask="deny")
    shift = WorkerLoop(client=client, forge_activities=forge_activities, post=post, say=said.append)
    door = WebhookConfig(kind=kind, path=world.fake.path, secret=secret, bell=shift.bell, say=shift.say_once)
    listening = listen(BindAddress(host="127.0.0.1", port=0))
    async with serve_in_background(create_webhook_app(door), listening):
        work = asyncio.create_task(shift.run(poll=HOUR, until_idle=False))
        try:
            await until(lambda: shift.bell.looks == 1)
            yield Worker(looking, client, shift.bell, listening.getsockname()[1], said)
        finally:
            work.cancel()
            await asyncio.wait([work])


async def test_a_label_is_found_at_once_although_the_next_look_is_far(
    world: World, kind: str, tmp_path: Path
) -> None:
    async with working(world, kind, tmp_path) as worker:
        world.fake.outbox.hooks.append(Webhook(url=worker.url, secret=SECRET))
        world.fake.state.open_issue("Bug", "It breaks", by="ann", labels=("kakite",))
        [task] = await until(worker.client.list_workflows)
        assert task.id.startswith(f"{kind}:team/app#1@")
        await until(lambda: {each.status for each in world.fake.outbox.deliveries} == {202})


async def test_without_the_webhook_nothing_is_found_before_the_next_look(
    world: World, kind: str, tmp_path: Path
) -> None:
    async with working(world, kind, tmp_path) as worker:
        world.fake.state.open_issue("Bug", "It breaks", by="ann", labels=("kakite",))
        assert await worker.ask("GET", "/healthz", {}) == (200, {"status": "ok", "looks": 1})
        assert await worker.client.list_workflows() == []
        worker.bell.wake()  # as the next look would
        await until(worker.client.list_workflows)


async def test_a_flood_leads_to_one_look_after_the_other_and_few(
    world: World, kind: str, tmp_path: Path
) -> None:
    async with working(world, kind, tmp_path) as worker:
        begun = time.monotonic()
        body = _body(kind, world.fake.path)
        messages = [SIGN[kind](ISSUES[kind], f"d{number}", body, SECRET) for number in range(200)]
        answers = await asyncio.gather(*(worker.ask("POST", "/webhook", each, body) for each in messages))
        assert {status for status, _ in answers} == {202}
        world.fake.state.open_issue("Bug", "It breaks", by="ann", labels=("kakite",))
        worker.bell.wake()
        await until(worker.client.list_workflows)  # what came while it looked is not forgotten
        assert worker.forge.most == 1
        assert len(worker.forge.times) <= 3 + (time.monotonic() - begun) / 0.5


async def test_only_what_is_signed_new_and_about_our_repository_wakes(
    world: World, kind: str, tmp_path: Path
) -> None:
    body, others = _body(kind, world.fake.path), _body(kind, "team/other")
    signed = SIGN[kind](ISSUES[kind], "d1", body, SECRET)
    unsigned = {
        name: value for name, value in signed.items() if "ignature" not in name and "Token" not in name
    }
    huge = {**signed, "Content-Length": str(MAX_BYTES + 1)}
    async with working(world, kind, tmp_path) as worker:
        for headers, sent, expected in [
            (unsigned, body, (401, "bad_signature")),
            (SIGN[kind](ISSUES[kind], "d1", body, "another"), body, (401, "bad_signature")),
            (huge, b"", (413, "too_large")),
            (SIGN[kind]("push", "d2", b"{}", SECRET), b"{}", (200, "other_event")),
            (SIGN[kind](ISSUES[kind], "d3", others, SECRET), others, (200, "other_repository")),
            (SIGN[kind](ISSUES[kind], "d4", b"x", SECRET), b"x", (400, "bad_body")),
        ]:
            status, told = await worker.ask("POST", "/webhook", headers, sent)
            assert (status, told.get("refused") or told.get("ignored")) == expected
            assert SECRET not in str(told)
        assert worker.bell.looks == 1
        assert [line for line in worker.said if "bad_signature" in line]
        assert (await worker.ask("POST", "/webhook", signed, body))[0] == 202
        await until(lambda: worker.bell.looks == 2)
        assert await worker.ask("POST", "/webhook", signed, body) == (200, {"ignored": "came_before"})
        assert worker.bell.looks == 2


async def test_without_a_secret_nobody_is_believed(world: World, kind: str, tmp_path: Path) -> None:
    body = _body(kind, world.fake.path)
    async with working(world, kind, tmp_path, secret="") as worker:
        status, told = await worker.ask("POST", "/webhook", SIGN[kind](ISSUES[kind], "d", body, ""), body)
        assert (status, told["refused"]) == (503, "no_secret")
        assert worker.bell.looks == 1


def _body(kind: str, path: str) -> bytes:
    if kind == "github":
        told: dict[str, Any] = {
            "action": "labeled",
            "repository": {"full_name": path},
            "issue": {"number": 1},
        }
    else:
        told = {
            "object_kind": "issue",
            "project": {"path_with_namespace": path},
            "object_attributes": {"iid": 1, "action": "update"},
        }
    return json.dumps(told).encode()
