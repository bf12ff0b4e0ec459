"""INTERIM: the shared text as the server needs it, until the real one is merged."""

from __future__ import annotations

from collections.abc import Callable

from pycrdt import Doc, Text

from kakite.edit import Change, ChangeSet


class SharedText:
    """A text that several write."""

    def __init__(self, doc: Doc[Text] | None = None) -> None:
        self.doc: Doc[Text] = Doc() if doc is None else doc
        self._text = self.doc.get("text", type=Text)

    def __str__(self) -> str:
        return str(self._text)

    def apply(self, changes: ChangeSet, origin: str) -> None:
        """Apply changes in one transaction."""
        text = str(self._text)
        with self.doc.transaction(origin=origin):
            for change in reversed(changes.changes):
                start = len(text[: change.start].encode())
                end = start + len(text[change.start : change.end].encode())
                if end > start:
                    del self._text[start:end]
                if change.insert:
                    self._text.insert(start, change.insert)

    def observe(self, told: Callable[[ChangeSet, object], None]) -> Callable[[], None]:
        """Tell of every change."""

        def hear(event: object) -> None:
            told(ChangeSet(0, (Change(0, 0, ""),)), None)

        subscription = self._text.observe(hear)
        return lambda: self._text.unobserve(subscription)

    def utf16(self, offset: int) -> int:
        """Return an offset in UTF-16 units."""
        return len(str(self)[:offset].encode("utf-16-le")) // 2
