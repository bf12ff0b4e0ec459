"""The name of a file in a reply: beside a block, in a fence, in a header."""

from __future__ import annotations

import re

_PATH = re.compile(r"[\w.@+~$%#()\[\]/\\-]+(?: [\w.@+~$%#()\[\]/\\-]+)*")
_KNOWN = re.compile(
    r"(?:.*/)?(?:Makefile|Dockerfile|Containerfile|LICENSE|COPYING|NOTICE|AUTHORS|CODEOWNERS|README|CHANGELOG|VERSION"
    r"|Gemfile|Rakefile|Procfile|Jenkinsfile|Vagrantfile|Brewfile|Podfile|Pipfile|Caddyfile|Tiltfile|[Jj]ustfile"
    r"|GNUmakefile|WORKSPACE|BUILD|\.\w[\w.-]*)"
)
_LABEL = re.compile(r"^(?:file(?:name|path)?|path)\s*:\s*", re.IGNORECASE)
_BULLETS = re.compile(r"^(?:(?:#+|//|\*|-|>|\d{1,3}[.)])\s+)+")
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


def path_in_line(line: str) -> str:
    """Return the path that a line consists of, without what is put around it, or an empty string."""
    text = _BULLETS.sub("", line.strip())
    if boxed := _BOLD.fullmatch(text):
        text = f"`{_BULLETS.sub('', boxed.group(1))}`"
    text = text.removesuffix(":")
    plain = _LABEL.sub("", text.strip("*_ ")).strip("*`'\" ").removesuffix(":").strip("*`'\" ")
    # A sentence may end in a file's name: blanks need something that marks the path off.
    if " " in plain and plain == text.strip():
        return ""
    return plain if is_path(plain) else ""


def mentioned_files(line: str) -> tuple[str, ...]:
    """Return what looks like a file's name among the words of a line, in a sentence or alone."""
    found: list[str] = []
    for word in _WORD.findall(_URL.sub(" ", line)):
        # Scripts without blanks leave a name between their letters: the part in ASCII may be all of it.
        parts = [word] if word.isascii() else [word, *_ASCII.findall(word)]
        found += [name for part in parts if _looks_named(name := part.rstrip(".!?…"))]
    return tuple(dict.fromkeys(found))


def _looks_named(word: str) -> bool:
    return bool(_EXTENSION.fullmatch(word) or _SURE.fullmatch(word)) and not _PRODUCT.fullmatch(word)


def lone_words(line: str) -> list[str]:
    """Return the word that a line consists of, if it could be a file's name."""
    return _WORD.findall(line) if _LONE.fullmatch(line.strip()) else []


def is_same_file(path: str, name: str) -> bool:
    """Tell whether a name is a path or the end of it."""
    return f"/{path}".endswith(f"/{name}") or (not name.isascii() and name.endswith(path))


def path_in_tag(line: str) -> str:
    """Return the path that a tag holds: ``<path>a.py</path>``, ``<file name="a.py">``; or an empty string."""
    found = _TAG_PATH.search(line)
    path = (found.group(2) or found.group(3) or found.group(4)).strip() if found else ""
    # The name of a tag's kind of thing is often no file's: only a path counts there.
    return path if found and (not found.group(4) or is_path(path)) else ""


def is_tag(line: str) -> bool:
    """Tell whether a line has nothing but tags around an edit."""
    return _TAGS.fullmatch(line) is not None


def path_in_fence(line: str) -> str:
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
