"""Isolation by bubblewrap: namespaces of its own, the system read-only, everything else not there.

What programs inside see is built from nothing: the system's own folders, Kakite and its interpreter, all
read-only, and the task's three folders. No home, no ``/run``, no other run, no network but loopback, no
process of the host. ``docs/sandbox.md`` lists what this holds and what it does not.
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
    By,
    Completed,
    Launch,
    ProcessError,
    Starter,
    StarterError,
    StarterTerms,
    base_environment,
    run,
)
from kakite.sandbox import mounts, seccomp
from kakite.sandbox.cgroups import Group, Hits, make_group
from kakite.sandbox.folder import TaskFolder
from kakite.sandbox.network import forwarded, opened, proxy_environment, with_proxy
from kakite.sandbox.proxy import SERVICE
from kakite.sandbox.sandbox import OUTPUT_LIMIT, SandboxError, inside, own_command
from kakite.sandbox.services import Listeners, check_names
from kakite.sandbox.verdict import REFUSED, SAY_BEGUN, content, is_overtaken, judge
from kakite.sandbox.view import View, view_of
from kakite.sandbox.watch import DiskWatch, Ended
from kakite.workspace import state_path

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from kakite.processes import Limit, OnOutput
    from kakite.sandbox.terms import Limits, Network, Terms

PROGRAM = "bwrap"
HOW_TO_GET = (
    "install bubblewrap 0.8 or newer (`apt install bubblewrap`), or use `--sandbox local`: no isolation"
)
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
[ -r "$1" ] || fail 'the list of system calls is gone'
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
_OF_SHELL = re.compile(r"(?:IFS|OPTIND|PPID|PS[124]|LINENO)=|(?![A-Za-z_][A-Za-z0-9_]*=)")
"""Variables that a shell would not pass on as they are."""
_GONE = b"ended: what starts the commands of this task was killed, and they with it\n"
_TRIES = 5


class BubblewrapSandbox:
    """Runs each program in namespaces of its own that end with it."""

    kind = "bubblewrap"
    isolates = True
    project = _PROJECT
    services = _SERVICES
    kakite = own_command(sys.executable)

    def __init__(self, folder: Path, environ: Mapping[str, str], terms: Terms) -> None:
        check_names(terms.services)
        self._folder = TaskFolder(folder.resolve())
        self._terms = with_proxy(terms, environ)
        self._env = base_environment(environ, _HOME) | {"TMPDIR": "/tmp"}  # noqa: S108 - a path inside
        self._program = shutil.which(PROGRAM, path=environ.get("PATH")) or ""
        self._user_home = Path(environ.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir).resolve()
        self._state = state_path(environ).resolve()
        self._mounts: tuple[mounts.Mount, ...] = ()
        self._listeners = Listeners()
        self._held = _Held()

    async def prepare(self) -> None:
        """Make the task's folders, look what to show and to hide, and try it.

        Raises:
            SandboxError: bubblewrap is not installed, too old, or not allowed here; or the task's folders are
                another user's, code ``folder_not_yours``.
        """
        if not self._program:
            raise SandboxError("`bwrap` was not found", hint=HOW_TO_GET, code="sandbox_missing")
        self._folder.make()
        await self._folder.take_back()
        self._folder.put_seccomp(seccomp.compiled())
        self._mounts = mounts.plan(
            self._folder, self._user_home, self._state, self._terms.limits, home=_HOME, project=_PROJECT
        )
        await self._listeners.open(self._folder.services, self._terms.services)
        view = view_of(self._folder, self._mounts, empty=_SERVICES)
        await asyncio.to_thread(self._hold, view)
        if not await self._works():
            self._held.view = None  # no namespaces within others here: each command makes all of it itself
            await self._must_work()

    async def _works(self) -> bool:
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
            raise SandboxError(error.message, hint=HOW_TO_GET, code="sandbox_missing") from error
        if tried.exit_code != 42:
            raise SandboxError("a shell does not run in bubblewrap here", hint=HOW_TO_GET)

    def _hold(self, view: View) -> None:
        """Have a control group and a watch over the disk, once, and what starts commands in this view."""
        if self._held.watch is None:
            of_servers = ("--bind", str(self._folder.project), _PROJECT)
            marks = tuple(b"\0".join(map(os.fsencode, words)) for words in (of_servers, view.mark))
            watch = DiskWatch(folder=self._folder.path, limits=self._terms.limits, marks=marks)
            group = make_group(self._terms.limits)
            limits = _most_of_each(self._terms.limits, group)
            self._held = _Held(group=group, watch=watch, program=self._program, limits=limits)
            weakref.finalize(self, self._held.let_go)
            watch.start()
        self._held.view, self._held.failures = view, 0
        self._held.inside.retire()

    def launch(
        self,
        argv: tuple[str, ...],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        network: Network | None = None,
    ) -> Launch:
        """Tell how to start a program inside.

        Raises:
            SandboxError: ``prepare`` has not been awaited.
        """
        seen = self._limits_seen()
        network = network or self._terms.network
        seen = (*seen, *self._all_seen(network))
        launch = self._launch(argv, env=env, cwd=cwd, network=network, seen=seen)
        return replace(launch, argv=(*self._limited(), *launch.argv))

    def _launch(
        self,
        argv: tuple[str, ...],
        *,
        env: Mapping[str, str] | None,
        cwd: str | None,
        network: Network,
        seen: Iterable[str],
        first: str = _FIRST,
    ) -> Launch:
        env = {**self._env, **proxy_environment(network), **(env or {})}
        loaded = {name: value for name, value in env.items() if name.startswith(_LOADED)}
        setenv = [part for name, value in loaded.items() for part in ("--setenv", name, value)]
        unset = [part for name in _OF_SHELLS if name not in env for part in ("--unsetenv", name)]
        chdir = ("--chdir", inside(_PROJECT, cwd))
        isolated = (self._program, *_ISOLATION, "--seccomp", str(_SECCOMP), *seen)
        with_environment = (*setenv, *unset, *chdir)
        return Launch(
            argv=(
                *(*isolated, *with_environment, "--"),
                *(*self._first(first), *_with_odd(env), *self._connected(argv or ("",), network)),
            ),
            env={name: value for name, value in env.items() if name not in loaded},
            cwd="/",
            contained=True,
        )

    def online(self) -> AbstractContextManager[None]:
        """Let what was launched reach what the terms' network allows, for as long as this is entered."""
        return opened(self._terms, self._terms.network)

    def _limited(self) -> tuple[str, ...]:
        """Return the words before bubblewrap's that put it under the limits."""
        group, most = self._held.group, self._held.limits
        memory = str(most[resource.RLIMIT_DATA] // 1024) if resource.RLIMIT_DATA in most else "-"
        sizes = (str(most[resource.RLIMIT_FSIZE] // 512), str(most[resource.RLIMIT_NOFILE]), memory)
        entrances = group.entrances if group else ()
        return ("/bin/sh", "-c", _ENTER, "sh", str(self._folder.seccomp), *sizes, *entrances, "--")

    def _all_seen(self, network: Network) -> tuple[str, ...]:
        """Return the words that mount all that a program sees.

        Raises:
            SandboxError: ``prepare`` has not been awaited.
        """
        if not self._mounts:
            raise SandboxError("the sandbox was not prepared")
        there = (mount for mount in self._mounts if not mounts.vanished(self._folder, mount))
        return (*self._services_seen(network), *(word for mount in there for word in mount))

    def _services_seen(self, network: Network) -> tuple[str, ...]:
        """Return the words that show programs the services, where one is for them: each mount costs."""
        if network == "off" and self._terms.services.keys() <= {SERVICE}:
            return ("--dir", _SERVICES)
        return ("--ro-bind", str(self._folder.services), _SERVICES)

    def _limits_seen(self) -> Iterator[str]:
        """Yield the words that show programs how often limits were run into, nothing else of the group.

        A server has nobody else to tell it which one its commands ran into. Of a command we tell ourselves.
        """
        for file, shown in self._held.group.counters if self._held.group else ():
            yield from ("--ro-bind-try", file, shown)

    def _first(self, script: str) -> tuple[str, ...]:
        """Return the words before the program's, with a limit on its processes where no group has one."""
        by_group = self._held.group is not None and self._held.group.holds("pids")
        most = "-" if by_group else str(_at_most(self._terms.limits.processes, resource.RLIMIT_NPROC))
        return ("/bin/sh", "-c", script, "sh", most)

    def _connected(self, argv: tuple[str, ...], network: Network) -> tuple[str, ...]:
        """Return the words that start the program with this network."""
        if network == "off":
            return argv
        return forwarded(argv, f"{_SERVICES}/{SERVICE}")

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
    ) -> Completed:
        """Run a program inside to its end.

        Raises:
            SandboxError: bubblewrap failed, or the folder is not there.
        """
        before = self._held.counters()
        network = network or self._terms.network

        async def once(*, within: bool) -> tuple[Completed, str]:
            view = self._held.view if within else None
            seen = (*view.entered(), *self._services_seen(network)) if view else self._all_seen(network)
            first = SAY_BEGUN + _FIRST
            launch = self._launch(argv, env=env, cwd=cwd, network=network, seen=seen, first=first)
            with self._born(within=view is not None) as (by, told), opened(self._terms, network):
                lost = by.starter.lost
                done = await run(
                    replace(launch, by=by), stdin=stdin, timeout=timeout, limit=limit, on_output=on_output
                )
                if by.starter.lost > lost and done.exit_code == 128 + signal.SIGKILL:
                    done = replace(done, stderr=done.stderr + _GONE)
                return done, content(told)

        async def begun() -> tuple[Completed, str]:
            try:
                done = await once(within=True)
            except ProcessError as error:
                if not isinstance(error.__cause__, StarterError):
                    raise
            else:
                self._held.failures = 0
                return done
            self._held.failed()
            return await once(within=False)  # which tells why, if that does not begin either

        try:
            done, told = await begun()
            if done.exit_code == 1 and is_overtaken(told):
                done, told = await begun()
        except ProcessError as error:
            if not _is_full(error):
                raise SandboxError(error.message, hint=error.hint) from error
            done, told = REFUSED, ""
        await self._held.settle()
        return judge(replace(done, limit=_limit(done, before, self._held.counters())), told)

    @contextmanager
    def _born(self, *, within: bool) -> Generator[tuple[By, socket.socket]]:
        """Yield who starts one program under the limits, and where is told what went wrong at that."""
        with ExitStack() as closing:
            try:
                seccomp = os.open(self._folder.seccomp, os.O_RDONLY)
            except OSError as error:
                raise SandboxError("bubblewrap failed: the list of system calls is gone") from error
            closing.callback(os.close, seccomp)
            # A socket: what programs find at their first process, they can neither open nor take back.
            told, telling = map(closing.enter_context, socket.socketpair())
            starter = self._held.inside if within else self._held.outside
            yield By(starter=starter, stderr=_STDERR, files={2: telling.fileno(), _SECCOMP: seccomp}), told

    async def destroy(self) -> None:
        """Delete the temporary files, the sockets and the control group. Programs should have been ended."""
        self._mounts = ()
        await self._listeners.close()
        await asyncio.to_thread(self._held.let_go)
        self._held = _Held()
        await self._folder.empty_temporary()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counters:
    """How often a limit was run into so far."""

    group: Hits
    ended: Ended


@dataclass(slots=True, kw_only=True)
class _Held:
    """What is held of the machine from ``prepare`` to ``destroy``."""

    group: Group | None = None
    watch: DiskWatch | None = None
    view: View | None = None
    failures: int = 0
    """How many commands in a row did not begin in the view."""
    program: str = PROGRAM
    limits: dict[int, int] = field(default_factory=dict[int, int])
    inside: Starter = field(init=False)
    """Starts commands in the view."""
    outside: Starter = field(init=False)
    """Starts commands that mount all by themselves."""

    def __post_init__(self) -> None:
        self.inside, self.outside = Starter(self._terms_inside), Starter(self._terms_outside)

    def _terms_outside(self) -> StarterTerms:
        return StarterTerms(limits=self.limits, entrances=self.group.entrances if self.group else ())

    def _terms_inside(self) -> StarterTerms:
        if self.view is None:
            raise StarterError(errno.EPERM, os.strerror(errno.EPERM))
        made = self.view.made()
        within = (self.program, *made.words, "--")
        return replace(self._terms_outside(), within=within, places=made.places)

    def failed(self) -> None:
        """Note that no command began in the view; one that never is as it should be is given up."""
        self.failures += 1
        if self.failures >= _TRIES:
            self.view = None

    def counters(self) -> _Counters:
        ended = replace(self.watch.ended) if self.watch else Ended()
        return _Counters(group=self.group.hits() if self.group else Hits(), ended=ended)

    async def settle(self) -> None:
        """Find now that a program has passed a limit of the disk, before another one is taken for it."""
        with suppress(OSError):
            if self.watch and self.watch.doubts():
                await asyncio.to_thread(self.watch.look)

    def let_go(self) -> None:
        if self.watch:
            self.watch.stop()
        self.inside.close()
        self.outside.close()
        if self.group:
            self.group.remove()


def _at_most(wanted: int, kind: int) -> int:
    """Return the limit, or what this process itself is held to if that is less."""
    hard = resource.getrlimit(kind)[1]
    return wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)


def _is_full(error: ProcessError) -> bool:
    why = error.__cause__
    return isinstance(why, OSError) and not isinstance(why, StarterError) and why.errno == errno.EAGAIN


def _most_of_each(limits: Limits, group: Group | None) -> dict[int, int]:
    """Return what a program may have at most, by the kernel's number of the limit."""
    most = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: _at_most(limits.disk, resource.RLIMIT_FSIZE),
        resource.RLIMIT_NOFILE: _at_most(limits.open_files, resource.RLIMIT_NOFILE),
    }
    if not (group and group.holds("memory")):
        most[resource.RLIMIT_DATA] = _at_most(limits.memory, resource.RLIMIT_DATA)
    return most


def _limit(done: Completed, before: _Counters, after: _Counters) -> Limit:
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


def _with_odd(env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the words that set what no shell passes on; none as a rule."""
    odd = [f"{name}={value}" for name, value in env.items() if _OF_SHELL.match(f"{name}=")]
    return ("/usr/bin/env", "--", *odd) if odd else ()
