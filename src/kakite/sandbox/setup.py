"""The phase before a task's own work, which gets what the project needs.

The commands run inside the sandbox with the network ``registries``, and so does whatever code packages bring.
What is installed goes into the task's home, or into folders that git is told to ignore; a step that fails is
told, and hinders nothing.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Literal

from kakite.sandbox.dependencies import NAMES, TOOLS, Place, Step, plan

if TYPE_CHECKING:
    from kakite.processes import Limit, OnOutput
    from kakite.sandbox.sandbox import Sandbox

STEP_TIME = 900.0
"""Seconds that one step may take."""
ALL_TIME = 1800.0
"""Seconds that all of them may take together."""
_KEPT = 4000  # characters of a step's output
_LIMIT = 64 * 1024  # bytes of each stream

Outcome = Literal["done", "failed", "timed_out", "skipped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDone:
    """How a step went."""

    step: Step
    outcome: Outcome
    output: str = ""
    """The end of what it printed; the reason if it was skipped."""
    seconds: float = 0.0
    limit: Limit = ""
    """The limit of the sandbox that was run into meanwhile, if one was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetUp:
    """What the phase has done."""

    steps: tuple[StepDone, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """What later programs of the task need to find what was installed: ``PATH``, if it is not as it was."""

    def note(self) -> str:
        """Tell a model what is installed and what is not; empty if there was nothing to do."""
        return "\n".join(map(_told, self.steps))


async def set_up(sandbox: Sandbox, on_output: OnOutput | None = None) -> SetUp:
    """Get what the project in a prepared sandbox needs, as far as that goes.

    What a step leaves in the project is neither seen by git nor part of the task's change: new files are told
    to git's ``info/exclude``, tracked ones are put back. Nothing that a step does, or fails to do, raises.

    Raises:
        SandboxError: the sandbox does not work.
    """
    if not sandbox.isolates:
        return SetUp()  # code of strangers, run as the person: not unasked
    place = await _look(sandbox)
    steps = plan(place)
    if not steps:
        return SetUp()
    before = await _changes(sandbox)
    end = time.monotonic() + ALL_TIME
    done = [
        await _perform(sandbox, step, min(STEP_TIME, end - time.monotonic()), on_output) for step in steps
    ]
    await _hide_from_git(sandbox, before)
    return SetUp(steps=tuple(done), environment=await _environment(sandbox, place))


async def _look(sandbox: Sandbox) -> Place:
    tests = " -o ".join(f"-name {name}" for name in NAMES)
    script = f"""
printf '%s\\0' "$HOME" "$PATH"
for tool in {" ".join(TOOLS)}; do command -v "$tool" > /dev/null 2>&1 && printf '%s\\0' "$tool"; done
printf '\\0'
find . -maxdepth 2 -type f \\( {tests} \\) -print0
"""
    done = await sandbox.exec(("sh", "-c", script), timeout=60)
    seen = done.stdout.decode(errors="replace")
    told, _, found = seen.partition("\0\0")
    home, path, *tools = told.split("\0")
    files = {name.removeprefix("./") for name in found.split("\0") if name and not _is_aside(name)}
    return Place(home=home, path=path, tools=frozenset(tools), files=files)


def _is_aside(name: str) -> bool:
    folder = PurePosixPath(name).parent.name
    return folder.startswith(".") or folder in {"node_modules", "vendor", "target", "build", "dist", "venv"}


async def _perform(sandbox: Sandbox, step: Step, seconds: float, on_output: OnOutput | None) -> StepDone:
    if step.missing:
        return StepDone(step=step, outcome="skipped", output=f"`{step.missing}` is not in the sandbox")
    if seconds <= 0:
        return StepDone(step=step, outcome="skipped", output="the time for all steps was over")
    done = await sandbox.exec(
        step.argv,
        cwd=step.folder,
        env=step.env,
        timeout=seconds,
        network="registries",
        limit=_LIMIT,
        on_output=on_output,
    )
    output = (done.stdout + done.stderr).decode(errors="replace").strip()[-_KEPT:]
    outcome: Outcome = "timed_out" if done.timed_out else "done" if done.exit_code == 0 else "failed"
    return StepDone(step=step, outcome=outcome, output=output, seconds=done.duration, limit=done.limit)


async def _environment(sandbox: Sandbox, place: Place) -> dict[str, str]:
    folders = [f"{place.home}/{name}/bin" for name in ("venv", "conda")]
    there = await sandbox.exec(
        ("sh", "-c", 'for folder; do [ -d "$folder" ] && echo "$folder"; done; :', "sh", *folders), timeout=60
    )
    found = [folder for folder in folders if folder in there.stdout.decode(errors="replace").splitlines()]
    return {"PATH": ":".join((*found, place.path))} if found else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Changes:
    """How the work tree differs from what git has: paths, in the bytes that git gives."""

    untracked: frozenset[bytes] = frozenset()
    modified: frozenset[bytes] = frozenset()


async def _changes(sandbox: Sandbox) -> _Changes:
    listed = ("ls-files", "--others", "--exclude-standard", "--directory", "--no-empty-directory", "-z")
    return _Changes(
        untracked=await _paths(sandbox, listed),
        modified=await _paths(sandbox, ("ls-files", "--modified", "-z")),
    )


async def _paths(sandbox: Sandbox, words: tuple[str, ...]) -> frozenset[bytes]:
    done = await sandbox.exec(("git", *words), timeout=60)
    return frozenset(done.stdout.split(b"\0")) - {b""} if done.exit_code == 0 else frozenset()


async def _hide_from_git(sandbox: Sandbox, before: _Changes) -> None:
    after = await _changes(sandbox)
    new = sorted(path for path in after.untracked - before.untracked if b"\n" not in path)
    if new:
        patterns = b"".join(b"/" + _literally(path) + b"\n" for path in new)
        append = 'cat >> "$(git rev-parse --git-path info/exclude)"'
        await sandbox.exec(("sh", "-c", append), stdin=patterns, timeout=60)
    if changed := after.modified - before.modified:
        words = (
            "--literal-pathspecs",
            "checkout",
            "--quiet",
            "--pathspec-from-file=-",
            "--pathspec-file-nul",
        )
        await sandbox.exec(("git", *words), stdin=b"\0".join(sorted(changed)), timeout=60)


def _literally(path: bytes) -> bytes:
    """Return the pattern of an ignore file that means this very path."""
    return re.sub(rb"[\\*?\[ ]", rb"\\\g<0>", path)


def _told(done: StepDone) -> str:
    command = " ".join(done.step.argv)
    match done.outcome:
        case "done":
            return f"`{command}` went well, for {done.step.why}"
        case "skipped":
            return f"`{command}`, for {done.step.why}, was not run: {done.output}"
        case "timed_out":
            return f"`{command}`, for {done.step.why}, was stopped after {done.seconds:.0f} s:\n{done.output}"
        case "failed":
            limit = f" at the sandbox's limit of {done.limit}" if done.limit else ""
            return f"`{command}`, for {done.step.why}, failed{limit}:\n{done.output}"
