"""Whether the place that an edit means is in a file: told from the edit, the file and the right result alone.

The place is where the right result changes the file. It is there if the lines that the edit takes away stand
there, or, where it only adds lines, the lines of SEARCH between which it adds them. Blanks tell nothing, and
lines of brackets alone name no place.
"""

from __future__ import annotations

from collections.abc import Iterator


def has_place(text: str, aim: str, search: str, replace: str) -> bool:
    """Tell whether the lines that an edit changes stand where the right result changes the file."""
    file, wanted, old, new = (
        [key(line) for line in each.split("\n")] for each in (text, aim, search, replace)
    )
    file, wanted, old, new = (list(filter(None, each)) for each in (file, wanted, old, new))
    places = list(_spans(file, wanted))
    return (
        any(_stands(file, place, old, change) for place in places for change in _spans(old, new))
        if places
        else True
    )


def key(line: str) -> str:
    return "".join(line.split())


def _stands(file: list[str], place: tuple[int, int], old: list[str], change: tuple[int, int]) -> bool:
    (first, after), (low, high) = place, change
    if low < high:
        return _says(old[low:high]) and all(line in file[first:after] for line in old[low:high])
    above, below = old[low - 1 : low] if low else [], old[high : high + 1]
    return (
        first == after
        and _says([*above, *below])
        and (not above or file[max(first - 1, 0) : first] == above)
        and (not below or file[after : after + 1] == below)
    )


def _says(lines: list[str]) -> bool:
    return any(char.isalnum() for line in lines for char in line)


def first_line(text: str, aim: str) -> int:
    """Return the first line (1-based) that the right result changes."""
    file, wanted = text.split("\n"), aim.split("\n")
    pairs = enumerate(zip(file, wanted, strict=False))
    return next((at for at, (one, other) in pairs if one != other), len(file)) + 1


def _spans(old: list[str], new: list[str]) -> Iterator[tuple[int, int]]:
    """Yield which lines become others; of lines that are only added, each place that comes to the same."""
    room = min(len(old), len(new))
    head = next((at for at in range(room) if old[at] != new[at]), room)
    tail = next((at for at in range(room - head) if old[-1 - at] != new[-1 - at]), room - head)
    low, high = head, len(old) - tail
    yield low, high
    added = len(new) - len(old)
    while low == high and added > 0 and low > 0 and new[low - 1] == new[low - 1 + added]:
        low = high = low - 1
        yield low, high
