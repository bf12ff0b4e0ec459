"""How a program inside comes by its network: what it is told, what carries its connections, who lets them.

A kind of sandbox that isolates does three things with these: it takes its terms ``with_proxy``, starts
programs ``forwarded`` with the ``proxy_environment``, and holds the network ``opened`` only as long as one
runs that has it.
"""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from kakite.processes import Network, proxy_environment
from kakite.sandbox.inside import forward
from kakite.sandbox.proxy import SERVICE, Proxy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kakite.sandbox.terms import Terms

__all__ = ["Network", "forwarded", "opened", "proxy_environment", "with_proxy"]


def with_proxy(terms: Terms, environ: Mapping[str, str] | None = None) -> Terms:
    """Return the terms with the service through which programs reach what their network allows.

    ``environ`` is where a proxy of the machine's own is named: this process's environment unless given. Terms
    that have such a service keep it.

    Raises:
        UsageError: one of the hosts in the terms is none, code ``bad_host``.
    """
    if SERVICE in terms.services:
        return terms
    proxy = Proxy(terms.hosts, environ=os.environ if environ is None else environ)
    return replace(terms, services={**terms.services, SERVICE: proxy})


def opened(terms: Terms, network: Network) -> AbstractContextManager[None]:
    """Let programs reach what this network allows, for as long as this is entered."""
    proxy = terms.services.get(SERVICE)
    return proxy.opened(network) if isinstance(proxy, Proxy) else nullcontext()


def forwarded(argv: tuple[str, ...], socket: str, *, python: str = sys.executable) -> tuple[str, ...]:
    """Return the words that start a program with our proxy on its loopback, where it has one of its own.

    ``socket`` is the path inside of the proxy's service, ``python`` the interpreter inside. The program is
    not started below another one: its exit code and its signals are its own.
    """
    return (python, "-I", "-S", forward.__file__, socket, "--", *argv)
