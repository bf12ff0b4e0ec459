"""The name of a file in a reply: beside a block, in a fence, in a header."""

from __future__ import annotations

import re

_PATH = re.compile(r"[\w.@+~()\[\]/\\-]+(?: [\w.@+~()\[\]/\\-]+)*")
_KNOWN = re.compile(
    r"(?:.*/)?(?:Makefile|Dockerfile|LICENSE|README|Gemfile|Rakefile|Procfile|Jenkinsfile|\.\w+)"
)
_LABEL = re.compile(r"^(?:file(?:name|path)?|path)\s*:\s*", re.IGNORECASE)
_FENCE = re.compile(r"\s*(```+|~~~+)\s*(\S*)\s*(.*)")


def path_in_line(line: str) -> str:
    """Return the path that a line consists of, without what is put around it, or an empty string."""
    text = re.sub(r"^(?:#+|//|\*|-|>)\s+", "", line.strip()).removesuffix(":")
    plain = _LABEL.sub("", text.strip("*_ ")).strip("*`'\" ").removesuffix(":").strip("*`'\" ")
    # A sentence may end in a file's name: blanks need something that marks the path off.
    if " " in plain and plain == text.strip():
        return ""
    return plain if is_path(plain) else ""


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
        bool(re.search(r"[^.]\.\w{1,12}$", name))
        or bool(_KNOWN.fullmatch(text))
        or ("/" in text and " " not in text)
    )
