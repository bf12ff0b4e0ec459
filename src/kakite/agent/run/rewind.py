"""What a rewind makes of a session's state, and how that is undone. Pure."""

from __future__ import annotations

from dataclasses import replace

from kakite.agent.run.prompt import load_prompt
from kakite.agent.run.state import RewindPoint, RewoundConversation, RewoundState, RunState


def find_first_checkpoint(run: RunState) -> str:
    """Return the id of the checkpoint from before a session's first message; empty: there is none."""
    return run.first_checkpoint or next((point.checkpoint for point in run.points if point.checkpoint), "")


def begin_rewind(run: RunState, *, files: bool, conversation: bool) -> RunState:
    """Forget what undoes the last rewind, unless this one is its other half: those are undone at once."""
    last = run.rewound
    is_half = last and not (last.undone or last.is_closed)
    if last and is_half and not (files and last.checkpoint) and not (conversation and last.conversation):
        return run
    return replace(run, rewound=None)


def on_rewind_started(run: RunState, text: str) -> RunState:
    """Note that files are being brought back: stored before the first one, so that a crash is told."""
    note = load_prompt("rewinding").format(text=text).strip()
    # What undoes an older rewind would undo a part of this one.
    return replace(run, notes=(*run.notes, note), rewound=None)


def on_files_rewound(run: RunState, checkpoint: str) -> RunState:
    """Note the checkpoint of the files from before they were brought back."""
    return replace(run, rewound=replace(run.rewound or RewoundState(), checkpoint=checkpoint))


def rewind_conversation(run: RunState, message: int) -> RunState:
    """Return the session as it was before the message of this index was sent; what it cost stays.

    Raises:
        ValueError: there is no such point.
    """
    kept, first = _find_point(run, message)
    steps = len(run.steps) if first.steps is None else first.steps
    condensed = run.condensed if run.condensed and run.condensed.made <= message else None
    removed = _take_out(run, message, len(kept), steps)
    return replace(
        run,
        phase="idle",
        steering=(),
        messages=run.messages[:message],
        points=kept,
        steps=run.steps[:steps],
        first_checkpoint=find_first_checkpoint(run),
        rewound=replace(run.rewound or RewoundState(), conversation=removed),
        condensed=condensed,
        pending=(),
        started=False,
        notes=(),
        marks=(),
        refused=False,
        stuck=False,
        status=None,
        summary="",
    )


def _take_out(run: RunState, message: int, points: int, steps: int) -> RewoundConversation:
    """Return what stands behind so many messages, points and steps of a session."""
    return RewoundConversation(
        messages=run.messages[message:],
        points=run.points[points:],
        steps=run.steps[steps:],
        kept=message,
        condensed=run.condensed,
        notes=run.notes,
        marks=run.marks,
        refused=run.refused,
        stuck=run.stuck,
        status=run.status,
        summary=run.summary,
    )


def _find_point(run: RunState, message: int) -> tuple[tuple[RewindPoint, ...], RewindPoint]:
    """Return the points before a message of the person, and that of the message itself."""
    kept = tuple(point for point in run.points if point.message < message)
    if len(kept) == len(run.points) or run.points[len(kept)].message != message:
        raise ValueError(f"there is no point before message {message}")
    return kept, run.points[len(kept)]


def can_restore_conversation(run: RunState) -> bool:
    """Return whether a rewind has taken messages out, and nothing was said since."""
    removed = run.rewound.conversation if run.rewound else None
    return removed is not None and removed.kept == len(run.messages)


def on_rewind_undone(run: RunState, checkpoint: str = "") -> RunState:
    """Take in that the last rewind was taken back: what it took out of the conversation is in it again.

    ``checkpoint`` is that of the files from before they were brought back; empty: they were not.
    """
    removed = run.rewound.conversation if run.rewound else None
    restorable = can_restore_conversation(run)
    run = replace(run, rewound=RewoundState(checkpoint=checkpoint, undone=True) if checkpoint else None)
    if removed is None or not restorable:
        return run
    return replace(
        run,
        messages=(*run.messages, *removed.messages),
        points=(*run.points, *removed.points),
        steps=(*run.steps, *removed.steps),
        condensed=removed.condensed,
        notes=(*removed.notes, *(note for note in run.notes if note not in removed.notes)),
        marks=removed.marks,
        refused=removed.refused,
        stuck=removed.stuck,
        status=removed.status,
        summary=removed.summary,
    )
