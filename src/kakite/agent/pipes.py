"""Data from one program to another, in pieces: a repository of any size needs little memory here."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress

from kakite.agent.remote import GitError
from kakite.processes import Child, Launch, start

PIECE = 64 * 1024  # bytes


async def pour(source: Launch, sink: Launch, *, stdin: bytes, timeout: float) -> None:  # noqa: ASYNC109 - running into it is an error of ours
    """Run both programs to their ends, the one's output being the other's input.

    ``stdin`` is for the source, and no more than a pipe takes at once.

    Raises:
        GitError: one of them failed, or it took longer than ``timeout`` seconds.
    """
    try:
        async with asyncio.timeout(timeout), AsyncExitStack() as stack:
            giver = await start(source, limit=PIECE)
            stack.push_async_callback(giver.stop)
            taker = await start(sink, limit=PIECE)
            stack.push_async_callback(taker.stop)
            giver.stdin.write(stdin)
            giver.stdin.close()
            whole = await copy(giver.stdout, taker.stdin)
            taker.stdin.close()
            while await taker.stdout.read(PIECE):
                pass
            await taker.wait()
            if whole:
                await giver.wait()  # else nobody reads what it writes: it would never end
            said = (whole and _last_words(giver)) or _last_words(taker)
    except TimeoutError as error:
        raise GitError(f"commits did not come across within {timeout:.0f} s") from error
    if said or not whole:
        raise GitError(f"commits did not come across: {said or 'not all of them were taken'}")


async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> bool:
    """Copy to the end of the source, or until nobody takes it, then False; no faster than it is taken."""
    with suppress(ConnectionError):
        while data := await source.read(PIECE):
            sink.write(data)
            await sink.drain()
        return True
    return False


def _last_words(child: Child) -> str:
    if not child.returncode:
        return ""
    lines = child.stderr_tail().strip().splitlines()
    return lines[-1] if lines else f"exit code {child.returncode}"
