"""A formatter ran since, or the model wrote the text in another layout: the words and signs are the same.

What lands may only be what has the same tokens in the same order: then it is right, whatever blanks and line
breaks it has where both layouts can be meant. A refusal is no mistake. Where a token differs as well (an
argument that is gone, or another one), only a refusal is right.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random

from cases import Case, in_group
from samples import places
from stale import indent_of, joined, sample, solid, with_line
from typed import Files

reformatted = in_group("reformatted")
CALL = re.compile(
    r"^(\s*)((?:[\w.\[\]]+ = )?(?:return |await )?[\w.]+)\(([^()'\"`#/]+, [^()'\"`#/]+)\)(:?;?)$"
)
TYPES = ("python", "javascript", "typescript", "java", "rust", "go", "c")


@dataclass(frozen=True, slots=True)
class SameTokens(Case):
    """A result is right if it has the same tokens as the one that is expected."""

    def accepts(self, written: bytes) -> bool:
        return self.expected is not None and tokens(written) == tokens(self.expected)


def tokens(data: bytes) -> str:
    """Return a text without its blanks between tokens; those within lines of words stay as one."""
    text = re.sub(r"\s+", " ", data.decode())
    return re.sub(r" ?([^\w ]) ?", r"\1", text)


def _call(rng: Random, files: Files) -> tuple[tuple[str, ...], int, re.Match[str], str] | None:
    """Draw a call with arguments on one line that stands once."""
    source = files.pick(rng, *TYPES)
    found = [nth for nth, line in enumerate(source.lines) if CALL.match(line)]
    if not found:
        return None
    at = rng.choice(found)
    call = CALL.match(source.lines[at])
    if call is None or places(source.lines, (source.lines[at],)) != 1:
        return None
    return source.lines, at, call, source.language


def _wrapped(call: re.Match[str], style: str, step: str = "    ") -> tuple[str, ...]:
    own, head, arguments, end = call.groups()
    parts = arguments.split(", ")
    if style == "hanging":
        return (f"{own}{head}(", f"{own}{step}{', '.join(parts)}", f"{own}){end}")
    if style == "aligned":
        column = " " * (len(own) + len(head) + 1)
        first, *others = parts
        return (
            f"{own}{head}({first},",
            *(f"{column}{one}," for one in others[:-1]),
            f"{column}{others[-1]}){end}",
        )
    comma = "," if style == "a comma more" else ""
    lines = [f"{own}{step}{one}," for one in parts]
    lines[-1] = lines[-1][:-1] + comma
    return (f"{own}{head}(", *lines, f"{own}){end}")


def _renamed(rng: Random, text: str) -> tuple[str, str] | None:
    words = [word for word in re.findall(r"[A-Za-z_]{4,}", text) if text.count(word) == 1]
    return (rng.choice(words), f"renewed{rng.randrange(100)}") if words else None


def _changed(lines: tuple[str, ...], word: str, new: str) -> tuple[str, ...]:
    return tuple(line.replace(word, new) for line in lines)


def _told(
    lines: tuple[str, ...],
    at: int,
    there: tuple[str, ...],
    sent: tuple[str, ...],
    rng: Random,
    about: str,
    *,
    same: bool,
) -> Case | None:
    """Return an edit that renames a word of lines that stand there in another layout."""
    renamed = _renamed(rng, "\n".join(sent))
    file = (*lines[:at], *there, *lines[at + 1 :])
    if renamed is None or there == sent or joined(sent) in joined(file):
        return None
    right = joined((*lines[:at], *_changed(there, *renamed), *lines[at + 1 :])).encode()
    search, new = joined(sent), joined(_changed(sent, *renamed))
    text = joined(file).encode()
    if same:
        return SameTokens(text, search, new, right, where=at + 1, about=about)
    return Case(text, search, new, None, wanted=right, where=at + 1, about=about)


def _layout(rng: Random, files: Files, file: str, sent: str, *, same: bool) -> Case | None:
    found = _call(rng, files)
    if found is None:
        return None
    lines, at, call, about = found
    layouts = {style: _wrapped(call, style) for style in ("hanging", "aligned", "each", "a comma more")}
    layouts["one line"] = (lines[at],)
    return _told(lines, at, layouts[file], layouts[sent], rng, about, same=same)


@reformatted
def wrapped_in_the_file(rng: Random, files: Files) -> Case | None:
    return _layout(rng, files, rng.choice(["hanging", "aligned", "each"]), "one line", same=True)


@reformatted
def wrapped_in_search(rng: Random, files: Files) -> Case | None:
    return _layout(rng, files, "one line", rng.choice(["hanging", "aligned", "each"]), same=True)


@reformatted
def wrapped_in_another_way(rng: Random, files: Files) -> Case | None:
    file, sent = rng.sample(["hanging", "aligned", "each"], 2)
    return _layout(rng, files, file, sent, same=True)


@reformatted
def wrapped_with_a_comma_more(rng: Random, files: Files) -> Case | None:
    """As formatters do; the comma is a token. What lands is right if it says the same but for the comma."""
    found = _layout(rng, files, "a comma more", "one line", same=False)
    if found is None or found.wanted is None:
        return None
    return WithoutCommas(
        found.text, found.search, found.replace, found.wanted, where=found.where, about=found.about
    )


@dataclass(frozen=True, slots=True)
class WithoutCommas(Case):
    """A result is right if it has the same tokens but for a comma before a bracket."""

    def accepts(self, written: bytes) -> bool:
        without = (re.sub(r",(?=[)\]}])", "", tokens(data)) for data in (written, self.expected or b""))
        return len(set(without)) == 1


@reformatted
def an_argument_is_gone(rng: Random, files: Files) -> Case | None:
    """Wrapped in the file, with one argument fewer or another one."""
    found = _call(rng, files)
    if found is None:
        return None
    lines, at, call, about = found
    there = list(_wrapped(call, "each"))
    if len(there) < 5:
        return None
    nth = rng.randrange(1, len(there) - 2)
    if rng.random() < 0.5:
        del there[nth]
    else:
        there[nth] = indent_of(there[nth]) + "other" + there[nth].lstrip()
    made = _told(lines, at, tuple(there), (lines[at],), rng, about, same=False)
    return made and replace(made, wanted=None)


@reformatted
def a_paragraph_rewrapped(rng: Random, files: Files) -> Case | None:
    """Prose whose lines break elsewhere."""
    source = files.pick(rng, "markdown", "rst")
    blank = [nth for nth, line in enumerate(source.lines) if not line.strip()]
    spans = [(low + 1, high) for low, high in pairwise(blank) if 3 <= high - low <= 9]
    spans = [
        (low, high)
        for low, high in spans
        if all(
            re.match(r"[A-Za-z(]", line) and not re.search("  |[|`<]", line)
            for line in source.lines[low:high]
        )
    ]
    if not spans:
        return None
    low, high = rng.choice(spans)
    sent = source.lines[low:high]
    there = tuple(
        textwrap.wrap(
            " ".join(sent), rng.choice([60, 66, 96]), break_long_words=False, break_on_hyphens=False
        )
    )
    renamed = _renamed(rng, "\n".join(sent))
    file = (*source.lines[:low], *there, *source.lines[high:])
    if (
        renamed is None
        or there == sent
        or joined(sent) in joined(file)
        or "\n".join(there).count(renamed[0]) != 1
    ):
        return None
    right = joined((*source.lines[:low], *_changed(there, *renamed), *source.lines[high:])).encode()
    new = joined(_changed(sent, *renamed))
    return SameTokens(joined(file).encode(), joined(sent), new, right, where=low + 1, about=source.language)


@reformatted
def blanks_between_tokens(rng: Random, files: Files) -> Case | None:
    """The file has other blanks around operators and after commas on a line that the edit changes."""
    one = sample(rng, files, *TYPES, high=3)
    if one is None or len(one.new) != len(one.old):
        return None
    nth = one.changed
    line = one.old[nth]
    if re.search("[\"'`#]|//|/\\*|-->|<!|^\\s*\\*", line):
        return None
    how = rng.choice(
        [(r", (?=\w)", ","), (r" (=|==|\+|&&|<) (?=\w)", r"\1"), (r"\((?=\w)", "( "), (r",(?=\S)", ", ")]
    )
    there = re.sub(*how, line)
    if there == line or one.new[nth].count("renewed") != 1:
        return None
    file = with_line(one.lines, one.at + nth, there)
    right = with_line(file, one.at + nth, re.sub(*how, one.new[nth]))
    literal = with_line(file, one.at + nth, one.new[nth])
    if places(file, one.old) != 1:
        return None
    return Case(
        joined(file).encode(),
        joined(one.old),
        joined(one.new),
        joined(right).encode(),
        also=(joined(literal).encode(),),
        where=one.at + 1,
        about=one.language,
    )


@reformatted
def an_operator_gets_blanks(rng: Random, files: Files) -> Case | None:
    """The edit itself writes blanks around an operator: they are not written twice."""
    source = files.pick(rng, *TYPES)
    found = [
        nth
        for nth, line in enumerate(source.lines)
        if re.search(r"\w (?:=|==|\+|-|\*|<|>|&&) \w", line)
        and not re.search("[\"'`#]|//|/\\*|^\\s*\\*", line)
    ]
    if not found:
        return None
    at = rng.choice(found)
    line = source.lines[at]
    operator = rng.choice(list(re.finditer(r"(?<=\w) (=|==|\+|-|\*|<|>|&&) (?=\w)", line)))
    tight = line[: operator.start()] + operator.group(1) + line[operator.end() :]
    words = _renamed(rng, line[operator.end() :])
    if words is None or places(source.lines, (line,)) != 1 or not solid(line):
        return None
    new = line[: operator.end()] + line[operator.end() :].replace(*words)
    right = with_line(source.lines, at, new)
    text = joined(source.lines)
    if tight + "\n" in text:
        return None
    return Case(
        text.encode(), tight + "\n", new + "\n", joined(right).encode(), where=at + 1, about=source.language
    )


@reformatted
def names_run_together(rng: Random, files: Files) -> Case | None:
    """Blanks that tell two words apart are no layout: `return x` is not `returnx`."""
    one = sample(rng, files, *TYPES, high=2)
    if one is None:
        return None
    nth = rng.randrange(len(one.old))
    found = list(re.finditer(r"(?<=\w) (?=\w)", one.old[nth]))
    if not found:
        return None
    blank = rng.choice(found)
    there = one.old[nth][: blank.start()] + one.old[nth][blank.end() :]
    file = with_line(one.lines, one.at + nth, there)
    if joined(one.old) in joined(file):
        return None
    return Case(
        joined(file).encode(), joined(one.old), joined(one.new), None, where=one.at + 1, about=one.language
    )
