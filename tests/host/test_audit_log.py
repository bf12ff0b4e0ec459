from __future__ import annotations

import json
import multiprocessing
import stat
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import trace as telemetry
from opentelemetry.trace import NonRecordingSpan, SpanContext

from kakite.host import ApprovalConfig, ApprovedToolset, CallOutcome, DenyingApprover, Rule
from kakite.host import audit_log as tracing
from kakite.host.audit_log import AuditLog, TracedToolset, annotate
from kakite.redaction import HIDDEN, Redaction
from kakite.tools import FunctionTool, FunctionToolset, JsonObject, Tool, ToolCall, ToolResult
from tests.bounds import WITHIN, little_work

pytestmark = pytest.mark.anyio


def settled(result: str = "done", **arguments: Any) -> CallOutcome:
    return CallOutcome(
        call=ToolCall(id="7", name="files__write", arguments=arguments),
        server="files",
        tool="write",
        decision="allow",
        by='rule {"allow": "files__*"}',
        result=ToolResult(text=result),
        seconds=0.25,
        waited=1.5,
    )


def lines(file: Path) -> list[JsonObject]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def test_a_line_tells_of_a_call_and_nothing_of_what_was_said(tmp_path: Path) -> None:
    file = tmp_path / "state" / "trace.jsonl"
    AuditLog(file).record(settled("the résult", path="the path"))
    (line,) = lines(file)
    assert {name: line[name] for name in line if name not in {"time", "process"}} == {
        "call": "7",
        "server": "files",
        "tool": "write",
        "decision": "allow",
        "by": 'rule {"allow": "files__*"}',
        "seconds": 0.25,
        "waited": 1.5,
        "arguments_bytes": len('{"path": "the path"}'),
        "result_bytes": 11,
        "is_error": False,
        "code": "",
    }
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_arguments_are_told_on_request_without_secrets(tmp_path: Path) -> None:
    trace = AuditLog(tmp_path / "t", arguments=True, redaction=Redaction(["value of a variable"]))
    trace.record(
        settled(path="x", api_key="k", nested=[{"Authorization": "y"}], text="a value of a variable!")
    )
    assert lines(tmp_path / "t")[0]["arguments"] == {
        "path": "x",
        "api_key": HIDDEN,
        "nested": [{"Authorization": HIDDEN}],
        "text": f"a {HIDDEN}!",
    }


SECRETS = [
    "sk-ant-api03-abcdefghijklmnopqrstuvwxyz",
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "github_pat_11ABCDEFG0abcdefghijklmnop",
    "glpat-abcdefghijklmnopqrst",
    "AKIAIOSFODNN7EXAMPLE",
    "xoxb-123456789012-abcdefghijkl",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc-def_ghi",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----",
]


@given(
    secret=st.sampled_from(SECRETS),
    before=st.text("ab /=\"'\n", max_size=5),
    after=st.text("\n \"',;", max_size=5),
)
def test_what_looks_like_a_key_is_never_told(secret: str, before: str, after: str) -> None:
    if before[-1:].isalnum():
        before += " "
    assert secret not in Redaction().redact(before + secret + after)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Authorization: Bearer abcdefgh12345", f"Authorization: Bearer {HIDDEN}"),
        ("https://me:pass@host/x", f"https://{HIDDEN}@host/x"),
        ("curl -H 'token: abcdef'", f"curl -H 'token: {HIDDEN}'"),
        ("DB_PASSWORD=hunter2 run", f"DB_PASSWORD={HIDDEN} run"),
        (
            "an ordinary sentence about tokens and a path/x.py",
            "an ordinary sentence about tokens and a path/x.py",
        ),
    ],
)
def test_secrets_are_known_by_what_stands_around_them(text: str, told: str) -> None:
    assert Redaction().redact(text) == told


@given(secret=st.text('pqrst\n"', min_size=6, max_size=20), around=st.text(max_size=5))
def test_the_value_of_a_secret_variable_is_told_nowhere(secret: str, around: str) -> None:
    value = {"x": [around + secret, {secret: secret}], "y": 1}
    told = Redaction([secret]).redact_json(value)
    assert secret not in told["x"][0].replace(HIDDEN, "")
    assert told == {"x": [told["x"][0], {HIDDEN: HIDDEN}], "y": 1}


@pytest.mark.parametrize(
    "piece", ["x", "-", "token-", "eyJ-", "a://", "token ", "sk-", "-----BEGIN ", "secret="]
)
def test_a_long_text_takes_no_long_time(piece: str) -> None:
    with little_work():
        Redaction().redact(piece * 100_000)


def test_a_short_value_does_not_blank_out_everything() -> None:
    assert Redaction(["a", ""]).redact("a banana") == "a banana"


def test_a_full_file_is_put_aside_and_the_oldest_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "MAX_FILE_BYTES", 1000)
    trace = AuditLog(tmp_path / "t", arguments=True)
    for number in range(20):
        trace.record(settled(n=number))
    names = {"t", "t.1", "t.2", "t.3", "t.lock"}
    assert {file.name for file in tmp_path.iterdir()} == names
    kept = [each["arguments"]["n"] for name in ("t.3", "t.2", "t.1", "t") for each in lines(tmp_path / name)]
    assert kept == list(range(20 - len(kept), 20))
    assert all((tmp_path / name).stat().st_size <= 1000 for name in names)


def test_arguments_that_are_too_long_are_left_out_and_the_line_says_so(tmp_path: Path) -> None:
    AuditLog(tmp_path / "t", arguments=True).record(settled(text="x" * 2_000_000))
    (line,) = lines(tmp_path / "t")
    assert line["arguments_cut"]
    assert "arguments" not in line


def _write(file: Path, name: str) -> None:
    tracing.MAX_FILE_BYTES, tracing.BACKUP_COUNT = (
        50_000,
        40,
    )  # so that files are put aside all the time, and none goes
    trace = AuditLog(file, arguments=True)
    for number in range(60):
        trace.record(settled(n=f"{name}{number}", text="x" * 5000))


@pytest.mark.slow
def test_processes_that_write_at_once_write_whole_lines(tmp_path: Path) -> None:
    context: Any = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write, args=(tmp_path / "t", name)) for name in "abc"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(WITHIN)
        assert writer.exitcode == 0
    files = [file for file in tmp_path.iterdir() if file.name != "t.lock"]
    assert len({each["arguments"]["n"] for file in files for each in lines(file)}) == 180


def test_a_trace_that_cannot_be_written_stops_nothing_and_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text("theirs", encoding="utf-8")
    (tmp_path / "t").symlink_to(tmp_path / "theirs")
    AuditLog(tmp_path / "t").record(settled())
    assert (tmp_path / "theirs").read_text(encoding="utf-8") == "theirs"
    AuditLog(tmp_path / "theirs" / "t").record(settled())


# Spans


class Span(NonRecordingSpan):
    def __init__(self, name: str, attributes: dict[str, Any]) -> None:
        super().__init__(SpanContext(1, 1, is_remote=False))
        self.name, self.attributes = name, attributes

    def set_attribute(self, key: str, value: Any) -> None:
        self.attributes[key] = value

    def set_attributes(self, attributes: Any) -> None:
        self.attributes.update(attributes)


class Tracer(telemetry.NoOpTracer):
    """Keeps its spans."""

    def __init__(self) -> None:
        self.spans: list[Span] = []

    @contextmanager
    def start_as_current_span(self, name: str, **options: Any) -> Generator[Span]:  # type: ignore[override]
        span = Span(name, dict(options["attributes"]))
        self.spans.append(span)
        with telemetry.use_span(span):
            yield span


async def test_a_call_is_a_span_that_tells_what_was_decided_and_no_arguments() -> None:
    async def work(_arguments: JsonObject) -> ToolResult:
        return ToolResult(text="secret result")

    anything: JsonObject = {"type": "object", "properties": {"n": {}}}
    tools = FunctionToolset(
        *(FunctionTool(Tool(name=f"s__{name}", description="", parameters=anything), work) for name in "ab")
    )
    tracer = Tracer()
    approved = ApprovedToolset(
        tools,
        rules=[Rule(decision="allow", tool="s__a")],
        approver=DenyingApprover(),
        setting=ApprovalConfig(listener=annotate),
    )
    toolset = TracedToolset(approved, tracer)
    assert await toolset.list_tools() == await tools.list_tools()
    for name in "ab":
        await toolset.call(ToolCall(id=name, name=f"s__{name}", arguments={"n": "secret"}))
    assert [span.name for span in tracer.spans] == ["execute_tool s__a", "execute_tool s__b"]
    allowed, denied = (span.attributes for span in tracer.spans)
    assert (allowed["kakite.decision"], allowed["kakite.by"], allowed["kakite.server"]) == (
        "allow",
        "rule",
        "s",
    )
    assert (denied["kakite.decision"], denied["error.type"]) == ("deny", "approval_required")
    assert "secret" not in repr([allowed, denied])


async def test_without_a_tracer_provider_a_call_is_just_made() -> None:
    toolset = TracedToolset(FunctionToolset())
    assert (await toolset.call(ToolCall(id="1", name="x", arguments={}))).code == "unknown_tool"


@pytest.mark.parametrize("before", [1990, 1999])
def test_no_half_of_a_secret_is_in_the_trace_where_a_name_is_cut(tmp_path: Path, before: int) -> None:
    trace = AuditLog(tmp_path / "t", redaction=Redaction(["QXZQXZQXZQXZQXZ"]))
    trace.record(replace(settled(), tool="y" * before + "QXZQXZQXZQXZQXZ"))
    assert "Q" not in lines(tmp_path / "t")[0]["tool"]


@pytest.mark.parametrize("depth", [400, 5000])
def test_arguments_that_are_too_deep_are_left_out_and_the_call_is_told(tmp_path: Path, depth: int) -> None:
    deep: JsonObject = {}
    for _ in range(depth):
        deep = {"a": deep}
    trace = AuditLog(tmp_path / "t", arguments=True)
    trace.record(settled(deep=deep))
    trace.record(settled(path="x"))
    first, second = lines(tmp_path / "t")
    assert (first["tool"], first.get("arguments_cut")) == ("write", True)
    assert second["arguments"] == {"path": "x"}
