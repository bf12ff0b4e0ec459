"""The toolset of a run: the tools that the model may call, and the approvals that they need."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from kakite.agent.observe.events import ResourceMissing
from kakite.agent.run.deps import SessionDeps, ToolSettings
from kakite.agent.run.prompt import PromptInputs, PromptPart, build_prompt_parts
from kakite.agent.run.state import RunState
from kakite.agent.toolsets.buffer_editor import BufferEditor
from kakite.agent.toolsets.external import ExternalServers, build_unknown_tool_result, open_external_servers
from kakite.agent.toolsets.sandbox_tools import EditorError, SandboxToolset
from kakite.host import MODES, ApprovalConfig, ApprovedToolset, Rule
from kakite.host.policy.matchers import PathContext
from kakite.processes import UNTRUSTED_HOME, Network
from kakite.sandbox import Sandbox
from kakite.tools.editor.edit_formats import EditFormat, EditorOptions, resolve_format
from kakite.tools.function_toolset import FunctionToolset
from kakite.tools.toolset import Tool, ToolCall, ToolResult

AFTER_EDIT_VARIABLE = "KAKITE_AFTER_EDIT"


async def open_run_toolset(stack: AsyncExitStack, run: RunState, parts: SessionDeps) -> RunToolset:
    """Start the servers of a run; they end with the stack.

    Raises:
        KakiteError: there are no commands, or no editor and the run is to stop then.
    """
    sandbox, tooling = parts.sandbox, parts.tooling
    edit_format = resolve_format(tooling.edit_format, run.task.model)
    toolset = SandboxToolset(
        tooling.editor,
        partial(sandbox.build_process_spec, env=_build_environment(run, parts)),
        partial(_build_serve_command, sandbox, tooling, edit_format),
        lambda error: parts.listener(ResourceMissing(what="editor", code=error.code, message=error.message)),
        in_process=_build_in_process_editor(run, parts, edit_format),
        # What only looks cannot run commands: plan mode and sub-agents search by tools.
        commands="shell" if run.task.workspace == "clone" else "search,shell",
    )
    stack.push_async_callback(toolset.close)
    await toolset.open()
    further, beginning = None, StartNotifier()
    if tooling.servers or parts.client_servers:
        folder = parts.record.folder / "servers"
        further = await open_external_servers(
            stack,
            tooling,
            folder,
            rules=parts.rules,
            approver=parts.approver,
            begins=beginning.notify,
            given=parts.client_servers,
        )
        for name, error in further.missing.items():
            parts.listener(ResourceMissing(what=name, code=error.code, message=error.message))
    own = await toolset.list_tools()
    builtin = tuple(offer.tool for offer in parts.builtin)
    others = await further.toolset.list_tools() if further else ()
    listed = ListedTools(own=own, builtin=builtin, others=others)
    return RunToolset(run, parts, toolset, further, beginning, listed)


def _build_environment(run: RunState, parts: SessionDeps) -> Mapping[str, str]:
    environment = {**(run.environment or {}), UNTRUSTED_HOME: "1"}
    if parts.container:
        environment |= parts.container.build_environment(parts.sandbox)
    if after_edit := parts.tooling.after_edit:
        # JSON is YAML, as the variable is read; the person's settings are not in the sandbox.
        commands = {pattern: list(said) for pattern, said in after_edit.items()}
        environment[AFTER_EDIT_VARIABLE] = json.dumps(commands)
    return environment


StartCallback = Callable[[], Awaitable[None]]


async def ignore_start() -> None:
    """Take no note that a call begins."""


COMMIT = "commit"
"""The tool of a session that commits: of its own, it shows what it would do without doing it."""


class StartNotifier:
    """Notifies the caller that a call was approved and begins."""

    def __init__(self) -> None:
        self.note: StartCallback = ignore_start

    async def notify(self) -> None:
        """Wait until it is noted."""
        await self.note()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTools:
    """The tools that a run was opened with, by where they work; of two with one name the first counts."""

    own: tuple[Tool, ...]
    """In the sandbox."""
    builtin: tuple[Tool, ...]
    """In this process."""
    others: tuple[Tool, ...]
    """Of further servers."""

    def list_unique(self) -> tuple[Tool, ...]:
        """Return all of them."""
        tools: dict[str, Tool] = {}
        for tool in (*self.own, *self.builtin, *self.others):
            tools.setdefault(tool.name, tool)
        return tuple(tools.values())


class RunToolset:
    """All tools of a run as one toolset; each call passes approval first.

    Which there are is settled when it is opened, so that what a provider keeps of the list stays valid.
    """

    def __init__(
        self,
        run: RunState,
        parts: SessionDeps,
        toolset: SandboxToolset,
        further: ExternalServers | None,
        beginning: StartNotifier,
        listed: ListedTools,
        *,
        subagent: bool = False,
    ) -> None:
        self._toolset = toolset
        self._further = further
        self._beginning = beginning
        self._project = parts.project
        self._conversation = run.task.workspace != "clone"
        self._branch = run.task.branch if run.task.workspace == "worktree" else ""
        self._mode_rules = len(parts.rules)
        self._network: Network = run.task.network
        self._edit_format: EditFormat = resolve_format(parts.tooling.edit_format, run.task.model)
        # Every command's output counts as text from outside: asking after each would be asking always. What a
        # command can reach is up to the sandbox.
        inside = PathContext(project=parts.project)
        setting = ApprovalConfig(
            ask_after_outside=False,
            begins=beginning.notify,
            saved=parts.saved,
            project=run.task.repository if parts.saved else "",
            place=lambda _server: inside,
        )
        self._approved = ApprovedToolset(toolset, rules=parts.rules, approver=parts.approver, setting=setting)
        builtin = FunctionToolset(*parts.builtin)
        self._builtin = ApprovedToolset(
            builtin,
            rules=parts.rules,
            approver=parts.approver,
            setting=replace(setting, previews=frozenset({COMMIT})),
        )
        self._skills = parts.skills
        self._listed = listed
        self._subagent = subagent
        self._own = frozenset(tool.name for tool in listed.own)
        self._builtin_names = frozenset(tool.name for tool in listed.builtin) - self._own
        self._tools = listed.list_unique()

    @property
    def editor_error(self) -> EditorError | None:
        """The reason why there is no editor, though there should be one: for the report at the issue."""
        return self._toolset.trouble

    def get_prompt_parts(self) -> tuple[PromptPart, ...]:
        """Return what the model is to know of what it works with now."""
        return build_prompt_parts(
            PromptInputs(
                subagent=self._subagent,
                project=self._project,
                network=self._network,
                editor=self._toolset.editor,
                editor_name=self._toolset.name,
                edit_format=self._edit_format,
                editor_tools=self._toolset.list_editor_tools(),
                servers=self._further.servers if self._further else (),
                conversation=self._conversation,
                commits=COMMIT in self._builtin_names,
                branch=self._branch,
                skills=self._skills,
            )
        )

    def set_approval(self, rules: Sequence[Rule], *, read_only: bool = False) -> None:
        """Say what goes without a question from now on; ``read_only``: what changes anything is refused."""
        further = self._further and self._further.approved
        for approved in filter(None, (self._approved, self._builtin, further)):
            approved.rules = (*rules, *approved.rules[self._mode_rules :])
            approved.read_only = read_only
        self._mode_rules = len(rules)

    def build_read_only(self, run: RunState, parts: SessionDeps) -> RunToolset:
        """Return the tools of a sub-agent: those of the sandbox that look, and skills."""
        # What a command in the background writes is read once: that is for the session's own model.
        own = tuple(
            each
            for each in self._listed.own
            if each.name == "text_editor" or (each.effect == "read" and each.name != "poll_command")
        )
        builtin = tuple(offer for offer in parts.builtin if offer.tool.name == "read_skill")
        listed = ListedTools(own=own, builtin=tuple(offer.tool for offer in builtin), others=())
        parts = replace(parts, builtin=builtin)
        tools = RunToolset(run, parts, self._toolset, None, StartNotifier(), listed, subagent=True)
        tools.set_approval(MODES["ask"], read_only=True)
        return tools

    async def call_for_person(self, call: ToolCall) -> ToolResult:
        """Call a tool of the sandbox because the person wants it: nobody is asked.

        Raises:
            KakiteError: the servers in the sandbox are lost.
        """
        return await self._toolset.call(call)

    async def pause(self) -> bool:
        """End what the tools in the sandbox have started, see ``SandboxToolset.pause``."""
        return await self._toolset.pause()

    async def list_tools(self) -> tuple[Tool, ...]:
        """Return the tools, the same ones every time."""
        return self._tools

    async def is_unasked_view(self, call: ToolCall) -> bool:
        """Return whether a call only looks at the checkout, and goes without a question."""
        return call.name in self._own and await self._approved.is_unasked_view(call)

    async def call(self, call: ToolCall, begins: StartCallback = ignore_start) -> ToolResult:
        """Call a tool that is listed, if it is allowed; any other is unknown, whatever stands behind it.

        ``begins`` is awaited once the call was let go, right before it is made.

        Raises:
            KakiteError: the servers in the sandbox are lost, and the run is to stop then.
        """
        self._beginning.note = begins
        if call.name in self._own:
            return await self._approved.call(call)
        if call.name in self._builtin_names:
            return await self._builtin.call(call)
        if self._further and any(tool.name == call.name for tool in self._tools):
            return await self._further.call(call)
        return build_unknown_tool_result(call, [tool.name for tool in self._tools])


def _build_in_process_editor(
    run: RunState, parts: SessionDeps, edit_format: EditFormat
) -> BufferEditor | None:
    """Return the editor that works on what a person's editor has open; None where there is none."""
    if parts.buffers is None:
        return None
    options = EditorOptions(format=edit_format, require_read=parts.tooling.require_read)
    project = Path(run.task.folder)  # a worktree, where the session works in one
    sandbox = parts.sandbox
    return BufferEditor(
        project, sandbox.project, parts.buffers, options, parts.tooling.environ, sandbox.sealed
    )


def _build_serve_command(
    sandbox: Sandbox, tooling: ToolSettings, edit_format: EditFormat, sets: str
) -> tuple[str, ...]:
    words = (*sandbox.kakite, "serve", "--root", sandbox.project, "--tools", sets)
    words += ("--edit-format", edit_format) if edit_format != "quote" else ()
    return (*words, "--require-read") if tooling.require_read else words
