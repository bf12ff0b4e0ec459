"""Shows a debate in a terminal: both answers side by side, progress, and the question how to go on."""

from __future__ import annotations

import errno
import select
import sys
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.box import MINIMAL
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.markdown import Markdown
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from kakite.cli.console import escape_control, escape_one_line
from kakite.cli.exit_codes import InputEndedError
from kakite.cli.prompts import flush_input, read_line
from kakite.debate import DebateError, Decision, get_status
from kakite.debate.prompt import find_purpose, reveal_names
from kakite.debate.rounds import on_decision
from kakite.debate.transcript.html import create_markdown
from kakite.debate.transcript.model import (
    encode_findings,
    encode_ranking,
    encode_round,
    encode_round_reply,
    format_agreement,
    format_cost,
    format_decision,
    format_duration,
    format_end_reason,
    format_finding,
    format_opinion,
    format_purpose,
    format_score,
    format_support,
    sum_usage,
)

if TYPE_CHECKING:
    from kakite.debate import Debate, SessionUpdate
    from kakite.debate.model import DecisionKind


_KEYS: dict[str, tuple[DecisionKind, str]] = {
    "c": ("compromise", "find a compromise that all can accept"),
    "s": ("synthesize", "combine the best parts of all answers"),
    "i": ("custom_instruction", "follow your own instruction"),
    "e": ("evidence", "consider new facts"),
    "n": ("continue", "another round"),
    "p": ("patch", "get the best as edits to the files"),
}
_NEEDS_WORDS = {
    "custom_instruction": "Your instruction (an empty line ends it): ",
    "evidence": "The facts (an empty line ends them): ",
}
_MAY_HAVE_WORDS = "Anything to add? (Enter: no; an empty line ends it) "
_MAX_LINE = 4095
"""Bytes of a line that a terminal passes on; it drops what follows without a word."""
_PASTE_WINDOW = 0.1
"""Seconds in which the rest of what is pasted comes after an empty line of it."""


class DecisionPrompt:
    """Asks a person who sees this console; ``show`` prints a text there as a paragraph."""

    def __init__(self, console: Console, show: Callable[[Text], None]) -> None:
        self._console = console
        self._show = show

    async def ask(self, debate: Debate) -> Decision | None:
        """Ask how to go on; None: not any more.

        Raises:
            InputEndedError: the person ended the input.
        """
        choices = dict(_list_choices(debate))
        self._show(Text())
        self._show(Text("How do you want to continue?", style="bold yellow"))
        for key, (_, told) in choices.items():
            self._show(Text.assemble("  ", (key, "bold"), f"  {told}"))
        self._show(Text.assemble("  ", ("q", "bold"), "  stop here"))
        while True:
            key = (await self._read("> ")).lower()
            if key in {"q", "quit", "stop"}:
                return None
            if key in choices:
                return await self._complete_decision(choices[key][0])
            self._show(Text("Please answer with one of the keys."))

    async def _complete_decision(self, made: Decision) -> Decision:
        needed = _NEEDS_WORDS.get(made.kind)
        words = await self._read_text(needed or _MAY_HAVE_WORDS)
        while needed and not words:
            self._show(Text("Please write something."))
            words = await self._read_text(needed)
        return Decision(kind=made.kind, side=made.side, text=words)

    async def _read_text(self, prompt: str) -> str:
        """Return what is typed or pasted, of any number of lines, without blanks around it."""
        while True:
            self._print_prompt(prompt)
            lines = [line async for line in _read_lines()]
            if not (lines and _is_truncated(lines[-1])):
                return "\n".join(lines).strip()
            told = f"A line of {_MAX_LINE:,} bytes is too long for a terminal. Split it into several lines."
            self._show(Text(told))

    async def _read(self, prompt: str) -> str:
        self._print_prompt(prompt)
        return (await read_line()).strip()

    def _print_prompt(self, prompt: str) -> None:
        flush_input()
        self._console.print(Text(prompt, style="bold yellow"), end="")


async def _read_lines() -> AsyncGenerator[str]:
    """Yield lines up to an empty one that is not in the midst of what was pasted, to the end of the input,
    or to one that the terminal cut.

    Raises:
        InputEndedError: there are none, or the terminal is gone.
    """
    began = False
    while True:
        try:
            line = await read_line()
        except InputEndedError:
            if began and sys.stdin.isatty():
                return
            raise
        if not line.strip() and not select.select([sys.stdin], [], [], _PASTE_WINDOW)[0]:
            return
        yield line
        if _is_truncated(line):
            return
        began = True


def _is_truncated(line: str) -> bool:
    return len(line.encode()) >= _MAX_LINE


def _list_choices(debate: Debate) -> Iterator[tuple[str, tuple[Decision, str]]]:
    if not _can_continue(debate):
        return
    answered = {name for each in debate.rounds for name in each.answers}
    for number, name in enumerate(debate.terms.names, start=1):
        if name in answered:
            yield str(number), (Decision(kind="adopt", side=name), f"continue from {name}'s answer")
    for key, (kind, told) in _KEYS.items():
        if kind == "patch" and not debate.terms.code:
            continue
        if answered or kind not in {"compromise", "synthesize", "patch"}:
            yield key, (Decision(kind=kind), told)


def _can_continue(debate: Debate) -> bool:
    """Return whether the budget leaves room for anything."""
    try:
        on_decision(debate, Decision(kind="continue"))
    except DebateError:
        return False
    return True


ReplyJson = dict[str, Any]

_MIN_COLUMN_WIDTH = 46
"""Cells of a side's column, at least; without room for that answers stand one under the other."""
_RESERVED = 8
"""Rows of the screen that a preview of an answer leaves free."""
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_OPINION_STYLES = {"accept": "green", "accept_with_changes": "yellow", "reject": "red"}
_AGREEMENT_STYLES = {"agree": "green", "partly": "yellow", "disagree": "red", "unknown": "dim"}
_STDERR_LINES = 3
"""Lines of a program's errors that are shown."""


@dataclass(slots=True)
class _PendingReply:
    """A side that is at work."""

    began: float
    heard: str = ""


class DebateConsole(Console):
    """A person's screen, or a file; one that is gone is an error like others."""

    def __init__(self) -> None:
        super().__init__(highlight=False)

    def on_broken_pipe(self) -> None:
        """Let the caller know, where rich would end the process in the middle of the event loop."""
        raise BrokenPipeError(errno.EPIPE, "nobody reads any more")


class DebateLiveView:
    """Shows what happens (``on_event`` is a listener), and asks. Plain lines where
    nothing moves.
    """

    def __init__(self, console: Console, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.console = console
        self._moves = console.is_terminal and not console.is_dumb_terminal
        self._clock = clock
        self._debate: Debate | None = None
        self._number = 0
        """The round that is shown while it is held."""
        self._working: dict[str, _PendingReply] = {}
        self._there: dict[str, ReplyJson] = {}
        """What sides replied in that round; a long answer is not to be told anew for each picture."""
        self._live: Live | None = None

    def on_event(self, happening: SessionUpdate) -> None:
        """Show what happened."""
        self._debate = happening.debate
        match happening.kind:
            case "begun":
                self.show_latest(happening.debate)
            case "asked":
                self._on_asked(happening)
            case "heard" if work := self._working.get(happening.side):
                work.heard = happening.text
            case "replied":
                self._on_replied(happening)
            case "unkept":
                self.show_note(f"the answer of {happening.side} could not be saved: {happening.text}", "red")
            case "decided":
                made = happening.debate.turn.decision
                assert made
                told = {"type": made.kind, "side": made.side}
                self.show_note(format_decision(told), "cyan")
            case _:
                self.close()

    def show_turn(self, debate: Debate) -> None:
        """Show where the debate stands, now that no reply is due."""
        self.close()
        now = get_status(debate)
        self._print()
        style = _AGREEMENT_STYLES[now.agreement]
        result = f"● {format_agreement(now.agreement).capitalize()}."
        self._print(Text.assemble((result, f"bold {style}"), f" {format_end_reason(now.ending)}"))
        for found in encode_findings(debate):
            told = f"{format_finding(found)} ({format_support(found)})"
            self._print(_render_item(f"  F{found['number']}:", escape_one_line(told)))
        for place, ranked in enumerate(encode_ranking(debate), start=1):
            self._print(Text(f"  {place}. {ranked['side']}: {format_score(ranked)}"))
        held = [(each, issue) for each in now.dissent for issue in each.issues]
        if held:
            self._print(Text("  Still disputed:"))
        for each, issue in held:
            told = escape_one_line(reveal_names(debate, each.round, each.by, issue))
            self._print(_render_item(f"    {each.by}, of {each.on}:", told))
        tokens = f", {debate.tokens:,} tokens" if debate.tokens else ""
        spent = f"  {debate.asks} answers asked for, {format_duration(debate.seconds)}{tokens}"
        self._print(Text(spent, style="dim"))
        if cost := format_cost(sum_usage(debate)):
            self._print(Text(f"  {cost}", style="dim"))

    def show_latest(self, debate: Debate) -> None:
        """Show what a debate is about, the latest round that was held to its end, and what began after it."""
        self._debate = debate
        self._print_topic(debate)
        names, count = debate.terms.names, len(debate.rounds)
        is_open = bool(count) and len(debate.rounds[-1].replies) < len(names)
        # Side by side it is shown as a whole when it is there.
        begun = is_open and (debate.stopped or not self._has_columns(debate))
        for number in filter(None, [count - is_open, count if begun else 0]):
            self._number = number
            self._print_heading(number, names[0])
            self._show_round(number)

    def show_note(self, text: str, style: str = "") -> None:
        """Show a line of ours."""
        self._pause()
        self._print(Text(escape_control(text), style=style))

    def close(self) -> None:
        """Stop what moves."""
        self._working.clear()
        self._pause()

    async def ask(self, debate: Debate) -> Decision | None:
        """Ask how to go on; None: not any more.

        Raises:
            InputEndedError: the person ended the input.
        """
        self._pause()
        return await DecisionPrompt(self.console, self._print).ask(debate)

    def _print_topic(self, debate: Debate) -> None:
        first, _, rest = debate.prompt.strip().partition("\n")
        self._print(Text(escape_one_line(first), style="bold"))
        if rest.strip():
            self._print(Text(escape_control(rest.strip()), style="dim"))
        terms = debate.terms
        names = " and ".join(filter(None, [", ".join(terms.names[:-1]), terms.names[-1]]))
        how = "answer once" if terms.is_blind else f"argue, {_format_rounds(terms.rounds)}"
        self._print(Text(f"{names} {how}", style="dim"))

    def _on_asked(self, happening: SessionUpdate) -> None:
        if happening.round != self._number:
            self._pause()
            self._number = happening.round
            self._there.clear()
            self._print_heading(happening.round, happening.side)
        self._working[happening.side] = _PendingReply(self._clock())
        if not self._moves:
            self._print(Text(f"{happening.side} is at work"))
        elif self._live is None:
            self._live = Live(
                _ProgressRenderable(self),
                console=self.console,
                transient=True,
                refresh_per_second=6,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()

    def _on_replied(self, happening: SessionUpdate) -> None:
        self._working.pop(happening.side, None)
        held = happening.debate.rounds[happening.round - 1]
        is_last = len(held.replies) == len(happening.debate.terms.names)
        if self._has_columns(happening.debate):
            if is_last:
                self._pause()
                self._show_round(happening.round)
            return
        self._pause(going_on=not is_last)
        self._print_stacked(encode_round_reply(happening.debate, happening.round, happening.side))
        if is_last:
            self._print_matrix(encode_round(happening.debate, happening.round))

    def _pause(self, *, going_on: bool = False) -> None:
        """Take what moves off the screen, for good or while something is printed above it."""
        if self._live is not None and not going_on:
            live, self._live = self._live, None
            live.stop()

    def _print_heading(self, number: int, side: str) -> None:
        assert self._debate
        told = f"Round {number}: {format_purpose(find_purpose(self._debate, number, side))}"
        if self._moves:
            self._print()
            self.console.rule(Text(told, style="bold"), style="dim", align="left")
        else:
            self._print(Text(f"\n{told}"))

    def _show_round(self, number: int) -> None:
        assert self._debate
        held = encode_round(self._debate, number)
        if self._has_columns(self._debate):
            self._print(self._build_table(held["replies"]))
        else:
            for reply in held["replies"]:
                self._print_stacked(reply)
        if held["complete"]:
            self._print_matrix(held)

    def _build_table(self, replies: Sequence[ReplyJson]) -> Table:
        table = Table(show_edge=False, show_header=False, expand=True, box=MINIMAL, padding=(0, 1))
        for _ in replies:
            table.add_column(ratio=1, overflow="fold")
        table.add_row(*(Group(_render_label(reply), *_render_reply(reply)) for reply in replies))
        return table

    def _print_stacked(self, reply: ReplyJson) -> None:
        self._print()
        self._print(_render_label(reply))
        if self._moves:
            self._print(Padding(Group(*_render_reply(reply)), (0, 0, 0, 2)))
            return
        for line in _format_plain(reply):
            self._print(Text(line))

    def _print_matrix(self, held: ReplyJson) -> None:
        if not held["matrix"]:
            return
        self._print()
        for by, said in held["matrix"].items():
            for on, given in said.items():
                style = _OPINION_STYLES.get(given or "", "dim")
                self._print(
                    Text.assemble(f"  {by} ", (format_opinion(given), f"bold {style}"), f" what {on} said")
                )

    def _has_columns(self, debate: Debate) -> bool:
        return self._moves and self.console.width // len(debate.terms.names) >= _MIN_COLUMN_WIDTH

    def _print(self, *what: RenderableType) -> None:
        self.console.print(*what, soft_wrap=not self._moves)

    def render_progress(self, height: int) -> Iterator[RenderableType]:
        """Yield what is shown while sides are at work: a row for each, and what has been said already."""
        debate = self._debate
        if debate is None:
            return
        replies = self._collect_replies(debate)
        for name in debate.terms.names:
            yield self._render_row(name, replies.get(name))
        if self._has_columns(debate) and replies and self._working:
            cells = [
                _CroppedRenderable(
                    Group(
                        _render_label(replies[name]),
                        *_render_reply(self._truncate_reply(replies[name], height)),
                    ),
                    height,
                )
                if name in replies
                else Text("")
                for name in debate.terms.names
            ]
            table = Table(show_edge=False, show_header=False, expand=True, box=MINIMAL, padding=(0, 1))
            for _ in cells:
                table.add_column(ratio=1, overflow="fold")
            table.add_row(*cells)
            yield table

    def _collect_replies(self, debate: Debate) -> Mapping[str, ReplyJson]:
        held = debate.rounds[self._number - 1].replies if len(debate.rounds) >= self._number > 0 else ()
        for name in held:
            if name not in self._there:
                self._there[name] = encode_round_reply(debate, self._number, name)
        return self._there

    def _truncate_reply(self, reply: ReplyJson, height: int) -> ReplyJson:
        """Return a reply with no more of its text than so many rows can show."""
        if reply["type"] != "answer":
            return reply
        lines = reply["text"][: height * self.console.width].split("\n")[: height * 2]
        return {**reply, "text": "\n".join(lines)}

    def _render_row(self, name: str, reply: ReplyJson | None) -> Text:
        row = Text(no_wrap=True, overflow="ellipsis")
        if reply:
            good = reply["type"] == "answer"
            row.append("✓ " if good else "✗ ", style="green" if good else "red")
            told = reply["claim"] if good else reply["message"]
            row.append(f"{name}  {reply['seconds']:.0f} s  {escape_one_line(told)}")
        elif work := self._working.get(name):
            past = self._clock() - work.began
            row.append(f"{_SPINNER[int(past * 10) % len(_SPINNER)]} ", style="cyan")
            row.append(f"{name}  {past:.0f} s  {escape_one_line(work.heard) or 'thinking'}")
        else:
            row.append(f"· {name}  waits", style="dim")
        return row


class _ProgressRenderable:
    """The rows that change while a debate runs."""

    def __init__(self, screen: DebateLiveView) -> None:
        self._screen = screen

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self._screen.render_progress(max(console.height - _RESERVED, 3))


class _CroppedRenderable:
    """The first rows of something."""

    def __init__(self, inner: RenderableType, height: int) -> None:
        self._inner = inner
        self._height = height

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        rows = console.render_lines(self._inner, options.update(height=None), pad=False)
        for row in rows[: self._height]:
            yield from row
            yield Segment.line()
        if len(rows) > self._height:
            yield Text("…", style="dim")


class _CompactRenderable:
    """Something with no more than one blank row between others, and none at its ends."""

    def __init__(self, inner: RenderableType) -> None:
        self._inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        waiting = begun = False
        for row in console.render_lines(self._inner, options.update(height=None), pad=False):
            if not "".join(segment.text for segment in row).strip():
                waiting = begun
                continue
            if waiting:
                yield Segment.line()
            yield from row
            yield Segment.line()
            waiting, begun = False, True


def _render_label(reply: ReplyJson) -> Text:
    tokens = reply["input_tokens"] + reply["output_tokens"]
    used = format_duration(reply["seconds"]) + (f", {tokens:,} tokens" if tokens else "")
    return Text.assemble((reply["side"], "bold cyan"), (f"  {used}", "dim"))


def _render_reply(reply: ReplyJson) -> Iterator[RenderableType]:
    if reply["type"] != "answer":
        yield from _render_failure(reply)
        return
    if reply["claim"]:
        sure = "" if reply["confidence"] is None else f"  {reply['confidence']} % sure"
        yield Text.assemble((escape_one_line(reply["claim"]), "bold"), (sure, "dim"))
    if " ".join(reply["text"].split()) != reply["claim"]:
        yield Text("")
        yield _render_markdown(reply["text"])
    if reply["verdicts"] or reply["position"] or reply["because"]:
        yield Text("")
    for each in reply["verdicts"]:
        style = f"bold {_OPINION_STYLES[each['opinion']]}"
        yield Text.assemble((format_opinion(each["opinion"]), style), f" what {each['on']} said")
        if each["strongest"]:
            yield _render_item("  +", escape_one_line(each["strongest"]), "dim")
        for issue in each["issues"]:
            yield _render_item("  -", escape_one_line(issue))
    if stands := _format_position(reply):
        yield Text(stands)
    for note in reply["notes"]:
        yield Text(f"note: {escape_one_line(note)}", style="dim")


def _format_position(reply: ReplyJson) -> str:
    if not reply["position"] and not reply["because"]:
        return ""
    position = reply["position"]
    stands = {"new": "now has another answer", reply["side"]: "stands by its own answer", None: "why"}
    told = stands.get(position, f"now agrees with {position}")
    return f"{told}: {escape_one_line(reply['because'])}" if reply["because"] else told


def _render_failure(reply: ReplyJson) -> Iterator[RenderableType]:
    code = (f"({reply['code']}) ", "red")
    yield Text.assemble(("no answer ", "bold red"), code, escape_one_line(reply["message"]))
    if reply["hint"]:
        yield Text(escape_one_line(reply["hint"]), style="yellow")
    for line in reply["stderr_tail"].strip().splitlines()[-_STDERR_LINES:]:
        yield Text(f"| {escape_one_line(line)}", style="dim")


def _format_plain(reply: ReplyJson) -> Iterator[str]:
    """Yield the lines of a reply for what is no terminal."""
    if reply["type"] != "answer":
        yield f"no answer ({reply['code']}): {escape_one_line(reply['message'])}"
        if reply["hint"]:
            yield f"hint: {escape_one_line(reply['hint'])}"
        return
    yield escape_control(reply["text"])
    for each in reply["verdicts"]:
        yield f"{format_opinion(each['opinion'])} what {each['on']} said"
        yield from (f"- {escape_one_line(issue)}" for issue in each["issues"])
    if stands := _format_position(reply):
        yield stands


def _render_item(mark: str, text: str, style: str = "") -> Table:
    """Return a text that hangs behind its mark."""
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row(Text(mark, style=style), Text(text, style=style))
    return table


def _render_markdown(text: str) -> RenderableType:
    made = Markdown("", hyperlinks=False, code_theme="ansi_dark")
    made.parsed = create_markdown().parse(escape_control(text))
    return _CompactRenderable(made)


def _format_rounds(number: int) -> str:
    return "one round" if number == 1 else f"{number} rounds at most"
