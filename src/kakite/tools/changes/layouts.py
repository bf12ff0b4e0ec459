"""Normalizes the lines of a file by its type, so that changes of layout alone are recognised. Pure.

``normalize_lines`` decides: two texts with the same keys say the same. It errs on one side only: what it does
not know well enough counts as a change, and for an unknown type everything but the line ends does. For some
languages it also knows which line breaks, commas and blanks between tokens mean something.
"""

from __future__ import annotations

import keyword
import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal


@dataclass(slots=True)
class SourceToken:
    """A piece of a text that stands for itself."""

    line: int
    kind: str
    """``start`` of a line that is not blank, ``gap``, ``comment``, ``text``, ``word``, ``sign``, or
    a bracket: ``open``, ``close``.
    """
    text: str
    is_head: bool = False
    """Whether it closes what ``if``, ``for`` or ``while`` is about."""


def _filter_free(tokens: Sequence[SourceToken]) -> Iterator[SourceToken]:
    """Line breaks mean nothing."""
    return (token for token in tokens if token.kind != "start")


def _filter_lines(tokens: Sequence[SourceToken]) -> Iterator[SourceToken]:
    """Line breaks may end statements, except within round and square brackets."""
    stack: list[str] = []
    last: SourceToken | None = None
    for index, token in enumerate(tokens):
        if token.kind == "start":
            following = _find_next(tokens, index)
            is_inside = bool(stack) and stack[-1] != "{"
            if (
                last
                and not is_inside
                and last.text not in {*"{([,"}
                and following
                and following.kind != "close"
            ):
                yield SourceToken(last.line, "sign", "\n")
            continue
        _track_brackets(stack, token)
        last = last if token.kind == "comment" else token
        yield token


def _track_brackets(stack: list[str], token: SourceToken) -> None:
    if token.kind == "open":
        stack.append(token.text)
    elif token.kind == "close" and stack:
        stack.pop()


def _find_next(tokens: Sequence[SourceToken], index: int) -> SourceToken | None:
    """Return the next token that is no comment, gap or start."""
    for at in range(index + 1, len(tokens)):
        if tokens[at].kind not in {"comment", "gap", "start"}:
            return tokens[at]
    return None


_NO_NAMES = frozenset([*keyword.kwlist, "match", "case", "type"])


@dataclass(slots=True)
class _Bracket:
    mark: str
    before: SourceToken | None
    """What it opens behind."""
    commas: int = 0


def _filter_python(tokens: Sequence[SourceToken]) -> Iterator[SourceToken]:
    """Lines and their indentation count, except within brackets."""
    kept: list[SourceToken] = []
    stack: list[_Bracket] = []
    last: SourceToken | None = None
    for token in tokens:
        if token.kind == "start":
            if not stack:
                kept.append(token)
            continue
        if token.kind == "open":
            stack.append(_Bracket(token.text, last))
        elif token.kind == "close" and stack:
            bracket = stack.pop()
            if _has_spare_comma(bracket):
                _drop_last(kept, ",")
        elif token.text == "," and token.kind == "sign" and stack:
            stack[-1].commas += 1
        kept.append(token)
        last = last if token.kind == "comment" else token
    return iter(kept)


def _has_spare_comma(bracket: _Bracket) -> bool:
    """Return whether a comma before the end of this bracket means nothing: it makes no tuple."""
    if bracket.mark == "{" or bracket.commas > 1:
        return True
    before = bracket.before
    is_word = before is not None and before.kind == "word" and before.text not in _NO_NAMES
    is_value = before is not None and (is_word or before.kind in {"close", "text"})
    return is_value if bracket.mark == "(" else not is_value


def _drop_last(kept: list[SourceToken], text: str) -> None:
    """Drop the last token, comments aside, if it is this one and stands behind something."""
    at = len(kept) - 1
    while at >= 0 and kept[at].kind == "comment":
        at -= 1
    before = at - 1
    while before >= 0 and kept[before].kind == "comment":
        before -= 1
    is_it = before >= 0 and kept[at].kind == "sign" and kept[at].text == text
    if is_it and kept[before].kind != "open" and kept[before].text != ",":
        del kept[at]


_END = "end of statement"
_PERHAPS = "end of line"
_ENDED_BY_LINE = frozenset(["return", "throw", "break", "continue", "yield"])
_BROKEN_OFF = frozenset(
    [
        "get",
        "set",
        "static",
        "async",
        "type",
        "declare",
        "abstract",
        "namespace",
        "module",
        "let",
        "await",
        "of",
        "as",
    ]
)
_JOINED_WORDS = frozenset(["in", "instanceof", "as", "satisfies", "of", "while"])
_AFTER_BLOCK = frozenset(["else", "catch", "finally"])
_BEGINNERS = frozenset(["+", "-", "/", "<", "!", "~", "@", "#", "*", "...", "(", "["])
"""What may begin a statement, or go on with the one of the line above."""
_HEADS = frozenset(["if", "for", "while", "with"])


def _filter_script(tokens: Sequence[SourceToken]) -> Iterator[SourceToken]:
    """Line breaks end statements as in JavaScript: as a semicolon does, or not at all."""
    kept: list[SourceToken] = []
    stack: list[_Bracket] = []
    last: SourceToken | None = None
    for index, token in enumerate(tokens):
        if token.kind in {"comment", "gap"}:
            kept.append(token)
            continue
        is_inside = bool(stack) and stack[-1].mark != "{"
        if token.kind == "start":
            ending = (
                "" if is_inside or last is None else _classify_line_break(last, _find_next(tokens, index))
            )
            if ending and last:
                last = SourceToken(last.line, "sign", ending)
                kept.append(last)
            continue
        if token.text == ";" and token.kind == "sign" and not is_inside and _is_statement(last):
            token = SourceToken(token.line, "sign", _END)  # noqa: PLW2901
        elif token.kind == "open":
            stack.append(_Bracket(token.text, last))
        elif token.kind == "close":
            bracket = stack.pop() if stack else _Bracket("", None)
            _drop_last(kept, "," if _is_list(bracket) else _END)
            before = bracket.before
            token.is_head = before is not None and before.kind == "word" and before.text in _HEADS
        kept.append(token)
        last = token
    if last is not None and last.text != _END:
        kept.append(SourceToken(last.line, "sign", _END))
    return iter(kept)


def _is_list(bracket: _Bracket) -> bool:
    """Return whether a bracket surely holds what commas stand between, and no statements."""
    before = bracket.before
    if bracket.mark in {"(", "["}:
        return before is None or before.text not in _HEADS
    if before is None or before.text in {_END, _PERHAPS, ";", "=>"}:
        return False
    if before.kind == "word":
        return before.text in _BEFORE_LIST
    return before.kind == "sign" or before.text in {"(", "["}


_BEFORE_LIST = frozenset(
    [
        "return",
        "import",
        "export",
        "const",
        "let",
        "var",
        "type",
        "default",
        "of",
        "in",
        "typeof",
        "case",
        "new",
        "await",
        "yield",
    ]
)


def _is_statement(last: SourceToken | None) -> bool:
    """Return whether a semicolon behind this token ends a statement that has something in it."""
    if last is None or last.kind == "open" or last.is_head:
        return False
    return last.text not in {_END, ";", "else", "do"}


def _classify_line_break(last: SourceToken, following: SourceToken | None) -> str:
    """Return what a line break between these two is; empty if nothing."""
    if last.kind == "open" or last.text in {_END, ";", ",", "else", "do"} or last.is_head:
        return ""
    if following is None or following.text in {"++", "--"}:
        return _END
    if following.kind == "close" or following.text == ";":
        return ""
    if last.kind == "word" and last.text in _ENDED_BY_LINE:
        return _END
    if last.kind == "sign":
        return _PERHAPS if last.text in {"++", "--", "!", ">", "*", "?", _PERHAPS} else ""
    return _PERHAPS if last.kind == "word" and last.text in _BROKEN_OFF else _classify_break_before(following)


def _classify_break_before(following: SourceToken) -> str:
    """Return what a line break before this token is, behind the end of a value or a block."""
    if following.kind == "word" and following.text in _AFTER_BLOCK:
        return ""
    is_joined = following.kind == "word" and following.text in _JOINED_WORDS
    if is_joined or following.text in _BEGINNERS or following.text.startswith('"`'):
        return _PERHAPS
    return "" if following.kind == "sign" else _END


def _filter_css(tokens: Sequence[SourceToken]) -> Iterator[SourceToken]:
    """All blanks are one, and none beside what ends something."""
    kept: list[SourceToken] = []
    for index, token in enumerate(tokens):
        if token.kind == "start" or (
            token.kind == "gap" and not _is_significant_gap(kept, _find_next_real(tokens, index))
        ):
            continue
        if token.text == "}":
            _drop_last(kept, ";")
        kept.append(token)
    return iter(kept)


def _is_significant_gap(kept: Sequence[SourceToken], following: SourceToken | None) -> bool:
    last = kept[-1] if kept else None
    if last is None or following is None or last.kind in {"gap", "comment"} or following.kind == "comment":
        return False
    return last.text not in _CSS_BEHIND and following.text not in _CSS_BEFORE


def _find_next_real(tokens: Sequence[SourceToken], index: int) -> SourceToken | None:
    return next((each for each in tokens[index + 1 :] if each.kind not in {"start", "gap"}), None)


_CSS_BEHIND = frozenset(["{", "}", ";", ",", ":", ">", "(", "["])
_CSS_BEFORE = frozenset(["{", "}", ";", ",", ">", ")", "]"])

PASSES = {
    "free": _filter_free,
    "lines": _filter_lines,
    "script": _filter_script,
    "python": _filter_python,
    "css": _filter_css,
}


LARGEST = 1_000_000  # characters; of a larger text only the line ends do not count

LineKey = tuple[str, ...]
"""What a line says. Lines say the same where their keys, put together, are the same."""

Family = Literal["verbatim", "plain", "free", "lines", "script", "python", "css"]


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout rules of a type of file."""

    family: Family
    pattern: re.Pattern[str] | None = None
    """What matches one token."""


VERBATIM = Layout("verbatim")
"""Every character counts, but for line ends."""


def find_layout(path: str) -> Layout:
    """Return how the file of this name is written."""
    suffix = posixpath.splitext(path)[1].lower()
    return _BY_SUFFIX.get(suffix, VERBATIM)


def normalize_lines(lines: Sequence[str], layout: Layout) -> list[LineKey]:
    """Return what each line says, where it stands in the whole of this text.

    Laws: there is one for each line; the ends of lines do not count; what a string literal has in it does.
    """
    bare = [line.rstrip("\r\n") for line in lines]
    if sum(map(len, bare)) > LARGEST:
        layout = VERBATIM
    if layout.family == "plain":
        return _normalize_plain(bare)
    if layout.pattern is None:
        return [(line,) for line in bare]
    tokens = _Lexer(layout, "\n".join(bare)).tokenize()
    keys: list[list[str]] = [[] for _ in bare]
    for token in PASSES[layout.family](tokens):
        keys[token.line].append(token.text)
    return [tuple(key) for key in keys]


_MANY_LINES = re.compile(
    r"<<|\"{3}|'{3}|~{3}|`|<pre\b|<textarea\b|R\"|\[=*\[|=begin|=pod|=head|__END__|__DATA__|\$\$|%[qQwWiIrsx]?\W|@[\"']$",
    re.IGNORECASE | re.MULTILINE,
)


def _normalize_plain(lines: Sequence[str]) -> list[LineKey]:
    """Return lines without the blanks at their ends, and without blank ones, where no literal has some."""
    text = "\n".join(lines)
    is_doubtful = _MANY_LINES.search(text) or any(line.count(q) % 2 for line in lines for q in "\"'")
    if is_doubtful:
        return [(line,) for line in lines]
    return [_strip_trailing_blanks(line) for line in lines]


def _strip_trailing_blanks(line: str) -> LineKey:
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
    last: SourceToken | None = None
    """The last one that is no comment, gap or start."""
    found: list[SourceToken] = field(default_factory=list[SourceToken])

    def tokenize(self) -> list[SourceToken]:
        """Return all tokens."""
        text, pattern, at = self.text, self.layout.pattern, 0
        if pattern is None:
            return []
        exact = _find_jsx_lines(text) if self.layout.family == "script" else frozenset[int]()
        while at < len(text):
            if at == 0 or text[at - 1] == "\n":
                at = self._read_indent(at)
            match = pattern.match(text, at)
            if match is None:
                break
            kind, end = match.lastgroup or "sign", match.end()
            if kind == "end":
                self._read_blank("\n")
            elif kind == "blank":
                self._read_blank(match[0], is_exact=self.line in exact)
            else:
                end = self._find_token_end(kind, at, end)
                self._add("text" if kind in {"template", "slash"} and end > match.end() else kind, at, end)
            at = end
        return self.found

    def _read_indent(self, at: int) -> int:
        indent = _INDENT.match(self.text, at)
        end = indent.end() if indent else at
        if end < len(self.text) and self.text[end] != "\n":
            self.found.append(SourceToken(self.line, "start", " " + self.text[at:end]))
        return end

    def _read_blank(self, blank: str, *, is_exact: bool = False) -> None:
        if self.layout.family == "css":
            self.found.append(SourceToken(self.line, "gap", " "))
        elif is_exact:
            self.found.append(SourceToken(self.line, "gap", f" {blank}"))
        self.line += blank.count("\n")

    def _find_token_end(self, kind: str, at: int, end: int) -> int:
        """Return where a token ends that a pattern cannot match."""
        if kind == "template":
            return _find_template_end(self.text, at)
        if kind == "slash" and _can_start_regex(self.last):
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
            pieces = [_normalize_quotes(written)] if swaps and len(pieces) == 1 else pieces
            pieces = [f'"{piece}' for piece in pieces]
        elif kind == "comment":
            pieces = [f"#{piece.strip()}" for piece in pieces]
        tokens = [SourceToken(first + index, kind, piece) for index, piece in enumerate(pieces)]
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


def _can_start_regex(last: SourceToken | None) -> bool:
    """Return whether a slash behind this token begins an expression between slashes."""
    if last is None or last.kind in {"sign", "open"}:
        return True
    return last.kind == "word" and last.text in _BEFORE_VALUE


def _find_template_end(text: str, at: int) -> int:
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


def _normalize_quotes(literal: str) -> str:
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


def _find_jsx_lines(text: str) -> frozenset[int]:
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


def _compile_pattern(*, comment: str, text: str, special: str = "", number: str = _NUMBER) -> re.Pattern[str]:
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
    _compile_pattern(
        comment=r"\#[^\n]*",
        text=rf"[A-Za-z]{{0,2}}(?:{_THREE}|'''(?:\\[\s\S]|[^\\])*?(?:'''|\Z)|{_DOUBLE}|{_SINGLE})",
    ),
)
_SCRIPT = Layout(
    "script",
    _compile_pattern(
        comment=_COMMENTS, text=f"{_DOUBLE}|{_SINGLE}", special=r"(?P<template>`)|(?P<slash>/(?![/*]))"
    ),
)
_JSON = Layout("free", _compile_pattern(comment=_COMMENTS, text=f"{_DOUBLE}|{_SINGLE}"))
_JAVA = Layout("free", _compile_pattern(comment=_COMMENTS, text=f"{_THREE}|{_DOUBLE}|{_SINGLE}"))
_C = Layout(
    "free",
    _compile_pattern(
        comment=_COMMENTS,
        text=f"[ \t]*{_PREPROCESSOR}|{_RAW_CPP}|{_DOUBLE}|{_SINGLE}",
        number=r"\.?\d(?:[\w.]|'(?=\w))*",
    ),
)
_RUST = Layout(
    "free",
    _compile_pattern(
        comment=_COMMENTS,
        text=rf'b?r(?P<mark>\#*)"[\s\S]*?(?:"(?P=mark)|\Z)|b?"(?:\\[\s\S]|[^"\\])*(?:"|\Z)|{_CHAR_OR_LIFETIME}',
    ),
)
_GO = Layout("lines", _compile_pattern(comment=_COMMENTS, text=rf"`[^`]*(?:`|\Z)|{_DOUBLE}|{_SINGLE}"))
_KOTLIN = Layout(
    "lines", _compile_pattern(comment=_COMMENTS, text=rf'"""[\s\S]*?(?:"""+|\Z)|{_DOUBLE}|{_SINGLE}')
)
_URL = r"url\([^\"')]*\)"
_CSS = Layout("css", _compile_pattern(comment=_BLOCK_COMMENT, text=f"{_URL}|{_DOUBLE}|{_SINGLE}"))
_SCSS = Layout("css", _compile_pattern(comment=_COMMENTS, text=f"{_URL}|{_DOUBLE}|{_SINGLE}"))
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
