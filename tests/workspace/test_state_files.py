"""Files that processes share are whole, nobody else's, and never follow a link."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.bounds import WITHIN

from kakite import state_files
from kakite.host.oauth.token_store import CredentialsError, OAuthCredentials, TokenFile
from kakite.host.policy.rules import Rule, RulesError, RuleStore

REPLACING = """
import sys
from pathlib import Path
from kakite import state_files

file = Path(sys.argv[1])
print("begun", flush=True)
while True:
    for letter in b"ab":
        state_files.replace(file, bytes([letter]) * 300_000)
"""


def test_killed_at_any_moment_the_old_or_the_new_is_there_whole(tmp_path: Path) -> None:
    file = tmp_path / "f"
    state_files.replace(file, b"a" * 300_000)
    for _ in range(6):
        writer = subprocess.Popen([sys.executable, "-c", REPLACING, str(file)], stdout=subprocess.PIPE)
        assert writer.stdout
        writer.stdout.readline()
        seen = state_files.read_stamp(file)
        until = time.monotonic() + WITHIN
        while state_files.read_stamp(file) == seen:
            assert time.monotonic() < until
        writer.send_signal(signal.SIGKILL)
        writer.wait(WITHIN)
        writer.stdout.close()
        assert state_files.read(file, 1 << 20) in {b"a" * 300_000, b"b" * 300_000}
    for left in tmp_path.glob(".f.*"):
        os.utime(left, (0, 0))
    state_files.replace(file, b"new")
    assert list(tmp_path.iterdir()) == [file], "what was abandoned is removed"


COUNTING = """
import sys
from pathlib import Path
from kakite import state_files

file = Path(sys.argv[1])
sys.stdin.read()
for _ in range(40):
    with state_files.lock_file(file.with_suffix(".lock"), 30):
        state_files.replace(file, str(int(state_files.read(file, 100) or b"0") + 1).encode())
"""


def test_processes_that_change_at_once_lose_nothing(tmp_path: Path) -> None:
    file = tmp_path / "count"
    running = [
        subprocess.Popen([sys.executable, "-c", COUNTING, str(file)], stdin=subprocess.PIPE) for _ in range(3)
    ]
    for each in running:
        assert each.stdin
        each.stdin.close()
    assert [each.wait(WITHIN) for each in running] == [0, 0, 0]
    assert state_files.read(file, 100) == b"120"


@given(content=st.binary(max_size=200), fresh=st.binary(max_size=200))
def test_what_is_replaced_is_read_and_a_link_is_never_followed(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, fresh: bytes
) -> None:
    folder = tmp_path_factory.mktemp("records")
    theirs, file = folder / "theirs", folder / "f"
    state_files.replace(theirs, content)
    file.symlink_to(theirs)
    for attempt in (lambda: state_files.read(file, 1000), lambda: state_files.append(file, fresh)):
        with pytest.raises(OSError, match=r"link|symbolic|no file"):
            attempt()
    state_files.replace(file, fresh)
    assert (state_files.read(file, 1000), state_files.read(theirs, 1000)) == (fresh, content)
    state_files.append(file, content)
    assert state_files.read(file, 1000) == fresh + content
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    lock = folder / "lock"
    lock.symlink_to(theirs)
    with pytest.raises(OSError, match=r"link|symbolic|no file"), state_files.lock_file(lock, 1):
        pass


def test_a_folder_is_the_persons_alone_also_if_it_was_not(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o775)
    for folder in (tmp_path / "open", tmp_path / "new"):
        with state_files.lock_file(folder / "l", 1):
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_what_others_may_write_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "f"
    state_files.replace(file, b"x")
    file.chmod(0o622)
    with pytest.raises(PermissionError):
        state_files.read(file, 10)
    with pytest.raises(OSError, match="large"):
        state_files.read(_replaced(tmp_path / "g", b"12345"), 4)


def _replaced(file: Path, data: bytes) -> Path:
    state_files.replace(file, data)
    return file


FULL = """
import resource, sys
from pathlib import Path
from kakite.errors import KakiteError
from kakite.host.oauth.token_store import TokenFile, OAuthCredentials
from kakite.host.policy.rules import Rule
from kakite.host.policy.rules import RuleStore
from mcp.shared.auth import OAuthToken

folder = Path(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))
for attempt in (
    lambda: RuleStore(folder).add(Rule(decision="deny", tool="x" * 500)),
    lambda: TokenFile(folder, "https://h").save(OAuthCredentials(tokens=OAuthToken(access_token="t" * 500))),
):
    try:
        attempt()
    except KakiteError as error:
        print(error.code, "|", error.message, "|", error.hint)
"""


@pytest.mark.slow
def test_where_nothing_more_can_be_written_the_old_stays_and_the_way_on_is_told(tmp_path: Path) -> None:
    kept = RuleStore(tmp_path)
    rule = kept.add(Rule(decision="deny", tool="old"))
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)],
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=True,
    )
    of_rules, of_tokens = done.stdout.splitlines()
    assert of_rules.startswith("rules_unusable |")
    assert of_tokens.startswith("credentials_unusable |")
    assert all("free some space" in line for line in (of_rules, of_tokens))
    assert "ttt" not in done.stdout + done.stderr
    assert RuleStore(tmp_path).list_rules() == (rule,)
    assert not list(tmp_path.glob(".*.new"))


def test_a_state_folder_that_cannot_be_written_is_told_with_a_way_on(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    folder = tmp_path / "file" / "state"
    with pytest.raises(RulesError) as rules:
        RuleStore(folder).add(Rule(decision="deny", tool="x"))
    with pytest.raises(CredentialsError) as tokens:
        TokenFile(folder, "https://h").save(OAuthCredentials())
    for raised in (rules, tokens):
        assert "XDG_STATE_HOME" in raised.value.hint


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.ELOOP, 0])
def test_every_trouble_has_words_and_a_way_on(number: int) -> None:
    reason, hint = state_files.explain_os_error(OSError(number, "odd"), Path("/state/f"))
    assert reason
    assert "/state" in hint
