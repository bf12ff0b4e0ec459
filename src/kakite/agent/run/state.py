"""The state of one run as a value that another process can continue, and its result. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from kakite.agent.run.limits import RunUsage, UsageKind, UsageLimits
from kakite.models.messages import InvalidToolCall, Message, Usage, UserMessage
from kakite.models.model import Effort
from kakite.models.options import ModelOptions
from kakite.models.text_tool_calls import ToolCallMode
from kakite.processes import Network
from kakite.tools.toolset import JsonObject, ToolCall, ToolResult

Phase = Literal["plan", "act", "inspect", "commit", "push", "resolve", "rebase", "done", "chat", "idle"]
"""Whose move it is: the model's (plan, act, resolve, chat), the person's (idle), or ours (the others)."""

WorkspaceKind = Literal["clone", "folder", "worktree"]
"""Where the work is done: a run's clone; the person's own folder; a git worktree of a session's own."""

RunStatus = Literal["done", "no_changes", "limit", "budget", "stuck", "conflict", "refused"]
"""How a run ended by itself. All but ``done`` and ``no_changes`` can be resumed, as outside errors can."""

ReachedLimit = UsageKind | Literal["daily_usd", "daily_tokens", "daily_seconds", "daily_calls"]
"""A limit of what may be used up: the task's own, or that of all tasks of a day."""

ConflictKind = Literal["text", "we_deleted", "they_deleted", "other"]
"""Both changed the same lines; one side removed the file; or no lines that could be compared."""

StepKind = Literal["plan", "tool", "check", "commit", "rebase", "push", "editor", "context", "continue"]
"""``editor``: it was found missing. ``context``: what the model is shown was condensed. ``continue``: a
person's message began a round."""

CHECK_CALL_ID: Final = "check"
"""The id of the call by which Kakite itself runs the plan's check."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The task that a person asked for. Does not change while a run lasts."""

    id: str
    text: str
    repository: str
    """Path or address, without credentials."""
    branch: str
    model: str
    base_url: str | None = None
    sandbox: str
    approve: str
    max_turns: int
    """Replies of the model that a run may take."""
    network: Network = "off"
    """What commands may reach."""
    hosts: tuple[str, ...] = ()
    """What ``registries`` allows besides."""
    credentials: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """The hosts that each secret is for, by its variable; never a secret itself."""
    requests: tuple[str, ...] = ()
    """What may be asked of some hosts."""
    setup: bool = False
    """Whether what the project needs is installed at the start."""
    budget: UsageLimits = UsageLimits()
    """What the task may use up, all resumptions together."""
    context_tokens: int | None = None
    """What the model can take, where the person knows better."""
    tool_calls: ToolCallMode = "auto"
    """How the model calls tools."""
    effort: Effort | None = None
    """How much the model thinks; None: as its provider does it."""
    model_options: tuple[ModelOptions, ...] = ()
    """What is added to the requests, to the models that each names. No secret: headers name variables."""
    daily: UsageLimits = UsageLimits()
    """What all tasks of a day may use up together."""
    push: bool = True
    """Whether the branch goes to the repository; else it stays in the run's own copy of it."""
    patch: str = ""
    """The file in which the change stands at the end, as git's patch; empty: in none."""
    container: str = ""
    """The image or the container that commands run in; empty: in the sandbox."""
    workdir: str = ""
    """The folder with the code in it; empty: the image's own."""
    workspace: WorkspaceKind = "clone"
    """``clone`` for a run; a session has one of the others, and ``repository`` is then a folder."""
    title: str = ""
    """What the issue that it comes from is called; empty: it comes from none."""
    worktree: str = ""
    """The folder of a session that works in a git worktree; ``repository`` is where the person began it."""

    @property
    def folder(self) -> str:
        """The folder that a session works in."""
        return self.worktree or self.repository


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The model's plan."""

    goal: str
    steps: tuple[str, ...] = ()
    title: str = ""
    check: str = ""
    """A command that shows that the work is right; may be empty."""
    done: tuple[int, ...] = ()
    """Which steps are done, as the model says; numbers from 1, in order."""

    def to_checklist(self) -> tuple[tuple[str, bool], ...]:
        """Return each step, and whether it is done."""
        return tuple((step, number in self.done) for number, step in enumerate(self.steps, start=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectInstruction:
    """A file with rules that a project brings along, as it was at the start."""

    path: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """A file in which a rebase has stopped."""

    path: str
    kind: ConflictKind
    was: str = ""
    """What stood there when the rebase stopped: a hash, empty for no file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStep:
    """Something that was done, for the report."""

    kind: StepKind
    text: str
    """One line for a person."""
    ok: bool = True
    code: str = ""
    arguments: JsonObject = field(default_factory=dict[str, object])
    seconds: float = 0.0
    diff: str = ""
    """What a tool says that it changed; shortened like its result."""
    exit_code: int | None = None
    """With which a command has ended; None: it was none, or has not."""
    forgiven: tuple[str, ...] = ()
    """In what a quoted text differed from the file, and was taken all the same."""
    commit: str = ""
    """Of a check: the commit on a clean checkout of which it ran; empty: it ran where the model works.
    Of a push by a command of the model's: the commit that it pushed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCommit:
    """A commit of a run, as git on the host shows it: the model may have made it by itself."""

    commit: str
    subject: str
    author: str
    """``NAME <EMAIL>``, which whoever commits can choose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewindPoint:
    """A point that a session can be rewound to: right before a message of the person."""

    message: int
    """The index of that message in the conversation."""
    text: str
    """The message, shortened to a line."""
    time: str
    """When it was sent, ISO 8601 in UTC."""
    checkpoint: str = ""
    """The id of the checkpoint of the files; empty: there is none."""
    steps: int | None = None
    """How many steps there were; None: that was not stored yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRound:
    """A further round of a run: what a person said to it after it had ended, or had stopped."""

    text: str
    """The person's message."""
    time: str
    """When it was taken in, ISO 8601 in UTC."""
    turns: int
    """Replies of the model before it. The limits of the round count from there."""
    spent: RunUsage
    """What had been used up before it."""
    first_step: int
    """The first of the steps that were done in the present checkout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionState:
    """The summary that replaces a part of the conversation. Numbers are indexes of messages."""

    first: int
    """Messages before this are shown as they are."""
    upto: int
    """Those from there to this are shown as the summary."""
    summary: str = ""
    stubs: tuple[int, ...] = ()
    """Results after that which are shown as one line."""
    cuts: tuple[int, ...] = ()
    """Those of which the middle is left out."""
    made: int = 0
    """How many messages there were when it was made."""
    planned: bool = False
    """Whether there was a plan by then: the first message is shown as the task alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewoundConversation:
    """What a rewind took out of a session's conversation, with what had held there."""

    messages: tuple[Message, ...]
    points: tuple[RewindPoint, ...]
    steps: tuple[RunStep, ...] = ()
    kept: int
    """How many messages were left. While there are no more, these can come back."""
    condensed: CompactionState | None = None
    notes: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    refused: bool = False
    stuck: bool = False
    status: RunStatus | None = None
    summary: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewoundState:
    """What undoes the last rewind of a session."""

    checkpoint: str = ""
    """The id of the checkpoint of the files from before it; empty: they stayed as they were."""
    conversation: RewoundConversation | None = None
    """None: the conversation stayed as it was, or has gone on since."""
    undone: bool = False
    """Whether it was undone: then ``checkpoint`` has the files from before that."""
    is_closed: bool = False
    """Whether the person has sent a message since: a further rewind is then another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """A run as it stands after its last settled step."""

    task: Task
    base: str
    """The commit that the work stands on; empty before the repository is cloned."""
    sandbox: str = ""
    """The kind of sandbox that the work lies in; empty before there is one."""
    environment: Mapping[str, str] | None = None
    """What commands need to find what was installed at the start; None before that."""
    rules: tuple[ProjectInstruction, ...] = ()
    """The project's rules, as the model was given them."""
    phase: Phase = "plan"
    system: str = ""
    """What the model is told before anything else: the same from its first turn to the last."""
    equipment: tuple[str, ...] = ()
    """The names of the parts of that which hold now, as far as the model was told."""
    messages: tuple[Message, ...] = ()
    """The whole conversation; it only grows."""
    condensed: CompactionState | None = None
    """What the model is shown of it, None: all."""
    window: int = 0
    """Tokens that its model turned out to be able to take; 0: it has taken all so far."""
    pending: tuple[ToolCall | InvalidToolCall, ...] = ()
    """Calls of the last reply that have no result yet, in order."""
    started: bool = False
    """Whether the first pending call was begun: after a crash its effect is unknown."""
    plan: Plan | None = None
    usage: Usage = Usage()
    inspections: int = 0
    nudged: bool = False
    failures: int = 0
    """Calls that failed in a row."""
    replans: int = 0
    """How often the model was asked for another plan."""
    reflecting: bool = False
    """Whether it is asked for one now."""
    resolutions: int = 0
    conflicts: tuple[Conflict, ...] = ()
    """Where a rebase has stopped."""
    pushes: int = 0
    unasked: int = 0
    """How often the branch was inspected anew, because it had changed, since the model was asked last."""
    refused: bool = False
    """The model would not answer."""
    summary: str = ""
    commit: str = ""
    commits: tuple[RunCommit, ...] = ()
    """What lies between the base and that, the oldest first."""
    diff: str = ""
    """What is changed, as git on the host shows it; shortened."""
    diffstat: str = ""
    """Which files that are, with their counts: all of them."""
    findings: tuple[str, ...] = ()
    """What the last inspection found and the model did not mend."""
    steps: tuple[RunStep, ...] = ()
    status: RunStatus | None = None
    pushed: bool = False
    draft: str = ""
    """The commit that changes nothing, on the branch for its draft's sake: the work goes on top of it."""
    spent: RunUsage = RunUsage()
    """What this run has used up, all resumptions together."""
    booked: RunUsage = RunUsage()
    """How much of that is in the sum of a day already."""
    day: RunUsage = RunUsage()
    """What all tasks of the day had used up when that was looked at last."""
    reached: tuple[ReachedLimit, ...] = ()
    """With the status ``budget``: which limits left nothing."""
    marks: tuple[str, ...] = ()
    """Of the latest calls: what two have in common that did the same and learnt the same."""
    stuck: bool = False
    """The same call gave the same again and again, also after the model was told."""
    notes: tuple[str, ...] = ()
    """What the model is to be told as soon as all its calls are answered."""
    steering: tuple[UserMessage, ...] = ()
    """What a session's person wrote while calls were under way: given to the model with their results."""
    title: str = ""
    """What a session is about, in a line: its first message, or its name; empty before both."""
    named: bool = False
    """Whether the person chose the title: no message changes it then."""
    points: tuple[RewindPoint, ...] = ()
    """Where a session can be rewound to, in order."""
    first_checkpoint: str = ""
    """The id of the checkpoint from before a session's first message, also when that was rewound; empty:
    that of the first point which has one."""
    rewound: RewoundState | None = None
    """Of a session: what undoes its last rewind; None: there is nothing to undo."""
    mail: str = ""
    """Of a session: the message of its mailbox that was taken in last, which is removed there after that."""
    rounds: tuple[RunRound, ...] = ()
    """The rounds of a run after its first one, in order."""


REFUSAL_CODES = frozenset(("approval_required", "denied"))
"""Codes of a call that was not let go: nothing was done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """The result of a task. Plain: ``asdict`` gives JSON, ``RunResult(**value)`` reads it."""

    summary: str = ""
    """The model's last words."""
    check: str = ""
    """The command that was to show that the work is right; empty: none was named."""
    checked: bool | None = None
    """Whether it went well the last time; None: it did not run, or shows nothing."""
    doubt: str = ""
    """See ``find_unverified_reason``."""
    findings: Sequence[str] = ()
    """What the last inspection found and nobody mended."""
    diffstat: str = ""


def build_run_result(run: RunState) -> RunResult:
    """Return what a run has come to up to now."""
    return RunResult(
        summary=run.summary,
        check=run.plan.check if run.plan else "",
        checked=get_check_result(run),
        doubt=find_unverified_reason(run),
        findings=run.findings,
        diffstat=run.diffstat or compute_diffstat(run.diff),
    )


def get_check_result(run: RunState) -> bool | None:
    """Return whether the check went well the last time; None: there was none, or it shows nothing.

    Only a clean checkout of the run's commit shows that it goes well: where the model works, its commands can
    forge that. A check that went well after it, or another one, had failed shows nothing.
    """
    last = find_last_check(run)
    if last is None or last.code or (last.ok and not (last.commit and last.commit == run.commit)):
        return None
    return None if last.ok and _find_passing_doubt(run, last) else last.ok


def find_unverified_reason(run: RunState) -> str:
    """Return why the check does not show that the work is right; empty: it does, or there was none."""
    last = find_last_check(run)
    if last is None:
        return ""
    if last.ok:
        return _find_passing_doubt(run, last)
    if last.code == "pushed_by_command":
        how = f"a command pushed `{run.task.branch}`, and then left other files"
        return _format_doubt(f"not checked: {how}", code=last.code)
    if last.code in REFUSAL_CODES:
        return f"not checked: `{last.text}` was not approved"
    if last.code:
        return f"not checked: `{last.text}` could not be run ({last.code})"
    return f"but the check failed: `{last.text}`"


def _find_passing_doubt(run: RunState, last: RunStep) -> str:
    """Return why a check that went well does not show much; empty: it does."""
    checks = [step for step in get_current_steps(run) if step.kind == "check"]
    same = [step for step in checks if last.commit and (step.text, step.commit) == (last.text, last.commit)]
    if failed := sum(not step.ok and not step.code for step in same):
        how = f"`{last.text}` failed {failed} of {len(same)} times on the same commit"
        return _format_doubt(f"not sure: {how}", code="check_flaky")
    if replaced := _find_replaced_check(checks, last):
        how = f"`{last.text}` went well, but took the place of `{replaced}`, which had failed"
        return _format_doubt(f"not sure: {how}", code="check_changed")
    return ""


def _format_doubt(told: str, *, code: str) -> str:
    return f"{told} ({code})"


def _find_replaced_check(checks: Sequence[RunStep], last: RunStep) -> str:
    """Return the latest check of another plan that failed and never went well after that; empty: none.

    What failed on a clean checkout must go well on one: where the model works, that can be forged.
    """
    mended: set[tuple[str, bool]] = set()
    for step in reversed(checks):
        if step.ok:
            mended |= {(step.text, False), (step.text, bool(step.commit))}
        elif (
            (step.text, bool(step.commit)) not in mended and step.text != last.text and not _is_refused(step)
        ):
            return step.text
    return ""


def _is_refused(step: RunStep) -> bool:
    return step.code in REFUSAL_CODES


def format_status(status: str, why: str) -> str:
    """Return how a run ended, for a list: what is done, but was not shown to be right, is told as such.

    ``why`` is what ``find_unverified_reason`` says.
    """
    told = status.replace("_", " ")
    return f"{told}, {why.partition(':')[0]}" if status == "done" and why else told


def find_last_check(run: RunState) -> RunStep | None:
    """Return the last check of the present checkout; None: none ran."""
    return next((step for step in reversed(get_current_steps(run)) if step.kind == "check"), None)


def get_branch_head(run: RunState) -> tuple[str, bool]:
    """Return the branch's last commit, empty for none, and whether it is on the remote.

    Until the run has ended, that is what a command of the model's has pushed, if it was the last to push.
    """
    last = next((step for step in reversed(get_current_steps(run)) if step.kind == "push"), None)
    if run.status is None and last is not None and last.commit:
        return last.commit, True
    return run.commit, run.pushed


def get_current_steps(run: RunState) -> tuple[RunStep, ...]:
    """Return what was done in the present checkout: that of a round after the run had ended is another."""
    return run.steps[run.rounds[-1].first_step :] if run.rounds else run.steps


def compute_diffstat(diff: str) -> str:
    """Return which files a diff of git changes, with how many lines come and go: ``+3 -1 a.py``."""
    counts: dict[str, list[int]] = {}
    path = ""
    inside = False
    for line in diff.split("\n"):
        if opened := re.match(r"diff --git (?:\"?a/.*?\"? )\"?b/(.*?)\"?$", line):
            path, inside = opened[1], False
            counts.setdefault(path, [0, 0])
        elif line.startswith("@@ "):
            inside = True
        elif inside and path and line[:1] in {"+", "-"}:
            counts[path]["+-".index(line[0])] += 1
    return "\n".join(f"+{added} -{removed} {name}" for name, (added, removed) in counts.items())


def get_exit_code(result: ToolResult) -> int | None:
    """Return the code with which the command of a call has ended; None: it has not, or it is another call."""
    code = result.details.get("exit_code")
    return code if isinstance(code, int) else None


def get_forgiven(result: ToolResult) -> tuple[str, ...]:
    """Return in what an edit's quoted text differed from the file, and was taken all the same."""
    return tuple(map(str, result.details.get("forgiven", ())))
