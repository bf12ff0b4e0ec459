"""How a command ends that does not end well: interrupted, with an error that we know, or with a defect."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import cast

import typer

from kakite.cli.screen import visible
from kakite.errors import KakiteError, OutsideError

INTERRUPTED = 130
"""The exit code of a command that a person or a signal ended."""


class InputEndedError(EOFError):
    """The person ended the input, or the terminal is gone."""


class StorageError(OutsideError):
    """A file or folder cannot be used: the disk is full, or one may not write there.

    Code: ``io_failed``.
    """

    code = "io_failed"


def is_interruption(error: BaseException) -> bool:
    """Return whether this is, holds or came of a Ctrl-C, a signal that ends us, or the end of the input."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return any(is_interruption(inner) for inner in group.exceptions)
    if isinstance(error, asyncio.CancelledError | InputEndedError):
        return True
    return any(isinstance(origin, KeyboardInterrupt) for origin in _origins(error))


def known(error: BaseException, where: str = "") -> KakiteError | None:
    """Return the error as one of ours, None for a defect; ``where`` names a file if the error does not."""
    if isinstance(error, KakiteError):
        return error
    if not isinstance(error, OSError):
        return None
    path = error.filename if isinstance(error.filename, str) else where
    reason = error.strerror or str(error) or type(error).__name__
    return StorageError(f"`{path}`: {reason}" if path else reason)


def tell(error: KakiteError) -> int:
    """Print an error for a person and return the exit code it stands for."""
    typer.secho(f"error ({error.code}): {visible(error.message)}", err=True, fg=typer.colors.RED)
    if error.hint:
        typer.echo(f"hint: {visible(error.hint)}", err=True)
    return error.exit_code


def _origins(error: BaseException) -> Iterator[BaseException]:
    # An import cut short by Ctrl-C may end with an error of its own that was caused by the KeyboardInterrupt.
    seen: set[int] = set()
    while id(error) not in seen:
        yield error
        seen.add(id(error))
        error = error.__cause__ or error.__context__ or error
