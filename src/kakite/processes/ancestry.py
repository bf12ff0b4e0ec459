"""Detects whether Kakite itself started this process; then no person is at the keyboard.

It looks at the ancestors, which no program can change: Kakite's supervisor stands above whatever it runs,
also above a program that forked twice, began a session of its own and emptied its environment. In a sandbox,
where the supervisor is not visible, the first process still has the mark that Kakite gave it. A program that
no isolation holds (``--sandbox local``) can still write the person's files itself: this keeps a model from
agreeing by a command, it is no wall against an attack.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from kakite.processes import supervisor
from kakite.processes.spec import RUN_ENV_VAR

_SUPERVISOR = re.compile(rb"/kakite/processes/(?:supervisor\.py|__pycache__/supervisor\.[\w.-]+\.pyc)\Z")
_MOST = 4096  # ancestors; a broken /proc must not keep us


def is_run_by_kakite() -> bool:
    """Return whether this process was started, however far up, by something that Kakite runs.

    Reads the environment and ``/proc``; where there is no ``/proc``, the environment alone tells.
    """
    return RUN_ENV_VAR in os.environ or any(_is_ours(pid) for pid in _iter_ancestors())


def _iter_ancestors() -> Iterator[int]:
    """Yield our own number and those of our ancestors, nearest first."""
    pid = os.getpid()
    for _ in range(_MOST):
        yield pid
        pid = supervisor.get_parent(pid)
        if not pid:
            return


def _is_ours(pid: int) -> bool:
    words = _read_words(pid, "cmdline")
    # PYTHON -I -S …/kakite/processes/supervisor.py …: whoever merely reads that file is no supervisor.
    supervises = len(words) > 4 and words[1:3] == [b"-I", b"-S"] and bool(_SUPERVISOR.search(words[3]))
    marked = any(word.startswith(RUN_ENV_VAR.encode() + b"=") for word in _read_words(pid, "environ"))
    return supervises or marked


def _read_words(pid: int, name: str) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:  # noqa: PTH123 - as in the supervisor
            return file.read().split(b"\0")
    except OSError:
        return []
