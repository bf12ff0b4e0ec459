"""What a project needs: which steps its files ask for, and real ones with real package managers."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import json
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.bounds import WITHIN
from tests.sandbox.networked import Files, files, networked

from kakite.sandbox import open_sandbox
from kakite.sandbox.project_setup import (
    NAMES,
    TOOLS,
    SandboxEnvironment,
    SetupResult,
    SetupStep,
    SetupStepResult,
    plan,
    set_up,
)

ALL = frozenset(TOOLS)


def asked(*names: str, tools: frozenset[str] = ALL) -> list[SetupStep]:
    return list(plan(SandboxEnvironment(home="/h", path="/bin", tools=tools, files=set(names))))


def words(*names: str, tools: frozenset[str] = ALL) -> list[str]:
    return [" ".join(step.argv) for step in asked(*names, tools=tools)]


PIP = "/h/venv/bin/python -m pip install"
VENV = "python3 -m venv --clear /h/venv"
QUIET = "--no-audit --no-fund --no-progress"


@pytest.mark.parametrize(
    ("names", "steps"),
    [
        (["README.md"], []),
        (["pyproject.toml"], [VENV, f"{PIP} -e ."]),
        (["setup.py"], [VENV, f"{PIP} -e ."]),
        (
            ["requirements.txt", "requirements-dev.txt"],
            [VENV, f"{PIP} -r requirements.txt -r requirements-dev.txt"],
        ),
        (["requirements.txt", "pyproject.toml"], [VENV, f"{PIP} -r requirements.txt", f"{PIP} -e ."]),
        (["uv.lock", "pyproject.toml"], [VENV, "uv sync --frozen"]),
        (["poetry.lock", "pyproject.toml"], [VENV, "poetry install --no-interaction"]),
        (["Pipfile"], [VENV, "pipenv install --dev"]),
        (["package.json"], [f"npm install --no-package-lock {QUIET}"]),
        (["package.json", "package-lock.json"], [f"npm ci {QUIET}"]),
        (["package.json", "pnpm-lock.yaml"], ["pnpm install --frozen-lockfile"]),
        (["package.json", "yarn.lock"], ["yarn install --frozen-lockfile"]),
        (["package.json", "yarn.lock", ".yarnrc.yml"], ["yarn install --immutable"]),
        (["package-lock.json"], []),
        (["go.mod"], ["go mod download"]),
        (["Cargo.toml"], ["cargo fetch"]),
        (["Cargo.toml", "Cargo.lock"], ["cargo fetch --locked"]),
        (["pom.xml"], ["mvn -B -q dependency:go-offline"]),
        (["build.gradle.kts"], ["gradle --no-daemon --quiet dependencies"]),
        (["build.gradle", "gradlew"], ["sh ./gradlew --no-daemon --quiet dependencies"]),
        (["environment.yml"], ["micromamba env create --yes --quiet -p /h/conda -f environment.yml"]),
        (["Gemfile"], ["bundle config set --global path /h/bundle", "bundle install"]),
        (["composer.json"], ["composer install --no-interaction --no-progress"]),
    ],
)
def test_a_projects_files_tell_what_it_needs(names: list[str], steps: list[str]) -> None:
    assert words(*names) == steps


def test_folders_count_where_the_top_asks_for_nothing_of_the_kind() -> None:
    steps = asked("web/package.json", "api/requirements.txt", "lib/pyproject.toml", "go.mod", "tool/go.mod")
    assert [(step.folder, step.argv[0]) for step in steps if "venv" not in step.argv] == [
        ("api", "/h/venv/bin/python"),
        ("lib", "/h/venv/bin/python"),
        ("web", "npm"),
        (".", "go"),
    ]
    assert sum("venv" in step.argv for step in steps) == 1


def test_without_the_tool_of_a_lock_file_pip_reads_the_project_and_else_the_step_is_skipped() -> None:
    tools = ALL - {"uv", "pipenv"}
    assert words("uv.lock", "pyproject.toml", tools=tools) == [VENV, f"{PIP} -e ."]
    assert [step.missing for step in asked("Pipfile", tools=tools)] == ["pipenv"]
    assert {step.missing for step in asked("pyproject.toml", tools=frozenset())} == {"python3"}


@given(
    st.sets(st.tuples(st.sampled_from(["", "a/", "b/"]), st.sampled_from(NAMES)).map("".join)),
    st.sets(st.sampled_from(TOOLS)),
)
def test_whatever_files_and_tools_there_are_each_step_can_run_or_says_what_is_missing(
    names: set[str], tools: set[str]
) -> None:
    for step in asked(*names, tools=frozenset(tools)):
        program = step.argv[0]
        assert step.missing or program in tools or program == "sh" or "python3" in tools
        assert not step.missing or step.missing not in tools
        assert step.folder in {".", "a", "b"}


# With real package managers


def serve_wheel(world: Files, name: str) -> None:
    """Put a package with one module on a simple index."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as wheel:
        info = f"{name}-1.0.dist-info"
        wheel.writestr(f"{name}.py", "VALUE = 42\n")
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    file = f"{name}-1.0-py3-none-any.whl"
    world.pages[f"/simple/{name}/"] = ("text/html", f'<a href="/{file}">{file}</a>'.encode())
    world.pages[f"/{file}"] = ("application/octet-stream", content.getvalue())


def serve_tarball(world: Files, name: str, registry: str) -> dict[str, str]:
    """Put a package with a script of its own on an npm registry; return what a lock file says of it."""
    script = "node -e \"require('fs').writeFileSync('ran', process.env.KAKITE_NETWORK)\""
    manifest = {"name": name, "version": "1.0.0", "scripts": {"postinstall": script}}
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        for path, text in (("package.json", json.dumps(manifest)), ("index.js", "module.exports = 42\n")):
            member = tarfile.TarInfo(f"package/{path}")
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    tarball = f"{registry}/{name}/-/{name}-1.0.0.tgz"
    digest = base64.b64encode(hashlib.sha512(content.getvalue()).digest()).decode()
    dist = {"tarball": tarball, "integrity": f"sha512-{digest}"}
    packument = {
        "name": name,
        "dist-tags": {"latest": "1.0.0"},
        "versions": {"1.0.0": manifest | {"dist": dist}},
    }
    world.pages[f"/{name}"] = ("application/json", json.dumps(packument).encode())
    world.pages[f"/{name}/-/{name}-1.0.0.tgz"] = ("application/octet-stream", content.getvalue())
    return {
        "version": "1.0.0",
        "resolved": tarball,
        "integrity": dist["integrity"],
        "hasInstallScript": "true",
    }


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "safe.directory=*")
    done = subprocess.run(
        ["git", *identity, *words], cwd=folder, capture_output=True, check=True, encoding="utf-8"
    )
    return done.stdout


def write(folder: Path, **contents: str) -> None:
    git(folder, "init", "--quiet")
    for name, text in contents.items():
        (folder / name.replace("__", "-").replace("_", ".")).write_text(text, encoding="utf-8")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "start")


def outcomes(done: SetupResult) -> list[tuple[str, str]]:
    return [(step.step.argv[0].rpartition("/")[2], step.outcome) for step in done.steps]


@pytest.mark.slow
def test_pip_installs_what_is_allowed_into_the_tasks_home_and_later_programs_find_it(tmp_path: Path) -> None:
    async def go() -> tuple[SetupResult, int | None, bytes]:
        async with files() as world, networked(tmp_path, f"pypi.test:{world.port}") as sandbox:
            serve_wheel(world, "kkdemo")
            index = f"--index-url http://pypi.test:{world.port}/simple/\n--trusted-host pypi.test\n"
            write(tmp_path / "task/project", requirements_txt=f"{index}kkdemo==1.0\n")
            seen: list[bytes] = []
            done = await set_up(sandbox, lambda _, data: seen.append(data))
            assert b"kkdemo" in b"".join(seen)
            used = await sandbox.exec(
                ("python", "-c", "import kkdemo; print(kkdemo.VALUE)"), timeout=60, env=done.environment
            )
            return done, used.exit_code, used.stdout + used.stderr

    done, code, said = asyncio.run(asyncio.wait_for(go(), WITHIN))
    assert outcomes(done) == [("python3", "done"), ("python", "done")], done.format_note()
    assert (code, said) == (0, b"42\n")
    assert git(tmp_path / "task/project", "status", "--porcelain") == ""
    assert "requirements.txt" in done.format_note()


@pytest.mark.slow
def test_npm_installs_a_lock_file_and_runs_scripts_inside_and_git_does_not_see_it(tmp_path: Path) -> None:
    async def go() -> SetupResult:
        async with files() as world, networked(tmp_path, f"npm.test:{world.port}") as sandbox:
            registry = f"http://npm.test:{world.port}"
            locked = serve_tarball(world, "kkdemo", registry)
            needs = {"name": "mine", "version": "1.0.0", "dependencies": {"kkdemo": "1.0.0"}}
            lock = {
                "name": "mine",
                "version": "1.0.0",
                "lockfileVersion": 3,
                "packages": {"": needs, "node_modules/kkdemo": locked},
            }
            write(
                tmp_path / "task/project",
                package_json=json.dumps(needs),
                package__lock_json=json.dumps(lock),
                _npmrc=f"registry={registry}/\n",
            )
            return await set_up(sandbox)

    done = asyncio.run(asyncio.wait_for(go(), WITHIN))
    project = tmp_path / "task/project"
    assert outcomes(done) == [("npm", "done")], done.format_note()
    assert (project / "node_modules/kkdemo/index.js").exists()
    assert (project / "node_modules/kkdemo/ran").read_text(encoding="utf-8") == "registries"
    assert git(project, "status", "--porcelain") == ""


@pytest.mark.slow
def test_a_step_that_fails_is_told_with_its_reason_and_the_others_run(tmp_path: Path) -> None:
    async def go() -> SetupResult:
        async with files() as world, networked(tmp_path, f"npm.test:{world.port}") as sandbox:
            write(
                tmp_path / "task/project",
                requirements_txt="--index-url https://evil.example/simple/\nkkdemo\n",
                package_json='{"dependencies": {"kkdemo": "1.0.0"}}',
                _npmrc=f"registry=http://npm.test:{world.port}/\n",
                Gemfile="",
            )
            serve_tarball(world, "kkdemo", f"http://npm.test:{world.port}")
            return await set_up(sandbox)

    done = asyncio.run(asyncio.wait_for(go(), WITHIN))
    assert outcomes(done)[1:3] == [("python", "failed"), ("npm", "done")], done.format_note()
    assert "evil.example is not a package registry; the setting hosts allows it" in done.format_note()
    assert {step.outcome for step in done.steps[3:]} <= {"skipped", "done", "failed"}


def test_what_steps_leave_behind_is_hidden_and_what_was_there_is_not(tmp_path: Path) -> None:
    async def go() -> SetupResult:
        async with networked(tmp_path) as sandbox:
            project = tmp_path / "task/project"
            write(
                project,
                build_gradle="",
                gradlew="mkdir 'odd [name]' && touch 'odd [name]/x' '*y'; echo new > kept",
                kept="old",
            )
            (project / "mine").touch()
            return await set_up(sandbox)

    done = asyncio.run(go())
    project = tmp_path / "task/project"
    assert outcomes(done) == [("sh", "done")], done.format_note()
    (project / "zy").touch()
    assert git(project, "status", "--porcelain").split() == ["??", "mine", "??", "zy"]
    assert (project / "kept").read_text(encoding="utf-8") == "old"


def test_a_project_that_needs_nothing_costs_no_step(tmp_path: Path) -> None:
    async def go() -> SetupResult:
        async with networked(tmp_path) as sandbox:
            return await set_up(sandbox)

    assert asyncio.run(go()) == SetupResult()


def test_nothing_is_installed_unasked_where_nothing_isolates(tmp_path: Path) -> None:
    async def go() -> SetupResult:
        sandbox = open_sandbox("local", tmp_path / "task")
        await sandbox.prepare()
        (tmp_path / "task/project/setup.py").write_text("open('../ran', 'w')", encoding="utf-8")
        return await set_up(sandbox)

    assert asyncio.run(go()) == SetupResult()
    assert not (tmp_path / "task/home/venv").exists()


def test_a_step_without_its_tool_is_skipped_with_the_reason() -> None:
    step = SetupStep(argv=("cargo", "fetch"), why="Cargo.toml", missing="cargo")
    done = SetupResult(
        steps=(SetupStepResult(step=step, outcome="skipped", output="`cargo` is not in the sandbox"),)
    )
    assert "`cargo` is not in the sandbox" in done.format_note()
