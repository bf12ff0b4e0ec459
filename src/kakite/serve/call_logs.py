"""Sends a client what its calls come to, and what Kakite logs meanwhile, as MCP's log messages."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, get_args
from weakref import WeakKeyDictionary

import mcp_types as mcp
from mcp.server.connection import allowed_log_levels
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from kakite.serve.server import Context, McpServer, get_session_key
from kakite.tools.toolset import META_CODE

MOST = 100  # messages of one call
LEVELS: tuple[mcp.LoggingLevel, ...] = get_args(mcp.LoggingLevel)
"""From the one that says the most to the one that says the least."""
_BY_NAME: dict[str, mcp.LoggingLevel] = {each.upper(): each for each in LEVELS}
UNASKED: mcp.LoggingLevel = "warning"
"""What a client gets that asked for no level, in the era where it may ask: this and what is worse."""

_entries: ContextVar[deque[mcp.LoggingMessageNotificationParams] | None] = ContextVar(
    "call_logs", default=None
)


def add_logging(server: McpServer) -> None:
    """Let the server send log messages with the answers of its tools, to the client that called.

    In the older era a client sets the level for its session. In the newer one each call says which level it
    wants, and gets none if it says nothing.
    """
    chosen: WeakKeyDictionary[object, mcp.LoggingLevel] = WeakKeyDictionary()
    tools = server.get_request_handler("tools/call")
    if tools is None:
        raise ValueError("the server has no tools")
    logging.getLogger("kakite").addHandler(_HANDLER)

    async def set_level(context: Context, params: mcp.SetLevelRequestParams) -> mcp.EmptyResult:
        chosen[get_session_key(context)] = params.level
        return mcp.EmptyResult()

    async def call(context: Context, params: mcp.CallToolRequestParams) -> Any:
        with _collect() as entries:
            result = await tools.handler(context, params)
        if isinstance(result, mcp.CallToolResult):
            entries.append(_summarize(params.name, result))
        if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            wanted = allowed_log_levels(context.protocol_version, context.meta)
        else:
            wanted = LEVELS[LEVELS.index(chosen.get(get_session_key(context), UNASKED)) :]
        await _send(context, [each for each in entries if each.level in wanted])
        return result

    server.add_request_handler("logging/setLevel", mcp.SetLevelRequestParams, set_level)
    server.add_request_handler("tools/call", mcp.CallToolRequestParams, call)


class _CallLogHandler(logging.Handler):
    """Keeps what is logged in the course of a call, also in its threads."""

    def emit(self, record: logging.LogRecord) -> None:
        entries = _entries.get()
        if entries is not None:
            level = _BY_NAME.get(record.levelname, UNASKED)
            entries.append(_make_entry(level, record.name, record.getMessage()))


_HANDLER = _CallLogHandler()


@contextmanager
def _collect() -> Generator[deque[mcp.LoggingMessageNotificationParams]]:
    entries = deque[mcp.LoggingMessageNotificationParams](maxlen=MOST)
    token = _entries.set(entries)
    try:
        yield entries
    finally:
        _entries.reset(token)


def _summarize(tool: str, result: mcp.CallToolResult) -> mcp.LoggingMessageNotificationParams:
    if not result.is_error:
        return _make_entry("info", "kakite.tools", f"`{tool}` is done")
    code = str((result.meta or {}).get(META_CODE, ""))
    return _make_entry("notice", "kakite.tools", f"`{tool}` failed: {code or 'see its answer'}", code=code)


def _make_entry(
    level: mcp.LoggingLevel, logger: str, message: str, **more: str
) -> mcp.LoggingMessageNotificationParams:
    return mcp.LoggingMessageNotificationParams(level=level, logger=logger, data={"message": message, **more})


async def _send(context: Context, entries: Sequence[mcp.LoggingMessageNotificationParams]) -> None:
    for entry in entries:
        message = mcp.LoggingMessageNotification(params=entry)
        await context.session.send_notification(message, related_request_id=context.request_id)
