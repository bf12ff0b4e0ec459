"""Who wrote what: it follows every change, and is known again after a restart."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.collab.provenance.authors import Author, Authorship
from kakite.edit import Change, ChangeSet
from tests.collab.model import block, speaking
from tests.collab.redis import needs_redis, redis
from tests.collab.server import Server, Tab, on_disk, serving
from tests.collab.test_mcp import agent, call
from tests.durable.waiting import until

TEXTS = st.text(alphabet="ab \n本👩", max_size=10)
ANN, BEN = Author(kind="person", name="Ann"), Author(kind="person", name="Ben")
AUTHORS = st.sampled_from((ANN, BEN, Author(kind="assistant", name="A", model="m"), None))


@st.composite
def changes_of(draw: st.DrawFn, text: str) -> ChangeSet:
    places = sorted(draw(st.sets(st.integers(0, len(text)), max_size=6)))
    made = [Change(a, b, draw(TEXTS)) for a, b in zip(places[::2], places[1::2], strict=False)]
    return ChangeSet.of(len(text), [each for each in made if each.insert or each.start < each.end])


def by_character(authors: Authorship) -> list[Author | None]:
    return [each.author for each in authors.list_passages() for _ in range(each.end - each.start)]


@given(st.data(), TEXTS)
def test_what_stays_is_whose_it_was_and_what_comes_is_its_writers(data: st.DataObject, text: str) -> None:
    authors = Authorship(text, ANN)
    known = by_character(authors)
    marks = 0
    for _ in range(4):
        changes, author = data.draw(changes_of(text)), data.draw(AUTHORS)
        # No two insertions are alike, and none comes back.
        fresh = [
            Change(each.start, each.end, each.insert and f"{each.insert}⟨{marks + at}⟩")
            for at, each in enumerate(changes.changes)
        ]
        marks += len(fresh)
        changes = ChangeSet.of(len(text), fresh)
        expected, at = list[Author | None](), 0
        for each in changes.changes:
            expected += [*known[at : each.start], *[author] * len(each.insert)]
            at = each.end
        expected += known[at:]
        text = changes.apply(text)
        authors.follow(changes, text, author)
        known = by_character(authors)
        assert known == expected
        passages = authors.list_passages()
        assert "".join(text[each.start : each.end] for each in passages) == text
        assert all(one.author != other.author for one, other in pairwise(passages))


@given(st.data(), TEXTS)
def test_what_was_removed_and_comes_back_has_its_author_again(data: st.DataObject, text: str) -> None:
    authors = Authorship(text, ANN)
    places = sorted(data.draw(st.sets(st.integers(0, len(text)), min_size=0, max_size=2)))
    start, end = (places[0], places[-1]) if places else (0, 0)
    removal = ChangeSet.of(len(text), [Change(start, end, "")] if start < end else [])
    authors.follow(removal, removal.apply(text), BEN)
    back = removal.invert(text)
    authors.follow(back, text, BEN)
    assert set(by_character(authors)) <= {ANN}


def change(authors: Authorship, text: str, start: int, end: int, insert: str, by: Author) -> str:
    made = ChangeSet.of(len(text), [Change(start, end, insert)])
    authors.follow(made, made.apply(text), by)
    return made.apply(text)


@given(st.data(), TEXTS.filter(bool), st.booleans())
def test_what_was_removed_key_by_key_comes_back_whole_or_in_two_pieces(
    data: st.DataObject, text: str, forward: bool
) -> None:
    authors = Authorship(text, ANN)
    start, end = sorted(data.draw(st.lists(st.integers(0, len(text)), min_size=2, max_size=2)))
    words, now = text[start:end], text
    for _ in words:
        at = start if forward else start + len(now) - len(text) + len(words) - 1
        now = change(authors, now, at, at + 1, "", BEN)
    cut = data.draw(st.integers(0, len(words)))
    if min(cut, len(words) - cut) < 2:
        cut = 0
    if data.draw(st.booleans()):  # the first piece first, or the last
        now = change(authors, now, start, start, words[:cut], BEN) if cut else now
        now = change(authors, now, start + cut, start + cut, words[cut:], BEN) if words else now
    else:
        now = change(authors, now, start, start, words[cut:], BEN) if words else now
        now = change(authors, now, start, start, words[:cut], BEN) if cut else now
    assert now == text
    assert set(by_character(authors)) <= {ANN}


def test_letters_that_somebody_types_are_theirs_though_another_ones_were_removed_elsewhere() -> None:
    authors = Authorship("say hello", ANN)
    text = "say hello"
    for at in range(8, 3, -1):
        text = change(authors, text, at, at + 1, "", BEN)
    for at, letter in enumerate("hotel"):
        text = change(authors, text, 4 + at, 4 + at, letter, BEN)
    assert text == "say hotel"
    assert by_character(authors) == [ANN] * 4 + [BEN] * 5


@given(st.data(), TEXTS, AUTHORS)
def test_it_is_read_again_for_the_same_text_and_for_a_later_one(
    data: st.DataObject, text: str, author: Author | None
) -> None:
    authors = Authorship(text, author)
    stored = json.loads(json.dumps(authors.to_json()))
    assert Authorship.from_json(stored, [text]).list_passages() == authors.list_passages()
    later = data.draw(TEXTS)
    found = Authorship.from_json(stored, [later, text])
    assert "".join(later[each.start : each.end] for each in found.list_passages()) == later
    assert set(by_character(found)) <= {author, None}
    assert set(by_character(Authorship.from_json(stored, [f"{text}!"]))) <= {None}


@pytest.mark.parametrize(
    "stored", ["{}", '{"text": 1, "authors": 2, "runs": 3}', '{"authors": [{}], "runs": []}']
)
def test_what_cannot_be_read_is_nobodys(stored: str) -> None:
    assert by_character(Authorship.from_json(json.loads(stored), ["ab"])) == [None, None]


# ---- over HTTP

TEXT = "# 庭 👩‍🌾\n\nThe beans needs water.\n"


async def told(http: httpx.AsyncClient) -> list[tuple[str, str, str]]:
    """Return the passages as (kind, name, text); what is nobody's has neither."""
    answer = (await http.get("/api/pages/a.md/authors")).json()
    units = (await http.get("/api/pages/a.md")).json()["text"].encode("utf-16-le")
    found: list[tuple[str, str, str]] = []
    for each in answer["passages"]:
        assert units[each["start"] * 2 : each["end"] * 2].decode("utf-16-le") == each["text"]
        author = {"kind": "", "name": ""} if each["author"] is None else answer["authors"][each["author"]]
        found.append((author["kind"], author["name"], each["text"]))
    return found


@pytest.mark.anyio
async def test_people_the_assistant_agents_and_the_file_are_told_apart_over_a_restart(tmp_path: Path) -> None:
    state = {"XDG_STATE_HOME": str(tmp_path / "state")}
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "a.md").write_text(TEXT, encoding="utf-8")
    async with (
        speaking() as model,
        serving(pages, *model.options, environ={**model.environ, **state}) as server,
    ):
        model.pieces = [block("The beans needs", "The beans want")]
        await write(server, pages / "a.md")
        await server.end(9)
    async with serving(pages, port=server.port, environ=state) as server, server.client() as http:
        assert await told(http) == EXPECTED


EXPECTED = [
    ("file", "", "# 庭 👩‍🌾\n"),
    ("person", "Ann", "by Ann 山\n"),
    ("file", "", "\nThe beans "),
    ("assistant", "Assistant", "want"),
    ("file", "", " "),
    ("agent", "MCP", "rain"),
    ("file", "", "."),
    ("person", "Ben", "!"),
    ("file", "", "\n"),
]


async def write(server: Server, file: Path) -> None:
    async with Tab(server.url, "a.md", "Ann") as ann, server.client() as http, agent(server) as client:
        ann.insert(TEXT.index("\n") + 1, "by Ann 山\n")
        await ann.settle()
        await http.post("/api/pages/a.md/assist", json={"message": "Correct it", "mode": "review"})
        await ann.until(lambda: len(ann.state["suggestions"]) == 1)
        await call(client, "view", "a.md")
        await call(client, "str_replace", "a.md", old_str="water", new_str="rain")
        text = TEXT.replace("👩‍🌾\n", "👩‍🌾\nby Ann 山\n")
        at = len(text.rstrip("\n").encode("utf-16-le")) // 2
        change = {"start": at, "before": "water.", "words": "", "after": "\n", "insert": "!"}
        run = "/api/pages/a.md/suggestions/typed/0123456789abcdef"
        assert (await http.put(run, json={"changes": [change], "name": "Ben"})).status_code == 200
        assert (await http.get("/api/pages/a.md/authors")).json()["authors"][-1] == {
            "kind": "person",
            "name": "Ann",
            "model": "",
        }  # what is only suggested has no place
        done = (await http.post("/api/pages/a.md/suggestions/accept")).json()
        assert not done["failed"]
        expected = text.replace("needs water.", "want rain.!")
        await on_disk(file, expected.encode())
        assert await told(http) == EXPECTED
        (assistant,) = [
            each
            for each in (await http.get("/api/pages/a.md/authors")).json()["authors"]
            if each["kind"] == "assistant"
        ]
        assert assistant["model"]


@pytest.mark.anyio
async def test_a_name_that_cannot_be_stored_keeps_no_page_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("one\n", encoding="utf-8")
    async with (
        serving(tmp_path) as server,
        server.client() as http,
        Tab(server.url, "a.md", "x\ud83d") as tab,
    ):
        tab.insert(0, "two ")
        await tab.settle()
        await on_disk(tmp_path / "a.md", b"two one\n")
        assert await told(http) == [("person", "x\ufffd", "two "), ("file", "", "one\n")]


@pytest.mark.anyio
@pytest.mark.slow
async def test_undo_gives_words_back_to_those_who_wrote_them(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("one two\n", encoding="utf-8")
    async with serving(tmp_path) as server, server.client() as http, Tab(server.url, "a.md", "Ann") as ann:
        change = {"start": 0, "before": "", "words": "one", "after": " two", "insert": "1"}
        run = "/api/pages/a.md/suggestions/typed/0123456789abcdef"
        made = (await http.put(run, json={"changes": [change], "name": "Ben"})).json()["suggestions"]
        ids = {"ids": [each["id"] for each in made]}
        await http.post("/api/pages/a.md/suggestions/accept", json=ids)
        assert await told(http) == [("person", "Ben", "1"), ("file", "", " two\n")]
        await http.post("/api/pages/a.md/suggestions/reopen", json=ids)
        assert await told(http) == [("file", "", "one two\n")]
        ann.delete(3, 7)
        await until(lambda: str(ann) == "one\n")
        ann.insert(3, " two")
        await ann.settle()
        await on_disk(tmp_path / "a.md", b"one two\n")
        assert await told(http) == [("file", "", "one two\n")]


@pytest.mark.anyio
@pytest.mark.slow
@needs_redis
async def test_with_several_processes_the_owner_tells(tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "a.md").write_text("one\n", encoding="utf-8")
    async with (
        redis(tmp_path) as own,
        serving(pages, "--redis", own.url) as one,
        serving(pages, "--redis", own.url) as two,
        Tab(one.url, "a.md", "Ann"),
        Tab(two.url, "a.md", "Ben"),
        one.client() as first,
        two.client() as second,
    ):
        assert await told(first) == await told(second) == [("file", "", "one\n")]
