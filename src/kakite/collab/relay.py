"""Several processes that serve the same pages, through Redis: any of them may be asked for any page.

Of the processes that have a page open one owns it: that one alone writes its file and holds its suggestions
and runs. It keeps a lease; when it is gone, another takes over what Redis holds of the page. ``line`` has
what happens to one page.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import weakref
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, TypeVar, cast

from kakite.errors import OutsideError

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from kakite.collab.line import Line

log = logging.getLogger(__name__)

PREFIX = "kakite:collab"
LEASE = 3.0
"""Seconds for which a page stays its owner's without a sign of life; also how long the dead keep cursors."""
RENEW = 1.0
PATIENCE = 10.0
_ANSWER = 2.0  # s that Redis may take: less than a lease

RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"


_T = TypeVar("_T")


class RelayError(OutsideError):
    """Redis cannot be used.

    Code: ``relay_failed``.
    """

    code = "relay_failed"


async def asked(answer: Awaitable[_T]) -> _T:
    """Return what Redis answers.

    Raises:
        RelayError: it does not.
    """
    from redis.exceptions import RedisError

    try:
        return await answer
    except (RedisError, OSError) as error:
        raise RelayError(f"Redis cannot be used: {error}", hint="see that it runs, and --redis") from error


async def ended(*tasks: asyncio.Task[None]) -> None:
    """Cancel tasks and wait until they have ended; one that just hears from Redis may miss the first."""
    waiting = set(tasks)
    while waiting:
        for task in waiting:
            task.cancel()
        _, waiting = await asyncio.wait(waiting, timeout=0.1)


class Relay:
    """This process's connection to Redis."""

    def __init__(self, url: str, address: str) -> None:
        from redis.asyncio import Redis

        self.process = secrets.token_hex(6)
        self.address = address
        """Where other processes reach this one."""
        self.redis: Redis = Redis.from_url(  # pyright: ignore[reportUnknownMemberType] - theirs
            url, socket_connect_timeout=_ANSWER, socket_timeout=_ANSWER, health_check_interval=10
        )
        self._beating: asyncio.Task[None] | None = None
        self._life: object = None
        """What tells this life of Redis from its next: after it, nothing that it held is sure."""
        self._lines: weakref.WeakSet[Line] = weakref.WeakSet()

    async def start(self) -> None:
        """Connect, and show signs of life from now on.

        Raises:
            RelayError: Redis does not answer.
        """
        await self._beat()
        self._beating = asyncio.create_task(self._beat_on())

    async def close(self) -> None:
        """End, and let others know."""
        if self._beating is not None:
            await ended(self._beating)
        with suppress(Exception):
            await self.redis.delete(f"{PREFIX}:alive:{self.process}")
        await self.redis.aclose()

    def line(self, page: str) -> Line:
        """Return the line for one page."""
        from kakite.collab.line import Line

        line = Line(self, page)
        self._lines.add(line)
        return line

    @asynccontextmanager
    async def opening(self, page: str) -> AsyncGenerator[None]:
        """Be the only process that opens this page for the first time.

        Raises:
            RelayError: another one does not come to an end with it, or Redis does not answer.
        """
        key, mark = f"{PREFIX}:opening:{page}", secrets.token_hex(8)
        try:
            async with asyncio.timeout(PATIENCE):
                while not await asked(self.redis.set(key, mark, px=int(PATIENCE * 1000), nx=True)):  # noqa: ASYNC110 - Redis tells nobody
                    await asyncio.sleep(0.05)
        except TimeoutError as error:
            raise RelayError(
                f"`{page}` is being opened elsewhere", hint="try again in some seconds"
            ) from error
        try:
            yield
        finally:
            with suppress(RelayError):
                await asked(self.redis.eval(RELEASE, 1, key, mark))

    async def has_no_owner(self, page: str) -> bool:
        """Tell whether no process owns this page."""
        return not await asked(self.redis.exists(f"{PREFIX}:owner:{page}"))

    async def dirty(self) -> list[str]:
        """Return the pages with text that is in no file yet."""
        found = await asked(cast("Awaitable[set[bytes]]", self.redis.smembers(f"{PREFIX}:dirty")))
        return sorted(name.decode() for name in found)

    async def owner_of(self, page: str) -> str:
        """Return the address of the process that owns a page; empty if none does, or this one."""
        value = cast("bytes | None", await asked(self.redis.get(f"{PREFIX}:owner:{page}")))
        process, _, address = (value or b"").decode().partition("|")
        return "" if process == self.process else address

    async def page_of(self, run: str) -> str:
        """Return the page that a run is on; empty if there is no such run."""
        return (cast("bytes | None", await asked(self.redis.get(f"{PREFIX}:run:{run}"))) or b"").decode()

    async def note_run(self, run: str, page: str) -> None:
        """Let all processes know which page a run is on."""
        await asked(self.redis.set(f"{PREFIX}:run:{run}", page, ex=24 * 3600))

    async def is_alive(self, process: str) -> bool:
        """Tell whether another process showed a sign of life lately."""
        return bool(await asked(self.redis.exists(f"{PREFIX}:alive:{process}")))

    async def _beat(self) -> None:
        async with self.redis.pipeline(transaction=False) as pipe:
            pipe.set(f"{PREFIX}:alive:{self.process}", self.address, px=int(LEASE * 1000))
            pipe.info("server")  # pyright: ignore[reportUnknownMemberType] - theirs
            _, said = await asked(pipe.execute())
        life = cast("dict[str, object]", said).get("run_id")
        if self._life not in {None, life}:
            self._cut("Redis was started again")
        self._life = life

    async def _beat_on(self) -> None:
        while True:
            await asyncio.sleep(RENEW)
            try:
                await self._beat()
            except RelayError as error:
                self._cut(error.message)

    def _cut(self, reason: str) -> None:
        for line in list(self._lines):
            line.cut(reason)
