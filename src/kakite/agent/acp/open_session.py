"""A session that an editor has opened: its events become updates, its questions requests for permission."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from acp import RequestError, schema

from kakite.agent.acp.commands import EditorCommands, expand_command
from kakite.agent.acp.content import to_message_parts
from kakite.agent.acp.edited_files import EditedFiles
from kakite.agent.acp.editor_buffers import EditorBuffers
from kakite.agent.acp.permissions import AcpClient, PermissionApprover
from kakite.agent.acp.updates import (
    Update,
    iter_replay,
    iter_updates,
)
from kakite.agent.async_context import ContextHolder
from kakite.agent.observe.event_log import build_event_log
from kakite.agent.observe.events import RunEvent, RunListener, ToolCallEvent
from kakite.agent.run.state import RunState
from kakite.agent.run.store import RunFolder
from kakite.agent.session.context import SlashCommand
from kakite.agent.session.prepared import PreparedSession, discard_unused
from kakite.agent.session.session import Session, TurnResult
from kakite.models.messages import UserMessage

log = logging.getLogger(__name__)


@dataclass(kw_only=True)
class OpenSession:
    """A session that is open, and the updates that are on their way to the editor."""

    client: AcpClient
    files: EditedFiles
    has_forms: bool = False
    """Whether the editor can show one."""
    session_id: str = ""
    session: Session | None = None
    """None until its first prompt: then its sandbox and tools are made ready."""
    cancelled: bool = False
    """Whether the turn that is about to begin was cancelled meanwhile."""
    last_call: str = ""
    """The id of the call that was shown last."""
    models: tuple[str, ...] = ()
    """Those that the person's settings name."""
    _prepared: PreparedSession | None = None
    _lock: ContextHolder[None] | None = None
    _holder: ContextHolder[Session] | None = None
    _queue: asyncio.Queue[Update] = field(default_factory=asyncio.Queue[Update])
    _sender: asyncio.Task[None] | None = None
    _turn: asyncio.Future[TurnResult] | None = None
    """The end of the turn that runs, or of the last one."""
    _commands: EditorCommands = field(init=False)

    def __post_init__(self) -> None:
        self._commands = EditorCommands(self)

    @property
    def run(self) -> RunState:
        """The session as it stands."""
        assert self._prepared is not None
        return self.session.run if self.session else self._prepared.run

    @property
    def commands(self) -> tuple[SlashCommand, ...]:
        """The commands of the project and the person."""
        assert self._prepared is not None
        return self._prepared.context.commands

    async def begin(self, prepared: PreparedSession) -> None:
        """Hold the session for this process, and send what happens in it.

        Raises:
            RunStoreError: another process works on it.
        """
        record = prepared.deps.record
        self._prepared, self.session_id = prepared, record.id
        self._commands.own = prepared.context.commands
        self.files.project, self.files.inside = prepared.project, prepared.deps.sandbox.project
        self._lock = ContextHolder(_hold_record(record))
        await self._lock.enter()
        self._holder = ContextHolder(prepared.open())
        self._sender = asyncio.create_task(self._send_forever())

    async def build_message(self, blocks: Sequence[Any]) -> UserMessage:
        """Return the message that a prompt's blocks make."""
        assert self._prepared is not None
        text, images = to_message_parts(blocks, self.files.project)
        return await asyncio.to_thread(self._prepared.context.build_message, text, images)

    async def start(self) -> Session:
        """Return the session with its sandbox and tools.

        Raises:
            KakiteError: they cannot be made ready.
        """
        if self.session is None:
            assert self._holder is not None
            self.session = await self._holder.enter()
        return self.session

    def show(self, event: RunEvent) -> None:
        """Send what an event stands for. A RunListener."""
        if isinstance(event, ToolCallEvent):
            self.last_call = event.id
        for update in iter_updates(event, self.files):
            self.send(update)

    def send(self, update: Update) -> None:
        """Send an update after those before it."""
        self._queue.put_nowait(update)

    async def flush(self) -> None:
        """Wait until all updates are sent."""
        await self._queue.join()

    async def replay(self) -> None:
        """Show all that was said and done."""
        stored = await asyncio.to_thread(lambda: list(build_event_log(self.run)))
        for update in iter_replay(stored, self.files):
            self.send(update)
        await self.flush()

    async def run_turn(self, session: Session, message: UserMessage) -> TurnResult:
        """Give the model a message, and return how its turn ended; the same where it steers one that runs.

        Raises:
            KakiteError: something outside failed; the turn has ended.
        """
        if session.is_running and self._turn is not None:
            session.steer(expand_command(message))
            return await asyncio.shield(self._turn)
        turn = self._turn = asyncio.get_running_loop().create_future()
        try:
            result = await session.prompt(expand_command(message))
        except asyncio.CancelledError:
            turn.cancel()
            raise
        except Exception as error:
            turn.set_exception(error)
            turn.exception()  # it may be that nobody else waits for it
            raise
        turn.set_result(result)
        return result

    async def run_command(self, session: Session, message: UserMessage) -> bool:
        """Run a message that calls a command of ours, or one that is not there; return whether it does.

        Raises:
            KakiteError: it cannot be done.
        """
        return await self._commands.run(session, message.shown or message.text)

    async def _send_forever(self) -> None:
        while True:
            update = await self._queue.get()
            try:
                await self.client.session_update(self.session_id, update)
            except (ConnectionError, RequestError, OSError) as error:
                log.warning("an update was lost: %s", error)
            finally:
                self._queue.task_done()

    async def close(self) -> None:
        """End all that runs of it."""
        if self.session is not None:
            self.session.interrupt()
        for holder in filter(None, (self._holder, self._lock)):
            await holder.close()
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.wait([self._sender])
        if self._prepared is not None:
            await asyncio.to_thread(
                discard_unused, self._prepared.deps.record, self._prepared.run, os.environ
            )


async def open_session(
    client: AcpClient,
    project: Path,
    prepare: Callable[[PermissionApprover, RunListener], PreparedSession],
    offered: schema.FileSystemCapabilities | None = None,
) -> OpenSession:
    """Return a session that is held for this process; its sandbox and tools start with its first prompt.

    ``offered`` is what the editor can do with files that it has open.

    Raises:
        RequestError: it is a session of another folder.
        KakiteError: it cannot be had.
    """
    opened = OpenSession(client=client, files=EditedFiles(project=project, inside=str(project)))
    prepared = await asyncio.to_thread(prepare, PermissionApprover(opened=opened), opened.show)
    begun = prepared.run.task.repository
    if not await asyncio.to_thread(os.path.samefile, begun, project):
        raise RequestError.invalid_params({"cwd": f"the session is one of `{begun}`"})
    # An editor has its own folder open, not a worktree that lies elsewhere.
    is_here = await asyncio.to_thread(os.path.samefile, prepared.project, project)
    if is_here and offered is not None and offered.read_text_file:
        buffers = EditorBuffers(
            client=client,
            project=project,
            can_write=bool(offered.write_text_file),
            loop=asyncio.get_running_loop(),
            session_id=prepared.deps.record.id,
        )
        opened.files.buffers = buffers
        prepared.context.project.workspace.buffers = buffers
        prepared = replace(prepared, deps=replace(prepared.deps, buffers=buffers))
    await opened.begin(prepared)
    return opened


@asynccontextmanager
async def _hold_record(record: RunFolder) -> AsyncGenerator[None]:
    with record.lock():
        yield
