"""Validates values against the JSON Schemas that servers send. A schema may be broken, or a trap."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping
from typing import Any, cast

import regex
from jsonschema import Draft202012Validator, SchemaError, ValidationError
from jsonschema.exceptions import best_match  # pyright: ignore[reportUnknownVariableType] - untyped library
from jsonschema.validators import extend, validator_for  # pyright: ignore[reportUnknownVariableType] - as above
from referencing import Registry
from referencing.exceptions import Unresolvable

from kakite.tools.toolset import JsonObject

_PATTERN_TIME = 0.2  # s; a stranger's expression must not stop the host
_MAX_VALUE_CHARS = 300  # characters of a value in a message
_BROKEN = (
    *(Unresolvable, re.error, regex.error, RecursionError),
    *(
        TypeError,
        ValueError,
        KeyError,
        AttributeError,
    ),  # what the library raises at a keyword of a wrong type
)


class Schema:
    """A compiled schema. Where it is broken it fits everything, and ``problem`` says why."""

    def __init__(self, schema: JsonObject) -> None:
        self.problem = ""
        self._validator: Any = None
        self._plainly: Callable[[Any], bool] = _never_matches
        try:
            kind: Any = validator_for(schema, default=Draft202012Validator)
            kind.check_schema(schema)
            # An empty registry: what a `$ref` names elsewhere is never fetched.
            registry: Any = Registry[Any]()
            self._validator = _add_pattern_timeout(kind)(schema, registry=registry)
            self._plainly = _compile_fast_check(schema)
        except (SchemaError, *_BROKEN) as error:
            self.problem = _get_first_line(error)

    def find_violation(self, value: Any) -> tuple[str, str]:
        """Return where the value does not fit and what was expected there; two empty texts when it fits."""
        if self._validator is None or self._plainly(value):
            return "", ""
        try:
            error = cast("ValidationError | None", best_match(self._validator.iter_errors(value)))
        except TimeoutError:
            self.problem = "an expression in it takes too long"
        except _BROKEN as broken:
            self.problem = _get_first_line(broken)
        else:
            return ("", "") if error is None else (_format_path(error), _truncate(error.message))
        return "", ""


def _never_matches(_value: Any) -> bool:
    return False


def _compile_fast_check(schema: JsonObject) -> Callable[[Any], bool]:
    """Return what tells of most values that surely fit a plain schema that they do; of others it says no.

    The library takes as long for one value as the rest of a call does.
    """
    properties: JsonObject = schema.get("properties", {})
    known = _OBJECT_KEYWORDS.issuperset(schema) and schema.get("type", "object") == "object"
    if not known or not all(map(_is_plain, properties.values())):
        return _never_matches
    kinds = {name: _KINDS[inner["type"]] for name, inner in properties.items()}
    choices: dict[str, list[str]] = {
        name: inner["enum"] for name, inner in properties.items() if "enum" in inner
    }
    required: list[str] = schema.get("required", [])

    def is_valid(value: Any) -> bool:
        if type(value) is not dict:
            return False
        given = cast("JsonObject", value)
        return (
            all(name in given for name in required)
            and all(name in kinds and type(each) in kinds[name] for name, each in given.items())
            and all(given[name] in choice for name, choice in choices.items() if name in given)
        )

    return is_valid


def _is_plain(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return False
    told = cast("JsonObject", schema)
    kind: Any = told.get("type")
    choices: list[Any] = told.get("enum", [])
    plain = isinstance(kind, str) and kind in _KINDS and _VALUE_KEYWORDS.issuperset(told)
    return plain and ("enum" not in told or (kind == "string" and all(type(each) is str for each in choices)))


_ANNOTATION_KEYWORDS = frozenset(("$comment", "default", "deprecated", "description", "examples", "title"))
_OBJECT_KEYWORDS = _ANNOTATION_KEYWORDS | {
    "$schema",
    "type",
    "properties",
    "required",
    "additionalProperties",
}
_VALUE_KEYWORDS = _ANNOTATION_KEYWORDS | {"type", "enum"}
_KINDS: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "object": (dict,),
    "array": (list,),
    "null": (type(None),),
}
"""By exact type: what Python thinks of ``True`` and ``1.0`` is left to the library."""


def apply_defaults(schema: JsonObject, value: JsonObject) -> JsonObject:
    """Return the object with the defaults of the properties that it lacks."""
    properties: dict[str, JsonObject] = schema.get("properties") or {}
    missing = {
        name: inner["default"]
        for name, inner in properties.items()
        if "default" in inner and name not in value
    }
    return {**value, **missing}


def _add_pattern_timeout(kind: Any) -> Any:
    """Return the validator with expressions that end in time."""
    make = cast("Callable[..., Any]", extend)
    return make(kind, {"pattern": _check_pattern, "patternProperties": _check_pattern_properties})


def _search_pattern(pattern: str, text: str) -> bool:
    return regex.search(pattern, text, timeout=_PATTERN_TIME) is not None


def _check_pattern(_validator: Any, pattern: str, value: Any, _schema: Any) -> Generator[ValidationError]:
    if isinstance(value, str) and not _search_pattern(pattern, value):
        yield ValidationError(f"{_truncate(repr(value))} does not match {_truncate(repr(pattern))}")


def _check_pattern_properties(
    validator: Any, patterns: dict[str, Any], value: Any, _schema: Any
) -> Generator[ValidationError]:
    if not isinstance(value, dict):
        return
    for pattern, inner in patterns.items():
        for name, held in cast("JsonObject", value).items():
            if _search_pattern(pattern, name):
                yield from validator.descend(held, inner, path=name, schema_path=pattern)


def _format_path(error: ValidationError) -> str:
    parts = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path)
    return _truncate(parts.removeprefix("."))


def _truncate(text: str) -> str:
    return text if len(text) <= _MAX_VALUE_CHARS else f"{text[:_MAX_VALUE_CHARS]}…"


def _get_first_line(error: BaseException) -> str:
    return _truncate((str(error) or type(error).__name__).partition("\n")[0])
