"""Places that look alike: near twins, equal places with and without a line, and `all` with parts of words."""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random

from cases import Case, in_group
from kinds import unclear
from samples import Sample, key, places
from stale import indent_of, joined, sample, solid, with_line
from typed import CODE, Files

Lines = tuple[str, ...]
twins = in_group("twins")


def _near(rng: Random, block: Lines) -> Lines | None:
    """Return a block with one word or number of one line changed."""
    nth = rng.randrange(len(block))
    found = list(re.finditer(r"[A-Za-z_]{3,}|\d+", block[nth]))
    if not found:
        return None
    word = rng.choice(found)
    other = (
        str(int(word.group()) + rng.choice([1, 10]))
        if word.group().isdigit()
        else word.group() + rng.choice("s2_")
    )
    return with_line(block, nth, block[nth][: word.start()] + other + block[nth][word.end() :])


def _two(rng: Random, one: Sample, twin: Lines) -> tuple[Lines, int, int]:
    """Return a file with the block and a twin of it elsewhere, and where each begins."""
    size = len(one.old)
    if rng.random() < 0.5:
        end = rng.randrange(one.at + size, len(one.lines) + 1)
        return (*one.lines[:end], *twin, *one.lines[end:]), one.at, end
    start = rng.randrange(one.at + 1)
    return (*one.lines[:start], *twin, *one.lines[start:]), one.at + size, start


def _edited(file: Lines, at: int, one: Sample) -> bytes:
    return joined((*file[:at], *one.new, *file[at + len(one.old) :])).encode()


def _told(
    one: Sample, file: Lines, search: Lines, new: Lines, expected: bytes | None, **more: object
) -> Case | None:
    if search == new:
        return None
    made = Case(joined(file).encode(), joined(search), joined(new), expected, about=one.language)
    return replace(made, **more)


def _depth(one: Sample) -> str:
    """Return the indentation that all lines of a sample have in common."""
    every = [indent_of(line) for line in (*one.old, *one.new) if line.strip()]
    own = min(every, key=len)
    return own if all(each.startswith(own) for each in every) else ""


@twins
def a_near_twin_and_the_text_exact(rng: Random, files: Files) -> Case | None:
    """A near twin stands elsewhere, and `line` points at it: the text decides."""
    one = sample(rng, files, low=1)
    twin = _near(rng, one.old) if one else None
    if one is None or twin is None or places(one.lines, twin):
        return None
    file, at, other = _two(rng, one, twin)
    text = joined(file)
    if text.count(joined(one.old)) != 1:
        return None
    line = rng.choice([None, other + 1, at + 1])
    return _told(one, file, one.old, one.new, _edited(file, at, one), line=line)


@twins
def a_near_twin_and_the_text_dedented(rng: Random, files: Files) -> Case | None:
    """The text lost its indentation: it is that of one place, and of the other but for a word."""
    one = sample(rng, files, *CODE)
    twin = _near(rng, one.old) if one else None
    if one is None or twin is None or key("".join(twin)) == key("".join(one.old)) or places(one.lines, twin):
        return None
    own = _depth(one)
    file, at, _ = _two(rng, one, twin)
    if not own or places(file, one.old) != 1:
        return None
    search, new = (tuple(line.removeprefix(own) for line in lines) for lines in (one.old, one.new))
    if unclear(one, search, new):
        return None
    return _told(one, file, search, new, _edited(file, at, one))


@twins
def only_a_near_twin_is_left(rng: Random, files: Files) -> Case | None:
    """What is quoted is gone; what stands there differs in one word, which may be another thing."""
    one = sample(rng, files)
    twin = _near(rng, one.old) if one else None
    if one is None or twin is None or len(twin) != len(one.old):
        return None
    file = (*one.lines[: one.at], *twin, *one.lines[one.at + len(one.old) :])
    if places(file, one.old) or joined(one.old) in joined(file):
        return None
    line = rng.choice([None, one.at + 1])
    return _told(one, file, one.old, one.new, None, line=line)


@twins
def between_two_near_twins(rng: Random, files: Files) -> Case | None:
    """Two places differ from what is quoted, each in one word."""
    one = sample(rng, files)
    first = _near(rng, one.old) if one else None
    second = _near(rng, one.old) if one else None
    if one is None or first is None or second is None or first == second:
        return None
    there = replace(one, lines=(*one.lines[: one.at], *first, *one.lines[one.at + len(one.old) :]))
    file, at, other = _two(rng, there, second)
    if places(file, one.old) or joined(one.old) in joined(file):
        return None
    return _told(one, file, one.old, one.new, None, line=rng.choice([None, at + 1, other + 1]))


def _equal(rng: Random, files: Files) -> tuple[Sample, Lines, int, int] | None:
    one = sample(rng, files)
    if one is None:
        return None
    file, at, other = _two(rng, one, one.old)
    return None if joined(file).count(joined(one.old)) != 2 else (one, file, at, other)


@twins
def equal_places(rng: Random, files: Files) -> Case | None:
    found = _equal(rng, files)
    if found is None:
        return None
    one, file, at, _ = found
    return _told(one, file, one.old, one.new, None, wanted=_edited(file, at, one), where=at + 1)


@twins
def equal_places_and_the_line(rng: Random, files: Files) -> Case | None:
    found = _equal(rng, files)
    if found is None:
        return None
    one, file, at, _ = found
    return _told(one, file, one.old, one.new, _edited(file, at, one), line=at + 1)


@twins
def equal_places_and_a_stale_line(rng: Random, files: Files) -> Case | None:
    """The line is that of before: it points at neither place."""
    found = _equal(rng, files)
    if found is None:
        return None
    one, file, at, other = found
    line = at + 1 + rng.choice([-12, -5, -3, -2, -1, 1, 2, 3, 5, 12])
    if line in {at + 1, other + 1} or line < 1:
        return None
    return _told(one, file, one.old, one.new, None, line=line, wanted=_edited(file, at, one), where=at + 1)


@twins
def equal_places_at_another_depth(rng: Random, files: Files) -> Case | None:
    """Both places are deeper than what is quoted, each by as much as it likes."""
    one = sample(rng, files, *CODE)
    own = _depth(one) if one else ""
    if one is None or not own:
        return None
    twin = tuple("    " + line if line.strip() else line for line in one.old)
    file, at, _ = _two(rng, one, twin)
    sent = [tuple(line.removeprefix(own) for line in lines) for lines in (one.old, one.new)]
    if unclear(one, *sent):
        return None
    if joined(sent[0]) in "\n" + joined(file) and joined(file).count(joined(sent[0])) == 1:
        return None
    return _told(one, file, *sent, None, wanted=_edited(file, at, one), where=at + 1)


# --- all

every = in_group("all")
WORD = re.compile(r"\b[A-Za-z_]\w*\b")


def _all(source_language: str, text: str, search: str, new: str, expected: str | None) -> Case | None:
    if search == new or expected == text:
        return None
    right = None if expected is None else expected.encode()
    return Case(text.encode(), search, new, right, every=True, about=source_language)


@every
def a_name_that_longer_names_contain(rng: Random, files: Files) -> Case | None:
    source = files.pick(rng)
    text = joined(source.lines)
    words = sorted(set(WORD.findall(text)))
    name = rng.choice(words)
    whole = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
    if text.count(name) == len(whole.findall(text)) or len(name) > 12 or len(name) < 2:
        return None
    new = rng.choice(["renewed", f"self.{name}", f"{name}_two", "x"])
    return _all(source.language, text, name, new, whole.sub(lambda _: new, text))


@every
def an_expression_that_longer_ones_contain(rng: Random, files: Files) -> Case | None:
    """For example `b = 1` in `ab = 1` and `b = 10`."""
    source = files.pick(rng, *CODE)
    line = rng.choice(source.lines).strip()
    found = re.search(r"\w+ ?(?:=|\(|\.|,|==|->) ?\w+", line)
    if found is None:
        return None
    part = found.group()
    low, high = (rng.randrange(2) for _ in range(2))
    search = part[low : len(part) - high]
    if len(search) < 3 or not (search[0].isalnum() and search[-1].isalnum()):
        return None
    text = joined(source.lines)
    whole = re.compile(rf"(?<!\w){re.escape(search)}(?!\w)")
    rest = len(whole.findall(text))
    if rest == text.count(search):
        return None
    return _all(
        source.language, text, search, "renewed = 7", whole.sub("renewed = 7", text) if rest else None
    )


@every
def the_end_of_a_name(rng: Random, files: Files) -> Case | None:
    """SEARCH begins with a dot or a bracket and ends within longer names."""
    source = files.pick(rng, *CODE)
    text = joined(source.lines)
    names = re.findall(r"\.[a-z_]\w{2,}", text)
    if not names:
        return None
    search = rng.choice(names)[: rng.choice([4, 5, 6])]
    whole = re.compile(rf"{re.escape(search)}(?!\w)")
    rest = len(whole.findall(text))
    if rest == text.count(search):
        return None
    return _all(source.language, text, search, ".renewed", whole.sub(".renewed", text) if rest else None)


@every
def each_equal_line(rng: Random, files: Files) -> Case | None:
    source = files.pick(rng)
    counts: dict[str, int] = {}
    for line in source.lines:
        counts[line] = counts.get(line, 0) + 1
    lines = [line for line, count in counts.items() if count > 1 and solid(line)]
    if not lines:
        return None
    line = rng.choice(lines)
    new = indent_of(line) + "renewed line"
    text = joined(source.lines)
    if text.count(line + "\n") != counts[line]:
        return None
    return _all(source.language, text, line + "\n", new + "\n", text.replace(line + "\n", new + "\n"))


@every
def each_equal_sign_or_phrase(rng: Random, files: Files) -> Case | None:
    """What neither begins nor ends with a letter of a word is replaced literally, everywhere."""
    source = files.pick(rng)
    text = joined(source.lines)
    search = rng.choice([" == ", ", ", "();", " -> ", "--", "://", "(&", " {", "</", '": "'])
    if text.count(search) < 2:
        return None
    new = search + search[-1] if search != "--" else "++"
    return _all(source.language, text, search, new, text.replace(search, new))
