"""Weighs how much the words of a line look like a placeholder: ``rest of the code``, ``以下省略``.

This is evidence only; what would be lost decides (``elision``).
"""

from __future__ import annotations

import re
from enum import IntEnum

DOTS = r"(?:\.{3,}|…+|⋮+|⋯+|・{2,}|。{2,}|．{3,}|\. \. \.)"
"""Dots that stand for something."""

_LONGEST_PHRASE = 9
"""In words."""
_FEW_WORDS = 6
_LONG = 60
_SHORT_SIGN = 4
_TELLING = 4
"""Letters of a word that says what a comment is about."""

_WHICH = re.compile(
    r"\b(?:rest|remainder|remaining|existing|previous|prior|original|others?|everything|all|current|old|your)\b"
)
_OFTEN_SAID = frozenset(["all", "current", "old", "your"])
"""Those of them that tell something only in few words."""
_FEW_OFTEN_SAID = 5
_WHAT = re.compile(
    r"\b(?:code|functions?|methods?|class(?:es)?|files?|implementation|logic|body|contents?|lines?|components?"
    r"|markup|styles?|imports?|sections?|handlers?|validation|modules?|script|definitions?|statements?|blocks?"
    r"|elements?|cases?|tests?|assertions?|parts?|stuff)\b"
)
_STATE = re.compile(
    r"\b(?:unchanged|unmodified|untouched|unaltered|same|as is|as before|identical|stays?|remains?|continues?"
    r"|omitted|skipped|elided|truncated|snipped|abbreviated|hidden|collapsed|goes here|not modified"
    r"|not (?:changed|shown|repeated)|no changes?)\b"
)
_ALONE = re.compile(
    r"(?:un|not )(?:changed|modified)|not (?:shown|repeated)(?: here)?"
    r"|(?:keep )?(?:the )?(?:rest|existing|remaining)|snip(?:ped)?|etc"
    r"|and so on|remains?|(?:keep|leave)(?: (?:this|it|these|them|all))?(?: as is)?|ditto|as is"
    r"|(?:(?:same|identical to|continues?)(?: as)? |as )(?:before|above)|more (?:code|lines)"
    r"|copy (?:the )?(?:rest|others?|remaining)(?: from (?:above|below|before))?"
    r"|see original"
    r"|(?:omitted|elided|skipped)(?: for (?:brevity|clarity))?|no changes?(?: (?:here|above|below|needed))?"
    r"|\d+ more \w+|lines? \d+(?: ?(?:-|–|to) ?\d+)?"
)
_HINT = re.compile(r"\b(?:keep|kept|below|above|before|brevity|clarity|etc|ditto|snip|so on|\w+ here$)\b")
_CODE_ANYWHERE = re.compile(
    r"\b(?:co|ko)d(?:e|es|ice|igo|icul|ul|u|un|en|owi|om)?\b|\bcódigo\b|\bkood|\bкод|κώδικ|コード|代码|코드"
    r"|कोड|קוד|كود|โค้ด"
)
_FOREIGN_STATE = re.compile(
    r"\b(?:unverändert|wie bisher|bleib(?:t|en) gleich|inchang|ne change(?:nt)? pas|sin cambios"
    r"|sem alterações|invariat|bez zmian|beze změn|uændret"
    r"|không (?:thay )?đổi|ongewijzigd|oförändra|uendret|neschimbat|без измен|без змін)"
    r"|省略|変更な|不变|생략|변경 없음"
)
_FOREIGN = re.compile(
    r"\b(?:unverändert|bleib(?:t|en)\b|übrig|restlich|bisher|bestehend|inchang|reste\b|restant|existant|resto\b"
    r"|restante|existente|igual\b|sin cambios|sem alterações|invariat|esistent|reszta|pozostał"
    r"|istniejąc|bez zmian|zbytek|beze změn|kalan|geri\b|mevcut|değişme|aynı|giữ nguyên|còn lại"
    r"|bestaande|ongewijzigd|resten\b|uændret|oförändra|uendret|befintlig|olemassa|ennallaan"
    r"|restul|neschimbat|sisanya|yang ada|tetap sama|остальн|существующ|прежн|без измен|решта"
    r"|без змін|υπόλοιπ|υπάρχων)"
    r"|省略|残り|既存|変更な|同じ|同様|同上|其余|其它|其他|现有|原有|之前|变更前"
    r"|不变|保持|以下|나머지|기존|생략|동일|이하|بقية|الحالي|קיים"
    r"|שינוי|मौजूदा|बाकी|เดิม"
)
_ENGLISH = re.compile(
    r"\b(?:the|a|an|to|of|is|are|be|for|in|and|or|with|from|if|by|on|this|that|not|it|its|when|we|you|so|at)\b"
)
_FILLER = re.compile(r"\b(?:else|here|more|there|leave)\b")
_LETTERS = re.compile(r"[^\W\d_]")
_WORD = re.compile(r"[^\W\d_]+")
_PLAIN_WORDS = re.compile(r"[a-z]+(?: [a-z]+)+[.!]?")
_LOOKS_LIKE_CODE = re.compile(r"[=;{}\\$|]|\w\(|\)\)|\]\(|::|->|\w\.\w|//")
_SIGN = re.compile(r"[- ]*(?:8<|>8)[- ]*|~{1,3}|✂(?:\s*✂)*")
_EDGES = " \t.…⋮⋯・。．:!,;-–—()[]{}<>（）【】〔〕*~"


class Evidence(IntEnum):
    """The evidence that a text stands for something else."""

    NONE = 0
    SOME = 1
    """A word of it is one that such texts have, or it is in a language that is not known here."""
    CLEAR = 2
    """It says just that."""


def weigh_evidence(said: str) -> Evidence:
    """Return how much a comment says that it stands for code."""
    body = said.strip(_EDGES).lower()
    words = len(body.split())
    if not _LETTERS.search(body):
        dots = re.fullmatch(rf"[(\[<{{]*\s*{DOTS}\s*[)\]>}}]*", said.strip())
        if dots or _SIGN.fullmatch(said.strip("[]()<> .…")):
            return Evidence.CLEAR
        return Evidence(not said.isascii() and len(said.strip()) < _SHORT_SIGN)
    if found := _FOREIGN.findall(body):
        is_clear = len(found) + len(_CODE_ANYWHERE.findall(body)) > 1 or _FOREIGN_STATE.search(body)
        return Evidence.CLEAR if is_clear and words <= _FEW_WORDS and len(body) < _LONG else Evidence.SOME
    if _is_clear_english(body, words):
        return Evidence.CLEAR
    if _LOOKS_LIKE_CODE.search(said) or (said.isascii() and words > _LONGEST_PHRASE):
        return Evidence.NONE
    hints = (_WHICH, _WHAT, _STATE, _HINT, _CODE_ANYWHERE)
    if any(hint.search(body) for hint in hints) or not said.isascii():
        return Evidence.SOME
    is_english = _ENGLISH.search(body)
    is_short = words <= _FEW_WORDS and _PLAIN_WORDS.fullmatch(said.strip())
    return Evidence.SOME if is_short and not is_english else Evidence.NONE


def is_unchanged_note(said: str) -> bool:
    """Tell whether a text says that something stays as it is, or is left out."""
    return bool(_STATE.search(said.lower()))


def is_elision_alone(said: str) -> bool:
    """Tell whether a text has no other words than those that say that something stays, or is left out."""
    left = said.lower()
    for words in (_STATE, _WHICH, _WHAT, _HINT, _ENGLISH, _FILLER):
        left = words.sub("", left)
    return not _LETTERS.search(left)


def is_about(said: str, code: str) -> bool:
    """Tell whether a comment has a word of the code, or of its names: it tells of that, then."""
    words = {word for word in _WORD.findall(said.lower()) if len(word) >= _TELLING}
    parts = (_WHICH, _WHAT, _STATE, _HINT)
    words = {word for word in words if not any(part.fullmatch(word) for part in parts)}
    return not words.isdisjoint(_WORD.findall(code))


def _is_clear_english(body: str, words: int) -> bool:
    if _ALONE.fullmatch(body):
        return True
    which = set(_WHICH.findall(body))
    if words > _FEW_OFTEN_SAID:
        which -= _OFTEN_SAID
    found = [bool(which), *(bool(part.search(body)) for part in (_WHAT, _STATE))]
    return words <= _LONGEST_PHRASE and found.count(True) > 1
