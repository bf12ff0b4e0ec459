"""Our toolsets for agents of pydantic-ai. Imported only by who has that library."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Generator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from contextvars import ContextVar
from typing import Any, Self, cast

from pydantic_ai import ApprovalRequired, RunContext, ToolDefinition, ToolFailed
from pydantic_ai.tools import AgentDepsT
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_core import SchemaValidator, core_schema

from kakite.host.approval import Answer, Question
from kakite.tools.toolset import Tool, ToolCall, Toolset

DIGEST = "digest"
"""The key, in the metadata of a deferred call, of what its approval is bound to."""

RETRIES = 3  # of a call whose arguments are no JSON; all else is told to the model as a failed call

_ANYTHING = SchemaValidator(core_schema.any_schema())
_approved: ContextVar[str] = ContextVar("approved", default="")


class KakiteToolset(AbstractToolset[AgentDepsT]):
    """Any toolset of ours, as one of pydantic-ai's.

    A call that failed raises ``ToolFailed``: the model sees the text, and no retry is counted. Who approves
    is up to the ``ApprovedToolset`` inside: one of our approvers, or ``DeferringApprover``.
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
        """What tells this toolset from others of one agent."""
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
        return {tool.name: self._tool(_definition(tool)) for tool in await self._open().tools()}

    async def get_tool_for_tool_def(
        self,
        tool_def: ToolDefinition,
        ctx: RunContext[AgentDepsT],  # noqa: ARG002 - as the library calls it
    ) -> ToolsetTool[AgentDepsT]:
        """Return the tool of a definition that was listed before, without listing again."""
        return self._tool(tool_def)

    async def call_tool(
        self,
        name: str,
        tool_args: dict[str, Any],
        ctx: RunContext[AgentDepsT],
        tool: ToolsetTool[AgentDepsT],  # noqa: ARG002 - as the library calls it
    ) -> str:
        """Perform the call and return its text.

        Raises:
            ToolFailed: it failed, or was not approved.
            ApprovalRequired: it waits for approval; only with ``DeferringApprover``.
        """
        call = ToolCall(id=ctx.tool_call_id or "", name=name, arguments=tool_args)
        with _approval(ctx):
            result = await self._open().call(call)
        if result.is_error:
            raise ToolFailed(result.text)
        return result.text

    def _open(self) -> Toolset:
        if self._toolset is None:
            raise RuntimeError("the toolset is not open: enter it, or the agent, first")
        return self._toolset

    def _tool(self, definition: ToolDefinition) -> ToolsetTool[AgentDepsT]:
        # Whether arguments fit is for the tool itself to say: its answer helps the model more.
        return ToolsetTool(toolset=self, tool_def=definition, max_retries=RETRIES, args_validator=_ANYTHING)


def _definition(tool: Tool) -> ToolDefinition:
    return ToolDefinition(
        name=tool.name, description=tool.description, parameters_json_schema=tool.parameters
    )


class DeferringApprover:
    """Asks by ending the run: pydantic-ai hands the call to the program, which goes on with an answer later.

    The run's ``output_type`` has to hold ``DeferredToolRequests``, whose ``metadata`` tells of each call
    its ``server``, ``tool``, ``diff``, ``outside`` (see ``Question``) and a ``digest``. An approval counts
    only with that metadata in ``DeferredToolResults.metadata``, and only for the very call and diff that it
    is of: where the file or the arguments changed meanwhile, the run ends once more, with the new question.
    """

    async def ask(self, question: Question) -> Answer:
        """Return yes to what was approved; else end the run with the question.

        Raises:
            ApprovalRequired: always when it is not approved yet.
        """
        digest = question_digest(question)
        if _approved.get() == digest:
            return Answer(allowed=True)
        raise ApprovalRequired(
            {
                DIGEST: digest,
                "server": question.server,
                "tool": question.tool or question.call.name,
                "arguments": question.call.arguments,
                "diff": question.diff,
                "outside": list(question.outside),
            }
        )


def question_digest(question: Question) -> str:
    """Return a digest of the call and the diff that a person is shown."""
    told = json.dumps([question.call.name, question.call.arguments, question.diff], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()


@contextmanager
def _approval(ctx: RunContext[Any]) -> Generator[None]:
    """Let ``DeferringApprover`` see what was approved of the call of the block."""
    metadata: Any = ctx.tool_call_metadata
    told: object = cast("dict[str, Any]", metadata).get(DIGEST) if isinstance(metadata, dict) else None
    token = _approved.set(told if ctx.tool_call_approved and isinstance(told, str) else "")
    try:
        yield
    finally:
        _approved.reset(token)
