"""What holds for all texts that stream, and for all questions."""

from __future__ import annotations

import io
import itertools
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from kakite.agent.observe.events import (
    PlanUpdated,
    RunEvent,
    RunStepEvent,
    ToolCallOutput,
    ToolResultEvent,
    UserMessageEvent,
)
from kakite.agent.run.checklist import ChecklistStep
from kakite.cli.chat.markdown_stream import MarkdownStream
from kakite.cli.chat.pasted_texts import PASTED_LINES, PastedTexts
from kakite.cli.chat.questions import render_question
from kakite.cli.chat.status_line import StatusLine, join_to_fit
from kakite.cli.chat.view import HISTORY_LINES, ChatView, TerminalConsole
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


def build_view(columns: int = 40) -> tuple[ChatView, io.StringIO]:
    """Return a view of a terminal of so many columns, and what it shows."""
    shown = io.StringIO()
    return ChatView(console=Console(file=shown, width=columns, force_terminal=False)), shown


BLOCKS = (
    "Words.",
    "- one\n- two",
    "1. one\n2. two",
    "| a | b |\n| --- | --- |\n| 1 | 2 |",
    "## Head",
    "> said",
    "```\ncode\n```",
)


@given(st.lists(st.sampled_from(["a call", *BLOCKS]), min_size=1, max_size=6))
def test_one_empty_line_stands_between_the_blocks_of_a_text(blocks: list[str]) -> None:
    view, shown = build_view()
    for block in blocks:
        if block == "a call":
            view.show(
                ToolResultEvent(
                    id="1", tool="view", text="", ok=True, code="", seconds=0.0, title="view", diff=""
                )
            )
        else:
            for part in MarkdownStream().feed(f"{block}\n\n") or [block]:
                view.show_markdown(part)
    *lines, end = shown.getvalue().split("\n")
    assert end == ""
    rows = [(before.strip(), after.strip()) for before, after in itertools.pairwise(lines)]
    assert ("", "") not in rows
    assert all(
        not before or not after for before, after in rows if before.startswith("✓") and after[:1] != "✓"
    )


@given(st.lists(st.sampled_from(["note", "text", "question"]), max_size=6))
@example(["text", "question", "question"])
def test_one_empty_line_stands_before_a_question(parts: list[str]) -> None:
    view, shown = build_view()
    for part in [*parts, "question"]:
        if part == "note":
            view.note("a note")
        elif part == "text":
            view.show_markdown("a text")
        else:
            view.show_question("1", [Text("Run")])
    assert "\n\n\n" not in shown.getvalue()
    assert shown.getvalue().count("\nRun\n") == [*parts, "question"].count("question")


@given(st.lists(st.text(st.sampled_from("ab日"), min_size=1, max_size=9), min_size=1, max_size=30))
def test_further_rows_of_a_step_stand_below_its_first_word(words: list[str]) -> None:
    view, shown = build_view()
    view.show(PlanUpdated(steps=(ChecklistStep(text=" ".join(words), status="pending"),)))
    first, *more = shown.getvalue().rstrip("\n").split("\n")
    assert first.startswith(f"  ☐ {words[0]}")
    assert all(row.startswith("    ") for row in more)


@given(st.lists(st.integers(1, 60), max_size=6))
def test_the_last_turns_of_a_stored_session_are_shown_in_thirty_lines(sizes: list[int]) -> None:
    happened: list[RunEvent] = []
    for number, size in enumerate(sizes):
        happened.append(UserMessageEvent(text=f"message {number}", from_person=True))
        happened.append(UserMessageEvent(text="ours"))
        lines = "\n".join(["line"] * size)
        happened.append(RunStepEvent(kind="context", text=lines, ok=True, code="", seconds=0))
    view, shown = build_view()
    view.show_history(happened)
    rows = shown.getvalue().splitlines()
    assert len(rows) <= HISTORY_LINES + 1
    said = [row for row in rows if row.startswith("› ")]
    assert said == [f"› message {number}" for number in range(len(sizes))][len(sizes) - len(said) :]
    assert len(said) <= 3
    assert "ours" not in shown.getvalue()
    assert not sizes or rows[-1] == "line"


NAMES = st.text(st.sampled_from("abc-/:日"), min_size=1, max_size=40)


@given(NAMES, NAMES, st.sampled_from([60, 80]), st.sampled_from(["Esc stops", "/help"]))
@example("anthropic:claude-sonnet-5-5-20260930", "kakite/add-a-search-to-the-api", 60, "Esc stops")
def test_the_status_line_has_all_that_the_docs_say_from_sixty_columns_on(
    model: str, branch: str, columns: int, hint: str
) -> None:
    line = StatusLine(
        mode="edits",
        model=model,
        context="context 100 %",
        cost="$10.25",
        background=2,
        branch=branch,
        hint=hint,
    )
    shown = line.format(columns)
    assert cell_len(shown) <= columns
    parts = shown.split(" · ")
    assert [parts[0], *parts[2:4]] == ["edits", "context 100 %", "$10.25"]
    assert len(parts) >= 6
    assert parts[4] in {"2 in background", "2 bg"}
    assert cell_len(parts[1]) >= min(cell_len(model.partition(":")[2] or model), 7)


@given(st.lists(st.text(st.sampled_from("ab\n["), max_size=20), min_size=1, max_size=4))
@example(["a\n" * PASTED_LINES, "b\n" * 40])
def test_what_was_pasted_is_sent_whole(texts: list[str]) -> None:
    pasted = PastedTexts()
    words = [pasted.fold(text) for text in texts]
    assert pasted.unfold(" and ".join(words)) == " and ".join(texts)
    assert all(word.count("\n") < PASTED_LINES for word in words)


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
