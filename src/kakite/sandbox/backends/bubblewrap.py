"""Isolates by bubblewrap: namespaces of its own, the system read-only, everything else not there.

What programs inside see is built from nothing: the system's own folders, Kakite and its interpreter, all
read-only, and the task's three folders. No home, no ``/run``, no other run, no network but loopback, no
process of the host. ``docs/sandbox.md`` lists what this holds and what it does not.

bubblewrap and the first process report their status over a socket, because a command could find a file or a
pipe. A command can neither open the socket nor take back what was sent, and once the first process is there
bubblewrap reports nothing more.
"""

from __future__ import annotations

import asyncio
import errno
import os
import pwd
import re
import resource
import shutil
import signal
import socket
import sys
import weakref
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kakite.processes import (
    CompletedProcess,
    DelegatedSpawn,
    ProcessError,
    ProcessSpec,
    SpawnServer,
    SpawnServerConfig,
    SpawnServerError,
    build_base_environment,
    run,
    supervisor,
)
from kakite.processes.bytecode import find_bytecode
from kakite.sandbox.backends import bwrap_mounts, seccomp
from kakite.sandbox.backends.bwrap_mounts import MountView, PersonPaths, build_view
from kakite.sandbox.backends.cgroups import Cgroup, LimitEvents, make_group
from kakite.sandbox.base import OUTPUT_LIMIT, SandboxError, build_kakite_argv, resolve_cwd
from kakite.sandbox.disk_limits import DiskWatch, KillCounts
from kakite.sandbox.egress.proxy import SERVICE
from kakite.sandbox.egress.setup import (
    add_proxy_service,
    build_forward_argv,
    build_network_environment,
    open_network,
    put_trust_store,
)
from kakite.sandbox.files.project_folder import (
    ENVIRONMENT,
    ProjectFolder,
    build_not_writable_error,
)
from kakite.sandbox.files.task_folder import TaskFolder
from kakite.sandbox.services import ServiceSockets, check_names
from kakite.workspace import get_state_path

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from kakite.processes import Limit, OnOutput
    from kakite.sandbox.spec import Network, ResourceLimits, SandboxSpec


SAY_BEGUN = "echo begun >&2\n"
"""What the first process does first, in the words of a shell."""
_NO_PROCESS = ("bwrap: Creating new namespace failed: ", "bwrap: Can't fork ")
_NO_FORK = "Cannot fork"
"""What the first process says in the same case."""
_NOT_STARTED = 126
_FULL = b"not started: the programs of this task have as many processes as they may\n"
REFUSED = CompletedProcess(exit_code=_NOT_STARTED, stdout=b"", stderr=_FULL, duration=0.0, limit="processes")
"""How a command ends that is given no process."""
_VANISHED = ("bwrap: Can't mkdir /", "bwrap: Can't mkdir parents for /", "bwrap: Can't create file at /")
_MAX_TOLD = 4096  # bytes


def read_status(told: socket.socket) -> str:
    """Return what was said up to now."""
    try:
        return told.recv(_MAX_TOLD, socket.MSG_DONTWAIT).decode(errors="backslashreplace")
    except BlockingIOError:
        return ""


def is_mount_race(told: str) -> bool:
    """Tell whether something to hide went away between our look and bubblewrap's: nothing has run."""
    begins = told.startswith(_VANISHED)
    return begins and told.endswith("Read-only file system\n")


def classify_exit(done: CompletedProcess, told: str) -> CompletedProcess:
    """Tell what never began from what ended by itself.

    Once the first process has begun, bubblewrap has nothing to say any more.
    """
    if done.exit_code is not None and (_NO_FORK in told or told.startswith(_NO_PROCESS)):
        return replace(done, exit_code=_NOT_STARTED, stderr=_FULL, limit="processes")
    if done.exit_code != 1 or not told.startswith("bwrap: "):
        return done
    message = told.strip().removeprefix("bwrap: ")
    if message.startswith("Can't chdir to "):
        raise SandboxError(message, code="folder_missing")
    raise SandboxError(f"bubblewrap failed: {message}")


PROGRAM = "bwrap"
HOW_TO_GET = (
    "install bubblewrap 0.8 or newer (`apt install bubblewrap`), or use `--sandbox local`: no isolation"
)
_HOW_TO_ALLOW = (
    "this system forbids bubblewrap to make user namespaces; on Ubuntu 24.04 and later an AppArmor profile "
    "allows it (docs/sandbox.md shows one); or use `--sandbox local`: no isolation"
)
_FORBIDDEN = re.compile(r"namespace|uid map|RTM_NEWADDR")
"""What bubblewrap says of it; the last in a user namespace in which AppArmor forbids everything."""
_HOME = "/workspace/home"
_PROJECT = "/workspace/project"
_SERVICES = "/run/kakite"
_ISOLATION = (
    "--unshare-all",
    "--unshare-user",  # required, where --unshare-all only tries
    "--disable-userns",  # no namespaces within, in which the kernel would trust programs with more
    "--die-with-parent",
    "--as-pid-1",
    "--new-session",
    "--hostname",
    "sandbox",
    "--cap-drop",
    "ALL",
)
_OF_SHELLS = ("SHLVL", "_", "OLDPWD")
"""What some shells tell of themselves."""
_LOADED = ("LD_", "GLIBC_", "GCONV_", "LOCPATH", "MALLOC_", "NLSPATH", "LOCALDOMAIN", "RES", "HOSTALIASES")
"""Variables that would change bubblewrap itself, which runs outside: set by it, not inherited by it."""


_ENTER = """\
exec 8>&2
fail() { echo "bwrap: $1" >&2; exit 1; }
[ -r "$1" ] || fail 'the list of system calls is missing'
exec 9< "$1"
{ ulimit -c 0 && ulimit -f "$2" && ulimit -n "$3"; } 2> /dev/null || fail 'its programs cannot be limited'
[ "$4" = - ] || ulimit -d "$4" 2> /dev/null || fail 'its memory cannot be limited'
shift 4
while [ "$1" != -- ]; do
    { echo 0 > "$1"; } 2> /dev/null || fail 'its control group is gone'
    shift
done
shift
exec "$@"
"""
"""Takes on the limits and becomes bubblewrap, for a server: so that no program is there for a moment without
them. Commands are born with them, by a starter.
"""
_STDERR, _SECCOMP = 8, 9
"""Under which numbers the program's standard error waits and bubblewrap finds the list of system calls.

What bubblewrap and the first process say of a command is never mixed up with what the program says.
"""
_FIRST = """\
[ "$1" = - ] || ulimit -u "$1" 2> /dev/null || ulimit -p "$1"
shift
(exec "$@" 2>&8 8>&-)
code=$?
n=0
while [ $n -lt 10 ] && kill -0 -1 2> /dev/null; do
    /bin/sleep 0.05
    n=$((n + 1))
done
exit $code
"""
"""The first process inside: it starts the program, and takes care of what the program leaves, which may go on
for half a second.

bubblewrap would be that itself, but ends without waiting for it: where nobody else cares for the dead, as in
most containers, each command would leave one, and they count. The processes are limited from within: outside
the same limit would count all that the user has.
"""
_FIRST_OF_SERVER = """\
[ "$1" = - ] || ulimit -u "$1" 2> /dev/null || ulimit -p "$1"
shift
exec "$@" 2>&8 8>&-
"""
"""The same for a server: its pipes lead to the host, and must not be found at the first process.

That becomes the supervisor, which lets go of the pipes and cannot be reached into.
"""
_OF_SHELL = re.compile(r"(?:IFS|OPTIND|PPID|PS[124]|LINENO)=|(?![A-Za-z_][A-Za-z0-9_]*=)")
"""Variables that a shell would not pass on as they are."""
_GONE = b"ended: what starts the commands of this task was killed, and they with it\n"
_TRIES = 5


class BubblewrapSandbox:
    """Runs each program in namespaces of its own that end with it."""

    kind = "bubblewrap"
    isolates = True
    services = _SERVICES
    kakite = build_kakite_argv(sys.executable)

    def __init__(
        self, folder: Path, environ: Mapping[str, str], terms: SandboxSpec, *, project: Path | None = None
    ) -> None:
        check_names(terms.services)
        self._folder = TaskFolder(folder.resolve())
        self._project = ProjectFolder(project, self._folder.path, environ) if project else None
        if self._project:
            weakref.finalize(self, self._project.close)
        self._terms = add_proxy_service(terms, environ)
        self.project = str(self._project.path) if self._project and terms.at_own_path else _PROJECT
        self._env = build_base_environment(environ, _HOME) | {"TMPDIR": "/tmp"}  # noqa: S108 - a path inside
        if project:
            self._env |= ENVIRONMENT
        self._program = shutil.which(PROGRAM, path=environ.get("PATH")) or ""
        self._user_home = Path(environ.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir).resolve()
        self._state = get_state_path(environ).resolve()
        self._mounts: tuple[bwrap_mounts.Mount, ...] = ()
        self._listeners = ServiceSockets()
        self._held = _SandboxResources()

    @property
    def notes(self) -> tuple[str, ...]:
        """What the person should know of their own folder in it."""
        return self._project.notes if self._project else ()

    @property
    def sealed(self) -> tuple[str, ...]:
        """The paths of the person's own folder that programs in it can only read."""
        return self._project.sealed if self._project else ()

    async def prepare(self) -> None:
        """Make the task's folders, look what to show and to hide, and try it.

        Raises:
            SandboxError: bubblewrap is not installed, too old, or not allowed here; or the task's folders are
                another user's, code ``folder_not_yours``; or programs may not work in the person's folder,
                code ``project_unfit``.
        """
        if not self._program:
            raise SandboxError("`bwrap` was not found", hint=HOW_TO_GET, code="sandbox_missing")
        self._folder.make()
        await self._folder.take_ownership()
        self._folder.put_seccomp(seccomp.compile_filter())
        await asyncio.to_thread(put_trust_store, self._terms, self._folder.home)
        person = await asyncio.to_thread(self._open_project)
        self._mounts = bwrap_mounts.plan(
            self._folder, person, self._terms.limits, home=_HOME, project=self.project
        )
        await self._listeners.open(self._folder.services, self._terms.services)
        # Not a method of ours: what is held for us must not hold us.
        protect = self._project.build_mounts if self._project else tuple
        view = build_view(self._folder, self._mounts, empty=_SERVICES, protect=protect, project=self.project)
        await asyncio.to_thread(self._hold, view)
        if not await self._is_working():
            self._held.view = None  # no namespaces within others here: each command makes all of it itself
            await self._must_work()
        if self._project:
            await self._must_be_writable(self._project)

    def _open_project(self) -> PersonPaths:
        """Look what of the person's folder has to stay as it is."""
        if not self._project:
            return PersonPaths(
                home=self._user_home,
                state=self._state,
                project=self._folder.project,
                shown=self._terms.shown,
                mounts=self._terms.mounts,
            )
        self._project.open((self._user_home, self._state, self._folder.path))
        return PersonPaths(
            home=self._user_home,
            state=self._state,
            project=self._project.path,
            shown=(*self._project.gitdirs, *self._terms.shown),
            mounts=self._terms.mounts,
        )

    async def _must_be_writable(self, project: ProjectFolder) -> None:
        tried = await self.exec(("/bin/sh", "-c", "[ -w . ]"), timeout=20, network="off")
        if tried.exit_code != 0:
            raise build_not_writable_error(project.path)

    async def _is_working(self) -> bool:
        """Tell whether commands run in what is mounted once."""
        try:
            await self._must_work()
        except SandboxError:
            return False
        return True

    async def _must_work(self) -> None:
        try:
            tried = await self.exec(("/bin/sh", "-c", "exit 42"), timeout=20, network="off")
        except SandboxError as error:
            hint = _HOW_TO_ALLOW if _FORBIDDEN.search(error.message) else HOW_TO_GET
            raise SandboxError(error.message, hint=hint, code="sandbox_missing") from error
        if tried.exit_code != 42:
            raise SandboxError("a shell does not run in bubblewrap here", hint=HOW_TO_GET)

    def _hold(self, view: MountView) -> None:
        """Have a control group and a watch over the disk, once, and what starts commands in this view."""
        if self._held.watch is None:
            of_servers = ("--bind", str(self._folder.home), _HOME)
            marks = tuple(b"\0".join(map(os.fsencode, words)) for words in (of_servers, view.mark))
            watch = DiskWatch(
                folder=self._folder.path,
                limits=self._terms.limits,
                marks=marks,
                without=self.project if self._project else "",
            )
            group = make_group(self._terms.limits)
            limits = _build_rlimits(self._terms.limits, group)
            self._held = _SandboxResources(group=group, watch=watch, program=self._program, limits=limits)
            weakref.finalize(self, self._held.let_go)
            watch.start()
        self._held.view, self._held.failures = view, 0
        self._held.inside.retire()

    def build_process_spec(
        self,
        argv: tuple[str, ...],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        network: Network | None = None,
    ) -> ProcessSpec:
        """Tell how to start a program inside.

        Raises:
            SandboxError: ``prepare`` has not been awaited.
        """
        seen = self._iter_counter_args()
        network = network or self._terms.network
        mounts, guard = self._build_mount_args(network)
        launch = self._build_process_spec(
            argv,
            env=env,
            cwd=cwd,
            network=network,
            seen=(*seen, *mounts),
            first=self._build_init_argv(guard + _FIRST_OF_SERVER)
            + _build_supervisor_argv({**self._env, **(env or {})}),
        )
        return replace(launch, argv=(*self._build_limit_argv(), *launch.argv))

    def _build_process_spec(
        self,
        argv: tuple[str, ...],
        *,
        env: Mapping[str, str] | None,
        cwd: str | None,
        network: Network,
        seen: Iterable[str],
        first: Sequence[str],
    ) -> ProcessSpec:
        env = {**self._env, **build_network_environment(self._terms, network, _HOME), **(env or {})}
        loaded = {name: value for name, value in env.items() if name.startswith(_LOADED)}
        setenv = [part for name, value in loaded.items() for part in ("--setenv", name, value)]
        unset = [part for name in _OF_SHELLS if name not in env for part in ("--unsetenv", name)]
        chdir = ("--chdir", resolve_cwd(self.project, cwd))
        isolated = (self._program, *_ISOLATION, "--seccomp", str(_SECCOMP), *seen)
        with_environment = (*setenv, *unset, *chdir)
        return ProcessSpec(
            argv=(
                *(*isolated, *with_environment, "--"),
                *(
                    *first,
                    *_build_env_argv(env),
                    *self._build_network_argv(argv or ("",), network),
                ),
            ),
            env={name: value for name, value in env.items() if name not in loaded},
            cwd="/",
            contained=True,
        )

    def allow_network(self) -> AbstractContextManager[None]:
        """Let what was launched reach what the spec's network allows, for as long as this is entered."""
        return open_network(self._terms, self._terms.network)

    def _build_limit_argv(self) -> tuple[str, ...]:
        """Return the words before bubblewrap's that put it under the limits."""
        group, most = self._held.group, self._held.limits
        memory = str(most[resource.RLIMIT_DATA] // 1024) if resource.RLIMIT_DATA in most else "-"
        sizes = (str(most[resource.RLIMIT_FSIZE] // 512), str(most[resource.RLIMIT_NOFILE]), memory)
        entrances = group.entrances if group else ()
        return ("/bin/sh", "-c", _ENTER, "sh", str(self._folder.seccomp), *sizes, *entrances, "--")

    def _build_mount_args(self, network: Network) -> tuple[tuple[str, ...], str]:
        """Return the words that mount all that a program sees, and what makes sure of that first.

        Raises:
            SandboxError: ``prepare`` has not been awaited.
        """
        if not self._mounts:
            raise SandboxError("the sandbox was not prepared")
        there = (mount for mount in self._mounts if not bwrap_mounts.has_vanished(self._folder, mount))
        protected = self._project.build_mounts() if self._project else ()
        words = (
            *(*self._build_service_args(network), *(word for mount in there for word in mount)),
            *bwrap_mounts.build_project_words(protected, self.project),
        )
        return words, bwrap_mounts.build_project_guard(protected, self.project)

    def _build_view_args(self, view: MountView, network: Network) -> tuple[tuple[str, ...], str]:
        """Return the same where the view has most of it, of which its starter makes sure."""
        return (*view.build_args(), *self._build_service_args(network)), ""

    def _build_service_args(self, network: Network) -> tuple[str, ...]:
        """Return the words that show programs the services, where one is for them: each mount costs."""
        if network == "off" and self._terms.services.keys() <= {SERVICE}:
            return ("--dir", _SERVICES)
        return ("--ro-bind", str(self._folder.services), _SERVICES)

    def _iter_counter_args(self) -> Iterator[str]:
        """Yield the words that show programs how often limits were run into, nothing else of the group.

        A server has nobody else to tell it which one its commands ran into. Of a command we tell ourselves.
        """
        for file, shown in self._held.group.counters if self._held.group else ():
            yield from ("--ro-bind-try", file, shown)

    def _build_init_argv(self, script: str) -> tuple[str, ...]:
        """Return the words before the program's, with a limit on its processes where no group has one."""
        by_group = self._held.group is not None and self._held.group.has_limit("pids")
        most = (
            "-" if by_group else str(_cap_to_hard_limit(self._terms.limits.processes, resource.RLIMIT_NPROC))
        )
        return ("/bin/sh", "-c", script, "sh", most)

    def _build_network_argv(self, argv: tuple[str, ...], network: Network) -> tuple[str, ...]:
        """Return the words that start the program with this network."""
        if network == "off":
            return argv
        return build_forward_argv(argv, f"{_SERVICES}/{SERVICE}")

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
            SandboxError: bubblewrap failed, or the folder is not there.
        """
        before = self._held.read_counters()
        network = network or self._terms.network

        async def run_once(*, within: bool) -> tuple[CompletedProcess, str]:
            view = self._held.view if within else None
            seen, guard = self._build_view_args(view, network) if view else self._build_mount_args(network)
            first = self._build_init_argv(guard + SAY_BEGUN + _FIRST)
            spec = self._build_process_spec(argv, env=env, cwd=cwd, network=network, seen=seen, first=first)
            spawn = self._prepare_spawn(within=view is not None)
            with spawn as (by, told), open_network(self._terms, network):
                lost = by.starter.lost
                spec = replace(spec, by=by)
                done = await run(spec, stdin=stdin, timeout=timeout, limit=limit, on_output=on_output)
                if by.starter.lost > lost and done.exit_code == 128 + signal.SIGKILL:
                    done = replace(done, stderr=done.stderr + _GONE)
                return done, read_status(told)

        async def run_with_fallback() -> tuple[CompletedProcess, str]:
            try:
                done = await run_once(within=True)
            except ProcessError as error:
                if not isinstance(error.__cause__, SpawnServerError):
                    raise
            else:
                self._held.failures = 0
                return done
            self._held.note_failure()
            return await run_once(within=False)  # which tells why, if that does not begin either

        try:
            done, told = await run_with_fallback()
            if done.exit_code == 1 and is_mount_race(told):
                done, told = await run_with_fallback()
        except ProcessError as error:
            if not _is_process_limit_error(error):
                raise SandboxError(error.message, hint=error.hint) from error
            done, told = REFUSED, ""
        await self._held.check_disk()
        return classify_exit(replace(done, limit=_find_limit(done, before, self._held.read_counters())), told)

    @contextmanager
    def _prepare_spawn(self, *, within: bool) -> Generator[tuple[DelegatedSpawn, socket.socket]]:
        """Yield who starts one program under the limits, and where is told what went wrong at that."""
        with ExitStack() as closing:
            try:
                seccomp = os.open(self._folder.seccomp, os.O_RDONLY)
            except OSError as error:
                raise SandboxError("bubblewrap failed: the list of system calls is missing") from error
            closing.callback(os.close, seccomp)
            # A socket: what programs find at their first process, they can neither open nor take back.
            told, telling = map(closing.enter_context, socket.socketpair())
            starter = self._held.inside if within else self._held.outside
            yield (
                DelegatedSpawn(
                    starter=starter, stderr=_STDERR, files={2: telling.fileno(), _SECCOMP: seccomp}
                ),
                told,
            )

    async def destroy(self) -> None:
        """Delete the temporary files, the sockets and the control group. Programs should have been ended."""
        self._mounts = ()
        await self._listeners.close()
        await asyncio.to_thread(self._held.let_go)
        self._held = _SandboxResources()
        if self._project:
            await asyncio.to_thread(self._project.close)
        await self._folder.empty_temporary()


@dataclass(frozen=True, slots=True, kw_only=True)
class _LimitCounters:
    """The number of times that each limit was reached so far."""

    group: LimitEvents
    ended: KillCounts


@dataclass(slots=True, kw_only=True)
class _SandboxResources:
    """The resources that are held from ``prepare`` to ``destroy``."""

    group: Cgroup | None = None
    watch: DiskWatch | None = None
    view: MountView | None = None
    failures: int = 0
    """How many commands in a row did not begin in the view."""
    program: str = PROGRAM
    limits: dict[int, int] = field(default_factory=dict[int, int])
    inside: SpawnServer = field(init=False)
    """Starts commands in the view."""
    outside: SpawnServer = field(init=False)
    """Starts commands that mount all by themselves."""

    def __post_init__(self) -> None:
        self.inside, self.outside = (
            SpawnServer(self._build_config_inside),
            SpawnServer(self._build_config_outside),
        )

    def _build_config_outside(self) -> SpawnServerConfig:
        return SpawnServerConfig(limits=self.limits, entrances=self.group.entrances if self.group else ())

    def _build_config_inside(self) -> SpawnServerConfig:
        if self.view is None:
            raise SpawnServerError(errno.EPERM, os.strerror(errno.EPERM))
        made = self.view.build_setup()
        within = (self.program, *made.words, "--")
        return replace(self._build_config_outside(), within=within, places=made.places)

    def note_failure(self) -> None:
        """Note that no command began in the view; one that never is as it should be is given up."""
        self.failures += 1
        if self.failures >= _TRIES:
            self.view = None

    def read_counters(self) -> _LimitCounters:
        ended = replace(self.watch.ended) if self.watch else KillCounts()
        return _LimitCounters(group=self.group.read_events() if self.group else LimitEvents(), ended=ended)

    async def check_disk(self) -> None:
        """Find now that a program has passed a limit of the disk, before another one is taken for it."""
        with suppress(OSError):
            if self.watch and self.watch.should_check():
                await asyncio.to_thread(self.watch.look)

    def let_go(self) -> None:
        if self.watch:
            self.watch.stop()
        self.inside.close()
        self.outside.close()
        if self.group:
            self.group.remove()


def _cap_to_hard_limit(wanted: int, kind: int) -> int:
    """Return the limit, or what this process itself is held to if that is less."""
    hard = resource.getrlimit(kind)[1]
    return wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)


def _is_process_limit_error(error: ProcessError) -> bool:
    why = error.__cause__
    return isinstance(why, OSError) and not isinstance(why, SpawnServerError) and why.errno == errno.EAGAIN


def _build_rlimits(limits: ResourceLimits, group: Cgroup | None) -> dict[int, int]:
    """Return what a program may have at most, by the kernel's number of the limit."""
    most = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: _cap_to_hard_limit(limits.disk, resource.RLIMIT_FSIZE),
        resource.RLIMIT_NOFILE: _cap_to_hard_limit(limits.open_files, resource.RLIMIT_NOFILE),
    }
    if not (group and group.has_limit("memory")):
        most[resource.RLIMIT_DATA] = _cap_to_hard_limit(limits.memory, resource.RLIMIT_DATA)
    return most


def _find_limit(done: CompletedProcess, before: _LimitCounters, after: _LimitCounters) -> Limit:
    """Tell which limit was run into, what ends programs before what merely refuses them something."""
    if after.ended.disk > before.ended.disk or done.exit_code == 128 + signal.SIGXFSZ:
        return "disk"
    if after.ended.files > before.ended.files:
        return "files"
    if after.group.memory > before.group.memory:
        return "memory"
    if after.group.processes > before.group.processes:
        return "processes"
    return done.limit


def _build_supervisor_argv(env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the words that start what stands above a server, before the server's own."""
    script = str(find_bytecode(Path(supervisor.__file__)))
    return (sys.executable, "-I", "-S", script, supervisor.NO_LIFELINE, env.get("LC_CTYPE", ""))


def _build_env_argv(env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the words that set what no shell passes on; none as a rule."""
    odd = [f"{name}={value}" for name, value in env.items() if _OF_SHELL.match(f"{name}=")]
    return ("/usr/bin/env", "--", *odd) if odd else ()
