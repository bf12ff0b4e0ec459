"""Which commands ``run_command`` may run: rules that are enforced, as far as a command can be judged."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from itertools import pairwise

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
        "coproc",
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
_VALUED_BY_GIT = frozenset(
    [
        "-C",
        "-c",
        "--attr-source",
        "--config-env",
        "--git-dir",
        "--namespace",
        "--shallow-file",
        "--super-prefix",
        "--work-tree",
    ]
)
"""Options before git's own command whose value is a word of its own."""
_RUN_BY_GIT = {
    "bisect": "run",
    "difftool": "-x*|--ex*",
    "filter-branch": "*",
    "rebase": "-x*|-i*x*|--ex*",
    "submodule": "foreach",
}
"""Words, as globs, with which a command of git runs other commands that it is given."""
_SHOWN = 200  # characters of a command in a refusal
_LOOKED_AT = 200  # words of a command within another that are compared with a rule


@dataclass(frozen=True, slots=True)
class CommandRules:
    """Words that a command must, or must not, begin with; each word a glob. ``deny`` wins, then ``ask``.

    With ``allow``, whatever it and ``ask`` do not name is refused. Without rules, all is allowed.
    """

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    """Run once the person has said yes."""

    def __post_init__(self) -> None:
        for rule in (*self.allow, *self.deny, *self.ask):
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
            return self._as_judged(command) if self.ask else command
        if not isinstance(command, str):
            self._check(command)
            return command
        pieces = _simple_commands(command)
        for argv in pieces[::2]:
            self._check(argv)
        return _quoted(pieces)

    def doubt(self, command: str | list[str]) -> str:
        """Return why the person has to be asked before this checked command; empty if they need not be."""
        if not self.ask:
            return ""
        try:
            commands = [command] if isinstance(command, list) else simple_commands(command)
        except ToolError as error:
            return error.message
        for argv in commands:
            for rule in self.ask:
                if _names(rule, argv) or _holds(rule, argv):
                    return f"the rule `{rule}` asks first"
            if (runs_others(argv) or _holds_shell(argv)) and not self._allows(argv):
                return f"{_shown(argv)} runs another command, which the rules cannot judge"
        return ""

    def _as_judged(self, command: str | list[str]) -> str | list[str]:
        """Quote a line of plain commands as its words are judged; any other stays: it is asked about."""
        if not isinstance(command, str):
            return command
        try:
            return _quoted(_simple_commands(command))
        except ToolError:
            return command

    def _allows(self, argv: list[str]) -> bool:
        return any(_begins(argv, _words_of_rule(rule), bare=False) for rule in self.allow)

    def _check(self, argv: list[str]) -> None:
        for rule in self.deny:
            if _names(rule, argv):
                raise _refused(f"{_shown(argv)} is forbidden by the rule `{rule}`", self)
        allowed = any(_begins(argv, _words_of_rule(rule), bare=False) for rule in (*self.allow, *self.ask))
        if self.allow and not allowed:
            raise _refused(f"no rule allows {_shown(argv)}", self)
        if not allowed and runs_others(argv):
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


def without_options_of_git(argv: list[str]) -> list[str]:
    """Return a command of git without what stands between the program and git's own command."""
    at = 1
    while at < len(argv) and argv[at].startswith("-"):
        at += 2 if argv[at] in _VALUED_BY_GIT else 1
    return [argv[0], *argv[at:]]


def runs_others(argv: list[str]) -> bool:
    """Return whether the arguments of this command are, or may be, commands themselves."""
    program = _bare(argv[0])
    if program == "find":
        return any(word.startswith(("-exec", "-ok")) for word in argv)
    if program == "git":
        return _git_runs_others(argv)
    return program in _RUNNERS or fnmatchcase(program, _LOADER)


def _git_runs_others(argv: list[str]) -> bool:
    words = without_options_of_git(argv)[1:]
    options = argv[1 : len(argv) - len(words)]
    if any(word.lower().startswith(("alias.", "--config-env=alias.")) for word in options):
        return True
    globs = _RUN_BY_GIT.get(words[0], "") if words else ""
    return any(fnmatchcase(word, glob) for word in words[1:] for glob in globs.split("|"))


def is_reserved(word: str) -> bool:
    """Return whether a shell takes this for a word of its own, behind which a command may stand."""
    return word in _RESERVED


def _quoted(pieces: list[list[str]]) -> str:
    return " ".join(shlex.join(piece) if at % 2 == 0 else piece[0] for at, piece in enumerate(pieces))


def _refused(message: str, rules: CommandRules) -> ToolError:
    allowed = ", ".join(f"`{rule}`" for rule in rules.allow)
    hint = f"commands must begin with {allowed}" if allowed else "go on without it, or ask the person for it"
    return ToolError(message, hint=hint, code="command_denied")


def _shown(argv: list[str]) -> str:
    return f"`{shlex.join(word[:_SHOWN] for word in argv[:_SHOWN])[:_SHOWN]}`"


def _begins(argv: list[str], rule: tuple[str, ...], *, bare: bool) -> bool:
    words = [_bare(argv[0]), *argv[1:]] if bare and "/" not in rule[0] else argv
    return len(words) >= len(rule) and all(map(fnmatchcase, words, rule))


def _names(rule: str, argv: list[str]) -> bool:
    """Return whether a rule that forbids or asks names this command, whatever git is told before its own."""
    words = _words_of_rule(rule)
    if _begins(argv, words, bare=True):
        return True
    return _bare(argv[0]) == "git" and _begins(without_options_of_git(argv), words, bare=True)


def _holds(rule: str, argv: list[str]) -> bool:
    """Return whether the words of a rule stand within a command: whatever runs them is not known here."""
    program = _words_of_rule(rule)[0]
    shown = str if "/" in program else _bare
    begun = (at for at, word in enumerate(argv) if fnmatchcase(shown(word), program))
    return any(_names(rule, argv[at : at + _LOOKED_AT]) for at in begun)


def _holds_shell(argv: list[str]) -> bool:
    """Return whether a command within this one brings a line for a shell."""
    return any(
        re.fullmatch(r"-[a-z]*c", after) and word != "." and _bare(word) in _RUNNERS
        for word, after in pairwise(argv)
    )


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
