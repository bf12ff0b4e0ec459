"""What it takes to start a program: arguments, the whole environment, a folder."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kakite.errors import OutsideError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kakite.processes.starter import By

_KEPT = frozenset(
    (
        *("PATH", "LANG", "LANGUAGE", "TERM", "TZ", "TMPDIR"),
        # Every category that POSIX and glibc know. Not any LC_…: what merely looks so may hold anything.
        *("LC_ALL", "LC_COLLATE", "LC_CTYPE", "LC_MESSAGES", "LC_MONETARY", "LC_NUMERIC", "LC_TIME"),
        *("LC_ADDRESS", "LC_IDENTIFICATION", "LC_MEASUREMENT", "LC_NAME", "LC_PAPER", "LC_TELEPHONE"),
    )
)
MARK = "KAKITE_RUN"
"""The variable that tells a program that Kakite runs it. Meant for programs that want to know; who must be
sure asks ``inside_a_run``, since every program can drop a variable."""
_USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A program that could be started: everything that this takes, nothing inherited."""

    argv: tuple[str, ...]
    """The program, then its arguments. Never a secret: every user of the machine can read them."""
    env: Mapping[str, str] = field(repr=False)
    """The complete environment of the program."""
    cwd: str
    contained: bool = False
    """True when the program takes all that came of it along when it is killed, and dies with the thread that
    started it, as ``bwrap --die-with-parent`` with a process namespace does. It is then started without our
    supervisor."""
    end: Callable[[], None] | None = field(default=None, repr=False, compare=False)
    """Ends what the program stands for elsewhere, in a container for one, where no signal of ours gets.
    Called when the program is asked to end, and again when it has ended: what it stands for may be left.
    The program itself is not asked then: it carries what the other one still says, and ends after it."""
    by: By | None = field(default=None, repr=False, compare=False)
    """Who starts it in place of us; for programs that are contained. ``cwd`` is ``/`` then."""


class ProcessError(OutsideError):
    """A program could not be started.

    Codes: ``program_missing``, ``not_executable``, ``folder_missing``, ``program_failed``.
    """

    code = "program_failed"


def base_environment(environ: Mapping[str, str], home: str) -> dict[str, str]:
    """Return the minimal environment for programs that work on a task.

    Only ``PATH``, the language (``LANG``, ``LC_*``), ``TERM``, ``TZ`` and ``TMPDIR`` are taken from
    ``environ``; ``HOME`` is ``home``. No key, token, proxy or agent socket gets through. ``KAKITE_RUN`` is
    set to 1.
    """
    kept = {name: value for name, value in environ.items() if name in _KEPT}
    return {"PATH": _USUAL_PATH, **kept, "HOME": home, MARK: "1"}
