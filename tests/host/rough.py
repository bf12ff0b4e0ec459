"""A server without a library, that behaves as badly as it is told: ``python -S rough.py OPTIONS`` (JSON).

Options:
  era        "legacy" (default), "modern" or "both"
  discover   what a legacy server does at `server/discover`: "refuse" (default), "die", "silent"
  initialize "refuse": it says that the older handshake is too old; "unknown": it does not know it at all
  start      before it reads anything: "die", "silent", "half", "huge", "greet", "flood",
             "close" (its output, and stays)
  slow       seconds before it reads anything
  busy       seconds that it works before it reads anything
  stubborn   a list of what it ignores: "eof", "term"
  child      "plain" or "setsid": leaves a sleeping program behind, that holds its streams or not
  tools      tools to list, besides those that are always there
  mark       a file that gets a line for each start
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import Any

OPTIONS: dict[str, Any] = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
MODERN = "2026-07-28"
writing = threading.Lock()
cancelled: set[object] = set()
answers: dict[object, Any] = {}
answered = threading.Condition()
listening: list[object] = []
tools: list[dict[str, Any]] = []


def send(message: dict[str, Any]) -> None:
    with writing:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def tool(name: str, properties: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties or {}}
    return {"name": name, "description": f"\x1b[31m{name}\x1b[0m", "inputSchema": schema, **more}


number = {"type": "number"}
tools += [
    tool("echo", {"value": {}}, annotations={"readOnlyHint": True}),
    tool("work", {"seconds": number, "every": number}),
    tool("die", {"once": {"type": "string"}}),
    tool("die_reading", {"once": {"type": "string"}}, annotations={"readOnlyHint": True}),
    tool("half"),
    tool("huge"),
    tool("refuse", {"error": {"type": "object"}}),
    tool("environment"),
    tool("folder"),
    tool("ask", {"request": {"type": "object"}}),
    tool("grow", {"name": {"type": "string"}}),
    tool("say", {"text": {"type": "string"}}),
    tool("cancelled"),
    tool("structured", {"value": {}}, outputSchema={"type": "object", "required": ["n"]}),
    tool("capabilities"),
    tool("attempt", {"read": {}, "write": {}, "connect": {}, "fetch": {}, "list": {}}),
    *OPTIONS.get("tools", []),
]
told_capabilities: dict[str, Any] = {}


def note(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


def die(code: int) -> None:
    sys.stdout.flush()
    os._exit(code)


def text(said: object) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": said if isinstance(said, str) else json.dumps(said)}]}


def first_time(arguments: dict[str, Any]) -> bool:
    """Return whether this is to be done: with a file named, only while that is not there."""
    once: str = arguments.get("once", "")
    if not once:
        return True
    if os.path.exists(once):  # noqa: PTH110 - pathlib costs a start of a thousand
        return False
    with open(once, "w", encoding="utf-8"):  # noqa: PTH123
        return True


def call(ident: object, params: dict[str, Any]) -> dict[str, Any] | None:
    name: str = params["name"]
    arguments: dict[str, Any] = params.get("arguments") or {}
    if name in {"die", "die_reading"} and first_time(arguments):
        note(f"dying \x1b[31mnow\x1b[0m of {name}\n")
        die(7)
    if name == "half":
        with writing:
            sys.stdout.write('{"jsonrpc": "2.0", "id":')
        die(0)
    if name == "huge":
        huge()
    if name == "refuse":
        error = {"code": -32000, "message": "not \x1b[31mtoday"}
        send({"id": ident, "error": arguments.get("error") or error})
        return None
    if name == "work":
        return work(ident, params)
    if name == "ask":
        return ask(ident, params)
    if name == "grow":
        tools.append(tool(arguments["name"]))
        changed()
    if name == "say":
        note(arguments["text"])
    if name.startswith("structured"):
        return {**text("its text"), "structuredContent": arguments.get("value")}
    return text(known(name, arguments))


def known(name: str, arguments: dict[str, Any]) -> object:
    match name:
        case "environment":
            return dict(os.environ)
        case "folder":
            return os.getcwd()  # noqa: PTH109
        case "attempt":
            return attempt(arguments)
        case "cancelled":
            return sorted(map(str, cancelled))
        case "capabilities":
            return told_capabilities
        case _:
            return arguments


def attempt(arguments: dict[str, Any]) -> str:
    """Return what a file has, or what came of the try."""
    try:
        match arguments:
            case {"read": path}:
                with open(path, encoding="utf-8") as file:  # noqa: PTH123
                    return file.read()
            case {"write": path}:
                with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123
                    file.write("written")
            case {"fetch": address}:
                from urllib.request import urlopen

                with urlopen(address, timeout=20) as answer:
                    return str(answer.status)
            case {"list": path}:
                return " ".join(sorted(os.listdir(str(path))))  # noqa: PTH208
            case _:
                socket.create_connection(tuple(arguments["connect"]), timeout=20).close()
    except OSError as error:
        return type(error).__name__
    return "done"


def changed() -> None:
    method = "notifications/tools/list_changed"
    if not listening:
        send({"method": method})
    for ident in listening:
        send({"method": method, "params": {"_meta": {"io.modelcontextprotocol/subscriptionId": ident}}})


def work(ident: object, params: dict[str, Any]) -> dict[str, Any] | None:
    arguments: dict[str, Any] = params.get("arguments") or {}
    meta: dict[str, Any] = params.get("_meta") or {}
    until: float = time.monotonic() + arguments["seconds"]
    step = 0
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(left, arguments.get("every") or left))
        if ident in cancelled:
            return None
        step += 1
        if arguments.get("every"):
            progress = {
                "progressToken": meta.get("progressToken"),
                "progress": step,
                "message": f"step {step}",
            }
            send({"method": "notifications/progress", "params": progress})
    return text("done")


def ask(ident: object, params: dict[str, Any]) -> dict[str, Any] | None:
    request = params["arguments"]["request"]
    if OPTIONS.get("era", "legacy") == "modern":
        if "inputResponses" in params:
            return text(params["inputResponses"]["it"])
        return {"resultType": "input_required", "inputRequests": {"it": request}, "requestState": "s"}
    asked = f"ask-{ident}"
    send({"id": asked, **request})
    with answered:
        answered.wait_for(lambda: asked in answers, timeout=60)
        return text(answers[asked])


def huge() -> None:
    piece = "x" * (1024 * 1024)
    with writing:
        sys.stdout.write('{"jsonrpc": "2.0", "id": "')
        for _ in range(100):
            sys.stdout.write(piece)
        sys.stdout.write('", "result": {}}\n')
        sys.stdout.flush()


def discover(ident: object) -> None:
    if OPTIONS.get("era", "legacy") == "legacy":
        how = OPTIONS.get("discover", "refuse")
        if how == "die":
            note("I do not know `server/discover`\n")
            die(3)
        if how == "refuse":
            send({"id": ident, "error": {"code": -32601, "message": "Method not found"}})
        return
    capabilities = {"tools": {"listChanged": True}}
    cached = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
    send({"id": ident, "result": {"supportedVersions": [MODERN], "capabilities": capabilities, **cached}})


def initialize(ident: object, params: dict[str, Any]) -> None:
    told_capabilities.update(params["capabilities"])
    if OPTIONS.get("initialize") == "unknown":
        send({"id": ident, "error": {"code": -32601, "message": "Method not found"}})
        return
    if OPTIONS.get("era", "legacy") == "modern" or OPTIONS.get("initialize") == "refuse":
        data = {"supported": [MODERN], "requested": "2025-11-25"}
        send({"id": ident, "error": {"code": -32022, "message": "too old", "data": data}})
        return
    info = {"name": "rough", "version": "1"}
    result = {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {"listChanged": True}},
        "serverInfo": info,
    }
    send({"id": ident, "result": result})


def answer(message: dict[str, Any]) -> None:
    ident: object = message.get("id")
    params: dict[str, Any] = message.get("params") or {}
    match message.get("method"):
        case "server/discover":
            discover(ident)
        case "initialize":
            initialize(ident, params)
        case "tools/list":
            cached: dict[str, Any] = {"ttlMs": 0, "cacheScope": "public", "resultType": "complete"}
            send({"id": ident, "result": {"tools": tools, **(cached if modern(params) else {})}})
        case "tools/call":
            if modern(params):
                told_capabilities.update(
                    params["_meta"].get("io.modelcontextprotocol/clientCapabilities") or {}
                )
            threading.Thread(target=perform, args=(ident, params), daemon=True).start()
        case "subscriptions/listen":
            listening.append(ident)
            honored = {"notifications": {"toolsListChanged": True}}
            meta = {"_meta": {"io.modelcontextprotocol/subscriptionId": ident}}
            send({"method": "notifications/subscriptions/acknowledged", "params": {**honored, **meta}})
        case "notifications/cancelled":
            cancelled.add(params.get("requestId"))
        case None:
            with answered:
                answers[ident] = message.get("result", message.get("error"))
                answered.notify_all()
        case _:
            pass


def perform(ident: object, params: dict[str, Any]) -> None:
    result = call(ident, params)
    if result is not None:
        send({"id": ident, "result": {"resultType": "complete", **result} if modern(params) else result})


def modern(params: dict[str, Any]) -> bool:
    meta: dict[str, Any] = params.get("_meta") or {}
    return "io.modelcontextprotocol/protocolVersion" in meta


def begin() -> None:
    if "mark" in OPTIONS:
        with open(OPTIONS["mark"], "a", encoding="utf-8") as marks:  # noqa: PTH123
            marks.write(f"{os.getpid()}\n")
    if "term" in OPTIONS.get("stubborn", ()):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "child" in OPTIONS:
        before = ["setsid"] if OPTIONS["child"] == "setsid" else []
        subprocess.Popen([*before, "sleep", "1000"])
    time.sleep(OPTIONS.get("slow", 0))
    until = time.monotonic() + OPTIONS.get("busy", 0)
    while time.monotonic() < until:
        pass
    misbehave()


def misbehave() -> None:
    match OPTIONS.get("start"):
        case "die":
            note("my last words\n")
            die(7)
        case "silent":
            while sys.stdin.readline():
                pass
        case "close":
            os.close(1)
            time.sleep(1000)
        case "half":
            sys.stdout.write('{"jsonrpc": "2.0", "id":')
            die(0)
        case "huge":
            huge()
        case "greet":
            sys.stdout.write("Welcome!\nListening on stdin\n")
        case "flood":
            threading.Thread(target=flood, daemon=True).start()
        case _:
            pass


def flood() -> None:
    while True:
        note("what a noise " * 1000)


def main() -> None:
    begin()
    while line := sys.stdin.readline():
        answer(json.loads(line))
    while "eof" in OPTIONS.get("stubborn", ()):
        time.sleep(1)
    die(0)


if __name__ == "__main__":
    main()
