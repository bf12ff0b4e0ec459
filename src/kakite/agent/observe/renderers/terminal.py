"""Renders the events of a run in a terminal: as they happen, or as lines of a log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from rich.console import Console
from rich.markup import escape
from rich.status import Status
from rich.syntax import Syntax
from rich.text import Text

from kakite.agent.observe import events
from kakite.agent.run.state_machine import describe
from kakite.terminal_text import escape_control
from kakite.tools.toolset import JsonObject, ToolCall

_LINES_SHOWN = 12  # of a tool's output, in the progress view; the model and the record have all of it
_DIFF_LINES_SHOWN = 60
_MAX_LINE_CHARS = 200  # of a line of a log

_PREPARING = {
    "clone": "Fetching the repository",
    "sandbox": "Preparing the sandbox",
    "setup": "Installing what the project needs",
    "check": "Checking a clean checkout of the commit",
    "server": "Starting the tools",
    "context": "Shortening the conversation",
}


class TerminalRenderer:
    """Shows events on standard error, or on a console."""

    def __init__(self, console: Console | None = None) -> None:
        self.check = ""
        """The command of the plan's check."""
        self.console = console or Console(stderr=True, highlight=False, soft_wrap=True)
        self._status: Status | None = None
        self._streaming = False
        self._shown = False
        """Whether the reply that comes is on the screen already: it has streamed, or is the plan."""
        self._of = ""

    def close(self) -> None:
        """Stop what moves on the screen."""
        self.set_status(None)

    def say(self, line: str) -> None:
        """Show a line that is no event's."""
        self.set_status(None)
        self.console.print(Text(escape_control(line), style="magenta"))

    def show(self, event: events.RunEvent, of: str = "") -> None:
        """Show one event; its lines begin with ``of``, where there are several tasks. A Listener."""
        self._of = of
        match event:
            case events.ModelTextDelta(text=text):
                self._stream(text)
            case events.ModelReplyEvent(text=text):
                self._print_reply(text)
            case events.PlanCreated():
                self._print_plan(event)
            case events.ToolResultEvent():
                self._print_tool_result(event)
            case events.RunSummaryEvent():
                self.set_status(None)
            case _:
                self._show_step(event)

    def _show_step(self, event: events.RunEvent) -> None:
        match event:
            case events.PreparationStarted(what=what):
                self.set_status(_PREPARING[what])
            case events.ModelRequestStarted(turn=turn):
                self._shown = False
                self.set_status(f"The model is thinking (turn {turn})")
            case events.ToolCallEvent():
                self.set_status(describe_call(event))
            case events.ModelRequestRetried():
                self._print_line("!", "yellow", event.describe())
                self._shown = False
                self.set_status("Waiting for the model's provider")
            case events.RunStepEvent():
                mark, colour = ("✓", "green") if event.ok else ("!", "yellow")
                self._print_line(mark, colour, event.text)
            case _:
                for warning in _list_warnings(event):
                    self._print_line("!", "yellow", warning)

    def set_status(self, what: str | None) -> None:
        """Say what is under way, until it is something else; None: nothing is."""
        self._end_stream()
        if self._status is not None:
            self._status.stop()
            self._status = None
        if what is None or not self.console.is_terminal:
            return
        self._status = self.console.status(escape(escape_control(self._of + what)))
        self._status.start()

    def _print_line(self, mark: str, colour: str, text: str) -> None:
        self.set_status(None)
        self.console.print(
            Text.assemble(
                (escape_control(self._of), "cyan"), (f"{mark} ", f"bold {colour}"), escape_control(text)
            )
        )

    def _stream(self, text: str) -> None:
        if not self._streaming:
            self.set_status(None)
            self._streaming = self._shown = True
        self.console.print(Text(escape_control(text), style="dim"), end="")

    def _end_stream(self) -> None:
        if self._streaming:
            self._streaming = False
            self.console.print()

    def _print_reply(self, text: str) -> None:
        self.set_status(None)
        if text.strip() and not self._shown:
            self.console.print(Text(escape_control(text.strip()), style="dim"))

    def _print_plan(self, plan: events.PlanCreated) -> None:
        self._shown = True
        self.check = plan.check
        self._print_line("◆", "magenta", f"Plan: {plan.goal}")
        for step in plan.steps:
            self.console.print(Text(f"    · {escape_control(step)}"))

    def _print_tool_result(self, result: events.ToolResultEvent) -> None:
        mark, colour = ("✓", "green") if not result.exit_code else ("!", "yellow")
        if not result.ok:
            mark, colour = "✗", "red"
        how = f"  (not quoted exactly, forgiven: {', '.join(result.forgiven)})" if result.forgiven else ""
        ended = f"  exit {result.exit_code}" if result.exit_code else ""
        self._print_line(mark, colour, f"{result.title}{ended}  ({result.seconds:.1f} s){how}")
        if not result.ok or result.exit_code:
            self._print_excerpt(result.text, "yellow" if result.ok else "red")
        elif result.diff:
            lines = escape_control(result.diff).splitlines()
            shown = "\n".join(lines[:_DIFF_LINES_SHOWN])
            self.console.print(Syntax(shown, "diff", background_color="default"))

    def _print_excerpt(self, text: str, style: str) -> None:
        lines = escape_control(text).splitlines()
        for line in lines[:_LINES_SHOWN]:
            self.console.print(Text(f"    {line}", style=style))
        if len(lines) > _LINES_SHOWN:
            self.console.print(Text(f"    … {len(lines) - _LINES_SHOWN} more lines", style="dim"))


def _list_warnings(event: events.RunEvent) -> tuple[str, ...]:
    """Return what a person should know of an event that changes how the run goes on."""
    match event:
        case events.ResourceMissing(what=what, message=message):
            return (f"continuing without {what}: {message}",)
        case events.FindingsReported(findings=findings):
            return findings
        case events.PushRejected(branch=branch):
            return (f"someone else pushed to {branch} first; rebasing onto theirs",)
        case events.PriceUnknown(model=model):
            return (f"No price is known for `{model}`, so limits in USD do not count it.",)
        case _:
            return ()


def describe_call(event: events.ToolCallEvent) -> str:
    """Return one line on a call, for a person."""
    return describe(ToolCall(id=event.id, name=event.tool, arguments=event.arguments or {}))


def format_log_line(line: Mapping[str, object]) -> str:
    """Return a line of a task's log as people read it: when, what, and what of it."""
    at = str(line.get("time", ""))[:19]
    return " ".join(filter(None, [at, _FORMATTERS.get(str(line.get("type")), _format_plain)(line)]))


def _format_plain(line: Mapping[str, object]) -> str:
    said = [
        str(line[name]) for name in ("what", "code", "message", "branch", "model", "status") if line.get(name)
    ]
    return ": ".join(filter(None, [str(line.get("type", "")), " ".join(said)]))


def _format_result(line: Mapping[str, object]) -> str:
    outcome = "done" if line.get("ok") else f"failed ({line.get('code') or 'error'})"
    return f"{outcome}: {_to_single_line(line.get('title') or line.get('tool'))}, {line.get('seconds')} s"


def _format_call(line: Mapping[str, object]) -> str:
    arguments = cast("JsonObject", line.get("arguments") or {})
    return (
        f"calls {_to_single_line(describe(ToolCall(id='', name=str(line.get('tool')), arguments=arguments)))}"
    )


def _format_findings(line: Mapping[str, object]) -> str:
    found = line.get("findings")
    told = cast("list[object]", found) if isinstance(found, list) else []
    return f"finds to mend: {_to_single_line(' | '.join(map(str, told)))}"


def _format_progress(steps: object) -> str:
    listed = cast("list[JsonObject]", steps) if isinstance(steps, list) else []
    done = sum(each.get("status") == "completed" for each in listed)
    return f"{done} of {len(listed)} steps are completed"


_FORMATTERS: Mapping[str, Callable[[Mapping[str, object]], str]] = {
    "preparation": lambda line: f"prepares the {line.get('what')}",
    "request": lambda line: f"asks the model ({line.get('turn')})",
    "reply": lambda line: f"says: {_to_single_line(line.get('text'))}",
    "plan": lambda line: f"plans: {_to_single_line(line.get('goal'))}",
    "call": _format_call,
    "result": _format_result,
    "findings": _format_findings,
    "step": lambda line: f"{line.get('kind')}: {_to_single_line(line.get('text'))}",
    "plan_updated": lambda line: f"plans: {_format_progress(line.get('steps'))}",
    "model_request_retried": lambda line: (
        f"waits {line.get('wait_seconds')} s for the model: {_to_single_line(line.get('message'))}"
    ),
    "push_rejected": lambda line: f"somebody else pushed to {line.get('branch')} first: rebases",
    "state": lambda line: f"ends: {line.get('status')}",
}


def _to_single_line(text: object) -> str:
    short = " ".join(str(text).split())
    return short if len(short) <= _MAX_LINE_CHARS else f"{short[: _MAX_LINE_CHARS - 1]}…"
