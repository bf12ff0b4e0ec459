"""What a person consents to, with its secrets masked: ``(hidden, sha256 …)`` changes when the secret does.

A project may write a command so that it looks like a secret and nobody sees it. So nothing is masked
here that could be what runs: no program or package, no path, and nothing that a shell would obey.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import PurePath

from kakite.host.redaction import (
    asks_for_secret,
    looking_spans,
    named_spans,
    names_secret,
    replaced,
    secret_spans,
)

_OBEYED = re.compile(r"[\s;|&<>`()]")
"""What no secret has, and what a command that hides as one would need."""
_LEADING = tuple("-./~@")
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


def masked_secret(text: str) -> str:
    """Return a value that is a secret by its name. Variables in it are shown, their defaults masked."""
    pieces: list[str] = []
    at = 0
    for found in _REFERENCE.finditer(text):
        default = f":-{mask(found[2])}" if found[2] else found[0][2 + len(found[1]) : -1]
        pieces += [_literal(text[at : found.start()]), "${", found[1], default, "}"]
        at = found.end()
    return "".join([*pieces, _literal(text[at:])])


def masked_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return variables with the secrets in them masked."""
    return {
        name: masked_secret(text) if names_secret(name) and not _acts(text) else masked_text(text)
        for name, text in env.items()
    }


def masked_text(text: str) -> str:
    """Return a text, such as an address, with those secrets masked that can be told in it."""
    text = _without_forgery(text)
    return replaced(text, secret_spans(text), _unless_obeyed)


def masked_words(words: Sequence[str]) -> tuple[str, ...]:
    """Return a command line, the program first, with the secrets among its arguments masked."""
    launches = PurePath(words[0]).name.split(".")[0] in _LAUNCHERS
    named = not launches  # whether what runs was named by now
    masked = [words[0]]
    for before, word in pairwise(words):
        masked.append(_masked_word(before, word, named=named, launches=launches))
        named = named or not word.startswith("-")
    return tuple(masked)


def _masked_word(before: str, word: str, *, named: bool, launches: bool) -> str:
    if named and asks_for_secret(before, word) and not _acts(word):
        return masked_secret(word)
    assigned = _ASSIGNED.fullmatch(word)
    if assigned and names_secret(assigned[2]) and not _acts(assigned[3]):
        return assigned[1] + masked_secret(assigned[3])
    word = _without_forgery(word)
    if launches and (_OBEYED.search(word) or list(looking_spans(word)) == [(0, len(word))]):
        # A script, or what is to be run: only what a name stands before is surely no command.
        return replaced(word, named_spans(word), _unless_obeyed)
    return replaced(word, secret_spans(word), _unless_obeyed)


def _acts(text: str) -> bool:
    bare = _BRACES.sub("", text)
    return bool(_OBEYED.search(bare)) or bare.startswith(_LEADING)


def _unless_obeyed(secret: str) -> str:
    """Mask what stands in a text up to what a shell, or we, would read as more than a value."""
    end = re.search(r"[\s;|&<>`()$]", secret)
    value = secret[: end.start()] if end and not secret.startswith("-----BEGIN") else secret
    if not value or (value.startswith(_LEADING) and not value.startswith("-----BEGIN")):
        return secret
    return mask(value) + secret[len(value) :]


def _without_forgery(text: str) -> str:
    return _MASK.sub(lambda found: mask(found[0]), text)


def _literal(text: str) -> str:
    scheme = _SCHEME.match(text)
    head = scheme[0] if scheme else ""
    return head + (mask(text[len(head) :]) if text[len(head) :].strip() else text[len(head) :])
