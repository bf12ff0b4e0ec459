"""Answers what a server asks of its host during a call: a person's input, folders, a model's reply.

Both eras of the protocol end here: requests of the server, and results that ask for input.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypedDict, cast
from urllib.parse import urlsplit

import anyio
import mcp_types as mcp
from mcp.client.session import ClientRequestContext, ElicitationFnT, ListRootsFnT, SamplingFnT
from pydantic import TypeAdapter, ValidationError

from kakite.errors import KakiteError
from kakite.host.clean_text import clean, has_control_characters, is_clean_line
from kakite.host.json_schema import Schema, apply_defaults
from kakite.host.oauth.authorization_flow import LoginPageOpener
from kakite.host.server.deadlines import PausableClock
from kakite.redaction import Redaction
from kakite.tools.call_context import CallContext, bind_call
from kakite.tools.toolset import JsonObject

log = logging.getLogger(__name__)

_MAX_URL_CHARS = 8000  # characters of an address to visit; a longer one is not cut: it would lead elsewhere
_MAX_MESSAGE_CHARS = 4000  # characters of what a server may say to a person


@dataclass(frozen=True, slots=True, kw_only=True)
class Elicitation:
    """A server's question to a person. Never for secrets, unless at an address."""

    server: str
    message: str
    """In the server's words; control characters are out."""
    schema: JsonObject | None = None
    """JSON Schema of the answer: one level of properties. None when an address is to be visited instead."""
    url: str = ""
    """The address to visit. Show its host, and open it only when the person says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElicitationResult:
    """A person's answer: they gave it, refused, or looked away."""

    action: Literal["accept", "decline", "cancel"]
    content: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """By property, when accepted. Defaults of the schema are filled in."""


class CannotElicitError(KakiteError):
    """The one who called cannot ask a person so. Code: ``cannot_elicit``."""

    code = "cannot_elicit"


class Elicitor(Protocol):
    """Asks a person in a server's name."""

    async def elicit(self, asked: Elicitation) -> ElicitationResult:
        """Ask. May take hours: the call's time stands still. Bound to the call that it is asked for.

        Raises:
            CannotElicitError: nobody can be asked so. The server is told, and the result of the call has the
                hint.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PendingCall:
    """A call that waits for its server."""

    context: CallContext
    unasked: list[CannotElicitError] = field(default_factory=list["CannotElicitError"])
    """Why the server could ask nobody: told with its result."""
    over: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when nobody waits for it any more."""


Sampler = Callable[[str, JsonObject], Awaitable[JsonObject]]
"""Takes a server's name and MCP's parameters of ``sampling/createMessage``; returns MCP's result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostContext:
    """The host's context that its servers share."""

    environ: Mapping[str, str] = field(repr=False)
    """The host's environment; servers see a few harmless variables of it."""
    project: Path
    state: Path
    """The folder of logs and of what is remembered."""
    roots: tuple[Path, ...] = ()
    """Folders that servers of the older era are told to keep to, as far as they lie in the project."""
    elicit: Elicitor | None = None
    """Without it a server is told that nobody can be asked."""
    visitor: LoginPageOpener | None = None
    """Logs in to servers that want it. Without it only what is remembered of earlier logins is used."""
    sample: Sampler | None = None
    """Without it a server is told that it gets no model."""
    clock: PausableClock = field(default_factory=PausableClock)
    """Stands still for all servers while a person is asked: ``clock.pause()``."""
    redaction: Redaction = field(default_factory=Redaction)
    """Knows the secrets of all servers; shared by all that tells or writes something of them."""


class Callbacks(TypedDict):
    """The callbacks of the SDK's client; a capability without a callback is not declared."""

    elicitation_callback: ElicitationFnT | None
    list_roots_callback: ListRootsFnT | None
    sampling_callback: SamplingFnT | None


def build_callbacks(
    server: str, surroundings: HostContext, clock: PausableClock, pending: Sequence[PendingCall]
) -> Callbacks:
    """Return how the server's requests are answered; ``clock`` stands still meanwhile.

    A person is asked only while a call is ``pending``, where they are whose call it is: the question ends
    with the last of the calls that it may be about.
    """
    roots = _filter_roots(surroundings.roots, surroundings.project)
    elicit, sample = surroundings.elicit, surroundings.sample
    return {
        "elicitation_callback": _build_elicitation_callback(server, elicit, clock, pending)
        if elicit
        else None,
        "list_roots_callback": _build_roots_callback(roots) if roots else None,
        "sampling_callback": _build_sampling_callback(server, sample, clock) if sample else None,
    }


def _filter_roots(roots: tuple[Path, ...], project: Path) -> tuple[Path, ...]:
    whole = project.resolve()
    return tuple(root for each in roots if (root := each.resolve()).is_relative_to(whole))


def _build_roots_callback(roots: tuple[Path, ...]) -> ListRootsFnT:
    told = mcp.ListRootsResult.model_validate(
        {"roots": [{"uri": root.as_uri(), "name": root.name} for root in roots]}
    )

    async def list_roots(context: ClientRequestContext) -> mcp.ListRootsResult:  # noqa: ARG001 - the SDK's signature
        return told

    return list_roots


def _build_elicitation_callback(
    server: str, elicitor: Elicitor, clock: PausableClock, pending: Sequence[PendingCall]
) -> ElicitationFnT:
    async def elicit(
        context: ClientRequestContext,  # noqa: ARG001 - the SDK's signature
        params: mcp.ElicitRequestParams,
    ) -> mcp.ElicitResult | mcp.ErrorData:
        calls = list(pending)
        if len({id(each.context.session_key) for each in calls}) != 1:
            # Nobody could tell what it is about, or whose keys it waits for.
            why = "by several clients at once" if calls else "without being called"
            log.warning("the server `%s` asked a person something %s: cancelled", server, why)
            return mcp.ElicitResult(action="cancel")
        asked = _parse_elicitation(server, params)
        if problem := _find_problem(asked):
            log.warning("the server `%s` %s: cancelled", server, problem)
            return mcp.ElicitResult(action="cancel")
        caller = calls[0].context
        try:
            with clock.pause(), bind_call(session=caller.session, elicit=caller.elicit, relay=caller.relay):
                return _to_elicit_result(asked, await _ask_while_pending(elicitor, asked, calls))
        except CannotElicitError as error:
            for each in calls:
                each.unasked.append(error)
            return mcp.ErrorData(
                code=mcp.INVALID_REQUEST, message=f"Elicitation not supported: {error.message}"
            )

    return elicit


async def _ask_while_pending(
    elicitor: Elicitor, asked: Elicitation, calls: Sequence[PendingCall]
) -> ElicitationResult:
    """Return what the person answers; as if they looked away once nobody waits for any of the calls.

    Raises:
        CannotElicitError: nobody can be asked so.
    """
    with anyio.CancelScope() as scope:
        waiting = asyncio.create_task(_cancel_when_over(calls, scope))
        try:
            return await ask_elicitor(elicitor, asked)
        finally:
            waiting.cancel()
    return ElicitationResult(action="cancel")


async def _cancel_when_over(calls: Sequence[PendingCall], scope: anyio.CancelScope) -> None:
    for each in calls:
        await each.over.wait()
    scope.cancel()


async def ask_elicitor(elicitor: Elicitor | None, asked: Elicitation) -> ElicitationResult:
    """Return what the person answers; where asking fails, as if they looked away.

    Raises:
        CannotElicitError: nobody can be asked so.
    """
    if elicitor is None:
        return ElicitationResult(action="cancel")
    try:
        return await elicitor.elicit(asked)
    except CannotElicitError:
        raise
    except (KakiteError, OSError, EOFError) as error:
        log.warning("nobody could be asked for the server `%s`: %s", asked.server, error)
        return ElicitationResult(action="cancel")


def _parse_elicitation(server: str, params: mcp.ElicitRequestParams) -> Elicitation:
    message = clean(params.message, _MAX_MESSAGE_CHARS)
    if isinstance(params, mcp.ElicitRequestURLParams):
        return Elicitation(server=server, message=message, url=to_safe_url(params.url))
    return Elicitation(server=server, message=message, schema=params.requested_schema)


def _find_problem(asked: Elicitation) -> str:
    """Return why a person cannot be shown what is asked as it is; empty if they can."""
    if asked.schema is None:
        return "" if asked.url else "wants an address visited that cannot be opened"
    properties: object = asked.schema.get("properties")
    for name, about in (cast("JsonObject", properties) if isinstance(properties, dict) else {}).items():
        values = _list_values(about)
        if not is_clean_line(name) or any(has_control_characters(str(each)) for each in values):
            return "asks by a form whose names or values have characters that nobody sees"
    return ""


def _list_values(about: Any) -> list[Any]:
    """Return the values that the schema of a form's property, or of its items, lets a person choose from."""
    if isinstance(about, list):
        return [value for each in cast("list[Any]", about) for value in _list_values(each)]
    if not isinstance(about, dict):
        return []
    told = cast("JsonObject", about)
    listed = told.get("enum")
    own = [*(cast("list[Any]", listed) if isinstance(listed, list) else ()), told.get("const", "")]
    return own + [value for key in ("oneOf", "anyOf", "items") for value in _list_values(told.get(key))]


def to_safe_url(url: str) -> str:
    """Return an address as a person may see and open it; empty where it is none of the web, or too long.

    Also where it is read in two ways: browsers take a backslash for a slash, and what stands before an ``@``
    looks like a host.
    """
    told = clean(url, _MAX_URL_CHARS + 1)
    try:
        parts = urlsplit(told)
        _ = parts.port
    except ValueError:
        return ""
    fits = len(told) <= _MAX_URL_CHARS and "\\" not in told and not any(each.isspace() for each in told)
    plain = parts.scheme in {"http", "https"} and parts.hostname and "@" not in parts.netloc
    return told if fits and plain else ""


def _to_elicit_result(asked: Elicitation, answer: ElicitationResult) -> mcp.ElicitResult:
    if answer.action != "accept" or asked.schema is None:
        return mcp.ElicitResult(action=answer.action)
    content = apply_defaults(asked.schema, dict(answer.content))
    where, expected = Schema(asked.schema).find_violation(content)
    try:
        accepted = mcp.ElicitResult.model_validate({"action": "accept", "content": content})
    except ValidationError:
        expected = expected or "a value is not a text, number, truth value or list of texts"
    else:
        if not expected:
            return accepted
    log.warning("what `%s` asked for was answered with something else: %s %s", asked.server, where, expected)
    return mcp.ElicitResult(action="cancel")


_SAMPLING_RESULT: TypeAdapter[mcp.CreateMessageResult | mcp.CreateMessageResultWithTools] = TypeAdapter(
    mcp.CreateMessageResult | mcp.CreateMessageResultWithTools
)


def _build_sampling_callback(server: str, sample: Sampler, clock: PausableClock) -> SamplingFnT:
    async def create_message(
        context: ClientRequestContext,  # noqa: ARG001 - the SDK's signature
        params: mcp.CreateMessageRequestParams,
    ) -> mcp.CreateMessageResult | mcp.CreateMessageResultWithTools | mcp.ErrorData:
        asked = params.model_dump(by_alias=True, mode="json", exclude_none=True)
        try:
            with clock.pause():
                return _SAMPLING_RESULT.validate_python(await sample(server, asked))
        except (KakiteError, ValueError) as error:
            log.warning("a model's reply for the server `%s` failed: %s", server, error)
            return mcp.ErrorData(code=mcp.INTERNAL_ERROR, message="the model gave no reply")

    return create_message
