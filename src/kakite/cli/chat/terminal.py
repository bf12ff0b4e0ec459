"""The conversation in a terminal: the line that one types, its keys, and questions.

What scrolls up is the terminal's own. While the model works the prompt stays: what is typed then is steering.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any, Protocol, cast

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import Completer, Completion
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.patch_stdout import patch_stdout
from rich.console import Console

from kakite.agent.context_holder import ContextHolder
from kakite.agent.session.context import complete_mention, list_paths
from kakite.agent.session.context.mention_syntax import format_mention
from kakite.cli.chat.questions import format_rule_scope, render_person_question, render_question
from kakite.cli.chat.slash_commands import COMMANDS, ChatCommands
from kakite.cli.chat.view import ChatView
from kakite.cli.exit_codes import run_until_signal
from kakite.cli.session_setup import open_other_model
from kakite.errors import KakiteError
from kakite.host import ApprovalRequest, ApprovalResponse
from kakite.workspace import ensure_state_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prompt_toolkit.document import Document

    from kakite.agent.observe.events import RunListener
    from kakite.agent.run.store import RunFolder
    from kakite.agent.session.person_questions import PersonQuestion
    from kakite.agent.session.prepared import PreparedSession
    from kakite.agent.session.session import Session, SessionMode
    from kakite.host import Approver
    from kakite.models.messages import UserMessage


class SessionSource(Protocol):
    """Makes the sessions of a terminal."""

    def prepare(self, approver: Approver, listener: RunListener) -> PreparedSession:
        """Return the session that the command asked for."""
        ...

    def prepare_other(
        self, approver: Approver, listener: RunListener, stored: RunFolder | None
    ) -> PreparedSession:
        """Return a stored session of the same folder, or a new one."""
        ...


LEAVE_WITHIN = 2.0
"""Seconds within which a second Ctrl-C leaves."""
PATHS_MAX_AGE = 5.0
"""Seconds that the list of the project's files is used for completion."""
_MODES = ("ask", "edits", "all", "plan")
_MENTION = re.compile(r'(?:^|\s)@("?[^\s"]*)$')


def converse(source: SessionSource, first: str = "") -> int:
    """Run the conversation until the person leaves, and return the exit code."""
    return asyncio.run(run_until_signal(ChatTerminal(source).run(first)))


class ChatTerminal:
    """One person at one terminal, and the session that they talk to."""

    def __init__(self, source: SessionSource) -> None:
        self.view = ChatView(console=Console(highlight=False, soft_wrap=True))
        self._source = source
        self._holder: ContextHolder[Session] | None = None
        self._lock: AsyncExitStack = AsyncExitStack()
        self.prepared: PreparedSession | None = None
        self.session: Session | None = None
        self._opening: asyncio.Task[Session] | None = None
        self._turn: asyncio.Task[None] | None = None
        self._question: tuple[ApprovalRequest, asyncio.Future[ApprovalResponse]] | None = None
        self._asked: tuple[PersonQuestion, asyncio.Future[str | None]] | None = None
        """What the model itself wants to know."""
        self._leave_pressed = 0.0
        self.leaving = False
        self._commands = ChatCommands(self)
        self._prompt = self._build_prompt()
        self.view.refresh = self._refresh

    async def run(self, first: str) -> int:
        """Talk until the person leaves."""
        with patch_stdout(raw=True):
            self.view.console = Console(
                file=sys.stdout,
                force_terminal=True,
                no_color="NO_COLOR" in os.environ or None,
                highlight=False,
                width=shutil.get_terminal_size().columns,
            )
            try:
                await self.open(wanted=True)
                ticking = asyncio.create_task(self._tick())
                if first.strip():
                    self.view.show_message(first)
                    await self.handle(first)
                while not self.leaving:
                    await self._read_line()
                ticking.cancel()
            finally:
                await self.close()
        if self.prepared is not None and self.prepared.deps.record.file.exists():
            sys.stdout.write(f"Go on with: kakite chat --resume {self.prepared.run.task.id}\n")
        return 0

    async def open(self, stored: RunFolder | None = None, *, wanted: bool = False) -> None:
        """Open a session: the one that the command asked for (``wanted``), a stored one, or a new one.

        Its sandbox and tools are made ready in the background: the first line can be typed at once.
        """
        await self.close()
        show = self.view.show
        prepared = (
            self._source.prepare(self, show) if wanted else self._source.prepare_other(self, show, stored)
        )
        self._lock.enter_context(prepared.deps.record.lock())
        self.prepared = prepared
        self._holder = ContextHolder(prepared.open())
        self._opening = asyncio.create_task(self._holder.enter())
        self._opening.add_done_callback(lambda _: self._end_opening())
        self._greet(prepared)

    def _greet(self, prepared: PreparedSession) -> None:
        task = prepared.run.task
        self.view.note(f"Kakite in {task.repository}, with {task.model}. /help lists what you can do.")
        if prepared.note:
            self.view.warn(prepared.note)
        for problem in prepared.context.problems:
            self.view.note(str(problem))
        if prepared.run.points:
            self.view.note(f"Going on with: {prepared.run.title}")

    def _end_opening(self) -> None:
        self.view.doing = ""
        opening = self._opening
        if opening is not None and not opening.cancelled() and (error := opening.exception()):
            self.view.fail(str(error))
            if isinstance(error, KakiteError) and error.hint:
                self.view.note(error.hint)
        self._refresh()

    async def close(self) -> None:
        """End the session; it stays stored."""
        if self.session is not None:
            self.session.interrupt()
        if self._turn is not None:
            await asyncio.wait([self._turn])
        if self._opening is not None and not self._opening.done():
            self._opening.cancel()
            await asyncio.wait([self._opening])
        if self._holder is not None:
            await self._holder.close()
        await self._lock.aclose()
        self._lock = AsyncExitStack()
        self.session = self._holder = self._opening = self._turn = None

    async def get_session(self) -> Session:
        """Return the session, once it is open.

        Raises:
            KakiteError: it cannot be opened.
        """
        if self.session is None:
            assert self._opening is not None
            self.session = await asyncio.shield(self._opening)
        session = self.session
        assert session is not None
        return session

    @property
    def is_running(self) -> bool:
        """Whether the model is at work."""
        return self._turn is not None and not self._turn.done()

    async def handle(self, line: str) -> None:
        """Do what a line says: a command, the person's own program, or a message."""
        own = self.prepared.context.find_command(line)[0] if self.prepared else None
        if line.startswith("/") and (own is None or line[1:].partition(" ")[0] in COMMANDS):
            await self._commands.run(line)
        elif line.startswith("!"):
            await self._run_own_command(line[1:])
        elif line.strip():
            await self.send(line)

    async def send(self, text: str) -> None:
        """Send a message: it begins a turn, or steers the one that runs."""
        assert self.prepared is not None
        message = await asyncio.to_thread(self.prepared.context.build_message, text)
        if self.is_running and self.session is not None and self.session.is_running:
            self.session.steer(message)
            return
        self._turn = asyncio.create_task(self._run_turn(message))

    async def _run_turn(self, message: UserMessage) -> None:
        try:
            session = await self.get_session()
            await session.prompt(message)
        except KakiteError as error:
            if error.hint:
                self.view.note(error.hint)
        finally:
            self.view.doing = ""
            self._refresh()

    async def ask(self, question: ApprovalRequest) -> ApprovalResponse:
        """Ask the person about a call. A PersonApprover."""
        width = self.view.console.width
        self.view.console.print()
        for row in render_question(question, max(width, 20)):
            self.view.console.print(row)
        self.view.note_shown(question.call.id)
        answer: asyncio.Future[ApprovalResponse] = asyncio.get_running_loop().create_future()
        self._question = question, answer
        self._refresh()
        try:
            return await answer
        finally:
            self._question = None
            self._refresh()

    async def ask_person(self, question: PersonQuestion) -> str | None:
        """Show a question of the model with its choices, and return the answer."""
        self.view.console.print()
        for row in render_person_question(question):
            self.view.console.print(row)
        answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._asked = question, answer
        self._refresh()
        try:
            return await answer
        finally:
            self._asked = None
            self._refresh()

    def _answer_person(self, typed: str | None) -> None:
        """Answer the model's question: by a number, or in other words; None gives no answer."""
        if self._asked is None or self._asked[1].done():
            return
        question, answer = self._asked
        if typed is None or typed.strip():
            answer.set_result(None if typed is None else question.to_answer(typed))

    async def read_answer(self, question: str) -> str:
        """Ask the person for one line, beside the conversation."""
        asking: PromptSession[str] = PromptSession(history=InMemoryHistory())
        with suppress(EOFError, KeyboardInterrupt):
            return (await asking.prompt_async(f"{question} ")).strip()
        return ""

    async def _run_own_command(self, command: str) -> None:
        """Run the person's own command on their machine; its output goes with their next message."""
        process = await asyncio.create_subprocess_shell(
            command,
            cwd=self.prepared.project if self.prepared else None,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        out, _ = await process.communicate()
        self.view.console.out(out.decode("utf-8", "replace").rstrip("\n"), highlight=False)

    async def _read_line(self) -> None:
        try:
            line = await self._prompt.prompt_async()
        except KeyboardInterrupt:
            self._on_interrupt()
            return
        except EOFError:
            self.leaving = True
            return
        if self._question is not None:
            self._answer(line.strip())
            return
        if self._asked is not None:
            self._answer_person(line)
            return
        try:
            await self.handle(line)
        except KakiteError as error:
            self.view.fail(error.message)
            if error.hint:
                self.view.note(error.hint)

    def _answer(self, typed: str) -> None:
        """Answer the open question with what was typed: a letter, or the reason of a no."""
        if self._question is None or not typed:
            return
        question, answer = self._question
        if answer.done():
            return
        match typed.lower():
            case "y" | "yes":
                answer.set_result(ApprovalResponse(allowed=True))
            case "a":
                answer.set_result(ApprovalResponse(allowed=True, remember="tool"))
            case "s" if question.saves:
                answer.set_result(ApprovalResponse(allowed=True, remember="always"))
            case "n" | "no":
                answer.set_result(ApprovalResponse(allowed=False, reason="the person said no"))
            case _:
                answer.set_result(ApprovalResponse(allowed=False, reason=f"the person said: {typed}"))

    def _on_interrupt(self) -> None:
        """Leave a question without an answer; else end the turn; without one, leave at the second time."""
        if self._asked is not None:
            self._answer_person(None)
            return
        if self.is_running and self.session is not None:
            self.session.interrupt()
            return
        now = time.monotonic()
        if now - self._leave_pressed < LEAVE_WITHIN:
            self.leaving = True
        else:
            self._leave_pressed = now
            self.view.note("Press Ctrl-C again to leave.")

    async def set_mode(self, mode: str) -> None:
        """Say what goes without a question."""
        (await self.get_session()).set_mode(cast("SessionMode", mode))
        self._refresh()

    async def set_model(self, name: str) -> None:
        """Talk to another model.

        Raises:
            KakiteError: there is no such provider, or its key is missing.
        """
        session = await self.get_session()
        base_url, model = await asyncio.to_thread(open_other_model, session.run.task, name)
        session.set_model(name, base_url, model)

    async def edit_text(self, text: str) -> str:
        """Let the person change a text in their editor."""
        editing: PromptSession[str] = PromptSession(multiline=True, enable_open_in_editor=True)

        def open_editor() -> None:
            editing.default_buffer.open_in_editor(validate_and_handle=True)

        return await editing.prompt_async("", default=text, pre_run=open_editor)

    async def _tick(self) -> None:
        """Let the seconds of what is under way go on."""
        while True:
            await asyncio.sleep(1)
            if self.view.doing:
                self._refresh()

    def _refresh(self) -> None:
        if self._prompt.app.is_running:
            self._prompt.app.invalidate()

    def _build_prompt(self) -> PromptSession[str]:
        folder = ensure_state_folder(os.environ)
        prompt: PromptSession[str] = PromptSession(
            message=self._format_message,
            bottom_toolbar=self._format_toolbar,
            history=FileHistory(str(folder / "chat-history")),
            completer=_ChatCompleter(self),
            complete_while_typing=Condition(self._should_complete),
            complete_in_thread=True,
            enable_open_in_editor=True,
            key_bindings=self._build_keys(),
            prompt_continuation="  ",
            multiline=False,
        )
        prompt.app.ttimeoutlen = 0.05  # Esc alone is a key of ours
        return prompt

    def _should_complete(self) -> bool:
        text = self._prompt.default_buffer.document.text_before_cursor
        return text.startswith("/") or _MENTION.search(text) is not None

    def _format_message(self) -> FormattedText:
        live = self.view.format_live(shutil.get_terminal_size().columns)
        lines = [("class:live", f"{live}\n")] if live else []
        if self._question is not None:
            saves = self._question[0].saves
            always = f" · s always: {format_rule_scope(saves)}" if saves else ""
            lines.append(
                ("bold", f"Allow this? y yes · a this tool from now on{always} · n no · or say why not\n")
            )
        elif self._asked is not None:
            lines.append(("bold", "Type a number, or your own answer · Esc gives none\n"))
        return FormattedText([*lines, ("bold ansicyan", "› ")])

    def _format_toolbar(self) -> str:
        parts = [self._get_mode()]
        if self.prepared is not None:
            parts.append(self.prepared.run.task.model)
        used, window = self.view.used
        if window:
            parts.append(f"context {used * 100 // window} %")
        if self.view.cost:
            parts.append(f"${self.view.cost:.2f}")
        parts.append("Esc stops" if self.is_running else "/help")
        return " · ".join(parts)

    def _get_mode(self) -> str:
        if self.session is not None:
            return self.session.mode
        return self.prepared.run.task.approve if self.prepared else ""

    def _build_answer_key(self, letter: str) -> Callable[[Any], None]:
        def answer(_event: Any) -> None:
            self._answer(letter)

        return answer

    def _build_keys(self) -> KeyBindings:
        keys = KeyBindings()
        asking = Condition(lambda: self._question is not None and not self._prompt.default_buffer.text)

        @keys.add("escape")
        def _stop(_event: Any) -> None:
            if self.is_running:
                self._on_interrupt()

        @keys.add("s-tab")
        def _next_mode(event: Any) -> None:
            later = _MODES[(_MODES.index(self._get_mode()) + 1) % len(_MODES)]
            event.app.create_background_task(self.set_mode(later))

        @keys.add("c-o")
        def _unfold(_event: Any) -> None:
            self.view.show_last_call()

        @keys.add("escape", "enter")
        @keys.add("c-j")
        def _new_line(event: Any) -> None:
            event.current_buffer.insert_text("\n")

        for letter in "yasn":
            keys.add(letter, filter=asking, eager=True)(self._build_answer_key(letter))
        return keys


class _ChatCompleter(Completer):
    """Completes the names of commands, and of files after ``@``."""

    def __init__(self, terminal: ChatTerminal) -> None:
        self._terminal = terminal
        self._paths: Sequence[str] = ()
        self._looked = -PATHS_MAX_AGE

    def get_completions(self, document: Document, complete_event: Any) -> Iterable[Completion]:  # noqa: ARG002 - the library's
        """Yield what the word before the cursor may become."""
        text = document.text_before_cursor
        if text.startswith("/") and " " not in text:
            for name, command in COMMANDS.items():
                if name.startswith(text[1:]):
                    yield Completion(f"/{name}", start_position=-len(text), display_meta=command.help)
            yield from self._complete_own(text)
        elif mention := _MENTION.search(text):
            yield from self._complete_mention(mention[1])

    def _complete_own(self, text: str) -> Iterable[Completion]:
        prepared = self._terminal.prepared
        for command in prepared.context.commands if prepared else ():
            if command.name.startswith(text[1:]):
                yield Completion(
                    f"/{command.name}", start_position=-len(text), display_meta=command.description
                )

    def _complete_mention(self, typed: str) -> Iterable[Completion]:
        for path in complete_mention(typed, self._list_paths()):
            yield Completion(format_mention(path), start_position=-len(typed) - 1, display=path)

    def _list_paths(self) -> Sequence[str]:
        """Return the paths of the project, looked up again now and then."""
        prepared, now = self._terminal.prepared, time.monotonic()
        if prepared is not None and now - self._looked > PATHS_MAX_AGE:
            self._paths, self._looked = list_paths(prepared.context.project), now
        return self._paths
