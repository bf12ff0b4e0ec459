"""Gives the model what a message names with ``@``: files, lines of them, folders, pictures.

The message stays as it was written; what it names stands below it.
"""

from __future__ import annotations

import html
import posixpath
import re
from dataclasses import dataclass
from typing import Literal

from kakite.agent.session.context.mention_syntax import (
    LineRange,
    MentionCandidate,
    MentionReading,
    find_candidates,
)
from kakite.agent.session.context.project import ContextProblem, Project
from kakite.agent.session.context.secret_files import is_secret
from kakite.edit import SourceText
from kakite.terminal_text import replace_surrogates
from kakite.tools.arguments import ToolError
from kakite.tools.images import detect_mime_type, read_image
from kakite.tools.scope import is_binary
from kakite.tools.toolset import Image
from kakite.workspace import File, WorkspaceError

MAX_FILE_CHARACTERS = 50_000
"""Of one file that is shown."""
MAX_TOTAL_CHARACTERS = 200_000
"""Of all files that one message names."""
MAX_IMAGES = 20
MAX_FOLDER_ENTRIES = 200
_ABSENT = {"file_not_found", "not_a_directory", "bad_path"}
_WORD_ENDS = re.compile(r"[\s\"'()\[\],;]+")
_LINES = re.compile(r"[^\n]*\n|[^\n]+")  # as editors count them
_MAX_SIBLINGS = 100_000  # in a folder in which it is looked whether git ignores one


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention:
    """Something that a message names, as it was then."""

    path: str
    """As the session names it."""
    kind: Literal["file", "folder", "image"]
    start: int
    end: int
    """Where the mention stands in the message."""
    text: str = ""
    """What the model is shown of it; of an image nothing."""
    lines: LineRange | None = None
    """The lines shown, if it is not the whole file."""
    version: str = ""
    """Of a file: the one that was read."""
    image: Image | None = None
    is_cut: bool = False
    """Whether there is more than what is shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpandedMessage:
    """A message with what it names."""

    text: str
    """As it was written."""
    mentions: tuple[Mention, ...] = ()
    problems: tuple[ContextProblem, ...] = ()

    @property
    def images(self) -> tuple[Image, ...]:
        """The pictures, in the order in which they are named."""
        return tuple(each.image for each in self.mentions if each.image is not None)

    def to_prompt(self) -> str:
        """Return what the model is told: the message, and below it what that names."""
        parts = [_format(each) for each in self.mentions]
        return "\n\n".join((self.text, *parts)) if parts else self.text


def expand_mentions(text: str, project: Project, *, typed: str | None = None) -> ExpandedMessage:
    """Return the message with what it names by ``@``. Never raises.

    ``typed`` is what the person wrote themselves, if the text is more than that: a command's. What git
    ignores, and files that usually hold secrets, are given only if the person names them.
    """
    collector = _Collector(project, text if typed is None else typed, is_typed=typed is None)
    for candidate in find_candidates(text):
        collector.add(candidate)
    return ExpandedMessage(text=text, mentions=tuple(collector.mentions), problems=tuple(collector.problems))


def build_image(data: bytes, name: str) -> Image | ContextProblem:
    """Return a picture that was pasted or sent, as models take it; or why they do not.

    What it is, its bytes tell, whatever its name says.
    """
    try:
        image = read_image(File(path=name, data=data, version=""), name)
    except ToolError as error:
        return ContextProblem(path=name, message=error.message)
    return image or ContextProblem(path=name, message="this is no PNG, JPEG, GIF or WebP picture")


class _Collector:
    """Reads what a message names, each once, within what there is room for."""

    def __init__(self, project: Project, typed: str, *, is_typed: bool) -> None:
        self.mentions: list[Mention] = []
        self.problems: list[ContextProblem] = []
        self._project = project
        self._typed = {word.lstrip("@").rstrip(".:!?") for word in _WORD_ENDS.split(typed)}
        self._is_typed = is_typed
        self._room = MAX_TOTAL_CHARACTERS
        self._seen: set[tuple[str, LineRange | None]] = set()

    def add(self, candidate: MentionCandidate) -> None:
        """Add what this names, or tell that there is no such thing, if it looks like a path."""
        for reading in candidate.readings:
            try:
                if self._add(candidate.start, reading):
                    return
            except WorkspaceError as error:
                if error.code not in _ABSENT and (candidate.is_path or error.code != "path_escapes"):
                    escapes = error.code == "path_escapes"
                    self._tell(reading.path, "it lies out of the project" if escapes else error.message)
                    return
        if candidate.is_path:
            self._tell(candidate.readings[-1].path, "there is no such file or folder")

    def _add(self, start: int, reading: MentionReading) -> bool:
        """Add what one reading names. Returns whether it is settled.

        Raises:
            WorkspaceError: it is not there, or cannot be read.
        """
        relative = self._project.resolve(reading.path)
        is_folder = self._project.workspace.is_folder(relative)
        if is_folder and reading.lines:
            return False
        if not self._may_read(relative, reading.path):
            self._tell(
                reading.path, "it may hold secrets or is ignored by git: it is read only if you name it"
            )
            return True
        path = self._project.name(relative)
        if (path, reading.lines) in self._seen:
            return True
        self._seen.add((path, reading.lines))
        if is_folder:
            self._add_folder(path, relative, start, reading.end)
        else:
            self._add_file(path, self._project.workspace.read(relative), start, reading)
        return True

    def _may_read(self, relative: str, written: str) -> bool:
        if self._is_typed or written in self._typed:
            return True  # the person's own words name it
        real = self._project.workspace.read(relative).path if not is_secret(relative) else relative
        return not is_secret(real) and not _is_ignored(self._project, real)

    def _add_folder(self, path: str, relative: str, start: int, end: int) -> None:
        listing = self._project.workspace.walk(relative, depth=2, limit=MAX_FOLDER_ENTRIES, ignored=False)
        lines = [f"{entry.path}/" if entry.is_folder else entry.path for entry in listing]
        lines += [f"… {each.count} more in `{each.path or '.'}`" for each in listing.unlisted]
        text, is_cut = self._fit("".join(f"{replace_surrogates(line)}\n" for line in lines))
        self.mentions.append(
            Mention(
                path=path,
                kind="folder",
                start=start,
                end=end,
                text=text,
                is_cut=is_cut or bool(listing.unlisted),
            )
        )

    def _add_file(self, path: str, file: File, start: int, reading: MentionReading) -> None:
        if detect_mime_type(file.data):
            self._add_image(path, file, start, reading.end)
            return
        if is_binary(file.data):
            self._tell(path, f"it is no text and no picture ({len(file.data):,} bytes)")
            return
        whole = replace_surrogates(SourceText.from_bytes(file.data).text)
        chosen, lines = _choose_lines(whole, reading.lines)
        if not chosen and reading.lines:
            count = len(_LINES.findall(whole))
            self._tell(path, f"it has no line {reading.lines.first}: it has {count}")
            return
        text, is_cut = self._fit(chosen)
        self.mentions.append(
            Mention(
                path=path,
                kind="file",
                start=start,
                end=reading.end,
                text=text,
                lines=lines,
                version=file.version,
                is_cut=is_cut,
            )
        )

    def _add_image(self, path: str, file: File, start: int, end: int) -> None:
        image = build_image(file.data, path)
        if isinstance(image, ContextProblem):
            self.problems.append(image)
        elif sum(each.kind == "image" for each in self.mentions) == MAX_IMAGES:
            self._tell(path, f"a message takes {MAX_IMAGES} pictures")
        else:
            self.mentions.append(Mention(path=path, kind="image", start=start, end=end, image=image))

    def _fit(self, text: str) -> tuple[str, bool]:
        """Return as many whole lines as there is room for, and whether that is not all."""
        room = min(MAX_FILE_CHARACTERS, self._room)
        kept = text if len(text) <= room else text[: text.rfind("\n", 0, room) + 1] or text[:room]
        self._room -= len(kept)
        return kept, len(kept) < len(text)

    def _tell(self, path: str, message: str) -> None:
        self.problems.append(ContextProblem(path=replace_surrogates(path), message=message))


def _choose_lines(text: str, lines: LineRange | None) -> tuple[str, LineRange | None]:
    if lines is None:
        return text, None
    parts: list[str] = _LINES.findall(text)[lines.first - 1 : lines.last]
    return "".join(parts), LineRange(lines.first, lines.first + max(len(parts), 1) - 1)


def _is_ignored(project: Project, relative: str) -> bool:
    """Return whether git ignores this path below the root, or a folder on the way to it."""
    folder = ""
    for part in relative.split("/"):
        listed = project.workspace.walk(folder or ".", depth=1, limit=_MAX_SIBLINGS, ignored=False)
        if part not in {entry.path for entry in listed}:
            return True
        folder = posixpath.join(folder, part)
    return False


def _format(mention: Mention) -> str:
    path = html.escape(replace_surrogates(mention.path))
    if mention.kind == "image":
        return f'<image path="{path}" />'
    lines = f' lines="{mention.lines.first}-{mention.lines.last}"' if mention.lines else ""
    note = "… the rest is left out\n" if mention.is_cut else ""
    end = "" if mention.text.endswith("\n") or not mention.text else "\n"
    return f'<{mention.kind} path="{path}"{lines}>\n{mention.text}{end}{note}</{mention.kind}>'
