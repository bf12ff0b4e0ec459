"""Replies of every format, whole and cut anywhere; what is malformed is refused with the line that is
wrong."""

from __future__ import annotations

import itertools
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.bounds import little_work

from kakite.edit import CreateFile, DeleteFile, Edit, FormatError, MoveFile, Operation, Parser, parse

if TYPE_CHECKING:
    from kakite.edit.formats.format_error import FormatName

AIDER = """I will rename it.

src/a.py
```python
<<<<<<< SEARCH
def a():
    pass
=======
def b():
    pass
>>>>>>> REPLACE
```

And remove the call:

<<<<<<< SEARCH
a()
=======
>>>>>>> REPLACE
"""
ROO = """<<<<<<< SEARCH
:start_line:12
:end_line:13
-------
\\=======
a
=======
\\>>>>>>> REPLACE
>>>>>>> REPLACE
"""
CLINE = "a.md\n------- SEARCH\nTitle\n=======\nOther\n+++++++ REPLACE\n"
SEED = (
    '{"contents": [{"message": "I mend it. {\\"x\\"}"},'
    ' {"search": "a [b", "replace": "c", "startLine": 3, "endLine": null},'
    ' {"search": "d", "replace": "e\\n", "startLine": 9}]}'
)
STRINGS = '```json\n[{"path": "x.py", "old_str": "a", "new_str": "b", "replace_all": true}]\n```\n'
UDIFF = """```diff
--- a/x.py
+++ b/x.py
@@ -1,4 +1,4 @@ def f():
 a
-b
+c

 d
@@ @@
-e
--- a/gone.py
+++ /dev/null
@@ -1 +0,0 @@
-x
--- /dev/null
+++ b/new.py
@@ -0,0 +1 @@
+x
\\ No newline at end of file
```
"""
PATCH = """*** Begin Patch
*** Add File: new.py
+a
+
*** Update File: old.py
*** Move to: moved.py
@@ class A:
@@     def f(self):
 a
-b
+c
@@
+d
 e
*** End of File
*** Delete File: gone.py
*** End Patch
"""

CALL = {
    "id": "call_1",
    "type": "function",
    "function": {
        "name": "str_replace_based_edit_tool",
        "arguments": json.dumps(
            {"command": "str_replace", "path": "a.py", "old_str": "a\n", "new_str": '"b"'}
        ),
    },
}
CHAT = json.dumps(
    {
        "id": "chatcmpl-1",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "I mend it.", "tool_calls": [CALL]},
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {"total_tokens": 9, "details": {"cached_tokens": 0}},
    },
    indent=1,
)
RESPONSES = json.dumps(
    {
        "output": [
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "So:"}]},
            {
                "type": "function_call",
                "call_id": "call_1",
                "name": "multi_edit",
                "arguments": json.dumps(
                    {
                        "edits": [
                            {"old_string": "a", "new_string": "b"},
                            {"old_string": "c", "new_string": "d", "replace_all": True},
                        ],
                        "file_path": "a.py",
                    }
                ),
            },
            {
                "type": "custom_tool_call",
                "name": "apply_patch",
                "input": "*** Begin Patch\n*** Delete File: gone.py\n*** End Patch\n",
            },
        ]
    }
)
MESSAGE = json.dumps(
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "A new file."},
            {
                "type": "tool_use",
                "id": "1",
                "name": "Write",
                "input": {"file_path": "new.py", "content": "x\n"},
            },
        ],
    }
)
INVOKE = """I mend it.

<function_calls>
<invoke name="str_replace_based_edit_tool">
<parameter name="command">str_replace</parameter>
<parameter name="path">a.py</parameter>
<parameter name="old_str">if a < b:
    c = "</parameter> is text"
</parameter>
<parameter name="new_str"></parameter>
</invoke>
<invoke name="create">
<parameter name="command">create</parameter>
<parameter name="path">b.py</parameter>
<parameter name="file_text">x
</parameter>
</invoke>
</function_calls>

That is all.
"""
MULTI_INVOKE = """<x:invoke name="MultiEdit"><x:parameter name="file_path">a.py</x:parameter>
<x:parameter name="edits">[{"old_string": "a", "new_string": "b"}]</x:parameter></x:invoke>
"""
WHOLE = """Both files anew:

src/a.py
```python
def a():
    pass

```

**package.json**

````json
{"name": "x", "scripts": {}}
```
````

Then run it:

```sh
python src/a.py
```
"""
THINK = f"<think>\nMaybe so:\n<<<<<<< SEARCH\na\n=======\n</think>\n\n{CLINE}<think>Now d.</think>\nDone.\n"
PROMPTED_THINK = f"Maybe:\n<<<<<<< SEARCH is how it begins\n*** \n</think>\n{CLINE}".replace("<<<<<<< ", "< ")

CASES: dict[str, tuple[str, tuple[Operation, ...]]] = {
    "aider": (
        AIDER,
        (
            Edit(
                search="def a():\n    pass\n",
                replace="def b():\n    pass\n",
                path="src/a.py",
                whole_lines=True,
            ),
            Edit(search="a()\n", replace="", path="src/a.py", whole_lines=True),
        ),
    ),
    "roo": (ROO, (Edit(search="=======\na\n", replace=">>>>>>> REPLACE\n", line=12, whole_lines=True),)),
    "cline": (CLINE, (Edit(search="Title\n", replace="Other\n", path="a.md", whole_lines=True),)),
    "seed 002": (SEED, (Edit(search="a [b", replace="c", line=3), Edit(search="d", replace="e\n", line=9))),
    "old_str": (STRINGS, (Edit(search="a", replace="b", path="x.py", all=True),)),
    "unified diff": (
        UDIFF,
        (
            Edit(
                search="a\nb\n\nd\n",
                replace="a\nc\n\nd\n",
                path="x.py",
                heading="def f():",
                hunk_line=1,
                whole_lines=True,
            ),
            Edit(search="e\n", replace="", path="x.py", whole_lines=True),
            DeleteFile(path="gone.py", text="x\n"),
            CreateFile(path="new.py", text="x"),
        ),
    ),
    "apply_patch": (
        PATCH,
        (
            CreateFile(path="new.py", text="a\n\n"),
            MoveFile(path="old.py", to="moved.py"),
            Edit(
                search="a\nb\n",
                replace="a\nc\n",
                path="old.py",
                scope=("class A:", "def f(self):"),
                whole_lines=True,
            ),
            Edit(search="e\n", replace="d\ne\n", path="old.py", at_end=True, whole_lines=True),
            DeleteFile(path="gone.py"),
        ),
    ),
    "tool_calls": (CHAT, (Edit(search="a\n", replace='"b"', path="a.py"),)),
    "function_call": (
        RESPONSES,
        (
            Edit(search="a", replace="b", path="a.py"),
            Edit(search="c", replace="d", path="a.py", all=True),
            DeleteFile(path="gone.py"),
        ),
    ),
    "tool_use": (MESSAGE, (CreateFile(path="new.py", text="x\n", overwrite="always"),)),
    "invoke": (
        INVOKE,
        (
            Edit(search='if a < b:\n    c = "</parameter> is text"\n', replace="", path="a.py"),
            CreateFile(path="b.py", text="x\n"),
        ),
    ),
    "invoke of several": (MULTI_INVOKE, (Edit(search="a", replace="b", path="a.py"),)),
    "whole files": (
        WHOLE,
        (
            CreateFile(path="src/a.py", text="def a():\n    pass\n\n", overwrite="if_most_stays"),
            CreateFile(
                path="package.json", text='{"name": "x", "scripts": {}}\n```\n', overwrite="if_most_stays"
            ),
        ),
    ),
    "think": (THINK, (Edit(search="Title\n", replace="Other\n", path="a.md", whole_lines=True),)),
    "think in the prompt": (
        PROMPTED_THINK,
        (Edit(search="Title\n", replace="Other\n", path="a.md", whole_lines=True),),
    ),
}


BLOCK = "<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n"


@pytest.mark.parametrize("name", CASES)
def test_a_reply_is_read_as_what_it_asks_for(name: str) -> None:
    reply, expected = CASES[name]
    assert parse(reply) == expected
    assert parse(reply.replace("\n", "\r\n")) == expected


@pytest.mark.parametrize("name", CASES)
def test_a_reply_cut_anywhere_gives_the_same(name: str) -> None:
    reply, expected = CASES[name]
    for at in range(len(reply) + 1):
        parser = Parser()
        assert (*parser.feed(reply[:at]), *parser.feed(reply[at:]), *parser.close()) == expected


@pytest.mark.parametrize("name", CASES)
def test_a_reply_fed_by_characters_gives_each_operation_once(name: str) -> None:
    reply, expected = CASES[name]
    parser = Parser()
    assert (*(one for char in reply for one in parser.feed(char)), *parser.close()) == expected


def test_an_edit_is_given_as_soon_as_it_is_complete() -> None:
    parser = Parser()
    assert parser.feed(SEED[: SEED.index(', "startLine": 9')]) == [CASES["seed 002"][1][0]]
    assert parser.feed(', "startLine": 9}') == [CASES["seed 002"][1][1]]
    assert parser.feed("]}") == []
    assert parser.close() == []


@pytest.mark.parametrize("heading", ["Next\n=======\n", "==========\n"])
def test_a_row_of_equals_signs_below_prose_or_of_another_length_is_no_marker(heading: str) -> None:
    assert parse(BLOCK + heading, "search_replace") == parse(BLOCK, "search_replace")


@pytest.mark.parametrize(
    "blocks", ["<<<<< SEARCH\na\n=====\nb\n>>>>> REPLACE", "<<<<<<<<< SEARCH>\na\n=========\nb\n>>>>>>>>>"]
)
def test_markers_may_have_five_to_nine_characters(blocks: str) -> None:
    assert parse(blocks) == (Edit(search="a\n", replace="b\n", whole_lines=True),)


@pytest.mark.parametrize(
    ("above", "path"),
    [
        ("src/a.py", "src/a.py"),
        ("**src/a.py**", "src/a.py"),
        ("`src/a.py`:", "src/a.py"),
        ("### File: src/a.py", "src/a.py"),
        ("```python src/a.py", "src/a.py"),
        ("```src/a.py", "src/a.py"),
        ("src/a.py\n```python", "src/a.py"),
        ("Makefile", "Makefile"),
        ("`my notes/a b.md`", "my notes/a b.md"),
        ("File: my notes/a b.md", "my notes/a b.md"),
        ("I will edit src/foo.py", ""),
        ("I will edit foo.py:", ""),
        ("Change this in the function.", ""),
        ("```python", ""),
        ("", ""),
    ],
)
def test_the_file_is_named_above_the_block_or_in_its_fence(above: str, path: str) -> None:
    [edit] = parse(f"{above}\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n")
    assert isinstance(edit, Edit)
    assert (edit.search, edit.replace, edit.path) == ("a\n", "b\n", path)


@pytest.mark.parametrize(
    ("reply", "code", "line"),
    [
        ("", "no_edits", 1),
        ("I cannot do that.\n", "no_edits", 2),
        ("<<<<<<< SEARCH\na\n", "marker_sequence", 3),
        ("<<<<<<< SEARCH\na\n=======\nb", "marker_sequence", 5),
        ("<<<<<<< SEARCH\na\n>>>>>>> REPLACE\n", "marker_sequence", 3),
        ("<<<<<<< SEARCH\na\n<<<<<<< SEARCH\n", "marker_sequence", 3),
        ("<<<<<<< SEARCH\na\n=======\nb\n=======\nc\n>>>>>>> REPLACE\n", "marker_sequence", 5),
        ("<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n>>>>>>> REPLACE\n", "marker_sequence", 6),
        (f"{BLOCK}=======\n", "marker_sequence", 6),
        (f"{BLOCK}\n=======\nc\n>>>>>>> REPLACE\n", "marker_sequence", 7),
        ('{"search": "a", "replace": "b"', "marker_sequence", 1),
        ('{"search": "a"}', "bad_content", 1),
        ('[{"search": "a", "replace": 1}]', "bad_content", 1),
        ('{"search": "a", "replace": "b", "line": "x"}', "bad_content", 1),
        ('[{"search": "a", "replace": "b"}] and more', "marker_sequence", 1),
        ("--- a/x\n+++ b/x\n@@ @@\n a\nb\n", "bad_content", 5),
        ("--- a/x\n+++ b/x\n@@ @@\n-a\n```\n--- a/y.py\n+b\n", "marker_sequence", 7),
        ("--- a/x\n+++ b/x\n@@ @@\n-a\n+++ b/y.py\n+b\n", "marker_sequence", 5),
        ("--- a/x\n+++ b/x\n@@ @@\n-a\n\ndef f():\n-    b\n", "bad_content", 7),
        ("--- a/x\n+++ b/x\nThat is all.\n", "bad_content", 4),
        ("--- a/a.py\n+++ b/b.py\n@@ @@\n-a\n+b\n", "bad_content", 2),
        ("diff --git a/a b/b\ncopy from a\ncopy to b\n", "bad_content", 2),
        ("diff --git a/a b/a\nold mode 100644\nnew mode 100755\n", "bad_content", 2),
        ("diff --git a/a b/a\nBinary files a/a and b/a differ\n", "bad_content", 2),
        ("diff --git a/a b/a\nnew file mode 120000\n", "bad_content", 2),
        ("--- /dev/null\n+++ b/x\n@@ @@\n a\n+b\n", "bad_content", 6),
        ("*** Update File: a\n@@\n-a\n+b\n", "marker_sequence", 1),
        (BLOCK + "\n--- a/x.py\n+++ b/x.py\n@@ @@\n-a\n+b\n", "marker_sequence", 9),
        (BLOCK + "*** Begin Patch\n*** Update File: a\n-a\n+b\n*** End Patch\n", "marker_sequence", 6),
        (BLOCK + '```json\n[{"search": "a", "replace": "b"}]\n```\n', "marker_sequence", 7),
        (BLOCK + '[\n  {\n    "search": "a",', "marker_sequence", 8),
        ('[{"search": "a", "replace": "b"}]\n' + BLOCK, "marker_sequence", 2),
        ("--- a/x\n+++ b/x\n@@ @@\n-a\n+b\n\n" + BLOCK, "marker_sequence", 7),
        ('{"contents": [{"search": "a", "replace": "b"}], "path": "a.py"}', "bad_content", 1),
        ('[{"search": "a",\n"replace": "b"}]\n\n{"search": "c"}', "bad_content", 4),
        ("<<<<<<< SEARCH\n=====\n====\n======\nb\n>>>>>>> REPLACE\n", "marker_sequence", 4),
        ("*** Begin Patch\n*** Update File: a\n", "marker_sequence", 3),
        ("*** Begin Patch\n*** Update File: a\n*** End Patch\n", "bad_content", 3),
        ("*** Begin Patch\n*** Add File: a\nb\n*** End Patch\n", "marker_sequence", 3),
        ("*** Begin Patch\nrubbish\n*** End Patch\n", "marker_sequence", 2),
        (f"<think>\n{BLOCK}", "no_edits", 1),
        (f"a.py\n{BLOCK}<think>\n{BLOCK}", "marker_sequence", 7),
        (f"a.py\n{BLOCK}\n</think>\n{BLOCK}", "marker_sequence", 8),
        (json.dumps({"tool_calls": [{"function": {"name": "x", "arguments": "{"}}]}), "marker_sequence", 1),
        (json.dumps([{"name": "x", "arguments": "{}"}]), "bad_content", 1),
        (json.dumps([{"name": "x", "arguments": ""}]), "marker_sequence", 1),
        (
            json.dumps([{"name": "x", "arguments": '{"search": "a", "replace": "b"} {}'}]),
            "marker_sequence",
            1,
        ),
        (json.dumps({"name": "view", "arguments": {"path": "a.py"}}), "bad_content", 1),
        (json.dumps({"function": {"name": "view", "arguments": {"path": "a.py"}}}), "bad_content", 1),
        (json.dumps({"content": BLOCK, "tool_calls": [CALL]}), "bad_content", 1),
        (json.dumps([{"type": "text", "text": BLOCK}, CALL]), "bad_content", 1),
        (json.dumps({"name": "write", "input": {"content": "x"}}), "bad_content", 1),
        (json.dumps({"command": "insert", "path": "a.py", "file_text": "x"}), "bad_content", 1),
        ('<invoke name="x">\n<parameter name="path">a', "marker_sequence", 3),
        ('<invoke name="x">\n<parameter name="path">a</parameter>\n', "marker_sequence", 3),
        ('<invoke name="x">\n<parameter name="path">a</parameter>\n</invoke>', "bad_content", 3),
        ('<invoke name="x">\n<parameter name="path">a</parameter>\nb\n</invoke>', "marker_sequence", 5),
        (INVOKE.replace('"old_str"', '"path"'), "bad_content", 7),
        (INVOKE + BLOCK, "marker_sequence", 21),
        (BLOCK + INVOKE, "marker_sequence", 12),
        ("a.py\n```python\nx\n", "marker_sequence", 4),
        ("a.py\n```python\nx\n```\n\nAnd:\n```python\ny\n```\n", "bad_content", 7),
        ("a.py\n```\nx\n```\na.py\n```\ny\n```\n", "bad_content", 6),
        ("a.md\n```\nx\n```sh\ny\n```\nz\n```\n", "marker_sequence", 4),
        ("a.md\n```\nx\n```\ny\n```\nz\n```\n", "bad_content", 6),
        ("So:\n```python\nx\n```\n", "no_edits", 5),
        ("In `a.py` it is so.\n```python\nx\n```\n", "no_edits", 5),
    ],
)
def test_a_malformed_reply_is_refused_with_its_line(reply: str, code: str, line: int) -> None:
    with pytest.raises(FormatError) as refused:
        parse(reply)
    assert (refused.value.code, refused.value.line) == (code, line)
    assert "Write each edit like this" in refused.value.hint


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (
            "<<<<<<< SEARCH\nT\n=====\nb\n=======\nU\n=====\nb\n>>>>>>> REPLACE\n",
            ("T\n=====\nb\n", "U\n=====\nb\n"),
        ),
        ("<<<<<<< SEARCH\nT\n=====\nU\n>>>>>>> REPLACE\n", ("T\n", "U\n")),
        (
            "<<<<<<< SEARCH\n<<<<<<< HEAD\na\n=======\nb\n>>>>>>> theirs\n=======\nc\n>>>>>>> REPLACE\n",
            ("<<<<<<< HEAD\na\n=======\nb\n>>>>>>> theirs\n", "c\n"),
        ),
        ("<<<<<<< SEARCH\n<<<<<<< HEAD\n=======\n>>>>>>> REPLACE\n", ("<<<<<<< HEAD\n", "")),
        ("<<<<<<< SEARCH\n>>>>> a\n>>>>>\n=======\nb\n>>>>>>> REPLACE\n", (">>>>> a\n>>>>>\n", "b\n")),
        ("\ufeff<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n", ("a\n", "b\n")),
        ('\ufeff{"search": "a", "replace": "b"}', ("a", "b")),
        ('Here it is:\n\n[{"search": "a", "replace": "b"}]\n\nThat is [all].\n', ("a", "b")),
        (
            'The file has\n{"name": "x"}\n[1] and so on\n```json\n[\n{"search": "a", "replace": "b"}\n]\n```',
            ("a", "b"),
        ),
        ("--- a/x\n+++ b/x\n@@ @@\n-a\n+b\n\nThis renames it:\n- a is b.\n", ("a\n", "b\n")),
        (
            "--- a/x\n+++ b/x\n@@ @@\n a\n--- see a/b.sql\n+-- see a/c.sql\n",
            ("a\n-- see a/b.sql\n", "a\n-- see a/c.sql\n"),
        ),
    ],
)
def test_lines_that_only_resemble_a_format_are_text(reply: str, expected: tuple[str, str]) -> None:
    for operations in (parse(reply), _fed_by_characters(reply)):
        [edit] = operations
        assert isinstance(edit, Edit)
        assert (edit.search, edit.replace) == expected


def _fed_by_characters(reply: str) -> tuple[Operation, ...]:
    parser = Parser()
    return (*(one for char in reply for one in parser.feed(char)), *parser.close())


@pytest.mark.parametrize(
    "reply",
    [
        '{"search": "a", "replace": "b"}\n{"search": "c", "replace": "d", "startLine": "7"}\n',
        '```json\n[{"search": "a", "replace": "b"}]\n```\nand\n```json\n'
        '{"search": "c", "replace": "d", "line": 7}\n```\n',
        '[\n  {"search": "a", "replace": "b"}\n]\n[\n{"search": "c", "replace": "d", "start_line": 7}]',
    ],
)
def test_several_json_values_are_all_read(reply: str) -> None:
    assert parse(reply) == (Edit(search="a", replace="b"), Edit(search="c", replace="d", line=7))
    assert _fed_by_characters(reply) == parse(reply)


def test_a_path_beside_a_list_of_json_edits_is_for_all_of_them() -> None:
    edits = '[{"search": "a", "replace": "b"}, {"path": "c", "search": "d", "replace": "e"}]'
    reply = f'{{"path": "a.py", "edits": {edits}}}'
    assert [operation.path for operation in parse(reply)] == ["a.py", "c"]


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        ("a/x.py", "b/x.py", "x.py"),
        ("i/x.py", "w/x.py", "x.py"),
        ("c/main.c", "c/main.c", "c/main.c"),
        ("a/main.c", "a/main.c", "a/main.c"),
        ("x.py\t2026-01-01", "x.py\t2026-01-02", "x.py"),
        ("x.py 2026-01-01 10:00:00", "x.py 2026-01-02 10:00:00", "x.py"),
    ],
)
def test_only_what_git_puts_before_both_paths_is_removed(old: str, new: str, path: str) -> None:
    [edit] = parse(f"--- {old}\n+++ {new}\n@@ @@\n-a\n+b\n")
    assert edit.path == path


def test_git_creates_deletes_and_moves_without_a_hunk() -> None:
    reply = (
        "diff --git a/new.py b/new.py\nnew file mode 100644\nindex 0000000..e69de29\n"
        "diff --git a/old.py b/old.py\ndeleted file mode 100644\nindex e69de29..0000000\n"
        "diff --git a/x.py b/y.py\nsimilarity index 100%\nrename from x.py\nrename to y.py\n"
        "diff --git a/p.py b/q.py\nsimilarity index 90%\nrename from p.py\nrename to q.py\nindex 1..2\n"
        "--- a/p.py\n+++ b/q.py\n@@ @@\n-a\n+b\n"
    )
    assert parse(reply) == (
        CreateFile(path="new.py", text=""),
        DeleteFile(path="old.py"),
        MoveFile(path="x.py", to="y.py"),
        MoveFile(path="p.py", to="q.py"),
        Edit(search="a\n", replace="b\n", path="p.py", whole_lines=True),
    )
    assert _fed_by_characters(reply) == parse(reply)


@pytest.mark.parametrize(
    "above",
    [
        "In `b.py`:",
        "b.py (helper):",
        "**b.py** — same:",
        "Makefile.in",
        "`tool`:",
        "justfiles",
        "my file.txt",
    ],
)
def test_a_line_that_may_name_another_file_is_not_passed_over(above: str) -> None:
    try:
        second = parse(f"a.py\n{BLOCK}\n{above}\n```\n{BLOCK}```\n")[1]
    except FormatError as error:
        assert (error.code, error.line) == ("bad_content", 8)  # noqa: PT017  # both ends are fine
        return
    assert second.path == above


@pytest.mark.parametrize("name", ["justfile", "r/$id.tsx", "b.c++", "1. `b.py`:", "### 2. `b.py`"])
def test_odd_names_are_names(name: str) -> None:
    second = parse(f"a.py\n{BLOCK}\n{name}\n{BLOCK}")[1]
    assert second.path == name.rsplit(maxsplit=1)[-1].strip("`:")


@pytest.mark.parametrize("above", ["And then:", "Use `self.values` in a.py too:", "Second.", "", "```"])
def test_prose_between_blocks_keeps_the_file(above: str) -> None:
    assert parse(f"src/a.py\n{BLOCK}\n{above}\n{BLOCK}")[1].path == "src/a.py"


@pytest.mark.parametrize(
    "above",
    [
        "## b.py\n\nUpdate the constant:\n\n```python",
        "b.py\n\nUpdate the constant:",
        "File: b.py\nThe constant too:",
        "```python filename=b.py",
        '```python title="b.py"',
        "<path>b.py</path>\n<diff>",
        "</diff>\n</file>\n<file>\n<path>b.py</path>\n<diff>\n<content><![CDATA[",
        '<file path="b.py">',
        '<invoke name="edit_file">\n<parameter name="path">b.py</parameter>',
        "**2. `b.py`**\n```python",
        "```python\n# b.py",
        "In a.py that was all.\n\n**b.py**\n\nHere too:",
    ],
)
def test_a_plain_name_is_the_file_also_with_prose_below_it(above: str) -> None:
    for reply in (f"a.py\n{BLOCK}\n{above}\n{BLOCK}", f"```\na.py\n{BLOCK}```\n{above}\n{BLOCK}"):
        assert [operation.path for operation in parse(reply)] == ["a.py", "b.py"]
        assert _fed_by_characters(reply) == parse(reply)


@pytest.mark.parametrize(
    "above",
    [
        "修改文件b.py：",
        "### b.py の変更\n\n```python",
        "And b.py:\n\nThe constant.\n\nIt is old.\n\nSo it goes.\n",
        "In `b.py`, as said:\n```",
        "- b.py\n- c.py\n\nBoth have it:",
        "Also the Dockerfile needs it:",
        "```sh\n./b.sh\n```\nThen:",
    ],
)
def test_prose_about_another_file_ends_what_blocks_inherit(above: str) -> None:
    with pytest.raises(FormatError) as refused:
        parse(f"a.py\n{BLOCK}\n{above}\n{BLOCK}")
    assert refused.value.code == "bad_content"


@pytest.mark.parametrize(
    "above", ["In b.py that was so.\nNow a.py:", "As Node.js does:", "https://x.org/b.html"]
)
def test_prose_that_comes_back_to_the_file_keeps_it(above: str) -> None:
    assert parse(f"a.py\n{BLOCK}\nSee b.py.\nIn a.py:\n{above}\n{BLOCK}")[1].path == "a.py"


@pytest.mark.parametrize(
    ("above", "path"), [("And b.py:\n", None), ("**b.py**\n\n", "b.py"), ("And then:\n", "a.py")]
)
def test_a_hunk_without_a_header_is_for_the_file_named_above_it(above: str, path: str | None) -> None:
    reply = "```diff\n--- a/a.py\n+++ b/a.py\n@@ @@\n-a\n+b\n```\n" + above + "```diff\n@@ @@\n-c\n+d\n```\n"
    if path is None:
        with pytest.raises(FormatError):
            parse(reply)
    else:
        assert [operation.path for operation in parse(reply)] == ["a.py", path]


@pytest.mark.parametrize("marker", ["<<<<<<< SEARCH b.py", "<<<<<<< SEARCH: `b.py`", "<<<<<<< search"])
def test_a_marker_may_name_the_file_and_be_in_lower_case(marker: str) -> None:
    [edit] = parse(f"{marker}\na\n=======\nb\n>>>>>>> replace\n")
    assert edit.path == ("b.py" if "b.py" in marker else "")
    with pytest.raises(FormatError):
        parse("<<<<<<< SEARCH what it says\na\n=======\nb\n>>>>>>> REPLACE\n")


QUOTED = "".join(f"> {line}\n" for line in BLOCK.splitlines())


@pytest.mark.parametrize(
    "part",
    [
        "<<<< SEARCH\nc\n====\nd\n>>>> REPLACE\n",
        "<<<<<<<<<< SEARCH\nc\n==========\nd\n>>>>>>>>>> REPLACE\n",
        "<<<<<<< HEAD\nc\n=======\nd\n>>>>>>> updated\n",
        QUOTED,
        "```diff\n-c\n+d\n```\n",
        "```diff\n- c\n+ d\n```\n",
        "- c = 1\n+ c = 2\n",
    ],
)
@pytest.mark.parametrize("good", [BLOCK, CASES["unified diff"][0], CASES["old_str"][0], PATCH])
def test_what_was_meant_as_an_edit_is_never_passed_over(part: str, good: str) -> None:
    for reply in (good + "\nAnd:\n\n" + part, part + "\nAnd:\n\n" + good):
        with pytest.raises(FormatError) as refused:
            parse(reply)
        assert refused.value.code == "marker_sequence" or "```" in part or "- c" in part
        with pytest.raises(FormatError):
            _fed_by_characters(reply)


@pytest.mark.parametrize(
    "text", ["```diff\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n```\n", "- one\n- two\n" + BLOCK]
)
def test_a_block_in_a_fence_for_diffs_and_a_list_are_no_lines_of_a_diff(text: str) -> None:
    assert len(parse(text)) == 1


@pytest.mark.parametrize(
    "reply",
    [
        '{"search": "a", "replace": "b", "search": "c", "replace": "d"}',
        '{"search": "a", "old_str": "c", "replace": "b"}',
        '{"search": "a", "replace": "b", "path": "a.py", "file": "b.py"}',
        '{"search": "a", "replace": "b", "replace_all": "maybe"}',
        '{"search": "a", "replace": "b", "replace_all": 1}',
        '{"search": "a", "replace": "b", "edits": [{"search": "c", "replace": "d"}]}',
        '{"path": "a.py", "edits": [{"search": "c", "replace": "d"}, "more"]}',
        '{"name": "x", "input": {"search": "a", "replace": "b"}, "search": "c", "replace": "d"}',
        '{"name": "x", "input": {"command": "view", "path": "a.py"}}',
        '{"files": [{"path": "a.py", "edits": [{"search": "a", "replace": "b"}, {"old": "c", "new": "d"}]}]}',
        '{"command": "insert", "path": "a.py", "search": "a", "replace": "b"}',
    ],
)
def test_json_that_asks_for_more_than_is_read_is_refused(reply: str) -> None:
    with pytest.raises(FormatError) as refused:
        parse(reply)
    assert refused.value.code == "bad_content"


@pytest.mark.parametrize(
    "reply",
    [
        '{"path": "a.py", "search": "a", "old_str": "a", "replace": "b", "replace_all": "false",}',
        '[{"path": "a.py", "search": "a", "replace": "b"},\n]',
        '{"name": "edit", "input": {"path": "a.py", "old_str": "a", "new_str": "b"}}',
        '{"type": "tool_use", "name": "edit", "input": {"command": "str_replace", "path": "a.py",'
        ' "old_str": "a", "new_str": "b"}}',
        '{"function": "edit", "args": {"file_path": "a.py", "edits": [{"search": "a", "replace": "b"}]}}',
        '{"files": [{"path": "a.py", "edits": [{"search": "a", "replace": "b"}]}]}',
        '{"edits": [{"search": "a", "replace": "b"}], "file_path": "a.py"}',
    ],
)
def test_json_is_read_as_models_write_it(reply: str) -> None:
    assert parse(reply) == (Edit(search="a", replace="b", path="a.py"),)
    assert _fed_by_characters(reply) == parse(reply)


def test_all_places_are_meant_where_it_says_so() -> None:
    [edit] = parse('{"search": "a", "replace": "b", "replace_all": "True"}')
    assert isinstance(edit, Edit)
    assert edit.all


def test_more_edits_than_allowed_are_refused() -> None:
    with pytest.raises(FormatError) as refused:
        parse(AIDER, max_edits=1)
    assert refused.value.code == "too_many_edits"
    assert len(parse(AIDER, max_edits=2)) == 2


def test_a_reply_that_only_talks_is_no_edit_and_no_error_in_json() -> None:
    assert parse('{"contents": [{"message": "Nothing to do."}]}') == ()


def test_a_whole_file_may_take_the_place_of_any_where_the_format_says_so() -> None:
    reply = "a.py\n```\nx\n```\n"
    assert parse(reply, "whole") == (CreateFile(path="a.py", text="x\n", overwrite="always"),)
    assert parse(reply) == (CreateFile(path="a.py", text="x\n", overwrite="if_most_stays"),)


@given(
    st.sampled_from(["", "_", "__"]),
    st.sampled_from(["utils.py", "init__.py", "tests__/a.js", "posts/x.md"]),
    st.sampled_from(
        ["{}", "{}:", "**{}**", "`{}`", "### {}", "1. `{}`", "File: {}", "**`{}`**", "_{}_", "__{}__"]
    ),
)
def test_a_path_keeps_the_underscores_that_it_begins_with(start: str, rest: str, heading: str) -> None:
    path = start + rest
    reply = heading.format(path)
    if (
        start and "_{}" in heading
    ):  # which of them are Markdown's, nobody can tell: not a file of a shorter name
        assert not any(edit.path == rest for edit in parse(f"{reply}\n{BLOCK}") if isinstance(edit, Edit))
        return
    assert parse(f"{reply}\n{BLOCK}") == (Edit(search="a\n", replace="b\n", path=path, whole_lines=True),)
    assert parse(f"{reply}\n```\nx\n```\n", "whole") == (
        CreateFile(path=path, text="x\n", overwrite="always"),
    )


def test_the_longer_of_two_paths_that_name_one_file_counts_and_two_files_are_refused() -> None:
    for reply in ("### `docker/go.mod`\n\n```go.mod\nx\n```\n", "go.mod\n```docker/go.mod\nx\n```\n"):
        assert parse(reply, "whole") == (CreateFile(path="docker/go.mod", text="x\n", overwrite="always"),)
    with pytest.raises(FormatError) as refused:
        parse("a/go.mod\n```b/go.mod\nx\n```\n", "whole")
    assert refused.value.code == "bad_content"


def test_an_example_above_the_edits_is_no_whole_file() -> None:
    reply = f"a.py\n```python\nx\n```\n\nSo:\n\nb.py\n{BLOCK}"
    assert parse(reply) == (Edit(search="a\n", replace="b\n", path="b.py", whole_lines=True),)


@pytest.mark.parametrize("name", ["input", "patch", "diff"])
@pytest.mark.parametrize("inner", [PATCH, UDIFF, CLINE, BLOCK])
def test_a_call_may_have_edits_in_a_format_of_lines(name: str, inner: str) -> None:
    expected = parse(f"x.py\n{inner}" if inner == BLOCK else inner)
    arguments = {"path": "x.py", name: inner}
    assert parse(json.dumps({"name": "edit", "arguments": json.dumps(arguments)})) == expected
    assert parse(json.dumps({"name": "edit", "input": arguments})) == expected
    invoke = f'<invoke name="edit"><parameter name="path">x.py</parameter><parameter name="{name}">{inner}'
    assert parse(f"{invoke}</parameter></invoke>") == expected


@pytest.mark.parametrize("tag", ["tool_call", "function_call"])
def test_a_call_in_a_tag_is_read(tag: str) -> None:
    call = json.dumps({"name": "edit", "arguments": {"path": "a.py", "old_str": "a", "new_str": "b"}})
    for reply in (f"<{tag}>\n{call}\n</{tag}>\n", f"Now:\n\n<{tag}>\n{call}</{tag}>"):
        assert parse(reply) == (Edit(search="a", replace="b", path="a.py"),)
        assert _fed_by_characters(reply) == parse(reply)


MARKERS = st.sampled_from(
    [
        "<<<<<<< SEARCH\n",
        "=======\n",
        ">>>>>>> REPLACE\n",
        "------- SEARCH\n",
        "-------\n",
        ":start_line:3\n",
        "```json\n",
        "```\n",
        "a.py\n",
        '{"search": "',
        '"replace": "b"}',
        "[{",
        "]",
        "*** Begin Patch\n",
        "*** Update File: a\n",
        "*** End Patch\n",
        "--- a/x\n",
        "+++ b/x\n",
        "@@ x @@\n",
        " a\n",
        "-a\n",
        "+b\n",
        "\\ No newline\n",
        "\n",
        "\r\n",
        "text\n",
        "text",
        "<think>",
        "</think>",
        "</thinking>\n",
        '<invoke name="x">',
        '<parameter name="old_str">',
        '<parameter name="new_str">',
        "</parameter>\n",
        "</invoke>",
        "<tool_call>\n",
        '{"arguments": "{}',
        '{"path": "a", "content": "',
    ]
)
replies = st.lists(MARKERS | st.text(max_size=5), max_size=14).map("".join)
formats = st.sampled_from(["auto", "search_replace", "udiff", "apply_patch", "json", "xml", "whole"])


texts = st.lists(
    st.sampled_from(["a", "b ", "\n", "=====", "[", "]", '"', "{", "\\", " - ", "é"]), max_size=6
).map("".join)
pairs = st.lists(st.tuples(texts, texts), min_size=1, max_size=3)
layouts: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [{}, {"indent": 1}, {"indent": 2}, {"separators": (",", ":")}]
)


def _call(search: str, replace: str) -> dict[str, Any]:
    arguments = json.dumps({"path": "a.py", "old_str": search, "new_str": replace})
    return {"type": "function", "function": {"name": "edit", "arguments": arguments}}


def _invoke(search: str, replace: str) -> str:
    fields = {"path": "a.py", "old_str": search, "new_str": replace}
    inner = "\n".join(f'<parameter name="{name}">{text}</parameter>' for name, text in fields.items())
    return f'<invoke name="edit">\n{inner}\n</invoke>'


def _calls(edits: list[tuple[str, str]]) -> list[str]:
    """Return replies that give these edits as calls, or as whole files."""
    calls = [_call(*pair) for pair in edits]
    return [
        json.dumps(calls, indent=1),
        json.dumps({"tool_calls": calls}),
        "\n".join(_invoke(*pair) for pair in edits),
        "".join(f"{nth}.py\n```\n{s}\n{r}\n```\n" for nth, (s, r) in enumerate(edits)),
    ]


@st.composite
def sound_replies(draw: st.DrawFn) -> str:
    """Draw replies of every format, with prose around them, as models write them."""
    edits = draw(pairs)
    before, after = (
        draw(st.sampled_from(["", "Here:\n\n", "a.py\n"])),
        draw(st.sampled_from(["", "\n\nDone.\n"])),
    )
    kind = draw(st.sampled_from(["json", "lines", "fences", "blocks", "udiff", "patch", "calls"]))
    if kind == "calls":
        return before + draw(st.sampled_from(_calls(edits))) + after
    values = [{"search": search, "replace": replace} for search, replace in edits]
    layout = draw(layouts)
    if kind == "json":
        return before + json.dumps(draw(st.sampled_from([values, {"contents": values}])), **layout) + after
    if kind == "lines":
        return "\n".join(json.dumps(value, **layout) for value in values) + after
    if kind == "fences":
        return (
            before + "\n".join(f"```json\n{json.dumps([value], **layout)}\n```" for value in values) + after
        )
    if kind == "blocks":
        return (
            before
            + "\n".join(f"<<<<<<< SEARCH\n{s}\n=======\n{r}\n>>>>>>> REPLACE" for s, r in edits)
            + after
        )
    hunks = "".join(
        "@@ @@\n"
        + "".join(
            f"{mark}{line}\n" for mark, text in zip("-+", pair, strict=True) for line in text.split("\n")
        )
        for pair in edits
    )
    if kind == "udiff":
        return f"{before}--- a/x\n+++ b/x\n{hunks}{after}"
    return f"{before}*** Begin Patch\n*** Update File: x\n{hunks}*** End Patch\n{after}"


@given(sound_replies(), st.data())
def test_a_sound_reply_cut_anywhere_gives_the_same(reply: str, data: st.DataObject) -> None:
    whole = _outcome([reply], "auto")
    at = data.draw(st.integers(0, len(reply)))
    assert _outcome([reply[:at], reply[at:]], "auto") == whole
    assert _outcome(list(reply), "auto") == whole


@given(pairs, layouts, st.sampled_from(["", "Here:\n", "```json\n"]))
def test_json_in_any_layout_is_read_whole_and_by_characters(
    edits: list[tuple[str, str]], layout: dict[str, Any], before: str
) -> None:
    reply = before + json.dumps(
        [{"search": search, "replace": replace} for search, replace in edits], **layout
    )
    expected = [Edit(search=search, replace=replace) for search, replace in edits]
    assert _outcome([reply], "auto") == (expected, "")
    assert _outcome(list(reply), "auto") == (expected, "")


@given(pairs)
def test_calls_of_tools_are_read_to_the_letter(edits: list[tuple[str, str]]) -> None:
    expected = [Edit(search=search, replace=replace, path="a.py") for search, replace in edits]
    calls = json.dumps({"tool_calls": [_call(*pair) for pair in edits]})
    invokes = "\n".join(_invoke(*pair) for pair in edits)
    for reply in (calls, invokes):
        assert _outcome([reply], "auto") == (expected, "")
        assert _outcome(list(reply), "auto") == (expected, "")


drafts = st.lists(MARKERS.filter(lambda text: "</" not in text) | st.text(max_size=5), max_size=8).map(
    "".join
)


@given(drafts, sound_replies(), st.sampled_from(["think", "thinking", "reasoning"]))
def test_what_is_thought_changes_nothing(draft: str, reply: str, tag: str) -> None:
    thought = f"<{tag}>{draft}</{tag}>\n{reply}"
    expected, error = _outcome([reply], "auto")
    for chunks in ([thought], list(thought)):
        found, refused = _outcome(chunks, "auto")
        assert (found, refused.partition(" ")[0]) == (expected, error.partition(" ")[0])


@given(st.text(st.characters(exclude_characters="`~\r", codec="utf-8")))
def test_a_whole_file_is_read_to_the_letter(text: str) -> None:
    reply = f"a.py\n```\n{text}\n```\n"
    expected = [CreateFile(path="a.py", text=f"{text}\n", overwrite="always")]
    assert _outcome([reply], "whole") == (expected, "")
    assert _outcome(list(reply), "whole") == (expected, "")


@given(replies, formats, st.lists(st.integers(0, 200), max_size=4))
def test_whole_is_chunk_by_chunk(reply: str, name: FormatName, cuts: list[int]) -> None:
    bounds = [0, *sorted(min(cut, len(reply)) for cut in cuts), len(reply)]
    chunks = [reply[low:high] for low, high in itertools.pairwise(bounds)]
    assert _outcome([reply], name) == _outcome(chunks, name)


def _outcome(chunks: list[str], name: FormatName) -> tuple[list[Operation], str]:
    parser = Parser(name)
    found: list[Operation] = []
    try:
        for chunk in chunks:
            found += parser.feed(chunk)
        found += parser.close()
    except FormatError as error:
        assert error.message  # noqa: PT017 - a refusal is an outcome too
        return found, f"{error.code} {error.line}"
    return found, ""


@pytest.mark.slow
@pytest.mark.parametrize(
    "reply",
    [
        "a" * 50_000 + "!\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n",
        "<<<<<<< SEARCH" + " " * 50_000 + "x\n",
        "{" + '"a":{' * 20_000,
        '{"a":' * 5_000 + "1" + "}" * 5_000,
        "[" * 50_000,
        "@@" * 50_000 + "\n",
        "--- " + "a b" * 20_000 + "\n",
        "*** Update File: " + " x" * 30_000 + "\n",
        '<invoke name="x"><parameter name="a">' + "</parameter>" * 20_000 + "\n",
        '<invoke name="x"><parameter name="a">' + "</parameter>\n" * 20_000 + "\n",
        "<think>" * 30_000,
        "<think>" + "</think" * 30_000 + "\n",
        json.dumps([{"name": "x", "arguments": '{"arguments": "{}"}'}]) * 2_000,
    ],
    ids=range(13),
)
def test_replies_made_to_be_slow_are_read_at_once(reply: str) -> None:
    for name in ("auto", "search_replace", "udiff", "apply_patch", "json", "xml", "whole"):
        with little_work(), suppress(FormatError):
            parse(reply, name)


@pytest.mark.parametrize("end", ["", "\n"])
@pytest.mark.parametrize("body", [" a\n-b\n-c\n+B", " a\n-b\n-c"])
def test_a_diff_that_ends_inside_its_last_hunk_is_refused(body: str, end: str) -> None:
    with pytest.raises(FormatError) as refused:
        parse(f"--- a/x\n+++ b/x\n@@ -1,5 +1,5 @@\n{body}{end}")
    assert refused.value.code == "marker_sequence"


_HUNK = "@@ -{at},7 +{at},7 @@\n a\n b\n c\n-d{at}\n+D{at}\n e\n f\n g\n"


@given(st.integers(1, 4), st.data())
def test_a_diff_with_right_counts_is_read_only_if_all_its_changes_can_be_there(
    hunks: int, data: st.DataObject
) -> None:
    """At most what git keeps below a change may be missing; without a hunk above, counts mean nothing."""
    kept, missing = data.draw(st.integers(0, 3)), data.draw(st.integers(0, 6))
    count = 2 + kept + missing
    last = f"@@ -90,{count} +90,{count} @@\n a\n-b\n+B\n" + " c\n" * kept
    whole = "".join(_HUNK.format(at=10 * at) for at in range(1, hunks))
    reply = f"--- a/x\n+++ b/x\n{whole}{last}"
    if hunks > 1 and missing and kept + missing > 3:
        with pytest.raises(FormatError, match="the rest of the hunk"):
            parse(reply, "udiff")
    else:
        assert len(parse(reply, "udiff")) == hunks


@pytest.mark.parametrize("body", [" a\n-b\n+B\n c\n", " a\n-b\n+B\n"])
def test_a_hunk_whose_counts_are_wrong_is_read(body: str) -> None:
    for counts in ("-1,9 +1,9" if body.endswith(" c\n") else "-1,2 +1,9", "-1,1 +1,1", "-1 +1"):
        (edit,) = parse(f"--- a/x\n+++ b/x\n@@ {counts} @@\n{body}")
        assert isinstance(edit, Edit)
        assert edit.search.startswith("a\nb\n")
