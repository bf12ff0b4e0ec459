"""How much work one batch may be. Counted, not timed: the same batch always ends the same way."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kakite.edit.edits import Edit

_CHARACTERS = 12_000_000_000
"""How many characters the searches of one batch may look at."""
_DIAGNOSED = 400_000_000
"""How many characters the messages for its failures may look at."""


class TooMuchError(Exception):
    """The budget is used up."""


class Budget:
    """What is left of the work that one batch may be."""

    def __init__(self, length: int) -> None:
        self._length = length
        self._left = _CHARACTERS
        self._for_messages = _DIAGNOSED

    def spend_on(self, edit: Edit) -> None:
        """Take off what looking for one edit costs.

        Raises:
            TooMuchError: there is not that much left.
        """
        self._left -= self._length + 20 * len(edit.search)
        if self._left < 0:
            raise TooMuchError

    def may_diagnose(self, edit: Edit) -> bool:
        """Take off what a diagnosis costs; tell whether there was that much left."""
        self._for_messages -= 8 * self._length + 40 * len(edit.search) + 10_000
        return self._for_messages >= 0
