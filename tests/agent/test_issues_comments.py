"""What Kakite writes at a forge: fits there, keeps its own notes, and is the same for the same task."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kakite.agent.forges.labels import format_marker, parse_handled_ids
from kakite.agent.issues import comment_format
from kakite.agent.run.state import RunResult, compute_diffstat
from kakite.agent.worker.status import ErrorView, HumanInputRequest, PullRequestView, TaskStatus
from tests.agent.test_issues_markdown import TEXTS, tokens
from tests.lanes import examples

MOST = 65_536 - 300
LONG = st.sampled_from(["*", "@a\n", "<!--", "`", "\u0001", "- x\n", "word ", "\n"]).map(
    lambda piece: piece * 8_000
)
WORDS = TEXTS | LONG
STATUSES = [None, "done", "no_changes", "limit", "budget", "stuck", "conflict", "refused", "stopped", "new"]


@st.composite
def publics(draw: st.DrawFn) -> TaskStatus:
    steps = [
        {"text": draw(WORDS), "done": draw(st.booleans())} for _ in range(draw(st.sampled_from([0, 2, 50])))
    ]
    failed = draw(st.booleans())
    return cast(
        "TaskStatus",
        {
            "id": "github:team/app#7@ab12",
            "title": draw(WORDS),
            "issue": 7,
            "branch": "kakite/7-fix",
            "model": draw(TEXTS),
            "status": draw(st.sampled_from(STATUSES)),
            "plan": draw(st.sampled_from([None, {"goal": draw(WORDS), "steps": steps}])),
            "last": draw(WORDS),
            "usage": {"requests": 3, "input_tokens": 12_000, "output_tokens": 345, "cost_usd": None},
            "request": draw(st.sampled_from([None, {"number": 9, "address": "https://x/9"}])),
            "commit": "c0ffee" * 5,
            "pushed": draw(st.booleans()),
            "error": {"code": draw(TEXTS), "message": draw(WORDS), "hint": draw(WORDS)} if failed else None,
        },
    )


OUTCOMES = st.builds(
    RunResult,
    summary=WORDS,
    check=WORDS,
    checked=st.sampled_from([None, True, False]),
    findings=st.lists(WORDS, max_size=12).map(tuple),
    diffstat=WORDS,
)


@settings(max_examples=examples(40))
@given(publics(), OUTCOMES, st.lists(st.from_regex(r"[a-z]{1,8}-[0-9]{1,12}", fullmatch=True), max_size=5))
def test_every_letter_fits_and_keeps_what_was_taken_up(
    public: TaskStatus, outcome: RunResult, ids: list[str]
) -> None:
    written = [
        comment_format.format_progress(public, ids),
        comment_format.format_reply(public, outcome, ids, most=MOST),
        comment_format.format_final_comment(public, outcome, label="kakite", most=MOST),
        comment_format.format_description(public, outcome, closes=True, most=MOST),
    ]
    assert all(len(each) <= MOST for each in written)
    assert parse_handled_ids([f"{format_marker('progress')}\n{each}" for each in written[:2]]) == set(ids)
    assert parse_handled_ids([f"{format_marker('end')}\n{each}" for each in written[2:]]) == set()


@settings(max_examples=examples(40))
@given(publics(), OUTCOMES)
def test_a_description_closes_its_own_issue_and_no_other(public: TaskStatus, outcome: RunResult) -> None:
    told = comment_format.format_description(public, outcome, closes=True, most=MOST)
    assert re.findall(r"(?:#|GH-|!|issues/|merge_requests/)\d+", told, re.IGNORECASE) == ["#7"]
    assert told.startswith("Closes #7\n")
    assert not re.search(r"^\s*/\w", told, re.MULTILINE)


@pytest.mark.slow
@settings(max_examples=examples(40))
@given(publics(), OUTCOMES)
def test_no_letter_calls_anybody_or_hides_anything(public: TaskStatus, outcome: RunResult) -> None:
    for told in (
        comment_format.format_progress(public, ()),
        comment_format.format_final_comment(public, outcome, label="kakite", most=MOST),
        comment_format.format_description(public, outcome, closes=False, most=MOST),
    ):
        for token in tokens(told):
            assert token.type not in {"html_block", "html_inline", "link_open", "image", "heading_open", "hr"}
            assert token.type != "text" or not re.search(r"@\w", token.content)


@settings(max_examples=examples(40))
@given(WORDS, WORDS, WORDS)
def test_a_question_shows_the_arguments_and_the_lines_that_answer(tool: str, value: str, text: str) -> None:
    asks = HumanInputRequest(
        kind="approval", digest="ab" * 32, tool=tool, arguments={"command": value}, text=text
    )
    told = comment_format.format_question(TaskStatus(id="x"), asks, mention="kakite", most=MOST)
    assert len(told) <= MOST
    assert f"> @kakite approve {'ab' * 8}\n> @kakite deny {'ab' * 8} because …" in told
    assert '"command": ' in told


@pytest.mark.parametrize("status", [status for status in STATUSES if status])
def test_each_end_says_what_to_do_next_or_that_it_is_done(status: str) -> None:
    told = comment_format.format_final_comment(
        TaskStatus(status=status, branch="b"), RunResult(summary="So."), label="todo", most=MOST
    )
    assert told.startswith("**")
    assert "> So." in told
    assert status == "done" or "`todo`" in told


def test_a_failure_is_told_with_its_code_its_words_what_helps_and_the_way_on() -> None:
    error = ErrorView(
        code="push_failed", message="protected branch hook declined", hint="allow pushes to `kakite/*`"
    )
    told = comment_format.format_final_comment(
        TaskStatus(branch="kakite/7", error=error), RunResult(), label="kakite", most=MOST
    )
    for part in (
        "`push_failed`",
        "> protected branch hook declined",
        "allow pushes to `kakite/*`",
        "Set the label `kakite`",
    ):
        assert part in told
    assert "Nothing was pushed." in told


def test_a_draft_that_holds_no_change_is_no_place_where_the_work_is() -> None:
    request = PullRequestView(number=3, address="https://forge/3")
    empty = TaskStatus(status="no_changes", branch="b", request=request, draft=True, pushed=False)
    assert "the draft https://forge/3 holds no change" in comment_format.format_final_comment(
        empty, RunResult(), label="k", most=MOST
    )
    follow_up = TaskStatus(status="no_changes", branch="b", request=request, draft=False, pushed=False)
    assert "The work is in https://forge/3" in comment_format.format_final_comment(
        follow_up, RunResult(), label="k", most=MOST
    )


@pytest.mark.parametrize("text", ["Draft: Fix", "WIP: [Draft] Fix", "(draft)Fix", "draft : wip: Fix"])
def test_a_title_makes_no_draft_of_a_request(text: str) -> None:
    assert comment_format.format_title(text) == "Fix"


def test_a_title_is_never_empty() -> None:
    assert comment_format.format_title("Draft:") == "Changes"


def test_very_many_ids_leave_room_for_the_rest() -> None:
    ids = [f"remark-{number:012}" for number in range(5000)]
    told = comment_format.format_progress(TaskStatus(branch="b"), ids)
    assert len(told) < 20_000
    assert ids[-1] in told


def test_the_lines_of_a_diff_are_counted_for_each_file() -> None:
    diff = (
        "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n-old\n+new\n+--- x\n same\n"
        "diff --git a/b.bin b/b.bin\nBinary files a/b.bin and b/b.bin differ\n"
    )
    assert compute_diffstat(diff) == "+2 -1 a.py\n+0 -0 b.bin"


def test_work_that_was_not_checked_is_told_as_such_everywhere() -> None:
    doubt = "not checked: `test -f x` was not approved"
    public = cast("TaskStatus", {"status": "done", "branch": "b", "pushed": True, "doubt": doubt})
    outcome = RunResult(check="test -f x", doubt=doubt)
    told = [
        comment_format.format_progress(public, ()),
        comment_format.format_final_comment(public, outcome, label="kakite", most=MOST),
        comment_format.format_description(public, outcome, closes=True, most=MOST),
    ]
    assert all("ot checked: `test -f x` was not approved" in text for text in told)
    failed = replace(outcome, checked=False, doubt="but the check failed: `test -f x`")
    assert "Checked: `test -f x` **failed**." in comment_format.format_description(
        public, failed, closes=True, most=MOST
    )
    checked = cast("TaskStatus", {**public, "doubt": ""})
    assert "**Done.**" in comment_format.format_final_comment(checked, RunResult(), label="kakite", most=MOST)


def test_what_failed_outside_is_not_told_as_a_fault_of_the_model() -> None:
    asks = HumanInputRequest(kind="paused", digest="d", text="`bwrap` was not found (sandbox_missing)")
    error = ErrorView(code="sandbox_missing", message="`bwrap` was not found", hint="")
    told = comment_format.format_question(TaskStatus(id="t", error=error), asks, mention="kakite", most=MOST)
    assert "it could not go on" in told
    assert "sandbox_missing" in told
    assert "circles" not in told
    assert "it could not go on" not in comment_format.format_question(
        TaskStatus(id="t"), asks, mention="kakite", most=MOST
    )
