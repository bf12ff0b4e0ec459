"""Whatever a client sends: the server neither falls silent nor dies, and answers the next good request."""

from __future__ import annotations

import http.client
import json
import os
import select
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.bounds import WITHIN
from tests.forking import COMMAND, popen
from tests.lanes import examples
from tests.serve.test_streamable_http import Server, serving

from kakite.serve.jsonrpc_lines import make_oversized_error, make_parse_error

FUZZ = settings(
    max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
methods = st.sampled_from(
    [
        *("initialize", "ping", "tools/list", "tools/call", "resources/read", "server/discover"),
        *("notifications/cancelled", "notifications/initialized", "subscriptions/listen", "nonsense", ""),
    ]
)
requests: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0") | json_values},
    optional={
        "id": json_values,
        "method": methods | json_values,
        "params": json_values,
        "result": json_values,
    },
)
calls: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "jsonrpc": st.just("2.0"),
        "id": st.integers() | st.text(max_size=10),
        "method": st.just("tools/call"),
        "params": st.fixed_dictionaries(
            {"name": st.sampled_from(["text_editor", "nonsense"]), "arguments": json_values},
            optional={"_meta": json_values},
        ),
    }
)


def encoded(value: Any) -> bytes:
    return json.dumps(value).encode()


def cut(frame: bytes, share: float) -> bytes:
    return frame[: round(len(frame) * share)]


whole = (requests | calls | st.lists(requests, max_size=3) | json_values).map(encoded)
frames = (
    whole
    | st.builds(cut, whole, st.floats(0, 1))
    | st.binary(max_size=60).map(lambda each: each.replace(b"\n", b""))
    | st.integers(1, 100_000).map(lambda depth: b"[" * depth)
    | st.integers(1, 300_000).map(lambda size: b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * size + b'"}')
    | st.just(b'{"jsonrpc":"2.0","id":"\\ud800","method":"tools/list"}')
)


class Pipe:
    """A server, and a client that sends bytes."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
        self.errors = folder / "stderr"
        self._asked = 0
        with self.errors.open("wb") as errors:
            self.program = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "kakite",
                    "serve",
                    "--root",
                    str(folder),
                    "--tools",
                    "editor",
                    *arguments,
                ],
                env={**kept, "XDG_STATE_HOME": str(folder / "state")},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                bufsize=0,
            )
        self._unread = b""
        client = {"name": "fuzz", "version": "1"}
        self.ask("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=client)
        self.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')

    def send(self, frame: bytes) -> None:
        assert self.program.stdin is not None
        self.program.stdin.write(frame + b"\n")

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Ask a good question and return its answer; others that come before are passed over."""
        self._asked += 1
        wanted = f"good {self._asked}"
        self.send(json.dumps({"jsonrpc": "2.0", "id": wanted, "method": method, "params": params}).encode())
        while True:
            answer = json.loads(self.line())
            assert answer["jsonrpc"] == "2.0"
            assert "Traceback" not in json.dumps(answer)
            if answer.get("id") == wanted:
                return answer

    def line(self) -> bytes:
        assert self.program.stdout is not None
        while b"\n" not in self._unread:
            assert select.select([self.program.stdout], [], [], WITHIN)[0], "the server fell silent"
            more = os.read(self.program.stdout.fileno(), 65536)
            assert more, "the server died"
            self._unread += more
        line, _, self._unread = self._unread.partition(b"\n")
        return line


@pytest.fixture(scope="module")
def pipe(tmp_path_factory: pytest.TempPathFactory) -> Generator[Pipe]:
    opened = Pipe(tmp_path_factory.mktemp("fuzz"))
    try:
        yield opened
    finally:
        assert opened.program.stdin is not None
        opened.program.stdin.close()
        opened.program.kill()
        opened.program.wait()
        assert opened.program.stdout is not None
        opened.program.stdout.close()


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Generator[Server]:
    with serving(tmp_path_factory.mktemp("fuzz"), "--tools", "editor") as server:
        yield server


@pytest.mark.slow
@FUZZ
@given(sent=st.lists(frames, max_size=4))
def test_after_any_lines_the_next_good_request_is_answered(sent: list[bytes], pipe: Pipe) -> None:
    for frame in sent:
        pipe.send(frame)
    assert [tool["name"] for tool in pipe.ask("tools/list")["result"]["tools"]] == ["text_editor"]


@pytest.mark.slow
@FUZZ
@given(body=frames, modern=st.booleans())
def test_any_body_is_answered_with_json_and_the_next_good_request_too(
    body: bytes, modern: bool, web: Server
) -> None:
    version = "2026-07-28" if modern else "2025-11-25"
    status, headers, answer = web.request(raw=body, MCP_Protocol_Version=version, Mcp_Method="tools/list")
    assert b"Traceback" not in answer
    assert status in {200, 202, 400, 404, 406}
    if status == 400 and answer:
        assert headers["content-type"].startswith("application/json")
        json.loads(answer)
    web.open_session()


@FUZZ
@given(body=whole, share=st.floats(0, 1))
def test_a_client_that_leaves_in_the_middle_of_its_request_harms_no_other(
    body: bytes, share: float, web: Server
) -> None:
    place = urlsplit(web.url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=WITHIN)
    connection.putrequest("POST", place.path)
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Accept", "application/json, text/event-stream")
    connection.putheader("Content-Length", str(len(body) + 1))
    connection.endheaders(cut(body, share))
    connection.close()
    web.open_session()


@pytest.mark.slow
@pytest.mark.parametrize(
    "ending", [b"", b'{"jsonrpc":"2.0","id":1,"meth', b'{"jsonrpc":"2.0","id":1,"method":"ping"}']
)
def test_a_client_that_leaves_ends_the_server_in_silence(ending: bytes, tmp_path: Path) -> None:
    pipe = Pipe(tmp_path)
    assert pipe.program.stdin is not None
    assert pipe.program.stdout is not None
    pipe.program.stdin.write(ending)
    pipe.program.stdin.close()
    assert pipe.program.wait(WITHIN) == 0
    pipe.program.stdout.close()
    assert pipe.errors.read_bytes() == b""


@pytest.mark.slow
@pytest.mark.parametrize("request_id", [0, -1, 2**70, "", "a b", "語", 1.5, None, True, [], {}])
def test_a_request_is_answered_under_its_own_id_or_refused(request_id: object, pipe: Pipe) -> None:
    pipe.send(json.dumps({"jsonrpc": "2.0", "id": request_id, "method": "ping"}).encode())
    pipe.send(b'{"jsonrpc":"2.0","id":"end","method":"ping"}')
    seen: list[dict[str, Any]] = []
    while not seen or seen[-1].get("id") != "end":
        seen.append(json.loads(pipe.line()))
    (answer,) = seen[:-1]
    if "result" in answer:
        assert answer["id"] == request_id
    else:
        assert answer["error"]["code"] == -32600


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "code", "request_id"),
    [
        (b"nonsense", -32700, None),
        (b"\xff\xfe", -32700, None),
        (b"[]", -32600, None),
        (b'{"jsonrpc":"2.0","id":7}', -32600, 7),
        (b'{"jsonrpc":"2.0","id":true,"method":1}', -32600, None),
        (b'{"jsonrpc":"2.0","id":"a","method":1}', -32600, "a"),
        (b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}', -32600, None),
    ],
)
def test_what_is_no_message_is_refused_under_its_id_if_it_has_one(
    line: bytes, code: int, request_id: object
) -> None:
    refused = make_parse_error(line)
    assert (refused.error.code, refused.id) == (code, request_id)


@pytest.mark.slow
def test_half_of_a_character_in_an_argument_is_told_as_such() -> None:
    call = (
        b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"x","arguments":{"a":["\\ud800"]}}}'
    )
    refused = make_parse_error(call)
    assert (refused.id, "half of a character" in refused.error.message) == (5, True)
    assert (
        "half" not in make_parse_error(b'{"jsonrpc":"2.0","id":5,"params":["\\ud83d\\ude00"]}').error.message
    )


@pytest.mark.slow
def test_a_library_that_prints_does_not_break_the_conversation(tmp_path: Path) -> None:
    code = """
import asyncio, os, sys
from kakite.serve import build_server, serve_stdio
from kakite.tools import FunctionTool, FunctionToolset, Tool, ToolResult
async def shout(arguments):
    print("noise", flush=True)
    os.write(1, b"more noise\\n")
    return ToolResult(text="input: " + repr(sys.stdin.read()))
tool = Tool(name="shout", description="", parameters={"type": "object"})
asyncio.run(serve_stdio(build_server(FunctionToolset(FunctionTool(tool, shout)))))
"""
    lines: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": _OPENING},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "shout", "arguments": {}}},
    ]
    given_lines = "".join(json.dumps({"jsonrpc": "2.0", **line}) + "\n" for line in lines)
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        program.stdin.write(given_lines)
        program.stdin.flush()
        assert json.loads(program.stdout.readline())["id"] == 1
        assert json.loads(program.stdout.readline())["result"]["content"][0]["text"] == "input: ''"
        assert program.communicate(timeout=WITHIN)[1].splitlines() == ["noise", "more noise"]


_OPENING: dict[str, Any] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "t", "version": "1"},
}


@pytest.mark.slow
def test_requests_from_a_file_are_answered_into_a_file(tmp_path: Path) -> None:
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": _OPENING}) + "\n"
    (tmp_path / "in").write_text(line, encoding="utf-8")
    with (tmp_path / "in").open("rb") as asked, (tmp_path / "out").open("wb") as answered:
        command = [*COMMAND, "serve", "--root", str(tmp_path)]
        with popen(command, stdin=asked, stdout=answered) as program:
            assert program.wait(WITHIN) == 0
    assert json.loads((tmp_path / "out").read_bytes())["result"]["serverInfo"]["name"] == "kakite"


@pytest.mark.slow
def test_a_number_of_thousands_of_digits_is_refused_under_its_id() -> None:
    line = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"n":%s}}' % (b"9" * 5000)
    assert make_parse_error(line).id == 7


@pytest.mark.parametrize(
    ("opening", "told"), [('{"jsonrpc":"2.0","id":7,', 7), ('{"id":"a-1",', "a-1"), ('{"x":1,', None)]
)
def test_a_message_over_the_limit_is_answered_with_its_size(opening: str, told: str | int | None) -> None:
    answer = make_oversized_error(opening.encode() + b'"method":"pi', 70_000_000, 64_000_000)
    assert answer.id == told
    assert "70,000,000 bytes" in answer.error.message
    assert answer.error.code == -32700
