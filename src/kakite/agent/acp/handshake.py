"""Answers ``initialize`` before anything slow is imported: an editor waits for it. Without the SDK.

Its library of types alone takes longer to import than all the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from kakite import __version__
from kakite.agent.acp.transport import LineTransport

PROTOCOL_VERSION = 1
"""The version that we speak, whichever an editor asks for."""
MAX_VERSION = 65535
AUTH_METHOD = "environment"
STEERING = "session/steering"
"""The method, behind an underscore, by which several agents take a message while a turn runs."""
_KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GOOGLE_API_KEY")


def build_initialize_answer() -> dict[str, Any]:
    """Return what this agent can do, as the protocol has it. Pure."""
    return {
        "protocolVersion": PROTOCOL_VERSION,
        "agentCapabilities": {
            "loadSession": True,
            "mcpCapabilities": {"http": True, "sse": True},
            "promptCapabilities": {"image": True, "embeddedContext": True},
            "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "fork": {}},
        },
        "_meta": {"steering": {"supported": True}},
        "agentInfo": {"name": "kakite", "title": "Kakite", "version": __version__},
        "authMethods": [
            {
                "id": AUTH_METHOD,
                "name": "Key in the environment",
                "description": f"Set {', '.join(_KEYS)}, whichever your model needs, where your editor "
                "starts Kakite; name the model with --model or in your settings",
            }
        ],
    }


async def answer_handshake(
    transport: LineTransport, on_answered: Callable[[], object]
) -> Mapping[str, Any] | None:
    """Answer ``initialize`` until something else comes, which the transport then gives again.

    ``on_answered`` is called after the first answer. Returns what the editor can do, as it said last; None at
    the end of the input.
    """
    capabilities: Mapping[str, Any] = {}
    answered = False
    while (message := await transport.receive()) is not None:
        if not is_plain_initialize(message):
            transport.give_again(message)
            return capabilities
        capabilities = cast("Mapping[str, Any]", message["params"].get("clientCapabilities") or {})
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": build_initialize_answer()}
        await transport.send(answer)
        if not answered:
            on_answered()
        answered = True
    return None


def is_plain_initialize(message: Mapping[str, Any]) -> bool:
    """Return whether this is the request, and nothing of it has to be looked at more closely. Pure."""
    params: Any = message.get("params")
    if message.get("method") != "initialize" or message.get("id") is None or not isinstance(params, dict):
        return False
    given = cast("dict[str, Any]", params)
    version, info = given.get("protocolVersion"), given.get("clientInfo")
    return (
        type(version) is int
        and 0 <= version <= MAX_VERSION
        and isinstance(given.get("clientCapabilities"), dict | None)
        and (info is None or (isinstance(info, dict) and _is_named(cast("dict[str, Any]", info))))
    )


def _is_named(info: dict[str, Any]) -> bool:
    return isinstance(info.get("name"), str) and isinstance(info.get("version"), str)
