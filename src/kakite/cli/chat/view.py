"""Shows a session in a terminal: what is finished scrolls up, what is under way stands above the prompt."""

from __future__ import annotations

import base64
import json
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, cast

from rich.cells import cell_len, chop_cells
from rich.console import Console, ConsoleDimensions, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import Markdown
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from kakite.agent.observe import events
from kakite.agent.observe.renderers.terminal import describe_call
from kakite.agent.run.checklist import UPDATE_PLAN, ChecklistStatus, ChecklistStep
from kakite.cli.chat.markdown_stream import MarkdownStream
from kakite.terminal_text import escape_control, escape_one_line
from kakite.tools.shell.command_output import parse_command_output

_CHECKLIST: Mapping[ChecklistStatus, tuple[str, str]] = {
    "pending": ("☐", "white"),
    "in_progress": ("▸", "yellow"),
    "completed": ("☑", "green"),
}

DIFF_LINES = 40
"""Lines of a diff that are shown at once; a key shows all."""
FAILED_LINES = 8
"""Lines of the output of a call that failed."""
LIVE_LINES = 6
"""Lines of what is under way, above the prompt."""
MESSAGE_LINES = 8
"""Lines of a message of the person that are shown again once it is sent."""
HISTORY_TURNS, HISTORY_LINES = 3, 30
"""Messages of a stored session, with what came of them, that are shown again, and lines of that."""
OUTPUT_LINES = 3
"""Lines of what a command has printed, below it while it runs."""
WAITING_MESSAGES = 3
"""Messages that wait for the model's next step, of which the prompt shows the beginning."""
_TAB = 4
_AROUND = 6  # rows that the line and the answers take
_DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}

_PREPARING = {
    "sandbox": "Preparing the sandbox",
    "server": "Starting the tools",
    "context": "Shortening the conversation",
}
_ENDS = {
    "interrupted": "Interrupted. What do you want instead?",
    "limit": "Stopped: the limit of turns is reached.",
    "budget": "Stopped: a limit of the budget is reached.",
    "stuck": "Stopped: the model repeats the same call.",
    "refused": "The model would not answer.",
}


Notification = Literal["off", "bell", "desktop"]
"""How a person is told that it is their move."""


def send_sequence(text: str) -> None:
    """Send the terminal a sequence that draws nothing, past what draws."""
    if sys.__stdout__ is not None:
        sys.__stdout__.write(text)
        sys.__stdout__.flush()


class TerminalConsole(Console):
    """A console that is as wide as the terminal is now, whatever it was at first."""

    def __init__(self, *, plain: bool) -> None:
        colourless = plain or bool(os.environ.get("NO_COLOR"))
        super().__init__(
            force_terminal=not plain, no_color=colourless, highlight=False, emoji=False, markup=False
        )

    @property
    def size(self) -> ConsoleDimensions:  # pyright: ignore[reportIncompatibleMethodOverride] - the terminal says it
        """The size of the terminal."""
        try:
            columns, lines = os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ else 1)
        except (OSError, ValueError):
            columns, lines = 80, 25
        return ConsoleDimensions(columns or 80, lines or 25)


@dataclass(frozen=True, slots=True, kw_only=True)
class Thought:
    """What the model thought before a reply, or before it was stopped."""

    text: str
    seconds: float

    @property
    def title(self) -> str:
        """One line about it."""
        return f"thought for {max(self.seconds, 1):.0f} s"


@dataclass(slots=True)
class _Escaped:
    """Something with text from elsewhere. Markdown can name characters that its source does not have.

    The empty rows that Markdown has around lists and tables go: who prints a block leaves one below it.
    """

    content: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        rows = console.render_lines(self.content, options, pad=False)
        shown = [at for at, row in enumerate(rows) if any(segment.text.strip() for segment in row)]
        for row in rows[shown[0] : shown[-1] + 1] if shown else ():
            for segment in row:
                yield segment if segment.control else Segment(escape_control(segment.text), segment.style)
            yield Segment.line()


@dataclass(kw_only=True)
class ChatView:
    """Renders events, and keeps what the lines around the prompt say."""

    console: Console
    plain: bool = False
    """Only lines of text: no live area, no signs or tables, no colour."""
    refresh: Callable[[], None] = lambda: None
    """Draws the lines around the prompt again."""
    doing: str = ""
    """What is under way; empty: nothing."""
    since: float = 0.0
    """When that began, by the monotonic clock."""
    used: tuple[int, int] = (0, 0)
    """Tokens of the context, and of the model's window; 0: not known."""
    cost: float | None = 0.0
    foldable: list[events.ToolResultEvent | Thought] = field(
        default_factory=list["events.ToolResultEvent | Thought"]
    )
    """Results and thoughts so far, for who wants to see one whole."""
    waiting: deque[str] = field(default_factory=deque[str])
    """Messages of the person that the model has not got yet."""
    queued: list[str] = field(default_factory=list[str])
    """Messages of the person for turns after the one that runs."""
    _asked: set[str] = field(default_factory=set[str])
    """The calls whose question has shown what they change."""
    _text: MarkdownStream = field(default_factory=MarkdownStream)
    _output: str = ""
    """The end of what the command prints that runs now."""
    _streamed: bool = False
    _has_gap: bool = False
    """Whether the last line that was shown is empty."""
    _follows_result: bool = False
    """Whether the last line that was shown tells what a call came to."""
    _thought: str = ""
    """What the model thinks now."""

    def show(self, event: events.RunEvent) -> None:
        """Show an event. A RunListener."""
        match event:
            case events.ModelThoughtDelta(text=text):
                self._thought += text
            case events.ModelTextDelta(text=text):
                self._stream(text)
            case events.ModelReplyEvent(text=text):
                self._end_reply(text)
            case events.ToolResultEvent():
                self._show_result(event)
            case events.TurnEnded():
                self._end_turn(event)
            case events.ToolCallEvent() | events.ToolCallStarted() | events.ToolCallOutput():
                self._show_call(event)
            case events.PreparationStarted(what=what):
                self.begin(_PREPARING.get(what, what))
            case events.ModelRequestStarted():
                self._streamed = False
                self.begin("Thinking")
            case events.ModelRequestRetried():
                self._withdraw_reply(event.describe())
            case _:
                self._show_note(event)
        self.refresh()

    def _show_note(self, event: events.RunEvent) -> None:
        match event:
            case (
                events.SteeringReceived(elsewhere=True, text=text)
                | events.TurnStarted(elsewhere=True, text=text)
            ):
                self.note("Written on the page:")
                self.show_message(text)
            case events.TurnStarted():
                self._take_waiting()
            case events.SteeringReceived():
                self._take_waiting()
                self.note("The model has your message.")
            case events.ResourceMissing(what=what, message=message):
                self.warn(f"going on without {what}: {message}")
            case events.HookFailed(message=message):
                self.warn(message)
            case events.PlanUpdated(steps=steps):
                self._show_checklist(steps)
            case events.SubagentEvent():
                self._show_subagent(event)
            case events.PriceUnknown(model=model):
                self.note(f"No price is known for {model}, so its cost is not counted.")
            case events.RunStepEvent(text=text):
                self.note(text)
            case _:
                return

    def reset(self) -> None:
        """Forget the session before: another one is shown now."""
        self.doing, self.used, self.cost = "", (0, 0), 0.0
        self._thought = ""
        self.foldable.clear()
        self.waiting.clear()
        self._asked.clear()

    def show_history(self, happened: Sequence[events.RunEvent]) -> None:
        """Show the last turns of a stored session again: of many lines the last ones."""
        said = [at for at, event in enumerate(happened) if _is_said(event)]
        with self.console.capture() as captured:
            for event in happened[said[-HISTORY_TURNS:][0] :] if said else ():
                match event:
                    case events.UserMessageEvent(text=text, from_person=True):
                        self.show_message(text)
                    case events.ToolCallEvent():
                        continue  # its result tells what it was
                    case _:
                        self.show(event)
        lines = captured.get().splitlines(keepends=True)
        if len(lines) > HISTORY_LINES:
            self.note(f"… {len(lines) - HISTORY_LINES} earlier lines (/export writes all)")
        self.console.file.write("".join(lines[-HISTORY_LINES:]))
        self.doing = ""

    def show_question(self, call_id: str, rows: Iterable[Text]) -> None:
        """Show a question about a call: its result does not show again what it changes."""
        self._asked.add(call_id)
        self._print_gap()
        shown = list(rows)
        for row in shown:
            self._print(row)
        if len(shown) > self.console.height - _AROUND:
            self.note(f"(the question has {len(shown):,} rows: scroll up)")

    def show_person_question(self, lines: Iterable[tuple[Text, Text]]) -> None:
        """Show a question of the model."""
        self._print_gap()
        for mark, text in lines:
            self._print_marked(mark, text)

    def note(self, text: str) -> None:
        """Show a line of ours."""
        self._print(Text(escape_control(text), style="dim"))

    def warn(self, text: str) -> None:
        """Show a line of ours that one should see."""
        self._print(Text.assemble(("Note: " if self.plain else "! ", "bold yellow"), escape_control(text)))

    def fail(self, text: str) -> None:
        """Show what went wrong."""
        self._print(Text.assemble(("Error: " if self.plain else "✗ ", "bold red"), escape_control(text)))

    def show_message(self, text: str) -> None:
        """Show a message of the person; of a long one the beginning."""
        lines = escape_control(text).split("\n")
        for number, line in enumerate(lines[:MESSAGE_LINES]):
            self._print_marked(Text("  " if number else "› ", "bold cyan"), Text(line, "bold"))
        if len(lines) > MESSAGE_LINES:
            self.note(f"  … {len(lines) - MESSAGE_LINES} more lines")

    def show_markdown(self, text: str) -> None:
        """Show a text of the model."""
        if self._follows_result:
            self._print_gap()
        if self.plain:
            self._print(Text(escape_control(text)))
            return
        # A link shows where it leads; code has the terminal's own colours, which suit dark and light ones.
        shown = Markdown(escape_control(text), hyperlinks=False, code_theme="ansi_dark")
        self._print(_Escaped(shown))
        self._print(Text(""))

    def show_output(self, text: str) -> None:
        """Show what a program has written."""
        self._print(Text(escape_control(text.expandtabs())))

    def show_table(self, rows: Iterable[tuple[str, str]]) -> None:
        """Show names, and what stands behind each."""
        rows = [(escape_one_line(name), escape_one_line(told)) for name, told in rows]
        if self.plain:
            for name, told in rows:
                self.note(f"{name}: {told}")
            return
        table = Table.grid(padding=(0, 2))
        for name, told in rows:
            table.add_row(Text(name), Text(told, style="dim"))
        self._print(table)

    def show_diff(self, diff: str, most: int | None = DIFF_LINES) -> None:
        """Show a diff in colours, so many lines of it at most."""
        lines = escape_control(diff).splitlines()
        shown = lines if most is None else lines[:most]
        for line in shown:
            self._print(Text(line.expandtabs(_TAB), style=_DIFF_STYLES.get(line[:1], "")))
        if len(shown) < len(lines):
            self.note(f"    … {len(lines) - len(shown)} more lines ({self._how_to_unfold})")

    def show_last_folded(self) -> None:
        """Show the latest call's result whole, or what the model thought."""
        if not self.foldable:
            self.note("There was no call yet.")
            return
        event = self.foldable[-1]
        self.note(f"— {event.title}")
        if isinstance(event, Thought):
            self.note(event.text)
            return
        if event.diff:
            self.show_diff(event.diff, None)
        self.show_output(_format_output(event.text))

    def format_live(self, width: int, *, doing: bool = True) -> str:
        """Return what is under way, for above the prompt: the end of the text that comes, what is done."""
        room = max(width - 1, 1)
        lines = _get_last_rows(self._text.pending or self._thought, room)
        for message in list(self.waiting)[:WAITING_MESSAGES]:
            lines.append(_cut(f"… waits: {escape_one_line(message)}", room))
        for message in self.queued[:WAITING_MESSAGES]:
            lines.append(_cut(f"↳ next turn: {escape_one_line(message)}", room))
        if self.doing and doing:
            seconds = int(time.monotonic() - self.since)
            took = f"  {seconds} s" if seconds else ""
            lines.append(_cut(f"● {self.doing}", room - len(took)) + took)
            lines += self._format_output_tail(room)
        return "\n".join(lines)

    def _format_output_tail(self, room: int) -> list[str]:
        """Return the last lines that the command has printed, each in one row."""
        shown = escape_control(self._output).expandtabs(_TAB).rstrip().split("\n")
        return [_cut(f"  {line}", room) for line in shown[-OUTPUT_LINES:] if line.strip()]

    @property
    def is_thinking(self) -> bool:
        """Whether what stands above the prompt are the model's thoughts."""
        return bool(self._thought) and not self._text.pending

    def copy(self, text: str) -> None:
        """Put a text into the person's clipboard, where the terminal lets programs do that."""
        send_sequence(f"\x1b]52;c;{base64.b64encode(text.encode()).decode()}\x07")

    def ring(self, notify: Notification, text: str) -> None:
        """Tell the person that it is their move, where they want to be told so."""
        if notify == "desktop" and not self.plain:
            send_sequence(f"\x1b]9;Kakite: {text}\x07")
        if notify != "off":
            send_sequence("\x07")

    def begin(self, what: str) -> None:
        """Note what is under way."""
        self.doing, self.since = escape_one_line(what), time.monotonic()
        self._output = ""

    def _print(self, content: RenderableType) -> None:
        # In plain mode the terminal itself breaks lines: a reader of screens then knows one from two.
        self.console.print(content, soft_wrap=self.plain)
        self._has_gap = isinstance(content, Text) and not content.plain
        self._follows_result = False

    def _print_gap(self) -> None:
        """Leave a line empty, unless the last one is."""
        if not self._has_gap:
            self._print(Text(""))

    def _print_marked(self, mark: Text, text: Text) -> None:
        """Show a line whose further rows stand below its first word, not below its mark."""
        whole = Text.assemble(mark, text)
        if self.plain or whole.cell_len <= self.console.width:
            self._print(whole)
            return
        row = Table.grid()
        row.add_column(no_wrap=True)
        row.add_row(mark, text)
        self._print(row)

    @property
    def _how_to_unfold(self) -> str:
        return "/last shows all" if self.plain else "Ctrl-O shows all"

    def _take_waiting(self) -> None:
        """Note that the model has the message that waited longest."""
        if self.waiting:
            self.waiting.popleft()

    def _fold_thought(self) -> None:
        """Show in one line that the model has thought."""
        text, self._thought = self._thought.strip(), ""
        if not text:
            return
        seconds = time.monotonic() - self.since
        self.foldable.append(Thought(text=text, seconds=seconds))
        if not self.plain:
            self.note(f"{self.foldable[-1].title} ({self._how_to_unfold})")

    def _stream(self, text: str) -> None:
        self._fold_thought()
        self._streamed = True
        for block in self._text.feed(text):
            self.show_markdown(block)

    def _end_reply(self, text: str) -> None:
        self._fold_thought()
        rest = self._text.flush()
        if self._streamed:
            if rest.strip():
                self.show_markdown(rest)
        elif text.strip():
            self.show_markdown(text)
        self.doing = ""

    def _show_call(
        self, event: events.ToolCallEvent | events.ToolCallStarted | events.ToolCallOutput
    ) -> None:
        if isinstance(event, events.ToolCallOutput):
            self._output = event.text
            return
        if isinstance(event, events.ToolCallStarted):
            self.since = time.monotonic()  # a question about the call may have waited
            return
        self.begin(describe_call(event))
        if self.plain:
            self.note(f"Working: {self.doing}")

    def _withdraw_reply(self, why: str) -> None:
        """Show what has come of a reply that broke off, and why it does not count."""
        self._fold_thought()
        if rest := self._text.flush():
            self.show_markdown(rest)
        self._streamed = False
        self.warn(why)
        self.begin("Waiting for the model's provider")

    def _show_checklist(self, steps: Sequence[ChecklistStep]) -> None:
        for step in steps:
            mark, colour = _CHECKLIST[step.status]
            mark = f"{step.status.replace('_', ' ')}:" if self.plain else mark
            style = "dim" if step.status == "completed" else "bold" if step.status == "in_progress" else ""
            self._print_marked(Text(f"  {mark} ", f"bold {colour}"), Text(escape_one_line(step.text), style))

    def _show_subagent(self, event: events.SubagentEvent) -> None:
        about = escape_one_line(event.description)
        match event.event:
            case events.ToolResultEvent(title=title, ok=ok):
                self.note(f"    {about}: {'✓' if ok else '✗'} {escape_one_line(title)}")
            case events.ToolCallEvent() as call:
                self.begin(f"{about}: {describe_call(call)}")
            case events.ModelRequestStarted():
                self.begin(f"{about}: Thinking")
            case _:
                return

    def _show_result(self, event: events.ToolResultEvent) -> None:
        self.foldable.append(event)
        self.doing = ""
        if event.tool == UPDATE_PLAN and event.ok:  # the checklist itself is shown next
            return
        failed = not event.ok
        mark, colour = ("✗", "red") if failed else ("!", "yellow") if event.exit_code else ("✓", "green")
        if self.plain:
            mark = "Failed:" if failed else "Done:"
        ended = f"  exit {event.exit_code}" if event.exit_code else ""
        took = f"  {event.seconds:.1f} s" if event.seconds >= 1 else ""
        title = escape_one_line(event.title)
        told = Text.assemble(title, (f"{ended}{took}", "dim"))
        self._print_marked(Text(f"{mark} ", f"bold {colour}"), told)
        if event.forgiven:
            self.note(f"    not quoted exactly, forgiven: {', '.join(event.forgiven)}")
        if event.diff and event.ok:
            if event.id not in self._asked:
                self.show_diff(event.diff)
        elif failed or event.exit_code:
            self._show_excerpt(event.text)
        for diagnostic in event.diagnostics:
            self._show_excerpt(diagnostic)
        self._follows_result = not self.plain

    def _show_excerpt(self, text: str) -> None:
        lines = escape_control(_format_output(text)).splitlines()
        for line in lines[:FAILED_LINES]:
            self._print(Text(f"    {line}", style="dim"))
        if len(lines) > FAILED_LINES:
            self.note(f"    … {len(lines) - FAILED_LINES} more lines ({self._how_to_unfold})")

    def _end_turn(self, event: events.TurnEnded) -> None:
        self._fold_thought()
        rest = self._text.flush()
        if rest.strip():
            self.show_markdown(rest)
        self.doing = ""
        self.used = event.context_tokens, event.context_window
        self.cost = event.usage.cost_usd
        if event.reason == "failed":
            self.fail(event.text)
        elif told := _ENDS.get(event.reason):
            self.warn(told)


def _is_said(event: events.RunEvent) -> bool:
    """Return whether an event is a message of the person."""
    return isinstance(event, events.UserMessageEvent) and event.from_person


def _format_output(text: str) -> str:
    """Return the output of a call for a person: of a command what it printed.

    Sessions that an earlier version has stored have both streams in JSON.
    """
    if (answer := parse_command_output(text)) is not None:
        return answer.text or "(no output)"
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(value, dict) or not {"stdout", "stderr"} <= value.keys():
        return text
    streams = cast("dict[str, object]", value)
    parts = [str(streams[name]).rstrip("\n") for name in ("stdout", "stderr")]
    return "\n".join(filter(None, parts)) or "(no output)"


def _get_last_rows(text: str, room: int) -> list[str]:
    """Return the last rows of a text that comes: of a long one no more than that is looked at."""
    if not text.strip():
        return []
    rows: list[str] = []
    for line in escape_control(text.strip("\n")[-LIVE_LINES * room :]).expandtabs(_TAB).split("\n"):
        rows += chop_cells(line, room) or [""]
    return rows[-LIVE_LINES:]


def _cut(text: str, cells: int) -> str:
    """Return as much of a text as has room."""
    return text if cell_len(text) <= cells else f"{chop_cells(text, max(cells - 1, 1))[0]}…"
