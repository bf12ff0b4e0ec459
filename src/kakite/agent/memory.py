"""Keeping what the model is shown below a part of its window; asks it for a summary where that is due."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kakite.agent import context, flow
from kakite.agent.phrases import prompt
from kakite.agent.run import Plan, Run
from kakite.models.messages import Reply, UserMessage
from kakite.models.model import Model, ModelError
from kakite.models.tokens import count_tokens, window_of
from kakite.tools.toolset import Tool

_SUMMARY_MOST = 16_000  # characters
OVERFLOW = "model_context_overflow"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """What goes with every request."""

    instructions: str
    tools: Sequence[Tool]

    def text(self) -> str:
        """Return all of it, to be counted."""
        tools = [{"n": tool.name, "d": tool.description, "p": tool.parameters} for tool in self.tools]
        return self.instructions + json.dumps(tools, ensure_ascii=False)


class Memory:
    """What the model is shown of a run."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._counts: dict[int, tuple[str, int]] = {}

    def is_full(self, run: Run, fixed: Fixed) -> bool:
        """Tell whether there is more than should be shown, and something can be done about it."""
        if run.condensed and run.condensed.made == len(run.messages):
            return False
        return self.size(run, fixed) > window(run) * context.FULL

    def size(self, run: Run, fixed: Fixed) -> int:
        """Return the tokens of a request."""
        return context.size(run, self._meter, self._meter(fixed.text()))

    async def condensed(self, run: Run, fixed: Fixed, changed: Sequence[str]) -> Run:
        """Return the run with less to show, and a mark of that; ``changed``: the files that differ.

        Raises:
            ModelError: the model could not be asked, for another reason than that it is too much for it.
        """
        base = self._meter(fixed.text())
        after = await self._smaller(run, fixed, base, changed)
        sizes = [context.size(each, self._meter, base) for each in (run, after)]
        return context.marked(after, *sizes)

    async def _smaller(self, run: Run, fixed: Fixed, base: int, changed: Sequence[str]) -> Run:
        room = window(run)
        lighter = context.lightened(run, self._meter, room, base)
        if context.size(lighter, self._meter, base) <= room * context.AIM:
            return lighter
        if context.size(lighter, self._meter, base) > room * context.FULL:
            lighter = context.cut(lighter)  # the latest results alone are too much
        upto = context.boundary(lighter, self._meter, room)
        if upto <= (lighter.condensed.upto if lighter.condensed else 0):
            return lighter  # nothing lies between the task and the latest turns
        asked, words = await self._summary(lighter, upto, fixed)
        told = (_told(asked, text, changed) for text in (words, ""))
        best, plain = (context.summarised(asked, upto, text) for text in told)
        if context.size(best, self._meter, base) > room * context.AIM:
            best = min(best, plain, key=lambda each: context.size(each, self._meter, base))
        return best if context.size(best, self._meter, base) <= room * context.FULL else context.cut(best)

    async def _summary(self, run: Run, upto: int, fixed: Fixed) -> tuple[Run, str]:
        question = UserMessage(text=prompt("condense").strip())
        began = time.monotonic()
        try:
            reply: Reply = await self._model.reply(
                fixed.instructions, (*context.until(run, upto), question), fixed.tools
            )
        except ModelError as error:
            if error.code != OVERFLOW:
                raise
            return run, ""
        return flow.asked_aside(run, reply.usage, time.monotonic() - began), reply.text.strip()

    def _meter(self, text: str) -> int:
        found = self._counts.get(hash(text))
        if found is None or found[0] != text:
            found = self._counts[hash(text)] = (text, count_tokens(text))
        return found[1]


def window(run: Run) -> int:
    """Return how many tokens the run's model can take: as a person says, as turned out, or as is known."""
    task = run.task
    known = task.context_tokens or window_of(task.model, own_server=bool(task.base_url))
    return min(known, run.window) if run.window else known


def overflowed(run: Run, size: int) -> Run:
    """Return the run once its model said that so much is too much for it."""
    return replace(run, window=max(1000, min(window(run), int(size * 0.9))))


def _told(run: Run, summary: str, changed: Sequence[str]) -> str:
    words = summary[:_SUMMARY_MOST] or f"What was done, in order:\n{context.log(run)}"
    files = "\n".join(f"- `{path}`" for path in changed) or "none yet"
    return prompt("condensed").format(summary=words, plan=_plan(run.plan), files=files).strip()


def _plan(plan: Plan | None) -> str:
    if plan is None:
        return "none yet"
    steps = [
        f"{number}. [{'x' if done else ' '}] {step}"
        for number, (step, done) in enumerate(plan.checklist(), 1)
    ]
    return "\n".join((plan.goal, *steps))
