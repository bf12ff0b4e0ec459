"""Real container engines for the tests, with folders of their own, and images that are really built."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pytest

ROOT = Path(__file__).parent.parent
CACHE = ROOT / ".cache" / "engines"
SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
BASE = "kakite-test-base:bookworm"
"""Debian, made by debootstrap: no registry is needed."""
PACKAGES = "git,ca-certificates,python3-minimal"
_NEEDLESS = (
    "var/cache/apt/*",
    "var/lib/apt/lists/*",
    "usr/share/locale/*",
    "usr/share/doc/*",
    "usr/share/man/*",
)
GATEWAY = "10.213.77.1"
"""What containers of a network of their own reach this machine by."""
NOWHERE = "unix:///nonexistent/engine.sock"
_START = 300  # s
_DEBIAN = re.compile(r"^(?:URIs:|deb(?: \[[^\]]*\])?) +(https?://\S+/debian/?)(?:\s|$)", re.MULTILINE)
_END = 60  # s


@dataclass(frozen=True)
class Engine:
    """An engine that runs."""

    name: str
    environ: Mapping[str, str]
    """How Kakite finds it and no other."""

    def __call__(self, *arguments: str, timeout: float = 600, stdin: IO[bytes] | None = None) -> str:
        done = subprocess.run(
            [f"/usr/bin/{self.name}", *arguments],
            env=dict(self.environ),
            capture_output=True,
            encoding="utf-8",
            timeout=timeout,
            check=False,
            stdin=stdin or subprocess.DEVNULL,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def ours(self) -> list[str]:
        """Return the names of all containers and volumes."""
        containers = self("ps", "--all", "--format", "{{.Names}}").split()
        return containers + self("volume", "ls", "--format", "{{.Name}}").split()


def _need(*programs: str) -> None:
    missing = [name for name in programs if not shutil.which(name, path=SYSTEM_PATH)]
    if missing:
        pytest.skip(
            f"no engine: {', '.join(missing)} not installed (`apt install docker.io debootstrap podman`)"
        )
    if os.geteuid() != 0:
        pytest.skip("no engine: only root can start one")


def base_system() -> Path:
    """Return an archive with the files of a small Debian 12, made once and kept in the cache."""
    archive = CACHE / "bookworm.tar"
    if archive.exists():
        return archive
    _need("debootstrap")
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="kakite-base-", dir="/var/tmp") as folder:
        make = ("debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", folder, _mirror())
        environ = {"PATH": SYSTEM_PATH, "HOME": folder, "LANG": "C.UTF-8"}
        made = subprocess.run(make, env=environ, capture_output=True, timeout=1200, check=False)
        assert made.returncode == 0, made.stdout.decode()[-2000:]
        part = archive.with_suffix(".part")
        without = [f"--exclude=./{each}" for each in _NEEDLESS]
        subprocess.run(["tar", "-C", folder, *without, "-cf", str(part), "."], check=True, timeout=300)
        part.rename(archive)
    return archive


def _mirror() -> str:
    """Return the mirror of Debian that this machine itself installs packages from."""
    listed = ("apt-get", "indextargets", "--format", "$(REPO_URI)", "Codename: bookworm", "Origin: Debian")
    told = subprocess.run(listed, capture_output=True, encoding="utf-8", timeout=60, check=False).stdout
    if told.split():
        return told.split()[0]
    for file in (*Path("/etc/apt/sources.list.d").glob("*"), Path("/etc/apt/sources.list")):
        if file.is_file() and (found := _DEBIAN.search(file.read_text(encoding="utf-8"))):
            return found[1]
    pytest.skip("no engine: apt names no mirror of Debian to make the base image from")


@contextmanager
def docker_engine() -> Generator[Engine]:
    """Run a Docker engine with the base image; it is stopped, and all that it kept removed, at the end."""
    _need("docker", "dockerd", "containerd", "runc")
    base = base_system()
    with tempfile.TemporaryDirectory(prefix="kkt-", dir="/var/tmp", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        address = f"unix://{folder}/docker.sock"
        engine = Engine("docker", {"PATH": SYSTEM_PATH, "HOME": name, "DOCKER_HOST": address})
        with _daemon(folder, address):
            with base.open("rb") as archive:
                engine("import", "-", BASE, stdin=archive)
            yield engine


@contextmanager
def _daemon(folder: Path, address: str) -> Generator[None]:
    command = [
        *("dockerd", "--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec", "--host", address),
        *("--pidfile", f"{folder}/pid", "--bridge", "none", "--iptables=false", "--ip-forward=false"),
        # One network can be made, whose gateway is this machine.
        *("--host-gateway-ip", GATEWAY, "--default-address-pool", f"base={GATEWAY}/24,size=24"),
    ]
    environ = {"PATH": SYSTEM_PATH, "HOME": str(folder)}
    with subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, start_new_session=True) as daemon:
        said = _Listener(daemon)
        try:
            if not said.ready.wait(_START) or daemon.poll() is not None:
                (pytest.fail if os.environ.get("CI") else pytest.skip)(
                    f"no engine: dockerd does not run here: {said.last}"
                )
            yield
        finally:
            daemon.terminate()
            try:
                daemon.wait(_END)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
            # It leaves the network namespace of its containers behind, as a mount.
            mounted = [line.split()[1] for line in Path("/proc/mounts").read_text("utf-8").splitlines()]
            for path in (path for path in reversed(mounted) if path.startswith(f"{folder}/")):
                subprocess.run(["umount", path], check=False, capture_output=True, timeout=60)


class _Listener:
    """Reads what the daemon says, to its end."""

    def __init__(self, daemon: subprocess.Popen[bytes]) -> None:
        self.ready = threading.Event()
        self.last = ""
        self._daemon = daemon
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._daemon.stderr is not None
        for line in self._daemon.stderr:
            self.last = line.decode(errors="replace").strip()
            if "API listen on" in self.last:
                self.ready.set()
        self.ready.set()


@contextmanager
def podman_engine(docker: Engine, image: str) -> Generator[Engine]:
    """Let Podman keep its things in a folder of its own, and give it the image."""
    _need("podman", "runc", "conmon")
    with tempfile.TemporaryDirectory(prefix="kkp-", dir="/var/tmp", ignore_cleanup_errors=True) as name:
        storage, settings = Path(name, "storage.conf"), Path(name, "containers.conf")
        storage.write_text(
            f'[storage]\ndriver = "overlay"\ngraphroot = "{name}/root"\nrunroot = "{name}/run"\n',
            encoding="utf-8",
        )
        # crun refuses mixed cgroups; limits are not raised where that is refused.
        settings.write_text(
            '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]\n'
            '[engine]\nruntime = "runc"\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n',
            encoding="utf-8",
        )
        found = {"CONTAINERS_STORAGE_CONF": str(storage), "CONTAINERS_CONF": str(settings)}
        engine = Engine("podman", {"PATH": SYSTEM_PATH, "HOME": name, "DOCKER_HOST": NOWHERE, **found})
        archive = Path(name, "image.tar")
        docker("save", "--output", str(archive), image)
        engine("load", "--input", str(archive))
        archive.unlink()
        try:
            yield engine
        finally:
            engine("rm", "--all", "--force")


def build_image(engine: Engine, name: str, base: str, home: Path) -> str:
    """Build one of Kakite's images with the program, as a person does; return the engine's name."""
    # The settings of pip that this machine has count; it is not the person's home that they are in.
    pip = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    path = f"{SYSTEM_PATH}:{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, "-m", "kakite", "sandbox", "build", name, "--base", base, "--network", "host"],
        env={**engine.environ, **pip, "PATH": path, "HOME": str(home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip()


def find_archive() -> Path:
    """Return where the base image is kept that is built of exactly these sources; it need not be there."""
    digest = hashlib.sha256(base_system().stat().st_mtime_ns.to_bytes(8))
    sources = [
        *(ROOT / "src").rglob("*"),
        *(ROOT / "docker" / "sandbox").rglob("*"),
        ROOT / "requirements.lock",
    ]
    for file in sorted(sources):
        if file.is_file() and "__pycache__" not in file.parts:
            digest.update(f"{file.relative_to(ROOT)}\0{file.stat().st_size}\0".encode() + file.read_bytes())
    return CACHE / f"base-{digest.hexdigest()[:16]}.tar"


def keep_image(engine: Engine, image: str) -> None:
    """Let the tests load an image that was just built, in place of the one that was kept before."""
    for old in CACHE.glob("base-*.tar"):
        old.unlink()
    archive = find_archive()
    part = archive.with_suffix(".part")
    engine("save", "--output", str(part), image)
    part.rename(archive)


def load_base_image(engine: Engine, home: Path) -> None:
    """Load the image that ``python -m tests.engines`` built of these sources; where it did not, build it."""
    archive = find_archive()
    if archive.exists():
        engine("load", "--input", str(archive))
    else:
        build_image(engine, "base", BASE, home)


def import_tiny_image(engine: Engine, name: str, folder: Path, programs: tuple[str, ...]) -> str:
    """Make an image of these programs of this machine and nothing else: no Debian, no Python, no git.

    ``folder`` holds further files of it. Return its name.
    """
    for program in programs:
        path = shutil.which(program, path=SYSTEM_PATH)
        assert path, program
        needed = subprocess.run(["ldd", path], capture_output=True, encoding="utf-8", check=False).stdout
        for file in (path, *re.findall(r"/\S+", needed)):
            target = folder / (f"bin/{program}" if file == path else file.lstrip("/"))
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)
    for place in ("etc", "root", "tmp"):
        (folder / place).mkdir(exist_ok=True)
    (folder / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\n", encoding="utf-8")
    with tempfile.TemporaryFile() as archive:
        tar = ("tar", "-C", str(folder), "--owner=0", "--group=0", "-c", ".")
        subprocess.run(tar, stdout=archive, check=True, timeout=60)
        archive.seek(0)
        engine("import", "-", name, stdin=archive)
    return name


if __name__ == "__main__":
    # What `.ci/run` does first: the image is built before any test runs, once, and a cause is told plainly.
    began = time.monotonic()
    try:
        with docker_engine() as engine, tempfile.TemporaryDirectory() as home:
            version, driver = (
                engine(*each)
                for each in (("version", "-f", "{{.Server.Version}}"), ("info", "-f", "{{.Driver}}"))
            )
            image = build_image(engine, "base", BASE, Path(home))
            told = f"Docker {version} on {driver}: {image} built after {time.monotonic() - began:.0f} s\n"
            keep_image(engine, image)
    except pytest.skip.Exception as absent:
        told = f"NO TEST OF CONTAINERS RUNS: {absent}\n"
    sys.stdout.write(told)
