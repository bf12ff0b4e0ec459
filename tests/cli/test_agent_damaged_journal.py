"""The journal of the workers' tasks is damaged: that is said, and what can be read is listed."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from tests.cli.program import Outcome, kakite
from tests.repositories import make_remote

pytestmark = pytest.mark.slow

NOWHERE = ("--model", "openai:x", "--base-url", "http://127.0.0.1:9/v1", "--sandbox", "local")


def damage(folder: Path, how: str) -> None:
    """Write over the database, or over all but its first bytes."""
    for file in folder.glob("journal.sqlite*"):
        data = file.read_bytes()
        kept = data[:100] if how == "pages" and file.suffix == ".sqlite" else b""
        file.write_bytes(kept + b"damaged " * 1000) if kept or file.suffix == ".sqlite" else file.unlink()


@pytest.mark.parametrize("how", ["header", "pages"])
def test_a_damaged_journal_is_named_listed_around_and_set_aside(how: str, tmp_path: Path) -> None:
    remote = make_remote(tmp_path, {"a": "1\n"})

    def agent(*arguments: str) -> Outcome:
        return kakite("agent", *arguments, home=tmp_path, env={"OPENAI_API_KEY": "k"})

    assert agent("run", "Begin", "--repo", str(remote), *NOWHERE, "--approve", "all").code == 3
    submit = ("submit", "Task", "--repo", str(remote), *NOWHERE)
    task = agent(*submit).stdout.strip()
    folder = tmp_path / ".local/state/kakite/agent"
    damage(folder, how)
    shown = agent("show", task)
    assert (shown.code, "journal_damaged" in shown.stderr) == (3, True), shown.stderr
    assert "full disk" not in shown.stderr
    listed = agent("list", "--json")
    assert (listed.code, "journal_damaged" in listed.stderr) == (3, True), listed.stderr
    assert len(listed.json) == 1  # the run
    aside = shlex.split(listed.stderr.partition("aside: ")[2].splitlines()[0])
    subprocess.run(aside, check=True)
    assert agent(*submit).code == 0
    assert len(agent("list", "--json").json) == 2  # and the new task
