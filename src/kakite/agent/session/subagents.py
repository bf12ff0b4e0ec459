"""Sub-agents of a session: tasks that are worked on beside each other, each in a conversation of its own.

They look only, with the session's model and sandbox, and what they use up is the session's. The session sees
their last words; all that they said is stored below its folder.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from kakite.agent.observe.events import PriceUnknown, RunEvent, SubagentEvent
from kakite.agent.run import state_machine
from kakite.agent.run.approvals import TimedApprover
from kakite.agent.run.deps import SessionDeps
from kakite.agent.run.state import RewindPoint, RunState
from kakite.agent.run.store import RunFolder
from kakite.agent.run.turns import TurnExecutor
from kakite.agent.session.event_buffer import EventBuffer
from kakite.agent.toolsets.run_toolset import RunToolset
from kakite.errors import KakiteError
from kakite.models.messages import UserMessage
from kakite.tools.function_toolset import FunctionTool
from kakite.tools.toolset import JsonObject, Tool, ToolResult

MAX_SUBAGENTS = 4
MAX_SUBAGENT_TURNS = 40
"""Replies of the model that one may take."""
_FOLDER = "subagents"

TASK_TOOL = Tool(
    name="task",
    title="Let others look",
    description=(
        "Give up to four tasks of looking around to sub-agents, which work at the same time. Each begins "
        "without your conversation, reads files, changes nothing, and returns one answer. Use it where "
        "several things are to be found out in many files; look yourself where one or two files do."
    ),
    parameters={
        "type": "object",
        "properties": {
            "tasks": {
                "type": "array",
                "minItems": 1,
                "maxItems": MAX_SUBAGENTS,
                "description": "The tasks",
                "items": {
                    "type": "object",
                    "properties": {
                        "description": {"type": "string", "minLength": 1, "maxLength": 100},
                        "prompt": {"type": "string", "minLength": 1},
                    },
                    "required": ["description", "prompt"],
                    "additionalProperties": False,
                },
            }
        },
        "required": ["tasks"],
        "additionalProperties": False,
    },
    effect="read",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentTask:
    """A task of a sub-agent."""

    id: str
    """Unique in its session."""
    description: str
    prompt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentParent:
    """The session, as it stands when it calls sub-agents."""

    run: RunState
    deps: SessionDeps
    toolset: RunToolset


class SubagentRunner:
    """Runs the sub-agents of one session."""

    def __init__(self) -> None:
        self.find_parent: Callable[[], SubagentParent] | None = None
        """Tells how the session stands; set once it is open."""
        self._latest: dict[str, RunState] = {}
        """How those stand whose usage the session does not have yet."""
        self._calls = 0

    def create_tool(self) -> FunctionTool:
        """Return the tool by which the session's model calls sub-agents."""
        return FunctionTool(TASK_TOOL, self._perform)

    def add_usage(self, run: RunState) -> RunState:
        """Return the session's state with what its sub-agents have used up since it was asked last."""
        for child in self._latest.values():
            run = state_machine.record_subagent(run, child)
        self._latest = {}
        return run

    async def _perform(self, arguments: JsonObject) -> ToolResult:
        assert self.find_parent is not None, "tools are called of an open session"
        parent = self.find_parent()
        self._calls += 1
        first = f"{len(parent.run.messages)}-{self._calls}"
        tasks = [
            SubagentTask(id=f"{first}-{number}", description=each["description"], prompt=each["prompt"])
            for number, each in enumerate(arguments["tasks"], start=1)
        ]
        async with asyncio.TaskGroup() as group:  # all of them end with the call
            working = [group.create_task(self._work(parent, task)) for task in tasks]
        answers = [each.result() for each in working]
        return ToolResult(text=_format_answers(tasks, answers))

    async def _work(self, parent: SubagentParent, task: SubagentTask) -> str:
        """Return the last words of a sub-agent, or why there are none."""
        run = _create_run(parent.run, task)
        turns, events = _create_turns(parent, run, task)
        while True:
            self._latest[task.id] = run
            if state_machine.find_reached_limits(self._sum_up(parent.run)):
                return "(Stopped: a limit of the session is reached.)"
            try:
                match state_machine.next_action(run):
                    case state_machine.ModelRequestAction():
                        run = await turns.ask_model(run)
                    case state_machine.ToolCallAction(call):
                        run = await turns.run_tool(run, call)
                    case state_machine.FinishAction(status):
                        return f"(Stopped: {status}.)"
                    case _:
                        return run.summary
            except KakiteError as error:
                return f"(Failed: {error.message})"
            await turns.save_in_thread(run)
            events.flush()

    def _sum_up(self, run: RunState) -> RunState:
        for child in self._latest.values():
            run = state_machine.record_subagent(run, child)
        return run


def _create_run(parent: RunState, task: SubagentTask) -> RunState:
    own = replace(parent.task, id=f"{parent.task.id}.{task.id}", approve="plan", max_turns=MAX_SUBAGENT_TURNS)
    run = replace(
        state_machine.create_session_state(own), sandbox=parent.sandbox, environment=parent.environment
    )
    if parent.rules:
        run = state_machine.add_project_instructions(run, parent.rules)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    point = RewindPoint(message=0, text=task.description, time=now)
    return state_machine.on_prompt(run, UserMessage(text=task.prompt), point)


def _create_turns(
    parent: SubagentParent, run: RunState, task: SubagentTask
) -> tuple[TurnExecutor, EventBuffer]:
    def show(event: RunEvent) -> None:
        if isinstance(event, PriceUnknown):  # the session has said so
            return
        parent.deps.listener(SubagentEvent(task=task.id, description=task.description, event=event))

    async def list_no_files(_run: RunState) -> Sequence[str]:
        return ()

    events = EventBuffer(show)
    record = RunFolder(parent.deps.record.folder / _FOLDER / task.id)
    record.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    # The day's sum gets it with the session's own; none of its words stream.
    deps = replace(parent.deps, record=record, days=None, stream=False, listener=events.show)
    toolset = parent.toolset.build_read_only(run, deps)
    return TurnExecutor(deps, toolset, TimedApprover(deps.approver, deps.waits), list_no_files), events


def _format_answers(tasks: Sequence[SubagentTask], answers: Sequence[str]) -> str:
    return "\n\n".join(
        f"# {task.description}\n\n{answer.strip() or '(It said nothing.)'}"
        for task, answer in zip(tasks, answers, strict=True)
    )
