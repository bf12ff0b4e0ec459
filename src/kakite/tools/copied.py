"""What stands before a line where a file is shown, copied into a text that is to be written. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kakite.tools.anchors import Anchor, mark_of
from kakite.tools.arguments import ToolError

_ANCHORED = re.compile(r"[ \t]*(?P<anchor>\d{1,9}:[a-z0-9]{3})│(?P<text>.*)", re.DOTALL)
_NUMBERED = re.compile(r"(?P<shown> {1,5}(?P<number>\d{1,5})\t)|(?P<listed>(?P<count>\d{1,9}) \| )")
_WIDTH = 7  # of a number as a view shows it, and its tab
_HINT = "nothing was done; send the lines as they are to stand in the file"


def check_no_anchors(text: str) -> None:
    """Refuse text whose lines begin with anchors, as a view shows them.

    Raises:
        ToolError: ``wrapped``.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    found = [_ANCHORED.fullmatch(line) for line in lines]
    anchors = [each and Anchor.parse(each["anchor"]) for each in found]
    is_own = any(
        anchor and each and mark_of(each["text"]) == anchor.mark
        for each, anchor in zip(found, anchors, strict=True)
    )
    if is_own or (lines and all(anchors)):
        raise ToolError("`text` has anchors before its lines", hint=_HINT, code="wrapped")


def check_no_numbers(text: str, around: Sequence[str]) -> None:
    """Refuse text whose lines all have the numbers that a view shows, unless those around do, too.

    Raises:
        ToolError: ``wrapped``.
    """
    lines = text.splitlines()
    numbers = [_number_of(line) for line in lines]
    first = numbers[0] if numbers else 0
    if not first or numbers != list(range(first, first + len(numbers))):
        return
    if any(_number_of(line) for line in around) or (len(lines) == 1 and not lines[0].startswith(" ")):
        return
    if " | " in lines[0] and any(" | " in line for line in around):
        return  # a table
    raise ToolError("all lines of the text have line numbers before them", hint=_HINT, code="wrapped")


def _number_of(line: str) -> int:
    """Return the number that a line was shown with; 0 if it has none."""
    found = _NUMBERED.match(line)
    if found is None or (found["shown"] and len(found["shown"]) != _WIDTH):
        return 0
    return int(found["number"] or found["count"])
