"""Builds bubblewrap's mount arguments: what a program in the sandbox sees of the host's files.

This is an allow-list, so that what nobody thought of is not there. What the machine's other users cannot read
in /etc, /opt and /usr/local is hidden too, and so are the ways to the host's programs, sockets and pipes. The
user's home and what Kakite keeps of all runs are hidden wherever they lie.

Most of the mounts are made once for all commands of a task: a process in a mount namespace of its own has
them below one folder, and what it starts inherits all of that at once. Otherwise bubblewrap would read the
whole table of mounts for each single mount. What differs from command to command is mounted for each.

A mount that hides a file disappears when the file is replaced, as ``passwd`` replaces ``/etc/shadow``, and
what the host mounts later appears there writable. So each command first checks that all is as it should be
and that nothing was mounted or unmounted there; else the view is made again.
"""

from __future__ import annotations

import os
import shlex
import stat
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import kakite
from kakite.sandbox.base import SandboxError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from kakite.sandbox.files.project_folder import ProjectMount
    from kakite.sandbox.files.task_folder import TaskFolder
    from kakite.sandbox.spec import ResourceLimits


_SYSTEM = tuple(
    Path(path)
    for path in (
        *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt"),
        *("/nix/store", "/gnu/store", "/var/lib/ca-certificates"),
    )
)
"""Where programs and their settings lie. Not /var, /srv, /mnt, /data…: what lies there is somebody's."""

_SEARCHED = (Path("/etc"), Path("/opt"), Path("/usr/local"))
"""Where people and their programs put files of any mode. The rest of /usr is the distribution's."""

_OFTEN_SECRET = tuple(
    Path("/etc", name)
    for name in (
        *("environment", "gitconfig", "netrc", "npmrc", "pip.conf", "boto.cfg", "krb5.keytab"),
        *("apt/auth.conf", "apt/auth.conf.d", "containers/auth.json", "aws", "azure", "gcloud", "cloud"),
        *("docker", "kubernetes", "rancher", "NetworkManager", "wireguard", "openvpn"),
    )
)
"""What may hold credentials although everybody may read it."""

Mount = tuple[str, ...]
"""One thing that bubblewrap does to what is seen: its words, the path last."""


@dataclass(frozen=True, slots=True)
class _PathRule:
    """A path that is shown read-only, or hidden with what is below it; the deeper path decides."""

    path: Path
    shown: bool

    def to_mount(self) -> Mount:
        path = str(self.path)
        return ("--ro-bind", path, path) if self.shown else ("--tmpfs", path)


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonPaths:
    """The paths of the person's on the host."""

    home: Path
    state: Path
    """Where Kakite keeps what it knows of all runs."""
    project: Path
    """What is worked in: the task's own folder, or one of the person's."""
    shown: tuple[Path, ...] = ()
    """What else of theirs is shown, read-only."""
    mounts: Mapping[str, Path] = field(default_factory=dict[str, Path])
    """What is shown elsewhere, read-only, by the paths inside."""


def plan(
    folder: TaskFolder, person: PersonPaths, limits: ResourceLimits, *, home: str, project: str
) -> tuple[Mount, ...]:
    """Return what bubblewrap has to do, in order, so that programs of this task see what they may.

    Raises:
        SandboxError: Kakite's interpreter cannot be shown without showing the user's home.
    """
    private = _find_all_private()
    shown = [*_find_own_paths((person.home, *private)), *person.shown]
    inner = (*shown, Path(project))
    hidden = _find_hidden(folder, person, inner, private)
    writable_tmp = not any(path.is_relative_to("/tmp") for path in inner)  # noqa: S108 - a path inside
    return (
        *_iter_system_mounts(),
        *_iter_masks(folder, {*_OFTEN_SECRET, *private} - {*shown, *hidden}),
        ("--dev", "/dev"),
        _mount_tmpfs(limits, "/dev/shm"),  # noqa: S108 - a path inside
        ("--remount-ro", "/dev"),
        ("--proc", "/proc"),
        *_mask(folder, Path("/proc/keys")),
        # Root inside is the host's root to the kernel's settings (core_pattern!), which need no capability.
        ("--remount-ro", "/proc"),
        *(("--dir", path) for path in ("/run", "/home", "/root", "/var")),
        ("--symlink", "../run", "/var/run"),
        ("--symlink", "../tmp", "/var/tmp"),  # noqa: S108 - a path inside
        # A mount point below what programs can write could be swapped for a link between two starts.
        ("--bind", str(folder.temporary), "/tmp") if writable_tmp else _mount_tmpfs(limits, "/tmp"),  # noqa: S108
        *(place.to_mount() for place in _order_places(shown, hidden)),
        ("--bind", str(person.project), project),  # it may lie in what is hidden
        *(("--remount-ro", str(path)) for path in sorted(set(hidden))),
        ("--bind", str(folder.home), home),
        *(("--ro-bind", str(path), inside) for inside, path in sorted(person.mounts.items())),
        ("--ro-bind", str(_write_passwd(folder, home)), "/etc/passwd"),
        ("--remount-ro", "/"),
    )


def _find_hidden(
    folder: TaskFolder, person: PersonPaths, shown: tuple[Path, ...], private: tuple[Path, ...]
) -> list[Path]:
    """Return what lies in what is shown, and is nobody's business inside."""
    hidden = [
        place
        for place in (person.home, person.state, folder.path.parent)
        if place.is_dir() and _is_below(place, (*_SYSTEM, *shown)) and place not in shown
    ]
    # A mask is a mount in which nothing can be mounted: what holds more to show or to hide is hidden instead.
    return hidden + [
        place
        for place in private
        if place not in shown and any(inner.is_relative_to(place) for inner in (*shown, *hidden))
    ]


def _order_places(shown: Iterable[Path], hidden: Iterable[Path]) -> list[_PathRule]:
    """Return what is shown and what is hidden, so that the deeper path comes last."""
    rules = {_PathRule(path, shown=True) for path in shown} | {
        _PathRule(path, shown=False) for path in hidden
    }
    return sorted(rules, key=lambda place: len(place.path.parts))


def has_vanished(folder: TaskFolder, mount: Mount) -> bool:
    """Tell whether this hides a path that is gone: it would have to be made first."""
    if os.path.lexists(mount[-1]):
        return False
    return mount[0] in {"--tmpfs", "--remount-ro"} or mount[1] in folder.masks


def _mount_tmpfs(limits: ResourceLimits, path: str) -> Mount:
    """Mount an empty folder that lies in memory, and so may take a part of it alone."""
    return ("--perms", "1777", "--size", str(max(limits.memory // 2, 1 << 20)), "--tmpfs", path)


def _iter_system_mounts() -> Iterator[Mount]:
    for path in _SYSTEM:
        if path.is_symlink():
            yield ("--symlink", str(path.readlink()), str(path))
        elif path.is_dir():
            yield ("--ro-bind", str(path), str(path))


def _find_own_paths(hidden: tuple[Path, ...]) -> list[Path]:
    """Return the paths of Kakite and its interpreter, unless programs see them anyway."""
    package = Path(kakite.__file__).parent
    installed = package.parent.name in {"site-packages", "dist-packages"}
    places = [Path(sys.prefix), Path(sys.base_prefix), package.parent if installed else package]
    places += [place.resolve() for place in places]  # both names: links point at either
    user_home = hidden[0]
    for place in places:
        if user_home.is_relative_to(place) and not _is_below(place, _SYSTEM):
            raise SandboxError(
                f"`{place}` holds Kakite and all of your home, so it cannot be shown to programs",
                hint="install Kakite into a virtual environment in a separate folder",
            )
    return sorted({place for place in places if not _is_below(place, _SYSTEM) or _is_below(place, hidden)})


def _is_below(path: Path, parents: tuple[Path, ...]) -> bool:
    return any(path.is_relative_to(parent) for parent in parents)


def _iter_masks(folder: TaskFolder, paths: set[Path]) -> Iterator[Mount]:
    for path in sorted(paths):
        if paths.isdisjoint(path.parents):  # below a mask there is nothing left to mask
            yield from _mask(folder, path)


def _mask(folder: TaskFolder, path: Path) -> Iterator[Mount]:
    if not (path.is_symlink() or not path.exists() or _is_empty(path)):
        yield ("--ro-bind", str(folder.empty_folder if path.is_dir() else folder.empty_file), str(path))


def _is_empty(path: Path) -> bool:
    """Tell whether there is nothing to hide: each mount costs every command a fifth of a millisecond."""
    with suppress(OSError):
        if path.is_dir():
            return not any(path.iterdir())
        return path.is_file() and path.stat().st_size == 0 and not path.is_relative_to("/proc")
    return False


def _find_all_private() -> tuple[Path, ...]:
    """Return what is not for everybody below the visible folders, and we could reach."""
    return tuple(path for folder in _SEARCHED for path in _iter_private(folder))


def _iter_private(folder: Path) -> Iterator[Path]:
    """Yield what only the owner and its group can read, sockets and pipes, outermost first."""
    for entry in _list_entries(folder):
        with suppress(OSError):  # it is gone since
            mode = entry.stat(follow_symlinks=False).st_mode
            if (
                stat.S_ISSOCK(mode)
                or stat.S_ISFIFO(mode)
                or (_is_private_mode(mode) and _is_reachable(entry))
            ):
                yield Path(entry.path)
            elif stat.S_ISDIR(mode) and not _is_private_mode(mode):
                yield from _iter_private(Path(entry.path))


def _list_entries(folder: Path) -> list[os.DirEntry[str]]:
    with suppress(OSError), os.scandir(folder) as entries:  # what we may not look into, programs may not
        return list(entries)
    return []


def _is_private_mode(mode: int) -> bool:
    if stat.S_ISLNK(mode):
        return False
    wanted = stat.S_IROTH | stat.S_IXOTH if stat.S_ISDIR(mode) else stat.S_IROTH
    return mode & wanted != wanted


def _is_reachable(entry: os.DirEntry[str]) -> bool:
    """Tell whether the kernel lets us, and so programs, read it or go into it: a mask costs every command."""
    return os.access(entry.path, os.R_OK) or (entry.is_dir() and os.access(entry.path, os.X_OK))


def _write_passwd(folder: TaskFolder, home: str) -> Path:
    """Make the list of users: programs ask it for the home as often as the environment."""
    uid, gid = os.getuid(), os.getgid()
    name = "root" if uid == 0 else "user"
    users = folder.path / "passwd"
    users.write_text(
        f"{name}:x:{uid}:{gid}::{home}:/bin/sh\nnobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n",
        encoding="utf-8",
    )
    return users


_NAMESPACE = ("--unshare-user", "--cap-drop", "ALL")
_AS_ROOT = ("--cap-add", "CAP_SETFCAP")
"""Without it a namespace within would have no root."""
_HOST = ("--dev-bind", "/", "/")
"""All of it, for what starts the commands is our own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MountSetup:
    """The way to make the mounts that are made once."""

    words: tuple[str, ...]
    """Bubblewrap's, for who starts the commands."""
    places: tuple[tuple[str, str, str], ...]
    """What has to hold before each command, for its starter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MountView:
    """The mounts made once, and those made for each command; the paths as commands see them."""

    folder: TaskFolder
    once: tuple[Mount, ...]
    each: tuple[Mount, ...]
    protect: Callable[[], Iterable[ProjectMount]]
    """Tells what is mounted over the project, as it is now."""
    project: str

    @property
    def mark(self) -> tuple[str, ...]:
        """A text in the arguments of each command's bubblewrap, and nobody else's."""
        return ("--dev-bind", str(self.folder.view), "/")

    def build_setup(self) -> MountSetup:
        """Tell how it is made, below one folder, and what has to hold then: from one look."""
        top = str(self.folder.view)
        root = _AS_ROOT if os.getuid() == 0 else ()
        words = [*_NAMESPACE, *root, *_HOST]
        places = [("top", "", top)]
        for mount in self.once:
            place = f"{top}{mount[-1]}".rstrip("/")
            gone = has_vanished(self.folder, mount)
            places += self._iter_checks(mount, place, gone=gone)
            if not gone:
                words += (*mount[:-1], place)
        protected = tuple(self.protect())
        for mount in protected:
            places += _iter_project_checks(mount, f"{top}{self.project}/{mount.path}")
        words += build_project_words(protected, f"{top}{self.project}")
        return MountSetup(words=tuple(words), places=tuple(places))

    def build_args(self) -> tuple[str, ...]:
        """Return bubblewrap's words for each command."""
        there = (mount for mount in self.each if not has_vanished(self.folder, mount))
        return (*self.mark, *(word for mount in there for word in mount))

    def _iter_checks(self, mount: Mount, place: str, *, gone: bool) -> Iterator[tuple[str, str, str]]:
        if gone:
            yield "absent", "", place
        elif mount[0] == "--tmpfs" and mount[-1] != "/":
            yield "hidden", mount[-1], place
        elif mount[0] == "--dev":
            yield "own", "", place  # a folder in memory with a few devices: no mount of the host's gets there
        elif mount[0] in {"--bind", "--ro-bind"}:
            yield "masked" if mount[1] in self.folder.masks else "shown", mount[1], place
            if mount[0] == "--bind":
                yield "written", "", place


def build_project_words(mounts: Iterable[ProjectMount], project: str) -> list[str]:
    """Return bubblewrap's words for what is mounted over the project."""
    return [
        word
        for mount in mounts
        if mount.identity
        for word in ("--ro-bind" if mount.sealed else "--bind", str(mount.source), f"{project}/{mount.path}")
    ]


def build_project_guard(mounts: Iterable[ProjectMount], project: str) -> str:
    """Return what the first process does before any program, in a shell's words: it makes sure of that.

    A program of another command may have put a link in the way while bubblewrap mounted.
    """
    there = [mount for mount in mounts if mount.identity]
    if not there:
        return ""
    paths = shlex.join(f"{project}/{mount.path}" for mount in there)
    wanted = shlex.quote("\n".join(mount.identity for mount in there))
    failing = "echo 'bwrap: the project changed while it was mounted' >&2; exit 1"
    return f'[ "$(command -p stat -c %d:%i -- {paths})" = {wanted} ] || {{ {failing}; }}\n'


def _iter_project_checks(mount: ProjectMount, place: str) -> Iterator[tuple[str, str, str]]:
    if mount.identity:
        yield "identity", mount.identity, place
        yield "sealed" if mount.sealed else "pinned", "", place
    else:
        yield "absent", "", place


def build_view(
    folder: TaskFolder,
    planned: tuple[Mount, ...],
    *,
    empty: str,
    protect: Callable[[], Iterable[ProjectMount]] = tuple,
    project: str = "",
) -> MountView:
    """Tell what of this plan is mounted once; in ``empty`` each command may have something mounted.

    Each has its own of its processes and of what is in memory, and of all that lies below these.
    """
    own = {mount[-1] for mount in planned if mount[0] in {"--proc", "--perms"}}
    once: list[Mount] = [("--tmpfs", "/"), ("--dir", empty)]
    each: list[Mount] = []
    for mount in planned:
        if {str(path) for path in (PurePosixPath(mount[-1]), *PurePosixPath(mount[-1]).parents)} & own:
            each.append(mount)
        else:
            once.append(mount)
        if mount[0] in {"--proc", "--perms"}:
            once.append(("--dir", mount[-1]))
    return MountView(folder=folder, once=tuple(once), each=tuple(each), protect=protect, project=project)
