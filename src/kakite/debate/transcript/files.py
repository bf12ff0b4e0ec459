"""Writes a debate's transcript as files: Markdown, JSON and one HTML page, each whole or not at all."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import cast

from kakite.debate.model import Debate
from kakite.debate.transcript.html import render_html
from kakite.debate.transcript.markdown import render_markdown
from kakite.debate.transcript.model import build_transcript
from kakite.terminal_text import replace_surrogates

_NAME = 60
"""Characters of the topic that are in a file's name."""


def write_transcript(
    debate: Debate,
    folder: Path,
    *,
    environ: Mapping[str, str] = os.environ,
    now: datetime | None = None,
    instead: tuple[Path, Path, Path] | None = None,
) -> tuple[Path, Path, Path]:
    """Write a debate as Markdown, JSON and HTML, and return these files.

    They are named after the day and the topic, and never written over another file. Each is there whole or
    not at all. What looks like a secret, or is one of the environment, is not in them. ``instead`` are files
    that this has written about the same debate: they get the new text and keep their names.

    Raises:
        OSError: the folder cannot be written.
    """
    from kakite.redaction import build_redaction  # loads all of the host, for a second

    told = build_transcript(debate, build_redaction(environ).redact)
    texts = {
        ".md": render_markdown(told),
        ".json": json.dumps(told, ensure_ascii=False, indent=1) + "\n",
        ".html": render_html(told),
    }
    folder.mkdir(parents=True, exist_ok=True)
    if instead:
        for file, text in zip(instead, texts.values(), strict=True):
            _write_one(file, text, move=os.replace)
        return instead
    name = f"{now or datetime.now().astimezone():%Y-%m-%d}-{create_slug(str(told['topic']), _NAME)}"
    for number in count(1):
        stem = name if number == 1 else f"{name}-{number}"
        with suppress(FileExistsError):
            written = _write_new({folder / f"{stem}{ending}": text for ending, text in texts.items()})
            return cast("tuple[Path, Path, Path]", tuple(written))
    raise AssertionError


def create_slug(text: str, most: int) -> str:
    """Return the first words of a text for a name that needs no quotes: letters of any script, digits, -."""
    words = re.findall(r"[^\W_]+", text.casefold())
    name = ""
    for word in words:
        longer = f"{name}-{word}" if name else word[:most]
        if len(longer) > most or len(longer.encode()) > most * 2:
            break
        name = longer
    return name or "debate"


def _write_new(texts: Mapping[Path, str]) -> list[Path]:
    """Write files that are not there yet: all of them, or none.

    Raises:
        FileExistsError: one of them is there.
    """
    written: list[Path] = []
    try:
        for file, text in texts.items():
            _write_one(file, text)
            written.append(file)
    except BaseException:
        for file in written:
            file.unlink(missing_ok=True)
        raise
    return written


def _write_one(file: Path, text: str, move: Callable[[str, Path], None] = os.link) -> None:
    """Write a file; unlike a rename, a link takes nobody's place."""
    descriptor, temporary = tempfile.mkstemp(prefix=".", suffix=file.suffix, dir=file.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(replace_surrogates(text).encode())
            stream.flush()
            os.fsync(stream.fileno())
        move(temporary, file)
    finally:
        Path(temporary).unlink(missing_ok=True)
