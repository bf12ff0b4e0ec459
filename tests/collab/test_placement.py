"""An edit means the text that its author was shown, whatever people type meanwhile."""

from __future__ import annotations

import asyncio
import itertools
from typing import Literal

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from kakite.collab.assistant.assistant import Assistant, AssistantRequest
from kakite.collab.assistant.runs import EditFailed, EditFound
from kakite.collab.suggestions.placement import PlaceChanged, carry_placement, find_placements
from kakite.collab.suggestions.store import Suggestions
from kakite.edit import Change, ChangeSet, Edit, EditError
from tests.bounds import WITHIN
from tests.collab.models import Talking
from tests.collab.replicas import put
from tests.collab.test_assistant import block, page

SHOWN = [chr(0x4E00 + n) for n in range(200)]  # each character of the shown text stands in it once
TYPED = [chr(0xAC00 + n) for n in range(200)]  # what people type
WRITTEN = "abcdefgh"  # what the edit writes


@st.composite
def shown_texts(draw: st.DrawFn) -> str:
    lengths = draw(st.lists(st.integers(0, 6), min_size=1, max_size=8))
    chars = iter(SHOWN)
    lines = ["".join(next(chars) for _ in range(length)) for length in lengths]
    return "\n".join(lines) + draw(st.sampled_from(["", "\n"]))


@st.composite
def edits_of(draw: st.DrawFn, text: str) -> Edit:
    """Draw an edit of whole lines: some stay, some go, some come."""
    lines = text.split("\n")
    first = draw(st.integers(0, len(lines) - 1))
    last = draw(st.integers(first, len(lines) - 1))
    search = lines[first : last + 1]
    kept = [line for line in search if draw(st.booleans())]
    for _ in range(draw(st.integers(0, 2))):
        kept.insert(draw(st.integers(0, len(kept))), draw(st.text(WRITTEN, min_size=1, max_size=3)))
    return Edit(search="\n".join(search), replace="\n".join(kept))


@st.composite
def typing_of(draw: st.DrawFn, text: str, *, deletes: bool) -> ChangeSet:
    places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=6)))
    chars = iter(TYPED)
    changes: list[Change] = []
    for start, end in zip(places[::2], places[1::2], strict=False):
        typed = "".join(next(chars) for _ in range(draw(st.integers(0, 4))))
        changes.append(Change(start, end if deletes and draw(st.booleans()) else start, typed))
    return ChangeSet.of(len(text), changes)


def only(text: str, kinds: list[str] | str) -> str:
    return "".join(char for char in text if char in kinds)


@given(st.data())
def test_the_same_characters_go_and_nothing_that_people_typed_is_lost(data: st.DataObject) -> None:
    shown = data.draw(shown_texts())
    edit = data.draw(edits_of(shown))
    try:
        (place,) = find_placements(shown, edit)
    except (EditError, ValueError):  # it changes nothing, or it has no place
        reject()
    since = data.draw(typing_of(shown, deletes=True))
    now = since.apply(shown)
    alone = shown[: place.span.start] + place.replace + shown[place.span.end :]
    try:
        carried = carry_placement(place, shown, since, now)
    except PlaceChanged as error:
        refused = error.present
        assert refused in now
        return
    assert carried.search == now[carried.span.start : carried.span.end]
    made = now[: carried.span.start] + carried.replace + now[carried.span.end :]
    assert only(made, TYPED) == only(now, TYPED)
    assert only(made, WRITTEN) == only(alone, WRITTEN)
    gone = set(shown) - set(alone) - {"\n"}
    assert only(made, SHOWN) == "".join(char for char in only(now, SHOWN) if char not in gone)


@given(st.data())
def test_what_is_typed_between_the_replaced_words_refuses_no_edit(data: st.DataObject) -> None:
    shown = data.draw(shown_texts())
    edit = data.draw(edits_of(shown))
    try:
        places = find_placements(shown, edit)
    except EditError:  # it changes nothing, or it has no place
        reject()
    for place in places:
        since = data.draw(typing_of(shown, deletes=False))
        within = [
            each for each in since.changes if place.span.start < each.start < place.span.end
        ]  # only these can stand between words that go
        try:
            carry_placement(place, shown, since, since.apply(shown))
        except PlaceChanged:
            assert within


WEEK = "# Mon\n- call Ann\n\n# Tue\n- rest\n\nSome more prose stands here, in one line.\n"
ASK = block("- call Ann", "- call Ann at 9")
CASES: list[tuple[str, list[tuple[str, str]], str, str | None]] = [
    # what the model writes; what people change meanwhile; the text once accepted; or the code
    (
        ASK,
        [("- rest\n", "- rest\n- call Ann\n")],
        "# Mon\n- call Ann at 9\n\n# Tue\n- rest\n- call Ann\n",
        None,
    ),
    (ASK, [("# Mon", "# Monday")], "# Monday\n- call Ann at 9\n", None),
    (ASK, [("- call Ann", "- please call Ann")], "# Mon\n- please call Ann at 9\n", None),
    (
        block("Some more prose stands here", "Some prose stands here"),
        [("in one line.", "in one short line."), ("Some more", "Indeed, some more")],
        "prose stands here, in one short line.",
        None,
    ),
    (
        block("- call Ann", "- write to Ann"),
        [("- call Ann", "- call Bob"), ("- rest\n", "- rest\n- call Ann\n")],
        "- write to Bob\n\n# Tue\n- rest\n- call Ann\n",
        None,
    ),
    (block("- call Ann", "- call Eve"), [("- call Ann", "- call Bob")], "", "changed"),
    (block("- rest", "- work"), [("# Tue\n- rest\n", "")], "", "changed"),
]


def count_common(one: str, other: str) -> int:
    same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return len([*same])


def type_over(suggestions: Suggestions, old: str, new: str) -> None:
    """Change the one text into the other as a person does, who leaves what both have."""
    at = str(suggestions.text).index(old)
    start = count_common(old, new)
    rest = count_common(old[start:][::-1], new[start:][::-1])
    put(suggestions.text, at + start, at + len(old) - rest, new[start : len(new) - rest])


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["review", "auto"])
@pytest.mark.parametrize(("said", "meanwhile", "left", "code"), CASES)
async def test_people_type_while_the_model_answers(
    mode: Literal["review", "auto"],
    said: str,
    meanwhile: list[tuple[str, str]],
    left: str,
    code: str | None,
) -> None:
    suggestions = page(WEEK)
    model = Talking(waits=True)
    asked = AssistantRequest(message="直して", page="notes.md", mode=mode)
    run = Assistant(model).run(asked, {"notes.md": suggestions})
    async with asyncio.timeout(WITHIN):
        await anext(run)
        for old, new in meanwhile:
            type_over(suggestions, old, new)
        before = str(suggestions.text)
        model.say(said)
        model.end()
        events = [event async for event in run]
    failures = [event for event in events if isinstance(event, EditFailed)]
    assert [each.code for each in failures] == ([code] if code else [])
    if code:
        assert str(suggestions.text) == before
        return
    (found,) = [event for event in events if isinstance(event, EditFound)]
    if mode == "review":
        suggestions.accept(found.suggestion.id)
    assert left in str(suggestions.text)
