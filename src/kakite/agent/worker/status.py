"""The status of a running task as JSON: for the terminal, the dashboard and the comment at the forge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TypedDict

from kakite.agent.run.state import RunState, find_unverified_reason, get_branch_head, get_current_steps


class PlanStepView(TypedDict):
    """A step of the plan."""

    text: str
    done: bool


class PlanView(TypedDict, total=False):
    """The model's plan."""

    goal: str
    steps: Sequence[PlanStepView]


class UsageView(TypedDict, total=False):
    """The model's cost."""

    requests: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None


class HumanInputRequest(TypedDict, total=False):
    """The question to a person."""

    kind: str
    """``approval``, ``budget``, ``stuck``, ``conflict`` or ``paused``."""
    digest: str
    tool: str
    arguments: Mapping[str, object]
    text: str


class PullRequestView(TypedDict):
    """The pull request."""

    number: int
    address: str


class ErrorView(TypedDict, total=False):
    """The error."""

    code: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOrigin:
    """What was known of a task when it was accepted."""

    id: str
    title: str
    forge: str
    """The forge's kind."""
    issue: int | None
    address: str
    """Where a person reads the issue."""
    started: str


class TaskStatus(TypedDict, total=False):
    """A task. What is not known yet is missing or None."""

    id: str
    title: str
    forge: str
    issue: int | None
    address: str
    started: str
    repository: str
    branch: str
    model: str
    sandbox: str
    phase: str
    status: str | None
    """How it ended; ``stopped``: by a person."""
    turn: int
    plan: PlanView | None
    last: str
    """One line on what was done last."""
    usage: UsageView
    spent: Mapping[str, float]
    budget: Mapping[str, float | None]
    reached: Sequence[str]
    rules: Sequence[str]
    """The paths of the project's rules that the model was given."""
    head: str
    """The run's head."""
    updated: str
    asks: HumanInputRequest | None
    request: PullRequestView | None
    commit: str
    doubt: str
    """Why the check does not show that the work is right; empty: it does, or there was none."""
    pushed: bool
    draft: bool
    """Whether the pull request was opened before there was work, with a commit that changes nothing."""
    kept: str
    """Where the last work lies if the branch did not take it: others pushed there meanwhile."""
    error: ErrorView | None
    editor: ErrorView | None
    """Why there is no editor, though there should be one."""


# What people are told of when it changes; the rest (tokens, the last step) is told along with it.
_NOTIFY_FIELDS = ("phase", "status", "plan", "asks", "request", "pushed", "error", "editor")


def build_task_status(origin: TaskOrigin, run: RunState, head: str) -> TaskStatus:
    """Return what is shown of a run; docs/agent-reference.md has its shape."""
    task = run.task
    return {
        "id": origin.id,
        "title": origin.title,
        "forge": origin.forge,
        "issue": origin.issue,
        "address": origin.address,
        "started": origin.started,
        "repository": task.repository,
        "branch": task.branch,
        "model": task.model,
        "sandbox": run.sandbox or task.sandbox,
        "phase": run.phase,
        "status": run.status,
        "turn": run.usage.requests,
        "plan": _build_plan_view(run),
        "last": run.steps[-1].text if run.steps else "",
        "usage": {
            "requests": run.usage.requests,
            "input_tokens": run.usage.input_tokens,
            "output_tokens": run.usage.output_tokens,
            "cost_usd": run.usage.cost_usd,
        },
        "spent": asdict(run.spent),
        "budget": asdict(task.budget),
        "reached": list(run.reached),
        "rules": [rule.path for rule in run.rules],
        "asks": None,
        "request": None,
        "commit": get_branch_head(run)[0],
        "doubt": find_unverified_reason(run),
        "pushed": run.pushed or any(step.kind == "push" for step in get_current_steps(run)),
        "error": None,
        "editor": _find_editor_error(run),
        "head": head,
        "updated": format_now(),
    }


def get_notify_key(public: Mapping[str, object]) -> dict[str, object]:
    """Return what a person is told of when it changes."""
    return {name: public.get(name) for name in _NOTIFY_FIELDS}


def format_now() -> str:
    """Return the time as it is shown."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _find_editor_error(run: RunState) -> ErrorView | None:
    lost = next((step for step in reversed(run.steps) if step.kind == "editor"), None)
    return {"code": lost.code, "message": lost.text} if lost else None


def _build_plan_view(run: RunState) -> PlanView | None:
    if run.plan is None:
        return None
    steps = [PlanStepView(text=text, done=done) for text, done in run.plan.to_checklist()]
    return {"goal": run.plan.goal, "steps": steps}
