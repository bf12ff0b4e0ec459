"""Builds a participant's prompt: all that it needs, since it remembers nothing, and no names. Pure.

Who follows an answer because of its author does not check it, so no participant learns whose answer it reads,
its own included. Names, introductions and signatures are removed, not style. What an answer says of others by
their names stays, with another word for the name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Literal

from kakite.debate.answers import Answer
from kakite.debate.findings import format_place, list_findings
from kakite.debate.model import (
    Debate,
    Decision,
    ParticipantInfo,
    assign_letters,
    find_round,
    select_visible_answers,
)
from kakite.prompt_files import make_prompt_loader

load_prompt = make_prompt_loader("kakite.debate", stripped=True)
"""Returns the text of ``prompts/NAME.md``."""


PLACEHOLDER = "[assistant]"
"""What stands for a name in an answer."""

_AFTER_NAME = r"(?:[ _-](?:code|cli|opus|sonnet|haiku|turbo|mini|v?\d+\.\d+)|-\d+)*"
"""What makes a longer name of a name: ``Claude Code``, ``gpt-5.1``."""
_ME = rf"(?:NAME){_AFTER_NAME}(?:\s*\([^)\n]{{0,40}}\))?"
_MODEL = r"an?\s+(?:AI|(?:AI\s+|large\s+)?language)\s+(?:model|assistant)"
_MADE = r"(?:,?\s+(?:made|developed|trained|created|built|by|from)\b[^,.;\n]{0,60})?"
_FIRST_PERSON = r"(?=(?:I|my|me|we|our)\b)"
_INTRODUCTIONS = (
    # As Claude, I …; As an AI model made by …, I …
    rf"\b(?:speaking\s+)?as\s+(?:{_ME}|{_MODEL}{_MADE}),\s*{_FIRST_PERSON}",
    rf"\b(?:I\s+am|I['’]m|my\s+name\s+is)\s+(?:{_ME}|{_MODEL})\b{_MADE}(?:[,.;:!]\s*|$)",
    rf"(?:^|(?<=[.!?]\s)){_ME}\s+here(?:[.:!]\s*|,\s*{_FIRST_PERSON})",  # Claude here.
)
_END = r"(?:\]|\([^)\n]*\)|<[^>\n]*>|[ \t.!*_])*"
"""What may stand behind a name in a signature, and a link around it."""
_BY = r"[^\w\n]*(?:generated|written|created|made|authored)[ \t]+(?:by|with)[ \t]+[\[*_]*"
_SIGNATURES = (
    rf"{_BY}(?:NAME){_AFTER_NAME}{_END}",
    r"[ \t>*_]*(?:(?:co-)?authored-by|signed-off-by)[ \t]*:.*(?<![a-z0-9])(?:NAME)(?![a-z0-9]).*",
)
_DASHED = rf"[ \t]*(?:—|–|--|~)[ \t]*[*_]*(?:the[ \t]+)?(?:NAME){_AFTER_NAME}(?:,.{{0,40}}|{_END})"
"""— Claude"""
_MAX_SIGNATURES = 5


def find_topic_words(sides: Collection[ParticipantInfo], question: str) -> frozenset[str]:
    """Return the participants' names that the question itself has: in an answer they give nobody away."""
    words = {word for side in sides for word in _list_names(side)}
    return frozenset(
        word for word in words if re.search(_add_boundaries(re.escape(word)), question, re.IGNORECASE)
    )


def anonymize_text(text: str, sides: Collection[ParticipantInfo], free: Collection[str] = ()) -> str:
    """Return an answer without signatures, introductions and names.

    A word that is ``free`` stays where it stands, except where somebody says that it is who he is.
    """
    everyone = _join_alternatives(word for side in sides for word in _list_names(side))
    hidden = [word for side in sides for word in _list_names(side) if word not in free]
    text = _strip_signatures(text, everyone, _join_alternatives(hidden))
    for form in _INTRODUCTIONS:
        text = re.sub(form.replace("NAME", everyone), "", text, flags=re.IGNORECASE | re.MULTILINE)
    return _replace_words(text, hidden, lambda _: PLACEHOLDER) if hidden else text


def _strip_signatures(text: str, everyone: str, hidden: str) -> str:
    """Return the text without the signatures at its end; anywhere else a line like one is content.

    So it is with a name that the question speaks of, unless it stands behind a dash and apart.
    """
    forms = [re.compile(form.replace("NAME", hidden), re.IGNORECASE) for form in _SIGNATURES if hidden]
    dashed = re.compile(_DASHED.replace("NAME", everyone), re.IGNORECASE)
    for _ in range(_MAX_SIGNATURES):
        lines = text.rstrip().splitlines(keepends=True) or [""]
        last, apart = lines[-1], len(lines) == 1 or not lines[-2].strip()
        if not (apart and dashed.fullmatch(last)) and not any(form.fullmatch(last) for form in forms):
            break
        text = "".join(lines[:-1])
    return text


def replace_names(text: str, shown_as: Mapping[str, str]) -> str:
    """Return a person's words with ``Answer A`` for each participant's name, as who reads them knows it.

    A participant without a letter is ``[assistant]``.
    """
    if not shown_as:
        return text
    letters = {name.casefold(): letter for name, letter in shown_as.items()}

    def label_name(word: str) -> str:
        letter = letters.get(word.casefold(), "")
        return f"Answer {letter}" if letter else PLACEHOLDER

    return _replace_words(text, list(shown_as), label_name)


def _replace_words(text: str, words: Collection[str], by: Callable[[str], str]) -> str:
    pattern = _add_boundaries(f"({_join_alternatives(words)}){_AFTER_NAME}")
    return re.sub(pattern, lambda found: by(found[1]), text, flags=re.IGNORECASE)


def _add_boundaries(pattern: str) -> str:
    # Not \b: a name beside Japanese has none, and `codex_output` is to be found.
    return rf"(?<![A-Za-z0-9]){pattern}(?![A-Za-z0-9])"


def _join_alternatives(words: Iterable[str]) -> str:
    longest_first = sorted(set(words), key=lambda word: (-len(word), word))
    return "|".join(map(re.escape, longest_first))


def _list_names(side: ParticipantInfo) -> tuple[str, ...]:
    return tuple(word.casefold() for word in (side.name, *side.aliases))


Purpose = Literal["answer", "critique", "decision"]
"""To answer blind; to judge the answers so far and answer anew; to go on as a person has decided."""

MAX_ANSWER = 40_000
"""Characters of one answer that others are shown."""
MAX_QUOTE = 400
"""Characters of an answer that a person went on with earlier."""

# Small letters are words: "answer a question". So is a letter that is part of more: "answer A/B tests".
_LETTER = r"[A-H](?![A-Za-z0-9+#]|[-/][A-Za-z0-9])"
_REFERENCE = re.compile(
    rf"(\b[Aa]nswer\s?)({_LETTER})"
    rf"|(\b[Aa]nswers\s?|回答\s?)({_LETTER}(?:(?:,? (?:and|or) |, ?|[とや、・]){_LETTER})*)"
)

# Possessive, since what is between may be long.
_TAG = re.compile(
    r"<(?=\s*+(?:/\s*+)?(?:question|answer|decision|objections|diff|files?|findings)\b)", re.IGNORECASE
)


def find_purpose(debate: Debate, number: int, side: str) -> Purpose:
    """Return the purpose of a round: that after the latest one, or one that is going on."""
    decision = debate.turn.decision
    opens = number == len(debate.rounds) - len(debate.turn.rounds) + 1
    if opens and decision and decision.kind not in {"evidence", "continue"}:
        return "decision"
    return "critique" if select_visible_answers(debate, number, side) else "answer"


def build_prompt(debate: Debate, number: int, side: str) -> str:
    """Return the whole prompt for a participant in that round."""
    purpose = find_purpose(debate, number, side)
    known = assign_letters(debate, number, side)
    block = load_prompt("block")
    asks = _build_review_fields(debate, number)
    if asks:
        block = block.replace("{\n", "{\n" + asks, 1)
    if purpose == "critique":
        ranking = f"  {load_prompt('block_ranking')}\n" if len(known) > 2 else ""
        letters = ", ".join(sorted(known.values()))
        block = load_prompt("block_verdicts").format(letters=letters, ranking=asks + ranking)
    matter = "\n\n".join(_build_sections(debate, number, side))
    access = load_prompt("access_files" if debate.terms.code else "access_none")
    if debate.terms.mode == "quick":
        access += " " + load_prompt("one_page")
    return load_prompt(purpose).format(matter=matter, block=block, access=access) + "\n"


def _build_review_fields(debate: Debate, number: int) -> str:
    """Return the fields that a review asks for besides; nothing in any other debate."""
    if not debate.terms.review:
        return ""
    names = ["block_findings", *(["block_support"] if list_findings(debate, number) else [])]
    return "".join(f"  {load_prompt(name)}\n" for name in names)


def _format_findings(debate: Debate, number: int) -> str:
    """Return what was reported before a round, without names; nothing if nothing was."""
    lines = [
        f"F{each.number} ({each.finding.severity}) {format_place(each.finding)}: "
        + _anonymize(debate, f"{each.finding.problem} {each.finding.fix}".strip())
        for each in list_findings(debate, number)
    ]
    return "\n".join([load_prompt("judge_findings"), "", *lines]) if lines else ""


def reveal_names(debate: Debate, number: int, side: str, text: str) -> str:
    """Return a participant's text for a person: ``Answer A (codex)`` where it wrote ``Answer A``."""
    names = {letter: name for name, letter in assign_letters(debate, number, side).items()}

    return _replace_letters(text, lambda letter: f"{letter} ({names[letter]})" if letter in names else letter)


def _build_sections(debate: Debate, number: int, side: str) -> Iterator[str]:
    known = assign_letters(debate, number, side)
    answers = select_visible_answers(debate, number, side)
    decisions = [_format_decision(debate, place, answers, known) for place in range(1, len(debate.turns))]
    yield wrap_in_tag("question", debate.prompt)
    if debate.terms.code and debate.terms.code.diff:
        yield wrap_in_tag("diff", debate.terms.code.diff)
    for count, decision in enumerate(decisions[:-1], start=1):
        yield wrap_in_tag("decision", decision, number=str(count))
    for name, letter in sorted(known.items(), key=lambda item: item[1]):
        author = assign_letters(debate, find_round(debate, name, answers[name]), name)
        yield wrap_in_tag("answer", _format_answer(debate, answers[name], author, known), letter=letter)
    if debate.terms.review and (findings := _format_findings(debate, number)):
        yield wrap_in_tag("findings", findings)
    if objections := "\n".join(_format_objections(debate, answers, known)):
        yield wrap_in_tag("objections", objections)
    if decisions:
        yield wrap_in_tag("decision", decisions[-1], number=str(len(decisions)))


def _format_answer(debate: Debate, answer: Answer, then: Mapping[str, str], known: Mapping[str, str]) -> str:
    """Return an answer for others: without names, its references by the letters that the reader knows."""
    text = answer.text
    if len(text) > MAX_ANSWER:
        half = MAX_ANSWER // 2
        text = f"{text[:half]}\n… {len(text) - MAX_ANSWER} characters left out …\n{text[-half:]}"
    parts = {
        "": text,
        "In a sentence: ": answer.claim,
        "What would change this view: ": answer.would_change_my_mind,
    }
    # Each by itself: a signature is at the end of it.
    told = [f"{named}{_anonymize(debate, part).strip()}" for named, part in parts.items() if part]
    return _relabel_references("\n\n".join(told), then, known)


def _format_objections(
    debate: Debate, answers: Mapping[str, Answer], known: Mapping[str, str]
) -> Iterator[str]:
    """Yield a line for each thing that the answers' authors hold against other answers."""
    for by, answer in sorted(answers.items(), key=lambda item: known[item[0]]):
        then = assign_letters(debate, find_round(debate, by, answer), by)
        for verdict in answer.verdicts:
            if verdict.on == by or verdict.on not in known:
                continue
            for issue in verdict.issues:
                said = _relabel_references(_anonymize(debate, issue), then, known)
                yield f"- against Answer {known[verdict.on]}, by the author of Answer {known[by]}: {said}"


def _format_decision(
    debate: Debate, place: int, answers: Mapping[str, Answer], known: Mapping[str, str]
) -> str:
    """Return what a person decided to begin that turn with, for a participant that is shown these answers."""
    decision = debate.turns[place].decision
    assert decision
    told = load_prompt(decision.kind)
    if decision.kind == "adopt":
        begun = sum(len(turn.rounds) for turn in debate.turns[:place])
        adopted = select_visible_answers(debate, begun + 1, decision.side)[decision.side]
        # Later, and in a staged order at once, the letter stands for what came of it.
        is_shown = answers[decision.side] is adopted
        told = told.format(
            answer=f"Answer {known[decision.side]}" if is_shown else _quote_answer(debate, adopted)
        )
    return "\n\n".join(filter(None, (told, _replace_names_in(debate, decision, known))))


def _quote_answer(debate: Debate, adopted: Answer) -> str:
    words = " ".join(_anonymize(debate, adopted.claim or adopted.text).split())
    return f'this answer, "{words[:MAX_QUOTE]}{"…" if len(words) > MAX_QUOTE else ""}"'


def _anonymize(debate: Debate, text: str) -> str:
    return anonymize_text(text, debate.terms.sides, _find_topics(debate))


def _find_topics(debate: Debate) -> frozenset[str]:
    """Return the words of participants that persons speak of without meaning the participants."""
    sides = debate.terms.sides
    asked = [_replace_names_in(debate, turn.decision, {}) for turn in debate.turns if turn.decision]
    return find_topic_words(sides, "\n".join([debate.prompt, *asked]))


def _replace_names_in(debate: Debate, decision: Decision, known: Mapping[str, str]) -> str:
    """Return a person's words with letters for names; a name that is in the question itself is left."""
    free = find_topic_words(debate.terms.sides, debate.prompt)
    names = {name: known.get(name, "") for name in debate.terms.names if name not in free}
    return replace_names(decision.text.strip(), names)


def _relabel_references(text: str, then: Mapping[str, str], known: Mapping[str, str]) -> str:
    names = {letter: name for name, letter in then.items()}

    return _replace_letters(text, lambda letter: known.get(names.get(letter, ""), letter))


def _replace_letters(text: str, told: Callable[[str], str]) -> str:
    """Return the text with what is told for each letter that stands for an answer."""

    def replace_reference(found: re.Match[str]) -> str:
        listed = re.sub("[A-H]", lambda letter: told(letter[0]), found[2] or found[4])
        return (found[1] or found[3]) + listed

    return _REFERENCE.sub(replace_reference, text)


def wrap_in_tag(tag: str, text: str, **attributes: str) -> str:
    """Return the text between tags that nothing in it can close."""
    text = _TAG.sub("&lt;", text)
    told = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return f"<{tag}{told}>\n{text.strip()}\n</{tag}>"
