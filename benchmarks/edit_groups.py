"""The groups of edits of the drift benchmark, in the order in which pages tell them, and their names."""

from __future__ import annotations

TITLES = {
    "recorded": "edits that models sent, recorded",
    "history": "edits of git histories",
    "exact": "exact fragments of real files",
    "one line": "lines that commits added beside one line",
    "history drift": "edits of histories that drifted",
    "relative": "new lines relative to the first",
    "blocks": "fragments sent as SEARCH/REPLACE blocks",
    "stale": "lines that changed since",
    "there already": "edits that are there already",
    "twins": "places that look alike",
    "all": "every occurrence",
    "placeholders": "comments in the place of code",
    "honest comments": "comments that only look so",
    "reformatted": "the same code in another layout",
    "literals": "new text with a layout of its own",
    "line ends": "line ends and blanks at the edges",
    "drift": "text that drifted in many ways",
}
REAL = ("recorded", "history", "exact")
"""Edits, or files and fragments, that nobody made for this benchmark; all others are of our own making."""
WEIGHTS = {"history": 3, "exact": 3, "blocks": 3, "drift": 2}
"""How many times as many edits as the others a group gets; recorded ones are all taken."""
ONLY_OURS = {"all", "blocks", "equal_places_and_the_line", "duplicate_with_its_line"}
"""Groups and kinds that ask for every occurrence, name a line or send blocks, which not all peers take: not
compared."""
BASELINE = "one exact occurrence, or nothing"
SHORT = {
    BASELINE: "exact match (baseline)",
    "aider, SEARCH/REPLACE": "aider",
    "OpenHands' editor, str_replace": "OpenHands",
    "MCP server-filesystem, edit_file": "server-filesystem",
    "gemini-cli, replace": "gemini-cli",
    "pi, edit": "pi",
    "codex, apply_patch": "codex",
}
"""Engines as the heads of columns name them."""


def short(engine: str) -> str:
    return SHORT.get(engine, engine)
