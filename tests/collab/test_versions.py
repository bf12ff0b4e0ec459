"""Versions of a page: what it was like before, by time and by name, and how it becomes that again."""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.collab.shared_text import SharedText
from kakite.collab.suggestions.store import Suggestions
from kakite.collab.versions.differences import find_differences
from kakite.collab.versions.named import MAX_NAMED, NamedVersions, VersionError
from kakite.collab.versions.timeline import list_file_versions
from kakite.edit import Change, ChangeSet
from kakite.workspace.edit_log_rows import LoggedWrite
from tests.collab.server import Tab, on_disk, serving

pytestmark = pytest.mark.anyio

TEXTS = st.text(alphabet="ab\n本", max_size=24)


@given(TEXTS, TEXTS)
def test_the_differences_make_one_text_the_other_and_each_has_something_to_show(now: str, then: str) -> None:
    found = find_differences(now, then)
    assert ChangeSet.of(len(now), found).apply(now) == then
    assert all(change.end > change.start or not now for change in found)
    assert (not found) == (now == then)


@given(TEXTS, TEXTS)
def test_accepting_all_that_restoring_suggests_gives_the_version(now: str, then: str) -> None:
    text = SharedText()
    if now:
        text.apply(ChangeSet.of(0, [Change(0, 0, now)]), "file")
    page = Suggestions(text, page="a.md")
    page.propose_changes(find_differences(now, then), run="1", by="Ann")
    result = page.accept_all()
    assert not result.failed
    assert str(text) == then


STEPS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 1200), st.sampled_from(["Ann", "Ben"])))


@given(STEPS)
def test_each_text_that_outlived_ten_minutes_is_a_version(steps: list[tuple[int, int, str]]) -> None:
    """Also what others wrote in between, and who wrote which."""
    writes: list[LoggedWrite] = []
    at, before = 0.0, "0"
    for number, (content, seconds, who) in enumerate(steps, 1):
        at += seconds
        outside = content == 4
        written = str(content)
        writes.append(
            LoggedWrite(
                id=number, time=at, path="/a.md", tool=f"collab: {who}", run="",
                before="outside" if outside else before, after=written, mode=0, made=0, state="done",
            )
        )  # fmt: skip
        before = written
    found = list_file_versions(writes[::-1])
    assert len({each.id for each in found}) == len(found)
    assert [each.time for each in found] == sorted((each.time for each in found), reverse=True)
    for write, later in zip_longest(writes, writes[1:]):
        lasted = later is None or later.time - write.time >= 600 or later.tool != write.tool
        assert not lasted or write.after in {each.id for each in found}
        assert write.before in {each.id for each in found} | {each.after for each in writes}


def test_named_versions_are_stored_and_have_a_limit() -> None:
    named = NamedVersions()
    for number in range(MAX_NAMED):
        named = named.add(f"text {number}", name=f"v{number}", by="Ann")
    with pytest.raises(VersionError) as full:
        named.add("more", name="more", by="Ann")
    assert full.value.code == "too_many_versions"
    again = NamedVersions.from_json(named.to_json())
    assert again == named
    assert again.all[7].text == "text 7"
    assert NamedVersions.from_json([{"id": "x"}, *named.to_json()]) == named


async def listed(http: httpx.AsyncClient, page: str = "a.md") -> list[dict[str, Any]]:
    answer = await http.get(f"/api/pages/{page}/versions")
    assert answer.status_code == 200, answer.text
    return answer.json()["versions"]


async def test_a_page_is_what_it_was_before_at_once_and_back_again(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"# Title\r\n\r\nfirst\r\n")
    async with (
        serving(tmp_path) as server,
        Tab(server.url, "a.md") as ann,
        server.client() as http,
    ):
        ann.text.insert(len(str(ann.text)), "second\n")
        await on_disk(tmp_path / "a.md", b"# Title\r\n\r\nfirst\r\nsecond\r\n")
        newest, original = await listed(http)
        assert (newest["by"], original["by"]) == ("API", "")
        seen = (await http.get(f"/api/pages/a.md/versions/{original['id']}")).json()
        assert seen["text"] == "# Title\n\nfirst\n"
        (only,) = seen["differences"]
        assert only == {"line": 4, "now": "second\n", "then": ""}
        done = await http.post(f"/api/pages/a.md/versions/{original['id']}/restore", json={"mode": "auto"})
        assert done.status_code == 200, done.text
        await on_disk(tmp_path / "a.md", b"# Title\r\n\r\nfirst\r\n")
        await http.post(f"/api/pages/a.md/versions/{newest['id']}/restore", json={"mode": "auto"})
        await on_disk(tmp_path / "a.md", b"# Title\r\n\r\nfirst\r\nsecond\r\n")


async def test_a_version_is_suggested_and_named_ones_outlive_a_restart(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("one\ntwo\n", encoding="utf-8")
    state = {"XDG_STATE_HOME": str(tmp_path / "state")}
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "a.md").write_text("one\ntwo\n", encoding="utf-8")
    async with serving(pages, environ=state) as server, server.client() as http:
        made = await http.post("/api/pages/a.md/versions", json={"name": " The first "})
        assert made.status_code == 201
        assert (await server.end(9)) == -9
    async with (
        serving(pages, environ=state) as server,
        Tab(server.url, "a.md") as ann,
        server.client() as http,
    ):
        ann.text.insert(4, "and a half\n")
        await on_disk(pages / "a.md", b"one\nand a half\ntwo\n")
        (named,) = [each for each in await listed(http) if each["name"]]
        assert (named["name"], named["by"]) == ("The first", made.json()["version"]["by"])
        await http.post(f"/api/pages/a.md/versions/{named['id']}/restore", json={"mode": "review"})
        suggestions = (await http.get("/api/pages/a.md/suggestions")).json()["suggestions"]
        assert len(suggestions) == 1
        assert (pages / "a.md").read_bytes() == b"one\nand a half\ntwo\n"
        await http.post("/api/pages/a.md/suggestions/accept")
        await on_disk(pages / "a.md", b"one\ntwo\n")
        await http.post(f"/api/pages/a.md/versions/{named['id']}/remove")
        assert not [each for each in await listed(http) if each["name"]]


async def test_who_may_only_read_sees_nothing_that_was_deleted(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("one\n", encoding="utf-8")
    async with serving(tmp_path) as server:
        headers = {"Authorization": f"Bearer {server.reading_token}"}
        async with server.client() as http:
            answer = await http.get("/api/pages/a.md/versions", headers=headers)
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "not_allowed")
            for path in ("n-0", "0" * 64):
                answer = await http.get(f"/api/pages/a.md/versions/{path}")
                assert (answer.status_code, answer.json()["error"]["code"]) == (404, "no_such_version")
