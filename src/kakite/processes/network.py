"""What programs are told of the network that they have, by their environment."""

from __future__ import annotations

from typing import Literal

Network = Literal["off", "registries", "open"]
"""What programs may reach besides their own loopback: nothing, the registries of packages, or every public
address. The last two by a proxy of ours on the host, which HTTP, HTTPS and what honours a proxy can use."""

NETWORK = "KAKITE_NETWORK"
"""The variable with the name of the network."""
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


def proxy_environment(network: Network) -> dict[str, str]:
    """Return the variables that tell programs which network they have.

    With one, where our proxy is; without, that well-known tools fail at once instead of trying for minutes. A
    host that is refused stays refused, so that they try little also where there is a network.
    """
    told: dict[str, str] = {NETWORK: network, **_QUIET, **_SOON}
    if network == "off":
        # Go would go round its proxy and look for each module's own host.
        return told | dict.fromkeys(_RETRIES, "0") | {"GOPROXY": "off"}
    return told | _PROXY | dict.fromkeys(_RETRIES, "1")
