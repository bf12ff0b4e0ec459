"""The step of ``action.yml`` that installs Kakite, really run; pip reaches folders with wheels alone."""

from __future__ import annotations

import os
import sys
from collections.abc import Container
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from scripts.environment import entries, follow
from scripts.wheels import locked

from tests.ci_jobs import INSTALL, run_action, run_bash
from tests.cli.program import environment
from tests.packaging.building import FRESH, copied, run


def names(*wanted: str) -> set[str]:
    return {canonicalize_name(one.name) for _, one in follow(map(Requirement, wanted))}


def list_newer(wanted: Container[str]) -> list[str]:
    """Return the lock's entries that depend on the Python: the other wheels are those of Debian's."""
    return [
        f"{one.name}{one.specifier} \\\n{hashes}"
        for one, hashes in entries()
        if one.marker and one.marker.evaluate() and canonicalize_name(one.name) in wanted
    ]


@FRESH
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_action_installs_what_its_other_steps_run_and_nothing_of_the_folder_is_loaded(
    wheels: Path, tmp_path: Path
) -> None:
    lock = [*locked(names("hatchling", "editables")), *list_newer(names("kakite[agent,forges,syntax]"))]
    (tmp_path / "build.lock").write_text("\n".join(lock), encoding="utf-8")
    fetch = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes")
    run(*fetch, "--dest", tmp_path / "build", "-r", tmp_path / "build.lock", cwd=tmp_path)
    workspace, runner = tmp_path / "workspace", tmp_path / "runner"
    workspace.mkdir()
    runner.mkdir()
    for name in ("venv.py", "pip.py", "sitecustomize.py"):  # what a pull request could bring along
        (workspace / name).write_text("import os; os.mkdir('loaded')\n", encoding="utf-8")
    environ = {
        **environment(tmp_path / "home"),
        "RUNNER_TEMP": str(runner),
        "PIP_NO_INDEX": "1",
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_FIND_LINKS": f"{wheels} {tmp_path}/build",
    }
    values = {
        "steps.python.outputs.python-path": sys.executable,
        "github.action_path": str(copied(tmp_path / "action")),
    }
    (done,) = run_action(environ, values, workspace, steps=[INSTALL])
    assert done.code == 0, done.told
    refused = run_bash('"$RUNNER_TEMP/kakite/bin/kakite" ci check', environ, workspace)
    assert (refused.returncode, "ci_missing" in refused.stdout) == (2, True)
    assert not (workspace / "loaded").exists()
