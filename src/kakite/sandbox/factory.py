"""Opens a sandbox by the name of its backend, and lists the backends that work on this machine."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from kakite.errors import UsageError
from kakite.sandbox.backends import engine, images
from kakite.sandbox.backends.bubblewrap import BubblewrapSandbox
from kakite.sandbox.backends.container import ContainerSandbox
from kakite.sandbox.backends.local import LocalSandbox
from kakite.sandbox.base import Sandbox, SandboxError
from kakite.sandbox.files.temp import temporary_folder
from kakite.sandbox.spec import SandboxSpec

if TYPE_CHECKING:
    from collections.abc import Mapping


class _Maker(Protocol):
    def __call__(
        self, folder: Path, environ: Mapping[str, str], terms: SandboxSpec, *, project: Path | None
    ) -> Sandbox: ...


_MAKERS: dict[str, _Maker] = {
    "container": ContainerSandbox,
    "bubblewrap": BubblewrapSandbox,
    "local": LocalSandbox,
}
AUTO = "auto"
"""The best kind that isolates: containers where an engine answers and has the image, else bubblewrap. Never
``local``: to run without isolation is asked for by name."""
NAMES = (AUTO, *_MAKERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendInfo:
    """A backend, and what it can do on this machine."""

    name: str
    available: bool
    isolates: bool
    note: str
    """What it does; or why it does not work here, and how to get it."""


def open_sandbox(
    kind: str,
    folder: Path,
    *,
    environ: Mapping[str, str] | None = None,
    terms: SandboxSpec | None = None,
    project: Path | None = None,
) -> Sandbox:
    """Return a sandbox over the task's own folder on the host. Nothing is made before its ``prepare``.

    ``kind`` is one of ``NAMES``, or ``container:IMAGE``, where IMAGE is one of ours by its short name or any
    other that has Kakite inside. For ``auto`` an engine is asked whether it is there, which blocks shortly.
    The folder is made if it is not there; the project goes into ``project`` below it. ``environ`` is where
    the few variables that programs get are taken from: this process's environment unless given.

    With ``project`` programs work in that folder as it is, in the place of the task's own: what they write is
    there at once, and nobody deletes it. What is a repository in it they can only read, in the kinds that
    isolate.

    Raises:
        UsageError: there is no such kind, code ``unknown_sandbox``.
    """
    environ, terms = os.environ if environ is None else environ, terms or SandboxSpec()
    name, _, image = kind.partition(":")
    if name == "container" and image:
        return ContainerSandbox(folder, environ, terms, image, project=project)
    make = _MAKERS.get(choose_backend(environ) if kind == AUTO else kind)
    if make is None:
        raise UsageError(
            f"sandbox `{kind}` is not known",
            hint=f"the kinds are: {', '.join(NAMES)}, container:IMAGE",
            code="unknown_sandbox",
        )
    return make(folder, environ, terms, project=project)


def choose_backend(environ: Mapping[str, str]) -> str:
    """Return the kind that ``auto`` stands for: an engine is asked whether it is there."""
    try:
        usable = engine.has_image(engine.find(environ), images.get_reference(images.DEFAULT))
    except SandboxError:
        usable = False
    return "container" if usable else "bubblewrap"


async def list_backends(environ: Mapping[str, str] | None = None) -> list[BackendInfo]:
    """Try every kind on this machine, really, in a folder that is gone afterwards."""
    return [await _describe_backend(name, environ) for name in _MAKERS]


async def try_out(kind: str, environ: Mapping[str, str] | None = None) -> Sandbox:
    """Make a sandbox of this kind, really, in a folder that is gone afterwards, and let go of it.

    Raises:
        UsageError: there is no such kind.
        SandboxError: it cannot be made on this machine.
    """
    with temporary_folder("trial") as folder:
        sandbox = open_sandbox(kind, folder, environ=environ)
        try:
            await sandbox.prepare()
        finally:
            await sandbox.destroy()
    return sandbox


async def _describe_backend(name: str, environ: Mapping[str, str] | None) -> BackendInfo:
    with temporary_folder("trial") as folder:
        sandbox = open_sandbox(name, folder, environ=environ)
        try:
            await sandbox.prepare()
        except SandboxError as error:
            note = f"{error.message}; {error.hint}" if error.hint else error.message
            return BackendInfo(name=name, available=False, isolates=sandbox.isolates, note=note)
        finally:
            await sandbox.destroy()
    note = "isolates" if sandbox.isolates else "does not isolate: commands can do what you can"
    return BackendInfo(name=name, available=True, isolates=sandbox.isolates, note=note)
