"""Checks whether a text still parses after an edit, and reports what the edit may have broken.

Python, JSON, TOML and YAML are parsed by what comes with Python and Kakite; other languages by tree-sitter,
whose parsers come inside their packages (the extra ``syntax``). What takes too long is not checked.
"""

from __future__ import annotations

import ast
import json
import re
import sys
import threading
import time
import warnings
from collections import deque
from dataclasses import dataclass
from importlib import import_module
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

PARSE_TIMEOUT = 0.05  # s for one text
_SLOW_YAML = 5_000  # characters that are parsed in time without libyaml
_CHUNK = 64 * 1024  # bytes that tree-sitter takes at once
_NEWEST_PYTHON = (3, 14)
"""The Python whose syntax is known here: an older one cannot tell a mistake from what came later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParseProblem:
    """The first place that does not parse."""

    language: str
    line: int
    """From 1."""
    message: str


@dataclass(frozen=True, slots=True)
class _Fault:
    line: int
    end: int
    """The last line of what does not parse."""
    message: str


class _ParseSkippedError(Exception):
    """There was not enough time, or no parser."""


_GRAMMARS = {
    "Bash": ("bash", "language"),
    "C": ("c", "language"),
    "C++": ("cpp", "language"),
    "CSS": ("css", "language"),
    "Go": ("go", "language"),
    "Java": ("java", "language"),
    "JavaScript": ("javascript", "language"),
    "Python": ("python", "language"),
    "Ruby": ("ruby", "language"),
    "Rust": ("rust", "language"),
    "TSX": ("typescript", "language_tsx"),
    "TypeScript": ("typescript", "language_typescript"),
}
"""The package of each language behind ``tree_sitter_``, and what in it is the grammar."""

_SUFFIXES = {
    "Bash": "sh bash",
    "C": "c",
    "C++": "cc cpp cxx h hh hpp hxx",
    "CSS": "css",
    "Go": "go",
    "JSON": "json ipynb",
    "Java": "java",
    "JavaScript": "js cjs mjs jsx",
    "Python": "py pyi",
    "Ruby": "rb rake gemspec",
    "Rust": "rs",
    "TOML": "toml",
    "TSX": "tsx",
    "TypeScript": "ts cts mts",
    "YAML": "yaml yml",
}
_LANGUAGES = {f".{suffix}": name for name, suffixes in _SUFFIXES.items() for suffix in suffixes.split()}


def find_syntax_problem(path: str, before: str | None, after: str) -> ParseProblem | None:
    """Return what does not parse after an edit, if all of it did before; None also if nobody can tell.

    Args:
        path: its suffix tells the language.
        before: the text before; None for a new file.
        after: the text as it is now.
    """
    language = _LANGUAGES.get(PurePosixPath(path).suffix.lower())
    if language is None:
        return None
    try:
        fault = _find_fault(language, after)
        if fault is None or (before is not None and _find_fault(language, before) is not None):
            return None
    except _ParseSkippedError:
        return None
    if language in _NEWER_SYNTAX and _NEWER_SYNTAX[language].search(after):
        return None  # the language has it by now, and the parser does not
    if before is None and language == "JSON" and ("//" in after or "/*" in after):
        return None  # many programs take comments there
    changed = _find_first_change(before or "", after)
    line = changed if fault.line < changed <= fault.end else fault.line
    last = after.count("\n") + 1  # some parsers name the line below the last one
    return ParseProblem(language=language, line=min(line, last), message=fault.message)


_NEWER_SYNTAX = {
    "Rust": re.compile(r"\bsafe\s+(?:fn|static)\b"),
    "CSS": re.compile(r"@(?:media|container)[^{]*[<>]"),
    "C": re.compile(r"\b0[bB][01]*'[01]|\b\d+'\d|\b0[xX][0-9a-fA-F]+'[0-9a-fA-F]"),
}
"""What languages took in after their parsers were written."""


def _find_first_change(before: str, after: str) -> int:
    old, new = before.split("\n"), after.split("\n")
    equal = (nth for nth, (one, two) in enumerate(zip(old, new, strict=False)) if one != two)
    return next(equal, min(len(old), len(new)) - 1) + 1


def _find_fault(language: str, text: str) -> _Fault | None:
    match language:
        case "Python":
            return _parse_python(text)
        case "JSON":
            return _parse_json(text)
        case "TOML":
            return _parse_toml(text)
        case "YAML":
            return _parse_yaml(text)
        case _:
            return _parse_with_tree_sitter(language, text)


def _require_size(text: str, most: int) -> None:
    """Give up on a text that takes longer than the bound; the figures are for a slow machine."""
    if len(text) > most:
        raise _ParseSkippedError


_warnings_lock = threading.Lock()
"""Held while warnings are off: that is for all threads."""


def _parse_python(text: str) -> _Fault | None:
    _require_size(text, 100_000)
    try:
        _parse_quietly(text)
    except SyntaxError as error:
        line = error.lineno or 1
        fault = _Fault(line, line, error.msg)
        is_sure = isinstance(error, IndentationError) or sys.version_info >= _NEWEST_PYTHON
        return fault if is_sure or not _is_newer_python(text) else None
    except (ValueError, RecursionError, MemoryError) as error:
        raise _ParseSkippedError from error
    return None


def _parse_quietly(text: str) -> ast.Module:
    with _warnings_lock, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


def is_python(text: str) -> bool:
    """Return whether this Python parses a text, as one that has more than names and values."""
    try:
        return any(not isinstance(each, ast.Expr | ast.AnnAssign) for each in _parse_quietly(text).body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def is_yaml(text: str) -> bool:
    """Return whether a text parses as YAML, as documents that are mappings or lists.

    Without libyaml a text of more than 5 000 characters takes too long, and counts as none.
    """
    import yaml

    if not yaml.__with_libyaml__ and len(text) > _SLOW_YAML:
        return False
    parse: Any = getattr(yaml, "parse")  # noqa: B009  # it has no types
    before: object = None
    try:
        for event in parse(text, Loader=yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader):
            is_document = isinstance(before, yaml.DocumentStartEvent)
            if is_document and not isinstance(event, yaml.CollectionStartEvent):
                return False
            before = event
    except (yaml.YAMLError, ValueError, RecursionError):
        return False
    return True


def _is_newer_python(text: str) -> bool:
    """Return whether a text that this Python refuses may be fine for a later one."""
    try:
        return _parse_with_tree_sitter("Python", text) is None
    except _ParseSkippedError:
        return False


def _parse_json(text: str) -> _Fault | None:
    _require_size(text, 120_000)
    try:
        json.loads(text.removeprefix("\ufeff"))
    except json.JSONDecodeError as error:
        return _Fault(error.lineno, error.lineno, error.msg)
    except (ValueError, RecursionError) as error:
        raise _ParseSkippedError from error
    return None


def _parse_toml(text: str) -> _Fault | None:
    _require_size(text, 50_000)
    import tomllib

    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message, at, place = str(error).rpartition(" (at line ")
        number = place.partition(",")[0]
        line = int(number) if number.isdecimal() else text.count("\n") + 1
        return _Fault(line, line, message if at else str(error))
    except RecursionError as error:
        raise _ParseSkippedError from error
    return None


def _parse_yaml(text: str) -> _Fault | None:
    import yaml

    is_fast = yaml.__with_libyaml__
    _require_size(text, 100_000 if is_fast else _SLOW_YAML)
    parse: Any = getattr(yaml, "parse")  # noqa: B009  # it has no types
    try:
        deque(parse(text, Loader=yaml.CSafeLoader if is_fast else yaml.SafeLoader), maxlen=0)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        return _Fault(line, line, error.problem or "")
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise _ParseSkippedError from error
    return None


def _parse_with_tree_sitter(language: str, text: str) -> _Fault | None:
    """Parse by tree-sitter, as far as it is installed."""
    _require_size(text, 120_000)
    try:
        parse = _load_parser(language)
    except ImportError as error:
        raise _ParseSkippedError from error
    data = text.encode("utf-8", "surrogatepass")
    deadline = time.monotonic() + PARSE_TIMEOUT

    def read(offset: int, _point: object) -> bytes:
        return data[offset : offset + _CHUNK]

    def is_late(_offset: int, _has_error: bool) -> bool:  # noqa: FBT001  # so it is called
        return time.monotonic() > deadline

    try:
        tree = parse(read, progress_callback=is_late)
    except ValueError as error:  # so it says that it was stopped
        raise _ParseSkippedError from error
    return _find_first_fault(tree.root_node, data) if tree.root_node.has_error else None


def _load_parser(language: str) -> Callable[..., Any]:
    package, grammar = _GRAMMARS[language]
    library: Any = import_module("tree_sitter")
    pointer = getattr(import_module(f"tree_sitter_{package}"), grammar)()
    return library.Parser(library.Language(pointer)).parse


def _find_first_fault(root: Any, data: bytes) -> _Fault:
    node = root
    while not (node.is_error or node.is_missing):
        inner = next((child for child in node.children if child.has_error or child.is_missing), None)
        if inner is None:
            break
        node = inner
    start, end = node.start_point[0] + 1, node.end_point[0] + 1
    if node.is_missing:
        return _Fault(start, end, f"`{node.type}` is missing")
    found = data[node.start_byte : node.end_byte].decode("utf-8", "replace").strip()
    first = found.partition("\n")[0].strip()[:40]
    return _Fault(start, end, f"unexpected `{first}`" if first else "it does not end")
