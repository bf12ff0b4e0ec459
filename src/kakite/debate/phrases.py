"""What the sides of a debate are told in words of ours: a file for each."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


def prompt(name: str) -> str:
    """Return the text of ``prompts/NAME.md``."""
    return _prompts()[name]


@cache
def _prompts() -> dict[str, str]:
    folder = files("kakite.debate") / "prompts"
    return {
        entry.name.removesuffix(".md"): entry.read_text(encoding="utf-8").strip()
        for entry in folder.iterdir()
        if entry.name.endswith(".md")
    }
