"""What may change of a text without changing what it says: laws, by what the languages' own parsers say."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.tools.changes.layouts import find_layout, normalize_lines
from kakite.tools.changes.line_diff import LineDiff, fold
from kakite.tools.text_pages import split_lines

PYTHON = '''\
import os


def f(items, *, size=1):
    """Say  it.

    With 'quotes'.
    """
    total = {"a": 1, 'b': -2}
    for i in items:
        total['a'] += i  # one
        save(total)
    if (size, ) == (1,) or not [1] and a[1] < b[1,]:
        return f'{total["a"]}  x' + "it's" + 'a\\\\n'
    x = a - -b if size else call(1)(2, 3) // 4
    y = """
  raw  text
""" ; z = (1)
    return \\
        x


class A(B):
    def g(self): return self.h(1, *(2, 3), z=[4, (5)])
'''

SCRIPT = """\
// it's
import a, { b } from 'a'
const x = { a: 1, 'b': [1, , 2] }
function f(p, q) {
  if (p) q()
  for (let i = 0; i < 3; i++) { g(i) }
  while (p)
    h()
  return x
}
let y = p ? /['"]/g.test(q) : `a ${x + `b`}
  c`
a = b
(c)
a++
b
do { f() } while (x)
class A { static x = 1
  get y() { return 'it' } }
label: for (;;) { break }
export default async () => { await x; }
"""

_PIECES = ["", "", " ", "  ", "\n", "\n    ", ",", ";", "'", '"', "(", ")", "x", "\t", "\\", "`"]


@st.composite
def _meddled(draw: st.DrawFn, text: str, suffix: str) -> tuple[str, str, str]:
    """A text, what somebody made of it, and the kind of file."""
    new = text
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(new)))
        end = draw(st.integers(at, min(len(new), at + 2)))
        is_form = all(char in " \n\t,;'\"`" for char in new[at:end])
        new = new[:at] + draw(st.sampled_from(_PIECES)) + new[end if is_form else at :]
    return text, new, suffix


def _same(old: str, new: str, suffix: str) -> bool:
    return not LineDiff(old, new, find_layout(f"x{suffix}")).real


@given(_meddled(PYTHON, ".py"))
def test_what_counts_as_form_in_python_is_the_same_program(case: tuple[str, str, str]) -> None:
    old, new, suffix = case
    if _same(old, new, suffix):
        assert ast.dump(ast.parse(old)) == ast.dump(ast.parse(new))


@pytest.mark.slow
def test_every_single_change_of_a_character_that_counts_as_form_is_the_same_python() -> None:
    for at in range(len(PYTHON)):
        for piece in (" ", "\n", ",", ";", "'", "\t"):
            for new in (PYTHON[:at] + piece + PYTHON[at:], PYTHON[:at] + piece + PYTHON[at + 1 :]):
                if _same(PYTHON, new, ".py"):
                    assert ast.dump(ast.parse(PYTHON)) == ast.dump(ast.parse(new)), (at, piece)


@pytest.mark.parametrize("suffix", [".py", ".js", ".css", ".go", ".java", ".c", ".rs", ".sh", ".yml", ""])
@given(st.data())
def test_each_line_has_its_key_and_what_says_the_same_differs_in_no_word(
    suffix: str, data: st.DataObject
) -> None:
    text = data.draw(st.sampled_from([PYTHON, SCRIPT]))
    old, new, _ = data.draw(_meddled(text, suffix))
    layout = find_layout(f"x{suffix}")
    assert len(normalize_lines(split_lines(new), layout)) == len(split_lines(new))
    ends = normalize_lines(split_lines(new.replace("\n", "\r\n")), layout)
    assert ends == normalize_lines(split_lines(new), layout)
    for each in LineDiff(old, new, layout).differences:
        before = "".join(split_lines(old)[slice(*each.old)])
        after = "".join(split_lines(new)[slice(*each.new)])
        assert not each.is_form or fold(before) == fold(after)


def _tree(text: str) -> str:
    """Return what a parser of JavaScript reads, without the marks that may be left out."""
    import tree_sitter
    import tree_sitter_javascript

    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_javascript.language()))

    def drawn(node: tree_sitter.Node) -> str:
        if node.type in {";", ",", '"', "'", "empty_statement"} or node.is_extra:
            return ""
        if not node.children:
            return f"{node.type}={(node.text or b'').decode()!r} "
        return f"({node.type} {''.join(map(drawn, node.children))})"

    return drawn(parser.parse(text.encode()).root_node)


@pytest.mark.slow
def test_every_single_change_of_a_character_that_counts_as_form_is_the_same_script() -> None:
    pytest.importorskip("tree_sitter_javascript")
    wanted = _tree(SCRIPT)
    for at in range(len(SCRIPT)):
        for piece in (" ", "\n", ",", ";", "'", "`"):
            for new in (SCRIPT[:at] + piece + SCRIPT[at:], SCRIPT[:at] + piece + SCRIPT[at + 1 :]):
                if _same(SCRIPT, new, ".js"):
                    assert _tree(new) == wanted, (at, piece)


@given(_meddled(SCRIPT, ".js"))
def test_what_counts_as_form_in_a_script_is_the_same_program(case: tuple[str, str, str]) -> None:
    pytest.importorskip("tree_sitter_javascript")
    old, new, suffix = case
    if _same(old, new, suffix):
        assert _tree(old) == _tree(new)


CHANGES = {
    "a dedent": ("p.py", "for i in x:\n    a(i)\n    b(i)\n", "for i in x:\n    a(i)\nb(i)\n"),
    "an indent": ("p.py", "if a:\n    b()\nc()\n", "if a:\n    b()\n    c()\n"),
    "another depth": ("c.yml", "a:\n  b: 1\n  c: 2\n", "a:\n  b: 1\nc: 2\n"),
    "blanks in a string": ("p.py", 'x = "a  b"\n', 'x = "a b"\n'),
    "blanks in a string of JSON": ("p.json", '{"a": "a  b"}\n', '{"a": "a b"}\n'),
    "blanks in a long string": ("p.py", 'x = """\n  a\n"""\n', 'x = """\na\n"""\n'),
    "a blank line in a long string": ("p.py", 'x = """\na\n"""\n', 'x = """\n\na\n"""\n'),
    "quotes in the shell": ("x.sh", 'cd "$HOME"\n', "cd '$HOME'\n"),
    "quotes that make a template": ("x.js", 'a("${x}")\n', "a(`${x}`)\n"),
    "quotes in an unknown type": ("x", "a = 'x'\n", 'a = "x"\n'),
    "the tab of a recipe": ("Makefile", "all:\n\tcc x\n", "all:\n    cc x\n"),
    "a raw string of Go": ("x.go", 'a := "b\\n"\n', "a := `b\\n`\n"),
    "quotes in PHP": ("x.php", "<?php $a = '$b';\n", '<?php $a = "$b";\n'),
    "quotes in Ruby": ("x.rb", "a = '#{b}'\n", 'a = "#{b}"\n'),
    "quotes with an escape": ("p.py", "x = 'a\\'b'\n", 'x = "a\\\'b"\n'),
    "a tuple of one": ("p.py", "x = (1)\n", "x = (1,)\n"),
    "a key of one": ("p.py", "x = a[1]\n", "x = a[1,]\n"),
    "a hole": ("x.js", "a = [1,]\n", "a = [1,,]\n"),
    "a return that is cut off": ("x.js", "f(() => {\n  return x\n})\n", "f(() => {\n  return\n  x\n})\n"),
    "a call that is cut off": ("x.js", "a = b\n(c)\n", "a = b;\n(c)\n"),
    "an empty loop": ("x.js", "while (a)\n  b()\n", "while (a);\n  b()\n"),
    "an if without a body": ("x.js", "if (a)\n  b()\n", "if (a);\n  b()\n"),
    "operators put together": ("x.js", "a = b - -c\n", "a = b --c\n"),
    "a comment over more": ("x.js", "a() // b\nc()\n", "a() // b c()\n"),
    "blanks between tags": ("x.jsx", "x = <b>a  b</b>\n", "x = <b>a b</b>\n"),
    "a descendant": ("x.css", "a:hover { top: 0 }\n", "a :hover { top: 0 }\n"),
    "blanks at the end in Markdown": ("x.md", "a  \nb\n", "a\nb\n"),
    "a paragraph": ("x.md", "a\n\nb\n", "a\nb\n"),
    "blanks in a here-document": ("x.sh", "cat <<E\na \nE\n", "cat <<E\na\nE\n"),
    "a macro": ("x.c", "#define f(x) x\n", "#define f (x) x\n"),
    "words put together": ("x.java", "int a;\n", "inta;\n"),
    "a statement of two lines in Go": ("x.go", "a := b\n-c\n", "a := b -c\n"),
    "the depth in Haskell": ("x.hs", "f = do\n  a\n  b\n", "f = do\n  a\nb\n"),
    "a field with quotes": ("p.py", 'x = f"{a["b  c"]}"\n', 'x = f"{a["b c"]}"\n'),
}


@pytest.mark.parametrize("name", CHANGES)
def test_it_is_a_change(name: str) -> None:
    path, old, new = CHANGES[name]
    assert LineDiff(old, new, find_layout(path)).real
    assert LineDiff(new, old, find_layout(path)).real


FORMS = {
    "blanks at ends of lines": ("p.py", "a = 1  \nb = 2\n", "a = 1\nb = 2\n"),
    "line ends": ("x", "a\nb\n", "a\r\nb\r\n"),
    "blank lines": ("p.py", "a = 1\n\n\nb = 2\n", "a = 1\n\nb = 2\n"),
    "blank lines of a script": ("x.sh", "a\n\n\nb\n", "a\n\nb\n"),
    "blanks between tokens": ("p.py", "x=a+ 1\n", "x = a + 1\n"),
    "quotes": ("p.py", "x = 'a'\n", 'x = "a"\n'),
    "a wrapped call": ("p.py", "f(a, b)\n", "f(\n    a,\n    b,\n)\n"),
    "a wrapped call of one": ("p.py", "f(a)\n", "f(\n    a,\n)\n"),
    "a wrapped list": ("p.py", "x = [a, 'b']\n", 'x = [\n    a,\n    "b",\n]\n'),
    "semicolons": ("x.js", "const a = 'b'\nf(a)\n", 'const a = "b";\nf(a);\n'),
    "a semicolon before a bracket": ("x.ts", "if (a) { b() }\n", "if (a) {\n  b();\n}\n"),
    "a wrapped object": ("x.ts", "f({ a, b: 1 })\n", "f({\n  a,\n  b: 1,\n});\n"),
    "a wrapped chain": ("x.js", "a.b().c()\n", "a\n  .b()\n  .c();\n"),
    "other indentation": ("x.js", "if (a) {\n    b()\n}\n", "if (a) {\n  b()\n}\n"),
    "a style sheet": ("x.css", "a{top:0;left:url( x )}\n", "a {\n  top: 0;\n  left: url( x );\n}\n"),
    "other indentation of Java": ("x.java", "if (a) {\n\tb();\n}\n", "if (a)\n{\n    b();\n}\n"),
    "gofmt": ("x.go", "func f(){\n  a:=1\n}\n", "func f() {\n\ta := 1\n}\n"),
    "JSON": ("x.json", '{"a":[1,2]}\n', '{\n  "a": [1, 2]\n}\n'),
    "rustfmt": ("x.rs", "fn f<'a>(x:&'a str){g('\"')}\n", "fn f<'a>(x: &'a str) {\n    g('\"')\n}\n"),
}


@pytest.mark.parametrize("name", FORMS)
def test_it_is_form_alone(name: str) -> None:
    path, old, new = FORMS[name]
    assert not LineDiff(old, new, find_layout(path)).real
    assert not LineDiff(new, old, find_layout(path)).real
