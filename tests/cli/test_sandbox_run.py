"""``kakite sandbox run``: a command of the person's in the sandbox that sessions have."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import time
from pathlib import Path
from uuid import uuid4

import pytest

from kakite.sandbox import SandboxError, try_out
from tests.bounds import WITHIN
from tests.cli.program import argv, environment, kakite
from tests.host.making import marked

pytestmark = pytest.mark.slow


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a home with a private file and a project, on a machine that has bubblewrap."""
    try:
        asyncio.run(try_out("bubblewrap"))
    except SandboxError as error:
        pytest.skip(f"bubblewrap does not work here: {error}")
    (tmp_path / "home/project/.git/hooks").mkdir(parents=True)
    (tmp_path / "home/project/.git/HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    (tmp_path / "home/private").write_text("private", encoding="utf-8")
    return tmp_path / "home"


def run(home: Path, *words: str) -> tuple[int, str, str]:
    done = kakite("sandbox", "run", "--sandbox", "bubblewrap", *words, home=home, cwd=home / "project")
    return done.code, done.stdout, done.stderr


def test_a_command_works_in_the_folder_and_sees_nothing_else_of_the_person(place: Path) -> None:
    script = f"echo out; echo err >&2; echo new > made; cat {place}/private; exit 7"
    code, out, err = run(place, "--", "sh", "-c", script)
    assert (code, out) == (7, "out\n")
    assert err.startswith("err\n")
    assert "private" not in out
    assert (place / "project/made").read_text(encoding="utf-8") == "new\n"


def test_what_git_obeys_stays_as_it_is(place: Path) -> None:
    code, _, _ = run(place, "--", "sh", "-c", "echo bad > .git/hooks/pre-commit")
    assert code != 0
    assert not list((place / "project/.git/hooks").iterdir())


def test_options_after_the_dashes_are_the_commands(place: Path) -> None:
    code, out, _ = run(place, "--", "printf", "%s.", "--network", "open", "-C", "x")
    assert (code, out) == (0, "--network.open.-C.x.")


@pytest.mark.parametrize(("words", "heard"), [(("-i",), "語\n"), ((), "")])
def test_standard_input_is_given_where_it_is_asked_for(
    place: Path, words: tuple[str, ...], heard: str
) -> None:
    done = subprocess.run(
        argv("sandbox", "run", "--sandbox", "bubblewrap", *words, "--", "cat"),
        cwd=place / "project",
        env=environment(place),
        input="語\n",
        capture_output=True,
        encoding="utf-8",
        timeout=WITHIN,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, heard)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("-C", "gone", "--", "true"), 2),
        (("--network", "wide", "--", "true"), 2),
        (("--host", "https://x/", "--", "true"), 2),
        ((), 2),
        (("--", "no-such-program"), 127),
    ],
)
def test_what_cannot_be_run_is_told_by_the_exit_code(place: Path, words: tuple[str, ...], code: int) -> None:
    assert run(place, *words)[0] == code


def test_a_command_ends_with_us(place: Path) -> None:
    mark = uuid4().hex
    script = f"echo $$ > began; MARK={mark} sleep 1000"
    words = argv("sandbox", "run", "--sandbox", "bubblewrap", "--", "sh", "-c", script)
    program = subprocess.Popen(words, cwd=place / "project", env=environment(place))
    try:
        until = time.monotonic() + WITHIN
        while not (place / "project/began").exists():
            assert time.monotonic() < until
            assert program.poll() is None
            time.sleep(0.02)
        while not marked(mark):
            assert time.monotonic() < until
            time.sleep(0.02)
        program.send_signal(signal.SIGTERM)
        assert program.wait(WITHIN) == 130
    finally:
        program.kill()
        program.wait(WITHIN)
    while marked(mark):
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_command_ends_when_nobody_reads_what_it_says(place: Path) -> None:
    words = argv("sandbox", "run", "--sandbox", "bubblewrap", "--", "yes")
    program = subprocess.Popen(
        words,
        cwd=place / "project",
        env=environment(place),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert program.stdout
    assert program.stderr
    try:
        assert program.stdout.read(2) == b"y\n"
        program.stdout.close()
        assert program.wait(WITHIN) == 141
        assert b"Traceback" not in program.stderr.read()
    finally:
        program.kill()
        program.wait(WITHIN)
        program.stderr.close()


def test_without_isolation_it_is_run_only_where_that_is_asked_for_here(tmp_path: Path) -> None:
    (tmp_path / "home/project").mkdir(parents=True)
    home, local = tmp_path / "home", {"KAKITE_SANDBOX": "local"}
    words = ("sandbox", "run", "--", "true")
    assert kakite(*words, home=home, cwd=home / "project", env=local).code == 2
    assert kakite("sandbox", "run", "--sandbox", "local", "--", "true", home=home, env=local).code == 0
