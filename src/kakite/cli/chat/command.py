"""``kakite chat``."""

from __future__ import annotations

import asyncio
import json
import os
import select
import stat
import sys
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from kakite.cli.chat.headless import Output
from kakite.cli.exit_codes import run_until_signal
from kakite.cli.options import GivenFlags, add_setting_options, complete_with
from kakite.cli.session_setup import SessionPlace
from kakite.errors import UsageError

if TYPE_CHECKING:
    from kakite.agent.observe.events import RunListener
    from kakite.agent.run.state import Task
    from kakite.agent.run.store import RunFolder
    from kakite.agent.session.prepared import PreparedSession
    from kakite.cli.chat.view import Notification
    from kakite.cli.settings import Settings
    from kakite.host import Approver

SessionApprove = Annotated[
    str | None,
    typer.Option(
        metavar="WHAT",
        autocompletion=complete_with("ask", "edits", "all", "plan"),
        help="What runs without asking you: ask (only reading), edits (also changes to files), all, or plan "
        "(only reading, and Kakite asks nothing). Default: ask.",
    ),
]
_CHOOSE = "?"
"""What ``--resume`` is without an ID."""
_STORED = "Stored sessions"
_INPUT_TIMEOUT = 3.0  # s for a pipe to say something, where the message does not come from there


Print = Annotated[
    bool, typer.Option("--print", "-p", metavar="", help="Print the answer and exit; ask nothing.")
]
Continue = Annotated[
    bool,
    typer.Option("--continue", "-c", metavar="", help="Go on with the latest session of this folder."),
]
Resume = Annotated[
    str,
    typer.Option(
        "--resume",
        "-r",
        metavar="[ID]",
        help="Go on with this session: its ID, how that begins, or the title you gave it. Without an ID you "
        "choose from a list.",
    ),
]
Folder = Annotated[Path, typer.Option("--folder", "-C", help="The folder to work in. Default: this one.")]
OutputForm = Annotated[
    Output, typer.Option(help="With -p: the answer, one JSON document, or events as JSON lines.")
]
InputForm = Annotated[
    str,
    typer.Option(
        "--input", metavar="text|jsonl", help="With -p: read messages as JSON lines from standard input."
    ),
]
AnswerSchema = Annotated[
    Path | None, typer.Option(help="With -p: the answer must be JSON that fits this JSON Schema.")
]
Fork = Annotated[
    str, typer.Option(metavar="ID", help="Go on with a copy of this session; the session itself stays.")
]
ListSessions = Annotated[
    bool,
    typer.Option("--list", metavar="", rich_help_panel=_STORED, help="List the sessions of this folder."),
]
AllFolders = Annotated[
    bool,
    typer.Option("--all", metavar="", rich_help_panel=_STORED, help="With --list: those of all folders."),
]
Remove = Annotated[
    str,
    typer.Option(
        "--rm",
        metavar="ID",
        rich_help_panel=_STORED,
        help="Remove a session, and its worktree if all in it is committed.",
    ),
]
Worktree = Annotated[
    bool,
    typer.Option(
        "--worktree",
        metavar="",
        help="Work in a separate git worktree, on its own branch, instead of in this folder.",
    ),
]
Branch = Annotated[
    str, typer.Option("--branch", metavar="NAME", help="With --worktree: the branch. Default: kakite/…")
]
Plain = Annotated[
    bool,
    typer.Option(
        "--plain", metavar="", help="Lines only, for screen readers: nothing is drawn twice, no colours."
    ),
]


class ResumeCommand(TyperCommand):
    """A command whose ``--resume`` may stand without an ID."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse arguments."""
        given = list(args)
        end = given.index("--") if "--" in given else len(given)
        for at in reversed(range(end)):
            alone = at + 1 == len(given) or given[at + 1].startswith("-")
            if given[at] in {"--resume", "-r"} and alone:
                given.insert(at + 1, _CHOOSE)
        return super().parse_args(ctx, given)


@add_setting_options(approve=SessionApprove, setup=None, max_turns=None)
def chat(
    prompt: Annotated[str, typer.Argument(help="Your first message.")] = "",
    *,
    once: Print = False,
    go_on: Continue = False,
    resume: Resume = "",
    folder: Folder = Path(),
    output: OutputForm = "text",
    take: InputForm = "text",
    schema: AnswerSchema = None,
    fork: Fork = "",
    list_them: ListSessions = False,
    of_all: AllFolders = False,
    remove: Remove = "",
    worktree: Worktree = False,
    branch: Branch = "",
    plain: Plain = False,
    given: GivenFlags,
) -> None:
    """Work with the agent in this folder: it answers, edits files and runs commands."""
    if list_them or remove:
        return _manage(None if of_all else folder.resolve(), remove, as_json=output != "text")
    place = _choose_place(prompt, branch, worktree=worktree, stored=bool(resume or fork or go_on))
    resume = _resolve_session(resume, fork, folder.resolve())
    session = _find_wanted(folder, given, place, resume=resume, go_on=go_on)
    if once:
        raise typer.Exit(_run_once(session, prompt, output=output, take=take, schema=schema))
    if output != "text" or take != "text" or schema is not None:
        raise UsageError("--output, --input and --schema need -p", hint="kakite chat -p TEXT --output json")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "a conversation needs a terminal",
            hint="for one answer: kakite chat -p TEXT",
            code="no_terminal",
        )
    raise typer.Exit(_run_terminal(session, prompt, plain=plain))


def _resolve_session(resume: str, fork: str, project: Path) -> str:
    """Return the id of the session to go on with; empty: none was named."""
    from kakite.cli.chat.stored_sessions import choose_session, find_one

    if fork:
        from kakite.cli.session_setup import fork_session

        return fork_session(find_one(fork)).id
    if resume == _CHOOSE:
        return choose_session(project)
    return find_one(resume).id if resume else ""


def _choose_place(prompt: str, branch: str, *, worktree: bool, stored: bool) -> SessionPlace:
    if branch and not worktree:
        raise UsageError("--branch needs --worktree")
    if worktree and stored:
        raise UsageError("a stored session works where it worked before", hint="leave --worktree out")
    return SessionPlace(worktree=worktree, branch=branch, title=prompt)


def _manage(project: Path | None, remove: str, *, as_json: bool) -> None:
    from kakite.cli.chat.stored_sessions import print_sessions, remove_session

    if remove:
        remove_session(remove)
    else:
        print_sessions(project, as_json=as_json)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """The session that was asked for."""

    settings: Settings
    project: Path
    stored: RunFolder | None
    flags: Mapping[str, object]
    mode: str
    """``plan``, or empty for what the settings say."""
    place: SessionPlace

    terms: tuple[str, str]
    """The model and the mode of the session, before it is made."""

    @property
    def notify(self) -> Notification:
        """How the person is told that it is their move."""
        return self.settings.notify

    def prepare(self, approver: Approver, listener: RunListener) -> PreparedSession:
        """Return it, ready to be opened."""
        return self._prepare(approver, listener, self.stored, self.flags, self.place)

    def prepare_other(
        self, approver: Approver, listener: RunListener, stored: RunFolder | None, before: Task | None
    ) -> PreparedSession:
        """Return a stored session of the same folder, or a new one where the one ``before`` works."""
        place = self.place
        if before is not None:
            place = SessionPlace(worktree=bool(before.worktree), branch=before.branch)
        return self._prepare(approver, listener, stored, {}, place)

    def _prepare(
        self,
        approver: Approver,
        listener: RunListener,
        stored: RunFolder | None,
        given: Mapping[str, object],
        place: SessionPlace,
    ) -> PreparedSession:
        from kakite.cli.session_setup import prepare_session

        return prepare_session(
            self.settings,
            self.project,
            approver=approver,
            listener=listener,
            stored=stored,
            given=given,
            mode=self.mode,
            place=place,
        )


def _find_wanted(
    folder: Path, given: GivenFlags, place: SessionPlace, *, resume: str, go_on: bool
) -> _Wanted:
    from kakite.cli.session_setup import find_session
    from kakite.cli.settings import check_flags, load_settings

    project = folder.resolve()
    if not project.is_dir():
        raise UsageError(f"`{folder}` is not a folder", code="folder_missing")
    mode = "plan" if given["approve"] == "plan" else ""
    flags = {**given, "approve": None} if mode else dict(given)
    check_flags({name: value for name, value in flags.items() if value is not None})
    settings = load_settings(flags, repository=str(project))
    stored = find_session(resume, project) if resume or go_on else None
    if go_on and stored is None:
        raise UsageError(f"there is no session of `{project}` yet", code="run_unknown")
    model, approve = settings.model, settings.approve
    if stored is not None:
        task = stored.load().task
        model = model if flags.get("model") is not None else task.model
        approve = approve if flags.get("approve") is not None else task.approve
    return _Wanted(
        settings=settings,
        project=project,
        stored=stored,
        flags=flags,
        mode=mode,
        place=place,
        terms=(model, mode or approve),
    )


def _run_once(wanted: _Wanted, prompt: str, *, output: Output, take: str, schema: Path | None) -> int:
    from kakite.cli.chat.headless import EventPrinter, LineApprover, answer_once, converse_in_lines
    from kakite.host import DenyingApprover

    if take not in {"text", "jsonl"}:
        raise UsageError(f"`--input {take}` is not known", hint="it is text or jsonl")
    if take == "jsonl" and (schema is not None or output != "jsonl"):
        raise UsageError("--input jsonl needs --output jsonl, and takes no --schema")
    printer = EventPrinter(output=output)
    if take == "jsonl":
        approver = LineApprover(printer=printer)
        prepared = wanted.prepare(approver, printer.show)
        return _run_locked(prepared, lambda: converse_in_lines(prepared, printer, approver, prompt))
    text = _read_message(prompt)
    rules = _read_schema(schema) if schema is not None else None
    prepared = wanted.prepare(DenyingApprover(), printer.show)
    return _run_locked(prepared, lambda: answer_once(prepared, text, printer, rules))


def _run_terminal(wanted: _Wanted, prompt: str, *, plain: bool) -> int:
    from kakite.cli.chat.terminal import converse
    from kakite.cli.session_setup import check_model_name

    if wanted.stored is None:
        check_model_name(wanted.settings.model)  # now: the rest is looked at behind the prompt
    return converse(wanted, prompt, plain=plain or os.environ.get("TERM", "dumb") in {"", "dumb", "unknown"})


def _run_locked(prepared: PreparedSession, work: Callable[[], Coroutine[object, object, int]]) -> int:
    from kakite.agent.session.prepared import discard_unused
    from kakite.cli.chat.stored_sessions import lock_session

    record = prepared.deps.record
    try:
        with lock_session(record):
            return asyncio.run(run_until_signal(work()))
    finally:
        discard_unused(record, prepared.run, os.environ)


def _read_message(prompt: str) -> str:
    """Return the message: the argument, and below it what a pipe or a file gives on standard input."""
    piped = _read_standard_input(wait=not prompt or prompt == "-")
    text = "\n\n".join(filter(None, ("" if prompt == "-" else prompt, piped)))
    if not text.strip():
        raise UsageError("there is no message", hint="kakite chat -p TEXT, or give it on standard input")
    return text


def _read_standard_input(*, wait: bool) -> str:
    """Return what standard input gives. A pipe that says nothing is left alone, unless we ``wait``."""
    if sys.stdin is None or sys.stdin.closed or sys.stdin.isatty():
        return ""
    kind = os.fstat(sys.stdin.fileno()).st_mode
    if not (stat.S_ISFIFO(kind) or stat.S_ISREG(kind) or stat.S_ISSOCK(kind)):
        return ""
    if not wait and not select.select([sys.stdin], [], [], _INPUT_TIMEOUT)[0]:
        return ""
    return sys.stdin.buffer.read().decode("utf-8", "replace")


def _read_schema(path: Path) -> Any:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    try:
        schema: Any = json.loads(path.read_text(encoding="utf-8"))
        Draft202012Validator.check_schema(schema)
    except (ValueError, SchemaError) as error:
        reason = error.message if isinstance(error, SchemaError) else str(error)
        raise UsageError(f"`{path}` is no JSON Schema: {reason}", code="bad_schema") from error
    return schema
