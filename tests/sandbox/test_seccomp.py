"""System calls that programs in bubblewrap are not given, each asked for by a real program."""

from __future__ import annotations

import asyncio
import errno
import platform
import shutil
import signal
import sys
from typing import TYPE_CHECKING

import pytest
from tests.sandbox.conftest import open_bubblewrap

from kakite.sandbox import SandboxError
from kakite.sandbox.backends import seccomp
from kakite.sandbox.inside import probe

if TYPE_CHECKING:
    from pathlib import Path

    from tests.sandbox.conftest import Place

pytestmark = pytest.mark.skipif(
    platform.machine() not in {"x86_64", "aarch64"}, reason="the numbers of calls are listed for two machines"
)


@pytest.fixture(scope="module")
def bubblewrap(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return open_bubblewrap(tmp_path_factory.mktemp("seccomp"))


CALL = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
words = [ctypes.c_long(int(word, 0)) for word in sys.argv[1:]]
result = libc.syscall(*words)
print(ctypes.get_errno() if result == -1 else 0)
"""

DENIED = (
    *("add_key", "keyctl", "bpf", "perf_event_open", "userfaultfd", "kexec_load", "kexec_file_load"),
    *(
        "init_module",
        "finit_module",
        "delete_module",
        "reboot",
        "swapon",
        "clock_settime",
        "acct",
        "quotactl",
    ),
    *("syslog", "mount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "mount_setattr"),
    *("fsopen", "open_by_handle_at", "setns", "sethostname"),
)


def error_of(place: Place, call: str | int, *arguments: int) -> int:
    """Return the number of the error that a call inside ends with, 0 if it does what it says."""
    number = probe.NUMBERS[call] if isinstance(call, str) else call
    done = place.python(CALL, arguments=(str(number), *map(str, arguments)))
    assert done.exit_code == 0, done.stderr
    return int(done.stdout)


@pytest.mark.parametrize("call", DENIED)
def test_a_denied_call_is_not_permitted(bubblewrap: Place, call: str) -> None:
    # The arguments are wrong on purpose: whoever reached the kernel would hear of that.
    assert error_of(bubblewrap, call, -1, -1, -1, -1, -1) == errno.EPERM


@pytest.mark.parametrize("call", ["io_uring_setup", "clone3", 470, 511])
def test_calls_with_another_way_and_calls_to_come_are_not_there(bubblewrap: Place, call: str | int) -> None:
    assert error_of(bubblewrap, call, 0, 0) == errno.ENOSYS


@pytest.mark.parametrize("flag", [0x20000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x40000000, 0x80])
def test_no_namespace_is_made_by_unshare(bubblewrap: Place, flag: int) -> None:
    assert error_of(bubblewrap, "unshare", flag) == errno.EPERM
    assert error_of(bubblewrap, "unshare", flag | 0x200) == errno.EPERM


@pytest.mark.parametrize("flag", [0x20000, 0x10000000, 0x20000000, 0x40000000])
def test_no_namespace_is_made_by_clone(bubblewrap: Place, flag: int) -> None:
    assert error_of(bubblewrap, "clone", flag | signal.SIGCHLD, 0, 0, 0, 0) == errno.EPERM


def test_what_programs_share_can_be_unshared(bubblewrap: Place) -> None:
    assert error_of(bubblewrap, "unshare", 0x200 | 0x400) == 0


SOCKETS = """
import socket, sys
try:
    socket.socket(*map(int, sys.argv[1:]))
except OSError as error:
    print(error.errno)
else:
    print(0)
"""


@pytest.mark.parametrize("domain", [0, 3, 5, 9, 15, 17, 21, 29, 31, 38, 40, 44, 45, 2**31 - 1])
def test_only_usual_domains_have_sockets(bubblewrap: Place, domain: int) -> None:
    done = bubblewrap.python(SOCKETS, arguments=(str(domain), "2"))
    assert done.stdout.decode().strip() == str(errno.EAFNOSUPPORT)


@pytest.mark.parametrize(("domain", "kind", "protocol"), [(1, 1, 0), (2, 1, 0), (10, 2, 0), (16, 3, 0)])
def test_usual_sockets_are_made(bubblewrap: Place, domain: int, kind: int, protocol: int) -> None:
    words = tuple(map(str, (domain, kind, protocol)))
    assert bubblewrap.python(SOCKETS, arguments=words).stdout == b"0\n"


@pytest.mark.parametrize("protocol", [2, 4, 6, 9, 10, 12, 15, 16])
def test_netlink_tells_of_addresses_alone(bubblewrap: Place, protocol: int) -> None:
    done = bubblewrap.python(SOCKETS, arguments=("16", "3", str(protocol)))
    assert done.stdout.decode().strip() == str(errno.EPROTONOSUPPORT)


@pytest.mark.parametrize("request_number", [0x5412, 0x541C, 0x100005412, 0xFFFFFFFF00005412])
def test_nothing_is_typed_into_a_terminal(bubblewrap: Place, request_number: int) -> None:
    script = """
import ctypes, os, sys
ours, theirs = os.openpty()
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall(ctypes.c_long(int(sys.argv[2])), ctypes.c_long(theirs), ctypes.c_ulong(int(sys.argv[1])), b"x")
print(ctypes.get_errno())
"""
    ioctl = {"x86_64": "16", "aarch64": "29"}[platform.machine()]
    done = bubblewrap.python(script, arguments=(str(request_number), ioctl))
    assert done.stdout.decode().strip() == str(errno.EPERM), done.stderr


@pytest.mark.parametrize(
    ("persona", "allowed"),
    [
        (0, True),
        (0xFFFFFFFF, True),  # only a question
        (0x40000, True),  # what debuggers set
        (0x20008, True),
        (0x0400000, False),  # what is readable can be run
        (0x0100000, False),  # pages at address 0
        (0x1, False),
        (0x4, False),
        (0xFFFFFFFE, False),
        (0xFFFBFFFF, False),
        (0x7FFFFFFF, False),
    ],
)
def test_a_program_changes_its_persona_as_debuggers_do_alone(
    bubblewrap: Place, persona: int, *, allowed: bool
) -> None:
    assert error_of(bubblewrap, "personality", persona) == (0 if allowed else errno.EPERM)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="another machine has no such calls")
@pytest.mark.parametrize(
    "code",
    [
        b"\xb8\x14\x00\x00\x00\xcd\x80\xc3",  # mov eax, 20; int 0x80: getpid of 32 bits
        b"\xb8\x27\x00\x00\x40\x0f\x05\xc3",  # mov eax, 0x40000027; syscall: getpid of x32
    ],
)
def test_calls_of_other_architectures_end_the_program(bubblewrap: Place, code: bytes) -> None:
    script = f"""
import ctypes, mmap
room = mmap.mmap(-1, 4096, prot=7); room.write({code!r})
ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(room)))()
"""
    assert bubblewrap.python(script).exit_code == 128 + signal.SIGSYS


@pytest.mark.parametrize(
    ("program", "script", "expected"),
    [
        ("node", "node -e 'new Promise(r => setTimeout(r, 5)).then(() => console.log(6 * 7))'", b"42\n"),
        ("git", "git init -q . && touch x && git add x && git status -s > y && echo 42", b"42\n"),
        ("gcc", "echo 'int main(void) { return 42; }' > a.c && gcc a.c && ./a.out; echo $?", b"42\n"),
        ("make", "printf 'all: ; @echo 42' > Makefile; make -j4", b"42\n"),
        ("perl", "perl -e 'my @a = map { fork // exit } 1..2; print 42, chr 10 if $a[0] && $a[1]'", b"42\n"),
    ],
)  # fmt: skip
def test_ordinary_programs_work(bubblewrap: Place, program: str, script: str, expected: bytes) -> None:
    if not shutil.which(program):
        pytest.skip(f"{program} is not installed")
    done = bubblewrap.sh(script)
    assert done.stdout == expected, done.stderr


def test_a_debugger_works_on_its_own_program(bubblewrap: Place) -> None:
    if not shutil.which("gdb"):
        pytest.skip("gdb is not installed")
    done = bubblewrap.run("gdb", "-nx", "-batch", "-ex", "break main", "-ex", "run", "/bin/true", timeout=60)
    start = bubblewrap.run(
        "gdb", "-nx", "-batch", "-ex", "starti", "-ex", "info registers", "/bin/true", timeout=60
    )
    assert b"Program stopped" in start.stdout, (start.stderr, done.stderr)


def test_python_has_threads_processes_and_an_event_loop(bubblewrap: Place) -> None:
    script = """
import asyncio, concurrent.futures, multiprocessing, os, subprocess, sys, threading
with concurrent.futures.ThreadPoolExecutor(4) as pool: assert sum(pool.map(len, ["ab"] * 8)) == 16
with multiprocessing.get_context("fork").Pool(2) as pool: assert pool.map(len, ["ab"]) == [2]
async def main():
    child = await asyncio.create_subprocess_exec("echo", "42", stdout=subprocess.PIPE)
    print((await child.communicate())[0].decode(), end="")
asyncio.run(main())
"""
    done = bubblewrap.run(sys.executable, "-I", "-c", script)
    assert done.stdout == b"42\n", done.stderr


def test_without_the_library_a_sandbox_cannot_be_made(
    bubblewrap: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(seccomp, "LIBRARY", str(tmp_path / "libseccomp.so.2"))
    seccomp.compile_filter.cache_clear()
    try:
        with pytest.raises(SandboxError) as caught:
            seccomp.compile_filter()
    finally:
        monkeypatch.undo()
        seccomp.compile_filter.cache_clear()
    assert caught.value.code == "sandbox_missing"
    assert "libseccomp" in caught.value.hint


@pytest.mark.slow
@pytest.mark.parametrize("left", [None, b"", b"\xff" * 64])
def test_without_a_list_that_works_nothing_starts(bubblewrap: Place, left: bytes | None) -> None:
    filters = bubblewrap.folder / "seccomp"
    filters.unlink() if left is None else filters.write_bytes(left)
    try:
        with pytest.raises(SandboxError):
            bubblewrap.run("true")
    finally:
        asyncio.run(bubblewrap.sandbox.prepare())
