"""Finds the file that the next edit is for, from paths beside a block, in a fence or in a header.

That is the file that the lines above the edit name, or else the file of the edit before. A line that consists
of a path names the file, also with prose below it. Prose that mentions another file leaves it in doubt: then
an edit that follows another one is refused, and the first edit records what was mentioned, so that it is not
applied to any other file.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kakite.edit.formats.format_error import make_format_error

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kakite.edit.formats.format_error import FormatName


_PATH = re.compile(r"[\w.@+~$%#()\[\]/\\-]+(?: [\w.@+~$%#()\[\]/\\-]+)*")
_KNOWN = re.compile(
    r"(?:.*/)?(?:Makefile|Dockerfile|Containerfile|LICENSE|COPYING|NOTICE|AUTHORS|CODEOWNERS|README|CHANGELOG|VERSION"
    r"|Gemfile|Rakefile|Procfile|Jenkinsfile|Vagrantfile|Brewfile|Podfile|Pipfile|Caddyfile|Tiltfile|[Jj]ustfile"
    r"|GNUmakefile|WORKSPACE|BUILD|\.\w[\w.-]*)"
)
_LABEL = re.compile(r"^(?:file(?:name|path)?|path)\s*:\s*", re.IGNORECASE)
_BULLETS = re.compile(r"^(?:(?:#+|//|\*|-|>|\d{1,3}[.)])\s+)+")
_UNDERSCORES = re.compile(r"(_{1,2})([^_\s].*)\1")
_BOLD = re.compile(r"\*\*(\d{1,3}[.)]\s+[^*]+)\*\*:?")
_EXTENSION = re.compile(
    r".*[^.]\.(?:astro|bash|bat|c|cc|cfg|clj|cmake|conf|cpp|cs|css|csv|dart|elm|env|erl|ex|exs|fs|go|gradle|graphql|groovy"
    r"|h|hpp|hs|html?|ini|ipynb|java|jl|js|json5?|jsonc|jsx|kts?|less|lisp|lock|lua|m|md|mdx|mjs|cjs|ml|mm|nix|php|pl|proto"
    r"|ps1|py|pyi|r|rake|rb|rs|rst|s?css|sass|scala|scm|sh|sol|sql|svelte|svg|swift|tex|tf|toml|ts|tsx|txt|vim|vue|xml"
    r"|ya?ml|zig|zsh|c\+\+)",
    re.IGNORECASE,
)
_LONE = re.compile(r"([*_`'\"]{1,3})[\w./$+-]+\1:?|[\w./$+-]*[\w$+-]")
_WORD = re.compile(r"[^\s`'\"*<>(),;:|—=：，。、；（）「」『』【】《》“”]+")
_ASCII = re.compile(r"[\w.@+~$%#/\\-]+", re.ASCII)
_URL = re.compile(r"(?<!\w)\w+://\S+")  # from the start of a word: else a long word takes quadratic time
_PRODUCT = re.compile(r"(?:Node|Next|Nuxt|Vue|React|Express|Three|D3|Chart|Angular|Nest|Discord|Alpine)\.js")
_SURE = re.compile(
    r"(?:.*/)?(?:Makefile|GNUmakefile|Dockerfile|Containerfile|Gemfile|Rakefile|Procfile|Jenkinsfile|Vagrantfile|Brewfile"
    r"|Podfile|Pipfile|Caddyfile|Tiltfile|[Jj]ustfile|README|CHANGELOG|CODEOWNERS|\.env|\.gitignore|\.dockerignore)"
)
"""Names without an extension that are no word of a sentence."""
MAX_MENTIONED = 100
"""How many of the files that prose mentions are kept: those nearest above an edit."""
_TAG_PATH = re.compile(
    r"<(path|file|file_?path|file_?name|target_file)>([^<>]+)(?:</\1>|$)"
    r"|<\w+\sname=[\"'](?:path|file|file_?path|file_?name)[\"']>([^<>]+)(?:</\w+>|$)"
    r"|<\w+[^<>]*\s(?:path|file|file_?path|file_?name|name)=[\"']([^\"'<>]+)[\"'][^<>]*>"
)
_TAGS = re.compile(r"\s*(?:</?\w[^<>]*>|<!\[CDATA\[|\]\]>|\s)+")
_ATTRIBUTE = re.compile(
    r"[\s{](?:file(?:_?name|_?path)?|path|title|name|src)\s*[=:]\s*(?:[\"']([^\"']+)[\"']|([^\s\"'{}]+))"
)
_FENCE = re.compile(r"\s*(```+|~~~+)\s*(\S*)\s*(.*)")


def find_path_in_line(line: str) -> str:
    """Return the path that a line consists of, without what is put around it, or an empty string."""
    text = _BULLETS.sub("", line.strip())
    if boxed := _BOLD.fullmatch(text):
        text = f"`{_BULLETS.sub('', boxed.group(1))}`"
    text = text.removesuffix(":")
    plain = _LABEL.sub("", _strip_emphasis(text)).strip("*`'\" ").removesuffix(":").strip("*`'\" ")
    # A sentence may end in a file's name: blanks need something that marks the path off.
    if " " in plain and plain == text.strip():
        return ""
    return plain if is_path(plain) else ""


def _strip_emphasis(text: str) -> str:
    """Return a line without Markdown's emphasis around it; a name may begin with ``_`` itself."""
    bare = text.strip("* ")
    emphasized = _UNDERSCORES.fullmatch(bare)
    return emphasized.group(2).strip("* ") if emphasized else bare


def find_mentioned_files(line: str) -> tuple[str, ...]:
    """Return what looks like a file's name among the words of a line, in a sentence or alone."""
    found: list[str] = []
    for word in _WORD.findall(_URL.sub(" ", line)):
        # Scripts without blanks leave a name between their letters: the part in ASCII may be all of it.
        parts = [word] if word.isascii() else [word, *_ASCII.findall(word)]
        found += [name for part in parts if _is_file_name(name := part.rstrip(".!?…"))]
    return tuple(dict.fromkeys(found))


class Mentions:
    """The files that prose mentions, each once, in the order of their last mention; of many the nearest."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names: OrderedDict[str, None] = OrderedDict()
        self.add(names)

    def add(self, names: Iterable[str]) -> None:
        """Take the names of the next line."""
        for name in names:
            self._names[name] = None
            self._names.move_to_end(name)
            if len(self._names) > MAX_MENTIONED:
                self._names.popitem(last=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The names, the nearest last."""
        return tuple(self._names)


def _is_file_name(word: str) -> bool:
    return bool(_EXTENSION.fullmatch(word) or _SURE.fullmatch(word)) and not _PRODUCT.fullmatch(word)


def find_lone_words(line: str) -> list[str]:
    """Return the word that a line consists of, if it could be a file's name."""
    return _WORD.findall(line) if _LONE.fullmatch(line.strip()) else []


def is_same_file(path: str, name: str) -> bool:
    """Tell whether a name is a path or the end of it."""
    return f"/{path}".endswith(f"/{name}") or (not name.isascii() and name.endswith(path))


def find_path_in_tag(line: str) -> str:
    """Return the path that a tag holds: ``<path>a.py</path>``, ``<file name="a.py">``; or an empty string."""
    found = _TAG_PATH.search(line)
    path = (found.group(2) or found.group(3) or found.group(4)).strip() if found else ""
    # The name of a tag's kind of thing is often no file's: only a path counts there.
    return path if found and (not found.group(4) or is_path(path)) else ""


def is_tag(line: str) -> bool:
    """Tell whether a line has nothing but tags around an edit."""
    return _TAGS.fullmatch(line) is not None


def find_path_in_fence(line: str) -> str:
    """Return the path that the opening line of a fence names, or an empty string."""
    found = _FENCE.fullmatch(line)
    if found is None:
        return ""
    if attribute := _ATTRIBUTE.search(line):
        return attribute.group(1) or attribute.group(2)
    language, rest = found.group(2), found.group(3).strip()
    for text in (rest, language.partition(":")[2], language):
        if text and is_path(text) and ("/" in text or "." in text):
            return text
    return ""


def is_fence(line: str) -> bool:
    """Tell whether a line opens or closes a fence."""
    return _FENCE.fullmatch(line) is not None


def is_path(text: str) -> bool:
    """Tell whether a text looks like the path of a file and not like a sentence."""
    if (
        not text
        or len(text) > 300
        or "://" in text
        or not _PATH.fullmatch(text.removeprefix("/").removeprefix("./"))
    ):
        return False
    name = re.split(r"[/\\]", text)[-1]
    return (
        bool(re.search(r"[^.]\.\w[\w+]{0,11}$", name))
        or bool(_KNOWN.fullmatch(text))
        or ("/" in text and " " not in text)
    )


@dataclass(slots=True)
class TargetFileTracker:
    """The lines since the last edit, while they are read."""

    path: str = ""
    """The file of the edit before."""
    _mentions: Mentions = field(default_factory=Mentions)
    """What prose mentions, where no path is sure."""
    _named: list[str] = field(default_factory=list[str])
    """Paths that stand on a line of their own."""
    _is_right_above: bool = False
    """Whether the last of them has no prose below it."""
    _doubt: tuple[int, str] | None = None
    """The line that mentions another file."""
    _last: tuple[int, str] | None = None
    _before_fence: int | None = None
    """How many paths were named when the fence that is open began."""

    @property
    def mentioned(self) -> tuple[str, ...]:
        """The files that prose mentions, where no path is sure: at most those nearest above."""
        return self._mentions.names

    def feed_line(self, line: str, number: int) -> None:
        """Take a line that stands outside of the edits."""
        if is_fence(line):
            self._feed_fence(line, number)
        path = find_path_in_tag(line) or (
            find_path_in_fence(line) if is_fence(line) else find_path_in_line(line)
        )
        if path:
            if not self._named or not is_same_file(self._named[-1], path):
                self._named.append(path)
            self._is_right_above, self._doubt = True, None
            self._mentions.add([path])
        elif line.strip() and not is_tag(line):
            self._feed_prose(line, number)

    def _feed_fence(self, line: str, number: int) -> None:
        """Notice where a fence ends that held no edit: a path in it is a line of what is quoted."""
        is_bare = not line.strip().strip("`~")
        if self._before_fence is None or not is_bare:
            self._before_fence = len(self._named)
            return
        quoted = self._named[self._before_fence :]
        del self._named[self._before_fence :]
        self._before_fence = None
        if quoted:
            self._is_right_above, self._last = False, (number, line)
            self._doubt = None if all(is_same_file(self.path, name) for name in quoted) else (number, line)

    def _feed_prose(self, line: str, number: int) -> None:
        files = find_mentioned_files(line)
        self._mentions.add(files)
        if not is_fence(line):
            self._is_right_above, self._last = False, (number, line)
        if files:
            current = self._named[-1] if self._named else self.path
            is_other = not all(is_same_file(current, name) for name in files)
            self._doubt = (number, line) if is_other else None

    def resolve(self, name: FormatName, path: str = "") -> str:
        """Return the path of the edit that begins here, or an empty string if none is named.

        Args:
            name: the format of the reply.
            path: what the edit itself names, which decides.

        Raises:
            FormatError: another file seems to be named, but not in a way that is sure.
        """
        if path or self._is_right_above or (len(self._named) == 1 and self._doubt is None):
            self.begin(path or self._named[-1])
            return self.path
        doubt = self._doubt or self._find_lone_word()
        if self.path and (doubt or self._named):
            number, line = doubt or self._last or (0, "")
            expected = "the path of the file, alone on the line above its edit"
            raise make_format_error(name, number, line, expected, "bad_content")
        path, mentions = self.path, Mentions() if self.path else self._mentions
        self.begin(path)
        self._mentions = mentions
        return path

    def _find_lone_word(self) -> tuple[int, str] | None:
        """Return the last line if it is a single word, which may be the name of a file."""
        if self._last and not all(is_same_file(self.path, word) for word in find_lone_words(self._last[1])):
            return self._last
        return None

    def begin(self, path: str) -> None:
        """Go on after an edit of a file."""
        self.path, self._mentions = path, Mentions()
        if self._before_fence is not None:
            self._before_fence = 0
        self._named, self._is_right_above, self._doubt, self._last = [], False, None, None
