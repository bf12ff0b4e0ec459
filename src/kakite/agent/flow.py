"""Whose move it is, and what follows from what happened. Pure: no input, no output, no clock.

The driver asks ``due`` what to do, does it, and feeds the outcome back through one of the functions below;
each returns the next Run. A Run can be stored between any two moves and gone on with in another process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kakite.agent import plans, repeats
from kakite.agent.budget import Budget, Kind, Spent, spent_by
from kakite.agent.outcome import REFUSALS, doubt, exit_code_of
from kakite.agent.phrases import prompt
from kakite.agent.run import Conflict, ConflictKind, Plan, Reached, RuleFile, Run, Status, Step, Task
from kakite.errors import KakiteError
from kakite.models.messages import BrokenCall, Message, Reply, ToolMessage, Usage, UserMessage
from kakite.tools.toolset import ToolCall, ToolResult

INSPECTIONS = 2  # rounds in which the model may mend what an inspection found
REPLANS = 3  # times that the model is asked for another plan
FAILURES = 4  # calls that failed in a row, after which it is asked
RESOLUTIONS = 5  # conflicts given to the model before a person must look
PUSHES = 5  # pushes that lost a race before we give up
RESULT_LIMIT = 60_000  # characters of one tool result that the model is shown
DIFF_LIMIT = 400_000  # characters of the diff that are kept and reported; the branch has all of it


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


def begin(task: Task, base: str) -> Run:
    """Return the state of a run in which nothing was said yet."""
    return Run(task=task, base=base, messages=(_ask("plan", task=task.text),))


def placed(run: Run, sandbox: str, project: str) -> Run:
    """Note where programs run, and tell the model of it where that is no longer what it knows.

    What it had asked for there is not done elsewhere, and what was installed there is not there any more.
    """
    if run.sandbox in {"", sandbox}:
        return replace(run, sandbox=sandbox)
    if run.started:
        run = tool_interrupted(run)
    while run.pending:
        run = _answered_call(run, ToolResult(text=prompt("undone"), is_error=True, code="interrupted"), 0.0)
    run = replace(run, sandbox=sandbox, environment=None)
    return _told(run, prompt("moved").format(project=project))


def ruled(run: Run, rules: tuple[RuleFile, ...], deeper: tuple[str, ...] = ()) -> Run:
    """Give the model the project's rules, and the paths of those that count for folders only."""
    if not rules and not deeper:
        return run
    run = replace(run, rules=rules)
    texts = [f'<file path="{rule.path}">\n{rule.text.strip()}\n</file>' for rule in rules]
    listing = "\n".join(f"- `{path}`" for path in deeper)
    if listing:
        texts.append(prompt("deeper_rules").format(files=listing).strip())
    return _told(run, prompt("rules").format(rules="\n\n".join(texts)))


def may_be_ruled(run: Run) -> bool:
    """Tell whether the model has said nothing yet: what it is given later would be no rule of the start."""
    return not run.rules and not any(isinstance(message, Reply) for message in run.messages)


def prepared(run: Run, environment: Mapping[str, str], note: str) -> Run:
    """Note what was installed, and tell the model of it."""
    run = replace(run, environment=environment)
    return _told(run, prompt("setup").format(note=note)) if note else run


def hampered(run: Run, error: KakiteError) -> Run:
    """Note that there is no editor, once for each reason."""
    step = Step(kind="editor", text=f"no editor: {error.message}", ok=False, code=error.code)
    known = next((each for each in reversed(run.steps) if each.kind == "editor"), None)
    return run if known == step else replace(run, steps=(*run.steps, step))


def due(run: Run) -> Action:
    """Return what is to be done now."""
    if stop := _stop(run):
        return Finish(stop)
    match run.phase:
        case "plan" | "act" | "resolve":
            return _model_move(run)
        case "inspect":
            return Inspect(run.plan.check if run.plan else "")
        case "commit":
            return Commit(plans.commit_message(run.task, run.plan, run.summary))
        case "push":
            return Push()
        case "rebase":
            return ContinueRebase(run.conflicts)
        case "done":
            return Finish(run.status or "done")


def _stop(run: Run) -> Status | None:
    if run.refused:
        return "refused"
    if run.stuck:
        return "stuck"
    return "conflict" if run.resolutions > RESOLUTIONS or run.pushes > PUSHES else None


def reached(run: Run) -> tuple[Reached, ...]:
    """Return which limits leave nothing, those of the day last."""
    day = run.task.daily.reached(run.day + (run.spent - run.booked))
    return (*run.task.budget.reached(run.spent), *(name for kind, name in _DAILY if kind in day))


_DAILY: tuple[tuple[Kind, Reached], ...] = (
    *(("usd", "daily_usd"), ("tokens", "daily_tokens")),
    *(("seconds", "daily_seconds"), ("calls", "daily_calls")),
)


def ended(run: Run, finish: Finish) -> Run:
    """Return the run with how it ended by itself."""
    stopped = finish.status == "budget"
    return replace(run, status=finish.status, reached=reached(run) if stopped else ())


def resumed(run: Run, task: Task, more: Budget | None = None) -> Run:
    """Return a stored run ready to go on, perhaps with another model: what had stopped it is forgiven.

    What it has used up is not: a limit that was reached must be raised in the task, or by ``more``.
    """
    task = replace(task, budget=task.budget.raised(more)) if more else task
    if run.refused:  # a conversation that ends with the model's own words cannot be gone on with
        run = _told(run, prompt("refused"))
    marks = () if run.stuck else run.marks
    window = run.window if task.model == run.task.model else 0
    run = replace(run, window=window)
    forgiven = replace(run, refused=False, resolutions=0, pushes=0, stuck=False, marks=marks)
    return _noted(replace(forgiven, task=task, status=None, reached=()))


def heard_news(run: Run, text: str) -> Run:
    """Take in what a person wrote meanwhile: the model is told before it is asked again.

    What it had believed to be done is gone on with; a run whose branch is pushed has ended, and only
    keeps it.
    """
    return _noted(replace(run, notes=(*run.notes, prompt("news").format(text=text).strip())))


def booked(run: Run, day: Spent) -> Run:
    """Take in what a day's sum is, with all of this run in it."""
    return replace(run, booked=run.spent, day=day)


def asked_aside(run: Run, usage: Usage, seconds: float) -> Run:
    """Take in what a question to the model cost that is no part of the conversation."""
    spent = run.spent + spent_by(usage, seconds=seconds, calls=0)
    return replace(run, usage=run.usage + usage, spent=spent)


def replied(run: Run, reply: Reply, seconds: float = 0.0) -> Run:
    """Take a reply of the model in, which took so long."""
    spent = run.spent + spent_by(reply.usage, seconds=seconds, calls=0)
    run = replace(run, messages=(*run.messages, reply), usage=run.usage + reply.usage, spent=spent)
    return _noted(_taken(run, reply))


def _taken(run: Run, reply: Reply) -> Run:
    if reply.finish == "refused":
        return replace(run, refused=True)
    if reply.calls and run.plan is None:
        run = replace(run, plan=plans.parse_plan(reply.text))
    if run.plan:
        run = replace(run, plan=plans.advanced(run.plan, reply.text))
    if run.reflecting and (plan := plans.parse_plan(reply.text)):
        run = _replanned(run, plan)
        if not reply.calls:
            return _told(run, prompt("act"))
    if not reply.calls and reply.finish != "length":
        return _answered(run, reply.text)
    run = _without_broken(replace(run, pending=reply.calls))
    return _told(run, prompt("truncated")) if reply.finish == "length" and not run.pending else run


def tool_began(run: Run) -> Run:
    """Note that the first pending call is under way: stored before it runs, so that a crash is noticed."""
    return replace(run, started=True)


def tool_interrupted(run: Run) -> Run:
    """Answer a call that was under way when a process ended: it is not repeated behind the model's back."""
    run = replace(run, spent=run.spent + Spent(calls=1))
    cut = ToolResult(text=prompt("interrupted"), is_error=True, code="interrupted")
    return _noted(_answered_call(run, cut, 0.0))


def tool_finished(run: Run, result: ToolResult, seconds: float) -> Run:
    """Take the result of the first pending call in, at work for so long."""
    call = run.pending[0]
    assert isinstance(call, ToolCall)
    run = _answered_call(run, result, seconds)
    spent = run.spent + Spent(seconds=seconds, calls=1)
    return _noted(_judged(replace(run, spent=spent, marks=repeats.marked(run.marks, call, result))))


def _answered_call(run: Run, result: ToolResult, seconds: float) -> Run:
    call, *rest = run.pending
    assert isinstance(call, ToolCall)
    step = Step(
        kind="tool",
        text=describe(call),
        ok=not result.is_error,
        code=result.code,
        arguments=call.arguments,
        seconds=seconds,
        diff=_shortened(str(result.details.get("diff", "")), RESULT_LIMIT),
        exit_code=exit_code_of(result),
    )
    failures = run.failures + 1 if result.is_error else 0
    run = replace(run, pending=tuple(rest), started=False, failures=failures, steps=(*run.steps, step))
    return _without_broken(_heard(run, call, result.text, result.is_error))


def _judged(run: Run) -> Run:
    """Notice when the model goes round in circles, or when nothing works that it tries.

    It is stopped only once it has heard of it: many calls of one reply come before that.
    """
    told = prompt("repeating").strip()
    match repeats.verdict(run.marks):
        case "stop":
            return replace(run, stuck=told not in run.notes)
        case "tell":
            return _asked_to_reflect(replace(run, notes=(*run.notes, told)))
        case "fine":
            return _asked_to_reflect(run) if run.failures >= FAILURES else run


def _asked_to_reflect(run: Run) -> Run:
    """Ask for another plan, unless there is none, or it was asked for often enough."""
    run = replace(run, failures=0)
    if run.phase != "act" or run.plan is None or run.reflecting or run.replans >= REPLANS:
        return run
    run = replace(run, replans=run.replans + 1, reflecting=True)
    return replace(run, notes=(*run.notes, prompt("reflect").strip()))


def _replanned(run: Run, plan: Plan) -> Run:
    plan = plans.revised(run.plan, plan) if run.plan else plan
    return replace(run, plan=plan, reflecting=False, steps=(*run.steps, _plan_step(plan)))


def _noted(run: Run) -> Run:
    """Tell the model what there is to tell, if it can be told now."""
    waits = run.pending or run.phase in {"rebase", "done"}
    if not run.notes or waits:
        return run
    phase = run.phase if run.phase in {"plan", "act", "resolve"} else "act"
    return _told(replace(run, notes=(), phase=phase), "\n\n".join(run.notes))


def inspected(
    run: Run,
    *,
    diff: str,
    findings: tuple[str, ...],
    checked: Step | None = None,
    objected: bool = False,
) -> Run:
    """Take in what was changed since the base, and what is wrong with it.

    ``objected``: a person would not have the check, and one of the findings says why.
    """
    steps = (*run.steps, checked) if checked else run.steps
    spent = run.spent + Spent(seconds=checked.seconds if checked else 0.0)
    findings = tuple(_shortened(finding, RESULT_LIMIT) for finding in findings)
    run = replace(run, diff=_shortened(diff, DIFF_LIMIT), findings=findings, steps=steps, spent=spent)
    if not diff:
        return _unchanged(run)
    if objected:  # each round takes an answer, so only the turns end them; another check may be wanted
        run = replace(run, phase="act", reflecting=run.plan is not None)
        return _noted(_told(run, prompt("findings").format(findings="\n\n".join(findings))))
    if findings and run.inspections < INSPECTIONS:
        run = replace(run, phase="act", inspections=run.inspections + 1)
        return _noted(_told(run, prompt("findings").format(findings="\n\n".join(findings))))
    return _looked_at_anew(run, findings) if _fails(checked) else replace(run, phase="commit")


def _fails(checked: Step | None) -> bool:
    return checked is not None and not checked.ok and checked.code not in REFUSALS


def _looked_at_anew(run: Run, findings: tuple[str, ...]) -> Run:
    """The rounds are used up and the check still fails: a new plan has rounds of its own."""
    asked = _asked_to_reflect(replace(run, phase="act", inspections=0))
    if not asked.reflecting:
        return replace(run, phase="commit")
    return _noted(_told(asked, "\n\n".join(findings)))


def committed(run: Run, commit: str) -> Run:
    """Take in that everything is committed."""
    if commit == run.commit:  # what was inspected again after a rebase needed no further change
        return replace(run, phase="push")
    subject = plans.subject_of(run.task, run.plan)
    step = Step(kind="commit", text=f"{commit[:10]} {subject}")
    return replace(run, phase="push", commit=commit, steps=(*run.steps, step))


def pushed(run: Run) -> Run:
    """Take in that the branch is where it should be."""
    step = Step(kind="push", text=f"pushed {run.task.branch} ({run.commit[:10]})")
    plan = plans.completed(run.plan, checked=not doubt(run)) if run.plan else None
    return replace(run, plan=plan, phase="done", status="done", pushed=True, steps=(*run.steps, step))


def arrived(run: Run, commit: str) -> Run:
    """Take in that a command of the model's has pushed by itself; the run goes on as it would have."""
    step = Step(kind="push", text=f"{commit[:10]} pushed to {run.task.branch} by a command")
    return replace(run, steps=(*run.steps, step))


def rebased(run: Run, *, commit: str, onto: str) -> Run:
    """Take in that our commits now stand on theirs. What came out of that is inspected anew."""
    step = Step(kind="rebase", text=f"rebased onto {run.task.branch} of someone else, now {commit[:10]}")
    run = replace(
        run,
        phase="inspect",
        base=onto,
        commit=commit,
        pushes=run.pushes + 1,
        conflicts=(),
        steps=(*run.steps, step),
    )
    return _noted(run)


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
    return _noted(_told(run, prompt("conflict").format(branch=run.task.branch, files=listing)))


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


def _model_move(run: Run) -> Action:
    limits = set(reached(run))
    if not run.pending:  # the model may still say that it is done, when it has used up all its calls
        limits -= {"calls", "daily_calls"}
    if limits:
        return Finish("budget")
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
        plan = plans.parse_plan(text)
        if plan or _only_looked(run):  # the first words before any deed are the plan, whatever their form
            return _planned(run, plan or Plan(goal=text.strip()))
    return replace(run, phase="inspect", summary=plans.without_marks(text), reflecting=False)


def _only_looked(run: Run) -> bool:
    deeds = (step for step in run.steps if step.kind == "tool" and step.code != "bad_arguments")
    return all(step.arguments.get("command") == "view" for step in deeds)


def _planned(run: Run, plan: Plan) -> Run:
    run = replace(run, plan=plan, phase="act", steps=(*run.steps, _plan_step(plan)))
    return _told(run, prompt("act"))


def _plan_step(plan: Plan) -> Step:
    return Step(kind="plan", text=plan.goal.splitlines()[0] if plan.goal else "")


def _unchanged(run: Run) -> Run:
    # Without a plan these words may have been one: looking by commands cannot be told from work.
    idle = run.plan is None or _only_looked(run)
    if idle and not run.nudged and not run.commit:
        return _told(replace(run, phase="act", nudged=True), prompt("nudge"))
    return replace(run, phase="done", status="no_changes")


def _without_broken(run: Run) -> Run:
    while run.pending and isinstance(call := run.pending[0], BrokenCall):
        text = (
            "Error (bad_arguments): the arguments were not a JSON object; send the call again with valid JSON"
        )
        step = Step(kind="tool", text=call.name, ok=False, code="bad_arguments")
        sent = ToolCall(id=call.id, name=call.name, arguments={"": call.raw})
        marks = repeats.marked(run.marks, sent, ToolResult(text="", is_error=True))
        run = replace(run, pending=run.pending[1:], steps=(*run.steps, step), marks=marks)
        run = replace(run, failures=run.failures + 1)
        run = _judged(_heard(run, call, text, is_error=True))
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
