"""A session for a program: ``kakite chat -p``, one answer, or messages and events as JSON lines.

docs/chat.md describes both forms. What a program prints or parses is versioned by ``VERSION``.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, cast

import typer

from kakite.cli.console import escape_control
from kakite.cli.exit_codes import INTERRUPTED
from kakite.errors import KakiteError, UsageError

if TYPE_CHECKING:
    from kakite.agent.observe.events import RunEvent, TurnEndReason
    from kakite.agent.session.person_questions import PersonQuestion
    from kakite.agent.session.prepared import PreparedSession
    from kakite.agent.session.session import Session, TurnResult
    from kakite.agent.session.session_context import SessionContext
    from kakite.host import ApprovalRequest, ApprovalResponse
    from kakite.tools.toolset import Image

Output = Literal["text", "json", "jsonl"]
VERSION = 1
"""Of the JSON lines."""
MAX_LINE_BYTES = 64 << 20
"""Bytes of one line of input: a message may carry pictures."""


class InputError(UsageError):
    """A line of input cannot be used. Code: ``bad_input``."""

    code = "bad_input"


@dataclass(kw_only=True)
class EventPrinter:
    """Prints what happens: the events as JSON lines, or nothing but the answer."""

    output: Output

    def show(self, event: RunEvent) -> None:
        """Print an event, if this output has events. A RunListener."""
        if self.output == "jsonl":
            from kakite.agent.observe.renderers.jsonl import to_json_object

            self.write(to_json_object(event))

    def start(self, prepared: PreparedSession) -> None:
        """Say which session it is."""
        task = prepared.run.task
        head = {"type": "session", "version": VERSION, "id": task.id, "folder": task.folder}
        kinds = {"model": task.model, "mode": task.approve, "sandbox": task.sandbox}
        if self.output == "jsonl":
            self.write({**head, **kinds})
        elif prepared.note:
            typer.echo(prepared.note, err=True)

    def finish(self, session: Session, result: TurnResult, structured: object) -> None:
        """Print the answer."""
        if self.output == "text":
            typer.echo(
                _format_structured(structured) if structured is not None else escape_control(result.text)
            )
            return
        told: dict[str, object] = {
            "type": "result",
            "session": session.run.task.id,
            "reason": result.reason,
            "text": result.text,
            "usage": asdict(session.run.usage),
        }
        if structured is not None:
            told["structured"] = structured
        self.write(told)

    def write(self, value: Mapping[str, object]) -> None:
        """Print a line of JSON."""
        typer.echo(escape_control(json.dumps(value, ensure_ascii=False)))


def _format_structured(value: object) -> str:
    return escape_control(json.dumps(value, ensure_ascii=False, indent=2))


async def answer_once(prepared: PreparedSession, text: str, printer: EventPrinter, schema: Any = None) -> int:
    """Send one message, print the answer, and return the exit code.

    Raises:
        AnswerError: the answer does not fit the schema, also after it was asked for again.
    """
    printer.start(prepared)
    async with prepared.open() as session:
        message = prepared.context.build_message(text)
        if schema is not None:
            asked = f"{message.text}\n\n{_describe_schema(schema)}"
            message = replace(message, text=asked, shown=text)
        result = await session.prompt(message)
        structured = None
        if schema is not None and result.reason == "answered":
            from kakite.agent.session.json_answer import repair_answer

            result, structured = await repair_answer(session, result, schema)
        printer.finish(session, result, structured)
    return to_exit_code(result.reason)


async def converse_in_lines(
    prepared: PreparedSession, printer: EventPrinter, approver: LineApprover, prompt: str = ""
) -> int:
    """Read messages as JSON lines, print events, and return the exit code of the last turn."""
    printer.start(prepared)
    async with prepared.open() as session:
        return await LineSession(session, prepared.context, printer, approver).run(prompt)


def to_exit_code(reason: TurnEndReason) -> int:
    """Return the exit code of a turn that ended so: 0 where the model has answered."""
    return {"answered": 0, "interrupted": INTERRUPTED}.get(reason, 1)


def _describe_schema(schema: Any) -> str:
    return (
        "Your last message must be one JSON value that fits this JSON Schema, and nothing else:\n"
        f"{json.dumps(schema, ensure_ascii=False)}"
    )


@dataclass(kw_only=True)
class LineApprover:
    """Asks the program that reads our lines, and waits for its line with the answer. A PersonApprover."""

    printer: EventPrinter
    waiting: dict[str, asyncio.Future[ApprovalResponse]] = field(
        default_factory=dict[str, "asyncio.Future[ApprovalResponse]"]
    )
    questions: dict[str, asyncio.Future[str | None]] = field(
        default_factory=dict[str, "asyncio.Future[str | None]"]
    )
    """The model's own, by their ids."""
    closed: bool = False
    """Whether nobody answers any more."""

    async def ask(self, question: ApprovalRequest) -> ApprovalResponse:
        """Print the question, and return the answer."""
        from kakite.agent.run.state_machine import describe_question
        from kakite.host import DenyingApprover
        from kakite.host.policy.rules import serialize_rule

        if self.closed:
            return await DenyingApprover().ask(question)
        name = secrets.token_hex(4)
        answer = self.waiting[name] = asyncio.get_running_loop().create_future()
        self.printer.write(
            {
                "type": "approval_requested",
                "id": name,
                "call": question.call.id,
                "title": describe_question(question.call, question.diff),
                "tool": question.call.name,
                "server": question.server,
                "arguments": question.call.arguments,
                "diff": question.diff,
                "saves": None if question.saves is None else serialize_rule(question.saves),
            }
        )
        try:
            return await answer
        finally:
            del self.waiting[name]

    def answer(self, line: Mapping[str, Any]) -> None:
        """Take a line with an answer in.

        Raises:
            InputError: there is no such question.
        """
        from kakite.host import ApprovalResponse

        waiting = self.waiting.get(str(line.get("id")))
        if waiting is None or waiting.done():
            raise InputError(f"there is no open question `{line.get('id')}`")
        allowed, remember = line.get("allow"), line.get("remember", "once")
        if not isinstance(allowed, bool) or remember not in {"once", "same_arguments", "tool", "always"}:
            raise InputError("an approval needs `allow` (true or false), and may have `remember`")
        reason = str(line.get("reason") or "the person said no")
        waiting.set_result(
            ApprovalResponse(allowed=allowed, reason="" if allowed else reason, remember=remember)
        )

    async def ask_person(self, question: PersonQuestion) -> str | None:
        """Print a question of the model, and return the answer."""
        if self.closed:
            return None
        name = secrets.token_hex(4)
        answer = self.questions[name] = asyncio.get_running_loop().create_future()
        choices = [asdict(choice) for choice in question.choices]
        self.printer.write({"type": "question", "id": name, "text": question.text, "choices": choices})
        try:
            return await answer
        finally:
            del self.questions[name]

    def answer_question(self, line: Mapping[str, Any]) -> None:
        """Take a line with the answer to a question in.

        Raises:
            InputError: there is no such question.
        """
        waiting = self.questions.get(str(line.get("id")))
        if waiting is None or waiting.done():
            raise InputError(f"there is no open question `{line.get('id')}`")
        text = line.get("text")
        if not isinstance(text, str | None):
            raise InputError("an answer needs `text`: a choice's label, other words, or null for no answer")
        waiting.set_result(text)

    def close(self) -> None:
        """Answer what is open: nobody is there any more."""
        from kakite.host import ApprovalResponse

        self.closed = True
        for question in self.questions.values():
            if not question.done():
                question.set_result(None)
        for each in self.waiting.values():
            if not each.done():
                each.set_result(
                    ApprovalResponse(allowed=False, reason="nobody is here to answer", nobody=True)
                )


class LineSession:
    """Drives a session by lines of input, and prints what happens as lines."""

    def __init__(
        self, session: Session, context: SessionContext, printer: EventPrinter, approver: LineApprover
    ) -> None:
        self._session = session
        self._context = context
        self._printer = printer
        self._approver = approver
        self._turn: asyncio.Task[TurnResult] | None = None

    async def run(self, prompt: str = "") -> int:
        """Work until the input has ended and the last turn too; return the exit code of that one.

        ``prompt`` is the first message, before those of the input.
        """
        code = 0
        if prompt:
            self._perform({"type": "prompt", "text": prompt})
        lines = _read_lines_in_thread()
        reading = asyncio.ensure_future(lines.get())
        ended = False
        while not ended or self._turn:
            waits = {each for each in (None if ended else reading, self._turn) if each is not None}
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if self._turn is not None and self._turn.done():
                code = self._end_turn(self._turn)
                self._turn = None
            if not ended and reading.done():
                line = reading.result()
                ended = line is None
                if line is None:
                    self._approver.close()
                else:
                    self._take(line)
                    reading = asyncio.ensure_future(lines.get())
        return code

    def _end_turn(self, turn: asyncio.Task[TurnResult]) -> int:
        try:
            result = turn.result()
        except KakiteError as error:
            self._printer.write(
                {"type": "error", "code": error.code, "message": error.message, "hint": error.hint}
            )
            return error.exit_code
        self._printer.finish(self._session, result, None)
        return to_exit_code(result.reason)

    def _take(self, line: bytes) -> None:
        """Do what a line says; what is wrong with it is told, and the next one counts."""
        try:
            self._perform(_parse_line(line))
        except KakiteError as error:
            self._printer.write(
                {"type": "error", "code": error.code, "message": error.message, "hint": error.hint}
            )

    def _perform(self, line: dict[str, Any]) -> None:
        match line.get("type"):
            case "prompt":
                message = self._context.build_message(*_parse_message(line))
                if self._turn is not None:
                    self._session.steer(message)
                else:
                    self._turn = asyncio.ensure_future(self._session.prompt(message))
            case "interrupt":
                self._session.interrupt()
            case "approval":
                self._approver.answer(line)
            case "answer":
                self._approver.answer_question(line)
            case "mode":
                if line.get("mode") not in {"ask", "edits", "all", "plan"}:
                    raise InputError("`mode` is one of: ask, edits, all, plan")
                self._session.set_mode(line["mode"])
            case other:
                raise InputError(
                    f"a line of the type `{other}` is not known",
                    hint="the types are: prompt, interrupt, approval, answer, mode",
                )


def _parse_line(line: bytes) -> dict[str, Any]:
    try:
        value: object = json.loads(line)
    except ValueError as error:
        raise InputError(f"a line is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise InputError("a line is a JSON object with a `type`")
    return cast("dict[str, Any]", value)


def _parse_message(line: Mapping[str, Any]) -> tuple[str, tuple[Image, ...]]:
    from kakite.tools.toolset import Image

    text, images = line.get("text"), line.get("images", [])
    if not isinstance(text, str) or not isinstance(images, list):
        raise InputError("a prompt needs `text`, and may have `images`")
    try:
        pictures = tuple(
            Image(mime=str(each["mime"]), data=str(each["data"])) for each in cast("list[Any]", images)
        )
    except (TypeError, KeyError) as error:
        raise InputError("an image needs `mime` and `data` (base64)") from error
    return text, pictures


def _read_lines_in_thread() -> asyncio.Queue[bytes | None]:
    """Return a queue of the lines of standard input, None at its end.

    A thread of its own reads, since a file or a terminal cannot be waited for; it ends with the process.
    """
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[bytes | None] = asyncio.Queue()

    def put(line: bytes | None) -> None:
        loop.call_soon_threadsafe(lines.put_nowait, line)

    threading.Thread(target=_read_lines, args=(put,), daemon=True).start()
    return lines


def _read_lines(put: Callable[[bytes | None], None]) -> None:
    try:
        while line := sys.stdin.buffer.readline(MAX_LINE_BYTES):
            if line.strip():
                put(line)
    except (OSError, ValueError):
        pass
    try:
        put(None)
    except RuntimeError:  # the loop has ended meanwhile
        return
