"""Edits of files that others change meanwhile: nothing of theirs is lost silently, or in the way."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import subprocess
import threading
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client
from tests.bounds import WITHIN
from tests.tools.conftest import Desk, lines

from kakite.serve import build_server
from kakite.tools import (
    SETS,
    EditorOptions,
    FunctionToolset,
    ToolCall,
    ToolResult,
    bind_call,
    open_toolset,
)
from kakite.tools.changes.seen_content import SeenContent, SeenContentStore
from kakite.workspace import File, Workspace

pytestmark = pytest.mark.anyio

CODE = b"import os\n\nHOST = 'a'\ntimeout = DEFAULT\n\n\ndef f(x):\n    y = x + 1\n    return y\n"


async def view(desk: Desk, path: str = "x", *ranges: list[int]) -> str:
    return await desk.done(
        "text_editor", command="view", path=path, **({"view_range": [*ranges]} if ranges else {})
    )


async def put(desk: Desk, old: str, new: str, path: str = "x") -> ToolResult:
    return await desk.call("text_editor", command="str_replace", path=path, old_str=old, new_str=new)


def outside(desk: Desk, old: bytes, new: bytes, path: str = "x") -> None:
    """Change the file as a person does."""
    data = desk.read(path)
    assert data.count(old) == 1
    desk.write(path, data.replace(old, new))


async def test_a_quote_of_a_line_that_was_extended_since_is_refused_with_the_difference(desk: Desk) -> None:
    desk.write("x", CODE)
    await view(desk)
    outside(desk, b"timeout = DEFAULT", b"timeout = DEFAULT * 2")
    for preview in (True, False):  # the second time it has been shown
        result = await desk.call(
            "text_editor",
            command="str_replace",
            path="x",
            old_str="timeout = DEFAULT",
            new_str="timeout = 30",
            preview=preview,
        )
        if preview:
            assert result.code == "changed_since_read"
            assert "-timeout = DEFAULT\n" in result.text
            assert "+timeout = DEFAULT * 2\n" in result.text
        else:
            assert not result.is_error
    assert b"timeout = 30 * 2\n" in desk.read("x")


async def test_a_change_elsewhere_is_kept_and_told_once(desk: Desk) -> None:
    desk.write("x", CODE)
    await view(desk)
    outside(desk, b"HOST = 'a'", b"HOST = 'b'")
    first = await put(desk, "y = x + 1", "y = x + 2")
    assert not first.is_error
    assert "+HOST = 'b'" in first.text
    second = await put(desk, "y = x + 2", "y = x + 3")
    assert "HOST" not in second.text.replace("HOST = 'b'\n     4", "")
    assert "changed since" not in second.text
    assert desk.read("x") == CODE.replace(b"'a'", b"'b'").replace(b"x + 1", b"x + 3")


async def test_an_edit_is_merged_with_a_change_beside_its_own_lines(desk: Desk) -> None:
    desk.write("x", CODE)
    await view(desk)
    outside(desk, b"    y = x + 1\n", b"    y = x + 100\n")
    result = await put(
        desk, "def f(x):\n    y = x + 1\n    return y\n", "def f(x):\n    y = x + 1\n    return -y\n"
    )
    assert not result.is_error, result.text
    assert "+    y = x + 100" in result.text
    assert desk.read("x") == CODE.replace(b"x + 1", b"x + 100").replace(b"return y", b"return -y")


async def test_both_changing_one_line_is_refused(desk: Desk) -> None:
    desk.write("x", CODE)
    await view(desk)
    outside(desk, b"    y = x + 1\n", b"    y = x + 100\n")
    result = await put(desk, "def f(x):\n    y = x + 1\n", "def f(x):\n    y = x + 2\n")
    assert result.code == "changed_since_read"


async def test_an_edit_of_a_line_that_changed_since_is_suggested_with_both_changes(desk: Desk) -> None:
    before = "total = sum(items)\nreturn round(total * rate, 2)\n"
    desk.write("x", before.encode())
    await view(desk)
    outside(desk, b", 2)", b", digits)")
    result = await put(desk, before, before.replace("rate", "rates"))
    assert result.code == "changed_since_read"
    (identity,) = re.findall(r'"suggestion": "(\w+)"', result.text)
    await desk.done("text_editor", command="accept", suggestion=identity)
    assert desk.read("x") == before.replace("rate, 2", "rates, digits").encode()


async def test_what_stands_twice_now_is_edited_where_it_was_seen(desk: Desk) -> None:
    desk.write("x", CODE)
    await view(desk)
    outside(desk, b"import os\n", b"import os\n    y = x + 1\n")
    result = await put(desk, "    y = x + 1\n", "    y = 0\n")
    assert not result.is_error, result.text
    assert desk.read("x") == CODE.replace(b"    y = x + 1", b"    y = 0").replace(
        b"os\n", b"os\n    y = x + 1\n"
    )


async def test_what_is_gone_is_not_edited_where_it_stands_elsewhere(desk: Desk) -> None:
    desk.write("x", CODE + b"\n\ndef g(x):\n    pass\n")
    await view(desk)
    outside(
        desk,
        b"    y = x + 1\n    return y\n\n\ndef g(x):\n    pass\n",
        b"    return 0\n\n\ndef g(x):\n    y = x + 1\n",
    )
    assert (await put(desk, "    y = x + 1\n", "    y = 2\n")).code == "changed_since_read"


FORMATS = {
    "blanks": CODE.replace(b" = ", b"="),
    "blanks at the end": CODE.replace(b"DEFAULT", b"DEFAULT  "),
    "quotes": CODE.replace(b"'", b'"'),
    "line ends": CODE.replace(b"\n", b"\r\n"),
    "blank lines": CODE.replace(b"\n\n\n", b"\n\n"),
    "wrapped": CODE.replace(b"def f(x):", b"def f(\n    x,\n):"),
    "touched": CODE,
}


@pytest.mark.parametrize("format_", FORMATS)
async def test_a_formatter_is_no_alarm(desk: Desk, format_: str) -> None:
    desk.write("x.py", CODE)
    await view(desk, "x.py")
    desk.write("x.py", FORMATS[format_])
    os.utime(desk.folder / "x.py", (1, 1))
    for old, new in (("timeout = DEFAULT", "timeout = 30"), ("return y", "return -y")):
        result = await put(desk, old, new, "x.py")
        assert not result.is_error, result.text
    result = await desk.call(
        "text_editor", command="insert", path="x.py", insert_line=1, insert_text="import re"
    )
    assert not result.is_error, result.text
    assert desk.read("x.py").replace(b"\r", b"").startswith(b"import os\nimport re\n\n")
    desk.write("x.py", FORMATS[format_])
    result = await desk.call("write_files", path="x.py", content="x = 1\n", line_count=1)
    assert result.code == "changed_since_read"  # the edits before it were undone by another


async def test_lines_go_in_after_one_that_a_formatter_wrapped(desk: Desk) -> None:
    desk.write("x.py", b"a = 1\nf(a, 'b')\nc = 3\n")
    await view(desk, "x.py")
    desk.write("x.py", b'a = 1\nf(\n    a,\n    "b",\n)\nc = 3\n')
    await desk.done("text_editor", command="insert", path="x.py", insert_line=2, insert_text="new")
    assert desk.read("x.py") == b'a = 1\nf(\n    a,\n    "b",\n)\nnew\nc = 3\n'


async def test_it_is_told_when_a_formatter_moved_the_lines(desk: Desk) -> None:
    desk.write("x.py", b"a = 1\nf(a, 'b')\nc = 3\n")
    await view(desk, "x.py")
    desk.write("x.py", b'a = 1\nf(\n    a,\n    "b",\n)\nc = 3\n')
    assert "other numbers now" in (await put(desk, "c = 3", "c = 4", "x.py")).text
    assert "other numbers now" not in (await put(desk, "c = 4", "c = 5", "x.py")).text


async def test_lines_go_in_after_one_that_a_formatter_joined_with_others(desk: Desk) -> None:
    desk.write("x.py", b"a = [1,2]\nx = f(1,\n  2)\nc = 3\n")
    await view(desk, "x.py")
    desk.write("x.py", b"a = [1, 2]\n\nx = f(1, 2)\nc = 3\n")
    await desk.done("text_editor", command="insert", path="x.py", insert_line=3, insert_text="new")
    assert desk.read("x.py") == b"a = [1, 2]\n\nx = f(1, 2)\nnew\nc = 3\n"


LOOP = b"def f(items):\n    for i in items:\n        total += i\n        save(total)\n    return total\n"
DEDENTED = LOOP.replace(b"        save", b"    save")


@pytest.mark.parametrize("how", ["create", "write_files", "apply_diffs", "delete_file", "insert"])
async def test_a_change_of_indentation_alone_is_a_change(desk: Desk, how: str) -> None:
    desk.write("p.py", LOOP)
    await view(desk, "p.py")
    desk.write("p.py", DEDENTED)
    text = LOOP.replace(b"+= i", b"+= i * 2").decode()
    calls: dict[str, tuple[str, dict[str, object]]] = {
        "create": ("text_editor", {"command": "create", "file_text": text, "overwrite": True}),
        "write_files": ("write_files", {"content": text, "line_count": 5}),
        "apply_diffs": (
            "apply_diffs",
            {"search_content": "save(total)", "replace_content": "x", "start_line": 4, "trim": True},
        ),
        "delete_file": ("delete_file", {}),
        "insert": ("text_editor", {"command": "insert", "insert_line": 4, "insert_text": "        x()"}),
    }
    tool, arguments = calls[how]
    code, told = await desk.refused(tool, path="p.py", **arguments)
    assert (code, "+    save(total)\n" in told) == ("changed_since_read", True)


CHANGES = {
    "c.yml": ("a:\n  b: 1\n  c: 2\n", "a:\n  b: 1\nc: 2\n"),
    "a.json": ('{"a": "a  b"}\n', '{"a": "a b"}\n'),
    "a.sh": ('cd "$HOME"\n', "cd '$HOME'\n"),
    "a.js": ('f("${x}")\n', "f(`${x}`)\n"),
    "Makefile": ("all:\n\tcc x\n", "all:\n    cc x\n"),
    "a.go": ('a := "b\\n"\n', "a := `b\\n`\n"),
}


@pytest.mark.parametrize("path", CHANGES)
async def test_blanks_and_quotes_that_mean_something_are_a_change(desk: Desk, path: str) -> None:
    old, new = CHANGES[path]
    desk.write(path, old.encode())
    await view(desk, path)
    desk.write(path, new.encode())
    code, told = await desk.refused("write_files", path=path, content=f"{old}more\n", line_count=9)
    assert (code, f"+{new.splitlines()[-1]}\n" in told) == ("changed_since_read", True)


async def test_a_checkout_of_the_same_content_is_no_alarm(desk: Desk) -> None:
    desk.write("x", CODE)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        await asyncio.to_thread(subprocess.run, [*git, *words], cwd=desk.folder, check=True, timeout=WITHIN)
    await view(desk)
    (desk.folder / "x").unlink()
    again = ["git", "checkout", "-q", "x"]
    await asyncio.to_thread(subprocess.run, again, cwd=desk.folder, check=True, timeout=WITHIN)
    text = await desk.done("write_files", path="x", content="x = 1\n", line_count=1)
    assert "changed since" not in text


async def test_reading_by_ranges_own_edits_and_undo_are_no_alarm(desk: Desk) -> None:
    desk.write("x", lines(50))
    answers = [await view(desk, "x", [1, 10]), await view(desk, "x", [20, 30], [40, 50])]
    answers.append((await put(desk, "line 5\n", "line five\nand a half\n")).text)
    answers.append(await desk.done("text_editor", command="undo_edit", path="x"))
    answers.append((await put(desk, "line 25\n", "line 25 b\n")).text)
    answers.append(
        await desk.done("text_editor", command="insert", path="x", insert_line=3, insert_text="three")
    )
    answers.append(
        await desk.done(
            "apply_diffs", path="x", search_content="line 4", replace_content="four", start_line=5
        )
    )
    answers.append(
        await desk.done(
            "search_and_replace", path="x", search="line 4(.)", replace="LINE 4$1", use_regex=True
        )
    )
    answers.append(await view(desk, "x"))
    answers.append(await desk.done("write_files", path="x", content="all new\n", line_count=1))
    answers.append(
        await desk.done("text_editor", command="create", path="x", file_text="newer\n", overwrite=True)
    )
    answers.append((await put(desk, "newer", "newest")).text)
    assert not [answer for answer in answers if "changed since" in answer]


async def test_what_was_seen_goes_where_the_file_goes_and_no_change_is_removed_unseen(desk: Desk) -> None:
    desk.write("x", CODE)
    await view(desk)
    await desk.done("move_file", source="x", destination="y")
    assert "changed since" not in await desk.done("write_files", path="y", content="new\n", line_count=1)
    outside(desk, b"new\n", b"newer\n", path="y")
    code, text = await desk.refused("delete_file", path="y")
    assert (code, "+newer" in text) == ("changed_since_read", True)
    await desk.done("delete_file", path="y")


async def test_sub_agents_that_edit_side_by_side_are_no_alarm(desk: Desk) -> None:
    desk.write("x", lines(60))
    await view(desk)

    async def work(number: int) -> list[ToolResult]:
        name = f"line {number}"
        answers = [await put(desk, f"{name}\n", f"{name} once\n")]
        answers.append(await desk.call("read_files", path="x", line_range=f"{number}-{number}"))
        answers.append(await put(desk, f"{name} once\n", f"{name} twice\nand more\n"))
        return answers

    done = [answer for answers in await asyncio.gather(*map(work, range(10, 50, 4))) for answer in answers]
    assert not [answer.text for answer in done if answer.is_error or "changed since" in answer.text]
    assert desk.read("x").count(b" twice\nand more\n") == 10
    assert "changed since" not in await desk.done("write_files", path="x", content="new\n", line_count=1)


@pytest.mark.parametrize("tool", ["read_files", "view"])
async def test_an_edit_between_reading_and_showing_is_no_alarm(
    desk: Desk, tool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.write("x", lines(60))
    await view(desk)
    has_read, has_written = threading.Event(), threading.Event()
    read = Workspace.read

    def read_and_wait(self: Workspace, path: str) -> File:
        file = read(self, path)
        if not has_read.is_set():
            has_read.set()
            has_written.wait(0.5)  # the edit's chance to come between; it should wait for us
        return file

    monkeypatch.setattr(Workspace, "read", read_and_wait)

    async def edit() -> ToolResult:
        assert await asyncio.to_thread(has_read.wait, 30)
        answer = await put(desk, "line 50\n", "line fifty\n")
        has_written.set()
        return answer

    command = {"command": "view", "view_range": [1, 3]} if tool == "view" else {"line_range": "1-3"}
    name = "text_editor" if tool == "view" else tool
    shown, edited = await asyncio.gather(desk.call(name, path="x", **command), edit())
    assert not edited.is_error
    assert "changed since" not in shown.text + edited.text
    assert "changed since" not in await desk.done("write_files", path="x", content="new\n", line_count=1)


async def test_a_file_is_the_same_by_another_name(desk: Desk) -> None:
    desk.write("d/x", CODE)
    (desk.folder / "link").symlink_to("d/x")
    await view(desk, "link")
    assert not (await put(desk, "return y", "return 0", path="d/../d/x")).is_error
    text = await desk.done("write_files", path=str(desk.folder / "d/x"), content="new\n", line_count=1)
    assert "changed since" not in text


@pytest.mark.parametrize("tool", ["write_files", "create"])
async def test_a_whole_file_is_not_put_in_place_of_what_nobody_showed(desk: Desk, tool: str) -> None:
    async def write() -> ToolResult:
        if tool == "create":
            return await desk.call(
                "text_editor", command="create", path="x", file_text="new\n", overwrite=True
            )
        return await desk.call("write_files", path="x", content="new\n", line_count=1)

    desk.write("x", CODE)
    unread = await write()
    assert unread.code == "not_read"
    assert "-timeout = DEFAULT" in unread.text
    assert desk.read("x") == CODE
    await view(desk)
    outside(desk, b"return y", b"return -y")
    changed = await write()
    assert changed.code == "changed_since_read"
    assert "+    return -y" in changed.text
    assert not (await write()).is_error  # it was shown by now
    assert desk.read("x") == b"new\n"


@pytest.mark.parametrize("tool", ["write_files", "create"])
async def test_lines_that_were_never_shown_are_not_dropped(desk: Desk, tool: str) -> None:
    async def write(text: str) -> ToolResult:
        arguments: dict[str, object] = {"content": text, "line_count": text.count("\n")}
        if tool == "create":
            arguments = {"command": "create", "file_text": text, "overwrite": True}
        return await desk.call("text_editor" if tool == "create" else tool, path="x", **arguments)

    desk.write("x", lines(30))
    await view(desk, "x", [1, 3])
    refused = await write("")
    assert (refused.code, "lines 4-30" in refused.text) == ("not_read", True)
    assert "-line 17\n" in refused.text
    assert desk.read("x") == lines(30)
    kept = lines(30).replace(b"line 2\n", b"line two\n").decode()
    assert not (await write(kept)).is_error


async def test_what_a_refusal_showed_of_unseen_lines_may_go_when_it_is_said_again(desk: Desk) -> None:
    desk.write("x", lines(400))
    await view(desk, "x", [1, 300])
    new = {"path": "x", "content": "all new\n", "line_count": 1}
    code, text = await desk.refused("write_files", **new)
    assert (code, "lines 301-400" in text) == ("not_read", True)
    assert (await desk.refused("write_files", **new))[0] == "not_read"  # too long to be shown
    await view(desk, "x", [301, 400])
    await desk.done("write_files", **new)
    desk.write("y", lines(20))
    await view(desk, "y", [1, 10])
    new["path"] = "y"
    assert (await desk.refused("write_files", **new))[0] == "not_read"
    await desk.done("write_files", **new)


async def test_a_line_that_was_shown_cut_was_not_shown(desk: Desk) -> None:
    desk.write("x", b"a = 1\n" + b"long " * 1000 + b"\nend\n")
    new = {"path": "x", "content": "a = 1\nend\n", "line_count": 2}
    await view(desk)
    assert (await desk.refused("write_files", **new))[0] == "not_read"
    assert not (await put(desk, "end", "END")).is_error
    await desk.done("search_and_replace", path="x", search="long", replace="wide", start_line=2)
    new["content"] = "a = 1\nEND\n"
    assert (await desk.refused("write_files", **new))[0] == "not_read"  # of its own change it saw a part
    await view(desk, "x", [2, 2])
    await desk.done("write_files", **new)


async def test_a_line_that_nobody_can_view_whole_may_go_when_it_is_said_again(desk: Desk) -> None:
    desk.write("x", b"x" * 100_000 + b"\n")
    new = {"path": "x", "content": "new\n", "line_count": 1}
    await view(desk)
    assert (await desk.refused("write_files", **new))[0] == "not_read"
    await desk.done("write_files", **new)


async def test_lines_that_it_wrote_itself_were_shown(desk: Desk) -> None:
    text = "".join(f"{'long ' * 1000}{n}\n" for n in range(30))
    await desk.done("write_files", path="x", content=text, line_count=30)
    await put(desk, "long 7\n", "long seven\n")
    await view(desk)
    await desk.done("write_files", path="x", content="new\n", line_count=1)


async def test_outputs_of_a_notebook_that_were_never_shown_are_not_dropped(desk: Desk) -> None:
    cell: dict[str, Any] = {"cell_type": "code", "source": ["a = 1"], "metadata": {}, "execution_count": 1}
    outputs = [{"output_type": "stream", "name": "stdout", "text": ["very dear\n", "results\n"]}]
    book: dict[str, Any] = {
        "cells": [{**cell, "outputs": outputs}],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    desk.write("x.ipynb", json.dumps(book, indent=1).encode())
    await view(desk, "x.ipynb")
    new = json.dumps({**book, "cells": [{**cell, "outputs": []}]}, indent=1)
    wanted = {"command": "create", "path": "x.ipynb", "file_text": new, "overwrite": True}
    code, text = await desk.refused("text_editor", **wanted)
    assert (code, "very dear" in text) == ("not_read", True)


async def test_a_whole_file_that_keeps_what_others_changed_is_written(desk: Desk) -> None:
    desk.write("x", CODE)
    await view(desk)
    outside(desk, b"return y", b"return -y")
    content = CODE.replace(b"return y", b"return -y").replace(b"DEFAULT", b"30").decode()
    assert "return -y" in await desk.done("write_files", path="x", content=content, line_count=9)


async def test_a_long_change_has_to_be_viewed_before_it_is_written_over(desk: Desk) -> None:
    desk.write("x", lines(10))
    await view(desk)
    desk.write("x", b"".join(b"other %d\n" % n for n in range(1000)))
    for _ in range(2):
        result = await desk.call("write_files", path="x", content="new\n", line_count=1)
        assert result.code == "changed_since_read"
    await view(desk, "x", [501, 1000])
    assert (await desk.call("write_files", path="x", content="new\n", line_count=1)).is_error
    await view(desk, "x", [1, 500])
    assert not (await desk.call("write_files", path="x", content="new\n", line_count=1)).is_error


async def test_a_binary_file_is_written_over_when_that_is_said_twice(desk: Desk) -> None:
    desk.write("x", b"\0\1\2\3")
    code, _ = await desk.refused("write_files", path="x", content="new\n", line_count=1)
    assert code == "not_read"
    desk.write("x", b"\0\1\2\3\4")
    code, _ = await desk.refused("write_files", path="x", content="new\n", line_count=1)
    assert code == "not_read"
    await desk.done("write_files", path="x", content="new\n", line_count=1)
    assert not (await put(desk, "new", "newer")).is_error


async def test_lines_are_inserted_where_they_were_meant(desk: Desk) -> None:
    desk.write("x", lines(20))
    await view(desk)
    outside(desk, b"line 3\n", b"line 3\nmore\nand more\n")
    text = await desk.done("text_editor", command="insert", path="x", insert_line=10, insert_text="new")
    assert b"line 10\nnew\nline 11\n" in desk.read("x")
    assert "+more" in text
    outside(desk, b"line 5\n", b"")
    await desk.done("insert_contents", path="x", line=-2, content="near the end")
    assert desk.read("x").endswith(b"line 18\nnear the end\nline 19\nline 20\n")


async def test_lines_are_not_inserted_beside_a_line_that_changed(desk: Desk) -> None:
    desk.write("x", lines(20))
    await view(desk)
    outside(desk, b"line 10\n", b"line ten\n")
    code, text = await desk.refused(
        "text_editor", command="insert", path="x", insert_line=10, insert_text="new"
    )
    assert (code, "+line ten" in text) == ("changed_since_read", True)
    await desk.done("text_editor", command="insert", path="x", insert_line=10, insert_text="new")
    assert b"line ten\nnew\nline 11\n" in desk.read("x")


async def test_blocks_of_lines_are_found_where_they_went(desk: Desk) -> None:
    desk.write("x", b"a\n}\nb\n}\nc\n}\n")
    await view(desk)
    outside(desk, b"a\n}\n", b"new\nnew\na\n}\n")
    text = await desk.done("apply_diffs", path="x", search_content="}", replace_content="};", start_line=4)
    assert desk.read("x") == b"new\nnew\na\n}\nb\n};\nc\n}\n"
    assert "+new" in text
    outside(desk, b"c\n}\n", b"c\n})\n")
    code, _ = await desk.refused(
        "apply_diffs", path="x", search_content="}", replace_content="];", start_line=8
    )
    assert code == "changed_since_read"


async def test_an_expression_replaces_nothing_of_others_unseen(desk: Desk) -> None:
    desk.write("x", CODE)
    await view(desk)
    outside(desk, b"timeout = DEFAULT", b"timeout = 99")
    wanted = {"path": "x", "search": "^timeout.*", "replace": "timeout = 1", "use_regex": True}
    assert (await desk.refused("search_and_replace", **wanted))[0] == "changed_since_read"
    await desk.done("search_and_replace", **wanted)


async def test_lines_to_search_are_those_that_were_meant(desk: Desk) -> None:
    desk.write("x", b"x\n" * 6)
    await view(desk)
    desk.write("x", b"y\ny\n" + b"x\n" * 6)
    await desk.done("search_and_replace", path="x", search="x", replace="z", start_line=1, end_line=2)
    assert desk.read("x") == b"y\ny\nz\nz\n" + b"x\n" * 4


async def test_what_a_command_of_its_own_changed_is_told_and_in_nobodys_way(desk: Desk) -> None:
    desk.write("x", CODE)
    await view(desk)
    await desk.done("run_command", command="sed -i 's/DEFAULT/DEFAULT * 2/; 1i # new' x")
    result = await put(desk, "timeout = DEFAULT", "timeout = 30")
    assert not result.is_error
    assert "+timeout = DEFAULT * 2" in result.text
    await desk.done("run_command", command="sed -i 's/return y/return 7/' x")
    text = await desk.done("write_files", path="x", content="new\n", line_count=1)
    assert "+    return 7" in text


async def test_a_command_after_a_person_does_not_hide_what_the_person_did(desk: Desk) -> None:
    desk.write("x", CODE)
    await view(desk)
    outside(desk, b"return y", b"return -y")
    await desk.done("run_command", command="sed -i 's/DEFAULT/DEFAULT * 2/' x")
    code, text = await desk.refused("write_files", path="x", content="new\n", line_count=1)
    assert (code, "+    return -y" in text) == ("changed_since_read", True)


async def test_a_view_of_another_part_tells_what_changed(desk: Desk) -> None:
    desk.write("x", lines(100))
    await view(desk, "x", [1, 20])
    outside(desk, b"line 5\n", b"line 5\nmore\n")
    text = await view(desk, "x", [50, 60])
    assert "+more" in text
    assert "changed since" not in await view(desk, "x", [50, 60])
    assert "changed since" not in await desk.done(
        "text_editor", command="insert", path="x", insert_line=5, insert_text="new"
    )
    assert b"line 5\nnew\nmore\n" in desk.read("x")


async def test_reading_can_be_a_must(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(CODE)
    toolset = open_toolset(Workspace([tmp_path]), SETS, editor=EditorOptions(require_read=True))

    async def call(name: str, **arguments: object) -> ToolResult:
        return await toolset.call(ToolCall(id="1", name=name, arguments=arguments))

    edits = {
        "text_editor": {"command": "str_replace", "path": "x", "old_str": "os", "new_str": "re"},
        "insert_contents": {"path": "x", "line": 1, "content": "#"},
        "search_and_replace": {"path": "x", "search": "HOST", "replace": "PORT"},
        "apply_diffs": {"path": "x", "search_content": "", "replace_content": "#", "start_line": 2},
    }
    for name, arguments in edits.items():
        assert (await call(name, **arguments)).code == "not_read"
    assert not (await call("write_files", path="new", content="a\n", line_count=1)).is_error
    assert not (await call("search_and_replace", path="new", search="a", replace="b")).is_error
    await call("read_files", path="x", line_range="1-1")
    assert not (await call("text_editor", **edits["text_editor"])).is_error


async def test_reading_is_a_must_before_a_file_is_moved_or_deleted_too(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(CODE)
    (tmp_path / "y").write_bytes(b"\0\1\2")
    toolset = open_toolset(Workspace([tmp_path]), SETS, editor=EditorOptions(require_read=True))

    async def call(name: str, **arguments: object) -> ToolResult:
        return await toolset.call(ToolCall(id="1", name=name, arguments=arguments))

    for preview in (True, False):
        assert (await call("delete_file", path="x", preview=preview)).code == "not_read"
        assert (await call("move_file", source="x", destination="z", preview=preview)).code == "not_read"
    assert (tmp_path / "x").read_bytes() == CODE
    assert not (await call("delete_file", path="y")).is_error  # what is no text cannot be viewed
    await call("read_files", path="x")
    assert not (await call("move_file", source="x", destination="z")).is_error
    assert not (await call("delete_file", path="z")).is_error


async def test_a_file_that_is_made_where_a_person_deleted_it_is_told_so(desk: Desk) -> None:
    desk.write("x", CODE)
    await view(desk)
    (desk.folder / "x").unlink()
    text = await desk.done("text_editor", command="create", path="x", file_text="new\n")
    assert "`x` was gone since you last saw it; this made it anew." in text
    assert "kept" not in text
    assert "anew" not in await desk.done("text_editor", command="create", path="y", file_text="new\n")
    await desk.done("write_files", path="x", content="newer\n", line_count=1)


class _Session:
    """What a session is to the tools."""


async def test_sessions_see_apart(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(CODE)
    toolset = open_toolset(Workspace([tmp_path]))
    one, other = _Session(), _Session()

    async def call(session: object, name: str, **arguments: object) -> ToolResult:
        with bind_call(session=session):
            return await toolset.call(ToolCall(id="1", name=name, arguments=arguments))

    await call(one, "read_files", path="x")
    assert (await call(other, "write_files", path="x", content="new\n", line_count=1)).code == "not_read"
    edit = {"command": "str_replace", "path": "x"}
    await call(other, "text_editor", **edit, old_str="return y", new_str="return -y")
    refused = await call(one, "text_editor", **edit, old_str="    return y\n", new_str="")
    assert refused.code == "changed_since_read"
    landed = await call(one, "text_editor", **edit, old_str="import os", new_str="import re")
    assert not landed.is_error


async def test_over_mcp_too(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(CODE)
    async with Client(build_server(open_toolset(Workspace([tmp_path])))) as client:
        await client.call_tool("text_editor", {"command": "view", "path": "x"})
        (tmp_path / "x").write_bytes(CODE.replace(b"DEFAULT", b"DEFAULT * 2"))
        edit = {
            "command": "str_replace",
            "path": "x",
            "old_str": "timeout = DEFAULT",
            "new_str": "timeout = 3",
        }
        result = await client.call_tool("text_editor", edit)
        assert (result.meta or {})["kakite/code"] == "changed_since_read"


def test_when_the_room_is_full_who_holds_most_forgets_first() -> None:
    sights, one, other = SeenContentStore(100), _Session(), _Session()
    sights.put(other, "a", SeenContent.of("x" * 30, []))
    for name in "abcd":
        sights.put(one, name, SeenContent.of(name * 30, []))
    assert sights.list_paths(other) == ["a"]
    assert sights.list_paths(one) == ["d", "c"]
    sights.put(one, "large", SeenContent.of("x" * 1000, []))
    assert sights.list_paths(one) == ["large"]
    del other
    assert sights.get(one, "large") is not None


WORDS = [f"{a}{b}" for a in "bcdfghklmnprstvw" for b in ("alo", "eru", "imi", "ota", "uke")]


class _Model:
    """A model that edits by what it was shown, and a person who changes the file meanwhile."""

    def __init__(self, toolset: FunctionToolset, file: Path, seed: int) -> None:
        self.toolset, self.file, self.random, self.names = toolset, file, random.Random(seed), count()
        self.lines = [self.name() for _ in range(self.random.randint(4, 40))]
        self.known: dict[int, str] = {}
        """What the model believes of a line, by the line's place in ``self.ids``."""
        self.ids = list(range(len(self.lines)))
        self.save()

    def name(self) -> str:
        number = next(self.names)
        return f"{WORDS[number % 80]} {WORDS[number // 80 % 80]} {number}"

    def save(self) -> None:
        self.file.write_text("".join(f"{line}\n" for line in self.lines), encoding="utf-8")

    async def call(self, **arguments: object) -> ToolResult:
        result = await self.toolset.call(
            ToolCall(id="1", name="text_editor", arguments={"path": "x", **arguments})
        )
        told = {line.lstrip().split("\t")[-1].lstrip("+- ") for line in result.text.splitlines()}
        for place, line in zip(self.ids, self.lines, strict=True):
            if line in told:
                self.known[place] = line
        return result

    async def view(self) -> None:
        first = self.random.randint(1, len(self.lines))
        last = self.random.randint(first, len(self.lines))
        await self.call(command="view", view_range=[first, last])
        for at in range(first - 1, last):
            self.known[self.ids[at]] = self.lines[at]

    def meddle(self) -> None:
        at = self.random.randrange(len(self.lines))
        match self.random.choice(["replace", "extend", "insert", "delete"]):
            case "replace":
                self.lines[at] = self.name()
            case "extend":
                self.lines[at] += f" {WORDS[at % 80]}"
            case "insert":
                self.lines.insert(at, self.name())
                self.ids.insert(at, 1000 + next(self.names))
            case _:
                if len(self.lines) > 2:
                    del self.lines[at], self.ids[at]
        self.save()

    async def edit(self) -> None:
        """Replace a line that it believes to know; sometimes with the lines around it as context."""
        if not self.known:
            return
        place, old = self.random.choice(list(self.known.items()))
        at = self.ids.index(place) if place in self.ids else -1
        new = self.name()
        before = self.file.read_bytes()
        result = await self.call(command="str_replace", old_str=old, new_str=new)
        if at >= 0 and self.lines[at] == old:
            assert not result.is_error, result.text
            self.lines[at] = new
            self.known[place] = new
            assert self.file.read_text(encoding="utf-8") == "".join(f"{line}\n" for line in self.lines)
        else:
            assert result.is_error
            assert self.file.read_bytes() == before
            if at >= 0 and self.lines[at] in result.text:
                self.known[place] = self.lines[at]
            elif at < 0:
                self.known.pop(place)


@pytest.mark.slow
@given(st.integers(0, 2**32))
async def test_no_change_of_others_is_lost_or_in_the_way(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    folder = tmp_path_factory.mktemp("law")
    workspace = Workspace([folder])
    model = _Model(open_toolset(workspace, ["editor"]), folder / "x", seed)
    for _ in range(20):
        match model.random.choice(["view", "edit", "edit", "meddle"]):
            case "view":
                await model.view()
            case "edit":
                await model.edit()
            case _:
                model.meddle()
    workspace.close()


@given(st.integers(0, 2**32))
async def test_an_insertion_comes_where_it_was_meant_or_not_at_all(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    folder = tmp_path_factory.mktemp("law")
    workspace = Workspace([folder])
    model = _Model(open_toolset(workspace, ["editor"]), folder / "x", seed)
    await model.call(command="view")
    seen, ids = list(model.lines), list(model.ids)
    for _ in range(model.random.randint(0, 4)):
        model.meddle()
    after = model.random.randint(1, len(seen))
    result = await model.call(command="insert", insert_line=after, insert_text="inserted")
    place = model.ids.index(ids[after - 1]) if ids[after - 1] in model.ids else -1
    is_named = place >= 0 and model.lines[place] == seen[after - 1]
    following = model.ids[place + 1] if place + 1 < len(model.ids) else -1
    is_new = following >= 1000 and following not in ids
    if is_named and not is_new:
        assert not result.is_error, result.text
    if not result.is_error:
        assert is_named
        model.lines.insert(place + 1, "inserted")
    assert (folder / "x").read_text(encoding="utf-8") == "".join(f"{line}\n" for line in model.lines)
    workspace.close()


@pytest.mark.parametrize(
    ("seen", "now", "line"),
    [
        ("a\nb\n\nc\nd\n", "p\nq\nr\ns\nt\n\nu\nv\nw\n", 3),
        ("a = 1\nb = 2\n    }\nc = 3\nd = 4\n", "p\nq\nr\ns\nt\n    }\nu\nv\nw\n", 3),
        (
            "def f():\n    return x\n\ndef g():\n    return y\n",
            "def h():\n    pass\n\ndef k():\n    return x\n",
            2,
        ),
    ],
)
async def test_one_equal_line_in_a_file_that_is_new_is_no_place(
    desk: Desk, seen: str, now: str, line: int
) -> None:
    desk.write("x", seen.encode())
    await view(desk)
    desk.write("x", now.encode())
    refused = await desk.call(
        "text_editor", command="insert", path="x", insert_line=line, insert_text="new\n"
    )
    assert refused.code == "changed_since_read"
    assert desk.read("x") == now.encode()
