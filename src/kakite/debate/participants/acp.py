"""Any agent that speaks the Agent Client Protocol as a participant: it is started, asked once, and ended.

It gets nothing to work with: every question for a permission is answered with no, it may write no file and
start no terminal. In a sandbox it sees the files of the debate in a folder, and may ask us for them, too.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, cast

from kakite.debate.answers import FailureCode, ParticipantFailure, Reply, read_block
from kakite.debate.model import ParticipantInfo
from kakite.debate.participants.base import MAX_OUTPUT, CliParticipant, OnProgress, ProbeResult
from kakite.debate.participants.cli_sandbox import FILES
from kakite.debate.participants.output_parsers import TAIL, classify_error, create_failure
from kakite.processes import ManagedProcess, ProcessError, start
from kakite.sandbox.base import SandboxError
from kakite.sandbox.files.temp import temporary_folder

if TYPE_CHECKING:
    from acp import schema

    from kakite.debate.files import FileSnapshot
    from kakite.debate.participants.cli_sandbox import ProgramPlace

_AUTH_REQUIRED = -32000
_LAST_WORDS = 1.0
"""Seconds for an answer that a program wrote before it ended."""
_SHORT = 100
_STOPS: dict[str, FailureCode] = {
    "max_tokens": "stream_cut",
    "max_turn_requests": "stream_cut",
    "cancelled": "stream_cut",
    "refusal": "http_error",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AcpParticipant:
    """Asks an agent over ACP."""

    program: CliParticipant
    """How it is started, and in which sandbox."""

    @property
    def side(self) -> ParticipantInfo:
        """Its name, and what would give it away."""
        return self.program.side

    async def ask(
        self,
        prompt: str,
        *,
        seconds: float | None = None,
        on_progress: OnProgress | None = None,
        files: FileSnapshot | None = None,
    ) -> Reply:
        """Start it, ask it in a session of its own, and end it."""
        time = self.program.time if seconds is None else min(self.program.time, seconds)
        if time <= 0:
            return create_failure("timed_out", "the budget's time is used up")
        obstacle = await self.program.find_sandbox_obstacle()
        shown = files.folder if files and not obstacle else None
        client = _AcpClient(files=shown, on_progress=on_progress)
        if files:
            prompt = files.add_text(prompt, FILES if shown else "")
        try:
            async with asyncio.timeout(time):
                reply = await self._converse(client, prompt, shown, sandboxed=not obstacle)
        except TimeoutError:
            reply = create_failure("timed_out", f"after {time:.0f} s")
        except ProcessError as error:
            missing = error.code in {"program_missing", "not_executable"}
            return create_failure("not_installed" if missing else "broken", error.message)
        except (SandboxError, OSError) as error:
            return create_failure("broken", str(error))
        if isinstance(reply, ParticipantFailure):
            return replace(reply, partial=client.text.strip())
        return reply

    async def _converse(
        self, client: _AcpClient, prompt: str, files: Path | None, *, sandboxed: bool
    ) -> Reply:
        with temporary_folder("debate") as folder:
            command = self.program.command
            opened = self.program.open_program(folder, command, files, sandboxed=sandboxed)
            async with opened as place:
                with place.allow_network():
                    process = await start(place.build_spec())
                    try:
                        reply = await _ask_process(process, client, place, prompt)
                    finally:
                        await process.stop()
        return replace(reply, stderr_tail=process.get_stderr_tail().strip()[-TAIL:])

    def check_installed(self) -> ParticipantFailure | None:
        """Return why it cannot be asked at all; None when its program is there."""
        return self.program.check_installed()

    async def probe(self) -> ProbeResult:
        """Look for its program; whether it is logged in shows when it is asked."""
        return await self.program.probe()


@dataclass(slots=True, kw_only=True)
class _AcpClient:
    """Our end of the connection: hears the answer, and gives nothing but the files."""

    files: Path | None
    """The copy of what it may read, which it knows as ``FILES``."""
    on_progress: OnProgress | None
    text: str = ""
    size: int = 0
    denied: int = 0
    said: list[str] = field(default_factory=list[str])

    def on_connect(self, conn: Any) -> None:
        """Nothing to do."""

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:  # noqa: ARG002 - the protocol's
        """Take in a part of the answer, or what it is doing."""
        kind = update.session_update
        if kind == "agent_message_chunk" and update.content.type == "text" and self.size <= MAX_OUTPUT:
            self.text += update.content.text
            self.size += len(update.content.text.encode(errors="replace"))
        elif kind == "tool_call":
            self.text += "\n\n" if self.text else ""
        if self.on_progress and kind in _PROGRESS:
            self.on_progress(_PROGRESS[kind])

    async def request_permission(
        self,
        session_id: str,  # noqa: ARG002 - the protocol's
        tool_call: Any,  # noqa: ARG002 - the protocol's
        options: list[schema.PermissionOption],
        **_: Any,
    ) -> schema.RequestPermissionResponse:
        """Answer no."""
        from acp import schema

        self.denied += 1
        rejects = [option for option in options if option.kind in {"reject_once", "reject_always"}]
        outcome = (
            schema.AllowedOutcome(outcome="selected", option_id=rejects[0].option_id)
            if rejects
            else schema.DeniedOutcome(outcome="cancelled")
        )
        return schema.RequestPermissionResponse(outcome=outcome)

    async def read_text_file(
        self,
        path: str,
        session_id: str,  # noqa: ARG002 - the protocol's
        line: int | None = None,
        limit: int | None = None,
        **_: Any,
    ) -> schema.ReadTextFileResponse:
        """Return a file of the debate, and no other."""
        from acp import RequestError, schema

        try:
            text = await asyncio.to_thread(read_shown, self.files, path)
        except OSError as error:
            raise RequestError.resource_not_found(path) from error
        first = max((line or 1) - 1, 0)
        lines = text.splitlines(keepends=True)[first : None if limit is None else first + limit]
        return schema.ReadTextFileResponse(content="".join(lines))

    async def write_text_file(self, **_: Any) -> Any:
        """Write nothing."""
        from acp import RequestError

        raise RequestError.method_not_found("fs/write_text_file")

    async def create_terminal(self, **_: Any) -> Any:
        """Start nothing."""
        from acp import RequestError

        raise RequestError.method_not_found("terminal/create")


_PROGRESS = {
    "agent_message_chunk": "answering",
    "agent_thought_chunk": "thinking",
    "tool_call": "calling a tool",
}


def read_shown(folder: Path | None, path: str) -> str:
    """Return the text of a file in the copy, by its path as the agent sees it.

    Raises:
        OSError: there is no such file, or it lies elsewhere.
    """
    inside = PurePosixPath(path)
    if folder is None or not inside.is_relative_to(FILES):
        raise FileNotFoundError(path)
    found = (folder / inside.relative_to(FILES)).resolve()
    if not found.is_relative_to(folder.resolve()) or not found.is_file():
        raise FileNotFoundError(path)
    return found.read_text(encoding="utf-8", errors="replace")


async def _ask_process(
    process: ManagedProcess, client: _AcpClient, place: ProgramPlace, prompt: str
) -> Reply:
    """Ask, unless the program ends before it has answered."""
    from acp.client.connection import ClientSideConnection

    connection = ClientSideConnection(cast("Any", client), process.stdin, process.stdout)
    asking = asyncio.create_task(_ask(connection, client, place.folder, prompt))
    ended = asyncio.create_task(process.wait())
    try:
        await asyncio.wait({asking, ended}, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait({asking}, timeout=_LAST_WORDS)
        if asking.done() and not isinstance(asking.exception(), ConnectionError):
            return asking.result()
        await asyncio.wait({ended}, timeout=_LAST_WORDS)
        told = process.get_stderr_tail().strip()
        last = told.splitlines()[-1] if told else f"exit code {process.returncode}"
        return create_failure(classify_error(told), last)
    finally:
        for task in (asking, ended):
            task.cancel()
        await asyncio.wait({asking, ended})
        with suppress(Exception):  # it is ended in any case
            await connection.close()


async def _ask(connection: Any, client: _AcpClient, folder: str, prompt: str) -> Reply:
    from acp import PROTOCOL_VERSION, RequestError, schema
    from acp.helpers import text_block

    from kakite import __version__

    able = schema.ClientCapabilities(
        fs=schema.FileSystemCapabilities(read_text_file=client.files is not None, write_text_file=False)
    )
    version = ""
    try:
        met = await connection.initialize(
            protocol_version=PROTOCOL_VERSION,
            client_capabilities=able,
            client_info=schema.Implementation(name="kakite", version=__version__),
        )
        if met.agent_info:
            version = f"{met.agent_info.name} {met.agent_info.version}"[:_SHORT]
        session = await connection.new_session(cwd=folder, mcp_servers=[])
        done = await connection.prompt(session_id=session.session_id, prompt=[text_block(prompt)])
    except RequestError as error:
        told = f"{error} {error.data or ''}".strip()
        code = "not_logged_in" if error.code == _AUTH_REQUIRED else classify_error(told)
        return replace(create_failure("http_error" if code == "exited" else code, told), version=version)
    except ValueError as error:  # an answer that the protocol does not know
        return replace(create_failure("half_json", str(error).partition("\n")[0]), version=version)
    return replace(_build_reply(client, done), version=version)


def _build_reply(client: _AcpClient, done: schema.PromptResponse) -> Reply:
    usage = done.usage
    spent = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens} if usage else {}
    if done.stop_reason in _STOPS:
        failed = create_failure(_STOPS[done.stop_reason], f"the agent stopped: {done.stop_reason}")
        return replace(failed, **spent)
    if client.size > MAX_OUTPUT:
        return replace(create_failure("too_long"), **spent)
    if not client.text.strip():
        return replace(create_failure("empty_answer"), **spent)
    notes = (f"{client.denied} calls of tools were denied",) if client.denied else ()
    return replace(read_block(client.text.strip()), notes=notes, **spent)
