"""The kinds of sandbox by name: opening one, and which of them work on this machine."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kakite.errors import UsageError
from kakite.sandbox.bubblewrap import BubblewrapSandbox
from kakite.sandbox.local import LocalSandbox
from kakite.sandbox.sandbox import Sandbox, SandboxError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_MAKERS: dict[str, Callable[[Path, Mapping[str, str]], Sandbox]] = {
    "bubblewrap": BubblewrapSandbox,
    "local": LocalSandbox,
}
AUTO = "auto"
"""The best kind that isolates. Never ``local``: to run without isolation is asked for by name."""
NAMES = (AUTO, *_MAKERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What a kind of sandbox is good for on this machine."""

    name: str
    available: bool
    isolates: bool
    note: str
    """What it does; or why it does not work here, and how to get it."""


def open_sandbox(kind: str, folder: Path, *, environ: Mapping[str, str] | None = None) -> Sandbox:
    """Return a sandbox over the task's own folder on the host. Nothing is done before its ``prepare``.

    The folder is made if it is not there; the project goes into ``project`` below it. ``environ`` is where
    the few variables that programs get are taken from: this process's environment unless given.

    Raises:
        UsageError: there is no such kind, code ``unknown_sandbox``.
    """
    make = _MAKERS.get("bubblewrap" if kind == AUTO else kind)
    if make is None:
        raise UsageError(
            f"sandbox `{kind}` is not known",
            hint=f"the kinds are: {', '.join(NAMES)}",
            code="unknown_sandbox",
        )
    return make(folder, os.environ if environ is None else environ)


async def kinds(environ: Mapping[str, str] | None = None) -> list[Kind]:
    """Try every kind on this machine, really, in a folder that is gone afterwards."""
    return [await _tried(name, environ) for name in _MAKERS]


async def _tried(name: str, environ: Mapping[str, str] | None) -> Kind:
    with tempfile.TemporaryDirectory(prefix="kakite-") as folder:
        sandbox = open_sandbox(name, Path(folder), environ=environ)
        try:
            await sandbox.prepare()
        except SandboxError as error:
            note = f"{error.message}; {error.hint}" if error.hint else error.message
            return Kind(name=name, available=False, isolates=sandbox.isolates, note=note)
    note = "isolates" if sandbox.isolates else "does not isolate: commands can do what you can"
    return Kind(name=name, available=True, isolates=sandbox.isolates, note=note)
