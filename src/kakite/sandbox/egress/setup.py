"""Connects a sandbox to the proxy: the service, the variables, and the program that forwards to it.

A sandbox that isolates does four things with these: it adds the service to its spec by
``add_proxy_service``, lets ``put_trust_store`` write what programs trust, starts them by
``build_forward_argv`` with the variables of ``build_network_environment``, and enters ``open_network`` only
as long as a program runs that has the network.
"""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from kakite.processes import Network, build_proxy_environment
from kakite.processes.spec import PASSED
from kakite.sandbox.base import SandboxError
from kakite.sandbox.egress.credentials import build_inspection
from kakite.sandbox.egress.proxy import SERVICE, EgressProxy
from kakite.sandbox.egress.tls import read_trust_store
from kakite.sandbox.inside import proxy_forward

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from kakite.sandbox.spec import SandboxSpec

__all__ = [
    "Network",
    "add_proxy_service",
    "build_forward_argv",
    "build_network_environment",
    "open_network",
    "put_trust_store",
]

_TRUST_STORE = ".kakite-ca.pem"
"""In the home of the programs inside."""
_TRUSTING = (
    *("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT", "GIT_SSL_CAINFO"),
    *("NODE_EXTRA_CA_CERTS", "CARGO_HTTP_CAINFO", "BUNDLE_SSL_CA_CERT", "AWS_CA_BUNDLE", "DENO_CERT"),
)
"""The variables by which programs are told whose certificates to trust."""


def add_proxy_service(terms: SandboxSpec, environ: Mapping[str, str] | None = None) -> SandboxSpec:
    """Return the spec with the service through which programs reach what their network allows.

    ``environ`` is where a proxy of the machine's own is named: this process's environment unless given. A
    spec that have such a service keep it.

    Raises:
        UsageError: one of the hosts in the spec is none, code ``bad_host``; or its credentials or rules for
            requests are none, codes ``bad_credential``, ``credential_missing`` and ``bad_request_rule``.
    """
    if SERVICE in terms.services:
        return terms
    environ = os.environ if environ is None else environ
    inspection = build_inspection(terms.credentials, terms.requests, environ)
    proxy = EgressProxy(terms.hosts, environ=environ, inspection=inspection, ask_host=terms.ask_host)
    return replace(terms, services={**terms.services, SERVICE: proxy})


def build_network_environment(terms: SandboxSpec, network: Network, home: str) -> dict[str, str]:
    """Return the variables of programs with this network: where the proxy is, whom to trust, and sentinels.

    ``home`` is theirs, inside.
    """
    told = build_proxy_environment(network)
    proxy = terms.services.get(SERVICE)
    if network == "off" or not isinstance(proxy, EgressProxy) or not proxy.authority:
        return told
    added = {**dict.fromkeys(_TRUSTING, f"{home}/{_TRUST_STORE}"), **proxy.inspection.sentinels}
    return told | added | {PASSED: ",".join(added)}


def put_trust_store(terms: SandboxSpec, home: Path) -> None:
    """Write what this machine trusts, and the proxy besides, into the home of programs, here on the host.

    Raises:
        SandboxError: it cannot be written.
    """
    proxy = terms.services.get(SERVICE)
    if not isinstance(proxy, EgressProxy) or not proxy.authority:
        return
    path = home / _TRUST_STORE
    try:
        # No link of a program's is followed: what it put there goes first.
        path.unlink(missing_ok=True)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
        with os.fdopen(fd, "wb") as file:
            file.write(read_trust_store() + b"\n" + proxy.authority.certificate)
    except OSError as error:
        hint = "remove what is there, then start again"
        raise SandboxError(f"`{path}` cannot be written: {error.strerror}", hint=hint) from error


def open_network(terms: SandboxSpec, network: Network) -> AbstractContextManager[None]:
    """Let programs reach what this network allows, for as long as this is entered."""
    proxy = terms.services.get(SERVICE)
    return proxy.open_network(network) if isinstance(proxy, EgressProxy) else nullcontext()


def build_forward_argv(
    argv: tuple[str, ...], socket: str, *, python: str = sys.executable
) -> tuple[str, ...]:
    """Return the words that start a program with our proxy on its loopback, where it has one of its own.

    ``socket`` is the path inside of the proxy's service, ``python`` the interpreter inside. The program is
    not started below another one: its exit code and its signals are its own.
    """
    return (python, "-I", "-S", proxy_forward.__file__, socket, "--", *argv)
