"""What of a conversation the model is shown, so that it fits and leaves room to work. Pure.

The conversation itself is never shortened. What is shown stays the same from turn to turn, up to what was
added, until it is condensed again: providers' caches live on that. Cheap ways go first: results that a newer
look at the same file replaces, then old results, are shown as one line. Then what lies between the task and
the latest turns is shown as a summary.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from kakite.agent.run import Condensed, Run, Step
from kakite.models.messages import BrokenCall, Message, Reply, ToolMessage, UserMessage
from kakite.tools.toolset import ToolCall

FULL = 0.7
"""The part of a model's window above which what is shown is condensed."""
AIM = 0.4
"""The part of it that is in use afterwards, at most, if that can be."""
TAIL = 0.2
"""The part of it that the latest turns may take, which are shown as they were."""
_SHORT = 400  # characters of a result that is not worth a stub
_CUT = 6_000  # characters that are shown of a result that cannot be left out
_EACH = 4  # tokens that a message takes beside its text
_LOG_MOST = 4_000  # characters

Meter = Callable[[str], int]
"""Counts the tokens of a text."""


def shown(run: Run) -> tuple[Message, ...]:
    """Return what the model is sent of the conversation."""
    condensed = run.condensed
    if condensed is None:
        return run.messages
    head = run.messages[: condensed.first]
    middle = (UserMessage(text=condensed.summary),) if condensed.summary else ()
    return (*head, *middle, *_tail(run, condensed))


def _tail(run: Run, condensed: Condensed) -> Iterator[Message]:
    stubs, cuts = set(condensed.stubs), set(condensed.cuts)
    for index in range(condensed.upto, len(run.messages)):
        message = run.messages[index]
        if isinstance(message, ToolMessage) and index in stubs:
            yield replace(message, text=_stub(message, _call_of(run.messages, index)))
        elif isinstance(message, ToolMessage) and index in cuts:
            yield replace(message, text=_cut(message.text))
        else:
            yield message


def size_of(message: Message, meter: Meter) -> int:
    """Return the tokens that a message takes."""
    if not isinstance(message, Reply):
        return _EACH + meter(message.text)
    calls = [f"{call.name} {_arguments(call)}" for call in message.calls]
    return _EACH + meter("\n".join((message.text, *calls)))


def size(run: Run, meter: Meter, fixed: int = 0) -> int:
    """Return the tokens of what is shown and of what goes with it (``fixed``: the instructions, the tools).

    What the provider counted for the last reply is taken, and only what came since is counted, where its
    number is believable: some servers cut what is too long, and count the rest.
    """
    counted = fixed + sum(size_of(message, meter) for message in shown(run))
    last = next((at for at in range(len(run.messages) - 1, -1, -1) if _is_counted(run, at)), None)
    if last is None:
        return counted
    reply = run.messages[last]
    assert isinstance(reply, Reply)
    since = sum(size_of(message, meter) for message in run.messages[last + 1 :])
    exact = reply.usage.input_tokens + reply.usage.output_tokens + since
    return exact if exact > counted * 0.6 else counted


def _is_counted(run: Run, at: int) -> bool:
    message = run.messages[at]
    made = run.condensed.made if run.condensed else 0
    return at >= made and isinstance(message, Reply) and message.usage.input_tokens > 0


def lightened(run: Run, meter: Meter, window: int, fixed: int = 0) -> Run:
    """Return the run with results shown as stubs: those replaced by newer ones, and, if need be, old ones."""
    before = run.condensed or Condensed(first=_head(run), upto=_head(run))
    known = set(before.stubs)
    stubs = known.union(_superseded(run.messages))
    lighter = _with(run, before, stubs=stubs)
    if size(lighter, meter, fixed) > window * AIM:
        lighter = _with(run, before, stubs=stubs.union(_old(run, meter, int(window * TAIL))))
    return lighter


def boundary(run: Run, meter: Meter, window: int) -> int:
    """Return from which message on all is shown, once a summary stands for what lies before.

    It never lies between a call and its result. It is the end where the latest turn alone is too large.
    """
    start = run.condensed.upto if run.condensed else _head(run)
    sizes = [size_of(message, meter) for message in shown(run)]
    room, at = int(window * TAIL), len(run.messages)
    for index in range(len(run.messages) - 1, start - 1, -1):
        room -= sizes[index - len(run.messages)]
        if room < 0:
            break
        if isinstance(run.messages[index], Reply):
            at = index
    return at


def until(run: Run, upto: int) -> tuple[Message, ...]:
    """Return what is shown of the conversation up to a message."""
    return shown(replace(run, messages=run.messages[:upto]))


def summarised(run: Run, upto: int, summary: str) -> Run:
    """Return the run with this shown in the place of what lies between the task and that message."""
    before = run.condensed or Condensed(first=_head(run), upto=_head(run))
    stubs = {index for index in before.stubs if index >= upto}
    return _with(run, replace(before, upto=upto, summary=summary), stubs=stubs)


def cut(run: Run) -> Run:
    """Return the run with every long result that is still shown cut in its middle: the last resort."""
    condensed = run.condensed or Condensed(first=_head(run), upto=_head(run))
    long = (
        index
        for index, message in enumerate(run.messages)
        if index >= condensed.upto and isinstance(message, ToolMessage) and len(message.text) > _CUT
    )
    return replace(run, condensed=replace(condensed, cuts=tuple(long), made=len(run.messages)))


def marked(run: Run, before: int, after: int) -> Run:
    """Return the run with a step that says how much less the model is shown from here on."""
    condensed = run.condensed
    summary = "; a summary stands for the earlier ones" if condensed and condensed.summary else ""
    text = f"the messages so far are shown as about {after:,} tokens instead of {before:,}{summary}"
    return replace(run, steps=(*run.steps, Step(kind="context", text=text)))


def log(run: Run) -> str:
    """Return what was done, a line for each step: what is told when the model gives no summary."""
    done = [step for step in run.steps if step.kind != "context"]
    lines = [f"- {step.kind}: {step.text[:200]}{'' if step.ok else ' (failed)'}" for step in done]
    return "\n".join(lines)[-_LOG_MOST:]


def _with(run: Run, condensed: Condensed, *, stubs: set[int]) -> Run:
    made = len(run.messages)
    return replace(run, condensed=replace(condensed, stubs=tuple(sorted(stubs)), made=made))


def _head(run: Run) -> int:
    """Return how many messages come before the model's first: the task, the rules, what was installed."""
    replies = (at for at, message in enumerate(run.messages) if isinstance(message, Reply))
    return next(replies, len(run.messages))


def _superseded(messages: Sequence[Message]) -> set[int]:
    """Return the views of files that were viewed, or written whole, again later."""
    found: set[int] = set()
    seen: set[tuple[str, str]] = set()
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if not isinstance(message, ToolMessage) or message.is_error:
            continue
        call = _call_of(messages, index)
        path, command, span = _looked(call)
        if command == "view" and {(path, ""), (path, span)} & seen and len(message.text) > _SHORT:
            found.add(index)
        if path and command in {"view", "create"}:
            seen.add((path, span))
    return found


def _looked(call: ToolCall | BrokenCall | None) -> tuple[str, str, str]:
    if not isinstance(call, ToolCall):
        return "", "", ""
    span = call.arguments.get("view_range")
    path, command = call.arguments.get("path"), call.arguments.get("command")
    return str(path or ""), str(command or ""), json.dumps(span) if span else ""


def _old(run: Run, meter: Meter, room: int) -> Iterator[int]:
    """Yield the results that are not among the latest ones, which have this much room.

    What the model has not seen yet is never among them: it would only ask again.
    """
    seen = False
    for index in range(len(run.messages) - 1, -1, -1):
        message = run.messages[index]
        seen = seen or isinstance(message, Reply)
        if isinstance(message, ToolMessage):
            room -= size_of(message, meter)
            if seen and room < 0 and len(message.text) > _SHORT:
                yield index


def _call_of(messages: Sequence[Message], index: int) -> ToolCall | BrokenCall | None:
    """Return the call that a result answers."""
    message = messages[index]
    for at in range(index - 1, -1, -1):
        if isinstance(reply := messages[at], Reply):
            wanted = message.call_id if isinstance(message, ToolMessage) else ""
            return next((call for call in reply.calls if call.id == wanted), None)
    return None


def _stub(message: ToolMessage, call: ToolCall | BrokenCall | None) -> str:
    path, command, _ = _looked(call)
    what = " ".join(filter(None, (message.tool, command[:100], path)))
    return f"[left out to save room: {what}, {len(message.text):,} characters. Call it again if you need it.]"


def _cut(text: str) -> str:
    half = _CUT // 2
    return f"{text[:half]}\n[{len(text) - _CUT:,} characters left out to save room]\n{text[-half:]}"


def _arguments(call: ToolCall | BrokenCall) -> str:
    if isinstance(call, BrokenCall):
        return call.raw
    return json.dumps(call.arguments, ensure_ascii=False)
