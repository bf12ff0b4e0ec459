"""The tool ``run_command``: a program, run in the workspace."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

from kakite.processes import (
    Completed,
    Launch,
    ProcessError,
    Stream,
    base_environment,
    proxy_environment,
    run,
)
from kakite.tools.arguments import ToolError
from kakite.tools.asking import agreed
from kakite.tools.command_changes import note_command, seen_contents
from kakite.tools.git_guard import check_git
from kakite.tools.jobs import Jobs
from kakite.tools.limits import counted, ran_into, way_on
from kakite.tools.network import missing_network, network_of_run
from kakite.tools.offers import Offer
from kakite.tools.rules import CommandRules
from kakite.tools.scope import Scope
from kakite.tools.spill import FILE_MOST, Spill
from kakite.tools.toolset import JsonObject, Tool, ToolResult

TIMEOUT = 120  # s, unless the model asks for another
TIMEOUT_MOST = 1800
WORD_MOST = 128 * 1024  # bytes of one word; Linux takes no more
OUTPUT_SHOWN = 32 * 1024  # bytes of each stream

RUN_COMMAND = Tool(
    name="run_command",
    title="Run a command",
    description=f"""\
Run a program in the workspace and wait for it: a string by `sh -c`, a list of words as it is.
Answers {{"exit_code", "stdout", "stderr", "duration_ms"}}. An exit code other than 0 is an answer too.
Nothing may stay running: what is left at the end is killed. Of very long output the middle goes into a file.
`timeout`: seconds, {TIMEOUT} by default, {TIMEOUT_MOST} at most.
`background`: do not wait; answers {{"job"}} for `poll_command` and `stop_command`, without a time limit.""",
    parameters={
        "type": "object",
        "properties": {
            "command": {
                "anyOf": [
                    {"type": "string", "minLength": 1},
                    {"type": "array", "items": {"type": "string"}, "minItems": 1},
                ]
            },
            "cwd": {"type": "string", "description": "folder to run in, default: the top of the workspace"},
            "timeout": {"type": "integer", "minimum": 1, "maximum": TIMEOUT_MOST},
            "background": {"type": "boolean"},
            "description": {"type": "string", "description": "why, for people"},
        },
        "required": ["command"],
        "additionalProperties": False,
    },
    effect="execute",
    open_world=True,
)


def run_command(scope: Scope, rules: CommandRules, jobs: Jobs) -> Offer:
    """Return the tool, working in this scope, running what the rules allow."""

    async def perform(arguments: JsonObject) -> ToolResult:
        argv, doubt = await asyncio.to_thread(_judged, rules, arguments["command"])
        if doubt:
            await _ask(arguments["command"], doubt)
        path: str = arguments.get("cwd", ".")
        # Never the server's whole environment: a client may have put its keys there.
        home = os.environ.get("HOME") or await asyncio.to_thread(scope.identity, path)
        network = network_of_run()
        told = proxy_environment(network) if network else {}
        environment = base_environment(os.environ, home) | told
        with ExitStack() as opened:
            folder = await asyncio.to_thread(opened.enter_context, scope.opened_folder(path))
            # The folder that was looked at, not what somebody puts at its path before the program starts.
            launch = Launch(argv=argv, env=environment, cwd=f"/proc/self/fd/{folder}")
            root = await asyncio.to_thread(opened.enter_context, scope.workspace.opened_folder("."))
            if arguments.get("background"):
                return jobs.begin(launch, arguments.get("timeout"), root, opened)
            return await _run(scope, launch, arguments.get("timeout", TIMEOUT), root)

    return Offer(RUN_COMMAND, perform)


def _judged(rules: CommandRules, command: str | list[str]) -> tuple[tuple[str, ...], str]:
    """Return the words that may be run, and why the person must be asked first.

    What no program takes is refused before any rule looks at it.
    """
    _check_words([command] if isinstance(command, str) else command)
    checked = rules.check(command)
    check_git(command, rules.allow)
    argv = ("sh", "-c", checked) if isinstance(checked, str) else tuple(checked)
    _check_words(argv)  # the rules quote what they judged, which may be longer
    return argv, rules.doubt(checked)


async def _ask(command: str | list[str], doubt: str) -> None:
    shown = command if isinstance(command, str) else shlex.join(command)
    answer = await agreed(f"Run this command? ({doubt})\n\n{shown}")
    if answer is None:
        hint = "go on without it, or tell the person to run it: this client cannot ask them"
        raise ToolError(f"the command needs the person's yes: {doubt}", hint=hint, code="approval_required")
    if not answer:
        raise ToolError("the person said no to this command", hint="go on without it", code="denied")


def _check_words(words: Sequence[str]) -> None:
    for word in words:
        try:
            length = len(os.fsencode(word))
        except UnicodeEncodeError as error:
            raise ToolError("the command holds half of a character", code="bad_arguments") from error
        if length >= WORD_MOST:
            hint = "write it into a file, and run that"
            raise ToolError(f"the command has a word of {length:,} bytes", hint=hint, code="bad_arguments")
        if "\0" in word:
            raise ToolError("the command holds a NUL character, which no program takes", code="bad_arguments")


async def _run(scope: Scope, launch: Launch, timeout: int, root: int) -> ToolResult:  # noqa: ASYNC109 - running into it is a result
    spills: dict[Stream, Spill] = {
        "stdout": Spill(root, "stdout", OUTPUT_SHOWN),
        "stderr": Spill(root, "stderr", OUTPUT_SHOWN),
    }

    def take(stream: Stream, data: bytes) -> None:
        spills[stream].take(data)

    before = await asyncio.to_thread(counted)
    contents = await asyncio.to_thread(seen_contents, scope)
    try:
        done = await run(launch, timeout=timeout, limit=OUTPUT_SHOWN, on_output=take)
    except ProcessError as error:
        if limit := await asyncio.to_thread(ran_into, before, None):
            raise ToolError(error.message, hint=way_on(limit), code=error.code) from error
        raise
    finally:
        for spill in spills.values():
            spill.close()
        await asyncio.to_thread(note_command, scope, contents)
    where: dict[Stream, str] = {stream: _where(scope, spill) for stream, spill in spills.items()}
    done = replace(done, limit=done.limit or await asyncio.to_thread(ran_into, before, done.exit_code))
    return _result(done, timeout, where)


def _where(scope: Scope, spill: Spill) -> str:
    """Return where the middle of a stream can be read, or why it cannot and what to do then."""
    if not spill.path:
        way_on = "narrow the output, or send it to a file of your own, and run it again"
        return f", and not kept: {spill.problem}; {way_on}" if spill.problem else ""
    much = f"the first {FILE_MOST >> 20} MiB are" if spill.is_cut else "all of it is"
    return f"; {much} in {scope.shown(spill.path)}"


def _result(done: Completed, timeout: int, where: dict[Stream, str]) -> ToolResult:
    answer: JsonObject = {
        "exit_code": done.exit_code,
        "stdout": _decoded(done.stdout, done.stdout_dropped, where["stdout"]),
        "stderr": _decoded(done.stderr, done.stderr_dropped, where["stderr"]),
        "duration_ms": round(done.duration * 1000),
    }
    if done.limit and not done.timed_out:
        answer["limit"] = done.limit
    if done.exit_code and (hint := way_on(done.limit) or _network_hint(done)):
        answer["hint"] = hint
    text = json.dumps(answer, ensure_ascii=False)
    if not done.timed_out:
        return ToolResult(text=text, details={"exit_code": done.exit_code, "limit": done.limit})
    told = f"Error (timed_out): the command was stopped after {timeout} s; until then it printed:\n{text}"
    hint = f"hint: give it more time with `timeout` (up to {TIMEOUT_MOST}), or `background`"
    return ToolResult(text=f"{told}\n{hint}", is_error=True, code="timed_out")


def _network_hint(done: Completed) -> str:
    return missing_network(network_of_run(), done.stdout + done.stderr)


def _decoded(output: bytes, dropped: int, where: str) -> str:
    if not dropped:
        return output.decode(errors="replace")
    head, tail = output[: len(output) // 2], output[len(output) // 2 :]
    gap = f"\n… {dropped:,} bytes left out{where} …\n"
    return head.decode(errors="replace") + gap + tail.decode(errors="replace")
