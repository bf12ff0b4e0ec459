"""Opens a host for use: its servers' tools for a model, every call approved and traced."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kakite import state_files
from kakite.errors import ExternalError
from kakite.host.audit_log import AuditLog, TracedToolset, annotate
from kakite.host.config.model import ServerEntry
from kakite.host.consent.store import ConsentStore
from kakite.host.host import Host, run_host
from kakite.host.policy.approval import (
    READ_ONLY_RULES,
    ApprovalConfig,
    ApprovalRequest,
    ApprovalResponse,
    ApprovedToolset,
    Approver,
    CallOutcome,
    DenyingApprover,
    Rule,
    build_auto_approve_rules,
)
from kakite.host.policy.rules import RuleStore
from kakite.host.resources_and_prompts import HostOperations, HostPrompts, HostResources
from kakite.host.server.client_features import Elicitor, HostContext, Sampler
from kakite.host.tool_names import get_server_prefix
from kakite.host.tool_search import ToolSearchToolset
from kakite.state_paths import ensure_state_folder, get_state_path
from kakite.tools.call_context import ProgressCallback, bind_call
from kakite.tools.toolset import Tool, ToolCall, ToolResult, Toolset

_WRITE_DELAY = 0.05  # s between a call and its line in the trace
DEFAULT_TOKEN_BUDGET = 10_000
"""How many tokens the definitions of all tools may take before a search tool stands for them."""


class StateError(ExternalError):
    """The folder of what hosts keep cannot be used. Code: ``state_unusable``."""

    code = "state_unusable"


def ensure_host_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of what hosts keep: consents, rules, logs, the trace. Made if missing, mode 0700.

    Raises:
        StateError: it cannot be made.
    """
    folder = get_state_path(environ) / "host"
    try:
        ensure_state_folder(environ)
        state_files.make_folder(folder)
    except OSError as error:
        reason, hint = state_files.explain_os_error(error, folder)
        raise StateError(f"the folder `{folder}` cannot be used: {reason}", hint=hint) from error
    return folder


def get_audit_log_file(environ: Mapping[str, str]) -> Path:
    """Return the file of the trace of calls."""
    return ensure_host_folder(environ) / "trace.jsonl"


class HostToolset:
    """The tools of a host as a model sees them. A Toolset."""

    def __init__(
        self,
        host: Host,
        approved: ApprovedToolset,
        shown: Toolset,
        rules: Sequence[Rule],
        operations: HostOperations,
    ) -> None:
        self.host = host
        self.resources = HostResources(host, operations, self._perform_operation)
        self.prompts = HostPrompts(host, self._perform_operation)
        self._approved = approved
        self._shown = shown
        self._rules = tuple(rules)
        self._applied: tuple[ServerEntry, ...] | None = None

    async def list_tools(self) -> tuple[Tool, ...]:
        """Return the tools for the next turn of a model; changes of servers and files are applied here."""
        await self._apply_config()
        return await self._shown.list_tools()

    async def call(self, call: ToolCall, *, on_progress: ProgressCallback | None = None) -> ToolResult:
        """Perform a call if a rule or the person allows it; what goes wrong is a result.

        ``on_progress`` is told how far the call is, of how much, and what the server says to that.
        """
        if on_progress is None:
            return await self._call(call)
        with bind_call(on_progress=on_progress):
            return await self._call(call)

    async def _call(self, call: ToolCall) -> ToolResult:
        await self._apply_config()
        result = await self._shown.call(call)
        if result.code != "unknown_tool":
            return result
        meant = str(call.arguments.get("name", ""))  # of a call that goes by the search
        return self._explain_missing_tool(call.name) or self._explain_missing_tool(meant) or result

    async def _perform_operation(self, call: ToolCall) -> ToolResult:
        await self._apply_config()
        return await self._approved.call(call)

    def _explain_missing_tool(self, name: str) -> ToolResult | None:
        told = self.host.explain_missing_tool(name)
        if told is not None:  # why a server fails is told in its own words
            trusted = {entry.name for entry in self.host.entries if entry.trusted}
            for server in self.host.failures:
                if name.startswith(get_server_prefix(server)) and server not in trusted:
                    self._approved.record_untrusted_source(server)
        return told

    async def _apply_config(self) -> None:
        """Let go without a question what the configuration, as it is now, says so of."""
        await self.host.reload()
        entries = self.host.entries
        if entries is self._applied:
            return
        self._applied = entries
        given = (
            rule
            for entry in entries
            for rule in (*entry.rules, *build_auto_approve_rules(entry.name, entry.auto_approve))
        )
        self._approved.rules = (*self._rules, *given)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOptions:
    """The options of a host."""

    approver: Approver = field(default_factory=DenyingApprover)
    """Who is asked; by default nobody, so that whatever no rule allows is refused."""
    rules: tuple[Rule, ...] = READ_ONLY_RULES
    """Come before what the configuration says of approval; by default what only looks goes, of servers that
    are trusted."""
    elicit: Elicitor | None = None
    """Answers what servers want to know from a person."""
    sample: Sampler | None = None
    """Answers what servers want of a model; without it they are refused."""
    ask_after_outside: bool = True
    """Whether calls that write or send are asked again after text from outside came in."""
    tokens: int = DEFAULT_TOKEN_BUDGET
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
    state = ensure_host_folder(environ)
    surroundings = HostContext(
        environ=environ,
        project=folder,
        state=state,
        roots=(folder,),
        elicit=options.elicit,
        sample=options.sample,
    )
    # Calls do not wait for the trace to be written.
    with ThreadPoolExecutor(1, thread_name_prefix="kakite-trace") as writer:
        tracing = _AuditLogWriter(_build_audit_log(options, surroundings), writer)
        try:
            async with run_host(surroundings, ConsentStore(state), options.only) as host:
                await host.reload()
                yield _build_toolset(host, surroundings, options, tracing)
        finally:
            tracing.close()


def _build_toolset(
    host: Host, surroundings: HostContext, options: HostOptions, tracing: _AuditLogWriter
) -> HostToolset:
    operations = HostOperations(host)
    setting = ApprovalConfig(
        naming=operations.resolve_name,
        project=str(surroundings.project),
        place=host.get_path_context,
        ask_after_outside=options.ask_after_outside,
        saved=RuleStore(surroundings.state),
        definition=operations.get_digest,
        listener=tracing.record,
    )
    asked = _TimePausingApprover(options.approver, surroundings)
    approved = ApprovedToolset(operations, rules=options.rules, approver=asked, setting=setting)
    shown = TracedToolset(ToolSearchToolset(_ShownTools(host, approved), budget_tokens=options.tokens))
    return HostToolset(host, approved, shown, options.rules, operations)


class _ShownTools:
    """What models see of what calls are approved for: tools, no operations."""

    def __init__(self, host: Host, approved: ApprovedToolset) -> None:
        self._host = host
        self._approved = approved

    async def list_tools(self) -> tuple[Tool, ...]:
        return await self._host.list_tools()

    async def call(self, call: ToolCall) -> ToolResult:
        return await (self._host if "/" in call.name else self._approved).call(call)


def _build_audit_log(options: HostOptions, surroundings: HostContext) -> AuditLog:
    file = get_audit_log_file(surroundings.environ)
    return AuditLog(file, arguments=options.trace_arguments, redaction=surroundings.redaction)


class _AuditLogWriter:
    """Writes the trace a moment after the calls, so that none waits for a file."""

    def __init__(self, trace: AuditLog, writer: Executor) -> None:
        self._trace = trace
        self._writer = writer
        self._due: list[CallOutcome] = []
        self._closed = False

    def record(self, settled: CallOutcome) -> None:
        annotate(settled)
        if self._closed:  # a call that outlived the host, and ends only now
            self._trace.record(settled)
            return
        self._due.append(settled)
        if len(self._due) == 1:
            asyncio.get_running_loop().call_later(_WRITE_DELAY, self.flush)

    def flush(self) -> None:
        """Write what is due."""
        due, self._due = self._due, []
        if due:
            self._writer.submit(self._trace.record, *due)

    def close(self) -> None:
        """Write what is due; what comes later is written at once."""
        self.flush()
        self._closed = True


class _TimePausingApprover:
    """An approver during whose questions no call's time runs out."""

    def __init__(self, approver: Approver, surroundings: HostContext) -> None:
        self._approver = approver
        self._surroundings = surroundings

    async def ask(self, question: ApprovalRequest) -> ApprovalResponse:
        with self._surroundings.clock.pause():
            return await self._approver.ask(question)
