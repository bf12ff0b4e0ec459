"""Loads prompt texts from the ``prompts/`` folder of a package, one file for each text."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.resources import files


def make_prompt_loader(part: str, *, stripped: bool = False) -> Callable[[str], str]:
    """Return what gives the texts of a part, such as ``kakite.agent``, by their names.

    They are as their files have them, or ``stripped`` of the line end behind them.
    """

    @cache
    def load_prompt(name: str) -> str:
        text = (files(part) / "prompts" / f"{name}.md").read_text(encoding="utf-8")
        return text.strip() if stripped else text

    return load_prompt
