"""Edits that went wrong on real repositories, each as small as it gets: what lands, or that it is refused."""

from __future__ import annotations

from typing import Any

import pytest

from kakite.edit import Edit, EditError, apply

IF = "def f():\n    if a:\n        go()\n    return 1\n"
CLASS = "class A:\n    x = 1\n\nz = 3\n"

RELATIVE = {
    "an item of a workflow": (
        "on:\n  push:\n    branches:\n      - master\n      - '4.x'\n",
        "- master",
        "- master\n- develop",
        "on:\n  push:\n    branches:\n      - master\n      - develop\n      - '4.x'\n",
    ),
    "a decorated method": (
        "class A:\n    x = 1\n\n    def _get_g(self):\n        return 1\n",
        "def _get_g(self):",
        "@property\ndef g(self):",
        "class A:\n    x = 1\n\n    @property\n    def g(self):\n        return 1\n",
    ),
    "a key between keys": (
        '{\n  "scripts": {\n    "dev": "a",\n    "build": "b",\n    "start": "c"\n  }\n}\n',
        '"build": "b",',
        '"build": "b",\n"export": "e",',
        '{\n  "scripts": {\n    "dev": "a",\n    "build": "b",\n    "export": "e",\n    "start": "c"\n'
        "  }\n}\n",
    ),
    "a statement of C": (
        "int f(void)\n{\n    a();\n    b();\n}\n",
        "a();",
        "a();\nc();",
        "int f(void)\n{\n    a();\n    c();\n    b();\n}\n",
    ),
    "a comment above a statement": (
        "int f(void)\n{\n    a();\n    b();\n}\n",
        "b();",
        "// then\nb();",
        "int f(void)\n{\n    a();\n    // then\n    b();\n}\n",
    ),
    "a chain": (
        "let a = new()\n    .one(1)\n    .three(3)\n    .build();\n",
        ".one(1)",
        ".one(1)\n.two(2)",
        "let a = new()\n    .one(1)\n    .two(2)\n    .three(3)\n    .build();\n",
    ),
    "a key of an item": (
        "m:\n  - a: 1\n  - b: 2\n",
        "- a: 1",
        "- a: 1\n  env: x",
        "m:\n  - a: 1\n    env: x\n  - b: 2\n",
    ),
    "a comment below a head with arguments": (
        "def f(a)\n  i = a\n  a[i]\nend\n",
        "i = a",
        "# All.\ni = a + 1",
        "def f(a)\n  # All.\n  i = a + 1\n  a[i]\nend\n",
    ),
    "keys of an item of a workflow": (
        "on:\n  push:\njobs:\n  a:\n    steps:\n      - name: one\n\n      - name: two\n",
        "- name: one",
        "- name: one\n  uses: x\n  with:\n    y: z",
        "on:\n  push:\njobs:\n  a:\n    steps:\n      - name: one\n        uses: x\n        with:\n"
        "          y: z\n\n      - name: two\n",
    ),
    "keys of the last item": (
        "version: 2\nupdates:\n  - kind: one\n    at: a\n\n  - kind: two\n",
        "- kind: two",
        "- kind: two\n  at: b",
        "version: 2\nupdates:\n  - kind: one\n    at: a\n\n  - kind: two\n    at: b\n",
    ),
    "items of a key": (
        "request:\n  method: get\n  hooks:\n\narguments: x\n",
        "hooks:",
        "hooks:\n- one\n- two",
        "request:\n  method: get\n  hooks:\n  - one\n  - two\n\narguments: x\n",
    ),
    "statements below a function of a function": (
        "def outer():\n    def inner():\n        wrapper = one()\n\n    return inner\n",
        "wrapper = one()",
        "wrapper = one()\nwrapper.two = 2\nreturn wrapper",
        "def outer():\n    def inner():\n        wrapper = one()\n        wrapper.two = 2\n"
        "        return wrapper\n\n    return inner\n",
    ),
    "a method above the rest of another": (
        "class A:\n    def one(self):\n        self.a = 1\n    def two(\n        self,\n    ):\n"
        "        pass\n",
        "def two(",
        "    self.b = 2\n\n@classmethod\ndef two(",
        "class A:\n    def one(self):\n        self.a = 1\n        self.b = 2\n\n    @classmethod\n"
        "    def two(\n        self,\n    ):\n        pass\n",
    ),
    "a blank line first": (
        "class A:\n    x = 1\n",
        "x = 1",
        "\ny = 2\nx = 1",
        "class A:\n\n    y = 2\n    x = 1\n",
    ),
}
"""One line without its indentation, and new lines relative to it: they cannot stand at the margin."""

LITERAL = {
    "a comment that goes on": (
        "/*\n * One\n * two\n#endif\n",
        "* two",
        "* two\n * three\n */\n\n#ifndef X\n#define X",
        "/*\n * One\n * two\n * three\n */\n\n#ifndef X\n#define X\n#endif\n",
    ),
    "what a line opens, at its own column": (
        "    #else /* others: */\n        #define B\n",
        "#else /* others: */",
        "#else /* others: */\n        #define A",
        "    #else /* others: */\n        #define A\n        #define B\n",
    ),
    "text of a key": (
        "- help:\n    brief: x\n    examples: |\n\n          $ run\n",
        "examples: |",
        "examples: |\n      To run it.",
        "- help:\n    brief: x\n    examples: |\n      To run it.\n\n          $ run\n",
    ),
    "a key below items that stand beside their key": (
        "- tracks:\n  - ALPHA\n  help: x\n",
        "- ALPHA",
        "- ALPHA\n  hidden: true",
        "- tracks:\n  - ALPHA\n  hidden: true\n  help: x\n",
    ),
    "an item above a key that its own key stands beside": (
        "- tracks:\n  hidden: true\n  help: x\n",
        "hidden: true",
        "- ALPHA\n  hidden: true",
        "- tracks:\n  - ALPHA\n  hidden: true\n  help: x\n",
    ),
    "a directive above its text": (
        ".. image:: a\n   :alt: A\n   :target: b\n   :alt: B\n",
        ":alt: A",
        ":alt: A\n\n.. image:: b",
        ".. image:: a\n   :alt: A\n\n.. image:: b\n   :target: b\n   :alt: B\n",
    ),
    "an outer line": (
        IF,
        "go()",
        "go()\n    log()",
        "def f():\n    if a:\n        go()\n    log()\n    return 1\n",
    ),
    "an outer item": (
        "* one\n  more\n* three\n",
        "more",
        "more\n* two\n  less",
        "* one\n  more\n* two\n  less\n* three\n",
    ),
    "an outer key": (
        "skip:\n  files:\n    - a\n\nbuild: x\n",
        "- a",
        "- a\n\ninstall:\n  - b",
        "skip:\n  files:\n    - a\n\ninstall:\n  - b\n\nbuild: x\n",
    ),
    "a heading": (
        "one:\n\n    code\n\n## Two\n",
        "code",
        "code\n\n## Related\n\n* item",
        "one:\n\n    code\n\n## Related\n\n* item\n\n## Two\n",
    ),
    "a directive": (
        "#define A(x) \\\n    (x)\n#define C(x) \\\n    (x + 2)\n",
        "(x)\n",
        "(x)\n#define B(x) \\\n    (x + 1)\n",
        "#define A(x) \\\n    (x)\n#define B(x) \\\n    (x + 1)\n#define C(x) \\\n    (x + 2)\n",
    ),
    "a directive at the margin": (
        "void f() {\n#pragma a\n    go();\n    if (b)\n        c();\n}\n",
        "go();\n",
        "go();\n#pragma z\n",
        "void f() {\n#pragma a\n    go();\n#pragma z\n    if (b)\n        c();\n}\n",
    ),
    "a list that is closed below an item left open": (
        "<ul>\n  <li><a>one</a>\n  <li><a>two</a>\n</ul>\n<p>\n",
        "<li><a>two</a>\n",
        "<li><a>two</a>\n</ul>\n<h3>More</h3>\n<ul>\n  <li><a>three</a>\n",
        "<ul>\n  <li><a>one</a>\n  <li><a>two</a>\n</ul>\n<h3>More</h3>\n<ul>\n  <li><a>three</a>\n</ul>\n"
        "<p>\n",
    ),
    "several lines deeper": (
        "parameters:\n  level: max\n  infer: true\nend:\n",
        "level: max\n  infer: true",
        "  level: max\n    paths:\n        - src",
        "parameters:\n    level: max\n    paths:\n        - src\nend:\n",
    ),
    "the same lines deeper": (
        "all = [\n  a,\n  b,\n]\n",
        "a,\n  b,",
        "  a,\n    b,",
        "all = [\n    a,\n    b,\n]\n",
    ),
    "lines twice as deep": (
        "def f():\n  with a as b:\n    return b\n",
        "with a as b:\n    return b",
        "  with a as b:\n        return b",
        "def f():\n    with a as b:\n        return b\n",
    ),
    "one line deeper": ("x:\n - a\n - b\n", "- a", " - a", "x:\n  - a\n - b\n"),
    "an item beside a key whose indentation is sent in part": (
        "a:\n    - b: 1\n      c: 'x'\n    - e\n",
        "  c: 'x'\n",
        "  c: 'x'\n    - d\n",
        "a:\n    - b: 1\n      c: 'x'\n    - d\n    - e\n",
    ),
    "a fence around a line": (
        "  Text.\n\n      $ run\n\n  More.\n",
        "    $ run\n\n",
        "```console\n  $ run\n  ```\n\n",
        "  Text.\n\n  ```console\n  $ run\n  ```\n\n  More.\n",
    ),
    "a search that ends within an indentation": (
        "if a:\n    go()\n    x()\n",
        "  go()\n  ",
        "  go()\n    stop()\n  ",
        "if a:\n    go()\n    stop()\n    x()\n",
    ),
    "an entry like the one that it is put below": (
        "- n: A\n  h: 3\n- n: B\n  h: 5\n",
        "h: 3\n- n: B\n",
        "h: 3\n- n: C\n  h: 3\n- n: B\n",
        "- n: A\n  h: 3\n- n: C\n  h: 3\n- n: B\n  h: 5\n",
    ),
    "a part of the indentation that stays": (
        "m:\n  - s: t\n    p: '3'\n    d: x\n  - s: c\n",
        "  p: '3'\n    d: x\n  - s: c",
        "  p: '3'\n  - s: c",
        "m:\n  - s: t\n    p: '3'\n  - s: c\n",
    ),
    "a part of the indentation and no more": (
        "if a:\n        b\n\n        c\n",
        "      b\n",
        "      \n        d\n",
        "if a:\n        \n        d\n\n        c\n",
    ),
    "an outer branch whose body reads like the line": (
        "if a:\n    if b:\n        go(1)\n",
        "go(1)",
        "go(2)\nelse:\n    go(1)",
        "if a:\n    if b:\n        go(2)\nelse:\n    go(1)\n",
    ),
    "a function below whose body reads like the line": (
        "def f():\n    if b:\n        go(1)\n\n\ndef h():\n    pass\n",
        "go(1)",
        "go(2)\n\n\ndef g():\n    go(1)",
        "def f():\n    if b:\n        go(2)\n\n\ndef g():\n    go(1)\n\n\ndef h():\n    pass\n",
    ),
    "a function below the line that closes a bracket": (
        "def f():\n    return j(\n        p(a))\n",
        "p(a))",
        "p(a))\n\n\ndef g():\n    pass",
        "def f():\n    return j(\n        p(a))\n\n\ndef g():\n    pass\n",
    ),
    "a text of Ruby over two lines": (
        "it do\n  e(%Q'A\\nB')\nend\n",
        "e(%Q'A\\nB')",
        "e(%Q(A\nB))",
        "it do\n  e(%Q(A\nB))\nend\n",
    ),
    "a line at the margin in a text that begins deeper": (
        "  File: sample.rs\n  struct R {\n",
        "File: sample.rs\n",
        "File: sample.rs\n+ /// A\n",
        "  File: sample.rs\n+ /// A\n  struct R {\n",
    ),
    "a paragraph below a block of code, and lines with tabs and with blanks": (
        "Text::\n\n    $ repo -\n    --deep\n\nMore\n----\n",
        "--deep\n",
        "--deep\n\t\nOther text::\n\n    @cli\n\t@arg\n\n",
        "Text::\n\n    $ repo -\n    --deep\n\t\nOther text::\n\n    @cli\n\t@arg\n\n\nMore\n----\n",
    ),
    "the mark of a conflict": (
        "f {\n\tgo()\n\tstop()\n}\n",
        "go()",
        "go()\n=======\n>>>>>>> Stashed changes",
        "f {\n\tgo()\n=======\n>>>>>>> Stashed changes\n\tstop()\n}\n",
    ),
    "a bracket in quotes": (
        "f {\n    if b {\n        eq(c, '[');\n        go();\n    }\n}\n",
        "   eq(c, '[');\n",
        "   eq(c, '[');\n        stop();\n",
        "f {\n    if b {\n        eq(c, '[');\n        stop();\n        go();\n    }\n}\n",
    ),
    "a rest of the line at the column of the line": (
        "x\n        .k().map()\n",
        "    .k()",
        "    .k()\n        ",
        "x\n        .k()\n        .map()\n",
    ),
    "a first line that moves, and others that stay": (
        "            <h2>Source code</h2>\n}</code></pre>\n",
        "      <h2>Source code</h2>\n}</code></pre>",
        "          <h2>MIT Open Sourced</h2>\n}</code></pre>\n                    <pre>x",
        "                <h2>MIT Open Sourced</h2>\n}</code></pre>\n                    <pre>x\n",
    ),
    "the line that was there below a new one, a part of the indentation sent": (
        "        bytes = out.getvalue()\n",
        " bytes = out.getvalue()",
        " click.echo('[31m')\n        bytes = out.getvalue()",
        "        click.echo('[31m')\n        bytes = out.getvalue()\n",
    ),
    "an outer key, a part of the indentation sent": (
        "l:\n  gosec:\n    includes:\n      - G112\n      - G203\n\nissues:\n  a: b\n",
        "    - G203",
        "    - G203\n  testifylint:\n    enable-all: true",
        "l:\n  gosec:\n    includes:\n      - G112\n      - G203\n  testifylint:\n    enable-all: true\n\n"
        "issues:\n  a: b\n",
    ),
    "what ends the block, a part of the indentation sent": (
        "      def f\n        @a = true\n        yield\n        @a = false\n      end\n",
        "      yield\n",
        "      yield\n      ensure\n",
        "      def f\n        @a = true\n        yield\n      ensure\n        @a = false\n      end\n",
    ),
    "a blank line in front of a block that was further out": (
        "  a = 1\n  begin\n    k = find(m)\n  rescue E\n    stop\n  end\n",
        "begin\n    k ",
        "\n  b = 2\n\n  unless b\n    load b\n    k ",
        "  a = 1\n  \n  b = 2\n\n  unless b\n    load b\n    k = find(m)\n  rescue E\n    stop\n  end\n",
    ),
    "a statement below one that goes on behind a backslash": (
        "def f():\n    assert a == b\n    assert g('x') \\\n        'y' in c\n",
        "    'y' in c\n",
        "    'y' in c\n\n    d = 1\n    assert d\n",
        "def f():\n    assert a == b\n    assert g('x') \\\n        'y' in c\n\n    d = 1\n    assert d\n",
    ),
    "a key with a type in brackets above the end of its block": (
        "f(\n  o?: {\n    a?: number[]\n  }\n): Date {\n  go(2)\n",
        "}\n): Date {\n  go(2)",
        "  b?: Record<string, boolean>\n  }\n): Date {\n  go(3)",
        "f(\n  o?: {\n    a?: number[]\n    b?: Record<string, boolean>\n  }\n): Date {\n  go(3)\n",
    ),
    "a type that goes on below": (
        "t = {\n  a: X,\n  c: C<\n    { r: 1 },\n  >\n}\n",
        "c: C",
        "b: B<D, string>,\n  c: C",
        "t = {\n  a: X,\n  b: B<D, string>,\n  c: C<\n    { r: 1 },\n  >\n}\n",
    ),
    "the rest of a chain below one that is cut": (
        "  f({\n    q: 1,\n    r: p || (a ? b\n    : c ? d\n\n  z\n",
        "   : c ? d",
        "   : c ? d\n    : e ? g\n    : null),\n  })\n",
        "  f({\n    q: 1,\n    r: p || (a ? b\n    : c ? d\n    : e ? g\n    : null),\n  })\n\n\n  z\n",
    ),
    "a new block of Ruby above one that goes on": (
        "  describe 'a' do\n    it 'b' do\n      go\n    it 'd' do\n      stop\n    end\n  end\nend\n",
        "    go",
        "    go\n    end\n  end\n\n  describe 'c' do",
        "  describe 'a' do\n    it 'b' do\n      go\n    end\n  end\n\n  describe 'c' do\n    it 'd' do\n"
        "      stop\n    end\n  end\nend\n",
    ),
    "quotes behind a letter": (
        "def f():\n    if a:\n        o = c()\n        go()\n        stop()\n",
        "go()",
        'b = o.strip(b"/") + b"/"\n        l = c()\n    if b:\n        go()',
        'def f():\n    if a:\n        o = c()\n        b = o.strip(b"/") + b"/"\n        l = c()\n'
        "    if b:\n        go()\n        stop()\n",
    ),
    "a rule of CSS above a line that is far to the right": (
        "div .label  {\n              f: s; }\n              g: h; }\n",
        "f: s; }",
        "f: s; }\n\na { b: c; }\n.r  { d: e;",
        "div .label  {\n              f: s; }\n\na { b: c; }\n.r  { d: e;\n              g: h; }\n",
    ),
    "a call of a chain at the column of what it encloses": (
        "class A {\n    run() {\n        return this.parts\n            .each(p => {\n                "
        "stop();\n            }\n        }\n",
        ".each(p => {",
        ".map(p => {\n            // Only what is new.\n            if (p === 1) {",
        "class A {\n    run() {\n        return this.parts\n            .map(p => {\n"
        "            // Only what is new.\n            if (p === 1) {\n                stop();\n"
        "            }\n        }\n",
    ),
    "new lines of a template are one level deeper": (
        "{% if a %}\n  {% for b in c %}\n          d |\n      %}\n    {% endif %}\n  {% endfor %}\n"
        "{% endif %}\n",
        "{% for b in c %}",
        "{% for b in e %}\n    {% if f %}\n      {% set g ~\n        h ~",
        "{% if a %}\n  {% for b in e %}\n    {% if f %}\n      {% set g ~\n        h ~\n          d |\n"
        "      %}\n    {% endif %}\n  {% endfor %}\n{% endif %}\n",
    ),
    "a struct ends above a brace of another": (
        "type a struct {\n\tone string\n\t}\n\tfor b {\n\t}\n",
        "}\n\tfor b {",
        "two string\n}\n\nfunc c() {\n\tif d {\n\t\treturn\n\t}\n\tfor b {",
        "type a struct {\n\tone string\n\ttwo string\n}\n\nfunc c() {\n\tif d {\n\t\treturn\n\t}\n"
        "\tfor b {\n\t}\n",
    ),
    "a closing tag below another": (
        "<A>\n  <B>\nabc==</C>\n    <K>\n    </K>\n</A>\n",
        "</K>\n",
        "</K>\n  </B>\n",
        "<A>\n  <B>\nabc==</C>\n    <K>\n    </K>\n  </B>\n</A>\n",
    ),
    "the end of a here-document": (
        "a=$(cat <<-EOF\nusage: [--all] <list>\n\n    -h, --help  show this\n)\n",
        "-h, --help  show this\n",
        "-h, --help  show this\nEOF\n",
        "a=$(cat <<-EOF\nusage: [--all] <list>\n\n    -h, --help  show this\nEOF\n)\n",
    ),
    "the other branch of a condition": (
        "const a = b\n    ? 'one' +\n      'two'\n      'four'\n",
        "'two'\n",
        "'two'\n    : 'three' +\n",
        "const a = b\n    ? 'one' +\n      'two'\n    : 'three' +\n      'four'\n",
    ),
    "a condition below a command that goes on": (
        "(\n\tcd a &&\n\t\tmake b &&\n\t\tmake c\n\tfi\n)\n",
        "cd a &&\n",
        "cd a &&\n\tif d; then\n",
        "(\n\tcd a &&\n\tif d; then\n\t\tmake b &&\n\t\tmake c\n\tfi\n)\n",
    ),
    "a head whose block stands below": (
        "* a\n\n  ```cpp\n  void f(int& b) {\n    c();\n  }\n",
        "void f(int& b) {",
        "#include <d>\n\n  namespace e {\n  namespace g {\n\n  void f(int& b) {",
        "* a\n\n  ```cpp\n  #include <d>\n\n  namespace e {\n  namespace g {\n\n  void f(int& b) {\n"
        "    c();\n  }\n",
    ),
    "the end of a block below an expression of a template": (
        '<div>\n  <% if a %>\n    <%= link "b" %>\n  <% else %>\n    <%= link "c" %>\n\n'
        '  <%= link "d" %>\n</div>\n',
        '<%= link "c" %>',
        '<%= link "c" %>\n  <% end %>',
        '<div>\n  <% if a %>\n    <%= link "b" %>\n  <% else %>\n    <%= link "c" %>\n  <% end %>\n\n'
        '  <%= link "d" %>\n</div>\n',
    ),
    "the end of a tag below an expression of a template": (
        '<div>\n  <div class="a">\n    <%= f.label :h, "H:" %>\n    <%= f.number :h, step: 0.01 %>\n'
        '\n  <div class="b">\n    <p>x</p>\n  </div>\n</div>\n',
        "<%= f.number :h, step: 0.01 %>",
        "<%= f.number :h, step: 0.01 %>\n  </div>",
        '<div>\n  <div class="a">\n    <%= f.label :h, "H:" %>\n    <%= f.number :h, step: 0.01 %>\n'
        '  </div>\n\n  <div class="b">\n    <p>x</p>\n  </div>\n</div>\n',
    ),
    "calls that stand in the column of what they are called on, as above": (
        "function f() {\n    a\n    .b();\n    c\n    d();\n}\n",
        "c\n",
        "c\n    .e();\n",
        "function f() {\n    a\n    .b();\n    c\n    .e();\n    d();\n}\n",
    ),
    "a rule of CSS below a property": (
        "@media (a: 1) {\n\t--b: c;\n\t--d: e;\n}\n",
        "--d: e;",
        "--d: e;\n\t.f {\n\t\tg: h;\n\t}",
        "@media (a: 1) {\n\t--b: c;\n\t--d: e;\n\t.f {\n\t\tg: h;\n\t}\n}\n",
    ),
    "lines of a patch": (
        "@@ -1,3 +1,3 @@\n a\n-b\n+c\n d\n",
        "a",
        "a\n-e\n+f",
        "@@ -1,3 +1,3 @@\n a\n-e\n+f\n-b\n+c\n d\n",
    ),
    "line ends for a file without any": ("a = 1", "a = 1", "a = 1\r\nb = 2", "a = 1\r\nb = 2"),
    "several kinds of line ends": (
        "a\r\nb\nc\r\n",
        "b",
        "b\r\nx\ny",
        "a\r\nb\r\nx\ny\nc\r\n",
    ),
    "blanks alone": ("a\n\tb\nc\n", "\t", "    ", "a\n    b\nc\n"),
    "no blanks": ("a\n\tb\nc\n", "\t", "", "a\nb\nc\n"),
    "a search that begins with a line end": (
        "if a:\n    go()\n    \nb()\nc()\n",
        "\nb()",
        "\nx()\nb()",
        "if a:\n    go()\n    \nx()\nb()\nc()\n",
    ),
}
"""What stands in the file to the letter, and new lines at the columns of the file."""


@pytest.mark.parametrize(("text", "search", "replace", "wanted"), [*RELATIVE.values()], ids=[*RELATIVE])
def test_new_lines_that_cannot_stand_at_the_margin_stand_below_the_first(
    text: str, search: str, replace: str, wanted: str
) -> None:
    assert apply(text, [Edit(search=search, replace=replace)]).text == wanted
    lines = Edit(search=f"{search}\n", replace=f"{replace}\n", whole_lines=True)
    assert apply(text, [lines]).text == wanted


@pytest.mark.parametrize(("text", "search", "replace", "wanted"), [*LITERAL.values()], ids=[*LITERAL])
def test_new_lines_that_can_stand_where_they_are_stay_there(
    text: str, search: str, replace: str, wanted: str
) -> None:
    assert text.replace(search, replace, 1) == wanted
    assert apply(text, [Edit(search=search, replace=replace)]).text == wanted


BLOCKS = {
    "a value below its name": (
        "class A {\n  void f() {\n    int a = g(1, 2);\n    h(a);\n  }\n}\n",
        "int a = g(1, 2);",
        "int a =\n    g(1, 2);",
        "class A {\n  void f() {\n    int a =\n        g(1, 2);\n    h(a);\n  }\n}\n",
    ),
    "a call below what it is called on": (
        "fn f() {\n    let a = b();\n    c();\n}\n",
        "let a = b();",
        "let a = d\n    .b();",
        "fn f() {\n    let a = d\n        .b();\n    c();\n}\n",
    ),
    "an attribute of Rust below a comment": (
        "impl A {\n    /// One.\n    fn b() {}\n}\n",
        "/// One.",
        "/// One.\n#[inline]",
        "impl A {\n    /// One.\n    #[inline]\n    fn b() {}\n}\n",
    ),
    "a condition of Ruby around the last line": (
        "def f\n  puts a\n  token(b)\nend\n",
        "token(b)",
        "unless c?\n  token(b)\nend",
        "def f\n  puts a\n  unless c?\n    token(b)\n  end\nend\n",
    ),
    "a condition of a shell": (
        "f() {\n    echo a\n    run b || exit 1\n}\n",
        "run b || exit 1",
        'if [ -n "$c" ]; then\n    run b || exit 1\nfi',
        'f() {\n    echo a\n    if [ -n "$c" ]; then\n        run b || exit 1\n    fi\n}\n',
    ),
    "a condition of vim": (
        "function! F()\n\tcall g(a)\n\tlet b = c\nendfunction\n",
        "let b = c",
        "if d\n\tlet b = c\nendif",
        "function! F()\n\tcall g(a)\n\tif d\n\t\tlet b = c\n\tendif\nendfunction\n",
    ),
    "a tag around a line": (
        "<main>\n  <p>a</p>\n  <p>b</p>\n</main>\n",
        "<p>b</p>",
        '<div class="c">\n  <p>b</p>\n</div>',
        '<main>\n  <p>a</p>\n  <div class="c">\n    <p>b</p>\n  </div>\n</main>\n',
    ),
    "a tag of a template": (
        "{% block a %}\n    <p>a</p>\n    <p>{{ b }}</p>\n{% endblock %}\n",
        "<p>{{ b }}</p>",
        "{% if c %}\n    <p>{{ b }}</p>\n{% endif %}",
        "{% block a %}\n    <p>a</p>\n    {% if c %}\n        <p>{{ b }}</p>\n    {% endif %}\n"
        "{% endblock %}\n",
    ),
    "an environment": (
        "\\begin{document}\n    \\item a\n    Some b text.\n\\end{document}\n",
        "Some b text.",
        "\\begin{itemize}\n    Some b text.\n\\end{itemize}",
        "\\begin{document}\n    \\item a\n    \\begin{itemize}\n        Some b text.\n"
        "    \\end{itemize}\n\\end{document}\n",
    ),
    "a closure within": (
        "func f() {\n    a(b)\n    user(c)\n}\n",
        "user(c)",
        "if let x = d {\n    e.map { x in\n        let y = 1\n    }\n    user(c)\n}",
        "func f() {\n    a(b)\n    if let x = d {\n        e.map { x in\n            let y = 1\n"
        "        }\n        user(c)\n    }\n}\n",
    ),
    "a tag in a tag": (
        '<body>\n    <p>a</p>\n    <div class="b">\n        <p>c</p>\n    </div>\n</body>\n',
        '<div class="b">',
        '<div class="b">\n    {% set d = 1 %}',
        '<body>\n    <p>a</p>\n    <div class="b">\n        {% set d = 1 %}\n        <p>c</p>\n'
        "    </div>\n</body>\n",
    ),
    "a comment in a tag": (
        '<project>\n    <group name="a">\n        <item>b</item>\n    </group>\n</project>\n',
        '<group name="a">',
        '<group name="a">\n    <!-- c -->',
        '<project>\n    <group name="a">\n        <!-- c -->\n        <item>b</item>\n    </group>\n'
        "</project>\n",
    ),
    "the first item": (
        '{\n  "a": 1,\n  "b": [\n    {"y": 2}\n  ]\n}\n',
        '"b": [',
        '"b": [\n  {"x": 1},',
        '{\n  "a": 1,\n  "b": [\n    {"x": 1},\n    {"y": 2}\n  ]\n}\n',
    ),
    "a block of SQL": (
        "BEGIN\n  IF a > 0 THEN\n    f(b);\n  END IF;\nEND;\n",
        "IF a > 0 THEN",
        "IF a > 0 THEN\n  g(c);",
        "BEGIN\n  IF a > 0 THEN\n    g(c);\n    f(b);\n  END IF;\nEND;\n",
    ),
    "the last line of a function": (
        "function f()\n    g(a)\n    local b = c\nend\n",
        "local b = c",
        "local b = c\nlocal d = e",
        "function f()\n    g(a)\n    local b = c\n    local d = e\nend\n",
    ),
    "a call at the end of a function": (
        "function(A)\n    foreach(x b)\n        set(c d)\n    endforeach()\n    set(e f)\nendfunction()\n",
        "set(e f)",
        "set(e f)\nset(g h)",
        "function(A)\n    foreach(x b)\n        set(c d)\n    endforeach()\n    set(e f)\n    set(g h)\n"
        "endfunction()\n",
    ),
    "a tag below a comment": (
        "<project>\n  <!-- a -->\n  <dependency>\n    <item>b</item>\n  </dependency>\n</project>\n",
        "<!-- a -->",
        '<!-- a -->\n<group name="c">\n  <item>d</item>\n</group>\n<!-- e -->',
        '<project>\n  <!-- a -->\n  <group name="c">\n    <item>d</item>\n  </group>\n  <!-- e -->\n'
        "  <dependency>\n    <item>b</item>\n  </dependency>\n</project>\n",
    ),
    "a method at the end of a class": (
        "class A {\n    public void f() {\n        g(a);\n    }\n    int b = c;\n    d(e);\n}\n",
        "d(e);",
        "d(e);\npublic void h() {\n    int i = j;\n}\nif (k) {\n    l(m);\n}",
        "class A {\n    public void f() {\n        g(a);\n    }\n    int b = c;\n    d(e);\n"
        "    public void h() {\n        int i = j;\n    }\n    if (k) {\n        l(m);\n    }\n}\n",
    ),
    "a method below a comment": (
        "class A\n  # one\n  # two\nend\n",
        "# two",
        "# two\n# three\ndef f\n  1\nend",
        "class A\n  # one\n  # two\n  # three\n  def f\n    1\n  end\nend\n",
    ),
    "the first line of a body": (
        'func f(m string) B {\n\tif m == "GET" {\n\t}\n\n\tswitch c {\n\t}\n}\n',
        'if m == "GET" {',
        'if m == "GET" {\n\treturn Form',
        'func f(m string) B {\n\tif m == "GET" {\n\t\treturn Form\n\t}\n\n\tswitch c {\n\t}\n}\n',
    ),
    "the first argument": (
        "class A:\n    def __init__(\n        c,\n    ):\n        pass\n",
        "def __init__(",
        "def __init__(\n    self,\n    b,",
        "class A:\n    def __init__(\n        self,\n        b,\n        c,\n    ):\n        pass\n",
    ),
}
"""What shows in which column new lines stand: the blocks that they open, end, or stand in."""


@pytest.mark.parametrize(("text", "search", "replace", "wanted"), [*BLOCKS.values()], ids=[*BLOCKS])
def test_blocks_show_where_new_lines_stand(text: str, search: str, replace: str, wanted: str) -> None:
    assert apply(text, [Edit(search=search, replace=replace)]).text == wanted


REFUSED = {"near_miss", "not_found", "indentation_unclear", "already_applied", "placeholder", "no_effect"}
WRITTEN: dict[str, tuple[str, str, str, dict[str, Any], str | None]] = {
    # SEARCH lost the indentation of its first line, REPLACE has it
    "only SEARCH lost the first indentation": (
        IF,
        "if a:\n        go()\n",
        "    if a:\n        stop()\n",
        {},
        "def f():\n    if a:\n        stop()\n    return 1\n",
    ),
    "only SEARCH lost it, and the line comes again": (
        "{\n  a: {\n    key: 1,\n    of: 2\n  }\n}\n",
        "key: 1,\n    of: 2",
        "    key: 1,\n    of: 2\n  },\n  b: {\n    key: 1,\n    of: 3",
        {},
        "{\n  a: {\n    key: 1,\n    of: 2\n  },\n  b: {\n    key: 1,\n    of: 3\n  }\n}\n",
    ),
    "SEARCH lost its indentation, REPLACE is lines of the file": (
        "s:\n  f:\n    - a\n    - b\n",
        "- b",
        "    - b\n    - c",
        {},
        "s:\n  f:\n    - a\n    - b\n    - c\n",
    ),
    "SEARCH lost its indentation, REPLACE is lines of the file, the first one changed": (
        '{\n  "a": 1,\n  "b": 2,\n  "c": 3\n}\n',
        '"b": 2,',
        '  "b": 3,\n  "bb": 22,',
        {},
        '{\n  "a": 1,\n  "b": 3,\n  "bb": 22,\n  "c": 3\n}\n',
    ),
    "SEARCH lost its first indentation, REPLACE is the first line alone": (
        "  if (a)\n    {\n      b();\n    }\n",
        "if (a)\n    {\n      b();",
        "  if (a)",
        {},
        "  if (a)\n    }\n",
    ),
    "SEARCH lost its first indentation, REPLACE is lines of the file, the first one changed": (
        "  a = x::B\n  void\n  c()\n",
        "a = x::B\n  void\n  c()",
        "  a = B\n\n  void\n  c()",
        {},
        "  a = B\n\n  void\n  c()\n",
    ),
    "SEARCH lost its first indentation, REPLACE is lines of the file, with a new one above": (
        "x = [\n  'a',\n  'c',\n  'd',\n]\n",
        "'c',\n  'd',",
        "  'b',\n  'c',\n  'd',",
        {},
        "x = [\n  'a',\n  'b',\n  'c',\n  'd',\n]\n",
    ),
    "a new line above goes on with a deeper block": (
        "if a:\n    if b:\n        c()\n    e()\n",
        "e()",
        "    d()\n    e()",
        {},
        "if a:\n    if b:\n        c()\n        d()\n    e()\n",
    ),
    "tabs beside blanks": (
        "<dict>\n\t<key>A</key>\n\t<string>a</string>\n  <key>C</key>\n</dict>\n",
        "<string>a</string>",
        "<string>a</string>\n  <key>B</key>\n  <string>b</string>",
        {},
        "<dict>\n\t<key>A</key>\n\t<string>a</string>\n  <key>B</key>\n  <string>b</string>\n"
        "  <key>C</key>\n</dict>\n",
    ),
    "whole lines from a blank one on, and REPLACE forgot the last line end": (
        "a\n\nb\nc\n",
        "\nb\n",
        "x\n\nb",
        {},
        "a\nx\n\nb\nc\n",
    ),
    "a longer line begins with the last new one": (
        "# A-2.0\n# Unless so\n",
        "A-2.0",
        "A-2.0\n#",
        {},
        "# A-2.0\n#\n# Unless so\n",
    ),
    "a here-document of a descriptor": (
        "f() {\n    run --a \\\n    10<y\n}\n",
        "10<y",
        "10<<EOF\n[App]\nEOF",
        {},
        "f() {\n    run --a \\\n    10<<EOF\n[App]\nEOF\n}\n",
    ),
    "a line of SEARCH below one that goes on": (
        "(\n\tif a; then\n\t\tgo\n\tfi\n)\n",
        "if a; then",
        "cd x &&\n\tif a; then",
        {},
        "(\n\tcd x &&\n\tif a; then\n\t\tgo\n\tfi\n)\n",
    ),
    "a byte order mark stays": ("\ufeffa  = 1\nb\n", "a = 1\nb\n", "a = 2\nb\n", {}, "\ufeffa = 2\nb\n"),
    "a byte order mark stays where its line goes": (
        "\ufeffa  = 1\nb\n",
        "a = 1\nb\n",
        "b\n",
        {},
        "\ufeffb\n",
    ),
    "only SEARCH lost it, one line": (
        CLASS,
        "x = 1\n",
        "    new = 1\n",
        {},
        "class A:\n    new = 1\n\nz = 3\n",
    ),
    "a part of the indentation": (
        IF,
        "    go()\n",
        "    stop()\n    stop2()\n",
        {},
        "def f():\n    if a:\n        stop()\n        stop2()\n    return 1\n",
    ),
    "the first line is quoted below a new one": (
        "if a:\n    x()\n    y()\n",
        "x()\n    y()\n",
        "new()\nx()\n    y()\n",
        {},
        "if a:\n    new()\n    x()\n    y()\n",
    ),
    # whole lines
    "a line at the margin within an indented one": (
        "if x:\n    a = 1\n    b = 2\n",
        "a = 1\n",
        "  c = 3\n",
        {"whole_lines": True},
        None,
    ),
    "the last line has no line end": (
        "class A {\n  f() {\n  }\n}",
        "}\n",
        "  g() {}\n}\n",
        {"whole_lines": True},
        "class A {\n  f() {\n  }\n  g() {}\n}",
    ),
    "the last line has no line end, and another one has": (
        "if a:\n    end()\nend()",
        "end()\n",
        "stop()\n",
        {},
        "if a:\n    stop()\nend()",
    ),
    "one of the last lines, which are alike": (
        "  end\n\n  def a\n  end\nend\n",
        "end\n\n",
        "end\n\n  b\n\n",
        {},
        "  end\n\n  b\n\n  def a\n  end\nend\n",
    ),
    "a forgotten line end below a blank line": (
        "a\n\nb = 1\nc\n",
        "\nb = 1\n",
        "\nb = 2",
        {},
        "a\n\nb = 2\nc\n",
    ),
    "a mark at the start": ("\ufeffa = 1\nb = 2\n", "a = 1\n", "a = 3", {}, "\ufeffa = 3\nb = 2\n"),
    "all lines of one depth": (
        "if a:\n    x = 1\n    if b:\n        x = 1\n",
        "    x = 1\n",
        "    y = 1\n    z = 2\n",
        {"all": True},
        "if a:\n    y = 1\n    z = 2\n    if b:\n        x = 1\n",
    ),
    # rule 4, where SEARCH had drifted
    "there already but for a blank line": ("a\nb\nx\n\nc\n", "a\nb\n\n", "a\nb\nx\n\n", {}, None),
    "there already but for trailing blanks": ("f\nend  \nnew()\nx\n", "end\n", "end\nnew()\n", {}, None),
    "there already but for a blank": (
        "f() {\n  a(b, c);\n  d();\n  grep();\n}\n",
        "  a(b,c);\n",
        "  a(b, c);\n  d();\n",
        {},
        None,
    ),
    "an item there already": ("a,\nb,\nc,\n", "a,  \nb,  \n", "a,  \nb,  \nc,  \n", {}, None),
    # blank lines
    "the blank line that ended the block is gone": (
        "php:\n  - 5.4\n  - 5.5\n  - 5.6\nscript: x\n",
        "  - 5.5\n\n",
        "  - 5.5\n\nbefore: y\n\n",
        {},
        None,
    ),
    "a blank line around new text is kept": (
        "A\n\nB\n",
        "A\n\n\nB\n",
        "A\n\nnew\n\nB\n",
        {},
        "A\n\nnew\n\nB\n",
    ),
    "a blank line below a new item is kept": (
        "- a\n\nText\n",
        "- a\n\n\nText\n",
        "- a\n- b\n\nText\n",
        {},
        "- a\n- b\n\nText\n",
    ),
    "a blank line that is there is not written twice": (
        "a = 1\n\nb = 2\n",
        "a = 1\nb = 2\n",
        "a = 3\n\nb = 2\n",
        {},
        "a = 3\n\nb = 2\n",
    ),
    "a comment's quote in code below it": (
        "# don\u2019t stop\ngo()\n",
        "# don't stop\ngo()\n",
        "# don't stop\ngo('x')\n",
        {},
        "# don\u2019t stop\ngo('x')\n",
    ),
    "a comment's dash in new code": (
        "# a \u2013 b\nc = 1\n",
        "# a - b\nc = 1\n",
        "# a - b\nc = 1 - 2\n",
        {},
        "# a \u2013 b\nc = 1 - 2\n",
    ),
    "a blank line on both sides of a new block": (
        "a {\n}\n\nc {\n}\n",
        "}\nc {\n",
        "}\n\nb {\n}\nc {\n",
        {},
        "a {\n}\n\nb {\n}\n\nc {\n}\n",
    ),
    "a blank line between imports that is there": (
        "import a\n\nimport b\n",
        "\nimport a\nimport b\n\n",
        "\nimport a\n\nimport b\n\n",
        {},
        None,
    ),
    "a decorator stands at its function": (
        "a = 1\n\n\ndef f():\n    pass\n",
        "a = 1\n\ndef f():\n",
        "a = 1\n\n@cached\ndef f():\n",
        {},
        "a = 1\n\n\n@cached\ndef f():\n    pass\n",
    ),
    # depth
    "brackets alone tell no place": (
        "class A {\n  a = {\n    x: 1\n  };\n  b() {\n    return {\n      y\n    };\n  }\n\n"
        "  c() {\n  }\n}\n",
        "  };\n}\n",
        "  };\n\n  z() {\n  }\n}\n",
        {},
        None,
    ),
    "one line far less deep": (
        "def f():\n    success = False\n    return success\n",
        "                    success = False\n",
        "                    self.error = why\n",
        {},
        None,
    ),
    "unwrapped at the depth of the file": (
        "def f():\n    if a:\n        x()\n    else:\n        y()\n    z()\n",
        "if a:\n    x()\nelse:\n    y()\n",
        "    y()\n",
        {},
        None,
    ),
    "unwrapped at the depth of the file, by a SEARCH that is too deep": (
        "def f():\n    if a:\n        x()\n",
        "        if a:\n            x()\n",
        "        x()\n",
        {},
        "def f():\n    x()\n",
    ),
    "some lines of the file's depth, others of that of SEARCH": (
        "def f():\n    a()\n    b()\n",
        "a()\nb()\n",
        "    a()\nb()\n",
        {"whole_lines": True},
        None,
    ),
    "a line that is put into a block, which may be as deep as the file": (
        "int f() {\n  return a;\n}\n",
        "return a;\n",
        "if (a)\n  return a;\n",
        {"whole_lines": True},
        None,
    ),
    "new text above a block that was sent too deep": (
        "\tz {\n\t}\n\tif v {\n\t\tr\n\t}\n",
        "\t\tif v {\n\t\t\tr\n\t\t}\n",
        "\t// c\n\t\tif v {\n\t\t\tr\n\t\t}\n",
        {},
        None,
    ),
    "the head of a function above a block that was sent too deep": (
        "f {\n    z {\n    }\n    if v {\n        r\n    }\n",
        "        if v {\n            r\n        }\n",
        "    g {\n        if v {\n            r\n        }\n",
        {},
        None,
    ),
    "the head of a function above one line that was sent too deep": (
        "f {\n    z()\n\n    r()\n    s()\n}\n",
        "        r()\n",
        "    g {\n        r()\n",
        {},
        "f {\n    z()\n\ng {\n    r()\n    s()\n}\n",
    ),
    "two ends at one column": (
        'describe "a" do\n  it "b" do\n    go\n  end\n\n  it "c" do\n    stop\n  end\nend\n',
        '\nit "c" do\n  stop\nend\n',
        "\n  file = join\n  check(file)\nend\n",
        {},
        None,
    ),
    "two depths for one": ("  if a:\n\ta = 1\n", "  if a:\n  a = 1\n", "  if a:\n  b = 1\n", {}, None),
    "a blank of its own in a new line": (
        "# A  b\n# c\n",
        "# A b\n# c\n",
        "# A b\n# c\u00a0d\n",
        {},
        "# A  b\n# c\u00a0d\n",
    ),
    "most lines of SEARCH stay as they were sent": (
        "a {\n  b {\n    } else {\n      c\n    }\n  }\n\n  d\n",
        "  } else {\n    c\n  }\n}\n",
        "    c\n  }\n}\n",
        {},
        "a {\n  b {\n      c\n    }\n  }\n\n  d\n",
    ),
    "a comment of one line becomes one of several: one-line /** */ to several lines": (
        "        /** a */\n        int x;\n",
        "/** a */\n",
        "/**\n * a\n */\n",
        {"whole_lines": True},
        "        /**\n         * a\n         */\n        int x;\n",
    ),
    "a comment of one line becomes one of several: same": (
        "        /** a */\n        int x;\n",
        "    /** a */\n",
        "    /**\n     * a\n     */\n",
        {"whole_lines": True},
        "        /**\n         * a\n         */\n        int x;\n",
    ),
    "a comment of one line becomes one of several: // to /* */": (
        "        // b\n        int y;\n",
        "// b\n",
        "/*\n * b */\n",
        {"whole_lines": True},
        "        /*\n         * b */\n        int y;\n",
    ),
    "a comment of one line becomes one of several: same as str_replace": (
        "        /** a */\n        int x;\n",
        "/** a */\n",
        "/**\n * a\n */\n",
        {},
        "        /**\n         * a\n         */\n        int x;\n",
    ),
    "blanks at the ends of lines around a blank line that SEARCH lacks": (
        "a\n\nb\nc\n",
        "a \nb \nc\n",
        "a\nb\nc2\n",
        {"whole_lines": True},
        "a\n\nb\nc2\n",
    ),
    "a blank line that the file lacks: SEARCH has one blank line more than the file": (
        "a1\n\nb\n",
        "a1\n\n\nb\n",
        "a2\n\nb\n",
        {},
        "a2\n\nb\n",
    ),
    "a look-alike in a comment beside new code: an apostrophe and quotes": (
        "note()  # it’s\nb\n",
        "note()  # it's\n",
        "note('x')  # it's\n",
        {},
        None,
    ),
    "a look-alike in a comment beside new code: – in a comment makes a minus –": (
        "x = y  # a – b\n",
        "x = y  # a - b\n",
        "x = y - 1  # a - b\n",
        {},
        None,
    ),
    "a look-alike in a comment beside new code: … in a comment makes a spread …": (
        "f(a)  // wait…\n",
        "f(a)  // wait...\n",
        "f(...a)  // wait...\n",
        {},
        None,
    ),
    "a closer that the file has, too: new block ends with the same closer as SEARCH begins with": (
        "    x()\n  end)\n\n  d()\n",
        "end)\n\nd()\n",
        "  it(\n    p\n  end)\nend)\n\nd()\n",
        {"whole_lines": True},
        "    x()\n    it(\n      p\n    end)\n  end)\n\n  d()\n",
    ),
    "a closer that the file has, too: Java": (
        "class A {\n    void f() {\n        if (a) {\n            b();\n        }\n    }\n\n"
        "    void g() {\n    }\n}\n",
        "    }\n}\n\nvoid g() {\n",
        "        if (x) {\n            y();\n        }\n    }\n}\n\nvoid g() {\n",
        {"whole_lines": True},
        "class A {\n    void f() {\n        if (a) {\n            b();\n            if (x) {\n"
        "                y();\n            }\n        }\n    }\n\n    void g() {\n    }\n}\n",
    ),
    "a closer that the file has, too: Lua/JS style end)": (
        "f(function()\n  g(function()\n    c()\n  end)\n\n  d(function()\n    e()\n  end)\nend)\n",
        "end)\n\nd(function()\n",
        "  x(function()\n    y()\n  end)\nend)\n\nd(function()\n",
        {"whole_lines": True},
        "f(function()\n  g(function()\n    c()\n    x(function()\n      y()\n    end)\n  end)\n\n"
        "  d(function()\n    e()\n  end)\nend)\n",
    ),
    "a closer that the file has, too: shell fi": (
        "f() {\n\tif a\n\tthen\n\t\tb\n\tfi\n\t(\n\t\tc\n\t)\n}\n",
        "fi\n(\n",
        "\tif x; then\n\t\ty\n\tfi\nfi\n(\n",
        {"whole_lines": True},
        "f() {\n\tif a\n\tthen\n\t\tb\n\t\tif x; then\n\t\t\ty\n\t\tfi\n\tfi\n\t(\n\t\tc\n\t)\n}\n",
    ),
    "a closer that the file has, too: braces": (
        "top {\n\ta {\n\t\tb()\n\t}\n\treturn 1\n\t}\n}X\n",
        "}\nreturn 1\n}\n",
        "\tif x {\n\t}\n}\nreturn 1\n}\n",
        {"whole_lines": True},
        None,
    ),
    "new text with a string over several lines: shell": (
        "f() {\n    b\n}\n",
        "b\n",
        'echo "Usage: x\n  -h  help"\nb\n',
        {"whole_lines": True},
        None,
    ),
    "new text with a string over several lines: PowerShell here-string": (
        "if ($a) {\n    b\n}\n",
        "b\n",
        '$x = @"\nline one\n  two\n"@\nb\n',
        {"whole_lines": True},
        None,
    ),
    "new text with a string over several lines: PHP <<<EOT": (
        "if ($a) {\n    b();\n}\n",
        "b();\n",
        "$x = <<<EOT\nline one\n  two\nEOT;\nb();\n",
        {"whole_lines": True},
        None,
    ),
    "new text with a string over several lines: Ruby =begin/=end must stand at column 0": (
        "class A\n  b\nend\n",
        "b\n",
        "=begin\nfoo\n=end\nb\n",
        {"whole_lines": True},
        None,
    ),
    "new text with a string over several lines: Perl POD must stand at column 0": (
        "sub f {\n    b();\n}\n",
        "b();\n",
        "b();\n\n=pod\n\n  text\n\n=cut\n\n",
        {"whole_lines": True},
        None,
    ),
    "new text with a string over several lines: Rust raw string": (
        "f {\n    a();\n    b();\n}\n",
        "a();\n",
        'a();\nlet s = r#"line one\n  two"#;\n',
        {"whole_lines": True},
        None,
    ),
    "new text with a string over several lines: Rust string": (
        "f {\n    a();\n    b();\n}\n",
        "a();\n",
        'a();\nprintln!("line one\n  two");\n',
        {"whole_lines": True},
        None,
    ),
    "new text with a string over several lines: C++ raw string": (
        "f {\n    a();\n    b();\n}\n",
        "a();\n",
        'a();\nauto s = R"(line one\n  two)";\n',
        {"whole_lines": True},
        None,
    ),
    "new text with a string over several lines: Lua long string": (
        "f {\n    a();\n    b();\n}\n",
        "a();\n",
        "a();\nlocal s = [[line one\n  two]]\n",
        {"whole_lines": True},
        None,
    ),
    "new text with a string over several lines: Lua long string again": (
        "f {\n    a();\n    b();\n}\n",
        "a();\n",
        "a();\nprint([==[line one\n  two]==])\n",
        {"whole_lines": True},
        None,
    ),
    "new text with a string over several lines: PHP quotes": (
        "f {\n    a();\n    b();\n}\n",
        "a();\n",
        "a();\n$y = 'line one\n  two';\n",
        {"whole_lines": True},
        None,
    ),
    "new text with a string over several lines: Perl quotes": (
        "f {\n    a();\n    b();\n}\n",
        "a();\n",
        'a();\nmy $x = "line one\n  two";\n',
        {"whole_lines": True},
        None,
    ),
    "new text with a string over several lines: SQL string": (
        "f {\n    a();\n    b();\n}\n",
        "a();\n",
        "a();\nSELECT 'line one\n  two';\n",
        {"whole_lines": True},
        None,
    ),
    "new text with a string over several lines: C# verbatim string": (
        "f {\n    a();\n    b();\n}\n",
        "a();\n",
        'a();\nvar s = @"line one\n  two";\n',
        {"whole_lines": True},
        None,
    ),
    "new text with a string over several lines: Ruby quotes": (
        "f {\n    a();\n    b();\n}\n",
        "a();\n",
        'a();\nputs "line one\n  two"\n',
        {"whole_lines": True},
        None,
    ),
    "new text with a string over several lines: Clojure/Lisp string": (
        "f {\n    a();\n    b();\n}\n",
        "a();\n",
        'a();\n(def s "line one\n  two")\n',
        {"whole_lines": True},
        None,
    ),
    "new text with a string over several lines: XML CDATA": (
        "f {\n    a();\n    b();\n}\n",
        "a();\n",
        "a();\n<x><![CDATA[line one\n  two]]></x>\n",
        {"whole_lines": True},
        None,
    ),
    "new text with a string over several lines: Tcl string": (
        "f {\n    a();\n    b();\n}\n",
        "a();\n",
        'a();\nputs "line one\n  two"\n',
        {"whole_lines": True},
        None,
    ),
    "dots with the lines that they stand for: # ... (lines 10-20)": (
        "a()\nb()\nc()\nd()\ne()\n",
        "a()\nb()\nc()\nd()\ne()\n",
        "# ... (lines 10-20)\nx1()\ne()\n",
        {},
        None,
    ),
    "dots with the lines that they stand for: /* ... (lines 2-4) */": (
        "a()\nb()\nc()\nd()\ne()\n",
        "a()\nb()\nc()\nd()\ne()\n",
        "/* ... (lines 2-4) */\nx1()\ne()\n",
        {},
        None,
    ),
    "a closer that the file has, too: the first line alone lost its blanks": (
        "f(A\n   )\n\nc\n",
        ")\n\nc\n",
        ")\n\n   x\n   )\n\nc\n",
        {"whole_lines": True},
        "f(A\n   )\n\n   x\n   )\n\nc\n",
    ),
    "three dots in a new line beside one that has their sign": (
        "/** Loads… */\nlet a = 1;\n",
        "/** Loads... */\n",
        "/** Loads... */\nlet b = {...c};\n",
        {},
        "/** Loads… */\nlet b = {...c};\nlet a = 1;\n",
    ),
    "typographic signs of a line that only moves": (
        "l = [\n  ‘a’,\n  ‘b’,\n  ‘c’,\n]\n",
        "  'a',\n  'b',\n  'c',\n",
        "  'b',\n  'c',\n  'a',\n",
        {},
        "l = [\n  ‘b’,\n  ‘c’,\n  ‘a’,\n]\n",
    ),
    "a here-document in new lines that move": (
        "f() {\n  run\n}\n",
        "run\n",
        "cat <<EOF\n  x\nEOF\nrun\n",
        {},
        "f() {\n  cat <<EOF\n  x\nEOF\n  run\n}\n",
    ),
    "a string over several lines in new lines that move": (
        "def f():\n    a = 1\n    b = 2\n",
        "a = 1",
        'a = 1\nc = """\n  x\n"""',
        {},
        'def f():\n    a = 1\n    c = """\n  x\n"""\n    b = 2\n',
    ),
    "lines of the file below one that is less deep: JavaScript": (
        "a({\n  x: 1,\n  y: 2,\n  z: 3,\n});\n",
        "y: 2,\nz: 3,\n",
        "});\nb({\n  y: 2,\n  z: 3,\n",
        {},
        None,
    ),
    "lines of the file below one that is less deep: C": (
        "int f(void)\n{\n\tint err = 0;\n\n\terr = init();\n\tTEST(err);\n}\n",
        "err = init();\nTEST(err);\n",
        "#ifdef TLS\n\tconf();\n#endif\n\n\terr = init();\n\tTEST(err);\n",
        {},
        None,
    ),
    "another line of SEARCH comes first, without its blanks": (
        "class T:\n    def a(self):\n        x = 1\n\n    @ctx\n    def b(self):\n        pass\n",
        "x = 1\n\n    @ctx\n    def b(self):\n",
        "@ctx\n    def b(self):\n",
        {"whole_lines": True},
        "class T:\n    def a(self):\n    @ctx\n    def b(self):\n        pass\n",
    ),
    "a new line comes first, deeper by what SEARCH lacks": (
        "def f():\n    x = 1\n    if a:\n        go()\n    end()\n",
        "  if a:\n      go()\n",
        "    y = 2\n  if a:\n      go()\n",
        {},
        None,
    ),
    "blanks for numbers below an empty line": (
        "def f():\n    a = 1\n\n    b = 2\n    c = 3\n",
        "3|\n4|    b = 2\n5|    c = 3\n",
        "\n      b = 4\n      c = 3\n",
        {},
        None,
    ),
    "the mark of a number without it": ("a = 1\nb = 2\nc = 3\n", "2 | b = 2\n", "  | b = 3\n", {}, None),
    "a part of the indentation lost, a new line below": (
        'class R\n  v "1"\n  d "s"\n  w "t"\nend\n',
        ' d "s"\n',
        ' d "s"\n h "u"\n',
        {},
        'class R\n  v "1"\n  d "s"\n  h "u"\n  w "t"\nend\n',
    ),
    "a part of the indentation lost, a new block around: YAML": (
        "a:\n  b:\n    c:\n      d: 1\n      e: 2\n",
        "    d: 1",
        "    z:\n      d: 1",
        {},
        "a:\n  b:\n    c:\n      z:\n        d: 1\n      e: 2\n",
    ),
    "a part of the indentation lost, a new block around: Python": (
        "def f():\n    if a:\n        if b:\n            go()\n        print 1\n",
        "        go()",
        "        with lock:\n            go()",
        {},
        "def f():\n    if a:\n        if b:\n            with lock:\n                go()\n        print 1\n",
    ),
    "no tab on an empty line: tab file quoted with blanks": (
        "\tf()\n\n\tif x {)\n\t} else {\n\t\ta\n",
        "f()\n\nif x {)\n} else {\n  a\n",
        "f()\n\nif x {\n  b\n} else {\n  a\n",
        {"whole_lines": True},
        "\tf()\n\n\tif x {\n\t\tb\n\t} else {\n\t\ta\n",
    ),
    "no tab on an empty line: new empty line gets trailing tabs": (
        "\ta()\n\t\tb()\n",
        "a()\n  b()\n",
        "a()\n\nc()\n  b()\n",
        {"whole_lines": True},
        "\ta()\n\n\tc()\n\t\tb()\n",
    ),
    "a blank line that the file lacks stays above what is added: between two ends": (
        "  :ok\nend\nend\n",
        "  :ok\nend\n\nend\n",
        "  :ok\nend\n\ndef cd\nend\n",
        {},
        "  :ok\nend\n\ndef cd\nend\n",
    ),
    "a blank line that the file lacks stays above what is added": (
        "a\nb\n",
        "a\n\nb\n",
        "a\n\nnew\nb\n",
        {"whole_lines": True},
        "a\n\nnew\nb\n",
    ),
    "a line of the block that the line above opens: Go": (
        "\t} else if c {\n\treturn h\n",
        "return h",
        "\tx = 1\n\t}\n\treturn h",
        {},
        "\t} else if c {\n\t\tx = 1\n\t}\n\treturn h\n",
    ),
    "a line of the block that the line above opens: JavaScript": (
        "    const s = e();\n    if (!s) {\n    const d = s();\n    go();\n",
        "const d = s();",
        "    return false;\n    }\n    const d = s();",
        {},
        "    const s = e();\n    if (!s) {\n        return false;\n    }\n    const d = s();\n    go();\n",
    ),
    "patterns of a shell's case stand at its column": (
        'f()\n{\n  case "$X" in\n    A=yes\n    ;;\n  *)\n    A=no\n    ;;\n  esac\n}\n',
        'case "$X" in',
        'case "$X" in\n  auto)\n    A=t\n    ;;\n  always)',
        {},
        'f()\n{\n  case "$X" in\n  auto)\n    A=t\n    ;;\n  always)\n    A=yes\n    ;;\n'
        "  *)\n    A=no\n    ;;\n  esac\n}\n",
    ),
    "SQL's select begins no block": (
        "UPDATE p\nFROM (\n  VALUES\n) AS u,\nLATERAL (\n  SELECT a FROM b\n$$;\n",
        "SELECT a FROM b",
        "SELECT a FROM b\n) ls\nWHERE oid = 1;\n\nPERFORM x;\nEND",
        {},
        "UPDATE p\nFROM (\n  VALUES\n) AS u,\nLATERAL (\n  SELECT a FROM b\n) ls\nWHERE oid = 1;\n"
        "\nPERFORM x;\nEND\n$$;\n",
    ),
    "new text with a string over several lines: Perl q{}": (
        "f {\n    a();\n    b();\n}\n",
        "a();\n",
        "a();\nmy $y = q{line one\n  two};\n",
        {"whole_lines": True},
        None,
    ),
    "a new comma of code beside a full-width one of a comment": (
        "f(1)  # 好，对\n",
        "f(1)  # 好,对\n",
        "f(1, 2)  # 好,对\n",
        {"whole_lines": True},
        None,
    ),
    "a new colon of code beside a full-width one of a comment": (
        "f(1, 2)  # 说明：一\n",
        "f(1, 2)  # 说明:一\n",
        "f({a: 1}, 2)  # 说明:一\n",
        {"whole_lines": True},
        None,
    ),
    "new text with a string over several lines: Elixir sigil": (
        "f {\n    a();\n    b();\n}\n",
        "a();\n",
        "a();\ny = ~s(line one\n  two)\n",
        {"whole_lines": True},
        None,
    ),
    "a new comma of prose is full-width as the others": (
        "好，对\n",
        "好,对\n",
        "好,对,再\n",
        {"whole_lines": True},
        "好，对，再\n",
    ),
    "one line with the file's indentation of several levels: Python": (
        "class A:\n    def f(self):\n        class B:\n            def g(self):\n"
        "                return 10\n        app = B(1)\n        return app\n",
        "app = B(1)",
        "        app = B(2)",
        {},
        "class A:\n    def f(self):\n        class B:\n            def g(self):\n"
        "                return 10\n        app = B(2)\n        return app\n",
    ),
    "one line with the file's indentation of several levels: XML": (
        "<a>\n    <b>\n        <c>1</c>\n        <type>pom</type>\n    </b>\n</a>\n",
        "<type>pom</type>",
        "        <type>jar</type>",
        {},
        "<a>\n    <b>\n        <c>1</c>\n        <type>jar</type>\n    </b>\n</a>\n",
    ),
    "the first line of REPLACE is the file's to the letter": (
        'locals {\n  region = "eu"\n}\n\n',
        'region = "eu"\n}\n',
        '  region = "eu"\n\n  tags = {\n    A = 1\n  }\n}\n',
        {},
        'locals {\n  region = "eu"\n\n  tags = {\n    A = 1\n  }\n}\n\n',
    ),
    "new lines above that could not stand behind the indentation": (
        "def f(m):\n    if m:\n        return 1\n    return 2\n",
        "return 2",
        "    if x:\n        return 3\n    return 2",
        {},
        "def f(m):\n    if m:\n        return 1\n    if x:\n        return 3\n    return 2\n",
    ),
    "a line of a block at column 0 that fits nowhere better": (
        "SELECT CASE x\n         WHEN 4 THEN 'a'\n         WHEN 5 THEN 'b'\n         END AS phase\nFROM t;\n",
        "WHEN 5 THEN 'b'\n",
        "WHEN 5 THEN 'b'\nWHEN 6 THEN 'c'\n",
        {"whole_lines": True},
        None,
    ),
    "one line and a blank one are one line: Java": (
        "class M {\n  private static final Logger log = L.get(M.class);\n\n  int x;\n}\n",
        "private static final Logger log = L.get(M.class);\n\n",
        "private static final Logger log = L.get(M.class);\n  private static final U u = A.b(\n      c);\n\n",
        {"whole_lines": True},
        "class M {\n  private static final Logger log = L.get(M.class);\n"
        "  private static final U u = A.b(\n      c);\n\n  int x;\n}\n",
    ),
    "SEARCH has part of the indentation, and REPLACE the file's line": (
        "class A {\n  private M<I> m =\n      new M<I>();\n\n  int x;\n}\n",
        "    new M<I>();\n",
        "      new M<I>();\n",
        {},
        None,
    ),
    "a blank line that the file has is not written once more": (
        "a = 1\nb = 2\n}\n\n\nc\n",
        "a = 1\nb = 2\n}\n\nc\n",
        "a = 9\nb = 2\n}\n\n\nc\n",
        {"whole_lines": False},
        "a = 9\nb = 2\n}\n\n\nc\n",
    ),
    "words that say that code is not shown": (
        "f(a)\ng(a)\nh(a)\ni(a)\n",
        "f(a)\ng(a)\nh(a)\ni(a)\n",
        "f(b)\n# not shown\n",
        {},
        None,
    ),
    "a key that changes keeps its column below a new one": (
        "apps:\n  rg:\n    command: env rg\n",
        "command: env rg",
        "adapter: none\ncommand: ./bin/rg",
        {},
        "apps:\n  rg:\n    adapter: none\n    command: ./bin/rg\n",
    ),
    "lines that begin with the same word stand beside each other": (
        '# Save.\n  if (id == "l") { lock = val; next }\t\t# lock\n'
        '  if (id == "d") { devch = val; next }\t\t# d\n',
        'if (id == "l") { lock = val; next }\t\t# lock',
        'if (id == "l") { lock = val; next }\t\t# lock\nif (id == "t") { type = val; next }\t\t# type',
        {},
        '# Save.\n  if (id == "l") { lock = val; next }\t\t# lock\n'
        '  if (id == "t") { type = val; next }\t\t# type\n'
        '  if (id == "d") { devch = val; next }\t\t# d\n',
    ),
    "the line of SEARCH comes last in a file of tabs and blanks": (
        "\t# Button\n\tttk::style map TButton \\\n\t    -foreground {\n    }\n",
        "ttk::style map TButton \\",
        "ttk::style configure TButton -width -6 \\\n    -foreground c\nttk::style map TButton \\",
        {},
        "\t# Button\n\tttk::style configure TButton -width -6 \\\n\t    -foreground c\n"
        "\tttk::style map TButton \\\n\t    -foreground {\n    }\n",
    ),
    "lines below the end of a comment that begins at another column": (
        "/* a\n   b */\n\n.s {top: 0}\n",
        "b */",
        "b */\n\n/* t */\n\n.h {w: 1}",
        {},
        "/* a\n   b */\n\n/* t */\n\n.h {w: 1}\n\n.s {top: 0}\n",
    ),
    "a closing tag closes no tag of another name": (
        "<h>\n  <noscript>\n  </div>\n  </noscript>\n",
        "<noscript>",
        '<noscript>\n  <div class="a">\n  <p>\n    x\n  </p>',
        {},
        '<h>\n  <noscript>\n  <div class="a">\n  <p>\n    x\n  </p>\n  </div>\n  </noscript>\n',
    ),
    "no tab comes behind blanks": (
        "\tif (/^a*    # x\n\t         [ ]*  # t\n\t\tgo();\n",
        "[ ]*  # t",
        "[ ]*  # t\n\t    /x) {",
        {},
        "\tif (/^a*    # x\n\t         [ ]*  # t\n\t    /x) {\n\t\tgo();\n",
    ),
    "lines of a block that fit at no column": (
        "f() {\n    let a =\n        b()\n        .one(1)\n        .two(2);\n",
        ".one(1)\n",
        "first line\nsecond line\n",
        {"whole_lines": True},
        None,
    ),
    "both stripped, and the head of the block is new": (
        "t() {\n  let a;\n\n    go();\n    end();\n  });\n}\n",
        "go();\n    end();\n",
        "use(() => {\n    go();\n    end();\n",
        {"whole_lines": True},
        "t() {\n  let a;\n\n  use(() => {\n    go();\n    end();\n  });\n}\n",
    ),
    "both stripped, and the end of a block is new": (
        "t() {\n  on(() => {\n    a();\n  go();\n}\n",
        "go();\n}\n",
        "b();\n  });\n  go();\n}\n",
        {"whole_lines": True},
        "t() {\n  on(() => {\n    a();\n    b();\n  });\n  go();\n}\n",
    ),
    "both stripped, and the first line can be of two blocks": (
        "if (a) {\n  if (b) {\n    c();\n  }\n    d();\n  e();\n}\n",
        "d();\n  e();\n",
        "x();\n  y();\n    d();\n  e();\n",
        {"whole_lines": True},
        None,
    ),
    "both stripped, and a part of a line's block goes: less deep": (
        "f(() => {\n  if (a) {\n    go();\n  } else {\n    stop();\n  }\n});\n",
        "go();\n  } else {",
        "} else {",
        {},
        "f(() => {\n  if (a) {\n  } else {\n    stop();\n  }\n});\n",
    ),
    "both stripped, and the first lines go": (
        "class T:\n    def a(self):\n        x = 1\n\n    @ctx\n    def b(self):\n        pass\n",
        "x = 1\n\n    @ctx\n    def b(self):",
        "@ctx\n    def b(self):",
        {},
        "class T:\n    def a(self):\n    @ctx\n    def b(self):\n        pass\n",
    ),
    "a part of the indentation lost, and the new lines with it: below the head of a block": (
        '{\n  "keywords": [\n    "web"\n  ]\n}\n',
        ' "keywords": [',
        ' "keywords": [\n   "express",',
        {},
        '{\n  "keywords": [\n    "express",\n    "web"\n  ]\n}\n',
    ),
    "a part of the indentation lost, and the new lines with it: up to the end of the block": (
        "class A {\n  f() {\n    a();\n}\n",
        "   a();\n",
        "   a();\n   b();\n }\n",
        {"whole_lines": True},
        "class A {\n  f() {\n    a();\n    b();\n  }\n}\n",
    ),
    "a part of the indentation lost, and the new lines have the file's": (
        '{\n  "keywords": [\n    "web"\n  ]\n}\n',
        ' "keywords": [',
        ' "keywords": [\n    "express",',
        {},
        '{\n  "keywords": [\n    "express",\n    "web"\n  ]\n}\n',
    ),
    "new text with a string over several lines: Lisp variable": (
        "(f\n  (a)\n  (b))\n",
        "(a)\n",
        '(a)\n(setq x "bye\n  two")\n',
        {"whole_lines": True},
        None,
    ),
    "an argument below the open bracket of the first line, as both were sent": (
        "class A {\n    void f() {\n        total = compute_total(items, 1);\n    }\n}\n",
        "total = compute_total(items, 1);",
        "total = compute_total(items,\n                      1);",
        {},
        "class A {\n    void f() {\n        total = compute_total(items,\n"
        "                              1);\n    }\n}\n",
    ),
    "an argument of Lisp below the first one, as both were sent": (
        "(defun f (event)\n  (find event (popup-get-the-type type) :key 'a))\n",
        "(find event (popup-get-the-type type) :key 'a))",
        "(first-of-these-all (equal (key it) event)\n                    (popup-get type)))",
        {},
        "(defun f (event)\n  (first-of-these-all (equal (key it) event)\n"
        "                      (popup-get type)))\n",
    ),
    "an argument at a level below the first line": (
        'class A {\n    void f() {\n        log("a", b);\n    }\n}\n',
        'log("a", b);',
        'logger.warn("a",\n            b);',
        {},
        'class A {\n    void f() {\n        logger.warn("a",\n            b);\n    }\n}\n',
    ),
    "lines that lost what only the first one of SEARCH did": (
        "{\n  a: {\n    b: 1,\n    c: 2,\n    d: 3\n  }\n}\n",
        "b: 1,\n    c: 2,\n",
        "b: 1,\nc: 4,\n",
        {},
        "{\n  a: {\n    b: 1,\n    c: 4,\n    d: 3\n  }\n}\n",
    ),
    "lines that lost what only the first one of SEARCH did, all of them new": (
        "package a\n\nfunc f() {\n\tw := c.Writer\n\tgone := w.Notify()\n\tgo(gone)\n}\n",
        "w := c.Writer\n\tgone := w.Notify()\n",
        "w := c.Writer\ndone := c.Done()\n",
        {},
        "package a\n\nfunc f() {\n\tw := c.Writer\n\tdone := c.Done()\n\tgo(gone)\n}\n",
    ),
    "lines that lost as much as they all could": (
        "class A {\n  A() {\n    set(1);\n  }\n}\n",
        "set(1);\n",
        "  set(1);\n}\n\nvoid copy() {\n  get();\n",
        {},
        "class A {\n  A() {\n    set(1);\n  }\n\n  void copy() {\n    get();\n  }\n}\n",
    ),
    "a body at the column of its head would be none": (
        "f t = g\n  where\n    walk (A x) = d x\n    walk (B x) = e x\n",
        "walk (A x) = d x",
        "walk (A x) = do\n    y <- h x\n    return y",
        {},
        "f t = g\n  where\n    walk (A x) = do\n        y <- h x\n        return y\n    walk (B x) = e x\n",
    ),
    "an item that ends in a word of programs": (
        "steps:\n    - what to do\n    - b\n",
        "- what to do",
        "- what to do\n    - more",
        {},
        "steps:\n    - what to do\n    - more\n    - b\n",
    ),
    "a comment that ends in a word of programs": (
        "a {\n    // what to do\n    f();\n}\n",
        "// what to do",
        "// what to do\n    g();",
        {},
        "a {\n    // what to do\n    g();\n    f();\n}\n",
    ),
    "a loop whose block stands on the next line": (
        "x() {\n    do\n    {\n        a();\n    } while (b);\n}\n",
        "do",
        "do\n    {\n        c();\n    } while (d);\n    do",
        {},
        "x() {\n    do\n    {\n        c();\n    } while (d);\n"
        "    do\n    {\n        a();\n    } while (b);\n}\n",
    ),
    "new lines beside a blank line that neither SEARCH nor REPLACE has": (
        "die() { exit 1; }\n\nrun tests\n",
        "die() { exit 1; }\nrun tests\n",
        "die() { exit 1; }\nload nvm\nrun tests\n",
        {},
        None,
    ),
    "a changed line beside a blank line that SEARCH has not": (
        "die() { exit 1; }\n\nrun tests\n",
        "die() { exit 1; }\nrun tests\n",
        "die() { exit 1; }\nrun all tests\n",
        {},
        "die() { exit 1; }\n\nrun all tests\n",
    ),
    "a new line of blanks only, one too many as all have it": (
        "def f():\n    pass\n",
        " def f():\n     pass\n",
        " def f():\n     x = 1\n \n     pass\n",
        {},
        "def f():\n    x = 1\n\n    pass\n",
    ),
    "a quoted backtick begins no text": (
        "a = {\n    f() {\n      return run(b)\n    },\n}\n",
        "return run(b)",
        'var c = run(b)\nif (!c)\n  throw "no `" + b\nreturn c',
        {},
        'a = {\n    f() {\n      var c = run(b)\n      if (!c)\n        throw "no `" + b\n      return c\n'
        "    },\n}\n",
    ),
}


@pytest.mark.parametrize(("text", "search", "replace", "more", "wanted"), [*WRITTEN.values()], ids=[*WRITTEN])
def test_what_went_wrong_lands_right_or_not_at_all(
    text: str, search: str, replace: str, more: dict[str, Any], wanted: str | None
) -> None:
    edit = Edit(search=search, replace=replace, **more)
    if wanted is None:
        with pytest.raises(EditError) as refused:
            apply(text, [edit])
        assert refused.value.failures[0].code in REFUSED
    else:
        assert apply(text, [edit]).text == wanted
