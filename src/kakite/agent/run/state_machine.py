"""The state machine of a run: chooses the next action, and applies its result. Pure.

The runner asks ``next_action`` what to do, does it, and passes the result to one of the ``on_...``
functions; each returns the next RunState. A RunState can be stored between any two actions, and another
process can continue with it.

It also detects loops: each finished call has a fingerprint, a hash of its tool, arguments and result,
without what always differs, such as the duration. A fingerprint that occurs often among the latest ones is
a loop, however many other calls lie between.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Literal

from kakite.agent.run.limits import RunUsage, UsageKind, UsageLimits, compute_usage
from kakite.agent.run.plan import (
    build_commit_message,
    build_commit_subject,
    complete_plan,
    is_refusal,
    mark_steps_done,
    merge_plan,
    parse_plan,
    strip_progress_lines,
)
from kakite.agent.run.prompt import load_prompt
from kakite.agent.run.rewind import find_first_checkpoint
from kakite.agent.run.state import (
    REFUSAL_CODES,
    Conflict,
    ConflictKind,
    Plan,
    ProjectInstruction,
    ReachedLimit,
    RewindPoint,
    RunCommit,
    RunRound,
    RunState,
    RunStatus,
    RunStep,
    Task,
    compute_diffstat,
    find_last_check,
    find_unverified_reason,
    get_current_steps,
    get_exit_code,
    get_forgiven,
)
from kakite.errors import ExternalError, KakiteError
from kakite.models.messages import InvalidToolCall, Message, Reply, ToolMessage, Usage, UserMessage
from kakite.tools.toolset import Image, ToolCall, ToolResult

WINDOW = 20
"""The number of latest fingerprints that are compared."""
WARN_AT = 3
"""Equal fingerprints at which the model is warned."""
STOP_AT = 5
"""Equal fingerprints at which the run stops."""

StuckLevel = Literal["fine", "tell", "stop"]

_TIMES = re.compile(
    r"(?:, )?\b\d+(?:\.\d+)? ?(?:ns|us|µs|ms|s|sec|secs|seconds?)\b"
    r"|\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
    r"|\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b"
    r"|\b0x[0-9a-f]{6,}\b",  # where something lies in memory
    re.IGNORECASE,
)


def fingerprint_call(call: ToolCall, result: ToolResult) -> str:
    """Return what two calls have in common that did the same and learnt the same; 16 hexadecimal digits."""
    arguments = json.dumps(call.arguments, sort_keys=True, ensure_ascii=False, default=str)
    told = _TIMES.sub("", result.text)
    said = "\0".join((call.name, arguments, str(result.is_error), told))
    return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def is_waiting(call: ToolCall, result: ToolResult) -> bool:
    """Return whether this looks at a command that runs on: doing so again and again is no circle."""
    return call.name.endswith("poll_command") and result.details.get("running") is True


def add_fingerprint(marks: tuple[str, ...], call: ToolCall, result: ToolResult) -> tuple[str, ...]:
    """Return the latest fingerprints after this call."""
    if is_waiting(call, result):
        return marks
    return (*marks, fingerprint_call(call, result))[-WINDOW:]


def check_stuck(marks: tuple[str, ...]) -> StuckLevel:
    """Check the latest call: whether the model is to be warned, or the run to stop."""
    times = marks.count(marks[-1]) if marks else 0
    if times >= STOP_AT:
        return "stop"
    return "tell" if times == WARN_AT else "fine"


MAX_INSPECTIONS = 2  # rounds in which the model may mend what an inspection found
MAX_REPLANS = 3  # times that the model is asked for another plan
MAX_FAILURES = 4  # calls that failed in a row, after which it is asked
MAX_RESOLUTIONS = 5  # conflicts given to the model before a person must look
MAX_UNASKED = 3  # times that a changed branch is inspected anew without the model
MAX_PUSHES = 5  # pushes that lost a race before we give up
RESULT_LIMIT = 60_000  # characters of one tool result that the model is shown
DIFF_LIMIT = 400_000  # characters of the diff that are kept and reported; the branch has all of it


@dataclass(frozen=True, slots=True)
class ModelRequestAction:
    """Ask the model to go on with the conversation."""


@dataclass(frozen=True, slots=True)
class ToolCallAction:
    """Execute this call, after approval."""

    call: ToolCall


@dataclass(frozen=True, slots=True)
class InspectionAction:
    """Look at what was changed, and run this check (may be empty)."""

    check: str


@dataclass(frozen=True, slots=True)
class CommitAction:
    """Commit everything that was changed."""

    message: str


@dataclass(frozen=True, slots=True)
class CleanCheckAction:
    """Run this check on a clean checkout of what is committed."""

    check: str


@dataclass(frozen=True, slots=True)
class PushAction:
    """Push the branch; when someone else was faster, rebase onto theirs."""


@dataclass(frozen=True, slots=True)
class ContinueRebaseAction:
    """Go on with the rebase that stopped with these conflicts, now resolved."""

    conflicts: tuple[Conflict, ...]


@dataclass(frozen=True, slots=True)
class WaitAction:
    """It is the person's move: the model has answered."""


@dataclass(frozen=True, slots=True)
class FinishAction:
    """Nothing is left to do."""

    status: RunStatus


Action = (
    ModelRequestAction
    | ToolCallAction
    | InspectionAction
    | CommitAction
    | CleanCheckAction
    | PushAction
    | ContinueRebaseAction
    | WaitAction
    | FinishAction
)


def create_run_state(task: Task, base: str) -> RunState:
    """Return the state of a run in which nothing was said yet."""
    return RunState(task=task, base=base, messages=(_build_user_message("plan", task=task.text),))


def create_session_state(task: Task) -> RunState:
    """Return the state of a session in which nothing was said yet."""
    return RunState(task=task, base="", phase="idle")


def on_prompt(run: RunState, message: UserMessage, point: RewindPoint) -> RunState:
    """Take in a message that the person sent while the model was not at work: its turn begins.

    What had stopped the turn before is forgiven, as ``resume_run`` does; limits are not.
    """
    if run.refused:
        run = _append_user_message(run, load_prompt("refused"))
    if run.notes:
        run = _append_user_message(run, "\n\n".join(run.notes))
    return replace(
        run,
        phase="chat",
        status=None,
        reached=(),
        refused=False,
        stuck=False,
        failures=0,
        notes=(),
        title=run.title if run.points or run.named else point.text,
        points=(*run.points, replace(point, message=len(run.messages), steps=len(run.steps))),
        first_checkpoint=find_first_checkpoint(run) or point.checkpoint,
        rewound=replace(run.rewound, conversation=None, is_closed=True) if run.rewound else None,
        messages=(*run.messages, replace(message, from_person=True)),
    )


def on_steering(run: RunState, message: UserMessage) -> RunState:
    """Take in what the person wrote while the model is at work: it goes with the next request.

    A turn that had just ended goes on.
    """
    run = replace(run, phase="chat", steering=(*run.steering, replace(message, from_person=True)))
    return _deliver_notes(run)


def on_turn_stopped(run: RunState, status: RunStatus | None = None) -> RunState:
    """Take in that a turn ended before the model was done: a limit, a circle, a refusal or an error."""
    reached = find_reached_limits(run) if status == "budget" else ()
    run = _answer_pending(run, load_prompt("not_performed"))
    return replace(run, phase="idle", status=status, reached=reached)


def on_turn_interrupted(run: RunState, partial: str = "", *, by: Literal["person", "crash"]) -> RunState:
    """Take in that a turn was cut off, by the person or by the end of the process.

    ``partial`` is how far the reply had come. The model hears of it with the next message: what was under
    way may have had any effect.
    """
    if run.phase != "chat":
        return run
    if run.started:
        run = on_tool_interrupted(run)
    run = _answer_pending(run, load_prompt("not_performed"))
    if partial.strip():
        run = replace(run, messages=(*run.messages, Reply(text=partial)))
    run = replace(run, messages=(*run.messages, *run.steering), steering=())
    note = load_prompt("turn_interrupted" if by == "person" else "turn_crashed").strip()
    return replace(run, phase="idle", notes=(*run.notes, note))


def _answer_pending(run: RunState, text: str) -> RunState:
    """Answer all calls that were not begun: providers refuse a conversation in which one has no result."""
    while run.pending:
        run = _complete_call(run, ToolResult(text=text, is_error=True, code="interrupted"), 0.0)
    return run


def on_sandbox_selected(run: RunState, sandbox: str, project: str) -> RunState:
    """Note where programs run, and tell the model of it where that is no longer what it knows.

    What it had asked for there is not done elsewhere, and what was installed there is not there any more.
    """
    if run.sandbox in {"", sandbox}:
        return replace(run, sandbox=sandbox)
    if run.started:
        run = on_tool_interrupted(run)
    run = _answer_pending(run, load_prompt("undone"))
    run = replace(run, sandbox=sandbox, environment=None)
    return _append_user_message(run, load_prompt("sandbox_changed").format(project=project))


def add_project_instructions(
    run: RunState, rules: tuple[ProjectInstruction, ...], deeper: tuple[str, ...] = ()
) -> RunState:
    """Give the model the project's rules, and the paths of those that count for folders only."""
    if not rules and not deeper:
        return run
    run = replace(run, rules=rules)
    texts = [f'<file path="{rule.path}">\n{rule.text.strip()}\n</file>' for rule in rules]
    listing = "\n".join(f"- `{path}`" for path in deeper)
    if listing:
        texts.append(load_prompt("deeper_rules").format(files=listing).strip())
    return _append_user_message(run, load_prompt("rules").format(rules="\n\n".join(texts)))


def add_nested_instructions(run: RunState, rules: tuple[ProjectInstruction, ...]) -> RunState:
    """Give the model the rules of a folder that it has come to; those that it knows are not said again."""
    known = {rule.path for rule in run.rules}
    fresh = tuple(rule for rule in rules if rule.path not in known)
    if not fresh:
        return run
    texts = "\n\n".join(f'<file path="{rule.path}">\n{rule.text.strip()}\n</file>' for rule in fresh)
    note = load_prompt("nested_rules").format(rules=texts).strip()
    return _deliver_notes(replace(run, rules=(*run.rules, *fresh), notes=(*run.notes, note)))


def add_note(run: RunState, text: str) -> RunState:
    """Tell the model something as soon as all its calls are answered; nothing where the text is empty."""
    return _deliver_notes(replace(run, notes=(*run.notes, text))) if text else run


def on_hook_continuation(run: RunState, text: str) -> RunState:
    """Take in that a hook lets a turn go on that the model has ended."""
    return _append_user_message(replace(run, phase="chat"), load_prompt("hook").format(text=text))


def can_add_instructions(run: RunState) -> bool:
    """Return whether the model has said nothing yet: what it is given later would be no rule of the start."""
    return not run.rules and not any(isinstance(message, Reply) for message in run.messages)


def on_setup_done(run: RunState, environment: Mapping[str, str], note: str) -> RunState:
    """Note what was installed, and tell the model of it."""
    run = replace(run, environment=environment)
    return _append_user_message(run, load_prompt("setup").format(note=note)) if note else run


def on_editor_unavailable(run: RunState, error: KakiteError) -> RunState:
    """Note that there is no editor, once for each reason."""
    step = RunStep(kind="editor", text=f"no editor: {error.message}", ok=False, code=error.code)
    known = next((each for each in reversed(run.steps) if each.kind == "editor"), None)
    return run if known == step else replace(run, steps=(*run.steps, step))


def next_action(run: RunState) -> Action:
    """Return what is to be done now."""
    if stop := _find_stop_status(run):
        return FinishAction(stop)
    match run.phase:
        case "plan" | "act" | "resolve" | "chat":
            return _next_model_action(run)
        case "idle":
            return WaitAction()
        case "inspect":
            return InspectionAction(run.plan.check if run.plan else "")
        case "commit":
            return CommitAction(build_commit_message(run.task, run.plan, run.summary))
        case "push":
            check = find_last_check(run)
            due = check is not None and check.ok and check.commit != run.commit
            return CleanCheckAction(check.text) if check and due else PushAction()
        case "rebase":
            return ContinueRebaseAction(run.conflicts)
        case "done":
            return FinishAction(run.status or "done")


def _find_stop_status(run: RunState) -> RunStatus | None:
    if run.refused:
        return "refused"
    if run.stuck:
        return "stuck"
    if run.phase == "inspect" and run.unasked and find_reached_limits(run):
        return "budget"
    return "conflict" if run.resolutions > MAX_RESOLUTIONS or run.pushes > MAX_PUSHES else None


def find_reached_limits(run: RunState) -> tuple[ReachedLimit, ...]:
    """Return which limits leave nothing, those of the day last."""
    day = run.task.daily.find_reached(run.day + (run.spent - run.booked))
    return (*run.task.budget.find_reached(run.spent), *(name for kind, name in _DAILY_LIMITS if kind in day))


_DAILY_LIMITS: tuple[tuple[UsageKind, ReachedLimit], ...] = (
    *(("usd", "daily_usd"), ("tokens", "daily_tokens")),
    *(("seconds", "daily_seconds"), ("calls", "daily_calls")),
)


def finish_run(run: RunState, finish: FinishAction) -> RunState:
    """Return the run with how it ended by itself."""
    stopped = finish.status == "budget"
    return replace(run, status=finish.status, reached=find_reached_limits(run) if stopped else ())


def resume_run(run: RunState, task: Task, more: UsageLimits | None = None) -> RunState:
    """Return a stored run ready to go on, perhaps with another model: what had stopped it is forgiven.

    What it has used up is not: a limit that was reached must be raised in the task, or by ``more``.
    """
    task = replace(task, budget=task.budget.increase_by(more)) if more else task
    if run.refused:  # a conversation that ends with the model's own words cannot be gone on with
        run = _append_user_message(run, load_prompt("refused"))
    marks = () if run.stuck else run.marks
    window = run.window if task.model == run.task.model else 0
    run = replace(run, window=window)
    forgiven = replace(run, refused=False, resolutions=0, pushes=0, unasked=0, stuck=False, marks=marks)
    return _deliver_notes(replace(forgiven, task=task, status=None, reached=()))


def get_round_task(run: RunState) -> Task:
    """Return the task with its limits as they are for one round, whatever the rounds before have used up."""
    if not run.rounds:
        return run.task
    last = run.rounds[-1]
    used = UsageLimits(**{kind: -amount for kind, amount in asdict(last.spent).items()})
    turns = max(run.task.max_turns - last.turns, 1)
    return replace(run.task, max_turns=turns, budget=run.task.budget.increase_by(used))


def start_round(run: RunState, task: Task, text: str, *, time: str, base: str = "") -> RunState:
    """Return a run that goes on with a person's message: one that had ended, or one that has stopped.

    Args:
        run: as it was stored.
        task: with the limits of this round, see ``get_round_task``.
        text: the message.
        time: of now.
        base: where the work is done in another checkout: the commit that the branch has now.
    """
    budget = task.budget.increase_by(UsageLimits(**asdict(run.spent)))
    task = replace(task, max_turns=run.usage.requests + task.max_turns, budget=budget)
    step = RunStep(kind="continue", text=next(iter(text.strip().splitlines()), ""))
    known = run.rounds[-1].first_step if run.rounds else 0
    begun = RunRound(
        text=text,
        time=time,
        turns=run.usage.requests,
        spent=run.spent,
        first_step=len(run.steps) + 1 if base else known,
    )
    run = replace(run, rounds=(*run.rounds, begun), steps=(*run.steps, step))
    if not base:
        return on_user_message(resume_run(run, task), text)
    return _reopen(replace(run, task=task), text, step.text, base)


def _reopen(run: RunState, text: str, title: str, base: str) -> RunState:
    """Return a run that had ended as it is when nothing was done yet of what a person wants besides."""
    run = on_tool_interrupted(run) if run.started else run
    run = _answer_pending(run, load_prompt("not_performed"))
    moved = load_prompt("branch_moved").strip() + " " if run.commit and base != run.commit else ""
    told = load_prompt("continue").format(text=text.strip(), moved=moved)
    plan = Plan(goal=text.strip(), title=title, check=run.plan.check if run.plan else "")
    run = replace(
        run,
        base=base,
        commit=base if run.commit else "",
        environment=None,
        phase="act",
        plan=plan,
        reflecting=True,  # the model's own plan takes its place
        inspections=0,
        nudged=False,
        failures=0,
        replans=0,
        resolutions=0,
        pushes=0,
        conflicts=(),
        refused=False,
        stuck=False,
        marks=(),
        notes=(),
        summary="",
        diff="",
        commits=(),
        findings=(),
        draft="",
        status=None,
        reached=(),
    )
    message = UserMessage(text=told.strip(), shown=text, from_person=True)
    return replace(run, messages=(*run.messages, message))


def on_user_message(run: RunState, text: str) -> RunState:
    """Take in what a person wrote meanwhile: the model is told before it is asked again.

    What it had believed to be done is gone on with; a run whose branch is pushed has ended, and only
    keeps it.
    """
    return _deliver_notes(
        replace(run, notes=(*run.notes, load_prompt("new_messages").format(text=text).strip()))
    )


def record_usage(run: RunState, day: RunUsage) -> RunState:
    """Take in what a day's sum is, with all of this run in it."""
    return replace(run, booked=run.spent, day=day)


def record_side_request(run: RunState, usage: Usage, seconds: float) -> RunState:
    """Take in what a question to the model cost that is no part of the conversation."""
    spent = run.spent + compute_usage(usage, seconds=seconds, calls=0)
    return replace(run, usage=run.usage + usage, spent=spent)


def record_subagent(run: RunState, child: RunState) -> RunState:
    """Take in what a sub-agent used up; its time is that of the call that it works for."""
    spent = run.spent + replace(child.spent, seconds=0.0)
    return replace(run, usage=run.usage + child.usage, spent=spent)


def on_reply(run: RunState, reply: Reply, seconds: float = 0.0) -> RunState:
    """Take a reply of the model in, which took so long."""
    spent = run.spent + compute_usage(reply.usage, seconds=seconds, calls=0)
    run = replace(run, messages=(*run.messages, reply), usage=run.usage + reply.usage, spent=spent, unasked=0)
    return _deliver_notes(_apply_reply(run, reply))


def _apply_reply(run: RunState, reply: Reply) -> RunState:
    if reply.finish == "refused":
        return replace(run, refused=True)
    if reply.calls and run.plan is None and run.phase != "chat":
        run = _begin_plan(run, parse_plan(reply.text))
    if run.plan:
        run = replace(run, plan=mark_steps_done(run.plan, reply.text))
    if run.reflecting and (plan := parse_plan(reply.text)):
        run = _apply_new_plan(run, plan)
        if not reply.calls:
            return _append_user_message(run, load_prompt("act"))
    if not reply.calls and reply.finish != "length":
        return _on_final_reply(run, reply.text)
    run = _reject_invalid_calls(replace(run, pending=reply.calls))
    return (
        _append_user_message(run, load_prompt("truncated"))
        if reply.finish == "length" and not run.pending
        else run
    )


def on_tool_started(run: RunState) -> RunState:
    """Note that the first pending call is under way: stored before it runs, so that a crash is noticed."""
    return replace(run, started=True)


def on_tool_interrupted(run: RunState) -> RunState:
    """Answer a call that was under way when a process ended: it is not repeated behind the model's back."""
    run = replace(run, spent=run.spent + RunUsage(calls=1))
    cut = ToolResult(text=load_prompt("interrupted"), is_error=True, code="interrupted")
    return _deliver_notes(_complete_call(run, cut, 0.0))


def on_tool_finished(run: RunState, result: ToolResult, seconds: float) -> RunState:
    """Take the result of the first pending call in, at work for so long."""
    call = run.pending[0]
    assert isinstance(call, ToolCall)
    run = _complete_call(run, result, seconds)
    spent = run.spent + RunUsage(seconds=seconds, calls=1)
    return _deliver_notes(
        _handle_stuck(replace(run, spent=spent, marks=add_fingerprint(run.marks, call, result)))
    )


def _complete_call(run: RunState, result: ToolResult, seconds: float) -> RunState:
    call, *rest = run.pending
    assert isinstance(call, ToolCall)
    step = RunStep(
        kind="tool",
        text=describe(call),
        ok=not result.is_error,
        code=result.code,
        arguments=call.arguments,
        seconds=seconds,
        diff=_truncate(str(result.details.get("diff", "")), RESULT_LIMIT),
        exit_code=get_exit_code(result),
        forgiven=get_forgiven(result),
    )
    failures = run.failures + 1 if result.is_error else 0
    run = replace(run, pending=tuple(rest), started=False, failures=failures, steps=(*run.steps, step))
    heard = _append_tool_message(run, call, result.text, is_error=result.is_error, images=result.images)
    return _reject_invalid_calls(heard)


def _handle_stuck(run: RunState) -> RunState:
    """Notice when the model goes round in circles, or when nothing works that it tries.

    It is stopped only once it has heard of it: many calls of one reply come before that.
    """
    told = load_prompt("repeating").strip()
    match check_stuck(run.marks):
        case "stop":
            return replace(run, stuck=told not in run.notes)
        case "tell":
            return _request_new_plan(replace(run, notes=(*run.notes, told)))
        case "fine":
            return _request_new_plan(run) if run.failures >= MAX_FAILURES else run


def _request_new_plan(run: RunState) -> RunState:
    """Ask for another plan, unless there is none, or it was asked for often enough."""
    run = replace(run, failures=0)
    if run.phase != "act" or run.plan is None or run.reflecting or run.replans >= MAX_REPLANS:
        return run
    run = replace(run, replans=run.replans + 1, reflecting=True)
    return replace(run, notes=(*run.notes, load_prompt("reflect").strip()))


def _apply_new_plan(run: RunState, plan: Plan) -> RunState:
    plan = merge_plan(run.plan, plan) if run.plan else plan
    return replace(run, plan=plan, reflecting=False, steps=(*run.steps, _build_plan_step(plan)))


def _deliver_notes(run: RunState) -> RunState:
    """Tell the model what there is to tell, if it can be told now."""
    if run.pending or run.phase in {"rebase", "done", "idle"}:
        return run
    if run.steering:
        run = replace(run, messages=(*run.messages, *run.steering), steering=())
    if not run.notes:
        return run
    phase = run.phase if run.phase in {"plan", "act", "resolve", "chat"} else "act"
    return _append_user_message(replace(run, notes=(), phase=phase), "\n\n".join(run.notes))


def on_inspection(
    run: RunState,
    *,
    diff: str,
    findings: tuple[str, ...],
    checked: RunStep | None = None,
    objected: bool = False,
) -> RunState:
    """Take in what was changed since the base, and what is wrong with it.

    ``objected``: a person would not have the check, and one of the findings says why.
    """
    steps = (*run.steps, checked) if checked else run.steps
    spent = run.spent + RunUsage(seconds=checked.seconds if checked else 0.0)
    findings = tuple(_truncate(finding, RESULT_LIMIT) for finding in findings)
    run = replace(_record_diff(run, diff), findings=findings, steps=steps, spent=spent)
    if not diff:
        return _on_no_changes(run)
    if objected:  # each round takes an answer, so only the turns end them; another check may be wanted
        run = replace(run, phase="act", reflecting=run.plan is not None)
        return _deliver_notes(
            _append_user_message(run, load_prompt("findings").format(findings="\n\n".join(findings)))
        )
    if findings and run.inspections < MAX_INSPECTIONS:
        run = replace(run, phase="act", inspections=run.inspections + 1)
        return _deliver_notes(
            _append_user_message(run, load_prompt("findings").format(findings="\n\n".join(findings)))
        )
    return _restart_inspections(run, findings) if _is_failed(checked) else replace(run, phase="commit")


def _record_diff(run: RunState, diff: str) -> RunState:
    return replace(run, diff=_truncate(diff, DIFF_LIMIT), diffstat=compute_diffstat(diff))


def on_clean_check(run: RunState, checked: RunStep, finding: str) -> RunState:
    """Take in what the check came to on a clean checkout of what is committed.

    Where it failed, the model may mend that in the rounds of an inspection; where it could not be run, the
    branch is pushed, and the run says that it is not checked.
    """
    spent = run.spent + RunUsage(seconds=checked.seconds)
    run = replace(run, steps=(*run.steps, checked), spent=spent)
    if checked.ok:
        return run
    findings = (*run.findings, _truncate(finding, RESULT_LIMIT))
    run = replace(run, findings=findings)
    if checked.code:
        return run
    if run.inspections < MAX_INSPECTIONS:
        run = replace(run, phase="act", inspections=run.inspections + 1)
        return _deliver_notes(
            _append_user_message(run, load_prompt("findings").format(findings=findings[-1]))
        )
    return _restart_inspections(run, findings)


def _is_failed(checked: RunStep | None) -> bool:
    return checked is not None and not checked.ok and checked.code not in REFUSAL_CODES


def _restart_inspections(run: RunState, findings: tuple[str, ...]) -> RunState:
    """The rounds are used up and the check still fails: a new plan has rounds of its own."""
    asked = _request_new_plan(replace(run, phase="act", inspections=0))
    if not asked.reflecting:
        return replace(run, phase="commit")
    return _deliver_notes(_append_user_message(asked, "\n\n".join(findings)))


def on_commit(
    run: RunState,
    commit: str,
    *,
    diff: str | None = None,
    findings: tuple[str, ...] = (),
    commits: tuple[RunCommit, ...] = (),
) -> RunState:
    """Take in that everything is committed: what that changes, and what is plainly wrong with it.

    Without ``diff`` that is what was inspected. ``commits`` are all since the base: the last one is another
    than was planned where the model has committed by itself.
    """
    known = tuple(_truncate(finding, RESULT_LIMIT) for finding in findings)
    findings = (*run.findings, *(finding for finding in known if finding not in run.findings))
    run = replace(run if diff is None else _record_diff(run, diff), findings=findings, commits=commits)
    if commit == run.commit:  # what was inspected again after a rebase needed no further change
        return replace(run, phase="push")
    subject = commits[-1].subject if commits else build_commit_subject(run.task, run.plan)
    step = RunStep(kind="commit", text=f"{commit[:10]} {subject}")
    return replace(run, phase="push", commit=commit, pushed=False, steps=(*run.steps, step))


def on_push(run: RunState) -> RunState:
    """Take in that the branch is where it should be."""
    step = RunStep(kind="push", text=f"pushed {run.task.branch} ({run.commit[:10]})")
    plan = complete_plan(run.plan, checked=not find_unverified_reason(run)) if run.plan else None
    return replace(run, plan=plan, phase="done", status="done", pushed=True, steps=(*run.steps, step))


def on_branch_changed(run: RunState) -> RunState:
    """Take in that the branch is another one than was inspected: that is due again.

    Raises:
        ExternalError: it was so too often without the model, code ``branch_changed``.
    """
    if run.unasked >= MAX_UNASKED:
        raise ExternalError(
            f"something in the sandbox changes `{run.task.branch}` again and again: the plan's check, "
            "or a filter of git",
            hint="look at the check and at the repository's attributes; then resume",
            code="branch_changed",
        )
    return replace(run, phase="inspect", unasked=run.unasked + 1)


def on_keep(run: RunState) -> RunState:
    """Take in that the branch is kept here, and goes nowhere."""
    plan = complete_plan(run.plan, checked=not find_unverified_reason(run)) if run.plan else None
    return replace(run, plan=plan, phase="done", status="done")


def on_model_push(run: RunState, commit: str) -> RunState:
    """Take in that a command of the model's has pushed by itself; the run goes on as it would have."""
    told = f"{commit[:10]} pushed to {run.task.branch} by a command"
    return replace(run, steps=(*run.steps, RunStep(kind="push", text=told, commit=commit)))


def on_left_push(run: RunState, commit: str, diff: str) -> RunState:
    """Take in, at the end, that the branch has what a command pushed, whatever the work tree holds.

    Such a run has changed something, and nobody has checked it.
    """
    run = replace(_record_diff(run, diff), commit=commit, pushed=True)
    if run.status != "no_changes":
        return run
    check = run.plan.check if run.plan else ""
    step = RunStep(kind="check", text=check, ok=False, code="pushed_by_command")
    return replace(run, status="done", steps=(*run.steps, step))


def on_rebase(run: RunState, *, commit: str, onto: str, mixed: bool = False) -> RunState:
    """Take in that our commits now stand on what was pushed. What came out of that is inspected anew.

    ``onto`` is what others had pushed, which the report leaves out. With ``mixed``, commits that a command of
    the model's pushed may be among what came later.
    """
    whose = "with commits that a command pushed" if mixed else "of someone else"
    step = RunStep(kind="rebase", text=f"rebased onto {run.task.branch} {whose}, now {commit[:10]}")
    run = replace(
        run,
        phase="inspect",
        base=onto,
        commit=commit,
        pushes=run.pushes + 1,
        conflicts=(),
        steps=(*run.steps, step),
    )
    return _deliver_notes(run)


def on_conflicts(run: RunState, conflicts: tuple[Conflict, ...]) -> RunState:
    """Take in that a rebase stopped with these conflicts: the model is asked to resolve them."""
    text = f"conflict in {', '.join(conflict.path for conflict in conflicts)}"
    step = RunStep(kind="rebase", text=text, ok=False, code="conflict")
    run = replace(
        run,
        phase="resolve",
        resolutions=run.resolutions + 1,
        conflicts=conflicts,
        steps=(*run.steps, step),
    )
    return _deliver_notes(_append_user_message(run, build_conflict_prompt(run)))


def build_conflict_prompt(run: RunState) -> str:
    """Return what the model is to do about the conflicts."""
    listing = [f"- `{conflict.path}`: {_CONFLICT_HINTS[conflict.kind]}" for conflict in run.conflicts]
    return load_prompt("conflict").format(branch=run.task.branch, files="\n".join(listing)).strip()


_CONFLICT_HINTS: dict[ConflictKind, str] = {
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
    if call.name == "commit" and not command and not path:
        path = _get_subject(call)
    words = " ".join(str(word) for word in (command, path) if word)
    return f"{call.name}: {words}" if words else call.name


def describe_question(call: ToolCall, diff: str) -> str:
    """Return one line on what a person is asked about, for which a preview has given a diff."""
    if call.name != "commit" or not diff:
        return describe(call)
    files = len(compute_diffstat(diff).splitlines())
    return f"Commit {files:,} file{'s'[: files != 1]}: {_get_subject(call)}"


def _get_subject(call: ToolCall) -> str:
    return str(call.arguments.get("message", "")).strip().split("\n", 1)[0]


def _next_model_action(run: RunState) -> Action:
    limits = set(find_reached_limits(run))
    if not run.pending:  # the model may still say that it is done, when it has used up all its calls
        limits -= {"calls", "daily_calls"}
    if limits:
        return FinishAction("budget")
    if run.pending:
        call = run.pending[0]
        assert isinstance(call, ToolCall)
        return ToolCallAction(call)
    if run.usage.requests >= run.task.max_turns:
        return FinishAction("limit")
    return ModelRequestAction()


def _on_final_reply(run: RunState, text: str) -> RunState:
    if run.phase == "resolve":
        return replace(run, phase="rebase")
    if run.phase == "chat":
        return replace(run, phase="idle", summary=text)
    if run.plan is None:
        plan = parse_plan(text)
        if plan is None and is_refusal(text) and _has_only_viewed(run):
            return replace(run, refused=True, summary=text.strip())
        if plan or _has_only_viewed(run):  # the first words before any deed are the plan, whatever their form
            return _on_plan(run, plan or Plan(goal=text.strip()))
    if not run.nudged and (left := _find_open_steps(run)):
        told = load_prompt("open_steps").format(steps=left)
        return _append_user_message(replace(run, nudged=True), told)
    return replace(run, phase="inspect", summary=strip_progress_lines(text), reflecting=False)


def _find_open_steps(run: RunState) -> str:
    """Return the open steps of a model that says which are done, while it may go on; empty: none."""
    if run.plan is None or not run.plan.done or run.reflecting or run.inspections:
        return ""
    if run.usage.requests >= run.task.max_turns or find_reached_limits(run):
        return ""
    done = complete_plan(run.plan, checked=False).done
    return ", ".join(str(number) for number in done if number not in run.plan.done)


def _has_only_viewed(run: RunState) -> bool:
    steps = get_current_steps(run)
    deeds = (step for step in steps if step.kind == "tool" and step.code != "bad_arguments")
    return all(step.arguments.get("command") == "view" for step in deeds)


def _on_plan(run: RunState, plan: Plan) -> RunState:
    return _append_user_message(_begin_plan(run, plan), load_prompt("act"))


def _begin_plan(run: RunState, plan: Plan | None) -> RunState:
    if plan is None:
        return run
    phase = "act" if run.phase == "plan" else run.phase
    return replace(run, plan=plan, phase=phase, steps=(*run.steps, _build_plan_step(plan)))


def _build_plan_step(plan: Plan) -> RunStep:
    return RunStep(kind="plan", text=plan.goal.splitlines()[0] if plan.goal else "")


def _on_no_changes(run: RunState) -> RunState:
    committed = any(step.kind == "commit" for step in get_current_steps(run))
    if not run.nudged and not committed:
        return _append_user_message(replace(run, phase="act", nudged=True), load_prompt("nudge"))
    return replace(run, phase="done", status="no_changes")


def _reject_invalid_calls(run: RunState) -> RunState:
    while run.pending and isinstance(call := run.pending[0], InvalidToolCall):
        text = f"Error (bad_arguments): {_describe_bad_json(call.raw)}; send the call again with valid JSON"
        step = RunStep(kind="tool", text=call.name, ok=False, code="bad_arguments")
        sent = ToolCall(id=call.id, name=call.name, arguments={"": call.raw})
        marks = add_fingerprint(run.marks, sent, ToolResult(text="", is_error=True))
        run = replace(run, pending=run.pending[1:], steps=(*run.steps, step), marks=marks)
        run = replace(run, failures=run.failures + 1)
        run = _handle_stuck(_append_tool_message(run, call, text, is_error=True))
    return run


def _describe_bad_json(raw: str) -> str:
    try:
        json.loads(raw)
    except json.JSONDecodeError as error:
        near = raw[max(0, error.pos - 30) : error.pos + 30]
        return f"the arguments were not JSON, {error.msg} at character {error.pos + 1}, in `{near}`"
    except (ValueError, RecursionError):
        return "the arguments were not JSON"
    return "the arguments were not a JSON object, or cut off"


def _append_tool_message(
    run: RunState,
    call: ToolCall | InvalidToolCall,
    text: str,
    *,
    is_error: bool,
    images: tuple[Image, ...] = (),
) -> RunState:
    shown = _truncate(text, RESULT_LIMIT)
    heard = ToolMessage(call_id=call.id, tool=call.name, text=shown, is_error=is_error, images=images)
    return replace(run, messages=(*run.messages, heard))


def _truncate(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n… {len(text) - most} characters left out …\n{text[-half:]}"


def _append_user_message(run: RunState, text: str) -> RunState:
    return replace(run, messages=(*run.messages, UserMessage(text=text.strip())))


def _build_user_message(name: str, **values: str) -> Message:
    return UserMessage(text=load_prompt(name).format(**values).strip())
