"""What a side is told when it is asked: all that it needs, since it remembers nothing, and no names. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from kakite.debate.anonymous import addressed, free_words, scrubbed
from kakite.debate.answers import Answer
from kakite.debate.phrases import prompt
from kakite.debate.record import Debate, Decision, letters, said_in, shown

Purpose = Literal["answer", "critique", "decision"]
"""To answer blind; to judge the answers so far and answer anew; to go on as a person has decided."""

SHOWN = 40_000
"""Characters of one answer that others are shown."""
QUOTED = 400
"""Characters of an answer that a person went on with earlier."""

# Small letters are words: "answer a question". So is a letter that is part of more: "answer A/B tests".
_LETTER = r"[A-H](?![A-Za-z0-9+#]|[-/][A-Za-z0-9])"
_REFERENCE = re.compile(
    rf"(\b[Aa]nswer\s?)({_LETTER})"
    rf"|(\b[Aa]nswers\s?|回答\s?)({_LETTER}(?:(?:,? (?:and|or) |, ?|[とや、・]){_LETTER})*)"
)

# Possessive, since what is between may be long.
_TAG = re.compile(r"<(?=\s*+(?:/\s*+)?(?:question|answer|decision|objections)\b)", re.IGNORECASE)


def purpose_of(debate: Debate, number: int, side: str) -> Purpose:
    """Return what a side is asked for in a round: that after the latest one, or one that is going on."""
    decision = debate.turn.decision
    opens = number == len(debate.rounds) - len(debate.turn.rounds) + 1
    if opens and decision and decision.kind not in {"evidence", "continue"}:
        return "decision"
    return "critique" if shown(debate, number, side) else "answer"


def prompt_for(debate: Debate, number: int, side: str) -> str:
    """Return the whole prompt for a side in that round."""
    purpose = purpose_of(debate, number, side)
    known = letters(debate, number, side)
    block = prompt("block")
    if purpose == "critique":
        block = prompt("block_verdicts").format(letters=", ".join(sorted(known.values())))
    matter = "\n\n".join(_matter(debate, number, side))
    return prompt(purpose).format(matter=matter, block=block) + "\n"


def named(debate: Debate, number: int, side: str, text: str) -> str:
    """Return what a side wrote in a round for a person: ``Answer A (codex)`` where it wrote ``Answer A``."""
    names = {letter: name for name, letter in letters(debate, number, side).items()}

    return _with_letters(text, lambda letter: f"{letter} ({names[letter]})" if letter in names else letter)


def _matter(debate: Debate, number: int, side: str) -> Iterator[str]:
    known = letters(debate, number, side)
    answers = shown(debate, number, side)
    decisions = [_decided(debate, place, answers, known) for place in range(1, len(debate.turns))]
    yield _tagged("question", debate.prompt)
    for count, decision in enumerate(decisions[:-1], start=1):
        yield _tagged("decision", decision, number=str(count))
    for name, letter in sorted(known.items(), key=lambda item: item[1]):
        author = letters(debate, said_in(debate, name, answers[name]), name)
        yield _tagged("answer", _readable(debate, answers[name], author, known), letter=letter)
    if objections := "\n".join(_objections(debate, answers, known)):
        yield _tagged("objections", objections)
    if decisions:
        yield _tagged("decision", decisions[-1], number=str(len(decisions)))


def _readable(debate: Debate, answer: Answer, then: Mapping[str, str], known: Mapping[str, str]) -> str:
    """Return an answer for others: without names, its references by the letters that the reader knows."""
    text = answer.text
    if len(text) > SHOWN:
        half = SHOWN // 2
        text = f"{text[:half]}\n… {len(text) - SHOWN} characters left out …\n{text[-half:]}"
    parts = {
        "": text,
        "In a sentence: ": answer.claim,
        "What would change this view: ": answer.would_change_my_mind,
    }
    # Each by itself: a signature is at the end of it.
    told = [f"{named}{_anonymous(debate, part).strip()}" for named, part in parts.items() if part]
    return _referring("\n\n".join(told), then, known)


def _objections(debate: Debate, answers: Mapping[str, Answer], known: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each thing that the answers' authors hold against other answers."""
    for by, answer in sorted(answers.items(), key=lambda item: known[item[0]]):
        then = letters(debate, said_in(debate, by, answer), by)
        for verdict in answer.verdicts:
            if verdict.on == by or verdict.on not in known:
                continue
            for issue in verdict.issues:
                said = _referring(_anonymous(debate, issue), then, known)
                yield f"- against Answer {known[verdict.on]}, by the author of Answer {known[by]}: {said}"


def _decided(debate: Debate, place: int, answers: Mapping[str, Answer], known: Mapping[str, str]) -> str:
    """Return what a person decided to begin that turn with, for a side that is shown these answers."""
    decision = debate.turns[place].decision
    assert decision
    told = prompt(decision.kind)
    if decision.kind == "adopt":
        begun = sum(len(turn.rounds) for turn in debate.turns[:place])
        adopted = shown(debate, begun + 1, decision.side)[decision.side]
        # Later, and in a staged order at once, the letter stands for what came of it.
        is_shown = answers[decision.side] is adopted
        told = told.format(answer=f"Answer {known[decision.side]}" if is_shown else _quoted(debate, adopted))
    return "\n\n".join(filter(None, (told, _in_letters(debate, decision, known))))


def _quoted(debate: Debate, adopted: Answer) -> str:
    words = " ".join(_anonymous(debate, adopted.claim or adopted.text).split())
    return f'this answer, "{words[:QUOTED]}{"…" if len(words) > QUOTED else ""}"'


def _anonymous(debate: Debate, text: str) -> str:
    return scrubbed(text, debate.terms.sides, _topics(debate))


def _topics(debate: Debate) -> frozenset[str]:
    """Return the words of sides that persons speak of without meaning the sides."""
    sides = debate.terms.sides
    asked = [_in_letters(debate, turn.decision, {}) for turn in debate.turns if turn.decision]
    return free_words(sides, "\n".join([debate.prompt, *asked]))


def _in_letters(debate: Debate, decision: Decision, known: Mapping[str, str]) -> str:
    """Return a person's words with letters for names; a name that is in the question itself is left."""
    free = free_words(debate.terms.sides, debate.prompt)
    names = {name: known.get(name, "") for name in debate.terms.names if name not in free}
    return addressed(decision.text.strip(), names)


def _referring(text: str, then: Mapping[str, str], known: Mapping[str, str]) -> str:
    names = {letter: name for name, letter in then.items()}

    return _with_letters(text, lambda letter: known.get(names.get(letter, ""), letter))


def _with_letters(text: str, told: Callable[[str], str]) -> str:
    """Return the text with what is told for each letter that stands for an answer."""

    def reference(found: re.Match[str]) -> str:
        listed = re.sub("[A-H]", lambda letter: told(letter[0]), found[2] or found[4])
        return (found[1] or found[3]) + listed

    return _REFERENCE.sub(reference, text)


def _tagged(tag: str, text: str, **attributes: str) -> str:
    """Return the text between tags that nothing in it can close."""
    text = _TAG.sub("&lt;", text)
    told = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return f"<{tag}{told}>\n{text.strip()}\n</{tag}>"
