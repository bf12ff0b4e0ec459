"""Shows a run in a terminal, and asks the person for approval."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console

from kakite.agent.observe.renderers.terminal import TerminalRenderer
from kakite.agent.run.state import CHECK_CALL_ID
from kakite.cli.prompts import TerminalPrompter
from kakite.host import ApprovalRequest, ApprovalResponse


class RunView(TerminalRenderer):
    """Shows events on standard error, and asks on it."""

    def __init__(self, console: Console | None = None) -> None:
        super().__init__(console)
        self.where: Callable[[], str] = str
        """Tells where commands run, for questions about them."""
        self._asker = TerminalPrompter(self.console, interrupts=True, before=lambda: self.set_status(None))

    async def ask(self, question: ApprovalRequest) -> ApprovalResponse:
        """Ask the person about a call. An Approver."""
        return await self._asker.ask(question, self._describe_command(question))

    def _describe_command(self, question: ApprovalRequest) -> str:
        """Return what to say of a command beside its arguments; nothing of another call."""
        call = question.call
        if call.name != "run_command":
            return ""
        own = call.id == CHECK_CALL_ID and self.check and call.arguments.get("command") == self.check
        what = "It is the plan's check, which Kakite runs before it commits." if own else ""
        return "\n".join(filter(None, [what, self.where()]))
