"""Attempts to get out: every kind that isolates holds them, and each would be seen if it succeeded."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import zlib
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.engines import Engine
from tests.sandbox.conftest import open_bubblewrap

from kakite.cli.sandbox_selftest import work_in_repository
from kakite.processes import ProcessSpec
from kakite.sandbox import Sandbox, SandboxSpec, open_sandbox
from kakite.sandbox.backends.local import LocalSandbox
from kakite.sandbox.selftest.cases import (
    LIMITS,
    EscapeCase,
    EscapeResult,
    attempt_all,
    load_cases,
    open_host_targets,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kakite.sandbox import Network

AS_ROOT = os.geteuid() == 0
HAS_SYS_RESOURCE = bool(
    int(re.findall(r"CapEff:\s+(\w+)", Path("/proc/self/status").read_text("ascii"))[0], 16) >> 24 & 1
)
HARMS = sorted({attempt.harm for attempt in load_cases()})


def of(harm: str) -> list[EscapeCase]:
    return [attempt for attempt in load_cases() if attempt.harm == harm]


def test_there_are_many_and_each_has_a_name_of_its_own() -> None:
    names = [(attempt.harm, attempt.name) for attempt in load_cases()]
    assert len(names) == len(set(names)) >= 60


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("harm", HARMS)
def test_bubblewrap_holds(tmp_path: Path, harm: str) -> None:
    place = open_bubblewrap(tmp_path, SandboxSpec(limits=LIMITS))
    outcomes = asyncio.run(attempt_all(place.sandbox, acts={"git": work_in_repository}, chosen=of(harm)))
    assert [outcome for outcome in outcomes if outcome.state != "held"] == []
    asyncio.run(place.sandbox.destroy())


@pytest.mark.slow
@pytest.mark.timeout(900)  # whoever is first builds the images
def test_a_container_holds(docker: Engine, tmp_path: Path) -> None:
    outcomes = tried_in_container(docker, tmp_path / "run", list(load_cases()))
    assert len(outcomes) >= 60
    assert [outcome for outcome in outcomes if outcome.state != "held"] == []


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_container_of_podman_holds(podman: Engine, tmp_path: Path, proof: bool) -> None:
    chosen = list(load_cases())
    if not proof:  # what differs between engines, and a tenth of the rest
        chosen = [attempt for attempt in chosen if attempt.name in OF_ENGINES or crc(attempt) % 10 == 0]
    outcomes = tried_in_container(podman, tmp_path / "run", chosen)
    assert [outcome for outcome in outcomes if outcome.state != "held"] == []


OF_ENGINES = {"memory", "shared memory", "fork bomb", "many small files", "mount", "setuid"}


def crc(attempt: EscapeCase) -> int:
    return zlib.crc32(f"{attempt.harm} {attempt.name}".encode())


def tried_in_container(engine: Engine, folder: Path, chosen: list[EscapeCase]) -> list[EscapeResult]:
    async def scene() -> list[EscapeResult]:
        sandbox = open_sandbox("container", folder, environ=engine.environ, terms=SandboxSpec(limits=LIMITS))
        await sandbox.prepare()
        try:
            return await attempt_all(sandbox, acts={"git": work_in_repository}, chosen=chosen)
        finally:
            await sandbox.destroy()

    return asyncio.run(scene())


# What nothing isolates must be seen to get out

ABSENT = {
    # What an ordinary machine has not, or not all of: nothing to reach, nothing to prove.
    *("engines", "buses", "credentials", "own environment", "metadata", "internet", "interfaces"),
    *("modprobe", "binfmt_misc", "sysrq", "uevent_helper", "kernel's memory", "disks", "machine's devices"),
    *("init_module", "finit_module", "delete_module", "kexec_load", "machine's own sockets", "release_agent"),
    *("home", "shadow", "syslog", "setuid", "bpf", "perf_event_open", "userfaultfd", "io_uring"),
    *("leave the group", "settings of the kernel", "core_pattern"),
    # What nothing leaves behind since processes are looked after in every kind.
    *("outlive", "open files"),
    # The kernel asks for a right that root in a container often has not.
    *(() if HAS_SYS_RESOURCE else ("spared by the kernel",)),
    # Needs a terminal.
    *("type", "terminals of others"),
}


class Namespaced(LocalSandbox):
    """No isolation, in mounts of its own: what it mounts is gone with it."""

    def build_process_spec(
        self,
        argv: tuple[str, ...],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        network: Network | None = None,
    ) -> ProcessSpec:
        launch = super().build_process_spec(argv, env=env, cwd=cwd, network=network)
        return replace(launch, argv=("unshare", "--mount", "--propagation", "private", "--", *launch.argv))


def escapes(sandbox: Sandbox, chosen: list[EscapeCase], act: bool = False) -> set[str]:
    async def go() -> set[str]:
        await sandbox.prepare()
        outcomes = await attempt_all(sandbox, acts={"git": work_on_the_host} if act else {}, chosen=chosen)
        await sandbox.destroy()
        return {outcome.name for outcome in outcomes if outcome.state == "escaped"}

    return asyncio.run(go())


@pytest.mark.slow
@pytest.mark.skipif(not AS_ROOT, reason="a user without privileges is refused much of it anyway")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("harm", [harm for harm in HARMS if harm not in {"exhaustion", "git", "terminals"}])
def test_an_attempt_that_succeeds_is_seen(tmp_path: Path, harm: str) -> None:
    chosen = [attempt for attempt in of(harm) if attempt.name not in ABSENT]
    safe = [attempt for attempt in chosen if attempt.safe]
    sandbox = open_sandbox("local", tmp_path / "run", environ={"PATH": os.environ["PATH"]})
    seen = escapes(sandbox, safe)
    others = [attempt for attempt in chosen if not attempt.safe]
    if others and harm in {"mounts", "cgroups"}:
        seen |= escapes(Namespaced(tmp_path / "other", os.environ, SandboxSpec()), others)
    assert {attempt.name for attempt in chosen} - seen <= NOT_IN_NAMESPACE


NOT_IN_NAMESPACE = {"pivot_root", "mount groups"}
"""What the kernel refuses for another reason, depending on where the test runs."""


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "name",
    [
        "fork bomb",
        "threads",
        "memory",
        "one large file",
        "many large files",
        "many small files",
        "open files",
    ],
)
def test_an_exhaustion_that_nothing_limits_is_seen(tmp_path: Path, name: str) -> None:
    chosen = [attempt for attempt in of("exhaustion") if attempt.name == name]
    small = replace(LIMITS, memory=16 << 20, disk=4 << 20, files=200, processes=20, open_files=100)

    async def go() -> list[str]:
        sandbox = open_sandbox("local", tmp_path / "run")
        await sandbox.prepare()
        return [outcome.state for outcome in await attempt_all(sandbox, limits=small, chosen=chosen)]

    assert asyncio.run(go()) == ["escaped"]


async def work_on_the_host(sandbox: Sandbox) -> None:
    """What Kakite must never do: git of the host, in a repository that a sandbox has written."""
    project = Path(sandbox.project)
    commands = (
        ("submodule", "update"),
        ("status",),
        ("diff",),
        ("add", "a.txt"),
        ("commit", "-am", "x"),
        ("fetch", "origin"),
        ("credential", "fill"),
    )
    for words in commands:
        with suppress(subprocess.TimeoutExpired):
            await asyncio.to_thread(
                subprocess.run,
                ["git", *words],
                cwd=project,
                input=b"protocol=https\nhost=example.org\n\n",
                env={"PATH": os.environ["PATH"], "GIT_TERMINAL_PROMPT": "0"},
                capture_output=True,
                check=False,
                timeout=20,  # a remote of theirs never answers
            )


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_git_on_the_host_would_be_seen_to_run_what_a_repository_says(tmp_path: Path) -> None:
    if not shutil.which("git"):
        pytest.skip("git is not installed")
    seen = escapes(open_sandbox("local", tmp_path / "run"), of("git"), act=True)
    assert {attempt.name for attempt in of("git")} - seen == set()


def test_an_attempt_with_a_mistake_in_it_proves_nothing(tmp_path: Path) -> None:
    sandbox = open_sandbox("local", tmp_path / "run")
    wrong = EscapeCase(name="wrong", harm="files", tries="nothing", program="no_such_name()")
    needs = EscapeCase(name="act", harm="files", tries="nothing", program="pass", act="dance")

    async def go() -> list[str]:
        await sandbox.prepare()
        return [outcome.state for outcome in await attempt_all(sandbox, chosen=[wrong, needs])]

    assert asyncio.run(go()) == ["untried", "untried"]


def test_a_file_that_is_gone_is_told_from_one_that_was_written_to() -> None:
    async def harms() -> list[str]:
        async with open_host_targets(lambda _token: ()) as stage:
            secret = stage.folder / "secret.txt"
            before = await stage.find_harm()
            secret.write_bytes(b"x")
            written = await stage.find_harm()
            secret.unlink()
            return [before, written, await stage.find_harm()]

    before, written, gone = asyncio.run(harms())
    assert before == ""
    assert len({before, written, gone}) == 3


def test_who_looks_in_the_background_sees_no_harm_in_that() -> None:
    program = """
import asyncio, os
from kakite.sandbox.selftest.cases import open_host_targets

async def look():
    async with open_host_targets(lambda token: ()) as stage:
        return await stage.find_harm()

os.nice(3)
print(asyncio.run(look()))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, encoding="utf-8", check=True)
    assert done.stdout == "\n"
