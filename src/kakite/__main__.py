"""The ``kakite`` command, also ``python -m kakite``."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

INTERRUPTED = 130


def main() -> None:
    """Run the command line and exit."""
    # While the libraries load there is nothing to clean up, and nobody to tell an interruption from a defect.
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ours:
        signal.signal(signal.SIGINT, lambda _number, _frame: os._exit(INTERRUPTED))
    _print_starting(sys.argv[1:])
    run = _load_command(sys.argv[1:])
    if ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


def _load_command(words: list[str]) -> Callable[[], None]:
    """Return the command, loaded: ``kakite serve`` with plain arguments needs no command line library."""
    if words[:1] == ["serve"]:
        from kakite.cli.serve_options import parse_without_typer

        if (options := parse_without_typer(words[1:])) is not None:
            from kakite.cli.serve_command import main as serve

            return lambda: serve(options)
    from kakite.cli.app import main as command_line

    return command_line


def _print_starting(words: list[str]) -> None:
    """Say something at a terminal: on a busy machine the libraries of these take a while to load."""
    if words[:2] in _SLOW_COMMANDS and not {"-h", "--help"} & {*words} and sys.stderr and sys.stderr.isatty():
        sys.stderr.write("Starting …\n")
        sys.stderr.flush()


_SLOW_COMMANDS = (
    *(["agent", "run"], ["agent", "resume"], ["agent", "worker"], ["agent", "demo"]),
    ["host", "call"],
)


if __name__ == "__main__":
    main()
