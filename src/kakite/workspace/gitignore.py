"""Decides which paths ``.gitignore`` excludes, as git does. It reads through descriptors, never by path.

pathspec turns each pattern into a regular expression over bytes. It is written for lists of files, where a
pattern that names a folder covers all that lies in it. Here, as in git, every name on the way is decided by
itself, and nothing below an excluded folder is looked at.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, replace

from kakite.workspace import openat2

_READ = 1024 * 1024  # bytes of one file of patterns; git's own users stay far below
_STARS = 4  # in one pattern, that may take each other's characters

_POSIX = {
    b"alnum": rb"a-zA-Z0-9",
    b"alpha": rb"a-zA-Z",
    b"blank": b" \t",
    b"digit": rb"0-9",
    b"lower": rb"a-z",
    b"space": b" \t\n\r\f\v",
    b"upper": rb"A-Z",
    b"xdigit": rb"A-Fa-f0-9",
}
_POSIX_CLASS = re.compile(rb"\[:([a-z]+):\]")
_BLANKS = b"\t\v\f\x1c\x1d\x1e\x1f \x85\xa0"  # what pathspec takes for blank at the end of a line

_STAR = rb"\[\^/\]\*"
_FIXED = rb"(?:\\.|\[\^/\](?!\*)|\[\^?\]?[^\]/()]*\]|[^\[\]\\/()*+?.^$|{}])"
_GREEDY = re.compile(_STAR + rb"(" + _FIXED + rb"+)(?=" + _STAR + rb")", re.DOTALL)


_OWN = frozenset((b".git", b".git/"))


@dataclass(frozen=True, slots=True)
class _Patterns:
    """The patterns of one file, as regular expressions for what lies below the folder it stands in."""

    groups: tuple[tuple[re.Pattern[bytes], bool], ...]
    """Later lines first; true leaves out, false takes back in."""


@dataclass(frozen=True, slots=True)
class GitIgnore:
    """The ignore rules of one folder."""

    levels: tuple[tuple[_Patterns, bytes], ...] = ()
    """The patterns that count here, the nearest first, each with the way from its folder to this one."""

    def is_ignored(self, own: bytes) -> bool:
        """Return whether git would ignore this name in the folder; that of a folder ends in a slash."""
        if own in _OWN:
            return True
        for patterns, way in self.levels:
            path = way + own
            for regex, ignored in patterns.groups:
                if regex.search(path):
                    return ignored
        return False

    def enter_folder(self, folder: int, name: str) -> GitIgnore:
        """Return what is left out of the inner folder of this name, opened as ``folder``."""
        inner = replace(
            self, levels=tuple((patterns, way + os.fsencode(name) + b"/") for patterns, way in self.levels)
        )
        return inner.load_folder(folder)

    def load_folder(self, folder: int) -> GitIgnore:
        """Return the same with what the opened folder itself says. A repository begins anew."""
        levels = self.levels
        if _is_repository(folder):
            levels = _load_level(folder, ".git/info/exclude")
        return GitIgnore(_load_level(folder, ".gitignore") + levels)


def load_gitignore(root: int, relative: str) -> GitIgnore:
    """Return what is left out of the folder at this real path below the opened root."""
    ignoring = GitIgnore().load_folder(root)
    way = ""
    for part in relative.split("/"):
        if part in {"", "."}:
            continue
        way = f"{way}/{part}" if way else part
        folder = openat2.open_beneath(root, way, os.O_RDONLY | os.O_DIRECTORY)
        try:
            ignoring = ignoring.enter_folder(folder, part)
        finally:
            os.close(folder)
    return ignoring


def _is_repository(folder: int) -> bool:
    try:
        os.stat(".git", dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return True


def _load_level(folder: int, name: str) -> tuple[tuple[_Patterns, bytes], ...]:
    told = _read_patterns(folder, name)
    if not told:  # nearly all folders have none
        return ()
    lines = told.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    rules = [rule for rule in (_parse_rule(line.removesuffix(b"\r")) for line in lines) if rule]
    return ((_Patterns(_group_rules(rules)), b""),) if rules else ()


def _read_patterns(folder: int, name: str) -> bytes:
    try:
        file = openat2.open_beneath(folder, name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return b""  # not there, a link (git does not follow it either), or not for us
    with open(file, "rb") as stream:
        return stream.read(_READ) if stat.S_ISREG(os.fstat(file).st_mode) else b""


def _group_rules(rules: list[tuple[bytes, bool]]) -> tuple[tuple[re.Pattern[bytes], bool], ...]:
    """Join neighbours of one kind: one search instead of hundreds for every name."""
    groups: list[tuple[list[bytes], bool]] = []
    for regex, ignored in reversed(rules):
        if groups and groups[-1][1] == ignored:
            groups[-1][0].append(regex)
        else:
            groups.append(([regex], ignored))
    return tuple(
        (re.compile(b"|".join(b"(?:%s)" % regex for regex in regexes), re.DOTALL), ignored)
        for regexes, ignored in groups
    )


def _parse_rule(line: bytes) -> tuple[bytes, bool] | None:
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    try:
        regex, ignored = GitIgnoreSpecPattern.pattern_to_regex(_normalize_line(line))
        if regex is None or ignored is None:
            return None
        alone = _anchor_regex(regex)
        re.compile(alone, re.DOTALL)
    except (ValueError, re.error):
        return None  # git too takes no notice of what is no pattern
    return None if len(re.findall(_STAR, _GREEDY.sub(b"", alone))) > _STARS else (alone, ignored)


def _normalize_line(line: bytes) -> bytes:
    """Write a line so that pathspec reads it as git does: blanks at its end, named classes."""
    trimmed = line.rstrip(b" ")
    backslashes = len(trimmed) - len(trimmed.rstrip(b"\\"))
    if len(trimmed) < len(line) and backslashes % 2:
        trimmed = trimmed[:-1] + b"[ ]"
    elif trimmed and trimmed[-1] in _BLANKS:
        trimmed = trimmed[:-1] + b"[" + trimmed[-1:] + b"]"
    if trimmed.endswith(b"/**/"):
        trimmed += b"*/"  # the folders inside, not the one named
    return _POSIX_CLASS.sub(lambda found: _POSIX.get(found[1], found[0]), trimmed)


def _anchor_regex(regex: bytes) -> bytes:
    """Let the pattern match what it names and not what lies below, and never take exponential time."""
    alone = regex.replace(b"(?:(?P<ps_d>/)|$)", rb"/?\Z").replace(b"(?P<ps_d>/)", rb"/\Z")
    if alone.endswith(b"/"):
        alone += b"."  # `a/**`: all that is inside, not `a` itself
    # Each star but the last of a name may stop at the first place that fits, and need not come back.
    return _GREEDY.sub(rb"(?>[^/]*?\1)", alone)
