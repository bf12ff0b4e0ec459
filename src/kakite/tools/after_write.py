"""Runs after a write: the person's commands for the files, then a syntax check; both are reported."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from kakite.edit import Change, ChangeSet, SourceText, unified_diff
from kakite.processes import CompletedProcess, ProcessError, ProcessSpec, build_base_environment, run
from kakite.syntax import find_syntax_problem
from kakite.tools.after_edit import AfterEditCommand
from kakite.tools.scope import Scope, is_binary
from kakite.tools.text_pages import truncate_text
from kakite.tools.toolset import JsonObject
from kakite.workspace import Workspace, WorkspaceError, get_inherited_path
from kakite.workspace.landlock import is_confined

MAX_COMMAND = 10.0  # s, of one command for one file
MAX_ALL = 30.0  # s, of all that follow one call
OUTPUT_SHOWN = 4 * 1024  # bytes of one command


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A file as it was before the call, and as the call wrote it."""

    path: str
    before: SourceText | None
    after: SourceText


@dataclass(slots=True)
class AfterWriteResult:
    """The result of what ran after a write."""

    files: list[WrittenFile] = field(default_factory=list[WrittenFile])
    """As they are now."""
    told: list[str] = field(default_factory=list[str])
    details: JsonObject = field(default_factory=dict[str, object])


def run_after_write(scope: Scope, written: Sequence[WrittenFile]) -> AfterWriteResult:
    """Run the commands for each file, take what they made of it into the same write, and see if it parses."""
    deadline = time.monotonic() + MAX_ALL
    done = AfterWriteResult()
    findings: list[JsonObject] = []
    for each in written:
        now = each
        for command in scope.after_edit:
            if command.matches(_to_root_relative(scope.workspace, each.path)):
                found = _run_after_edit_command(scope, command, each.path, deadline)
                findings += [found] if found["exit_code"] or found["output"] else []
                done.told += _format_finding(found)
        if scope.after_edit:
            now = _amend_file(scope, each, done)
        done.files.append(now)
    if findings:
        done.details["after_edit"] = findings
    if problems := check_syntax(done.files):
        done.details["syntax"] = problems
        done.told += [format_syntax_problem(each) for each in problems]
    return done


def _to_root_relative(workspace: Workspace, path: str) -> str:
    """Return a path from the root that it lies below; the innermost one, if it lies below several."""
    full = workspace.canonicalize(path)
    below = [full.removeprefix(f"{root}/") for root in workspace.roots if full.startswith(f"{root}/")]
    return min(below, key=len, default=full.lstrip("/"))


def check_syntax(written: Sequence[WrittenFile]) -> list[JsonObject]:
    """Return what does not parse now and did before."""
    found: list[JsonObject] = []
    for each in written:
        before = None if each.before is None else each.before.text
        problem = find_syntax_problem(each.path, before, each.after.text)
        if problem is not None:
            found.append(
                {
                    "path": each.path,
                    "line": problem.line,
                    "language": problem.language,
                    "message": problem.message,
                }
            )
    return found


def format_syntax_problem(problem: JsonObject) -> str:
    """Return what is told of a file that does not parse."""
    return (
        f"Warning: line {problem['line']} of `{problem['path']}` does not parse as {problem['language']} "
        f"after this edit ({problem['message']})"
    )


def _run_after_edit_command(
    scope: Scope, command: AfterEditCommand, path: str, deadline: float
) -> JsonObject:
    """Run a command for one file; return how it ended."""
    file = scope.workspace.canonicalize(path)
    argv = tuple(word.replace("{file}", file) for word in command.argv)
    answer: JsonObject = {"path": path, "command": shlex.join(command.argv), "exit_code": None, "output": ""}
    left = min(MAX_COMMAND, deadline - time.monotonic())
    if left <= 0:
        return answer | {"output": f"not run: the commands before took {MAX_ALL:.0f} s"}
    root = scope.whole.roots[0]
    # As `run_command` runs programs: never the whole environment, where a client may have put its keys.
    environment = build_base_environment(os.environ, os.environ.get("HOME") or root)
    try:
        with scope.whole.open_folder(".") as folder:
            launch = ProcessSpec(argv=argv, env=environment, cwd=get_inherited_path(folder))
            ended = asyncio.run(run(launch, timeout=left, limit=OUTPUT_SHOWN))
    except (ProcessError, WorkspaceError) as error:
        return answer | {"output": f"it could not be run: {error.message}{_describe_confinement()}"}
    output = _format_output(ended, left)
    kept_from = ended.exit_code != 0 and _NO_PERMISSION.search(output)
    return answer | {
        "exit_code": None if ended.timed_out else ended.exit_code,
        "output": output + (_describe_confinement() if kept_from else ""),
    }


_NO_PERMISSION = re.compile(r"permission denied|EACCES|operation not permitted", re.IGNORECASE)


def _describe_confinement() -> str:
    """Return what is told where it is the kernel that may have kept a command from something."""
    if not is_confined():
        return ""
    return (
        "\n(The kernel, by Landlock, keeps the server and its commands from what lies elsewhere: "
        "the person can start it with `--no-landlock`)"
    )


def _format_output(ended: CompletedProcess, seconds: float) -> str:
    text = "\n".join(
        data.decode(errors="replace").strip() for data in (ended.stdout, ended.stderr) if data.strip()
    )
    dropped = ended.stdout_dropped + ended.stderr_dropped
    text += f"\n({dropped:,} bytes of its output are left out)" if dropped else ""
    return f"{text}\nstopped after {seconds:.0f} s".strip() if ended.timed_out else text


def _format_finding(found: JsonObject) -> list[str]:
    """Return what is told of a command: nothing of one that succeeded without a word."""
    if found["exit_code"] == 0 and not found["output"]:
        return []
    code = found["exit_code"]
    how = "failed" if code is None else "says" if code == 0 else f"ended with exit code {code}"
    return [f"`{found['command']}` for `{found['path']}` {how}:\n{found['output']}".rstrip(":\n")]


def _amend_file(scope: Scope, written: WrittenFile, done: AfterWriteResult) -> WrittenFile:
    """Return the file as the commands left it; what they changed becomes a part of the write."""
    path = written.path
    try:
        file = scope.workspace.amend(path, written.after.to_bytes())
    except WorkspaceError as error:
        done.told.append(f"Warning: `{path}` is not what was written any more: {error.message}")
        return written
    if file is None:
        return written
    if is_binary(file.data):
        done.told.append(f"The commands changed `{path}` further, into something that is not text")
        return written
    old, after = written.after.text, SourceText.from_bytes(file.data)
    changes = ChangeSet.of(len(old), [Change(0, len(old), after.text).narrow(old)])
    diff = truncate_text(unified_diff(changes, old, path=path), "the diff goes on")
    done.told.append(f"The commands changed `{path}` further:\n{diff}".rstrip())
    return WrittenFile(path=path, before=written.before, after=after)
