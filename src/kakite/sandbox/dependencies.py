"""What a project needs to be worked on, told by the names of its files: which commands get it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
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
class Place:
    """What there is inside the sandbox to begin with."""

    home: str
    path: str
    tools: Collection[str]
    files: Collection[str]
    """Files that name dependencies, relative to the project: at its top and one folder below."""


_Ask = Callable[[set[str], Place], list[Step]]
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


def plan(place: Place) -> tuple[Step, ...]:
    """Return the steps that the project's files ask for, in order. Pure.

    Of each ecosystem the files at the top count; if there are none, those one folder below.
    """
    steps: list[Step] = []
    for names, ask in zip(_ECOSYSTEMS, _ASKED, strict=True):
        for folder, found in _where(names, place.files):
            asked = (replace(step, folder=folder) for step in ask(found, place))
            # What makes the one environment of several folders is asked for by each.
            steps += (step for step in asked if "venv" not in step.argv or step.argv not in _argvs(steps))
    return tuple(steps)


def _argvs(steps: Iterable[Step]) -> list[tuple[str, ...]]:
    return [step.argv for step in steps]


def _where(names: Iterable[str], files: Collection[str]) -> list[tuple[str, set[str]]]:
    folders: dict[str, set[str]] = {}
    for file in sorted(files):
        path = PurePosixPath(file)
        if path.name in names:
            folders.setdefault(str(path.parent), set()).add(path.name)
    return [(".", folders["."])] if "." in folders else sorted(folders.items())


def _conda(found: set[str], place: Place) -> list[Step]:
    file = next(name for name in _CONDA if name in found)
    tool = next((name for name in ("micromamba", "mamba", "conda") if name in place.tools), "")
    argv = (tool or "conda", "env", "create", "--yes", "--quiet", "-p", f"{place.home}/conda", "-f", file)
    return [Step(argv=argv, why=file, missing="" if tool else "conda")]


def _python(found: set[str], place: Place) -> list[Step]:
    env = _activated(place, f"{place.home}/venv")
    for lock, argv in _LOCKED.items():
        if lock in found and argv[0] in place.tools:
            return [*_venv(lock, place), _tool_step(argv, lock, place, env)]
    files = [name for name in _REQUIREMENTS if name in found]
    steps: list[Step] = []
    if files:
        argv = tuple(word for name in files for word in ("-r", name))
        steps.append(_pip(argv, " ".join(files), place, env))
    if project := next((name for name in ("pyproject.toml", "setup.py") if name in found), ""):
        steps.append(_pip(("-e", "."), project, place, env))
    if steps:
        return [*_venv(steps[0].why, place), *steps]
    lock = next(name for name in _PYTHON if name in found)
    return [_tool_step(_LOCKED[lock], lock, place, env)]


_LOCKED = {
    "uv.lock": ("uv", "sync", "--frozen"),
    "poetry.lock": ("poetry", "install", "--no-interaction"),
    "Pipfile": ("pipenv", "install", "--dev"),
}


def _venv(why: str, place: Place) -> list[Step]:
    # In the home, not in the project: nothing that git, a linter or a model would look into.
    return [_tool_step(("python3", "-m", "venv", "--clear", f"{place.home}/venv"), why, place)]


def _pip(argv: tuple[str, ...], why: str, place: Place, env: Mapping[str, str]) -> Step:
    python = f"{place.home}/venv/bin/python"
    missing = "" if "python3" in place.tools else "python3"
    return Step(argv=(python, "-m", "pip", "install", *argv), why=why, env=env, missing=missing)


def _activated(place: Place, venv: str) -> dict[str, str]:
    return {
        "VIRTUAL_ENV": venv,
        "UV_PROJECT_ENVIRONMENT": venv,
        "PATH": f"{venv}/bin:{place.path}",
    }


def _javascript(found: set[str], place: Place) -> list[Step]:
    if "package.json" not in found:
        return []
    if "pnpm-lock.yaml" in found:
        return [_tool_step(("pnpm", "install", "--frozen-lockfile"), "pnpm-lock.yaml", place)]
    if "yarn.lock" in found:
        frozen = "--immutable" if ".yarnrc.yml" in found else "--frozen-lockfile"
        return [_tool_step(("yarn", "install", frozen), "yarn.lock", place)]
    quiet = ("--no-audit", "--no-fund", "--no-progress")
    if lock := next((name for name in ("package-lock.json", "npm-shrinkwrap.json") if name in found), ""):
        return [_tool_step(("npm", "ci", *quiet), lock, place)]
    return [_tool_step(("npm", "install", "--no-package-lock", *quiet), "package.json", place)]


def _always(*argv: str, why: str) -> _Ask:
    def ask(found: set[str], place: Place) -> list[Step]:
        return [_tool_step(argv, why, place)] if why in found else []

    return ask


def _rust(found: set[str], place: Place) -> list[Step]:
    locked = ("--locked",) if "Cargo.lock" in found else ()
    return [_tool_step(("cargo", "fetch", *locked), "Cargo.toml", place)] if "Cargo.toml" in found else []


def _gradle(found: set[str], place: Place) -> list[Step]:
    file = next((name for name in _GRADLE if name in found), "")
    if not file:
        return []
    if "gradlew" in found:
        return [Step(argv=("sh", "./gradlew", "--no-daemon", "--quiet", "dependencies"), why=file)]
    return [_tool_step(("gradle", "--no-daemon", "--quiet", "dependencies"), file, place)]


def _ruby(found: set[str], place: Place) -> list[Step]:
    configure = ("bundle", "config", "set", "--global", "path", f"{place.home}/bundle")
    return [_tool_step(argv, min(found), place) for argv in (configure, ("bundle", "install"))]


_ASKED: tuple[_Ask, ...] = (
    _conda,
    _python,
    _javascript,
    _always("go", "mod", "download", why="go.mod"),
    _rust,
    _always("mvn", "-B", "-q", "dependency:go-offline", why="pom.xml"),
    _gradle,
    _ruby,
    _always("composer", "install", "--no-interaction", "--no-progress", why="composer.json"),
)


def _tool_step(argv: tuple[str, ...], why: str, place: Place, env: Mapping[str, str] | None = None) -> Step:
    return Step(argv=argv, why=why, env=env or {}, missing="" if argv[0] in place.tools else argv[0])
