"""Line ends and blanks at the edges: files with CR LF, mixed files, whole lines that end in a blank."""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random

import fragments
from cases import Case, in_group, register
from stale import joined, sample, solid, with_line
from typed import Files

endings = in_group("line ends")


def _crlf(case: Case | None, *, sent: bool) -> Case | None:
    """Return an edit of a file whose lines end in CR LF."""
    if case is None or case.expected is None:
        return None

    def wide(text: str) -> str:
        return text.replace("\n", "\r\n")

    text, right = (wide(data.decode()).encode() for data in (case.text, case.expected))
    search, new = (wide(each) if sent else each for each in (case.search, case.replace))
    return replace(case, text=text, expected=right, search=search, replace=new)


def _register() -> None:
    for shape in (fragments.below, fragments.above, fragments.between, fragments.removed):
        for sent in (False, True):

            def make(rng: Random, files: Files, shape=shape, sent=sent) -> Case | None:
                drawn = shape(rng, files.pick(rng))
                cut = rng.choice([fragments.whole, fragments.stripped, fragments.from_a_word])
                if drawn is None or (cut is fragments.from_a_word and shape is fragments.above):
                    return None
                return _crlf(cut(rng, drawn), sent=sent)

            told = "search_with_cr_lf" if sent else "search_with_lf"
            register("line ends", make, f"cr_lf_file_{shape.__name__}_{told}")


_register()


@endings
def mixed_ends(rng: Random, files: Files) -> Case | None:
    """Each line keeps its own end; new lines get that of the lines around."""
    made = fragments.whole(rng, found) if (found := fragments.below(rng, files.pick(rng))) else None
    if made is None or made.expected is None or found is None or not made.search.endswith("\n"):
        return None
    old, new = made.text.decode().split("\n")[:-1], made.expected.decode().split("\n")[:-1]
    ends = [rng.choice(["\n", "\r\n"]) for _ in old]
    after = found.at + len(found.search)
    inside = rng.choice(["\n", "\r\n"])
    ends[found.at : after] = [inside] * len(found.search)
    more = len(new) - len(old)
    text = "".join(line + end for line, end in zip(old, ends, strict=True))
    right = "".join(
        line + end for line, end in zip(new, [*ends[:after], *[inside] * more, *ends[after:]], strict=True)
    )
    return replace(made, text=text.encode(), expected=right.encode())


@endings
def from_within_cr_lf(rng: Random, files: Files) -> Case | None:
    """SEARCH begins with a newline, or ends before one: no half of a line end is left."""
    source = files.pick(rng)
    at = rng.randrange(1, max(len(source.lines) - 2, 2))
    line = source.lines[at]
    text = joined(source.lines)
    head, tail = rng.choice([("\n", "\n"), ("\n", ""), ("", "\n")])
    search, new = head + line + tail, rng.choice(["", head + "renewed line" + tail])
    if not solid(line) or text.count(search) != 1:
        return None
    results = [text.replace(search, new)]
    if head and tail and not new:
        results.append(text.replace(search, "\n"))  # who takes a line away leaves one line end
    right, *also = (each.replace("\n", "\r\n").encode() for each in results)
    file = text.replace("\n", "\r\n").encode()
    return Case(file, search, new, right, also=tuple(also), about=source.language)


@endings
def no_line_end_at_the_end(rng: Random, files: Files) -> Case | None:
    source = files.pick(rng)
    end = rng.randrange(5, len(source.lines))
    lines = source.lines[:end]
    text = "\n".join(lines)
    line = lines[-1]
    if not solid(line) or text.count(line) != 1:
        return None
    new = (f"{line}2", f"{line}\n{line} more")[rng.randrange(2)]
    tail = "\n" * rng.randrange(2)
    right = "\n".join([*lines[:-1], new])
    return Case(
        text.encode(),
        line + tail,
        new + tail,
        right.encode(),
        also=((right + tail).encode(),),
        about=source.language,
    )


@endings
def a_whole_line_that_ends_in_a_blank(rng: Random, files: Files) -> Case | None:
    """`See also ` with its line end is not the beginning of `See also the wiki.`"""
    one = sample(rng, files, high=1)
    if one is None:
        return None
    words = list(re.finditer(r"(?<=\w) (?=\w)", one.old[0]))
    if not words:
        return None
    search = one.old[0][: rng.choice(words).end()]
    file = one.lines
    if search.strip() in {line.strip() for line in file} or len(search.strip()) < 4:
        return None
    return Case(joined(file).encode(), search + "\n", search.rstrip() + "\n", None, about=one.language)


@endings
def blank_at_the_edge_of_a_fragment(rng: Random, files: Files) -> Case | None:
    """A fragment with a blank at its edge, exact and once: it is replaced to the letter."""
    source = files.pick(rng)
    at = rng.randrange(len(source.lines))
    found = list(re.finditer(r" \w+ ", source.lines[at]))
    if not found:
        return None
    hit = rng.choice(found)
    low, high = rng.choice([(0, 0), (1, 0), (0, 1)])
    search = hit.group()[low : len(hit.group()) - high]
    text = joined(source.lines)
    if text.count(search) != 1:
        return None
    new = search.replace(search.strip(), "renewed")
    line = source.lines[at].replace(search, new)
    return Case(
        text.encode(), search, new, joined(with_line(source.lines, at, line)).encode(), about=source.language
    )


@endings
def cr_alone(rng: Random, files: Files) -> Case | None:
    made = fragments.whole(rng, found) if (found := fragments.below(rng, files.pick(rng))) else None
    if made is None or made.expected is None:
        return None
    text, right = (data.replace(b"\n", b"\r") for data in (made.text, made.expected))
    return replace(made, text=text, expected=right)
