"""Calls: checked before they are sent, timed by what the server shows, answered by a person when asked."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.errors import ExternalError
from kakite.host.config.model import ServerEntry, Timeouts
from kakite.host.json_schema import Schema, apply_defaults
from kakite.host.server.client_features import Elicitation, ElicitationResult
from kakite.host.server.deadlines import Deadline, PausableClock
from tests.bounds import WITHIN
from tests.host.making import call, rough, serving

pytestmark = pytest.mark.anyio

ERAS = pytest.mark.parametrize("era", ["legacy", "modern"])


async def pause(seconds: float) -> None:
    """Let time pass: time itself is what these tests are about."""
    with anyio.move_on_after(seconds):
        await anyio.Event().wait()


def timed(entry: ServerEntry, **timeouts: float) -> ServerEntry:
    return replace(entry, timeouts=replace(entry.timeouts, **timeouts))


@pytest.mark.slow
@ERAS
async def test_a_call_that_shows_progress_may_last_longer_than_one_that_is_silent(
    tmp_path: Path, era: str
) -> None:
    seen: list[tuple[float, float | None, str]] = []

    def progressed(progress: float, total: float | None, message: str) -> None:
        seen.append((progress, total, message))

    async with serving(timed(rough(era=era), idle=2), tmp_path) as server:
        result = await server.call(call("work", seconds=4, every=0.1), on_progress=progressed)
        assert result.text == "done"
        assert seen[:2] == [(1, None, "step 1"), (2, None, "step 2")]
        silent = await server.call(call("work", seconds=1000))
        assert (silent.is_error, silent.code) == (True, "call_timed_out")
        assert "2 s" in silent.text


@ERAS
async def test_no_progress_takes_a_call_past_its_total_and_the_server_is_told_to_stop(
    tmp_path: Path, era: str
) -> None:
    entry = replace(rough(era=era), tool_timeouts={"work": Timeouts(idle=WITHIN, total=0.5)})
    async with serving(entry, tmp_path) as server:
        result = await server.call(call("work", seconds=1000, every=0.1))
        assert (result.code, "0.5 s" in result.text) == ("call_timed_out", True)
        assert json.loads((await server.call(call("cancelled"))).text)  # and the connection goes on


async def test_a_tool_has_its_own_time_outs(tmp_path: Path) -> None:
    entry = replace(rough(era="both"), tool_timeouts={"work": Timeouts(idle=0.2)})
    async with serving(entry, tmp_path) as server:
        assert (await server.call(call("work", seconds=20))).code == "call_timed_out"


async def test_a_caller_who_is_cancelled_cancels_the_call_at_the_server(tmp_path: Path) -> None:
    async with serving(rough(era="both"), tmp_path) as server:
        begun = asyncio.Event()

        def progressed(progress: float, total: float | None, message: str) -> None:
            begun.set()

        working = asyncio.create_task(
            server.call(call("work", seconds=60, every=0.05), on_progress=progressed)
        )
        with anyio.fail_after(WITHIN):
            await begun.wait()
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        assert json.loads((await server.call(call("cancelled"))).text)


async def test_the_time_stands_still_while_a_person_is_asked(tmp_path: Path) -> None:
    clock = PausableClock()
    async with serving(timed(rough(era="both"), idle=0.3, total=0.4), tmp_path, clock=clock) as server:
        await server.start()
        with clock.pause():
            working = asyncio.create_task(server.call(call("work", seconds=1)))
            assert (await working).text == "done"
        assert (await server.call(call("work", seconds=20))).code == "call_timed_out"


async def test_after_a_pause_the_rest_of_the_time_is_left() -> None:
    clock = PausableClock()
    began = time.monotonic()
    deadline = Deadline(Timeouts(idle=0.3, total=9), clock)

    async def pass_time() -> None:
        async with deadline:
            with clock.pause(), clock.pause():
                await pause(0.4)
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(pass_time(), WITHIN)
    assert deadline.expired == "idle"
    assert time.monotonic() - began > 0.65


@ERAS
async def test_arguments_that_do_not_fit_are_not_sent_and_named(tmp_path: Path, era: str) -> None:
    properties = {
        "edits": {"type": "array", "items": {"type": "object", "properties": {"line": {"type": "integer"}}}}
    }
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    entry = rough(era=era, tools=[{"name": "edit", "inputSchema": schema}])
    async with serving(entry, tmp_path) as server:
        wrong = await server.call(call("edit", edits=[{"line": 1}, {"line": "two"}]))
        assert (wrong.is_error, wrong.code) == (True, "invalid_arguments")
        assert "edits[1].line" in wrong.text
        assert "'integer'" in wrong.text
        misspelt = await server.call(call("edit", edit=[]))
        assert misspelt.code == "invalid_arguments"
        assert "hint: it takes no `edit`: did you mean `edits`?" in misspelt.text
        assert not (await server.call(call("edit", edits=[{"line": 2}]))).is_error


async def test_an_argument_that_may_be_missing_may_be_null(tmp_path: Path) -> None:
    properties = {"must": {"type": "string"}, "may": {"type": "boolean"}}
    schema = {"type": "object", "properties": properties, "required": ["must"]}
    async with serving(rough(tools=[{"name": "edit", "inputSchema": schema}]), tmp_path) as server:
        assert not (await server.call(call("edit", must="x", may=None))).is_error
        assert (await server.call(call("edit", must=None, may=True))).code == "invalid_arguments"
        assert (await server.call(call("edit", must="x", may="yes"))).code == "invalid_arguments"


BROKEN: list[dict[str, Any]] = [
    {"type": "object", "properties": {"a": {"type": "nonsense"}}},
    {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/schema.json"}}},
    {"type": "object", "properties": {"a": {"$ref": "#/$defs/missing"}}},
    {"type": "object", "properties": {"a": {"pattern": "("}}},
    {"type": "object", "properties": {"a": {"pattern": "^(x|xx)+y$"}}},
]


@pytest.mark.parametrize("schema", BROKEN)
async def test_a_broken_schema_does_not_block_the_call_and_is_noted(
    tmp_path: Path, schema: dict[str, Any]
) -> None:
    entry = rough(era="both", tools=[{"name": "odd", "inputSchema": {"type": "object", **schema}}])
    async with serving(entry, tmp_path) as server:
        with anyio.fail_after(WITHIN):
            result = await server.call(call("odd", a="x" * 40))
        assert not result.is_error
        assert "schema of the arguments is broken" in result.details["notes"][0]


def test_schemas_of_both_common_drafts_are_understood() -> None:
    old = {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "integer"}]}
    assert Schema(old).find_violation(["a"]) == ("[0]", "'a' is not of type 'integer'")
    new = {"prefixItems": [{"type": "integer"}]}
    assert Schema(new).find_violation(["a"]) == ("[0]", "'a' is not of type 'integer'")
    assert Schema({"patternProperties": {"^n": {"type": "integer"}}}).find_violation({"n1": "a"})[0] == "n1"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
keywords = st.sampled_from(
    ["type", "properties", "items", "required", "pattern", "enum", "$ref", "anyOf", "minLength", "$schema"]
)


@given(schema=st.dictionaries(keywords, json_values), value=json_values)
def test_no_schema_and_no_value_make_the_check_raise(schema: dict[str, Any], value: object) -> None:
    checked = Schema(schema)
    where, expected = checked.find_violation(value)
    assert not checked.problem or (where, expected) == ("", "")


@ERAS
async def test_a_structured_result_that_breaks_its_promise_is_an_error(tmp_path: Path, era: str) -> None:
    async with serving(rough(era=era), tmp_path) as server:
        good = await server.call(call("structured", value={"n": 1}))
        assert (good.is_error, good.text) == (False, "its text")
        bad = await server.call(call("structured", value={"m": 1}))
        assert (bad.is_error, bad.code) == (True, "invalid_result")
        assert "'n' is a required property" in bad.text
        assert "its text" in bad.text


async def test_a_broken_schema_of_the_result_costs_no_result(tmp_path: Path) -> None:
    tool = {
        "name": "odd",
        "inputSchema": {"type": "object"},
        "outputSchema": {"type": "object", "required": 5},
    }
    async with serving(rough(era="both", tools=[tool]), tmp_path) as server:
        missing = await server.call(call("odd"))
        assert missing.code == "invalid_result"  # promised, and not there


async def test_a_servers_refusal_is_an_error_and_no_crash(tmp_path: Path) -> None:
    async with serving(rough(era="both"), tmp_path) as server:
        result = await server.call(call("refuse"))
        assert (result.is_error, result.code) == (True, "call_refused")
        assert "not today" in result.text
        assert server.status.kind == "ready"


@ERAS
async def test_what_a_server_adds_to_its_refusal_is_told_and_its_number_noted(
    tmp_path: Path, era: str
) -> None:
    async with serving(rough(era=era), tmp_path) as server:
        error = {"code": -32602, "message": "", "data": {"field": "when\x1b[2K", "expected": "a date"}}
        result = await server.call(call("refuse", error=error))
        assert (result.code, result.details) == ("call_refused", {"rpc_code": -32602})
        assert '{"field": "when' in result.text
        assert "\x1b" not in result.text
        assert "hint: " in result.text
        assert not (await server.call(call("echo"))).is_error


def needed(*addresses: str) -> dict[str, Any]:
    """Return the error of a server that wants addresses visited first."""
    visits = [
        {"mode": "url", "message": f"log in\u202e to {each}", "url": each, "elicitationId": each}
        for each in addresses
    ]
    return {"code": -32042, "message": "needs a login", "data": {"elicitations": visits}}


async def test_addresses_to_visit_before_a_call_are_told_to_the_model_and_shown_to_the_person(
    tmp_path: Path,
) -> None:
    error = needed("https://one.example/a?b=c", "https://two.example/")
    async with serving(rough(), tmp_path) as server:
        result = await server.call(call("refuse", error=error))
    assert (result.is_error, result.code) == (True, "visit_required")
    assert "https://one.example/a?b=c (log in to" in result.text
    assert [each["url"] for each in result.details["visits"]] == [
        "https://one.example/a?b=c",
        "https://two.example/",
    ]
    person = Person(lambda asked: ElicitationResult(action="accept" if "one" in asked.url else "decline"))
    async with serving(rough("mail"), tmp_path, elicit=person) as server:
        shown = await server.call(call("refuse", error=error))
    assert [(asked.server, asked.url, asked.schema) for asked in person.asked] == [
        ("mail", "https://one.example/a?b=c", None),
        ("mail", "https://two.example/", None),
    ]
    assert (shown.code, shown.details["answers"]) == ("visit_required", ["accept", "decline"])


@pytest.mark.parametrize("data", [None, {}, {"elicitations": [{"url": 5}]}, "x"])
async def test_a_server_that_wants_a_visit_and_does_not_say_where_is_told_in_its_words(
    tmp_path: Path, data: Any
) -> None:
    error = {"code": -32042, "message": "look into your mail", "data": data}
    person = Person(lambda _: ElicitationResult(action="accept"))
    async with serving(rough(), tmp_path, elicit=person) as server:
        result = await server.call(call("refuse", error=error))
    assert (result.code, "look into your mail" in result.text) == ("visit_required", True)
    assert person.asked == []


async def test_a_tool_that_is_not_there_is_told_with_the_nearest(tmp_path: Path) -> None:
    async with serving(rough(era="both"), tmp_path) as server:
        result = await server.call(call("ecko"))
        assert (result.code, "`echo`" in result.text) == ("unknown_tool", True)


class Person:
    """Answers as told, and notes what was asked."""

    def __init__(self, answer: Callable[[Elicitation], ElicitationResult], *, takes: float = 0) -> None:
        self.asked: list[Elicitation] = []
        self._answer = answer
        self._takes = takes

    async def elicit(self, asked: Elicitation) -> ElicitationResult:
        self.asked.append(asked)
        await pause(self._takes)
        return self._answer(asked)


FORM: dict[str, Any] = {
    "method": "elicitation/create",
    "params": {
        "mode": "form",
        "message": "Who \x1b[31mare you?",
        "requestedSchema": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "age": {"type": "integer", "default": 7}},
            "required": ["name"],
        },
    },
}


@ERAS
async def test_a_person_answers_what_a_server_asks_while_the_time_stands_still(
    tmp_path: Path, era: str
) -> None:
    person = Person(lambda _: ElicitationResult(action="accept", content={"name": "Ada"}), takes=0.6)
    async with serving(timed(rough("curious", era=era), idle=0.4), tmp_path, elicit=person) as server:
        result = await server.call(call("ask", request=FORM))
        assert json.loads(result.text) == {"action": "accept", "content": {"name": "Ada", "age": 7}}
    asked = person.asked[0]
    assert (asked.server, asked.message) == ("curious", "Who are you?")
    assert asked.schema == FORM["params"]["requestedSchema"]


@ERAS
@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_person_may_refuse_or_look_away(tmp_path: Path, era: str, action: Any) -> None:
    person = Person(lambda _: ElicitationResult(action=action, content={"name": "left out"}))
    async with serving(rough(era=era), tmp_path, elicit=person) as server:
        assert json.loads((await server.call(call("ask", request=FORM))).text) == {"action": action}


@ERAS
@pytest.mark.parametrize("content", [{}, {"name": 5}, {"name": {"deep": 1}}])
async def test_an_answer_that_does_not_fit_what_was_asked_is_not_sent(
    tmp_path: Path, era: str, content: dict[str, Any]
) -> None:
    person = Person(lambda _: ElicitationResult(action="accept", content=content))
    async with serving(rough(era=era), tmp_path, elicit=person) as server:
        assert json.loads((await server.call(call("ask", request=FORM))).text) == {"action": "cancel"}


async def test_an_address_that_a_server_wants_visited_is_shown_to_the_person(tmp_path: Path) -> None:
    url = {"mode": "url", "message": "log in", "url": "https://example.org/login", "elicitationId": "1"}
    person = Person(lambda _: ElicitationResult(action="accept"))
    async with serving(rough(), tmp_path, elicit=person) as server:
        asked = await server.call(call("ask", request={"method": "elicitation/create", "params": url}))
        assert json.loads(asked.text) == {"action": "accept"}
    assert (person.asked[0].url, person.asked[0].schema) == ("https://example.org/login", None)


ADDRESSES = {
    "https://example.org/" + "a" * 7900: True,
    "HTTPS://[::1]:80/a": True,
    "https://example.org/" + "a" * 8000: False,
    "file:///etc/passwd": False,
    "javascript:alert(1)": False,
    "https:///nowhere": False,
    "https://[broken/": False,
    "https://example.org/ --flag": False,
    "": False,
}


@pytest.mark.parametrize(("address", "opens"), ADDRESSES.items(), ids=lambda each: str(each)[:20])
async def test_an_address_is_shown_whole_or_not_at_all_and_only_one_of_the_web(
    tmp_path: Path, address: str, opens: bool
) -> None:
    url = {"mode": "url", "message": "log in", "url": address, "elicitationId": "1"}
    person = Person(lambda _: ElicitationResult(action="accept"))
    async with serving(rough(), tmp_path, elicit=person) as server:
        asked = await server.call(call("ask", request={"method": "elicitation/create", "params": url}))
        result = await server.call(call("refuse", error=needed(address)))
    assert json.loads(asked.text) == {"action": "accept" if opens else "cancel"}
    assert [each.url for each in person.asked] == [address] * (2 * opens)
    assert (result.code, [each["url"] for each in result.details["visits"]]) == (
        "visit_required",
        [address] * opens,
    )


async def test_a_person_who_cannot_be_reached_cancels(tmp_path: Path) -> None:
    def unreachable(_: Elicitation) -> ElicitationResult:
        raise ExternalError("the terminal is gone")

    async with serving(rough(), tmp_path, elicit=Person(unreachable)) as server:
        assert json.loads((await server.call(call("ask", request=FORM))).text) == {"action": "cancel"}


ROOTS: dict[str, Any] = {"method": "roots/list"}
SAMPLE: dict[str, Any] = {
    "method": "sampling/createMessage",
    "params": {"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}], "maxTokens": 5},
}


@ERAS
async def test_what_is_not_configured_is_not_offered_and_refused(tmp_path: Path, era: str) -> None:
    async with serving(rough(era=era), tmp_path) as server:
        assert json.loads((await server.call(call("capabilities"))).text) == {}
        for request in (FORM, SAMPLE, ROOTS):
            result = await server.call(call("ask", request=request))
            assert "not supported" in result.text


@ERAS
async def test_roots_are_told_as_far_as_they_lie_in_the_project(tmp_path: Path, era: str) -> None:
    inner, outer = tmp_path / "project" / "in", tmp_path / "out"
    inner.mkdir(parents=True)
    outer.mkdir()
    (tmp_path / "project" / "link").symlink_to(outer)
    roots = (inner, outer, tmp_path, tmp_path / "project" / "link")
    async with serving(rough(era=era), tmp_path, project=tmp_path / "project", roots=roots) as server:
        told = json.loads((await server.call(call("ask", request=ROOTS))).text)
        assert told == {"roots": [{"uri": inner.as_uri(), "name": "in"}]}


@ERAS
async def test_a_model_replies_to_a_server_only_when_one_is_configured(tmp_path: Path, era: str) -> None:
    asked: list[tuple[str, dict[str, Any]]] = []

    async def sample(server: str, params: dict[str, Any]) -> dict[str, Any]:
        asked.append((server, params))
        return {"role": "assistant", "content": {"type": "text", "text": "ho"}, "model": "m"}

    async with serving(rough("s", era=era), tmp_path, sample=sample) as server:
        result = json.loads((await server.call(call("ask", request=SAMPLE))).text)
    assert result["content"] == {"type": "text", "text": "ho"}
    assert asked[0][0] == "s"
    assert asked[0][1]["maxTokens"] == 5


@given(
    given_=st.dictionaries(st.sampled_from("abc"), st.integers()),
    defaults=st.dictionaries(st.sampled_from("abc"), st.integers()),
)
def test_defaults_fill_what_is_missing_and_change_nothing(
    given_: dict[str, int], defaults: dict[str, int]
) -> None:
    schema = {"properties": {name: {"default": value} for name, value in defaults.items()}}
    assert apply_defaults(schema, given_) == {**defaults, **given_}
