"""Attempts to get out of a sandbox, or to use the machine up, as data (``attempts.toml``); and trying them.

Each runs inside, in an empty project, and aims at things of our own on the host (``stage``). It has got out
when it says so or when the host finds that something was reached.
"""

from __future__ import annotations

import time
import tomllib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kakite.errors import KakiteError
from kakite.sandbox.inside import trial
from kakite.sandbox.sandbox import SandboxError
from kakite.sandbox.stage import Stage, staged
from kakite.sandbox.terms import Limits

if TYPE_CHECKING:
    from kakite.processes import Completed
    from kakite.sandbox.sandbox import Sandbox

Act = Callable[["Sandbox"], Awaitable[None]]
"""What the host does afterwards, where an attempt waits for it to stumble. It may fail with our errors."""

LIMITS = Limits(memory=256 << 20, processes=96, disk=48 << 20, files=3000, open_files=256)
"""Small limits for sandboxes that are tried out: to run into the usual ones takes long."""
TIMEOUT = 30.0
_EMPTY = """\
import os, shutil
for name in os.listdir("."):
    if os.path.isdir(name) and not os.path.islink(name):
        shutil.rmtree(name, ignore_errors=True)
    else:
        os.unlink(name)
print("empty")
"""
_SLOW = 15.0
"""Seconds that ending something may take beyond its time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt, and how to tell that it succeeded."""

    name: str
    harm: str
    """Its kind: ``files``, ``links``, ``proc``, ``secrets``, ``sockets``, ``network``, ``processes``,
    ``mounts``, ``namespaces``, ``kernel``, ``devices``, ``cgroups``, ``privileges``, ``terminals``, ``git``,
    ``exhaustion``."""
    tries: str
    """What it tries, for people."""
    program: str
    """Python, run by ``inside.trial``."""
    traces: tuple[str, ...] = ()
    """Files outside of the sandbox that are there when it succeeded; ``{}`` is a name of its own."""
    act: str = ""
    """What the host has to do before it is judged: ``git``, working in the project as Kakite does."""
    timeout: float = TIMEOUT
    """Seconds after which it is ended."""
    endless: bool = False
    """Whether it never ends by itself, so that being ended in time is what it proves."""
    safe: bool = True
    """Whether it may be tried where nothing isolates, as root too, without harm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How an attempt went."""

    name: str
    harm: str
    tries: str
    state: Literal["held", "escaped", "untried"]
    """``untried``: it did not even begin, or a mistake ended it, so that it proves nothing."""
    told: str
    """How it was refused, or what it reached."""
    seconds: float


@lru_cache(maxsize=1)
def attempts() -> tuple[Attempt, ...]:
    """Return all of them; those that use something up come last."""
    table = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return tuple(_read(row, table["before"]) for row in table["attempt"])


def _read(row: dict[str, Any], before: dict[str, str]) -> Attempt:  # pyright: ignore[reportExplicitAny]
    program = before.get(row.pop("before", ""), "") + row.pop("program")
    return Attempt(program=program, traces=tuple(row.pop("traces", ())), **row)


async def attempt_all(
    sandbox: Sandbox,
    *,
    limits: Limits = LIMITS,
    acts: Mapping[str, Act] | None = None,
    chosen: Iterable[Attempt] | None = None,
) -> list[Outcome]:
    """Try every attempt in a prepared sandbox that holds nothing of worth: its project is emptied each time.

    ``limits`` are those on which it was opened. An attempt that needs an act which ``acts`` does not have is
    ``untried``. After each, an ordinary program has to run.
    """
    return [
        await _tried(sandbox, attempt, limits, acts or {})
        for attempt in (attempts() if chosen is None else chosen)
    ]


async def _tried(sandbox: Sandbox, attempt: Attempt, limits: Limits, acts: Mapping[str, Act]) -> Outcome:
    began = time.monotonic()
    try:
        state, told = await _performed(sandbox, attempt, limits, acts)
    except SandboxError as error:
        state, told = "untried", error.message
    return Outcome(
        name=attempt.name,
        harm=attempt.harm,
        tries=attempt.tries,
        state=state,
        told=told,
        seconds=round(time.monotonic() - began, 3),
    )


async def _performed(
    sandbox: Sandbox, attempt: Attempt, limits: Limits, acts: Mapping[str, Act]
) -> tuple[Literal["held", "escaped", "untried"], str]:
    if attempt.act and attempt.act not in acts:
        return "untried", f"needs somebody to do `{attempt.act}`"
    async with staged(lambda token: tuple(trace.format(token) for trace in attempt.traces)) as stage:
        done = await _run(sandbox, attempt, stage, limits)
        if attempt.act:
            await _act(acts[attempt.act], sandbox)
        harm = await stage.harm()
    clean = await _python(sandbox, _EMPTY, timeout=TIMEOUT)
    reached = _said(done, trial.ESCAPED) or harm
    if reached:
        return "escaped", reached
    if clean.stdout.strip() != b"empty":
        return "escaped", f"afterwards nothing runs: {_tail(clean)}"
    return _judged(attempt, done)


def _judged(attempt: Attempt, done: Completed) -> tuple[Literal["held", "escaped", "untried"], str]:
    if not _said(done, trial.BEGAN) or _said(done, trial.BROKEN):
        return "untried", _said(done, trial.BROKEN) or _tail(done)
    if done.duration > attempt.timeout + _SLOW:
        return "escaped", f"it could not be ended for {done.duration:.0f} s"
    if attempt.endless:
        return ("held", "ended in time") if done.limit else ("untried", "it ended by itself")
    if done.timed_out and not done.limit:
        return "untried", "it took too long"
    return "held", f"limit: {done.limit}" if done.limit else _refusal(done)


@lru_cache(maxsize=1)
def _trial() -> str:
    return Path(trial.__file__).read_text(encoding="utf-8")


async def _run(sandbox: Sandbox, attempt: Attempt, stage: Stage, limits: Limits) -> Completed:
    given = stage.told(limits, sandbox.project)
    program = f"{_trial()}\n\ntried({attempt.program!r}, {given!r})\n"
    return await _python(sandbox, program, timeout=attempt.timeout)


async def _python(sandbox: Sandbox, program: str, *, timeout: float) -> Completed:  # noqa: ASYNC109 - as exec
    # By its input: what stands in the arguments could be taken for a trace of it.
    start = (sandbox.kakite[0], "-I", "-S", "-c", "import sys; exec(sys.stdin.read())")
    return await sandbox.exec(start, stdin=program.encode(), timeout=timeout, limit=1 << 16)


async def _act(act: Act, sandbox: Sandbox) -> None:
    try:
        await act(sandbox)
    except KakiteError:
        return  # what an attempt left behind may well make it fail; what matters is what else it did


def _said(done: Completed, word: str) -> str:
    """Return what stands after the word on the first line that begins with it."""
    for line in done.stdout.decode(errors="replace").splitlines():
        if line.startswith(word):
            return line.removeprefix(word).strip() or "yes"
    return ""


def _refusal(done: Completed) -> str:
    told = done.stdout.decode(errors="replace").splitlines()[1:]
    lines = [line.removeprefix(trial.REFUSED).strip() for line in told]
    return next(
        (line for line in lines if line), f"exit code {done.exit_code}" if done.exit_code else "nothing"
    )


def _tail(done: Completed) -> str:
    lines = (done.stdout + done.stderr).decode(errors="replace").strip().splitlines()
    return lines[-1][:200] if lines else f"exit code {done.exit_code}"
