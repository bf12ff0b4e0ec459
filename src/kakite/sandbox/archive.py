"""Folders as archives, and back. No sandbox is known here, only what came out of one.

That was made by programs that nobody trusts: it goes into a new folder, files before any link, so that
nothing can lead elsewhere while they are written.
"""

from __future__ import annotations

import os
import shutil
import tarfile
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Literal

from kakite.sandbox.sandbox import SandboxError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Links = Literal["inside", "all"]
"""Which symbolic links are taken: those that lead to somewhere in the folder, or all, as they are."""
Members = dict[str, tarfile.TarInfo]
"""What an archive holds, by its path in the folder."""
_RIGHTS = 0o777
_ODD = "surrogateescape"
"""What names that are no text are read and written with."""


def pack(source: Path, file: IO[bytes]) -> None:
    """Write what a folder holds. Links are links; sockets and devices are left out.

    Raises:
        OSError: something cannot be read.
    """
    # Names are bytes: this format takes any, and any tar reads it.
    form = tarfile.GNU_FORMAT
    with tarfile.open(fileobj=file, mode="w:", format=form, encoding="utf-8", errors=_ODD) as archive:
        for name in sorted(os.listdir(source)):  # noqa: PTH208 - only names
            archive.add(source / name, arcname=name, filter=_anonymous)


def unpack(file: IO[bytes], target: Path, *, size: int, files: int, links: Links = "inside") -> None:
    """Make a new folder of an archive: whole, or not at all. Owners and devices are left out.

    Raises:
        SandboxError: the folder is there already, or the archive is no good, or it holds more than ``size``
            bytes or ``files`` files.
    """
    try:
        target.mkdir(mode=0o700)
    except FileExistsError as error:
        raise SandboxError(f"`{target}` is there already", hint="give a new folder") from error
    try:
        with tarfile.open(fileobj=file, mode="r:", encoding="utf-8", errors=_ODD) as archive:
            _unpack(archive, target, _members(archive, size, files), links)
    except BaseException as error:
        remove(target)
        if isinstance(error, (tarfile.TarError, OSError, ValueError)):
            raise SandboxError(f"what came out of the sandbox cannot be unpacked: {error}") from error
        raise


def remove(folder: Path) -> None:
    """Delete a folder that nobody else writes to, whatever the modes in it say."""
    for path, folders, _ in os.walk(folder):
        for name in folders:
            inner = os.path.join(path, name)  # noqa: PTH118 - of bytes that may be no text
            if not os.path.islink(inner):  # noqa: PTH114
                os.chmod(inner, 0o700)  # noqa: PTH101
    shutil.rmtree(folder, ignore_errors=True)


def too_large() -> SandboxError:
    """Return the error for what holds more than may be taken."""
    return SandboxError("there is more in the sandbox than may be taken out", hint="see `Limits.disk`")


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode &= _RIGHTS
    return member


def _members(archive: tarfile.TarFile, size: int, files: int) -> Members:
    found: Members = {}
    for member in archive:
        size -= member.size
        files -= 1
        if size < 0 or files < 0:
            raise too_large()
        if path := _inside(member.name):
            found[path] = member
    return found


def _inside(name: str) -> str:
    """Return the path of a name in the folder; nothing for the folder itself and what is outside of it."""
    parts = [part for part in name.split("/") if part not in {"", "."}]
    return "" if name.startswith("/") or ".." in parts else "/".join(parts)


def _unpack(archive: tarfile.TarFile, target: Path, members: Members, links: Links) -> None:
    for path, member in members.items():
        # Also those of links: from here on nobody makes a folder, so nobody makes one through a link.
        (target / path if member.isdir() else (target / path).parent).mkdir(parents=True, exist_ok=True)
    for path, member in members.items():
        if member.isreg():
            _write(archive, member, target / path)
    _link(target, members)
    if links == "inside":
        _cut_off(target, [target / path for path in members])
    # Deepest first: what is made read-only needs nothing any more.
    for path in sorted((path for path, member in members.items() if member.isdir()), reverse=True):
        _set_time(target / path, members[path])
        (target / path).chmod(members[path].mode & _RIGHTS)


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    source = archive.extractfile(member)
    assert source is not None  # a regular file
    with path.open("xb") as file:
        shutil.copyfileobj(source, file)
        os.fchmod(file.fileno(), member.mode & _RIGHTS)
    _set_time(path, member)


def _set_time(path: Path, member: tarfile.TarInfo) -> None:
    with suppress(OSError, OverflowError, ValueError):  # an archive may say anything
        os.utime(path, (member.mtime, member.mtime))


def _link(target: Path, members: Mapping[str, tarfile.TarInfo]) -> None:
    """Make the links, hard ones first: in place of nothing."""
    symbolic = {path: member.linkname for path, member in members.items() if member.issym()}
    for path, member in members.items():
        if member.islnk():
            first = _inside(member.linkname)
            if first in symbolic:  # tar tells so of a second name of a link
                symbolic[path] = symbolic[first]
            elif first in members and members[first].isreg() and not os.path.lexists(target / path):
                (target / path).hardlink_to(target / first)
    for path, leads_to in symbolic.items():
        if leads_to and not os.path.lexists(target / path):
            (target / path).symlink_to(leads_to)


def _cut_off(target: Path, paths: list[Path]) -> None:
    """Delete the links that lead out, until none does: one may lead out by way of another."""
    top = target.resolve()
    links = {path for path in paths if path.is_symlink()}
    while leaving := {path for path in links if not _resolve(path).is_relative_to(top)}:
        for path in leaving:
            path.unlink()
        links -= leaving


def _resolve(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):  # a circle leads nowhere
        return path.parent.resolve()
