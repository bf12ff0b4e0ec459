"""Decides which commands ``run_command`` may run, as far as a command can be judged.

Commands of git that throw work away are refused before they run, in whatever line of shell they stand. This
keeps a model from a mistake; it is no wall against intent (a script can run git as well). What leaves the
machine is guarded elsewhere: the agent's remote accepts no forced push.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
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
            if not _split_words(rule):
                raise UsageError(
                    f"`{rule}` is not a rule for commands", hint="write the words that a command begins with"
                )

    def check(self, command: str | list[str]) -> str | list[str]:
        """Check a command before it is run: a string for ``sh -c``, or its words.

        Returns what is to be run: of a string the very words that were judged, quoted, since shells differ in
        where they see a word end.

        Raises:
            ToolError: ``command_denied``; the message says which part of it no rule allows.
        """
        if not self.allow and not self.deny:
            return self._quote_plain(command) if self.ask else command
        if not isinstance(command, str):
            self._check(command)
            return command
        pieces = _split_pieces(command)
        for argv in pieces[::2]:
            self._check(argv)
        return _quote(pieces)

    def get_approval_reason(self, command: str | list[str]) -> str:
        """Return why the person has to be asked before this checked command; empty if they need not be."""
        if not self.ask:
            return ""
        try:
            commands = [command] if isinstance(command, list) else split_commands(command)
        except ToolError as error:
            return error.message
        for argv in commands:
            for rule in self.ask:
                if _is_rule_match(rule, argv) or _has_nested_match(rule, argv):
                    return f"the rule `{rule}` asks first"
            if (is_command_runner(argv) or _has_shell_line(argv)) and not self._is_allowed(argv):
                return f"{_format_command(argv)} runs another command, which the rules cannot judge"
        return ""

    def _quote_plain(self, command: str | list[str]) -> str | list[str]:
        """Quote a line of plain commands as its words are judged; any other stays: it is asked about."""
        if not isinstance(command, str):
            return command
        try:
            return _quote(_split_pieces(command))
        except ToolError:
            return command

    def _is_allowed(self, argv: list[str]) -> bool:
        return any(_has_prefix(argv, _parse_rule(rule), bare=False) for rule in self.allow)

    def _check(self, argv: list[str]) -> None:
        for rule in self.deny:
            if _is_rule_match(rule, argv):
                raise _build_refusal(f"{_format_command(argv)} is forbidden by the rule `{rule}`", self)
        allowed = any(_has_prefix(argv, _parse_rule(rule), bare=False) for rule in (*self.allow, *self.ask))
        if self.allow and not allowed:
            raise _build_refusal(f"no rule allows {_format_command(argv)}", self)
        if not allowed and is_command_runner(argv):
            raise _build_refusal(
                f"{_format_command(argv)} runs another command, which the rules cannot judge", self
            )


def is_rule(rule: str) -> bool:
    """Return whether this names the words that a command begins with."""
    return bool(_split_words(rule))


def split_commands(line: str) -> list[list[str]]:
    """Return the words of each command of a line for ``sh``.

    Raises:
        ToolError: ``command_denied``: the line does more than run plain commands in a row.
    """
    return _split_pieces(line)[::2]


def has_prefix(argv: list[str], rule: str, *, bare: bool) -> bool:
    """Return whether a command begins with the words of a rule, each a glob.

    With ``bare``, a program is meant wherever it lies, unless the rule says where.
    """
    return _has_prefix(argv, _parse_rule(rule), bare=bare)


def strip_git_options(argv: list[str]) -> list[str]:
    """Return a command of git without what stands between the program and git's own command."""
    at = 1
    while at < len(argv) and argv[at].startswith("-"):
        at += 2 if argv[at] in _VALUED_BY_GIT else 1
    return [argv[0], *argv[at:]]


def is_command_runner(argv: list[str]) -> bool:
    """Return whether the arguments of this command are, or may be, commands themselves."""
    program = _get_program_name(argv[0])
    if program == "find":
        return any(word.startswith(("-exec", "-ok")) for word in argv)
    if program == "git":
        return _is_git_command_runner(argv)
    return program in _RUNNERS or fnmatchcase(program, _LOADER)


def _is_git_command_runner(argv: list[str]) -> bool:
    words = strip_git_options(argv)[1:]
    options = argv[1 : len(argv) - len(words)]
    if any(word.lower().startswith(("alias.", "--config-env=alias.")) for word in options):
        return True
    globs = _RUN_BY_GIT.get(words[0], "") if words else ""
    return any(fnmatchcase(word, glob) for word in words[1:] for glob in globs.split("|"))


def is_reserved(word: str) -> bool:
    """Return whether a shell takes this for a word of its own, behind which a command may stand."""
    return word in _RESERVED


def _quote(pieces: list[list[str]]) -> str:
    return " ".join(shlex.join(piece) if at % 2 == 0 else piece[0] for at, piece in enumerate(pieces))


def _build_refusal(message: str, rules: CommandRules) -> ToolError:
    allowed = ", ".join(f"`{rule}`" for rule in rules.allow)
    hint = f"commands must begin with {allowed}" if allowed else "go on without it, or ask the person for it"
    return ToolError(message, hint=hint, code="command_denied")


def _format_command(argv: list[str]) -> str:
    return f"`{shlex.join(word[:_SHOWN] for word in argv[:_SHOWN])[:_SHOWN]}`"


def _has_prefix(argv: list[str], rule: tuple[str, ...], *, bare: bool) -> bool:
    words = [_get_program_name(argv[0]), *argv[1:]] if bare and "/" not in rule[0] else argv
    return len(words) >= len(rule) and all(map(fnmatchcase, words, rule))


def _is_rule_match(rule: str, argv: list[str]) -> bool:
    """Return whether a rule that forbids or asks names this command, whatever git is told before its own."""
    words = _parse_rule(rule)
    if _has_prefix(argv, words, bare=True):
        return True
    return _get_program_name(argv[0]) == "git" and _has_prefix(strip_git_options(argv), words, bare=True)


def _has_nested_match(rule: str, argv: list[str]) -> bool:
    """Return whether the words of a rule stand within a command: whatever runs them is not known here."""
    program = _parse_rule(rule)[0]
    shown = str if "/" in program else _get_program_name
    begun = (at for at, word in enumerate(argv) if fnmatchcase(shown(word), program))
    return any(_is_rule_match(rule, argv[at : at + _LOOKED_AT]) for at in begun)


def _has_shell_line(argv: list[str]) -> bool:
    """Return whether a command within this one brings a line for a shell."""
    return any(
        re.fullmatch(r"-[a-z]*c", after) and word != "." and _get_program_name(word) in _RUNNERS
        for word, after in pairwise(argv)
    )


def _get_program_name(program: str) -> str:
    return program.rpartition("/")[2]


def _split_words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:
        return []


@cache
def _parse_rule(rule: str) -> tuple[str, ...]:
    return tuple(_split_words(rule))


# A quote without an end takes all that follows: looked at once, and refused below.
_PIECES = re.compile(r"'[^']*+(?:'|\Z)|\"(?>[^\"\\]+|\\.?)*+(?:\"|\Z)|&&|\|\||\|&|[;|]|.", re.DOTALL)


def _split_pieces(line: str) -> list[list[str]]:
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
    return [_parse_argv("".join(each)) if at % 2 == 0 else each for at, each in enumerate(commands)]


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


def _parse_argv(command: str) -> list[str]:
    words = _split_words(command)
    if not words or words[0] in _RESERVED or "=" in words[0] or not words[0]:
        raise ToolError(
            f"`{command.strip()[:200]}` is not a plain command, and rules cannot judge it",
            hint="begin with the program's name",
            code="command_denied",
        )
    return words


_DEPTH = 3  # of lines of shell within lines of shell
_HERE = re.compile(r"(?<!<)<<-?[ \t]*(?P<quote>['\"\\]?)(?P<end>[\w.-]+)['\"]?")
_SHELL = re.compile(r"(?<![\w.])(?:ba|da|k|z)?sh(?![\w.])")
_REDIRECTION = re.compile(r"&?[<>]{1,2}[&|]?")  # of a shell's punctuation: a file comes after it
_QUOTED = r"'[^']*+'|(?P<double>\"(?:\\.|[^\"\\])*+\")|\\."
_QUOTED_PIECES = re.compile(rf"{_QUOTED}|(?P<comment>(?<![^\s;&|()`])#[^\n]*)", re.DOTALL)
_STASH = "`git stash --include-untracked` sets all changes aside and can be taken back"


def check_git(command: str | list[str], allowed: Sequence[str]) -> None:
    """Refuse a command that has git throw away changes, files or others' commits.

    ``allowed`` are rules; one that names just such a command lets it through: in three words or more, none of
    which is a pattern.

    Raises:
        ToolError: ``command_denied``; the hint says what to do instead.
    """
    named = [rule for rule in allowed if len(rule.split()) > 2 and "*" not in rule]
    for argv in _iterate_git_commands(command, _DEPTH):
        words = strip_git_options(argv)[1:]
        options = argv[1 : len(argv) - len(words)]
        if not words or any(has_prefix(["git", *words], rule, bare=True) for rule in named):
            continue
        way_on = _find_alternative(words[0], words[1:], options)
        if way_on:
            shown = shlex.join(["git", *words])[:200]
            raise ToolError(f"`{shown}` throws work away", hint=way_on, code="command_denied")


def _iterate_git_commands(command: str | list[str], depth: int) -> Iterator[list[str]]:
    """Yield the words of each command of git in it."""
    line = command if isinstance(command, list) else _strip_comments(_strip_here_documents(command))
    for argv in [line] if isinstance(line, list) else _split(line):
        words = _strip_shell_prefix(argv)
        if words and _is_git(words[0]):
            yield words
        if words and depth and is_command_runner(words):
            yield from _iterate_nested(words, depth - 1)
    if isinstance(line, str) and depth:
        for inner in _iterate_substitutions(line):
            yield from _iterate_git_commands(inner, depth - 1)


def _strip_shell_prefix(argv: list[str]) -> list[str]:
    """Return a command without what a shell takes for itself before it."""
    at = 0
    while at < len(argv) and (is_reserved(argv[at]) or re.match(r"\w+=", argv[at])):
        at += 2 if argv[at] == "function" else 1
    return argv[at:]


def _iterate_nested(words: list[str], depth: int) -> Iterator[list[str]]:
    """Yield the commands of git that a command runs which is given them: as words of its own, or as lines."""
    for at, word in enumerate(words[1:], 1):
        alias = re.match(r"alias\.[^=]*=(!?)", word, re.IGNORECASE)
        if _is_git(word):
            yield words[at:]
        elif alias:
            yield from _iterate_git_commands(("" if alias[1] else "git ") + word[alias.end() :], depth)
        elif any(blank in word for blank in " \t\n"):
            yield from _iterate_git_commands(re.sub(r"^--\w+=", "", word), depth)


def _is_git(program: str) -> bool:
    return program.rpartition("/")[2] == "git"


def _strip_here_documents(line: str) -> str:
    """Return the line without its here-documents, but for those that a shell reads and what is filled in."""
    lines = line.split("\n")
    last = {each.strip("\t"): at for at, each in enumerate(lines)}
    kept: list[str] = []
    filled: list[str] = []
    at = 0
    while at < len(lines):
        opening, at = lines[at], at + 1
        is_read = bool(_SHELL.search(opening))
        for found in _HERE.finditer(opening):
            if last.get(found["end"], -1) < at:
                break
            begin = at
            while lines[at].strip("\t") != found["end"]:
                at += 1
            text, at = lines[begin:at], at + 1
            if is_read:
                filled += text
            elif not found["quote"]:
                filled += _iterate_substitutions('"' + re.sub(r'["\\]', " ", "\n".join(text)) + '"')
        else:
            opening = _HERE.sub("", opening)
        kept.append(opening)
    return "\n".join(kept + filled)


def _strip_comments(line: str) -> str:
    """Return the line without what no shell reads, where an apostrophe begins nothing."""
    joined = line.replace("\\\n", "")
    return _QUOTED_PIECES.sub(lambda found: "" if found["comment"] else found[0], joined)


def _iterate_substitutions(line: str) -> Iterator[str]:
    """Yield what a shell runs to fill in between double quotes; what is not in quotes is split off anyhow."""
    seen = 0
    for found in _QUOTED_PIECES.finditer(line):
        if not found["double"]:
            continue
        yield from re.findall(r"`([^`]*)`", found[0])
        for opening in re.finditer(r"\$\(", found[0]):
            begin = found.start() + opening.end()
            if begin > seen:  # else it is within the one before
                inner = _take_until_closed(line[begin:])
                seen = begin + len(inner)
                yield inner


def _take_until_closed(line: str) -> str:
    """Return what stands before the bracket that closes one before the line."""
    deep = 1
    for found in re.finditer(r"[()]", line):
        deep += 1 if found[0] == "(" else -1
        if not deep:
            return line[: found.start()]
    return line


def _split(line: str) -> Iterator[list[str]]:
    """Split a line of shell into commands, as well as that goes without being a shell."""
    plain = re.sub(r"\$(?=['\"])", "", re.sub(r"`|\n", " ; ", line))
    lexer = shlex.shlex(plain, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    redirected = False
    try:
        for word in lexer:
            if word.strip("();<>|&"):
                words += [] if redirected else [word]
                redirected = False
            elif redirected := bool(_REDIRECTION.fullmatch(word)):
                words = words[:-1] if words and words[-1].isdigit() else words
            elif word != "<<<":
                yield words
                words = []
    except ValueError:  # a quote without an end
        yield from _split_ignoring_quotes(line)
    else:
        if _HERE.search(line):  # without an end, or no text: a quote there may hide what comes after it
            yield from _split_ignoring_quotes(line)
    yield words


def _split_ignoring_quotes(line: str) -> Iterator[list[str]]:
    """Yield the words of each part of a line that may be a command, whatever is quoted."""
    for part in re.split(r"[\n;&|()`]+", line):
        try:
            yield shlex.split(part)
        except ValueError:
            yield re.sub(r"['\"]", " ", part).split()


def _find_alternative(command: str, words: list[str], options: list[str]) -> str:
    """Return what to do instead, nothing if it is harmless. ``options`` stand before git's own command."""
    if words[:1] == ["--help"]:
        return ""
    match command:
        case "reset" if _has_option(words, "--hard"):
            return f"{_STASH}; `git reset --keep COMMIT` moves the branch and keeps them"
        case "clean" if _is_forced(words, options) and not _has_option(words, "--dry-run", "n"):
            return "`git clean -n` shows what there is; remove what is yours file by file"
        case "checkout" if _has_everything(words) or _has_option(words, "--force", "f"):
            return f"name the files; {_STASH}"
        case "restore" if _has_everything(words) and (
            _has_option(words, "--worktree", "W") or not _has_option(words, "--staged", "S")
        ):
            return f"name the files; {_STASH}"
        case "switch" if _has_option(words, "--force", "f") or _has_option(words, "--discard-changes"):
            return _STASH
        case "push" if _is_forced_push(words) and not _has_option(words, "--dry-run", "n"):
            return "`git pull --rebase` puts your commits on top of the others; then push without force"
        case _:
            return _find_rare_alternative(command, words)


def _find_rare_alternative(command: str, words: list[str]) -> str:
    match command:
        case "rm" if _is_remove_all(words):
            return f"name the files; {_STASH}"
        case "stash" if not {"clear", "drop"}.isdisjoint(words[:1]):
            return "`git stash apply` brings the changes back and keeps what is set aside; leave it there"
        case "worktree" if words[:1] == ["remove"] and _has_option(words, "--force", "f"):
            return "without force git removes a work tree that has no changes; commit them there first"
        case "checkout-index" if _has_option(words, "--force", "f") and _has_option(words, "--all", "a"):
            return f"name the files; {_STASH}"
        case "read-tree" if _has_option(words, "--reset") and _has_option(words, "", "u"):
            return f"`git read-tree -m -u` keeps changes; {_STASH}"
        case _:
            return ""


def _is_forced(words: list[str], options: list[str]) -> bool:
    unasked = any("clean.requireforce" in option.lower() for option in options)
    return unasked or _has_option(words, "--force", "f")


def _is_remove_all(words: list[str]) -> bool:
    kept = _has_option(words, "--cached") or _has_option(words, "--dry-run", "n")
    return _has_everything(words) and _has_option(words, "--force", "f") and not kept


def _is_forced_push(words: list[str]) -> bool:
    forced = any(word.startswith(("+", ":", "--force-")) for word in words)
    forced = forced or _has_option(words, "--mirror") or _has_option(words, "--prune")
    return forced or _has_option(words, "--force", "f") or _has_option(words, "--delete", "d")


def _has_everything(words: list[str]) -> bool:
    """Return whether the paths among the words mean all files, or all but some."""
    paths = words[words.index("--") + 1 :] if "--" in words else [word for word in words if word[:1] != "-"]
    excepted = [path for path in paths if re.match(r":(?:/?[!^]|\([^)]*exclude)", path)]
    return bool(paths) and (excepted == paths or any(map(_is_everything, paths)))


def _is_everything(path: str) -> bool:
    """Return whether a path of git's is the folder that we are in, or one above it."""
    bare = re.sub(r"^:(?:\([^)]*\)|/)?|^\$(?:PWD\b|\{PWD\}|\(pwd\))", "", path)
    return path != "" and {".", "..", "*", "**", ""}.issuperset(bare.split("/"))


def _has_option(words: list[str], option: str, letter: str = "") -> bool:
    """Return whether an option is there: also as git takes it cut short, and among other letters."""
    options = words[: words.index("--")] if "--" in words else words
    # What comes after one of these letters is its value.
    among = re.compile(f"-[^\\WoebBcCs]*{letter}\\w*" if letter else "(?!)")
    return any((len(word) > 2 and option.startswith(word)) or among.fullmatch(word) for word in options)
