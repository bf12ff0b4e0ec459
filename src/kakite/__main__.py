"""``python -m kakite``, and the installed ``kakite``."""

from __future__ import annotations

import os
import signal
import sys

INTERRUPTED = 130


def main() -> None:
    """Run the command line and exit."""
    # While the libraries load there is nothing to clean up, and nobody to tell an interruption from a defect.
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ours:
        signal.signal(signal.SIGINT, lambda _number, _frame: os._exit(INTERRUPTED))
    _say_that_it_begins(sys.argv[1:])
    if sys.argv[1:2] == ["serve"]:
        from kakite.cli.serving import main as run
    else:
        from kakite.cli.app import main as run

    if ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


def _say_that_it_begins(words: list[str]) -> None:
    """Say something at a terminal: on a busy machine the libraries of these take a while to load."""
    if words[:2] in _HEAVY and not {"-h", "--help"} & {*words} and sys.stderr and sys.stderr.isatty():
        sys.stderr.write("Starting …\n")
        sys.stderr.flush()


_HEAVY = (
    *(["agent", "run"], ["agent", "resume"], ["agent", "worker"], ["agent", "demo"]),
    ["host", "call"],
)


if __name__ == "__main__":
    main()
