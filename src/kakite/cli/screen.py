"""Text from elsewhere on a person's screen. Imports nothing heavy: errors are told with it."""

from __future__ import annotations

import re

# What moves a cursor, turns the direction of writing, or is not seen at all; newlines and tabs are fine.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0e\uffa0"
    "\ud800-\udfff\U000e0000-\U000e0fff]"
)


def visible(text: str) -> str:
    r"""Return the text with control, direction and unseen characters as ``\u202e``: it cannot lie.

    They are written as JSON would, so that JSON stays what it is.
    """
    return _UNSEEN.sub(lambda found: _escaped(found[0]), text)


def visible_name(text: str) -> str:
    r"""Return the text like ``visible``, on one line: newlines and tabs are shown as ``\n`` and ``\t``."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def print_json(value: object) -> None:
    """Print a value as one line of JSON that no terminal obeys."""
    import json

    import typer

    typer.echo(visible(json.dumps(value, ensure_ascii=False)))


def _escaped(character: str) -> str:
    code = ord(character)
    if code <= 0xFFFF:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
