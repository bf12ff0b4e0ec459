"""A host in use: its servers' tools for a model, each call decided by the rules or a person, and traced."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from kakite.host.approval import (
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
from kakite.host.host import Host, running
from kakite.host.requests import Elicitor, Surroundings
from kakite.host.rules import SavedRules
from kakite.host.searching import SearchedToolset
from kakite.host.trust import Consents
from kakite.tools.toolset import Tool, ToolCall, ToolResult, Toolset
from kakite.workspace.state import state_folder

TOKENS = 10_000
"""How many tokens the definitions of all tools may take before a search tool stands for them."""


class HostToolset:
    """What a model sees of a host, as one value. A Toolset."""

    def __init__(self, host: Host, approved: ApprovedToolset, shown: Toolset, rules: Sequence[Rule]) -> None:
        self.host = host
        self._approved = approved
        self._shown = shown
        self._rules = tuple(rules)

    async def tools(self) -> tuple[Tool, ...]:
        """Return the tools for the next turn of a model; changes of servers and files are applied here."""
        await self.host.reload()
        given = (
            rule for entry in self.host.entries for rule in auto_approval(entry.name, entry.auto_approve)
        )
        self._approved.rules = (*self._rules, *given)
        return await self._shown.tools()

    async def call(self, call: ToolCall) -> ToolResult:
        """Perform a call if a rule or the person allows it; what goes wrong is a result."""
        return await self._shown.call(call)


@asynccontextmanager
async def open_host(
    project: Path,
    *,
    approver: Approver | None = None,
    rules: Sequence[Rule] = (),
    elicit: Elicitor | None = None,
    environ: Mapping[str, str] = os.environ,
    ask_after_outside: bool = True,
    tokens: int = TOKENS,
    listener: Callable[[Settled], None] | None = None,
    only: Collection[str] | None = None,
) -> AsyncGenerator[HostToolset]:
    """Yield the tools of all servers that are configured for a project's folder; stop the servers at the end.

    Args:
        project: the folder whose ``.mcp.json`` and ``.pi/mcp-servers.json`` count, besides the person's own.
        approver: who is asked; without one, whatever no rule allows is refused.
        rules: come before what the configuration says of approval.
        elicit: answers what servers want to know from a person.
        environ: of this process; servers get a few harmless variables, and those that their entries name.
        ask_after_outside: whether calls that write or send are asked again after text from outside came in.
        tokens: how much the definitions of all tools may take before a search tool stands for them.
        listener: told of every call once it is settled.
        only: names of servers; the others are as if they were not configured.
    """
    project = Path(os.path.realpath(project))
    state = state_folder(environ) / "host"
    surroundings = Surroundings(
        environ=environ, project=project, state=state, roots=(project,), elicit=elicit
    )
    async with running(surroundings, Consents(state), only) as host:
        asking = _StoppedClock(approver or NobodyToAsk(), surroundings)
        setting = Setting(
            naming=host.naming,
            project=str(project),
            ask_after_outside=ask_after_outside,
            saved=SavedRules(state),
            definition=host.digest,
            **({} if listener is None else {"listener": listener}),
        )
        approved = ApprovedToolset(host, rules=rules, approver=asking, setting=setting)
        shown = SearchedToolset(approved, budget_tokens=tokens)
        yield HostToolset(host, approved, shown, rules)


class _StoppedClock:
    """An approver during whose questions no call's time runs out."""

    def __init__(self, approver: Approver, surroundings: Surroundings) -> None:
        self._approver = approver
        self._surroundings = surroundings

    async def ask(self, question: Question) -> Answer:
        with self._surroundings.clock.paused():
            return await self._approver.ask(question)
