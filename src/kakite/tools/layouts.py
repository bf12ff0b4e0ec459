"""What of a text may change without changing what it says, by the type of its file. Pure.

One function decides: ``keys_of``. Texts whose keys are the same say the same. It errs on one side alone: what
it does not know well enough counts as a change, and of an unknown type everything but the line ends does.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from kakite.tools.statements import PASSES, Token

LARGEST = 1_000_000  # characters; of a larger text only the line ends do not count

Key = tuple[str, ...]
"""What a line says. Lines say the same where their keys, put together, are the same."""

Family = Literal["verbatim", "plain", "free", "lines", "script", "python", "css"]


@dataclass(frozen=True, slots=True)
class Layout:
    """How a type of file is written."""

    family: Family
    pattern: re.Pattern[str] | None = None
    """What matches one token."""


VERBATIM = Layout("verbatim")
"""Every character counts, but for line ends."""


def layout_of(path: str) -> Layout:
    """Return how the file of this name is written."""
    suffix = posixpath.splitext(path)[1].lower()
    return _BY_SUFFIX.get(suffix, VERBATIM)


def keys_of(lines: Sequence[str], layout: Layout) -> list[Key]:
    """Return what each line says, where it stands in the whole of this text.

    Laws: there is one for each line; the ends of lines do not count; what a string literal has in it does.
    """
    bare = [line.rstrip("\r\n") for line in lines]
    if sum(map(len, bare)) > LARGEST:
        layout = VERBATIM
    if layout.family == "plain":
        return _plain(bare)
    if layout.pattern is None:
        return [(line,) for line in bare]
    tokens = _Lexer(layout, "\n".join(bare)).tokens()
    keys: list[list[str]] = [[] for _ in bare]
    for token in PASSES[layout.family](tokens):
        keys[token.line].append(token.text)
    return [tuple(key) for key in keys]


_MANY_LINES = re.compile(
    r"<<|\"{3}|'{3}|~{3}|`|<pre\b|<textarea\b|R\"|\[=*\[|=begin|=pod|=head|__END__|__DATA__|\$\$|%[qQwWiIrsx]?\W|@[\"']$",
    re.IGNORECASE | re.MULTILINE,
)


def _plain(lines: Sequence[str]) -> list[Key]:
    """Return lines without the blanks at their ends, and without blank ones, where no literal has some."""
    text = "\n".join(lines)
    is_doubtful = _MANY_LINES.search(text) or any(line.count(q) % 2 for line in lines for q in "\"'")
    if is_doubtful:
        return [(line,) for line in lines]
    return [_without_end(line) for line in lines]


def _without_end(line: str) -> Key:
    kept = line.rstrip(" \t")
    if kept.endswith("\\") and kept != line:
        return (line,)
    return (kept,) if kept else ()


@dataclass(slots=True)
class _Lexer:
    """Cuts a text, whose lines end in LF alone, into tokens."""

    layout: Layout
    text: str
    line: int = 0
    last: Token | None = None
    """The last one that is no comment, gap or start."""
    found: list[Token] = field(default_factory=list[Token])

    def tokens(self) -> list[Token]:
        """Return all tokens."""
        text, pattern, at = self.text, self.layout.pattern, 0
        if pattern is None:
            return []
        exact = _exact_lines(text) if self.layout.family == "script" else frozenset[int]()
        while at < len(text):
            if at == 0 or text[at - 1] == "\n":
                at = self._start(at)
            match = pattern.match(text, at)
            if match is None:
                break
            kind, end = match.lastgroup or "sign", match.end()
            if kind == "end":
                self._blank("\n")
            elif kind == "blank":
                self._blank(match[0], is_exact=self.line in exact)
            else:
                end = self._end(kind, at, end)
                self._add("text" if kind in {"template", "slash"} and end > match.end() else kind, at, end)
            at = end
        return self.found

    def _start(self, at: int) -> int:
        indent = _INDENT.match(self.text, at)
        end = indent.end() if indent else at
        if end < len(self.text) and self.text[end] != "\n":
            self.found.append(Token(self.line, "start", " " + self.text[at:end]))
        return end

    def _blank(self, blank: str, *, is_exact: bool = False) -> None:
        if self.layout.family == "css":
            self.found.append(Token(self.line, "gap", " "))
        elif is_exact:
            self.found.append(Token(self.line, "gap", f" {blank}"))
        self.line += blank.count("\n")

    def _end(self, kind: str, at: int, end: int) -> int:
        """Return where a token ends that a pattern cannot match."""
        if kind == "template":
            return _template_end(self.text, at)
        if kind == "slash" and _may_begin(self.last):
            found = _REGEX.match(self.text, at)
            return found.end() if found else end
        if kind == "text" and self.layout.family == "python" and _is_open_field(self.text[at:end]):
            stop = self.text.find("\n", end)
            return len(self.text) if stop < 0 else stop
        return end

    def _add(self, kind: str, at: int, end: int) -> None:
        written = self.text[at:end]
        kind = "sign" if kind in {"slash", "template"} else kind
        first = self.line
        pieces = written.split("\n")
        if kind == "text":
            swaps = self.layout.family in {"python", "script", "css"}
            pieces = [_same_quotes(written)] if swaps and len(pieces) == 1 else pieces
            pieces = [f'"{piece}' for piece in pieces]
        elif kind == "comment":
            pieces = [f"#{piece.strip()}" for piece in pieces]
        tokens = [Token(first + index, kind, piece) for index, piece in enumerate(pieces)]
        self.found += tokens
        self.line = first + len(pieces) - 1
        if kind != "comment":
            self.last = tokens[-1]


_INDENT = re.compile(r"[ \t\f]*")
_REGEX = re.compile(r"/(?![*/])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\[\n])+/\w*")
_BEFORE_VALUE = frozenset(
    [
        "return",
        "typeof",
        "case",
        "in",
        "of",
        "delete",
        "void",
        "throw",
        "new",
        "instanceof",
        "do",
        "else",
        "yield",
        "await",
    ]
)


def _may_begin(last: Token | None) -> bool:
    """Return whether a slash behind this token begins an expression between slashes."""
    if last is None or last.kind in {"sign", "open"}:
        return True
    return last.kind == "word" and last.text in _BEFORE_VALUE


def _template_end(text: str, at: int) -> int:
    """Return where the template literal that begins here ends, with those that stand in it."""
    stack = ["`"]
    at += 1
    while at < len(text):
        char = text[at]
        if char == "\\":
            at += 2
            continue
        if stack[-1] == "`":
            if char == "`":
                stack.pop()
            elif text.startswith("${", at):
                stack.append("{")
                at += 1
        elif char in "`{":
            stack.append(char)
        elif char == "}":
            stack.pop()
        at += 1
        if not stack:
            return at
    return len(text)


_STRING = re.compile(r"""([A-Za-z]*)(["'])([^"'\\\n]*)\2""")


def _same_quotes(literal: str) -> str:
    """Return a literal, with double quotes where these mean the same."""
    found = _STRING.fullmatch(literal)
    return f'{found[1]}"{found[3]}"' if found else literal


def _is_open_field(literal: str) -> bool:
    """Return whether a Python string is cut within a field of its own: ``f"{a["``."""
    prefix = re.match(r"[A-Za-z]*", literal)
    marks = prefix[0].lower() if prefix else ""
    return ("f" in marks or "t" in marks) and literal.count("{") != literal.count("}")


_TAGS = re.compile(r"</[\w>]|/>")
_TAG = re.compile(r"</?[A-Za-z>]|/>")
_CODE = re.compile(r"[=(){}\[\];]")


def _exact_lines(text: str) -> frozenset[int]:
    """Return the lines in which blanks may be text between tags (JSX)."""
    if not _TAGS.search(text):
        return frozenset()
    return frozenset(
        number
        for number, line in enumerate(text.split("\n"))
        if _TAG.search(line) or not _CODE.search(line) or ("'" in line or '"' in line)
    )


_OPERATORS = [
    ">>>=",
    "===",
    "!==",
    "**=",
    "<<=",
    ">>=",
    ">>>",
    "...",
    "..=",
    "..<",
    "<=>",
    "&&=",
    "||=",
    "??=",
    "//=",
    "->",
    "=>",
    "==",
    "!=",
    "<=",
    ">=",
    "&&",
    "||",
    "??",
    "++",
    "--",
    "+=",
    "-=",
    "*=",
    "/=",
    "%=",
    "&=",
    "|=",
    "^=",
    "~=",
    ":=",
    "::",
    "<<",
    ">>",
    "**",
    "//",
    "..",
    "|>",
    "<|",
    "<-",
    "<>",
    "##",
    "!!",
    "?:",
    "?.",
    "@=",
    "=~",
    "!~",
    "/*",
    "*/",
    "&^",
    "<!",
    "!-",
    "$(",
    "${",
    "#{",
    "#[",
]
_SIGNS = "|".join(re.escape(each) for each in sorted(_OPERATORS, key=len, reverse=True))
_DOUBLE = r'"(?:\\[\s\S]|[^"\\\n])*(?:"|(?=\n)|\Z)'
_SINGLE = r"'(?:\\[\s\S]|[^'\\\n])*(?:'|(?=\n)|\Z)"
_LINE_COMMENT = r"//[^\n]*"
_BLOCK_COMMENT = r"/\*[\s\S]*?(?:\*/|\Z)"
_NUMBER = r"\.?\d[\w.]*"


def _pattern(*, comment: str, text: str, special: str = "", number: str = _NUMBER) -> re.Pattern[str]:
    parts = [
        r"(?P<end>\n)",
        r"(?P<blank>[ \t\f]+)",
        special,
        f"(?P<comment>{comment})" if comment else "",
        f"(?P<text>{text})",
        rf"(?P<word>{number}|[\w$]+)",
        r"(?P<open>[(\[{])",
        r"(?P<close>[)\]}])",
        rf"(?P<sign>\\[ \t]*(?:\n[ \t]*)+|\\[ \t]*\Z|{_SIGNS}|[\s\S])",
    ]
    return re.compile("|".join(filter(None, parts)))


_COMMENTS = f"{_LINE_COMMENT}|{_BLOCK_COMMENT}"
_PREPROCESSOR = r"(?m:^)\#(?:\\\n|[^\n])*"
_RAW_CPP = r'(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\([\s\S]*?(?:\)(?P=mark)"|\Z)'
_CHAR_OR_LIFETIME = r"'(?:\\[^\n']*|[^'\\\n])'|'\w+"
_THREE = r'"""(?:\\[\s\S]|[^\\])*?(?:"""|\Z)'

_PYTHON = Layout(
    "python",
    _pattern(
        comment=r"\#[^\n]*",
        text=rf"[A-Za-z]{{0,2}}(?:{_THREE}|'''(?:\\[\s\S]|[^\\])*?(?:'''|\Z)|{_DOUBLE}|{_SINGLE})",
    ),
)
_SCRIPT = Layout(
    "script",
    _pattern(comment=_COMMENTS, text=f"{_DOUBLE}|{_SINGLE}", special=r"(?P<template>`)|(?P<slash>/(?![/*]))"),
)
_JSON = Layout("free", _pattern(comment=_COMMENTS, text=f"{_DOUBLE}|{_SINGLE}"))
_JAVA = Layout("free", _pattern(comment=_COMMENTS, text=f"{_THREE}|{_DOUBLE}|{_SINGLE}"))
_C = Layout(
    "free",
    _pattern(
        comment=_COMMENTS,
        text=f"[ \t]*{_PREPROCESSOR}|{_RAW_CPP}|{_DOUBLE}|{_SINGLE}",
        number=r"\.?\d(?:[\w.]|'(?=\w))*",
    ),
)
_RUST = Layout(
    "free",
    _pattern(
        comment=_COMMENTS,
        text=rf'b?r(?P<mark>\#*)"[\s\S]*?(?:"(?P=mark)|\Z)|b?"(?:\\[\s\S]|[^"\\])*(?:"|\Z)|{_CHAR_OR_LIFETIME}',
    ),
)
_GO = Layout("lines", _pattern(comment=_COMMENTS, text=rf"`[^`]*(?:`|\Z)|{_DOUBLE}|{_SINGLE}"))
_KOTLIN = Layout("lines", _pattern(comment=_COMMENTS, text=rf'"""[\s\S]*?(?:"""+|\Z)|{_DOUBLE}|{_SINGLE}'))
_URL = r"url\([^\"')]*\)"
_CSS = Layout("css", _pattern(comment=_BLOCK_COMMENT, text=f"{_URL}|{_DOUBLE}|{_SINGLE}"))
_SCSS = Layout("css", _pattern(comment=_COMMENTS, text=f"{_URL}|{_DOUBLE}|{_SINGLE}"))
_PLAIN = Layout("plain")

_SUFFIXES: tuple[tuple[Layout, str], ...] = (
    (_PYTHON, ".py .pyi .pyw"),
    (_SCRIPT, ".js .mjs .cjs .jsx .ts .mts .cts .tsx"),
    (_JSON, ".json .jsonc .json5 .ipynb"),
    (_JAVA, ".java"),
    (_C, ".c .h .cc .cpp .cxx .hh .hpp .hxx"),
    (_RUST, ".rs"),
    (_GO, ".go"),
    (_KOTLIN, ".kt .kts"),
    (_CSS, ".css"),
    (_SCSS, ".scss .less"),
    (_PLAIN, ".sh .bash .zsh .fish .rb .pl .pm .lua .sql .r .ex .exs .hs .nim .coffee .toml .tf .hcl .swift"),
    (_PLAIN, ".scala .groovy .gradle .erl .clj .jl .cs .dart .ps1 .ml .fs"),
)
_BY_SUFFIX = {suffix: layout for layout, suffixes in _SUFFIXES for suffix in suffixes.split()}
