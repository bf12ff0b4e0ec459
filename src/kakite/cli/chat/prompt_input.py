"""The line at the bottom of the terminal: its keys, completion, history, and what stands around it."""

from __future__ import annotations

import os
import re
import sys
import termios
import time
from collections.abc import Generator
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from prompt_toolkit import PromptSession
from prompt_toolkit.application import in_terminal
from prompt_toolkit.completion import Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.input import create_input
from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPress
from prompt_toolkit.keys import Keys
from prompt_toolkit.patch_stdout import StdoutProxy

from kakite.cli.chat.git_branch import read_branch
from kakite.cli.chat.line_input import edit_text
from kakite.cli.chat.pasted_pictures import PastedPictures
from kakite.cli.chat.pasted_texts import PastedTexts
from kakite.cli.chat.slash_commands import COMMANDS
from kakite.cli.chat.status_line import StatusLine, wrap_parts
from kakite.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prompt_toolkit.buffer import Buffer

    from kakite.agent.session.session_context import SessionContext
    from kakite.cli.chat.view import ChatView
    from kakite.tools.toolset import Image

PATHS_MAX_AGE = 5.0
"""Seconds that the list of the project's files is used for completion."""
BRANCH_MAX_AGE = 2.0
"""Seconds that the name of the branch is shown before it is read again."""
REDRAW_INTERVAL = 0.04
"""Seconds between two drawings of the line at least: text that streams does not slow down typing."""
ESCAPE_TIMEOUT = 0.1
"""Seconds that Esc waits for a key that would make another one of both, as Alt-Enter."""
SEQUENCE_TIMEOUT = 2.0
"""Seconds that Ctrl-X waits for the key that belongs to it."""
ANSWERS = frozenset({"y", "yes", "a", "s", "n", "no"})
"""Lines that answer a question about a call; any other line is the reason of a no."""
_MENTION = re.compile(r'(?:^|\s)@("?[^\s"]*)$')


class PromptOwner(Protocol):
    """What the line shows, and what its keys do."""

    view: ChatView

    @property
    def project(self) -> Path:
        """The folder of the session."""
        ...

    @property
    def context(self) -> SessionContext | None:
        """Commands and files; None: not loaded yet."""
        ...

    @property
    def is_running(self) -> bool:
        """Whether something is at work that Esc stops."""
        ...

    @property
    def is_at_work(self) -> bool:
        """Whether the model is at work."""
        ...

    @property
    def has_waiting(self) -> bool:
        """Whether a message waits for the model, or for its next turn."""
        ...

    @property
    def choices(self) -> str:
        """How the open question can be answered; empty: nothing is asked, or not yet to be answered."""
        ...

    @property
    def question_hint(self) -> str:
        """How the model's own question can be answered; empty: there is none."""
        ...

    @property
    def background_jobs(self) -> int:
        """How many commands the model has in the background."""
        ...

    @property
    def mode(self) -> str:
        """What goes without a question."""
        ...

    @property
    def model(self) -> str:
        """The model's name."""
        ...

    def take_back_last(self) -> None:
        """Put the last message that waits for the model, or for its next turn, back into the line."""
        ...

    def queue_line(self, text: str) -> None:
        """Send a line once the turn that runs has ended."""
        ...

    def on_draft_cleared(self) -> None:
        """Learn that the line that was begun is empty again, and was not sent."""
        ...

    def on_interrupt(self) -> None:
        """Do what Ctrl-C means."""
        ...

    def stop_work(self) -> None:
        """Do what Esc means."""
        ...

    def change_mode(self) -> None:
        """Go to the next mode."""
        ...


class _TextAbove(StdoutProxy):
    """Writes what is printed above the line; a thread does it, a moment later."""

    def drain(self) -> None:
        """Wait until what was printed so far is on the terminal."""
        self.close()
        self._flush_thread = self._start_write_thread()
        self.closed = False


class PromptInput:
    """A line editor that stays at the bottom while text scrolls above it. A LineInput."""

    def __init__(self, owner: PromptOwner, history: Path) -> None:
        self._owner = owner
        self._branch, self._branch_read = "", -BRANCH_MAX_AGE
        self._keyboard = create_input()
        # The library gives the terminal back while text is written above the line: what is typed in that
        # moment would be echoed, and Enter would come as a new line.
        self._keyboard.cooked_mode = nullcontext
        self._text_above: _TextAbove | None = None
        self._given: list[Any] = []
        """The settings of the terminal as it was given to us."""
        self._draft = ""
        """What the next line begins with."""
        self._pasted = PastedTexts()
        self._pictures = PastedPictures()
        self._prompt = self._build_prompt(history)

    @property
    def has_draft(self) -> bool:
        """Whether a line was begun and not sent."""
        return bool(self._prompt.default_buffer.text)

    @contextmanager
    def open(self) -> Generator[None]:
        """Let everything that is written appear above the line."""
        self._text_above = proxy = _TextAbove(sleep_between_writes=REDRAW_INTERVAL, raw=True)
        self._given = termios.tcgetattr(sys.stdin)
        try:
            _keep_keys(self._given)
            self._take_earlier_keys()
            with proxy, redirect_stdout(proxy), redirect_stderr(proxy):
                yield
        finally:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._given)

    def _take_earlier_keys(self) -> None:
        """Take what was typed before we had the terminal, which made a new line of each Enter."""
        enter = KeyPress(Keys.ControlM, "\r")
        keys = (enter if press.key == Keys.ControlJ else press for press in self._keyboard.read_keys())
        store_typeahead(self._keyboard, list(keys))

    async def read_line(self) -> str:
        """Return the next line."""
        draft, self._draft = self._draft, ""
        return self._pasted.unfold(await self._prompt.prompt_async(default=draft, handle_sigint=False))

    def add_draft(self, text: str) -> None:
        """Put a text into the line, before what stands there."""
        if self._prompt.app.is_running:
            buffer = self._prompt.default_buffer
            buffer.document = Document("\n".join(filter(None, (text, buffer.text))))
        else:  # for the line that is read next
            self._draft = "\n".join(filter(None, (text, self._draft)))

    def find_images(self, line: str) -> Sequence[Image]:
        """Return the pictures that were pasted into a line."""
        return self._pictures.find_images(line)

    def clear_draft(self) -> None:
        """Empty the line that was begun; what is more than a short answer stays in the history."""
        buffer = self._prompt.default_buffer
        typed = buffer.text.strip().lower()
        if not (typed in ANSWERS or typed.isdecimal()):
            buffer.append_to_history()
        buffer.reset()

    async def read_answer(self, question: str) -> str:
        """Ask for one line, with a history of its own."""
        if self._text_above is not None:  # the question is about it: a quick answer must not come before it
            self._text_above.drain()
        asking: PromptSession[str] = PromptSession(history=InMemoryHistory(), input=self._keyboard)
        with suppress(EOFError, KeyboardInterrupt):
            return (await asking.prompt_async(f"{question} ", handle_sigint=False)).strip()
        return ""

    def refresh(self) -> None:
        """Draw the line again, with what stands around it."""
        if self._prompt.app.is_running:
            self._prompt.app.invalidate()

    def stop(self) -> None:
        """Give an empty line."""
        app = self._prompt.app
        if app.is_running and not app.is_done:
            app.exit(result="")

    async def edit(self, text: str) -> str:
        """Let the person change a text in their editor, which gets the terminal as it was."""
        ours = termios.tcgetattr(sys.stdin)
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._given)
        try:
            return await edit_text(text)
        finally:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, ours)

    async def _edit_line(self, buffer: Buffer) -> None:
        async with in_terminal():
            try:
                text = await self.edit(self._pasted.unfold(buffer.text))
            except UsageError as error:
                self._owner.view.fail(error.message)
                return
        buffer.document = Document(text)

    def _build_prompt(self, history: Path) -> PromptSession[str]:
        prompt: PromptSession[str] = PromptSession(
            input=self._keyboard,
            message=self._format_message,
            bottom_toolbar=self._format_toolbar,
            history=_MessageHistory(str(history), self._owner, self._pasted),
            completer=_ChatCompleter(self._owner),
            complete_while_typing=Condition(self._should_complete),
            complete_in_thread=True,
            key_bindings=self._build_keys(),
            prompt_continuation="  ",
            multiline=False,
            erase_when_done=True,  # who sends a line shows it
        )
        app = prompt.app
        app.ttimeoutlen, app.timeoutlen = ESCAPE_TIMEOUT / 2, SEQUENCE_TIMEOUT
        app.min_redraw_interval = REDRAW_INTERVAL

        def set_timeout(_sender: object) -> None:
            begun = app.key_processor.key_buffer
            waits = ESCAPE_TIMEOUT if begun and begun[0].key == Keys.Escape else SEQUENCE_TIMEOUT
            app.timeoutlen = waits

        def note_change(buffer: Buffer) -> None:
            if not buffer.text:
                self._owner.on_draft_cleared()

        app.key_processor.after_key_press += set_timeout
        prompt.default_buffer.on_text_changed += note_change
        return prompt

    def _should_complete(self) -> bool:
        text = self._prompt.default_buffer.document.text_before_cursor
        return text.startswith("/") or _MENTION.search(text) is not None

    def _find_pasted(self) -> str:
        before = self._prompt.default_buffer.document.text_before_cursor
        return self._pasted.find_word(before) or self._pictures.find_word(before)

    def _fold_pasted(self, text: str) -> str:
        """Return what stands in the line for a pasted text."""
        word, problems = self._pictures.fold(text)
        for problem in problems:
            self._owner.view.warn(str(problem))
        return word or self._pasted.fold(text)

    @property
    def _can_queue(self) -> bool:
        """Whether Tab keeps the line for the next turn: there it completes nothing."""
        menu = self._prompt.default_buffer.complete_state
        return self._owner.is_at_work and self.has_draft and menu is None and not self._should_complete()

    def _is_path_selected(self) -> bool:
        buffer = self._prompt.default_buffer
        menu = buffer.complete_state
        return menu is not None and menu.current_completion is not None and not buffer.text.startswith("/")

    def _format_message(self) -> FormattedText:
        asked = self._owner.choices
        live = self._owner.view.format_live(_get_columns(), doing=not asked)
        style = "fg:ansibrightblack" if self._owner.view.is_thinking else "class:live"
        lines = [(style, f"{live}\n")] if live else []
        if told := asked or self._owner.question_hint:
            lines.append(("bold", f"{wrap_parts(told, _get_columns())}\n"))
        return FormattedText([*lines, ("bold ansicyan", "› ")])

    def _format_toolbar(self) -> str:
        owner = self._owner
        used, window = owner.view.used
        hint = "Tab queues" if self._can_queue else "Esc stops" if owner.is_running else "/help"
        status = StatusLine(
            mode=owner.mode,
            model=owner.model,
            context=f"context {used * 100 // window} %" if window else "",
            cost=f"${owner.view.cost:.2f}" if owner.view.cost else "",
            background=owner.background_jobs,
            branch=self._read_branch(),
            hint=hint,
        )
        return status.format(_get_columns())

    def _read_branch(self) -> str:
        now = time.monotonic()
        if now - self._branch_read > BRANCH_MAX_AGE:
            self._branch, self._branch_read = read_branch(self._owner.project), now
        return self._branch

    def _build_keys(self) -> KeyBindings:
        keys, owner = KeyBindings(), self._owner

        @keys.add("escape")
        def _stop(_event: Any) -> None:
            owner.stop_work()

        @keys.add("c-c")
        def _interrupt(event: Any) -> None:
            if self.has_draft and not owner.is_running:
                event.current_buffer.reset()
                owner.on_draft_cleared()
            else:
                owner.on_interrupt()

        @keys.add("s-tab")
        def _next_mode(_event: Any) -> None:
            owner.change_mode()

        @keys.add("c-o")
        def _unfold(_event: Any) -> None:
            owner.view.show_last_folded()

        @keys.add("tab", filter=Condition(lambda: self._can_queue))
        def _queue(event: Any) -> None:
            text = self._pasted.unfold(event.current_buffer.text)
            event.current_buffer.append_to_history()
            event.current_buffer.reset()
            owner.queue_line(text)

        @keys.add("up", filter=Condition(lambda: owner.has_waiting and not self.has_draft))
        def _take_back(_event: Any) -> None:
            owner.take_back_last()

        self._add_editing_keys(keys)
        return keys

    def _add_editing_keys(self, keys: KeyBindings) -> None:
        @keys.add("escape", "enter")
        @keys.add("c-j")
        def _new_line(event: Any) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("enter", filter=Condition(self._is_path_selected))
        def _take_path(event: Any) -> None:
            event.current_buffer.complete_state = None

        @keys.add(Keys.BracketedPaste)
        def _paste(event: Any) -> None:
            text = event.data.replace("\r\n", "\n").replace("\r", "\n")
            event.current_buffer.insert_text(self._fold_pasted(text))

        @keys.add("backspace", filter=Condition(lambda: bool(self._find_pasted())))
        def _delete_pasted(event: Any) -> None:
            event.current_buffer.delete_before_cursor(len(self._find_pasted()))

        @keys.add("c-x", "c-e")
        def _open_editor(event: Any) -> None:
            event.app.create_background_task(self._edit_line(event.current_buffer))


def _keep_keys(given: list[Any]) -> None:
    """Let no key be echoed or changed also between two lines; Ctrl-C stays a signal there."""
    iflag, oflag, cflag, lflag, *rest = given
    lflag &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN)
    termios.tcsetattr(sys.stdin, termios.TCSADRAIN, [iflag & ~termios.ICRNL, oflag, cflag, lflag, *rest])


def _get_columns() -> int:
    """Return the width of the terminal, as it is now."""
    try:
        return os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ else 1).columns or 80
    except (OSError, ValueError):
        return 80


class _MessageHistory(FileHistory):
    """Keeps the lines that a person may want again, and no letter that answered a question."""

    def __init__(self, filename: str, owner: PromptOwner, pasted: PastedTexts) -> None:
        super().__init__(filename)
        self._owner = owner
        self._pasted = pasted

    def append_string(self, string: str) -> None:
        """Keep a line."""
        if not (self._owner.choices and string.strip().lower() in ANSWERS):
            super().append_string(self._pasted.unfold(string))


class _ChatCompleter(Completer):
    """Completes the names of commands, and of files after ``@``."""

    def __init__(self, owner: PromptOwner) -> None:
        self._owner = owner
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
        context = self._owner.context
        for command in context.commands if context else ():
            if command.name.startswith(text[1:]) and command.name not in COMMANDS:
                yield Completion(
                    f"/{command.name}", start_position=-len(text), display_meta=command.description
                )

    def _complete_mention(self, typed: str) -> Iterable[Completion]:
        from kakite.agent.session.context import complete_mention
        from kakite.agent.session.context.mention_syntax import format_mention

        for path in complete_mention(typed, self._list_paths()):
            yield Completion(format_mention(path), start_position=-len(typed) - 1, display=path)

    def _list_paths(self) -> Sequence[str]:
        """Return the paths of the project, looked up again now and then."""
        from kakite.agent.session.context import list_paths

        context, now = self._owner.context, time.monotonic()
        if context is not None and now - self._looked > PATHS_MAX_AGE:
            self._paths, self._looked = list_paths(context.project), now
        return self._paths
