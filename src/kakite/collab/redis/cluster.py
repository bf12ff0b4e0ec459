"""Lets several processes serve the same documents through Redis: any of them may be asked for any document.

One process owns each open document: that one alone writes its file and holds its suggestions and runs. It
keeps a lease; when it is gone, another process takes over what Redis holds of the document.

``DocumentStream`` is the Redis stream of one document: changes, people's cursors, and what is shown beside
the text. Redis may go away, and come back with what it held, with some of it or with nothing. Meanwhile
nothing is published, and people go on typing here. Afterwards this process takes in what Redis has and
publishes all that it has itself, which changes nothing where it was known.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from kakite.collab.store import DocumentRecord, DocumentWrite, merge_updates
from kakite.errors import ExternalError

if TYPE_CHECKING:
    from redis.asyncio import Redis


PREFIX = "kakite:collab"
LEASE = 3.0
"""Seconds for which a page stays its owner's without a sign of life; also how long the dead keep cursors."""
RENEW = 1.0
TIMEOUT = 10.0
_ANSWER = 2.0  # s that Redis may take: less than a lease

RELEASE_SCRIPT = (
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
)


_T = TypeVar("_T")


class ClusterError(ExternalError):
    """Redis cannot be used.

    Code: ``relay_failed``.
    """

    code = "relay_failed"


async def call_redis(answer: Awaitable[_T]) -> _T:
    """Return what Redis answers.

    Raises:
        ClusterError: it does not.
    """
    from redis.exceptions import RedisError

    try:
        return await answer
    except (RedisError, OSError) as error:
        raise ClusterError(
            f"Redis cannot be used: {error}", hint="check that it runs, and check --redis"
        ) from error


async def cancel_and_wait(*tasks: asyncio.Task[None]) -> None:
    """Cancel tasks and wait until they have ended; one that just hears from Redis may miss the first."""
    waiting = set(tasks)
    while waiting:
        for task in waiting:
            task.cancel()
        _, waiting = await asyncio.wait(waiting, timeout=0.1)


class DisconnectSubscriber(Protocol):
    """A part that relies on this connection to Redis."""

    def on_disconnect(self, reason: object) -> None:
        """Redis is away, or was started again: nothing that it held is sure."""
        ...


class ClusterNode:
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
        self._subscribers: weakref.WeakSet[DisconnectSubscriber] = weakref.WeakSet()

    async def start(self) -> None:
        """Connect, and show signs of life from now on.

        Raises:
            ClusterError: Redis does not answer.
        """
        await self._beat()
        self._beating = asyncio.create_task(self._beat_on())

    async def close(self) -> None:
        """End, and let others know."""
        if self._beating is not None:
            await cancel_and_wait(self._beating)
        with suppress(Exception):
            await self.redis.delete(f"{PREFIX}:alive:{self.process}")
        await self.redis.aclose()

    def subscribe(self, subscriber: DisconnectSubscriber) -> None:
        """Tell this one when the connection is cut, as long as it is in use."""
        self._subscribers.add(subscriber)

    @asynccontextmanager
    async def opening(self, page: str) -> AsyncGenerator[None]:
        """Be the only process that opens this page for the first time.

        Raises:
            ClusterError: another one does not come to an end with it, or Redis does not answer.
        """
        key, mark = f"{PREFIX}:opening:{page}", secrets.token_hex(8)
        try:
            async with asyncio.timeout(TIMEOUT):
                while not await call_redis(self.redis.set(key, mark, px=int(TIMEOUT * 1000), nx=True)):  # noqa: ASYNC110 - Redis tells nobody
                    await asyncio.sleep(0.05)
        except TimeoutError as error:
            raise ClusterError(
                f"`{page}` is being opened elsewhere", hint="try again in some seconds"
            ) from error
        try:
            yield
        finally:
            with suppress(ClusterError):
                await call_redis(self.redis.eval(RELEASE_SCRIPT, 1, key, mark))

    async def has_no_owner(self, page: str) -> bool:
        """Tell whether no process owns this page."""
        return not await call_redis(self.redis.exists(f"{PREFIX}:owner:{page}"))

    async def list_unsaved(self) -> list[str]:
        """Return the pages with text that is in no file yet."""
        found = await call_redis(cast("Awaitable[set[bytes]]", self.redis.smembers(f"{PREFIX}:dirty")))
        return sorted(name.decode() for name in found)

    async def find_owner(self, page: str) -> str:
        """Return the address of the process that owns a page; empty if none does, or this one."""
        value = cast("bytes | None", await call_redis(self.redis.get(f"{PREFIX}:owner:{page}")))
        process, _, address = (value or b"").decode().partition("|")
        return "" if process == self.process else address

    async def find_run_document(self, run: str) -> str:
        """Return the page that a run is on; empty if there is no such run."""
        return (cast("bytes | None", await call_redis(self.redis.get(f"{PREFIX}:run:{run}"))) or b"").decode()

    async def note_run(self, run: str, page: str) -> None:
        """Let all processes know which page a run is on."""
        await call_redis(self.redis.set(f"{PREFIX}:run:{run}", page, ex=24 * 3600))

    async def is_alive(self, process: str) -> bool:
        """Tell whether another process showed a sign of life lately."""
        return bool(await call_redis(self.redis.exists(f"{PREFIX}:alive:{process}")))

    async def _beat(self) -> None:
        async with self.redis.pipeline(transaction=False) as pipe:
            pipe.set(f"{PREFIX}:alive:{self.process}", self.address, px=int(LEASE * 1000))
            pipe.info("server")  # pyright: ignore[reportUnknownMemberType] - theirs
            _, said = await call_redis(pipe.execute())
        life = cast("dict[str, object]", said).get("run_id")
        if self._life not in {None, life}:
            self._notify_disconnect("Redis was started again")
        self._life = life

    async def _beat_on(self) -> None:
        while True:
            await asyncio.sleep(RENEW)
            try:
                await self._beat()
            except ClusterError as error:
                self._notify_disconnect(error.message)

    def _notify_disconnect(self, reason: str) -> None:
        for subscriber in list(self._subscribers):
            subscriber.on_disconnect(reason)


log = logging.getLogger(__name__)

_BLOCK = 500  # ms that one reading waits
_MAX_UPDATES = 5_000  # entries of a stream, about; those before are in the snapshot
_MAX_AWARENESS_ENTRIES = 500  # what people did before is of no use to anybody
_TURN = "turn:"  # a turn's field in the page's hash is this and its id
_REFUSED = -1  # what a script answers that only the owner may run
_GRACE = 2 * LEASE  # s after which a page whose owner did not come back with Redis may be taken

# Who holds a page says so in the page's own hash, and what only the owner may write is written by a script
# that looks there: one that stood still while its lease ran out writes nothing over the next owner's.
_ACQUIRE_SCRIPT = """
local history = redis.call('hget', KEYS[2], 'history')
if history and ARGV[4] ~= '' and history ~= ARGV[4] then return 0 end
if not redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 0 end
redis.call('hset', KEYS[2], 'holder', ARGV[3])
return 1"""
_RENEW_SCRIPT = """
local owner, holder = redis.call('get', KEYS[1]), redis.call('hget', KEYS[2], 'holder')
local history = redis.call('hget', KEYS[2], 'history')
if (owner and owner ~= ARGV[1]) or (holder and holder ~= ARGV[3]) then return 0 end
if history and history ~= ARGV[4] then return 0 end
redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('hset', KEYS[2], 'holder', ARGV[3])
return 1"""
_FENCE = "if redis.call('hget', KEYS[1], 'holder') ~= ARGV[1] then return -1 end "
_WRITE_SCRIPT = f"""{_FENCE}
for at = 2, #ARGV, 3 do
  if ARGV[at] == 'set' then redis.call('hset', KEYS[1], ARGV[at + 1], ARGV[at + 2])
  elseif ARGV[at] == 'del' then redis.call('hdel', KEYS[1], ARGV[at + 1])
  else redis.call('srem', KEYS[2], ARGV[at + 1]) end
end
return 1"""
_STATE_SCRIPT = f"""{_FENCE}
redis.call('hset', KEYS[1], 'shown', ARGV[2])
redis.call('xadd', KEYS[2], 'MAXLEN', '~', ARGV[3], '*', 'k', 's', 'd', ARGV[2], 'p', ARGV[4])
return 1"""
_RESET_SCRIPT = f"""{_FENCE}
local former = redis.call('hget', KEYS[1], 'history')
redis.call('hset', KEYS[1], 'history', ARGV[2], 'snapshot', ARGV[3])
redis.call('hset', KEYS[1], 'former', former or '', 'before', ARGV[4])
redis.call('xtrim', KEYS[2], 'MAXLEN', 0)
redis.call('xadd', KEYS[2], '*', 'k', 'h', 'd', '', 'p', ARGV[5], 'h', ARGV[2])
return 1"""


class StreamListener(Protocol):
    """A listener to a document's stream."""

    def on_update(self, update: bytes) -> None:
        """Another process changed the document."""
        ...

    def on_awareness(self, update: bytes, process: str) -> None:
        """People of another process moved."""
        ...

    def on_state(self, state: dict[str, object]) -> None:
        """The owner shows something else beside the text."""
        ...

    def on_awareness_query(self) -> None:
        """Another process came, and wants to know who is here."""
        ...

    def on_process_gone(self, process: str) -> None:
        """Another process is gone."""
        ...

    def on_connection_change(self) -> None:
        """The connection to Redis was lost, or is back."""
        ...

    def on_reset(self) -> None:
        """The document was begun anew elsewhere: this one is none of the page's any more."""
        ...

    def take_snapshot(self) -> DocumentWrite:
        """Return all that is to be stored of the page; of another's page its document."""
        ...


@dataclass(frozen=True, slots=True)
class PreviousDocument:
    """The document of a page before it was begun anew."""

    history: str
    update: bytes


class DocumentStream:
    """One page's stream, and what Redis holds of the page."""

    def __init__(self, relay: ClusterNode, page: str) -> None:
        self.relay = relay
        self.page = page
        self.history = ""
        """The id of the document's history; empty until one is known."""
        self.former: PreviousDocument | None = None
        """What Redis holds of the document before this one."""
        self.holds = False
        """Whether this process is the owner, as far as it knows."""
        self.is_cut = False
        """Whether Redis may lack what this process has."""
        self._mark = secrets.token_hex(8)
        self._until = 0.0
        self._mended = float("-inf")
        self._stream = f"{PREFIX}:page:{page}:stream"
        self._hash = f"{PREFIX}:page:{page}:state"
        self._owner = f"{PREFIX}:owner:{page}"
        self._people = f"{PREFIX}:page:{page}:people"
        self._dirty = f"{PREFIX}:dirty"
        self._last: dict[Any, Any] = {self._stream: b"0", self._people: b"0"}
        self._waiting: list[Callable[[Any], object]] = []
        self._news = asyncio.Event()
        self._sent = asyncio.Event()
        self._sent.set()
        self._tasks: list[asyncio.Task[None]] = []
        self._processes: dict[str, float] = {}
        self._listener: StreamListener | None = None
        relay.subscribe(self)

    @property
    def is_lease_valid(self) -> bool:
        """Whether this process is the owner for sure: its lease has not run out by its own clock.

        One that was stopped for a while finds here that it has slept too long.
        """
        return self.holds and time.monotonic() < self._until

    async def load(self) -> tuple[DocumentRecord | None, dict[str, object]]:
        """Return what Redis holds of the page, and what is shown beside its text.

        Raises:
            ClusterError: it cannot be read, or is being put together by others.
        """
        async with self.relay.redis.pipeline(transaction=True) as pipe:
            pipe.hgetall(self._hash)
            pipe.xrange(self._stream)
            pipe.xrevrange(self._people, count=1)
            pipe.time()  # pyright: ignore[reportUnknownMemberType] - theirs
            answer = cast("tuple[dict[bytes, bytes], Any, Any, Any]", await call_redis(pipe.execute()))
        held, entries, people, (now, _) = answer
        self._last[self._stream] = cast("bytes", entries[-1][0]) if entries else b"0"
        self._last[self._people] = cast("bytes", people[0][0]) if people else b"0"
        history = held.get(b"history", b"")
        former = held.get(b"former", b"").decode()
        self.former = PreviousDocument(former, held[b"before"]) if former else None
        updates = [held[b"snapshot"]] if b"snapshot" in held else []
        told = [(at, fields) for at, fields in entries if fields[b"k"] == b"u"]
        updates += [cast("bytes", fields[b"d"]) for _, fields in told if fields.get(b"h", b"") == history]
        if told and not history and not self.history and now - _parse_entry_time(told[-1][0]) < _GRACE:
            raise ClusterError(f"`{self.page}` is being mended elsewhere", hint="try again in some seconds")
        if not history or not updates:
            return None, {}
        stored = DocumentRecord(
            update=merge_updates(updates),
            history=history.decode(),
            base=held.get(b"base"),
            encoding=held.get(b"encoding", b"").decode(),
            writing=held.get(b"writing"),
            records=cast("dict[str, object]", json.loads(held.get(b"records", b"{}"))),
            versions=cast("list[dict[str, object]]", json.loads(held.get(b"versions", b"[]"))),
            turns=tuple(json.loads(data) for name, data in held.items() if name.startswith(_TURN.encode())),
        )
        return stored, cast("dict[str, object]", json.loads(held.get(b"shown", b"{}")))

    def save(self, _page: str, saving: DocumentWrite) -> None:
        """Send this soon, in order; what only the owner knows is held if this process owns the page."""
        updates = saving.updates
        if saving.instead and self.holds:
            snapshot, *updates = updates
            self._write("set", "snapshot", snapshot)
        for update in updates:
            self._add_entry("u", update)
        if saving.dirty:
            self._queue(lambda pipe: pipe.sadd(self._dirty, self.page))
        if self.holds:
            words = _build_write_args(saving)
            if saving.dirty is False:
                words += ["clean", self.page, ""]
            if words:
                self._write(*words)

    def publish_awareness(self, update: bytes) -> None:
        """Tell other processes what people here do."""
        self._add_entry("a", update)

    def publish_state(self, state: object) -> None:
        """Tell other processes what is shown beside the text."""
        if self.holds:
            told = json.dumps(state, ensure_ascii=False).encode()
            words = (self._mark, told, str(_MAX_AWARENESS_ENTRIES), self.relay.process)
            self._queue(lambda pipe: pipe.eval(_STATE_SCRIPT, 2, self._hash, self._people, *words))

    def query_awareness(self) -> None:
        """Ask other processes who is there."""
        self._add_entry("q", b"")

    async def flush(self) -> bool:
        """Wait until all that was told is with Redis, for some seconds at most; tell whether it is."""
        if self.is_cut:
            return False
        with suppress(TimeoutError):
            async with asyncio.timeout(TIMEOUT):
                await self._sent.wait()
                return not self.is_cut
        return False

    async def try_to_own(self) -> bool:
        """Become the page's owner, if it has none.

        Raises:
            ClusterError: Redis does not answer.
        """
        if self.is_cut or time.monotonic() - self._mended < _GRACE:
            return False  # whoever owned it when Redis went has all of it, and comes first
        return await self._acquire_lease(_ACQUIRE_SCRIPT)

    async def renew(self) -> bool:
        """Stay the owner; tell whether that is so.

        Raises:
            ClusterError: Redis does not answer.
        """
        return await self._acquire_lease(_RENEW_SCRIPT)

    async def release(self) -> None:
        """Be the owner no longer."""
        with suppress(ClusterError):
            await call_redis(self.relay.redis.eval(RELEASE_SCRIPT, 1, self._owner, self._owner_value))
        self.holds = False

    async def reset_document(self, history: str, fresh: bytes, before: bytes) -> None:
        """Put another document in place of this one; the other processes hear of it.

        Raises:
            ClusterError: that is not possible, or this process is not the owner any more.
        """
        words = (self._mark, history, fresh, before, self.relay.process)
        call = self.relay.redis.eval(_RESET_SCRIPT, 2, self._hash, self._stream, *words)
        if await call_redis(call) == _REFUSED:
            self.holds = False
            raise ClusterError(f"`{self.page}` has another owner by now")
        self.history = history

    def begin(self, listener: StreamListener) -> None:
        """Tell what waits, and hear what comes."""
        self._listener = listener
        self._tasks = [
            asyncio.create_task(self._send_commands()),
            asyncio.create_task(self._read_entries(listener)),
            asyncio.create_task(self._watch(listener)),
        ]
        self.query_awareness()

    async def end(self) -> bool:
        """Tell all that waits, and end; tell whether it was told."""
        told = await self.flush()
        await cancel_and_wait(*self._tasks)
        return told

    def on_disconnect(self, reason: object) -> None:
        """Tell nothing more until Redis is known to have what this process has."""
        self._waiting.clear()
        if not self.is_cut:
            log.warning("the line of `%s` is cut: %s", self.page, reason)
            self.is_cut = True
            self._sent.set()
            if self._listener is not None:
                self._listener.on_connection_change()

    async def _acquire_lease(self, script: str) -> bool:
        from_now = time.monotonic()
        words = (self._owner_value, str(int(LEASE * 1000)), self._mark, self.history)
        call = self.relay.redis.eval(script, 2, self._owner, self._hash, *words)
        self.holds = bool(await call_redis(call))
        if self.holds:
            self._until = from_now + LEASE
        return self.holds

    @property
    def _owner_value(self) -> str:
        return f"{self.relay.process}|{self.relay.address}"

    def _add_entry(self, kind: str, data: bytes) -> None:
        fields: dict[Any, Any] = {"k": kind, "d": data, "p": self.relay.process, "h": self.history}
        stream, most = (self._stream, _MAX_UPDATES) if kind == "u" else (self._people, _MAX_AWARENESS_ENTRIES)
        self._queue(lambda pipe: pipe.xadd(stream, fields, maxlen=most, approximate=True))

    def _write(self, *words: str | bytes) -> None:
        self._queue(lambda pipe: pipe.eval(_WRITE_SCRIPT, 2, self._hash, self._dirty, self._mark, *words))

    def _queue(self, command: Callable[[Any], object]) -> None:
        if not self.is_cut:  # all is told when it is mended
            self._waiting.append(command)
            self._sent.clear()
            self._news.set()

    async def _send_commands(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            commands, self._waiting = self._waiting, []
            try:
                if commands and not self.is_cut:
                    async with self.relay.redis.pipeline(transaction=True) as pipe:
                        for command in commands:
                            command(pipe)
                        if _REFUSED in await call_redis(pipe.execute()):
                            self._until = 0.0  # until the lease is renewed: see `pages`
            except ClusterError as error:
                self.on_disconnect(error)
            if not self._waiting:
                self._sent.set()

    async def _read_entries(self, listener: StreamListener) -> None:
        while True:
            try:
                if self.is_cut:
                    await self._resync(listener)
                found = await call_redis(self.relay.redis.xread(self._last, block=_BLOCK, count=500))
            except ClusterError as error:
                self.on_disconnect(error)
                await asyncio.sleep(0.3)
                continue
            for stream, entries in cast("Sequence[Any]", found or ()):
                for at, fields in cast("Sequence[tuple[bytes, dict[bytes, bytes]]]", entries):
                    self._last[stream.decode()] = at
                    self._pass_on(fields, listener)

    async def _resync(self, listener: StreamListener) -> None:
        stored, shown = await self.load()
        history = await self._restore_history()
        if history != self.history:
            await self._abandon(listener)
        self._mended = time.monotonic()
        if self.holds:
            await self.renew()
        self.is_cut = False
        if stored is not None:
            listener.on_update(stored.update)
        if shown and not self.holds:
            listener.on_state(shown)
        self.save(self.page, listener.take_snapshot())
        self.query_awareness()
        listener.on_awareness_query()
        listener.on_connection_change()

    async def _restore_history(self) -> str:
        """Return the history that Redis knows of; ours, if it has forgotten all."""
        async with self.relay.redis.pipeline(transaction=True) as pipe:
            pipe.hsetnx(self._hash, "history", self.history)
            pipe.hget(self._hash, "history")
            _, history = await call_redis(pipe.execute())
        return cast("bytes", history).decode()

    async def _abandon(self, listener: StreamListener) -> None:
        """Let the page be opened anew: nothing of this line is of use any more."""
        self.holds = False
        listener.on_reset()
        await asyncio.get_running_loop().create_future()

    def _pass_on(self, fields: dict[bytes, bytes], listener: StreamListener) -> None:
        process = fields[b"p"].decode()
        if process == self.relay.process:
            return
        self._processes.setdefault(process, time.monotonic())
        match fields[b"k"]:
            case b"u":
                if fields.get(b"h", b"").decode() == self.history:
                    listener.on_update(fields[b"d"])
            case b"a":
                listener.on_awareness(fields[b"d"], process)
            case b"s":
                listener.on_state(cast("dict[str, object]", json.loads(fields[b"d"])))
            case b"q":
                listener.on_awareness_query()
            case b"h":
                if fields[b"h"].decode() != self.history:
                    self.holds = False
                    listener.on_reset()
            case _:
                pass  # of a later version

    async def _watch(self, listener: StreamListener) -> None:
        """See which of the processes that were heard of are still there."""
        while True:
            await asyncio.sleep(RENEW)
            for process in list(self._processes):
                with suppress(ClusterError):  # as long as Redis is away nobody is gone
                    if not await self.relay.is_alive(process):
                        del self._processes[process]
                        listener.on_process_gone(process)


def _parse_entry_time(entry: bytes) -> float:
    """Return when an entry of a stream was made, in seconds of Redis's own clock."""
    return int(entry.partition(b"-")[0]) / 1000


def _build_write_args(saving: DocumentWrite) -> list[str | bytes]:
    """Return what the owner writes: what is to be done, a field, its value, and so on."""
    found: dict[str, str | bytes | None] = {}
    if saving.history is not None:
        found["history"] = saving.history
    if saving.base is not None:
        data, encoding = saving.base
        found |= {"base": data, "encoding": encoding, "writing": None}
    if saving.writing is not None:
        found["writing"] = saving.writing
    if saving.records is not None:
        found["records"] = json.dumps(saving.records, ensure_ascii=False)
    if saving.versions is not None:
        found["versions"] = json.dumps(saving.versions, ensure_ascii=False)
    for turn, data in saving.turns.items():
        found[f"{_TURN}{turn}"] = None if data is None else json.dumps(data, ensure_ascii=False)
    words: list[str | bytes] = []
    for field, value in found.items():
        words += ["del", field, ""] if value is None else ["set", field, value]
    return words
