"""The tool by which a session's model commits: a step of Kakite's own, asked like any other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import cast

from kakite.agent.run.state import compute_diffstat
from kakite.agent.session.commits import LEFT_OUT_WORDS, Commit, CommitError, CommitPlan, Committer
from kakite.agent.toolsets.run_toolset import COMMIT
from kakite.redaction import build_redaction
from kakite.tools.call_context import current_call
from kakite.tools.function_toolset import FunctionTool
from kakite.tools.toolset import JsonObject, Tool, ToolResult

COMMIT_REQUEST = "Commit what you have changed, with a message in the style of `git log`."
"""What the model is told where the person asks for a commit without its message."""
MAX_MESSAGE_CHARS = 10_000
MAX_PATHS = 500
_SHOWN = 20  # files that an answer names

COMMIT_TOOL = Tool(
    name=COMMIT,
    title="Commit",
    description=(
        "Commit changed files with git, on the branch that is checked out. Only when the person wants "
        "commits: they asked for it, or the project's rules say so. Nothing is pushed, and no commit is "
        "changed afterwards. Without `paths`: the files that have changed since the session began."
    ),
    parameters={
        "type": "object",
        "properties": {
            "message": {
                "type": "string",
                "minLength": 1,
                "maxLength": MAX_MESSAGE_CHARS,
                "description": "A line in the style of `git log`; more after a blank line",
            },
            "paths": {
                "type": "array",
                "minItems": 1,
                "maxItems": MAX_PATHS,
                "items": {"type": "string", "minLength": 1, "maxLength": 4096},
                "description": "Files and folders, relative to the project",
            },
            "preview": {"type": "boolean", "description": "show the diff, commit nothing"},
        },
        "required": ["message"],
        "additionalProperties": False,
    },
    effect="execute",
)

ListFiles = Callable[[], Awaitable[Sequence[str]]]


async def _list_nothing() -> Sequence[str]:
    return ()


class CommitStep:
    """Commits files of one session."""

    def __init__(self, committer: Committer, inside: str, environ: Mapping[str, str]) -> None:
        """Take what it works with.

        Args:
            committer: of the session's folder.
            inside: the path of the folder as the model's commands see it.
            environ: what secrets are known by.
        """
        self.list_changed: ListFiles = _list_nothing
        """Names the files that have changed since the session began; set once it is open."""
        self._committer = committer
        self._inside = inside
        self._redaction = build_redaction(environ)

    def create_tool(self) -> FunctionTool:
        """Return the tool by which the model commits."""
        return FunctionTool(COMMIT_TOOL, self._perform)

    async def commit_changes(self, message: str) -> Commit:
        """Commit what has changed since the session began: the person said so.

        Raises:
            CommitError: there is nothing to commit, or it cannot be done now.
            GitError: git failed.
        """
        paths = tuple(await self.list_changed())
        return await asyncio.to_thread(self._committer.commit, paths, message, may_miss=True)

    async def _perform(self, arguments: JsonObject) -> ToolResult:
        message = self._check_message(arguments["message"])
        named = [self._to_relative(path) for path in cast("list[str]", arguments.get("paths", []))]
        paths, may_miss = tuple(named or await self.list_changed()), not named
        if arguments.get("preview"):
            plan = await asyncio.to_thread(self._committer.plan, paths, may_miss=may_miss)
            return _format_preview(plan)
        made = await asyncio.to_thread(
            self._committer.commit, paths, message, may_miss=may_miss, shown=current_call().preview
        )
        return ToolResult(text=format_commit(made, message), details={"diff": made.plan.diff})

    def _check_message(self, message: str) -> str:
        if not message.strip() or "\0" in message:
            raise CommitError("the message is empty", code="bad_message")
        if self._redaction.redact(message) != message:
            raise CommitError(
                "the message holds what looks like a secret",
                hint="leave it out: a commit is there for all who see the repository",
                code="bad_message",
            )
        return message

    def _to_relative(self, path: str) -> str:
        return "." if path == self._inside else path.removeprefix(f"{self._inside}/")


def format_commit(made: Commit, message: str) -> str:
    """Return what is said of a commit: its id, where it is, and its files."""
    plan = made.plan
    where = f"on `{plan.branch}`" if plan.branch else "on no branch: HEAD is detached"
    subject = message.strip().split("\n", 1)[0]
    lines = [f"Committed {made.id[:10]} {where}: {subject}", *_list_stat(plan), *_list_left_out(plan)]
    if not made.is_staged:
        lines.append(
            "Another git held the index: until `git reset` it shows these changes the wrong way round."
        )
    return "\n".join(lines)


def _format_preview(plan: CommitPlan) -> ToolResult:
    told = "\n".join((f"{format_count(len(plan.files))} would be committed.", *_list_left_out(plan)))
    details = {"diff": plan.diff, "bound": plan.digest}
    return ToolResult(text=f"{told}\n{plan.diff}", details=details)


def format_count(files: int) -> str:
    """Return how many files, in words."""
    return "1 file" if files == 1 else f"{files:,} files"


def _list_stat(plan: CommitPlan) -> list[str]:
    stats = compute_diffstat(plan.diff).splitlines()
    more = [f"and {len(stats) - _SHOWN:,} more files"] if len(stats) > _SHOWN else []
    return [*stats[:_SHOWN], *more]


def _list_left_out(plan: CommitPlan) -> list[str]:
    return [f"Left out: `{each.path}`: {LEFT_OUT_WORDS[each.reason]}." for each in plan.left_out[:_SHOWN]]
