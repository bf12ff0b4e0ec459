"""Pages that are removed, brought back and renamed, through the real server."""

from __future__ import annotations

from pathlib import Path

import pytest

from kakite.collab.store import Departure, DocumentStore, DocumentWrite
from tests.collab.server import Tab, serving
from tests.collab.test_mcp import agent, call

pytestmark = [pytest.mark.anyio]

TEXT = "# 計画\n\nthe first line\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "pages"
    made.mkdir()
    (made / "a.md").write_text(TEXT, encoding="utf-8")
    return made


@pytest.mark.slow
async def test_a_removed_page_comes_back_with_all_that_was_known_of_it(folder: Path) -> None:
    async with serving(folder) as server, server.client() as http:
        async with Tab(server.url, "a.md") as ann, agent(server) as client:
            await call(client, "str_replace", "a.md", old_str="first", new_str="only")
            await http.post("/api/pages/a.md/versions", json={"name": "before"})
            ann.insert(0, "typed ")
            await ann.settle()
            assert (await http.post("/api/pages/a.md/remove")).status_code == 200
            await ann.until(lambda: ann.closed == 4404)
        assert not (folder / "a.md").exists()
        assert (await http.get("/api/pages")).json()["pages"] == []
        refused = await http.get("/api/pages/a.md")
        assert (refused.status_code, refused.json()["error"]["code"]) == (404, "no_such_page")
        assert refused.json()["error"]["removed"]["time"] > 0
        assert [each["name"] for each in (await http.get("/api/removed")).json()["pages"]] == ["a.md"]
        assert (await http.post("/api/pages/a.md/restore")).status_code == 200
        assert (await http.get("/api/removed")).json()["pages"] == []
        assert (await http.get("/api/pages/a.md")).json()["text"] == f"typed {TEXT}"
        (kept,) = (await http.get("/api/pages/a.md/suggestions")).json()["suggestions"]
        assert (kept["search"], kept["status"]) == ("first", "pending")
        versions = (await http.get("/api/pages/a.md/versions")).json()["versions"]
        assert "before" in [each["name"] for each in versions]
        assert (await http.post("/api/pages/a.md/restore")).status_code == 404


@pytest.mark.slow
async def test_a_renamed_page_keeps_all_that_was_known_of_it(folder: Path) -> None:
    async with serving(folder) as server, server.client() as http:
        async with Tab(server.url, "a.md") as ann, agent(server) as client:
            await call(client, "str_replace", "a.md", old_str="first", new_str="only")
            ann.insert(0, "typed ")
            await ann.settle()
            await http.post("/api/pages/a.md/versions", json={"name": "before"})
            history = ann.history
            asked = await http.post("/api/pages/a.md/rename", json={"name": "plans/春.md"})
            assert asked.json() == {"name": "plans/春.md"}
            await ann.until(lambda: ann.closed == 4404)
        assert (folder / "plans/春.md").read_text(encoding="utf-8") == f"typed {TEXT}"
        assert not (folder / "a.md").exists()
        refused = await http.get("/api/pages/a.md")
        assert (refused.status_code, refused.json()["error"]["renamed"]) == (404, "plans/春.md")
        assert (await http.get("/api/removed")).json()["pages"] == []
        async with Tab(server.url, "plans/春.md") as ann:
            assert ann.history == history
        (kept,) = (await http.get("/api/pages/plans%2F春.md/suggestions")).json()["suggestions"]
        assert (kept["page"], kept["status"]) == ("plans/春.md", "pending")
        versions = (await http.get("/api/pages/plans%2F春.md/versions")).json()["versions"]
        assert "before" in [each["name"] for each in versions]
        # And back again.
        await http.post("/api/pages/plans%2F春.md/rename", json={"name": "a.md"})
        assert (await http.get("/api/pages/a.md")).json()["text"] == f"typed {TEXT}"


@pytest.mark.parametrize(
    ("wanted", "code"), [("b.md", "file_exists"), ("a.png", "bad_path"), ("gone.md", "file_exists")]
)
@pytest.mark.slow
async def test_a_name_that_is_taken_or_none_is_refused_and_nothing_changes(
    folder: Path, wanted: str, code: str
) -> None:
    for name in ("b.md", "gone.md"):
        (folder / name).write_text("other\n", encoding="utf-8")
    async with serving(folder) as server, server.client() as http:
        await http.post("/api/pages/gone.md/remove")
        refused = await http.post("/api/pages/a.md/rename", json={"name": wanted})
        assert refused.json()["error"]["code"] == code
        assert (folder / "a.md").read_text(encoding="utf-8") == TEXT
        assert (folder / "b.md").read_text(encoding="utf-8") == "other\n"
        assert (await http.get("/api/pages/a.md")).json()["text"] == TEXT
        await http.post("/api/pages/gone.md/restore")
        assert (folder / "gone.md").read_text(encoding="utf-8") == "other\n"


@pytest.mark.slow
async def test_who_may_only_read_removes_renames_and_sees_removed_pages_not_at_all(folder: Path) -> None:
    (folder / "b.md").write_text("other\n", encoding="utf-8")
    async with serving(folder) as server, server.client() as http:
        await http.post("/api/pages/b.md/remove")
        async with server.client(Authorization=f"Bearer {server.reading_token}") as reader:
            for what, body in (("remove", {}), ("rename", {"name": "c.md"})):
                assert (await reader.post(f"/api/pages/a.md/{what}", json=body)).status_code == 403
            assert (await reader.post("/api/pages/b.md/restore")).status_code == 403
            assert (await reader.get("/api/removed")).json()["pages"] == []
            assert "removed" not in (await reader.get("/api/pages/b.md")).json()["error"]
        assert (folder / "a.md").read_text(encoding="utf-8") == TEXT


def test_what_was_said_about_a_page_names_it_by_its_new_name_and_other_pages_by_theirs() -> None:
    store = DocumentStore(None)
    turns = {"1": {"id": "1", "page": "a.md", "pages": ["a.md", "b.md"], "message": "a.md"}}
    open_ones = [{"id": "x", "page": "a.md", "search": "a.md"}]
    store.save(
        "a.md",
        DocumentWrite(records={"suggestions": {"open": open_ones}, "runs": [{"id": "1"}]}, turns=turns),
    )
    store.save("c.md", DocumentWrite(turns={"2": {"id": "2"}}))
    store.save_departure(Departure(name="a.md", target="c.md", by="Ann", time=1.0))
    assert store.load("a.md") is None
    found = store.load("c.md")
    assert found is not None
    assert found.turns == ({"id": "1", "page": "c.md", "pages": ["c.md", "b.md"], "message": "a.md"},)
    kept = {"id": "x", "page": "c.md", "search": "a.md"}
    assert found.records == {"suggestions": {"open": [kept]}, "runs": []}
    store.close()
