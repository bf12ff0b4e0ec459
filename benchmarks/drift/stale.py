"""What the model remembers is not what the file says: lines that changed since, names and numbers that
differ, edits that are there already.

No letter and no digit is forgiven, so a refusal is the only right outcome of the first try. The place exists:
`wanted` is what one more try should come to, which is the merge of what changed in the file and of the edit.
SEARCH holds whole lines with their line ends; none of them stands in the file as it was sent.
"""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random

from cases import Case, in_group
from samples import Sample, changed, key, places
from typed import CODE, COMMENTS, Files

Lines = tuple[str, ...]


def joined(lines: Lines) -> str:
    return "".join(line + "\n" for line in lines)


def indent_of(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def sample(rng: Random, files: Files, *types: str, low: int = 1, high: int = 6) -> Sample | None:
    """Draw a block that stands once in a file of one of the types, and a change of one of its lines."""
    source = files.pick(rng, *types)
    size = rng.randint(low, min(high, len(source.lines) - 2))
    at = rng.randrange(len(source.lines) - size)
    old = source.lines[at : at + size]
    if not old[0].strip() or not old[-1].strip() or any(line != line.rstrip() for line in old):
        return None
    if len(key("".join(old))) < 12 or places(source.lines, old) != 1:
        return None
    return changed(rng, source, at, old)


def solid(line: str) -> bool:
    """Tell whether a line says enough to be told from others."""
    return len(re.findall(r"\w", line)) > 5


def against(one: Sample, file: Lines, wanted: Lines | None, *, also: tuple[bytes, ...] = ()) -> Case | None:
    """Return the edit of a sample put to a file that says something else; `file` is all of it."""
    text = joined(file)
    if one.old == one.new or joined(one.old) in text or places(file, one.old):
        return None
    right = None if wanted is None else joined(wanted).encode()
    return Case(
        text.encode(),
        joined(one.old),
        joined(one.new),
        None,
        also=also,
        wanted=right,
        where=one.at + 1,
        about=one.language,
    )


def with_line(lines: Lines, nth: int, *new: str) -> Lines:
    return (*lines[:nth], *new, *lines[nth + 1 :])


def word_changed(one: Sample) -> bool:
    """Tell whether the change is one word of a line."""
    return len(one.old) == len(one.new)


stale = in_group("stale")
EXTENDED = (
    " * 2",
    ", extra=True",
    " && ready",
    " || other()",
    ".strip()",
    " + offset",
    " or default",
    " - 1",
)


@stale
def the_changed_line_goes_on(rng: Random, files: Files) -> Case | None:
    """The line that the edit changes goes on in the file."""
    one = sample(rng, files, *CODE, high=3)
    if one is None or not word_changed(one):
        return None
    more = rng.choice(EXTENDED)
    at = one.at + one.changed
    file = with_line(one.lines, at, one.lines[at] + more)
    wanted = with_line(one.expected, at, one.new[one.changed] + more)
    return against(one, file, wanted)


@stale
def another_line_goes_on(rng: Random, files: Files) -> Case | None:
    """A line that the edit keeps goes on in the file: with more code, or with a comment."""
    one = sample(rng, files, *CODE, low=2)
    found = one and kept_line(rng, one)
    if one is None or found is None:
        return None
    at, moved = found
    mark = COMMENTS[one.language][0]
    more = rng.choice([*EXTENDED, f"  {mark} see below", f" {mark} checked twice"])
    line = one.lines[at] + more
    return against(one, with_line(one.lines, at, line), with_line(one.expected, moved, line))


def kept_line(rng: Random, one: Sample) -> tuple[int, int] | None:
    """Return a line that the edit keeps, by its number in the file before and after."""
    found = [
        nth
        for nth, line in enumerate(one.old)
        if nth != one.changed and solid(line) and one.old.count(line) == 1
    ]
    if not found:
        return None
    nth = rng.choice(found)
    return one.at + nth, one.at + nth + (len(one.new) - len(one.old)) * (nth > one.changed)


@stale
def the_line_is_longer_at_its_start(rng: Random, files: Files) -> Case | None:
    one = sample(rng, files, *CODE, high=2)
    if one is None or not word_changed(one):
        return None
    more = rng.choice(["await ", "return ", "not ", "self.", "export ", "if ready: ", "other = ", "static "])
    at = one.at + one.changed
    own = indent_of(one.lines[at])
    line, new = one.lines[at], one.new[one.changed]
    file = with_line(one.lines, at, own + more + line.removeprefix(own))
    return against(one, file, with_line(one.expected, at, own + more + new.removeprefix(own)))


@stale
def commented_out(rng: Random, files: Files) -> Case | None:
    """The lines are commented out in the file: an edit of the code is not one of the comment."""
    one = sample(rng, files, *CODE, high=3)
    if one is None:
        return None
    mark, end = COMMENTS[one.language]
    lines = tuple(indent_of(line) + f"{mark} {line.lstrip()}{end}" if line else line for line in one.old)
    file = (*one.lines[: one.at], *lines, *one.lines[one.at + len(one.old) :])
    return against(one, file, None)


@stale
def a_line_was_added(rng: Random, files: Files) -> Case | None:
    """The file has a line more between those of SEARCH."""
    one = sample(rng, files, low=3)
    if one is None:
        return None
    nth = rng.randrange(1, len(one.old))
    if abs(nth - one.changed) < 2 and nth != one.changed + 2:
        return None
    line = f"{indent_of(one.old[nth])}inserted{rng.randrange(100)}(since)"
    at = one.at + nth
    moved = at + (len(one.new) - len(one.old)) * (nth > one.changed)
    file = (*one.lines[:at], line, *one.lines[at:])
    return against(one, file, (*one.expected[:moved], line, *one.expected[moved:]))


@stale
def a_line_was_removed(rng: Random, files: Files) -> Case | None:
    """SEARCH has a line that the file has no more."""
    one = sample(rng, files, low=4)
    found = one and kept_line(rng, one)
    if one is None or found is None or abs(found[0] - one.at - one.changed) < 2:
        return None
    at, moved = found
    if at in {one.at, one.at + len(one.old) - 1}:
        return None
    file, wanted = (
        (*one.lines[:at], *one.lines[at + 1 :]),
        (*one.expected[:moved], *one.expected[moved + 1 :]),
    )
    return against(one, file, wanted)


def _word(rng: Random, line: str, pattern: str = r"[A-Za-z_]{4,}") -> re.Match[str] | None:
    found = [each for each in re.finditer(pattern, line) if line.count(each.group()) == 1]
    return rng.choice(found) if found else None


@stale
def a_name_was_changed(rng: Random, files: Files) -> Case | None:
    """A line that the edit keeps has another name in the file."""
    one = sample(rng, files, low=2)
    found = one and kept_line(rng, one)
    if one is None or found is None:
        return None
    at, moved = found
    word = _word(rng, one.lines[at])
    if word is None:
        return None
    other = rng.choice(
        ["account", "payload", "handler", "session", word.group() + "_id", "old_" + word.group()]
    )
    line = one.lines[at][: word.start()] + other + one.lines[at][word.end() :]
    if line == one.lines[at]:
        return None
    return against(one, with_line(one.lines, at, line), with_line(one.expected, moved, line))


@stale
def a_letter_differs(rng: Random, files: Files) -> Case | None:
    """A typo: one letter of a line that the edit keeps is lost, doubled, swapped, or another one."""
    one = sample(rng, files, low=2)
    found = one and kept_line(rng, one)
    if one is None or found is None:
        return None
    at, moved = found
    word = _word(rng, one.lines[at], "[A-Za-z]{5,}")
    if word is None:
        return None
    line = one.lines[at]
    wrong = line[: word.start()] + _typo(rng, word.group()) + line[word.end() :]
    return (
        None
        if wrong == line
        else against(one, with_line(one.lines, at, wrong), with_line(one.expected, moved, wrong))
    )


def _typo(rng: Random, word: str) -> str:
    at = rng.randrange(1, len(word) - 1)
    how = rng.randrange(4)
    if how == 0:
        return word[:at] + word[at + 1 :]
    if how == 1:
        return word[:at] + word[at] + word[at:]
    if how == 2:
        return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    return word[:at] + rng.choice("aeiostrn") + word[at + 1 :]


@stale
def a_letter_differs_on_the_changed_line(rng: Random, files: Files) -> Case | None:
    one = sample(rng, files, high=3)
    if one is None or not word_changed(one):
        return None
    at = one.at + one.changed
    line, new = one.lines[at], one.new[one.changed]
    word = _word(rng, line, "[A-Za-z]{5,}")
    if word is None or new.count(word.group()) != 1:
        return None
    wrong = _typo(rng, word.group())
    if wrong == word.group():
        return None
    file = with_line(one.lines, at, line.replace(word.group(), wrong))
    return against(one, file, with_line(one.expected, at, new.replace(word.group(), wrong)))


@stale
def another_function_of_the_family(rng: Random, files: Files) -> Case | None:
    """Names that differ in a letter and mean something else."""
    pairs = ("getuid geteuid", "strspn strcspn", "vsprintf vsnprintf", "path patch", "open fopen", "max vmax")
    pairs += (
        "isnan isinf",
        "lstat stat",
        "recv recvd",
        "user users",
        "sin sinh",
        "printf sprintf",
        "form from",
    )
    one = sample(rng, files, "python", "c", "javascript", "go", "rust", high=4)
    if one is None:
        return None
    names = rng.choice(pairs).split()
    rng.shuffle(names)
    nth = rng.randrange(len(one.old))
    word = _word(rng, one.old[nth])
    if word is None or (nth == one.changed and not word_changed(one)):
        return None
    there, sent = (one.old[nth][: word.start()] + name + one.old[nth][word.end() :] for name in names)
    new = tuple(sent if line == one.old[nth] else line for line in one.new)
    renamed = replace(one, old=with_line(one.old, nth, sent), new=new)
    if renamed.old == renamed.new or nth == one.changed:
        return None
    at = one.at + nth
    file = with_line(one.lines, at, there)
    wanted = (
        *file[: one.at],
        *(there if line == sent else line for line in new),
        *file[one.at + len(one.old) :],
    )
    return against(renamed, file, wanted)


@stale
def a_comment_was_dropped(rng: Random, files: Files) -> Case | None:
    """The file has a line of comment that SEARCH lacks, or the other way round."""
    one = sample(rng, files, *CODE, low=3)
    if one is None:
        return None
    nth = rng.randrange(1, len(one.old))
    if abs(nth - one.changed) < 2:
        return None
    mark, end = COMMENTS[one.language]
    line = f"{indent_of(one.old[nth])}{mark} Checked since {rng.randrange(1990, 2026)}.{end}"
    at, moved = one.at + nth, one.at + nth + (len(one.new) - len(one.old)) * (nth > one.changed)
    file = (*one.lines[:at], line, *one.lines[at:])
    return against(one, file, (*one.expected[:moved], line, *one.expected[moved:]))


@stale
def quotes_were_swapped(rng: Random, files: Files) -> Case | None:
    """A formatter wrote the other quotes into a line that the edit keeps."""
    one = sample(rng, files, "python", "javascript", "typescript", "ruby", "css", low=2)
    found = one and kept_line(rng, one)
    if one is None or found is None:
        return None
    at, moved = found
    line = one.lines[at]
    swapped = line.translate(str.maketrans("\"'", "'\""))
    if line == swapped or line.count("'") % 2 or line.count('"') % 2 or "`" in line:
        return None
    return against(one, with_line(one.lines, at, swapped), with_line(one.expected, moved, swapped))


# --- numbers

COLOURS = ("red", "green", "blue", "crimson", "amber", "violet", "teal", "olive", "navy", "coral", "khaki")
FORMS = (
    "  {}: {}",
    "{}. {}",
    "| {} | {} |",
    "{}\t{}",
    "- {}: {}",
    "{}) {}",
    "#define COLOUR_{} {}",
    "[{}] {}",
)


def numbered(rng: Random) -> tuple[list[str], str]:
    form = rng.choice(FORMS)
    first = rng.choice([0, 1, 1, 7, 98])
    names = rng.sample(COLOURS, rng.randrange(4, len(COLOURS)))
    return [form.format(first + nth, name) for nth, name in enumerate(names)], form


@stale
def another_number_of_an_entry(rng: Random, files: Files) -> Case | None:
    """Entries were renumbered: SEARCH has a line or some with the numbers of before."""
    lines, _ = numbered(rng)
    size = rng.choice([1, 1, 2, 3])
    at = rng.randrange(len(lines) - size)
    shift = rng.choice([-2, -1, 1, 2, 10])
    entries = [re.search(r"\d+", line) for line in lines]
    sent: list[str] = []
    for line, found in zip(lines[at : at + size], entries[at : at + size], strict=True):
        assert found is not None
        number = int(found.group()) + shift
        if number < 0:
            return None
        sent.append(f"{line[: found.start()]}{number}{line[found.end() :]}")
    nth = rng.randrange(size)
    name = rng.choice(
        [each for each in COLOURS if any(line.rstrip(" |").endswith(each) for line in [sent[nth]])]
    )
    new = [*sent[:nth], sent[nth].replace(name, "scarlet"), *sent[nth + 1 :]]
    wanted = [*lines[: at + nth], lines[at + nth].replace(name, "scarlet"), *lines[at + nth + 1 :]]
    around = files.pick(rng, "markdown", "yaml").lines[:10] if rng.random() < 0.5 else ()
    text = joined((*around, *lines))
    end = "\n" if rng.random() < 0.5 or size > 1 else ""
    search, replaced = "\n".join(sent) + end, "\n".join(new) + end
    if search in text:
        return None
    right = joined((*around, *wanted)).encode()
    return Case(text.encode(), search, replaced, None, wanted=right, where=len(around) + at + 1, about="list")


@stale
def another_number_in_code(rng: Random, files: Files) -> Case | None:
    one = sample(rng, files, low=2)
    found = one and kept_line(rng, one)
    if one is None or found is None:
        return None
    at, moved = found
    digit = _word(rng, one.lines[at], r"\d+")
    if digit is None:
        return None
    line = (
        one.lines[at][: digit.start()]
        + str(int(digit.group()) + rng.choice([1, 2, 10]))
        + one.lines[at][digit.end() :]
    )
    return against(one, with_line(one.lines, at, line), with_line(one.expected, moved, line))


@stale
def line_numbers_that_are_not_the_files(rng: Random, _files: Files) -> Case | None:
    """SEARCH begins each line with a number that is not that of the file's line; the numbers are text."""
    lines, form = numbered(rng)
    if form != "{}\t{}" and form != "| {} | {} |":
        return None
    size = 2
    at = rng.randrange(len(lines) - size)
    sent = [
        re.sub(r"\d+", lambda one: str(int(one.group()) + 3), line, count=1) for line in lines[at : at + size]
    ]
    text = joined(tuple(lines))
    if joined(tuple(sent)) in text:
        return None
    new = [sent[0], sent[1] + "x"]
    wanted = joined((*lines[: at + 1], lines[at + 1] + "x", *lines[at + 2 :])).encode()
    return Case(
        text.encode(),
        joined(tuple(sent)),
        joined(tuple(new)),
        None,
        wanted=wanted,
        where=at + 1,
        about="list",
    )


# --- there already

there = in_group("there already")


def already(one: Sample, file: Lines, search: Lines, new: Lines) -> Case | None:
    """Return an edit that is done in the file: whoever does it again, or changes anything, is wrong.

    What stands once, to the letter, is an exception: it may be replaced literally, whatever is there.
    """
    text, sent, wanted = joined(file), joined(search), joined(new)
    if search == new:
        return None
    if text.count(sent) == 1:
        right = text.replace(sent, wanted).encode()
        return Case(text.encode(), sent, wanted, right, also=(text.encode(),), about=one.language)
    return Case(text.encode(), sent, wanted, None, also=(text.encode(),), about=one.language)


@there
def replaced_already(rng: Random, files: Files) -> Case | None:
    one = sample(rng, files)
    if one is None or places(one.expected, one.new) != 1 or len(one.new) < len(one.old):
        return None
    return already(one, one.expected, one.old, one.new)


@there
def added_already(rng: Random, files: Files) -> Case | None:
    """New lines below or above stand there; what is quoted stands once: an exact edit may land again."""
    source = files.pick(rng)
    size, more = rng.choice([1, 1, 2]), rng.choice([1, 2, 3, 5])
    at = rng.randrange(max(len(source.lines) - size - more, 1))
    block = source.lines[at : at + size + more]
    below = rng.random() < 0.7
    search, added = (block[:size], block[size:]) if below else (block[more:], block[:more])
    text = joined(source.lines)
    if sum(map(solid, added)) < min(more, 2) or not search[0].strip() or text.count(joined(search)) != 1:
        return None
    if (
        text.count(joined(block)) != 1
        or len(block) < size + more
        or not solid(added[0])
        or not solid(added[-1])
    ):
        return None
    one = Sample(source.language, source.lines, at, search, block, 0)
    return already(one, source.lines, search, block)


@there
def added_already_at_another_depth(rng: Random, files: Files) -> Case | None:
    """The same with SEARCH and REPLACE dedented."""
    made = added_already(rng, files)
    if made is None:
        return None
    search, new = made.search.split("\n")[:-1], made.replace.split("\n")[:-1]
    own = min((indent_of(line) for line in (*search, *new) if line.strip()), key=len)
    if not own or not all(line.startswith(own) for line in (*search, *new) if line.strip()):
        return None
    dedented = (tuple(line.removeprefix(own) for line in each) for each in (search, new))
    file = tuple(made.text.decode().split("\n")[:-1])
    return already(Sample(made.about, file, 0, (), (), 0), file, *dedented)


WRAPS = {
    "python": [
        ("if ready:", ""),
        ("try:", "except OSError:\n{}    pass"),
        ("with lock:", ""),
        ("for each in every:", ""),
    ],
    "javascript": [
        ("if (ready) {", "}"),
        ("try {", "}} catch (error) {{\n{0}  report(error);\n{0}}}"),
        ("for (;;) {", "}"),
    ],
    "go": [("if ready {", "}"), ("for {", "}")],
    "rust": [("if ready {", "}"), ("loop {", "}")],
    "c": [("if (ready) {", "}"), ("while (more()) {", "}")],
    "shell": [("if ready; then", "fi"), ("while more; do", "done")],
}
STEPS = {"python": "    ", "javascript": "  ", "go": "\t", "rust": "    ", "c": "    ", "shell": "  "}


def wrap(rng: Random, language: str, lines: Lines) -> Lines:
    """Return lines below a new header, and its closer."""
    header, closer = rng.choice(WRAPS[language])
    own, step = indent_of(lines[0]), STEPS[language]
    closing = closer.format(own) if "{}" in closer or "{0}" in closer else closer
    ending = tuple((own + closing).split("\n")) if closer else ()
    return (own + header, *(step + line if line.strip() else line for line in lines), *ending)


def wrappable(rng: Random, files: Files) -> Sample | None:
    """Draw lines that are no deeper at their end than at their start, of a language that we can wrap."""
    one = sample(rng, files, *WRAPS, high=4)
    if one is None or one.language not in WRAPS:
        return None
    own = indent_of(one.old[0])
    if not all(line.startswith(own) for line in one.old if line.strip()) or indent_of(one.old[-1]) != own:
        return None
    text = "".join(one.old)
    return one if all(text.count(left) == text.count(right) for left, right in ("()", "[]", "{}")) else None


@there
def wrapped_already(rng: Random, files: Files) -> Case | None:
    one = wrappable(rng, files)
    if one is None:
        return None
    new = wrap(rng, one.language, one.old)
    file = (*one.lines[: one.at], *new, *one.lines[one.at + len(one.old) :])
    if places(file, one.old) != 1:
        return None
    return already(one, file, one.old, new)


@there
def a_blank_line_is_there_already(rng: Random, files: Files) -> Case | None:
    source = files.pick(rng, *CODE)
    blank = [
        nth
        for nth in range(1, len(source.lines) - 1)
        if not source.lines[nth] and solid(source.lines[nth - 1]) and solid(source.lines[nth + 1])
    ]
    if not blank:
        return None
    nth = rng.choice(blank)
    new = source.lines[nth - 1 : nth + 2]
    one = Sample(source.language, source.lines, nth - 1, (new[0], new[2]), new, 0)
    return already(one, source.lines, one.old, new) if places(source.lines, new) == 1 else None


@there
def blanks_are_there_already(rng: Random, files: Files) -> Case | None:
    """A formatter's change of blanks inside a line that the file has."""
    source = files.pick(rng, *CODE)
    found = [
        nth
        for nth, line in enumerate(source.lines)
        if re.search(r"\w (?:[-+*/=<>]|==|&&) \w|, \w|\) \{", line)
    ]
    if not found:
        return None
    at = rng.choice(found)
    line = source.lines[at]
    old = re.sub(r"(?<=\w) ([-+*/=<>]|==|&&) (?=\w)", r"\1", line)
    old = re.sub(r",  *(?=\w)", ",", old) if rng.random() < 0.7 or old == line else old
    old = old.replace(") {", "){") if rng.random() < 0.5 or old == line else old
    if re.search("[\"'`#]|//", line) or old == line or places(source.lines, (line,)) != 1:
        return None
    one = Sample(source.language, source.lines, at, (old,), (line,), 0)
    return already(one, source.lines, one.old, one.new)
