"""The workspace: files in confined folders, read with a version, written whole or not at all, undone."""

from __future__ import annotations

import copy
import errno
import os
import posixpath
import stat
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from itertools import chain
from typing import Self

from kakite.workspace.atomic_file import (
    FileSlot,
    WriteStep,
    is_temporary,
    read_regular,
    remove_folders,
    require_size,
)
from kakite.workspace.buffers import Buffers, read_as_saved
from kakite.workspace.content import File, compute_version
from kakite.workspace.edit_log import EditLog
from kakite.workspace.edit_log_rows import Author, Intent, LoggedWrite
from kakite.workspace.errors import WorkspaceError, join_errors, translate_os_errors
from kakite.workspace.gitignore import load_gitignore
from kakite.workspace.listing import (
    FoundFile,
    ListFilter,
    Listing,
    ListingLimits,
    WalkedFile,
    add_sizes,
    list_entries,
    walk_files,
)
from kakite.workspace.openat2 import PATH_ONLY
from kakite.workspace.roots import (
    LINK_HOPS,
    Folders,
    PrivateFolder,
    Root,
    check_name,
    find_root,
    follow,
    locate,
    make_folders,
    open_once,
    open_within,
    read_link,
    split_path,
)
from kakite.workspace.transaction import (
    FileWrite,
    PlannedWrite,
    amend_last,
    build_step,
    commit_writes,
    plan_write,
    recover_writes,
)
from kakite.workspace.undo import (
    UndoPlan,
    find_other_name,
    list_run_files,
    plan_again,
    plan_last,
    plan_move_back,
    plan_run,
)
from kakite.workspace.write_denylist import DEFAULT_DENYLIST, DenyList, check_repositories

ANONYMOUS = Author()
_LOOKS = 100
"""How often a file is opened at most that others replace at the same time."""


class Workspace:
    """One or more folders that tools may see, and nothing else.

    Relative paths lie in the first root; absolute ones must lie beneath one of them. A view (``at``) begins
    at a folder further down. May be used from several threads at once; a write waits for others of the same
    file.
    """

    def __init__(
        self,
        roots: Sequence[str | os.PathLike[str]],
        *,
        denied: Sequence[str] = DEFAULT_DENYLIST,
        history: EditLog | None = None,
        alias: str = "",
    ) -> None:
        """Open the folders, and settle what a process that was killed left in the middle.

        ``alias`` is another absolute path by which the first one may be named.

        Without a ``history``, writes can be undone as long as this object lives.
        """
        if not roots:
            raise WorkspaceError("no_root", "", "a workspace needs a folder", hint="give one with --root DIR")
        self._roots = [Root(os.fspath(root), "" if index else alias) for index, root in enumerate(roots)]
        self._narrowed = ""
        """The absolute path of the folder that a view is of; empty: all of the workspace."""
        self._denied = DenyList(denied)
        self.buffers: Buffers | None = None
        """Files that an editor has open; None: there is no editor."""
        self.history = history or EditLog(None)
        self.history.set_roots(self.roots)
        state = self.history.state
        self._kept = () if state is None else (PrivateFolder(state), PrivateFolder(state / "history"))
        self._recover_all()

    def close(self) -> None:
        """Give the folders' descriptors back, once calls in other threads are through with them.

        Neither the workspace nor a view of it can be used any more.
        """
        self._roots.clear()
        self.history.close()

    @property
    def roots(self) -> tuple[str, ...]:
        """The absolute paths of the roots, the first one being where relative paths start."""
        return tuple(root.path for root in self._roots)

    @property
    def folder(self) -> str:
        """The absolute path of the folder where relative paths start."""
        return self._narrowed or self._roots[0].path

    def at(self, path: str) -> Self:
        """Return a view of this workspace whose relative paths start at a folder of it.

        A view names nothing outside of its folder. What confines is the workspace: beneath its roots a link
        may still lead from one folder into another. At the first root, it is all of the workspace.

        Raises:
            WorkspaceError: it is no folder, or lies out of the workspace.
        """
        self._locate(path)
        folder = self.canonicalize(path)
        if not self.is_folder(folder):
            raise WorkspaceError("not_a_directory", path, f"`{path}` is not a folder")
        return self._narrow("" if folder == self._roots[0].path else folder)

    def _narrow(self, folder: str) -> Self:
        view = copy.copy(self)
        view._narrowed = folder
        return view

    def canonicalize(self, path: str) -> str:
        """Return the absolute path without detours: two paths with the same one name the same file.

        A root has its real name in it, whichever it was given by. Links further down are not followed.
        """
        if path.startswith("/") and (found := find_root(self._roots, path)):
            path = found[0].get_key(found[1])
        return posixpath.normpath(posixpath.join(self.folder, path))

    def to_relative(self, path: str) -> str:
        """Return a path, given absolutely or from the first root, as it is named from this folder on."""
        full = posixpath.join(self._roots[0].path, path)
        return full.removeprefix(f"{self.folder.rstrip('/')}/")

    def read(self, path: str) -> File:
        """Read a regular file.

        Raises:
            WorkspaceError: it is not there, not a file, too large, or out of the workspace.
        """
        with self._open_path(path, os.O_RDONLY | os.O_NONBLOCK) as (root, file, real):
            data = read_regular(file, path)
            key = root.get_key(real)
        if buffers := self._get_buffers():
            data = read_as_saved(buffers, key, data)
        return File(path=real, data=data, version=compute_version(data))

    def _get_buffers(self) -> Buffers | None:
        return None if self.buffers is None or self.buffers.is_paused else self.buffers

    def find(self, path: str) -> File | None:
        """Read a regular file; None if there is nothing.

        Raises:
            WorkspaceError: as ``read``.
        """
        try:
            return self.read(path)
        except WorkspaceError as error:
            if error.code != "file_not_found":
                raise
            return None

    def list_writes(self, path: str, *, limit: int) -> list[LoggedWrite]:
        """Return the latest writes of a file that were not taken back, the last one first.

        Raises:
            WorkspaceError: ``history_failed``, ``busy``.
        """
        return self.history.list_writes(self._get_key(path), limit=limit)

    def find_version(self, path: str, version: str, *, limit: int) -> bytes | None:
        """Return what a file held at a version of one of its last writes, so many at most; None: not known.

        Raises:
            WorkspaceError: as ``find``; ``history_failed``, ``busy``.
        """
        file = self.find(path)
        present = None if file is None else file.data
        return self.history.find_content(self._get_key(path), version, present, limit=limit)

    def get_mode(self, path: str) -> int:
        """Return the permission bits of a file.

        Raises:
            WorkspaceError: it is not there, or lies out of the workspace.
        """
        with self._open_path(path, PATH_ONLY) as (_, found, _):
            return stat.S_IMODE(os.fstat(found).st_mode)

    def count_hard_links(self, path: str) -> int:
        """Return how many names a file has besides this one: hard links, which a write leaves as they are.

        Raises:
            WorkspaceError: it is not there, or lies out of the workspace.
        """
        with self._open_path(path, PATH_ONLY) as (_, found, _):
            return os.fstat(found).st_nlink - 1

    def write(self, path: str, data: bytes, *, expected: str | None, by: Author = ANONYMOUS) -> File:
        """Replace the content of a file, or create it, whole or not at all, and remember how to undo it.

        ``expected`` is the version that the caller has read; None says that the file must not exist.

        Raises:
            WorkspaceError: ``stale`` if somebody changed the file since, ``file_exists``, ``write_denied``, …
        """
        (file,) = self.write_all([FileWrite(path=path, data=data, expected=expected)], by=by)
        return file

    def remove(self, path: str, *, expected: str, by: Author = ANONYMOUS) -> None:
        """Remove a file of this version, and remember how to bring it back.

        Raises:
            WorkspaceError: ``stale`` if somebody changed the file since, ``file_not_found``, …
        """
        self.write_all([FileWrite(path=path, data=None, expected=expected)], by=by)

    def write_all(
        self,
        writes: Sequence[FileWrite],
        *,
        by: Author = ANONYMOUS,
        on_locked: Callable[[], object] = lambda: None,
    ) -> tuple[File, ...]:
        """Write and remove several files: all of them, or nothing, also when this process is killed.

        ``on_locked`` is called once nobody else can write these files, before anything is written.
        Returns the files that are there now, in the order of ``writes``, without the removed ones.

        Raises:
            WorkspaceError: ``each`` names every file that could not be written, if there are several.
        """
        for each in writes:
            self._check_write(each)
        with self._lock_slots([(each.path, each.creates) for each in writes]) as places:
            on_locked()
            plans = self._plan_writes(writes, places)
            commit_writes(plans, self.history, by=by)
        return tuple(
            File(
                path=plan.place.path, data=plan.after, version=plan.versions[1] or compute_version(plan.after)
            )
            for plan in plans
            if plan.after is not None
        )

    def turn(self, paths: Iterable[str]) -> AbstractContextManager[object]:
        """Keep other threads and processes that take turns from writing these files while the block lasts.

        Who plans a write and carries it out within one turn need not begin again because others are at
        work too. Whoever comes first is first. It keeps nobody from reading, nor those who take no turn from
        writing.

        Raises:
            WorkspaceError: ``busy`` if others had theirs for 10 seconds; ``history_failed``.
        """
        return self.history.locks.turn({self._get_key(path) for path in paths})

    def _get_key(self, path: str) -> str:
        """Return what stands for the file in a queue: two paths of one file have the same."""
        with suppress(OSError, WorkspaceError), ExitStack() as opened:
            return self._open_slot(opened, {}, path, create_folders=False).key
        # There is no such folder, or it may not be written: this is found out when it is.
        return ascii(self.canonicalize(path))

    def amend(self, path: str, written: bytes) -> File | None:
        """Take what a program has made of a file into the last write of it, which left ``written``.

        Both are undone together then. Returns the file as it is now; None if it is what was written.
        """
        with self._lock_slots([(path, False)]) as places:
            now = amend_last(places[0], path, written, self.history)
            return None if now is None else File(path=places[0].path, data=now, version=compute_version(now))

    def check_writable(self, path: str) -> None:
        """Check whether a file may be written or come to be at this path. Creates nothing.

        Raises:
            WorkspaceError: ``write_denied``, ``path_escapes``, ``bad_path``: a write would fail by its path.
        """
        with translate_os_errors(path), suppress(FileNotFoundError), ExitStack() as opened:
            check_repositories([self._open_slot(opened, {}, path, create_folders=False)], [path])

    def undo(self, path: str) -> None:
        """Take the last write of this file back: its content before, or, if that created it, its absence.

        Raises:
            WorkspaceError: ``nothing_to_undo``, or ``stale`` if the file changed since that write.
        """
        self.apply_undo(self.plan_undo(path))

    def undo_run(self, run: str) -> tuple[UndoPlan, ...]:
        """Take back all writes of a run: all of them, or nothing. Returns what was done.

        Raises:
            WorkspaceError: ``nothing_to_undo``, or ``stale`` if one of the files changed since.
        """
        undoing = self.plan_undo(run=run)
        self.apply_undo(undoing)
        return undoing

    def plan_undo(
        self, path: str | None = None, *, run: str | None = None, by: str | None = None
    ) -> tuple[UndoPlan, ...]:
        """Return what ``undo`` of the path, or ``undo_run`` of the run, would do. Changes nothing.

        Of a file that was moved, both its names are undone together, the one asked for first. ``by`` is the
        run that asks: its own writes of the file come before those of others.

        Raises:
            WorkspaceError: as they do; ``stale`` if others wrote there after the run that asks.
        """
        # Folders that are missing are there as long as this lasts: a file that comes back may need them.
        whole = self._narrow("")  # the edit log knows files that no path of a view names
        if path is None:
            with whole._lock_slots(
                [(each, True) for each in list_run_files(run or "", self.history)]
            ) as places:
                return tuple(map(UndoPlan.of, plan_run(places, run or "", self.history)))
        with self._lock_slots([(path, True)]) as (place,):
            others = find_other_name(place, self.history)
            if not others:
                return (UndoPlan.of(plan_last(place, path, self.history, by)),)
        with whole._lock_slots([(each, True) for each in (place.key, *others)]) as places:
            return tuple(map(UndoPlan.of, plan_move_back(places, [path, *others], self.history, by)))

    def apply_undo(self, undoing: Sequence[UndoPlan]) -> None:
        """Do what ``undoing`` returned, if it still is what would be done; all of it, or nothing.

        Raises:
            WorkspaceError: ``stale`` if one of the files was changed since, by anybody.
        """
        with self._narrow("")._lock_slots([(each.key, True) for each in undoing]) as places:
            plans = plan_again(places, undoing, self.history)
            commit_writes(plans, self.history, by=ANONYMOUS, undo=True)

    def is_folder(self, path: str) -> bool:
        """Return whether the path is a folder.

        Raises:
            WorkspaceError: there is nothing, or it lies out of the workspace.
        """
        with self._open_path(path, PATH_ONLY) as (_, found, _):
            return stat.S_ISDIR(os.fstat(found).st_mode)

    def is_link(self, path: str) -> bool:
        """Return whether the path itself is a link, wherever that leads.

        Raises:
            WorkspaceError: there is no such folder, or it lies out of the workspace.
        """
        root, relative = self._locate(path)
        parent, name = split_path(relative, path)
        with (
            translate_os_errors(path),
            open_within(root.descriptor, parent, PATH_ONLY | os.O_DIRECTORY) as folder,
        ):
            return read_link(folder, name) is not None

    @contextmanager
    def open_folder(self, path: str) -> Generator[int]:
        """Yield a descriptor of the folder, for whoever goes there: whatever is put at its path meanwhile.

        Raises:
            WorkspaceError: it is not there, not a folder, or out of the workspace.
        """
        with self._open_path(path, PATH_ONLY | os.O_DIRECTORY) as (_, folder, _):
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
        with self._open_path(path, os.O_RDONLY | os.O_DIRECTORY) as (root, folder, real):
            shown = self._build_filter(root, real, path, ignored=ignored)
            room = ListingLimits(entries=limit, size=size, measure=measure)
            return list_entries(folder, depth=depth, room=room, shown=shown)

    def find_files(self, path: str = ".", *, ignored: bool = False) -> Iterator[FoundFile]:
        """Yield all regular files beneath a folder, sorted by path; links are not followed.

        Version control's own folders are not entered, what is still being written is left out, and so is what
        ``.gitignore`` says, unless ``ignored`` is true. May be used in another thread than the workspace.

        Raises:
            WorkspaceError: it is not there, not a folder, or out of the workspace.
        """
        return add_sizes(self.walk_files(path, ignored=ignored))

    def walk_files(self, path: str = ".", *, ignored: bool = False) -> Iterator[WalkedFile]:
        """Yield the same files, each to be read until the next one is asked for.

        Raises:
            WorkspaceError: as ``files``.
        """
        self._locate(path)
        return chain.from_iterable(self._walk_files(path, ignored=ignored))

    def _walk_files(self, path: str, *, ignored: bool) -> Iterator[list[WalkedFile]]:
        with translate_os_errors(path), ExitStack() as stack:
            root, folder = self._open(stack, path, os.O_RDONLY | os.O_DIRECTORY)
            real = root.get_relative(folder)
            prefix = self.to_relative(root.get_key("" if real == "." else f"{real}/"))
            yield from walk_files(folder, prefix, self._build_filter(root, real, path, ignored=ignored))

    @contextmanager
    def _open_path(self, path: str, flags: int) -> Generator[tuple[Root, int, str]]:
        """Yield the root, what is opened, and where that lies below the root, links resolved."""
        with translate_os_errors(path), ExitStack() as stack:
            root, found = self._open(stack, path, flags)
            real = _get_place(root, found)
            for _ in range(_LOOKS):
                if real and (is_temporary(os.path.basename(path)) or not _is_replaced(found, real)):
                    break
                # It was replaced since it was opened: what is open lies under another name, or under none.
                root, found = self._open(stack, path, flags)
                real = _get_place(root, found)
            if not real:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            self._require_visible(root, real, path)
            yield root, found, real

    def _open(self, stack: ExitStack, path: str, flags: int) -> tuple[Root, int]:
        """Open what a path names until the stack ends; return it with the root that it lies beneath."""
        return follow(
            self._roots,
            self._locate(path),
            lambda root, relative: (root, stack.enter_context(open_within(root.descriptor, relative, flags))),
        )

    def _require_visible(self, root: Root, real: str, path: str, *, code: str = "no_permission") -> None:
        if any(kept.has_path(root, real) for kept in self._kept):
            hint = "leave it to the person: it is what edits are undone from"
            raise WorkspaceError(code, path, f"`{path}` is Kakite's own, no tool may use it", hint=hint)

    def _build_filter(self, root: Root, real: str, path: str, *, ignored: bool) -> ListFilter:
        self._require_visible(root, real, path)
        own = (kept.get_identity() for kept in self._kept if kept.is_beneath(root))
        return ListFilter(
            ignoring=None if ignored else load_gitignore(root.descriptor, real),
            hidden=frozenset(identity for identity in own if identity is not None),
        )

    def _locate(self, path: str) -> tuple[Root, str]:
        """Return the root that a path lies beneath, and the rest of it.

        Raises:
            WorkspaceError: ``path_escapes``, ``bad_path``, ``root_gone``.
        """
        check_name(path)
        if not self._narrowed:
            return locate(self._roots, path)
        full = self.canonicalize(path)
        if full != self._narrowed and not full.startswith(f"{self._narrowed}/"):
            raise WorkspaceError(
                "path_escapes",
                path,
                f"`{path}` lies out of `{self._narrowed}`, which set_workspace chose",
                hint="use a path below it, or call set_workspace again",
            )
        # A slash at the end says that a folder is meant.
        return locate(self._roots, f"{full}/" if path.endswith("/") else full)

    def _check_write(self, writing: FileWrite) -> None:
        """Refuse what can be refused before anything is touched."""
        _, relative = self._locate(writing.path)
        self._denied.check(relative, writing.path)
        if writing.data is not None:
            require_size(writing.data, writing.path)

    def _plan_writes(self, writes: Sequence[FileWrite], places: Sequence[FileSlot]) -> list[PlannedWrite]:
        plans: list[PlannedWrite] = []
        errors: list[WorkspaceError] = []
        for writing, place in zip(writes, places, strict=True):
            try:
                with translate_os_errors(writing.path):
                    plans.append(plan_write(place, writing, self.history))
            except WorkspaceError as error:
                errors.append(error)
        if errors:
            raise join_errors(errors)
        return plans

    def _open_slot(
        self, opened: ExitStack, folders: Folders, path: str, *, create_folders: bool, checked: bool = True
    ) -> FileSlot:
        """Open the folder that the path's file is in; it is closed with the stack."""
        open_slot = partial(
            self._open_slot_at, opened, folders, path, create_folders=create_folders, checked=checked
        )
        return follow(self._roots, self._locate(path), open_slot)

    def _open_slot_at(
        self,
        opened: ExitStack,
        folders: Folders,
        path: str,
        root: Root,
        relative: str,
        *,
        create_folders: bool,
        checked: bool,
    ) -> FileSlot:
        opened.callback(lambda: root)  # is used until then
        if checked:
            self._denied.check(relative, path)
        made = make_folders(root.descriptor, relative) if create_folders else []
        opened.callback(remove_folders, root.descriptor, made[::-1])  # those that nothing was put into
        for _ in range(LINK_HOPS):
            parent, name = split_path(relative, path)
            folder = open_once(opened, folders, root, parent)
            link = read_link(folder, name)
            if link is None:
                real = f"{root.get_relative(folder)}/{name}".removeprefix("./")
                if checked:
                    self._denied.check(real, path)
                    self._require_visible(root, real, path, code="write_denied")
                return FileSlot(
                    root=root.descriptor,
                    folder=folder,
                    name=name,
                    path=real,
                    key=root.get_key(real),
                    made=len(made),
                    buffers=self._get_buffers() if checked else None,
                )
            if link.startswith("/"):
                raise OSError(errno.EXDEV, "absolute link")
            relative = f"{parent}/{link}"
        raise OSError(errno.ELOOP, "too many links")

    @contextmanager
    def _lock_slots(self, named: Sequence[tuple[str, bool]]) -> Generator[list[FileSlot]]:
        """Yield the places of these paths with their writes held, once what a crash left there is settled.

        The flag of each says whether folders that are missing are to be made.
        """
        with ExitStack() as opened:
            places: list[FileSlot] = []
            folders: Folders = {}
            for path, create_folders in named:
                with translate_os_errors(path):
                    places.append(self._open_slot(opened, folders, path, create_folders=create_folders))
            check_repositories(places, [path for path, _ in named])
            keys = [place.key for place in places]
            for path, key in zip((path for path, _ in named), keys, strict=True):
                if keys.count(key) > 1:
                    raise WorkspaceError(
                        "bad_path", path, f"`{path}` is named twice", hint="name every file once"
                    )
            opened.enter_context(self._lock_and_recover(keys))
            yield places

    @contextmanager
    def _lock_and_recover(self, keys: Sequence[str]) -> Generator[None]:
        needed = set(keys)
        while True:
            with self.history.locks.acquire(needed):
                left = self.history.find_unsettled(keys)
                others = {intent.path for intent in left} - needed
                if not others:
                    self._recover(left)
                    yield
                    return
            needed |= others  # the files of the same batches have to be held as well

    def _recover_all(self) -> None:
        """Settle what is left in the middle, unless another process is at it."""
        with suppress(WorkspaceError):  # an edit log that cannot be read must not keep anybody from reading
            self.history.forget_old()
            batches: dict[str, list[Intent]] = {}
            for intent in self.history.find_all_unsettled():
                batches.setdefault(intent.batch, []).append(intent)
            for batch in batches.values():
                paths = [intent.path for intent in batch]
                with self.history.locks.acquire(paths, wait=False) as held:
                    if held:
                        self._recover(self.history.find_unsettled(paths))

    def _recover(self, left: Sequence[Intent]) -> None:
        """Settle these, as far as the files are ours to reach."""
        for batch in sorted({intent.batch for intent in left}):
            with ExitStack() as opened:
                steps: list[tuple[Intent, WriteStep]] = []
                for intent in left:
                    if intent.batch == batch:
                        with suppress(OSError, WorkspaceError):
                            place = self._narrow("")._open_slot(
                                opened, {}, intent.path, create_folders=False, checked=False
                            )
                            steps.append((intent, build_step(intent, place)))
                with suppress(OSError):
                    recover_writes(steps, self.history)


def _get_place(root: Root, opened: int) -> str:
    """Return where something opened lies below the root; nothing if it is gone, where a system says so."""
    try:
        return root.get_relative(opened)
    except FileNotFoundError:
        return ""


def _is_replaced(opened: int, real: str) -> bool:
    """Tell whether another file has come to where this one was opened: a write exchanges the two."""
    return is_temporary(os.path.basename(real)) or os.fstat(opened).st_nlink == 0
