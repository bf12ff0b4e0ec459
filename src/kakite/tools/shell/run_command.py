"""The tool ``run_command``: runs a program in the workspace.

Changes that a command makes to files that the model saw are noted, so that they do not block its edits.
"""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace

from kakite.edit import SourceText
from kakite.processes import (
    COMMANDS,
    CompletedProcess,
    ProcessError,
    ProcessSpec,
    Stream,
    build_base_environment,
    build_command_argv,
    build_proxy_environment,
    get_passed_environment,
    run,
)
from kakite.tools.arguments import ToolError
from kakite.tools.call_context import ask_user, current_call
from kakite.tools.function_toolset import FunctionTool
from kakite.tools.scope import Scope, is_binary
from kakite.tools.shell.background_jobs import Jobs
from kakite.tools.shell.command_output import (
    OUTPUT_SHOWN,
    STDERR,
    OutputTail,
    decode_output,
    format_command_output,
    format_seconds,
)
from kakite.tools.shell.command_rules import CommandRules, check_git
from kakite.tools.shell.failure_hints import (
    find_limit_hit,
    get_limit_hint,
    get_network_hint,
    get_run_network,
    read_limit_counts,
)
from kakite.tools.shell.overflow_files import MAX_FILE, OverflowFile
from kakite.tools.toolset import JsonObject, Tool, ToolResult
from kakite.workspace import WorkspaceError, get_inherited_path

COMMAND_FILES = 64  # of those seen last, that are looked at before and after a command
COMMAND_ROOM = 8 * 1024 * 1024  # characters of all of them


def read_seen_contents(scope: Scope) -> dict[str, str]:
    """Return what is in the files that the model saw last, before a command of its own runs."""
    contents: dict[str, str] = {}
    room = COMMAND_ROOM
    for path in scope.list_seen_files()[:COMMAND_FILES]:
        sight = scope.get_seen(path)
        room -= len(sight.text) if sight else 0
        text = _read_text(scope, path) if room > 0 else None
        if text is not None:
            contents[path] = text
    return contents


def note_command(scope: Scope, before: Mapping[str, str]) -> None:
    """Remember what a command of the model's own changed: that stands in none of its edits' way."""
    for path, text in before.items():
        sight, now = scope.get_seen(path), _read_text(scope, path)
        if sight is not None and now is not None and now != text:
            scope.remember(path, sight.mark_command_change(text, now))


def _read_text(scope: Scope, path: str) -> str | None:
    with suppress(WorkspaceError):
        data = scope.whole.read(path).data
        return None if is_binary(data) else SourceText.from_bytes(data).text
    return None


TIMEOUT = 120  # s, unless the model asks for another
MAX_TIMEOUT = 1800
MAX_WORD = 128 * 1024  # bytes of one word; Linux takes no more

RUN_COMMAND = Tool(
    name="run_command",
    title="Run a command",
    description=f"""\
Run a program in the workspace and wait for it: a string by `sh -c`, a list of words as it is.
Answers with the exit code, stdout, and below `{STDERR}` stderr. What it leaves running is killed at its end.
Of long output you get the head, the tail and the file that has all of it.
`timeout`: seconds, {TIMEOUT} by default, {MAX_TIMEOUT} at most.
`background`: do not wait; answers with a job for `poll_command` and `stop_command`, without a time limit.""",
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
            "timeout": {"type": "integer", "minimum": 1, "maximum": MAX_TIMEOUT},
            "background": {"type": "boolean"},
            "description": {"type": "string", "description": "why, for people"},
        },
        "required": ["command"],
        "additionalProperties": False,
    },
    effect="execute",
    open_world=True,
)


def create_run_command_tool(scope: Scope, rules: CommandRules, jobs: Jobs) -> FunctionTool:
    """Return the tool, working in this scope, running what the rules allow."""

    async def perform(arguments: JsonObject) -> ToolResult:
        argv, doubt = await asyncio.to_thread(_check_command, rules, arguments["command"])
        if doubt:
            await _ask(arguments["command"], doubt)
        path: str = arguments.get("cwd", ".")
        # Never the server's whole environment: a client may have put its keys there.
        home = os.environ.get("HOME") or await asyncio.to_thread(scope.workspace.canonicalize, path)
        network = get_run_network()
        told = build_proxy_environment(network) | get_passed_environment(os.environ) if network else {}
        environment = build_base_environment(os.environ, home) | told
        with ExitStack() as opened:
            folder = await asyncio.to_thread(opened.enter_context, scope.workspace.open_folder(path))
            # The folder that was looked at, not what somebody puts at its path before the program starts.
            where = build_command_argv(argv, os.environ)
            launch = ProcessSpec(argv=where, env=environment, cwd=get_inherited_path(folder))
            root = await asyncio.to_thread(opened.enter_context, scope.whole.open_folder("."))
            if arguments.get("background"):
                return jobs.begin(launch, arguments.get("timeout"), root, opened)
            return await _run(scope, launch, arguments.get("timeout", TIMEOUT), root)

    return FunctionTool(RUN_COMMAND, perform)


def _check_command(rules: CommandRules, command: str | list[str]) -> tuple[tuple[str, ...], str]:
    """Return the words that may be run, and why the person must be asked first.

    What no program takes is refused before any rule looks at it.
    """
    _check_words([command] if isinstance(command, str) else command)
    checked = rules.check(command)
    check_git(command, rules.allow)
    # By its path: commands may have put another `sh` into a folder of PATH. An image may have it elsewhere.
    shell = "sh" if os.environ.get(COMMANDS) else "/bin/sh"
    argv = (shell, "-c", checked) if isinstance(checked, str) else tuple(checked)
    _check_words(argv)  # the rules quote what they judged, which may be longer
    return argv, rules.get_approval_reason(checked)


async def _ask(command: str | list[str], doubt: str) -> None:
    shown = command if isinstance(command, str) else shlex.join(command)
    answer = await ask_user(f"Run this command? ({doubt})\n\n{shown}")
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
        if length >= MAX_WORD:
            hint = "write it into a file, and run that"
            raise ToolError(f"the command has a word of {length:,} bytes", hint=hint, code="bad_arguments")
        if "\0" in word:
            raise ToolError(
                "the command holds a NUL character, which no program accepts", code="bad_arguments"
            )


async def _run(scope: Scope, launch: ProcessSpec, timeout: int, root: int) -> ToolResult:  # noqa: ASYNC109 - running into it is a result
    spills: dict[Stream, OverflowFile] = {
        "stdout": OverflowFile(root, "stdout", OUTPUT_SHOWN),
        "stderr": OverflowFile(root, "stderr", OUTPUT_SHOWN),
    }

    tail, on_progress = OutputTail(), current_call().on_progress

    def handle_output(stream: Stream, data: bytes) -> None:
        spills[stream].write(data)
        if on_progress:
            tail.feed(data)
            on_progress(tail.received, None, tail.get_text())

    before = await asyncio.to_thread(read_limit_counts)
    contents = await asyncio.to_thread(read_seen_contents, scope)
    try:
        done = await run(launch, timeout=timeout, limit=OUTPUT_SHOWN, on_output=handle_output)
    except ProcessError as error:
        if limit := await asyncio.to_thread(find_limit_hit, before, None):
            raise ToolError(error.message, hint=get_limit_hint(limit), code=error.code) from error
        raise
    finally:
        for spill in spills.values():
            spill.close()
        await asyncio.to_thread(note_command, scope, contents)
    where: dict[Stream, str] = {stream: _describe_overflow(scope, spill) for stream, spill in spills.items()}
    done = replace(done, limit=done.limit or await asyncio.to_thread(find_limit_hit, before, done.exit_code))
    return _build_result(done, timeout, where)


def _describe_overflow(scope: Scope, spill: OverflowFile) -> str:
    """Return where the middle of a stream can be read, or why it cannot and what to do then."""
    if not spill.path:
        way_on = "narrow the output, or send it to a file of your own, and run it again"
        return f", and not kept: {spill.problem}; {way_on}" if spill.problem else ""
    much = f"the first {MAX_FILE >> 20} MiB are" if spill.is_cut else "all of it is"
    return f"; {much} in {scope.workspace.to_relative(spill.path)}"


def _build_result(done: CompletedProcess, timeout: int, where: dict[Stream, str]) -> ToolResult:
    stdout = decode_output(done.stdout, done.stdout_dropped, where["stdout"])
    stderr = decode_output(done.stderr, done.stderr_dropped, where["stderr"])
    if done.timed_out:
        printed = "until then it printed:" if stdout or stderr else "it printed nothing"
        head = f"Error (timed_out): the command was stopped after {timeout} s; {printed}"
        hint = f"give it more time with `timeout` (up to {MAX_TIMEOUT}), or `background`"
        text = format_command_output(head, stdout, stderr, hint)
        return ToolResult(text=text, is_error=True, code="timed_out")
    limit = f", limit {done.limit}" if done.limit else ""
    head = f"exit code {done.exit_code}{limit}{format_seconds(done.duration)}"
    hint = (get_limit_hint(done.limit) or _find_network_hint(done)) if done.exit_code else ""
    details: JsonObject = {"exit_code": done.exit_code, "duration_ms": round(done.duration * 1000)}
    details |= {"limit": done.limit} if done.limit else {}
    return ToolResult(text=format_command_output(head, stdout, stderr, hint), details=details)


def _find_network_hint(done: CompletedProcess) -> str:
    return get_network_hint(get_run_network(), done.stdout + done.stderr)
