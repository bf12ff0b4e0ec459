"""Git's remote helper inside a sandbox: the host serves ``origin`` behind a unix socket.

A script of its own, ``python -I -S git_remote.py SOCKET REMOTE ADDRESS``, which git starts for an address
``kakite::…`` and talks to as gitremote-helpers(7) says. It joins git to the socket: a first line names the
program of git that is asked for, all that follows is git's own protocol. It knows no credentials and judges
nothing; the host decides what may be fetched and pushed. Little is imported: every fetch pays its start.
"""

from __future__ import annotations

import os
import sys

try:
    import _socket as socket  # the public module makes enums of the same names, for 6 ms
except ImportError:  # pragma: no cover - an interpreter that is not CPython
    import socket

_PIECE = 64 * 1024
_STDIN, _STDOUT = 0, 1
_FAILED = 1


def main(argv: list[str]) -> int:
    """Answer git's commands until it is joined to the host, or has no more."""
    place = argv[1]
    while command := _read_command():
        if command == "capabilities":
            _write(_STDOUT, b"connect\n\n")
        elif command.startswith("connect "):
            return _connect(place, command.removeprefix("connect "))
        else:
            return _fail(f"git asks for a service that is not available here: {command}")
    return 0


def _read_command() -> str:
    """Return the next command. Byte by byte: what follows the last one is not ours to read."""
    line = b""
    while (byte := os.read(_STDIN, 1)) not in {b"", b"\n"}:
        line += byte
    return line.decode(errors="replace")


def _connect(place: str, program: str) -> int:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # Relative: the address of a socket has room for 107 bytes only.
        os.chdir(os.path.dirname(place))  # noqa: PTH120 - pathlib would cost more than the whole script
        connection.connect(os.path.basename(place))  # noqa: PTH119 - as above
    except OSError as error:
        return _fail(f"origin cannot be reached: the host does not serve it ({error.strerror})")
    connection.sendall(program.encode() + b"\n")
    _write(_STDOUT, b"\n")  # from here on git talks to the host
    sender = os.fork()
    if sender == 0:
        _copy(_STDIN, connection.fileno())
        _half_close(connection)
        os._exit(0)
    _copy(connection.fileno(), _STDOUT)
    os.kill(sender, 9)
    os.waitpid(sender, 0)
    return 0


def _copy(source: int, sink: int) -> None:
    """Copy to the end of the source, or until nobody takes it."""
    try:
        while data := os.read(source, _PIECE):
            _write(sink, data)
    except OSError:
        return


def _half_close(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_WR)
    except OSError:
        return  # the host was first


def _write(sink: int, data: bytes) -> None:
    while data:
        data = data[os.write(sink, data) :]


def _fail(message: str) -> int:
    print(f"kakite: {message}", file=sys.stderr)  # noqa: T201 - git shows it
    return _FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv))
