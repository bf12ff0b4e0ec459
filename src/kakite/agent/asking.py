"""Calls that wait for a person who is not there: the task rests, and goes on with the answer.

An answer is for the exact call that was shown: its tool, its arguments and, of an edit, its diff. Anything
else, and the same call a second time, is asked anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from kakite.errors import KakiteError
from kakite.host import Answer, Question
from kakite.tools.toolset import JsonObject


class AskedError(KakiteError):
    """A call waits for a person. Not a failure: nothing was done, and nothing is lost."""

    code = "approval_required"

    def __init__(self, asks: JsonObject) -> None:
        super().__init__("a call waits for an answer")
        self.asks = asks
        """What is asked: kind, digest, tool, arguments, text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What a person said to a call."""

    allowed: bool
    reason: str = ""


class DistantApprover:
    """Answers with what people have said by now; what nobody was asked yet ends the step."""

    def __init__(self) -> None:
        self._place = ""
        self._given: dict[str, Given] = {}

    def give(self, place: str, answers: Mapping[str, Given]) -> None:
        """Take answers in, by the digest of what they are about. Those before count no more.

        ``place`` is where the task stands, the same as long as the call has not been made.
        """
        self._place = place
        self._given = dict(answers)

    async def ask(self, question: Question) -> Answer:
        """Return the answer to exactly this call.

        Raises:
            AskedError: there is none yet.
        """
        digest = digest_of(question, self._place)
        given = self._given.pop(digest, None)
        if given is None:
            raise AskedError(_asks(question, digest))
        return Answer(allowed=given.allowed, reason=given.reason)


def digest_of(question: Question, head: str) -> str:
    """Return what an answer to this question, asked at this head of a run, is bound to."""
    told = [
        head,
        question.call.name,
        question.call.arguments,
        question.diff,
        question.folder,
        question.definition,
    ]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


def _asks(question: Question, digest: str) -> JsonObject:
    return {
        "kind": "approval",
        "digest": digest,
        "tool": question.call.name,
        "arguments": question.call.arguments,
        "text": question.diff,
    }
