"""Asks a person at a terminal: to approve a call, to fill in a server's form, or yes or no.

A call is shown with every argument whole, and so that none can look like another.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import re
import sys
import termios
import webbrowser
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import date, datetime
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, cast

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from kakite.cli.console import escape_control, escape_one_line, format_value, wrap_rows
from kakite.cli.exit_codes import InputEndedError
from kakite.terminal_text import find_lookalike_letters, find_lookalike_words

if TYPE_CHECKING:
    from kakite.host import ApprovalRequest, ApprovalResponse, Rule
    from kakite.host.server.client_features import Elicitation, ElicitationResult


DIFF_HEADING = "  What it changes:"
"""Before the diff. No argument begins so: a name with blanks is quoted."""

_LONG_ROWS = 20
_READ_CHARS = 20_000  # of an argument in which letters that look alike are looked for
_LOOKALIKES = 5  # words of an argument that are told
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_STYLES: Mapping[str, str] = {"+": "green", "-": "red", "@": "cyan"}


def render_question_rows(question: ApprovalRequest, width: int, note: str = "") -> Iterator[Text]:
    """Yield what is asked, in rows of a terminal with so many cells; ``note`` is what we say of the call."""
    name = question.tool or question.call.name
    of = f"  of the server {escape_one_line(question.server)}" if question.server else ""
    head, *further = wrap_rows(f"{escape_one_line(name)}{of}", width, first="")
    yield Text.assemble((head, "bold"))
    yield from map(Text, further)
    arguments = question.call.arguments.items()
    rendered = [[*_render_argument_rows(argument, value, width)] for argument, value in arguments]
    # A long one goes before the others: what scrolls away is then its own beginning, and nothing short.
    for rows in sorted(rendered, key=lambda rows: len(rows) <= _LONG_ROWS):
        yield from rows
    for line in (*_describe_lookalikes(question.call.arguments), *note.splitlines()):
        yield from _render_note_rows(line, width)
    if question.folder is not None:
        where = escape_one_line(question.folder) or "an unknown folder"
        yield from _render_note_rows(f"Relative paths start in {where}: an earlier call moved there.", width)
    if question.outside:
        names = ", ".join(map(escape_one_line, question.outside))
        yield from _render_note_rows(
            f"Kakite asks again, because text from outside came in through {names}.", width
        )
    if question.diff:
        yield Text(DIFF_HEADING, style="cyan")
        yield from render_diff_rows(question.diff, width)


def _describe_lookalikes(arguments: Mapping[str, object]) -> Iterator[str]:
    """Yield what a person may read wrongly in arguments, such as paths and commands."""
    for name, value in arguments.items():
        texts = cast("list[object]", value) if isinstance(value, list) else [value]
        for text in (each for each in texts if isinstance(each, str)):
            for word in find_lookalike_words(text[:_READ_CHARS])[:_LOOKALIKES]:
                codes = ", ".join(f"{each} is U+{ord(each):04X}" for each in find_lookalike_letters(word))
                yield f"Look twice at `{word}` in {escape_one_line(name)}: {codes}, not a Latin letter."


def render_text_rows(text: str, width: int) -> Iterator[Text]:
    """Yield a text from elsewhere in rows that nobody takes for ours."""
    for line in escape_control(text).split("\n"):
        yield from map(Text, wrap_rows(line.expandtabs(), width))


def render_named_rows(name: str, lines: list[str], width: int) -> Iterator[Text]:
    """Yield a name and what it stands for: on one row if that is possible, else below."""
    beside = [*wrap_rows(f"{name}: {lines[0]}", width, first="  ")]
    if len(lines) == len(beside) == 1 and lines[0][:1] != " ":
        yield Text.assemble((f"  {name}: ", "cyan"), lines[0])
        return
    for row in wrap_rows(f"{name}:", width, first="  "):
        yield Text(row, style="cyan")
    for line in lines:
        yield from map(Text, wrap_rows(line, width))


def _render_argument_rows(name: str, value: object, width: int) -> Iterator[Text]:
    plain = _PLAIN_NAME.fullmatch(name)
    shown = name if plain else escape_one_line(json.dumps(name, ensure_ascii=False))
    yield from render_named_rows(shown, format_value(value), width)


def render_diff_rows(diff: str, width: int) -> Iterator[Text]:
    """Yield a diff in rows of a terminal with so many cells, in colours."""
    for line in escape_control(diff).split("\n"):
        style = _STYLES.get(line[:1], "")
        yield from (Text(row, style=style) for row in wrap_rows(line.expandtabs(), width))


def _render_note_rows(text: str, width: int) -> Iterator[Text]:
    return (Text(row, style="yellow") for row in wrap_rows(text, width, first="  "))


_ONCE = [("y", "yes, only this call"), ("n", "no")]
_SESSION = [
    ("e", "yes, and the same call again in this run"),
    ("a", "yes, and this tool from now on in this run"),
]
_CHOICE_ROWS = 8  # rows of the frame and the choices
_PAGE_ROWS = 4  # rows below a page
_REASON = ("r", "no, and tell the model why")
_MEANING = {
    "y": "allow only this call; Kakite asks you again about the next one",
    "e": "allow this call, and in this run every call of this tool with exactly these arguments",
    "a": "allow this call, and in this run every other call of this tool",
    "s": "allow this from now on: Kakite saves a rule, which `kakite host rules` lists and removes",
    "n": "do nothing, and tell the model that you said no",
    "r": "do nothing, and tell the model your reason, which Kakite asks you for",
}
_YES_NO = {"y": "yes", "n": "no"}
_OPEN_CHOICES = {"y": "open exactly this address", "n": "open nothing, and tell the server that you refuse"}
_SEND_CHOICES = {"y": "send it", "n": "send nothing, and tell the server that you left off"}
_ELICIT_CHOICES = [("y", "answer"), ("n", "refuse to answer"), ("c", "not now")]
_ELICIT_MEANINGS = {
    "y": "fill it in; you see all of it before Kakite sends it",
    "n": "tell the server that you refuse",
    "c": "tell the server that you said neither yes nor no",
}


def is_interactive() -> bool:
    """Return whether there is a person at a terminal to be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _format_scope(rule: Rule) -> str:
    from kakite.host.policy.rules import describe_scope

    return escape_one_line(describe_scope(rule))


def _do_nothing() -> None:
    """Do nothing."""


class TerminalPrompter:
    """A person at a terminal. An Approver and an Elicitor."""

    def __init__(
        self,
        console: Console | None = None,
        *,
        session: bool = True,
        interrupts: bool = False,
        before: Callable[[], None] = _do_nothing,
    ) -> None:
        """Ask on standard error.

        Args:
            console: where to.
            session: whether more than one call may come, so that an answer can hold for others.
            interrupts: whether the end of the input (Ctrl-D) at a question about a call raises
                ``InputEndedError``; else it is a no.
            before: called before every question.
        """
        self.console = console or Console(stderr=True, highlight=False, soft_wrap=True)
        self._session = session
        self._interrupts = interrupts
        self._before = before
        self._turn = asyncio.Lock()  # one question at a time has the keyboard

    async def ask(self, question: ApprovalRequest, note: str = "") -> ApprovalResponse:
        """Ask the person about a call; the note of ours stands below its arguments."""
        from kakite.host import ApprovalResponse
        from kakite.host.policy.approver import DEFAULT_DENIAL_REASON

        async with self._turn:
            try:
                return await self._ask(question, note)
            except InputEndedError:
                if self._interrupts:
                    raise
                self.console.print()
                return ApprovalResponse(allowed=False, reason=DEFAULT_DENIAL_REASON)

    async def _ask(self, question: ApprovalRequest, note: str) -> ApprovalResponse:
        from kakite.host import ApprovalResponse
        from kakite.host.policy.approver import DEFAULT_DENIAL_REASON

        self._print_title("May this run?")
        self._show_call(question, note)
        choices = self._list_choices(question)
        self._show_choices(choices)
        while True:
            match (await self._read("[bold yellow]>[/] ")).lower():
                case "y" | "yes":
                    return ApprovalResponse(allowed=True)
                case "e" if self._session:
                    return ApprovalResponse(allowed=True, remember="same_arguments")
                case "a" if self._session:
                    return ApprovalResponse(allowed=True, remember="tool")
                case "s" if question.saves:
                    if (rule := await self._choose_rule(question)) is not None:
                        return ApprovalResponse(allowed=True, remember="always", rule=rule)
                case "n" | "no":
                    return ApprovalResponse(allowed=False, reason=DEFAULT_DENIAL_REASON)
                case "r":
                    return ApprovalResponse(
                        allowed=False, reason=f"the person said: {await self._read('Why not? ')}"
                    )
                case typed:
                    self._explain(typed, {letter: _MEANING[letter] for letter, _ in choices})

    async def _choose_rule(self, question: ApprovalRequest) -> Rule | None:
        """Return the rule to save, of those that there are, the narrowest first; None: none after all."""
        assert question.saves is not None
        rules = [*reversed(question.narrower), question.saves]
        if len(rules) == 1:
            return question.saves
        self._show_choices([(str(n), escape(_format_scope(rule))) for n, rule in enumerate(rules, 1)])
        typed = await self._read("Save a rule for which of these? Enter: none [bold yellow]>[/] ")
        chosen = {str(n): rule for n, rule in enumerate(rules, 1)}.get(typed)
        if chosen is None:
            self.console.print("Saved nothing. May this run?")
        return chosen

    def _explain(self, typed: str, meaning: Mapping[str, str]) -> None:
        """Say what each letter does if `?` was typed, else which letters there are."""
        if typed == "?":
            self._show_choices([*meaning.items()])
        else:
            letters = ", ".join(meaning)
            self.console.print(f"Please answer with one of the letters: {letters}; ? explains them.")

    async def confirm(self, text: str, meaning: Mapping[str, str] = _YES_NO) -> bool:
        """Ask for yes or no; the text is shown as it is, what does not show included. Ctrl-D is a no.

        ``meaning`` is what `?` explains, by key.
        """
        async with self._turn:
            try:
                return await self._confirm(text, meaning)
            except InputEndedError:
                self.console.print()
                return False

    async def show_pages(self, rows: Iterable[str]) -> bool:
        """Show rows a screen at a time; say whether the person saw all. `n` and Ctrl-D leave off."""
        async with self._turn:
            shown = list(rows)
            page = max(self.console.height - _PAGE_ROWS, 1)
            for start in range(0, len(shown), page):
                self._show(map(Text.from_ansi, shown[start : start + page]))
                left = len(shown) - start - page
                if left <= 0:
                    break
                try:
                    typed = await self._read(
                        f"[bold yellow]-- {left:,} more rows: Enter shows them, n leaves off --[/] "
                    )
                except InputEndedError:
                    self.console.print()
                    return False
                if typed.lower() in {"n", "no", "q"}:
                    return False
            return True

    async def _confirm(self, text: str, meaning: Mapping[str, str]) -> bool:
        self._before()
        shown = [
            row for line in escape_control(text).split("\n") for row in wrap_rows(line, self._width, first="")
        ]
        while True:
            match (await self._read(f"{escape(chr(10).join(shown))} [bold yellow](y/n)[/] ")).lower():
                case "y" | "yes":
                    return True
                case "n" | "no":
                    return False
                case typed:
                    self._explain(typed, meaning)

    async def elicit(self, asked: Elicitation) -> ElicitationResult:
        """Ask the person what a server wants to know. Ctrl-D, whenever it comes, declines."""
        from kakite.host.server.client_features import ElicitationResult

        async with self._turn:
            try:
                return await self._elicit(asked)
            except InputEndedError:
                self.console.print()
                return ElicitationResult(action="decline")

    async def _elicit(self, asked: Elicitation) -> ElicitationResult:
        from kakite.host.server.client_features import ElicitationResult

        self._print_title(f"The server {escape_one_line(asked.server)} asks you")
        self._show(render_text_rows(asked.message, self._width))
        if asked.url:
            return await self._open_url(asked.url)
        self._show_choices(_ELICIT_CHOICES)
        if (declined := await self._read_decline()) is not None:
            return declined
        properties = cast("Mapping[str, Any]", (asked.schema or {}).get("properties", {}))
        required = cast("list[str]", (asked.schema or {}).get("required", []))
        content: dict[str, Any] = {}
        for name, schema in properties.items():
            value = await self._ask_field(name, schema, needed=name in required)
            if value is not None:
                content[name] = value
        shown = json.dumps(content, ensure_ascii=False, indent=2)
        if await self._confirm(f"{shown}\nSend this to {asked.server}?", _SEND_CHOICES):
            return ElicitationResult(action="accept", content=content)
        return ElicitationResult(action="cancel")

    async def _read_decline(self) -> ElicitationResult | None:
        from kakite.host.server.client_features import ElicitationResult

        while True:
            match (await self._read("[bold yellow]>[/] ")).lower():
                case "y" | "yes":
                    return None
                case "n" | "no":
                    return ElicitationResult(action="decline")
                case "c":
                    return ElicitationResult(action="cancel")
                case typed:
                    self._explain(typed, _ELICIT_MEANINGS)

    async def _open_url(self, url: str) -> ElicitationResult:
        from kakite.host.clean_text import get_display_host
        from kakite.host.server.client_features import ElicitationResult

        self._show(render_named_rows("at", [escape_one_line(get_display_host(url))], self._width))
        self._show(render_named_rows("whole address", [escape_one_line(url)], self._width))
        if not await self._confirm("Open it in your browser?", _OPEN_CHOICES):
            return ElicitationResult(action="decline")
        await asyncio.to_thread(webbrowser.open, url)
        return ElicitationResult(action="accept")

    async def _ask_field(self, name: str, schema: Mapping[str, Any], *, needed: bool) -> Any:
        told = str(schema.get("title") or name)
        about = [str(schema["description"])] if schema.get("description") else []
        about += [hint] if (hint := _format_hint(schema)) else []
        default = schema.get("default")
        about += [f"default {json.dumps(default, ensure_ascii=False)}"] if default is not None else []
        about += [] if needed or default is not None else ["empty: leave out"]
        prompt = self._format_prompt(escape_one_line(told), escape_one_line("; ".join(about)))
        while True:
            typed = await self._read(prompt)
            if not typed and (default is not None or not needed):
                return default
            try:
                return _parse_answer(typed, schema)
            except ValueError as error:
                self.console.print(Text(escape_control(str(error)), style="red"))

    def _format_prompt(self, name: str, about: str) -> str:
        """Return a prompt of one row; what is too long for that is shown before."""
        whole = f"{name} ({about}): " if about else f"{name}: "
        if len([*wrap_rows(whole, self._width, first="")]) == 1:
            return f"{escape(name)} [dim]({escape(about)})[/]: " if about else f"{escape(name)}: "
        self._show(render_text_rows(whole, self._width))
        return "[bold yellow]>[/] "

    def _list_choices(self, question: ApprovalRequest) -> list[tuple[str, str]]:
        reach = "" if question.saves is None else escape(_format_scope(question.saves))
        more = ", or for less: Kakite asks which" if question.narrower else ""
        always = [("s", f"yes, always: save a rule for {reach}{more}")] if question.saves else []
        return [_ONCE[0], *(_SESSION if self._session else []), *always, _ONCE[1], _REASON]

    def _print_title(self, title: str) -> None:
        self._before()
        self.console.rule(Text(title, style="bold"), style="yellow")

    def _show_choices(self, choices: list[tuple[str, str]]) -> None:
        for letter, meaning in choices:
            self.console.print(f"  [bold]{letter}[/] {meaning}")

    async def _read(self, prompt: str) -> str:
        flush_input()  # the question is on the screen now: what was typed before answers nothing
        self.console.print(prompt, end="", emoji=False)
        return (await read_line()).strip()

    def _show_call(self, question: ApprovalRequest, note: str = "") -> None:
        shown = [*render_question_rows(question, self._width, note)]
        self._show(shown)
        if len(shown) > self.console.height - _CHOICE_ROWS:
            self.console.print(Text(f"  Scroll up: the question has {len(shown):,} rows.", style="yellow"))
            name = escape_one_line(question.tool or question.call.name)
            of = f" of the server {escape_one_line(question.server)}" if question.server else ""
            self._show(_render_note_rows(f"It is about {name}{of}.", self._width))

    def _show(self, shown: Iterable[Text]) -> None:
        for row in shown:
            self.console.print(row, soft_wrap=True)

    @property
    def _width(self) -> int:
        """The number of cells in a row of the screen, as the terminal says now, not the environment."""
        try:
            real = os.get_terminal_size(self.console.file.fileno()).columns
        except (OSError, ValueError):  # no terminal
            return self.console.width
        return min(self.console.width, real or self.console.width)


def _list_options(schema: Mapping[str, Any]) -> dict[str, str]:
    """Return the values to choose from, each with its title; of a list, those of its items."""
    within: Mapping[str, Any] = schema.get("items", {}) if schema.get("type") == "array" else schema
    titled: list[dict[str, Any]] = within.get("oneOf") or within.get("anyOf") or []
    names: list[str] = within.get("enumNames") or []
    values: list[Any] = within.get("enum") or []
    plain = [str(each) for each in values]
    found = dict(zip_longest(plain, names[: len(plain)], fillvalue=""))
    return found | {str(one["const"]): str(one.get("title") or "") for one in titled if "const" in one}


def _format_hint(schema: Mapping[str, Any]) -> str:
    options = _list_options(schema)
    told = ", ".join(f"{value}: {title}" if title else value for value, title in options.items())
    if schema.get("type") == "array":
        return f"one or more of {told}, with commas between" if told else "with commas between"
    if schema.get("type") == "boolean":
        return "y or n"
    return f"one of {told}" if told else ""


def _parse_answer(typed: str, schema: Mapping[str, Any]) -> Any:
    """Return what was typed as the schema wants it.

    Raises:
        ValueError: it cannot be; the message says why.
    """
    from kakite.host.json_schema import Schema

    value = _parse_value(typed, schema)
    _, expected = Schema(dict(schema)).find_violation(value)
    if expected:
        raise ValueError(f"That does not fit: {expected}.")
    _check_format(typed, schema)
    return value


def _parse_value(typed: str, schema: Mapping[str, Any]) -> Any:
    by_title = {title: value for value, title in _list_options(schema).items() if title}
    match schema.get("type"):
        case "boolean":
            if typed.lower() not in {"y", "yes", "true", "n", "no", "false"}:
                raise ValueError("Please answer with y or n.")
            return typed.lower() in {"y", "yes", "true"}
        case "integer":
            return _parse_number(typed, int)
        case "number":
            return _parse_number(typed, float)
        case "array":
            parts = [part.strip() for part in typed.split(",") if part.strip()]
            return [by_title.get(part, part) for part in parts]
        case _:
            return by_title.get(typed, typed)


def _parse_number(typed: str, kind: Callable[[str], float]) -> float:
    try:
        number = kind(typed)
    except ValueError:
        raise ValueError("Please give a number.") from None
    if not math.isfinite(number):
        raise ValueError("Please give a number.")
    return number


_FORMATS: Mapping[str, Callable[[str], object]] = {
    "email": re.compile(r"[^@\s]+@[^@\s]+").fullmatch,
    "uri": re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+").fullmatch,
    "date": date.fromisoformat,
    "date-time": datetime.fromisoformat,
}


def _check_format(typed: str, schema: Mapping[str, Any]) -> None:
    wanted = str(schema.get("format") or "")
    fits = _FORMATS.get(wanted)
    if fits is None:
        return
    try:
        found = fits(typed)
    except ValueError:
        found = None
    if found is None:
        raise ValueError(f"That is not {wanted}.")


def flush_input() -> None:
    """Drop what was typed and not read yet."""
    with suppress(termios.error):  # no terminal, so nobody who types
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


async def read_line() -> str:
    """Read a line from the terminal; cancelling this leaves no thread behind that waits for a key.

    Raises:
        InputEndedError: there will be none.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[str] = loop.create_future()
    loop.add_reader(sys.stdin.fileno(), _make_reader(done))
    try:
        read = await done
    finally:
        loop.remove_reader(sys.stdin.fileno())
    if not read:
        raise InputEndedError
    return read.partition("\n")[0]


def _make_reader(done: asyncio.Future[str]) -> Callable[[], None]:
    def read() -> None:
        if not done.done():
            done.set_result(_read_stdin())

    return read


def _read_stdin() -> str:
    try:
        return os.read(sys.stdin.fileno(), 65536).decode(errors="replace")
    except OSError:  # the terminal was closed
        return ""
