"""Where the folder of a task stands, so that a worker that finds it knows what was done in it.

The journal of a task's story tells which steps were done; this tells what a step that nobody recorded has
done to the work tree before its process died.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal

from kakite.agent import flow
from kakite.agent.durable.blobs import Blobs
from kakite.agent.record import Record, RecordError
from kakite.agent.run import Run
from kakite.agent.saved import load_run, store_run

_ROOM = 512
"""Bytes of a mark's file, always: so a new mark never needs more room on the disk than the one before."""
NOTHING = -1
"""Of what a step was given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What became of the last step in a folder."""

    before: str
    """The run's head that the step was given."""
    head: str
    """The run's head that it goes on from, or has come to."""
    state: Literal["ready", "began", "done"]
    """``began``: a call was under way, and what it did is unknown. ``done``: the step came to its end."""
    boot: str = ""
    """The boot of the machine that it was written in; empty: nobody knows, and it is taken for this one."""

    heard: int = NOTHING
    """How many characters of a person's words to the step the run holds, with all else that it was given."""

    def fits(self, head: str) -> bool:
        """Return whether a step that is given this head can go on with the work tree as it is.

        Not after the machine was started anew: nothing syncs the tree, so a power cut may have taken files.
        """
        here = head in {self.before, self.head if self.state == "done" else ""}
        return here and self.boot in {"", _boot()}


class Bookmark(Record):
    """A task's folder in a worker. Runs are kept in blobs; the folder says which one it holds."""

    def __init__(self, folder: Path, blobs: Blobs) -> None:
        super().__init__(folder)
        self.file = folder / "mark.json"
        self._blobs = blobs
        self._mark = Mark(before="", head="", state="ready")
        self.heard = NOTHING
        """What the runs that are saved from now on hold of what the step was given, see ``Mark.heard``."""

    def read(self) -> Mark | None:
        """Return how the folder stands; None if nobody knows."""
        try:
            return Mark(**json.loads(self.file.read_bytes()))
        except (OSError, ValueError, TypeError):
            return None

    def go_on(self, before: str, mark: Mark) -> Run:
        """Begin a step on the work tree as it is; returns the run that the tree fits.

        Raises:
            BlobError: a part of it is missing.
        """
        self.heard = mark.heard if mark.before == before else NOTHING
        self._mark = Mark(before=before, head=mark.head, state="ready", heard=self.heard)
        run = load_run(self._blobs, mark.head)
        return flow.tool_began(run) if mark.state == "began" and run.pending else run

    def rewind(self, before: str, head: str) -> Run:
        """Begin a step with another work tree, made as it was at ``head``; returns the run at that.

        Noted with the next run that is saved: until the tree is made, nobody must take it for whole.

        Raises:
            BlobError: a part of it is missing.
        """
        self.heard = NOTHING
        self._mark = Mark(before=before, head=head, state="ready")
        return load_run(self._blobs, head)

    def save(self, run: Run) -> None:
        """Store the run; of one whose call was begun, only that."""
        mark = self._mark
        if run.started:
            self._write(replace(mark, state="began"), surely=True)
        else:
            self._write(Mark(before=mark.before, head=self._keep(run), state="ready", heard=self.heard))

    def settle(self, run: Run) -> str:
        """Store the run as the step has left it, and return its head, which the next step is given."""
        head = self._keep(run)
        self._write(Mark(before=self._mark.before, head=head, state="done"))
        self.heard = NOTHING
        self._mark = Mark(before=head, head=head, state="ready")
        return head

    def load(self) -> Run:
        """Return the run that the folder stands at.

        Raises:
            RecordError: nobody knows which one that is.
            BlobError: a part of it is missing.
        """
        mark = self.read()
        if mark is None:
            raise RecordError(f"`{self.file}` does not tell where the task stands")
        return load_run(self._blobs, mark.head)

    def set_aside(self) -> None:
        """Begin with an empty work tree: what lies here fits no step that was recorded."""
        if self.task.exists():
            stale = self.folder / "stale"
            shutil.rmtree(stale, ignore_errors=True)
            if stale.exists():  # files of another user are left in it
                stale.rename(self.folder / f"stale-{os.urandom(4).hex()}")
            self.task.rename(stale)
            shutil.rmtree(stale, ignore_errors=True)

    def _keep(self, run: Run) -> str:
        return store_run(self._blobs, run, self._mark.head or None)

    def _write(self, mark: Mark, *, surely: bool = False) -> None:
        """Write it; ``surely``: also after a power cut, when else an older one may be found, or none.

        What is found then leads to a tree made anew, or to a call told as cut short: never to one made twice.
        """
        mark = replace(mark, boot=_boot())
        data = json.dumps(asdict(mark)).encode().ljust(_ROOM)
        # In its place: one write of one block, which is there whole or not at all.
        descriptor = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(descriptor, data, 0)
            if surely:
                os.fdatasync(descriptor)
        finally:
            os.close(descriptor)
        self._mark = mark


@cache
def _boot() -> str:
    """Return what is another after each start of the machine; empty where the system does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
