"""The tools of the debate server: each answers with one JSON object, and none keeps a client for long."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import json
import logging
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol, cast

from kakite.debate import rounds
from kakite.debate.mcp import descriptions, results
from kakite.debate.model import Debate, DebateError
from kakite.debate.rounds import get_status
from kakite.errors import KakiteError
from kakite.terminal_text import replace_surrogates_in_json
from kakite.tools import ToolCall, ToolResult
from kakite.tools.arguments import validate_arguments
from kakite.tools.call_context import current_call

if TYPE_CHECKING:
    from pathlib import Path

    from kakite.debate.model import CodeContext
    from kakite.debate.session import DebateManager, SessionUpdate
    from kakite.debate.store import StoredDebate
    from kakite.tools.toolset import JsonObject, Tool

log = logging.getLogger(__name__)

INITIAL_WAIT = 5.0
"""Seconds in which a turn may be complete so that ``start_debate`` and ``step`` answer with it."""
MAX_WAIT = descriptions.MAX_WAIT
MAX_TEXT = 20_000
"""Characters of one answer, or of the question, that a reply has: clients drop replies that are too long."""
_TAIL = 2_000
_TICK = 5.0
"""Seconds after which a client that waits is told again that we are at work."""
_WRITING = 3.0
"""Seconds for which a reply waits for the transcript: megabytes, or a slow disk, may take longer."""
_ABOUT = 100


class DebateStore(Protocol):
    """Debates on disk, as ``kakite.debate.store.SqliteDebateStore`` has them."""

    def list_debates(self) -> list[StoredDebate]:
        """Return all that are kept."""
        ...

    def claim(self, session: str) -> Debate:
        """Return one, which is ours from then on.

        Raises:
            KakiteError: ``kept_unknown``, ``kept_busy`` and others.
        """
        ...

    def load(self, session: str) -> Debate:
        """Return one without taking it.

        Raises:
            KakiteError: ``kept_unknown`` and others.
        """
        ...

    def release(self, session: str) -> None:
        """Give one back."""
        ...


TranscriptWriter = Callable[[str, Debate], "Path | None"]
"""Writes the transcript of a session's debate, and returns where."""


class DebateTools:
    """The Toolset ``start_debate``, ``step``, ``wait``, ``status``, ``stop`` of a bridge's debates.

    A refused call is a result with ``status`` error, and ``is_error``. Sessions that are only kept are taken
    up when somebody names them.
    """

    def __init__(
        self,
        bridge: DebateManager,
        *,
        terms: Mapping[str, object] | None = None,
        hold: float = INITIAL_WAIT,
        store: DebateStore | None = None,
        publish: TranscriptWriter | None = None,
        roots: Sequence[Path] = (),
    ) -> None:
        """Offer a manager's debates.

        Args:
            bridge: performs them; its keeper should be the store.
            terms: of each debate, where a call does not say otherwise; by the fields of ``DebateConfig``.
            hold: seconds for which ``start_debate`` and ``step`` wait for their turn.
            store: where debates are that outlived another server.
            publish: writes transcripts.
            roots: folders whose files debates can be about.
        """
        self._bridge = bridge
        self._terms = dict(terms or {})
        self._hold = hold
        self._store = store
        self._publish = publish
        self._roots = tuple(root.resolve() for root in roots)
        self._published: dict[str, Path] = {}
        self._writing: dict[str, asyncio.Task[None]] = {}
        self._unkept: dict[str, str] = {}
        usual = bridge.build_config(**self._terms)
        self._sides = usual.names
        self._tools = descriptions.build_tools_by_name(self._sides, usual.cap, has_roots=bool(roots))
        self._deeds: dict[str, Callable[[JsonObject], Awaitable[dict[str, object]]]] = {
            "start_debate": self._start,
            "step": self._step,
            "wait": self._wait,
            "status": self._status,
            "stop": self._stop,
        }
        bridge.listen(self._on_update)

    async def list_tools(self) -> tuple[Tool, ...]:
        """Return the tools."""
        return tuple(self._tools.values())

    async def close(self) -> None:
        """Wait until all transcripts are written."""
        for session in list(self._writing):
            await self._wait_transcript(session, within=None)

    async def call(self, call: ToolCall) -> ToolResult:
        """Perform a call; whatever is wrong with it is an answer."""
        try:
            tool = self._tools.get(call.name)
            if tool is None:
                told = f"there is no tool `{call.name[:_ABOUT]}`"
                raise DebateError(told, hint=f"there are {', '.join(self._tools)}", code="unknown_tool")
            given = cast("JsonObject", replace_surrogates_in_json(call.arguments))
            arguments = validate_arguments(tool, _normalize_arguments(call.name, given))
            return _to_tool_result(await self._deeds[call.name](arguments))
        except KakiteError as error:
            return _to_tool_result(results.build_error(error), code=error.code)
        except OSError as error:  # the disk, where debates are kept
            told = DebateError(f"it cannot be kept: {error}", hint="nothing was begun", code="io_failed")
            return _to_tool_result(results.build_error(told), code=told.code)

    async def _start(self, given: JsonObject) -> dict[str, object]:
        session = str(given.get("session", ""))
        named = {name: given[name] for name in ("mode", "rounds") if name in given}
        named |= {"code": await self._read_context(given), "review": "review" in given}
        terms = self._bridge.build_config(**{**self._terms, **named})
        reset = bool(given.get("reset"))
        rounds.begin(given["initial_prompt"], terms)  # what is refused takes nothing from what there is
        await self._make_room(session, reset=reset)
        with self._pause_on_cancel(session):
            await self._bridge.start(
                given["initial_prompt"],
                terms,
                session=session,
                verdict=given.get("verdict", ""),
                reset=reset,
            )
            return await self._wait_for_turn(session, self._hold)

    async def _read_context(self, given: JsonObject) -> CodeContext | None:
        """Return what the participants can read.

        Raises:
            DebateError: ``bad_files`` or ``files_too_large``.
        """
        if not given.keys() & {"repo", "diff", "files", "review"}:
            return None
        from kakite.debate.files import read_context, read_review_context

        folder = await asyncio.to_thread((self._roots[0] / given.get("repo", "")).resolve)
        if not any(folder.is_relative_to(root) for root in self._roots):
            allowed = ", ".join(map(str, self._roots))
            raise DebateError(
                f"`{folder}` is in none of: {allowed}",
                hint="name one of these folders, or one below them",
                code="bad_files",
            )
        patterns, base = given.get("files", ()), given.get("diff", "")
        if branch := given.get("review"):
            return await read_review_context(folder, branch, patterns, base)
        return await read_context(folder, patterns, base)

    async def _make_room(self, session: str, *, reset: bool) -> None:
        """Take up the debate of this session, if there is one, so that it is not put aside unseen."""
        put_aside = {"no_active_session", *(["kept_unreadable"] if reset else [])}
        try:
            await self._resume_stored(session)
            if reset:
                await self._bridge.stop(session=session)
        except KakiteError as error:
            if error.code not in put_aside:
                raise

    async def _step(self, given: JsonObject) -> dict[str, object]:
        session = str(given.get("session", ""))
        decision = results.parse_decision(given["decision"], self._sides)
        await self._resume_stored(session)
        with self._pause_on_cancel(session):
            await self._bridge.step(decision, session=session)
            return await self._wait_for_turn(session, self._hold)

    async def _wait(self, given: JsonObject) -> dict[str, object]:
        session = str(given.get("session", ""))
        await self._resume_stored(session)
        return await self._wait_for_turn(session, float(given.get("seconds", descriptions.DEFAULT_WAIT)))

    async def _status(self, given: JsonObject) -> dict[str, object]:
        session = str(given.get("session", ""))
        try:
            said = self._build_result(session, self._peek(session))
        except KakiteError as error:
            said = results.build_error(error)
        return {**said, "sessions": self._list_sessions()}

    async def _stop(self, given: JsonObject) -> dict[str, object]:
        session = str(given.get("session", ""))
        await self._resume_stored(session)
        debate = await self._bridge.stop(session=session)
        await self._wait_transcript(session)
        return self._build_result(session, debate)

    def _peek(self, session: str) -> Debate:
        """Return the session's debate without taking it up: another server may be at it."""
        if self._store is None or self._is_active(session):
            return self._bridge.get_debate(session=session)
        try:
            return self._store.load(session)
        except KakiteError as error:
            if error.code != "kept_unknown":
                raise
            return self._bridge.get_debate(session=session)  # which is refused

    def _is_active(self, session: str) -> bool:
        """Tell whether a debate is held here; once it was stopped, another server may begin its name anew."""
        debate = self._bridge.list_debates().get(session)
        return debate is not None and not debate.stopped

    async def _resume_stored(self, session: str) -> Debate:
        """Return the session's debate, taken up if it is only kept: nobody is set to work on it by that.

        Raises:
            KakiteError: ``no_active_session``, or what the store says.
        """
        if self._store is None or self._is_active(session):
            return self._bridge.get_debate(session=session)
        try:
            debate = self._store.claim(session)
        except KakiteError as error:
            if error.code != "kept_unknown":
                raise
            return self._bridge.get_debate(session=session)  # which is refused
        if debate.stopped and session in self._bridge.list_debates():
            self._store.release(session)
            return self._bridge.get_debate(session=session)
        try:
            return await self._bridge.resume(debate, session=session, idle=True)
        except KakiteError:
            self._store.release(session)
            raise
        finally:
            if debate.stopped:
                self._store.release(session)

    @contextmanager
    def _pause_on_cancel(self, session: str) -> Generator[None]:
        """End whoever is at work if the call that set them to work is cancelled: nobody waits for them."""
        try:
            yield
        except asyncio.CancelledError:
            self._bridge.pause(session=session)
            raise

    async def _wait_for_turn(self, session: str, seconds: float) -> dict[str, object]:
        """Wait until the turn is complete, so many seconds at most, and tell the client meanwhile."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        seconds = max(0.0, seconds)  # nan, which JSON may hold, is 0
        with self._report_progress(session) as tell:
            while True:
                left = began + seconds - loop.time()
                debate = await self._bridge.wait(max(0.0, min(_TICK, left)), session=session)
                if get_status(debate).status != "running" or left <= _TICK:
                    await self._wait_transcript(session)
                    return self._build_result(session, debate)
                tell(f"waiting for {', '.join(get_status(debate).waiting)}, {loop.time() - began:.0f} s")

    @contextmanager
    def _report_progress(self, session: str) -> Generator[Callable[[str], None]]:
        """Tell the client of this call what happens in the session, as long as the block lasts."""
        heard = current_call().on_progress
        counted = itertools.count(1)

        def tell(text: str) -> None:
            if heard:  # as it was in the call: whoever tells us is not in it
                heard(float(next(counted)), None, text)

        def on_update(happening: SessionUpdate) -> None:
            if happening.session == session and (news := _format_update(happening)):
                tell(news)

        stop = self._bridge.listen(on_update)
        try:
            yield tell
        finally:
            stop()

    def _build_result(self, session: str, debate: Debate) -> dict[str, object]:
        said = _cut(results.build_result(debate, session))
        if said["status"] == "running":
            said["hint"] = "call `wait` until status is no longer running"
        if why := self._unkept.get(session):
            said["warning"] = f"something that was answered could not be kept: {why}"
        if path := self._published.get(session):
            said["transcript"] = str(path)
        return said

    def _list_sessions(self) -> list[dict[str, object]]:
        kept = self._store.list_debates() if self._store else []
        names = {each.name for each in kept}
        ours = {
            name: debate
            for name, debate in self._bridge.list_debates().items()
            if self._is_active(name) or name not in names
        }
        listed = [_to_list_item(name, debate) for name, debate in ours.items()]
        for each in kept:
            if each.name not in ours:
                more = {"kept": True, "elsewhere": each.busy}
                if each.debate is None:
                    listed.append({"session": each.name, "status": "error", "about": "unreadable", **more})
                else:
                    listed.append({**_to_list_item(each.name, each.debate), **more})
        return listed

    def _on_update(self, happening: SessionUpdate) -> None:
        if happening.kind == "begun":
            self._published.pop(happening.session, None)
            self._unkept.pop(happening.session, None)
        elif happening.kind == "unkept":
            self._unkept[happening.session] = happening.text
        self._write(happening)

    def _write(self, happening: SessionUpdate) -> None:
        """Have the transcript written anew when a turn is complete, and at the end; one after the other."""
        if not self._publish or happening.kind not in {"waiting", "stopped"} or not happening.debate.asks:
            return
        publish, session, debate = self._publish, happening.session, happening.debate
        before = self._writing.get(session)

        async def write() -> None:
            if before:
                await asyncio.wait({before})
            try:
                path = await asyncio.to_thread(publish, session, debate)
            except Exception as error:  # noqa: BLE001 - whatever it is, it takes nothing from the debate
                log.warning("the transcript cannot be written: %s", error)
                return
            now = self._bridge.list_debates().get(session)
            if path and now and now.terms.seed == debate.terms.seed:  # no other debate has begun there
                self._published[session] = path

        # Nothing of the caller's context: the work outlives the call.
        self._writing[session] = asyncio.create_task(write(), context=contextvars.Context())

    async def _wait_transcript(self, session: str, *, within: float | None = _WRITING) -> None:
        if work := self._writing.get(session):
            await asyncio.wait({work}, timeout=within)


def _normalize_arguments(name: str, arguments: JsonObject) -> JsonObject:
    """Return the arguments with a decision that was written as text, or not into an object, as one."""
    if name != "step":
        return arguments
    given = dict(arguments)
    if "decision" not in given and isinstance(given.get("type"), str):
        given["decision"] = {key: given.pop(key) for key in ("type", "custom_text") if key in given}
    decision: Any = given.get("decision")
    if isinstance(decision, str):
        with suppress(ValueError, RecursionError):
            decision = json.loads(decision)
        given["decision"] = decision = {"type": decision} if isinstance(decision, str) else decision
    if isinstance(decision, dict):  # an optional field that is null is left out, as in arguments
        fields = cast("JsonObject", decision)
        given["decision"] = {key: value for key, value in fields.items() if value is not None}
    return given


def _to_tool_result(said: Mapping[str, object], code: str = "") -> ToolResult:
    text = json.dumps(replace_surrogates_in_json(said), ensure_ascii=False)
    return ToolResult(text=text, is_error=bool(code), code=code)


def _format_update(happening: SessionUpdate) -> str:
    """Return what a person who waits is told of that; nothing for most."""
    who, count = happening.side, happening.round
    match happening.kind:
        case "asked":
            return f"{who} is asked, round {count}"
        case "heard":
            return f"{who}: {happening.text[:_ABOUT]}"
        case "replied":
            reply = happening.debate.rounds[count - 1].replies.get(who)
            failed = reply is not None and reply.type == "failure"
            return f"{who} {'failed' if failed else 'answered'}, round {count}"
        case "unkept":
            return f"what {who} answered could not be kept: {happening.text[:_ABOUT]}"
        case _:
            return ""


def _to_list_item(name: str, debate: Debate) -> dict[str, object]:
    return {"session": name, "status": get_status(debate).status, "about": debate.prompt[:_ABOUT]}


def _cut(said: dict[str, object]) -> dict[str, object]:
    """Return the reply with texts of a length that clients pass on."""
    if "turn" in said:
        turn = cast("dict[str, str]", said["turn"])
        said["turn"] = {name: _shorten(text) for name, text in turn.items()}
    for failed in cast("list[dict[str, object]]", said.get("failures", [])):
        failed["partial"] = str(failed["partial"])[-_TAIL:]
    return said


def _shorten(text: str) -> str:
    if len(text) <= MAX_TEXT:
        return text
    half = MAX_TEXT // 2
    return f"{text[:half]}\n… {len(text) - MAX_TEXT} characters left out …\n{text[-half:]}"
