"""A program that answers, or fails, like a coding CLI: ``python stub.py FORM KIND``.

FORM is whose output it has: ``codex``, ``claude`` or ``text``; KIND what it does. It reads the question from
its standard input. Standard library only, and started by its path: nothing of Kakite is loaded.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable

FENCE = "```"


def main(form: str, kind: str) -> int:
    """Do it, and return the exit code."""
    if kind in BEHAVIOURS:
        return BEHAVIOURS[kind](form)
    if kind in VERDICTS:
        return say(form, build_answer(sys.stdin.read(), VERDICTS[kind]))
    stdout, stderr, code = get_failure_output(form, kind)
    sys.stdin.read()
    write_output(stdout)
    sys.stderr.write(stderr)
    return code


def build_answer(prompt: str, opinion: str) -> str:
    """Return an answer with its block, and with a verdict for each letter that is asked for."""
    letters = re.search(r"each of the letters ((?:[A-H], )*[A-H])", prompt)
    block: dict[str, object] = {"claim": "It depends.", "confidence": 70, "key_points": ["on what you have"]}
    if letters:
        issues = [] if opinion == "accept" else ["It names no price."]
        judged = {"verdict": opinion, "issues": issues, "strongest": "It is short."}
        block |= {"verdicts": dict.fromkeys(letters[1].split(", "), judged), "position": "new"}
    return f"It depends.\n\n{FENCE}json\n{json.dumps(block)}\n{FENCE}\n"


def say(form: str, text: str) -> int:
    """Print an answer in a CLI's own form."""
    usage = {"input_tokens": 90, "output_tokens": 10}
    if form == "codex":
        write_json_line(type="thread.started", thread_id="t1")
        write_json_line(type="item.completed", item={"type": "error", "message": "unknown model metadata"})
        write_json_line(type="turn.started")
        write_json_line(type="item.started", item={"type": "agent_message"})
        write_json_line(type="item.completed", item={"type": "agent_message", "text": text})
        write_json_line(type="turn.completed", usage=usage)
    elif form == "claude":
        write_json_line(
            is_error=False, subtype="success", result=text, usage=usage, total_cost_usd=0.01, type="result"
        )
    else:
        write_output(text)
    return 0


def get_failure_output(form: str, kind: str) -> tuple[str, str, int]:
    """Return what is printed, what to standard error, and the exit code."""
    message, code = FAILURE_OUTPUTS[kind]
    if kind in {"bad_command", "exits", "missing_key"}:  # told before there is any form
        return "", f"{message}\n", code
    if form == "codex":
        events: list[object] = [{"type": "thread.started"}, {"type": "turn.started"}]
        if kind == "empty":
            events += [{"type": "turn.completed", "usage": {}}]
        else:
            events += [{"type": "error", "message": message}]
            events += [{"type": "turn.failed", "error": {"message": message}}]
        return "".join(json.dumps(each) + "\n" for each in events), "", code
    if form == "claude":
        failed = {"subtype": "success", "is_error": kind != "empty", "result": message}
        return json.dumps(failed) + "\n", "", code
    return ("", f"{message}\n", code) if kind != "empty" else (" \n", "", 0)


FAILURE_OUTPUTS = {
    "empty": ("", 0),
    "exits": ("something went wrong", 1),
    "bad_command": ("error: unexpected argument '--json' found", 2),
    "missing_key": ("Missing environment variable: `SOME_KEY`.", 1),
    "not_logged_in": ("Not logged in · Please run /login", 1),
    "http_401": ("unexpected status 401 Unauthorized: no", 1),
    "http_500": ("unexpected status 500 Internal Server Error: no", 1),
    "http_529": ('API Error: 529 {"type":"error","error":{"type":"overloaded_error"}}', 1),
    "rate_limited": ("exceeded retry limit, last status: 429 Too Many Requests", 1),
    "stream_cut": ("stream disconnected before completion: stream closed before response.completed", 1),
}


def print_half(form: str) -> int:
    """Break off in the middle of the output."""
    sys.stdin.read()
    write_output(
        '{"type":"thread.started"}\n{"type":"item.comp' if form == "codex" else '{"is_error": false, "res'
    )
    return 0


def print_large(form: str) -> int:
    """Print five megabytes."""
    sys.stdin.read()
    return say(form, "word " * (1024 * 1024))


def hang(form: str) -> int:  # noqa: ARG001 - as all
    """Read the question, and never answer."""
    sys.stdin.read()
    sleep_forever()
    return 0


def begin_and_hang(form: str) -> int:
    """Show life once, then none."""
    write_json_line(type="turn.started") if form == "codex" else write_output("I think …\n")
    return hang(form)


def never_read(form: str) -> int:
    """Leave the question unread, and answer."""
    return say(form, "I did not read it.")


def resist(form: str) -> int:
    """Hang, and let no polite signal end it."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    return hang(form)


def spawn_orphan(form: str) -> int:
    """Answer, and leave behind a grandchild in a session of its own that resists."""
    words = [sys.executable, "-I", "-S", __file__, form, "resists"]
    if os.fork() == 0:
        os.setsid()
        subprocess.Popen(words, stdin=subprocess.PIPE)
        os._exit(0)
    return say(form, build_answer(sys.stdin.read(), "accept"))


def spawn_orphan_and_hang(form: str) -> int:
    """Hang together with such a grandchild, like a wrapper around the real program."""
    spawn_orphan(form)
    sleep_forever()
    return 0


def ask_on_terminal(form: str) -> int:  # noqa: ARG001 - as all
    """Ask for a login on the terminal."""
    try:
        with open("/dev/tty", encoding="utf-8") as terminal:  # noqa: PTH123 - no path of ours
            terminal.readline()
    except OSError as error:
        sys.stderr.write(f"cannot ask on /dev/tty: {error.strerror}\n")
    return 1


def die(form: str) -> int:
    """Be killed in the middle, as for lack of memory."""
    write_json_line(type="turn.started") if form == "codex" else None
    os.kill(os.getpid(), signal.SIGKILL)
    return 0


def print_garbage(form: str) -> int:  # noqa: ARG001 - as all
    """Print what is no text in any form."""
    sys.stdin.read()
    sys.stdout.buffer.write(b"\xff\xfe{\x00[" * 100)
    return 1


BEHAVIOURS: dict[str, Callable[[str], int]] = {
    "half_json": print_half,
    "large": print_large,
    "hangs": hang,
    "begins_and_hangs": begin_and_hang,
    "never_reads": never_read,
    "resists": resist,
    "breeds": spawn_orphan,
    "breeds_and_hangs": spawn_orphan_and_hang,
    "asks_on_terminal": ask_on_terminal,
    "dies": die,
    "garbage": print_garbage,
}
VERDICTS = {"agrees": "accept", "objects": "reject", "wavers": "accept_with_changes"}


def write_output(text: str) -> None:
    """Print it at once."""
    sys.stdout.write(text)
    sys.stdout.flush()


def write_json_line(**event: object) -> None:
    """Print a line of JSON."""
    write_output(json.dumps(event) + "\n")


def sleep_forever() -> None:
    """Stay until killed."""
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
