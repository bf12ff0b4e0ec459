"""Runs the person's own programs before and after a call, and at the start and end of a turn.

A hook gets one JSON object on standard input and may answer with one on standard output. It runs as the
person, on their machine: only their own settings name hooks, never a repository's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal, cast

from kakite.errors import KakiteError
from kakite.processes import CompletedProcess, ProcessSpec, run
from kakite.tools.toolset import JsonObject

HookMoment = Literal["before_call", "after_call", "turn_start", "turn_end"]
DENY_EXIT_CODE = 2
"""The exit code that refuses, with standard error as the reason."""
MAX_OUTPUT = 100_000
"""Bytes of an answer that are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """A program for one kind of moment."""

    event: HookMoment
    command: tuple[str, ...]
    tools: str = "*"
    """A glob over the names of tools; for calls only."""
    timeout: float = 10.0
    """Seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookOutcome:
    """What the hooks of one moment said together."""

    denied: str = ""
    """Why it is refused; empty: it is not."""
    text: str = ""
    """What the model is to be told."""
    failures: tuple[str, ...] = ()
    """What went wrong with hooks, for the person: it stops nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookRunner:
    """Runs the hooks of a session."""

    hooks: Sequence[Hook] = ()
    project: Path
    environ: Mapping[str, str] = field(repr=False)
    session: str

    async def run(self, event: HookMoment, details: JsonObject, tool: str = "") -> HookOutcome:
        """Run the hooks of a moment, in order; one that refuses is the last."""
        texts: list[str] = []
        failures: list[str] = []
        for hook in self.hooks:
            if hook.event != event or (tool and not fnmatchcase(tool, hook.tools)):
                continue
            told = {"event": event, "session": self.session, "folder": str(self.project), **details}
            outcome = await self._run_hook(hook, told)
            texts += [outcome.text] if outcome.text else []
            failures += outcome.failures
            if outcome.denied:
                return HookOutcome(denied=outcome.denied, text="\n".join(texts), failures=tuple(failures))
        return HookOutcome(text="\n".join(texts), failures=tuple(failures))

    async def _run_hook(self, hook: Hook, told: JsonObject) -> HookOutcome:
        spec = ProcessSpec(argv=hook.command, env=dict(self.environ), cwd=str(self.project))
        line = json.dumps(told, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        try:
            done = await run(spec, stdin=line, timeout=hook.timeout, limit=MAX_OUTPUT)
        except KakiteError as error:
            return HookOutcome(failures=(f"the hook `{hook.command[0]}` did not start: {error.message}",))
        return read_outcome(hook, done)


def read_outcome(hook: Hook, done: CompletedProcess) -> HookOutcome:
    """Return what a hook said: by its exit code, or by the JSON object that it printed."""
    name = f"the hook `{hook.command[0]}`"
    said = done.stderr.decode("utf-8", "replace").strip()
    if done.timed_out:
        return HookOutcome(failures=(f"{name} took longer than {hook.timeout:g} s and was ended",))
    if done.exit_code == DENY_EXIT_CODE:
        return HookOutcome(denied=said or f"{name} refused it")
    if done.exit_code != 0:
        return HookOutcome(failures=(f"{name} ended with {done.exit_code}: {said[:500]}",))
    text = done.stdout.decode("utf-8", "replace").strip()
    if not text:
        return HookOutcome()
    try:
        value: object = json.loads(text)
    except ValueError:
        return HookOutcome(failures=(f"{name} printed no JSON",))
    if not isinstance(value, dict):
        return HookOutcome(failures=(f"{name} printed JSON that is no object",))
    answer = cast("JsonObject", value)
    reason = str(answer.get("reason") or f"{name} refused it")
    return HookOutcome(
        denied=reason if answer.get("decision") == "deny" else "", text=str(answer.get("text") or "")
    )
