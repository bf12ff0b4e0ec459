"""Corners of the engine that the other files do not reach: each has been, or could be, a wrong edit."""

from __future__ import annotations

import pytest

from kakite.edit import Change, ChangeSet, Edit, EditError, SourceText, apply, parse


def edited(text: str, search: str, replace: str, line: int | None = None) -> str:
    return apply(text, [Edit(search=search, replace=replace, line=line)]).text


def refusal(
    text: str,
    search: str,
    replace: str = "REPLACED\n",
    scope: tuple[str, ...] = (),
    line: int | None = None,
) -> str:
    with pytest.raises(EditError) as refused:
        apply(text, [Edit(search=search, replace=replace, scope=scope, line=line)])
    return refused.value.failures[0].code


@pytest.mark.parametrize(
    ("text", "search", "replace", "expected"),
    [
        # line ends that are all the difference are meant
        ("a\r\nb\n", "a\r\n", "a\n", "a\nb\n"),
        # mixed line ends inside of an exact hit stay line by line
        ("a\r\nb\nc\n", "a\r\nb\n", "a\r\nX\n", "a\r\nX\nc\n"),
        ("x a\r\nb\nc\n", "a\r\nb", "A\r\nb", "x A\r\nb\nc\n"),
        # one stripped line, REPLACE with the indentation of the file
        ("    a()\n", "a()", "    b()", "        b()\n"),
        ("    a()\n    x\n", "a()\n    x", "    b()\n    x", "    b()\n    x\n"),
        # deletions on loose rungs take the line end along, and the file's last line keeps none
        ("\ta\n\tb\nc\n", "  a\n  b", "", "c\n"),
        ("c\n\ta\n\tb", "  a\n  b", "", "c"),
        # REPLACE adds a line end
        ("\ta\n\tb", "  a\n  b", "  a\n  b\n", "\ta\n\tb\n"),
        # starts behind other text on its line
        # decomposed SEARCH, composed file: new text is composed
        ("café\nx\n", "cafe\u0301\nx\n", "cafe\u0301 cre\u0300me\ny\n", "café crème\ny\n"),
        # an ellipsis is one character, though SEARCH has three
        ("wait… now\n", "wait... now\n", "wait... then\n", "wait… then\n"),
        # marks belong to the letter before them
        # tabs in SEARCH for the depth that the file writes with blanks
        (
            "if a:\n    b\n    c\n",
            "if a:\n\tb\n\tc\n",
            "if a:\n\tb\n\tif d:\n\t\tc\n",
            "if a:\n    b\n    if d:\n        c\n",
        ),
        # SEARCH is deeper, REPLACE has a line that is not
        ("if a:\n    b\n", "    if a:\n        b\n", "    if a:\n        b\n    c\n", "if a:\n    b\nc\n"),
        # three levels in one step
        (
            "x\n\t\t\ty\n",
            "x\n            y\n",
            "x\n            y\n                z\n",
            "x\n\t\t\ty\n\t\t\t\tz\n",
        ),
        # a line moves before what is left out
        # a blank line of SEARCH that the file does not have stays beside something new
        ("a\nb\n", "a\n\nb\n", "a\n\nnew\nb\n", "a\n\nnew\nb\n"),
        # the file's blank line stays beside what is inserted
        ("a\n\nb\n", "a\nb\n", "a\nnew\n\nb\n", "a\n\nnew\n\nb\n"),
    ],
)
def test_the_right_text_is_written(text: str, search: str, replace: str, expected: str) -> None:
    assert edited(text, search, replace) == expected


@pytest.mark.parametrize(
    ("text", "search", "replace", "code"),
    [
        # four dots for a dot and a character: which of them stays cannot be told
        ("go.…on\n", "go....on\n", "go..on\n", "indentation_unclear"),
        # look-alikes cut in the middle of a character
        ("wait…now\n", "wait..", "x", "near_miss"),
        # a part of a line with other blanks, and the part of another one that starts inside of a name
        ("f open (a, b) {\n  go$open(a, b)\n", "open(a,  b", "open(c", "near_miss"),
        ("x.color : red;  y\nbackground-color: red; y\n", "color:  red;", "a", "near_miss"),
        # a part of a line that would split a word
        ("say “hello”s\n", 'say "hello" s', "x", "near_miss"),
    ],
)
def test_what_can_be_meant_in_two_ways_is_refused(text: str, search: str, replace: str, code: str) -> None:
    assert refusal(text, search, replace) == code


def test_a_number_before_a_single_line_is_a_line_number_only_near_that_line() -> None:
    text = "".join(f"service {n}\n" for n in range(60)) + "http\n"
    assert refusal(text, "8: http\n") in {"near_miss", "not_found"}
    assert edited(text, "61: http\n", "61: https\n").endswith("https\n")


def test_a_scope_picks_the_block() -> None:
    text = "class A:\n    x = 1\n\nclass B:\n    x = 1\n\nclass C:\n    x = 1\n"
    edit = Edit(search="    x = 1\n", replace="    x = 2\n", scope=("class B",))
    assert apply(text, [edit]).matches[0].line == 5


TWO_CLASSES = "class A(Base):\n    x = 1\n    y = 1\n\nclass B:\n    x = 1\n    y = 2\n\nx = 2\n"


@pytest.mark.parametrize(
    ("search", "scope"),
    [
        ("    x = 1\n", ("class Z",)),
        ("    x = 1\n", ("x = 2",)),
        ("    y = 1\n", ("class B:",)),
        ("    y = 2\n", ("class A",)),
        ("    y = 1\n", ("class Z",)),
        ("    y = 2\n", ("class A", "class B")),
        ("    y = 1\n", ("class B:",) * 9),
    ],
)
def test_a_scope_that_the_place_is_not_in_refuses(search: str, scope: tuple[str, ...]) -> None:
    assert refusal(TWO_CLASSES, search, "    z = 3\n", scope=scope) == "not_found"


@pytest.mark.parametrize(
    ("search", "scope"),
    [
        ("    y = 1\n", ("class A",)),
        ("    y = 2\n", ("class B:", "    x = 1")),
        ("class B:\n    x = 1\n", ("class B:",)),
        ("x = 2\n", ("y = 2",)),
    ],
)
def test_a_scope_may_be_the_begin_of_a_line_or_a_line_that_opens_no_block(
    search: str, scope: tuple[str, ...]
) -> None:
    assert apply(TWO_CLASSES, [Edit(search=search, replace="z\n", scope=scope)]).matches


def test_a_heading_that_is_wrong_is_passed_over() -> None:
    edit = Edit(search="    y = 1\n", replace="    y = 3\n", heading="class B:")
    assert apply(TWO_CLASSES, [edit]).matches[0].line == 3
    edit = Edit(search="    x = 1\n", replace="    x = 3\n", heading="class B:")
    assert apply(TWO_CLASSES, [edit]).matches[0].line == 6


def test_the_end_of_the_file_breaks_a_tie() -> None:
    edit = Edit(search="x\n", replace="y\n", at_end=True)
    assert apply("x\na\nx\n\n", [edit]).text == "x\na\ny\n\n"
    assert apply("x\na\n", [edit]).text == "y\na\n"


@pytest.mark.slow
def test_scopes_made_to_be_slow_are_told_at_once() -> None:
    text = "a\n" * 20_000 + "b\n"
    assert refusal(text, "a\n", "c\n", scope=("a",) * 40) == "ambiguous"
    assert apply(text, [Edit(search="b\n", replace="c\n", scope=("a",) * 40)]).matches


def test_characters_with_several_byte_forms_keep_theirs() -> None:
    # NEC's and IBM's rows of Shift-JIS have the same characters twice.
    data = "これは設定です。\n".encode("cp932") * 3 + b"\xed\x40 = 1\n\xfa\x5c = 2\n"
    source = SourceText.from_bytes(data)
    assert source.encoding == "cp932"
    assert source.to_bytes() == data
    result = apply(source, [Edit(search="= 2", replace="= 3")])
    assert result.source.to_bytes() == data.replace(b"= 2", b"= 3")
    changed = source.replace(
        ChangeSet.of(len(source.text), [Change(len(source.text) - 7, len(source.text) - 6, "\u7e8a")])
    )
    assert changed.to_bytes().startswith(data[:-20])


def test_a_text_that_never_was_bytes_is_written_as_utf8() -> None:
    assert apply("é\n", [Edit(search="é", replace="ü")]).source.to_bytes() == "ü\n".encode()


def test_renames_of_git_are_moves() -> None:
    header = "diff --git a/x.py b/y.py\nsimilarity index 90%\nrename from x.py\nrename to y.py\n"
    reply = header + "--- a/x.py\n+++ b/y.py\n@@ @@\n-a\n+b\n"
    move, edit = parse(reply)
    assert (move.path, getattr(move, "to", ""), edit.path) == ("x.py", "y.py", "x.py")


@pytest.mark.parametrize("before", ["b", "rb", "F", "N", "u8", "return", "case", "case "])
def test_the_words_of_a_string_are_never_a_typo_whatever_stands_before_its_quote(before: str) -> None:
    assert refusal(f"    x = {before}'data' + y\n", f"    x = {before}'dta' + y\n") == "near_miss"
    assert refusal(f"    x = {before}'a  b' + y\n", f"    x = {before}'a b' + y\n") == "near_miss"


def test_an_apostrophe_opens_no_string() -> None:
    text = "This isn't what the others  did yesterday.\n"
    assert edited(text, "This isn't what the others did yesterday.\n", "x\n") == "x\n"


@pytest.mark.parametrize(
    ("text", "search", "replace"),
    [
        # a statement that stands in another block, by the depth of its lines
        (
            "def f(y):\n    for i in y:\n        s += i\n    return s\n",
            "        s += i\n        return s\n",
            "x\n",
        ),
        ("if x:\n    b()\n    a()\nz()\n", "    b()\na()\n", "    b()\na()\nc()\n"),
        ("if x:\n    b()\na()\nz()\n", "    b()\n    a()\n", "    b()\n    a()\n    c()\n"),
        (
            "def f():\n    for i in y:\n        s += i\n    return s\n",
            "s += i\nreturn s\n",
            "s += i\nreturn -s\n",
        ),
        ("\tb()\n\ta()\n", "  b()\n\ta()\n", "  b()\n\ta()\n\tc()\n"),
        ("- a\n  - b\ntext\n", "- a\n- b\n", "- a\n- b\n- c\n"),
        ("  b: 1\nc: 2\n", "  b: 1\n  c: 2\n", "  b: 1\n  c: 3\n"),
        # whole lines that are the tail of another line
        ("  background-color:  red;\n", "color: red;\n", "color: blue;\n"),
        # a part of a word, an operator, a number
        # a statement that goes on
        # an indented line that stands only within another one
        ("} else  return x;\n", "\treturn x;", "\treturn y;"),
        # blanks that mean something between two signs
        (".btn.active { }\n", ".btn .active { }\n", "x\n"),
        ("a:hover { }\n", "a :hover { }\n", "x\n"),
        ("cmd 2> file\n", "cmd 2 > file\n", "x\n"),
        ("rm -rf /tmp/x\n", "rm -rf / tmp/x\n", "x\n"),
        ("foo -1\n", "foo - 1\n", "x\n"),
        ("echo ${x}\n", "echo $ {x}\n", "x\n"),
        ("key: a #b\n", "key: a#b\n", "x\n"),
        ("re = /a  b/\n", "re = /a b/\n", "x\n"),
        # stale: the last line goes on
        ("def f():\n    return a + b\n", "def f():\n  return a", "def f():\n  return c"),
        # names that differ by one letter and are both known
        ("x = strncpy(a, b)\ny = 1\nz = 2\n", "x = strcpy(a, b)\ny = 1\nz = 2\n", "x\n"),
        ("total = snprintf(a, b)\n", "total = sprintf(a, b)\n", "x\n"),
        # a slip at a word's edge, and no other line to vouch for it
        ("result = clock(a, b)\n", "result = lock(a, b)\n", "x\n"),
        ("number = page(a, b)\n", "number = age(a, b)\n", "x\n"),
        # a line of dots that is text, and one line that SEARCH lacks
        (">>> f()\n...\nValueError: a\n\nx = 1\n", ">>> f()\n...\n\nx = 1\n", ">>> g()\n...\n\nx = 1\n"),
    ],
)
def test_what_only_looks_like_the_place_is_refused(text: str, search: str, replace: str) -> None:
    assert refusal(text, search, replace) in {"near_miss", "not_found"}


@pytest.mark.parametrize(
    ("text", "search", "replace", "expected"),
    [
        # the whole line is meant, though its text is also the tail of another line
        (
            "  background-color: red;\n  color:red;\n",
            "color: red;\n",
            "color: blue;\n",
            "  background-color: blue;\n  color:red;\n",
        ),
        ("hostname: a\nname:  a\n", "name: a\n", "name: b\n", "hostname: b\nname:  a\n"),
        ("# Setup\n## Setup\n", "# Setup\n", "# Install\n", "# Install\n## Setup\n"),
        # a part of a line, cut between words
        ("total = first + second\n", "first + second", "first", "total = first\n"),
        ("f(a, b)\n", "a, b", "b, a", "f(b, a)\n"),
        # gaps that mean nothing
        ("f( a,b )\n", "f(a, b)\n", "g(a, b)\n", "g(a, b)\n"),
        ("x=1+2\n", "x = 1 + 2\n", "x = 1 + 3\n", "x = 1 + 3\n"),
        ("a = b  or  c\n", "a = b or c\n", "a = b or d\n", "a = b or d\n"),
        ('{"a":1}\n', '{"a": 1}\n', '{"a": 2}\n', '{"a": 2}\n'),
        ("a{color:red;}\n", "a { color: red; }\n", "a { color: blue; }\n", "a { color: blue; }\n"),
        ("x=a-b/c\n", "x = a - b / c\n", "x = a - b / d\n", "x = a - b / d\n"),
        ("y = z[a : b]\n", "y = z[a:b]\n", "y = z[a:c]\n", "y = z[a:c]\n"),
        # an indented line is a line, though its words stand within another one
        (
            "def go() -> None:\n    pass\n\nif x:\n        go()\n",
            "\t\tgo()",
            "        go(1)",
            "def go() -> None:\n    pass\n\nif x:\n        go(1)\n",
        ),
        ("await go();\n    go();\n", "\tgo();", "\tgo(1);", "await go();\n    go(1);\n"),
        # a blank that keeps two words apart
        ("return(x)\n", "return (x)\n", "return x\n", "return x\n"),
        ("if(a&&b){\n", "if (a && b) {\n", "if (a and b) {\n", "if (a and b) {\n"),
        ("x=1\n", "x = 1\n", "x is 1\n", "x is 1\n"),
        ("}else{\n", "} else {\n", "} else if (x) {\n", "} else if (x) {\n"),
        ("foo( )\n", "foo()\n", "foo(a)\n", "foo(a)\n"),
        # a blank that ended the line, and does no more
        ("key: value\nb: 1\n", "key: value  \nb: 1\n", "key: value  # n\nb: 1\n", "key: value  # n\nb: 1\n"),
        # what is written in the file's own depth, and further to the left
        (
            "def f():\n    a()\n    return 1\n",
            "return 1\n",
            "    return 1\n\n\ndef g():\n    return 2\n",
            "def f():\n    a()\n    return 1\n\n\ndef g():\n    return 2\n",
        ),
        (
            "def f():\n    return a\n",
            "        return a\n",
            "        return b\n\n\n    def g():\n        pass\n",
            "def f():\n    return b\n\n\ndef g():\n    pass\n",
        ),
        (
            "class A:\n    def f(self):\n        a()\n        b()\n",
            "a()\n        b()\n",
            "a()\n        c()\n\n\ndef g():\n    pass\n",
            "class A:\n    def f(self):\n        a()\n        c()\n\n\ndef g():\n    pass\n",
        ),
        # a line that was sent without its blanks goes with them
        ("    a\n    b\n", "a\n", "", "    b\n"),
        ("    a\n    b\n", "  a\n", "", "    b\n"),
        ("    a\n    b\n", "b", "", "    a\n"),
        # lines that stand in both, as the file has them
        (
            "        r\n\n    def g():\n        x\n",
            "    r\n\ndef g():\n    x\n",
            "\n    def g():\n        x\n",
            "\n    def g():\n        x\n",
        ),
        (
            "    if a:\n        b = 1\n    }\n    if c:\n        d\n    }\n    e\n",
            "    b = 1\n}\nif c:\n    d\n}\n",
            "    }\n    if c:\n        d\n    }\n",
            "    if a:\n    }\n    if c:\n        d\n    }\n    e\n",
        ),
        # a first line as deep as the file's, not deeper than the one that it replaces
        (
            "def f():\n    a = 1\n    b = 2\n",
            "a = 1\nb = 2\n",
            "    return g()\n\n\ndef g():\n    b = 3\n",
            "def f():\n    return g()\n\n\ndef g():\n    b = 3\n",
        ),
        (
            "    def f():\n        a()\n",
            "a()\n",
            "        try:\n            a()\n        except B:\n            pass\n\n\ndef g():\n    pass\n",
            "    def f():\n        try:\n            a()\n        except B:\n            pass\n\n\n"
            "def g():\n    pass\n",
        ),
        # the first line stays, as deep as it was sent
        (
            'def f():\n    """\n    a\n',
            '        """\n        a\n',
            '        """\n        b\n\n    def g():\n        """\n',
            'def f():\n    """\n    b\n\ndef g():\n    """\n',
        ),
        # the first line stays, as deep as the file has it
        (
            "    return f(\n        a,\n    )\n",
            "    a,\n)\n",
            "        a,\n    )\n\n\ndef g():\n    return f(\n        a,\n    )\n",
            "    return f(\n        a,\n    )\n\n\ndef g():\n    return f(\n        a,\n    )\n",
        ),
        # the first line of REPLACE is the file's to the letter
        ("f(\n    a\n    )\n\n\nb\n", "  )\n\n\nb\n", "    )\n", "f(\n    a\n    )\n"),
        # blanks after the last line end are not taken out of the indentation of a line that stays
        ("    a = 1\n    c\n", "    a = 1\n    ", "    b\n", "    b\nc\n"),
        ("    a = 1\n        c\n", "    a = 1\n    ", "    b\n", "    b\n    c\n"),
        ("    a = 1\n    c\n", "    a = 1\n    ", "    b\n    ", "    b\n    c\n"),
        ("    a = 1\n    c\n", "    a = 1\n    ", "", "c\n"),
        ("    a = 1\n    c\n", "a = 1\n    ", "", "    c\n"),
        ("    a = 1\n    c\n", "a = 1\n    ", "b; ", "    b; c\n"),
        ("    a\n        b\n    a\n\n", "    a\n  ", "    c\n", "    c\n      b\n    a\n\n"),
        # two levels less at once
        (
            "class A:\n    def f(self):\n        if a:\n            b()\n",
            "        b()\n",
            "        b()\n\ndef g(self):\n    c()\n",
            "class A:\n    def f(self):\n        if a:\n            b()\n\ndef g(self):\n    c()\n",
        ),
        # a sign that nobody sees, at the end of SEARCH
        # a paragraph that SEARCH sees with blank lines around it
        (
            "Intro.\n# Head\n",
            "Intro.\n\n# Head\n",
            "Intro.\n\nMore.\n\n# Head\n",
            "Intro.\n\nMore.\n\n# Head\n",
        ),
        # a column of the old line is none of the new one
        (
            "a(b)\nexception     = None\n",
            "a(b)\nexception = None\n",
            "a(b)\nsecond line\n",
            "a(b)\nsecond line\n",
        ),
        ("a\u00a0b\u00a0c\n", "a b c\n", "d e f\n", "d e f\n"),
        ("a        = 1\n", "a = 1\n", "bc = 1\n", "bc = 1\n"),
        # curly quotes beside plain ones are meant
        ('a = "b"\n', "a = “b”\n", 'a = "b"\nc = "“”"\n', 'a = "b"\nc = "“”"\n'),
        ('a = "b"\n', "a = “b”\n", "a = “b”\nc = “d”\n", 'a = "b"\nc = "d"\n'),
        # only the first line was stripped, as the one after a blank line shows
        (
            "class A:\n    def f(self):\n        if self.a:\n            raise b\n",
            "raise b\n",
            "raise b\n\n    def g(self):\n        c\n",
            "class A:\n    def f(self):\n        if self.a:\n            raise b\n\n"
            "    def g(self):\n        c\n",
        ),
        # REPLACE in the file's step, SEARCH in another
        (
            "var a;\nif (b) {\n\tc;\n",
            "  var a;\n  if (b) {\n  \tc;\n",
            "  var a;\n  new;\n  if (b) {\n  \tc;\n",
            "var a;\nnew;\nif (b) {\n\tc;\n",
        ),
        # several lines are whole ones
        (
            'def f():\n    """Text."""\n    try:\n        a\ndef g():\n    """\n    try:\n        b\n',
            '"""\ntry:',
            '"""\nc\ntry:',
            'def f():\n    """Text."""\n    try:\n        a\ndef g():\n    """\n    c\n    try:\n        b\n',
        ),
        # a whole line is meant rather than the part of one that starts inside of a name
        ("color : red\nbackground-color: red\n", "color:  red", "a: b", "a: b\nbackground-color: red\n"),
        # aligned with the file's own depth
        ("    f(a, b)\n", "f(a, b)\n", "f(a,\n    b)\n", "    f(a,\n    b)\n"),
        # an insertion before what is left out stays before all of it
        # look-alikes in the new text too; a word of a string is no slip
        ("f(x)\n", "f（x）\n", "f（x，z）\n", "f(x,z)\n"),
        ("x = a - b\n", "x = a – b\n", "x = a – c — d\n", "x = a - c - d\n"),
    ],
)
def test_the_line_that_is_meant_is_edited(text: str, search: str, replace: str, expected: str) -> None:
    assert edited(text, search, replace) == expected


@pytest.mark.parametrize(
    ("text", "search", "replace", "expected"),
    [
        (
            "（注）関数（引数）\n",
            "(注)関数(引数)\n",
            "(注)手続(引数)と(値)\n",
            "（注）手続（引数）と（値）\n",
        ),
        ("It’s a cat’s home.\n", "It's a cat's home.\n", "It's a dog's home.\n", "It’s a dog’s home.\n"),
        ('print("a")\n', "print(“a”)\n", "print(“a”, end=“„)\n", 'print("a", end="")\n'),
    ],
)
def test_new_signs_take_the_form_that_the_line_has(
    text: str, search: str, replace: str, expected: str
) -> None:
    assert edited(text, search, replace) == expected


@pytest.mark.parametrize(
    ("text", "search", "replace"),
    [
        # one quote says nothing about the other
        ("say “a now\n", 'say "a now\n', 'say "a" now\n'),
        # curly quotes of a kind that SEARCH has none of
        ('print("a")\n', "print(“a”)\n", "print(“a”, end=‘’)\n"),
        # an opening quote without its closing one
        ("say “a” now\n", 'say "a" now\n', 'say "a" now "\n'),
    ],
)
def test_new_signs_whose_form_cannot_be_told_are_refused(text: str, search: str, replace: str) -> None:
    assert refusal(text, search, replace) == "indentation_unclear"


@pytest.mark.parametrize("order", [1, -1])
def test_insertions_side_by_side_stand_in_the_order_of_the_text(order: int) -> None:
    batch = [Edit(search="a\n", replace="a\nx\n"), Edit(search="b\n", replace="y\nb\n")]
    assert apply("a\nb\n", batch[::order]).text == "a\nx\ny\nb\n"


@pytest.mark.parametrize(
    ("text", "search", "line", "found", "sent"),
    [
        ("a = 1\nb = 2\nc = 3\nd = 4\n", "a = 1\nb = 2\nbb = 3\nc = 3\nd = 4\n", 2, "", "bb = 3"),
        ("a = 1\nb = 2\nbb = 3\nc = 3\nd = 4\n", "a = 1\nb = 2\nc = 3\nd = 4\n", 3, "bb = 3", ""),
        ("first()\nuint8 a\n", "first()\nuint9 a\n", 2, "uint8 a", "uint9 a"),
    ],
)
def test_a_refusal_names_the_line_that_is_at_fault(
    text: str, search: str, line: int, found: str, sent: str
) -> None:
    with pytest.raises(EditError) as refused:
        apply(text, [Edit(search=search, replace="x = 1  \n")])
    failure = refused.value.failures[0]
    assert (failure.code, failure.line, failure.found, failure.sent) == ("near_miss", line, found, sent)
