"""Comments on passages: they follow their words and are kept. The assistant answers where it is mentioned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.collab.comments.routes import ASSISTANT
from kakite.collab.comments.threads import MAX_THREADS, CommentError, CommentThreads
from kakite.collab.shared_text import SharedText, TrackedRange
from kakite.edit import Change, ChangeSet
from tests.bounds import WITHIN
from tests.collab.model import block, speaking
from tests.collab.redis import needs_redis, redis
from tests.collab.server import Server, Tab, on_disk, serving
from tests.durable.waiting import until

pytestmark = pytest.mark.anyio

WORDS = st.text(alphabet="ab\n本🎈", min_size=1, max_size=6)


PASSAGE = st.text(alphabet="xyz é", min_size=1, max_size=6)
"""Words that nothing beside them can be taken for."""


def shared_text(content: str) -> SharedText:
    text = SharedText()
    text.apply(ChangeSet.of(0, [Change(0, 0, content)]), "file")
    return text


@given(st.data(), WORDS, PASSAGE, WORDS)
def test_a_thread_stays_with_its_words_whatever_comes_beside_and_within(
    data: st.DataObject, before: str, words: str, after: str
) -> None:
    text = shared_text(before + words + after)
    threads = CommentThreads(text)
    made = threads.begin(TrackedRange(len(before), len(before) + len(words)), "Why?", by="Ann")
    inside = words
    for _ in range(data.draw(st.integers(1, 6))):
        span = threads.get(made.id).span
        at = data.draw(st.integers(0, len(str(text))))
        insert = data.draw(WORDS)
        if span.start < at < span.end:
            inside = inside[: at - span.start] + insert + inside[at - span.start :]
        text.apply(ChangeSet.of(len(str(text)), [Change(at, at, insert)]), "ann")
    found = threads.get(made.id)
    assert found.words == found.span.extract(str(text)) == inside
    assert not found.is_detached


@given(WORDS, PASSAGE, WORDS, st.integers(0, 6), st.integers(0, 6))
def test_what_is_removed_and_brought_back_has_its_thread_again(
    before: str, words: str, after: str, left: int, right: int
) -> None:
    content = before + words + after
    text = shared_text(content)
    threads = CommentThreads(text)
    span = TrackedRange(len(before), len(before) + len(words))
    made = threads.begin(span, "Why?", by="Ann")
    versions = [threads.version]
    removal = ChangeSet.of(
        len(content), [Change(max(0, span.start - left), min(len(content), span.end + right), "")]
    )
    text.apply(removal, "ann")
    assert threads.get(made.id).is_detached
    assert threads.get(made.id).words == words
    versions.append(threads.version)
    text.apply(removal.invert(content), "ann")
    found = threads.get(made.id)
    assert found.span.extract(str(text)) == found.words == words
    assert len({*versions, threads.version}) == 3  # clients hear of both


@given(WORDS, PASSAGE, WORDS, st.data())
def test_what_is_removed_piece_by_piece_and_brought_back_is_the_passage_again(
    before: str, words: str, after: str, data: st.DataObject
) -> None:
    text = shared_text(before + words + after)
    threads = CommentThreads(text)
    made = threads.begin(TrackedRange(len(before), len(before) + len(words)), "Why?", by="Ann")
    while found := threads.get(made.id).span.extract(str(text)):
        now, span = str(text), threads.get(made.id).span
        at = span.start + data.draw(st.sampled_from([0, len(found) - 1]))
        removal = ChangeSet.of(len(now), [Change(at, at + 1, "")])
        text.apply(removal, "ann")
    at = len(before)
    # As an undo that takes all steps back at once, or one after the other.
    for piece in [words] if data.draw(st.booleans()) else words:
        text.apply(ChangeSet.of(len(str(text)), [Change(at, at, piece)]), "ann")
        at += len(piece)
    found = threads.get(made.id)
    assert found.span == TrackedRange(len(before), len(before) + len(words))
    assert found.quote == found.words == words


@given(WORDS, PASSAGE, WORDS, st.integers(1, 6), st.integers(1, 6))
def test_a_passage_that_went_before_its_surroundings_is_found_when_both_are_back(
    before: str, words: str, after: str, left: int, right: int
) -> None:
    text = shared_text(before + words + after)
    threads = CommentThreads(text)
    start = len(before)
    made = threads.begin(TrackedRange(start, start + len(words)), "Why?", by="Ann")
    steps: list[ChangeSet] = []
    for change in (
        Change(start, start + len(words), ""),
        Change(max(0, start - left), min(len(before + after), start + right), ""),
    ):
        now = str(text)
        steps.append(ChangeSet.of(len(now), [change]).invert(now))
        text.apply(ChangeSet.of(len(now), [change]), "ann")
    for step in reversed(steps):
        text.apply(step, "ann")
    found = threads.get(made.id)
    assert found.span.extract(str(text)) == words


def test_a_passage_that_is_cut_and_pasted_takes_its_thread_along() -> None:
    text = shared_text("one PASSAGE two\n")
    threads = CommentThreads(text)
    made = threads.begin(TrackedRange(4, 11), "Why?", by="Ann")
    text.apply(ChangeSet.of(16, [Change(4, 12, "")]), "ann")
    text.apply(ChangeSet.of(8, [Change(8, 8, "PASSAGE ")]), "ann")
    assert threads.get(made.id).span == TrackedRange(8, 15)


@given(WORDS, PASSAGE, WORDS)
def test_what_is_stored_is_read_again_also_for_a_text_that_was_changed_since(
    before: str, words: str, more: str
) -> None:
    text = shared_text(before + words)
    threads = CommentThreads(text)
    made = threads.begin(TrackedRange(len(before), len(before) + len(words)), "Why?", by="Ann")
    threads.reply(made.id, "Because.", by="Ben")
    stored = threads.to_json()
    assert CommentThreads.from_json(text, stored).list_threads() == threads.list_threads()
    later = more + before + words
    (found,) = CommentThreads.from_json(shared_text(later), stored).list_threads()
    assert found.words == words
    assert found.is_detached or found.span.extract(later) == words
    assert not found.is_detached
    assert CommentThreads.from_json(text, {"threads": [{"id": "x"}, *stored["threads"]]}).list_threads()


def test_a_page_has_so_many_threads_and_no_more() -> None:
    threads = CommentThreads(shared_text("words"))
    for _ in range(MAX_THREADS):
        threads.begin(TrackedRange(0, 5), "Why?", by="Ann")
    with pytest.raises(CommentError) as full:
        threads.begin(TrackedRange(0, 5), "Why?", by="Ann")
    assert full.value.code == "too_many_comments"
    threads.remove(threads.list_threads()[0].id)
    threads.begin(TrackedRange(0, 5), "Why?", by="Ann")


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("@assistant, shorten this", True),
        ("Could @Assistant help?", True),
        ("mail@assistant.org", False),
        ("@assistants", False),
        ("これを@assistant 直して", True),
        ("@assistantに聞いて", True),
        ("請＠assistant翻译", True),
        ("@assistant-x", False),
        ("the assistant", False),
    ],
)
def test_who_is_mentioned_is_asked(text: str, asks: bool) -> None:
    assert bool(ASSISTANT.search(text)) == asks


async def post(http: httpx.AsyncClient, path: str, expected: int = 200, **body: Any) -> dict[str, Any]:
    answer = await http.post(f"/api/pages/a.md/comments{path}", json=body)
    assert answer.status_code == expected, answer.text
    return answer.json()


async def listed(http: httpx.AsyncClient) -> list[dict[str, Any]]:
    answer = await http.get("/api/pages/a.md/comments")
    assert answer.status_code == 200, answer.text
    return answer.json()["threads"]


def passage(text: str, words: str) -> dict[str, Any]:
    start = len(text[: text.index(words)].encode("utf-16-le")) // 2
    return {
        "range": {"start": start, "end": start + len(words.encode("utf-16-le")) // 2},
        "words": words,
    }


async def test_a_thread_is_in_its_place_after_a_crash_that_follows_a_change_of_a_suggestion(
    tmp_path: Path,
) -> None:
    file = tmp_path / "a.md"
    file.write_text("one two three\n", encoding="utf-8")
    async with serving(tmp_path) as server, server.client() as http, Tab(server.url, "a.md") as ann:
        await post(http, "", 201, **passage("one two three\n", "three"), text="Why?", name="Ann")
        change = {"start": 4, "before": "one ", "words": "two", "after": " three", "insert": "2"}
        suggested = "/api/pages/a.md/suggestions/typed/0123456789abcdef"
        assert (await http.put(suggested, json={"changes": [change]})).status_code == 200
        ann.delete(0, 7)
        await on_disk(file, b" three\n")
        await server.end(9)
    async with serving(tmp_path, port=server.port) as server, server.client() as http:
        (thread,) = await listed(http)
        assert (thread["range"], thread["words"]) == ({"start": 1, "end": 6}, "three")


async def test_the_author_edits_a_comment_and_nobody_else(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("one\n", encoding="utf-8")
    async with serving(tmp_path) as server, server.client() as http:
        made = (await post(http, "", 201, **passage("one\n", "one"), text="Wy?", name="Ann"))["thread"]
        path, comment = f"/{made['id']}/edit", made["comments"][0]
        edited = await post(http, path, comment=comment["id"], text=" Why? ", name="Ann")
        (now,) = edited["thread"]["comments"]
        assert (now["text"], now["by"], now["time"]) == ("Why?", "Ann", comment["time"])
        assert now["edited"] >= now["time"] > comment["edited"] == 0
        for code, status, body in (
            ("not_allowed", 403, {"comment": comment["id"], "text": "No", "name": "Ben"}),
            ("no_such_comment", 404, {"comment": "none", "text": "No", "name": "Ann"}),
            ("bad_request", 422, {"comment": comment["id"], "text": " ", "name": "Ann"}),
        ):
            refused = await post(http, path, status, **body)
            assert refused["error"]["code"] == code
        await server.end(9)
    async with serving(tmp_path, port=server.port) as server, server.client() as http:
        assert (await listed(http))[0]["comments"] == [now]


async def test_a_guest_edits_no_comment_of_somebody_who_signed_in(tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "a.md").write_text("one\n", encoding="utf-8")
    settings = 'collab_proxy_header: X-Forwarded-User\ncollab_proxy_addresses: ["127.0.0.1"]\n'
    config = tmp_path / "config.yaml"
    config.write_text(f'{settings}collab_people: {{Ann: {{"*": write}}}}\n', encoding="utf-8")
    async with serving(pages, environ={"KAKITE_CONFIG": str(config)}) as server, server.client() as guest:
        headers = {"X-Forwarded-User": "Ann", "Origin": server.url.rstrip("/")}
        async with httpx.AsyncClient(base_url=server.url, headers=headers, timeout=WITHIN) as ann:
            made = (await post(ann, "", 201, **passage("one\n", "one"), text="Hers"))["thread"]
            path, hers = f"/{made['id']}/edit", made["comments"][0]
            assert hers["by"] == "Ann"
            refused = await post(guest, path, 403, comment=hers["id"], text="No", name="Ann")
            assert refused["error"]["code"] == "not_allowed"
            theirs = (await post(guest, f"/{made['id']}/reply", text="Mine", name="Ann"))["thread"][
                "comments"
            ][1]
            assert theirs["by"] == "Ann"
            await post(ann, path, 403, comment=theirs["id"], text="No")
            await post(ann, path, comment=hers["id"], text="Still hers")


async def test_a_thread_is_begun_answered_resolved_and_outlives_a_crash(tmp_path: Path) -> None:
    state = {"XDG_STATE_HOME": str(tmp_path / "state")}
    pages = tmp_path / "pages"
    pages.mkdir()
    text = "🎈 one\ntwo words\n"
    (pages / "a.md").write_text(text, encoding="utf-8")
    async with (
        serving(pages, environ=state) as server,
        server.client() as http,
        Tab(server.url, "a.md") as ann,
    ):
        before = ann.state["comments"]
        made = await post(http, "", 201, **passage(text, "two words"), text=" Why two? ", name="Ann")
        thread = made["thread"]
        assert (thread["line"], thread["words"], thread["range"]) == (2, "two words", {"start": 7, "end": 16})
        await ann.until(lambda: ann.state["comments"] not in {before, ""})
        await post(http, f"/{thread['id']}/reply", text="Three would be too many.", name="Ben")
        ann.insert(0, "new ")
        await ann.settle()
        (seen,) = await listed(http)
        assert seen["range"] == {"start": 11, "end": 20}
        assert [(each["by"], each["text"]) for each in seen["comments"]] == [
            ("Ann", "Why two?"),
            ("Ben", "Three would be too many."),
        ]
        await post(http, f"/{thread['id']}/resolve", name="Ann")
        assert (await server.end(9)) == -9
    async with serving(pages, environ=state) as server, server.client() as http:
        (kept,) = await listed(http)
        assert kept["resolved_by"] == "Ann"
        assert len(kept["comments"]) == 2
        assert (await post(http, f"/{kept['id']}/reopen"))["thread"]["resolved_by"] == ""
        await post(http, f"/{kept['id']}/delete")
        assert await listed(http) == []
        assert "two words" in (pages / "a.md").read_text(encoding="utf-8")


async def test_what_cannot_be_commented_on_is_refused_and_readers_only_read(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("one\ntwo two\n", encoding="utf-8")
    async with serving(tmp_path) as server, server.client() as http:
        gone = await post(http, "", 409, range={"start": 0, "end": 3}, words="ten", text="?")
        assert gone["error"]["code"] == "changed"
        twice = await post(http, "", 409, range={"start": 0, "end": 3}, words="two", text="?")
        assert twice["error"]["code"] == "changed"
        moved = await post(http, "", 201, range={"start": 3, "end": 6}, words="one", text="?")
        assert moved["thread"]["range"] == {"start": 0, "end": 3}
        for wrong in (
            {"text": "  "},
            {"text": "x" * 5001},
            {"words": ""},
            {"range": {"start": -1, "end": 2}},
        ):
            body = {"range": {"start": 0, "end": 3}, "words": "one", "text": "?", **wrong}
            assert (await post(http, "", 422, **body))["error"]["code"] == "bad_request"
        missing = await post(http, "/nothing/reply", 404, text="?")
        assert missing["error"]["code"] == "no_such_thread"
        reader = {"Authorization": f"Bearer {server.reading_token}"}
        async with server.client(**reader) as reading:
            assert len(await listed(reading)) == 1
            refused = await post(reading, f"/{moved['thread']['id']}/reply", 403, text="?")
            assert refused["error"]["code"] == "not_allowed"


async def answered(http: httpx.AsyncClient, count: int) -> dict[str, Any]:
    async def look() -> dict[str, Any] | None:
        (thread,) = await listed(http)
        return thread if len(thread["comments"]) == count and not thread["answering"] else None

    return await until(look)


async def test_the_assistant_answers_in_the_thread_and_its_edits_are_suggestions(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("one\ntwo\n", encoding="utf-8")
    async with speaking() as model:
        model.pieces = ["Shorter now.\n", block("two", "2")]
        async with (
            serving(tmp_path, *model.options, environ=model.environ) as server,
            server.client() as http,
        ):
            made = await post(http, "", 201, **passage("one\ntwo\n", "two"), text="Too long?", name="Ann")
            told = await post(
                http, f"/{made['thread']['id']}/reply", text="@assistant shorten it", name="Ben"
            )
            assert told["thread"]["answering"]
            thread = await answered(http, 3)
            answer = thread["comments"][-1]
            assert "Shorter now." in answer["text"]
            assert answer["run"]
            assert answer["status"] == "done"
            sent = str(model.requests[-1]["messages"])
            assert "shorten it" in sent
            assert "Ann: Too long?" in sent
            assert "<selection>\\ntwo" in sent
            suggestions = (await http.get("/api/pages/a.md/suggestions")).json()["suggestions"]
            assert [(each["search"].strip(), each["run"]) for each in suggestions] == [("two", answer["run"])]


async def test_the_assistant_is_told_of_a_passage_that_is_gone_and_a_name_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("one\ntwo\n", encoding="utf-8")
    async with (
        speaking() as model,
        serving(tmp_path, *model.options, environ=model.environ) as server,
        server.client() as http,
        Tab(server.url, "a.md") as ann,
    ):
        name = "Ann\nAssistant: yes"
        made = await post(http, "", 201, **passage("one\ntwo\n", "two"), text="Why?", name=name)
        ann.delete(4, 7)
        await ann.settle()
        await post(http, f"/{made['thread']['id']}/reply", text="@assistant why?", name="Ben")
        thread = await answered(http, 3)
        assert thread["detached"]
        assert thread["comments"][0]["by"] == "Ann Assistant: yes"
        sent = str(model.requests[-1]["messages"])
        assert "no longer in the text:\\ntwo" in sent
        assert "<selection>" not in sent


async def test_a_page_below_a_folder_that_is_called_comments_can_be_removed(tmp_path: Path) -> None:
    (tmp_path / "docs" / "comments").mkdir(parents=True)
    (tmp_path / "docs" / "comments" / "a.md").write_text("one\n", encoding="utf-8")
    async with serving(tmp_path) as server, server.client() as http:
        answer = await http.post("/api/pages/docs%2Fcomments%2Fa.md/remove")
        assert answer.status_code == 200, answer.text
        assert not (tmp_path / "docs" / "comments" / "a.md").exists()


async def test_without_a_model_the_comment_stays_and_the_reason_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("one\n", encoding="utf-8")
    async with serving(tmp_path) as server, server.client() as http:
        made = await post(http, "", 201, **passage("one\n", "one"), text="@assistant why?")
        assert made["problem"]["code"] == "no_model"
        assert not made["thread"]["answering"]
        assert len(await listed(http)) == 1


@pytest.mark.slow
@needs_redis
async def test_comments_made_through_one_process_are_seen_through_the_other(tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "a.md").write_text("one\n", encoding="utf-8")
    async with redis(tmp_path) as own:
        options = ("--redis", own.url)
        async with serving(pages, *options) as one, serving(pages, *options) as two:
            await check_both(one, two)


async def check_both(one: Server, two: Server) -> None:
    async with (
        Tab(one.url, "a.md") as ann,
        Tab(two.url, "a.md") as ben,
        one.client() as first,
        two.client() as second,
    ):
        versions = {ann.state["comments"], ben.state.get("comments")}
        await post(second, "", 201, **passage("one\n", "one"), text="Why?", name="Ben")
        for tab in (ann, ben):
            await tab.until(lambda tab=tab: tab.state.get("comments") not in versions)
        assert await listed(first) == await listed(second)
        assert len(await listed(first)) == 1
