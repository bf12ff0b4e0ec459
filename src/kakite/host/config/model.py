"""Defines the entry of one MCP server in a configuration. Nothing in it is expanded or trusted yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from kakite.host.policy.rules import Rule
from kakite.tools.toolset import JsonObject

Scope = Literal["user", "project"]
"""Who wrote it: the person, or whoever made the project's folder."""

Lifecycle = Literal["lazy", "eager", "keep-alive"]
"""Started when first needed, with the host, or with the host and restarted whenever it ends."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class SourceLocation:
    """The place of an entry in a file."""

    file: str
    line: int
    """1-based: the line of the server's name."""
    scope: Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSandbox:
    """The sandbox that a server is started in, and what it is given there besides its own program."""

    read: tuple[str, ...] = ()
    """Folders and files that it can read, relative to the project."""
    write: str = ""
    """The folder that it can write; empty: none."""
    hosts: tuple[str, ...] = ()
    """What it reaches: ``name``, ``*.name`` or ``name:port``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StdioServer:
    """A server that is started, and spoken to over its standard streams.

    Its ``repr`` shows none of it: once variables are expanded, each part may hold a secret.
    """

    command: str = field(repr=False)
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Variables besides the minimal environment."""
    cwd: str = field(default="", repr=False)
    """Empty: the folder of the project."""
    sandbox: ServerSandbox | None = None
    """None: it runs with all that the person may do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthClient:
    """A client that is already registered with a server's authorization server."""

    id: str = ""
    """Empty: we register, or are known by ``metadata_url``."""
    secret: str = field(default="", repr=False)
    issuer: str = ""
    """Who gave the two; empty: whoever the server names first. Nobody else is ever shown the secret."""
    metadata_url: str = ""
    """Where our description lies (a client ID metadata document); used where the server knows of such."""
    port: int = 0
    """Of the page on loopback where the browser comes back; 0: any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpServer:
    """A server that runs elsewhere, and is spoken to over HTTP. Its ``repr`` shows no address or header."""

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    sse: bool = False
    """Whether it speaks the old transport of two addresses."""
    oauth: OAuthClient = field(default_factory=OAuthClient)
    """For a server that asks to log in. Not used where ``headers`` say who we are."""
    insecure: bool = False
    """Whether plain HTTP may be spoken to another machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """The times that Kakite waits for a server, in seconds. A person's thinking never counts."""

    start: float = 10.0
    """From its start until its tools are listed."""
    idle: float = 60.0
    """Of a call without a sign of life; progress starts it again."""
    total: float = 1800.0
    """Of a call, whatever it reports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerEntry:
    """One server of a configuration, as written: variables are not expanded."""

    name: str
    reached: StdioServer | HttpServer
    origin: SourceLocation = field(compare=False)
    raw: JsonObject = field(default_factory=dict, repr=False, compare=False)
    """The entry as its file has it: what consent is given to."""
    auto_approve: bool | tuple[str, ...] = False
    """Whether its calls go without a question: all, or those of the tools that these globs name."""
    rules: tuple[Rule, ...] = ()
    """What else is decided about its calls."""
    disabled: bool = False
    lifecycle: Lifecycle = "lazy"
    idle_stop: float = 600.0
    """Seconds without a call after which a lazy server is stopped; 0: never."""
    timeouts: Timeouts = field(default_factory=Timeouts)
    tool_timeouts: Mapping[str, Timeouts] = field(default_factory=dict[str, Timeouts])
    """For the tools of these names."""
    include: tuple[str, ...] = ("*",)
    """Globs over the server's own tool names: which are offered."""
    exclude: tuple[str, ...] = ()
    trusted: bool = False
    """Whether what it says of its tools' effects is believed. Only the person's own files can say so."""
    protocol: str = "auto"
    """``auto``, ``legacy``, or a version of the protocol."""
    secrets: frozenset[str] = field(default=frozenset(), repr=False, compare=False)
    """Once expanded: values that stand in for variables, to be blanked out of whatever is told."""
