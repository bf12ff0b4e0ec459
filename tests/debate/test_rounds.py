"""Whose move it is in a debate, without a clock, a program or a file."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from kakite.debate import rounds
from kakite.debate.answers import Answer, FailureCode, Opinion, ParticipantFailure, Reply, Verdict
from kakite.debate.model import (
    Debate,
    DebateConfig,
    DebateError,
    DebateLimits,
    Decision,
    DecisionKind,
    Order,
    ParticipantInfo,
    assign_letters,
    collect_verdicts,
)
from kakite.debate.rounds import (
    DebateEvent,
    DebateStarted,
    DebateStopped,
    DecisionMade,
    ReplyReceived,
    decode_debate,
    decode_event,
    encode_debate,
    encode_event,
    replay,
)
from tests.debate.arguing import CLAUDE, CODEX, THIRD, answer, answered, failure, judging, terms

QUESTION = "Which database should a small bookshop use?"
EVERYONE: dict[str, Opinion] = {"codex": "accept", "claude": "accept"}
NOBODY: dict[str, Opinion] = {"codex": "reject", "claude": "reject"}


def begun(**changes: object) -> Debate:
    return rounds.begin(QUESTION, terms(**changes))  # pyright: ignore[reportArgumentType]


def decision(kind: DecisionKind = "custom_instruction", text: str = "go on", side: str = "") -> Decision:
    return Decision(kind=kind, text=text, side=side)


def test_first_all_sides_are_asked_at_once_and_see_nothing_of_each_other() -> None:
    asks = rounds.next_requests(begun())
    assert [(ask.side, ask.round, ask.purpose) for ask in asks] == [
        ("codex", 1, "answer"),
        ("claude", 1, "answer"),
    ]
    assert asks[0].prompt == asks[1].prompt
    assert QUESTION in asks[0].prompt


def test_while_one_is_missing_only_it_is_due_and_its_prompt_stays_the_same() -> None:
    debate = begun()
    _, claude = rounds.next_requests(debate)
    debate = rounds.on_reply(debate, "codex", 1, answer("mine"))
    assert rounds.next_requests(debate) == (claude,)
    assert rounds.get_status(debate).waiting == ("claude",)


def test_then_each_is_shown_all_answers_under_letters() -> None:
    debate = answered(begun(), lambda side: answer(f"the answer of side {side[1]}"))
    asks = rounds.next_requests(debate)
    assert [ask.purpose for ask in asks] == ["critique", "critique"]
    for ask in asks:
        assert "the answer of side o" in ask.prompt
        assert "the answer of side l" in ask.prompt
        assert {'<answer letter="A">', '<answer letter="B">'} <= set(ask.prompt.splitlines())


def test_after_the_rounds_that_were_agreed_on_a_person_decides() -> None:
    debate = answered(answered(begun()))
    assert rounds.next_requests(debate) == ()
    now = rounds.get_status(debate)
    assert (now.status, now.ending, now.turn, now.round) == ("ok", "rounds", 1, 2)


def test_when_each_accepts_the_other_nothing_further_is_asked() -> None:
    debate = answered(begun(rounds=4))
    debate = answered(debate, lambda side: judging(debate, side, EVERYONE))
    now = rounds.get_status(debate)
    assert (now.status, now.ending, now.agreement, now.dissent) == ("ok", "agreement", "agree", ())


def test_what_a_side_says_of_its_own_answer_does_not_count() -> None:
    debate = answered(begun(rounds=4))
    debate = answered(debate, lambda side: judging(debate, side, {side: "reject", **_other(side, "accept")}))
    assert rounds.get_status(debate).ending == "agreement"


def test_one_that_does_not_accept_is_dissent_and_kept() -> None:
    debate = answered(begun(rounds=2))

    def say(side: str) -> Answer:
        return judging(debate, side, _other(side, "accept" if side == "codex" else "reject"), "too slow")

    debate = answered(debate, say)
    now = rounds.get_status(debate)
    assert (now.agreement, now.ending) == ("partly", "rounds")
    assert [(each.by, each.on, each.opinion, each.issues) for each in now.dissent] == [
        ("claude", "codex", "reject", ("too slow",))
    ]


def test_when_each_stands_by_its_own_answer_nothing_further_is_asked() -> None:
    debate = answered(begun(rounds=4))
    debate = answered(debate, lambda side: judging(debate, side, NOBODY, position=side))
    now = rounds.get_status(debate)
    assert (now.ending, now.agreement) == ("stability", "disagree")


@pytest.mark.parametrize(("then", "stands"), [("Use SQLite.", True), ("Do not use SQLite.", False)])
def test_who_does_not_say_where_it_stands_does_if_it_claims_the_same(then: str, stands: bool) -> None:
    debate = answered(begun(rounds=4), lambda _: answer(claim="use sqlite"))
    debate = answered(debate, lambda _: answer(claim=then))
    assert (rounds.get_status(debate).ending == "stability") is stands


def test_when_the_same_is_held_against_each_other_twice_nothing_further_is_asked() -> None:
    debate = answered(begun(rounds=4))
    for issue in ("It forgets about concurrent writers.", "It forgets concurrent writers!"):
        assert rounds.get_status(debate).status == "running"
        held = debate
        debate = answered(
            debate,
            lambda side, issue=issue, held=held: judging(held, side, NOBODY, issue, position="new"),
        )
    assert rounds.get_status(debate).ending == "deadlock"


def test_another_objection_goes_on() -> None:
    debate = answered(begun(rounds=4))
    for issue in ("It forgets about concurrent writers.", "It costs too much."):
        held = debate
        debate = answered(
            debate,
            lambda side, issue=issue, held=held: judging(held, side, NOBODY, issue, position="new"),
        )
    assert rounds.get_status(debate).status == "running"


def test_when_one_fails_the_other_answer_is_there_and_a_person_decides() -> None:
    debate = answered(begun(), lambda side: failure() if side == "codex" else answer("mine"))
    now = rounds.get_status(debate)
    assert (now.status, now.ending, [name for name, _ in now.failures]) == ("degraded", "failure", ["codex"])
    assert debate.turn.answers["claude"].text == "mine"


def test_who_failed_is_asked_anew_when_a_person_goes_on() -> None:
    debate = answered(begun(), lambda side: failure() if side == "codex" else answer("mine"))
    debate = rounds.on_decision(debate, decision("continue"))
    assert [ask.side for ask in rounds.next_requests(debate)] == ["codex", "claude"]
    assert "mine" in rounds.next_requests(debate)[0].prompt


@pytest.mark.parametrize("code", ["timed_out", "silent", "not_installed", "not_logged_in", "exited"])
@pytest.mark.parametrize("order", ["parallel", "staged"])
def test_two_go_on_without_the_third_that_is_asked_anew_in_the_next_turn(
    code: FailureCode, order: Order
) -> None:
    failed = failure(code=code, message="no", hint="do", seconds=600.0, input_tokens=5, partial="half")
    debate = answered(
        rounds.begin(QUESTION, terms(CODEX, CLAUDE, THIRD, rounds=3, order=order, asks=8)),
        lambda side: failed if side == "third" else answer(side),
    )
    assert rounds.get_status(debate).waiting == ("codex", "claude")
    debate = answered(debate)
    debate = answered(debate)
    now = rounds.get_status(debate)
    assert (now.status, now.ending, now.round, debate.asks) == ("degraded", "rounds", 3, 7)
    ((name, told),) = now.failures
    assert (name, told.code, told.hint) == ("third", code, "do")
    assert (told.message, told.seconds, told.tokens) == ("not asked again in this turn: no", 0, 0)
    with pytest.raises(DebateError):
        rounds.on_reply(debate, "third", 3, answer())


@pytest.mark.parametrize("code", ["rate_limited", "stream_cut", "http_error"])
def test_a_third_whose_failure_may_have_passed_is_asked_again(code: FailureCode) -> None:
    debate = answered(
        rounds.begin(QUESTION, terms(CODEX, CLAUDE, THIRD)),
        lambda side: failure(code=code) if side == "third" else answer(side),
    )
    assert [ask.purpose for ask in rounds.next_requests(debate)] == ["critique"] * 3


def test_one_alone_does_not_go_on_and_a_person_has_all_asked_anew() -> None:
    debate = answered(
        rounds.begin(QUESTION, terms(CODEX, CLAUDE, THIRD, rounds=3)),
        lambda side: failure() if side == "third" else answer(side),
    )
    debate = answered(debate, lambda side: failure() if side == "claude" else answer(side))
    now = rounds.get_status(debate)
    assert (now.ending, [name for name, _ in now.failures]) == ("failure", ["third", "claude"])
    debate = rounds.on_decision(debate, decision("continue"))
    assert [ask.side for ask in rounds.next_requests(debate)] == ["codex", "claude", "third"]


def test_when_nobody_answers_it_is_an_error_and_can_be_gone_on_with() -> None:
    debate = answered(begun(), lambda _: failure())
    assert rounds.get_status(debate).status == "error"
    debate = answered(rounds.on_decision(debate, decision("continue")))
    assert rounds.get_status(debate).status == "running"
    assert debate.turn.answers.keys() == {"codex", "claude"}


def test_in_a_staged_order_the_second_sees_what_the_first_said() -> None:
    debate = begun(order="staged")
    (first,) = rounds.next_requests(debate)
    assert (first.side, first.purpose) == ("codex", "answer")
    debate = rounds.on_reply(debate, "codex", 1, answer("sqlite, said at first"))
    (second,) = rounds.next_requests(debate)
    assert (second.side, second.purpose) == ("claude", "critique")
    assert "sqlite, said at first" in second.prompt


@pytest.mark.parametrize("order", ["parallel", "staged"])
def test_an_ensemble_criticises_nobody(order: Order) -> None:
    begun, asked = rounds.begin(QUESTION, replace(terms(order=order), mode="ensemble")), list[str]()
    debate = begun
    while asks := rounds.next_requests(debate):
        asked += [ask.prompt for ask in asks]
        debate = rounds.on_reply(debate, asks[0].side, 1, answer(f"said by {asks[0].side[1]}"))
    assert set(asked) == {rounds.next_requests(begun)[0].prompt}
    assert rounds.get_status(debate).ending == "rounds"
    debate = answered(rounds.on_decision(debate, decision()))
    assert (rounds.get_status(debate).ending, rounds.get_status(debate).round) == ("rounds", 2)


def test_steps_of_a_person_do_not_count_into_the_cap() -> None:
    debate = answered(answered(begun(rounds=2, cap=2)))
    for count in range(1, 6):
        debate = rounds.on_decision(debate, decision())
        assert [ask.purpose for ask in rounds.next_requests(debate)] == ["decision", "decision"]
        debate = answered(debate)
        assert rounds.next_requests(debate) == ()
        assert rounds.get_status(debate).round == 2 + count


@pytest.mark.parametrize(
    ("kind", "told"), [("adopt", "goes on with"), ("compromise", "compromise"), ("synthesize", "best of all")]
)
def test_a_decision_is_told_to_all_without_a_name(kind: DecisionKind, told: str) -> None:
    debate = answered(answered(begun()))
    debate = rounds.on_decision(debate, decision(kind, "Take Claude's, but cheaper.", "claude"))
    asks = rounds.next_requests(debate)
    assert len(asks) == 2
    for ask in asks:
        letter = assign_letters(debate, 3, ask.side)["claude"]
        assert ask.purpose == "decision"
        assert told in ask.prompt
        assert f"Take Answer {letter}'s, but cheaper." in ask.prompt
        assert (f"goes on with Answer {letter}" in ask.prompt) is (kind == "adopt")


def test_what_was_adopted_earlier_is_quoted_since_its_letter_now_stands_for_more() -> None:
    debate = answered(answered(begun(), lambda side: answer(claim=f"claim of {side[1]}")))
    debate = answered(rounds.on_decision(debate, decision("adopt", "", "codex")))
    asks = rounds.next_requests(debate)
    assert len(asks) == 2
    for ask in asks:
        assert 'goes on with this answer, "codex in 2"' in ask.prompt.replace("[assistant]", "codex")


def test_in_a_staged_order_the_answer_that_was_adopted_is_told_and_not_the_one_that_came_of_it() -> None:
    debate = answered(begun(order="staged", rounds=1), lambda side: answer(f"old {side[1]}"))
    debate = rounds.on_decision(debate, decision("adopt", "Take codex's.", "codex"))
    (first,) = rounds.next_requests(debate)
    assert f"goes on with Answer {assign_letters(debate, 2, 'codex')['codex']}" in first.prompt
    debate = rounds.on_reply(debate, "codex", 2, answer("new o"))
    (second,) = rounds.next_requests(debate)
    assert 'goes on with this answer, "old o"' in second.prompt
    assert "new o" in second.prompt


def test_evidence_is_judged() -> None:
    debate = answered(answered(begun()))
    debate = rounds.on_decision(debate, decision("evidence", "The shop has four branches."))
    assert {ask.purpose for ask in rounds.next_requests(debate)} == {"critique"}
    assert all("The shop has four branches." in ask.prompt for ask in rounds.next_requests(debate))


def test_objections_are_shown_to_all_by_letters() -> None:
    debate = answered(begun(rounds=3))
    held = debate
    debate = answered(
        debate, lambda side: judging(held, side, NOBODY, f"hole seen by {side[1]}", position="new")
    )
    asks = rounds.next_requests(debate)
    assert len(asks) == 2
    for ask in asks:
        known = assign_letters(debate, 3, ask.side)
        line = f"- against Answer {known['claude']}, by the author of Answer {known['codex']}: hole seen by o"
        assert line in ask.prompt.splitlines()


@pytest.mark.parametrize(
    ("state", "wrong", "code"),
    [
        ("running", decision(), "still_running"),
        ("stopped", decision(), "no_active_session"),
        ("over", decision("adopt", side="gemini"), "bad_decision"),
        ("over", decision(text=" "), "bad_decision"),
        ("over", decision("evidence", ""), "bad_decision"),
        ("failed", decision("synthesize"), "bad_decision"),
        ("spent", decision(), "budget_spent"),
    ],
)
def test_a_decision_that_does_not_fit_is_refused(state: str, wrong: Decision, code: str) -> None:
    debate = begun(asks=2) if state == "spent" else begun()
    if state in {"over", "spent", "stopped"}:
        debate = answered(debate)
    debate = {
        "stopped": rounds.on_stop(debate),
        "over": answered(begun(rounds=1)),
        "failed": answered(begun(), lambda _: failure()),
    }.get(state, debate)
    with pytest.raises(DebateError) as caught:
        rounds.on_decision(debate, wrong)
    assert caught.value.code == code


@pytest.mark.parametrize(
    "wrong",
    [
        terms(CODEX),
        terms(CODEX, CODEX),
        terms(CODEX, ParticipantInfo(name="Claude Code")),
        terms(rounds=0),
        terms(rounds=5, cap=4),
        terms(cap=11),
        terms(seconds=0),
        terms(asks=1),
    ],
)
def test_terms_that_make_no_sense_are_refused(wrong: DebateConfig) -> None:
    with pytest.raises(DebateError) as caught:
        rounds.begin(QUESTION, wrong)
    assert caught.value.code == "bad_terms"


def test_a_budget_ends_it_and_tells_each_ask_what_is_left() -> None:
    debate = begun(rounds=4, seconds=100)
    assert {ask.seconds for ask in rounds.next_requests(debate)} == {100}
    debate = answered(debate, lambda side: answer(seconds=60.0 if side == "codex" else 30.0))
    assert {ask.seconds for ask in rounds.next_requests(debate)} == {40}  # they were at work at the same time
    debate = answered(debate, lambda _: answer(seconds=41.0))
    assert rounds.get_status(debate).ending == "budget"


def test_a_reply_that_comes_when_the_debate_was_stopped_is_kept() -> None:
    debate = rounds.on_stop(rounds.on_reply(begun(), "codex", 1, answer("first")))
    assert rounds.next_requests(debate) == ()
    debate = rounds.on_reply(debate, "claude", 1, answer("late"))
    assert debate.turn.answers["claude"].text == "late"
    assert rounds.get_status(debate).status == "stopped"


def test_nobody_replies_twice_or_unasked() -> None:
    debate = rounds.on_reply(begun(), "codex", 1, answer())
    for side, number in (("codex", 1), ("claude", 2), ("gemini", 1)):
        with pytest.raises(DebateError) as caught:
            rounds.on_reply(debate, side, number, answer())
        assert caught.value.code == "not_asked"


def test_the_same_seed_gives_the_same_letters_and_seeds_differ() -> None:
    def drawn(seed: int) -> tuple[dict[str, str], ...]:
        debate = answered(rounds.begin(QUESTION, terms(seed=seed)))
        return tuple(assign_letters(debate, 2, side) for side in ("codex", "claude"))

    assert drawn(7) == ({"claude": "A", "codex": "B"},) * 2  # in any version
    assert len({str(drawn(seed)) for seed in range(40)}) == 4


# Laws

SIGNED = st.sampled_from(
    [
        "As Claude, I would say yes.",
        "I am Codex, a model by OpenAI.",
        "Yes.\n\n— Claude",
        "No.\n\nCo-Authored-By: Claude <noreply@anthropic.com>",
        "claude_code and Claude Opus 4.5 do it so. CODEX too.",
        "Codexは賛成、ＧＰＴ? GPT-5.1 says no",
        "[Claude](https://claude.ai) \N{ROBOT FACE} Generated with [Claude Code](https://claude.com)",
    ]
)
TEXTS = st.one_of(SIGNED, st.text(min_size=1, max_size=60).filter(str.strip))
OPINIONS = st.sampled_from(["accept", "accept_with_changes", "reject"])
VERDICTS = st.builds(
    Verdict,
    on=st.sampled_from("ABC"),
    opinion=OPINIONS,
    issues=st.lists(TEXTS, max_size=2).map(tuple),
    strongest=TEXTS,
)
ANSWERS = st.builds(
    Answer,
    text=TEXTS,
    claim=st.one_of(st.sampled_from(["", "yes", "no"]), TEXTS),
    confidence=st.none() | st.integers(0, 100),
    would_change_my_mind=TEXTS,
    verdicts=st.lists(VERDICTS, max_size=3, unique_by=lambda verdict: verdict.on).map(tuple),
    position=st.sampled_from(["", "A", "B", "C", "new"]),
    seconds=st.floats(0, 50),
    input_tokens=st.integers(0, 1000),
)
FAILURES = st.builds(
    ParticipantFailure,
    code=st.sampled_from(["timed_out", "empty_answer", "http_error"]),
    message=TEXTS,
    partial=TEXTS,
)
REPLIES: st.SearchStrategy[Reply] = st.one_of(ANSWERS, FAILURES)
# A person's words may name a maker, which then is a topic; they may name sides, which are told as letters.
WORDS = st.sampled_from(["Take Claude's, but cheaper.", "codex は良い", "CLAUDE or Codex?", "More detail."])
DECISIONS = st.one_of(
    st.builds(Decision, kind=st.just("adopt"), side=st.sampled_from(["codex", "claude"]), text=WORDS),
    st.builds(
        Decision,
        kind=st.sampled_from(["custom_instruction", "compromise", "synthesize", "evidence", "continue"]),
        text=WORDS,
    ),
)
BUDGETS = st.builds(
    DebateLimits,
    seconds=st.none() | st.floats(1, 200),
    tokens=st.none() | st.integers(1, 8000),
    asks=st.none() | st.integers(3, 20),
)


@st.composite
def all_terms(draw: st.DrawFn) -> DebateConfig:
    cap = draw(st.integers(1, 6))
    return DebateConfig(
        sides=draw(st.sampled_from([(CODEX, CLAUDE), (CODEX, CLAUDE, THIRD)])),
        mode=draw(st.sampled_from(["debate", "debate", "debate", "ensemble"])),
        order=draw(st.sampled_from(["parallel", "staged"])),
        rounds=draw(st.integers(1, cap)),
        cap=cap,
        budget=draw(BUDGETS),
        seed=draw(st.integers()),
    )


class Course(RuleBasedStateMachine):
    """Any course that a debate can take."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[DebateEvent] = []
        self.said: list[tuple[str, int, Reply]] = []
        self.steps = 0
        self.refused: set[str] = set()
        self.asked: set[tuple[str, int]] = set()

    @initialize(terms=all_terms())
    def begin(self, terms: DebateConfig) -> None:
        self.debate = rounds.begin(QUESTION, terms)
        self.events.append(DebateStarted(prompt=QUESTION, terms=terms))

    @precondition(lambda self: bool(rounds.next_requests(self.debate)))
    @rule(data=st.data(), reply=REPLIES)
    def reply(self, data: st.DataObject, reply: Reply) -> None:
        ask = data.draw(st.sampled_from(rounds.next_requests(self.debate)))
        self.asked.add((ask.side, ask.round))
        self.said.append((ask.side, ask.round, reply))
        self.debate = rounds.on_reply(self.debate, ask.side, ask.round, reply)
        self.events.append(ReplyReceived(side=ask.side, round=ask.round, reply=reply))

    @rule(decision=DECISIONS)
    def decide(self, decision: Decision) -> None:
        try:
            self.debate = rounds.on_decision(self.debate, decision)
        except DebateError as error:
            self.refused.add(error.code)
            return
        self.events.append(DecisionMade(decision=decision))
        self.steps += 1
        assert rounds.next_requests(self.debate), "a step is always gone on with"

    @precondition(lambda self: len(self.said) > 6)
    @rule()
    def stop(self) -> None:
        self.debate = rounds.on_stop(self.debate)
        self.events.append(DebateStopped(why="person"))

    @invariant()
    def a_decision_is_refused_for_a_known_reason(self) -> None:
        assert self.refused <= {"still_running", "no_active_session", "budget_spent", "bad_decision"}

    @invariant()
    def no_answer_is_lost(self) -> None:
        for side, number, reply in self.said:
            kept = self.debate.rounds[number - 1].replies[side]
            if isinstance(reply, Answer):
                assert isinstance(kept, Answer)
                assert (kept.text, kept.claim) == (reply.text, reply.claim)
            else:
                assert kept == reply
        answered = {(side, number) for side, number, _ in self.said}
        kept = {
            (side, number): reply
            for number, each in enumerate(self.debate.rounds, start=1)
            for side, reply in each.replies.items()
        }
        assert answered <= kept.keys()
        assert self.debate.asks == len(answered)
        for each in kept.keys() - answered:
            reply = kept[each]
            assert isinstance(reply, ParticipantFailure)
            assert (reply.code != "http_error", reply.seconds, reply.tokens) == (True, 0, 0)
            assert reply.message.startswith("not asked again")

    @invariant()
    def nothing_is_asked_after_the_cap_and_steps_do_not_count(self) -> None:
        terms = self.debate.terms
        for ask in rounds.next_requests(self.debate):
            assert ask.round <= terms.cap + self.steps
            assert (ask.side, ask.round) not in self.asked
            assert ask.seconds is None or ask.seconds >= 0
        assert self.debate.automatic_rounds <= terms.cap
        assert all(len(turn.rounds) <= terms.rounds for turn in self.debate.turns)

    @invariant()
    def a_budget_is_passed_by_no_more_than_a_round(self) -> None:
        budget, before = self.debate.terms.budget, self.debate
        if before.turn.rounds:
            turn = replace(before.turn, rounds=before.turn.rounds[:-1])
            before = replace(before, turns=(*before.turns[:-1], turn))
            assert budget.tokens is None or before.tokens < budget.tokens
            assert budget.seconds is None or before.seconds < budget.seconds
        assert budget.asks is None or self.debate.asks <= budget.asks

    @invariant()
    def no_prompt_names_or_signs(self) -> None:
        for ask in rounds.next_requests(self.debate):
            found = re.findall(
                r"(?<![A-Za-z0-9])(?:codex|claude|openai|gpt|anthropic|opus)(?![A-Za-z0-9])|authored-by",
                ask.prompt,
                re.IGNORECASE,
            )
            assert found == []

    @invariant()
    def it_is_running_as_long_as_something_is_due(self) -> None:
        now = rounds.get_status(self.debate)
        assert (now.status == "running") is bool(rounds.next_requests(self.debate))
        assert (now.ending is None) is (now.status == "running")
        if now.status == "ok":
            assert self.debate.turn.answers.keys() == set(self.debate.terms.names)
        assert all(each.by != each.on for each in collect_verdicts(self.debate))

    @invariant()
    def stored_and_loaded_it_is_the_same(self) -> None:
        assert decode_debate(encode_debate(self.debate)) == self.debate
        assert replay([decode_event(encode_event(event)) for event in self.events]) == self.debate


TestCourse = Course.TestCase
TestCourse.settings = settings(stateful_step_count=20)


@given(all_terms(), st.lists(DECISIONS, max_size=3), st.data())
def test_it_ends_whatever_is_replied(
    terms: DebateConfig, decisions: list[Decision], data: st.DataObject
) -> None:
    debate, asked = rounds.begin(QUESTION, terms), 0
    for step in (None, *decisions):
        if step:
            try:
                debate = rounds.on_decision(debate, step)
            except DebateError:
                continue
        while asks := rounds.next_requests(debate):
            for ask in asks:
                debate = rounds.on_reply(debate, ask.side, ask.round, data.draw(REPLIES))
                asked += 1
                assert asked <= (terms.cap + len(decisions)) * len(terms.sides)
    assert rounds.get_status(debate).ending


def _other(side: str, opinion: Opinion) -> dict[str, Opinion]:
    return {"claude" if side == "codex" else "codex": opinion}
