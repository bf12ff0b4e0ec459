"""The kinds of drift for which the only right outcome is a refusal: stale code, two places, text that is
not there.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from kinds import Case, code, common_indent, curled, doubled, indent_of, joined, kind
from samples import Sample, draw, places

if TYPE_CHECKING:
    from random import Random

    from corpus import Source


def stale(sample: Sample, nth: int, line: str) -> Case | None:
    """Return the case of a SEARCH whose line ``nth`` is not what the file has."""
    search = (*sample.old[:nth], line, *sample.old[nth + 1 :])
    if line == sample.old[nth] or places(sample.lines, search):
        return None
    new = tuple(line if one == sample.old[nth] else one for one in sample.new)
    if new == search:
        return None
    return Case(joined(sample.lines).encode(), joined(search), joined(new), None)


def substituted(rng: Random, sample: Sample, pattern: str, change: dict[str, str]) -> Case | None:
    found = [(nth, hit) for nth, line in enumerate(sample.old) for hit in re.finditer(pattern, line)]
    if not found:
        return None
    nth, hit = rng.choice(found)
    line = sample.old[nth]
    return stale(
        sample, nth, line[: hit.start()] + change.get(hit.group(), change.get("", "")) + line[hit.end() :]
    )


@kind
def stale_digit(rng: Random, sources: list[Source]) -> Case | None:
    sample = draw(rng, sources)
    digits = "0123456789"
    return substituted(
        rng,
        sample,
        r"\d",
        {digit: digits[(nth + 1 + rng.randrange(8)) % 10] for nth, digit in enumerate(digits)},
    )


@kind
def stale_digit_appended(rng: Random, sources: list[Source]) -> Case | None:
    sample = code(rng, sources, low=1, high=4)
    found = [(nth, hit) for nth, line in enumerate(sample.old) for hit in re.finditer(r"\d\b", line)]
    if not found:
        return None
    nth, hit = rng.choice(found)
    line = sample.old[nth]
    return stale(sample, nth, line[: hit.end()] + "0" + line[hit.end() :])


@kind
def stale_operator(rng: Random, sources: list[Source]) -> Case | None:
    change = {
        "==": "!=",
        "!=": "==",
        "<=": "<",
        ">=": ">",
        "<": "<=",
        ">": ">=",
        "+": "-",
        "-": "+",
        "&&": "||",
        "||": "&&",
    }
    return substituted(rng, code(rng, sources), r"(?<= )(?:==|!=|<=|>=|<|>|\+|-|&&|\|\|)(?= )", change)


@kind
def stale_keyword(rng: Random, sources: list[Source]) -> Case | None:
    change = {
        "and": "or",
        "or": "and",
        "if": "elif",
        "True": "False",
        "False": "True",
        "return": "yield",
        "true": "false",
        "false": "true",
        "let": "var",
        "const": "let",
        "is": "in",
        "in": "is",
    }
    pattern = r"\b(?:and|or|if|True|False|return|true|false|let|const)\b"
    return substituted(rng, code(rng, sources), pattern, change)


@kind
def lost_negation(rng: Random, sources: list[Source]) -> Case | None:
    return substituted(rng, code(rng, sources), r"\bnot |(?<=[( ])!(?=\w)", {"": ""})


@kind
def added_negation(rng: Random, sources: list[Source]) -> Case | None:
    sample = draw(rng, sources, language="python")
    return substituted(rng, sample, r"\bif (?!not)", {"if ": "if not "})


@kind
def stale_string(rng: Random, sources: list[Source]) -> Case | None:
    sample = code(rng, sources)
    found = [
        (nth, hit)
        for nth, line in enumerate(sample.old)
        for hit in re.finditer(r"""(["'])([a-z]{4,})\1""", line)
    ]
    if not found:
        return None
    nth, hit = rng.choice(found)
    line, (low, high) = sample.old[nth], hit.span(2)
    word = hit.group(2)
    at = rng.randrange(1, len(word) - 1)
    changed = rng.choice([word[:at] + word[at + 1 :], word[:at] + "q" + word[at:], "other"])
    return stale(sample, nth, line[:low] + changed + line[high:])


@kind
def stale_name(rng: Random, sources: list[Source]) -> Case | None:
    return substituted(rng, code(rng, sources), r"\b[a-z]{4,}\b(?=[(.\[])", {"": "another"})


@kind
def substituted_letter(rng: Random, sources: list[Source]) -> Case | None:
    sample = code(rng, sources)
    found = [
        (nth, hit)
        for nth, line in enumerate(sample.old)
        for hit in re.finditer(r"\b[a-z]{5,}\b(?=[(.\[])", line)
    ]
    if not found:
        return None
    nth, hit = rng.choice(found)
    at = rng.randrange(hit.start() + 1, hit.end() - 1)
    line = sample.old[nth]
    return stale(sample, nth, line[:at] + ("z" if line[at] != "z" else "q") + line[at + 1 :])


@kind
def singular_for_plural(rng: Random, sources: list[Source]) -> Case | None:
    return _inflected(rng, code(rng, sources), r"\b[a-z_]{4,}[a-rt-z](?=[\s(.\[,)])", "s")


@kind
def another_ending(rng: Random, sources: list[Source]) -> Case | None:
    return _inflected(rng, code(rng, sources), r"\b[a-z_]{4,}e(?=[\s(.\[,)])", rng.choice("drs"))


def _inflected(rng: Random, sample: Sample, pattern: str, ending: str) -> Case | None:
    found = [(nth, hit) for nth, line in enumerate(sample.old) for hit in re.finditer(pattern, line)]
    if not found:
        return None
    nth, hit = rng.choice(found)
    line = sample.old[nth]
    return stale(sample, nth, line[: hit.end()] + ending + line[hit.end() :])


@kind
def another_case(rng: Random, sources: list[Source]) -> Case | None:
    sample = code(rng, sources)
    found = [
        (nth, hit)
        for nth, line in enumerate(sample.old)
        for hit in re.finditer(r"\b[a-z]{4,}\b(?=[(.\[])", line)
    ]
    if not found:
        return None
    nth, hit = rng.choice(found)
    line = sample.old[nth]
    search = (
        *sample.old[:nth],
        line[: hit.start()] + hit.group().upper() + line[hit.end() :],
        *sample.old[nth + 1 :],
    )
    new = tuple(search[nth] if one == line else one for one in sample.new)
    return None if search == new else Case(joined(sample.lines).encode(), joined(search), joined(new), None)


@kind
def line_missing_in_search(rng: Random, sources: list[Source]) -> Case | None:
    sample = code(rng, sources, low=4)
    nth = rng.randrange(1, len(sample.old) - 1)
    line = sample.old[nth]
    if not line.strip() or nth == sample.changed or sample.old.count(line) > 1:
        return None
    search, new = (tuple(one for one in lines if one != line) for lines in (sample.old, sample.new))
    return (
        None
        if places(sample.lines, search)
        else Case(joined(sample.lines).encode(), joined(search), joined(new), None)
    )


@kind
def line_too_many_in_search(rng: Random, sources: list[Source]) -> Case | None:
    sample = code(rng, sources, low=3)
    nth = rng.randrange(1, len(sample.old))
    extra = indent_of(sample.old[nth]) + "invented()"
    return Case(
        joined(sample.lines).encode(),
        joined((*sample.old[:nth], extra, *sample.old[nth:])),
        joined((*sample.new[:1], extra, *sample.new[1:])),
        None,
    )


@kind
def lines_swapped(rng: Random, sources: list[Source]) -> Case | None:
    sample = code(rng, sources, low=3)
    nth = rng.randrange(len(sample.old) - 1)
    one, two = sample.old[nth : nth + 2]
    search = (*sample.old[:nth], two, one, *sample.old[nth + 2 :])
    if not one.strip() or not two.strip() or places(sample.lines, search):
        return None
    return Case(joined(sample.lines).encode(), joined(search), joined((*search, "added()")), None)


@kind
def statement_swallowed(rng: Random, sources: list[Source]) -> Case | None:
    sample = code(rng, sources, low=3)
    indents = [indent_of(line) for line in sample.old]
    last = sample.old[-1]
    if len(indents[-2]) <= len(indents[-1]) or not sample.old[-2].strip():
        return None
    base = common_indent(sample.old)
    search = (
        *(line.removeprefix(base) for line in sample.old[:-1]),
        indents[-2].removeprefix(base) + last.strip(),
    )
    return Case(
        joined(sample.lines).encode(), joined(search), joined((*search[:-1], search[-1] + " renewed")), None
    )


@kind
def nowhere(rng: Random, sources: list[Source]) -> Case | None:
    one, other = code(rng, sources), code(rng, sources)
    if places(one.lines, other.old):
        return None
    return Case(joined(one.lines).encode(), joined(other.old), joined(other.new), None)


@kind
def duplicate(rng: Random, sources: list[Source]) -> Case | None:
    sample, _ = doubled(rng, sources)
    return Case(joined(sample.lines).encode(), joined(sample.old), joined(sample.new), None)


@kind
def duplicate_at_another_depth(rng: Random, sources: list[Source]) -> Case | None:
    sample = code(rng, sources, low=2, high=6)
    base = common_indent(sample.old)
    if len(base) < 2:
        return None
    deeper = tuple("    " + line if line else line for line in sample.old)
    lines = (*sample.lines, *deeper)
    search, new = (tuple(line.removeprefix(base) for line in part) for part in (sample.old, sample.new))
    return None if search == new else Case(joined(lines).encode(), joined(search), joined(new), None)


@kind
def duplicate_but_for_quotes(rng: Random, sources: list[Source]) -> Case | None:
    """Both places differ from SEARCH, each by look-alikes of its own."""
    sample = code(rng, sources, low=2, high=6)
    text = "".join(sample.old)
    if text.count('"') < 2 or re.search("[‘’“”„]", text):
        return None
    one = tuple(line.replace('"', "“") for line in sample.old)
    two = tuple(line.replace('"', "”") for line in sample.old)
    lines = (*sample.lines[: sample.at], *one, *sample.lines[sample.at + len(sample.old) :], *two)
    return Case(joined(lines).encode(), joined(sample.old), joined(sample.new), None)


@kind
def duplicate_and_a_line_between(rng: Random, sources: list[Source]) -> Case | None:
    sample, second = doubled(rng, sources)
    middle = (sample.at + second) // 2 + 1
    return Case(joined(sample.lines).encode(), joined(sample.old), joined(sample.new), None, middle)


@kind
def typo_with_a_rival(rng: Random, sources: list[Source]) -> Case | None:
    """The block stands twice, in each place with one other letter lost; SEARCH has neither slip."""
    sample = code(rng, sources, low=3, high=6)
    words = [(nth, hit) for nth, line in enumerate(sample.old) for hit in re.finditer("[a-z]{7,}", line)]
    if not words:
        return None
    nth, hit = rng.choice(words)
    line = sample.old[nth]
    one = line[: hit.start() + 2] + line[hit.start() + 3 :]
    two = line[: hit.start() + 4] + line[hit.start() + 5 :]
    if len({one, two, line}) < 3:
        return None
    first = (*sample.old[:nth], one, *sample.old[nth + 1 :])
    second = (*sample.old[:nth], two, *sample.old[nth + 1 :])
    lines = (*sample.lines[: sample.at], *first, *sample.lines[sample.at + len(sample.old) :], *second)
    return Case(joined(lines).encode(), joined(sample.old), joined(sample.new), None)


@kind
def curly_twin_of_stale_code(rng: Random, sources: list[Source]) -> Case | None:
    made = stale_digit(rng, sources)
    if made is None or curled(made.search) == made.search:
        return None
    return replace(made, search=curled(made.search), replace=curled(made.replace))


@kind
def rest_of_code_in_replace(rng: Random, sources: list[Source]) -> Case | None:
    sample = code(rng, sources, low=5)
    new = (
        *sample.new[:2],
        rng.choice(["# ... rest of code ...", "// ... existing code ...", "    # rest of the function"]),
    )
    return Case(joined(sample.lines).encode(), joined(sample.old), joined(new), None)
