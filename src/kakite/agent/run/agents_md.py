"""Loads the project's AGENTS.md from the commit, in the sandbox.

It is read from git, not from the work tree, so a link can only lead to another file of the commit.
"""

from __future__ import annotations

import codecs
import posixpath

from kakite.agent.git.worktree import TrackedFile, Worktree
from kakite.agent.run.state import ProjectInstruction

FILE_NAMES = ("AGENTS.md", "CLAUDE.md", ".github/copilot-instructions.md")
"""Files that count for the whole project, in the order in which the model is given them."""
MAX_FILE_BYTES = 32 * 1024
"""Bytes that are read of one file."""
MAX_TOTAL_BYTES = 64 * 1024
"""Bytes that are read of all."""
MAX_NESTED_FILES = 50
"""Files that count for folders and are named; what they say, the model reads when it gets there."""
_NESTED_PATTERNS = (":(glob)*/**/AGENTS.md", ":(glob)*/**/CLAUDE.md")
_SYMLINK_MODE = "120000"
_MAX_LINK_BYTES = 1024
_TRUNCATION_NOTE = "\n… the rest of this file was left out: it is too long …"


async def load_agents_md(checkout: Worktree) -> tuple[tuple[ProjectInstruction, ...], tuple[str, ...]]:
    """Return the project's rules, and the paths of those that count for folders only.

    Raises:
        GitError: git in the sandbox failed.
    """
    found = await checkout.list_tracked_files(*(f":(literal){name}" for name in FILE_NAMES))
    rules: list[ProjectInstruction] = []
    blobs: set[str] = set()
    room = MAX_TOTAL_BYTES
    for file in sorted(found, key=lambda file: FILE_NAMES.index(file.path)):
        source = await _resolve_link(checkout, file)
        if source is None or source.blob in blobs or room <= 0:
            continue
        data = await checkout.read_blob(source.blob, min(MAX_FILE_BYTES, room) + 1)
        if text := decode_text(data, min(MAX_FILE_BYTES, room)):
            rules.append(ProjectInstruction(path=file.path, text=text))
        blobs.add(source.blob)
        room -= len(data)
    deeper = await checkout.list_tracked_files(*_NESTED_PATTERNS)
    return tuple(rules), tuple(file.path for file in deeper if "`" not in file.path)[:MAX_NESTED_FILES]


async def _resolve_link(checkout: Worktree, file: TrackedFile) -> TrackedFile | None:
    """Return the file that a link of the commit names, None if it names none; else the file itself."""
    if file.mode != _SYMLINK_MODE:
        return file
    target = decode_text(await checkout.read_blob(file.blob, _MAX_LINK_BYTES), _MAX_LINK_BYTES)
    path = posixpath.normpath(posixpath.join(posixpath.dirname(file.path), target))
    if not target or path.startswith(("/", "..")):
        return None
    found = [each for each in await checkout.list_tracked_files(f":(literal){path}") if each.path == path]
    return found[0] if found and found[0].mode.startswith("100") else None


def decode_text(data: bytes, most: int) -> str:
    """Return the text that these bytes are, cut at the most; empty if they are none."""
    if b"\0" in data:
        return ""
    try:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(data[:most])
    except UnicodeDecodeError:
        return ""
    return text + _TRUNCATION_NOTE if len(data) > most else text
