"""Tells of one line, in whatever language, what it opens, closes or goes on with.

It knows no language, only what nearly all of them share: brackets, tags, words that begin and end blocks,
items of lists, keys. What it cannot judge opens nothing.
"""

from __future__ import annotations

import re

from kakite.edit.matching.confusables import BLANKS
from kakite.edit.rewrite.indent_shift import is_block_start, is_comment

LONGEST = 2000
"""Up to how many characters of a line are looked at."""
CONTROL = re.compile(
    r"[}\s]*(?:def|if|else|elseif|elsif|elif|for|foreach|while|switch|until|unless|using|lock|catch)\b.*\)$"
)
BLOCK_WORD = re.compile(
    r"(?:async def|begin|case|catch|class|def|default|do|else|elsif|elif|ensure|except|finally|for|foreach"
    r"|function|if|ifdef|ifeq|ifndef|ifneq|interface|loop|match|module|namespace|repeat|rescue|sub|switch|then"
    r"|trait|try|unless|until|when|while|with|BEGIN|CASE|ELSE|ELSIF|EXCEPTION|FOR|IF|LOOP|WHEN|WHILE)\b.*(?<![;)}])$"
)
DO = re.compile(r"\bdo(?:\s*\|[^|]*\|)?$")
"""What opens a block at the end of a line of Ruby, or of a shell."""
ITEM = re.compile(r"(?:[-*+>]|\d{1,3}[.)])\s+\S")
END = (
    r"(?:end(?:if|for|foreach|while|function|func|macro|block|try|def|class|case|sub|module)?"
    r"|endef|fi|done|esac|END(?: (?:IF|LOOP|CASE))?)\b"
)
CLOSER = re.compile(rf"[}}\])]|</|(?:else|elif|elseif|elsif|except|finally|rescue|ensure|catch)\b|{END}")
_OPENER = re.compile(
    r"(?i:(?:\w+\s+)?(?:begin|case|class|declare|def\w*|default|do|else|elsif|elif|elseif|ensure|except|finally|for|foreach"
    r"|function|if\w*|loop|match|module|namespace|record|repeat|rescue|select|sub|switch|then|try|unless|until|when"
    r"|while|with)\b)|\{%|<%|\{\{#|\\begin\b|#"
)
"""What may begin a block, in whatever language."""
BRACKET = re.compile(r"[()\[\]{}]")
_QUOTED = re.compile(r"\\['\"]|\"(?:[^\"\\]|\\.)*\"|(?<!\w)[bBfFrRuU]{0,2}'(?:[^'\\]|\\.)*'(?!\w)")
"""A text whose brackets are none."""
CLOSES = {"}": "{", "]": "[", ")": "("}
CHAIN = re.compile(r"\.\w|[?:]\s|&&|\|\||[+|]\s")
"""What goes on with the line above, in whatever language."""
_CONTINUES = re.compile(
    r"[.?:&|+*/%=>,~^-]|<(?![A-Za-z/!?%])|and\b|or\b|in\b|is\b|not\b|if\b|else\b|where\b|[\"'`]"
)
_KEY_OF_WORD = re.compile(r"(?:class|for|function|if|match|module|namespace|when|with)\s*:\s+\S")
"""A key that is a word of other languages."""
_ANCHOR = re.compile(r":\s+[&!][\w./-]+$")
"""A key of YAML whose value has a name or a type, and comes below it."""
ENVIRONMENT = re.compile(
    r"\\begin\b|<%-?\s*(?:if|unless|case|for|while)\b|<%.*\bdo\b"
    r"|\{%-?\s*(?!set\b|include\b|import\b|extends\b|from\b|end|el)\w|.*\{\s*[\w, ]+\bin$"
)
"""What begins a block of TeX, of a template, of Swift."""
ASSIGNS = re.compile(r"[\w)\]>]\s=$")
"""The end of a line whose value comes below it."""
NEXT_CALL = re.compile(r"\??\.\w(?![^(]*[{,]$)|[?]\s(?!- )")
"""A call of what stands above, or a branch of a condition; a class of CSS is neither."""
_OPEN_QUOTE = re.compile(r'"[^\s"][^"]*(?:"[^"]*"[^"]*)*$')
_GOES_ON = re.compile(r"(?:[-+*/%&|^~<>=?:,(\[{\\]|\b(?:and|or|not|in|is|then|do|else|where|of|return))$")
RULE = re.compile(r"[\w.%$(){}/@ -]+ ?::?(?![=:])[^;\"]*$")
"""The head of a rule of a makefile."""
DIRECTIVE = re.compile(
    r"#\s*(?:if|ifdef|ifndef|else|elif|endif|define|undef|include|pragma|error|region|endregion)\b"
)
_SCALAR = re.compile(r"(?:^|[:-])\s*[|>][-+\d]*$")
"""The head of a block of text in YAML."""
_TAG = re.compile(r"(?<!\w)<(?![/%?])")
"""What opens a tag; behind a word it is a type's parameter."""
_UNCLOSED_TAG = re.compile(r"<[A-Za-z][\w:.-]*(?:\s[^<>]*)?$")
LABEL = re.compile(r"(?:case\b|default\b|when\b|public|private|protected|signals|slots|\w+:$)")


def may_open(head: str) -> bool:
    """Tell whether a line may begin a block, in whatever language."""
    opens = is_left_open(head) or is_tag_open(head) or _OPENER.match(head)
    return bool(opens or CONTROL.match(head) or DO.search(head))


def begins_block(line: str) -> bool:
    """Tell whether a line may begin a block, and is neither an item nor a comment."""
    body = line.strip(BLANKS)
    return may_open(body) and not (ITEM.match(body) or is_comment(body) or body.endswith("\\"))


def is_left_open(head: str) -> bool:
    """Tell whether what a line begins has to go on below it."""
    head = head.strip(BLANKS)
    return not is_comment(head) and (
        has_open_bracket(head) or (is_block_start(head) and not head.endswith((",", "\\")))
    )


def can_continue_deeper(head: str, following: str) -> bool:
    """Tell whether the line below another may be deeper as it belongs to that."""
    body = head.strip(BLANKS)
    if body.endswith(("\\", "%}", "%>")) or ITEM.match(body) or CHAIN.match(following.strip(BLANKS)):
        return True
    return may_open(body)


def is_comment_start(line: str) -> bool:
    """Tell whether a line begins a comment that goes on below it."""
    return line.startswith("/*") and "*/" not in line


def can_open_block(head: str, line: str, *, is_below: bool) -> bool:
    """Tell whether a deeper line can stand below this one; what ``is_below`` was no continuation of it."""
    if is_block_start(head) or has_open_bracket(head) or is_tag_open(head) or _SCALAR.search(head):
        return True
    if _KEY_OF_WORD.match(head):
        return False
    if _ANCHOR.search(head) or _OPEN_QUOTE.match(head) or ENVIRONMENT.match(head):
        return True
    if (
        head.endswith(("\\", "<"))
        or head.startswith(("{%", "<%", ".. "))  # a template's tag, a directive of reStructuredText
        or is_comment_start(head)
        or _UNCLOSED_TAG.match(head)
    ):
        return True
    if head.endswith(")") and head.count(")") > head.count("("):  # a case of a shell
        return True
    if BLOCK_WORD.match(head) or CONTROL.match(head) or DO.search(head):
        return True
    body = line.strip(BLANKS)
    if ITEM.match(head) or (line.startswith("\t") and RULE.match(head)):
        return True
    return bool(CHAIN.match(body)) or (not is_below and bool(_GOES_ON.search(head) or _CONTINUES.match(body)))


def has_open_bracket(line: str) -> bool:
    """Tell whether a line leaves a bracket open."""
    text = strip_quoted(line)
    return any(text.count(one) > text.count(two) for one, two in ("()", "[]", "{}"))


def count_open(line: str) -> int:
    """Return how many round and square brackets a line leaves open; less than none if it closes more."""
    text = strip_quoted(line)
    return sum(text.count(one) - text.count(two) for one, two in ("()", "[]"))


def strip_quoted(line: str) -> str:
    """Return a line without its quoted texts, unless it is a very long one."""
    has_quotes = len(line) <= LONGEST and ("'" in line or '"' in line)
    return _QUOTED.sub("", line) if has_quotes else line


def is_tag_open(line: str) -> bool:
    """Tell whether a line ends with a tag, and leaves one open."""
    return line.endswith(">") and len(_TAG.findall(line)) > line.count("</") + line.count("/>")
