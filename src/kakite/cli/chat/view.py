"""Shows a session in a terminal: what is finished scrolls up, what is under way stands above the prompt."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.markdown import Markdown
from rich.syntax import Syntax
from rich.text import Text

from kakite.agent.observe import events
from kakite.agent.observe.renderers.terminal import describe_call
from kakite.agent.run.checklist import UPDATE_PLAN, ChecklistStatus, ChecklistStep
from kakite.cli.chat.markdown_stream import MarkdownStream
from kakite.terminal_text import escape_control, escape_one_line

DIFF_LINES = 40
"""Lines of a diff that are shown at once; a key shows all."""
FAILED_LINES = 8
"""Lines of the output of a call that failed."""
LIVE_LINES = 6
"""Lines of what is under way, above the prompt."""

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

_CHECKLIST: Mapping[ChecklistStatus, tuple[str, str]] = {
    "pending": ("☐", "white"),
    "in_progress": ("▸", "yellow"),
    "completed": ("☑", "green"),
}


@dataclass(kw_only=True)
class ChatView:
    """Renders events, and keeps what the lines around the prompt say."""

    console: Console
    refresh: Callable[[], None] = lambda: None
    """Draws the lines around the prompt again."""
    doing: str = ""
    """What is under way; empty: nothing."""
    since: float = 0.0
    """When that began, by the monotonic clock."""
    used: tuple[int, int] = (0, 0)
    """Tokens of the context, and of the model's window; 0: not known."""
    cost: float | None = 0.0
    calls: list[events.ToolResultEvent] = field(default_factory=list[events.ToolResultEvent])
    """The results so far, for who wants to see one whole."""
    _asked: set[str] = field(default_factory=set[str])
    """The calls whose question has shown what they change."""
    _text: MarkdownStream = field(default_factory=MarkdownStream)
    _streamed: bool = False

    def show(self, event: events.RunEvent) -> None:
        """Show an event. A RunListener."""
        match event:
            case events.ModelTextDelta(text=text):
                self._stream(text)
            case events.ModelReplyEvent(text=text):
                self._end_reply(text)
            case events.SubagentEvent():
                self._show_subagent(event)
            case events.PlanUpdated(steps=steps):
                self._show_checklist(steps)
            case events.ToolResultEvent():
                self._show_result(event)
            case events.TurnEnded():
                self._end_turn(event)
            case events.ToolCallEvent():
                self._begin(escape_one_line(describe_call(event)))
            case events.PreparationStarted(what=what):
                self._begin(_PREPARING.get(what, what))
            case events.ModelRequestStarted():
                self._streamed = False
                self._begin("Thinking")
            case _:
                self._show_note(event)
        self.refresh()

    def _show_note(self, event: events.RunEvent) -> None:
        match event:
            case events.SteeringReceived():
                self.note("The model has your message.")
            case events.ResourceMissing(what=what, message=message):
                self.warn(f"going on without {what}: {message}")
            case events.HookFailed(message=message):
                self.warn(message)
            case events.PriceUnknown(model=model):
                self.note(f"No price is known for {model}, so its cost is not counted.")
            case events.RunStepEvent(text=text):
                self.note(text)
            case _:
                return

    def note_shown(self, call_id: str) -> None:
        """Take note that what a call changes is on the screen: its result does not show it again."""
        self._asked.add(call_id)

    def note(self, text: str) -> None:
        """Show a line of ours."""
        self.console.print(Text(escape_control(text), style="dim"))

    def warn(self, text: str) -> None:
        """Show a line of ours that one should see."""
        self.console.print(Text.assemble(("! ", "bold yellow"), escape_control(text)))

    def fail(self, text: str) -> None:
        """Show what went wrong."""
        self.console.print(Text.assemble(("✗ ", "bold red"), escape_control(text)))

    def show_message(self, text: str) -> None:
        """Show a message of the person."""
        for line in escape_control(text).split("\n"):
            self.console.print(Text.assemble(("› ", "bold cyan"), (line, "bold")))

    def show_markdown(self, text: str) -> None:
        """Show a text of the model."""
        self.console.print(Markdown(escape_control(text)))
        self.console.print()

    def show_diff(self, diff: str, most: int | None = DIFF_LINES) -> None:
        """Show a diff in colours, so many lines of it at most."""
        lines = escape_control(diff).splitlines()
        shown = lines if most is None else lines[:most]
        self.console.print(Syntax("\n".join(shown), "diff", background_color="default", word_wrap=True))
        if len(shown) < len(lines):
            self.note(f"    … {len(lines) - len(shown)} more lines (Ctrl-O shows all)")

    def show_last_call(self) -> None:
        """Show the latest call's result whole."""
        if not self.calls:
            self.note("There was no call yet.")
            return
        event = self.calls[-1]
        self.note(f"— {event.title}")
        if event.diff:
            self.show_diff(event.diff, None)
        self.console.print(Text(escape_control(event.text)))

    def format_live(self, width: int) -> str:
        """Return what is under way, for above the prompt: the text that comes, and what is being done."""
        lines: list[str] = []
        if self._text.pending.strip():
            text = escape_control(self._text.pending.strip("\n"))
            lines += [line[: max(width - 1, 1)] for line in text.split("\n")][-LIVE_LINES:]
        if self.doing:
            seconds = int(time.monotonic() - self.since)
            told = f"● {self.doing}" + (f"  {seconds} s" if seconds else "")
            lines.append(told[: max(width - 1, 1)])
        return "\n".join(lines)

    def _begin(self, what: str) -> None:
        self.doing, self.since = what, time.monotonic()

    def _stream(self, text: str) -> None:
        self._streamed = True
        for block in self._text.feed(text):
            self.show_markdown(block)

    def _end_reply(self, text: str) -> None:
        rest = self._text.flush()
        if self._streamed:
            if rest.strip():
                self.show_markdown(rest)
        elif text.strip():
            self.show_markdown(text)
        self.doing = ""

    def _show_result(self, event: events.ToolResultEvent) -> None:
        self.calls.append(event)
        self.doing = ""
        if event.tool == UPDATE_PLAN and event.ok:  # the checklist itself is shown next
            return
        failed = not event.ok
        mark, colour = ("✗", "red") if failed else ("!", "yellow") if event.exit_code else ("✓", "green")
        ended = f"  exit {event.exit_code}" if event.exit_code else ""
        took = f"  {event.seconds:.1f} s" if event.seconds >= 1 else ""
        title = escape_one_line(event.title)
        self.console.print(Text.assemble((f"{mark} ", f"bold {colour}"), title, (f"{ended}{took}", "dim")))
        if event.forgiven:
            self.note(f"    not quoted exactly, forgiven: {', '.join(event.forgiven)}")
        if event.diff and event.ok:
            if event.id not in self._asked:
                self.show_diff(event.diff)
        elif failed or event.exit_code:
            self._show_excerpt(event.text)

    def _show_checklist(self, steps: Sequence[ChecklistStep]) -> None:
        for step in steps:
            mark, colour = _CHECKLIST[step.status]
            style = "dim" if step.status == "completed" else "bold" if step.status == "in_progress" else ""
            self.console.print(
                Text.assemble((f"  {mark} ", f"bold {colour}"), (escape_one_line(step.text), style))
            )

    def _show_subagent(self, event: events.SubagentEvent) -> None:
        about = escape_one_line(event.description)
        match event.event:
            case events.ToolResultEvent(title=title, ok=ok):
                self.note(f"    {about}: {'✓' if ok else '✗'} {escape_one_line(title)}")
            case events.ToolCallEvent() as call:
                self._begin(f"{about}: {escape_one_line(describe_call(call))}")
            case events.ModelRequestStarted():
                self._begin(f"{about}: Thinking")
            case _:
                return

    def _show_excerpt(self, text: str) -> None:
        lines = escape_control(text).splitlines()
        for line in lines[:FAILED_LINES]:
            self.console.print(Text(f"    {line}", style="dim"))
        if len(lines) > FAILED_LINES:
            self.note(f"    … {len(lines) - FAILED_LINES} more lines (Ctrl-O shows all)")

    def _end_turn(self, event: events.TurnEnded) -> None:
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
