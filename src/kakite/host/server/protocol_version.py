"""Finds out which era of the protocol a server speaks, and remembers it.

The question may end a server of the older era (some end at a request that they do not know), or cost a while
of silence. A server that is slow to begin has not read the question yet, and need not be started again: the
older handshake is sent after the question, and the server answers whichever it knows. ``VersionProbe`` is
pure: it takes messages and gives messages.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import mcp_types as mcp
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION, MODERN_PROTOCOL_VERSIONS

from kakite.host.config.model import ServerEntry, StdioServer

ProtocolEra = Literal["legacy", "modern"]

SILENCE_TIMEOUT = 1.75
"""Seconds without a word, since it read the question, after which a server that nobody knows yet, and that is
not busy with its start, is started again as legacy. One that has not read it after them is told the older way
too."""

_PASSING_ON = frozenset(("docker", "podman", "nerdctl", "kubectl", "ssh"))
_MAX_ENTRIES = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class HandshakeAttempt:
    """One way to begin: the SDK's mode, and how long to wait for the first word."""

    mode: str
    silence: float | None = None
    """Seconds; None: as long as the start may take."""
    if_refused: bool = False
    """Whether it is only made when the server answered the attempt before, with a no."""


def plan_attempts(entry: ServerEntry, known: ProtocolEra | None) -> tuple[HandshakeAttempt, ...]:
    """Return the ways to begin with a server, the likeliest first. A wrong memory is healed by the next."""
    if entry.protocol in MODERN_PROTOCOL_VERSIONS:
        return (HandshakeAttempt(mode=entry.protocol),)
    if entry.protocol == "legacy" or entry.protocol in HANDSHAKE_PROTOCOL_VERSIONS:
        return (HandshakeAttempt(mode="legacy"),)
    if known == "legacy":
        return (HandshakeAttempt(mode="legacy"), HandshakeAttempt(mode="auto"))
    patient = known == "modern" or _is_forwarding(entry)
    silence = max(SILENCE_TIMEOUT, entry.timeouts.start / 2) if patient else SILENCE_TIMEOUT
    return (
        HandshakeAttempt(mode="auto", silence=silence),
        HandshakeAttempt(mode="legacy"),
        HandshakeAttempt(mode="auto", if_refused=True),
    )


def _is_forwarding(entry: ServerEntry) -> bool:
    # These read the question before the server runs, and whether that is busy cannot be seen from here.
    return isinstance(entry.reached, StdioServer) and Path(entry.reached.command).stem in _PASSING_ON


class VersionCache:
    """The memory, in one file. Where it cannot be read or written there is none: it only saves time."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "eras.json"

    def get(self, entry: ServerEntry, path: str) -> ProtocolEra | None:
        """Return what the server spoke last; None when its entry or its program is another now.

        ``path`` is the search path that its program is found on.
        """
        found = self._read().get(_build_key(entry))
        if found == [_get_modified_ns(entry, path), "legacy"]:
            return "legacy"
        return "modern" if found == [_get_modified_ns(entry, path), "modern"] else None

    def remember(self, entry: ServerEntry, path: str, era: ProtocolEra) -> None:
        """Note what the server speaks."""
        found = {key: value for key, value in self._read().items() if key != _build_key(entry)}
        found[_build_key(entry)] = [_get_modified_ns(entry, path), era]
        self._write(dict(list(found.items())[-_MAX_ENTRIES:]))

    def _read(self) -> dict[str, object]:
        try:
            read: Any = json.loads(self._file.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        return cast("dict[str, object]", read) if isinstance(read, dict) else {}

    def _write(self, found: Mapping[str, object]) -> None:
        fresh = self._file.with_name(f"eras.{os.getpid()}.new")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            fresh.touch(mode=0o600)
            fresh.write_text(json.dumps(found), encoding="utf-8")
            fresh.replace(self._file)
        except OSError:
            fresh.unlink(missing_ok=True)


def _build_key(entry: ServerEntry) -> str:
    reached = entry.reached
    if isinstance(reached, StdioServer):
        parts = ["program", reached.command, *reached.args, reached.cwd, *sorted(reached.env)]
    else:
        parts = ["address", reached.url, str(reached.sse)]
    return hashlib.sha256(json.dumps(parts).encode(errors="surrogatepass")).hexdigest()


def _get_modified_ns(entry: ServerEntry, path: str) -> int:
    """Return when the program changed, in ns; 0 where that cannot be seen."""
    if not isinstance(entry.reached, StdioServer):
        return 0
    try:
        return Path(shutil.which(entry.reached.command, path=path) or "").stat().st_mtime_ns
    except (OSError, ValueError):
        return 0


_QUESTION = "server/discover"
_HANDSHAKE = "initialize"


class VersionProbe:
    """The probe on one connection, and its answer."""

    def __init__(self) -> None:
        self._asked: mcp.RequestId | None = None
        self._shaken: mcp.RequestId | None = None
        self._left: mcp.RequestId | None = None
        """The question whose answer the client does not wait for any more."""
        self._supported: list[str] = []
        """What the late answer to it said."""

    def on_sent(self, message: mcp.JSONRPCMessage) -> None:
        """Note what the client sends."""
        if isinstance(message, mcp.JSONRPCRequest):
            if message.method == _QUESTION:
                self._asked = message.id
            elif message.method == _HANDSHAKE:
                self._shaken = message.id

    def abandon(self) -> mcp.JSONRPCMessage | None:
        """Return what lets the client go on with the older handshake; None if it waits for no answer."""
        if self._asked is None:
            return None
        self._left, self._asked = self._asked, None
        told = mcp.ErrorData(code=mcp.METHOD_NOT_FOUND, message="no answer yet")
        return mcp.JSONRPCError(jsonrpc="2.0", id=self._left, error=told)

    def on_received(self, message: mcp.JSONRPCMessage) -> mcp.JSONRPCMessage | None:
        """Return what the client hears of a server's message; None if nothing."""
        if not isinstance(message, (mcp.JSONRPCResponse, mcp.JSONRPCError)) or message.id is None:
            return message
        if message.id == self._asked:
            self._asked = None
        if message.id == self._left:
            if isinstance(message, mcp.JSONRPCResponse):
                self._supported = _filter_modern_versions(message.result.get("supportedVersions"))
            return None
        return self._make_version_error() if self._supported and message.id == self._shaken else message

    def _make_version_error(self) -> mcp.JSONRPCMessage:
        """Return the no of a newer server to the older handshake, whatever it said: the client asks again."""
        data = {"supported": self._supported, "requested": LATEST_HANDSHAKE_VERSION}
        told = mcp.ErrorData(
            code=mcp.UNSUPPORTED_PROTOCOL_VERSION, message="it speaks the newer protocol", data=data
        )
        return mcp.JSONRPCError(jsonrpc="2.0", id=self._shaken, error=told)


def _filter_modern_versions(told: Any) -> list[str]:
    versions = cast("list[Any]", told) if isinstance(told, list) else []
    return [version for version in versions if version in MODERN_PROTOCOL_VERSIONS]
