"""What models are told in words of ours: each part has its texts in ``prompts/``, a file for each."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.resources import files


def phrases(part: str, *, stripped: bool = False) -> Callable[[str], str]:
    """Return what gives the texts of a part, such as ``kakite.agent``, by their names.

    They are as their files have them, or ``stripped`` of the line end behind them.
    """

    @cache
    def prompt(name: str) -> str:
        text = (files(part) / "prompts" / f"{name}.md").read_text(encoding="utf-8")
        return text.strip() if stripped else text

    return prompt
