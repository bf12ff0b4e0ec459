"""Describes a sandbox: its limits, its network, and the services of the host that it may use."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kakite.processes import Network

__all__ = ["AskHost", "Network", "ResourceLimits", "SandboxSpec", "Service"]

Service = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""Serves one connection from inside, on the host, to its end. A failure of it ends that connection alone."""

AskHost = Callable[[str], Awaitable[bool | None]]
"""Asks the person whether programs may reach a host, ``name:port``. None: there is no answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceLimits:
    """The limits of all programs of a task together. A result names the limit that was reached."""

    memory: int = 4 << 30
    """Bytes."""
    cpus: float = 0.0
    """Processors; 0 for all that there are."""
    processes: int = 512
    """Processes and threads."""
    disk: int = 10 << 30
    """Bytes that the task's folders may hold, and that one file may have."""
    files: int = 1_000_000
    """Files and folders in the task's folders."""
    open_files: int = 4096
    """Of one program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSpec:
    """The specification of a sandbox."""

    limits: ResourceLimits = ResourceLimits()
    network: Network = "off"
    """What programs may reach, unless one is started with another."""
    hosts: tuple[str, ...] = ()
    """Hosts that ``registries`` allows besides the usual ones: a name, or ``*.name`` for all below it."""
    credentials: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """The hosts that each secret is for, by the name of the variable that holds it here. Programs get a
    sentinel in its place."""
    requests: tuple[str, ...] = ()
    """What may be asked of some hosts, over TLS: ``GET,POST host/path``."""
    ask_host: AskHost | None = None
    """Asks about a host that the network leaves out, while a program waits; None: it is refused."""
    services: Mapping[str, Service] = field(default_factory=dict[str, Service])
    """By name: lower-case letters, digits and dashes."""
    cache: str = ""
    """What the caches of package managers are kept for, over tasks: any text that names the project. Without
    one they end with the sandbox. Only the container kind has such caches."""
    checkout: Path | None = None
    """The person's own checkout of the project, where it is on this machine: programs of ``local`` import the
    task's modules where an editable install would import those of the checkout."""
    mounts: Mapping[str, Path] = field(default_factory=dict[str, Path])
    """Files and folders of the host that programs can read, by their absolute paths inside, all of them
    below ``/workspace``. Only the bubblewrap kind has them."""
    shown: tuple[Path, ...] = ()
    """Files and folders of the host that programs can read where they are. Only in the bubblewrap kind."""
    at_own_path: bool = False
    """Whether programs see the person's folder, where they work in that, at its own path. Only in the
    bubblewrap kind."""
