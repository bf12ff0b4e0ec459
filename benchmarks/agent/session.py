"""What a turn of a session costs beside the model and the sandboxed call, and what memory a session takes.

    python benchmarks/agent/session.py [--turns 200] [--files 20000] [--sandbox KIND] [--json FILE]

The session is `kakite chat -p --input jsonl`, a process of its own; the model is one on loopback, in this
process, that does what each message says: answers, views a file, edits one, or runs a command. *Own* is the
time from a message until its turn has ended, without the model's, the calls' and the checkpoint's.
*Processor* is what the session's process used meanwhile: look at it where the machine is busy. The memory is
also that of `kakite acp` and of `kakite chat --plain` at a terminal, with as many turns.
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import queue
import re
import select
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from figures import Figure, write

WITHIN = 120.0
KINDS = ("text", "view", "edit", "command")
NAMES = {
    "text": "an answer",
    "view": "a file viewed",
    "edit": "a file edited",
    "command": "a command run",
}
LATE = 10
"""Turns at the end, and at the beginning, that are compared."""
LINES = "".join(f"line {number} = {'x' * 30}\n" for number in range(50))


class Model(ThreadingHTTPServer):
    """A model on loopback that does what the last message says; keeps when it worked."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.spans = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        began = time.monotonic()
        answer = stream(decide(json.loads(body)["messages"]), len(body) // 4)
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {len(answer)}\r\n\r\n"
        ended = time.monotonic()
        self.wfile.write(head.encode() + answer)
        self.wfile.flush()
        self.server.spans.append((began, ended))

    def log_message(self, *words):
        """Say nothing."""


def decide(messages):
    """Return the delta that answers a conversation."""
    last = next(message for message in reversed(messages) if message["role"] == "user")
    said = last["content"] if isinstance(last["content"], str) else last["content"][-1]["text"]
    kind, number = re.findall(r"(\w+) (\d+)", said)[-1]
    if messages[-1]["role"] == "tool":
        return {"content": f"Number {number} is done."}
    editor = {"path": "a.txt"}
    match kind:
        case "view":
            name, arguments = "text_editor", {"command": "view", **editor}
        case "edit":
            old, new = f"line {int(number) % 50} =", f"line {int(number) % 50} = {number}"
            arguments = {"command": "str_replace", **editor, "old_str": old, "new_str": new + " ="}
            name = "text_editor"
        case "command":
            line = f"for n in $(seq 40); do echo 'a line of what a command prints' $n; done; echo {number}"
            name, arguments = "run_command", {"command": line}
        case _:
            return {"content": f"Number {number} is done. {'An answer of some words. ' * 8}"}
    call = {"name": name, "arguments": json.dumps(arguments)}
    return {"tool_calls": [{"index": 0, "id": f"c{number}", "type": "function", "function": call}]}


def stream(delta, tokens):
    """Return an answer as it comes over the wire, with what it claims to have read."""
    finish = "tool_calls" if "tool_calls" in delta else "stop"
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "scripted"}
    choices = [
        {"index": 0, "delta": {"role": "assistant", **delta}, "finish_reason": None},
        {"index": 0, "delta": {}, "finish_reason": finish},
    ]
    usage = {"prompt_tokens": tokens, "completion_tokens": 20, "total_tokens": tokens + 20}
    lines = [json.dumps({**head, "choices": [choice]}) for choice in choices]
    lines.append(json.dumps({**head, "choices": [], "usage": usage}))
    return "".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"]).encode()


def fill(project, files):
    """Make a repository with so many files."""
    for number in range(files):
        file = project / f"d{number // 100}" / f"f{number}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"file {number}\n", encoding="utf-8")
    (project / "a.txt").write_text(LINES, encoding="utf-8")
    person = ["-c", "user.name=B", "-c", "user.email=b@l"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        subprocess.run(["git", "-C", str(project), *person, *words], check=True)


def environment(home):
    path, language = os.environ["PATH"], "C.UTF-8"
    return {"PATH": path, "HOME": str(home), "LANG": language, "TERM": "xterm", "OPENAI_API_KEY": "sk-none"}


def words(model, sandbox):
    return ["--model", "openai:scripted", "--base-url", model.url, "--sandbox", sandbox, "--approve", "all"]


def processor(pid):
    """Return the seconds that a process has used, of all its threads."""
    used = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            used += int((thread / "schedstat").read_text(encoding="utf-8").split()[0])
        except (FileNotFoundError, ProcessLookupError):
            continue
    return used / 1e9


def memory(pid):
    """Return the resident memory of a process, and its share of what others have as well, in MB."""
    told = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8")
    found = dict(re.findall(r"^(Rss|Pss):\s+(\d+) kB$", told, re.M))
    return int(found["Rss"]) / 1024, int(found["Pss"]) / 1024


@dataclass
class Turn:
    """One turn, in seconds."""

    kind: str
    whole: float
    checkpoint: float
    model: float
    call: float
    client: float
    """From a request until the model has it, and from its answer until that is taken in: part of the own."""
    processor: float

    @property
    def own(self):
        return self.whole - self.checkpoint - self.model - self.call


@dataclass
class Lines:
    """The lines that a process prints, each with the time of its arrival."""

    process: subprocess.Popen
    lines: queue.Queue = field(default_factory=queue.Queue)

    def __post_init__(self):
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put((time.monotonic(), json.loads(line)))
        self.lines.put((time.monotonic(), None))

    def send(self, value):
        self.process.stdin.write(json.dumps(value).encode() + b"\n")
        self.process.stdin.flush()
        return time.monotonic()

    def until(self, wanted):
        """Return the lines up to one that is wanted."""
        seen = []
        while not seen or not wanted(seen[-1][1]):
            seen.append(self.lines.get(timeout=WITHIN))
            if seen[-1][1] is None:
                raise SystemExit(f"the session ended: {seen[-3:]}")
        return seen


@contextmanager
def started(argv, project, home):
    process = subprocess.Popen(
        [sys.executable, "-m", "kakite", *argv],
        cwd=project,
        env=environment(home),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.stdin:
            process.stdin.close()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()


def one_turn(session, model, kind, number):
    model.spans.clear()
    before = processor(session.process.pid)
    sent = session.send({"type": "prompt", "text": f"{kind} {number}"})
    seen = session.until(lambda line: line["type"] == "result" and "reason" in line)
    used = processor(session.process.pid) - before
    at = {}
    for when, line in seen:
        at.setdefault(line["type"], []).append((when, line))
    ended = seen[-1][0]
    spans = list(model.spans)
    asked = [when for when, _ in at["request"]]
    replied = [when for when, _ in at["reply"]]
    client = sum(span[0] - when for when, span in zip(asked, spans, strict=True))
    client += sum(when - span[1] for when, span in zip(replied, spans, strict=True))
    calls = [line["seconds"] for _, line in at["result"] if "seconds" in line]
    return Turn(
        kind=kind,
        whole=ended - sent,
        checkpoint=at["turn_started"][0][0] - sent,
        model=sum(end - begin for begin, end in spans),
        call=sum(calls),
        client=client,
        processor=used,
    )


def drive_lines(model, project, home, sandbox, turns, kinds=KINDS):
    """Return the turns of a session, and the memory at its beginning and at its end."""
    argv = ["chat", "-p", "--input", "jsonl", "--output", "jsonl", *words(model, sandbox)]
    with started(argv, project, home) as process:
        session = Lines(process)
        done, sizes = [], []
        for number in range(turns):
            done.append(one_turn(session, model, kinds[number % len(kinds)], number))
            if number in {LATE - 1, turns - 1}:
                sizes.append(memory(process.pid))
    return done, sizes


def drive_editor(model, project, home, sandbox, turns):
    """Return the memory of `kakite acp` at the beginning and at the end, and the seconds to its start."""
    (project / "a.txt").write_text(LINES, encoding="utf-8")
    began = time.monotonic()
    with started(["acp", *words(model, sandbox)], project, home) as process:
        session = Lines(process)

        def ask(method, **params):
            session.send({"jsonrpc": "2.0", "id": method, "method": method, "params": params})
            return session.until(lambda line: line.get("id") == method)[-1][1]["result"]

        ask("initialize", protocolVersion=1)
        first = time.monotonic() - began
        name = ask("session/new", cwd=str(project), mcpServers=[])["sessionId"]
        sizes = []
        for number in range(turns):
            blocks = [{"type": "text", "text": f"{KINDS[number % len(KINDS)]} {number}"}]
            ask("session/prompt", sessionId=name, prompt=blocks)
            if number in {LATE - 1, turns - 1}:
                sizes.append(memory(process.pid))
    return sizes, first


def drive_terminal(model, project, home, sandbox, turns):
    """Return the memory of `kakite chat --plain` at a terminal, at the beginning and at the end."""
    (project / "a.txt").write_text(LINES, encoding="utf-8")
    screen, inner = pty.openpty()
    argv = [sys.executable, "-m", "kakite", "chat", "--plain", *words(model, sandbox)]
    process = subprocess.Popen(
        argv, cwd=project, env=environment(home), stdin=inner, stdout=inner, stderr=inner
    )
    os.close(inner)
    sizes = []
    try:
        for number in range(turns):
            kind = KINDS[number % len(KINDS)]
            os.write(screen, f"{kind} {number}\n".encode())
            _await(screen, f"Number {number} is done.".encode())
            if number in {LATE - 1, turns - 1}:
                sizes.append(memory(process.pid))
    finally:
        process.kill()
        process.wait()
        os.close(screen)
    return sizes


def _await(screen, text):
    """Read until a text has appeared."""
    seen, until = b"", time.monotonic() + WITHIN
    while text not in seen:
        if time.monotonic() > until or not select.select([screen], [], [], WITHIN)[0]:
            raise SystemExit(f"{text!r} did not appear: {seen[-500:]!r}")
        seen += os.read(screen, 65536)


def middle(turns, what):
    return statistics.median(getattr(turn, what) for turn in turns) * 1000


def figures_of(turns):
    """Return what the kinds of turns take, and how the last ones compare with the first."""
    for kind in KINDS:
        mine = [turn for turn in turns[1:] if turn.kind == kind]
        if not mine:
            continue
        for what in ("own", "client", "processor", "call", "whole"):
            name = "of it the model's client" if what == "client" else what
            if (kind, what) == ("text", "call"):
                continue
            yield Figure("a turn", NAMES[kind], name, middle(mine, what), "ms")
        late, early = middle(mine[-LATE:], "processor"), middle(mine[:LATE], "processor")
        yield Figure(
            "a turn", NAMES[kind], "processor, the last ten", late, "ms", "the first ten", late / early
        )


def measure(model, home, chosen, project):
    """Return all figures."""
    turns, sizes = drive_lines(model, project, home, chosen.sandbox, chosen.turns)
    yield from figures_of(turns)
    yield Figure("checkpoint", "20 files", "time", middle(turns[1:], "checkpoint"), "ms")
    if chosen.files:
        large = project.parent / "large"
        large.mkdir()
        fill(large, chosen.files)
        found, _ = drive_lines(model, large, home, chosen.sandbox, 20, ("text", "edit"))
        yield Figure("checkpoint", f"{chosen.files} files", "time", middle(found[1:], "checkpoint"), "ms")
    editor, first = drive_editor(model, project, home, chosen.sandbox, chosen.turns)
    yield Figure("start", "kakite acp", "initialize", first * 1000, "ms")
    terminal = drive_terminal(model, project, home, chosen.sandbox, chosen.turns)
    for of, found in (("chat -p", sizes), ("acp", editor), ("chat --plain", terminal)):
        for name, at in ((f"{LATE} turns", 0), (f"{chosen.turns} turns", -1)):
            yield Figure("memory", f"kakite {of}", f"resident, {name}", found[at][0], "MB")
        yield Figure("memory", f"kakite {of}", f"its share (PSS), {chosen.turns} turns", found[-1][1], "MB")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--files", type=int, default=20_000, help="of the large repository; 0: none")
    parser.add_argument("--sandbox", default="bubblewrap")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    chosen = parser.parse_args()
    figures = []
    with tempfile.TemporaryDirectory() as name:
        home, project = Path(name) / "home", Path(name) / "project"
        home.mkdir()
        project.mkdir()
        fill(project, 20)
        for one in measure(Model(), home, chosen, project):
            ratio = "" if one.ratio is None else f" ({one.ratio:.2f} × {one.baseline})"
            print(f"{one.table:11} {one.of:15} {one.name:28} {one.value:8.1f} {one.unit}{ratio}", flush=True)
            figures.append(one)
    if chosen.json:
        write(chosen.json, figures, turns=chosen.turns, sandbox=chosen.sandbox)


if __name__ == "__main__":
    main()
