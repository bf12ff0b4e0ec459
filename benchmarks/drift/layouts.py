"""Text whose blanks mean something: what is written keeps the layout that it has as sent.

SEARCH and REPLACE lost the indentation that their place has. All lines are moved back by that much, and no
blank else is touched. Lines of a literal that stand at the margin may be left there as well as be moved, but
for the end of a here-document, which must be left. A refusal is no mistake.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from cases import Case, in_group, register
from samples import places
from stale import indent_of, joined, sample
from typed import Files

layouts = in_group("literals")
Lines = tuple[str, ...]


def _words(rng: Random) -> list[str]:
    return rng.sample(["one", "two", "three", "four", "five", "six", "seven", "eight"], 4)


def _yaml(rng: Random) -> Lines:
    one, two, three, four = _words(rng)
    step = rng.choice(["  ", "    ", " "])
    sign = rng.choice(["|", ">", "|-", ">+"])
    return (f"{one}: {sign}", f"{step}{two}", f"{step} {three}", f"{step}   {four}", f"{two}: {three}")


def _docstring(rng: Random) -> Lines:
    one, two, three, four = _words(rng)
    step = rng.choice(["    ", "  "])
    return (
        f"def {one}():",
        f'{step}"""Return {two}.',
        "",
        f"{step}   {three}",
        f"{step}      {four}:",
        f"{step}  a",
        f'{step}"""',
    )


def _fence(rng: Random) -> Lines:
    one, two, three, four = _words(rng)
    return (
        f"- {one}:",
        "",
        f"  ```{rng.choice(['yaml', 'python', ''])}",
        f"  {two}:",
        f"     {three}:",
        f"       - {four}",
        "  ```",
    )


def _pre(rng: Random) -> Lines:
    one, two, three, four = _words(rng)
    return ("<div>", "  <pre>", f"   {one}", f"     {two}   {three}", f" {four}", "  </pre>", "</div>")


def _aligned(rng: Random) -> Lines:
    one, two, three, four = _words(rng)
    call = f"{one}_{two}("
    return (
        f"{call}{three},",
        f"{' ' * len(call)}{four},",
        f"{' ' * len(call)}# {one}",
        f"{' ' * (len(call) - 1)})",
    )


def _table(rng: Random) -> Lines:
    one, two, three, four = _words(rng)
    return ("```", f"{one:<8}{two}", f"   {three:<5}|{four}", f"\t{one}\t\t{two}", "```")


def _comment(rng: Random) -> Lines:
    one, two, three, four = _words(rng)
    return ("/*", f" * {one}", f" *   {two}", f" *      - {three}", f" *        {four}", " */")


BLOCKS: dict[str, tuple[Callable[[Random], Lines], tuple[str, ...]]] = {
    "a_block_scalar": (_yaml, ("yaml",)),
    "a_docstring": (_docstring, ("python",)),
    "a_fence_in_a_list": (_fence, ("markdown", "rst")),
    "preformatted_text": (_pre, ("html", "xml")),
    "aligned_arguments": (_aligned, ("python", "javascript", "c", "go")),
    "a_table_of_blanks": (_table, ("markdown", "rst")),
    "a_comment_with_its_own_layout": (_comment, ("javascript", "c", "rust", "css", "go")),
}


def _at_a_depth(rng: Random, files: Files, types: tuple[str, ...]) -> tuple[Lines, int, str, str] | None:
    """Draw a line that stands once and is indented, with nothing deeper below it."""
    source = files.pick(rng, *types)
    found = [
        nth
        for nth, line in enumerate(source.lines[:-1])
        if indent_of(line)
        and len(line.split()) > 1
        and len(indent_of(source.lines[nth + 1])) <= len(indent_of(line))
    ]
    if not found:
        return None
    at = rng.choice(found)
    if places(source.lines, (source.lines[at],)) != 1:
        return None
    return source.lines, at, indent_of(source.lines[at]), source.language


def _register(name: str) -> None:
    block, types = BLOCKS[name]

    def make(rng: Random, files: Files) -> Case | None:
        """New lines with a layout of their own, below two lines that lost their indentation."""
        found = _at_a_depth(rng, files, types)
        if found is None:
            return None
        lines, at, own, about = found
        new = block(rng)
        first = max(at - 1, 0)
        above = lines[first:at]
        if not all(line.startswith(own) and line.strip() for line in above):
            above, first = (), at
        quoted = (*above, lines[at])
        sent = tuple(line.removeprefix(own) for line in quoted)
        search = joined(sent)
        if joined(lines).count(search) == 1 or places(lines, quoted) != 1:
            return None  # a fragment to the letter: those are a group of their own
        right = (*lines[: at + 1], *(own + line if line else line for line in new), *lines[at + 1 :])
        text = joined(lines).encode()
        made = Case(text, search, joined((*sent, *new)), joined(right).encode(), where=first + 1, about=about)
        if block is not _pre:
            return made
        inside = range(2, len(new) - 2)
        left = tuple(line if nth in inside else own + line for nth, line in enumerate(new))
        return replace(made, also=(joined((*lines[: at + 1], *left, *lines[at + 1 :])).encode(),))

    register("literals", make, name)


for _name in BLOCKS:
    _register(_name)


def _margin(
    rng: Random, files: Files, kind: str, block: Lines, inside: range, at_least: range
) -> Case | None:
    """Literal lines at the margin below dedented code: moved, they would say something else."""
    one = sample(rng, files, kind, low=2, high=4)
    if one is None or one.language != kind:
        return None
    own = indent_of(one.old[0])
    if not own or not all(line.startswith(own) for line in one.old if line.strip()):
        return None
    if indent_of(one.old[-1]) != own or len(indent_of((*one.lines, "")[one.at + len(one.old)])) > len(own):
        return None
    sent = tuple(line.removeprefix(own) for line in one.old)
    if joined(sent) in joined(one.lines):
        return None
    after = one.lines[one.at + len(one.old) :]

    def written(left: range) -> bytes:
        new = (line if nth in left or not line else own + line for nth, line in enumerate(block))
        return joined((*one.lines[: one.at], *one.old, *new, *after)).encode()

    text = joined(one.lines).encode()
    made = Case(text, joined(sent), joined((*sent, *block)), written(inside), also=(written(at_least),))
    return replace(made, about=kind, where=one.at + 1)


@layouts
def a_here_document_at_the_margin(rng: Random, files: Files) -> Case | None:
    one, two, three, four = _words(rng)
    block = (f"cat > {one} <<'EOF'", two, f"  {three}", four, "EOF", f"check {one}")
    return _margin(rng, files, "shell", block, range(1, 5), range(4, 5))


@layouts
def a_string_at_the_margin(rng: Random, files: Files) -> Case | None:
    one, two, three, four = _words(rng)
    block = (f'{one} = """\\', two, f"  {three}", four, '"""', f"check({one})")
    return _margin(rng, files, "python", block, range(1, 5), range(0))


@layouts
def a_template_at_the_margin(rng: Random, files: Files) -> Case | None:
    one, two, three, four = _words(rng)
    block = (f"const {one} = `{two}", f"  {three}", four, "`;", f"check({one});")
    return _margin(rng, files, "javascript", block, range(1, 4), range(0))
