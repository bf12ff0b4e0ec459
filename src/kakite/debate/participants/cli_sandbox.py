"""Runs a participant's program in a sandbox: of the person's, its login is there and nothing else.

What it sees is the system, itself, a home of its own that goes with it, and the files of the debate, if there
are any, which it can only read. It reaches the hosts of its provider and no other, by the sandbox's proxy.

Its login is copied into that home. Providers renew a login and refuse the one before, so what the program has
renewed is put back, unless the person's file has changed meanwhile.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from kakite import state_files
from kakite.processes import CompletedProcess
from kakite.sandbox.base import build_kakite_argv

if TYPE_CHECKING:
    from kakite.processes import OnOutput, ProcessSpec
    from kakite.sandbox.spec import SandboxSpec

_LOGIN_SIZE = 1 << 20
"""Bytes of a file with a login, at most."""
_HEAD = 256
"""Bytes of a script in which its interpreter is named."""
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/nix/store", "/gnu/store")
"""What a program sees in the sandbox anyway, at the same place."""
_PROGRAMS = "/workspace/programs"
_CERTIFICATES = "/workspace/certificates"
SERVER = "files"
"""The name of the server that reads them."""
FILES = "/workspace/files"
"""Where the files of the debate are."""
_CERTIFICATE_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS")
_URL = re.compile(r"https?://(?:[^\s/?#\"'@]*@)?(\[[^\s\]]+\]|[^\s/?#\"'@:]+)(:\d+)?")
_MEMORY = 8 << 30
_DISK = 2 << 30


class StartProgram(Protocol):
    """Starts a program that is known already, as ``processes.run`` does."""

    def __call__(
        self, *, stdin: bytes, timeout: float | None, limit: int, on_output: OnOutput | None
    ) -> Awaitable[CompletedProcess]:
        """Run it to its end."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramPlace:
    """Where a program runs, and how it is started there."""

    folder: str
    """The empty folder that it starts in, as it sees it."""
    run: StartProgram
    """Starts it, gives it its input, and waits for its end."""
    build_spec: Callable[[], ProcessSpec]
    """Tells how to start it over plain pipes, for one that is spoken with."""
    allow_network: Callable[[], AbstractContextManager[None]] = nullcontext
    """Lets what was started over pipes reach its provider, for as long as this is entered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CliAccess:
    """What a program needs in its sandbox to be able to answer."""

    hosts: tuple[str, ...] = ()
    """Those of its provider, each as ``name``, ``*.name`` or ``name:port``."""
    login: Mapping[str, Path] = field(default_factory=dict[str, Path], repr=False)
    """The files of its login, by their paths in its home inside."""
    client: Literal["", "codex", "claude"] = ""
    """The program as an MCP client, if it can be given a server by its arguments."""

    def build_file_tools(self) -> tuple[tuple[str, ...], Mapping[str, str]]:
        """Return the arguments and variables by which it has tools that read the files of the debate."""
        command, *words = build_kakite_argv(sys.executable)
        args = [*words, "serve", "--root", FILES, "--read-only", "--tools", "editor,files,search"]
        if self.client == "claude":
            servers = {"mcpServers": {SERVER: {"command": command, "args": args}}}
            flags = ("--mcp-config", json.dumps(servers), "--allowedTools", f"mcp__{SERVER}")
            # By itself it asks its model before the server is there, and lets that search for the tools.
            waits = {"MCP_CONNECTION_NONBLOCKING": "0", "MCP_TIMEOUT": "60000", "ENABLE_TOOL_SEARCH": "false"}
            return flags, waits
        settings = {
            "command": command,
            "args": args,
            "required": True,
            "startup_timeout_sec": 60,
            "default_tools_approval_mode": "approve",
        }
        given = (f"mcp_servers.{SERVER}.{name}={json.dumps(value)}" for name, value in settings.items())
        return tuple(word for each in given for word in ("--config", each)), {}


def create_codex_access(environ: Mapping[str, str]) -> CliAccess:
    """Return what OpenAI's Codex needs, with a subscription or a key."""
    folder = _get_folder(environ, "CODEX_HOME", ".codex")
    hosts = ("chatgpt.com", "api.openai.com", "auth.openai.com")
    return CliAccess(hosts=hosts, login={".codex/auth.json": folder / "auth.json"}, client="codex")


def create_claude_access(environ: Mapping[str, str]) -> CliAccess:
    """Return what Anthropic's Claude Code needs."""
    folder = _get_folder(environ, "CLAUDE_CONFIG_DIR", ".claude")
    hosts = ("api.anthropic.com", "console.anthropic.com", "platform.claude.com", "claude.ai")
    login = {".claude/.credentials.json": folder / ".credentials.json"}
    return CliAccess(hosts=hosts, login=login, client="claude")


def _get_folder(environ: Mapping[str, str], variable: str, usual: str) -> Path:
    return Path(environ.get(variable) or Path(environ.get("HOME", "/")) / usual)


@dataclass(frozen=True, slots=True, kw_only=True)
class CliSandbox:
    """The sandbox of one program."""

    access: CliAccess
    environ: Mapping[str, str] = field(repr=False)
    """The person's environment."""

    @asynccontextmanager
    async def open(
        self, folder: Path, command: tuple[str, ...], env: Mapping[str, str], files: Path | None = None
    ) -> AsyncGenerator[ProgramPlace]:
        """Make it in an empty folder, and yield how the command is started in it.

        ``env`` is added to the minimal environment; ``files`` is shown at ``FILES``.

        Raises:
            SandboxError: it cannot be made here.
            OSError: the login cannot be read.
        """
        from kakite.sandbox.backends.bubblewrap import BubblewrapSandbox

        argv, mounts, search = locate_program(command, self.environ.get("PATH", ""))
        mounts, variables = {**mounts, **({FILES: files} if files else {})}, dict(env)
        for name, path in self._find_certificates():
            mounts[f"{_CERTIFICATES}/{name}"] = path
            variables[name] = f"{_CERTIFICATES}/{name}"
        # Nothing that it needs is on its own loopback: an address there is the person's.
        variables |= {"NO_PROXY": "", "no_proxy": ""}
        hosts = (*self.access.hosts, *find_hosts((*command, *env.values())))
        sandbox = BubblewrapSandbox(
            folder / "sandbox", self.environ, _build_spec(hosts, mounts, self.environ)
        )
        home = folder / "sandbox" / "home"
        try:
            await sandbox.prepare()
            given = self._put_login(home)
            variables["PATH"] = os.pathsep.join((*search, *_list_system_folders(self.environ)))
            try:
                yield ProgramPlace(
                    folder=sandbox.project,
                    run=partial(sandbox.exec, argv, env=variables),
                    build_spec=partial(sandbox.build_process_spec, argv, env=variables),
                    allow_network=sandbox.allow_network,
                )
            finally:
                self._take_login(home, given)
        finally:
            await sandbox.destroy()

    def _find_certificates(self) -> Iterator[tuple[str, Path]]:
        for name in _CERTIFICATE_VARIABLES:
            path = Path(self.environ.get(name, ""))
            if path.is_absolute() and path.exists():
                yield name, path.resolve()

    def _put_login(self, home: Path) -> dict[str, bytes]:
        """Copy the login into the home, and return what was copied."""
        given: dict[str, bytes] = {}
        for inside, source in self.access.login.items():
            if data := state_files.read(source.resolve(), _LOGIN_SIZE):
                (home / inside).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                (home / inside).write_bytes(data)
                (home / inside).chmod(0o600)
                given[inside] = data
        return given

    def _take_login(self, home: Path, given: Mapping[str, bytes]) -> None:
        """Put back what the program has renewed, if it is whole and nobody else has renewed it."""
        for inside, before in given.items():
            source = self.access.login[inside].resolve()
            with suppress(OSError, ValueError, RecursionError):
                now = state_files.read(_below(home, inside), _LOGIN_SIZE)
                renewed = now and now != before and isinstance(json.loads(now), dict)
                if now and renewed and state_files.read(source, _LOGIN_SIZE) == before:
                    state_files.replace(source, now)


def _below(home: Path, inside: str) -> Path:
    """Return the path of a file of the home; a link on the way to it is none of ours.

    Raises:
        OSError: there is one.
    """
    path = home / inside
    if path.parent.resolve() != home.resolve() / Path(inside).parent:
        raise OSError("a link leads elsewhere")
    return path


def _build_spec(hosts: Iterable[str], mounts: Mapping[str, Path], environ: Mapping[str, str]) -> SandboxSpec:
    from kakite.sandbox.egress.proxy import SERVICE, EgressProxy
    from kakite.sandbox.spec import ResourceLimits, SandboxSpec

    return SandboxSpec(
        limits=ResourceLimits(memory=_MEMORY, disk=_DISK),
        network="registries",
        services={SERVICE: EgressProxy(hosts, environ=environ, registries=False)},
        mounts=mounts,
    )


def _list_system_folders(environ: Mapping[str, str]) -> list[str]:
    """Return the folders of the person's ``PATH`` that are there inside; the others tell about the person."""
    folders = environ.get("PATH", os.defpath).split(os.pathsep)
    return [each for each in folders if any(Path(each).is_relative_to(top) for top in _SYSTEM)] or [
        "/usr/bin"
    ]


def find_hosts(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the hosts of the addresses that these texts have: the person's own words name a provider."""
    from kakite.sandbox.egress.policy import read_target

    found = (match[1] + (match[2] or "") for text in texts for match in _URL.finditer(text))
    return tuple(host for host in dict.fromkeys(found) if read_target(host, None))


def locate_program(
    command: tuple[str, ...], path: str
) -> tuple[tuple[str, ...], dict[str, Path], tuple[str, ...]]:
    """Return how to start a command in the sandbox, what has to be shown for that, and where else to search.

    A program of npm is shown with the packages beside it, any other one alone; a script with the program that
    interprets it. What lies in the system's folders is there anyway.
    """
    found = shutil.which(command[0], path=path)
    if found is None:
        return command, {}, ()
    real = Path(found).resolve()
    mounts: dict[str, Path] = {}
    inside = _show(real, mounts)
    words = _read_interpreter(real)
    if not words:
        return (inside, *command[1:]), mounts, ()
    interpreter = shutil.which(words[0], path=path)
    if interpreter is None:
        return (inside, *command[1:]), mounts, ()
    shown = _show(Path(interpreter).resolve(), mounts)
    return (shown, *words[1:], inside, *command[1:]), mounts, (str(Path(shown).parent),)


def _show(real: Path, mounts: dict[str, Path]) -> str:
    """Return the path inside of a program's file, and add what it takes that it is there."""
    if any(real.is_relative_to(folder) for folder in _SYSTEM):
        return str(real)
    if "node_modules" in real.parts[:-1]:
        place = real.parts.index("node_modules") + 1
        top = Path(*real.parts[:place])
        inside = f"{_PROGRAMS}/{len(mounts)}/node_modules"
        mounts[inside] = top
        return f"{inside}/{real.relative_to(top)}"
    inside = f"{_PROGRAMS}/{len(mounts)}/{real.name}"
    mounts[inside] = real
    return inside


def _read_interpreter(program: Path) -> tuple[str, ...]:
    """Return the words with which a script says what interprets it; none for what is no script."""
    with suppress(OSError), program.open("rb") as file:
        head = file.read(_HEAD)
        if head.startswith(b"#!"):
            words = shlex.split(head[2:].partition(b"\n")[0].decode(errors="replace"))
            is_env = bool(words) and Path(words[0]).name == "env"
            return tuple(word for word in words[1:] if word != "-S") if is_env else tuple(words)
    return ()
