"""ripgrep and needles: a search finds the same with them as without."""

from __future__ import annotations

import codecs
import os
import re
import stat
import sys
import tempfile
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from string import ascii_letters, digits

import pytest
import regex
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.lanes import examples
from tests.tools.conftest import Desk

from kakite.edit import encoding
from kakite.tools import ToolCall, open_toolset
from kakite.tools.arguments import ToolError
from kakite.tools.search import find_in_files, prefilter
from kakite.tools.search.prefilter import TWINS, Needles, RipgrepRun, extract_needles, find_ripgrep
from kakite.tools.search.regex_search import Pattern, SearchDeadline, SearchSpec
from kakite.workspace import Workspace

pytestmark = pytest.mark.anyio
PROGRAM = find_ripgrep(os.environ)
installed = pytest.mark.skipif(PROGRAM is None, reason="ripgrep is not installed: apt install ripgrep")

_LETTERS = st.sampled_from([*"abIikKsS-.\t é語", "ı", "ſ", "K", "\r", "\r\n", "\n", "needle", "TODO"])
_TEXTS = st.lists(_LETTERS, max_size=12).map("".join)


def _encode(text: str, encoding: str) -> bytes:
    return text.encode(encoding, "ignore")


def _join(first: bytes, second: bytes) -> bytes:
    return first + second


_ENCODED = st.builds(
    _encode,
    _TEXTS,
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32", "latin-1", "shift_jis"]),
)
_CONTENTS = st.one_of(_ENCODED, st.binary(max_size=8), st.builds(_join, _ENCODED, st.binary(max_size=3)))
_NAMES = st.sampled_from(
    ["a", "b.py", "c.log", "-x", "語", ".h", "x y", "d/a", "d/b.py", "d/e/f", "o/z", "d/.git/x"]
)
_IGNORES = st.sampled_from([b"", b"*.log\n", b"d/\n", b"*\n!*.py\n", b"/d/e\no\n"])
_QUERIES = st.one_of(
    st.tuples(_TEXTS.filter(bool), st.just(False)),
    st.tuples(
        st.sampled_from(
            [
                *(
                    "need.e",
                    r"(?:TODO|needle)\s",
                    "[ab]k",
                    "^a",
                    "s$",
                    "ne+dle",
                    "nee?dle",
                    "(TO)?DO",
                    r"k\.s",
                ),
                *(
                    "(?=need)n",
                    "a|",
                    r"é.*語",
                    "I{2}",
                    r"\bneedle\b",
                    "(?i)todo",
                    r"[^a]needle",
                    "x*needle{1}",
                ),
            ]
        ),
        st.just(True),
    ),
)


async def answer(folder: str, **arguments: object) -> str:
    with_tools = open_toolset(Workspace([folder]))
    return (await with_tools.call(ToolCall(id="1", name="find_in_files", arguments=arguments))).text


def _no(_needles: Needles) -> bool:
    return False


def _yes(_needles: Needles, _data: bytes) -> bool:
    return True


def plant(folder: Path, files: dict[str, bytes], ignore: bytes) -> None:
    for name, data in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    (folder / ".gitignore").write_bytes(ignore)


@installed
@given(
    st.dictionaries(_NAMES, _CONTENTS, max_size=6),
    _IGNORES,
    _QUERIES,
    st.booleans(),
    st.booleans(),
    st.sampled_from([[], ["*.py"], ["d/**"], ["*.{py,log}"]]),
)
@settings(max_examples=examples(200), deadline=None)
@example({"a": "needle".encode("utf-16-le")}, b"", ("needle", False), False, False, [])
@example(
    {"a": ("日本語の文書です。" * 9).encode("euc_jp") + b"x\x8f\xa2\xb7y"},
    b"",
    ("x~y", False),
    False,
    False,
    [],
)
@example({"a": "aı".encode("utf-16-le")}, b"", ("I", False), True, False, [])
@example({"a": "ſKİ".encode()}, b"", ("ski", False), True, False, [])
@example({"a": codecs.BOM_UTF16_LE + "語k".encode("utf-16-le")}, b"", ("語k", False), False, False, [])
async def test_a_search_finds_the_same_with_ripgrep_without_and_looking_at_every_file(
    files: dict[str, bytes],
    ignore: bytes,
    query: tuple[str, bool],
    ignore_case: bool,
    whole_word: bool,
    include: list[str],
) -> None:
    told: list[str] = []
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patching:
        plant(Path(name), files, ignore)
        patching.setattr(find_in_files, "BEFORE_RIPGREP", 1)
        patching.setattr(find_in_files, "MAX_ARGUMENTS", 30)
        for uses_ripgrep, has_needles in ((True, True), (False, True), (False, False)):
            if not uses_ripgrep:
                patching.setattr(find_in_files, "can_prefilter", _no)
            if not has_needles:
                patching.setattr(Needles, "can_match", _yes)
            told.append(
                await answer(
                    name,
                    query=query[0],
                    use_regex=query[1],
                    ignore_case=ignore_case,
                    whole_word=whole_word,
                    include=include,
                    limit=1000,
                )
            )
    assert told[1:] == told[:1] * 2


@given(_QUERIES, st.booleans(), _CONTENTS)
@settings(max_examples=examples(300), deadline=None)
def test_no_file_with_a_hit_is_passed_over(query: tuple[str, bool], ignore_case: bool, data: bytes) -> None:
    from kakite.edit import SourceText
    from kakite.tools.search.regex_search import LfText

    search = query[0].replace("\r\n", "\n").replace("\r", "\n")
    needles = extract_needles(search, is_regex=query[1], ignore_case=ignore_case)
    pattern = Pattern(
        SearchSpec(search=query[0], is_regex=query[1], ignore_case=ignore_case), SearchDeadline()
    )
    texts = [SourceText.from_bytes(data).text, data.decode(errors="surrogateescape")]
    if any(next(pattern.find(LfText.of(text).text), None) for text in texts):
        assert needles.can_match(data)


_ATOMS = [
    "a",
    "bc",
    r"\.",
    ".",
    "[ab]",
    "[]a]",
    "[^a]",
    "[[:alpha:]]",
    r"\d",
    r"\w",
    "^",
    "$",
    r"\b",
    r"\1",
    " ",
    "-",
    "]",
    "}",
]
_EXPRESSIONS = st.recursive(
    st.sampled_from(_ATOMS),
    lambda inner: (
        st.lists(inner, max_size=3).map("".join)
        | st.tuples(inner, st.sampled_from(["?", "*", "+", "{2}", "{0,1}", "{1,}", "*?", "+?", "++"])).map(
            "".join
        )
        | st.tuples(
            st.sampled_from(["(", "(?:", "(?P<n>", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?#", "(?i)("]),
            inner,
        )
        .map("".join)
        .map("{0})".format)
        | st.tuples(inner, inner).map("|".join)
    ),
    max_leaves=8,
)


@given(_EXPRESSIONS, st.text("abc. -]}1", max_size=12))
@settings(max_examples=examples(500), deadline=None)
def test_whatever_an_expression_finds_holds_one_of_its_needles(expression: str, text: str) -> None:
    needles = extract_needles(expression, is_regex=True, ignore_case=False)
    try:
        pattern = Pattern(SearchSpec(search=expression, is_regex=True), SearchDeadline())
    except ToolError:
        return
    for found in pattern.find(text):
        assert not needles or any(needle in found[0] for needle in needles.texts)


@pytest.mark.parametrize(
    ("expression", "texts"),
    [
        ("def parse", ("def parse",)),
        (r"def \w+_test\(", ("_test(",)),
        ("foo|bar", ("foo", "bar")),
        ("x(?:foo|barn)y", ("foo", "barn")),
        ("colou?rful", ("colo",)),
        ("ab+cde", ("cde",)),
        (r"a\.b\.c", ("a.b.c",)),
        ("foo|", ()),
        ("fo~bar", ("bar",)),
        (r"\w+", ()),
        ("(?i)foo", ()),
        ("(?:foo){e<=1}", ()),
        ("(?=foo)", ()),
        (r"(a)\12", ()),
        ("foo)", ()),
    ],
)
def test_the_needles_of_an_expression_are_what_every_hit_contains(
    expression: str, texts: Sequence[str]
) -> None:
    assert extract_needles(expression, is_regex=True, ignore_case=False).texts == texts


def test_no_other_letters_are_equal_where_case_is_ignored() -> None:
    others = "".join(map(chr, (*range(0x80, 0xD800), *range(0xE000, sys.maxunicode + 1))))
    equal = {letter: set(regex.findall(letter, others, regex.IGNORECASE)) for letter in ascii_letters}
    assert {letter for letter, found in equal.items() if found} == {*"iIkKsS"}
    assert all(found <= {*TWINS.get(letter.lower(), "")} for letter, found in equal.items())
    assert not regex.findall(r"[\x00-@\[-`{-\x7f]", others, regex.IGNORECASE)


_TAIL, _HIGH, _DIGITS = range(0xA1, 0xFF), range(0x81, 0xFF), range(0x30, 0x3A)
LONGER: dict[str, list[tuple[int, *tuple[range, ...]]]] = {
    "euc_jp": [(0x8F, _TAIL, _TAIL)],
    "gb18030": [(first, _DIGITS, _HIGH, _DIGITS) for first in _HIGH],
}
"""Of encodings with characters of more than two bytes, the first one and what the others can be."""


@pytest.mark.parametrize("codec", encoding._SCORERS)  # pyright: ignore[reportPrivateUsage] - what may be detected
def test_every_encoding_that_is_detected_writes_ascii_as_ascii_and_nothing_else_so(codec: str) -> None:
    ascii_bytes = bytes(range(0x80))
    assert ascii_bytes.decode(codec) == ascii_bytes.decode("ascii")
    seconds = bytes(range(0x100))
    for first in range(0x80, 0x100):
        for second in seconds:
            text = bytes([first, second]).decode(codec, "replace")
            assert not text[0].isascii(), (first, second)  # the second byte may stand for itself, behind it
            if len(text) > 1:
                assert not text[1].isascii() or text[1] == chr(second)
    for first, *rest in LONGER.get(codec, ()):
        written = b"".join(map(bytes, product([first], *rest)))
        # What is no character leaves digits, which stand for themselves.
        found = {letter for letter in written.decode(codec, "ignore") if letter.isascii()}
        assert found <= {*digits, *("~" * (codec == "euc_jp"))}


@installed
@given(
    st.sampled_from(["needle", "Skis", "a.b-c", "x y"]),
    st.sampled_from(
        ["utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "cp1251", "gb18030", "big5"]
    ),
    st.text(min_size=1, max_size=5),
    st.lists(st.sampled_from([0, 1, 2]), min_size=6, max_size=6),
)
@settings(max_examples=examples(60), deadline=None)
def test_ripgrep_finds_needles_in_whatever_encoding_and_case(
    needle: str, encoding: str, around: str, forms: list[int]
) -> None:
    assert PROGRAM is not None
    found = "".join(
        [letter, letter.swapcase(), TWINS.get(letter.lower(), letter)[0]][form]
        for letter, form in zip(needle, forms, strict=False)
    )
    with tempfile.TemporaryDirectory() as name:
        contents = {"exact": f"{around}{needle}{around}", "cased": f"{around}{found}{around}", "none": around}
        for file, text in contents.items():
            Path(name, file).write_bytes(text.encode(encoding, "replace"))
        folder = os.open(name, os.O_RDONLY)
        kept: list[frozenset[str]] = []
        for needles in (Needles((needle,)), Needles((needle,), ignore_case=True)):
            with RipgrepRun(PROGRAM, folder, needles, list(contents)) as sifting:
                kept.append(sifting.collect_candidates())
        os.close(folder)
    assert "exact" in kept[0]
    assert "none" not in kept[0]
    is_written = found.encode(encoding, "replace").decode(encoding) == found
    assert kept[1] >= ({"exact", "cased"} if is_written else {"exact"})


async def test_a_program_of_that_name_that_does_something_else_changes_no_answer(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        desk.write(f"many/{number}", b"needle\n")
    monkeypatch.setattr(find_in_files, "BEFORE_RIPGREP", 1)
    expected = await desk.done("find_in_files", query="needle")
    folder = tmp_path / "bin"
    folder.mkdir()
    for text in ("#!/bin/sh\nexit 2\n", "#!/bin/sh\nexit 7\n", "no program\n", "#!/bin/sh\nkill -9 $$\n"):
        program = folder / "rg"
        program.unlink(missing_ok=True)
        program.write_text(text, encoding="ascii")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(folder))
        assert await desk.done("find_in_files", query="needle") == expected


def test_no_program_from_the_workspace_is_started(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    for folder in (root / "bin", elsewhere):
        folder.mkdir(parents=True)
        (folder / "rg").write_bytes(b"#!/bin/sh\n")
        (folder / "rg").chmod(stat.S_IRWXU)
    linked = tmp_path / "linked"
    linked.symlink_to(root / "bin")
    hers = {"PATH": f"{root}/bin:.:bin::{linked}:{elsewhere}"}
    assert find_ripgrep(hers, [str(root)]) == f"{elsewhere}/rg"
    assert find_ripgrep({"PATH": f"{root}/bin:{linked}"}, [str(root)]) is None
    assert find_ripgrep({}, []) is None


@installed
async def test_ripgrep_is_not_led_by_its_own_settings_or_by_names(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "rc").write_text("--glob=!*\n--invert-match\n", encoding="ascii")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(tmp_path / "rc"))
    monkeypatch.setattr(find_in_files, "BEFORE_RIPGREP", 1)
    for name in ("a", "-", "--files", "-e x", "many/-", "x\ny", ".rgignore", ".ignore"):
        desk.write(name, b"*\nneedle\n")
    (desk.folder / os.fsdecode(b"\xff")).write_bytes(b"needle\n")
    shown = await desk.done("find_in_files", query="needle")
    assert len(re.findall(r"^\d: needle$", shown, re.MULTILINE)) == 9


async def test_a_search_that_is_stopped_leaves_no_program(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    mark = tmp_path / "pid"
    (folder / "rg").write_text(f"#!/bin/sh\necho $$ > {mark}\nexec sleep 60\n", encoding="ascii")
    (folder / "rg").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setattr(find_in_files, "BEFORE_RIPGREP", 1)
    monkeypatch.setattr(prefilter, "_PATIENCE", 0.3)
    for number in range(4):
        desk.write(f"{number}", b"needle\n")
    assert "4 lines in 4 files" in await desk.done("find_in_files", query="needle")
    assert not Path("/proc", mark.read_text(encoding="ascii").strip()).exists()
