"""A language model as a participant, asked through Kakite's own model layer, with a key."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kakite.debate.answers import FailureCode, ParticipantFailure, Reply, read_block
from kakite.debate.model import ParticipantInfo
from kakite.debate.participants.base import DEFAULT_TIMEOUT, OnProgress, ProbeResult
from kakite.debate.participants.output_parsers import create_failure
from kakite.models.messages import UserMessage
from kakite.models.model import Model, ModelError

if TYPE_CHECKING:
    from kakite.debate.files import FileSnapshot
    from kakite.models.messages import Reply as ModelReply

_CODES: dict[str, FailureCode] = {
    "model_auth": "not_logged_in",
    "model_rate_limit": "rate_limited",
    "model_quota": "rate_limited",
    "model_unreachable": "unreachable",
    "model_timeout": "timed_out",
}
_STEP = 400
"""Characters between two reports of progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelParticipant:
    """Asks a model, without tools."""

    side: ParticipantInfo
    model: Model = field(repr=False)
    time: float = DEFAULT_TIMEOUT
    """Seconds in all."""

    async def ask(
        self,
        prompt: str,
        *,
        seconds: float | None = None,
        on_progress: OnProgress | None = None,
        files: FileSnapshot | None = None,
    ) -> Reply:
        """Ask it once."""
        prompt = files.add_text(prompt) if files else prompt
        return replace(await self._request_reply(prompt, seconds, on_progress), version=self.model.name)

    async def _request_reply(
        self, prompt: str, seconds: float | None, on_progress: OnProgress | None
    ) -> Reply:
        time = self.time if seconds is None else min(self.time, seconds)
        said: list[str] = []

        def on_delta(piece: str) -> None:
            before = sum(map(len, said))
            said.append(piece)
            if on_progress and before // _STEP < (before + len(piece)) // _STEP:
                on_progress(f"{before + len(piece)} characters")

        try:
            async with asyncio.timeout(time):
                reply = await self.model.reply("", [UserMessage(text=prompt)], [], on_delta)
        except TimeoutError:
            return _with_partial(create_failure("timed_out", f"after {time:.0f} s"), said)
        except ModelError as error:
            return _with_partial(
                create_failure(_CODES.get(error.code, "http_error"), error.message), said, error.hint
            )
        return _read(reply)

    async def probe(self) -> ProbeResult:
        """Tell which model it is; whether it answers shows when it is asked."""
        return ProbeResult(state="unknown", told=self.model.name)


def _read(reply: ModelReply) -> Reply:
    spent = {
        "input_tokens": reply.usage.input_tokens,
        "output_tokens": reply.usage.output_tokens,
        "cost_usd": reply.usage.cost_usd,
    }
    if not reply.text.strip():
        return replace(create_failure("empty_answer"), **spent)
    if reply.finish == "length":
        cut = create_failure("stream_cut", "the model ran into its limit of output")
        return replace(cut, partial=reply.text, **spent)
    return replace(read_block(reply.text), **spent)


def _with_partial(failed: ParticipantFailure, said: list[str], hint: str = "") -> ParticipantFailure:
    return replace(failed, partial="".join(said).strip(), hint=hint or failed.hint)
