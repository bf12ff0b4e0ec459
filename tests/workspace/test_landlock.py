"""The second wall: what the kernel refuses to a process that has confined itself."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kakite.workspace import landlock

pytestmark = pytest.mark.skipif(landlock.get_landlock_version() == 0, reason="this kernel has no Landlock")

_CONFINED = """
import errno, json, os, sys, threading
from pathlib import Path
from kakite.workspace import landlock
root, state, outside = map(Path, sys.argv[1:])
achieved = landlock.confine(write=[root, state])
def attempt(action):
    try:
        action()
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done"
def raw(path, flags):
    return lambda: os.close(os.open(path, flags, 0o600))
def edit():
    from kakite.workspace import EditLog, Workspace
    workspace = Workspace([root], history=EditLog(state / "h" / "x.sqlite"))
    version = workspace.write("a/new", b"1", expected=None).version
    workspace.write("a/new", b"2", expected=version)
    workspace.undo("a/new")
    assert list(workspace.find_files())
    workspace.undo("a/new")
def in_thread():
    told = []
    action = raw(outside / "y", os.O_WRONLY | os.O_CREAT)
    thread = threading.Thread(target=lambda: told.append(attempt(action)))
    thread.start(); thread.join()
    if told == ["EACCES"]:
        raise PermissionError(errno.EACCES, "")
print(json.dumps({
    "version": achieved.version,
    "write": attempt(raw(outside / "x", os.O_WRONLY | os.O_CREAT)),
    "change": attempt(raw(outside / "secret", os.O_WRONLY)),
    "cut": attempt(lambda: os.truncate(outside / "secret", 0)),
    "remove": attempt(lambda: os.unlink(outside / "secret")),
    "rename": attempt(lambda: os.rename(root / "x", outside / "x")),
    "read": attempt(raw(outside / "secret", os.O_RDONLY)),
    "list": attempt(lambda: os.listdir(outside)),
    "thread": attempt(in_thread),
    "etc": attempt(raw("/etc/kakite-test", os.O_WRONLY | os.O_CREAT)),
    "shadow": attempt(raw("/etc/shadow", os.O_RDONLY)),
    "inside": attempt(raw(root / "x", os.O_RDWR)),
    "null": attempt(raw(os.devnull, os.O_WRONLY)),
    "edit": attempt(edit),
    "import": attempt(lambda: __import__("mcp.server.lowlevel")),
}))
"""


@pytest.mark.slow
def test_a_confined_process_works_inside_and_cannot_write_or_read_outside(tmp_path: Path) -> None:
    root, state, outside = (tmp_path / name for name in ("root", "state", "outside"))
    for folder in (root, state, outside):
        folder.mkdir()
    (root / "x").write_bytes(b"1")
    (outside / "secret").write_bytes(b"secret")
    argv = [sys.executable, "-c", _CONFINED, str(root), str(state), str(outside)]
    done = subprocess.run(argv, capture_output=True, timeout=60, check=False, cwd=root)
    assert done.returncode == 0, done.stderr.decode()
    told = json.loads(done.stdout)
    assert told.pop("version") == landlock.get_landlock_version()
    refused = ("write", "change", "cut", "remove", "rename", "read", "list", "thread", "etc", "shadow")
    assert {name: told.pop(name) for name in refused} == dict.fromkeys(refused, "EACCES") | {
        "rename": "EXDEV" if landlock.get_landlock_version() < 2 else "EACCES"
    }
    assert told == dict.fromkeys(told, "done")
    assert (outside / "secret").read_bytes() == b"secret"


def test_a_kernel_without_it_is_told_and_nothing_is_confined(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_arguments: object) -> int:
        raise OSError(38, "no such system call")

    monkeypatch.setattr(landlock, "_call", missing)
    achieved = landlock.confine(write=[])
    assert (achieved.version, achieved.is_achieved) == (0, False)
    assert not landlock.is_confined()
