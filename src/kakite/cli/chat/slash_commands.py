"""The commands of the conversation: what begins with a slash."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from kakite.cli.chat.git_branch import find_root
from kakite.cli.console import escape_one_line
from kakite.errors import UsageError
from kakite.models.model import EFFORTS

if TYPE_CHECKING:
    from kakite.agent.run.state import RewindPoint, RunState, Task
    from kakite.agent.run.store import RunFolder
    from kakite.agent.session.background_jobs import BackgroundJob
    from kakite.agent.session.checkpoints import SkippedFile
    from kakite.agent.session.prepared import PreparedSession
    from kakite.agent.session.session import Session
    from kakite.cli.chat.view import ChatView
    from kakite.models.model import Effort


class ChatFront(Protocol):
    """What commands need of the terminal."""

    view: ChatView
    prepared: PreparedSession | None
    leaving: bool

    @property
    def is_at_work(self) -> bool:
        """Whether the model is at work."""
        ...

    def stop_work(self) -> None:
        """Stop what is at work."""
        ...

    def tell_later(self, text: str) -> None:
        """Give the model a text with the person's next message."""
        ...

    def add_draft(self, text: str) -> None:
        """Put a text into the line, to be changed and sent."""
        ...

    async def handle(self, line: str) -> None:
        """Do what a line says."""
        ...

    async def get_session(self) -> Session:
        """Return the session, once it is open."""
        ...

    async def open(self, stored: RunFolder | None = None) -> None:
        """Open a stored session, or a new one."""
        ...

    async def send(self, text: str) -> None:
        """Send a message."""
        ...

    async def set_mode(self, mode: str) -> None:
        """Say what goes without a question."""
        ...

    async def set_model(self, name: str) -> None:
        """Talk to another model."""
        ...

    async def set_effort(self, effort: Effort | None) -> None:
        """Let the model think so much; None: as its provider does it by itself."""
        ...

    async def queue(self, text: str) -> None:
        """Send a message once the turn that runs has ended."""
        ...

    def take_back_queued(self) -> None:
        """Put the last message that waits for the next turn back into the line."""
        ...

    async def edit_text(self, text: str) -> str:
        """Let the person change a text in their editor."""
        ...

    async def read_answer(self, question: str) -> str:
        """Ask the person for one line."""
        ...


_PROVIDER_EFFORT = "default"
_MODELS_SHOWN = 30
"""Models that are listed to choose from."""


@dataclass(frozen=True, slots=True)
class ChatCommand:
    """One command."""

    arguments: str
    """What may stand behind it."""
    help: str


COMMANDS = {
    "help": ChatCommand("", "Show these commands and the keys"),
    "model": ChatCommand("[NAME]", "Talk to another model from now on, PROVIDER:NAME; or choose one"),
    "effort": ChatCommand("[LEVEL]", "Show or set how much the model thinks"),
    "mode": ChatCommand("[ask|edits|all|plan]", "Show or set what goes without asking you (Shift-Tab)"),
    "plan": ChatCommand("[TEXT]", "Plan first: the model only looks, and answers with a plan"),
    "accept": ChatCommand(
        "[ask|edits|all] [edit]", "Carry the plan out; edit: change it in your editor first"
    ),
    "diff": ChatCommand("", "Show what has changed since the session began"),
    "commit": ChatCommand("[MESSAGE]", "Commit what has changed since the session began"),
    "rewind": ChatCommand("", "Go back to before one of your messages: files, conversation or both"),
    "undo": ChatCommand("", "Take back the last rewind"),
    "compact": ChatCommand("", "Shorten what the model is shown of the conversation"),
    "rename": ChatCommand("[NAME]", "Show or set the session's title"),
    "cost": ChatCommand("", "Show tokens, cost and time"),
    "context": ChatCommand("", "Show what fills the model's context"),
    "tasks": ChatCommand("[stop JOB]", "Look at the model's commands in the background, or stop one"),
    "copy": ChatCommand("", "Copy the model's last answer"),
    "clear": ChatCommand("", "Begin a new session; this one stays stored"),
    "resume": ChatCommand("[ID]", "Go on with another session of this folder"),
    "tools": ChatCommand("", "List the model's tools"),
    "mcp": ChatCommand("", "List the MCP servers that the model may use"),
    "fork": ChatCommand("", "Go on with a copy of this session; the session itself stays"),
    "export": ChatCommand("[FILE]", "Write the conversation as Markdown"),
    "queue": ChatCommand(
        "[TEXT]", "Send a message once the turn has ended; without a text, take the last back"
    ),
    "last": ChatCommand("", "Show the last call or thought whole (Ctrl-O)"),
    "edit": ChatCommand("[TEXT]", "Write a message in your editor, and send it"),
    "stop": ChatCommand("", "Stop the model, or your own command (Esc)"),
    "quit": ChatCommand("", "Leave; the session stays stored"),
}

KEYS = (
    ("Enter", "send; while the model works: send it along with its next step"),
    ("Tab", "while the model works: send once its turn has ended"),
    ("Esc, Ctrl-C", "stop the model; Ctrl-C twice leaves"),
    ("Alt-Enter, Ctrl-J", "a new line"),
    ("Shift-Tab", "the next mode: ask, edits, plan"),
    ("Ctrl-O", "show the last call or thought whole"),
    ("Ctrl-X Ctrl-E", "change the line in your editor"),
    ("@path", "name a file"),
    ("!command", "run a command of your own; the model gets its output with your next message"),
    ("Up, Ctrl-R", "earlier lines; Up takes back a message that waits"),
    ("Ctrl-D", "leave"),
)
PLAIN_KEYS = (
    ("Enter", "send; while the model works: send it along with its next step"),
    ("a backslash at the end of a line", "the message goes on in the next line"),
    ("Ctrl-C", "stop the model; twice leaves"),
    ("@path", "name a file"),
    ("!command", "run a command of your own; the model gets its output with your next message"),
)


class ChatCommands:
    """Runs the commands of one terminal."""

    def __init__(self, terminal: ChatFront) -> None:
        self._terminal = terminal
        self._view = terminal.view
        self._handlers: dict[str, Callable[[str], Awaitable[None]]] = {
            "help": self._help,
            "model": self._model,
            "effort": self._effort,
            "mode": self._mode,
            "plan": self._plan,
            "accept": self._accept,
            "diff": self._diff,
            "commit": self._commit,
            "rewind": self._rewind,
            "undo": self._undo,
            "compact": self._compact,
            "rename": self._rename,
            "cost": self._cost,
            "context": self._context,
            "tasks": self._tasks,
            "copy": self._copy,
            "fork": self._fork,
            "clear": self._clear,
            "resume": self._resume,
            "tools": self._tools,
            "mcp": self._mcp,
            "export": self._export,
            "queue": self._queue,
            "last": self._last,
            "edit": self._edit,
            "stop": self._stop,
            "quit": self._quit,
        }

    async def run(self, line: str) -> None:
        """Run a line that begins with a slash.

        Raises:
            UsageError: there is no such command, or it cannot be done now.
        """
        name, _, rest = line[1:].partition(" ")
        name = {"exit": "quit", "?": "help", "q": "quit", "new": "clear"}.get(name, name)
        handler = self._handlers.get(name)
        if handler is None:
            if not self._view.plain:
                self._terminal.add_draft(line)
            meant = self._find_meant(name)
            told = f": did you mean `/{meant}`?" if meant else ""
            raise UsageError(
                f"there is no command `/{name}`{told}", hint="/help lists them", code="unknown_command"
            )
        await handler(rest.strip())

    def _find_meant(self, typed: str) -> str:
        """Return the one command that begins as it was typed, or looks like it; empty: there is none."""
        own = self._terminal.prepared.context.commands if self._terminal.prepared else ()
        names = [*COMMANDS, *(each.name for each in own if each.name not in COMMANDS)]
        begins = [name for name in names if typed and name.startswith(typed)]
        return begins[0] if len(begins) == 1 else next(iter(get_close_matches(typed, names, 1, 0.75)), "")

    async def _help(self, _rest: str) -> None:
        keys = PLAIN_KEYS if self._view.plain else KEYS
        own = self._terminal.prepared.context.commands if self._terminal.prepared else ()
        self._view.show_table(
            [
                *(
                    (f"/{name} {command.arguments}".strip(), command.help)
                    for name, command in COMMANDS.items()
                ),
                *((f"/{each.name}", each.description) for each in own if each.name not in COMMANDS),
                *keys,
            ]
        )

    async def _model(self, rest: str) -> None:
        session = await self._terminal.get_session()
        wanted = rest if ":" in rest else await self._choose_model(session, rest)
        if wanted:
            self._check_idle()
            await self._terminal.set_model(wanted)
            self._view.note(f"The model is {session.run.task.model}.")

    async def _choose_model(self, session: Session, word: str) -> str:
        """List the models that can be used now, and return the one that the person chooses, or nothing."""
        names = await self._list_models(session.run.task, word)
        for number, name in enumerate(names[:_MODELS_SHOWN], 1):
            self._view.note(f"{number:3}  {escape_one_line(name)}")
        if len(names) > _MODELS_SHOWN:
            more = len(names) - _MODELS_SHOWN
            self._view.note(f"     … {more} more: /model WORD lists those with this word in their names")
        if not names or self._terminal.is_at_work:
            self._view.note("/model PROVIDER:NAME takes another one.")
            return ""
        answer = await self._terminal.read_answer("Which? (number, PROVIDER:NAME, or nothing)")
        if answer.isdecimal():
            return names[int(answer) - 1] if 1 <= int(answer) <= len(names) else ""
        return answer if ":" in answer else ""

    async def _list_models(self, task: Task, word: str) -> list[str]:
        """Return the models that can be used now and have a word in their names, own servers first."""
        from kakite.cli.models import find_models

        self._view.note(f"The model is {task.model}.")
        own = task.base_url if task.model.startswith("openai:") else None
        found, silent = await asyncio.to_thread(find_models, None, own or "")
        for each in silent:
            self._view.warn(
                f"{each.provider} at {each.address} did not answer: {escape_one_line(each.reason)}"
            )
        found.sort(key=lambda each: each.input_price is not None)
        return [each.name for each in found if word.lower() in each.name.lower()]

    async def _effort(self, rest: str) -> None:
        session = await self._terminal.get_session()
        if rest:
            self._check_idle()
            if rest not in {_PROVIDER_EFFORT, *EFFORTS}:
                hint = f"the levels are: {', '.join(EFFORTS)}; {_PROVIDER_EFFORT}: as the provider does it"
                raise UsageError(f"there is no level `{rest}`", hint=hint)
            await self._terminal.set_effort(None if rest == _PROVIDER_EFFORT else cast("Effort", rest))
        level = session.run.task.effort
        self._view.note(f"The effort is {level}." if level else "The effort is what the provider chooses.")

    async def _rename(self, rest: str) -> None:
        session = await self._terminal.get_session()
        if rest:
            session.rename(rest)
        title = session.run.title
        self._view.note(
            f"The session is called: {escape_one_line(title)}" if title else "It has no title yet."
        )

    async def _queue(self, rest: str) -> None:
        if rest:
            await self._terminal.queue(rest)
        else:
            self._terminal.take_back_queued()

    async def _mode(self, rest: str) -> None:
        session = await self._terminal.get_session()
        if rest:
            if rest not in {"ask", "edits", "all", "plan"}:
                raise UsageError(f"there is no mode `{rest}`", hint="the modes are: ask, edits, all, plan")
            await self._terminal.set_mode(rest)
        self._view.note(f"The mode is {session.mode}.")

    async def _plan(self, rest: str) -> None:
        self._check_idle()
        await self._terminal.set_mode("plan")
        self._view.note("Plan mode: the model only looks. /accept carries its plan out.")
        if rest:
            await self._terminal.send(rest)

    async def _accept(self, rest: str) -> None:
        session = await self._terminal.get_session()
        self._check_idle()
        words = set(rest.split())
        if session.mode != "plan" or not session.run.summary:
            raise UsageError("there is no plan", hint="/plan TEXT asks for one")
        if not words <= {"ask", "edits", "all", "edit"}:
            raise UsageError(f"`/accept {rest}` makes no sense", hint="/accept [ask|edits|all] [edit]")
        plan = session.run.summary
        if "edit" in words:
            plan = await self._terminal.edit_text(plan)
        modes = [word for word in ("ask", "edits", "all") if word in words]
        await self._terminal.set_mode(modes[0] if modes else "edits")
        changed = plan.strip() != session.run.summary.strip()
        text = f"Carry out this plan:\n\n{plan.strip()}" if changed else "Carry the plan out."
        if not self._view.plain:
            self._view.show_message(text)
        await self._terminal.send(text)

    async def _diff(self, _rest: str) -> None:
        session = await self._terminal.get_session()
        diff = await session.diff_since_start()
        if diff:
            self._view.show_diff(diff, None)
        else:
            self._view.note("Nothing has changed.")

    async def _commit(self, rest: str) -> None:
        from kakite.agent.session.commit_tool import COMMIT_REQUEST, format_commit

        if not rest:
            await self._terminal.send(COMMIT_REQUEST)
            return
        session = await self._terminal.get_session()
        self._check_idle()
        made = await session.commit(rest)
        for line in format_commit(made, rest).split("\n"):
            self._view.note(escape_one_line(line))

    async def _rewind(self, _rest: str) -> None:
        session = await self._terminal.get_session()
        self._check_idle()
        point = await self._choose_point(session.run.points)
        if point is None:
            return
        changes = await session.list_rewind_changes(point)
        for file in changes:
            self._view.note(f"  {file.kind:8} {escape_one_line(file.path)}")
        if not changes:
            self._view.note("No file differs from then.")
        answer = await self._terminal.read_answer("Bring back: b both, f files, c conversation, n nothing?")
        if answer not in {"b", "f", "c"}:
            self._view.note("Nothing was changed.")
            return
        typed = _find_typed(session.run, point)
        done = await session.rewind(point, files=answer in {"b", "f"}, conversation=answer in {"b", "c"})
        count = f"{done.count_files()}; " if done else ""
        self._view.note(f"Back to before: {escape_one_line(point.text)} ({count}/undo takes that back)")
        self._warn_skipped(done.skipped if done else ())
        if answer != "f":
            self._terminal.add_draft(typed)

    async def _undo(self, _rest: str) -> None:
        session = await self._terminal.get_session()
        self._check_idle()
        undone = await session.undo_rewind()
        self._view.note(undone.describe())
        self._warn_skipped(undone.skipped)

    def _warn_skipped(self, skipped: Sequence[SkippedFile]) -> None:
        for each in skipped:
            self._view.warn(f"{escape_one_line(each.path)} stays as it is: {each.reason}")

    async def _choose_point(self, points: tuple[RewindPoint, ...]) -> RewindPoint | None:
        if not points:
            self._view.note("There is nothing to go back to yet.")
            return None
        for number, point in enumerate(points, 1):
            self._view.note(f"{number:3}  {escape_one_line(point.text)}")
        answer = await self._terminal.read_answer("Before which message? (number, or nothing)")
        if not answer.isdigit() or not 1 <= int(answer) <= len(points):
            return None
        return points[int(answer) - 1]

    async def _compact(self, _rest: str) -> None:
        session = await self._terminal.get_session()
        self._check_idle()
        before, _ = await session.count_context_tokens()
        await session.compact()
        after, _ = await session.count_context_tokens()
        if after >= before:
            self._view.note("There was nothing to shorten: the model is shown as much as before.")

    async def _cost(self, _rest: str) -> None:
        from kakite.agent.session.usage_report import format_cost

        for line in await format_cost(await self._terminal.get_session()):
            self._view.note(line)

    async def _context(self, _rest: str) -> None:
        from kakite.agent.session.usage_report import format_context

        for line in await format_context(await self._terminal.get_session()):
            self._view.note(line)

    async def _tasks(self, rest: str) -> None:
        session = await self._terminal.get_session()
        action, _, name = rest.partition(" ")
        jobs = [job for job in session.jobs if job.running and (not rest or job.id == name.strip())]
        if rest and (action != "stop" or not jobs):
            raise UsageError(f"`/tasks {rest}` makes no sense", hint="/tasks lists them; /tasks stop JOB")
        for job in jobs:
            await self._show_job(session, job, stop=bool(rest))
        if not jobs:
            self._view.note("No command runs in the background.")

    async def _show_job(self, session: Session, job: BackgroundJob, *, stop: bool) -> None:
        found = await session.look_at_job(job, stop=stop)
        if found is None:
            self._view.note(f"{job.id}  is gone: {job.command}")
            return
        state = "runs" if found.job.running else "stopped" if stop else f"ended, exit {found.exit_code}"
        self._view.note(f"{job.id}  {state}: {job.command}")
        if found.text:
            self._view.show_output(found.text)
        if found.text or not found.job.running:
            self._terminal.tell_later(found.to_message())
            self._view.note("(the model gets this with your next message)")

    async def _copy(self, _rest: str) -> None:
        session = await self._terminal.get_session()
        text = session.run.summary
        if not text:
            raise UsageError("there is no answer yet")
        if self._view.plain:
            raise UsageError("plain lines cannot copy", hint="/export writes the conversation to a file")
        self._view.copy(text)
        self._view.note(f"Copied {len(text):,} characters, if your terminal allows it (OSC 52).")

    async def _fork(self, _rest: str) -> None:
        from kakite.cli.session_setup import fork_session

        session = await self._terminal.get_session()
        self._check_idle()
        prepared = self._terminal.prepared
        assert prepared is not None
        if not session.run.points:
            raise UsageError("there is nothing to copy yet")
        copy = await asyncio.to_thread(fork_session, prepared.deps.record)
        await self._terminal.open(copy)
        self._view.note(f"This is a copy. The session before: /resume {session.run.task.id}")

    async def _clear(self, _rest: str) -> None:
        self._check_idle()
        await self._terminal.open()

    async def _resume(self, rest: str) -> None:
        from kakite.cli.chat.stored_sessions import find_one
        from kakite.cli.session_setup import is_session_of, list_sessions

        self._check_idle()
        prepared = self._terminal.prepared
        assert prepared is not None
        if rest:
            await self._open_stored(find_one(rest))
            return
        here = Path(prepared.run.task.repository)
        found = [
            (record, run)
            for record, run in list_sessions()
            if is_session_of(run.task, here) and run.title and record.id != prepared.run.task.id
        ][:20]
        if not found:
            self._view.note("There is no other session of this folder.")
            return
        for number, (record, run) in enumerate(found, 1):
            when = record.get_saved_at().astimezone().strftime("%d %b %H:%M")
            self._view.note(f"{number:3}  {when}  {escape_one_line(run.title)}")
        answer = await self._terminal.read_answer("Which? (number, or nothing)")
        if answer.isdigit() and 1 <= int(answer) <= len(found):
            await self._open_stored(found[int(answer) - 1][0])

    async def _open_stored(self, stored: RunFolder | None) -> None:
        prepared = self._terminal.prepared
        if stored is not None and prepared is not None and stored.id == prepared.deps.record.id:
            self._view.note("You are in this session already.")
            return
        await self._terminal.open(stored)

    async def _tools(self, _rest: str) -> None:
        session = await self._terminal.get_session()
        self._view.show_table(
            [(tool.name, tool.description.strip().split("\n")[0]) for tool in await session.list_tools()]
        )

    async def _mcp(self, _rest: str) -> None:
        assert self._terminal.prepared is not None
        servers = self._terminal.prepared.deps.tooling.servers
        for name in servers:
            self._view.note(name)
        if not servers:
            self._view.note(
                "None. `servers` in your settings names those of your own files; see docs/host.md."
            )

    async def _export(self, rest: str) -> None:
        from kakite.agent.observe.event_log import build_event_log
        from kakite.agent.observe.renderers.markdown import render_markdown

        session = await self._terminal.get_session()
        try:
            words = shlex.split(rest)
        except ValueError as error:
            raise UsageError(f"`{rest}` is no file name: {error}") from error
        assert self._terminal.prepared is not None
        name = words[0] if words else f"kakite-{session.run.task.id}.md"
        file = await asyncio.to_thread(_resolve, self._terminal.prepared.project, name)
        text = render_markdown(build_event_log(session.run))
        try:
            await asyncio.to_thread(_write_new, file, text)
        except OSError as error:
            raise UsageError(f"`{file}` cannot be written: {error.strerror}", code="io_failed") from error
        self._view.note(f"Written to {file}")
        if find_root(file.parent) is not None:
            self._view.note("This folder is in a git repository: `git status` may show the file as new.")

    async def _last(self, _rest: str) -> None:
        self._view.show_last_folded()

    async def _edit(self, rest: str) -> None:
        text = await self._terminal.edit_text(rest)
        if text.strip():
            await self._terminal.handle(text)

    async def _stop(self, _rest: str) -> None:
        self._terminal.stop_work()

    async def _quit(self, _rest: str) -> None:
        self._terminal.leaving = True

    def _check_idle(self) -> None:
        if self._terminal.is_at_work:
            raise UsageError("the model is at work", hint="wait, or stop it with Esc", code="turn_running")


def _find_typed(run: RunState, point: RewindPoint) -> str:
    """Return the message of a point as the person wrote it."""
    from kakite.models.messages import UserMessage  # loads all tools

    message = run.messages[point.message]
    return (message.shown or message.text) if isinstance(message, UserMessage) else point.text


def _resolve(folder: Path, name: str) -> Path:
    return folder / Path(name).expanduser()


def _write_new(file: Path, text: str) -> None:
    with file.open("x", encoding="utf-8") as opened:
        opened.write(text)
