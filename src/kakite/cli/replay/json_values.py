"""Reads values of a stranger's JSON: a value of another kind is taken for none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

Json = dict[str, object]


def get_object(value: object, *names: str) -> Json:
    """Return the object below these names, or an empty one."""
    for name in names:
        value = cast("Json", value).get(name) if isinstance(value, dict) else None
    return cast("Json", value) if isinstance(value, dict) else {}


def iter_objects(value: object) -> Iterator[Json]:
    """Yield the objects in a list."""
    for each in cast("list[object]", value) if isinstance(value, list) else ():
        if isinstance(each, dict):
            yield cast("Json", each)


def get_text(value: Json, name: str) -> str:
    """Return a text, or an empty one."""
    found = value.get(name)
    return found if isinstance(found, str) else ""


def join_texts(content: object) -> str:
    """Return what a message says: its content is a text, or blocks with texts."""
    if isinstance(content, str):
        return content
    return "\n".join(get_text(block, "text") for block in iter_objects(content))
