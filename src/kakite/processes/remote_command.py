"""Has a service of the host run a command, and passes on what that writes and how it ends.

Runs on any Python, alone: ``python -I -S remote_command.py SOCKET WORD…``. The service gets a line of JSON,
and answers with frames: a kind, a length, bytes.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import sys

HEAD = struct.Struct(">BI")
STDOUT, STDERR, EXIT = 1, 2, 3
_GONE = 125
"""The exit code of a command whose place is gone, as container engines say it."""


def main(words: list[str]) -> int:
    """Run the command of these words, after the path of the socket; return its exit code."""
    path, *argv = words
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.connect(path)
        # Asked to end, we say so, and still pass on what comes: whoever asked kills us if it takes too long.
        signal.signal(signal.SIGTERM, lambda _number, _frame: line.shutdown(socket.SHUT_WR))
        line.sendall(json.dumps({"argv": argv, "cwd": os.getcwd()}).encode() + b"\n")  # noqa: PTH109 - alone
        with line.makefile("rb") as answer:
            while len(head := answer.read(HEAD.size)) == HEAD.size:
                kind, size = HEAD.unpack(head)
                data = answer.read(size)
                if kind == EXIT:
                    return int(data)
                _write(kind, data)
    _write(STDERR, b"the container in which commands run is gone\n")
    return _GONE


def _write(stream: int, data: bytes) -> None:
    while data:
        data = data[os.write(stream, data) :]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
