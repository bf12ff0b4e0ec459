"""Reads the hunks of a unified diff that a client wrote into its transcript."""

from __future__ import annotations

import re

_HEAD = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+\d+(?:,\d+)? @@")


def read_hunks(diff: str) -> list[tuple[int, list[str]]] | None:
    """Return each hunk's first line (1-based) and its lines; None if there is something else."""
    hunks: list[tuple[int, list[str]]] = []
    for line in diff.removesuffix("\n").split("\n"):
        if head := _HEAD.match(line):
            # A hunk that takes no line begins behind the line that it names.
            hunks.append((int(head[1]) + (head[2] == "0"), []))
        elif hunks:
            hunks[-1][1].append(line)
    return hunks or None
