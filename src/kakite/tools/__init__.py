"""The tools that a model sees."""

from kakite.tools.arguments import ToolError
from kakite.tools.offers import Offer, Offers
from kakite.tools.sets import open_toolset
from kakite.tools.toolset import Effect, JsonObject, Tool, ToolCall, ToolResult, Toolset

__all__ = [
    "Effect",
    "JsonObject",
    "Offer",
    "Offers",
    "Tool",
    "ToolCall",
    "ToolError",
    "ToolResult",
    "Toolset",
    "open_toolset",
]
