"""``kakite acp``: serves sessions to an editor, by the Agent Client Protocol."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kakite.cli.exit_codes import run_until_signal
from kakite.cli.options import GivenFlags, add_setting_options
from kakite.cli.session_setup import SessionPlace
from kakite.errors import ExternalError, UsageError

if TYPE_CHECKING:
    from kakite.agent.acp.transport import LineTransport
    from kakite.agent.observe.events import RunListener
    from kakite.agent.run.state import RunState, Task
    from kakite.agent.run.store import RunFolder
    from kakite.agent.session.prepared import PreparedSession
    from kakite.host import Approver
    from kakite.host.config.model import ServerEntry
    from kakite.models.model import Model

CLOSE_TIMEOUT = 3.5
"""Seconds for the sessions to end in order once the editor is gone."""
END_TIMEOUT = 4.0
"""Seconds after which the process ends in any case, counted from when the editor is gone."""


Worktree = Annotated[
    bool,
    typer.Option(
        "--worktree",
        metavar="",
        help="Let each new session work in a separate git worktree, on a new branch.",
    ),
]


@add_setting_options(setup=None, max_turns=None)
def acp(*, worktree: Worktree = False, given: GivenFlags) -> None:
    """Serve the agent to your editor by the Agent Client Protocol (ACP), over standard input and output."""
    from kakite.cli.settings import check_flags

    check_flags({name: value for name, value in given.items() if value is not None})
    if find_spec("acp") is None:
        raise ExternalError(
            "the library of the Agent Client Protocol is not installed",
            hint="install Kakite with its extra: kakite[acp]",
            code="missing_extra",
        )
    if sys.stdin.isatty():
        raise UsageError(
            "`kakite acp` is started by an editor, and speaks its protocol on standard input",
            hint="docs/editors.md says what to write where; in a terminal use `kakite chat`",
            code="no_client",
        )
    place = SessionPlace(worktree=worktree)
    asyncio.run(run_until_signal(_serve(_SettingsFactory(given=given, place=place))))


async def _serve(factory: _SettingsFactory) -> None:
    from kakite.agent.acp.handshake import answer_handshake
    from kakite.agent.acp.transport import open_transport

    _reserve_standard_output()
    transport = await open_transport(_end_in_time)
    sys.stdout = sys.stderr
    # A daemon: an editor that goes at once does not wait for it.
    loading = threading.Thread(target=_load_sessions, daemon=True)
    capabilities = await answer_handshake(transport, loading.start)
    if capabilities is None:
        return
    if loading.ident is not None:
        await asyncio.to_thread(loading.join)
    await _serve_sessions(factory, transport, capabilities)


def _end_in_time() -> None:
    """End the process soon, whatever hangs, also a thread, which nobody can cancel: the editor is gone."""
    from kakite.http.shutdown import end_process

    killer = threading.Timer(END_TIMEOUT, end_process, [0])
    killer.daemon = True
    killer.start()


def _load_sessions() -> None:
    """Import what sessions need, while the editor has its answer and is not waiting."""
    import_module("kakite.agent.acp.agent")
    import_module("kakite.agent.acp.open_session")


async def _serve_sessions(
    factory: _SettingsFactory, transport: LineTransport, capabilities: Mapping[str, Any]
) -> None:
    from acp import run_agent, schema

    from kakite.agent.acp.agent import AcpAgent
    from kakite.http.shutdown import end_process

    agent: Any = AcpAgent(factory)  # its methods are found by name
    agent.note_client(schema.ClientCapabilities.model_validate(capabilities))
    try:
        await run_agent(agent, transport, use_unstable_protocol=True)
    finally:
        await asyncio.wait([asyncio.ensure_future(agent.close())], timeout=CLOSE_TIMEOUT)
    end_process(0)  # the interpreter takes seconds to end in order, and nothing is left to do


def _reserve_standard_output() -> None:
    """Let only the protocol write to standard output: all else that prints has standard error."""
    protocol = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = os.fdopen(protocol, "w", encoding="utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class _SettingsFactory:
    """Makes sessions of the person's settings, as they are when a session begins."""

    given: Mapping[str, object]
    place: SessionPlace
    """Where new sessions work."""

    def prepare(
        self,
        project: Path,
        approver: Approver,
        listener: RunListener,
        stored: RunFolder | None,
        servers: Sequence[ServerEntry],
    ) -> PreparedSession:
        """Return a new session in this folder, or the one that is stored, with the editor's servers."""
        from kakite.cli.session_setup import prepare_session
        from kakite.cli.settings import load_settings

        settings = load_settings(self.given, repository=str(project))
        return prepare_session(
            settings,
            project,
            approver=approver,
            listener=listener,
            stored=stored,
            given=self.given,
            servers=servers,
            place=self.place,
        )

    def find(self, session_id: str) -> RunFolder:
        """Return the record of a session."""
        from kakite.cli.session_setup import find_session

        found = find_session(session_id, Path())
        assert found is not None
        return found

    def fork(self, record: RunFolder) -> RunFolder:
        """Return the record of a copy of a session."""
        from kakite.cli.session_setup import fork_session

        return fork_session(record)

    def list_models(self, project: Path) -> Sequence[str]:
        """Return the models that the person's settings name for a folder."""
        from kakite.cli.settings import load_settings

        settings = load_settings({}, repository=str(project))
        flagged = self.given.get("model")
        return tuple(name for name in (flagged, settings.model) if isinstance(name, str) and name)

    def open_model(self, task: Task, name: str) -> tuple[str | None, Model]:
        """Return another model for a session, with its address where that is not the provider's own."""
        from kakite.cli.session_setup import open_other_model

        return open_other_model(task, name)

    def check_model(self) -> None:
        """Refuse where the model of the person's settings could not be asked."""
        from kakite.cli.agent.worker import check_model_key
        from kakite.cli.settings import load_settings

        settings = load_settings(self.given)
        if settings.model:
            check_model_key(settings)

    def list(self) -> Sequence[tuple[RunFolder, RunState]]:
        """Return the stored sessions, the latest first."""
        from kakite.cli.session_setup import list_sessions

        return list_sessions()
