"""Runs git on a bare repository of ours whose work tree is the person's folder.

git finds what changed and what is ignored. The repository of the person is read (its ignore rules, the names
in its index), never written or locked. No attribute, filter or hook counts: bytes go in and come out as they
are.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import stat
import zlib
from collections.abc import AsyncGenerator, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from kakite import state_files
from kakite.agent.git.mirror import build_git_missing_error
from kakite.agent.session.checkpoint_files import FileStep, hash_blob
from kakite.errors import ExternalError
from kakite.processes import CompletedProcess, ProcessError, ProcessSpec, build_base_environment, run

OUTPUT_LIMIT = 512 << 20
"""Bytes of names of all files, or of contents that are read at once."""
REFS = "refs/checkpoints"
_TIMEOUT = 600.0  # s
_WAIT = 60.0  # s for somebody else who uses the store
_REASON = 600  # characters of what git said
_RULES = 1 << 20  # bytes of a file of ignore rules
_READ_ANY = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_NO_ENTRY = f"0 {'0' * 40}"
_OID = re.compile("[0-9a-f]{40}")
_UNKNOWN = 3  # exit code: there is no such commit
_FEW = 50  # contents
_MANY = 500  # files
_PLACEHOLDER = ".kakite-nothing"

# What the person's git is asked by for their own rules, beside what is closed off for ours.
_USER_GIT = ("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")
_DROPPED = {"GIT_CONFIG_GLOBAL": "", "GIT_CONFIG_NOSYSTEM": "", "GIT_CONFIG_COUNT": ""}
_CLOSED = {
    "LC_ALL": "C",  # its words are read
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_TERMINAL_PROMPT": "0",
    **{f"GIT_{role}_NAME": "Kakite" for role in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{role}_EMAIL": "kakite@localhost" for role in ("AUTHOR", "COMMITTER")},
}
_CONFIG = f"""\
[core]
	repositoryformatversion = 0
	bare = false
	fileMode = true
	symlinks = true
	ignoreCase = false
	precomposeUnicode = false
	protectHFS = false
	protectNTFS = false
	autocrlf = false
	safecrlf = false
	fsmonitor = false
	hooksPath = {os.devnull}
	attributesFile = {os.devnull}
	logAllRefUpdates = false
	fsync = committed
	fsyncMethod = batch
[gc]
	auto = 0
[maintenance]
	auto = false
[status]
	showUntrackedFiles = all
[pack]
	threads = 1
	windowMemory = 64m
"""
# The attributes that change contents or start programs, off whatever the folder's own files say.
_ATTRIBUTES = "* -text !eol -ident !filter !working-tree-encoding !diff !merge\n"

_IS_IGNORED = 'GIT_LITERAL_PATHSPECS=0 git -C "$1" check-ignore --quiet -- "./$2"'

# Sections end with an empty name.
_STATUS = """\
set -e
end() { printf '\\0'; }
git status --porcelain -z --untracked-files=all --ignored=matching --no-renames -- .
end
"""
# What is ignored and in our index; the same of the person's, if it can be read from here; all in ours.
_COVERED = """\
set -e
end() { printf '\\0'; }
git ls-files -z --cached --ignored --exclude-standard
end
if [ -n "$1" ]; then
  GIT_INDEX_FILE="$1" git ls-files -z --stage --cached --ignored --exclude-standard || :
fi
end
if [ -n "$2" ]; then git ls-files -z; fi
end
"""
# After many changes the next `git status` would read all these files again, and tell how the head differs.
_RECORD = """\
set -e
if [ -n "$1" ]; then git update-index -z --add --replace --index-info; fi
tree=$(git write-tree)
if [ -n "$2" ]; then
  git update-index -q --refresh >/dev/null || :
  git update-ref HEAD "$(git commit-tree -m index "$tree")"
fi
if [ -n "$3" ]; then tree=$(git rev-parse --quiet --verify "$tree:$3" || git mktree </dev/null); fi
echo "$tree"
if [ -n "$6" ]; then
  both=$(printf '100644 blob %s\\tfacts\\n040000 tree %s\\tfiles\\n' "$4" "$tree" | git mktree)
  commit=$(git commit-tree -m "$5" "$both")
  git update-ref "$6" "$commit"
  echo "$commit"
fi
"""
_READ = f"""\
[ -n "$(git for-each-ref --points-at "$1" {REFS} 2>/dev/null)" ] || exit {_UNKNOWN}
set -e
tree=$(git rev-parse --verify "$1:files")
printf '%s\\0\\0' "$tree"
git cat-file blob "$1:facts"
printf '\\0\\0'
git ls-tree -r -z --name-only "$tree"
printf '\\0'
"""
PACK_SCRIPT = """\
git pack-refs --all
git repack -q -A -d --unpack-unreachable=1.hour.ago
git prune --expire=1.hour.ago
"""


class CheckpointError(ExternalError):
    """A checkpoint cannot be made, found or brought back.

    Codes: ``checkpoint_failed``, ``checkpoint_unknown``.
    """

    code = "checkpoint_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderScan:
    """What git says of the folder."""

    candidates: frozenset[str]
    """Files that may have to be read."""
    removed: frozenset[str]
    """Files that are in the index and not to be in it any more."""
    ignored: frozenset[str]
    repositories: tuple[str, ...]
    """Repositories in the folder that git does not look into unless told; each ends in ``/``."""
    unreadable: tuple[str, ...]
    is_head_far: bool
    """Whether the tree of the head differs much from the index, which takes ``git status`` time."""


class ShadowRepository:
    """The bare repository, and how git is run on it."""

    def __init__(self, root: Path, folder: Path, environ: Mapping[str, str]) -> None:
        self._root = root
        self._folder = folder
        self._environ = environ
        self._top = root
        self._repository: UserRepository | None = None
        self._user_excludes = ""
        self._rules: tuple[object, ...] | None = None
        """What the rules were when all names in the index were last held against them."""
        self._tracked: set[str] = set()
        """What the person's repository has in spite of being ignored."""
        self._is_open = False

    @asynccontextmanager
    async def lock(self) -> AsyncGenerator[None]:
        """Be the only one who uses the store.

        Raises:
            CheckpointError: somebody else used it all the time, or it cannot be used.
        """
        file = self._folder / "lock"
        try:
            async with state_files.lock_file_async(file, _WAIT):
                if not self._is_open:
                    await self._open()
                    self._is_open = True
                (self._git_dir / "index.lock").unlink(missing_ok=True)  # of a process that was killed
                yield
        except OSError as error:
            reason, hint = state_files.explain_os_error(error, file)
            named = error.filename or self._folder
            raise CheckpointError(f"`{named}` cannot be used: {reason}", hint=hint) from error

    @property
    def _git_dir(self) -> Path:
        return self._folder / "git"

    @property
    def _prefix(self) -> str:
        """From the top of the person's repository to the root; empty, or with a slash at its end."""
        return "" if self._top == self._root else f"{self._root.relative_to(self._top)}/"

    async def _open(self) -> None:
        config = self._git_dir / "config"
        # Ours is written when all else is there.
        if not config.exists() or config.read_text("utf-8") != _CONFIG:
            await self.run_git("init", "-q", "--template=", "--object-format=sha1", "--initial-branch=index")
            state_files.replace(config, _CONFIG.encode())
        (self._git_dir / "info").mkdir(exist_ok=True)
        state_files.replace(self._git_dir / "info" / "attributes", _ATTRIBUTES.encode())
        self._user_excludes = await self._find_user_excludes()
        self._repository = _find_repository(self._root)
        self._top = self._repository.top if self._repository else self._root
        self.load_excludes()
        if self._top != self._root:
            asked = await self.run_script(_IS_IGNORED, str(self._top), self._prefix, may_fail=True)
            if asked.exit_code == 0:  # the repository around has no eye on it
                self._top, self._repository = self._root, None

    async def _find_user_excludes(self) -> str:
        """Return where the person's own ignore rules are, in the words of their git."""
        own = {name: self._environ[name] for name in _USER_GIT if name in self._environ}
        environment = {**self._build_environment(), **_DROPPED, **own}
        argv = ("git", "config", "--includes", "--type=path", "--get", "core.excludesFile")
        environment = {name: value for name, value in environment.items() if value}
        done = await self._run(argv, environment, may_fail=True)
        if done.exit_code == 0:
            return os.fsdecode(done.stdout).removesuffix("\n")
        home = self._environ.get("HOME", "")
        configured = self._environ.get("XDG_CONFIG_HOME") or (f"{home}/.config" if home else "")
        return f"{configured}/git/ignore" if configured else ""

    def load_excludes(self) -> None:
        """Take over what the person's repository excludes for this clone alone."""
        if self._repository is None and (self._root / ".git").exists():  # made meanwhile
            self._repository = _find_repository(self._root)
        rules = self._repository.read_excludes() if self._repository else b""
        if self._folder.is_relative_to(self._top):  # never the store itself
            own = re.sub(rb"([\\*?\[ !#])", rb"\\\1", os.fsencode(self._folder.relative_to(self._top)))
            rules += b"\n/%s/\n" % own
        file = self._git_dir / "info" / "exclude"
        if not file.exists() or file.read_bytes() != rules:
            state_files.replace(file, rules)

    async def scan(self, also: Collection[str]) -> FolderScan:
        """Ask git what changed, what is new, and what is ignored."""
        index = str(self._repository.index) if self._repository and self._repository.index.is_file() else ""
        stamp = self._stamp_rules(index)
        are_new = bool(also) or stamp != self._rules
        done = await self.run_script(
            f"{_STATUS}{_COVERED}" if are_new else _STATUS, index, "all" if also else ""
        )
        status, *sections = _split_sections(done.stdout)
        changed, ignored = self._parse_status(status)
        touched = not self._tracked.isdisjoint(changed)
        if not are_new and (touched or any(map(_is_rules, changed))):
            sections = _split_sections((await self.run_script(_COVERED, index, "")).stdout)
        covered: set[str] = set()
        missing: set[str] = set()
        if sections:
            covered = set(map(os.fsdecode, sections[0]))
            self._tracked = {path for mode, path in _parse_staged(sections[1]) if mode != "160000"}
            missing = set(also).difference(map(os.fsdecode, sections[2])) | (self._tracked - covered)
            # git does not tell when one of these that is gone is there again: we have to ask.
            self._rules = None if also or touched or self._tracked - covered else stamp
        kept = self._tracked.union(also)
        repositories = {path for path in changed if path.endswith("/")}
        return FolderScan(
            candidates=frozenset((changed | missing) - repositories - (covered - kept)),
            removed=frozenset(covered - kept),
            ignored=frozenset(ignored - kept),
            repositories=tuple(sorted(repositories)),
            unreadable=tuple(self._parse_unreadable(done.stderr)),
            is_head_far=sum(token[:1] not in b" ?!" for token in status) > _MANY,
        )

    def _stamp_rules(self, index: str) -> tuple[object, ...]:
        """Return what changes with the rules that are outside of the folder."""
        stamps = [state_files.read_stamp(Path(file)) for file in (index, self._user_excludes) if file]
        return (*stamps, (self._git_dir / "info" / "exclude").read_bytes())

    def _parse_status(self, tokens: Iterable[bytes]) -> tuple[set[str], set[str]]:
        """Return what is to be looked at, and what is ignored."""
        changed, ignored = set[str](), set[str]()
        for token in tokens:
            path = os.fsdecode(token[3:]).removeprefix(self._prefix)
            if token[:2] == b"!!":
                ignored.add(path)
            elif token[1:2] == b"T" and (self._root / path).is_dir():
                changed |= {path, f"{path}/"}  # a repository has the place of what was a file
            elif token[1:2] != b" ":
                changed.add(path)
        return changed, ignored

    def _parse_unreadable(self, said: bytes) -> Generator[str]:
        for found in re.finditer(rb"^warning: could not open directory '(.+)': [^']+$", said, re.M):
            yield os.fsdecode(found[1]).removeprefix(self._prefix)

    async def enter_repositories(self, paths: Iterable[str]) -> None:
        """Let git look into repositories within: it does where its index has a file of theirs.

        The file is none that is there, so that it is gone from the index with the next tree.
        """
        entry = f"100644 {hash_blob(b'')}\t{self._prefix}%s{_PLACEHOLDER}\0"
        stdin = "".join(entry % path for path in paths)
        await self.run_git(
            "update-index", "-z", "--add", "--replace", "--index-info", stdin=os.fsencode(stdin)
        )

    async def add_blobs(self, blobs: Sequence[bytes]) -> None:
        """Store contents: many as one pack, few as files, without a program."""
        if len(blobs) > _FEW:
            stream = b"".join(b"blob\ndata %d\n%s\n" % (len(blob), blob) for blob in blobs)
            await self.run_git("fast-import", "--quiet", stdin=stream)
        elif blobs:
            await asyncio.to_thread(self._write_objects, blobs)

    def _write_objects(self, blobs: Sequence[bytes]) -> None:
        try:
            for blob in blobs:
                oid = hash_blob(blob)
                file = self._git_dir / "objects" / oid[:2] / oid[2:]
                if not file.exists():
                    file.parent.mkdir(exist_ok=True)
                    state_files.replace(file, zlib.compress(b"blob %d\0" % len(blob) + blob, 1), mode=0o400)
        except OSError as error:
            reason, hint = state_files.explain_os_error(error, self._git_dir)
            raise CheckpointError(f"`{self._folder}` cannot be written: {reason}", hint=hint) from error

    async def record(
        self, entries: Mapping[str, str], facts: bytes, message: str, ref: str, *, move_head: bool
    ) -> tuple[str, str]:
        """Write the tree with these entries changed; commit it if there is a ref to keep it by."""
        if ref:
            await self.add_blobs([facts])
        # Removals first: what was a file may be a folder now.
        ordered = sorted(entries.items(), key=lambda each: bool(each[1]))
        lines = (f"{entry or _NO_ENTRY}\t{self._prefix}{path}\0" for path, entry in ordered)
        stdin = os.fsencode("".join(lines))
        flags = ("changed" if entries else "", "move" if move_head or len(entries) > _MANY else "")
        prefix = self._prefix.removesuffix("/")
        done = await self.run_script(_RECORD, *flags, prefix, hash_blob(facts), message, ref, stdin=stdin)
        tree, _, commit = done.stdout.decode().strip().partition("\n")
        return tree, commit

    async def read_checkpoint(self, oid: str) -> tuple[str, bytes, list[str]] | None:
        """Return the tree of a commit, its facts and all paths in it; None if it is not there."""
        if not _OID.fullmatch(oid):
            return None
        done = await self.run_script(_READ, oid, may_fail=True)
        if done.exit_code == _UNKNOWN:
            return None
        if done.exit_code != 0 or done.stdout_dropped:
            raise _build_error(done)
        (tree,), (facts,), paths = _split_sections(done.stdout)
        return tree.decode(), facts, list(map(os.fsdecode, paths))

    def load_modes(self) -> dict[str, int]:
        """Return the unusual permissions of the files in the index."""
        with suppress(FileNotFoundError, ValueError):
            return json.loads((self._folder / "modes.json").read_bytes())
        return {}

    def save_modes(self, modes: Mapping[str, int]) -> None:
        """Keep them."""
        if modes != self.load_modes():
            state_files.replace(self._folder / "modes.json", json.dumps(modes).encode())

    def forget_index(self) -> None:
        """Let git look at all files anew."""
        (self._git_dir / "index").unlink(missing_ok=True)
        self._rules = None

    async def run_git(
        self, *arguments: str, stdin: bytes = b"", limit: int = 1 << 20, may_fail: bool = False
    ) -> CompletedProcess:
        """Run git on the store."""
        environment = self._build_environment()
        return await self._run(("git", *arguments), environment, stdin=stdin, limit=limit, may_fail=may_fail)

    async def run_script(
        self,
        script: str,
        *arguments: str,
        stdin: bytes = b"",
        timeout: float = _TIMEOUT,  # noqa: ASYNC109 - as run
        may_fail: bool = False,
    ) -> CompletedProcess:
        """Run git several times: starting each on its own would take longer than what they do."""
        argv = ("sh", "-c", script, "sh", *arguments)
        environment = self._build_environment()
        return await self._run(
            argv, environment, stdin=stdin, limit=OUTPUT_LIMIT, timeout=timeout, may_fail=may_fail
        )

    def _build_environment(self) -> dict[str, str]:
        return {
            **build_base_environment(self._environ, str(self._folder)),
            **_CLOSED,
            "GIT_DIR": str(self._git_dir),
            "GIT_WORK_TREE": str(self._top),
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "core.excludesFile",
            "GIT_CONFIG_VALUE_0": self._user_excludes or os.devnull,
        }

    async def _run(
        self,
        argv: tuple[str, ...],
        environment: Mapping[str, str],
        *,
        stdin: bytes = b"",
        limit: int = 1 << 20,
        timeout: float = _TIMEOUT,  # noqa: ASYNC109 - as run
        may_fail: bool = False,
    ) -> CompletedProcess:
        launch = ProcessSpec(argv=argv, env=environment or self._build_environment(), cwd=str(self._root))
        try:
            done = await run(launch, stdin=stdin, timeout=timeout, limit=2 * limit)
        except ProcessError as error:
            if error.code == "program_missing":
                raise build_git_missing_error() from error
            raise CheckpointError(error.message, hint=error.hint) from error
        too_much = limit == OUTPUT_LIMIT and done.stdout_dropped
        if not may_fail and (done.exit_code != 0 or too_much):
            raise _build_error(done)
        return done


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRepository:
    """The person's repository: read, never written."""

    top: Path
    index: Path
    common: Path

    def read_excludes(self) -> bytes:
        """Return the rules for this clone alone."""
        with (
            suppress(OSError),
            os.fdopen(os.open(self.common / "info" / "exclude", _READ_ANY), "rb") as opened,
        ):
            if stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                return opened.read(_RULES)
        return b""


def _find_repository(root: Path) -> UserRepository | None:
    """Return the person's repository that the folder is in, or the top of."""
    for folder in (root, *root.parents):
        mark = folder / ".git"
        with suppress(OSError, ValueError):
            if mark.stat().st_uid not in {os.geteuid(), root.stat().st_uid}:
                continue
            own = mark if mark.is_dir() else folder / _read_line(mark).removeprefix("gitdir: ")
            common = own / _read_line(own / "commondir") if (own / "commondir").is_file() else own
            return UserRepository(top=folder, index=own / "index", common=common)
    return None


def _read_line(file: Path) -> str:
    with os.fdopen(os.open(file, _READ_ANY), "rb") as opened:
        return os.fsdecode(opened.read(_RULES)).removesuffix("\n")


def _is_rules(path: str) -> bool:
    return path.rpartition("/")[2] == ".gitignore"


def _split_sections(output: bytes) -> list[list[bytes]]:
    """Divide what the script printed at the empty names."""
    sections: list[list[bytes]] = [[]]
    for token in output.split(b"\0")[:-1]:
        if token:
            sections[-1].append(token)
        else:
            sections.append([])
    return sections[:-1]


def _parse_staged(tokens: Iterable[bytes]) -> Generator[tuple[str, str]]:
    for token in tokens:
        about, _, path = token.partition(b"\t")
        yield about.split(b" ")[0].decode(), os.fsdecode(path)


def _build_error(done: CompletedProcess) -> CheckpointError:
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    told = [line for line in said if line.startswith(("fatal:", "error:"))] or said[-1:]
    reason = (
        "it took too long" if done.timed_out else "; ".join(told)[:_REASON] or f"exit code {done.exit_code}"
    )
    return CheckpointError(
        f"the files cannot be saved or found: {reason}", hint="check whether the disk is full, then try again"
    )


def parse_raw(tokens: Sequence[bytes]) -> Generator[FileStep]:
    """Read what ``git diff-* --raw -z`` prints."""
    for about, path in zip(tokens[::2], tokens[1::2], strict=True):
        words = about[1:].decode().split(" ")
        before, after = ("" if mode == "000000" else mode for mode in words[:2])
        yield FileStep(path=os.fsdecode(path), old_mode=before, new_mode=after, old=words[2], new=words[3])
