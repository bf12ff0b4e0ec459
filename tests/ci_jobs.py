"""Runs the steps of `action.yml` and the GitLab template as the forges' runners do: with bash, in order."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from kakite_testing.forges import FakeGitHub, FakeGitLab
from tests.bounds import WITHIN
from tests.cli.program import environment
from tests.engines import ROOT

ACTION: Any = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
TEMPLATE: Any = yaml.safe_load((ROOT / "ci-templates/kakite.gitlab-ci.yml").read_text(encoding="utf-8"))
INSTALL = "Install Kakite"
PROGRAM = Path(sys.executable).with_name("kakite")
_EXPRESSION = re.compile(r"\$\{\{ *([\w.-]+) *\}\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """How a step ended."""

    name: str
    code: int
    told: str
    """What it wrote, to both streams."""


def run_bash(script: str, environ: Mapping[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a script as both runners do: it ends with the first command that fails."""
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        env=dict(environ),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=4 * WITHIN,
        check=False,
    )


def run_action(
    environ: Mapping[str, str], values: Mapping[str, str], folder: Path, *, steps: Sequence[str] = ()
) -> list[Step]:
    """Run the action's `run:` steps in order, or only those with these names; return what became of them.

    ``values`` are what stands in expressions, by their names. After a step that failed, only those run that
    always do.
    """
    given = {f"inputs.{name}": str(each.get("default", "")) for name, each in ACTION["inputs"].items()}
    done: list[Step] = []
    for step in ACTION["runs"]["steps"]:
        failed = any(each.code for each in done)
        if "run" not in step or (failed and step.get("if") != "always()"):
            continue
        if steps and step["name"] not in steps:
            continue
        own = {name: _expand(value, {**given, **values}) for name, value in step.get("env", {}).items()}
        ended = run_bash(step["run"], {**environ, **own}, folder)
        done.append(Step(name=step["name"], code=ended.returncode, told=ended.stdout))
    return done


def _expand(text: str, values: Mapping[str, str]) -> str:
    return _EXPRESSION.sub(lambda found: values[found[1]], text)


def run_template(environ: Mapping[str, str], folder: Path, *, without: str) -> list[Step]:
    """Run the template's script in one shell, and what comes after it; ``without`` is what to leave out."""
    job = TEMPLATE["kakite"]
    lines = [line for line in job["script"] if not re.match(without, line)]
    known = {**environ, **job["variables"]}
    return [
        Step(name=name, code=ended.returncode, told=ended.stdout)
        for name, script in (("script", lines), ("after_script", job["after_script"]))
        for ended in [run_bash("\n".join(script), known, folder)]
    ]


def build_github_environment(
    fake: FakeGitHub, folder: Path, event: str, actor: str, told: Any
) -> dict[str, str]:
    """Return the environment of a job's steps, with Kakite where the step that installs it puts it."""
    temp = folder / "runner"
    (temp / "kakite/bin").mkdir(parents=True)
    (temp / "kakite/bin/kakite").symlink_to(PROGRAM)
    (temp / "event.json").write_text(json.dumps(told), encoding="utf-8")
    return {
        **environment(folder / "home"),
        "CI": "true",
        "KAKITE_RETRY_MINUTES": "1",
        "GITHUB_ACTIONS": "true",
        "GITHUB_ACTOR": actor,
        "GITHUB_TRIGGERING_ACTOR": actor,
        "GITHUB_API_URL": fake.api_url,
        "GITHUB_SERVER_URL": fake.server,
        "GITHUB_REPOSITORY": fake.path,
        "GITHUB_EVENT_NAME": event,
        "GITHUB_EVENT_PATH": str(temp / "event.json"),
        "GITHUB_OUTPUT": str(temp / "output"),
        "RUNNER_TEMP": str(temp),
    }


def build_gitlab_environment(fake: FakeGitLab, folder: Path, key: str, actor: str) -> dict[str, str]:
    """Return the environment of a job for merge request 1, with the key in a file as GitLab makes it."""
    place = folder / "builds"
    (place / ".kakite-7/venv/bin").mkdir(parents=True)
    (place / ".kakite-7/venv/bin/kakite").symlink_to(PROGRAM)
    (place / "key").write_text(key, encoding="utf-8")
    return {
        **environment(folder / "home"),
        "CI": "true",
        "KAKITE_RETRY_MINUTES": "1",
        "GITLAB_CI": "true",
        "GITLAB_USER_LOGIN": actor,
        "CI_BUILDS_DIR": str(place),
        "CI_JOB_ID": "7",
        "CI_SERVER_URL": fake.server,
        "CI_PROJECT_PATH": fake.path,
        "CI_PIPELINE_SOURCE": "merge_request_event",
        "CI_MERGE_REQUEST_IID": "1",
        "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
        "KAKITE_MODEL_KEY": str(place / "key"),
        "KAKITE_GITLAB_TOKEN": fake.token,
    }


def find_in_processes(text: str) -> list[str]:
    """Return the processes of this machine that have a text in their environment or their arguments."""
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            known = (process / "environ").read_bytes() + (process / "cmdline").read_bytes()
        except OSError:
            continue  # it has ended
        if text.encode() in known:
            found.append(process.name)
    return found


def find_in_files(text: str, folder: Path) -> list[Path]:
    """Return the files below a folder that hold a text."""
    files = [each for each in folder.rglob("*") if each.is_file() and not each.is_symlink()]
    return [each for each in files if text.encode() in each.read_bytes()]
