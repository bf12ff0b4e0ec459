"""A server that does what a file tells it to, without a library: it starts fast, and can misbehave.

``python -I -S told.py FILE``. FILE is a JSON object, read again at every request:

``mark``: a file that gets a line with our process id when we start. ``start``: ``hang`` or ``die``. ``say``:
a line for stderr at the start. ``tools``: definitions. ``does``: by tool, what a call does, one of
``{"text": str, "error"?: bool}``, ``{"environ": true}``, ``{"elicit": params}``, ``{"sample": params}``,
``{"wait": file}``, ``{"until": file}``, ``{"progress": [[1, 2, "message"]]}``,
``{"die": true}``, ``{"refuse": error}``, ``{"write": {file: text}, "changed": bool}``; without: the
arguments come back as JSON.
``capabilities``: besides tools. ``answers``: results by method. ``resources``: texts by address.
``silent``: methods that are never answered. ``refuses``: what the error of all other methods says.
``asks``: parameters of what is asked of a
person before a resource is read or a prompt is had; these are refused unless the answer is yes.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
import time
from typing import Any, NoReturn

JsonObject = dict[str, Any]


def script() -> JsonObject:
    with pathlib.Path(sys.argv[1]).open(encoding="utf-8") as file:
        return json.load(file)


def add(path: str, line: str) -> None:
    with pathlib.Path(path).open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def receive() -> JsonObject:
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)


def text_result(text: str, *, error: bool = False) -> JsonObject:
    return {"content": [{"type": "text", "text": text}], "isError": error}


def asked(method: str, params: JsonObject) -> str:
    send(id="asked", method=method, params=params)
    while (message := receive()).get("id") != "asked":
        answer(message)
    return json.dumps(message.get("result") or message.get("error"), sort_keys=True, ensure_ascii=False)


ASKS = {"elicit": "elicitation/create", "sample": "sampling/createMessage"}


def other(method: str, params: JsonObject) -> JsonObject | None:
    told = script()
    answers: JsonObject = {"ping": {}, **told.get("answers", {})}
    asks = "asks" in told and method in {"resources/read", "prompts/get"}
    if asks and '"accept"' not in asked(ASKS["elicit"], told["asks"]):
        return None
    if method == "resources/read" and params["uri"] in told.get("resources", {}):
        return {"contents": [{"uri": params["uri"], "text": told["resources"][params["uri"]]}]}
    return answers.get(method)


WAITING: dict[object, str] = {}


def report(params: JsonObject, does: JsonObject) -> None:
    token = params.get("_meta", {}).get("progressToken")
    for progress, total, said in does.get("progress", []):
        told = {"progressToken": token, "progress": progress, "total": total, "message": said}
        send(method="notifications/progress", params=told)


def wait_until(does: JsonObject) -> None:
    if "until" in does:
        add(does["until"], "called")
        while not pathlib.Path(does["until"] + ".go").exists():
            time.sleep(0.02)


def called(message: JsonObject) -> JsonObject | None:
    name: str = message["params"]["name"]
    arguments: JsonObject = message["params"].get("arguments") or {}
    does = script().get("does", {}).get(name, {})
    if "wait" in does:
        WAITING[message["id"]] = does["wait"]
        add(does["wait"], "called")
        return None
    report(message["params"], does)
    wait_until(does)
    if does.get("die"):
        os._exit(9)
    if "refuse" in does:
        send(id=message["id"], error=does["refuse"])
        return None
    for path, text in does.get("write", {}).items():
        with pathlib.Path(path).open("w", encoding="utf-8") as file:
            file.write(text)
    if does.get("changed"):
        send(method="notifications/tools/list_changed")
    for kind in does.keys() & ASKS:
        return text_result(asked(ASKS[kind], does[kind]))
    if does.get("environ"):
        return text_result(json.dumps(dict(os.environ), sort_keys=True))
    if "text" in does:
        return text_result(does["text"], error=does.get("error", False))
    return text_result(json.dumps(arguments, sort_keys=True, ensure_ascii=False))


def answer(message: JsonObject) -> None:
    method = message.get("method")
    if method == "notifications/cancelled":
        file = WAITING.pop(message["params"]["requestId"], None)
        if file:
            add(file, "cancelled")
    if "id" not in message or method is None or method in script().get("silent", []):
        return
    if method == "initialize":
        about = {"name": "told", "version": "1"}
        capabilities = {"tools": {"listChanged": True}, **script().get("capabilities", {})}
        version = message["params"]["protocolVersion"]
        result = {"protocolVersion": version, "capabilities": capabilities, "serverInfo": about}
    elif method == "tools/list":
        result = {"tools": script().get("tools", [])}
    elif method == "tools/call":
        result = called(message)
    else:
        result = other(method, message.get("params") or {})
        if result is None:
            refused = script().get("refuses", "no such method")
            send(id=message["id"], error={"code": -32601, "message": refused})
    if result is not None:
        send(id=message["id"], result=result)


def main() -> NoReturn:
    told = script()
    if "mark" in told:
        add(told["mark"], str(os.getpid()))
    if "say" in told:
        sys.stderr.write(told["say"] + "\n")
        sys.stderr.flush()
    if told.get("start") == "die":
        sys.exit(7)
    while told.get("start") == "hang":
        time.sleep(1000)
    while True:
        answer(receive())


main()
