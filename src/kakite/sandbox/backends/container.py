"""Isolates by a container engine: one container per task, whose first process starts the commands in it.

The container's first process is ours (``inside/init.py``), and its standard streams are the control channel:
they carry the host's services, and programs with all that they read and write. When the channel ends, the
container ends. Only a server over pipes of its own is started by the engine. Nothing of the host is mounted
but the task's own folders; where the engine is on another machine not even those.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import re
import resource
import secrets
import weakref
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kakite import __version__
from kakite.processes import CompletedProcess, ProcessError, ProcessSpec, build_base_environment, complete
from kakite.sandbox.backends import engine, images
from kakite.sandbox.base import OUTPUT_LIMIT, SandboxError, build_kakite_argv, resolve_cwd
from kakite.sandbox.container import remote_engine
from kakite.sandbox.container.control_channel import (
    ChannelClosedError,
    ControlChannel,
    RemoteProcess,
    build_start_order,
)
from kakite.sandbox.disk_limits import DiskUsage, list_namespace_pids, measure, measure_deleted
from kakite.sandbox.egress.setup import (
    add_proxy_service,
    build_network_environment,
    open_network,
    put_trust_store,
)
from kakite.sandbox.files import task_folder
from kakite.sandbox.files.project_folder import (
    ENVIRONMENT,
    ProjectFolder,
    ProjectMount,
    build_not_writable_error,
)
from kakite.sandbox.files.task_folder import TaskFolder
from kakite.sandbox.inside import frames
from kakite.sandbox.services import check_names
from kakite.workspace import get_state_path

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

    from kakite.processes import Limit, OnOutput
    from kakite.sandbox.spec import Network, ResourceLimits, SandboxSpec

PROJECT = "/workspace/project"
HOME = "/workspace/home"
CACHE = "/workspace/cache"
PYTHON = f"{images.KAKITE}/bin/python"
_INSIDE = f"{images.KAKITE}/package/sandbox/inside"
_START = 120.0
"""Seconds in which an engine has to start a container."""
_CALL = 60.0
_LOOK = 2.0
"""Seconds between two looks at how much the task's folders hold."""
_FROM_HOST = ("TERM", "TZ")
_PROXIES = ("http_proxy", "https_proxy", "ftp_proxy", "no_proxy", "all_proxy")
_TEMPORARY = 1 << 30
_USERS_PROCESSES = 16384
"""Of all containers of one user, where podman has to be told a number; each has its own limit besides."""
_SHARED = 64 << 20
_SERVICES = 4 << 20
_FILE = 8192
"""Bytes of a folder in memory for which it may hold one file: an empty one costs the kernel a thousand."""
_TMPFS = "rw,nosuid,nodev"


@dataclass(frozen=True, slots=True)
class _RunningContainer:
    """A container that runs."""

    name: str
    containers: engine.ContainerEngine
    line: ControlChannel


class ContainerSandbox:
    """Runs programs in one container, which is there from ``prepare`` to ``destroy``."""

    kind = "container"
    isolates = True
    project = PROJECT
    services = "/run/kakite"
    kakite = build_kakite_argv(PYTHON)

    def __init__(
        self,
        folder: Path,
        environ: Mapping[str, str],
        terms: SandboxSpec,
        image: str = images.DEFAULT,
        *,
        project: Path | None = None,
    ) -> None:
        self._folder = TaskFolder(folder.absolute())
        self._project = ProjectFolder(project, self._folder.path, environ) if project else None
        """The person's own, never given to another user."""
        if self._project:
            weakref.finalize(self, self._project.close)
        self._environ = environ
        self._terms = add_proxy_service(terms, environ)
        self._image = images.get_reference(image)
        kept = build_base_environment(environ, HOME)
        self._env = {name: kept[name] for name in ("HOME", "KAKITE_RUN", *_FROM_HOST) if name in kept} | {
            "LANG": "C.UTF-8",
            "TMPDIR": "/tmp",  # noqa: S108 - a path inside
            "XDG_CACHE_HOME": CACHE,
            **(ENVIRONMENT if project else {}),
        }
        self._running: _RunningContainer | None = None
        self._mounted: tuple[ProjectMount, ...] = ()
        self._watcher: asyncio.Task[None] | None = None
        self._full: Limit = ""

    @property
    def notes(self) -> tuple[str, ...]:
        """What the person should know of their own folder in it."""
        return self._project.notes if self._project else ()

    @property
    def sealed(self) -> tuple[str, ...]:
        """The paths of the person's own folder that programs in it can only read."""
        return self._project.sealed if self._project else ()

    async def prepare(self) -> None:
        """Make the task's folders, remove what dead owners left, and start the container.

        Raises:
            UsageError: a service has a name that is none, code ``bad_service``.
            SandboxError: there is no engine, no image, or no Kakite in the image; or programs may not work in
                the person's folder, code ``project_unfit``, or not there, code ``project_elsewhere``.
        """
        if self._running and not self._running.line.lost:
            return
        check_names(self._terms.services)
        containers = await asyncio.to_thread(engine.find, self._environ)
        if containers.remote:
            self._must_be_ours(containers)
            await asyncio.to_thread(remote_engine.repair_folders, self._get_folders().values())
        self._folder.make()
        await asyncio.to_thread(put_trust_store, self._terms, self._folder.home)
        if self._project:
            await asyncio.to_thread(self._open_project, self._project)
        reaping = asyncio.create_task(asyncio.to_thread(reap, containers))
        try:
            there = containers.remote and await self._look_for_work(containers, reaping)
            self._running = await self._start(containers)
        finally:
            with contextlib.suppress(SandboxError):
                await reaping
        if containers.remote and not there:
            await self._upload(self._running)
        if self._project:
            await self._must_be_protected(self._project)
        self._watcher = asyncio.create_task(self._watch(), name="disk of a container")

    def _must_be_ours(self, containers: engine.ContainerEngine) -> None:
        if self._project:
            raise SandboxError(
                f"the engine of `{containers.name}` is on another machine, without `{self._project.path}`",
                hint="use an engine on this machine (see `docker context ls`), or `--sandbox bubblewrap`",
                code="project_elsewhere",
            )

    def _open_project(self, project: ProjectFolder) -> None:
        home = Path(self._environ.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir)
        project.open((home, get_state_path(self._environ), self._folder.path))

    async def _must_be_protected(self, project: ProjectFolder) -> None:
        """Make sure, before any program begins, that the engine has mounted what we saw."""
        mounts = [mount for mount in self._mounted if mount.identity]
        script = 'cat /proc/self/mountinfo && echo && stat -c %d:%i -- "$@"'
        paths = (PROJECT, *(f"{PROJECT}/{mount.path}" for mount in mounts))
        done = await self.exec(("sh", "-c", script, "sh", *paths), timeout=_CALL, network="off")
        table, _, told = done.stdout.decode(errors="surrogateescape").rpartition("\n\n")
        if done.exit_code != 0 or not _is_protected(project, mounts, table, told.split()):
            await self.destroy()
            raise SandboxError(
                f"the engine did not mount what lies in `{project.path}` as it was told to",
                hint="start again; if it stays so, use `--sandbox bubblewrap`",
            )

    def build_process_spec(
        self,
        argv: tuple[str, ...],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        network: Network | None = None,
    ) -> ProcessSpec:
        """Tell how to start a program inside. To be started once.

        Raises:
            SandboxError: ``prepare`` has not been awaited, or the container is gone.
        """
        there = self._get_running()
        run_id = secrets.token_hex(16)
        added = self._build_env(env, network)
        given = [part for name, value in added.items() for part in ("--env", f"{name}={value}")]
        supervised = (PYTHON, "-I", "-S", f"{_INSIDE}/launcher.py", run_id, resolve_cwd(PROJECT, cwd))
        started = there.containers.build_process_spec(
            *("exec", "--interactive", *given, there.name),
            *(*supervised, added.get("LC_CTYPE", ""), *argv),
        )
        return replace(started, end=partial(there.line.end, run_id))

    def _build_env(self, env: Mapping[str, str] | None, network: Network | None) -> dict[str, str]:
        """Return what a program gets besides the container's own environment."""
        network = network or self._terms.network
        return {**build_network_environment(self._terms, network, HOME), **(env or {})}

    def allow_network(self) -> AbstractContextManager[None]:
        """Let what was launched reach what the spec's network allows, for as long as this is entered."""
        return open_network(self._terms, self._terms.network)

    def _get_running(self) -> _RunningContainer:
        if self._running is None:
            raise SandboxError("the sandbox was not prepared")
        if self._running.line.lost:
            raise SandboxError("the container is gone", hint="read the engine's log, then start again")
        return self._running

    async def exec(  # noqa: PLR0913 - what launch takes and what processes.run takes
        self,
        argv: tuple[str, ...],
        *,
        stdin: bytes = b"",
        timeout: float | None,  # noqa: ASYNC109 - as processes.run
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        network: Network | None = None,
        limit: int = OUTPUT_LIMIT,
        on_output: OnOutput | None = None,
    ) -> CompletedProcess:
        """Run a program inside to its end.

        Raises:
            SandboxError: the engine failed, the container is gone, or the folder is not there.
        """
        there = self._get_running()
        what = build_start_order(
            argv, self._build_env(env, network), resolve_cwd(PROJECT, cwd), with_input=bool(stdin)
        )
        program = there.line.create_process(what)
        try:
            with open_network(self._terms, network or self._terms.network):
                done = await complete(
                    lambda: program, stdin=stdin, timeout=timeout, limit=limit, on_output=on_output
                )
            return self._interpret_result(done, program)
        except ChannelClosedError as error:
            raise SandboxError("the container ended while a program ran in it") from error
        finally:
            there.line.forget(program)

    def _interpret_result(self, done: CompletedProcess, program: RemoteProcess) -> CompletedProcess:
        """Tell what kept a program from beginning or ending, and limits that were reached."""
        if not program.ended.done():
            raise SandboxError("a program in the container cannot be ended")
        ended = program.ended.result()
        if ended.why:
            raise SandboxError(f"a program cannot start in {ended.why}", code="folder_missing")
        reached = self._full or (ended.limits[0] if ended.limits else "")
        self._full = ""
        return replace(done, limit=reached or done.limit)

    async def destroy(self) -> None:
        """End the container and all in it; where the engine is elsewhere, bring the work back first."""
        running, self._running = self._running, None
        if self._watcher:
            self._watcher.cancel()
            await asyncio.gather(self._watcher, return_exceptions=True)
        if running:
            try:
                if running.containers.remote and not running.line.lost:
                    await self._download(running)
            finally:
                await _end(running)
        if self._project:
            await asyncio.to_thread(self._project.close)
        await self._folder.empty_temporary()

    # How it starts

    async def _start(self, containers: engine.ContainerEngine) -> _RunningContainer:
        # A rootless Docker cannot be told from outside: its root is the person, who owns the folders.
        running, hello = await self._open(containers, self._choose_user(containers))
        if not hello["writable"] and os.geteuid() != 0 and containers.name == "docker":
            await _end(running)
            running, hello = await self._open(containers, "0:0")
        if not hello["writable"]:
            await _end(running)
            if self._project:
                raise build_not_writable_error(self._project.path)
            raise SandboxError(f"programs in the container cannot write to `{self._folder.project}`")
        return running

    def _choose_user(self, containers: engine.ContainerEngine) -> str:
        if containers.remote:
            return images.USER
        if os.geteuid() != 0:
            return f"{os.getuid()}:{os.getgid()}"
        user = self._project.get_owner() if self._project else images.USER
        uid, gid = map(int, user.split(":"))
        for folder in (self._folder.project, self._folder.home):
            task_folder.give_ownership(folder, uid, gid)
        return user

    async def _open(
        self, containers: engine.ContainerEngine, user: str
    ) -> tuple[_RunningContainer, dict[str, object]]:
        name = engine.get_current_owner().make_container_name()
        arguments = await asyncio.to_thread(self._build_run_args, containers, name, user)
        try:
            line = await ControlChannel.open(containers.build_process_spec(*arguments), self._terms.services)
        except ProcessError as error:
            raise SandboxError(error.message, hint=error.hint) from error
        running = _RunningContainer(name, containers, line)
        try:
            async with asyncio.timeout(_START):
                hello = await line.wait_for_hello()
        except ChannelClosedError:
            await line.close()
            raise images.build_start_error(containers.name, self._image, line.get_stderr()) from None
        except BaseException as error:
            await _end(running)
            if isinstance(error, TimeoutError):
                raise SandboxError(f"`{containers.name}` started no container in {_START:g} s") from error
            raise
        if why := _find_image_problem(hello):
            await _end(running)
            raise images.build_unfit_error(self._image, why)
        return running, hello

    def _build_run_args(self, containers: engine.ContainerEngine, name: str, user: str) -> tuple[str, ...]:
        env = [part for name, value in self._env.items() for part in ("--env", f"{name}={value}")]
        rootless = ("--userns", "keep-id") if containers.name == "podman" and os.geteuid() != 0 else ()
        return (
            *("run", "--rm", "--interactive", "--pull", "never", "--name", name),
            *("--label", f"{engine.TASK}={engine.compute_digest(str(self._folder.path))}"),
            *("--label", f"{engine.OWNER}={engine.get_user_label()}"),
            *("--log-driver", "none", "--hostname", "sandbox", "--network", "none"),
            *("--user", user, *rootless, "--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
            *("--read-only", "--workdir", "/", "--entrypoint", PYTHON),
            *build_resource_args(self._terms.limits, containers.name),
            *_build_tmpfs_args(self._terms.limits.memory, containers.name, user),
            *build_no_proxy_args(containers.name),
            *env,
            *self._build_mount_args(containers, user),
            *(self._image, "-I", "-S", f"{_INSIDE}/init.py", PROJECT, *self._terms.services),
        )

    def _build_mount_args(self, containers: engine.ContainerEngine, user: str) -> tuple[str, ...]:
        if containers.remote:
            copies = self._get_volumes(containers)
            places = [
                _build_volume_mount(containers, name, target, engine.WORK)
                for name, target in ((copies.project, PROJECT), (copies.home, HOME))
            ]
        else:
            places = [
                *self._build_project_mounts(),
                format_mount("bind", str(self._folder.home), HOME),
            ]
        if not containers.remote and (
            (containers.name == "docker" and os.geteuid() != 0) or (os.geteuid() == 0 and user != images.USER)
        ):
            users = task_folder.write_passwd(self._folder.path / "passwd", user, HOME)
            places.append(f"{format_mount('bind', str(users), '/etc/passwd')},readonly")
        cache = f"kakite-cache-{engine.compute_digest(f'{engine.get_user_label()} {self._terms.cache}')}"
        places.append(
            _build_volume_mount(containers, cache, CACHE, engine.CACHE)
            if self._terms.cache
            else f"type=volume,dst={CACHE}"  # without a name it goes with the container
        )
        return tuple(part for place in places for part in ("--mount", place))

    def _build_project_mounts(self) -> list[str]:
        if not self._project:
            return [format_mount("bind", str(self._folder.project), PROJECT)]
        self._mounted = self._project.build_mounts()
        places = [format_mount("bind", str(self._project.path), PROJECT)]
        for mount in self._mounted:
            if mount.identity:
                bound = format_mount("bind", str(mount.source), f"{PROJECT}/{mount.path}")
                places.append(f"{bound},readonly" if mount.sealed else bound)
        return [
            *places,
            *(f"{format_mount('bind', str(path), str(path))},readonly" for path in self._project.gitdirs),
        ]

    # Where the engine is elsewhere

    def _get_folders(self) -> dict[str, Path]:
        return {PROJECT: self._folder.project, HOME: self._folder.home}

    def _get_volumes(self, containers: engine.ContainerEngine) -> remote_engine.TaskVolumes:
        return remote_engine.name_task_volumes(containers, self._folder.path)

    async def _look_for_work(
        self, containers: engine.ContainerEngine, reaping: asyncio.Task[list[str]]
    ) -> bool:
        with contextlib.suppress(SandboxError):
            await reaping  # what dead owners left behind uses the volumes
        return await asyncio.to_thread(remote_engine.has_work, self._get_volumes(containers))

    async def _upload(self, running: _RunningContainer) -> None:
        try:
            await remote_engine.upload(self, self._get_folders(), self._get_volumes(running.containers))
        except BaseException:
            self._running = None  # or the part that arrived would be brought back
            await _end(running)
            raise

    async def _download(self, running: _RunningContainer) -> None:
        copies = self._get_volumes(running.containers)
        self._running = running
        try:
            await remote_engine.download(self, self._get_folders(), copies, self._terms.limits.disk)
        finally:
            self._running = None
        await _end(running)
        await asyncio.to_thread(remote_engine.delete_volumes, copies)

    # The disk

    async def _watch(self) -> None:
        """End what runs when the task's folders hold more than they may, the second time all of it."""
        running = self._get_running()
        first = await asyncio.to_thread(_find_init_pid, running)
        cache = await asyncio.to_thread(_find_cache, running)
        # What earlier tasks left in the cache is nobody's fault: whoever deletes must be able to.
        over = cache is not None and _find_exceeded_limit(
            await asyncio.to_thread(measure, cache), self._terms.limits
        )
        before = (await asyncio.to_thread(self._measure_usage, first, cache)).size if over else 0
        while not running.containers.remote and not running.line.lost:
            await asyncio.sleep(_LOOK)
            found = await asyncio.to_thread(self._measure_usage, first, cache)
            if limit := _find_exceeded_limit(found, self._terms.limits):
                if not before or found.size > before:
                    self._full = limit
                    running.line.kill_processes(all_of_it=before > 0)
                before = found.size
            else:
                before = 0

    def _measure_usage(self, first: int, cache: Path | None) -> DiskUsage:
        folders = [self._folder.project, self._folder.home, *([cache] if cache else ())]
        devices = {folder.stat().st_dev for folder in folders}
        without = PROJECT if self._project else ""
        nameless = measure_deleted(list_namespace_pids(first), *devices, without=without)
        return sum(map(measure, folders), DiskUsage(size=nameless, files=0))


def _find_exceeded_limit(found: DiskUsage, limits: ResourceLimits) -> Limit:
    """Return the limit that is passed, if any."""
    if found.size > limits.disk:
        return "disk"
    return "files" if found.files > limits.files or found.too_deep else ""


def _is_protected(project: ProjectFolder, mounts: list[ProjectMount], table: str, told: list[str]) -> bool:
    """Tell whether these are mounted, by the kernel's table of mounts and by what was found there."""
    rows = [row.split(" ") for row in table.splitlines()]
    options = {_unescape_path(row[4]): row[5].split(",") for row in rows if len(row) > 5}
    mounted = all(
        (found := options.get(f"{PROJECT}/{mount.path}")) and ("ro" in found or not mount.sealed)
        for mount in mounts
    )
    top, *others = told
    if top != project.get_identity():
        return mounted  # an engine in a virtual machine numbers files by itself
    return mounted and others == [mount.identity for mount in mounts]


def _unescape_path(path: str) -> str:
    """Return a path as it is, without the octal numbers of the table."""
    return re.sub(r"\\([0-7]{3})", lambda number: chr(int(number[1], 8)), path)


def _find_cache(running: _RunningContainer) -> Path | None:
    """Return where the cache lies on this machine; None where we may not look, or it is not here."""
    mounts = f'{{{{range .Mounts}}}}{{{{if eq .Destination "{CACHE}"}}}}{{{{.Source}}}}{{{{end}}}}{{{{end}}}}'
    with contextlib.suppress(SandboxError, OSError):
        told = Path(running.containers.call("inspect", "--format", mounts, running.name, timeout=_CALL))
        return told if told.is_absolute() and told.is_dir() and os.access(told, os.R_OK | os.X_OK) else None
    return None


def _find_image_problem(hello: Mapping[str, object]) -> str:
    """Return what keeps an image from being used, by what its first process says; nothing if it fits."""
    if hello["version"] != frames.VERSION or hello.get("kakite") != __version__:
        return "its Kakite is of another version"
    if not hello.get("guarded"):
        return "its list of system calls is not there"
    return ""


async def _end(running: _RunningContainer) -> None:
    """End a container, and make sure that it is gone."""
    closed_by_itself = await running.line.close()
    if not closed_by_itself:
        await asyncio.to_thread(remove_containers, running.containers, [running.name])


def _find_init_pid(running: _RunningContainer) -> int:
    """Return the number that the container's first process has on this machine; 0 if it is not told."""
    with contextlib.suppress(SandboxError, ValueError):
        asked = ("inspect", "--format", "{{.State.Pid}}", running.name)
        return int(running.containers.call(*asked, timeout=_CALL))
    return 0


def reap(containers: engine.ContainerEngine) -> list[str]:
    """Remove the containers of this user whose owners are dead; return their names. Blocks.

    Raises:
        SandboxError: the engine does not answer.
    """
    mine = ("--filter", f"label={engine.OWNER}={engine.get_user_label()}")
    listed = containers.call("ps", "--all", *mine, "--format", "{{.Names}}", timeout=_CALL).split()
    dead = [name for name in listed if (owner := engine.parse_owner(name)) and not owner.is_alive()]
    if dead:
        remove_containers(containers, dead)
    return dead


def remove_containers(containers: engine.ContainerEngine, names: list[str]) -> None:
    """Remove containers of ours and their volumes, at once; those that are gone are no matter. Blocks."""
    at_once = ("--time", "0") if containers.name == "podman" else ()
    containers.ask("rm", "--force", "--volumes", *at_once, *names, timeout=_CALL)


def build_resource_args(limits: ResourceLimits, program: str) -> tuple[str, ...]:
    """Return the words of an engine for the limits of a container."""
    memory = str(limits.memory)
    ulimits = {"nofile": limits.open_files, "core": 0, "fsize": limits.disk}
    if program == "podman":  # it asks for more than it has itself unless it is told, and cannot get it
        ulimits["nofile"] = min(limits.open_files, task_folder.get_hard_limit(resource.RLIMIT_NOFILE))
        ulimits["nproc"] = min(_USERS_PROCESSES, task_folder.get_hard_limit(resource.RLIMIT_NPROC))
    return (
        *("--memory", memory, "--memory-swap", memory, "--pids-limit", str(limits.processes)),
        *(("--cpus", f"{limits.cpus:g}") if limits.cpus else ()),
        *(part for name, most in ulimits.items() for part in ("--ulimit", f"{name}={most}:{most}")),
    )


def _build_tmpfs_args(memory: int, program: str, user: str) -> tuple[str, ...]:
    """Mount what lies in memory: with all of it full, programs still have enough to delete something."""
    temporary, shared = min(_TEMPORARY, memory // 4), min(_SHARED, memory // 8)
    world = "mode=1777"
    uid, gid = user.split(":")
    ours = world if program == "podman" else f"mode=0755,uid={uid},gid={gid}"
    places = {
        "/tmp": f"exec,{world},{_format_tmpfs_size(temporary, program)}",  # noqa: S108 - a path inside
        "/var/tmp": f"exec,{world},{_format_tmpfs_size(temporary, program)}",  # noqa: S108
        "/dev/shm": f"noexec,{world},{_format_tmpfs_size(shared, program)}",  # noqa: S108
        "/run/kakite": f"noexec,{ours},{_format_tmpfs_size(_SERVICES, program)}",
    }
    return tuple(part for path, how in places.items() for part in ("--tmpfs", f"{path}:{_TMPFS},{how}"))


def _format_tmpfs_size(size: int, program: str) -> str:
    # Podman passes on neither owner nor number: half as many files as the machine has pages, there.
    return f"size={size}" if program == "podman" else f"size={size},nr_inodes={max(size // _FILE, 64)}"


def build_no_proxy_args(program: str) -> tuple[str, ...]:
    """Keep the proxies of the person's settings out, whose addresses may hold a password."""
    if program == "podman":
        return ("--http-proxy=false",)
    names = (*_PROXIES, *(name.upper() for name in _PROXIES))
    return tuple(part for name in names for part in ("--env", f"{name}="))


def _build_volume_mount(containers: engine.ContainerEngine, name: str, target: str, label: str) -> str:
    if containers.name == "docker":
        labels = f"volume-label={label}=1,volume-label={engine.OWNER}={engine.get_user_label()}"
        return f"{format_mount('volume', name, target)},{labels}"
    labels = ("--label", f"{label}=1", "--label", f"{engine.OWNER}={engine.get_user_label()}")
    containers.ask("volume", "create", *labels, name, timeout=_CALL)  # fails where it is there already
    return format_mount("volume", name, target)


def format_mount(kind: str, source: str, target: str) -> str:
    """Return the words of an engine for a mount."""
    return f"type={kind},{_quote(f'src={source}')},{_quote(f'dst={target}')}"


def _quote(field: str) -> str:
    return f'"{field.replace(chr(34), chr(34) * 2)}"' if {",", '"'} & {*field} else field
