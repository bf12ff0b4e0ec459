"""More than two sides: each ranks the others' answers, blind, and gives reasons. And the second opinion."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.debate import rounds
from kakite.debate.answers import Answer, Opinion, read_block
from kakite.debate.mcp.results import build_result
from kakite.debate.model import Debate, DebateError, ParticipantInfo, assign_letters, compute_ranking
from kakite.debate.rounds import get_status, next_requests
from kakite.debate.transcript.html import render_html
from kakite.debate.transcript.markdown import render_markdown
from kakite.debate.transcript.model import build_transcript
from tests.debate.arguing import CLAUDE, CODEX, THIRD, answered, failure, judging, terms

SIDES = (CODEX, CLAUDE, THIRD, ParticipantInfo(name="fourth"))
NAMES = tuple(each.name for each in SIDES)
OPINIONS: tuple[Opinion, ...] = ("accept", "accept_with_changes", "reject")
ORDERS = st.fixed_dictionaries({name: st.permutations(NAMES) for name in NAMES})


def blind(*sides: ParticipantInfo, seed: int = 0) -> Debate:
    """Return a debate after the round in which each answers alone."""
    return answered(rounds.begin("Why?", terms(*sides, seed=seed)))


def ranking(debate: Debate, side: str, order: tuple[str, ...], *issues: str) -> Answer:
    """Return a side's answer that rejects all and ranks them so, by the letters that it is shown."""
    rejected: dict[str, Opinion] = dict.fromkeys(debate.terms.names, "reject")
    said = judging(debate, side, rejected, *issues)
    letters = assign_letters(debate, len(debate.rounds) + 1, side)
    return replace(said, ranking=tuple(letters[name] for name in order if name in letters))


@given(ORDERS, st.integers(0, 99))
def test_scores_are_shares_whoever_had_which_letter(orders: dict[str, list[str]], seed: int) -> None:
    debate = blind(*SIDES, seed=seed)
    ranked = compute_ranking(answered(debate, lambda side: ranking(debate, side, tuple(orders[side]))))
    assert {each.side for each in ranked} == set(NAMES)
    assert sum(each.score for each in ranked) == pytest.approx(len(NAMES) / 2)
    assert [each.score for each in ranked] == sorted((each.score for each in ranked), reverse=True)
    for each in ranked:
        others = [[name for name in orders[by] if name != by] for by in NAMES if by != each.side]
        places = [order.index(each.side) for order in others]
        assert each.score == pytest.approx(sum(2 - place for place in places) / 2 / len(places))


@given(
    st.fixed_dictionaries(
        {by: st.fixed_dictionaries({on: st.sampled_from(OPINIONS) for on in NAMES}) for by in NAMES}
    )
)
def test_without_an_order_the_verdicts_rank(opinions: dict[str, dict[str, Opinion]]) -> None:
    debate = blind(*SIDES)
    ranked = compute_ranking(answered(debate, lambda side: judging(debate, side, opinions[side])))
    assert sum(each.score for each in ranked) == pytest.approx(len(NAMES) / 2)
    for each in ranked:
        judges = [opinions[by] for by in NAMES if by != each.side]
        if all(judge[each.side] == "accept" for judge in judges):
            assert each.score >= 0.5
        if all(judge[each.side] == "reject" for judge in judges):
            assert each.score <= 0.5


def test_its_own_answer_counts_for_nobody() -> None:
    debate = blind(CODEX, CLAUDE, THIRD)
    ranked = compute_ranking(
        answered(
            debate,
            lambda side: ranking(
                debate, side, (side, *(name for name in debate.terms.names if name != side))
            ),
        )
    )
    assert {each.side: each.score for each in ranked} == {"codex": 1.0, "claude": 0.5, "third": 0.0}


def test_between_two_sides_there_is_no_ranking() -> None:
    debate = blind(CODEX, CLAUDE)
    assert "ranking" not in next_requests(debate)[0].prompt
    assert compute_ranking(answered(debate, lambda side: ranking(debate, side, ("codex", "claude")))) == ()


def test_three_are_asked_for_one_and_nobody_is_named() -> None:
    for ask in next_requests(blind(CODEX, CLAUDE, THIRD)):
        assert '  "ranking": [' in ask.prompt
        assert not any(name in ask.prompt for name in ("codex", "claude", "third"))


def test_one_that_fails_takes_nothing_from_the_ranking() -> None:
    debate = blind(*SIDES)
    ranked = compute_ranking(
        answered(
            debate,
            lambda side: failure() if side == "third" else ranking(debate, side, NAMES),
        )
    )
    assert [each.side for each in ranked] == list(NAMES)
    assert [each.judges for each in ranked] == [2, 2, 3, 2]


@pytest.mark.parametrize(
    "said", [["B", "A", "C"], "B > A > C", ["Answer B", "[a]", "C", "B"], "[B] > [A] > [C]"]
)
def test_a_ranking_is_read_in_any_form(said: object) -> None:
    assert read_block(json.dumps({"ranking": said})).ranking == ("B", "A", "C")


@pytest.mark.parametrize("said", [None, 3, {}, [], ["new", "none of them", 7]])
def test_what_is_no_ranking_is_none(said: object) -> None:
    assert read_block(json.dumps({"claim": "x", "ranking": said})).ranking == ()


def test_it_is_told_everywhere_with_its_reasons_and_the_dissent() -> None:
    debate = blind(CODEX, CLAUDE, THIRD)
    debate = answered(
        debate, lambda side: ranking(debate, side, ("third", "claude", "codex"), f"{side} objects")
    )
    told = build_transcript(debate)
    assert [each["side"] for each in told["ranking"]] == ["third", "claude", "codex"]
    assert {verdict["by"] for verdict in told["ranking"][0]["verdicts"]} == {"codex", "claude"}
    assert len(told["dissent"]) == 6
    assert build_result(debate)["ranking"] == told["ranking"]
    assert "1. **third**: better than 100 % of the others, say 2" in render_markdown(told)
    assert "How the sides rank the answers" in render_html(told)


def test_a_second_opinion_is_one_answer_of_a_page_and_needs_one_side() -> None:
    debate = rounds.begin("Why?", replace(terms(CODEX), mode="quick"))
    (ask,) = next_requests(debate)
    assert "300 words" in ask.prompt
    debate = answered(debate)
    now = get_status(debate)
    assert (now.status, now.ending, next_requests(debate)) == ("ok", "rounds", ())
    assert build_transcript(debate)["ranking"] == []
    failed = answered(rounds.begin("Why?", replace(terms(CODEX), mode="quick")), lambda _: failure())
    assert get_status(failed).status == "error"


def test_in_other_modes_one_side_is_too_few() -> None:
    with pytest.raises(DebateError) as caught:
        rounds.begin("Why?", terms(CODEX))
    assert caught.value.code == "bad_terms"
