"""What people type as suggestions: it lands where it was typed, and is never in the text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.collab.shared_text import SharedText
from kakite.collab.suggestions.placement import PlaceChanged
from kakite.collab.suggestions.store import SuggestionError, Suggestions
from kakite.collab.suggestions.typed import TypedChange, find_typed_changes
from kakite.edit import Change, ChangeSet
from tests.collab.redis import needs_redis, redis
from tests.collab.replicas import put
from tests.collab.server import Server, Tab, serving

TEXTS = st.text(alphabet="ab \n本👩é\u0301", max_size=12)
AROUND = 4
RUN = "0123456789abcdef"


def page(text: str) -> Suggestions:
    shared = SharedText()
    put(shared, 0, 0, text)
    return Suggestions(shared, page="p.md")


@st.composite
def changes_of(draw: st.DrawFn, text: str) -> list[Change]:
    """Changes of a text, none of which touches another one."""
    places = sorted(draw(st.sets(st.integers(0, len(text)), max_size=6)))
    made = [Change(a, b, draw(TEXTS)) for a, b in zip(places[::2], places[1::2], strict=False)]
    if draw(st.booleans()):
        made = [Change(each.start, each.start, each.insert) for each in made]
    return [each for each in made if each.insert or each.start < each.end]


@st.composite
def one_change_of(draw: st.DrawFn, text: str) -> Change:
    start, end = sorted((draw(st.integers(0, len(text))), draw(st.integers(0, len(text)))))
    return Change(start, end, draw(TEXTS))


def typed(text: str, change: Change) -> TypedChange:
    return TypedChange(
        near=change.start,
        before=text[max(0, change.start - AROUND) : change.start],
        words=text[change.start : change.end],
        after=text[change.end : change.end + AROUND],
        insert=change.insert,
    )


def put_typed(suggestions: Suggestions, text: str, changes: list[Change], run: str = RUN) -> list[str]:
    made = suggestions.put_typed(run, [typed(text, each) for each in changes], by="Ann")
    return [each.id for each in made]


@given(st.data(), TEXTS)
def test_what_is_typed_is_suggested_and_accepted_as_it_was_typed(data: st.DataObject, text: str) -> None:
    suggestions = page(text)
    changes = data.draw(changes_of(text))
    ids = put_typed(suggestions, text, changes)
    assert str(suggestions.text) == text
    assert [each.by for each in suggestions.list_pending()] == ["Ann"] * len(ids)
    done = suggestions.accept_all(ids)
    assert not done.failed
    assert str(suggestions.text) == ChangeSet.of(len(text), changes).apply(text)
    if ids:
        suggestions.reopen(ids)
        assert str(suggestions.text) == text


@given(st.data(), TEXTS)
def test_told_again_with_more_it_is_suggested_once(data: st.DataObject, text: str) -> None:
    suggestions = page(text)
    former: list[str] = []
    for _ in range(3):
        changes = data.draw(changes_of(text))
        former = put_typed(suggestions, text, changes)
        assert put_typed(suggestions, text, changes) == former
        assert sorted(each.id for each in suggestions.list_pending()) == sorted(former)
    assert put_typed(suggestions, text, []) == []
    assert suggestions.list_pending() == []
    assert suggestions.counts == {"accepted": 0, "rejected": 0}


@given(st.data(), TEXTS, st.text(alphabet="xyz", min_size=1, max_size=9))
def test_it_finds_its_place_where_others_wrote_elsewhere_meanwhile(
    data: st.DataObject, text: str, other: str
) -> None:
    change = data.draw(one_change_of(text))
    seen = typed(text, change)
    whole = seen.before + seen.words + seen.after
    at = data.draw(st.sampled_from([0, len(text)]))
    now = text[:at] + other + text[at:]
    if now.count(whole) != 1:  # a copy stands elsewhere: the nearest is taken
        return
    (found,) = find_typed_changes(now, [seen])
    assert now[: found.start].endswith(seen.before)
    assert now[found.start : found.end] == seen.words
    assert now[found.end :].startswith(seen.after)


@given(st.data(), TEXTS)
def test_what_stands_around_it_no_more_refuses_it_and_changes_nothing(data: st.DataObject, text: str) -> None:
    change = data.draw(one_change_of(text))
    seen = typed(text, change)
    whole = seen.before + seen.words + seen.after
    suggestions = page("other words")
    if whole in "other words" and whole:
        return
    with pytest.raises(PlaceChanged):
        suggestions.put_typed(RUN, [seen], by="Ann")
    assert suggestions.list_pending() == []


def test_an_insertion_is_not_sure_once_the_character_beside_it_is_gone() -> None:
    text = "one two three\n"
    suggestions = page(text)
    put_typed(suggestions, text, [Change(7, 7, " and")])
    put(suggestions.text, 4, 8, "")
    (found,) = suggestions.list_pending()
    assert found.status == "changed"
    put(suggestions.text, 4, 4, "two ")
    (found,) = suggestions.list_pending()
    assert found.status == "pending"


def test_who_types_beside_an_insertion_keeps_it_and_each_keeps_their_words() -> None:
    text = "one two three\n"
    suggestions = page(text)
    (made,) = put_typed(suggestions, text, [Change(7, 7, " and")])
    put(suggestions.text, 7, 7, "!")
    suggestions.accept(made)
    assert str(suggestions.text) == "one two and! three\n"


def test_a_run_that_somebody_decided_about_takes_no_more() -> None:
    text = "one two three\n"
    suggestions = page(text)
    one, _ = put_typed(suggestions, text, [Change(0, 3, "1"), Change(8, 13, "3")])
    suggestions.accept(one)
    now = str(suggestions.text)
    with pytest.raises(SuggestionError) as caught:
        put_typed(suggestions, now, [Change(2, 5, "2")])
    assert caught.value.code == "settled"
    assert [each.replace for each in suggestions.list_pending()] == ["3"]


# ---- over HTTP

PAGE = "garden.md"
TEXT = "# 庭 👩‍🌾\n\nThe beans needs water.\n"
PATH = f"/api/pages/{PAGE}/suggestions/typed/{RUN}"


def body(insert: str, **more: Any) -> dict[str, Any]:
    start = len("# 庭 👩‍🌾\n\nThe beans ".encode("utf-16-le")) // 2
    change = {"start": start, "before": "The beans ", "words": "needs", "after": " water", "insert": insert}
    return {"changes": [{**change, **more}], "name": "Ann"}


@pytest.mark.anyio
async def test_it_is_kept_over_a_kill_and_told_to_everybody_with_its_author(tmp_path: Path) -> None:
    (tmp_path / PAGE).write_text(TEXT, encoding="utf-8")
    async with serving(tmp_path) as server:
        await check_kept(server)
        await server.end(9)
    async with serving(tmp_path, port=server.port) as server, Tab(server.url, PAGE, "Ben") as ben:
        await ben.until(lambda: len(ben.state["suggestions"]) == 1)
        (found,) = ben.state["suggestions"]
        assert (found["by"], found["search"], found["replace"]) == ("Ann", "needs", "need")
        assert str(ben) == TEXT


async def check_kept(server: Server) -> None:
    async with server.client() as client:
        told = await client.put(PATH, json=body("need"))
        again = await client.put(PATH, json=body("need"))
        assert told.json()["suggestions"][0]["id"] == again.json()["suggestions"][0]["id"]
        assert told.json()["suggestions"][0]["status"] == "pending"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("path", "more", "status", "code"),
    [
        (PATH, {"words": "need"}, 409, "changed"),
        (PATH, {"before": "x" * 81}, 422, "bad_request"),
        (PATH.replace(RUN, "RUN"), {}, 422, "bad_request"),
        (PATH.replace(PAGE, "none.md"), {}, 404, "no_such_page"),
    ],
)
async def test_what_cannot_be_suggested_is_refused(
    tmp_path: Path, path: str, more: dict[str, Any], status: int, code: str
) -> None:
    (tmp_path / PAGE).write_text(TEXT, encoding="utf-8")
    async with serving(tmp_path) as server, server.client() as client:
        told = await client.put(path, json=body("need", **more))
        assert (told.status_code, told.json()["error"]["code"]) == (status, code)
        half = '{"changes": [{"start": 0, "before": "", "words": "", "after": "", "insert": "\\ud83d"}]}'
        told = await client.put(PATH, content=half, headers={"Content-Type": "application/json"})
        assert (told.status_code, told.json()["error"]["code"]) == (422, "bad_request")
        listed = await client.get(f"/api/pages/{PAGE}/suggestions")
        assert listed.json()["suggestions"] == []


@pytest.mark.anyio
async def test_readers_suggest_nothing(tmp_path: Path) -> None:
    (tmp_path / PAGE).write_text(TEXT, encoding="utf-8")
    async with (
        serving(tmp_path) as server,
        server.client(Authorization=f"Bearer {server.reading_token}") as client,
    ):
        told = await client.put(PATH, json=body("need"))
        assert (told.status_code, told.json()["error"]["code"]) == (403, "not_allowed")


@pytest.mark.anyio
@pytest.mark.slow
@needs_redis
async def test_any_of_several_processes_takes_them(tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / PAGE).write_text(TEXT, encoding="utf-8")
    async with (
        redis(tmp_path) as own,
        serving(pages, "--redis", own.url) as one,
        serving(pages, "--redis", own.url) as two,
        Tab(one.url, PAGE, "Ann") as ann,
        Tab(two.url, PAGE, "Ben") as ben,
    ):
        for server in (one, two):
            async with server.client() as client:
                assert (await client.put(PATH, json=body("need"))).status_code == 200
        for tab in (ann, ben):
            await tab.until(lambda tab=tab: len(tab.state.get("suggestions", ())) == 1)
