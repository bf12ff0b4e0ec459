"""Edits of real code, mutated at random, for as long as you like: ``python tests/edit/fuzz.py [SECONDS]
[SEED]``.

Not collected by pytest. It stops at the first broken law and prints the case:

- ``apply``, ``parse`` and ``answer_line`` raise nothing but their own errors;
- the inverse of what was applied gives the original, and a failure changes nothing;
- a place that was matched has the digits, operators and words of SEARCH, in that order, whatever was
forgiven;
- an exact, unique SEARCH that is no single line without its indentation is replaced as a string is;
- what a suggestion offers can be accepted;
- bytes outside of the changes are identical.
"""

from __future__ import annotations

import contextlib
import json
import random
import re
import sys
import sysconfig
import time
import unicodedata
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

from kakite.edit import Edit, EditError, FormatError, Match, Result, SourceText, accept, apply, parse
from kakite.edit.jsonl_protocol import answer_line

ODD = [
    "“",
    "’",
    "…",
    "\u00a0",
    "\t",
    "  ",
    " ",
    "\r\n",
    "\r",
    "\n",
    "\n\n",
    "é",
    "e\u0301",
    "，",
    "0",
    "=",
    "not ",
    "x",
    "\u200b",
    "😀",
]
MARKS = [
    "...",
    "# ...",
    "// ... existing code ...",
    "12 | ",
    "3: ",
    "```\n",
    "&lt;",
    '\\"',
    "\\n",
    "<<<<<<< SEARCH\n",
]


def corpus() -> list[str]:
    paths = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))[::7]
    return [path.read_bytes().decode("utf-8", "ignore") for path in paths]


def mutated(rng: random.Random, text: str) -> str:
    for _ in range(rng.choice([0, 1, 1, 2, 3, 6])):
        at = rng.randrange(len(text) + 1)
        end = min(at + rng.choice([0, 1, 1, 2, 8]), len(text))
        text = text[:at] + rng.choice([*ODD, "", "", "", rng.choice(MARKS), text[at:end] * 2]) + text[end:]
    how = rng.random()
    if how < 0.1:
        text = text.replace("    ", rng.choice(["\t", "  ", "      "]))
    elif how < 0.2:
        text = "\n".join(line.strip() for line in text.split("\n"))
    elif how < 0.3:
        text = re.sub("^ {4}", "", text, flags=re.MULTILINE)
    elif how < 0.35:
        text = text.replace("\n", "\r\n")
    return text


def case(rng: random.Random, texts: list[str]) -> tuple[str, list[Edit]]:
    lines = rng.choice(texts).split("\n")
    start = rng.randrange(max(len(lines) - 40, 1))
    lines = lines[start : start + rng.randrange(3, 120)]
    if rng.random() < 0.3:
        lines += lines[: rng.randrange(len(lines))]
    text = mutated(rng, "\n".join(lines))
    edits: list[Edit] = []
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        at = rng.randrange(len(lines))
        search = "\n".join(lines[at : at + rng.randrange(1, 8)]) + rng.choice(["", "\n"])
        search = search[rng.choice([0, 0, 0, 3]) : rng.choice([None, None, None, -2])]
        line = rng.choice([None, None, at + 1, rng.randrange(-3, 200)])
        replace = mutated(rng, rng.choice([search, search, "", "new()\n", "\n".join(lines[:3])]))
        edits.append(Edit(search=mutated(rng, search), replace=replace, line=line, all=rng.random() < 0.1))
    return text, edits


def essence(text: str) -> tuple[list[str], list[str], list[str]]:
    """Return digits, operators and words, with look-alikes joined in this file's own way."""
    text = unicodedata.normalize("NFC", text.replace("\u200b", "")).replace("…", "...")
    text = re.sub("[–—−‐]", "-", text)
    return re.findall(r"\d", text), re.findall(r"[<>=!+*/%&|^~-]", text), re.findall(r"[^\W\d_]+", text)


def check(text: str, edits: list[Edit]) -> str:
    try:
        result = apply(text, edits)
    except EditError as error:
        for failure in error.failures:
            if failure.suggestion is not None:
                assert accept(text, failure.suggestion).text != text, "a suggestion changes something"
        return error.failures[0].code
    assert result.changes.apply(text) == result.text, "changes lead to the text"
    assert result.changes.invert(text).apply(result.text) == text, "the inverse brings back the original"
    for match in result.matches:
        check_match(text, edits[match.index], match)
    if len(edits) == 1 and not edits[0].all:
        check_literal(text, edits[0], result)
    return result.matches[0].level


def check_match(text: str, edit: Edit, match: Match) -> None:
    if "line_numbers" in match.forgiven:
        return
    there, sent = essence(text[match.start : match.end]), essence(edit.search)
    assert there[0] == sent[0], "digits are never forgiven"
    assert there[1] == sent[1], "operators are never forgiven"
    assert there[2] == sent[2], "words are never forgiven"


def check_literal(text: str, edit: Edit, result: Result) -> None:
    """Hold a single exact edit to ``str.replace``, where no exception of the rules can apply."""
    at = text.find(edit.search)
    if at < 0 or text.find(edit.search, at + 1) >= 0 or "\r" in text + edit.search + edit.replace:
        return
    before = text[text.rfind("\n", 0, at) + 1 : at]
    is_stripped = bool(before) and not before.strip() and len(edit.search.split("\n")) < 3
    forgot_end = edit.search.endswith("\n") and not edit.replace.endswith("\n")
    if not (is_stripped or forgot_end or not edit.replace or result.matches[0].forgiven):
        assert result.text == text.replace(edit.search, edit.replace), "an exact edit is literal"


def check_bytes(rng: random.Random, text: str, edits: list[Edit]) -> None:
    data = text.encode(rng.choice(["utf-8", "utf-16", "utf-16-le", "latin-1", "cp932", "gbk"]), "ignore")
    data = data[: rng.randrange(len(data) + 1)] + rng.choice([b"", b"", b"\xff", b"\x81", b"\x00"])
    source = SourceText.from_bytes(data)
    assert source.to_bytes() == data, "bytes come back"
    result = apply(source, edits, partial=True)
    assert len(result.failures) + len({match.index for match in result.matches}) == len(edits), (
        "each edit is told of"
    )
    if not result.changes:
        assert result.source.to_bytes() == data, "a failure changes nothing"
        return
    first, last = result.changes.changes[0], result.changes.changes[-1]
    head = source.text[: first.start].encode(
        source.encoding, "surrogateescape" if "16" not in source.encoding else "surrogatepass"
    )
    written = result.source.to_bytes()
    assert len(head) > len(data) or written[: len(source.bom)] == source.bom, "the mark stays"
    tail = len(source.text) - last.end
    again = SourceText(source.text[last.end :], source.encoding)
    if tail and data.endswith(again.to_bytes()):
        assert written.endswith(again.to_bytes()), "the rest stays"


def check_replies(rng: random.Random, text: str, edits: list[Edit]) -> None:
    body = "".join(f"<<<<<<< SEARCH\n{edit.search}=======\n{edit.replace}>>>>>>> REPLACE\n" for edit in edits)
    for reply in (
        mutated(rng, body),
        mutated(rng, json.dumps([{"search": e.search, "replace": e.replace} for e in edits])),
    ):
        with contextlib.suppress(FormatError):
            parse(reply)
        json.loads(answer_line(json.dumps({"text": text, "reply": reply})))
    json.loads(answer_line(mutated(rng, json.dumps({"text": text[:200], "edits": []}))))


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(10**9)
    rng, texts = random.Random(seed), corpus()
    ended: dict[str, int] = {}
    stop = time.monotonic() + seconds
    count = 0
    while time.monotonic() < stop:
        state = rng.getstate()
        text, edits = case(rng, texts)
        try:
            outcome = check(text, edits)
            if count % 5 == 0:
                check_bytes(rng, text, edits)
                check_replies(rng, text, edits)
        except Exception:
            print(f"seed {seed}, case {count}, state {hash(state)}\n{text!r}\n{edits!r}")
            raise
        ended[outcome] = ended.get(outcome, 0) + 1
        count += 1
    print(f"seed {seed}: {count} cases in {seconds:.0f} s, all laws hold")
    for name, times in sorted(ended.items(), key=lambda pair: -pair[1]):
        print(f"{times:8} {name}")


if __name__ == "__main__":
    main()
