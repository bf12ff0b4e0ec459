"""Models over a network, through ``pydantic_ai.direct``, and the conversion of messages to its types.

Imports pydantic-ai, so only ``open_model`` imports this module, when a provider is about to be used.
"""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import string
import sys
from contextlib import aclosing, contextmanager
from dataclasses import fields, replace
from itertools import count
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit
from urllib.request import getproxies

import httpx2
from pydantic_ai import exceptions
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.messages import (
    BinaryContent,
    InstructionPart,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition
from pydantic_core import from_json

from kakite.models import errors
from kakite.models.catalog import suggest_model
from kakite.models.clients import list_account_secrets
from kakite.models.cost import calculate_cost
from kakite.models.messages import (
    FAILED_PREFIX,
    Finish,
    InvalidToolCall,
    Message,
    Reply,
    ToolMessage,
    Usage,
    UserMessage,
)
from kakite.models.model import ModelError
from kakite.models.options import TEMPERATURE_HINT
from kakite.terminal_text import replace_surrogates, replace_surrogates_in_json
from kakite.tools.toolset import JsonObject, Tool, ToolCall

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Container, Generator, Iterable, Iterator, Sequence
    from contextlib import AbstractAsyncContextManager

    from pydantic_ai.models import Model as ProviderModel
    from pydantic_ai.settings import ModelSettings

    from kakite.models.errors import ModelErrorKind
    from kakite.models.model import OnText
    from kakite.tools.toolset import Image


_BETWEEN_TEXTS: Final = "\n\n"
"""Stands between two texts of one reply that had a call or a thought between them."""

_NAME_CHARACTERS: Final = frozenset(string.ascii_letters + string.digits + "_-")

_FINISHES: Final[dict[str | None, Finish]] = {
    "stop": "stop",
    "tool_call": "tool_calls",
    "length": "length",
    "content_filter": "refused",
}


def to_request_messages(
    messages: Iterable[Message],
    *,
    system: str,
    flags_failures: bool,
    to_response: Callable[[Reply, str], ModelResponse] | None = None,
) -> list[ModelMessage]:
    """Put a conversation into pydantic-ai's words.

    ``system`` is the provider that it goes to: only its own replies go back in its own form.
    ``flags_failures`` says that the provider's format marks a failed result by itself; else FAILED_PREFIX
    does. ``to_response`` remembers what replies were converted to.
    The same messages always give the same request.
    """
    convert = to_response or _to_response
    converted: list[ModelMessage] = []
    parts: list[ModelRequestPart] = []
    for message in messages:
        if isinstance(message, Reply):
            if parts:
                converted.append(ModelRequest(parts=parts))
                parts = []
            converted.append(convert(message, system))
        else:
            parts.append(_to_request_part(message, flags_failures=flags_failures))
    if parts:
        converted.append(ModelRequest(parts=parts))
    return converted


def to_request_parameters(instructions: str, tools: Sequence[Tool]) -> ModelRequestParameters:
    """Put the instructions and the tools into pydantic-ai's words."""
    return ModelRequestParameters(
        function_tools=[_to_tool_definition(tool) for tool in tools],
        instruction_parts=[InstructionPart(content=replace_surrogates(instructions))] if instructions else [],
    )


def to_reply(response: ModelResponse) -> Reply:
    """Read a provider's response. What no tool can be called with becomes a InvalidToolCall."""
    response = replace(response, parts=_make_ids_unique(map(_replace_surrogates_in_part, response.parts)))
    finish = _read_finish(response)
    return Reply(
        text=_join_text(response.parts),
        calls=tuple(_read_calls(response.parts, cut=finish == "length")),
        finish=finish,
        usage=_read_usage(response),
        model=response.model_name or "",
        raw=ModelMessagesTypeAdapter.dump_json([response]).decode(),
    )


def _drop_pictures(message: Message) -> Message:
    return replace(message, images=()) if isinstance(message, ToolMessage) and message.images else message


class RequestMemory:
    """Remembers what was converted for the last request: the next one has it again, and one reply more."""

    def __init__(self) -> None:
        self._responses: dict[int, tuple[Reply, ModelResponse]] = {}
        self._parameters: tuple[tuple[str, tuple[Tool, ...]], ModelRequestParameters] | None = None

    def to_messages(
        self, messages: Iterable[Message], *, system: str, flags_failures: bool
    ) -> list[ModelMessage]:
        """See ``to_request_messages``."""
        known, self._responses = self._responses, {}

        def to_response(reply: Reply, system: str) -> ModelResponse:
            before = known.get(id(reply))
            found = before[1] if before and before[0] is reply else _to_response(reply, system)
            self._responses[id(reply)] = reply, found
            return found

        return to_request_messages(
            messages, system=system, flags_failures=flags_failures, to_response=to_response
        )

    def to_parameters(self, instructions: str, tools: Sequence[Tool]) -> ModelRequestParameters:
        """See ``to_request_parameters``; the same ones are the same object."""
        asked = instructions, tuple(tools)
        if self._parameters is None or self._parameters[0] != asked:
            self._parameters = asked, to_request_parameters(instructions, tools)
        return self._parameters[1]


def remember_tools(model: ProviderModel) -> ProviderModel:
    """Let a model transform the schemas of the same tools once, not for each request."""
    customize = model.customize_request_parameters
    last: list[tuple[ModelRequestParameters, ModelRequestParameters]] = []

    def customize_once(model_request_parameters: ModelRequestParameters) -> ModelRequestParameters:
        if not last or last[0][0] is not model_request_parameters:
            last[:] = [(model_request_parameters, customize(model_request_parameters))]
        return last[0][1]

    model.customize_request_parameters = customize_once
    return model


class TextDeltaReader:
    """Tells the pieces of a streaming reply's text, so that together they are exactly ``Reply.text``."""

    def __init__(self) -> None:
        self._text_parts: set[int] = set()
        self._started = False
        self._last = -1

    def read_delta(self, event: object) -> str:
        """Return the text that the event adds, often none."""
        if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
            self._text_parts.add(event.index)
            return self._join_delta(event.index, replace_surrogates(event.part.content))
        if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
            return self._join_delta(event.index, replace_surrogates(event.delta.content_delta))
        return ""

    def _join_delta(self, index: int, text: str) -> str:
        if not text:
            return ""
        between = self._text_parts.issuperset(range(self._last, index))
        separator = "" if between or not self._started else _BETWEEN_TEXTS
        self._started, self._last = True, index
        return separator + text


class ThoughtDeltaReader:
    """Tells the pieces of what a streaming model thinks."""

    def __init__(self) -> None:
        self._last = -1

    def read_delta(self, event: object) -> str:
        """Return the thought that the event adds, often none."""
        match event:
            case PartStartEvent(index=index, part=ThinkingPart(content=text)):
                thought = text
            case PartDeltaEvent(index=index, delta=ThinkingPartDelta(content_delta=str(text))):
                thought = text
            case _:
                return ""
        if not thought:
            return ""
        between = "" if self._last in {-1, index} else _BETWEEN_TEXTS
        self._last = index
        return between + replace_surrogates(thought)


def _to_request_part(message: UserMessage | ToolMessage, *, flags_failures: bool) -> ModelRequestPart:
    if isinstance(message, UserMessage):
        return UserPromptPart(content=_to_user_content(message))
    marked = message.is_error and not flags_failures
    text = (FAILED_PREFIX if marked else "") + replace_surrogates(message.text)
    return ToolReturnPart(
        tool_name=_sanitize_tool_name(message.tool),
        content=[text, *_to_pictures(message.images)] if message.images else text,
        tool_call_id=message.call_id,
        # Where the format has no flag, pydantic-ai would wrap the text as JSON, {"error": "line 1\n"}, and a
        # model reads code worse when it is escaped.
        outcome="failed" if message.is_error and flags_failures else "success",
    )


def _to_user_content(message: UserMessage) -> str | list[UserContent]:
    text = replace_surrogates(message.text)
    if not message.images:
        return text
    return [*([text] if text.strip() else []), *_to_pictures(message.images)]


def _to_pictures(images: Iterable[Image]) -> list[BinaryContent]:
    return [BinaryContent(base64.b64decode(each.data), media_type=each.mime) for each in images]


def _to_tool_definition(tool: Tool) -> ToolDefinition:
    return ToolDefinition(
        name=tool.name,
        description=replace_surrogates(tool.description),
        parameters_json_schema=tool.parameters,
        # Strict modes rewrite the schema, and differ by provider: every call is checked by the tool instead.
        strict=False,
    )


def _to_response(reply: Reply, system: str) -> ModelResponse:
    stored = _load_raw(reply.raw)
    if stored is None or stored.provider_name != system:
        return ModelResponse(parts=list(_rebuild_parts(reply)), provider_name=system)
    return replace(stored, parts=[_sanitize_part(part) for part in stored.parts if not _is_blank(part)])


def _load_raw(raw: str) -> ModelResponse | None:
    if not raw:
        return None
    try:
        (stored,) = ModelMessagesTypeAdapter.validate_json(raw)
    except ValueError:
        # Written by another version of the library: the text and the calls are still ours to send.
        return None
    return stored if isinstance(stored, ModelResponse) else None


def _rebuild_parts(reply: Reply) -> Iterator[ModelResponsePart]:
    if reply.text.strip():
        yield TextPart(content=replace_surrogates(reply.text))
    for call in reply.calls:
        arguments = call.raw if isinstance(call, InvalidToolCall) else call.arguments
        yield _sanitize_part(ToolCallPart(tool_name=call.name, args=arguments, tool_call_id=call.id))


def _is_blank(part: ModelResponsePart) -> bool:
    # Anthropic refuses a text block that is nothing but blanks, also one that it wrote itself.
    return isinstance(part, TextPart) and not part.content.strip() and not part.provider_details


def _sanitize_part(part: ModelResponsePart) -> ModelResponsePart:
    if isinstance(part, ToolCallPart):
        return replace(part, tool_name=_sanitize_tool_name(part.tool_name))
    return part


def _sanitize_tool_name(name: str) -> str:
    """Make a tool's name sendable: a name that a model made up may be none that a format allows."""
    return "".join(c if c in _NAME_CHARACTERS else "_" for c in name)[:64] or "unnamed"


def _replace_surrogates_in_part(part: ModelResponsePart) -> ModelResponsePart:
    """Make every text of a part one that can be stored, shown and sent."""
    told = {field.name: getattr(part, field.name) for field in fields(part)}
    changed = {
        name: better for name, value in told.items() if (better := replace_surrogates_in_json(value)) != value
    }
    return replace(part, **changed) if changed else part


def _make_ids_unique(parts: Iterable[ModelResponsePart]) -> list[ModelResponsePart]:
    """Give calls that share an id, or have none, one of their own: no provider takes two results for one."""
    used: set[str] = set()
    distinct: list[ModelResponsePart] = []
    for part in parts:
        if isinstance(part, ToolCallPart):
            part = replace(part, tool_call_id=_find_unused_id(part.tool_call_id, used))  # noqa: PLW2901 - the same call
            used.add(part.tool_call_id)
        distinct.append(part)
    return distinct


def _find_unused_id(name: str, used: Container[str]) -> str:
    if name and name not in used:
        return name
    return next(other for number in count(2) if (other := f"{name or 'call'}-{number}") not in used)


def _join_text(parts: Iterable[ModelResponsePart]) -> str:
    follower = TextDeltaReader()
    return "".join(
        follower.read_delta(PartStartEvent(index=index, part=part)) for index, part in enumerate(parts)
    )


def _read_calls(parts: Sequence[ModelResponsePart], *, cut: bool) -> Iterator[ToolCall | InvalidToolCall]:
    for part in parts:
        if isinstance(part, ToolCallPart):
            # What stood last when the model ran into its limit may be half of what it meant.
            yield _read_invalid_call(part) if cut and part is parts[-1] else _read_call(part)


def _read_call(part: ToolCallPart[Any]) -> ToolCall | InvalidToolCall:
    arguments = _parse_arguments(part.args)
    if arguments is None or _unwrap_invalid_json(arguments) is not None:
        return _read_invalid_call(part)
    return ToolCall(id=part.tool_call_id, name=part.tool_name, arguments=arguments)


def _read_invalid_call(part: ToolCallPart[Any]) -> InvalidToolCall:
    raw = part.args if isinstance(part.args, str) else json.dumps(part.args or {}, ensure_ascii=False)
    wrapped = _unwrap_invalid_json(_parse_arguments(part.args))
    return InvalidToolCall(id=part.tool_call_id, name=part.tool_name, raw=raw if wrapped is None else wrapped)


def _unwrap_invalid_json(arguments: JsonObject | None) -> str | None:
    """Take broken arguments out of what Anthropic, and pydantic-ai after it, wrap them in."""
    inner = arguments.get("INVALID_JSON") if arguments and len(arguments) == 1 else None
    return inner if isinstance(inner, str) else None


def _parse_arguments(args: str | dict[str, Any] | None) -> JsonObject | None:
    if not args:
        return {}
    if isinstance(args, dict):
        return args
    try:
        # The parser that pydantic-ai sends the arguments back with, so that both agree on what is broken.
        value: object = from_json(args, allow_inf_nan=False)
    except ValueError:
        return None
    return cast("JsonObject", value) if isinstance(value, dict) else None


def _read_finish(response: ModelResponse) -> Finish:
    named = _FINISHES.get(response.finish_reason)
    if named in {"length", "refused"}:
        return named
    return "tool_calls" if response.tool_calls else "stop"


def _read_usage(response: ModelResponse) -> Usage:
    usage = response.usage
    return Usage(
        requests=1,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cost_usd=calculate_cost(response),
    )


_RETRY_DELAY: Final = 0.5  # s before nobody listens a second time
_PROBE_TIMEOUT: Final = 3.0  # s that a look takes at most


class RemoteModel:
    """A provider's model. Each request opens its own connection and closes it, also when it is cancelled.

    While ``connect`` they share one: setting up encryption takes as long as ten turns of ours.
    """

    def __init__(
        self,
        name: str,
        model: ProviderModel,
        settings: ModelSettings,
        *,
        secrets: frozenset[str] = frozenset(),
        flags_failures: bool = False,
        address: str = "",
        patient: bool = False,
    ) -> None:
        """Args as ``open_model`` prepares them.

        ``secrets`` never appear in an error; ``flags_failures`` as in ``to_request_messages``;
        ``address`` is where it listens, empty: its library knows; ``patient``: its library tries again for a
        while.
        """
        self._name = name
        self._model = remember_tools(model)
        self._memory = RequestMemory()
        self._settings = settings
        self._secrets = secrets
        self._flags_failures = flags_failures
        self._address = address
        self._looked = not patient
        self._sees = True
        """Whether it takes pictures in results, as far as is known."""

    @property
    def name(self) -> str:
        """``PROVIDER:NAME``, as the person wrote it."""
        return self._name

    def __repr__(self) -> str:
        return f"RemoteModel({self._name!r})"

    def connect(self) -> AbstractAsyncContextManager[object]:
        """See ``SupportsConnect.connect``."""
        return self._model

    async def reply(
        self,
        instructions: str,
        messages: Sequence[Message],
        tools: Sequence[Tool],
        on_text: OnText | None = None,
        on_thought: OnText | None = None,
    ) -> Reply:
        """Answer the conversation; with ``on_text`` the request is streamed.

        Raises:
            ModelError: the provider could not be reached, or refused, or answered nonsense.
        """
        parameters = self._memory.to_parameters(instructions, tools)
        await self._probe_server()
        has_pictures = self._sees and any(isinstance(each, ToolMessage) and each.images for each in messages)
        try:
            response = await self._ask(messages, parameters, on_text, on_thought)
        except ModelError as error:
            if error.code != errors.REJECTED.code or not has_pictures:
                raise
            # A model without eyes refuses the pictures of results: it gets their text alone from now on.
            self._sees = False
            response = await self._ask(messages, parameters, on_text, on_thought)
        with self._translate_errors():
            _check_complete(response)
            return to_reply(response)

    async def _ask(
        self,
        messages: Sequence[Message],
        parameters: ModelRequestParameters,
        on_text: OnText | None,
        on_thought: OnText | None,
    ) -> ModelResponse:
        shown = messages if self._sees else [_drop_pictures(message) for message in messages]
        history = self._memory.to_messages(
            shown, system=self._model.system, flags_failures=self._flags_failures
        )
        if on_text is None:
            return await self._request(history, parameters)
        return await self._stream(history, parameters, on_text, on_thought)

    async def _probe_server(self) -> None:
        """Fail soon where nobody listens at first: the library would try again for half a minute."""
        if self._looked:
            return
        self._looked = True
        if self._address and not getproxies() and await _is_connection_refused(self._address):
            await asyncio.sleep(_RETRY_DELAY)
            if await _is_connection_refused(self._address):
                self._looked = False
                with self._translate_errors():
                    raise ConnectionRefusedError("nobody listens there")

    async def _request(
        self, history: list[ModelMessage], parameters: ModelRequestParameters
    ) -> ModelResponse:
        with self._translate_errors():
            async with self._model:
                return await model_request(
                    self._model, history, model_settings=self._settings, model_request_parameters=parameters
                )

    async def _stream(
        self,
        history: list[ModelMessage],
        parameters: ModelRequestParameters,
        on_text: OnText,
        on_thought: OnText | None,
    ) -> ModelResponse:
        follower, thoughts = TextDeltaReader(), ThoughtDeltaReader()
        # What these two raise is the caller's own, so nothing here turns it into a ModelError.
        async with aclosing(self._stream_events(history, parameters)) as events:
            async for event in events:
                if isinstance(event, ModelResponse):
                    return event
                if piece := follower.read_delta(event):
                    on_text(piece)
                if on_thought and (thought := thoughts.read_delta(event)):
                    on_thought(thought)
        raise errors.build_model_error(
            errors.BAD_REPLY, f"{self._name}: the stream ended before it sent anything"
        )

    async def _stream_events(
        self, history: list[ModelMessage], parameters: ModelRequestParameters
    ) -> AsyncGenerator[object]:
        """Yield the events of a streamed reply, and at last the whole response."""
        with self._translate_errors():
            async with (
                self._model,
                model_request_stream(
                    self._model, history, model_settings=self._settings, model_request_parameters=parameters
                ) as stream,
            ):
                async for event in stream:
                    yield event
                response = stream.get()
            yield response

    @contextmanager
    def _translate_errors(self) -> Generator[None]:
        """Turn whatever a request raises into a ModelError; cancellation passes through.

        The original is not chained: its text or its request may hold the key.
        """
        try:
            yield
        except _list_library_errors() as error:
            unreachable = classify_error(error) == errors.UNREACHABLE and self._address
            name = f"{self._name} at {self._address}" if unreachable else self._name
            told = to_model_error(error, name, (*self._secrets, *list_account_secrets(self._model)))
            told.hint = self._choose_hint(told, _extract_message(error))
            raise told from None

    def _choose_hint(self, told: ModelError, said: str) -> str:
        """Return a hint that knows more of this model than the error's kind does.

        ``said`` is what the provider said, secrets and all: what is hidden of it gives a hint too.
        """
        hint = told.hint
        if told.code == errors.REJECTED.code and "temperature" in said.lower():
            return TEMPERATURE_HINT
        if told.code == errors.AUTH.code and self._name.startswith("vertex:"):
            return (
                "run `gcloud auth application-default login`, or let GOOGLE_APPLICATION_CREDENTIALS name a "
                "file of credentials; they must be allowed to use this model"
            )
        if told.code != errors.UNKNOWN.code:
            return hint
        if meant := suggest_model(self._name):
            hint = f"did you mean `{meant}`? `kakite models` lists those that you can use"
        if _is_bare(self._address):
            hint += f"; most servers have their API below /v1: {self._address.rstrip('/')}/v1"
        return hint


def _is_bare(address: str) -> bool:
    """Return whether an address names a server only, and no place on it."""
    return bool(address) and not urlsplit(address).path.strip("/")


async def _is_connection_refused(address: str) -> bool:
    """Return whether the machine refuses connections. A request will show anything else that is wrong."""
    parts = urlsplit(address)
    try:
        place = (parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
        opened = await asyncio.to_thread(socket.create_connection, place, _PROBE_TIMEOUT, all_errors=True)
        opened.close()
    except ExceptionGroup as group:  # one for each address of the name
        return all(isinstance(error, ConnectionRefusedError) for error in group.exceptions)
    except (OSError, ValueError):
        return False
    return False


def to_model_error(error: BaseException, model: str, secrets: Iterable[str] = ()) -> ModelError:
    """Make a ModelError of an exception that a request raised."""
    retry_after = error.retry_after if isinstance(error, exceptions.ModelAPIError) else None
    return errors.build_model_error(
        classify_error(error), f"{model}: {_extract_message(error)}", secrets=secrets, retry_after=retry_after
    )


def classify_error(error: BaseException) -> ModelErrorKind:
    """Say which way of failing an exception is: by its type, else by its HTTP status, then by its words."""
    kind = _classify_by_type_or_status(error)
    body: object = getattr(error, "body", None)
    named = _get_field(_get_field(body, "error"), "type") or _get_field(body, "type")
    return (
        errors.CONTEXT_OVERFLOW
        if errors.is_context_overflow(kind, f"{named} {_extract_message(error)}")
        else kind
    )


def _classify_by_type_or_status(error: BaseException) -> ModelErrorKind:
    if by_type := classify_error_type(type(error)):
        return by_type
    status = getattr(error, "status_code", None) or getattr(error, "code", None)
    return errors.classify_status(status) if isinstance(status, int) else errors.FAILED


def classify_error_type(error: type[BaseException]) -> ModelErrorKind | None:
    """Say which way of failing a type of exception is, if the type alone says it."""
    if kind := next((kind for classes, kind in _KINDS if issubclass(error, classes)), None):
        return kind
    if issubclass(error, _find_loaded("google.auth.exceptions", "TransportError")):
        return errors.UNREACHABLE
    if issubclass(error, _list_credential_errors()):
        return errors.AUTH
    # What the library could not name: an answer that is no JSON, a stream that stops, an odd error in it.
    unnamed = issubclass(error, exceptions.ModelAPIError) and not issubclass(error, exceptions.ModelHTTPError)
    return errors.BAD_REPLY if unnamed else None


_KINDS: Final[tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], ModelErrorKind], ...]] = (
    # pydantic-ai's own, the narrower before the wider.
    (exceptions.ModelAuthenticationError, errors.AUTH),
    (exceptions.ModelNotFoundError, errors.UNKNOWN),
    (exceptions.ModelContextWindowExceededError, errors.CONTEXT_OVERFLOW),
    (exceptions.ModelRequestRejectedError, errors.REJECTED),
    (exceptions.ModelRateLimitError, errors.RATE_LIMIT),
    (exceptions.ModelQuotaExceededError, errors.QUOTA),
    ((exceptions.ModelUnavailableError, exceptions.ModelServerError), errors.UNAVAILABLE),
    (
        (
            exceptions.ModelTimeoutError,
            exceptions.ModelRequestTimeout,
        ),
        errors.TIMEOUT,
    ),
    (exceptions.ModelConnectionError, errors.UNREACHABLE),
    ((exceptions.ContentFilterError, exceptions.UserError), errors.REJECTED),
    ((exceptions.UnexpectedModelBehavior, exceptions.SuspendedResponseExpired), errors.BAD_REPLY),
    # What the libraries below it let through.
    (httpx2.TimeoutException, errors.TIMEOUT),
    ((httpx2.TransportError, httpx2.StreamError), errors.UNREACHABLE),
    (httpx2.InvalidURL, errors.UNKNOWN),
    (TimeoutError, errors.TIMEOUT),
    (OSError, errors.UNREACHABLE),
    # A server that leaves out half of its own format trips the code that reads it.
    ((ValueError, LookupError, TypeError, AttributeError, AssertionError), errors.BAD_REPLY),
)


_GIVES_FINISH_REASON: Final = frozenset({"anthropic", "bedrock", "google", "google-cloud"})
"""Providers whose every reply says why it ended. pydantic-ai itself checks it for OpenAI's format."""


def _list_library_errors() -> tuple[type[BaseException], ...]:
    """Return the errors that a request may raise. A library that was never loaded raises nothing."""
    return (
        RuntimeError,  # AgentRunError and UserError, the roots of pydantic-ai's errors, among them
        exceptions.FallbackExceptionGroup,
        httpx2.HTTPError,
        httpx2.InvalidURL,
        OSError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        AssertionError,
        *_find_loaded("openai", "OpenAIError"),
        *_find_loaded("anthropic", "AnthropicError"),
        *_find_loaded("google.genai.errors", "APIError", "ContinuationInterruptedError"),
        *_find_loaded("groq", "GroqError"),
        *_find_loaded("botocore.exceptions", "BotoCoreError", "ClientError"),
        *_find_loaded("google.auth.exceptions", "GoogleAuthError"),
        *_find_loaded("httpx", "HTTPError", "StreamError", "InvalidURL"),
    )


def _list_credential_errors() -> tuple[type[BaseException], ...]:
    """Return what libraries raise that find no credentials, or cannot renew them."""
    return (
        *_find_loaded("google.auth.exceptions", "GoogleAuthError"),
        *_find_loaded("botocore.exceptions", "NoCredentialsError", "TokenRetrievalError", "SSOError"),
    )


def _find_loaded(module: str, *names: str) -> tuple[type[BaseException], ...]:
    found = sys.modules.get(module)
    return tuple(getattr(found, name) for name in names) if found else ()


def _extract_message(error: BaseException) -> str:
    """Prefer the provider's own sentence to the library's rendering of the whole body."""
    body: object = getattr(error, "body", None)
    text = _get_field(_get_field(body, "error"), "message") or _get_field(body, "message")
    if not isinstance(text, str) or not text:
        return str(error) or type(error).__name__
    return f"{error.status_code}: {text}" if isinstance(error, exceptions.ModelHTTPError) else text


def _get_field(body: object, name: str) -> object:
    return cast("dict[object, object]", body).get(name) if isinstance(body, dict) else None


def _check_complete(response: ModelResponse) -> None:
    """A reply that was cut off on its way, or that the provider itself calls malformed, is none."""
    cut_off = response.finish_reason is None and response.provider_name in _GIVES_FINISH_REASON
    if cut_off or response.finish_reason == "error" or response.state != "complete":
        raise exceptions.UnexpectedModelBehavior(
            f"the reply is incomplete: the provider says {response.finish_reason or response.state!r}"
        )
