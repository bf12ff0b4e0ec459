"""What CLIs print. The forms are those of codex 0.169 and claude 2.1, as they were measured."""

from __future__ import annotations

import json
import math
from typing import cast, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.debate.answers import Answer, FailureCode, ParticipantFailure
from kakite.debate.participants.output_parsers import (
    CliOutput,
    OutputFormat,
    parse_output,
    parse_progress,
)


def lines(*events: object) -> str:
    return "".join(f"{json.dumps(event)}\n" for event in events)


def message(text: str) -> dict[str, object]:
    return {"type": "item.completed", "item": {"id": "i", "type": "agent_message", "text": text}}


DONE = {
    "type": "turn.completed",
    "usage": {"input_tokens": 5, "cached_input_tokens": 4, "output_tokens": 7, "reasoning_output_tokens": 3},
}


def claude(**fields: object) -> str:
    whole: dict[str, object] = {"subtype": "success", "is_error": False, "result": "yes", "usage": {}}
    return json.dumps({**whole, **fields, "type": "result"})


def test_codex_answers_with_its_last_message_and_warnings_are_notes() -> None:
    warning = {"type": "item.completed", "item": {"type": "error", "message": "no metadata for this model"}}
    out = lines(
        {"type": "thread.started"}, warning, {"type": "turn.started"}, message("a"), message("b"), DONE
    )
    answer = parse_output("codex", CliOutput(stdout=out, stderr="warning\n", seconds=2.5))
    assert isinstance(answer, Answer)
    assert (answer.text, answer.notes) == ("b", ("no metadata for this model",))
    assert (answer.input_tokens, answer.output_tokens, answer.seconds) == (5, 7, 2.5)
    assert answer.stderr_tail == "warning"


@pytest.mark.parametrize("form", ["json", "stream", "list"])
def test_claude_answers_with_its_result_in_each_of_its_forms(form: str) -> None:
    usage = {
        "input_tokens": 1,
        "cache_read_input_tokens": 2,
        "cache_creation_input_tokens": 3,
        "output_tokens": 4,
    }
    result = claude(usage=usage, total_cost_usd=0.25, permission_denials=[{"tool_name": "Bash"}])
    events = [{"type": "system"}, {"type": "assistant"}, json.loads(result)]
    out = {"json": result, "stream": lines(*events), "list": json.dumps(events)}[form]
    answer = parse_output("claude", CliOutput(stdout=out))
    assert isinstance(answer, Answer)
    assert (answer.text, answer.input_tokens, answer.output_tokens, answer.cost_usd) == ("yes", 6, 4, 0.25)
    assert answer.notes == ("1 calls of tools were denied",)


TURN_FAILED = {"type": "turn.failed", "error": {"message": "unexpected status 401 Unauthorized"}}
ROWS: dict[str, tuple[OutputFormat, CliOutput, FailureCode]] = {
    "codex: error and turn.failed": (
        "codex",
        CliOutput(stdout=lines(TURN_FAILED), exit_code=1),
        "not_logged_in",
    ),
    "codex: no message": ("codex", CliOutput(stdout=lines({"type": "turn.started"}, DONE)), "empty_answer"),
    "codex: blank message": ("codex", CliOutput(stdout=lines(message(" \n"), DONE)), "empty_answer"),
    "codex: turn without an end": ("codex", CliOutput(stdout=lines(message("half"))), "stream_cut"),
    "codex: bad resume id": (
        "codex",
        CliOutput(stdout="", stderr="Error: no rollout found for thread id x", exit_code=1),
        "bad_command",
    ),
    "codex: a value that this version does not take": (
        "codex",
        CliOutput(stdout="", stderr="error: invalid value 'x' for '--sandbox <MODE>'", exit_code=2),
        "bad_command",
    ),
    "codex chat": (
        "codex",
        CliOutput(stdout="", stderr="Error: stdin is not a terminal", exit_code=1),
        "needs_terminal",
    ),
    "codex: message, then exit 1": (
        "codex",
        CliOutput(stdout=lines(message("a"), DONE), exit_code=1),
        "exited",
    ),
    "claude: success that is none": (
        "claude",
        CliOutput(stdout=claude(is_error=True, api_error_status=500, result="API Error: 500"), exit_code=1),
        "http_error",
    ),
    "claude: is_error with exit 0": (
        "claude",
        CliOutput(stdout=claude(is_error=True, result="x")),
        "http_error",
    ),
    "claude: not logged in": (
        "claude",
        CliOutput(stdout=claude(is_error=True, result="Not logged in · Please run /login"), exit_code=1),
        "not_logged_in",
    ),
    "claude: 401": (
        "claude",
        CliOutput(stdout=claude(is_error=True, api_error_status=401, result="no"), exit_code=1),
        "not_logged_in",
    ),
    "claude: stream cut": (
        "claude",
        CliOutput(
            stdout=claude(is_error=True, result="The begin\nAPI Error: Connection closed"), exit_code=1
        ),
        "stream_cut",
    ),
    "claude: limit of the subscription": (
        "claude",
        CliOutput(stdout=claude(is_error=True, result="You've hit your session limit"), exit_code=1),
        "rate_limited",
    ),
    "claude: bad resume id": (
        "claude",
        CliOutput(stdout="", stderr="No conversation found with session ID: x", exit_code=1),
        "bad_command",
    ),
    "claude: a value that this version does not take": (
        "claude",
        CliOutput(stdout="", stderr="error: option '--x <y>' argument 'z' is invalid.", exit_code=1),
        "bad_command",
    ),
    "claude: no is_error": ("claude", CliOutput(stdout=json.dumps({"result": "yes"})), "http_error"),
    "claude: empty": ("claude", CliOutput(stdout=claude(result="")), "empty_answer"),
    "claude: half": ("claude", CliOutput(stdout=claude()[:30]), "half_json"),
    "claude: plain text": ("claude", CliOutput(stdout="An answer without a form."), "half_json"),
    "text: empty": ("text", CliOutput(stdout=" \n"), "empty_answer"),
    "text: terminated": ("text", CliOutput(stdout="half", exit_code=143), "killed"),
    "any: ended for time": (
        "codex",
        CliOutput(stdout=lines(message("a"), DONE), ended_for="time"),
        "timed_out",
    ),
    "any: ended for silence": ("text", CliOutput(stdout="half", ended_for="silence"), "silent"),
    "any: too long": ("text", CliOutput(stdout="long", dropped=1), "too_long"),
}


@pytest.mark.parametrize("row", ROWS)
def test_every_failure_has_its_code(row: str) -> None:
    reader, printed, code = ROWS[row]
    failure = parse_output(reader, printed)
    assert isinstance(failure, ParticipantFailure)
    assert failure.code == code, failure
    assert failure.message
    assert failure.hint
    assert "{" not in failure.hint


SAID = {
    "5-hour limit reached ∙ resets 3pm": "rate_limited",
    "You've hit your limit · resets 8pm (Australia/Sydney)": "rate_limited",
    "You’ve hit your Opus limit · resets Monday": "rate_limited",
    "Selected model is at capacity. Please try a different model.": "rate_limited",
    "Your access token could not be refreshed because your refresh token was already used. "
    "Please log out and sign in again.": "not_logged_in",
    "Your access token could not be refreshed because you have since logged out or signed in to "
    "another account. Please sign in again.": "not_logged_in",
}
"""What the two CLIs tell people, by public reports."""


@pytest.mark.parametrize("words", SAID)
def test_limits_and_logins_are_known_by_the_words_that_people_see(words: str) -> None:
    failed = [{"type": "error", "message": words}, {"type": "turn.failed", "error": {"message": words}}]
    for reader, stdout in (("codex", lines(*failed)), ("claude", claude(is_error=True, result=words))):
        reply = parse_output(cast("OutputFormat", reader), CliOutput(stdout=stdout, exit_code=1))
        assert isinstance(reply, ParticipantFailure)
        assert reply.code == SAID[words]


def test_a_limit_that_offers_another_login_is_a_limit_and_tells_when_it_ends() -> None:
    said = "You've hit your session limit · resets 5:40pm\n/login to switch to an API usage-billed account."
    reply = parse_output("claude", CliOutput(stdout=claude(is_error=True, result=said), exit_code=1))
    assert isinstance(reply, ParticipantFailure)
    assert reply.code == "rate_limited"
    assert reply.message.endswith("resets 5:40pm")


def test_what_was_said_before_it_broke_off_is_kept() -> None:
    failure = parse_output("codex", CliOutput(stdout=lines(message("the beginning"))))
    assert isinstance(failure, ParticipantFailure)
    assert failure.partial == "the beginning"


def test_of_what_was_far_too_long_the_beginning_is_kept() -> None:
    failure = parse_output("text", CliOutput(stdout="I think … " * 400_000, dropped=1))
    assert isinstance(failure, ParticipantFailure)
    assert failure.partial.startswith("I think … ")
    assert len(failure.partial) <= 100_000


READERS = st.sampled_from(["codex", "claude", "text"])
BIG = st.sampled_from([10**400, -(10**400), 10**4299, float("inf"), float("nan")])
LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=10) | BIG
KEYS = st.sampled_from(
    [
        "type",
        "item",
        "text",
        "usage",
        "error",
        "message",
        "result",
        "is_error",
        "input_tokens",
        "total_cost_usd",
    ]
) | st.text(max_size=3)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=10,
)
FIELDS = ["input_tokens", "output_tokens", "cache_read_input_tokens", "total_cost_usd", "message", "type"]


def deep(key: str, depth: int) -> str:
    nest = "[" * depth + "]" * depth
    item = f'{{"type": "agent_message", "text": {nest}}}'
    told = '"type": "item.completed", "is_error": false, "result": "x"'
    return f'{{{told}, "item": {item}, "{key}": {nest}}}'


def result(usage: dict[str, object], cost: object) -> str:
    return claude(usage=usage, total_cost_usd=cost)


DEEP = st.builds(deep, st.sampled_from(FIELDS), st.integers(1, 3000))
RESULTS = st.builds(result, st.dictionaries(st.sampled_from(FIELDS), BIG), BIG)
ENDS = st.dictionaries(st.sampled_from(FIELDS), BIG).map(
    lambda usage: lines(message("yes"), {"type": "turn.completed", "usage": usage})
)
OUTPUTS = st.one_of(
    DEEP,
    RESULTS,
    ENDS,
    st.text(max_size=80),
    st.lists(VALUES, max_size=4).map(lambda values: lines(*values)),
    VALUES.map(json.dumps),
)


@given(READERS, OUTPUTS, st.text(max_size=40), st.none() | st.integers(0, 255), st.sampled_from(["", "time"]))
def test_whatever_is_printed_it_is_an_answer_with_a_text_or_a_failure_with_a_reason(
    reader: str, stdout: str, stderr: str, code: int | None, ended: str
) -> None:
    printed = CliOutput(stdout=stdout, stderr=stderr, exit_code=code, ended_for=ended)  # pyright: ignore[reportArgumentType]
    reply = parse_output(cast("OutputFormat", reader), printed)
    assert 0 <= reply.tokens < 10**13
    assert reply.cost_usd is None or math.isfinite(reply.cost_usd)
    parse_progress(cast("OutputFormat", reader), stdout)
    if isinstance(reply, Answer):
        assert reply.text.strip()
        assert code in {0, None}
        assert not ended
    else:
        assert reply.code in get_args(FailureCode)
        assert reply.message


def test_an_error_is_not_told_as_what_it_had_said() -> None:
    for said, partial in (
        ("API Error: 500 no", ""),
        ("The begin\nAPI Error: no", "The begin\nAPI Error: no"),
    ):
        reply = parse_output("claude", CliOutput(stdout=claude(is_error=True, result=said), exit_code=1))
        assert isinstance(reply, ParticipantFailure)
        assert (reply.partial, reply.message.endswith("no")) == (partial, True)


def test_a_providers_own_words_are_unpacked_and_the_last_ones_are_told_when_it_is_ended() -> None:
    answer = json.dumps({"type": "error", "error": {"message": "no such model"}})
    reply = parse_output("codex", CliOutput(stdout=lines({"type": "error", "message": answer}), exit_code=1))
    assert isinstance(reply, ParticipantFailure)
    assert reply.message == "its provider refused or failed: no such model"
    waiting = {"type": "error", "message": "Reconnecting... waiting for network"}
    ended = parse_output(
        "codex", CliOutput(stdout=lines(waiting), exit_code=None, ended_for="time", seconds=600)
    )
    assert isinstance(ended, ParticipantFailure)
    assert ended.message.endswith("after 600 s; its last words: Reconnecting... waiting for network")
    assert parse_progress("codex", json.dumps(waiting)) == "Reconnecting... waiting for network"
