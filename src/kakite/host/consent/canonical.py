"""Computes the canonical form of an entry or a tool, its digest, and how a person sees it.

A literal secret in an entry (a header, a variable or an argument that is named like one, a password in an
address) counts in its digest, and is shown and stored as a mask alone: ``(hidden, sha256 …)`` changes when
the secret does. Nothing is expanded.

A project may write a command so that it looks like a secret and nobody sees it. So nothing is masked that
could be what runs: no program or package, no path, and nothing that a shell would obey.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import PurePath
from typing import Any, cast

from kakite.host.config.model import HttpServer, OAuthClient, ServerEntry
from kakite.host.config.variables import list_variables
from kakite.host.policy.rules import Rule, serialize_rule
from kakite.redaction import (
    find_named_spans,
    find_pattern_spans,
    find_secret_spans,
    is_secret_flag_value,
    is_secret_name,
    replace_spans,
)
from kakite.terminal_text import escape_one_line, quote_command
from kakite.tools.toolset import META_EFFECT, JsonObject

_SHELL_CHARACTER = re.compile(r"[\s;|&<>`()]")
"""What no secret has, and what a command that hides as one would need."""
_UNMASKED_PREFIXES = tuple("-./~@")
"""How options, paths and packages may begin."""
_REFERENCE = re.compile(r"\$\{([^{}:]*:?[^{}:-]*)(?::-([^{}]*))?\}")
_BRACES = re.compile(r"\$\{[^{}:-]*(?::-)?|\}")
_SCHEME = re.compile(r"(?i)(?:bearer|basic|token|digest)\s+")
_MASK = re.compile(r"\(hidden, sha256 [0-9a-f]*\)?")
_ASSIGNED = re.compile(r"(-{0,2}([\w.-]+)=)(.+)", re.DOTALL)
_LAUNCHERS = frozenset(
    (
        *("npx", "npm", "pnpm", "pnpx", "yarn", "bun", "bunx", "deno", "node", "uv", "uvx", "pipx"),
        *("python", "python3", "ruby", "perl", "php", "java", "dotnet", "go", "cargo", "cmd", "powershell"),
        *("sh", "bash", "zsh", "dash", "fish", "busybox", "env", "sudo", "nice", "nohup", "timeout", "xargs"),
        *("ssh", "docker", "podman", "nerdctl"),
    )
)
"""Programs that start what one of their arguments names; which one, only they know."""


def mask(secret: str) -> str:
    """Return what stands for a secret."""
    return f"(hidden, sha256 {hashlib.sha256(secret.encode(errors='surrogatepass')).hexdigest()[:12]})"


def mask_secret(text: str) -> str:
    """Return a value that is a secret by its name. Variables in it are shown, their defaults masked."""
    pieces: list[str] = []
    at = 0
    for found in _REFERENCE.finditer(text):
        default = f":-{mask(found[2])}" if found[2] else found[0][2 + len(found[1]) : -1]
        pieces += [_mask_literal(text[at : found.start()]), "${", found[1], default, "}"]
        at = found.end()
    return "".join([*pieces, _mask_literal(text[at:])])


def mask_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return variables with the secrets in them masked."""
    return {
        name: mask_secret(text) if is_secret_name(name) and not _is_shell_active(text) else mask_text(text)
        for name, text in env.items()
    }


def mask_text(text: str) -> str:
    """Return a text, such as an address, with those secrets masked that can be told in it."""
    text = _mask_forged_masks(text)
    return replace_spans(text, find_secret_spans(text), _mask_value)


def mask_command(words: Sequence[str]) -> tuple[str, ...]:
    """Return a command line, the program first, with the secrets among its arguments masked."""
    launches = PurePath(words[0]).name.split(".")[0] in _LAUNCHERS
    named = not launches  # whether what runs was named by now
    masked = [words[0]]
    for before, word in pairwise(words):
        masked.append(_mask_argument(before, word, named=named, launches=launches))
        named = named or not word.startswith("-")
    return tuple(masked)


def _mask_argument(before: str, word: str, *, named: bool, launches: bool) -> str:
    if named and is_secret_flag_value(before, word) and not _is_shell_active(word):
        return mask_secret(word)
    assigned = _ASSIGNED.fullmatch(word)
    if assigned and is_secret_name(assigned[2]) and not _is_shell_active(assigned[3]):
        return assigned[1] + mask_secret(assigned[3])
    word = _mask_forged_masks(word)
    if launches and (_SHELL_CHARACTER.search(word) or list(find_pattern_spans(word)) == [(0, len(word))]):
        # A script, or what is to be run: only what a name stands before is surely no command.
        return replace_spans(word, find_named_spans(word), _mask_value)
    return replace_spans(word, find_secret_spans(word), _mask_value)


def _is_shell_active(text: str) -> bool:
    bare = _BRACES.sub("", text)
    return bool(_SHELL_CHARACTER.search(bare)) or bare.startswith(_UNMASKED_PREFIXES)


def _mask_value(secret: str) -> str:
    """Mask what stands in a text up to what a shell, or we, would read as more than a value."""
    end = re.search(r"[\s;|&<>`()$]", secret)
    value = secret[: end.start()] if end and not secret.startswith("-----BEGIN") else secret
    if not value or (value.startswith(_UNMASKED_PREFIXES) and not value.startswith("-----BEGIN")):
        return secret
    return mask(value) + secret[len(value) :]


def _mask_forged_masks(text: str) -> str:
    return _MASK.sub(lambda found: mask(found[0]), text)


def _mask_literal(text: str) -> str:
    scheme = _SCHEME.match(text)
    head = scheme[0] if scheme else ""
    return head + (mask(text[len(head) :]) if text[len(head) :].strip() else text[len(head) :])


_DEFINED_BY = ("name", "title", "description", "arguments", "inputSchema", "outputSchema", "annotations")
"""``arguments`` are a prompt's: no tool has them."""
_PLAIN_KEY = re.compile(r"[\w$-]+", re.ASCII)


def compute_entry_digest(entry: ServerEntry) -> str:
    """Return the SHA-256 of all in an entry that decides what it may do, as ``sha256:…``.

    That is how the server is reached, which variables it gets, what goes without a question, which tools it
    offers and what it is believed. Not: its name, where it stands, time-outs, and whether it is disabled.
    """
    return _compute_digest(_serialize_entry(entry))


def compute_server_digest(entry: ServerEntry, tools: Sequence[str] | None = None) -> str:
    """Return the SHA-256 of what a person sees of a server: its entry alone, or with its tools' digests."""
    shown: JsonObject = {
        "scope": entry.origin.scope,
        "name": entry.name,
        "entry": compute_entry_digest(entry),
    }
    return _compute_digest(shown if tools is None else {**shown, "tools": sorted(tools)})


def compute_definition_digest(definition: JsonObject) -> str:
    """Return the SHA-256 of a tool as its server defines it; what is null is as good as not there."""
    return _compute_digest(canonicalize_definition(definition))


def canonicalize_entry(entry: ServerEntry) -> JsonObject:
    """Return what ``compute_entry_digest`` is made of, with fingerprints for literal secrets."""
    whole = _serialize_entry(entry)
    reached = entry.reached
    if isinstance(reached, HttpServer):
        whole["url"] = mask_text(reached.url)
        whole["headers"] = {name: mask_secret(text) for name, text in reached.headers.items()}
        if "oauth" in whole:
            shown = {key: mask_text(text) for key, text in _collect_oauth_texts(reached.oauth).items()}
            whole["oauth"] = {**whole["oauth"], **shown, "secret": mask_secret(reached.oauth.secret)}
    else:
        whole["command"], *whole["args"] = mask_command((reached.command, *reached.args))
        whole["env"] = mask_environment(reached.env)
    return whole


def canonicalize_definition(definition: JsonObject) -> JsonObject:
    """Return the part of a tool's definition that a model goes by, and that is pinned."""
    form: JsonObject = {key: definition[key] for key in _DEFINED_BY if definition.get(key) is not None}
    meta = definition.get("_meta")
    effect = cast("JsonObject", meta).get(META_EFFECT) if isinstance(meta, dict) else None
    return form if effect is None else {**form, "_meta": {META_EFFECT: effect}}


def format_difference(accepted: JsonObject, present: JsonObject) -> str:
    """Return what changed, a line for each value, ``-`` before what was and ``+`` before what is."""
    before, after = list(_iter_lines("", accepted)), list(_iter_lines("", present))
    if before == after:
        return "what is hidden changed"
    changes = difflib.unified_diff(before, after, "accepted", "now", lineterm="", n=1)
    return "\n".join(line for line in changes if not line.startswith("@@"))


def describe(entry: ServerEntry) -> str:
    """Return what a person consents to, some lines for a terminal: what does not show is escaped.

    The command line is exact and quoted as a shell would need it; variables stand as written.
    """
    where = f"{escape_one_line(entry.origin.file)}:{entry.origin.line}"
    told = [f"{escape_one_line(entry.name)} ({entry.origin.scope}, {where})", *_describe_server(entry)]
    if names := list_variables(entry):
        told.append(f"gets from your environment: {', '.join(names)}")
    if entry.auto_approve is True:
        told.append("WITHOUT A QUESTION: all calls of its tools")
    elif entry.auto_approve:
        told.append(f"WITHOUT A QUESTION: its tools {_join_names(entry.auto_approve)}")
    rules = (json.dumps(serialize_entry_rule(rule), ensure_ascii=False) for rule in entry.rules)
    told += [f"rule: {escape_one_line(rule)}" for rule in rules]
    if entry.include != ("*",) or entry.exclude:
        told.append(f"tools: {_join_names(entry.include)}, without {_join_names(entry.exclude)}")
    if entry.lifecycle != "lazy":
        told.append("starts by itself, whether or not it is needed")
    if entry.trusted:
        told.append("believed in what it says of its tools")
    return "\n  ".join(told)


def _describe_server(entry: ServerEntry) -> Iterator[str]:
    reached = entry.reached
    if isinstance(reached, HttpServer):
        yield from _describe_http_server(reached)
        return
    yield f"starts: {quote_command(mask_command((reached.command, *reached.args)))}"
    if reached.cwd:
        yield f"in the folder: {escape_one_line(reached.cwd)}"
    for name, text in mask_environment(reached.env).items():
        yield f"with: {escape_one_line(name)}={quote_command((text,))}"
    if sandbox := reached.sandbox:
        read, hosts = _join_names(sandbox.read), _join_names(sandbox.hosts)
        write = escape_one_line(sandbox.write) or "none"
        yield f"in a sandbox: reads {read}; writes {write}; reaches {hosts}"


def _describe_http_server(address: HttpServer) -> Iterator[str]:
    yield f"speaks to: {escape_one_line(mask_text(address.url))}"
    if address.insecure:
        yield "MAY SPEAK PLAIN HTTP, which others on the way can read and change"
    for name, text in address.headers.items():
        yield f"sends the header: {escape_one_line(name)}: {escape_one_line(mask_secret(text))}"
    for key, text in _collect_oauth_texts(address.oauth).items():
        if text:
            yield f"{_OAUTH_SHOWN[key]}: {escape_one_line(mask_text(text))}"
    if address.oauth.secret:
        yield f"shows it the secret: {escape_one_line(mask_secret(address.oauth.secret))}"
    if address.oauth.port:
        yield f"listens for the browser on the port: {address.oauth.port}"


_OAUTH_SHOWN = {
    "id": "logs in as",
    "issuer": "logs in at",
    "metadata_url": "is described to who logs it in by",
}


def _collect_oauth_texts(oauth: OAuthClient) -> dict[str, str]:
    return {"id": oauth.id, "issuer": oauth.issuer, "metadata_url": oauth.metadata_url}


def _join_names(names: tuple[str, ...]) -> str:
    return ", ".join(map(escape_one_line, names)) or "none"


def _serialize_entry(entry: ServerEntry) -> JsonObject:
    allowed = entry.auto_approve
    return {
        **_serialize_server(entry),
        "autoApprove": allowed if isinstance(allowed, bool) else list(allowed),
        **({"rules": list(map(serialize_entry_rule, entry.rules))} if entry.rules else {}),
        "include": list(entry.include),
        "exclude": list(entry.exclude),
        "trusted": entry.trusted,
        "lifecycle": entry.lifecycle,
        "protocolVersion": entry.protocol,
    }


def serialize_entry_rule(rule: Rule) -> JsonObject:
    """Return a rule of an entry as the entry has it."""
    return serialize_rule(replace(rule, server=""))


def _serialize_server(entry: ServerEntry) -> JsonObject:
    reached = entry.reached
    if isinstance(reached, HttpServer):
        return {
            "url": reached.url,
            "headers": dict(reached.headers),
            "sse": reached.sse,
            "insecure": reached.insecure,
            **({} if reached.oauth == OAuthClient() else {"oauth": asdict(reached.oauth)}),
        }
    return {
        "command": reached.command,
        "args": list(reached.args),
        "env": dict(reached.env),
        "cwd": reached.cwd,
        **({"sandbox": asdict(reached.sandbox)} if reached.sandbox else {}),
    }


def _compute_digest(value: JsonObject) -> str:
    # Keys sorted, no blanks, ASCII: the same object gives the same bytes everywhere.
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return f"sha256:{hashlib.sha256(canonical.encode()).hexdigest()}"


def _iter_lines(path: str, value: object) -> Iterator[str]:
    """Yield each value with its path; texts in quotes, a line for each of theirs."""
    if isinstance(value, dict) and value:
        for key, inner in sorted(cast("dict[str, Any]", value).items()):
            yield from _iter_lines(f"{path}.{_format_key(key)}" if path else _format_key(key), inner)
    elif isinstance(value, list) and value:
        for index, inner in enumerate(cast("list[Any]", value)):
            yield from _iter_lines(f"{path}[{index}]", inner)
    elif isinstance(value, str):
        for line in value.split("\n"):
            yield f"{path}: {_quote(line)}"
    else:
        yield f"{path}: {json.dumps(value)}"


def _format_key(key: str) -> str:
    return key if _PLAIN_KEY.fullmatch(key) else _quote(key)


def _quote(text: str) -> str:
    return escape_one_line(json.dumps(text, ensure_ascii=False))
