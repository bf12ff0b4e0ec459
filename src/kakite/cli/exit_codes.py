"""Maps interruptions, known errors and unexpected errors to exit codes and messages."""

from __future__ import annotations

import asyncio
import atexit
import json
import logging
import os
import signal
import sys
from asyncio.exceptions import CancelledError
from collections.abc import Callable, Coroutine, Iterator
from typing import TypeVar, cast

from kakite.cli.console import escape_control
from kakite.errors import ExternalError, KakiteError, UsageError

T = TypeVar("T")
INTERRUPTED = 130
"""The exit code of a command that a person or a signal ended."""


class InputEndedError(EOFError):
    """The person ended the input, or the terminal is gone."""


class StorageError(ExternalError):
    """A file or folder cannot be used: the disk is full, or one may not write there.

    Code: ``io_failed``.
    """

    code = "io_failed"


def run_and_exit(run: Callable[[], object]) -> None:
    """Run a command as ``run_guarded`` does; the threads of Temporal's runtime survive its exit."""
    try:
        run_guarded(run)
    except SystemExit as ending:
        if "temporalio.bridge" not in sys.modules:
            raise
        from kakite.http.shutdown import end_process

        # They still give objects back, and abort where the interpreter is being taken down meanwhile.
        atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]
        end_process(ending.code if isinstance(ending.code, int) else 0)


def run_guarded(run: Callable[[], object]) -> None:
    """Run a command; what goes wrong is told and ends the process with the exit code that it stands for."""
    try:
        _start_logging()
        run()
    except (Exception, KeyboardInterrupt, CancelledError, BaseExceptionGroup) as error:
        if is_interruption(error):
            sys.exit(INTERRUPTED)
        known_one = to_known_error(error)
        if "--json" in sys.argv and not (known_one and known_one.is_reported):
            _print_json_error(known_one or to_internal_error(error))
        if known_one:
            sys.exit(print_error(known_one))
        if os.environ.get("KAKITE_DEBUG"):
            raise
        sys.exit(_print_defect(error))


def is_interruption(error: BaseException) -> bool:
    """Return whether this is, holds or came of a Ctrl-C, a signal that ends us, or the end of the input."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return any(is_interruption(inner) for inner in group.exceptions)
    if isinstance(error, CancelledError | InputEndedError):
        return True
    return any(isinstance(origin, KeyboardInterrupt) for origin in _walk_causes(error))


def to_known_error(error: BaseException, where: str = "") -> KakiteError | None:
    """Return the error as one of ours, None for a defect; ``where`` names a file if the error does not."""
    if isinstance(error, KakiteError):
        return error
    if not isinstance(error, OSError):
        return None
    path = error.filename if isinstance(error.filename, str) else where
    reason = error.strerror or str(error) or type(error).__name__
    return StorageError(f"`{path}`: {reason}" if path else reason)


def to_internal_error(error: BaseException) -> KakiteError:
    """Return what a program is told of a defect."""
    return KakiteError(f"{type(error).__name__}: {error}", hint="this is a bug in Kakite", code="internal")


def to_error_json(error: KakiteError) -> dict[str, str]:
    """Return what ``error`` holds in the JSON of every command that failed."""
    return {"code": error.code, "message": error.message, "hint": error.hint}


def _print_json_error(error: KakiteError) -> None:
    import typer

    typer.echo(json.dumps({"error": to_error_json(error)}))  # in ASCII: bytes of an argument may be no text


def print_error(error: KakiteError) -> int:
    """Print an error for a person and return the exit code it stands for."""
    import typer

    typer.secho(f"error ({error.code}): {escape_control(error.message)}", err=True, fg=typer.colors.RED)
    if error.hint:
        typer.echo(f"hint: {escape_control(error.hint)}", err=True)
    return error.exit_code


async def run_until_signal(work: Coroutine[object, object, T]) -> T:
    """Await the work; a signal that ends programs cancels it, unless we were started deaf to it."""
    me = asyncio.current_task()
    assert me is not None
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup does
            asyncio.get_running_loop().add_signal_handler(number, me.cancel)
    return await work


def _print_defect(error: BaseException) -> int:
    import typer

    typer.echo(f"error (internal): {type(error).__name__}: {escape_control(str(error))}", err=True)
    typer.echo("hint: this is a bug in Kakite; KAKITE_DEBUG=1 shows where", err=True)
    return 3


def _start_logging() -> None:
    level = os.environ.get("KAKITE_LOG") or "WARNING"
    levels = logging.getLevelNamesMapping()
    if level.upper() not in levels:
        raise UsageError(
            f"KAKITE_LOG: there is no level `{level}`",
            hint="use DEBUG, INFO, WARNING, ERROR or CRITICAL",
            code="bad_setting",
        )
    logging.basicConfig(level=levels[level.upper()], stream=sys.stderr)


def _walk_causes(error: BaseException) -> Iterator[BaseException]:
    # An import cut short by Ctrl-C may end with an error of its own that was caused by the KeyboardInterrupt.
    seen: set[int] = set()
    while id(error) not in seen:
        yield error
        seen.add(id(error))
        error = error.__cause__ or error.__context__ or error
