"""``origin`` inside a sandbox: the outcome is the real repository's, and only one branch may be pushed."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from kakite.agent.git.mirror import Mirror
from kakite.agent.git.sandbox_remote import SandboxRemote
from kakite.agent.git.url import parse_repo_url
from kakite.agent.git.worktree import ORIGIN_SERVICE, Worktree
from kakite.processes import CompletedProcess
from kakite.sandbox import Sandbox, SandboxSpec, open_sandbox
from tests.bounds import WITHIN
from tests.repositories import commit_file, git, make_remote

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

BRANCH = "kakite/topic"


@dataclass
class Inside:
    """A checkout in a sandbox whose origin is served."""

    sandbox: Sandbox
    checkout: Worktree
    mirror: Mirror
    remote: Path
    place: Path
    relay: SandboxRemote

    async def git(self, *arguments: str) -> CompletedProcess:
        """Run git as a model would, by hand."""
        person = ("-c", "user.name=Model", "-c", "user.email=model@localhost")
        return await self.sandbox.exec(("git", *person, *arguments), timeout=60)

    async def works(self, *arguments: str) -> str:
        done = await self.git(*arguments)
        assert done.exit_code == 0, done.stderr.decode()
        return (done.stdout + done.stderr).decode()

    async def fails(self, *arguments: str) -> str:
        done = await self.git(*arguments)
        assert done.exit_code not in {0, None}
        return (done.stdout + done.stderr).decode()

    async def commits(self, path: str, text: str) -> str:
        """Commit one file as a model would; return the commit."""
        Path(self.sandbox.project, path).write_text(text, encoding="utf-8")
        await self.works("add", "--all")
        await self.works("commit", "--quiet", f"--message=Model's {path}")
        return (await self.works("rev-parse", "HEAD")).strip()


@pytest.fixture
def place() -> Generator[Path]:
    """A folder with a short name: a socket's address has room for 107 bytes only."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@asynccontextmanager
async def opened(place: Path, remote: Path, branch: str = BRANCH) -> AsyncGenerator[Inside]:
    mirror = Mirror(place / "mirror.git", parse_repo_url(str(remote)), os.environ)
    relay = SandboxRemote(mirror, branch)
    sandbox = open_sandbox("local", place / "task", terms=SandboxSpec(services={ORIGIN_SERVICE: relay}))
    checkout = Worktree(sandbox, branch=branch, author=("Kakite", "kakite@localhost"))
    inside = Inside(sandbox, checkout, mirror, remote, place, relay)
    await mirror.create()
    await sandbox.prepare()
    try:
        await checkout.create(
            await mirror.pack_history(await mirror.find_start_commit(branch), branch=branch)
        )
        yield inside
    finally:
        await sandbox.destroy()


@pytest.fixture
async def inside(place: Path) -> AsyncGenerator[Inside]:
    async with opened(place, make_remote(place, {"a": "1\n", "b": "1\n"})) as found:
        yield found


async def test_a_push_arrives_at_the_real_repository_and_is_told_as_git_tells_it(inside: Inside) -> None:
    commit = await inside.commits("a", "2\n")
    assert f"[new branch]      {BRANCH} -> {BRANCH}" in await inside.works("push")
    assert git(inside.remote, "rev-parse", BRANCH) == commit
    assert git(inside.mirror.folder, "rev-parse", BRANCH) == commit
    assert inside.relay.take_pushed_commits() == (commit,)
    assert await inside.works("log", f"origin/{BRANCH}..") == ""


async def test_a_fetch_brings_what_others_pushed_just_now(inside: Inside) -> None:
    theirs = commit_file(inside.place, inside.remote, "main", "a", "theirs\n")
    await inside.works("fetch")
    assert (await inside.works("rev-parse", "origin/main")).strip() == theirs
    assert theirs in await inside.works("ls-remote", "origin")


async def test_a_push_that_came_second_is_rejected_and_succeeds_after_a_pull(inside: Inside) -> None:
    await inside.commits("a", "2\n")
    await inside.works("push", "origin", BRANCH)
    theirs = commit_file(inside.place, inside.remote, BRANCH, "b", "theirs\n")
    await inside.commits("a", "3\n")
    assert "(fetch first)" in await inside.fails("push")
    assert git(inside.remote, "rev-parse", BRANCH) == theirs
    await inside.works("pull", "--rebase", "--quiet")
    await inside.works("push", "origin", BRANCH)
    assert git(inside.remote, "rev-parse", f"{BRANCH}~1") == theirs
    assert git(inside.remote, "show", f"{BRANCH}:a") == "3"


async def test_a_push_overtaken_on_its_way_does_not_succeed(inside: Inside) -> None:
    await inside.commits("a", "2\n")
    await inside.works("push")
    theirs: list[str] = []
    refresh = inside.mirror.refresh

    async def overtaken() -> None:
        await refresh()
        if not theirs:  # once git has been told where the branch is, somebody moves it
            theirs.append(commit_file(inside.place, inside.remote, BRANCH, "b", "theirs\n"))

    inside.mirror.refresh = overtaken
    await inside.commits("a", "3\n")
    told = await inside.fails("push")
    assert f"remote: `{BRANCH}` has other commits by now" in told
    assert git(inside.remote, "rev-parse", BRANCH) == theirs[0]
    await inside.works("pull", "--rebase", "--quiet")
    await inside.works("push")
    assert git(inside.remote, "rev-parse", f"{BRANCH}~1") == theirs[0]


async def test_nothing_but_the_branch_is_pushed(inside: Inside) -> None:
    await inside.works("branch", "other")
    await inside.commits("a", "2\n")
    before = git(inside.remote, "for-each-ref")
    for words in (
        ["origin", "HEAD:main"],
        ["origin", "HEAD:refs/heads/other"],
        ["origin", "HEAD:refs/tags/v1"],
        ["origin", "HEAD:refs/pull/1/head"],
        ["origin", f"HEAD:{BRANCH}", "HEAD:other"],
        ["origin", "--all"],
        ["origin", "--mirror"],
        ["origin", "--delete", "main"],
    ):
        assert f"only `{BRANCH}` may be pushed from here" in await inside.fails("push", *words)
    await inside.fails("push", "origin", "HEAD:refs/kakite/out")
    assert git(inside.remote, "for-each-ref") == before
    assert inside.relay.take_pushed_commits() == ()


async def test_the_branch_is_neither_forced_nor_deleted(inside: Inside) -> None:
    await inside.commits("a", "2\n")
    await inside.works("push")
    before = git(inside.remote, "rev-parse", BRANCH)
    await inside.works("commit", "--amend", "--quiet", "--message=Another")
    for how in ("--force", "--force-with-lease", "--delete"):
        await inside.fails("push", how, "origin", BRANCH)
        await inside.fails("push", "origin", f"+HEAD:{BRANCH}")
        assert git(inside.remote, "rev-parse", BRANCH) == before
        assert git(inside.mirror.folder, "rev-parse", BRANCH) == before


async def test_a_hook_of_the_real_repository_is_heard_inside(inside: Inside) -> None:
    hook = inside.remote / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho no tabs, please >&2\nexit 1\n", encoding="utf-8")
    hook.chmod(0o755)
    await inside.commits("a", "2\n")
    told = await inside.fails("push")
    assert "remote: no tabs, please" in told
    assert "[remote rejected]" in told
    assert git(inside.mirror.folder, "for-each-ref", f"refs/heads/{BRANCH}") == ""
    hook.write_text("#!/bin/sh\necho thanks >&2\n", encoding="utf-8")
    assert "remote: thanks" in await inside.works("push")


async def test_a_real_repository_that_is_away_is_told_as_such(inside: Inside) -> None:
    await inside.commits("a", "2\n")
    inside.remote.rename(inside.place / "away.git")
    for command in (["fetch"], ["push"], ["ls-remote", "origin"]):
        assert "cannot be fetched" in await inside.fails(*command)
    (inside.place / "away.git").rename(inside.remote)
    await inside.works("push")


async def test_pushes_and_fetches_at_the_same_time_all_come_out_right(inside: Inside) -> None:
    commit = await inside.commits("a", "2\n")
    with anyio.fail_after(WITHIN):
        done = await asyncio.gather(
            *(inside.git("push", "origin", BRANCH) for _ in range(3)),
            *(inside.git("ls-remote", "origin") for _ in range(6)),
        )
    assert all(each.exit_code == 0 for each in done[3:])
    assert any(each.exit_code == 0 for each in done[:3])
    assert git(inside.remote, "rev-parse", BRANCH) == commit
    await inside.works("push")  # nothing is left locked


async def test_a_connection_cut_off_in_the_middle_leaves_nothing_behind(inside: Inside) -> None:
    path = str(Path(inside.sandbox.services, ORIGIN_SERVICE))
    for begun in (b"", b"git-", b"git-receive-pack\n", b"git-upload-pack\n0014command=ls-refs\n"):
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(begun)
        if begun.endswith(b"-pack\n"):
            assert await reader.read(4)
        writer.close()
    await inside.commits("a", "2\n")
    with anyio.fail_after(WITHIN):
        await inside.works("push")
        while any(inside.mirror.folder.glob("relay-*")):  # noqa: ASYNC110 - files tell nobody
            await anyio.sleep(0.05)


async def test_no_other_program_is_served(inside: Inside) -> None:
    for line in ("git-upload-archive", "git-shell", "--help", "git-upload-pack x", "\x00", "x" * 100_000):
        reader, writer = await asyncio.open_unix_connection(
            str(Path(inside.sandbox.services, ORIGIN_SERVICE))
        )
        writer.write(f"{line}\n".encode())
        with anyio.fail_after(WITHIN):
            assert b"ERR origin only allows fetch and push" in await reader.read()
        writer.close()


async def test_our_own_book_keeping_is_not_shown(inside: Inside) -> None:
    git(inside.mirror.folder, "update-ref", "refs/kakite/out", "main")
    assert "refs/kakite" not in await inside.works("ls-remote", "origin")


async def test_tags_and_the_default_branch_are_there_from_the_start(place: Path) -> None:
    remote = make_remote(place, {"a": "1\n"})
    git(remote, "tag", "v1.0", "main")
    commit_file(place, remote, "main", "a", "2\n")
    async with opened(place, remote) as inside:
        assert (await inside.works("describe", "--tags")).startswith("v1.0-1-g")
        assert await inside.works("log", "--oneline", "origin/main..") == ""


async def test_what_git_finds_broken_is_not_taken(inside: Inside) -> None:
    broken = "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor x\ncommitter x\n\nno\n"
    written = await inside.sandbox.exec(
        ("git", "hash-object", "-t", "commit", "-w", "--stdin", "--literally"),
        stdin=broken.encode(),
        timeout=60,
    )
    commit = written.stdout.decode().strip()
    assert "fsck error" in await inside.fails("push", "origin", f"{commit}:refs/heads/{BRANCH}")
    assert inside.relay.take_pushed_commits() == ()


async def test_what_is_pushed_in_all_has_a_limit(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inside.relay, "_room", 150_000)
    for number in range(5):
        Path(inside.sandbox.project, "big").write_bytes(os.urandom(40_000))
        await inside.works("add", "big")
        await inside.works("commit", "--quiet", "--message=Big")
        if number < 3:
            await inside.works("push", "origin", BRANCH)
    assert "exceeds" in await inside.fails("push", "origin", BRANCH)


async def test_one_pack_at_a_time_waits_on_the_hosts_disk(inside: Inside) -> None:
    path = str(Path(inside.sandbox.services, ORIGIN_SERVICE))
    reader, first = await asyncio.open_unix_connection(path)
    first.write(b"git-receive-pack\n")
    assert await reader.read(4)
    also, second = await asyncio.open_unix_connection(path)
    second.write(b"git-receive-pack\n")
    waiting = asyncio.create_task(also.read(4))
    await inside.works("ls-remote", "origin")  # fetching goes on
    assert not waiting.done()
    first.close()
    with anyio.fail_after(WITHIN):
        assert await waiting
    second.close()


SLOW_HOOK = """#!/bin/sh
touch {reached}
read answer < {hold}
exit {exits}
"""


@contextmanager
def hold_pushes(inside: Inside, hook: str, *, exits: int = 0) -> Generator[tuple[Path, int]]:
    """Let the real repository's hook wait; yield the file that it makes first, and the pipe that ends it."""
    reached, hold = inside.place / "reached", inside.place / "hold"
    os.mkfifo(hold)
    path = inside.remote / "hooks" / hook
    path.parent.mkdir(exist_ok=True)
    path.write_text(SLOW_HOOK.format(hold=hold, reached=reached, exits=exits), encoding="utf-8")
    path.chmod(0o755)
    pipe = os.open(hold, os.O_RDWR)
    try:
        yield reached, pipe
    finally:
        os.close(pipe)


async def push_and_be_killed(inside: Inside, reached: Path) -> None:
    """Push, and end the program as soon as the real repository is at work on it."""
    wait = f"while ! test -e {reached}; do sleep 0.05; done"
    line = f"git push -q origin HEAD:{BRANCH} & p=$!; {wait}; kill -9 $p; wait"
    with anyio.fail_after(WITHIN):
        await inside.sandbox.exec(("sh", "-c", line), timeout=60)


async def test_a_push_whose_program_is_killed_is_the_sandboxs_before_the_repository_has_answered(
    inside: Inside,
) -> None:
    start = git(inside.remote, "rev-parse", "main")
    commit = await inside.commits("a", "2\n")
    with hold_pushes(inside, "post-receive") as (reached, pipe):
        await push_and_be_killed(inside, reached)
        assert git(inside.remote, "rev-parse", BRANCH) == commit
        again = Mirror(inside.mirror.folder, parse_repo_url(str(inside.remote)), os.environ)
        assert again.has_sandbox_push  # also for another process
        os.write(pipe, b"\n")
        with anyio.fail_after(WITHIN):
            await inside.relay.accept_pushes(accepted=False)  # waits for what is on its way
    assert inside.relay.take_pushed_commits() == (commit,)
    await inside.mirror.refresh()
    assert not await inside.mirror.is_from_others(commit, BRANCH, since=start)


async def test_a_push_that_the_repository_did_not_take_leaves_no_trace(inside: Inside) -> None:
    await inside.commits("a", "2\n")
    with hold_pushes(inside, "pre-receive", exits=1) as (reached, pipe):
        await push_and_be_killed(inside, reached)
        assert inside.mirror.has_sandbox_push  # as long as nobody knows
        os.write(pipe, b"\n")
        with anyio.fail_after(WITHIN):
            await inside.relay.accept_pushes(accepted=True)
    assert not inside.mirror.has_sandbox_push
    assert inside.relay.take_pushed_commits() == ()


async def test_a_commit_that_arrived_stays_the_sandboxs_when_it_is_refused_later(inside: Inside) -> None:
    commit = await inside.commits("a", "2\n")
    await inside.works("push", "origin", BRANCH)
    hook = inside.remote / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    hook.chmod(0o755)
    git(inside.remote, "update-ref", "-d", f"refs/heads/{BRANCH}")
    await inside.fails("push", "origin", f"{commit}:refs/heads/{BRANCH}")
    assert inside.mirror.has_sandbox_push
