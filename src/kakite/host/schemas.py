"""Values against the JSON Schemas that servers send. They are a stranger's: broken perhaps, or a trap."""

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
_SHOWN = 300  # characters of a value in a message
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
        self._plainly: Callable[[Any], bool] = _never
        try:
            kind: Any = validator_for(schema, default=Draft202012Validator)
            kind.check_schema(schema)
            # An empty registry: what a `$ref` names elsewhere is never fetched.
            registry: Any = Registry[Any]()
            self._validator = _careful(kind)(schema, registry=registry)
            self._plainly = _plain_fit(schema)
        except (SchemaError, *_BROKEN) as error:
            self.problem = _first_line(error)

    def misfit(self, value: Any) -> tuple[str, str]:
        """Return where the value does not fit and what was expected there; two empty texts when it fits."""
        if self._validator is None or self._plainly(value):
            return "", ""
        try:
            error = cast("ValidationError | None", best_match(self._validator.iter_errors(value)))
        except TimeoutError:
            self.problem = "an expression in it takes too long"
        except _BROKEN as broken:
            self.problem = _first_line(broken)
        else:
            return ("", "") if error is None else (_path(error), _cut(error.message))
        return "", ""


def _never(_value: Any) -> bool:
    return False


def _plain_fit(schema: JsonObject) -> Callable[[Any], bool]:
    """Return what tells of most values that surely fit a plain schema that they do; of others it says no.

    The library takes as long for one value as the rest of a call does.
    """
    properties: JsonObject = schema.get("properties", {})
    known = _OF_OBJECTS.issuperset(schema) and schema.get("type", "object") == "object"
    if not known or not all(map(_is_plain, properties.values())):
        return _never
    kinds = {name: _KINDS[inner["type"]] for name, inner in properties.items()}
    choices: dict[str, list[str]] = {
        name: inner["enum"] for name, inner in properties.items() if "enum" in inner
    }
    required: list[str] = schema.get("required", [])

    def fits(value: Any) -> bool:
        if type(value) is not dict:
            return False
        given = cast("JsonObject", value)
        return (
            all(name in given for name in required)
            and all(name in kinds and type(each) in kinds[name] for name, each in given.items())
            and all(given[name] in choice for name, choice in choices.items() if name in given)
        )

    return fits


def _is_plain(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return False
    told = cast("JsonObject", schema)
    kind: Any = told.get("type")
    choices: list[Any] = told.get("enum", [])
    plain = isinstance(kind, str) and kind in _KINDS and _OF_VALUES.issuperset(told)
    return plain and ("enum" not in told or (kind == "string" and all(type(each) is str for each in choices)))


_SILENT = frozenset(("$comment", "default", "deprecated", "description", "examples", "title"))
_OF_OBJECTS = _SILENT | {"$schema", "type", "properties", "required", "additionalProperties"}
_OF_VALUES = _SILENT | {"type", "enum"}
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


def with_defaults(schema: JsonObject, value: JsonObject) -> JsonObject:
    """Return the object with the defaults of the properties that it lacks."""
    properties: dict[str, JsonObject] = schema.get("properties") or {}
    missing = {
        name: inner["default"]
        for name, inner in properties.items()
        if "default" in inner and name not in value
    }
    return {**value, **missing}


def _careful(kind: Any) -> Any:
    """Return the validator with expressions that end in time."""
    make = cast("Callable[..., Any]", extend)
    return make(kind, {"pattern": _pattern, "patternProperties": _pattern_properties})


def _found(pattern: str, text: str) -> bool:
    return regex.search(pattern, text, timeout=_PATTERN_TIME) is not None


def _pattern(_validator: Any, pattern: str, value: Any, _schema: Any) -> Generator[ValidationError]:
    if isinstance(value, str) and not _found(pattern, value):
        yield ValidationError(f"{_cut(repr(value))} does not match {_cut(repr(pattern))}")


def _pattern_properties(
    validator: Any, patterns: dict[str, Any], value: Any, _schema: Any
) -> Generator[ValidationError]:
    if not isinstance(value, dict):
        return
    for pattern, inner in patterns.items():
        for name, held in cast("JsonObject", value).items():
            if _found(pattern, name):
                yield from validator.descend(held, inner, path=name, schema_path=pattern)


def _path(error: ValidationError) -> str:
    parts = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path)
    return _cut(parts.removeprefix("."))


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _first_line(error: BaseException) -> str:
    return _cut((str(error) or type(error).__name__).partition("\n")[0])
