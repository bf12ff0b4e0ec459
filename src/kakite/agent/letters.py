"""All that Kakite writes at a forge for people to read. Pure.

What a model, a tool or a stranger has written goes through ``quoting``; lengths are bounded piece by piece,
so that what makes a comment ours, and the notes hidden in it, are never what is cut off.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from shlex import quote
from typing import Final

from kakite.agent.forges.names import answers
from kakite.agent.outcome import Outcome
from kakite.agent.public import Asks, Failure, Public, PublicPlan, Used
from kakite.agent.quoting import block, line, plain, quoted, span

_TITLE: Final = 120
_LINE: Final = 200
_STEPS: Final = 30
_FINDINGS: Final = 10
_SWELLS: Final = 3  # times as long a text may become when it is quoted
_IDS: Final = 15_000  # characters of what was taken up
_SHOWN_DIGEST: Final = 16
_REST: Final = 35_000  # characters of a letter that are not its longest quote

# What each end means, and the way on. The first word is what people see in a list of mails.
_ENDS: Final = {
    "done": ("Done", ""),
    "no_changes": (
        "Nothing was changed",
        "If something should have been, say in a comment what is missing and set the label `{label}` again.",
    ),
    "limit": ("Paused: the most turns of the model are used up", "{again}"),
    "budget": ("Paused: the budget is used up", "{again}"),
    "stuck": (
        "Paused: the model went round in circles",
        "Write in a comment what it should do differently. {again}",
    ),
    "conflict": (
        "Paused: somebody else has changed the same branch, and the changes do not fit together",
        "Merge or remove what is on the branch. {again}",
    ),
    "refused": (
        "Paused: the model would not do it",
        "Say it in other words, or use another model. {again}",
    ),
    "stopped": ("Stopped", "{again}"),
}
_OTHER: Final = ("Paused", "{again}")
_DRAFT: Final = re.compile(
    r"\A(?:(?:\[(?:draft|wip)\]|\((?:draft|wip)\)|(?:draft|wip)\s*:)\s*)+", re.IGNORECASE
)
_AGAIN: Final = "Set the label `{label}` again, and the work goes on on the same branch."
_STANDING: Final = {
    "approval": "**May it do this?**",
    "budget": "**The budget is used up. May it go on?**",
    "stuck": "**It goes round in circles. What should it do?**",
    "conflict": "**Somebody else has changed the same lines. What should it do?**",
    "paused": "**Paused. Shall it go on?**",
}
_FAILED: Final = "**Paused: it could not go on. Shall it try again?**"


def title(text: str) -> str:
    """Return the title of a pull request: it closes nothing, calls nobody, and makes no draft of it."""
    return plain(_DRAFT.sub("", " ".join(text.split())), _TITLE) or "Changes"


def progress(public: Public, ids: Iterable[str]) -> str:
    """Return the one comment that is edited while the task goes on; hidden in it, what was taken up."""
    plan, last = public.get("plan"), public.get("last", "")
    parts = [
        _heading(public),
        _plan(plan) if plan else "",
        f"Last: {line(last, _LINE)}" if last and not _ended(public) else "",
        _facts(public),
        _taken(ids),
    ]
    return _joined(parts)


def description(public: Public, outcome: Outcome, *, closes: bool, most: int, base: str = "") -> str:
    """Return the text of a pull request.

    Args:
        public: the task.
        outcome: what came of it up to now.
        closes: whether the issue is closed when the request is merged.
        most: characters that the forge takes.
        base: the branch that it goes into, where people have to be told how: no server shows or merges it.
    """
    plan = public.get("plan")
    issue = public.get("issue")
    link = f"{'Closes' if closes else 'For'} #{issue}" if issue else ""
    parts = [
        link,
        quoted(outcome.summary, _quotable(most)),
        _plan(plan) if plan else "",
        _checked(outcome),
        _findings(outcome.findings),
        block(outcome.diffstat, 3_000) if outcome.diffstat else "",
        _by_hand(base, public.get("branch", "")) if base else "",
        _facts(public),
    ]
    return _joined(parts)


def _by_hand(base: str, branch: str) -> str:
    lines = f"git fetch\ngit diff origin/{base}...origin/{branch}\ngit merge origin/{branch}"
    return f"To look at it and to merge it, in a clone of the repository:\n\n{block(lines, 1_000)}"


def ending(public: Public, outcome: Outcome, *, label: str, most: int) -> str:
    """Return the comment at the end of a task, however it ended: what came of it, and the way on.

    Args:
        public: the task; its ``error`` or ``status`` tell how it ended.
        outcome: what came of it.
        label: the one that asks for work.
        most: characters that the forge takes.
    """
    error = public.get("error")
    again = _AGAIN.format(label=label)
    if error:
        parts = [*_failure(error), again]
    else:
        way = _ENDS.get(public.get("status") or "", _OTHER)[1]
        parts = [
            f"**{_head(public)}.**",
            quoted(outcome.summary, _quotable(most)),
            way.format(again=again, label=label),
        ]
    return _joined([parts[0], _where(public), *parts[1:], _findings(outcome.findings), _cost(public)])


def question(public: Public, asks: Asks, *, mention: str, most: int) -> str:
    """Return the comment that asks a person, with the lines that answer it."""
    digest = asks.get("digest", "")[:_SHOWN_DIGEST]
    kind, text = asks.get("kind", ""), asks.get("text", "")
    shown = _quotable(most)
    failed = kind == "paused" and public.get("error")
    parts = [_FAILED if failed else _STANDING.get(kind, "**What should it do?**")]
    if kind == "approval":
        told = json.dumps(asks.get("arguments", {}), ensure_ascii=False, indent=2)
        parts += [f"It wants to call {span(asks.get('tool', ''))} with", block(told, shown // 2, "json")]
    task = public.get("id", "")
    parts += [quoted(text, shown // 2), *_answers_to(kind, digest, mention)]
    if kind == "approval":
        said = approval_of(task, asks.get("digest", ""))
        parts += ["Or in a terminal on the machine that keeps the task:", block(said, 500)]
    return _joined([*parts, f"Only people who may write to the repository are heard. Task {span(task)}."])


def approval_of(task: str, digest: str) -> str:
    """Return the command that lets a call of a task go, as a shell takes it."""
    return f"kakite agent approve {quote(task)} --digest {digest}"


def refused(reason: str) -> str:
    """Return the comment on an issue that is not worked on."""
    return f"**Not begun.** {line(reason, 1_000)}."


def reply(public: Public, outcome: Outcome, ids: Iterable[str], *, most: int) -> str:
    """Return what is said below a pull request once its remarks were worked on."""
    commit = public.get("commit", "")
    what = f"Worked on what was remarked; the branch is at {span(commit[:10])}." if commit else ""
    return _joined(
        [
            what or "Looked at what was remarked; nothing was changed.",
            quoted(outcome.summary, _quotable(most)),
            _findings(outcome.findings),
            _taken(ids),
        ]
    )


def without_editor(error: Failure, *, goes_on: bool) -> str:
    """Return the comment that tells that the server of the editor could not be started."""
    then = (
        "The work goes on without it: the model has commands alone."
        if goes_on
        else "So nothing was done. See what it says, then set the label again."
    )
    return _joined(["**The editor could not be started.**", *_failure(error)[1:], then])


def _quotable(most: int) -> int:
    return (most - _REST) // _SWELLS


def _heading(public: Public) -> str:
    branch = span(public.get("branch", ""))
    error, asks, status = public.get("error"), public.get("asks"), public.get("status")
    if error:
        return f"**Paused** on {branch}: {span(error.get('code', ''))}. See below."
    if asks:
        return f"**Waits for an answer** on {branch}. See below."
    if status:
        return f"**{_head(public)}** on {branch}."
    return f"**At work** on {branch}."


def _head(public: Public) -> str:
    """Return how a task ended, and where the check did not go well, that."""
    status, why = public.get("status") or "", public.get("doubt", "")
    head = _ENDS.get(status, _OTHER)[0]
    return f"{head}, {line(why, _LINE)}" if status == "done" and why else head


def _ended(public: Public) -> bool:
    return bool(public.get("status") or public.get("error"))


def _plan(plan: PublicPlan) -> str:
    steps = plan.get("steps", ())
    listed = [f"- [{'x' if step['done'] else ' '}] {line(step['text'], _LINE)}" for step in steps[:_STEPS]]
    if len(steps) > _STEPS:
        listed.append(f"- and {len(steps) - _STEPS} more")
    return _joined([quoted(plan.get("goal", ""), 1_000), "\n".join(listed)])


def _checked(outcome: Outcome) -> str:
    if not outcome.check:
        return "No command was named that checks it."
    if outcome.doubt and outcome.checked is None:
        return f"{line(outcome.doubt[:1].upper() + outcome.doubt[1:], 600)}."
    ended = {True: "went well", False: "**failed**", None: "was not run"}[outcome.checked]
    return f"Checked: {span(outcome.check, 500)} {ended}."


def _findings(findings: Sequence[str]) -> str:
    if not findings:
        return ""
    told = [f"- {line(each, _LINE)}" for each in findings[:_FINDINGS]]
    if len(findings) > _FINDINGS:
        told.append(f"- and {len(findings) - _FINDINGS} more")
    return _joined(["Look at this, which was found and not mended:", "\n".join(told)])


def _failure(error: Failure) -> list[str]:
    hint = error.get("hint", "")
    return [
        f"**Paused: it could not go on** ({span(error.get('code', ''))}).",
        quoted(error.get("message", ""), 2_000),
        f"What helps: {line(hint, 1_000)}." if hint else "",
    ]


def _where(public: Public) -> str:
    request, branch = public.get("request"), span(public.get("branch", ""))
    kept = public.get("kept", "")
    if kept:
        beside = f"`git fetch origin {kept}` brings the last of it"
        return f"Others have pushed to the branch {branch}, so the work is not on it: {beside}."
    if request and public.get("draft") and not public.get("pushed"):
        return (
            f"Nothing was pushed: the draft {request.get('address', '')} holds no change and can be closed."
        )
    if request:
        return f"The work is in {request.get('address', '')} (branch {branch})."
    if public.get("pushed"):
        return f"The work is on the branch {branch}."
    return "Nothing was pushed."


def _answers_to(kind: str, digest: str, mention: str) -> list[str]:
    match kind:
        case "approval":
            said = [f"@{mention} approve {digest}", f"@{mention} deny {digest} because …"]
        case "budget":
            said = [f"@{mention} budget +5 usd"]
        case "paused":
            said = [f"@{mention} continue"]
        case _:
            said = [f"@{mention} continue with what it should do"]
    return [
        "Answer in a comment with a line like this:",
        block("\n".join(said), 500),
    ]


def _facts(public: Public) -> str:
    parts = [span(public.get("model", "")) if public.get("model") else "", _used(public)]
    return " · ".join(part for part in parts if part)


def _cost(public: Public) -> str:
    used = _used(public)
    return f"It took {used}." if used else ""


def _used(public: Public) -> str:
    used = public.get("usage", Used())
    tokens = used.get("input_tokens", 0) + used.get("output_tokens", 0)
    if not used.get("requests"):
        return ""
    cost = used.get("cost_usd")
    parts = [
        f"{used.get('requests', 0)} turns",
        f"{tokens:,} tokens".replace(",", "\u00a0") if tokens else "",
        f"{cost:.2f} USD" if cost is not None else "cost unknown",
    ]
    return ", ".join(part for part in parts if part)


def _taken(ids: Iterable[str]) -> str:
    """Return the hidden line; the oldest are left out where it would grow beyond all measure."""
    kept: list[str] = []
    room = _IDS
    for each in reversed(list(dict.fromkeys(ids))):
        room -= len(each) + 1
        if room < 0:
            break
        kept.append(each)
    return answers(reversed(kept))


def _joined(parts: Sequence[str]) -> str:
    return "\n\n".join(part for part in parts if part)
