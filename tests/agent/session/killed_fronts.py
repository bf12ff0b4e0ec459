"""Sessions behind a front that is killed: a model that works by what it is told, and what was shown of it."""

from __future__ import annotations

import errno
import json
import os
import re
import select
import termios
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from kakite.agent.run.prompt import load_prompt
from kakite.agent.run.state import RunState
from kakite.agent.run.store import RunFolder
from kakite.models.messages import Reply, ToolMessage, UserMessage
from kakite.tools.toolset import ToolCall
from tests.bounds import WITHIN
from tests.cli.program import environment
from tests.forking import start_kakite

CALLS = 3
"""Of one turn: a command, an edit, a command, each with a word that no other call has."""
NOTE = load_prompt("turn_crashed").strip()
NOT_PERFORMED = load_prompt("not_performed")
UNKNOWN = load_prompt("interrupted")


class BusyModel(ThreadingHTTPServer):
    """A model on loopback. ``go N`` lets it call tools, ``look N`` sub-agents; then it answers ``done N``.

    It goes by the conversation alone, so whoever goes on with a session needs no more of it.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self._lock = threading.Lock()
        self._count = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: whoever asked is dead."""

    def decide(self, messages: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Return the delta that answers a conversation."""
        asked = [at for at, message in enumerate(messages) if _find_order(message)]
        if not asked:  # for a summary
            return {"content": "All went well."}
        order, number = _find_order(messages[asked[-1]]).groups()
        done = sum(message["role"] == "tool" for message in messages[asked[-1] :])
        if order == "sub":
            view = {"command": "view", "path": "edits.txt"}
            return {"content": "seen"} if done else self._call("text_editor", view)
        if done >= (1 if order == "look" else CALLS):
            return {"content": f"done {number}"}
        if order == "look":
            tasks = [{"description": f"part {part}", "prompt": f"sub {part}"} for part in (1, 2)]
            return self._call("task", {"tasks": tasks})
        return self._work(done)

    def _work(self, done: int) -> dict[str, Any]:
        with self._lock:
            self._count += 1
            word = f"w{self._count}"
        if done == 1:
            edit = {"command": "insert", "path": "edits.txt", "insert_line": 0, "insert_text": f"{word}\n"}
            return self._call("text_editor", edit, word)
        return self._call("run_command", {"command": f"echo {word} >> log"}, word)

    def _call(self, name: str, arguments: dict[str, Any], word: str = "") -> dict[str, Any]:
        with self._lock:
            self._count += 1
            word = word or f"n{self._count}"
        call = {"name": name, "arguments": json.dumps(arguments)}
        return {"tool_calls": [{"index": 0, "id": word, "type": "function", "function": call}]}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert isinstance(self.server, BusyModel)
        delta = self.server.decide(body["messages"])
        finish = "tool_calls" if "tool_calls" in delta else "stop"
        answer = _stream(delta, finish) if body.get("stream") else _whole(delta, finish)
        kind = "text/event-stream" if body.get("stream") else "application/json"
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_words: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Say nothing."""


def _stream(delta: dict[str, Any], finish: str) -> bytes:
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "busy"}
    choices: list[dict[str, Any]] = [
        {"index": 0, "delta": {"role": "assistant", **delta}, "finish_reason": None},
        {"index": 0, "delta": {}, "finish_reason": finish},
    ]
    lines = [json.dumps({**head, "choices": [choice]}) for choice in choices]
    return "".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"]).encode()


def _whole(delta: dict[str, Any], finish: str) -> bytes:
    head = {"id": "c", "object": "chat.completion", "created": 1, "model": "busy"}
    message = {"role": "assistant", "content": None, **delta}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return json.dumps({**head, "choices": [choice]}).encode()


def _find_order(message: dict[str, Any]) -> Any:
    """Return what a message of the person, or of a session to its sub-agent, orders; None for nothing."""
    if message["role"] != "user":
        return None
    content = message["content"]
    told = content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)
    return next(reversed(list(re.finditer(r"^(go|look|sub) (\d+)$", told, re.M))), None)


@contextmanager
def busy_model() -> Generator[BusyModel]:
    """Run one."""
    with BusyModel() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(WITHIN)


@dataclass
class Shown:
    """What a front has shown before it died: nothing of it may be gone, or become something else."""

    results: dict[str, bool] = field(default_factory=dict[str, bool])
    """Calls with a result, and whether it was none of a failure."""
    answered: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Messages, and their answers."""


@dataclass
class Death:
    """When a front is killed: after so many lines, and so long after that."""

    lines: int
    delay: float


@dataclass(kw_only=True)
class Place:
    """The person of a test, their project, and the model that they talk to."""

    home: Path
    project: Path
    model: BusyModel

    @classmethod
    def make(cls, folder: Path, model: BusyModel) -> Place:
        place = cls(home=folder / "person", project=folder / "project", model=model)
        place.home.mkdir(parents=True)
        place.project.mkdir()
        (place.project / "edits.txt").write_text("first\n", encoding="utf-8")
        return place

    def words(self) -> list[str]:
        server = ["--model", "openai:busy", "--base-url", self.model.url]
        return [*server, "--sandbox", "local", "--approve", "all"]

    def environment(self) -> dict[str, str]:
        return environment(self.home, OPENAI_API_KEY="sk-none", XDG_STATE_HOME=str(self.home / "state"))

    @property
    def record(self) -> RunFolder:
        """The session; there is one."""
        (file,) = (self.home / "state").glob("*/runs/*/run.json")
        return RunFolder(file.parent)

    def has_session(self) -> bool:
        return any((self.home / "state").glob("*/runs/*/run.json"))

    def read_words(self) -> list[str]:
        """Return the words of all calls that had an effect, as often as they had it."""
        files = (self.project / name for name in ("log", "edits.txt"))
        return [word for file in files if file.exists() for word in _lines(file) if word != "first"]


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").split()


class Front:
    """A front of sessions in a process of its own, of which lines come."""

    def __init__(self, place: Place, words: Sequence[str], *, at_terminal: bool = False) -> None:
        self.place = place
        self.shown = Shown()
        self._in, self._out, self._held, streams = (_open_terminal if at_terminal else _open_pipes)(
            place.home
        )
        self.process = start_kakite(
            [*words, *place.words()], place.environment(), place.project, (*streams, place.home / "err")
        )
        self._rest = b""
        self._count = 0
        self._death: Death | None = None
        self._dies_at: float | None = None

    def send(self, line: str) -> None:
        os.write(self._in, line.encode() + b"\n")

    def arm(self, death: Death | None) -> None:
        """Let it be killed then, counted from now on."""
        self._death, self._count = death, 0

    def read(self) -> Iterator[str]:
        """Yield what it says until it ends; kill it when its time has come."""
        while (line := self._read_line()) is not None:
            yield line.decode()
            self._count += 1
            if self._death and self._count == self._death.lines:
                self._dies_at = time.monotonic() + self._death.delay

    def _read_line(self) -> bytes | None:
        until = time.monotonic() + WITHIN
        while b"\n" not in self._rest:
            dies_at, now = self._dies_at, time.monotonic()
            assert now < until, "nothing more came"
            wait = (until if dies_at is None else min(dies_at, until)) - now
            if select.select([self._out], [], [], max(0.0, wait))[0]:
                if not (data := _read_some(self._out)):
                    return None
                self._rest += data
            elif dies_at is not None:
                self.kill()
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def kill(self) -> None:
        """Kill it. What it has said before is still read."""
        self._dies_at = None
        self.process.kill()
        self.process.join(WITHIN)
        assert self.process.exitcode is not None
        if self._held is not None:
            os.close(self._held)
            self._held = None

    def end(self) -> None:
        """Let it end, if it has not."""
        self.kill()
        for number in {self._in, self._out}:
            os.close(number)


_Streams = tuple[int, int, int | None, tuple[Path, Path]]
"""What we write to and read from, what is held open until the program is dead, and the paths it opens."""


def _open_pipes(folder: Path) -> _Streams:
    given, said = folder / "in", folder / "out"
    for pipe in (given, said):
        pipe.unlink(missing_ok=True)
        os.mkfifo(pipe)
    # Never without a reader: it may die at any time.
    return os.open(given, os.O_RDWR), os.open(said, os.O_RDONLY | os.O_NONBLOCK), None, (given, said)


def _open_terminal(_folder: Path) -> _Streams:
    ours, theirs = os.openpty()
    path = Path(os.ttyname(theirs))
    settings = termios.tcgetattr(theirs)
    settings[3] &= ~termios.ECHO
    settings[1] &= ~termios.ONLCR
    termios.tcsetattr(theirs, termios.TCSANOW, settings)
    return ours, ours, theirs, (path, path)


def _read_some(number: int) -> bytes:
    """Return what can be read; nothing where no one will write any more."""
    try:
        return os.read(number, 1 << 16)
    except OSError as error:
        if error.errno != errno.EIO:  # of a terminal that nobody has open
            raise
        return b""


def check_after_death(place: Place, shown: Shown) -> None:
    """What was shown is stored as it was shown."""
    if not place.has_session():
        assert not shown.results
        return
    run = place.record.load()
    results = {each.call_id: each for each in _list_results(run)}
    for file in (place.record.folder / "subagents").glob("*/run.json"):
        found = _list_results(RunFolder(file.parent).load())
        results |= {f"{file.parent.name}/{each.call_id}": each for each in found}
    for call, ok in shown.results.items():
        assert call in results, f"the result of {call} was shown, and is gone"
        assert results[call].is_error is not ok, f"{call} was shown as {ok}: {results[call].text}"
    for message, answer in shown.answered:
        assert _is_answered(run, message, answer), f"`{message}` was answered, and that is gone"


def _list_results(run: RunState) -> list[ToolMessage]:
    return [message for message in run.messages if isinstance(message, ToolMessage)]


def _is_answered(run: RunState, message: str, answer: str) -> bool:
    texts = [
        each.text
        for each in run.messages
        if isinstance(each, Reply) or (isinstance(each, UserMessage) and each.from_person)
    ]
    return message in texts and answer in texts[texts.index(message) :]


def check_session(place: Place, shown: Shown, cut: int) -> None:
    """Check that each call has one result that is true, and that the model was told of each turn cut off."""
    run = place.record.load()
    assert run.phase == "idle"
    calls = {
        call.id: call
        for message in run.messages
        if isinstance(message, Reply)
        for call in message.calls
        if isinstance(call, ToolCall)
    }
    results = _list_results(run)
    assert sorted(calls) == sorted(result.call_id for result in results)
    done = place.read_words()
    assert len(done) == len(set(done)), f"done twice: {done}"
    for result in results:
        if calls[result.call_id].name == "task":
            continue
        if not result.is_error:
            assert result.call_id in done, f"{result.call_id} was told as done, and is not"
        elif result.text == NOT_PERFORMED:
            assert result.call_id not in done, f"{result.call_id} was told as not performed, and is done"
        else:
            assert result.text == UNKNOWN
    assert set(done) <= set(calls)
    told = sum(message.text.count(NOTE) for message in run.messages if isinstance(message, UserMessage))
    assert told == cut, f"{cut} turns were cut off, and {told} were told of"
    check_after_death(place, shown)
