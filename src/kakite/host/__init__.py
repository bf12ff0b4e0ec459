"""MCP in, toolset out: servers started, watched, and asked only after approval."""

from kakite.host.policy.approval import (
    MODES,
    ApprovalConfig,
    ApprovalRequest,
    ApprovalResponse,
    ApprovedToolset,
    Approver,
    CallOutcome,
    DenyingApprover,
    Mode,
    Rule,
    decide,
)
from kakite.host.server.connection import ServerError, ServerToolset, connect

__all__ = [
    "MODES",
    "ApprovalConfig",
    "ApprovalRequest",
    "ApprovalResponse",
    "ApprovedToolset",
    "Approver",
    "CallOutcome",
    "DenyingApprover",
    "Mode",
    "Rule",
    "ServerError",
    "ServerToolset",
    "connect",
    "decide",
]
