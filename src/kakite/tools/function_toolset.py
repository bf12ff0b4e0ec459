"""A toolset made of functions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from kakite.errors import KakiteError
from kakite.tools.arguments import ToolError, suggest_name, to_error_result, validate_arguments
from kakite.tools.call_context import bind_call
from kakite.tools.toolset import JsonObject, Tool, ToolCall, ToolResult


@dataclass(frozen=True, slots=True)
class FunctionTool:
    """A tool and the function that performs it. The function may raise KakiteError."""

    tool: Tool
    perform: Callable[[JsonObject], Awaitable[ToolResult]]
    names_codes: bool = True
    """Whether the text of a failure names its code; the file tools' fixed texts do not."""


class FunctionToolset:
    """The Toolset of these offers. Names must differ."""

    def __init__(self, *offers: FunctionTool) -> None:
        self._offers = {offer.tool.name: offer for offer in offers}

    async def list_tools(self) -> tuple[Tool, ...]:
        """Return the tools in the order in which they were offered."""
        return tuple(offer.tool for offer in self._offers.values())

    async def call(self, call: ToolCall) -> ToolResult:
        """Check the arguments and perform the call; what the model did wrong becomes an error result."""
        offer = self._offers.get(call.name)
        try:
            if offer is None:
                hint = suggest_name(call.name, self._offers)
                raise ToolError(f"there is no tool `{call.name[:100]}`", hint=hint, code="unknown_tool")
            arguments = validate_arguments(offer.tool, call.arguments)
            with bind_call(preview=call.bound, cwd=call.folder):
                return await offer.perform(arguments)
        except KakiteError as error:
            return to_error_result(error, names_code=offer is None or offer.names_codes)
