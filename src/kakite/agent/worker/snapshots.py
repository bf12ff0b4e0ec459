"""Stores the states of runs in blobs, and replicates them to other machines.

A run's head names all of it: a blob that follows that of the activity before. Its first line holds the
messages and steps added since, the second one the small rest. Each activity writes one blob, since most of
its cost is waiting for the disk.

The folder of a task has a checkpoint file. The journal records which activities are done; the checkpoint
records what an unrecorded one has done to the work tree before its process died.

Where the machines share a folder, an activity returns only the head. Otherwise its result also carries the
blobs that it added, and a machine that misses some asks for them.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
import shutil
import zlib
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Final, Literal, cast

from pydantic import TypeAdapter, ValidationError

from kakite.agent.run import state_machine
from kakite.agent.run.state import RunState, RunStep
from kakite.agent.run.store import RunFolder, RunStoreError, as_json
from kakite.durable.blobs import BlobError, BlobStore
from kakite.durable.workflow import Json
from kakite.models.messages import Message

_ADDED = {"messages", "steps"}


def store_run(blobs: BlobStore, run: RunState, parent: str | None = None) -> str:
    """Keep a run and return its head; when this returns, a power cut does not lose it.

    ``parent`` is the head that the run came out of: of that one only what was added is written.

    Raises:
        BlobError: there is no such parent.
        OSError: the disk is full, or the folder cannot be written.
    """
    last = blobs.get(parent).data if parent else b""
    before = _parse_state(last) if last else {}
    messages, steps = _get_count(before, "messages"), _get_count(before, "steps")
    if messages > len(run.messages) or steps > len(run.steps):
        parent, messages, steps = None, 0, 0
    rest = {field.name: getattr(run, field.name) for field in fields(run) if field.name not in _ADDED}
    told = {"messages": len(run.messages), "steps": len(run.steps), "run": rest}
    added, stands = (run.messages[messages:], run.steps[steps:]), as_json(told)
    if parent and added == ((), ()) and last.endswith(b"\n" + stands):
        return parent  # nothing has changed
    return blobs.put(as_json(added) + b"\n" + stands, parent)


def load_run(blobs: BlobStore, head: str) -> RunState:
    """Return the run that a head names.

    Raises:
        BlobError: a part of it is missing or changed.
        RunStoreError: it was written by another version, or is no run (``run_unreadable``).
    """
    chain = blobs.get_chain(head)
    messages: list[Message] = []
    steps: list[RunStep] = []
    try:
        for blob in chain:
            added = _get_additions_adapter().validate_python(json.loads(blob.data.partition(b"\n")[0]))
            messages += added[0]
            steps += added[1]
        run = _get_run_adapter().validate_python(_parse_state(chain[-1].data)["run"])
    except (ValidationError, ValueError, KeyError, TypeError) as error:
        raise RunStoreError(f"the blob `{head[:12]}` is not a run that this version can read") from error
    return replace(run, messages=tuple(messages), steps=tuple(steps))


def _parse_state(data: bytes) -> dict[str, object]:
    return cast("dict[str, object]", json.loads(data.partition(b"\n")[2]))


def _get_count(head: dict[str, object], what: str) -> int:
    return cast("int", head.get(what, 0))


@cache
def _get_run_adapter() -> TypeAdapter[RunState]:
    return TypeAdapter(RunState)


@cache
def _get_additions_adapter() -> TypeAdapter[tuple[tuple[Message, ...], tuple[RunStep, ...]]]:
    return TypeAdapter(tuple[tuple[Message, ...], tuple[RunStep, ...]])


_CHECKPOINT_SIZE = 512
"""Bytes of a mark's file, always: so a new mark never needs more room on the disk than the one before."""
NO_INPUT = -1
"""Of what a step was given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCheckpoint:
    """The outcome of the last step in a folder."""

    before: str
    """The run's head that the step was given."""
    head: str
    """The run's head that it goes on from, or has come to."""
    state: Literal["ready", "began", "done"]
    """``began``: a call was under way, and what it did is unknown. ``done``: the step came to its end."""
    boot: str = ""
    """The boot of the machine that it was written in; empty: nobody knows, and it is taken for this one."""

    heard: int = NO_INPUT
    """How many characters of a person's words to the step the run holds, with all else that it was given."""

    def is_valid_for(self, head: str) -> bool:
        """Return whether a step that is given this head can go on with the work tree as it is.

        Not after the machine was started anew: nothing syncs the tree, so a power cut may have taken files.
        """
        here = head in {self.before, self.head if self.state == "done" else ""}
        return here and self.boot in {"", _read_boot_id()}


class TaskRunFolder(RunFolder):
    """A task's folder in a worker. Runs are kept in blobs; the folder says which one it holds."""

    def __init__(self, folder: Path, blobs: BlobStore) -> None:
        super().__init__(folder)
        self.file = folder / "mark.json"
        self._blobs = blobs
        self._mark = TaskCheckpoint(before="", head="", state="ready")
        self.heard = NO_INPUT
        """How much of the step's input the runs hold that are saved from now on: ``TaskCheckpoint.heard``."""

    def read_checkpoint(self) -> TaskCheckpoint | None:
        """Return how the folder stands; None if nobody knows."""
        try:
            return TaskCheckpoint(**json.loads(self.file.read_bytes()))
        except (OSError, ValueError, TypeError):
            return None

    def resume(self, before: str, mark: TaskCheckpoint) -> RunState:
        """Begin a step on the work tree as it is; returns the run that the tree fits.

        Raises:
            BlobError: a part of it is missing.
        """
        self.heard = mark.heard if mark.before == before else NO_INPUT
        self._mark = TaskCheckpoint(before=before, head=mark.head, state="ready", heard=self.heard)
        run = load_run(self._blobs, mark.head)
        return state_machine.on_tool_started(run) if mark.state == "began" and run.pending else run

    def rewind(self, before: str, head: str) -> RunState:
        """Begin a step with another work tree, made as it was at ``head``; returns the run at that.

        Noted with the next run that is saved: until the tree is made, nobody must take it for whole.

        Raises:
            BlobError: a part of it is missing.
        """
        self.heard = NO_INPUT
        self._mark = TaskCheckpoint(before=before, head=head, state="ready")
        return load_run(self._blobs, head)

    def save(self, run: RunState) -> None:
        """Store the run; of one whose call was begun, only that."""
        mark = self._mark
        if run.started:
            self._write_checkpoint(replace(mark, state="began"), surely=True)
        else:
            self._write_checkpoint(
                TaskCheckpoint(
                    before=mark.before, head=self._save_snapshot(run), state="ready", heard=self.heard
                )
            )

    def commit_step(self, run: RunState) -> str:
        """Store the run as the step has left it, and return its head, which the next step is given."""
        head = self._save_snapshot(run)
        self._write_checkpoint(TaskCheckpoint(before=self._mark.before, head=head, state="done"))
        self.heard = NO_INPUT
        self._mark = TaskCheckpoint(before=head, head=head, state="ready")
        return head

    def load(self) -> RunState:
        """Return the run that the folder stands at.

        Raises:
            RunStoreError: nobody knows which one that is.
            BlobError: a part of it is missing.
        """
        mark = self.read_checkpoint()
        if mark is None:
            raise RunStoreError(f"`{self.file}` does not say how far the task has come")
        return load_run(self._blobs, mark.head)

    def discard_worktree(self) -> None:
        """Begin with an empty work tree: what lies here fits no step that was recorded."""
        if self.task.exists():
            stale = self.folder / "stale"
            shutil.rmtree(stale, ignore_errors=True)
            if stale.exists():  # files of another user are left in it
                stale.rename(self.folder / f"stale-{os.urandom(4).hex()}")
            self.task.rename(stale)
            shutil.rmtree(stale, ignore_errors=True)

    def _save_snapshot(self, run: RunState) -> str:
        return store_run(self._blobs, run, self._mark.head or None)

    def _write_checkpoint(self, mark: TaskCheckpoint, *, surely: bool = False) -> None:
        """Write it; ``surely``: also after a power cut, when else an older one may be found, or none.

        What is found then leads to a tree made anew, or to a call told as cut short: never to one made twice.
        """
        mark = replace(mark, boot=_read_boot_id())
        data = json.dumps(asdict(mark)).encode().ljust(_CHECKPOINT_SIZE)
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
def _read_boot_id() -> str:
    """Return what is another after each start of the machine; empty where the system does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


log = logging.getLogger(__name__)

MAX_CHARACTERS: Final = 1_500_000
"""Characters that are carried at once: servers of journals refuse more."""

ResultsReader = Callable[[str], AsyncIterator[Json]]
"""Tells what the steps of a workflow have come to, by its id."""


class SnapshotReplicator:
    """The blobs of one machine, and the way to those of others."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs
        self._recorded: ResultsReader | None = None

    def enable(self, recorded: ResultsReader) -> None:
        """Let blobs travel from now on."""
        self._recorded = recorded

    async def pack_blobs(self, head: str, before: str | None = None) -> str | None:
        """Return what another machine needs of a run, which came out of one ``before``: its ``carried``.

        None where the machines share a folder, or if it is too much.
        """
        if self._recorded is None:
            return None
        packed = await asyncio.to_thread(self._pack, head, before)
        if len(packed) > MAX_CHARACTERS:
            log.warning("a step's output is too large to send to other machines")
            return None
        return packed

    async def load(self, task: str, head: str) -> RunState:
        """Return the run that a head names, wherever it was made.

        Raises:
            BlobError: a part of it is missing or changed.
            RunStoreError: it was written by another version.
            BackendUnavailableError: the journal cannot be read.
        """
        try:
            return await asyncio.to_thread(load_run, self._blobs, head)
        except BlobError as error:
            if error.code != "blob_missing" or self._recorded is None:
                raise
        async for outcome in self._recorded(task):
            if isinstance(outcome, dict) and isinstance(packed := outcome.get("carried"), str):
                await asyncio.to_thread(self._unpack, packed)
        return await asyncio.to_thread(load_run, self._blobs, head)

    def _pack(self, head: str, before: str | None) -> str:
        known = self._blobs.get(before).parent if before else None
        told = [
            (blob.parent, blob.data.decode("latin-1")) for blob in self._blobs.get_chain(head, after=known)
        ]
        return base64.b64encode(zlib.compress(json.dumps(told).encode())).decode()

    def _unpack(self, packed: str) -> None:
        told = json.loads(zlib.decompress(base64.b64decode(packed)))
        for parent, data in cast("list[tuple[str | None, str]]", told):
            self._blobs.put(data.encode("latin-1"), parent)
