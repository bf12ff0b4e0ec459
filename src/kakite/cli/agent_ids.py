"""Which task or run a person means: by its id, how that begins or ends, or ``#NUMBER`` of its issue."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from kakite.errors import KakiteError, UsageError

if TYPE_CHECKING:
    from kakite.agent.durable.ledger import Ledger
    from kakite.agent.record import Record


async def task_of(ledger: Ledger, given: str) -> str:
    """Return the id of the task that is meant.

    Raises:
        UsageError: several may be meant (``ambiguous_id``), or it is a run and no task (``no_task``).
        KakiteError: there is none (``task_unknown``).
    """
    from kakite.agent.durable.ledger import StoryError

    given = typed(given)
    try:
        return (await ledger.status(given)).id
    except (StoryError, UsageError):  # the latter: no id at all
        known = [each.id for each in await ledger.list()]
    found = only(given, known)
    if found is not None:
        return found
    if (run := run_of(given)) is not None:
        raise UsageError(
            f"`{run.id}` is a run of `kakite agent run`, no task of the workers",
            hint=f"`kakite agent show {run.id}` tells how it stands, `kakite agent resume {run.id}` goes on, "
            f"`kakite agent export {run.id} --html FILE` tells all that happened",
            code="no_task",
        )
    raise unknown(given)


def run_of(given: str) -> Record | None:
    """Return the run of this machine that is meant; None if there is none.

    Raises:
        UsageError: several may be meant.
    """
    from kakite.agent.record import Records
    from kakite.workspace import state_folder

    runs = {record.id: record for record in Records(state_folder(os.environ)).all()}
    found = only(given, runs)
    return None if found is None else runs[found]


def typed(given: str) -> str:
    """Return an id as it is: in comments at a forge, something that cannot be seen parts its number."""
    from kakite.agent.quoting import APART

    return given.replace(APART, "").strip()


def only(given: str, known: Collection[str]) -> str | None:
    """Return the one id that is meant, None if there is none.

    Raises:
        UsageError: there are several (``ambiguous_id``). The message lists them.
    """
    given = typed(given)
    if given in known:
        return given
    found = list(_meant(given, known))
    if len(found) > 1:
        shown = ", ".join(f"`{each}`" for each in found[:_SHOWN])
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise UsageError(f"`{given}` may be {shown}{more}", hint="give more of it", code="ambiguous_id")
    return found[0] if found else None


def unknown(given: str) -> KakiteError:
    """Return the error for an id that nothing has."""
    return KakiteError(
        f"there is no task or run `{given}`",
        hint="`kakite agent list` shows which there are",
        code="task_unknown",
    )


_SHOWN = 10
_LEAST = 4  # characters of an id's part: `3` is the number of some issue, and no run


def _meant(given: str, known: Iterable[str]) -> Iterable[str]:
    from kakite.agent.shift import short_of

    if len(given) < _LEAST:
        return (each for each in known if given == short_of(each))
    return (
        each
        for each in known
        if each.startswith(given) or given == short_of(each) or re.split("[:@]", each)[-1].startswith(given)
    )
