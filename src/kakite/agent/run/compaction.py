"""Keeps the conversation that the model sees within its context window.

The conversation itself is never shortened. The visible part stays the same from turn to turn, apart from
what is added, until it is compacted again: providers' caches depend on that. Cheap steps come first: results
that a newer look at the same file replaces, then old results, are shown as one line. Then the messages
between the task and the latest turns are replaced by a summary, which the model writes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from kakite.agent.run import state_machine
from kakite.agent.run.checklist import find_checklist, format_checklist
from kakite.agent.run.prompt import load_prompt
from kakite.agent.run.state import CompactionState, RunState, RunStep
from kakite.models.catalog import find_context_window
from kakite.models.messages import InvalidToolCall, Message, Reply, ToolMessage, UserMessage
from kakite.models.model import Model, ModelError
from kakite.models.tokens import count_tokens
from kakite.tools.toolset import Tool, ToolCall

COMPACTION_THRESHOLD = 0.7
"""The part of a model's window above which what is shown is condensed."""
COMPACTION_TARGET = 0.4
"""The part of it that is in use afterwards, at most, if that can be."""
TAIL_SHARE = 0.2
"""The part of it that the latest turns may take, which are shown as they were."""
_MIN_ELIDED_CHARS = 400  # characters of a result that is not worth a stub
_MAX_TRUNCATED_CHARS = 6_000  # characters that are shown of a result that cannot be left out
_TOKENS_PER_MESSAGE = 4  # tokens that a message takes beside its text
_MAX_LOG_CHARS = 4_000  # characters

_BYTES_OF_TOKEN = 6
"""More bytes for each token than text and code have, in any language."""

TokenCounter = Callable[[str], int]
"""Counts the tokens of a text."""


def get_visible_messages(run: RunState) -> tuple[Message, ...]:
    """Return what the model is sent of the conversation."""
    condensed = run.condensed
    if condensed is None:
        return run.messages
    head = run.messages[: condensed.first]
    if condensed.planned and isinstance(first := head[0], UserMessage):
        told = load_prompt("task").format(task=run.task.text).strip()
        head = (replace(first, text=told), *head[1:])
    middle = (UserMessage(text=condensed.summary),) if condensed.summary else ()
    return (*head, *middle, *_iter_tail(run, condensed))


_TOKENS_PER_IMAGE = 1600  # about what providers count for one that they have not made smaller


def _iter_tail(run: RunState, condensed: CompactionState) -> Iterator[Message]:
    stubs, cuts = set(condensed.stubs), set(condensed.cuts)
    for index in range(condensed.upto, len(run.messages)):
        message = run.messages[index]
        if isinstance(message, ToolMessage) and index in stubs:
            yield replace(message, text=_format_stub(message, _find_call(run.messages, index)), images=())
        elif isinstance(message, ToolMessage) and index in cuts:
            yield replace(message, text=_truncate_text(message.text), images=())
        else:
            yield message


def count_message_tokens(message: Message, meter: TokenCounter) -> int:
    """Return the tokens that a message takes."""
    if not isinstance(message, Reply):
        return _TOKENS_PER_MESSAGE + meter(message.text) + _TOKENS_PER_IMAGE * len(message.images)
    calls = [f"{call.name} {_format_arguments(call)}" for call in message.calls]
    return _TOKENS_PER_MESSAGE + meter("\n".join((message.text, *calls)))


def count_request_tokens(run: RunState, meter: TokenCounter, fixed: int = 0) -> int:
    """Return the tokens of what is shown and of what goes with it (``fixed``: the instructions, the tools).

    What the provider counted for the last reply is taken, and only what came since is counted, where its
    number is believable: some servers cut what is too long, and count the rest.
    """
    counted = fixed + sum(count_message_tokens(message, meter) for message in get_visible_messages(run))
    exact = _count_since_reply(run, meter)
    return exact if exact is not None and exact > counted * 0.6 else counted


def _count_since_reply(run: RunState, meter: TokenCounter) -> int | None:
    """Return what the provider counted for the last reply, and what came since; None: it counted nothing."""
    last = next((at for at in range(len(run.messages) - 1, -1, -1) if _is_counted(run, at)), None)
    if last is None:
        return None
    reply = run.messages[last]
    assert isinstance(reply, Reply)
    since = sum(count_message_tokens(message, meter) for message in run.messages[last + 1 :])
    return reply.usage.input_tokens + reply.usage.output_tokens + since


def _is_counted(run: RunState, at: int) -> bool:
    message = run.messages[at]
    made = run.condensed.made if run.condensed else 0
    return at >= made and isinstance(message, Reply) and message.usage.input_tokens > 0


def _measure_text(text: str) -> int:
    """Return the bytes of a text: at least as many as its tokens."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def _measure_nothing(_text: str) -> int:
    return 0


def elide_tool_results(run: RunState, meter: TokenCounter, window: int, fixed: int = 0) -> RunState:
    """Return the run with results shown as stubs: those replaced by newer ones, and, if need be, old ones."""
    before = run.condensed or CompactionState(first=_count_head_messages(run), upto=_count_head_messages(run))
    known = set(before.stubs)
    stubs = known.union(_find_superseded_views(run.messages))
    lighter = _replace_compaction(run, before, stubs=stubs)
    if count_request_tokens(lighter, meter, fixed) > window * COMPACTION_TARGET:
        lighter = _replace_compaction(
            run, before, stubs=stubs.union(_iter_old_results(run, meter, int(window * TAIL_SHARE)))
        )
    return lighter


def find_split_point(run: RunState, meter: TokenCounter, window: int) -> int:
    """Return from which message on all is shown, once a summary stands for what lies before.

    It never lies between a call and its result. It is the end where the latest turn alone is too large.
    """
    start = run.condensed.upto if run.condensed else _count_head_messages(run)
    sizes = [count_message_tokens(message, meter) for message in get_visible_messages(run)]
    room, at = int(window * TAIL_SHARE), len(run.messages)
    for index in range(len(run.messages) - 1, start - 1, -1):
        room -= sizes[index - len(run.messages)]
        if room < 0:
            break
        if isinstance(run.messages[index], Reply):
            at = index
    return at


def get_visible_until(run: RunState, upto: int) -> tuple[Message, ...]:
    """Return what is shown of the conversation up to a message."""
    return get_visible_messages(replace(run, messages=run.messages[:upto]))


def apply_summary(run: RunState, upto: int, summary: str) -> RunState:
    """Return the run with this shown in the place of what lies between the task and that message."""
    before = run.condensed or CompactionState(first=_count_head_messages(run), upto=_count_head_messages(run))
    stubs = {index for index in before.stubs if index >= upto}
    planned = run.plan is not None and run.task.workspace == "clone"
    condensed = replace(before, upto=upto, summary=summary, planned=planned)
    return _replace_compaction(run, condensed, stubs=stubs)


def truncate_results(run: RunState) -> RunState:
    """Return the run with every long result that is still shown cut in its middle: the last resort."""
    condensed = run.condensed or CompactionState(
        first=_count_head_messages(run), upto=_count_head_messages(run)
    )
    long = (
        index
        for index, message in enumerate(run.messages)
        if index >= condensed.upto
        and isinstance(message, ToolMessage)
        and len(message.text) > _MAX_TRUNCATED_CHARS
    )
    return replace(run, condensed=replace(condensed, cuts=tuple(long), made=len(run.messages)))


def add_compaction_step(run: RunState, before: int, after: int) -> RunState:
    """Return the run with a step that says how much less the model is shown from here on."""
    condensed = run.condensed
    summary = "; a summary stands for the earlier ones" if condensed and condensed.summary else ""
    text = f"the messages so far are shown as about {after:,} tokens instead of {before:,}{summary}"
    return replace(run, steps=(*run.steps, RunStep(kind="context", text=text)))


def format_step_log(run: RunState) -> str:
    """Return what was done, a line for each step: what is told when the model gives no summary."""
    done = [step for step in run.steps if step.kind != "context"]
    lines = [f"- {step.kind}: {step.text[:200]}{'' if step.ok else ' (failed)'}" for step in done]
    return "\n".join(lines)[-_MAX_LOG_CHARS:]


def _replace_compaction(run: RunState, condensed: CompactionState, *, stubs: set[int]) -> RunState:
    made = len(run.messages)
    return replace(run, condensed=replace(condensed, stubs=tuple(sorted(stubs)), made=made))


def _count_head_messages(run: RunState) -> int:
    """Return how many messages come before the model's first: the task, the rules, what was installed."""
    replies = (at for at, message in enumerate(run.messages) if isinstance(message, Reply))
    return next(replies, len(run.messages))


def _find_superseded_views(messages: Sequence[Message]) -> set[int]:
    """Return the views of files that were viewed, or written whole, again later."""
    found: set[int] = set()
    seen: set[tuple[str, str]] = set()
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if not isinstance(message, ToolMessage) or message.is_error:
            continue
        call = _find_call(messages, index)
        path, command, span = _parse_file_call(call)
        if command == "view" and {(path, ""), (path, span)} & seen and len(message.text) > _MIN_ELIDED_CHARS:
            found.add(index)
        if path and command in {"view", "create"}:
            seen.add((path, span))
    return found


def _parse_file_call(call: ToolCall | InvalidToolCall | None) -> tuple[str, str, str]:
    if not isinstance(call, ToolCall):
        return "", "", ""
    span = call.arguments.get("view_range")
    path, command = call.arguments.get("path"), call.arguments.get("command")
    return str(path or ""), str(command or ""), json.dumps(span) if span else ""


def _iter_old_results(run: RunState, meter: TokenCounter, room: int) -> Iterator[int]:
    """Yield the results that are not among the latest ones, which have this much room.

    What the model has not seen yet is never among them: it would only ask again.
    """
    seen = False
    for index in range(len(run.messages) - 1, -1, -1):
        message = run.messages[index]
        seen = seen or isinstance(message, Reply)
        if isinstance(message, ToolMessage):
            room -= count_message_tokens(message, meter)
            if seen and room < 0 and len(message.text) > _MIN_ELIDED_CHARS:
                yield index


def _find_call(messages: Sequence[Message], index: int) -> ToolCall | InvalidToolCall | None:
    """Return the call that a result answers."""
    message = messages[index]
    for at in range(index - 1, -1, -1):
        if isinstance(reply := messages[at], Reply):
            wanted = message.call_id if isinstance(message, ToolMessage) else ""
            return next((call for call in reply.calls if call.id == wanted), None)
    return None


def _format_stub(message: ToolMessage, call: ToolCall | InvalidToolCall | None) -> str:
    path, command, _ = _parse_file_call(call)
    what = " ".join(filter(None, (message.tool, command[:100], path)))
    return f"[left out to save room: {what}, {len(message.text):,} characters. Call it again if you need it.]"


def _truncate_text(text: str) -> str:
    half = _MAX_TRUNCATED_CHARS // 2
    omitted = len(text) - _MAX_TRUNCATED_CHARS
    return f"{text[:half]}\n[{omitted:,} characters left out to save room]\n{text[-half:]}"


def _format_arguments(call: ToolCall | InvalidToolCall) -> str:
    if isinstance(call, InvalidToolCall):
        return call.raw
    return json.dumps(call.arguments, ensure_ascii=False)


_MAX_SUMMARY_CHARS = 16_000  # characters
CONTEXT_OVERFLOW = "model_context_overflow"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOverhead:
    """The parts of every request beside the conversation."""

    instructions: str
    tools: Sequence[Tool]

    def to_text(self) -> str:
        """Return all of it, to be counted."""
        tools = [{"n": tool.name, "d": tool.description, "p": tool.parameters} for tool in self.tools]
        return self.instructions + json.dumps(tools, ensure_ascii=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextParts:
    """What takes how many tokens of a request, as counted here."""

    instructions: int
    tools: int
    messages: int
    """Of the person, of ours, and summaries."""
    replies: int
    """Of the model, with its calls."""
    results: int
    """Of tools."""


class Compactor:
    """Chooses what the model sees of a run, and compacts it."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._counts: dict[int, tuple[str, int]] = {}
        self._sizes: dict[int, tuple[Reply, int]] = {}

    def should_compact(self, run: RunState, fixed: RequestOverhead) -> bool:
        """Return whether there is more than should be shown, and something can be done about it."""
        if run.condensed and run.condensed.made == len(run.messages):
            return False
        room = get_run_window(run) * COMPACTION_THRESHOLD
        size = self._measure(run, fixed)
        if size <= room or (
            self._is_believable(run, size) and (_count_since_reply(run, _measure_text) or 0) <= room
        ):
            return False  # a token has a byte at least
        return self.count_request_tokens(run, fixed) > room

    def count_request_tokens(self, run: RunState, fixed: RequestOverhead) -> int:
        """Return the tokens of a request; the vocabulary, which takes 30 MB, is not loaded without need."""
        if self._is_believable(run, self._measure(run, fixed)):
            return _count_since_reply(run, self._count_tokens) or 0
        return count_request_tokens(run, self._count_tokens, self._count_tokens(fixed.to_text()))

    def describe(self, run: RunState, fixed: RequestOverhead) -> ContextParts:
        """Return the parts of a request."""
        sums = {UserMessage: 0, Reply: 0, ToolMessage: 0}
        for message in get_visible_messages(run):
            sums[type(message)] += count_message_tokens(message, self._count_tokens)
        instructions = self._count_tokens(fixed.instructions)
        return ContextParts(
            instructions=instructions,
            tools=self._count_tokens(fixed.to_text()) - instructions,
            messages=sums[UserMessage],
            replies=sums[Reply],
            results=sums[ToolMessage],
        )

    def _measure(self, run: RunState, fixed: RequestOverhead) -> int:
        """Return the bytes of a request."""
        return _measure_text(fixed.to_text()) + sum(map(self._measure_message, get_visible_messages(run)))

    def _measure_message(self, message: Message) -> int:
        if not isinstance(message, Reply):
            return count_message_tokens(message, _measure_text)
        found = self._sizes.get(id(message))
        if found is None or found[0] is not message:
            size = count_message_tokens(message, _measure_text)
            found = self._sizes[id(message)] = message, size
        return found[1]

    def _is_believable(self, run: RunState, size: int) -> bool:
        """Whether what the provider counted cannot be of a request that it has cut, by its bytes alone."""
        counted = _count_since_reply(run, _measure_nothing)
        if counted is None:
            return False
        since = (_count_since_reply(run, _measure_text) or 0) - counted
        return counted * _BYTES_OF_TOKEN > size - since

    async def compact(self, run: RunState, fixed: RequestOverhead, changed: Sequence[str]) -> RunState:
        """Return the run with less to show, and a mark of that; ``changed``: the files that differ.

        Raises:
            ModelError: the model could not be asked, for another reason than that it is too much for it.
        """
        base = self._count_tokens(fixed.to_text())
        after = await self._shrink(run, fixed, base, changed)
        sizes = [count_request_tokens(each, self._count_tokens, base) for each in (run, after)]
        return add_compaction_step(after, *sizes)

    async def _shrink(
        self, run: RunState, fixed: RequestOverhead, base: int, changed: Sequence[str]
    ) -> RunState:
        room = get_run_window(run)
        lighter = elide_tool_results(run, self._count_tokens, room, base)
        if count_request_tokens(lighter, self._count_tokens, base) <= room * COMPACTION_TARGET:
            return lighter
        if count_request_tokens(lighter, self._count_tokens, base) > room * COMPACTION_THRESHOLD:
            lighter = truncate_results(lighter)  # the latest results alone are too much
        upto = find_split_point(lighter, self._count_tokens, room)
        if upto <= (lighter.condensed.upto if lighter.condensed else 0):
            return lighter  # nothing lies between the task and the latest turns
        asked, words = await self._summarize(lighter, upto, fixed)
        told = (_format_summary(asked, text, changed, upto) for text in (words, ""))
        best, plain = (apply_summary(asked, upto, text) for text in told)
        if count_request_tokens(best, self._count_tokens, base) > room * COMPACTION_TARGET:
            best = min(
                best,
                plain,
                key=lambda each: count_request_tokens(each, self._count_tokens, base),
            )
        return (
            best
            if count_request_tokens(best, self._count_tokens, base) <= room * COMPACTION_THRESHOLD
            else truncate_results(best)
        )

    async def _summarize(self, run: RunState, upto: int, fixed: RequestOverhead) -> tuple[RunState, str]:
        question = UserMessage(text=load_prompt("condense").strip())
        began = time.monotonic()
        try:
            reply: Reply = await self._model.reply(
                fixed.instructions, (*get_visible_until(run, upto), question), fixed.tools
            )
        except ModelError as error:
            if error.code != CONTEXT_OVERFLOW:
                raise
            return run, ""
        return state_machine.record_side_request(
            run, reply.usage, time.monotonic() - began
        ), reply.text.strip()

    def _count_tokens(self, text: str) -> int:
        found = self._counts.get(hash(text))
        if found is None or found[0] != text:
            found = self._counts[hash(text)] = (text, count_tokens(text))
        return found[1]


def get_run_window(run: RunState) -> int:
    """Return how many tokens the run's model can take: as a person says, as turned out, or as is known."""
    task = run.task
    known = task.context_tokens or find_context_window(task.model, own_server=bool(task.base_url))
    return min(known, run.window) if run.window else known


def on_context_overflow(run: RunState, size: int) -> RunState:
    """Return the run once its model said that so much is too much for it."""
    return replace(run, window=max(1000, min(get_run_window(run), int(size * 0.9))))


def _format_summary(run: RunState, summary: str, changed: Sequence[str], upto: int) -> str:
    words = summary[:_MAX_SUMMARY_CHARS] or f"What was done, in order:\n{format_step_log(run)}"
    files = "\n".join(f"- `{path}`" for path in changed) or "none yet"
    phase = _build_phase_prompt(run, upto)
    return (
        load_prompt("condensed")
        .format(summary=words, plan=_format_plan(run), files=files, phase=phase)
        .strip()
    )


def _build_phase_prompt(run: RunState, upto: int) -> str:
    """Return what the model is to do in the present phase, where that is not said from ``upto`` on."""
    if run.phase == "resolve":
        prompt = state_machine.build_conflict_prompt(run)
    elif run.phase == "chat" or run.plan is None:  # what a run without a plan is to do is its first message
        prompt = ""
    else:
        prompt = load_prompt("reflect" if run.reflecting else "phase_act").strip()
    said = any(isinstance(each, UserMessage) and prompt in each.text for each in run.messages[upto:])
    return prompt if prompt and not said else "Go on from here."


def _format_plan(run: RunState) -> str:
    plan = run.plan
    if plan is None:
        return format_checklist(find_checklist(run.messages)) or "none yet"
    steps = [
        f"{number}. [{'x' if done else ' '}] {step}"
        for number, (step, done) in enumerate(plan.to_checklist(), 1)
    ]
    asked = (f"A person has asked for this, after the task:\n{run.rounds[-1].text}",) if run.rounds else ()
    return "\n".join((*asked, plan.goal, *steps))
