"""A model that follows a scenario, in this process.

A scenario says what the model answers at each turn, and what its requests should contain. docs/models.md
describes the file's format. A Scenario is a value; a ``ScenarioRun`` is one use of it.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from kakite.errors import UsageError
from kakite.models.errors import build_model_error, classify_status
from kakite.models.messages import InvalidToolCall, Message, Reply, ToolMessage, Usage, UserMessage
from kakite.tools.toolset import Tool, ToolCall

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from kakite.models.model import OnText


_SHOWN: Final = 600
"""How many characters of what was there instead an error shows."""


class ScenarioError(UsageError):
    """A scenario file is wrong, or its model was not told what it expects.

    Codes: ``script_invalid``, ``script_unmet`` (an expectation), ``script_over`` (no turn is left).
    """

    code = "script_invalid"


class _ScenarioModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class ResultExpectation(_ScenarioModel):
    """The expected result of one tool call."""

    tool: str | None = None
    contains: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    is_error: bool | None = None


class Expectation(_ScenarioModel):
    """The messages that the model should have got since its last turn."""

    system_contains: tuple[str, ...] = ()
    last_contains: tuple[str, ...] = ()
    """Each is part of what came since the last turn: messages and results together."""
    last_lacks: tuple[str, ...] = ()
    tool_result: ResultExpectation | None = None
    """There is exactly one result, and it is like this."""
    tool_results: tuple[ResultExpectation, ...] | None = None
    """There are these results, in this order, and no other."""
    tools_include: tuple[str, ...] = ()


class ScriptedCall(_ScenarioModel):
    """One call: with arguments, or with a text in their place that need not be JSON."""

    tool: str
    arguments: dict[str, Any] | None = None
    raw_arguments: str | None = None

    @model_validator(mode="after")
    def _check_one_of_both(self) -> ScriptedCall:
        if self.arguments is not None and self.raw_arguments is not None:
            raise ValueError("give `arguments` or `raw_arguments`, not both")
        return self

    @property
    def text(self) -> str:
        """The arguments as they go over the wire."""
        if self.raw_arguments is not None:
            return self.raw_arguments
        return json.dumps(self.arguments or {}, ensure_ascii=False)


class ScriptedUsage(_ScenarioModel):
    """Tokens that the turn claims to have used."""

    input: int = Field(default=0, ge=0)
    output: int = Field(default=0, ge=0)
    cache_read: int = Field(default=0, ge=0)
    """How many of ``input`` came from a cache."""

    @model_validator(mode="after")
    def _check_cached_tokens(self) -> ScriptedUsage:
        if self.cache_read > self.input:
            raise ValueError("`cache_read` is part of `input`, so it cannot be more")
        return self


class ScriptedFailure(_ScenarioModel):
    """An error of the provider in place of an answer."""

    status: int = Field(ge=400, le=599)
    type: str = "api_error"
    message: str = "scripted failure"
    code: str | None = None
    retry_after: float | None = Field(default=None, ge=0)
    """Seconds."""


class ScriptedTurn(_ScenarioModel):
    """One turn of the model."""

    expect: Expectation = Expectation()
    think: str = ""
    """What it thinks before it says something. Told only while it streams."""
    say: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    usage: ScriptedUsage = ScriptedUsage()
    error: ScriptedFailure | None = None
    truncate: bool = False
    """The reply ran into the limit: what stands last in it, a call or the text, is cut in half."""
    pause: float = Field(default=0.0, ge=0)
    """Seconds before the answer begins."""

    @model_validator(mode="after")
    def _check_content(self) -> ScriptedTurn:
        if self.error and (self.think or self.say or self.calls):
            raise ValueError("a turn with `error` has no `think`, no `say` and no `calls`")
        if not (self.error or self.say or self.calls):
            raise ValueError("a turn needs `say`, `calls` or `error`")
        return self


class Scenario(_ScenarioModel):
    """A whole scenario."""

    title: str
    turns: tuple[ScriptedTurn, ...] = Field(min_length=1)

    @classmethod
    def load(cls, path: Path) -> Scenario:
        """Read a scenario file.

        Raises:
            ScenarioError: it cannot be read, or is no scenario; the message names the file and the turn.
        """
        try:
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ScenarioError(f"cannot read the script `{path}`: {error}") from None
        return cls.parse(text, source=str(path))

    @classmethod
    def parse(cls, text: str, *, source: str = "script") -> Scenario:
        """Read a scenario from YAML or JSON; ``source`` names it in errors.

        Raises:
            ScenarioError: it is no scenario.
        """
        try:
            # Through JSON: a date, or a number as a key, would slip into arguments that no JSON can hold.
            document = json.dumps(_load_document(text), allow_nan=False)
        except (yaml.YAMLError, TypeError, ValueError) as error:
            raise ScenarioError(f"`{source}` is not the YAML of a script: {error}") from None
        try:
            return cls.model_validate_json(document)
        except ValidationError as error:
            raise ScenarioError(f"`{source}` is not a script: {_format_errors(error)}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedRequest:
    """The content of one request to a model."""

    system: str
    news: tuple[UserMessage | ToolMessage, ...]
    """What came since the model's last reply."""
    tools: tuple[str, ...]

    @classmethod
    def of(cls, instructions: str, messages: Iterable[Message], tools: Iterable[Tool]) -> ScriptedRequest:
        """Pick it out of a whole conversation."""
        news: list[UserMessage | ToolMessage] = []
        for message in messages:
            if isinstance(message, Reply):
                news.clear()
            else:
                news.append(message)
        return cls(system=instructions, news=tuple(news), tools=tuple(tool.name for tool in tools))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachedTurn:
    """A turn that was reached, with the number it has in its script, from 1."""

    number: int
    turn: ScriptedTurn

    def reply(self, model: str) -> Reply:
        """Give the turn as the reply that it is."""
        text, calls = self.render_content()
        return Reply(
            text=text,
            calls=tuple(self._to_tool_call(index, call) for index, call in enumerate(calls)),
            finish="length" if self.turn.truncate else "tool_calls" if calls else "stop",
            usage=Usage(
                requests=1,
                input_tokens=self.turn.usage.input,
                output_tokens=self.turn.usage.output,
                cache_read_tokens=self.turn.usage.cache_read,
            ),
            model=model,
        )

    def render_content(self) -> tuple[str, tuple[ScriptedCall, ...]]:
        """Return the text and the calls, cut off if the turn is truncated."""
        text, calls = self.turn.say, self.turn.calls
        if not self.turn.truncate:
            return text, calls
        if not calls:
            return text[: (len(text) + 1) // 2], ()
        whole = calls[-1].text
        return text, (*calls[:-1], ScriptedCall(tool=calls[-1].tool, raw_arguments=whole[: len(whole) // 2]))

    def build_call_id(self, index: int) -> str:
        """Name a call of this turn, the same every time."""
        return f"call_{self.number}_{index + 1}"

    def _to_tool_call(self, index: int, call: ScriptedCall) -> ToolCall | InvalidToolCall:
        cut = self.turn.truncate and index == len(self.turn.calls) - 1
        arguments = None if cut else _parse_json_object(call.text)
        if arguments is None:
            return InvalidToolCall(id=self.build_call_id(index), name=call.tool, raw=call.text)
        return ToolCall(id=self.build_call_id(index), name=call.tool, arguments=arguments)


class ScenarioRun:
    """One use of a scenario. Safe to share between threads and tasks: each turn is given once."""

    def __init__(self, script: Scenario) -> None:
        self.script = script
        self._lock = threading.Lock()
        self._position = 0
        self._violations: list[str] = []

    @property
    def violations(self) -> tuple[str, ...]:
        """The requests that the script did not expect, in order."""
        with self._lock:
            return tuple(self._violations)

    @property
    def turns_left(self) -> int:
        """The number of turns that nobody has asked for yet."""
        with self._lock:
            return len(self.script.turns) - self._position

    def next(self, told: ScriptedRequest) -> ReachedTurn:
        """Check what the model was told, and give the turn that answers it.

        Raises:
            ScenarioError: an expectation is not met, or no turn is left. The turn is then not used up.
        """
        with self._lock:
            try:
                cue = self._get_turn()
                _check(cue, told)
            except ScenarioError as error:
                self._violations.append(error.message)
                raise
            self._position += 1
            return cue

    def _get_turn(self) -> ReachedTurn:
        if self._position >= len(self.script.turns):
            raise ScenarioError(
                f"the script `{self.script.title}` is over after {self._position} turns, and was asked again",
                code="script_over",
            )
        return ReachedTurn(number=self._position + 1, turn=self.script.turns[self._position])


def _check(cue: ReachedTurn, told: ScriptedRequest) -> None:
    for expectation, there in _find_unmet(cue.turn.expect, told):
        raise ScenarioError(
            f"turn {cue.number} expects {expectation}, but there was: {_truncate(there)}", code="script_unmet"
        )


def _find_unmet(expect: Expectation, told: ScriptedRequest) -> Iterator[tuple[str, str]]:
    yield from _find_unmet_texts("system", told.system, expect.system_contains)
    said = "\n".join(message.text for message in told.news)
    yield from _find_unmet_texts("last", said, expect.last_contains, expect.last_lacks)
    for tool in expect.tools_include:
        if tool not in told.tools:
            yield f"tools_include `{tool}`", ", ".join(told.tools) or "no tools"
    wanted = (expect.tool_result,) if expect.tool_result else expect.tool_results
    if wanted is not None:
        yield from _find_unmet_results(
            wanted, [message for message in told.news if isinstance(message, ToolMessage)]
        )


def _find_unmet_results(
    wanted: tuple[ResultExpectation, ...], results: list[ToolMessage]
) -> Iterator[tuple[str, str]]:
    if len(wanted) != len(results):
        shown = "; ".join(f"{result.tool}: {result.text}" for result in results)
        yield f"{len(wanted)} tool results", f"{len(results)}. {shown}"
        return
    for number, (expected, result) in enumerate(zip(wanted, results, strict=True), start=1):
        what = f"tool result {number}"
        if expected.tool not in {None, result.tool}:
            yield f"{what} of `{expected.tool}`", result.tool
        if expected.is_error not in {None, result.is_error}:
            yield f"{what} with is_error: {str(expected.is_error).lower()}", result.text
        yield from _find_unmet_texts(what, result.text, expected.contains, expected.lacks)


def _find_unmet_texts(
    what: str, text: str, contains: tuple[str, ...], lacks: tuple[str, ...] = ()
) -> Iterator[tuple[str, str]]:
    for part in contains:
        if part not in text:
            yield f"{what} contains `{part}`", text
    for part in lacks:
        if part in text:
            yield f"{what} lacks `{part}`", text


def _truncate(text: str) -> str:
    return (text if len(text) <= _SHOWN else text[:_SHOWN] + "…") or "nothing"


def _parse_json_object(text: str) -> dict[str, Any] | None:
    try:
        value: object = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _load_document(text: str) -> object:
    if text.lstrip().startswith("{"):
        # YAML claims to hold all of JSON, but reads 1e9 as a text.
        with suppress(json.JSONDecodeError):
            return json.loads(text, object_pairs_hook=_reject_duplicate_keys)
    return yaml.load(text, _StrictLoader)  # noqa: S506 it is a SafeLoader


def _reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise ValueError("a key is given twice")
    return mapping


def _format_errors(error: ValidationError) -> str:
    return "; ".join(f"{_format_location(problem['loc'])}: {problem['msg']}" for problem in error.errors())


def _format_location(location: tuple[int | str, ...]) -> str:
    if len(location) >= 2 and location[0] == "turns":
        return " → ".join([f"turn {int(location[1]) + 1}", *(str(step) for step in location[2:])])
    return " → ".join(str(step) for step in location) or "the document"


class _StrictLoader(yaml.SafeLoader):
    """Refuses a mapping that names a key twice: YAML would silently keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002 its own signature
        mapping = super().construct_mapping(node, deep=deep)
        if len(mapping) != len(node.value) and not _has_merge_key(node):
            raise yaml.constructor.ConstructorError(None, None, "a key is given twice", node.start_mark)
        return mapping


def _has_merge_key(node: yaml.MappingNode) -> bool:
    return any(key.tag == "tag:yaml.org,2002:merge" for key, _ in node.value)


class ScriptedModel:
    """Implements ``kakite.models.model.Model``. Costs nothing and knows nothing."""

    def __init__(self, script: Scenario) -> None:
        self.playback = ScenarioRun(script)
        """Where it is in its script, and what went against it."""

    @property
    def name(self) -> str:
        """``scripted:TITLE``."""
        return f"scripted:{self.playback.script.title}"

    async def reply(
        self,
        instructions: str,
        messages: Sequence[Message],
        tools: Sequence[Tool],
        on_text: OnText | None = None,
        on_thought: OnText | None = None,
    ) -> Reply:
        """Answer with the next turn; with ``on_text``, word by word, what it thinks first.

        Raises:
            ScenarioError: it was not told what the script expects, or the script is over.
            ModelError: the turn is an error.
        """
        cue = self.playback.next(ScriptedRequest.of(instructions, messages, tools))
        await asyncio.sleep(cue.turn.pause)
        if cue.turn.error:
            raise _build_error(self.name, cue.turn.error)
        reply = cue.reply(self.name)
        for listener, text in ((on_thought, cue.turn.think), (on_text, reply.text)):
            for word in split_words(text) if listener and on_text else ():
                listener(word)
                await asyncio.sleep(0)
        return reply


def split_words(text: str) -> list[str]:
    """Split a text into the pieces in which it streams. Joined they are the text."""
    return re.findall(r"\s*\S+|\s+$", text)


def _build_error(name: str, error: ScriptedFailure) -> Exception:
    return build_model_error(
        classify_status(error.status),
        f"{name}: {error.status}: {error.message}",
        retry_after=error.retry_after,
    )
