"""A person at a terminal: sees what a run does, and is asked before it acts."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from rich.console import Console
from rich.markup import escape
from rich.status import Status
from rich.syntax import Syntax
from rich.text import Text

from kakite.agent import events
from kakite.agent.flow import describe
from kakite.agent.outcome import exit_code_of
from kakite.agent.run import CHECK, Plan
from kakite.cli.asking import Asker
from kakite.cli.screen import visible
from kakite.host import Answer, Question
from kakite.tools.toolset import ToolCall, ToolResult

_LINES_SHOWN = 12  # of a tool's output, in the progress view; the model and the record have all of it
_DIFF_LINES_SHOWN = 60

_PREPARING = {
    "clone": "Fetching the repository",
    "sandbox": "Preparing the sandbox",
    "setup": "Installing what the project needs",
    "server": "Starting the tools",
    "context": "Condensing the conversation",
}


class Terminal:
    """Shows events on standard error, and asks on it."""

    def __init__(self, console: Console | None = None) -> None:
        self.where: Callable[[], str] = str
        """Tells where commands run, for questions about them."""
        self._check = ""
        self.console = console or Console(stderr=True, highlight=False, soft_wrap=True)
        self._status: Status | None = None
        self._streaming = False
        self._of = ""
        self._asker = Asker(self.console, interrupts=True, before=lambda: self._busy(None))

    def close(self) -> None:
        """Stop what moves on the screen."""
        self._busy(None)

    def say(self, line: str) -> None:
        """Show a line that is no event's."""
        self._busy(None)
        self.console.print(Text(visible(line), style="magenta"))

    def show(self, event: events.Event, of: str = "") -> None:  # noqa: C901, PLR0912 - one case for each event
        """Show one event; its lines begin with ``of``, where there are several tasks. A Listener."""
        self._of = of
        match event:
            case events.Preparing(what=what):
                self._busy(_PREPARING[what])
            case events.Lacking(what=what, error=error):
                self._line("!", "yellow", f"going on without {what}: {error.message}")
            case events.Thinking(turn=turn):
                self._busy(f"The model is thinking (turn {turn})")
            case events.Saying(text=text):
                self._stream(text)
            case events.Said(text=text, streamed=streamed):
                self._said(text, streamed=streamed)
            case events.Planned(plan=plan):
                self._check = plan.check
                self._plan(plan)
            case events.Calling(call=call):
                self._busy(describe(call))
            case events.Called(call=call, result=result, seconds=seconds):
                self._called(call, result, seconds)
            case events.Found(findings=findings):
                for finding in findings:
                    self._line("!", "yellow", finding)
            case events.Progressed(step=step):
                mark, colour = ("✓", "green") if step.ok else ("!", "yellow")
                self._line(mark, colour, step.text)
            case events.Rejected(branch=branch):
                self._line("!", "yellow", f"someone else pushed to {branch} first; rebasing onto theirs")
            case events.Unpriced(model=model):
                self._line(
                    "!", "yellow", f"No price is known for `{model}`, so limits in USD do not count it."
                )
            case events.Finished():
                self._busy(None)
            case _:
                assert_never(event)

    async def ask(self, question: Question) -> Answer:
        """Ask the person about a call. An Approver."""
        return await self._asker.ask(question, self._of_a_command(question))

    def _of_a_command(self, question: Question) -> str:
        """Return what to say of a command beside its arguments; nothing of another call."""
        call = question.call
        if call.name != "run_command":
            return ""
        own = call.id == CHECK and self._check and call.arguments.get("command") == self._check
        what = "It is the plan's check, which Kakite runs before it commits." if own else ""
        return "\n".join(filter(None, [what, self.where()]))

    def _busy(self, what: str | None) -> None:
        self._end_stream()
        if self._status is not None:
            self._status.stop()
            self._status = None
        if what is None or not self.console.is_terminal:
            return
        self._status = self.console.status(escape(visible(self._of + what)))
        self._status.start()

    def _line(self, mark: str, colour: str, text: str) -> None:
        self._busy(None)
        self.console.print(
            Text.assemble((visible(self._of), "cyan"), (f"{mark} ", f"bold {colour}"), visible(text))
        )

    def _stream(self, text: str) -> None:
        if not self._streaming:
            self._busy(None)
            self._streaming = True
        self.console.print(Text(visible(text), style="dim"), end="")

    def _end_stream(self) -> None:
        if self._streaming:
            self._streaming = False
            self.console.print()

    def _said(self, text: str, *, streamed: bool) -> None:
        self._busy(None)
        if text.strip() and not streamed:
            self.console.print(Text(visible(text.strip()), style="dim"))

    def _plan(self, plan: Plan) -> None:
        self._line("◆", "magenta", f"Plan: {plan.goal}")
        for step in plan.steps:
            self.console.print(Text(f"    · {visible(step)}"))

    def _called(self, call: ToolCall, result: ToolResult, seconds: float) -> None:
        exit_code = exit_code_of(result)
        mark, colour = ("✓", "green") if not exit_code else ("!", "yellow")
        if result.is_error:
            mark, colour = "✗", "red"
        forgiven: list[str] = result.details.get("forgiven", [])
        how = f"  (not quoted exactly, forgiven: {', '.join(forgiven)})" if forgiven else ""
        ended = f"  exit {exit_code}" if exit_code else ""
        self._line(mark, colour, f"{describe(call)}{ended}  ({seconds:.1f} s){how}")
        if result.is_error or exit_code:
            self._excerpt(result.text, "red" if result.is_error else "yellow")
        elif diff := str(result.details.get("diff", "")):
            lines = visible(diff).splitlines()
            shown = "\n".join(lines[:_DIFF_LINES_SHOWN])
            self.console.print(Syntax(shown, "diff", background_color="default"))

    def _excerpt(self, text: str, style: str) -> None:
        lines = visible(text).splitlines()
        for line in lines[:_LINES_SHOWN]:
            self.console.print(Text(f"    {line}", style=style))
        if len(lines) > _LINES_SHOWN:
            self.console.print(Text(f"    … {len(lines) - _LINES_SHOWN} more lines", style="dim"))
