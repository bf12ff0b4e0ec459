"""A debate on a person's screen: both answers side by side, who is at work, and the question how to go on."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
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

from kakite.cli.debate_question import Question
from kakite.cli.screen import visible, visible_name
from kakite.debate import standing
from kakite.debate.asking import named, purpose_of
from kakite.debate.prose import markdown
from kakite.debate.transcript import reply_as_json, round_as_json
from kakite.debate.wording import agreed, decision, duration, opinion, purpose, why

if TYPE_CHECKING:
    from kakite.debate import Debate, Decision, Happening

Told = dict[str, Any]

_COLUMN = 46
"""Cells of a side's column, at least; without room for that answers stand one under the other."""
_RESERVED = 8
"""Rows of the screen that a preview of an answer leaves free."""
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_STYLES = {"accept": "green", "accept_with_changes": "yellow", "reject": "red"}
_AGREED = {"agree": "green", "partly": "yellow", "disagree": "red", "unknown": "dim"}
_TAIL = 3
"""Lines of a program's errors that are shown."""


@dataclass(slots=True)
class _Work:
    """A side that is at work."""

    began: float
    heard: str = ""


class Screen(Console):
    """A person's screen, or a file; one that is gone is an error like others."""

    def __init__(self) -> None:
        super().__init__(highlight=False)

    def on_broken_pipe(self) -> None:
        """Let the caller know, where rich would end the process in the middle of the event loop."""
        raise BrokenPipeError(errno.EPIPE, "nobody reads any more")


class DebateScreen:
    """Shows what happens (``happened`` is a ``bridge.Listener``), and asks. Plain lines where
    nothing moves.
    """

    def __init__(self, console: Console, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.console = console
        self._moves = console.is_terminal and not console.is_dumb_terminal
        self._clock = clock
        self._debate: Debate | None = None
        self._number = 0
        """The round that is shown while it is held."""
        self._working: dict[str, _Work] = {}
        self._there: dict[str, Told] = {}
        """What sides replied in that round; a long answer is not to be told anew for each picture."""
        self._live: Live | None = None

    def happened(self, happening: Happening) -> None:
        """Show what happened."""
        self._debate = happening.debate
        match happening.kind:
            case "begun":
                self.latest(happening.debate)
            case "asked":
                self._asked(happening)
            case "heard" if work := self._working.get(happening.side):
                work.heard = happening.text
            case "replied":
                self._replied(happening)
            case "unkept":
                self.note(f"the answer of {happening.side} could not be kept: {happening.text}", "red")
            case "decided":
                made = happening.debate.turn.decision
                assert made
                told = {"type": made.kind, "side": made.side}
                self.note(decision(told), "cyan")
            case _:
                self.close()

    def turn(self, debate: Debate) -> None:
        """Show where the debate stands, now that no reply is due."""
        self.close()
        now = standing(debate)
        self._print()
        style = _AGREED[now.agreement]
        result = f"● {agreed(now.agreement).capitalize()}."
        self._print(Text.assemble((result, f"bold {style}"), f" {why(now.ending)}"))
        held = [(each, issue) for each in now.dissent for issue in each.issues]
        if held:
            self._print(Text("  What is not agreed on:"))
        for each, issue in held:
            told = visible_name(named(debate, each.round, each.by, issue))
            self._print(_item(f"    {each.by}, of {each.on}:", told))
        tokens = f", {debate.tokens:,} tokens" if debate.tokens else ""
        spent = f"  {debate.asks} answers asked for, {duration(debate.seconds)}{tokens}"
        self._print(Text(spent, style="dim"))

    def latest(self, debate: Debate) -> None:
        """Show what a debate is about, the latest round that was held to its end, and what began after it."""
        self._debate = debate
        self._about(debate)
        names, count = debate.terms.names, len(debate.rounds)
        is_open = bool(count) and len(debate.rounds[-1].replies) < len(names)
        # Side by side it is shown as a whole when it is there.
        begun = is_open and (debate.stopped or not self._columns(debate))
        for number in filter(None, [count - is_open, count if begun else 0]):
            self._number = number
            self._heading(number, names[0])
            self._show_round(number)

    def note(self, text: str, style: str = "") -> None:
        """Show a line of ours."""
        self._pause()
        self._print(Text(visible(text), style=style))

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
        return await Question(self.console, self._print).ask(debate)

    def _about(self, debate: Debate) -> None:
        first, _, rest = debate.prompt.strip().partition("\n")
        self._print(Text(visible_name(first), style="bold"))
        if rest.strip():
            self._print(Text(visible(rest.strip()), style="dim"))
        terms = debate.terms
        names = " and ".join([", ".join(terms.names[:-1]), terms.names[-1]])
        how = "answer once" if terms.mode == "ensemble" else f"argue, {_rounds(terms.rounds)}"
        self._print(Text(f"{names} {how}", style="dim"))

    def _asked(self, happening: Happening) -> None:
        if happening.round != self._number:
            self._pause()
            self._number = happening.round
            self._there.clear()
            self._heading(happening.round, happening.side)
        self._working[happening.side] = _Work(self._clock())
        if not self._moves:
            self._print(Text(f"{happening.side} is at work"))
        elif self._live is None:
            self._live = Live(
                _Picture(self),
                console=self.console,
                transient=True,
                refresh_per_second=6,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()

    def _replied(self, happening: Happening) -> None:
        self._working.pop(happening.side, None)
        held = happening.debate.rounds[happening.round - 1]
        is_last = len(held.replies) == len(happening.debate.terms.names)
        if self._columns(happening.debate):
            if is_last:
                self._pause()
                self._show_round(happening.round)
            return
        self._pause(going_on=not is_last)
        self._stacked(reply_as_json(happening.debate, happening.round, happening.side))
        if is_last:
            self._matrix(round_as_json(happening.debate, happening.round))

    def _pause(self, *, going_on: bool = False) -> None:
        """Take what moves off the screen, for good or while something is printed above it."""
        if self._live is not None and not going_on:
            live, self._live = self._live, None
            live.stop()

    def _heading(self, number: int, side: str) -> None:
        assert self._debate
        told = f"Round {number}: {purpose(purpose_of(self._debate, number, side))}"
        if self._moves:
            self._print()
            self.console.rule(Text(told, style="bold"), style="dim", align="left")
        else:
            self._print(Text(f"\n{told}"))

    def _show_round(self, number: int) -> None:
        assert self._debate
        held = round_as_json(self._debate, number)
        if self._columns(self._debate):
            self._print(self._table(held["replies"]))
        else:
            for reply in held["replies"]:
                self._stacked(reply)
        if held["complete"]:
            self._matrix(held)

    def _table(self, replies: Sequence[Told]) -> Table:
        table = Table(show_edge=False, show_header=False, expand=True, box=MINIMAL, padding=(0, 1))
        for _ in replies:
            table.add_column(ratio=1, overflow="fold")
        table.add_row(*(Group(_label(reply), *_said(reply)) for reply in replies))
        return table

    def _stacked(self, reply: Told) -> None:
        self._print()
        self._print(_label(reply))
        if self._moves:
            self._print(Padding(Group(*_said(reply)), (0, 0, 0, 2)))
            return
        for line in _plain(reply):
            self._print(Text(line))

    def _matrix(self, held: Told) -> None:
        if not held["matrix"]:
            return
        self._print()
        for by, said in held["matrix"].items():
            for on, given in said.items():
                style = _STYLES.get(given or "", "dim")
                self._print(Text.assemble(f"  {by} ", (opinion(given), f"bold {style}"), f" what {on} said"))

    def _columns(self, debate: Debate) -> bool:
        return self._moves and self.console.width // len(debate.terms.names) >= _COLUMN

    def _print(self, *what: RenderableType) -> None:
        self.console.print(*what, soft_wrap=not self._moves)

    def picture(self, height: int) -> Iterator[RenderableType]:
        """Yield what is shown while sides are at work: a row for each, and what has been said already."""
        debate = self._debate
        if debate is None:
            return
        replies = self._replies(debate)
        for name in debate.terms.names:
            yield self._row(name, replies.get(name))
        if self._columns(debate) and replies and self._working:
            cells = [
                _Cropped(Group(_label(replies[name]), *_said(self._begun(replies[name], height))), height)
                if name in replies
                else Text("")
                for name in debate.terms.names
            ]
            table = Table(show_edge=False, show_header=False, expand=True, box=MINIMAL, padding=(0, 1))
            for _ in cells:
                table.add_column(ratio=1, overflow="fold")
            table.add_row(*cells)
            yield table

    def _replies(self, debate: Debate) -> Mapping[str, Told]:
        held = debate.rounds[self._number - 1].replies if len(debate.rounds) >= self._number > 0 else ()
        for name in held:
            if name not in self._there:
                self._there[name] = reply_as_json(debate, self._number, name)
        return self._there

    def _begun(self, reply: Told, height: int) -> Told:
        """Return a reply with no more of its text than so many rows can show."""
        if reply["type"] != "answer":
            return reply
        lines = reply["text"][: height * self.console.width].split("\n")[: height * 2]
        return {**reply, "text": "\n".join(lines)}

    def _row(self, name: str, reply: Told | None) -> Text:
        row = Text(no_wrap=True, overflow="ellipsis")
        if reply:
            good = reply["type"] == "answer"
            row.append("✓ " if good else "✗ ", style="green" if good else "red")
            told = reply["claim"] if good else reply["message"]
            row.append(f"{name}  {reply['seconds']:.0f} s  {visible_name(told)}")
        elif work := self._working.get(name):
            past = self._clock() - work.began
            row.append(f"{_SPINNER[int(past * 10) % len(_SPINNER)]} ", style="cyan")
            row.append(f"{name}  {past:.0f} s  {visible_name(work.heard) or 'thinking'}")
        else:
            row.append(f"· {name}  waits", style="dim")
        return row


class _Picture:
    """What moves."""

    def __init__(self, screen: DebateScreen) -> None:
        self._screen = screen

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self._screen.picture(max(console.height - _RESERVED, 3))


class _Cropped:
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


class _Tight:
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


def _label(reply: Told) -> Text:
    tokens = reply["input_tokens"] + reply["output_tokens"]
    used = duration(reply["seconds"]) + (f", {tokens:,} tokens" if tokens else "")
    return Text.assemble((reply["side"], "bold cyan"), (f"  {used}", "dim"))


def _said(reply: Told) -> Iterator[RenderableType]:
    if reply["type"] != "answer":
        yield from _failed(reply)
        return
    if reply["claim"]:
        sure = "" if reply["confidence"] is None else f"  {reply['confidence']} % sure"
        yield Text.assemble((visible_name(reply["claim"]), "bold"), (sure, "dim"))
    if " ".join(reply["text"].split()) != reply["claim"]:
        yield Text("")
        yield _prose(reply["text"])
    if reply["verdicts"] or reply["position"] or reply["because"]:
        yield Text("")
    for each in reply["verdicts"]:
        style = f"bold {_STYLES[each['opinion']]}"
        yield Text.assemble((opinion(each["opinion"]), style), f" what {each['on']} said")
        if each["strongest"]:
            yield _item("  +", visible_name(each["strongest"]), "dim")
        for issue in each["issues"]:
            yield _item("  -", visible_name(issue))
    if stands := _stands(reply):
        yield Text(stands)
    for note in reply["notes"]:
        yield Text(f"note: {visible_name(note)}", style="dim")


def _stands(reply: Told) -> str:
    if not reply["position"] and not reply["because"]:
        return ""
    position = reply["position"]
    stands = {"new": "now has another answer", reply["side"]: "stands by its own answer", None: "why"}
    told = stands.get(position, f"now agrees with {position}")
    return f"{told}: {visible_name(reply['because'])}" if reply["because"] else told


def _failed(reply: Told) -> Iterator[RenderableType]:
    code = (f"({reply['code']}) ", "red")
    yield Text.assemble(("no answer ", "bold red"), code, visible_name(reply["message"]))
    if reply["hint"]:
        yield Text(visible_name(reply["hint"]), style="yellow")
    for line in reply["stderr_tail"].strip().splitlines()[-_TAIL:]:
        yield Text(f"| {visible_name(line)}", style="dim")


def _plain(reply: Told) -> Iterator[str]:
    """Yield the lines of a reply for what is no terminal."""
    if reply["type"] != "answer":
        yield f"no answer ({reply['code']}): {visible_name(reply['message'])}"
        if reply["hint"]:
            yield f"hint: {visible_name(reply['hint'])}"
        return
    yield visible(reply["text"])
    for each in reply["verdicts"]:
        yield f"{opinion(each['opinion'])} what {each['on']} said"
        yield from (f"- {visible_name(issue)}" for issue in each["issues"])
    if stands := _stands(reply):
        yield stands


def _item(mark: str, text: str, style: str = "") -> Table:
    """Return a text that hangs behind its mark."""
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row(Text(mark, style=style), Text(text, style=style))
    return table


def _prose(text: str) -> RenderableType:
    made = Markdown("", hyperlinks=False, code_theme="ansi_dark")
    made.parsed = markdown().parse(visible(text))
    return _Tight(made)


def _rounds(number: int) -> str:
    return "one round" if number == 1 else f"{number} rounds at most"
