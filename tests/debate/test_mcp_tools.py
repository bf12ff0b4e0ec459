"""``kakite debate serve``, as MCP clients start it and call it: what every reply is."""

from __future__ import annotations

import json
import os
import select
import signal
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from kakite.debate.mcp.tools import DebateTools
from kakite.debate.model import Debate
from kakite.debate.session import DebateManager
from kakite.tools import ToolCall
from tests.bounds import WITHIN
from tests.debate.arguing import CLAUDE, CODEX
from tests.debate.serving import (
    ERAS,
    Gate,
    call,
    finished,
    gate,
    living,
    participants,
    read,
    server,
    server_parameters,
    words_of,
)
from tests.debate.test_session import Told

pytestmark = pytest.mark.anyio
TOOLS = ["start_debate", "step", "wait", "status", "stop"]
QUESTION = "What becomes of bookshops?"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def slow(door: Gate) -> str:
    """Two sides, of which one answers when the test lets it."""
    return participants(codex=door.command, claude="objects")


@pytest.mark.slow
@pytest.mark.parametrize("era", ERAS)
async def test_a_client_of_either_era_debates_decides_and_stops(era: str, home: Path) -> None:
    with anyio.fail_after(WITHIN):
        async with Client(server(home, "--hold", "60"), mode=era) as client:
            first = await call(client, "start_debate", initial_prompt=QUESTION, verdict="They stay.")
            assert first["status"] == "ok"
            assert first["turn"] == {
                "user_instruction": QUESTION,
                "codex_output": "It depends.",
                "claude_output": "It depends.",
            }
            assert first["round"] == 2
            second = await call(client, "step", decision={"type": "adopt_claude"})
            assert (second["status"], second["turn_number"]) == ("ok", 2)
            assert second["turn"]["user_instruction"] == "adopt_claude"
            third = await call(
                client, "step", decision={"type": "custom_instruction", "custom_text": "Now the costs."}
            )
            assert third["turn"]["user_instruction"] == "custom_instruction: Now the costs."
            assert (await call(client, "stop"))["status"] == "stopped"
            again = await call(client, "start_debate", initial_prompt=QUESTION)
            assert again["status"] == "ok"


@pytest.mark.slow
async def test_every_tool_may_be_called_without_asking_and_has_a_plain_schema(home: Path) -> None:
    async with Client(server(home), mode="legacy") as client:
        listed = (await client.list_tools()).tools
        assert [tool.name for tool in listed] == TOOLS
        for tool in listed:
            assert tool.annotations
            assert tool.annotations.read_only_hint is True
            assert tool.annotations.destructive_hint is False
            assert tool.input_schema["additionalProperties"] is False
            assert len(tool.description or "") < 400
        step = next(tool for tool in listed if tool.name == "step")
        assert {"adopt_codex", "adopt_claude", "custom_instruction"} <= set(
            step.input_schema["properties"]["decision"]["properties"]["type"]["enum"]
        )
        assert len(json.dumps([tool.input_schema for tool in listed])) < 5000


@pytest.mark.slow
async def test_the_judges_guide_is_a_prompt_and_the_instructions(home: Path) -> None:
    async with Client(server(home), mode="legacy") as client:
        (listed,) = (await client.list_prompts()).prompts
        assert listed.name == "judge"
        given = await client.get_prompt("judge", {"topic": QUESTION})
        text = given.messages[0].content
        assert text.type == "text"
        assert "start_debate" in text.text
        assert QUESTION in text.text
        assert client.instructions
        assert "before you start it" in client.instructions.casefold()
        assert len(client.instructions.encode()) < 2048  # claude cuts what is longer
        with pytest.raises(MCPError, match="there is judge"):
            await client.get_prompt("jury")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tool", "arguments", "code", "told"),
    [
        ("step", {"decision": {"type": "adopt_codex"}}, "no_active_session", "no active session"),
        ("stop", {}, "no_active_session", "no active session"),
        ("wait", {}, "no_active_session", "no active session"),
        ("start_debate", {}, "bad_arguments", "'initial_prompt' is a required property"),
        ("start_debate", {"initial_prompt": "  "}, "bad_terms", "the prompt is empty"),
        ("start_debate", {"prompt": "x"}, "bad_arguments", "no argument `prompt`"),
        ("start_debate", {"initial_prompt": "x", "rounds": 5}, "bad_arguments", "maximum of 4"),
        ("wait", {"seconds": 300}, "bad_arguments", "maximum of 45"),
        ("step", {"decision": {"type": "adopt_gemini"}}, "bad_arguments", "adopt_claude"),
        ("start", {}, "unknown_tool", "start_debate"),
    ],
)
async def test_what_is_asked_wrongly_is_an_error_that_says_how_to_go_on(
    home: Path, tool: str, arguments: dict[str, Any], code: str, told: str
) -> None:
    async with Client(server(home), mode="legacy") as client:
        result = await client.call_tool(tool, arguments)
        said = read(result)
        assert result.is_error
        assert (said["status"], said["code"]) == ("error", code)
        assert told in said["message"] + said["hint"]
        assert "turn" not in said


@pytest.mark.slow
async def test_status_without_a_debate_says_so_and_lists_none(home: Path) -> None:
    async with Client(server(home), mode="legacy") as client:
        said = await call(client, "status")
        assert (said["status"], said["message"], said["sessions"]) == ("error", "no active session", [])


@pytest.mark.slow
async def test_a_start_that_takes_longer_answers_with_a_job_and_tells_how_it_goes(home: Path) -> None:
    door, heard = gate(home), list[str]()

    async def listen(progress: float, total: float | None, message: str | None) -> None:
        heard.append(message or "")

    with anyio.fail_after(WITHIN):
        async with Client(server(home, "--hold", "0.2", sides=slow(door)), mode="legacy") as client:
            said = read(
                await client.call_tool(
                    "start_debate", {"initial_prompt": QUESTION, "rounds": 1}, progress_callback=listen
                )
            )
            assert (said["status"], said["round"]) == ("running", 1)
            assert "codex" in said["waiting_for"]
            assert "wait" in said["hint"]
            assert "turn" not in said
            refused = await call(client, "step", decision={"type": "adopt_codex"})
            assert refused["code"] == "still_running"
            again = await call(client, "start_debate", initial_prompt="Another?")
            assert again["code"] == "already_active"
            assert "reset" in again["hint"]
            await anyio.to_thread.run_sync(door.begun)
            await anyio.to_thread.run_sync(door.let)
            said = await finished(client)
            assert said["turn"]["codex_output"] == "Late, but mine."
            assert any("asked" in each or "answered" in each for each in heard), heard


@pytest.mark.slow
async def test_reset_ends_the_debate_that_runs_and_its_programs(home: Path) -> None:
    door = gate(home)
    with anyio.fail_after(WITHIN):
        async with Client(server(home, "--hold", "0", sides=slow(door)), mode="legacy") as client:
            await call(client, "start_debate", initial_prompt=QUESTION)
            process = os.pidfd_open(await anyio.to_thread.run_sync(door.begun))
            said = await call(client, "start_debate", initial_prompt="Another?", reset=True)
            assert said["status"] == "running"
            assert select.select([process], [], [], 0)[0]
            os.close(process)
            assert (await call(client, "stop"))["status"] == "stopped"


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [{"initial_prompt": "  "}, {"initial_prompt": "x", "rounds": 5}])
async def test_a_reset_that_is_refused_leaves_the_debate_as_it_was(wrong: dict[str, Any], home: Path) -> None:
    with anyio.fail_after(WITHIN):
        async with Client(server(home, "--hold", "60"), mode="legacy") as client:
            before = await call(client, "start_debate", initial_prompt=QUESTION)
            refused = await call(client, "start_debate", reset=True, **wrong)
            assert refused["code"] in {"bad_terms", "bad_arguments"}
            after = await call(client, "status")
            assert {name: after[name] for name in before} == before
            assert (await call(client, "step", decision={"type": "continue"}))["turn_number"] == 2


@pytest.mark.slow
@pytest.mark.parametrize("era", ERAS)
async def test_a_cancelled_start_leaves_no_program_and_wait_goes_on_with_the_debate(
    era: str, home: Path
) -> None:
    door = gate(home)
    with anyio.fail_after(WITHIN):
        async with Client(server(home, "--hold", "60", sides=slow(door)), mode=era) as client:
            processes: list[int] = []
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.call_tool, "start_debate", {"initial_prompt": QUESTION, "rounds": 1})
                processes.append(os.pidfd_open(await anyio.to_thread.run_sync(door.begun)))
                tasks.cancel_scope.cancel()
            assert await anyio.to_thread.run_sync(lambda: select.select(processes, [], [], 60)[0])
            os.close(processes[0])
            assert (await call(client, "status"))["status"] == "running"
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(anyio.to_thread.run_sync, lambda: (door.begun(), door.let()))
                assert (await finished(client))["turn"]["codex_output"] == "Late, but mine."


@pytest.mark.slow
async def test_a_cancelled_wait_ends_nothing(home: Path) -> None:
    door = gate(home)
    with anyio.fail_after(WITHIN):
        async with Client(server(home, "--hold", "0", sides=slow(door)), mode="legacy") as client:
            await call(client, "start_debate", initial_prompt=QUESTION, rounds=1)
            await anyio.to_thread.run_sync(door.begun)
            with anyio.move_on_after(0.2):
                await client.call_tool("wait", {"seconds": 45})
            await anyio.to_thread.run_sync(door.let)
            assert (await finished(client))["turn"]["codex_output"] == "Late, but mine."


@pytest.mark.slow
async def test_when_the_client_goes_no_program_is_left_and_nothing_is_on_disk(home: Path) -> None:
    door = gate(home)
    with anyio.fail_after(WITHIN):
        async with Client(server(home, "--hold", "0", sides=slow(door)), mode="legacy") as client:
            await call(client, "start_debate", initial_prompt=QUESTION)
            process = os.pidfd_open(await anyio.to_thread.run_sync(door.begun))
        assert await anyio.to_thread.run_sync(lambda: select.select([process], [], [], 60)[0])
        os.close(process)
    assert living(home) == []
    assert {file.name for file in home.rglob("*") if not file.is_dir()} == {"begun", "let"}


@pytest.mark.slow
async def test_one_side_that_fails_degrades_the_debate_and_its_partner_is_heard(home: Path) -> None:
    sides = participants(codex="http_500", claude="agrees")
    with anyio.fail_after(WITHIN):
        async with Client(server(home, "--hold", "60", sides=sides), mode="legacy") as client:
            said = await call(client, "start_debate", initial_prompt=QUESTION)
            assert said["status"] == "degraded"
            assert said["turn"]["codex_output"] == ""
            assert said["turn"]["claude_output"] == "It depends."
            (failed,) = said["failures"]
            assert (failed["side"], failed["code"]) == ("codex", "http_error")


@pytest.mark.slow
async def test_when_all_fail_it_is_an_error_and_each_is_named(home: Path) -> None:
    sides = participants(codex="not_logged_in", claude=("/nonexistent/claude",))
    with anyio.fail_after(WITHIN):
        async with Client(server(home, "--hold", "60", sides=sides), mode="legacy") as client:
            result = await client.call_tool("start_debate", {"initial_prompt": QUESTION})
            said = read(result)
            assert not result.is_error  # the call did what it says
            assert said["status"] == "error"
            assert "turn" not in said
            assert {each["code"] for each in said["failures"]} == {"not_logged_in", "not_installed"}
            assert "codex login" in json.dumps(said)


@pytest.mark.slow
async def test_models_that_write_the_decision_otherwise_are_understood(home: Path) -> None:
    with anyio.fail_after(WITHIN):
        async with Client(server(home, "--hold", "60", "--rounds", "1"), mode="legacy") as client:
            await call(client, "start_debate", initial_prompt=QUESTION)
            assert (await call(client, "step", decision="synthesize"))["turn_number"] == 2
            written = json.dumps({"type": "evidence", "custom_text": "Rents double."})
            assert (await call(client, "step", decision=written))["turn_number"] == 3
            assert (await call(client, "step", type="continue"))["turn_number"] == 4
            null = {"type": "adopt_codex", "custom_text": None}
            assert (await call(client, "step", decision=null))["turn_number"] == 5


@pytest.mark.slow
async def test_answers_of_any_length_fit_into_a_reply(home: Path) -> None:
    long = ("python3", "-c", "import sys; sys.stdin.read(); print('word ' * 50_000)")
    sides = participants(codex=long, claude="agrees")
    with anyio.fail_after(WITHIN):
        async with Client(
            server(home, "--hold", "60", "--mode", "ensemble", sides=sides), mode="legacy"
        ) as client:
            said = await call(client, "start_debate", initial_prompt=QUESTION + " In detail." * 10_000)
            assert "characters left out" in said["turn"]["codex_output"]
            assert said["turn"]["user_instruction"].startswith(QUESTION)
            assert len(json.dumps(said)) < 50_000


@pytest.mark.slow
async def test_twenty_sessions_at_once_each_end_with_their_own_answers(home: Path) -> None:
    with anyio.fail_after(240):
        async with Client(server(home, "--hold", "0", "--rounds", "1"), mode="legacy") as client:
            said: dict[str, dict[str, Any]] = {}

            async def debate(name: str) -> None:
                await call(client, "start_debate", initial_prompt=f"About {name}?", session=name)
                said[name] = await finished(client, session=name)

            async with anyio.create_task_group() as tasks:
                for number in range(20):
                    tasks.start_soon(debate, f"s{number}")
            assert {name: each["turn"]["user_instruction"] for name, each in said.items()} == {
                f"s{number}": f"About s{number}?" for number in range(20)
            }
            assert {each["status"] for each in said.values()} == {"ok"}
            listed = (await call(client, "status"))["sessions"]
            assert {each["session"] for each in listed} == set(said)


@pytest.mark.slow
async def test_killed_in_mid_round_a_kept_debate_goes_on_and_loses_no_answer(home: Path) -> None:
    door = gate(home)
    with anyio.fail_after(180):
        async with Client(
            server_parameters(home, "--keep", "--hold", "0", sides=slow(door)), mode="legacy"
        ) as client:
            await call(client, "start_debate", initial_prompt=QUESTION, rounds=1, session="shop")
            process = os.pidfd_open(await anyio.to_thread.run_sync(door.begun))
            while (await call(client, "wait", seconds=1, session="shop"))["waiting_for"] != ["codex"]:
                pass  # the answer of claude is there, and kept, when it is told
            for each in _servers(home):
                os.kill(each, signal.SIGKILL)
            assert await anyio.to_thread.run_sync(lambda: select.select([process], [], [], 60)[0])
            os.close(process)
        sides = participants(codex="agrees", claude=("/nonexistent/claude",))  # it is not asked again
        async with Client(server(home, "--keep", "--hold", "0", sides=sides), mode="legacy") as client:
            listed = (await call(client, "status"))["sessions"]
            assert [(each["session"], each["status"], each["kept"]) for each in listed] == [
                ("shop", "running", True)
            ]
            refused = await call(client, "start_debate", initial_prompt="?", session="shop")
            assert refused["code"] == "already_active"
            said = await finished(client, session="shop")
            assert said["status"] == "ok"
            assert said["turn"]["claude_output"] == said["turn"]["codex_output"] == "It depends."
            assert (await call(client, "stop", session="shop"))["status"] == "stopped"
        async with Client(server(home, "--keep", "--hold", "0", sides=sides), mode="legacy") as client:
            assert (await call(client, "step", session="shop", decision={"type": "continue"}))["code"] == (
                "no_active_session"
            )


@pytest.mark.slow
async def test_a_kept_debate_whose_sides_are_not_there_says_so_and_can_be_stopped(home: Path) -> None:
    others = participants(codex="agrees", gemini="agrees")
    with anyio.fail_after(180):
        async with Client(server(home, "--keep", "--hold", "60", "--rounds", "1"), mode="legacy") as client:
            await call(client, "start_debate", initial_prompt=QUESTION)
        there = server(home, "--keep", "--hold", "60", "-p", "codex", "-p", "gemini", sides=others)
        async with Client(there, mode="legacy") as client:
            assert (await call(client, "wait"))["status"] == "ok"  # nobody need be asked for that
            refused = await call(client, "step", decision={"type": "continue"})
            assert (refused["code"], refused["message"]) == ("bad_terms", "there is no participant `claude`")
            assert "codex and claude" in refused["hint"]
            assert "stop" in refused["hint"]
            active = await call(client, "start_debate", initial_prompt="Another?")
            assert active["code"] == "already_active"
            listed = (await call(client, "status"))["sessions"]
            assert [(each["session"], each["about"]) for each in listed] == [("", QUESTION)]
            assert (await call(client, "stop"))["status"] == "stopped"
            again = await call(client, "start_debate", initial_prompt="Another?")
            assert again["turn"]["gemini_output"] == "It depends."


@pytest.mark.slow
async def test_a_kept_debate_that_cannot_be_read_is_put_aside_by_reset(home: Path) -> None:
    with anyio.fail_after(180):
        async with Client(server(home, "--keep", "--hold", "60", "--rounds", "1"), mode="legacy") as client:
            await call(client, "start_debate", initial_prompt=QUESTION)
            await call(client, "stop")
        with closing(sqlite3.connect(home / ".local/state/kakite/debates.sqlite")) as database, database:
            database.execute("""UPDATE events SET event = '{"type": "begun", "prompt": 5}' WHERE n = 0""")
        async with Client(server(home, "--keep", "--hold", "60", "--rounds", "1"), mode="legacy") as client:
            refused = await call(client, "start_debate", initial_prompt="Another?")
            assert refused["code"] == "kept_unreadable"
            assert "\n" not in refused["message"]
            assert "(unnamed)" in refused["message"]
            assert "`kakite debate --delete ''`" in refused["hint"]
            assert "`reset`" in refused["hint"]
            begun = await call(client, "start_debate", initial_prompt="Another?", reset=True)
            assert begun["status"] == "ok"
            listed = (await call(client, "status"))["sessions"]
            assert [(each["session"], each["about"]) for each in listed] == [
                ("", "Another?"),
                ("debate~1", "unreadable"),
            ]


async def test_while_a_transcript_is_written_other_calls_are_answered(home: Path) -> None:
    begun, let = threading.Event(), threading.Event()

    def publish(session: str, debate: Debate) -> Path:
        begun.set()
        assert let.wait(WITHIN)
        return home / f"{session}{len(debate.turns)}.md"

    with anyio.fail_after(WITHIN):
        said: list[dict[str, Any]] = []
        async with DebateManager([Told(CODEX), Told(CLAUDE)]) as bridge, anyio.create_task_group() as tasks:
            tools = DebateTools(bridge, hold=30, publish=publish)

            async def start() -> None:
                given = {"initial_prompt": QUESTION, "session": "a"}
                begins = ToolCall(id="1", name="start_debate", arguments=given)
                said.append(json.loads((await tools.call(begins)).text))

            tasks.start_soon(start)
            assert await anyio.to_thread.run_sync(begun.wait, 20)
            assert not said  # it tells where the transcript is
            looked = ToolCall(id="2", name="status", arguments={"session": "a"})
            assert json.loads((await tools.call(looked)).text)["status"] == "ok"
            let.set()
        assert said[0]["transcript"] == str(home / "a1.md")


async def test_a_transcript_that_takes_long_keeps_nobody_and_is_told_later(home: Path) -> None:
    let = threading.Event()

    def publish(session: str, debate: Debate) -> Path:
        assert let.wait(WITHIN)
        return home / "debate.md"

    with anyio.fail_after(WITHIN):
        async with DebateManager([Told(CODEX), Told(CLAUDE)]) as bridge:
            tools = DebateTools(bridge, hold=30, publish=publish)
            begins = ToolCall(id="1", name="start_debate", arguments={"initial_prompt": QUESTION})
            said = json.loads((await tools.call(begins)).text)
            assert (said["status"], "transcript" in said) == ("ok", False)
            let.set()
            waits = ToolCall(id="2", name="wait", arguments={})
            assert json.loads((await tools.call(waits)).text)["transcript"] == str(home / "debate.md")


async def start(tools: DebateTools, **given: Any) -> dict[str, Any]:
    """Start a debate, and return what is told of it."""
    begins = ToolCall(id="1", name="start_debate", arguments={"initial_prompt": QUESTION, **given})
    return json.loads((await tools.call(begins)).text)


async def test_a_debate_is_about_files_below_the_folders_that_the_server_has(home: Path) -> None:
    (home / "code/src").mkdir(parents=True)
    (home / "code/src/a.py").write_text("a = 1\n", encoding="utf-8")
    (home / "code/b.md").write_text("b\n", encoding="utf-8")
    (home / "code/out").symlink_to(home)
    with anyio.fail_after(WITHIN):
        codex = Told(CODEX)
        async with DebateManager([codex, Told(CLAUDE)]) as bridge:
            tools = DebateTools(bridge, hold=30, roots=[home / "code"])
            for away in ("..", "out", str(home)):
                assert (await start(tools, repo=away))["code"] == "bad_files"
            assert (await start(tools, session="none"))["status"] == "ok"
            assert set(codex.read) == {""}
            assert (await start(tools, repo="src", files=["*.py"], rounds=1))["status"] == "ok"
            assert codex.read[-1] == '<file path="a.py">\na = 1\n</file>'
            assert all(folder.exists() for folder in codex.folders)
            await tools.call(ToolCall(id="2", name="stop", arguments={}))
            assert [folder.exists() for folder in codex.folders] == [False]


async def test_without_folders_a_debate_is_about_no_files(home: Path) -> None:
    with anyio.fail_after(WITHIN):
        async with DebateManager([Told(CODEX), Told(CLAUDE)]) as bridge:
            assert (await start(DebateTools(bridge), repo=str(home)))["code"] == "bad_arguments"


def _servers(home: Path) -> list[int]:
    return [each for each in living(home) if {"debate", "serve"} <= set(words_of(each))]


@pytest.mark.slow
async def test_two_servers_that_keep_do_not_work_on_one_debate(home: Path) -> None:
    with anyio.fail_after(WITHIN):
        async with Client(server(home, "--keep", "--hold", "60", "--rounds", "1"), mode="legacy") as one:
            await call(one, "start_debate", initial_prompt=QUESTION)
            async with Client(server(home, "--keep", "--hold", "60"), mode="legacy") as other:
                refused = await call(other, "step", decision={"type": "continue"})
                assert refused["code"] == "kept_busy"
                assert "(unnamed)" in refused["message"]
                assert "another `session`" in refused["hint"]
                seen = await call(other, "status")
                assert (seen["status"], seen["turn"]["user_instruction"]) == ("ok", QUESTION)
                (listed,) = seen["sessions"]
                assert listed["elsewhere"] is True
                own = await call(other, "start_debate", initial_prompt="Mine?", session="mine", rounds=1)
                assert own["status"] == "ok"
            assert (await call(one, "step", decision={"type": "continue"}))["turn_number"] == 2


@pytest.mark.slow
async def test_what_another_server_left_under_the_name_of_a_debate_that_ended_is_not_put_aside(
    home: Path,
) -> None:
    flags = ("--keep", "--hold", "60", "--rounds", "1")
    with anyio.fail_after(WITHIN):
        async with Client(server(home, *flags), mode="legacy") as one:
            await call(one, "start_debate", initial_prompt=QUESTION)
            await call(one, "stop")
            async with Client(server(home, *flags), mode="legacy") as other:
                await call(other, "start_debate", initial_prompt="Another?")
            listed = (await call(one, "status"))["sessions"]
            assert [each["about"] for each in listed] == ["Another?", QUESTION]
            refused = await call(one, "start_debate", initial_prompt="A third?")
            assert refused["code"] == "already_active"
            assert (await call(one, "wait"))["turn"]["user_instruction"] == "Another?"
            await call(one, "stop")
            assert (await call(one, "status"))["status"] == "stopped"
            assert (await call(one, "step", decision={"type": "continue"}))["code"] == "no_active_session"
            assert (await call(one, "start_debate", initial_prompt="A third?"))["status"] == "ok"


@pytest.mark.slow
async def test_a_transcript_is_written_anew_after_each_turn_and_nothing_else(home: Path) -> None:
    folder = home / "out"
    with anyio.fail_after(WITHIN):
        async with Client(server(home, "--hold", "60", "--transcript", str(folder)), mode="legacy") as client:
            first = await call(client, "start_debate", initial_prompt=QUESTION, rounds=1)
            assert QUESTION in Path(first["transcript"]).read_text(encoding="utf-8")
            await call(
                client, "step", decision={"type": "custom_instruction", "custom_text": "Count the costs."}
            )
            files = sorted(folder.iterdir())
            assert first["transcript"] in {str(file) for file in files}  # it may be open somewhere
            assert sorted(file.suffix for file in files) == [".html", ".json", ".md"]
            assert all("Count the costs." in file.read_text(encoding="utf-8") for file in files)
            await call(client, "stop")
            await call(client, "start_debate", initial_prompt="Another one?", rounds=1)
            assert len(list(folder.iterdir())) == 6
    assert not list(home.rglob("*.sqlite"))
