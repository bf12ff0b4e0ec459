"""``kakite debate runner``, and a debate server that asks through it."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2
import pytest
from mcp import Client

from kakite.debate.answers import Answer, ParticipantFailure
from kakite.debate.http_runner import RunnerAuth, create_runner_app
from kakite.debate.model import ParticipantInfo
from kakite.debate.participants.base import ProbeResult, RemoteParticipant
from tests.bounds import WITHIN
from tests.cli.program import kakite
from tests.debate.serving import (
    Listening,
    call,
    environment,
    finished,
    gate,
    listening,
    living,
    participants,
    server,
)
from tests.debate.test_session import Told

TOKEN = "the-token-of-the-tests"
STUBS = participants(codex="agrees", claude="http_500")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Generator[Listening]:
    with running(tmp_path_factory.mktemp("runner")) as found:
        yield found


def running(
    home: Path, *arguments: str, sides: str = STUBS, token: str = TOKEN
) -> AbstractContextManager[Listening]:
    env = {"KAKITE_DEBATE_PARTICIPANTS": sides, **({"KAKITE_DEBATE_TOKEN": token} if token else {})}
    return listening(home, "runner", "--port", "0", *arguments, lines=2, env=env)


def post(
    url: str,
    body: object = None,
    *,
    raw: bytes | None = None,
    token: str = TOKEN,
    method: str = "POST",
    headers: Mapping[str, str] | None = None,
) -> tuple[int, Any]:
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
    sent = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    sent |= headers or {}
    try:
        connection.request(method, place.path, raw if raw is not None else json.dumps(body).encode(), sent)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def test_it_answers_in_the_seeds_form_and_tells_more_to_our_own_client(runner: Listening) -> None:
    codex, claude = runner.urls
    assert (urlsplit(codex).path, urlsplit(claude).path) == ("/codex", "/claude")
    status, said = post(codex, {"prompt": "Why?", "history": []})
    assert (status, said["output"]) == (200, "It depends.")
    assert said["reply"]["claim"] == "It depends."
    status, said = post(claude, {"prompt": "Why?"})
    assert status == 500
    assert "500" in said["error"]
    assert said["reply"]["code"] == "http_error"


@pytest.mark.slow
def test_what_was_said_before_is_given_to_the_program(home: Path) -> None:
    echo = (sys.executable, "-c", "import sys; print(sys.stdin.read())")
    with running(home, sides=participants(codex=echo, claude="agrees")) as found:
        history = [{"role": "user", "content": "One?"}, {"role": "assistant", "content": "Two."}]
        _, said = post(found.url, {"prompt": "Three?", "history": history})
    assert [said["output"].index(each) for each in ("One?", "Two.", "Three?")] == sorted(
        said["output"].index(each) for each in ("One?", "Two.", "Three?")
    )


@pytest.mark.slow
def test_one_that_takes_too_long_is_504(home: Path) -> None:
    with running(home, sides=participants(codex="hangs", claude="agrees")) as found:
        status, said = post(found.url, {"prompt": "Why?", "seconds": 1})
        assert (status, said["reply"]["code"]) == (504, "timed_out")
        assert "took too long" in said["error"]
        assert not {*living(home)} - {found.program.pid}


def test_who_is_refused_makes_no_program_start() -> None:
    async def work() -> None:
        side = Told(ParticipantInfo(name="codex"))
        for held in (TOKEN, ""):
            transport = httpx2.ASGITransport(
                create_runner_app(side, RunnerAuth(token=held, host="127.0.0.1"))
            )
            async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as web:
                for given in (
                    {},
                    {"Authorization": "Bearer wrong"},
                    {"Authorization": "Bearer "},
                    {"Authorization": f"Basic {TOKEN}"},
                    {"Authorization": f"Bearer {TOKEN}", "Origin": "http://localhost"},
                ):
                    answer = await web.post("/codex", json={"prompt": "?"}, headers=given)
                    assert answer.status_code in {401, 403}
        assert side.asked == []

    asyncio.run(work())


@pytest.mark.slow
@pytest.mark.parametrize("token", ["", "wrong", TOKEN + "x", TOKEN[:-1]])
def test_without_the_token_nothing_is_told(runner: Listening, token: str) -> None:
    for method in ("POST", "GET"):
        status, said = post(runner.url, {"prompt": "Why?"}, token=token, method=method)
        assert status == 401
        assert "token" in said["error"]
        assert TOKEN not in json.dumps(said)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "host.docker.internal:9001"}, 200),
        ({"Host": "localhost:9001"}, 200),
        ({"Origin": "http://localhost"}, 403),
    ],
)
def test_only_programs_that_mean_this_machine_may_ask(
    runner: Listening, headers: dict[str, str], status: int
) -> None:
    assert post(runner.url, {"prompt": "Why?"}, headers=headers)[0] == status


@pytest.mark.slow
@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"{", 422),
        (b"[]", 422),
        (b'{"prompt": ""}', 422),
        (b'{"prompt": 3}', 422),
        (b'{"prompt": "x", "seconds": -1}', 422),
        (b'{"prompt": "x", "history": [{"role": "system", "content": ""}]}', 422),
        (b'{"prompt": "\\ud800"}', 422),
        (b'{"prompt": "' + b"x" * (4 * 1024 * 1024) + b'"}', 413),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_what_is_no_question_is_an_error_in_the_same_form(runner: Listening, raw: bytes, status: int) -> None:
    found, said = post(runner.url, raw=raw)
    assert found == status
    assert isinstance(said["error"], str)


def test_other_paths_say_where_to_ask(runner: Listening) -> None:
    status, said = post(runner.url.replace("/codex", "/docs"), {"prompt": "x"})
    assert (status, "/codex" in said["error"]) == (404, True)
    status, said = post(runner.url, method="GET")
    assert (status, said["name"]) == (200, "codex")


@pytest.mark.slow
def test_a_client_that_goes_takes_its_program_along(home: Path) -> None:
    door = gate(home)
    with running(home, sides=participants(codex=door.command, claude="agrees")) as found:
        place = urlsplit(found.url)
        body = b'{"prompt": "Why?"}'
        head = f"POST /codex HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        with socket.create_connection((place.hostname, place.port)) as connection:
            connection.sendall(head.encode() + body)
            process = os.pidfd_open(door.begun())
        assert select.select([process], [], [], 60)[0], "the program is left"
        os.close(process)


@pytest.mark.slow
def test_a_runner_that_is_ended_leaves_no_program(home: Path) -> None:
    door = gate(home)
    with running(home, sides=participants(codex=door.command, claude="agrees")) as found:
        asking = asyncio.new_event_loop()
        by_runner = RemoteParticipant(side=ParticipantInfo(name="codex"), url=found.url, token=TOKEN)
        try:
            task = asking.create_task(by_runner.ask("Why?"))
            process = os.pidfd_open(asking.run_until_complete(asyncio.to_thread(door.begun)))
            found.program.send_signal(signal.SIGTERM)
            reply = asking.run_until_complete(asyncio.wait_for(task, WITHIN))
        finally:
            asking.close()
        assert isinstance(reply, ParticipantFailure)
        assert found.program.wait(WITHIN) == 128 + signal.SIGTERM
        assert select.select([process], [], [], 60)[0]
        os.close(process)


def test_our_own_client_gets_the_whole_reply(runner: Listening) -> None:
    async def ask(url: str, token: str = TOKEN) -> Answer | ParticipantFailure:
        async with asyncio.timeout(WITHIN):
            return await RemoteParticipant(side=ParticipantInfo(name="codex"), url=url, token=token).ask(
                "Why?", seconds=30
            )

    reply = asyncio.run(ask(runner.urls[0]))
    assert isinstance(reply, Answer)
    assert (reply.confidence, reply.tokens, reply.exit_code) == (70, 100, 0)
    failed = asyncio.run(ask(runner.urls[1]))
    assert isinstance(failed, ParticipantFailure)
    assert failed.code == "http_error"
    refused = asyncio.run(ask(runner.urls[0], "wrong"))
    assert isinstance(refused, ParticipantFailure)
    assert (refused.code, "token" in refused.message) == ("unreachable", True)


def test_what_a_runner_sees_is_seen_through_it_and_a_wrong_token_is_told(runner: Listening) -> None:
    def seen(token: str) -> ProbeResult:
        return asyncio.run(
            RemoteParticipant(side=ParticipantInfo(name="codex"), url=runner.url, token=token).probe()
        )

    assert runner.url in seen(TOKEN).told
    # The stub's program is Python, which has a version and knows of no login.
    assert "Python 3" in seen(TOKEN).told
    assert (seen(TOKEN).state, "codex login" in seen(TOKEN).remedy) == ("logged_out", True)
    refused = seen("wrong")
    assert (refused.state, "KAKITE_DEBATE_TOKEN" in refused.remedy) == ("logged_out", True)


@pytest.mark.slow
def test_more_questions_than_may_wait_are_told_to_come_back() -> None:
    async def work() -> list[int]:
        side = Told(ParticipantInfo(name="codex"), waits=True)
        app = create_runner_app(side, RunnerAuth(token=TOKEN, host="127.0.0.1"), at_once=1, most_waiting=2)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        transport = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(
            transport=transport, base_url="http://127.0.0.1", headers=headers, timeout=60
        ) as web:
            asked = [asyncio.create_task(web.post("/codex", json={"prompt": "?"})) for _ in range(2)]
            await side.begun.wait()
            for _ in range(20):  # until both are in
                await asyncio.sleep(0)
            refused = await web.post("/codex", json={"prompt": "?"})
            side.let.set()
            answered = [await each for each in asked]
            assert side.most_at_work == 1
            return [refused.status_code, *(each.status_code for each in answered)]

    assert asyncio.run(work()) == [503, 200, 200]


def test_a_participant_that_is_itself_behind_a_runner_is_refused(home: Path) -> None:
    env = {"KAKITE_DEBATE_PARTICIPANTS": '{"codex": {"url": "http://127.0.0.1:9001/codex"}}'}
    refused = kakite("debate", "runner", "--port", "0", home=home, env={**env, "KAKITE_DEBATE_TOKEN": TOKEN})
    assert (refused.code, "error (bad_participant)" in refused.stderr) == (2, True)
    assert "`url`" in refused.stderr


@pytest.mark.slow
def test_without_a_token_one_is_made_and_told(home: Path) -> None:
    with running(home, token="") as found:
        said = found.stderr.read_text(encoding="utf-8")
        token = said.partition("KAKITE_DEBATE_TOKEN=")[2].strip()
        assert len(token) > 30
        assert post(found.url, {"prompt": "Why?"}, token="")[0] == 401
        assert post(found.url, {"prompt": "Why?"}, token=token)[0] == 200


@pytest.mark.slow
def test_a_token_that_no_header_carries_and_a_port_that_is_taken_are_errors(home: Path) -> None:
    refused = kakite("debate", "runner", home=home, env={"KAKITE_DEBATE_TOKEN": "a\tb"})
    assert (refused.code, "KAKITE_DEBATE_TOKEN" in refused.stderr) == (2, True)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused = kakite("debate", "runner", "--port", port, home=home, env={"KAKITE_DEBATE_TOKEN": "t"})
    assert (refused.code, "listen_failed" in refused.stderr) == (3, True)


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_server_debates_through_the_runner(runner: Listening, home: Path) -> None:
    more = {
        "KAKITE_DEBATE_CODEX_URL": runner.urls[0],
        "KAKITE_DEBATE_CLAUDE_URL": runner.urls[1],
        "KAKITE_DEBATE_TOKEN": TOKEN,
    }
    nowhere = json.dumps({"codex": {"command": "/nonexistent"}, "claude": {"command": "/nonexistent"}})
    with anyio.fail_after(WITHIN):
        async with Client(server(home, "--hold", "60", sides=nowhere, **more), mode="legacy") as client:
            await call(client, "start_debate", initial_prompt="Why?")
            said = await finished(client)
    assert said["status"] == "degraded"
    assert said["turn"]["codex_output"] == "It depends."
    assert [(each["side"], each["code"]) for each in said["failures"]] == [("claude", "http_error")]


def test_doctor_tells_of_the_clis(home: Path) -> None:
    sides = participants(codex=("/nonexistent/codex",), claude="agrees")
    env = environment(home, KAKITE_DEBATE_PARTICIPANTS=sides)
    found = {
        each["name"]: each
        for each in kakite("doctor", "--json", home=home, env=env).json["findings"]
        if each["topic"] == "debates"
    }
    assert (found["codex"]["state"], found["codex"]["told"]) == ("optional", "not found")
    assert "codex" in found["codex"]["remedy"]
    assert found["claude"]["state"] == "optional"
    assert "Python 3" in found["claude"]["told"]
    assert "not logged in" in found["claude"]["told"]
