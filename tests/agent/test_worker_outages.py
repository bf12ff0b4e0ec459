"""What a worker's task stands on fails for a while, and works again: nothing is lost, nobody is asked."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.agent.answering import Answering, answering
from tests.agent.fleet import CALLS, COUNTED, LIMIT, SCRIPT, Fleet, LocalFleet, Outage, ends_of, wait_until
from tests.agent.forges.worlds import github_world
from tests.repositories import git
from tests.temporal import temporal_running

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SIZE = 24 << 20
PAUSES = [0.2] * 100


@pytest.fixture
def place() -> Generator[Path]:
    """A folder with a short name: a socket's address has room for 107 bytes only."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@pytest.fixture
def model() -> Generator[Answering]:
    with answering({"Count to": SCRIPT}) as known:
        yield known


@pytest.fixture
def disk(place: Path) -> Generator[Path]:
    """A small file system, as the machine that the worker is on."""
    small = place / "m"
    small.mkdir()
    options = f"size={SIZE},mode=700"
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(small)], check=False)
    if mounted.returncode != 0:
        pytest.skip("only who may mount has a small disk")
    yield small
    subprocess.run(["umount", "--lazy", str(small)], check=True)


@pytest.mark.parametrize("engine", ["sqlite", "temporal"])
def test_a_disk_that_is_full_for_a_while_loses_nothing(
    engine: str, place: Path, disk: Path, model: Answering, request: pytest.FixtureRequest
) -> None:
    server = request.getfixturevalue("temporal_server") if engine == "temporal" else ""
    outage = Outage(model, 5)
    fleet = LocalFleet(place, model.url, engine=server, pauses=PAUSES)
    worker = fleet.start()
    try:
        assert outage.due.wait(LIMIT)
        before = fleet.begun()
        with suppress(OSError), (disk / "filler").open("ab", buffering=0) as stream:
            while stream.write(b"x" * 65536):
                pass
        outage.begun.set()
        if server:
            wait_until(lambda: fleet.begun() >= before + 3)  # begun again, in vain
        else:  # its journal is on the same disk, so that it cannot even begin
            beats: set[bytes] = set()
            beat = disk / "agent" / "slots" / "worker-1"
            wait_until(lambda: beats.add(beat.read_bytes()) or len(beats) > 10)
    finally:
        outage.begun.set()
        (disk / "filler").unlink(missing_ok=True)
        ends = ends_of(worker)
    assert ends == [0]
    fleet.check_end()
    fleet.check_nothing_left()


def test_a_temporal_server_that_starts_anew_ends_no_worker(place: Path, model: Answering) -> None:
    (place / "t").mkdir()
    with temporal_running(place / "t") as server:
        outage = Outage(model, 5)
        fleet = LocalFleet(place / "w", model.url, engine=server.address, pauses=PAUSES)
        worker = fleet.start()
        try:
            assert outage.due.wait(LIMIT)
            server.kill()
            outage.begun.set()
            wait_until(lambda: any("trying again" in line for line in fleet.said()))
            server.start()
        finally:
            outage.begun.set()
            ends = ends_of(worker)
        assert ends == [0]
        fleet.check_end()
        fleet.check_nothing_left()


def test_a_forge_that_is_down_for_long_loses_nothing_and_is_told_in_the_end(
    place: Path, model: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    with github_world(place) as world:
        fake: Any = world.fake
        number = fake.state.open_issue("Count", "Count to thirteen.", by="ann")
        fake.state.label(number, "kakite", by="ann")
        monkeypatch.setenv("KAKITE_GITHUB_TOKEN", fake.token)
        forge = {"kind": "github", "path": fake.path, "url": fake.api_url}
        fleet = Fleet(place / "w", model=model.url, forge=forge, pauses=PAUSES)
        outage = Outage(model, CALLS + 1)  # all that is left is to commit, to push and to tell
        worker = fleet.start()
        try:
            assert outage.due.wait(LIMIT)
            before = fleet.begun()
            with fake.simulate_outage():
                outage.begun.set()
                wait_until(lambda: fleet.begun() >= before + 5)  # inspected, committed, and pushed in vain
        finally:
            outage.begun.set()
            ends = ends_of(worker)
        assert ends == [0]
        branches = git(
            fake.repository.folder, "for-each-ref", "--format=%(refname:short)", "refs/heads"
        ).split()
        assert len(branches) == 2
        ours = next(name for name in branches if name.startswith("kakite/"))
        assert git(fake.repository.folder, "show", f"{ours}:b").split() == COUNTED
        fleet.check_nothing_left()
