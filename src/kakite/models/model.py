"""The interface of a language model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Literal, Protocol, get_args, runtime_checkable

from kakite.errors import ExternalError, UsageError

if TYPE_CHECKING:
    from kakite.models.messages import Message, Reply
    from kakite.tools.toolset import Tool

Effort = Literal["off", "minimal", "low", "medium", "high", "xhigh", "max"]
"""How much a model thinks before it answers. Not every model knows every level: it takes its nearest one."""

EFFORTS: tuple[Effort, ...] = get_args(Effort)

OnText = Callable[[str], None]
"""Receives the reply's text, or what the model thinks, piece by piece while it streams."""


class Model(Protocol):
    """Something that answers a conversation."""

    @property
    def name(self) -> str:
        """``PROVIDER:NAME``, as the person wrote it."""
        ...

    async def reply(
        self,
        instructions: str,
        messages: Sequence[Message],
        tools: Sequence[Tool],
        on_text: OnText | None = None,
        on_thought: OnText | None = None,
    ) -> Reply:
        """Answer the conversation; with ``on_text`` the request is streamed.

        ``on_thought`` receives what the model thinks meanwhile, where its provider tells.

        Raises:
            ModelError: the provider could not be reached, or refused.
        """
        ...


@runtime_checkable
class SupportsConnect(Protocol):
    """A model that can keep its connection over several replies."""

    def connect(self) -> AbstractAsyncContextManager[object]:
        """Keep the connection as long as the block lasts. Without it each reply has one of its own."""
        ...


def connect_model(model: Model) -> AbstractAsyncContextManager[object]:
    """Keep a model's connection as long as the block lasts, if it has one."""
    return model.connect() if isinstance(model, SupportsConnect) else nullcontext()


class ModelError(ExternalError):
    """A language model could not answer.

    Codes: ``model_auth``, ``model_unknown``, ``model_rate_limit``, ``model_quota``, ``model_unavailable``,
    ``model_unreachable``, ``model_timeout``, ``model_rejected``, ``model_context_overflow``,
    ``model_bad_reply``, ``model_failed``.
    """

    code = "model_failed"

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        code: str | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, hint=hint, code=code)
        self.retryable = retryable
        """Whether the same request may succeed later. The provider's library has already tried again."""
        self.retry_after = retry_after
        """Seconds that the provider asked to wait, if it said."""


class ModelConfigError(UsageError):
    """A model was asked for that cannot be opened as things are.

    Codes: ``model_bad_name``, ``model_unknown_provider``, ``model_no_key``, ``model_no_address``,
    ``model_bad_address``, ``model_no_library``, ``model_no_region``, ``model_bad_option``,
    ``model_unset_variable``.
    """

    code = "model_bad_name"
