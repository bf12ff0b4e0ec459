"""Fake coding CLIs that answer, and that fail in every way that real ones do, for tests of debates."""

from __future__ import annotations

import sys
from pathlib import Path

from kakite.debate.answers import FailureCode
from kakite.debate.participants.output_parsers import OutputFormat

FAILING: dict[str, FailureCode] = {
    "empty": "empty_answer",
    "exits": "exited",
    "bad_command": "bad_command",
    "missing_key": "not_logged_in",
    "not_logged_in": "not_logged_in",
    "http_401": "not_logged_in",
    "http_500": "http_error",
    "http_529": "http_error",
    "rate_limited": "rate_limited",
    "stream_cut": "stream_cut",
    "half_json": "half_json",
    "large": "too_long",
    "hangs": "timed_out",
    "begins_and_hangs": "silent",
    "resists": "timed_out",
    "breeds_and_hangs": "timed_out",
    "asks_on_terminal": "needs_terminal",
    "dies": "killed",
}
"""What each kind of stub that gives no answer is read as, given times that it does not keep."""

ANSWERING = ("agrees", "objects", "wavers", "never_reads", "breeds")
"""The kinds that answer. The first three give that verdict on every answer that they are shown."""


def build_stub_command(form: OutputFormat, kind: str) -> tuple[str, ...]:
    """Return the command line of a CLI with that form of output that behaves so; ``stub.py`` says how."""
    return (sys.executable, "-I", "-S", str(Path(__file__).with_name("stub.py")), form, kind)
