"""Real servers, started as programs."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kakite.host import ServerError, ServerToolset, connect
from kakite.processes import ProcessSpec
from kakite.redaction import HIDDEN
from kakite.tools import ToolCall
from tests.bounds import WITHIN
from tests.host.servers import law_toolset

pytestmark = pytest.mark.anyio

SERVERS = Path(__file__).with_name("servers.py")


def launch(*arguments: str) -> ProcessSpec:
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return ProcessSpec(argv=(sys.executable, str(SERVERS), *arguments), env=environment, cwd="/")


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(id="1", name=name, arguments=arguments)


@pytest.fixture
async def law() -> AsyncIterator[ServerToolset]:
    async with connect(launch("law"), name="law", trusted=True) as toolset:
        yield toolset


@pytest.mark.slow
async def test_what_is_seen_of_a_served_toolset_lists_like_it(law: ServerToolset) -> None:
    assert await law.list_tools() == await law_toolset().list_tools()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.slow
@given(value=json_values)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_what_is_seen_of_a_served_toolset_answers_like_it(law: ServerToolset, value: object) -> None:
    asked = call("echo", value=value)
    assert await law.call(asked) == await law_toolset().call(asked)


_SPELLS = """
import asyncio
from kakite.serve import build_server, serve_stdio
from kakite.tools import FunctionTool, FunctionToolset, Tool, ToolResult
async def spell(arguments):
    said = "".join(map(chr, arguments["points"]))
    return ToolResult(text=said, details={"said": said})
tool = Tool(name="spell", description="", parameters={"type": "object", "properties": {"points": {}}})
asyncio.run(serve_stdio(build_server(FunctionToolset(FunctionTool(tool, spell)))))
"""


@pytest.fixture
async def speller() -> AsyncIterator[ServerToolset]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}
    program = ProcessSpec(argv=(sys.executable, "-c", _SPELLS), env=kept, cwd="/")
    async with connect(program, name="speller", trusted=True) as toolset:
        yield toolset


@pytest.mark.slow
@given(
    said=st.text(st.characters(categories=["Cs"]) | st.characters(min_codepoint=0xDC80, max_codepoint=0xDCFF))
    | st.text()
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_an_answer_that_is_no_valid_text_is_seen_with_all_that_is(
    speller: ServerToolset, said: str
) -> None:
    with anyio.fail_after(WITHIN):
        result = await speller.call(call("spell", points=[ord(character) for character in said]))
    assert result.text == result.details["said"]
    try:
        said.encode()
    except UnicodeEncodeError:
        assert "\\" in result.text
    else:
        assert result.text == said


@pytest.mark.slow
@pytest.mark.parametrize(
    "asked", [call("refuse"), call("nosuch"), call("echo", wrong=1), call("refuse", extra="x")]
)
async def test_failures_are_seen_like_the_toolset_gives_them(law: ServerToolset, asked: ToolCall) -> None:
    assert await law.call(asked) == await law_toolset().call(asked)


@pytest.mark.slow
async def test_what_breaks_inside_a_tool_is_an_error_without_its_inside(law: ServerToolset) -> None:
    result = await law.call(call("crash"))
    assert (result.is_error, result.code) == (True, "internal")
    assert "secret" not in result.text


@pytest.mark.slow
async def test_what_a_server_says_of_its_effects_counts_only_when_it_is_trusted() -> None:
    async with connect(launch("law"), name="law") as toolset:
        assert {tool.effect for tool in await toolset.list_tools()} == {"execute"}
        assert all(tool.open_world for tool in await toolset.list_tools())


@pytest.mark.slow
async def test_a_server_that_dies_at_once_is_named_with_its_last_words() -> None:
    with pytest.raises(ServerError) as caught:
        async with connect(launch("dies_at_once"), name="weak"):
            pass
    assert caught.value.code == "server_not_started"
    assert "my last words" in caught.value.hint


@pytest.mark.slow
async def test_what_a_server_says_last_is_told_without_secrets_and_control_characters() -> None:
    def with_token(name: str) -> ProcessSpec:
        plain = launch(name)
        return replace(plain, env={**plain.env, "API_TOKEN": "correct horse battery"})

    with pytest.raises(ServerError) as caught:
        async with connect(with_token("dies_at_once"), name="weak"):
            pass
    assert caught.value.hint == f"it said: my last words {HIDDEN}"
    async with connect(with_token("dies_in_call"), name="weak", trusted=True) as toolset:
        with anyio.fail_after(WITHIN):
            result = await toolset.call(call("die"))
    assert f"dying now {HIDDEN}" in result.text
    assert "horse" not in result.text


async def test_a_program_that_is_not_there_is_named() -> None:
    missing = ProcessSpec(argv=("no-such-program",), env={"PATH": os.environ["PATH"]}, cwd="/")
    with pytest.raises(ServerError) as caught:
        async with connect(missing, name="missing"):
            pass
    assert caught.value.code == "server_not_started"


@pytest.mark.slow
async def test_a_server_that_dies_in_a_call_gives_an_error_result() -> None:
    async with connect(launch("dies_in_call"), name="weak", trusted=True) as toolset:
        with anyio.fail_after(WITHIN):
            result = await toolset.call(call("die"))
        assert (result.is_error, result.code) == (True, "server_failed")
        assert "dying now" in result.text


@pytest.mark.slow
async def test_nothing_is_left_of_a_server_that_does_not_want_to_end(tmp_path: Path) -> None:
    told = tmp_path / "grandchild"
    with anyio.fail_after(WITHIN):
        async with connect(launch("stubborn", str(told)), name="stubborn", trusted=True) as toolset:
            await toolset.list_tools()
    grandchild = int(told.read_text(encoding="utf-8"))
    assert not Path(f"/proc/{grandchild}").exists()


async def test_cancelled_while_its_server_starts_it_ends_at_once_and_quietly(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    started = tmp_path / "started"
    silent = ProcessSpec(
        argv=("sh", "-c", f"echo $$ > {started}.new; mv {started}.new {started}; exec cat > /dev/null"),
        env={"PATH": os.environ["PATH"]},
        cwd="/",
    )

    async def use() -> None:
        async with connect(silent, name="silent"):
            pass

    with anyio.fail_after(WITHIN):
        using = asyncio.create_task(use())
        while not started.exists():
            await anyio.lowlevel.checkpoint()
        using.cancel()
        with pytest.raises(asyncio.CancelledError):
            await using
    assert not Path(f"/proc/{int(started.read_text(encoding='utf-8'))}").exists()
    assert caplog.records == []
