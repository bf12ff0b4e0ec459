"""A host in use: its servers' tools for a model, each call decided by the rules or a person, and traced."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kakite.errors import OutsideError
from kakite.host.approval import (
    LOOKING,
    Answer,
    ApprovedToolset,
    Approver,
    NobodyToAsk,
    Question,
    Rule,
    Setting,
    Settled,
    auto_approval,
)
from kakite.host.entries import ServerEntry
from kakite.host.host import Host, running
from kakite.host.naming import prefix
from kakite.host.requests import Elicitor, Sampler, Surroundings
from kakite.host.rules import SavedRules
from kakite.host.searching import SearchedToolset
from kakite.host.trace import SpannedToolset, Trace, annotate
from kakite.host.trust import Consents
from kakite.tools.progress import Progress, reporting_to
from kakite.tools.toolset import Tool, ToolCall, ToolResult, Toolset
from kakite.workspace import records
from kakite.workspace.state import state_folder, state_path

_MOMENT = 0.05  # s between a call and its line in the trace
TOKENS = 10_000
"""How many tokens the definitions of all tools may take before a search tool stands for them."""


class StateError(OutsideError):
    """The folder of what hosts keep cannot be used. Code: ``state_unusable``."""

    code = "state_unusable"


def host_state(environ: Mapping[str, str]) -> Path:
    """Return the folder of what hosts keep: consents, rules, logs, the trace. Made if missing, mode 0700.

    Raises:
        StateError: it cannot be made.
    """
    folder = state_path(environ) / "host"
    try:
        state_folder(environ)
        records.make_folder(folder)
    except OSError as error:
        reason, hint = records.trouble(error, folder)
        raise StateError(f"the folder `{folder}` cannot be used: {reason}", hint=hint) from error
    return folder


def trace_file(environ: Mapping[str, str]) -> Path:
    """Return the file of the trace of calls."""
    return host_state(environ) / "trace.jsonl"


class HostToolset:
    """What a model sees of a host, as one value. A Toolset."""

    def __init__(self, host: Host, approved: ApprovedToolset, shown: Toolset, rules: Sequence[Rule]) -> None:
        self.host = host
        self._approved = approved
        self._shown = shown
        self._rules = tuple(rules)
        self._applied: tuple[ServerEntry, ...] | None = None

    async def tools(self) -> tuple[Tool, ...]:
        """Return the tools for the next turn of a model; changes of servers and files are applied here."""
        await self._apply()
        return await self._shown.tools()

    async def call(self, call: ToolCall, *, on_progress: Progress | None = None) -> ToolResult:
        """Perform a call if a rule or the person allows it; what goes wrong is a result.

        ``on_progress`` is told how far the call is, of how much, and what the server says to that.
        """
        if on_progress is None:
            return await self._call(call)
        with reporting_to(on_progress):
            return await self._call(call)

    async def _call(self, call: ToolCall) -> ToolResult:
        await self._apply()
        result = await self._shown.call(call)
        if result.code != "unknown_tool":
            return result
        meant = str(call.arguments.get("name", ""))  # of a call that goes by the search
        return self._missing(call.name) or self._missing(meant) or result

    def _missing(self, name: str) -> ToolResult | None:
        told = self.host.missing(name)
        if told is not None:  # why a server fails is told in its own words
            trusted = {entry.name for entry in self.host.entries if entry.trusted}
            for server in self.host.failures:
                if name.startswith(prefix(server)) and server not in trusted:
                    self._approved.came_from(server)
        return told

    async def _apply(self) -> None:
        """Let go without a question what the configuration, as it is now, says so of."""
        await self.host.reload()
        entries = self.host.entries
        if entries is self._applied:
            return
        self._applied = entries
        given = (
            rule
            for entry in entries
            for rule in (*entry.rules, *auto_approval(entry.name, entry.auto_approve))
        )
        self._approved.rules = (*self._rules, *given)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOptions:
    """How the servers of a host are used."""

    approver: Approver = field(default_factory=NobodyToAsk)
    """Who is asked; by default nobody, so that whatever no rule allows is refused."""
    rules: tuple[Rule, ...] = LOOKING
    """Come before what the configuration says of approval; by default what only looks goes, of servers that
    are trusted."""
    elicit: Elicitor | None = None
    """Answers what servers want to know from a person."""
    sample: Sampler | None = None
    """Answers what servers want of a model; without it they are refused."""
    ask_after_outside: bool = True
    """Whether calls that write or send are asked again after text from outside came in."""
    tokens: int = TOKENS
    """How much the definitions of all tools may take before a search tool stands for them."""
    trace_arguments: bool = False
    """Whether the trace has the arguments of calls too, without secrets."""
    only: Collection[str] | None = None
    """Names of servers; the others are as if they were not configured."""


_PLAIN = HostOptions()


@asynccontextmanager
async def open_host(
    project: Path, options: HostOptions = _PLAIN, *, environ: Mapping[str, str] = os.environ
) -> AsyncGenerator[HostToolset]:
    """Yield the tools of all servers that are configured for a project's folder; stop the servers at the end.

    Args:
        project: the folder whose ``.mcp.json`` and ``.pi/mcp-servers.json`` count, besides the person's own.
        options: who is asked, and what else may be chosen.
        environ: of this process; servers get a few harmless variables, and those that their entries name.
    """
    folder = Path(os.path.realpath(project))  # noqa: ASYNC240 - once, before anything runs
    state = host_state(environ)
    surroundings = Surroundings(
        environ=environ,
        project=folder,
        state=state,
        roots=(folder,),
        elicit=options.elicit,
        sample=options.sample,
    )
    # Calls do not wait for the trace to be written.
    with ThreadPoolExecutor(1, thread_name_prefix="kakite-trace") as writer:
        async with running(surroundings, Consents(state), options.only) as host:
            await host.reload()
            tracing = _Tracing(_trace(options, surroundings), writer)
            try:
                yield _joined(host, surroundings, options, tracing)
            finally:
                tracing.write()


def _joined(host: Host, surroundings: Surroundings, options: HostOptions, tracing: _Tracing) -> HostToolset:
    setting = Setting(
        naming=host.naming,
        project=str(surroundings.project),
        place=host.place,
        ask_after_outside=options.ask_after_outside,
        saved=SavedRules(surroundings.state),
        definition=host.digest,
        listener=tracing.settled,
    )
    asked = _StoppedClock(options.approver, surroundings)
    approved = ApprovedToolset(host, rules=options.rules, approver=asked, setting=setting)
    shown = SpannedToolset(SearchedToolset(approved, budget_tokens=options.tokens))
    return HostToolset(host, approved, shown, options.rules)


def _trace(options: HostOptions, surroundings: Surroundings) -> Trace:
    file = trace_file(surroundings.environ)
    return Trace(file, arguments=options.trace_arguments, redaction=surroundings.redaction)


class _Tracing:
    """Writes the trace a moment after the calls, so that none waits for a file."""

    def __init__(self, trace: Trace, writer: Executor) -> None:
        self._trace = trace
        self._writer = writer
        self._due: list[Settled] = []

    def settled(self, settled: Settled) -> None:
        annotate(settled)
        self._due.append(settled)
        if len(self._due) == 1:
            asyncio.get_running_loop().call_later(_MOMENT, self.write)

    def write(self) -> None:
        """Write what is due."""
        due, self._due = self._due, []
        if due:
            self._writer.submit(self._trace.settled, *due)


class _StoppedClock:
    """An approver during whose questions no call's time runs out."""

    def __init__(self, approver: Approver, surroundings: Surroundings) -> None:
        self._approver = approver
        self._surroundings = surroundings

    async def ask(self, question: Question) -> Answer:
        with self._surroundings.clock.paused():
            return await self._approver.ask(question)
