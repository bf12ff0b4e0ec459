"""Which commands ``run_command`` may run: rules that are enforced, as far as a command can be judged."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache

from kakite.errors import UsageError
from kakite.tools.arguments import ToolError

_SEPARATORS = ("&&", "||", "|&", ";", "|")
# What a shell makes of these cannot be told beforehand; quoted or not where that makes no difference.
_UNJUDGED = frozenset("&<>()*?[]{}~#\\")
_EXPANDED = frozenset("$`")
_RESERVED = frozenset(
    [
        "!",
        "{",
        "}",
        "case",
        "do",
        "done",
        "elif",
        "else",
        "esac",
        "fi",
        "for",
        "function",
        "if",
        "in",
        "select",
        "then",
        "until",
        "while",
    ]
)

_RUNNERS = frozenset(
    [
        ".",
        "bash",
        "builtin",
        "busybox",
        "bwrap",
        "capsh",
        "catchsegv",
        "choom",
        "chroot",
        "chrt",
        "command",
        "coresched",
        "csh",
        "daemonize",
        "dash",
        "dbus-launch",
        "dbus-run-session",
        "doas",
        "entr",
        "env",
        "eval",
        "exec",
        "expect",
        "fakeroot",
        "firejail",
        "fish",
        "flock",
        "i386",
        "ionice",
        "ksh",
        "ld.so",
        "linux32",
        "linux64",
        "ltrace",
        "mksh",
        "newgrp",
        "nice",
        "nohup",
        "nsenter",
        "parallel",
        "pkexec",
        "prlimit",
        "rbash",
        "rlwrap",
        "runuser",
        "screen",
        "script",
        "scriptlive",
        "setarch",
        "setpriv",
        "setsid",
        "sg",
        "sh",
        "source",
        "ssh-agent",
        "start-stop-daemon",
        "stdbuf",
        "strace",
        "su",
        "sudo",
        "systemd-run",
        "taskset",
        "tcsh",
        "time",
        "timeout",
        "tmux",
        "trap",
        "uclampset",
        "unbuffer",
        "unshare",
        "watch",
        "x86_64",
        "xargs",
        "xvfb-run",
        "yash",
        "zsh",
    ]
)
"""Programs whose arguments are commands. A rule that names another program says nothing of them.

No such list is whole: what is only denied is denied in its plain forms.
"""
_LOADER = "ld-linux*"
_SHOWN = 200  # characters of a command in a refusal


@dataclass(frozen=True, slots=True)
class CommandRules:
    """Words that a command must, or must not, begin with; each word a glob. ``deny`` wins.

    With ``allow``, whatever it does not name is refused. Without rules, all is allowed.
    """

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for rule in (*self.allow, *self.deny):
            if not _words(rule):
                raise UsageError(
                    f"`{rule}` is no rule for commands", hint="write the words that a command begins with"
                )

    def check(self, command: str | list[str]) -> str | list[str]:
        """Check a command before it is run: a string for ``sh -c``, or its words.

        Returns what is to be run: of a string the very words that were judged, quoted, since shells differ in
        where they see a word end.

        Raises:
            ToolError: ``command_denied``; the message says which part of it no rule allows.
        """
        if not self.allow and not self.deny:
            return command
        if not isinstance(command, str):
            self._check(command)
            return command
        pieces = _simple_commands(command)
        for argv in pieces[::2]:
            self._check(argv)
        return " ".join(shlex.join(piece) if at % 2 == 0 else piece[0] for at, piece in enumerate(pieces))

    def _check(self, argv: list[str]) -> None:
        for rule in self.deny:
            if _begins(argv, _words_of_rule(rule), bare=True):
                raise _refused(f"{_shown(argv)} is forbidden by the rule `{rule}`", self)
        allowed = any(_begins(argv, _words_of_rule(rule), bare=False) for rule in self.allow)
        if self.allow and not allowed:
            raise _refused(f"no rule allows {_shown(argv)}", self)
        if not allowed and _runs_others(_bare(argv[0])):
            raise _refused(f"{_shown(argv)} runs another command, which the rules cannot judge", self)


def is_rule(rule: str) -> bool:
    """Return whether this names the words that a command begins with."""
    return bool(_words(rule))


def simple_commands(line: str) -> list[list[str]]:
    """Return the words of each command of a line for ``sh``.

    Raises:
        ToolError: ``command_denied``: the line does more than run plain commands in a row.
    """
    return _simple_commands(line)[::2]


def begins(argv: list[str], rule: str, *, bare: bool) -> bool:
    """Return whether a command begins with the words of a rule, each a glob.

    With ``bare``, a program is meant wherever it lies, unless the rule says where.
    """
    return _begins(argv, _words_of_rule(rule), bare=bare)


def runs_others(argv: list[str]) -> bool:
    """Return whether the arguments of this command are, or may be, commands themselves."""
    return _runs_others(_bare(argv[0]))


def _refused(message: str, rules: CommandRules) -> ToolError:
    allowed = ", ".join(f"`{rule}`" for rule in rules.allow)
    hint = f"commands must begin with {allowed}" if allowed else "go on without it, or ask the person for it"
    return ToolError(message, hint=hint, code="command_denied")


def _shown(argv: list[str]) -> str:
    return f"`{shlex.join(word[:_SHOWN] for word in argv[:_SHOWN])[:_SHOWN]}`"


def _begins(argv: list[str], rule: tuple[str, ...], *, bare: bool) -> bool:
    words = [_bare(argv[0]), *argv[1:]] if bare and "/" not in rule[0] else argv
    return len(words) >= len(rule) and all(map(fnmatchcase, words, rule))


def _runs_others(program: str) -> bool:
    return program in _RUNNERS or fnmatchcase(program, _LOADER)


def _bare(program: str) -> str:
    return program.rpartition("/")[2]


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:
        return []


@cache
def _words_of_rule(rule: str) -> tuple[str, ...]:
    return tuple(_words(rule))


# A quote without an end takes all that follows: looked at once, and refused below.
_PIECES = re.compile(r"'[^']*+(?:'|\Z)|\"(?>[^\"\\]+|\\.?)*+(?:\"|\Z)|&&|\|\||\|&|[;|]|.", re.DOTALL)


def _simple_commands(line: str) -> list[list[str]]:
    """Split a line for ``sh`` into its commands, or refuse it when it does more than run them in a row.

    Between the words of two commands stands what joins them.
    """
    commands: list[list[str]] = [[]]
    for found in _PIECES.finditer(line):
        piece = found.group()
        if piece in _SEPARATORS:
            commands += [[piece], []]
            continue
        if not _is_plain(piece):
            raise ToolError(
                f"the command has {piece[:20]!r}, and what a shell makes of that cannot be judged by rules",
                hint="run plain commands one by one (`;`, `&&`, `||` and `|` may join them), or give words",
                code="command_denied",
            )
        commands[-1].append(piece)
    return [_argv("".join(each)) if at % 2 == 0 else each for at, each in enumerate(commands)]


def _is_plain(piece: str) -> bool:
    if len(piece) > 1 and piece[0] != piece[-1]:
        return False  # a quote without an end
    if len(piece) > 1 and piece[0] == "'":
        return True
    if len(piece) > 1:
        return not _EXPANDED.intersection(piece) and "\\" not in piece
    if piece == "\t":
        return True
    return piece.isprintable() and piece not in _UNJUDGED and piece not in _EXPANDED and piece not in "'\""


def _argv(command: str) -> list[str]:
    words = _words(command)
    if not words or words[0] in _RESERVED or "=" in words[0] or not words[0]:
        raise ToolError(
            f"`{command.strip()[:200]}` is not a plain command, and rules cannot judge it",
            hint="begin with the program's name",
            code="command_denied",
        )
    return words
