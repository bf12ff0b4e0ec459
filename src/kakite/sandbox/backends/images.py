"""Names and builds the container images, with Kakite inside.

An image has Kakite, this very version, in an environment of its own at ``/opt/kakite``. Everything that goes
into it from the network of package indexes is fetched on the host, with the person's own settings, and put
into the build's folder: no address and no credential of theirs gets into an image.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import kakite
from kakite import __version__
from kakite.errors import UsageError
from kakite.sandbox.backends import seccomp
from kakite.sandbox.base import SandboxError
from kakite.sandbox.files.temp import temporary_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kakite.sandbox.backends.engine import ContainerEngine

DEFAULT = "base"
NAMES = ("base", "python", "node", "go", "rust", "java")
"""Those that Kakite knows how to build; the name alone stands for the image of this version."""
KAKITE = "/opt/kakite"
USER = "59000:59000"
"""The user and group of images: not root, and nobody on the host."""
LABEL = "kakite.image"
_PYTHON = "3.11"
"""Of Debian 12, which Kakite runs with in every image."""
_GLIBC = 36
"""Debian 12 has 2.36."""
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64", "x86_64": "x86_64", "aarch64": "aarch64"}
_LONG_AGO = (1980, 1, 1, 0, 0, 0)


def get_reference(image: str) -> str:
    """Return what the engine calls an image: one of ours by its short name, or any other as it is."""
    return f"kakite/{image}:{__version__}" if image in NAMES else image


def build(
    containers: ContainerEngine,
    names: Sequence[str],
    *,
    base: str = "",
    network: str = "",
    told: Callable[[str], None] = lambda _line: None,
) -> list[str]:
    """Build images and return what the engine calls them. Blocks, for minutes.

    ``base`` is the image to build upon, in place of the official one that each names; it must be of Debian
    12. ``network`` is the network of the build, by the engine's name for it. ``told`` gets what it
    says, line by line.

    Raises:
        UsageError: a name is not known, code ``unknown_image``.
        SandboxError: packages could not be fetched, or the build failed.
    """
    for name in names:
        if name not in NAMES:
            known = ", ".join(NAMES)
            raise UsageError(
                f"image `{name}` is not known", hint=f"the images are: {known}", code="unknown_image"
            )
    with temporary_folder("image") as folder:
        machine = _find_machine(containers)
        fetch_kakite(folder / "wheels", machine)
        (folder / "seccomp.bpf").write_bytes(_compile_seccomp(machine))
        return [_build(containers, name, folder, base, network, told) for name in names]


def build_start_error(program: str, image: str, words: str) -> SandboxError:
    """Return the error for a container that did not start, by the engine's words."""
    from kakite.sandbox.backends.engine import build_call_error

    lowered = words.lower()
    if "no such image" in lowered or "image not known" in lowered or "unable to find image" in lowered:
        return SandboxError(
            f"there is no image `{image}`", hint=_describe_build(image), code="sandbox_missing"
        )
    if f"{KAKITE}/" in lowered and ("no such file" in lowered or "not found" in lowered):
        return build_unfit_error(image, "Kakite is not installed in it")
    return build_call_error(program, "run", words.encode())


def build_unfit_error(image: str, why: str) -> SandboxError:
    """Return the error for an image that cannot be used."""
    return SandboxError(
        f"image `{image}` cannot be used: {why}", hint=_describe_build(image), code="image_unfit"
    )


def _describe_build(image: str) -> str:
    for name in NAMES:
        if image == get_reference(name):
            return f"build it: `kakite sandbox build {name}`"
    return f"build one on top of it: `kakite sandbox build --base {image}`, then `--sandbox container`"


def _build(
    containers: ContainerEngine, name: str, folder: Path, base: str, network: str, told: Callable[[str], None]
) -> str:
    recipes = _find_recipes()
    for file in ("system.sh", "kakite.sh"):
        shutil.copyfile(recipes / file, folder / file)
    tag = get_reference(name)
    arguments = [
        *("build", "--file", str(recipes / name / "Dockerfile"), "--tag", tag),
        *("--label", f"{LABEL}={name}"),
        *(["--build-arg", f"BASE={base}"] if base else []),
        *(["--network", network] if network else []),
        str(folder),
    ]
    last: list[str] = []
    with subprocess.Popen(
        [containers.program, *arguments],
        env=dict(containers.env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="backslashreplace",
    ) as building:
        assert building.stdout is not None
        for line in building.stdout:
            told(line.rstrip())
            last = [*last[-19:], line.rstrip()]
    if building.returncode != 0:
        raise SandboxError(
            f"image `{tag}` could not be built: {_summarize_output(last)}",
            hint="Debian packages and the base come through the engine's network; see `--network`, `--base`",
        )
    return tag


def _summarize_output(lines: Iterable[str]) -> str:
    told = [line for line in lines if line.strip()]
    return " / ".join(told[-3:])[-500:]


def _compile_seccomp(machine: str) -> bytes:
    """Return the list of system calls that programs are not given, beyond the engine's own.

    It is for one kind of machine: for another there is none.

    Raises:
        SandboxError: libseccomp, which compiles it, is not installed.
    """
    return seccomp.compile_filter() if machine == os.uname().machine else b""


def _find_recipes() -> Path:
    """Return the folder of the Dockerfiles: beside this module when installed, else in the source tree."""
    installed = Path(__file__).parents[1] / "docker"
    return installed if installed.is_dir() else Path(__file__).parents[4] / "docker" / "sandbox"


def _find_machine(containers: ContainerEngine) -> str:
    form = "{{.Server.Arch}}" if containers.name == "docker" else "{{.OsArch}}"
    told = containers.call("version", "--format", form, timeout=30).rpartition("/")[2]
    return _MACHINES.get(told) or _MACHINES.get(os.uname().machine, "x86_64")


def fetch_kakite(folder: Path, machine: str) -> None:
    """Put Kakite as it is installed here, all that it needs, and pip, into a folder, as wheels.

    Raises:
        SandboxError: pip is not there or cannot fetch them.
    """
    folder.mkdir(parents=True)
    wheel = pack_kakite(folder)
    constraints = folder.parent / "constraints.txt"
    constraints.write_text(
        "\n".join(sorted(f"{found.name}=={found.version}" for found in _iter_installed())), encoding="utf-8"
    )
    tags = [f"manylinux_2_{minor}_{machine}" for minor in range(17, _GLIBC + 1)]
    platforms = [part for tag in (*tags, f"manylinux2014_{machine}") for part in ("--platform", tag)]
    command = [
        *(*_find_pip(), "download", "--quiet", "--disable-pip-version-check", "--dest", str(folder)),
        *("--only-binary", ":all:", "--python-version", _PYTHON, "--implementation", "cp", *platforms),
        *("--constraint", str(constraints), str(wheel), "pip"),
    ]
    done = subprocess.run(command, capture_output=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        words = [line for line in done.stderr.decode(errors="replace").splitlines() if "ERROR" in line]
        raise SandboxError(
            f"pip could not fetch what Kakite needs: {words[-1] if words else 'it gave no reason'}",
            hint="check whether `pip download pydantic` works for you",
        )
    constraints.unlink()


def _find_pip() -> list[str]:
    own = [sys.executable, "-m", "pip"]
    if importlib.util.find_spec("pip"):
        return own
    found = shutil.which("pip3") or shutil.which("pip")
    if found is None:
        raise SandboxError(
            "images need pip, which was not found", hint="install it: `apt install python3-pip`"
        )
    return [found]


def _iter_installed() -> Iterable[importlib.metadata.Distribution]:
    for found in importlib.metadata.distributions():
        if found.name.lower() not in {"kakite", "pip"}:
            yield found


def pack_kakite(folder: Path) -> Path:
    """Write the Kakite that is running as a wheel; the same files give the same bytes."""
    package = Path(kakite.__file__).parent
    about = f"kakite-{__version__}.dist-info"
    files = {
        file.relative_to(package.parent).as_posix(): file.read_bytes()
        for file in sorted(package.rglob("*"))
        if file.is_file() and "__pycache__" not in file.parts and not _is_recipe(file, package)
    }
    files[f"{about}/METADATA"] = (
        importlib.metadata.distribution("kakite").read_text("METADATA") or ""
    ).encode()
    files[f"{about}/WHEEL"] = (
        b"Wheel-Version: 1.0\nGenerator: kakite\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    files[f"{about}/entry_points.txt"] = b"[console_scripts]\nkakite = kakite.__main__:main\n"
    record = [f"{name},sha256={_hash(data)},{len(data)}" for name, data in files.items()]
    files[f"{about}/RECORD"] = "\n".join([*record, f"{about}/RECORD,,", ""]).encode()
    wheel = folder / f"kakite-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, _LONG_AGO)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, data)
    return wheel


def _is_recipe(file: Path, package: Path) -> bool:
    return file.is_relative_to(package / "sandbox" / "docker")


def _hash(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
