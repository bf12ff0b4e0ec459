"""Matches arguments against a rule: a glob over a text, a glob over a path, or a command's first words.

A doubtful match is reported as such: a rule that allows takes it for no, one that denies for a reason to ask.
Nothing is remembered; where paths lead is looked up in the file system.
"""

from __future__ import annotations

import os
import posixpath
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, assert_never, cast

from kakite.errors import UsageError
from kakite.tools.arguments import ToolError
from kakite.tools.shell.command_rules import (
    is_command_runner,
    is_rule,
    split_commands,
    strip_git_options,
)


class MatchResult(IntEnum):
    """The result of matching a value against a rule."""

    NO = 0
    PERHAPS = 1
    """It cannot be judged: a path that leads who knows where, a command that a shell makes something of."""
    YES = 2


@dataclass(frozen=True, slots=True)
class PathGlob:
    """The value is a path that this glob names, or a list of such paths.

    ``**`` stands for any number of folders, ``*``, ``?`` and ``[…]`` for parts of one name. A glob that
    begins with ``/`` is over absolute paths, any other over paths from the project. The path is read without
    detours, so that ``src/../x`` is no path beneath ``src``, and also by where its links lead now. A folder
    above what the glob names may be reached through: whoever searches it finds what is beneath.
    """

    glob: str


@dataclass(frozen=True, slots=True)
class CommandPrefix:
    """The value is one plain command that begins with these words, each a glob; a text, or a list of words.

    ``**`` stands for any number of words. A text in which a shell would see more than words of one command is
    none, and neither is a list that would be more if it were joined for a shell. For denying, each command of
    a line counts, and a program is meant wherever it lies.
    """

    words: str
    others: tuple[str, ...] = ()
    """Or with the words of one of these."""

    def __post_init__(self) -> None:
        for words in self.beginnings:
            if not is_rule(words):
                raise UsageError(
                    f"`{words}` is not the beginning of a command",
                    hint="write the words that it begins with",
                )

    @property
    def beginnings(self) -> tuple[str, ...]:
        """All of them."""
        return (self.words, *self.others)


ArgumentMatcher = str | PathGlob | CommandPrefix
"""A plain text is a glob over a text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathContext:
    """The folders that a call's paths start from."""

    project: str = ""
    """The absolute folder that globs without ``/`` begin at; empty if it is not known."""
    folders: tuple[str, ...] = ()
    """The absolute folders where relative paths may start, the likeliest first; an empty one stands for any.
    None at all: the project."""
    reaches: bool = True
    """Whether a call that names a folder may reach what is beneath it."""


_DEFAULT_CONTEXT = PathContext()


_SUBCOMMAND_PROGRAMS = re.compile(
    r"git|npm|pnpm|yarn|cargo|go|make|just|docker|podman|kubectl|uv|pip|poetry|hatch|tox|nox|dotnet|gradle"
    r"|mvn|bundle|mix|swift|zig|apt|apt-get|brew|systemctl|gh|glab|terraform|tofu|helm|aws|gcloud|az|nix"
    r"|pdm|rye|pipenv|conda|mamba|rustup|dnf|yum|snap|flatpak|heroku|fly|vercel|pulumi|ansible"
)
"""Programs of which the first word says what they do: a rule for all of them would be too wide."""
_WHOLE_COMMAND = re.compile(
    r"(python|pypy|node|perl|ruby|php|lua|deno|bun|npx|uvx|pipx|julia|pwsh|R|Rscript|ghci|irb|dc|bc|m4)[\d.]*"
    r"|rm|mv|cp|dd|ln|chmod|chown|kill|pkill|killall|curl|wget|scp|rsync|tee|truncate"
)
"""Programs that run, remove or send what their words say: a rule is for the whole command."""
_UNSAFE_PROGRAMS = re.compile(
    r"ssh|mosh|find|fd|tar|sed|[gmn]?awk|nix-shell|n?vim?|ex|emacs|ed|script|expect|gdb|tmux|screen|parallel"
    r"|watch|entr|psql|mysql|sqlite3|unshare|nsenter|chroot|bwrap|firejail|systemd-run|at|crontab"
    # Shells run what stands within the words of these: `test -v 'a[$(…)]'`.
    r"|test|\[|printf|wait|jobs|compgen|complete"
)
"""Programs that one more word lets run or remove anything (``find . -delete``): no beginning is safe."""
_RUNNERS = {"run", "exec", "dlx", "x", "compose", "start", "debug", "create"}
"""Words of programs with sub-commands after which another program, or its name, follows."""
_GLOB_SIGNS = re.compile(r"[*?\[]")


def suggest_command_prefix(value: object) -> CommandPrefix | None:
    """Return the beginning that a rule for commands like this one names; None where none is safe.

    ``pytest -q tests`` gives ``pytest``, ``git diff a`` gives ``git diff``, ``python -m pytest`` all words.
    """
    joined = _join_command(value)
    commands = None if joined is None else _parse_commands(joined)
    if joined is None or not joined.isascii() or commands is None or len(commands) != 1 or not commands[0]:
        return None
    if _UNSAFE_PROGRAMS.fullmatch(_get_program_name(commands[0][0])):
        return None
    words = _choose_prefix(commands[0])
    prefix = CommandPrefix(" ".join(shlex.quote(_GLOB_SIGNS.sub(r"[\g<0>]", word)) for word in words))
    return prefix if _match_single_command(value, prefix) is MatchResult.YES else None


def suggest_chain_prefix(value: object) -> CommandPrefix | None:
    """Return the beginnings that a rule for the commands of this plain chain names; None where one is unsafe.

    ``pytest -q && git diff a`` gives ``pytest`` and ``git diff``.
    """
    beginnings: list[str] = []
    is_pipe = isinstance(value, str) and _PIPE.search(value) is not None
    for part in split_chain(value) or ():
        prefix = suggest_command_prefix(part)
        argv = shlex.split(part)
        if prefix is None or _is_doubtful(argv) or (is_pipe and _reads_orders(argv)):
            return None
        beginnings.append(prefix.words)
    first, *others = dict.fromkeys(beginnings) or [""]
    return CommandPrefix(first, tuple(others)) if first else None


def _reads_orders(argv: list[str]) -> bool:
    """Return whether the command may do what the one before it in a pipe says: a rule would let go any."""
    program = _get_program_name(argv[0])
    named = any(word == "-" or word.startswith(("/dev/", "/proc/")) for word in argv[1:])
    return named or _WHOLE_COMMAND.fullmatch(program) is not None


def split_chain(value: object) -> list[str] | None:
    """Return each command of a line that only runs plain ones, joined by ``&&``, ``||``, ``;`` or ``|``.

    None: it is one command, or more than that. One that changes what the shell makes of those after it,
    except by its folder, makes the line no plain one.
    """
    if not isinstance(value, str) or not value.isascii() or "|&" in value:
        return None
    commands = _parse_commands(value)
    if commands is None or not 2 <= len(commands) <= _MAX_CHAIN or any(map(_changes_shell, commands)):
        return None
    return [shlex.join(argv) for argv in commands]


def _changes_shell(argv: list[str]) -> bool:
    # Some shells read the words of `printf -v` and `test -v` as names, and run what stands in them.
    return argv[0] in _SHELL_CHANGERS or any(word.startswith("-v") for word in argv[1:] if argv[0] in _NAMING)


_PIPE = re.compile(r"(?<!\|)\|(?!\|)")
_NAMING = frozenset(("printf", "test", "["))
_MAX_CHAIN = 16  # commands of a line
_SHELL_CHANGERS = frozenset(
    (
        "alias",
        "bind",
        "builtin",
        "command",
        "declare",
        "enable",
        "eval",
        "exec",
        "export",
        "fc",
        "getopts",
        "hash",
        "let",
        "local",
        "mapfile",
        "read",
        "readarray",
        "readonly",
        "set",
        "shift",
        "shopt",
        "source",
        "trap",
        "typeset",
        "ulimit",
        "umask",
        "unalias",
        "unset",
        "wait",
        ".",
        "[[",
    )
)
"""Commands of a shell itself that change what it makes of those after them."""


def _choose_prefix(argv: list[str]) -> list[str]:
    program, first = _get_program_name(argv[0]), argv[1:2]
    if re.fullmatch(r"python[\d.]*", program) and first == ["-m"]:
        return argv[:3]
    if _is_doubtful(argv) or _WHOLE_COMMAND.fullmatch(program):
        return argv
    if _SUBCOMMAND_PROGRAMS.fullmatch(program):
        return argv if first and (first[0].startswith("-") or first[0] in _RUNNERS) else argv[:2]
    return argv[:1]


def match_all(
    predicate: ArgumentMatcher, value: object, place: PathContext = _DEFAULT_CONTEXT
) -> MatchResult:
    """Return ``YES`` if the value, or every one of a list that is not empty, surely fits; else ``NO``."""
    if isinstance(predicate, CommandPrefix):
        return _match_single_command(value, predicate)
    values = _to_list(value)
    if isinstance(predicate, PathGlob) and _are_long(values):
        return MatchResult.NO
    sure = all(_is_sure_match(predicate, each, place) for each in values)
    return _to_result(bool(values) and sure)


def match_any(
    predicate: ArgumentMatcher, value: object, place: PathContext = _DEFAULT_CONTEXT
) -> MatchResult:
    """Return how well that one fits which fits best: the value, or one of a list."""
    if isinstance(predicate, CommandPrefix):
        return _match_any_command(value, predicate)
    if isinstance(predicate, PathGlob) and _are_long(_to_list(value)):
        return MatchResult.PERHAPS
    best = max((_match_possibly(predicate, each, place) for each in _to_list(value)), default=MatchResult.NO)
    if isinstance(predicate, str) and isinstance(value, list):  # a server may join its words
        joined = " ".join(map(str, cast("list[object]", value)))
        return max(best, min(match_text(predicate, joined), MatchResult.PERHAPS))
    return best


def match_text(glob: str, value: str) -> MatchResult:
    """Return whether the glob is over this text."""
    return _to_result(fnmatchcase(value, glob))


def _to_result(fits: bool) -> MatchResult:  # noqa: FBT001 - turns one into the other
    return MatchResult.YES if fits else MatchResult.NO


def _to_list(value: object) -> list[Any]:
    if value is None:
        return []
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def _is_sure_match(predicate: str | PathGlob, value: object, place: PathContext) -> bool:
    if not isinstance(value, str):
        return False
    match predicate:
        case str():
            return match_text(predicate, value) is MatchResult.YES
        case PathGlob(glob):
            plain = not _is_ambiguous_path(value) and not _is_expandable(value, place)
            return plain and all(_is_covered(glob, way, place) for way in _resolve_candidates(value, place))
        case _:
            assert_never(predicate)


def _match_possibly(predicate: str | PathGlob, value: object, place: PathContext) -> MatchResult:
    if not isinstance(value, str):
        return MatchResult.PERHAPS
    match predicate:
        case str():
            return match_text(predicate, value)
        case PathGlob(glob):
            doubtful = _is_ambiguous_path(value) or (
                bool(_SHELL_SIGNS.search(value)) and _is_expandable(value, place)
            )
            return MatchResult.PERHAPS if doubtful else _match_path(glob, value, place)
        case _:
            assert_never(predicate)


# Paths


def _match_path(glob: str, path: str, place: PathContext) -> MatchResult:
    likeliest, *others = (_match_candidate(glob, way, place) for way in _resolve_candidates(path, place))
    if likeliest is MatchResult.YES:
        return MatchResult.YES
    return MatchResult.PERHAPS if any([likeliest, *others]) or _is_pattern(path, place) else MatchResult.NO


def _resolve_candidates(path: str, place: PathContext) -> Iterator[str | None]:
    """Yield where a path may lead, the likeliest first; None: anywhere. Without a project: as written."""
    if not place.project:
        moved = bool(place.folders) and not path.startswith("/")
        yield None if moved or _is_elsewhere(path) else path
        return
    for folder in place.folders or (place.project,):
        named = posixpath.join(folder, path)
        if not named.startswith("/") or _is_elsewhere(named):
            yield None
        else:
            yield _normalize_path(named)
            yield from _resolve_links(named)


def _resolve_links(named: str) -> Iterator[str | None]:
    """Yield where a path leads by its links, if that is elsewhere: ``..`` after a link is, too."""
    try:
        real = os.path.realpath(named)
    except OSError:
        yield None
        return
    if real != _normalize_path(named):
        yield real


def _match_candidate(glob: str, way: str | None, place: PathContext) -> MatchResult:
    if way is None or _is_incomparable(glob, way, place):
        return MatchResult.PERHAPS
    wanted, parts = _split_glob(glob, place.project), _split_path(_normalize_path(way))
    ends = _match_prefixes(wanted, parts)
    if len(wanted) in ends:
        return MatchResult.YES
    if not place.project and parts[:1] == [".."]:
        return MatchResult.PERHAPS  # it leaves, and may come back by another way
    return (
        MatchResult.PERHAPS
        if place.reaches and ends and _is_possible_parent(wanted, parts, way, place)
        else MatchResult.NO
    )


def _is_covered(glob: str, way: str | None, place: PathContext) -> bool:
    """Return whether the glob surely names what is there, and if that is a folder, all beneath it."""
    if way is None or _is_incomparable(glob, way, place):
        return False
    wanted, parts = _split_glob(glob, place.project), _split_path(_normalize_path(way))
    ends = _match_prefixes(wanted, parts)
    if len(wanted) not in ends:
        return False
    whole = wanted[-1:] == ("**",) and len(wanted) - 1 in ends
    return whole or not place.reaches or not _is_folder(way, place)


def _is_incomparable(glob: str, way: str, place: PathContext) -> bool:
    """Return whether it is not known which of two folders lies in the other."""
    return not place.project and way.startswith("/") != glob.startswith("/")


def _is_possible_parent(wanted: tuple[str, ...], parts: list[str], way: str, place: PathContext) -> bool:
    """Return whether what the glob names may lie beneath: by its name alone, or else if it is a folder."""
    plainly = wanted[: len(parts)] == tuple(map(_escape_glob, parts))
    return plainly or not place.project or _is_folder(way, place)


def _is_folder(way: str, place: PathContext) -> bool:
    return bool(place.project) and os.path.isdir(way)  # noqa: PTH112 - a text, not a path of ours


@lru_cache(maxsize=1024)
def _split_glob(glob: str, project: str) -> tuple[str, ...]:
    """Return the parts of a glob; with a project, from the root of the file system."""
    parts = _split_path(glob)
    if not project or glob.startswith("/"):
        return tuple(parts)
    above = [_escape_glob(part) for part in _split_path(project)]
    while above and parts[:1] == [".."]:
        above.pop()
        parts = parts[1:]
    return (*above, *parts)


def _escape_glob(part: str) -> str:
    return re.sub(r"[*?\[]", r"[\g<0>]", part)


def _are_long(paths: list[Any]) -> bool:
    """Return whether to follow these paths would take seconds, in which nothing else goes on."""
    return sum(len(path) for path in paths if isinstance(path, str)) > _MAX_PATHS_CHARS


def _is_ambiguous_path(path: str) -> bool:
    if len(path) > _MAX_PATH_CHARS:
        return True  # no system opens it as it stands
    # Read differently by different servers: from the home folder, as an address, with another separator, cut.
    if not path.strip() or path != path.strip() or not path.isprintable() or "\\" in path:
        return True
    return path[0] == "~" or ":" in path.partition("/")[0]


def _is_pattern(path: str, place: PathContext) -> bool:
    """Return whether a server may take this for a pattern of its own: there is nothing of this very name."""
    if not _PATTERN.search(path):
        return False
    folders = place.folders or (place.project,)
    return not any(os.path.lexists(posixpath.join(folder, path)) for folder in folders if folder)


def _is_expandable(path: str, place: PathContext) -> bool:
    """Return whether a server may make other paths of this one, as a shell would.

    Alternatives in braces may lead anywhere, whatever is there. Other signs stand in names too (`[id].tsx`).
    """
    if _ALTERNATIVES.search(path):
        return True
    if not _EXPANDED.search(path):
        return False
    folders = [folder for folder in place.folders or (place.project,) if folder]
    return not folders or not all(os.path.lexists(posixpath.join(folder, path)) for folder in folders)


_MAX_PATH_CHARS = 8 * 1024  # characters; the system takes 4 KiB, detours aside
_MAX_PATHS_CHARS = 128 * 1024  # characters of all paths of an argument
_PATTERN = re.compile(r"[*?\[{]")
_SHELL_SIGNS = re.compile(r"[$`]|[@+!]\(")
_EXPANDED = re.compile(r"[*?\[{$`]|[@+!]\(")
_ALTERNATIVES = re.compile(r"\{[^{}]*(?:,|\.\.)[^{}]*\}|\{[^}]*\{")
_ELSEWHERE = (["proc"], ["dev", "fd"], ["dev", "stdin"], ["dev", "stdout"], ["dev", "stderr"])
"""What lies there leads to any folder or open file, and another program's leads elsewhere than ours."""


def _is_elsewhere(path: str) -> bool:
    """Return whether the path goes through such a place, also where it seems to leave it again."""
    at: list[str] = []
    climbs = path.startswith("/")
    for part in _split_path(path):
        climbs = climbs or part == ".."
        at = at[:-1] if part == ".." else [*at, part]
        if climbs and any(at[: len(place)] == place for place in _ELSEWHERE):
            return True
    return False


def _normalize_path(path: str) -> str:
    plain = posixpath.normpath(path)
    return plain[1:] if plain.startswith("//") else plain


def _split_path(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in {"", "."}]


def _match_prefixes(glob: Sequence[str], parts: Sequence[str]) -> set[int]:
    """Return how much of the glob may have named the parts, counted in its own; all of it: it names the path.

    Takes time in proportion to the product of their lengths, without what both plainly begin with.
    """
    same = 0
    while same < min(len(glob), len(parts)) and glob[same] == parts[same] and not _PATTERN.search(glob[same]):
        same += 1
    places = _expand_globstars(glob, {same})
    for part in parts[same:]:
        if not places:
            break
        stays = {at for at in places if at < len(glob) and glob[at] == "**" and part != ".."}
        steps = {at + 1 for at in places if at < len(glob) and _is_part(glob[at], part)}
        places = _expand_globstars(glob, stays | steps)
    return places


def _expand_globstars(glob: Sequence[str], places: set[int]) -> set[int]:
    found = set(places)
    for at in places:
        while at < len(glob) and glob[at] == "**":
            at += 1  # noqa: PLW2901 - through all that may stand for nothing
            found.add(at)
    return found


def _is_part(glob: str, part: str) -> bool:
    if part == ".." or glob == "**":
        return glob == part
    return fnmatchcase(part, glob)


# Commands


def _match_single_command(value: object, wanted: CommandPrefix) -> MatchResult:
    """Return whether the value is one plain command that begins so, also for who joins a list for a shell."""
    joined = _join_command(value)
    commands = None if joined is None else _parse_commands(joined)
    if joined is None or not joined.isascii() or commands is None or len(commands) != 1:
        return MatchResult.NO  # shells differ in where they see a word end
    argv = cast("list[str]", value) if isinstance(value, list) else commands[0]
    return _to_result(_has_prefix(argv, wanted, bare=False) and _has_prefix(commands[0], wanted, bare=False))


def _match_any_command(value: object, wanted: CommandPrefix) -> MatchResult:
    """Return whether one of the commands of the value begins so, or may."""
    if value is None:
        return MatchResult.NO
    joined = _join_command(value)
    if joined is None:
        return MatchResult.PERHAPS
    if not isinstance(value, list):
        return _match_line(joined, wanted)
    argv = cast("list[str]", value)
    if (found := _match_argv(argv, wanted)) is MatchResult.YES:
        return found
    # It may be the words of one command, or those of several when a shell reads them; or each a whole one.
    lines = [joined, *(word for word in argv if " " in word.strip())]
    doubted = _is_doubtful(argv) or any(_match_line(line, wanted) is not MatchResult.NO for line in lines)
    return MatchResult.PERHAPS if doubted else found


def _match_line(line: str, wanted: CommandPrefix) -> MatchResult:
    commands = _parse_commands(line)
    if commands is None:
        return MatchResult.PERHAPS
    found = max((_match_argv(argv, wanted) for argv in commands), default=MatchResult.NO)
    return max(found, MatchResult.PERHAPS) if any(map(_is_doubtful, commands)) else found


def _match_argv(argv: list[str], wanted: CommandPrefix) -> MatchResult:
    """Return whether a command begins so, also behind options that stand before its first word."""
    if _has_prefix(argv, wanted, bare=True):
        return MatchResult.YES
    if _get_program_name(argv[0]) == "git":
        return _to_result(_has_prefix(strip_git_options(argv), wanted, bare=True))
    readings = _list_readings(argv)
    if any(_has_prefix(reading, wanted, bare=True) for reading in readings[:1]):
        return MatchResult.YES
    doubted = any(_has_prefix(reading, wanted, bare=True) for reading in readings[1:])
    return MatchResult.PERHAPS if doubted else MatchResult.NO


def _list_readings(argv: list[str]) -> list[list[str]]:
    """Return a command without the options before its first word; then as if one of these had a value.

    Which options take the word behind them, only the program knows.
    """
    at = 1
    found: list[list[str]] = []
    while at < len(argv) and len(found) < _MAX_OPTIONS and argv[at].startswith("-"):
        while at < len(argv) and argv[at].startswith("-"):
            at += 1
        found.append([argv[0], *argv[at:]])
        at += 1
    return [*found, [argv[0], *argv[at:]]] if found else []


_MAX_OPTIONS = 50  # groups of options that are looked through


def _has_prefix(argv: list[str], wanted: CommandPrefix, *, bare: bool) -> bool:
    return any(_begins_with(argv, _split_words(words), bare=bare) for words in wanted.beginnings)


def _begins_with(argv: list[str], rule: list[str], *, bare: bool) -> bool:
    words = [_get_program_name(argv[0]), *argv[1:]] if bare and "/" not in rule[0] else argv
    places = _expand_globstars(rule, {0})
    for word in words:
        if len(rule) in places:
            return True
        stays = {at for at in places if rule[at] == "**"}
        steps = {at + 1 for at in places if rule[at] != "**" and fnmatchcase(word, rule[at])}
        places = _expand_globstars(rule, stays | steps)
    return len(rule) in places


def _is_doubtful(argv: list[str]) -> bool:
    """Return whether a command runs, or may run, another one that its own words name."""
    if is_command_runner(argv):
        return True
    program, words = _get_program_name(argv[0]), argv[1:]
    return any(
        fnmatchcase(program, named) and any(fnmatchcase(word, option) for word in words for option in options)
        for named, options in _CODE_OPTIONS
    )


_CODE_OPTIONS = (
    ("find", ("-exec*", "-ok*")),
    ("fd", ("-x*", "-X*", "--exec*")),
    ("git", ("-c*", "-x*", "--config-env*", "--exec*", "--upload-pack*", "--receive-pack*")),
    ("tar", ("-I*", "--to-command*", "--checkpoint-action*", "--use-compress-program*")),
    ("*awk", ("*",)),
    *((named, ("-*[ceEpr]*",)) for named in ("python*", "pypy*", "perl*", "ruby*", "node*", "php*", "lua*")),
)
"""Programs, and their words that may name a command or bring code. No such list is whole."""


def _get_program_name(program: str) -> str:
    return program.rpartition("/")[2]


def _split_words(line: str) -> list[str]:
    return shlex.split(line)


def _join_command(value: object) -> str | None:
    """Return a command as a shell would read it; None if it is neither a text nor a list of words."""
    if isinstance(value, str):
        return value
    words = _to_list(value)
    if not words or not all(isinstance(word, str) for word in words) or not words[0]:
        return None
    return " ".join(words)


def _parse_commands(line: str) -> list[list[str]] | None:
    """Return the words of each command; None if they cannot be told."""
    try:
        return split_commands(line)
    except ToolError:
        return None
