"""What a program in bubblewrap sees of the host's files, as bubblewrap's arguments.

An allow-list, so that what nobody thought of is not there. Where Kakite runs as root, what the machine's
other users cannot read in /etc, /opt and /usr/local is hidden too. The user's home and what Kakite keeps of
all runs are hidden wherever they lie.
"""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import kakite
from kakite.sandbox.sandbox import SandboxError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kakite.sandbox.folder import TaskFolder

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


@dataclass(frozen=True, slots=True)
class _Place:
    """A path that is shown read-only, or hidden with what is below it; the deeper path decides."""

    path: Path
    shown: bool

    def arguments(self) -> tuple[str, ...]:
        path = str(self.path)
        return ("--ro-bind", path, path) if self.shown else ("--tmpfs", path)


def plan(folder: TaskFolder, user_home: Path, state: Path, *, home: str, project: str) -> tuple[str, ...]:
    """Return bubblewrap's arguments that build what programs of this task see.

    Raises:
        SandboxError: Kakite's interpreter cannot be shown without showing the user's home.
    """
    private = _all_private()
    shown = _own_places((user_home, *private))
    visible = (*_SYSTEM, *shown)
    hidden = [
        place
        for place in (user_home, state, folder.path.parent)
        if place.is_dir() and _below(place, visible) and place not in shown
    ]
    # A mask is a mount in which nothing can be mounted: what holds more to show or to hide is hidden instead.
    hidden += [
        place
        for place in private
        if place not in shown and any(inner.is_relative_to(place) for inner in (*shown, *hidden))
    ]
    places = sorted(
        {
            *(_Place(path, shown=True) for path in shown),
            *(_Place(path, shown=False) for path in hidden),
        },
        key=lambda place: len(place.path.parts),
    )
    writable_tmp = not any(path.is_relative_to("/tmp") for path in shown)  # noqa: S108 - a path inside
    return (
        *_system(),
        *_masks(folder, {*_OFTEN_SECRET, *private} - {*shown, *hidden}),
        *("--dev", "/dev", "--proc", "/proc"),
        # Root inside is the host's root to the kernel's settings (core_pattern!), which need no capability.
        *("--remount-ro", "/proc"),
        *("--dir", "/run", "--dir", "/home", "--dir", "/root", "--dir", "/var"),
        *("--symlink", "../run", "/var/run", "--symlink", "../tmp", "/var/tmp"),  # noqa: S108 - a path inside
        # A mount point below what programs can write could be swapped for a link between two starts.
        *(("--bind", str(folder.temporary), "/tmp") if writable_tmp else ("--tmpfs", "/tmp")),  # noqa: S108
        *(argument for place in places for argument in place.arguments()),
        *(argument for path in sorted(set(hidden)) for argument in ("--remount-ro", str(path))),
        *("--bind", str(folder.project), project, "--bind", str(folder.home), home),
        *("--ro-bind", str(_users(folder, home)), "/etc/passwd"),
        *("--remount-ro", "/"),
    )


def _system() -> Iterator[str]:
    for path in _SYSTEM:
        if path.is_symlink():
            yield from ("--symlink", str(path.readlink()), str(path))
        elif path.is_dir():
            yield from ("--ro-bind", str(path), str(path))


def _own_places(hidden: tuple[Path, ...]) -> list[Path]:
    """Where Kakite and its interpreter lie, unless programs see that anyway."""
    package = Path(kakite.__file__).parent
    installed = package.parent.name in {"site-packages", "dist-packages"}
    places = [Path(sys.prefix), Path(sys.base_prefix), package.parent if installed else package]
    places += [place.resolve() for place in places]  # both names: links point at either
    user_home = hidden[0]
    for place in places:
        if user_home.is_relative_to(place) and not _below(place, _SYSTEM):
            raise SandboxError(
                f"`{place}` holds Kakite and all of your home, so it cannot be shown to programs",
                hint="install Kakite into a virtual environment in a folder of its own",
            )
    return sorted({place for place in places if not _below(place, _SYSTEM) or _below(place, hidden)})


def _below(path: Path, parents: tuple[Path, ...]) -> bool:
    return any(path.is_relative_to(parent) for parent in parents)


def _masks(folder: TaskFolder, paths: set[Path]) -> Iterator[str]:
    for path in sorted(paths):
        yield from _mask(folder, path)


def _mask(folder: TaskFolder, path: Path) -> tuple[str, ...]:
    if path.is_symlink() or not path.exists():
        return ()
    return ("--ro-bind", str(folder.empty_folder if path.is_dir() else folder.empty_file), str(path))


def _all_private() -> tuple[Path, ...]:
    """Return what root could read below the visible folders and the machine's other users cannot."""
    if os.geteuid() != 0:
        return ()
    return tuple(path for folder in _SEARCHED for path in _private(folder))


def _private(folder: Path) -> Iterator[Path]:
    """What other users than the owner and its group cannot read, outermost first."""
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_symlink():
                continue
            if _closed(entry):
                yield Path(entry.path)
            elif entry.is_dir():
                yield from _private(Path(entry.path))


def _closed(entry: os.DirEntry[str]) -> bool:
    mode = entry.stat(follow_symlinks=False).st_mode
    wanted = stat.S_IROTH | stat.S_IXOTH if entry.is_dir() else stat.S_IROTH
    return mode & wanted != wanted


def _users(folder: TaskFolder, home: str) -> Path:
    """Make the list of users: programs ask it for the home as often as the environment."""
    uid, gid = os.getuid(), os.getgid()
    name = "root" if uid == 0 else "user"
    users = folder.path / "passwd"
    users.write_text(
        f"{name}:x:{uid}:{gid}::{home}:/bin/sh\nnobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n",
        encoding="utf-8",
    )
    return users
