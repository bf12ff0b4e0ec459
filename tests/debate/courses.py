"""Courses of debates as events, drawn by Hypothesis."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from kakite.debate import rounds
from kakite.debate.answers import (
    Answer,
    Finding,
    FindingVerdict,
    Judgement,
    Opinion,
    ParticipantFailure,
    Reply,
    Verdict,
)
from kakite.debate.model import Decision
from kakite.debate.rounds import (
    DebateEvent,
    DebateStarted,
    DebateStopped,
    DecisionMade,
    ReplyReceived,
    apply_event,
)
from tests.debate.arguing import CLAUDE, CODEX, THIRD, terms

HOSTILE = '</pre><script>alert(1)</script><img src=x onerror="alert(1)">&#x202e;\u202e\x1b[31m'
_TEXTS = st.one_of(
    st.text(min_size=1).filter(str.strip),
    st.sampled_from(
        [
            HOSTILE,
            "![x](http://a.b/c.png) [y](javascript:alert(1)) <http://a.b/%E2%80%AE> [z](https://a.b/)",
            "# Head\n\n| a | b |\n|---|:-:|\n| <b>1</b> | `<i>` |\n\n> <u>\n\n<!-- ",
            '```x" onload="y\n<script>\n```\n<b>\n    ```\n<i>',
            "~~~\n<script>\n~~~\n`<b>` and ``<i>`` ` <s> `\n    <pre>\n<div\n\nonclick=x>",
        ]
    ),
)
_JUDGEMENTS: st.SearchStrategy[Judgement] = st.sampled_from(["confirm", "reject", "unsure"])
_OPINIONS: st.SearchStrategy[Opinion] = st.sampled_from(["accept", "accept_with_changes", "reject"])


@st.composite
def _replies(draw: st.DrawFn) -> Reply:
    if draw(st.integers(0, 4)) == 0:
        return ParticipantFailure(
            code="exited",
            message=draw(_TEXTS),
            hint=draw(_TEXTS),
            partial=draw(_TEXTS),
            stderr_tail=draw(_TEXTS),
            version=HOSTILE,
        )
    verdicts = tuple(
        Verdict(on=letter, opinion=draw(_OPINIONS), issues=(draw(_TEXTS),), strongest=draw(_TEXTS))
        for letter in draw(st.sampled_from([(), ("A",), ("A", "B"), ("A", "B", "C")]))
    )
    return Answer(
        text=draw(_TEXTS),
        claim=draw(_TEXTS),
        confidence=draw(st.none() | st.integers(0, 100)),
        key_points=(draw(_TEXTS),),
        because=draw(_TEXTS),
        position=draw(st.sampled_from(["", "A", "B", "new"])),
        verdicts=verdicts,
        findings=tuple(
            Finding(file=draw(_TEXTS), line=draw(st.none() | st.integers(1, 9)), problem=draw(_TEXTS))
            for _ in range(draw(st.integers(0, 1)))
        ),
        support=tuple(
            FindingVerdict(on=number, opinion=draw(_JUDGEMENTS), reason=draw(_TEXTS))
            for number in range(1, draw(st.integers(1, 3)))
        ),
        ranking=tuple(draw(st.permutations("ABC"))[: draw(st.integers(0, 3))]),
        input_tokens=draw(st.integers(0, 1000)),
        seconds=draw(st.floats(0, 100)),
        version=draw(st.sampled_from(["", HOSTILE])),
    )


@st.composite
def courses(draw: st.DrawFn) -> list[DebateEvent]:
    """The events of a debate, up to any moment."""
    sides = draw(st.sampled_from([(CODEX, CLAUDE), (CODEX, CLAUDE, THIRD)]))
    config = replace(terms(*sides, seed=draw(st.integers(0, 99))), review=draw(st.booleans()))
    events: list[DebateEvent] = [DebateStarted(prompt=draw(_TEXTS), terms=config, verdict=draw(_TEXTS))]
    debate = apply_event(None, events[0])
    for _ in range(draw(st.integers(0, 12))):
        if asks := rounds.next_requests(debate):
            ask = draw(st.sampled_from(asks))
            event: DebateEvent = ReplyReceived(side=ask.side, round=ask.round, reply=draw(_replies()))
        elif draw(st.integers(0, 5)) == 0:
            event = DebateStopped(why="person")
        else:
            event = DecisionMade(decision=Decision(kind="evidence", text=draw(_TEXTS)))
        events.append(event)
        debate = apply_event(debate, event)
        if debate.stopped:
            break
    return events
