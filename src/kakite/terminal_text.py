"""Escapes untrusted text, so that a terminal shows all of it and obeys none of it. Imports nothing heavy."""

from __future__ import annotations

import re
import shlex
import unicodedata
from typing import cast

# What prints as nothing although Python counts it as printable: fillers, variation selectors, a joiner.
_BLANK = "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0e\uffa0\U000e0100-\U000e01ef"
_SPACES = " \u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
_EMOJI = "\ufe0f"  # makes a symbol an emoji
_INVISIBLE = re.compile(f"[{_BLANK}]")
_ODD = re.compile(f"[{_BLANK}{_EMOJI}]")
_SURROGATES = re.compile("[\ud800-\udfff]")
_LAYOUT = re.compile(f"[\n\t{_SPACES}]")


def escape_control(text: str) -> str:
    r"""Return the text with control, direction and unseen characters as ``\u202e``: it cannot lie.

    Newlines and tabs stay. The others are written as JSON would, so that JSON stays what it is.
    """
    if not _INVISIBLE.search(text) and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "\n".join(map(_escape_line, text.split("\n")))


def _escape_line(line: str) -> str:
    if not _INVISIBLE.search(line) and line.replace("\t", "").isprintable():
        return line
    return "".join(each if _is_visible(each) else _as_json(each) for each in line)


def escape_one_line(text: str) -> str:
    r"""Return the text like ``escape_control``, on one line and with no blank but the common one.

    Newlines and tabs are shown as ``\n`` and ``\t``.
    """
    if text.isprintable() and not _ODD.search(text):
        return text
    lines = text.replace("\n", "\\n").replace("\t", "\\t")
    return "".join(each if _is_plain(each) else _as_json(each) for each in lines)


def replace_surrogates(text: str) -> str:
    """Return the text with U+FFFD for each half of a surrogate pair, which UTF-8 has no bytes for.

    Models write such halves, and so does whoever decodes JSON that has them as escapes.
    """
    return _SURROGATES.sub("\N{REPLACEMENT CHARACTER}", text)


def replace_surrogates_in_json(value: object) -> object:
    """Return what JSON said with each of its texts, also in keys, without lone surrogates."""
    match value:
        case str():
            return replace_surrogates(value)
        case list():
            return [replace_surrogates_in_json(each) for each in cast("list[object]", value)]
        case dict():
            items = cast("dict[str, object]", value).items()
            return {replace_surrogates(name): replace_surrogates_in_json(each) for name, each in items}
        case _:
            return value


_WORD = re.compile(r"[^\W\d_]+")
_LIKE_LATIN = frozenset(
    # Cyrillic and Greek ones that most fonts draw as a Latin letter.
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0455\u0456\u0458\u0501\u051b\u051d\u04bb"
    "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u0405\u0406\u0408"
    "\u03bf\u03c1\u03bd\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7"
)
_COMMAND_CHARS = 200
"""Characters of a text that is more likely a command or a path than prose."""
_ALIKE_SCRIPTS = frozenset(("CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "LISU"))


def find_lookalike_words(text: str) -> tuple[str, ...]:
    """Return the words of a path or a command that can be taken for others, each once, in order.

    A word mixes Latin letters with such of a script that has letters like them; or it has only letters that
    look like Latin ones, beside Latin words.
    """
    if text.isascii():
        return ()
    tokens = (token for token in text.split() if not token.isascii())
    whole = text if len(text) <= _COMMAND_CHARS else ""
    found = (word for token in tokens for word in _WORD.findall(token) if _is_lookalike(word, whole or token))
    return tuple(dict.fromkeys(found))


def _is_lookalike(word: str, around: str) -> bool:
    if word.isascii():
        return False
    scripts = set(map(_get_script, word))
    if "LATIN" in scripts and scripts & _ALIKE_SCRIPTS:
        return True
    return _LIKE_LATIN.issuperset(word) and re.search("[A-Za-z]", around) is not None


def find_lookalike_letters(word: str) -> tuple[str, ...]:
    """Return the letters of such a word that are not Latin, each once, in order."""
    return tuple(dict.fromkeys(letter for letter in word if _get_script(letter) in _ALIKE_SCRIPTS))


def _get_script(letter: str) -> str:
    return unicodedata.name(letter, "").partition(" ")[0]


def quote_command(words: tuple[str, ...]) -> str:
    """Return a command line that a POSIX shell would read as these words; what does not show is escaped.

    Only the quotes ``$'…'``, used for words with such characters, take bash or zsh.
    """
    return " ".join(map(_quote_word, words))


def _quote_word(word: str) -> str:
    if all(map(_is_plain, word)):
        return shlex.quote(word)
    escaped = word.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{''.join(each if _is_plain(each) else _as_bash(each) for each in escaped)}'"


def _is_visible(character: str) -> bool:
    if character.isprintable():
        return not _INVISIBLE.match(character)
    return bool(_LAYOUT.match(character))


def _is_plain(character: str) -> bool:
    return character.isprintable() and not _ODD.match(character)


def _as_bash(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _as_json(character: str) -> str:
    code = ord(character)
    if code <= 0xFFFF:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
