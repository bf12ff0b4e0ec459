"""How a model edits: the options of the editor."""

from __future__ import annotations

from dataclasses import dataclass

EDITOR_NAME = "text_editor"


@dataclass(frozen=True, slots=True, kw_only=True)
class EditorOptions:
    """How the tools that edit are offered."""

    name: str = EDITOR_NAME
    """What the editor is called."""
    split: bool = False
    """Whether each of its commands is a tool, ``text_editor_view`` and so on."""
    require_read: bool = False
    """Whether a file that is there must have been shown in the session before it is edited."""


DEFAULT = EditorOptions()
