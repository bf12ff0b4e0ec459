"""Suggestions: never in the text before they are accepted, never over what people have changed."""

from __future__ import annotations

import json
import re
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.collab.shared_text import SharedText
from kakite.collab.suggestions.store import (
    AlreadyResolved,
    Suggestion,
    SuggestionError,
    SuggestionNotFound,
    Suggestions,
    TextChanged,
)
from kakite.edit import Change, ChangeSet, Edit, EditError
from tests.collab.replicas import joined, meet, put

PAGE = "# 見出し 👍\nthe quick brown fox\n二行目の文です。\nsame\nother\nsame\n"


def page(text: str = PAGE) -> Suggestions:
    shared = SharedText()
    put(shared, 0, 0, text)
    return Suggestions(shared, page="notes.md")


def propose(suggestions: Suggestions, search: str, replace: str, run: str = "r1") -> Suggestion:
    return suggestions.propose(Edit(search=search, replace=replace), run=run, by="Assistant", reason="why")


def typed(suggestions: Suggestions, before: str, what: str) -> None:
    """A person types in front of something."""
    at = str(suggestions.text).index(before)
    put(suggestions.text, at, at, what)


def test_a_suggestion_is_not_in_the_text_until_it_is_accepted() -> None:
    suggestions = page()
    made = propose(suggestions, "the quick brown fox\n", "the slow brown fox\n")
    assert str(suggestions.text) == PAGE
    assert suggestions.list_pending() == [made]
    assert made.to_json(suggestions.text) == {
        "id": made.id,
        "page": "notes.md",
        "run": "r1",
        "search": "the quick brown fox\n",
        "replace": "the slow brown fox\n",
        "status": "pending",
        "line": 2,
        "range": {"start": 9, "end": 29},
        "reason": "why",
        "by": "Assistant",
        "model": "",
        "match": "exact",
        "forgiven": [],
        "version": made.version,
    }
    assert suggestions.accept(made.id).status == "accepted"
    assert str(suggestions.text) == PAGE.replace("quick", "slow")
    assert suggestions.list_pending() == []
    assert suggestions.counts == {"accepted": 1, "rejected": 0}


def test_accepting_makes_the_fewest_changes_in_one_transaction_with_the_runs_origin() -> None:
    suggestions = page()
    made = propose(
        suggestions, "the quick brown fox\n二行目の文です。\n", "the slow brown dog\n三行目の文です。\n"
    )
    told: list[tuple[ChangeSet, object]] = []
    updates: list[bytes] = []
    suggestions.text.observe(lambda changes, origin: told.append((changes, origin)))
    suggestions.text.doc.observe(lambda event: updates.append(event.update))
    suggestions.accept(made.id)
    ((changes, origin),) = told
    assert [(change.end - change.start, change.insert) for change in changes.changes] == [
        (5, "slow"),
        (3, "dog"),
        (1, "三"),
    ]
    assert (origin, len(updates)) == ("run:r1", 1)


def test_it_moves_with_its_place() -> None:
    suggestions = page()
    made = propose(suggestions, "二行目の文です。\n", "二行目の文である。\n")
    typed(suggestions, "# 見", "前に 👨‍👩‍👧\n")
    typed(suggestions, "same\nother", "just above\n")
    moved = suggestions.get(made.id)
    assert (moved.status, moved.line, moved.span.extract(str(suggestions.text))) == (
        "pending",
        4,
        "二行目の文です。\n",
    )
    suggestions.accept(made.id)
    assert "二行目の文である。\njust above\n" in str(suggestions.text)


@pytest.mark.parametrize(("before", "what"), [("quick", "very "), ("fox", "<x>"), ("brown", "👍")])
def test_a_place_that_people_have_changed_is_not_overwritten(before: str, what: str) -> None:
    suggestions = page()
    made = propose(suggestions, "the quick brown fox\n", "the quick red fox\n")
    typed(suggestions, before, what)
    text = str(suggestions.text)
    with pytest.raises(TextChanged) as caught:
        suggestions.accept(made.id)
    assert str(suggestions.text) == text
    assert suggestions.get(made.id).status == "changed"
    assert caught.value.text == text.splitlines(keepends=True)[1]
    assert caught.value.candidate is not None
    suggestions.accept(made.id, candidate=True)
    assert str(suggestions.text) == text.replace("brown", "red")
    assert suggestions.get(made.id).status == "accepted"


def test_what_people_changed_in_the_same_words_is_theirs() -> None:
    suggestions = page()
    made = propose(suggestions, "the quick brown fox\n", "the quick red fox\n")
    at = PAGE.index("brown")
    put(suggestions.text, at, at + 5, "blue")
    with pytest.raises(TextChanged) as caught:
        suggestions.accept(made.id, candidate=True)
    assert caught.value.data == {"id": made.id, "text": "the quick blue fox\n", "candidate": None}
    assert "blue" in str(suggestions.text)


def test_a_place_that_was_moved_away_is_found_where_it_went() -> None:
    suggestions = page()
    line = "the quick brown fox\n"
    made = propose(suggestions, line, "the slow fox\n")
    at = PAGE.index(line)
    put(suggestions.text, at, at + len(line), "")
    end = len(str(suggestions.text))
    put(suggestions.text, end, end, line)
    with pytest.raises(TextChanged) as caught:
        suggestions.accept(made.id)
    assert caught.value.data["candidate"] == {"search": line, "replace": "the slow fox\n", "line": 6}
    suggestions.accept(made.id, candidate=True)
    assert str(suggestions.text).endswith("same\nthe slow fox\n")


def test_a_place_that_is_removed_and_brought_back_is_as_it_was() -> None:
    suggestions = page()
    made = propose(suggestions, "二行目の文です。\n", "改めた文です。\n")
    statuses: list[str] = []
    suggestions.changed = lambda: statuses.append(suggestions.get(made.id).status)
    text = suggestions.text
    at = PAGE.index("二行目")
    text.apply(ChangeSet.of(len(PAGE), [Change(at - 3, at + 12, "")]), "person", undoable=True)
    text.undo("person")
    assert statuses == ["changed", "pending"]
    suggestions.accept(made.id)
    assert str(text) == PAGE.replace("二行目の文", "改めた文")


def test_what_people_typed_inside_survives_a_rejection() -> None:
    suggestions = page()
    made = propose(suggestions, "the quick brown fox\n", "gone\n")
    typed(suggestions, "brown", "mine ")
    text = str(suggestions.text)
    assert suggestions.reject(made.id).status == "rejected"
    assert str(suggestions.text) == text
    assert suggestions.counts == {"accepted": 0, "rejected": 1}


def test_a_suggestion_is_settled_once() -> None:
    suggestions = page()
    one, other = propose(suggestions, "other\n", "another\n"), propose(suggestions, "二行目の", "三行目の")
    suggestions.accept(one.id)
    suggestions.reject(other.id)
    text = str(suggestions.text)
    for settled in (one, other):
        for settle in (suggestions.accept, suggestions.reject):
            with pytest.raises(AlreadyResolved):
                settle(settled.id)
    assert str(suggestions.text) == text
    for settle in (suggestions.accept, suggestions.reject, suggestions.get):
        with pytest.raises(SuggestionNotFound):
            settle("nothing")


@pytest.mark.parametrize(
    ("search", "replace", "code"),
    [
        ("not there at all\n", "x\n", "not_found"),
        ("same\n", "x\n", "ambiguous"),
        ("", "x\n", "empty_search"),
        ("other\n", "other\n", "no_effect"),
        ("other\n", "\ud83d\n", "not_encodable"),
    ],
)
def test_an_edit_without_a_place_is_refused_and_kept_nowhere(search: str, replace: str, code: str) -> None:
    suggestions = page()
    with pytest.raises(EditError) as caught:
        propose(suggestions, search, replace)
    assert [failure.code for failure in caught.value.failures] == [code]
    assert suggestions.list_pending() == []
    assert str(suggestions.text) == PAGE


@pytest.mark.parametrize(
    ("search", "replace", "after"),
    [
        ("quick brown\n", "slow\n", PAGE.replace("quick brown", "slow")),
        (" brown\n", "", PAGE.replace(" brown", "")),
        ("目の\n", "行の\n", PAGE.replace("目の", "行の")),
        ("fox\n二行目\n", "dog\n二行\n", PAGE.replace("fox\n二行目", "dog\n二行")),
    ],
)
def test_a_stretch_within_a_line_that_stands_there_once_is_a_place(
    search: str, replace: str, after: str
) -> None:
    suggestions = page()
    suggestions.accept(propose(suggestions, search, replace).id)
    assert str(suggestions.text) == after


@pytest.mark.parametrize("search", ["me\n", "e\n", "o\n", "Quick brown\n"])
def test_a_stretch_within_a_line_that_stands_there_twice_or_otherwise_is_none(search: str) -> None:
    suggestions = page()
    with pytest.raises(EditError):
        propose(suggestions, search, "x\n")


def test_what_was_forgiven_is_told() -> None:
    made = propose(page(), "the quick  brown fox  \n", "the slow brown fox\n")
    assert made.match != "exact"
    assert made.forgiven
    assert made.search == "the quick brown fox\n"


def test_an_edit_of_all_places_is_a_suggestion_for_each() -> None:
    suggestions = page()
    edit = Edit(search="same\n", replace="SAME\n", all=True)
    made = suggestions.propose_each(edit, run="r", by="A")
    assert [one.line for one in made] == [4, 6]
    suggestions.reject(made[0].id)
    suggestions.accept(made[1].id)
    assert str(suggestions.text) == PAGE[:-5] + "SAME\n"


def test_a_blank_page_takes_an_edit_without_search() -> None:
    suggestions = page("\n")
    made = propose(suggestions, "", "# 新しい\r\ntext\n")
    suggestions.accept(made.id)
    assert str(suggestions.text) == "# 新しい\ntext\n"


class TestBesideEachOther:
    def test_suggestions_for_lines_that_touch_are_all_accepted_in_one_transaction(self) -> None:
        suggestions = page("one\ntwo\nthree\n")
        propose(suggestions, "two\n", "2\ninserted\n")
        propose(suggestions, "one\n", "1\ninserted\n")
        propose(suggestions, "three\n", "before\nthree\n")
        updates: list[bytes] = []
        suggestions.text.doc.observe(lambda event: updates.append(event.update))
        settled = suggestions.accept_all()
        assert str(suggestions.text) == "1\ninserted\n2\ninserted\nbefore\nthree\n"
        assert (len(settled.accepted), settled.failed, len(updates)) == (3, (), 1)

    def test_those_that_share_lines_and_change_other_words_go_together(self) -> None:
        for order in (0, 1):
            suggestions = page("alpha beta\ngamma delta\n")
            made = [
                propose(suggestions, "alpha beta\ngamma delta\n", "ALPHA beta\ngamma delta\n"),
                propose(suggestions, "alpha beta\ngamma delta\n", "alpha beta\ngamma DELTA\n"),
            ]
            suggestions.accept(made[order].id)
            left = suggestions.get(made[1 - order].id)
            assert left.status == "pending"
            assert left.search == str(suggestions.text)
            suggestions.accept(left.id)
            assert str(suggestions.text) == "ALPHA beta\ngamma DELTA\n"

    def test_the_same_at_once(self) -> None:
        suggestions = page("alpha beta\ngamma delta\n")
        propose(suggestions, "alpha beta\ngamma delta\n", "ALPHA beta\ngamma delta\n")
        propose(suggestions, "alpha beta\ngamma delta\n", "alpha beta\ngamma DELTA\n")
        assert len(suggestions.accept_all().accepted) == 2
        assert str(suggestions.text) == "ALPHA beta\ngamma DELTA\n"

    def test_of_those_that_change_the_same_words_the_first_wins_and_the_other_is_told(self) -> None:
        suggestions = page()
        one = propose(suggestions, "the quick brown fox\n", "the slow brown fox\n")
        other = propose(suggestions, "the quick brown fox\n", "the fast brown fox\n")
        settled = suggestions.accept_all()
        assert settled.accepted == (one.id,)
        assert [failed["id"] for failed in settled.to_json()["failed"]] == [other.id]
        assert suggestions.get(other.id).status == "changed"
        assert "slow" in str(suggestions.text)

    def test_each_of_several_runs_can_be_taken_back_alone(self) -> None:
        suggestions = page("one\ntwo\nthree\n")
        propose(suggestions, "one\n", "1\n", "a")
        propose(suggestions, "two\n", "2\n", "b")
        propose(suggestions, "three\n", "3\n", "a")
        assert len(suggestions.accept_all().accepted) == 3
        suggestions.text.undo("run:a")
        assert str(suggestions.text) == "one\n2\nthree\n"

    def test_changed_ones_stay_when_all_others_are_accepted(self) -> None:
        suggestions = page()
        fox, other = (
            propose(suggestions, "the quick brown fox\n", "-\n"),
            propose(suggestions, "other\n", "!\n"),
        )
        typed(suggestions, "brown", "x")
        settled = suggestions.accept_all()
        assert settled.accepted == (other.id,)
        assert [failed["code"] for failed in settled.to_json()["failed"]] == ["changed"]
        assert [one.id for one in suggestions.list_pending()] == [fox.id]
        assert suggestions.reject_all().rejected == (fox.id,)


class TestReopened:
    """Undoing how suggestions were settled."""

    def test_what_was_accepted_is_pending_again_and_can_be_accepted_again(self) -> None:
        suggestions = page()
        made = propose(suggestions, "the quick brown fox\n", "the slow fox\n")
        other = propose(suggestions, "二行目の文です。\n", "三行目の文です。\n", "r2")
        suggestions.accept_all()
        assert suggestions.reopen([made.id]) == [made.id]
        assert str(suggestions.text) == PAGE.replace("二", "三")
        assert suggestions.list_pending() == [made]
        assert suggestions.counts == {"accepted": 1, "rejected": 0}
        suggestions.accept(made.id)
        assert suggestions.reopen([made.id, other.id]) == [other.id, made.id]
        assert str(suggestions.text) == PAGE
        assert suggestions.list_pending() == [made, other]

    def test_what_was_rejected_is_pending_again_where_its_words_went(self) -> None:
        suggestions = page()
        made = propose(suggestions, "the quick brown fox\n", "the slow fox\n")
        suggestions.reject(made.id)
        typed(suggestions, "見出し", "新しい")
        suggestions.reopen([made.id])
        assert suggestions.counts == {"accepted": 0, "rejected": 0}
        suggestions.accept(made.id)
        assert str(suggestions.text) == PAGE.replace("見出し", "新しい見出し").replace("quick brown", "slow")

    def test_a_run_is_taken_back_once_whatever_was_reopened_of_it(self) -> None:
        suggestions = page()
        made = propose(suggestions, "the quick brown fox\n", "the slow fox\n")
        propose(suggestions, "二行目の文です。\n", "三行目の文です。\n")
        suggestions.accept_all([made.id])
        suggestions.accept_all()
        suggestions.reopen([made.id])
        assert suggestions.text.undo("run:r1")
        assert str(suggestions.text) == PAGE

    def test_what_was_taken_back_with_its_run_is_not_taken_back_once_more(self) -> None:
        suggestions = page()
        made = propose(suggestions, "the quick brown fox\n", "the slow fox\n")
        suggestions.accept(made.id)
        assert suggestions.text.undo("run:r1")
        with pytest.raises(SuggestionError) as caught:
            suggestions.reopen([made.id])
        assert caught.value.code == "not_revertable"
        assert str(suggestions.text) == PAGE

    @given(st.data())
    def test_what_people_type_meanwhile_stays_and_nothing_of_the_suggestions_does(
        self, data: st.DataObject
    ) -> None:
        suggestions = page()
        pairs = [("quick brown", "slow"), ("二行目の", ""), ("same\nother\n", "same\nmore\nother\n")]
        made = [propose(suggestions, search, replace) for search, replace in pairs]
        chosen = data.draw(st.lists(st.sampled_from([each.id for each in made]), min_size=1, unique=True))
        together = data.draw(st.booleans())
        for some in [chosen] if together else [[each] for each in chosen]:
            suggestions.accept_all(some)
        count = data.draw(st.integers(0, 3))
        for _ in range(count):
            at = data.draw(st.integers(0, len(str(suggestions.text))))
            put(suggestions.text, at, at, "✎")
        undone = chosen if together else data.draw(st.permutations(chosen))
        assert sorted(suggestions.reopen(undone)) == sorted(chosen)
        assert str(suggestions.text).count("✎") == count
        assert str(suggestions.text).replace("✎", "") == PAGE


class TestKept:
    def test_everything_comes_back_from_json(self) -> None:
        suggestions = page()
        fox, other = (
            propose(suggestions, "the quick brown fox\n", "-\n"),
            propose(suggestions, "other\n", "!\n"),
        )
        line = propose(suggestions, "二行目の文です。\n", "三行目の文です。\n")
        suggestions.accept(other.id)
        typed(suggestions, "行目の文", "x")
        again = restored(suggestions, joined(suggestions.text))
        assert again.list_pending() == suggestions.list_pending()
        assert [one.status for one in again.list_pending()] == ["pending", "changed"]
        assert again.counts == suggestions.counts
        with pytest.raises(AlreadyResolved):
            again.accept(other.id)
        with pytest.raises(TextChanged):
            again.accept(line.id)
        again.accept(fox.id)

    def test_a_text_that_has_moved_on_is_searched(self) -> None:
        suggestions = page()
        fox = propose(suggestions, "the quick brown fox\n", "the slow fox\n")
        line = suggestions.propose(Edit(search="same\n", replace="x\n", line=4), run="r", by="A")
        stored = json.loads(json.dumps(suggestions.to_json()))
        typed(suggestions, "# 見", "above\n")
        again = Suggestions.from_json(suggestions.text, stored, page="notes.md")
        assert again.get(fox.id).status == "pending"
        assert again.get(line.id).status == "changed", "two places read like it, and none is sure"
        again.accept(fox.id)
        assert "the slow fox" in str(again.text)

    @pytest.mark.parametrize("data", ["{}", '{"text": "", "counts": {}, "open": [{}], "settled": []}'])
    def test_what_was_not_stored_by_us_is_refused(self, data: str) -> None:
        with pytest.raises((KeyError, TypeError, ValueError)):
            Suggestions.from_json(SharedText(), json.loads(data))


def restored(suggestions: Suggestions, text: SharedText) -> Suggestions:
    return Suggestions.from_json(text, json.loads(json.dumps(suggestions.to_json())), page=suggestions.page)


def test_whatever_people_type_meanwhile_accepting_never_takes_any_of_it(proof: bool) -> None:
    """Two replicas and random typing: each word typed is there at the end, and so is what was accepted."""
    for seed in range(200 if proof else 20):
        random = Random(seed)
        suggestions = page("".join(f"line {number} 日本語の文 {number}\n" for number in range(12)))
        theirs = joined(suggestions.text)
        made = [
            propose(
                suggestions, f"line {number} 日本語の文 {number}\n", f"LINE {number} 日本語の文章 {number}\n"
            )
            for number in random.sample(range(12), 6)
        ]
        words: list[str] = []
        for step in range(30):
            words.append(f"<{seed}-{step}👍>")
            text = random.choice((theirs, suggestions.text))
            at = outside_of_words(str(text), random.randint(0, len(str(text))))
            put(text, at, at, words[-1])
            if random.random() < 0.4:
                meet(suggestions.text, theirs)
            if random.random() < 0.2 and made:
                settle(suggestions, made.pop(), random)
        for one in made:
            settle(suggestions, one, random)
        meet(suggestions.text, theirs)
        assert str(suggestions.text) == str(theirs)
        assert all(word in str(theirs) for word in words)
        assert suggestions.counts["accepted"] + suggestions.counts["rejected"] == 6


def test_whatever_people_type_meanwhile_a_run_is_taken_back_without_any_of_it(proof: bool) -> None:
    for seed in range(200 if proof else 20):
        random = Random(seed)
        original = "".join(f"line {number} 日本語の文 {number}\n" for number in range(8))
        suggestions = page(original)
        theirs = joined(suggestions.text)
        made = [
            propose(
                suggestions, f"line {number} 日本語の文 {number}\n", random.choice(("", "LINE 新しい文 👍\n"))
            )
            for number in random.sample(range(8), 5)
        ]
        words: list[str] = []
        for step in range(30):
            text = random.choice((theirs, suggestions.text))
            words.append(f"<{seed}-{step}>")
            at = outside_of_words(str(text), random.randint(0, len(str(text))))
            put(text, at, at, words[-1])
            if random.random() < 0.4:
                meet(suggestions.text, theirs)
            if random.random() < 0.3 and made:
                settle(suggestions, made.pop(), random)
        meet(suggestions.text, theirs)
        suggestions.text.undo("run:r1")
        meet(suggestions.text, theirs)
        assert str(suggestions.text) == str(theirs)
        assert all(str(theirs).count(word) == 1 for word in words)
        assert re.sub(r"<\d+-\d+>", "", str(theirs)) == original


def outside_of_words(text: str, at: int) -> int:
    """Return a place that is not within a word that was typed before."""
    opened = text.rfind("<", 0, at)
    return opened if opened > text.rfind(">", 0, at) else at


def settle(suggestions: Suggestions, one: Suggestion, random: Random) -> None:
    try:
        suggestions.accept(one.id, candidate=random.random() < 0.5)
    except TextChanged:
        suggestions.reject(one.id)
