"""The conversation at a terminal: one session at a time, the lines that a person types, and questions.

What scrolls up is the terminal's own. While the model works the line stays: what is typed then is steering.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from kakite.agent.async_context import ContextHolder
from kakite.cli.chat.slash_commands import COMMANDS, ChatCommands
from kakite.cli.chat.view import ChatView, TerminalConsole
from kakite.cli.exit_codes import run_until_signal
from kakite.errors import KakiteError, UsageError
from kakite.workspace import ensure_state_folder

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from kakite.agent.observe.events import RunListener
    from kakite.agent.run.state import Task
    from kakite.agent.run.store import RunFolder
    from kakite.agent.session.person_questions import PersonQuestion
    from kakite.agent.session.prepared import PreparedSession
    from kakite.agent.session.session import Session, SessionMode, TurnResult
    from kakite.agent.session.session_context import SessionContext
    from kakite.cli.chat.line_input import LineInput
    from kakite.cli.chat.view import Notification
    from kakite.host import ApprovalRequest, ApprovalResponse, Approver
    from kakite.host.policy.rules import SavedRule
    from kakite.models.messages import UserMessage
    from kakite.models.model import Effort


class SessionSource(Protocol):
    """Makes the sessions of a terminal."""

    @property
    def project(self) -> Path:
        """The folder that they work in."""
        ...

    @property
    def terms(self) -> tuple[str, str]:
        """The model and the mode of a new session, before it is made."""
        ...

    @property
    def notify(self) -> Notification:
        """How the person is told that it is their move."""
        ...

    def prepare(self, approver: Approver, listener: RunListener) -> PreparedSession:
        """Return the session that the command asked for."""
        ...

    def prepare_other(
        self, approver: Approver, listener: RunListener, stored: RunFolder | None, before: Task | None
    ) -> PreparedSession:
        """Return a stored session of the same folder, or a new one where the one ``before`` works."""
        ...


LEAVE_WITHIN = 2.0
"""Seconds within which a second Ctrl-C leaves."""
ASKED_HINT = "Type a number, or your own answer · Esc gives none"
ANSWER_AFTER = 0.3
"""Seconds that a question stands before a line answers it: what one was typing just then answers nothing."""
ANSWER_AFTER_WITHDRAWN = 1.0
"""The same, if the question before was withdrawn just then: somebody may still be answering that one."""
MAIL_PAUSE = 30.0
"""Seconds until a message of the page that could not be taken is tried again."""
_MODES = ("ask", "edits", "plan")
"""Modes that a key goes through; to ``all`` only once the person has named it."""
_MODES_TOLD = {
    "edits": "the model changes files of the folder without asking you",
    "all": "the model does everything without asking you",
    "plan": "the model only looks",
}


def converse(source: SessionSource, first: str = "", *, plain: bool = False) -> int:
    """Run the conversation until the person leaves, and return the exit code.

    Args:
        source: makes the sessions.
        first: the first message, if there is one.
        plain: only lines, one after the other: nothing is drawn twice, and no key has a meaning of its own.
    """
    return asyncio.run(run_until_signal(ChatTerminal(source, plain=plain).run(first)))


@dataclass(slots=True, kw_only=True)
class _AnswerGuard:
    """Tells a line that answers a question from one that was begun before it came."""

    is_shown: bool = False
    """Whether it stood long enough to be answered."""
    interrupts_draft: bool = False
    """Whether the person was typing when it came: that line is no answer."""

    @property
    def can_be_answered(self) -> bool:
        """Whether a line that comes now is meant for it."""
        return self.is_shown and not self.interrupts_draft


@dataclass(slots=True, kw_only=True)
class _OpenQuestion(_AnswerGuard):
    """A question about a call that waits for its answer."""

    request: ApprovalRequest
    answer: asyncio.Future[ApprovalResponse]


@dataclass(slots=True, kw_only=True)
class _OpenPersonQuestion(_AnswerGuard):
    """A question with choices that waits for its answer."""

    question: PersonQuestion
    answer: asyncio.Future[str | None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _SentMessage:
    """A message of the person that the model has not got, as far as is known."""

    message: UserMessage
    typed: str
    outputs: tuple[str, ...]
    """What own commands said, which goes with it."""


def _join_messages(first: UserMessage, *more: UserMessage) -> UserMessage:
    """Return several messages as one."""
    if not more:
        return first
    every = (first, *more)
    shown = "\n\n".join(each.shown or each.text for each in every)
    text = "\n\n".join(each.text for each in every)
    images = tuple(image for each in every for image in each.images)
    return replace(first, text=text, images=images, shown=shown if shown != text else "")


class ChatTerminal:
    """One person at one terminal, and the session that they talk to."""

    def __init__(self, source: SessionSource, *, plain: bool = False) -> None:
        self.view = ChatView(console=TerminalConsole(plain=plain), plain=plain)
        self.prepared: PreparedSession | None = None
        self.session: Session | None = None
        self.leaving = False
        self._source = source
        self._plain = plain
        self._holder: ContextHolder[Session] | None = None
        self._lock = ExitStack()
        self._preparing: asyncio.Task[PreparedSession] | None = None
        self._opening: asyncio.Task[Session] | None = None
        self._turn: asyncio.Task[None] | None = None
        self._line: asyncio.Task[None] | None = None
        """What the last line asked for, while that is done."""
        self._own: asyncio.Task[None] | None = None
        """The person's own command, while it runs."""
        self._sent: list[_SentMessage] = []
        """The messages that no request has carried; those before the session is ready become one."""
        self._queued = self.view.queued
        """The messages for turns after the one that runs; the view shows them."""
        self._no_mail_until = 0.0
        self._may_do_all = False
        """Whether the person has named the mode ``all`` in this session."""
        self._own_outputs: list[str] = []
        """What own commands said, for the model with the next message."""
        self._question: _OpenQuestion | None = None
        self._asking = asyncio.Lock()
        self._withdrawn = -ANSWER_AFTER_WITHDRAWN
        """When a question was withdrawn last, by the loop's clock."""
        self._asked: _OpenPersonQuestion | None = None
        """What the model itself wants to know."""
        self._leave_pressed = -LEAVE_WITHIN
        self._failed: BaseException | None = None
        """Why there is no session at all."""
        self._background: set[asyncio.Task[None]] = set()
        self._commands = ChatCommands(self)
        self._input = self._create_input()
        self.view.refresh = self._input.refresh

    def _create_input(self) -> LineInput:
        if self._plain:
            from kakite.cli.chat.plain_input import PlainInput

            return PlainInput()
        from kakite.cli.chat.prompt_input import PromptInput

        return PromptInput(self, ensure_state_folder(os.environ) / "chat-history")

    async def run(self, first: str) -> int:
        """Talk until the person leaves.

        Raises:
            KakiteError: the session that the command asked for cannot be made.
        """
        with self._input.open():
            asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self.on_interrupt)
            self.view.console.file = sys.stdout
            ticking = asyncio.create_task(self._tick())
            try:
                self.view.note(f"Kakite in {self.project}. /help lists what you can do.")
                await self.open(wanted=True)
                if first.strip():
                    await self._handle_line(first)
                while not self.leaving:
                    await self._read_line()
            finally:
                ticking.cancel()
                await self.close()
        if self._failed is not None:
            raise self._failed
        if self.prepared is not None:
            from kakite.agent.session.prepared import discard_unused  # loads all of a session

            await asyncio.to_thread(discard_unused, self.prepared.deps.record, self.prepared.run, os.environ)
        if self.prepared is not None and self.prepared.deps.record.file.exists():
            sys.stdout.write(f"Go on with: kakite chat --resume {self.prepared.run.task.id}\n")
        return 0

    # The session.

    @property
    def project(self) -> Path:
        """The folder of the session."""
        return self.prepared.project if self.prepared else self._source.project

    @property
    def context(self) -> SessionContext | None:
        """Commands and files; None: not loaded yet."""
        return self.prepared.context if self.prepared else None

    @property
    def mode(self) -> str:
        """What goes without a question."""
        if self.session is not None:
            return self.session.mode
        return self.prepared.run.task.approve if self.prepared else self._source.terms[1]

    @property
    def model(self) -> str:
        """The model's name."""
        run = self.session.run if self.session else self.prepared.run if self.prepared else None
        return run.task.model if run else self._source.terms[0]

    async def open(self, stored: RunFolder | None = None, *, wanted: bool = False) -> None:
        """Open a session: the one that the command asked for (``wanted``), a stored one, or a new one.

        It is made ready in the background: the first line can be typed at once.

        Raises:
            KakiteError: another session cannot be made; the one before goes on.
        """
        make, show = self._source, self.view.show
        if wanted:
            preparing = asyncio.create_task(asyncio.to_thread(make.prepare, self, show))
        else:
            before = self.prepared.run.task if self.prepared else None
            preparing = asyncio.create_task(asyncio.to_thread(make.prepare_other, self, show, stored, before))
            await preparing
        await self.close()
        self.view.reset()
        self.view.begin("Loading")
        self._preparing = preparing
        self._opening = asyncio.create_task(self._open(preparing))
        self._opening.add_done_callback(self._end_opening)

    async def _open(self, preparing: asyncio.Task[PreparedSession]) -> Session:
        from kakite.cli.chat.stored_sessions import lock_session

        try:
            prepared = await preparing
            self._lock.enter_context(lock_session(prepared.deps.record))
        except Exception as error:
            if self.prepared is None:  # there is nothing to go on with
                self._failed, self.leaving = error, True
                self._input.stop()
            raise
        self.prepared = prepared
        self._may_do_all = self.mode == "all"
        if prepared.deps.saved is not None:
            prepared.deps.saved.on_add = self._tell_saved
        self._greet(prepared)
        self._holder = ContextHolder(prepared.open())
        self.session = await self._holder.enter()
        return self.session

    def _greet(self, prepared: PreparedSession) -> None:
        if self._plain:
            self.view.note(f"Model: {self.model}. Mode: {self.mode}.")
        if prepared.note:
            self.view.warn(prepared.note)
        for problem in prepared.context.problems:
            self.view.note(str(problem))
        if prepared.run.title:
            if self.mode != "ask":
                self.view.warn(f"The mode is {self.mode}: {_MODES_TOLD[self.mode]}.")
            from kakite.agent.observe.event_log import build_event_log

            self.view.note(f"Going on with: {prepared.run.title}")
            self.view.show_history(build_event_log(prepared.run))

    def _end_opening(self, opening: asyncio.Task[Session]) -> None:
        self.view.doing = ""
        if not opening.cancelled() and (error := opening.exception()) and self._failed is None:
            self._show_error(error)
            self.view.note("/clear tries again with a new session.")
        self._input.refresh()

    async def close(self) -> None:
        """End the session; it stays stored."""
        if self.session is not None:
            self.session.interrupt()
        for task in (self._own, self._opening):
            if task is not None and not task.done():
                task.cancel()
        waited = {task for task in (self._own, self._turn, self._opening) if task is not None}
        if waited:
            await asyncio.wait(waited)
        if self._holder is not None:
            await self._holder.close()
        self._lock.close()
        if self.prepared is not None and not self.prepared.deps.record.file.exists():
            with suppress(OSError):  # of a session in which nothing was said
                await asyncio.to_thread(self.prepared.deps.record.remove)
        self.session = self._holder = self._opening = self._turn = self._own = None

    async def get_session(self) -> Session:
        """Return the session, once it is open.

        Raises:
            KakiteError: it cannot be opened.
        """
        assert self._opening is not None
        return await asyncio.shield(self._opening)

    async def _get_prepared(self) -> PreparedSession:
        assert self._preparing is not None
        return await asyncio.shield(self._preparing)

    @property
    def background_jobs(self) -> int:
        """How many commands the model has in the background, as far as is known."""
        return sum(job.running for job in self.session.jobs) if self.session else 0

    @property
    def is_at_work(self) -> bool:
        """Whether the model is at work."""
        return self._turn is not None and not self._turn.done()

    @property
    def has_waiting(self) -> bool:
        """Whether a message waits for the model, or for its next turn."""
        return bool(self.view.waiting or self._queued)

    @property
    def is_running(self) -> bool:
        """Whether something is at work that Esc stops."""
        return self.is_at_work or self._own is not None

    # What a line asks for.

    async def _read_line(self) -> None:
        try:
            line = await self._input.read_line()
        except KeyboardInterrupt:
            self.on_interrupt()
        except EOFError:
            self.leaving = True
        else:
            await self._handle_line(line)

    async def _handle_line(self, line: str) -> None:
        """Do what a line says; Ctrl-C ends that, and what goes wrong is told."""
        self._line = asyncio.create_task(self.handle(line))
        await asyncio.wait([self._line])
        task, self._line = self._line, None
        if task.cancelled():
            self.view.warn("Stopped.")
        elif error := task.exception():
            self._show_error(error)

    def _show_error(self, error: BaseException) -> None:
        if isinstance(error, KakiteError):
            self.view.fail(error.message)
            if error.hint:
                self.view.note(error.hint)
        elif not isinstance(error, asyncio.CancelledError):
            self.view.fail(f"{type(error).__name__}: {error}")
            self.view.note("This is a bug in Kakite. The session is stored.")

    async def handle(self, line: str) -> None:
        """Do what a line says: a command, the person's own program, an answer, or a message."""
        if not line.strip():
            return
        if line.startswith("/") and not await self._is_own(line):
            self._echo(line)
            await self._commands.run(line)
        elif line.startswith("!"):
            self._echo(line)
            self._begin_own(line[1:].strip())
        elif self._question is not None and self._question.can_be_answered:
            self._answer(line.strip())
        elif self._asked is not None and self._asked.can_be_answered:
            self._echo(line)
            self._answer_person(line)
        else:
            self._echo(line)
            await self.send(line)
        self._expect_answers()

    def _expect_answers(self) -> None:
        for each in (self._question, self._asked):
            if each is not None:
                each.interrupts_draft = False

    async def _is_own(self, line: str) -> bool:
        """Return whether a line that begins with a slash calls a command of the person or the project."""
        if line[1:].split(" ", 1)[0] in COMMANDS:
            return False
        return (await self._get_prepared()).context.find_command(line)[0] is not None

    def _echo(self, line: str) -> None:
        if not self._plain:
            self.view.show_message(line)

    async def send(self, text: str) -> None:
        """Send a message: it begins a turn, or steers the one that runs."""
        prepared = await self._get_prepared()
        images = self._input.find_images(text)
        message, problems = await asyncio.to_thread(prepared.context.read_message, text, images)
        for problem in problems:
            self.view.warn(str(problem))
        outputs = tuple(self._own_outputs)
        if outputs:
            told = "\n\n".join([*outputs, message.text])
            message = replace(message, text=told, shown=message.shown or text)
            self._own_outputs.clear()
        sent = _SentMessage(message=message, typed=text, outputs=outputs)
        if self.is_at_work:
            if self.session is not None and self.session.is_running:
                self.session.steer(message)
            self._sent.append(sent)
            self.view.waiting.append(text)
            self._input.refresh()
        else:
            self._sent = [sent]
            self._turn = asyncio.create_task(self._run_turn())

    async def _run_turn(self) -> None:
        try:
            session = await self.get_session()
        except KakiteError as error:
            self._show_error(error)
            self._take_back_all()
            return
        message = _join_messages(*(each.message for each in self._sent))
        self._sent.clear()
        self.view.waiting.clear()
        await self._finish_turn(session.prompt(message))

    def _take_back(self, sent: Sequence[_SentMessage]) -> None:
        """Put messages that the model has not got back into the line."""
        session = self.session if self.session is not None and self.session.is_running else None
        taken = [each for each in sent if session is None or session.withdraw(each.message)]
        self._sent = [each for each in self._sent if each not in taken]
        for each in taken:
            if each.typed in self.view.waiting:  # the first message of a turn is not there
                self.view.waiting.remove(each.typed)
        self._own_outputs[:0] = [output for each in taken for output in each.outputs]
        if taken:
            self.add_draft("\n".join(each.typed for each in taken))

    def take_back_last(self) -> None:
        """Put the last message that waits for the model, or for its next turn, back into the line."""
        if self._queued:
            self.take_back_queued()
        else:
            self._take_back(self._sent[-1:])

    def _take_back_all(self) -> None:
        """Put all messages that the model has not got back into the line, in their order."""
        while self._queued:
            self.take_back_queued()
        self._take_back(self._sent)

    # Messages for the next turn.

    def queue_line(self, text: str) -> None:
        """Send a line once the turn that runs has ended."""
        self._start(self._queue_line(text))

    async def _queue_line(self, text: str) -> None:
        try:
            await self.queue(text)
        except KakiteError as error:
            self._show_error(error)
            self.add_draft(text)

    async def queue(self, text: str) -> None:
        """Send a message once the turn that runs has ended; without one, send it now.

        Raises:
            UsageError: it is no message for the model.
        """
        if text.startswith("!") or (text.startswith("/") and not await self._is_own(text)):
            raise UsageError("only messages for the model can wait for its next turn")
        if self.is_at_work:
            self._queued.append(text)
            if self._plain:
                self.view.note("It waits for the next turn. /queue takes it back.")
            self._input.refresh()
        else:
            self._echo(text)
            await self.send(text)

    def take_back_queued(self) -> None:
        """Put the last message that waits for the next turn back into the line.

        Raises:
            UsageError: none waits.
        """
        if not self._queued:
            raise UsageError("no message waits for the next turn", hint="/queue TEXT lets one wait")
        self.add_draft(self._queued.pop())
        self._input.refresh()

    async def _send_queued(self) -> None:
        """Begin the next turn with the message that waits longest, unless another has begun."""
        if self._queued and not self.is_at_work and not self.leaving:
            text = self._queued.pop(0)
            self._echo(text)
            try:
                await self.send(text)
            except KakiteError as error:
                self._show_error(error)
                self.add_draft(text)

    def add_draft(self, text: str) -> None:
        """Put a text into the line, to be changed and sent."""
        if self._plain:
            self.view.note(f"Your message was: {text}")
            return
        for each in (self._question, self._asked):
            if each is not None:  # this is no answer to it
                each.interrupts_draft = True
        self._input.add_draft(text)

    async def _finish_turn(self, turn: Coroutine[object, object, TurnResult | None]) -> None:
        """Wait for the end of a turn, and say what went wrong; the next begins with what waits for it."""
        goes_on = False
        try:
            result = await turn
            goes_on = bool(self._queued) and (result is None or result.reason == "answered")
        except KakiteError as error:  # the end of the turn has said what
            if error.hint:
                self.view.note(error.hint)
        except Exception as error:  # noqa: BLE001 - a defect ends the turn, not the conversation
            self._show_error(error)
        finally:
            self.view.doing = ""
            self._sent.clear()
            self.view.waiting.clear()
            self._input.refresh()
            if goes_on:
                self._start(self._send_queued())
            else:
                self._take_back_all()
                self.view.ring(self._source.notify, "the turn has ended")

    def tell_later(self, text: str) -> None:
        """Give the model a text with the person's next message."""
        self._own_outputs.append(text)

    def _begin_own(self, command: str) -> None:
        """Run the person's own command; the line stays, and Esc or Ctrl-C ends it."""
        if self._own is not None:
            raise KakiteError("a command of yours is running", hint="wait, or stop it with Esc")
        if command:
            self._own = asyncio.create_task(self._run_own(command))

    async def _run_own(self, command: str) -> None:
        from kakite.cli.chat.own_command import run_own_command

        self.view.begin(f"! {command}")
        try:
            told, code = await run_own_command(command, self.project, self.view.show_output)
            self.tell_later(told)
            ended = f"exit {code}; " if code else ""
            self.view.note(f"({ended}the model gets this with your next message)")
        except asyncio.CancelledError:
            self.view.warn("Your command was stopped.")
        except Exception as error:  # noqa: BLE001 - told to the person
            self._show_error(error)
        finally:
            self._own, self.view.doing = None, ""
            self._input.refresh()

    async def edit_text(self, text: str) -> str:
        """Let the person change a text in their editor."""
        return await self._input.edit(text)

    async def read_answer(self, question: str) -> str:
        """Ask the person for one line, beside the conversation."""
        return await self._input.read_answer(question)

    async def set_mode(self, mode: str) -> None:
        """Say what goes without a question."""
        self._set_mode(await self.get_session(), mode)

    def _set_mode(self, session: Session, mode: str) -> None:
        session.set_mode(cast("SessionMode", mode))
        self._may_do_all = self._may_do_all or mode == "all"
        self._input.refresh()

    async def set_model(self, name: str) -> None:
        """Talk to another model.

        Raises:
            KakiteError: there is no such provider, or its key is missing.
        """
        from kakite.cli.session_setup import open_other_model

        session = await self.get_session()
        base_url, model = await asyncio.to_thread(open_other_model, session.run.task, name)
        session.set_model(name, base_url, model)

    async def set_effort(self, effort: Effort | None) -> None:
        """Let the model think so much; None: as its provider does it by itself."""
        from kakite.cli.session_setup import open_other_model

        session = await self.get_session()
        task = replace(session.run.task, effort=effort)
        _, model = await asyncio.to_thread(open_other_model, task, task.model)
        session.set_effort(effort, model)

    # Questions.

    async def ask(self, question: ApprovalRequest) -> ApprovalResponse:
        """Ask the person about a call. A PersonApprover. One question is asked at a time."""
        async with self._asking:
            return await self._ask(question)

    async def _ask(self, question: ApprovalRequest) -> ApprovalResponse:
        from kakite.cli.chat.questions import render_question

        self.view.show_question(question.call.id, render_question(question, self.view.console.width))
        loop = asyncio.get_running_loop()
        asked = self._question = _OpenQuestion(
            request=question, answer=loop.create_future(), interrupts_draft=self._input.has_draft
        )
        self.view.ring(self._source.notify, "a question waits")
        showing = loop.call_later(self._get_answer_delay(), self._show_choices, asked)
        try:
            return await asked.answer
        finally:
            showing.cancel()
            self._question = None
            self._input.refresh()

    async def ask_person(self, question: PersonQuestion) -> str | None:
        """Show a question with its choices, and return the answer. One is asked at a time."""
        async with self._asking:
            return await self._ask_person(question)

    async def _ask_person(self, question: PersonQuestion) -> str | None:
        from kakite.cli.chat.questions import render_person_question

        self.view.show_person_question(render_person_question(question))
        loop = asyncio.get_running_loop()
        asked = self._asked = _OpenPersonQuestion(
            question=question, answer=loop.create_future(), interrupts_draft=self._input.has_draft
        )
        showing = loop.call_later(self._get_answer_delay(), self._show_hint, asked)
        self.view.ring(self._source.notify, "a question waits")
        try:
            return await asked.answer
        except asyncio.CancelledError:
            self._on_withdrawn(asked)
            raise
        finally:
            showing.cancel()
            self._asked = None
            self._input.refresh()

    def _on_withdrawn(self, asked: _OpenPersonQuestion) -> None:
        """Clear the line that was begun as the answer of a question: it must not answer the next one."""
        if self.leaving:
            return
        self._withdrawn = asyncio.get_running_loop().time()
        self.view.note("No answer is needed any more.")
        if asked.can_be_answered:
            self._input.clear_draft()

    def _get_answer_delay(self) -> float:
        """Return the seconds until a question that comes now can be answered."""
        if asyncio.get_running_loop().time() - self._withdrawn < ANSWER_AFTER_WITHDRAWN:
            return ANSWER_AFTER_WITHDRAWN
        return 0 if self._plain else ANSWER_AFTER

    def _answer_person(self, typed: str | None) -> None:
        """Answer the model's question: by a number, or in other words; None gives no answer."""
        if self._asked is None or self._asked.answer.done():
            return
        question, answer = self._asked.question, self._asked.answer
        if typed is None or typed.strip():
            answer.set_result(None if typed is None else question.to_answer(typed))

    @property
    def question_hint(self) -> str:
        """How the model's own question can be answered; empty: there is none."""
        if self._asked is None or not self._asked.is_shown:
            return ""
        if self._asked.interrupts_draft and self._input.has_draft:
            return "First send or clear your line, then answer."
        return ASKED_HINT

    def _show_choices(self, asked: _OpenQuestion) -> None:
        self._let_answer(asked)
        if self._plain:
            self.view.note(self.choices)

    def _show_hint(self, asked: _OpenPersonQuestion) -> None:
        self._let_answer(asked)
        if self._plain:
            self.view.note(ASKED_HINT)

    def _let_answer(self, asked: _AnswerGuard) -> None:
        asked.interrupts_draft = asked.interrupts_draft or self._input.has_draft
        asked.is_shown = True
        self._input.refresh()

    @property
    def choices(self) -> str:
        """How the open question can be answered; empty: nothing is asked, or not yet to be answered."""
        if self._question is None or not self._question.is_shown:
            return ""
        if self._question.interrupts_draft and self._input.has_draft:
            return "Allow this? First send or clear your line, then answer."
        from kakite.cli.chat.questions import format_rule_scope

        saves = self._question.request.saves
        always = f" · s always: {format_rule_scope(saves)}" if saves else ""
        return f"Allow this? y yes · a this tool from now on{always} · n no, then Enter · or write why not"

    def _answer(self, typed: str) -> None:
        """Answer the open question with a line: a letter alone, or the reason of a no."""
        from kakite.host import ApprovalResponse

        if self._question is None or self._question.answer.done():
            return
        match typed.lower():
            case "y" | "yes":
                response = ApprovalResponse(allowed=True)
            case "a":
                response = ApprovalResponse(allowed=True, remember="tool")
            case "s" if self._question.request.saves:
                response = ApprovalResponse(allowed=True, remember="always")
            case "s":
                self.view.warn("This call cannot be allowed for always. Answer with another letter.")
                return
            case "n" | "no":
                response = ApprovalResponse(allowed=False, reason="the person said no")
            case _:
                self._echo(typed)
                response = ApprovalResponse(allowed=False, reason=f"the person said: {typed}")
        self._question.answer.set_result(response)

    def _tell_saved(self, saved: SavedRule) -> None:
        """Say which rule an answer has saved, and how it is taken back."""
        from kakite.cli.chat.questions import format_rule_scope

        scope = format_rule_scope(saved.rule)
        self.view.note(f"Rule saved: {scope}. `kakite host rules remove {saved.number}` takes it back.")

    # Keys.

    def stop_work(self) -> None:
        """Leave a question unanswered, end the turn, or the person's own command; else do nothing."""
        if self._asked is not None:
            self._answer_person(None)
        elif self._own is not None:
            self._own.cancel()
        elif self.session is not None and self.session.is_running:
            self._take_back_all()
            self.session.interrupt()
        elif self.is_at_work and self._turn is not None:  # it waits for the session
            self._turn.cancel()
            self.view.warn("Your message was not sent.")
            self._take_back_all()

    def on_interrupt(self) -> None:
        """Stop what is at work; without that, leave at the second time."""
        if self.is_running:
            self.stop_work()
        elif self._line is not None:
            self._line.cancel()
        elif time.monotonic() - self._leave_pressed < LEAVE_WITHIN:
            self.leaving = True
            self._input.stop()
        else:
            self._leave_pressed = time.monotonic()
            self.view.note("Press Ctrl-C again to leave.")

    def on_draft_cleared(self) -> None:
        """Take the next line as the answer of the question that is open."""
        self._expect_answers()

    def change_mode(self) -> None:
        """Go to the next mode."""
        modes = ("ask", "edits", "all", "plan") if self._may_do_all else _MODES
        later = modes[(modes.index(self.mode) + 1) % len(modes)] if self.mode in modes else "ask"
        if self.session is not None:  # at once: the next key counts from there
            self._set_mode(self.session, later)
        else:
            self._start(self.set_mode(later))

    def _start(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _tick(self) -> None:
        """Let the seconds of what is under way go on."""
        while True:
            await asyncio.sleep(1)
            if self.view.doing:
                self._input.refresh()
            await self._take_mail()

    async def _take_mail(self) -> None:
        """Begin a turn with what was written on the page while nothing is at work here."""
        session = self.session
        if session is None or self.is_running or time.monotonic() < self._no_mail_until:
            return
        if not await asyncio.to_thread(session.has_mail):
            return
        free = self._line is None and not self.is_running and not self.leaving and session is self.session
        if free and not session.is_running:
            self._turn = asyncio.create_task(self._prompt_mail(session))

    async def _prompt_mail(self, session: Session) -> None:
        before = session.run
        await self._finish_turn(session.prompt_mail())
        if session.run is before:  # it could not be taken: not tried again at once
            self._no_mail_until = time.monotonic() + MAIL_PAUSE
