"""How long tests wait, at the most, for what has to happen, and how much work they let pass as little."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

from kakite.processes import CompletedProcess

WITHIN = 120  # s
"""For whatever comes by itself: an answer, the end of a program, a file.

A wait ends at once when that comes, so a long bound costs nothing; a short one fails tests on machines that
do other work too. Only what must *not* come in time has a bound of its own.
"""


@contextmanager
def little_work(seconds: float = 10) -> Generator[None]:
    """Fail if what is inside takes this process more seconds of a processor.

    What other programs do meanwhile does not count. The bound is far above what the work needs, and far below
    what it would need if it grew with the square of its input.
    """
    begun = time.process_time()
    yield
    used = time.process_time() - begun
    assert used < seconds, f"{used:.1f} s of a processor"


def count_calls(work: Callable[[], object]) -> int:
    """Return how many functions are called for some work, in this thread: the same on every machine."""
    calls = 0

    def note(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


TIMES_OUT = (1, 4, 16)  # s
"""To be tried one after the other, until a program has begun in its time: a busy machine starts it late."""


def time_out(attempt: Callable[[float], CompletedProcess]) -> CompletedProcess:
    """Return how a program ends whose time, in seconds, runs out after it has begun.

    Its first output says that it has.
    """
    for seconds in (0.3, *TIMES_OUT):
        done = attempt(seconds)
        if done.stdout:
            return done
    raise AssertionError("the program never began")
