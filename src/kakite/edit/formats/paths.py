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
_EXTENSION = re.compile(
    r".*[^.]\.(?:astro|bash|bat|c|cc|cfg|clj|cmake|conf|cpp|cs|css|csv|dart|elm|env|erl|ex|exs|fs|go|gradle|graphql|groovy"
    r"|h|hpp|hs|html?|ini|ipynb|java|jl|js|json5?|jsonc|jsx|kts?|less|lisp|lock|lua|m|md|mdx|mjs|cjs|ml|mm|nix|php|pl|proto"
    r"|ps1|py|pyi|r|rake|rb|rs|rst|s?css|sass|scala|scm|sh|sol|sql|svelte|svg|swift|tex|tf|toml|ts|tsx|txt|vim|vue|xml"
    r"|ya?ml|zig|zsh|c\+\+)",
    re.IGNORECASE,
)
_LONE = re.compile(r"([*_`'\"]{1,3})[\w./$+-]+\1:?|[\w./$+-]*[\w$+-]")
_FENCE = re.compile(r"\s*(```+|~~~+)\s*(\S*)\s*(.*)")


def path_in_line(line: str) -> str:
    """Return the path that a line consists of, without what is put around it, or an empty string."""
    text = _BULLETS.sub("", line.strip()).removesuffix(":")
    plain = _LABEL.sub("", text.strip("*_ ")).strip("*`'\" ").removesuffix(":").strip("*`'\" ")
    # A sentence may end in a file's name: blanks need something that marks the path off.
    if " " in plain and plain == text.strip():
        return ""
    return plain if is_path(plain) else ""


def names_other_file(line: str, path: str) -> bool:
    """Tell whether a line that is no path may name another file than ``path``, in a sentence or alone."""
    words = [word.rstrip(".!?…") for word in re.findall(r"[^\s`'\"*<>(),;:|—]+", line)]
    named = [word for word in words if _EXTENSION.fullmatch(word)]
    if _LONE.fullmatch(line.strip()):
        named += words
    return any(not f"/{path}".endswith(f"/{word}") for word in named)


def path_in_fence(line: str) -> str:
    """Return the path that the opening line of a fence names, or an empty string."""
    found = _FENCE.fullmatch(line)
    if found is None:
        return ""
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
