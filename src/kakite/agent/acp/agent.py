"""The agent's side of the Agent Client Protocol: several sessions in one process.

Each session is one of ``kakite.agent.session``; here its events become updates, and its questions become
requests for permission.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path
from typing import Any, Protocol, cast

from acp import PROTOCOL_VERSION, RequestError, schema

from kakite import __version__
from kakite.agent.acp.content import to_message_parts
from kakite.agent.acp.questions import (
    build_question_call,
    build_question_form,
    build_question_options,
    parse_form_answer,
    parse_option_answer,
)
from kakite.agent.acp.updates import (
    EditedFiles,
    Update,
    get_tool_kind,
    iter_replay,
    iter_updates,
    list_locations,
)
from kakite.agent.context_holder import ContextHolder
from kakite.agent.observe.event_log import build_event_log
from kakite.agent.observe.events import RunEvent, ToolCallEvent, TurnEndReason
from kakite.agent.run.machine import describe
from kakite.agent.run.state import RunState
from kakite.agent.run.store import RunFolder
from kakite.agent.session.person_questions import PersonQuestion
from kakite.agent.session.prepared import PreparedSession
from kakite.agent.session.session import Session, SessionMode
from kakite.errors import KakiteError
from kakite.host import ApprovalRequest, ApprovalResponse
from kakite.models.messages import UserMessage

log = logging.getLogger(__name__)

PAGE_SIZE = 50
"""Sessions in one answer to ``session/list``."""
_MODES = (
    ("ask", "Ask", "Kakite asks before each edit and command"),
    ("edits", "Edit", "Kakite edits files without asking, and asks before each command"),
    ("all", "Everything", "Kakite asks nothing"),
    ("plan", "Plan", "The model only looks, and answers with a plan"),
)
_STOP_REASONS: dict[TurnEndReason, schema.StopReason] = {
    "answered": "end_turn",
    "interrupted": "cancelled",
    "limit": "max_turn_requests",
    "budget": "max_turn_requests",
    "stuck": "max_turn_requests",
    "refused": "refusal",
    "failed": "end_turn",
}
_AUTH_CODES = frozenset(("model_auth", "key_missing", "model_missing", "provider_unknown"))


class AcpClient(Protocol):
    """What we ask of the editor."""

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        """Show an update."""
        ...

    async def request_permission(
        self,
        session_id: str,
        tool_call: schema.ToolCallUpdate,
        options: list[schema.PermissionOption],
        **kwargs: Any,
    ) -> schema.RequestPermissionResponse:
        """Ask the person about a call."""
        ...

    async def create_elicitation(self, message: str, mode: Any, **kwargs: Any) -> Any:
        """Ask the person to fill in a form. Only where the editor has forms."""
        ...


class SessionFactory(Protocol):
    """Makes sessions of the person's settings."""

    def prepare(
        self, project: Path, approver: Any, listener: Any, stored: RunFolder | None
    ) -> PreparedSession:
        """Return a new session in this folder, or the one that is stored."""
        ...

    def find(self, session_id: str) -> RunFolder:
        """Return the record of a session."""
        ...

    def list(self) -> Sequence[tuple[RunFolder, RunState]]:
        """Return the stored sessions, the latest first."""
        ...


@dataclass(kw_only=True)
class _OpenSession:
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
    _prepared: PreparedSession | None = None
    _lock: ContextHolder[None] | None = None
    _holder: ContextHolder[Session] | None = None
    _queue: asyncio.Queue[Update] = field(default_factory=asyncio.Queue[Update])
    _sender: asyncio.Task[None] | None = None

    @property
    def run(self) -> RunState:
        """The session as it stands."""
        assert self._prepared is not None
        return self.session.run if self.session else self._prepared.run

    async def begin(self, prepared: PreparedSession) -> None:
        """Hold the session for this process, and send what happens in it.

        Raises:
            RunStoreError: another process works on it.
        """
        record = prepared.deps.record
        self._prepared, self.session_id = prepared, record.id
        self.files.inside = prepared.deps.sandbox.project
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


@asynccontextmanager
async def _hold_record(record: RunFolder) -> AsyncGenerator[None]:
    with record.lock():
        yield


@dataclass(frozen=True, slots=True, kw_only=True)
class _PermissionApprover:
    """Asks the editor's person. A PersonApprover."""

    opened: _OpenSession

    async def ask(self, question: ApprovalRequest) -> ApprovalResponse:
        """Ask for permission, and wait for the answer."""
        opened, call = self.opened, question.call
        await opened.flush()  # the call is shown before the question about it
        shown = schema.ToolCallUpdate(
            tool_call_id=call.id,
            title=describe(call),
            kind=get_tool_kind(call.name, call.arguments),
            status="pending",
            content=opened.files.show_preview(call.id, question.diff) or None,
            locations=list_locations(opened.files, call.arguments) or None,
            raw_input=call.arguments,
        )
        try:
            answer = await opened.client.request_permission(
                opened.session_id, shown, _build_permission_options(question)
            )
        except RequestError as error:
            reason = f"the editor could not ask: {error}"
            return ApprovalResponse(allowed=False, reason=reason, nobody=True)
        match answer.outcome:
            case schema.AllowedOutcome(option_id="once"):
                return ApprovalResponse(allowed=True)
            case schema.AllowedOutcome(option_id="tool"):
                return ApprovalResponse(allowed=True, remember="tool")
            case _:
                return ApprovalResponse(allowed=False, reason="the person said no")

    async def ask_person(self, question: PersonQuestion) -> str | None:
        """Ask the model's own question: by a form, or by a request for permission."""
        opened = self.opened
        await opened.flush()
        try:
            if opened.has_forms:
                form = build_question_form(question, opened.session_id, opened.last_call)
                return parse_form_answer(await opened.client.create_elicitation(question.text, form))
            answer = await opened.client.request_permission(
                opened.session_id,
                build_question_call(question, opened.last_call),
                build_question_options(question),
            )
        except RequestError as error:
            log.warning("the editor could not ask: %s", error)
            return None
        return parse_option_answer(question, answer)


def _build_permission_options(question: ApprovalRequest) -> list[schema.PermissionOption]:
    always = f"Always allow {question.tool or question.call.name} in this session"
    return [
        schema.PermissionOption(option_id="once", name="Allow", kind="allow_once"),
        schema.PermissionOption(option_id="tool", name=always, kind="allow_always"),
        schema.PermissionOption(option_id="no", name="Reject", kind="reject_once"),
    ]


class AcpAgent:
    """Serves sessions to one editor. An ``acp.Agent``."""

    def __init__(self, factory: SessionFactory) -> None:
        self._factory = factory
        self._client: AcpClient | None = None
        self._sessions: dict[str, _OpenSession] = {}
        self._has_forms = False

    def on_connect(self, conn: Any) -> None:
        """Take the connection to the editor."""
        self._client = cast("AcpClient", conn)

    async def close(self) -> None:
        """End all sessions."""
        await asyncio.gather(*(each.close() for each in self._sessions.values()), return_exceptions=True)
        self._sessions.clear()

    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: schema.ClientCapabilities | None = None,
        client_info: schema.Implementation | None = None,  # noqa: ARG002 - the protocol's parameter
        **_more: Any,
    ) -> schema.InitializeResponse:
        """Say what this agent can do, and take note of what the editor can."""
        forms = client_capabilities.elicitation if client_capabilities else None
        self._has_forms = forms is not None and forms.form is not None
        capabilities = schema.AgentCapabilities(
            load_session=True,
            prompt_capabilities=schema.PromptCapabilities(image=True, embedded_context=True),
            session_capabilities=schema.SessionCapabilities(
                list=schema.SessionListCapabilities(),
                resume=schema.SessionResumeCapabilities(),
                close=schema.SessionCloseCapabilities(),
            ),
        )
        return schema.InitializeResponse(
            protocol_version=min(protocol_version, PROTOCOL_VERSION) or PROTOCOL_VERSION,
            agent_capabilities=capabilities,
            agent_info=schema.Implementation(name="kakite", title="Kakite", version=__version__),
            auth_methods=[_build_auth_method()],
        )

    async def authenticate(self, method_id: str, **_more: Any) -> schema.AuthenticateResponse:
        """Accept: the key is in our environment, and is checked when it is used."""
        if method_id != _AUTH_METHOD:
            raise RequestError.invalid_params({"methodId": f"there is no method `{method_id}`"})
        return schema.AuthenticateResponse()

    async def new_session(self, cwd: str, mcp_servers: Any = None, **_more: Any) -> schema.NewSessionResponse:  # noqa: ARG002 - see load
        """Begin a session in a folder."""
        opened = await self._open(_check_folder(cwd), None)
        return schema.NewSessionResponse(
            session_id=opened.session_id,
            modes=_build_modes(opened.run),
            config_options=_build_options(opened.run),
        )

    async def load_session(
        self,
        cwd: str,
        session_id: str,
        mcp_servers: Any = None,  # noqa: ARG002 - the protocol's parameter
        **_more: Any,
    ) -> schema.LoadSessionResponse:
        """Open a stored session, and show all of it again."""
        opened = await self._reopen(_check_folder(cwd), session_id)
        for update in iter_replay(list(build_event_log(opened.run)), opened.files):
            opened.send(update)
        await opened.flush()
        return schema.LoadSessionResponse(
            modes=_build_modes(opened.run), config_options=_build_options(opened.run)
        )

    async def resume_session(
        self,
        session_id: str,
        cwd: str,
        mcp_servers: Any = None,  # noqa: ARG002 - the protocol's parameter
        **_more: Any,
    ) -> schema.ResumeSessionResponse:
        """Open a stored session without showing it again."""
        opened = await self._reopen(_check_folder(cwd), session_id)
        return schema.ResumeSessionResponse(
            modes=_build_modes(opened.run), config_options=_build_options(opened.run)
        )

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
        await self._set_mode(self._get(session_id), mode_id)
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
        if config_id != "mode":
            raise RequestError.invalid_params({"configId": f"there is no option `{config_id}`"})
        await self._set_mode(opened, str(value))
        session = await opened.start()
        return schema.SetSessionConfigOptionResponse(config_options=_build_options(session.run))

    async def prompt(self, session_id: str, prompt: list[Any], **_more: Any) -> schema.PromptResponse:
        """Give the model a message, and return when its turn has ended."""
        opened = self._get(session_id)
        message = await opened.build_message(prompt)
        if not message.text and not message.images:
            raise RequestError.invalid_params({"prompt": "it is empty"})
        opened.cancelled = False
        try:
            session = await opened.start()
            if opened.cancelled:
                return schema.PromptResponse(stop_reason="cancelled")
            if session.is_running:
                raise RequestError.invalid_request({"reason": "a turn is running in this session"})
            titled = bool(session.run.title)
            result = await session.prompt(message)
        except KakiteError as error:
            await opened.flush()
            raise _to_request_error(error) from error
        if not titled:
            opened.send(
                schema.SessionInfoUpdate(session_update="session_info_update", title=session.run.title)
            )
        await opened.flush()
        return schema.PromptResponse(stop_reason=_STOP_REASONS[result.reason])

    async def cancel(self, session_id: str, **_more: Any) -> None:
        """Interrupt the turn that runs."""
        opened = self._sessions.get(session_id)
        if opened is not None:
            opened.cancelled = True
            if opened.session is not None:
                opened.session.interrupt()

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002 - the protocol's
        """Refuse: there are no further methods."""
        raise RequestError.method_not_found(method)

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        """Ignore it, as the protocol wants."""

    def _get(self, session_id: str) -> _OpenSession:
        opened = self._sessions.get(session_id)
        if opened is None:
            raise RequestError.invalid_params({"sessionId": f"there is no open session `{session_id}`"})
        return opened

    async def _reopen(self, project: Path, session_id: str) -> _OpenSession:
        if session_id in self._sessions:
            await self.close_session(session_id)
        try:
            record = await asyncio.to_thread(self._factory.find, session_id)
        except KakiteError as error:
            raise RequestError.resource_not_found(session_id) from error
        return await self._open(project, record)

    async def _open(self, project: Path, stored: RunFolder | None) -> _OpenSession:
        assert self._client is not None
        files = EditedFiles(project=project, inside=str(project))
        opened = _OpenSession(client=self._client, files=files, has_forms=self._has_forms)
        approver = _PermissionApprover(opened=opened)
        try:
            prepared = await asyncio.to_thread(self._factory.prepare, project, approver, opened.show, stored)
            await opened.begin(prepared)
        except KakiteError as error:
            raise _to_request_error(error) from error
        self._sessions[opened.session_id] = opened
        return opened

    async def _set_mode(self, opened: _OpenSession, mode: str) -> None:
        if mode not in {name for name, _, _ in _MODES}:
            raise RequestError.invalid_params({"modeId": f"there is no mode `{mode}`"})
        session = await opened.start()
        session.set_mode(cast("SessionMode", mode))


_AUTH_METHOD = "environment"


def _build_auth_method() -> schema.EnvVarAuthMethod | schema.AuthMethodAgent:
    names = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GOOGLE_API_KEY")
    return schema.AuthMethodAgent(
        id=_AUTH_METHOD,
        name="Key in the environment",
        description=f"Set {', '.join(names)}, whichever your model needs, where your editor starts Kakite; "
        "name the model with --model or in your settings",
    )


def _check_folder(cwd: str) -> Path:
    folder = Path(cwd)
    if not folder.is_absolute() or not folder.is_dir():
        raise RequestError.invalid_params({"cwd": f"`{cwd}` is not the absolute path of a folder"})
    return folder


def _build_modes(run: RunState) -> schema.SessionModeState:
    modes = [schema.SessionMode(id=name, name=shown, description=told) for name, shown, told in _MODES]
    return schema.SessionModeState(current_mode_id=run.task.approve, available_modes=modes)


def _build_options(run: RunState) -> list[Any]:
    choices = [
        schema.SessionConfigSelectOption(value=name, name=shown, description=told)
        for name, shown, told in _MODES
    ]
    return [
        schema.SessionConfigOptionSelect(
            type="select",
            id="mode",
            name="What goes without asking",
            category="mode",
            current_value=run.task.approve,
            options=choices,
        )
    ]


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
    return RequestError(-32603, f"{error.message}. {error.hint}".strip(), told)
