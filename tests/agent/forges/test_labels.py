"""What wakes Kakite, and what people want of a task."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from kakite.agent.forges.base import (
    Comment,
    ForgeCode,
    ForgeError,
    GitCredentials,
    Issue,
    IssueEvent,
    PullRequest,
    Trigger,
)
from kakite.agent.forges.labels import (
    ISSUE_TEXT_ID,
    IssueState,
    LabelConfig,
    find_state,
    format_handled_ids,
    format_marker,
    parse_handled_ids,
    parse_marker,
    swap_labels,
)
from kakite.agent.forges.triggers import find_requested_control, find_review, find_trigger

NAMES = LabelConfig()
NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
DOCS = (Path(__file__).parents[3] / "docs" / "forges.md").read_text(encoding="utf-8")

STATES = st.sampled_from(get_args(IssueState))
LABELS = st.frozensets(
    st.sampled_from([*NAMES.labels, "bug", "KAKITE", "Kakite:Done", "kakite:other", "help"])
)


def an_issue(*labels: str, text: str = "", comments: tuple[Comment, ...] = ()) -> Issue:
    return Issue(
        number=7,
        title="Fix it",
        text=text,
        author="anna",
        trusted=True,
        created=NOON,
        revisions=(),
        labels=frozenset(labels),
        assignees=frozenset({"bot"}),
        open=True,
        comments=comments,
        address="",
        updated=NOON,
    )


def a_comment(text: str, *, number: str = "1", trusted: bool = True) -> Comment:
    return Comment(id=number, author="bob", text=text, created=NOON, edited=None, trusted=trusted)


def set_by(actor: str = "anna", *, trusted: bool = True) -> IssueEvent:
    return IssueEvent(actor=actor, at=NOON, trusted=trusted)


def found(issue: Issue, *answered: str, labelled: IssueEvent | None = None) -> Trigger | None:
    return find_trigger(issue, NAMES, labelled=labelled, answered=answered)


@given(LABELS, STATES)
def test_after_a_swap_the_issue_is_in_that_state_and_keeps_its_other_labels(
    labels: frozenset[str], state: IssueState
) -> None:
    swapped = swap_labels(labels, state, NAMES)
    ours = {label.casefold() for label in NAMES.labels}
    assert find_state(swapped, NAMES) == state
    assert {label for label in swapped if label.casefold() in ours} == {NAMES.get_label(state)}
    assert {label for label in labels if label.casefold() not in ours} == swapped - {NAMES.get_label(state)}
    assert swap_labels(swapped, state, NAMES) == swapped


@pytest.mark.parametrize(
    ("labels", "state"),
    [
        ([], None),
        (["bug"], None),
        (["KAKITE"], "waiting"),
        (["kakite", "kakite:done"], "waiting"),
        (["kakite", "kakite:stopped"], "waiting"),
        (["kakite", "kakite:processing"], "processing"),
        (["kakite:processing", "kakite:stopped"], "stopped"),
        (["kakite", "kakite:processing", "kakite:paused"], "paused"),
        (["kakite:paused", "kakite:stopped"], "stopped"),
    ],
)
def test_of_several_labels_what_people_added_counts(labels: list[str], state: IssueState | None) -> None:
    assert find_state(labels, NAMES) == state


@pytest.mark.parametrize(
    ("labels", "wanted"),
    [
        (["kakite:processing"], "go_on"),
        (["kakite"], "go_on"),
        ([], "stop"),
        (["bug"], "stop"),
        (["kakite:stopped"], "stop"),
        (["kakite:processing", "kakite:stopped"], "stop"),
        (["kakite:processing", "kakite:paused"], "pause"),
        (["kakite:paused"], "pause"),
        (["kakite:done"], "stop"),
    ],
)
def test_labels_stop_and_pause_a_task(labels: list[str], wanted: str) -> None:
    assert find_requested_control(an_issue(*labels), NAMES) == wanted


def test_closing_and_un_assigning_stop_a_task() -> None:
    issue = an_issue("kakite:processing")
    assert find_requested_control(issue, NAMES, assignee="bot") == "go_on"
    assert (
        find_requested_control(replace(issue, assignees=frozenset({"anna"})), NAMES, assignee="bot") == "stop"
    )
    assert find_requested_control(replace(issue, assignees=frozenset()), NAMES) == "go_on"
    assert find_requested_control(replace(issue, open=False), NAMES) == "stop"


def test_a_label_wakes_if_who_set_it_may_write() -> None:
    issue = an_issue("kakite")
    assert found(issue, labelled=set_by()) == Trigger(number=7, kind="label", actor="anna", at=NOON)
    assert found(issue, labelled=set_by("eve", trusted=False)) is None
    assert found(issue) is None


def test_nothing_wakes_on_an_issue_that_is_closed_or_at_work() -> None:
    issue = an_issue("kakite", text="@kakite", comments=(a_comment("@kakite"),))
    assert found(replace(issue, open=False), labelled=set_by()) is None
    at_work = replace(issue, labels=frozenset({"kakite", "kakite:processing"}))
    assert found(at_work, labelled=set_by()) is None


@pytest.mark.parametrize("labels", [[], ["kakite:done"], ["kakite:paused"], ["kakite:stopped"]])
def test_the_first_mention_that_nobody_answered_wakes(labels: list[str]) -> None:
    comments = (
        a_comment("@kakite", number="1", trusted=False),
        a_comment("hello", number="2"),
        a_comment("@kakite once", number="3"),
        a_comment("@kakite twice", number="4"),
    )
    issue = an_issue(*labels, comments=comments)
    first = found(issue)
    assert first is not None
    assert (first.kind, first.actor, first.comment) == ("mention", "bob", "3")
    second = found(issue, "3")
    assert second is not None
    assert second.comment == "4"
    assert found(issue, "3", "4") is None


def test_a_comment_that_came_to_mention_us_wakes_at_the_time_of_that() -> None:
    later = NOON + timedelta(minutes=5)
    trigger = found(an_issue(comments=(replace(a_comment("@kakite"), edited=later),)))
    assert trigger is not None
    assert trigger.at == later


def test_a_mention_in_the_text_wakes_only_if_all_its_writers_may_write() -> None:
    issue = an_issue(text="@kakite please")
    trigger = found(issue)
    assert trigger == Trigger(number=7, kind="mention", actor="anna", at=NOON)
    assert found(issue, ISSUE_TEXT_ID) is None
    assert found(replace(issue, trusted=False)) is None
    assert found(replace(issue, trusted=False, revisions=(set_by(),))) is None
    assert found(replace(issue, revisions=(set_by("eve", trusted=False), set_by()))) is None
    mended = found(replace(issue, revisions=(set_by("zoe"),)))
    assert mended is not None
    assert mended.actor == "zoe"


def a_request(state: str = "open") -> PullRequest:
    assert state in {"open", "merged", "closed"}
    return PullRequest(
        number=12,
        branch="kakite/7",
        base="main",
        state=state,  # pyright: ignore[reportArgumentType] - one of them, as was seen
        draft=False,
        title="",
        text="",
        address="",
    )


def a_remark(number: str, *, trusted: bool = True) -> Comment:
    return Comment(id=number, author="bob", text="no", path="a.py", line=3, created=NOON, trusted=trusted)


def test_the_first_remark_of_somebody_who_may_write_wakes_until_it_is_answered() -> None:
    remarks = [a_remark("1", trusted=False), a_remark("2"), a_remark("3")]
    trigger = find_review(a_request(), 7, remarks, answered=())
    assert trigger == Trigger(number=7, kind="review", actor="bob", at=NOON, request=12, comment="2")
    assert find_review(a_request(), 7, remarks, answered=("2", "3")) is None
    assert find_review(a_request("merged"), 7, remarks, answered=()) is None
    assert find_review(a_request("closed"), 7, remarks, answered=()) is None


KEYS = st.text("abcXYZ019:/._=+-", min_size=1, max_size=30)


@given(KEYS, st.lists(KEYS), st.text())
def test_what_a_comment_of_ours_took_up_is_read_back_from_it(key: str, ids: list[str], text: str) -> None:
    comment = f"{format_marker(key)}\n{text}\n{format_handled_ids(ids)}"
    assert parse_marker(comment) == key
    assert set(ids) <= parse_handled_ids([comment])
    assert parse_handled_ids([format_handled_ids(ids), f"Look: {comment}"]) == frozenset()  # somebody else's


@pytest.mark.parametrize(
    "wrong",
    [
        {"waiting": "kakite:done"},
        {"waiting": "Kakite:Done"},
        {"done": ""},
        {"done": "a,b"},
        {"done": "a\nb"},
        {"done": " a"},
        {"done": "x" * 51},
        {"mention": "@kakite"},
        {"mention": "two words"},
        {"mention": ""},
        {"labels": "x"},
    ],
)
def test_names_that_no_forge_could_tell_apart_are_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        LabelConfig.model_validate(wrong)


def test_every_name_and_every_code_is_documented() -> None:
    for name, field in LabelConfig.model_fields.items():
        assert f"`{name}`" in DOCS
        assert f"`{field.default}`" in DOCS
    for code in get_args(ForgeCode):
        assert f"`{code}`" in DOCS


def test_only_what_may_pass_by_itself_is_worth_another_try() -> None:
    again = {code for code in get_args(ForgeCode) if ForgeError(code, "").retryable}
    assert again == {"forge_rate_limited", "forge_unavailable", "forge_conflict"}
    assert ForgeError("forge_rate_limited", "", retry_after=3).retry_after == 3


def test_credentials_do_not_print_their_password() -> None:
    assert "secret" not in repr(GitCredentials("git", "secret"))


@pytest.mark.parametrize("key", ["", "a b", "a>", "日本", "a\n"])
def test_a_key_that_could_not_be_found_again_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match="hidden"):
        format_marker(key)
    with pytest.raises(ValueError, match="hidden"):
        format_handled_ids([key])
