"""MCP in, toolset out: servers started, watched, and asked only after approval."""

from kakite.host.approval import (
    MODES,
    Answer,
    ApprovedToolset,
    Approver,
    Mode,
    NobodyToAsk,
    Question,
    Rule,
    Setting,
    Settled,
    decide,
)
from kakite.host.connection import ServerError, ServerToolset, connect

__all__ = [
    "MODES",
    "Answer",
    "ApprovedToolset",
    "Approver",
    "Mode",
    "NobodyToAsk",
    "Question",
    "Rule",
    "ServerError",
    "ServerToolset",
    "Setting",
    "Settled",
    "connect",
    "decide",
]
