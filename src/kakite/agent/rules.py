"""The rules that a project brings along for who works on it. Read in the sandbox, as the commit has them.

They are read from git, not from files: a link leads nowhere but to another file of the commit.
"""

from __future__ import annotations

import codecs
import posixpath

from kakite.agent.checkout import Checkout, Tracked
from kakite.agent.run import RuleFile

NAMES = ("AGENTS.md", "CLAUDE.md", ".github/copilot-instructions.md")
"""Files that count for the whole project, in the order in which the model is given them."""
FILE_MOST = 32 * 1024
"""Bytes that are read of one file."""
ALL_MOST = 64 * 1024
"""Bytes that are read of all."""
DEEPER_MOST = 50
"""Files that count for folders and are named; what they say, the model reads when it gets there."""
_DEEPER = (":(glob)*/**/AGENTS.md", ":(glob)*/**/CLAUDE.md")
_LINK = "120000"
_LINK_MOST = 1024
_CUT = "\n… the rest of this file was left out: it is too long …"


async def read_rules(checkout: Checkout) -> tuple[tuple[RuleFile, ...], tuple[str, ...]]:
    """Return the project's rules, and the paths of those that count for folders only.

    Raises:
        GitError: git in the sandbox failed.
    """
    found = await checkout.tracked(*(f":(literal){name}" for name in NAMES))
    rules: list[RuleFile] = []
    blobs: set[str] = set()
    room = ALL_MOST
    for file in sorted(found, key=lambda file: NAMES.index(file.path)):
        source = await _followed(checkout, file)
        if source is None or source.blob in blobs or room <= 0:
            continue
        data = await checkout.blob(source.blob, min(FILE_MOST, room) + 1)
        if text := readable(data, min(FILE_MOST, room)):
            rules.append(RuleFile(path=file.path, text=text))
        blobs.add(source.blob)
        room -= len(data)
    deeper = await checkout.tracked(*_DEEPER)
    return tuple(rules), tuple(file.path for file in deeper if "`" not in file.path)[:DEEPER_MOST]


async def _followed(checkout: Checkout, file: Tracked) -> Tracked | None:
    """Return the file that a link of the commit names, None if it names none; else the file itself."""
    if file.mode != _LINK:
        return file
    target = readable(await checkout.blob(file.blob, _LINK_MOST), _LINK_MOST)
    path = posixpath.normpath(posixpath.join(posixpath.dirname(file.path), target))
    if not target or path.startswith(("/", "..")):
        return None
    found = [each for each in await checkout.tracked(f":(literal){path}") if each.path == path]
    return found[0] if found and found[0].mode.startswith("100") else None


def readable(data: bytes, most: int) -> str:
    """Return the text that these bytes are, cut at the most; empty if they are none."""
    if b"\0" in data:
        return ""
    try:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(data[:most])
    except UnicodeDecodeError:
        return ""
    return text + _CUT if len(data) > most else text
