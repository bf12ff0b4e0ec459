"""Git's pre-receive hook of the mirror, on the host: asks SandboxRemote whether to accept a push.

A script of its own, ``python -I -S pre_receive.py SOCKET``, started by ``git receive-pack`` in the mirror.
It sends the place of the new objects and the branches that they update, and repeats the answer.
"""

from __future__ import annotations

import os
import sys

try:
    import _socket as socket  # as in the sandbox's script: a quick start
except ImportError:  # pragma: no cover - an interpreter that is not CPython
    import socket

_MAX_BYTES = 1 << 20  # bytes that git may say of branches


def main(argv: list[str]) -> int:
    """Ask the relay; 0 if it agrees."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    os.chdir(os.path.dirname(argv[1]))  # noqa: PTH120 - relative: a socket's address is short
    connection.connect(os.path.basename(argv[1]))  # noqa: PTH119 - as above
    named = [
        os.environb.get(name, b"") for name in (b"GIT_OBJECT_DIRECTORY", b"GIT_ALTERNATE_OBJECT_DIRECTORIES")
    ]
    connection.sendall(b"\0".join([*named, sys.stdin.buffer.read(_MAX_BYTES)]))
    connection.shutdown(socket.SHUT_WR)
    answer = b""
    while piece := connection.recv(_MAX_BYTES):
        answer += piece
    sys.stderr.buffer.write(answer[1:])
    return 0 if answer[:1] == b"+" else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv))
