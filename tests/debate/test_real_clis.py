"""Real codex and claude in a debate, as those who argue and as the editors that ask for it.

Only their model is scripted, on the loopback. Both are large: `make clis` installs them, or they are found on
the PATH.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from kakite.debate.answers import Answer, ParticipantFailure, Reply
from kakite.debate.files import FileSnapshot, read_context, take_snapshot
from kakite.debate.participants.base import CliParticipant, create_claude, create_codex
from kakite.debate.participants.factory import create_participant
from kakite.sandbox import SandboxError, try_out
from tests.bounds import WITHIN
from tests.cli.program import kakite
from tests.clients.conftest import environment
from tests.clients.model import message, serving
from tests.clients.test_agents import claude_environment, codex_settings, found, run
from tests.debate.faulty import failing
from tests.debate.loopback import Debater
from tests.debate.serving import MARK, call, listening, living, server_parameters, words_of

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("clis")]
QUESTION = "What becomes of bookshops?"
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("start_debate", {"initial_prompt": QUESTION, "verdict": "They stay."}),
    ("step", {"decision": {"type": "adopt_codex"}}),
    ("stop", {}),
]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def commands(url: str) -> dict[str, tuple[str, ...]]:
    """Return our own command lines with a model on the loopback: nobody is logged in here."""
    *ours, stdin = create_codex({}).command
    found("claude")
    return {
        "codex": ("env", "LOOPBACK_KEY=none", *ours, *codex_flags(url), stdin),
        "claude": ("env", f"ANTHROPIC_BASE_URL={url}", "ANTHROPIC_API_KEY=none", *create_claude({}).command),
    }


def codex_flags(url: str) -> list[str]:
    found("codex")
    provider: dict[str, str | int] = {
        "model": "scripted",
        "model_provider": "loopback",
        "model_providers.loopback.name": "loopback",
        "model_providers.loopback.base_url": f"{url}/v1",
        "model_providers.loopback.env_key": "LOOPBACK_KEY",
        "model_providers.loopback.wire_api": "responses",
    }
    retries = dict.fromkeys(("request_max_retries", "stream_max_retries"), 0)
    provider |= {f"model_providers.loopback.{name}": most for name, most in retries.items()}
    settings = [f"{name}={json.dumps(value)}" for name, value in provider.items()]
    return [word for setting in settings for word in ("-c", setting)]


def sides(url: str) -> str:
    return json.dumps(
        {name: {"command": list(words), "pass": [MARK]} for name, words in commands(url).items()}
    )


def alone(name: str, home: Path, url: str) -> CliParticipant:
    make = {"codex": create_codex, "claude": create_claude}[name]
    return make(environment(home), commands(url)[name])


def sandboxed(name: str, home: Path, url: str) -> CliParticipant:
    """Return it as it is by default, with a model on the loopback."""
    bubblewrap_works()
    given = {
        "codex": {"arguments": shlex.join(codex_flags(url)), "pass": ["LOOPBACK_KEY"]},
        "claude": {"pass": ["ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"]},
    }
    keys = {"LOOPBACK_KEY": "none", "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "none"}
    made = create_participant(name, {**environment(home), **keys}, given[name])
    assert isinstance(made, CliParticipant)
    return made


def bubblewrap_works() -> None:
    try:
        asyncio.run(try_out("bubblewrap"))
    except SandboxError as error:
        pytest.skip(f"bubblewrap does not work here: {error}")


def ask(side: CliParticipant, files: FileSnapshot | None = None) -> Reply:
    async def bounded() -> Reply:
        async with asyncio.timeout(WITHIN):
            return await side.ask("Why?", files=files)

    return asyncio.run(bounded())


@pytest.mark.anyio
async def test_they_debate_through_the_server_and_every_field_is_read(home: Path) -> None:
    model = Debater()
    with serving(model):
        with anyio.fail_after(240):
            parameters = server_parameters(home, "--hold", "0", sides=sides(model.url))
            async with Client(parameters, mode="legacy") as client:
                said = await call(client, "start_debate", initial_prompt=QUESTION)
                while said["status"] == "running":
                    said = await call(client, "wait", seconds=40)
    assert (said["status"], said["round"], said["failures"]) == ("ok", 2, [])
    assert said["turn"] == {
        "user_instruction": QUESTION,
        "codex_output": "It depends on rents.",
        "claude_output": "It depends on rents.",
    }
    assert {each["opinion"] for each in said["verdicts"]} == {"reject"}
    assert said["claims"]["claude"]["confidence"] == 70
    assert said["spent"]["tokens"] == 4 * 10
    assert len(model.prompts) == 4
    assert all(QUESTION in prompt for prompt in model.prompts)
    offered = [request.get("tools", []) for request in model.requests if "messages" in request]
    assert offered == [[], []], "claude has tools"
    codex_tools = [request.get("tools", []) for request in model.requests if "input" in request]
    assert {tool["name"] for tools in codex_tools for tool in tools} <= {"request_user_input"}


@pytest.mark.parametrize("name", ["codex", "claude"])
def test_one_that_is_not_logged_in_is_seen_so(name: str, home: Path) -> None:
    found(name)
    seen = asyncio.run({"codex": create_codex, "claude": create_claude}[name](environment(home)).probe())
    assert seen.state == "logged_out"
    assert any(character.isdigit() for character in seen.told)


def test_claude_without_a_login_says_so(home: Path) -> None:
    found("claude")
    # Nothing leads out of here: a proxy that nobody is behind.
    reply = ask(create_claude({**environment(home), "HTTPS_PROXY": "http://127.0.0.1:9"}))
    assert isinstance(reply, ParticipantFailure)
    assert reply.code == "not_logged_in"


@pytest.mark.parametrize("name", ["codex", "claude"])
def test_an_answer_of_each_is_read_with_its_tokens(name: str, home: Path) -> None:
    with serving(Debater()) as model:
        reply = ask(alone(name, home, model.url))
    assert isinstance(reply, Answer), reply
    assert (reply.text, reply.claim, reply.tokens) == ("It depends on rents.", "It depends.", 10)


def test_a_provider_that_is_not_there_is_told_as_such(home: Path) -> None:
    reply = ask(alone("claude", home, "http://127.0.0.1:9"))
    assert isinstance(reply, ParticipantFailure)
    assert reply.code in {"http_error", "unreachable"}, reply


def test_codex_waits_for_a_network_for_ever_and_is_ended_with_its_words(home: Path) -> None:
    told: list[str] = []

    async def work() -> Reply:
        side = alone("codex", home, "http://127.0.0.1:9")
        return await side.ask("Why?", seconds=15, on_progress=told.append)

    reply = asyncio.run(work())
    assert isinstance(reply, ParticipantFailure)
    assert reply.code == "timed_out"
    assert "network" in reply.message
    assert any("network" in each for each in told)


PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SECRET = "the-text-of-a-private-file"
CHOICE = {"label": "Yes", "description": "It is so."}


@dataclass
class Intruder(Debater):
    """Calls each tool that it is offered, once, to get at what lies outside; then it answers."""

    private: Path = Path()

    def responses(self, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Call the next tool."""
        done = sum(str(each.get("type", "")).endswith("_output") for each in request["input"])
        tools = request.get("tools", [])
        if done >= len(tools):
            yield from super().responses(request)
            return
        name, call = tools[done].get("name", tools[done]["type"]), f"call_{done}"
        item = {"id": f"item_{done}", "call_id": call, "name": name, **self.aim()[name]}
        yield {"type": "response.created", "response": {"id": "resp_1"}}
        yield {"type": "response.output_item.done", "output_index": 0, "item": item}
        yield {"type": "response.completed", "response": {"id": "resp_1", "usage": None, "output": [item]}}

    def aim(self) -> dict[str, dict[str, Any]]:
        """Return a call of every tool that codex may have; another one is a fault, which ends the test."""
        text, lines = self.private / "text.txt", ["*** Begin Patch", "*** End Patch"]
        lines[1:1] = [f"*** Update File: {text}", "@@", f"-{SECRET[:8]}", "+changed"]
        lines[-1:-1] = [f"*** Add File: {self.private / 'new.txt'}", "+new"]
        question = {"id": "q", "header": "Q", "question": "Is it so?", "options": [CHOICE, CHOICE]}
        picture = {"path": str(self.private / "shot.png")}
        return {
            "view_image": {"type": "function_call", "arguments": json.dumps(picture)},
            "request_user_input": {
                "type": "function_call",
                "arguments": json.dumps({"questions": [question]}),
            },
            "apply_patch": {"type": "custom_tool_call", "input": "\n".join(lines)},
        }


@pytest.mark.parametrize("name", ["codex", "claude"])
def test_each_answers_from_a_sandbox_without_this_machine_s_files(name: str, home: Path) -> None:
    with serving(Debater()) as model:
        side = sandboxed(name, home, model.url)
        assert asyncio.run(side.find_sandbox_obstacle()) == ""
        reply = ask(side)
    assert isinstance(reply, Answer), reply
    assert (reply.text, reply.tokens, reply.notes) == ("It depends on rents.", 10, reply.notes[:1])
    assert "in a sandbox" in asyncio.run(side.probe()).told


@pytest.mark.parametrize("known", ["scripted", "gpt-5.5"])
def test_no_tool_that_codex_offers_reaches_what_lies_outside(known: str, home: Path, tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir()
    (private / "shot.png").write_bytes(PICTURE)
    (private / "text.txt").write_text(f"{SECRET}\n", encoding="utf-8")
    with serving(Intruder(private=private)) as model:
        side = alone("codex", home, model.url)
        command = [word.replace('model="scripted"', f'model="{known}"') for word in side.command]
        reply = ask(replace(side, command=tuple(command)))
    assert isinstance(reply, Answer), reply
    tools = {tool.get("name", tool["type"]) for each in model.requests for tool in each.get("tools", [])}
    # A model that codex knows has `apply_patch` by its nature; codex lets nothing be written with it.
    assert tools <= {"request_user_input", "apply_patch"}
    asked = sum(str(each.get("type", "")).endswith("_output") for each in model.requests[-1]["input"])
    assert asked == len(tools), "a tool was not asked"
    told = json.dumps(model.requests)
    assert base64.b64encode(PICTURE).decode()[:40] not in told
    assert SECRET not in told
    assert sorted(each.name for each in private.iterdir()) == ["shot.png", "text.txt"]
    assert (private / "text.txt").read_text(encoding="utf-8") == f"{SECRET}\n"


@dataclass
class Prowler(Intruder):
    """Calls every tool that it is offered, in every way that a test names, and then answers."""

    made: int = 0

    def messages(self, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Call the next tool, as Anthropic's models do."""
        results = sum("tool_use_id" in block for each in request["messages"] for block in blocks(each))
        if call := self._choose(results, [tool["name"] for tool in request.get("tools", [])]):
            block: dict[str, Any] = {
                "type": "tool_use",
                "id": f"call_{results}",
                "name": call[0],
                "input": {},
            }
            delta = {"type": "input_json_delta", "partial_json": json.dumps(call[1])}
            yield from message(block, delta, "tool_use")
        else:
            yield from super().messages(request)

    def responses(self, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Call the next tool, as OpenAI's models do."""
        done = sum(str(each.get("type", "")).endswith("_output") for each in request["input"])
        offered = [
            f"{tool['name']}__{inner['name']}" if "tools" in tool else tool.get("name", tool["type"])
            for tool in request.get("tools", [])
            for inner in tool.get("tools", [{}])
        ]
        if call := self._choose(done, offered):
            space, _, name = call[0].rpartition("__")
            item = {"type": "function_call", "name": name, "arguments": json.dumps(call[1])}
            item |= {
                "id": f"item_{done}",
                "call_id": f"call_{done}",
                **({"namespace": space} if space else {}),
            }
            yield {"type": "response.created", "response": {"id": "resp_1"}}
            yield {"type": "response.output_item.done", "output_index": 0, "item": item}
            yield {
                "type": "response.completed",
                "response": {"id": "resp_1", "usage": None, "output": [item]},
            }
        else:
            yield from Debater.responses(self, request)

    def _choose(self, done: int, offered: list[str]) -> tuple[str, dict[str, Any]] | None:
        calls = [(name, given) for name in offered for given in self.attempts()[name.rpartition("__")[2]]]
        self.made = done
        return calls[done] if done < len(calls) else None

    def attempts(self) -> dict[str, list[dict[str, Any]]]:
        """Return the ways to call each tool that a side may have; another one is a fault."""
        folders = [str(self.private), "/workspace/home", "/", "/workspace/files/link"]
        texts = [f"{folder}/text.txt" for folder in folders]
        question = {"id": "q", "header": "Q", "question": "Is it so?", "options": [CHOICE, CHOICE]}
        new = {"command": "create", "path": "/workspace/files/new.txt", "file_text": "new"}
        return {
            "text_editor": [{"command": "view", "path": path} for path in ("a.py", *texts)] + [new],
            "read_files": [{"paths": ["a.py"]}, {"paths": texts}],
            "list_files": [{"path": path} for path in (".", *folders)],
            "glob": [{"pattern": "**/*", "path": path} for path in (".", *folders)],
            "find_in_files": [{"pattern": "private|content", "path": path} for path in (".", *folders)],
            "request_user_input": [{"questions": [question]}],
            "list_mcp_resources": [{}],
            "list_mcp_resource_templates": [{}],
            "read_mcp_resource": [{"server": "files", "uri": f"file://{texts[0]}"}],
        }


def blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    return [block for block in message["content"] if isinstance(block, dict)]


@pytest.mark.parametrize("name", ["codex", "claude"])
def test_no_tool_reaches_anything_but_the_files_of_the_debate(name: str, home: Path, tmp_path: Path) -> None:
    private, shown = tmp_path / "private", tmp_path / "shown"
    for folder in (private, shown):
        folder.mkdir()
    (private / "text.txt").write_text(f"{SECRET}\n", encoding="utf-8")
    (shown / "a.py").write_text("the-content = 1\n", encoding="utf-8")
    (shown / "link").symlink_to(private)
    model = Prowler(private=private)
    with serving(model):
        side = sandboxed(name, home, model.url)
        context = asyncio.run(read_context(shown))
        with take_snapshot(context) as files:
            reply = ask(side, files)
            assert sorted(each.name for each in files.folder.iterdir()) == ["a.py"]
    assert isinstance(reply, Answer), reply
    calls = [tool for each in model.requests for tool in each.get("tools", [])]
    tools = {inner.get("name", inner.get("type")) for tool in calls for inner in tool.get("tools", [tool])}
    read = {"text_editor", "read_files", "list_files", "glob", "find_in_files"}
    assert {tool.removeprefix("mcp__files__") for tool in tools} & read == read
    told = json.dumps(model.requests)
    assert model.made >= 20, "a tool was not asked"
    assert told.count("the-content") >= 3, "it could not read what it is about"
    assert SECRET not in told
    assert sorted(each.name for each in private.iterdir()) == ["text.txt"]


def test_a_codex_without_one_of_our_switches_is_a_bad_command(home: Path) -> None:
    found("codex")
    *ours, stdin = create_codex({}).command
    reply = ask(create_codex(environment(home), (*ours, "--disable", "no_such_tool", stdin)))
    assert isinstance(reply, ParticipantFailure)
    assert reply.code == "bad_command", reply


REFUSED = {
    "401": {"not_logged_in"},
    "403": {"not_logged_in"},
    "400": {"http_error"},
    "404": {"http_error"},
    "429": {"rate_limited"},
    "500": {"http_error"},
    "529": {"http_error", "rate_limited"},  # claude says that its provider is at capacity
    "cut": {"stream_cut", "http_error"},
    "silent_end": {"stream_cut", "http_error"},
    "no_text": {"empty_answer"},
    "garbage": {"stream_cut", "http_error"},
}


@pytest.mark.parametrize("fault", REFUSED)
@pytest.mark.parametrize("name", ["codex", "claude"])
def test_whatever_its_provider_does_it_is_a_failure_with_its_code(name: str, fault: str, home: Path) -> None:
    with failing(fault) as url:
        reply = ask(alone(name, home, url))
    assert isinstance(reply, ParticipantFailure), reply
    assert reply.code in REFUSED[fault], reply
    assert "it is refused here" in reply.message or fault not in {"400", "401", "403"}
    assert "refused" not in reply.partial


@pytest.mark.parametrize("name", ["codex", "claude"])
def test_flags_that_a_version_does_not_have_are_a_bad_command(name: str, home: Path) -> None:
    program, *flags = {"codex": create_codex, "claude": create_claude}[name]({}).command
    make = {"codex": create_codex, "claude": create_claude}[name]
    found(name)
    reply = ask(make(environment(home), (program, flags[0], "--no-such-flag", *flags[1:])))
    assert isinstance(reply, ParticipantFailure)
    assert reply.code == "bad_command", reply


@pytest.mark.anyio
async def test_when_it_is_stopped_nothing_of_them_is_left(home: Path) -> None:
    def native() -> list[int]:
        programs = {each: "".join(words_of(each)[:1]) for each in living(home)}
        return [each for each, program in programs.items() if Path(program).name == "codex"]

    with anyio.fail_after(240):
        # A provider that is not there: codex waits for it for ever.
        parameters = server_parameters(home, "--hold", "0", sides=sides("http://127.0.0.1:9"))
        async with Client(parameters, mode="legacy") as client:
            await call(client, "start_debate", initial_prompt=QUESTION)
            while not native():
                assert (await call(client, "wait", seconds=0.2))["status"] == "running"
            assert (await call(client, "stop"))["status"] == "stopped"
            assert native() == []
            assert len(living(home)) == 1  # the server


def settled(home: Path, url: str) -> None:
    """Write the person's own settings."""
    folder = home / ".config" / "kakite"
    folder.mkdir(parents=True)
    (folder / "kakite.yaml").write_text(f"debate_participants: {sides(url)}\n", encoding="utf-8")


def with_kakite() -> dict[str, str]:
    return {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def kakite_program() -> str:
    program = shutil.which("kakite", path=with_kakite()["PATH"])
    assert program
    return program


def judged(model: Debater) -> list[dict[str, Any]]:
    """Return what the calls gave that did not say `running`."""
    return [each for each in model.answers if each["status"] != "running"]


def assert_debated(model: Debater) -> None:
    first, second, last = judged(model)
    assert (first["status"], second["status"], last["status"]) == ("ok", "ok", "stopped"), model.answers
    assert first["turn"]["codex_output"] == first["turn"]["claude_output"] == "It depends on rents."
    assert second["turn"]["user_instruction"] == "adopt_codex"


def test_claude_holds_a_debate_after_the_line_that_adds_the_server(home: Path) -> None:
    model = Debater(calls=CALLS)
    with serving(model):
        settled(home, model.url)
        # By itself `claude -p` asks its model before slow servers are there, and lets that wait for them.
        more = {**with_kakite(), **claude_environment(model), "MCP_CONNECTION_NONBLOCKING": "0"}
        run([found("claude"), *shlex.split("mcp add debate -- kakite debate serve")], home, home, **more)
        argv = [found("claude"), "-p", "--allowedTools", "mcp__debate", "--output-format", "json"]
        said = run(argv, home, home, "Let them debate.", **more)
    assert json.loads(said)["result"] == "I have judged."
    assert_debated(model)
    judge = next(request for request in model.requests if "start_debate" in json.dumps(request.get("tools")))
    assert "before you start it" in json.dumps(judge).casefold(), "the judge's guide is not there"


def test_codex_holds_a_debate_without_asking_after_the_line_that_adds_the_server(home: Path) -> None:
    model = Debater(calls=CALLS)
    with serving(model):
        settled(home, model.url)
        (home / ".codex").mkdir()
        (home / ".codex" / "config.toml").write_text(codex_settings(model), encoding="utf-8")
        more = {**with_kakite(), "LOOPBACK_KEY": "none"}
        run([found("codex"), *shlex.split("mcp add debate -- kakite debate serve")], home, home, **more)
        argv = [found("codex"), "exec", "--json", "--ephemeral", "--skip-git-repo-check", "-s", "read-only"]
        argv += ["-c", "mcp_servers.debate.required=true", "-"]
        run(argv, home, home, "Let them debate.", **more)
    assert_debated(model)


@pytest.mark.parametrize("client", ["claude", "codex"])
def test_the_configuration_that_we_print_is_read(client: str, home: Path) -> None:
    program = found(client)
    name = {"claude": "claude-code"}.get(client, client)
    printed = run([kakite_program(), "debate", "serve", "--rounds", "1", "--print-config", name], home, home)
    if client == "codex":
        (home / ".codex").mkdir()
        (home / ".codex" / "config.toml").write_text(printed, encoding="utf-8")
        (listed,) = json.loads(run([program, "mcp", "list", "--json"], home, home))
        assert listed["transport"]["args"] == ["debate", "serve", "--rounds", "1"]
    else:
        (home / ".mcp.json").write_text(printed, encoding="utf-8")
        assert "debate serve --rounds 1" in run([program, "mcp", "list"], home, home)


@pytest.mark.parametrize("client", ["claude", "codex"])
def test_each_holds_a_debate_with_a_server_that_listens_and_wants_a_token(client: str, home: Path) -> None:
    program, model = found(client), Debater(calls=CALLS)
    token = {"KAKITE_TOKEN": "of-the-tests"}
    with serving(model):
        env = {"KAKITE_DEBATE_PARTICIPANTS": sides(model.url), **token}
        with listening(home, "serve", "--http", "127.0.0.1:0", env=env) as served:
            at = served.url.removeprefix("http://").removesuffix("/mcp")
            name = {"claude": "claude-code"}.get(client, client)
            asked = ["debate", "serve", "--http", at, "--print-config", name]
            printed = run([kakite_program(), *asked], home, home, **token)
            if client == "claude":
                (home / "mcp.json").write_text(printed, encoding="utf-8")
                settings = ["--mcp-config", str(home / "mcp.json"), "--strict-mcp-config"]
                more = {**token, **claude_environment(model), "MCP_CONNECTION_NONBLOCKING": "0"}
                argv = [program, "-p", *settings, "--allowedTools", "mcp__debate"]
            else:
                (home / ".codex").mkdir()
                text = codex_settings(model) + printed + "required = true\n"
                (home / ".codex" / "config.toml").write_text(text, encoding="utf-8")
                more = {**token, "LOOPBACK_KEY": "none"}
                argv = [program, "exec", "--ephemeral", "--skip-git-repo-check", "-s", "read-only", "-"]
            run(argv, home, home, "Let them debate.", **more)
    assert_debated(model)


def test_arguments_of_ones_own_are_taken_beside_ours(home: Path) -> None:
    model = Debater()
    with serving(model):
        of_codex = codex_flags(model.url)
        participants = {
            "codex": {"arguments": shlex.join(of_codex), "pass": ["LOOPBACK_KEY"]},
            "claude": {"arguments": "--model other", "pass": ["ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"]},
        }
        done = kakite(
            *("debate", "ask", QUESTION, "--mode", "ensemble", "--no-input", "--json"),
            home=home,
            env={
                "KAKITE_DEBATE_PARTICIPANTS": json.dumps(participants),
                "PATH": os.environ["PATH"],
                "LOOPBACK_KEY": "none",
                "ANTHROPIC_BASE_URL": model.url,
                "ANTHROPIC_API_KEY": "none",
            },
        )
    assert done.code == 0, done.stderr
    replies = [json.loads(line) for line in done.stdout.splitlines()]
    said = {each["reply"]["side"]: each["reply"]["text"] for each in replies if each["type"] == "replied"}
    assert said == dict.fromkeys(("codex", "claude"), "It depends on rents.")
    versions = [each["reply"]["version"] for each in replies if each["type"] == "replied"]
    assert all(re.search(r"\d+\.\d+\.\d+", version) for version in versions), versions
    assert {request["model"] for request in model.requests if "model" in request} == {"scripted", "other"}
    assert not any(request.get("tools") for request in model.requests if "messages" in request)
