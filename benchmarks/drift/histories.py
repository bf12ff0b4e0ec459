"""Edits from the history of a git repository: what a commit did to a file is the edit, and what it made the
right result.

SEARCH are the lines that a commit changed, with as many lines around as make them unique; REPLACE is what it
made of them. Put to the file as it was then, the right result is known. Put to an older or a newer version
of the file, it is the clean three-way merge (SEARCH that stands there once, to the letter, may also be
replaced literally); where that merge is not clean, only a refusal is right. A group of its own lets the lines
that the commit kept drift as models do: another indentation, blank lines, blanks inside a line and at its
end, tabs.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from pathlib import Path
from random import Random

import typed
from cases import Case, in_group
from standing import first_line, has_place

COMMITS = 1500
LARGEST = 120_000
HEADER = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
TELLING = 20
"""How many characters without blanks lines have that stand somewhere by no chance."""
LONGEST = 60
"""Lines of a SEARCH at most."""
FOUR = {"python", "java", "c", "c++", "rust", "php", "kotlin", "cmake", "perl"}
"""Types that are often indented by four blanks."""
OWN = Path(__file__).parents[2]


@dataclass(frozen=True)
class Hunk:
    """Lines `start:end` of a version become other lines of the next version (0-based, half-open)."""

    path: str
    old: str
    new: str
    start: int
    end: int
    new_start: int
    new_end: int


@dataclass
class History:
    """A repository's changes of files, and the versions of each file, the newest first."""

    repo: Path
    hunks: list[Hunk] = field(default_factory=list)
    versions: dict[str, list[str]] = field(default_factory=dict)

    @cached_property
    def reader(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["git", "-C", str(self.repo), "cat-file", "--batch"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def text(self, blob: str) -> str | None:
        """Return the text of a blob; None if it is no usual text."""
        return _text(self, blob)

    def read(self, blob: str) -> bytes:
        stdin, stdout = self.reader.stdin, self.reader.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(f"{blob}\n".encode())
        stdin.flush()
        size = stdout.readline().split()
        if len(size) < 3:
            return b""
        data = stdout.read(int(size[2]))
        stdout.read(1)
        return data

    def __hash__(self) -> int:
        return hash(self.repo)

    def __eq__(self, other: object) -> bool:
        return self is other


@lru_cache(maxsize=3000)
def _text(history: History, blob: str) -> str | None:
    data = history.read(blob)
    if not data or len(data) > LARGEST or not data.endswith(b"\n") or b"\0" in data:
        return None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    strange = re.search("\r(?!\n)|[\x0b\f\x1c-\x1e\x85\u2028\u2029\ufeff]", text)
    return None if strange or max(map(len, text.split("\n"))) > 400 else text


@dataclass(frozen=True)
class Histories:
    """All repositories to draw from."""

    repos: tuple[History, ...]

    def draw(self, rng: Random) -> tuple[History, Hunk]:
        repo = rng.choice(self.repos)
        return repo, rng.choice(repo.hunks)


@cache
def load(repos: tuple[Path, ...]) -> Histories:
    """Read the histories of repositories, this project's own if none is named."""
    found = tuple(_history(repo) for repo in repos or (OWN,))
    return Histories(tuple(history for history in found if history.hunks))


def _history(repo: Path) -> History:
    history = History(repo)
    words = [
        "log",
        "-p",
        "-U0",
        "--no-merges",
        "--no-renames",
        "--diff-filter=M",
        "--full-index",
        "--no-color",
    ]
    shown = subprocess.Popen(
        ["git", "-C", str(repo), *words, "--no-ext-diff", "--format=", "-n", str(COMMITS)],
        stdout=subprocess.PIPE,
    )
    assert shown.stdout is not None
    path = old = new = ""
    for raw in shown.stdout:
        if raw.startswith(b"diff --git "):
            path = old = new = ""
        elif raw.startswith(b"index "):
            old, _, new = raw.decode().split()[1].partition("..")
        elif raw.startswith(b"+++ b/"):
            path = raw[6:].decode("utf-8", "replace").rstrip()
            if typed.type_of("/" + path):
                known = history.versions.setdefault(path, [])
                known += [blob for blob in (new, old) if blob not in known]
        elif raw.startswith(b"@@ ") and typed.type_of("/" + path):
            found = HEADER.match(raw.decode("utf-8", "replace"))
            assert found is not None
            history.hunks.append(_hunk(path, old, new, *(found.group(nth) for nth in range(1, 5))))
    shown.wait()
    return history


def _hunk(path: str, old: str, new: str, *numbers: str | None) -> Hunk:
    first, count, new_first, new_count = (1 if number is None else int(number) for number in numbers)
    start, new_start = (at - (size > 0) for at, size in ((first, count), (new_first, new_count)))
    return Hunk(path, old, new, start, start + count, new_start, new_start + new_count)


@dataclass(frozen=True)
class Change:
    """One hunk as an edit of a file's lines: `lines[at : at + len(search)]` becomes `new`."""

    lines: list[str]
    at: int
    search: list[str]
    new: list[str]
    head: int
    """How many lines of `search` stand before the change; `tail` of them after it."""
    tail: int
    about: str

    @property
    def result(self) -> list[str]:
        return [*self.lines[: self.at], *self.new, *self.lines[self.at + len(self.search) :]]

    def kept(self) -> list[int]:
        """Return which lines of `search` are not changed."""
        return [*range(self.head), *range(len(self.search) - self.tail, len(self.search))]


def change(rng: Random, histories: Histories, *, least: int = 0) -> tuple[History, Hunk, Change] | None:
    """Draw a hunk, with the lines around it that make it unique in its file."""
    history, hunk = histories.draw(rng)
    old, new = history.text(hunk.old), history.text(hunk.new)
    if old is None or new is None or hunk.end - hunk.start > LONGEST:
        return None
    if hunk.new_end - hunk.new_start > LONGEST:
        return None
    lines, later = old.split("\n")[:-1], new.split("\n")[:-1]
    inserted = later[hunk.new_start : hunk.new_end]
    around = rng.choice([0, 1, 1, 2, 3])
    for room in range(max(around, least, hunk.start == hunk.end), LONGEST):
        low, high = max(hunk.start - room, 0), min(hunk.end + room, len(lines))
        search = lines[low:high]
        if ("\n" + old).count("\n" + "\n".join(search) + "\n") == 1 and "".join(search).strip():
            if old.count("\n".join(search)) > 1:
                continue
            replaced = [*lines[low : hunk.start], *inserted, *lines[hunk.end : high]]
            about = typed.type_of("/" + hunk.path)
            made = Change(lines, low, search, replaced, hunk.start - low, high - hunk.end, about)
            return history, hunk, made
    return None


def whole(lines: list[str]) -> str:
    return "".join(line + "\n" for line in lines)


def sent(lines: list[str]) -> str:
    """Return lines as a model sends them: with newlines only."""
    return whole(lines).replace("\r\n", "\n")


def edit(found: Change, search: list[str] | None = None, new: list[str] | None = None) -> Case | None:
    search, new = found.search if search is None else search, found.new if new is None else new
    if search == new or not "".join(search).strip():
        return None
    text, result = whole(found.lines).encode(), whole(found.result).encode()
    if text == result:
        return None
    return Case(text, sent(search), sent(new), result, where=found.at + 1, about=found.about)


history = in_group("history")


@history
def as_it_was(rng: Random, histories: Histories) -> Case | None:
    """The file as it was before the commit."""
    drawn = change(rng, histories)
    return edit(drawn[2]) if drawn else None


@history
def an_older_version(rng: Random, histories: Histories) -> Case | None:
    return _stale(rng, histories, newer=False)


@history
def a_newer_version(rng: Random, histories: Histories) -> Case | None:
    return _stale(rng, histories, newer=True)


def _stale(rng: Random, histories: Histories, *, newer: bool) -> Case | None:
    drawn = change(rng, histories)
    if drawn is None:
        return None
    repo, hunk, found = drawn
    known = repo.versions[hunk.path]
    at = known.index(hunk.old)
    others = known[:at] if newer else known[at + 1 :]
    if not others:
        return None
    other = repo.text(rng.choice(others))
    made = edit(found)
    if other is None or made is None or "\r" in other:
        return None
    return merged_case(made, other)


@dataclass(frozen=True, slots=True)
class Stale(Case):
    """An edit put to another version, where git does not merge cleanly."""

    squeezed: str = ""
    """The only other result that is right, without blanks; empty if there is none: SEARCH stands in one place
    but for blanks, and nothing that the edit adds is there already."""

    def end(self, written: bytes | None) -> str:
        if written is None or self.accepts(written):
            return "right"
        if not self.squeezed or squeeze(written.decode()) != self.squeezed:
            return "wrong"
        sent, added, there = (
            {line.strip() for line in plain(text).split("\n")}
            for text in (self.replace, written.decode(), self.text.decode())
        )
        return "right" if added - there <= sent else "wrong"


def plain(text: str) -> str:
    """Return a text without the look-alikes that stand for plain characters."""
    return unicodedata.normalize("NFKC", text).translate(ALIKE)


ALIKE = str.maketrans("‘’“”–—‑", "''\"\"---")


def squeeze(text: str) -> str:
    return "\n".join(filter(None, ("".join(line.split()) for line in plain(text).split("\n"))))


def added(search: str, new: str) -> str:
    """Return what REPLACE has between the lines that it begins and ends with as SEARCH does."""
    old, wanted = search.split("\n"), new.split("\n")
    while old and wanted and old[0] == wanted[0]:
        old, wanted = old[1:], wanted[1:]
    while old and wanted and old[-1] == wanted[-1]:
        old, wanted = old[:-1], wanted[:-1]
    return "\n".join(wanted).strip("\n")


def is_there(case: Case, other: str) -> bool:
    """Tell whether what the edit adds stands in a text already, whatever the blanks."""
    there, search, new = (f"\n{squeeze(text)}\n" for text in (other, case.search, case.replace))
    lines = added(search, new)
    return bool(lines) and f"\n{lines}\n" in there


def is_done(case: Case, other: str) -> bool:
    """Tell whether all of REPLACE stands in a text already, and SEARCH does not: whoever refuses is right."""
    there, search, new = (f"\n{squeeze(text)}\n" for text in (other, case.search, case.replace))
    return len(new) > TELLING and new in there and search not in there


def only_place(case: Case, other: str) -> str:
    """Return the result where SEARCH stands once but for blanks, and nothing of REPLACE is there yet."""
    there, search, new = (f"\n{squeeze(text)}\n" for text in (other, case.search, case.replace))
    if there.count(search) != 1 or search == new or is_there(case, other):
        return ""
    return there.replace(search, new).strip("\n")


def merged_case(made: Case, other: str) -> Case:
    """Return an edit of one version put to another one."""
    text = other.encode()
    literal: tuple[bytes, ...] = ()
    if other.count(made.search) == 1:
        literal = (other.replace(made.search, made.replace).encode(),)
    assert made.expected is not None
    merged = merge(text, made.text, made.expected)
    search, new, about = made.search, made.replace, made.about
    if merged is not None and merged != text:
        right = (*literal, text) if is_done(made, other) else literal
        aim = merged.decode()
        stands = has_place(other, aim, search, new)
        return Case(
            text, search, new, merged, also=right, where=first_line(other, aim), about=about, stands=stands
        )
    done = merged == text and is_there(made, other)
    right = (*literal, text) if done else literal  # it is there already, or not clean
    squeezed = "" if done else only_place(made, other)
    return Stale(text, search, new, None, also=right, about=about, squeezed=squeezed)


def merge(ours: bytes, base: bytes, theirs: bytes) -> bytes | None:
    """Return the three-way merge, None where it is not clean."""
    with tempfile.TemporaryDirectory(prefix="drift-") as folder:
        files = [Path(folder, name) for name in ("ours", "base", "theirs")]
        for file, data in zip(files, (ours, base, theirs), strict=True):
            file.write_bytes(data)
        done = subprocess.run(["git", "merge-file", "-p", *files], capture_output=True, check=False)
    return done.stdout if done.returncode == 0 else None


# --- lines that a commit added below, above or in place of one line, which is quoted without its indentation

one_line = in_group("one line")


@one_line
def new_lines_as_in_the_file(rng: Random, histories: Histories) -> Case | None:
    found = _beside_one_line(rng, histories)
    if found is None:
        return None
    own = indent_of(found.search[0])
    return _fragment(found, "\n".join(found.new)[len(own) :])


@one_line
def new_lines_relative_to_it(rng: Random, histories: Histories) -> Case | None:
    """All lines lost the indentation of the line that is quoted; none stands left of it."""
    found = _beside_one_line(rng, histories)
    if found is None:
        return None
    own = indent_of(found.search[0])
    if not all(line.startswith(own) for line in solid(found.new)):
        return None
    return _fragment(found, "\n".join(line.removeprefix(own) for line in found.new))


def _beside_one_line(rng: Random, histories: Histories) -> Change | None:
    """Draw a commit that added lines beside one line, or wrote several for it, as an edit of that line."""
    drawn = change(rng, histories, least=1)
    if drawn is None:
        return None
    _, hunk, found = drawn
    old, head, tail = found.lines, found.head, found.tail
    middle = found.new[head : len(found.new) - tail]
    if hunk.start == hunk.end:
        side = rng.choice(["below", "above"])
        at = hunk.start - 1 if side == "below" else hunk.start
        if not 0 <= at < len(old):
            return None
        new = [old[at], *middle] if side == "below" else [*middle, old[at]]
    elif hunk.end - hunk.start == 1 and len(middle) > 1:
        at, new = hunk.start, middle
    else:
        return None
    own = indent_of(old[at])
    words = old[at].strip()
    is_plain = words and own and old[at] == own + words and whole(old).count(words) == 1
    if not is_plain or not new[0].strip() or not new[-1].strip() or indent_of(new[0]) != own:
        return None
    if any(line != line.rstrip() for line in new):
        return None
    return Change(old, at, [old[at]], new, 0, 0, found.about)


def _fragment(found: Change, replace: str) -> Case | None:
    search, text = found.search[0].strip(), whole(found.lines)
    if search == replace or "\r" in text:
        return None
    result = whole(found.result).encode()
    return Case(text.encode(), search, replace, result, where=found.at + 1, about=found.about)


# --- drift of the lines that the commit kept, and of all lines' indentation


def indent_of(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def unique(found: Change, search: list[str]) -> bool:
    """Tell whether lines stand in one place only, whatever the blanks."""
    text = "\n".join(filter(None, ("".join(line.split()) for line in found.lines)))
    needle = "\n".join(filter(None, ("".join(line.split()) for line in search)))
    return len(needle) > 8 and text.count(needle) == 1


quoted = in_group("history drift")


def drifted(found: Change, search: list[str], new: list[str]) -> Case | None:
    blank = any(line and not line.strip() for line in (*found.search, *found.new))
    if blank or search == found.search or not unique(found, search):
        return None
    return edit(found, search, new)


def solid(lines: list[str]) -> Iterator[str]:
    return (line for line in lines if line.strip())


@quoted
def dedented(rng: Random, histories: Histories) -> Case | None:
    """All lines lost the indentation that they have in common."""
    drawn = change(rng, histories, least=rng.randrange(3))
    if drawn is None:
        return None
    found = drawn[2]
    every = list(solid([*found.search, *found.new]))
    own = min(map(indent_of, every), key=len)
    if not own or not all(line.startswith(own) for line in every) or len(list(solid(found.search))) < 2:
        return None  # one line is a group of its own
    return drifted(found, *([line.removeprefix(own) for line in each] for each in (found.search, found.new)))


@quoted
def indented_too_much(rng: Random, histories: Histories) -> Case | None:
    drawn = change(rng, histories, least=rng.randrange(3))
    if drawn is None:
        return None
    found = drawn[2]
    if any("\t" in indent_of(line) for line in found.search):
        return None
    more = rng.choice(["  ", "    ", "        "])
    deeper = ([more + line if line.strip() else line for line in each] for each in (found.search, found.new))
    return drifted(found, *deeper)


@quoted
def tabs_for_blanks(rng: Random, histories: Histories) -> Case | None:
    drawn = change(rng, histories, least=rng.randrange(3))
    if drawn is None:
        return None
    found = drawn[2]
    every = list(solid([*found.search, *found.new]))
    if any("\t" in line or len(indent_of(line)) % 4 for line in every) or not any(map(indent_of, every)):
        return None
    steps = [len(indent_of(line)) for line in found.lines if indent_of(line)]
    if found.about not in FOUR or sum(step % 4 == 0 for step in steps) < 0.9 * len(steps):
        return None  # whoever writes a tab for four blanks there does so in a file of another step
    tabbed = (
        ["\t" * (len(indent_of(line)) // 4) + line.lstrip(" ") for line in each]
        for each in (found.search, found.new)
    )
    return drifted(found, *tabbed)


def _kept_drift(found: Change, lines: dict[int, str | None]) -> Case | None:
    """Let lines that the commit kept drift, in SEARCH and in REPLACE; None takes one away."""
    search = [lines.get(nth, line) for nth, line in enumerate(found.search)]
    size = len(found.search)
    head, tail = search[: found.head], search[size - found.tail :]
    middle = found.new[found.head : len(found.new) - found.tail]
    new = [line for line in (*head, *middle, *tail) if line is not None]
    return drifted(found, [line for line in search if line is not None], new)


@quoted
def blank_lines_lost(rng: Random, histories: Histories) -> Case | None:
    drawn = change(rng, histories, least=3)
    if drawn is None:
        return None
    found = drawn[2]
    size = len(found.search)
    inner = {*range(1, found.head - 1), *range(size - found.tail + 1, size - 1)}
    blank = [nth for nth in found.kept() if nth in inner and not found.search[nth].strip()]
    return _kept_drift(found, {rng.choice(blank): None}) if blank else None


@quoted
def blanks_within_a_line(rng: Random, histories: Histories) -> Case | None:
    """Blanks between the tokens of lines that the commit kept."""
    drawn = change(rng, histories, least=1)
    if drawn is None or drawn[2].about in {"markdown", "rst", "make", "shell"}:
        return None
    found = drawn[2]
    lines: dict[int, str | None] = {}
    for nth in found.kept():
        line = found.search[nth]
        if not re.search("[\"'`#]|//|/\\*|\\*", line):
            loose = re.sub(r", (?=\w)", ",", line) if rng.random() < 0.5 else re.sub(r" = (?=\w)", "=", line)
            if loose != line:
                lines[nth] = loose
    return _kept_drift(found, lines) if lines else None


@quoted
def trailing_blanks(rng: Random, histories: Histories) -> Case | None:
    drawn = change(rng, histories, least=1)
    if drawn is None or drawn[2].about == "markdown":
        return None
    found = drawn[2]
    kept = [nth for nth in found.kept() if found.search[nth].strip() and rng.random() < 0.7]
    return _kept_drift(found, {nth: found.search[nth] + rng.choice([" ", "  ", "\t"]) for nth in kept})
