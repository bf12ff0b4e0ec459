"""Runs a server of a configuration in bubblewrap, where its entry says so.

It sees the system, its own program and the folders that the entry names, and reaches the hosts that it names.
Its home is empty, and gone after: what it shall keep belongs into the folder that it may write.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kakite.host.config.model import ServerSandbox, StdioServer
from kakite.sandbox.base import SandboxError

if TYPE_CHECKING:
    from kakite.processes import ProcessSpec
    from kakite.sandbox.spec import SandboxSpec

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/opt", "/nix/store", "/gnu/store")
"""What a program sees in the sandbox anyway, at the same place."""
_INSIDE = (Path("/workspace/home"), Path("/workspace/project"))
"""The home inside, which is empty, and where the sandbox has a project otherwise."""
_PARTS = ("bin", "lib", "lib64", "pyvenv.cfg")
"""What an interpreter needs of the folder that it is installed in."""
_LOOPBACK = ("localhost", "127.", "[::1]", "::1")
_HEAD = 256
"""Bytes of a script in which its interpreter is named."""
_LINKS = 40
"""As many as the kernel follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Program:
    """A program as it is found on the host."""

    path: str
    """Its own, of all the names that lead to it: a virtual environment goes by it."""
    shown: frozenset[Path]
    """What has to be seen so that it starts."""


@asynccontextmanager
async def open_server_sandbox(
    reached: StdioServer, wanted: ServerSandbox, environ: Mapping[str, str], project: Path
) -> AsyncGenerator[ProcessSpec]:
    """Make the sandbox of a server, and yield how the server is started in it, once or again.

    Raises:
        SandboxError: it cannot be made here; a folder that the entry names is not there, or holds too much,
            code ``project_unfit``; the program is not found.
    """
    from kakite.sandbox.backends.bubblewrap import BubblewrapSandbox
    from kakite.sandbox.files.temp import temporary_folder

    read = tuple(path for folder in wanted.read for path in _find_paths(folder, project, environ))
    write = _find_paths(wanted.write, project, environ)[-1] if wanted.write else None
    program = _find_program(reached, environ, project)
    spec = _build_spec(wanted, (*read, *sorted(program.shown)), environ)
    with temporary_folder("server") as folder:
        sandbox = BubblewrapSandbox(folder / "sandbox", environ, spec, project=write)
        try:
            await sandbox.prepare()
            seen = (*read, *([write] if write else []))
            with sandbox.allow_network():
                yield sandbox.build_process_spec(
                    (program.path, *reached.args),
                    env=_build_environment(program, wanted, environ) | dict(reached.env),
                    cwd=_choose_cwd(project / reached.cwd, seen, given=bool(reached.cwd)),
                )
        finally:
            await sandbox.destroy()


def _build_spec(wanted: ServerSandbox, shown: tuple[Path, ...], environ: Mapping[str, str]) -> SandboxSpec:
    from kakite.sandbox.egress.proxy import SERVICE, EgressProxy
    from kakite.sandbox.spec import SandboxSpec

    proxy = EgressProxy(wanted.hosts, environ=environ, registries=False)
    return SandboxSpec(
        network="registries" if wanted.hosts else "off",
        services={SERVICE: proxy} if wanted.hosts else {},
        shown=shown,
        at_own_path=True,
    )


def _find_paths(folder: str, project: Path, environ: Mapping[str, str]) -> tuple[Path, Path]:
    """Return a folder that an entry names, relative to the project: as it is named, and where that leads.

    Raises:
        SandboxError: it is not there, or holds the person's home; code ``project_unfit``.
    """
    named = Path(os.path.normpath(project / folder))
    path = named.resolve()
    if not folder.strip():
        raise SandboxError(
            "a folder that `sandbox` names is empty", hint="set its variable", code="project_unfit"
        )
    if not path.exists():
        raise SandboxError(
            f"`{folder}`, which `sandbox` names, is not there", hint="make it", code="project_unfit"
        )
    home = Path(environ.get("HOME") or Path.home()).resolve()
    if home.is_relative_to(path):
        hint = "name the folders below it that the server needs"
        raise SandboxError(f"`{folder}` holds all of your home", hint=hint, code="project_unfit")
    if any(inside.is_relative_to(path) for inside in _INSIDE):
        told = f"`{folder}` lies where the sandbox has its own folders"
        raise SandboxError(told, hint="name folders below it, or move it", code="project_unfit")
    return named, path


def _choose_cwd(wanted: Path, seen: tuple[Path, ...], *, given: bool) -> str:
    """Return where the server starts: as without a sandbox if it can see that, else in its empty home."""
    wanted = wanted.resolve()
    return str(wanted if given or any(wanted.is_relative_to(folder) for folder in seen) else _INSIDE[0])


def _build_environment(
    program: _Program, wanted: ServerSandbox, environ: Mapping[str, str]
) -> dict[str, str]:
    found = {"PATH": _build_search_path(program, environ)}
    if any(host.startswith(_LOOPBACK) for host in wanted.hosts):
        # An address of this machine is meant, and not of its own loopback.
        found |= {"NO_PROXY": "", "no_proxy": ""}
    return found


def _build_search_path(program: _Program, environ: Mapping[str, str]) -> str:
    """Return the folders of the person's ``PATH`` that are there inside; the others tell about the person."""
    own = [str(path.parent if path.is_file() else path) for path in sorted(program.shown)]
    folders = environ.get("PATH", os.defpath).split(os.pathsep)
    system = [each for each in folders if _is_system(Path(each))] or ["/usr/bin"]
    return os.pathsep.join(dict.fromkeys((str(Path(program.path).parent), *own, *system)))


def _is_system(path: Path) -> bool:
    return any(path.is_relative_to(top) for top in _SYSTEM)


def _find_program(reached: StdioServer, environ: Mapping[str, str], project: Path) -> _Program:
    """Return the program of a server, found as without a sandbox, with what it takes that it starts.

    Raises:
        SandboxError: there is none.
    """
    search = reached.env.get("PATH") or environ.get("PATH", os.defpath)
    command = reached.command
    found = shutil.which(str(project / reached.cwd / command) if "/" in command else command, path=search)
    if found is None:
        raise SandboxError(f"`{command}` was not found", hint="install it, or name it by its whole path")
    path = Path(os.path.normpath(Path(found).absolute()))
    path = path.parent.resolve() / path.name
    shown = set(_iter_needed(path))
    for word in _read_interpreter(path):
        if interpreter := shutil.which(word, path=search):
            shown.update(_iter_needed(Path(interpreter)))
    home = Path(environ.get("HOME") or Path.home()).resolve()
    hidden = (each for each in shown if not _is_system(each) or each.is_relative_to(home))
    return _Program(path=str(path), shown=frozenset(hidden))


def _iter_needed(program: Path) -> Iterator[Path]:
    """Yield what has to be seen so that a program starts: each name of it, and what it belongs to."""
    for path in _iter_names(program):
        prefix = path.parent.parent
        if "node_modules" in path.parts[:-1]:
            yield Path(*path.parts[: path.parts.index("node_modules") + 1])
        elif path.parent.name == "bin" and (_is_environment(prefix) or _is_python(path, prefix)):
            # Not the whole: people install below their home, or make an environment of their project.
            yield from filter(Path.exists, (prefix / name for name in _PARTS))
        else:
            yield path


def _iter_names(program: Path) -> Iterator[Path]:
    """Yield a path and those that its links lead to, one after the other, with no link among the folders."""
    path = program.parent.resolve() / program.name
    for _ in range(_LINKS):
        yield path
        try:
            target = path.readlink()
        except OSError:  # it is no link
            return
        path = (path.parent / target).parent.resolve() / target.name


def _is_environment(prefix: Path) -> bool:
    return (prefix / "pyvenv.cfg").is_file()


def _is_python(program: Path, prefix: Path) -> bool:
    """Tell whether this is an interpreter with its library beside it."""
    return program.name.startswith(("python", "pypy")) and any(prefix.glob("lib/p*/os.py"))


def _read_interpreter(program: Path) -> tuple[str, ...]:
    """Return what a script says that interprets it: one word, or what ``env`` is to find; none otherwise."""
    with suppress(OSError, ValueError), program.open("rb") as file:
        head = file.read(_HEAD)
        if head.startswith(b"#!"):
            words = shlex.split(head[2:].partition(b"\n")[0].decode(errors="replace"))
            is_env = bool(words) and Path(words[0]).name == "env"
            return tuple(word for word in words[1:] if word != "-S")[:1] if is_env else tuple(words[:1])
    return ()
