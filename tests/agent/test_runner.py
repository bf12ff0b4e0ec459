"""A run whose model uses git by itself."""

from __future__ import annotations

import json
import os
import resource
import tempfile
from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kakite.agent.git import mirror as mirrors
from kakite.agent.git.mirror import Mirror
from kakite.agent.git.sandbox_remote import SandboxRemote
from kakite.agent.git.url import parse_repo_url
from kakite.agent.git.worktree import ORIGIN_SERVICE
from kakite.agent.observe.events import ModelRequestStarted, RunEvent, RunListener
from kakite.agent.run.clean_check import build_clean_spec
from kakite.agent.run.deps import RunDeps
from kakite.agent.run.limits import DailyUsageError, DailyUsageStore
from kakite.agent.run.runner import run_task
from kakite.agent.run.state import RunState, Task
from kakite.agent.run.store import RunFolder
from kakite.host import MODES, DenyingApprover
from kakite.models.messages import ToolMessage, UserMessage
from kakite.models.scripted_model import Scenario, ScriptedModel
from kakite.sandbox import ResourceLimits, SandboxSpec, open_sandbox
from tests.cli.program import skip_without
from tests.repositories import commit_file, git, make_remote

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

BRANCH = "topic"
HOME = "/workspace/home"
PLAN = '{"goal": "a is 2", "steps": ["edit"], "title": "Make a 2", "check": ""}'
DONE: dict[str, Any] = {"say": "Done."}


@pytest.fixture
def place() -> Generator[Path]:
    """A folder with a short name: a socket's address has room for 107 bytes only."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def command(line: str) -> dict[str, Any]:
    return {"calls": [{"tool": "run_command", "arguments": {"command": line}}]}


@pytest.fixture
def bubblewrap() -> str:
    skip_without("bubblewrap")
    return "bubblewrap"


@pytest.fixture(params=["bubblewrap", "local"])
def kind(request: pytest.FixtureRequest) -> str:
    return request.getfixturevalue("bubblewrap") if request.param == "bubblewrap" else request.param


def parts_of(
    place: Path,
    remote: Path | str,
    *turns: dict[str, Any],
    kind: str = "local",
    setup: bool = False,
    environ: Mapping[str, str] | None = None,
    limits: ResourceLimits | None = None,
) -> tuple[Task, Callable[[RunListener | None], RunDeps]]:
    """Return a task below the place, and what makes the parts that work on it with a listener."""
    record = RunFolder(place / "run")
    record.folder.mkdir(exist_ok=True)
    mirror = Mirror(record.mirror, parse_repo_url(str(remote)), os.environ)
    relay = SandboxRemote(mirror, BRANCH)
    task = Task(
        id="run",
        text="Make a 2",
        repository=str(remote),
        branch=BRANCH,
        model="scripted",
        sandbox=kind,
        approve="all",
        max_turns=20,
        setup=setup,
    )
    script = Scenario.parse(json.dumps({"title": "t", "turns": turns}))
    terms = SandboxSpec(services={ORIGIN_SERVICE: relay}, limits=limits or ResourceLimits())
    sandbox = open_sandbox(kind, record.task, terms=terms, environ=environ)

    def parts(listener: RunListener | None) -> RunDeps:
        return RunDeps(
            record=record,
            mirror=mirror,
            relay=relay,
            open_clean_sandbox=lambda folder: open_sandbox(
                kind, folder, terms=build_clean_spec(terms), environ=environ
            ),
            sandbox=sandbox,
            limits=terms.limits,
            model=ScriptedModel(script),
            rules=MODES["all"],
            approver=DenyingApprover(),
            author=("Kakite", "kakite@localhost"),
            retry_seconds=0.0,
            listener=listener or (lambda _: None),
        )

    return task, parts


async def run_of(
    place: Path,
    remote: Path,
    *turns: dict[str, Any],
    listener: RunListener | None = None,
    kind: str = "local",
    setup: bool = False,
    limits: ResourceLimits | None = None,
    environ: Mapping[str, str] | None = None,
) -> RunState:
    every = ({"say": PLAN}, *turns, DONE)
    task, parts = parts_of(place, remote, *every, kind=kind, setup=setup, limits=limits, environ=environ)
    return await run_task(task, parts(listener))


async def test_what_a_command_pushed_by_itself_is_seen_and_the_run_goes_on(place: Path, kind: str) -> None:
    remote = make_remote(place, {"a": "1\n"})
    by_hand = command("echo 2 > a && git -c user.name=M -c user.email=m@l commit -qam Mine && git push -q")
    run = await run_of(place, remote, by_hand, command("echo 3 > b"), kind=kind)
    assert run.status == "done"
    assert run.commit == git(remote, "rev-parse", BRANCH)
    assert git(remote, "log", "--format=%s", BRANCH).splitlines()[1:] == ["Mine", "First"]
    assert [step.kind for step in run.steps if step.kind in {"push", "commit"}] == ["push", "commit", "push"]
    assert "+2" in run.diff
    assert "+3" in run.diff


async def test_what_the_project_needs_is_installed_once_and_the_model_is_told_what_is_not(
    place: Path, bubblewrap: str
) -> None:
    remote = make_remote(place, {"a": "1\n", "requirements.txt": "kakite-no-such-package==1\n"})
    edit = command("echo 2 > a; command -v python")
    run = await run_of(place, remote, edit, kind=bubblewrap, setup=True)
    asked = [message.text for message in run.messages if isinstance(message, UserMessage)]
    assert "requirements.txt" in asked[1]
    assert "failed" in asked[1]
    assert (run.environment or {})["PATH"].startswith(f"{HOME}/venv/bin:")
    tool = next(message for message in run.messages if isinstance(message, ToolMessage))
    assert f"{HOME}/venv/bin/python" in tool.text
    assert git(remote, "ls-tree", "--name-only", BRANCH).split() == ["a", "requirements.txt"]


async def test_what_a_command_pulled_by_itself_is_no_change_of_the_runs(place: Path) -> None:
    remote = make_remote(place, {"a": "1\n", "b": "1\n"})
    git(remote, "branch", BRANCH)
    theirs: list[str] = []

    def listen(event: RunEvent) -> None:
        if isinstance(event, ModelRequestStarted) and event.turn == 2:
            theirs.append(commit_file(place, remote, BRANCH, "b", "theirs\n"))

    run = await run_of(place, remote, command("git pull -q --rebase && echo 2 > a"), listener=listen)
    assert run.status == "done"
    assert run.base == theirs[0]
    assert "theirs" not in run.diff
    assert git(remote, "rev-parse", f"{BRANCH}~1") == theirs[0]


async def test_nothing_that_a_repository_in_the_sandbox_names_is_run_on_the_host(place: Path) -> None:
    remote = make_remote(place, {"a": "1\n", "sub/x": "1\n"})
    log = place / "ran"
    bait = place / "bait"
    bait.write_text(f'#!/bin/sh\necho "${{KAKITE_RUN:-host}}" >> {log}\n', encoding="utf-8")
    bait.chmod(0o755)
    settings = {
        "core.fsmonitor": bait,
        "core.hooksPath": place / "hooks",
        "core.sshCommand": bait,
        "core.alternateRefsCommand": bait,
        "core.editor": bait,
        "core.gitProxy": bait,
        "credential.helper": f"!{bait}",
        "alias.push": f"!{bait}",
        "diff.external": bait,
        "filter.bait.clean": f"{bait}; cat",
        "filter.bait.smudge": f"{bait}; cat",
        "diff.bait.textconv": bait,
        "uploadpack.packObjectsHook": bait,
        "gpg.program": bait,
        "remote.origin.url": f"ext::{bait}",
        "remote.origin.uploadpack": bait,
        "remote.origin.receivepack": bait,
        "protocol.ext.allow": "always",
        "submodule.sub.url": f"ext::{bait}",
        "include.path": place / "included",
    }
    (place / "hooks").mkdir()
    names = ("pre-commit", "post-checkout", "pre-push", "reference-transaction", "post-index-change")
    for name in names:
        (place / "hooks" / name).symlink_to(bait)
    (place / "included").write_text(f"[core]\n\tpager = {bait}\n", encoding="utf-8")
    lines = [f"git config {key} '{value}'" for key, value in settings.items()]
    lines += [
        "echo '* filter=bait diff=bait' > .gitattributes",
        "echo 2 > a",
        f"cp {bait} .git/hooks/pre-commit",
    ]
    lines += ["mkdir -p .git/hooks", "git status > /dev/null"]
    run = await run_of(place, remote, command("; ".join(lines)))
    assert run.status == "done"
    assert git(remote, "show", f"{BRANCH}:a") == "2"
    assert set(log.read_text(encoding="utf-8").splitlines()) == {
        "1"
    }  # inside it was taken, everywhere else not


async def test_a_program_that_git_starts_for_a_repository_cannot_fill_our_memory(place: Path) -> None:
    remote = make_remote(place, {"a": "1\n"})
    flood = place / "flood"
    flood.write_text("#!/bin/sh\nhead -c 100000000 /dev/zero >&2\nexit 1\n", encoding="utf-8")
    flood.chmod(0o755)
    peaks: list[int] = []
    before = peak()

    def listen(event: RunEvent) -> None:
        peaks.append(peak())

    floods = command(f"echo 2 > a; git config core.fsmonitor {flood}")
    run = await run_of(place, remote, floods, listener=listen)
    assert run.status == "done"
    assert max(peaks) - before < 50 << 20


def peak() -> int:
    """The most memory that this process ever had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


async def test_a_diff_that_is_too_long_is_no_diff(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirrors, "_MAX_OUTPUT_BYTES", 1 << 20)
    remote = make_remote(place, {"a": "1\n"})
    long = command("seq 400000 > b")
    run = await run_of(place, remote, long, {"say": "Done."}, command("seq 4 > b"))
    assert run.status == "done"
    told = [message.text for message in run.messages if isinstance(message, UserMessage)]
    assert any("the diff has more than 1 MiB" in text for text in told)
    assert git(remote, "show", f"{BRANCH}:b").split() == ["1", "2", "3", "4"]


async def test_a_reply_that_was_paid_for_is_kept_though_the_day_cannot_be_added_to(place: Path) -> None:
    folder = place / "state"
    folder.mkdir(mode=0o700)
    days = DailyUsageStore(folder)

    def listen(event: RunEvent) -> None:
        if isinstance(event, ModelRequestStarted) and event.turn == 1:
            (folder / "spent.json").write_text("[", encoding="utf-8")

    remote = make_remote(place, {"a": "1\n"})
    task, parts = parts_of(place, remote, {"say": PLAN})
    with pytest.raises(DailyUsageError):
        await run_task(task, replace(parts(listen), days=days))
    assert parts(None).record.load().plan is not None
    (folder / "spent.json").unlink()
    task, parts = parts_of(place, remote, command("echo 2 > a"), DONE)
    run = await run_task(task, replace(parts(None), days=days))
    assert (run.status, run.usage.requests) == ("done", 3)
    assert days.get_usage(datetime.now(UTC)) == run.spent


TRAPS = {
    "signing": "git config commit.gpgsign true; git config gpg.program /bin/false",
    "a bare repository": "git config core.bare true",
    "a work tree elsewhere": "git config core.worktree /nowhere",
    "a version to come": "git config core.repositoryformatversion 9",
    "settings that cannot be read": "echo '[core' >> .git/config",
    "settings that are a folder": "rm .git/config; mkdir .git/config",
    "line ends": "rm .git/info/attributes; git config core.autocrlf true; git config core.safecrlf true",
    "a filter": "git config filter.no.clean false; git config filter.no.required true;"
    " echo '* filter=no' > .git/info/attributes",
    "attributes that are a folder": "rm .git/info/attributes; mkdir -p .git/info/attributes/x",
    "a lock": "touch .git/index.lock .git/HEAD.lock .git/config.lock",
    "an index that is none": "echo nothing > .git/index",
    "a head that is none": "echo nothing > .git/HEAD",
    "no head": "rm .git/HEAD",
    "a sparse checkout": "git config core.sparseCheckout true; echo /none > .git/info/sparse-checkout",
    "a repository that is a file": "mv .git ../elsewhere; echo gitdir: ../elsewhere > .git",
    "a repository that is a link": "mv .git ../elsewhere; ln -s ../elsewhere .git",
    "no repository": "rm -rf .git",
    "a lock that is a folder": "mkdir -p .git/index.lock .git/kakite-index.lock/x",
    "information that is a file": "rm -rf .git/info; touch .git/info",
    "packed references that are none": "echo nothing > .git/packed-refs",
    "a branch that is none": "echo nothing > .git/refs/heads/topic",
    "branches in its place": "git branch -m topic/v2",
    "no objects": "find .git/objects -type f -exec rm -f {} +",
    "settings of the home": "echo '[core' > ~/.gitconfig",
    "pipes": "rm .git/index .git/refs/heads/topic; mkfifo .git/index .git/refs/heads/topic .git/packed-refs",
}


@pytest.mark.parametrize("trap", TRAPS.values(), ids=TRAPS)
async def test_nothing_that_the_model_does_to_its_repository_stops_a_commit(place: Path, trap: str) -> None:
    remote = make_remote(place, {"a": "1\r\n", "b": "1\n"})
    run = await run_of(place, remote, command(f"printf '2\\r\\n' > a; {trap}"))
    assert run.status == "done"
    assert git(remote, "diff", "--name-only", "main", BRANCH) == "a"
    assert git(remote, "cat-file", "-s", f"{BRANCH}:a") == "3"
