"""Commands of git that throw work away, refused before they run.

Keeps a model from a mistake, in whatever line of shell the command stands; no wall against one that means to
(a script can run git as well). What leaves the machine is guarded elsewhere: the agent's remote takes nothing
that is forced.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

from kakite.tools.arguments import ToolError
from kakite.tools.rules import begins, is_reserved, runs_others, without_options_of_git

_DEPTH = 3  # of lines of shell within lines of shell
_HERE = re.compile(r"(?<!<)<<-?[ \t]*(?P<quote>['\"\\]?)(?P<end>[\w.-]+)['\"]?")
_SHELL = re.compile(r"(?<![\w.])(?:ba|da|k|z)?sh(?![\w.])")
_REDIRECTION = re.compile(r"&?[<>]{1,2}[&|]?")  # of a shell's punctuation: a file comes after it
_QUOTED = r"'[^']*+'|(?P<double>\"(?:\\.|[^\"\\])*+\")|\\."
_PIECES = re.compile(rf"{_QUOTED}|(?P<comment>(?<![^\s;&|()`])#[^\n]*)", re.DOTALL)
_STASH = "`git stash --include-untracked` sets all changes aside and can be taken back"


def check_git(command: str | list[str], allowed: Sequence[str]) -> None:
    """Refuse a command that has git throw away changes, files or others' commits.

    ``allowed`` are rules; one that names just such a command lets it through: in three words or more, none of
    which is a pattern.

    Raises:
        ToolError: ``command_denied``; the hint says what to do instead.
    """
    named = [rule for rule in allowed if len(rule.split()) > 2 and "*" not in rule]
    for argv in _commands(command, _DEPTH):
        words = without_options_of_git(argv)[1:]
        options = argv[1 : len(argv) - len(words)]
        if not words or any(begins(["git", *words], rule, bare=True) for rule in named):
            continue
        way_on = _loss(words[0], words[1:], options)
        if way_on:
            shown = shlex.join(["git", *words])[:200]
            raise ToolError(f"`{shown}` throws work away", hint=way_on, code="command_denied")


def _commands(command: str | list[str], depth: int) -> Iterator[list[str]]:
    """Yield the words of each command of git in it."""
    line = command if isinstance(command, list) else _without_comments(_without_texts(command))
    for argv in [line] if isinstance(line, list) else _split(line):
        words = _from_program(argv)
        if words and _is_git(words[0]):
            yield words
        if words and depth and runs_others(words):
            yield from _within(words, depth - 1)
    if isinstance(line, str) and depth:
        for inner in _substituted(line):
            yield from _commands(inner, depth - 1)


def _from_program(argv: list[str]) -> list[str]:
    """Return a command without what a shell takes for itself before it."""
    at = 0
    while at < len(argv) and (is_reserved(argv[at]) or re.match(r"\w+=", argv[at])):
        at += 2 if argv[at] == "function" else 1
    return argv[at:]


def _within(words: list[str], depth: int) -> Iterator[list[str]]:
    """Yield the commands of git that a command runs which is given them: as words of its own, or as lines."""
    for at, word in enumerate(words[1:], 1):
        alias = re.match(r"alias\.[^=]*=(!?)", word, re.IGNORECASE)
        if _is_git(word):
            yield words[at:]
        elif alias:
            yield from _commands(("" if alias[1] else "git ") + word[alias.end() :], depth)
        elif any(blank in word for blank in " \t\n"):
            yield from _commands(re.sub(r"^--\w+=", "", word), depth)


def _is_git(program: str) -> bool:
    return program.rpartition("/")[2] == "git"


def _without_texts(line: str) -> str:
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
                filled += _substituted('"' + re.sub(r'["\\]', " ", "\n".join(text)) + '"')
        else:
            opening = _HERE.sub("", opening)
        kept.append(opening)
    return "\n".join(kept + filled)


def _without_comments(line: str) -> str:
    """Return the line without what no shell reads, where an apostrophe begins nothing."""
    joined = line.replace("\\\n", "")
    return _PIECES.sub(lambda found: "" if found["comment"] else found[0], joined)


def _substituted(line: str) -> Iterator[str]:
    """Yield what a shell runs to fill in between double quotes; what is not in quotes is split off anyhow."""
    seen = 0
    for found in _PIECES.finditer(line):
        if not found["double"]:
            continue
        yield from re.findall(r"`([^`]*)`", found[0])
        for opening in re.finditer(r"\$\(", found[0]):
            begin = found.start() + opening.end()
            if begin > seen:  # else it is within the one before
                inner = _until_closed(line[begin:])
                seen = begin + len(inner)
                yield inner


def _until_closed(line: str) -> str:
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
        yield from _in_parts(line)
    else:
        if _HERE.search(line):  # without an end, or no text: a quote there may hide what comes after it
            yield from _in_parts(line)
    yield words


def _in_parts(line: str) -> Iterator[list[str]]:
    """Yield the words of each part of a line that may be a command, whatever is quoted."""
    for part in re.split(r"[\n;&|()`]+", line):
        try:
            yield shlex.split(part)
        except ValueError:
            yield re.sub(r"['\"]", " ", part).split()


def _loss(command: str, words: list[str], options: list[str]) -> str:
    """Return what to do instead, nothing if it is harmless. ``options`` stand before git's own command."""
    if words[:1] == ["--help"]:
        return ""
    match command:
        case "reset" if _has(words, "--hard"):
            return f"{_STASH}; `git reset --keep COMMIT` moves the branch and keeps them"
        case "clean" if _is_forced(words, options) and not _has(words, "--dry-run", "n"):
            return "`git clean -n` shows what there is; remove what is yours file by file"
        case "checkout" if _names_everything(words) or _has(words, "--force", "f"):
            return f"name the files; {_STASH}"
        case "restore" if _names_everything(words) and (
            _has(words, "--worktree", "W") or not _has(words, "--staged", "S")
        ):
            return f"name the files; {_STASH}"
        case "switch" if _has(words, "--force", "f") or _has(words, "--discard-changes"):
            return _STASH
        case "push" if _overwrites(words) and not _has(words, "--dry-run", "n"):
            return "`git pull --rebase` puts your commits on top of the others; then push without force"
        case _:
            return _rarer_loss(command, words)


def _rarer_loss(command: str, words: list[str]) -> str:
    match command:
        case "rm" if _removes_all(words):
            return f"name the files; {_STASH}"
        case "stash" if not {"clear", "drop"}.isdisjoint(words[:1]):
            return "`git stash apply` brings the changes back and keeps what is set aside; leave it there"
        case "worktree" if words[:1] == ["remove"] and _has(words, "--force", "f"):
            return "without force git removes a work tree that has no changes; commit them there first"
        case "checkout-index" if _has(words, "--force", "f") and _has(words, "--all", "a"):
            return f"name the files; {_STASH}"
        case "read-tree" if _has(words, "--reset") and _has(words, "", "u"):
            return f"`git read-tree -m -u` keeps changes; {_STASH}"
        case _:
            return ""


def _is_forced(words: list[str], options: list[str]) -> bool:
    unasked = any("clean.requireforce" in option.lower() for option in options)
    return unasked or _has(words, "--force", "f")


def _removes_all(words: list[str]) -> bool:
    kept = _has(words, "--cached") or _has(words, "--dry-run", "n")
    return _names_everything(words) and _has(words, "--force", "f") and not kept


def _overwrites(words: list[str]) -> bool:
    forced = any(word.startswith(("+", ":", "--force-")) for word in words)
    forced = forced or _has(words, "--mirror") or _has(words, "--prune")
    return forced or _has(words, "--force", "f") or _has(words, "--delete", "d")


def _names_everything(words: list[str]) -> bool:
    """Return whether the paths among the words mean all files, or all but some."""
    paths = words[words.index("--") + 1 :] if "--" in words else [word for word in words if word[:1] != "-"]
    excepted = [path for path in paths if re.match(r":(?:/?[!^]|\([^)]*exclude)", path)]
    return bool(paths) and (excepted == paths or any(map(_is_everything, paths)))


def _is_everything(path: str) -> bool:
    """Return whether a path of git's is the folder that we are in, or one above it."""
    bare = re.sub(r"^:(?:\([^)]*\)|/)?|^\$(?:PWD\b|\{PWD\}|\(pwd\))", "", path)
    return path != "" and {".", "..", "*", "**", ""}.issuperset(bare.split("/"))


def _has(words: list[str], option: str, letter: str = "") -> bool:
    """Return whether an option is there: also as git takes it cut short, and among other letters."""
    options = words[: words.index("--")] if "--" in words else words
    # What comes after one of these letters is its value.
    among = re.compile(f"-[^\\WoebBcCs]*{letter}\\w*" if letter else "(?!)")
    return any((len(word) > 2 and option.startswith(word)) or among.fullmatch(word) for word in options)
