"""Connects a sandbox to the proxy: the service, the variables, and the program that forwards to it.

A sandbox that isolates does three things with these: it adds the service to its spec by
``add_proxy_service``, starts programs by ``build_forward_argv`` with the variables of
``build_proxy_environment``, and enters ``open_network`` only as long as a program runs that has the network.
"""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from kakite.processes import Network, build_proxy_environment
from kakite.sandbox.egress.proxy import SERVICE, EgressProxy
from kakite.sandbox.inside import proxy_forward

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kakite.sandbox.spec import SandboxSpec

__all__ = ["Network", "add_proxy_service", "build_forward_argv", "build_proxy_environment", "open_network"]


def add_proxy_service(terms: SandboxSpec, environ: Mapping[str, str] | None = None) -> SandboxSpec:
    """Return the spec with the service through which programs reach what their network allows.

    ``environ`` is where a proxy of the machine's own is named: this process's environment unless given. A
    spec that have such a service keep it.

    Raises:
        UsageError: one of the hosts in the spec is none, code ``bad_host``.
    """
    if SERVICE in terms.services:
        return terms
    proxy = EgressProxy(terms.hosts, environ=os.environ if environ is None else environ)
    return replace(terms, services={**terms.services, SERVICE: proxy})


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
