"""The agent's side of the Agent Client Protocol: several sessions in one process.

Each session is one of ``kakite.agent.session``; its events become updates, and its questions requests for
permission. All that sessions need is imported when the first one begins: an editor waits for ``initialize``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from acp import RequestError, schema
from pydantic import ValidationError

from kakite.agent.acp.handshake import AUTH_METHOD, STEERING, build_initialize_answer
from kakite.agent.acp.options import MODES, PROVIDER_EFFORT, build_commands, build_modes, build_options
from kakite.errors import KakiteError
from kakite.models.model import EFFORTS

if TYPE_CHECKING:
    from kakite.agent.acp.open_session import OpenSession
    from kakite.agent.acp.permissions import AcpClient
    from kakite.agent.run.state import RunState, Task
    from kakite.agent.run.store import RunFolder
    from kakite.agent.session.prepared import PreparedSession
    from kakite.agent.session.session import Session, SessionMode
    from kakite.host.config.model import ServerEntry
    from kakite.models.model import Effort, Model

PAGE_SIZE = 50
"""Sessions in one answer to ``session/list``."""
_STOP_REASONS: Mapping[str, schema.StopReason] = {
    "answered": "end_turn",
    "interrupted": "cancelled",
    "limit": "max_turn_requests",
    "budget": "max_turn_requests",
    "stuck": "max_turn_requests",
    "refused": "refusal",
    "failed": "end_turn",
}
_AUTH_CODES = frozenset(("model_auth", "model_no_key"))
_REQUEST_CODES = frozenset(("turn_running", "turn_not_running"))


class SessionFactory(Protocol):
    """Makes sessions of the person's settings."""

    def prepare(
        self,
        project: Path,
        approver: Any,
        listener: Any,
        stored: RunFolder | None,
        servers: Sequence[ServerEntry],
    ) -> PreparedSession:
        """Return a new session in this folder, or the one that is stored, with the editor's servers."""
        ...

    def find(self, session_id: str) -> RunFolder:
        """Return the record of a session."""
        ...

    def fork(self, record: RunFolder) -> RunFolder:
        """Return the record of a copy of a session."""
        ...

    def list(self) -> Sequence[tuple[RunFolder, RunState]]:
        """Return the stored sessions, the latest first."""
        ...

    def list_models(self, project: Path) -> Sequence[str]:
        """Return the models that the person's settings name for a folder."""
        ...

    def open_model(self, task: Task, name: str) -> tuple[str | None, Model]:
        """Return another model for a session, with its address where that is not the provider's own."""
        ...

    def check_model(self) -> None:
        """Refuse where the model of the person's settings could not be asked."""
        ...


class AcpAgent:
    """Serves sessions to one editor. An ``acp.Agent``."""

    def __init__(self, factory: SessionFactory) -> None:
        self._factory = factory
        self._client: AcpClient | None = None
        self._sessions: dict[str, OpenSession] = {}
        self._has_forms = False
        self._files: schema.FileSystemCapabilities | None = None
        """What the editor can do with files that it has open."""

    def on_connect(self, conn: Any) -> None:
        """Take the connection to the editor."""
        self._client = cast("AcpClient", conn)

    async def close(self) -> None:
        """End all sessions."""
        await asyncio.gather(*(each.close() for each in self._sessions.values()), return_exceptions=True)
        self._sessions.clear()

    async def initialize(
        self,
        protocol_version: int,  # noqa: ARG002 - whatever it is: we speak one
        client_capabilities: schema.ClientCapabilities | None = None,
        client_info: schema.Implementation | None = None,  # noqa: ARG002 - the protocol's parameter
        **_more: Any,
    ) -> schema.InitializeResponse:
        """Say what this agent can do, and take note of what the editor can."""
        self.note_client(client_capabilities)
        return schema.InitializeResponse.model_validate(build_initialize_answer())

    def note_client(self, capabilities: schema.ClientCapabilities | None) -> None:
        """Take note of what the editor can do."""
        forms = capabilities.elicitation if capabilities else None
        self._has_forms = forms is not None and forms.form is not None
        self._files = capabilities.fs if capabilities else None

    async def authenticate(self, method_id: str, **_more: Any) -> schema.AuthenticateResponse:
        """Look whether there is a key; whether it is right shows when it is used."""
        if method_id != AUTH_METHOD:
            raise RequestError.invalid_params({"methodId": f"there is no method `{method_id}`"})
        try:
            await asyncio.to_thread(self._factory.check_model)
        except KakiteError as error:
            raise _to_request_error(error) from error
        return schema.AuthenticateResponse()

    async def new_session(
        self, cwd: str, mcp_servers: Sequence[Any] | None = None, **_more: Any
    ) -> schema.NewSessionResponse:
        """Begin a session in a folder."""
        opened = await self._open(_check_folder(cwd), None, mcp_servers)
        opened.send(build_commands(opened.commands))
        return schema.NewSessionResponse(session_id=opened.session_id, **_describe(opened))

    async def load_session(
        self, cwd: str, session_id: str, mcp_servers: Sequence[Any] | None = None, **_more: Any
    ) -> schema.LoadSessionResponse:
        """Open a stored session, and show all of it again."""
        opened = await self._reopen(_check_folder(cwd), session_id, mcp_servers)
        await opened.replay()
        opened.send(build_commands(opened.commands))
        return schema.LoadSessionResponse(**_describe(opened))

    async def resume_session(
        self, session_id: str, cwd: str, mcp_servers: Sequence[Any] | None = None, **_more: Any
    ) -> schema.ResumeSessionResponse:
        """Open a stored session without showing it again."""
        opened = await self._reopen(_check_folder(cwd), session_id, mcp_servers)
        opened.send(build_commands(opened.commands))
        return schema.ResumeSessionResponse(**_describe(opened))

    async def fork_session(
        self, session_id: str, cwd: str, mcp_servers: Sequence[Any] | None = None, **_more: Any
    ) -> schema.ForkSessionResponse:
        """Open a copy of a stored session as it stands; the two go on by themselves."""
        folder = _check_folder(cwd)
        record = await self._find(session_id)
        try:
            copy = await asyncio.to_thread(self._factory.fork, record)
        except KakiteError as error:
            raise _to_request_error(error) from error
        opened = await self._open(folder, copy, mcp_servers)
        opened.send(build_commands(opened.commands))
        return schema.ForkSessionResponse(session_id=opened.session_id, **_describe(opened))

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_more: Any
    ) -> schema.ListSessionsResponse:
        """Return the stored sessions, of one folder or of all, a page at a time."""
        first = int(cursor) if cursor and cursor.isdigit() else 0
        found = await asyncio.to_thread(self._factory.list)
        here = [(record, run) for record, run in found if cwd in {None, run.task.repository}]
        page = [_build_info(record, run) for record, run in here[first : first + PAGE_SIZE]]
        more = first + PAGE_SIZE < len(here)
        return schema.ListSessionsResponse(
            sessions=page, next_cursor=str(first + PAGE_SIZE) if more else None
        )

    async def close_session(self, session_id: str, **_more: Any) -> schema.CloseSessionResponse:
        """End what runs of a session; it stays stored."""
        opened = self._sessions.pop(session_id, None)
        if opened is not None:
            await opened.close()
        return schema.CloseSessionResponse()

    async def set_session_mode(
        self, session_id: str, mode_id: str, **_more: Any
    ) -> schema.SetSessionModeResponse:
        """Say what goes without a question."""
        opened = self._get(session_id)
        await self._set_mode(opened, mode_id)
        opened.send(
            schema.ConfigOptionUpdate(
                session_update="config_option_update",
                config_options=build_options(opened.run, opened.models),
            )
        )
        return schema.SetSessionModeResponse()

    async def set_config_option(
        self,
        config_id: str,
        session_id: str,
        value: str | bool,  # noqa: FBT001 - the protocol's parameter
        **_more: Any,
    ) -> schema.SetSessionConfigOptionResponse:
        """Change a setting of a session."""
        opened = self._get(session_id)
        match config_id:
            case "mode":
                await self._set_mode(opened, str(value))
                opened.send(
                    schema.CurrentModeUpdate(session_update="current_mode_update", current_mode_id=str(value))
                )
            case "model":
                await self._set_model(opened, str(value))
            case "effort":
                await self._set_effort(opened, str(value))
            case _:
                raise RequestError.invalid_params({"configId": f"there is no option `{config_id}`"})
        options = build_options(opened.run, opened.models)
        return schema.SetSessionConfigOptionResponse(config_options=options)

    async def prompt(self, session_id: str, prompt: list[Any], **_more: Any) -> schema.PromptResponse:
        """Give the model a message, and return when its turn has ended."""
        opened = self._get(session_id)
        opened.cancelled = False
        try:
            reason = await self._run_prompt(opened, prompt)
        except KakiteError as error:
            await opened.flush()
            raise _to_request_error(error) from error
        await opened.flush()
        return schema.PromptResponse(stop_reason=reason)

    async def _run_prompt(self, opened: OpenSession, prompt: list[Any]) -> schema.StopReason:
        message = await opened.build_message(prompt)
        if not message.text and not message.images:
            raise RequestError.invalid_params({"prompt": "it is empty"})
        session = await opened.start()
        if opened.cancelled:
            return "cancelled"
        if await opened.run_command(session, message):
            return "end_turn"
        titled = bool(session.run.title)
        result = await opened.run_turn(session, message)
        if not titled:
            opened.send(
                schema.SessionInfoUpdate(session_update="session_info_update", title=session.run.title)
            )
        return _STOP_REASONS[result.reason]

    async def cancel(self, session_id: str, **_more: Any) -> None:
        """Interrupt the turn that runs."""
        opened = self._sessions.get(session_id)
        if opened is not None:
            opened.cancelled = True
            if opened.session is not None:
                opened.session.interrupt()

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Take a message for the turn that runs, as other agents do; refuse all other methods.

        Where none runs, the editor is to send it as a prompt: then it hears of the turn's end. A command of
        ours is done or refused, as in a prompt: it is nothing for the model.
        """
        if method != STEERING:
            raise RequestError.method_not_found(f"_{method}")
        try:
            asked = schema.PromptRequest.model_validate(params)
        except ValidationError as error:
            raise RequestError.invalid_params({"errors": error.errors(include_url=False)}) from error
        opened = self._get(asked.session_id)
        message = await opened.build_message(asked.prompt)
        if opened.session is None or not opened.session.is_running:
            return {"outcome": "promptRequired", "reason": "noRunningTurn"}
        from kakite.agent.acp.commands import expand_command  # loads all of a session

        try:
            if not await opened.run_command(opened.session, message):
                opened.session.steer(expand_command(message))
        except KakiteError as error:
            raise _to_request_error(error) from error
        return {"outcome": "injected"}

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        """Ignore it, as the protocol wants."""

    def _get(self, session_id: str) -> OpenSession:
        opened = self._sessions.get(session_id)
        if opened is None:
            raise RequestError.invalid_params({"sessionId": f"there is no open session `{session_id}`"})
        return opened

    async def _find(self, session_id: str) -> RunFolder:
        try:
            return await asyncio.to_thread(self._factory.find, session_id)
        except KakiteError as error:
            raise RequestError.resource_not_found(session_id) from error

    async def _reopen(self, project: Path, session_id: str, servers: Sequence[Any] | None) -> OpenSession:
        if session_id in self._sessions:
            await self.close_session(session_id)
        return await self._open(project, await self._find(session_id), servers)

    async def _open(
        self, project: Path, stored: RunFolder | None, servers: Sequence[Any] | None
    ) -> OpenSession:
        assert self._client is not None
        # In a thread, so that others are answered while all of it is imported.
        await asyncio.to_thread(import_module, "kakite.agent.acp.open_session")
        from kakite.agent.acp.open_session import open_session
        from kakite.agent.acp.servers import to_server_entries

        entries = to_server_entries(servers or ())
        try:
            opened = await open_session(
                self._client,
                project,
                lambda approver, listener: self._factory.prepare(
                    project, approver, listener, stored, entries
                ),
                self._files,
            )
        except KakiteError as error:
            raise _to_request_error(error) from error
        opened.has_forms = self._has_forms
        opened.models = tuple(await asyncio.to_thread(self._factory.list_models, project))
        self._sessions[opened.session_id] = opened
        return opened

    async def _set_mode(self, opened: OpenSession, mode: str) -> None:
        if mode not in {name for name, _, _ in MODES}:
            raise RequestError.invalid_params({"modeId": f"there is no mode `{mode}`"})
        session = await self._start(opened)
        session.set_mode(cast("SessionMode", mode))

    async def _set_model(self, opened: OpenSession, name: str) -> None:
        session = await self._start(opened)
        try:
            base_url, model = await asyncio.to_thread(self._factory.open_model, session.run.task, name)
            session.set_model(name, base_url, model)
        except KakiteError as error:
            raise _to_request_error(error) from error

    async def _set_effort(self, opened: OpenSession, value: str) -> None:
        if value not in {PROVIDER_EFFORT, *EFFORTS}:
            raise RequestError.invalid_params({"value": f"there is no effort `{value}`"})
        effort = None if value == PROVIDER_EFFORT else cast("Effort", value)
        session = await self._start(opened)
        task = replace(session.run.task, effort=effort)
        try:
            _, model = await asyncio.to_thread(self._factory.open_model, task, task.model)
            session.set_effort(effort, model)
        except KakiteError as error:
            raise _to_request_error(error) from error

    async def _start(self, opened: OpenSession) -> Session:
        try:
            return await opened.start()
        except KakiteError as error:
            raise _to_request_error(error) from error


def _check_folder(cwd: str) -> Path:
    folder = Path(cwd)
    if not folder.is_absolute() or not folder.is_dir():
        raise RequestError.invalid_params({"cwd": f"`{cwd}` is not the absolute path of a folder"})
    return folder


def _describe(opened: OpenSession) -> dict[str, Any]:
    """Return what the answers to all requests that open a session have in common."""
    return {
        "modes": build_modes(opened.run),
        "config_options": build_options(opened.run, opened.models),
    }


def _build_info(record: RunFolder, run: RunState) -> schema.SessionInfo:
    updated = record.get_saved_at().astimezone(UTC).isoformat(timespec="seconds")
    return schema.SessionInfo(
        session_id=record.id, cwd=run.task.repository, title=run.title or None, updated_at=updated
    )


def _to_request_error(error: KakiteError) -> RequestError:
    """Return the error of the protocol for one of ours, with the way on."""
    told = {"code": error.code, "message": error.message, "hint": error.hint}
    if error.code in _AUTH_CODES:
        return RequestError.auth_required(told)
    if error.code in _REQUEST_CODES:
        return RequestError.invalid_request(told)
    return RequestError(-32603, f"{error.message}. {error.hint}".strip(), told)
