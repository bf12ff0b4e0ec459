"""A run in a scene: a repository, a sandbox, what the model says, and what happens meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kakite.agent.observe.events import ModelRequestStarted, RunEvent, RunListener
from kakite.agent.run.runner import run_task
from kakite.agent.run.state import RunState
from kakite.models.messages import Reply, ToolMessage, UserMessage
from kakite.models.model import Model
from kakite.models.scripted_model import Scenario, ScriptedModel
from tests.agent.test_runner import BRANCH, DONE, PLAN, command, parts_of

__all__ = ["BRANCH", "DONE", "PLANNED", "Scene", "at_turn", "command", "editor", "heard", "told", "tools"]

PLANNED: dict[str, Any] = {"say": PLAN}


@dataclass
class Scene:
    """One run, however often it is gone on with: each time as another process would."""

    place: Path
    repository: Path | str
    kind: str = "local"
    text: str = "Make a 2"
    max_turns: int = 50
    stream: bool = False
    models: list[ScriptedModel] = field(default_factory=list[ScriptedModel])

    async def play(
        self, *turns: Mapping[str, Any], model: Model | None = None, listener: RunListener | None = None
    ) -> RunState:
        """Run, or go on, until the run ends or something outside fails."""
        task, parts_with = parts_of(self.place, self.repository, {"say": "-"}, kind=self.kind)
        task = replace(task, text=self.text, max_turns=self.max_turns)
        parts = replace(parts_with(listener), model=model or self._scripted(turns), stream=self.stream)
        return await run_task(task, parts)

    def stored(self) -> RunState:
        """Return the run as the next process would find it."""
        _task, parts_with = parts_of(self.place, self.repository, {"say": "-"}, kind=self.kind)
        return parts_with(None).record.load()

    @property
    def turns_left(self) -> int:
        """How many turns the model of the last play was not asked for."""
        return self.models[-1].playback.turns_left

    def _scripted(self, turns: tuple[Mapping[str, Any], ...]) -> ScriptedModel:
        script = {"title": "t", "turns": turns or ({"say": "nobody should hear this"},)}
        self.models.append(ScriptedModel(Scenario.parse(json.dumps(script))))
        return self.models[-1]


def editor(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Call ``text_editor``."""
    return {"calls": [{"tool": "text_editor", "arguments": arguments}]}


def at_turn(turn: int, happens: Callable[[], object]) -> RunListener:
    """Let something happen while the model thinks about this turn, once."""

    def listen(event: RunEvent) -> None:
        if isinstance(event, ModelRequestStarted) and event.turn == turn:
            happens()

    return listen


def heard(run: RunState) -> list[str]:
    """Return the results of all calls, as the model was shown them."""
    return [message.text for message in run.messages if isinstance(message, ToolMessage)]


def told(run: RunState) -> list[str]:
    """Return what the model was told in a person's place."""
    return [message.text for message in run.messages if isinstance(message, UserMessage)]


def tools(run: RunState) -> list[tuple[bool, str]]:
    """Return of every call whether it went well, and its code."""
    return [(step.ok, step.code) for step in run.steps if step.kind == "tool"]


def last_is_answered(run: RunState) -> bool:
    """Whether the conversation ends with something that a model may be asked about."""
    return not run.pending and not isinstance(run.messages[-1], Reply)
