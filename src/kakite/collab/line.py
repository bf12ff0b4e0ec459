"""One page's stream through Redis: changes of its document, people's cursors, what is shown beside its text.

Redis may go away, and come back with what it held, with some of it or with nothing. A line is then cut:
nothing is told any more, and people go on typing here. Once Redis is back the line is mended: what Redis has
is taken in, and all that this process has is told again, which changes nothing where it was known.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from kakite.collab.relay import LEASE, PATIENCE, PREFIX, RELEASE, RENEW, RelayError, asked, ended
from kakite.collab.store import Saving, Stored, joined

if TYPE_CHECKING:
    from kakite.collab.relay import Relay

log = logging.getLogger(__name__)

_BLOCK = 500  # ms that one reading waits
_KEPT = 5_000  # entries of a stream, about; those before are in the snapshot
_KEPT_OF_PEOPLE = 500  # what people did before is of no use to anybody
_REFUSED = -1  # what a script answers that only the owner may run
_GRACE = 2 * LEASE  # s after which a page whose owner did not come back with Redis may be taken

# Who holds a page says so in the page's own hash, and what only the owner may write is written by a script
# that looks there: one that stood still while its lease ran out writes nothing over the next owner's.
_TAKE = """
local history = redis.call('hget', KEYS[2], 'history')
if history and ARGV[4] ~= '' and history ~= ARGV[4] then return 0 end
if not redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 0 end
redis.call('hset', KEYS[2], 'holder', ARGV[3])
return 1"""
_STAY = """
local owner, holder = redis.call('get', KEYS[1]), redis.call('hget', KEYS[2], 'holder')
local history = redis.call('hget', KEYS[2], 'history')
if (owner and owner ~= ARGV[1]) or (holder and holder ~= ARGV[3]) then return 0 end
if history and history ~= ARGV[4] then return 0 end
redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('hset', KEYS[2], 'holder', ARGV[3])
return 1"""
_FENCE = "if redis.call('hget', KEYS[1], 'holder') ~= ARGV[1] then return -1 end "
_WRITE = f"""{_FENCE}
for at = 2, #ARGV, 3 do
  if ARGV[at] == 'set' then redis.call('hset', KEYS[1], ARGV[at + 1], ARGV[at + 2])
  elseif ARGV[at] == 'del' then redis.call('hdel', KEYS[1], ARGV[at + 1])
  else redis.call('srem', KEYS[2], ARGV[at + 1]) end
end
return 1"""
_SHOW = f"""{_FENCE}
redis.call('hset', KEYS[1], 'shown', ARGV[2])
redis.call('xadd', KEYS[2], 'MAXLEN', '~', ARGV[3], '*', 'k', 's', 'd', ARGV[2], 'p', ARGV[4])
return 1"""
_ANEW = f"""{_FENCE}
local former = redis.call('hget', KEYS[1], 'history')
redis.call('hset', KEYS[1], 'history', ARGV[2], 'snapshot', ARGV[3])
redis.call('hset', KEYS[1], 'former', former or '', 'before', ARGV[4])
redis.call('xtrim', KEYS[2], 'MAXLEN', 0)
redis.call('xadd', KEYS[2], '*', 'k', 'h', 'd', '', 'p', ARGV[5], 'h', ARGV[2])
return 1"""


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

    def hear_cut(self) -> None:
        """The line was cut, or is mended: ``Line.is_cut``."""
        ...

    def hear_history(self) -> None:
        """The document was begun anew elsewhere: this one is none of the page's any more."""
        ...

    def everything(self) -> Saving:
        """Return all that is to be stored of the page; of another's page its document."""
        ...


@dataclass(frozen=True, slots=True)
class Former:
    """The document of a page before it was begun anew."""

    history: str
    update: bytes


class Line:
    """One page's stream, and what Redis holds of the page."""

    def __init__(self, relay: Relay, page: str) -> None:
        self.relay = relay
        self.page = page
        self.history = ""
        """The id of the document's history; empty until one is known."""
        self.former: Former | None = None
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
        self._listener: Listener | None = None

    @property
    def may_act(self) -> bool:
        """Whether this process is the owner for sure: its lease has not run out by its own clock.

        One that was stopped for a while finds here that it has slept too long.
        """
        return self.holds and time.monotonic() < self._until

    async def load(self) -> tuple[Stored | None, dict[str, object]]:
        """Return what Redis holds of the page, and what is shown beside its text.

        Raises:
            RelayError: it cannot be read, or is being put together by others.
        """
        async with self.relay.redis.pipeline(transaction=True) as pipe:
            pipe.hgetall(self._hash)
            pipe.xrange(self._stream)
            pipe.xrevrange(self._people, count=1)
            pipe.time()  # pyright: ignore[reportUnknownMemberType] - theirs
            answer = cast("tuple[dict[bytes, bytes], Any, Any, Any]", await asked(pipe.execute()))
        held, entries, people, (now, _) = answer
        self._last[self._stream] = cast("bytes", entries[-1][0]) if entries else b"0"
        self._last[self._people] = cast("bytes", people[0][0]) if people else b"0"
        history = held.get(b"history", b"")
        former = held.get(b"former", b"").decode()
        self.former = Former(former, held[b"before"]) if former else None
        updates = [held[b"snapshot"]] if b"snapshot" in held else []
        told = [(at, fields) for at, fields in entries if fields[b"k"] == b"u"]
        updates += [cast("bytes", fields[b"d"]) for _, fields in told if fields.get(b"h", b"") == history]
        if told and not history and not self.history and now - _time_of(told[-1][0]) < _GRACE:
            raise RelayError(f"`{self.page}` is being mended elsewhere", hint="try again in some seconds")
        if not history or not updates:
            return None, {}
        stored = Stored(
            update=joined(updates),
            history=history.decode(),
            base=held.get(b"base"),
            encoding=held.get(b"encoding", b"").decode(),
            writing=held.get(b"writing"),
            records=cast("dict[str, object]", json.loads(held.get(b"records", b"{}"))),
        )
        return stored, cast("dict[str, object]", json.loads(held.get(b"shown", b"{}")))

    def save(self, _page: str, saving: Saving) -> None:
        """Send this soon, in order; what only the owner knows is held if this process owns the page."""
        updates = saving.updates
        if saving.instead and self.holds:
            snapshot, *updates = updates
            self._write("set", "snapshot", snapshot)
        for update in updates:
            self._entry("u", update)
        if saving.dirty:
            self._queue(lambda pipe: pipe.sadd(self._dirty, self.page))
        if self.holds:
            words = _words(saving)
            if saving.dirty is False:
                words += ["clean", self.page, ""]
            if words:
                self._write(*words)

    def tell_presence(self, update: bytes) -> None:
        """Tell other processes what people here do."""
        self._entry("a", update)

    def tell_state(self, state: object) -> None:
        """Tell other processes what is shown beside the text."""
        if self.holds:
            told = json.dumps(state, ensure_ascii=False).encode()
            words = (self._mark, told, str(_KEPT_OF_PEOPLE), self.relay.process)
            self._queue(lambda pipe: pipe.eval(_SHOW, 2, self._hash, self._people, *words))

    def ask(self) -> None:
        """Ask other processes who is there."""
        self._entry("q", b"")

    async def flush(self) -> bool:
        """Wait until all that was told is with Redis, for some seconds at most; tell whether it is."""
        if self.is_cut:
            return False
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await self._sent.wait()
                return not self.is_cut
        return False

    async def try_to_own(self) -> bool:
        """Become the page's owner, if it has none.

        Raises:
            RelayError: Redis does not answer.
        """
        if self.is_cut or time.monotonic() - self._mended < _GRACE:
            return False  # whoever owned it when Redis went has all of it, and comes first
        return await self._leased(_TAKE)

    async def renew(self) -> bool:
        """Stay the owner; tell whether that is so.

        Raises:
            RelayError: Redis does not answer.
        """
        return await self._leased(_STAY)

    async def release(self) -> None:
        """Be the owner no longer."""
        with suppress(RelayError):
            await asked(self.relay.redis.eval(RELEASE, 1, self._owner, self._value))
        self.holds = False

    async def begin_anew(self, history: str, fresh: bytes, before: bytes) -> None:
        """Put another document in place of this one; the other processes hear of it.

        Raises:
            RelayError: that is not possible, or this process is not the owner any more.
        """
        words = (self._mark, history, fresh, before, self.relay.process)
        call = self.relay.redis.eval(_ANEW, 2, self._hash, self._stream, *words)
        if await asked(call) == _REFUSED:
            self.holds = False
            raise RelayError(f"`{self.page}` has another owner by now")
        self.history = history

    def begin(self, listener: Listener) -> None:
        """Tell what waits, and hear what comes."""
        self._listener = listener
        self._tasks = [
            asyncio.create_task(self._tell()),
            asyncio.create_task(self._hear(listener)),
            asyncio.create_task(self._watch(listener)),
        ]
        self.ask()

    async def end(self) -> bool:
        """Tell all that waits, and end; tell whether it was told."""
        told = await self.flush()
        await ended(*self._tasks)
        return told

    def cut(self, reason: object) -> None:
        """Tell nothing more until Redis is known to have what this process has."""
        self._waiting.clear()
        if not self.is_cut:
            log.warning("the line of `%s` is cut: %s", self.page, reason)
            self.is_cut = True
            self._sent.set()
            if self._listener is not None:
                self._listener.hear_cut()

    async def _leased(self, script: str) -> bool:
        from_now = time.monotonic()
        words = (self._value, str(int(LEASE * 1000)), self._mark, self.history)
        call = self.relay.redis.eval(script, 2, self._owner, self._hash, *words)
        self.holds = bool(await asked(call))
        if self.holds:
            self._until = from_now + LEASE
        return self.holds

    @property
    def _value(self) -> str:
        return f"{self.relay.process}|{self.relay.address}"

    def _entry(self, kind: str, data: bytes) -> None:
        fields: dict[Any, Any] = {"k": kind, "d": data, "p": self.relay.process, "h": self.history}
        stream, most = (self._stream, _KEPT) if kind == "u" else (self._people, _KEPT_OF_PEOPLE)
        self._queue(lambda pipe: pipe.xadd(stream, fields, maxlen=most, approximate=True))

    def _write(self, *words: str | bytes) -> None:
        self._queue(lambda pipe: pipe.eval(_WRITE, 2, self._hash, self._dirty, self._mark, *words))

    def _queue(self, command: Callable[[Any], object]) -> None:
        if not self.is_cut:  # all is told when it is mended
            self._waiting.append(command)
            self._sent.clear()
            self._news.set()

    async def _tell(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            commands, self._waiting = self._waiting, []
            try:
                if commands and not self.is_cut:
                    async with self.relay.redis.pipeline(transaction=True) as pipe:
                        for command in commands:
                            command(pipe)
                        if _REFUSED in await asked(pipe.execute()):
                            self._until = 0.0  # until the lease is renewed: see `pages`
            except RelayError as error:
                self.cut(error)
            if not self._waiting:
                self._sent.set()

    async def _hear(self, listener: Listener) -> None:
        while True:
            try:
                if self.is_cut:
                    await self._mend(listener)
                found = await asked(self.relay.redis.xread(self._last, block=_BLOCK, count=500))
            except RelayError as error:
                self.cut(error)
                await asyncio.sleep(0.3)
                continue
            for stream, entries in cast("Sequence[Any]", found or ()):
                for at, fields in cast("Sequence[tuple[bytes, dict[bytes, bytes]]]", entries):
                    self._last[stream.decode()] = at
                    self._pass_on(fields, listener)

    async def _mend(self, listener: Listener) -> None:
        stored, shown = await self.load()
        history = await self._restored()
        if history != self.history:
            await self._left(listener)
        self._mended = time.monotonic()
        if self.holds:
            await self.renew()
        self.is_cut = False
        if stored is not None:
            listener.hear_update(stored.update)
        if shown and not self.holds:
            listener.hear_state(shown)
        self.save(self.page, listener.everything())
        self.ask()
        listener.hear_question()
        listener.hear_cut()

    async def _restored(self) -> str:
        """Return the history that Redis knows of; ours, if it has forgotten all."""
        async with self.relay.redis.pipeline(transaction=True) as pipe:
            pipe.hsetnx(self._hash, "history", self.history)
            pipe.hget(self._hash, "history")
            _, history = await asked(pipe.execute())
        return cast("bytes", history).decode()

    async def _left(self, listener: Listener) -> None:
        """Let the page be opened anew: nothing of this line is of use any more."""
        self.holds = False
        listener.hear_history()
        await asyncio.get_running_loop().create_future()

    def _pass_on(self, fields: dict[bytes, bytes], listener: Listener) -> None:
        process = fields[b"p"].decode()
        if process == self.relay.process:
            return
        self._processes.setdefault(process, time.monotonic())
        match fields[b"k"]:
            case b"u":
                if fields.get(b"h", b"").decode() == self.history:
                    listener.hear_update(fields[b"d"])
            case b"a":
                listener.hear_presence(fields[b"d"], process)
            case b"s":
                listener.hear_state(cast("dict[str, object]", json.loads(fields[b"d"])))
            case b"q":
                listener.hear_question()
            case b"h":
                if fields[b"h"].decode() != self.history:
                    self.holds = False
                    listener.hear_history()
            case _:
                pass  # of a later version

    async def _watch(self, listener: Listener) -> None:
        """See which of the processes that were heard of are still there."""
        while True:
            await asyncio.sleep(RENEW)
            for process in list(self._processes):
                with suppress(RelayError):  # as long as Redis is away nobody is gone
                    if not await self.relay.is_alive(process):
                        del self._processes[process]
                        listener.hear_gone(process)


def _time_of(entry: bytes) -> float:
    """Return when an entry of a stream was made, in seconds of Redis's own clock."""
    return int(entry.partition(b"-")[0]) / 1000


def _words(saving: Saving) -> list[str | bytes]:
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
    words: list[str | bytes] = []
    for field, value in found.items():
        words += ["del", field, ""] if value is None else ["set", field, value]
    return words
