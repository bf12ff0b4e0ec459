"""Limits the work of one batch and of each edit in it. Work is counted, not timed, so results never vary.

The unit is what ``str.find`` needs for one character. Other work is converted to it: about two units a
nanosecond.
"""

from __future__ import annotations

_BATCH = 6_000_000_000
"""What one batch may take."""
_EDIT = 3_000_000_000
"""What one edit may take."""
_MESSAGES = 1_500_000_000
"""What the messages and suggestions for the failures of one batch may take."""
_PARSING = 2_000_000_000
"""What parsing may take in one batch, to tell how REPLACE is indented."""
PER_EDIT = 100_000
"""What every edit takes, wherever it lands."""
PER_LINE = 3_000
"""What a line of SEARCH or REPLACE takes, to be cut out and written."""
PER_PLACE = 5_000
"""What it takes to look at one place."""


class WorkBudgetExceededError(Exception):
    """The budget is used up."""


class WorkBudget:
    """The work that one batch may still do."""

    def __init__(self) -> None:
        self.spent = 0
        """What the batch has taken so far, without messages."""
        self._left = _EDIT
        self._for_messages = _MESSAGES
        self._for_parsing = _PARSING

    def begin(self) -> None:
        """Begin with the next edit."""
        self._left = min(_EDIT, _BATCH - self.spent)

    def spend(self, work: int) -> None:
        """Take off some work.

        Raises:
            WorkBudgetExceededError: there is not that much left, for this edit or for the batch.
        """
        self.spent += work
        self._left -= work
        if self._left < 0:
            raise WorkBudgetExceededError

    @property
    def is_used_up(self) -> bool:
        """Whether the whole batch has nothing left."""
        return self.spent > _BATCH

    def spend_on_message(self, work: int) -> bool:
        """Take off what a message costs; tell whether there was that much left."""
        self._for_messages -= work
        return self._for_messages >= 0

    def spend_on_parsing(self, work: int) -> bool:
        """Take off what parsing costs; tell whether there was that much left."""
        self._for_parsing -= work
        return self._for_parsing >= 0
