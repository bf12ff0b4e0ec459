"""Reads what a command has printed out of an answer, as a model would."""

from __future__ import annotations

from typing import Any

from kakite.tools import ToolResult


def read_answer(result: ToolResult) -> dict[str, Any]:
    """Return the details, and both streams without the line end at their ends."""
    assert not result.is_error, result.text
    hint = result.text.partition("\nhint: ")[2]
    printed = result.text.partition("\n")[2].removesuffix(f"hint: {hint}" if hint else "").removesuffix("\n")
    out, mark, err = printed.rpartition("stderr:\n")
    streams = {"stdout": out.removesuffix("\n"), "stderr": err} if mark else {"stdout": err, "stderr": ""}
    return {**result.details, **streams, **({"hint": hint} if hint else {})}
