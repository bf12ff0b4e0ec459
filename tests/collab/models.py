"""Models that say what a test hands them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from kakite.models.messages import Message as ToModel
from kakite.models.messages import Reply, Usage, UserMessage
from kakite.models.model import OnText
from kakite.tools.toolset import Tool


class Silent:
    """A model that gives its answer whole."""

    name = "test:silent"

    def __init__(self, text: str) -> None:
        self._text = text

    async def reply(self, *_: object, **__: object) -> Reply:
        return Reply(text=self._text)


class Talking:
    """A model that says what the test hands it, piece by piece."""

    name = "test:talking"

    def __init__(self, *pieces: str, waits: bool = False) -> None:
        self.told: list[str] = []
        self.instructions = ""
        self.was_cancelled = False
        self._pieces: asyncio.Queue[str | None] = asyncio.Queue()
        for piece in pieces:
            self.say(piece)
        if not waits:
            self.end()

    def say(self, piece: str) -> None:
        self._pieces.put_nowait(piece)

    def end(self) -> None:
        self._pieces.put_nowait(None)

    async def reply(
        self,
        instructions: str,
        messages: Sequence[ToModel],
        tools: Sequence[Tool],  # noqa: ARG002
        on_text: OnText | None = None,
        on_thought: OnText | None = None,  # noqa: ARG002
    ) -> Reply:
        assert on_text is not None
        self.instructions = instructions
        self.told += [message.text for message in messages if isinstance(message, UserMessage)]
        said: list[str] = []
        try:
            while (piece := await self._pieces.get()) is not None:
                said.append(piece)
                on_text(piece)
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        return Reply(text="".join(said), usage=Usage(requests=1, input_tokens=7, output_tokens=3))
