"""Formats the comments and descriptions that Kakite writes at a forge. Pure.

On a forge a text may mention people (``@name``), close issues (``fixes #3``), run commands (``/close``),
hide text, load pictures, or look like a hidden marker of Kakite. So text of models, tools and strangers is
escaped here to plain words, lists and code. Each piece is shortened by itself, so that the markers of a
comment are never cut off.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from shlex import quote
from typing import Final

from kakite.agent.forges.labels import format_handled_ids
from kakite.agent.run.state import RunResult
from kakite.agent.worker.status import ErrorView, HumanInputRequest, PlanView, TaskStatus, UsageView
from kakite.terminal_text import escape_control, escape_one_line

ZERO_WIDTH_SPACE: Final = "\u200b"  # takes no room, and ends what a forge would take for a name or a number
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*([\w+#.-]*)[ \t]*")
_ITEM = re.compile(r"([ \t]*)([-*+]|\d{1,9}[.)])[ \t]+(\S.*)")
_HEADING = re.compile(r"[ \t]*#{1,6}[ \t]+(\S.*?)[ \t#]*")
_CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_ACTIVE = re.compile(r"[\\`*\[\]<>|~$]")
_EMPHASIS = re.compile(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_ENTITY = re.compile(r"&(?=#?[A-Za-z0-9]+;)")
_NUMBER = re.compile(r"\A(\d{1,9})([.)])(?=\s|\Z)")
_PAGE: Final = r"\b(?:issues|pulls?|merge_requests|work_items)/(?=\d)"
_REFERENCE = re.compile(rf"[@#!](?=[\w\\])|\bGH-(?=\d)|{_PAGE}", re.IGNORECASE)
_CLOSABLE = re.compile(rf"[#!](?=\d)|\bGH-(?=\d)|{_PAGE}", re.IGNORECASE)
_HIDING = re.compile(r"<!(?=--)")
_ELLIPSIS: Final = "[…]"


def truncate(text: str, most: int) -> str:
    """Return the text with at most so many characters; where some are missing, it says so."""
    if len(text) <= most:
        return text
    return text[: max(most - len(_ELLIPSIS) - 1, 0)].rstrip() + " " + _ELLIPSIS


def escape_title(text: str, most: int) -> str:
    """Return one line for where no Markdown is read, as a title: it refers to nothing and calls nobody."""
    return _break_references(truncate(_collapse_to_line(text, most), most))


def escape_line(text: str, most: int) -> str:
    """Return one line of words and code in backticks."""
    return _render_inline(truncate(_collapse_to_line(text, most), most))


def format_code_span(text: str, most: int = 200) -> str:
    """Return one line as code."""
    told = _escape_code(truncate(_collapse_to_line(text, most), most)) or " "
    ticks = "`" * (max((len(run) for run in re.findall("`+", told)), default=0) + 1)
    room = " " if told.startswith("`") or told.endswith("`") else ""
    return f"{ticks}{room}{told}{room}{ticks}"


def format_code_block(text: str, most: int, kind: str = "") -> str:
    """Return a block of code, in a quote: no line of it begins with a character of its own."""
    return _quote(_fence(_split_lines(text, most), kind))


def format_blockquote(text: str, most: int) -> str:
    """Return a quote in which words, lists and code are shown as such. Empty for no text."""
    lines = _split_lines(text.strip(), most)
    return _quote("\n".join(_render_prose(lines))) if any(each.strip() for each in lines) else ""


def _collapse_to_line(text: str, most: int) -> str:
    words: list[str] = []
    size = 0
    for found in re.finditer(r"\S+", text):  # not cut before: blanks may be many
        words.append(found[0][: most + 1])
        size += len(words[-1]) + 1
        if size > most + 1:
            break
    return escape_one_line(" ".join(words))


def _split_lines(text: str, most: int) -> list[str]:
    ended = text[: 2 * most + 2].replace("\r\n", "\n").replace("\r", "\n")
    return truncate(escape_control(ended).expandtabs(4), most).split("\n")


def _quote(text: str) -> str:
    return "\n".join(f"> {each}".rstrip() for each in text.split("\n"))


def _render_prose(lines: list[str]) -> Iterator[str]:
    at = 0
    while at < len(lines):
        end = _find_fence_end(lines, at)
        if end is None:
            yield _render_prose_line(lines[at])
            at += 1
            continue
        opened = _FENCE.fullmatch(lines[at])
        yield _fence(lines[at + 1 : end], opened[2] if opened else "")
        at = end + 1


def _find_fence_end(lines: list[str], at: int) -> int | None:
    opened = _FENCE.fullmatch(lines[at])
    if opened is None:
        return None
    for index in range(at + 1, len(lines)):
        closing = lines[index].strip()
        if closing.startswith(opened[1]) and not closing.strip(opened[1][0]):
            return index
    return None


def _fence(lines: list[str], kind: str) -> str:
    text = _escape_code("\n".join(lines))
    ticks = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", text))])
    return f"{ticks}{re.sub(r'[^A-Za-z0-9+-]', '', kind)[:20]}\n{text}\n{ticks}"


def _render_prose_line(text: str) -> str:
    if heading := _HEADING.fullmatch(text):
        return f"**{_render_inline(heading[1])}**"
    if item := _ITEM.fullmatch(text):
        depth = min(len(item[1]) // 2, 4)
        return f"{'  ' * depth}{'-' if item[2] in '-*+' else item[2]} {_render_inline(item[3])}"
    return _render_inline(text.strip())


def _render_inline(text: str) -> str:
    parts: list[str] = []
    at = 0
    for found in _CODE.finditer(text):
        parts += [_escape(text[at : found.start()]), format_code_span(found[1], len(found[1]))]
        at = found.end()
    whole = "".join([*parts, _escape(text[at:])])
    # What begins a line could be a heading, a list, a rule, or a command to the forge.
    whole = _NUMBER.sub(r"\1\\\2", whole)
    return f"\\{whole}" if whole.startswith(("#", "/", "=", "+", "-")) else whole


def _escape(text: str) -> str:
    text = _ACTIVE.sub(r"\\\g<0>", text)
    text = _EMPHASIS.sub(r"\\_", text)
    return _break_references(_HIDING.sub(f"<!{ZERO_WIDTH_SPACE}", _ENTITY.sub(r"\\&", text)))


def _break_references(text: str) -> str:
    return _REFERENCE.sub(rf"\g<0>{ZERO_WIDTH_SPACE}", text)


def _escape_code(text: str) -> str:
    """Return code that no program takes for a note of ours or for an issue to close."""
    hidden = _HIDING.sub(f"<!{ZERO_WIDTH_SPACE}", text)
    return _CLOSABLE.sub(rf"\g<0>{ZERO_WIDTH_SPACE}", hidden)


_TITLE: Final = 120
_LINE: Final = 200
_STEPS: Final = 30
_FINDINGS: Final = 10
_QUOTE_GROWTH: Final = 3  # times as long a text may become when it is quoted
_IDS: Final = 15_000  # characters of what was taken up
_SHOWN_DIGEST: Final = 16
_RESERVED: Final = 35_000  # characters of a letter that are not its longest quote

# What each end means, and the way on. The first word is what people see in a list of mails.
_ENDS: Final = {
    "done": ("Done", ""),
    "no_changes": (
        "Nothing was changed",
        "If something should have been, say in a comment what is missing and set the label `{label}` again.",
    ),
    "limit": ("Paused: the model has used all its turns", "{again}"),
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
        "Paused: the model refused",
        "Say it in other words, or use another model. {again}",
    ),
    "stopped": ("Stopped", "{again}"),
}
_OTHER: Final = ("Paused", "{again}")
_DRAFT: Final = re.compile(
    r"\A(?:(?:\[(?:draft|wip)\]|\((?:draft|wip)\)|(?:draft|wip)\s*:)\s*)+", re.IGNORECASE
)
_AGAIN: Final = "Set the label `{label}` again, and the work goes on on the same branch."
_QUESTION_HEADINGS: Final = {
    "approval": "**May it do this?**",
    "budget": "**The budget is used up. May it go on?**",
    "stuck": "**It goes round in circles. What should it do?**",
    "conflict": "**Somebody else has changed the same lines. What should it do?**",
    "paused": "**Paused. Shall it go on?**",
}
_FAILED: Final = "**Paused: it could not go on. Shall it try again?**"


def format_title(text: str) -> str:
    """Return the title of a pull request: it closes nothing, calls nobody, and makes no draft of it."""
    return escape_title(_DRAFT.sub("", " ".join(text.split())), _TITLE) or "Changes"


def format_progress(public: TaskStatus, ids: Iterable[str]) -> str:
    """Return the one comment that is edited while the task goes on; hidden in it, what was taken up."""
    plan, last = public.get("plan"), public.get("last", "")
    parts = [
        _format_heading(public),
        _format_plan(plan) if plan else "",
        f"Last: {escape_line(last, _LINE)}" if last and not _has_ended(public) else "",
        _format_facts(public),
        _format_recent_ids(ids),
    ]
    return _join(parts)


def format_description(
    public: TaskStatus, outcome: RunResult, *, closes: bool, most: int, base: str = ""
) -> str:
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
        format_blockquote(outcome.summary, _compute_quote_limit(most)),
        _format_plan(plan) if plan else "",
        _format_check(outcome),
        _format_findings(outcome.findings),
        format_code_block(outcome.diffstat, 3_000) if outcome.diffstat else "",
        _format_merge_commands(base, public.get("branch", "")) if base else "",
        _format_facts(public),
    ]
    return _join(parts)


def _format_merge_commands(base: str, branch: str) -> str:
    lines = f"git fetch\ngit diff origin/{base}...origin/{branch}\ngit merge origin/{branch}"
    return (
        f"To look at it and to merge it, in a clone of the repository:\n\n{format_code_block(lines, 1_000)}"
    )


def format_final_comment(public: TaskStatus, outcome: RunResult, *, label: str, most: int) -> str:
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
        parts = [*_format_error(error), again]
    else:
        way = _ENDS.get(public.get("status") or "", _OTHER)[1]
        parts = [
            f"**{_format_end(public)}.**",
            format_blockquote(outcome.summary, _compute_quote_limit(most)),
            way.format(again=again, label=label),
        ]
    return _join(
        [
            parts[0],
            _format_location(public),
            *parts[1:],
            _format_findings(outcome.findings),
            _format_cost(public),
        ]
    )


def format_question(public: TaskStatus, asks: HumanInputRequest, *, mention: str, most: int) -> str:
    """Return the comment that asks a person, with the lines that answer it."""
    digest = asks.get("digest", "")[:_SHOWN_DIGEST]
    kind, text = asks.get("kind", ""), asks.get("text", "")
    shown = _compute_quote_limit(most)
    failed = kind == "paused" and public.get("error")
    parts = [_FAILED if failed else _QUESTION_HEADINGS.get(kind, "**What should it do?**")]
    if kind == "approval":
        told = json.dumps(asks.get("arguments", {}), ensure_ascii=False, indent=2)
        parts += [
            f"It wants to call {format_code_span(asks.get('tool', ''))} with",
            format_code_block(told, shown // 2, "json"),
        ]
    task = public.get("id", "")
    parts += [format_blockquote(text, shown // 2), *_format_answer_lines(kind, digest, mention)]
    if kind == "approval":
        said = format_approve_command(task, asks.get("digest", ""))
        parts += ["Or in a terminal on the machine that keeps the task:", format_code_block(said, 500)]
    return _join(
        [
            *parts,
            f"Only answers from people who may write to the repository count. Task {format_code_span(task)}.",
        ]
    )


def format_approve_command(task: str, digest: str) -> str:
    """Return the command that lets a call of a task go, as a shell takes it."""
    return f"kakite agent approve {quote(task)} --digest {digest}"


def format_rejection(reason: str) -> str:
    """Return the comment on an issue that is not worked on."""
    return f"**Not begun.** {escape_line(reason, 1_000)}."


def format_reply(public: TaskStatus, outcome: RunResult, ids: Iterable[str], *, most: int) -> str:
    """Return what is said below a pull request once its remarks were worked on."""
    commit = public.get("commit", "")
    what = (
        f"Worked on the review remarks; the branch is at {format_code_span(commit[:10])}." if commit else ""
    )
    return _join(
        [
            what or "Looked at the review remarks; nothing was changed.",
            format_blockquote(outcome.summary, _compute_quote_limit(most)),
            _format_findings(outcome.findings),
            _format_recent_ids(ids),
        ]
    )


def format_editor_failure(error: ErrorView, *, goes_on: bool) -> str:
    """Return the comment that tells that the server of the editor could not be started."""
    then = (
        "The work goes on without it: the model has commands alone."
        if goes_on
        else "So nothing was done. Read its message, then set the label again."
    )
    return _join(["**The editor could not be started.**", *_format_error(error)[1:], then])


def _compute_quote_limit(most: int) -> int:
    return (most - _RESERVED) // _QUOTE_GROWTH


def _format_heading(public: TaskStatus) -> str:
    branch = format_code_span(public.get("branch", ""))
    error, asks, status = public.get("error"), public.get("asks"), public.get("status")
    if error:
        return f"**Paused** on {branch}: {format_code_span(error.get('code', ''))}. See below."
    if asks:
        return f"**Waits for an answer** on {branch}. See below."
    if status:
        return f"**{_format_end(public)}** on {branch}."
    return f"**At work** on {branch}."


def _format_end(public: TaskStatus) -> str:
    """Return how a task ended, and where the check did not go well, that."""
    status, why = public.get("status") or "", public.get("doubt", "")
    head = _ENDS.get(status, _OTHER)[0]
    return f"{head}, {escape_line(why, _LINE)}" if status == "done" and why else head


def _has_ended(public: TaskStatus) -> bool:
    return bool(public.get("status") or public.get("error"))


def _format_plan(plan: PlanView) -> str:
    steps = plan.get("steps", ())
    listed = [
        f"- [{'x' if step['done'] else ' '}] {escape_line(step['text'], _LINE)}" for step in steps[:_STEPS]
    ]
    if len(steps) > _STEPS:
        listed.append(f"- and {len(steps) - _STEPS} more")
    return _join([format_blockquote(plan.get("goal", ""), 1_000), "\n".join(listed)])


def _format_check(outcome: RunResult) -> str:
    if not outcome.check:
        return "No check command was given."
    if outcome.doubt and outcome.checked is None:
        return f"{escape_line(outcome.doubt[:1].upper() + outcome.doubt[1:], 600)}."
    ended = {True: "went well", False: "**failed**", None: "was not run"}[outcome.checked]
    return f"Checked: {format_code_span(outcome.check, 500)} {ended}."


def _format_findings(findings: Sequence[str]) -> str:
    if not findings:
        return ""
    told = [f"- {escape_line(each, _LINE)}" for each in findings[:_FINDINGS]]
    if len(findings) > _FINDINGS:
        told.append(f"- and {len(findings) - _FINDINGS} more")
    return _join(["Look at these problems, which were found but not fixed:", "\n".join(told)])


def _format_error(error: ErrorView) -> list[str]:
    hint = error.get("hint", "")
    return [
        f"**Paused: it could not go on** ({format_code_span(error.get('code', ''))}).",
        format_blockquote(error.get("message", ""), 2_000),
        f"What helps: {escape_line(hint, 1_000)}." if hint else "",
    ]


def _format_location(public: TaskStatus) -> str:
    request, branch = public.get("request"), format_code_span(public.get("branch", ""))
    kept = public.get("kept", "")
    if kept:
        beside = f"`git fetch origin {kept}` brings the last of it"
        return f"Others have pushed to the branch {branch}, so the work is elsewhere: {beside}."
    if request and public.get("draft") and not public.get("pushed"):
        return (
            f"Nothing was pushed: the draft {request.get('address', '')} holds no change and can be closed."
        )
    if request:
        return f"The work is in {request.get('address', '')} (branch {branch})."
    if public.get("pushed"):
        return f"The work is on the branch {branch}."
    return "Nothing was pushed."


def _format_answer_lines(kind: str, digest: str, mention: str) -> list[str]:
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
        format_code_block("\n".join(said), 500),
    ]


def _format_facts(public: TaskStatus) -> str:
    parts = [format_code_span(public.get("model", "")) if public.get("model") else "", _format_usage(public)]
    return " · ".join(part for part in parts if part)


def _format_cost(public: TaskStatus) -> str:
    used = _format_usage(public)
    return f"It took {used}." if used else ""


def _format_usage(public: TaskStatus) -> str:
    used = public.get("usage", UsageView())
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


def _format_recent_ids(ids: Iterable[str]) -> str:
    """Return the hidden line; the oldest are left out where it would grow beyond all measure."""
    kept: list[str] = []
    room = _IDS
    for each in reversed(list(dict.fromkeys(ids))):
        room -= len(each) + 1
        if room < 0:
            break
        kept.append(each)
    return format_handled_ids(reversed(kept))


def _join(parts: Sequence[str]) -> str:
    return "\n\n".join(part for part in parts if part)
