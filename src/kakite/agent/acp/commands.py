"""The commands of an editor's session that Kakite carries out itself, without the model."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from acp import schema

from kakite.agent.acp.options import list_commands
from kakite.agent.acp.updates import Update, message_chunk
from kakite.agent.session.commit_tool import COMMIT_REQUEST, format_commit
from kakite.agent.session.session import SessionError
from kakite.agent.session.usage_report import format_context, format_cost
from kakite.errors import UsageError
from kakite.terminal_text import escape_one_line

if TYPE_CHECKING:
    from kakite.agent.run.state import RewindPoint
    from kakite.agent.session.checkpoints import SkippedFile
    from kakite.agent.session.context import SlashCommand
    from kakite.agent.session.session import Session
    from kakite.models.messages import UserMessage

_REWOUND = {"both": (True, True), "files": (True, False), "conversation": (False, True)}
"""What a rewind brings back: the files, the conversation."""
_CALL = re.compile(r"/(?P<name>[\w:.-]+)(?: (?P<rest>.*))?\s*", re.DOTALL)
"""A line that calls a command: the path of a file calls none."""
_ANY_TIME = frozenset({"rename"})
"""Commands that change the session, and can do so while its model works."""
_TICKS = re.compile(r"`{3,}")


def expand_command(message: UserMessage) -> UserMessage:
    """Return what the model is told where a command of ours is for it. Pure."""
    if message.text.strip() != "/commit":
        return message
    return replace(message, text=COMMIT_REQUEST, shown=message.text)


class CommandView(Protocol):
    """Shows a person what a command has to say."""

    def send(self, update: Update) -> None:
        """Send an update."""
        ...


class EditorCommands:
    """Runs the commands of one session."""

    def __init__(self, view: CommandView) -> None:
        self._view = view
        self.own: Sequence[SlashCommand] = ()
        """The commands of the project and the person."""
        self._readers: dict[str, Callable[[Session], Awaitable[str]]] = {
            "cost": self._cost,
            "context": self._context,
            "tools": self._tools,
            "help": self._help,
        }
        self._handlers: dict[str, Callable[[Session, str], Awaitable[str]]] = {
            "compact": self._compact,
            "rewind": self._rewind,
            "undo": self._undo,
            "diff": self._diff,
            "commit": self._commit,
            "rename": self._rename,
        }

    async def run(self, session: Session, line: str) -> bool:
        """Run a line that is one of these commands, or say that there is none of its name; return whether.

        Raises:
            KakiteError: it cannot be done, or makes no sense.
        """
        found = _CALL.fullmatch(line.strip())
        if found is None:
            return False
        name, rest = found["name"], found["rest"] or ""
        if answer := self._find_answer(name):
            self._view.send(message_chunk(await answer(session)))
            return True
        handler = self._handlers.get(name)
        # Without a message, the model is asked to commit.
        if handler is None or (name == "commit" and not rest.strip()):
            return False
        if session.is_running and name not in _ANY_TIME:
            raise SessionError("the model is at work", hint="wait for the end of its turn, or cancel it")
        self._view.send(message_chunk(await handler(session, rest.strip())))
        return True

    def _find_answer(self, name: str) -> Callable[[Session], Awaitable[str]] | None:
        """Return what answers a command that only tells something, or is not there; None: it is another."""
        if name in self._handlers or name in self._readers:
            return self._readers.get(name)
        if any(name == each.name for each in self.own):
            return None
        told = f"There is no command `/{name}`. For the model, put a word before it.\n\n"

        async def refuse(session: Session) -> str:
            return told + await self._help(session)

        return refuse

    async def _cost(self, session: Session) -> str:
        return _fence("", "\n".join(await format_cost(session)))

    async def _context(self, session: Session) -> str:
        return _fence("", "\n".join(await format_context(session)))

    async def _tools(self, session: Session) -> str:
        tools = await session.list_tools()
        return "\n".join(f"- `{tool.name}`: {tool.description.strip().splitlines()[0]}" for tool in tools)

    async def _help(self, _session: Session) -> str:
        return "\n".join(f"- `/{name}`: {escape_one_line(told)}" for name, told, _ in list_commands(self.own))

    async def _compact(self, session: Session, _rest: str) -> str:
        before, _ = await session.count_context_tokens()
        await session.compact()
        used, window = await session.count_context_tokens()
        self._view.send(schema.UsageUpdate(session_update="usage_update", used=used, size=window))
        return f"The next request takes about {used} tokens; before, it would have taken {before}."

    async def _rewind(self, session: Session, rest: str) -> str:
        number, _, what = rest.partition(" ")
        points = session.run.points
        if not number:
            return _list_points(points)
        if not number.isdecimal() or len(number) > 9 or not 1 <= int(number) <= len(points):
            raise SessionError(
                f"there is no message {number[:20]} to go back to",
                hint="/rewind lists them",
                code="no_such_point",
            )
        point = points[int(number) - 1]
        if not what:
            return await _preview(session, point, number)
        if what not in _REWOUND:
            raise UsageError(
                f"`/rewind {rest}` makes no sense", hint="/rewind NUMBER both, files or conversation"
            )
        files, conversation = _REWOUND[what]
        done = await session.rewind(point, files=files, conversation=conversation)
        count = f"{done.count_files()}; " if done else ""
        told = [f"Back to before: {_quote(point.text)} ({count}`/undo` takes that back)"]
        if done is not None:
            told += _list_skipped(done.skipped)
        if conversation:
            told.append("Your editor still shows what came after; the model no longer knows of it.")
        return "\n\n".join(told)

    async def _rename(self, session: Session, rest: str) -> str:
        session.rename(rest)
        title = session.run.title
        self._view.send(schema.SessionInfoUpdate(session_update="session_info_update", title=title))
        return f"The session is called: {_quote(title)}"

    async def _undo(self, session: Session, _rest: str) -> str:
        undone = await session.undo_rewind()
        return "\n\n".join([undone.describe(), *_list_skipped(undone.skipped)])

    async def _diff(self, session: Session, _rest: str) -> str:
        diff = await session.diff_since_start()
        return _fence("diff", diff) if diff else "Nothing has changed since the session began."

    async def _commit(self, session: Session, rest: str) -> str:
        made = await session.commit(rest)
        return _fence("", format_commit(made, rest))


def _list_points(points: tuple[RewindPoint, ...]) -> str:
    if not points:
        return "There is nothing to go back to yet."
    lines = [f"{number}. {_quote(point.text)}" for number, point in enumerate(points, 1)]
    return "\n".join([*lines, "", "`/rewind NUMBER` shows what going back to before that message changes."])


async def _preview(session: Session, point: RewindPoint, number: str) -> str:
    changes = await session.list_rewind_changes(point)
    lines = [f"- {each.kind}: `{each.path}`" for each in changes] or ["No file differs from then."]
    choices = ", ".join(f"`/rewind {number} {what}`" for what in _REWOUND)
    return "\n".join([f"To before: {_quote(point.text)}", "", *lines, "", f"To go back: {choices}."])


def _list_skipped(skipped: Sequence[SkippedFile]) -> list[str]:
    return [f"- `{each.path}` stays as it is: {each.reason}" for each in skipped]


def _quote(text: str) -> str:
    return escape_one_line(text).replace("`", "'")


def _fence(kind: str, text: str) -> str:
    """Return text that no mark in it can leave."""
    ticks = "`" * max([3, *(len(found) + 1 for found in _TICKS.findall(text))])
    return f"{ticks}{kind}\n{text.rstrip()}\n{ticks}"
