"""Checks a call's arguments against its tool's schema, with errors that a model can act on."""

from __future__ import annotations

import difflib
import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from kakite.errors import KakiteError
from kakite.tools.toolset import JsonObject, Tool, ToolResult
from kakite.workspace import WorkspaceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jsonschema.exceptions import ValidationError

_FAILURE_SHOWN = 30_000  # characters of a failure, and of its hint: they quote paths and files
_ALIKE = (
    ("path", "file", "files", "filename", "file_name", "filepath", "folder", "directory", "dir", "cwd"),
    ("file_text", "content", "contents", "text", "body", "data", "insert_text"),
    (
        *("query", "search", "pattern", "regex", "find", "needle", "search_content"),
        *("old_str", "old_text", "old_string", "oldText"),
    ),
    ("replace", "replacement", "replace_content", "new_str", "new_text", "new_string", "newText", "with"),
    ("replace_all", "all", "replaceAll", "global"),
    ("start_line", "line", "line_number", "insert_line"),
    ("view_range", "line_range", "range", "lines"),
)
"""Names under which tools everywhere take the same."""
_NUMBER = re.compile(r"[+-]?[0-9]{1,18}")
_SHOWN = 300  # characters of what a schema says; it quotes the argument


class ToolError(KakiteError):
    """The model asked wrongly: an unknown tool, or arguments that make no sense.

    Codes: ``unknown_tool``, ``bad_arguments``.
    """

    code = "bad_arguments"


def validate_arguments(tool: Tool, arguments: JsonObject) -> JsonObject:
    """Return the arguments as the tool takes them, before anything is done with them.

    An optional argument that is null counts as left out, 1.0 and "1" as 1, "true" as true, a list written as
    text as the list, and a text where only a list of texts is taken as a list of one: models write all of
    them.

    Raises:
        ToolError: they do not fit; the message names the argument and the nearest known name.
    """
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match  # pyright: ignore[reportUnknownVariableType] - untyped library

    required: list[str] = tool.parameters.get("required", [])
    properties: JsonObject = tool.parameters.get("properties", {})
    given = {
        name: _coerce_types(
            _drop_nulls(_coerce_list(value, properties.get(name, {}))), properties.get(name, {})
        )
        for name, value in arguments.items()
        if value is not None or name in required or name not in properties
    }
    errors = list(Draft202012Validator(tool.parameters).iter_errors(given))  # pyright: ignore[reportUnknownMemberType] - untyped library
    unknown = (error for error in errors if error.validator == "additionalProperties")
    if errors:  # a misspelt name first: what seems to be missing is often there under it
        raise _to_tool_error(tool, next(unknown, None) or cast("ValidationError", best_match(errors)))
    return given


def collect_paths(arguments: JsonObject) -> list[str]:
    """Return the paths that a call names, as it writes them: its own, and those of its edits."""
    named: list[Any] = [arguments.get(name) for name in ("path", "source", "destination")]
    named += [each.get("path") for each in arguments.get("edits", ())]
    listed = [cast("list[Any]", each) if isinstance(each, list) else [each] for each in named]
    return [path for paths in listed for path in paths if isinstance(path, str)]


def to_error_result(error: KakiteError, *, names_code: bool = True) -> ToolResult:
    """Return the error as the result that a model sees. The only place where one becomes the other."""
    hint = f"\nhint: {error.hint}" if error.hint else ""
    if isinstance(error, WorkspaceError) and error.diff:
        hint += f"\nversion now: {error.version[:16] or 'no file'}; what changed since:\n{error.diff}"
    code = f" ({error.code})" if names_code else ""
    text = f"Error{code}: {_cut(error.message, _FAILURE_SHOWN)}{_cut(hint, _FAILURE_SHOWN)}"
    return ToolResult(text=text, is_error=True, code=error.code)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def suggest_name(name: str, known: Iterable[str], *, none: str = "there is none at all") -> str:
    """Return a hint that names what was probably meant: what is elsewhere called so, or spelt like it.

    ``none`` is said where nothing is known.
    """
    names = list(known)
    if not names:
        return none
    alike = [each for group in _ALIKE if name in group for each in group if each in names]
    near = alike or difflib.get_close_matches(name[:_SHOWN], names, n=1)
    return f"did you mean `{near[0]}`?" if near else f"use one of {', '.join(names)}"


def _to_tool_error(tool: Tool, error: ValidationError) -> ToolError:
    where = "".join(f"`{part}`: " for part in error.absolute_path)
    schema = cast("JsonObject", error.schema)
    known: JsonObject = schema.get("properties", {})
    if error.validator == "additionalProperties":
        instance = cast("JsonObject", error.instance)
        name = next(name for name in instance if name not in known)
        return ToolError(
            f"{where}`{tool.name}` has no argument `{name[:_SHOWN]}`", hint=suggest_name(name, known)
        )
    if error.validator == "pattern":
        told = f"{where}{_cut(repr(error.instance), _SHOWN)} does not have the required format"
        return ToolError(told, hint=str(schema.get("description", "")))
    hint = f"`{tool.name}` takes {', '.join(tool.parameters['properties'])}"
    if error.validator == "anyOf":
        kinds = " or ".join(_KINDS.get(kind, kind) for kind in _list_types(schema))
        return ToolError(f"{where}{_cut(repr(error.instance), _SHOWN)} is not {kinds}", hint=hint)
    return ToolError(f"{where}{_cut(error.message, _SHOWN)}", hint=hint)


def _coerce_list(value: Any, schema: JsonObject) -> Any:
    """Return a list that was written as text as what it says, and a text as a list of one if it can be."""
    if schema.get("type") != "array" or not isinstance(value, str):
        return value
    texts = schema.get("items", {}).get("type") == "string"
    if value.lstrip().startswith("["):
        with suppress(ValueError, RecursionError):
            found: Any = json.loads(value)
            if isinstance(found, list) and not (texts and _has_non_strings(cast("list[Any]", found))):
                return cast("list[Any]", found)
    return [value] if texts else value


_KINDS = {
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "string": "a text",
    "object": "an object",
}


def _list_types(schema: JsonObject) -> list[str]:
    """Return the kinds of values that a schema takes."""
    each: list[JsonObject] = [schema, *schema.get("anyOf", ())]
    return [one["type"] for one in each if isinstance(one.get("type"), str)]


def _coerce_types(value: Any, schema: JsonObject) -> Any:
    """Return a value as the schema has it: 1 for 1.0, and numbers and booleans for texts that say them."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    kinds = _list_types(schema)
    if isinstance(value, str):
        return value if "string" in kinds else _coerce_text(value, kinds)
    if isinstance(value, list):
        lists = (each for each in (schema, *schema.get("anyOf", ())) if each.get("type") == "array")
        first: JsonObject = next(lists, cast("JsonObject", {}))
        items: JsonObject = first.get("items", {})
        return [_coerce_types(each, items) for each in cast("list[Any]", value)]
    if isinstance(value, dict):
        known: JsonObject = schema.get("properties", {})
        return {
            name: _coerce_types(each, known.get(name, {})) for name, each in cast("JsonObject", value).items()
        }
    return value


def _coerce_text(text: str, kinds: Sequence[str]) -> Any:
    plain = text.strip().lower()
    if "boolean" in kinds and plain in {"true", "false"}:
        return plain == "true"
    if "integer" in kinds and _NUMBER.fullmatch(plain):
        return int(plain)
    return text


def _drop_nulls(value: Any) -> Any:
    """Return a list of objects without what is null in these; a required one is then missing."""
    if not isinstance(value, list):
        return value
    return [
        {name: inner for name, inner in cast("JsonObject", each).items() if inner is not None}
        if isinstance(each, dict)
        else each
        for each in cast("list[Any]", value)
    ]


def _has_non_strings(values: list[Any]) -> bool:
    return not values or not all(isinstance(each, str) for each in values)
