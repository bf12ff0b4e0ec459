"""Explains a failed command: the sandbox limit that it ran into, or the network that it lacks.

The hint also names the setting that would change that.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from kakite.processes import Network
from kakite.processes.spec import NETWORK, RUN_ENV_VAR

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kakite.processes import Limit


_COUNTERS: Mapping[Limit, tuple[tuple[str, str], ...]] = {
    "memory": (("memory.events", "oom_kill"), ("memory/memory.oom_control", "oom_kill")),
    "processes": (("pids.events", "max"), ("pids/pids.events", "max")),
}
"""Where the kernel counts how often a limit was run into: in control groups of version 2, and 1."""
_GROUPS = Path("/sys/fs/cgroup")
_TOO_LARGE = 128 + signal.SIGXFSZ
_HINTS: Mapping[Limit, str] = {
    "memory": "programs of this task ran into its limit of memory, and the kernel killed the largest: "
    "do less at a time (fewer workers, smaller pieces)",
    "processes": "programs of this task ran into its limit of processes and threads, and no more began: "
    "run fewer at a time, and stop what runs in the background",
    "disk": "programs of this task ran into its limit of disk: delete what is not needed",
}


def read_limit_counts(environ: Mapping[str, str] = os.environ) -> Mapping[Limit, int]:
    """Return how often each limit of this sandbox was run into so far; nothing outside of one."""
    if not environ.get(RUN_ENV_VAR):
        return {}
    return {limit: sum(_read(*place) for place in places) for limit, places in _COUNTERS.items()}


def find_limit_hit(before: Mapping[Limit, int], exit_code: int | None) -> Limit:
    """Return the limit that was run into since ``before``, by a command that ended so or by one beside it."""
    for limit, times in read_limit_counts().items():
        if times > before.get(limit, 0):
            return limit
    return "disk" if before and exit_code == _TOO_LARGE else ""


def get_limit_hint(limit: Limit) -> str:
    """Return what to do about a limit; nothing if there is nothing to say."""
    return _HINTS.get(limit, "")


def _read(file: str, counter: str) -> int:
    try:
        lines = (_GROUPS / file).read_text("ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        return 0
    pairs = [line.partition(" ") for line in lines]
    return sum(int(value) for name, _, value in pairs if name == counter and value.isdecimal())


_NOBODY_FOUND = (
    # The C library's words, which Python, wget, Ruby, Rust and git hand on, and the codes of Node.
    *(b"temporary failure in name resolution", b"name or service not known", b"name does not resolve"),
    *(b"no address associated with hostname", b"network is unreachable", b"socket.gaierror"),
    *(b"getaddrinfo eai_again", b"getaddrinfo enotfound", b"enetunreach"),
    *(b"could not resolve host", b"unable to resolve host", b"failed to lookup address", b"no such host"),
    b"unknownhostexception",
    # Package managers that keep the reason to themselves.
    *(b"(from versions: none)", b"lookup disabled by goproxy=off", b"could not transfer metadata"),
    *(b"could not transfer artifact", b"could not fetch specs from", b"could not reach host"),
)
_REFUSED = (
    *(b"(kakite: ", b"connect tunnel failed, response 403", b"tunnel connection failed: 403"),
    *(b"http code 403 from proxy", b"proxy response (403)", b"unsuccessful tunnel", b"unable to tunnel"),
)
_WAY_ON = "only the person who runs this task can change that"


def get_run_network(environ: Mapping[str, str] = os.environ) -> Network | None:
    """Return the network that programs have here; None outside of a sandbox, where nobody told."""
    told = environ.get(NETWORK) if environ.get(RUN_ENV_VAR) else None
    return next((network for network in get_args(Network) if network == told), None)


def get_network_hint(network: Network | None, output: bytes) -> str:
    """Return what to know if a failed command's output looks as if it missed the network; else nothing."""
    said = output.lower()
    unfound, refused = (any(sign in said for sign in signs) for signs in (_NOBODY_FOUND, _REFUSED))
    match network:
        case "off" if unfound:
            return (
                "commands here have no network: the setting `network` allows `registries` of packages, "
                f"or `open`; {_WAY_ON}"
            )
        case "registries" if refused or unfound:
            return (
                "commands here reach registries of packages alone, by the proxy in HTTPS_PROXY: the setting "
                f"`hosts` allows another host, `network: open` every public one; {_WAY_ON}"
            )
        case "open" if refused or unfound:
            return (
                "commands here reach public hosts alone, on ports 80 and 443, by the proxy in HTTPS_PROXY: "
                f"the setting `hosts` allows a private one, or another port; {_WAY_ON}"
            )
        case _:
            return ""
