"""How many input tokens the same scripted task costs in Kakite and in mini-swe-agent.

    python benchmarks/agent/tokens.py [--mini PYTHON] [--json FILE] [--keep FOLDER]

A model on loopback asks for eight calls that mend a bug in a small project: list, search, read, test, read,
edit, test, diff. Both agents are their command lines with their own settings, and get the same commands;
Kakite also does it once with its editor in place of `cat` and `sed`. Each request is counted in the same way
with OpenAI's `o200k_base`: the texts, the calls, and the tools as JSON. With `--mini` PYTHON must have
mini-swe-agent (`benchmarks/drift/engines.py mini`). Exits with 1 where a request does not begin with all
that the one before had: then no provider could keep it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from figures import Figure, write

from kakite.models.tokens import count_tokens

WITHIN = 60.0
MINI = Path(__file__).with_name("mini_tokens.py")
TASK = (
    "The tests of `jsonlib` fail: strings lose what stands after an escaped slash. Find out why and mend it."
)
PLAN = {
    "goal": "Strings keep what stands after an escaped slash",
    "steps": ["find the escapes in the decoder", "mend the one that is wrong", "run the tests"],
    "title": "Read an escaped slash as a slash",
    "check": "python3 -m unittest -q test_jsonlib",
}
RIGHT, WRONG = "'/': '/',", "'/': '/\\\\',"
TESTS = '''"""Tests of jsonlib."""

import unittest

import jsonlib

WORDS = ["plain", "a/b", "tab\\tbed", "quo\\"te", "back\\\\slash", "語"]


class Strings(unittest.TestCase):
    """Each word comes back as it was, with the slash escaped as some writers do."""


def _add(number, word):
    def test(self):
        text = jsonlib.dumps({"word": [word] * number}).replace("/", "\\\\/")
        self.assertEqual(jsonlib.loads(text), {"word": [word] * number})

    setattr(Strings, f"test_{number:02}_{WORDS.index(word)}", test)


for number in range(1, 26):
    for word in WORDS:
        _add(number, word)

if __name__ == "__main__":
    unittest.main()
'''
READ = "cat jsonlib/decoder.py"
EDIT = f'sed -i "s|{WRONG.replace(chr(92), chr(92) * 4)}|{RIGHT}|" jsonlib/decoder.py'
COMMANDS = (
    "ls -la . jsonlib && git log --oneline | head",
    "grep -rn \"'/'\\|BACKSLASH\\|scanstring\" --include=*.py .",
    READ,
    "python3 -m unittest -v test_jsonlib",
    "cat test_jsonlib.py",
    EDIT,
    "python3 -m unittest -v test_jsonlib 2>&1 | tail -20",
    "git diff",
)
DONE = "The decoder turned an escaped slash into a slash and a backslash. It is mended, and all tests pass."


def make_project(folder):
    """Write a small project with a bug: the standard library's JSON package under another name."""
    source = Path(json.__file__).parent
    (folder / "jsonlib").mkdir(parents=True)
    for name in ("__init__.py", "decoder.py", "encoder.py", "scanner.py"):
        text = (source / name).read_text(encoding="utf-8")
        # Without the parts in C, which would read strings right.
        for module in ("_json",):
            text = text.replace(f"from {module} import", "from no_such_module import")
        (folder / "jsonlib" / name).write_text(text.replace("from json", "from jsonlib"), encoding="utf-8")
    decoder = folder / "jsonlib" / "decoder.py"
    text = decoder.read_text(encoding="utf-8")
    assert text.count(RIGHT) == 1
    decoder.write_text(text.replace(RIGHT, WRONG), encoding="utf-8")
    (folder / "test_jsonlib.py").write_text(TESTS, encoding="utf-8")
    (folder / ".gitignore").write_text("__pycache__/\n", encoding="utf-8")
    git = ["git", "-C", str(folder), "-c", "user.name=B", "-c", "user.email=b@localhost"]
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "Begin"]):
        subprocess.run([*git, *words], check=True)


def run_command(line):
    return "run_command", {"command": line}


def kakite_calls():
    return [run_command(line) for line in COMMANDS]


def editor_calls():
    """Return the calls with Kakite's editor where it has a command for it."""
    calls = kakite_calls()
    calls[2] = "text_editor", {"command": "view", "path": "jsonlib/decoder.py"}
    calls[4] = "text_editor", {"command": "view", "path": "test_jsonlib.py"}
    edit = {"command": "str_replace", "path": "jsonlib/decoder.py", "old_str": WRONG, "new_str": RIGHT}
    calls[5] = "text_editor", edit
    return calls


def mini_calls():
    submit = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
    return [("bash", {"command": line}) for line in (*COMMANDS, submit)]


class Model(ThreadingHTTPServer):
    """A model on loopback that gives one call after the other, and keeps each request."""

    daemon_threads = True

    def __init__(self, calls, *, plan):
        super().__init__(("127.0.0.1", 0), Handler)
        self.replies = [
            {"calls": [call], "text": f"I go on with step {n}."} for n, call in enumerate(calls, 1)
        ]
        if plan:
            self.replies[0]["text"] = json.dumps(PLAN)
            self.replies.append({"calls": [], "text": DONE})
        self.requests = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    """Speaks the chat completions of OpenAI, streamed where that is asked for."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        number = len(self.server.requests)
        self.server.requests.append(asked)
        reply = self.server.replies[min(number, len(self.server.replies) - 1)]
        calls = [
            {
                "index": at,
                "id": f"call_{number}_{at}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for at, (name, arguments) in enumerate(reply["calls"])
        ]
        said = {"role": "assistant", "content": reply["text"], **({"tool_calls": calls} if calls else {})}
        finish = "tool_calls" if calls else "stop"
        head = {"id": f"r{number}", "created": 0, "model": "scripted"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        if asked.get("stream"):
            parts = [
                {"choices": [{"index": 0, "delta": said, "finish_reason": None}]},
                {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}], "usage": usage},
            ]
            lines = [json.dumps({**head, "object": "chat.completion.chunk", **part}) for part in parts]
            body, kind = "".join(f"data: {line}\n\n" for line in (*lines, "[DONE]")), "text/event-stream"
        else:
            choice = {"index": 0, "message": said, "finish_reason": finish}
            body = json.dumps({**head, "object": "chat.completion", "choices": [choice], "usage": usage})
            kind = "application/json"
        data = body.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_words):
        """Say nothing."""


@contextmanager
def folder():
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        make_project(place / "project")
        (place / "home").mkdir()
        yield place


def environment(place):
    """Return an environment without anything of this machine's."""
    kept = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": str(place / "home"), "TERM": "dumb"}
    return {**kept, "OPENAI_API_KEY": "none", "NO_COLOR": "1"}


def run_kakite(calls):
    """Return the requests of one run, once the bug is mended."""
    with folder() as place:
        model = Model(calls, plan=True)
        words = ["agent", "run", TASK, "--repo", "project", "--model", "openai:scripted", "--json"]
        words += ["--base-url", model.url, "--sandbox", "local", "--approve", "all", "--setup", "off"]
        done = execute([sys.executable, "-m", "kakite", *words], place, environment(place))
        told = json.loads(done.stdout)
        if told["status"] != "done" or told["checked"] is not True:
            raise SystemExit(f"the run ended with {told['status']}:\n{done.stderr}")
        model.shutdown()
        return model.requests


def run_mini(python):
    with folder() as place:
        model = Model(mini_calls(), plan=False)
        words = [Path(python).absolute(), MINI, model.url, TASK]
        execute(words, place / "project", environment(place))
        diff = ["git", "-C", str(place / "project"), "diff", "--stat"]
        if not subprocess.run(diff, check=True, stdout=subprocess.PIPE).stdout:
            raise SystemExit("mini-swe-agent has changed nothing")
        model.shutdown()
        return model.requests


def execute(argv, place, env):
    done = subprocess.run(
        argv, cwd=place, env=env, capture_output=True, timeout=WITHIN, encoding="utf-8", check=False
    )
    if done.returncode:
        raise SystemExit(
            f"{argv[0]} ended with {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
        )
    return done


def texts(message):
    """Yield what a model reads of a message."""
    content = message.get("content") or ""
    yield from [content] if isinstance(content, str) else [part.get("text", "") for part in content]
    for call in message.get("tool_calls") or ():
        yield f"{call['function']['name']} {call['function']['arguments']}"


def count_messages(messages):
    return sum(4 + sum(map(count_tokens, texts(message))) for message in messages)


def count_tools(request):
    return count_tokens(json.dumps(request.get("tools") or [], ensure_ascii=False))


def is_prefix_stable(requests):
    """Return whether each request begins with all that the one before had."""
    pairs = itertools.pairwise(requests)
    return all(
        json.dumps(after["messages"][: len(before["messages"])]) == json.dumps(before["messages"])
        and after.get("tools") == before.get("tools")
        for before, after in pairs
    )


def measure(requests):
    """Return the figures of one agent, in tokens."""
    each = [count_messages(request["messages"]) + count_tools(request) for request in requests]
    return {
        "input tokens": sum(each),
        "requests": len(requests),
        "first request": each[0],
        "tools": count_tools(requests[0]),
        "last request": each[-1],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mini", metavar="PYTHON", help="an interpreter that has mini-swe-agent")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--keep", type=Path, help="write the requests into this folder")
    chosen = parser.parse_args()
    runs = {"kakite, commands": run_kakite(kakite_calls()), "kakite, editor": run_kakite(editor_calls())}
    if chosen.mini:
        runs["mini-swe-agent"] = run_mini(chosen.mini)
    else:
        print("mini-swe-agent is left out: no --mini PYTHON")
    found = {name: measure(requests) for name, requests in runs.items()}
    other = found.get("mini-swe-agent")
    figures = []
    for name, values in found.items():
        beside = other is not None and name != "mini-swe-agent"
        ratio = values["input tokens"] / other["input tokens"] if beside else None
        print(f"  {name:18}", ", ".join(f"{what} {value:,}" for what, value in values.items()), end="")
        print(f"; {ratio:.2f} of mini-swe-agent" if ratio else "")
        for what, value in values.items():
            baseline = ("mini-swe-agent", ratio) if ratio and what == "input tokens" else ("", None)
            figures.append(Figure("tokens", name, what, value, "", *baseline))
    if chosen.keep:
        for name, requests in runs.items():
            keep(chosen.keep / name.replace(", ", "-"), requests)
    if chosen.json:
        write(chosen.json, figures)
    unstable = [name for name, requests in runs.items() if not is_prefix_stable(requests)]
    if unstable:
        raise SystemExit(f"the beginning of a request changed: {', '.join(unstable)}")


def keep(place, requests):
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    for number, request in enumerate(requests):
        text = json.dumps(request, indent=1, ensure_ascii=False)
        (place / f"{number:02}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
