"""Builds a session of the settings: for the terminal, for programs, and for editors."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kakite.errors import UsageError

if TYPE_CHECKING:
    from kakite.agent.observe.events import RunListener
    from kakite.agent.run.deps import SessionDeps
    from kakite.agent.run.state import RunState, Task
    from kakite.agent.run.store import RunFolder
    from kakite.agent.session.hooks import HookRunner
    from kakite.agent.session.prepared import PreparedSession
    from kakite.agent.session.session_context import SessionContext
    from kakite.cli.settings import Settings
    from kakite.host import Approver
    from kakite.host.config.model import ServerEntry
    from kakite.models.model import Model


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPlace:
    """Where a new session works."""

    worktree: bool = False
    """In a git worktree of its own; else in the folder as it is."""
    branch: str = ""
    """The worktree's; empty: a new one."""
    title: str = ""
    """What a new branch is named by: the first message."""


def find_session(session_id: str, project: Path) -> RunFolder | None:
    """Return the record of a session by its id, or the latest one of a folder where the id is empty.

    Raises:
        RunStoreError: there is no session of this id.
    """
    from kakite.agent.run.store import RunStore
    from kakite.workspace import ensure_state_folder

    store = RunStore(ensure_state_folder(os.environ))
    if session_id:
        return store.find(session_id)
    return next((each for each, run in list_sessions() if is_session_of(run.task, project)), None)


def is_session_of(task: Task, project: Path) -> bool:
    """Return whether a session was begun in a folder, or works there."""
    return str(project) in {task.repository, task.folder}


def list_sessions() -> list[tuple[RunFolder, RunState]]:
    """Return all sessions that can be read, the latest first."""
    from kakite.agent.run.store import RunStore, RunStoreError
    from kakite.workspace import ensure_state_folder

    found: list[tuple[RunFolder, RunState]] = []
    for record in RunStore(ensure_state_folder(os.environ)).list_runs():
        try:
            run = record.load()
        except (RunStoreError, OSError):
            continue
        if run.task.workspace != "clone":
            found.append((record, run))
    return found


def prepare_session(
    settings: Settings,
    project: Path,
    *,
    approver: Approver,
    listener: RunListener,
    stored: RunFolder | None = None,
    given: Mapping[str, object] | None = None,
    mode: str = "",
    servers: Sequence[ServerEntry] = (),
    place: SessionPlace | None = None,
) -> PreparedSession:
    """Return a session of these settings, in this folder; nothing is started yet.

    Args:
        settings: the person's.
        project: the folder to work in.
        approver: who is asked about calls.
        listener: told of all that happens.
        stored: the record of a session to go on with; None: a new one.
        given: which settings a flag named, for a stored session: the others stay as they were.
        mode: what goes without a question, where that is not what the settings say.
        servers: those that the person configured in the editor which drives the session.
        place: where a new session works; None: in the folder as it is.

    Raises:
        UsageError: there is no model, no such folder, or no repository for a worktree.
        GitError: a worktree cannot be made.
    """
    from kakite.agent.session.prepared import discard_unused

    record, run, note = _load_or_create(settings, project, stored, given or {}, place or SessionPlace())
    if mode:
        run = replace(run, task=replace(run.task, approve=mode))
    try:
        prepared = _build_prepared(run, record, settings, approver, listener)
    except Exception:
        discard_unused(record, run, os.environ)
        raise
    return replace(prepared, deps=replace(prepared.deps, client_servers=tuple(servers)), note=note)


def _build_prepared(
    run: RunState, record: RunFolder, settings: Settings, approver: Approver, listener: RunListener
) -> PreparedSession:
    from kakite.agent.session.checkpoints import Checkpoints
    from kakite.agent.session.commits import Committer
    from kakite.agent.session.prepared import PreparedSession
    from kakite.agent.session.session_context import load_session_context

    _check_run(run)
    folder = Path(run.task.folder)
    context = load_session_context(folder, os.environ)
    return PreparedSession(
        run=run,
        deps=_build_deps(run, record, settings, context, approver, listener),
        project=folder,
        context=context,
        checkpoints=Checkpoints(folder, record.folder / "checkpoints", environ=os.environ),
        committer=Committer(folder, os.environ),
        hooks=_build_hooks(settings, folder, record),
    )


def _load_or_create(
    settings: Settings,
    project: Path,
    stored: RunFolder | None,
    given: Mapping[str, object],
    place: SessionPlace,
) -> tuple[RunFolder, RunState, str]:
    from kakite.agent.run.store import RunStore
    from kakite.workspace import ensure_state_folder

    if stored is not None:
        run = _apply_given(stored.load(), settings, given)
        return stored, run, _tell_worktree(run.task) if run.task.worktree else ""
    record = RunStore(ensure_state_folder(os.environ)).create_run()
    kind, note = choose_session_sandbox(settings.sandbox)
    run = _create_run(settings, project, record.id, kind)
    if place.worktree:
        check_model_name(run.task.model)  # before there is something to remove again
        run, told = _move_to_worktree(run, place)
        note = " ".join(filter(None, (told, note)))
    return record, run, note


def _move_to_worktree(run: RunState, place: SessionPlace) -> tuple[RunState, str]:
    """Return a new session in a worktree of its own, and what the person is told of that."""
    from kakite.agent.git.session_worktree import open_worktree
    from kakite.agent.run.store import choose_branch_name

    task = run.task
    branch = choose_branch_name(place.branch or None, place.title, task.id)
    made = open_worktree(Path(task.repository), branch, os.environ)
    task = replace(task, workspace="worktree", worktree=str(made.folder), branch=branch)
    told = _tell_worktree(task)
    if made.uncommitted:
        files = (
            "1 uncommitted file is"
            if made.uncommitted == 1
            else f"{made.uncommitted:,} uncommitted files are"
        )
        told += f" Your {files} not in it."
    return replace(run, task=task, base=made.start), told


def _tell_worktree(task: Task) -> str:
    return f"The session works in a git worktree, on the branch `{task.branch}`: {task.worktree}."


def _build_hooks(settings: Settings, folder: Path, record: RunFolder) -> HookRunner:
    from kakite.agent.session.hooks import Hook, HookRunner

    hooks = tuple(
        Hook(event=each.event, command=each.command, tools=each.tools, timeout=each.timeout)
        for each in settings.hooks
    )
    return HookRunner(hooks=hooks, project=folder, environ=os.environ, session=record.id)


def fork_session(record: RunFolder) -> RunFolder:
    """Return the record of a copy of a session, with its conversation and the files that it kept.

    Raises:
        RunStoreError: it cannot be read.
    """
    from kakite.agent.run.store import RunStore
    from kakite.workspace import ensure_state_folder

    copy = RunStore(ensure_state_folder(os.environ)).create_run()
    run = record.load()
    kept = record.folder / "checkpoints"
    if kept.is_dir():
        shutil.copytree(kept, copy.folder / "checkpoints", symlinks=True)
    copy.folder.mkdir(mode=0o700, exist_ok=True)
    copy.folder.chmod(0o700)
    copy.save(replace(run, task=replace(run.task, id=copy.id)))
    return copy


def open_other_model(task: Task, name: str) -> tuple[str | None, Model]:
    """Return another model for a session, with its address: that of the one before, of the same provider.

    Raises:
        ModelConfigError: there is no such provider, or its key is missing.
    """
    from kakite.cli.agent.worker import open_task_model

    same = name.partition(":")[0] == task.model.partition(":")[0]
    base_url = task.base_url if same else None
    return base_url, open_task_model(replace(task, model=name, base_url=base_url))


def check_model_name(name: str) -> None:
    """Check that a model is named at all.

    Raises:
        UsageError: none is.
    """
    if not name:
        raise UsageError(
            "you named no model",
            hint="give one with --model PROVIDER:NAME, or set `model` in your settings",
            code="model_missing",
        )


def _check_run(run: RunState) -> None:
    check_model_name(run.task.model)
    task = run.task
    if Path(task.folder).is_dir():
        return
    hint = f"`git worktree add {task.worktree} {task.branch}` makes it again" if task.worktree else ""
    raise UsageError(f"`{task.folder}` is not a folder", hint=hint, code="folder_missing")


def _build_deps(
    run: RunState,
    record: RunFolder,
    settings: Settings,
    context: SessionContext,
    approver: Approver,
    listener: RunListener,
) -> SessionDeps:
    from kakite.agent.run.approvals import WaitClock
    from kakite.agent.run.deps import SessionDeps
    from kakite.agent.run.limits import DailyUsageStore
    from kakite.agent.session.context import format_skill_list
    from kakite.agent.session.mailbox import Mailbox, share_questions
    from kakite.agent.session.page_fetch import PageFetcher
    from kakite.agent.session.person_questions import PersonApprover, create_host_question
    from kakite.agent.session.session_tools import build_session_tools
    from kakite.cli.agent.worker import open_task_model
    from kakite.cli.settings import build_tool_settings
    from kakite.host.open import ensure_host_folder
    from kakite.host.policy.rules import RuleStore
    from kakite.sandbox import SandboxSpec, open_sandbox
    from kakite.workspace import ensure_state_folder

    task, waits = run.task, WaitClock()
    person = share_questions(approver, Mailbox(record.folder))
    fetcher = PageFetcher(task.network, task.hosts, os.environ, requests=task.requests)
    pages = None if task.network == "off" else fetcher
    terms = SandboxSpec(
        network=task.network,
        hosts=task.hosts,
        credentials=task.credentials,
        requests=task.requests,
        ask_host=create_host_question(person, waits) if isinstance(person, PersonApprover) else None,
    )
    return SessionDeps(
        record=record,
        sandbox=open_sandbox(task.sandbox, record.task, terms=terms, project=Path(task.folder)),
        limits=terms.limits,
        model=open_task_model(task),
        retry_seconds=60 * settings.retry_minutes,
        rules=(),  # the session's mode sets them
        approver=approver,
        waits=waits,
        days=DailyUsageStore(ensure_state_folder(os.environ)),
        tooling=replace(build_tool_settings(settings), after_edit=settings.after_edit),
        builtin=build_session_tools(context.skills, pages),
        saved=RuleStore(ensure_host_folder(os.environ)),
        skills=format_skill_list(context.skills),
        stream=True,
        listener=listener,
    )


def choose_session_sandbox(kind: str) -> tuple[str, str]:
    """Return the kind of sandbox for a session, and what to say of it.

    ``auto`` prefers bubblewrap, which starts in an instant and needs no user of its own for the person's
    files. Where there is neither it nor an engine, commands run without isolation, and the person is told.
    """
    from kakite.sandbox import AUTO
    from kakite.sandbox.factory import choose_backend

    if kind != AUTO:
        return kind, ""
    if shutil.which("bwrap"):
        return "bubblewrap", ""
    if choose_backend(os.environ) == "container":
        return "container", ""
    return (
        "local",
        "No sandbox is installed (bubblewrap), so commands run without isolation, as you. Kakite asks "
        "before each, unless you choose otherwise.",
    )


def _create_run(settings: Settings, project: Path, session_id: str, sandbox: str) -> RunState:
    from kakite.agent.run import state_machine
    from kakite.agent.run.state import Task
    from kakite.agent.session.session import UNLIMITED_TURNS
    from kakite.cli.options import apply_limits
    from kakite.cli.settings import build_model_options

    task = Task(
        id=session_id,
        text="",
        repository=str(project),
        branch="",
        model=settings.model,
        base_url=settings.base_url or None,
        sandbox=sandbox,
        approve=settings.approve,
        max_turns=UNLIMITED_TURNS,
        context_tokens=settings.context_tokens,
        tool_calls=settings.tool_calls,
        effort=settings.effort,
        model_options=build_model_options(settings),
        network=settings.network,
        hosts=settings.hosts,
        credentials=dict(settings.credentials),
        requests=settings.requests,
        workspace="folder",
    )
    return state_machine.create_session_state(apply_limits(task, settings))


def _apply_given(run: RunState, settings: Settings, given: Mapping[str, object]) -> RunState:
    from kakite.cli.options import add_model_options
    from kakite.cli.settings import check_flags

    names = ("model", "base_url", "approve", "network", "hosts", "context_tokens", "effort")
    changes = {name: getattr(settings, name) for name in names if given.get(name) is not None}
    if changes.get("base_url") == "":
        changes["base_url"] = None
    task = replace(run.task, **changes)  # pyright: ignore[reportArgumentType] - by the fields' own names
    flags = check_flags({name: value for name, value in given.items() if value is not None})
    return replace(run, task=add_model_options(task, flags))
