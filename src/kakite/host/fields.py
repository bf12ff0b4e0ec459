"""One entry of a configuration: from what a file has to what we know, or to why not."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast, get_args
from urllib.parse import urlsplit

from kakite.errors import UsageError
from kakite.host.entries import Address, Lifecycle, OAuthClient, Origin, Program, Scope, ServerEntry, Timeouts
from kakite.host.judging import Rule
from kakite.host.rules import parse_rule
from kakite.host.spellings import KEYS, OAUTH, OAUTH_KEYS, PORT, REMARKS, SPELLINGS
from kakite.tools.toolset import JsonObject
from kakite.visible import visible_name as visible

NAME_MOST = 128  # characters of a server's name
SECONDS_MOST = 24 * 3600.0
IDLE_STOP = 600.0
_MILLISECONDS_FROM = 1000  # a bare `timeout` is in seconds below this; nobody waits a quarter of an hour

_STDIO = frozenset(("stdio", "local"))
_HTTP = frozenset(("http", "streamable-http", "streamableHttp", "streamable_http", "remote"))
_SSE = "sse"
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # a header's name: RFC 9110
_VERSION = re.compile(r"auto|legacy|\d{4}-\d{2}-\d{2}")
_UNKNOWN_TOLD = 20  # keys of one entry; a file may be full of them
VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"
_NOT_HERE = re.compile(r"\$\{(input|command|config):[^}]*\}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
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
        return f"{visible(self.file)}:{self.line}: {self.message}; {self.hint}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where an entry stands, and how to find the line of a value in it."""

    file: str
    scope: Scope
    line: Callable[[tuple[str | int, ...]], int]
    """For a path inside of the entry; ``()`` is the entry itself."""

    def problem(self, path: tuple[str | int, ...], message: str, hint: str, *, fatal: bool) -> Problem:
        """Return a problem at this path of the entry."""
        return Problem(file=self.file, line=self.line(path), message=message, hint=hint, fatal=fatal)


class _Wrong(Exception):  # noqa: N818 - never leaves this module
    """The entry cannot be used."""

    def __init__(self, path: tuple[str | int, ...], message: str, hint: str) -> None:
        super().__init__(message)
        self.path, self.message, self.hint = path, message, hint


def read_entry(name: str, raw: object, place: Place) -> tuple[ServerEntry | None, tuple[Problem, ...]]:
    """Return the entry, or None if it cannot be used, and what is wrong with it. Never raises."""
    fields = _Fields(name, place)
    try:
        return fields.entry(raw), tuple(fields.warnings)
    except _Wrong as wrong:
        message = f"server `{visible(name)}` is left out: {wrong.message}"
        problem = place.problem(wrong.path, message, wrong.hint, fatal=True)
        return None, (*fields.warnings, problem)


class _Fields:
    """Reads the fields of one entry."""

    def __init__(self, name: str, place: Place) -> None:
        self.warnings: list[Problem] = []
        self._name = name
        self._place = place
        self._raw: JsonObject = {}

    def entry(self, raw: object) -> ServerEntry:
        _check_name(self._name)
        if not isinstance(raw, dict):
            raise _Wrong((), "it is no object", 'write {"command": …} or {"url": …}')
        self._raw = cast("JsonObject", raw)
        self._look_for_unknown()
        return ServerEntry(
            name=self._name,
            reached=self._reached(),
            origin=Origin(file=self._place.file, line=self._place.line(()), scope=self._place.scope),
            raw=self._raw,
            auto_approve=self._auto_approve(),
            rules=self._rules(),
            disabled=self._disabled(),
            lifecycle=self._lifecycle(),
            idle_stop=self._seconds("idleTimeout", IDLE_STOP, 0.0),
            timeouts=self._timeouts(),
            tool_timeouts=self._tool_timeouts(),
            include=self._globs("include", ("*",)),
            exclude=self._globs("exclude", ()),
            trusted=self._trusted(),
            protocol=self._protocol(),
        )

    # What is there

    def _look_for_unknown(self) -> None:
        unknown = [key for key in self._raw if key not in KEYS and key not in REMARKS]
        told = [key for key in unknown if not key.startswith(("$", "_", "//", "x-", "#"))]
        for key in told[:_UNKNOWN_TOLD]:
            near = difflib.get_close_matches(key[:40], KEYS, n=1)
            hint = f"did you mean `{near[0]}`?" if near else "remove it, or see docs/host.md for what is read"
            self._warn((key,), f"`{visible(key)}` is not read", hint)

    def _warn(self, path: tuple[str | int, ...], message: str, hint: str) -> None:
        told = f"server `{visible(self._name)}`: {message}"
        self.warnings.append(self._place.problem(path, told, hint, fatal=False))

    def _find(self, ours: str) -> tuple[str, Any]:
        """Return the key as it is spelled, and its value; null is as good as not there."""
        found = [key for key in (ours, *SPELLINGS[ours]) if self._raw.get(key) is not None]
        if len(found) > 1:
            both = " and ".join(f"`{key}`" for key in found)
            raise _Wrong((found[1],), f"{both} say the same thing", f"keep `{found[0]}` only")
        return (found[0], self._raw[found[0]]) if found else (ours, None)

    # Where it is

    def _reached(self) -> Program | Address:
        kind_key, kind = self._find("type")
        url_key, url = self._find("url")
        remote = _is_remote(kind_key, kind)
        has_command = self._raw.get("command") is not None
        if has_command and url is not None:
            raise _Wrong((url_key,), "it has a `command` and an address", "keep one of the two")
        if has_command:
            if remote:
                raise _Wrong((kind_key,), f"`{kind_key}` says HTTP, but it has a `command`", 'write "stdio"')
            return self._program()
        if url is not None:
            if remote is False:
                raise _Wrong((kind_key,), f"`{kind_key}` says stdio, but it has an address", 'write "http"')
            return self._address(url_key, url, sse=kind == _SSE)
        raise _Wrong((), "it has neither `command` nor `url`", 'add "command": "…" or "url": "https://…"')

    def _program(self) -> Program:
        command, args = self._raw["command"], self._texts("args")
        if isinstance(command, list):
            words = self._texts("command")
            command, args = (words[0] if words else ""), (*words[1:], *args)
        text = self._text(("command",), command)
        if not text.strip():
            raise _Wrong(("command",), "`command` is empty", "name the program to start")
        if any(blank in text.strip() for blank in " \t") and not args:
            message = "`command` is the name of one program, and this has blanks"
            self._warn(("command",), message, "put what follows the name into `args`")
        _, cwd = self._find("cwd")
        return Program(
            command=text,
            args=args,
            env=self._environment(),
            cwd="" if cwd is None else self._text(("cwd",), cwd),
        )

    def _environment(self) -> dict[str, str]:
        key, env = self._find("env")
        found = {} if env is None else self._strings(key, env)
        for index, name in enumerate(self._texts("env_vars")):
            if not re.fullmatch(VARIABLE, name):
                raise _Wrong(("env_vars", index), "`env_vars` lists names of variables", "write A_NAME")
            found.setdefault(name, f"${{{name}}}")
        for name in found:
            if not name or "=" in name:
                raise _Wrong((key, name), f"`{key}` has a variable without a proper name", "name it A_NAME")
        return found

    def _address(self, key: str, url: object, *, sse: bool) -> Address:
        text = self._text((key,), url)
        if problem := bad_url(text):
            raise _Wrong((key,), f"`{key}` {problem}", "write https://HOST/PATH")
        insecure = self._flag("insecure", self._raw.get("insecure"))
        return Address(url=text, headers=self._headers(), sse=sse, insecure=insecure, oauth=self._oauth())

    def _oauth(self) -> OAuthClient:
        given = self._raw.get("oauth")
        if given is None:
            return OAuthClient()
        if not isinstance(given, dict):
            raise _Wrong(("oauth",), "`oauth` must be an object", 'write {"id": "…", "secret": "${NAME}"}')
        found = cast("JsonObject", given)
        for key in [key for key in found if key not in OAUTH_KEYS][:_UNKNOWN_TOLD]:
            self._warn(("oauth", key), f"`oauth.{visible(key)}` is not read", "see docs/host-login.md")
        ident, secret, issuer, metadata = (self._oauth_text(found, ours) for ours in OAUTH)
        return OAuthClient(
            id=ident, secret=secret, issuer=issuer, metadata_url=metadata, port=self._oauth_port(found)
        )

    def _oauth_text(self, given: JsonObject, ours: str) -> str:
        key = next((key for key in (ours, *OAUTH[ours]) if given.get(key) is not None), "")
        return self._text(("oauth", key), given[key]) if key else ""

    def _oauth_port(self, given: JsonObject) -> int:
        key = next((key for key in PORT if given.get(key) is not None), "")
        port = given[key] if key else 0
        if not isinstance(port, int) or isinstance(port, bool) or not 0 <= port < 65536:
            raise _Wrong(("oauth", key), f"`oauth.{key}` must be a port", "write a number from 1 to 65535")
        return port

    def _headers(self) -> dict[str, str]:
        key, given = self._find("headers")
        found = {} if given is None else self._strings(key, given)
        _, variables = self._find("env_http_headers")
        given = {} if variables is None else self._strings("env_http_headers", variables)
        for name, variable in given.items():
            found[name] = self._reference(("env_http_headers", name), variable)
        if token := self._token():
            found["Authorization"] = self._sole_authorization(key, found, token)
        for name, value in found.items():
            if not _TOKEN.fullmatch(name) or _CONTROL.search(value):
                raise _Wrong((key, name), f"`{key}` has a header that HTTP forbids", "look for line ends")
        if len({name.lower() for name in found}) < len(found):
            raise _Wrong((key,), f"`{key}` has one header twice", "names of headers ignore case; keep one")
        return found

    def _token(self) -> str:
        key, token = self._find("bearerToken")
        variable_key, variable = self._find("bearerTokenEnv")
        if token is not None and variable is not None:
            raise _Wrong((variable_key,), f"it has `{key}` and `{variable_key}`", "keep one of the two")
        if variable is not None:
            return f"Bearer {self._reference((variable_key,), variable)}"
        return "" if token is None else f"Bearer {self._text((key,), token)}"

    def _sole_authorization(self, key: str, headers: Mapping[str, str], token: str) -> str:
        for name in headers:
            if name.lower() == "authorization":
                raise _Wrong((key, name), "it has a bearer token and an Authorization header", "keep one")
        return token

    def _reference(self, path: tuple[str, ...], variable: object) -> str:
        name = self._text(path, variable)
        if not re.fullmatch(VARIABLE, name):
            raise _Wrong(path, f"`{path[0]}` must name a variable of the environment", "write A_NAME")
        return f"${{{name}}}"

    # What it may

    def _auto_approve(self) -> bool | tuple[str, ...]:
        key, value = self._find("autoApprove")
        if isinstance(value, list):
            return self._texts("autoApprove")
        return self._flag(key, value)

    def _rules(self) -> tuple[Rule, ...]:
        given = self._raw.get("rules")
        if not isinstance(given, list | None):
            raise _Wrong(("rules",), "`rules` is no list", 'write [{"allow": "get_*"}]')
        return tuple(self._rule(at, each) for at, each in enumerate(cast("list[object]", given or [])))

    def _rule(self, at: int, given: object) -> Rule:
        try:
            rule = parse_rule(given)
        except UsageError as error:
            raise _Wrong(("rules", at), visible(error.message), visible(error.hint)) from error
        if rule.server:
            raise _Wrong(("rules", at), "a rule of an entry is about that server", "leave `server` out")
        return replace(rule, server=self._name)

    def _trusted(self) -> bool:
        trusted = self._flag("trusted", self._raw.get("trusted"))
        if trusted and self._place.scope != "user":
            message = "`trusted` counts only in your own file, and is ignored"
            self._warn(("trusted",), message, "move the entry there if you trust what the server says")
            return False
        return trusted

    def _disabled(self) -> bool:
        disabled = self._flag("disabled", self._raw.get("disabled"))
        enabled = self._raw.get("enabled")
        return disabled or (enabled is not None and not self._flag("enabled", enabled))

    def _lifecycle(self) -> Lifecycle:
        value = self._raw.get("lifecycle", "lazy")
        for known in get_args(Lifecycle):
            if value == known:
                return known
        known = ", ".join(get_args(Lifecycle))
        raise _Wrong(("lifecycle",), "`lifecycle` has no such value", f"the values are {known}")

    def _protocol(self) -> str:
        key, value = self._find("protocolVersion")
        if value is None:
            return "auto"
        text = self._text((key,), value)
        if not _VERSION.fullmatch(text):
            raise _Wrong((key,), f"`{key}` is no version", "write auto, legacy, or a version as 2025-11-25")
        return text

    def _globs(self, ours: str, default: tuple[str, ...]) -> tuple[str, ...]:
        return default if self._find(ours)[1] is None else self._texts(ours)

    # How long is waited

    def _timeouts(self) -> Timeouts:
        own = Timeouts()
        start = self._seconds("startTimeout", own.start)
        idle = self._raw.get("timeout")
        if isinstance(idle, dict):  # opencode's: milliseconds
            given = cast("JsonObject", idle)
            start = _milliseconds(("timeout", "startup"), given.get("startup"), start)
            own = _waiting(own, _milliseconds(("timeout", "request"), given.get("request"), own.idle))
        elif self._find("timeout")[1] is not None:
            own = _waiting(own, self._seconds("timeout", own.idle))
        given = self._raw.get("timeouts")
        if given is None:
            return Timeouts(start=start, idle=own.idle, total=own.total)
        return _times(("timeouts",), given, Timeouts(start=start, idle=own.idle, total=own.total))

    def _tool_timeouts(self) -> dict[str, Timeouts]:
        given = self._raw.get("toolTimeouts")
        if given is None:
            return {}
        if not isinstance(given, dict):
            raise _Wrong(("toolTimeouts",), "`toolTimeouts` is no object", 'write {"TOOL": {"idle": 120}}')
        own = self._timeouts()
        return {
            tool: _times(("toolTimeouts", tool), value, own)
            for tool, value in cast("JsonObject", given).items()
        }

    def _seconds(self, ours: str, default: float, least: float | None = None) -> float:
        key, value = self._find(ours)
        if value is None:
            return default
        bare = key == "timeout" and isinstance(value, int | float) and value >= _MILLISECONDS_FROM
        if bare or key.endswith(("Ms", "_ms")):
            return _milliseconds((key,), value, default)
        return _duration((key,), value, least)

    # Kinds of values

    def _flag(self, key: str, value: object) -> bool:
        if value is None or isinstance(value, bool):
            return bool(value)
        raise _Wrong((key,), f"`{key}` must be true or false", "without quotes")

    def _texts(self, ours: str) -> tuple[str, ...]:
        key, value = self._find(ours)
        if value is None:
            return ()
        if not isinstance(value, list):
            raise _Wrong((key,), f"`{key}` must be a list", 'write ["…", "…"]')
        items = cast("list[object]", value)
        return tuple(self._text((key, index), item) for index, item in enumerate(items))

    def _strings(self, key: str, value: object) -> dict[str, str]:
        if not isinstance(value, dict):
            raise _Wrong((key,), f"`{key}` must be an object", 'write {"NAME": "value"}')
        found = cast("dict[str, object]", value)
        return {
            self._text((key, name), name): self._text((key, name), inner) for name, inner in found.items()
        }

    def _text(self, path: tuple[str | int, ...], value: object) -> str:
        key = visible(".".join(str(step) for step in path))
        if not isinstance(value, str):
            raise _Wrong(path, f"`{key}` must be text", "put it in double quotes")
        if "\0" in value or not _encodable(value):
            raise _Wrong(path, f"`{key}` holds a character that no program can be given", "remove it")
        if asked := _NOT_HERE.search(value):
            reason = f"`{key}` needs `{visible(asked[0])}`, which only the editor it was written for can give"
            raise _Wrong(path, reason, "write ${NAME} for a variable of your environment instead")
        return value


def bad_url(url: str) -> str:
    """Return what is wrong with an address that is to be spoken to; variables in it are let pass."""
    if any(not character.isprintable() or character.isspace() for character in url):
        return "has a blank or a character that does not show"
    if url.startswith("${"):
        return ""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "is no address"
    return "" if parts.scheme in {"http", "https"} and parts.netloc else "is no address of HTTP"


def _check_name(name: str) -> None:
    if not name.strip() or name != name.strip():
        raise _Wrong((), "its name is empty or has blanks around it", "give it a name like `github`")
    if len(name) > NAME_MOST:
        raise _Wrong((), f"its name is longer than {NAME_MOST} characters", "give it a shorter one")
    if visible(name) != name:
        raise _Wrong((), "its name has characters that do not show", "give it a name like `github`")


def _is_remote(key: str, kind: object) -> bool | None:
    if kind is None:
        return None
    if isinstance(kind, str) and kind in {*_STDIO, *_HTTP, _SSE}:
        return kind not in _STDIO
    raise _Wrong((key,), f"`{key}` has no such value", "write stdio, http, streamable-http or sse")


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _duration(path: tuple[str | int, ...], value: object, least: float | None = None) -> float:
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else -1
    if number <= SECONDS_MOST and (number > 0 if least is None else number >= least):
        return float(number)
    key = visible(".".join(str(step) for step in path))
    from_to = f"from {least:g}" if least is not None else "over 0"
    raise _Wrong(path, f"`{key}` must be a number of seconds", f"{from_to} to {SECONDS_MOST:g}")


def _milliseconds(path: tuple[str | int, ...], value: object, default: float) -> float:
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _Wrong(path, f"`{'.'.join(map(str, path))}` must be a number of milliseconds", "as 60000")
    # Not divided before it is compared: a number can be too large for that.
    return _duration(path, value / 1000 if value <= SECONDS_MOST * 1000 else value)


def _waiting(times: Timeouts, idle: float) -> Timeouts:
    return Timeouts(start=times.start, idle=idle, total=max(idle, times.total))


def _times(path: tuple[str | int, ...], value: object, default: Timeouts) -> Timeouts:
    """Read ``{"start", "idle", "total"}``, or one number, which is ``idle``."""
    if not isinstance(value, dict):
        return _waiting(default, _duration(path, value))
    given = cast("JsonObject", value)
    for key in given:
        if key not in {"start", "idle", "total"}:
            here = visible(str(key))
            raise _Wrong((*path, key), f"`{path[0]}` has no `{here}`", "it has start, idle and total")
    times = {key: _duration((*path, key), seconds) for key, seconds in given.items()}
    idle = times.get("idle", default.idle)
    return Timeouts(
        start=times.get("start", default.start),
        idle=idle,
        total=times.get("total", max(idle, default.total)),
    )
