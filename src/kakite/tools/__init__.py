"""The tools that a model sees."""

from kakite.tools.after_edit import AfterEdit, read_commands
from kakite.tools.arguments import ToolError
from kakite.tools.asking import Asker, asking_by
from kakite.tools.edit_formats import EditorOptions
from kakite.tools.offers import Offer, Offers
from kakite.tools.progress import Progress, reporting_to
from kakite.tools.ripgrep import find_ripgrep
from kakite.tools.rules import CommandRules
from kakite.tools.scope import in_session
from kakite.tools.sets import DEFAULT_SETS, SETS, open_toolset
from kakite.tools.toolset import Effect, JsonObject, Tool, ToolCall, ToolResult, Toolset

__all__ = [
    "DEFAULT_SETS",
    "SETS",
    "AfterEdit",
    "Asker",
    "CommandRules",
    "EditorOptions",
    "Effect",
    "JsonObject",
    "Offer",
    "Offers",
    "Progress",
    "Tool",
    "ToolCall",
    "ToolError",
    "ToolResult",
    "Toolset",
    "asking_by",
    "find_ripgrep",
    "in_session",
    "open_toolset",
    "read_commands",
    "reporting_to",
]
