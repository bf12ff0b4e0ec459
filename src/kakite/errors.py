"""The base class of all errors that Kakite raises on purpose. Imports nothing.

Each error is defined beside what raises it and derives from KakiteError. Its ``code`` and fields are API,
its wording is not.
"""

from __future__ import annotations


class KakiteError(Exception):
    """Something went wrong in a way that we know.

    ``code`` is stable and for programs; the message says what was expected and what was found;
    ``hint`` says what to do next. None of the three ever holds a secret.
    """

    code = "error"
    exit_code = 1
    is_reported = False
    """Whether a command has told a program of it already, in the JSON that it printed."""

    def __init__(self, message: str, *, hint: str = "", code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if code is not None:
            self.code = code


class UsageError(KakiteError):
    """The caller asked for something that makes no sense: a wrong flag, setting or argument."""

    code = "bad_usage"
    exit_code = 2


class ExternalError(KakiteError):
    """Something outside of Kakite failed: a server, the network, a program, a model."""

    code = "outside_failed"
    exit_code = 3
