"""``glob``: which files have a name like this."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tools.conftest import Desk

from kakite.tools.search import glob
from kakite.tools.search.glob import parse_globs

pytestmark = pytest.mark.anyio

FILES = ("a/b/m.py", "a/t.ts", "a/u.tsx", "m.py", "build/m.py", ".hidden/x.py", ".git/x", "a b/語.md")


@pytest.mark.parametrize(
    ("arguments", "files"),
    [
        ({"pattern": "*.py"}, [".hidden/x.py", "a/b/m.py", "m.py"]),
        ({"pattern": "**/*.py"}, [".hidden/x.py", "a/b/m.py", "m.py"]),
        ({"pattern": "./*.py"}, ["m.py"]),
        ({"pattern": "a/*"}, ["a/t.ts", "a/u.tsx"]),
        ({"pattern": "a/"}, ["a/b/m.py", "a/t.ts", "a/u.tsx"]),
        ({"pattern": "a/**"}, ["a/b/m.py", "a/t.ts", "a/u.tsx"]),
        ({"pattern": "a/**/*.py"}, ["a/b/m.py"]),
        ({"pattern": "{a,b}/*.{ts,tsx}"}, ["a/t.ts", "a/u.tsx"]),
        ({"pattern": "[mu].*"}, ["a/b/m.py", "a/u.tsx", "m.py"]),
        ({"pattern": "M.PY"}, []),
        ({"pattern": "語.*"}, ["a b/語.md"]),
        ({"pattern": "*.py", "path": "a"}, ["a/b/m.py"]),
        ({"pattern": "b/*.py", "path": "a/"}, ["a/b/m.py"]),
    ],
)
async def test_files_are_found_by_their_names(
    desk: Desk, arguments: dict[str, object], files: list[str]
) -> None:
    for name in FILES:
        desk.write(name, b"x")
    desk.write(".gitignore", b"build/\n")
    assert (await desk.done("glob", **arguments)).splitlines() == (files or ["Nothing was found"])


async def test_a_pattern_may_be_an_absolute_path_below_the_folder_and_no_other(desk: Desk) -> None:
    for name in FILES:
        desk.write(name, b"x")
    assert await desk.done("glob", pattern=f"{desk.folder}/a/*.ts") == "a/t.ts"
    for pattern, path in (("/etc/*", "."), (f"{desk.folder}/m.py", "a")):
        assert (await desk.refused("glob", pattern=pattern, path=path))[0] == "bad_arguments"
    assert (await desk.refused("glob", pattern="*", path=".."))[0] == "path_escapes"
    assert (await desk.refused("glob", pattern="*", path="no"))[0] == "file_not_found"
    assert (await desk.refused("glob", pattern="{a,b}" * 10))[0] == "bad_arguments"


async def test_what_an_answer_has_no_room_for_is_counted(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(1203):
        desk.write(f"many/{number:04}", b"")
    lines = (await desk.done("glob", pattern="*")).splitlines()
    assert lines[:1000] == [f"many/{number:04}" for number in range(1000)]
    assert lines[1000].startswith("… 1,000 shown, 203 left out")
    monkeypatch.setattr(glob, "CALL_LIMIT", -1.0)
    assert "not all was looked at" in (await desk.done("glob", pattern="*")).splitlines()[-1]


@given(st.lists(st.sampled_from(["a", "b", "ab", ".a"]), min_size=1, max_size=4))
def test_a_path_is_its_own_glob_and_stars_stand_for_its_parts(parts: list[str]) -> None:
    def is_named(pattern: str) -> bool:
        return any(each.matches(parts) for each in parse_globs([pattern]))

    path = "/".join(parts)
    assert is_named(f"./{path}")
    assert is_named(f"./{'/'.join('*' * len(parts))}")
    assert not is_named(f"./{path}/*")
    for at in range(len(parts)):
        assert is_named("/".join([".", *parts[:at], "**", *parts[at:]]))
        assert is_named("/".join([".", *parts[:at], "**", parts[-1]]))
        assert is_named("/".join([".", *parts[:at], f"{{zz,{parts[at]}}}", *parts[at + 1 :]]))
