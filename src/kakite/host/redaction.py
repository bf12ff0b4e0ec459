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
# Each begins at the edge of a word only, or looks back a bounded way: long texts must not take long.
_LOOKS_SECRET = re.compile(
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)"
    r"|(?<![\w-])(?:eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"  # a signed token
    r"|(?:sk|pk|rk)[-_][\w-]{16,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}"
    r"|xox[abeoprs]-[\w-]{10,}|(?:AKIA|ASIA)[0-9A-Z]{16}\b|AIza[\w-]{30,}|hf_\w{20,}|npm_\w{20,}"
    r"|pypi-[\w-]{30,}|dop_v1_\w{20,}|ya29\.[\w-]{20,})"
)
_BEARER = re.compile(r"\b(bearer|basic|token)(\s{1,8})[\w.+/=~-]{8,}", re.IGNORECASE)
_IN_ADDRESS = re.compile(r"(?<!\w)(\w{1,20}://)[^\s/@]{1,1000}@")
_ASSIGNED = re.compile(
    r"(?i)(?<![\w-])([\w-]{0,40}?(?:password|passwd|secret|token|api[-_]?key)[\w-]{0,40}\s{0,8}[=:]\s{0,8})"
    r"(\"[^\"]*\"|'[^']*'|[^\s\"'&,;]+)"
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
