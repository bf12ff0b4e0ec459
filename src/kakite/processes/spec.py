"""Describes the start of a program: arguments, whole environment, folder, and its proxy variables."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from kakite.errors import ExternalError
from kakite.processes import remote_command

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kakite.processes.spawn_server import DelegatedSpawn


_KEPT = frozenset(
    (
        *("PATH", "LANG", "LANGUAGE", "TERM", "TZ", "TMPDIR"),
        # Every category that POSIX and glibc know. Not any LC_…: what merely looks so may hold anything.
        *("LC_ALL", "LC_COLLATE", "LC_CTYPE", "LC_MESSAGES", "LC_MONETARY", "LC_NUMERIC", "LC_TIME"),
        *("LC_ADDRESS", "LC_IDENTIFICATION", "LC_MEASUREMENT", "LC_NAME", "LC_PAPER", "LC_TELEPHONE"),
    )
)
RUN_ENV_VAR = "KAKITE_RUN"
"""The variable that tells a program that Kakite runs it. Meant for programs that want to know; who must be
sure asks ``is_run_by_kakite``, since every program can drop a variable."""
IMPORT_ROOTS = "KAKITE_IMPORT_ROOTS"
"""The variable with the folders that Python is to import a task's own modules from, as in ``PYTHONPATH``."""
COMMANDS = "KAKITE_COMMANDS"
"""The variable with the socket of the service that runs the commands of a task, where they run elsewhere."""
UNTRUSTED_HOME = "KAKITE_UNTRUSTED_HOME"
"""The variable that tells a server of tools that a model's commands can write its home: nothing there is its
settings, or a program that it starts by itself."""
_USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSpec:
    """A program that could be started: everything that this takes, nothing inherited."""

    argv: tuple[str, ...]
    """The program, then its arguments. Never a secret: every user of the machine can read them."""
    env: Mapping[str, str] = field(repr=False)
    """The complete environment of the program."""
    cwd: str
    contained: bool = False
    """True when the program takes all that came of it along when it is killed, and dies with the thread that
    started it, as ``bwrap --die-with-parent`` with a process namespace does. It is then started without our
    supervisor."""
    end: Callable[[], None] | None = field(default=None, repr=False, compare=False)
    """Ends what the program stands for elsewhere, in a container for one, where no signal of ours gets.
    Called when the program is asked to end, and again when it has ended: what it stands for may be left.
    The program itself is not asked then: it carries what the other one still says, and ends after it."""
    by: DelegatedSpawn | None = field(default=None, repr=False, compare=False)
    """Who starts it in place of us; for programs that are contained. ``cwd`` is ``/`` then."""


class ProcessError(ExternalError):
    """A program could not be started.

    Codes: ``program_missing``, ``not_executable``, ``folder_missing``, ``program_failed``.
    """

    code = "program_failed"


def build_base_environment(environ: Mapping[str, str], home: str) -> dict[str, str]:
    """Return the minimal environment for programs that work on a task.

    Only ``PATH``, the language (``LANG``, ``LC_*``), ``TERM``, ``TZ`` and ``TMPDIR`` are taken from
    ``environ``; ``HOME`` is ``home``. No key, token, proxy or agent socket gets through. ``KAKITE_RUN`` is
    set to 1. Where a sandbox has set ``KAKITE_IMPORT_ROOTS``, it is ``PYTHONPATH`` too.
    """
    kept = {name: value for name, value in environ.items() if name in _KEPT}
    roots = build_import_environment(environ.get(IMPORT_ROOTS, ""))
    return {"PATH": _USUAL_PATH, **kept, **roots, "HOME": home, RUN_ENV_VAR: "1"}


def build_command_argv(argv: tuple[str, ...], environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the words that run a command where this task's commands run: themselves, if that is here."""
    if path := environ.get(COMMANDS):
        return (sys.executable, "-I", "-S", remote_command.__file__, path, *argv)
    return argv


def build_import_environment(roots: str) -> dict[str, str]:
    """Return the variables by which Python imports from these folders first; none for an empty text."""
    return {IMPORT_ROOTS: roots, "PYTHONPATH": roots} if roots else {}


Network = Literal["off", "registries", "open"]
"""What programs may reach besides their own loopback: nothing, the registries of packages, or every public
address. The last two by a proxy of ours on the host, which HTTP, HTTPS and what honours a proxy can use."""

NETWORK = "KAKITE_NETWORK"
"""The variable with the name of the network."""
PASSED = "KAKITE_PASSED_VARIABLES"
"""The variable that names further ones, separated by commas, which commands get as the sandbox set them."""
PORT = 3128
"""Where the proxy is, on the loopback of the programs that may use it."""

_ADDRESS = f"http://127.0.0.1:{PORT}"
_OWN = ("localhost", "127.0.0.1", "::1")
_JAVA = " ".join(
    (
        *(f"-D{scheme}.proxyHost=127.0.0.1 -D{scheme}.proxyPort={PORT}" for scheme in ("http", "https")),
        "-Dhttp.nonProxyHosts=localhost|127.0.0.1|[::1]",
        # From Maven 3.9 on, what the two lines above say counts only with this.
        "-Daether.connector.http.useSystemProperties=true",
        "-Daether.transport.apache.useSystemProperties=true",
    )
)
_PROXY = {
    **dict.fromkeys(("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"), _ADDRESS),
    **dict.fromkeys(("no_proxy", "NO_PROXY"), ",".join(_OWN)),
    # Those that do not look at the common names.
    "CARGO_HTTP_PROXY": _ADDRESS,
    "GRADLE_OPTS": _JAVA,
    "MAVEN_OPTS": _JAVA,
    "NODE_USE_ENV_PROXY": "1",
    "YARN_HTTP_PROXY": _ADDRESS,
    "YARN_HTTPS_PROXY": _ADDRESS,
}
_QUIET = {
    # Neither asks on its own account, where that would fail or wait.
    "NPM_CONFIG_UPDATE_NOTIFIER": "false",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
}
_RETRIES = (
    *("BUNDLE_RETRY", "CARGO_NET_RETRY", "CONDA_REMOTE_MAX_RETRIES", "NPM_CONFIG_FETCH_RETRIES"),
    *("POETRY_REQUESTS_MAX_RETRIES", "UV_HTTP_RETRIES", "YARN_HTTP_RETRY"),
)
_SOON = {
    "NPM_CONFIG_FETCH_RETRY_MINTIMEOUT": "500",
    "NPM_CONFIG_FETCH_RETRY_MAXTIMEOUT": "1000",
    # pip tells why it failed only before it tries again.
    "PIP_RETRIES": "1",
}


def get_passed_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the further variables that a sandbox gives to commands."""
    names = environ.get(PASSED, "").split(",")
    return {name: environ[name] for name in names if name and name in environ}


def build_proxy_environment(network: Network) -> dict[str, str]:
    """Return the variables that tell programs which network they have.

    With one, where our proxy is; without, that well-known tools fail at once instead of trying for minutes. A
    host that is refused stays refused, so that they try little also where there is a network.
    """
    told: dict[str, str] = {NETWORK: network, **_QUIET, **_SOON}
    if network == "off":
        # Go would go round its proxy and look for each module's own host.
        return told | dict.fromkeys(_RETRIES, "0") | {"GOPROXY": "off"}
    return told | _PROXY | dict.fromkeys(_RETRIES, "1")
