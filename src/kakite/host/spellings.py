"""What each key of an entry is called: our word, and the words of others."""

from __future__ import annotations

from collections.abc import Mapping

SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "command": (),
    "args": (),
    "env": ("environment",),
    "env_vars": (),
    "cwd": (),
    "url": ("serverUrl", "httpUrl"),
    "headers": ("http_headers",),
    "env_http_headers": (),
    "bearerToken": ("bearer_token",),
    "bearerTokenEnv": ("bearer_token_env_var", "bearerTokenEnvVar"),
    "insecure": (),
    "oauth": (),
    "type": ("transport",),
    "autoApprove": ("alwaysAllow",),
    "rules": (),
    "disabled": (),
    "enabled": (),
    "lifecycle": (),
    "idleTimeout": ("idleTimeoutMs", "idle_timeout_ms"),
    "timeouts": (),
    "timeout": (
        *("timeout_ms", "timeoutMs", "requestTimeoutMs", "request_timeout_ms"),
        *("tool_timeout_sec", "tool_timeout_ms"),
    ),
    "startTimeout": ("startup_timeout_sec", "startup_timeout_ms"),
    "toolTimeouts": (),
    "include": ("includeTools", "enabled_tools", "enabledTools", "allowedTools"),
    "exclude": ("excludeTools", "disabled_tools", "disabledTools", "excludedTools"),
    "trusted": (),
    "protocolVersion": ("protocol",),
}
"""Our word for each key, and what others call it. ``docs/host-config.md`` has the same table."""

OAUTH: Mapping[str, tuple[str, ...]] = {
    "id": ("clientId", "client_id"),
    "secret": ("clientSecret", "client_secret"),
    "issuer": (),
    "metadataUrl": ("clientMetadataUrl", "metadata_url"),
}
"""The texts below ``oauth``, and what others call them. ``docs/host-login.md`` has the same table."""
PORT = ("port", "callbackPort")
OAUTH_KEYS = {*PORT, *(spelling for ours, others in OAUTH.items() for spelling in (ours, *others))}

KEYS = tuple(spelling for ours, others in SPELLINGS.items() for spelling in (ours, *others))
REMARKS = frozenset(
    ("description", "note", "notes", "comment", "comments", "title", "icon", "version", "name")
)
"""Keys that are for readers."""
