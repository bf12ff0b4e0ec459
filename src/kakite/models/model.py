"""The one seam to language models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from kakite.errors import OutsideError

if TYPE_CHECKING:
    from kakite.models.messages import Message, Reply
    from kakite.tools.toolset import Tool

OnText = Callable[[str], None]
"""Receives the reply's text piece by piece while it streams."""


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
    ) -> Reply:
        """Answer the conversation; with ``on_text`` the request is streamed.

        Raises:
            ModelError: the provider could not be reached, or refused.
        """
        ...


class ModelError(OutsideError):
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
