"""Defines tools, calls, results and toolsets: the interface between models, MCP and Kakite's own tools.

What ``kakite.host`` shows of a server that serves toolset T lists and answers like T.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

JsonObject = dict[str, Any]
"""A decoded JSON object: tool arguments and JSON Schemas, which only the tool itself understands."""

Effect = Literal["read", "write", "execute"]
"""What a call may do at most: look, change files of the workspace, start programs."""

META_EFFECT = "kakite/effect"
META_CODE = "kakite/code"
META_DETAILS = "kakite/details"
META_BOUND = "kakite/bound"
META_FOLDER = "kakite/folder"
"""Keys under which our server tells our client over MCP what MCP has no field for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool as a model sees it."""

    name: str
    description: str
    parameters: JsonObject
    """JSON Schema of the arguments; our own tools have ``additionalProperties: false``."""
    title: str = ""
    effect: Effect = "execute"
    """The worst that a call can do. The default is the worst case."""
    idempotent: bool = False
    open_world: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call that a model asked for."""

    id: str
    name: str
    arguments: JsonObject
    bound: str = ""
    """What a preview of this very call gave as ``bound`` in its details: the call is then performed only if
    it still does exactly what was shown. Never from a model."""
    folder: str = ""
    """The absolute folder where relative paths are taken to start: the call is refused if they do not. Empty:
    wherever they do. Never from a model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A picture in a result."""

    mime: str
    """Its media type, as ``image/png``."""
    data: str
    """Its bytes in base64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """The result of a call. A failure is a result too: ``is_error`` is then true and ``code`` says which."""

    text: str
    is_error: bool = False
    code: str = ""
    details: JsonObject = field(default_factory=dict[str, Any])
    """For programs and people (a diff, an exit code), never sent to the model."""
    images: tuple[Image, ...] = ()
    """Shown to the model beside the text, where it takes pictures."""


class Toolset(Protocol):
    """Some tools that belong together."""

    async def list_tools(self) -> tuple[Tool, ...]:
        """Return the tools, in the same order every time."""
        ...

    async def call(self, call: ToolCall) -> ToolResult:
        """Perform a call. Never raises for what the model did wrong: that is a result."""
        ...
