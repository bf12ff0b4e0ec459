"""The person's own folder, in which a session works as it is.

Programs see it, writable, where a task's checkout would be. But git runs what a repository's settings say: a
``core.fsmonitor`` runs on the host at the person's next ``git status``. So a repository stays as it is:

- it is *sealed*, a mount of its own that is read-only: its files have no other name that could be written;
- each folder above it, below the project, is *pinned*, a mount of its own as well: what is a mount can be
  neither renamed nor replaced from within;
- where there is no ``.git``, an empty folder is made and sealed, so that none can be made, and likewise
  ``HEAD``, without which git takes no folder for a repository. It is gone after, and a bit of its mode tells
  that it is ours where we were killed.

Programs of another session may change the folder while we look: no link is followed, and what was mounted is
compared with what we saw before any program begins.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
import subprocess
import sys
from collections import deque
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import kakite
from kakite.sandbox.base import SandboxError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping

FOLDERS = 20_000
"""Folders in which repositories are looked for, those near the top first."""
REPOSITORIES = 200
"""Each costs mounts."""
_GIT_ENDS = 20.0
"""Seconds that git may take to list the submodules."""
_OURS = 0o1755
"""The mode of a folder that is there to be mounted on: no folder of git has the sticky bit."""
_TRIES = 100
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_UNFIT = "project_unfit"
_INCLUDES = re.compile(r"include\.path|includeif\..*\.path", re.DOTALL)
"""Settings that name a file with further ones."""
_AT_TOP = (".git", "HEAD")
"""What must not be made at the top by a program."""

ENVIRONMENT: Mapping[str, str] = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.directory",
    "GIT_CONFIG_VALUE_0": "*",
}
"""What lets git read a repository that it cannot write, whoever owns it: inside it has nothing to lose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectMount:
    """A path of the project that is mounted by itself."""

    path: str
    """Relative to the project."""
    source: Path
    sealed: bool
    """Read-only; else pinned alone."""
    identity: str
    """Device and number of what was there; empty for what is there no more."""


class ProjectFolder:
    """The person's folder while programs of one session see it. ``open``, and in the end ``close``."""

    def __init__(self, path: Path, task: Path, environ: Mapping[str, str]) -> None:
        self.path = path.resolve()
        self.gitdirs: tuple[Path, ...] = ()
        """Repositories outside of it to which its ``.git`` leads, to be shown read-only where they are."""
        self.notes: tuple[str, ...] = ()
        """What the person should know of it."""
        self._git_file = task / "git-file"
        self._git = shutil.which("git", path=environ.get("PATH", os.defpath))
        whose = ("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM")
        self._git_environ = {name: environ[name] for name in whose if name in environ} | {
            "PATH": os.defpath,
            "LC_ALL": "C",
            "GIT_NO_LAZY_FETCH": "1",
        }
        self._sealed: set[str] = set()
        self._stand_in = False
        self._made: dict[str, int] = {}
        """The folders that we hold to mount on, by their path, with a descriptor that holds the lock."""

    @property
    def sealed(self) -> tuple[str, ...]:
        """What has to stay as it is, as paths of the folder."""
        return tuple(sorted(self._sealed))

    def open(self, private: Iterable[Path]) -> None:
        """Look for what has to stay as it is, and make what is missing. Blocks; safe to repeat.

        Raises:
            SandboxError: there is no such folder, code ``folder_missing``; it holds one of the ``private``
                ones, or is a repository itself, or cannot be protected, code ``project_unfit``.
        """
        self._check(private)
        notes: list[str] = []
        with self._open_top() as top:
            self._look_at_git(top, notes, private)
            found, whole = _find_repositories(top)
            links = {_find_submodule(top, link) for link in self._list_gitlinks()}
            nested = sorted(found | links, key=lambda path: (path not in links, path.count("/"), path))
            if not whole or len(nested) > REPOSITORIES:
                notes.append("it has too many folders or repositories: not all inside it are protected")
            self._sealed |= {".git", *self._find_own_paths(), *self._find_obeyed(), *nested[:REPOSITORIES]}
            if not _is_repository_entry(top, ".git"):
                self._sealed.add("HEAD")
        self.notes = tuple(notes)
        self.build_mounts()

    def build_mounts(self) -> tuple[ProjectMount, ...]:
        """Return what is to be mounted now over the project, in this order. Blocks shortly.

        Raises:
            SandboxError: what is missing cannot be made.
        """
        if not self._sealed:
            raise SandboxError("the sandbox was not prepared")
        # Below what is sealed nothing is to be mounted: it would be writable there.
        sealed = {path for path in self._sealed if self._sealed.isdisjoint(_list_parents(path))}
        pinned = {above for path in sealed for above in _list_parents(path)}
        with self._open_top() as top:
            for path in sorted(sealed):
                self._make(top, path)
            by_depth = sorted(pinned | sealed, key=lambda path: (path.count("/"), path))
            mounts = tuple(self._describe(top, path) for path in by_depth)
        for mount in mounts:
            if mount.path in _AT_TOP and not mount.identity:
                raise _build_unprotected_error(self.path / mount.path, "it is neither a folder nor a file")
        return mounts

    def get_owner(self) -> str:
        """Return the user and group whose folder it is, for programs to work as."""
        found = self.path.stat()
        return f"{found.st_uid}:{found.st_gid}"

    def get_identity(self) -> str:
        """Return which folder it is: its device and number."""
        return _format_identity(self.path.stat())

    def close(self) -> None:
        """Remove the folders that we made, unless something was put in or another session uses them."""
        made, self._made = self._made, {}
        with suppress(OSError, SandboxError), self._open_top() as top:
            # The deepest first: one may lie in another.
            for path, held in sorted(made.items(), reverse=True):
                with suppress(OSError):
                    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    _remove(top, path, held)
        for held in made.values():
            os.close(held)

    @contextmanager
    def _open_top(self) -> Generator[int]:
        try:
            top = os.open(self.path, _FOLDER)
        except OSError as error:
            raise SandboxError(f"there is no folder `{self.path}`", code="folder_missing") from error
        try:
            yield top
        finally:
            os.close(top)

    def _check(self, private: Iterable[Path]) -> None:
        for inner in private:
            if inner.resolve().is_relative_to(self.path):
                raise SandboxError(
                    f"`{self.path}` holds `{inner}`, so programs may not work in it",
                    hint="start in the folder of one project, not in your home or above",
                    code=_UNFIT,
                )
        if self.path in _find_kakite():
            raise SandboxError(
                f"`{self.path}` is where Kakite itself is installed",
                hint="install Kakite into a separate folder, with `uv tool install` for one",
                code=_UNFIT,
            )

    def _find_own_paths(self) -> Iterator[str]:
        """Yield where Kakite is installed below: it runs on the host."""
        for place in _find_kakite():
            if place.is_relative_to(self.path):
                yield place.relative_to(self.path).as_posix()

    def _look_at_git(self, top: int, notes: list[str], private: Iterable[Path]) -> None:
        """Find out what ``.git`` is, and to where it leads."""
        self.gitdirs, self._stand_in = (), False
        if _is_repository_at(top):
            raise SandboxError(
                f"`{self.path}` is a bare repository",
                hint="start in a checkout: `git worktree add ../checkout`",
                code=_UNFIT,
            )
        try:
            mode = os.stat(".git", dir_fd=top, follow_symlinks=False).st_mode
        except FileNotFoundError:
            return
        if stat.S_ISLNK(mode):
            raise SandboxError(
                "`.git` is a symbolic link, which cannot be protected",
                hint="put a file in its place that says `gitdir: PATH`",
                code=_UNFIT,
            )
        if stat.S_ISREG(mode):
            self._follow_git_file(notes, private)

    def _follow_git_file(self, notes: list[str], private: Iterable[Path]) -> None:
        gitdir = _read_path(self.path / ".git", "gitdir: ")
        if gitdir and gitdir != self.path and gitdir.is_relative_to(self.path):
            self._sealed.add(gitdir.relative_to(self.path).as_posix())
            return
        common = gitdir and _find_common(gitdir, self.path)
        if not common or any(place.is_relative_to(common) for place in private):
            notes.append("git does not work in commands: `.git` leads to a repository outside of the project")
            return
        self.gitdirs = (common,)
        # A path relative to the project would lead elsewhere inside.
        self._git_file.write_text(f"gitdir: {gitdir}\n", encoding="utf-8", errors="surrogateescape")
        self._stand_in = True

    def _list_gitlinks(self) -> set[str]:
        """Return the places of submodules: git looks into each as soon as there is a ``.git`` in it."""
        entries = self._ask_git("ls-files", "--stage", "-z").split("\0")
        return {entry.partition("\t")[2] for entry in entries if entry.startswith("160000 ")}

    def _find_obeyed(self) -> Iterator[str]:
        """Yield what git takes settings or hooks from outside of ``.git``: ``git status`` runs some hooks.

        Raises:
            SandboxError: such a file is not there, so that a program could make it.
        """
        listed = self._ask_git("config", "--list", "--includes", "--show-origin", "-z").split("\0")
        for origin, said in zip(listed[::2], listed[1::2], strict=False):
            if origin.startswith("file:"):
                file = self.path / origin.removeprefix("file:")
                yield from self._find_below(file)
                yield from self._find_named(file, *said.partition("\n")[::2])
        if (self.path / ".git").exists():
            hooks = self._ask_git("rev-parse", "--git-path", "hooks").removesuffix("\n")
            yield from self._find_below(self.path / hooks)

    def _find_named(self, file: Path, key: str, value: str) -> Iterator[str]:
        """Yield the file that a setting names, of those that git reads or runs when it merely looks."""
        if _INCLUDES.fullmatch(key):
            named = file.parent / Path(value).expanduser()
        elif key == "core.fsmonitor" and "/" in value:
            named = self.path / value
        else:
            return
        for path in self._find_below(named):
            if not (self.path / path).exists():
                raise _build_unprotected_error(
                    self.path / path, f"git's `{key}` names it, and it is not there"
                )
            yield path

    def _find_below(self, file: Path) -> Iterator[str]:
        """Yield its path in the project, if it is in there. Links stay: what is mounted is what git opens."""
        place = Path(os.path.normpath(file))
        if place != self.path and place.is_relative_to(self.path):
            yield place.relative_to(self.path).as_posix()

    def _ask_git(self, *words: str) -> str:
        """Return what git on the host says of the folder, with no program of its settings run."""
        if not self._git:
            return ""
        quiet = ("-c", "core.fsmonitor=false", "-c", "protocol.allow=never")
        try:
            done = subprocess.run(
                (self._git, *quiet, *words),
                cwd=self.path,
                env=self._git_environ,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_GIT_ENDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return os.fsdecode(done.stdout)

    def _make(self, top: int, path: str) -> None:
        """Make an empty folder to mount on where nothing is, or hold one of ours that is there."""
        if path in self._made:
            if _get_identity(top, path) == _format_identity(os.fstat(self._made[path])):
                return
            os.close(self._made.pop(path))
        try:
            for _ in range(_TRIES):
                with _open_parent(top, path) as (parent, name):
                    held = _hold_ours(parent, name)
                    if held is None:
                        return  # it is the person's
                    if held and _get_identity(top, path) == _format_identity(os.fstat(held)):
                        self._made[path] = held
                        return
                if held:
                    os.close(held)  # somebody removed it before we held it
        except OSError as error:
            if path in _AT_TOP:
                raise _build_unprotected_error(self.path / path, error.strerror or "") from error

    def _describe(self, top: int, path: str) -> ProjectMount:
        sealed = path in self._sealed
        if path == ".git" and self._stand_in:
            identity = _format_identity(self._git_file.stat())
            return ProjectMount(path=path, source=self._git_file, sealed=True, identity=identity)
        identity = _get_identity(top, path)
        return ProjectMount(path=path, source=self.path / path, sealed=sealed, identity=identity)


def build_not_writable_error(path: Path) -> SandboxError:
    """Return the error for a folder in which programs may not write."""
    return SandboxError(
        f"programs cannot write in `{path}`, which belongs to user {path.stat().st_uid}",
        hint="start Kakite as the user whose folder it is",
        code=_UNFIT,
    )


def _build_unprotected_error(path: Path, why: str) -> SandboxError:
    return SandboxError(
        f"`{path}` cannot be protected: {why}",
        hint="Kakite mounts a folder there, so that no program can make a repository that git would obey",
        code=_UNFIT,
    )


def _find_kakite() -> set[Path]:
    package = Path(kakite.__file__).parent
    installed = package.parent.name in {"site-packages", "dist-packages"}
    places = (package.parent if installed else package, Path(sys.prefix), Path(sys.base_prefix))
    return {place.resolve() for place in places}


def _read_path(file: Path, prefix: str = "") -> Path | None:
    """Return the path that is all that a file of git's says, as it is without links."""
    with suppress(OSError, ValueError, RuntimeError):
        said = os.fsdecode(file.read_bytes())
        if said.startswith(prefix):
            return Path(file.parent, said.removeprefix(prefix).rstrip("\r\n")).resolve(strict=True)
    return None


def _find_common(gitdir: Path, project: Path) -> Path | None:
    """Return the repository of a worktree, if it says that this is one of its worktrees.

    A ``.git`` that somebody else wrote must not show programs another of the person's repositories.
    """
    common = gitdir.parent.parent
    fits = (
        gitdir.parent.name == "worktrees"
        and _read_path(gitdir / "commondir") == common
        and _read_path(gitdir / "gitdir") == project / ".git"
        and all((common / name).exists() for name in ("HEAD", "objects", "refs"))
    )
    return common if fits else None


# Paths below the project, without following a link


@contextmanager
def _open_parent(top: int, path: str) -> Generator[tuple[int, str]]:
    """Yield the folder of a path, and the last name of it."""
    *folders, name = path.split("/")
    current = os.dup(top)
    try:
        for folder in folders:
            current, before = os.open(folder, _FOLDER, dir_fd=current), current
            os.close(before)
        yield current, name
    finally:
        os.close(current)


def _get_identity(top: int, path: str) -> str:
    """Return which file or folder a path is; nothing if it is none, or a link."""
    with suppress(OSError), _open_parent(top, path) as (parent, name):
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode):
            return _format_identity(found)
    return ""


def _format_identity(found: os.stat_result) -> str:
    return f"{found.st_dev}:{found.st_ino}"


def _hold_ours(parent: int, name: str) -> int | None:
    """Make an empty folder where nothing is, and return a descriptor that holds it.

    None if something else is there; 0 if who removes it holds it just now.
    """
    made = False
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=parent)
        made = True
    found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    if not stat.S_ISDIR(found.st_mode) or not (made or stat.S_IMODE(found.st_mode) == _OURS):
        return None
    with ExitStack() as closing:
        held = os.open(name, _FOLDER, dir_fd=parent)
        closing.callback(os.close, held)
        if os.listdir(held):  # noqa: PTH208 - pathlib does not know descriptors
            return None
        if made:
            os.fchmod(held, _OURS)
        try:
            fcntl.flock(held, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return 0
        closing.pop_all()
        return held


def _remove(top: int, path: str, held: int) -> None:
    with _open_parent(top, path) as (parent, name):
        if _format_identity(os.stat(name, dir_fd=parent, follow_symlinks=False)) == _format_identity(
            os.fstat(held)
        ):
            os.rmdir(name, dir_fd=parent)


def _find_submodule(top: int, path: str) -> str:
    """Return what to seal of a submodule: its ``.git``, or all of it while it is not checked out.

    Where it is not even there: the first part of its path that is missing.
    """
    for part in (*reversed(_list_parents(path)), path):
        if not _get_identity(top, part):
            return part
    return f"{path}/.git" if _get_identity(top, f"{path}/.git") else path


def _list_parents(path: str) -> list[str]:
    """Return the folders above, below the project, the nearest first."""
    return [str(above) for above in PurePosixPath(path).parents][:-1]


def _find_repositories(top: int) -> tuple[set[str], bool]:
    """Return what is a repository below the top, and whether all of it was looked at."""
    found: set[str] = set()
    coming = deque([""])
    for _ in range(FOLDERS):
        if not coming:
            return found, True
        folder = coming.popleft()
        with suppress(OSError), _open_parent(top, f"{folder}/.".lstrip("/")) as (here, _):
            entries = {entry.name: entry for entry in _list_entries(here)}
            if folder and _is_repository_at(here):
                found.add(folder)
                continue
            if folder and ".git" in entries:
                # Nothing can be mounted on a link: all of the folder stays as it is.
                found.add(folder if entries[".git"].is_symlink() else f"{folder}/.git")
            inner = (name for name, entry in entries.items() if entry.is_dir(follow_symlinks=False))
            coming += (f"{folder}/{name}".lstrip("/") for name in sorted(inner) if name != ".git")
    return found, not coming


def _list_entries(folder: int) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        return list(entries)


def _is_repository_at(folder: int) -> bool:
    """Tell whether git would take a folder for a repository, at most: it looks into ``HEAD`` as well."""
    return all(_exists(folder, name) for name in ("HEAD", "objects", "refs"))


def _is_repository_entry(folder: int, name: str) -> bool:
    """Tell whether it is a repository, or a file that leads to one: git looks no further then."""
    with suppress(OSError):
        if stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            return True
        inner = os.open(name, _FOLDER, dir_fd=folder)
        try:
            return _is_repository_at(inner)
        finally:
            os.close(inner)
    return False


def _exists(folder: int, name: str) -> bool:
    with suppress(OSError):
        os.stat(name, dir_fd=folder, follow_symlinks=False)
        return True
    return False
