"""Keeps the conversation of a page: who asked the assistant what, what it answered, and what a model is told.

A conversation belongs to its page, not to a person or a connection: it is stored beside the document, and
what is new is stored before anybody is shown it. Pure, but for the clock and random ids.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final, Literal, NamedTuple

from kakite.models.messages import Message, Reply, UserMessage

MEMORY: Final = 48_000
"""Bytes of earlier turns that the model is sent: about 12,000 tokens."""
MAX_TURNS: Final = 200
"""Turns of a page that are kept."""
_MAX_LINE: Final = 200  # characters of an earlier request where only a line of it is left
_ENDINGS: Final = {
    "cut": "It ran into the limit of its length.",
    "cancelled": "A person stopped it.",
    "failed": "It failed before its end.",
    "refused": "It was refused.",
    "interrupted": "It broke off before its end.",
}

TurnStatus = Literal["running", "done", "cut", "refused", "cancelled", "failed", "interrupted"]
"""As of a run; ``interrupted``: the process ended, or lost the page, while the assistant answered."""


@dataclass(slots=True, kw_only=True)
class ChatTurn:
    """One request, and all that people were shown of the answer."""

    id: str
    """That of the run."""
    at: int
    """When it was asked: milliseconds since 1970, and more than any turn before it."""
    by: str
    """Who asked, as the others see them."""
    message: str
    mode: str
    pages: list[str]
    """What it is about: nobody sees it who may not read all of these."""
    status: TurnStatus = "running"
    text: str = ""
    events: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """Edits, failures, and how it ended, as a run's events: ``{event, data}``."""
    reply: str = ""
    """The model's own words, with its edits."""

    def record(self, event: str, data: Mapping[str, Any]) -> None:
        """Take an event of the run."""
        if event == "message":
            self.text += str(data["text"])
        elif event == "edit":
            shown = {key: data["suggestion"][key] for key in ("id", "line")}
            told = {"index": data["index"], "page": data["page"], "suggestion": shown}
            self.events.append({"event": event, "data": told})
        elif event != "run":
            self.events.append({"event": event, "data": dict(data)})
        if event == "done":
            self.status = data["status"]

    def list_edits(self) -> list[tuple[str, str]]:
        """Return the page and the id of each suggestion."""
        found = [each["data"] for each in self.events if each["event"] == "edit"]
        return [(data["page"], data["suggestion"]["id"]) for data in found]

    def to_json(self) -> dict[str, Any]:
        """Return it as it is stored."""
        return asdict(self)

    def to_client_json(self) -> dict[str, Any]:
        """Return it as clients see it."""
        return {name: value for name, value in asdict(self).items() if name != "reply"}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ChatTurn:
        """Read what ``to_json`` gave. What was going on then broke off.

        Raises:
            KeyError, TypeError: it is something else.
        """
        known = {each.name: data[each.name] for each in fields(cls) if each.name in data}
        turn = cls(**known)
        if turn.status == "running":
            turn.status = "interrupted"
        return turn


class DocumentConversation:
    """The turns of one page, in the order in which they were asked."""

    def __init__(self, turns: Iterable[ChatTurn] = ()) -> None:
        self.turns: dict[str, ChatTurn] = {turn.id: turn for turn in sorted(turns, key=_get_order)}
        self.version = ""
        """Another one whenever a turn began, ended or went; not while an answer grows."""
        self.renew_version()

    @classmethod
    def from_json(cls, stored: Iterable[Mapping[str, Any]]) -> DocumentConversation:
        """Read what was stored; what cannot be read is left out."""
        found: list[ChatTurn] = []
        for each in stored:
            try:
                found.append(ChatTurn.from_json(each))
            except (KeyError, TypeError):
                continue
        return cls(found)

    def renew_version(self) -> None:
        """Let clients see that there is news."""
        self.version = secrets.token_hex(6)

    def begin(self, run: str, by: str, message: str, mode: str, pages: Sequence[str]) -> ChatTurn:
        """Add a request to which the answer comes now."""
        last = max((turn.at for turn in self.turns.values()), default=0)
        at = max(time.time_ns() // 1_000_000, last + 1)
        turn = ChatTurn(id=run, at=at, by=by, message=message, mode=mode, pages=list(pages))
        self.turns[run] = turn
        self.renew_version()
        return turn

    def list_ended(self, sees: Callable[[ChatTurn], bool]) -> list[ChatTurn]:
        """Return the turns that are over and that a person may see."""
        return [turn for turn in self.turns.values() if turn.status != "running" and sees(turn)]

    def remove(self, turns: Iterable[ChatTurn]) -> list[str]:
        """Forget turns; return their ids."""
        ids = [turn.id for turn in turns if self.turns.pop(turn.id, None) is not None]
        self.renew_version()
        return ids

    def list_surplus(self) -> list[ChatTurn]:
        """Return the oldest turns, of which there are too many."""
        ended = self.list_ended(lambda _: True)
        return ended[: max(0, len(self.turns) - MAX_TURNS)]


class History(NamedTuple):
    """Earlier turns as a model is told them."""

    messages: list[Message]
    lead: str
    """What is to stand before the request that comes now; empty, or ends with an empty line."""


def build_history(turns: Sequence[ChatTurn], budget: int, describe: Callable[[ChatTurn], str]) -> History:
    """Return earlier turns for the model, in no more than about this many bytes of UTF-8.

    The last turns are told whole. Of those before there is one line each with what was asked, as far as there
    is room, and a line that says how many are left out. ``describe`` tells what became of a turn's edits.
    """
    if budget <= 0 or not turns:
        return History([], "")
    whole = _count_last(turns, budget)
    if whole < len(turns):
        whole = max(_count_last(turns, budget * 3 // 4), 1)
    older, last = turns[: len(turns) - whole], turns[len(turns) - whole :]
    lead = _list_requests(older, budget // 4)
    messages: list[Message] = []
    for turn in last:
        messages.append(UserMessage(text=f"{lead}{format_request(turn.by, turn.message)}"))
        messages.append(Reply(text=_truncate(turn.reply or turn.text, budget * 3 // 4) or "…"))
        notes = [_ENDINGS.get(turn.status, ""), describe(turn)]
        note = " ".join(each for each in notes if each)
        lead = f"(Of your answer above: {note})\n\n" if note else ""
    return History(messages, lead)


def format_request(by: str, message: str) -> str:
    """Return a request with who asks."""
    return f"{by}: {message}" if by else message


def _count_last(turns: Sequence[ChatTurn], budget: int) -> int:
    left = budget
    for number, turn in enumerate(reversed(turns)):
        left -= _count_bytes(turn.by + turn.message + (turn.reply or turn.text))
        if left < 0:
            return number
    return len(turns)


def _list_requests(older: Sequence[ChatTurn], budget: int) -> str:
    if not older:
        return ""
    lines: list[str] = []
    for turn in reversed(older):
        line = f"- {format_request(turn.by, ' '.join(turn.message.split()))[:_MAX_LINE]}"
        budget -= _count_bytes(line) + 1
        if budget < 0:
            break
        lines.append(line)
    left_out = len(older) - len(lines)
    first = [f"({left_out} more before these are left out.)"] if left_out else []
    told = "\n".join([*first, *reversed(lines)])
    return f"Earlier requests on this page, without their answers:\n{told}\n\n"


def _truncate(text: str, budget: int) -> str:
    if _count_bytes(text) <= budget:
        return text
    shown = text.encode("utf-8", "replace")[:budget].decode("utf-8", "ignore")
    return f"{shown}\n[the rest is left out]"


def _count_bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _get_order(turn: ChatTurn) -> tuple[int, str]:
    return turn.at, turn.id
