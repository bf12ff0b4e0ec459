from __future__ import annotations

import re
import stat
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kakite.host import result_limits
from kakite.host.result_limits import MAX_RESULT_BYTES, MAX_RESULT_LINES, truncate_result
from kakite.tools import ToolResult
from tests.lanes import examples

CUT = re.compile(r"\n\[… .* are cut here; (.*) …\]\n")

pieces = st.tuples(
    st.sampled_from(["x", "語", "line\n", "\n", "é\n", "a\r\n", "\ud800"]), st.integers(1, 30_000)
)


def size(text: str) -> int:
    return len(text.encode(errors="backslashreplace"))


@given(st.lists(pieces, max_size=6))
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(40), deadline=None
)
def test_what_is_shown_is_a_head_and_a_tail_of_what_came_within_limits(
    tmp_path: Path, drawn: list[tuple[str, int]]
) -> None:
    text = "".join(piece * count for piece, count in drawn)
    result = truncate_result(ToolResult(text=text), tmp_path / "kept")
    short = size(text) <= MAX_RESULT_BYTES and text.count("\n") < MAX_RESULT_LINES
    assert (result.text == text) == short
    if short:
        return
    assert size(result.text) <= MAX_RESULT_BYTES
    assert result.text.count("\n") < MAX_RESULT_LINES
    head, told, tail = CUT.split(result.text)
    whole = text.encode(errors="backslashreplace").decode()
    assert whole.startswith(head)
    assert whole.endswith(tail)
    found = re.search(r"the whole is in (\S+):", told)
    assert found
    kept = Path(found[1])
    assert kept.read_bytes().decode() == whole
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700


def test_everything_else_of_a_result_stays(tmp_path: Path) -> None:
    given_result = ToolResult(text="x" * 60_000, is_error=True, code="c", details={"a": 1})
    result = truncate_result(given_result, tmp_path)
    assert (result.is_error, result.code, result.details) == (True, "c", {"a": 1})


def lost(folder: Path) -> bool:
    result = truncate_result(ToolResult(text="secret\n" * 9_000), folder)
    return "the rest is lost" in result.text and size(result.text) <= MAX_RESULT_BYTES


def test_a_link_in_the_place_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "kept").symlink_to(tmp_path / "elsewhere")
    assert lost(tmp_path / "kept")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_folder_that_others_may_write_to_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept").chmod(0o777)
    assert lost(tmp_path / "kept")
    assert list((tmp_path / "kept").iterdir()) == []


def test_a_file_or_link_that_is_there_already_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kakite.host.result_limits.secrets.token_hex", known)
    theirs, there = tmp_path / "theirs", tmp_path / "result-known.txt"
    theirs.write_text("theirs", encoding="utf-8")
    there.symlink_to(theirs)
    assert lost(tmp_path)
    there.unlink()
    there.write_text("mine", encoding="utf-8")
    assert lost(tmp_path)
    assert (theirs.read_text(encoding="utf-8"), there.read_text(encoding="utf-8")) == ("theirs", "mine")


def known(_size: int) -> str:
    return "known"


def test_a_file_in_the_place_of_the_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("theirs", encoding="utf-8")
    assert lost(tmp_path / "kept")
    assert (tmp_path / "kept").read_text(encoding="utf-8") == "theirs"


def test_one_session_does_not_fill_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_limits, "MAX_FOLDER_BYTES", 150_000)
    assert not lost(tmp_path)
    assert not lost(tmp_path)
    assert lost(tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
