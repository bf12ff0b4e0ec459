"""What says that something is left out is no text to write; what only looks like it is."""

from __future__ import annotations

import pytest

from kakite.edit import Edit, EditError, apply

BODY = "def f():\n    a()\n    b()\n    return 1\n"


def code_of(text: str, search: str, replace: str) -> str:
    try:
        apply(text, [Edit(search=search, replace=replace)])
    except EditError as error:
        return error.failures[0].code
    return ""


@pytest.mark.parametrize(
    "line",
    [
        "# ...",
        "// ...",
        "/* ... */",
        "...",
        "…",
        "<!-- ... -->",
        "# ... helpers ...",
        "// unchanged",
        "# remaining methods unchanged",
        "// Rest of your code",
        "/* rest of styles */",
        "# (same as before)",
        "// keep the rest",
        "# Remaining lines are skipped on purpose",
        "# leaves the input unchanged",
        "# the rest of us",
        "// existing users keep their password",
        "# 残りの日数を数える",
        "// 其他用户",
        "// ... existing code ...",
        "{/* existing markup */}",
        "# ... rest of the arguments parsing",
        "// other methods...",
        "// the code below stays the same",
        "# No changes here.",
        "-- omitted for brevity",
        "... rest of the code ...",
        "... (unchanged) ...",
        "(rest unchanged)",
        "[existing code]",
        "# 以下省略",
        "# ...（以下同じ）",
        "# 残りは変更なし",
        "// 省略",
        "// 其他代码保持不变",
        "（以下省略）",
        "# Everything else stays the same",
        "// TODO: rest of implementation",
        "# previous code remains here",
        "# 同上",
        "// 後は同じ",
        "[...]",
        "# [...]",
        "# etc.",
        "// and so on",
        "pass  # ... rest unchanged",
        "return  // unchanged",
        "# rest of code remains unchanged, see above",
        "# keep existing values",
        "<!-- Remaining sections -->",
        "{- ... -}",
        "(* rest unchanged *)",
        "<%# rest unchanged %>",
        "<%!-- existing content --%>",
        "@* existing content *@",
        "{{!-- existing content --}}",
        "{# existing code #}",
        "rem existing code",
        '"""..."""',
        "(42 lines hidden)",
        "# ✂ ✂ ✂",
        "- ...",
        "call(x)  # ... rest unchanged",
        "call({ /* ... existing code ... */ })",
        "call = { a, ... }",
        "existing code here",
        "rest of the function stays the same",
        "previous code unchanged",
        "omitted for brevity",
        "same as before",
        "snip",
        '" [existing code]',
        '" TODO: rest of implementation',
    ],
)
def test_a_line_that_stands_for_code_is_not_written_in_its_place(line: str) -> None:
    replace = f"def f(x):\n    {line}\n    return 1\n"
    assert code_of(BODY, BODY, replace) == "placeholder"
    assert code_of(BODY + line + "\n", BODY + line + "\n", replace + line + "\n") in {"", "placeholder"}


@pytest.mark.parametrize(
    "line",
    [
        "...existing,",
        "...previous,",
        "...rest",
        "[...previous, item]",
        "Existing code keeps working.",
        "existing code keeps working, as before it did",
        "keep the order",
        '" [a, b]',
        "Loading existing items...",
        "print('...')",
        "existing = code",
        "return [...existing];",
        "f(*rest)",
        "(rest, existing)",
    ],
)
def test_spread_syntax_and_prose_are_written(line: str) -> None:
    assert code_of(BODY, BODY, f"def f(x):\n    {line}\n    return 1\n") == ""


@pytest.mark.parametrize(
    "line",
    [
        "# keep existing values",
        "# existing entry",
        "<!-- Remaining sections -->",
        "# rest of the line",
        "# no change",
        "# Remaining arguments",
        "# etc.",
        "# TODO: handle the rest",
        "pass  # nothing to do",
    ],
)
def test_words_about_data_are_written_where_nothing_goes(line: str) -> None:
    assert code_of("x = 1\n", "x = 1\n", f"x = 2\n{line}\ny = 3\n") == ""


def test_dots_are_python_where_nothing_goes() -> None:
    assert (
        code_of("class A:\n    x: int\n", "    x: int\n", "    x: int\n\n    def f(self): \n        ...\n")
        == ""
    )
    assert code_of("def f():\n    pass\n", "def f():\n    pass\n", "def f(x):\n    ...\n") == ""
    assert code_of("def f():\n    return 1\n", "def f():\n    return 1\n", "def f():\n    ...\n") == ""
    assert code_of(BODY, BODY, "def f():\n    ...\n") == "placeholder"


def test_a_placeholder_that_search_has_too_is_text() -> None:
    text = "# rest of the code\na()\nb()\n"
    assert code_of(text, text, "# rest of the code\nc()\n") == ""


FOUR = "def f():\n    a = 1\n    b = 2\n    c = 3\n    d = 4\n    return a\n"
IN_C = "int f() {\n  if (x) {\n    p(1);\n  }\n  jv_free(x);\n  bc_free(bc);\n  return 0;\n}\n"


@pytest.mark.parametrize(
    "line",
    [
        "# (rest unchanged)",
        "# existing code",
        "# rest of the function stays the same",
        "# rest of the code",
        "# 残りのコードは同じ",
        "# resto do código",
    ],
)
@pytest.mark.parametrize("new", ["", "    new = 2\n    z = 3\n", "    log(x)\n    check(x)\n    go(x)\n"])
@pytest.mark.parametrize("end", ["", "    return a\n"])
def test_what_says_that_it_stands_for_code_does_so_beside_new_code(line: str, new: str, end: str) -> None:
    assert code_of(FOUR, FOUR, f"def f(x):\n{new}    {line}\n{end}") == "placeholder"


TESTED = 'test("a", () => {\n  x = go(1)\n  same(x, 1)\n})\ntest("b", () => {\n  x = go(2)\n'


@pytest.mark.parametrize(
    "words",
    [
        "rest of function",
        "existing assertions",
        "other tests remain unchanged",
        "elided",
        "elided for clarity",
        "not changed",
        "keep this",
        "everything else stays the same",
    ],
)
def test_what_says_nothing_else_stands_for_code_behind_new_code_that_looks_like_it(words: str) -> None:
    replace = 'test("a", () => {\n  x = go(1)\n  same(x, 1)\n})\ntest("c", () => {\n  x = go(3)\n'
    assert code_of(TESTED, TESTED, f"{replace}  // {words}\n") == "placeholder"
    assert code_of(TESTED, TESTED, f"{replace}  // {words} and time out\n") == ""


def test_a_brace_below_a_placeholder_is_not_what_it_stands_for() -> None:
    search = IN_C[IN_C.index("    p(1)") :]
    assert code_of(IN_C, search, "    p(2);\n  // existing code\n}\n") == "placeholder"


@pytest.mark.parametrize(
    "line",
    [
        "...existing code...",
        "…existing code…",
        "⋯",
        "...;",
        "…,",
        "etc.",
        "・・・",
        "。。。",
        "rest of the code",
        "existing code",
        "..",
        "{{ rest }}",
        "<snip>",
    ],
)
def test_dots_and_phrases_stand_for_code_without_a_comment_sign_too(line: str) -> None:
    assert code_of(FOUR, FOUR, f"def f(x):\n    {line}\n    return a\n") == "placeholder"
    assert code_of(FOUR, FOUR, f"def f(x):\n    {line}\n") == "placeholder"


@pytest.mark.parametrize(
    "line",
    [
        "    **kw,",
        "    *args,",
        "  *p = 1;",
        "  --x;",
        '#include "ab.h"',
        "#main { x: 1 }",
        "#[cfg(test)]",
        "  /*public*/ final T f(J j) {",
        "    pass  # nothing to do",
        ".. note:: para one",
        "# Heading",
        "## Getting Started",
        "## From Ecto.Changeset.validate_format/3",
        "#!/usr/bin/env lua",
        "--universal upload",
        "./lib",
        "'../_api.js';",
        "%{endpoint: atom}",
        "#post code {",
        "/*.rockspec",
        ';<div foo="bar" />',
        "**self.conn_kw)",
        '" />',
        "%{ endif ~}",
        ".. | .a?",
        "-----",
        "// }",
    ],
)
@pytest.mark.parametrize("search", ["total = one()\n", "total = one()\nother = two()\n"])
def test_what_begins_like_a_comment_and_is_none_is_written(line: str, search: str) -> None:
    assert code_of(search, search, line + "\n") == ""
    assert code_of(search, search, line) == ""


@pytest.mark.parametrize(
    ("search", "replace"),
    [
        ("'lib'", '"./lib"'),
        ("Phoenix.Socket.t()", "%{endpoint: atom}"),
        ("- a b.\n- c d.\n", "* a b.\n* c d.\n"),
        ("a()\nb()\nc()\nd()\n", "# does all of it\nabcd()\n"),
        ("it(1, () => {\n  a(1);\n  b();\n});\n", "// it(1, () => {\n//   a(1);\n//   b();\n// });\n"),
        ("a(1);\nb(2);\nc(3);\n", "abc({ ...all }); // the rest is done there\n"),
        ("a = f(x)\nb = g(a)\nc = h(b)\n", "c = hgf(x)  # all of it at once\n"),
        ("parts: [/* ... */]\n", "parts: [\n  /* ... */\n]\n"),
        ("'a:Read'\n'b:Set other files'\n'c:Run'\n", "'output:Show output values from your root module'\n"),
        (
            "  * Read [this](http://a.b/c): docs\n  * b\n",
            "  * Gson [API](http://a.com/d): docs for the current code\n",
        ),
        (
            "/**\n * No margin in Safari.\n */\n",
            "/**\n * 1. Change the styles in all browsers.\n * 2. No margin.\n */\n",
        ),
    ],
)
def test_lines_that_come_for_as_many_leave_nothing_out(search: str, replace: str) -> None:
    assert code_of(search, search, replace) == ""


DOCUMENTED = 'def f():\n    """Do it.\n\n    It takes long.\n    """\n    a()\n    b()\n    return 1\n'
WORDS = [
    "Return the rest of the code.",
    "Keep existing code.",
    "Load the file … and more.",
    "Do it.\n\n    >>> for x in y:\n    ...     print(x)\n",
    "以下省略。",
]


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize("search", [BODY, DOCUMENTED])
@pytest.mark.parametrize("mark", ['"""', "'''", 'r"""'])
def test_the_words_of_a_docstring_stand_for_no_code(words: str, search: str, mark: str) -> None:
    docstring = f"    {mark}{words}{'    ' * words.endswith(chr(10))}{mark[-3:]}\n"
    assert code_of(search, search, f"def f():\n{docstring}    c()\n    return 1\n") == ""
    assert code_of(search, search, f"def f():\n{docstring}    # ... existing code ...\n    return 1\n") != ""


@pytest.mark.parametrize(
    "words",
    [
        "Do it.\n\n    ...\n    ",
        "Do it.\n\n    Existing code\n    ",
        "Do it.\n\n    ⋯\n    ",
        "The rest of the code stays unchanged.\n\n    ... rest of the code ...\n    ",
        "Do it.\n\n    [snip]\n    ",
    ],
)
def test_a_line_of_a_docstring_stands_for_the_prose_that_goes_and_for_no_code(words: str) -> None:
    new = f'def f():\n    """{words}"""\n'
    assert code_of(BODY, BODY, f"{new}    c()\n    return 1\n") == ""
    assert code_of(DOCUMENTED, DOCUMENTED, f"{new}    a()\n    b()\n    return 1\n") == "placeholder"
    longer = (
        f'def f():\n    """One.\n\n    Two.\n    Three.\n{words.lstrip(chr(10))}"""\n    c()\n    return 1\n'
    )
    assert code_of(DOCUMENTED, DOCUMENTED, longer) == ""


@pytest.mark.parametrize("words", ["...", "…", "existing code", "... existing code ...", "\n    ...\n    "])
def test_a_docstring_that_says_nothing_stands_for_code(words: str) -> None:
    new = f'def f():\n    """{words}"""\n'
    assert code_of(BODY, BODY, f"{new}    a()\n    b()\n    return 1\n") == ""
    assert code_of(DOCUMENTED, DOCUMENTED, f"{new}    return 1\n") == "placeholder"
    assert code_of(BODY, BODY, f"{new}    return 1\n") == "placeholder"


@pytest.mark.parametrize(
    "comment",
    [
        "/*\n * Frees what the caller has left.\n * The rest of the code stays unchanged\n */",
        "/**\n * Existing code\n *\n * Callers keep what they passed to us.\n */",
        "/* Frees what the caller has left.\n   existing code */",
        "<!-- Shown to the visitors of this page.\n     existing content -->",
        "{- Frees what callers passed to us.\n   rest of the code -}",
    ],
)
def test_a_block_comment_that_explains_is_written(comment: str) -> None:
    assert code_of(IN_C, IN_C, f"int f() {{\n  {comment}\n  run(x);\n  return 0;\n}}\n") == ""


@pytest.mark.parametrize(
    "comment",
    [
        "/*\n * ... existing code ...\n */",
        "/*\n * existing code\n */",
        "/* rest of the code\n   unchanged */",
        "/*\n * The handlers of before stand here:\n * ... existing code ...\n */",
    ],
)
def test_a_block_comment_that_only_says_that_code_is_left_out_is_none(comment: str) -> None:
    assert code_of(IN_C, IN_C, f"int f() {{\n  {comment}\n  return 0;\n}}\n") == "placeholder"


@pytest.mark.parametrize("line", ["# existing code", "# rest of the code", "# not modified"])
def test_a_comment_is_no_word_of_a_docstring_in_which_the_fragment_begins(line: str) -> None:
    text = f'def f():\n    """Do it.\n\n    Long.\n    """\n{BODY[9:]}\n\ndef g():\n    """Do."""\n'
    search = text[text.index("    Long") :]
    new = f'    Short.\n    """\n    {line}\n\n\ndef g():\n    """Do it."""\n'
    assert code_of(text, search, new) == "placeholder"


def test_a_comment_that_says_it_in_other_words_is_no_placeholder() -> None:
    text = "/*\n * ! This use the same a methods.\n */\n"
    assert (
        code_of(text, "* ! This use the same a methods.\n */", "* ! That use the same a methods.\n */") == ""
    )


UNKNOWN = ["... sisa kode ...", "... zbytek kódu ...", "باقي الكود كما هو", "(以下略)", "no changes below"]
"""What says in words that are not known, or not alone, that something is left out."""


@pytest.mark.parametrize("words", UNKNOWN)
@pytest.mark.parametrize(
    ("search", "replace"),
    [
        (
            "    a = load\n  end\n\n  def g\n    b = check\n    save(b)\n  end\n",
            "    a = load2\n  # {}\n  end\n",
        ),
        ("<td>\nfirst\n</td>\n<td>\nsecond\n</td>\n", "<td>\n<!-- {} -->\n</td>\n"),
        ('endif\nif exists("a")\n  let b = c\nendif\nsyn match d e\n', 'endif2\n" {}\n'),
        ("  a,\n  b,\n  c,\n  d\n", "  -- {}\n  d2\n"),
        ("run()\n# It is slow.\nload()\nsave()\nstop()\n", "run(1)\n# It is slow.\n# {}\n"),
    ],
    ids=["between equal ends", "between equal tags", "vim", "above a changed line", "below a kept comment"],
)
def test_what_is_lost_decides_where_the_words_say_little(words: str, search: str, replace: str) -> None:
    assert code_of(search, search, replace.format(words)) == "placeholder"


@pytest.mark.parametrize(
    ("search", "replace"),
    [
        (
            "def a\n  x\nend\n\ndef b\n  y\nend\n\ndef c\n  z\nend\n",
            "def a\n  x\nend\n\n# 既に確認した\ndef b\n  y\nend\n",
        ),
        ("a = load()\nsave(a)\n", "a = load()\n# ... twice if need be ...\nsave(a)\n"),
        ('x = "one\n" two\ny = 1\nz = 2\nlast()\n', 'x = "one\n" other two"\n'),
        ("a = f(1)\nb = g(2)\n", "# a = f(1)\n# b = g(2)\n# 済み\n"),
    ],
    ids=["a method goes below", "nothing goes", "a string goes on", "commented out"],
)
def test_a_comment_beside_lines_that_stay_or_go_elsewhere_is_written(search: str, replace: str) -> None:
    assert code_of(search, search, replace) == ""


LOST = "def b\n  y\n  z\nend\n"


@pytest.mark.parametrize(
    "mark", ["...", "…", "// rest of the code", "# existing code", "# ... existing code"]
)
def test_a_bare_placeholder_stands_for_a_line_that_goes_beside_any_new_code(mark: str) -> None:
    assert code_of(LOST, LOST[:-4], f"def n\n  p\n  q\nend\n{mark}\n  z\n") == "placeholder"
    assert code_of(LOST, LOST[:-4], f"def n\n  p\n  q\nend\n{mark}\ndef b\n  y\n  z\n") in {"", "placeholder"}


def test_dots_stand_for_a_comment_that_goes() -> None:
    text = 'a {\n}\n\n# NAT\noutput "n" {\n'
    assert code_of(text, text[4:], '}\n\noutput "m" {\n}\n...\noutput "n" {\n') == "placeholder"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    first()\n", "    def f(self) -> int:\n        ...\n    x = 2\n"),
        ("    first()\n", "    x: tuple[\n        int,\n        ...\n    ]\n"),
        ("int f(void);\n", "int printf(\n    const char *s,\n    ...\n);\n"),
        ("Words.\n", "```yaml\na: 1\n...\n```\nMore.\n"),
        ("# All of it\nrun()\n", "# All other cases\ngo()\nhalt()\n"),
    ],
)
def test_dots_in_code_and_a_comment_above_new_code_are_written(old: str, new: str) -> None:
    assert code_of(old, old, new) == ""


@pytest.mark.parametrize("count", [20, 1_600, 6_000])
@pytest.mark.parametrize("mark", ["# existing code", "...", "// rest of the code"])
def test_a_placeholder_is_seen_however_long_search_is(count: int, mark: str) -> None:
    search = "".join(f"f{n}()\n" for n in range(count))
    assert code_of(search + "end()\n", search, f"{mark}\n") == "placeholder"
    kept = search.replace("f9()\nf10()\n", f"{mark}\n")
    assert code_of(search + "end()\n", search, kept) == "placeholder"
    assert code_of(search + "end()\n", search, search.replace("f9()\n", "g9(1)\n")) == ""
