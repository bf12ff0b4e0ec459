"""Finds the image, or the copy of a container, that commands run in, and the folder with the code in it."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, cast

from kakite.errors import UsageError
from kakite.processes import ManagedProcess, ProcessSpec, start
from kakite.sandbox.backends import container, engine
from kakite.sandbox.base import SandboxError

if TYPE_CHECKING:
    from pathlib import Path

    from kakite.sandbox.base import Sandbox

COPIES = "kakite/copy"
"""The name of images that are copies of people's containers."""
_CALL = 60.0
_LONG = 3600.0
_PIECE = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFolder:
    """An image, and the folder in it in which commands work."""

    image: str
    """What the person calls it: an image, or a container."""
    reference: str
    """What the engine calls the image that commands run in."""
    workdir: str
    """The folder, an absolute path."""
    user: str = "root"
    """The image's own user, a name or a number."""
    is_copy: bool = False
    """Whether the image is a copy of a container, made for one task."""

    def build_start_error(self, program: str, words: str) -> SandboxError:
        """Return the error for a container that did not start, by the engine's words."""
        lowered = words.lower()
        if '"sh"' in lowered and ("not found" in lowered or "no such file" in lowered):
            return SandboxError(
                f"`{self.image}` has no shell: `sh` is not there",
                hint="use an image with a POSIX shell",
                code="image_unfit",
            )
        return engine.build_call_error(program, "run", words.encode())


def check_workdir(workdir: str) -> str:
    """Return the path without detours; empty stays empty.

    Raises:
        UsageError: it is no folder that code can lie in, code ``bad_workdir``.
    """
    path = os.path.normpath(workdir) if workdir else ""
    if path and (not path.startswith("/") or path.strip("/") == "" or PurePosixPath(path).parts[1] in _NEVER):
        raise UsageError(
            f"`{workdir}` cannot be the folder with the code",
            hint="give the absolute path of a folder in the container, such as /testbed",
            code="bad_workdir",
        )
    return path


_NEVER = ("proc", "sys", "dev")


def find_image_folder(containers: engine.ContainerEngine, name: str, workdir: str, task: str) -> ImageFolder:
    """Return the image of this name, or a copy of the container of this name as it is now. Blocks.

    A copy is made once for each ``task``; until it is removed, the same one is found again.

    Raises:
        SandboxError: there is neither, code ``sandbox_missing``, or the engine fails.
        UsageError: no folder was given, and the image names none, code ``bad_workdir``.
    """
    copy = f"{COPIES}:{engine.compute_digest(f'{engine.get_user_label()} {task}')}"
    known = _inspect(containers, "image", copy)
    if known is None and _inspect(containers, "container", name) is not None:
        label = f"LABEL {engine.OWNER}={engine.get_user_label()}"
        containers.call("commit", "--change", label, name, copy, timeout=_LONG)
        known = _inspect(containers, "image", copy)
    found = known or _inspect(containers, "image", name)
    if found is None:
        raise SandboxError(
            f"there is no container and no image `{name}`",
            hint="see `docker ps` and `docker images`; Kakite pulls no image by itself: `docker pull`",
            code="sandbox_missing",
        )
    config = cast("dict[str, Any]", found.get("Config") or {})
    folder = check_workdir(workdir or str(config.get("WorkingDir") or ""))
    if not folder:
        raise UsageError(
            f"`{name}` names no folder to work in",
            hint="say where the code is: --workdir /testbed",
            code="bad_workdir",
        )
    user = str(config.get("User") or "").partition(":")[0] or "root"
    reference = copy if known else name
    return ImageFolder(image=name, reference=reference, workdir=folder, user=user, is_copy=known is not None)


def remove_copy(containers: engine.ContainerEngine, folder: ImageFolder) -> None:
    """Remove the copy of a container, where the image is one. Blocks."""
    if folder.is_copy:
        containers.ask("image", "rm", folder.reference, timeout=_CALL)


async def save_folder(
    containers: engine.ContainerEngine, folder: ImageFolder, archive: Path, *, size: int
) -> None:
    """Write all that lies in the folder into an archive on this machine, whole or not at all.

    Raises:
        SandboxError: there is no such folder, code ``folder_missing``; or it has more than ``size`` bytes.
    """
    # From the container itself while it is there: what is mounted in it is in no copy.
    name, made = folder.image, ""
    if not folder.is_copy or await asyncio.to_thread(_inspect, containers, "container", name) is None:
        name = made = engine.get_current_owner().make_container_name()
        label = f"{engine.OWNER}={engine.get_user_label()}"
        arguments = ("create", "--pull", "never", "--name", name, "--label", label, "--network", "none")
        await asyncio.to_thread(
            containers.call, *arguments, "--entrypoint", "sh", folder.reference, timeout=_CALL
        )
    part = archive.with_suffix(".part")
    try:
        child = await start(containers.build_process_spec("cp", f"{name}:{folder.workdir}/.", "-"))
        try:
            await _write_archive(child, part, size)
            await child.wait()
        finally:
            await child.stop()
        if child.returncode != 0:
            raise _build_copy_error(containers.name, folder, child.get_stderr_tail())
        part.replace(archive)
    finally:
        part.unlink(missing_ok=True)
        if made:
            await asyncio.to_thread(container.remove_containers, containers, [made])


async def unpack_into(sandbox: Sandbox, archive: Path) -> None:
    """Put what an archive holds into the sandbox's project, by a program inside.

    Raises:
        SandboxError: it does not fit, or the archive is no good.
    """
    # Without rights to give files away, as whoever works there; a time that is kept saves compiling again.
    words = ("tar", "-x", "-p", "--no-same-owner", "-f", "-")
    giver = await start(ProcessSpec(argv=("cat", str(archive)), env={"PATH": os.defpath}, cwd="/"))
    try:
        taker = await start(sandbox.build_process_spec(words))
        try:
            while data := await giver.stdout.read(_PIECE):
                taker.stdin.write(data)
                await taker.stdin.drain()
            taker.stdin.close()
            await taker.wait()
        except ConnectionError:
            pass
        finally:
            await taker.stop()
    finally:
        await giver.stop()
    if taker.returncode != 0:
        told = taker.get_stderr_tail().strip().splitlines() or [f"exit code {taker.returncode}"]
        raise SandboxError(f"the code cannot be copied out of the container: {told[-1]}")


async def _write_archive(child: ManagedProcess, part: Path, size: int) -> None:
    with part.open("wb") as file:
        while data := await child.stdout.read(_PIECE):
            size -= len(data)
            if size < 0:
                raise SandboxError("the folder with the code is larger than a task may be")
            await asyncio.to_thread(file.write, data)


def _build_copy_error(program: str, folder: ImageFolder, words: str) -> SandboxError:
    lowered = words.lower()
    if "no such" in lowered or "could not find" in lowered or "not a directory" in lowered:
        return SandboxError(
            f"there is no folder `{folder.workdir}` in `{folder.image}`",
            hint="say where the code is: --workdir FOLDER",
            code="folder_missing",
        )
    return engine.build_call_error(program, "cp", words.encode())


def _inspect(containers: engine.ContainerEngine, kind: str, name: str) -> dict[str, Any] | None:
    """Return what the engine knows of an image or a container; None where there is none."""
    done = containers.ask(kind, "inspect", "--format", "{{json .}}", name, timeout=_CALL)
    if done.returncode == 0:
        return cast("dict[str, Any]", json.loads(done.stdout))
    told = done.stderr.decode(errors="replace").lower()
    if any(sign in told for sign in ("no such", "not known", "no container")):
        return None
    raise engine.build_call_error(containers.name, f"{kind} inspect", done.stderr)
