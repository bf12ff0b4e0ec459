"""Comments that stand for code, and comments that only look so.

Code lines of SEARCH are gone from REPLACE, and a comment stands for them: whatever it says, in whatever
language, writing it would lose code. A refusal is right, and so is the result with the lines in its place. An
honest comment, with which nothing is lost or new code comes for the old, has to land.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from cases import Case, in_group
from samples import Sample
from stale import indent_of, joined, sample, solid
from typed import CODE, COMMENTS, Files

placeholders = in_group("placeholders")
PLAIN = (
    *(
        "... existing code ...",
        "... rest of the code ...",
        "rest of code",
        "... rest of the function ...",
        "...",
    ),
    *(
        "existing code",
        "[existing code]",
        "(existing code here)",
        "<existing code>",
        "existing implementation",
    ),
)
OTHER_WORDS = (
    *(
        "not modified",
        "see original",
        "rest of validation unchanged",
        "unchanged",
        "same as before",
        "as before",
    ),
    *("no changes here", "keep the rest", "code continues here", "implementation stays the same", "as above"),
    *("snip", "[snip]", "omitted for brevity", "remaining methods stay as they are", "previous code", "etc."),
    *(
        "original code here",
        "rest is identical",
        "the remaining lines are the same",
        "(lines omitted)",
        "ditto",
    ),
)
SIGNS = ("⋮", "…", "[...]", "(...)", "<...>", "....", ". . .", "--- 8< ---", "⋯", "~~~", "…unchanged…")
LANGUAGES = (
    *(
        "나머지 코드는 동일합니다",
        "기존 코드 유지",
        "이하 생략",
        "Rest bleibt unverändert",
        "unveränderter Code",
    ),
    *(
        "wie bisher",
        "el resto del código sigue igual",
        "código existente",
        "sin cambios",
        "остальной код без изменений",
    ),
    *(
        "без изменений",
        "существующий код",
        "既存のコード",
        "以下省略",
        "変更なし",
        "其余代码不变",
        "省略",
        "现有代码",
    ),
    *(
        "le reste est inchangé",
        "code existant",
        "restante do código permanece igual",
        "código existente aqui",
    ),
    *(
        "il resto rimane invariato",
        "reszta kodu bez zmian",
        "kodun geri kalanı aynı",
        "phần còn lại giữ nguyên",
    ),
    *("بقية الكود دون تغيير", "बाकी कोड वैसा ही", "решта коду без змін", "resten af koden er uændret"),
)


CLEAR = (
    *("rest of the code", "existing code", "(rest unchanged)", "rest of the function stays the same"),
    *("unchanged code", "remaining code stays the same", "Rest of the implementation", "mevcut kod"),
    *("kode yang ada", "bestaande code", "olemassa olevaa koodia", "קוד קיים", "الكود الحالي", "以下同じ"),
    *("其余代码保持不变", "나머지 코드", "остальной код", "codice esistente", "... 42 more lines"),
)
BARE = (
    *("...existing code...", "…existing code…", "⋯", "...;", "…,", "etc.", "・・・", "。。。", "..", ". . ."),
    *("rest of the code", "existing code", "{{ rest }}", "<snip>", "[existing code]", "(existing code)"),
)


def _lossy(rng: Random, files: Files, words: tuple[str, ...], *, bare: bool = False) -> Case | None:
    """Let a comment stand for two lines of code or more, away from the line that changes: a comment beside a
    new line may say what that does.
    """
    one = sample(rng, files, *CODE, low=4, high=10)
    if one is None or len(one.new) != len(one.old):
        return None
    runs = [
        (low, high)
        for low in range(len(one.old))
        for high in range(low + 2, len(one.old) + 1)
        if not low - 1 <= one.changed <= high and all(_is_code(one, line) for line in one.old[low:high])
    ]
    if not runs:
        return None
    low, high = rng.choice(runs)
    mark, end = COMMENTS[one.language]
    word = rng.choice(words)
    comment = indent_of(one.old[low]) + (word if bare else f"{mark} {word}{end}")
    new = (*one.new[:low], comment, *one.new[high:])
    whole = joined(one.expected).encode()
    made = Case(
        joined(one.lines).encode(), joined(one.old), joined(new), None, also=(whole,), about=one.language
    )
    return replace(made, wanted=whole, where=one.at + 1)


def _is_code(one: Sample, line: str) -> bool:
    mark, _ = COMMENTS[one.language]
    return solid(line) and not line.lstrip().startswith((mark, "#", "//", "/*", "*", "-", '"""'))


@placeholders
def the_usual_words(rng: Random, files: Files) -> Case | None:
    return _lossy(rng, files, PLAIN)


@placeholders
def other_words(rng: Random, files: Files) -> Case | None:
    return _lossy(rng, files, OTHER_WORDS)


@placeholders
def a_sign(rng: Random, files: Files) -> Case | None:
    return _lossy(rng, files, SIGNS)


@placeholders
def another_language(rng: Random, files: Files) -> Case | None:
    return _lossy(rng, files, LANGUAGES)


@placeholders
def in_another_kind_of_comment(rng: Random, files: Files) -> Case | None:
    """For example `/* … */` where `//` is usual, or no comment at all."""
    made = _lossy(rng, files, (*PLAIN, *OTHER_WORDS, *SIGNS, *LANGUAGES))
    if made is None:
        return None
    mark, end = COMMENTS[made.about]
    lines = made.replace.split("\n")
    assert made.wanted is not None
    sent = {*made.search.split("\n"), *made.wanted.decode().split("\n")}
    at = next(
        (n for n, line in enumerate(lines) if line.lstrip().startswith(mark) and line not in sent), None
    )
    if at is None:
        return None
    text = lines[at].strip().removeprefix(mark).removesuffix(end).strip()
    pairs = [("", ""), (f"{mark} ... ", " ..."), (f"{mark} [", "]")]
    pairs += [("/* ", " */"), ("{/* ", " */}")] if mark == "//" else []
    head, tail = rng.choice(pairs)
    if not head and not text.startswith((".", "…", "⋮", "[", "(", "<")):
        return None
    lines[at] = indent_of(lines[at]) + head + text + tail
    return replace(made, replace="\n".join(lines))


@placeholders
def without_a_sign_of_a_comment(rng: Random, files: Files) -> Case | None:
    return _lossy(rng, files, BARE, bare=True)


@placeholders
def beside_new_code(rng: Random, files: Files) -> Case | None:
    """New lines stand above it, fewer than those that are lost: only a refusal is right."""
    one = sample(rng, files, *CODE, low=5, high=10)
    if one is None or not all(_is_code(one, line) for line in one.old):
        return None
    low = rng.randrange(len(one.old) - 3)
    inner = indent_of(one.old[low + 1])
    code = [f"{inner}renewed{nth} = compute({rng.randrange(100)})" for nth in range(rng.randrange(4))]
    if len(code) + 1 >= len(one.old) - low:
        return None
    mark, end = COMMENTS[one.language]
    new = (*one.old[:low], *code, f"{inner}{mark} {rng.choice(CLEAR)}{end}")
    text = joined(one.lines).encode()
    return Case(text, joined(one.old), joined(new), None, about=one.language)


# --- honest

honest = in_group("honest comments")
SAYS = (
    *(
        "The rest of the fields is optional.",
        "Keep the existing order.",
        "Same as in the other module.",
        "TODO: more",
    ),
    *(
        "Unchanged since 2019, see the history.",
        "... and so on for each entry",
        "existing users have no key yet",
    ),
    *(
        "Rest unchanged by the caller.",
        "This stays as it was.",
        "etc.",
        "See the original paper.",
        "Previous value wins.",
    ),
    *(
        "기존 값은 그대로 둔다",
        "以下は変更しない",
        "остальное не меняется",
        "no change needed here",
        "omitted if empty",
    ),
)


@honest
def added_and_nothing_is_lost(rng: Random, files: Files) -> Case | None:
    one = sample(rng, files, *CODE, low=2)
    if one is None or len(one.new) < len(one.old):
        return None
    mark, end = COMMENTS[one.language]
    nth = rng.randrange(len(one.new) + 1)
    comment = f"{indent_of(one.new[min(nth, len(one.new) - 1)])}{mark} {rng.choice(SAYS)}{end}"
    return _plain(replace(one, new=(*one.new[:nth], comment, *one.new[nth:])))


@honest
def there_before_and_kept(rng: Random, files: Files) -> Case | None:
    """The file has the comment; the edit changes a line beside it."""
    one = sample(rng, files, *CODE, low=2)
    if one is None:
        return None
    mark, end = COMMENTS[one.language]
    nth = rng.randrange(len(one.old) + 1)
    if not 0 < nth < len(one.old) or nth == one.changed:
        return None
    comment = f"{indent_of(one.old[nth])}{mark} {rng.choice((*SAYS, *OTHER_WORDS))}{end}"
    old = (*one.old[:nth], comment, *one.old[nth:])
    moved = nth + (len(one.new) - len(one.old)) * (nth > one.changed)
    new = (*one.new[:moved], comment, *one.new[moved:])
    lines = (*one.lines[: one.at], *old, *one.lines[one.at + len(one.old) :])
    return _plain(replace(one, lines=lines, old=old, new=new))


@honest
def new_code_for_the_old(rng: Random, files: Files) -> Case | None:
    """Lines are written anew, with a comment of what they do."""
    one = sample(rng, files, *CODE, low=2, high=5)
    if one is None:
        return None
    own = indent_of(one.old[0])
    if any(not line.startswith(own) for line in one.old if line.strip()):
        return None
    mark, end = COMMENTS[one.language]
    says = rng.choice(
        ["Sum the columns first.", "Use the helper: it checks the range, too.", "Faster for small input."]
    )
    code = tuple(
        f"{own}renewed{nth} = compute({rng.randrange(100)}, {nth})" for nth in range(rng.randrange(2, 5))
    )
    return _plain(replace(one, new=(f"{own}{mark} {says}{end}", *code)))


@honest
def much_code_written_anew(rng: Random, files: Files) -> Case | None:
    """Many lines become a few, which keep the first one and say what they do."""
    one = sample(rng, files, *CODE, low=8, high=24)
    if one is None:
        return None
    own = indent_of(one.old[0])
    if any(not line.startswith(own) for line in one.old if line.strip()):
        return None
    mark, end = COMMENTS[one.language]
    says = rng.choice(
        ["Apply cycles from left to right", "One pass is enough.", "The index says where each begins."]
    )
    code = tuple(
        f"{own}    renewed{nth} = compute({rng.randrange(100)}, {nth})" for nth in range(rng.randrange(3, 7))
    )
    return _plain(replace(one, new=(one.old[0], f"{own}    {mark} {says}{end}", *code)))


@honest
def a_comment_for_comments(rng: Random, files: Files) -> Case | None:
    """A comment of several lines becomes one line: no code is lost."""
    source = files.pick(rng, *CODE)
    mark, end = COMMENTS[source.language]
    if end:
        return None
    starts = [
        nth
        for nth in range(len(source.lines) - 2)
        if all(line.lstrip().startswith(mark + " ") for line in source.lines[nth : nth + 2])
        and indent_of(source.lines[nth]) == indent_of(source.lines[nth + 1])
    ]
    if not starts:
        return None
    at = rng.choice(starts)
    old = source.lines[at : at + 2]
    new = (f"{indent_of(old[0])}{mark} {rng.choice(SAYS)}",)
    if joined(source.lines).count(joined(old)) != 1:
        return None
    return _plain(Sample(source.language, source.lines, at, old, new, 0))


@honest
def code_that_looks_like_one(rng: Random, files: Files) -> Case | None:
    """Ellipses that are code: a stub's body, a spread, a variadic, a range."""
    words = {
        "python": ("...", "x[..., 0]", "def stub() -> None: ...", "pass  # ..."),
        "javascript": ("...others,", "call(...args)", "return {...rest};"),
        "typescript": ("...others,", "call(...args)"),
        "go": ("call(args...)", "names = append(names, more...)"),
        "rust": ("..Default::default()", "for n in 0..9 {}", "(..)"),
        "c": ("va_start(rest, ...);", "int printf(const char *, ...);"),
    }
    one = sample(rng, files, *words, low=1, high=4)
    if one is None or one.language not in words:
        return None
    line = indent_of(one.old[-1]) + rng.choice(words[one.language])
    return _plain(replace(one, new=(*one.old, line)))


STARTS = (
    *("**kw,", "*args,", "*p = 1;", "--x;", '#include "ab.h"', "#main { x: 1 }", "#[cfg(test)]", "./lib"),
    *("/*public*/ final T f(J j) {", "pass  # nothing to do", ".. note:: para one", "# Heading", "-----"),
    *("#!/usr/bin/env lua", "--universal upload", "%{endpoint: atom}", "/*.rockspec", "** bold **", '" />'),
)


@honest
def what_only_begins_like_a_comment(rng: Random, files: Files) -> Case | None:
    """One or two lines become one whose first sign begins comments elsewhere."""
    one = sample(rng, files, *CODE, low=1, high=2)
    if one is None:
        return None
    return _plain(replace(one, new=(indent_of(one.old[0]) + rng.choice(STARTS),)))


@honest
def commented_out(rng: Random, files: Files) -> Case | None:
    """Each line stands behind the sign of a comment."""
    one = sample(rng, files, *CODE, low=2, high=8)
    if one is None:
        return None
    mark, end = COMMENTS[one.language]
    own = indent_of(one.old[0])
    if end or any(not line.startswith(own) for line in one.old):
        return None
    return _plain(replace(one, new=tuple(f"{own}{mark} {line.removeprefix(own)}" for line in one.old)))


@honest
def some_lines_merged_into_one(rng: Random, files: Files) -> Case | None:
    """A comment says what the new line does."""
    one = sample(rng, files, *CODE, low=3, high=6)
    if one is None:
        return None
    mark, end = COMMENTS[one.language]
    own = indent_of(one.old[0])
    says = rng.choice(("does all of it", "One pass.", "TODO: make this faster", "See RFC 2616, section 5.1"))
    return _plain(replace(one, new=(f"{own}{mark} {says}{end}", f"{own}compute_all()")))


def _plain(one: Sample) -> Case | None:
    text, search = joined(one.lines), joined(one.old)
    if text.count(search) != 1 or one.old == one.new or joined(one.new) in text:
        return None
    return Case(text.encode(), search, joined(one.new), joined(one.expected).encode(), about=one.language)
