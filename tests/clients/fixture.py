"""The server that the conformance suite asks: what its scenarios expect, on the wire code of `kakite serve`.

``python fixture.py``: listens on a free port of the loopback and prints its address.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import secrets
import sys
import warnings
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import mcp_types as mcp
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

from kakite.http.security import TransportSecurity
from kakite.serve.streamable_http import get_url, listen, parse_address, serve_http

Json = dict[str, Any]
Context = ServerRequestContext[Any, Any]
Give = Callable[[Context, Any], Awaitable[Json]]
Model = TypeVar("Model", bound=BaseModel)

# The smallest picture and sound that are valid: one grey pixel, no samples.
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg=="
WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
KEY = secrets.token_bytes(32)
PAUSE = 0.05

SCHEMA: Json = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def said(text: str) -> Json:
    return {"type": "text", "text": text}


def picture() -> Json:
    return {"type": "image", "data": PNG, "mimeType": "image/png"}


def embedded(uri: str, kind: str, text: str) -> Json:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": text}}


def always(*content: Json, failed: bool = False) -> Give:
    async def give(_context: Context, _params: Any) -> Json:
        return {"content": list(content), **({"isError": True} if failed else {})}

    return give


# What a tool asks of the person, the model or the client, and how it goes on.


def form(message: str, **properties: Json) -> Json:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}}


def sampling(text: str, most: int) -> Json:
    messages = [{"role": "user", "content": said(text)}]
    return {"method": "sampling/createMessage", "params": {"messages": messages, "maxTokens": most}}


ROOTS: Json = {"method": "roots/list", "params": {}}
NAME = form("What is your name?", name={"type": "string"})


def sealed(state: str) -> str:
    return f"{state}.{hmac.new(KEY, state.encode(), hashlib.sha256).hexdigest()}"


def unsealed(sealed_state: str | None) -> str | None:
    if sealed_state is None:
        return None
    state = sealed_state.rpartition(".")[0]
    if not hmac.compare_digest(sealed(state), sealed_state):
        raise MCPError(mcp.INVALID_PARAMS, "the state of the request was tampered with")
    return state


def answers(params: Any) -> Json:
    sent: dict[str, Any] = params.input_responses or {}
    return {
        name: answer if isinstance(answer, dict) else answer.model_dump(by_alias=True, mode="json")
        for name, answer in sent.items()
    }


def filled(answer: Json) -> Json:
    content: Json = answer.get("content") or {}
    return content


def needing(requests: Json, told: str = "", *, state: str = "") -> Give:
    """Ask for all of these and go on once they are answered."""

    async def give(_context: Context, params: Any) -> Json:
        unsealed(params.request_state)
        given = answers(params)
        usable = {
            name
            for name, request in requests.items()
            if name in given and (request is not NAME or "name" in filled(given[name]))
        }
        if usable != requests.keys():
            return asked(requests, state)
        return {"content": [said(f"{told} {json.dumps(given)}")]}

    return give


def asked(requests: Json, state: str = "") -> Json:
    more = {"requestState": sealed(state)} if state else {}
    return {"resultType": "input_required", "inputRequests": requests, **more}


async def in_rounds(_context: Context, params: Any) -> Json:
    match unsealed(params.request_state):
        case None:
            return asked({"step1": form("Step 1: What is your name?", name={"type": "string"})}, "first")
        case "first":
            color = form("Step 2: What is your favorite color?", color={"type": "string"})
            return asked({"step2": color}, "second")
        case _:
            return {"content": [said(f"all rounds done {json.dumps(answers(params))}")]}


async def by_capability(context: Context, _params: Any) -> Json:
    able = (context.session.client_capabilities or mcp.ClientCapabilities()).model_dump(exclude_none=True)
    every = {"elicitation": NAME, "sampling": sampling("Say hello", 50), "roots": ROOTS}
    return asked({name: request for name, request in every.items() if name in able})


async def without_capability(_context: Context, _params: Any) -> Json:
    needed: Json = {"requiredCapabilities": {"sampling": {}}}
    raise MCPError(mcp.MISSING_REQUIRED_CLIENT_CAPABILITY, "sampling is needed", needed)


# What the older protocol does inside of a call.


async def logging(context: Context, _params: Any) -> Json:
    for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await context.session.send_log_message("info", text, related_request_id=context.request_id)  # pyright: ignore[reportDeprecated] - the suite asks for it
        await asyncio.sleep(PAUSE)
    return {"content": [said("logged")]}


async def progress(context: Context, _params: Any) -> Json:
    for done in (0, 50, 100):
        await context.session.report_progress(done, 100)
        await asyncio.sleep(PAUSE)
    return {"content": [said("done")]}


async def sample(context: Context, params: Any) -> Json:
    message = mcp.SamplingMessage(
        role="user", content=mcp.TextContent(type="text", text=params.arguments["prompt"])
    )
    # As part of the call: any other stream to the client may not be open yet, and then nobody is asked.
    got = await context.session.create_message(  # pyright: ignore[reportDeprecated] - the suite asks for it
        [message], max_tokens=100, related_request_id=context.request_id
    )
    return {"content": [said(f"LLM response: {got.content}")]}


async def elicit(context: Context, message: str, told: str, **properties: Json) -> Json:
    schema: Json = {"type": "object", "properties": properties, "required": []}
    got = await context.session.elicit_form(message, schema, related_request_id=context.request_id)
    return {"content": [said(f"{told}: action={got.action}, content={json.dumps(got.content)}")]}


async def elicit_person(context: Context, params: Any) -> Json:
    text: Json = {"type": "string", "description": "User's response"}
    message: str = params.arguments["message"]
    return await elicit(context, message, "User response", username=text, email=text)


async def elicit_defaults(context: Context, _params: Any) -> Json:
    return await elicit(
        context,
        "Look at these",
        "Elicitation completed",
        name={"type": "string", "default": "John Doe"},
        age={"type": "integer", "default": 30},
        score={"type": "number", "default": 95.5},
        status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        verified={"type": "boolean", "default": True},
    )


async def elicit_enums(context: Context, _params: Any) -> Json:
    plain = ["option1", "option2", "option3"]
    titled = [{"const": f"value{n}", "title": f"Option {n}"} for n in (1, 2, 3)]
    named = {"enum": ["opt1", "opt2", "opt3"], "enumNames": ["Option One", "Option Two", "Option Three"]}
    return await elicit(
        context,
        "Choose",
        "Elicitation completed",
        untitledSingle={"type": "string", "enum": plain},
        titledSingle={"type": "string", "oneOf": titled},
        legacyEnum={"type": "string", **named},
        untitledMulti={"type": "array", "items": {"type": "string", "enum": plain}},
        titledMulti={"type": "array", "items": {"anyOf": titled}},
    )


async def reconnect(context: Context, _params: Any) -> Json:
    if context.close_sse_stream:
        await context.close_sse_stream()
    await asyncio.sleep(PAUSE)
    return {"content": [said("reconnected")]}


bus = InMemorySubscriptionBus()


def changing(event: ToolsListChanged | PromptsListChanged) -> Give:
    async def give(_context: Context, _params: Any) -> Json:
        await bus.publish(event)
        return {"content": [said("changed")]}

    return give


def header(name: str) -> Json:
    return {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": name}}}


CONFIRM = form("Please confirm", ok={"type": "boolean"})
TOOLS: dict[str, Give] = {
    "test_simple_text": always(said("This is a simple text response for testing.")),
    "test_image_content": always(picture()),
    "test_audio_content": always({"type": "audio", "data": WAV, "mimeType": "audio/wav"}),
    "test_embedded_resource": always(
        embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")
    ),
    "test_multiple_content_types": always(
        said("Multiple content types test:"),
        picture(),
        embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
    ),
    "test_tool_with_logging": logging,
    "test_logging_tool": logging,
    "test_error_handling": always(said("This tool intentionally returns an error for testing"), failed=True),
    "test_tool_with_progress": progress,
    "test_sampling": sample,
    "test_elicitation": elicit_person,
    "test_elicitation_sep1034_defaults": elicit_defaults,
    "test_elicitation_sep1330_enums": elicit_enums,
    "test_reconnection": reconnect,
    "json_schema_2020_12_tool": always(said("seen")),
    "test_custom_headers": always(said("seen")),
    "test_missing_capability": without_capability,
    "test_streaming_elicitation": progress,
    "test_trigger_tool_change": changing(ToolsListChanged()),
    "test_trigger_prompt_change": changing(PromptsListChanged()),
    "test_input_required_result_elicitation": needing({"user_name": NAME}, "Hello,"),
    "test_input_required_result_sampling": needing(
        {"capital_question": sampling("What is the capital of France?", 100)}
    ),
    "test_input_required_result_list_roots": needing({"client_roots": ROOTS}),
    "test_input_required_result_request_state": needing({"confirm": CONFIRM}, "state-ok", state="asked"),
    "test_input_required_result_multiple_inputs": needing(
        {"user_name": NAME, "greeting": sampling("Generate a greeting", 50), "client_roots": ROOTS},
        state="asked",
    ),
    "test_input_required_result_multi_round": in_rounds,
    "test_input_required_result_tampered_state": needing({"confirm": CONFIRM}, state="asked"),
    "test_input_required_result_capabilities": by_capability,
}
SCHEMAS: dict[str, Json] = {
    "json_schema_2020_12_tool": SCHEMA,
    "test_custom_headers": header("Region"),
    "test_sampling": {"type": "object", "properties": {"prompt": {"type": "string"}}, "required": ["prompt"]},
    "test_elicitation": {
        "type": "object",
        "properties": {"message": {"type": "string"}},
        "required": ["message"],
    },
}


def schema_of(name: str) -> Json:
    return SCHEMAS.get(name, {"type": "object", "properties": {}})


async def list_tools(_context: Context, _params: Any) -> Json:
    return {
        "tools": [
            {"name": name, "description": f"For the scenario of {name}.", "inputSchema": schema_of(name)}
            for name in TOOLS
        ]
    }


async def call_tool(context: Context, params: mcp.CallToolRequestParams) -> Json:
    if params.name not in TOOLS:
        raise MCPError(mcp.INVALID_PARAMS, f"there is no tool {params.name}")
    return await TOOLS[params.name](context, params)


TEXT = {"uri": "test://static-text", "name": "text", "mimeType": "text/plain"}
BINARY = {"uri": "test://static-binary", "name": "binary", "mimeType": "image/png"}
TEMPLATE = {"uriTemplate": "test://template/{id}/data", "name": "template", "mimeType": "application/json"}


async def list_resources(_context: Context, _params: Any) -> Json:
    return {"resources": [TEXT, BINARY]}


async def list_templates(_context: Context, _params: Any) -> Json:
    return {"resourceTemplates": [TEMPLATE]}


async def read_resource(_context: Context, params: mcp.ReadResourceRequestParams) -> Json:
    match params.uri.split("/"):
        case ["test:", "", "static-text"]:
            content = {"mimeType": "text/plain", "text": "This is the content of the static text resource."}
        case ["test:", "", "static-binary"]:
            content = {"mimeType": "image/png", "blob": PNG}
        case ["test:", "", "template", number, "data"]:
            data = {"id": number, "templateTest": True, "data": f"Data for ID: {number}"}
            content = {"mimeType": "application/json", "text": json.dumps(data)}
        case _:
            raise MCPError(mcp.INVALID_PARAMS, "Resource not found", {"uri": params.uri})
    return {"contents": [{"uri": params.uri, **content}]}


async def nothing(_context: Context, _params: Any) -> mcp.EmptyResult:
    return mcp.EmptyResult()


def spoken(*content: Json) -> Json:
    return {"messages": [{"role": "user", "content": each} for each in content]}


def prompt(name: str, *arguments: str) -> Json:
    return {
        "name": name,
        "description": f"For {name}.",
        "arguments": [{"name": each, "required": True} for each in arguments],
    }


async def list_prompts(_context: Context, _params: Any) -> Json:
    return {
        "prompts": [
            prompt("test_simple_prompt"),
            prompt("test_prompt_with_arguments", "arg1", "arg2"),
            prompt("test_prompt_with_embedded_resource", "resourceUri"),
            prompt("test_prompt_with_image"),
            prompt("test_input_required_result_prompt"),
        ]
    }


async def get_prompt(_context: Context, params: mcp.GetPromptRequestParams) -> Json:
    given = params.arguments or {}
    match params.name:
        case "test_simple_prompt":
            return spoken(said("This is a simple prompt for testing."))
        case "test_prompt_with_arguments":
            return spoken(said(f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'"))
        case "test_prompt_with_embedded_resource":
            resource = embedded(given["resourceUri"], "text/plain", "Embedded resource content for testing.")
            return spoken(resource, said("Please process the embedded resource above."))
        case "test_prompt_with_image":
            return spoken(picture(), said("Please analyze the image above."))
        case "test_input_required_result_prompt":
            context = form("What context should the prompt use?", context={"type": "string"})
            return spoken(said("with context")) if answers(params) else asked({"user_context": context})
        case _:
            raise MCPError(mcp.INVALID_PARAMS, f"there is no prompt {params.name}")


async def complete(_context: Context, _params: Any) -> Json:
    return {"completion": {"values": ["paris", "park", "party"], "total": 3, "hasMore": False}}


def typed(model: type[Model], give: Give) -> Callable[[Context, Any], Awaitable[Any]]:
    """Give what `give` says, as the SDK's own type."""

    async def handle(context: Context, params: Any) -> Model | mcp.InputRequiredResult:
        got = await give(context, params)
        return (
            mcp.InputRequiredResult.model_validate(got)
            if "inputRequests" in got
            else model.model_validate(got)
        )

    return handle


def build() -> Server[Any]:
    hint = CacheHint(ttl_ms=1000, scope="public")
    return Server(  # pyright: ignore[reportDeprecated, reportCallIssue] - the same
        "fixture",
        version="1",
        cache_hints={
            "tools/list": hint,
            "prompts/list": hint,
            "resources/list": hint,
            "resources/templates/list": hint,
            "resources/read": hint,
            "server/discover": hint,
        },
        get_tool_input_schema=schema_of,
        on_list_tools=typed(mcp.ListToolsResult, list_tools),
        on_call_tool=typed(mcp.CallToolResult, call_tool),
        on_list_resources=typed(mcp.ListResourcesResult, list_resources),
        on_list_resource_templates=typed(mcp.ListResourceTemplatesResult, list_templates),
        on_read_resource=typed(mcp.ReadResourceResult, read_resource),
        on_subscribe_resource=nothing,
        on_unsubscribe_resource=nothing,
        on_subscriptions_listen=ListenHandler(bus),
        on_list_prompts=typed(mcp.ListPromptsResult, list_prompts),
        on_get_prompt=typed(mcp.GetPromptResult, get_prompt),
        on_completion=typed(mcp.CompleteResult, complete),
        on_set_logging_level=nothing,
    )


def main() -> None:
    warnings.simplefilter("ignore")  # what the suite asks for is in part deprecated
    listening = listen(parse_address("127.0.0.1:0"))
    sys.stdout.write(get_url(listening) + "\n")
    sys.stdout.flush()
    asyncio.run(serve_http(build(), listening, TransportSecurity(host="127.0.0.1")))


if __name__ == "__main__":
    main()
