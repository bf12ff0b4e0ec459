"""``kakite acp``, driven by the protocol's own client library, against a scripted model on the real wire."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from acp import RequestError, connect_to_agent, schema
from acp.helpers import image_block, resource_link_block, text_block

from kakite_testing.fake_providers import ScenarioServer, run_scenario_server
from tests.bounds import WITHIN
from tests.cli.program import environment
from tests.cli.test_chat import KEY, edit, script
from tests.durable.waiting import until
from tests.forking import AsyncProgram, open_kakite
from tests.repositories import git

pytestmark = [pytest.mark.slow, pytest.mark.anyio]


@dataclass
class Editor:
    """An editor of the tests: keeps what it is shown, and answers questions."""

    answer: str = "once"
    shown: list[Any] = field(default_factory=list[Any])
    questions: list[schema.ToolCallUpdate] = field(default_factory=list[schema.ToolCallUpdate])
    offered: list[dict[str, tuple[str, str]]] = field(default_factory=list[Any])
    """Of each question: the options' kinds and names, by their ids."""
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    hold: bool = False
    """Whether questions stay open until the turn is cancelled."""
    filled: dict[str, Any] | None = None
    """What is filled into forms; None: they are declined."""
    forms: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    has_forms: bool = False
    buffers: dict[str, str] | None = None
    """The texts that are open, by their paths; None: it does not offer its files."""
    saves: bool = True
    """Whether what is written goes to the disk at once."""

    async def session_update(self, session_id: str, update: Any, **_more: Any) -> None:
        assert session_id
        self.shown.append(update)

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **_more: Any
    ) -> schema.RequestPermissionResponse:
        assert session_id
        self.questions.append(tool_call)
        self.asked.set()
        if self.hold:
            await asyncio.Event().wait()
        known = {option.option_id: (option.kind, option.name) for option in options}
        self.offered.append(known)
        if self.answer in known:
            outcome: Any = schema.AllowedOutcome(outcome="selected", option_id=self.answer)
        else:
            outcome = schema.DeniedOutcome(outcome="cancelled")
        return schema.RequestPermissionResponse(outcome=outcome)

    async def create_elicitation(self, message: str, mode: Any, **_more: Any) -> Any:
        self.forms.append((message, mode))
        if self.filled is None:
            return schema.DeclineElicitationResponse(action="decline")
        return schema.AcceptElicitationResponse(action="accept", content=self.filled)

    async def read_text_file(self, path: str, session_id: str, **_more: Any) -> schema.ReadTextFileResponse:
        assert session_id
        assert self.buffers is not None
        text = self.buffers.get(path)
        if text is None:
            raise (
                RequestError(-32603, "the file is locked")
                if path.endswith("locked.py")
                else (RequestError.resource_not_found(path))
            )
        return schema.ReadTextFileResponse(content=text)

    async def write_text_file(
        self, content: str, path: str, session_id: str, **_more: Any
    ) -> schema.WriteTextFileResponse:
        assert session_id
        assert self.buffers is not None
        self.buffers[path] = content
        if self.saves:
            Path(path).write_text(content, encoding="utf-8")
        return schema.WriteTextFileResponse()

    def of_kind(self, kind: str) -> list[Any]:
        return [each for each in self.shown if each.session_update == kind]

    def results(self) -> list[Any]:
        """What calls came to, in order."""
        return [each for each in self.of_kind("tool_call_update") if each.status != "in_progress"]

    def text(self) -> str:
        return "".join(each.content.text for each in self.of_kind("agent_message_chunk"))

    def on_connect(self, conn: Any) -> None:
        """Nothing to do."""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "person"
    folder.mkdir()
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.py").write_text("a = 1\n", encoding="utf-8")
    return folder


@asynccontextmanager
async def connected(server: ScenarioServer, home: Path, editor: Editor, *more: str) -> AsyncGenerator[Any]:
    """Yield the connection to a ``kakite acp`` that the editor started."""
    words = ["acp", "--model", "openai:scripted", "--base-url", server.openai_url]
    words += ["--sandbox", "local", *more]
    client: Any = editor
    process = await open_kakite(words, environment(home, OPENAI_API_KEY=KEY), home, is_told=True)
    async with asyncio.timeout(WITHIN), AsyncExitStack() as ending:
        ending.push_async_callback(_end, process)
        conn = connect_to_agent(client, process.stdin, process.stdout, use_unstable_protocol=True)
        ending.push_async_callback(conn.close)
        forms = schema.ElicitationCapabilities(form=schema.ElicitationFormCapabilities())
        has_files = editor.buffers is not None
        able = schema.ClientCapabilities(
            elicitation=forms if editor.has_forms else None,
            fs=schema.FileSystemCapabilities(read_text_file=has_files, write_text_file=has_files),
        )
        await conn.initialize(protocol_version=1, client_capabilities=able)
        yield conn


async def _end(process: AsyncProgram) -> None:
    """Say no more; it ends then, or is killed."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        async with asyncio.timeout(WITHIN):
            await process.wait()
    finally:
        process.kill()


async def test_a_prompt_is_answered_and_an_edit_is_shown_whole_before_it_is_made(
    home: Path, project: Path
) -> None:
    editor = Editor()
    with run_scenario_server(script(edit(), {"say": "It is 2 now."})) as server:
        async with connected(server, home, editor) as conn:
            session = await conn.new_session(cwd=str(project), mcp_servers=[])
            assert session.modes.current_mode_id == "ask"
            done = await conn.prompt(session_id=session.session_id, prompt=[text_block("make a 2")])
            assert done.stop_reason == "end_turn"
    assert editor.text() == "It is 2 now."
    (call,) = editor.of_kind("tool_call")
    assert (call.kind, call.status) == ("edit", "pending")
    assert call.locations[0].path == str(project / "a.py")
    (question,) = editor.questions
    assert question.tool_call_id == call.tool_call_id
    shown: Any = (question.content or [])[0]
    assert (shown.path, shown.old_text, shown.new_text) == (str(project / "a.py"), "a = 1\n", "a = 2\n")
    (result,) = editor.results()
    assert (result.status, result.content[0].new_text) == ("completed", "a = 2\n")
    assert editor.of_kind("usage_update")
    assert editor.of_kind("session_info_update")[0].title == "make a 2"
    assert (project / "a.py").read_text(encoding="utf-8") == "a = 2\n"


async def test_an_edit_of_two_files_shows_both_whole(home: Path, project: Path) -> None:
    (project / "b.py").write_text("b = 1\n", encoding="utf-8")
    edits = [{"path": name, "old_str": "1", "new_str": "2"} for name in ("a.py", "b.py")]
    both = {"calls": [{"tool": "text_editor", "arguments": {"command": "edit", "edits": edits}}]}
    editor = Editor()
    with run_scenario_server(script(both, {"say": "Both."})) as server:
        async with connected(server, home, editor) as conn:
            session = await conn.new_session(cwd=str(project), mcp_servers=[])
            await conn.prompt(session_id=session.session_id, prompt=[text_block("make a 2")])
    shown = [(str(project / f"{name}.py"), f"{name} = 1\n", f"{name} = 2\n") for name in "ab"]
    for told in (editor.questions[0].content, editor.results()[0].content):
        assert [(each.path, each.old_text, each.new_text) for each in told or []] == shown


async def test_a_no_changes_nothing_and_the_model_hears_of_it(home: Path, project: Path) -> None:
    told = {"say": "All right.", "expect": {"tool_result": {"is_error": True, "contains": ["said no"]}}}
    editor = Editor(answer="nothing")
    with run_scenario_server(script(edit(), told)) as server:
        async with connected(server, home, editor) as conn:
            session = await conn.new_session(cwd=str(project), mcp_servers=[])
            await conn.prompt(session_id=session.session_id, prompt=[text_block("make a 2")])
    assert editor.results()[0].status == "failed"
    assert (project / "a.py").read_text(encoding="utf-8") == "a = 1\n"


def run(command: str, **more: Any) -> dict[str, Any]:
    return {"calls": [{"tool": "run_command", "arguments": {"command": command}}], **more}


async def test_an_answer_for_always_holds_for_later_sessions_of_the_project_as_far_as_it_says(
    home: Path, project: Path
) -> None:
    turns = [
        run("cat a.py"),
        run("cat b.py"),
        run("touch b.py"),
        {"say": "Done."},
        run("cat a.py"),
        {"say": "1."},
    ]
    editor, later = Editor(answer="always"), Editor()
    with run_scenario_server(script(*turns)) as server:
        for each in (editor, later):
            async with connected(server, home, each) as conn:
                session = await conn.new_session(cwd=str(project), mcp_servers=[])
                await conn.prompt(session_id=session.session_id, prompt=[text_block("look")])
    assert editor.offered[0] == {
        "once": ("allow_once", "Allow"),
        "tool": ("allow_always", "Always allow run_command in this session"),
        "always": ("allow_always", "Always allow cat … in this project"),
        "no": ("reject_once", "Reject"),
        "never": ("reject_always", "Always reject cat … in this session"),
    }
    assert [(each.raw_input or {})["command"] for each in editor.questions] == ["cat a.py", "touch b.py"]
    assert later.questions == []


async def test_an_answer_for_always_about_a_chain_holds_for_each_of_its_commands(
    home: Path, project: Path
) -> None:
    unasked = ["ls -a; cat a.py | cat", "cat a.py", "ls"]
    asked = ["cat a.py && ls", "ls && touch b.py", "ls > b.py"]
    turns = [*map(run, [asked[0], *unasked, *asked[1:]]), {"say": "Done."}]
    editor = Editor(answer="always")
    with run_scenario_server(script(*turns)) as server:
        async with connected(server, home, editor) as conn:
            session = await conn.new_session(cwd=str(project), mcp_servers=[])
            await conn.prompt(session_id=session.session_id, prompt=[text_block("look")])
    assert [(each.raw_input or {})["command"] for each in editor.questions] == asked
    named = [offered.get("always", ("", ""))[1] for offered in editor.offered]
    assert named == [
        "Always allow cat … and ls … in this project",
        "Always allow ls … and touch … in this project",
        "",
    ]


async def test_a_no_for_always_is_for_the_session_and_asks_no_more(home: Path, project: Path) -> None:
    wide = "echo 1 > b.py"  # no beginning of it could be let go: the answer is for exactly this
    turns = [run("cat a.py"), run("cat b.py"), run(wide), run(wide), {"say": "Done."}]
    editor = Editor(answer="never")
    with run_scenario_server(script(*turns)) as server:
        async with connected(server, home, editor) as conn:
            session = await conn.new_session(cwd=str(project), mcp_servers=[])
            await conn.prompt(session_id=session.session_id, prompt=[text_block("look")])
    assert [(each.raw_input or {})["command"] for each in editor.questions] == ["cat a.py", wide]
    assert editor.offered[1].keys() == {"once", "tool", "no", "never"}
    assert [each.status for each in editor.results()] == ["failed"] * 4
    assert not (project / "b.py").exists()


async def test_a_turn_is_cancelled_while_a_question_is_open(home: Path, project: Path) -> None:
    editor = Editor(hold=True)
    with run_scenario_server(script(edit(), {"say": "Fine."})) as server:
        async with connected(server, home, editor) as conn:
            session = await conn.new_session(cwd=str(project), mcp_servers=[])
            turn = asyncio.create_task(
                conn.prompt(session_id=session.session_id, prompt=[text_block("make a 2")])
            )
            await editor.asked.wait()
            await conn.cancel(session_id=session.session_id)
            assert (await turn).stop_reason == "cancelled"
            again = await conn.prompt(session_id=session.session_id, prompt=[text_block("never mind")])
            assert again.stop_reason == "end_turn"
    assert (project / "a.py").read_text(encoding="utf-8") == "a = 1\n"


async def test_a_session_is_listed_loaded_with_all_that_was_said_and_goes_on(
    home: Path, project: Path
) -> None:
    turns = (edit(), {"say": "It is 2 now."}, {"say": "You asked for 2."}, {"say": "Bye."})
    with run_scenario_server(script(*turns)) as server:
        async with connected(server, home, Editor()) as conn:
            session = await conn.new_session(cwd=str(project), mcp_servers=[])
            await conn.prompt(session_id=session.session_id, prompt=[text_block("make a 2")])
        editor = Editor()
        async with connected(server, home, editor) as conn:
            found = await conn.list_sessions(cwd=str(project))
            assert [(each.session_id, each.title) for each in found.sessions] == [
                (session.session_id, "make a 2")
            ]
            assert (await conn.list_sessions(cwd="/")).sessions == []
            await conn.load_session(cwd=str(project), session_id=session.session_id, mcp_servers=[])
            kinds = [
                each.session_update
                for each in editor.shown
                if each.session_update != "available_commands_update"
            ]
            assert kinds == ["user_message_chunk", "tool_call", "tool_call_update", "agent_message_chunk"]
            await conn.prompt(session_id=session.session_id, prompt=[text_block("what did I ask?")])
            assert editor.text() == "It is 2 now.You asked for 2."
        quiet = Editor()
        async with connected(server, home, quiet) as conn:
            await conn.resume_session(cwd=str(project), session_id=session.session_id, mcp_servers=[])
            await conn.prompt(session_id=session.session_id, prompt=[text_block("bye")])
            assert quiet.of_kind("user_message_chunk") == []
            assert quiet.text() == "Bye."
            await conn.close_session(session_id=session.session_id)
            with pytest.raises(RequestError):
                await conn.prompt(session_id=session.session_id, prompt=[text_block("again")])


ASK = {
    "question": "Which colour?",
    "choices": [{"label": "red", "description": "like fire"}, {"label": "blue"}],
}


async def test_what_the_model_thinks_is_shown_apart_from_what_it_says(home: Path, project: Path) -> None:
    editor = Editor()
    with run_scenario_server(script({"think": "What may it be?", "say": "It is 1."})) as server:
        async with connected(server, home, editor) as conn:
            session = await conn.new_session(cwd=str(project), mcp_servers=[])
            await conn.prompt(session_id=session.session_id, prompt=[text_block("what is it?")])
    thoughts = editor.of_kind("agent_thought_chunk")
    assert "".join(each.content.text for each in thoughts) == "What may it be?"
    assert editor.text() == "It is 1."


@pytest.mark.parametrize(
    ("editor", "told"),
    [
        (Editor(answer="2"), "blue"),
        (Editor(answer="none"), "no answer"),
        (Editor(has_forms=True, filled={"choice": "red"}), "red"),
        (Editor(has_forms=True, filled={"choice": "red", "text": "green"}), "green"),
        (Editor(has_forms=True), "no answer"),
    ],
)
async def test_the_model_asks_by_a_form_or_by_options(
    home: Path, project: Path, editor: Editor, told: str
) -> None:
    asks = {"calls": [{"tool": "ask_person", "arguments": ASK}]}
    heard = {"say": "Fine.", "expect": {"tool_result": {"is_error": False, "contains": [told]}}}
    with run_scenario_server(script(asks, heard)) as server:
        async with connected(server, home, editor) as conn:
            session = await conn.new_session(cwd=str(project), mcp_servers=[])
            done = await conn.prompt(session_id=session.session_id, prompt=[text_block("paint it")])
            assert done.stop_reason == "end_turn"
    (call,) = editor.of_kind("tool_call")
    if editor.has_forms:
        ((message, form),) = editor.forms
        assert (message, form.tool_call_id) == ("Which colour?", call.tool_call_id)
        assert [each.const for each in form.requested_schema.properties["choice"].one_of] == ["red", "blue"]
        assert editor.questions == []
    else:
        assert [each.tool_call_id for each in editor.questions] == [call.tool_call_id]


async def test_the_checklist_is_a_plan_also_when_the_session_is_loaded(home: Path, project: Path) -> None:
    steps = [{"text": "read", "status": "completed"}, {"text": "write", "status": "in_progress"}]
    calls = {"calls": [{"tool": "update_plan", "arguments": {"steps": steps}}]}
    first, later = Editor(), Editor()
    with run_scenario_server(script(calls, {"say": "Fine."})) as server:
        async with connected(server, home, first) as conn:
            session = await conn.new_session(cwd=str(project), mcp_servers=[])
            await conn.prompt(session_id=session.session_id, prompt=[text_block("go")])
        async with connected(server, home, later) as conn:
            await conn.load_session(cwd=str(project), session_id=session.session_id, mcp_servers=[])
    for editor in (first, later):
        (shown,) = editor.of_kind("plan")
        assert [(each.content, each.status) for each in shown.entries] == [
            ("read", "completed"),
            ("write", "in_progress"),
        ]


async def test_the_calls_of_a_sub_agent_are_shown_with_its_task(home: Path, project: Path) -> None:
    tasks = [{"description": "the value", "prompt": "What is a?"}]
    calls = {"calls": [{"tool": "task", "arguments": {"tasks": tasks}}]}
    view = {"calls": [{"tool": "text_editor", "arguments": {"command": "view", "path": "a.py"}}]}
    editor = Editor()
    with run_scenario_server(script(calls, view, {"say": "It is 1."}, {"say": "1."})) as server:
        async with connected(server, home, editor) as conn:
            session = await conn.new_session(cwd=str(project), mcp_servers=[])
            await conn.prompt(session_id=session.session_id, prompt=[text_block("what is a?")])
    outer, inner = editor.of_kind("tool_call")
    assert inner.title.startswith("the value: text_editor")
    assert inner.tool_call_id != outer.tool_call_id
    assert [each.tool_call_id for each in editor.results()] == [
        inner.tool_call_id,
        outer.tool_call_id,
    ]
    assert editor.text() == "1."
    assert editor.questions == []


def view(path: str, **more: Any) -> dict[str, Any]:
    return {"calls": [{"tool": "text_editor", "arguments": {"command": "view", "path": path}}], **more}


def told(*parts: str, is_error: bool = False) -> dict[str, Any]:
    return {"expect": {"tool_result": {"is_error": is_error, "contains": parts}}}


@pytest.mark.parametrize("saves", [True, False])
async def test_what_the_editor_has_not_saved_is_what_is_read_and_written(
    home: Path, project: Path, saves: bool
) -> None:
    path = str(project / "a.py")
    undo = {"calls": [{"tool": "text_editor", "arguments": {"command": "undo_edit", "path": "a.py"}}]}
    turns = [
        view("a.py", expect={"last_contains": ["unsaved = 1"]}),
        edit(**told("unsaved = 1")),
        run("cat a.py", **told("unsaved = 2")),
        {**undo, **told("2" if saves else "a = 1")},
        {"say": "Taken back.", **told("unsaved = 1")},
    ]
    editor = Editor(answer="tool", buffers={path: "unsaved = 1\n"}, saves=saves)
    with run_scenario_server(script(*turns)) as server:
        async with connected(server, home, editor) as conn:
            session = await conn.new_session(cwd=str(project), mcp_servers=[])
            await conn.prompt(session_id=session.session_id, prompt=[text_block("make @a.py a 2")])
        assert server.violations == ()
    assert editor.text() == "Taken back."
    assert editor.buffers == {path: "unsaved = 1\n"}
    shown: Any = (editor.questions[0].content or [])[0]
    assert (shown.path, shown.old_text, shown.new_text) == (path, "unsaved = 1\n", "unsaved = 2\n")
    results = [each.content[0] for each in editor.results()]
    diffs = [(each.path, each.old_text, each.new_text) for each in results if each.type == "diff"]
    assert diffs == [(path, "unsaved = 1\n", "unsaved = 2\n"), (path, "unsaved = 2\n", "unsaved = 1\n")]


async def test_beside_a_command_in_the_background_the_editor_is_not_asked(home: Path, project: Path) -> None:
    path = str(project / "a.py")
    arguments = {"command": "sleep 60", "background": True}
    turns = [
        view("a.py"),
        {"calls": [{"tool": "run_command", "arguments": arguments}], **told("unsaved = 1")},
        view("a.py", **told("job")),
        {"say": "Seen.", **told("a = 1")},
    ]
    editor = Editor(answer="once", buffers={path: "unsaved = 1\n"})
    with run_scenario_server(script(*turns)) as server:
        async with connected(server, home, editor) as conn:
            session = await conn.new_session(cwd=str(project), mcp_servers=[])
            await conn.prompt(session_id=session.session_id, prompt=[text_block("look")])
        assert server.violations == ()
    assert editor.text() == "Seen."


async def test_a_file_that_the_editor_refuses_is_told_and_the_turn_goes_on(home: Path, project: Path) -> None:
    (project / "locked.py").write_text("x\n", encoding="utf-8")
    turns = [view("locked.py"), {"say": "I see.", **told("buffer_failed", "is locked", is_error=True)}]
    editor = Editor(buffers={})
    with run_scenario_server(script(*turns)) as server:
        async with connected(server, home, editor) as conn:
            session = await conn.new_session(cwd=str(project), mcp_servers=[])
            await conn.prompt(session_id=session.session_id, prompt=[text_block("look")])
        assert server.violations == ()
    assert editor.text() == "I see."


async def test_modes_are_switched_and_links_and_pictures_go_along(home: Path, project: Path) -> None:
    told = {"say": "Done.", "expect": {"last_contains": ["look at @a.py", "[image/png, 70 bytes]"]}}
    dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
    editor = Editor()
    with run_scenario_server(script(told, edit(), {"say": "Done."})) as server:
        async with connected(server, home, editor) as conn:
            session = await conn.new_session(cwd=str(project), mcp_servers=[])
            link = resource_link_block("a.py", (project / "a.py").as_uri())
            blocks = [text_block("look at "), link, image_block(dot, "image/png")]
            await conn.prompt(session_id=session.session_id, prompt=blocks)
            await conn.set_session_mode(session_id=session.session_id, mode_id="all")
            await conn.prompt(session_id=session.session_id, prompt=[text_block("make a 2")])
            options = await conn.set_config_option(
                config_id="mode", session_id=session.session_id, value="plan"
            )
            assert options.config_options[0].current_value == "plan"
            await until(lambda: editor.of_kind("current_mode_update"))
            assert editor.of_kind("current_mode_update")[-1].current_mode_id == "plan"
            assert editor.of_kind("config_option_update")[-1].config_options[0].current_value == "all"
            with pytest.raises(RequestError):
                await conn.set_session_mode(session_id=session.session_id, mode_id="some")
    assert editor.questions == []


async def test_commands_of_the_project_are_offered_and_sent_and_compact_shortens(
    home: Path, project: Path
) -> None:
    commands = project / ".agents" / "commands"
    commands.mkdir(parents=True)
    words = "---\ndescription: Look at a file\nargument-hint: FILE\n---\nLook closely at $ARGUMENTS"
    (commands / "look.md").write_text(words, encoding="utf-8")
    expanded = {"say": "Seen.", "expect": {"last_contains": ["Look closely at a.py"]}}
    after = {"say": "At a.py."}
    editor = Editor()
    with run_scenario_server(script(expanded, after)) as server:
        async with connected(server, home, editor) as conn:
            session = await conn.new_session(cwd=str(project), mcp_servers=[])
            await until(lambda: editor.of_kind("available_commands_update"))
            offered = editor.of_kind("available_commands_update")[0].available_commands
            told = {each.name: each.description for each in offered}
            assert told["compact"] == "Shorten what the model is shown of the conversation"
            assert told["look"] == "Look at a file"
            own = {"init", "look", "review"}
            ours = {"commit", "compact", "context", "cost", "diff", "help", "rename", "rewind"}
            ours |= {"tools", "undo"}
            assert set(told) == own | ours
            assert [each.input.root.hint for each in offered if each.name == "look"] == ["FILE"]
            await conn.prompt(session_id=session.session_id, prompt=[text_block("/look a.py")])
            before = len(editor.of_kind("usage_update"))
            done = await conn.prompt(session_id=session.session_id, prompt=[text_block("/compact")])
            assert done.stop_reason == "end_turn"
            assert len(editor.of_kind("usage_update")) == before + 1
            await conn.prompt(session_id=session.session_id, prompt=[text_block("where did we look?")])
            said = editor.text()
    assert said.startswith("Seen.The next request takes about ")
    assert said.endswith("At a.py.")


async def test_a_command_that_changes_nothing_or_is_not_there_is_answered_without_the_model(
    home: Path, project: Path
) -> None:
    editor = Editor()
    paid = [
        {"say": "Seen.", "expect": {"last_contains": [text]}} for text in ("/etc/hosts is it", "see /cots")
    ]
    with run_scenario_server(script(*paid)) as server:
        async with connected(server, home, editor) as conn:
            session = await conn.new_session(cwd=str(project), mcp_servers=[])

            async def say(text: str) -> str:
                before = len(editor.text())
                done = await conn.prompt(session_id=session.session_id, prompt=[text_block(text)])
                assert done.stop_reason == "end_turn"
                return editor.text()[before:]

            assert "requests   0" in await say("/cost")
            assert "in all" in await say("/context")
            assert "- `run_command`: " in await say("/tools")
            listed = await say("/help")
            assert "- `/rewind`: Go back" in listed
            for unknown in ("/cots", "/model openai:other", "/clear\n"):
                refused = await say(unknown)
                assert refused.startswith(f"There is no command `{unknown.split()[0]}`.")
                assert refused.endswith(listed)
            assert not server.requests
            assert await say("/etc/hosts is it") == "Seen."
            assert await say("see /cots") == "Seen."
            assert "requests   2" in await say("/cost ")
    assert server.violations == ()


async def test_a_rewind_shows_what_it_changes_brings_it_back_and_is_undone(home: Path, project: Path) -> None:
    editor = Editor()
    back = {"say": "Nothing yet."}
    with run_scenario_server(script({"say": "Hello."}, edit(), {"say": "It is 2."}, back)) as server:
        async with connected(server, home, editor, "--approve", "all") as conn:
            session = await conn.new_session(cwd=str(project), mcp_servers=[])

            async def say(text: str) -> str:
                before = len(editor.text())
                done = await conn.prompt(session_id=session.session_id, prompt=[text_block(text)])
                assert done.stop_reason == "end_turn"
                return editor.text()[before:]

            assert await say("/rewind") == "There is nothing to go back to yet."
            await say("hi")
            await say("make a 2")
            assert (await say("/diff")).endswith("\n@@ -1 +1 @@\n-a = 1\n+a = 2\n```")
            listed = await say("/rewind")
            assert listed.startswith("1. hi\n2. make a 2\n")
            shown = await say("/rewind 2")
            assert "- changed: `a.py`" in shown
            assert (project / "a.py").read_text(encoding="utf-8") == "a = 2\n"
            told = await say("/rewind 2 files")
            assert "1 file" in told
            assert (project / "a.py").read_text(encoding="utf-8") == "a = 1\n"
            await say("/undo")
            assert (project / "a.py").read_text(encoding="utf-8") == "a = 2\n"
            await say("/rewind 1 both")
            assert (project / "a.py").read_text(encoding="utf-8") == "a = 1\n"
            assert await say("/undo") == "Taken back: 1 file and the conversation."
            assert (await say("/diff")).endswith("\n+a = 2\n```")
            await say("/rewind 1 conversation")
            assert (await say("/diff")).endswith("\n+a = 2\n```")
            await say("/undo")
            await say("/rewind 1 both")
            assert await say("what did I ask for?") == "Nothing yet."
            for wrong, code in (("/rewind 7", "no_such_point"), ("/rewind 1 all", "bad_usage")):
                with pytest.raises(RequestError) as refused:
                    await say(wrong)
                told: Any = refused.value.data
                assert told["code"] == code
            assert "make a 2" not in server.requests[-1].body.decode()
    assert server.violations == ()


async def test_a_command_is_in_progress_and_shows_what_it_prints(home: Path, project: Path) -> None:
    line = "echo begun; until [ -e go ]; do sleep 0.05; done; echo done"
    command = {"calls": [{"tool": "run_command", "arguments": {"command": line}}]}
    editor = Editor()

    def list_progress() -> list[Any]:
        return [each for each in editor.of_kind("tool_call_update") if each.status == "in_progress"]

    with run_scenario_server(script(command, {"say": "It is made."})) as server:
        async with connected(server, home, editor) as conn:
            session = await conn.new_session(cwd=str(project), mcp_servers=[])
            turn = asyncio.create_task(
                conn.prompt(session_id=session.session_id, prompt=[text_block("make it")])
            )
            await until(lambda: len(list_progress()) >= 2)
            begun, *shown = list_progress()
            assert begun.content is None
            assert shown[0].content[0].content.text == "begun\n"
            assert len(editor.questions) == 1  # it began once that was answered
            (project / "go").touch()
            await turn
    updates = editor.of_kind("tool_call_update")
    assert updates[-1].status == "completed"
    assert {each.tool_call_id for each in updates} == {begun.tool_call_id}
    assert server.violations == ()


async def test_a_commit_has_the_words_of_the_person_or_the_model_is_asked_for_one(
    home: Path, project: Path
) -> None:
    git(project, "init", "--quiet", "--initial-branch=main")
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "--message=First")
    for key in ("name", "email"):
        git(project, "config", f"user.{key}", "person@localhost")
    editor = Editor()
    asked = {"say": "There is nothing to commit.", "expect": {"last_contains": ["Commit what you have"]}}
    with run_scenario_server(script(edit(), {"say": "It is 2."}, asked)) as server:
        async with connected(server, home, editor, "--approve", "all") as conn:
            session = await conn.new_session(cwd=str(project), mcp_servers=[])
            for text in ("make a 2", "/commit Let a be 2", "/commit"):
                await conn.prompt(session_id=session.session_id, prompt=[text_block(text)])
    assert git(project, "log", "--format=%s") == "Let a be 2\nFirst"
    assert "on `main`: Let a be 2" in editor.text()
    assert server.violations == ()


async def test_another_model_answers_once_it_is_chosen(home: Path, project: Path) -> None:
    editor = Editor()
    with run_scenario_server(script({"say": "One."}, {"say": "Two."})) as server:
        async with connected(server, home, editor) as conn:
            session = await conn.new_session(cwd=str(project), mcp_servers=[])
            model = session.config_options[1]
            assert (model.id, model.current_value) == ("model", "openai:scripted")
            await conn.prompt(session_id=session.session_id, prompt=[text_block("one")])
            chosen = await conn.set_config_option(
                config_id="model", session_id=session.session_id, value="openai:other"
            )
            assert chosen.config_options[1].current_value == "openai:other"
            assert {each.value for each in chosen.config_options[1].options} == {
                "openai:other",
                "openai:scripted",
            }
            await conn.prompt(session_id=session.session_id, prompt=[text_block("two")])
            with pytest.raises(RequestError) as refused:
                await conn.set_config_option(
                    config_id="model", session_id=session.session_id, value="nobody:x"
                )
            assert (refused.value.data or {})["code"] == "model_unknown_provider"
        assert [json.loads(each.body)["model"] for each in server.requests] == ["scripted", "other"]


async def test_a_session_gets_the_title_and_the_effort_that_are_chosen(home: Path, project: Path) -> None:
    editor = Editor()
    with run_scenario_server(script({"say": "One."}, {"say": "Two."})) as server:
        async with connected(server, home, editor, "--model", "openai:gpt-5") as conn:
            session = await conn.new_session(cwd=str(project), mcp_servers=[])
            effort = session.config_options[2]
            assert (effort.id, effort.category, effort.current_value) == (
                "effort",
                "thought_level",
                "default",
            )

            async def say(text: str) -> None:
                await conn.prompt(session_id=session.session_id, prompt=[text_block(text)])

            async def think(level: str) -> Any:
                return await conn.set_config_option(
                    config_id="effort", session_id=session.session_id, value=level
                )

            await say("/rename Blue `paint`")
            assert editor.of_kind("session_info_update")[-1].title == "Blue `paint`"
            with pytest.raises(RequestError):
                await say("/rename")
            assert (await think("high")).config_options[2].current_value == "high"
            await say("one")
            assert (await think("default")).config_options[2].current_value == "default"
            with pytest.raises(RequestError):
                await think("deep")
            await say("two")
            listed = await conn.list_sessions(cwd=str(project))
        efforts = [json.loads(each.body).get("reasoning_effort") for each in server.requests]
    assert [each.title for each in listed.sessions] == ["Blue `paint`"]
    assert efforts == ["high", None]


async def test_a_fork_goes_on_by_itself(home: Path, project: Path) -> None:
    turns = ({"say": "It is 2 now."}, {"say": "In the copy."}, {"say": "In the first."})
    editor = Editor()
    with run_scenario_server(script(*turns)) as server:
        async with connected(server, home, editor) as conn:
            first = await conn.new_session(cwd=str(project), mcp_servers=[])
            await conn.prompt(session_id=first.session_id, prompt=[text_block("make a 2")])
            copy = await conn.fork_session(session_id=first.session_id, cwd=str(project))
            assert copy.session_id != first.session_id
            await conn.prompt(session_id=copy.session_id, prompt=[text_block("in the copy?")])
            await conn.prompt(session_id=first.session_id, prompt=[text_block("in the first?")])
            found = await conn.list_sessions(cwd=str(project))
            assert {each.session_id for each in found.sessions} == {first.session_id, copy.session_id}
        asked = [each.body.decode() for each in server.requests]
    assert "make a 2" in asked[1]
    assert "in the copy?" not in asked[2]


async def test_sessions_of_two_folders_work_at_the_same_time(
    home: Path, project: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    waits = "touch {0}/here; while [ ! -e {1}/here ]; do sleep 0.05; done; echo met"
    one = {"calls": [{"tool": "run_command", "arguments": {"command": waits.format(project, other)}}]}
    two = {"calls": [{"tool": "run_command", "arguments": {"command": waits.format(other, project)}}]}
    editor = Editor()
    with run_scenario_server(script(one, two, {"say": "Met."}, {"say": "Met."})) as server:
        async with connected(server, home, editor, "--approve", "all") as conn:
            sessions = [await conn.new_session(cwd=str(each), mcp_servers=[]) for each in (project, other)]
            done = await asyncio.gather(
                *(conn.prompt(session_id=each.session_id, prompt=[text_block("meet")]) for each in sessions)
            )
            assert [each.stop_reason for each in done] == ["end_turn", "end_turn"]
    assert editor.text() == "Met.Met."


async def test_servers_of_the_editor_are_used_and_their_secrets_are_nowhere_kept(
    home: Path, project: Path, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "n.txt").write_text("milk\n", encoding="utf-8")
    secret = "a-secret-of-the-editor-0123456789"
    good = schema.McpServerStdio(
        name="notes",
        command=sys.executable,
        args=["-m", "kakite", "serve", "--root", str(notes)],
        env=[schema.EnvVariable(name="NOTES_KEY", value=secret)],
    )
    bad = schema.McpServerStdio(name="gone", command=str(tmp_path / "no-such-program"), args=[], env=[])
    look = {"tool": "notes__text_editor", "arguments": {"command": "view", "path": "n.txt"}}
    told = {"say": "Milk.", "expect": {"tool_result": {"is_error": False, "contains": ["milk"]}}}
    editor = Editor()
    with run_scenario_server(script({"calls": [look]}, told)) as server:
        async with connected(server, home, editor) as conn:
            session = await conn.new_session(cwd=str(project), mcp_servers=[good, bad])
            done = await conn.prompt(session_id=session.session_id, prompt=[text_block("what to buy?")])
            assert done.stop_reason == "end_turn"
    assert [each.title for each in editor.questions]
    assert "`gone` is not there" in editor.text()
    assert editor.text().endswith("Milk.")
    kept = [each.read_bytes() for each in home.rglob("*") if each.is_file()]
    assert kept
    assert not any(secret.encode() in each for each in kept)


WEB_SERVER = """
import socket, uvicorn
from mcp.server.mcpserver import MCPServer

server = MCPServer("web")

@server.tool()
def shop() -> str:
    return "milk"

listening = socket.create_server(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="error")).run([listening])
"""


async def test_a_server_of_the_editor_may_be_reached_over_http(home: Path, project: Path) -> None:
    secret = "a-secret-of-the-editor-0123456789"
    web = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WEB_SERVER, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert web.stdout
        port = int(await asyncio.wait_for(web.stdout.readline(), WITHIN))
        given = schema.HttpMcpServer(
            type="http",
            name="web",
            url=f"http://127.0.0.1:{port}/mcp",
            headers=[schema.HttpHeader(name="Authorization", value=f"Bearer {secret}")],
        )
        told = {"say": "Milk.", "expect": {"tool_result": {"is_error": False, "contains": ["milk"]}}}
        editor = Editor()
        with run_scenario_server(script({"calls": [{"tool": "web__shop", "arguments": {}}]}, told)) as server:
            async with connected(server, home, editor) as conn:
                session = await conn.new_session(cwd=str(project), mcp_servers=[given])
                await conn.prompt(session_id=session.session_id, prompt=[text_block("what to buy?")])
        assert editor.text() == "Milk."
        assert len(editor.questions) == 1
        assert not any(secret.encode() in each.read_bytes() for each in home.rglob("*") if each.is_file())
    finally:
        web.kill()
        await web.wait()


@pytest.mark.parametrize("has_files", [False, True])
async def test_each_session_has_a_worktree_and_its_commit_is_asked_with_the_diff(
    home: Path, project: Path, has_files: bool
) -> None:
    git(project, "init", "--quiet")
    git(project, "add", ".")
    git(project, "commit", "--quiet", "--message=First")
    for key in ("name", "email"):
        git(project, "config", f"user.{key}", "person@localhost")
    commit = {"calls": [{"tool": "commit", "arguments": {"message": "Make a 2"}}]}
    shown = {str(project / "a.py"): "unsaved = 1\n"}
    editor = Editor(buffers=dict(shown) if has_files else None)
    with run_scenario_server(script(edit(), commit, {"say": "Done."})) as server:
        async with connected(server, home, editor, "--worktree") as conn:
            unused = await conn.new_session(cwd=str(project), mcp_servers=[])
            session = await conn.new_session(cwd=str(project), mcp_servers=[])
            await conn.prompt(session_id=session.session_id, prompt=[text_block("make a 2")])
            found = await conn.list_sessions(cwd=str(project))
    assert [each.session_id for each in found.sessions] == [session.session_id]
    branch = f"kakite/{session.session_id}"
    changed, asked = editor.questions
    (place,) = changed.locations or []
    assert asked.title == "Commit 1 file: Make a 2"
    assert "+a = 2" in (asked.content or [])[0].content.text  # pyright: ignore[reportAttributeAccessIssue]
    assert git(project, "show", f"{branch}:a.py") == "a = 2"
    assert (project / "a.py").read_text(encoding="utf-8") == "a = 1\n"
    assert Path(place.path).read_text(encoding="utf-8") == "a = 2\n"
    assert unused.session_id not in git(project, "branch", "--list")
    assert editor.buffers == (shown if has_files else None)
