"""The main job on a real project, as its authors published it, with a task over several files."""

from __future__ import annotations

import json
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from tests.cli.program import kakite, skip_without
from tests.repositories import git

from kakite.models.scripted_model import Scenario
from kakite_testing.fake_providers import run_scenario_server

pytestmark = pytest.mark.slow

DATA = Path(__file__).parent.parent / "data"
CHECK = (
    f"PYTHONPATH=src {sys.executable} -m pytest -q -p no:cacheprovider tests/test_utils tests/test_imports.py"
)
PLAN = {
    "goal": "click.format_filenames joins several names for display, tested and documented",
    "steps": ["Add the function", "Export it", "Test it", "Document it"],
    "title": "Add format_filenames",
    "check": CHECK,
}
TEST = """\
import click


def test_format_filenames_joins_them():
    assert click.format_filenames([b"foo.txt", "/x/bar.txt"], shorten=True) == "foo.txt, bar.txt"


def test_format_filenames_of_nothing_is_empty():
    assert click.format_filenames([]) == ""
"""
FUNCTION = '''\
def format_filenames(
    filenames: cabc.Iterable[str | bytes | os.PathLike[str] | os.PathLike[bytes]],
    shorten: bool = False,
) -> str:
    """Format several filenames as one string for display.

    :param filenames: the filenames, each formatted by :func:`format_filename`.
    :param shorten: show only the last part of each path.
    """
    return ", ".join(format_filename(name, shorten) for name in filenames)


'''


def call(command: str, path: str, **more: Any) -> dict[str, Any]:
    return {"tool": "text_editor", "arguments": {"command": command, "path": path, **more}}


def replace(path: str, old: str, new: str) -> dict[str, Any]:
    return call("str_replace", path, old_str=old, new_str=new)


def script() -> Scenario:
    """Return a model that adds a function over five files; two of its quotes drift."""
    source = {"expect": {"tool_results": [{"contains": ["def format_filename("]}, {"is_error": False}]}}
    edits = [
        replace(
            "src/click/utils.py",
            "def get_app_dir(app_name: str,",
            FUNCTION + "def get_app_dir(app_name: str,",
        ),
        replace(
            "src/click/__init__.py",
            "from .utils import format_filename as format_filename",
            "from .utils import format_filename as format_filename\n"
            "from .utils import format_filenames as format_filenames",
        ),
        call("create", "tests/test_utils/test_format_filenames.py", file_text=TEST),
        # A trailing blank that the file has not.
        replace(
            "docs/api.md",
            ".. autofunction:: format_filename   \n```",
            ".. autofunction:: format_filename\n```\n\n"
            "```{eval-rst}\n.. autofunction:: format_filenames\n```",
        ),
        # Curly quotes where the file has straight ones, as models write them.
        replace(
            "CHANGES.md",
            "- A command\u2019s short help no longer stops at an abbreviation such as `vs.` or `e.g.`\n",
            "- Add `format_filenames`.\n"
            "- A command\u2019s short help no longer stops at an abbreviation such as `vs.` or `e.g.`\n",
        ),
    ]
    look = [call("view", "src/click/utils.py", view_range=[425, 475]), call("view", ".")]
    turns = [
        {"say": json.dumps(PLAN)},
        {"calls": look},
        {**source, "calls": edits},
        {
            "expect": {"tool_results": [{"is_error": False}] * 5},
            "calls": [{"tool": "run_command", "arguments": {"command": CHECK}}],
        },
        {"expect": {"tool_result": {"contains": ["exit code 0", "passed"]}}, "say": "Added and tested."},
    ]
    return Scenario.parse(json.dumps({"title": "real project", "turns": turns}))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a bare repository of the real project."""
    archives = list(DATA.glob("click-*.tar.gz"))
    if not archives:
        pytest.skip("the real project was not fetched; `make test` does it")
    place = tmp_path_factory.mktemp("project")
    with tarfile.open(archives[0]) as archive:
        archive.extractall(place, filter="data")
    (folder,) = place.iterdir()
    git(folder, "init", "--quiet")
    git(folder, "add", "--all", "--force")
    git(folder, "commit", "--quiet", "--message=As published")
    git(place, "clone", "--quiet", "--bare", str(folder), "click.git")
    return place / "click.git"


@pytest.mark.parametrize("sandbox", ["local", "bubblewrap"])
def test_a_task_over_several_files_of_a_real_project(sandbox: str, project: Path, tmp_path: Path) -> None:
    skip_without(sandbox)
    assert len(git(project, "ls-tree", "-r", "--name-only", "main").splitlines()) >= 100
    branch = f"topic-{sandbox}"
    with run_scenario_server(script()) as server:
        arguments = [
            "--repo",
            str(project),
            "--branch",
            branch,
            "--sandbox",
            sandbox,
            "--approve",
            "all",
            "--json",
        ]
        model = ["--model", "openai:scripted", "--base-url", server.openai_url]
        outcome = kakite("agent", "run", "Add format_filenames", *arguments, *model, home=tmp_path)
        assert server.violations == ()
    assert outcome.code == 0, outcome.stderr
    assert [step["code"] for step in outcome.json["steps"] if not step["ok"]] == []
    changed = git(project, "diff", "--name-status", "main", branch).split("\n")
    assert changed == [
        "M\tCHANGES.md",
        "M\tdocs/api.md",
        "M\tsrc/click/__init__.py",
        "M\tsrc/click/utils.py",
        "A\ttests/test_utils/test_format_filenames.py",
    ]
    # What was quoted with curly quotes and blanks keeps the file's own: only additions.
    assert [
        line
        for line in git(project, "diff", "--numstat", "main", branch).split("\n")
        if line.split("\t")[1] != "0"
    ] == []
