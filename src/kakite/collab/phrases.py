"""What the model is told. The texts lie in ``prompts/``, one file for each."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def prompt(name: str) -> str:
    """Return the text of ``prompts/NAME.md``."""
    return (files("kakite.collab") / "prompts" / f"{name}.md").read_text(encoding="utf-8").strip()
