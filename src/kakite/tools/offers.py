"""A toolset made of functions."""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from kakite.errors import KakiteError
from kakite.tools.arguments import ToolError, check_arguments, failed
from kakite.tools.toolset import JsonObject, Tool, ToolCall, ToolResult


@dataclass(frozen=True, slots=True)
class Offer:
    """A tool and the function that performs it. The function may raise KakiteError."""

    tool: Tool
    perform: Callable[[JsonObject], Awaitable[ToolResult]]


class Offers:
    """The Toolset of these offers. Names must differ."""

    def __init__(self, *offers: Offer) -> None:
        self._offers = {offer.tool.name: offer for offer in offers}

    async def tools(self) -> tuple[Tool, ...]:
        """Return the tools in the order in which they were offered."""
        return tuple(offer.tool for offer in self._offers.values())

    async def call(self, call: ToolCall) -> ToolResult:
        """Check the arguments and perform the call; what the model did wrong becomes an error result."""
        try:
            offer = self._find(call.name)
            check_arguments(offer.tool, call.arguments)
            return await offer.perform(call.arguments)
        except KakiteError as error:
            return failed(error)

    def _find(self, name: str) -> Offer:
        if name in self._offers:
            return self._offers[name]
        near = difflib.get_close_matches(name, list(self._offers), n=1)
        known = ", ".join(self._offers)
        hint = f"did you mean `{near[0]}`?" if near else f"known are {known}"
        raise ToolError(f"there is no tool `{name}`", hint=hint, code="unknown_tool")
