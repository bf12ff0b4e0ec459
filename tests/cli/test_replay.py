"""``kakite edit replay``: transcripts of other programs, written here as these programs write them."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kakite.cli.replay.claude_code import read_claude_code
from kakite.cli.replay.codex import read_codex
from kakite.cli.replay.counts import OUTCOMES, replay_edit
from kakite.cli.replay.pi import read_pi
from kakite.cli.replay.unified_hunks import read_hunks
from tests.cli.program import Outcome, argv, environment, kakite
from tests.forking import run

Json = dict[str, Any]

TEXT = "def f():\n    one = 1\n    two = 2\n    return one + two\n"
LINES = st.lists(st.text(st.sampled_from("ab ={}\t\"'é"), max_size=6), min_size=1, max_size=8)


def make_diff(before: str, after: str) -> str:
    old, new = (re.findall(r"[^\n]*\n", text) for text in (before, after))
    return "".join(difflib.unified_diff(old, new, "f", "f"))


def call_claude(number: int, name: str, asked: Json) -> Json:
    block = {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": asked}
    return {"type": "assistant", "sessionId": "s", "message": {"role": "assistant", "content": [block]}}


def answer_claude(number: int, told: str, result: object, *, failed: bool = False) -> Json:
    block: Json = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": told}
    block |= {"is_error": True} if failed else {}
    message = {"role": "user", "content": [block]}
    return {"type": "user", "sessionId": "s", "message": message, "toolUseResult": result}


def read_whole(number: int, path: str, text: str) -> list[Json]:
    count = text.count("\n") + 1
    file = {"filePath": path, "content": text, "numLines": count, "startLine": 1, "totalLines": count}
    result = {"type": "text", "file": file}
    return [call_claude(number, "Read", {"file_path": path}), answer_claude(number, "…", result)]


def edit_claude(number: int, old: str, new: str, before: str | None, after: str | None) -> list[Json]:
    """``after`` None: Claude Code did not find one place."""
    asked = {"file_path": "/p/x.py", "old_string": old, "new_string": new, "replace_all": False}
    if after is None:
        told = f"String to replace not found in file.\nString: {old}"
        answer = answer_claude(number, told, f"Error: {told}", failed=True)
    else:
        hunks = read_hunks(make_diff(before or "", after)) or []
        patch = [{"oldStart": start, "lines": lines} for start, lines in hunks]
        result = {"filePath": "/p/x.py", "originalFile": before, "structuredPatch": patch}
        answer = answer_claude(number, "updated", {**result, "userModified": False})
    return [call_claude(number, "Edit", asked), answer]


def write_log(path: Path, entries: Iterable[Json]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(each) + "\n" for each in entries), encoding="utf-8")
    return path


def replay(home: Path, *arguments: str) -> Json:
    outcome = kakite("edit", "replay", "--json", *arguments, home=home)
    assert outcome.code == 0, outcome.stderr
    return outcome.json


@st.composite
def literal_edits(draw: st.DrawFn) -> tuple[str, str, str, str]:
    """A text, old and new text that stand as whole lines and once, and what it becomes."""
    lines = draw(LINES)
    start = draw(st.integers(0, len(lines) - 1))
    end = draw(st.integers(start + 1, len(lines)))
    before = "".join(f"{line}\n" for line in lines)
    old = "\n".join(lines[start:end])
    new = "\n".join(draw(LINES))
    # Kakite keeps the line end where new text lacks it, and removes a line that gets no text.
    assume(old.strip() and new.strip() and not old.endswith("\n") and not new.endswith("\n"))
    assume(old != new and before.count(old) == 1)
    return before, old, new, before.replace(old, new)


@given(literal_edits())
def test_what_a_client_applied_to_the_letter_is_replayed_to_the_same_text(
    edit: tuple[str, str, str, str],
) -> None:
    before, old, new, after = edit
    claude = read_claude_code(edit_claude(1, old, new, before, after))
    patch = make_diff(before, after)
    asked = {"path": "x.py", "edits": [{"oldText": old, "newText": new}]}
    pi = read_pi([*read_pi_file(before), *edit_pi(asked, patch)])
    assert {replay_edit(each) for each in (*claude, *pi)} == {"same"}


def test_an_exact_edit_is_the_same() -> None:
    after = TEXT.replace("two = 2", "two = 3")
    (edit,) = read_claude_code(edit_claude(1, "    two = 2", "    two = 3", TEXT, after))
    assert (edit.ending, replay_edit(edit)) == ("applied", "same")


def test_another_text_than_the_client_wrote_is_told() -> None:
    (edit,) = read_claude_code(edit_claude(1, "    two = 2", "    two = 3", TEXT, TEXT + "x\n"))
    assert replay_edit(edit) == "different"


@pytest.mark.parametrize(
    ("old", "outcome"), [("  return one  + two", "landed"), ("return one + too", "refused")]
)
def test_an_edit_that_failed_is_tried_on_the_text_that_was_read(old: str, outcome: str) -> None:
    entries = [*read_whole(1, "/p/x.py", TEXT), *edit_claude(2, old, "  return 1", None, None)]
    (edit,) = read_claude_code(entries)
    assert edit.ending == "failed"
    assert replay_edit(edit) in ({outcome} | ({"suggested"} if outcome == "refused" else set()))


def test_a_text_is_unknown_once_a_program_ran_or_where_only_a_part_was_read() -> None:
    ran = [call_claude(2, "Bash", {"command": "make"}), answer_claude(2, "", {})]
    failing = edit_claude(3, "return one  + two", "x", None, None)
    call, answer = read_whole(1, "/p/x.py", TEXT)
    part = {**answer["toolUseResult"]["file"], "startLine": 2}
    cut: Json = {**answer, "toolUseResult": {"type": "text", "file": part}}
    for before in ([call, answer, *ran], [call, cut], []):
        (edit,) = read_claude_code([*before, *failing])
        assert replay_edit(edit) == "text_unknown"


def test_an_edit_that_a_person_declined_was_not_tried() -> None:
    call, _ = edit_claude(1, "a", "b", "a\n", "b\n")
    answer = answer_claude(1, "The user doesn't want to proceed", "…", failed=True)
    (edit,) = read_claude_code([call, answer])
    assert edit.ending == "not_tried"


def read_pi_file(text: str) -> list[Json]:
    call = {"type": "toolCall", "id": "r", "name": "read", "arguments": {"path": "x.py"}}
    return [
        {"type": "message", "message": {"role": "assistant", "content": [call]}},
        answer_pi("r", text, {}),
    ]


def answer_pi(call: str, told: str, details: Json, *, failed: bool = False) -> Json:
    content = [{"type": "text", "text": told}]
    message = {"role": "toolResult", "toolCallId": call, "content": content, "details": details}
    return {"type": "message", "message": {**message, "isError": failed}}


def edit_pi(asked: Json, patch: str | None) -> list[Json]:
    call = {"type": "toolCall", "id": "e", "name": "edit", "arguments": asked}
    told = "done" if patch is not None else "Could not find the exact text in x.py."
    return [
        {"type": "message", "message": {"role": "assistant", "content": [call]}},
        answer_pi("e", told, {"patch": patch} if patch is not None else {}, failed=patch is None),
    ]


def patch_codex(call: str, patch: str, changes: Json | None) -> list[Json]:
    asked = {"type": "custom_tool_call", "call_id": call, "name": "apply_patch"}
    told = "Success. Updated the following files:" if changes else "apply_patch verification failed: …"
    item = {"type": "FileChange", "id": call, "changes": changes}
    return [
        {"type": "response_item", "payload": {**asked, "input": patch}},
        *([{"type": "event_msg", "payload": {"type": "item_completed", "item": item}}] if changes else []),
        {
            "type": "response_item",
            "payload": {"type": "custom_tool_call_output", "call_id": call, "output": told},
        },
    ]


def make_patch(body: str) -> str:
    return f"*** Begin Patch\n{body}*** End Patch\n"


CODEX: list[Json] = [
    {"type": "session_meta", "payload": {"cwd": "/p"}},
    *patch_codex(
        "1",
        make_patch("*** Add File: n.py\n+a = 1\n+b = 2\n"),
        {"/p/n.py": {"type": "add", "content": "a = 1\nb = 2\n"}},
    ),
    *patch_codex(
        "2",
        make_patch("*** Update File: n.py\n@@\n-a = 1\n+a = 3\n b = 2\n"),
        {"/p/n.py": {"type": "update", "unified_diff": "@@ -1,2 +1,2 @@\n-a = 1\n+a = 3\n b = 2\n"}},
    ),
    *patch_codex("3", make_patch("*** Update File: n.py\n@@\n-a  = 3\n+a = 5\n b = 2\n"), None),
    *patch_codex("4", make_patch("*** Update File: o.py\n@@\n-a = 9\n+a = 5\n"), None),
    *patch_codex("5", "nonsense", None),
]


def test_patches_of_codex_are_replayed_on_files_that_it_created() -> None:
    edits = list(read_codex(CODEX))
    assert [(each.ending, replay_edit(each)) for each in edits] == [
        ("applied", "same"),
        ("failed", "landed"),
        ("failed", "text_unknown"),
        ("failed", "refused"),
    ]


@given(st.data())
def test_no_value_of_a_line_breaks_the_reading(data: st.DataObject) -> None:
    values = st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    )
    after = TEXT.replace("2", "3")
    claude = [*read_whole(1, "/p/x.py", TEXT), *edit_claude(2, "two = 2", "two = 3", TEXT, after)]
    for read, entries in (
        (read_claude_code, claude),
        (read_codex, CODEX),
        (read_pi, [*read_pi_file("a\n"), *edit_pi({"path": "x.py", "oldText": "a", "newText": "b"}, None)]),
    ):
        broken: list[Any] = [json.loads(json.dumps(each)) for each in entries]
        holder: Any = data.draw(st.sampled_from(list(_iter_holders(broken))))
        places: Any = holder if hasattr(holder, "keys") else range(len(holder))
        place = data.draw(st.sampled_from([*places]))
        holder[place] = data.draw(values)
        whole: list[Json] = [each for each in broken if isinstance(each, dict)]
        assert all(replay_edit(edit) in OUTCOMES for edit in read(whole))


def _iter_holders(value: Any) -> Iterable[Any]:
    """Yield every object and list that has something in it."""
    if value and type(value) in {dict, list}:
        yield value
        inside: Any = value.values() if hasattr(value, "values") else value
        for inner in inside:
            yield from _iter_holders(inner)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    after = TEXT.replace("two = 2", "two = 3")
    entries = [
        *read_whole(1, "/p/x.py", TEXT),
        *edit_claude(2, "    two = 2", "    two = 3", TEXT, after),
        *edit_claude(3, "  return one  + two", "  return 7", None, None),
    ]
    return write_log(tmp_path / "home/.claude/projects/p/a.jsonl", entries)


def test_the_report_counts_and_tells_nothing_of_the_person(log: Path, tmp_path: Path) -> None:
    told = replay(tmp_path, str(log))
    (client,) = told["clients"]
    assert client["client"] == "claude-code"
    assert {name: number for name, number in client["applied"].items() if number} == {"same": 1}
    assert {name: number for name, number in client["failed"].items() if number} == {"landed": 1}
    for words in (["--json"], []):
        shown = kakite("edit", "replay", *words, str(log), home=tmp_path).stdout
        assert not re.search(r"x\.py|one|/p|home|a\.jsonl", shown.replace("no JSON", ""))


def test_without_a_log_it_says_where_it_looked_and_what_it_found(log: Path) -> None:
    home = log.parents[3]
    told = replay(home)
    assert [each["client"] for each in told["clients"]] == ["claude-code"]
    assert {each["folder"]: each["logs"] for each in told["looked_in"]} == {
        "~/.claude/projects": 1,
        "~/.codex/sessions": 0,
        "~/.pi/agent/sessions": 0,
    }


def test_a_session_that_repeats_another_counts_once(log: Path, tmp_path: Path) -> None:
    (log.parent / "b.jsonl").write_bytes(log.read_bytes())
    (client,) = replay(tmp_path, str(log.parent))["clients"]
    assert client["logs"] == 2
    assert client["repeated"] == 2
    assert sum(client["applied"].values()) + sum(client["failed"].values()) == 2


def test_what_is_cut_or_foreign_is_counted(log: Path, tmp_path: Path) -> None:
    log.write_bytes(b"[1]\n\xff\n" + log.read_bytes() + b'{"type": "assist')
    foreign = tmp_path / "other.jsonl"
    foreign.write_text('{"a": 1}\n', encoding="utf-8")
    told = replay(tmp_path, str(log), str(foreign))
    assert told["read"]["bad_lines"] == 3
    assert told["read"]["unknown_files"] == 1
    assert sum(told["clients"][0]["applied"].values()) == 1


def test_a_line_that_is_too_long_is_passed_over(log: Path, tmp_path: Path) -> None:
    with log.open("r+b") as file:
        file.seek(0, 2)
        file.write(b'{"type": "user", "x": "')
        file.seek(70 * 1024 * 1024, 2)
        file.write(b'"}\n')
    told = replay(tmp_path, str(log))
    assert told["read"]["long_lines"] == 1
    assert sum(told["clients"][0]["applied"].values()) == 1


def test_a_log_that_is_not_there_is_wrong_usage(tmp_path: Path) -> None:
    outcome: Outcome = kakite("edit", "replay", str(tmp_path / "none.jsonl"), home=tmp_path)
    assert outcome.code == 2
    assert "hint:" in outcome.stderr


def test_a_file_of_the_commands_name_is_edited_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "replay").write_text("a\n", encoding="utf-8")
    reply = "<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n"
    run(
        argv("edit", "./replay"),
        given=reply.encode(),
        env=environment(tmp_path),
        cwd=tmp_path,
        timeout=60,
        check=True,
    )
    assert (tmp_path / "replay").read_text(encoding="utf-8") == "b\n"
