"""Builds an MCP server from a toolset, with the prompts that it offers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import mcp_types as mcp
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from kakite import __version__
from kakite.serve.to_mcp import to_call, to_mcp_result, to_mcp_tool
from kakite.tools import ElicitationCallback, bind_call
from kakite.tools.call_context import ElicitationRelay
from kakite.tools.toolset import JsonObject, Tool, ToolResult, Toolset

log = logging.getLogger(__name__)

TOOLS_TTL_MS = 3_600_000  # the tools of a running server never change
PROGRESS_PAUSE = 0.1  # s between two words on how far a call has come

INSTRUCTIONS = """\
Files below the workspace folder. View before you edit. An edit lands right or not at all: when one is
refused, nothing was changed and the answer says what to do next."""

Context = ServerRequestContext[dict[str, Any]]
McpServer = Server[dict[str, Any]]


class _ChangingServer(Server[dict[str, Any]]):
    """A server that announces that its tools may change."""

    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *more: Any, **named: Any
    ) -> InitializationOptions:
        announced = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(announced, *more, **named)


def build_server(
    toolset: Toolset,
    *,
    name: str = "kakite",
    title: str = "Kakite",
    instructions: str = INSTRUCTIONS,
    changing: bool = False,
) -> McpServer:
    """Return an MCP server that offers this toolset, in both protocol eras.

    ``instructions`` tell the client's model how to work with the tools. ``changing``: the tools may be others
    at any time; a client is told so after the call that finds it.
    """
    listed = WeakKeyDictionary[object, tuple[Tool, ...]]()

    async def list_tools(context: Context, _params: mcp.PaginatedRequestParams | None) -> mcp.ListToolsResult:
        tools = await toolset.list_tools()
        if changing and (session := get_session_key(context)) is not None:
            listed[session] = tools
        return mcp.ListToolsResult(tools=[to_mcp_tool(tool) for tool in tools])

    async def call_tool(context: Context, params: mcp.CallToolRequestParams) -> mcp.CallToolResult:
        result = await _call_tool(toolset, context, params)
        session = get_session_key(context)
        if session in listed and (tools := await toolset.list_tools()) != listed[session]:
            listed[session] = tools
            await context.session.send_tool_list_changed()
        return result

    return (_ChangingServer if changing else Server[dict[str, Any]])(
        name,
        title=title,
        version=__version__,
        instructions=instructions,
        cache_hints={"tools/list": CacheHint(ttl_ms=0 if changing else TOOLS_TTL_MS, scope="public")},
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


_STDIO_SESSION = type("Pipes", (), {})()
"""The session of the one client that there is over pipes."""


def get_session_key(context: Context) -> object | None:
    """Return what lives as long as this client's session; None over HTTP in the newer era, which has none."""
    if context.request is None:
        return _STDIO_SESSION
    if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return None
    # The library hands handlers nothing else that lives so long. Where it had no such thing any more, no
    # session could narrow itself, rather than lose what it narrowed itself to.
    return getattr(context.session, "_connection", None)


def _build_asker(context: Context) -> ElicitationCallback | None:
    """Return how to ask the person, if the client lets a server do that; not in the newer era so far."""
    declared = context.session.client_capabilities
    offered = declared.elicitation if declared else None
    if context.protocol_version in MODERN_PROTOCOL_VERSIONS or offered is None:
        return None
    if offered.form is None and offered.url is not None:
        return None

    async def ask(question: str, form: dict[str, Any]) -> Mapping[str, Any] | None:
        try:
            answer = await context.session.elicit_form(question, form, context.request_id)
        except MCPError as error:
            raise ConnectionError(str(error)) from error
        return (answer.content or {}) if answer.action == "accept" else None

    return ask


def _build_relay(context: Context) -> ElicitationRelay | None:
    """Return how to pass on another server's questions, where ``_build_asker`` returns how to ask."""
    declared = context.session.client_capabilities
    offered = declared.elicitation if declared else None
    if context.protocol_version in MODERN_PROTOCOL_VERSIONS or offered is None:
        return None
    forms = offered.form is not None or offered.url is None

    async def relay(params: JsonObject) -> JsonObject:
        mode = params.get("mode", "form")
        if not (forms if mode == "form" else offered.url is not None):
            raise ConnectionError(f"the client takes no questions of the kind `{mode}`")
        request = mcp.ElicitRequest.model_validate({"method": "elicitation/create", "params": params})
        related = ServerMessageMetadata(related_request_id=context.request_id)
        try:
            answer = await context.session.send_request(request, mcp.ElicitResult, metadata=related)
        except (MCPError, ValueError) as error:
            raise ConnectionError(str(error)) from error
        return answer.model_dump(by_alias=True, mode="json", exclude_none=True)

    return relay


def bind_client(context: Context) -> AbstractContextManager[None]:
    """Let the calls of the block know the client that made this request, and how to ask its person."""
    return bind_call(
        session=get_session_key(context), elicit=_build_asker(context), relay=_build_relay(context)
    )


async def _call_tool(
    toolset: Toolset, context: Context, params: mcp.CallToolRequestParams
) -> mcp.CallToolResult:
    meta = context.meta or {}
    telling = _report_progress(context) if "progress_token" in meta else nullcontext()
    with bind_client(context):
        try:
            async with telling:
                result = await toolset.call(to_call(params, meta))
        except Exception:  # the client gets a code, the log the traceback
            log.exception("`%s` failed", params.name)
            result = ToolResult(
                text=f"Error (internal): `{params.name}` failed inside of Kakite; its log has the details",
                is_error=True,
                code="internal",
            )
    return to_mcp_result(result)


@asynccontextmanager
async def _report_progress(context: Context) -> AsyncGenerator[None]:
    """Tell the client how far the calls of the block have come: the latest, a few times a second."""
    latest: list[tuple[float, float | None, str]] = []
    news = asyncio.Event()

    def on_progress(done: float, total: float | None, message: str) -> None:
        latest[:] = [(done, total, message)]
        news.set()

    async def send_latest() -> None:
        while await news.wait():
            news.clear()
            done, total, message = latest[0]
            await context.session.report_progress(done, total, message)
            await asyncio.sleep(PROGRESS_PAUSE)

    telling = asyncio.create_task(send_latest())
    try:
        with bind_call(on_progress=on_progress):
            yield
    finally:
        telling.cancel()
        with suppress(asyncio.CancelledError):
            await telling


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A text that a person picks in the client, for the client's model."""

    name: str
    title: str
    description: str
    arguments: Mapping[str, str]
    """What a person may fill in, and what each is for."""
    required: Collection[str] = ()
    """Those that may not be left out."""
    text: Callable[[Mapping[str, str]], str]
    """Returns the text with what was filled in."""


def add_prompts(server: McpServer, prompts: Sequence[Prompt]) -> None:
    """Let the server list these prompts and give their texts."""
    known = {each.name: each for each in prompts}

    async def list_prompts(
        _context: Context, _params: mcp.PaginatedRequestParams | None
    ) -> mcp.ListPromptsResult:
        return mcp.ListPromptsResult(prompts=[_to_mcp_prompt(each) for each in known.values()])

    async def get_prompt(_context: Context, params: mcp.GetPromptRequestParams) -> mcp.GetPromptResult:
        found = known.get(params.name)
        if found is None:
            told = f"there is no prompt `{params.name[:100]}`; there is {', '.join(known)}"
            raise MCPError(mcp.INVALID_PARAMS, told)
        given = params.arguments or {}
        if missing := [name for name in found.required if not given.get(name, "").strip()]:
            told = f"the prompt `{found.name}` needs {', '.join(sorted(missing))}"
            raise MCPError(mcp.INVALID_PARAMS, told)
        text = found.text(given)
        message = mcp.PromptMessage(role="user", content=mcp.TextContent(type="text", text=text))
        return mcp.GetPromptResult(description=found.description, messages=[message])

    server.cache_hints["prompts/list"] = CacheHint(ttl_ms=TOOLS_TTL_MS, scope="public")
    server.add_request_handler("prompts/list", mcp.PaginatedRequestParams, list_prompts)
    server.add_request_handler("prompts/get", mcp.GetPromptRequestParams, get_prompt)


def _to_mcp_prompt(prompt: Prompt) -> mcp.Prompt:
    arguments = [
        mcp.PromptArgument(name=name, description=told, required=name in prompt.required)
        for name, told in prompt.arguments.items()
    ]
    return mcp.Prompt(
        name=prompt.name, title=prompt.title, description=prompt.description, arguments=arguments
    )
