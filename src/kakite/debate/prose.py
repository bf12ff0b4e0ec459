"""What a stranger wrote in Markdown, taken apart so that nothing of it is live but links to the web. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kakite.visible import visible

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_LANGUAGE = re.compile(r"[A-Za-z0-9+#-]{0,20}")


@cache
def markdown() -> MarkdownIt:
    """Return what reads and renders it: without HTML, pictures and entities, headings three levels lower.

    What does not show or turns the direction of writing is made visible.
    """
    from markdown_it import MarkdownIt

    made = MarkdownIt("commonmark", {"html": False}).enable("table").disable(["image", "entity"])
    made.core.ruler.push("harmless", lambda state: _make_harmless(state.tokens))
    return made


def host(target: str) -> str:
    """Return the host of an address of the web, nothing for any other."""
    try:
        parts = urlsplit(target)
    except ValueError:  # half an IPv6 address
        return ""
    return (parts.hostname or "") if parts.scheme in {"http", "https"} else ""


def _make_harmless(tokens: Sequence[Token]) -> None:
    for token in tokens:
        if token.type in {"heading_open", "heading_close"}:
            token.tag = f"h{min(int(token.tag[1]) + 3, 6)}"
        elif token.type == "fence":
            name = token.info.split(" ", 1)[0]
            token.info = name if _LANGUAGE.fullmatch(name) else ""
        token.content = visible(token.content)
        # The alignment of a table's cells is a style that a page's policy refuses.
        token.attrs = {name: value for name, value in token.attrs.items() if name == "start"}
        if token.children:
            token.children[:] = _without_odd_links(token.children)


def _without_odd_links(tokens: Sequence[Token]) -> list[Token]:
    """Return the parts of a line with what leads elsewhere than to the web told as text."""
    told: list[Token] = []
    targets: list[str] = []
    for token in tokens:
        token.content = visible(token.content)
        if token.type == "link_open":
            targets.append(visible(str(token.attrs.get("href", ""))))
            token.attrs = {"href": targets[-1]}
            if not host(targets[-1]):
                continue
        elif token.type == "link_close":
            target = targets.pop()
            if target and not host(target):
                told.append(replace(token, type="text", tag="", nesting=0, content=f" ({target})"))
            if not host(target):
                continue
        told.append(token)
    return told
