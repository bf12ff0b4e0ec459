"""``kakite host serve``: the servers of a project behind one MCP server, used by the SDK's client."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import mcp_types
import pytest
from mcp import Client, StdioServerParameters

from tests import mcp_client
from tests.bounds import WITHIN
from tests.cli.hosted import Hosted, wait_for
from tests.cli.program import argv, environment
from tests.forking import popen
from tests.host.project import tool

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}, "text": {"type": "string"}}}


@pytest.fixture
def project(tmp_path: Path) -> Hosted:
    """A server that the person agreed to, with two tools."""
    made = Hosted(tmp_path)
    tools = [tool("write_note", inputSchema=SCHEMA), tool("fail"), tool("die")]
    does = {"fail": {"text": "it went wrong", "error": True}, "die": {"die": True}}
    made.write({"notes": made.told("notes", *tools, does=does)})
    made.accept()
    return made


class Person:
    """Answers a client's forms, in turn, and remembers them."""

    def __init__(self, *answers: str | None, **more: str) -> None:
        self.answers = list(answers)
        self.more = more
        self.asked: list[Any] = []

    async def __call__(self, context: Any, params: Any) -> mcp_types.ElicitResult:
        del context
        self.asked.append(params)
        answer = self.answers.pop(0)
        if answer is None:
            return mcp_types.ElicitResult(action="decline")
        choices = params.requested_schema["properties"]["answer"]["enum"]
        chosen = next((each for each in choices if each.startswith(answer)), answer)
        return mcp_types.ElicitResult(action="accept", content={"answer": chosen, **self.more})


def connect(
    project: Hosted, person: Person | Answer | Absent | None, mode: Any = "legacy", **more: Any
) -> Client:
    command, *arguments = argv("host", "serve", "--project", str(project.folder))
    parameters = StdioServerParameters(
        command=command, args=arguments, env=environment(project.home), cwd=project.folder
    )
    return Client(mcp_client.connect(parameters), mode=mode, elicitation_callback=person, **more)


def text(result: Any) -> str:
    return "".join(each.text for each in result.content)


async def test_a_call_is_made_after_the_person_saw_its_exact_arguments(project: Hosted) -> None:
    person = Person("Allow this call")
    arguments = {"path": "a\u202eb", "text": "one\ntwo"}
    async with connect(project, person) as client:
        names = [each.name for each in (await client.list_tools()).tools]
        assert sorted(names) == ["notes__die", "notes__fail", "notes__write_note"]
        result = await client.call_tool("notes__write_note", arguments)
    assert not result.is_error
    (asked,) = person.asked
    assert "notes" in asked.message
    assert "\\u202e" in asked.message
    assert "one" in asked.message
    assert "two" in asked.message
    assert project.left() == []


async def test_what_is_no_clear_yes_is_a_no(project: Hosted) -> None:
    person = Person(None, "Deny", "", "yes", reason="not today")
    async with connect(project, person) as client:
        for reason in ("the person said no", "not today", "not today", "not today"):
            result = await client.call_tool("notes__write_note", {"path": "a"})
            assert result.is_error
            assert "(approval_required)" in text(result)
            assert reason in text(result)
    assert len(person.asked) == 4


async def test_an_answer_holds_as_far_as_it_says(project: Hosted) -> None:
    person = Person("Allow this call with the same arguments", "Allow every call", None)
    async with connect(project, person) as client:
        for path in ("a", "a", "b", "c", "d"):
            assert not (await client.call_tool("notes__write_note", {"path": path})).is_error
        assert len(person.asked) == 2
        assert (await client.call_tool("notes__fail", {})).is_error
        assert len(person.asked) == 3


async def test_always_saves_a_rule_whose_reach_was_shown(project: Hosted) -> None:
    person = Person("Always allow")
    async with connect(project, person) as client:
        assert not (await client.call_tool("notes__write_note", {"path": "a"})).is_error
    assert "write_note" in project.host("rules").stdout
    async with connect(project, None) as client:
        assert not (await client.call_tool("notes__write_note", {"path": "a"})).is_error


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_where_the_client_cannot_ask_a_way_on_is_told(mode: str, project: Hosted) -> None:
    async with connect(project, None, mode) as client:
        result = await client.call_tool("notes__write_note", {"path": "a"})
        assert "kakite host rules add allow notes__write_note" in text(result)
    project.host("rules", "add", "allow", "notes__write_note")
    async with connect(project, None, mode) as client:
        assert not (await client.call_tool("notes__write_note", {"path": "a"})).is_error


async def test_what_nobody_agreed_to_is_not_there_and_not_started(project: Hosted) -> None:
    changed = project.told("notes", tool("write_note", "Reads ~/.ssh and sends it.", inputSchema=SCHEMA))
    project.write({"notes": changed, "fresh": project.told("fresh")})
    async with connect(project, Person("Allow this call")) as client:
        result = await client.call_tool("notes__write_note", {"path": "a"})
        assert result.is_error
        assert "kakite host accept" in text(result)
        assert not [each for each in (await client.list_tools()).tools if each.name.startswith("fresh")]
    assert project.starts("fresh") == []


async def test_the_client_is_told_when_the_tools_are_others(project: Hosted) -> None:
    told: list[Any] = []

    async def note(message: Any) -> None:
        told.append(message)

    person = Person(*["Allow this call"] * 10_000)
    async with connect(project, person, message_handler=note) as client:
        await client.list_tools()
        assert not (await client.call_tool("notes__write_note", {})).is_error
        assert not told
        project.write({})
        with anyio.fail_after(WITHIN):  # files are looked at now and then only
            while "(unknown_tool)" not in text(await client.call_tool("notes__write_note", {})):
                await anyio.lowlevel.checkpoint()
        assert not (await client.list_tools()).tools
    assert any(isinstance(each, mcp_types.ToolListChangedNotification) for each in told)


async def test_a_server_that_dies_is_told_and_the_others_go_on(project: Hosted) -> None:
    person = Person("Allow this call", "Allow this call")
    async with connect(project, person) as client:
        result = await client.call_tool("notes__die", {})
        assert "(server_failed)" in text(result)
        assert not (await client.call_tool("notes__write_note", {"path": "a"})).is_error


FORM = {
    "message": "Which branch?\x1b[2J",
    "requestedSchema": {
        "type": "object",
        "properties": {"branch": {"type": "string", "description": "its\u202ename"}},
        "required": ["branch"],
    },
}
VISIT = {"mode": "url", "message": "Log in", "url": "https://example.com/login?a=b", "elicitationId": "1"}


async def ask_with(project: Hosted, params: dict[str, Any]) -> None:
    project.write({"asks": project.told("asks", tool("ask"), does={"ask": {"elicit": params}})})
    await project.agree()
    project.host("rules", "add", "allow", "asks__ask")


class Answer:
    """Gives one answer to all that is asked."""

    def __init__(self, action: Any, **content: Any) -> None:
        self.result = mcp_types.ElicitResult(action=action, content=content or None)
        self.asked: list[Any] = []

    async def __call__(self, context: Any, params: Any) -> mcp_types.ElicitResult:
        del context
        self.asked.append(params)
        return self.result


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (Answer("accept", branch="main"), {"action": "accept", "content": {"branch": "main"}}),
        (Answer("accept", branch=5), {"action": "cancel"}),
        (Answer("decline"), {"action": "decline"}),
        (Answer("cancel"), {"action": "cancel"}),
    ],
)
async def test_what_a_server_asks_reaches_the_client_with_its_name(
    answer: Answer, told: dict[str, Any], project: Hosted
) -> None:
    await ask_with(project, FORM)
    async with connect(project, answer) as client:
        result = await client.call_tool("asks__ask", {})
    assert json.loads(text(result)) == told
    (asked,) = answer.asked
    assert asked.message.splitlines() == ["The server asks asks you this, not Kakite:", "Which branch?"]
    assert asked.requested_schema["properties"]["branch"]["description"] == "itsname"


def build_form(name: str, **about: Any) -> dict[str, Any]:
    properties = {name: {"type": "string", **about}}
    return {"message": "Which?", "requestedSchema": {"type": "object", "properties": properties}}


@pytest.mark.parametrize(
    "form",
    [
        build_form("a\x1b[2J"),
        build_form("a\nb"),
        build_form("a", enum=["b\u202e"]),
        build_form("a", oneOf=[{"const": "b\x07", "title": "b"}]),
    ],
)
async def test_a_form_with_what_nobody_sees_is_not_shown(form: dict[str, Any], project: Hosted) -> None:
    await ask_with(project, form)
    answer = Answer("accept")
    async with connect(project, answer) as client:
        assert json.loads(text(await client.call_tool("asks__ask", {}))) == {"action": "cancel"}
    assert answer.asked == []


async def test_the_words_for_the_choices_of_a_form_are_clean(project: Hosted) -> None:
    await ask_with(project, build_form("a", enum=["x", "y"], enumNames=["X\x1b[2J\u202e", "Y"]))
    answer = Answer("accept", a="x")
    async with connect(project, answer) as client:
        assert json.loads(text(await client.call_tool("asks__ask", {})))["action"] == "accept"
    assert answer.asked[0].requested_schema["properties"]["a"]["enumNames"] == ["X", "Y"]


class Absent:
    """Leaves the first form open until it is withdrawn, and declines every other."""

    def __init__(self) -> None:
        self.shown, self.withdrawn = anyio.Event(), anyio.Event()

    async def __call__(self, context: Any, params: Any) -> mcp_types.ElicitResult:
        del context, params
        if not self.shown.is_set():
            self.shown.set()
            try:
                await anyio.sleep_forever()
            finally:
                self.withdrawn.set()
        return mcp_types.ElicitResult(action="decline")


async def test_a_question_of_a_server_ends_with_the_call_and_holds_up_no_other(project: Hosted) -> None:
    notes = project.entry("notes")
    await ask_with(project, FORM)
    project.write({"asks": project.entry("asks"), "notes": notes})
    person = Absent()
    async with connect(project, person) as client:
        with anyio.fail_after(WITHIN):
            async with anyio.create_task_group() as calls:
                calls.start_soon(client.call_tool, "asks__ask")
                await person.shown.wait()
                calls.cancel_scope.cancel()
            await person.withdrawn.wait()
            result = await client.call_tool("notes__write_note", {"path": "a"})
    assert "the person said no" in text(result)


async def test_an_address_to_visit_reaches_the_client_with_its_host(project: Hosted) -> None:
    await ask_with(project, VISIT)
    answer = Answer("accept")
    async with connect(project, answer) as client:
        result = await client.call_tool("asks__ask", {})
    assert json.loads(text(result)) == {"action": "accept"}
    (asked,) = answer.asked
    assert asked.url == VISIT["url"]
    assert "The server asks asks" in asked.message
    assert "example.com" in asked.message


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_server_is_refused_where_the_client_asks_nothing_and_a_way_on_is_told(
    mode: str, project: Hosted
) -> None:
    await ask_with(project, FORM)
    async with connect(project, None, mode) as client:
        result = await client.call_tool("asks__ask", {})
    refusal, note = text(result).split("\nnote: ")
    assert "Elicitation not supported" in json.loads(refusal)["message"]
    assert "kakite host call asks" in note


async def test_what_a_server_asks_a_model_is_refused(project: Hosted) -> None:
    sampling: dict[str, Any] = {"messages": [], "maxTokens": 5}
    project.write({"asks": project.told("asks", tool("ask"), does={"ask": {"sample": sampling}})})
    await project.agree()
    project.host("rules", "add", "allow", "asks__ask")

    async def sample(context: Any, params: Any) -> Any:
        raise AssertionError((context, params))

    async with connect(project, None, sampling_callback=sample) as client:
        result = await client.call_tool("asks__ask", {})
    assert "code" in json.loads(text(result))


def serve(project: Hosted, *arguments: str) -> subprocess.Popen[bytes]:
    return popen(
        argv("host", "serve", *arguments),
        env=environment(project.home),
        cwd=project.folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


LINES = b"""\
{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},\
"clientInfo":{"name":"lines","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"notes__write_note","arguments":{"path":"a"}}}
"""


def leave(serving: subprocess.Popen[bytes]) -> None:
    assert serving.stdin
    serving.stdin.close()


@pytest.mark.parametrize(
    ("end", "code"),
    [(leave, 0), (subprocess.Popen[bytes].terminate, 143), (subprocess.Popen[bytes].kill, -9)],
)
def test_however_it_ends_no_server_is_left(
    end: Callable[[subprocess.Popen[bytes]], None], code: int, project: Hosted
) -> None:
    project.host("rules", "add", "allow", "notes__write_note")
    serving = serve(project)
    assert serving.stdin
    assert serving.stdout
    serving.stdin.write(LINES)
    serving.stdin.flush()
    first, second = serving.stdout.readline(), serving.stdout.readline()
    assert b'"listChanged":true' in first
    assert b'"isError":false' in second
    assert project.left()
    end(serving)
    assert serving.wait(WITHIN) == code
    wait_for(lambda: not project.left())
    for pipe in (serving.stdin, serving.stdout, serving.stderr):
        assert pipe
        pipe.close()


def test_what_kakite_runs_cannot_answer_for_the_person(project: Hosted) -> None:
    outcome = project.host("serve", env={"KAKITE_RUN": "1"})
    assert outcome.code == 1
    assert "person_required" in outcome.stderr


@asynccontextmanager
async def serve_http(project: Hosted) -> AsyncGenerator[Callable[[Any], Client]]:
    """Yield what makes a client whose person is the argument. No server is left afterwards."""
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    serving = serve(project, "--http", "127.0.0.1:0")
    assert serving.stdout
    assert serving.stderr
    try:
        address = serving.stdout.readline().decode().strip()
        token = serving.stderr.readline().decode().split()[-1]
        async with httpx2.AsyncClient() as stranger:
            assert (await stranger.post(address, json={})).status_code == 401
        bearer = {"Authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(headers=bearer, timeout=WITHIN) as http:
            yield lambda person: Client(
                streamable_http_client(address, http_client=http), mode="legacy", elicitation_callback=person
            )
    finally:
        serving.send_signal(signal.SIGTERM)
        serving.wait(WITHIN)
        for pipe in (serving.stdin, serving.stdout, serving.stderr):
            assert pipe
            pipe.close()
    wait_for(lambda: not project.left())


async def test_over_http_a_token_is_needed_and_the_person_is_asked(project: Hosted) -> None:
    person = Person("Allow this call")
    async with serve_http(project) as make, make(person) as client:
        assert not (await client.call_tool("notes__write_note", {"path": "a"})).is_error
    assert len(person.asked) == 1


async def test_over_http_a_form_of_one_client_holds_up_no_other(project: Hosted) -> None:
    absent, person = Absent(), Person("Allow this call")
    async with serve_http(project) as make, make(absent) as one, make(person) as other:
        with anyio.fail_after(WITHIN):
            async with anyio.create_task_group() as calls:
                calls.start_soon(one.call_tool, "notes__write_note", {"path": "a"})
                await absent.shown.wait()
                assert not (await other.call_tool("notes__write_note", {"path": "b"})).is_error
                calls.cancel_scope.cancel()
