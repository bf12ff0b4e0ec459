"""The kinds of drift. Each takes a random generator and the corpus, and gives one case with one right
outcome.
"""

from __future__ import annotations

import codecs
import html
import json
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from cases import GROUPS, Case, Kind, register, rightly_refused
from columns import OPENERS, can_be_literal
from corpus import Source
from samples import WORD, Sample, draw, key, places

Lines = tuple[str, ...]


KINDS = GROUPS.setdefault("drift", {})


def kind(make: Kind) -> Kind:
    """Register a kind of drift under its function's name."""
    return register("drift", make)


def joined(lines: Lines, end: str = "\n") -> str:
    return "".join(line + end for line in lines)


def case(
    sample: Sample,
    search: Lines | None = None,
    new: Lines | None = None,
    *,
    end: str = "\n",
    line: int | None = None,
    encoding: str = "utf-8",
) -> Case | None:
    """Build a case from a sample and the drifted lines; None if they fit in a second place.

    A line that the edit changes may also be written as it was sent, if its depth is right.
    """
    search = sample.old if search is None else search
    new = sample.new if new is None else new
    if places(sample.lines, search) > 1 or search == new or unclear(sample, search, new):
        return None
    try:
        text, expected = (joined(lines, end).encode(encoding) for lines in (sample.lines, sample.expected))
    except UnicodeEncodeError:
        return None
    made = Case(text, joined(search), joined(new), expected, line)
    also = as_sent(sample, search, new)
    if also is None or encoding != "utf-8":
        return made
    return replace(made, also=(joined((*sample.lines[: sample.at], *also, *_below(sample)), end).encode(),))


def _below(sample: Sample) -> Lines:
    return sample.lines[sample.at + len(sample.old) :]


def as_sent(sample: Sample, search: Lines, new: Lines) -> Lines | None:
    """Return the lines of the result with those that the edit changes as they were sent."""
    if len(search) != len(sample.old) or len(new) != len(sample.new):
        return None
    there = dict(zip(search, sample.old, strict=True))
    lines = tuple(there.get(line, line) for line in new)
    fits = all(
        indent_of(one) == indent_of(two) for one, two in zip(lines, sample.new, strict=True) if two.strip()
    )
    return lines if fits and lines != sample.new else None


def unclear(sample: Sample, search: Lines, new: Lines) -> bool:
    """Tell whether a single line without its indentation may also have new lines at the columns as sent."""
    if len(search) > 1 or len(new) < 2 or search[0] == sample.old[0]:
        return False
    below = sample.lines[sample.at + 1 :]
    after = next((line for line in below if line.strip()), "")
    deeper = len(indent_of(after)) > len(indent_of(sample.old[0]))
    opens = deeper or sample.old[0].rstrip().endswith(OPENERS)  # made-up lines below it are not deeper
    return sample.old[0].endswith(search[0]) and (opens or can_be_literal(sample.language, below, new))


def indent_of(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def drifted(sample: Sample, drift: Callable[[str], str]) -> Case | None:
    """Apply one drift to every line of SEARCH and REPLACE; None if it leaves SEARCH as it was."""
    search = tuple(map(drift, sample.old))
    return None if search == sample.old else case(sample, search, tuple(map(drift, sample.new)))


def code(rng: Random, sources: list[Source], **limits: int) -> Sample:
    return draw(rng, sources, language=rng.choice(["python", "python", "javascript"]), **limits)


# --- nothing drifted


@kind
def exact(rng: Random, sources: list[Source]) -> Case | None:
    return case(draw(rng, sources))


@kind
def exact_single_line(rng: Random, sources: list[Source]) -> Case | None:
    return case(draw(rng, sources, low=1, high=1))


@kind
def part_of_a_line(rng: Random, sources: list[Source]) -> Case | None:
    sample = code(rng, sources, low=1, high=1)
    tokens = [found.span() for found in re.finditer(r"\w+|[^\w\s]+", sample.old[0])]
    if len(tokens) < 5:
        return None
    first = rng.randrange(len(tokens) - 3)
    start, end = tokens[first][0], tokens[rng.randrange(first + 2, len(tokens))][1]
    line = sample.old[0]
    search = line[start:end]
    if sum(there.count(search) for there in sample.lines) != 1:
        return None
    new = f"replaced{rng.randrange(100)}"
    return _with_line(sample, search, new, line[:start] + new + line[end:])


def _with_line(sample: Sample, search: str, new: str, line: str) -> Case:
    expected = (*sample.lines[: sample.at], line, *sample.lines[sample.at + 1 :])
    return Case(joined(sample.lines).encode(), search, new, joined(expected).encode())


@kind
def part_of_a_line_with_curly_quotes(rng: Random, sources: list[Source]) -> Case | None:
    made = part_of_a_line(rng, sources)
    if made is None or '"' not in made.search:
        return None
    return replace(made, search=curled(made.search))


@kind
def part_of_a_line_with_blanks(rng: Random, sources: list[Source]) -> Case | None:
    made = part_of_a_line(rng, sources)
    if made is None or ", " not in made.search or re.search("[\"'`#]", made.search):
        return None
    return replace(made, search=made.search.replace(", ", ",  "))


@kind
def single_line_without_indentation(rng: Random, sources: list[Source]) -> Case | None:
    sample = code(rng, sources, low=1, high=1)
    indent = indent_of(sample.old[0])
    if not indent or not all(line.startswith(indent) for line in sample.new if line):
        return None
    search, new = (tuple(line.removeprefix(indent) for line in lines) for lines in (sample.old, sample.new))
    if places(sample.lines, search) != 1 or unclear(sample, search, new):
        return None
    return (
        Case(joined(sample.lines).encode(), search[0], "\n".join(new), joined(sample.expected).encode())
        if new
        else None
    )


# --- line ends


@kind
def crlf_file(rng: Random, sources: list[Source]) -> Case | None:
    return case(draw(rng, sources), end="\r\n")


@kind
def crlf_search(rng: Random, sources: list[Source]) -> Case | None:
    made = case(draw(rng, sources))
    return made and replace(
        made, search=made.search.replace("\n", "\r\n"), replace=made.replace.replace("\n", "\r\n")
    )


@kind
def carriage_returns_only(rng: Random, sources: list[Source]) -> Case | None:
    return case(draw(rng, sources), end="\r")


@kind
def mixed_line_ends(rng: Random, sources: list[Source]) -> Case | None:
    sample = draw(rng, sources)
    if len(sample.old) > len(sample.new) or places(sample.lines, sample.old) != 1:
        return None
    if sample.old[0] != sample.new[0] or sample.old[-1] != sample.new[-1]:
        return None  # a new line at the edge may get the end of the lines beyond it
    ends = [rng.choice(["\n", "\r\n"]) for _ in sample.lines]
    inside = rng.choice(["\n", "\r\n"])
    stop = sample.at + len(sample.old)
    ends[sample.at : stop] = [inside] * len(sample.old)
    text = "".join(line + end for line, end in zip(sample.lines, ends, strict=True))
    before = "".join(line + end for line, end in zip(sample.lines[: sample.at], ends, strict=False))
    after = "".join(line + end for line, end in zip(sample.lines[stop:], ends[stop:], strict=True))
    expected = before + joined(sample.new, inside) + after
    return Case(text.encode(), joined(sample.old), joined(sample.new), expected.encode())


@kind
def no_final_newline(rng: Random, sources: list[Source]) -> Case | None:
    sample = draw(rng, sources, low=2, high=6)
    cut = replace(sample, lines=sample.lines[: sample.at + len(sample.old)])
    if places(cut.lines, cut.old) != 1 or not cut.new or cut.new[-1].strip() == "":
        return None
    text, expected = (joined(lines).removesuffix("\n").encode() for lines in (cut.lines, cut.expected))
    if rng.random() < 0.5:
        return Case(text, joined(cut.old), joined(cut.new), expected)
    return Case(text, joined(cut.old).removesuffix("\n"), joined(cut.new).removesuffix("\n"), expected)


# --- trailing blanks


@kind
def trailing_blanks_in_search(rng: Random, sources: list[Source]) -> Case | None:
    return drifted(draw(rng, sources), lambda line: line + "  ")


@kind
def trailing_blanks_in_some_lines(rng: Random, sources: list[Source]) -> Case | None:
    sample = draw(rng, sources)
    marked = {line for line in sample.old if rng.random() < 0.5}
    return drifted(sample, lambda line: line + " \t" if line in marked else line)


@kind
def trailing_blanks_in_file(rng: Random, sources: list[Source]) -> Case | None:
    sample = draw(rng, sources)
    if sample.old[sample.changed] not in sample.new:
        return None
    spaced = tuple(
        line + "   " if sample.at <= nth < sample.at + len(sample.old) else line
        for nth, line in enumerate(sample.lines)
    )
    new = tuple(line + "   " if line in sample.old else line for line in sample.new)
    if sum(line in sample.old for line in sample.new) != len(sample.old):
        return None
    there = replace(sample.with_file(spaced), new=new)
    return case(there, sample.old, sample.new)


@kind
def markdown_break_on_the_changed_line(rng: Random, sources: list[Source]) -> Case | None:
    sample = draw(rng, sources, language="guide")
    if len(sample.new) != len(sample.old):
        return None
    spaced = tuple(line + "  " if line == sample.old[sample.changed] else line for line in sample.lines)
    new = tuple(line + "  " if nth == sample.changed else line for nth, line in enumerate(sample.new))
    return case(replace(sample.with_file(spaced), new=new), sample.old, sample.new)


# --- indentation


def dedent(lines: Lines, indent: str) -> Lines:
    return tuple(line.removeprefix(indent) for line in lines)


def common_indent(lines: Lines) -> str:
    indents = [indent_of(line) for line in lines if line.strip()]
    least = min(indents, key=len)
    return least if all(indent.startswith(least) for indent in indents) else ""


@kind
def dedented(rng: Random, sources: list[Source]) -> Case | None:
    sample = code(rng, sources)
    indent = common_indent((*sample.old, *sample.new))
    return case(sample, dedent(sample.old, indent), dedent(sample.new, indent)) if indent else None


@kind
def partly_dedented(rng: Random, sources: list[Source]) -> Case | None:
    sample = code(rng, sources)
    indent = common_indent((*sample.old, *sample.new))
    if len(indent) < 4:
        return None
    return case(sample, dedent(sample.old, indent[:2]), dedent(sample.new, indent[:2]))


@kind
def indented_too_much(rng: Random, sources: list[Source]) -> Case | None:
    extra = rng.choice(["    ", "  ", "\t"])
    sample = code(rng, sources)
    if extra == "\t" and any(indent_of(line) for line in sample.old):
        return None
    return drifted(sample, lambda line: extra + line if line else line)


@kind
def only_the_start_stripped(rng: Random, sources: list[Source]) -> Case | None:
    sample = code(rng, sources)
    if not indent_of(sample.old[0]) or not sample.new or indent_of(sample.new[0]) != indent_of(sample.old[0]):
        return None
    if len({indent_of(line) for line in sample.old[1:] if line.strip()}) < 2:
        return None
    made = case(sample)
    return made and replace(made, search=made.search.lstrip(), replace=made.replace.lstrip())


@kind
def search_dedented_but_not_replace(rng: Random, sources: list[Source]) -> Case | None:
    sample = code(rng, sources)
    indent = common_indent(sample.old)
    kept = [line for line in sample.new if line in sample.old and line.strip()]
    if not indent or common_indent(sample.new) != indent or not kept:
        return None
    return case(sample, dedent(sample.old, indent))


def steps(line: str, one: str, other: str) -> str | None:
    """Write an indentation of whole steps with another step."""
    indent = indent_of(line)
    if len(indent) % len(one) or indent.strip(one[0]):
        return None
    return other * (len(indent) // len(one)) + line[len(indent) :]


def rescaled(lines: Lines, one: str, other: str) -> Lines | None:
    found = [steps(line, one, other) for line in lines]
    return None if any(line is None for line in found) else tuple(line or "" for line in found)


def reindented_case(
    sample: Sample, file: tuple[str, str], sent: tuple[str, str], *, whole_file: bool
) -> Case | None:
    """Rewrite the file's indentation by one scale, and SEARCH's by another."""
    if not any(indent_of(line) for line in sample.old):
        return None
    search, new = rescaled(sample.old, *sent), rescaled(sample.new, *sent)
    if search is None or new is None:
        return None
    if not whole_file:
        return None if search == sample.old else case(sample, search, new)
    lines = [steps(line, *file) for line in sample.lines]
    written = rescaled(sample.new, *file)
    if written is None:
        return None
    there = tuple(one if one is not None else two for one, two in zip(lines, sample.lines, strict=True))
    moved = replace(sample.with_file(there), new=written)
    return None if moved.old == search else case(moved, search, new)


@kind
def tabs_in_file(rng: Random, sources: list[Source]) -> Case | None:
    sample = draw(rng, sources, language="python")
    return reindented_case(sample, ("    ", "\t"), ("    ", "    "), whole_file=True)


@kind
def tabs_in_search(rng: Random, sources: list[Source]) -> Case | None:
    sample = draw(rng, sources, language="python")
    return reindented_case(sample, ("    ", "    "), ("    ", "\t"), whole_file=False)


@kind
def two_blanks_for_four(rng: Random, sources: list[Source]) -> Case | None:
    sample = draw(rng, sources, language="python", low=3)
    return reindented_case(sample, ("    ", "    "), ("    ", "  "), whole_file=False)


@kind
def four_blanks_for_two(rng: Random, sources: list[Source]) -> Case | None:
    sample = draw(rng, sources, language="javascript", low=3)
    return reindented_case(sample, ("  ", "  "), ("  ", "    "), whole_file=False)


@kind
def tabs_in_file_and_a_new_block(rng: Random, sources: list[Source]) -> Case | None:
    sample = draw(rng, sources, language="python", low=2, high=6)
    indents = {indent_of(line) for line in sample.old if line.strip()}
    if len(indents) < 2:
        return None
    line = sample.old[sample.changed]
    indent = indent_of(line)
    block = (line, f"{indent}if added{rng.randrange(100)}:", f"{indent}    nested()", f"{indent}outer()")
    new = (*sample.old[: sample.changed], *block, *sample.old[sample.changed + 1 :])
    return reindented_case(replace(sample, new=new), ("    ", "\t"), ("    ", "    "), whole_file=True)


@kind
def dedented_with_a_new_block(rng: Random, sources: list[Source]) -> Case | None:
    sample = draw(rng, sources, language="python", low=1, high=4)
    indent = common_indent(sample.old)
    if not indent or len(indent) % 4:
        return None
    line = sample.old[-1]
    own = indent_of(line)
    new = (*sample.old, f"{own}if added{rng.randrange(100)}:", f"{own}    nested()")
    return case(sample_with(sample, new), dedent(sample.old, indent), dedent(new, indent))


def sample_with(sample: Sample, new: Lines) -> Sample:
    return replace(sample, new=new)


# --- look-alikes


def curled(text: str) -> str:
    text = re.sub(r'"([^"\n]*)"', r"“\1”", text)
    return re.sub(r"'([^'\n]*)'", r"‘\1’", text)


@kind
def curly_quotes_in_search(rng: Random, sources: list[Source]) -> Case | None:
    sample = code(rng, sources)
    if re.search("[‘’“”]", "".join(sample.old)):
        return None
    return drifted(sample, curled)


@kind
def curly_quotes_on_the_changed_line(rng: Random, sources: list[Source]) -> Case | None:
    sample = code(rng, sources, low=1, high=3)
    if len(sample.new) != len(sample.old) or curled(sample.old[sample.changed]) == sample.old[sample.changed]:
        return None
    return drifted(sample, curled)


@kind
def curly_quotes_in_file(rng: Random, sources: list[Source]) -> Case | None:
    sample = draw(rng, sources, language="guide")
    lines = tuple(
        re.sub(r"(\w)'(\w)", r"\1’\2", re.sub(r'"([^"]*)"', r"“\1”", line)) for line in sample.lines
    )
    there = sample.with_file(lines)
    if there.old == sample.old:
        return None
    new = tuple(there.old[sample.old.index(line)] if line in sample.old else line for line in sample.new)
    if len(sample.new) == len(sample.old):
        nth = sample.changed
        if there.old[nth] != sample.old[nth]:
            return None
    return case(replace(there, new=new), sample.old, sample.new)


@kind
def long_dashes(rng: Random, sources: list[Source]) -> Case | None:
    sample = draw(rng, sources)
    return drifted(sample, lambda line: re.sub(r"(?<=\w)-(?=\w)", "\u2011", line))


@kind
def ellipsis_character(rng: Random, sources: list[Source]) -> Case | None:
    sample = draw(rng, sources)
    if any(line.strip(" #/*").startswith("...") for line in sample.old):
        return None
    return drifted(sample, lambda line: line.replace("...", "…"))


@kind
def no_break_spaces_in_search(rng: Random, sources: list[Source]) -> Case | None:
    sample = draw(rng, sources)
    return drifted(sample, lambda line: re.sub(r"(?<=\w) (?=\w)", "\u00a0", line))


@kind
def no_break_spaces_in_file(rng: Random, sources: list[Source]) -> Case | None:
    sample = draw(rng, sources, language="guide")
    if len(sample.new) <= len(sample.old):
        return None
    lines = tuple(
        re.sub(r"(?<=\w) (?=\w)", "\u00a0", line) if rng.random() < 0.3 else line for line in sample.lines
    )
    there = sample.with_file(lines)
    if there.old == sample.old or sum(line in sample.old for line in sample.new) != len(sample.old):
        return None
    new = tuple(there.old[sample.old.index(line)] if line in sample.old else line for line in sample.new)
    return case(replace(there, new=new), sample.old, sample.new)


ACCENTS = {"a": "á", "e": "é", "o": "ö", "u": "ü", "n": "ñ"}


def accented(line: str) -> str:
    return re.sub(r"(?<=\w)[aeoun](?=\w)", lambda found: ACCENTS[found.group()], line)


@kind
def decomposed_search(rng: Random, sources: list[Source]) -> Case | None:
    sample = draw(rng, sources, language="guide")
    there = replace(
        sample.with_file(tuple(map(accented, sample.lines))), new=tuple(map(accented, sample.new))
    )
    return drifted(there, lambda line: unicodedata.normalize("NFD", line))


@kind
def decomposed_file(rng: Random, sources: list[Source]) -> Case | None:
    sample = draw(rng, sources, language="nihongo")
    if sum(line in sample.old for line in sample.new) != len(sample.old):
        return None
    there = sample.with_file(tuple(unicodedata.normalize("NFD", line) for line in sample.lines))
    if there.old == sample.old:
        return None
    new = tuple(there.old[sample.old.index(line)] if line in sample.old else line for line in sample.new)
    return case(replace(there, new=new), sample.old, sample.new)


HALF = str.maketrans("，。：；！？（）", ",｡:;!?()")


@kind
def half_width_punctuation_in_search(rng: Random, sources: list[Source]) -> Case | None:
    sample = draw(rng, sources, language=rng.choice(["nihongo", "zhongwen"]))
    if sum(line in sample.old for line in sample.new) != len(sample.old):
        return None
    return drifted(sample, lambda line: line.translate(HALF) if line in sample.old else line)


@kind
def full_width_punctuation_in_search(rng: Random, sources: list[Source]) -> Case | None:
    sample = draw(rng, sources, language="zhongwen")
    lines = tuple(line.translate(str.maketrans("，：；！？（）", ",:;!?()")) for line in sample.lines)
    new = tuple(line.translate(str.maketrans("，：；！？（）", ",:;!?()")) for line in sample.new)
    there = replace(sample.with_file(lines), new=new)
    return drifted(there, lambda line: line.translate(str.maketrans(",:;?()", "，：；？（）")))


@kind
def look_alikes_on_a_changed_cjk_line(rng: Random, sources: list[Source]) -> Case | None:
    sample = draw(rng, sources, language=rng.choice(["nihongo", "zhongwen"]))
    line = sample.old[sample.changed]
    at = [found.start() for found in re.finditer(r"[\u4e00-\u9fff]", line)]
    if not at or line.translate(HALF) == line:
        return None
    where = rng.choice(at)
    changed = line[:where] + "新" + line[where:]
    new = (*sample.old[: sample.changed], changed, *sample.old[sample.changed + 1 :])
    search = tuple(one.translate(HALF) for one in sample.old)
    return case(replace(sample, new=new), search, tuple(one.translate(HALF) for one in new))


# --- the changed line itself drifted in the file

FILE_DRIFTS: dict[str, Callable[[str], str]] = {
    "curly": curled,
    "ellipsis": lambda line: line.replace("...", "…"),
    "dash": lambda line: re.sub(r"(?<=\w)-(?=\w)", "–", re.sub(r" - ", " — ", line)),
    "no-break": lambda line: re.sub(r"(?<=\w) (?=\w)", "\u00a0", line),
    "aligned": lambda line: outside_strings(line, lambda text: re.sub(r"(?<=\w) = (?=\w)", "    = ", text)),
    "loose": lambda line: outside_strings(line, lambda text: re.sub(r"\((?=\w)", "( ", text)),
    "trailing": lambda line: line + "  ",
    "composed": lambda line: unicodedata.normalize("NFD", line),
    "wide": lambda line: line.translate(str.maketrans(",:;?()", "，：；？（）")),
}


@kind
def a_word_changed_on_a_line_that_drifted_in_the_file(rng: Random, sources: list[Source]) -> Case | None:
    return _drifted_and_changed(rng, sources, rng.choice(list(FILE_DRIFTS)), None)


@kind
def a_word_changed_on_a_line_that_drifted_twice(rng: Random, sources: list[Source]) -> Case | None:
    one, two = rng.sample(list(FILE_DRIFTS), 2)
    return _drifted_and_changed(rng, sources, one, two)


@dataclass(frozen=True, slots=True)
class Trailing(Case):
    """Lines that the edit changes may end in the blanks that were sent, too."""

    def accepts(self, written: bytes) -> bool:
        lines, right = (data.decode().split("\n") for data in (written, self.expected or b""))
        changed = set(right) - set(self.text.decode().split("\n"))
        alike = len(lines) == len(right) and all(
            one == two or (two in changed and one.rstrip() == two.rstrip())
            for one, two in zip(lines, right, strict=True)
        )
        return alike or written in self.also


def _drifted_and_changed(rng: Random, sources: list[Source], one: str, two: str | None) -> Case | None:
    """Drift a line of the file; SEARCH has it undrifted, and REPLACE changes words of it."""
    prose = {"curly", "no-break", "wide", "dash", "composed"}
    clean = draw(rng, sources, low=1, high=4, language="" if one not in prose else "guide")
    nth = clean.changed
    line = clean.old[nth]
    drift = both(FILE_DRIFTS[one], FILE_DRIFTS[two] if two else str)
    words = [found.group() for found in WORD.finditer(line) if line.count(found.group()) == 1]
    if (
        not words
        or drift(line) in {line, ""}
        or (one == "wide" and not re.search("[a-z]{3}, [a-z]{3}", line))
    ):
        return None
    picked = rng.sample(words, min(len(words), rng.choice([1, 1, 2, 3])))
    names = {word: rng.choice(["renewed", "other_name", "Xy"]) + str(rng.randrange(10)) for word in picked}
    there = drift(line)
    if any(there.count(word) != 1 for word in names):
        return None
    new, expected = line, there
    for word, name in names.items():
        new, expected = new.replace(word, name), expected.replace(word, name)
    lines = (*clean.lines[: clean.at + nth], there, *clean.lines[clean.at + nth + 1 :])
    moved = clean.with_file(lines)
    right = replace(moved, new=(*moved.old[:nth], expected, *moved.old[nth + 1 :]))
    made = case(right, clean.old, (*clean.old[:nth], new, *clean.old[nth + 1 :]))
    return made and Trailing(made.text, made.search, made.replace, made.expected, also=made.also)


# --- blanks inside a line


def outside_strings(line: str, change: Callable[[str], str]) -> str:
    """Change a line that has neither strings nor comments."""
    return line if re.search("[\"'`#]|//|/\\*", line) else change(line)


@kind
def double_blanks_in_search(rng: Random, sources: list[Source]) -> Case | None:
    sample = code(rng, sources)
    return drifted(
        sample, lambda line: outside_strings(line, lambda text: re.sub(r"(?<=\S) =(?= )", "  =", text))
    )


@kind
def blanks_after_commas_lost(rng: Random, sources: list[Source]) -> Case | None:
    sample = code(rng, sources)
    return drifted(sample, lambda line: outside_strings(line, lambda text: text.replace(", ", ",")))


@kind
def aligned_columns_in_file(rng: Random, sources: list[Source]) -> Case | None:
    sample = draw(rng, sources, language="python")

    def aligned(line: str) -> str:
        return outside_strings(line, lambda text: re.sub(r"(?<=\w) = (?=\w)", "     = ", text))

    there = replace(
        sample.with_file(tuple(map(aligned, sample.lines))),
        new=tuple(
            aligned(line)
            if line in sample.old or (nth == sample.changed and len(sample.new) == len(sample.old))
            else line
            for nth, line in enumerate(sample.new)
        ),
    )
    return None if there.old == sample.old else case(there, sample.old, sample.new)


@kind
def table_of_another_width(rng: Random, sources: list[Source]) -> Case | None:
    sample = draw(rng, sources, language=rng.choice(["guide", "nihongo", "zhongwen"]))
    if not any(line.startswith("|") for line in sample.old) or any("---" in line for line in sample.old):
        return None
    return drifted(
        sample,
        lambda line: re.sub(r" +\|", " |", line) if line.startswith("|") else line,
    )


# --- blank lines


@kind
def blank_line_lost(rng: Random, sources: list[Source]) -> Case | None:
    sample = draw(rng, sources, low=4)
    blank = [nth for nth, line in enumerate(sample.old) if not line.strip()]
    if not blank or any(abs(nth - sample.changed) < 2 for nth in blank):
        return None
    return drop_blank(sample, blank)


def drop_blank(sample: Sample, blank: list[int]) -> Case | None:
    search = tuple(line for line in sample.old if line.strip())
    grown = len(sample.new) - len(sample.old)
    later = {nth if nth < sample.changed else nth + grown for nth in blank}
    return case(sample, search, tuple(line for nth, line in enumerate(sample.new) if nth not in later))


@kind
def blank_line_added(rng: Random, sources: list[Source]) -> Case | None:
    sample = draw(rng, sources, low=4)
    at = rng.randrange(1, len(sample.old))
    if abs(at - sample.changed) < 2 or not sample.old[at].strip() or not sample.old[at - 1].strip():
        return None
    later = at if at <= sample.changed else at + len(sample.new) - len(sample.old)
    search = (*sample.old[:at], "", *sample.old[at:])
    return case(sample, search, (*sample.new[:later], "", *sample.new[later:]))


@kind
def blank_lines_around(rng: Random, sources: list[Source]) -> Case | None:
    sample = draw(rng, sources)
    before, after = sample.lines[sample.at - 1 : sample.at], sample.lines[sample.at + len(sample.old) :][:1]
    if not before or not after or not before[0].strip() or not after[0].strip():
        return None
    return case(sample, ("", *sample.old, ""), ("", *sample.new, ""))


# --- line left out


@kind
def elided_middle(rng: Random, sources: list[Source]) -> Case | None:
    sample = draw(rng, sources, language="python", low=7, high=14)
    if sample.changed > 1 or len(sample.new) != len(sample.old):
        return None
    first, last = sample.old[:2], sample.old[-2:]
    depth = len(indent_of(last[0]))
    middle = sample.old[2:-2]
    if any(line.strip() and len(indent_of(line)) < depth for line in middle) or not all(
        map(str.strip, (*first, *last))
    ):
        return None
    if places(sample.lines, first) != 1 or places(sample.lines, last) != 1:
        return None
    mark = rng.choice(
        ["...", indent_of(last[0]) + "...", "# ...", indent_of(last[0]) + "# ... existing code ..."]
    )
    return case(sample, (*first, mark, *last), (*sample.new[:2], mark, *last))


# --- typos


def mistyped(rng: Random, word: str) -> str | None:
    """Slip on a word: a letter lost, doubled or swapped, not at either end."""
    if not re.fullmatch("[a-z]{6,}", word):
        return None
    at = rng.randrange(2, len(word) - 3)
    how = rng.choice(["lost", "swapped", "extra"])
    if how == "lost":
        return word[:at] + word[at + 1 :]
    if how == "swapped" and word[at] != word[at + 1]:
        return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    return word[:at] + rng.choice("bcdfghkmpqvwxz") + word[at:]


RESERVED = {
    "import",
    "return",
    "global",
    "except",
    "assert",
    "lambda",
    "raise",
    "yield",
    "continue",
    "finally",
    "nonlocal",
    "without",
    "typeof",
    "export",
    "extends",
    "switch",
    "default",
    "before",
    "module",
    "function",
    "package",
    "public",
    "private",
    "static",
    "delete",
    "update",
    "select",
    "insert",
    "instanceof",
    "namespace",
    "interface",
    "protected",
    "abstract",
    "virtual",
    "override",
    "implements",
    "distinct",
    "having",
    "unless",
    "foreach",
    "neither",
    "struct",
    "undefined",
}


def with_typo(rng: Random, sample: Sample, nth: int, *, inside: str) -> Case | None:
    """Mistype a word of line ``nth`` in SEARCH, and in REPLACE as well where it has the line."""
    line = sample.old[nth]
    span = {"code": _code_span, "comment": _comment_span, "prose": lambda text: (0, len(text))}[inside](line)
    words = [
        found
        for found in re.finditer("[A-Za-z_]+", line)
        if span[0] <= found.start() < found.end() <= span[1]
    ]
    words = [found for found in words if found.group() not in RESERVED]
    if not words:
        return None
    word = rng.choice(words)
    wrong = mistyped(rng, word.group())
    if wrong is None or re.search(rf"\b{wrong}\b", "\n".join(sample.lines)) or RESERVED & {wrong}:
        return None
    typed = line[: word.start()] + wrong + line[word.end() :]
    others = [there for there in sample.lines if there != line and _alike(key(there), key(typed))]
    if others:
        return None
    search = tuple(typed if one == line else one for one in sample.old)
    if sample.old.count(line) != 1:
        return None
    new = tuple(typed if one == line else one for one in sample.new)
    if nth == sample.changed and len(sample.new) == len(sample.old):
        changed = sample.new[nth]
        if changed[: word.end()] != line[: word.end()]:
            return None
        new = (
            *sample.new[:nth],
            changed[: word.start()] + wrong + changed[word.end() :],
            *sample.new[nth + 1 :],
        )
    return rightly_refused(case(sample, search, new), sample.at + 1)


def _alike(one: str, other: str) -> bool:
    from difflib import SequenceMatcher

    if abs(len(one) - len(other)) > 0.4 * max(len(one), len(other)):
        return False
    return SequenceMatcher(None, one, other).quick_ratio() > 0.8


def _code_span(line: str) -> tuple[int, int]:
    return (
        (0, 0)
        if re.search("[\"'`#]|//|/\\*|^\\s*\\*", line) or not re.search("[=(.]", line)
        else (0, len(line))
    )


def _comment_span(line: str) -> tuple[int, int]:
    found = re.match(r"\s*(?:#|//)\s", line)
    return (found.end(), len(line)) if found and not re.search("[\"'`]", line) else (0, 0)


@kind
def typo_in_an_identifier(rng: Random, sources: list[Source]) -> Case | None:
    sample = code(rng, sources, low=3)
    nth = rng.randrange(len(sample.old))
    return None if nth == sample.changed else with_typo(rng, sample, nth, inside="code")


@kind
def typo_on_the_changed_line(rng: Random, sources: list[Source]) -> Case | None:
    sample = code(rng, sources, low=2)
    return (
        with_typo(rng, sample, sample.changed, inside="code") if len(sample.new) == len(sample.old) else None
    )


@kind
def typo_in_a_comment(rng: Random, sources: list[Source]) -> Case | None:
    sample = code(rng, sources, low=2)
    nth = rng.randrange(len(sample.old))
    return None if nth == sample.changed else with_typo(rng, sample, nth, inside="comment")


@kind
def typo_in_prose(rng: Random, sources: list[Source]) -> Case | None:
    sample = draw(rng, sources, language="guide", low=1)
    nth = rng.randrange(len(sample.old))
    if re.search('[|`"]', sample.old[nth]):
        return None
    return None if nth == sample.changed else with_typo(rng, sample, nth, inside="prose")


# --- what a model puts around its lines


def numbered(lines: Lines, first: int, form: str) -> Lines:
    return tuple(form.format(number=first + nth, line=line) for nth, line in enumerate(lines))


def with_numbers(rng: Random, sources: list[Source], form: str) -> Case | None:
    sample = draw(rng, sources)
    first = sample.at + 1
    return case(sample, numbered(sample.old, first, form), numbered(sample.new, first, form))


@kind
def line_numbers_with_bars(rng: Random, sources: list[Source]) -> Case | None:
    return with_numbers(rng, sources, rng.choice(["{number} | {line}", "{number:>4} | {line}"]))


@kind
def line_numbers_with_colons(rng: Random, sources: list[Source]) -> Case | None:
    return with_numbers(rng, sources, "{number}: {line}")


@kind
def line_numbers_with_tabs(rng: Random, sources: list[Source]) -> Case | None:
    return with_numbers(rng, sources, rng.choice(["{number:>6}\t{line}", "{number:>6}→{line}"]))


@kind
def line_numbers_of_other_lines(rng: Random, sources: list[Source]) -> Case | None:
    """The numbers are not those of the lines: whoever takes them off takes them for what they may not be."""
    sample = draw(rng, sources)
    first, form = (
        sample.at + 1 + rng.choice([-1, 1, 3]),
        rng.choice(["{number} | {line}", "{number}: {line}"]),
    )
    made = case(sample, numbered(sample.old, first, form), numbered(sample.new, first, form))
    return rightly_refused(made, sample.at + 1)


@kind
def line_numbers_in_search_only(rng: Random, sources: list[Source]) -> Case | None:
    sample = draw(rng, sources)
    return case(sample, numbered(sample.old, sample.at + 1, "{number} | {line}"))


@kind
def code_fence(rng: Random, sources: list[Source]) -> Case | None:
    sample = code(rng, sources)
    if any("```" in line for line in sample.old):
        return None
    return case(sample, ("```python", *sample.old, "```"), ("```python", *sample.new, "```"))


@kind
def escaped_twice(rng: Random, sources: list[Source]) -> Case | None:
    sample = code(rng, sources)
    made = case(sample)
    if made is None or '"' not in made.search:
        return None
    search, new = (
        json.dumps(text.removesuffix("\n"), ensure_ascii=False)[1:-1] for text in (made.search, made.replace)
    )
    return replace(made, search=search, replace=new) if made.replace else None


@kind
def entities(rng: Random, sources: list[Source]) -> Case | None:
    made = case(code(rng, sources))
    if made is None or not re.search("[<>&]", made.search) or re.search(r"&\w+;", made.search):
        return None
    return replace(
        made, search=html.escape(made.search, quote=False), replace=html.escape(made.replace, quote=False)
    )


# --- line numbers as hints


def doubled(rng: Random, sources: list[Source]) -> tuple[Sample, int]:
    """Return a sample whose block stands a second time, at the returned line, 20 lines away or more."""
    sample = draw(rng, sources, low=2, high=6)
    gap = rng.randint(20, 60)
    stop = sample.at + len(sample.old)
    second = min(stop + gap, len(sample.lines))
    while second - stop < 20:
        sample = draw(rng, sources, low=2, high=6)
        stop = sample.at + len(sample.old)
        second = min(stop + gap, len(sample.lines))
    lines = (*sample.lines[:second], *sample.old, *sample.lines[second:])
    return replace(sample, lines=lines), second


@kind
def duplicate_with_its_line(rng: Random, sources: list[Source]) -> Case | None:
    sample, second = doubled(rng, sources)
    if rng.random() < 0.5:
        sample = replace(sample, at=second)
    return hinted(sample, sample.at + 1)


def hinted(sample: Sample, line: int) -> Case:
    return Case(
        joined(sample.lines).encode(),
        joined(sample.old),
        joined(sample.new),
        joined(sample.expected).encode(),
        line,
    )


@kind
def unique_with_a_stale_line(rng: Random, sources: list[Source]) -> Case | None:
    sample = draw(rng, sources)
    return case(sample, line=rng.choice([1, sample.at + 51, sample.at + 500, 10**6]))


# --- deletions and insertions


@kind
def deletion(rng: Random, sources: list[Source]) -> Case | None:
    sample = draw(rng, sources, low=1, high=6)
    return case(replace(sample, new=()), sample.old, ())


@kind
def deletion_without_final_newline(rng: Random, sources: list[Source]) -> Case | None:
    made = deletion(rng, sources)
    return made and replace(made, search=made.search.removesuffix("\n"))


@kind
def deletion_after_dedent(rng: Random, sources: list[Source]) -> Case | None:
    sample = code(rng, sources, low=2, high=6)
    indent = common_indent(sample.old)
    return case(replace(sample, new=()), dedent(sample.old, indent), ()) if indent else None


# --- encodings


ENCODINGS = [
    ("nihongo", "cp932"),
    ("nihongo", "euc_jp"),
    ("zhongwen", "gbk"),
    ("zhongwen", "gb18030"),
    ("nihongo", "utf-16"),
    ("zhongwen", "utf-16"),
    ("guide", "utf-16"),
    ("guide", "utf-8-sig"),
    ("nihongo", "utf-8-sig"),
]
BIG5 = {"这": "這"}


@kind
def legacy_encoding(rng: Random, sources: list[Source]) -> Case | None:
    language, encoding = rng.choice(ENCODINGS[:4])
    return case(draw(rng, sources, language=language), encoding=encoding)


@kind
def legacy_encoding_of_the_west(rng: Random, sources: list[Source]) -> Case | None:
    sample = draw(rng, sources, language="guide")
    there = replace(
        sample.with_file(tuple(map(accented, sample.lines))), new=tuple(map(accented, sample.new))
    )
    return case(there, encoding=rng.choice(["latin-1", "cp1252"]))


@kind
def one_legacy_byte_in_code(rng: Random, sources: list[Source]) -> Case | None:
    sample = code(rng, sources)
    if not "".join(sample.lines).isascii():
        return None
    far = (sample.at + len(sample.lines) // 2) % len(sample.lines)
    if sample.at - 1 <= far <= sample.at + len(sample.old):
        return None
    lines = tuple(line + "  # é" if nth == far else line for nth, line in enumerate(sample.lines))
    return case(replace(sample, lines=lines), encoding="latin-1")


@kind
def utf16_and_marks(rng: Random, sources: list[Source]) -> Case | None:
    language, encoding = rng.choice(ENCODINGS[4:])
    return case(draw(rng, sources, language=language), encoding=encoding)


@kind
def utf16_without_mark(rng: Random, sources: list[Source]) -> Case | None:
    language = rng.choice(["guide", "nihongo", "zhongwen", "python"])
    return case(draw(rng, sources, language=language), encoding=rng.choice(["utf-16-le", "utf-16-be"]))


@kind
def undecodable_bytes_elsewhere(rng: Random, sources: list[Source]) -> Case | None:
    made = case(code(rng, sources))
    if made is None or made.expected is None:
        return None
    junk = b"\xff\xfe\x80\x00junk\n" + codecs.BOM_UTF8
    return replace(made, text=made.text + junk, expected=made.expected + junk)


# --- two drifts at once


def both(one: Callable[[str], str], other: Callable[[str], str]) -> Callable[[str], str]:
    return lambda line: other(one(line))


@kind
def dedented_and_curly(rng: Random, sources: list[Source]) -> Case | None:
    sample = code(rng, sources)
    indent = common_indent((*sample.old, *sample.new))
    if (
        not indent
        or not any(curled(line) != line for line in sample.old)
        or re.search("[‘’“”]", "".join(sample.old))
    ):
        return None
    return drifted(sample, both(curled, lambda line: line.removeprefix(indent)))


@kind
def tabs_and_trailing_blanks(rng: Random, sources: list[Source]) -> Case | None:
    made = tabs_in_file(rng, sources)
    if made is None or not made.replace:
        return None
    search, new = (
        re.sub("(?m)$", " ", text.removesuffix("\n")) + "\n" for text in (made.search, made.replace)
    )
    return Trailing(made.text, search, new, made.expected)


@kind
def crlf_and_dedented(rng: Random, sources: list[Source]) -> Case | None:
    sample = code(rng, sources)
    indent = common_indent((*sample.old, *sample.new))
    return (
        case(sample, dedent(sample.old, indent), dedent(sample.new, indent), end="\r\n") if indent else None
    )


@kind
def numbers_and_dedented(rng: Random, sources: list[Source]) -> Case | None:
    sample = code(rng, sources)
    indent = common_indent((*sample.old, *sample.new))
    if not indent:
        return None
    search, new = (dedent(lines, indent) for lines in (sample.old, sample.new))
    first = sample.at + 1
    return case(
        sample, numbered(search, first, "{number} | {line}"), numbered(new, first, "{number} | {line}")
    )


@kind
def typo_and_dedented(rng: Random, sources: list[Source]) -> Case | None:
    made = typo_in_an_identifier(rng, sources)
    if made is None:
        return None
    search, new = (tuple(text.split("\n")[:-1]) for text in (made.search, made.replace))
    indent = common_indent((*search, *new)) if new else ""
    return (
        replace(made, search=joined(dedent(search, indent)), replace=joined(dedent(new, indent)))
        if indent
        else None
    )
