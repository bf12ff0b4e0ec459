"""What happens to a debate, as values that can be kept one by one, and debates and events as JSON. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal

from kakite.debate import protocol
from kakite.debate.answers import Reply
from kakite.debate.record import Debate, DebateError, Decision, Ending, Terms
from kakite.visible import whole_values

if TYPE_CHECKING:
    from pydantic import TypeAdapter


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A debate was begun."""

    type: Literal["begun"] = "begun"
    prompt: str
    terms: Terms
    verdict: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replied:
    """A side replied. Letters in the reply are as it was shown them."""

    type: Literal["replied"] = "replied"
    side: str
    round: int
    reply: Reply


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """A person decided how to go on."""

    type: Literal["decided"] = "decided"
    decision: Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """The debate was stopped."""

    type: Literal["stopped"] = "stopped"
    why: Ending


Event = Begun | Replied | Decided | Stopped


def after(debate: Debate | None, event: Event) -> Debate:
    """Return the debate after that event; ``Begun`` begins one, whatever there was.

    Raises:
        DebateError: the event does not fit there.
    """
    if isinstance(event, Begun):
        return protocol.begin(event.prompt, event.terms, event.verdict)
    if debate is None:
        raise DebateError("no active session", code="no_active_session")
    match event:
        case Replied():
            return protocol.replied(debate, event.side, event.round, event.reply)
        case Decided():
            return protocol.decided(debate, event.decision)
        case Stopped():
            return protocol.stopped(debate, event.why)


def told(events: Iterable[Event]) -> Debate:
    """Return the debate that those events make.

    Raises:
        DebateError: they are none, or do not fit each other.
    """
    debate: Debate | None = None
    for event in events:
        debate = after(debate, event)
    if debate is None:
        raise DebateError("no active session", code="no_active_session")
    return debate


def event_as_json(event: Event) -> str:
    """Return an event as one line of JSON."""
    return _json(event)


def event_of_json(line: str) -> Event:
    """Return the event that a line is.

    Raises:
        ValueError: it is none.
    """
    return _events().validate_python(json.loads(line))


def debate_as_json(debate: Debate) -> str:
    """Return a whole debate as one line of JSON: all that was said, decided and agreed on."""
    return _json(debate)


def debate_of_json(text: str) -> Debate:
    """Return the debate that a text is.

    Raises:
        ValueError: it is none.
    """
    return _debates().validate_python(json.loads(text))


def _json(value: Event | Debate) -> str:
    return json.dumps(whole_values(asdict(value)), ensure_ascii=False)


@cache
def _events() -> TypeAdapter[Event]:
    from pydantic import TypeAdapter

    return TypeAdapter(Event)


@cache
def _debates() -> TypeAdapter[Debate]:
    from pydantic import TypeAdapter

    return TypeAdapter(Debate)
