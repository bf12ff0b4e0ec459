"""Selects the files that a debate is about, and copies them to where every side can read them.

A kept debate has the digest of its files, so that who goes on with it learns if they are others now: they are
copied anew.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Protocol

from kakite.debate.model import CodeContext, DebateError
from kakite.debate.prompt import load_prompt, wrap_in_tag
from kakite.errors import KakiteError
from kakite.processes import ProcessError, ProcessSpec, build_base_environment, run
from kakite.sandbox.files.temp import temporary_folder
from kakite.terminal_text import escape_one_line
from kakite.tools.search.glob import GlobFilter
from kakite.workspace import Workspace
from kakite.workspace.listing import WalkedFile
from kakite.workspace.write_denylist import DEFAULT_DENYLIST

MAX_FILES = 10_000
MAX_BYTES = 64 << 20
"""Of all files together."""
MAX_FILE = 1 << 20
"""Bytes of one file; larger ones are left out."""
MAX_DIFF = 200_000
"""Characters; each side is shown all of it in each round."""
MAX_TEXT = 120_000
"""Characters of files for a side that cannot read them by itself."""
_NAMED = 20
"""Files left out that are told by their names."""
_GIT_TIMEOUT = 60.0

_SECRETS = (
    *(".env", ".env.*", "*.env", ".npmrc", ".htpasswd", "credentials", "credentials.*", "secrets.*"),
    *(
        "*.pem",
        "*.key",
        "*.p12",
        "*.pfx",
        "*.jks",
        "*.keystore",
        "*.kdbx",
        "*.ppk",
        "*.tfstate",
        "*.tfstate.*",
    ),
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*"),
)
"""Files that hold secrets, as a rule, besides those that tools may not write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSnapshot:
    """A copy of the files that a debate is about."""

    folder: Path
    first: frozenset[str] = field(default_factory=frozenset[str])
    """Those that come first where there is no room for all: those that the diff changes."""

    def add_tools(self, prompt: str, folder: str) -> str:
        """Return the prompt for a side that has tools for the copy, which it sees in that folder."""
        return load_prompt("files_tools").format(folder=folder) + "\n\n" + prompt

    def add_text(self, prompt: str, folder: str = "") -> str:
        """Return the prompt, with the files, for a side that may have no tools for them.

        ``folder`` is where it sees the copy, if it does.
        """
        form = load_prompt("files_folder" if folder else "files_text")
        return form.format(files=self.render(), folder=folder) + "\n\n" + prompt

    def render(self, limit: int = MAX_TEXT) -> str:
        """Return the files' texts, as many characters at most, and the names of those left out."""
        paths = sorted(self._list_paths(), key=lambda path: (path not in self.first, path))
        parts: list[str] = []
        missing: list[str] = []
        for path in paths:
            text = _read_text(self.folder / path)
            if text is None or len(text) > limit:
                missing.append(path)
                continue
            limit -= len(text)
            parts.append(wrap_in_tag("file", text, path=escape_one_line(path).replace('"', "'")))
        if missing:
            parts.append(f"Left out, for their size or because they are no text: {_join_names(missing)}")
        return "\n\n".join(parts)

    def _list_paths(self) -> Iterator[str]:
        for folder, _, names in os.walk(self.folder):
            for name in names:
                yield str(Path(folder, name).relative_to(self.folder))


async def read_context(
    folder: Path, patterns: Sequence[str] = (), base: str = "", commit: str = ""
) -> CodeContext:
    """Return which files a debate in this folder is about.

    Args:
        folder: of the person's.
        patterns: globs, relative to the folder; none: all files that ``.gitignore`` does not leave out.
        base: a commit; what has changed since is shown to every side. Empty: nothing is.
        commit: the files are of this one; empty: as they are in the folder.

    Raises:
        DebateError: ``bad_files`` or ``files_too_large``.
    """
    if commit:
        commit = await _resolve_commit(folder, commit)
        selection = _select(folder, patterns, await _load_commit(folder, commit, patterns))
    else:
        selection = await asyncio.to_thread(_select, folder, patterns, _walk(folder))
    diff, changed = "", list[str]()
    if base:
        ends = (await _resolve_commit(folder, base), *([commit] if commit else []))
        diff, changed = await _read_diff(folder, ends, patterns, selection.paths)
        if not diff:
            raise DebateError(
                f"nothing has changed since `{base}`", hint="name another commit", code="bad_files"
            )
    return CodeContext(
        folder=selection.folder,
        patterns=tuple(patterns),
        base=base,
        diff=diff,
        changed=tuple(changed),
        count=len(selection.paths),
        left_out=selection.left_out,
        digest=selection.digest,
        commit=commit,
    )


async def read_review_context(
    folder: Path, branch: str, patterns: Sequence[str] = (), base: str = ""
) -> CodeContext:
    """Return the files of a branch, with what it changes.

    ``base`` is what it is to be merged into. Empty: what is checked out, or if that is the branch itself, the
    main branch; it counts from where the two parted.

    Raises:
        DebateError: ``bad_files`` or ``files_too_large``.
    """
    tip = await _resolve_commit(folder, branch)
    for name in [base] if base else ["HEAD", "origin/HEAD", "main", "master"]:
        try:
            parted = (await _run_git(folder, "merge-base", await _resolve_commit(folder, name), tip)).strip()
        except DebateError:
            if base:
                raise
            continue
        if parted != tip:
            found = await read_context(folder, patterns, parted, tip)
            return replace(found, base=name)
    raise DebateError(
        f"`{branch}` changes nothing that is not merged", hint="name its base with `--diff`", code="bad_files"
    )


@contextmanager
def take_snapshot(context: CodeContext) -> Generator[FileSnapshot]:
    """Yield a copy of the files, which is gone after.

    Raises:
        DebateError: as ``read_context``.
    """
    with temporary_folder("debate-files") as folder:
        source = Path(context.folder)
        if context.commit:  # in a thread of its own, which has no loop
            files = asyncio.run(_load_commit(source, context.commit, context.patterns))
        else:
            files = _walk(source)
        _select(source, context.patterns, files, into=folder)
        yield FileSnapshot(folder=folder, first=frozenset(context.changed))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Selection:
    """The files that are meant."""

    folder: str
    """The absolute path of where they are."""
    paths: frozenset[str]
    left_out: tuple[str, ...]
    """Files that are meant and not shown."""
    digest: str


class _Source(Protocol):
    """A file that may be meant."""

    def read_size(self) -> int | None:
        """Return how many bytes it has, if it can be read."""
        ...

    def read(self) -> bytes:
        """Read it."""
        ...


@dataclass(frozen=True, slots=True)
class _CommittedFile:
    """A file of a commit."""

    size: int
    data: bytes

    def read_size(self) -> int | None:
        return self.size

    def read(self) -> bytes:
        return self.data


def _select(
    folder: Path, patterns: Sequence[str], files: Iterable[tuple[str, _Source]], into: Path | None = None
) -> _Selection:
    """Look which files are meant, and copy them if it is said where to."""
    meant, open_to_all = GlobFilter(patterns, ()), GlobFilter((), (*DEFAULT_DENYLIST, *_SECRETS))
    paths: set[str] = set()
    left_out: list[str] = []
    total, digest = 0, hashlib.sha256()
    for path, file in files:
        if not meant.is_included(path):
            continue
        data = _read_small(file) if open_to_all.is_included(path) else None
        if data is None:
            left_out.append(path)
            continue
        total += len(data)
        paths.add(path)
        if len(paths) > MAX_FILES or total > MAX_BYTES:
            raise _create_too_large_error(folder)
        digest.update(f"{path}\0{len(data)}\0".encode(errors="surrogateescape") + data)
        if into:
            (into / path).parent.mkdir(parents=True, exist_ok=True)
            (into / path).write_bytes(data)
    if not paths:
        raise DebateError(
            f"there are no files to show in `{folder}`",
            hint="name another folder or other `--files`; what `.gitignore` leaves out is not shown",
            code="bad_files",
        )
    return _Selection(
        folder=os.path.realpath(folder),
        paths=frozenset(paths),
        left_out=tuple(left_out),
        digest=digest.hexdigest(),
    )


def _read_small(file: _Source) -> bytes | None:
    """Return what is in a file; None if it is too large, gone, or closed to us."""
    with suppress(OSError, KakiteError):
        size = file.read_size()
        return None if size is None or size > MAX_FILE else file.read()
    return None


def _walk(folder: Path) -> Iterator[tuple[str, WalkedFile]]:
    try:
        with closing(Workspace([folder])) as workspace:
            for file in workspace.walk_files():
                yield file.below, file
    except (KakiteError, OSError) as error:
        if isinstance(error, DebateError):
            raise
        raise DebateError(f"`{folder}` cannot be read: {error}", code="bad_files") from error


def _create_too_large_error(folder: Path) -> DebateError:
    return DebateError(
        f"the sides would have to read more than {MAX_FILES:,} files or {MAX_BYTES >> 20} MiB of `{folder}`",
        hint="name a folder below it, or the files by `--files`, such as `--files 'src/**'`",
        code="files_too_large",
    )


async def _load_commit(folder: Path, commit: str, patterns: Sequence[str]) -> list[tuple[str, _Source]]:
    """Return the files of a commit below the folder; those that are not shown without their contents."""
    listed = await _run_git(folder, "ls-tree", "-r", "-z", "-l", commit)
    meant = GlobFilter(patterns, (*DEFAULT_DENYLIST, *_SECRETS))
    found: list[tuple[str, str, int]] = []
    for entry in filter(None, listed.split("\0")):
        about, _, path = entry.partition("\t")
        mode, _, blob, size = about.split()
        if mode.startswith("100"):  # no link, no submodule
            found.append((path, blob, int(size)))
    wanted = [(path, blob) for path, blob, size in found if meant.is_included(path) and size <= MAX_FILE]
    if len(wanted) > MAX_FILES or sum(size for path, _, size in found if meant.is_included(path)) > MAX_BYTES:
        raise _create_too_large_error(folder)
    contents = await _read_blobs(folder, [blob for _, blob in wanted])
    shown = {path: data for (path, _), data in zip(wanted, contents, strict=True)}
    return [
        (path, _CommittedFile(size if path in shown else MAX_FILE + 1, shown.get(path, b"")))
        for path, _, size in found
    ]


async def _read_blobs(folder: Path, blobs: Sequence[str]) -> list[bytes]:
    printed = await _run_git_raw(folder, "cat-file", "--batch", stdin="".join(f"{blob}\n" for blob in blobs))
    contents: list[bytes] = []
    at = 0
    for _ in blobs:
        head = printed.index(b"\n", at)
        size = int(printed[at:head].split()[2])
        contents.append(printed[head + 1 : head + 1 + size])
        at = head + 1 + size + 1
    return contents


async def _resolve_commit(folder: Path, name: str) -> str:
    return (await _run_git(folder, "rev-parse", "--verify", "--end-of-options", f"{name}^{{commit}}")).strip()


async def _read_diff(
    folder: Path, ends: Sequence[str], patterns: Sequence[str], paths: Collection[str]
) -> tuple[str, list[str]]:
    """Return what has changed in the files that are meant, and which those are."""
    flags = ("--no-color", "--no-ext-diff", "--no-textconv", "--no-renames", "--relative", *ends, "--")
    names = (await _run_git(folder, "diff", "--name-only", "-z", *flags)).split("\0")
    whole = await _run_git(folder, "diff", *flags)
    parts = _split_diff(whole)
    meant = GlobFilter(patterns, (*DEFAULT_DENYLIST, *_SECRETS))
    shown = [
        (name, part)
        for name, part in zip(names, parts, strict=False)
        if name in paths or ("\n+++ /dev/null" in part and meant.is_included(name))
    ]
    diff = "".join(part for _, part in shown)
    if len(diff) > MAX_DIFF:
        raise DebateError(
            f"the diff has {len(diff):,} characters; the limit is {MAX_DIFF:,}",
            hint="name a later commit, or fewer files by `--files`",
            code="files_too_large",
        )
    return diff, [name for name, _ in shown]


def _split_diff(text: str) -> list[str]:
    """Return the parts of a diff, one for each file: no line of a file's text begins as a part does."""
    begun = "\n" + text
    return ["diff --git " + part + "\n" for part in begun.removesuffix("\n").split("\ndiff --git ")[1:]]


async def _run_git(folder: Path, *arguments: str) -> str:
    return (await _run_git_raw(folder, *arguments)).decode(errors="replace")


async def _run_git_raw(folder: Path, *arguments: str, stdin: str = "") -> bytes:
    """Return what git prints; it runs none of the programs that a repository may name for a diff.

    Raises:
        DebateError: ``bad_files``.
    """
    quiet = ("-c", "core.fsmonitor=false", "-c", "protocol.allow=never", "-c", "core.quotePath=false")
    env = build_base_environment(os.environ, os.environ.get("HOME", "/")) | {"GIT_OPTIONAL_LOCKS": "0"}
    spec = ProcessSpec(argv=("git", *quiet, *arguments), env=env, cwd=str(folder))
    try:
        done = await run(spec, stdin=stdin.encode(), timeout=_GIT_TIMEOUT, limit=2 * MAX_BYTES)
    except (ProcessError, OSError) as error:
        raise DebateError(f"git does not run in `{folder}`: {error}", code="bad_files") from error
    if done.exit_code:
        told = done.stderr.decode(errors="replace").strip().splitlines() or ["git failed"]
        hint = "name a commit or a branch of this repository"
        raise DebateError(f"no diff: {told[-1]}", hint=hint, code="bad_files")
    return done.stdout


def is_shown_name(path: str) -> bool:
    """Return whether sides may see a file of this name: it holds no secret, and tools may write it."""
    return GlobFilter((), (*DEFAULT_DENYLIST, *_SECRETS)).is_included(path)


def format_left_out(context: CodeContext) -> str:
    """Return a line on the files that are not shown; nothing where all are."""
    if not context.left_out:
        return ""
    return f"not shown to any side (secrets, settings, more than {MAX_FILE >> 20} MiB): " + _join_names(
        context.left_out
    )


def _join_names(names: Collection[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(islice(names, _NAMED)) + (f", and {more} more" if more > 0 else "")


def _read_text(file: Path) -> str | None:
    try:
        text = file.read_bytes().decode()
    except (OSError, UnicodeDecodeError):
        return None
    return None if "\0" in text else text
