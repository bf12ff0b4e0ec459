"""Values without the secrets in them, as far as those can be told."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, cast

HIDDEN = "[redacted]"

SHORTEST_SECRET = 6  # characters; a shorter value of a variable would blank out half of what is told
_KEY = re.compile(
    r"pass(?:word|wd|phrase)|secret|token|authori[sz]ation|api.?key|access.?key|private.?key|credential|cookie"
    r"|(?:^|[-_])(?:auth|pwd|pat)(?:$|[-_])",
    re.IGNORECASE,
)
_LOOKS_SECRET = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"  # a signed token
    r"|\b(?:sk|pk|rk)[-_][\w-]{16,}|\bgh[pousr]_\w{20,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}"
    r"|\bxox[abeoprs]-[\w-]{10,}|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\bAIza[\w-]{30,}|\bhf_\w{20,}|\bnpm_\w{20,}"
    r"|\bpypi-[\w-]{30,}|\bdop_v1_\w{20,}|\bya29\.[\w-]{20,}"
)
_BEARER = re.compile(r"\b(bearer|basic|token)(\s+)[\w.+/=~-]{8,}", re.IGNORECASE)
_IN_ADDRESS = re.compile(r"(\w+://)[^\s/@]+@")
_ASSIGNED = re.compile(
    r"(?i)\b([\w-]*(?:password|passwd|secret|token|api[-_]?key)[\w-]*\s*[=:]\s*)(\"[^\"]*\"|'[^']*'|[^\s\"'&,;]+)"
)


class Redaction:
    """Blanks out what is named or looks like a secret, and the values of variables wherever they stand."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        """``secrets`` are values; those shorter than six characters are not looked for."""
        known = {value for value in secrets if len(value) >= SHORTEST_SECRET}
        # The longest first: one may be part of another.
        longest = sorted(known, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, longest))) if longest else None

    def text(self, text: str) -> str:
        """Return the text without secrets."""
        if self._known is not None:
            text = self._known.sub(HIDDEN, text)
        text = _LOOKS_SECRET.sub(HIDDEN, text)
        text = _BEARER.sub(rf"\1\2{HIDDEN}", text)
        text = _ASSIGNED.sub(rf"\1{HIDDEN}", text)
        return _IN_ADDRESS.sub(rf"\1{HIDDEN}@", text)

    def value(self, value: Any) -> Any:
        """Return a decoded JSON value without secrets, those under telling names as a whole."""
        match value:
            case str():
                return self.text(value)
            case dict():
                items = cast("dict[Any, Any]", value).items()
                return {self.text(str(name)): self._named(str(name), each) for name, each in items}
            case list() | tuple():
                return [self.value(each) for each in cast("list[Any]", value)]
            case _:
                return value

    def _named(self, name: str, value: Any) -> Any:
        tells = isinstance(value, bool | None) or not _KEY.search(name)
        return self.value(value) if tells else HIDDEN
