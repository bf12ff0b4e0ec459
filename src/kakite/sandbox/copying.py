"""Folders into a sandbox and out of it, over a program's own pipes: of any kind, wherever it is."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import suppress
from typing import IO, TYPE_CHECKING

from kakite.processes import ProcessError, start
from kakite.sandbox.archive import Links, pack, too_large, unpack
from kakite.sandbox.sandbox import SandboxError

if TYPE_CHECKING:
    from pathlib import Path

    from kakite.processes import Child
    from kakite.sandbox.sandbox import Sandbox

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
            await _succeed(child, f"`{target}` cannot be written in the sandbox")
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
            await _succeed(child, f"`{source}` cannot be read in the sandbox")
        finally:
            await child.stop()
        file.seek(0)
        await asyncio.to_thread(unpack, file, target, size=size, files=files, links=links)


async def _start(sandbox: Sandbox, script: str, folder: str) -> Child:
    try:
        return await start(sandbox.launch(("sh", "-c", script, "sh", folder)))
    except ProcessError as error:
        raise SandboxError(error.message, hint=error.hint) from error


async def _feed(child: Child, file: IO[bytes]) -> None:
    file.seek(0)
    with suppress(ConnectionError):  # its exit code tells
        while piece := file.read(_PIECE):
            child.stdin.write(piece)
            await child.stdin.drain()
    child.stdin.close()


async def _keep(child: Child, file: IO[bytes], most: int) -> None:
    child.stdin.close()
    while piece := await child.stdout.read(_PIECE):
        file.write(piece)
        if file.tell() > most:
            raise too_large()


async def _succeed(child: Child, otherwise: str) -> None:
    if await child.wait() != 0:
        words = child.stderr_tail().strip().splitlines()
        raise SandboxError(f"{otherwise}: {words[-1] if words else 'tar failed'}")
