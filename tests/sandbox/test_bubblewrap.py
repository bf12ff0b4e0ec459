"""Attempts to get out of bubblewrap: each is refused or stays inside.

What would hurt the machine if it worked is not done to the end: a setting is opened for writing, not written;
a signal goes to a process of the test's own.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import h11
import pytest
from tests.bounds import WITHIN
from tests.sandbox.conftest import wait_until_gone

import kakite
from kakite.processes import start, supervisor
from kakite.sandbox import SandboxError, open_sandbox

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.sandbox.conftest import Place

Process = subprocess.Popen[bytes]
AS_ROOT = os.geteuid() == 0


@pytest.fixture
def host_process() -> Iterator[Process]:
    with Process(["sleep", "98765"]) as process:
        yield process
        process.kill()


# Files


@pytest.mark.parametrize(
    "folder",
    ["/", "/usr", "/usr/local/bin", "/etc", "/opt", "/root", "/home", "/run", "/var", "/proc", "/workspace"],
)
def test_nothing_is_written_outside_of_the_task(bubblewrap: Place, folder: str) -> None:
    name = f"{folder}/kakite-was-here"
    assert bubblewrap.sh(f"echo x > {name}").exit_code != 0
    assert not Path(name).exists()


def test_temporary_files_stay_inside(bubblewrap: Place) -> None:
    bubblewrap.sh("touch /tmp/kakite-was-here /var/tmp/kakite-was-here /dev/shm/kakite-was-here")
    for folder in ("/tmp", "/var/tmp", "/dev/shm"):
        assert not Path(folder, "kakite-was-here").exists()


def test_temporary_files_stay_from_command_to_command(
    bubblewrap: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    for thing, name in ((sys, "prefix"), (sys, "base_prefix")):
        monkeypatch.setattr(thing, name, "/usr")
    monkeypatch.setattr(kakite, "__file__", "/usr/lib/python3/dist-packages/kakite/__init__.py")
    asyncio.run(bubblewrap.sandbox.prepare())
    bubblewrap.sh("echo 1 > /tmp/a")
    assert bubblewrap.sh("cat /tmp/a /var/tmp/a $TMPDIR/a").stdout == b"1\n1\n1\n"
    assert (bubblewrap.folder / "tmp/a").exists()


@pytest.mark.skipif(not AS_ROOT, reason="only root may put a folder into /opt")
def test_a_home_and_runs_among_the_systems_folders_are_hidden() -> None:
    with tempfile.TemporaryDirectory(dir="/opt") as name:
        for file in (Path(name, "person/.netrc"), Path(name, "runs/other/key")):
            file.parent.mkdir(parents=True)
            file.write_text("secret", encoding="utf-8")
        environ = {"PATH": "/usr/bin:/bin", "HOME": f"{name}/person"}
        sandbox = open_sandbox("bubblewrap", Path(name, "runs/mine"), environ=environ)
        asyncio.run(sandbox.prepare())
        look = (
            "bash",
            "-c",
            f"cat {name}/person/.netrc {name}/runs/other/key; touch {name}/person/x; ls {name}/*",
        )
        done = asyncio.run(sandbox.exec(look, timeout=WITHIN))
        assert done.stdout.decode().split() == [f"{name}/person:", f"{name}/runs:"]


@pytest.mark.skipif(not AS_ROOT, reason="only root may put a folder into /opt")
@pytest.mark.parametrize("parent", ["/opt", "/usr/local"])
@pytest.mark.parametrize("mode", [0o755, 0o700])
def test_private_files_and_kakites_state_among_programs_are_hidden(
    bubblewrap: Place, parent: str, mode: int
) -> None:
    with tempfile.TemporaryDirectory(dir=parent) as name:
        Path(name).chmod(mode)
        for file in ("state/kakite/history/db", "public", "private", "closed/key"):
            path = Path(name, file)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(bubblewrap.secret if file != "public" else "public", encoding="utf-8")
        Path(name, "private").chmod(0o600)
        Path(name, "closed").chmod(0o750)
        environ = {"PATH": "/usr/bin:/bin", "HOME": str(bubblewrap.home), "XDG_STATE_HOME": f"{name}/state"}
        sandbox = open_sandbox("bubblewrap", bubblewrap.folder, environ=environ)
        asyncio.run(sandbox.prepare())
        look = f"cat {name}/public; grep -r . {name}/state {name}/private {name}/closed"
        done = asyncio.run(sandbox.exec(("bash", "-c", look), timeout=WITHIN))
        assert done.stdout == (b"public" if mode == 0o755 else b"")


@pytest.mark.skipif(not AS_ROOT, reason="only root may put a folder into /opt")
def test_a_task_below_kakites_hidden_state_works(bubblewrap: Place) -> None:
    with tempfile.TemporaryDirectory(dir="/opt") as name:
        environ = {"PATH": "/usr/bin:/bin", "HOME": str(bubblewrap.home), "XDG_STATE_HOME": name}
        sandbox = open_sandbox("bubblewrap", Path(name, "kakite/runs/mine"), environ=environ)
        asyncio.run(sandbox.prepare())
        look = f"touch here /tmp/there && ls {name}/kakite/*"
        done = asyncio.run(sandbox.exec(("bash", "-c", look), timeout=WITHIN))
        assert (done.exit_code, done.stdout) == (0, b"")
        assert Path(name, "kakite/runs/mine/project/here").exists()


def test_own_programs_cannot_be_changed(bubblewrap: Place) -> None:
    for folder in (sys.prefix, sys.base_prefix, Path(kakite.__file__).parent):
        assert bubblewrap.sh(f"ls {folder} && ! touch {folder}/x").exit_code == 0
        assert not Path(folder, "x").exists()


def test_a_link_to_the_outside_leads_nowhere(bubblewrap: Place) -> None:
    for number, target in enumerate([bubblewrap.home / ".netrc", bubblewrap.runs / "other/project/key"]):
        (bubblewrap.project / f"link{number}").symlink_to(target)
    done = bubblewrap.sh("cat link* ../../other/project/key")
    assert bubblewrap.secret.encode() not in done.stdout
    assert done.exit_code != 0


def test_a_hard_link_to_the_outside_is_refused(bubblewrap: Place) -> None:
    assert bubblewrap.sh("ln /etc/hostname here || ln /usr/bin/env here").exit_code != 0


def test_neither_the_persons_home_nor_other_runs_are_there(bubblewrap: Place) -> None:
    for path in (bubblewrap.home, bubblewrap.runs, bubblewrap.folder):
        assert bubblewrap.run("ls", str(path)).exit_code != 0


@pytest.mark.slow
def test_no_secret_is_found_in_any_file(bubblewrap: Place) -> None:
    places = "/etc /home /root /run /var /workspace /tmp /opt /proc/self/environ /proc/1/environ"
    assert bubblewrap.sh(f"grep -rIl {bubblewrap.secret[:-1]} {places} 2>/dev/null", timeout=60).stdout == b""


@pytest.mark.skipif(not AS_ROOT, reason="another user cannot read them anyway")
def test_what_only_root_may_read_is_empty(bubblewrap: Place) -> None:
    done = bubblewrap.sh(
        "cat /etc/shadow /etc/gshadow /etc/ssl/private/* /etc/ssh/*_key /etc/sudoers 2>/dev/null"
    )
    assert done.stdout == b""


@pytest.mark.skipif(not AS_ROOT, reason="only root may put a file into /etc")
def test_a_private_file_of_the_system_is_hidden(bubblewrap: Place) -> None:
    folder = Path("/etc/kakite-test")
    folder.mkdir(exist_ok=True)
    try:
        # Not the secret that the test above looks for, which may run meanwhile.
        (folder / "key").write_text("a private key", encoding="utf-8")
        (folder / "key").chmod(0o600)
        asyncio.run(bubblewrap.sandbox.prepare())
        assert bubblewrap.sh("ls /etc/kakite-test; cat /etc/kakite-test/key").stdout == b"key\n"
    finally:
        shutil.rmtree(folder)


@pytest.mark.skipif(not AS_ROOT, reason="only root may put a folder into /opt")
def test_no_socket_and_no_pipe_of_the_host_is_reached_among_its_programs(bubblewrap: Place) -> None:
    with tempfile.TemporaryDirectory(dir="/opt") as name, socket.socket(socket.AF_UNIX) as server:
        Path(name).chmod(0o755)
        server.bind(f"{name}/socket")
        server.listen()
        os.mkfifo(f"{name}/pipe")
        for file in ("socket", "pipe"):
            Path(name, file).chmod(0o777)
        asyncio.run(bubblewrap.sandbox.prepare())
        connect = f"import socket; socket.socket(socket.AF_UNIX).connect('{name}/socket')"
        assert bubblewrap.python(connect).exit_code == 1
        assert bubblewrap.sh(f"test -S {name}/socket").exit_code == 1
        assert bubblewrap.sh(f"test -p {name}/pipe").exit_code == 1


@pytest.mark.skipif(not AS_ROOT, reason="only root may put a folder into /opt")
def test_a_private_file_that_goes_away_meanwhile_is_no_obstacle(bubblewrap: Place) -> None:
    with tempfile.TemporaryDirectory(dir="/opt") as name:
        Path(name).chmod(0o755)
        for file in ("key", "stays"):
            Path(name, file).write_text(bubblewrap.secret, encoding="utf-8")
            Path(name, file).chmod(0o600)
        asyncio.run(bubblewrap.sandbox.prepare())
        Path(name, "key").unlink()
        assert bubblewrap.sh(f"ls {name}; cat {name}/stays").stdout == b"stays\n"


@pytest.mark.skipif(not AS_ROOT, reason="only root may put a folder into /opt")
def test_a_hidden_folder_with_a_task_of_its_own_that_goes_away_is_no_obstacle(bubblewrap: Place) -> None:
    with tempfile.TemporaryDirectory(dir="/opt") as name:
        environ = {"PATH": "/usr/bin:/bin", "HOME": name}
        sandbox = open_sandbox("bubblewrap", bubblewrap.runs / "third", environ=environ)
        asyncio.run(sandbox.prepare())
        shutil.rmtree(name)
        assert asyncio.run(sandbox.exec(("true",), timeout=WITHIN)).exit_code == 0
        Path(name).mkdir()


@pytest.mark.skipif(not AS_ROOT, reason="only root may put a file into /etc")
def test_a_private_file_in_a_folder_that_is_hidden_anyway_is_no_obstacle(bubblewrap: Place) -> None:
    folder = Path("/etc/kubernetes")
    made = not folder.exists()
    folder.mkdir(exist_ok=True)
    key = folder / "kakite-test.key"
    try:
        key.write_text(bubblewrap.secret, encoding="utf-8")
        key.chmod(0o600)
        asyncio.run(bubblewrap.sandbox.prepare())
        assert bubblewrap.sh("ls /etc/kubernetes").stdout == b""
    finally:
        key.unlink()
        if made:
            folder.rmdir()


def test_the_users_home_is_the_tasks_also_in_the_list_of_users(bubblewrap: Place) -> None:
    script = "import os, pwd; print(pwd.getpwuid(os.getuid()).pw_dir)"
    assert bubblewrap.python(script).stdout == b"/workspace/home\n"


def test_no_device_of_the_machine_is_there(bubblewrap: Place) -> None:
    expected = "console core fd full null ptmx pts random shm stderr stdin stdout tty urandom zero"
    assert set(bubblewrap.run("ls", "/dev").stdout.decode().split()) <= set(expected.split())
    assert bubblewrap.sh("mknod disk b 8 0 || mknod mem c 1 1").exit_code != 0


def test_no_file_of_ours_is_inherited(bubblewrap: Place) -> None:
    assert bubblewrap.python("import os; print(len(os.listdir('/proc/self/fd')))").stdout == b"4\n"


# Processes


def test_processes_of_the_host_are_not_seen(bubblewrap: Place, host_process: Process) -> None:
    assert b"98765" not in bubblewrap.sh("cat /proc/[0-9]*/cmdline").stdout
    assert len(bubblewrap.sh("echo /proc/[0-9]*").stdout.split()) == 2


def test_processes_of_the_host_are_not_killed(
    bubblewrap: Place, host_process: subprocess.Popen[bytes]
) -> None:
    done = bubblewrap.sh(f"kill -9 {host_process.pid}; kill -0 {os.getpid()} {os.getppid()}")
    assert done.exit_code == 1
    assert host_process.poll() is None


def test_processes_of_the_host_are_not_traced(
    bubblewrap: Place, host_process: subprocess.Popen[bytes]
) -> None:
    attach = "ctypes.CDLL(None).ptrace(16, int(sys.argv[1]), 0, 0)"
    done = bubblewrap.run(sys.executable, "-c", f"import ctypes, sys; print({attach})", str(host_process.pid))
    assert done.stdout == b"-1\n"


@pytest.mark.parametrize("way", ["/proc/1/root", "/proc/1/cwd", "/proc/self/root", "/proc/self/cwd/../../.."])
def test_no_process_leads_to_the_hosts_files(bubblewrap: Place, way: str) -> None:
    assert bubblewrap.run("cat", f"{way}{bubblewrap.home}/.netrc").exit_code != 0
    assert bubblewrap.sh(f"echo x > {way}/etc/kakite-was-here").exit_code != 0


def test_programs_have_no_capability_and_gain_none(bubblewrap: Place) -> None:
    status = bubblewrap.run("cat", "/proc/self/status").stdout.decode()
    lines = dict(line.split(":", 1) for line in status.splitlines())
    assert {int(lines[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
    assert int(lines["NoNewPrivs"]) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "attempt",
    [
        "mount -t tmpfs none /workspace/project",
        "mount -o remount,rw /",
        "mount -o remount,rw /proc",
        "umount /etc/passwd",
        "unshare --user true",
        "unshare --mount true",
        "unshare --net true",
        "nsenter --target 1 --mount true",
        "chroot / true",
        "pivot_root . .",
        "hostname kakite-was-here",
        "dmesg",
        "su nobody -s /bin/true",
        "chown 1234 /workspace/project",
    ],
)
def test_privileged_acts_are_refused(bubblewrap: Place, attempt: str) -> None:
    assert shutil.which(attempt.split(maxsplit=1)[0], path="/usr/sbin:/usr/bin:/sbin:/bin"), (
        "the attempt would prove nothing"
    )
    assert bubblewrap.sh(attempt, timeout=WITHIN).exit_code != 0


KNOBS = """
import os
opened = []
for top, folders, files in os.walk("/proc"):
    if top.count("/") == 1:
        folders[:] = [name for name in folders if not name.isdecimal() and "self" not in name]
    for name in files:
        try:
            os.close(os.open(f"{top}/{name}", os.O_WRONLY | os.O_NONBLOCK))
        except OSError:
            continue
        opened.append(f"{top}/{name}")
print(opened, os.path.exists("/sys/kernel"))
"""


def test_no_setting_of_the_kernel_can_be_opened_for_writing(bubblewrap: Place) -> None:
    assert bubblewrap.python(KNOBS).stdout == b"[] False\n"


def test_a_terminal_of_the_host_is_out_of_reach(bubblewrap: Place) -> None:
    assert bubblewrap.sh("echo x > /dev/tty").exit_code != 0


def test_killing_the_host_side_ends_all_inside(bubblewrap: Place) -> None:
    starter = f"""
import asyncio, sys
from pathlib import Path
from kakite.processes import run
from kakite.sandbox import open_sandbox
async def main():
    sandbox = open_sandbox("bubblewrap", Path({str(bubblewrap.folder)!r}))
    await sandbox.prepare()
    script = "setsid sleep 54321 & echo here; trap '' TERM; wait"
    await sandbox.exec(("bash", "-c", script), timeout=None, on_output=lambda s, d: print("here", flush=True))
asyncio.run(main())
"""
    env = {**os.environ, "PYTHONPATH": str(Path(kakite.__file__).parents[1])}
    with subprocess.Popen([sys.executable, "-c", starter], env=env, stdout=subprocess.PIPE) as host:
        assert host.stdout is not None
        assert host.stdout.readline() == b"here\n"
        inside = supervisor.list_descendants(host.pid)
        assert len(inside) >= 4
        host.kill()
    try:
        for pid in inside:
            with contextlib.suppress(ProcessLookupError):
                wait_until_gone(pid)
    finally:
        supervisor.send_all(inside, signal.SIGKILL)


def test_no_command_leaves_its_dead_to_whoever_cares_for_orphans(bubblewrap: Place) -> None:
    starter = f"""
import asyncio, ctypes, os
from pathlib import Path
from kakite.sandbox import open_sandbox
async def main():
    sandbox = open_sandbox("bubblewrap", Path({str(bubblewrap.folder)!r}))
    await sandbox.prepare()
    for script in ("true", "exit 3", "kill -9 $$", "setsid sleep 54322 & exec true", "(sleep 0 &)"):
        await sandbox.exec(("sh", "-c", script), timeout=60)
PR_SET_CHILD_SUBREAPER = 36
assert ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
asyncio.run(main())
print(os.waitpid(-1, os.WNOHANG))
"""
    env = {**os.environ, "PYTHONPATH": str(Path(kakite.__file__).parents[1])}
    command = [sys.executable, "-c", starter]
    done = subprocess.run(command, env=env, capture_output=True, encoding="utf-8", timeout=100, check=False)
    assert "ChildProcessError" in done.stderr, (done.stdout, done.stderr)


@pytest.mark.parametrize(
    "words",
    ["bwrap: no", "bwrap: Can't mkdir /a: Read-only file system", "bwrap: Can't fork x", "Cannot fork"],
)
def test_a_program_that_speaks_as_bubblewrap_does_is_run_once_and_has_its_own_result(
    bubblewrap: Place, words: str
) -> None:
    done = bubblewrap.sh(f"echo again >> here; echo {shlex.quote(words)} >&2; exit 1")
    assert (done.exit_code, done.stderr, done.limit) == (1, f"{words}\n".encode(), "")
    assert (bubblewrap.folder / "project/here").read_bytes() == b"again\n"
    assert not list(bubblewrap.folder.glob("told-*"))


def test_what_a_command_leaves_behind_may_go_on_for_half_a_second(bubblewrap: Place) -> None:
    done = bubblewrap.sh("(sleep .2; echo late) & echo first")
    assert (done.exit_code, done.stdout) == (0, b"first\nlate\n")
    done = bubblewrap.sh("(setsid sleep 600; echo late) & echo first")
    assert (done.timed_out, done.stdout) == (False, b"first\n")


def test_variables_that_shells_do_not_know_reach_programs(bubblewrap: Place) -> None:
    odd = {"a-b": "1", "x.y": "2 3", "npm_config_//host/:name": "4", "IFS": "x", "OPTIND": "7", "PS4": "p"}
    done = bubblewrap.run("/usr/bin/env", "-0", env=odd)
    assert {f"{name}={value}" for name, value in odd.items()} <= set(done.stdout.decode().split("\0"))


@pytest.mark.slow
def test_a_time_out_before_anything_began_ends_at_once(bubblewrap: Place) -> None:
    assert bubblewrap.run("sleep", "1200", timeout=0.001).timed_out


# Network and sockets


def test_the_hosts_loopback_is_another(bubblewrap: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        done = bubblewrap.sh(f"exec 3<> /dev/tcp/127.0.0.1/{port}")
        server.settimeout(0.2)
        with pytest.raises(TimeoutError):
            server.accept()
    assert done.exit_code != 0


@pytest.mark.parametrize("address", ["192.0.2.1", "169.254.169.254", "8.8.8.8", "example.org"])
def test_the_network_is_refused_at_once(bubblewrap: Place, address: str) -> None:
    done = bubblewrap.sh(f"exec 3<> /dev/tcp/{address}/80", timeout=60)  # to be in vain takes two minutes
    assert (done.exit_code, done.timed_out) == (1, False)


def test_loopback_works_inside(bubblewrap: Place) -> None:
    script = """
import socket
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname(), 5)
server.accept()[0].sendall(b"through")
print(client.recv(10).decode())
"""
    assert bubblewrap.python(script).stdout == b"through\n"


def listening(address: str) -> socket.socket:
    server = socket.socket(socket.AF_UNIX)
    server.bind(address)
    server.listen()
    return server


CONNECT = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1].replace('@', chr(0)))"


@pytest.mark.parametrize("folder", ["/run", "/tmp", "/var/tmp", "/dev/shm", "/srv"])
def test_sockets_of_the_host_are_out_of_reach(bubblewrap: Place, folder: str) -> None:
    if not os.access(folder, os.W_OK):
        pytest.skip(f"{folder} is not ours to put a socket into")
    with tempfile.TemporaryDirectory(dir=folder) as own:
        address = f"{own}/socket"
        with listening(address):
            assert subprocess.run([sys.executable, "-c", CONNECT, address], check=False).returncode == 0
            assert bubblewrap.run(sys.executable, "-c", CONNECT, address).exit_code == 1


def test_nameless_sockets_of_the_host_are_out_of_reach(bubblewrap: Place) -> None:
    with listening("\0kakite-test"):
        assert subprocess.run([sys.executable, "-c", CONNECT, "@kakite-test"], check=False).returncode == 0
        assert bubblewrap.run(sys.executable, "-c", CONNECT, "@kakite-test").exit_code == 1


@pytest.mark.parametrize(
    "path", ["/run/docker.sock", "/var/run/docker.sock", "/run/user", "/sys/class", "/sys/kernel", "/srv"]
)
def test_places_of_sockets_and_devices_are_not_there(bubblewrap: Place, path: str) -> None:
    assert bubblewrap.run("ls", path).exit_code != 0


def test_nothing_of_what_the_kernel_shows_of_itself_is_there_for_commands(bubblewrap: Place) -> None:
    assert bubblewrap.sh("test -e /sys").exit_code == 1


def test_a_server_sees_of_it_how_often_limits_were_run_into_and_nothing_else(bubblewrap: Place) -> None:
    script = """
test -d /sys || exit 0
for name in $(find /sys -type f); do
    grep -q . $name && ! { echo 1 >> $name; } && ! rm -f $name || exit 1
    echo $name
done
"""

    async def look() -> tuple[list[str], int]:
        child = await start(bubblewrap.sandbox.build_process_spec(("bash", "-c", script)))
        told = (await child.stdout.read()).decode().split()
        try:
            return told, await child.wait()
        finally:
            await child.stop()

    found, code = asyncio.run(asyncio.wait_for(look(), WITHIN))
    assert code == 0
    assert {Path(name).name for name in found} <= {"memory.oom_control", "memory.events", "pids.events"}


def test_a_command_without_a_network_does_not_see_the_way_to_one(bubblewrap: Place) -> None:
    assert bubblewrap.sh("ls -A /run/kakite").stdout == b""
    assert bubblewrap.sh("ls -A /run/kakite", network="registries").stdout == b"proxy\n"


# Between sandboxes, and what reaches bubblewrap itself


def test_two_sandboxes_do_not_see_each_other(bubblewrap: Place) -> None:
    other = open_sandbox("bubblewrap", bubblewrap.runs / "second")

    async def look() -> tuple[bytes, bytes]:
        await other.prepare()
        here = asyncio.Event()
        script = "touch /tmp/theirs ~/theirs theirs; echo here; exec sleep 24680"
        argv = ("bash", "-c", script)
        running = asyncio.create_task(other.exec(argv, timeout=60, on_output=lambda _, __: here.set()))
        await here.wait()
        script = "ls /tmp /workspace/*; cat /proc/[0-9]*/cmdline"
        seen = await bubblewrap.sandbox.exec(("bash", "-c", script), timeout=WITHIN)
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        return seen.stdout, seen.stderr

    seen = b"".join(asyncio.run(asyncio.wait_for(look(), WITHIN)))
    assert b"theirs" not in seen
    assert b"24680" not in seen


def test_variables_of_the_loader_do_not_reach_bubblewrap(bubblewrap: Place) -> None:
    env = {"LD_PRELOAD": "/workspace/project/evil.so", "GLIBC_TUNABLES": "a", "PLAIN": "b"}
    launch = bubblewrap.sandbox.build_process_spec(("true",), env=env)
    assert {"LD_PRELOAD", "GLIBC_TUNABLES"}.isdisjoint(launch.env)
    assert launch.env["PLAIN"] == "b"


def test_no_value_but_the_loaders_stands_in_the_arguments(bubblewrap: Place) -> None:
    assert "visible" not in bubblewrap.sandbox.build_process_spec(("true",), env={"VALUE": "visible"}).argv


def test_a_program_that_looks_like_an_option_is_a_program(bubblewrap: Place) -> None:
    assert bubblewrap.run("--bind").exit_code == 127


def test_an_interpreter_that_is_all_of_the_home_is_not_shown(bubblewrap: Place) -> None:
    outside = [path for path in (sys.prefix, sys.base_prefix) if not path.startswith(("/usr", "/opt"))]
    if not outside:
        pytest.skip("the interpreter is the system's")
    environ = {"PATH": "/usr/bin:/bin", "HOME": outside[0]}
    sandbox = open_sandbox("bubblewrap", bubblewrap.runs / "x", environ=environ)
    with pytest.raises(SandboxError):
        asyncio.run(sandbox.prepare())


@pytest.mark.skipif(not AS_ROOT, reason="this is how all the other tests ran")
@pytest.mark.skipif(not Path("/usr/bin/python3.11").exists(), reason="needs a Python that every user may run")
def test_it_works_for_a_user_without_privileges_and_hides_what_is_his_alone() -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name, tempfile.TemporaryDirectory(dir="/opt") as opt:
        for file, mode in (("private", 0o600), ("public", 0o644)):
            Path(opt, file).write_text(f"{file} ", encoding="utf-8")
            Path(opt, file).chmod(mode)
            os.chown(Path(opt, file), 65534, 65534)
        Path(opt).chmod(0o755)
        for package in (kakite, h11):
            source = Path(str(package.__file__)).parent
            shutil.copytree(source, f"{name}/{source.name}")
        for path in (Path(name), *Path(name).rglob("*")):
            os.chown(path, 65534, 65534)
        script = f"""
import asyncio
from pathlib import Path
from kakite.sandbox import open_sandbox
async def main():
    sandbox = open_sandbox("auto", Path("{name}/run"))
    await sandbox.prepare()
    script = "touch here; id -u; touch /etc/x; cat /etc/shadow; cat {name}/run/passwd; cat {opt}/*"
    done = await sandbox.exec(("bash", "-c", script), timeout=20)
    print(done.stdout.decode(), done.stderr.decode().count("\\n"), Path("{name}/run/project/here").exists())
asyncio.run(main())
"""
        drop = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        env = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "PYTHONPATH": name}
        done = subprocess.run(
            [*drop, "/usr/bin/python3.11", "-c", script], env=env, capture_output=True, check=False, cwd="/"
        )
        assert done.stdout == b"65534\npublic  3 True\n", done.stderr
