"""Whose move it is, and what follows from what happened. Pure: no input, no output, no clock.

The driver asks ``due`` what to do, does it, and feeds the outcome back through one of the functions below;
each returns the next Run. A Run can be stored between any two moves and gone on with in another process.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import cast

from kakite.agent.run import Conflict, ConflictKind, Plan, Run, Status, Step, Task
from kakite.models.messages import BrokenCall, Message, Reply, ToolMessage, UserMessage
from kakite.tools.toolset import JsonObject, ToolCall, ToolResult

INSPECTIONS = 2  # rounds in which the model may mend what an inspection found
RESOLUTIONS = 5  # conflicts given to the model before a person must look
PUSHES = 5  # pushes that lost a race before we give up
RESULT_LIMIT = 60_000  # characters of one tool result that the model is shown
DIFF_LIMIT = 400_000  # characters of the diff that are kept and reported; the branch has all of it
_TITLE = 72


@dataclass(frozen=True, slots=True)
class AskModel:
    """Ask the model to go on with the conversation."""


@dataclass(frozen=True, slots=True)
class RunTool:
    """Perform this call, after approval."""

    call: ToolCall


@dataclass(frozen=True, slots=True)
class Inspect:
    """Look at what was changed, and run this check (may be empty)."""

    check: str


@dataclass(frozen=True, slots=True)
class Commit:
    """Commit everything that was changed."""

    message: str


@dataclass(frozen=True, slots=True)
class Push:
    """Push the branch; when someone else was faster, rebase onto theirs."""


@dataclass(frozen=True, slots=True)
class ContinueRebase:
    """Go on with the rebase that stopped with these conflicts, now resolved."""

    conflicts: tuple[Conflict, ...]


@dataclass(frozen=True, slots=True)
class Finish:
    """Nothing is left to do."""

    status: Status


Action = AskModel | RunTool | Inspect | Commit | Push | ContinueRebase | Finish


def prompt(name: str) -> str:
    """Return the text of ``prompts/NAME.md``."""
    return _prompts()[name]


def begin(task: Task, base: str) -> Run:
    """Return the state of a run in which nothing was said yet."""
    return Run(task=task, base=base, messages=(_ask("plan", task=task.text),))


def due(run: Run) -> Action:
    """Return what is to be done now."""
    if run.refused:
        return Finish("refused")
    if run.resolutions > RESOLUTIONS or run.pushes > PUSHES:
        return Finish("conflict")
    match run.phase:
        case "plan" | "act" | "resolve":
            return _model_move(run)
        case "inspect":
            return Inspect(run.plan.check if run.plan else "")
        case "commit":
            return Commit(_commit_message(run))
        case "push":
            return Push()
        case "rebase":
            return ContinueRebase(run.conflicts)
        case "done":
            return Finish(run.status or "done")


def resumed(run: Run, task: Task) -> Run:
    """Return a stored run ready to go on, perhaps with another model: what had stopped it is forgiven."""
    return replace(run, task=task, status=None, refused=False, resolutions=0, pushes=0)


def replied(run: Run, reply: Reply) -> Run:
    """Take a reply of the model in."""
    run = replace(run, messages=(*run.messages, reply), usage=run.usage + reply.usage)
    if reply.finish == "refused":
        return replace(run, refused=True)
    if reply.calls and run.plan is None:
        run = replace(run, plan=parse_plan(reply.text))
    if not reply.calls and reply.finish != "length":
        return _answered(run, reply.text)
    run = _without_broken(replace(run, pending=reply.calls))
    if reply.finish == "length" and not run.pending:
        return _told(run, prompt("truncated"))
    return run


def tool_began(run: Run) -> Run:
    """Note that the first pending call is under way: stored before it runs, so that a crash is noticed."""
    return replace(run, started=True)


def tool_interrupted(run: Run) -> Run:
    """Answer a call that was under way when a process ended: it is not repeated behind the model's back."""
    return tool_finished(run, ToolResult(text=prompt("interrupted"), is_error=True, code="interrupted"), 0.0)


def tool_finished(run: Run, result: ToolResult, seconds: float) -> Run:
    """Take the result of the first pending call in."""
    call, *rest = run.pending
    assert isinstance(call, ToolCall)
    step = Step(
        kind="tool",
        text=describe(call),
        ok=not result.is_error,
        code=result.code,
        arguments=call.arguments,
        seconds=seconds,
    )
    run = replace(run, pending=tuple(rest), started=False, steps=(*run.steps, step))
    return _without_broken(_heard(run, call, result.text, result.is_error))


def inspected(run: Run, *, diff: str, findings: tuple[str, ...], checked: Step | None = None) -> Run:
    """Take in what was changed since the base, and what is wrong with it."""
    steps = (*run.steps, checked) if checked else run.steps
    run = replace(run, diff=_shortened(diff, DIFF_LIMIT), findings=findings, steps=steps)
    if not diff:
        return _unchanged(run)
    if findings and run.inspections < INSPECTIONS:
        run = replace(run, phase="act", inspections=run.inspections + 1)
        return _told(run, prompt("findings").format(findings="\n\n".join(findings)))
    return replace(run, phase="commit")


def committed(run: Run, commit: str) -> Run:
    """Take in that everything is committed."""
    if commit == run.commit:  # what was inspected again after a rebase needed no further change
        return replace(run, phase="push")
    step = Step(kind="commit", text=f"{commit[:10]} {_commit_message(run).splitlines()[0]}")
    return replace(run, phase="push", commit=commit, steps=(*run.steps, step))


def pushed(run: Run) -> Run:
    """Take in that the branch is where it should be."""
    step = Step(kind="push", text=f"pushed {run.task.branch}")
    return replace(run, phase="done", status="done", pushed=True, steps=(*run.steps, step))


def rebased(run: Run, *, commit: str, onto: str) -> Run:
    """Take in that our commits now stand on theirs. What came out of that is inspected anew."""
    step = Step(kind="rebase", text=f"rebased onto {run.task.branch} of someone else, now {commit[:10]}")
    return replace(
        run,
        phase="inspect",
        base=onto,
        commit=commit,
        pushes=run.pushes + 1,
        conflicts=(),
        steps=(*run.steps, step),
    )


def conflicted(run: Run, conflicts: tuple[Conflict, ...]) -> Run:
    """Take in that a rebase stopped with these conflicts: the model is asked to resolve them."""
    text = f"conflict in {', '.join(conflict.path for conflict in conflicts)}"
    step = Step(kind="rebase", text=text, ok=False, code="conflict")
    run = replace(
        run,
        phase="resolve",
        resolutions=run.resolutions + 1,
        conflicts=conflicts,
        steps=(*run.steps, step),
    )
    listing = "\n".join(f"- `{conflict.path}`: {_KINDS[conflict.kind]}" for conflict in conflicts)
    return _told(run, prompt("conflict").format(branch=run.task.branch, files=listing))


_KINDS: dict[ConflictKind, str] = {
    "text": "both changed the same lines. Edit every region between `<<<<<<<` and `>>>>>>>` so that both "
    "changes are kept as they were meant, and remove the markers. Above `=======` is theirs, below is yours.",
    "we_deleted": "you deleted it, they changed it. Delete it, or edit it; to keep theirs, `git add` it.",
    "they_deleted": "they deleted it, you changed it. Delete it, or edit it; to keep yours, `git add` it.",
    "other": "both changed it, and it cannot be merged by lines; now it holds their content. Write what it "
    "should be; to keep theirs, `git add` it; yours is `git show REBASE_HEAD:PATH`.",
}


def describe(call: ToolCall) -> str:
    """Return one line on a call, for a person."""
    command = call.arguments.get("command", "")
    if isinstance(command, list):
        command = " ".join(str(word) for word in command)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] - a model's JSON
    path = call.arguments.get("path", "")
    words = " ".join(str(word) for word in (command, path) if word)
    return f"{call.name}: {words}" if words else call.name


def parse_plan(text: str) -> Plan | None:
    """Return the plan that a reply holds as JSON, or None."""
    decoder = json.JSONDecoder()
    for brace in re.finditer(r"\{", text):
        try:
            found: JsonObject = decoder.raw_decode(text, brace.start())[0]
        except ValueError:
            continue
        if isinstance(found.get("goal"), str) and isinstance(found.get("steps"), list):
            return Plan(
                goal=found["goal"],
                steps=tuple(str(step) for step in found["steps"]),
                title=str(found.get("title") or ""),
                check=_command(found.get("check")),
            )
    return None


def _command(check: object) -> str:
    if isinstance(check, list):
        words = cast("list[object]", check)
        return shlex.join(str(word) for word in words)
    return check if isinstance(check, str) else ""


def _model_move(run: Run) -> Action:
    if run.pending:
        call = run.pending[0]
        assert isinstance(call, ToolCall)
        return RunTool(call)
    if run.usage.requests >= run.task.max_turns:
        return Finish("limit")
    return AskModel()


def _answered(run: Run, text: str) -> Run:
    if run.phase == "resolve":
        return replace(run, phase="rebase")
    if run.plan is None:
        plan = parse_plan(text)
        if plan or _only_looked(run):  # the first words before any deed are the plan, whatever their form
            return _planned(run, plan or Plan(goal=text.strip()))
    return replace(run, phase="inspect", summary=text.strip())


def _only_looked(run: Run) -> bool:
    return all(step.arguments.get("command") == "view" for step in run.steps)


def _planned(run: Run, plan: Plan) -> Run:
    step = Step(kind="plan", text=plan.goal.splitlines()[0] if plan.goal else "")
    return _told(replace(run, plan=plan, phase="act", steps=(*run.steps, step)), prompt("act"))


def _unchanged(run: Run) -> Run:
    idle = not any(step.kind == "tool" for step in run.steps)
    if idle and not run.nudged:
        return _told(replace(run, phase="act", nudged=True), prompt("nudge"))
    return replace(run, phase="done", status="no_changes")


def _without_broken(run: Run) -> Run:
    while run.pending and isinstance(call := run.pending[0], BrokenCall):
        text = (
            "Error (bad_arguments): the arguments were not a JSON object; send the call again with valid JSON"
        )
        step = Step(kind="tool", text=call.name, ok=False, code="bad_arguments")
        run = replace(run, pending=run.pending[1:], steps=(*run.steps, step))
        run = _heard(run, call, text, is_error=True)
    return run


def _heard(run: Run, call: ToolCall | BrokenCall, text: str, is_error: bool) -> Run:  # noqa: FBT001 - private
    shown = _shortened(text, RESULT_LIMIT)
    heard = ToolMessage(call_id=call.id, tool=call.name, text=shown, is_error=is_error)
    return replace(run, messages=(*run.messages, heard))


def _shortened(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n… {len(text) - most} characters left out …\n{text[-half:]}"


def _told(run: Run, text: str) -> Run:
    return replace(run, messages=(*run.messages, UserMessage(text=text.strip())))


def _ask(name: str, **values: str) -> Message:
    return UserMessage(text=prompt(name).format(**values).strip())


def _commit_message(run: Run) -> str:
    title = run.plan.title if run.plan and run.plan.title else run.task.text
    subject = " ".join(title.split())
    if len(subject) > _TITLE:
        subject = f"{subject[: _TITLE - 1]}…"
    return f"{subject}\n\n{run.summary}".strip() + "\n"


@cache
def _prompts() -> dict[str, str]:
    folder = files("kakite.agent") / "prompts"
    return {
        entry.name.removesuffix(".md"): entry.read_text(encoding="utf-8")
        for entry in folder.iterdir()
        if entry.name.endswith(".md")
    }
