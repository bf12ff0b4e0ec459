"""What a task's runs are kept as, carried by the journal of its story: for machines that share no folder.

A step tells the heads of runs alone, which is all that is needed where the blobs lie. Where the journal is
kept elsewhere, a step's outcome carries the blobs that it added, and a machine that misses some asks for
them.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import zlib
from collections.abc import AsyncIterator, Callable
from typing import Final, cast

from kakite.agent.durable.blobs import BlobError, Blobs
from kakite.agent.durable.seam import Json
from kakite.agent.run import Run
from kakite.agent.saved import load_run
from kakite.tools.toolset import JsonObject

log = logging.getLogger(__name__)

MOST: Final = 1_500_000
"""Characters that are carried at once: servers of journals refuse more."""

Recorded = Callable[[str], AsyncIterator[Json]]
"""Tells what the steps of a story have come to, by its id."""


class Luggage:
    """The blobs of one machine, and the way to those of others."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._recorded: Recorded | None = None

    def travel(self, recorded: Recorded) -> None:
        """Let blobs travel from now on."""
        self._recorded = recorded

    async def carried(self, head: str, before: str | None = None) -> JsonObject:
        """Return what an outcome has to say beside the head of a run, which came out of one ``before``."""
        if self._recorded is None:
            return {}
        packed = await asyncio.to_thread(self._packed, head, before)
        if len(packed) > MOST:
            log.warning("a step said too much to be carried to other machines")
            return {}
        return {"carried": packed}

    async def load(self, task: str, head: str) -> Run:
        """Return the run that a head names, wherever it was made.

        Raises:
            BlobError: a part of it is missing or changed.
            RecordError: it was written by another version.
            LedgerError: the journal cannot be read.
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

    def _packed(self, head: str, before: str | None) -> str:
        known = self._blobs.get(before).parent if before else None
        told = [(blob.parent, blob.data.decode("latin-1")) for blob in self._blobs.chain(head, after=known)]
        return base64.b64encode(zlib.compress(json.dumps(told).encode())).decode()

    def _unpack(self, packed: str) -> None:
        told = json.loads(zlib.decompress(base64.b64decode(packed)))
        for parent, data in cast("list[tuple[str | None, str]]", told):
            self._blobs.put(data.encode("latin-1"), parent)
