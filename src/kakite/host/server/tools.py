"""Lists a server's tools and performs calls: checked before, timed while they run, checked after."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, cast

import anyio
import mcp_types as mcp
from mcp import Client, MCPError

from kakite.host.clean_text import clean, clean_and_redact, clean_tool
from kakite.host.config.model import ServerEntry
from kakite.host.consent.canonical import compute_definition_digest
from kakite.host.from_mcp import to_messages, to_meta, to_prompt_tool, to_result, to_tool
from kakite.host.json_schema import Schema
from kakite.host.resource_uris import READ_OPERATION
from kakite.host.server.client_features import to_safe_url
from kakite.host.server.deadlines import Deadline
from kakite.redaction import Redaction
from kakite.tools.arguments import ToolError, suggest_name, to_error_result
from kakite.tools.call_context import ProgressCallback
from kakite.tools.toolset import META_EFFECT, JsonObject, Tool, ToolCall, ToolResult

log = logging.getLogger(__name__)

PAGES = 200
"""Of a list of tools: one that never ends must not fill the memory."""

BATCH_SIZE = 50
"""Tools that are looked at before others have their turn: a server may have ten thousand."""

PROMPT_PREFIX = "prompts/"
"""Stands before the name of a prompt where it is one of a server's definitions."""
_PROMPTS_TIMEOUT = 5.0  # s; a server that does not list its prompts has none
_PROMPT_FIELDS = {"title", "description", "arguments"}
_DEFINITION_FIELDS = {"name", "title", "description", "input_schema", "output_schema", "annotations"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerToolDefinition:
    """A tool of a server."""

    tool: Tool
    """Under the server's own name for it; its words are without control characters."""
    raw: JsonObject = field(repr=False)
    """``name``, ``title``, ``description``, ``inputSchema``, ``outputSchema`` and ``annotations`` as they
    came, and of ``_meta`` what our own servers say of a tool's effect: what a digest is made of."""
    digest: str
    """Of ``raw``."""
    output_schema: JsonObject | None = field(default=None, repr=False)

    @property
    def prompt(self) -> str:
        """The server's own name for it, if it is a prompt; else empty."""
        return self.tool.name.removeprefix(PROMPT_PREFIX) if "arguments" in self.raw else ""


class CompiledTool:
    """A tool with its schemas compiled when they are first needed."""

    def __init__(self, definition: ServerToolDefinition) -> None:
        self.definition = definition

    @cached_property
    def input_schema(self) -> Schema:
        """Of the arguments."""
        return Schema(self.definition.tool.parameters)

    @cached_property
    def output_schema(self) -> Schema:
        """Of the structured result."""
        return Schema(self.definition.output_schema or {})


def is_operation(name: str) -> bool:
    """Return whether rules take this name for an operation, such as ``resources/read``."""
    return name == READ_OPERATION or name.startswith(PROMPT_PREFIX)


async def list_definitions(client: Client, entry: ServerEntry) -> tuple[ServerToolDefinition, ...]:
    """Return the server's tools, then its prompts, all pages of them; none if it has none at all.

    A tool with the name of an operation is left out: a rule for the one would allow the other.

    Raises:
        MCPError: the server did not list its tools.
    """
    found: dict[str, ServerToolDefinition] = {}
    try:
        async for tool in iter_tools(client):
            if is_operation(tool.name):
                log.warning(
                    "the tool %r of `%s` is left out: an operation has that name", tool.name, entry.name
                )
            elif tool.name not in found:
                found[tool.name] = to_definition(tool, trusted=entry.trusted)
                if not len(found) % BATCH_SIZE:
                    await asyncio.sleep(0)
    except MCPError as error:
        if error.code != mcp.METHOD_NOT_FOUND:
            raise
    for prompt in await _list_prompts(client, entry.name):
        definition = to_prompt_definition(prompt, trusted=entry.trusted)
        found.setdefault(definition.tool.name, definition)
    return tuple(found.values())


async def _list_prompts(client: Client, server: str) -> list[mcp.Prompt]:
    """Return the prompts; where it does not list them, the log says so: its tools are there all the same."""
    found: list[mcp.Prompt] = []
    cursor: str | None = None
    if client.server_capabilities.prompts is None:
        return found
    try:
        async with asyncio.timeout(_PROMPTS_TIMEOUT):
            for _ in range(PAGES):
                page = await client.list_prompts(cursor=cursor)
                found += page.prompts
                cursor = page.next_cursor
                if cursor is None:
                    break
    except TimeoutError:
        told = f"no answer within {_PROMPTS_TIMEOUT:g} s"
        log.warning("the server `%s` did not list its prompts: %s", server, told)
    except MCPError:
        log.warning("the server `%s` did not list its prompts: %s", server, "it refused")
    except ValueError:
        log.warning(
            "the server `%s` did not list its prompts: %s", server, "its answer is not of the protocol"
        )
    return found


async def iter_tools(client: Client) -> AsyncGenerator[mcp.Tool]:
    """Yield the tools of all pages."""
    cursor: str | None = None
    for _ in range(PAGES):
        page = await client.list_tools(cursor=cursor)
        for tool in page.tools:
            yield tool
        cursor = page.next_cursor
        if cursor is None:
            return


def to_prompt_definition(prompt: mcp.Prompt, *, trusted: bool) -> ServerToolDefinition:
    """Return what the server said of a prompt: pinned as a tool is, under a name with ``PROMPT_PREFIX``."""
    told = prompt.model_dump(by_alias=True, mode="json", exclude_none=True, include=_PROMPT_FIELDS)
    name = f"{PROMPT_PREFIX}{prompt.name}"
    raw: JsonObject = {"name": name, "arguments": [], **told}
    return ServerToolDefinition(
        tool=clean_tool(to_prompt_tool(prompt, name, trusted=trusted)),
        raw=raw,
        digest=compute_definition_digest(raw),
    )


def parse_definition(raw: JsonObject, *, trusted: bool) -> ServerToolDefinition:
    """Return a definition as it was kept."""
    if "arguments" not in raw:
        return to_definition(mcp.Tool.model_validate(raw), trusted=trusted)
    prompt = mcp.Prompt.model_validate({**raw, "name": str(raw["name"]).removeprefix(PROMPT_PREFIX)})
    return to_prompt_definition(prompt, trusted=trusted)


async def get_prompt(client: Client, name: str, arguments: JsonObject) -> ToolResult:
    """Return a prompt's text, and its messages in the details.

    Raises:
        MCPError: the server says no.
    """
    return to_messages(await client.get_prompt(name, {key: str(each) for key, each in arguments.items()}))


def to_definition(tool: mcp.Tool, *, trusted: bool) -> ServerToolDefinition:
    """Return what the server said of a tool."""
    raw = tool.model_dump(by_alias=True, mode="json", exclude_unset=True, include=_DEFINITION_FIELDS)
    effect = (tool.meta or {}).get(META_EFFECT)
    raw = raw if effect is None else {**raw, "_meta": {META_EFFECT: effect}}
    return ServerToolDefinition(
        tool=clean_tool(to_tool(tool, trusted=trusted)),
        raw=raw,
        digest=compute_definition_digest(raw),
        output_schema=tool.output_schema,
    )


def is_included(name: str, entry: ServerEntry) -> bool:
    """Return whether an entry offers a tool of this name."""
    return any(fnmatchcase(name, glob) for glob in entry.include) and not any(
        fnmatchcase(name, glob) for glob in entry.exclude
    )


MAX_MESSAGE_CHARS = 2000
"""Characters of a server's refusal that are told."""
_MAX_DATA_CHARS = 500  # characters of what a server adds to that
_NAME = 100  # characters of an argument's name
_MAX_VISITS = 5  # addresses that are told
_HINTS = {
    mcp.INVALID_PARAMS: "look at the arguments once more: they fit its schema, but not what it wants",
    mcp.METHOD_NOT_FOUND: "it does not know the tool, or calls at all",
    mcp.MISSING_REQUIRED_CLIENT_CAPABILITY: "it wants to ask what nobody here answers: go on without it",
}
"""By the codes of JSON-RPC and MCP."""


class ConnectionLostError(Exception):
    """The server was gone before it answered; or it says so itself, with the same number."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def find_argument_error(offered: CompiledTool, call: ToolCall) -> ToolResult | None:
    """Return what is wrong with a call's arguments; None when they fit what the tool takes."""
    where, expected = offered.input_schema.find_violation(_drop_null_arguments(call, offered))
    if not expected:
        return None
    known = list(cast("JsonObject", offered.definition.tool.parameters.get("properties") or {}))
    unknown = next((name for name in call.arguments if known and name not in known), "")
    hint = f"`{call.name}` takes {', '.join(known) or 'nothing'}"
    if unknown:  # named, too: what is told may be that the one meant is missing
        hint = f"it takes no `{unknown[:_NAME]}`: {suggest_name(unknown, known)}"
    place = f" at `{where}`" if where else ""
    return to_error_result(
        ToolError(f"`{call.name}` was not called{place}: {expected}", hint=hint, code="invalid_arguments")
    )


def _drop_null_arguments(call: ToolCall, offered: CompiledTool) -> JsonObject:
    """Return the arguments without those that are left out by saying ``null``, as many models do."""
    told: Any = offered.definition.tool.parameters.get("required")
    required = cast("list[Any]", told) if isinstance(told, list) else []
    return {name: value for name, value in call.arguments.items() if value is not None or name in required}


def _choose_arguments(call: ToolCall, offered: CompiledTool) -> JsonObject:
    """Return the arguments as they were given, if they fit; else without those left out by ``null``."""
    fits = None not in call.arguments.values() or not offered.input_schema.find_violation(call.arguments)[1]
    return call.arguments if fits else _drop_null_arguments(call, offered)


async def perform(
    client: Client,
    offered: CompiledTool,
    call: ToolCall,
    deadline: Deadline,
    on_progress: ProgressCallback | None,
    redaction: Redaction,
) -> ToolResult:
    """Call the tool and wait for its end, as long as the deadline says; the server is told when we give up.

    What it says in an error of the protocol is without secrets.

    Raises:
        ConnectionLostError: the server was gone before it answered.
    """

    async def handle_progress(progress: float, total: float | None, message: str | None) -> None:
        deadline.reset_idle()
        if on_progress:
            on_progress(progress, total, clean(message or "", MAX_MESSAGE_CHARS))

    try:
        async with deadline:
            result = await client.call_tool(
                call.name,
                _choose_arguments(call, offered),
                progress_callback=handle_progress,
                meta=to_meta(call),
            )
    except TimeoutError:
        return _make_timeout_result(call, deadline)
    except (anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
        raise ConnectionLostError(str(error) or "the connection is closed") from error
    except MCPError as error:
        if error.code == mcp.CONNECTION_CLOSED:
            raise ConnectionLostError(error.message) from error
        asks_for_visit = error.code == mcp.URL_ELICITATION_REQUIRED
        return (
            _make_visit_result(call, error) if asks_for_visit else _make_error_result(call, error, redaction)
        )
    except (ValueError, RuntimeError) as error:  # no result of the protocol; or it asks for input without end
        return _make_invalid_result(call, clean(str(error), MAX_MESSAGE_CHARS), "")
    return _check_result(offered, call, result)


def _check_result(offered: CompiledTool, call: ToolCall, result: mcp.CallToolResult) -> ToolResult:
    ours = to_result(result)
    if offered.definition.output_schema is not None and not result.is_error:
        if "structured_content" not in result.model_fields_set:
            return _make_invalid_result(call, "it has no structured content", ours.text)
        where, expected = offered.output_schema.find_violation(result.structured_content)
        if expected:
            return _make_invalid_result(call, f"`{where}`: {expected}" if where else expected, ours.text)
    return _add_schema_notes(offered, ours)


def _add_schema_notes(offered: CompiledTool, result: ToolResult) -> ToolResult:
    gives = offered.output_schema.problem if offered.definition.output_schema is not None else ""
    problems = {"arguments": offered.input_schema.problem, "result": gives}
    notes = [f"the schema of the {of} is broken: {why}" for of, why in problems.items() if why]
    return replace(result, details={**result.details, "notes": notes}) if notes else result


def _make_timeout_result(call: ToolCall, deadline: Deadline) -> ToolResult:
    took = "took too long in all" if deadline.expired == "total" else "gave no sign of life for too long"
    seconds = deadline.timeouts.total if deadline.expired == "total" else deadline.timeouts.idle
    return to_error_result(
        ToolError(
            f"`{call.name}` {took} ({seconds:g} s); the server was told to stop",
            hint="look at what is there before you try again: it may have done a part or all of it",
            code="call_timed_out",
        )
    )


def make_refused_result(call: ToolCall, told: str, hint: str = "") -> ToolResult:
    """Return the server's no to a call."""
    said = clean(told, MAX_MESSAGE_CHARS)
    return to_error_result(
        ToolError(f"the server refused the call of `{call.name}`: {said}", hint=hint, code="call_refused")
    )


def _make_error_result(call: ToolCall, error: MCPError, redaction: Redaction) -> ToolResult:
    """Return an error of the protocol: what the server says, and adds to that."""
    data: Any = redaction.redact_json(error.data)
    written = "" if data is None else json.dumps(data, ensure_ascii=False)
    added = f" ({clean_and_redact(written, redaction, _MAX_DATA_CHARS)})" if written else ""
    said = clean_and_redact(error.message, redaction, MAX_MESSAGE_CHARS) or "it does not say why"
    result = make_refused_result(call, f"{said}{added}", _HINTS.get(error.code, ""))
    return replace(result, details={"rpc_code": error.code})


def _make_visit_result(call: ToolCall, error: MCPError) -> ToolResult:
    """Return what a person has to do before the call: nothing was done, and nothing is opened by itself."""
    visits = _parse_visits(error.data)
    told = "; ".join(f"{each['url']} ({each['message']})" for each in visits)
    said = clean(error.message, MAX_MESSAGE_CHARS)
    return replace(
        to_error_result(
            ToolError(
                f"`{call.name}` was not called: a person has to visit an address first: {told or said}",
                hint="show the person the whole address, and call again once they say that it is done",
                code="visit_required",
            )
        ),
        details={"rpc_code": error.code, "visits": visits},
    )


def _parse_visits(data: Any) -> list[JsonObject]:
    try:
        needed = mcp.ElicitationRequiredErrorData.model_validate(data).elicitations
    except ValueError:
        return []
    return [
        {"url": url, "message": clean(each.message, MAX_MESSAGE_CHARS)}
        for each in needed[:_MAX_VISITS]
        if (url := to_safe_url(each.url))
    ]


def _make_invalid_result(call: ToolCall, why: str, text: str) -> ToolResult:
    said = f"\nwhat it said:\n{text}" if text else ""
    told = f"Error (invalid_result): `{call.name}` ran, but its result is not what the server promised: {why}"
    return ToolResult(text=told + said, is_error=True, code="invalid_result")
