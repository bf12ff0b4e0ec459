"""Checking a call's arguments against its tool's schema, with an answer that a model can act on."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, cast

from kakite.errors import KakiteError
from kakite.tools.toolset import JsonObject, Tool, ToolResult
from kakite.workspace import WorkspaceError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jsonschema.exceptions import ValidationError

_FAILURE_SHOWN = 30_000  # characters of a failure, and of its hint: they quote paths and files
_SHOWN = 300  # characters of what a schema says; it quotes the argument


class ToolError(KakiteError):
    """The model asked wrongly: an unknown tool, or arguments that make no sense.

    Codes: ``unknown_tool``, ``bad_arguments``.
    """

    code = "bad_arguments"


def checked(tool: Tool, arguments: JsonObject) -> JsonObject:
    """Return the arguments as the tool takes them, before anything is done with them.

    An optional argument that is null counts as left out, and 1.0 as 1: models write both.

    Raises:
        ToolError: they do not fit; the message names the argument and the nearest known name.
    """
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match  # pyright: ignore[reportUnknownVariableType] - untyped library

    required: list[str] = tool.parameters.get("required", [])
    given = {
        name: _whole_numbers(value)
        for name, value in arguments.items()
        if value is not None or name in required or name not in tool.parameters.get("properties", {})
    }
    errors = list(Draft202012Validator(tool.parameters).iter_errors(given))  # pyright: ignore[reportUnknownMemberType] - untyped library
    unknown = (error for error in errors if error.validator == "additionalProperties")
    if errors:  # a misspelt name first: what seems to be missing is often there under it
        raise _misfit(tool, next(unknown, None) or cast("ValidationError", best_match(errors)))
    return given


def failed(error: KakiteError, *, names_code: bool = True) -> ToolResult:
    """Return the error as the result that a model sees. The only place where one becomes the other."""
    hint = f"\nhint: {error.hint}" if error.hint else ""
    if isinstance(error, WorkspaceError) and error.diff:
        hint += f"\nversion now: {error.version[:16] or 'no file'}; what changed since:\n{error.diff}"
    code = f" ({error.code})" if names_code else ""
    text = f"Error{code}: {_cut(error.message, _FAILURE_SHOWN)}{_cut(hint, _FAILURE_SHOWN)}"
    return ToolResult(text=text, is_error=True, code=error.code)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint that names what was probably meant."""
    names = list(known)
    near = difflib.get_close_matches(name[:_SHOWN], names, n=1)
    return f"did you mean `{near[0]}`?" if near else f"known are {', '.join(names)}"


def _misfit(tool: Tool, error: ValidationError) -> ToolError:
    where = "".join(f"`{part}`: " for part in error.absolute_path)
    schema = cast("JsonObject", error.schema)
    known: JsonObject = schema.get("properties", {})
    if error.validator == "additionalProperties":
        instance = cast("JsonObject", error.instance)
        name = next(name for name in instance if name not in known)
        return ToolError(f"{where}`{tool.name}` has no argument `{name[:_SHOWN]}`", hint=nearest(name, known))
    hint = f"`{tool.name}` takes {', '.join(tool.parameters['properties'])}"
    return ToolError(f"{where}{_cut(error.message, _SHOWN)}", hint=hint)


def _whole_numbers(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_whole_numbers(each) for each in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {name: _whole_numbers(each) for name, each in cast("JsonObject", value).items()}
    return value
