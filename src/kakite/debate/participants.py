"""Who takes part in a debate: what all can be asked, and those that are programs with their own login."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, Protocol

from kakite.debate.answers import Answer, Failure, Reply
from kakite.debate.readers import Printed, Reader, failure, progress_of, read
from kakite.debate.record import Side
from kakite.processes import Completed, KeptOutput, Launch, ProcessError, Stream, base_environment, run
from kakite.sandbox.temporary import temporary_folder
from kakite.visible import whole

OnProgress = Callable[[str], None]
"""Receives a line on what a participant is doing, in a stranger's words. Must return soon and not raise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What can be told of a participant without asking it anything."""

    state: Literal["ok", "missing", "logged_out", "unknown"]
    """``unknown``: it is there; whether it is logged in shows when it is asked."""
    told: str
    """A version, an address or a reason, for a person."""
    remedy: str = ""


class Participant(Protocol):
    """Somebody who answers."""

    @property
    def side(self) -> Side:
        """Its name, and what would give it away."""
        ...

    async def ask(
        self, prompt: str, *, seconds: float | None = None, on_progress: OnProgress | None = None
    ) -> Reply:
        """Return what it answers, or why it does not; in so many seconds, or in a few more to end it.

        Raises nothing. When cancelled, nothing of it is left running.
        """
        ...

    async def seen(self) -> Seen:
        """Look whether it could be asked, in a few seconds."""
        ...


MOST_OUTPUT = 4 * 1024 * 1024
"""Bytes of standard output that are read as an answer."""
TIME = 600.0
SILENCE = 300.0
_STDERR = 64 * 1024
_LOOK = 10.0
"""Seconds for a program to tell its version."""
_SHORT = 100
"""Characters of a version."""

_PASSED = (
    *("USER", "LOGNAME"),
    *("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"),
    # Without these it does not reach its provider where the machine needs them.
    *("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLine:
    """A program that reads a question from its standard input and prints an answer.

    It gets a session and an empty folder of its own, which go when it ends, no terminal, and of the
    environment only what is harmless, where its own login lies, and ``passes``.
    """

    side: Side
    command: tuple[str, ...]
    """The program, then its arguments."""
    reader: Reader = "text"
    passes: tuple[str, ...] = ()
    """Names of further variables that it is given."""
    sets: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Variables that it is given with these values."""
    time: float = TIME
    """Seconds in all."""
    silence: float | None = None
    """Seconds without output; None: any, as for a program that prints its answer at the end."""
    login: tuple[str, ...] = ()
    """Arguments with which it tells by its exit code whether it is logged in."""
    has_version: bool = False
    """Whether its replies tell what the program answers to ``--version``."""
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    """The environment that variables are taken from."""
    _versions: dict[tuple[str, int], str] = field(
        default_factory=dict[tuple[str, int], str], repr=False, compare=False
    )
    """By the program's file and when that was changed: it may be updated while a server lives."""

    async def ask(
        self, prompt: str, *, seconds: float | None = None, on_progress: OnProgress | None = None
    ) -> Reply:
        """Start it, give it the prompt, and read what it prints."""
        time = self.time if seconds is None else min(self.time, seconds)
        if time <= 0:
            return failure("timed_out", "the budget's time is used up", self.reader)
        version = await self._version() if self.has_version else ""
        hearing = _Hearing(self, time, on_progress)
        with temporary_folder("debate") as folder:
            try:
                done = await hearing.run(self._launch(self.command, str(folder)), prompt)
            except ProcessError as error:
                return _not_started(error, self.reader)
            except OSError as error:  # no folder, no process left
                return failure("broken", str(error), self.reader)
        # It may have printed megabytes, and others are at work.
        reply = await asyncio.to_thread(lambda: _without_secrets(read(self.reader, done), self.environ))
        return replace(reply, version=version)

    def absent(self) -> Failure | None:
        """Return why it cannot be asked at all; None when its program is there."""
        return None if self._file() else failure("not_installed", self.command[0], self.reader)

    async def seen(self) -> Seen:
        """Look for it, ask it for its version and, where it can tell, whether it is logged in."""
        program = self.command[0]
        if shutil.which(program, path=self._environment().get("PATH")) is None:
            known = failure("not_installed", reader=self.reader).hint
            remedy = f"install `{program}`" if self.reader == "text" else known
            return Seen(state="missing", told="not found", remedy=remedy)
        told = _first_line(await self._looked("--version")) or "does not tell its version"
        if not self.login:
            return Seen(state="unknown", told=told)
        login = await self._looked(*self.login)
        if login is None or login.timed_out:
            return Seen(state="unknown", told=told)
        if login.exit_code:
            remedy = failure("not_logged_in", reader=self.reader).hint.partition(",")[0]
            return Seen(state="logged_out", told=f"{told}, not logged in", remedy=remedy)
        return Seen(state="ok", told=told)

    async def _version(self) -> str:
        """Return what it tells of its version; a file of a program is asked once."""
        file = self._file()
        if file is None:
            return ""
        if file not in self._versions:
            self._versions[file] = _first_line(await self._looked("--version"))[:_SHORT]
        return self._versions[file]

    def _file(self) -> tuple[str, int] | None:
        path = shutil.which(self.command[0], path=self._environment().get("PATH"))
        try:
            return (path, Path(path).stat().st_mtime_ns) if path else None
        except OSError:
            return None

    async def _looked(self, *arguments: str) -> Completed | None:
        with temporary_folder("debate") as folder:
            try:
                return await run(self._launch((self.command[0], *arguments), str(folder)), timeout=_LOOK)
            except (ProcessError, OSError):
                return None

    def _launch(self, command: tuple[str, ...], folder: str) -> Launch:
        return Launch(argv=command, env=self._environment(), cwd=folder)

    def _environment(self) -> dict[str, str]:
        names = (*_PASSED, *self.passes)
        passed = {name: self.environ[name] for name in names if name in self.environ}
        home = self.environ.get("HOME", "/")
        return {**base_environment(self.environ, home), "NO_COLOR": "1", **passed, **self.sets}


class _Hearing:
    """Listens to one program, and ends it when it takes too long or is silent for too long."""

    def __init__(self, line: CommandLine, time: float, on_progress: OnProgress | None) -> None:
        self._line = line
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._until = self._began + time
        self._out = KeptOutput("stdout", MOST_OUTPUT, 0)
        self._err = KeptOutput("stderr", 0, _STDERR)
        self._on_progress = on_progress
        self._unread = b""
        self._limit = asyncio.timeout_at(self._next_limit())

    async def run(self, launch: Launch, prompt: str) -> Printed:
        """Run it to its end.

        Raises:
            ProcessError: it could not be started.
        """
        code, ended_for = None, ""
        stdin = whole(prompt).encode()
        try:
            async with self._limit:
                done = await run(launch, stdin=stdin, timeout=None, limit=2, on_output=self._heard)
                code = done.exit_code
        except TimeoutError:
            ended_for = "time" if self._limit.when() == self._until else "silence"
        return Printed(
            stdout=self._out.content().decode(errors="replace"),
            stderr=self._err.content().decode(errors="replace"),
            exit_code=code,
            seconds=self._loop.time() - self._began,
            ended_for=ended_for,
            dropped=self._out.dropped,
        )

    def _heard(self, stream: Stream, data: bytes) -> None:
        (self._out if stream == "stdout" else self._err).data_received(data)
        if not self._limit.expired():
            self._limit.reschedule(self._next_limit())
        if stream == "stdout" and self._on_progress:
            self._tell(data)

    def _next_limit(self) -> float:
        silence = self._line.silence
        return self._until if silence is None else min(self._until, self._loop.time() + silence)

    def _tell(self, data: bytes) -> None:
        *lines, rest = (self._unread + data).split(b"\n")
        self._unread = rest[-_LINE:]
        for line in lines:
            told = progress_of(self._line.reader, line.decode(errors="replace")) if len(line) < _LINE else ""
            if told and self._on_progress:
                self._on_progress(told)


_LINE = 64 * 1024
"""Bytes of a line beyond which it is not looked at for progress."""


def _first_line(done: Completed | None) -> str:
    """Return the first line of what a program printed, if it ended well."""
    if done is None or done.exit_code:
        return ""
    return done.stdout.decode(errors="replace").strip().partition("\n")[0]


def _without_secrets(reply: Reply, environ: Mapping[str, str]) -> Reply:
    """Return the reply with what looks like a key hidden in what the program told of itself."""
    if not reply.stderr_tail and isinstance(reply, Answer):
        return reply
    from kakite.host.redaction import secrets_of  # loads all of the host, for a second

    hide = secrets_of(environ).text
    reply = replace(reply, stderr_tail=hide(reply.stderr_tail))
    return reply if isinstance(reply, Answer) else replace(reply, message=hide(reply.message))


def _not_started(error: ProcessError, reader: Reader) -> Failure:
    if error.code not in {"program_missing", "not_executable"}:
        return failure("broken", error.message, reader)
    return replace(failure("not_installed", reader=reader), message=error.message)


def codex(
    environ: Mapping[str, str], command: tuple[str, ...] = (), arguments: tuple[str, ...] = ()
) -> CommandLine:
    """Return OpenAI's Codex as it is installed, logged in as the person is.

    ``command`` stands in place of our line, with all that makes it safe; ``arguments`` are added to ours.
    """
    return CommandLine(
        side=Side(name="codex", aliases=("openai", "chatgpt", "gpt")),
        command=command or (*_CODEX, *arguments, "-"),
        reader="codex",
        passes=("CODEX_HOME",),
        silence=SILENCE,
        login=("login", "status"),
        has_version=not command,
        environ=environ,
    )


def claude(
    environ: Mapping[str, str], command: tuple[str, ...] = (), arguments: tuple[str, ...] = ()
) -> CommandLine:
    """Return Anthropic's Claude Code as it is installed; the rest is as for ``codex``."""
    return CommandLine(
        side=Side(name="claude", aliases=("anthropic", "claudecode")),
        command=command or (*_CLAUDE, *arguments),
        reader="claude",
        passes=("CLAUDE_CONFIG_DIR",),
        # By itself it repeats a request that was refused for a minute and a half.
        sets={
            "CLAUDE_CODE_MAX_RETRIES": "2",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        },
        login=("auth", "status"),
        has_version=not command,
        environ=environ,
    )


_CODEX = (
    *("codex", "exec", "--json", "--ephemeral", "--skip-git-repo-check"),
    # The person's setup may name our own server, which would begin a debate within the debate.
    *("--ignore-user-config", "--ignore-rules"),
    *("--sandbox", "read-only"),
    *("--disable", "shell_tool", "--disable", "unified_exec"),
    *("--disable", "multi_agent", "--disable", "goals"),
    *("--config", 'web_search="disabled"'),
)
_CLAUDE = (
    *("claude", "-p", "--output-format", "json"),
    *("--tools", "", "--strict-mcp-config", "--setting-sources", "", "--no-session-persistence"),
    *("--system-prompt", "You take part in a discussion. You answer in text; you have no tools."),
)
