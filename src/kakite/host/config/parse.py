"""Parses one entry of a configuration into a ``ServerEntry``, or into a ``ConfigProblem``.

Keys that other clients use are accepted under their names too.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast, get_args
from urllib.parse import urlsplit

from kakite.errors import UsageError
from kakite.host.config.model import (
    HttpServer,
    Lifecycle,
    OAuthClient,
    Scope,
    ServerEntry,
    ServerSandbox,
    SourceLocation,
    StdioServer,
    Timeouts,
)
from kakite.host.policy.rules import Rule, parse_rule
from kakite.terminal_text import escape_one_line
from kakite.tools.toolset import JsonObject

KEY_ALIASES: Mapping[str, tuple[str, ...]] = {
    "command": (),
    "args": (),
    "env": ("environment",),
    "env_vars": (),
    "cwd": (),
    "sandbox": (),
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

OAUTH_ALIASES: Mapping[str, tuple[str, ...]] = {
    "id": ("clientId", "client_id"),
    "secret": ("clientSecret", "client_secret"),
    "issuer": (),
    "metadataUrl": ("clientMetadataUrl", "metadata_url"),
}
"""The texts below ``oauth``, and what others call them. ``docs/host-login.md`` has the same table."""
SANDBOX_KEYS = ("read", "write", "hosts")
"""The keys below ``sandbox``. ``docs/host-config.md`` has the same table."""
PORT_KEYS = ("port", "callbackPort")
OAUTH_KEYS = {
    *PORT_KEYS,
    *(spelling for ours, others in OAUTH_ALIASES.items() for spelling in (ours, *others)),
}

KEYS = tuple(spelling for ours, others in KEY_ALIASES.items() for spelling in (ours, *others))
LEFT_OUT_KEYS: Mapping[str, tuple[str, str]] = {
    "envFile": (
        "`envFile` is left out: the server starts without the variables of that file",
        'set them yourself, and name them: "env_vars": ["NAME"]',
    ),
    "auth": (
        "`auth` is left out: Kakite logs in by `oauth`",
        'write {"oauth": {"id": "…", "secret": "${NAME}"}} if you registered by hand; see docs/host-login.md',
    ),
    "scopes": ("`scopes` is left out: Kakite asks for those that the server names", "remove it"),
    "trust": ("`trust` is left out: only you decide what runs without asking", "see docs/host-approval.md"),
    "exposure": ("`exposure` is left out: Kakite offers tools by itself", "see `include` and `exclude`"),
    "toolExposure": ("`toolExposure` is left out: Kakite offers tools by itself", "see `include`, `exclude`"),
}
"""Keys of other clients that mean something which we do not do: the warning, and a way on."""
COMMENT_KEYS = frozenset(
    ("description", "note", "notes", "comment", "comments", "title", "icon", "version", "name")
)
"""Keys that are for readers."""


MAX_NAME_CHARS = 128  # characters of a server's name
MAX_SECONDS = 24 * 3600.0
DEFAULT_IDLE_STOP = 600.0
_MILLISECONDS_FROM = 1000  # a bare `timeout` is in seconds below this; nobody waits a quarter of an hour

_STDIO = frozenset(("stdio", "local"))
_HTTP = frozenset(("http", "streamable-http", "streamableHttp", "streamable_http", "remote"))
_SSE = "sse"
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # a header's name: RFC 9110
_VERSION = re.compile(r"auto|legacy|\d{4}-\d{2}-\d{2}")
_MAX_UNKNOWN_KEYS = 20  # keys of one entry; a file may be full of them
VARIABLE_PATTERN = r"[A-Za-z_][A-Za-z0-9_]*"
_EDITOR_VARIABLE = re.compile(r"\$\{(input|command|config):[^}]*\}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigProblem:
    """Something in a file that is not as it should be."""

    file: str
    line: int
    """1-based."""
    message: str
    hint: str
    """A way on."""
    fatal: bool
    """Whether what it speaks of was left out: an entry, or a whole file. Otherwise it is a warning."""

    def __str__(self) -> str:
        """One line for a person."""
        return f"{escape_one_line(self.file)}:{self.line}: {self.message}; {self.hint}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryLocation:
    """The place of an entry, with a way to find the line of a value in it."""

    file: str
    scope: Scope
    line: Callable[[tuple[str | int, ...]], int]
    """For a path inside of the entry; ``()`` is the entry itself."""

    def make_problem(
        self, path: tuple[str | int, ...], message: str, hint: str, *, fatal: bool
    ) -> ConfigProblem:
        """Return a problem at this path of the entry."""
        return ConfigProblem(file=self.file, line=self.line(path), message=message, hint=hint, fatal=fatal)


class _InvalidEntryError(Exception):  # never leaves this module
    """The entry cannot be used."""

    def __init__(self, path: tuple[str | int, ...], message: str, hint: str) -> None:
        super().__init__(message)
        self.path, self.message, self.hint = path, message, hint


def read_entry(
    name: str, raw: object, place: EntryLocation
) -> tuple[ServerEntry | None, tuple[ConfigProblem, ...]]:
    """Return the entry, or None if it cannot be used, and what is wrong with it. Never raises."""
    fields = _EntryParser(name, place)
    try:
        return fields.parse(raw), tuple(fields.warnings)
    except _InvalidEntryError as wrong:
        message = f"server `{escape_one_line(name)}` is left out: {wrong.message}"
        problem = place.make_problem(wrong.path, message, wrong.hint, fatal=True)
        return None, (*fields.warnings, problem)


class _EntryParser:
    """Reads the fields of one entry."""

    def __init__(self, name: str, place: EntryLocation) -> None:
        self.warnings: list[ConfigProblem] = []
        self._name = name
        self._place = place
        self._raw: JsonObject = {}

    def parse(self, raw: object) -> ServerEntry:
        _check_name(self._name)
        if not isinstance(raw, dict):
            raise _InvalidEntryError((), "it is not an object", 'write {"command": …} or {"url": …}')
        self._raw = cast("JsonObject", raw)
        self._warn_unknown_keys()
        return ServerEntry(
            name=self._name,
            reached=self._parse_server(),
            origin=SourceLocation(file=self._place.file, line=self._place.line(()), scope=self._place.scope),
            raw=self._raw,
            auto_approve=self._parse_auto_approve(),
            rules=self._parse_rules(),
            disabled=self._parse_disabled(),
            lifecycle=self._parse_lifecycle(),
            idle_stop=self._parse_seconds("idleTimeout", DEFAULT_IDLE_STOP, 0.0),
            timeouts=self._parse_timeouts(),
            tool_timeouts=self._parse_tool_timeouts(),
            include=self._parse_globs("include", ("*",)),
            exclude=self._parse_globs("exclude", ()),
            trusted=self._parse_trusted(),
            protocol=self._parse_protocol(),
        )

    # What is there

    def _warn_unknown_keys(self) -> None:
        unknown = [key for key in self._raw if key not in KEYS and key not in COMMENT_KEYS]
        told = [key for key in unknown if not key.startswith(("$", "_", "//", "x-", "#"))]
        for key in told[:_MAX_UNKNOWN_KEYS]:
            if key in LEFT_OUT_KEYS:
                self._warn((key,), *LEFT_OUT_KEYS[key])
                continue
            near = difflib.get_close_matches(key[:40], KEYS, n=1)
            hint = f"did you mean `{near[0]}`?" if near else "remove it, or see docs/host.md for what is read"
            self._warn((key,), f"`{escape_one_line(key)}` is not read", hint)

    def _warn(self, path: tuple[str | int, ...], message: str, hint: str) -> None:
        told = f"server `{escape_one_line(self._name)}`: {message}"
        self.warnings.append(self._place.make_problem(path, told, hint, fatal=False))

    def _find(self, ours: str) -> tuple[str, Any]:
        """Return the key as it is spelled, and its value; null is as good as not there."""
        found = [key for key in (ours, *KEY_ALIASES[ours]) if self._raw.get(key) is not None]
        if len(found) > 1:
            both = " and ".join(f"`{key}`" for key in found)
            raise _InvalidEntryError((found[1],), f"{both} say the same thing", f"keep `{found[0]}` only")
        return (found[0], self._raw[found[0]]) if found else (ours, None)

    # Where it is

    def _parse_server(self) -> StdioServer | HttpServer:
        kind_key, kind = self._find("type")
        url_key, url = self._find("url")
        remote = _is_remote(kind_key, kind)
        has_command = self._raw.get("command") is not None
        if has_command and url is not None:
            raise _InvalidEntryError((url_key,), "it has a `command` and an address", "keep one of the two")
        if has_command:
            if remote:
                raise _InvalidEntryError(
                    (kind_key,), f"`{kind_key}` says HTTP, but it has a `command`", 'write "stdio"'
                )
            return self._parse_stdio_server()
        if url is not None:
            if remote is False:
                raise _InvalidEntryError(
                    (kind_key,), f"`{kind_key}` says stdio, but it has an address", 'write "http"'
                )
            if self._raw.get("sandbox"):
                told = "`sandbox` is for a program, and this server runs elsewhere"
                raise _InvalidEntryError(("sandbox",), told, "remove it")
            return self._parse_http_server(url_key, url, sse=kind == _SSE)
        raise _InvalidEntryError(
            (), "it has neither `command` nor `url`", 'add "command": "…" or "url": "https://…"'
        )

    def _parse_stdio_server(self) -> StdioServer:
        command, args = self._raw["command"], self._parse_text_list("args")
        if isinstance(command, list):
            words = self._parse_text_list("command")
            command, args = (words[0] if words else ""), (*words[1:], *args)
        text = self._parse_text(("command",), command)
        if not text.strip():
            raise _InvalidEntryError(("command",), "`command` is empty", "name the program to start")
        if any(blank in text.strip() for blank in " \t") and not args:
            message = "`command` is the name of one program, and this has blanks"
            self._warn(("command",), message, "put what follows the name into `args`")
        _, cwd = self._find("cwd")
        return StdioServer(
            command=text,
            args=args,
            env=self._parse_environment(),
            cwd="" if cwd is None else self._parse_text(("cwd",), cwd),
            sandbox=self._parse_sandbox(),
        )

    def _parse_sandbox(self) -> ServerSandbox | None:
        """Return the sandbox of a server. What is not understood in it is never passed over."""
        given = self._raw.get("sandbox")
        if given is None or isinstance(given, bool):
            return ServerSandbox() if given else None
        if not isinstance(given, dict):
            raise _InvalidEntryError(
                ("sandbox",), "`sandbox` must be true or an object", 'write {"read": ["…"]}'
            )
        found = cast("JsonObject", given)
        for key in found:
            if key not in SANDBOX_KEYS:
                told = f"`sandbox.{escape_one_line(key)}` is not known"
                raise _InvalidEntryError(("sandbox", key), told, f"the keys are {', '.join(SANDBOX_KEYS)}")
        read, hosts = (self._parse_sandbox_list(found, key) for key in ("read", "hosts"))
        write = found.get("write")
        return ServerSandbox(
            read=read,
            write="" if write is None else self._parse_text(("sandbox", "write"), write),
            hosts=self._check_hosts(hosts),
        )

    def _parse_sandbox_list(self, given: JsonObject, key: str) -> tuple[str, ...]:
        value = given.get(key)
        if not isinstance(value, list | None):
            raise _InvalidEntryError(("sandbox", key), f"`sandbox.{key}` must be a list", 'write ["…"]')
        items = enumerate(cast("list[object]", value or []))
        texts = tuple(self._parse_text(("sandbox", key, index), item) for index, item in items)
        if "" in texts:
            raise _InvalidEntryError(("sandbox", key), f"`sandbox.{key}` has an empty text", "remove it")
        return texts

    def _check_hosts(self, hosts: tuple[str, ...]) -> tuple[str, ...]:
        if hosts:
            from kakite.sandbox.egress.policy import build_policy

            try:
                build_policy(hosts)
            except UsageError as error:
                raise _InvalidEntryError(("sandbox", "hosts"), error.message, error.hint) from error
        return hosts

    def _parse_environment(self) -> dict[str, str]:
        key, env = self._find("env")
        found = {} if env is None else self._parse_text_map(key, env)
        for index, name in enumerate(self._parse_text_list("env_vars")):
            if not re.fullmatch(VARIABLE_PATTERN, name):
                raise _InvalidEntryError(
                    ("env_vars", index), "`env_vars` lists names of variables", "write A_NAME"
                )
            found.setdefault(name, f"${{{name}}}")
        for name in found:
            if not name or "=" in name:
                raise _InvalidEntryError(
                    (key, name), f"`{key}` has a variable without a proper name", "name it A_NAME"
                )
        return found

    def _parse_http_server(self, key: str, url: object, *, sse: bool) -> HttpServer:
        text = self._parse_text((key,), url)
        if problem := find_url_problem(text):
            raise _InvalidEntryError((key,), f"`{key}` {problem}", "write https://HOST/PATH")
        insecure = self._parse_flag("insecure", self._raw.get("insecure"))
        return HttpServer(
            url=text, headers=self._parse_headers(), sse=sse, insecure=insecure, oauth=self._parse_oauth()
        )

    def _parse_oauth(self) -> OAuthClient:
        given = self._raw.get("oauth")
        if given is None:
            return OAuthClient()
        if not isinstance(given, dict):
            raise _InvalidEntryError(
                ("oauth",), "`oauth` must be an object", 'write {"id": "…", "secret": "${NAME}"}'
            )
        found = cast("JsonObject", given)
        for key in [key for key in found if key not in OAUTH_KEYS][:_MAX_UNKNOWN_KEYS]:
            self._warn(
                ("oauth", key), f"`oauth.{escape_one_line(key)}` is not read", "see docs/host-login.md"
            )
        ident, secret, issuer, metadata = (self._parse_oauth_text(found, ours) for ours in OAUTH_ALIASES)
        return OAuthClient(
            id=ident, secret=secret, issuer=issuer, metadata_url=metadata, port=self._parse_oauth_port(found)
        )

    def _parse_oauth_text(self, given: JsonObject, ours: str) -> str:
        key = next((key for key in (ours, *OAUTH_ALIASES[ours]) if given.get(key) is not None), "")
        return self._parse_text(("oauth", key), given[key]) if key else ""

    def _parse_oauth_port(self, given: JsonObject) -> int:
        key = next((key for key in PORT_KEYS if given.get(key) is not None), "")
        port = given[key] if key else 0
        if not isinstance(port, int) or isinstance(port, bool) or not 0 <= port < 65536:
            raise _InvalidEntryError(
                ("oauth", key), f"`oauth.{key}` must be a port", "write a number from 1 to 65535"
            )
        return port

    def _parse_headers(self) -> dict[str, str]:
        key, given = self._find("headers")
        found = {} if given is None else self._parse_text_map(key, given)
        _, variables = self._find("env_http_headers")
        given = {} if variables is None else self._parse_text_map("env_http_headers", variables)
        for name, variable in given.items():
            found[name] = self._parse_variable_name(("env_http_headers", name), variable)
        if token := self._parse_bearer_token():
            found["Authorization"] = self._check_sole_authorization(key, found, token)
        for name, value in found.items():
            if not _HEADER_NAME.fullmatch(name) or _CONTROL.search(value):
                raise _InvalidEntryError(
                    (key, name), f"`{key}` has a header that HTTP forbids", "look for line ends"
                )
        if len({name.lower() for name in found}) < len(found):
            raise _InvalidEntryError(
                (key,), f"`{key}` has one header twice", "names of headers ignore case; keep one"
            )
        return found

    def _parse_bearer_token(self) -> str:
        key, token = self._find("bearerToken")
        variable_key, variable = self._find("bearerTokenEnv")
        if token is not None and variable is not None:
            raise _InvalidEntryError(
                (variable_key,), f"it has `{key}` and `{variable_key}`", "keep one of the two"
            )
        if variable is not None:
            return f"Bearer {self._parse_variable_name((variable_key,), variable)}"
        return "" if token is None else f"Bearer {self._parse_text((key,), token)}"

    def _check_sole_authorization(self, key: str, headers: Mapping[str, str], token: str) -> str:
        for name in headers:
            if name.lower() == "authorization":
                raise _InvalidEntryError(
                    (key, name), "it has a bearer token and an Authorization header", "keep one"
                )
        return token

    def _parse_variable_name(self, path: tuple[str, ...], variable: object) -> str:
        name = self._parse_text(path, variable)
        if not re.fullmatch(VARIABLE_PATTERN, name):
            raise _InvalidEntryError(
                path, f"`{path[0]}` must name a variable of the environment", "write A_NAME"
            )
        return f"${{{name}}}"

    # What it may

    def _parse_auto_approve(self) -> bool | tuple[str, ...]:
        key, value = self._find("autoApprove")
        if isinstance(value, list):
            return self._parse_text_list("autoApprove")
        return self._parse_flag(key, value)

    def _parse_rules(self) -> tuple[Rule, ...]:
        given = self._raw.get("rules")
        if not isinstance(given, list | None):
            raise _InvalidEntryError(("rules",), "`rules` is not a list", 'write [{"allow": "get_*"}]')
        return tuple(
            self._parse_entry_rule(at, each) for at, each in enumerate(cast("list[object]", given or []))
        )

    def _parse_entry_rule(self, at: int, given: object) -> Rule:
        try:
            rule = parse_rule(given)
        except UsageError as error:
            raise _InvalidEntryError(
                ("rules", at), escape_one_line(error.message), escape_one_line(error.hint)
            ) from error
        if rule.server:
            raise _InvalidEntryError(
                ("rules", at), "a rule of an entry is about that server", "leave `server` out"
            )
        return replace(rule, server=self._name)

    def _parse_trusted(self) -> bool:
        trusted = self._parse_flag("trusted", self._raw.get("trusted"))
        if trusted and self._place.scope != "user":
            message = "`trusted` counts only in your own file, and is ignored"
            self._warn(("trusted",), message, "move the entry there if you trust what the server says")
            return False
        return trusted

    def _parse_disabled(self) -> bool:
        disabled = self._parse_flag("disabled", self._raw.get("disabled"))
        enabled = self._raw.get("enabled")
        return disabled or (enabled is not None and not self._parse_flag("enabled", enabled))

    def _parse_lifecycle(self) -> Lifecycle:
        value = self._raw.get("lifecycle", "lazy")
        for known in get_args(Lifecycle):
            if value == known:
                return known
        known = ", ".join(get_args(Lifecycle))
        raise _InvalidEntryError(("lifecycle",), "`lifecycle` has no such value", f"the values are {known}")

    def _parse_protocol(self) -> str:
        key, value = self._find("protocolVersion")
        if value is None:
            return "auto"
        text = self._parse_text((key,), value)
        if not _VERSION.fullmatch(text):
            raise _InvalidEntryError(
                (key,), f"`{key}` is not a version", "write auto, legacy, or a version as 2025-11-25"
            )
        return text

    def _parse_globs(self, ours: str, default: tuple[str, ...]) -> tuple[str, ...]:
        return default if self._find(ours)[1] is None else self._parse_text_list(ours)

    # How long is waited

    def _parse_timeouts(self) -> Timeouts:
        own = Timeouts()
        start = self._parse_seconds("startTimeout", own.start)
        idle = self._raw.get("timeout")
        if isinstance(idle, dict):  # opencode's: milliseconds
            given = cast("JsonObject", idle)
            start = _parse_milliseconds(("timeout", "startup"), given.get("startup"), start)
            own = _replace_idle(
                own, _parse_milliseconds(("timeout", "request"), given.get("request"), own.idle)
            )
        elif self._find("timeout")[1] is not None:
            own = _replace_idle(own, self._parse_seconds("timeout", own.idle))
        given = self._raw.get("timeouts")
        if given is None:
            return Timeouts(start=start, idle=own.idle, total=own.total)
        return _parse_timeouts_object(
            ("timeouts",), given, Timeouts(start=start, idle=own.idle, total=own.total)
        )

    def _parse_tool_timeouts(self) -> dict[str, Timeouts]:
        given = self._raw.get("toolTimeouts")
        if given is None:
            return {}
        if not isinstance(given, dict):
            raise _InvalidEntryError(
                ("toolTimeouts",), "`toolTimeouts` is not an object", 'write {"TOOL": {"idle": 120}}'
            )
        own = self._parse_timeouts()
        return {
            tool: _parse_timeouts_object(("toolTimeouts", tool), value, own)
            for tool, value in cast("JsonObject", given).items()
        }

    def _parse_seconds(self, ours: str, default: float, least: float | None = None) -> float:
        key, value = self._find(ours)
        if value is None:
            return default
        bare = key == "timeout" and isinstance(value, int | float) and value >= _MILLISECONDS_FROM
        if bare or key.endswith(("Ms", "_ms")):
            return _parse_milliseconds((key,), value, default)
        return _parse_duration((key,), value, least)

    # Kinds of values

    def _parse_flag(self, key: str, value: object) -> bool:
        if value is None or isinstance(value, bool):
            return bool(value)
        raise _InvalidEntryError((key,), f"`{key}` must be true or false", "without quotes")

    def _parse_text_list(self, ours: str) -> tuple[str, ...]:
        key, value = self._find(ours)
        if value is None:
            return ()
        if not isinstance(value, list):
            raise _InvalidEntryError((key,), f"`{key}` must be a list", 'write ["…", "…"]')
        items = cast("list[object]", value)
        return tuple(self._parse_text((key, index), item) for index, item in enumerate(items))

    def _parse_text_map(self, key: str, value: object) -> dict[str, str]:
        if not isinstance(value, dict):
            raise _InvalidEntryError((key,), f"`{key}` must be an object", 'write {"NAME": "value"}')
        found = cast("dict[str, object]", value)
        return {
            self._parse_text((key, name), name): self._parse_text((key, name), inner)
            for name, inner in found.items()
        }

    def _parse_text(self, path: tuple[str | int, ...], value: object) -> str:
        key = escape_one_line(".".join(str(step) for step in path))
        if not isinstance(value, str):
            raise _InvalidEntryError(path, f"`{key}` must be text", "put it in double quotes")
        if "\0" in value or not _is_encodable(value):
            raise _InvalidEntryError(path, f"`{key}` has a character that no program accepts", "remove it")
        if asked := _EDITOR_VARIABLE.search(value):
            wanted = escape_one_line(asked[0])
            reason = f"`{key}` needs `{wanted}`, which only the editor it was written for can give"
            raise _InvalidEntryError(path, reason, "write ${NAME} for a variable of your environment instead")
        return value


def find_url_problem(url: str) -> str:
    """Return what is wrong with an address that is to be spoken to; variables in it are let pass."""
    if any(not character.isprintable() or character.isspace() for character in url):
        return "has a blank or a character that does not show"
    if url.startswith("${"):
        return ""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "is not an address"
    return "" if parts.scheme in {"http", "https"} and parts.netloc else "is not an HTTP address"


def _check_name(name: str) -> None:
    if not name.strip() or name != name.strip():
        raise _InvalidEntryError(
            (), "its name is empty or has blanks around it", "give it a name like `github`"
        )
    if len(name) > MAX_NAME_CHARS:
        raise _InvalidEntryError(
            (), f"its name is longer than {MAX_NAME_CHARS} characters", "give it a shorter one"
        )
    if escape_one_line(name) != name:
        raise _InvalidEntryError(
            (), "its name has characters that do not show", "give it a name like `github`"
        )


def _is_remote(key: str, kind: object) -> bool | None:
    if kind is None:
        return None
    if isinstance(kind, str) and kind in {*_STDIO, *_HTTP, _SSE}:
        return kind not in _STDIO
    raise _InvalidEntryError(
        (key,), f"`{key}` has no such value", "write stdio, http, streamable-http or sse"
    )


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _parse_duration(path: tuple[str | int, ...], value: object, least: float | None = None) -> float:
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else -1
    if number <= MAX_SECONDS and (number > 0 if least is None else number >= least):
        return float(number)
    key = escape_one_line(".".join(str(step) for step in path))
    from_to = f"from {least:g}" if least is not None else "over 0"
    raise _InvalidEntryError(path, f"`{key}` must be a number of seconds", f"{from_to} to {MAX_SECONDS:g}")


def _parse_milliseconds(path: tuple[str | int, ...], value: object, default: float) -> float:
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _InvalidEntryError(
            path, f"`{'.'.join(map(str, path))}` must be a number of milliseconds", "as 60000"
        )
    # Not divided before it is compared: a number can be too large for that.
    return _parse_duration(path, value / 1000 if value <= MAX_SECONDS * 1000 else value)


def _replace_idle(times: Timeouts, idle: float) -> Timeouts:
    return Timeouts(start=times.start, idle=idle, total=max(idle, times.total))


def _parse_timeouts_object(path: tuple[str | int, ...], value: object, default: Timeouts) -> Timeouts:
    """Read ``{"start", "idle", "total"}``, or one number, which is ``idle``."""
    if not isinstance(value, dict):
        return _replace_idle(default, _parse_duration(path, value))
    given = cast("JsonObject", value)
    for key in given:
        if key not in {"start", "idle", "total"}:
            here = escape_one_line(str(key))
            raise _InvalidEntryError(
                (*path, key), f"`{path[0]}` has no `{here}`", "it has start, idle and total"
            )
    times = {key: _parse_duration((*path, key), seconds) for key, seconds in given.items()}
    idle = times.get("idle", default.idle)
    return Timeouts(
        start=times.get("start", default.start),
        idle=idle,
        total=times.get("total", max(idle, default.total)),
    )
