"""Programs end with whoever started them, whatever they do against it."""

from __future__ import annotations

import asyncio
import gc
import os
import py_compile
import queue
import signal
import subprocess
import sys
import threading
import time
import uuid
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.processes import (
    CompletedProcess,
    CpuActivity,
    ManagedProcess,
    ProcessError,
    ProcessSpec,
    build_base_environment,
    run,
    start,
    supervisor,
)
from kakite.processes.bytecode import find_bytecode
from kakite.processes.process import HeadTailCapture
from kakite.processes.spawn import run_in_thread
from tests.bounds import WITHIN, time_out

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

T = TypeVar("T")
LINUX = sys.platform == "linux"
pytestmark = pytest.mark.skipif(not LINUX, reason="looks for processes in /proc")

PATH = os.environ["PATH"]


def python(script: str) -> tuple[str, ...]:
    return (sys.executable, "-I", "-S", "-c", script)


def act(work: Coroutine[Any, Any, T], seconds: float = WITHIN) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(seconds):
            return await work

    return asyncio.run(bounded())


def having(mark: str) -> list[int]:
    """The living processes that carry the mark in their environment."""
    found: list[int] = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdecimal() and mark.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def until(condition: Any, seconds: float = WITHIN) -> bool:
    """Whether the condition comes true in time. A process of another process's cannot be awaited."""
    end = time.monotonic() + seconds
    while not (met := condition()) and time.monotonic() < end:
        os.sched_yield()
    return bool(met)


class Marked:
    """Makes launches whose processes can be found again."""

    def __init__(self, folder: Path) -> None:
        self.mark = uuid.uuid4().hex
        self.folder = folder

    def launch(self, *argv: str, **more: str) -> ProcessSpec:
        return ProcessSpec(argv=argv, env={"PATH": PATH, "MARK": self.mark, **more}, cwd=str(self.folder))

    def python(self, script: str) -> ProcessSpec:
        return self.launch(*python(script))

    def living(self) -> list[int]:
        return having(self.mark)


@pytest.fixture
def marked(tmp_path: Path) -> Iterator[Marked]:
    marked = Marked(tmp_path)
    yield marked
    left = marked.living()
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left, "the test left processes behind"


# Forks twice and begins a session of its own: nothing but adoption or a search finds it.
DAEMON = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        null = os.open("/dev/null", os.O_RDWR)
        for stream in range(3): os.dup2(null, stream)
        open("daemon", "w").close()
        time.sleep(300)
    os._exit(0)
os.wait()
while not os.path.exists("daemon"): time.sleep(0.005)
"""
STUBBORN = (
    "import signal, time; signal.signal(15, signal.SIG_IGN); print('here', flush=True); time.sleep(300)"
)


# The environment


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_only_named_variables_reach_a_program(environ: dict[str, str]) -> None:
    kept = build_base_environment(environ, "/home/of/task")
    assert kept["HOME"] == "/home/of/task"
    assert kept.pop("KAKITE_RUN") == "1"
    for name in kept:
        assert name in {"HOME", "PATH", "LANG", "LANGUAGE", "TERM", "TZ", "TMPDIR"} or name.startswith("LC_")
        assert name == "HOME" or kept[name] == environ.get(name, kept[name])


def test_a_poisoned_environment_gives_no_secret() -> None:
    secrets = ["OPENAI_API_KEY", "GITHUB_TOKEN", "SSH_AUTH_SOCK", "HTTPS_PROXY", "LC_TOKEN", "LD_PRELOAD"]
    poisoned = {**dict.fromkeys(secrets, "secret"), "PATH": "/bin", "LANG": "ja_JP.UTF-8", "LC_ALL": "C"}
    kept = build_base_environment(poisoned, "/h")
    assert kept == {"PATH": "/bin", "LANG": "ja_JP.UTF-8", "LC_ALL": "C", "HOME": "/h", "KAKITE_RUN": "1"}


def test_a_program_has_a_path_even_where_the_starter_has_none() -> None:
    assert "/usr/bin" in build_base_environment({}, "/h")["PATH"].split(":")


@pytest.mark.parametrize("env", [{}, {"A": "1"}, {"LC_CTYPE": "C"}, {"LANG": "C", "B": "ü\n"}])
def test_a_program_gets_the_launchs_environment_to_the_letter(env: dict[str, str], tmp_path: Path) -> None:
    done = act(run(ProcessSpec(argv=("/usr/bin/env", "-0"), env=env, cwd=str(tmp_path)), timeout=WITHIN))
    pairs = (pair.partition("=") for pair in done.stdout.decode().split("\0") if pair)
    assert {name: value for name, _, value in pairs} == env


def test_a_launch_does_not_show_its_environment() -> None:
    assert "hidden" not in repr(ProcessSpec(argv=("a",), env={"K": "hidden"}, cwd="/"))


# Running to the end


def test_a_run_gives_exit_code_and_both_streams(marked: Marked) -> None:
    done = act(run(marked.launch("sh", "-c", "cat; echo problem >&2; exit 3"), stdin=b"in\n", timeout=WITHIN))
    assert (done.exit_code, done.stdout, done.stderr, done.timed_out) == (3, b"in\n", b"problem\n", False)
    assert done.duration > 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGPIPE])
def test_death_by_a_signal_is_128_more_than_its_number(marked: Marked, number: int) -> None:
    done = act(run(marked.launch("sh", "-c", f"kill -{int(number)} $$"), timeout=WITHIN))
    assert done.exit_code == 128 + number


def test_a_program_starts_with_default_signals_and_no_file_but_its_streams(marked: Marked) -> None:
    script = "import os\nprint(sorted(os.listdir('/proc/self/fd'))); print(open('/proc/self/status').read())"
    done = act(run(marked.launch("/usr/bin/env", *python(script)), timeout=WITHIN)).stdout.decode()
    assert done.splitlines()[0] == "['0', '1', '2', '3']"  # 3 is the listing itself
    blocked = next(line for line in done.splitlines() if line.startswith("SigBlk"))
    assert int(blocked.split()[1], 16) == 0


def test_a_broken_pipe_ends_a_program_as_it_does_in_a_shell(marked: Marked) -> None:
    done = act(run(marked.launch("bash", "-c", "yes | head -n1; echo ${PIPESTATUS[0]}"), timeout=WITHIN))
    assert done.stdout == b"y\n141\n"


def test_a_flood_is_drained_and_its_head_and_tail_kept(marked: Marked) -> None:
    script = "import os\nfor data in [b'first', *[b'x' * 2**20] * 50, b'last']: os.write(1, data)"
    done = act(run(marked.python(script), timeout=60, limit=1000))
    assert done.exit_code == 0
    assert len(done.stdout) == 1000
    assert done.stdout.startswith(b"firstx")
    assert done.stdout.endswith(b"xlast")
    assert done.stdout_dropped == 50 * 2**20 + 9 - 1000
    assert done.stderr_dropped == 0


@given(st.lists(st.binary(max_size=50), max_size=20), st.integers(0, 40))
def test_what_is_kept_is_the_beginning_and_the_end(pieces: list[bytes], half: int) -> None:
    async def keep() -> tuple[bytes, int]:
        kept = HeadTailCapture("stdout", half, half)
        for piece in pieces:
            kept.data_received(piece)
        return kept.get_content(), kept.dropped

    whole = b"".join(pieces)
    content, dropped = act(keep())
    assert len(content) + dropped == len(whole)
    assert content == (whole if len(whole) <= 2 * half else whole[:half] + whole[len(whole) - half :])


def test_output_is_told_while_it_comes(marked: Marked) -> None:
    told: list[tuple[str, bytes]] = []
    script = "import sys; print('a', flush=True); print('b', file=sys.stderr, flush=True)"
    act(
        run(marked.python(script), timeout=WITHIN, on_output=lambda stream, data: told.append((stream, data)))
    )
    assert sorted(told) == [("stderr", b"b\n"), ("stdout", b"a\n")]


def test_a_program_that_reads_no_input_does_not_hang_the_run(marked: Marked) -> None:
    done = act(run(marked.launch("true"), stdin=b"x" * 10_000_000, timeout=WITHIN))
    assert (done.exit_code, done.timed_out) == (0, False)


def test_without_input_a_program_reads_the_end(marked: Marked) -> None:
    assert act(run(marked.launch("cat"), timeout=WITHIN)).exit_code == 0


def test_a_program_that_closes_its_output_is_awaited(marked: Marked) -> None:
    script = "import os, time; os.close(1); os.close(2); time.sleep(0.3); os._exit(7)"
    assert act(run(marked.python(script), timeout=WITHIN)).exit_code == 7


# Time-outs and cancellation


def test_a_timeout_gives_what_was_written_so_far(marked: Marked) -> None:
    launch = marked.launch("sh", "-c", "echo before; sleep 300; echo after")
    done = time_out(lambda seconds: act(run(launch, timeout=seconds)))
    assert (done.timed_out, done.exit_code, done.stdout) == (True, None, b"before\n")
    assert not marked.living()


def test_a_program_may_clean_up_at_a_timeout(marked: Marked) -> None:
    launch = marked.launch("bash", "-c", "trap 'echo bye; exit' TERM; echo here; sleep 300 & wait")
    done = time_out(lambda seconds: act(run(launch, timeout=seconds)))
    assert (done.timed_out, done.stdout) == (True, b"here\nbye\n")


def test_a_program_that_ignores_sigterm_is_killed(marked: Marked) -> None:
    done = time_out(lambda seconds: act(run(marked.python(STUBBORN), timeout=seconds)))
    assert (done.timed_out, done.stdout) == (True, b"here\n")
    assert not marked.living()


def test_a_stopped_program_is_ended(marked: Marked) -> None:
    act(run(marked.launch("sh", "-c", "kill -STOP $$"), timeout=0.3))
    assert not marked.living()


@pytest.mark.parametrize("script", [STUBBORN, DAEMON + "time.sleep(300)"])
def test_a_timeout_leaves_nothing_even_of_daemons(marked: Marked, script: str) -> None:
    act(run(marked.python(script), timeout=0.5))
    assert not marked.living()


def test_a_cancelled_run_leaves_nothing_and_stays_cancelled(marked: Marked) -> None:
    async def cancel_twice() -> None:
        here = asyncio.Event()
        work = asyncio.create_task(
            run(marked.python(STUBBORN), timeout=None, on_output=lambda _, __: here.set())
        )
        await here.wait()
        work.cancel()
        await asyncio.sleep(0)
        work.cancel()  # impatience does not shorten the cleaning up
        with pytest.raises(asyncio.CancelledError):
            await work
        assert work.cancelled()

    act(cancel_twice())
    assert not marked.living()


@pytest.mark.slow
def test_a_cancelled_anyio_scope_leaves_nothing(marked: Marked) -> None:
    async def cancel() -> bool:
        with anyio.move_on_after(0.5) as scope:
            await run(marked.python(STUBBORN), timeout=None)
        return scope.cancelled_caught

    assert act(cancel())
    assert not marked.living()


def test_programs_run_side_by_side(marked: Marked) -> None:
    async def all_of_them() -> list[CompletedProcess]:
        return await asyncio.gather(*(run(marked.launch("echo", str(n)), timeout=WITHIN) for n in range(20)))

    assert [done.stdout for done in act(all_of_them())] == [f"{n}\n".encode() for n in range(20)]


def test_programs_run_from_any_thread(marked: Marked) -> None:
    with ThreadPoolExecutor() as threads:
        done = threads.submit(lambda: act(run(marked.launch("echo", "hi"), timeout=WITHIN))).result()
    assert done.stdout == b"hi\n"


def test_a_loop_that_shuts_down_leaves_nothing(marked: Marked) -> None:
    async def abandon() -> None:
        here = asyncio.Event()
        abandoned = asyncio.create_task(
            run(marked.python(STUBBORN), timeout=None, on_output=lambda _, __: here.set())
        )
        await here.wait()
        assert not abandoned.done()

    act(abandon())
    assert until(lambda: not marked.living())


# What programs leave behind


def test_a_daemon_does_not_outlive_a_run_that_ends_well(marked: Marked) -> None:
    assert act(run(marked.python(DAEMON), timeout=WITHIN)).exit_code == 0
    assert (marked.folder / "daemon").exists()
    assert not marked.living()


def test_a_child_that_holds_the_pipe_does_not_hang_the_run(marked: Marked) -> None:
    done = act(run(marked.launch("sh", "-c", "sleep 300 & echo done"), timeout=WITHIN))
    assert (done.exit_code, done.stdout, done.timed_out) == (0, b"done\n", False)
    assert not marked.living()


def test_a_child_that_ends_soon_after_may_finish_its_output(marked: Marked) -> None:
    script = "(while kill -0 $$ 2> /dev/null; do :; done; echo late) & echo early"
    done = act(run(marked.launch("sh", "-c", script), timeout=WITHIN))
    assert done.stdout == b"early\nlate\n"


def test_a_storm_of_forks_is_ended(marked: Marked) -> None:
    script = "import os, time\nwhile True:\n if os.fork(): time.sleep(0.01); os._exit(0)\n os.setsid()"
    act(run(marked.python(script), timeout=0.5))
    assert not marked.living()


def test_a_hundred_children_are_ended(marked: Marked) -> None:
    act(run(marked.launch("bash", "-c", "for i in {1..100}; do setsid sleep 300 & done; wait"), timeout=1))
    assert not marked.living()


# What could not be started


def test_a_missing_program_is_an_error(marked: Marked) -> None:
    for name in ("no-such-program", "./no-such-program", "./no\0such"):
        with pytest.raises(ProcessError) as caught:
            act(run(marked.launch(name), timeout=WITHIN))
        assert caught.value.code == "program_missing"


@pytest.mark.parametrize("name", ["./plain", "./folder", "plain"])
def test_what_is_there_and_is_no_program_is_not_called_missing(marked: Marked, name: str) -> None:
    (marked.folder / "plain").write_text("text", encoding="utf-8")
    (marked.folder / "folder").mkdir()
    with pytest.raises(ProcessError) as caught:
        act(run(marked.launch(name, PATH=str(marked.folder)), timeout=WITHIN))
    assert caught.value.code == "not_executable"


def test_a_missing_folder_is_an_error(marked: Marked) -> None:
    with pytest.raises(ProcessError) as caught:
        act(run(ProcessSpec(argv=("true",), env={}, cwd="/no/such/folder"), timeout=WITHIN))
    assert caught.value.code == "folder_missing"


def test_nothing_at_all_is_an_error(marked: Marked) -> None:
    with pytest.raises(ProcessError) as caught:
        act(run(marked.launch(), timeout=WITHIN))
    assert caught.value.code == "program_missing"


RUN = "await run(launch, timeout=20)"
START = "child = await start(launch); await child.stop()"


@pytest.mark.slow
@pytest.mark.parametrize("spare", range(10))
@pytest.mark.parametrize("how", [RUN, START], ids=["run", "start"])
def test_no_file_left_to_open_is_an_error_and_leaves_nothing(marked: Marked, how: str, spare: int) -> None:
    script = f"""
import asyncio, os, resource
from kakite.processes import ProcessSpec, ProcessError, run, start
async def main():
    launch = ProcessSpec(argv=("true",), env=dict(os.environ), cwd="/")
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) - 1 + {spare}, 100))
    try:
        {how}
        print("enough")
    except ProcessError as error:
        print(error.code)
asyncio.run(main())
"""
    source = str(Path(supervisor.__file__).parents[2])
    env = {"PATH": PATH, "PYTHONPATH": source, "MARK": marked.mark}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, check=False)
    assert (done.stdout in {b"enough\n", b"program_failed\n"}, done.stderr) == (True, b"")


def test_an_impossible_argument_is_an_error(marked: Marked) -> None:
    with pytest.raises(ProcessError) as caught:
        act(run(marked.launch("echo", "a\0b"), timeout=WITHIN))
    assert caught.value.code == "program_failed"


def test_a_program_is_found_relative_to_its_folder(marked: Marked) -> None:
    script = marked.folder / "hello"
    script.write_text("#!/bin/sh\necho hello\n", encoding="utf-8")
    script.chmod(0o755)
    assert act(run(marked.launch("./hello"), timeout=WITHIN)).stdout == b"hello\n"


def test_a_file_that_is_no_program_says_so_as_in_a_shell(marked: Marked) -> None:
    script = marked.folder / "nonsense"
    script.write_text("no first line that names a program", encoding="utf-8")
    script.chmod(0o755)
    done = act(run(marked.launch("./nonsense"), timeout=WITHIN))
    assert done.exit_code == 126
    assert b"nonsense" in done.stderr


# Children that stay


async def talk(child: ManagedProcess, line: bytes) -> bytes:
    child.stdin.write(line)
    await child.stdin.drain()
    return await child.stdout.readline()


def test_a_child_answers_and_ends_when_its_input_closes(marked: Marked) -> None:
    async def echo() -> tuple[bytes, int | None]:
        child = await start(marked.launch("cat"))
        assert child.returncode is None
        answer = await talk(child, b"hello\n")
        assert child.pid in marked.living()  # it answered, so that it runs what it was started for
        await child.stop()
        return answer, child.returncode

    assert act(echo()) == (b"hello\n", 0)  # not killed: the signals make another code
    assert not marked.living()


def test_a_child_that_closes_its_output_is_seen_to_do_so(marked: Marked) -> None:
    async def close() -> tuple[bytes, int | None]:
        child = await start(marked.python("import os, time; os.close(1); time.sleep(300)"))
        end, code = await child.stdout.read(), child.returncode
        await child.stop()
        return end, code

    assert act(close()) == (b"", None)


def test_a_long_line_passes(marked: Marked) -> None:
    async def echo() -> bytes:
        child = await start(marked.launch("cat"))
        asking = asyncio.create_task(talk(child, b"x" * 5_000_000 + b"\n"))
        answer = await asking
        await child.stop()
        return answer

    assert len(act(echo())) == 5_000_001


def test_stderr_is_drained_and_its_end_kept(marked: Marked) -> None:
    script = "import os, sys\nfor data in [b'x' * 10**7, b'the end']: os.write(2, data)\nprint(1, flush=True)"

    async def listen() -> str:
        child = await start(marked.python(script))
        assert await child.stdout.readline() == b"1\n"
        await child.stop()
        return child.get_stderr_tail()

    tail = act(listen())
    assert tail.endswith("xthe end")
    assert len(tail) == 64 * 1024


@pytest.mark.slow
def test_a_child_that_ignores_everything_is_killed(marked: Marked) -> None:
    async def stop() -> int | None:
        child = await start(marked.python(STUBBORN))
        await child.stdout.readline()
        await child.stop()
        await child.stop()  # the second time does nothing
        return child.returncode

    assert act(stop()) == 128 + signal.SIGKILL
    assert not marked.living()


def test_a_child_is_stopped_as_patiently_as_asked_for(marked: Marked) -> None:
    async def work() -> float:
        child = await start(marked.python(STUBBORN))
        await child.stdout.readline()
        began = time.monotonic()
        await child.stop(0.2)
        return time.monotonic() - began

    assert act(work()) >= 0.4


def test_a_child_is_killed_at_once_when_asked_for(marked: Marked) -> None:
    async def work() -> None:
        child = await start(marked.python(STUBBORN))
        await child.stdout.readline()
        child.kill()
        assert await child.wait() == 128 + signal.SIGKILL
        await child.stop()

    act(work())


def test_what_a_child_writes_to_stderr_is_told_while_it_comes(marked: Marked) -> None:
    told: list[bytes] = []

    async def work() -> str:
        launch = marked.python("import sys; sys.stderr.write('hello')")
        child = await start(launch, on_stderr=lambda _, data: told.append(data))
        await child.wait()
        await child.stop()
        return child.get_stderr_tail()

    assert (act(work()), b"".join(told)) == ("hello", b"hello")


def test_a_child_at_work_is_told_from_one_that_waits(marked: Marked) -> None:
    async def work(script: str) -> tuple[CpuActivity, CpuActivity]:
        child = await start(marked.python(script))
        await child.stdout.readline()
        before = child.measure_activity()
        with anyio.move_on_after(0.5):
            await child.wait()
        after = child.measure_activity()
        await child.stop(0.1)
        assert child.measure_activity() == CpuActivity(cpu=0, running=False)
        return before, after

    before, after = act(work("print(flush=True)\nwhile True: pass"))
    assert after.cpu > before.cpu
    before, after = act(work("print(flush=True); input()"))
    assert (after.cpu, after.running) == (before.cpu, False)


def test_a_child_that_leaves_on_eof_leaves_no_daemon(marked: Marked) -> None:
    async def stop() -> None:
        child = await start(marked.python(DAEMON + "print(1, flush=True); input()"))
        await child.stdout.readline()
        await child.stop()

    act(stop())
    assert not marked.living()


@pytest.mark.slow
def test_a_cancelled_stop_still_stops(marked: Marked) -> None:
    async def stop() -> None:
        child = await start(marked.python(STUBBORN))
        await child.stdout.readline()
        stopping = asyncio.create_task(child.stop())
        await asyncio.sleep(0)
        stopping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopping
        assert child.returncode is not None

    act(stop())
    assert not marked.living()


def test_a_child_that_dies_by_itself_can_be_awaited(marked: Marked) -> None:
    async def wait() -> tuple[int, bytes]:
        child = await start(marked.launch("sh", "-c", "echo last words; exit 9"))
        code = await child.wait()
        words = await child.stdout.read()
        await child.stop()
        return code, words

    assert act(wait()) == (9, b"last words\n")


@pytest.mark.slow
def test_a_hundred_starts_and_stops_leave_no_process_no_file_and_no_warning(marked: Marked) -> None:
    async def cycles() -> tuple[int, int]:
        await once()
        before = open_files()
        for _ in range(100):
            await once()
        return before, open_files()

    async def once() -> None:
        child = await start(marked.launch("cat"))
        assert await talk(child, b"a\n") == b"a\n"
        await child.stop()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before, after = act(cycles(), 60)
        gc.collect()
    assert after == before
    assert not marked.living()


# The starter dies

STARTER = """
import asyncio, os, signal, sys, time
from kakite.processes import ProcessSpec, run, start
async def main():
    launch = ProcessSpec(argv=tuple(sys.argv[2:]), env=dict(os.environ), cwd=os.getcwd())
    if sys.argv[1] == "fork":
        child = await start(launch)
        await child.stdout.readline()
        if (fork := os.fork()) == 0:
            os.close(1)
            time.sleep(300)
        print(fork, flush=True)
        await child.wait()
    elif sys.argv[1] == "start":
        child = await start(launch)
        print((await child.stdout.readline()).decode(), end="", flush=True)
        await child.wait()
    else:
        await run(launch, timeout=None, on_output=lambda s, d: print(d.decode(), end="", flush=True))
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
asyncio.run(main())
"""


def starter(marked: Marked, how: str, script: str) -> subprocess.Popen[bytes]:
    source = Path(supervisor.__file__).parents[2]
    env = {"PATH": PATH, "MARK": marked.mark, "PYTHONPATH": str(source)}
    argv = [sys.executable, "-c", STARTER, how, *python(script)]
    return subprocess.Popen(argv, env=env, cwd=marked.folder, stdout=subprocess.PIPE)


@pytest.mark.parametrize("how", ["start", "run"])
@pytest.mark.parametrize("script", [STUBBORN, DAEMON + STUBBORN], ids=["stubborn", "daemon"])
def test_kill_9_of_the_starter_leaves_nothing(marked: Marked, how: str, script: str) -> None:
    with starter(marked, how, script) as host:
        assert host.stdout is not None
        assert host.stdout.readline() == b"here\n"
        host.kill()
    assert until(lambda: not marked.living())


def test_ctrl_c_in_the_starter_leaves_nothing(marked: Marked) -> None:
    with starter(marked, "run", DAEMON + STUBBORN) as host:
        assert host.stdout is not None
        assert host.stdout.readline() == b"here\n"
        host.send_signal(signal.SIGINT)
        host.stdout.read()
    assert not marked.living()


def test_a_fork_of_the_starter_does_not_keep_its_programs_alive(marked: Marked) -> None:
    with starter(marked, "fork", STUBBORN) as host:
        assert host.stdout is not None
        fork = int(host.stdout.readline())
        host.kill()
    assert until(lambda: marked.living() == [fork])
    os.kill(fork, signal.SIGKILL)
    assert until(lambda: not marked.living())


def test_a_program_dies_with_a_murdered_supervisor(marked: Marked) -> None:
    async def murder() -> int:
        child = await start(marked.python(STUBBORN))
        await child.stdout.readline()
        os.kill(child.pid, signal.SIGKILL)
        code = await child.wait()
        await child.stop()
        return code

    assert act(murder()) == 128 + signal.SIGKILL
    assert until(lambda: not marked.living())


def test_a_stopped_supervisor_is_woken_to_end_its_program(marked: Marked) -> None:
    act(run(marked.launch("sh", "-c", "kill -STOP $PPID; exec sleep 300"), timeout=0.3))
    assert not marked.living()


def test_without_pidfd_a_program_is_watched_all_the_same(
    marked: Marked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    done = act(run(marked.launch("sh", "-c", "echo a; exit 4"), timeout=WITHIN))
    assert (done.exit_code, done.stdout) == (4, b"a\n")


def contained(marked: Marked, script: str) -> ProcessSpec:
    launch = marked.python(script)
    return ProcessSpec(argv=launch.argv, env=launch.env, cwd=launch.cwd, contained=True)


def test_a_contained_program_is_started_directly(marked: Marked) -> None:
    done: CompletedProcess = act(
        run(contained(marked, f"import os; print(os.getppid() == {os.getpid()})"), timeout=WITHIN)
    )
    assert done.stdout == b"True\n"


def test_a_contained_program_is_killed_with_its_group(marked: Marked) -> None:
    done = act(run(contained(marked, "import os\nos.fork()\n" + STUBBORN), timeout=0.3))
    assert done.timed_out
    assert not marked.living()


# The supervisor's parts


def test_a_script_is_run_as_it_was_compiled_as_long_as_that_is_of_now(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("print(1)\n", encoding="utf-8")
    assert find_bytecode(script) == script
    made = Path(py_compile.compile(str(script), doraise=True) or "")
    assert find_bytecode(script) == made
    script.write_text("print(12)\n", encoding="utf-8")
    assert find_bytecode(script) == script
    made = Path(py_compile.compile(str(script), doraise=True) or "")
    for content in (b"", made.read_bytes()[:15], b"x" + made.read_bytes()[1:]):
        made.write_bytes(content)
        assert find_bytecode(script) == script
    by_hash = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(script), doraise=True, invalidation_mode=by_hash)
    assert find_bytecode(script) == script


CARRIER = """
import os, subprocess, time
helper = subprocess.Popen(["cat"], stdin=subprocess.PIPE) if {helped} else None
print("here", flush=True)
while not os.path.exists("asked"):
    time.sleep(0.01)
time.sleep(0.2)
if helper:
    helper.communicate()
if not helper or helper.returncode == 0:
    print("bye", flush=True)
"""


@pytest.mark.parametrize("helped", [False, True])
def test_what_carries_a_program_elsewhere_is_heard_to_its_end(marked: Marked, helped: bool) -> None:
    asked = marked.folder / "asked"
    script = CARRIER.format(helped=helped)
    carrier = replace(marked.python(script), contained=True, end=asked.touch)

    async def talk() -> bytes:
        child = await start(carrier)
        assert await child.stdout.readline() == b"here\n"
        stopping = asyncio.create_task(child.stop())
        answer = await child.stdout.readline()
        await stopping
        return answer

    assert act(talk()) == b"bye\n"


@pytest.mark.slow
def test_what_carries_a_program_elsewhere_is_killed_when_that_does_not_end(marked: Marked) -> None:
    carrier = replace(marked.launch("sleep", "300"), contained=True, end=lambda: None)

    async def stop() -> int | None:
        child = await start(carrier)
        await child.stop()
        return child.returncode

    assert act(stop()) == 128 + signal.SIGKILL


def test_descendants_are_found_nearest_first() -> None:
    with subprocess.Popen(["sh", "-c", "sleep 300 & echo $!; wait"], stdout=subprocess.PIPE) as shell:
        assert shell.stdout is not None
        sleeper = int(shell.stdout.readline())
        found = supervisor.list_descendants(os.getpid())
        assert found.index(shell.pid) < found.index(sleeper)
        assert supervisor.list_descendants(shell.pid) == [sleeper]
        supervisor.send_all([sleeper, shell.pid, 2**22 + 1], signal.SIGKILL)


class PostedLoop(asyncio.SelectorEventLoop):
    """A loop that tells when a thread has given it something to do."""

    posted: threading.Event

    def call_soon_threadsafe(self, *arguments: Any, **more: Any) -> asyncio.Handle:
        """Note it."""
        handle = super().call_soon_threadsafe(*arguments, **more)
        self.posted.set()
        return handle


def test_a_result_that_comes_as_the_loop_ends_is_let_go() -> None:
    let_go: queue.Queue[int] = queue.Queue()
    may_end = threading.Event()
    loop = PostedLoop()
    loop.posted = threading.Event()

    def work() -> int:
        assert may_end.wait(WITHIN)
        return 7

    async def begin() -> None:
        run_in_thread(work, let_go.put).cancel()

    loop.run_until_complete(begin())
    loop.posted.clear()
    may_end.set()
    assert loop.posted.wait(WITHIN)
    loop.close()
    assert let_go.get(timeout=WITHIN) == 7
