"""What an edit broke: told with its line where the text parsed before, and never else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.bounds import little_work

from kakite.syntax import find_syntax_problem

SOURCE = Path(__file__).parents[2] / "src" / "kakite"

BROKEN = {
    "a.py": ("def f(x):\n    return x\n", "def f(x:\n    return x\n", 1),
    "b.py": ("if x:\n    a()\n", "if x:\na()\n", 2),
    "c.pyi": ("x: int\ny: int\n", "x: int\ny: = int\n", 2),
    "a.json": ('{"a": 1,\n "b": 2}\n', '{"a": 1,\n "b": 2,}\n', 2),
    "a.ipynb": ('{"cells": []}', '{"cells": [}', 1),
    "a.toml": ("[a]\nb = 1\n", "[a]\nb = \n", 2),
    "a.yaml": ("a:\n  b: 1\n", "a:\n  b: 1\n c: 2\n", 3),
    "a.sh": ("if true; then\n  echo\nfi\n", "if true; then\n  echo\n", 3),
    "a.c": ("int f(void) {\n  return 1;\n}\n", "int f(void) {\n  return 1\n}\n", 2),
    "a.hpp": ("class A {\n  int x;\n};\n", "class A {\n  int x;\n", 1),
    "a.css": ("a {\n  color: red;\n}\n", "a {\n  color: red;\n", 2),
    "a.go": ("package a\n\nfunc f() {\n}\n", "package a\n\nfunc f( {\n}\n", 3),
    "a.java": ("class A {\n  int x;\n}\n", "class A {\n  int x\n}\n", 2),
    "a.js": ("function f() {\n  return [1];\n}\n", "function f() {\n  return [1;\n}\n", 2),
    "a.jsx": ("const a = <b>c</b>;\n", "const a = <b>c</b;\n", 1),
    "a.rb": ("def f\n  1\nend\n", "def f\n  1\n", 1),
    "a.rs": ("fn f() -> u8 {\n    1\n}\n", "fn f() -> u8 {\n    1)\n}\n", 2),
    "a.ts": ("const a: number = 1;\nf();\n", "const a: number = 1;\nf(;\n", 2),
    "a.tsx": ("const a = <b c={1} />;\n", "const a = <b c={1 />;\n", 1),
}


@pytest.mark.parametrize("path", BROKEN)
def test_an_edit_that_breaks_a_file_is_told_with_the_line(path: str) -> None:
    before, after, line = BROKEN[path]
    problem = find_syntax_problem(path, before, after)
    assert problem is not None
    assert problem.line == line
    assert problem.language
    assert problem.message
    assert find_syntax_problem(f"deep/er/{path.upper()}", before, after) == problem


@pytest.mark.parametrize("path", BROKEN)
def test_what_was_broken_before_is_not_told(path: str) -> None:
    before, after, _ = BROKEN[path]
    assert find_syntax_problem(path, after, after + "\n") is None
    assert find_syntax_problem(path, after, before) is None
    assert find_syntax_problem(path, before, before + "\n") is None


@pytest.mark.parametrize("path", BROKEN)
def test_a_new_file_that_does_not_parse_is_told(path: str) -> None:
    before, after, _ = BROKEN[path]
    assert find_syntax_problem(path, None, before) is None
    assert find_syntax_problem(path, None, after) is not None


@pytest.mark.parametrize("path", ["a.txt", "Makefile", "a", "a.py.bak", "a.md"])
def test_other_files_are_not_looked_at(path: str) -> None:
    assert find_syntax_problem(path, "", "def f(:\n") is None


def test_comments_in_json_are_nobodys_mistake() -> None:
    assert find_syntax_problem("tsconfig.json", '{\n// a\n"b": 1}', '{\n// a\n"b": 2}') is None
    assert find_syntax_problem("tsconfig.json", None, '{\n// a\n"b": 1}') is None


def test_syntax_of_a_later_python_is_no_mistake() -> None:
    later = "type A = int\n\ndef f[T](x: T) -> str:\n    return f'{x['a']}'\n"
    assert find_syntax_problem("a.py", "x = 1\n", later) is None


def test_the_line_is_one_that_was_changed_where_the_mistake_has_no_place_of_its_own() -> None:
    before = "".join(f"int f{nth}(void) {{ return {nth}; }}\n" for nth in range(40))
    after = before.replace("int f20(void) {", "int f20(void) {{{")
    problem = find_syntax_problem("a.c", before, after)
    assert problem is not None
    assert problem.line in {21, 41}


@pytest.mark.parametrize("name", ["agent/run/state_machine.py", "host/host.py", "collab/realtime/room.py"])
def test_real_files_parse_and_losing_a_bracket_shows(name: str) -> None:
    text = (SOURCE / name).read_text("utf-8")
    assert find_syntax_problem(name, text, text + "\n") is None
    at = text.rindex(")")
    assert find_syntax_problem(name, text, text[:at] + text[at + 1 :]) is not None


@given(
    st.sampled_from(sorted(BROKEN)),
    st.lists(
        st.sampled_from(["{", "}", "(", "'", '"', "a", "\n", " ", ":", "=", "\\", "é", "\ud800", "\0"])
    ).map("".join),
)
def test_any_text_is_told_or_not_and_nothing_is_raised(path: str, text: str) -> None:
    problem = find_syntax_problem(path, "", text)
    assert problem is None or 1 <= problem.line <= text.count("\n") + 1


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.py", "x = [" + "1, " * 30_000 + "]\n"),
        ("a.py", "(" * 50_000),
        ("a.py", "x = 1\n" * 200_000),
        ("a.json", "[" * 100_000),
        ("a.yaml", "- a\n" * 100_000),
        ("a.toml", "a = 1\n" * 100_000),
        ("a.ts", "f(" * 100_000),
        ("a.js", "x = {a: [1, 2], b: 'c'};" * 100_000),
        ("a.cpp", "template <" * 50_000),
        ("a.rb", "<<A\n" * 20_000),
    ],
    ids=range(10),
)
def test_it_takes_a_moment_whatever_the_text(path: str, text: str) -> None:
    find_syntax_problem(path, "", "")
    with little_work(2):
        find_syntax_problem(path, "", text)


def test_nothing_is_loaded_before_it_is_needed() -> None:
    script = (
        "import sys, kakite.syntax\n"
        "assert not {'tree_sitter', 'yaml', 'tomllib'} & set(sys.modules)\n"
        "kakite.syntax.find_syntax_problem('a.go', '', 'package a\\n')\n"
        "assert {name for name in sys.modules if name.startswith('tree_sitter_')} >= {'tree_sitter_go'}\n"
        "assert 'tree_sitter_rust' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()


def test_without_the_extra_other_languages_are_not_looked_at() -> None:
    script = (
        "import sys; sys.modules['tree_sitter'] = None\n"
        "from kakite.syntax import find_syntax_problem\n"
        "assert find_syntax_problem('a.go', 'package a\\n', 'package (\\n') is None\n"
        "assert find_syntax_problem('a.py', 'x = 1\\n', 'x = (\\n').line == 1\n"
        "assert find_syntax_problem('a.json', '{}', '{').line == 1\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
