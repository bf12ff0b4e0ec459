"""What the journal may name of a work tree, while it travels and the task goes on."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import cast

import pytest

from kakite.agent.git.mirror import GitError
from kakite.agent.git.remote_checkpoints import AutoCheckpoint, CheckpointRefs, SavedWork
from kakite.agent.git.worktree import TreeSnapshot, Worktree
from kakite.sandbox import SandboxError

pytestmark = pytest.mark.anyio
BASE = "base"
FIRST = SavedWork(head="h0", commit=BASE, on=BASE)


@dataclass
class Tree:
    """A work tree and a repository, as far as keeping is concerned; the way there takes until ``go``."""

    commit: str = "c1"
    fails: int = 0
    down: bool = False
    broken: bool = False
    go: asyncio.Event = field(default_factory=asyncio.Event)
    kept: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    async def snapshot(self) -> TreeSnapshot:
        if self.broken:
            raise SandboxError("bubblewrap failed")
        return TreeSnapshot(head=BASE, commit=self.commit)

    async def upload(self, _tree: object, found: TreeSnapshot, _base: str, recorded: str) -> bool:
        await self.go.wait()
        if self.fails:
            self.fails -= 1
            raise GitError("it cannot be packed")
        if not self.down:
            self.kept.append((found.commit, recorded))
        return not self.down

    def keeping(self) -> AutoCheckpoint:
        return AutoCheckpoint(cast("CheckpointRefs", self), cast("Worktree", self))


def named(commit: str, head: str) -> SavedWork:
    return SavedWork(head=head, commit=commit, on=BASE)


async def test_the_journal_names_what_has_arrived_and_the_head_that_it_fits() -> None:
    tree = Tree()
    keeping = tree.keeping()
    keeping.start_checkpoint(BASE, BASE)
    await keeping.wait_snapshotted()
    assert keeping.on_run_saved("h1", FIRST) == FIRST  # it is on its way
    await keeping.mark_dirty()
    tree.go.set()
    await keeping.wait_uploaded()
    assert keeping.on_run_saved("h2", FIRST) == named("c1", "h1")  # what h2 has done to the tree was not seen


async def test_a_tree_that_nothing_changed_fits_each_later_head() -> None:
    tree = Tree()
    tree.go.set()
    keeping = tree.keeping()
    keeping.start_checkpoint(BASE, BASE)
    await keeping.wait_uploaded()
    assert keeping.on_run_saved("h1", FIRST) == named("c1", "h1")
    assert keeping.on_run_saved("h2", named("c1", "h1")) == named("c1", "h2")
    keeping.start_checkpoint(BASE, "c1")
    assert not keeping.is_running


async def test_nothing_is_kept_anew_before_the_journal_names_what_was() -> None:
    tree = Tree()
    tree.go.set()
    keeping = tree.keeping()
    keeping.start_checkpoint(BASE, BASE)
    await keeping.wait_uploaded()
    await keeping.mark_dirty()
    tree.commit = "c2"
    keeping.start_checkpoint(BASE, BASE)
    assert not keeping.is_running
    keeping.start_checkpoint(BASE, "c1")
    await keeping.wait_uploaded()
    assert tree.kept == [("c1", BASE), ("c2", "c1")]


async def test_what_did_not_arrive_is_tried_again_and_never_named() -> None:
    tree = Tree(fails=1)
    tree.go.set()
    keeping = tree.keeping()
    keeping.start_checkpoint(BASE, BASE)
    await keeping.wait_uploaded()
    assert keeping.on_run_saved("h1", FIRST) == FIRST
    keeping.start_checkpoint(BASE, BASE)
    await keeping.wait_uploaded()
    assert keeping.on_run_saved("h2", FIRST) == named("c1", "h2")


async def test_a_commit_is_kept_at_once_after_what_is_on_its_way() -> None:
    tree = Tree()
    keeping = tree.keeping()
    keeping.start_checkpoint(BASE, BASE)
    await keeping.wait_snapshotted()
    tree.commit = "c2"
    tree.go.set()
    await keeping.checkpoint_now(BASE, BASE)
    assert keeping.on_run_saved("h1", FIRST) == named("c2", "h1")
    assert tree.kept == [("c1", BASE), ("c2", BASE)]


async def test_a_tree_made_of_what_was_kept_is_named_before_it_is_kept_anew() -> None:
    tree = Tree(commit="c2")
    keeping = tree.keeping()
    keeping.on_restored(TreeSnapshot(head=BASE, commit=BASE), "h0")
    await keeping.mark_dirty()
    keeping.start_checkpoint(BASE, "lost")
    assert not keeping.is_running
    assert keeping.on_run_saved("h5", named("lost", "h4")) == FIRST


async def test_what_travels_ends_when_it_is_stopped() -> None:
    tree = Tree()
    keeping = tree.keeping()
    keeping.start_checkpoint(BASE, BASE)
    await keeping.wait_snapshotted()
    await keeping.stop()
    assert not keeping.is_running
    assert tree.kept == []


async def test_what_the_repository_did_not_take_is_told_apart_and_sent_again() -> None:
    tree = Tree(down=True)
    tree.go.set()
    keeping = tree.keeping()
    keeping.start_checkpoint(BASE, BASE)
    await keeping.wait_uploaded()
    told = keeping.on_run_saved("h1", FIRST)
    assert told == replace(FIRST, here=named("c1", "h1"))
    tree.down = False
    keeping.start_checkpoint(BASE, BASE)  # though nothing has changed
    assert keeping.on_run_saved("h2", told) == replace(FIRST, here=named("c1", "h2"))
    await keeping.wait_uploaded()
    assert tree.kept == [("c1", BASE)]
    assert keeping.on_run_saved("h2", told) == named("c1", "h2")


async def test_what_a_restored_tree_was_made_of_is_sent_where_this_machine_alone_had_it() -> None:
    tree = Tree()
    tree.go.set()
    keeping = tree.keeping()
    keeping.on_restored(TreeSnapshot(head=BASE, commit="c1"), "h1", here=True)
    keeping.start_checkpoint(BASE, BASE)
    await keeping.wait_uploaded()
    assert keeping.on_run_saved("h2", replace(FIRST, here=named("c1", "h1"))) == named("c1", "h2")


async def test_a_sandbox_that_fails_while_work_is_kept_costs_no_reply() -> None:
    tree = Tree()
    tree.go.set()
    keeping = tree.keeping()
    tree.broken = True
    keeping.start_checkpoint(BASE, BASE)
    await keeping.wait_snapshotted()
    assert keeping.on_run_saved("h1", FIRST) == FIRST
    tree.broken = False
    keeping.start_checkpoint(BASE, BASE)
    await keeping.wait_uploaded()
    assert keeping.on_run_saved("h2", FIRST) == named("c1", "h2")


async def test_a_repository_that_never_answers_does_not_hold_up_a_task_that_waits() -> None:
    tree = Tree()
    keeping = tree.keeping()
    await keeping.checkpoint_before_wait(BASE, BASE, 0.05)
    assert keeping.on_run_saved("h1", FIRST) == FIRST
    await keeping.stop()
    assert not keeping.is_running
