"""Models that answer over a network, through ``pydantic_ai.direct``.

Imports pydantic-ai: only ``open_model`` imports this module, when a provider is about to be used.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import urlsplit
from urllib.request import getproxies

import httpx2
from pydantic_ai import exceptions
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.messages import ModelMessage, ModelResponse

from kakite.models import convert, failures

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator, Iterable, Sequence
    from contextlib import AbstractAsyncContextManager

    from pydantic_ai.models import Model as ProviderModel
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.settings import ModelSettings

    from kakite.models.failures import Kind
    from kakite.models.messages import Message, Reply
    from kakite.models.model import ModelError, OnText
    from kakite.tools.toolset import Tool

_AGAIN: Final = 0.5  # s before nobody listens a second time
_LOOK: Final = 3.0  # s that a look takes at most


class RemoteModel:
    """A provider's model. Each request opens its own connection and closes it, also when it is cancelled.

    While ``connected`` they share one: setting up encryption takes as long as ten turns of ours.
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

        ``secrets`` never appear in an error; ``flags_failures`` as in ``convert.request_messages``;
        ``address`` is where it listens, empty: its library knows; ``patient``: its library tries again for a
        while.
        """
        self._name = name
        self._model = model
        self._settings = settings
        self._secrets = secrets
        self._flags_failures = flags_failures
        self._address = address
        self._looked = not patient

    @property
    def name(self) -> str:
        """``PROVIDER:NAME``, as the person wrote it."""
        return self._name

    def __repr__(self) -> str:
        return f"RemoteModel({self._name!r})"

    def connected(self) -> AbstractAsyncContextManager[object]:
        """See ``Connecting.connected``."""
        return self._model

    async def reply(
        self,
        instructions: str,
        messages: Sequence[Message],
        tools: Sequence[Tool],
        on_text: OnText | None = None,
    ) -> Reply:
        """Answer the conversation; with ``on_text`` the request is streamed.

        Raises:
            ModelError: the provider could not be reached, or refused, or answered nonsense.
        """
        history = convert.request_messages(
            messages, system=self._model.system, flags_failures=self._flags_failures
        )
        parameters = convert.request_parameters(instructions, tools)
        await self._look_whether_anybody_listens()
        if on_text is None:
            response = await self._answer(history, parameters)
        else:
            response = await self._stream(history, parameters, on_text)
        with self._as_model_errors():
            _refuse_nonsense(response)
            return convert.reply_of(response)

    async def _look_whether_anybody_listens(self) -> None:
        """Fail soon where nobody listens at first: the library would try again for half a minute."""
        if self._looked:
            return
        self._looked = True
        if self._address and not getproxies() and await _is_refused(self._address):
            await asyncio.sleep(_AGAIN)
            if await _is_refused(self._address):
                self._looked = False
                with self._as_model_errors():
                    raise ConnectionRefusedError("nobody listens there")

    async def _answer(self, history: list[ModelMessage], parameters: ModelRequestParameters) -> ModelResponse:
        with self._as_model_errors():
            async with self._model:
                return await model_request(
                    self._model, history, model_settings=self._settings, model_request_parameters=parameters
                )

    async def _stream(
        self, history: list[ModelMessage], parameters: ModelRequestParameters, on_text: OnText
    ) -> ModelResponse:
        follower = convert.TextFollower()
        # What on_text raises is the caller's own, so nothing here turns it into a ModelError.
        async with aclosing(self._events(history, parameters)) as events:
            async for event in events:
                if isinstance(event, ModelResponse):
                    return event
                if piece := follower.piece(event):
                    on_text(piece)
        raise failures.model_error(failures.BAD_REPLY, f"{self._name}: the stream ended before it began")

    async def _events(
        self, history: list[ModelMessage], parameters: ModelRequestParameters
    ) -> AsyncGenerator[object]:
        """Yield the events of a streamed reply, and at last the whole response."""
        with self._as_model_errors():
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
    def _as_model_errors(self) -> Generator[None]:
        """Turn whatever a request raises into a ModelError; cancellation passes through.

        The original is not chained: its text or its request may hold the key.
        """
        try:
            yield
        except _foreign_errors() as error:
            unreachable = kind_of(error) == failures.UNREACHABLE and self._address
            name = f"{self._name} at {self._address}" if unreachable else self._name
            raise translated(error, name, self._secrets) from None


async def _is_refused(address: str) -> bool:
    """Tell whether a machine says that nobody listens there. What else may be wrong, a request will tell."""
    parts = urlsplit(address)
    try:
        place = (parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
        opened = await asyncio.to_thread(socket.create_connection, place, _LOOK, all_errors=True)
        opened.close()
    except ExceptionGroup as group:  # one for each address of the name
        return all(isinstance(error, ConnectionRefusedError) for error in group.exceptions)
    except (OSError, ValueError):
        return False
    return False


def translated(error: BaseException, model: str, secrets: Iterable[str] = ()) -> ModelError:
    """Make a ModelError of an exception that a request raised."""
    retry_after = error.retry_after if isinstance(error, exceptions.ModelAPIError) else None
    return failures.model_error(
        kind_of(error), f"{model}: {_message(error)}", secrets=secrets, retry_after=retry_after
    )


def kind_of(error: BaseException) -> Kind:
    """Say which way of failing an exception is: by its type, else by its HTTP status, then by its words."""
    kind = _kind_of_form(error)
    body: object = getattr(error, "body", None)
    named = _field(_field(body, "error"), "type") or _field(body, "type")
    return failures.CONTEXT_OVERFLOW if failures.says_too_long(kind, f"{named} {_message(error)}") else kind


def _kind_of_form(error: BaseException) -> Kind:
    if by_type := kind_of_type(type(error)):
        return by_type
    status = getattr(error, "status_code", None) or getattr(error, "code", None)
    return failures.kind_of_status(status) if isinstance(status, int) else failures.FAILED


def kind_of_type(error: type[BaseException]) -> Kind | None:
    """Say which way of failing a type of exception is, if the type alone says it."""
    if kind := next((kind for classes, kind in _KINDS if issubclass(error, classes)), None):
        return kind
    # What the library could not name: an answer that is no JSON, a stream that stops, an odd error in it.
    unnamed = issubclass(error, exceptions.ModelAPIError) and not issubclass(error, exceptions.ModelHTTPError)
    return failures.BAD_REPLY if unnamed else None


_KINDS: Final[tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], Kind], ...]] = (
    # pydantic-ai's own, the narrower before the wider.
    (exceptions.ModelAuthenticationError, failures.AUTH),
    (exceptions.ModelNotFoundError, failures.UNKNOWN),
    (exceptions.ModelContextWindowExceededError, failures.CONTEXT_OVERFLOW),
    (exceptions.ModelRequestRejectedError, failures.REJECTED),
    (exceptions.ModelRateLimitError, failures.RATE_LIMIT),
    (exceptions.ModelQuotaExceededError, failures.QUOTA),
    ((exceptions.ModelUnavailableError, exceptions.ModelServerError), failures.UNAVAILABLE),
    (
        (
            exceptions.ModelTimeoutError,
            exceptions.ModelRequestTimeout,
        ),
        failures.TIMEOUT,
    ),
    (exceptions.ModelConnectionError, failures.UNREACHABLE),
    ((exceptions.ContentFilterError, exceptions.UserError), failures.REJECTED),
    ((exceptions.UnexpectedModelBehavior, exceptions.SuspendedResponseExpired), failures.BAD_REPLY),
    # What the libraries below it let through.
    (httpx2.TimeoutException, failures.TIMEOUT),
    ((httpx2.TransportError, httpx2.StreamError), failures.UNREACHABLE),
    (httpx2.InvalidURL, failures.UNKNOWN),
    (TimeoutError, failures.TIMEOUT),
    (OSError, failures.UNREACHABLE),
    # A server that leaves out half of its own format trips the code that reads it.
    ((ValueError, LookupError, TypeError, AttributeError, AssertionError), failures.BAD_REPLY),
)


_NAME_THEIR_END: Final = frozenset({"anthropic", "google"})
"""Providers whose every reply says why it ended. pydantic-ai itself checks it for OpenAI's format."""


def _foreign_errors() -> tuple[type[BaseException], ...]:
    """What a request may raise. A provider's library that was never loaded raises nothing."""
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
        *_loaded("openai", "OpenAIError"),
        *_loaded("anthropic", "AnthropicError"),
        *_loaded("google.genai.errors", "APIError", "ContinuationInterruptedError"),
        *_loaded("httpx", "HTTPError", "StreamError", "InvalidURL"),
    )


def _loaded(module: str, *names: str) -> tuple[type[BaseException], ...]:
    found = sys.modules.get(module)
    return tuple(getattr(found, name) for name in names) if found else ()


def _message(error: BaseException) -> str:
    """Prefer the provider's own sentence to the library's rendering of the whole body."""
    body: object = getattr(error, "body", None)
    text = _field(_field(body, "error"), "message") or _field(body, "message")
    if not isinstance(text, str) or not text:
        return str(error) or type(error).__name__
    return f"{error.status_code}: {text}" if isinstance(error, exceptions.ModelHTTPError) else text


def _field(body: object, name: str) -> object:
    return cast("dict[object, object]", body).get(name) if isinstance(body, dict) else None


def _refuse_nonsense(response: ModelResponse) -> None:
    """A reply that was cut off on its way, or that the provider itself calls malformed, is none."""
    cut_off = response.finish_reason is None and response.provider_name in _NAME_THEIR_END
    if cut_off or response.finish_reason == "error" or response.state != "complete":
        raise exceptions.UnexpectedModelBehavior(
            f"the reply is not whole: the provider says {response.finish_reason or response.state!r}"
        )
