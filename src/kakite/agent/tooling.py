"""What the person's own settings say of the tools of a run: its editor, and further MCP servers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

OnFailure = Literal["continue", "fail"]
"""What becomes of a run whose editor is not there: it goes on with commands alone, or stops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EditorChoice:
    """Which editor a run has. As ``text_editor_mcp`` of the settings says."""

    enabled: bool = True
    """Without it files are changed by commands, and servers of forges may be offered."""
    on_failure: OnFailure = "continue"
    name: str = "text-editor"
    """What the server is called where it is told of."""
    command: tuple[str, ...] = ()
    """The words that start another server inside of the sandbox; empty: Kakite's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tooling:
    """What a run has for tools besides ``run_command``."""

    editor: EditorChoice = EditorChoice()
    edit_format: str = "auto"
    """How the model names the text that it edits with Kakite's own editor."""
    servers: tuple[str, ...] = ()
    """Names of servers in the person's own files that the model may use besides. They run on the host."""
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False, compare=False)
    """Where those files and the variables that they name are looked up."""
