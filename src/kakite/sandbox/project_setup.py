"""Sets a project up before a task's own work: detects the commands that it needs, and runs them.

Detection is pure and goes by the names of files. The commands run inside the sandbox with the network
``registries``, and so does whatever code packages bring. What is installed goes into the task's home, or into
folders that git is told to ignore. A step that fails is reported and does not stop the others.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from kakite.processes import Limit, OnOutput
    from kakite.sandbox.base import Sandbox


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupStep:
    """One command that gets something that the project needs."""

    argv: tuple[str, ...]
    why: str
    """The file that asks for it."""
    folder: str = "."
    """Where it runs, relative to the project."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    missing: str = ""
    """The program that it takes and that is not there; the step is skipped then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxEnvironment:
    """The environment inside the sandbox before the set-up."""

    home: str
    path: str
    tools: Collection[str]
    files: Collection[str]
    """Files that name dependencies, relative to the project: at its top and one folder below."""


_Planner = Callable[[set[str], SandboxEnvironment], list[SetupStep]]
"""From the files of an ecosystem that are in one folder to its steps."""

_PYTHON = ("uv.lock", "poetry.lock", "Pipfile", "pyproject.toml", "setup.py")
_REQUIREMENTS = (
    *("requirements.txt", "requirements-dev.txt", "requirements_dev.txt", "dev-requirements.txt"),
    *("requirements-test.txt", "test-requirements.txt"),
)
_JAVASCRIPT = ("package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "yarn.lock", ".yarnrc.yml")
_CONDA = ("environment.yml", "environment.yaml")
_GRADLE = ("build.gradle", "build.gradle.kts")
_ECOSYSTEMS = (
    _CONDA,
    (*_PYTHON, *_REQUIREMENTS),
    ("package.json", *_JAVASCRIPT),
    ("go.mod",),
    ("Cargo.toml", "Cargo.lock"),
    ("pom.xml",),
    (*_GRADLE, "gradlew"),
    ("Gemfile",),
    ("composer.json",),
)
NAMES = tuple(name for names in _ECOSYSTEMS for name in names)
"""The files that are looked for."""
TOOLS = (
    *("python3", "uv", "poetry", "pipenv", "micromamba", "mamba", "conda", "npm", "pnpm", "yarn"),
    *("go", "cargo", "mvn", "gradle", "bundle", "composer"),
)
"""The programs that steps take."""


def plan(place: SandboxEnvironment) -> tuple[SetupStep, ...]:
    """Return the steps that the project's files ask for, in order. Pure.

    Of each ecosystem the files at the top count; if there are none, those one folder below.
    """
    steps: list[SetupStep] = []
    for names, ask in zip(_ECOSYSTEMS, _PLANNERS, strict=True):
        for folder, found in _group_by_folder(names, place.files):
            asked = (replace(step, folder=folder) for step in ask(found, place))
            # What makes the one environment of several folders is asked for by each.
            steps += (
                step for step in asked if "venv" not in step.argv or step.argv not in _list_argvs(steps)
            )
    return tuple(steps)


def _list_argvs(steps: Iterable[SetupStep]) -> list[tuple[str, ...]]:
    return [step.argv for step in steps]


def _group_by_folder(names: Iterable[str], files: Collection[str]) -> list[tuple[str, set[str]]]:
    folders: dict[str, set[str]] = {}
    for file in sorted(files):
        path = PurePosixPath(file)
        if path.name in names:
            folders.setdefault(str(path.parent), set()).add(path.name)
    return [(".", folders["."])] if "." in folders else sorted(folders.items())


def _plan_conda(found: set[str], place: SandboxEnvironment) -> list[SetupStep]:
    file = next(name for name in _CONDA if name in found)
    tool = next((name for name in ("micromamba", "mamba", "conda") if name in place.tools), "")
    argv = (tool or "conda", "env", "create", "--yes", "--quiet", "-p", f"{place.home}/conda", "-f", file)
    return [SetupStep(argv=argv, why=file, missing="" if tool else "conda")]


def _plan_python(found: set[str], place: SandboxEnvironment) -> list[SetupStep]:
    env = _build_venv_env(place, f"{place.home}/venv")
    for lock, argv in _LOCKED.items():
        if lock in found and argv[0] in place.tools:
            return [*_plan_venv(lock, place), _build_tool_step(argv, lock, place, env)]
    files = [name for name in _REQUIREMENTS if name in found]
    steps: list[SetupStep] = []
    if files:
        argv = tuple(word for name in files for word in ("-r", name))
        steps.append(_build_pip_step(argv, " ".join(files), place, env))
    if project := next((name for name in ("pyproject.toml", "setup.py") if name in found), ""):
        steps.append(_build_pip_step(("-e", "."), project, place, env))
    if steps:
        return [*_plan_venv(steps[0].why, place), *steps]
    lock = next(name for name in _PYTHON if name in found)
    return [_build_tool_step(_LOCKED[lock], lock, place, env)]


_LOCKED = {
    "uv.lock": ("uv", "sync", "--frozen"),
    "poetry.lock": ("poetry", "install", "--no-interaction"),
    "Pipfile": ("pipenv", "install", "--dev"),
}


def _plan_venv(why: str, place: SandboxEnvironment) -> list[SetupStep]:
    # In the home, not in the project: nothing that git, a linter or a model would look into.
    return [_build_tool_step(("python3", "-m", "venv", "--clear", f"{place.home}/venv"), why, place)]


def _build_pip_step(
    argv: tuple[str, ...], why: str, place: SandboxEnvironment, env: Mapping[str, str]
) -> SetupStep:
    python = f"{place.home}/venv/bin/python"
    missing = "" if "python3" in place.tools else "python3"
    return SetupStep(argv=(python, "-m", "pip", "install", *argv), why=why, env=env, missing=missing)


def _build_venv_env(place: SandboxEnvironment, venv: str) -> dict[str, str]:
    return {
        "VIRTUAL_ENV": venv,
        "UV_PROJECT_ENVIRONMENT": venv,
        "PATH": f"{venv}/bin:{place.path}",
    }


def _plan_javascript(found: set[str], place: SandboxEnvironment) -> list[SetupStep]:
    if "package.json" not in found:
        return []
    if "pnpm-lock.yaml" in found:
        return [_build_tool_step(("pnpm", "install", "--frozen-lockfile"), "pnpm-lock.yaml", place)]
    if "yarn.lock" in found:
        frozen = "--immutable" if ".yarnrc.yml" in found else "--frozen-lockfile"
        return [_build_tool_step(("yarn", "install", frozen), "yarn.lock", place)]
    quiet = ("--no-audit", "--no-fund", "--no-progress")
    if lock := next((name for name in ("package-lock.json", "npm-shrinkwrap.json") if name in found), ""):
        return [_build_tool_step(("npm", "ci", *quiet), lock, place)]
    return [_build_tool_step(("npm", "install", "--no-package-lock", *quiet), "package.json", place)]


def _plan_if_present(*argv: str, why: str) -> _Planner:
    def ask(found: set[str], place: SandboxEnvironment) -> list[SetupStep]:
        return [_build_tool_step(argv, why, place)] if why in found else []

    return ask


def _plan_rust(found: set[str], place: SandboxEnvironment) -> list[SetupStep]:
    locked = ("--locked",) if "Cargo.lock" in found else ()
    return (
        [_build_tool_step(("cargo", "fetch", *locked), "Cargo.toml", place)] if "Cargo.toml" in found else []
    )


def _plan_gradle(found: set[str], place: SandboxEnvironment) -> list[SetupStep]:
    file = next((name for name in _GRADLE if name in found), "")
    if not file:
        return []
    if "gradlew" in found:
        return [SetupStep(argv=("sh", "./gradlew", "--no-daemon", "--quiet", "dependencies"), why=file)]
    return [_build_tool_step(("gradle", "--no-daemon", "--quiet", "dependencies"), file, place)]


def _plan_ruby(found: set[str], place: SandboxEnvironment) -> list[SetupStep]:
    configure = ("bundle", "config", "set", "--global", "path", f"{place.home}/bundle")
    return [_build_tool_step(argv, min(found), place) for argv in (configure, ("bundle", "install"))]


_PLANNERS: tuple[_Planner, ...] = (
    _plan_conda,
    _plan_python,
    _plan_javascript,
    _plan_if_present("go", "mod", "download", why="go.mod"),
    _plan_rust,
    _plan_if_present("mvn", "-B", "-q", "dependency:go-offline", why="pom.xml"),
    _plan_gradle,
    _plan_ruby,
    _plan_if_present("composer", "install", "--no-interaction", "--no-progress", why="composer.json"),
)


def _build_tool_step(
    argv: tuple[str, ...], why: str, place: SandboxEnvironment, env: Mapping[str, str] | None = None
) -> SetupStep:
    return SetupStep(argv=argv, why=why, env=env or {}, missing="" if argv[0] in place.tools else argv[0])


STEP_TIME = 900.0
"""Seconds that one step may take."""
ALL_TIME = 1800.0
"""Seconds that all of them may take together."""
_KEPT = 4000  # characters of a step's output
_LIMIT = 64 * 1024  # bytes of each stream

StepOutcome = Literal["done", "failed", "timed_out", "skipped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupStepResult:
    """The result of a step."""

    step: SetupStep
    outcome: StepOutcome
    output: str = ""
    """The end of what it printed; the reason if it was skipped."""
    seconds: float = 0.0
    limit: Limit = ""
    """The limit of the sandbox that was run into meanwhile, if one was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupResult:
    """The result of the whole set-up."""

    steps: tuple[SetupStepResult, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """What later programs of the task need to find what was installed: ``PATH``, if it is not as it was."""

    def format_note(self) -> str:
        """Tell a model what is installed and what is not; empty if there was nothing to do."""
        return "\n".join(map(_describe_step, self.steps))


async def set_up(sandbox: Sandbox, on_output: OnOutput | None = None) -> SetupResult:
    """Get what the project in a prepared sandbox needs, as far as that goes.

    What a step leaves in the project is neither seen by git nor part of the task's change: new files are told
    to git's ``info/exclude``, tracked ones are put back. Nothing that a step does, or fails to do, raises.

    Raises:
        SandboxError: the sandbox does not work.
    """
    if not sandbox.isolates:
        return SetupResult()  # code of strangers, run as the person: not unasked
    place = await _look(sandbox)
    steps = plan(place)
    if not steps:
        return SetupResult()
    before = await _list_changes(sandbox)
    end = time.monotonic() + ALL_TIME
    done = [
        await _perform(sandbox, step, min(STEP_TIME, end - time.monotonic()), on_output) for step in steps
    ]
    await _hide_from_git(sandbox, before)
    return SetupResult(steps=tuple(done), environment=await _find_environment(sandbox, place))


async def _look(sandbox: Sandbox) -> SandboxEnvironment:
    tests = " -o ".join(f"-name {name}" for name in NAMES)
    script = f"""
printf '%s\\0' "$HOME" "$PATH"
for tool in {" ".join(TOOLS)}; do command -v "$tool" > /dev/null 2>&1 && printf '%s\\0' "$tool"; done
printf '\\0'
find . -maxdepth 2 -type f \\( {tests} \\) -print0
"""
    done = await sandbox.exec(("sh", "-c", script), timeout=60)
    seen = done.stdout.decode(errors="replace")
    told, _, found = seen.partition("\0\0")
    home, path, *tools = told.split("\0")
    files = {name.removeprefix("./") for name in found.split("\0") if name and not _is_ignored(name)}
    return SandboxEnvironment(home=home, path=path, tools=frozenset(tools), files=files)


def _is_ignored(name: str) -> bool:
    folder = PurePosixPath(name).parent.name
    return folder.startswith(".") or folder in {"node_modules", "vendor", "target", "build", "dist", "venv"}


async def _perform(
    sandbox: Sandbox, step: SetupStep, seconds: float, on_output: OnOutput | None
) -> SetupStepResult:
    if step.missing:
        return SetupStepResult(step=step, outcome="skipped", output=f"`{step.missing}` is not in the sandbox")
    if seconds <= 0:
        return SetupStepResult(step=step, outcome="skipped", output="the time for all steps had run out")
    done = await sandbox.exec(
        step.argv,
        cwd=step.folder,
        env=step.env,
        timeout=seconds,
        network="registries",
        limit=_LIMIT,
        on_output=on_output,
    )
    output = (done.stdout + done.stderr).decode(errors="replace").strip()[-_KEPT:]
    outcome: StepOutcome = "timed_out" if done.timed_out else "done" if done.exit_code == 0 else "failed"
    return SetupStepResult(step=step, outcome=outcome, output=output, seconds=done.duration, limit=done.limit)


async def _find_environment(sandbox: Sandbox, place: SandboxEnvironment) -> dict[str, str]:
    folders = [f"{place.home}/{name}/bin" for name in ("venv", "conda")]
    there = await sandbox.exec(
        ("sh", "-c", 'for folder; do [ -d "$folder" ] && echo "$folder"; done; :', "sh", *folders), timeout=60
    )
    found = [folder for folder in folders if folder in there.stdout.decode(errors="replace").splitlines()]
    return {"PATH": ":".join((*found, place.path))} if found else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class _GitChanges:
    """The differences of the work tree from what git has: paths, in the bytes that git gives."""

    untracked: frozenset[bytes] = frozenset()
    modified: frozenset[bytes] = frozenset()


async def _list_changes(sandbox: Sandbox) -> _GitChanges:
    listed = ("ls-files", "--others", "--exclude-standard", "--directory", "--no-empty-directory", "-z")
    return _GitChanges(
        untracked=await _list_paths(sandbox, listed),
        modified=await _list_paths(sandbox, ("ls-files", "--modified", "-z")),
    )


async def _list_paths(sandbox: Sandbox, words: tuple[str, ...]) -> frozenset[bytes]:
    done = await sandbox.exec(("git", *words), timeout=60)
    return frozenset(done.stdout.split(b"\0")) - {b""} if done.exit_code == 0 else frozenset()


async def _hide_from_git(sandbox: Sandbox, before: _GitChanges) -> None:
    after = await _list_changes(sandbox)
    new = sorted(path for path in after.untracked - before.untracked if b"\n" not in path)
    if new:
        patterns = b"".join(b"/" + _escape_pattern(path) + b"\n" for path in new)
        append = 'cat >> "$(git rev-parse --git-path info/exclude)"'
        await sandbox.exec(("sh", "-c", append), stdin=patterns, timeout=60)
    if changed := after.modified - before.modified:
        words = (
            "--literal-pathspecs",
            "checkout",
            "--quiet",
            "--pathspec-from-file=-",
            "--pathspec-file-nul",
        )
        await sandbox.exec(("git", *words), stdin=b"\0".join(sorted(changed)), timeout=60)


def _escape_pattern(path: bytes) -> bytes:
    """Return the pattern of an ignore file that means this very path."""
    return re.sub(rb"[\\*?\[ ]", rb"\\\g<0>", path)


def _describe_step(done: SetupStepResult) -> str:
    command = " ".join(done.step.argv)
    match done.outcome:
        case "done":
            return f"`{command}` went well, for {done.step.why}"
        case "skipped":
            return f"`{command}`, for {done.step.why}, was not run: {done.output}"
        case "timed_out":
            return f"`{command}`, for {done.step.why}, was stopped after {done.seconds:.0f} s:\n{done.output}"
        case "failed":
            limit = f" at the sandbox's limit of {done.limit}" if done.limit else ""
            return f"`{command}`, for {done.step.why}, failed{limit}:\n{done.output}"
