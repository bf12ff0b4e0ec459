"""``find_in_files``: where in the workspace something is written."""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import threading
import time
import tracemalloc
from collections.abc import Generator
from contextlib import suppress

import anyio
import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.bounds import WITHIN, little_work
from tests.lanes import examples
from tests.tools.conftest import Desk

from kakite.tools import ToolError, bind_call
from kakite.tools.search import find_in_files, regex_search
from kakite.tools.search.regex_search import TIME_LIMIT, Pattern, SearchDeadline, SearchSpec, run_with_timeout
from kakite.tools.text_pages import escape_bytes

pytestmark = pytest.mark.anyio


async def found(desk: Desk, query: str, **arguments: object) -> list[str]:
    """Return the lines of the answer, without the last one."""
    return (await desk.done("find_in_files", query=query, **arguments)).splitlines()[:-1]


async def test_hits_are_shown_by_file_with_their_line_numbers(desk: Desk) -> None:
    desk.write("b.py", b"one\ntwo one\nthree\n")
    desk.write("a/x.py", b"none\n")
    told = await desk.done("find_in_files", query="one")
    assert told == "a/x.py\n1: none\n\nb.py\n1: one\n2: two one\n\n3 lines in 2 files; that is all"


@pytest.mark.parametrize(
    ("query", "arguments", "hits"),
    [
        ("One", {}, []),
        ("One", {"ignore_case": True}, ["1: one", "2: done", "3: 1.0"]),
        ("one", {"whole_word": True}, ["1: one"]),
        ("o.e", {}, []),
        ("o.e", {"use_regex": True}, ["1: one", "2: done"]),
        (r"^\d\.", {"use_regex": True}, ["3: 1.0 ONE"]),
        ("one$", {"use_regex": True}, ["1: one", "2: done"]),
        ("one\ndone", {}, ["1: one"]),
        ("none", {}, []),
    ],
)
async def test_text_and_expressions_are_found(
    desk: Desk, query: str, arguments: dict[str, object], hits: list[str]
) -> None:
    desk.write("x", b"one\r\ndone\r\n1.0 ONE\r\n")
    lines = await found(desk, query, **arguments)
    assert [line for line in lines if ":" in line] == [
        "3: 1.0 ONE" if hit.startswith("3") else hit for hit in hits
    ]


async def test_context_is_shown_around_hits_and_never_twice(desk: Desk) -> None:
    desk.write("x", b"1\n2\nhit\n4\nhit\n6\n7\n8\n9\nhit\n")
    assert await found(desk, "hit", context=1) == [
        "x", "2- 2", "3: hit", "4- 4", "5: hit", "6- 6", "--", "9- 9", "10: hit", "",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("globs", "files"),
    [
        ({"include": ["*.py"]}, ["a/b/m.py", "m.py"]),
        ({"include": ["*.{py,ts}"]}, ["a/b/m.py", "a/t.ts", "m.py"]),
        ({"include": ["a/**"]}, ["a/b/m.py", "a/t.ts"]),
        ({"include": ["a/**/*.py"]}, ["a/b/m.py"]),
        ({"include": ["**/m.py"]}, ["a/b/m.py", "m.py"]),
        ({"include": ["/m.py"]}, ["m.py"]),
        ({"include": ["a/*.ts", "./m.py"]}, ["a/t.ts", "m.py"]),
        ({"exclude": ["b"]}, [".hidden/x", "a/t.ts", "m.py"]),
        ({"include": ["a"], "exclude": ["*.ts"]}, ["a/b/m.py"]),
        ({"path": "a"}, ["a/b/m.py", "a/t.ts"]),
        ({"path": "a/", "include": ["b/*.py"]}, ["a/b/m.py"]),
        ({"path": "m.py"}, ["m.py"]),
        ({}, [".hidden/x", "a/b/m.py", "a/t.ts", "m.py"]),
    ],
)
async def test_globs_choose_files_and_ignored_ones_are_left_out(
    desk: Desk, globs: dict[str, object], files: list[str]
) -> None:
    for name in ("a/b/m.py", "a/t.ts", "m.py", "build/m.py", ".hidden/x", ".git/x"):
        desk.write(name, b"needle\n")
    desk.write(".gitignore", b"build/\n")
    assert [line for line in await found(desk, "needle", **globs) if line and ":" not in line] == files


async def test_hits_come_in_pages_that_say_how_to_read_on(desk: Desk) -> None:
    for number in range(3):
        desk.write(f"x{number}", b"hit\n" * 4)
    seen: list[str] = []
    offset = 0
    while True:
        told = await desk.done("find_in_files", query="hit", limit=5, offset=offset)
        name = ""
        for line in told.splitlines():
            if line in desk.content():
                name = line
            elif line.endswith(": hit"):
                seen.append(f"{name}:{line}")
        if "offset" not in told:
            break
        assert f"read on with offset {offset + 5}" in told
        offset += 5
    assert seen == [f"x{file}:{line}: hit" for file in range(3) for line in range(1, 5)]


async def test_answers_are_bounded_whatever_is_found(desk: Desk) -> None:
    desk.write("wide", b"x" * 1_000_000 + b"\n")
    desk.write("long", b"x marks the spot\n" * 100_000)
    told = await desk.done("find_in_files", query="x", limit=1000, context=20)
    assert len(told) < 120_000
    assert "read on with offset" in told


async def test_an_answer_holds_so_many_characters_however_many_hits_are_asked_for(desk: Desk) -> None:
    wide = b"hit" + b"x" * 296 + b"\n"
    desk.write("a", (b"y" * 299 + b"\n") * 40 + (wide + (b"y" * 299 + b"\n") * 40) * 200)
    for number in range(300):
        desk.write(f"b/{number:03}", wide)
    pages: list[str] = []
    offset: str | None = "0"
    while offset:
        told = await desk.done("find_in_files", query="hit", limit=1000, context=20, offset=int(offset))
        assert len(told) < find_in_files.CHARACTERS + 41 * 310 + 500  # it ends behind the hit that fills it
        pages.append(told)
        read_on = re.search(r"read on with offset (\d+)", told)
        offset = read_on and read_on[1]
    hits = [line for told in pages for line in told.splitlines() if ": hit" in line]
    assert len(hits) == 500
    assert len(set(hits)) == 201  # those of the first file, and the first line of each other
    assert 10 < len(pages) < 200


@pytest.mark.slow
async def test_a_file_that_takes_too_long_is_named_and_the_others_are_searched(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A busy machine may let the library notice late that its time is over; that is the next test's.
    monkeypatch.setattr(regex_search, "GRACE", 30.0)
    monkeypatch.setattr(find_in_files, "CALL_LIMIT", 35.0)
    for name in ("a", "m", "z"):
        desk.write(name, b"hit\n" + b"b" * 30 + b"\n")
    desk.write("b", b"hit\n" + b"a" * 3000 + b"\n")
    query = r"hit$|(a.*)(.*)(.*)(.*)(.*)[^a\n]$"
    with anyio.fail_after(WITHIN):
        told = (await desk.done("find_in_files", query=query, use_regex=True)).split("\n\n")
    assert told[:-1] == ["a\n1: hit", "b\n1: hit", "m\n1: hit", "z\n1: hit"]
    assert told[-1].splitlines() == [
        "Not searched to the end, since it took too long: b",
        "4 lines in 4 files; more may be in those not searched to the end",
    ]


@pytest.mark.slow
async def test_a_search_that_cannot_be_stopped_in_time_answers_with_what_it_has(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As on a busy machine, where the library notices too late that its time is over.
    over = threading.Event()
    find = Pattern.find

    def stuck(pattern: Pattern, text: str) -> Generator[regex.Match[str]]:
        if "stuck" in text:
            pattern._clock.start()  # pyright: ignore[reportPrivateUsage] - as the library does
            over.wait(WITHIN)
        return find(pattern, text)

    monkeypatch.setattr(Pattern, "find", stuck)
    for name in ("a", "b", "c"):
        desk.write(name, b"hit, stuck\n" if name == "b" else b"hit\n")
    with anyio.fail_after(WITHIN):
        told = await desk.done("find_in_files", query="hit")
        assert told.startswith("a\n1: hit\n\nNot searched to the end, since it took too long: b\n")
        assert 'read on with after "b"' in told
        assert "c\n1: hit" in await desk.done("find_in_files", query="hit", after="b")
        assert (await desk.refused("find_in_files", query="hit", path="b"))[0] == "too_slow"
    over.set()


@pytest.mark.parametrize("at", [0, 150, 400, 150_000, 299_990])
async def test_of_a_long_line_the_part_around_the_hit_is_shown(desk: Desk, at: int) -> None:
    line = "ab" * 150_000
    desk.write("x", f"short\n{line[:at]}needle{line[at:]}\n".encode())
    (name, shown, _) = await found(desk, "needle")
    assert name == "x"
    assert shown.startswith("2: ")
    assert "needle" in shown
    assert len(shown) < find_in_files.LINE + 80


async def test_of_a_long_line_of_bytes_that_are_no_text_the_hit_is_shown_too(desk: Desk) -> None:
    desk.write("x", b"\x80\xff" * 5_000 + b"needle" + b"\x80\xff" * 5_000)
    (_, shown, _) = await found(desk, "needle")
    assert "needle" in shown


@pytest.mark.parametrize("after", ["..", "../x", "/etc/passwd", "x", "many/../x", "manyx"])
async def test_a_place_to_read_on_from_that_lies_elsewhere_is_an_error(desk: Desk, after: str) -> None:
    desk.write("many/a", b"hit\n")
    code, told = await desk.refused("find_in_files", query="hit", path="many", after=after)
    assert (code, f"`{after}`" in told, "`many`" in told) == ("bad_arguments", True, True)


async def test_a_single_glob_is_taken_as_a_list_of_one(desk: Desk) -> None:
    desk.write("a.py", b"hit\n")
    desk.write("b.md", b"hit\n")
    assert await found(desk, "hit", include="*.py") == ["a.py", "1: hit", ""]
    assert await found(desk, "hit", exclude="*.py") == ["b.md", "1: hit", ""]


async def test_binary_files_are_named(desk: Desk) -> None:
    desk.write("x.bin", b"\0\1needle\n")
    told = await desk.done("find_in_files", query="needle")
    assert told == "In binary files, not shown: x.bin\nNothing was found"


async def test_nothing_found_is_an_answer_and_a_folder_that_is_not_there_an_error(desk: Desk) -> None:
    assert await desk.done("find_in_files", query="zz") == "Nothing was found"
    assert (await desk.refused("find_in_files", query="zz", path="no"))[0] == "file_not_found"
    assert (await desk.refused("find_in_files", query="zz", path=".."))[0] == "path_escapes"
    assert (await desk.refused("find_in_files", query="(", use_regex=True))[0] == "bad_pattern"
    os.mkfifo(desk.folder / "pipe")
    result = await desk.call("find_in_files", query="zz", path="pipe")
    assert (result.is_error, result.code) == (True, "not_a_file")


BOMBS = [
    "(?#[)(?:(?:ab){9000}){9000}(?#])",
    "(?:X{1000}[[:alpha:](]){1000}",
    "(?V1)(?:(?:ab){1000}[a[b(]]){1000}",
    "(?:(?:ab){1000}(?#(()){1000}",
    r"(?:(?:ab){1000}\)){1000}",
    "(?:a{100}(?#){100}){100}",
]


@pytest.mark.parametrize("query", BOMBS)
async def test_no_spelling_of_an_expression_takes_memory_and_time_before_its_clock_runs(
    query: str, desk: Desk
) -> None:
    regex.compile("a")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with little_work():
        assert (await desk.refused("find_in_files", query=query, use_regex=True))[0] == "bad_pattern"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 50 * 1024


_ATOMS = ["a", "ab", "[a-z]", "[[:alpha:](]", "[)]", r"\)", r"\{", "(?#[)", "(?#(", "(?:b|c)", r"\d", "."]
_EXPRESSIONS = st.recursive(
    st.sampled_from(_ATOMS),
    lambda inner: (
        st.lists(inner, max_size=3).map("".join)
        | st.tuples(inner, st.sampled_from([2, 30, 700])).map(lambda each: f"(?:{each[0]}){{{each[1]}}}")
        | st.tuples(inner, st.sampled_from([2, 30, 700])).map(lambda each: f"{each[0]}{{{each[1]},}}")
    ),
    max_leaves=8,
)


@given(_EXPRESSIONS)
@settings(max_examples=examples(150), deadline=None)
def test_what_is_compiled_is_small(query: str) -> None:
    tracemalloc.start()
    try:
        with suppress(ToolError):  # refused
            Pattern(SearchSpec(search=query, is_regex=True), SearchDeadline())
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 50 << 20


async def test_repeats_that_people_write_are_taken(desk: Desk) -> None:
    for query, text in [
        (r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "123e4567-e89b-12d3-a456-426614174000"),
        (r"^\d{4}-\d{2}-\d{2}T(?:\d{2}:){2}\d{2}$", "2026-01-02T03:04:05"),
        (r"(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}(?#an address)", "1:2:3:4:5:6:7:8"),
        (r"([[:alpha:]]{2}[)]){2}", "ab)cd)"),
        ("(?:xy){3000}", "xy" * 3000),
    ]:
        desk.write("x", text.encode())
        assert (await found(desk, query, use_regex=True))[0] == "x"


@pytest.mark.slow
async def test_an_endless_expression_is_stopped_and_the_server_answers_meanwhile(desk: Desk) -> None:
    desk.write("x", b"a" * 3000 + b"\n")
    desk.write("y", b"yes\n")
    slow = r"(.*)(.*)(.*)(.*)(.*)[^a\n]$"
    searching = asyncio.create_task(desk.call("find_in_files", query=slow, use_regex=True, path="x"))
    replacing = asyncio.create_task(
        desk.call("search_and_replace", path="x", search=slow, replace="", use_regex=True)
    )
    await asyncio.sleep(0)
    with anyio.fail_after(WITHIN):
        answered = 0
        while not (searching.done() and replacing.done()):
            with little_work():  # of the searches, until there is an answer
                assert await desk.done("read_files", path="y") == "1 | yes"
            answered += 1
            await asyncio.wait({searching, replacing}, timeout=0.01)
    assert ((await searching).code, (await replacing).code) == ("too_slow", "too_slow")
    assert answered > 5


async def test_progress_is_told_inside_the_loop_and_a_cancelled_search_stops(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(find_in_files, "CALL_LIMIT", 10.0 * WITHIN)
    for number in range(400):
        desk.write(f"many/{number:03}", b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n" * 300)
    told: list[tuple[float, str]] = []
    thread = asyncio.get_running_loop()

    def listen(done: float, total: float | None, message: str) -> None:
        assert asyncio.get_running_loop() is thread
        told.append((done, message))

    with bind_call(on_progress=listen):
        searching = asyncio.create_task(
            desk.call("find_in_files", query=r"(.*)(.*)(.*)[^a\n]$", use_regex=True, path="many")
        )
    with anyio.fail_after(WITHIN):
        while len(told) < 2:
            assert not searching.done()
            await asyncio.wait({searching}, timeout=0.05)
        searching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await searching
        count = len(told)
        await asyncio.wait({asyncio.create_task(asyncio.Event().wait())}, timeout=1)
    assert len(told) <= count + 1
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[0][1].startswith("searching many/")


@pytest.mark.parametrize("path", [".", "many"])
async def test_a_search_that_takes_too_long_tells_what_it_found_and_can_be_read_on(
    path: str, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a b", "c/1", "c/2", "c.x", "c-y", "語"):
        desk.write(f"many/{name}", b"hit\n")
    whole = await found(desk, "hit", path=path)
    monkeypatch.setattr(find_in_files, "CALL_LIMIT", 0.0)
    lines: list[str] = []
    after, calls = "", 0
    while after is not None:
        told = (await desk.done("find_in_files", query="hit", path=path, after=after)).splitlines()
        calls += 1
        lines += told[:-1]
        read_on = re.search(r"read on with after (\".*\") and", told[-1])
        assert read_on or told[-1].startswith(("1 line ", "Nothing"))
        after = json.loads(read_on[1]) if read_on else None
    assert lines == whole
    assert calls == 6


@pytest.mark.parametrize("path", [".", "many"])
async def test_reading_on_goes_on_whatever_bytes_names_have(
    path: str, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    (desk.folder / "many").mkdir()
    for name in (b"Z", b"a\\xffb", b"\xe9a", b"\xffb", b"]", b"^"):
        (desk.folder / "many" / os.fsdecode(name)).write_bytes(b"hit\n")
    whole = await found(desk, "hit", path=path)
    monkeypatch.setattr(find_in_files, "CALL_LIMIT", 0.0)
    lines: list[str] = []
    after, calls = "", 0
    while after is not None and calls < 20:
        told = (await desk.done("find_in_files", query="hit", path=path, after=after)).splitlines()
        calls += 1
        lines += told[:-1]
        read_on = re.search(r"read on with after (\".*\") and", escape_bytes(told[-1]))
        after = json.loads(read_on[1]) if read_on else None
    assert lines == whole
    assert calls == 6


async def test_behind_the_one_file_that_is_searched_there_is_nothing(desk: Desk) -> None:
    desk.write("x", b"hit\n")
    assert await desk.done("find_in_files", query="hit", path="x", after="x") == "Nothing more was found"


async def test_a_list_of_globs_that_is_written_as_text_is_taken_as_the_list(desk: Desk) -> None:
    for name in ("a.py", "b.md", "c.txt"):
        desk.write(name, b"hit\n")
    told = await found(desk, "hit", include='["*.py", "*.md"]', exclude=' ["b*"]')
    assert told == ["a.py", "1: hit", ""]


@pytest.mark.slow
async def test_nobody_waits_longer_for_a_search_than_its_time() -> None:
    # As on a busy machine: the library counts processor time, and its own limit comes late.
    over = threading.Event()

    def search(clock: SearchDeadline) -> bool:
        clock.start()
        return over.wait(WITHIN)

    began = time.monotonic()
    with pytest.raises(ToolError) as caught:
        await run_with_timeout(search)
    assert caught.value.code == "too_slow"
    assert time.monotonic() - began > TIME_LIMIT
    over.set()
