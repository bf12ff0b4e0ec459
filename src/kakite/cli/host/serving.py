"""``kakite host serve``: all servers of a project as one MCP server, which asks the client's person."""

from __future__ import annotations

import asyncio
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from kakite.cli.console import escape_one_line
from kakite.cli.host.actions import resolve_project
from kakite.cli.prompts import render_question_rows

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kakite.host.policy.approver import ApprovalRequest, ApprovalResponse, RememberScope
    from kakite.host.policy.rules import Rule
    from kakite.host.server.client_features import Elicitation, ElicitationResult
    from kakite.serve import McpServer
    from kakite.tools.toolset import JsonObject

_WIDTH = 100  # cells of a row in a client's dialogue
_INSTRUCTIONS = """\
Tools of other MCP servers. The person sees each call with its exact arguments, and may say no: go on without
it then, and do not try the same by another tool."""


class ClientApprover:
    """Asks the person by a form of the client that made the call. An Approver, and an Elicitor."""

    def __init__(self) -> None:
        self._turns = WeakKeyDictionary[object, asyncio.Lock]()  # by client: one form at a time

    async def ask(self, question: ApprovalRequest) -> ApprovalResponse:
        """Ask; whatever is no clear yes is a no."""
        from kakite.host.policy.approver import ApprovalResponse
        from kakite.tools.call_context import current_call

        caller = current_call()
        elicit = caller.elicit
        if elicit is None:
            return _build_refusal(question, "this client cannot ask the person")
        answers = _list_answers(question)
        try:
            async with self._get_turn(caller.session_key):
                filled = await elicit(_render(question), _build_form(answers))
        except ConnectionError as error:
            return _build_refusal(question, f"this client could not ask the person: {error}")
        chosen = answers.get(str((filled or {}).get("answer")))
        if chosen is None:
            reason = str((filled or {}).get("reason") or "").strip()
            return ApprovalResponse(allowed=False, reason=_explain_denial(reason))
        remember, rule = chosen
        return ApprovalResponse(allowed=True, remember=remember, rule=rule)

    async def elicit(self, asked: Elicitation) -> ElicitationResult:
        """Pass on what a server asks, marked with which server that is.

        Raises:
            CannotElicitError: the client cannot ask so.
        """
        from kakite.host.server.client_features import CannotElicitError, ElicitationResult
        from kakite.tools.call_context import current_call

        try:
            caller = current_call()
            if caller.relay is None:
                raise ConnectionError("the client takes no questions")
            async with self._get_turn(caller.session_key):
                answer = await caller.relay(_build_elicitation(asked))
        except ConnectionError as error:
            name = escape_one_line(asked.server)
            raise CannotElicitError(
                f"the server `{name}` wants to ask the person something, and this client cannot: {error}",
                hint=f"The person can make the call at a terminal: `kakite host call {name} TOOL`",
            ) from error
        return ElicitationResult(action=answer["action"], content=answer.get("content") or {})

    def _get_turn(self, session: object) -> asyncio.Lock:
        return self._turns.setdefault(session, asyncio.Lock())


def _explain_denial(reason: str) -> str:
    from kakite.host.policy.approver import DEFAULT_DENIAL_REASON

    return f"the person said: {reason}" if reason else DEFAULT_DENIAL_REASON


def _build_refusal(question: ApprovalRequest, told: str) -> ApprovalResponse:
    from kakite.host.policy.approver import ApprovalResponse

    name = f"{question.server}__{question.tool or question.call.name}"
    way = f"the person can allow it at a terminal: `kakite host rules add allow {name}`"
    return ApprovalResponse(allowed=False, reason=f"{told}. Go on without this call; {way}", nobody=True)


def _build_elicitation(asked: Elicitation) -> JsonObject:
    """Return MCP's parameters; the first line is ours, so that no server can pass for Kakite or another."""
    from kakite.host.clean_text import clean_schema, get_display_host

    marked = f"The server {escape_one_line(asked.server)} asks you this, not Kakite:"
    if not asked.url:
        schema = clean_schema(asked.schema or {})
        return {"mode": "form", "message": f"{marked}\n{asked.message}", "requestedSchema": schema}
    told = f"{marked}\n{asked.message}\nIt wants you to visit {escape_one_line(get_display_host(asked.url))}."
    return {"mode": "url", "message": told, "url": asked.url, "elicitationId": uuid.uuid4().hex}


_DENY = "Deny"


def _list_answers(question: ApprovalRequest) -> dict[str, tuple[RememberScope, Rule | None]]:
    """Return the answers that allow the call, each in words that tell how far it goes."""
    from kakite.host.policy.rules import describe_scope

    tool = escape_one_line(question.tool or question.call.name)
    answers: dict[str, tuple[RememberScope, Rule | None]] = {
        "Allow this call": ("once", None),
        "Allow this call with the same arguments until the server ends": ("same_arguments", None),
        f"Allow every call of {tool} until the server ends": ("tool", None),
    }
    saved = [*reversed(question.narrower), question.saves] if question.saves else []
    for rule in filter(None, saved):
        answers[f"Always allow {escape_one_line(describe_scope(rule))}"] = ("always", rule)
    return answers


def _build_form(answers: Mapping[str, object]) -> dict[str, Any]:
    # No default: a form that is sent as it came allows nothing.
    return {
        "type": "object",
        "properties": {
            "answer": {"type": "string", "title": "May this run?", "enum": [_DENY, *answers]},
            "reason": {"type": "string", "title": "If not, why (the model is told)"},
        },
        "required": ["answer"],
    }


def _render(question: ApprovalRequest) -> str:
    """Return the whole question as text; what it is about stands at both ends."""
    rows = [row.plain for row in render_question_rows(question, _WIDTH)]
    of = f" of the server {escape_one_line(question.server)}" if question.server else ""
    return "\n".join([*rows, "", f"May {escape_one_line(question.tool or question.call.name)}{of} run?"])


def serve_host(project: Path, http: str | None) -> int:
    """Serve until the client leaves or a signal comes.

    Raises:
        UserRequiredError: Kakite runs the program that would then answer in the person's place.
    """
    from kakite.host.consent.store import require_user

    require_user()
    asyncio.run(_serve(resolve_project(project), _listen(http) if http else _serve_stdio))
    return 0


async def _serve(project: Path, transport: Callable[[McpServer], Awaitable[None]]) -> None:
    from kakite.host.open import HostOptions, open_host
    from kakite.serve.relayed_features import add_relayed_prompts, add_relayed_resources
    from kakite.serve.server import build_server

    person = ClientApprover()
    async with open_host(project, HostOptions(approver=person, elicit=person)) as opened:
        server = build_server(
            opened, name="kakite-host", title="Kakite host", instructions=_INSTRUCTIONS, changing=True
        )
        add_relayed_resources(server, opened.resources)
        add_relayed_prompts(server, opened.prompts)
        await transport(server)


async def _serve_stdio(server: McpServer) -> None:
    from kakite.serve.stdio import serve_stdio

    if sys.stdin.isatty():
        sys.stderr.write("waiting for an MCP client on standard input; end with Ctrl-C\n")
    await serve_stdio(server)


def _listen(at: str) -> Callable[[McpServer], Awaitable[None]]:
    from kakite.cli.serve_command import open_listener
    from kakite.serve.streamable_http import serve_http

    listening, gate = open_listener(at, runs_commands=True)
    return lambda server: serve_http(server, listening, gate)
