"""Finds secrets by their name, their pattern or their value, and redacts them.

``is_secret_name`` checks a name, ``find_secret_spans`` finds secrets in a text by their pattern and the
names before them, and ``Redaction`` replaces those and all known values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast
from urllib.parse import quote

HIDDEN = "[redacted]"

SHORTEST_SECRET = 6  # characters; a shorter value of a variable would blank out half of what is told

Span = tuple[int, int]
"""Half-open offsets."""

_CAMEL_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SEPARATORS = re.compile(r"[-. ]")
_SECRET_NAME = re.compile(
    r"passw|passphrase|passcode|secret|token(?!i[sz])|credential|authori[sz]ation|cookie|bearer"
    r"|(?:api|access|private)_?key"
    r"|(?:^|_)(?:o?auth|pwd|pat|creds?|dsn|jwt|sig|signature)(?=_|\d|$)"
    r"|(?<!mon)(?<!don)(?<!hot)(?<!tur)key(?:_?\d+)?$|(?<!ask)(?<!com)(?<!by)pass(?:_?\d+)?$"
)
_MAYBE_SECRET = re.compile(r"(?i)pass|secret|token|cred|auth|cookie|bearer|key|pwd|pat|dsn|jwt|sig")
"""Without any of these no name is a secret's: most text is spared the long look."""
_NOT_SECRET_NAMES = frozenset(("PWD", "OLDPWD"))

# Each begins at the edge of a word only, or looks back a bounded way: long texts must not take long.
_SECRET_PATTERN = re.compile(
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)"
    r"|(?<![\w-])(?:eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"  # a signed token
    r"|(?:sk|pk|rk)[-_][\w-]{16,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}"
    r"|xox[abeoprs]-[\w-]{10,}|(?:AKIA|ASIA)[0-9A-Z]{16}\b|AIza[\w-]{30,}|hf_\w{20,}|npm_\w{20,}"
    r"|pypi-[\w-]{30,}|dop_v1_\w{20,}|ya29\.[\w-]{20,}|(?:gsk|ntn|whsec|lin_api|shp(?:at|ca|pa|ss))_\w{20,}"
    r"|(?:xai|tvly)-[\w-]{20,}|SG\.[\w-]{16,}\.[\w-]{16,})"
)
_KEY_BEGIN = re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----")
_KEY_END = re.compile(r"-----END [A-Z ]{0,40}PRIVATE KEY-----")
_MAX_KEY_LENGTH = 64 * 1024  # characters of a key; one that has no end shall not hide all that follows
_LINE_END = re.compile(r"[\r\n]+|\\r|\\n")
"""Also as it is written in a variable that holds a key in one line."""
_FRAME = re.compile(r"-----(?:BEGIN|END) [^-]*-----")
_SCHEME = r"(?:bearer|basic|token|digest|apikey)"
_BEARER = re.compile(
    r"\b(?i:bearer)\s{1,8}([\w.+/=~-]{8,})|\b(?i:basic|token)\s{1,8}(?=\S*[A-Z0-9])([\w.+/=~-]{8,})"
)
_URL_CREDENTIALS = re.compile(r"(?<!\w)[\w+.-]{1,30}://([^\s/?#]{1,1000})@")
_WORD = r"(?<![A-Za-z0-9_])([A-Za-z_][\w.-]{0,79})"
_NAMED = re.compile(rf"{_WORD}\\{{0,3}}[\"']?[ \t]{{0,8}}[=:][ \t]{{0,8}}(?i:{_SCHEME}[ \t]{{1,8}})?")
_FLAG = re.compile(r"(?<![\w-])--?([A-Za-z_][\w.-]{0,79})(?:[ \t]{1,8}|\\{0,3}[\"'],[ \t]{0,8})(?!-)")
_VALUE = re.compile(
    r"\\+[\"']([^\"'\\\n]*)"
    r"|\"((?:\\.|[^\"\\\n])*)"
    r"|'((?:\\.|[^'\\\n])*)"
    r"|((?:[^\s\"']|[\"'](?=[^\s,;)\]}\"']))+)"
)
_SUBJECT = re.compile(
    r"(?i)(?:\d|(?<![\w=])(?:tests?|checks?|suites?|cases?|all|both|these|they|it|that|and|now|still|not|to"
    r"|can|could|do|does|may|might|must|shall|should|will|would))[ \t]{1,8}\Z"
)
"""What makes ``pass:`` a verb before a plain word: all tests pass: the sign was wrong."""
_PLAIN_WORD = re.compile(r"[A-Za-z]+(?=[.,;:!?]?(?:\s|\Z))")
_IN_QUERY = re.compile(r"([^\s\"'&#]+)")
_WHOLE_LINE = re.compile(r"([^\n\"'\\]+)")


def is_secret_name(name: str) -> bool:
    """Return whether a variable, header, argument, parameter or field of this name holds a secret."""
    if name in _NOT_SECRET_NAMES:
        return False
    return bool(_SECRET_NAME.search(_SEPARATORS.sub("_", _CAMEL_BOUNDARY.sub("_", name)).lower()))


def find_secret_spans(text: str) -> list[Span]:
    """Return where secrets stand in a text, as far as that can be told without their values."""
    return [*find_pattern_spans(text), *find_named_spans(text)]


def _merge_spans(found: Iterable[Span]) -> list[Span]:
    spans: list[Span] = []
    for start, end in sorted(found):
        if spans and start <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        else:
            spans.append((start, end))
    return spans


def find_pattern_spans(text: str) -> Iterator[Span]:
    """Yield where something stands that is a secret by its look."""
    return (found.span() for found in _SECRET_PATTERN.finditer(text))


def find_named_spans(text: str) -> Iterator[Span]:
    """Yield where something stands that is a secret by what is before it: a name, a scheme, an address."""
    for found in _BEARER.finditer(text):
        yield found.span(found.lastindex or 0)
    if "://" in text:
        yield from (found.span(1) for found in _URL_CREDENTIALS.finditer(text))
    if not _MAYBE_SECRET.search(text):
        return
    for pattern in (_NAMED, _FLAG):
        at = 0
        while found := pattern.search(text, at):
            at = found.end()
            if not is_secret_name(found[1]) or _is_verb(text, found):
                continue
            if value := _match_value(text, found):
                yield value.span(value.lastindex or 0)
                at = value.end()  # what is hidden is not looked at again


def _is_verb(text: str, named: re.Match[str]) -> bool:
    if named[1].lower() != "pass" or named[0].endswith("="):
        return False
    if not _PLAIN_WORD.match(text, named.end()):
        return False
    return bool(_SUBJECT.search(text, max(named.start() - 16, 0), named.start()))


def _match_value(text: str, named: re.Match[str]) -> re.Match[str] | None:
    before = text[named.start() - 1 : named.start()]
    if before in {"?", "&"} and before:
        return _IN_QUERY.match(text, named.end())
    name = named[1].lower()
    if name.endswith(("authorization", "cookie")) and ":" in named[0]:
        return _WHOLE_LINE.match(text, named.end()) or _VALUE.match(text, named.end())
    return _VALUE.match(text, named.end())


class Redaction:
    """Blanks out what is named or looks like a secret, and values that are known, wherever they stand.

    One is shared by all that tells or writes something of a host. What is learnt later counts from then on,
    for all of them and in every thread.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        """``secrets`` are values; they and their lines are not looked for if shorter than six characters."""
        self._values: set[str] = set()
        self._known: re.Pattern[str] | None = None
        self.add_secrets(secrets)

    def __repr__(self) -> str:
        """Show no value."""
        return f"Redaction({len(self._values)} values)"

    def add_secrets(self, secrets: Iterable[str]) -> None:
        """Blank out these values too from now on. None is ever forgotten: an old token may be told late."""
        found = {part for value in secrets for part in (value, *_split_secret(value))}
        new = {each for part in found if len(part) >= SHORTEST_SECRET for each in _list_encodings(part)}
        if new <= self._values:
            return
        self._values |= new
        # The longest first: one may be part of another.
        longest = sorted(self._values, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, longest)))

    def redact(self, text: str) -> str:
        """Return the text without secrets."""
        text = self._redact_known(text)
        return replace_spans(text, find_secret_spans(text), lambda _: HIDDEN)

    def redact_tail(self, text: str) -> str:
        """Return the end of a longer text without secrets, and without what may be the rest of one."""
        _, _, whole = text.partition("\n")
        ends, begins = _KEY_END.search(whole), _KEY_BEGIN.search(whole)
        if ends and not (begins and begins.start() < ends.start()):
            whole = whole[ends.end() :]
        return self.redact(whole)

    def _redact_known(self, text: str) -> str:
        return text if self._known is None else self._known.sub(HIDDEN, text)

    def make_stream_filter(self) -> Callable[[str], str]:
        """Return what hides secrets in a text that comes piece by piece, each of whole lines.

        A private key that begins in one piece is hidden until it ends in another.
        """
        inside = 0  # characters that may still belong to a key

        def redact_piece(text: str) -> str:
            nonlocal inside
            text, inside = _skip_open_key(text, inside)
            known = self._redact_known(text)
            inside = inside or _measure_open_key(known)
            return self.redact(known)

        return redact_piece

    def redact_json(self, value: Any) -> Any:
        """Return a decoded JSON value without secrets, those under telling names as a whole."""
        match value:
            case str():
                return self.redact(value)
            case dict():
                items = cast("dict[Any, Any]", value).items()
                return {self.redact(str(name)): self._redact_named(str(name), each) for name, each in items}
            case list() | tuple():
                return self._redact_words(cast("list[Any]", value))
            case _:
                return value

    def _redact_named(self, name: str, value: Any) -> Any:
        tells = isinstance(value, bool | None) or not is_secret_name(name)
        return self.redact_json(value) if tells else HIDDEN

    def _redact_words(self, words: Iterable[Any]) -> list[Any]:
        """A list may be a command line: what follows ``--token`` is no word like others."""
        told: list[Any] = []
        before = ""
        for each in words:
            told.append(
                HIDDEN
                if isinstance(each, str) and is_secret_flag_value(before, each)
                else self.redact_json(each)
            )
            before = each if isinstance(each, str) else ""
        return told


def is_secret_flag_value(flag: str, value: str) -> bool:
    """Return whether a word of a command line is the value of the flag before it, and a secret by that."""
    return (
        flag.startswith("-")
        and "=" not in flag
        and is_secret_name(flag.lstrip("-"))
        and not value.startswith("-")
    )


def replace_spans(text: str, spans: Iterable[Span], stand_in: Callable[[str], str]) -> str:
    """Return the text with something else in the place of spans; those that touch are one."""
    pieces: list[str] = []
    at = 0
    for start, end in _merge_spans(spans):
        pieces += [text[at:start], stand_in(text[start:end])]
        at = end
    return "".join([*pieces, text[at:]])


def _skip_open_key(text: str, inside: int) -> tuple[str, int]:
    """Return what of a text follows a key that began before, and how many characters it may still go on."""
    if not inside:
        return text, 0
    if end := _KEY_END.search(text):
        return text[end.end() :], 0
    return text[inside:], max(inside - len(text), 0)


def _measure_open_key(text: str) -> int:
    """Return how many characters a key that begins in a text may go on after it; 0 if none is open."""
    begun = 0
    for begun_at in _KEY_BEGIN.finditer(text):
        begun = begun_at.end()
    if not begun or _KEY_END.search(text, begun):
        return 0
    return max(_MAX_KEY_LENGTH - (len(text) - begun), 0)


def _split_secret(value: str) -> list[str]:
    """Return the lines of a value that has several: what writes it may write them one by one.

    Not what frames a key, which every other key has too and is known by.
    """
    lines = [line.strip() for line in _LINE_END.split(value)]
    return [line for line in lines if not _FRAME.fullmatch(line)] if len(lines) > 1 else []


def _list_encodings(value: str) -> set[str]:
    """Return how a value may be written: as it is, in an address, in JSON."""
    return {
        value,
        quote(value, safe="", errors="replace"),
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
    }


def build_redaction(environ: Mapping[str, str]) -> Redaction:
    """Return what takes the values of an environment out of texts that are secrets by their names."""
    return Redaction(value for name, value in environ.items() if is_secret_name(name))
