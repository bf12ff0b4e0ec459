"""Cuts Markdown that streams in into blocks that can be shown, each as soon as it is whole. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s|\s{2,}\S")


@dataclass(slots=True)
class MarkdownStream:
    """The text that has come and is not shown yet."""

    pending: str = ""

    def feed(self, text: str) -> list[str]:
        """Add text, and return the blocks that are whole now: nothing that comes can change how they look."""
        self.pending += text
        blocks: list[str] = []
        while (end := _find_block_end(self.pending)) is not None:
            block, self.pending = self.pending[:end], self.pending[end:]
            if block.strip():
                blocks.append(block.strip("\n"))
        return blocks

    def flush(self) -> str:
        """Return the rest, when no more text comes."""
        rest, self.pending = self.pending, ""
        return rest.strip("\n")


def _find_block_end(text: str) -> int | None:
    """Return where the first block ends: at a blank line outside of code and of a list; None: nowhere yet."""
    at, fence, in_list = 0, "", False
    lines = text.split("\n")
    for number, line in enumerate(lines[:-1]):
        at += len(line) + 1
        if fence:
            if line.strip().startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
                if not in_list:
                    return at
            continue
        if opened := _FENCE.match(line):
            fence = opened[1]
        in_list = in_list or _ITEM.match(line) is not None
        if not line.strip() and text[:at].strip() and not _goes_on(lines[number + 1 :], in_list=in_list):
            return at
    return None


def _goes_on(after: list[str], *, in_list: bool) -> bool:
    """Return whether what follows a blank line may belong to the block before it."""
    if not in_list:
        return False
    # A list goes on with another item or an indented line; a line that is not whole yet may become one.
    following = next((line for line in after[:-1] if line.strip()), None)
    return following is None or _ITEM.match(following) is not None
