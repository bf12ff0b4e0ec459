"""What reaches a session from another process: messages, and answers to what it asks.

They are files in the session's folder. The process that has the session open looks for them, so a session is
never driven by two. A message waits until it is taken; an answer is for one question alone.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import time
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeVar, cast

from kakite import state_files
from kakite.agent.session.person_questions import PersonApprover, PersonQuestion
from kakite.errors import KakiteError
from kakite.host import ApprovalRequest, ApprovalResponse, Approver, DenyingApprover
from kakite.host.policy.approver import DEFAULT_DENIAL_REASON
from kakite.tools.toolset import JsonObject

MAX_MESSAGE: Final = 20_000
"""Characters of a message."""
MAX_MESSAGES: Final = 50
"""Messages that may wait at once."""
_MAX_BYTES: Final = 1 << 26
_POLL_INTERVAL = 0.25  # s between two looks for an answer
_GRACE = 0.05  # s within which whoever is asked may answer before others are told of the question
_DIGEST = re.compile(r"[0-9a-f]{16}")
T = TypeVar("T")


class MailboxError(KakiteError):
    """It cannot be said to a session. Codes: ``not_asked``, ``mailbox_full``, ``mailbox_failed``."""

    code = "not_asked"


@dataclass(frozen=True, slots=True)
class Letter:
    """A message that waits."""

    id: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MailAnswer:
    """An answer: to a call, whether it may be made; to a question of the model, the text."""

    answer: Literal["yes", "no", "answer"]
    reason: str = ""


class Mailbox:
    """The files of one session. All methods read or write files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "mail"

    def put_message(self, text: str) -> None:
        """Leave a message.

        Raises:
            MailboxError: too many wait already (``mailbox_full``); it cannot be stored (``mailbox_failed``).
        """
        if len(list(self._iter_files("message-*.json"))) >= MAX_MESSAGES:
            raise MailboxError(
                "too many messages wait for this session",
                hint="open the session: it takes them one after the other",
                code="mailbox_full",
            )
        name = f"message-{time.time_ns():020}-{secrets.token_hex(4)}.json"
        try:
            self._write(name, {"text": text}, durable=True)
        except OSError as error:
            raise MailboxError(
                f"the message cannot be stored: {error.strerror or error}",
                hint="look at the disk with the state folder, then send it again",
                code="mailbox_failed",
            ) from error

    def list_messages(self) -> list[Letter]:
        """Return the messages that wait, the oldest first."""
        found = ((file.stem, _read(file)) for file in sorted(self._iter_files("message-*.json")))
        return [Letter(name, str(value["text"])) for name, value in found if value and "text" in value]

    def has_messages(self) -> bool:
        """Return whether a message waits that can be read."""
        return bool(self.list_messages())

    def remove_message(self, name: str) -> None:
        """Remove a message that was taken."""
        (self._folder / f"{name}.json").unlink(missing_ok=True)

    def publish_question(self, question: JsonObject) -> None:
        """Show what is asked now: kind, digest, tool, arguments, text, choices."""
        self._write(f"question-{question['digest']}.json", question)

    def withdraw_question(self, digest: str) -> None:
        """Show no more that this is asked."""
        for kind in ("question", "answer"):
            (self._folder / f"{kind}-{digest}.json").unlink(missing_ok=True)

    def withdraw_all(self) -> None:
        """Remove the questions of a process that was killed."""
        for pattern in ("question-*", "answer-*", ".question-*", ".answer-*"):
            for file in self._iter_files(pattern):
                file.unlink(missing_ok=True)

    def find_question(self) -> JsonObject | None:
        """Return what is asked, the first of several. Only of a session that is open it is asked still."""
        files = list(self._iter_files("question-*.json"))
        with suppress(FileNotFoundError):
            files.sort(key=lambda file: file.stat().st_mtime_ns)
        return next(filter(None, map(_read, files)), None)

    def put_answer(self, digest: str, answer: MailAnswer) -> None:
        """Answer a question; the first answer counts.

        Raises:
            MailboxError: it is asked no more, or has an answer (``not_asked``).
        """
        asked = _DIGEST.fullmatch(digest) and (self._folder / f"question-{digest}.json").exists()
        given = {"answer": answer.answer, "reason": answer.reason}
        if not asked or not self._write(f"answer-{digest}.json", given, once=True):
            raise MailboxError(
                "this question is no longer open", hint="look at the question that is open now"
            )

    def find_answer(self, digest: str) -> MailAnswer | None:
        """Return the answer to a question; None: there is none yet."""
        value = _read(self._folder / f"answer-{digest}.json")
        if not value or value.get("answer") not in {"yes", "no", "answer"}:
            return None
        return MailAnswer(answer=value["answer"], reason=str(value.get("reason", "")))

    def _iter_files(self, pattern: str) -> Iterator[Path]:
        with suppress(FileNotFoundError):
            yield from self._folder.glob(pattern)

    def _write(
        self, name: str, value: Mapping[str, object], *, durable: bool = False, once: bool = False
    ) -> bool:
        """Write a file whole; with ``once`` only where there is none, and return whether that was so."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        file, data = self._folder / name, json.dumps(value).encode()
        if durable:
            state_files.replace(file, data)
            return True
        temporary = self._folder / f".{name}.{secrets.token_hex(4)}.new"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
        if not once:
            temporary.replace(file)
            return True
        try:
            os.link(temporary, file)
        except FileExistsError:
            return False
        finally:
            temporary.unlink()
        return True


def _read(file: Path) -> dict[str, Any] | None:
    try:
        data = state_files.read(file, _MAX_BYTES)
        value: object = json.loads(data) if data else None
    except (OSError, ValueError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def share_questions(approver: Approver, mailbox: Mailbox) -> Approver:
    """Return an approver whose questions may be answered by the mailbox as well: the first answer counts."""
    if isinstance(approver, DenyingApprover):
        return approver  # nobody is asked
    if isinstance(approver, PersonApprover):
        return SharedPersonApprover(approver, mailbox)
    return SharedApprover(approver, mailbox)


class SharedApprover:
    """Asks whoever sits at this front, and by the mailbox. An Approver."""

    def __init__(self, approver: Approver, mailbox: Mailbox) -> None:
        self._approver = approver
        self._mailbox = mailbox

    async def ask(self, question: ApprovalRequest) -> ApprovalResponse:
        """Ask about a call, and return the first answer."""
        shown = {
            "kind": "approval",
            "tool": question.call.name,
            "arguments": question.call.arguments,
            "text": question.diff,
        }
        found = await self._ask_both(self._approver.ask(question), shown)
        if not isinstance(found, MailAnswer):
            return found
        allowed = found.answer == "yes"
        reason = f"the person said: {found.reason}" if found.reason else DEFAULT_DENIAL_REASON
        return ApprovalResponse(allowed=allowed, reason="" if allowed else reason)

    async def _ask_both(self, asking: Coroutine[Any, Any, T], shown: JsonObject) -> T | MailAnswer:
        own = asyncio.ensure_future(asking)
        digest = secrets.token_hex(8)
        other: asyncio.Task[MailAnswer] | None = None
        published: asyncio.Future[None] | None = None
        try:
            await asyncio.wait([own], timeout=_GRACE)
            if own.done():
                return own.result()
            publishing = asyncio.to_thread(self._mailbox.publish_question, {**shown, "digest": digest})
            published = asyncio.ensure_future(publishing)
            await asyncio.shield(published)  # a thread goes on when it is cancelled
            other = asyncio.create_task(self._wait_answer(digest))
            await asyncio.wait({own, other}, return_when=asyncio.FIRST_COMPLETED)
            return own.result() if own.done() else other.result()
        finally:
            waits = {each for each in (own, other) if each is not None and not each.done()}
            for each in waits:
                each.cancel()
            if published is not None:
                await asyncio.wait([published])
            self._mailbox.withdraw_question(digest)
            if waits:
                await asyncio.wait(waits)

    async def _wait_answer(self, digest: str) -> MailAnswer:
        find = self._mailbox.find_answer
        while (found := await asyncio.to_thread(find, digest)) is None:  # noqa: ASYNC110 - of another process
            await asyncio.sleep(_POLL_INTERVAL)
        return found


class SharedPersonApprover(SharedApprover):
    """The same for a front that can also show questions of the model. A PersonApprover."""

    def __init__(self, approver: PersonApprover, mailbox: Mailbox) -> None:
        super().__init__(approver, mailbox)
        self._person = approver

    async def ask_person(self, question: PersonQuestion) -> str | None:
        """Ask a question of the model, and return the first answer."""
        choices = [{"label": each.label, "description": each.description} for each in question.choices]
        shown: JsonObject = {"kind": "question", "text": question.text, "choices": choices}
        found = await self._ask_both(self._person.ask_person(question), shown)
        if not isinstance(found, MailAnswer):
            return found
        return found.reason.strip() or None if found.answer == "answer" else None
