"""Lines that stand for others: dots alone, and comments that say that something is left out or unchanged.

Such a line is told by a closed vocabulary: every word of it must be one that placeholders are made of. A
comment that says anything else beside is a comment.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kakite.edit.folding import BLANKS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kakite.edit.lines import Lines
    from kakite.edit.places import Block

_OPEN = r"(?:\#+|//+|/\*+|<!--|--|;+|%+|\*|\{/\*)"
_CLOSE = r"(?:\*+/\}?|-->)"
_DOTS = r"(?:\.{3,}|…+)"
_WORDS = r"[\w ,'’/()-]{0,80}"
_ELISION = re.compile(rf"{_OPEN}?\s*(?:{_DOTS}\s*(?:{_WORDS}{_DOTS})?|\[\s*{_DOTS}\s*\])\s*{_CLOSE}?")
_COMMENT = re.compile(rf"{_OPEN}\s*(.*?)\s*{_CLOSE}?")
_BRACKETED = re.compile(r"[(\[（【〔<](.*)[)\]）】〕>]")
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_LONGEST = 160

_STATES = frozenset(
    ["unchanged", "unmodified", "untouched", "omitted", "elided", "snip", "snipped", "省略", "略"]
)
_WEAK_KEYS = frozenset(["rest", "remainder", "remaining", "existing"])
"""Said of code they leave it out; said of data they may as well be what the program does."""
_KEYS = _STATES | _WEAK_KEYS
_DATA_NOUNS = (
    "argument element entry entries field input item line option page paragraph parameter section step table"
    " text thing value variable"
)
_DATA = frozenset(word for noun in _DATA_NOUNS.split() for word in (noun, f"{noun}s"))
_PHRASES = re.compile(
    r"same as|as (?:before|above|is)\b|(?:stays?|remains?) (?:the same|here)"
    r"|no further changes?\b|no changes\b|not shown"
)
_WEAK = re.compile(r"no change|etc\.?|and so on")
_TODO = re.compile(r"(?:TODO|FIXME)\b:?\s*", re.IGNORECASE)
_TRAILING = re.compile(r"(?:pass|\.\.\.|return;?|[{}]+;?)\s*((?:\#|//|/\*).*)")
"""A line that does nothing, with a comment."""
_WITH_DOTS = frozenset(
    ["other", "others", "previous", "original", "same", "more", "above", "below", "before", "continues"]
)
_NOUNS = (
    "attribute body block case class code component config configuration constant content contents css data"
    " declaration definition doc documentation element entry entries everything export field file function"
    " handler helper here html implementation import input item javascript js jsx line logic markup method"
    " model module option page paragraph parameter part program prop properties property python query route"
    " rule script section setting setup state statement step stuff style stylesheet table template test text"
    " thing type typescript value variable"
)
_FILLERS = (
    "a all and any are as be before above below brevity by change changes changed clarity continue continues"
    " else entire exactly file's follow follows for from further go goes had has identical in is it its"
    " just keep"
    " kept leave left modified my no not nothing of old omit or other others our previous original previously"
    " remain remains same see show shown snipped stay stays still that the these this those to unchanged was"
    " were with you your was"
)
_VOCABULARY = (
    _KEYS
    | _WITH_DOTS
    | frozenset(_FILLERS.split())
    | frozenset(word for noun in _NOUNS.split() for word in (noun, f"{noun}s", f"{noun}es"))
)
_EAST_ASIAN = re.compile(
    r"(?:以下|以降|以上|上記|残り|その他|他|既存|ここ|これ|この|まで|から|部分|コード|処理|実装|メソッド|関数|クラス|定義"
    r"|内容|ファイル|行|同じ|同様|変更|なし|無し|ありません|しない|せず|省略|中略|後略|前略|略|そのまま|変わらず|です|します"
    r"|後|あと|同上|は|の|を|が|も|と|に|で|其他|其它|其余|其餘|剩余|剩餘|余下|原有|现有|現有|已有|之前|以前|上面|下面|以上|此处|此處|这里|這裡"
    r"|代码|代碼|程式碼|方法|函数|函數|内容|內容|逻辑|邏輯|实现|實作|导入|类|類別|行|的|都|均|保持|不变|不變|原样|原樣|与|與|和"
    r"|相同|一样|一樣|未|更改|修改|变更|無|无|没有|沒有|变化|變化|[、。，,:：\s])+"
)
_EAST_ASIAN_KEYS = re.compile(
    r"略|変更(?:なし|無し|ありません|しない|せず)|同じ|同様|そのまま|変わらず|既存|残り|不变|不變|其余|其餘|剩余|剩餘|余下|原样|原樣|现有"
    r"|現有|原有|已有|相同|一样|一樣|同上|未更改|未修改|无变化|没有变化|無變化"
)
_LIKELY = (
    "...",
    "…",
    *sorted(_KEYS),
    "same",
    "as before",
    "as above",
    "as is",
    "no change",
    "no further",
    "remain",
    "etc",
    "so on",
)
_LIKELY_EAST_ASIAN = (
    "略",
    "変",
    "同",
    "その",
    "既存",
    "残り",
    "不",
    "其",
    "剩",
    "余",
    "原",
    "有",
    "一",
    "未",
    "相",
)
_STUB = re.compile(r"pass\b.*|raise NotImplementedError\b.*|(?:\#.*)|\.\.\.")
_LONGEST_DIFF = 4_000_000


def is_elision(line: str) -> bool:
    """Tell whether a line of SEARCH stands for lines that were left out."""
    line = line.strip(BLANKS)
    return len(line) <= _LONGEST and (bool(_ELISION.fullmatch(line)) or _told(line) is not None)


def is_placeholder(line: str) -> bool:
    """Tell whether a line says in words that something is left out: ``# ... rest of the code``."""
    return _told(line.strip(BLANKS)) == "sure"


def _told(line: str) -> str | None:
    """Tell whether a line says in words that something is left out: ``sure``, ``likely`` or None."""
    if len(line) > _LONGEST:
        return None
    if trailing := _TRAILING.fullmatch(line):
        line = trailing.group(1)
    comment = _COMMENT.fullmatch(line)
    inner = comment.group(1) if comment else line
    if comment is not None:
        inner = _TODO.sub("", inner)
    said = _without_dots(_unbracketed(_without_dots(inner)))
    if not any(char.isalpha() for char in said):
        return None
    if comment is None and not _stands_apart(line, said):
        return None
    if comment is not None and _WEAK.fullmatch(said.lower()):
        return "likely"
    return _says_left_out(said, dots=said != _unbracketed(inner), leading=bool(re.match(_DOTS, inner)))


def lines_to_look_at(lines: Lines) -> Sequence[int]:
    """Return which lines may stand for others; quick, and some too many."""
    lowered = lines.text.lower()
    words = _LIKELY if lines.text.isascii() else (*_LIKELY, *_LIKELY_EAST_ASIAN)
    if not any(word in lowered for word in words):
        return ()
    if len(lowered) != len(lines.text):  # letters that are two in lower case
        return range(len(lines))
    return sorted({lines.line_at(at) for word in words for at in _hits(lowered, word)})


def _hits(text: str, word: str) -> Iterator[int]:
    """Yield where a word stands."""
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + len(word))


def left_out(search: Block, replace: Block) -> str:
    """Return the line of REPLACE that stands for lines it leaves out; an empty string if none does.

    A line that SEARCH has too is text, or an elision of both. Dots alone may be code (Python's ``...``): they
    leave something out only where lines of SEARCH go, and words about data only where more go than come.
    """
    looked_at = lines_to_look_at(replace.lines)
    if not looked_at:
        return ""
    new = [(at, replace.lines[at].strip(BLANKS)) for at in looked_at]
    new = [(at, line) for at, line in new if is_elision(line)]
    known = {line for _, line in new}.intersection(line.strip(BLANKS) for line in search.lines) if new else ()
    new = [(at, line) for at, line in new if line not in known]
    said = next((line for _, line in new if is_placeholder(line)), "")
    if said or not new:
        return said
    losing = dict(_losing_lines(search.lines, replace.lines))
    return next((line for at, line in new if losing.get(at, 0) > (0 if _ELISION.fullmatch(line) else 1)), "")


def _without_dots(text: str) -> str:
    return re.sub(rf"^{_DOTS}\s*|\s*{_DOTS}$", "", text).strip()


def _unbracketed(text: str) -> str:
    found = _BRACKETED.fullmatch(text)
    return found.group(1).strip() if found else text


def _stands_apart(line: str, said: str) -> bool:
    """Tell whether a line without a comment mark is neither code (a spread ``...rest,``) nor a sentence."""
    opens = re.match(rf"{_DOTS}\s|{_DOTS}[(\[（]", line) is not None
    boxed = _BRACKETED.fullmatch(line) is not None or re.match(_DOTS, line) is not None
    lone = _WORD.fullmatch(said) is not None and said.lower() not in _STATES and said.isascii()
    return (opens or (boxed and not lone)) and not re.search(r"[,;=\"'`{}]|\w\(", said)


def _says_left_out(said: str, *, dots: bool, leading: bool) -> str | None:
    if not said.isascii():
        return "sure" if _EAST_ASIAN.fullmatch(said) and _EAST_ASIAN_KEYS.search(said) else None
    lowered = said.lower().replace("’", "'")
    words = _WORD.findall(lowered)
    is_strong = not _STATES.isdisjoint(words) or bool(_PHRASES.search(lowered))
    has_key = is_strong or not _WEAK_KEYS.isdisjoint(words)
    if leading and has_key:
        return "sure"
    if re.search(r"[^\w\s,.:!'()/&-]", lowered) or not _VOCABULARY.issuperset(words):
        return None
    if has_key:
        return "likely" if not is_strong and not dots and not _DATA.isdisjoint(words) else "sure"
    return "sure" if dots and not _WITH_DOTS.isdisjoint(words) else None


def _losing_lines(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the lines of REPLACE where lines of SEARCH go, with how it loses: see ``_loss``."""
    if len(old) * len(new) > _LONGEST_DIFF:
        yield from ((at, 2) for at in range(len(new)))
        return
    sent, written = ([line.strip(BLANKS) for line in lines] for lines in (old, new))
    from difflib import SequenceMatcher  # hardly any edit needs it

    for _, low, high, start, end in SequenceMatcher(None, sent, written, autojunk=False).get_opcodes():
        loss = _loss(sent[low:high], written[start:end])
        if loss:
            yield from ((at, loss) for at in range(start, end))


def _loss(old: Sequence[str], new: Sequence[str]) -> int:
    """Return 0 if no code goes, 1 if as much comes, else 2. Stubs do not count, nor heads that change."""
    heads = [line.split()[0] for line in new if line.endswith((":", "{"))]
    gone = [line for line in old if line and not _STUB.fullmatch(line)]
    for head in heads:
        same = next((line for line in gone if line.split()[0] == head and line.endswith((":", "{"))), None)
        if same is not None:
            gone.remove(same)
    come = [line for line in new if line and line.split()[0] not in heads and not is_elision(line)]
    return 0 if not gone else 1 if len(gone) <= len(come) else 2
