"""The tool ``run_command``: a program, run at the top of the workspace."""

from __future__ import annotations

import json
import os

from kakite.processes import Completed, Launch, base_environment, run
from kakite.tools.offers import Offer
from kakite.tools.rules import CommandRules
from kakite.tools.toolset import JsonObject, Tool, ToolResult

TIMEOUT = 120  # s, unless the model asks for another
TIMEOUT_MOST = 1800
OUTPUT_SHOWN = 32 * 1024  # bytes of each stream

RUN_COMMAND = Tool(
    name="run_command",
    title="Run a command",
    description=f"""\
Run a program at the top of the workspace and wait for it: a string by `sh -c`, a list of words as it is.
Answers {{"exit_code", "stdout", "stderr", "duration_ms"}}. An exit code other than 0 is an answer too.
Nothing may stay running: what is left at the end is killed. Very long output loses its middle.
`timeout`: seconds, {TIMEOUT} by default, {TIMEOUT_MOST} at most.""",
    parameters={
        "type": "object",
        "properties": {
            "command": {
                "anyOf": [
                    {"type": "string", "minLength": 1},
                    {"type": "array", "items": {"type": "string"}, "minItems": 1},
                ]
            },
            "timeout": {"type": "integer", "minimum": 1, "maximum": TIMEOUT_MOST},
            "description": {"type": "string", "description": "why, for people"},
        },
        "required": ["command"],
        "additionalProperties": False,
    },
    effect="execute",
    open_world=True,
)


def run_command(folder: str, rules: CommandRules) -> Offer:
    """Return the tool, working in this folder and beneath, running what the rules allow."""

    async def perform(arguments: JsonObject) -> ToolResult:
        command: str | list[str] = arguments["command"]
        rules.check(command)
        argv = ("sh", "-c", command) if isinstance(command, str) else tuple(command)
        timeout: int = arguments.get("timeout", TIMEOUT)
        # Never the server's whole environment: a client may have put its keys there.
        environment = base_environment(os.environ, os.environ.get("HOME", folder))
        launch = Launch(argv=argv, env=environment, cwd=folder)
        return _result(await run(launch, timeout=timeout, limit=OUTPUT_SHOWN), timeout)

    return Offer(RUN_COMMAND, perform)


def _result(done: Completed, timeout: int) -> ToolResult:
    answer = {
        "exit_code": done.exit_code,
        "stdout": _decoded(done.stdout, done.stdout_dropped),
        "stderr": _decoded(done.stderr, done.stderr_dropped),
        "duration_ms": round(done.duration * 1000),
    }
    text = json.dumps(answer, ensure_ascii=False)
    if not done.timed_out:
        return ToolResult(text=text, details={"exit_code": done.exit_code})
    told = f"Error (timed_out): the command was stopped after {timeout} s; until then it printed:\n{text}"
    hint = f"hint: give it more time with `timeout` (up to {TIMEOUT_MOST}), or a smaller job"
    return ToolResult(text=f"{told}\n{hint}", is_error=True, code="timed_out")


def _decoded(output: bytes, dropped: int) -> str:
    if not dropped:
        return output.decode(errors="replace")
    head, tail = output[: len(output) // 2], output[len(output) // 2 :]
    gap = f"\n… {dropped:,} bytes left out …\n"
    return head.decode(errors="replace") + gap + tail.decode(errors="replace")
