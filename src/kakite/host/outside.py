"""Text from outside that has reached the model: who said it, and for which tools a person weighed that."""

from __future__ import annotations

from collections.abc import Collection


class Outside:
    """What has come in during one session.

    Whoever wrote a page, an issue or a mail may have written it for the model to obey. So a call that writes
    or sends is put to the person again, once for each tool after something new came in, not for ever.
    """

    def __init__(self) -> None:
        self._count = 0
        self._latest: dict[str, int] = {}
        self._weighed: dict[str, int] = {}

    def came_from(self, source: str) -> None:
        """Take note that a result from this server has reached the model."""
        self._count += 1
        self._latest[source] = self._count

    def since(self, tool: str, *, but: Collection[str] = ()) -> tuple[str, ...]:
        """Return who has said something since the person last let this tool go; without those of ``but``."""
        last = self._weighed.get(tool, 0)
        return tuple(source for source, at in self._latest.items() if at > last and source not in but)

    def mark(self) -> int:
        """Return what stands for all that has come in up to now."""
        return self._count

    def weighed(self, tool: str, mark: int) -> None:
        """Take note that the person let this tool go, knowing what had come in up to that mark."""
        self._weighed[tool] = max(mark, self._weighed.get(tool, 0))
