"""The commands that a session's model has in the background, as far as results of its calls tell. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import cast

from kakite.tools.shell.command_output import parse_command_output
from kakite.tools.toolset import ToolCall

LOOK, STOP = "poll_command", "stop_command"
"""The tools that look at one, and end it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundJob:
    """A command in the background."""

    id: str
    command: str
    running: bool = True
    """Whether it ran when somebody looked last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOutput:
    """What a command in the background has written since somebody looked last."""

    job: BackgroundJob
    text: str
    exit_code: int | None

    def to_message(self) -> str:
        """Return what the model is told of it: it does not get this output a second time."""
        state = "it still runs" if self.job.running else f"it has ended, exit code: {self.exit_code}"
        told = (
            f"I looked at the background command {self.job.id}; {state}.\n$ {self.job.command}\n{self.text}"
        )
        return told.rstrip()


@dataclass(slots=True)
class BackgroundJobList:
    """All of one session. They end with it."""

    _jobs: dict[str, BackgroundJob] = field(default_factory=dict[str, BackgroundJob])

    @property
    def jobs(self) -> tuple[BackgroundJob, ...]:
        """Those that were started, in their order."""
        return tuple(self._jobs.values())

    def note(self, call: ToolCall, result: str) -> JobOutput | None:
        """Learn from the result of a call, and return what it says of a command; None: it says nothing."""
        told = parse_command_output(result)
        if told is None or not told.job:
            return None
        if call.name == "run_command":
            command = _format_command(call.arguments.get("command"))
            self._jobs[told.job] = BackgroundJob(id=told.job, command=command)
            return None
        if call.name not in {LOOK, STOP} or told.job not in self._jobs:
            return None
        job = self._jobs[told.job] = replace(self._jobs[told.job], running=told.running)
        return JobOutput(job=job, text=told.text.rstrip("\n"), exit_code=told.exit_code)

    def forget(self, name: str) -> None:
        """Note that a command is gone: its server was started again."""
        self._jobs.pop(name, None)


def _format_command(command: object) -> str:
    return " ".join(map(str, cast("list[object]", command))) if isinstance(command, list) else str(command)
