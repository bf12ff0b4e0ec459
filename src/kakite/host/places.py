"""Where the relative paths of a server's calls start, also once a call has moved that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace

from kakite.host.predicates import Place

MOVER = "set_workspace"
"""A server's own name for a tool that says where relative paths start from then on."""

FORGOTTEN = "workspace_moved"
"""The code of a result that says that nothing was done, since the server forgot where it was moved to."""

ANYWHERE = ""
"""Stands for a folder that is not known."""


class Places:
    """Where each server's calls lead in one session."""

    def __init__(self, first: Callable[[str], Place]) -> None:
        """Start with what ``first`` says of a server."""
        self._first = first
        self._moved: dict[str, str] = {}
        self._gates: dict[str, _Gate] = {}

    def of(self, server: str, *, moving: bool = False) -> Place:
        """Return where the paths of a call lead; ``moving``: of one that says where later ones do."""
        place = self._first(server)
        if moving:  # it is read from the first folder each time, and looks at nothing beneath
            return replace(place, reaches=False)
        return replace(place, folders=(self._moved[server],)) if server in self._moved else place

    def moved_to(self, server: str) -> str | None:
        """Return the folder that a server was moved to, ``ANYWHERE`` if not known; None: it was not."""
        return self._moved.get(server)

    def move(self, server: str, folder: str | None) -> None:
        """Note where relative paths start now; None: where they did at first."""
        if folder is None:
            self._moved.pop(server, None)
        else:
            self._moved[server] = folder

    def kept(self, server: str, *, moving: bool) -> AbstractAsyncContextManager[None]:
        """Let nothing move a server while a call of it is judged and made; or move it while none is."""
        gate = self._gates.get(server) or self._gates.setdefault(server, _Gate())
        return gate.alone() if moving else gate


class _Gate:
    """Lets many in together, as a context, or one alone; who waits to be alone lets nobody in before."""

    def __init__(self) -> None:
        self._inside = 0
        self._turn = asyncio.Lock()
        self._empty = asyncio.Event()
        self._empty.set()

    async def __aenter__(self) -> None:
        async with self._turn:
            self._inside += 1
            self._empty.clear()

    async def __aexit__(self, *_error: object) -> None:
        self._inside -= 1
        if not self._inside:
            self._empty.set()

    @asynccontextmanager
    async def alone(self) -> AsyncGenerator[None]:
        async with self._turn:
            await self._empty.wait()
            yield
