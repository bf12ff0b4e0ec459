"""Reads the logs of aider: ``.aider.chat.history.md``, and the one of its requests to models."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kakite.cli.replay.recorded_edit import Ending, KnownTexts, RecordedEdit

if TYPE_CHECKING:
    from kakite.edit import Edit

CHAT, REQUESTS = ".aider.chat.history.md", ".aider.llm.history"
"""The names that it gives them, or its documentation does."""

_MAX_LINES = 200_000  # of one reply, of what is said of it, and of one file
_BLOCK = re.compile(r"<{5,9} SEARCH>?\s*\n(.*?)^={5,9}\s*\n(.*?)^>{5,9} REPLACE", re.DOTALL | re.MULTILINE)
_NO_MATCH = re.compile(r"# \d+ SEARCH/REPLACE blocks? failed to match!")
_AFTER_NO_MATCH = "The SEARCH section must exactly match"
_MALFORMED = "The LLM did not conform to the edit format."
_APPLIED = "Applied edit to "
_NEW_FILE = "Create new file?"
_FILES = "*added these files to the chat*"
_FENCES = {"`" * 3: "`" * 3, "`" * 4: "`" * 4} | {
    f"<{name}>": f"</{name}>" for name in ("source", "code", "pre", "codeblock", "sourcecode")
}


def is_chat(line: str) -> bool:
    """Return whether a line begins a chat."""
    return line.startswith("# aider chat started at ")


def is_request(line: str) -> bool:
    """Return whether a line begins what was sent to a model."""
    return re.match(r"TO LLM \d{4}-\d\d-\d\dT", line) is not None


@dataclass
class _Reply:
    """A reply of the model, and what aider said of its edits."""

    text: list[str] = field(default_factory=list[str])
    told: list[str] = field(default_factory=list[str])
    missed: list[str] = field(default_factory=list[str])
    """What it says that it found no place for."""

    def end(
        self, texts: KnownTexts, seen: Counter[str], *, is_followed: bool = False
    ) -> Iterator[RecordedEdit]:
        """Yield the edits; ``is_followed``: the next request does not tell that they were applied."""
        reply = "\n".join(self.text)
        if "<<<<<<< SEARCH" not in reply:
            return
        missed = {search for search, _ in _BLOCK.findall("\n".join(self.missed))}
        edits, told = _parse(reply), "\n".join(self.told)
        if not edits:
            is_bad = _MALFORMED in told or is_followed
            yield _make(reply, (), None, None, "failed" if is_bad else "not_tried", seen)
        for edit in edits:
            is_done = is_followed or f"{_APPLIED}{edit.path}\n" in f"{told}\n" or bool(missed)
            ending: Ending = "failed" if edit.search in missed else "applied" if is_done else "not_tried"
            if not edit.search.strip():
                is_new = _NEW_FILE in told and ending == "applied"
                texts.set(edit.path, edit.replace if is_new else None)
                continue
            before = texts.get(edit.path)
            after = _replace(before, edit) if ending == "applied" else None
            if ending == "applied":
                texts.set(edit.path, after)
            yield _make(f"{edit.path}\0{edit.search}\0{edit.replace}", (edit,), before, after, ending, seen)


def _make(
    key: str, edits: Sequence[Edit], before: str | None, after: str | None, ending: Ending, seen: Counter[str]
) -> RecordedEdit:
    # Both logs tell of the same edit, and one may be sent twice.
    seen[key] += 1
    path = edits[0].path if edits else ""
    return RecordedEdit(
        key=f"aider\0{seen[key]}\0{key}",
        operations=tuple(edits),
        before=None if before is None else {path: before},
        after=None if after is None else {path: after},
        ending=ending,
    )


def _parse(reply: str) -> list[Edit]:
    from kakite.edit import Edit, FormatError, parse

    try:
        operations = parse(reply, "search_replace")
    except FormatError:
        return []
    return [each for each in operations if isinstance(each, Edit)]


def _replace(before: str | None, edit: Edit) -> str | None:
    """Return what aider wrote if it found these very lines, the first of them; else nobody tells."""
    if before is None:
        return None
    at = f"\n{before}".find(f"\n{edit.search}")
    return None if at < 0 else before[:at] + edit.replace + before[at + len(edit.search) :]


def read_chat(lines: Iterable[str]) -> Iterator[RecordedEdit]:
    """Yield the edits of a chat in their order. Of its files only those are known that it made."""
    texts, reply, seen, is_missing = KnownTexts(), _Reply(), Counter[str](), False
    is_block = False
    for line in lines:
        is_block = _is_in_block(line, is_block=is_block)
        is_told = line.startswith("> ") and not is_missing and not is_block
        if is_chat(line) or line.startswith("#### ") or (not is_told and reply.told and not is_missing):
            yield from reply.end(texts, seen)
            reply = _Reply()
        if is_chat(line) or line.startswith(("#### /", "> Running ")):
            texts.clear()  # a command may change any file
        elif is_told:
            _append(reply.told, line[2:].rstrip())
            is_missing = _NO_MATCH.match(line[2:]) is not None
        elif is_missing:
            _append(reply.missed, line)
            is_missing = not line.startswith(_AFTER_NO_MATCH)
        else:
            _append(reply.text, line)
    yield from reply.end(texts, seen)


def _append(lines: list[str], line: str) -> None:
    if len(lines) < _MAX_LINES:
        lines.append(line)


def _is_in_block(line: str, *, is_block: bool) -> bool:
    """Return whether a line is one of a file, also if it begins as what aider says itself."""
    if is_block:
        return not line.startswith((">>>>>>> REPLACE", "> Tokens: ", "# aider chat started at "))
    return line.startswith("<<<<<<< SEARCH")


def read_requests(lines: Iterable[str]) -> Iterator[RecordedEdit]:
    """Yield the edits of the replies in a log of requests, which tells the files that a model was sent."""
    texts, reply, seen, sent = KnownTexts(), _Reply(), Counter[str](), _Sent()
    is_reply = False
    for line in lines:
        if is_request(line) or line.startswith("LLM RESPONSE "):
            is_reply = not is_request(line)
            if is_reply:
                reply.missed = sent.missed
                yield from reply.end(texts, seen, is_followed=True)
                texts, reply, sent = sent.texts, _Reply(), _Sent()
        elif is_reply:
            _append(reply.text, line.removeprefix("ASSISTANT").removeprefix(" "))
        else:
            sent.add(line)
    yield from reply.end(texts, seen)


@dataclass
class _Sent:
    """What a request says of files, and of edits before it."""

    texts: KnownTexts = field(default_factory=KnownTexts)
    missed: list[str] = field(default_factory=list[str])
    _is_first: bool = False
    _has_files: bool = False
    _is_missing: bool = False
    _last: str = ""
    _path: str = ""
    _closing: str = ""
    _file: list[str] = field(default_factory=list[str])

    def add(self, line: str) -> None:
        """Take one more line."""
        if line == "-------":
            self._is_first, self._has_files, self._is_missing = True, False, False
            self._closing = self._last = ""
            return
        if self._is_first and line.startswith("USER"):
            self.missed = []  # what is said of earlier replies stands in the messages before
        self._is_first = False
        content = line.removeprefix("USER").removeprefix(" ")
        if _NO_MATCH.match(content):
            self._is_missing, self.missed = True, []
        elif self._is_missing:
            _append(self.missed, content)
        elif self._closing:
            self._add_to_file(content)
        elif self._has_files and content in _FENCES:
            self._path, self._closing, self._file = self._last, _FENCES[content], []
        else:
            self._has_files |= _FILES in content
            self._last = content

    def _add_to_file(self, content: str) -> None:
        if content != self._closing:
            _append(self._file, f"{content}\n")
            return
        self.texts.set(self._path, "".join(self._file))
        self._closing = ""
