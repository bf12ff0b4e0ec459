"""``kakite edit replay``: transcripts of other programs, written here as these programs write them."""

from __future__ import annotations

import difflib
import json
import re
import sqlite3
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kakite.cli.replay.aider import CHAT, REQUESTS, read_chat, read_requests
from kakite.cli.replay.claude_code import read_claude_code
from kakite.cli.replay.codex import read_codex
from kakite.cli.replay.counts import OUTCOMES, replay_edit
from kakite.cli.replay.opencode import read_opencode
from kakite.cli.replay.pi import read_pi
from kakite.cli.replay.recorded_edit import RecordedEdit
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


def call_opencode(name: str, asked: Json, told: Json | str) -> Json:
    """``told``: what it says of a call that is done, or why it is not."""
    state = {"status": "error", "error": told} if isinstance(told, str) else {"metadata": told}
    state = {"status": "completed", **state, "input": asked}
    return {"type": "tool", "tool": name, "callID": f"call_{name}", "state": state}


def read_opencode_file(text: str) -> Json:
    count = text.count("\n")
    shown = {"type": "file", "path": "/p/x.py", "text": text.removesuffix("\n"), "truncated": False}
    shown |= {"lineStart": 1, "lineEnd": count, "totalLines": count}
    return call_opencode("read", {"filePath": "/p/x.py"}, {"display": shown})


def edit_opencode(old: str, new: str, before: str, after: str | None) -> Json:
    """Its difference lacks the indentation that all lines of it have."""
    asked = {"filePath": "/p/x.py", "oldString": old, "newString": new}
    if after is None:
        return call_opencode("edit", asked, "Could not find oldString in the file. It must match exactly.")
    head, *lines = make_diff(before, after).split("\n")[2:-1]
    body = [line for line in lines if not line.startswith("@@")]
    least = min((len(line[1:]) - len(line[1:].lstrip()) for line in body if line[1:].strip()), default=0)
    shown = [line if line.startswith("@@") else line[0] + line[1 + least :] for line in lines]
    patch = "\n".join(["Index: x", "=" * 67, "--- x", "+++ x", head, *shown, ""])
    return call_opencode("edit", asked, {"filediff": {"file": "/p/x.py", "patch": patch}})


@given(literal_edits())
def test_opencode_is_replayed_though_it_shows_lines_without_their_indentation(
    edit: tuple[str, str, str, str],
) -> None:
    before, old, new, after = edit
    parts = [read_opencode_file(before), edit_opencode(old, new, before, after)]
    assert {replay_edit(each) for each in read_opencode(parts)} <= {"same", "landed"}
    if not any(line != line.lstrip() for line in before.split("\n")):
        assert {replay_edit(each) for each in read_opencode(parts)} == {"same"}


def test_an_edit_of_opencode_in_an_indented_block_is_the_same() -> None:
    before = "def f():\n" + "    a = 1\n" * 9 + "    two = 2\n" + "    b = 1\n" * 9
    parts = [
        read_opencode_file(before),
        edit_opencode("two = 2", "two = 3", before, before.replace("two = 2", "two = 3")),
        edit_opencode("two  = 3", "two = 4", before, None),
    ]
    assert [(each.ending, replay_edit(each)) for each in read_opencode(parts)] == [
        ("applied", "same"),
        ("failed", "landed"),
    ]


def test_what_a_program_of_opencode_changed_is_not_known() -> None:
    parts: list[Json] = [
        read_opencode_file(TEXT),
        call_opencode("bash", {"command": "make"}, {}),
        edit_opencode("two = 2", "two = 3", TEXT, None),
        {"type": "tool", "tool": "edit", "state": {"status": "running", "input": {"oldString": "x"}}},
    ]
    edits = list(read_opencode(parts))
    assert [each.ending for each in edits] == ["failed", "not_tried"]
    assert replay_edit(edits[0]) == "text_unknown"


def write_storage(folder: Path, parts: Iterable[Json]) -> None:
    """Write a session as opencode did before it had a database."""
    about = {"id": "ses_1", "directory": "/p"}
    for name, value in (
        ("session/global/ses_1.json", about),
        ("message/ses_1/msg_1.json", {"role": "assistant"}),
        *((f"part/msg_1/prt_{number}.json", part) for number, part in enumerate(parts)),
    ):
        path = folder / "storage" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value), encoding="utf-8")


def write_database(path: Path, parts: Iterable[Json]) -> sqlite3.Connection:
    """Write a session into a database, which stays open as that of an opencode that runs."""
    database = sqlite3.connect(path)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("CREATE TABLE session (id TEXT, directory TEXT)")
    database.execute("CREATE TABLE part (id TEXT, session_id TEXT, data TEXT)")
    database.execute("INSERT INTO session VALUES ('ses_1', '/p')")
    rows = [(f"prt_{number}", "ses_1", json.dumps(part)) for number, part in enumerate(parts)]
    database.executemany("INSERT INTO part VALUES (?, ?, ?)", [*rows, ("prt_x", "ses_1", '{"a":')])
    database.commit()
    return database


PATCH = make_patch("*** Update File: x.py\n@@\n-    two = 2\n+    two = 3\n")
OPENCODE = [
    read_opencode_file(TEXT),
    call_opencode("apply_patch", {"patchText": PATCH}, "apply_patch verification failed: no"),
]


@pytest.mark.parametrize("is_running", [True, False])
def test_a_database_of_opencode_is_read_and_left_as_it_is(tmp_path: Path, *, is_running: bool) -> None:
    folder = tmp_path / ".local/share/opencode"
    folder.mkdir(parents=True)
    database = write_database(folder / "opencode.db", OPENCODE)
    if not is_running:
        database.close()
    before = {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith("-shm")}
    told = replay(tmp_path)
    (client,) = told["clients"]
    assert (client["client"], client["failed"]["landed"], told["read"]["bad_lines"]) == ("opencode", 1, 1)
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.name in before} == before
    assert ({path.name for path in folder.iterdir()} == {*before}) or is_running
    database.close()


def test_sessions_that_opencode_kept_in_files_are_read(tmp_path: Path) -> None:
    write_storage(tmp_path / ".local/share/opencode", OPENCODE)
    (client,) = replay(tmp_path)["clients"]
    assert (client["client"], client["logs"], client["failed"]["landed"]) == ("opencode", 1, 1)


def test_a_database_of_something_else_is_told(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "other.db").execute("CREATE TABLE a (b)").connection.close()
    assert replay(tmp_path, str(tmp_path / "other.db"))["read"]["unreadable_files"] == 1


def block_aider(old: str, new: str, path: str = "x.py") -> str:
    return f"{path}\n```python\n<<<<<<< SEARCH\n{old}=======\n{new}>>>>>>> REPLACE\n```\n"


def fail_aider(*blocks: tuple[str, str]) -> str:
    told = f"# {len(blocks)} SEARCH/REPLACE block failed to match!\n"
    for old, new in blocks:
        told += "\n## SearchReplaceNoExactMatch: This SEARCH block failed to exactly match lines in x.py\n"
        told += f"<<<<<<< SEARCH\n{old}=======\n{new}>>>>>>> REPLACE\n\n"
    return told + "The SEARCH section must exactly match an existing block of lines\n"


def chat_aider(*turns: str) -> list[str]:
    head = "\n# aider chat started at 2026-05-22 07:02:20\n\n> Aider v0.86.2  \n\n#### do it  \n"
    return (head + "".join(turns)).split("\n")


def answer_aider(reply: str, *told: str) -> str:
    quoted = "".join(f"> {each}  \n" for each in ("Tokens: 5k sent, 80 received.", *told))
    return f"\n{reply.strip()}\n\n{quoted}\n"


MALFORMED = ("The LLM did not conform to the edit format.", "https://aider.chat/docs/edit-errors.html")


def test_a_chat_of_aider_is_replayed_on_files_that_it_made() -> None:
    chat = chat_aider(
        answer_aider(
            block_aider("", TEXT), "x.py", "Create new file? (Y)es/(N)o [Yes]: y", "Applied edit to x.py"
        ),
        answer_aider(block_aider("    two = 2\n", "    two = 3\n"), "Applied edit to x.py"),
        answer_aider(
            block_aider("  two  = 3\n", "  two = 4\n"),
            *MALFORMED,
            fail_aider(("  two  = 3\n", "  two = 4\n")),
        ),
        answer_aider(block_aider("a\n", "b\n", "y.py"), "y.py", "Skipping edits to y.py"),
        answer_aider("x.py\n<<<<<<< SEARCH\nno end\n", *MALFORMED),
        "#### /run make  \n",
        answer_aider(block_aider("> one = 1\n", "x\n"), "Applied edit to x.py"),
    )
    assert [(each.ending, replay_edit(each)) for each in read_chat(chat)] == [
        ("applied", "same"),
        ("failed", "landed"),
        ("not_tried", "text_unknown"),
        ("failed", "refused"),
        ("applied", "text_unknown"),
    ]


def as_sent(role: str, content: str) -> str:
    return "".join(f"{role} {line}\n" for line in content.splitlines())


def ask_aider(text: str, *more: str) -> str:
    files = (
        f"I have *added these files to the chat* so you can go ahead and edit them.\n\nx.py\n```\n{text}```\n"
    )
    sent = [
        "-------\n" + as_sent("SYSTEM", "Act as an expert.\n```\nx\n```"),
        "-------\n" + as_sent("USER", files),
    ]
    sent += ["-------\n" + as_sent("USER", each) for each in more]
    return "TO LLM 2026-05-22T07:02:20\n" + "".join(sent)


def reply_aider(text: str) -> str:
    return "LLM RESPONSE 2026-05-22T07:02:21\n" + as_sent("ASSISTANT", text)


AIDER = (
    ask_aider(TEXT, "do it")
    + reply_aider(
        block_aider("    two = 2\n", "    two = 3\n") + "and\n" + block_aider("  one  = 1\n", "  one = 2\n")
    )
    + ask_aider(TEXT.replace("two = 2", "two = 3"), "do it", fail_aider(("  one  = 1\n", "  one = 2\n")))
    + reply_aider(block_aider("    one = 1\n", "    one = 2\n"))
    + ask_aider(TEXT, "do it", fail_aider(("  one  = 1\n", "  one = 2\n")), "more")
    + reply_aider(block_aider("    one = 1\n", "    one = 7\n"))
)


def test_a_log_of_what_aider_sent_is_replayed_on_the_files_in_it() -> None:
    assert [(each.ending, replay_edit(each)) for each in read_requests(AIDER.split("\n"))] == [
        ("applied", "same"),
        ("failed", "landed"),
        ("applied", "same"),
        ("not_tried", "landed"),
    ]


def test_the_two_logs_of_one_chat_of_aider_count_once(tmp_path: Path) -> None:
    (tmp_path / REQUESTS).write_text(AIDER, encoding="utf-8")
    told = answer_aider(block_aider("    one = 1\n", "    one = 2\n"), "Applied edit to x.py")
    (tmp_path / CHAT).write_text("\n".join(chat_aider(told)), encoding="utf-8")
    (client,) = replay(tmp_path, str(tmp_path))["clients"]
    assert (client["client"], client["logs"], client["repeated"]) == ("aider", 2, 1)
    assert (client["applied"]["same"], client["failed"]["landed"], client["not_tried"]) == (2, 1, 1)


@given(st.lists(st.sampled_from([*chat_aider(answer_aider(block_aider("a\n", "b\n"))), *AIDER.split("\n")])))
def test_no_order_of_lines_breaks_the_reading_of_aider(lines: list[str]) -> None:
    for read in (read_chat, read_requests):
        assert all(replay_edit(each) in OUTCOMES for each in read(lines))


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
        (read_opencode, [*OPENCODE, edit_opencode("two = 2", "two = 3", TEXT, after)]),
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
        "~/.local/share/opencode": 0,
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


LARGE = "".join(f"line {number} = {number}\n" for number in range(20_000))


def iter_large_claude() -> Iterator[Json]:
    for number in range(100):
        yield from read_whole(2 * number, f"/p/{number % 2}.py", LARGE)
        yield from edit_claude(2 * number + 1, "line 7 = 7", "line 7 = 8", LARGE, None)


def iter_large_opencode() -> Iterator[Json]:
    for _ in range(100):
        yield read_opencode_file(LARGE)
        yield edit_opencode("line  7 = 7", "line 7 = 8", LARGE, None)


def iter_large_requests() -> Iterator[str]:
    block = block_aider("line 7 = 7\n", "line 7 = 8\n")
    for _ in range(20):
        yield from (ask_aider(LARGE, "do it") + reply_aider(block)).split("\n")


@pytest.mark.parametrize(
    "edits",
    [
        lambda: read_claude_code(iter_large_claude()),
        lambda: read_opencode(iter_large_opencode()),
        lambda: read_requests(iter_large_requests()),
    ],
)
def test_a_log_is_not_held_in_memory(edits: Callable[[], Iterator[RecordedEdit]]) -> None:
    tracemalloc.start()
    try:
        count = sum(1 for _ in edits())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count >= 20
    assert peak < 20 * len(LARGE)  # of 40 copies and more


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


def test_the_page_holds_the_figures_and_nothing_of_the_person_or_from_elsewhere(
    log: Path, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    told = replay(tmp_path, "--html", str(page), str(log))
    text = page.read_text(encoding="utf-8")
    assert sum(told["clients"][0]["applied"].values()) == 1
    assert text.count("<table>") == 2
    assert not re.search(r"x\.py|\bone\b|/p/|/home|a\.jsonl|https?:|url\(|<script|<link|src=|@import", text)


def test_a_page_that_cannot_be_written_is_wrong_usage(log: Path, tmp_path: Path) -> None:
    outcome = kakite("edit", "replay", "--html", str(tmp_path / "none/page.html"), str(log), home=tmp_path)
    assert outcome.code == 2
    assert "hint:" in outcome.stderr
