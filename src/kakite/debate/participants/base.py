"""Defines participants of a debate: their interface, CLIs with their own login, and remote participants.

A remote participant is a CLI on the host, asked over HTTP by a server in a container: ``POST`` with
``{"prompt": …, "history": [], "seconds": …}`` is answered by ``output``, the CLI's text, and ``reply``, all
that is known of it (``encode_reply``); a failure by 500 or 504 with ``error``, and ``reply`` as well. A
runner without ``reply`` works too.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, cast

from kakite.debate.answers import Answer, FailureCode, ParticipantFailure, Reply, read_block
from kakite.debate.model import ParticipantInfo
from kakite.debate.participants.cli_sandbox import (
    FILES,
    CliAccess,
    CliSandbox,
    ProgramPlace,
    StartProgram,
    create_claude_access,
    create_codex_access,
)
from kakite.debate.participants.output_parsers import (
    CliOutput,
    OutputFormat,
    create_failure,
    parse_output,
    parse_progress,
)
from kakite.processes import (
    CompletedProcess,
    HeadTailCapture,
    ProcessError,
    ProcessSpec,
    Stream,
    build_base_environment,
    run,
)
from kakite.sandbox.base import SandboxError
from kakite.sandbox.files.temp import temporary_folder
from kakite.terminal_text import replace_surrogates, replace_surrogates_in_json

if TYPE_CHECKING:
    import httpx2
    from pydantic import TypeAdapter

    from kakite.debate.files import FileSnapshot

OnProgress = Callable[[str], None]
"""Receives a line on what a participant is doing, in a stranger's words. Must return soon and not raise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """The facts about a participant that need no question to it."""

    state: Literal["ok", "missing", "logged_out", "unknown"]
    """``unknown``: it is there; whether it is logged in shows when it is asked."""
    told: str
    """A version, an address or a reason, for a person."""
    remedy: str = ""


class Participant(Protocol):
    """Somebody who answers."""

    @property
    def side(self) -> ParticipantInfo:
        """Its name, and what would give it away."""
        ...

    async def ask(
        self,
        prompt: str,
        *,
        seconds: float | None = None,
        on_progress: OnProgress | None = None,
        files: FileSnapshot | None = None,
    ) -> Reply:
        """Return what it answers, or why it does not; in so many seconds, or in a few more to end it.

        ``files`` are what it can read: by tools of ours in a sandbox, else as a text in its prompt.

        Raises nothing. When cancelled, nothing of it is left running.
        """
        ...

    async def probe(self) -> ProbeResult:
        """Look whether it could be asked, in a few seconds."""
        ...


MAX_OUTPUT = 4 * 1024 * 1024
"""Bytes of standard output that are read as an answer."""
DEFAULT_TIMEOUT = 600.0
DEFAULT_IDLE_TIMEOUT = 300.0
_STDERR = 64 * 1024
_LOOK = 10.0
"""Seconds for a program to tell its version."""
_SHORT = 100
"""Characters of a version."""
_QUIET = {"NO_COLOR": "1"}

_PASSED = (
    *("USER", "LOGNAME"),
    *("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"),
    # Without these it does not reach its provider where the machine needs them.
    *("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CliParticipant:
    """A program that reads a question from its standard input and prints an answer.

    It gets a session and an empty folder of its own, which go when it ends, no terminal, and of the
    environment only what is harmless, where its own login lies, and ``passes``.
    """

    side: ParticipantInfo
    command: tuple[str, ...]
    """The program, then its arguments."""
    reader: OutputFormat = "text"
    passes: tuple[str, ...] = ()
    """Names of further variables that it is given."""
    where: tuple[str, ...] = ()
    """Names of variables that say where its login lies. In a sandbox that is elsewhere."""
    sets: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Variables that it is given with these values."""
    time: float = DEFAULT_TIMEOUT
    """Seconds in all."""
    silence: float | None = None
    """Seconds without output; None: any, as for a program that prints its answer at the end."""
    login: tuple[str, ...] = ()
    """Arguments with which it tells by its exit code whether it is logged in."""
    has_version: bool = False
    """Whether its replies tell what the program answers to ``--version``."""
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    """The environment that variables are taken from."""
    access: CliAccess | None = None
    """What it needs in a sandbox; None: it runs in none."""
    _versions: dict[tuple[str, int], str] = field(
        default_factory=dict[tuple[str, int], str], repr=False, compare=False
    )
    """By the program's file and when that was changed: it may be updated while a server lives."""
    _obstacles: dict[tuple[str, int], str] = field(
        default_factory=dict[tuple[str, int], str], repr=False, compare=False
    )
    """Why it runs in no sandbox, in the same way; empty where it does."""

    async def ask(
        self,
        prompt: str,
        *,
        seconds: float | None = None,
        on_progress: OnProgress | None = None,
        files: FileSnapshot | None = None,
    ) -> Reply:
        """Start it, give it the prompt, and read what it prints."""
        time = self.time if seconds is None else min(self.time, seconds)
        if time <= 0:
            return create_failure("timed_out", "the budget's time is used up", self.reader)
        version = await self._get_version() if self.has_version else ""
        obstacle = await self.find_sandbox_obstacle()
        hearing = _OutputWatcher(self, time, on_progress)
        has_tools = bool(self.access and self.access.client and not obstacle)
        if files:
            prompt = files.add_tools(prompt, FILES) if has_tools else files.add_text(prompt)
        with temporary_folder("debate") as folder:
            try:
                shown = files.folder if files and has_tools else None
                async with self.open_program(folder, self.command, shown, sandboxed=not obstacle) as place:
                    done = await hearing.run(place.run, prompt)
            except ProcessError as error:
                return _convert_start_error(error, self.reader)
            except (SandboxError, OSError) as error:  # no folder, no process left
                return create_failure("broken", str(error), self.reader)
        # It may have printed megabytes, and others are at work.
        reply = await asyncio.to_thread(
            lambda: _redact_secrets(parse_output(self.reader, done), self.environ)
        )
        if isinstance(reply, Answer) and obstacle and self.access:
            reply = replace(reply, notes=(*reply.notes, f"it ran in no sandbox: {obstacle}"))
        return replace(reply, version=version)

    async def find_sandbox_obstacle(self) -> str:
        """Return why it runs in no sandbox; nothing where it does, for which it is tried once."""
        if self.access is None:
            return "its command is the person's own"
        file = self._locate_program()
        if file is None:
            return "it is not installed"
        if file not in self._obstacles:
            self._obstacles[file] = await self._try_sandbox()
        return self._obstacles[file]

    async def _try_sandbox(self) -> str:
        """Let it tell its version in a sandbox, and return why that does not work."""
        with temporary_folder("debate") as folder:
            try:
                async with self.open_program(folder, (self.command[0], "--version"), sandboxed=True) as place:
                    done = await place.run(stdin=b"", timeout=_LOOK, limit=_STDERR, on_output=None)
            except (SandboxError, OSError) as error:
                return error.message if isinstance(error, SandboxError) else str(error)
        if done.exit_code == 0:
            return ""
        told = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.exit_code}"]
        return f"it does not start in one: {told[-1][:_SHORT]}"

    @asynccontextmanager
    async def open_program(
        self, folder: Path, command: tuple[str, ...], files: Path | None = None, *, sandboxed: bool
    ) -> AsyncGenerator[ProgramPlace]:
        """Yield how to start the command: in its sandbox, where it has tools for the files, or beside us."""
        if sandboxed and self.access:
            own = {**_QUIET, **self._collect_variables(self.passes), **self.sets}
            more: tuple[str, ...] = ()
            if files and self.access.client:
                more, variables = self.access.build_file_tools()
                own |= variables
            sandbox = CliSandbox(access=self.access, environ=self.environ)
            async with sandbox.open(folder, (*command, *more), own, files) as place:
                yield place
        else:
            spec = self._build_spec(command, str(folder))
            yield ProgramPlace(folder=str(folder), run=partial(run, spec), build_spec=lambda: spec)

    def check_installed(self) -> ParticipantFailure | None:
        """Return why it cannot be asked at all; None when its program is there."""
        return (
            None if self._locate_program() else create_failure("not_installed", self.command[0], self.reader)
        )

    async def probe(self) -> ProbeResult:
        """Look for it, ask it for its version and, where it can tell, whether it is logged in."""
        program = self.command[0]
        if shutil.which(program, path=self._build_environment().get("PATH")) is None:
            known = create_failure("not_installed", reader=self.reader).hint
            remedy = f"install `{program}`" if self.reader == "text" else known
            return ProbeResult(state="missing", told="not found", remedy=remedy)
        seen = await self._probe_login()
        if self.access is None:
            return seen
        obstacle = await self.find_sandbox_obstacle()
        told = f"in no sandbox: {obstacle}" if obstacle else "in a sandbox"
        return replace(seen, told=f"{seen.told}, {told}")

    async def _probe_login(self) -> ProbeResult:
        told = _get_first_line(await self._run_probe("--version")) or "does not tell its version"
        if not self.login:
            return ProbeResult(state="unknown", told=told)
        login = await self._run_probe(*self.login)
        if login is None or login.timed_out:
            return ProbeResult(state="unknown", told=told)
        if login.exit_code:
            remedy = create_failure("not_logged_in", reader=self.reader).hint.partition(",")[0]
            return ProbeResult(state="logged_out", told=f"{told}, not logged in", remedy=remedy)
        return ProbeResult(state="ok", told=told)

    async def _get_version(self) -> str:
        """Return what it tells of its version; a file of a program is asked once."""
        file = self._locate_program()
        if file is None:
            return ""
        if file not in self._versions:
            self._versions[file] = _get_first_line(await self._run_probe("--version"))[:_SHORT]
        return self._versions[file]

    def _locate_program(self) -> tuple[str, int] | None:
        path = shutil.which(self.command[0], path=self._build_environment().get("PATH"))
        try:
            return (path, Path(path).stat().st_mtime_ns) if path else None
        except OSError:
            return None

    async def _run_probe(self, *arguments: str) -> CompletedProcess | None:
        with temporary_folder("debate") as folder:
            try:
                return await run(self._build_spec((self.command[0], *arguments), str(folder)), timeout=_LOOK)
            except (ProcessError, OSError):
                return None

    def _build_spec(self, command: tuple[str, ...], folder: str) -> ProcessSpec:
        return ProcessSpec(argv=command, env=self._build_environment(), cwd=folder)

    def _build_environment(self) -> dict[str, str]:
        passed = self._collect_variables((*_PASSED, *self.where, *self.passes))
        home = self.environ.get("HOME", "/")
        return {**build_base_environment(self.environ, home), **_QUIET, **passed, **self.sets}

    def _collect_variables(self, names: Iterable[str]) -> dict[str, str]:
        return {name: self.environ[name] for name in names if name in self.environ}


class _OutputWatcher:
    """Listens to one program, and ends it when it takes too long or is silent for too long."""

    def __init__(self, line: CliParticipant, time: float, on_progress: OnProgress | None) -> None:
        self._line = line
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._until = self._began + time
        self._out = HeadTailCapture("stdout", MAX_OUTPUT, 0)
        self._err = HeadTailCapture("stderr", 0, _STDERR)
        self._on_progress = on_progress
        self._unread = b""
        self._limit = asyncio.timeout_at(self._compute_deadline())

    async def run(self, start: StartProgram, prompt: str) -> CliOutput:
        """Run it to its end.

        Raises:
            ProcessError, SandboxError: it could not be started.
        """
        code, ended_for = None, ""
        stdin = replace_surrogates(prompt).encode()
        try:
            async with self._limit:
                done = await start(stdin=stdin, timeout=None, limit=2, on_output=self._on_output)
                code = done.exit_code
        except TimeoutError:
            ended_for = "time" if self._limit.when() == self._until else "silence"
        return CliOutput(
            stdout=self._out.get_content().decode(errors="replace"),
            stderr=self._err.get_content().decode(errors="replace"),
            exit_code=code,
            seconds=self._loop.time() - self._began,
            ended_for=ended_for,
            dropped=self._out.dropped,
        )

    def _on_output(self, stream: Stream, data: bytes) -> None:
        (self._out if stream == "stdout" else self._err).data_received(data)
        if not self._limit.expired():
            self._limit.reschedule(self._compute_deadline())
        if stream == "stdout" and self._on_progress:
            self._report_progress(data)

    def _compute_deadline(self) -> float:
        silence = self._line.silence
        return self._until if silence is None else min(self._until, self._loop.time() + silence)

    def _report_progress(self, data: bytes) -> None:
        *lines, rest = (self._unread + data).split(b"\n")
        self._unread = rest[-_LINE:]
        for line in lines:
            told = (
                parse_progress(self._line.reader, line.decode(errors="replace")) if len(line) < _LINE else ""
            )
            if told and self._on_progress:
                self._on_progress(told)


_LINE = 64 * 1024
"""Bytes of a line beyond which it is not looked at for progress."""


def _get_first_line(done: CompletedProcess | None) -> str:
    """Return the first line of what a program printed, if it ended well."""
    if done is None or done.exit_code:
        return ""
    return done.stdout.decode(errors="replace").strip().partition("\n")[0]


def _redact_secrets(reply: Reply, environ: Mapping[str, str]) -> Reply:
    """Return the reply with what looks like a key hidden in what the program told of itself."""
    if not reply.stderr_tail and isinstance(reply, Answer):
        return reply
    from kakite.redaction import build_redaction  # loads all of the host, for a second

    hide = build_redaction(environ).redact
    reply = replace(reply, stderr_tail=hide(reply.stderr_tail))
    return reply if isinstance(reply, Answer) else replace(reply, message=hide(reply.message))


def _convert_start_error(error: ProcessError, reader: OutputFormat) -> ParticipantFailure:
    if error.code not in {"program_missing", "not_executable"}:
        return create_failure("broken", error.message, reader)
    return replace(create_failure("not_installed", reader=reader), message=error.message)


def create_codex(
    environ: Mapping[str, str], command: tuple[str, ...] = (), arguments: tuple[str, ...] = ()
) -> CliParticipant:
    """Return OpenAI's Codex as it is installed, logged in as the person is.

    ``command`` stands in place of our line, with all that makes it safe; ``arguments`` are added to ours.
    """
    return CliParticipant(
        side=ParticipantInfo(name="codex", aliases=("openai", "chatgpt", "gpt")),
        command=command or (*_CODEX, *arguments, "-"),
        reader="codex",
        where=("CODEX_HOME",),
        access=None if command else create_codex_access(environ),
        silence=DEFAULT_IDLE_TIMEOUT,
        login=("login", "status"),
        has_version=not command,
        environ=environ,
    )


def create_claude(
    environ: Mapping[str, str], command: tuple[str, ...] = (), arguments: tuple[str, ...] = ()
) -> CliParticipant:
    """Return Anthropic's Claude Code as it is installed; the rest is as for ``codex``."""
    return CliParticipant(
        side=ParticipantInfo(name="claude", aliases=("anthropic", "claudecode")),
        command=command or (*_CLAUDE, *arguments),
        reader="claude",
        where=("CLAUDE_CONFIG_DIR",),
        access=None if command else create_claude_access(environ),
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
    # By this one it reads a picture anywhere, its sandbox or not, and sends it to the model.
    *("--disable", "view_image"),
    # What a login may bring along: a mailbox, a browser, the screen.
    *("--disable", "apps", "--disable", "plugins", "--disable", "tool_suggest"),
    *("--disable", "browser_use", "--disable", "computer_use", "--disable", "image_generation"),
    *("--config", 'web_search="disabled"'),
)
_CLAUDE = (
    *("claude", "-p", "--output-format", "json"),
    *("--tools", "", "--strict-mcp-config", "--setting-sources", "", "--no-session-persistence"),
    *("--system-prompt", "You take part in a discussion. You answer in text."),
)


_MARGIN = 15.0
"""Seconds that a runner gets beyond the participant's, to end it and to tell."""
_RUNNER_PROBE_TIMEOUT = 15.0
"""Seconds for a runner to look at its program."""
_MAX_PROBE_TEXT = 200
_CODES: Mapping[int, FailureCode] = {
    404: "unreachable",
    421: "unreachable",
    503: "http_error",  # it may have a place for us in the next round
    504: "timed_out",
}


def encode_reply(reply: Reply) -> dict[str, object]:
    """Return a reply as the runner sends it."""
    return cast("dict[str, object]", replace_surrogates_in_json(json.loads(json.dumps(asdict(reply)))))


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteParticipant:
    """Asks a runner."""

    side: ParticipantInfo
    url: str
    """The address of the participant there, such as ``http://host.docker.internal:9001/codex``."""
    token: str = field(repr=False)
    time: float = DEFAULT_TIMEOUT
    """Seconds in all; the runner has its own limit as well."""

    async def ask(
        self,
        prompt: str,
        *,
        seconds: float | None = None,
        on_progress: OnProgress | None = None,  # noqa: ARG002 - a runner tells none
        files: FileSnapshot | None = None,
    ) -> Reply:
        """Ask it once; the connection ends with us, which ends the program there."""
        import httpx2

        prompt = files.add_text(prompt) if files else prompt

        time = self.time if seconds is None else min(self.time, seconds)
        if time <= 0:
            return create_failure("timed_out", "the budget's time is used up")
        try:
            async with self._open_client(time + _MARGIN) as client:
                body: dict[str, object] = {"prompt": prompt, "history": [], "seconds": time}
                response = await client.post(self.url, json=body)
        except httpx2.TimeoutException:
            return create_failure("timed_out", f"after {time:.0f} s")
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            return create_failure("unreachable", f"{self.url}: {error}")
        return _read(response.status_code, response.content)

    async def probe(self) -> ProbeResult:
        """Look whether somebody answers at the address, and what a runner of ours says of the participant."""
        import httpx2

        try:
            async with self._open_client(_RUNNER_PROBE_TIMEOUT) as client:
                response = await client.get(self.url)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            remedy = "start `kakite debate runner` on the host"
            return ProbeResult(state="missing", told=f"{self.url}: {error}", remedy=remedy)
        if response.status_code in {401, 403}:
            told = f"{self.url}: the runner refuses the token"
            return ProbeResult(
                state="logged_out", told=told, remedy="set KAKITE_DEBATE_TOKEN to the runner's token"
            )
        return _parse_probe(response.content, self.url)

    def _open_client(self, seconds: float) -> httpx2.AsyncClient:
        import httpx2

        return httpx2.AsyncClient(
            timeout=seconds,
            trust_env=False,  # it is on this machine: a proxy of the network has no part in it
            headers={"Authorization": f"Bearer {self.token}"},
        )


def _read(status: int, content: bytes) -> Reply:
    try:
        body: object = json.loads(content)
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, Mapping):
        return create_failure("unreachable", f"no runner answers there (HTTP {status})")
    told = cast("Mapping[str, object]", body)
    if reply := _decode_reply(told.get("reply")):
        return reply
    if status in {401, 403}:
        return create_failure("unreachable", "the runner refuses the token")
    if status != 200:
        return create_failure(_CODES.get(status, "exited"), str(told.get("error", "")))
    output = told.get("output")
    return (
        read_block(output) if isinstance(output, str) and output.strip() else create_failure("empty_answer")
    )


def _parse_probe(content: bytes, url: str) -> ProbeResult:
    try:
        seen = _get_probe_adapter().validate_json(content)
    except (ValueError, RecursionError):
        return ProbeResult(state="unknown", told=url)
    return replace(seen, told=f"{seen.told[:_MAX_PROBE_TEXT]} ({url})", remedy=seen.remedy[:_MAX_PROBE_TEXT])


def _decode_reply(value: object) -> Reply | None:
    if not isinstance(value, Mapping):
        return None
    try:
        return _get_reply_adapter().validate_python(replace_surrogates_in_json(cast("object", value)))
    except ValueError:
        return None


@cache
def _get_reply_adapter() -> TypeAdapter[Answer | ParticipantFailure]:
    from pydantic import TypeAdapter

    return TypeAdapter(Answer | ParticipantFailure)


@cache
def _get_probe_adapter() -> TypeAdapter[ProbeResult]:
    from pydantic import TypeAdapter

    return TypeAdapter(ProbeResult)
