"""Several processes that serve the same pages, through Redis: any of them may be asked for any page.

All that happens to a page goes through one stream: changes of its document, people's cursors, what is shown
beside its text. Of the processes that have it open one owns it: that one alone writes its file and holds its
suggestions and runs. It keeps a lease; when it is gone, another takes over what Redis holds of the page.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol, cast

from kakite.collab.store import Saving, Stored, joined
from kakite.errors import OutsideError

if TYPE_CHECKING:
    from redis.asyncio import Redis

log = logging.getLogger(__name__)

PREFIX = "kakite:collab"
LEASE = 3.0
"""Seconds for which a page stays its owner's without a sign of life; also how long the dead keep cursors."""
RENEW = 1.0
_BLOCK = 500  # ms that one reading waits
_KEPT = 5_000  # entries of a stream, about; those before are in the snapshot
_KEPT_OF_PEOPLE = 500  # what people did before is of no use to anybody
_PATIENCE = 10.0  # s

_OURS = "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end "
_RENEW = f"{_OURS} return redis.call('pexpire', KEYS[1], ARGV[2])"
_RELEASE = f"{_OURS} return redis.call('del', KEYS[1])"


class RelayError(OutsideError):
    """Redis cannot be used.

    Code: ``relay_failed``.
    """

    code = "relay_failed"


class Listener(Protocol):
    """What hears of a page's stream."""

    def hear_update(self, update: bytes) -> None:
        """Another process changed the document."""
        ...

    def hear_presence(self, update: bytes, process: str) -> None:
        """People of another process moved."""
        ...

    def hear_state(self, state: dict[str, object]) -> None:
        """The owner shows something else beside the text."""
        ...

    def hear_question(self) -> None:
        """Another process came, and wants to know who is here."""
        ...

    def hear_gone(self, process: str) -> None:
        """Another process is gone."""
        ...


class Relay:
    """This process's connection to Redis."""

    def __init__(self, url: str, address: str) -> None:
        from redis.asyncio import Redis

        self.process = secrets.token_hex(6)
        self.address = address
        """Where other processes reach this one."""
        self.redis: Redis = Redis.from_url(url, socket_connect_timeout=5, health_check_interval=10)  # pyright: ignore[reportUnknownMemberType] - theirs
        self._beating: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Connect, and show signs of life from now on.

        Raises:
            RelayError: Redis does not answer.
        """
        from redis.exceptions import RedisError

        try:
            await self._beat()
        except (RedisError, OSError) as error:
            raise RelayError(
                f"Redis cannot be used: {error}", hint="see that it runs, and --redis"
            ) from error
        self._beating = asyncio.create_task(self._beat_on())

    async def close(self) -> None:
        """End, and let others know."""
        if self._beating is not None:
            self._beating.cancel()
        with suppress(Exception):
            await self.redis.delete(f"{PREFIX}:alive:{self.process}")
        await self.redis.aclose()

    def line(self, page: str) -> Line:
        """Return the line for one page."""
        return Line(self, page)

    @asynccontextmanager
    async def opening(self, page: str) -> AsyncGenerator[None]:
        """Be the only process that opens this page for the first time.

        Raises:
            RelayError: another one does not come to an end with it, or Redis does not answer.
        """
        from redis.exceptions import RedisError

        key, mark = f"{PREFIX}:opening:{page}", secrets.token_hex(8)
        try:
            async with asyncio.timeout(_PATIENCE):
                while not await self.redis.set(key, mark, px=int(_PATIENCE * 1000), nx=True):  # noqa: ASYNC110 - Redis tells nobody
                    await asyncio.sleep(0.05)
            try:
                yield
            finally:
                with suppress(RedisError, OSError):
                    await self.redis.eval(_RELEASE, 1, key, mark)
        except (RedisError, OSError) as error:
            raise RelayError(f"Redis cannot be used: {error}") from error

    async def has_no_owner(self, page: str) -> bool:
        """Tell whether no process owns this page."""
        return not await self.redis.exists(f"{PREFIX}:owner:{page}")

    async def dirty(self) -> list[str]:
        """Return the pages with text that is in no file yet."""
        found = cast("set[bytes]", await cast("Awaitable[Any]", self.redis.smembers(f"{PREFIX}:dirty")))
        return sorted(name.decode() for name in found)

    async def owner_of(self, page: str) -> str:
        """Return the address of the process that owns a page; empty if none does, or this one."""
        value = cast("bytes | None", await self.redis.get(f"{PREFIX}:owner:{page}"))
        process, _, address = (value or b"").decode().partition("|")
        return "" if process == self.process else address

    async def page_of(self, run: str) -> str:
        """Return the page that a run is on; empty if there is no such run."""
        return (cast("bytes | None", await self.redis.get(f"{PREFIX}:run:{run}")) or b"").decode()

    async def note_run(self, run: str, page: str) -> None:
        """Let all processes know which page a run is on."""
        await self.redis.set(f"{PREFIX}:run:{run}", page, ex=24 * 3600)

    async def is_alive(self, process: str) -> bool:
        """Tell whether another process showed a sign of life lately."""
        return bool(await self.redis.exists(f"{PREFIX}:alive:{process}"))

    async def _beat(self) -> None:
        await self.redis.set(f"{PREFIX}:alive:{self.process}", self.address, px=int(LEASE * 1000))

    async def _beat_on(self) -> None:
        while True:
            await asyncio.sleep(RENEW)
            with suppress(Exception):  # as long as Redis is away
                await self._beat()


class Line:
    """One page's stream, and what Redis holds of the page."""

    def __init__(self, relay: Relay, page: str) -> None:
        self.relay = relay
        self.page = page
        self.owns = False
        self._stream = f"{PREFIX}:page:{page}:stream"
        self._hash = f"{PREFIX}:page:{page}:state"
        self._owner = f"{PREFIX}:owner:{page}"
        self._people = f"{PREFIX}:page:{page}:people"
        self._last: dict[Any, Any] = {self._stream: b"0", self._people: b"0"}
        self._waiting: list[Callable[[Any], object]] = []
        self._news = asyncio.Event()
        self._sent = asyncio.Event()
        self._sent.set()
        self._tasks: list[asyncio.Task[None]] = []
        self._processes: dict[str, float] = {}

    async def load(self) -> tuple[Stored | None, dict[str, object]]:
        """Return what Redis holds of the page, and what is shown beside its text.

        Raises:
            RelayError: it cannot be read.
        """
        from redis.exceptions import RedisError

        redis = self.relay.redis
        try:
            async with redis.pipeline(transaction=True) as pipe:
                pipe.hgetall(self._hash)
                pipe.xrange(self._stream)
                pipe.xrevrange(self._people, count=1)
                held, entries, people = cast("tuple[dict[bytes, bytes], Any, Any]", await pipe.execute())
        except (RedisError, OSError) as error:
            raise RelayError(f"Redis cannot be used: {error}") from error
        if entries:
            self._last[self._stream] = cast("bytes", entries[-1][0])
        if people:
            self._last[self._people] = cast("bytes", people[0][0])
        updates = [held[b"snapshot"]] if b"snapshot" in held else []
        updates += [cast("bytes", fields[b"d"]) for _, fields in entries]
        if not updates:
            return None, {}
        stored = Stored(
            update=joined(updates),
            base=held.get(b"base"),
            encoding=held.get(b"encoding", b"").decode(),
            writing=held.get(b"writing"),
            records=cast("dict[str, object]", json.loads(held.get(b"records", b"{}"))),
        )
        return stored, cast("dict[str, object]", json.loads(held.get(b"shown", b"{}")))

    def save(self, _page: str, saving: Saving) -> None:
        """Send this soon, in order; what only the owner knows is held if this process owns the page."""
        if saving.instead and self.owns:
            (snapshot,) = saving.updates
            self._queue(lambda pipe: pipe.hset(self._hash, "snapshot", snapshot))
        else:
            for update in saving.updates:
                self._entry("u", update)
        if saving.dirty is not None:
            self._queue(_marked(self.page, is_dirty=saving.dirty))
        if self.owns:
            for field, value in _fields(saving).items():
                self._queue(
                    lambda pipe, field=field, value=value: (
                        pipe.hdel(self._hash, field) if value is None else pipe.hset(self._hash, field, value)
                    )
                )

    def tell_presence(self, update: bytes) -> None:
        """Tell other processes what people here do."""
        self._entry("a", update)

    def tell_state(self, state: object) -> None:
        """Tell other processes what is shown beside the text."""
        if self.owns:
            told = json.dumps(state, ensure_ascii=False).encode()
            self._queue(lambda pipe: pipe.hset(self._hash, "shown", told))
            self._entry("s", told)

    def ask(self) -> None:
        """Ask other processes who is there."""
        self._entry("q", b"")

    async def flush(self) -> None:
        """Wait until all that was told is with Redis, as long as it answers within some seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                await self._sent.wait()

    async def try_to_own(self) -> bool:
        """Become the page's owner, if it has none."""
        value = f"{self.relay.process}|{self.relay.address}"
        taken = await self.relay.redis.set(self._owner, value, px=int(LEASE * 1000), nx=True)
        self.owns = self.owns or bool(taken)
        return bool(taken)

    async def renew(self) -> bool:
        """Stay the owner; tell whether that is so."""
        value = f"{self.relay.process}|{self.relay.address}"
        call = self.relay.redis.eval(_RENEW, 1, self._owner, value, str(int(LEASE * 1000)))
        self.owns = bool(await call)
        return self.owns

    async def release(self) -> None:
        """Be the owner no longer."""
        value = f"{self.relay.process}|{self.relay.address}"
        with suppress(Exception):
            await self.relay.redis.eval(_RELEASE, 1, self._owner, value)
        self.owns = False

    def begin(self, listener: Listener) -> None:
        """Tell what waits, and hear what comes."""
        self._tasks = [
            asyncio.create_task(self._tell()),
            asyncio.create_task(self._hear(listener)),
            asyncio.create_task(self._watch(listener)),
        ]
        self.ask()

    async def end(self) -> None:
        """Tell all that waits, and end."""
        await self.flush()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _entry(self, kind: str, data: bytes) -> None:
        fields: dict[Any, Any] = {"k": kind, "d": data, "p": self.relay.process}
        stream, most = (self._stream, _KEPT) if kind == "u" else (self._people, _KEPT_OF_PEOPLE)
        self._queue(lambda pipe: pipe.xadd(stream, fields, maxlen=most, approximate=True))

    def _queue(self, command: Callable[[Any], object]) -> None:
        self._waiting.append(command)
        self._sent.clear()
        self._news.set()

    async def _tell(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            commands, self._waiting = self._waiting, []
            while commands:
                try:
                    async with self.relay.redis.pipeline(transaction=True) as pipe:
                        for command in commands:
                            command(pipe)
                        await pipe.execute()
                    commands = []
                except Exception as error:  # noqa: BLE001 - whatever is wrong with Redis, it is tried again
                    log.warning("Redis cannot be told of `%s`: %s", self.page, error)
                    await asyncio.sleep(0.5)
            if not self._waiting:
                self._sent.set()

    async def _hear(self, listener: Listener) -> None:
        while True:
            try:
                found = await self.relay.redis.xread(self._last, block=_BLOCK, count=500)
            except Exception as error:  # noqa: BLE001 - as above
                log.warning("Redis cannot be heard of `%s`: %s", self.page, error)
                await asyncio.sleep(0.5)
                with suppress(RelayError):
                    stored, _ = await self.load()
                    if stored is not None:
                        listener.hear_update(stored.update)
                    listener.hear_question()
                continue
            for stream, entries in cast("Sequence[Any]", found or ()):
                for at, fields in cast("Sequence[tuple[bytes, dict[bytes, bytes]]]", entries):
                    self._last[stream.decode()] = at
                    self._pass_on(fields, listener)

    def _pass_on(self, fields: dict[bytes, bytes], listener: Listener) -> None:
        process = fields[b"p"].decode()
        if process == self.relay.process:
            return
        self._processes.setdefault(process, time.monotonic())
        match fields[b"k"]:
            case b"u":
                listener.hear_update(fields[b"d"])
            case b"a":
                listener.hear_presence(fields[b"d"], process)
            case b"s":
                listener.hear_state(cast("dict[str, object]", json.loads(fields[b"d"])))
            case b"q":
                listener.hear_question()
            case _:
                pass  # of a later version

    async def _watch(self, listener: Listener) -> None:
        """See which of the processes that were heard of are still there."""
        while True:
            await asyncio.sleep(RENEW)
            for process in list(self._processes):
                with suppress(Exception):  # as long as Redis is away nobody is gone
                    if not await self.relay.is_alive(process):
                        del self._processes[process]
                        listener.hear_gone(process)


def _marked(page: str, *, is_dirty: bool) -> Callable[[Any], object]:
    key = f"{PREFIX}:dirty"
    return lambda pipe: pipe.sadd(key, page) if is_dirty else pipe.srem(key, page)


def _fields(saving: Saving) -> dict[str, str | bytes | None]:
    found: dict[str, str | bytes | None] = {}
    if saving.base is not None:
        data, encoding = saving.base
        found |= {"base": data, "encoding": encoding, "writing": None}
    if saving.writing is not None:
        found["writing"] = saving.writing
    if saving.records is not None:
        found["records"] = json.dumps(saving.records, ensure_ascii=False)
    return found
