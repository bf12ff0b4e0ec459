"""What holds for all texts that stream, and for all questions."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len

from kakite.agent.observe.events import ToolCallOutput
from kakite.cli.chat.markdown_stream import MarkdownStream
from kakite.cli.chat.prompt_input import join_to_fit
from kakite.cli.chat.questions import render_question
from kakite.cli.chat.view import ChatView, TerminalConsole
from kakite.host import ApprovalRequest
from kakite.tools.toolset import ToolCall

PIECES = ("\n", "\n\n", "```", "~~~", "- ", "1. ", "  ", "#", "word", "日本", " ", "-", "|", "\t")
MARKDOWN = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)


def stream(pieces: list[str]) -> list[str]:
    stream = MarkdownStream()
    blocks = [block for piece in pieces for block in stream.feed(piece)]
    rest = stream.flush()
    return [*blocks, rest] if rest.strip() else blocks


@given(MARKDOWN, st.lists(st.integers(0, 80), max_size=8))
@example("- a\n\n-- b\n\nc", [6])
def test_the_blocks_do_not_depend_on_how_the_text_was_cut(text: str, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = [text[start:end] for start, end in itertools.pairwise(edges)]
    assert stream(pieces) == stream([text]) == stream(list(text))


@given(MARKDOWN)
def test_the_blocks_together_are_the_text(text: str) -> None:
    said = [line for line in text.split("\n") if line.strip()]
    assert [line for block in stream([text]) for line in block.split("\n") if line.strip()] == said


@given(MARKDOWN)
def test_a_fence_is_not_cut_in_two(text: str) -> None:
    code = f"```\n{text.replace('`', '')}\n```\n"
    assert stream([code, "\nafter\n"]) == [code.strip("\n"), "after"]


def render(question: ApprovalRequest, width: int = 200) -> str:
    return "\n".join(row.plain for row in render_question(question, width))


def ask(name: str, arguments: dict[str, Any], **more: Any) -> ApprovalRequest:
    return ApprovalRequest(call=ToolCall(id="1", name=name, arguments=arguments), **more)


COMMANDS = st.text(st.sampled_from("ab \t\n\\\"'$\x1b\u202e日"), max_size=12)
VALUES = st.one_of(COMMANDS, st.integers(), st.booleans(), st.none(), st.lists(COMMANDS, max_size=3))
ARGUMENTS = st.dictionaries(st.sampled_from(["command", "cwd", "env", "path", "x y"]), VALUES, max_size=4)


@given(COMMANDS, COMMANDS)
@example("a\tb", "a\\tb")
def test_two_commands_never_look_the_same(one: str, other: str) -> None:
    shown = [render(ask("run_command", {"command": each})) for each in (one, other)]
    assert (shown[0] == shown[1]) == (one == other)


@given(ARGUMENTS, ARGUMENTS, st.sampled_from(["", "files"]))
def test_two_calls_of_a_tool_never_look_the_same(
    one: dict[str, Any], other: dict[str, Any], server: str
) -> None:
    shown = [render(ask("some_tool", each, server=server)) for each in (one, other)]
    assert (shown[0] == shown[1]) == (list(map(repr, one.items())) == list(map(repr, other.items())))


@given(ARGUMENTS, st.integers(20, 100), st.sampled_from(["run_command", "some\x1btool"]))
def test_a_question_fits_the_terminal_and_obeys_nobody(
    arguments: dict[str, Any], width: int, name: str
) -> None:
    for row in render_question(ask(name, arguments, server="a\x1bb"), width):
        assert cell_len(row.plain) <= width
        assert row.plain.isprintable()


@given(st.sets(st.integers(1000, 9999), min_size=3, max_size=3).map(sorted))
def test_each_thing_is_shown_once(numbers: list[int]) -> None:
    one, two, three = map(str, numbers)
    shown = render(ask("run_command", {"command": f"echo {one}", "cwd": two}, outside=(three,)))
    assert [shown.count(each) for each in (one, two, three)] == [1, 1, 1]


def test_a_tool_of_a_server_is_not_taken_for_ours() -> None:
    shown = render(ask("run_command", {"command": "ls"}, server="elsewhere"))
    assert "of the server elsewhere" in shown
    assert "command: ls" in shown


@given(st.lists(st.text(st.sampled_from("ab日"), min_size=1, max_size=20), min_size=2, max_size=6))
def test_the_status_line_keeps_its_ends(parts: list[str]) -> None:
    shown = join_to_fit(parts, 40)
    assert shown.startswith(parts[0])
    assert shown.endswith(parts[-1])
    assert cell_len(shown) <= 40 or shown == " · ".join([parts[0], parts[-1]])


@given(st.text(st.sampled_from("ab 日\n\t\x1b"), max_size=2000), st.integers(10, 100))
def test_what_is_under_way_fits_above_the_prompt(text: str, width: int) -> None:
    view = ChatView(console=TerminalConsole(plain=True))
    view._text.pending = text  # pyright: ignore[reportPrivateUsage] - as deltas would make it
    view.begin("日本" * 50)
    lines = view.format_live(width).split("\n")
    assert all(cell_len(line) < width for line in lines)
    assert len(lines) <= 7
    assert "\x1b" not in "".join(lines)


@given(st.text(st.sampled_from("ab 日\n\t\r\x1b\u202e"), max_size=2000), st.integers(10, 100))
def test_what_a_command_prints_stands_below_it_in_three_rows_at_most(text: str, width: int) -> None:
    view = ChatView(console=TerminalConsole(plain=True))
    view.begin("$ make")
    view.show(ToolCallOutput(id="1", text=text))
    head, *rows = view.format_live(width).split("\n")
    assert head.startswith("●")
    assert len(rows) <= 3
    assert all(row.startswith("  ") and cell_len(row) < width for row in rows)
    assert not {"\x1b", "\r", "\u202e"}.intersection("".join(rows))
    if text.rstrip() and not text.rsplit("\n", maxsplit=1)[-1].isspace() and text[-1] in "ab日":
        assert rows
    view.begin("Thinking")
    assert "\n" not in view.format_live(width)
