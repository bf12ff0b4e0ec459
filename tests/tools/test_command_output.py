from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.tools.shell.command_output import (
    TAIL_BYTES,
    CommandAnswer,
    OutputTail,
    decode_output,
    format_command_output,
    format_seconds,
    parse_command_output,
)

LINES = st.lists(st.text('ab {}"\\\té', max_size=30), min_size=200, max_size=400)
TEXT = st.text(max_size=40)


@given(
    stdout=TEXT, seconds=st.floats(0, 5000), code=st.integers(-64, 255), limit=st.sampled_from(["", "disk"])
)
def test_what_a_command_printed_stands_below_the_first_line_as_it_is(
    stdout: str, seconds: float, code: int, limit: str
) -> None:
    head = f"exit code {code}{', limit ' + limit if limit else ''}{format_seconds(seconds)}"
    told = format_command_output(head, stdout, "")
    assert told.removesuffix("\n") == f"{head}\n{stdout}".removesuffix("\n").removesuffix("\n")
    assert parse_command_output(told) == CommandAnswer(text=stdout.removesuffix("\n"), exit_code=code)


@given(stdout=TEXT, stderr=TEXT.filter(bool), hint=st.sampled_from(["", "try again"]))
def test_both_streams_and_the_hint_are_told_in_this_order(stdout: str, stderr: str, hint: str) -> None:
    told = format_command_output("exit code 1", stdout, stderr, hint)
    places = [told.rindex(part) for part in ("exit code 1", "stderr:\n")]
    assert places == sorted(places)
    assert stdout.removesuffix("\n") in told
    assert stderr.removesuffix("\n") in told
    assert told.endswith("hint: try again") is bool(hint)


@given(LINES)
def test_of_lines_only_whole_ones_are_shown_and_all_bytes_are_counted(lines: list[str]) -> None:
    data = "".join(f"{line}\n" for line in lines).encode()
    kept = data[:500] + data[-500:]
    told = decode_output(kept, len(data) - len(kept), "; all of it is in x")
    head, gap, tail = told.partition("\n… ")
    count, _, rest = tail.partition(" bytes left out; all of it is in x …\n")
    assert gap
    assert lines[: len(head.split("\n"))] == head.split("\n")
    shown = rest.splitlines() if rest else []
    assert shown == lines[len(lines) - len(shown) :]
    assert len(f"{head}\n{rest}".encode()) + int(count.replace(",", "")) == len(data)


@pytest.mark.parametrize(
    ("head", "running", "code"),
    [
        ("job 1a2b3c runs in the background", True, None),
        ("job 1a2b3c runs, 3.0 s", True, None),
        ("job 1a2b3c: exit code 3, limit memory, 12.3 s", False, 3),
        ("job 1a2b3c: ended by its `timeout` of 5 s, 5.0 s", False, None),
        ("job 1a2b3c: ended by stop_command", False, None),
    ],
)
def test_the_state_of_a_command_in_the_background_is_read_back(
    head: str, running: bool, code: int | None
) -> None:
    found = parse_command_output(f"{head}\nout")
    assert found == CommandAnswer(text="out", job="1a2b3c", running=running, exit_code=code)


@pytest.mark.parametrize("text", ["", "1\tone", "exit code", "job offers: 3", "exit code 0 is good\nx"])
def test_other_texts_are_no_answer_of_a_command(text: str) -> None:
    assert parse_command_output(text) is None


@given(st.lists(st.binary(max_size=700), max_size=12))
def test_the_end_of_the_output_does_not_depend_on_how_it_came(pieces: list[bytes]) -> None:
    whole, tail, once = b"".join(pieces), OutputTail(), OutputTail()
    for piece in pieces:
        tail.feed(piece)
    once.feed(whole)
    assert tail.received == len(whole)
    assert tail.get_text() == once.get_text()
    assert len(tail.get_text()) <= TAIL_BYTES
    assert "\r" not in tail.get_text()


@given(LINES)
def test_the_end_of_long_output_has_whole_lines(lines: list[str]) -> None:
    tail = OutputTail()
    tail.feed("\n".join(lines).encode())
    shown = tail.get_text().split("\n")
    assert shown == lines[len(lines) - len(shown) :]


def test_a_line_that_is_drawn_again_is_shown_as_it_is_now() -> None:
    tail = OutputTail()
    tail.feed(b"begun\r\n 10 %\r 20 %\r")
    assert tail.get_text() == "begun\n 20 %"
