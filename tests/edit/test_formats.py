"""Replies of every format, whole and cut anywhere; what is malformed is refused with the line that is
wrong."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

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

CASES: dict[str, tuple[str, tuple[Operation, ...]]] = {
    "aider": (
        AIDER,
        (
            Edit(search="def a():\n    pass\n", replace="def b():\n    pass\n", path="src/a.py"),
            Edit(search="a()\n", replace="", path="src/a.py"),
        ),
    ),
    "roo": (ROO, (Edit(search="=======\na\n", replace=">>>>>>> REPLACE\n", line=12),)),
    "cline": (CLINE, (Edit(search="Title\n", replace="Other\n", path="a.md"),)),
    "seed 002": (SEED, (Edit(search="a [b", replace="c", line=3), Edit(search="d", replace="e\n", line=9))),
    "old_str": (STRINGS, (Edit(search="a", replace="b", path="x.py", all=True),)),
    "unified diff": (
        UDIFF,
        (
            Edit(search="a\nb\n\nd\n", replace="a\nc\n\nd\n", path="x.py", scope=("def f():",)),
            Edit(search="e\n", replace="", path="x.py"),
            DeleteFile(path="gone.py"),
            CreateFile(path="new.py", text="x"),
        ),
    ),
    "apply_patch": (
        PATCH,
        (
            CreateFile(path="new.py", text="a\n\n"),
            MoveFile(path="old.py", to="moved.py"),
            Edit(search="a\nb\n", replace="a\nc\n", path="old.py", scope=("class A:", "def f(self):")),
            Edit(search="e\n", replace="d\ne\n", path="old.py"),
            DeleteFile(path="gone.py"),
        ),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_reply_is_read_as_what_it_asks_for(name: str) -> None:
    reply, expected = CASES[name]
    assert parse(reply) == expected
    assert parse(reply.replace("\n", "\r\n")) == expected or name == "seed 002"


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


@pytest.mark.parametrize(
    "blocks", ["<<<<< SEARCH\na\n=====\nb\n>>>>> REPLACE", "<<<<<<<<< SEARCH>\na\n=========\nb\n>>>>>>>>>"]
)
def test_markers_may_have_five_to_nine_characters(blocks: str) -> None:
    assert parse(blocks) == (Edit(search="a\n", replace="b\n"),)


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
    assert edit == Edit(search="a\n", replace="b\n", path=path)


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
        ('{"search": "a", "replace": "b"', "marker_sequence", 1),
        ('{"search": "a"}', "bad_content", 1),
        ('[{"search": "a", "replace": 1}]', "bad_content", 1),
        ('{"search": "a", "replace": "b", "line": "x"}', "bad_content", 1),
        ('[{"search": "a", "replace": "b"}] and more', "marker_sequence", 1),
        ("--- a/x\n+++ b/x\n@@ @@\n a\nb\n", "bad_content", 5),
        ("--- a/x\n+++ b/x\n@@ @@\n-a\n--- a/y.py\n+b\n", "marker_sequence", 6),
        ("*** Begin Patch\n*** Update File: a\n", "marker_sequence", 3),
        ("*** Begin Patch\n*** Update File: a\n*** End Patch\n", "bad_content", 3),
        ("*** Begin Patch\n*** Add File: a\nb\n*** End Patch\n", "marker_sequence", 3),
        ("*** Begin Patch\nrubbish\n*** End Patch\n", "marker_sequence", 2),
    ],
)
def test_a_malformed_reply_is_refused_with_its_line(reply: str, code: str, line: int) -> None:
    with pytest.raises(FormatError) as refused:
        parse(reply)
    assert (refused.value.code, refused.value.line) == (code, line)
    assert "Write each edit like this" in refused.value.hint


def test_more_edits_than_allowed_are_refused() -> None:
    with pytest.raises(FormatError) as refused:
        parse(AIDER, max_edits=1)
    assert refused.value.code == "too_many_edits"
    assert len(parse(AIDER, max_edits=2)) == 2


def test_a_reply_that_only_talks_is_no_edit_and_no_error_in_json() -> None:
    assert parse('{"contents": [{"message": "Nothing to do."}]}') == ()


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
    ]
)
replies = st.lists(MARKERS | st.text(max_size=5), max_size=14).map("".join)
formats = st.sampled_from(["auto", "search_replace", "udiff", "apply_patch", "json"])


@given(replies, formats)
def test_any_reply_parses_or_raises_format_error(reply: str, name: FormatName) -> None:
    try:
        parse(reply, name)
    except FormatError as error:
        assert error.message  # noqa: PT017  # both ends are fine


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
        return found, f"{error.code} {error.line}"
    return found, ""


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
    ],
    ids=range(8),
)
def test_replies_made_to_be_slow_are_read_at_once(reply: str) -> None:
    for name in ("auto", "search_replace", "udiff", "apply_patch", "json"):
        try:
            parse(reply, name)
        except FormatError:
            continue
