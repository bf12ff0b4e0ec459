"""Who takes part in a debate, by the person's settings: for the terminal, the server, the doctor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kakite.debate import Participant


def sides_of(names: Sequence[str], environ: Mapping[str, str]) -> tuple[Participant, ...]:
    """Return the participants with those names; without names, those of the setting ``debate_sides``.

    Raises:
        DebateError: ``bad_participant``.
        ModelConfigError: there is no such model, or no key for it.
        ConfigError: the settings make no sense.
    """
    from kakite.cli.settings import load_settings
    from kakite.debate.configured import participant

    settings = load_settings({}, environ)
    known = settings.debate_participants
    return tuple(participant(name, environ, known.get(name)) for name in names or settings.debate_sides)
