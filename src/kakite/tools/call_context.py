"""What a tool may ask about the call that it performs: its session, who listens, what it is bound to."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, TypedDict, Unpack

from kakite.edit import EditFailure
from kakite.workspace import Workspace

ElicitationCallback = Callable[[str, dict[str, Any]], Awaitable[Mapping[str, Any] | None]]
"""Takes a question and the JSON Schema of a form; returns what the user filled in, None if they refused.
Raises ``ConnectionError`` where the client fails to ask."""
ElicitationRelay = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
"""Takes MCP's parameters of ``elicitation/create`` in the name of another server; returns MCP's result.
Raises ``ConnectionError`` where the client cannot ask so, or fails to."""
ProgressCallback = Callable[[float, float | None, str], None]
"""Takes how far a call is, ever growing, of how much in all (None: unknown), and what is done now. Called
inside the event loop."""
RefusalCallback = Callable[[Sequence[EditFailure]], None]
"""Takes why edits were refused and what is suggested instead. Called in any thread."""


class CallCancelledError(Exception):
    """Nobody waits for this call any more: what it has not yet done is left."""


class _OnlySession:
    """The session of all calls that are made outside of any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """The circumstances of a call."""

    session: object | None = _OnlySession()
    """Any object that lives as long as the client's session and can be referred to weakly; None for a client
    that has no session. Without it, all calls belong to one session: that of the only client."""
    elicit: ElicitationCallback | None = None
    """How to ask the user; None where nobody can be reached."""
    relay: ElicitationRelay | None = None
    """How to pass on what another server asks the user; None where nobody can be reached."""
    on_progress: ProgressCallback | None = None
    """Who is told how far the call has come."""
    on_refusal: RefusalCallback | None = None
    """Who shows a person why edits were refused; the latest word counts."""
    preview: str = ""
    """The digest of the preview that the call is bound to: it does exactly what was shown, or nothing."""
    cwd: str = ""
    """The folder where relative paths must start; empty: anywhere."""
    workspace: Workspace | None = None
    """The folders that the call may use; None: those that the tools were made for."""
    cancelled: threading.Event | None = None
    """Set as soon as nobody waits for the call."""

    @property
    def session_key(self) -> object:
        """The session; clients that have none share one."""
        return _DEFAULT.session if self.session is None else self.session


class _Changes(TypedDict, total=False):
    session: object | None
    elicit: ElicitationCallback | None
    relay: ElicitationRelay | None
    on_progress: ProgressCallback | None
    on_refusal: RefusalCallback | None
    preview: str
    cwd: str
    workspace: Workspace | None
    cancelled: threading.Event | None


_DEFAULT = CallContext()
_current: ContextVar[CallContext] = ContextVar("call", default=_DEFAULT)


def current_call() -> CallContext:
    """Return the context of the call that this is part of."""
    return _current.get()


@contextmanager
def bind_call(**changes: Unpack[_Changes]) -> Generator[None]:
    """Let the calls of the block have this context; what is not named stays as it is around the block."""
    token = _current.set(replace(_current.get(), **changes))
    try:
        yield
    finally:
        _current.reset(token)


_YES_OR_NO: dict[str, Any] = {"type": "object", "properties": {}}


async def ask_user(question: str) -> bool | None:
    """Return what the user says; None if there is nobody to ask."""
    elicit = _current.get().elicit
    try:
        return None if elicit is None else await elicit(question, _YES_OR_NO) is not None
    except ConnectionError:
        return None


def report(done: float, message: str, total: float | None = None) -> None:
    """Tell how far the call has come that this is part of."""
    if on_progress := _current.get().on_progress:
        on_progress(done, total, message)


def report_refusal(failures: Sequence[EditFailure]) -> None:
    """Tell why edits of the call that this is part of are refused."""
    if on_refusal := _current.get().on_refusal:
        on_refusal(failures)


def raise_if_cancelled() -> None:
    """Return if somebody still waits for the call that this is part of.

    Raises:
        CallCancelledError: nobody does.
    """
    cancelled = _current.get().cancelled
    if cancelled is not None and cancelled.is_set():
        raise CallCancelledError


def compute_digest(becoming: object) -> str:
    """Return a digest of what a call makes of which files: values that JSON can hold."""
    written = json.dumps(becoming, ensure_ascii=True, sort_keys=True)
    return hashlib.sha256(written.encode()).hexdigest()
