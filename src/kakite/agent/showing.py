"""What a task shows of itself to whoever looks: the terminal, the web page, the comment at the forge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime

from kakite.agent.outcome import doubt
from kakite.agent.run import Run
from kakite.tools.toolset import JsonObject

# What people are told of when it changes; the rest (tokens, the last step) is told along with it.
_SEEN = ("phase", "status", "plan", "asks", "request", "pushed", "error", "editor")


def public_of(begun: JsonObject, run: Run, head: str) -> dict[str, object]:
    """Return what is shown of a run; docs/agent.md has its shape.

    ``begun`` is what was known when the task was accepted: id, title, forge, issue, address, started.
    """
    task = run.task
    return {
        **begun,
        "repository": task.repository,
        "branch": task.branch,
        "model": task.model,
        "sandbox": run.sandbox or task.sandbox,
        "phase": run.phase,
        "status": run.status,
        "turn": run.usage.requests,
        "plan": _plan(run),
        "last": run.steps[-1].text if run.steps else "",
        "usage": {
            name: value
            for name, value in asdict(run.usage).items()
            if name in {"requests", "input_tokens", "output_tokens", "cost_usd"}
        },
        "spent": asdict(run.spent),
        "budget": asdict(task.budget),
        "reached": list(run.reached),
        "rules": [rule.path for rule in run.rules],
        "asks": None,
        "request": None,
        "commit": run.commit,
        "doubt": doubt(run),
        "pushed": run.pushed or any(step.kind == "push" for step in run.steps),
        "error": None,
        "editor": _editor(run),
        "head": head,
        "updated": now(),
    }


def seen_of(public: Mapping[str, object]) -> dict[str, object]:
    """Return what a person is told of when it changes."""
    return {name: public.get(name) for name in _SEEN}


def now() -> str:
    """Return the time as it is shown."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _editor(run: Run) -> dict[str, object] | None:
    lost = next((step for step in reversed(run.steps) if step.kind == "editor"), None)
    return {"code": lost.code, "message": lost.text} if lost else None


def _plan(run: Run) -> dict[str, object] | None:
    if run.plan is None:
        return None
    steps = [{"text": text, "done": done} for text, done in run.plan.checklist()]
    return {"goal": run.plan.goal, "steps": steps}
