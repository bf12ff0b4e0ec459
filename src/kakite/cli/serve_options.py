"""Parses the options of ``kakite serve`` without the command line library.

That library is slow to load, so plain arguments are parsed here. Anything else, also every error, is left to
it. Tests check that both parse alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

TOOLS = "editor,files"
EDITOR_NAME = "text_editor"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """The options of the server. Each field is the option of its name."""

    root: tuple[str, ...] = ()
    """Empty: the folders are those of the client."""
    tools: str = TOOLS
    http: str | None = None
    read_only: bool = False
    editor_name: str = EDITOR_NAME
    split_editor: bool = False
    require_read: bool = False
    edit_format: str = "auto"
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny_write: tuple[str, ...] = ()
    allow_write: tuple[str, ...] = ()
    resources: bool = False
    landlock: bool | None = None
    """None: when it gets in nobody's way."""
    print_config: str | None = None


_REPEATED = frozenset({"root", "allow", "deny", "ask", "deny_write", "allow_write"})
_FLAGS: Mapping[str, tuple[str, bool]] = {
    "--read-only": ("read_only", True),
    "--split-editor": ("split_editor", True),
    "--require-read": ("require_read", True),
    "--resources": ("resources", True),
    "--landlock": ("landlock", True),
    "--no-landlock": ("landlock", False),
}
_FLAG_FIELDS = {name for name, _ in _FLAGS.values()}
_VALUES = {
    "--" + field.name.replace("_", "-"): field.name
    for field in fields(ServeOptions)
    if field.name not in _FLAG_FIELDS
}


def parse_without_typer(arguments: Sequence[str]) -> ServeOptions | None:
    """Return what plain arguments ask for, None if they are not plain or not right."""
    values: dict[str, object] = {}
    repeated: dict[str, list[str]] = {}
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        if word in _FLAGS:
            field, switched = _FLAGS[word]
            values[field] = switched
            continue
        taken = value if equals else next(words, "-")
        if name not in _VALUES or (not equals and taken.startswith("-")):
            return None
        field = _VALUES[name]
        if field in _REPEATED:
            repeated.setdefault(field, []).append(taken)
        else:
            values[field] = taken
    values.update({field: tuple(given) for field, given in repeated.items()})
    return ServeOptions(**values)  # pyright: ignore[reportArgumentType] - by the fields' own names
