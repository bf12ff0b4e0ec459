"""The question for the era of the protocol, when its answer is late. Pure: takes messages, gives messages.

A server that is slow to begin has not read the question yet. It need not be started again to be spoken to in
the older way: the older handshake is put behind the question, and it answers whichever it knows.
"""

from __future__ import annotations

from typing import Any, cast

import mcp_types as mcp
from mcp_types.version import LATEST_HANDSHAKE_VERSION, MODERN_PROTOCOL_VERSIONS

_QUESTION = "server/discover"
_HANDSHAKE = "initialize"


class Probe:
    """What was asked over one connection, and what came of it."""

    def __init__(self) -> None:
        self._asked: mcp.RequestId | None = None
        self._shaken: mcp.RequestId | None = None
        self._left: mcp.RequestId | None = None
        """The question whose answer the client does not wait for any more."""
        self._supported: list[str] = []
        """What the late answer to it said."""

    def spoken(self, message: mcp.JSONRPCMessage) -> None:
        """Note what the client sends."""
        if isinstance(message, mcp.JSONRPCRequest):
            if message.method == _QUESTION:
                self._asked = message.id
            elif message.method == _HANDSHAKE:
                self._shaken = message.id

    def leave(self) -> mcp.JSONRPCMessage | None:
        """Return what lets the client go on with the older handshake; None if it waits for no answer."""
        if self._asked is None:
            return None
        self._left, self._asked = self._asked, None
        told = mcp.ErrorData(code=mcp.METHOD_NOT_FOUND, message="no answer yet")
        return mcp.JSONRPCError(jsonrpc="2.0", id=self._left, error=told)

    def heard(self, message: mcp.JSONRPCMessage) -> mcp.JSONRPCMessage | None:
        """Return what the client hears of a server's message; None if nothing."""
        if not isinstance(message, (mcp.JSONRPCResponse, mcp.JSONRPCError)) or message.id is None:
            return message
        if message.id == self._asked:
            self._asked = None
        if message.id == self._left:
            if isinstance(message, mcp.JSONRPCResponse):
                self._supported = _modern(message.result.get("supportedVersions"))
            return None
        return self._too_old() if self._supported and message.id == self._shaken else message

    def _too_old(self) -> mcp.JSONRPCMessage:
        """Return the no of a newer server to the older handshake, whatever it said: the client asks again."""
        data = {"supported": self._supported, "requested": LATEST_HANDSHAKE_VERSION}
        told = mcp.ErrorData(
            code=mcp.UNSUPPORTED_PROTOCOL_VERSION, message="it speaks the newer protocol", data=data
        )
        return mcp.JSONRPCError(jsonrpc="2.0", id=self._shaken, error=told)


def _modern(told: Any) -> list[str]:
    versions = cast("list[Any]", told) if isinstance(told, list) else []
    return [version for version in versions if version in MODERN_PROTOCOL_VERSIONS]
