"""What differs between two contents of a file, for reading."""

from __future__ import annotations

LINES_SHOWN = 120
CHARACTERS_SHOWN = 8_000


def difference(old: bytes | None, new: bytes | None, path: str, *, whole: bool = False) -> str:
    """Return a unified diff, cut where it gets long unless asked for ``whole``.

    Empty where there is nothing to compare, nothing differs, or nobody could read it.
    """
    if old is None or new is None or b"\0" in old or b"\0" in new:
        return ""
    from kakite.edit import Change, ChangeSet, SourceText, unified_diff

    before, after = SourceText.from_bytes(old).text, SourceText.from_bytes(new).text
    change = Change(0, len(before), after).narrowed(before)
    lines = unified_diff(ChangeSet.of(len(before), [change]), before, path=path).splitlines(keepends=True)
    return "".join(lines) if whole else _cut(lines)


def _cut(lines: list[str]) -> str:
    room = CHARACTERS_SHOWN
    for number, line in enumerate(lines):
        room -= len(line)
        if room < 0 or number >= LINES_SHOWN:
            return "".join(lines[:number]) + f"… {len(lines) - number} more lines of this diff\n"
    return "".join(lines)
