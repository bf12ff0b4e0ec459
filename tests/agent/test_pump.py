"""Data poured from one program into another: all of it, or the reason why not."""

from __future__ import annotations

import sys

import pytest

from kakite.agent.git.mirror import GitError, pipe_processes
from kakite.processes import ProcessSpec
from tests.bounds import WITHIN

pytestmark = pytest.mark.anyio

ENDLESS = "import sys\nwhile True: sys.stdout.buffer.write(bytes(65536))"
FAILS = "import sys; sys.stdin.buffer.read(10); sys.exit('this pack is refused')"


def python(script: str) -> ProcessSpec:
    return ProcessSpec(argv=(sys.executable, "-I", "-S", "-c", script), env={}, cwd="/")


async def test_a_taker_that_refuses_is_heard_at_once_while_there_is_more_to_give() -> None:
    with pytest.raises(GitError, match="this pack is refused"):
        await pipe_processes(python(ENDLESS), python(FAILS), stdin=b"", timeout=WITHIN)


async def test_a_giver_that_fails_is_the_reason_also_when_the_taker_fails_of_it() -> None:
    giver = python("import sys; print('half', flush=True); sys.exit('it is broken')")
    taker = python("import sys; sys.stdin.read(); sys.exit('early end')")
    with pytest.raises(GitError, match="it is broken"):
        await pipe_processes(giver, taker, stdin=b"", timeout=WITHIN)


async def test_a_taker_that_stops_half_way_without_a_word_has_not_taken_all() -> None:
    with pytest.raises(GitError, match="not all of them"):
        await pipe_processes(
            python(ENDLESS), python("import sys; sys.stdin.buffer.read(10)"), stdin=b"", timeout=WITHIN
        )


async def test_what_a_taker_prints_is_no_matter() -> None:
    talk = "import sys; sys.stdin.read(); sys.stdout.write('x' * 3_000_000)"
    await pipe_processes(python("print(1)"), python(talk), stdin=b"", timeout=WITHIN)
