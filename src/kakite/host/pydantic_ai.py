"""Adapts our toolsets to agents of pydantic-ai. Import it only if you have that library."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Self, cast

from pydantic_ai import ApprovalRequired, CustomEvent, RunContext, ToolDefinition, ToolFailed, UserError
from pydantic_ai.messages import BinaryContent
from pydantic_ai.tools import AgentDepsT
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_core import SchemaValidator, core_schema

from kakite.host.policy.approval import ApprovalRequest, ApprovalResponse
from kakite.tools.call_context import bind_call
from kakite.tools.toolset import Tool, ToolCall, Toolset

DIGEST_KEY = "digest"
"""The key, in the metadata of a deferred call, of what its approval is bound to."""

RETRIES = 3  # of a call whose arguments are no JSON; all else is told to the model as a failed call

_PAUSE = 0.1  # s between two events of progress
_ANYTHING = SchemaValidator(core_schema.any_schema())
_approved: ContextVar[str] = ContextVar("approved", default="")


@dataclass(kw_only=True)
class CallProgressEvent(CustomEvent, name="kakite.progress"):
    """The progress of a call of ours, in the run's stream of events; ``tool_call_id`` says which call."""

    progress: float
    total: float | None = None
    """Of how much in all; None: unknown."""
    message: str = ""
    """What the server says to it, without control characters."""


class KakiteToolset(AbstractToolset[AgentDepsT]):
    """Any toolset of ours, as one of pydantic-ai's.

    A call that failed raises ``ToolFailed``: the model sees the text, and no retry is counted. How far a call
    is comes as ``CallProgressEvent`` in the stream of events, a few times a second at most. Who approves is
    up to the ``ApprovedToolset`` inside: one of our approvers, or ``DeferringApprover``.
    """

    def __init__(
        self,
        toolset: Toolset | Callable[[], AbstractAsyncContextManager[Toolset]],
        *,
        id: str = "kakite",  # noqa: A002 - what pydantic-ai calls it
    ) -> None:
        """Take a toolset that is open, or what opens one for as long as any run of an agent lasts."""
        self._opening = toolset if callable(toolset) else None
        self._toolset = None if callable(toolset) else toolset
        self._id = id
        self._entered = 0
        self._turn = asyncio.Lock()
        self._stack = AsyncExitStack()

    @property
    def id(self) -> str:
        """The id that tells this toolset from others of one agent."""
        return self._id

    async def __aenter__(self) -> Self:
        """Open the toolset if nobody has yet. May be entered any number of times."""
        async with self._turn:
            if self._opening is not None and not self._entered:
                self._toolset = await self._stack.enter_async_context(self._opening())
            self._entered += 1
        return self

    async def __aexit__(self, *args: object) -> None:
        """Close it once all have left."""
        async with self._turn:
            self._entered -= 1
            if self._opening is not None and not self._entered:
                self._toolset = None
                await self._stack.aclose()

    async def get_tools(
        self,
        ctx: RunContext[AgentDepsT],  # noqa: ARG002 - as the library calls it
    ) -> dict[str, ToolsetTool[AgentDepsT]]:
        """Return the tools, with their schemas as they are."""
        return {
            tool.name: self._build_tool(_to_tool_definition(tool))
            for tool in await self._require_open().list_tools()
        }

    async def get_tool_for_tool_def(
        self,
        tool_def: ToolDefinition,
        ctx: RunContext[AgentDepsT],  # noqa: ARG002 - as the library calls it
    ) -> ToolsetTool[AgentDepsT]:
        """Return the tool of a definition that was listed before, without listing again."""
        return self._build_tool(tool_def)

    async def call_tool(
        self,
        name: str,
        tool_args: dict[str, Any],
        ctx: RunContext[AgentDepsT],
        tool: ToolsetTool[AgentDepsT],  # noqa: ARG002 - as the library calls it
    ) -> str | list[str | BinaryContent]:
        """Perform the call and return its text, with its pictures behind it if it has any.

        Raises:
            ToolFailed: it failed, or was not approved.
            ApprovalRequired: it waits for approval; only with ``DeferringApprover``.
        """
        call = ToolCall(id=ctx.tool_call_id or "", name=name, arguments=tool_args)
        async with _report_progress(ctx):
            result = await self._require_open().call(call)
        if result.is_error:
            raise ToolFailed(result.text)
        if not result.images:
            return result.text
        pictures = (
            BinaryContent(data=base64.b64decode(each.data), media_type=each.mime) for each in result.images
        )
        return [result.text, *pictures]

    def _require_open(self) -> Toolset:
        if self._toolset is None:
            raise RuntimeError("the toolset is not open: enter it, or the agent, first")
        return self._toolset

    def _build_tool(self, definition: ToolDefinition) -> ToolsetTool[AgentDepsT]:
        # Whether arguments fit is for the tool itself to say: its answer helps the model more.
        return ToolsetTool(toolset=self, tool_def=definition, max_retries=RETRIES, args_validator=_ANYTHING)


def _to_tool_definition(tool: Tool) -> ToolDefinition:
    return ToolDefinition(
        name=tool.name, description=tool.description, parameters_json_schema=tool.parameters
    )


class DeferringApprover:
    """Asks by ending the run: pydantic-ai hands the call to the program, which goes on with an answer later.

    The run's ``output_type`` has to hold ``DeferredToolRequests``, whose ``metadata`` tells of each call
    its ``server``, ``tool``, ``arguments``, ``folder``, ``diff``, ``outside`` (see ``ApprovalRequest``) and a
    ``digest``. An approval counts only with that metadata in ``DeferredToolResults.metadata``, and only for
    the very question that it is of: where the file, the arguments, the tool, its server or what came in from
    outside changed meanwhile, the run ends once more, with the new question.
    """

    async def ask(self, question: ApprovalRequest) -> ApprovalResponse:
        """Return yes to what was approved; else end the run with the question.

        Raises:
            ApprovalRequired: always when it is not approved yet.
        """
        digest = compute_request_digest(question)
        if _approved.get() == digest:
            return ApprovalResponse(allowed=True)
        raise ApprovalRequired(
            {
                DIGEST_KEY: digest,
                "server": question.server,
                "tool": question.tool or question.call.name,
                "arguments": question.call.arguments,
                "folder": question.folder,
                "diff": question.diff,
                "outside": list(question.outside),
            }
        )


def compute_request_digest(question: ApprovalRequest) -> str:
    """Return a digest of all that a person is shown, and of whatever else the answer depends on.

    That is the tool under both names with its server, their definitions, the arguments and where paths among
    them start, the diff and what binds the call to it, and whose text from outside came in before.
    """
    call = question.call
    told = [
        *(question.server, question.tool, question.definition),
        *(call.name, call.arguments, call.bound, question.folder),
        *(question.diff, question.bound, sorted(question.outside)),
    ]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


@asynccontextmanager
async def _report_progress(ctx: RunContext[Any]) -> AsyncGenerator[None]:
    """Let the run's events tell how far the call of the block is; and who approves, what was approved."""
    latest: list[CallProgressEvent] = []
    news = asyncio.Event()

    def on_progress(progress: float, total: float | None, message: str) -> None:
        latest[:] = [CallProgressEvent(progress=progress, total=total, message=message)]
        news.set()

    async def emit_latest() -> None:
        while await news.wait():
            await _emit_progress(ctx, latest)
            news.clear()
            await asyncio.sleep(_PAUSE)

    telling = asyncio.create_task(emit_latest())
    try:
        with _bind_approval(ctx), bind_call(on_progress=on_progress):
            yield
    finally:
        telling.cancel()
        await _emit_progress(ctx, latest)


async def _emit_progress(ctx: RunContext[Any], latest: list[CallProgressEvent]) -> None:
    event = latest.pop() if latest else None
    if event:
        with suppress(UserError):  # nobody follows this run's events
            await ctx.emit(event)


@contextmanager
def _bind_approval(ctx: RunContext[Any]) -> Generator[None]:
    """Let ``DeferringApprover`` see what was approved of the call of the block."""
    metadata: Any = ctx.tool_call_metadata
    told: object = cast("dict[str, Any]", metadata).get(DIGEST_KEY) if isinstance(metadata, dict) else None
    token = _approved.set(told if ctx.tool_call_approved and isinstance(told, str) else "")
    try:
        yield
    finally:
        _approved.reset(token)
