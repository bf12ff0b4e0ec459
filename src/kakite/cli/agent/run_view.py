"""Shows a run in a terminal, and asks the person for approval."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from rich.console import Console
from rich.markup import escape
from rich.status import Status
from rich.syntax import Syntax
from rich.text import Text

from kakite.agent.observe import events
from kakite.agent.run.machine import describe
from kakite.agent.run.state import CHECK_CALL_ID, Plan, get_exit_code
from kakite.cli.console import escape_control
from kakite.cli.prompts import TerminalPrompter
from kakite.host import ApprovalRequest, ApprovalResponse
from kakite.tools.toolset import ToolCall, ToolResult

_LINES_SHOWN = 12  # of a tool's output, in the progress view; the model and the record have all of it
_DIFF_LINES_SHOWN = 60

_PREPARING = {
    "clone": "Fetching the repository",
    "sandbox": "Preparing the sandbox",
    "setup": "Installing what the project needs",
    "server": "Starting the tools",
    "context": "Shortening the conversation",
}


class RunView:
    """Shows events on standard error, and asks on it."""

    def __init__(self, console: Console | None = None) -> None:
        self.where: Callable[[], str] = str
        """Tells where commands run, for questions about them."""
        self._check = ""
        self.console = console or Console(stderr=True, highlight=False, soft_wrap=True)
        self._status: Status | None = None
        self._streaming = False
        self._of = ""
        self._asker = TerminalPrompter(self.console, interrupts=True, before=lambda: self._set_status(None))

    def close(self) -> None:
        """Stop what moves on the screen."""
        self._set_status(None)

    def say(self, line: str) -> None:
        """Show a line that is no event's."""
        self._set_status(None)
        self.console.print(Text(escape_control(line), style="magenta"))

    def show(self, event: events.RunEvent, of: str = "") -> None:  # noqa: C901, PLR0912 - one case for each event
        """Show one event; its lines begin with ``of``, where there are several tasks. A Listener."""
        self._of = of
        match event:
            case events.PreparationStarted(what=what):
                self._set_status(_PREPARING[what])
            case events.ResourceMissing(what=what, error=error):
                self._print_line("!", "yellow", f"continuing without {what}: {error.message}")
            case events.ModelRequestStarted(turn=turn):
                self._set_status(f"The model is thinking (turn {turn})")
            case events.ModelTextDelta(text=text):
                self._stream(text)
            case events.ModelReplyFinished(text=text, streamed=streamed):
                self._print_reply(text, streamed=streamed)
            case events.PlanCreated(plan=plan):
                self._check = plan.check
                self._print_plan(plan)
            case events.ToolCallStarted(call=call):
                self._set_status(describe(call))
            case events.ToolCallFinished(call=call, result=result, seconds=seconds):
                self._print_tool_result(call, result, seconds)
            case events.FindingsReported(findings=findings):
                for finding in findings:
                    self._print_line("!", "yellow", finding)
            case events.StepFinished(step=step):
                mark, colour = ("✓", "green") if step.ok else ("!", "yellow")
                self._print_line(mark, colour, step.text)
            case events.PushRejected(branch=branch):
                self._print_line(
                    "!", "yellow", f"someone else pushed to {branch} first; rebasing onto theirs"
                )
            case events.PriceUnknown(model=model):
                self._print_line(
                    "!", "yellow", f"No price is known for `{model}`, so limits in USD do not count it."
                )
            case events.AgentRunFinished():
                self._set_status(None)
            case _:
                assert_never(event)

    async def ask(self, question: ApprovalRequest) -> ApprovalResponse:
        """Ask the person about a call. An Approver."""
        return await self._asker.ask(question, self._describe_command(question))

    def _describe_command(self, question: ApprovalRequest) -> str:
        """Return what to say of a command beside its arguments; nothing of another call."""
        call = question.call
        if call.name != "run_command":
            return ""
        own = call.id == CHECK_CALL_ID and self._check and call.arguments.get("command") == self._check
        what = "It is the plan's check, which Kakite runs before it commits." if own else ""
        return "\n".join(filter(None, [what, self.where()]))

    def _set_status(self, what: str | None) -> None:
        self._end_stream()
        if self._status is not None:
            self._status.stop()
            self._status = None
        if what is None or not self.console.is_terminal:
            return
        self._status = self.console.status(escape(escape_control(self._of + what)))
        self._status.start()

    def _print_line(self, mark: str, colour: str, text: str) -> None:
        self._set_status(None)
        self.console.print(
            Text.assemble(
                (escape_control(self._of), "cyan"), (f"{mark} ", f"bold {colour}"), escape_control(text)
            )
        )

    def _stream(self, text: str) -> None:
        if not self._streaming:
            self._set_status(None)
            self._streaming = True
        self.console.print(Text(escape_control(text), style="dim"), end="")

    def _end_stream(self) -> None:
        if self._streaming:
            self._streaming = False
            self.console.print()

    def _print_reply(self, text: str, *, streamed: bool) -> None:
        self._set_status(None)
        if text.strip() and not streamed:
            self.console.print(Text(escape_control(text.strip()), style="dim"))

    def _print_plan(self, plan: Plan) -> None:
        self._print_line("◆", "magenta", f"Plan: {plan.goal}")
        for step in plan.steps:
            self.console.print(Text(f"    · {escape_control(step)}"))

    def _print_tool_result(self, call: ToolCall, result: ToolResult, seconds: float) -> None:
        exit_code = get_exit_code(result)
        mark, colour = ("✓", "green") if not exit_code else ("!", "yellow")
        if result.is_error:
            mark, colour = "✗", "red"
        forgiven: list[str] = result.details.get("forgiven", [])
        how = f"  (not quoted exactly, forgiven: {', '.join(forgiven)})" if forgiven else ""
        ended = f"  exit {exit_code}" if exit_code else ""
        self._print_line(mark, colour, f"{describe(call)}{ended}  ({seconds:.1f} s){how}")
        if result.is_error or exit_code:
            self._print_excerpt(result.text, "red" if result.is_error else "yellow")
        elif diff := str(result.details.get("diff", "")):
            lines = escape_control(diff).splitlines()
            shown = "\n".join(lines[:_DIFF_LINES_SHOWN])
            self.console.print(Syntax(shown, "diff", background_color="default"))

    def _print_excerpt(self, text: str, style: str) -> None:
        lines = escape_control(text).splitlines()
        for line in lines[:_LINES_SHOWN]:
            self.console.print(Text(f"    {line}", style=style))
        if len(lines) > _LINES_SHOWN:
            self.console.print(Text(f"    … {len(lines) - _LINES_SHOWN} more lines", style="dim"))
