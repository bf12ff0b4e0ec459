"""The rungs of judgement: lines left out, typos, and what a model puts around its lines."""

from __future__ import annotations

import pytest

from kakite.edit import Edit, EditError, Settings, apply
from kakite.edit.placeholders import is_elision, is_placeholder
from kakite.edit.spelling import is_typo, misspellings


def edited(text: str, search: str, replace: str) -> str:
    return apply(text, [Edit(search=search, replace=replace)]).text


def refusal(text: str, search: str, replace: str = "REPLACED\n", settings: Settings | None = None) -> str:
    with pytest.raises(EditError) as refused:
        apply(text, [Edit(search=search, replace=replace)], settings=settings or Settings())
    return refused.value.failures[0].code


# --- lines left out

CLASS = """class A:
    def one(self):
        a = 1
        b = 2
        return a

    def two(self):
        c = 3
        return a
"""


@pytest.mark.parametrize("mark", ["...", "    # ...", "        # ... existing code ...", "// …", "/* ... */"])
def test_what_is_left_out_in_both_keeps_the_files_lines(mark: str) -> None:
    search = f"    def one(self):\n{mark}\n        return a\n"
    replace = f"    def one(self, x):\n{mark}\n        d = 4\n        return b\n"
    expected = CLASS.replace("one(self)", "one(self, x)").replace("return a", "d = 4\n        return b", 1)
    assert edited(CLASS, search, replace) == expected


def test_a_block_ends_at_its_first_closing_line() -> None:
    text = "f() {\n  a\n}\ng() {\n  b\n}\n"
    assert edited(text, "f() {\n...\n}\n", "f(x) {\n...\n}\n") == text.replace("f()", "f(x)")


def test_several_ends_are_refused() -> None:
    text = "start\nx\nstop\ny\nstop\n"
    assert refusal(text, "start\n...\nstop\n", "begin\n...\nstop\n") == "ambiguous"


@pytest.mark.parametrize(
    "replace", ["    def one(self):\n        return 1\n", "    def one(self):\n...\n...\n        return a\n"]
)
def test_replace_must_leave_out_the_same_lines(replace: str) -> None:
    assert refusal(CLASS, "    def one(self):\n...\n        return a\n", replace) == "placeholder"


def test_dots_that_leave_out_nothing_are_text() -> None:
    assert refusal("first\nsecond\nthird\n", "first\n...\nsecond\n", "first\n...\n2\n") in {
        "near_miss",
        "not_found",
    }


def test_a_literal_ellipsis_is_code() -> None:
    text = "def f(): \n    ...\n\ndef g():\n    pass\n"
    assert edited(text, "def f():\n    ...\n", "def f():\n    return 1\n") == text.replace("...", "return 1")


@pytest.mark.parametrize(
    "line",
    ["# ... rest of the code", "// ... existing code ...", "# rest of the function", "... (unchanged) ..."],
)
def test_a_replace_that_says_it_leaves_something_out_is_refused(line: str) -> None:
    assert is_placeholder(line)
    assert refusal("a\nb\n", "a\n", f"c\n{line}\n") == "placeholder"


@pytest.mark.parametrize("line", ["...", " … ", "# ...", "<!-- ... -->"])
def test_dots_alone_stand_for_left_out_lines(line: str) -> None:
    assert is_elision(line)


@pytest.mark.parametrize(
    "line", ["wait...", "def f(): ...", "# the rest of us", "x = [...]", "existing = code"]
)
def test_dots_in_code_and_prose_do_not(line: str) -> None:
    assert not is_elision(line)


def test_an_elision_that_could_end_at_very_many_places_is_refused() -> None:
    text = "start {\n" + "  x();\n  stop();\n" * 400 + "}\n"
    assert refusal(text, "start {\n...\n  stop();\n", "begin {\n...\n  stop();\n") != "ambiguous"


# --- typos


@pytest.mark.parametrize(
    ("file", "sent"),
    [
        ("counter", "conuter"),
        ("counter", "couter"),
        ("counter", "countter"),
        ("get_username", "get_usrename"),
        ("Recieved", "Received"),
    ],
)
def test_a_letter_missing_extra_or_transposed_is_a_typo(file: str, sent: str) -> None:
    assert is_typo(file, sent)


@pytest.mark.parametrize(
    ("file", "sent"),
    [
        ("counter", "coumter"),
        ("item", "items"),
        ("parse", "parser"),
        ("close", "closed"),
        ("sync", "async"),
        ("event", "vent"),
        ("Name", "name"),
        ("from", "form"),
        ("note", "not"),
        ("max_w", "max_h"),
        ("user1", "user11"),
        ("name", "_name"),
        ("get_not_set", "get_nto_set"),
        ("xy", "yx"),
        ("abc", "abcd"),
        ("设置", "置设"),
    ],
)
def test_another_word_is_no_typo(file: str, sent: str) -> None:
    assert not is_typo(file, sent)


@pytest.mark.parametrize(
    ("file", "sent"),
    [
        ("total = compute(items)", "total = comptue(items)"),
        ("# Update the counter", "# Update the conuter"),
        ("The gardener keeps a journal.", "The gardner keeps a journal."),
    ],
)
def test_typos_are_found_in_code_comments_and_prose(file: str, sent: str) -> None:
    assert misspellings(file, sent)


@pytest.mark.parametrize(
    ("file", "sent"),
    [
        ("say('counter')", "say('conuter')"),
        ("# say 'counter'", "# say 'conuter'"),
        ('"""Handle "fatal" errors."""', '"""Handle "ftaal" errors."""'),
        ('"""Handle fatal errors."""', '"""Handle ftaal errors."""'),
        ("total = 12", "total = 21"),
        ("if total == other:", "if total = other:"),
        ("if not total:", "if nto total:"),
        ("total + other", "other + total"),
        ("total", "total extra"),
    ],
)
def test_no_typo_is_forgiven_where_it_means_something(file: str, sent: str) -> None:
    assert misspellings(file, sent) is None


def test_a_typo_is_mended_in_what_is_written_too() -> None:
    text = "def compute_total(items):\n    return sum(items)\n"
    replace = "def compute_totl(items):\n    return 0\n"
    result = apply(text, [Edit(search=text.replace("total", "totl"), replace=replace)])
    assert result.text == "def compute_total(items):\n    return 0\n"
    assert result.matches[0].forgiven == ("typo",)


def test_a_misspelt_word_that_the_file_has_is_another_word() -> None:
    text = "compute_totl = 1\n\ndef compute_total(items):\n    return sum(items)\n"
    assert refusal(text, "def compute_totl(items):\n    return sum(items)\n") == "near_miss"


def test_a_typo_between_two_similar_places_is_refused() -> None:
    text = "a = load_first(path)\nb = 1\n\na = load_frist(path)\nb = 1\n"
    assert refusal(text, "a = load_firsst(path)\nb = 1\n") == "near_miss"


def test_two_misspelt_names_are_forgiven_only_if_asked() -> None:
    text = "result = transform(argument)\nprint(result)\n"
    edit = Edit(search="reuslt = trasnform(argument)\n", replace="reuslt = 1\n")
    assert refusal(text, edit.search, edit.replace) == "near_miss"
    assert apply(text, [edit], settings=Settings(aggressive=True, similarity=0.7)).text.startswith(
        "result = 1\n"
    )


def test_similarity_limits_typos() -> None:
    text = "The gardener keeps a journal.\n"
    assert refusal(text, "The gardner kepes a jounral.\n", settings=Settings(similarity=0.99)) == "near_miss"
    assert (
        edited(text, "The gardner kepes a jounral.\n", "The gardner kepes two.\n")
        == "The gardener keeps two.\n"
    )


# --- what a model puts around its lines

TEXT = 'def f(a):\n    if a < 1 && b:\n        say("hi")\n    return a\n'


@pytest.mark.parametrize(
    ("search", "replace", "name"),
    [
        (
            '3 |         say("hi")\n4 |     return a\n',
            '3 |         say("ho")\n4 |     return a\n',
            "line_numbers",
        ),
        (
            '3:         say("hi")\n4:     return a\n',
            '3:         say("ho")\n4:     return a\n',
            "line_numbers",
        ),
        (
            '     3\t        say("hi")\n     4\t    return a\n',
            '        say("ho")\n    return a\n',
            "line_numbers",
        ),
        ('```python\n        say("hi")\n```\n', '```python\n        say("ho")\n```\n', "code_fence"),
        ('        say(\\"hi\\")\\n    return a', '        say(\\"ho\\")\\n    return a', "escapes"),
        ("        say(&quot;hi&quot;)\n", "        say(&quot;ho&quot;)\n", "entities"),
    ],
)
def test_what_was_put_around_the_lines_is_undone_and_told(search: str, replace: str, name: str) -> None:
    result = apply(TEXT, [Edit(search=search, replace=replace)])
    assert result.text == TEXT.replace("hi", "ho")
    assert result.matches[0].forgiven == (name,)
    assert result.matches[0].level == "repaired"


@pytest.mark.parametrize(
    ("search", "replace"),
    [
        ('3 |         say("hi")\n5 |     return a\n', "x\n"),  # numbers that do not run on
        ('3 |         say("hi")\n    return a\n', "x\n"),  # not on all lines
        (
            '        say(\\"hi\\")\\n    return a',
            '        say("ho")\\n    return a',
        ),  # REPLACE is not escaped
        ("    if a &lt; 1 &amp;&amp; b:\n", "    if a < 2:\n"),  # REPLACE has no entities
    ],
)
def test_what_only_looks_like_it_is_left_alone(search: str, replace: str) -> None:
    assert refusal(TEXT, search, replace) in {"near_miss", "not_found"}


def test_numbers_are_stripped_only_if_allowed() -> None:
    assert refusal(TEXT, "4 |     return a\n", settings=Settings(strip_line_numbers=False)) in {
        "near_miss",
        "not_found",
    }


def test_copied_line_numbers_pick_among_equal_places() -> None:
    assert edited("a\nb\na\nc\n", "3 | a\n", "3 | x\n") == "a\nb\nx\nc\n"


# --- settings


@pytest.mark.parametrize("level", ["exact", "trailing_blanks", "look_alikes"])
def test_the_ladder_can_be_cut_short(level: str) -> None:
    assert refusal("\ta\n\tb\n", "a\nb\n", settings=Settings(loosest=level)) != ""  # pyright: ignore[reportArgumentType]


def test_indentation_can_be_made_to_count() -> None:
    assert refusal("\ta\n\tb\n", "a\nb\n", settings=Settings(preserve_indentation=False)) != ""


def test_a_line_number_picks_only_within_the_buffer() -> None:
    text = "x\n" + "\n" * 50 + "x\n"
    assert refusal(text + "y\n", "x", "z") == "ambiguous"
    with pytest.raises(EditError):
        apply(text, [Edit(search="x", replace="z", line=60)], settings=Settings(buffer_lines=5))
    assert apply(text, [Edit(search="x", replace="z", line=60)]).matches[0].line == 52
