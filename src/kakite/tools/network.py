"""What a failed command says when it is the network that it misses, and which setting would give it that."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, get_args

from kakite.processes import Network
from kakite.processes.launch import MARK
from kakite.processes.network import NETWORK

if TYPE_CHECKING:
    from collections.abc import Mapping

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


def network_of_run(environ: Mapping[str, str] = os.environ) -> Network | None:
    """Return the network that programs have here; None outside of a sandbox, where nobody told."""
    told = environ.get(NETWORK) if environ.get(MARK) else None
    return next((network for network in get_args(Network) if network == told), None)


def missing_network(network: Network | None, output: bytes) -> str:
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
