"""What editors are shown of edits: whole texts of every file, and no bytes that are no text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.agent.acp.edited_files import MAX_SHOWN_BYTES, EditedFiles, parse_diff
from kakite.agent.acp.updates import list_edited_paths
from kakite.edit import Change, ChangeSet, unified_diff

LINES = st.lists(
    st.sampled_from(["a", "b", "-- a/x", "++ b/x", "@@ -1 +1 @@", "\\ no", "", "x\r", "é"]), max_size=12
)


def join(lines: list[str], end: str) -> str:
    return "\n".join(lines) + end


TEXTS = st.builds(join, LINES, st.sampled_from(["", "\n"]))
PATHS = st.sampled_from(["x", "a b/c.py", "b/x", "ü"])


def diff(old: str, new: str, path: str) -> str:
    return unified_diff(ChangeSet.of(len(old), [Change(0, len(old), new)]), old, path=path)


@given(st.dictionaries(PATHS, st.tuples(TEXTS, TEXTS), min_size=1))
def test_a_diff_of_several_files_makes_the_new_texts_of_the_old_ones_and_back(
    files: dict[str, tuple[str, str]],
) -> None:
    changed = {path: texts for path, texts in files.items() if texts[0] != texts[1]}
    found = parse_diff("".join(diff(*texts, path) for path, texts in changed.items()))
    assert [(each.path, each.to) for each in found] == [(path, path) for path in changed]
    for each, (old, new) in zip(found, changed.values(), strict=True):
        assert each.apply(old) == new
        assert each.take_back(new) == old


@given(TEXTS, TEXTS, st.data())
def test_a_diff_that_was_cut_fits_nothing_wrong(old: str, new: str, data: st.DataObject) -> None:
    rows = diff(old, new, "x").split("\n")
    cut = rows[: data.draw(st.integers(0, len(rows)))]
    for each in parse_diff("\n".join([*cut, "… the diff goes on, 12 more characters"])):
        assert each.apply(old) is None


@given(st.text())
def test_whatever_is_no_diff_is_parsed_without_an_error(text: str) -> None:
    for each in parse_diff(f"--- a/x\n+++ b/x\n@@ -1,2 +1 @@\n{text}"):
        each.apply("a\nb\n")


@pytest.fixture
def files(tmp_path: Path) -> EditedFiles:
    return EditedFiles(project=tmp_path, inside="/inside")


def seen(content: list[Any], project: Path) -> list[tuple[str, str | None, str]]:
    return [(str(Path(each.path).relative_to(project)), each.old_text, each.new_text) for each in content]


DELETION = "diff --git a/gone b/gone\ndeleted file mode 100644\n"
MOVE = "rename from from/it\nrename to to\n"


def test_a_preview_shows_each_file_of_an_edit_a_move_and_a_deletion(files: EditedFiles) -> None:
    (files.project / "from").mkdir()
    for name in ("gone", "from/it", "x"):
        (files.project / name).write_text("old\n", encoding="utf-8")
    content = files.show_preview(
        diff("old\n", "new\n", "x") + DELETION + MOVE + diff("old\n", "2\n", "from/it")
    )
    assert seen(content, files.project) == [
        ("x", "old\n", "new\n"),
        ("gone", "old\n", ""),
        ("from/it", "old\n", ""),
        ("to", None, "2\n"),
    ]
    assert seen(files.show_preview(diff("", "made\n", "made")), files.project) == [("made", None, "made\n")]


PATCH = """*** Begin Patch
*** Delete File: gone
*** Update File: a
*** Move to: /inside/b
@@
-old
+new
*** Add File: made
+made
*** End Patch"""


def test_a_result_shows_what_was_made_moved_deleted_and_what_the_call_did_not_name(
    files: EditedFiles,
) -> None:
    for name in ("gone", "a", "other", "same"):
        (files.project / name).write_text("old\n", encoding="utf-8")
    paths = list_edited_paths("apply_patch", {"patch": PATCH})
    assert paths == ["gone", "a", "/inside/b", "made"]
    files.note("1", [*paths, "same"])
    for name in ("gone", "a"):
        (files.project / name).unlink()
    for name in ("b", "made", "other"):
        (files.project / name).write_text("new\n", encoding="utf-8")
    assert seen(files.show_result("1", diff("old\n", "new\n", "other")), files.project) == [
        ("gone", "old\n", ""),
        ("a", "old\n", ""),
        ("b", None, "new\n"),
        ("made", None, "new\n"),
        ("other", "old\n", "new\n"),
    ]
    assert files.show_result("1") == []


@pytest.mark.parametrize("data", [b"\x89PNG\0\1\2", b"x" * (MAX_SHOWN_BYTES + 1)])
def test_what_is_no_text_to_show_is_named(files: EditedFiles, data: bytes) -> None:
    (files.project / "gone").write_bytes(data)
    told: Any = files.show_preview(DELETION)
    files.note("1", ["gone"])
    (files.project / "gone").unlink()
    told += files.show_result("1")
    assert [each.type for each in told] == ["content", "content"]
    assert all(f"{len(data):,} bytes" in each.content.text for each in told)


def test_a_file_in_another_encoding_is_shown_as_its_text(files: EditedFiles) -> None:
    (files.project / "x").write_bytes("é\n".encode("utf-16"))
    assert seen(files.show_preview(diff("é\n", "è\n", "x")), files.project) == [("x", "é\n", "è\n")]
