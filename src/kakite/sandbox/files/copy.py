"""Copies folders into a sandbox and out of it, over a program's own pipes: for every backend.

A folder crosses as an archive. What comes out was made by programs that nobody trusts: it goes into a new
folder, files before any link, so that nothing can lead elsewhere while they are written.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tarfile
import tempfile
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Literal

from kakite.processes import ProcessError, start
from kakite.sandbox.base import SandboxError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from kakite.processes import ManagedProcess
    from kakite.sandbox.base import Sandbox


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
            archive.add(source / name, arcname=name, filter=_anonymize)


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
            _unpack(archive, target, _list_members(archive, size, files), links)
    except BaseException as error:
        remove(target)
        if isinstance(error, (tarfile.TarError, OSError, ValueError)):
            raise SandboxError(f"the sandbox's files cannot be unpacked: {error}") from error
        raise


def remove(folder: Path) -> None:
    """Delete a folder that nobody else writes to, whatever the modes in it say."""
    for path, folders, _ in os.walk(folder):
        for name in folders:
            inner = os.path.join(path, name)  # noqa: PTH118 - of bytes that may be no text
            if not os.path.islink(inner):  # noqa: PTH114
                os.chmod(inner, 0o700)  # noqa: PTH101
    shutil.rmtree(folder, ignore_errors=True)


def build_too_large_error() -> SandboxError:
    """Return the error for what holds more than may be taken."""
    return SandboxError("the sandbox's files are larger than Kakite may copy out", hint="see `Limits.disk`")


def _anonymize(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode &= _RIGHTS
    return member


def _list_members(archive: tarfile.TarFile, size: int, files: int) -> Members:
    found: Members = {}
    for member in archive:
        size -= member.size
        files -= 1
        if size < 0 or files < 0:
            raise build_too_large_error()
        if path := _normalize_name(member.name):
            found[path] = member
    return found


def _normalize_name(name: str) -> str:
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
            first = _normalize_name(member.linkname)
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


SIZE = 4 << 30
"""Bytes that are taken out at most, unless the caller says."""
FILES = 1_000_000
_PIECE = 1 << 18
_IN = 'mkdir -p -- "$1" && exec tar --extract --file=- --no-same-owner -p --directory="$1"'
_OUT = 'exec tar --create --file=- --directory="$1" .'


async def copy_in(sandbox: Sandbox, source: Path, target: str) -> None:
    """Copy what a folder of the host holds into a folder inside, which is made if it is not there.

    Links are copied as links, sockets and devices not at all. Files of the same names are replaced.

    Raises:
        SandboxError: it cannot be read, or not be written inside.
    """
    with tempfile.TemporaryFile() as file:
        try:
            await asyncio.to_thread(pack, source, file)
        except OSError as error:
            raise SandboxError(f"`{source}` cannot be copied into the sandbox: {error}") from error
        child = await _start(sandbox, _IN, target)
        try:
            await _feed(child, file)
            await _check_success(child, f"`{target}` cannot be written in the sandbox")
        finally:
            await child.stop()


async def copy_out(
    sandbox: Sandbox,
    source: str,
    target: Path,
    *,
    size: int = SIZE,
    files: int = FILES,
    links: Links = "inside",
) -> None:
    """Copy what a folder inside holds to a new folder of the host.

    Sockets and devices are left out, and so are links that lead out of the folder, unless ``links`` is
    ``all``: then whoever uses the folder must not follow them. No file is set to another's rights.

    Raises:
        SandboxError: the target is there already, the source is not, or it holds more than ``size`` bytes or
            ``files`` files. The target is not there then.
    """
    with tempfile.TemporaryFile() as file:
        child = await _start(sandbox, _OUT, source)
        try:
            await _keep(child, file, size + files * 1024)
            await _check_success(child, f"`{source}` cannot be read in the sandbox")
        finally:
            await child.stop()
        file.seek(0)
        await asyncio.to_thread(unpack, file, target, size=size, files=files, links=links)


async def _start(sandbox: Sandbox, script: str, folder: str) -> ManagedProcess:
    try:
        return await start(sandbox.build_process_spec(("sh", "-c", script, "sh", folder)))
    except ProcessError as error:
        raise SandboxError(error.message, hint=error.hint) from error


async def _feed(child: ManagedProcess, file: IO[bytes]) -> None:
    file.seek(0)
    with suppress(ConnectionError):  # its exit code tells
        while piece := file.read(_PIECE):
            child.stdin.write(piece)
            await child.stdin.drain()
    child.stdin.close()


async def _keep(child: ManagedProcess, file: IO[bytes], most: int) -> None:
    child.stdin.close()
    while piece := await child.stdout.read(_PIECE):
        file.write(piece)
        if file.tell() > most:
            raise build_too_large_error()


async def _check_success(child: ManagedProcess, otherwise: str) -> None:
    if await child.wait() != 0:
        words = child.get_stderr_tail().strip().splitlines()
        raise SandboxError(f"{otherwise}: {words[-1] if words else 'tar failed'}")
