"""Spans of a run, as they are sent."""

from __future__ import annotations

import asyncio
import http.server
import json
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from kakite.agent.observe.event_log import build_call_event, build_result_event
from kakite.agent.observe.events import RunEvent
from kakite.agent.observe.otel import instrument, instrument_with, is_wanted
from kakite.agent.run.deps import RunDeps
from kakite.models.messages import UserMessage
from kakite.models.model import ModelError
from kakite.models.scripted_model import Scenario, ScriptedModel
from kakite.tools.toolset import ToolCall, ToolResult
from tests.agent.runs import task_of
from tests.agent.test_runner import parts_of
from tests.bounds import WITHIN
from tests.repositories import make_remote

pytestmark = pytest.mark.anyio

SECRET = "correct horse battery"
CALL = ToolCall(id="c1", name="run_command", arguments={"command": f"echo {SECRET}"})
TURNS = [
    {"say": f"I say {SECRET}", "usage": {"input": 90, "output": 8}},
    {"error": {"status": 503}},
]


@pytest.fixture
def parts(tmp_path: Path) -> RunDeps:
    remote = make_remote(tmp_path, {"a.py": "a = 1\n"})
    _, make = parts_of(tmp_path, remote, {"say": "unused"})
    script = Scenario.parse(json.dumps({"title": "t", "turns": TURNS}))
    return replace(make(None), model=ScriptedModel(script))


async def spans(parts: RunDeps, environ: dict[str, str]) -> dict[str, ReadableSpan]:
    """Return the spans of one reply, one call that failed, and a request that failed."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    secrets = {"MY_API_KEY": SECRET, **environ}
    with suppress(ModelError), instrument_with(parts, task_of(), secrets, provider) as seen:
        await seen.model.reply("system", [UserMessage(text=f"do {SECRET}")], [])
        seen.listener(build_call_event(CALL))
        result = ToolResult(text=SECRET, is_error=True, code="denied")
        seen.listener(build_result_event(CALL, result, 0.1))
        await seen.model.reply("system", [UserMessage(text="more")], [])
    return {f"{span.name} {span.status.status_code.name}": span for span in exporter.get_finished_spans()}


async def test_a_run_its_replies_and_its_calls_are_spans_below_each_other(parts: RunDeps) -> None:
    found = await spans(parts, {})
    assert {*found} == {
        *("invoke_agent kakite ERROR", "chat t UNSET", "chat t ERROR", "execute_tool run_command ERROR"),
    }
    root = found["invoke_agent kakite ERROR"]
    assert root.parent is None
    for name, span in found.items():
        attributes = span.attributes or {}
        assert attributes["gen_ai.conversation.id"] == "run1"
        assert attributes["gen_ai.operation.name"] == name.split()[0]
        assert span is root or (span.parent and span.parent.span_id == cast("Any", root.context).span_id)
    chat = found["chat t UNSET"].attributes or {}
    assert chat["gen_ai.usage.input_tokens"] == 90
    assert chat["gen_ai.response.finish_reasons"] == ("stop",)
    assert chat["gen_ai.provider.name"] == "scripted"
    tool = found["execute_tool run_command ERROR"].attributes or {}
    assert (tool["gen_ai.tool.call.id"], tool["error.type"]) == ("c1", "denied")
    assert (root.attributes or {})["gen_ai.usage.output_tokens"] == 8
    assert root.status.status_code is StatusCode.ERROR


async def test_what_was_said_is_sent_only_if_that_is_wanted_and_never_with_secrets(parts: RunDeps) -> None:
    silent = "".join(span.to_json() for span in (await spans(parts, {})).values())
    assert not any(word in silent for word in (SECRET, "I say", "do ", "echo"))
    again = replace(parts, model=ScriptedModel(Scenario.parse(json.dumps({"title": "t", "turns": TURNS}))))
    environ = {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true"}
    told = "".join(span.to_json() for span in (await spans(again, environ)).values())
    assert all(word in told for word in ("I say", "echo", "gen_ai.input.messages", "gen_ai.tool.call.result"))
    assert SECRET not in told


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1"}, True),
        ({"OTEL_TRACES_EXPORTER": "console"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, False),
        ({"OTEL_SDK_DISABLED": "TRUE", "OTEL_TRACES_EXPORTER": "otlp"}, False),
    ],
)
def test_spans_are_made_only_where_the_standard_variables_ask_for_them(
    environ: dict[str, str], wanted: bool
) -> None:
    assert is_wanted(environ) is wanted


async def test_nothing_is_wrapped_where_nobody_asks(parts: RunDeps) -> None:
    async with instrument(parts, task_of(), {}) as seen:
        assert seen is parts


@pytest.mark.slow
def test_nothing_is_loaded_before_somebody_asks() -> None:
    code = "import sys, kakite.agent.observe.otel as _; "
    code += "print({'opentelemetry.sdk', 'opentelemetry.exporter'} & {*sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, encoding="utf-8", timeout=60
    )
    assert done.stdout.strip() == "set()"


async def test_spans_reach_a_collector_over_http(parts: RunDeps, monkeypatch: pytest.MonkeyPatch) -> None:
    bodies: list[bytes] = []

    class Collector(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            pass

    heard: list[RunEvent] = []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{server.server_port}"}
        async with instrument(replace(parts, listener=heard.append), task_of(), environ) as seen:
            await seen.model.reply("system", [UserMessage(text="go")], [])
            seen.listener(build_call_event(CALL))
        server.shutdown()
    assert b"invoke_agent kakite" in b"".join(bodies)
    assert b"kakite" in b"".join(bodies)
    assert heard == [build_call_event(CALL)]


async def test_who_waits_for_the_last_spans_to_be_taken_does_other_things_meanwhile(
    parts: RunDeps, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, came, taken = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    class Slow(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            loop.call_soon_threadsafe(came.set)
            taken.wait(WITHIN)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            pass

    async def meanwhile() -> None:
        await came.wait()
        taken.set()

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        other = asyncio.create_task(meanwhile())
        async with instrument(parts, task_of(), {"OTEL_EXPORTER_OTLP_ENDPOINT": address}):
            pass
        assert taken.is_set()
        await other
        server.shutdown()
