"""What consent is given to: an entry or a tool as a plain object, its digest, and how a person sees it.

A literal secret in an entry (a header, a variable or an argument that is named like one, a password in an
address) counts in its digest, and is shown and stored as a mask alone. Nothing here is ever expanded.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any, cast

from kakite.host.entries import Address, OAuthClient, ServerEntry
from kakite.host.expansion import variables
from kakite.host.judging import Rule
from kakite.host.masking import masked_environment, masked_secret, masked_text, masked_words
from kakite.host.rules import written
from kakite.tools.toolset import META_EFFECT, JsonObject
from kakite.visible import shell_words
from kakite.visible import visible_name as visible

_DEFINED_BY = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
_PLAIN_KEY = re.compile(r"[\w$-]+", re.ASCII)


def entry_digest(entry: ServerEntry) -> str:
    """Return the SHA-256 of all in an entry that decides what it may do, as ``sha256:…``.

    That is how the server is reached, which variables it gets, what goes without a question, which tools it
    offers and what it is believed. Not: its name, where it stands, time-outs, and whether it is disabled.
    """
    return _digest(_entry_object(entry))


def definition_digest(definition: JsonObject) -> str:
    """Return the SHA-256 of a tool as its server defines it; what is null is as good as not there."""
    return _digest(definition_form(definition))


def entry_form(entry: ServerEntry) -> JsonObject:
    """Return what ``entry_digest`` is made of, with fingerprints for literal secrets."""
    whole = _entry_object(entry)
    reached = entry.reached
    if isinstance(reached, Address):
        whole["url"] = masked_text(reached.url)
        whole["headers"] = {name: masked_secret(text) for name, text in reached.headers.items()}
        if "oauth" in whole:
            shown = {key: masked_text(text) for key, text in _oauth_texts(reached.oauth).items()}
            whole["oauth"] = {**whole["oauth"], **shown, "secret": masked_secret(reached.oauth.secret)}
    else:
        whole["command"], *whole["args"] = masked_words((reached.command, *reached.args))
        whole["env"] = masked_environment(reached.env)
    return whole


def definition_form(definition: JsonObject) -> JsonObject:
    """Return the part of a tool's definition that a model goes by, and that is pinned."""
    form: JsonObject = {key: definition[key] for key in _DEFINED_BY if definition.get(key) is not None}
    meta = definition.get("_meta")
    effect = cast("JsonObject", meta).get(META_EFFECT) if isinstance(meta, dict) else None
    return form if effect is None else {**form, "_meta": {META_EFFECT: effect}}


def difference(accepted: JsonObject, present: JsonObject) -> str:
    """Return what changed, a line for each value, ``-`` before what was and ``+`` before what is."""
    before, after = list(_lines("", accepted)), list(_lines("", present))
    if before == after:
        return "what is hidden changed"
    changes = difflib.unified_diff(before, after, "accepted", "now", lineterm="", n=1)
    return "\n".join(line for line in changes if not line.startswith("@@"))


def describe(entry: ServerEntry) -> str:
    """Return what a person consents to, some lines for a terminal: what does not show is escaped.

    The command line is exact and quoted as a shell would need it; variables stand as written.
    """
    where = f"{visible(entry.origin.file)}:{entry.origin.line}"
    told = [f"{visible(entry.name)} ({entry.origin.scope}, {where})", *_described(entry)]
    if names := variables(entry):
        told.append(f"gets from your environment: {', '.join(names)}")
    if entry.auto_approve is True:
        told.append("WITHOUT A QUESTION: all calls of its tools")
    elif entry.auto_approve:
        told.append(f"WITHOUT A QUESTION: its tools {_listed(entry.auto_approve)}")
    rules = (json.dumps(rule_object(rule), ensure_ascii=False) for rule in entry.rules)
    told += [f"rule: {visible(rule)}" for rule in rules]
    if entry.include != ("*",) or entry.exclude:
        told.append(f"tools: {_listed(entry.include)}, without {_listed(entry.exclude)}")
    if entry.lifecycle != "lazy":
        told.append("starts by itself, whether or not it is needed")
    if entry.trusted:
        told.append("believed in what it says of its tools")
    return "\n  ".join(told)


def _described(entry: ServerEntry) -> Iterator[str]:
    reached = entry.reached
    if isinstance(reached, Address):
        yield from _described_address(reached)
        return
    yield f"starts: {shell_words(masked_words((reached.command, *reached.args)))}"
    if reached.cwd:
        yield f"in the folder: {visible(reached.cwd)}"
    for name, text in masked_environment(reached.env).items():
        yield f"with: {visible(name)}={shell_words((text,))}"


def _described_address(address: Address) -> Iterator[str]:
    yield f"speaks to: {visible(masked_text(address.url))}"
    if address.insecure:
        yield "MAY SPEAK PLAIN HTTP, which others on the way can read and change"
    for name, text in address.headers.items():
        yield f"sends the header: {visible(name)}: {visible(masked_secret(text))}"
    for key, text in _oauth_texts(address.oauth).items():
        if text:
            yield f"{_OAUTH_SHOWN[key]}: {visible(masked_text(text))}"
    if address.oauth.secret:
        yield f"shows it the secret: {visible(masked_secret(address.oauth.secret))}"
    if address.oauth.port:
        yield f"listens for the browser on the port: {address.oauth.port}"


_OAUTH_SHOWN = {
    "id": "logs in as",
    "issuer": "logs in at",
    "metadata_url": "is described to who logs it in by",
}


def _oauth_texts(oauth: OAuthClient) -> dict[str, str]:
    return {"id": oauth.id, "issuer": oauth.issuer, "metadata_url": oauth.metadata_url}


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(map(visible, names)) or "none"


def _entry_object(entry: ServerEntry) -> JsonObject:
    allowed = entry.auto_approve
    return {
        **_reached_object(entry),
        "autoApprove": allowed if isinstance(allowed, bool) else list(allowed),
        **({"rules": list(map(rule_object, entry.rules))} if entry.rules else {}),
        "include": list(entry.include),
        "exclude": list(entry.exclude),
        "trusted": entry.trusted,
        "lifecycle": entry.lifecycle,
        "protocolVersion": entry.protocol,
    }


def rule_object(rule: Rule) -> JsonObject:
    """Return a rule of an entry as the entry has it."""
    return written(replace(rule, server=""))


def _reached_object(entry: ServerEntry) -> JsonObject:
    reached = entry.reached
    if isinstance(reached, Address):
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
    }


def _digest(value: JsonObject) -> str:
    # Keys sorted, no blanks, ASCII: the same object gives the same bytes everywhere.
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return f"sha256:{hashlib.sha256(canonical.encode()).hexdigest()}"


def _lines(path: str, value: object) -> Iterator[str]:
    """Yield each value with its path; texts in quotes, a line for each of theirs."""
    if isinstance(value, dict) and value:
        for key, inner in sorted(cast("dict[str, Any]", value).items()):
            yield from _lines(f"{path}.{_key(key)}" if path else _key(key), inner)
    elif isinstance(value, list) and value:
        for index, inner in enumerate(cast("list[Any]", value)):
            yield from _lines(f"{path}[{index}]", inner)
    elif isinstance(value, str):
        for line in value.split("\n"):
            yield f"{path}: {_quoted(line)}"
    else:
        yield f"{path}: {json.dumps(value)}"


def _key(key: str) -> str:
    return key if _PLAIN_KEY.fullmatch(key) else _quoted(key)


def _quoted(text: str) -> str:
    return visible(json.dumps(text, ensure_ascii=False))
