"""Starts programs for another process: each is born with the limits and in the control groups of this one.

A script of its own, ``python -I -S spawn_server_main.py SOCKET LIMIT=MOST… -- ENTRANCE… -- KIND SOURCE
PLACE…``. It first reports whether it has set its limits. Then it takes these requests:

- ``S``, four bytes of a size and descriptors, then so many bytes of what to start: answered with the process.
- ``R`` and four bytes of a process: answered with how it ended, if it has; the rest of its group is killed.
- ``K`` and four bytes of a process: it is killed, and nobody will ask for it.

Each answer is two numbers of four bytes: 1 and the status, a process and 0, or 0 and the error's number,
``ESTALE`` where one of the places is not any more what it was. When the socket ends, for example because the
other process died, all that was started is killed. Standard library only, and little of it.
"""

from __future__ import annotations

import errno
import os
import resource
import select
import sys
from _socket import CMSG_SPACE, MSG_CMSG_CLOEXEC, SOL_SOCKET, socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from socket import SCM_RIGHTS
else:
    import _signal as signal  # the public modules make enums of the same names, for 6 ms
    from _socket import SCM_RIGHTS

HEAD = 5
"""Bytes of what is asked, without what to start."""
ANSWER = 8
MAX_FILES = 8
"""Descriptors that a program may be given."""
_FIRST_FILE = 10
"""Above the numbers that programs are given descriptors under."""


def encode_spawn_request(argv: list[bytes], env: dict[bytes, bytes], numbers: list[int]) -> bytes:
    """Return what to start; ``numbers`` are what the descriptors are called there, in their order."""
    variables = [name + b"=" + value for name, value in env.items()]
    head = b"%d %s" % (len(argv), b" ".join(b"%d" % number for number in numbers))
    return b"\0".join((head, *argv, *variables))


def _start(told: bytes, files: list[int]) -> int:
    head, *words = told.split(b"\0")
    count, *numbers = map(int, head.split())
    if len(files) < len(numbers):  # the kernel leaves out those that would be over the limit
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    argv, variables = words[:count], words[count:]
    env = dict(variable.split(b"=", 1) for variable in variables)
    moves = [(os.POSIX_SPAWN_DUP2, file, number) for file, number in zip(files, numbers, strict=True)]
    usual = (signal.SIGPIPE, signal.SIGXFSZ)  # Python ignores them, and ignoring is inherited
    # A group of its own, to be killed as one. The session is ours, which has no terminal: one for each
    # program would be one more group to the scheduler, which costs a busy machine ten milliseconds.
    return os.posix_spawn(argv[0], argv, env, file_actions=moves, setpgroup=0, setsigdef=usual)


class _PathChecks:
    """The checks of some paths. What hides a file goes with the file when that is replaced."""

    def __init__(self, words: list[str]) -> None:
        self._places = list(zip(words[::3], words[1::3], words[2::3], strict=True))
        self._tables = [
            _MountTable(top, *map(self._list_paths, ("written", "own", "sealed", "pinned")))
            for top in self._list_paths("top")
        ]

    def is_satisfied(self) -> bool:
        """Tell whether they are as they should be."""
        seen = all(map(_is_as_expected, *zip(*self._places, strict=True))) if self._places else True
        return seen and all(
            table.is_unchanged() for table in self._tables
        )  # last: what went since is gone from it

    def _list_paths(self, wanted: str) -> list[bytes]:
        return [os.fsencode(place) for kind, _, place in self._places if kind == wanted]


def _is_as_expected(kind: str, source: str, place: str) -> bool:
    if kind == "shown":
        there = _get_file_id(source)
        return there is not None and there == _get_file_id(place)
    if kind in {"top", "written", "own", "sealed", "pinned"}:
        return True
    if kind == "identity":
        there = _get_file_id(place, follow=False)
        return there is not None and source == f"{there[0]}:{there[1]}"
    there = _get_file_id(place, follow=False)
    if there is None or kind == "absent":
        return there is None
    return (there == _get_file_id(source)) is (kind == "masked")  # else it is to be anything but that


def _get_file_id(path: str, *, follow: bool = True) -> tuple[int, int] | None:
    try:
        found = os.stat(path, follow_symlinks=follow)  # noqa: PTH116 - pathlib would cost more than the script
    except OSError:
        return None
    return found.st_dev, found.st_ino


class _MountTable:
    """The table of mounts, as far as it tells what is seen below a folder.

    What the host mounts later arrives there too, writable and with devices.
    """

    def __init__(
        self, top: bytes, written: list[bytes], own: list[bytes], sealed: list[bytes], pinned: list[bytes]
    ) -> None:
        self._top = top
        # Told is also what has changed between this and the first reading.
        self._file = os.open("/proc/self/mountinfo", os.O_RDONLY | os.O_CLOEXEC)
        self._changes = select.poll()
        self._changes.register(self._file, select.POLLPRI)
        self._first = self._read()
        inner = [
            (_unescape_path(row[4]), row[5].split(b","))
            for row in self._first
            if _is_below(_unescape_path(row[4]), top)
        ]
        self._holds = all(
            _is_safe(path, options, written) for path, options in inner if not _is_in(path, own)
        )
        # Compared with what is wanted, not with what was found: it may have gone before we looked.
        mounted = dict(inner)
        self._holds &= all(b"ro" in mounted.get(path, ()) for path in sealed)
        self._holds &= all(path in mounted for path in pinned)

    def is_unchanged(self) -> bool:
        """Tell whether it is as it was first, and nothing of the host could be written or used then."""
        if self._holds and self._changes.poll(0):
            self._holds = self._read() == self._first
        return self._holds

    def _read(self) -> list[list[bytes]]:
        os.lseek(self._file, 0, os.SEEK_SET)
        parts: list[bytes] = []
        while part := os.read(self._file, 1 << 16):
            parts.append(part)
        rows = (line.split(b" ") for line in b"".join(parts).splitlines())
        return [row for row in rows if self._is_relevant(_unescape_path(row[4]))]

    def _is_relevant(self, path: bytes) -> bool:
        return _is_below(path, self._top) or _is_below(self._top, path)


def _is_safe(path: bytes, options: list[bytes], written: list[bytes]) -> bool:
    return b"nosuid" in options and b"nodev" in options and (b"ro" in options or _is_in(path, written))


def _is_in(path: bytes, folders: list[bytes]) -> bool:
    return any(_is_below(path, folder) for folder in folders)


def _is_below(path: bytes, folder: bytes) -> bool:
    return path == folder or path.startswith(folder.rstrip(b"/") + b"/")


def _unescape_path(path: bytes) -> bytes:
    """Return a path as it is, without the octal numbers of the table."""
    first, *others = path.split(b"\\")
    return first + b"".join(bytes((int(other[:3], 8),)) + other[3:] for other in others)


class _SpawnRequestServer:
    """The end of the socket that starts programs."""

    def __init__(self, line: socket, places: _PathChecks) -> None:
        self._line = line
        self._places = places
        self._started: set[int] = set()
        self._dropped: set[int] = set()

    def serve(self) -> None:
        """Do what is asked until the socket ends."""
        while True:
            head, files = self._receive()
            if len(head) < HEAD:
                return
            number = int.from_bytes(head[1:], "big")
            if head[:1] == b"S":
                self.answer(*self._begin(number, files))
            elif head[:1] == b"R":
                self.answer(*self._reap(number))
            else:
                _kill(-number)
                self._dropped.add(number)
                self.answer(1, 0)
            for dropped in tuple(self._dropped):
                if self._reap(dropped) != (0, 0):
                    self._dropped.discard(dropped)

    def answer(self, first: int, second: int) -> None:
        self._line.sendall(first.to_bytes(4, "big") + second.to_bytes(4, "big"))

    def kill(self) -> None:
        """Kill what was started and lives, with its group: what begins cannot yet see to its own end."""
        for pid in self._started:
            _kill(-pid)

    def _receive(self) -> tuple[bytes, list[int]]:
        head, more, _, _ = self._line.recvmsg(HEAD, CMSG_SPACE(4 * MAX_FILES), MSG_CMSG_CLOEXEC)
        files = [
            file
            for level, kind, data in more
            if (level, kind) == (SOL_SOCKET, SCM_RIGHTS)
            for file in memoryview(data).cast("i").tolist()
        ]
        return head + (self._receive_exactly(HEAD - len(head)) if head else b""), files

    def _receive_exactly(self, size: int) -> bytes:
        """Receive so many bytes, fewer if the socket ends."""
        parts: list[bytes] = []
        while size and (part := self._line.recv(min(size, 1 << 20))):
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _begin(self, size: int, files: list[int]) -> tuple[int, int]:
        told = self._receive_exactly(size)
        try:
            if not self._places.is_satisfied():
                return 0, errno.ESTALE
            pid = _start(told, files)
        except OSError as error:
            return 0, error.errno or 1
        finally:
            for file in files:
                os.close(file)
        self._started.add(pid)
        return pid, 0

    def _reap(self, pid: int) -> tuple[int, int]:
        try:
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                return 0, 0
            _kill(-pid)  # before it is reaped: until then no stranger can get the number of the group
            _, status = os.waitpid(pid, 0)
        except OSError as error:
            return 0, error.errno or 1
        self._started.discard(pid)
        return 1, status


def _kill(pid: int) -> None:
    try:  # noqa: SIM105 - contextlib is not loaded here
        os.kill(pid, signal.SIGKILL)
    except OSError:
        pass


def _take_on(limits: list[str], entrances: list[str]) -> None:
    for entrance in entrances:
        group = os.open(entrance, os.O_WRONLY)
        os.write(group, b"0")
        os.close(group)
    for limit in limits:
        kind, _, most = limit.partition("=")
        resource.setrlimit(int(kind), (int(most), int(most)))


def _main(number: str, *words: str) -> None:
    os.set_inheritable(int(number), False)  # noqa: FBT003 - takes no keyword
    line = socket(fileno=int(number))
    null = os.open(os.devnull, os.O_RDWR)
    while null < _FIRST_FILE:
        null = os.dup(null)
    limits = words.index("--")
    entrances = words.index("--", limits + 1)
    server = _SpawnRequestServer(line, _PathChecks(list(words[entrances + 1 :])))
    try:
        _take_on(list(words[:limits]), list(words[limits + 1 : entrances]))
    except OSError as error:
        server.answer(0, error.errno or 1)
        return
    server.answer(os.getpid(), 0)
    try:
        server.serve()
    finally:
        server.kill()
        os._exit(0)  # at once: whoever ended us waits for it


if __name__ == "__main__":
    _main(*sys.argv[1:])
