"""What ``kakite serve`` does, and the short way to it: a server starts with every session of a client.

The command line library is slow to load, so plain arguments are read here; whatever is not plain, also all
that is wrong, is left to it. That both read alike is a law in the tests.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields

from kakite.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """What to serve, and how. Each field is the option of its name."""

    root: tuple[str, ...]
    tools: str = "editor,files"
    http: str | None = None
    read_only: bool = False
    editor_name: str = "text_editor"
    split_editor: bool = False
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    resources: bool = False
    landlock: bool | None = None
    """None: when it gets in nobody's way."""
    print_config: str | None = None


_REPEATED = frozenset({"root", "allow", "deny"})
_FLAGS: Mapping[str, tuple[str, bool]] = {
    "--read-only": ("read_only", True),
    "--split-editor": ("split_editor", True),
    "--resources": ("resources", True),
    "--landlock": ("landlock", True),
    "--no-landlock": ("landlock", False),
}
_SWITCHED = {name for name, _ in _FLAGS.values()}
_VALUES = {
    "--" + field.name.replace("_", "-"): field.name for field in fields(Serving) if field.name not in _SWITCHED
}
_NEEDED = {field.name for field in fields(Serving) if field.default is MISSING}


def plain_serving(arguments: Sequence[str]) -> Serving | None:
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
    return Serving(**values) if values.keys() >= _NEEDED else None  # pyright: ignore[reportArgumentType] - by the fields' own names


def serve_plainly(arguments: Sequence[str]) -> bool:
    """Serve if these arguments of ``kakite`` plainly ask for it; tell whether they did."""
    if list(arguments[:1]) != ["serve"]:
        return False
    serving = plain_serving(arguments[1:])
    if serving is None:
        return False
    from kakite.cli.ending import guarded

    guarded(lambda: serve(serving))
    return True


def serve(serving: Serving) -> None:
    """Serve until the client leaves or a signal comes.

    Raises:
        UsageError: there is no such set of tools, client or address.
        WorkspaceError: a root cannot be opened.
    """
    if serving.print_config is not None:
        from kakite.cli.client_setup import setup_text

        sys.stdout.write(setup_text(serving.print_config, serving))
        return
    import gc

    gc.disable()  # half a million objects that stay are about to be made
    try:
        run = _prepared(serving)
    finally:
        gc.enable()
        gc.freeze()
    run()
