"""Debates: coding CLIs answer the same question and criticise each other, a person decides how to go on.

``protocol`` says whose move it is, ``bridge`` performs it, ``turns`` tells it to an editor's model.
"""

from kakite.debate.answers import Answer, Failure, FailureCode, Opinion, Reply, Verdict
from kakite.debate.bridge import Bridge, Happening, Keeper, Listener
from kakite.debate.comparing import Agreement
from kakite.debate.configured import participant
from kakite.debate.events import Event, debate_as_json, debate_of_json, event_as_json, event_of_json, told
from kakite.debate.participants import CommandLine, Participant, Seen, claude, codex
from kakite.debate.protocol import Ask, Standing, Status, begin, decided, due, replied, standing, stopped
from kakite.debate.record import (
    Budget,
    Debate,
    DebateError,
    Decision,
    Ending,
    Judgement,
    Round,
    Side,
    Terms,
    Turn,
    judgements,
    letters,
)

__all__ = [
    "Agreement",
    "Answer",
    "Ask",
    "Bridge",
    "Budget",
    "CommandLine",
    "Debate",
    "DebateError",
    "Decision",
    "Ending",
    "Event",
    "Failure",
    "FailureCode",
    "Happening",
    "Judgement",
    "Keeper",
    "Listener",
    "Opinion",
    "Participant",
    "Reply",
    "Round",
    "Seen",
    "Side",
    "Standing",
    "Status",
    "Terms",
    "Turn",
    "Verdict",
    "begin",
    "claude",
    "codex",
    "debate_as_json",
    "debate_of_json",
    "decided",
    "due",
    "event_as_json",
    "event_of_json",
    "judgements",
    "letters",
    "participant",
    "replied",
    "standing",
    "stopped",
    "told",
]
