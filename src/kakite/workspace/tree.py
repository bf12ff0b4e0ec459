"""A confined tree of files: read with a version, written whole or not at all, undone."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

from kakite.workspace.batch import Planned, carry_out, settle
from kakite.workspace.contents import File, version_of
from kakite.workspace.denied import DENIED, DenyList, check_repositories
from kakite.workspace.entries import Author, Intent
from kakite.workspace.failures import WorkspaceError, joined, naming
from kakite.workspace.history import History
from kakite.workspace.ignoring import ignoring_at
from kakite.workspace.links import LINK_HOPS, follow, locate
from kakite.workspace.listing import Found, Listing, Room, Shown, Walked, list_entries, sized, walk_files
from kakite.workspace.naming import join_path, split_path
from kakite.workspace.place import Place, Step, read_regular, remove_folders, require_size
from kakite.workspace.planning import (
    Undoing,
    Writing,
    amend_last,
    files_of,
    other_name,
    plan_again,
    plan_last,
    plan_move_back,
    plan_run,
    plan_write,
    step_of,
)
from kakite.workspace.roots import (
    Folders,
    Kept,
    Root,
    find_root,
    link_target,
    make_folders,
    open_once,
    opened_beneath,
)

NOBODY = Author()


class Workspace:
    """One or more folders that tools may see, and nothing else.

    Relative paths lie in the first root; absolute ones must lie beneath one of them. May be used from several
    threads at once; a write waits for others of the same file.
    """

    def __init__(
        self,
        roots: Sequence[str | os.PathLike[str]],
        *,
        denied: Sequence[str] = DENIED,
        history: History | None = None,
    ) -> None:
        """Open the folders, and settle what a process that was killed left in the middle.

        Without a ``history``, writes can be undone as long as this object lives.
        """
        if not roots:
            raise WorkspaceError("no_root", "", "a workspace needs a folder", hint="give one with --root DIR")
        self._roots: tuple[Root, ...] = tuple(Root(os.fspath(root)) for root in roots)
        self._denied = DenyList(denied)
        self.history = history or History(None)
        self.history.tell_roots(self.roots)
        state = self.history.state
        self._kept = () if state is None else (Kept(state), Kept(state / "history"))
        self._settle_all()

    def close(self) -> None:
        """Give the folders' descriptors back, once calls in other threads are through with them.

        The workspace cannot be used any more.
        """
        self._roots = ()
        self.history.close()

    @property
    def roots(self) -> tuple[str, ...]:
        """The absolute paths of the roots, the first one being where relative paths start."""
        return tuple(root.path for root in self._roots)

    def read(self, path: str) -> File:
        """Read a regular file.

        Raises:
            WorkspaceError: it is not there, not a file, too large, or out of the workspace.
        """
        with self._opened(path, os.O_RDONLY | os.O_NONBLOCK) as (_, file, real):
            data = read_regular(file, path)
        return File(path=real, data=data, version=version_of(data))

    def real(self, path: str) -> str:
        """Return an absolute path with its root's real name in place of the one that the root was given by.

        Any other path is returned as it is. Links further down are not followed.
        """
        if not path.startswith("/"):
            return path
        root, relative = find_root(self._roots, path) or (None, "")
        slash = "/" if path.endswith("/") else ""
        return path if root is None else f"{root.path.rstrip('/')}/{relative}{slash}"

    def mode(self, path: str) -> int:
        """Return the permission bits of a file.

        Raises:
            WorkspaceError: it is not there, or lies out of the workspace.
        """
        with self._opened(path, os.O_PATH) as (_, found, _):
            return stat.S_IMODE(os.fstat(found).st_mode)

    def other_names(self, path: str) -> int:
        """Return how many names a file has besides this one: hard links, which a write leaves as they are.

        Raises:
            WorkspaceError: it is not there, or lies out of the workspace.
        """
        with self._opened(path, os.O_PATH) as (_, found, _):
            return os.fstat(found).st_nlink - 1

    def write(self, path: str, data: bytes, *, expected: str | None, by: Author = NOBODY) -> File:
        """Replace the content of a file, or create it, whole or not at all, and remember how to undo it.

        ``expected`` is the version that the caller has read; None says that the file must not exist.

        Raises:
            WorkspaceError: ``stale`` if somebody changed the file since, ``file_exists``, ``write_denied``, …
        """
        (file,) = self.write_all([Writing(path=path, data=data, expected=expected)], by=by)
        return file

    def remove(self, path: str, *, expected: str, by: Author = NOBODY) -> None:
        """Remove a file of this version, and remember how to bring it back.

        Raises:
            WorkspaceError: ``stale`` if somebody changed the file since, ``file_not_found``, …
        """
        self.write_all([Writing(path=path, data=None, expected=expected)], by=by)

    def write_all(self, writes: Sequence[Writing], *, by: Author = NOBODY) -> tuple[File, ...]:
        """Write and remove several files: all of them, or nothing, also when this process is killed.

        Returns the files that are there now, in the order of ``writes``, without the removed ones.

        Raises:
            WorkspaceError: ``each`` names every file that could not be written, if there are several.
        """
        for each in writes:
            self._check(each)
        with self._held([(each.path, each.creates) for each in writes]) as places:
            plans = self._planned(writes, places)
            carry_out(plans, self.history, by=by)
        return tuple(
            File(path=plan.place.path, data=plan.after, version=plan.versions[1] or version_of(plan.after))
            for plan in plans
            if plan.after is not None
        )

    @contextmanager
    def turn(self, paths: Sequence[str]) -> Generator[None]:
        """Keep other threads and processes that take turns from writing these files while the block lasts.

        Who plans a write and carries it out within one turn need not begin again because others are at
        work too. It keeps nobody from reading, nor those who take no turn from writing.

        Raises:
            WorkspaceError: ``busy`` if others had theirs for 10 seconds; ``history_failed``.
        """
        with self.history.turn(*{self._key(path) for path in paths}):
            yield

    def _key(self, path: str) -> str:
        """Return what stands for the file in a queue: two paths of one file have the same."""
        with suppress(OSError, WorkspaceError), ExitStack() as opened:
            return self._place(opened, {}, path, create_folders=False).key
        return ascii(path)  # there is no such folder, or it may not be written: this is found out when it is

    def amend(self, path: str, written: bytes) -> File | None:
        """Take what a program has made of a file into the last write of it, which left ``written``.

        Both are undone together then. Returns the file as it is now; None if it is what was written.
        """
        with self._held([(path, False)]) as places:
            now = amend_last(places[0], path, written, self.history)
            return None if now is None else File(path=places[0].path, data=now, version=version_of(now))

    def check_writable(self, path: str) -> None:
        """Check whether a file may be written or come to be at this path. Creates nothing.

        Raises:
            WorkspaceError: ``write_denied``, ``path_escapes``, ``bad_path``: a write would fail by its path.
        """
        with naming(path), suppress(FileNotFoundError), ExitStack() as opened:
            check_repositories([self._place(opened, {}, path, create_folders=False)], [path])

    def undo(self, path: str) -> None:
        """Take the last write of this file back: its content before, or, if that created it, its absence.

        Raises:
            WorkspaceError: ``nothing_to_undo``, or ``stale`` if the file changed since that write.
        """
        self.take_back(self.undoing(path))

    def undo_run(self, run: str) -> tuple[Undoing, ...]:
        """Take back all writes of a run: all of them, or nothing. Returns what was done.

        Raises:
            WorkspaceError: ``nothing_to_undo``, or ``stale`` if one of the files changed since.
        """
        undoing = self.undoing(run=run)
        self.take_back(undoing)
        return undoing

    def undoing(
        self, path: str | None = None, *, run: str | None = None, by: str | None = None
    ) -> tuple[Undoing, ...]:
        """Return what ``undo`` of the path, or ``undo_run`` of the run, would do. Changes nothing.

        Of a file that was moved, both its names are undone together, the one asked for first. ``by`` is the
        run that asks: its own writes of the file come before those of others.

        Raises:
            WorkspaceError: as they do; ``stale`` if others wrote there after the run that asks.
        """
        # Folders that are missing are there as long as this lasts: a file that comes back may need them.
        if path is None:
            with self._held([(each, True) for each in files_of(run or "", self.history)]) as places:
                return tuple(map(Undoing.of, plan_run(places, run or "", self.history)))
        with self._held([(path, True)]) as (place,):
            names = [path, *other_name(place, self.history)]
            if len(names) == 1:
                return (Undoing.of(plan_last(place, path, self.history, by)),)
        with self._held([(each, True) for each in names]) as places:
            return tuple(map(Undoing.of, plan_move_back(places, names, self.history, by)))

    def take_back(self, undoing: Sequence[Undoing]) -> None:
        """Do what ``undoing`` returned, if it still is what would be done; all of it, or nothing.

        Raises:
            WorkspaceError: ``stale`` if one of the files was changed since, by anybody.
        """
        with self._held([(each.key, True) for each in undoing]) as places:
            plans = plan_again(places, undoing, self.history)
            carry_out(plans, self.history, by=NOBODY, undo=True)

    def is_folder(self, path: str) -> bool:
        """Return whether the path is a folder.

        Raises:
            WorkspaceError: there is nothing, or it lies out of the workspace.
        """
        with self._opened(path, os.O_PATH) as (_, found, _):
            return stat.S_ISDIR(os.fstat(found).st_mode)

    def is_link(self, path: str) -> bool:
        """Return whether the path itself is a link, wherever that leads.

        Raises:
            WorkspaceError: there is no such folder, or it lies out of the workspace.
        """
        root, relative = self._locate(path)
        parent, name = split_path(relative, path)
        with naming(path), opened_beneath(root.descriptor, parent, os.O_PATH | os.O_DIRECTORY) as folder:
            return link_target(folder, name) is not None

    @contextmanager
    def opened_folder(self, path: str) -> Generator[int]:
        """Yield a descriptor of the folder, for whoever goes there: whatever is put at its path meanwhile.

        Raises:
            WorkspaceError: it is not there, not a folder, or out of the workspace.
        """
        with self._opened(path, os.O_PATH | os.O_DIRECTORY) as (_, folder, _):
            yield folder

    def walk(
        self,
        path: str,
        *,
        depth: int,
        limit: int,
        size: int = sys.maxsize,
        measure: Callable[[str], int] = len,
        ignored: bool = True,
    ) -> Listing:
        """List a folder and what lies up to ``depth`` levels below, sorted: the upper levels first.

        There are at most ``limit`` entries, and their paths, as ``measure`` tells, take at most ``size``.
        Version control's own folders are named but not entered; links are named but not followed. What is
        still being written is left out; ``ignored=False`` leaves out what ``.gitignore`` says, and ``.git``.

        Raises:
            WorkspaceError: it is not there, not a folder, or out of the workspace.
        """
        with self._opened(path, os.O_RDONLY | os.O_DIRECTORY) as (root, folder, real):
            shown = self._shown(root, real, path, ignored=ignored)
            room = Room(entries=limit, size=size, measure=measure)
            return list_entries(folder, depth=depth, room=room, shown=shown)

    def files(self, path: str = ".", *, ignored: bool = False) -> Iterator[Found]:
        """Yield all regular files beneath a folder, sorted by path; links are not followed.

        Version control's own folders are not entered, what is still being written is left out, and so is what
        ``.gitignore`` says, unless ``ignored`` is true. May be used in another thread than the workspace.

        Raises:
            WorkspaceError: it is not there, not a folder, or out of the workspace.
        """
        return sized(self.walk_files(path, ignored=ignored))

    def walk_files(self, path: str = ".", *, ignored: bool = False) -> Iterator[Walked]:
        """Yield the same files, each to be read until the next one is asked for.

        Raises:
            WorkspaceError: as ``files``.
        """
        self._locate(path)
        return self._walked(path, ignored=ignored)

    def _walked(self, path: str, *, ignored: bool) -> Iterator[Walked]:
        with naming(path), ExitStack() as stack:
            root, folder = self._open(stack, path, os.O_RDONLY | os.O_DIRECTORY)
            real = root.relative(folder)
            top = "" if root is self._roots[0] else f"{root.path.rstrip('/')}/"
            below = "" if real == "." else f"{real}/"
            yield from walk_files(folder, top + below, self._shown(root, real, path, ignored=ignored))

    @contextmanager
    def _opened(self, path: str, flags: int) -> Generator[tuple[Root, int, str]]:
        """Yield the root, what is opened, and where that lies below the root, links resolved."""
        with naming(path), ExitStack() as stack:
            root, found = self._open(stack, path, flags)
            real = root.relative(found)
            self._require_seen(root, real, path)
            yield root, found, real

    def _open(self, stack: ExitStack, path: str, flags: int) -> tuple[Root, int]:
        """Open what a path names until the stack ends; return it with the root that it lies beneath."""

        def opened(root: Root, relative: str) -> tuple[Root, int]:
            return root, stack.enter_context(opened_beneath(root.descriptor, relative, flags))

        return follow(self._roots, path, opened)

    def _require_seen(self, root: Root, real: str, path: str, *, code: str = "no_permission") -> None:
        if any(kept.holds(root, real) for kept in self._kept):
            hint = "leave it to the person: it is what edits are undone from"
            raise WorkspaceError(code, path, f"`{path}` is Kakite's own, no tool may use it", hint=hint)

    def _shown(self, root: Root, real: str, path: str, *, ignored: bool) -> Shown:
        self._require_seen(root, real, path)
        own = (kept.identity() for kept in self._kept if kept.is_beneath(root))
        return Shown(
            ignoring=None if ignored else ignoring_at(root.descriptor, real),
            hidden=frozenset(identity for identity in own if identity is not None),
        )

    def _locate(self, path: str) -> tuple[Root, str]:
        return locate(self._roots, path)

    def _check(self, writing: Writing) -> None:
        """Refuse what can be refused before anything is touched."""
        _, relative = self._locate(writing.path)
        self._denied.check(relative, writing.path)
        if writing.data is not None:
            require_size(writing.data, writing.path)

    def _planned(self, writes: Sequence[Writing], places: Sequence[Place]) -> list[Planned]:
        plans: list[Planned] = []
        errors: list[WorkspaceError] = []
        for writing, place in zip(writes, places, strict=True):
            try:
                with naming(writing.path):
                    plans.append(plan_write(place, writing, self.history))
            except WorkspaceError as error:
                errors.append(error)
        if errors:
            raise joined(errors)
        return plans

    def _place(
        self, opened: ExitStack, folders: Folders, path: str, *, create_folders: bool, checked: bool = True
    ) -> Place:
        """Open the folder that the path's file is in; it is closed with the stack."""

        def place(root: Root, relative: str) -> Place:
            opened.callback(lambda: root)  # is used until then
            return self._place_at(
                opened, folders, path, root, relative, create_folders=create_folders, checked=checked
            )

        return follow(self._roots, path, place)

    def _place_at(
        self,
        opened: ExitStack,
        folders: Folders,
        path: str,
        root: Root,
        relative: str,
        *,
        create_folders: bool,
        checked: bool,
    ) -> Place:
        if checked:
            self._denied.check(relative, path)
        made = make_folders(root.descriptor, relative) if create_folders else []
        opened.callback(remove_folders, root.descriptor, made[::-1])  # those that nothing was put into
        for _ in range(LINK_HOPS):
            parent, name = split_path(relative, path)
            folder = open_once(opened, folders, root, parent)
            link = link_target(folder, name)
            if link is None:
                real = join_path(root.relative(folder), name)
                if checked:
                    self._denied.check(real, path)
                    self._require_seen(root, real, path, code="write_denied")
                return Place(
                    root=root.descriptor,
                    folder=folder,
                    name=name,
                    path=real,
                    key=root.key(real),
                    made=len(made),
                )
            if link.startswith("/"):
                raise OSError(errno.EXDEV, "absolute link")
            relative = f"{parent}/{link}"
        raise OSError(errno.ELOOP, "too many links")

    @contextmanager
    def _held(self, named: Sequence[tuple[str, bool]]) -> Generator[list[Place]]:
        """Yield the places of these paths with their writes held, once what a crash left there is settled.

        The flag of each says whether folders that are missing are to be made.
        """
        with ExitStack() as opened:
            places: list[Place] = []
            folders: Folders = {}
            for path, create_folders in named:
                with naming(path):
                    places.append(self._place(opened, folders, path, create_folders=create_folders))
            check_repositories(places, [path for path, _ in named])
            keys = [place.key for place in places]
            for path, key in zip((path for path, _ in named), keys, strict=True):
                if keys.count(key) > 1:
                    raise WorkspaceError(
                        "bad_path", path, f"`{path}` is named twice", hint="name every file once"
                    )
            opened.enter_context(self._locked(keys))
            yield places

    @contextmanager
    def _locked(self, keys: Sequence[str]) -> Generator[None]:
        needed = set(keys)
        while True:
            with self.history.locked(*needed):
                left = self.history.unsettled(keys)
                others = {intent.path for intent in left} - needed
                if not others:
                    self._settle(left)
                    yield
                    return
            needed |= others  # the files of the same batches have to be held as well

    def _settle_all(self) -> None:
        """Settle what is left in the middle, unless another process is at it."""
        with suppress(WorkspaceError):  # a journal that cannot be read must not keep anybody from reading
            self.history.forget_old()
            batches: dict[str, list[Intent]] = {}
            for intent in self.history.all_unsettled():
                batches.setdefault(intent.batch, []).append(intent)
            for batch in batches.values():
                paths = [intent.path for intent in batch]
                with self.history.locked(*paths, wait=False) as held:
                    if held:
                        self._settle(self.history.unsettled(paths))

    def _settle(self, left: Sequence[Intent]) -> None:
        """Settle these, as far as the files are ours to reach."""
        for batch in sorted({intent.batch for intent in left}):
            with ExitStack() as opened:
                steps: list[tuple[Intent, Step]] = []
                for intent in left:
                    if intent.batch == batch:
                        with suppress(OSError, WorkspaceError):
                            place = self._place(opened, {}, intent.path, create_folders=False, checked=False)
                            steps.append((intent, step_of(intent, place)))
                with suppress(OSError):
                    settle(steps, self.history)
