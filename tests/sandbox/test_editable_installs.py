"""Programs of ``local`` import the task's copy of a project, though the person's is installed."""

from __future__ import annotations

import asyncio
import os
import shutil
import site
import subprocess
import sys
import venv
from pathlib import Path

import editables
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lanes import examples

from kakite.processes import build_base_environment
from kakite.sandbox import SandboxSpec, open_sandbox
from kakite.sandbox.backends.editable_installs import find_import_roots

_PROJECT = """\
[project]
name = "greet"
version = "1"
[build-system]
requires = []
build-backend = "hatchling.build"
[tool.hatch.build.targets.wheel]
"""
_BUILDS = {
    "a path": ("src", ""),
    "a finder": ("src", "dev-mode-exact = true\n"),
    "a finder, without a folder for sources": (".", "dev-mode-exact = true\n"),
}


def _make_project(folder: Path, where: str, says: str) -> None:
    package = folder / where / "greet"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(f"SAYS = {says!r}\n", encoding="utf-8")


def _install_editably(project: Path, environment: Path) -> Path:
    """Install the project into a new virtual environment; return the folder of its programs."""
    venv.create(environment, with_pip=False, symlinks=True)
    python = environment / "bin/python"
    options = ("--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check")
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, "install", *options, "--editable", project],
        # The backends are those of the environment that the tests run in.
        env={"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(site.getsitepackages())},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    packages = next(environment.glob("lib/python3*/site-packages"))
    shutil.copytree(Path(editables.__file__).parent, packages / "editables")  # what hatchling's finder needs
    return python.parent


@pytest.mark.slow
@pytest.mark.parametrize("build", _BUILDS)
def test_the_task_s_copy_is_imported_not_the_checkout(build: str, tmp_path: Path) -> None:
    where, more = _BUILDS[build]
    checkout = tmp_path / "checkout"
    _make_project(checkout, where, "checkout")
    (checkout / "pyproject.toml").write_text(_PROJECT + more, encoding="utf-8")
    programs = _install_editably(checkout, tmp_path / "venv")
    environ = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(tmp_path)}

    def ask(terms: SandboxSpec, name: str) -> str:
        sandbox = open_sandbox("local", tmp_path / name, environ=environ, terms=terms)
        _make_project(tmp_path / name / "project", where, "task")

        async def run() -> bytes:
            await sandbox.prepare()
            # As commands of a model are run: by a server in the sandbox, which hands on what it must.
            (tmp_path / "away").mkdir(exist_ok=True)
            words = ("python", "-c", "import greet; print(greet.SAYS)")
            done = await sandbox.exec(words, timeout=60, cwd=str(tmp_path / "away"))
            await sandbox.destroy()
            return done.stdout + done.stderr

        return asyncio.run(run()).decode().strip()

    assert ask(SandboxSpec(), "without") == "checkout"  # what this is about
    assert ask(SandboxSpec(checkout=checkout), "with") == "task"


_NAME = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True)


@settings(max_examples=examples(50))
@given(
    packages=st.lists(_NAME, min_size=1, max_size=3, unique=True), folder=st.sampled_from(["", "src", "a/b"])
)
def test_each_way_to_write_it_names_the_same_roots(
    packages: list[str], folder: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    top = tmp_path_factory.mktemp("editable")
    checkout, root = top / "checkout", top / "checkout" / folder
    root.mkdir(parents=True)
    paths = {name: str(root / name) for name in packages}
    ways = {
        "pth": ("greet.pth", f"# a note\nimport sys\n{root}\n{top}\n"),
        "setuptools": ("__editable___greet_1_finder.py", f"MAPPING: dict[str, str] = {paths!r}\n"),
        "editables": (
            "_editable_impl_greet.py",
            "".join(f"F.map_module({name!r}, {path + '/__init__.py'!r})\n" for name, path in paths.items()),
        ),
    }
    found = {}
    for way, (file, text) in ways.items():
        packages_folder = top / way / "lib/python3.11/site-packages"
        packages_folder.mkdir(parents=True)
        (packages_folder / file).write_text(text, encoding="utf-8")
        found[way] = find_import_roots(checkout, {"PATH": f"/nowhere:{top / way / 'bin'}"})
    assert found == dict.fromkeys(ways, (folder or ".",))


@pytest.mark.parametrize(
    "text",
    [
        "MAPPING = {",
        "MAPPING = {1: 2, **x}",
        "\0",
        "MAPPING = {'a': '/elsewhere/a'}",
        "MAPPING = {'a': '/b'}",
    ],
)
def test_a_finder_that_is_none_of_ours_names_nothing(text: str, tmp_path: Path) -> None:
    packages = tmp_path / "lib/python3.11/site-packages"
    packages.mkdir(parents=True)
    (packages / "__editable___a_finder.py").write_text(text, encoding="utf-8")
    assert find_import_roots(tmp_path / "checkout", {"PATH": str(tmp_path / "bin")}) == ()


def test_commands_import_by_what_their_sandbox_says_and_never_by_what_the_person_set() -> None:
    assert "PYTHONPATH" not in build_base_environment({"PYTHONPATH": "/person"}, "/home")
    kept = build_base_environment({"PYTHONPATH": "/person", "KAKITE_IMPORT_ROOTS": "/task/src"}, "/home")
    assert kept["PYTHONPATH"] == "/task/src"
