"""Checking a call's arguments against its tool's schema, with an answer that a model can act on."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from kakite.errors import KakiteError
from kakite.tools.toolset import JsonObject, Tool, ToolResult

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError


class ToolError(KakiteError):
    """The model asked wrongly: an unknown tool, or arguments that make no sense.

    Codes: ``unknown_tool``, ``bad_arguments``.
    """

    code = "bad_arguments"


def check_arguments(tool: Tool, arguments: JsonObject) -> None:
    """Check arguments before anything is done with them.

    Raises:
        ToolError: they do not fit; the message names the argument and the nearest known name.
    """
    from jsonschema import Draft202012Validator

    known: JsonObject = tool.parameters.get("properties", {})
    for name in arguments:
        if name not in known:
            raise ToolError(f"`{tool.name}` has no argument `{name}`", hint=_nearest(name, list(known)))
    error: ValidationError | None = next(Draft202012Validator(tool.parameters).iter_errors(arguments), None)  # pyright: ignore[reportUnknownMemberType] - untyped library
    if error is not None:
        where = "".join(f"`{part}`: " for part in error.absolute_path)
        raise ToolError(f"{where}{error.message}", hint=f"`{tool.name}` takes {', '.join(known)}")


def failed(error: KakiteError) -> ToolResult:
    """Return the error as the result that a model sees. The only place where one becomes the other."""
    hint = f"\nhint: {error.hint}" if error.hint else ""
    return ToolResult(text=f"Error ({error.code}): {error.message}{hint}", is_error=True, code=error.code)


def _nearest(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean `{near[0]}`?" if near else f"known are {', '.join(known)}"
