"""Saves all files of a folder that are not ignored, and brings them back.

A commit here has two entries: ``files``, the tree, and ``facts``, what was there and is not in the tree. What
was there and not saved is never removed by ``restore``. The index is a cache: it may be lost.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from kakite.agent.session.checkpoint_files import (
    ConfinedFolders,
    FileContent,
    FileStep,
    Kind,
    Reason,
    SkippedError,
    bring_back,
    hash_blob,
    is_bad_name,
    list_folders,
    read_file,
    read_umask,
    remove_file,
)
from kakite.agent.session.shadow_repository import (
    OUTPUT_LIMIT,
    PACK_SCRIPT,
    REFS,
    CheckpointError,
    FolderScan,
    ShadowRepository,
    parse_raw,
)
from kakite.errors import KakiteError

__all__ = [
    "ChangedFile",
    "Checkpoint",
    "CheckpointError",
    "Checkpoints",
    "FileChanges",
    "Kind",
    "Reason",
    "Restored",
    "SkippedFile",
]

MAX_FILE_BYTES = 10 << 20
"""Bytes above which a file is not saved, unless the caller says otherwise."""
KEPT = 200
"""Checkpoints that ``collect_garbage`` keeps, unless the caller says otherwise."""
DIFF_CHARACTERS = 200_000
"""Characters of a diff, unless the caller says otherwise."""
_LABEL = 1_000  # characters
_BATCH = 32 << 20  # bytes of contents in memory at once; one file more at the most
_STEPS = 5_000  # files
_ATTEMPTS = 3
_NESTED = 8  # repositories within one another
_LOOSE, _PACKS = 2_000, 20  # files and packs in the store from which on it is packed


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The files of the folder at one time."""

    id: str
    label: str
    time: float
    """Seconds since 1970."""
    left_out: int = 0
    """How many files are not ignored, and yet not in it; ``read_left_out`` tells which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedFile:
    """One file that differs."""

    path: str
    """Relative to the folder; bytes that are no UTF-8 as surrogates."""
    kind: Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChanges:
    """What differs between two states of the folder."""

    files: tuple[ChangedFile, ...]
    """Sorted by path."""
    old: str = field(repr=False)
    """The tree before."""
    new: str = field(repr=False)
    """The tree after."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedFile:
    """A file that is not as the checkpoint has it, since that could have lost something."""

    path: str
    reason: str
    """``left_out``: what is there now is in no checkpoint. ``in_the_way``: something that is not ours to
    remove has its place. ``changed``: somebody wrote it just now. Else what the system said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What became of a rewind."""

    undo: Checkpoint
    """The folder as it was before."""
    changes: FileChanges
    """What was to be changed."""
    skipped: tuple[SkippedFile, ...] = ()

    def count_files(self) -> str:
        """Return how many files were to be changed, in words."""
        count = len(self.changes.files)
        return "1 file" if count == 1 else f"{count} files"


class Checkpoints:
    """The checkpoints of one folder.

    Where a checkpoint is asked for, its id does as well. Any number of processes may use the same ones: a
    lock in the store lets them wait for each other.
    """

    def __init__(
        self,
        root: Path,
        store: Path,
        *,
        environ: Mapping[str, str],
        max_file_bytes: int = MAX_FILE_BYTES,
    ) -> None:
        """Keep checkpoints of ``root`` in the folder ``store``, which is for this alone.

        ``environ`` is the person's: it tells where their own ignore rules are.
        """
        self._root = root.resolve()
        self._git = ShadowRepository(self._root, store.resolve(), environ)
        self._max_file_bytes = max_file_bytes

    async def create(self, label: str) -> Checkpoint:
        """Save the folder as it is now.

        Raises:
            CheckpointError: git failed, or the folder keeps changing.
            GitError: there is no git.
        """
        async with self._git.lock():
            return (await self._create(label))[0]

    async def list(self) -> list[Checkpoint]:
        """Return all checkpoints, the oldest first."""
        async with self._git.lock():
            return [checkpoint for _, checkpoint in await self._list()]

    async def remove(self, *checkpoints: Checkpoint) -> None:
        """Forget these checkpoints; those that are gone already count as removed."""
        gone = {checkpoint.id for checkpoint in checkpoints}
        async with self._git.lock():
            await self._drop(ref for ref, checkpoint in await self._list() if checkpoint.id in gone)

    async def read_left_out(self, checkpoint: Checkpoint | str) -> dict[str, Reason]:
        """Return the files that are not in it, and why; a path that ends in ``/`` is a whole folder.

        Raises:
            CheckpointError: there is no such checkpoint.
        """
        async with self._git.lock():
            return (await self._find(checkpoint)).facts.left_out

    async def compare(self, old: Checkpoint | str, new: Checkpoint | str | None = None) -> FileChanges:
        """Return what changed from ``old`` to ``new``, or to now.

        Raises:
            CheckpointError: there is no such checkpoint, or git failed.
        """
        async with self._git.lock():
            before = (await self._find(old)).tree
            after = (await self._take() if new is None else await self._find(new)).tree
            return _list_changes(before, after, await self._diff(before, after))

    async def preview(self, checkpoint: Checkpoint | str) -> FileChanges:
        """Return what ``restore`` would change now.

        Raises:
            CheckpointError: there is no such checkpoint, or git failed.
        """
        async with self._git.lock():
            target = await self._find(checkpoint)
            now = await self._take(target.paths)
            planned, _ = _plan(await self._diff(now.tree, target.tree), now.facts, target.facts)
            return _list_changes(now.tree, target.tree, planned)

    async def diff(self, changes: FileChanges, *paths: str, limit: int = DIFF_CHARACTERS) -> str:
        """Return a unified diff of all these changes or of these files, cut after ``limit`` characters."""
        wanted = paths or tuple(each.path for each in changes.files)
        if not wanted:
            return ""
        shown = ("diff-tree", "-r", "-p", "--no-renames", "--no-color", "--no-ext-diff", "--no-textconv")
        # More names than an argument list holds: then all that differs is shown.
        named = () if sum(map(len, wanted)) > 100_000 else ("--", *wanted)
        async with self._git.lock():
            done = await self._git.run_git(*shown, changes.old, changes.new, *named, limit=8 * limit)
        text = done.stdout.decode("utf-8", "replace")
        if len(text) <= limit and not done.stdout_dropped:
            return text
        kept = text[: min(limit, text.rfind("\n", 0, limit) + 1 or limit)]
        return f"{kept}… the rest of this diff is left out\n"

    async def restore(self, checkpoint: Checkpoint | str, *, label: str = "Before a rewind") -> Restored:
        """Make the folder as it was, after a checkpoint with this label that undoes it.

        Killed in between, nothing is lost: the folder before is in that checkpoint, and the same call again
        ends what is left to do.

        Raises:
            CheckpointError: there is no such checkpoint, or git failed. The same call again goes on.
        """
        async with self._git.lock():
            target = await self._find(checkpoint)
            undo, now = await self._create(label, also=target.paths)
            planned, skipped = _plan(await self._diff(now.tree, target.tree), now.facts, target.facts)
            sizes = await self._measure(planned)
            needed = {above for step in planned if step.new_mode for above in list_folders(step.path)}
            for batch in _split(_order(planned), sizes):
                work = partial(self._apply, batch, await self._read_blobs(batch), target.facts, needed)
                skipped += await _in_thread(work)
            skipped.sort(key=lambda each: each.path)
            return Restored(
                undo=undo, changes=_list_changes(now.tree, target.tree, planned), skipped=tuple(skipped)
            )

    async def collect_garbage(self, *, keep: int = KEPT, timeout: float = 600) -> None:  # noqa: ASYNC109 - what is not done then is done the next time
        """Forget all but the newest checkpoints, and pack the store if it has grown."""
        async with self._git.lock():
            refs = [ref for ref, _ in await self._list()]
            await self._drop(refs[: max(0, len(refs) - keep)])
            counted = (await self._git.run_git("count-objects", "-v")).stdout.decode()
            about = {name: int(value) for name, value in re.findall(r"^([\w-]+): (\d+)$", counted, re.M)}
            if len(refs) > keep or about.get("count", 0) > _LOOSE or about.get("packs", 0) > _PACKS:
                await self._git.run_script(PACK_SCRIPT, timeout=timeout, may_fail=True)

    # -- taking ------------------------------------------------------------------------------------------

    async def _create(self, label: str, also: Collection[str] = ()) -> tuple[Checkpoint, _Taken]:
        now = time.time_ns()
        label = label[:_LABEL]
        taken = await self._take(also, label=label, now=now)
        left_out = len(taken.facts.left_out)
        return Checkpoint(id=taken.commit, label=label, time=now / 1e9, left_out=left_out), taken

    async def _take(self, also: Collection[str] = (), *, label: str = "", now: int = 0) -> _Taken:
        """Store the folder as it is, and these files also if they are ignored; as a checkpoint if ``now``."""
        self._git.load_excludes()
        failed: CheckpointError | None = None
        for attempt in range(_ATTEMPTS):
            if attempt:
                self._git.forget_index()  # a cache alone; what spoiled it may be a power failure
            try:
                found = await self._scan(also)
                entries, facts = await self._store_files(found)
                message = json.dumps({"label": label, "time": now, "left_out": len(facts.left_out)})
                ref = f"{REFS}/{now:020}" if now else ""
                tree, commit = await self._git.record(
                    entries, facts.to_json(), message, ref, move_head=found.is_head_far
                )
            except CheckpointError as error:
                failed = error
            else:
                return _Taken(tree=tree, commit=commit, facts=facts)
        assert failed is not None
        raise failed

    async def _scan(self, also: Collection[str]) -> FolderScan:
        found = await self._git.scan(also)
        for _ in range(_NESTED):
            inner = [path for path in found.repositories if not is_bad_name(path)]
            if not inner:
                break
            await self._git.enter_repositories(inner)
            found = await self._git.scan(also)
        return found

    async def _store_files(self, found: FolderScan) -> tuple[dict[str, str], _Facts]:
        facts = _Facts(ignored=found.ignored, modes=self._git.load_modes())
        facts.left_out.update(dict.fromkeys(found.unreadable, "unreadable"))
        facts.left_out.update(dict.fromkeys(found.repositories, "repository"))
        entries = dict.fromkeys(found.removed, "")
        paths = iter(sorted(found.candidates))
        umask = read_umask()
        with ConfinedFolders(self._root) as folders:
            while batch := await _in_thread(lambda: self._read_batch(folders, paths)):
                for path, read in batch:
                    entries[path] = facts.note(path, read, umask)
                await self._git.add_blobs([read.data for _, read in batch if isinstance(read, FileContent)])
        for path in found.removed - found.candidates:
            facts.modes.pop(path, None)
        self._git.save_modes(facts.modes)
        return entries, facts

    def _read_batch(
        self, folders: ConfinedFolders, paths: Iterator[str]
    ) -> list[tuple[str, FileContent | Reason | None]]:
        """Read the next files, as many as may be held in memory at once."""
        batch: list[tuple[str, FileContent | Reason | None]] = []
        size = 0
        for path in paths:
            read = read_file(folders, path, self._max_file_bytes)
            batch.append((path, read))
            size += len(read.data) if isinstance(read, FileContent) else 0
            if size > _BATCH:
                break
        return batch

    # -- finding -----------------------------------------------------------------------------------------

    async def _list(self) -> list[tuple[str, Checkpoint]]:
        form = "--format=%(refname)%00%(objectname)%00%(contents)%00"
        done = await self._git.run_git("for-each-ref", "--sort=refname", form, REFS, limit=OUTPUT_LIMIT)
        parts = [part.strip("\n") for part in done.stdout.decode().split("\0")]
        found: list[tuple[str, Checkpoint]] = []
        for ref, commit, message in zip(*(parts[start:-1:3] for start in range(3)), strict=True):
            about = json.loads(message)
            checkpoint = Checkpoint(
                id=commit, label=about["label"], time=about["time"] / 1e9, left_out=about["left_out"]
            )
            found.append((ref, checkpoint))
        return found

    async def _drop(self, refs: Iterable[str]) -> None:
        orders = "".join(f"delete {ref}\0\0" for ref in refs)
        if orders:
            await self._git.run_git("update-ref", "-z", "--stdin", stdin=orders.encode())

    async def _find(self, checkpoint: Checkpoint | str) -> _Target:
        oid = checkpoint if isinstance(checkpoint, str) else checkpoint.id
        found = await self._git.read_checkpoint(oid)
        if found is None:
            raise CheckpointError(
                f"checkpoint `{oid[:12]}` does not exist any more",
                hint="choose another checkpoint",
                code="checkpoint_unknown",
            )
        tree, facts, paths = found
        return _Target(tree=tree, facts=_Facts.of_json(facts), paths=frozenset(paths))

    async def _diff(self, old: str, new: str) -> list[FileStep]:
        done = await self._git.run_git(
            "diff-tree", "-r", "-z", "--raw", "--no-renames", old, new, limit=OUTPUT_LIMIT
        )
        return list(parse_raw(done.stdout.split(b"\0")[:-1]))

    # -- bringing back -----------------------------------------------------------------------------------

    async def _measure(self, steps: Iterable[FileStep]) -> dict[str, int]:
        """Return the sizes of all contents that are needed, so that none is found missing half-way."""
        wanted = sorted({oid for step in steps for oid in step.oids})
        stdin = "".join(f"{oid}\n" for oid in wanted).encode()
        if not wanted:
            return {}
        done = await self._git.run_git("cat-file", "--batch-check", stdin=stdin, limit=OUTPUT_LIMIT)
        found = [line.split() for line in done.stdout.decode().splitlines()]
        sizes = {words[0]: int(words[2]) for words in found if len(words) == 3 and words[1] == "blob"}
        if missing := [oid for oid in wanted if oid not in sizes]:
            raise CheckpointError(
                f"the store of checkpoints lacks {len(missing)} of the files",
                hint="choose another checkpoint",
            )
        return sizes

    async def _read_blobs(self, steps: Sequence[FileStep]) -> dict[str, bytes]:
        wanted = sorted({oid for step in steps for oid in step.oids})
        stdin = "".join(f"{oid}\n" for oid in wanted).encode()
        done = await self._git.run_git("cat-file", "--batch", stdin=stdin, limit=OUTPUT_LIMIT)
        blobs: dict[str, bytes] = {}
        at = 0
        while at < len(done.stdout):
            line = done.stdout.index(b"\n", at)
            oid, _, size = done.stdout[at:line].decode().split()
            blobs[oid] = done.stdout[line + 1 : line + 1 + int(size)]
            at = line + 2 + int(size)
        return blobs

    def _apply(
        self, steps: Sequence[FileStep], blobs: Mapping[str, bytes], facts: _Facts, needed: Collection[str]
    ) -> list[SkippedFile]:
        umask = read_umask()
        skipped: list[SkippedFile] = []
        with ConfinedFolders(self._root) as folders:
            for step in steps:
                usual = (0o777 if step.new_mode == "100755" else 0o666) & ~umask
                try:
                    if step.new_mode:
                        bring_back(folders, step, blobs, facts.modes.get(step.path, usual))
                    else:
                        remove_file(folders, step, blobs, needed)
                except SkippedError as error:
                    skipped.append(SkippedFile(path=step.path, reason=error.reason))
                except (OSError, KakiteError) as error:
                    reason = error.strerror if isinstance(error, OSError) else str(error)
                    skipped.append(SkippedFile(path=step.path, reason=reason or type(error).__name__))
        return skipped


# -- values ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Facts:
    """What was in the folder beside the tree, and what git does not note of the files in it."""

    left_out: dict[str, Reason] = field(default_factory=dict)
    ignored: frozenset[str] = frozenset()
    """What was there and ignored; with ``/`` at its end a folder with all that is in it."""
    modes: dict[str, int] = field(default_factory=dict)
    """Permissions other than those of a new file here: a secret comes back as closed as it was."""

    def note(self, path: str, read: FileContent | Reason | None, umask: int) -> str:
        """Note what was read of a file; return its entry in the tree, empty if it has none."""
        self.modes.pop(path, None)
        if read is None:
            return ""
        if not isinstance(read, FileContent):
            self.left_out[path] = read
            return ""
        usual = {0o666 & ~umask, 0o777 & ~umask}
        if not read.is_link and read.permissions not in usual:
            self.modes[path] = read.permissions
        return f"{read.mode} {hash_blob(read.data)}"

    def is_kept(self, path: str) -> bool:
        """Return whether this, or a folder that it lies in, was there and not in the tree."""
        places = {path, *(f"{folder}/" for folder in list_folders(path))}
        return not (places.isdisjoint(self.left_out) and places.isdisjoint(self.ignored))

    def to_json(self) -> bytes:
        """Return what is stored."""
        facts = {"left_out": self.left_out, "ignored": sorted(self.ignored), "modes": self.modes}
        return json.dumps(facts, sort_keys=True).encode()

    @classmethod
    def of_json(cls, data: bytes) -> _Facts:
        """Read what was stored."""
        facts: dict[str, Any] = json.loads(data)
        return cls(left_out=facts["left_out"], ignored=frozenset(facts["ignored"]), modes=facts["modes"])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Taken:
    tree: str
    commit: str
    """Empty where no checkpoint was made."""
    facts: _Facts


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    tree: str
    facts: _Facts
    paths: frozenset[str]


# -- planning: pure --------------------------------------------------------------------------------------


def _list_changes(old: str, new: str, steps: Iterable[FileStep]) -> FileChanges:
    files = sorted(
        (ChangedFile(path=step.path, kind=step.kind) for step in steps), key=lambda each: each.path
    )
    return FileChanges(files=tuple(files), old=old, new=new)


def _plan(steps: Iterable[FileStep], now: _Facts, then: _Facts) -> tuple[list[FileStep], list[SkippedFile]]:
    """Return what to do, and what is not to be touched though it differs.

    What was there and not saved stays, also if it would be saved today: nobody knows whether it was the same.
    """
    planned: list[FileStep] = []
    skipped: list[SkippedFile] = []
    for step in steps:
        if step.new_mode and step.path in now.left_out:
            skipped.append(SkippedFile(path=step.path, reason="left_out"))
        elif step.new_mode or not then.is_kept(step.path):
            planned.append(step)
    return planned, skipped


def _order(steps: Sequence[FileStep]) -> list[FileStep]:
    """Put removals first, which make room, and what says what is ignored last.

    Cut off in between, the rest is planned again by the rules of before.
    """
    written = {step.path for step in steps if step.new_mode}

    def rank(step: FileStep) -> tuple[int, str]:
        is_rules = step.path.rpartition("/")[2] == ".gitignore"
        if is_rules and written.isdisjoint(list_folders(step.path)):
            return 2, step.path
        return (1 if step.new_mode else 0), step.path

    return sorted(steps, key=rank)


def _split(steps: Sequence[FileStep], sizes: Mapping[str, int]) -> Generator[list[FileStep]]:
    """Divide the work into parts whose contents may be held in memory at once."""
    part: list[FileStep] = []
    size = 0
    for step in steps:
        part.append(step)
        size += sum(sizes[oid] for oid in step.oids)
        if size > _BATCH or len(part) >= _STEPS:
            yield part
            part, size = [], 0
    if part:
        yield part


_T = TypeVar("_T")


async def _in_thread(work: Callable[[], _T]) -> _T:
    """Do it in a thread, to its end also if nobody waits any more: the lock must not be free before."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
