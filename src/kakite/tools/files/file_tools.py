"""Shares the argument schemas and the error texts of the seven file tools."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar, cast

from kakite.errors import KakiteError
from kakite.tools.arguments import ToolError, collect_paths
from kakite.tools.edit_plan import EditPlan, apply_plan
from kakite.tools.function_toolset import FunctionTool
from kakite.tools.scope import Scope
from kakite.tools.toolset import JsonObject, Tool, ToolResult
from kakite.tools.worker_threads import wrap_in_thread
from kakite.workspace import Author, WorkspaceError

T = TypeVar("T")

PREVIEW: JsonObject = {"type": "boolean", "description": "only show the diff"}
MAX_FILES = 200  # in one call


def build_one_or_more_schema(kind: str) -> JsonObject:
    """Return the schema of a value, or a list of such values."""
    return {
        "anyOf": [
            {"type": kind},
            {"type": "array", "items": {"type": kind}, "minItems": 1, "maxItems": MAX_FILES},
        ]
    }


def build_parameters(properties: JsonObject, *required: str) -> JsonObject:
    """Return the schema of a tool's arguments."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def create_file_tool(tool: Tool, perform: Callable[[JsonObject], Awaitable[ToolResult]]) -> FunctionTool:
    """Return the offer of one of the file tools: its failures begin `Error: `."""
    return FunctionTool(tool, perform, names_codes=False)


def create_writing_file_tool(
    tool: Tool, scope: Scope, run: str, planning: Callable[[Scope, JsonObject], EditPlan]
) -> FunctionTool:
    """Return the offer of one of the file tools that write: what it plans is carried out, or only shown."""

    def perform(arguments: JsonObject) -> ToolResult:
        plan = partial(planning, scope, arguments)
        by = Author(tool=tool.name, run=run)
        with translate_path_errors("File"):
            preview = arguments.get("preview", False)
            return apply_plan(scope, plan, paths=collect_paths(arguments), by=by, preview=preview)

    return create_file_tool(tool, wrap_in_thread(perform, scope.turns))


def spread(name: str, value: T | list[T], count: int) -> list[T]:
    """Return one value for each of ``count`` paths: the same for all, or those of the list.

    Raises:
        ToolError: the list has another length.
    """
    if not isinstance(value, list):
        return [value] * count
    values = cast("list[T]", value)
    if len(values) != count:
        raise ToolError(
            f"Path count ({count}) doesn't match {name} count ({len(values)})",
            hint=f"give one `{name}` for each path, or a single one for all",
        )
    return values


def as_list(value: Any) -> list[Any]:
    """Return a value, or a list of values, as a list."""
    return value if isinstance(value, list) else [value]  # pyright: ignore[reportUnknownVariableType] - checked by the schema


_PATH_ERRORS = {
    "file_not_found": "{kind} not found: {path}",
    "path_escapes": "Access denied: Path is outside the workspace boundary: {path}",
    "not_a_directory": "Not a directory: {path}",
    "is_a_directory": "Path is a directory: {path}",
}


@contextmanager
def translate_path_errors(kind: str) -> Generator[None]:
    """Say what went wrong with a path in the words of the file tools. ``kind`` is what was looked for."""
    try:
        yield
    except WorkspaceError as error:
        said = _PATH_ERRORS.get(error.code)
        if said is not None:
            error.message = said.format(kind=kind, path=error.path)
            error.hint = ""
        raise


def refuse_batch(lines: list[str], errors: list[KakiteError], total: int) -> ToolError:
    """Return the refusal of a batch over files: nothing is changed when one of them fails."""
    head = f"{len(errors)}/{total} file(s) would fail. No changes applied."
    return ToolError("\n".join([head, "", *lines]), code=errors[0].code)
