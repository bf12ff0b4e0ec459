"""The tools that a model sees."""

from kakite.tools.after_edit import AfterEditCommand, parse_after_edit_commands
from kakite.tools.arguments import ToolError
from kakite.tools.call_context import CallContext, ElicitationCallback, ProgressCallback, bind_call
from kakite.tools.editor.edit_formats import EditorOptions
from kakite.tools.function_toolset import FunctionTool, FunctionToolset
from kakite.tools.search.prefilter import find_ripgrep
from kakite.tools.shell.command_rules import CommandRules
from kakite.tools.toolset import Effect, JsonObject, Tool, ToolCall, ToolResult, Toolset
from kakite.tools.toolset_factory import DEFAULT_SETS, SETS, open_toolset

__all__ = [
    "DEFAULT_SETS",
    "SETS",
    "AfterEditCommand",
    "CallContext",
    "CommandRules",
    "EditorOptions",
    "Effect",
    "ElicitationCallback",
    "FunctionTool",
    "FunctionToolset",
    "JsonObject",
    "ProgressCallback",
    "Tool",
    "ToolCall",
    "ToolError",
    "ToolResult",
    "Toolset",
    "bind_call",
    "find_ripgrep",
    "open_toolset",
    "parse_after_edit_commands",
]
