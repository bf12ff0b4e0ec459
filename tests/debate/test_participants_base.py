"""Programs as participants: every failure has its code, comes in time, and leaves no process."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import uuid
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest

from kakite.debate.answers import Answer, ParticipantFailure, Reply
from kakite.debate.participants import base as participants
from kakite.debate.participants.base import CliParticipant, create_claude, create_codex
from kakite.debate.participants.output_parsers import CliOutput, OutputFormat
from kakite_testing.fake_clis import ANSWERING, FAILING, build_stub_command
from tests.bounds import TIMES_OUT, WITHIN
from tests.debate.arguing import CODEX

T = TypeVar("T")
FORMS: tuple[OutputFormat, ...] = ("codex", "claude", "text")
MARK = "KAKITE_TEST_MARK"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")


def line(form: OutputFormat, kind: str, **changes: Any) -> CliParticipant:
    environ = {**os.environ, MARK: uuid.uuid4().hex}
    made = CliParticipant(
        side=CODEX,
        command=build_stub_command(form, kind),
        reader=form,
        passes=(MARK,),
        environ=environ,
        time=60.0,
    )
    return replace(made, **changes)


def act(work: Coroutine[Any, Any, T], seconds: float = WITHIN) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(seconds):
            return await work

    return asyncio.run(bounded())


def living(participant: CliParticipant) -> list[int]:
    mark = participant.environ[MARK].encode()
    found: list[int] = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdecimal() and mark in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def impatient(form: OutputFormat, kind: str) -> CliParticipant:
    """The stub with times that it does not keep, if it is one that keeps none."""
    if FAILING[kind] == "timed_out":
        return line(form, kind, time=1.0)
    return line(form, kind, silence=1.0) if FAILING[kind] == "silent" else line(form, kind)


@pytest.mark.slow
@pytest.mark.parametrize("kind", FAILING)
@pytest.mark.parametrize("form", FORMS)
def test_every_failure_has_its_code_and_leaves_no_process(form: OutputFormat, kind: str) -> None:
    if form == "text" and kind == "half_json":
        pytest.skip("plain text has no form that could be broken")
    participant = impatient(form, kind)
    reply = act(participant.ask("A question?\n" * 1000))
    assert isinstance(reply, ParticipantFailure)
    assert reply.code == FAILING[kind], reply
    assert reply.message
    assert living(participant) == []


@pytest.mark.parametrize("kind", ANSWERING)
@pytest.mark.parametrize("form", FORMS)
def test_an_answer_is_read_and_nothing_that_came_of_the_program_is_left(
    form: OutputFormat, kind: str
) -> None:
    participant = line(form, kind)
    reply = act(participant.ask("A question?\n" * 30_000))
    assert isinstance(reply, Answer)
    assert reply.text in {"It depends.", "I did not read it."}
    assert (reply.tokens, reply.exit_code) == (0 if form == "text" else 100, 0)
    assert reply.seconds > 0
    assert living(participant) == []


def test_what_was_said_before_a_failure_and_the_stderr_are_kept() -> None:
    partials: list[str] = []
    for seconds in TIMES_OUT:
        said = act(line("text", "begins_and_hangs", silence=float(seconds)).ask("?"))
        assert isinstance(said, ParticipantFailure)
        partials.append(said.partial)
        if said.partial:
            break
    assert partials[-1] == "I think …"
    failed = act(line("codex", "exits").ask("?"))
    assert isinstance(failed, ParticipantFailure)
    assert (failed.stderr_tail, failed.exit_code) == ("something went wrong", 1)


def test_progress_is_told_while_it_is_at_work() -> None:
    told: list[str] = []
    act(line("codex", "agrees").ask("?", on_progress=told.append))
    assert told == ["thinking", "agent message", "agent message"]


def test_what_it_printed_is_read_while_the_loop_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    read, loop_went_on = participants.parse_output, threading.Event()

    def slow(form: OutputFormat, printed: CliOutput) -> Reply:
        loop.call_soon_threadsafe(loop_went_on.set)
        assert loop_went_on.wait(WITHIN)
        return read(form, printed)

    async def ask() -> Reply:
        nonlocal loop
        loop = asyncio.get_running_loop()
        return await line("text", "agrees").ask("?")

    loop: asyncio.AbstractEventLoop
    monkeypatch.setattr(participants, "parse_output", slow)
    assert isinstance(act(ask()), Answer)


def test_cancelled_it_leaves_no_process() -> None:
    participant = line(
        "text", "begins_and_hangs", command=build_stub_command("codex", "breeds_and_hangs"), reader="codex"
    )

    async def cancelled() -> None:
        begun = asyncio.Event()
        task = asyncio.create_task(participant.ask("?", on_progress=lambda _: begun.set()))
        await begun.wait()
        assert living(participant)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    act(cancelled())
    assert living(participant) == []


def test_no_time_left_is_a_failure_and_starts_nothing() -> None:
    reply = act(line("text", "agrees", command=("/nonexistent/program",)).ask("?", seconds=0))
    assert isinstance(reply, ParticipantFailure)
    assert reply.code == "timed_out"


@pytest.mark.parametrize("command", [("no-such-program-anywhere",), (__file__,)])
def test_what_cannot_be_started_is_not_installed(command: tuple[str, ...]) -> None:
    reply = act(line("text", "agrees", command=command).ask("?"))
    assert isinstance(reply, ParticipantFailure)
    assert reply.code == "not_installed"
    assert reply.message.count("not found") <= 1
    assert command[0] in reply.message


SPY = """
import json, os, sys
sys.stdin.read()
print(json.dumps({"env": dict(os.environ), "folder": os.listdir(), "cwd": os.getcwd()}))
"""


def test_it_sees_its_own_login_and_no_secret_and_an_empty_folder() -> None:
    environ = {
        **os.environ,
        "CODEX_HOME": "/home/me/.codex",
        "XDG_CONFIG_HOME": "/home/me/.config",
        "GITHUB_TOKEN": "t1",
        "KAKITE_FORGE_TOKEN": "t2",
        "OPENAI_API_KEY": "t3",
        "SSH_AUTH_SOCK": "t4",
        "AWS_SECRET_ACCESS_KEY": "t5",
    }
    participant = replace(create_codex(environ, (sys.executable, "-I", "-c", SPY)), reader="text")
    reply = act(participant.ask("?"))
    assert isinstance(reply, Answer)
    seen = cast("dict[str, Any]", json.loads(reply.text))
    assert seen["env"]["CODEX_HOME"] == "/home/me/.codex"
    assert seen["env"]["XDG_CONFIG_HOME"] == "/home/me/.config"
    assert seen["env"]["HOME"] == environ["HOME"]
    assert not {f"t{number}" for number in range(1, 6)} & set(seen["env"].values())
    assert seen["folder"] == []
    assert not Path(seen["cwd"]).exists()


VERSIONED = """#!{python}
import sys
if sys.argv[1:] == ["--version"]:
    print("codex-cli 0.169.0")
elif sys.argv[1:] == ["login", "status"]:
    sys.exit({code})
"""


@pytest.mark.parametrize(
    ("code", "state", "told"),
    [(0, "ok", "codex-cli 0.169.0"), (1, "logged_out", "codex-cli 0.169.0, not logged in")],
)
def test_it_is_seen_with_its_version_and_whether_it_is_logged_in(
    tmp_path: Path, code: int, state: str, told: str
) -> None:
    program = tmp_path / "codex"
    program.write_text(VERSIONED.format(python=sys.executable, code=code), encoding="utf-8")
    program.chmod(0o755)
    environ = {**os.environ, "PATH": str(tmp_path)}
    seen = act(create_codex(environ).probe())
    assert (seen.state, seen.told) == (state, f"{told}, in no sandbox: `bwrap` was not found")
    assert bool(seen.remedy) is (state != "ok")


ANSWERS_AS = """#!{python}
import json, sys
if sys.argv[1:] == ["--version"]:
    print("codex-cli {version}")
else:
    sys.stdin.read()
    print(json.dumps({{"type": "item.completed", "item": {{"type": "agent_message", "text": "yes"}}}}))
    print(json.dumps({{"type": "turn.completed"}}))
"""


def test_each_reply_tells_the_version_that_gave_it_also_after_an_update(tmp_path: Path) -> None:
    program = tmp_path / "codex"
    participant = create_codex({**os.environ, "PATH": str(tmp_path)})
    for at, version in enumerate(("0.169.0", "0.170.0"), start=1):
        program.write_text(ANSWERS_AS.format(python=sys.executable, version=version), encoding="utf-8")
        program.chmod(0o755)
        os.utime(program, (at, at))
        assert act(participant.ask("?")).version == f"codex-cli {version}"
    own = create_codex({**os.environ, "PATH": str(tmp_path)}, (str(program), "exec"))
    assert act(own.ask("?")).version == ""  # it may be any program, and know of no such flag


def test_what_is_not_there_is_seen_as_missing() -> None:
    seen = act(create_claude({"PATH": "/nonexistent"}).probe())
    assert seen.state == "missing"
    assert "npm install -g @anthropic-ai/claude-code" in seen.remedy


def test_many_at_once_all_answer() -> None:
    participants = [line(form, kind) for form in FORMS for kind in ("agrees", "objects")] * 2

    async def together() -> list[Reply]:
        return await asyncio.gather(*(each.ask("?") for each in participants))

    assert all(isinstance(reply, Answer) for reply in act(together()))
