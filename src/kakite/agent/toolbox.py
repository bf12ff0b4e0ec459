"""The tools of a run: what the model may call, and what asks a person before."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial

from kakite.agent import instructions
from kakite.agent.bench import Bench, EditorError
from kakite.agent.events import Lacking
from kakite.agent.further import Further, open_further, unknown
from kakite.agent.instructions import Equipment, Part
from kakite.agent.parts import Parts
from kakite.agent.run import Run
from kakite.host import ApprovedToolset, Setting
from kakite.processes import Network
from kakite.sandbox import Sandbox
from kakite.tools.edit_formats import EditFormat, chosen_format
from kakite.tools.toolset import Tool, ToolCall, ToolResult


async def open_toolbox(stack: AsyncExitStack, run: Run, parts: Parts) -> Toolbox:
    """Start the servers of a run; they end with the stack.

    Raises:
        KakiteError: there are no commands, or no editor and the run is to stop then.
    """
    sandbox, tooling = parts.sandbox, parts.tooling
    edit_format = chosen_format(tooling.edit_format, run.task.model)
    bench = Bench(
        tooling.editor,
        partial(sandbox.launch, env=run.environment),
        partial(_serve, sandbox, edit_format),
        lambda error: parts.listener(Lacking(what="editor", error=error)),
    )
    stack.push_async_callback(bench.close)
    await bench.open()
    further, beginning = None, Beginning()
    if tooling.servers:
        folder = parts.record.folder / "servers"
        further = await open_further(
            stack, tooling, folder, rules=parts.rules, approver=parts.approver, begins=beginning.tell
        )
        for name, error in further.missing.items():
            parts.listener(Lacking(what=name, error=error))
    own = await bench.tools()
    others = await further.toolset.tools() if further else ()
    return Toolbox(run, parts, bench, further, beginning, own=own, others=others)


Begins = Callable[[], Awaitable[None]]


async def unnoted() -> None:
    """Take no note that a call begins."""


class Beginning:
    """Tells whoever has a call made that it was let go and begins."""

    def __init__(self) -> None:
        self.note: Begins = unnoted

    async def tell(self) -> None:
        """Wait until it is noted."""
        await self.note()


class Toolbox:
    """All tools of a run as one toolset; each call passes approval first.

    Which there are is settled when it is opened, so that what a provider keeps of the list stays valid.
    """

    def __init__(
        self,
        run: Run,
        parts: Parts,
        bench: Bench,
        further: Further | None,
        beginning: Beginning,
        *,
        own: tuple[Tool, ...],
        others: tuple[Tool, ...],
    ) -> None:
        self._bench = bench
        self._further = further
        self._beginning = beginning
        self._project = parts.sandbox.project
        self._network: Network = run.task.network
        self._edit_format: EditFormat = chosen_format(parts.tooling.edit_format, run.task.model)
        # Every command's output counts as text from outside: asking after each would be asking always. What a
        # command can reach is up to the sandbox.
        setting = Setting(ask_after_outside=False, begins=beginning.tell)
        self._approved = ApprovedToolset(bench, rules=parts.rules, approver=parts.approver, setting=setting)
        names = {tool.name for tool in own}
        self._tools = (*own, *(tool for tool in others if tool.name not in names))
        self._own = frozenset(names)

    @property
    def trouble(self) -> EditorError | None:
        """Why there is no editor, though there should be one: for whoever tells the people at the issue."""
        return self._bench.trouble

    def instructions(self) -> tuple[Part, ...]:
        """Return what the model is to know of what it works with now."""
        return instructions.parts(
            Equipment(
                project=self._project,
                network=self._network,
                editor=self._bench.editor,
                editor_name=self._bench.name,
                edit_format=self._edit_format,
                editor_tools=self._bench.editor_tools(),
                servers=self._further.servers if self._further else (),
            )
        )

    async def tools(self) -> tuple[Tool, ...]:
        """Return the tools, the same ones every time."""
        return self._tools

    async def call(self, call: ToolCall, begins: Begins = unnoted) -> ToolResult:
        """Call a tool that is listed, if it is allowed; any other is unknown, whatever stands behind it.

        ``begins`` is awaited once the call was let go, right before it is made.

        Raises:
            KakiteError: the servers in the sandbox are lost, and the run is to stop then.
        """
        self._beginning.note = begins
        if call.name in self._own:
            return await self._approved.call(call)
        if self._further and any(tool.name == call.name for tool in self._tools):
            return await self._further.call(call)
        return unknown(call, [tool.name for tool in self._tools])


def _serve(sandbox: Sandbox, edit_format: EditFormat, sets: str) -> tuple[str, ...]:
    words = (*sandbox.kakite, "serve", "--root", sandbox.project, "--tools", sets)
    return (*words, "--edit-format", edit_format) if edit_format != "quote" else words
