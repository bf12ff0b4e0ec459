"""What a write keeps of a file besides its content, and the file systems that make it hard."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.bounds import WITHIN

from kakite.workspace import FileWrite, Workspace, WorkspaceError, compute_version, openat2


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    (folder / "x").write_bytes(b"1")
    return folder


@pytest.fixture
def workspace(root: Path) -> Iterator[Workspace]:
    opened = Workspace([root])
    yield opened
    opened.close()


def set_attribute(path: Path, name: str, value: bytes) -> None:
    try:
        os.setxattr(path, name, value)
    except OSError as error:
        pytest.skip(f"this file system refuses {name}: {error.strerror}")


def access_list(*entries: tuple[int, int, int]) -> bytes:
    """Return an access list as the kernel stores it: (tag, permissions, user or group) each."""
    none = 0xFFFFFFFF
    packed = b"".join(
        tag.to_bytes(2, "little")
        + permissions.to_bytes(2, "little")
        + (who if who >= 0 else none).to_bytes(4, "little")
        for tag, permissions, who in entries
    )
    return (2).to_bytes(4, "little") + packed


USER, NAMED, GROUP, MASK, OTHER = 0x01, 0x02, 0x04, 0x10, 0x20
SHARED = access_list((USER, 6, -1), (NAMED, 6, 12345), (GROUP, 4, -1), (MASK, 6, -1), (OTHER, 0, -1))
ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"


def edit(workspace: Workspace) -> None:
    workspace.write("x", b"2", expected=compute_version(b"1"))
    assert workspace.read("x").data == b"2"


@pytest.mark.linux
def test_mode_attributes_and_access_list_survive_a_write_and_its_undo(
    workspace: Workspace, root: Path
) -> None:
    file = root / "x"
    set_attribute(file, "user.note", b"kept")
    set_attribute(file, ACCESS, SHARED)
    mode = stat.S_IMODE(file.stat().st_mode)
    for undo in (False, True):
        workspace.undo("x") if undo else edit(workspace)
        assert os.getxattr(file, "user.note") == b"kept"
        assert os.getxattr(file, ACCESS) == SHARED
        assert stat.S_IMODE(file.stat().st_mode) == mode == 0o660


@pytest.mark.linux
def test_a_folders_access_list_does_not_come_upon_a_file_without_one(
    workspace: Workspace, root: Path
) -> None:
    (root / "x").chmod(0o600)
    set_attribute(root, DEFAULT, SHARED)
    edit(workspace)
    assert ACCESS not in os.listxattr(root / "x")
    assert stat.S_IMODE((root / "x").stat().st_mode) == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_the_owner_survives_a_write(workspace: Workspace, root: Path) -> None:
    os.chown(root / "x", 12345, 54321)
    (root / "x").chmod(0o4755)
    edit(workspace)
    status = (root / "x").stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (12345, 54321, 0o4755)


def test_the_other_name_of_a_hard_link_keeps_its_content(workspace: Workspace, root: Path) -> None:
    (root / "other").hardlink_to(root / "x")
    edit(workspace)
    assert (root / "other").read_bytes() == b"1"
    workspace.undo("x")
    assert ((root / "x").read_bytes(), (root / "other").read_bytes()) == (b"1", b"1")


_AS_SOMEBODY = """
import os, sys
from pathlib import Path
from kakite.workspace import Workspace, WorkspaceError, FileWrite, compute_version
root = Path(sys.argv[1])
workspace = Workspace([root])
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(12345); os.setuid(12345)
def code(path, expected):
    try:
        workspace.write_all([
            FileWrite(path="fine", data=b"2", expected=compute_version(b"1")),
            FileWrite(path=path, data=b"2", expected=expected),
        ])
    except WorkspaceError as error:
        return error.code
known = compute_version(b"1")
print(*[code("read-only", known), code("closed/x", known), code("closed/new", None)])
"""


def test_what_is_read_only_is_not_written_and_nothing_else_either(root: Path) -> None:
    for name in ("fine", "read-only", "closed/x"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(b"1")
    (root / "read-only").chmod(0o444)
    (root / "closed").chmod(0o555)
    for path in (root, root / "fine"):
        path.chmod(0o777)
    if os.geteuid() == 0:
        _hand_over(root)
    done = subprocess.run(
        [sys.executable, "-c", _AS_SOMEBODY, str(root)],
        capture_output=True,
        timeout=WITHIN,
        encoding="utf-8",
        check=False,
    )
    assert done.stdout.split() == ["no_permission"] * 3, done.stderr
    assert (root / "fine").read_bytes() == b"1"


def _hand_over(root: Path) -> None:
    for path in (root, *root.rglob("*")):
        os.chown(path, 12345, 12345)


@pytest.mark.parametrize("links", [True, False])
def test_a_file_system_that_cannot_exchange_names_is_written_all_or_nothing_too(
    links: bool, workspace: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "y").write_bytes(b"1")

    def cannot(*_arguments: object) -> bool:
        return False

    monkeypatch.setattr(openat2, "_renameat2", cannot)
    if not links:
        real = os.link

        def refused(old: str, new: str, **where: Any) -> None:
            if "~" in new:
                raise OSError(1, "Operation not permitted")
            real(old, new, **where)

        monkeypatch.setattr(os, "link", refused)
    edit(workspace)
    workspace.write("new", b"3", expected=None)
    workspace.undo("x")
    (root / "y").write_bytes(b"theirs")
    assert {path.name: path.read_bytes() for path in root.iterdir()} == {
        "x": b"1",
        "y": b"theirs",
        "new": b"3",
    }
    moved = os.rename

    def failing(old: str, new: str, **where: int) -> None:
        if new == "y":
            raise OSError(5, "Input/output error")
        moved(old, new, **where)

    monkeypatch.setattr(os, "rename", failing)
    writes = [
        FileWrite(path="x", data=b"4", expected=compute_version(b"1")),
        FileWrite(path="y", data=b"4", expected=compute_version(b"theirs")),
    ]
    with pytest.raises(WorkspaceError):
        workspace.write_all(writes)
    assert {path.name: path.read_bytes() for path in root.iterdir()} == {
        "x": b"1",
        "y": b"theirs",
        "new": b"3",
    }


_SMALL = """
import os, sys
from pathlib import Path
from kakite.workspace import EditLog, Workspace, WorkspaceError, FileWrite, compute_version
root, state = Path(sys.argv[1]), Path(sys.argv[2])
(root / "x").write_bytes(b"1")
workspace = Workspace([root], history=EditLog(state / "h.sqlite"))
writes = [
    FileWrite(path="a/b/new", data=b"2" * 1000, expected=None),
    FileWrite(path="x", data=os.urandom(4_000_000), expected=compute_version(b"1")),
]
try:
    workspace.write_all(writes)
except WorkspaceError as error:
    names = sorted(str(path.relative_to(root)) for path in root.rglob("*"))
    print(error.code, names, (root / "x").read_bytes(), workspace.history.find_all_unsettled())
workspace.write("x", b"3", expected=compute_version(b"1"))
workspace.undo("x")
print((root / "x").read_bytes())
"""

_NO_ROOM = """
import os, sys
from pathlib import Path
from kakite.workspace import EditLog, Workspace, WorkspaceError
root, state = Path(sys.argv[1]), Path(sys.argv[2])
(root / "x").write_bytes(os.urandom(4_000_000))
workspace = Workspace([root], history=EditLog(state / "h.sqlite"))
try:
    workspace.write("x", b"", expected=workspace.read("x").version)
except WorkspaceError as error:
    print(error.code, *(path.stat().st_size for path in root.iterdir()))
"""

_MOUNTED = """
import sys
from pathlib import Path
from kakite.workspace import Workspace, WorkspaceError, compute_version
workspace = Workspace([sys.argv[1]])
def code(action):
    try:
        action()
    except WorkspaceError as error:
        return error.code
    return "done"
one = compute_version(b"1")
print(code(lambda: workspace.write("file", b"2", expected=one)))
print(code(lambda: workspace.remove("file", expected=one)))
print(code(lambda: workspace.write("folder/x", b"2", expected=one)), workspace.read("folder/x").data)
print(sorted(path.name for path in Path(sys.argv[1]).rglob("*")))
"""


def mounted(script: str, *arguments: str) -> str:
    """Run a shell script with mounts of its own, and return what it printed."""
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("there is no `unshare` program")
    if subprocess.run([unshare, "-rm", "true"], check=False, capture_output=True, timeout=WITHIN).returncode:
        pytest.skip("this system lets nobody mount in a namespace of their own")
    done = subprocess.run(
        [unshare, "-rm", "sh", "-ec", script, "sh", *arguments],
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_full_disk_leaves_all_as_it_was(tmp_path: Path) -> None:
    for name in ("small", "state"):
        (tmp_path / name).mkdir()
    script = 'mount -t tmpfs -o size=1m tmpfs "$1"; exec "$2" -c "$3" "$1" "$4"'
    told = mounted(script, str(tmp_path / "small"), sys.executable, _SMALL, str(tmp_path / "state"))
    assert told == "io_failed ['x'] b'1' []\nb'1'\n"


def test_a_journal_on_a_full_disk_stops_writing(tmp_path: Path) -> None:
    for name in ("small", "root"):
        (tmp_path / name).mkdir()
    script = 'mount -t tmpfs -o size=1m tmpfs "$1"; exec "$2" -c "$3" "$4" "$1"'
    told = mounted(script, str(tmp_path / "small"), sys.executable, _NO_ROOM, str(tmp_path / "root"))
    assert told == "history_failed 4000000\n"


@pytest.mark.linux
def test_a_file_that_is_mounted_is_refused_and_a_folder_that_is_mounted_written(tmp_path: Path) -> None:
    root, other = tmp_path / "root", tmp_path / "other"
    for folder in (root / "folder", other):
        folder.mkdir(parents=True)
        (folder / "x").write_bytes(b"1")
    (root / "file").write_bytes(b"")
    script = 'mount --bind "$2/x" "$1/file"; mount --bind "$2" "$1/folder"; exec "$3" -c "$4" "$1"'
    told = mounted(script, str(root), str(other), sys.executable, _MOUNTED).splitlines()
    assert told == ["is_a_mount", "is_a_mount", "done b'2'", "['file', 'folder', 'x']"]
