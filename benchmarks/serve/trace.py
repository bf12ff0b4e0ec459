"""Which modules and functions of Kakite one edit passes, from the server's input to the disk and back.

    python benchmarks/serve/trace.py [--list]

A `str_replace` of `text_editor` goes to a real `kakite serve` over pipes. A first edit has loaded everything,
so what runs only once is not counted. Each function counts once, however often it is called; comprehensions,
lambdas and the bodies of modules do not count.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

_SERVER = """
import json, signal, sys, threading
from pathlib import Path
import kakite
root = str(Path(kakite.__file__).parent) + "/"
seen, state = set(), {"on": False}
def note(frame, event, argument):
    if event != "call" or not state or not state["on"]:
        return
    code = frame.f_code
    if code.co_filename.startswith(root) and not code.co_name.startswith("<"):
        seen.add((code.co_filename.removeprefix(root), code.co_qualname.replace("<locals>.", "")))
def start(*_):
    state["on"] = True
signal.signal(signal.SIGUSR1, start)
threading.setprofile(note)
sys.setprofile(note)
out = open(sys.argv[1], "w", encoding="utf-8")  # before the server confines itself
sys.argv = ["kakite", "serve", *sys.argv[2:]]
def stop(*_):
    state["on"] = False
    json.dump(sorted(seen), out)
    out.close()
signal.signal(signal.SIGUSR2, stop)
from kakite.__main__ import main
main()
"""


def trace() -> list[tuple[str, str]]:
    """Return the functions that one edit passes, each with its file below ``kakite``."""
    with tempfile.TemporaryDirectory() as folder:
        place, found = Path(folder), Path(folder, "trace.json")
        root = place / "root"
        root.mkdir()
        (root / "a.py").write_text("one = 1\ntwo = 2\nthree = 3\n", encoding="utf-8")
        environ = {
            **os.environ,
            "HOME": folder,
            "XDG_STATE_HOME": f"{folder}/state",
            "XDG_CONFIG_HOME": f"{folder}/config",
        }
        argv = [sys.executable, "-c", _SERVER, str(found), "--root", str(root)]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ) as server:
            assert server.stdin
            assert server.stdout

            def ask(number: int, method: str, params: dict[str, object]) -> dict[str, object]:
                line = json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
                server.stdin.write(line.encode() + b"\n")
                server.stdin.flush()
                while True:
                    answer = json.loads(server.stdout.readline())
                    if answer.get("id") == number:
                        return answer["result"]

            client = {"name": "trace", "version": "1"}
            ask(1, "initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})
            server.stdin.write(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
            for number, (old, new) in enumerate((("one = 1", "one = 10"), ("two = 2", "two = 20")), 2):
                if number == 3:
                    server.send_signal(signal.SIGUSR1)
                arguments = {"command": "str_replace", "path": "a.py", "old_str": old, "new_str": new}
                answer = ask(number, "tools/call", {"name": "text_editor", "arguments": arguments})
                assert not answer.get("isError"), answer
            server.send_signal(signal.SIGUSR2)
            ask(4, "ping", {})
            server.stdin.close()
            server.wait(30)
        assert (root / "a.py").read_text(encoding="utf-8") == "one = 10\ntwo = 20\nthree = 3\n"
        return [(file, name) for file, name in json.loads(found.read_text(encoding="utf-8"))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="name every function")
    options = parser.parse_args()
    functions = trace()
    if options.list:
        for file, name in functions:
            print(f"{file}: {name}")
    print(f"{len({file for file, _ in functions})} modules, {len(functions)} functions")


if __name__ == "__main__":
    main()
