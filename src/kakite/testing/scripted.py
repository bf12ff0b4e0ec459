"""A model that follows a script, in this process."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

from kakite.models.failures import kind_of_status, model_error
from kakite.testing.script import Playback, Script, ScriptedFailure, Told

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kakite.models.messages import Message, Reply
    from kakite.models.model import OnText
    from kakite.tools.toolset import Tool


class ScriptedModel:
    """Implements ``kakite.models.model.Model``. Costs nothing and knows nothing."""

    def __init__(self, script: Script) -> None:
        self.playback = Playback(script)
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
    ) -> Reply:
        """Answer with the next turn; with ``on_text``, word by word.

        Raises:
            ScriptError: it was not told what the script expects, or the script is over.
            ModelError: the turn is an error.
        """
        cue = self.playback.next(Told.of(instructions, messages, tools))
        await asyncio.sleep(cue.turn.pause)
        if cue.turn.error:
            raise _failure(self.name, cue.turn.error)
        reply = cue.reply(self.name)
        if on_text is not None:
            for word in words(reply.text):
                on_text(word)
                await asyncio.sleep(0)
        return reply


def words(text: str) -> list[str]:
    """Split a text into the pieces in which it streams. Joined they are the text."""
    return re.findall(r"\s*\S+|\s+$", text)


def _failure(name: str, error: ScriptedFailure) -> Exception:
    return model_error(
        kind_of_status(error.status),
        f"{name}: {error.status}: {error.message}",
        retry_after=error.retry_after,
    )
