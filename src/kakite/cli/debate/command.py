"""``kakite debate``: coding CLIs debate a question, and a person decides how to go on."""

from __future__ import annotations

import difflib
import errno
import os
import re
import secrets
import shlex
import signal
import sys
from asyncio.exceptions import CancelledError
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from kakite.cli.console import escape_one_line, print_json
from kakite.cli.debate.runner import runner
from kakite.cli.debate.serve import serve
from kakite.cli.exit_codes import INTERRUPTED, is_interruption, to_error_json, to_known_error
from kakite.cli.options import (
    Asks,
    DebateDiff,
    DebateFiles,
    DebateOutcome,
    DebateRepo,
    DebateReview,
    Minutes,
    Mode,
    Order,
    Participants,
    Tokens,
)
from kakite.errors import UsageError
from kakite.terminal_text import escape_control

if TYPE_CHECKING:
    from kakite.cli.debate.session import DebateOptions, DebateSession, DebateView
    from kakite.debate.model import CodeContext
    from kakite.debate.participants.base import Participant
    from kakite.debate.patch import ProposedPatch
    from kakite.debate.store import SqliteDebateStore

_DEFAULT = "ask"
_ALIASES = {"about": _DEFAULT}
"""Commands under the names that they had."""
_MAX_TOPIC = 200_000
"""Characters; all sides are shown all of it in each round."""


class _TopicGroup(TyperGroup):
    """A group in which what is no command is the topic of the default one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] in _ALIASES:
            args = [_ALIASES[args[0]], *args[1:]]
        elif args and args[0] not in {*self.commands, *ctx.help_option_names}:
            _check_no_command(args[0], self.commands)
            args = [_DEFAULT, *args]
        return super().parse_args(ctx, args)


def _check_no_command(word: str, commands: Collection[str]) -> None:
    """Refuse a topic that looks like a command: a debate costs money.

    Raises:
        UsageError: it is one word, of letters, digits, dashes and the like, without the sign of a question.
    """
    if not _COMMAND.fullmatch(word):
        return
    shown = shlex.quote(word)
    known = _INSTEAD.get(word.casefold(), "")
    near = difflib.get_close_matches(word, commands, n=1, cutoff=0.75)
    instead = known or (f"`kakite debate {near[0]}`" if near else "")
    asked = f"To debate this word: `kakite debate {_DEFAULT} {shown}`"
    raise UsageError(
        f"there is no command `{word}`", hint=f"did you mean {instead}? {asked}" if instead else asked
    )


_COMMAND = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]*")
"""A word that may be a command. In other scripts a whole question can be one word."""
_INSTEAD = {
    **dict.fromkeys(("list", "ls", "status", "show", "history"), "`kakite debate ask --list`"),
    **dict.fromkeys(("resume", "continue"), "`kakite debate ask --resume NAME`"),
    **dict.fromkeys(("delete", "remove", "rm"), "`kakite debate ask --delete NAME`"),
    **dict.fromkeys(("stop", "quit", "exit", "cancel"), "Ctrl-C in the debate's terminal"),
    **dict.fromkeys(("help", "usage"), "`kakite debate --help`"),
    **dict.fromkeys(("doctor", "check"), "`kakite doctor`"),
    **dict.fromkeys(("config", "settings"), "the settings `debate_sides` and `debate_participants`"),
    **dict.fromkeys(("start", "new", "run"), '`kakite debate ask "TOPIC"`'),
}
"""What to do for what people type."""


app = typer.Typer(
    cls=_TopicGroup,
    help='Let codex, claude or other coding CLIs debate a question: `kakite debate "TOPIC"`. '
    "You decide what happens next.",
    epilog='`kakite debate "TOPIC" …` is short for `kakite debate ask "TOPIC" …`: '
    "`kakite debate ask --help` shows its options, such as --transcript, --rounds, --participant.",
    no_args_is_help=True,
)

Topic = Annotated[
    str, typer.Argument(show_default=False, help="The question to debate; - reads it from standard input.")
]
Rounds = Annotated[
    int, typer.Option(min=1, max=10, help="Most rounds before Kakite asks you how to continue.")
]
Json = Annotated[
    bool, typer.Option("--json", help="Print each event as a line of JSON, and ask you nothing.")
]
NoInput = Annotated[
    bool, typer.Option("--no-input", "--yes", "-y", help="Ask you nothing, and end after one turn.")
]
Keep = Annotated[
    bool, typer.Option("--keep", help="Keep the debate on disk, so that you can continue it later.")
]
Resume = Annotated[str | None, typer.Option(metavar="NAME", help="Continue a kept debate.")]
List = Annotated[bool, typer.Option("--list", help="List the kept debates.")]
Delete = Annotated[str | None, typer.Option(metavar="NAME", help="Delete a kept debate.")]
Transcript = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Write the transcript to DIR at the end, as Markdown, JSON and HTML."),
]


@app.command(_DEFAULT)
def ask(
    ctx: typer.Context,
    topic: Topic = "",
    participant: Participants = None,
    repo: DebateRepo = None,
    diff: DebateDiff = None,
    files: DebateFiles = None,
    review: DebateReview = None,
    outcome: DebateOutcome = "answer",
    rounds: Rounds = 2,
    mode: Mode = "debate",
    order: Order = "parallel",
    budget_minutes: Minutes = None,
    budget_tokens: Tokens = None,
    budget_asks: Asks = None,
    as_json: Json = False,
    no_input: NoInput = False,
    keep: Keep = False,
    resume: Resume = None,
    show_list: List = False,
    delete: Delete = None,
    transcript: Transcript = None,
) -> None:
    """Hold a debate in the terminal: see all answers side by side, then say how to continue."""
    with ExitStack() as stack:
        if show_list or delete is not None:
            _manage_saved(stack, delete, as_json=as_json)
            return
        try:
            asks = not (no_input or as_json) and sys.stdin.isatty() and sys.stdout.isatty()
            if resume is not None:
                _check_unchanged(ctx)
                wish = _build_resume_options(stack, resume, topic)
            else:
                from kakite.debate import DebateLimits

                seconds = None if budget_minutes is None else budget_minutes * 60
                budget = DebateLimits(seconds=seconds, tokens=budget_tokens, asks=budget_asks)
                code = _load_context(repo, diff, files, review)
                terms = {"mode": mode, "order": order, "rounds": rounds, "budget": budget, "code": code}
                terms["review"] = review is not None
                wish = _build_new_options(stack, topic, participant or [], terms, keep=keep)
            wish = _want_outcome(wish, outcome)
            _run_debate(wish, transcript, asks=asks, as_json=as_json)
        except (Exception, KeyboardInterrupt) as error:
            if as_json:
                _report_as_json(error)
            raise


def _want_outcome(wish: DebateOptions, outcome: str) -> DebateOptions:
    """Return the options with what the debate is to end in.

    Raises:
        UsageError: there are no files to change.
    """
    from dataclasses import replace

    code = wish.begun.terms.code if wish.begun else wish.terms.get("code")
    if outcome == "patch" and code is None:
        raise UsageError("--outcome patch needs files", hint="name their folder with --repo")
    return replace(wish, wants_patch=outcome == "patch")


def _report_as_json(error: BaseException) -> None:
    """Print a line for a program.

    Raises:
        KakiteError: ``error`` was none of ours, but is known: what it is called here.
    """
    if ours := to_known_error(error):
        print_json({"type": "error", "error": to_error_json(ours)})
        ours.is_reported = True
        if ours is not error:
            raise ours from error


def _build_new_options(
    stack: ExitStack, topic: str, names: list[str], terms: Mapping[str, Any], *, keep: bool
) -> DebateOptions:
    from kakite.cli.debate.session import DebateOptions

    if topic == "-":
        topic = sys.stdin.buffer.read().decode(errors="replace")
    if terms["review"]:
        from kakite.debate.prompt import load_prompt

        topic = "\n\n".join(filter(None, (load_prompt("review"), topic.strip())))
    if not topic.strip():
        raise UsageError(
            "you gave no question", hint='`kakite debate "TOPIC"`; `kakite debate ask -h` shows the options'
        )
    if len(topic) > _MAX_TOPIC:
        raise UsageError(f"the question has {len(topic):,} characters; the limit is {_MAX_TOPIC:,}")
    return DebateOptions(
        topic=topic,
        participants=_load_participants(names),
        terms={**terms, "cap": max(terms["rounds"], 4)},
        session=_make_name(topic) if keep else "",
        kept=_open_store(stack) if keep else None,
    )


def _load_context(
    repo: Path | None, diff: str | None, files: Sequence[str] | None, review: str | None
) -> CodeContext | None:
    """Return what the sides can read; None if nothing was asked for.

    Raises:
        DebateError: ``bad_files`` or ``files_too_large``.
    """
    if repo is None and diff is None and review is None and not files:
        return None
    import asyncio

    from kakite.debate.files import read_context, read_review_context

    if review is not None:
        return asyncio.run(read_review_context(repo or Path(), review, files or (), diff or ""))
    return asyncio.run(read_context(repo or Path(), files or (), diff or ""))


def _load_participants(names: Sequence[str]) -> tuple[Participant, ...]:
    from kakite.cli.debate.runner import load_participants

    return load_participants(names, os.environ)


def _check_unchanged(ctx: typer.Context) -> None:
    """Refuse what a debate that is kept has had from its beginning: a budget, say, would not be heeded."""
    known = ("participant", "repo", "diff", "files", "review", "rounds", "mode", "order")
    for name in (*known, "budget_minutes", "budget_tokens", "budget_asks"):
        source = ctx.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(f"a kept debate has its own `{flag}`", hint=f"leave out `{flag}`")


def _build_resume_options(stack: ExitStack, name: str, topic: str) -> DebateOptions:
    from kakite.cli.debate.session import DebateOptions

    if topic:
        raise UsageError("a kept debate already has its question", hint="leave out one of the two")
    kept = _open_store(stack)
    begun = kept.claim(name)
    return DebateOptions(
        topic="",
        participants=() if begun.stopped else _load_participants(begun.terms.names),
        session=name,
        kept=kept,
        begun=begun,
    )


def _run_debate(wish: DebateOptions, transcript: Path | None, *, asks: bool, as_json: bool) -> None:
    from dataclasses import replace

    from kakite.cli.debate.session import DebateSession, check_available

    if wish.begun is None:
        check_available(wish.participants)
    if transcript:  # what cannot be written later is better known before anybody thinks for minutes
        transcript.mkdir(parents=True, exist_ok=True)
        if not os.access(transcript, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, "you may not write there", str(transcript))
    wish = replace(wish, transcript=transcript, asks=asks)
    shown = _open_view(wish.session, as_json=as_json)
    evening = DebateSession(wish, shown)
    if wish.begun and wish.begun.stopped:
        evening.debate = wish.begun
        shown.show_latest(wish.begun)
        shown.show_turn(wish.begun)
        _finish(evening, as_json=as_json)
        return
    try:
        evening.run()
    except (Exception, KeyboardInterrupt, CancelledError) as error:
        interrupted = is_interruption(error)
        if not isinstance(error, BrokenPipeError):
            _finish(evening, as_json=as_json, interrupted=interrupted)
        if interrupted:
            raise typer.Exit(INTERRUPTED) from None
        raise
    _finish(evening, as_json=as_json)


def _finish(evening: DebateSession, *, as_json: bool, interrupted: bool = False) -> None:
    """Write the transcript, and tell what is left of the debate."""
    gone = (OSError,) if interrupted else ()  # the terminal, perhaps: then nobody is told
    with _ignore_signals(restore=not interrupted):
        if interrupted and not as_json and evening.wish.transcript:
            with suppress(*gone):
                typer.echo("\nwriting the transcript …", err=True)
        evening.save_transcript()
        if evening.patch and as_json:
            print_json({"type": "patch", "side": evening.patch.side, "diff": evening.patch.diff})
        with suppress(*gone):
            _print_end(evening, as_json=as_json, interrupted=interrupted)
    if evening.patch and not (interrupted or as_json):
        _offer_patch(evening, evening.patch)


def _offer_patch(evening: DebateSession, patch: ProposedPatch) -> None:
    """Show the diff, and apply it if the person says so."""
    from kakite.debate.patch import apply_patch

    typer.echo(f"\nthe edits of {patch.side}:\n", err=True)
    typer.echo(escape_control(patch.diff), nl=False)
    code = evening.debate and evening.debate.terms.code
    if not (evening.wish.asks and code) or code.commit:
        return
    if typer.confirm(f"Apply them to {escape_one_line(code.folder)}?", default=False, err=True):
        run = secrets.token_hex(8)
        apply_patch(Path(code.folder), patch, run=run, environ=os.environ)
        typer.echo(f"undo it: kakite undo --run {run}", err=True)


@contextmanager
def _ignore_signals(*, restore: bool) -> Generator[None]:
    """Let no second Ctrl-C, and no signal that ends programs, cut short what takes a second or two.

    Without ``restore`` they stay ignored: a process that is about to exit with 130 would die of one instead.
    """
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        if restore:
            for number, handler in before.items():
                signal.signal(number, handler)


def _print_end(evening: DebateSession, *, as_json: bool, interrupted: bool) -> None:
    from kakite.debate import get_status

    debate, session = evening.debate, evening.wish.session
    goes_on = bool(evening.wish.kept and debate and not debate.stopped)
    if as_json:
        print_json(
            {
                "type": "ended",
                "session": session,
                "status": get_status(debate).status if debate else None,
                "interrupted": interrupted,
                "kept": bool(evening.wish.kept),
                "transcript": [str(file) for file in evening.written],
            }
        )
        return
    if interrupted:
        said = sum(len(each.answers) for each in debate.rounds) if debate else 0
        typer.echo(f"\nstopped; answers given: {said}", err=True)
    for file in evening.written:
        typer.echo(f"wrote {escape_one_line(str(file))}", err=True)
    if goes_on:
        name = escape_one_line(session) or "(unnamed)"
        typer.echo(f"kept as {name}; `kakite debate --resume {shlex.quote(session)}` continues it", err=True)


def _manage_saved(stack: ExitStack, delete: str | None, *, as_json: bool) -> None:
    from kakite.cli.debate.session import print_saved_debates

    kept = _open_store(stack)
    if delete is None:
        print_saved_debates(kept, as_json=as_json)
        return
    kept.delete(delete)
    typer.echo(f"deleted {escape_one_line(delete)}", err=True)


def _open_store(stack: ExitStack) -> SqliteDebateStore:
    from kakite.debate.store import SqliteDebateStore, prepare_store_file

    return stack.enter_context(SqliteDebateStore(prepare_store_file(os.environ)))


def _make_name(topic: str) -> str:
    from secrets import token_hex

    from kakite.debate.transcript.files import create_slug

    return f"{create_slug(topic, 30)}-{token_hex(2)}"


def _open_view(session: str, *, as_json: bool) -> DebateView:
    if as_json:
        from kakite.cli.debate.session import JsonLinesView

        return JsonLinesView(session)
    from kakite.cli.debate.live_view import DebateConsole, DebateLiveView

    return DebateLiveView(DebateConsole())


# The server and the runner.
app.command("serve")(serve)
app.command("runner")(runner)
