"""Chooses how a model edits: by quoted text, by line anchors, or by patches; with the editor's options."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal, get_args

from kakite.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

EDITOR_NAME = "text_editor"

EditFormat = Literal["quote", "anchors", "patch"]
"""``quote``: the text to replace is quoted. ``anchors``: lines are named by number and a few letters of their
content. ``patch``: the envelope that codex writes."""
FORMATS: tuple[EditFormat, ...] = get_args(EditFormat)

_BY_MODEL: tuple[tuple[str, EditFormat], ...] = (
    # The first that fits. What is published on each (November 2026); whoever is not named quotes: of current
    # models 95 to 99 % of quoted edits are well formed, and quotes need no other view of a file.
    # oh-my-pi 18.3 switches anchored lines off for these, after reports (can1357/oh-my-pi 3772, 6671).
    ("*kimi*", "quote"),
    ("*mimo*", "quote"),
    ("*minimax*", "quote"),
    ("*deepseek*", "quote"),
    ("*step-*", "quote"),
    ("*glm-*flash*", "quote"),
    # "The harness problem" (February 2026, 16 models): 6.7 % right with its own format, 68.3 % with anchors.
    ("*grok-code*", "anchors"),
    # First edits by quote fail 30 to 50 % of the time (anthropics/claude-code 60894); by anchors 82.5 % of
    # GLM-5.2's land (can1357/oh-my-pi 3772); 46.2 % of GLM-4.7's patches fail.
    ("*glm-4.[6-9]*", "anchors"),
    ("*glm-5*", "anchors"),
    # Trained on it: codex, Copilot CLI and opencode give these models this format and no other.
    ("*codex*", "patch"),
    ("*gpt-5*", "patch"),
)


def choose_format(model: str) -> EditFormat:
    """Return how a model edits best, as far as that is known; ``model`` may name its provider, too."""
    name = model.lower()
    for glob, known in _BY_MODEL:
        if fnmatchcase(name, glob):
            return known
    return "quote"


def resolve_format(said: str | Mapping[str, str], model: str = "") -> EditFormat:
    """Return the format that is meant: of ``auto`` that of the model, as far as it is known.

    A mapping says it for models by patterns of their names, with or without the provider; the first that fits
    counts, and ``auto`` if none does.

    Raises:
        UsageError: there is no such format.
    """
    if not isinstance(said, str):
        names = (model.lower(), model.lower().rpartition(":")[2])
        fitting = (known for glob, known in said.items() if any(fnmatchcase(name, glob) for name in names))
        said = next(fitting, "auto")
    if said == "auto":
        return choose_format(model)
    for known in FORMATS:
        if said == known:
            return known
    raise UsageError(f"there is no edit format `{said}`", hint=f"use one of auto, {', '.join(FORMATS)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class EditorOptions:
    """The options of the tools that edit."""

    name: str = EDITOR_NAME
    """What the editor is called."""
    split: bool = False
    """Whether each of its commands is a tool, ``text_editor_view`` and so on."""
    format: EditFormat = "quote"
    """How text is named that is edited."""
    require_read: bool = False
    """Whether a file that is there must have been shown in the session before it is edited."""


DEFAULT = EditorOptions()
