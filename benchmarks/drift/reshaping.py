"""Kinds of drift around an edit that moves lines to another depth, or adds some at one of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kinds import (
    Case,
    Lines,
    case,
    common_indent,
    dedent,
    drifted,
    indent_of,
    joined,
    kind,
    reindented_case,
    sample_with,
)
from samples import Sample, draw, places

if TYPE_CHECKING:
    from random import Random

    from corpus import Source

STEP = "    "


def wrapped(rng: Random, sources: list[Source]) -> Sample | None:
    """Return a sample whose lines are put below a new header."""
    sample = draw(rng, sources, language="python", low=1, high=6)
    own = common_indent(sample.old)
    if not sample.old[0].strip() or indent_of(sample.old[0]) != own:
        return None
    below = tuple(STEP + line if line else line for line in sample.old)
    header = rng.choice(["if added:", "with added(1):", "for added in others:", "try:"])
    closing = (f"{own}except AddedError:", f"{own}{STEP}pass") if header == "try:" else ()
    return sample_with(sample, (own + header, *below, *closing))


@kind
def wrapped_and_dedented(rng: Random, sources: list[Source]) -> Case | None:
    sample = wrapped(rng, sources)
    own = common_indent(sample.old) if sample else ""
    return case(sample, dedent(sample.old, own), dedent(sample.new, own)) if sample and own else None


@kind
def wrapped_and_indented_too_much(rng: Random, sources: list[Source]) -> Case | None:
    sample = wrapped(rng, sources)
    extra = rng.choice(["  ", "    ", "        "])
    return drifted(sample, lambda line: extra + line if line else line) if sample else None


@kind
def wrapped_in_two_blanks_for_four(rng: Random, sources: list[Source]) -> Case | None:
    sample = wrapped(rng, sources)
    if sample is None or len({indent_of(line) for line in sample.old if line}) < 2:
        return None
    return reindented_case(sample, (STEP, STEP), (STEP, "  "), whole_file=False)


@kind
def tabs_in_file_and_wrapped(rng: Random, sources: list[Source]) -> Case | None:
    sample = wrapped(rng, sources)
    if sample is None or len({indent_of(line) for line in sample.old if line}) < 2:
        return None
    return reindented_case(sample, (STEP, "\t"), (STEP, STEP), whole_file=True)


@kind
def comment_with_stars_and_dedented(rng: Random, sources: list[Source]) -> Case | None:
    sample = draw(rng, sources, language="javascript", low=1, high=4)
    own = common_indent(sample.old)
    if not own or indent_of(sample.old[0]) != own or sample.old[0].lstrip().startswith("*"):
        return None
    above = tuple(own + line for line in ("/**", f" * Added {rng.randrange(100)}.", " */"))
    new = (*above, *sample.old)
    return case(sample_with(sample, new), dedent(sample.old, own), dedent(new, own))


@kind
def arguments_below_a_bracket_and_dedented(rng: Random, sources: list[Source]) -> Case | None:
    sample = draw(rng, sources, language="python", low=1, high=3)
    own = common_indent(sample.old)
    if not own or indent_of(sample.old[-1]) != own or not sample.old[-1].strip():
        return None
    call = f"added{rng.randrange(100)}("
    new = (*sample.old, f"{own}{call}one,", f"{own}{' ' * len(call)}two)")
    return case(sample_with(sample, new), dedent(sample.old, own), dedent(new, own))


def steps_of_a_job(rng: Random) -> tuple[Lines, int]:
    """Return a workflow in YAML with four blanks a level, and the line of one of its steps."""
    step = STEP * rng.choice([1, 2])
    count = rng.randrange(2, 6)
    names = rng.sample(range(100), count)
    lines = ["on: push", "jobs:"]
    for job in ("test", "build"):
        lines += [f"{STEP}{job}:", f"{STEP}{STEP}steps:"]
        lines += [f"{STEP}{STEP}{step}- run: {job}-{name}" for name in names]
    return tuple(lines), rng.choice([at for at, line in enumerate(lines) if "- run" in line])


@kind
def key_below_an_item_and_dedented(rng: Random, sources: list[Source]) -> Case | None:  # noqa: ARG001 - every kind takes the corpus
    lines, at = steps_of_a_job(rng)
    own = indent_of(lines[at])
    new = (lines[at], f"{own}  env: {rng.randrange(100)}")
    search = dedent((lines[at],), own)
    if places(lines, search) > 1:
        return None
    expected = joined((*lines[:at], *new, *lines[at + 1 :])).encode()
    return Case(joined(lines).encode(), joined(search), joined(dedent(new, own)), expected)


@kind
def else_and_only_the_start_stripped(rng: Random, sources: list[Source]) -> Case | None:
    sample = draw(rng, sources, language="python", low=2, high=5)
    own = common_indent(sample.old)
    head = sample.old[0]
    opens = head.startswith(own + "if ") and head.endswith(":") and indent_of(head) == own
    if not own or not opens or any(indent_of(line) == own for line in sample.old[1:] if line):
        return None
    new = (*sample.old, f"{own}else:", f"{own}{STEP}added()")
    after = next(iter(sample.lines[sample.at + len(sample.old) :]), "")
    if after.lstrip().startswith(("else", "elif")) or len(indent_of(after)) > len(own):
        return None
    sent = (head.lstrip(), *sample.old[1:])
    made = case(sample_with(sample, new), sent, (*sent, "else:", new[-1]))
    if made is None:
        return None
    literal = joined(sample.lines).replace(made.search.rstrip("\n"), made.replace.rstrip("\n"))
    return replace(made, also=(*made.also, literal.encode()))
