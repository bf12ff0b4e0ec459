"""People type while a model's edits stream in: nobody loses a character, and all replicas end equal."""

from __future__ import annotations

import re
from random import Random

import pytest

from kakite.collab.assistant.assistant import Assistant, AssistantRequest
from kakite.collab.assistant.runs import AssistantRunFinished, EditFound
from kakite.collab.shared_text import SharedText
from kakite.collab.suggestions.store import Suggestions, TextChanged
from tests.collab.models import Talking
from tests.collab.replicas import joined, meet, meet_all, put

pytestmark = pytest.mark.anyio

LINES = tuple(f"line {number} 日本語の文 e\u0301 👨‍👩‍👧 {number}\n" for number in range(10))
TYPED = re.compile(r"⟨\d+⟩")


async def test_people_and_the_assistant_write_one_text(proof: bool) -> None:
    runs = 200 if proof else 20
    accepted = [await one_run(Random(seed)) for seed in range(runs)]
    assert sum(accepted) > runs


async def one_run(random: Random) -> int:
    """Return how many edits were accepted before the run was taken back."""
    text = SharedText()
    put(text, 0, 0, "".join(LINES))
    suggestions = Suggestions(text, page="p.md")
    replicas = [text, joined(text), joined(text)]
    typed: list[str] = []
    assistant = Assistant(Talking(*pieces(reply_to(random), random)))
    mode = random.choice(("review", "auto"))
    request = AssistantRequest(message="m", page="p.md", mode="auto" if mode == "auto" else "review")
    run = ""
    async for event in assistant.run(request, {"p.md": suggestions}):
        run = run or str(event.to_json()["id"])
        type_a_word(random.choice(replicas), typed, random)
        if random.random() < 0.3:
            meet(*random.sample(replicas, 2))
        if random.random() < 0.1:  # one goes, and another one joins
            meet(replicas[0], replicas[1])
            replicas[1] = joined(text)
        if isinstance(event, EditFound) and event.suggestion.status == "pending" and random.random() < 0.5:
            accept(suggestions, event.suggestion.id)
        if isinstance(event, AssistantRunFinished):
            assert event.status == "done"
    meet_all(replicas)
    check(replicas, typed)
    assistant.revert(run)
    meet_all(replicas)
    check(replicas, typed)
    assert TYPED.sub("", str(text)) == "".join(LINES)
    return suggestions.counts["accepted"]


def reply_to(random: Random) -> str:
    reply = ["I change some lines.\n"]
    for line in random.sample(LINES, 5):
        new = random.choice(
            ("", line.replace("日本語の文", "新しい文章"), line.replace("line", "LINE") + "もう一行\n")
        )
        reply.append(f"<<<<<<< SEARCH\n{line}=======\n{new}>>>>>>> REPLACE\n")
    return "".join(reply)


def pieces(text: str, random: Random) -> list[str]:
    cuts = sorted(random.sample(range(len(text)), 20))
    return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def type_a_word(text: SharedText, typed: list[str], random: Random) -> None:
    word = f"⟨{len(typed)}⟩"
    typed.append(word)
    now = str(text)
    at = random.randint(0, len(now))
    opened = now.rfind("⟨", 0, at)
    at = opened if opened > now.rfind("⟩", 0, at) else at
    put(text, at, at, word)


def accept(suggestions: Suggestions, id_: str) -> None:
    try:
        suggestions.accept(id_, candidate=True)
    except TextChanged:
        suggestions.reject(id_)


def check(replicas: list[SharedText], typed: list[str]) -> None:
    assert len({str(one) for one in replicas}) == 1
    assert sorted(TYPED.findall(str(replicas[0]))) == sorted(typed)
