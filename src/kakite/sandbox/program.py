"""A program that the first process of a container started for us, as it is seen over the line."""

from __future__ import annotations

import asyncio
import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from kakite.sandbox.inside import frames
from kakite.sandbox.sandbox import SandboxError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kakite.processes import KeptOutput, Limit

_END = 20.0
"""Seconds in which all of a program has to be gone once it was told to end."""
_LONGEST = 128 * 1024
"""Bytes of one argument or variable, with the zero after it: more no Linux takes."""
_ALL = 2 * 1024 * 1024
"""Bytes of all of them: a fourth of the usual limit of the stack, which Linux gives them."""


class Carrier(Protocol):
    """What carries frames to the container."""

    async def send(self, data: bytes) -> None:
        """Send frames, and wait while too much is under way."""
        ...

    def post(self, data: bytes) -> None:
        """Send frames without waiting."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What the first process says of a program that is over."""

    code: int
    """128 + n when signal n ended it, as in a shell."""
    why: str
    """Why it could not begin; nothing if it did."""
    limits: tuple[Limit, ...]
    """Names of the limits that were reached meanwhile."""


def order(argv: tuple[str, ...], env: Mapping[str, str], cwd: str, *, with_input: bool) -> bytes:
    """Return what starts this program.

    Raises:
        SandboxError: no system could start it: there are zero bytes in it, or too many others.
    """
    if why := _why_not(argv, env, cwd):
        raise SandboxError(f"program `{argv[0][:100]}` could not be started: {why}")
    given = {os.fsencode(name): os.fsencode(value) for name, value in env.items()}
    return frames.order(map(os.fsencode, argv), given, os.fsencode(cwd), with_input=with_input)


def _why_not(argv: tuple[str, ...], env: Mapping[str, str], cwd: str) -> str:
    words = [*argv, *(f"{name}={value}" for name, value in env.items())]
    sizes = [len(os.fsencode(word)) + 1 for word in words]
    if any("\0" in word for word in (*words, cwd)):
        return "embedded null byte"
    if any("=" in name or not name for name in env):
        return "illegal environment variable name"
    if max(sizes) > _LONGEST or sum(sizes) > _ALL:
        return "[Errno 7] Argument list too long"
    return ""


class Program:
    """One program inside, from its start on. For ``processes.complete``."""

    def __init__(self, number: int, order: bytes, carrier: Carrier) -> None:
        self.number = number
        self.ended: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        self._order = order
        self._carrier = carrier
        self._kept: dict[int, KeptOutput] = {}
        self._feeding: asyncio.Task[None] | None = None
        self._credit = frames.WINDOW
        self._credited = asyncio.Event()

    @property
    def exit_code(self) -> int | None:
        """The exit code, 128 + n after signal n; None while it runs."""
        return self.ended.result().code if self.ended.done() else None

    async def begin(self, stdin: bytes, out: KeptOutput, err: KeptOutput) -> None:
        """Start it and give it its input; what it writes goes to who keeps it."""
        self._kept = {frames.STDOUT: out, frames.STDERR: err}
        self._carrier.post(frames.frame(frames.START, self.number, self._order))
        if stdin:
            self._feeding = asyncio.create_task(self._feed(stdin), name="input of a program in a container")

    async def wait(self) -> None:
        """Wait until nothing is left of it and all that it wrote is here.

        Raises:
            LineLostError: the container is gone.
        """
        await asyncio.shield(self.ended)

    async def end(self) -> None:
        """End it if it is not over. Whether that could be done is told by ``ended``."""
        if self._feeding:
            self._feeding.cancel()
        if not self.ended.done():
            self._carrier.post(frames.frame(frames.END, self.number))
            await asyncio.wait({self.ended}, timeout=_END)

    def take(self, kind: int, number: int, content: bytes) -> None:
        """Take a frame. What is written inside comes no faster than we take it."""
        stream = number - self.number
        if kind == frames.DATA and (kept := self._kept.get(stream)):
            self._keep(kept, content)
            self._carrier.post(frames.credit(number, len(content)))
        elif kind == frames.CREDIT:
            self._credit += int.from_bytes(content, "big")
            self._credited.set()
        elif kind == frames.CLOSED and self._feeding:
            self._feeding.cancel()

    def _keep(self, kept: KeptOutput, content: bytes) -> None:
        try:
            kept.data_received(content)
        except Exception as error:  # noqa: BLE001 - of who listens: the line is for others as well
            told = {"message": "a listener of a program's output failed", "exception": error}
            asyncio.get_running_loop().call_exception_handler(told)

    def note_end(self, told: dict[str, Any]) -> None:
        """Note what is said of its end."""
        if not self.ended.done():
            self.ended.set_result(Ended(code=told["code"], why=told["why"], limits=tuple(told["limits"])))

    def lose(self, lost: Exception) -> None:
        """Note that the container is gone."""
        if not self.ended.done():
            self.ended.set_exception(lost)
            self.ended.exception()  # nobody has to wait for it

    async def _feed(self, data: bytes) -> None:
        number = self.number + frames.STDIN
        rest = memoryview(data)
        with contextlib.suppress(OSError):  # the line is lost, which others are told
            while rest:
                piece = rest[: min(self._credit, frames.PIECE)]
                rest = rest[len(piece) :]
                self._credit -= len(piece)
                await self._carrier.send(frames.frame(frames.DATA, number, bytes(piece)))
                await self._more_credit()
            await self._carrier.send(frames.frame(frames.FINISHED, number))

    async def _more_credit(self) -> None:
        while self._credit <= 0:
            self._credited.clear()
            await self._credited.wait()
